/* What clique launch does on the hosts itself, without an MPI: it signals the processes of its run, and looks whether
 * hosts answer. On this machine it uses a shell, on other hosts a shell that the agent starts. */
#define _GNU_SOURCE /* pipe2; NOLINT(bugprone-reserved-identifier) */
#include "cli/interrupt.h"
#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* AT_ONCE: the most calls at once. Each has a pipe, and a process may usually have 1024 files open. */
enum { LOOK_MS = 20, AT_ONCE = 64, FOUND = 0, NONE_FOUND = 44 };

typedef struct call {
    pid_t pid;    /* 0: the call is over */
    int said;     /* reads what it writes to stderr */
    double until; /* when it is too late */
} call;

/* The launcher gave the run's id to the run's processes, in their environment. Only they have it: launchers and their
 * servers on other hosts do not. The script is quoted for /bin/sh: the login shell may be another one. */
static char *write_line(const clq_mpirun *l, int signal_number) {
    return clq_strprintf("exec /bin/sh -c 's=%d; for f in $(grep -ls CLIQUE_LAUNCH=%s /proc/[0-9]*/environ); do "
                         "f=${f#/proc/}; kill -%d ${f%%/environ} 2>/dev/null && s=%d; done; exit $s'",
                         (int)NONE_FOUND, l->id, signal_number, (int)FOUND);
}

int clq_child_pipe(int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    return fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

static void exec_shell(const clq_mpirun *l, const clq_host *host, char *line) {
    char shell[] = "sh", flag[] = "-c";
    char *const here[] = {shell, flag, line, NULL}, **reach = l->reach.list;
    (void)setpgid(0, 0);
    clq_interrupts_unblock_pipe();
    reach[l->reach.count - 2] = host->name;
    reach[l->reach.count - 1] = line;
    if (host->is_here)
        execv("/bin/sh", here);
    else
        execvp(reach[0], reach);
    dprintf(STDERR_FILENO, "%s: %s\n", host->is_here ? "/bin/sh" : reach[0], strerror(errno));
    _exit(255);
}

static clq_status begin(const clq_mpirun *l, const clq_host *host, char *line, call *out) {
    int pipe_of[2];
    if (clq_child_pipe(pipe_of) != 0) return clq_fail(CLQ_ERROR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    const pid_t pid = nowhere < 0 ? -1 : fork();
    if (pid == 0) {
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDOUT_FILENO);
        dup2(pipe_of[1], STDERR_FILENO);
        exec_shell(l, host, line);
    }
    const int error = errno;
    if (nowhere >= 0) close(nowhere);
    close(pipe_of[1]);
    if (pid < 0) {
        close(pipe_of[0]);
        return clq_fail(CLQ_ERROR_SYSTEM, "cannot start a process: %s", strerror(error));
    }
    (void)setpgid(pid, pid);
    *out = (call){.pid = pid, .said = pipe_of[0]};
    return CLQ_OK;
}

/* Puts the last line of the agent that is not empty into answer->said. */
static void read_output(const call *c, clq_answer *answer) {
    char piece[4096];
    for (ssize_t got; (got = read(c->said, piece, sizeof piece - 1)) > 0;) {
        piece[got] = '\0';
        while (got > 0 && strchr("\r\n", piece[got - 1])) piece[--got] = '\0';
        const char *last = strrchr(piece, '\n');
        if (got > 0) snprintf(answer->said, sizeof answer->said, "%.200s", last ? last + 1 : piece);
    }
    clq_clean(answer->said);
}

static void check_call(call *c, clq_answer *answer, bool is_late) {
    int how;
    read_output(c, answer);
    if (is_late) (void)kill(-c->pid, SIGKILL);
    if (waitpid(c->pid, &how, is_late ? 0 : WNOHANG) != c->pid) return;
    read_output(c, answer);
    answer->found = WIFEXITED(how) && WEXITSTATUS(how) == FOUND;
    answer->is_there = answer->found || (WIFEXITED(how) && WEXITSTATUS(how) == NONE_FOUND);
    if (is_late) snprintf(answer->said, sizeof answer->said, "no answer");
    (void)kill(-c->pid, SIGKILL); /* what the agent left running */
    close(c->said);
    *c = (call){0};
}

clq_status clq_hosts_signal(const clq_mpirun *l, int signal_number, size_t hosts, double limit_s, clq_answer *answers) {
    char *line = write_line(l, signal_number);
    call *calls = clq_alloc(hosts, sizeof *calls);
    clq_status status = line && calls ? CLQ_OK : CLQ_ERROR_MEMORY;
    size_t begun = 0, open = 0;
    bool is_stopped = false;
    memset(answers, 0, hosts * sizeof *answers);
    while (calls && !is_stopped) {
        while (status == CLQ_OK && begun < hosts && open < AT_ONCE) {
            status = begin(l, &l->cluster->hosts[begun], line, &calls[begun]);
            if (status != CLQ_OK) break;
            calls[begun++].until = clq_now() + limit_s;
            open++;
        }
        is_stopped = status != CLQ_OK || (signal_number == 0 && clq_interrupts_count() > 0);
        open = 0;
        for (size_t i = 0; i < begun; i++) {
            if (calls[i].pid) check_call(&calls[i], &answers[i], is_stopped || clq_now() >= calls[i].until);
            open += calls[i].pid != 0;
        }
        if (open == 0 && begun == hosts) break;
        if (open > 0) (void)poll(NULL, 0, LOOK_MS);
    }
    clq_free(calls);
    clq_free(line);
    return status;
}
