/* Notices: which ranks live, what ended the world, who leaves. Each rank exchanges them with those at the distances 1,
 * 2, 4, … on both sides of the ring of ranks: 2 log2(size) small messages a second, and a failure is known to all after
 * log2(size) hops, also with many ranks gone.
 *
 * The clock is clq_now_running: a process that was stopped, or got no core for a while, does not take its own absence
 * for the others' silence. */
#include "world/inside.h"

#include <time.h>

enum { NOTICE_TEXT_MAX = 480 };
typedef enum notice_kind { LIVES, FAILED, LEAVES } notice_kind;
typedef struct notice {
    uint32_t kind, rank; /* FAILED: whose failure */
    char text[NOTICE_TEXT_MAX];
} notice;

struct clq_listener {
    unsigned rank;
    notice out, in;
    void *sending, *receiving;
    double heard; /* when it last said anything */
    bool told_last, has_left;
};

static const double beat_s = 1, look_s = 2e-3;
/* What leaving and telling of a failure may take. */
static const double leave_s = 10, tell_s = 0.5;

static void nap(void) {
    const struct timespec time = {.tv_nsec = 200000};
    nanosleep(&time, NULL);
}

static clq_status listen_to(clq_world *world, clq_listener *listener) {
    return clq_world_begin_receive(world, listener->rank, CLQ_TAG_NOTICE, &listener->in, sizeof listener->in,
                                   &listener->receiving);
}

static bool is_listener(const clq_world *world, unsigned rank) {
    for (unsigned i = 0; i < world->listener_count; i++)
        if (world->listeners[i].rank == rank) return true;
    return rank == world->rank;
}

static void add_listener(clq_world *world, unsigned rank) {
    if (!is_listener(world, rank)) world->listeners[world->listener_count++].rank = rank;
}

clq_status clq_notices_open(clq_world *world) {
    world->listeners = clq_alloc(2 * 32, sizeof *world->listeners);
    if (!world->listeners) return CLQ_MEMORY;
    for (unsigned distance = 1; distance < world->size; distance *= 2) {
        add_listener(world, (world->rank + distance) % world->size);
        add_listener(world, (world->rank + world->size - distance) % world->size);
    }
    for (unsigned i = 0; i < world->listener_count; i++) {
        world->listeners[i].heard = clq_now_running();
        CLQ_TRY(listen_to(world, &world->listeners[i]));
    }
    return CLQ_OK;
}

void clq_notices_free(clq_world *world) { clq_free(world->listeners); }

/* Unless the last one is still on its way. */
static clq_status send_notice(clq_world *world, clq_listener *listener, notice_kind kind) {
    if (listener->sending) return CLQ_OK;
    listener->out.kind = kind;
    listener->out.rank = kind == FAILED ? world->failed_rank : world->rank;
    if (kind == FAILED)
        snprintf(listener->out.text, sizeof listener->out.text, "%.*s", NOTICE_TEXT_MAX - 1, world->told.detail);
    return clq_world_begin_send(world, listener->rank, CLQ_TAG_NOTICE, &listener->out, sizeof listener->out,
                                &listener->sending);
}

static void take_notice(clq_world *world, clq_listener *listener, double now) {
    notice *in = &listener->in;
    listener->heard = now;
    listener->has_left = in->kind == LEAVES;
    if (in->kind != FAILED) return;
    clq_error why = {.status = CLQ_ABORTED};
    in->text[NOTICE_TEXT_MAX - 1] = '\0';
    snprintf(why.detail, sizeof why.detail, "%s", in->text);
    clq_world_fail_of(world, CLQ_MIN(in->rank, world->size - 1), &why);
}

static clq_status hear(clq_world *world, clq_listener *listener, double now) {
    bool moved = false, done; /* notices do not keep the thread awake */
    if (!listener->receiving) return CLQ_OK;
    CLQ_TRY(clq_world_test(world, &listener->receiving, &moved, &done));
    if (!done) return CLQ_OK;
    take_notice(world, listener, now);
    return listener->has_left ? CLQ_OK : listen_to(world, listener);
}

static void check_silence(clq_world *world, const clq_listener *listener, double now) {
    if (listener->has_left || now - listener->heard <= world->silence_s) return;
    clq_error why = {.status = CLQ_ABORTED};
    clq_format(why.detail, sizeof why.detail, "nothing heard for %g s", world->silence_s);
    clq_world_fail_of(world, listener->rank, &why);
}

clq_status clq_notices_advance(clq_world *world) {
    const double now = clq_now_running();
    if (now < world->look_at || world->listener_count == 0) return CLQ_OK;
    world->look_at = now + look_s;
    const bool beats = now >= world->beat_at;
    if (beats) world->beat_at = now + beat_s;
    for (unsigned i = 0; i < world->listener_count; i++) {
        clq_listener *listener = &world->listeners[i];
        bool moved = false, done;
        CLQ_TRY(clq_world_test(world, &listener->sending, &moved, &done));
        if (beats) CLQ_TRY(send_notice(world, listener, LIVES));
        CLQ_TRY(hear(world, listener, now));
        check_silence(world, listener, now);
    }
    return CLQ_OK;
}

/* Sends the last notice to a listener, as soon as the one before is on its way. *told: it was sent, and has arrived at
 * the engine. */
static clq_status tell_last(clq_world *world, clq_listener *listener, notice_kind kind, bool *told) {
    bool moved = false, done;
    CLQ_TRY(clq_world_test(world, &listener->sending, &moved, &done));
    *told = done && listener->told_last;
    if (!done || listener->told_last) return CLQ_OK;
    listener->told_last = true;
    return send_notice(world, listener, kind);
}

void clq_notices_tell_failure(clq_world *world) {
    const double until = clq_now() + tell_s;
    for (bool all = false; !all && clq_now() < until;) {
        all = true;
        for (unsigned i = 0; i < world->listener_count; i++) {
            clq_listener *listener = &world->listeners[i];
            bool told;
            if (listener->has_left || tell_last(world, listener, FAILED, &told) != CLQ_OK) continue;
            all = all && told;
        }
        if (!all) nap();
    }
}

/* *all: each has been told, and has said so itself. */
static clq_status leave(clq_world *world, bool *all) {
    *all = true;
    for (unsigned i = 0; i < world->listener_count; i++) {
        clq_listener *listener = &world->listeners[i];
        bool told;
        CLQ_TRY(tell_last(world, listener, LEAVES, &told));
        CLQ_TRY(hear(world, listener, clq_now_running()));
        *all = *all && told && listener->has_left;
    }
    return CLQ_OK;
}

bool clq_notices_close(clq_world *world) {
    const double until = clq_now_running() + leave_s;
    for (bool all;; nap()) {
        if (leave(world, &all) != CLQ_OK || atomic_load(&world->failed)) return false;
        if (all) return true;
        if (clq_now_running() > until) return false;
    }
}

/* ---- failure ---- */

void clq_world_fail_of(clq_world *world, unsigned rank, const clq_error *why) {
    pthread_mutex_lock(&world->lock);
    if (!atomic_load(&world->failed)) {
        world->failed_rank = rank;
        world->failed_at = clq_now();
        world->failure = world->told = *why;
        if (rank != world->rank)
            snprintf(world->failure.detail, sizeof world->failure.detail, "%s: %.900s", clq_world_name(world, rank),
                     why->detail);
        atomic_store(&world->failed, true);
        pthread_cond_signal(&world->asked);
    }
    pthread_mutex_unlock(&world->lock);
}

void clq_world_fail(clq_world *world, const clq_error *why) { clq_world_fail_of(world, world->rank, why); }

clq_status clq_world_failure(const clq_world *world) {
    return world && atomic_load(&world->failed) ? clq_error_raise(&world->failure) : CLQ_OK;
}

void clq_world_abort(clq_world *world, const char *why) {
    clq_error error = {.status = CLQ_ABORTED};
    snprintf(error.detail, sizeof error.detail, "%s", why && *why ? why : "the program ended the run");
    clq_clean(error.detail);
    if (world) clq_world_fail(world, &error);
}
