#define _GNU_SOURCE /* sched_getaffinity; NOLINT(bugprone-reserved-identifier) */
#include "base/base.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

struct clq_thread {
    pthread_t thread;
    void (*body)(void *);
    void *context;
    char name[16];
    atomic_bool alone; /* the thread ended, or nobody will join it; whoever sets it second frees the struct */
};

static void *thread_main(void *argument) {
    clq_thread *self = argument;
#if defined(__linux__)
    prctl(PR_SET_NAME, self->name, 0, 0, 0);
#endif
    self->body(self->context);
    if (atomic_exchange(&self->alone, true)) clq_free(self);
    return NULL;
}

/* Workers block all signals except those of faults. So the program's signal handlers run on the program's own threads,
 * and a fault stays with the thread that caused it. */
static void signals_for_workers(sigset_t *blocked) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigfillset(blocked);
    for (size_t i = 0; i < CLQ_COUNT_OF(faults); i++) sigdelset(blocked, faults[i]);
}

clq_status clq_thread_start(const char *name, void (*body)(void *), void *context, clq_thread **out) {
    clq_thread *thread = clq_alloc(1, sizeof(*thread));
    if (!thread) return CLQ_ERROR_MEMORY;
    thread->body = body;
    thread->context = context;
    memcpy(thread->name, name, strnlen(name, sizeof(thread->name) - 1));
    sigset_t blocked, before;
    signals_for_workers(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(&thread->thread, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        clq_free(thread);
        return clq_fail(CLQ_ERROR_SYSTEM, "cannot start the thread '%s': %s", name, strerror(error));
    }
    *out = thread;
    return CLQ_OK;
}

void clq_thread_join(clq_thread *thread) {
    if (!thread) return;
    pthread_join(thread->thread, NULL);
    clq_free(thread);
}

void clq_thread_leave(clq_thread *thread) {
    (void)pthread_detach(thread->thread);
    if (atomic_exchange(&thread->alone, true)) clq_free(thread);
}

unsigned clq_cpu_count(void) {
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return (unsigned)CPU_COUNT(&allowed);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

clq_status clq_condition_create(const char *owner, pthread_cond_t *changed) {
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error) return clq_fail_lock(owner, error);
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!error) error = pthread_cond_init(changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return error ? clq_fail_lock(owner, error) : CLQ_OK;
}

clq_status clq_lock_create(const char *owner, pthread_mutex_t *lock, pthread_cond_t *changed) {
    CLQ_TRY(clq_condition_create(owner, changed));
    const int error = pthread_mutex_init(lock, NULL);
    if (!error) return CLQ_OK;
    pthread_cond_destroy(changed);
    return clq_fail_lock(owner, error);
}

void clq_lock_wait(pthread_mutex_t *lock, pthread_cond_t *changed, double longest_s) {
    double until = clq_now() + longest_s;
    struct timespec time = {.tv_sec = (time_t)until};
    time.tv_nsec = (long)((until - (double)time.tv_sec) * 1e9);
    pthread_cond_timedwait(changed, lock, &time);
}
