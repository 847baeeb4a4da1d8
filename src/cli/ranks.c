/* A command that several processes carry out together, which a launcher of MPI started. Rank 0 talks, and writes all
 * files. */
#include "cli/ranks.h"

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* ---- joining ---- */

static const char *own_name = "";
static void log_with_name(void *context, clq_log_level level, const char *line) {
    (void)context;
    fprintf(stderr, "clique: %s%s: %s\n", level == CLQ_LOG_WARNING ? "warning: " : "", own_name, line);
}

static clq_status be_silent(const clq_world *world) {
    own_name = clq_world_name(world, clq_world_rank(world));
    clq_log_set_sink(log_with_name, NULL, CLQ_LOG_WARNING);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
        return clq_fail(CLQ_ERROR_SYSTEM, "cannot open /dev/null: %s", strerror(errno));
    close(nowhere);
    return CLQ_OK;
}

clq_status clq_ranks_join(clq_world **out, clq_status status) {
    clq_error error = {0};
    clq_world *world;
    *out = NULL;
    if (status != CLQ_OK) clq_error_take(status, &error);
    const clq_status opened = clq_world_open(NULL, &world);
    /* If the launcher is of another MPI, or ranks have different versions, all processes find the same failure: only
     * the first reports it. */
    if ((opened == CLQ_ERROR_UNSUPPORTED || opened == CLQ_ERROR_MISMATCH) && clq_launcher_find().rank > 0)
        _exit(clq_program_exit_code(opened));
    if (opened != CLQ_OK) return status == CLQ_OK ? opened : clq_error_raise(&error);
    if (clq_world_rank(world) == 0) clq_tell_launch("open");
    if (clq_world_size(world) == 1) {
        clq_world_close(world);
        return status == CLQ_OK ? CLQ_OK : clq_error_raise(&error);
    }
    *out = world;
    if (status != CLQ_OK) (void)clq_error_raise(&error);
    CLQ_TRY(clq_world_check(world, status));
    clq_widen_affinity(world);
    return clq_world_rank(world) > 0 ? be_silent(world) : CLQ_OK;
}

/* ---- the end ---- */

enum { RANK_0_SPEAKS_MS = 1000 };

/* Whether this rank is to say why the run failed. While the run is set up, one line on one rank is enough: the rank
 * that failed prints it, if it can. If that rank fell silent, or if work was under way, each rank prints a line. */
static bool is_to_tell(const clq_world *world, bool begun, clq_status status) {
    const clq_status cause = clq_world_failed_status(world);
    if (clq_world_failed_rank(world) == clq_world_rank(world)) return true;
    return begun || (status == CLQ_ERROR_ABORTED && cause == CLQ_ERROR_ABORTED);
}

static void tell(const clq_world *world, clq_status status) {
    const unsigned rank = clq_world_rank(world);
    const char *detail = *clq_error_detail() ? clq_error_detail() : clq_status_text(status);
    const char *name = clq_world_name(world, rank);
    const bool names_itself = rank == 0 || strncmp(detail, name, strlen(name)) == 0;
    if (status == CLQ_ERROR_ABORTED)
        fprintf(stderr, "clique: error: %s (as %s knows it)\n", detail, name);
    else
        fprintf(stderr, "clique: error: %s%s%s\n", names_itself ? "" : name, names_itself ? "" : ": ", detail);
}

/* Ends the process and only flushes what was printed: devices may hang, and MPI is not to be called any more. */
static void end_failed(clq_world *world, bool begun, clq_status status) {
    clq_error error;
    /* A launcher that sees one rank end sends SIGTERM to the others. That signal waits until this rank has said why it
     * ends. */
    clq_interrupts_hold();
    clq_error_take(clq_world_fail_with(world, status), &error);
    (void)clq_error_raise(&error);
    if (is_to_tell(world, begun, status)) tell(world, status);
    (void)fflush(NULL);
    const clq_status cause = status == CLQ_ERROR_ABORTED ? clq_world_failed_status(world) : status;
    const int code = clq_program_exit_code(cause);
    if (cause == CLQ_ERROR_ABORTED || code == 4) /* the rank fell silent, or lost its devices */
        clq_tell_launch("end %d lost %u", code, clq_world_failed_rank(world));
    else
        clq_tell_launch("end %d", code);
    clq_interrupts_end_with(code);
    clq_world_let_others_speak(world);
    _exit(code);
}

void clq_ranks_end(clq_world *world, bool begun, clq_status status) {
    clq_error error;
    if (!world) return;
    if (status != CLQ_OK && status != CLQ_ERROR_INTERRUPTED) end_failed(world, begun, status);
    clq_error_take(status, &error);
    const clq_status met = clq_world_barrier(world);
    if (met != CLQ_OK) end_failed(world, begun, met);
    (void)clq_error_raise(&error);
}

clq_status clq_ranks_leave(clq_world *world, clq_status status) {
    clq_error error;
    if (!world) return status;
    const bool is_silent = clq_world_rank(world) > 0;
    clq_error_take(status, &error);
    clq_world_close(world);
    if (status == CLQ_ERROR_INTERRUPTED &&
        is_silent) { /* with this rank, a launcher may end rank 0, which has a line to say */
        clq_interrupts_hold();
        clq_interrupts_end_with(clq_program_exit_code(status));
        (void)poll(NULL, 0, RANK_0_SPEAKS_MS);
        _exit(clq_program_exit_code(status));
    }
    return clq_error_raise(&error);
}
