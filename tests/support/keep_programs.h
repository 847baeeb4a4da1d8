/* tests/run keeps programs from one trainer of a test to the next (keep_compiler.c). */
#ifndef CLQ_TEST_KEEP_PROGRAMS_H
#define CLQ_TEST_KEEP_PROGRAMS_H

#include <stdbool.h>

void clq_keep_programs(bool on) __attribute__((weak)); /* NULL without tests/run */

/* If off, each program is loaded from here on, as it is for users: for tests in which loading fails. Libraries of
 * kernels that are already open stay open. */
static inline void keep_programs(bool on) {
    if (clq_keep_programs) clq_keep_programs(on);
}

#endif
