/* tests/run has drivers for CPUs compile some kernels without optimizing them (unoptimized.c). */
#ifndef CLQ_TEST_UNOPTIMIZED_H
#define CLQ_TEST_UNOPTIMIZED_H

#include <stdbool.h>

void clq_unoptimized(bool on) __attribute__((weak)); /* NULL without tests/run */

/* If on, whatever any thread compiles from here on is not optimized. */
static inline void compile_unoptimized(bool on) {
    if (clq_unoptimized) clq_unoptimized(on);
}

#endif
