/* Reads to the host what steps measured: rows of metrics, and the sums of squares that make the gradient's norm. Both
 * stay on the devices, in rings of `metric_slots` rows, until a caller asks for a range of rows. A read blocks only
 * once, however many steps it covers. */
#include "strategy/module.h"

/* How long to wait for the rows of a device when training has failed. Short, so that the failure is reported soon. */
static const double rescue_s = 1.0;

static unsigned width_of(const clq_strategy *strategy) {
    return clq_losses_width(strategy->config.plan.loss, strategy->model->output_count);
}

/* Sizes of a step's metrics, and of the gradient's squares. Plans give both as f32. */
static size_t metric_rows(const clq_replica *replica) { return CLQ_MAX(replica->metric_rows, 1u); }
static size_t metrics_bytes(const clq_replica *replica) {
    return clq_values_bytes(CLQ_F32, metric_rows(replica) * width_of(replica->strategy));
}
static size_t norms_bytes(const clq_figures *figures) { return clq_values_bytes(CLQ_F32, figures->variables); }

clq_status clq_replica_open_figures(clq_replica *replica) {
    const clq_strategy *strategy = replica->strategy;
    const size_t slots = strategy->config.plan.metric_slots;
    clq_device *device = replica->worker.device;
    clq_figures *figures = &replica->figures;
    if (!strategy->config.plan.loss) return CLQ_OK;
    if (clq_plan_norms(replica->plan) && replica->measures_norms) figures->variables = strategy->model->variable_count;
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_PINNED, slots * (metrics_bytes(replica) + norms_bytes(figures)),
                              "figures of steps", &figures->host));
    if (figures->variables == 0) return CLQ_OK;
    return clq_buffer_create(device, CLQ_MEMORY_DEVICE, slots * norms_bytes(figures), "gradient norms of steps",
                             &figures->norms);
}

void clq_replica_close_figures(clq_replica *replica) {
    clq_buffer_destroy(replica->figures.norms);
    clq_buffer_destroy(replica->figures.host);
}

clq_status clq_replica_keep_norms(clq_replica *replica, uint32_t slot) {
    const clq_figures *figures = &replica->figures;
    const size_t bytes = norms_bytes(figures);
    if (bytes == 0) return CLQ_OK;
    return clq_queue_copy(replica->worker.queue, clq_plan_norms(replica->plan), 0, figures->norms, slot * bytes, bytes);
}

/* ---- by the replica's thread ---- */

/* A part of a range of rows. A range that wraps round behind the last slot has two pieces. The host's copy has the
 * layout of the device's rows. */
typedef struct piece {
    const clq_buffer *from;
    size_t offset, bytes;
    char *to;
} piece;

static void cut(const clq_buffer *from, char *to, size_t row_bytes, size_t slots, const clq_command *command,
                piece *pieces, unsigned *count) {
    size_t first = command->first_slot, rows = CLQ_MIN((size_t)command->slot_count, slots - first);
    pieces[(*count)++] = (piece){from, first * row_bytes, rows * row_bytes, to + first * row_bytes};
    rows = command->slot_count - rows;
    if (rows > 0) pieces[(*count)++] = (piece){from, 0, rows * row_bytes, to};
}

static unsigned pieces_of(const clq_replica *replica, const clq_command *command, piece pieces[4]) {
    const clq_strategy *strategy = replica->strategy;
    const clq_figures *figures = &replica->figures;
    const size_t slots = strategy->config.plan.metric_slots, row_bytes = metrics_bytes(replica);
    char *host = clq_buffer_host(figures->host);
    unsigned count = 0;
    cut(clq_plan_metrics(replica->plan), host, row_bytes, slots, command, pieces, &count);
    if (figures->variables > 0)
        cut(figures->norms, host + slots * row_bytes, norms_bytes(figures), slots, command, pieces, &count);
    return count;
}

static clq_status read_figures(clq_worker *worker, const clq_command *command) {
    piece pieces[4];
    const unsigned count = pieces_of(clq_replica_of(worker), command, pieces);
    for (unsigned i = 0; i < count; i++)
        CLQ_TRY(clq_queue_read(worker->queue, pieces[i].from, pieces[i].offset, pieces[i].to, pieces[i].bytes,
                               i + 1 == count));
    return CLQ_OK;
}

clq_status clq_replica_read_row(clq_replica *replica, uint32_t slot, double *row) {
    const unsigned width = width_of(replica->strategy);
    CLQ_TRY(read_figures(&replica->worker, &(clq_command){.first_slot = slot, .slot_count = 1}));
    const float *from = (const float *)clq_buffer_host(replica->figures.host) + (size_t)slot * width;
    for (unsigned k = 0; k < width; k++) row[k] = (double)from[k];
    return CLQ_OK;
}

/* Called after a failure of another replica, or of this one: its device may still answer. */
static void rescue(clq_worker *worker, const clq_command *command) {
    bool *got = command->to;
    if (!got) return;
    piece pieces[4];
    const unsigned count = pieces_of(clq_replica_of(worker), command, pieces);
    clq_event *done = NULL;
    clq_status status = CLQ_OK;
    for (unsigned i = 0; i < count && status == CLQ_OK; i++)
        status = clq_queue_read_after(worker->queue, pieces[i].from, pieces[i].offset, pieces[i].to, pieces[i].bytes,
                                      &(clq_order){.done = i + 1 == count ? &done : NULL});
    if (status == CLQ_OK) status = clq_queue_flush(worker->queue);
    if (status == CLQ_OK) status = clq_event_wait_until(done, clq_now_running() + rescue_s, NULL);
    clq_event_destroy(done);
    *got = status == CLQ_OK;
}

static const clq_command_kind figures_kind = {.name = "read figures", .run = read_figures, .skip = rescue};

/* ---- by the poster ---- */

/* Adds up the replicas' copies on the host, which nobody writes until the next read. */
static void add_up(const clq_strategy *strategy, uint32_t first, uint32_t count, double *rows, float *squares) {
    const size_t slots = strategy->config.plan.metric_slots, width = width_of(strategy);
    const size_t variables = strategy->model->variable_count;
    for (size_t i = 0; i < count; i++) {
        const size_t slot = (first + i) % slots;
        for (size_t k = 0; k < width; k++) rows[i * width + k] = 0.0;
        for (size_t v = 0; squares && v < variables; v++) squares[i * variables + v] = 0.0f;
        for (unsigned r = 0; r < strategy->count; r++) {
            const double weight = 1.0 / clq_strategy_origin(strategy, (uint32_t)slot).part;
            const clq_figures *figures = &strategy->replicas[r].figures;
            const size_t floats = metric_rows(&strategy->replicas[r]) * width; /* per slot */
            const float *host = clq_buffer_host(figures->host), *norms = host + slots * floats + slot * variables;
            for (size_t k = 0; k < floats && strategy->measured_by[slot] >> r & 1; k++)
                rows[i * width + k % width] += weight * (double)host[slot * floats + k];
            for (size_t v = 0; squares && v < figures->variables; v++) squares[i * variables + v] += norms[v];
        }
        if (squares && strategy->module->squares)
            strategy->module->squares(strategy, (uint32_t)slot, squares + i * variables);
    }
}

clq_status clq_strategy_read_figures(clq_strategy *strategy, uint32_t first, uint32_t count, double *rows,
                                     float *squares) {
    if (squares && !strategy->config.plan.gradient_norms)
        return clq_fail(CLQ_ERROR_STATE, "this trainer does not measure its gradient: set measure_gradient");
    const clq_command command = {.kind = &figures_kind, .first_slot = first, .slot_count = count};
    for (unsigned r = 0; r < strategy->count; r++) CLQ_TRY(clq_worker_call(&strategy->replicas[r].worker, &command));
    add_up(strategy, first, count, rows, squares);
    return CLQ_OK;
}

bool clq_strategy_rescue_figures(clq_strategy *strategy, uint32_t first, uint32_t count, double *rows, float *squares) {
    bool got = false;
    const clq_command command = {.kind = &figures_kind, .first_slot = first, .slot_count = count, .to = &got};
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_worker_ask(&strategy->replicas[r].worker, &command);
        if (!got) return false;
    }
    add_up(strategy, first, count, rows, squares);
    return true;
}

clq_origin clq_strategy_origin(const clq_strategy *strategy, uint32_t slot) {
    static const clq_origin all = {.replica = -1, .part = 1.0};
    return strategy->module->origin ? *strategy->module->origin(strategy, slot) : all;
}

uint64_t clq_strategy_steps_done(const clq_strategy *strategy) {
    uint64_t done = UINT64_MAX;
    double ended;
    if (strategy->module->progress && strategy->module->progress(strategy, 1, &done, &ended)) return done;
    for (unsigned r = 0; r < strategy->count; r++) done = CLQ_MIN(done, strategy->replicas[r].worker.steps_done);
    return done + strategy->steps_before;
}

double clq_strategy_step_ended(const clq_strategy *strategy, uint64_t step) {
    uint64_t done;
    double ended;
    if (strategy->module->progress && strategy->module->progress(strategy, step, &done, &ended)) return ended;
    return strategy->replicas[0].worker.step_ended[(step - strategy->steps_before - 1) % CLQ_STEP_TIMES];
}
