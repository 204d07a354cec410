"""What a plan consists of: plain C structs, filled in for each step.

Forward passes write `result`, and those of maxima `argmax`.  Tasks that own pixels write `map`, and
in the gradient of roi_align_max `grad_input`.  Gradients of boxes write `partial_sums`.

Letters in comments: N images, C channels, H x W pixels, K boxes, PH x PW bins, i a box by its
place in the tables.
"""
from libc.stdint cimport int32_t, uint8_t

from plan.rules cimport LevelRule, RuleNumbers
from simd.structs cimport Strides
from simd.table cimport Simd
from threads cimport Team

cdef struct Call
cdef struct Method

cdef enum:                         # purposes: what a plan is for, which is a pass
    FORWARD
    GRAD_INPUT
    GRAD_BOXES
    MAX_PIXEL
    MAX_PIXEL_GRAD
    MAX_SAMPLE
    MAX_SAMPLE_GRAD
    PURPOSES                       # how many there are


cdef inline bint writes_maps(int purpose) noexcept nogil:
    """Whether tasks own pixels of a map, and read bins, rather than boxes."""
    return purpose == GRAD_INPUT or purpose == MAX_PIXEL_GRAD or purpose == MAX_SAMPLE_GRAD


cdef enum TapKind:                 # of tables: what the bins of a box read
    SEPARABLE                      # pixels of either axis, by the product of two weights
    SAMPLES                        # bilinear samples of either axis, one by one
    PIXEL_SPANS                    # all pixels of a span of either axis
    SPARSE_TAPS                    # pixels (y, x), each with a weight: the box is turned

cdef enum Load:                    # how a task gets its pixels
    PACK_WINDOW                    # the window of each box, or nothing where it is read in place
    PACK_ROWS                      # whole rows, once for all boxes of the task
    COPY_ONCE                      # what all boxes of the task read, for all its blocks or bins
    COPY_PER_BOX                   # of each box by itself, as the method's next_copy says


cdef enum Way:                     # how the bins of an upright box are computed
    NOTHING                        # they read no pixel
    WHOLE                          # their window is loaded at once
    TAPS                           # only the rows and columns that have taps are loaded
    CELLS                          # their window is larger than a tile, and is loaded cell by cell


cdef struct Scale:
    double y
    double x


cdef struct Map:                   # feature maps, or their gradient
    char *data
    int dtype                      # NumPy's character of its type
    int itemsize
    Strides strides
    Py_ssize_t images
    Py_ssize_t rows
    Py_ssize_t columns


cdef struct Boxes:                 # of all levels, a list that grows; box k is row k of the output
    Py_ssize_t count
    Py_ssize_t room
    int32_t *images
    double *numbers                # [count][width], rounded to the type of the computation
    int width                      # 4: x1, y1, x2, y2; 5: cx, cy, w, h, angle of a turned box


cdef struct Order:                 # the boxes of a level, sorted by image, then by place
    Py_ssize_t count
    const int32_t *boxes           # [count]
    const Py_ssize_t *starts       # [images + 1]: of each image, in the order of all levels


cdef enum:
    MOST_TABLES = 16               # that are allocated for the boxes of a step


cdef struct Tables:                # of boxes first .. stop - 1 of an order
    int tap_kind                   # of enum TapKind
    Py_ssize_t spans_of_box        # PH + PW: bins of y, then of x; SPARSE_TAPS: PH * PW
    int numbers_of_tap             # 1: its pixel along an axis; 2: y and x
    int slopes_of_tap              # 0 where slopes are not asked for
    Py_ssize_t first
    Py_ssize_t stop
    Py_ssize_t count               # stop - first
    Py_ssize_t taps
    Py_ssize_t *starts             # [images + 1]: as in the order, but counted from `first`
    const int32_t *rows            # [i]: of the output, which are the boxes of the order
    int32_t *windows               # [i][y0, y1, x0, x1]: pixels that the box reads
    uint8_t *ways                  # [i]: of enum Way, behind the windows in their memory
    uint8_t *x_first               # [i]: whether a box is contracted along x first; behind the ways
    # The taps of each bin: those along y of all bins of a box, then those along x.  PIXEL_SPANS:
    # spans are pixels themselves, and there are no taps.  SAMPLES: a tap is a sample, whose pixel
    # is the one at or before it, and whose weight is how far it lies behind that pixel.
    int32_t *spans                 # [i][spans_of_box][first, stop]
    int32_t *tap_pixel             # [taps]; SPARSE_TAPS: [taps][y, x]
    void *tap_weight               # [taps]
    # Derivatives of weights by the numbers of a box, where they are asked for.
    void *tap_slopes               # [low, high][taps]; SPARSE_TAPS: [cx, cy, w, h, angle][taps]
    uint8_t *outside               # SAMPLES: [i][spans_of_box]: whether some lie off the map
    # How many pixels are read of a box that reads few of its window, and 0 of others.  SPARSE_TAPS:
    # of a box the windows of whose bins have few pixels.  NULL where no box reads few.
    int32_t *few_pixels            # [i]
    int slots_of_tap               # 2 where a tap needs the pixel after it as well, else 1
    int32_t *tap_slot              # [taps]: the first slot of each tap, which is a row or column
    int32_t *slot_pixel            # [slots_of_tap * taps]: the pixel of each slot
    # made by transpose_tables, for gradients of the input:
    int32_t *counts                # [i][y, x]: pixels that are read along each axis
    int32_t *pixels                # [taps]: pixels of y from spans[i][0] on, of x from spans[i][PH]
    int32_t *pixel_spans           # [taps][2]: the bins of each pixel
    int32_t *bin                   # [taps]: bins of a pixel, ascending; descending if inverted
    void *bin_weight               # [taps]: the weight of the pixel in that bin
    void *memory[MOST_TABLES]      # of all these
    int allocated                  # blocks of memory


cdef struct Task:                  # what one thread does at a time; tasks do not overlap
    Py_ssize_t level
    Py_ssize_t image
    Py_ssize_t first_box           # boxes first_box .. stop_box - 1 of the level's tables
    Py_ssize_t stop_box
    Py_ssize_t first_block         # channel blocks, of a lane vector each
    Py_ssize_t stop_block
    Py_ssize_t first_bin           # bins p * PW + q of a position-sensitive operator, else all bins
    Py_ssize_t stop_bin
    int load
    Py_ssize_t y0                  # pixels [y0, y1) x [x0, x1): what the task writes, or if it only
    Py_ssize_t y1                  # reads, what its boxes read
    Py_ssize_t x0
    Py_ssize_t x1
    double cost
    Py_ssize_t index               # in the list, before it is sorted by cost


cdef struct Tasks:                 # a list that grows
    Task *items
    Py_ssize_t count
    Py_ssize_t room


cdef struct ScratchSizes:          # where parts of a thread's scratch begin, in bytes; tile at 0
    Py_ssize_t strip
    Py_ssize_t bins
    Py_ssize_t staging             # BINS_BYTES
    Py_ssize_t size
    Py_ssize_t tile_bytes          # of one tile
    Py_ssize_t tiles_bytes         # of all tiles: gradients of the boxes have one for each block
    Py_ssize_t strip_bytes


cdef struct MaximaJob:             # what only passes of maxima need
    int32_t *argmax                # of roi_pool
    Strides argmax_strides
    int32_t *bad                   # 1 once a task met an index of no pixel
    bint products                  # roi_align_max: the largest product of weight and pixel
    void *grad_input               # gradient of roi_align_max: what is written, while `map` is read
    Strides grad_strides


cdef struct SlopesJob:             # what only gradients of boxes need
    double *partial_sums           # [sums of a box][box_count][box_numbers], to be added up
    Py_ssize_t box_count           # boxes of all levels
    Py_ssize_t cell_pixels         # the most pixels of a window that are looked at together


cdef struct LevelJob:              # what a call does with one level; most often there is only one
    const Call *call
    const Method *method           # NULL until the level has tables
    Map map
    Scale scale                    # from coordinates of boxes to pixels of the map
    Order order
    Tables tables
    ScratchSizes scratch
    int store                      # of enum store of simd/structs.h
    bint add                       # gradients are added to what is there
    bint prefetch                  # pixels come from memory and are asked for ahead
    MaximaJob maxima
    SlopesJob slopes


cdef struct Call:
    # what is asked for
    int purpose
    bint position_sensitive        # each bin has channels of its own
    int ph
    int pw
    int itemsize                   # of the type of the computation
    RuleNumbers rule
    LevelRule level_rule           # which level a box is pooled from; all zeros for one map
    Py_ssize_t levels
    LevelJob *jobs                 # [levels]; `map` and `scale` are the caller's to set
    Py_ssize_t input_channels
    Py_ssize_t channels            # of the output
    Py_ssize_t channels_per_output  # input channels of an output channel: PH * PW or 1
    Boxes boxes
    int max_threads
    Team *team
    Py_ssize_t max_boxes           # of a level in a step; tests take few
    # results beside maps, and argmax
    void *result                   # output, or gradient of it, as (K, C, PH, PW)
    Strides out_strides            # of the result
    char *small                    # the output in a type of 2 or fewer bytes, or NULL
    int small_dtype                # NumPy's character of that type
    void *grad_boxes               # [boxes][grad_columns], of which a box has the last
    Py_ssize_t grad_columns
    bint trusts_argmax             # indices are checked as they are used, and not before
    int32_t bad                    # 1 once an index of no pixel was met
    # the plan
    const Simd *simd               # functions for the type of the computation
    int lanes                      # numbers of that type in a lane vector; or 1, as `begin` says
    int32_t *order                 # boxes by level, image and place
    Py_ssize_t *starts             # [levels * images + 2]: where those of each image begin
    Tasks tasks
    int threads                    # that carry out this step
    Py_ssize_t scratch_bytes       # of each
    bint begun
    bint ready                     # a step is planned and waits to be run
    bint has_more                  # there is another step to plan
    Py_ssize_t steps


# --- Methods: ways to compute the boxes of a level, from their pixels to their bins and back

# Compute a task.  memory: scratch of the thread.  The number is not read: its type chooses one of
# the two functions that Cython makes for float and for double.
ctypedef void (*FloatTask)(
    const LevelJob *job, const Task *task, char *memory, float) noexcept nogil
ctypedef void (*DoubleTask)(
    const LevelJob *job, const Task *task, char *memory, double) noexcept nogil


cdef struct Pass:
    FloatTask of_float
    DoubleTask of_double


cdef struct Work:                  # what all tasks of a call share
    int threads                    # that are worth waking
    Py_ssize_t bins
    Py_ssize_t blocks              # channel blocks
    Py_ssize_t whole_blocks        # of those, the ones that fill a lane vector
    Py_ssize_t units               # what shares do not divide: a block, or a group of blocks
    Py_ssize_t tile_pixels         # that the tile of one block has room for
    double cost                    # of a task, at most, if it can be divided; reading only


cdef struct Cover:                 # what the windows of some boxes cover
    Py_ssize_t y0                  # the hull of those not empty; x may be widened to whole rows
    Py_ssize_t y1
    Py_ssize_t x0
    Py_ssize_t x1
    double hull                    # pixels of it
    double area                    # pixels of the windows, added up
    double rows                    # rows of the windows, added up
    Py_ssize_t max_rows            # of one window
    double cost
    double max_cost                # of one box


cdef struct Shares:                # how the work of an image is divided
    Py_ssize_t blocks              # into so many shares of channel blocks
    Py_ssize_t bins                # and so many of bins
    Py_ssize_t max_boxes           # of a task
    int load                       # of enum Load
    # Reading.  PACK_WINDOW becomes PACK_ROWS if that costs less.  Costs are in pixels of whole
    # rows, which are packed once.  If both are 0, nothing is packed.
    double pixel_cost              # of a pixel of a window
    double row_cost                # of a row of a window
    bint divides_boxes             # blocks are divided for boxes that are much of a thread's work
    # Writing.
    Py_ssize_t rows                # of a task at most
    Py_ssize_t columns
    Py_ssize_t bands               # rows are divided into so many shares or more


# What a method does not set stays NULL or 0: passes that it does not have, next_copy where no task
# copies boxes, and shares_to_write where no pass of it writes maps.
cdef struct Method:
    const char *name
    # Why it cannot compute a level, whose tables are there; NULL if it can.
    const char *(*unfit)(const LevelJob *job) noexcept nogil
    # Whether it takes less time than the methods after it.  few: how many boxes have few taps.
    bint (*pays)(const LevelJob *job, Py_ssize_t few) noexcept nogil
    # Set what the passes need to know of each box, and whether they prefetch.
    void (*prepare)(LevelJob *job) noexcept nogil
    # How the boxes of an image are divided into tasks of forward passes and gradients of boxes.
    Shares (*shares_to_read)(
        const LevelJob *job, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil
    # How maps are divided into tasks of gradients of the input.
    Shares (*shares_to_write)(const LevelJob *job, const Work *work) noexcept nogil
    # Set `one` to what comes next of a task that copies each box by itself; False after the last.
    bint (*next_copy)(const LevelJob *job, const Task *task, Task *one) noexcept nogil
    # Lay out the scratch of a thread, which has to hold what the tasks of the level need.
    void (*size_scratch)(LevelJob *job) noexcept nogil
    # A bin has channels of its own, so that work counts for each bin.
    bint bins_apart
    Pass[PURPOSES] passes          # by purpose


cdef inline void set_pass(
        Method *method, int purpose, FloatTask of_float, DoubleTask of_double) noexcept:
    method.passes[purpose].of_float, method.passes[purpose].of_double = of_float, of_double
