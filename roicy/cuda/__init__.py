"""The operators on CuPy arrays.

``roicy.roi_align`` and the other operators take CuPy arrays with the same parameters and the
same meaning as NumPy arrays.  Data is float32 or float64.

Work is queued on the current stream, and no call waits for it.  Arguments are checked by shape
and dtype, but values on the device are not looked at.  So a wrong value, which is an error on
the CPU, has a defined outcome here.  A box reads nothing if a corner is not finite, or if there
is no image with its batch index: its output and its gradient are 0, and it adds nothing to the
gradient of the input.  An entry of `argmax` that is not a pixel of the plane adds nothing either.

Results have the same bits in every run.
"""
