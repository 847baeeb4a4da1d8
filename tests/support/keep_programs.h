/* Programs that tests/run keeps from one trainer of a test to the next (keep_compiler.c). */
#ifndef CLQ_TEST_KEEP_PROGRAMS_H
#define CLQ_TEST_KEEP_PROGRAMS_H

#include <stdbool.h>

void clq_keep_programs(bool on) __attribute__((weak)); /* without tests/run there is none */

/* Off: from here on each program is loaded, as it is for users; for failures of loading. Libraries of kernels that were
 * opened before stay open. */
static inline void keep_programs(bool on) {
    if (clq_keep_programs) clq_keep_programs(on);
}

#endif
