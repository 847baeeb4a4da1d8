/* How the processes of a command join, and end: for clique and clique-bench. */
#ifndef CLQ_CLI_RANKS_H
#define CLQ_CLI_RANKS_H

#include "world/world.h"

/* Called first. If a launcher started this process, joins the others: *out is their world, also with an error; NULL:
 * this process is alone. Ranks other than 0 lose their standard output. status: of parsing the options. Errors:
 * `status` of the lowest rank that failed, and those of clq_world_open. */
clq_status clq_ranks_join(clq_world **out, clq_status status);
/* Behind the command's work: waits until all processes are that far. If one failed, this process ends here, with a line
 * on those ranks that are to say it. begun: work was under way, and each says so. world NULL: nothing. */
void clq_ranks_end(clq_world *world, bool begun, clq_status status);
/* Closes the world and returns `status`; a rank that does not talk ends here if it was interrupted. NULL: status. */
clq_status clq_ranks_leave(clq_world *world, clq_status status);

#endif
