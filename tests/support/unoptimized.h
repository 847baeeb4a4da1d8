/* Kernels that tests/run has drivers for CPUs compile without optimizing them (unoptimized.c). */
#ifndef CLQ_TEST_UNOPTIMIZED_H
#define CLQ_TEST_UNOPTIMIZED_H

#include <stdbool.h>

void clq_unoptimized(bool on) __attribute__((weak)); /* without tests/run there is none */

/* On: what is compiled from here on, by any thread. */
static inline void compile_unoptimized(bool on) {
    if (clq_unoptimized) clq_unoptimized(on);
}

#endif
