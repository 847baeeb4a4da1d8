#include "train/meeting.h"

#include "train/callbacks.h"

static const double every_s = 0.25;
enum { EVERY_MOST = 1 << 20 };

/* What each process says at a meeting. */
typedef struct wishes {
    uint64_t every; /* updates until the next meeting; rank 0's counts */
    uint8_t stops, interrupts;
} wishes;

static clq_status agree_on_data(const clq_meeting *meeting, const clq_dataset *train, const clq_dataset *validation) {
    const bool alike = meeting->trainer->config.shard != CLQ_SHARD_FILE;
    const clq_hash128 none = {0}, both[] = {clq_dataset_fingerprint(train, alike),
                                            validation ? clq_dataset_fingerprint(validation, alike) : none};
    return clq_world_agree(meeting->world, alike ? "data set" : "kind of samples, labels, batch, shuffle or seed",
                           clq_hash128_of(both, sizeof both, 0));
}

/* Compares weights before the first update only: then they have the same bits on any device. */
static clq_status agree_on_weights(const clq_meeting *meeting) {
    float *values = NULL;
    size_t count = 0;
    if (meeting->trainer->step > 0) return CLQ_OK;
    for (uint32_t v = 0; v < meeting->trainer->model->variable_count; v++)
        count += meeting->trainer->model->variables[v].elements;
    clq_status status = clq_world_check(meeting->world, clq_trainer_copy_weights(meeting->trainer, &values));
    if (status == CLQ_OK)
        status = clq_world_agree(meeting->world, "set of initial weights",
                                 clq_hash128_of(values, count * sizeof *values, 0));
    clq_free(values);
    return status;
}

static clq_status agree_on_plan(const clq_meeting *meeting, const clq_fit_config *config) {
    const clq_trainer *trainer = meeting->trainer;
    clq_text text = {0};
    clq_text_add(&text, "%llu %.17g %llu; ", (unsigned long long)trainer->step,
                 clq_trainer_learning_rate(meeting->trainer), (unsigned long long)trainer->config.check_replicas);
    clq_text_add(&text, "%llu %llu %llu %d %u %d %d %d %d", (unsigned long long)config->epochs,
                 (unsigned long long)config->steps, (unsigned long long)CLQ_MAX(config->validation_freq, (uint64_t)1),
                 config->on_log != NULL, config->log_every, config->on_step != NULL, clq_callbacks_want_steps(config),
                 config->checkpoints != NULL, config->validation != NULL);
    clq_status status = clq_world_check(meeting->world, text.failed ? CLQ_ERROR_MEMORY : CLQ_OK);
    if (status == CLQ_OK)
        status = clq_world_agree(meeting->world, "plan (epochs, steps, learning rate, log, checkpoints, …)",
                                 clq_hash128_of(text.data, text.length, 0));
    clq_free(text.data);
    return status;
}

clq_status clq_meeting_open(clq_meeting *meeting, clq_trainer *trainer, const clq_dataset *train,
                            const clq_fit_config *config) {
    const bool spans = clq_strategy_spans(trainer->strategy);
    *meeting = (clq_meeting){.trainer = trainer, .every = 1, .left = 1, .held_at = clq_now()};
    meeting->world = spans ? trainer->config.world : NULL;
    if (!spans) return CLQ_OK;
    CLQ_TRY(agree_on_plan(meeting, config));
    CLQ_TRY(agree_on_weights(meeting));
    return agree_on_data(meeting, train, config->validation);
}

clq_status clq_meeting_take(clq_meeting *meeting, clq_status status) {
    if (!meeting->world || status != CLQ_ERROR_INTERRUPTED) return status;
    if (meeting->wish.status == CLQ_OK) clq_error_take(status, &meeting->wish);
    return CLQ_OK;
}

bool clq_meeting_is_due(clq_meeting *meeting) { return meeting->world && --meeting->left == 0; }

/* Updates until the next meeting: at most twice as many as before, as the first updates compile kernels and take
 * long. */
static uint64_t next_every(const clq_meeting *meeting, double now) {
    const uint64_t done = meeting->every - meeting->left;
    const double most = 2.0 * (double)meeting->every, passed_s = CLQ_MAX(now - meeting->held_at, 1e-9);
    const double wanted = (double)done * every_s / passed_s;
    if (done == 0) return meeting->every;
    return (uint64_t)CLQ_MIN(CLQ_MAX(CLQ_MIN(wanted, most), 1.0), (double)EVERY_MOST);
}

/* Returns this process's own wish, or a failure that names the first process that wants to end the fit. */
static clq_status interrupted(clq_meeting *meeting, const wishes *all) {
    unsigned r = 0;
    meeting->is_interrupted = true;
    while (!all[r].interrupts) r++;
    if (meeting->wish.status == CLQ_ERROR_INTERRUPTED) return clq_error_raise(&meeting->wish);
    return clq_fail(CLQ_ERROR_INTERRUPTED, "%s was interrupted", clq_world_name(meeting->world, r));
}

clq_status clq_meeting_hold(clq_meeting *meeting) {
    if (!meeting->world) return CLQ_OK;
    const unsigned size = clq_world_size(meeting->world);
    const double now = clq_now();
    const wishes mine = {.every = next_every(meeting, now),
                         .stops = meeting->trainer->stop,
                         .interrupts = meeting->wish.status == CLQ_ERROR_INTERRUPTED};
    wishes *all = clq_alloc(size, sizeof *all);
    if (!all) return CLQ_ERROR_MEMORY;
    clq_status status = clq_world_gather(meeting->world, &mine, sizeof mine, all);
    bool interrupts = false;
    for (unsigned r = 0; status == CLQ_OK && r < size; r++) {
        meeting->stops = meeting->stops || all[r].stops;
        interrupts = interrupts || all[r].interrupts;
    }
    if (status == CLQ_OK) {
        meeting->every = meeting->left = all[0].every;
        meeting->held_at = now;
        meeting->trainer->stop = meeting->stops;
    }
    if (status == CLQ_OK && interrupts) status = interrupted(meeting, all);
    clq_free(all);
    return status;
}

bool clq_meeting_stops(const clq_meeting *meeting) { return meeting->world ? meeting->stops : meeting->trainer->stop; }

bool clq_meeting_agreed(const clq_meeting *meeting, clq_status status) {
    return !meeting->world || (status == CLQ_ERROR_INTERRUPTED && meeting->is_interrupted);
}

clq_status clq_meeting_close(const clq_meeting *meeting, clq_status status) {
    if (status == CLQ_OK || clq_meeting_agreed(meeting, status)) return status;
    return clq_world_fail_with(meeting->world, status);
}
