/* Direct: all ranks' memory is the host's too, so nothing travels. Rank r reads part r of every rank's input and writes
 * the sum to part r of every rank's output: 2 meetings, n S / n bytes read and as many written by each rank (2 n S in
 * all, against 5 (n - 1) S for a ring on the same memory). Element by element the sum is made in rank order 0, 1, …,
 * whoever makes it: the same bits everywhere and always. */
#include "comm/crew.h"

#include <string.h>

/* The host's pointer to a range: the buffer's own where it has one, else a mapping (which costs 35 to 40 us). */
static clq_status host_range(clq_queue *queue, clq_buffer *buffer, size_t offset, size_t bytes, bool write,
                             void **pointer, bool *mapped) {
    char *host = clq_buffer_host(buffer);
    *pointer = host ? host + offset : NULL;
    if (host || bytes == 0) return CLQ_OK;
    CLQ_TRY(clq_queue_map(queue, buffer, offset, bytes, write, pointer));
    *mapped = true;
    return CLQ_OK;
}

static bool same_range(const clq_call *call) {
    return call->in_offset == call->out_offset &&
           (call->in == call->out || clq_buffer_handle(call->in) == clq_buffer_handle(call->out));
}

clq_status clq_direct_acquire(clq_crew *crew, unsigned rank) {
    clq_member *member = &crew->members[rank];
    clq_call *call = &member->call;
    if (call->bytes == 0 || crew->size == 1) return CLQ_OK;
    bool written = call->collective == CLQ_ALL_REDUCE || rank != call->root;
    CLQ_TRY(host_range(call->queue, call->out, call->out_offset, call->bytes, written, &call->out_host,
                       &member->out_is_mapped));
    /* A range may not be mapped twice while one of the mappings is written to. */
    if (same_range(call)) {
        call->in_host = call->out_host;
        return CLQ_OK;
    }
    return host_range(call->queue, call->in, call->in_offset, call->bytes, false, &call->in_host,
                      &member->in_is_mapped);
}

clq_status clq_direct_release(clq_crew *crew, unsigned rank) {
    clq_member *member = &crew->members[rank];
    clq_call *call = &member->call;
    if (!member->in_is_mapped && !member->out_is_mapped) return CLQ_OK;
    clq_status status = CLQ_OK, other = CLQ_OK;
    if (member->in_is_mapped) other = clq_queue_unmap(call->queue, call->in, call->in_host);
    if (member->out_is_mapped) status = clq_queue_unmap(call->queue, call->out, call->out_host);
    member->in_is_mapped = member->out_is_mapped = false;
    if (status == CLQ_OK) status = other;
    return status == CLQ_OK ? clq_member_drain(crew, rank, call->queue) : status;
}

void clq_direct_all_reduce(clq_crew *crew, unsigned rank) {
    const float *in[CLQ_REPLICAS_MAX];
    float *out[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < crew->size; r++) {
        in[r] = crew->members[r].call.in_host;
        out[r] = crew->members[r].call.out_host;
    }
    size_t bytes = crew->members[rank].call.bytes;
    crew->reduce(in, out, crew->size, clq_part_begin(rank, crew->size, bytes) / sizeof(float),
                 clq_part_begin(rank + 1, crew->size, bytes) / sizeof(float));
}

/* Each rank takes its own copy: S bytes read and S written per rank. */
void clq_direct_broadcast(clq_crew *crew, unsigned rank) {
    const clq_call *mine = &crew->members[rank].call, *root = &crew->members[mine->root].call;
    if (rank != mine->root) memcpy(mine->out_host, root->in_host, mine->bytes);
}
