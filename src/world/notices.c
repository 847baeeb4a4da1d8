/* Notices tell which ranks live, what ended the world, and who leaves. Each rank exchanges them with its neighbors: the
 * ranks at the distances 1, 2, 4, … on both sides of the ring of ranks. It sends 2 log2(size) small messages a
 * second. All ranks know of a failure after log2(size) hops, even if many ranks are gone.
 *
 * The clock is clq_now_running: a process that was stopped, or got no core for a while, does not take its own absence
 * for the others' silence. */
#include "world/inside.h"

#include <string.h>
#include <time.h>

enum { NOTICE_TEXT_MAX = 480 };
typedef enum notice_kind { LIVES, FAILED, LEAVES } notice_kind;
typedef struct notice {
    uint32_t kind;
    uint32_t rank;      /* FAILED: who failed. LIVES: whom the sender waits for; the sender itself: nobody */
    clq_rank_name name; /* FAILED: name of `rank` with its host, as the receiver may not know the hosts yet */
    uint32_t status;    /* FAILED: clq_status, as that rank reports it */
    char text[NOTICE_TEXT_MAX];
} notice;

struct clq_neighbor {
    unsigned rank;
    notice out, in;
    void *sending, *receiving;
    /* Seconds since its last notice. A long gap between two looks counts as CLQ_RUNNING_MOST_S only: a thread that got
     * no core for a while has not heard what came meanwhile. */
    double silent_s;
    unsigned waits_for;
    bool told_last, has_left;
};

static const double beat_s = 1, look_s = 2e-3;
/* How long leaving, and telling of a failure, may take. */
static const double leave_s = 10, tell_s = 0.5;

static void nap(void) {
    const struct timespec time = {.tv_nsec = 200000};
    nanosleep(&time, NULL);
}

static clq_status listen_to(clq_world *world, clq_neighbor *neighbor) {
    return clq_world_begin_receive(world, neighbor->rank, CLQ_TAG_NOTICE, &neighbor->in, sizeof neighbor->in,
                                   &neighbor->receiving);
}

static bool is_neighbor(const clq_world *world, unsigned rank) {
    for (unsigned i = 0; i < world->neighbor_count; i++)
        if (world->neighbors[i].rank == rank) return true;
    return rank == world->rank;
}

static void add_neighbor(clq_world *world, unsigned rank) {
    if (!is_neighbor(world, rank)) world->neighbors[world->neighbor_count++].rank = rank;
}

clq_status clq_notices_open(clq_world *world) {
    world->neighbors = clq_alloc(2 * 32, sizeof *world->neighbors);
    if (!world->neighbors) return CLQ_ERROR_MEMORY;
    for (unsigned distance = 1; distance < world->size; distance *= 2) {
        add_neighbor(world, (world->rank + distance) % world->size);
        add_neighbor(world, (world->rank + world->size - distance) % world->size);
    }
    world->looked_at = clq_now_running();
    for (unsigned i = 0; i < world->neighbor_count; i++) {
        world->neighbors[i].waits_for = world->neighbors[i].rank;
        CLQ_TRY(listen_to(world, &world->neighbors[i]));
    }
    return CLQ_OK;
}

void clq_notices_free(clq_world *world) { clq_free(world->neighbors); }

/* Sends nothing if the previous notice to the neighbor is still under way. */
static clq_status send_notice(clq_world *world, clq_neighbor *neighbor, notice_kind kind) {
    if (neighbor->sending) return CLQ_OK;
    neighbor->out.kind = kind;
    neighbor->out.rank = kind == FAILED ? world->failed_rank : world->active ? world->active->waits_for : world->rank;
    if (kind == FAILED) {
        neighbor->out.name = world->failed_name;
        neighbor->out.status = world->told.status;
        snprintf(neighbor->out.text, sizeof neighbor->out.text, "%.*s", NOTICE_TEXT_MAX - 1, world->told.detail);
    }
    return clq_world_begin_send(world, neighbor->rank, CLQ_TAG_NOTICE, &neighbor->out, sizeof neighbor->out,
                                &neighbor->sending);
}

void clq_world_fail_of(clq_world *world, unsigned rank, const char *name, const clq_error *why) {
    pthread_mutex_lock(&world->lock);
    if (!atomic_load(&world->failed)) {
        world->failed_rank = rank;
        world->failed_at = clq_now();
        snprintf(world->failed_name.text, sizeof world->failed_name.text, "%s", name);
        world->failure = world->told = *why;
        if (rank != world->rank) {
            world->failure.status = CLQ_ERROR_ABORTED;
            snprintf(world->failure.detail, sizeof world->failure.detail, "%s: %.900s", name, why->detail);
        }
        atomic_store(&world->failed, true);
        pthread_cond_signal(&world->asked);
    }
    pthread_mutex_unlock(&world->lock);
}

static void take_notice(clq_world *world, clq_neighbor *neighbor) {
    notice *in = &neighbor->in;
    neighbor->silent_s = 0;
    if (in->kind == LIVES) neighbor->waits_for = in->rank;
    neighbor->has_left = in->kind == LEAVES;
    if (in->kind != FAILED) return;
    clq_error why = {.status = in->status < CLQ_STATUS_COUNT ? (clq_status)in->status : CLQ_ERROR_ABORTED};
    in->text[NOTICE_TEXT_MAX - 1] = in->name.text[CLQ_RANK_NAME_MAX - 1] = '\0';
    snprintf(why.detail, sizeof why.detail, "%s", in->text);
    clq_world_fail_of(world, CLQ_MIN(in->rank, world->size - 1), in->name.text, &why);
}

static clq_status hear(clq_world *world, clq_neighbor *neighbor) {
    bool moved = false, done; /* notices do not keep the thread awake */
    if (!neighbor->receiving) return CLQ_OK;
    CLQ_TRY(clq_world_test(world, &neighbor->receiving, &moved, &done));
    if (!done) return CLQ_OK;
    take_notice(world, neighbor);
    return neighbor->has_left ? CLQ_OK : listen_to(world, neighbor);
}

/* Ends the world if a neighbor was silent for longer than silence_s, and blames the one that was silent for the longest
 * time. The error names the other neighbors that missed a heartbeat, too. If a process is stopped while it puts a
 * message into a queue, this rank hears none of the messages behind that one, and cannot tell which process was
 * stopped. */
static void blame_silent(clq_world *world) {
    const clq_neighbor *silent = NULL;
    for (unsigned i = 0; i < world->neighbor_count; i++) {
        const clq_neighbor *neighbor = &world->neighbors[i];
        if (!neighbor->has_left && (!silent || neighbor->silent_s > silent->silent_s)) silent = neighbor;
    }
    if (!silent || silent->silent_s <= world->silence_s) return;
    clq_error why = {.status = CLQ_ERROR_ABORTED};
    clq_format(why.detail, sizeof why.detail, "nothing heard for %g s", world->silence_s);
    for (unsigned i = 0; i < world->neighbor_count; i++) {
        const clq_neighbor *other = &world->neighbors[i];
        const size_t used = strlen(why.detail);
        if (other != silent && !other->has_left && other->silent_s > 2 * beat_s)
            clq_format(why.detail + used, sizeof why.detail - used, ", nor from %s",
                       clq_world_name(world, other->rank));
    }
    clq_world_fail_of(world, silent->rank, clq_world_name(world, silent->rank), &why);
}

clq_status clq_notices_advance(clq_world *world) {
    const double now = clq_now_running(), gap = now - world->looked_at;
    if (gap < look_s || world->neighbor_count == 0) return CLQ_OK;
    const bool beats = now >= world->beat_at;
    world->looked_at = now;
    if (beats) world->beat_at = now + beat_s;
    for (unsigned i = 0; i < world->neighbor_count; i++) {
        clq_neighbor *neighbor = &world->neighbors[i];
        bool moved = false, done;
        CLQ_TRY(clq_world_test(world, &neighbor->sending, &moved, &done));
        if (beats) CLQ_TRY(send_notice(world, neighbor, LIVES));
        neighbor->silent_s += CLQ_MIN(gap, CLQ_RUNNING_MOST_S);
        CLQ_TRY(hear(world, neighbor));
    }
    blame_silent(world);
    return CLQ_OK;
}

/* The rank that all wait for, as far as this rank knows. In a ring each rank waits for its neighbor, which waits for
 * another: this follows the chain to its end. */
unsigned clq_notices_culprit(const clq_world *world, unsigned rank) {
    for (unsigned hops = 0; hops < world->size; hops++) {
        unsigned i = 0;
        while (i < world->neighbor_count && world->neighbors[i].rank != rank) i++;
        if (i == world->neighbor_count) return rank;
        const unsigned next = world->neighbors[i].waits_for;
        if (next == rank || next == world->rank || next >= world->size) return rank;
        rank = next;
    }
    return rank;
}

/* Sends the last notice to a neighbor, once the previous one has been sent. *told: the last notice has been sent. */
static clq_status tell_last(clq_world *world, clq_neighbor *neighbor, notice_kind kind, bool *told) {
    bool moved = false, done;
    CLQ_TRY(clq_world_test(world, &neighbor->sending, &moved, &done));
    *told = done && neighbor->told_last;
    if (!done || neighbor->told_last) return CLQ_OK;
    neighbor->told_last = true;
    return send_notice(world, neighbor, kind);
}

void clq_notices_tell_failure(clq_world *world) {
    const double until = clq_now() + tell_s;
    for (bool all = false; !all && clq_now() < until;) {
        all = true;
        for (unsigned i = 0; i < world->neighbor_count; i++) {
            clq_neighbor *neighbor = &world->neighbors[i];
            bool told;
            if (neighbor->has_left || tell_last(world, neighbor, FAILED, &told) != CLQ_OK) continue;
            all = all && told;
        }
        if (!all) nap();
    }
}

/* *all: each neighbor has been told that this rank leaves, and has said that it leaves, too. */
static clq_status leave(clq_world *world, bool *all) {
    *all = true;
    for (unsigned i = 0; i < world->neighbor_count; i++) {
        clq_neighbor *neighbor = &world->neighbors[i];
        bool told;
        CLQ_TRY(tell_last(world, neighbor, LEAVES, &told));
        CLQ_TRY(hear(world, neighbor));
        *all = *all && told && neighbor->has_left;
    }
    return CLQ_OK;
}

bool clq_notices_close(clq_world *world) {
    const double until = clq_now_running() + leave_s;
    for (bool all;; nap()) {
        if (atomic_load(&world->failed) || clq_now_running() > until || leave(world, &all) != CLQ_OK) return false;
        if (all) return true;
    }
}

/* ---- failure ---- */

void clq_world_fail(clq_world *world, const clq_error *why) {
    clq_world_fail_of(world, world->rank, clq_world_name(world, world->rank), why);
}

clq_status clq_world_fail_with(clq_world *world, clq_status status) {
    clq_error why;
    clq_error_take(status, &why);
    clq_world_fail(world, &why);
    return clq_error_raise(&why);
}

clq_status clq_world_failure(const clq_world *world) {
    return world && atomic_load(&world->failed) ? clq_error_raise(&world->failure) : CLQ_OK;
}

unsigned clq_world_failed_rank(const clq_world *world) { return world->failed_rank; }
clq_status clq_world_failed_status(const clq_world *world) { return world->told.status; }

void clq_world_abort(clq_world *world, const char *why) {
    clq_error error = {.status = CLQ_ERROR_ABORTED};
    snprintf(error.detail, sizeof error.detail, "%s", why && *why ? why : "the program ended the run");
    clq_clean(error.detail);
    if (world) clq_world_fail(world, &error);
}
