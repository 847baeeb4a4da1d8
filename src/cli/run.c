/* One run of clique launch: the launcher is its child from the start to the end.
 *
 * Ranks of `clique train` report on stderr when they have come together and why they end, in lines of their own that
 * are not passed on. If a rank fails, its launcher ends the others as soon as it can, which is never if a host is cut
 * off. So from the first report of an end on, the launcher has some seconds to end; then it gets SIGTERM, then SIGKILL.
 * Nothing is known of other programs before their launcher ends.
 *
 * Nothing here may wait for the reader of stdout: signals have to be passed on, and a launcher has to be ended. So this
 * process reads the launcher's output only if it can pass the output on. */
#define _GNU_SOURCE /* memmem; NOLINT(bugprone-reserved-identifier) */
#include "cli/interrupt.h"
#include "cli/launch.h"
#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* If poll finds that a pipe can be written to, the pipe takes PIPE_BUF bytes at once. */
enum { LOOK_MS = 100, LINE_BYTES = PIPE_BUF, STREAMS = 2 };
static const double opens_most_s = 60, ends_most_s = 5, leaves_most_s = 10, reach_most_s = 3;

/* A stream that the launcher writes: its own output, and that of all ranks. */
typedef struct stream {
    int fd; /* -1: the stream has ended */
    FILE *to;
    bool is_within; /* the beginning of the line has been passed on */
    size_t length;  /* bytes in `line`, which is not complete yet */
    char line[LINE_BYTES];
} stream;

typedef struct run {
    const clq_mpirun *launch;
    clq_mpirun_end *end;
    pid_t pid;
    stream streams[STREAMS]; /* stdout and stderr */
    char marker[64];         /* how the reports of ranks begin */
    bool joined;             /* the ranks have come together */
    bool join_timed_out;     /* they did not come together in time */
    bool rank0_succeeded;
    int output_error; /* errno of a stdout that cannot be written; 0: it can */
    unsigned signals; /* how many were passed on */
    int next_signal;  /* the next one for the launcher, at `signal_at`; 0: there is none left */
    double signal_at; /* 0: the launcher is not to end yet */
} run;

/* ---- what ranks say ---- */

/* report: "open", or "end CODE", or "end CODE lost RANK". Only rank 0 reports that it ended well. Once a rank has
 * ended, the others are to end, too. A rank's exit code of an interruption is ignored: a launcher interrupts the ranks
 * that are left. */
static void take_report(run *r, const char *report) {
    unsigned code = 0, rank = 0;
    const int read = sscanf(report, "end %u lost %u", &code, &rank);
    const bool failed = read >= 1 && code >= 1 && code <= 4;
    if (strncmp(report, "open", 4) == 0) r->joined = true;
    if (read < 1) return;
    if (code == 0) r->rank0_succeeded = true;
    if (failed && !r->end->reported) r->end->code = (int)code;
    r->end->reported = r->end->reported || failed;
    if (read == 2 && rank < clq_cluster_ranks(r->launch->cluster)) r->end->lost[rank] = true;
    if (r->signal_at == 0) r->signal_at = clq_now() + (failed ? ends_most_s : leaves_most_s);
}

/* On stderr, the output of several ranks may meet in one line: what stands before a report is passed on. On stdout,
 * which belongs to one rank, MPICH's launcher tells how a run failed, from a line of equals signs on. That is for
 * people, so it goes to stderr. */
static void take_line(run *r, stream *s, const char *line, size_t length) {
    static const char banner[] = "================================================================";
    const bool may_report = r->launch->is_train && s == &r->streams[1];
    char *report = may_report ? memmem(line, length, r->marker, strlen(r->marker)) : NULL;
    if (report) take_report(r, report + strlen(r->marker));
    if (r->launch->is_train && !s->is_within && length >= sizeof banner && memcmp(line, banner, sizeof banner - 1) == 0)
        s->to = stderr;
    (void)fwrite(line, 1, report ? (size_t)(report - line) : length, s->to);
    s->is_within = line[length - 1] != '\n';
}

static void take_rest(run *r, stream *s) {
    if (s->length > 0) take_line(r, s, s->line, s->length);
    s->length = 0;
}

/* Whether a write would not wait: the reader takes more, or has gone. */
static bool can_write(FILE *to, int wait_ms) {
    struct pollfd ready = {.fd = fileno(to), .events = POLLOUT};
    return poll(&ready, 1, wait_ms) > 0;
}

static void flush(run *r, const stream *s) {
    errno = 0;
    if ((fflush(s->to) != 0 || ferror(s->to)) && s->to == stdout && !r->output_error)
        r->output_error = errno ? errno : EIO;
}

/* Reads what has come and passes it on. False: nothing was there to read, or the stream has ended and is now closed. */
static bool read_output(run *r, stream *s) {
    const ssize_t got = s->fd < 0 ? -1 : read(s->fd, s->line + s->length, sizeof s->line - 1 - s->length);
    if (got == 0) {
        close(s->fd);
        s->fd = -1;
    }
    if (got <= 0) return false;
    s->length += (size_t)got;
    s->line[s->length] = '\0';
    char *line = s->line, *end;
    for (; (end = memchr(line, '\n', s->length)) != NULL; line = end + 1) {
        const size_t length = (size_t)(end + 1 - line);
        take_line(r, s, line, length);
        s->length -= length;
    }
    memmove(s->line, line, s->length + 1);
    const bool is_progress = s == &r->streams[0] && (s->is_within || s->line[0] != '='); /* which has no end of line */
    if (is_progress || s->length == sizeof s->line - 1) take_rest(r, s);
    flush(r, s);
    return true;
}

/* ---- starting ---- */

static void exec_launcher(char **words, char **variables, const int writes[STREAMS]) {
    const int nowhere = open("/dev/null", O_RDONLY);
    (void)setpgid(0, 0); /* a terminal's Ctrl-C goes to the parent alone */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)dup2(nowhere, STDIN_FILENO);
    (void)dup2(writes[0], STDOUT_FILENO);
    (void)dup2(writes[1], STDERR_FILENO);
    clq_interrupts_ignore_again();
    clq_interrupts_unblock_pipe();
    unsetenv("TF_CONFIG"); /* it is about the hosts at the run's beginning, and some may have been removed */
    for (char **variable = variables; variable && *variable; variable++) (void)putenv(*variable);
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "clique: error: cannot run %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static clq_status start(run *r) {
    clq_words words = {0}, variables = {0};
    int writes[STREAMS] = {-1, -1};
    clq_status status = clq_mpirun_words(r->launch, &words, &variables);
    for (size_t i = 0; status == CLQ_OK && i < STREAMS; i++) {
        int ends[2];
        if (clq_child_pipe(ends) != 0) status = clq_fail(CLQ_ERROR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
        if (status == CLQ_OK) r->streams[i].fd = ends[0];
        if (status == CLQ_OK) writes[i] = ends[1];
    }
    (void)fflush(NULL);
    r->pid = status == CLQ_OK ? fork() : -1;
    if (r->pid == 0) exec_launcher(words.list, variables.list, writes);
    if (status == CLQ_OK && r->pid < 0)
        status = clq_fail(CLQ_ERROR_SYSTEM, "cannot start a process: %s", strerror(errno));
    if (status == CLQ_OK) (void)setpgid(r->pid, r->pid);
    for (size_t i = 0; i < STREAMS; i++)
        if (writes[i] >= 0) close(writes[i]);
    clq_words_release(&words);
    clq_words_release(&variables);
    return status;
}

/* ---- ending ---- */

static void end_now(run *r) {
    r->next_signal = SIGTERM;
    r->signal_at = clq_now();
}

/* Signals the ranks of the first host: if one rank is told to stop, all stop after the same update. The launcher gets
 * no such signal: it would end all ranks by force a second later, before a checkpoint is written. */
static void stop_ranks(run *r, int signal_number) {
    clq_answer answer;
    if (clq_hosts_signal(r->launch, signal_number, 1, reach_most_s, &answer) != CLQ_OK || !answer.found) end_now(r);
}

static void pass_signal(run *r) {
    const bool is_first = r->signals == 0;
    r->signals = clq_interrupts_count();
    r->end->interrupted = true;
    if (is_first && r->signals == 1)
        stop_ranks(r, clq_interrupted_to_end() ? SIGTERM : SIGINT);
    else
        end_now(r);
}

/* Nobody reads what the run prints, so the run ends in order, as by a signal. */
static void end_without_output(run *r) {
    r->end->unwritable = true;
    stop_ranks(r, SIGTERM);
}

static void look_at_clock(run *r, double started) {
    const double now = clq_now();
    if (clq_interrupts_count() > r->signals) pass_signal(r);
    if (r->output_error && !r->end->unwritable && !r->end->interrupted) end_without_output(r);
    if (r->launch->is_train && !r->joined && !r->join_timed_out && r->signal_at == 0 && now > started + opens_most_s) {
        r->join_timed_out = true;
        end_now(r);
    }
    if (r->signal_at == 0 || now < r->signal_at || !r->next_signal) return;
    (void)kill(-r->pid, r->next_signal);
    r->next_signal = r->next_signal == SIGTERM ? SIGKILL : 0;
    r->signal_at = now + ends_most_s;
}

/* Kills what a launcher that failed or was killed has left on this machine: ranks, and agents that wait for a host
 * which is cut off. They have become children of this process. Not called after a run that ended well: what such a run
 * leaves was meant to stay. */
static void end_orphans(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    const double until = clq_now() + 1;
    while (waitpid(-1, NULL, WNOHANG) >= 0 && clq_now() < until) {
        int pid;
        FILE *children = fopen(path, "re");
        while (children && fscanf(children, "%d", &pid) == 1) (void)kill(pid, SIGKILL);
        if (children) (void)fclose(children);
        (void)poll(NULL, 0, 5);
    }
}

/* how: the status from waitpid. */
static int exit_code(int how) { return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how); }

/* Finds the exit code by docs/contract.md. how: the status from waitpid. */
static void judge(run *r, int how) {
    const int code = exit_code(how);
    const bool is_signal = code == 130 || code == 143;
    clq_mpirun_end *end = r->end;
    end->forced = r->next_signal == 0 || WIFSIGNALED(how);
    if (r->rank0_succeeded || (code == 0 && !end->reported)) {
        end->code = 0;
        end->interrupted = false;
    } else if (end->unwritable) {
        end->code = clq_program_exit_code(CLQ_ERROR_WRITE);
        end->reported = end->interrupted = true;
        clq_fprintf(stderr, "clique: error: standard output cannot be written: %s; the run was ended\n",
                    strerror(r->output_error));
    } else if (end->interrupted) {
        end->code = clq_interrupted_to_end() ? 143 : 130;
    } else if (r->join_timed_out) {
        end->code = clq_program_exit_code(CLQ_ERROR_TIMEOUT);
        end->reported = true;
        clq_fprintf(stderr, "clique: error: the processes did not come together within %.0f s\n", opens_most_s);
    } else if (!end->reported) {
        end->code = !r->launch->is_train || is_signal || (code >= 1 && code <= 4) ? code : 1;
        end->interrupted = is_signal;
        if (!is_signal)
            fprintf(stderr, "clique: error: %s ended the run with exit code %d; what it said stands above\n",
                    r->launch->program, code);
        end->reported = true;
    }
}

/* Waits until a stream can be read and passed on, but at most LOOK_MS. */
static void wait_for_output(const run *r) {
    struct pollfd ready[2 * STREAMS];
    for (size_t i = 0; i < STREAMS; i++) {
        const stream *s = &r->streams[i];
        const bool writes = s->fd >= 0 && can_write(s->to, 0);
        ready[i] = (struct pollfd){.fd = writes ? s->fd : -1, .events = POLLIN};
        ready[STREAMS + i] = (struct pollfd){.fd = s->fd >= 0 && !writes ? fileno(s->to) : -1, .events = POLLOUT};
    }
    (void)poll(ready, 2 * STREAMS, LOOK_MS);
}

/* Passes on what is left when the launcher has ended. Waits for a reader that takes nothing until a signal comes. */
static void read_rest(run *r, stream *s) {
    while (s->fd >= 0) {
        const bool can = can_write(s->to, LOOK_MS);
        if (can ? !read_output(r, s) : clq_interrupts_count() > 0) break;
    }
    if (can_write(s->to, 0)) take_rest(r, s);
    flush(r, s);
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}

/* Passes output on and watches the clock until the launcher has ended. how: the status from waitpid. */
static void watch(run *r, double started, int *how) {
    do {
        wait_for_output(r);
        for (size_t i = 0; i < STREAMS; i++)
            if (can_write(r->streams[i].to, 0)) (void)read_output(r, &r->streams[i]);
        clq_waiters_greet(r->launch->waiters);
        look_at_clock(r, started);
    } while (waitpid(r->pid, how, WNOHANG) == 0);
}

clq_status clq_mpirun_run(const clq_mpirun *launch, clq_mpirun_end *end) {
    int how = 0;
    run *r = clq_alloc(1, sizeof *r);
    if (!r) return CLQ_ERROR_MEMORY;
    *r = (run){.launch = launch,
               .end = end,
               .streams = {{.fd = -1, .to = stdout}, {.fd = -1, .to = stderr}},
               .next_signal = SIGTERM};
    snprintf(r->marker, sizeof r->marker, CLQ_LAUNCH_MARKER "%s: ", launch->id);
    *end = (clq_mpirun_end){.lost = end->lost};
    memset(end->lost, 0, clq_cluster_ranks(launch->cluster) * sizeof *end->lost);
    const double started = clq_now();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    const clq_status status = start(r);
    if (status == CLQ_OK) {
        watch(r, started, &how);
        if (exit_code(how) != 0 || r->next_signal != SIGTERM) end_orphans();
    }
    for (size_t i = 0; i < STREAMS; i++) read_rest(r, &r->streams[i]);
    if (status == CLQ_OK) judge(r, how);
    clq_free(r);
    return status;
}
