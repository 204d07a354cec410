/* Errors of code that runs without Python's lock: what failed is kept for whoever has the lock. */
#ifndef ROICY_ERRORS_H
#define ROICY_ERRORS_H

#include <stdarg.h>
#include <stdio.h>

enum { NO_ERROR, NO_MEMORY, WRONG_VALUE, WRONG_PLAN, RAISED };

struct error {
    int kind; /* RAISED: Python has the exception already */
    char text[200];
};

/* Each thread has its own, and so has each module that includes this file. */
static _Thread_local struct error last_error;

/* Keeps an error, and returns what functions that fail return. */
static int fail(int kind, const char *format, ...) {
    va_list numbers;
    last_error.kind = kind;
    va_start(numbers, format);
    vsnprintf(last_error.text, sizeof last_error.text, format, numbers);
    va_end(numbers);
    return -1;
}

#endif
