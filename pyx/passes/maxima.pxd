"""Maxima: the passes of largest pixels and samples, which planes and pixels have in common."""
from passes.max_pool cimport pool_grad_task, pool_task
from passes.max_sample cimport sample_grad_task, sample_task
from plan.facts cimport TILE_PIXELS
from plan.method cimport Method, Shares, Work, set_pass
from plan.structs cimport (COPY_ONCE, MAX_PIXEL, MAX_PIXEL_GRAD, MAX_SAMPLE, MAX_SAMPLE_GRAD,
                           LevelJob)
from plan.tasks cimport ceiling
from simd.structs cimport LANE_BYTES

cdef enum:
    PLANES_BYTES = 256 << 10       # planes of a task: half of a small level 2 cache    # R178


cdef inline void shares_of_maxima(
        const LevelJob *job, const Work *work, bint together, Shares *shares) noexcept nogil:
    """How channels of gradients are divided, whose boxes write anywhere.

    together: the channels of a pixel are written together, whatever their number.  Other tasks have
    no more planes than stay in cache.
    """
    cdef Py_ssize_t pixels = job.map.rows * job.map.columns, for_cache = 1
    if not together:
        for_cache = ceiling(work.blocks * pixels * LANE_BYTES, PLANES_BYTES)
    shares.blocks = min(work.blocks, max(<Py_ssize_t>work.threads, for_cache))
    # Neighbouring channels of a pixel share cache lines, and hardware fetches the next one too.  A
    # tile for each thread keeps threads from taking them from each other.
    if (job.purpose == MAX_PIXEL_GRAD and together and shares.blocks > 1
            and pixels * ceiling(work.blocks, shares.blocks) <= TILE_PIXELS):
        shares.load = COPY_ONCE


cdef inline void set_maxima(Method *method) noexcept:
    set_pass(method, MAX_PIXEL, pool_task[float], pool_task[double])
    set_pass(method, MAX_PIXEL_GRAD, pool_grad_task[float], pool_grad_task[double])
    set_pass(method, MAX_SAMPLE, sample_task[float], sample_task[double])
    set_pass(method, MAX_SAMPLE_GRAD, sample_grad_task[float], sample_grad_task[double])
