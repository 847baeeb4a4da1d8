#include "cli/program.h"

#include "cli/interrupt.h"
#include "device/device.h"
#include "world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A file that is opened gets the lowest number that is free. If that were 0, 1 or 2, what is printed for people would
 * be written into the file. */
static clq_status open_standard_streams(void) {
    for (int wanted = STDIN_FILENO; wanted <= STDERR_FILENO; wanted++) {
        if (fcntl(wanted, F_GETFD) != -1 || errno != EBADF) continue;
        int opened = open("/dev/null", O_RDWR); /* all below `wanted` are open: it gets this number */
        if (opened < 0)
            return clq_fail(CLQ_ERROR_SYSTEM, "file descriptor %d is closed, and /dev/null cannot be opened for it: %s",
                            wanted, strerror(errno));
    }
    return CLQ_OK;
}

static void log_to_stderr(void *context, clq_log_level level, const char *line) {
    (void)context;
    fprintf(stderr, "clique: %s%s\n", level == CLQ_LOG_WARNING ? "warning: " : "", line);
}

/* A full disk shows here at the latest. */
static clq_status flush_stdout(void) {
    bool lost = ferror(stdout) != 0; /* something printed before could not be written; errno may be another call's */
    if (fflush(stdout) != 0) return clq_fail(CLQ_ERROR_WRITE, "standard output cannot be written: %s", strerror(errno));
    return lost ? clq_fail(CLQ_ERROR_WRITE, "standard output is incomplete: a part of it could not be written")
                : CLQ_OK;
}

int clq_program_exit_code(clq_status status) {
    switch (status) {
    case CLQ_OK: return 0;
    case CLQ_ERROR_ARGUMENT: return 2;
    case CLQ_ERROR_NOT_FOUND:
    case CLQ_ERROR_READ:
    case CLQ_ERROR_FORMAT:
    case CLQ_ERROR_UNSUPPORTED:
    case CLQ_ERROR_MISMATCH: return 3;
    case CLQ_ERROR_NO_DEVICE:
    case CLQ_ERROR_DEVICE:
    case CLQ_ERROR_BUILD:
    case CLQ_ERROR_TIMEOUT:
    case CLQ_ERROR_DEVICE_MEMORY: return 4;
    case CLQ_ERROR_INTERRUPTED: return clq_interrupted_to_end() ? 143 : 130;
    default: return 1;
    }
}

void clq_tell_launch(const char *format, ...) {
    char text[64], line[256];
    const char *id = clq_environment("CLIQUE_LAUNCH");
    if (!id || strncmp(id, CLQ_LAUNCH_SILENT, strlen(CLQ_LAUNCH_SILENT)) == 0) return;
    va_list arguments;
    va_start(arguments, format);
    (void)clq_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    const int length = snprintf(line, sizeof line, CLQ_LAUNCH_MARKER "%s: %s\n", id, text);
    if (length < 0 || (size_t)length >= sizeof line) return;
    const ssize_t written = write(STDERR_FILENO, line, (size_t)length); /* in one call: others write there, too */
    (void)written;
}

int clq_program_end(clq_status status) {
    if (status == CLQ_OK) status = flush_stdout();
    const int code = clq_program_exit_code(status);
    if (status != CLQ_OK)
        fprintf(stderr, "clique: error: %s\n", *clq_error_detail() ? clq_error_detail() : clq_status_text(status));
    if (status != CLQ_OK || clq_launcher_find().rank == 0) clq_tell_launch("end %d", code);
    return code;
}

int clq_program_run(int argc, char **argv, clq_status (*body)(int argc, char **argv)) {
    clq_interrupts_note_ignored();
    clq_interrupts_block_file_size();
    clq_status status = open_standard_streams();
    if (status != CLQ_OK) return clq_program_end(status);
    clq_drivers_prefer();
    clq_log_set_sink(log_to_stderr, NULL, CLQ_LOG_WARNING);
    return clq_program_end(body(argc, argv));
}
