"""What images/structs.h, axis.h and runs.h offer to Cython; they say what it is."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from simd.structs cimport Interval, Source, Sums

cdef extern from "images/structs.h":
    enum: BYTE
    enum: CROP_ROWS
    enum: CROP_COLUMNS
    enum: CROP_CHANNELS
    enum: CROP_TRIANGLES
    enum: CROP_YUV
    enum: YUV_SPARE
    enum: RESIZE_BITS
    enum: RESIZE_LOW
    enum: RESIZE_ROWS
    enum: WARP_SAMPLES
    enum: REACHED
    enum: TORCHVISION
    enum: REAL_VALUES

    ctypedef struct Axis "struct crop_axis":
        int32_t bin_low
        int32_t bin_stop
        int32_t low
        int32_t stop
        double bin_size
        double half
        bint repeats

    ctypedef struct Plane "struct crop_plane":
        const char *start
        Py_ssize_t stride_y
        Py_ssize_t stride_x

    ctypedef struct Frame "struct frame":
        Source pixels
        int32_t height
        int32_t width
        int32_t *low
        int32_t *stop
        Plane *chroma
        const void *yuv

    ctypedef struct CropPixels "struct crop_pixels":
        int channels
        Py_ssize_t *place
        float *scale
        float *bias
        float *pad

    ctypedef struct CropTarget "struct crop_target":
        Py_ssize_t stride_y
        Py_ssize_t stride_x
        Py_ssize_t stride_c
        int channels
        int kind
        int itemsize
        int zero
        int flip
        bint interleaved

    ctypedef struct Yuv "struct crop_yuv":
        int shared
        bint wide
        bint own_chroma
        bint rgb565
        int16_t luma
        int16_t *bias
        int16_t *from_u
        int16_t *from_v

    ctypedef struct ResizePair "struct resize_pair":
        int16_t *low
        int16_t *high

    ctypedef struct ResizeAxis "struct resize_axis":
        int32_t count
        int32_t taps
        const int32_t *spans
        const ResizePair *pairs
        int32_t bits
        int32_t wide

    ctypedef struct ResizeTarget "struct resize_target":
        const Py_ssize_t *rows
        const Py_ssize_t *columns
        int32_t run
        Py_ssize_t stride
        Py_ssize_t *places
        const char **tables
        int itemsize
        int repeats
        Py_ssize_t repeat_stride
        bint copied

    ctypedef struct ResizeBlock "struct resize_block":
        const uint8_t *start
        Py_ssize_t stride
        int pitch
        int channels
        int rows
        int32_t row
        int32_t first
        int32_t stop

    ctypedef struct Warp "struct warp":
        pass

    ctypedef struct Place "struct mask_place":
        int64_t y0
        int64_t y1
        int64_t x0
        int64_t x1
        int64_t *origin
        int64_t *size

    ctypedef struct Prototypes "struct prototypes":
        const void *numbers
        const void *coefficients
        Py_ssize_t count
        int64_t height
        int64_t width
        const int64_t *boxes
        bint squashed
        bint cut

    ctypedef struct Masks "struct masks":
        const void *numbers
        const Prototypes *mixed
        const Masks *enlarged
        const Place *places
        const double *corners
        int32_t *extent
        int32_t *skipped
        bint single
        bint along_y
        int rule
        int values
        bint squashed
        double threshold

    ctypedef struct MaskLines "struct mask_lines":
        Py_ssize_t count

    ctypedef struct ImageTable "struct image_table":
        void (*crop_complete)(
            const Sums *to, int count, const Interval *columns, const Interval *rows,
            const CropPixels *pixels) noexcept nogil
        void (*crop_store)(
            const float *sums, int rows, int count, char *to,
            const CropTarget *target) noexcept nogil
        void (*crop_intervals)(
            const Axis *axis, int32_t first, int count, Interval *intervals) noexcept nogil
        void (*crop_convert)(
            const Frame *frame, Py_ssize_t y, Py_ssize_t x, Py_ssize_t count,
            uint8_t *to) noexcept nogil
        void (*warp_set)(
            Warp *warp, const double *m, const int32_t *shown, int rule, bint repeats,
            const CropPixels *pixels) noexcept nogil
        void (*warp_hull)(
            const Warp *warp, const Frame *frame, int32_t *low, int32_t *stop) noexcept nogil
        void (*warp_pixels)(
            const Frame *frame, const Warp *warp, const CropTarget *target, int32_t p,
            int32_t width, char *row) noexcept nogil
        void (*resize_line)(
            const ResizeAxis *axis, int i, const uint8_t *start, Py_ssize_t stride,
            Py_ssize_t count, uint8_t *to) noexcept nogil
        void (*resize_columns)(
            const ResizeAxis *axis, int first, int stop, int pitch, int channels, int rows,
            const uint8_t *lines, uint8_t *to) noexcept nogil
        void (*resize_to_lines)(
            const uint8_t *start, Py_ssize_t stride, int rows, int columns,
            uint8_t *to) noexcept nogil
        void (*resize_to_rows)(
            const uint8_t *start, int lines, int rows, uint8_t *to,
            Py_ssize_t stride) noexcept nogil
        void (*resize_store)(
            const ResizeTarget *target, const ResizeBlock *block, char *out) noexcept nogil
        void (*mask_open)(MaskLines *lines, const Masks *masks, Py_ssize_t k) noexcept nogil
        void (*mask_mix)(
            MaskLines *lines, const Masks *masks, Py_ssize_t k, const int64_t (*pixels)[2],
            void *memory) noexcept nogil
        void (*mask_begin)(MaskLines *lines, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
        const void *(*mask_line)(MaskLines *lines, Py_ssize_t line) noexcept nogil


cdef extern from "images/axis.h":
    void crop_axis_set(Axis *axis, double low, double high, int rule) noexcept nogil
    void crop_axis_limit(Axis *axis, double first, double second) noexcept nogil
    double crop_within(double v, double low, double high) noexcept nogil
    double crop_axis_hull(const Axis *axis, int32_t *low, int32_t *stop) noexcept nogil


cdef extern from "images/runs.h":
    ctypedef struct Runs "struct runs":
        char *text
        size_t used
        bint lacks_memory

    void runs_add(Runs *runs, int value, int64_t count) noexcept nogil
    void runs_add_pixels(Runs *runs, const uint8_t *pixels, Py_ssize_t count) noexcept nogil
    void runs_end(Runs *runs) noexcept nogil
