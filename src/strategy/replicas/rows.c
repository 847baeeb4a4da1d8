/* Brings the rows of batches to a replica's device, or to where its kernels read them. */
#include "strategy/module.h"

#include <assert.h>

static void copy_rows(const clq_replica *replica, const clq_rows *rows, const clq_staging *to) {
    const clq_feed *feed = &replica->strategy->feed;
    for (unsigned i = 0; i < feed->count; i++) {
        const unsigned from = clq_feed_find(rows->feed, feed->arrays[i].role, feed->arrays[i].index);
        if (!to->arrays[i] || from == rows->feed->count || !rows->arrays[from]) continue; /* as labels of predictions */
        assert(rows->feed->arrays[from].bytes == feed->arrays[i].bytes);
        clq_rows_copy(rows, from, clq_buffer_host(to->arrays[i]));
    }
}

void clq_replica_give_rows(clq_replica *replica, const clq_rows *rows, clq_command *command) {
    command->staged = NULL;
    command->rows = (clq_rows){.count = 0};
    if (rows->count > 0 && !rows->stay) {
        command->staged = &replica->staging[replica->filled++ % replica->slots];
        clq_channel_put(replica->in_use, &command->staged); /* waits until it is free */
        copy_rows(replica, rows, command->staged);
    } else {
        command->rows = *rows;
    }
}

void clq_replica_free_slot(clq_replica *replica) {
    clq_staging *slot;
    (void)clq_channel_take(replica->in_use, &slot);
}

/* Waits until the device has read the rows that were last in the slot; by now it most likely has. */
static clq_status await_read(const clq_staging *staging) {
    bool complete = true;
    if (staging->read) CLQ_TRY(clq_event_look(staging->read, &complete));
    return complete ? CLQ_OK : clq_event_wait(staging->read);
}

/* Frees the slot of the step CLQ_STEPS_AHEAD steps before, once the device has read it; by now it most likely has. */
static clq_status free_read_slot(clq_replica *replica, clq_staging *next) {
    clq_staging **place = &replica->under_way[replica->next_under_way++ % CLQ_STEPS_AHEAD], *staging = *place;
    *place = next;
    if (!staging) return CLQ_OK;
    clq_status status = await_read(staging);
    clq_replica_free_slot(replica);
    return status;
}

clq_status clq_replica_drop_rows(clq_replica *replica, const clq_command *command) {
    return free_read_slot(replica, command->staged);
}

clq_status clq_replica_pick_rows(clq_replica *replica, const clq_command *command, clq_staging **out) {
    *out = command->staged;
    if (command->rows.count == 0) return CLQ_OK;
    /* Takes the next of the replica's own slots. The device most likely read it some steps ago. */
    clq_staging *own = &replica->own[replica->next_own++ % CLQ_OWN_SLOTS];
    CLQ_TRY(await_read(own));
    copy_rows(replica, &command->rows, own);
    *out = own;
    return CLQ_OK;
}

/* The step's launches come behind the transfers in the queue. Whatever flushes the launches flushes the transfers. */
clq_status clq_replica_upload_rows(clq_replica *replica, const clq_plan *plan, const clq_staging *staging, size_t first,
                                   size_t count, clq_event **read) {
    const clq_feed *feed = clq_plan_feed(plan);
    unsigned end = feed->count;
    while (end > 0 && !clq_plan_array(plan, end - 1)) end--;
    for (unsigned i = 0; i < end; i++) {
        const size_t bytes = feed->arrays[i].bytes;
        if (!clq_plan_array(plan, i)) continue;
        clq_queue_name(replica->worker.queue, "upload", clq_feed_role_name(feed->arrays[i].role));
        CLQ_TRY(clq_queue_write_after(replica->worker.queue, clq_plan_array(plan, i), 0,
                                      (const char *)clq_buffer_host(staging->arrays[i]) + first * bytes, count * bytes,
                                      &(clq_order){.done = i + 1 < end ? NULL : read}));
    }
    return CLQ_OK;
}

clq_status clq_replica_take_rows(clq_replica *replica, const clq_command *command, clq_staging **out) {
    CLQ_TRY(free_read_slot(replica, command->staged));
    return clq_replica_pick_rows(replica, command, out);
}

clq_status clq_replica_bring_rows(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_order *order,
                                  clq_staging **out) {
    clq_staging *staging;
    *order = (clq_order){0};
    *out = NULL;
    CLQ_TRY(free_read_slot(replica, command->staged));
    if (replica->uploads.queue) return clq_uploads_bring(replica, plan, command, order);
    CLQ_TRY(clq_replica_pick_rows(replica, command, &staging));
    if (!staging) return CLQ_OK;
    if (!replica->reads_in_place)
        return clq_replica_upload_rows(replica, plan, staging, 0, command->params.count, &staging->read);
    *out = staging;
    return clq_plan_set_input(plan, staging->arrays);
}

/* ---- the slots ---- */

/* Enough slots to keep small steps going while the poster wakes up late, but not more memory than this is worth. */
static unsigned staging_slots(size_t bytes) {
    const size_t slots_least = 4, bytes_most = 1 << 20;
    return (unsigned)CLQ_MAX(CLQ_MIN(bytes_most / bytes, (size_t)CLQ_STAGING_SLOTS_MAX), slots_least);
}

static clq_status open_slot(clq_replica *replica, clq_staging *slot) {
    const clq_feed *feed = &replica->strategy->feed;
    clq_memory_kind kind = replica->reads_in_place ? CLQ_MEMORY_DEVICE : CLQ_MEMORY_PINNED;
    if (replica->uploads.queue) return clq_uploads_open_slot(replica, CLQ_MEMORY_PINNED, "batch staging", slot);
    for (unsigned i = 0; i < feed->count; i++)
        if (clq_plan_array(replica->plan, i))
            CLQ_TRY(clq_buffer_create(replica->worker.device, kind, replica->capacity * feed->arrays[i].bytes,
                                      "batch staging", &slot->arrays[i]));
    return CLQ_OK;
}

clq_status clq_replica_open_rows(clq_replica *replica) {
    const clq_strategy_config *config = &replica->strategy->config;
    replica->slots = staging_slots(replica->capacity * clq_feed_bytes(&replica->strategy->feed));
    CLQ_TRY(clq_channel_create(sizeof(clq_staging *), replica->slots, &replica->in_use));
    const unsigned facts = clq_facts_of_replica(replica->strategy, replica->worker.index);
    clq_paths *paths = &replica->strategy->paths;
    replica->reads_in_place = clq_paths_decide(paths, CLQ_PATH_INPUT_IN_PLACE, facts);
    if (clq_paths_decide(paths, CLQ_PATH_UPLOAD_AHEAD, facts)) CLQ_TRY(clq_uploads_open(replica));
    for (unsigned i = 0; i < replica->slots; i++) CLQ_TRY(open_slot(replica, &replica->staging[i]));
    for (unsigned i = 0; i < CLQ_OWN_SLOTS && config->plan.update; i++) CLQ_TRY(open_slot(replica, &replica->own[i]));
    return CLQ_OK;
}

void clq_replica_close_slots(clq_staging *slots, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        clq_event_destroy(slots[i].read);
        for (unsigned k = 0; k < CLQ_FEED_MAX; k++) clq_buffer_destroy(slots[i].arrays[k]);
        clq_buffer_destroy(slots[i].block);
    }
}

void clq_replica_close_rows(clq_replica *replica) {
    clq_uploads_close(replica);
    clq_replica_close_slots(replica->staging, CLQ_STAGING_SLOTS_MAX);
    clq_replica_close_slots(replica->own, CLQ_OWN_SLOTS);
    clq_channel_destroy(replica->in_use);
}
