/* An OpenCL layer with a compiler that hangs. It hangs for fused steps, or, with CLQ_HANG_OF, for programs that contain
 * these words. The variables:
 *
 * CLQ_HANG=build         clBuildProgram of the program does not return
 * CLQ_HANG=launch        the first launch of its kernel does not return
 * CLQ_HANG=binary        the query of its binary does not return
 * CLQ_HANG=refuse        clBuildProgram of the program fails without a log
 * CLQ_HANG=...-all       the same ("build-all") for every program or kernel
 * CLQ_HANG_REFUSALS=N    refuses only N times
 * CLQ_HANG_EXIT          the process's exit waits for the calls that hang, as drivers' exit handlers do
 * CLQ_HANG_TOLD=FILE     the file appears when a call hangs
 *
 * hang_end lets the calls that hang go on, so that a test can see the end of the thread that was left behind. */
#include "support/opencl_layer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 4096 };
static _Atomic(void *) fused[MOST]; /* programs and kernels of fused steps */
static atomic_uint count;
static atomic_bool over;
static atomic_uint hanging, misused, refusals;

EXPORT void hang_end(void);
void hang_end(void) { atomic_store(&over, true); }
/* How many calls hang at this moment. */
EXPORT unsigned hang_count(void);
unsigned hang_count(void) { return atomic_load(&hanging); }

/* How many programs were released while CLQ_HANG was set and a call hung: a driver may never return from such a
 * release. */
EXPORT unsigned hang_misused(void);
unsigned hang_misused(void) { return atomic_load(&misused); }

static void note(void *object) {
    const unsigned at = atomic_fetch_add(&count, 1);
    if (at < MOST) atomic_store(&fused[at], object);
}

static bool is_noted(const void *object) {
    for (unsigned i = 0; i < MOST; i++)
        if (atomic_load(&fused[i]) == object) return true;
    return false;
}

static void tell(void) {
    const char *path = getenv("CLQ_HANG_TOLD");
    FILE *file = path ? fopen(path, "we") : NULL;
    if (file) (void)fclose(file);
}

static bool is_meant(const char *where, const void *object) {
    const char *wanted = getenv("CLQ_HANG");
    const size_t length = strlen(where);
    if (!wanted || strncmp(wanted, where, length) != 0) return false;
    return strcmp(wanted + length, "-all") == 0 || is_noted(object);
}

static void hang(const char *where, const void *object) {
    if (!is_meant(where, object)) return;
    atomic_fetch_add(&hanging, 1);
    tell();
    while (!atomic_load(&over)) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    atomic_fetch_sub(&hanging, 1);
}

__attribute__((destructor)) static void exit_waits(void) {
    while (getenv("CLQ_HANG_EXIT") && atomic_load(&hanging) > 0 && !atomic_load(&over))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint parts, const char **texts,
                                             const size_t *lengths, cl_int *error) {
    cl_program program = driver.clCreateProgramWithSource(context, parts, texts, lengths, error);
    const char *words = getenv("CLQ_HANG_OF");
    for (cl_uint i = 0; program && i < parts; i++)
        if (strstr(texts[i], words ? words : " void sequence(")) note(program);
    return program;
}

static bool refuses(void) {
    const char *most = getenv("CLQ_HANG_REFUSALS");
    return !most || atomic_fetch_add(&refusals, 1) < strtoul(most, NULL, 10);
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint devices, const cl_device_id *ids,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                        void *context) {
    hang("build", program);
    if (is_meant("refuse", program) && refuses()) return CL_BUILD_PROGRAM_FAILURE;
    return driver.clBuildProgram(program, devices, ids, options, notify, context);
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error) {
    cl_kernel kernel = driver.clCreateKernel(program, name, error);
    if (kernel && strcmp(name, "sequence") == 0) note(kernel);
    return kernel;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                 const size_t *global, const size_t *local, cl_uint waits, const cl_event *after,
                                 cl_event *event) {
    hang("launch", kernel);
    return driver.clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, waits, after, event);
}

static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t bytes, void *out,
                                       size_t *needed) {
    if (what == CL_PROGRAM_BINARY_SIZES) hang("binary", program);
    return driver.clGetProgramInfo(program, what, bytes, out, needed);
}

static cl_int CL_API_CALL release_program(cl_program program) {
    if (getenv("CLQ_HANG") && atomic_load(&hanging) > 0) atomic_fetch_add(&misused, 1);
    return driver.clReleaseProgram(program);
}

static void override_calls(void) {
    layer.clGetProgramInfo = program_info;
    layer.clReleaseProgram = release_program;
    layer.clCreateProgramWithSource = create_program;
    layer.clBuildProgram = build_program;
    layer.clCreateKernel = create_kernel;
    layer.clEnqueueNDRangeKernel = launch;
}
