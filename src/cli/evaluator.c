/* A host whose task in TF_CONFIG is the evaluator: it has no rank, and evaluates the training's checkpoints, which it
 * reads from a folder that it shares with the first host. A thread waits for the end of the run meanwhile. */
#include "cli/cli.h"
#include "cli/launch.h"

typedef struct waiting {
    const clq_host *host;
    double wait_s;
    atomic_bool stop, over;
    /* Set before `over` becomes true: */
    clq_error error;
    int code;
} waiting;

static void wait_for_end(void *context) {
    waiting *w = context;
    const clq_status status = clq_wait_for_end(w->host, w->wait_s, &w->stop, &w->code);
    clq_error_take(status, &w->error);
    atomic_store(&w->over, true);
}

static bool is_over(void *context) { return atomic_load(&((waiting *)context)->over); }

clq_status clq_launch_evaluate(const clq_mpirun *l, double wait_s, int *code) {
    waiting w = {.host = &l->cluster->hosts[0], .wait_s = wait_s};
    clq_thread *thread;
    clq_error error;
    const unsigned stores = l->cluster->has_stores ? l->cluster->ps : 0; /* store ranks do not train */
    char **train = l->command + 1;
    int count = 0;
    while (train[count]) count++;
    (void)clq_interrupts_count(); /* its handlers come first: clq_command_follow installs others */
    CLQ_TRY(clq_thread_start("launch", wait_for_end, &w, &thread));
    const clq_status status =
        clq_command_follow(count, train, clq_cluster_ranks(l->cluster) - stores, &(clq_followed){is_over, &w});
    clq_error_take(status, &error);
    atomic_store(&w.stop, true);
    clq_thread_join(thread);
    if (status != CLQ_OK) return clq_error_raise(&error);
    *code = w.code;
    return clq_error_raise(&w.error);
}
