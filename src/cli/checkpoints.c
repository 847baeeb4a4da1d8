/* Checkpoints of `clique train`. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether a last line without an end of line has all of its text: another program may have left only the end of line
 * out. */
static bool is_whole(const char *line, size_t length) {
    enum { DEPTH_MOST = 4 };
    json_t *document;
    if (clq_json_parse(line, length, DEPTH_MOST, "--log", &document) != CLQ_OK) return false;
    json_decref(document);
    return true;
}

/* Finds where the first line begins that is of a later step, or that is not whole. Lines of another kind, such as
 * comments, stay. *open: the last line before that place lacks its end of line. */
static off_t end_of_steps(FILE *file, uint64_t step, bool *open) {
    char *line = NULL;
    size_t room = 0;
    off_t end = 0;
    *open = false;
    for (ssize_t length; (length = getline(&line, &room, file)) > 0; end += length) {
        unsigned long long number;
        if (sscanf(line, " { \"step\" : %llu", &number) == 1 && number > step) break;
        *open = line[length - 1] != '\n';
        if (*open && !is_whole(line, (size_t)length)) break;
    }
    *open = *open && feof(file) && ftello(file) == end;
    free(line);
    return end;
}

clq_status clq_cli_checkpoints_log(const char *path, uint64_t step, FILE *file) {
    if (!clq_file_exists(path)) return CLQ_OK; /* pipes and devices have no lines to look through */
    bool open = false;
    const off_t end = step > 0 ? end_of_steps(file, step, &open) : 0;
    if (fflush(file) == 0 && ftruncate(fileno(file), end) == 0 && fseeko(file, end, SEEK_SET) == 0 &&
        !(open && putc('\n', file) == EOF))
        return CLQ_OK;
    return clq_fail(CLQ_ERROR_WRITE, "--log %s: %s", path, strerror(errno));
}

clq_status clq_cli_checkpoints_tell(clq_checkpoints *checkpoints, FILE *to) {
    const clq_checkpoint_counts counts = clq_checkpoints_counts(checkpoints);
    return clq_print(to, "checkpoints: %llu written, %llu failed, %llu left out; the newest is of step %llu\n",
                     (unsigned long long)counts.written, (unsigned long long)counts.failed,
                     (unsigned long long)counts.skipped, (unsigned long long)counts.last_step);
}

clq_status clq_cli_checkpoints_check(clq_checkpoints *checkpoints, clq_trainer *trainer) {
    const uint64_t last = clq_trainer_step(trainer);
    const clq_checkpoint_counts counts = clq_checkpoints_counts(checkpoints);
    if (counts.failed == 0 || counts.last_step >= last) return CLQ_OK;
    return clq_fail(CLQ_ERROR_WRITE,
                    "--checkpoint: the last checkpoint was not written: the newest is of step %llu, and the training "
                    "ended at step %llu",
                    (unsigned long long)counts.last_step, (unsigned long long)last);
}

json_t *clq_cli_checkpoints_describe(clq_checkpoints *checkpoints, uint64_t resumed) {
    if (!checkpoints) return json_null();
    const clq_checkpoint_counts counts = clq_checkpoints_counts(checkpoints);
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "written", (json_int_t)counts.written, "failed",
                     (json_int_t)counts.failed, "skipped", (json_int_t)counts.skipped, "last_step",
                     (json_int_t)counts.last_step, "resumed_from", (json_int_t)resumed);
}
