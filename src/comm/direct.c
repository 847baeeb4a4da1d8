/* Direct: all ranks' memory is the host's too, so nothing travels. Rank r works on part r of what is to be done: it
 * reads it from every rank's input and writes it to every rank's output. All-reduce: 2 meetings, n S / n bytes read and
 * as many written by each rank (2 n S in all, against 5 (n - 1) S for a ring on the same memory). Element by element
 * the result is made in rank order 0, 1, …, whoever makes it: the same bits everywhere and always. */
#include "comm/crew.h"

#include <string.h>

/* What is written past the caches need not be fetched first: a third of the traffic. But the devices that read the
 * result next must fetch it then: it pays, theirs included, once all that is touched fills the caches (measured: at
 * three quarters of a last-level cache of 32 MiB; what that is here no system says reliably). Not in place, where the
 * lines are there already. */
static const size_t streaming_bytes = (size_t)24 << 20;

/* Who works on much looks up so often, to see that it was aborted. */
static const size_t piece_bytes = (size_t)4 << 20;

/* Bytes `begin` to `end` of all inputs, from `skip` on, to all outputs; or to `only` that rank's. */
static void reduce_part(const clq_crew *crew, unsigned rank, size_t begin, size_t end, size_t skip, unsigned only) {
    const void *in[CLQ_REPLICAS_MAX];
    void *out[CLQ_REPLICAS_MAX];
    const clq_work *mine = &crew->members[rank].work;
    const size_t element = clq_dtype_bytes(mine->task.dtype);
    unsigned outs = 0;
    bool apart = true;
    for (unsigned r = 0; r < crew->size; r++) {
        const clq_work *work = &crew->members[r].work;
        in[r] = work->in_host + skip;
        apart = apart && work->out_host != in[r];
        if (work->out_bytes > 0 && (only == crew->size || only == r)) out[outs++] = work->out_host;
    }
    const bool streams = apart && (crew->size + outs) * (end - begin) * crew->size >= streaming_bytes;
    clq_reduce_function *reduce = streams ? clq_reduce_find_streaming(mine->task.dtype, mine->task.op)
                                          : clq_reduce_find(mine->task.dtype, mine->task.op);
    for (size_t at = begin; at < end && !atomic_load(&crew->failed); at += piece_bytes)
        reduce(in, crew->size, out, outs, at / element, CLQ_MIN(at + piece_bytes, end) / element, crew->size);
}

static void copy(const clq_crew *crew, char *to, const char *from, size_t bytes) {
    if (to == from) return;
    for (size_t at = 0; at < bytes && !atomic_load(&crew->failed); at += piece_bytes)
        memcpy(to + at, from + at, CLQ_MIN(piece_bytes, bytes - at));
}

clq_status clq_direct_run(clq_crew *crew, unsigned rank) {
    const clq_work *mine = &crew->members[rank].work;
    const clq_task *call = &mine->task;
    size_t bytes = mine->bytes, begin = clq_part_begin(rank, crew->size, bytes),
           end = clq_part_begin(rank + 1, crew->size, bytes);
    switch (call->collective) {
    case CLQ_ALL_REDUCE:
    case CLQ_REDUCE: reduce_part(crew, rank, begin, end, 0, crew->size); break;
    case CLQ_REDUCE_SCATTER: reduce_part(crew, rank, 0, bytes, rank * bytes, rank); break;
    case CLQ_ALL_GATHER:
        for (unsigned r = 0; r < crew->size; r++)
            copy(crew, mine->out_host + r * bytes, crew->members[r].work.in_host, bytes);
        break;
    case CLQ_BROADCAST: copy(crew, mine->out_host, crew->members[call->root].work.in_host, bytes); break;
    case CLQ_SEND_RECV:
        copy(crew, crew->members[call->to].work.out_host + begin, crew->members[call->root].work.in_host + begin,
             end - begin);
        break;
    default: break;
    }
    return atomic_load(&crew->failed) ? CLQ_ABORTED : CLQ_OK;
}
