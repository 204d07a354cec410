/* Costs that are not whole numbers, which an enum of tuning.pxd cannot hold. */
#ifndef ROICY_TUNING_H
#define ROICY_TUNING_H

#define WINDOW_COST 1.5  /* of a pixel of a window, in pixels of whole rows */
#define PIXEL_COST 1.5   /* of a pixel of a box, in lane vectors: it is read once or twice */
#define BIN_COST 4.0     /* of a bin of a box, in lane vectors */
#define MOVE_COST 0.25   /* of moving a pixel of a tile, in pixels packed */
#define DIVIDE_SHARE 1.5 /* shares (of TASKS_PER_THREAD) beyond which a box is divided */
#define EVEN_SHARE 1.001 /* of the work of a task: rounding must not divide boxes too */

#endif
