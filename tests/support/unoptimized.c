/* Makes drivers for CPUs compile kernels without optimizing them, which takes a third of the time. tests/run preloads
 * this.
 *
 * An optimized kernel computes the same, but faster. Errors of a compiler's optimizer are found by tests of kernels
 * that such a device runs for users, and these stay optimized: in the tests of ops, each kernel of the family for CPUs
 * in one case at least; in interop/golden_optimized, some trainings (train/...) and some tests of the commands, all
 * kernels. Two kinds of kernels are not optimized. The first are those of tests, or of some of a test's commands, that
 * compile much and compute little (CLQ_TEST_UNOPTIMIZED in their environment, cmake/tests.cmake, tests/cli/support.py).
 * The second are in the tests of ops: the family for GPUs, which runs on a CPU only in tests, and kernels of the family
 * for CPUs that the test already compiled with optimization in another case (support/unoptimized.h, ops_rig.c).
 *
 * Other drivers optimize as always: a simulator and a GPU compile fast, and would run slower. */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dladdr; NOLINT(bugprone-reserved-identifier) */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static atomic_bool is_on; /* on even without CLQ_TEST_UNOPTIMIZED */

EXPORT void clq_unoptimized(bool on) { atomic_store(&is_on, on); }

/* Each object begins with a pointer to its driver's functions (cl_khr_icd). These functions are in the driver's
 * file. */
static bool is_of_cpu_driver(cl_device_id device) {
    enum { GET_DEVICE_INFO = 3 };
    void *const *functions = *(void *const *const *)device;
    Dl_info of;
    return dladdr(functions[GET_DEVICE_INFO], &of) && of.dli_fname &&
           (strstr(of.dli_fname, "/libpocl") || strstr(of.dli_fname, "/libintelocl"));
}

EXPORT cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                         const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                         void *user) {
    static const char format[] = "%s -cl-opt-disable";
    const bool wanted =
        (atomic_load(&is_on) || getenv("CLQ_TEST_UNOPTIMIZED")) && options && count > 0 && is_of_cpu_driver(devices[0]);
    char *with = wanted ? malloc(strlen(options) + sizeof format) : NULL;
    if (with) (void)sprintf(with, format, options);
    const cl_int error = REAL(clBuildProgram)(program, count, devices, with ? with : options, notify, user);
    free(with);
    return error;
}
