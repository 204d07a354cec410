"""Tuning constants of plans and kernels: value, unit, what it bounds and why, and its record.

Records are rows of docs/records.md.  `# no record` says that the value is a choice that nobody
measured, or a bound and not a tuning.  Constants that only one C header or Python file needs stand
there, with their records.
"""

# --------------------------------------------------------------------------------- plan: tables
cdef enum:
    TABLE_BYTES = 8 << 20          # bytes of tables made at once: bounds memory        # no record
    MAX_TAPS_BOUND = 1 << 16       # taps of a rotated box: more are counted first      # no record
    PLACE_BUCKETS = 1024           # buckets of the sort by place: rows, or bands       # R011
    PLACE_BANDS = 32               # buckets from left to right, if nothing is packed   # R014
    MIN_BAND_ROWS = 32             # rows of a band: the next band is still in cache    # R014

# ---------------------------------------------------------------------------------- plan: tasks
cdef enum:
    TASKS_PER_THREAD = 4           # tasks, so that a dynamic schedule ends evenly      # no record
    NARROW_COST = 10               # cost of a pixel of one bin, in pixels of rows      # R030
    MIN_COPY_BINS = 4              # position-sensitive bins worth copying together     # R172
    COPY_COST = 3                  # cost of a pixel of them all, in pixels of one bin  # R173
    COPY_PIXELS_BYTES = 2 << 20    # pixels copied once: they stay in a level 2 cache   # R123
    MIN_COPY_BLOCKS = 8            # channel blocks of a pixel: shorter runs are slow   # R125
    MIN_COPY_COVER = 4             # times that boxes cover a map that is copied once   # R124
    FAR_WINDOW_BYTES = 8 << 20     # of a window: larger ones are read from memory      # R128
    TILE_COST = 4                  # of a lane vector in a tile, in numbers added in place # R354
    PLANES_BYTES = 256 << 10       # planes of a task: half of a small level 2 cache    # R178
    WHOLE_ROWS = 16                # rows are whole if boxes leave out 1/16 of them     # R054

# Costs that are not whole numbers, which an enum cannot hold.
cdef extern from *:
    """
    #define WINDOW_COST 1.5
    #define PIXEL_COST 1.5
    #define BIN_COST 4.0
    #define MOVE_COST 0.25
    #define EVEN_SHARE 1.001
    #define DIVIDE_SHARE 1.5
    """
    const double WINDOW_COST       # of a pixel read in short runs, in pixels of whole rows # R017
    const double PIXEL_COST        # of a pixel of a box, in lane vectors: rough        # no record
    const double BIN_COST          # of a bin of a box, in lane vectors: rough          # no record
    const double MOVE_COST         # of moving a pixel of a tile, in pixels packed      # R025
    const double EVEN_SHARE        # of the work of a task, if shares of bins are even  # no record
    const double DIVIDE_SHARE      # shares of a thread beyond which a box is divided   # R145

# -------------------------------------------------------------------------- scratch of a thread
# Their sum bounds what a call allocates for each thread, whatever the size of the map.
cdef enum:
    TILE_BYTES = 4 << 20           # pixels packed at once: about a level 2 cache       # R090
    STRIP_BYTES = 24 << 10         # one contracted axis: fits level 1 cache with bins  # R090
    WIDE_STRIP_BYTES = 64 << 10    # a strip of channel blocks that lie together        # R120
    MAX_STRIP_BYTES = 256 << 10    # the same for a gradient of the input: whole rows   # R227
    BINS_BYTES = 64 << 10          # bins of a box: larger outputs are done in parts    # no record
    BIN_RANGE_BYTES = 1 << 20      # bins of the boxes of a position-sensitive task     # R164
    SLOPE_TILES_BYTES = 8 << 20    # tiles of all blocks whose slopes are summed        # R275
    COPY_BYTES = 1 << 20           # pixels of one box, copied for COPY_PER_BOX         # R281

# ----------------------------------------------------------------------------------------- load
cdef enum:
    THIN_GAIN = 4                  # times fewer pixels, for packing taps alone to pay  # R351
    MAX_COVER = 4                  # times boxes cover a map, for prefetches to pay     # R141

# ---------------------------------------------------------------------------------------- crops
cdef enum:
    CROP_STRIP = 384               # numbers of summed rows, 16 output rows each: 24 KB # no record
    CROP_COLUMNS_AT_ONCE = 768     # output columns whose spans are made: bounds memory # no record
    CROP_CONVERTED = 65536         # bytes of converted rows that a strip is summed of  # no record
    CROP_OVERLAP = 75              # percent of a frame in boxes, to convert it at first # R403
    CROP_SERIAL_NUMBERS = 262144   # numbers of a result for one thread alone, 0.1 ms   # no record
    WARP_COST = 3                  # cost of a number of a turned crop; upright: 1      # no record

# --------------------------------------------------------------------------------------- reduce
cdef enum:
    MAX_BINS = 1024                # bins of a box in BINS_BYTES: a lane vector each    # no record
    MAX_BIN_ROWS = 64              # bin rows of those                                  # no record
    MAX_COLUMNS = 4096             # columns contracted together: bounds the strip      # no record
    X_FIRST_GAIN = 100             # lane vectors saved, for x first to pay             # R082

# ---------------------------------------------------------------------------------------- store
cdef enum:
    DIRECT_BYTES = 256 << 10       # results up to this are written without staging     # R088
    STREAM_BYTES = 8 << 20         # beyond it results are streamed, maps prefetched    # R037
    WRITE_AHEAD = 4                # boxes ahead whose shared lines are prefetched      # R167

# ------------------------------------------------------------------------------------ gradients
cdef enum:
    SQUARE_BINS = 32               # bins a row of a part of a large output             # R213
    MIN_BLOCKS_TOGETHER = 4        # blocks: with fewer, choosing loops costs more      # R212
    PIXELS_AT_ONCE = 6             # pixels of an axis a call: prefetches lie between   # R237
    NEAR_BYTES = 4 << 10           # bins prefetched into the level 1 cache, not level 2 # R425
    BINS_AHEAD = 4                 # bins prefetched: a whole box is too much           # R271
    SLOPE_BLOCKS = 8               # channel blocks that share sums of slopes           # R268
    SLOPE_GROUPS = 8               # groups of them computed together, read in place    # R276

# -------------------------------------------------------------------------------------- threads
cdef enum:
    SERIAL_COST = 100000           # lane vectors of work for one thread alone, 0.1 ms  # R026
    MIN_PARALLEL_BINS = 4096       # bins of tables worth a second thread               # R028
    BOXES_AT_ONCE = 16             # boxes whose tables a thread makes at a time        # no record
    ROUND_NUMBERS = 1 << 16        # numbers that a thread rounds or checks at a time   # R029
    PASTE_TASK_BYTES = 1 << 20     # of images, at least, that a task of a mask writes  # no record
