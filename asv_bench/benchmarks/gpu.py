"""Times on a GPU, until it has finished.  They are skipped if CuPy sees no GPU."""

from .common import load, workloads


class Gpu:
    params = [list(workloads.WORKLOADS), ["forward", "backward"], ["NCHW", "NHWC"]]
    param_names = ["workload", "direction", "layout"]
    timeout = 120
    warmup_time = 0.5

    def setup(self, workload, direction, layout):
        try:
            import cupy
        except ImportError:
            raise NotImplementedError("CuPy is not installed") from None
        if not cupy.cuda.is_available():
            raise NotImplementedError("no GPU")
        work = workloads.WORKLOADS[workload]
        self.call = work.call(load(), work.arrays(), direction, layout, True, 1, cupy.asarray)
        self.wait = cupy.cuda.get_current_stream().synchronize
        self.call()
        self.wait()

    def time_gpu(self, *_):
        self.call()
        self.wait()
