#include "train/meeting.h"

#include <string.h>

static const double every_s = 0.25;
enum { EVERY_MOST = 1 << 20 };

/* What each process brings. */
typedef struct voice {
    uint64_t every; /* rank 0's counts */
    uint8_t stops, interrupts;
} voice;

static clq_status agree_on_fit(const clq_meeting *meeting, const clq_dataset *train, const clq_fit_config *config) {
    const clq_dataset *const sets[] = {train, config->validation};
    clq_text text = {0};
    clq_text_add(&text, "%llu %llu %d %u %d %d", (unsigned long long)config->epochs, (unsigned long long)config->steps,
                 config->on_log != NULL, config->log_every, config->on_step != NULL, config->checkpoints != NULL);
    for (size_t i = 0; i < CLQ_COUNT_OF(sets); i++) {
        if (!sets[i]) continue;
        const clq_hash128 hash = clq_dataset_fingerprint(sets[i]);
        clq_text_add(&text, "; %llx %llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
    }
    clq_status status = text.failed ? CLQ_MEMORY : CLQ_OK;
    if (status == CLQ_OK)
        status = clq_world_agree(meeting->world, "data set or plan of the training",
                                 clq_hash128_of(text.data, text.length, 0));
    clq_free(text.data);
    return status;
}

clq_status clq_meeting_open(clq_meeting *meeting, clq_trainer *trainer, const clq_dataset *train,
                            const clq_fit_config *config) {
    const bool spans = clq_strategy_spans(trainer->strategy);
    *meeting = (clq_meeting){.trainer = trainer, .every = 1, .left = 1, .held_at = clq_now()};
    meeting->world = spans ? trainer->config.world : NULL;
    return spans ? agree_on_fit(meeting, train, config) : CLQ_OK;
}

clq_status clq_meeting_take(clq_meeting *meeting, clq_status status) {
    if (!meeting->world || status != CLQ_INTERRUPTED) return status;
    clq_error_take(status, &meeting->wish);
    return CLQ_OK;
}

bool clq_meeting_is_due(clq_meeting *meeting) { return meeting->world && --meeting->left == 0; }

/* At most twice as many as before: the first updates compile. */
static uint64_t next_every(const clq_meeting *meeting, double now) {
    const double most = 2.0 * (double)meeting->every, passed_s = CLQ_MAX(now - meeting->held_at, 1e-9);
    const double wanted = (double)meeting->every * every_s / passed_s;
    return (uint64_t)CLQ_MIN(CLQ_MAX(CLQ_MIN(wanted, most), 1.0), (double)EVERY_MOST);
}

/* Of the first that wants it. */
static clq_status interrupted(clq_meeting *meeting, const voice *all) {
    unsigned r = 0;
    meeting->is_interrupted = true;
    while (!all[r].interrupts) r++;
    if (meeting->wish.status == CLQ_INTERRUPTED) return clq_error_raise(&meeting->wish);
    return clq_fail(CLQ_INTERRUPTED, "%s was interrupted", clq_world_name(meeting->world, r));
}

clq_status clq_meeting_hold(clq_meeting *meeting) {
    if (!meeting->world) return CLQ_OK;
    const unsigned size = clq_world_size(meeting->world);
    const double now = clq_now();
    const voice mine = {.every = next_every(meeting, now),
                        .stops = meeting->trainer->stop,
                        .interrupts = meeting->wish.status == CLQ_INTERRUPTED};
    voice *all = clq_alloc(size, sizeof *all);
    if (!all) return CLQ_MEMORY;
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
    return !meeting->world || (status == CLQ_INTERRUPTED && meeting->is_interrupted);
}

clq_status clq_meeting_close(const clq_meeting *meeting, clq_status status) {
    if (status == CLQ_OK || clq_meeting_agreed(meeting, status)) return status;
    return clq_world_fail_with(meeting->world, status);
}
