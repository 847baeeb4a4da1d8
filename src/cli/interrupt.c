#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop_asked, times_asked;
static void ask_to_stop(int signal_number) {
    stop_asked = signal_number;
    times_asked = times_asked + 1;
}

/* Before a call that does not return, the address sanitizer looks up the thread's stack, which allocates memory. A
 * signal handler must not do so: the code that it interrupts may hold the allocator's lock. */
#define ENDS_IN_HANDLER __attribute__((no_sanitize_address))

static const char *last_line, *last_line_of_end; /* last_line_of_end: for SIGTERM */
/* A process that only compiles has nothing to clean up. This function only calls what may be called in a signal
 * handler. */
ENDS_IN_HANDLER static void end(int signal_number) {
    const char *line = signal_number == SIGTERM ? last_line_of_end : last_line;
    const ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
    _exit(128 + signal_number);
}

static volatile sig_atomic_t held, code_to_end; /* code_to_end 0: not yet */
ENDS_IN_HANDLER static void end_with_code(int signal_number) {
    held = signal_number;
    if (code_to_end) _exit(code_to_end);
}

/* Only programs that count signals handle SIGHUP, the last one: its default action ends all others. */
enum { SIGNALS = 3, SIGNALS_TO_STOP = 2 };
static const int signals[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
static bool ignored[SIGNALS];

bool clq_interrupted_to_end(void) { return stop_asked == SIGTERM || stop_asked == SIGHUP; }

void clq_interrupts_note_ignored(void) {
    for (size_t i = 0; i < SIGNALS; i++) {
        struct sigaction now;
        ignored[i] = sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN;
    }
}

static void change_mask(int how, int signal_number) {
    sigset_t changed;
    sigemptyset(&changed);
    sigaddset(&changed, signal_number);
    (void)sigprocmask(how, &changed, NULL);
}

void clq_interrupts_block_file_size(void) { change_mask(SIG_BLOCK, SIGXFSZ); }

void clq_interrupts_block_pipe(void) { change_mask(SIG_BLOCK, SIGPIPE); }

void clq_interrupts_unblock_pipe(void) { change_mask(SIG_UNBLOCK, SIGPIPE); }

void clq_interrupts_ignore_again(void) {
    for (size_t i = 0; i < SIGNALS; i++)
        if (ignored[i]) (void)signal(signals[i], SIG_IGN);
}

static void install(void (*handler)(int), int flags, size_t count) {
    clq_interrupts_ignore_again();
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < count; i++)
        if (!ignored[i]) sigaction(signals[i], &action, NULL);
}

void clq_interrupts_end_at_once(const char *line) {
    last_line = last_line_of_end = line;
    install(end, (int)SA_RESETHAND, SIGNALS_TO_STOP);
}

void clq_interrupts_tell_of_end(const char *line) { last_line_of_end = line; }

void clq_interrupts_hold(void) { install(end_with_code, 0, SIGNALS_TO_STOP); }

void clq_interrupts_end_with(int code) {
    code_to_end = code;
    if (held) _exit(code);
}

bool clq_interrupted(void) {
    static bool installed;
    if (!installed) {
        install(ask_to_stop, (int)SA_RESETHAND, SIGNALS_TO_STOP);
        installed = true;
    }
    return stop_asked != 0;
}

unsigned clq_interrupts_count(void) {
    static bool installed;
    if (!installed) install(ask_to_stop, 0, SIGNALS);
    installed = true;
    return (unsigned)times_asked;
}
