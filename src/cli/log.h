/* --log: a line of JSON per update. Private to cli. */
#ifndef CLQ_CLI_LOG_H
#define CLQ_CLI_LOG_H

#include "cli/cli.h"

typedef struct clq_step_log {
    FILE *file; /* NULL: no log */
    const char *path;
    bool metrics; /* lines have them, too */
} clq_step_log;
clq_status clq_step_log_open(const char *path, bool metrics, clq_step_log *out);
clq_status clq_step_log_put(clq_step_log *log, const clq_step_info *info, uint64_t epoch);
clq_status clq_step_log_flush(clq_step_log *log); /* for who reads along */
/* Closes, and tells of a write that failed on the way. */
clq_status clq_step_log_close(clq_step_log *log);

#endif
