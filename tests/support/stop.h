/* Stops this process as Ctrl-Z does, and lets it go on after a while. */
#ifndef CLQ_TEST_STOP_H
#define CLQ_TEST_STOP_H

#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline void nap(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* Stops this process with all its threads for about `seconds`. */
static inline void stop_process(double seconds) {
    double before = clq_now();
    pid_t waker = fork(); /* the child has this one thread, so it calls nothing that takes a lock */
    if (waker == 0) {
        nap(seconds);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    assert_true(waker > 0);
    assert_int_equal(kill(getpid(), SIGSTOP), 0);
    int status;
    assert_int_equal(waitpid(waker, &status, 0), waker);
    assert_true(clq_now() - before >= 0.9 * seconds);
}

#endif
