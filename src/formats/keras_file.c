/* Keras's .keras and .weights.h5 files. A separate program (helpers/keras) converts them to safetensors, and back. So a
 * damaged file can crash that program, but not the caller's. */
#define _GNU_SOURCE /* pipe2; NOLINT(bugprone-reserved-identifier) */
#include "formats/private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char program_name[] = "clique-keras-files";

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

bool clq_keras_file_is_archive(const char *path) { return ends_with(path, ".keras"); }

bool clq_keras_file_is(const char *path) { return clq_keras_file_is_archive(path) || ends_with(path, ".weights.h5"); }

bool clq_keras_files_built(void) {
    char program[CLQ_BESIDE_BYTES];
    return clq_find_beside(program_name, program);
}

clq_status clq_keras_files_check(const char *path) {
    if (clq_keras_files_built()) return CLQ_OK;
    return clq_fail(
        CLQ_ERROR_UNSUPPORTED,
        "%s: this build reads and writes no .keras and .weights.h5 files: install libhdf5-dev and libzip-dev, "
        "and build Clique again",
        path);
}

/* ---- the program ---- */

/* Whether a damaged file may have caused this signal: signals of faults, and those of the limit of processor time. */
static bool is_of_file(int signal) {
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGFPE || signal == SIGILL ||
           signal == SIGTRAP || signal == SIGXCPU || signal == SIGKILL;
}

/* Turns the program's answer into a status. said: "ok", or a status and one line. known: whether `ended` is the
 * program's status from waitpid. */
static clq_status judge(const char *verb, const char *path, char *said, bool known, int ended) {
    char *detail;
    if (strcmp(said, "ok\n") == 0 && (!known || ended == 0)) return CLQ_OK;
    const long status = strtol(said, &detail, 10);
    if (detail > said && *detail == ' ' && status > CLQ_OK && status < CLQ_STATUS_COUNT) {
        detail[strcspn(detail, "\n")] = '\0';
        clq_clean(detail);
        return clq_fail((clq_status)status, "%s", detail + 1);
    }
    if (known && WIFSIGNALED(ended)) {
        const int signal = WTERMSIG(ended);
        if (strcmp(verb, "read") == 0 && is_of_file(signal))
            return clq_fail(CLQ_ERROR_FORMAT, "%s: the file is damaged: reading it ended by signal %d", path, signal);
        return clq_fail(CLQ_ERROR_SYSTEM, "%s: the program %s was ended by signal %d", path, program_name, signal);
    }
    if (known && WIFEXITED(ended) && WEXITSTATUS(ended) == 127)
        return clq_fail(CLQ_ERROR_SYSTEM, "%s: the program %s cannot be started: are HDF5 and libzip installed?", path,
                        program_name);
    return clq_fail(CLQ_ERROR_SYSTEM, "%s: the program %s ended without an answer", path, program_name);
}

/* Reads the answer until the program ends. Drops what does not fit. */
static void read_answer(int from, char *said, size_t bytes) {
    size_t length = 0;
    char rest[256];
    for (;;) {
        const size_t room = bytes - 1 - length;
        const ssize_t got = read(from, room ? said + length : rest, room ? room : sizeof rest);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (room) length += (size_t)got;
    }
    said[length] = '\0';
}

/* Starts the program. Its stderr goes to /dev/null, because the C library's messages about a damaged heap help nobody.
 * Its environment is empty, because it needs none. It gets its own process group: Ctrl-C is meant for the command,
 * which may go on to save. */
static int start(const char *const *words, int answer, pid_t *out) {
    static char *const nothing[] = {NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t how;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    if ((error = posix_spawnattr_init(&how)) != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    error = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP); /* group 0: a new group with the program's number */
    if (!error) error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, answer, STDOUT_FILENO);
    if (!error) error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!error) error = posix_spawn(out, words[0], &actions, &how, (char *const *)(uintptr_t)words, nothing);
    (void)posix_spawnattr_destroy(&how);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Runs the program and waits for it. verb: "read" or "write"; path: Keras's file, for messages. */
static clq_status run(const char *verb, const char *from, const char *to, const char *path) {
    char program[CLQ_BESIDE_BYTES], said[CLQ_DETAIL_MAX + 16];
    int ends[2], ended = 0;
    pid_t pid;
    CLQ_TRY(clq_keras_files_check(path));
    (void)clq_find_beside(program_name, program);
    const char *const words[] = {program, verb, from, to, NULL};
    if (pipe2(ends, O_CLOEXEC) != 0) return clq_fail(CLQ_ERROR_SYSTEM, "%s: no pipe: %s", path, strerror(errno));
    const int error = start(words, ends[1], &pid);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        return clq_fail(CLQ_ERROR_SYSTEM, "%s: the program %s cannot be started: %s", path, program_name,
                        strerror(error));
    }
    read_answer(ends[0], said, sizeof said);
    close(ends[0]);
    pid_t waited;
    while ((waited = waitpid(pid, &ended, 0)) < 0 && errno == EINTR) continue;
    return judge(verb, path, said, waited == pid, ended); /* if the caller ignores SIGCHLD, waitpid finds no process */
}

/* ---- reading and writing ---- */

clq_status clq_keras_file_open(const char *path, clq_safetensors **out) {
    clq_between b = {.lock = -1};
    clq_file file;
    CLQ_TRY(clq_file_open(path, SIZE_MAX - 64, &file)); /* only whether it exists; the program reports the rest */
    clq_file_close(&file);
    CLQ_TRY(clq_keras_files_check(path));
    clq_status status = clq_between_open(&b);
    if (status == CLQ_OK) status = run("read", path, b.file, path);
    if (status == CLQ_OK) status = clq_safetensors_open(b.file, out);
    clq_between_close(&b);
    return status;
}

clq_status clq_keras_file_write(const char *path, const clq_safetensors_source *tensors, size_t count,
                                const char *const *metadata, size_t metadata_count) {
    clq_between b = {.lock = -1};
    CLQ_TRY(clq_keras_files_check(path));
    clq_status status = clq_between_open(&b);
    if (status == CLQ_OK) status = clq_safetensors_write(b.file, tensors, count, metadata, metadata_count);
    if (status == CLQ_OK) status = run("write", b.file, path, path);
    clq_between_close(&b);
    return status;
}
