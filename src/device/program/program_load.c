/* Makes several programs at once. With every driver, several threads load programs from the cache. With drivers of
 * GPUs, several threads also build programs. Compilers of CPU drivers build one program at a time, however many threads
 * there are, and so does PoCL's for any device. For these, clq_building_begin lets one thread in. */
#include "device/internal.h"

enum { THREADS_MAX = 16 };

/* ---- how drivers build ---- */

/* The lock for building on the device; NULL if none is needed. Twins share one lock, since they ask each other for what
 * they have built. */
static pthread_mutex_t *building_lock(clq_device *device) {
    static pthread_mutex_t of_twins = PTHREAD_MUTEX_INITIALIZER;
    if (!clq_device_has_quirk(device, CLQ_QUIRK_BUILDS_ONE_AT_A_TIME)) return NULL;
    return device->twin >= 0 ? &of_twins : &device->building;
}

void clq_building_begin(clq_device *device) {
    if (building_lock(device)) pthread_mutex_lock(building_lock(device));
}

void clq_building_end(clq_device *device) {
    if (building_lock(device)) pthread_mutex_unlock(building_lock(device));
}

/* ---- several at once ---- */

typedef struct loading {
    clq_device *device;
    const clq_program_wish *wishes;
    size_t count;
    atomic_size_t next;
    pthread_mutex_t lock;
    size_t failed; /* the first that failed, or count */
    clq_error error;
} loading;

/* Whether a failure only says that the device was lost before. Then the failure that lost the device is the one to
 * tell. */
static bool is_echo(const loading *l, clq_status status) {
    return status == CLQ_ERROR_DEVICE && clq_device_lost(l->device);
}

/* Whether to tell the failure at i in place of the failure that was met before. */
static bool comes_first(const loading *l, size_t i, clq_status status) {
    if (l->failed == l->count) return true;
    const bool echo = is_echo(l, status), told_echo = is_echo(l, l->error.status);
    return echo == told_echo ? i < l->failed : told_echo;
}

/* All programs before one that failed are tried, so that the same failure is told every time. */
static void load(void *context) {
    loading *l = context;
    for (;;) {
        size_t i = atomic_fetch_add(&l->next, 1);
        if (i >= l->count) return;
        clq_program *program;
        clq_status status = clq_program_get(l->device, &l->wishes[i], &program);
        if (status == CLQ_OK) continue;
        pthread_mutex_lock(&l->lock);
        if (comes_first(l, i, status)) {
            l->failed = i;
            clq_error_take(status, &l->error);
        }
        pthread_mutex_unlock(&l->lock);
        atomic_store(&l->next, l->count);
    }
}

clq_status clq_device_load_programs(clq_device *device, const clq_program_wish *wishes, size_t count, size_t *failed) {
    loading l = {.device = device, .wishes = wishes, .count = count, .failed = count};
    clq_thread *threads[THREADS_MAX];
    size_t wanted = CLQ_MIN(CLQ_MIN((size_t)clq_cpu_count(), count), (size_t)THREADS_MAX), started = 0;
    *failed = count;
    int error = pthread_mutex_init(&l.lock, NULL);
    if (error) return clq_fail_lock("the loading of programs", error);
    /* This thread is one of them. If no other can be had, it does all the work. */
    while (started + 1 < wanted && clq_thread_start("programs", load, &l, &threads[started]) == CLQ_OK) started++;
    load(&l);
    for (size_t i = 0; i < started; i++) clq_thread_join(threads[i]);
    pthread_mutex_destroy(&l.lock);
    *failed = l.failed;
    return l.failed < count ? clq_error_raise(&l.error) : CLQ_OK;
}
