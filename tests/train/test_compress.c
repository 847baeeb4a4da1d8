/* Compressed gradients. What replicas exchange equals what a reference in double makes of their gradients. Whatever a
 * message leaves out is kept for later. Two runs have the same bits. */
#include "ref/ops_compress.c"
#include "strategy/module.h"
#include "train/two_layers.h"

#include <math.h>

enum { STEPS = 12 };

static const char *const specs[] = {
    "pocl:0,pocl:1",
    "pocl:0,pocl:1,pocl:2,pocl:3,pocl:4",
#if defined(__x86_64__)
    "pocl:0,intel",
    "intel,pocl:5,pocl:0",
#endif
};

static clq_trainer *make_trainer(const char *spec, const char *compression, size_t bucket_bytes) {
    clq_strategy_options options = {.compression = {.fraction = 0}};
    assert_ok(clq_compression_parse(compression, &options.compression));
    return open_trainer(spec, "sgd:lr=0.1,momentum=0.5", &options, bucket_bytes);
}

/* ---- the exchange ---- */

/* An exchange of a trainer whose replicas are idle. */
typedef struct exchange {
    clq_trainer *trainer;
    clq_strategy *strategy;
    clq_compression how;
    size_t floats, chosen;
    unsigned ranks;
    float *got;
    double *gradient, *sum, *sizes, *sent, *error[CLQ_REPLICAS_MAX];
    uint32_t *places;
} exchange;

static void begin(exchange *e, const char *spec, const char *compression) {
    e->trainer = make_trainer(spec, compression, 0);
    e->strategy = e->trainer->strategy;
    e->how = e->strategy->config.options.compression;
    e->ranks = clq_strategy_replicas(e->strategy);
    e->floats = clq_weights_arena_bytes(e->strategy->replicas[0].weights, CLQ_ARENA_GRADIENT) / sizeof(float);
    const size_t elements = clq_model_parameter_count(model);
    e->chosen = e->how.fraction == 1 ? elements : (elements + 9) / 10;
    e->got = clq_alloc(e->floats, sizeof *e->got);
    e->gradient = clq_alloc(e->floats, sizeof *e->gradient);
    e->sum = clq_alloc(e->floats, sizeof *e->sum);
    e->sizes = clq_alloc(e->floats, sizeof *e->sizes);
    e->sent = clq_alloc(e->floats, sizeof *e->sent);
    e->places = clq_alloc(e->floats, sizeof *e->places);
    for (unsigned r = 0; r < e->ranks; r++) e->error[r] = clq_alloc(e->floats, sizeof *e->error[r]);
}

static void end(exchange *e) {
    clq_trainer_destroy(e->trainer);
    clq_free(e->got);
    clq_free(e->gradient);
    clq_free(e->sum);
    clq_free(e->sizes);
    clq_free(e->sent);
    clq_free(e->places);
    for (unsigned r = 0; r < e->ranks; r++) clq_free(e->error[r]);
}

static void read_gradient(const exchange *e, unsigned rank) {
    assert_ok(clq_strategy_read(e->strategy, rank, CLQ_ARENA_GRADIENT, 0, e->got, e->floats * sizeof *e->got));
}

/* Adds what a replica sends, by the reference, to the sums. */
static void add_message(exchange *e, unsigned rank) {
    read_gradient(e, rank);
    for (size_t i = 0; i < e->floats; i++) e->gradient[i] = (double)e->got[i];
    if (e->how.kind == CLQ_COMPRESSION_F16) {
        const double most = (double)clq_halves_most(e->ranks);
        ref_compress_halves(e->floats, most, e->gradient, e->error[rank], e->sent);
        for (size_t i = 0; i < e->floats; i++) e->places[i] = (uint32_t)i;
    } else {
        ref_choose_largest(e->floats, e->chosen, e->gradient, e->error[rank], e->places, e->sent);
    }
    const bool halves = e->how.kind == CLQ_COMPRESSION_F16;
    for (size_t k = 0; k < (halves ? e->floats : e->chosen); k++) {
        double *sum = &e->sum[e->places[k]];
        *sum = halves ? *sum + e->sent[k] : (double)(float)(*sum + e->sent[k]);
        e->sizes[e->places[k]] += fabs(e->sent[k]);
    }
}

/* Floats are added in the reference's order. Halves are added in any order, and each sum is rounded. */
static void check_sum(exchange *e, const char *what) {
    const double relative = e->how.kind == CLQ_COMPRESSION_F16 ? 0x1p-11 * e->ranks : 0,
                 absolute = e->how.kind == CLQ_COMPRESSION_F16 ? 0x1p-25 * e->ranks : 0;
    double squares = 0;
    for (size_t i = 0; i < e->floats; i++) {
        if (!(fabs((double)e->got[i] - e->sum[i]) <= relative * e->sizes[i] + absolute))
            fail_msg("%s: element %zu of the sum is %.9g and should be %.9g", what, i, (double)e->got[i], e->sum[i]);
        squares += e->sum[i] * e->sum[i];
    }
    assert_true(squares > 0);
}

static void check_errors(const exchange *e, const char *what) {
    assert_ok(clq_strategy_wait(e->strategy));
    for (unsigned r = 0; r < e->ranks; r++) {
        const clq_kept kept = clq_exchange_kept(e->strategy);
        assert_ok(clq_queue_read(e->strategy->replicas[r].worker.queue, kept.errors[r], 0, e->got,
                                 e->floats * sizeof *e->got, true));
        for (size_t i = 0; i < e->floats; i++)
            if ((double)e->got[i] != e->error[r][i])
                fail_msg("%s: replica %u has left %.9g of element %zu, not %.9g", what, r, (double)e->got[i], i,
                         e->error[r][i]);
    }
}

static void exchange_once(exchange *e, const clq_batch *batch, const char *what) {
    clq_step_info info;
    assert_ok(clq_step_gradients(e->trainer, batch));
    memset(e->sum, 0, e->floats * sizeof *e->sum);
    memset(e->sizes, 0, e->floats * sizeof *e->sizes);
    for (unsigned r = 0; r < e->ranks; r++) add_message(e, r);
    assert_ok(clq_step_reduce(e->trainer));
    float *first = clq_alloc(e->floats, sizeof *first);
    read_gradient(e, 0);
    memcpy(first, e->got, e->floats * sizeof *first);
    check_sum(e, what);
    for (unsigned r = 1; r < e->ranks; r++) {
        read_gradient(e, r);
        assert_memory_equal(e->got, first, e->floats * sizeof *first);
    }
    assert_ok(clq_step_apply(e->trainer));
    assert_ok(clq_step_read(e->trainer, &info));
    double squares = 0; /* the norm is that of the exchanged gradient */
    for (size_t i = 0; i < e->floats; i++) squares += (double)first[i] * (double)first[i];
    assert_true(fabs(info.grad_norm - sqrt(squares)) <= 1e-5 * sqrt(squares));
    clq_free(first);
}

static void exchanges_are_the_references(void **state) {
    (void)state;
    static const char *const compressions[] = {"f16", "topk=0.1", "topk=1"};
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++)
        for (size_t k = 0; k < CLQ_COUNT_OF(compressions); k++) {
            exchange e = {0};
            char what[96];
            snprintf(what, sizeof what, "%s, %s", specs[i], compressions[k]);
            begin(&e, specs[i], compressions[k]);
            for (size_t step = 0; step < 4; step++) { /* the first batch has two samples, so some replicas have none */
                const clq_batch batch = batch_of(step + 5);
                exchange_once(&e, &batch, what);
            }
            check_errors(&e, what);
            end(&e);
        }
}

/* ---- whole trainings ---- */

typedef struct run {
    double losses[STEPS];
    size_t count;
    float weights[INPUTS * UNITS];
} run;

static clq_status note(void *context, const clq_step_info *info) {
    run *r = context;
    r->losses[r->count++] = info->loss;
    return CLQ_OK;
}

static run train(const char *spec, const char *compression, size_t bucket_bytes) {
    run r = {.count = 0};
    clq_trainer *trainer = make_trainer(spec, compression, bucket_bytes);
    assert_ok(clq_dataset_seek(data, 0, 0));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = STEPS, .context = &r, .on_step = note}));
    assert_int_equal(r.count, STEPS);
    assert_ok(clq_trainer_get_variable(trainer, 0, r.weights));
    for (unsigned rank = 1; rank < clq_trainer_replicas(trainer); rank++) {
        float other[INPUTS * UNITS];
        assert_ok(clq_strategy_read_variable(trainer->strategy, rank, 0, false, other));
        assert_memory_equal(other, r.weights, sizeof other);
    }
    clq_trainer_destroy(trainer);
    return r;
}

/* 16 bits cost a little accuracy. All pairs together (topk=1) are the gradient. */
static void trainings_are_near_the_plain_one(void **state) {
    (void)state;
    static const struct {
        const char *compression;
        double tolerance;
    } cases[] = {{"f16", 1e-3}, {"topk=1", 1e-6}, {"topk=0.1", 0.5}};
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        const run plain = train(specs[i], "off", SIZE_MAX);
        for (size_t k = 0; k < CLQ_COUNT_OF(cases); k++) {
            /* A bucket size is given, but not used. */
            const run once = train(specs[i], cases[k].compression, 0), again = train(specs[i], cases[k].compression, 1);
            assert_memory_equal(&once, &again, sizeof once);
            for (size_t s = 0; s < STEPS; s++)
                if (!(fabs(once.losses[s] - plain.losses[s]) <= cases[k].tolerance * plain.losses[s]))
                    fail_msg("%s, %s: loss %zu is %.9g and without compression %.9g", specs[i], cases[k].compression, s,
                             once.losses[s], plain.losses[s]);
            assert_true(once.losses[STEPS - 1] < once.losses[0]);
        }
        assert_true(memcmp(&plain.losses[1], train(specs[i], "topk=0.1", 0).losses + 1, sizeof plain.losses[1]) != 0);
    }
}

/* Several batches make one message, also by hand: their gradient lies where that of one batch does. */
static void accumulated_gradients_are_compressed(void **state) {
    (void)state;
    exchange e = {0};
    begin(&e, "pocl:0,pocl:1", "topk=0.1");
    for (size_t step = 0; step < 3; step++) {
        const clq_batch first = batch_of(step), last = batch_of(step + 1);
        assert_ok(clq_step_accumulate(e.trainer, &first));
        exchange_once(&e, &last, "accumulated");
    }
    check_errors(&e, "accumulated");
    end(&e);
}

/* ---- memory, paths, options ---- */

static void what_it_needs_is_told(void **state) {
    (void)state;
    disabled_paths = "sharded update"; /* the sharded update has tables of its own */
    clq_trainer *plain = make_trainer("pocl:0,pocl:1", "off", SIZE_MAX);
    disabled_paths = NULL;
    clq_trainer *half = make_trainer("pocl:0,pocl:1", "f16", 1);
    disabled_paths = APART;
    const size_t arena = clq_weights_arena_bytes(clq_trainer_strategy(half)->replicas[0].weights, CLQ_ARENA_PARAMETERS);
    assert_int_equal(clq_trainer_device_bytes(half), clq_trainer_device_bytes(plain) + 2 * (arena + arena / 2));
    clq_path_info path;
    unsigned off = 0;
    for (size_t i = 0; clq_strategy_path(clq_trainer_strategy(half), i, &path); i++)
        off += path.reason && strstr(path.reason, "compressed") != NULL;
    assert_int_equal(off, 2); /* overlap and the sharded update */
    clq_trainer_destroy(plain);
    clq_trainer_destroy(half);
}

static clq_status create(clq_compression how, clq_strategy_kind kind, const char *spec, bool inference_only) {
    clq_trainer *trainer = NULL;
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.strategy = kind;
    config.inference_only = inference_only;
    config.strategy_options.compression = how;
    assert_ok(clq_devices_select(sys, spec, &devices));
    clq_status status = clq_trainer_create(model, &devices, &config, &trainer);
    clq_trainer_destroy(trainer);
    return status;
}

static void options_are_checked(void **state) {
    (void)state;
    const double fractions[] = {0, -0.5, 1.0001, NAN, INFINITY};
    const clq_compression f16 = {.kind = CLQ_COMPRESSION_F16};
    clq_compression how = {.kind = CLQ_COMPRESSION_TOP_K};
    for (size_t i = 0; i < CLQ_COUNT_OF(fractions); i++) {
        how.fraction = fractions[i];
        assert_fails(CLQ_ERROR_ARGUMENT, "above 0 and at most 1",
                     create(how, CLQ_STRATEGY_MIRRORED, "pocl:0,pocl:1", false));
    }
    how.kind = (clq_compression_kind)(CLQ_COMPRESSION_F16_BETWEEN + 1);
    assert_fails(CLQ_ERROR_ARGUMENT, "none of clq_compression_kind",
                 create(how, CLQ_STRATEGY_AUTO, "pocl:0,pocl:1", false));
    assert_fails(CLQ_ERROR_ARGUMENT, "use strategy mirrored in place of single",
                 create(f16, CLQ_STRATEGY_AUTO, "pocl:0", false));
    assert_ok(create(f16, CLQ_STRATEGY_MIRRORED, "pocl:0", false));
    assert_ok(create(f16, CLQ_STRATEGY_MIRRORED, "pocl:0,pocl:1", true));
    const char *const wrong[] = {"",         "f32",     "topk",     "topk=", "topk=0",
                                 "topk=1.5", "topk=-1", "topk=nan", "f16=1", "topk=0.1x"};
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++)
        assert_fails(CLQ_ERROR_ARGUMENT, "off, f16, f16:between or topk=R", clq_compression_parse(wrong[i], &how));
    assert_ok(clq_compression_parse("topk=0.25", &how));
    assert_true(how.kind == CLQ_COMPRESSION_TOP_K && how.fraction == 0.25);
}

/* The fraction gives the number of elements, rounded up, whatever the fraction's last bits are. */
static void counts_are_exact(void **state) {
    (void)state;
    static const struct {
        double fraction;
        size_t chosen; /* of 403 elements */
    } cases[] = {{1, 403}, {0.1, 41}, {1e-9, 1}, {2.0 / 403, 2}, {7.0 / 403, 7}, {0.5, 202}, {402.5 / 403, 403}};
    assert_int_equal(clq_model_parameter_count(model), 403);
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const clq_compression how = {.kind = CLQ_COMPRESSION_TOP_K, .fraction = cases[i].fraction};
        assert_int_equal(clq_compression_chosen(&how, model), cases[i].chosen);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchanges_are_the_references),
        cmocka_unit_test(trainings_are_near_the_plain_one),
        cmocka_unit_test(what_it_needs_is_told),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(counts_are_exact),
        cmocka_unit_test(accumulated_gradients_are_compressed),
    };
    return cmocka_run_group_tests_name("train/compress", tests, start, finish);
}
