/* How the host sees a rank's input and output during a collective. */
#include "comm/communicator.h"

/* The host's pointer to a range: the buffer's own if it has one, otherwise a mapping (which costs 35 to 40 us). */
static clq_status host_range(clq_queue *queue, clq_buffer *buffer, size_t offset, size_t bytes, bool write,
                             char **pointer, bool *mapped) {
    if (bytes == 0) return CLQ_OK;
    char *host = clq_buffer_host(buffer);
    void *at = host ? host + offset : NULL;
    if (!host) CLQ_TRY(clq_queue_map(queue, buffer, offset, bytes, write, &at));
    *pointer = at;
    *mapped = !host;
    return CLQ_OK;
}

clq_status clq_member_map(clq_member *member) {
    clq_work *work = &member->work;
    const clq_task *call = &work->task;
    /* A range must not be mapped twice while one of the mappings is written to. So if one of the two ranges contains
     * the other, only the larger one is mapped. */
    if (work->in_bytes > 0 && work->out_bytes > 0 && clq_buffer_handle(call->in) == clq_buffer_handle(call->out)) {
        size_t begin = CLQ_MIN(call->in_offset, call->out_offset);
        size_t end = CLQ_MAX(call->in_offset + work->in_bytes, call->out_offset + work->out_bytes);
        if (end - begin == CLQ_MAX(work->in_bytes, work->out_bytes)) {
            CLQ_TRY(host_range(call->queue, call->out, begin, end - begin, true, &work->mapping, &work->out_is_mapped));
            work->in_host = work->mapping + (call->in_offset - begin);
            work->out_host = work->mapping + (call->out_offset - begin);
            return CLQ_OK;
        }
    }
    CLQ_TRY(host_range(call->queue, call->out, call->out_offset, work->out_bytes, true, &work->mapping,
                       &work->out_is_mapped));
    work->out_host = work->mapping;
    return host_range(call->queue, call->in, call->in_offset, work->in_bytes, false, &work->in_host,
                      &work->in_is_mapped);
}

clq_status clq_member_unmap(clq_member *member) {
    clq_work *work = &member->work;
    const clq_task *call = &work->task;
    if (!work->in_is_mapped && !work->out_is_mapped) return CLQ_OK;
    clq_status status = CLQ_OK, other = CLQ_OK;
    if (work->in_is_mapped) other = clq_queue_unmap(call->queue, call->in, work->in_host);
    if (work->out_is_mapped) status = clq_queue_unmap(call->queue, call->out, work->mapping);
    if (status == CLQ_OK) status = other;
    return status == CLQ_OK ? clq_member_drain(member, call->queue) : status;
}
