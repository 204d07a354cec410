"""Method: a way to compute the boxes of a level, from their pixels to their bins and back.

Each file of pyx/methods has one method, with all that it decides and computes, and methods.pyx has
the list.  A plan takes the first method of the list that fits a level and pays, or the one that it
is told to take.
"""
from plan.structs cimport PURPOSES, LevelJob, Task, Tasks

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
    Py_ssize_t units               # shares that stay whole: a block, or blocks with common slopes
    Py_ssize_t tile_pixels         # that the tile of one block has room for
    double cost                    # of a task, at most, if it can be divided; reading only


cdef struct Cover:                 # what the windows of some boxes cover
    Py_ssize_t y0                  # the hull of all that are not empty; its rows may be made whole
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
    void (*size_scratch)(LevelJob *job, const Tasks *tasks, Py_ssize_t level) noexcept nogil
    # A bin has channels of its own, so that work counts for each bin.
    bint bins_apart
    Pass[PURPOSES] passes          # by purpose


cdef inline void set_pass(
        Method *method, int purpose, FloatTask of_float, DoubleTask of_double) noexcept:
    method.passes[purpose].of_float, method.passes[purpose].of_double = of_float, of_double
