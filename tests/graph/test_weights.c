/* Weights: where variables lie by role, their initial values, and several plans that share weights. */
#include "device/fixture.h"
#include "graph/plan.h"

#include <math.h>

enum { INPUTS = 3, UNITS = 2, CLASSES = 2, SMALL = 4, LARGE = 9, SLOTS = 2 };
enum { KERNEL, STATE, OUT_KERNEL, OUT_BIAS, VARIABLES };

static const clq_loss_problem loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                      .classes = CLASSES,
                                      .from_logits = true,
                                      .weight = 1,
                                      .metric_count = 1,
                                      .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
static const clq_optimizer sgd = {.kind = CLQ_OPTIMIZER_SGD};
static const clq_optimizer adam = {.kind = CLQ_OPTIMIZER_ADAM, .values = {0, 0.9, 0.999, 1e-7}};

/* y = (x kernel + state) out_kernel + out_bias: the first layer's bias is state, and begins with ones. */
static clq_model *make_model(void) {
    clq_model *m;
    CHECK_OK(clq_model_create("stateful", &m));
    clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
    CHECK_OK(clq_model_finish(m, clq_dense(m, x, &(clq_dense_config){.units = CLASSES})));
    m->variables[STATE].role = CLQ_ROLE_STATE;
    m->variables[STATE].initialiser = (clq_initialiser){.kind = CLQ_INITIALISER_CONSTANT, .value = 1};
    return m;
}

static clq_plan_config config_of(clq_mode mode, uint32_t capacity) {
    clq_plan_config config = {
        .mode = mode, .capacity = capacity, .sample_dtype = CLQ_F32, .metric_slots = SLOTS, .fused_launches = true};
    if (mode != CLQ_MODE_PREDICT) config.loss = &loss;
    if (mode == CLQ_MODE_TRAIN) config.update = &sgd;
    return config;
}

static void places_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    clq_model *m = make_model();
    clq_weights *weights;
    CHECK_OK(clq_weights_create(m, device, &adam, &weights));
    static const size_t offsets[VARIABLES] = {1024, 0, 512, 0};
    for (size_t v = 0; v < VARIABLES; v++) assert_int_equal(clq_weights_offset(weights, v), offsets[v]);
    assert_int_equal(clq_weights_arena_bytes(weights, CLQ_ARENA_PARAMETERS), 1536);
    assert_int_equal(clq_weights_arena_bytes(weights, CLQ_ARENA_GRADIENT), 1536);
    assert_int_equal(clq_weights_arena_bytes(weights, CLQ_ARENA_STATE), 512);
    assert_int_equal(clq_buffer_bytes(clq_weights_arena(weights, CLQ_ARENA_STATE)), 512);
    assert_int_equal(clq_weights_optimizer_slots(weights), 2);
    clq_weights_destroy(weights);

    /* 1536 bytes in two equal parts: variables keep their offsets, and optimizer slots have the size of a part. */
    size_t begin, end;
    CHECK_OK(clq_weights_create_holding(m, device, &adam, &(clq_holding){.part = 1, .parts = 2}, &weights));
    for (size_t v = 0; v < VARIABLES; v++) assert_int_equal(clq_weights_offset(weights, v), offsets[v]);
    assert_int_equal(clq_weights_arena_bytes(weights, CLQ_ARENA_PARAMETERS), 2048);
    assert_int_equal(clq_buffer_bytes(clq_weights_arena(weights, CLQ_ARENA_GRADIENT)), 2048);
    assert_int_equal(clq_buffer_bytes(clq_weights_optimizer_slot(weights, 1)), 1024);
    clq_weights_part(weights, &begin, &end);
    assert_int_equal(begin, 1024);
    assert_int_equal(end, 2048);
    clq_weights_destroy(weights);

    m->variables[STATE].role = CLQ_ROLE_TRAINABLE;
    CHECK_OK(clq_weights_create(m, device, NULL, &weights));
    assert_int_equal(clq_weights_arena_bytes(weights, CLQ_ARENA_STATE), 0);
    assert_null(clq_weights_arena(weights, CLQ_ARENA_STATE));
    assert_null(clq_weights_arena(weights, CLQ_ARENA_GRADIENT));
    clq_weights_destroy(weights);
    clq_weights_destroy(NULL);
    clq_model_destroy(m);
}

/* Offsets follow from data types, also from those that no operation takes. */
static void sizes_follow_types_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    enum { WIDE = 300 };
    clq_model *m;
    clq_weights *weights;
    clq_plan *plan = NULL;
    CHECK_OK(clq_model_create("typed", &m));
    CHECK_OK(clq_model_finish(m, clq_dense(m, clq_input(m, CLQ_SHAPE(1)), &(clq_dense_config){.units = WIDE})));
    static const struct {
        clq_dtype dtype;
        size_t kernel_at, arena;
    } cases[] = {{CLQ_F32, 1536, 3072}, {CLQ_F16, 1024, 2048}, {CLQ_F64, 2560, 5120}, {CLQ_U8, 512, 1024}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        for (size_t v = 0; v < 2; v++) m->variables[v].dtype = cases[i].dtype;
        CHECK_OK(clq_weights_create(m, device, &sgd, &weights));
        assert_int_equal(clq_weights_offset(weights, 0), cases[i].kernel_at); /* behind the bias */
        assert_int_equal(clq_weights_arena_bytes(weights, CLQ_ARENA_PARAMETERS), cases[i].arena);
        assert_int_equal(clq_weights_dtype(weights, CLQ_ARENA_PARAMETERS), cases[i].dtype);
        assert_int_equal(clq_weights_dtype(weights, CLQ_ARENA_GRADIENT), cases[i].dtype);
        assert_int_equal(clq_weights_dtype(weights, CLQ_ARENA_STATE), CLQ_F32);
        const clq_plan_config config = config_of(CLQ_MODE_PREDICT, SMALL);
        if (cases[i].dtype == CLQ_F32) {
            CHECK_OK(clq_plan_create(weights, &config, &plan));
            clq_plan_destroy(plan);
            plan = NULL;
        } else {
            assert_int_equal(clq_plan_create(weights, &config, &plan), CLQ_ERROR_UNSUPPORTED);
            CHECK_DETAIL("which operation dense does not take");
            CHECK_DETAIL(clq_dtype_name(cases[i].dtype));
        }
        assert_null(plan);
        clq_weights_destroy(weights);
    }
    m->variables[0].dtype = CLQ_F16; /* and the bias is of bytes */
    weights = NULL;
    assert_int_equal(clq_weights_create(m, device, &sgd, &weights), CLQ_ERROR_UNSUPPORTED);
    CHECK_DETAIL("'dense/kernel' is f16 and 'dense/bias' is u8");
    assert_null(weights);
    m->variables[1].role = CLQ_ROLE_STATE; /* state has an arena of its own */
    CHECK_OK(clq_weights_create(m, device, &sgd, &weights));
    assert_int_equal(clq_weights_dtype(weights, CLQ_ARENA_GRADIENT), CLQ_F16);
    assert_int_equal(clq_weights_dtype(weights, CLQ_ARENA_STATE), CLQ_U8);
    clq_weights_destroy(weights);
    clq_model_destroy(m);
}

static void variables_begin_as_they_say(void **state) {
    (void)state;
    clq_model *m = make_model();
    float values[INPUTS * UNITS], again[INPUTS * UNITS], other[INPUTS * UNITS];
    clq_variable_initialise(&m->variables[KERNEL], 3, KERNEL, values);
    clq_variable_initialise(&m->variables[KERNEL], 3, KERNEL, again);
    clq_variable_initialise(&m->variables[KERNEL], 3, OUT_KERNEL, other);
    assert_memory_equal(values, again, sizeof values);
    assert_memory_not_equal(values, other, sizeof values);
    for (size_t i = 0; i < CLQ_COUNT_OF(values); i++) /* sqrt(6 / (3 + 2)) */
        assert_true(values[i] != 0 && values[i] > -1.0955f && values[i] < 1.0955f);
    clq_variable_initialise(&m->variables[STATE], 3, STATE, values);
    clq_variable_initialise(&m->variables[OUT_BIAS], 3, OUT_BIAS, values + UNITS);
    assert_true(values[0] == 1 && values[1] == 1 && values[2] == 0 && values[3] == 0);
    assert_true(m->variables[KERNEL].decay && !m->variables[OUT_BIAS].decay);
    clq_model_destroy(m);
}

/* ---- several plans ---- */

typedef struct values {
    float kernel[INPUTS * UNITS], state[UNITS], out_kernel[UNITS * CLASSES], out_bias[CLASSES];
} values;
static const values first = {{0.5f, -1, 0.25f, 2, 1, 0.125f}, {3, -2}, {1, -0.5f, 0.75f, 0.25f}, {0.5f, -0.25f}};

static void move(clq_queue *queue, clq_weights *weights, values *v, bool write) {
    float *const hosts[VARIABLES] = {v->kernel, v->state, v->out_kernel, v->out_bias};
    const size_t bytes[VARIABLES] = {sizeof v->kernel, sizeof v->state, sizeof v->out_kernel, sizeof v->out_bias};
    for (size_t i = 0; i < VARIABLES; i++) {
        clq_buffer *arena = clq_weights_arena(weights, i == STATE ? CLQ_ARENA_STATE : CLQ_ARENA_PARAMETERS);
        const size_t at = clq_weights_offset(weights, i);
        CHECK_OK(write ? clq_queue_write(queue, arena, at, hosts[i], bytes[i], true)
                       : clq_queue_read(queue, arena, at, hosts[i], bytes[i], true));
    }
}

static void reference(const values *v, const float *x, double *y) {
    for (size_t c = 0; c < CLASSES; c++) y[c] = (double)v->out_bias[c];
    for (size_t u = 0; u < UNITS; u++) {
        double h = (double)v->state[u];
        for (size_t i = 0; i < INPUTS; i++) h += (double)x[i] * (double)v->kernel[i * UNITS + u];
        for (size_t c = 0; c < CLASSES; c++) y[c] += h * (double)v->out_kernel[u * CLASSES + c];
    }
}

static void check_outputs(clq_queue *queue, clq_plan *plan, const values *v, uint32_t count, const float *x) {
    float got[LARGE * CLASSES];
    clq_plan_set_params(plan, &(clq_step_params){.count = count});
    CHECK_OK(clq_queue_write(queue, clq_plan_samples(plan), 0, x, count * INPUTS * sizeof *x, true));
    CHECK_OK(clq_plan_run(plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_FORWARD));
    CHECK_OK(clq_queue_read(queue, clq_plan_output(plan, 0), 0, got, count * CLASSES * sizeof *got, true));
    for (uint32_t i = 0; i < count; i++) {
        double want[CLASSES];
        reference(v, x + (size_t)i * INPUTS, want);
        for (size_t c = 0; c < CLASSES; c++) {
            double error = (double)got[i * CLASSES + c] - want[c];
            assert_true(error < 1e-5 && error > -1e-5);
        }
    }
}

/* The optimizer must not touch state. Every plan must see the updated parameters, also after arenas changed places. */
static void sharing_on(clq_device *device, clq_queue *queue) {
    static const int32_t labels[SMALL] = {0, 1, 1, 0};
    float x[LARGE * INPUTS];
    for (size_t i = 0; i < CLQ_COUNT_OF(x); i++) x[i] = (float)(i * 7 % 11) / 4 - 1;
    clq_model *m = make_model();
    clq_weights *weights;
    clq_plan *train, *small, *large;
    values now = first;
    CHECK_OK(clq_weights_create(m, device, &sgd, &weights));
    const clq_plan_config training = config_of(CLQ_MODE_TRAIN, SMALL);
    CHECK_OK(clq_plan_create(weights, &training, &train));
    clq_plan_config config = config_of(CLQ_MODE_PREDICT, LARGE);
    CHECK_OK(clq_plan_create(weights, &config, &large));
    config.capacity = SMALL;
    config.beside = train;
    CHECK_OK(clq_plan_create(weights, &config, &small));
    assert_ptr_equal(clq_plan_samples(small), clq_plan_samples(train)); /* of one size */
    assert_ptr_not_equal(clq_plan_samples(large), clq_plan_samples(train));
    move(queue, weights, &now, true);
    for (int step = 0; step < 3; step++) {
        check_outputs(queue, small, &now, SMALL, x);
        check_outputs(queue, large, &now, LARGE, x);
        clq_plan_set_params(train, &(clq_step_params){.count = SMALL, .scale = 1.0f / SMALL, .rate = 0.5f});
        CHECK_OK(clq_queue_write(queue, clq_plan_samples(train), 0, x, SMALL * INPUTS * sizeof *x, true));
        CHECK_OK(clq_queue_write(queue, clq_plan_labels(train, 0), 0, labels, sizeof labels, true));
        CHECK_OK(clq_plan_run(train, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_UPDATE));
        const values before = now;
        move(queue, weights, &now, false);
        assert_memory_equal(now.state, first.state, sizeof now.state);
        assert_memory_not_equal(now.kernel, before.kernel, sizeof now.kernel);
        assert_memory_not_equal(now.out_bias, before.out_bias, sizeof now.out_bias);
        clq_weights_turn(weights);
        move(queue, weights, &now, true);
    }
    clq_bucket *buckets;
    size_t count;
    CHECK_OK(clq_plan_buckets(train, 1, &buckets, &count)); /* one per layer, without the state */
    assert_int_equal(count, 2);
    assert_int_equal(buckets[0].end, 1024);
    assert_int_equal(buckets[1].end, 1536);
    clq_free(buckets);
    clq_plan_destroy(small);
    clq_plan_destroy(large);
    clq_plan_destroy(train);
    clq_weights_destroy(weights);
    clq_model_destroy(m);
}

/* ---- gradients of several batches ---- */

static void gradient_of(clq_plan *plan, clq_queue *queue, const float *x, const int32_t *labels, uint32_t count,
                        float scale, float sum_factor) {
    clq_plan_set_params(plan, &(clq_step_params){.count = count, .scale = scale, .sum_factor = sum_factor});
    CHECK_OK(clq_queue_write(queue, clq_plan_samples(plan), 0, x, count * INPUTS * sizeof *x, true));
    CHECK_OK(clq_queue_write(queue, clq_plan_labels(plan, 0), 0, labels, count * sizeof *labels, true));
    CHECK_OK(clq_plan_run(plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_BACKWARD));
}

/* Three batches, the last of one sample, must accumulate the gradient of one batch with all their samples, whatever the
 * gradients' memory had before. Also after parameters and gradient swapped places, and after they swapped back. */
static void accumulating_on(clq_device *device, clq_queue *queue) {
    static const int32_t labels[LARGE] = {0, 1, 1, 0, 1, 0, 0, 1, 1};
    enum { FLOATS = 1536 / sizeof(float) };
    float x[LARGE * INPUTS], got[FLOATS], want[FLOATS];
    for (size_t i = 0; i < CLQ_COUNT_OF(x); i++) x[i] = (float)(i * 7 % 11) / 4 - 1;
    clq_model *m = make_model();
    clq_weights *weights, *other;
    clq_plan *small, *large;
    values now = first;
    clq_plan_config config = config_of(CLQ_MODE_TRAIN, SMALL);
    config.accumulates = true;
    CHECK_OK(clq_weights_create(m, device, &sgd, &weights));
    CHECK_OK(clq_plan_create(weights, &config, &small));
    config.accumulates = false;
    config.capacity = LARGE;
    CHECK_OK(clq_weights_create(m, device, &sgd, &other));
    CHECK_OK(clq_plan_create(other, &config, &large));
    move(queue, other, &now, true);
    gradient_of(large, queue, x, labels, LARGE, 1.0f / LARGE, 0);
    CHECK_OK(clq_queue_read(queue, clq_weights_arena(other, CLQ_ARENA_GRADIENT), 0, want, sizeof want, true));
    for (int turn = 0; turn < 3; turn++) {
        move(queue, weights, &now, true);
        for (uint32_t at = 0; at < 2 * SMALL; at += SMALL)
            gradient_of(small, queue, x + (size_t)at * INPUTS, labels + at, SMALL, 1.0f / SMALL, at > 0);
        gradient_of(small, queue, x + (size_t)2 * SMALL * INPUTS, labels + 2 * SMALL, 1, 1.0f / SMALL,
                    (float)SMALL / LARGE);
        CHECK_OK(clq_queue_read(queue, clq_weights_arena(weights, CLQ_ARENA_GRADIENT), 0, got, sizeof got, true));
        for (size_t i = 0; i < FLOATS; i++) assert_true(fabsf(got[i] - want[i]) <= 1e-6f);
        clq_weights_turn(weights);
    }
    assert_true(fabsf(want[0]) > 0.01f); /* out_bias */
    clq_plan_destroy(small);
    clq_plan_destroy(large);
    clq_weights_destroy(weights);
    clq_weights_destroy(other);
    clq_model_destroy(m);
}

static void refusing_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    clq_model *m = make_model();
    const clq_optimizer *const made_for[] = {NULL, &adam};
    for (size_t i = 0; i < CLQ_COUNT_OF(made_for); i++) {
        clq_weights *weights;
        clq_plan *plan = NULL;
        const clq_plan_config config = config_of(CLQ_MODE_TRAIN, SMALL);
        CHECK_OK(clq_weights_create(m, device, made_for[i], &weights));
        CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_plan_create(weights, &config, &plan));
        CHECK_DETAIL("made for its update");
        assert_null(plan);
        clq_weights_destroy(weights);
    }
    clq_model_destroy(m);
}

static void variables_have_places(void **state) {
    (void)state;
    on_each_driver(places_on);
}
static void sizes_follow_types(void **state) {
    (void)state;
    on_each_driver(sizes_follow_types_on);
}
static void plans_share_weights(void **state) {
    (void)state;
    on_each_driver(sharing_on);
}
static void batches_have_one_gradient(void **state) {
    (void)state;
    on_each_driver(accumulating_on);
}
static void other_weights_are_refused(void **state) {
    (void)state;
    on_each_driver(refusing_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_have_places),       cmocka_unit_test(sizes_follow_types),
        cmocka_unit_test(variables_begin_as_they_say), cmocka_unit_test(plans_share_weights),
        cmocka_unit_test(batches_have_one_gradient),   cmocka_unit_test(other_weights_are_refused)};
    return cmocka_run_group_tests_name("graph/weights", tests, NULL, NULL);
}
