/* A fast path of the input, for devices with their own memory. A separate queue uploads each batch in one transfer,
 * while the device computes the step before. The device has two blocks for batches, used in turn. A transfer to a block
 * waits for the kernels that read the block before, and a step's launches wait for the step's transfer. The device
 * waits, not the host. */
#include "strategy/module.h"

/* ---- sending ---- */

static clq_status send(clq_replica *replica, const clq_command *command) {
    clq_uploads *uploads = &replica->uploads;
    clq_staging *from, *to = &uploads->blocks[uploads->sent % CLQ_UPLOAD_BLOCKS];
    CLQ_TRY(clq_replica_pick_rows(replica, command, &from));
    if (from) {
        const size_t bytes = uploads->at[0] + command->params.count * replica->strategy->feed.arrays[0].bytes;
        if (replica->worker.tracing) clq_queue_name(uploads->queue, "upload", "batch");
        CLQ_TRY(clq_queue_write_after(uploads->queue, to->block, 0, clq_buffer_host(from->block), bytes,
                                      &(clq_order){.after = {to->read}, .done = &from->read}));
        CLQ_TRY(clq_queue_flush(uploads->queue));
    }
    uploads->from = from;
    uploads->sent++;
    return CLQ_OK;
}

clq_status clq_uploads_bring(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_order *order) {
    clq_uploads *uploads = &replica->uploads;
    if (uploads->sent == uploads->used) CLQ_TRY(send(replica, command));
    clq_staging *block = &uploads->blocks[uploads->used++ % CLQ_UPLOAD_BLOCKS];
    if (!uploads->from) return CLQ_OK;
    *order = (clq_order){.after = {uploads->from->read}, .done = &block->read};
    return clq_plan_set_input(plan, block->arrays);
}

clq_status clq_uploads_send_next(clq_replica *replica) {
    clq_command next;
    if (!replica->uploads.queue || !clq_channel_peek(replica->worker.commands, &next)) return CLQ_OK;
    if ((next.kind->traits & (CLQ_COMMAND_BATCH | CLQ_COMMAND_MAY_DROP)) != CLQ_COMMAND_BATCH) return CLQ_OK;
    /* Copying many rows takes long, so the device must first begin what is enqueued. Copying a few rows takes no longer
     * than the flush would. */
    const size_t bytes_least = 256 << 10;
    if (next.params.count * clq_feed_bytes(&replica->strategy->feed) >= bytes_least)
        CLQ_TRY(clq_queue_flush(replica->worker.queue));
    return send(replica, &next);
}

/* ---- life ---- */

/* Each array is aligned as a buffer. The samples, array 0 of the feed, are most of a batch. They lie last in a block,
 * so that the transfer of a batch that is not full can end behind its last sample. */
static void lay_out(clq_replica *replica) {
    const clq_feed *feed = &replica->strategy->feed;
    const size_t align = CLQ_MAX(clq_device_view_align(replica->worker.device), (size_t)CLQ_BUFFER_ALIGN);
    size_t at = 0;
    for (unsigned i = feed->count; i-- > 0;) {
        replica->uploads.at[i] = at;
        at += clq_round_up(replica->capacity * feed->arrays[i].bytes, align);
    }
}

clq_status clq_uploads_open_slot(clq_replica *replica, clq_memory_kind kind, const char *what, clq_staging *slot) {
    const clq_feed *feed = &replica->strategy->feed;
    const size_t *at = replica->uploads.at;
    CLQ_TRY(clq_buffer_create(replica->worker.device, kind, at[0] + replica->capacity * feed->arrays[0].bytes, what,
                              &slot->block));
    for (unsigned i = 0; i < feed->count; i++)
        CLQ_TRY(clq_buffer_view(slot->block, at[i], replica->capacity * feed->arrays[i].bytes, &slot->arrays[i]));
    return CLQ_OK;
}

clq_status clq_uploads_open(clq_replica *replica) {
    clq_uploads *uploads = &replica->uploads;
    lay_out(replica);
    CLQ_TRY(clq_queue_create(replica->worker.device, replica->worker.tracing ? CLQ_QUEUE_TRACE : 0, &uploads->queue));
    for (unsigned i = 0; i < CLQ_UPLOAD_BLOCKS; i++)
        CLQ_TRY(clq_uploads_open_slot(replica, CLQ_MEMORY_DEVICE, "batches", &uploads->blocks[i]));
    return CLQ_OK;
}

/* How long to wait when closing: a batch that was sent ahead of a failed step may still be under way. */
static const double settle_s = 10.0;

void clq_uploads_close(clq_replica *replica) {
    clq_uploads *uploads = &replica->uploads;
    if (!uploads->queue) return;
    clq_queue_settle(uploads->queue, clq_now_running() + settle_s);
    clq_replica_close_slots(uploads->blocks, CLQ_UPLOAD_BLOCKS);
    clq_queue_destroy(uploads->queue);
}
