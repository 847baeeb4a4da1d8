/* The OpenCL system that a file's tests share. */
#ifndef CLQ_TEST_SYSTEM_H
#define CLQ_TEST_SYSTEM_H

#include "device/device.h"

static clq_system *sys;

/* For cmocka_run_group_tests. */
static inline int open_system(void **state) {
    (void)state;
    return clq_system_open(NULL, &sys) == CLQ_OK ? 0 : -1;
}
static inline int close_system(void **state) {
    (void)state;
    clq_system_close(sys);
    return 0;
}

#endif
