/* Carries out a schedule as a job of the world (world/world.h). All ranks go through the same sequence of items (round,
 * chunk), as in walk.c. In each direction a window of messages is under way:
 *
 * - Receives begin early, in the items' order, and end in the same order. A chunk that is to be combined comes into a
 *   slot of scratch memory, any other chunk to its place.
 *
 * - Sends begin in the items' order. A rank sends what it received in the round before, or its own data. So the send of
 *   an item waits for the receives up to one round before it.
 *
 * There is no deadlock: an item's receive waits for the same item's send on another rank, and that send waits only for
 * items before it. Each phase is done before the next one begins. */
#include "comm/outer/outer.h"

#include "comm/reduce/reduce.h"

#include <string.h>

/* Over a network, up to 2 MiB are under way in each direction, in 4 to 64 messages. 2 MiB take 17 ms at 1 Gbit/s, so
 * the wire stays busy even if the world's thread loses its core for that long. */
enum { WINDOW_MOST = 64 };
static const size_t window_bytes = (size_t)2 << 20;
/* Processes on one host copy from each other's memory, all at the same time. What is under way should stay in a cache.
 * A message costs some microseconds, and cutting a range that fits gains nothing, since each rank copies in every
 * round. Only a pipeline gains by short messages: there a rank waits for the first message of the rank before. */
static const size_t near_window_bytes = (size_t)1 << 20, near_whole_bytes = (size_t)512 << 10;
static const size_t near_part_bytes = (size_t)256 << 10, near_pipe_bytes = (size_t)128 << 10;
/* After so many turns in one job, the world's thread looks at its other jobs and at heartbeats. */
enum { TURNS_MOST = 64 };

typedef struct message {
    void *request; /* NULL: no message, or it is done */
    size_t bytes;  /* 0: the rank rests in this item */
    clq_hop hop;
    char *to; /* received: to a slot of scratch memory, or to its place; sent: from here */
} message;

struct clq_outer {
    clq_world *world;
    unsigned tag;
    size_t chunk_bytes; /* 0: each phase has its own, since all ranks are on one host */
    size_t scratch_bytes;
    char *scratch; /* slots for chunks that are to be combined */
    char *work;    /* CLQ_PLACE_WORK; grows */
    size_t work_bytes;
};

typedef struct walk {
    clq_job job;
    clq_outer *outer;
    const clq_outer_task *task;
    clq_schedule schedule;
    unsigned rank, phase;
    size_t chunk_bytes, window; /* of the phase; window: how many messages may be under way */
    size_t chunks, items;
    /* How many items were begun and done in each direction. */
    size_t receives_begun, receives_done, sends_begun, sends_done;
    message receives[WINDOW_MOST], sends[WINDOW_MOST];
    clq_reduce_function *combine, *complete; /* complete: for the last combination; of an average, it divides */
    unsigned divisor;
} walk;

/* ---- items ---- */

static const clq_phase *phase_of(const walk *w) { return &w->schedule.phase[w->phase]; }

static size_t chunk_bytes_of(const clq_outer *outer, const clq_phase *phase) {
    if (outer->chunk_bytes > 0) return outer->chunk_bytes;
    if (phase->by_chunk) return near_pipe_bytes;
    return phase->most_bytes > near_whole_bytes ? near_part_bytes : near_whole_bytes;
}

static void start_phase(walk *w) {
    w->receives_begun = w->receives_done = w->sends_begun = w->sends_done = 0;
    w->chunk_bytes = chunk_bytes_of(w->outer, phase_of(w));
    w->window = CLQ_MIN(w->outer->scratch_bytes / w->chunk_bytes, (size_t)WINDOW_MOST);
    w->chunks = CLQ_MAX(clq_ceil_div(phase_of(w)->most_bytes, w->chunk_bytes), (size_t)1);
    w->items = phase_of(w)->rounds * w->chunks;
}

static clq_hop hop_of(const walk *w, size_t item, size_t *chunk) {
    const bool by_chunk = phase_of(w)->by_chunk;
    *chunk = by_chunk ? item / phase_of(w)->rounds : item % w->chunks;
    return clq_schedule_hop(&w->schedule, w->phase, w->rank,
                            (unsigned)(by_chunk ? item % phase_of(w)->rounds : item / w->chunks));
}

static char *place_of(const walk *w, clq_place place) {
    if (place == CLQ_PLACE_IN) return (char *)(uintptr_t)w->task->in;
    return place == CLQ_PLACE_OUT ? w->task->out : w->outer->work;
}

/* *out: where a range's chunk is. Returns its bytes; 0: the range has no such chunk. */
static size_t chunk_of(const walk *w, clq_range range, size_t chunk, char **out) {
    const size_t skipped = chunk * w->chunk_bytes;
    if (skipped >= range.bytes) return 0;
    *out = place_of(w, range.place) + range.begin + skipped;
    return CLQ_MIN(w->chunk_bytes, range.bytes - skipped);
}

/* The number of items up to the same chunk in the round before, that one included: all these are done before the item
 * may begin. */
static size_t round_before(const walk *w, size_t item) {
    const size_t stride = phase_of(w)->by_chunk ? 1 : w->chunks;
    return item < stride ? 0 : item - stride + 1;
}

/* ---- receiving ---- */

/* Whether a received chunk may be written to its place: all that is sent from there must have left. If the phase goes
 * by rounds, that was sent in the round before, or earlier. If it goes by chunks, only the rank's own input is sent
 * from there, and only if input and output are the same memory. */
static bool is_free(const walk *w, const clq_hop *hop, size_t item) {
    if (hop->reduced) return true; /* comes into a slot */
    if (!phase_of(w)->by_chunk) return w->sends_done >= round_before(w, item);
    return w->task->in != w->task->out || w->task->collective == CLQ_BROADCAST || w->sends_done >= item;
}

static clq_status begin_receives(walk *w, bool *moved) {
    while (w->receives_begun < w->items && w->receives_begun - w->receives_done < w->window) {
        const size_t item = w->receives_begun, slot = item % w->window;
        message *next = &w->receives[slot];
        size_t chunk;
        next->hop = hop_of(w, item, &chunk);
        next->request = NULL;
        next->bytes = chunk_of(w, next->hop.received, chunk, &next->to);
        if (next->bytes > 0) {
            if (!is_free(w, &next->hop, item)) return CLQ_OK;
            if (next->hop.reduced) next->to = w->outer->scratch + slot * w->chunk_bytes;
            CLQ_TRY(clq_world_begin_receive(w->outer->world, next->hop.from, w->outer->tag, next->to, next->bytes,
                                            &next->request));
        }
        w->receives_begun++;
        *moved = true;
    }
    return CLQ_OK;
}

/* Combines a received message and its operand. */
static void combine(const walk *w, const message *came, size_t chunk) {
    char *operand = NULL, *to = NULL;
    chunk_of(w, came->hop.operand, chunk, &operand);
    chunk_of(w, came->hop.received, chunk, &to);
    const void *const in[] = {came->hop.came_first ? came->to : operand, came->hop.came_first ? operand : came->to};
    void *const out[] = {to};
    (came->hop.last ? w->complete : w->combine)(in, 2, out, 1, 0, came->bytes / clq_dtype_bytes(w->task->dtype),
                                                w->divisor, false);
}

/* Ends one receive, the next, if its message has come. The sends that follow from it begin before the next receive is
 * tested: an engine may copy all that has come before it says that one message is done. */
static clq_status end_receive(walk *w, bool *moved) {
    const size_t item = w->receives_done;
    message *came = &w->receives[item % w->window];
    bool done;
    if (item == w->receives_begun) return CLQ_OK;
    CLQ_TRY(clq_world_test(w->outer->world, &came->request, moved, &done));
    /* In an exchange the result replaces the bytes that the rank sends: they must have left. */
    if (!done || (came->bytes > 0 && came->hop.exchanged && w->sends_done <= item)) return CLQ_OK;
    if (came->bytes > 0 && came->hop.reduced) {
        size_t chunk;
        (void)hop_of(w, item, &chunk);
        combine(w, came, chunk);
    }
    w->receives_done++;
    *moved = true;
    return CLQ_OK;
}

/* ---- sending ---- */

static clq_status begin_sends(walk *w, bool *moved) {
    while (w->sends_begun < w->items && w->sends_begun - w->sends_done < w->window) {
        const size_t item = w->sends_begun;
        message *next = &w->sends[item % w->window];
        size_t chunk;
        if (w->receives_done < round_before(w, item)) return CLQ_OK;
        next->hop = hop_of(w, item, &chunk);
        next->request = NULL;
        next->bytes = chunk_of(w, next->hop.sent, chunk, &next->to);
        if (next->bytes > 0)
            CLQ_TRY(clq_world_begin_send(w->outer->world, next->hop.to, w->outer->tag, next->to, next->bytes,
                                         &next->request));
        w->sends_begun++;
        *moved = true;
    }
    return CLQ_OK;
}

static clq_status end_sends(walk *w, bool *moved) {
    while (w->sends_done < w->sends_begun) {
        bool done;
        CLQ_TRY(clq_world_test(w->outer->world, &w->sends[w->sends_done % w->window].request, moved, &done));
        if (!done) return CLQ_OK;
        w->sends_done++;
        *moved = true;
    }
    return CLQ_OK;
}

/* ---- the job ---- */

static clq_status advance(clq_job *job, clq_world *world, bool *moved, bool *done) {
    walk *w = (walk *)job;
    (void)world;
    bool more = true;
    for (unsigned turn = 0; more && turn < TURNS_MOST; turn++) {
        more = false;
        CLQ_TRY(begin_receives(w, &more));
        CLQ_TRY(begin_sends(w, &more));
        CLQ_TRY(end_sends(w, &more));
        CLQ_TRY(end_receive(w, &more));
        *moved |= more;
    }
    if (w->receives_done < w->items)
        job->waits_for = w->receives[w->receives_done % w->window].hop.from;
    else if (w->sends_done < w->items)
        job->waits_for = w->sends[w->sends_done % w->window].hop.to;
    if (w->receives_done < w->items || w->sends_done < w->items) return CLQ_OK;
    *moved = true;
    *done = ++w->phase == w->schedule.phases;
    if (!*done) start_phase(w);
    return CLQ_OK;
}

/* Copies the rank's own part from in to out. */
static void copy_own(const walk *w) {
    const clq_range own = clq_schedule_own(&w->schedule, w->task->collective, w->rank);
    char *to = (char *)w->task->out + own.begin;
    if (own.bytes > 0 && to != w->task->in) memcpy(to, w->task->in, own.bytes);
}

static clq_status grow_work(clq_outer *outer, size_t bytes) {
    if (bytes <= outer->work_bytes) return CLQ_OK;
    clq_free(outer->work);
    outer->work_bytes = 0;
    outer->work = clq_alloc_unset(CLQ_PART_ALIGN, bytes);
    if (!outer->work) return CLQ_ERROR_MEMORY;
    outer->work_bytes = bytes;
    return CLQ_OK;
}

static clq_status prepare(walk *w) {
    static const char *const doing[CLQ_COLLECTIVE_COUNT] = {
        "a barrier", "an all-reduce", "a reduce-scatter", "an all-gather", "a broadcast", "a reduce", "a send/recv"};
    const clq_outer_task *task = w->task;
    const unsigned size = clq_world_size(w->outer->world);
    w->rank = clq_world_rank(w->outer->world);
    w->divisor = task->divisor > 0 ? task->divisor : size;
    w->job = (clq_job){.advance = advance, .deadline_s = task->deadline_s, .doing = doing[task->collective]};
    clq_schedule_make(task->algorithm, task->collective, size, task->root, task->to,
                      task->count * clq_dtype_bytes(task->dtype), NULL, &w->schedule);
    if (clq_collective_reduces(task->collective)) {
        w->complete = clq_reduce_find(task->dtype, task->op);
        w->combine = clq_reduce_find(task->dtype, task->op == CLQ_REDOP_AVG ? CLQ_REDOP_SUM : task->op);
        if (!w->complete) return clq_fail(CLQ_ERROR_INTERNAL, "%s cannot be reduced", clq_dtype_name(task->dtype));
    }
    CLQ_TRY(grow_work(w->outer, w->schedule.work_bytes));
    copy_own(w);
    start_phase(w);
    return CLQ_OK;
}

clq_status clq_outer_run(clq_outer *outer, const clq_outer_task *task) {
    CLQ_TRY(clq_world_failure(outer->world));
    if (task->count == 0) return CLQ_OK;
    if (clq_world_size(outer->world) == 1) {
        if (task->in != task->out) memcpy(task->out, task->in, task->count * clq_dtype_bytes(task->dtype));
        return CLQ_OK;
    }
    walk w = {.outer = outer, .task = task};
    const clq_status status = prepare(&w);
    return status == CLQ_OK ? clq_world_run(outer->world, &w.job) : clq_world_fail_with(outer->world, status);
}

static clq_status send_there(clq_outer *outer, const clq_outer_way *way, unsigned from, unsigned to) {
    return clq_outer_run(outer, &(clq_outer_task){.collective = CLQ_SEND_RECV,
                                                  .algorithm = CLQ_ALGORITHM_RING,
                                                  .in = way->out,
                                                  .out = way->in,
                                                  .count = way->bytes,
                                                  .dtype = CLQ_U8,
                                                  .root = from,
                                                  .to = to});
}

clq_status clq_outer_travel(clq_outer *outer, const clq_outer_way *way) {
    const unsigned rank = clq_world_rank(outer->world);
    if (rank != way->from && rank != way->to) return CLQ_OK;
    CLQ_TRY(send_there(outer, way, way->from, way->to));
    return way->returns ? send_there(outer, way, way->to, way->from) : CLQ_OK;
}

/* ---- making ---- */

clq_status clq_outer_create(clq_world *world, size_t chunk_bytes, clq_outer **out) {
    clq_outer *outer = clq_alloc(1, sizeof *outer);
    if (!outer) return CLQ_ERROR_MEMORY;
    outer->world = world;
    if (chunk_bytes == 0 && !clq_world_is_near(world)) chunk_bytes = clq_world_message_bytes(world);
    outer->chunk_bytes = clq_round_up(chunk_bytes, CLQ_PART_ALIGN);
    outer->scratch_bytes = outer->chunk_bytes > 0 ? CLQ_MAX(window_bytes, 4 * outer->chunk_bytes) : near_window_bytes;
    clq_status status = clq_world_new_tags(world, 1, &outer->tag);
    if (status == CLQ_OK) {
        outer->scratch = clq_alloc_unset(CLQ_PART_ALIGN, outer->scratch_bytes);
        if (!outer->scratch) status = CLQ_ERROR_MEMORY;
    }
    if (status == CLQ_OK)
        *out = outer;
    else
        clq_outer_destroy(outer);
    return status;
}

void clq_outer_destroy(clq_outer *outer) {
    if (!outer) return;
    clq_free(outer->scratch);
    clq_free(outer->work);
    clq_free(outer);
}
