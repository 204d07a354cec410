// Gradients of planes that are added up in shared memory, a part of a plane at a time.
//
// If there are fewer planes than a GPU has room for warps, boxes are divided into several segments.
// Each segment has an array of its own, and add_segments adds these arrays.

// Arrays like the gradient of the map: `count` of them, `size` elements from each other.
template <typename T> struct Segments {
    T *first;
    Strides strides;
    long long size;
    int count;
};

// The part of a plane that a warp owns: PART_BYTES of pixels in shared memory.  The warp adds the
// gradients of the boxes of one segment to these pixels.
template <typename T> struct PartOfPlane {
    static constexpr int MOST = PART_BYTES / sizeof(T);
    long long channel, first; // the first of the pixels
    int image, segment, pixels, first_box, stop_box;

    static __device__ long long of_plane(const Shape &shape) {
        return ((long long)shape.rows * shape.columns + MOST - 1) / MOST;
    }

    __device__ PartOfPlane(long long t, const Shape &shape, long long channels, int segments) {
        channel = split(t, channels);
        first = split(t, of_plane(shape)) * MOST;
        segment = (int)split(t, segments);
        image = (int)t;
        long long rest = (long long)shape.rows * shape.columns - first;
        long long boxes = ((long long)shape.boxes + segments - 1) / segments;
        pixels = (int)(rest < MOST ? rest : MOST);
        first_box = (int)(boxes * segment < shape.boxes ? boxes * segment : shape.boxes);
        stop_box = (int)(first_box + boxes < shape.boxes ? first_box + boxes : shape.boxes);
    }

    __device__ void clear(T *part) const {
        for (int i = lane_number(); i < pixels; i += LANES)
            part[i] = 0;
        __syncwarp();
    }

    // Write the pixels to the array of the segment, or add them to it.
    __device__ void write(const T *part, const Segments<T> &to, int columns, bool add) const {
        const Strides &map = to.strides;
        T *plane = to.first + segment * to.size + image * map.first + channel * map.channel;
        if (map.x == 1 && map.y == columns) {
            T *pixel = plane + first + lane_number();
            for (int i = lane_number(); i < pixels; i += LANES, pixel += LANES)
                put(pixel, part[i], add);
        } else {
            for (int i = lane_number(); i < pixels; i += LANES) {
                long long y = first + i, x = split(y, columns);
                put(plane + y * map.y + x * map.x, part[i], add);
            }
        }
        __syncwarp();
    }
};

// Write the sum of the arrays of all segments to `to`.  `shape` describes the maps as if they were
// an output: images are in place of boxes, and pixels are in place of bins.
template <typename T>
__global__ void add_segments(Segments<T> segments, T *to, Strides map, Shape shape) {
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        const T *pixel = segments.first + offset_of(e, segments.strides);
        T sum = 0;
        for (int s = 0; s < segments.count; s++)
            sum += pixel[s * segments.size];
        to[offset_of(e, map)] = sum;
    }
}
