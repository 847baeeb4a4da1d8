/* The world's thread opens the engine, moves jobs forward, and closes the engine. A thread that runs a job of its own
 * first moves that job forward itself, if the engine lets threads take turns (MPI_THREAD_SERIALIZED). To wake the
 * world's thread, and to be woken by it, takes as long as a short message. */
#include "world/inside.h"

#include <sched.h>

/* While bytes move, a thread that yields between looks sees them soonest: sleeps of 20 us cost up to 40 % of the rate
 * at 1 Gbit/s. If nothing has moved for yield_s, the other rank is busy with something else, and this rank's cores are
 * needed for computing. Then the thread sleeps between looks, for an eighth of the time that it has waited already, at
 * most nap_most_s. */
static const double yield_s = 200e-6, nap_most_s = 500e-6;
static const unsigned nap_part = 8;
/* How long a thread without jobs sleeps between two looks at what other ranks may have to tell. */
static const double idle_nap_s = 5e-3;
/* How long a thread that waits for its own job keeps the engine: heartbeats come in between. */
static const double turn_s = 2e-3;
static const double forever_s = 1e30;

clq_status clq_world_engine_failed(clq_world *world, const char *doing, int error) {
    char text[256] = "";
    world->engine->tell(world->link, error, text, sizeof text);
    return clq_fail(CLQ_ERROR_SYSTEM, "%s: %s: %s", world->engine->name, doing,
                    text[0] ? text : "an error without a text");
}

/* ---- what jobs call ---- */

clq_status clq_world_begin_send(clq_world *world, unsigned to, unsigned tag, const void *data, size_t bytes,
                                void **request) {
    const int error = world->engine->send(world->link, to, tag, data, bytes, request);
    if (!error) return CLQ_OK;
    *request = NULL;
    return clq_fail_within(clq_world_engine_failed(world, "sending", error), "to %s", clq_world_name(world, to));
}

clq_status clq_world_begin_receive(clq_world *world, unsigned from, unsigned tag, void *data, size_t bytes,
                                   void **request) {
    const int error = world->engine->receive(world->link, from, tag, data, bytes, request);
    if (!error) return CLQ_OK;
    *request = NULL;
    return clq_fail_within(clq_world_engine_failed(world, "receiving", error), "from %s", clq_world_name(world, from));
}

clq_status clq_world_test(clq_world *world, void **request, bool *moved, bool *done) {
    int is_done = 0;
    *done = true;
    if (!*request) return CLQ_OK;
    const int error = world->engine->test(world->link, request, &is_done);
    if (error) return clq_world_engine_failed(world, "moving messages", error);
    *done = is_done != 0;
    if (*done) *request = NULL;
    *moved |= *done;
    return CLQ_OK;
}

/* ---- jobs ---- */

static void end_job(clq_world *world, clq_job *job, clq_status status) {
    clq_error_take(status, &job->end);
    atomic_store(&job->over, true); /* from here on its owner may free it */
    pthread_mutex_lock(&world->lock);
    pthread_cond_broadcast(&world->ended);
    pthread_mutex_unlock(&world->lock);
}

static void take_posted(clq_world *world) {
    pthread_mutex_lock(&world->lock);
    clq_job *posted = world->posted;
    world->posted = NULL;
    pthread_mutex_unlock(&world->lock);
    clq_job **last = &world->active;
    while (*last) last = &(*last)->next;
    *last = posted;
    atomic_store(&world->is_busy, world->active != NULL);
}

static clq_status late(const clq_world *world, const clq_job *job) {
    return clq_fail(CLQ_ERROR_TIMEOUT, "%s did not come to %s within the deadline of %g s",
                    clq_world_name(world, clq_notices_culprit(world, job->waits_for)), job->doing,
                    job->deadline_s > 0 ? job->deadline_s : world->deadline_s);
}

static clq_status advance_jobs(clq_world *world, bool *moved) {
    const double now = clq_now_running();
    for (clq_job **at = &world->active; *at;) {
        clq_job *job = *at;
        bool done = false;
        CLQ_TRY(job->advance(job, world, moved, &done));
        if (done) {
            *at = job->next;
            *moved = true;
            end_job(world, job, CLQ_OK);
            continue;
        }
        if (now > job->until) return late(world, job);
        at = &job->next;
    }
    return CLQ_OK;
}

static void begin_job(clq_world *world, clq_job *job) {
    job->next = NULL;
    job->until = clq_now_running() + (job->deadline_s > 0 ? job->deadline_s : world->deadline_s);
    atomic_store(&job->over, false);
}

static void hand_over(clq_world *world, clq_job *job) {
    pthread_mutex_lock(&world->lock);
    clq_job **last = &world->posted;
    while (*last) last = &(*last)->next;
    *last = job;
    pthread_cond_signal(&world->asked);
    pthread_mutex_unlock(&world->lock);
}

void clq_world_post(clq_world *world, clq_job *job) {
    begin_job(world, job);
    hand_over(world, job);
}

static const double patience_s = 20e-6; /* as long as waking takes */

clq_status clq_world_wait(clq_world *world, clq_job *job) {
    const double sleep_at = clq_now() + patience_s;
    while (!atomic_load(&job->over) && clq_now() < sleep_at) sched_yield();
    pthread_mutex_lock(&world->lock);
    while (!atomic_load(&job->over)) pthread_cond_wait(&world->ended, &world->lock);
    pthread_mutex_unlock(&world->lock);
    return clq_error_raise(&job->end);
}

bool clq_world_wait_up_to(clq_world *world, clq_job *job, double seconds) {
    const double until = clq_now_running() + seconds;
    const double sleep_at = clq_now() + patience_s;
    while (!atomic_load(&job->over) && clq_now() < sleep_at) sched_yield();
    pthread_mutex_lock(&world->lock);
    while (!atomic_load(&job->over) && clq_now_running() < until) clq_lock_wait(&world->lock, &world->ended, 0.1);
    pthread_mutex_unlock(&world->lock);
    return atomic_load(&job->over);
}

/* The caller's turn with the engine: moves its job forward, and returns whether the job is done. If not, the world's
 * thread goes on with it. That holds after a failure, too: the memory of messages under way belongs to the job until
 * the engine is abandoned. */
static bool drive(clq_world *world, clq_job *job) {
    clq_status status = CLQ_OK;
    bool done = false;
    if (!world->takes_turns || atomic_load(&world->is_busy) || pthread_mutex_trylock(&world->driving) != 0)
        return false;
    double now = clq_now(), moved_at = now;
    const double until = now + turn_s;
    while (!done && status == CLQ_OK && !atomic_load(&world->failed) && !atomic_load(&world->is_wanted) &&
           now < until && now < moved_at + yield_s) {
        bool moved = false;
        status = job->advance(job, world, &moved, &done);
        now = clq_now();
        if (moved) moved_at = now;
        if (!moved && !done) sched_yield();
    }
    pthread_mutex_unlock(&world->driving);
    if (status != CLQ_OK) (void)clq_world_fail_with(world, status);
    return done && status == CLQ_OK;
}

clq_status clq_world_run(clq_world *world, clq_job *job) {
    begin_job(world, job);
    if (drive(world, job)) return CLQ_OK;
    hand_over(world, job);
    return clq_world_wait(world, job);
}

clq_status clq_world_new_tags(clq_world *world, unsigned count, unsigned *out) {
    if (count > CLQ_TAGS_MAX - world->next_tag)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "a run has %d tags for messages, and all are used", CLQ_TAGS_MAX);
    *out = world->next_tag;
    world->next_tag += count;
    return CLQ_OK;
}

/* ---- the thread ---- */

static void take_turn(clq_world *world) {
    if (pthread_mutex_trylock(&world->driving) == 0) return;
    atomic_store(&world->is_wanted, true);
    pthread_mutex_lock(&world->driving);
    atomic_store(&world->is_wanted, false);
}
static void end_turn(clq_world *world) { pthread_mutex_unlock(&world->driving); }

static void sleep_up_to(clq_world *world, double seconds) {
    pthread_mutex_lock(&world->lock);
    if (!world->posted && !world->closing && !atomic_load(&world->failed)) {
        if (seconds < forever_s)
            clq_lock_wait(&world->lock, &world->asked, seconds);
        else
            pthread_cond_wait(&world->asked, &world->lock);
    }
    pthread_mutex_unlock(&world->lock);
}

static void rest(clq_world *world, bool moved) {
    const double now = clq_now(), waited = now - world->moved_at;
    if (moved) world->moved_at = now;
    if (moved) return;
    if (!world->active)
        sleep_up_to(world, world->size > 1 ? idle_nap_s : forever_s);
    else if (waited < yield_s)
        sched_yield();
    else
        sleep_up_to(world, CLQ_MIN(waited / nap_part, nap_most_s));
}

static bool wants_to_close(clq_world *world) {
    pthread_mutex_lock(&world->lock);
    const bool closing = world->closing && !world->posted;
    pthread_mutex_unlock(&world->lock);
    return closing && !world->active;
}

static void end_all(clq_world *world) {
    take_posted(world);
    while (world->active) {
        clq_job *job = world->active;
        world->active = job->next;
        end_job(world, job, clq_world_failure(world));
    }
}

/* After a failure: abandons the engine, then ends all jobs as they come. */
static void live_on(clq_world *world) {
    take_turn(world);
    clq_notices_tell_failure(world);
    world->engine->abandon(world->link);
    end_turn(world);
    for (;;) {
        end_all(world);
        pthread_mutex_lock(&world->lock);
        while (!world->posted && !world->closing) pthread_cond_wait(&world->asked, &world->lock);
        const bool ends = !world->posted;
        pthread_mutex_unlock(&world->lock);
        if (ends) return;
    }
}

static clq_status move_forward(clq_world *world, bool *moved) {
    take_posted(world);
    if (atomic_load(&world->failed))
        return CLQ_OK; /* perhaps in the turn of a posted job's owner: that job must not go on */
    CLQ_TRY(advance_jobs(world, moved));
    atomic_store(&world->is_busy, world->active != NULL);
    return clq_notices_advance(world);
}

static void serve(clq_world *world) {
    while (!wants_to_close(world)) {
        bool moved = false;
        take_turn(world);
        const clq_status status = move_forward(world, &moved);
        end_turn(world);
        if (status != CLQ_OK) (void)clq_world_fail_with(world, status);
        if (atomic_load(&world->failed)) {
            live_on(world);
            return;
        }
        rest(world, moved);
    }
    if (clq_notices_close(world)) {
        pthread_mutex_lock(&world->lock);
        world->leaves_at = clq_now_running();
        pthread_mutex_unlock(&world->lock);
        const int error = world->engine->close(world->link);
        if (error) clq_log(CLQ_LOG_WARNING, "leaving the run: %s fails with error %d", world->engine->name, error);
    } else if (atomic_load(&world->failed)) {
        live_on(world);
    } else { /* some rank does not leave in time: that is no failure any more, and is not reported */
        world->engine->abandon(world->link);
    }
}

static clq_status open_engine(clq_world *world) {
    const int error = world->engine->open(world->communicator, &world->link, &world->rank, &world->size);
    if (error) return clq_world_engine_failed(world, "joining the run", error);
    world->takes_turns = world->engine->takes_turns(world->link) != 0;
    clq_status status = clq_world_make_numbers(world);
    if (status != CLQ_OK) world->rank = 0, world->size = 1; /* as in the names that there are */
    if (status == CLQ_OK) status = clq_notices_open(world);
    if (status != CLQ_OK) world->engine->abandon(world->link);
    return status;
}

static void thread_main(void *context) {
    clq_world *world = context;
    const clq_status status = open_engine(world);
    pthread_mutex_lock(&world->lock);
    clq_error_take(status, &world->open_error);
    world->opened = true;
    pthread_cond_broadcast(&world->ended);
    pthread_mutex_unlock(&world->lock);
    if (status == CLQ_OK) serve(world);
    pthread_mutex_lock(&world->lock);
    world->gone = true;
    const bool is_left = world->is_left;
    pthread_cond_broadcast(&world->ended);
    pthread_mutex_unlock(&world->lock);
    if (is_left) clq_world_release(world);
}

clq_status clq_world_start(clq_world *world) {
    CLQ_TRY(clq_thread_start("clq-world", thread_main, world, &world->thread));
    pthread_mutex_lock(&world->lock);
    while (!world->opened) pthread_cond_wait(&world->ended, &world->lock);
    pthread_mutex_unlock(&world->lock);
    if (world->open_error.status == CLQ_OK) return CLQ_OK;
    clq_thread_join(world->thread);
    world->thread = NULL;
    return clq_error_raise(&world->open_error);
}

/* How long the engine may take to close, once all ranks have left one another. MPICH 4.0 over TCP (UCX) does not always
 * return from MPI_Finalize: a rank waits for an answer from another, which waits for the launcher. */
static const double leaving_most_s = 5;

bool clq_world_stop(clq_world *world) {
    clq_thread *thread = world->thread;
    const char *name = world->engine ? world->engine->name : "";
    bool late = false;
    if (!thread) return true;
    pthread_mutex_lock(&world->lock);
    world->closing = true;
    pthread_cond_signal(&world->asked);
    while (!world->gone && !late) {
        clq_lock_wait(&world->lock, &world->ended, 0.1);
        late = world->leaves_at > 0 && clq_now_running() - world->leaves_at > leaving_most_s;
    }
    const bool gone = world->gone;
    world->is_left = !gone;
    pthread_mutex_unlock(&world->lock); /* from here on the world may be freed */
    if (gone) {
        clq_thread_join(thread);
        world->thread = NULL;
        return true;
    }
    clq_log(CLQ_LOG_WARNING, "leaving the run: %s has not ended after %g s, and is left behind", name, leaving_most_s);
    clq_thread_leave(thread);
    return false;
}
