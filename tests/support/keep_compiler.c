/* Keeps PoCL's compiler. PoCL frees it with the process's last context, its library of built-in functions included;
 * reading them again takes 0.3 s of the first build in the next context. A user's process has a context for as long as
 * it trains, but a test opens and closes devices for each of its cases.
 *
 * tests/run preloads this, and without it the same tests are slower. The first context of PoCL that a process makes
 * stays. The tests comma/… run without, so they still have PoCL close and open its compiler. */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dladdr; NOLINT(bugprone-reserved-identifier) */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static _Atomic(cl_context) kept;

/* Each object begins with a pointer to its driver's functions (cl_khr_icd). The file that has them tells the driver,
 * without a call that a layer would count. */
static int is_of_pocl(cl_device_id device) {
    enum { GET_DEVICE_INFO = 3 };
    void *const *functions = *(void *const *const *)device;
    Dl_info of;
    return dladdr(functions[GET_DEVICE_INFO], &of) && of.dli_fname && strstr(of.dli_fname, "/libpocl");
}

EXPORT cl_context CL_API_CALL clCreateContext(const cl_context_properties *properties, cl_uint count,
                                              const cl_device_id *devices,
                                              void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                              void *user, cl_int *error) {
    const cl_context context = REAL(clCreateContext)(properties, count, devices, notify, user, error);
    cl_context none = NULL;
    if (context && is_of_pocl(devices[0]) && atomic_compare_exchange_strong(&kept, &none, context))
        (void)REAL(clRetainContext)(context);
    return context;
}
