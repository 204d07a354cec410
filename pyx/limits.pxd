"""What calls take at most.  machine.pyx gives Python these numbers."""

cdef enum:
    MAX_EXTENT = 1 << 30           # pixels of a side of a map or image: their indices are int32
    MAX_SIDE = 1 << 24             # bins of a side of an output
    # Whole numbers to this one are exact in floating point; the next is rounded to it.
    MAX_EXACT = 1 << 24            # in a float
    MAX_EXACT_FLOAT16 = 1 << 11
    MAX_EXACT_BFLOAT16 = 1 << 8
