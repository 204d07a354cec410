"""Tasks: rows of int64 that schedule.pyx makes and the kernels carry out."""

cdef enum:
    IMAGE = 0
    FIRST = 1                  # boxes order[FIRST:STOP]
    STOP = 2
    BLOCK_FIRST = 3            # channel blocks
    BLOCK_STOP = 4
    BIN = 5                    # the first, p * PW + q, and one past the last; or -1 for all
    BIN_STOP = 6
    MODE = 7                   # reading: one of the below
    Y0 = 8                     # writing: the rectangle of the task; reading: the one around what its boxes read
    Y1 = 9
    X0 = 10
    X1 = 11
    LEVEL = 12                 # of several maps of different sizes
    COLUMNS = 13

cdef enum:
    WINDOW = 0                 # the window of each box is packed for itself
    ROWS = 1                   # rows are packed once and kept for the boxes that follow
    GATHERED = 2               # the channels of a pixel lie together, and what boxes read, or write, of all channel blocks or bins is copied once for them all
    EACH = 3                   # the same for each box by itself, and as many channel blocks as have room
