/* An OpenCL layer (OPENCL_LAYERS names the library) that makes devices slower than they are: the device rests after
 * each kernel, so that kernel and rest take FACTOR times as long as the kernel computed. During a rest the device's
 * cores are idle, and whoever waits for the device waits in its usual way. The event that a caller gets of a kernel,
 * and its profile, are those of the rest.
 *
 * On a device with one compute unit, a kernel's time is the CPU time of its thread: time that the thread waited for a
 * core is taken off the rest. So such devices take the same time even if others use the cores.
 *
 * CLQ_TEST_PACE has a word for each device: first in the order in which drivers list devices, then in the order in
 * which devices were split. FACTOR is at least 1 and need not be whole. "-", or no word, leaves a device as it is, and
 * a part of a split device as the whole device is. FACTOR@N begins after the device's N-th kernel:
 * CLQ_TEST_PACE="- 3 1.5@200". slow_pace(device, factor) changes a device's factor while the device works.
 *
 * The layer needs devices that execute native kernels, as CPU devices do, and in-order queues. */
#include "support/opencl_layer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { DEVICES_MOST = 64, WORD_BYTES = 32, UNDER_WAY_MOST = 4096 };

/* The pace of the device at the same place in `known`. Factors are in thousandths. */
typedef struct pace {
    bool is_thread;            /* one compute unit, so that a kernel runs in one thread */
    atomic_uint factor, later; /* later: from kernel `from` on */
    atomic_uint_fast64_t from, kernels, busy_ns, rest_ns;
} pace;

static cl_device_id known[DEVICES_MOST];
static pace paces[DEVICES_MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- words ---- */

static bool word_of(unsigned place, char out[WORD_BYTES]) {
    const char *at = getenv("CLQ_TEST_PACE");
    for (unsigned i = place; at && i > 0; i--) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    return at && sscanf(at, "%31s", out) == 1 && strcmp(out, "-") != 0;
}

static unsigned thousandths(double factor) { return factor > 1.0 ? (unsigned)(factor * 1000.0 + 0.5) : 1000; }

/* like: the place of the device that this device is a part of, or its own place. */
static void set_out(unsigned place, unsigned like) {
    char word[WORD_BYTES];
    double factor = 1.0;
    unsigned long long from = 0;
    pace *p = &paces[place];
    atomic_store(&p->factor, like == place ? 1000 : atomic_load(&paces[like].factor));
    atomic_store(&p->from, UINT64_MAX);
    if (!word_of(place, word)) return;
    const int read = sscanf(word, "%lf@%llu", &factor, &from);
    if (read == 1) atomic_store(&p->factor, thousandths(factor));
    if (read != 2) return;
    atomic_store(&p->later, thousandths(factor));
    atomic_store(&p->from, from);
}

static void list(const cl_device_id *devices, cl_uint count, const cl_device_id *whole) {
    (void)pthread_mutex_lock(&lock);
    unsigned like = 0;
    while (whole && like + 1 < DEVICES_MOST && known[like] != *whole) like++;
    for (cl_uint i = 0; i < count; i++) {
        unsigned place = 0;
        while (place + 1 < DEVICES_MOST && known[place] && known[place] != devices[i]) place++;
        if (known[place] == devices[i]) continue;
        known[place] = devices[i];
        cl_uint units = 0;
        (void)driver.clGetDeviceInfo(devices[i], CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
        paces[place].is_thread = units == 1;
        set_out(place, whole ? like : place);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* NULL if the queue's device was never listed. */
static pace *pace_of(cl_command_queue queue) {
    cl_device_id device = NULL;
    pace *found = NULL;
    (void)driver.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    (void)pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < DEVICES_MOST && known[i] && !found; i++)
        if (known[i] == device) found = &paces[i];
    (void)pthread_mutex_unlock(&lock);
    return found;
}

/* ---- the test's side: device is its place ---- */

EXPORT void slow_pace(unsigned device, double factor);
void slow_pace(unsigned device, double factor) {
    atomic_store(&paces[device].from, UINT64_MAX);
    atomic_store(&paces[device].factor, thousandths(factor));
}

/* How long the device has computed in slowed kernels so far, and how long it was to rest after them. */
EXPORT void slow_times(unsigned device, double *busy_s, double *rest_s);
void slow_times(unsigned device, double *busy_s, double *rest_s) {
    *busy_s = (double)atomic_load(&paces[device].busy_ns) * 1e-9;
    *rest_s = (double)atomic_load(&paces[device].rest_ns) * 1e-9;
}

/* ---- the delay ---- */

/* A kernel and the rest after it. The turns are used cyclically: there are never so many under way at once. */
typedef struct turn {
    pace *pace;
    unsigned factor;
    pthread_t thread;
    int64_t began_ns, began_cpu_ns; /* by the machine's clock, and by the thread's CPU time */
} turn;
static turn turns[UNDER_WAY_MOST];
static atomic_uint next_turn;

enum { SECOND_NS = 1000000000 };

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void CL_CALLBACK begin(void *argument) {
    turn *t;
    memcpy(&t, argument, sizeof t);
    t->thread = pthread_self();
    t->began_ns = clock_ns(CLOCK_MONOTONIC);
    t->began_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void CL_CALLBACK rest(void *argument) {
    turn *t;
    memcpy(&t, argument, sizeof t);
    const bool is_thread = t->pace->is_thread && pthread_equal(t->thread, pthread_self());
    const int64_t took =
        is_thread ? clock_ns(CLOCK_THREAD_CPUTIME_ID) - t->began_cpu_ns : clock_ns(CLOCK_MONOTONIC) - t->began_ns;
    const int64_t rests = took * (int64_t)(t->factor - 1000) / 1000, ends = t->began_ns + took + rests;
    const struct timespec until = {.tv_sec = (time_t)(ends / SECOND_NS), .tv_nsec = (long)(ends % SECOND_NS)};
    atomic_fetch_add(&t->pace->busy_ns, (uint_fast64_t)took);
    atomic_fetch_add(&t->pace->rest_ns, (uint_fast64_t)rests);
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* kernels of a few microseconds are slowed in proportion too */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
}

static cl_int native(cl_command_queue queue, void(CL_CALLBACK *run)(void *), turn *t, cl_uint count,
                     const cl_event *wait, cl_event *event) {
    return driver.clEnqueueNativeKernel(queue, run, &t, sizeof t, 0, NULL, NULL, count, wait, event);
}

static cl_int CL_API_CALL slow_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                                      const size_t *offset, const size_t *global, const size_t *local,
                                                      cl_uint count, const cl_event *wait, cl_event *event) {
    pace *p = pace_of(queue);
    if (p && atomic_fetch_add(&p->kernels, 1) >= atomic_load(&p->from)) {
        atomic_store(&p->factor, atomic_load(&p->later));
        atomic_store(&p->from, UINT64_MAX);
    }
    const unsigned factor = p ? atomic_load(&p->factor) : 1000;
    if (factor <= 1000)
        return driver.clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, count, wait, event);
    turn *t = &turns[atomic_fetch_add(&next_turn, 1) % UNDER_WAY_MOST];
    *t = (turn){.pace = p, .factor = factor};
    cl_int error = native(queue, begin, t, count, wait, NULL);
    if (error == CL_SUCCESS)
        error = driver.clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, 0, NULL, NULL);
    return error == CL_SUCCESS ? native(queue, rest, t, 0, NULL, event) : error;
}

static cl_int CL_API_CALL slow_clEnqueueTask(cl_command_queue queue, cl_kernel kernel, cl_uint count,
                                             const cl_event *wait, cl_event *event) {
    return slow_clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &(size_t){1}, &(size_t){1}, count, wait, event);
}

/* ---- the list ---- */

static cl_int CL_API_CALL listed_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint most,
                                                cl_device_id *devices, cl_uint *count) {
    cl_uint have = 0;
    const cl_int error = driver.clGetDeviceIDs(platform, type, most, devices, &have);
    if (error == CL_SUCCESS && devices) list(devices, have < most ? have : most, NULL);
    if (count) *count = have;
    return error;
}

static cl_int CL_API_CALL split_clCreateSubDevices(cl_device_id device, const cl_device_partition_property *how,
                                                   cl_uint most, cl_device_id *devices, cl_uint *count) {
    cl_uint have = 0;
    const cl_int error = driver.clCreateSubDevices(device, how, most, devices, &have);
    if (error == CL_SUCCESS && devices) list(devices, have < most ? have : most, &device);
    if (count) *count = have;
    return error;
}

static void override_calls(void) {
    layer.clEnqueueNDRangeKernel = slow_clEnqueueNDRangeKernel;
    layer.clEnqueueTask = slow_clEnqueueTask;
    layer.clGetDeviceIDs = listed_clGetDeviceIDs;
    layer.clCreateSubDevices = split_clCreateSubDevices;
}
