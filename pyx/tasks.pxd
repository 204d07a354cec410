"""Tasks: rows of int64 that schedule.pyx makes and the kernels carry out."""

cdef enum:
    IMAGE = 0
    FIRST = 1                  # boxes order[FIRST:STOP]
    STOP = 2
    BLOCK_FIRST = 3            # channel blocks
    BLOCK_STOP = 4
    BIN = 5                    # p * PW + q, or -1 for all bins
    MODE = 6                   # reading: WINDOW or ROWS
    Y0 = 7                     # writing: the rectangle of the task; reading: the rows and columns that its boxes read
    Y1 = 8
    X0 = 9
    X1 = 10
    LEVEL = 11                 # of several maps of different sizes
    COLUMNS = 12

cdef enum:
    WINDOW = 0                 # the window of each box is packed for itself
    ROWS = 1                   # rows are packed once and kept for the boxes that follow
