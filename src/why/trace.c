/* Where the queues of a recorded run waited, and for whom. */
#include "why/intervals.h"
#include "why/why.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The most bytes of a file that clq_trainer_write_trace wrote (train/trace.c), with at most 2^18 events of a track. */
#define TRACE_BYTES_MAX ((size_t)512 << 20)
enum { DEPTH_MAX = 8 };
static const double time_most_us = 1e15; /* a double resolves fractions of a microsecond there */

/* Threads of a replica's process, by the names that they have in the file. */
enum { HOST, QUEUE, UPLOADS, EXCHANGE, TRACKS };
static const char *const track_names[TRACKS] = {"host", "queue", "uploads", "exchange"};

typedef struct spell { /* an event of the file with a duration */
    double begin, end; /* seconds */
    bool is_step;
    uint64_t step;
} spell;
typedef struct track {
    spell *events;
    size_t count, capacity;
} track;

typedef struct process {
    long long pid;
    unsigned replica;
    char name[CLQ_NAME_MAX];
    long long threads[TRACKS]; /* -1: there is none */
    track tracks[TRACKS];
} process;

typedef struct reading {
    const char *path;
    json_t *events;
    process *replicas; /* by their number, once sorted */
    size_t count, capacity;
    long long input;     /* the process of the pipeline; -1: none */
    clq_intervals waits; /* for batches */
} reading;

const char *clq_doing_name(unsigned doing) {
    static const char *const names[CLQ_DOINGS] = {"busy", "waiting", "exchange", "host", "input"};
    return names[doing];
}

/* ---- the file ---- */

static bool is_word(json_t *event, const char *key, const char *word) {
    const char *text = json_string_value(json_object_get(event, key));
    return text && strcmp(text, word) == 0;
}

static clq_status integer_of(const reading *r, size_t index, json_t *event, const char *key, long long *out) {
    json_t *value = json_object_get(event, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: event %zu: \"%s\" is no whole number of at least 0", r->path, index,
                        key);
    *out = json_integer_value(value);
    return CLQ_OK;
}

static clq_status time_of(const reading *r, size_t index, json_t *event, const char *key, double least, double *out) {
    json_t *value = json_object_get(event, key);
    const double us = json_is_number(value) ? json_number_value(value) : (double)NAN;
    if (!(us >= least && us <= time_most_us))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: event %zu: \"%s\" is no time in microseconds", r->path, index, key);
    *out = us * 1e-6;
    return CLQ_OK;
}

static process *process_of(const reading *r, long long pid) {
    for (size_t i = 0; i < r->count; i++)
        if (r->replicas[i].pid == pid) return &r->replicas[i];
    return NULL;
}

static bool has_replica(const reading *r, unsigned replica) {
    for (size_t i = 0; i < r->count; i++)
        if (r->replicas[i].replica == replica) return true;
    return false;
}

/* "replica 3: NAME" */
static bool parse_replica(const char *text, unsigned *replica, const char **name) {
    static const char word[] = "replica ";
    if (strncmp(text, word, sizeof word - 1) != 0) return false;
    char *end;
    const unsigned long number = strtoul(text + sizeof word - 1, &end, 10);
    if (end == text + sizeof word - 1 || strncmp(end, ": ", 2) != 0 || number >= CLQ_REPLICAS_MAX) return false;
    *replica = (unsigned)number;
    *name = end + 2;
    return true;
}

static clq_status name_process(reading *r, size_t index, long long pid, const char *text) {
    process named = {.pid = pid, .threads = {-1, -1, -1, -1}};
    const char *name;
    if (strcmp(text, "input") == 0) r->input = pid;
    if (!parse_replica(text, &named.replica, &name)) return CLQ_OK;
    if (process_of(r, pid) || has_replica(r, named.replica))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: event %zu: replica %u has a process already", r->path, index,
                        named.replica);
    for (size_t i = 0; name[i] && i + 1 < sizeof named.name; i++) named.name[i] = name[i];
    process *grown = clq_grow(r->replicas, r->count, &r->capacity, 4, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    r->replicas = grown;
    r->replicas[r->count++] = named;
    return CLQ_OK;
}

/* Reads the names of processes or, if `threads`, of their threads. */
static clq_status read_names(reading *r, bool threads) {
    json_t *event;
    size_t i;
    json_array_foreach(r->events, i, event) {
        if (!json_is_object(event)) return clq_fail(CLQ_ERROR_FORMAT, "%s: event %zu is no object", r->path, i);
        if (!is_word(event, "ph", "M")) continue;
        const char *name = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
        long long pid, tid;
        if (!name || !is_word(event, "name", threads ? "thread_name" : "process_name")) continue;
        CLQ_TRY(integer_of(r, i, event, "pid", &pid));
        if (!threads) {
            CLQ_TRY(name_process(r, i, pid, name));
            continue;
        }
        process *p = process_of(r, pid);
        CLQ_TRY(integer_of(r, i, event, "tid", &tid));
        for (unsigned k = 0; p && k < TRACKS; k++)
            if (strcmp(name, track_names[k]) == 0) p->threads[k] = tid;
    }
    return CLQ_OK;
}

static clq_status add_event(const reading *r, size_t index, json_t *json, track *to, const spell *times) {
    spell *grown = clq_grow(to->events, to->count, &to->capacity, 64, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    to->events = grown;
    spell *added = &to->events[to->count++];
    *added = *times;
    added->is_step = is_word(json, "name", "step");
    json_t *batch = json_object_get(json_object_get(json, "args"), "batch");
    if (added->is_step && (!json_is_integer(batch) || json_integer_value(batch) < 1))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: event %zu: a step has no number (\"batch\")", r->path, index);
    if (added->is_step) added->step = (uint64_t)json_integer_value(batch);
    return CLQ_OK;
}

static clq_status read_event(reading *r, size_t index, json_t *json) {
    long long pid, tid;
    spell times = {0};
    double duration;
    CLQ_TRY(integer_of(r, index, json, "pid", &pid));
    CLQ_TRY(integer_of(r, index, json, "tid", &tid));
    CLQ_TRY(time_of(r, index, json, "ts", -time_most_us, &times.begin));
    CLQ_TRY(time_of(r, index, json, "dur", 0, &duration));
    times.end = times.begin + duration;
    if (pid == r->input) return clq_intervals_add(&r->waits, times.begin, times.end);
    process *p = process_of(r, pid);
    for (unsigned k = 0; p && k < TRACKS; k++)
        if (p->threads[k] == tid) return add_event(r, index, json, &p->tracks[k], &times);
    return CLQ_OK; /* a thread that another version may have */
}

static int by_replica(const void *left, const void *right) {
    const process *a = left, *b = right;
    return (a->replica > b->replica) - (a->replica < b->replica);
}

static int by_begin(const void *left, const void *right) {
    const spell *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static clq_status read_trace(reading *r, json_t *document) {
    json_t *event;
    size_t i;
    r->events = json_object_get(document, "traceEvents");
    if (!json_is_array(r->events))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: there are no \"traceEvents\": it is no trace", r->path);
    CLQ_TRY(read_names(r, false));
    CLQ_TRY(read_names(r, true));
    if (r->count == 0)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: no process is a replica: name a file that clique train --trace wrote",
                        r->path);
    json_array_foreach(r->events, i, event) if (is_word(event, "ph", "X")) CLQ_TRY(read_event(r, i, event));
    qsort(r->replicas, r->count, sizeof r->replicas[0], by_replica);
    for (i = 0; i < r->count; i++)
        for (unsigned k = 0; k < TRACKS; k++) {
            track *t = &r->replicas[i].tracks[k];
            if (t->count) qsort(t->events, t->count, sizeof t->events[0], by_begin);
        }
    clq_intervals_join(&r->waits);
    return CLQ_OK;
}

/* ---- what each replica did ---- */

typedef struct explaining {
    const reading *r;
    const process *p;
    clq_traced_replica *out;
    clq_interval *windows;     /* of its steps, in order */
    clq_intervals unexplained; /* the parts of the windows without an explanation yet */
    double *waited;            /* (steps, CLQ_REPLICAS_MAX) seconds, by step and by who was waited for */
} explaining;

/* A step lasts until the replica's thread begins something else, the last one until all its work is done. */
static clq_status find_steps(explaining *e) {
    const track *host = &e->p->tracks[HOST];
    double last = 0;
    e->out->steps = clq_alloc(CLQ_MAX(host->count, (size_t)1), sizeof *e->out->steps);
    e->windows = clq_alloc(CLQ_MAX(host->count, (size_t)1), sizeof *e->windows);
    if (!e->out->steps || !e->windows) return CLQ_ERROR_MEMORY;
    for (unsigned k = 0; k < TRACKS; k++)
        for (size_t i = 0; i < e->p->tracks[k].count; i++) last = CLQ_MAX(last, e->p->tracks[k].events[i].end);
    for (size_t i = 0; i < host->count; i++) {
        const spell *step = &host->events[i];
        if (!step->is_step) continue;
        const clq_interval window = {step->begin, i + 1 < host->count ? host->events[i + 1].begin : last};
        e->windows[e->out->step_count] = window;
        e->out->steps[e->out->step_count++] = (clq_traced_step){.step = step->step, .waited_for = -1};
        CLQ_TRY(clq_intervals_add(&e->unexplained, window.begin, window.end));
    }
    return CLQ_OK; /* the intervals are in order: steps follow one another */
}

/* Explains the time of the steps that lies in `set` and has no explanation yet. whom: the replica that was waited for;
 * -1: none. */
static clq_status explain(explaining *e, clq_intervals *set, unsigned doing, int whom) {
    clq_intervals taken = {0};
    size_t step = 0;
    clq_intervals_join(set);
    clq_status status = clq_intervals_take(&e->unexplained, set, &taken);
    for (size_t i = 0; i < taken.count && status == CLQ_OK; i++) {
        while (e->windows[step].end <= taken.items[i].begin) step++;
        const double seconds = taken.items[i].end - taken.items[i].begin;
        e->out->steps[step].seconds[doing] += seconds;
        if (whom < 0) continue;
        e->out->waited_for_s[whom] += seconds;
        e->waited[step * CLQ_REPLICAS_MAX + (size_t)whom] += seconds;
    }
    clq_free(taken.items);
    return status;
}

static clq_status explain_track(explaining *e, unsigned first, unsigned last, unsigned doing) {
    clq_intervals set = {0};
    clq_status status = CLQ_OK;
    for (unsigned k = first; k <= last; k++)
        for (size_t i = 0; i < e->p->tracks[k].count && status == CLQ_OK; i++)
            status = clq_intervals_add(&set, e->p->tracks[k].events[i].begin, e->p->tracks[k].events[i].end);
    if (status == CLQ_OK) status = explain(e, &set, doing, -1);
    clq_free(set.items);
    return status;
}

/* Event i of each replica's exchange track is one exchange. The replica that began it last held the others up until
 * then. */
static const process *last_to_come(const reading *r, size_t exchange) {
    const process *last = NULL;
    for (size_t i = 0; i < r->count; i++) {
        const track *t = &r->replicas[i].tracks[EXCHANGE];
        if (exchange >= t->count) return NULL;
        if (!last || t->events[exchange].begin > last->tracks[EXCHANGE].events[exchange].begin) last = &r->replicas[i];
    }
    return last;
}

static clq_status explain_waits(explaining *e) {
    const track *own = &e->p->tracks[EXCHANGE];
    clq_status status = CLQ_OK;
    for (size_t whom = 0; whom < e->r->count && status == CLQ_OK; whom++) {
        const process *other = &e->r->replicas[whom];
        clq_intervals set = {0};
        for (size_t i = 0; i < own->count && status == CLQ_OK && other != e->p; i++)
            if (last_to_come(e->r, i) == other)
                status = clq_intervals_add(&set, own->events[i].begin,
                                           CLQ_MIN(own->events[i].end, other->tracks[EXCHANGE].events[i].begin));
        if (status == CLQ_OK) status = explain(e, &set, CLQ_DOING_WAITING, (int)other->replica);
        clq_free(set.items);
    }
    return status;
}

static void note_longest_waits(explaining *e) {
    for (size_t i = 0; i < e->out->step_count; i++) {
        const double *waited = e->waited + i * CLQ_REPLICAS_MAX;
        double most = 0;
        for (int whom = 0; whom < CLQ_REPLICAS_MAX; whom++) {
            if (waited[whom] <= most) continue;
            most = waited[whom];
            e->out->steps[i].waited_for = whom;
        }
    }
}

/* Each moment gets one explanation: the first of the following that holds. */
static clq_status explain_replica(explaining *e) {
    clq_intervals waits = {0}, rest = {0};
    CLQ_TRY(find_steps(e));
    e->waited = clq_alloc(CLQ_MAX(e->out->step_count, (size_t)1) * CLQ_REPLICAS_MAX, sizeof *e->waited);
    if (!e->waited) return CLQ_ERROR_MEMORY;
    CLQ_TRY(explain_track(e, QUEUE, UPLOADS, CLQ_DOING_BUSY));
    CLQ_TRY(explain_waits(e));
    CLQ_TRY(explain_track(e, EXCHANGE, EXCHANGE, CLQ_DOING_EXCHANGE));
    CLQ_TRY(explain_track(e, HOST, HOST, CLQ_DOING_HOST));
    waits = e->r->waits;
    CLQ_TRY(explain(e, &waits, CLQ_DOING_INPUT, -1));
    clq_status status = CLQ_OK;
    for (size_t i = 0; i < e->out->step_count && status == CLQ_OK; i++)
        status = clq_intervals_add(&rest, e->windows[i].begin, e->windows[i].end);
    if (status == CLQ_OK) status = explain(e, &rest, CLQ_DOING_HOST, -1);
    clq_free(rest.items);
    note_longest_waits(e);
    return status;
}

static clq_status explain_all(const reading *r, clq_traced_run *out) {
    size_t steps = 0;
    out->replicas = clq_alloc(r->count, sizeof *out->replicas);
    if (!out->replicas) return CLQ_ERROR_MEMORY;
    out->count = r->count;
    for (size_t i = 0; i < r->count; i++) {
        explaining e = {.r = r, .p = &r->replicas[i], .out = &out->replicas[i]};
        e.out->replica = e.p->replica;
        memcpy(e.out->name, e.p->name, sizeof e.out->name);
        clq_status status = explain_replica(&e);
        clq_free(e.windows);
        clq_free(e.waited);
        clq_free(e.unexplained.items);
        CLQ_TRY(status);
        steps += e.out->step_count;
    }
    return steps ? CLQ_OK : clq_fail(CLQ_ERROR_FORMAT, "%s: no replica made a step while it was recorded", r->path);
}

/* ---- the face ---- */

void clq_traced_run_release(clq_traced_run *run) {
    for (size_t i = 0; i < run->count; i++) clq_free(run->replicas[i].steps);
    clq_free(run->replicas);
    *run = (clq_traced_run){0};
}

clq_status clq_trace_explain(const char *path, clq_traced_run *out) {
    reading r = {.path = path, .input = -1};
    clq_traced_run run = {0};
    json_t *document;
    CLQ_TRY(clq_json_read(path, TRACE_BYTES_MAX, DEPTH_MAX, &document));
    clq_status status = read_trace(&r, document);
    json_decref(document);
    if (status == CLQ_OK) status = explain_all(&r, &run);
    for (size_t i = 0; i < r.count; i++)
        for (unsigned k = 0; k < TRACKS; k++) clq_free(r.replicas[i].tracks[k].events);
    clq_free(r.replicas);
    clq_free(r.waits.items);
    if (status == CLQ_OK)
        *out = run;
    else
        clq_traced_run_release(&run);
    return status;
}
