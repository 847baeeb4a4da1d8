/* An OpenCL layer (OPENCL_LAYERS names the library) that makes calls fail on order. It counts the calls that can fail,
 * of the thread that fault_only named or of all threads. fault_arm(n, error, sticky) makes the n-th call from then on
 * fail, and with `sticky` all calls after it as well. Releases never fail, because a failed release is only a leak.
 * fault_slow(ms) makes the next build of a program take that much longer. fault_contexts returns how many contexts were
 * made so far. fault_firsts tells which of the calls before the last fault_arm was the first of its function. */
#include "support/opencl_layer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static atomic_uint calls, fail_at;
static atomic_int fail_with;
static atomic_bool fail_on;
static atomic_uint slow_ms, contexts;
enum { THREAD_NAME_MAX = 16 };
static char only[THREAD_NAME_MAX];

/* For each function the number of its first call since the last fault_arm, or 0; and the same before that. */
enum { FUNCTIONS = 64 };
static atomic_uint firsts[FUNCTIONS];
static unsigned earlier_firsts[FUNCTIONS];

/* Returns how many calls were made since the last fault_arm. n = 0: none fails. */
EXPORT unsigned fault_arm(unsigned n, cl_int error, bool sticky);
unsigned fault_arm(unsigned n, cl_int error, bool sticky) {
    atomic_store(&fail_at, n);
    atomic_store(&fail_with, error);
    atomic_store(&fail_on, sticky);
    for (size_t i = 0; i < FUNCTIONS; i++) earlier_firsts[i] = atomic_exchange(&firsts[i], 0);
    return atomic_exchange(&calls, 0);
}

/* Call this while nothing runs. */
EXPORT void fault_only(const char *thread);
void fault_only(const char *thread) { (void)snprintf(only, sizeof only, "%s", thread ? thread : ""); }

/* Returns how many numbers of calls it stored in `out`, which takes `most`. */
EXPORT unsigned fault_firsts(unsigned *out, unsigned most);
unsigned fault_firsts(unsigned *out, unsigned most) {
    unsigned count = 0;
    for (size_t i = 0; i < FUNCTIONS && count < most; i++)
        if (earlier_firsts[i]) out[count++] = earlier_firsts[i];
    return count;
}

EXPORT void fault_slow(unsigned ms);
void fault_slow(unsigned ms) { atomic_store(&slow_ms, ms); }

EXPORT unsigned fault_contexts(void);
unsigned fault_contexts(void) { return atomic_load(&contexts); }

static bool concerns_us(void) {
    char name[THREAD_NAME_MAX] = "";
    return only[0] == '\0' || (prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && strcmp(name, only) == 0);
}

static cl_int fault(unsigned function) {
    if (!concerns_us()) return CL_SUCCESS;
    unsigned call = atomic_fetch_add(&calls, 1) + 1, at = atomic_load(&fail_at), none = 0;
    (void)atomic_compare_exchange_strong(&firsts[function], &none, call);
    bool hit = at != 0 && (call == at || (call > at && atomic_load(&fail_on)));
    return hit ? atomic_load(&fail_with) : CL_SUCCESS;
}

/* X(name, parameters, arguments): calls that return their error. */
#define STATUS_CALLS(X)                                                                                                \
    X(clGetPlatformIDs, (cl_uint a, cl_platform_id * b, cl_uint * c), (a, b, c))                                       \
    X(clGetPlatformInfo, (cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))        \
    X(clGetDeviceIDs, (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id * d, cl_uint * e), (a, b, c, d, e)) \
    X(clGetDeviceInfo, (cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))              \
    X(clBuildProgram,                                                                                                  \
      (cl_program a, cl_uint b, const cl_device_id *c, const char *d, void(CL_CALLBACK * e)(cl_program, void *),       \
       void *f),                                                                                                       \
      (a, b, c, d, e, f))                                                                                              \
    X(clGetProgramInfo, (cl_program a, cl_program_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))              \
    X(clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d))                                 \
    X(clGetKernelWorkGroupInfo,                                                                                        \
      (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, void *e, size_t *f), (a, b, c, d, e, f))    \
    X(clWaitForEvents, (cl_uint a, const cl_event *b), (a, b))                                                         \
    X(clGetEventInfo, (cl_event a, cl_event_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                    \
    X(clGetEventProfilingInfo, (cl_event a, cl_profiling_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))       \
    X(clFlush, (cl_command_queue a), (a))                                                                              \
    X(clFinish, (cl_command_queue a), (a))                                                                             \
    X(clEnqueueReadBuffer,                                                                                             \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g, const cl_event *h,             \
       cl_event *i),                                                                                                   \
      (a, b, c, d, e, f, g, h, i))                                                                                     \
    X(clEnqueueWriteBuffer,                                                                                            \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g, const cl_event *h,       \
       cl_event *i),                                                                                                   \
      (a, b, c, d, e, f, g, h, i))                                                                                     \
    X(clEnqueueCopyBuffer,                                                                                             \
      (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, cl_uint g, const cl_event *h,             \
       cl_event *i),                                                                                                   \
      (a, b, c, d, e, f, g, h, i))                                                                                     \
    X(clEnqueueFillBuffer,                                                                                             \
      (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, cl_uint g, const cl_event *h,        \
       cl_event *i),                                                                                                   \
      (a, b, c, d, e, f, g, h, i))                                                                                     \
    X(clEnqueueNDRangeKernel,                                                                                          \
      (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const size_t *e, const size_t *f, cl_uint g,       \
       const cl_event *h, cl_event *i),                                                                                \
      (a, b, c, d, e, f, g, h, i))                                                                                     \
    X(clEnqueueMarkerWithWaitList, (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d))      \
    X(clSetMemObjectDestructorCallback, (cl_mem a, void(CL_CALLBACK * b)(cl_mem, void *), void *c), (a, b, c))

/* X(type, name, parameters, arguments): calls that return an object, and their error through `error`. */
#define OBJECT_CALLS(X)                                                                                                \
    X(cl_context, clCreateContext,                                                                                     \
      (const cl_context_properties *a, cl_uint b, const cl_device_id *c,                                               \
       void(CL_CALLBACK * d)(const char *, const void *, size_t, void *), void *e, cl_int *error),                     \
      (a, b, c, d, e, error))                                                                                          \
    X(cl_command_queue, clCreateCommandQueue,                                                                          \
      (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int * error), (a, b, c, error))                 \
    X(cl_mem, clCreateBuffer, (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *error), (a, b, c, d, error))   \
    X(cl_mem, clCreateSubBuffer, (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int *error),    \
      (a, b, c, d, error))                                                                                             \
    X(cl_program, clCreateProgramWithSource,                                                                           \
      (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int *error), (a, b, c, d, error))                  \
    X(cl_program, clCreateProgramWithBinary,                                                                           \
      (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, const unsigned char **e, cl_int *f,            \
       cl_int *error),                                                                                                 \
      (a, b, c, d, e, f, error))                                                                                       \
    X(cl_kernel, clCreateKernel, (cl_program a, const char *b, cl_int *error), (a, b, error))                          \
    X(cl_event, clCreateUserEvent, (cl_context a, cl_int * error), (a, error))                                         \
    X(void *, clEnqueueMapBuffer,                                                                                      \
      (cl_command_queue a, cl_mem b, cl_bool c, cl_map_flags d, size_t e, size_t f, cl_uint g, const cl_event *h,      \
       cl_event *i, cl_int *error),                                                                                    \
      (a, b, c, d, e, f, g, h, i, error))

#define STATUS_NUMBER(name, parameters, arguments) NUMBER_##name,
#define OBJECT_NUMBER(type, name, parameters, arguments) NUMBER_##name,
enum { STATUS_CALLS(STATUS_NUMBER) OBJECT_CALLS(OBJECT_NUMBER) NUMBER_clSVMAlloc, NUMBERS };
_Static_assert((int)NUMBERS <= (int)FUNCTIONS, "each function has a place among the first calls");

#define STATUS_CALL(name, parameters, arguments)                                                                       \
    static cl_int CL_API_CALL fault_##name parameters {                                                                \
        cl_int failed = fault(NUMBER_##name);                                                                          \
        return failed != CL_SUCCESS ? failed : driver.name arguments;                                                  \
    }
#define OBJECT_CALL(type, name, parameters, arguments)                                                                 \
    static type CL_API_CALL fault_##name parameters {                                                                  \
        cl_int failed = fault(NUMBER_##name);                                                                          \
        if (failed == CL_SUCCESS) return driver.name arguments;                                                        \
        if (error) *error = failed;                                                                                    \
        return NULL;                                                                                                   \
    }
STATUS_CALLS(STATUS_CALL)
OBJECT_CALLS(OBJECT_CALL)

static cl_int CL_API_CALL slow_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                              const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                              void *context) {
    unsigned ms = atomic_exchange(&slow_ms, 0);
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
    return fault_clBuildProgram(program, count, devices, options, notify, context);
}

static cl_context CL_API_CALL counted_clCreateContext(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *error) {
    atomic_fetch_add(&contexts, 1);
    return fault_clCreateContext(properties, count, devices, notify, user, error);
}

static void *CL_API_CALL fault_clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t bytes, cl_uint align) {
    return fault(NUMBER_clSVMAlloc) != CL_SUCCESS ? NULL : driver.clSVMAlloc(context, flags, bytes, align);
}

static void override_calls(void) {
#define OVERRIDE_STATUS(name, parameters, arguments) layer.name = fault_##name;
#define OVERRIDE_OBJECT(type, name, parameters, arguments) layer.name = fault_##name;
    STATUS_CALLS(OVERRIDE_STATUS)
    OBJECT_CALLS(OVERRIDE_OBJECT)
    layer.clCreateContext = counted_clCreateContext;
    layer.clSVMAlloc = fault_clSVMAlloc;
    layer.clBuildProgram = slow_clBuildProgram;
}
