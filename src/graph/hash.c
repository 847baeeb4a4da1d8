/* Hashes of what an arena of weights holds, block by block, computed on the device. */
#include "graph/plan.h"

size_t clq_weights_blocks(const clq_weights *weights, clq_arena arena) {
    return clq_weights_arena_bytes(weights, arena) / CLQ_VARIABLE_ALIGN;
}

static clq_status make_list(clq_hasher *hasher, clq_buffer *arena, size_t blocks) {
    CLQ_TRY(clq_list_create(clq_buffer_device(arena), 1, &hasher->list));
    clq_list *list = hasher->list;
    clq_list_scope(list, "check");
    clq_block_hashes(list, blocks, clq_plan_value(list, "arena", arena, 0, blocks * CLQ_VARIABLE_ALIGN),
                     clq_plan_whole_value(list, "hashes", hasher->hashes));
    clq_list_set_params(list, &(clq_step_params){.count = 1});
    return clq_list_bind(list);
}

static clq_status open_hasher(clq_hasher *hasher, clq_buffer *arena, size_t blocks) {
    if (!hasher->hashes)
        CLQ_TRY(clq_buffer_create(clq_buffer_device(arena), CLQ_MEMORY_DEVICE, blocks * sizeof(uint64_t), "hashes",
                                  &hasher->hashes));
    const clq_status status = make_list(hasher, arena, blocks);
    if (status == CLQ_OK) return CLQ_OK;
    clq_list_destroy(hasher->list);
    hasher->list = NULL;
    return status;
}

void clq_hasher_release(clq_hasher *hasher) {
    clq_list_destroy(hasher->list); /* views go before the buffers */
    clq_buffer_destroy(hasher->hashes);
    *hasher = (clq_hasher){.list = NULL};
}

clq_status clq_weights_hash(clq_weights *weights, clq_queue *queue, clq_arena arena, uint64_t *out) {
    const size_t blocks = clq_weights_blocks(weights, arena);
    clq_buffer *memory = clq_weights_arena(weights, arena);
    if (!memory || blocks == 0) return CLQ_OK;
    /* Parameters that turn have a hasher for each of their two places. */
    clq_hasher *hasher = &weights->hashers[arena == CLQ_ARENA_STATE ? 2 : weights->turned];
    if (!hasher->list) CLQ_TRY(open_hasher(hasher, memory, blocks));
    CLQ_TRY(clq_list_run(hasher->list, queue, 0, clq_list_launch_count(hasher->list)));
    return clq_queue_read(queue, hasher->hashes, 0, out, blocks * sizeof *out, true);
}
