// These kernels compute gradients of maps by planes, of which a warp owns a part in shared memory
// (segments.cu).  On the CPU, grad_input.pyx and max_pool.pyx of pyx/kernels do this.

// What a lane reads of a box: the gradient of a bin, a tap along y and a tap along x.
template <typename T> struct ReadOfBox {
    T grad;
    int rows, columns; // taps of the bin
    Tap<T> y, x;
};

// Add the gradients of a bin with a channel of its own to the map.  Lanes are taps, 4 rows of 8 at
// a time.
template <typename T> struct BinOfPlane {
    static constexpr int SIDE = 8;
    const Tables<T> &tables;
    const T *grads; // of the bin, of the first box
    int p, q;

    static __device__ int row() { return lane_number() / SIDE; }
    static __device__ int column() { return lane_number() % SIDE; }

    __device__ const Tap<T> *taps(long long k, int bin) const {
        return tables.taps + tables.slot_of(k, bin);
    }

    // Slots behind the taps of a bin are not read, since nothing was written there.
    __device__ ReadOfBox<T> read(long long k, long long box_step) const {
        int x = tables.shape.ph + q, rows = tables.counts_of(k)[p],
            columns = tables.counts_of(k)[x];
        return {grads[k * box_step], rows, columns, row() < rows ? taps(k, p)[row()] : Tap<T>{0, 0},
                column() < columns ? taps(k, x)[column()] : Tap<T>{0, 0}};
    }

    __device__ void add(const ReadOfBox<T> &box, long long k, const PartOfPlane<T> &at,
                        T *part) const {
        int x_bin = tables.shape.ph + q;
        for (int i = row(); i < box.rows; i += LANES / SIDE)
            for (int j = column(); j < box.columns; j += SIDE) {
                Tap<T> y = i == row() ? box.y : taps(k, p)[i];
                Tap<T> x = j == column() ? box.x : taps(k, x_bin)[j];
                long long pixel = (long long)y.pixel * tables.shape.columns + x.pixel - at.first;
                if (pixel >= 0 && pixel < at.pixels)
                    part[pixel] = fma(y.weight * x.weight, box.grad, part[pixel]);
            }
        __syncwarp();
    }
};

// Add up the gradients of the map where each bin has a channel of its own.  The loads for the next
// box are in flight while one box is added.
template <typename T>
__global__ void __launch_bounds__(THREADS_OF_PLANES)
    backward_bins(const T *grad_output, Strides bins, Segments<T> to,
                  const __grid_constant__ Tables<T> tables) {
    __shared__ T parts[THREADS_OF_PLANES / LANES][PartOfPlane<T>::MOST];
    const Shape &shape = tables.shape;
    T *part = parts[warp_of_block()];
    int lane = lane_number(), all = shape.ph * shape.pw;
    long long channels = (long long)shape.channels * all;
    for (long long t = warp_number();
         t < shape.images * channels * PartOfPlane<T>::of_plane(shape) * to.count;
         t += warp_count()) {
        PartOfPlane<T> at(t, shape, channels, to.count);
        int number = (int)(at.channel % all), p = number / shape.pw, q = number % shape.pw;
        BinOfPlane<T> bin = {
            tables, grad_output + at.channel / all * bins.channel + p * bins.y + q * bins.x, p, q};
        at.clear(part);
        for (int from = at.first_box; from < at.stop_box; from += LANES) {
            unsigned boxes = __ballot_sync(ALL, from + lane < at.stop_box &&
                                                    tables.images[from + lane] == at.image);
            ReadOfBox<T> next = {};
            long long next_k = -1;
            do {
                ReadOfBox<T> now = next;
                long long k = next_k;
                next_k = boxes ? from + next_of(boxes) : -1;
                if (next_k >= 0)
                    next = bin.read(next_k, bins.first);
                if (k >= 0)
                    bin.add(now, k, at, part);
            } while (next_k >= 0);
        }
        at.write(part, to, shape.columns, tables.add);
    }
}

// Add the gradients of lanes to the numbers at `places` of a part of a plane: first those of some
// lanes, and so on.  The lanes of a turn should have different places.  A lane writes its number to
// its place to see whether it is alone there.  If not, all turns are undone, and lanes of a place
// add one after the other, in their order.
template <int TURNS, typename T>
__device__ inline void add_to_part(T *part, const int (&places)[TURNS], const T (&grads)[TURNS]) {
    T before[TURNS], number = (T)lane_number();
    bool alone = true;
    UNROLL(turn, TURNS) {
        T *at = part + places[turn];
        before[turn] = *at;
        __syncwarp();
        *at = number;
        __syncwarp();
        alone = alone && *at == number;
        __syncwarp();
        *at = before[turn] + grads[turn];
        __syncwarp();
    }
    if (!__ballot_sync(ALL, !alone))
        return;
#pragma unroll
    for (int turn = TURNS - 1; turn >= 0; turn--) {
        part[places[turn]] = before[turn];
        __syncwarp();
    }
#pragma unroll 1
    for (int turn = 0; turn < TURNS; turn++) {
        int place = places[0];
        T grad = grads[0];
#pragma unroll
        for (int other = 1; other < TURNS; other++)
            place = turn == other ? places[other] : place,
            grad = turn == other ? grads[other] : grad;
        unsigned same = __match_any_sync(ALL, place);
        int lanes_before = __popc(same & ((1u << lane_number()) - 1));
#pragma unroll 1
        for (int i = 0; __ballot_sync(ALL, lanes_before >= i); i++) {
            if (lanes_before == i)
                part[place] += grad;
            __syncwarp();
        }
    }
}

// Gradients with the pixels that they belong to.
template <typename T> struct PixelsOfBins {
    static constexpr int ROWS = 2; // an even row of bins and the one below it
    int pixel[ROWS];
    T grad[ROWS];
};

// A bin of an even row of bins and the bin below it, which a lane reads of each box.  Distances in
// memory are in bytes.
template <typename T> struct PairOfBins {
    static constexpr int ROWS = PixelsOfBins<T>::ROWS;
    bool some[ROWS]; // whether the bins exist
    int odd;         // 1 in odd columns of bins
    const char *pixels[ROWS], *grads[ROWS];
    long long pixels_step, grads_step; // from box to box
    bool near;                         // whether 32 bits suffice for a step, which is faster

    __device__ PairOfBins(int bin, const Shape &shape, const int *argmax, const Strides &at,
                          const T *grad_output, const Strides &bins)
        : odd(bin % shape.pw % 2), pixels_step(at.first * (int)sizeof(int)),
          grads_step(bins.first * (int)sizeof(T)) {
        near = (int)pixels_step == pixels_step && (int)grads_step == grads_step;
        int p = bin / shape.pw * ROWS, q = bin % shape.pw;
        UNROLL(e, ROWS) {
            some[e] = p + e < shape.ph;
            // A lane without a bin reads another one, and adds nothing.
            long long y = some[e] ? p + e : 0, x = some[e] ? q : 0;
            pixels[e] = known_as_it_is((const char *)(argmax + y * at.y + x * at.x));
            grads[e] = known_as_it_is((const char *)(grad_output + y * bins.y + x * bins.x));
        }
    }

    __device__ PixelsOfBins<T> load(int k) const {
        PixelsOfBins<T> loaded;
        UNROLL(e, ROWS) {
            long long to_pixels = (long long)k * (int)pixels_step;
            long long to_grads = (long long)k * (int)grads_step;
            if (!near)
                to_pixels = k * pixels_step, to_grads = k * grads_step;
            loaded.pixel[e] = __ldg((const int *)(pixels[e] + to_pixels));
            loaded.grad[e] = __ldg((const T *)(grads[e] + to_grads));
        }
        return loaded;
    }

    __device__ void add(const PixelsOfBins<T> &box, const PartOfPlane<T> &plane, T *part) const {
        int nowhere = PartOfPlane<T>::MOST + lane_number(); // for a lane that has nothing to add
        int places[2 * ROWS];
        T added[2 * ROWS];
        UNROLL(e, ROWS) {
            unsigned place = (unsigned)box.pixel[e] - (unsigned)plane.first;
            bool mine = some[e] && place < (unsigned)plane.pixels;
            UNROLL(column, 2) {
                places[2 * e + column] = mine && odd == column ? (int)place : nowhere;
                added[2 * e + column] = box.grad[e];
            }
        }
        add_to_part(part, places, added);
    }
};

// Add the gradient of each bin to its largest pixel.  Bins overlap only their neighbours where they
// have a pixel at least, so the bins of every other row and column are added at once: these rarely
// have a pixel in common.  The loads for the next bins are in flight while these are added.
template <typename T>
__global__ void __launch_bounds__(THREADS_OF_PLANES)
    largest_pixel_backward(const T *grad_output, Strides bins, const int *argmax, Strides at,
                           Given<T> given, Segments<T> to, Shape shape) {
    __shared__ T parts[THREADS_OF_PLANES / LANES][PartOfPlane<T>::MOST + LANES];
    T *part = parts[warp_of_block()];
    int lane = lane_number(), pairs = (shape.ph + 1) / 2 * shape.pw;
    part[PartOfPlane<T>::MOST + lane] = 0;
    for (long long t = warp_number();
         t < (long long)shape.images * shape.channels * PartOfPlane<T>::of_plane(shape) * to.count;
         t += warp_count()) {
        PartOfPlane<T> plane(t, shape, shape.channels, to.count);
        const int *pixels = argmax + plane.channel * at.channel;
        const T *grads = grad_output + plane.channel * bins.channel;
        plane.clear(part);
        for (int bin = lane; bin - lane < pairs; bin += LANES) {
            PairOfBins<T> pair(bin, shape, pixels, at, grads, bins);
            for (int from = plane.first_box; from < plane.stop_box; from += LANES) {
                unsigned boxes = __ballot_sync(
                    ALL, from + lane < plane.stop_box &&
                             image_of(given, from + lane, shape.images) == plane.image);
                if (!boxes)
                    continue;
                PixelsOfBins<T> next = pair.load(from + next_of(boxes));
#pragma unroll 1
                for (bool more = true; more;) {
                    PixelsOfBins<T> now = next;
                    more = boxes;
                    if (more)
                        next = pair.load(from + next_of(boxes));
                    pair.add(now, plane, part);
                }
            }
        }
        plane.write(part, to, shape.columns, false);
    }
}
