/* Gathers: each rank's data goes to all ranks, in log2(size) rounds of messages. In each round a rank sends what it has
 * to the rank `distance` before it, and receives as much from the rank `distance` after it, so what it has doubles.
 * (The algorithm of Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing
 * systems", 1997.) */
#include "world/inside.h"

#include <string.h>

typedef struct gather {
    clq_job job;
    size_t bytes;      /* of one rank */
    char *known;       /* [size * bytes]: this rank's data, the next rank's, … */
    unsigned distance; /* how many ranks' data is known; `begun`: a round is under way */
    bool begun;
    void *sending, *receiving;
} gather;

static clq_status begin_round(gather *self, clq_world *world) {
    const unsigned size = clq_world_size(world), more = CLQ_MIN(self->distance, size - self->distance);
    const unsigned from = (world->rank + self->distance) % size, to = (world->rank + size - self->distance) % size;
    self->begun = true;
    self->job.waits_for = from;
    CLQ_TRY(clq_world_begin_receive(world, from, CLQ_TAG_GATHER, self->known + self->distance * self->bytes,
                                    more * self->bytes, &self->receiving));
    return clq_world_begin_send(world, to, CLQ_TAG_GATHER, self->known, more * self->bytes, &self->sending);
}

static clq_status advance(clq_job *job, clq_world *world, bool *moved, bool *done) {
    gather *self = (gather *)job;
    while (self->distance < clq_world_size(world)) {
        bool sent, received;
        if (!self->begun) CLQ_TRY(begin_round(self, world));
        CLQ_TRY(clq_world_test(world, &self->receiving, moved, &received));
        CLQ_TRY(clq_world_test(world, &self->sending, moved, &sent));
        if (!sent || !received) return CLQ_OK;
        self->begun = false;
        self->distance *= 2;
    }
    *done = true;
    return CLQ_OK;
}

static const size_t bytes_most = (size_t)1 << 30; /* of all ranks together; a round's message has at most half of it */

static clq_status gather_all(clq_world *world, const char *doing, const void *mine, size_t bytes, void *all) {
    const unsigned size = clq_world_size(world), rank = clq_world_rank(world);
    if (rank >= size)
        return clq_fail(CLQ_ERROR_STATE, "%s is set apart, and calls clq_serve: it takes no part in %s",
                        clq_world_name(world, rank), doing);
    if (bytes == 0 || bytes > bytes_most / size)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "a gather of %zu bytes from each of %u ranks: expected 1 byte to 1 GiB in all", bytes, size);
    CLQ_TRY(clq_world_failure(world));
    if (size == 1) {
        memmove(all, mine, bytes);
        return CLQ_OK;
    }
    world->turns++;
    char *known = clq_alloc(size, bytes);
    if (!known) return clq_world_fail_with(world, CLQ_ERROR_MEMORY); /* the others wait for this rank */
    memcpy(known, mine, bytes);
    gather self = {.job = {.advance = advance, .doing = doing}, .bytes = bytes, .known = known, .distance = 1};
    const clq_status status = clq_world_run(world, &self.job);
    for (unsigned i = 0; status == CLQ_OK && i < size; i++)
        memcpy((char *)all + (rank + i) % size * bytes, known + i * bytes, bytes);
    clq_free(known);
    return status;
}

uint64_t clq_world_turns(const clq_world *world) { return world ? world->turns : 0; }

clq_status clq_world_gather(clq_world *world, const void *mine, size_t bytes, void *all) {
    return gather_all(world, "a gather", mine, bytes, all);
}

clq_status clq_world_barrier(clq_world *world) {
    if (clq_world_size(world) == 1) return clq_world_failure(world);
    char *all = clq_alloc(clq_world_size(world), 1);
    if (!all) return clq_world_fail_with(world, CLQ_ERROR_MEMORY);
    const clq_status status = gather_all(world, "a barrier", "", 1, all);
    clq_free(all);
    return status;
}

/* *which: the first rank whose value differs from rank 0's; 0: there is none. */
static clq_status compare(clq_world *world, const char *what, clq_hash128 value, unsigned *which) {
    clq_hash128 *all = clq_alloc(clq_world_size(world), sizeof *all);
    if (!all) return clq_world_fail_with(world, CLQ_ERROR_MEMORY);
    const clq_status status = gather_all(world, what, &value, sizeof value, all);
    *which = 0;
    for (unsigned r = 1; status == CLQ_OK && r < clq_world_size(world) && *which == 0; r++)
        if (all[r].low != all[0].low || all[r].high != all[0].high) *which = r;
    clq_free(all);
    return status;
}

/* The world ends with the failure of one rank, so that exactly one rank reports it. */
clq_status clq_world_agree(clq_world *world, const char *what, clq_hash128 value) {
    unsigned which;
    if (clq_world_size(world) == 1) return clq_world_failure(world);
    CLQ_TRY(compare(world, what, value, &which));
    if (which == 0) return CLQ_OK;
    (void)clq_world_barrier(world); /* all know it before one of them ends the world */
    clq_error why = {.status = CLQ_ERROR_MISMATCH};
    const char *name = clq_world_name(world, which);
    clq_format(why.detail, sizeof why.detail,
               "%s has another %s than %s: start all processes with the same options and files", name, what,
               clq_world_name(world, 0));
    clq_world_fail_of(world, which, name, &why);
    return clq_error_raise(&why);
}

enum { SAID_MAX = 480 };
typedef struct said {
    uint32_t status;
    char detail[SAID_MAX];
} said;

static clq_status tell_first(clq_world *world, const said *all) {
    unsigned r = 0;
    while (r < clq_world_size(world) && all[r].status == CLQ_OK) r++;
    if (r == clq_world_size(world)) return CLQ_OK;
    (void)clq_world_barrier(world); /* all know it before one of them ends the world */
    clq_error why = {.status = all[r].status < CLQ_STATUS_COUNT ? (clq_status)all[r].status : CLQ_ERROR_ABORTED};
    snprintf(why.detail, sizeof why.detail, "%.*s", SAID_MAX - 1, all[r].detail);
    clq_world_fail_of(world, r, clq_world_name(world, r), &why);
    return clq_world_failure(world);
}

clq_status clq_world_check(clq_world *world, clq_status status) {
    if (clq_world_size(world) == 1) return status;
    said mine = {.status = (uint32_t)status}, *all = clq_alloc(clq_world_size(world), sizeof *all);
    if (status != CLQ_OK) snprintf(mine.detail, sizeof mine.detail, "%s", clq_error_detail());
    if (!all) return clq_world_fail_with(world, status == CLQ_OK ? CLQ_ERROR_MEMORY : status);
    status = gather_all(world, "the end of what each prepares", &mine, sizeof mine, all);
    if (status == CLQ_OK) status = tell_first(world, all);
    clq_free(all);
    return status;
}
