/* Child processes: finding their program, starting, waiting, stopping, and reading what they printed. */
#include "child.h"

#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* How often a child is checked, and how long it may take to stop after SIGTERM. */
static const long look_ns = 10 * 1000 * 1000;
static const double grace_s = 5;

/* ---- finding ---- */

static bool is_program(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

clq_status clq_bench_find_program(const char *name, char **out) {
    const char *at = clq_environment("PATH");
    if (strchr(name, '/')) {
        char *path = is_program(name) ? clq_strdup(name) : NULL;
        if (!path && is_program(name)) return CLQ_ERROR_MEMORY;
        *out = path;
        return CLQ_OK;
    }
    while (at && *at) {
        size_t length = strcspn(at, ":");
        char *path = clq_strprintf("%.*s/%s", (int)length, length ? at : ".", name);
        if (!path) return CLQ_ERROR_MEMORY;
        if (is_program(path)) {
            *out = path;
            return CLQ_OK;
        }
        clq_free(path);
        at += length + (at[length] == ':');
    }
    *out = NULL;
    return CLQ_OK;
}

/* ---- running ---- */

static int set_files(posix_spawn_file_actions_t *actions, const clq_bench_child *child) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0) error = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, child->out_path, flags, 0600);
    if (error == 0) error = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, child->err_path, flags, 0600);
    return error;
}

/* The child gets a process group of its own. Ctrl-C at the terminal then reaches this program alone, which ends the
 * whole group. */
static int set_attributes(posix_spawnattr_t *attributes) {
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    sigaddset(&usual, SIGPIPE);
    int error = posix_spawnattr_setpgroup(attributes, 0);
    if (error == 0) error = posix_spawnattr_setsigmask(attributes, &none);
    if (error == 0) error = posix_spawnattr_setsigdefault(attributes, &usual);
    const int flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    return error ? error : posix_spawnattr_setflags(attributes, (short)flags);
}

static int start(const clq_bench_child *child, pid_t *out) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = set_files(&actions, child);
        if (error == 0) error = set_attributes(&attributes);
        if (error == 0) error = posix_spawn(out, child->argv[0], &actions, &attributes, child->argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Waits until the child has ended or `seconds` are over; with heed_interrupts also until Ctrl-C is pressed. Returns
 * whether the child has ended. It is not reaped yet, so its process number and its group's are not given to another
 * process. */
static bool ended_within(pid_t child, double seconds, bool heed_interrupts) {
    for (double until = clq_now() + seconds;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child) return true;
        if (clq_now() >= until || (heed_interrupts && clq_interrupted())) return false;
        nanosleep(&(struct timespec){.tv_nsec = look_ns}, NULL);
    }
}

clq_status clq_bench_child_run(const clq_bench_child *child, clq_bench_ending *out) {
    pid_t pid;
    if (clq_interrupted()) return clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted");
    int error = start(child, &pid);
    if (error) return clq_fail(CLQ_ERROR_SYSTEM, "cannot run %s: %s", child->argv[0], strerror(error));
    bool ended = ended_within(pid, child->limit_s, true);
    if (!ended) {
        kill(-pid, SIGTERM); /* mpirun then ends its ranks, which are not in its group */
        (void)ended_within(pid, grace_s, false);
    }
    kill(-pid, SIGKILL); /* all that are left in the group */
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return clq_fail(CLQ_ERROR_SYSTEM, "cannot wait for %s: %s", child->argv[0], strerror(errno));
    if (clq_interrupted()) return clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted");
    *out = (clq_bench_ending){.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                              .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                              .late = !ended};
    return CLQ_OK;
}

/* ---- what it said ---- */

static bool says_something(const char *line) {
    for (; *line; line++)
        if (clq_is_letter(*line) || clq_is_digit(*line)) return true;
    return false;
}

static void keep_line(const char *line, char out[CLQ_BENCH_LINE_MAX]) {
    while (clq_is_space(*line)) line++;
    size_t length = 0;
    for (; *line && *line != '\n' && length + 1 < CLQ_BENCH_LINE_MAX; line++)
        out[length++] = *line >= ' ' && *line <= '~' ? *line : '?';
    while (length && out[length - 1] == ' ') length--;
    out[length] = '\0';
}

void clq_bench_line_of(const char *path, const char *start_with, char out[CLQ_BENCH_LINE_MAX]) {
    out[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file) return;
    char line[1024];
    while (fgets(line, sizeof line, file)) {
        bool starts = start_with && strncmp(line, start_with, strlen(start_with)) == 0;
        if (starts || (!start_with && says_something(line))) keep_line(line, out);
        if (starts) break;
    }
    fclose(file);
}
