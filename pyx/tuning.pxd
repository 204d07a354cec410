"""Tuning constants that several files need: value, unit, what it bounds and why, and its record.

Records are rows of docs/records.md.  `# no record` says that the value is a choice that nobody
measured, or a bound and not a tuning.  A constant that only one file needs stands in that file,
with its record.
"""

# ---------------------------------------------------------------------------------- plan: tasks
cdef enum:
    TASKS_PER_THREAD = 4           # tasks, so that a dynamic schedule ends evenly      # no record
    NARROW_COST = 10               # of a pixel of one bin, over one of whole rows      # R030

# -------------------------------------------------------------------------- scratch of a thread
# Their sum bounds what a call allocates for each thread, whatever the size of the map.
cdef enum:
    TILE_BYTES = 4 << 20           # pixels packed at once: about a level 2 cache       # R090
    STRIP_BYTES = 24 << 10         # a window contracted along an axis: in level 1     # R090
    WIDE_STRIP_BYTES = 64 << 10    # a strip of channel blocks that lie together        # R120
    BINS_BYTES = 64 << 10          # bins of a box: larger outputs are done in parts    # no record

# ----------------------------------------------------------------------------------------- load
cdef enum:
    FEW_TAPS_GAIN = 4              # times fewer pixels, for packing taps alone to pay  # R351

# --------------------------------------------------------------------------------------- reduce
cdef enum:
    MAX_BINS = 1024                # bins of a box in BINS_BYTES: a lane vector each    # no record
    MAX_COLUMNS = 4096             # columns contracted together: bounds the strip      # no record

# ---------------------------------------------------------------------------------------- store
cdef enum:
    STREAM_BYTES = 8 << 20         # beyond it results are streamed, maps prefetched    # R037

# ------------------------------------------------------------------------------------ gradients
cdef enum:
    SQUARE_BINS = 32               # bins a row of a part of a large output             # R213
    SLOPE_BLOCKS = 8               # channel blocks that share sums of slopes           # R268
