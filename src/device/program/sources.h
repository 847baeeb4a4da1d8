/* The embedded kernels, which the build makes from cl/. The array ends with a NULL name. */
#ifndef CLQ_DEVICE_SOURCES_H
#define CLQ_DEVICE_SOURCES_H

typedef struct clq_kernel_source {
    const char *name; /* "gemm_tile" */
    const char *text;
} clq_kernel_source;
extern const clq_kernel_source clq_kernel_sources[];

#endif
