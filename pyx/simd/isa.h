/* Fills the tables of an instruction set: ISA, which a file of that name defines.  It is compiled
   with the flags of that instruction set. */
#include "attention/attention.h"
#include "images/masks.h"
#include "images/resize.h"
#include "images/rows.h"
#include "images/store.h"
#include "images/warp.h"
#include "images/yuv.h"
#include "labels/labels.h"
#include "simd/simd.h"
#include "simd/table.h"

#define OF(f, type) .f = f##_##type
#define FUNCTIONS(type)                                                                            \
    {OF(pack, type),                                                                               \
     OF(read_pixels, type),                                                                        \
     OF(load_rows, type),                                                                          \
     OF(load_slots, type),                                                                         \
     OF(load_bins, type),                                                                          \
     OF(store_bins, type),                                                                         \
     OF(unpack, type),                                                                             \
     OF(put_pixels, type),                                                                         \
     OF(clear, type),                                                                              \
     OF(contract_axis, type),                                                                      \
     OF(contract_bins, type),                                                                      \
     OF(contract_bin, type),                                                                       \
     OF(accumulate_bin, type),                                                                     \
     OF(accumulate_pixels, type),                                                                  \
     OF(add_slopes, type),                                                                         \
     OF(keep_largest, type),                                                                       \
     OF(search_pixels, type),                                                                      \
     OF(weigh, type),                                                                              \
     OF(keep_samples, type),                                                                       \
     OF(keep_winners, type),                                                                       \
     OF(end_row, type),                                                                            \
     OF(sum_numbers, type),                                                                        \
     OF(sum_rows, type),                                                                           \
     OF(add_numbers, type),                                                                        \
     OF(any_outside, type),                                                                        \
     OF(add_winners, type),                                                                        \
     OF(contract_sparse, type),                                                                    \
     OF(contract_sparse_pixels, type),                                                             \
     OF(accumulate_sparse, type),                                                                  \
     OF(add_sparse_slopes, type),                                                                  \
     OF(sum_strip, type),                                                                          \
     OF(sum_strip_columns, type),                                                                  \
     OF(attend, type),                                                                             \
     OF(attend_slopes, type),                                                                      \
     OF(attend_value, type),                                                                       \
     OF(labels_axis, type),                                                                        \
     OF(label_pixels, type),                                                                       \
     .narrow = narrow,                                                                             \
     .copy_runs = copy_runs,                                                                       \
     .widen_runs = widen_runs,                                                                     \
     .stream_lines = stream_lines,                                                                 \
     .stream_copy = stream_copy,                                                                   \
     .stream_clear = stream_clear,                                                                 \
     .crop_complete = crop_complete,                                                               \
     .crop_store = crop_store,                                                                     \
     .crop_spans = crop_spans,                                                                     \
     .crop_convert = crop_convert,                                                                 \
     .resize_line = resize_line,                                                                   \
     .resize_columns = resize_columns,                                                             \
     .resize_to_lines = resize_to_lines,                                                           \
     .resize_to_rows = resize_to_rows,                                                             \
     .resize_store = resize_store,                                                                 \
     .warp_set = warp_set,                                                                         \
     .warp_hull = warp_hull,                                                                       \
     .warp_pixels = warp_pixels,                                                                   \
     .mask_open = mask_open,                                                                       \
     .mask_mix = mask_mix,                                                                         \
     .mask_begin = mask_begin,                                                                     \
     .mask_line = mask_line}

const struct simd NAME_OF(roicy, ISA)[2] = {FUNCTIONS(float), FUNCTIONS(double)};
