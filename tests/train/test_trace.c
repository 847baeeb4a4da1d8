/* A traced run says what was launched, when, and what was exchanged meanwhile. An untraced run has the same results. */
#include "support/faults.h"
#include "support/files.h"
#include "support/synthetic.h"
#include "support/system.h"
#include "train/train.h"

enum { STEPS = 8, BATCH = 128, THREADS = 4, HOST = 1, QUEUE = 2, EXCHANGE = 3, SECONDS_MOST = 240 };

static faults layer;
static clq_dataset *data;

typedef struct training {
    const char *model, *spec;
    size_t bucket_bytes, trace_steps;
    const char *path; /* of the trace; NULL: writes none */
    double losses[STEPS];
    unsigned fail_at, calls; /* which call fails while the trace is written, 0: none; out: how many there are */
    uint64_t fail_memory_at; /* which allocation fails from the first step on; 0: none */
    uint64_t allocations;    /* out: how many there are */
} training;

static clq_status note_loss(void *context, const clq_step_info *info) {
    ((training *)context)->losses[info->step - 1] = info->loss;
    return CLQ_OK;
}

static clq_status train(void *context) {
    training *t = context;
    clq_devices devices;
    clq_model *model = NULL;
    clq_trainer *trainer = NULL;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.bucket_bytes = t->bucket_bytes;
    config.trace_steps = t->trace_steps;
    clq_fit_config fit = {.steps = STEPS, .context = t, .on_step = note_loss};
    (void)alarm(SECONDS_MOST); /* ends a test that hangs */
    clq_status status = clq_devices_select(sys, t->spec, &devices);
    if (status == CLQ_OK) status = clq_model_builtin(t->model, &model);
    if (status == CLQ_OK) status = clq_dataset_seek(data, 0, 0);
    if (status == CLQ_OK) status = clq_trainer_create(model, &devices, &config, &trainer);
    if (status == CLQ_OK) {
        (void)clq_memory_fail_at(t->fail_memory_at, t->fail_memory_at % 2);
        status = clq_fit(trainer, data, &fit);
        (void)layer.arm(t->fail_at, CL_OUT_OF_RESOURCES, t->fail_at % 2);
        if (status == CLQ_OK && t->path) status = clq_trainer_write_trace(trainer, t->path);
        t->calls = layer.arm(0, 0, false);
        t->allocations = clq_memory_fail_at(0, false);
    }
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    (void)alarm(0);
    return status;
}

/* ---- reading ---- */

typedef struct span {
    const char *name;
    double begin, end;
    json_int_t bytes;
} span;

typedef struct spans {
    span *items;
    size_t count;
} spans;

static json_t *read_trace(const char *path) {
    json_t *trace;
    assert_ok(clq_json_read(path, 64 << 20, 8, &trace));
    return trace;
}

static json_int_t integer_at(const json_t *event, const char *key) {
    return json_integer_value(json_object_get(event, key));
}

/* The complete events of a thread, in the order of the file. */
static spans spans_of(const json_t *trace, unsigned process, unsigned thread) {
    const json_t *events = json_object_get(trace, "traceEvents");
    spans found = {.items = calloc(json_array_size(events) + 1, sizeof(span))};
    assert_non_null(found.items);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0 || integer_at(e, "pid") != process ||
            integer_at(e, "tid") != thread)
            continue;
        double begin = json_number_value(json_object_get(e, "ts"));
        found.items[found.count++] = (span){.name = json_string_value(json_object_get(e, "name")),
                                            .begin = begin,
                                            .end = begin + json_number_value(json_object_get(e, "dur")),
                                            .bytes = integer_at(json_object_get(e, "args"), "bytes")};
    }
    return found;
}

static size_t count_named(const spans *s, const char *name) {
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) count += strcmp(s->items[i].name, name) == 0;
    return count;
}

/* A thread does one thing at a time. A begin and a duration of 15 digits may add up to slightly too much. */
static void check_order(const spans *s, const char *what) {
    assert_true(s->count > 0);
    for (size_t i = 0; i < s->count; i++) {
        const span *now = &s->items[i];
        if (!(now->begin >= 0.0 && now->begin <= now->end)) fail_msg("%s: %s ends before it begins", what, now->name);
        if (i > 0 && now->begin < s->items[i - 1].end - 1e-3)
            fail_msg("%s: %s begins at %.4f, before %s ends at %.4f", what, now->name, now->begin, s->items[i - 1].name,
                     s->items[i - 1].end);
    }
}

/* ---- what a run must show ---- */

/* Each layer of cnn that computes has a forward and a backward kernel in each step. flatten computes nothing. */
static void check_kernels(const spans *queue, size_t steps) {
    static const char *const layers[] = {"conv2d + max_pooling2d", "conv2d_1 + max_pooling2d_1", "dense"};
    char name[64];
    for (size_t i = 0; i < CLQ_COUNT_OF(layers); i++)
        for (int backward = 0; backward < 2; backward++) {
            (void)snprintf(name, sizeof name, "%s/%s", layers[i], backward ? "backward" : "forward");
            if (count_named(queue, name) != steps)
                fail_msg("%s: %zu times in %zu steps", name, count_named(queue, name), steps);
        }
    const char *const others[] = {"input_layer/input", "loss/loss", "update/update"};
    for (size_t i = 0; i < CLQ_COUNT_OF(others); i++)
        if (count_named(queue, others[i]) != steps)
            fail_msg("%s: %zu times in %zu steps", others[i], count_named(queue, others[i]), steps);
}

/* Each exchange lies within one step of its replica. Each step exchanges the whole gradient, in `parts` parts. */
static void check_exchanges(const spans *host, const spans *exchange, size_t parts) {
    for (size_t i = 0; i < host->count; i++) {
        const span *step = &host->items[i];
        if (strcmp(step->name, "step") != 0) continue;
        size_t inside = 0;
        json_int_t bytes = 0;
        for (size_t k = 0; k < exchange->count; k++)
            if (exchange->items[k].begin >= step->begin && exchange->items[k].end <= step->end + 1e-3) {
                inside++;
                bytes += exchange->items[k].bytes;
            }
        assert_int_equal(inside, parts);
        assert_true(bytes >= 34826 * 4 && bytes < 34826 * 4 + 6 * 512); /* cnn's variables, each rounded up */
    }
    assert_int_equal(exchange->count, parts * count_named(host, "step"));
}

/* Counts the exchanges that began during backward: after its first kernel began, before its last kernel ended. */
static size_t count_overlapping(const spans *queue, const spans *exchange) {
    size_t count = 0;
    double begun = 0.0; /* when backward of this step began */
    for (size_t i = 0; i < queue->count; i++) {
        const span *kernel = &queue->items[i];
        if (strcmp(kernel->name, "dense/backward") == 0) begun = kernel->begin;
        if (strcmp(kernel->name, "conv2d + max_pooling2d/weight gradient") != 0) continue;
        for (size_t k = 0; k < exchange->count; k++)
            count += exchange->items[k].begin > begun && exchange->items[k].begin < kernel->end;
    }
    return count;
}

static const char *const specs[] = {
    "pocl:0,pocl:1",
    "pocl:5*2",
#if defined(__x86_64__)
    "pocl:0,intel",
#endif
};

/* Gives how many exchanges overlapped backward. */
static size_t check_run(const char *spec, size_t bucket_bytes, size_t parts) {
    const char *path = files_path("run.json");
    training t = {.model = "cnn", .spec = spec, .bucket_bytes = bucket_bytes, .trace_steps = 100, .path = path};
    assert_ok(train(&t));
    json_t *trace = read_trace(path);
    size_t overlapping = 0;
    for (unsigned process = 1; process <= 2; process++) {
        spans threads[THREADS] = {0};
        for (unsigned thread = HOST; thread <= EXCHANGE; thread++) {
            threads[thread] = spans_of(trace, process, thread);
            check_order(&threads[thread], spec);
        }
        assert_int_equal(count_named(&threads[HOST], "step"), STEPS);
        check_kernels(&threads[QUEUE], STEPS);
        check_exchanges(&threads[HOST], &threads[EXCHANGE], parts);
        overlapping += count_overlapping(&threads[QUEUE], &threads[EXCHANGE]);
        for (unsigned thread = HOST; thread <= EXCHANGE; thread++) free(threads[thread].items);
    }
    spans input = spans_of(trace, 0, 1);
    check_order(&input, "input");
    assert_true(count_named(&input, "wait for a batch") >= STEPS);
    free(input.items);
    json_decref(trace);
    return overlapping;
}

static void shows_everything(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        size_t overlapping = 0; /* on a busy machine the exchange's thread may run too late, but not every time */
        for (int attempt = 0; attempt < 5 && overlapping == 0; attempt++)
            overlapping = check_run(specs[i], 1, 3); /* a bucket for each layer with variables */
        if (overlapping == 0) fail_msg("%s: no exchange began while backward went on", specs[i]);
        assert_int_equal(check_run(specs[i], SIZE_MAX, 1), 0); /* all at once, after backward */
    }
}

static void changes_nothing(void **state) {
    (void)state;
    training plain = {.model = "mlp", .spec = "pocl:0,pocl:1", .bucket_bytes = 1}, traced = plain;
    traced.trace_steps = 3;
    traced.path = files_path("same.json");
    assert_ok(train(&plain));
    assert_ok(train(&traced));
    assert_memory_equal(plain.losses, traced.losses, sizeof plain.losses);
}

/* A trace keeps the first trace_steps steps and what lies between them, then nothing more. */
static void keeps_the_first_steps(void **state) {
    (void)state;
    training t = {.model = "cnn", .spec = "pocl:0,pocl:1", .bucket_bytes = 1, .trace_steps = 3};
    t.path = files_path("short.json");
    assert_ok(train(&t));
    json_t *trace = read_trace(t.path);
    spans host = spans_of(trace, 1, HOST), queue = spans_of(trace, 1, QUEUE), exchange = spans_of(trace, 1, EXCHANGE);
    assert_int_equal(count_named(&host, "step"), 3);
    check_kernels(&queue, 3);
    assert_int_equal(exchange.count, 9);
    free(host.items);
    free(queue.items);
    free(exchange.items);
    json_decref(trace);
}

static void one_replica(void **state) {
    (void)state;
    training t = {.model = "cnn", .spec = "pocl:0", .trace_steps = 100};
    t.path = files_path("one.json");
    assert_ok(train(&t));
    json_t *trace = read_trace(t.path);
    spans queue = spans_of(trace, 1, QUEUE), exchange = spans_of(trace, 1, EXCHANGE);
    check_kernels(&queue, STEPS);
    assert_int_equal(exchange.count, 0);
    free(queue.items);
    free(exchange.items);
    json_decref(trace);
}

static void refuses(void **state) {
    (void)state;
    training t = {.model = "mlp", .spec = "pocl:0"};
    t.path = files_path("never.json");
    assert_fails(CLQ_ERROR_STATE, "trace_steps", train(&t));
    assert_int_not_equal(access(t.path, F_OK), 0);
    t.trace_steps = 1;
    t.path = files_path("none/trace.json");
    assert_fails(CLQ_ERROR_WRITE, "none/trace.json", train(&t));
}

/* A failure names the device, and no partial file is left. */
static void any_call_fails(void **state) {
    (void)state;
    char folder[256], path[300];
    (void)snprintf(folder, sizeof folder, "%s", files_path("calls"));
    (void)snprintf(path, sizeof path, "%s/t.json", folder);
    assert_ok(clq_make_folder(folder));
    training t = {.model = "mlp", .spec = "pocl:0,pocl:5", .trace_steps = 1, .path = path};
    assert_ok(train(&t));
    unsigned failures = 0, calls = t.calls;
    assert_true(calls >= 2 * 2 * 10); /* the fault layer is loaded: each launch's begin and end are read */
    for (t.fail_at = 1; t.fail_at <= calls; t.fail_at += 7) {
        (void)remove(path);
        clq_status status = train(&t);
        assert_int_equal(files_count(folder), status == CLQ_OK);
        if (status == CLQ_OK) continue; /* the call that failed only released something */
        failures++;
        if (status != CLQ_ERROR_DEVICE || !strstr(clq_error_detail(), "pocl:"))
            fail_msg("call %u: %s: %s", t.fail_at, clq_status_text(status), clq_error_detail());
    }
    assert_true(failures > calls / 14);
}

static void any_allocation_fails(void **state) {
    (void)state;
    training t = {.model = "mlp", .spec = "pocl:0,pocl:1", .bucket_bytes = 1, .trace_steps = 1};
    t.path = files_path("allocations.json");
    assert_ok(train(&t));
    uint64_t allocations = t.allocations;
    assert_true(allocations >= 10);
    for (t.fail_memory_at = 1; t.fail_memory_at <= allocations; t.fail_memory_at += 1 + allocations / 25) {
        clq_status status = train(&t);
        if (status != CLQ_OK && (status != CLQ_ERROR_MEMORY || !strstr(clq_error_detail(), "memory")))
            fail_msg("allocation %d: %s: %s", (int)t.fail_memory_at, clq_status_text(status), clq_error_detail());
    }
}

static int start(void **state) {
    if (faults_load(&layer) != 0 || files_begin(state) != 0) return -1;
    if (open_synthetic("train", 5 * BATCH, &data) != CLQ_OK) return -1;
    if (clq_dataset_batch(data, BATCH, false) != CLQ_OK) return -1;
    return open_system(state);
}
static int stop(void **state) {
    clq_dataset_destroy(data);
    clq_system_close(sys);
    return files_end(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_everything),
        cmocka_unit_test(changes_nothing),
        cmocka_unit_test(keeps_the_first_steps),
        cmocka_unit_test(one_replica),
        cmocka_unit_test(refuses),
        cmocka_unit_test(any_call_fails),
        cmocka_unit_test(any_allocation_fails),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
