/* Tells what the library would build programs with on a device that need not be there: reads programs' own options, a
 * line each, and writes all of theirs. For tests that give kernels to the compilers of other machines' drivers.
 *
 * build_options VECTOR EXTENSIONS C_VERSION [VERSION...], the last being CL_DEVICE_OPENCL_C_ALL_VERSIONS:
 *   build_options 4 "cl_khr_fp64 cl_khr_subgroups" "OpenCL C 2.0"              as AMD's driver tells it
 *   build_options 4 "cl_khr_subgroups" "OpenCL C 1.2" 1.0 1.1 1.2 3.0          as an OpenCL 3.0 driver may */
#include "device/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(void) {
    (void)fputs("usage: build_options VECTOR EXTENSIONS C_VERSION [VERSION...] < OWN-OPTIONS\n", stderr);
    return 2;
}

int main(int argc, char **argv) {
    if (argc < 4 || argc - 4 > CLQ_C_VERSIONS_MAX) return usage();
    clq_compiler_facts facts = {.extensions = argv[2], .c_version = argv[3]};
    for (int i = 4; i < argc; i++) {
        unsigned major, minor;
        if (sscanf(argv[i], "%u.%u", &major, &minor) != 2) return usage();
        facts.c_versions[facts.c_version_count++] = major << 22 | minor << 12;
    }
    clq_compiler compiler;
    clq_compiler_describe(&facts, &compiler);
    char own[4096];
    while (fgets(own, sizeof own, stdin)) {
        own[strcspn(own, "\n")] = '\0';
        char *options = clq_build_options(&compiler, (uint32_t)strtoul(argv[1], NULL, 10), own);
        if (!options) return 1;
        puts(options);
        clq_free(options);
    }
    return 0;
}
