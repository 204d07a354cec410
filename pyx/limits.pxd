"""What kernels and nodes take at most, for calls whose arguments Python has not checked.

roicy/_checks/_arguments.py says this to Python's callers, by the names at the ends of the lines.
"""

cdef enum:
    MAX_EXTENT = 1 << 30           # pixels of a side of a map or image: MOST_PIXELS
    MAX_SIDE = 1 << 24             # bins of a side of an output: MOST_BINS
    MAX_EXACT = 1 << 24            # whole numbers in a float: LARGEST_EXACT
