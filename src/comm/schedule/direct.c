/* Direct: the host reaches all ranks' memory, so nothing travels. The work has a part for each rank, which is read from
 * every rank's input and written to every rank's output. An all-reduce takes 2 meetings. For each part n S / n bytes
 * are read and as many are written: 2 n S in all, against 5 (n - 1) S for a ring on the same memory. Each element is
 * reduced in rank order 0, 1, …, whoever does it, so the bits are the same everywhere and always.
 *
 * So a rank that is done with its part may help with the others'. All ranks then end together, even if there are more
 * ranks than cores, cores differ, or one is busy with something else. */
#include "comm/communicator.h"

#include <string.h>

/* Lines that are written past the caches need not be fetched first, which saves a third of the traffic. But the devices
 * that read the result next must fetch it. Their time included, that pays once all that is touched fills the caches.
 * Measured: at three quarters of a last-level cache of 32 MiB. No system reliably reports the size of its own cache. */
static const size_t streaming_bytes = (size_t)24 << 20;

/* A part is done in pieces of this size: small enough to be shared out evenly, and to notice soon that the communicator
 * was aborted. */
static const size_t piece_bytes = (size_t)128 << 10;

/* The bytes of a rank's part of the work. */
static size_t part_bytes(const clq_comm *comm, unsigned rank) {
    const clq_work *work = &comm->members[rank].work;
    switch (work->task.collective) {
    case CLQ_REDUCE_SCATTER:
    case CLQ_BROADCAST: return work->bytes;
    case CLQ_ALL_GATHER: return comm->size * work->bytes;
    default: /* all-reduce, reduce, send/recv */
        return clq_part_begin(rank + 1, comm->size, work->bytes) - clq_part_begin(rank, comm->size, work->bytes);
    }
}

/* Reduces the bytes `begin` to `end` of all inputs, counted from `skip` on, to all outputs. only: a rank, whose output
 * alone is written; comm->size: all are. all: how many bytes of an input the collective reduces. */
static void reduce_piece(const clq_comm *comm, size_t begin, size_t end, size_t skip, unsigned only, size_t all) {
    const void *in[CLQ_REPLICAS_MAX];
    void *out[CLQ_REPLICAS_MAX];
    const clq_task *task = &comm->members[0].work.task;
    const size_t element = clq_dtype_bytes(task->dtype);
    unsigned outs = 0, touched = comm->size;
    for (unsigned r = 0; r < comm->size; r++) {
        const clq_work *work = &comm->members[r].work;
        in[r] = work->in_host + skip;
        if (work->out_bytes == 0 || (only != comm->size && only != r)) continue;
        out[outs++] = work->out_host;
        touched += work->out_host != in[r];
    }
    clq_reduce_find(task->dtype, task->op)(in, comm->size, out, outs, begin / element, end / element, comm->size,
                                           touched * all >= streaming_bytes);
}

static void copy(char *to, const char *from, size_t bytes) {
    if (to != from) memcpy(to, from, bytes);
}

/* Copies the bytes `at` to `end` of all inputs, one after the other, to the rank's output. */
static void gather_piece(const clq_comm *comm, unsigned rank, size_t at, size_t end) {
    const clq_work *mine = &comm->members[rank].work;
    for (size_t next; at < end; at = next) {
        const size_t from = at / mine->bytes, begin = from * mine->bytes;
        next = CLQ_MIN(end, begin + mine->bytes);
        copy(mine->out_host + at, comm->members[from].work.in_host + (at - begin), next - at);
    }
}

/* Does the bytes `at` to `end` of the rank's part. */
static void do_piece(const clq_comm *comm, unsigned rank, size_t at, size_t end) {
    const clq_work *mine = &comm->members[rank].work;
    const clq_task *call = &mine->task;
    const size_t begin = clq_part_begin(rank, comm->size, mine->bytes);
    switch (call->collective) {
    case CLQ_ALL_REDUCE:
    case CLQ_REDUCE: reduce_piece(comm, begin + at, begin + end, 0, comm->size, mine->bytes); break;
    case CLQ_REDUCE_SCATTER: reduce_piece(comm, at, end, rank * mine->bytes, rank, mine->in_bytes); break;
    case CLQ_ALL_GATHER: gather_piece(comm, rank, at, end); break;
    case CLQ_BROADCAST: copy(mine->out_host + at, comm->members[call->root].work.in_host + at, end - at); break;
    case CLQ_SEND_RECV:
        copy(comm->members[call->to].work.out_host + begin + at, comm->members[call->root].work.in_host + begin + at,
             end - at);
        break;
    default: break;
    }
}

clq_status clq_direct_run(clq_comm *comm, unsigned rank) {
    for (unsigned i = 0; i < comm->size; i++) {
        const unsigned whose = (rank + i) % comm->size;
        atomic_size_t *taken = &comm->members[whose].taken;
        const size_t bytes = part_bytes(comm, whose);
        while (atomic_load_explicit(taken, memory_order_relaxed) < bytes) {
            if (atomic_load(&comm->family->failed)) return CLQ_ERROR_ABORTED;
            const size_t at = atomic_fetch_add_explicit(taken, piece_bytes, memory_order_relaxed);
            if (at < bytes) do_piece(comm, whose, at, CLQ_MIN(at + piece_bytes, bytes));
        }
    }
    return atomic_load(&comm->family->failed) ? CLQ_ERROR_ABORTED : CLQ_OK;
}
