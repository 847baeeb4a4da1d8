/* Programs are built side by side if the driver is a GPU's, and one at a time with PoCL. The device is PoCL's either
 * way. If it is described as NVIDIA's, the library takes it for a GPU. The linker puts the functions here in place of
 * the driver's (--wrap in cmake/tests.cmake). */
#include "device/device.h"
#include "support/check.h"

#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { PROGRAMS = 4, PATIENCE_S = 5 };

static bool disguised;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int building, most, builds;
static bool waits; /* whether a build waits for another to begin */

cl_int __real_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             void (*done)(cl_program, void *), void *context);
cl_int __wrap_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             void (*done)(cl_program, void *), void *context);
cl_int __real_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out, size_t *needed);
cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out, size_t *needed);
cl_int __real_clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t bytes, void *out, size_t *needed);
cl_int __wrap_clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t bytes, void *out, size_t *needed);
unsigned __wrap_clq_cpu_count(void);

unsigned __wrap_clq_cpu_count(void) { return PROGRAMS; }

cl_int __wrap_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             void (*done)(cl_program, void *), void *context) {
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&lock);
    builds++;
    building++;
    if (building > most) most = building;
    pthread_cond_broadcast(&changed);
    while (waits && most < 2 && pthread_cond_timedwait(&changed, &lock, &end) == 0) continue;
    waits = false; /* one build that waits is enough */
    pthread_mutex_unlock(&lock);
    cl_int error = __real_clBuildProgram(program, count, devices, options, done, context);
    pthread_mutex_lock(&lock);
    building--;
    pthread_mutex_unlock(&lock);
    return error;
}

static cl_int answer(const void *value, size_t length, size_t bytes, void *out, size_t *needed) {
    if (needed) *needed = length;
    if (out && bytes < length) return CL_INVALID_VALUE;
    if (out) memcpy(out, value, length);
    return CL_SUCCESS;
}

cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out, size_t *needed) {
    if (disguised && what == CL_DEVICE_TYPE)
        return answer(&(cl_device_type){CL_DEVICE_TYPE_GPU}, sizeof(cl_device_type), bytes, out, needed);
    return __real_clGetDeviceInfo(device, what, bytes, out, needed);
}

cl_int __wrap_clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t bytes, void *out, size_t *needed) {
    static const char name[] = "NVIDIA CUDA";
    if (disguised && what == CL_PLATFORM_NAME) return answer(name, sizeof name, bytes, out, needed);
    return __real_clGetPlatformInfo(id, what, bytes, out, needed);
}

/* The index of the driver's first device. */
static uint32_t index_of(const clq_system *system, const char *driver) {
    uint32_t index = 0;
    while (index < clq_system_device_count(system) &&
           strcmp(clq_system_device_info(system, index)->driver, driver) != 0)
        index++;
    return index;
}

/* Returns the largest number of builds that were under way at the same time. */
static int load(bool as_gpu, const char *driver) {
    static const char source[] = "kernel void nothing(global float *x) { if (x == 0) *x = NUMBER; }\n";
    clq_system *system;
    clq_device *device;
    clq_program_wish wishes[PROGRAMS];
    char options[PROGRAMS][32];
    size_t failed;
    disguised = as_gpu;
    assert_ok(clq_system_open(&(clq_system_config){.cache_dir = ""}, &system));
    assert_ok(clq_device_open(system, (clq_device_choice){.index = index_of(system, driver), .parts = 1}, &device));
    for (size_t i = 0; i < PROGRAMS; i++) {
        (void)snprintf(options[i], sizeof options[i], "-DNUMBER=%zu", i);
        wishes[i] = (clq_program_wish){.file = "nothing", .text = source, .options = options[i], .kernels = "nothing"};
    }
    most = builds = 0;
    waits = as_gpu;
    assert_ok(clq_device_load_programs(device, wishes, PROGRAMS, &failed));
    assert_int_equal(builds, PROGRAMS);
    clq_device_close(device);
    clq_system_close(system);
    return most;
}

static void drivers_of_gpus_build_side_by_side(void **state) {
    (void)state;
    assert_within(load(true, "nvidia"), 2, PROGRAMS);
}

static void pocl_builds_one_at_a_time(void **state) {
    (void)state;
    assert_int_equal(load(false, "pocl"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drivers_of_gpus_build_side_by_side),
                                       cmocka_unit_test(pocl_builds_one_at_a_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
