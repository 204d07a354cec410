"""What calls take at most.  machine.pyx gives Python these numbers."""

cdef enum:
    MAX_EXTENT = 1 << 30           # pixels of a side of a map or image: their indices are int32
    MAX_SIDE = 1 << 24             # bins of a side of an output
    # Whole numbers to this one are exact in floating point; the next is rounded to it.
    MAX_EXACT = 1 << 24            # in a float
    MAX_EXACT_FLOAT16 = 1 << 11
    MAX_EXACT_BFLOAT16 = 1 << 8


cdef inline bint tells_images(int dtype, Py_ssize_t images) noexcept nogil:
    """Whether numbers of a type can tell so many images apart."""
    if dtype == c'f':
        return images <= MAX_EXACT + 1
    if dtype == c'e':
        return images <= MAX_EXACT_FLOAT16 + 1
    return dtype != c'E' or images <= MAX_EXACT_BFLOAT16 + 1
