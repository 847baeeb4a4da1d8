/* Opening and closing a world, and who is in it. */
#include "world/inside.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- who is in it ---- */

unsigned clq_world_rank(const clq_world *world) { return world ? world->rank : 0; }
unsigned clq_world_size(const clq_world *world) { return world ? world->size - world->apart : 1; }
unsigned clq_world_apart(const clq_world *world) { return world ? world->apart : 0; }
bool clq_world_is_apart(const clq_world *world) { return clq_world_rank(world) >= clq_world_size(world); }

const char *clq_world_engine_name(const clq_world *world) {
    return world && world->engine ? world->engine->name : "nothing";
}

bool clq_world_is_near(const clq_world *world) { return world->is_near || !world->engine; }

size_t clq_world_message_bytes(const clq_world *world) { return world->engine->message_bytes; }

const char *clq_world_name(const clq_world *world, unsigned rank) {
    if (!world) return "rank 0";
    if (rank >= world->size) return "no rank";
    return atomic_load(&world->names)[rank].text;
}

static void find_host(char host[static CLQ_HOST_NAME_MAX]) {
    memset(host, 0, CLQ_HOST_NAME_MAX);
    if (gethostname(host, CLQ_HOST_NAME_MAX - 1) != 0) snprintf(host, CLQ_HOST_NAME_MAX, "a host without name");
    clq_clean(host);
}

static void name_rank(clq_rank_name *name, unsigned rank, const char *host) {
    snprintf(name->text, sizeof name->text, "rank %u on %.63s", rank, host);
    snprintf(name->host, sizeof name->host, "%.63s", host);
}

const char *clq_world_host(const clq_world *world, unsigned rank) {
    return world && rank < world->size ? atomic_load(&world->names)[rank].host : "";
}

clq_status clq_world_make_numbers(clq_world *world) {
    clq_rank_name *numbers = clq_alloc(world->size, sizeof *numbers);
    if (!numbers) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r < world->size; r++) snprintf(numbers[r].text, sizeof numbers[r].text, "rank %u", r);
    if (world->size > 1) {
        char host[CLQ_HOST_NAME_MAX];
        find_host(host);
        name_rank(&numbers[world->rank], world->rank, host);
    }
    clq_free(world->numbers);
    world->numbers = numbers;
    atomic_store(&world->names, numbers);
    return CLQ_OK;
}

/* What a rank tells about itself before anything else. It shows whether the same bytes mean the same on all ranks. */
typedef struct introduction {
    uint32_t order;   /* of bytes */
    char version[28]; /* of Clique */
    char host[CLQ_HOST_NAME_MAX];
} introduction;
static const uint32_t byte_order = 0x01020304;

static void introduce(introduction *out) {
    *out = (introduction){.order = byte_order};
    snprintf(out->version, sizeof out->version, "%s", clq_version());
    find_host(out->host);
}

static clq_status check(const clq_world *world, const introduction *all) {
    for (unsigned r = 0; r < world->size; r++) {
        if (all[r].order != byte_order)
            return clq_fail(CLQ_ERROR_MISMATCH, "rank %u has another byte order than rank %u", r, world->rank);
        if (strncmp(all[r].version, all[0].version, sizeof all[0].version) != 0)
            return clq_fail(CLQ_ERROR_MISMATCH, "rank %u on %.63s has Clique %.27s, rank 0 on %.63s has %.27s", r,
                            all[r].host, all[r].version, all[0].host, all[0].version);
    }
    return CLQ_OK;
}

/* Containers on one machine may have host names of their own. Then they count as separate hosts. */
static bool are_near(const introduction *all, unsigned size) {
    for (unsigned r = 1; r < size; r++)
        if (strncmp(all[r].host, all[0].host, sizeof all[0].host) != 0) return false;
    return true;
}

static clq_status make_names(clq_world *world) {
    introduction mine, *all = clq_alloc(world->size, sizeof *all);
    clq_rank_name *names = clq_alloc(world->size, sizeof *names);
    clq_status status = all && names ? CLQ_OK : CLQ_ERROR_MEMORY;
    introduce(&mine);
    if (status == CLQ_OK) status = clq_world_gather(world, &mine, sizeof mine, all);
    if (status == CLQ_OK) status = check(world, all);
    world->is_near = status == CLQ_OK && are_near(all, world->size);
    for (unsigned r = 0; status == CLQ_OK && r < world->size; r++) name_rank(&names[r], r, all[r].host);
    if (status == CLQ_OK)
        atomic_store(&world->names, names);
    else
        clq_free(names);
    clq_free(all);
    return status;
}

/* ---- ranks that are set apart ---- */

clq_status clq_world_set_apart(clq_world *world, unsigned count) {
    const unsigned size = world ? world->size : 1;
    clq_status status = CLQ_OK;
    if (clq_world_apart(world) > 0)
        return clq_fail(CLQ_ERROR_STATE, "%u ranks are set apart already: clq_serve_end takes them back", world->apart);
    if (count >= size)
        status =
            clq_fail(CLQ_ERROR_ARGUMENT, "%u of %u ranks cannot be set apart: one at least is to remain", count, size);
    CLQ_TRY(clq_world_check(world, status));
    if (!world) return CLQ_OK;
    CLQ_TRY(clq_world_agree(world, "number of ranks set apart", clq_hash128_of(&count, sizeof count, 0)));
    world->apart = count;
    return CLQ_OK;
}

void clq_world_take_back(clq_world *world) { world->apart = 0; }

/* ---- opening and closing ---- */

/* A launcher ends all ranks as soon as one has ended, so each rank gives the others time to say what they know. */
static const double last_words_s = 1;

static void free_world(clq_world *world) {
    if (clq_world_stop(world)) clq_world_release(world);
}

void clq_world_release(clq_world *world) {
    clq_notices_free(world);
    if (atomic_load(&world->names) != world->numbers) clq_free(atomic_load(&world->names));
    clq_free(world->numbers);
    if (world->locks_made) {
        pthread_mutex_destroy(&world->driving);
        pthread_cond_destroy(&world->ended);
        pthread_cond_destroy(&world->asked);
        pthread_mutex_destroy(&world->lock);
    }
    clq_free(world);
}

static clq_status make_locks(clq_world *world) {
    CLQ_TRY(clq_lock_create("a world", &world->lock, &world->asked));
    clq_status status = clq_condition_create("a world", &world->ended);
    if (status == CLQ_OK) {
        const int error = pthread_mutex_init(&world->driving, NULL);
        world->locks_made = error == 0;
        if (world->locks_made) return CLQ_OK;
        pthread_cond_destroy(&world->ended);
        status = clq_fail_lock("a world", error);
    }
    pthread_cond_destroy(&world->asked);
    pthread_mutex_destroy(&world->lock);
    return status;
}

static clq_status check_config(const clq_world_config *config) {
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_world_config, config));
    if (config->silence_s != 0 && !(config->silence_s >= 2 && config->silence_s <= 1e6))
        return clq_fail(CLQ_ERROR_ARGUMENT, "silence_s is %g; it is 0, or 2 to 1e6 seconds", config->silence_s);
    if (config->deadline_s != 0 && !(config->deadline_s > 0 && config->deadline_s <= 1e6))
        return clq_fail(CLQ_ERROR_ARGUMENT, "deadline_s is %g; it is 0, or more and at most 1e6 seconds",
                        config->deadline_s);
    return CLQ_OK;
}

/* A world of this process alone, until an engine is started. */
static clq_status make_world(const clq_world_config *config, clq_world **out) {
    CLQ_TRY(check_config(config));
    clq_world *world = clq_alloc(1, sizeof *world);
    if (!world) return CLQ_ERROR_MEMORY;
    world->size = 1;
    world->next_tag = CLQ_TAG_FIRST_FREE;
    world->silence_s = config->silence_s > 0 ? config->silence_s : 5;
    world->deadline_s = config->deadline_s > 0 ? config->deadline_s : 600;
    clq_status status = make_locks(world);
    if (status == CLQ_OK) status = clq_world_make_numbers(world);
    if (status == CLQ_OK)
        *out = world;
    else
        free_world(world);
    return status;
}

/* Joins the other processes of the run, which `launcher` started. */
static clq_status join(clq_world *world, const clq_launcher *launcher) {
    CLQ_TRY(clq_world_start(world));
    if (launcher->size > 0 && launcher->size != world->size) return clq_launcher_refuse(launcher, world->engine->name);
    return make_names(world);
}

static clq_status open_world(const clq_engine *engine, const void *communicator, const clq_launcher *launcher,
                             const clq_world_config *config, clq_world **out) {
    clq_world *world;
    CLQ_TRY(make_world(config, &world));
    world->engine = engine;
    world->communicator = communicator;
    const clq_status status = engine ? join(world, launcher) : CLQ_OK;
    if (status == CLQ_OK) {
        *out = world;
        return CLQ_OK;
    }
    clq_error why;
    clq_error_take(clq_world_fail_with(world, status), &why);
    free_world(world);
    return clq_error_raise(&why);
}

clq_status clq_world_open_with(const clq_engine *engine, const void *communicator, const clq_world_config *config,
                               clq_world **out) {
    const clq_world_config none = {0};
    return open_world(engine, communicator, &(clq_launcher){0}, config ? config : &none, out);
}

clq_status clq_world_open(const clq_world_config *config, clq_world **out) {
    const clq_world_config none = {0};
    if (!config) config = &none;
    /* The program's own communicator may have fewer processes than the launcher started. */
    const clq_launcher launcher = config->communicator ? (clq_launcher){0} : clq_launcher_find();
    const clq_engine *engine;
    CLQ_TRY(clq_engine_choose(config, &launcher, &engine));
    CLQ_TRY(open_world(engine, config->communicator, &launcher, config, out));
    if (engine) (*out)->last_words_s = last_words_s;
    return CLQ_OK;
}

/* The rank that failed may end first: on a busy machine it may be late with its own line, so the others wait longer. */
void clq_world_let_others_speak(const clq_world *world) {
    const double waits = clq_world_failed_rank(world) == world->rank ? 1.0 : 2.5;
    const double left = world->failed_at + waits * world->last_words_s - clq_now();
    if (left <= 0) return;
    const struct timespec time = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
    nanosleep(&time, NULL);
}

void clq_world_close(clq_world *world) {
    if (!world) return;
    if (world->thread && !atomic_load(&world->failed)) (void)clq_world_barrier(world);
    if (world->thread && atomic_load(&world->failed)) clq_world_let_others_speak(world);
    free_world(world);
}
