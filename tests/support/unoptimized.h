/* tests/run has drivers for CPUs compile some kernels without optimizing them (unoptimized.c). */
#ifndef CLQ_TEST_UNOPTIMIZED_H
#define CLQ_TEST_UNOPTIMIZED_H

#include <stdbool.h>

void clq_unoptimized(bool on) __attribute__((weak)); /* NULL without tests/run */
void clq_simple_devices(bool on) __attribute__((weak));

/* If on, whatever any thread compiles from here on is not optimized. */
static inline void compile_unoptimized(bool on) {
    if (clq_unoptimized) clq_unoptimized(on);
}

/* If on, each PoCL device that compiles its first kernel from here on never optimizes. Such a device compiles faster
 * than compile_unoptimized alone makes it. Only PoCL 3.1 and 4.0 on x86-64 know this. */
static inline void compile_on_simple_devices(bool on) {
    if (clq_simple_devices) clq_simple_devices(on);
}

#endif
