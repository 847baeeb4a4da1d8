/* How the processes of a command join, and end: for clique and clique-bench. */
#ifndef CLQ_CLI_RANKS_H
#define CLQ_CLI_RANKS_H

#include "world/world.h"

/* Call it first. If a launcher started this process, joins the other processes: *out is their world, also after an
 * error. *out NULL: this process is alone. Ranks other than 0 lose their standard output. status: the result of parsing
 * the options. Errors: `status` of the lowest rank that failed, and those of clq_world_open. */
clq_status clq_ranks_join(clq_world **out, clq_status status);
/* Call it after the command's work. Waits until all processes are that far. If one failed, this process ends here; the
 * ranks that are to tell print a line. begun: work was under way, so each rank tells. world NULL: does nothing. */
void clq_ranks_end(clq_world *world, bool begun, clq_status status);
/* Closes the world and returns `status`. A rank other than 0 ends here instead if it was interrupted. world NULL:
 * returns `status`. */
clq_status clq_ranks_leave(clq_world *world, clq_status status);

#endif
