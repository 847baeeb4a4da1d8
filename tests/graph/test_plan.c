/* Plans of whole models on every driver: gradients against finite differences in plain C, counts below the capacity,
 * the arenas' layout, updates, inference, refusals, and lack of memory. Where values lie: test_placement.c. */
#include "two_models.h"

#include <math.h>

static const subject *const subjects[] = {&conv_subject, &mlp_subject};

static double largest(const double *x, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

/* |got - want| <= relative * the largest of want */
static void assert_close(const bench *b, const char *what, const float *got, const double *want, size_t n,
                         double relative) {
    double most = relative * largest(want, n);
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= most))
            fail_msg("%s, %s: %s[%zu of %zu] is %.9g, should be %.9g (+- %.2g)", clq_device_label(b->device),
                     b->s->name, what, i, n, (double)got[i], want[i], most);
}

static void assert_bytes(const bench *b, const clq_buffer *buffer, size_t from, size_t to, int byte) {
    unsigned char *content = clq_alloc(to - from, 1);
    assert_non_null(content);
    if (from < to) CHECK_OK(clq_queue_read(b->queue, buffer, from, content, to - from, true));
    for (size_t i = 0; i < to - from; i++)
        if (content[i] != byte) fail_msg("%s: byte %zu was written", clq_device_label(b->device), from + i);
    clq_free(content);
}

/* ---- gradients ---- */

static void assert_metrics(const bench *b, const data *d, uint32_t count, uint32_t slot) {
    float got[2];
    read_floats(b, clq_plan_metrics(b->plan), slot * sizeof got, got, 2);
    double want = loss_of(d, d->weights, count);
    assert_close(b, "loss", got, &want, 1, 1e-6); /* about ten float32 roundings */
    assert_int_equal((size_t)got[1], right_answers(d, count));
}

/* Central differences with h = 1e-5 in double are accurate to about 1e-10 here (h^2 and 1e-16 / h, losses of about 10).
 * So the tolerance is for float32: sums of at most 24 * 7 terms after a few layers. 2e-6 of a variable's largest
 * gradient is 34 units in its last place, and the worst error seen is a ninth of that. A row, tap or neighbour that is
 * left out or taken twice changes 1e-2. */
enum { DIFFERENCES_COUNT = 7 };
static void check_gradients(const bench *b, const data *d) {
    const double h = 1e-5, scale = 0.0625; /* as in a global batch of 16 */
    float gradient[WEIGHTS_MOST], norms[VARIABLES_MOST];
    double differences[WEIGHTS_MOST], w[WEIGHTS_MOST];
    put_weights(b, d);
    put_batch(b, d, DIFFERENCES_COUNT);
    run_segments(b, DIFFERENCES_COUNT, (float)scale, 2);
    read_arena(b, clq_plan_gradient(b->plan), gradient);
    read_floats(b, clq_plan_norms(b->plan), 0, norms, b->s->variables);
    assert_metrics(b, d, DIFFERENCES_COUNT, 2);
    memcpy(w, d->weights, sizeof w);
    for (size_t i = 0; i < b->s->weights; i++) {
        w[i] = d->weights[i] + h;
        double above = loss_of(d, w, DIFFERENCES_COUNT);
        w[i] = d->weights[i] - h;
        differences[i] = scale * (above - loss_of(d, w, DIFFERENCES_COUNT)) / (2 * h);
        w[i] = d->weights[i];
    }
    for (size_t v = 0, at = 0; v < b->s->variables; at += b->s->elements[v++]) {
        clq_variable_info info;
        CHECK_OK(clq_model_variable(b->model, v, &info));
        assert_int_equal(info.elements, b->s->elements[v]);
        assert_true(largest(differences + at, info.elements) > 1e-5); /* there is something to compare */
        assert_close(b, info.name, gradient + at, differences + at, info.elements, 2e-6);
        double norm = ref_square_sum(info.elements, gradient + at);
        assert_close(b, "norm", norms + v, &norm, 1, 1e-6);
    }
}

static void gradients_on(clq_device *device, clq_queue *queue) {
    const subject *const all[] = {&conv_subject, &mlp_subject, &odd_subject};
    for (size_t i = 0; i < (clq_device_runs_in_caller(device) ? 3 : 2); i++) { /* for the third, one driver is enough */
        data d = make_data(all[i]);
        bench b = open_bench(device, queue, all[i], training_of(all[i], COUNT_MOST));
        blank(&b, 0xFF); /* NaN, unless samples are bytes */
        check_gradients(&b, &d);
        close_bench(&b);
    }
}

static void gradients_match_finite_differences(void **state) {
    (void)state;
    on_each_device(gradients_on);
}

/* ---- the count ---- */

typedef struct outcome {
    float gradient[WEIGHTS_MOST], metrics[2], norms[VARIABLES_MOST];
} outcome;

static outcome run_count(const bench *b, uint32_t count) {
    outcome o = {.metrics = {0}};
    run_segments(b, count, 0.125f, 1);
    read_arena(b, clq_plan_gradient(b->plan), o.gradient);
    read_floats(b, clq_plan_metrics(b->plan), sizeof o.metrics, o.metrics, 2);
    read_floats(b, clq_plan_norms(b->plan), 0, o.norms, b->s->variables);
    return o;
}

/* Rows beyond the count must not be read (NaN and other examples there give the same bits) and not be written. */
static outcome check_rows_beyond(const bench *b, const data *d, uint32_t count) {
    const subject *s = b->s;
    size_t sample = s->sample * clq_dtype_bytes(s->sample_dtype);
    size_t label = clq_buffer_bytes(clq_plan_labels(b->plan, 0)) / b->capacity;
    blank(b, 0x11);
    put_batch(b, d, b->capacity);
    outcome among_others = run_count(b, count);
    blank(b, 0xFF);
    put_batch(b, d, count);
    outcome alone = run_count(b, count);
    assert_memory_equal(&alone, &among_others, sizeof alone);
    assert_bytes(b, clq_plan_metrics(b->plan), 0, 8, 0xFF);
    assert_bytes(b, clq_plan_metrics(b->plan), 16, 24, 0xFF);
    assert_bytes(b, clq_plan_samples(b->plan), count * sample, b->capacity * sample, 0xFF);
    assert_bytes(b, clq_plan_labels(b->plan, 0), count * label, b->capacity * label, 0xFF);
    return alone;
}

static void assert_nothing(const outcome *o) {
    for (size_t i = 0; i < WEIGHTS_MOST; i++) assert_true(o->gradient[i] == 0);
    for (size_t i = 0; i < VARIABLES_MOST; i++) assert_true(o->norms[i] == 0);
    assert_true(o->metrics[0] == 0 && o->metrics[1] == 0);
}

static void counts_on(clq_device *device, clq_queue *queue) {
    enum { COUNT = 8, FEW = 5 }; /* a whole tile of rows, and a part of one */
    for (size_t i = 0; i < CLQ_COUNT_OF(subjects); i++) {
        const subject *s = subjects[i];
        data d = make_data(s);
        bench roomy = open_bench(device, queue, s, training_of(s, COUNT_MOST)),
              exact = open_bench(device, queue, s, training_of(s, COUNT));
        put_weights(&roomy, &d);
        put_weights(&exact, &d);
        outcome in_roomy = check_rows_beyond(&roomy, &d, COUNT);
        put_batch(&exact, &d, COUNT);
        outcome in_exact = run_count(&exact, COUNT);
        double want[WEIGHTS_MOST];
        for (size_t w = 0; w < s->weights; w++) want[w] = (double)in_exact.gradient[w];
        for (size_t v = 0, at = 0; v < s->variables; at += s->elements[v++]) /* capacity may split sums: rounding */
            assert_close(&roomy, "gradient", in_roomy.gradient + at, want + at, s->elements[v], 1e-6);
        assert_metrics(&roomy, &d, COUNT, 1);
        assert_metrics(&exact, &d, COUNT, 1);

        outcome few = check_rows_beyond(&roomy, &d, FEW);
        assert_metrics(&roomy, &d, FEW, 1);
        assert_true(memcmp(few.gradient, in_roomy.gradient, sizeof few.gradient) != 0);
        outcome nothing = check_rows_beyond(&roomy, &d, 0);
        assert_nothing(&nothing);
        clq_plan_set_params(roomy.plan, &(clq_step_params){.count = COUNT_MOST + 1, .scale = 1});
        CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_plan_run(roomy.plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_FORWARD));
        CHECK_DETAIL("0 to 9 examples is run with 10");
        outcome full = check_rows_beyond(&roomy, &d, COUNT_MOST); /* nothing remains of that */
        assert_metrics(&roomy, &d, COUNT_MOST, 1);
        assert_true(memcmp(full.gradient, in_roomy.gradient, sizeof full.gradient) != 0);
        close_bench(&exact);
        close_bench(&roomy);
    }
}

static void count_is_a_number(void **state) {
    (void)state;
    on_each_device(counts_on);
}

/* ---- arenas ---- */

/* Runs backward launch by launch. The last launch that changes a variable's gradient completes the gradient. */
static void check_finishing_order(const bench *b) {
    size_t first, end, finished[VARIABLES_MOST] = {0};
    float before[WEIGHTS_MOST], after[WEIGHTS_MOST];
    read_arena(b, clq_plan_gradient(b->plan), before);
    clq_plan_segment_range(b->plan, CLQ_SEGMENT_BACKWARD, &first, &end);
    for (size_t launch = first; launch < end; launch++) {
        CHECK_OK(clq_list_run(b->plan->list, b->queue, launch, launch + 1));
        CHECK_OK(clq_queue_finish(b->queue));
        read_arena(b, clq_plan_gradient(b->plan), after);
        for (size_t v = 0, at = 0; v < b->s->variables; at += b->s->elements[v++])
            if (memcmp(before + at, after + at, b->s->elements[v] * sizeof(float)) != 0) finished[v] = launch + 1;
        memcpy(before, after, sizeof before);
    }
    for (size_t v = 0; v < b->s->variables; v++) {
        assert_true(finished[v] > 0);
        for (size_t u = 0; u < b->s->variables; u++)
            if (b->s->offsets[v] < b->s->offsets[u]) assert_true(finished[v] <= finished[u]);
    }
}

static void check_layout(const bench *b) {
    assert_int_equal(clq_plan_arena_bytes(b->plan), b->s->arena_bytes);
    assert_int_equal(clq_buffer_bytes(clq_plan_parameters(b->plan)), b->s->arena_bytes);
    assert_int_equal(clq_model_variable_count(b->model), b->s->variables);
    for (size_t v = 0; v < b->s->variables; v++) {
        assert_int_equal(clq_plan_variable_offset(b->plan, v), b->s->offsets[v]);
        assert_int_equal(b->s->offsets[v] % CLQ_VARIABLE_ALIGN, 0);
    }
}

static void layout_on(clq_device *device, clq_queue *queue) {
    for (size_t i = 0; i < CLQ_COUNT_OF(subjects); i++) {
        data d = make_data(subjects[i]);
        bench training = open_bench(device, queue, subjects[i], training_of(subjects[i], COUNT_MOST));
        bench inference = open_bench(device, queue, subjects[i], inference_of(subjects[i], 8));
        check_layout(&training);
        check_layout(&inference);
        assert_int_equal(clq_buffer_bytes(clq_plan_gradient(training.plan)), subjects[i]->arena_bytes);
        blank(&training, 0xFF);
        put_weights(&training, &d);
        put_batch(&training, &d, 3);
        clq_plan_set_params(training.plan, &(clq_step_params){.count = 3, .scale = 1});
        CHECK_OK(clq_plan_run(training.plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_FORWARD));
        CHECK_OK(clq_plan_run(training.plan, queue, CLQ_SEGMENT_LOSS, CLQ_SEGMENT_LOSS));
        check_finishing_order(&training);
        close_bench(&inference);
        close_bench(&training);
    }
}

static void arenas_have_one_layout(void **state) {
    (void)state;
    on_each_device(layout_on);
}

/* All bytes outside the variables must be zeros. */
static void assert_gaps(const bench *b, const clq_buffer *arena) {
    for (size_t v = 0; v < b->s->variables; v++) {
        size_t end = b->s->offsets[v] + b->s->elements[v] * sizeof(float), next = b->s->arena_bytes;
        for (size_t u = 0; u < b->s->variables; u++)
            if (b->s->offsets[u] >= end) next = CLQ_MIN(next, b->s->offsets[u]);
        assert_true(end < next);
        assert_bytes(b, arena, end, next, 0);
    }
}

static void check_updates(const bench *b, const data *d, const clq_optimizer *update) {
    static double w[WEIGHTS_MOST], g[WEIGHTS_MOST], m[WEIGHTS_MOST], v[WEIGHTS_MOST];
    float got[WEIGHTS_MOST];
    memcpy(w, d->weights, sizeof w);
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    put_weights(b, d);
    put_batch(b, d, 4);
    for (int step = 1; step <= 3; step++) {
        double rate = 0.05 * step;
        run_segments(b, 4, 0.25f, 0);
        read_arena(b, clq_plan_gradient(b->plan), got);
        for (size_t i = 0; i < b->s->weights; i++) g[i] = (double)got[i];
        clq_plan_set_params(b->plan, &(clq_step_params){.rate = (float)rate});
        CHECK_OK(clq_plan_run(b->plan, b->queue, CLQ_SEGMENT_UPDATE, CLQ_SEGMENT_UPDATE));
        CHECK_OK(clq_queue_finish(b->queue));
        if (update->kind == CLQ_OPTIMIZER_ADAM)
            ref_adam(b->s->weights, rate, update->values[1], update->values[2], update->values[3], w, g, m, v);
        else
            ref_sgd(b->s->weights, rate, update->values[1], update->values[2] != 0, w, g, v);
        read_arena(b, clq_plan_parameters(b->plan), got);
        assert_close(b, "weights", got, w, b->s->weights, 1e-6); /* a few roundings per step */
        assert_gaps(b, clq_plan_parameters(b->plan));
        assert_gaps(b, clq_plan_gradient(b->plan));
        for (unsigned i = 0; i < b->plan->weights->optimizer_slots; i++) assert_gaps(b, b->plan->weights->optimizer[i]);
    }
}

static void updates_on(clq_device *device, clq_queue *queue) {
    static const clq_optimizer updates[] = {
        {.kind = CLQ_OPTIMIZER_SGD},
        {CLQ_OPTIMIZER_SGD, {0.01, 0.9, 1}},
        {CLQ_OPTIMIZER_ADAM, {0.001, 0.9, 0.999, 1e-7}},
    };
    static const unsigned slots[] = {0, 1, 2};
    data d = make_data(&mlp_subject);
    for (size_t i = 0; i < CLQ_COUNT_OF(updates); i++) {
        clq_plan_config config = training_of(&mlp_subject, COUNT_MOST);
        config.update = &updates[i];
        bench b = open_bench(device, queue, &mlp_subject, config);
        assert_int_equal(b.plan->weights->optimizer_slots, slots[i]);
        check_updates(&b, &d, &updates[i]);
        close_bench(&b);
    }
}

static void updates_follow_keras_and_keep_gaps(void **state) {
    (void)state;
    on_each_device(updates_on);
}

/* A plan that is updated elsewhere gives the same bits of gradient, without an update, optimizer state or norms. */
static void elsewhere_on(clq_device *device, clq_queue *queue) {
    static const clq_optimizer adam = {CLQ_OPTIMIZER_ADAM, {0.001, 0.9, 0.999, 1e-7}};
    data d = make_data(&mlp_subject);
    float want[WEIGHTS_MOST], got[WEIGHTS_MOST];
    for (unsigned elsewhere = 0; elsewhere < 2; elsewhere++) {
        clq_plan_config config = training_of(&mlp_subject, COUNT_MOST);
        config.update = &adam;
        config.updated_elsewhere = elsewhere;
        bench b = open_bench(device, queue, &mlp_subject, config);
        size_t first, end;
        put_weights(&b, &d);
        put_batch(&b, &d, 4);
        run_segments(&b, 4, 0.25f, 0);
        read_arena(&b, clq_plan_gradient(b.plan), elsewhere ? got : want);
        clq_plan_segment_range(b.plan, CLQ_SEGMENT_UPDATE, &first, &end);
        assert_int_equal(end - first, elsewhere ? 0 : 1);
        assert_int_equal(clq_plan_norms(b.plan) == NULL, elsewhere);
        assert_int_equal(clq_weights_optimizer_slots(clq_plan_weights(b.plan)), elsewhere ? 0 : 2);
        close_bench(&b);
    }
    assert_memory_equal(got, want, mlp_subject.weights * sizeof *got);
}

static void updates_can_be_made_elsewhere(void **state) {
    (void)state;
    on_each_device(elsewhere_on);
}

/* ---- inference ---- */

static void check_outputs(const bench *inference, const bench *training, const bench *evaluation, const data *d) {
    enum { COUNT = 7 };
    const subject *s = inference->s;
    bool softmax = !s->loss.from_logits; /* the model's own */
    double logits[COUNT_MOST * CLASSES_MOST], want[COUNT_MOST * CLASSES_MOST];
    float got[COUNT_MOST * CLASSES_MOST];
    s->logits(d->weights, COUNT, d->x, logits);
    ref_activation(softmax ? CLQ_ACTIVATION_SOFTMAX : CLQ_ACTIVATION_LINEAR, COUNT, s->classes, logits, want);
    const bench *const all[] = {inference, training, evaluation};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) {
        blank(all[i], 0xFF);
        put_weights(all[i], d);
        put_batch(all[i], d, COUNT);
        run_segments(all[i], COUNT, 1.0f, 0);
        if (i > 0) assert_metrics(all[i], d, COUNT, 0);
    }
    size_t outputs = COUNT * s->classes;
    read_floats(inference, clq_plan_output(inference->plan, 0), 0, got, outputs);
    assert_close(inference, "output", got, want, outputs, 1e-6);
    assert_bytes(inference, clq_plan_output(inference->plan, 0), outputs * sizeof(float),
                 COUNT_MOST * s->classes * sizeof(float), 0xFF);

    /* The inference plan's outputs must give the training plan's loss. */
    double loss = 0;
    for (size_t i = 0; i < outputs; i++) want[i] = (double)got[i];
    for (size_t e = 0; e < COUNT; e++)
        loss += ref_cross_entropy(&s->loss, want + e * s->classes, d->targets + e * s->classes);
    read_floats(training, clq_plan_metrics(training->plan), 0, got, 1);
    assert_close(training, "loss from outputs", got, &loss, 1, 2e-6);
}

static void assert_segments(const bench *b, bool loss, bool update) {
    const bool wanted[CLQ_SEGMENT_COUNT] = {true, loss, update, update, update};
    size_t first, end, last = 0;
    for (int segment = 0; segment < CLQ_SEGMENT_COUNT; segment++) {
        clq_plan_segment_range(b->plan, (clq_segment)segment, &first, &end);
        assert_int_equal(first, last);
        assert_int_equal(end > first, wanted[segment]);
        last = end;
    }
    assert_int_equal(last, clq_list_launch_count(clq_plan_list(b->plan)));
    assert_int_equal(clq_plan_output(b->plan, 0) != NULL, !loss);
    assert_int_equal(clq_plan_labels(b->plan, 0) != NULL, loss);
    assert_int_equal(clq_plan_metrics(b->plan) != NULL, loss);
    assert_int_equal(clq_plan_gradient(b->plan) != NULL, update);
    assert_int_equal(clq_plan_norms(b->plan) != NULL, update);
}

static void inference_on(clq_device *device, clq_queue *queue) {
    for (size_t i = 0; i < CLQ_COUNT_OF(subjects); i++) {
        data d = make_data(subjects[i]);
        clq_plan_config evaluating = training_of(subjects[i], COUNT_MOST);
        evaluating.update = NULL;
        bench inference = open_bench(device, queue, subjects[i], inference_of(subjects[i], COUNT_MOST));
        bench training = open_bench(device, queue, subjects[i], training_of(subjects[i], COUNT_MOST));
        bench evaluation = open_bench(device, queue, subjects[i], evaluating);
        assert_segments(&inference, false, false);
        assert_segments(&training, true, true);
        assert_segments(&evaluation, true, false);
        check_outputs(&inference, &training, &evaluation, &d);
        close_bench(&inference);
        close_bench(&training);
        close_bench(&evaluation);
    }
}

static void inference_agrees_with_training(void **state) {
    (void)state;
    on_each_device(inference_on);
}

/* ---- which launch makes the output if no product does ---- */

static clq_tensor only_input(clq_model *m, clq_tensor x) { return (void)m, x; }
static clq_tensor only_reshapes(clq_model *m, clq_tensor x) {
    return clq_reshape(m, clq_flatten(m, x, NULL), CLQ_SHAPE(2, 2), NULL);
}
static clq_tensor relu(clq_model *m, clq_tensor x) {
    return clq_flatten(m, clq_activate(m, x, CLQ_ACTIVATION_RELU, NULL), NULL);
}
static clq_tensor linear(clq_model *m, clq_tensor x) { return clq_activate(m, x, CLQ_ACTIVATION_LINEAR, NULL); }
static clq_tensor dense(clq_model *m, clq_tensor x) {
    return clq_dense(m, x, &(clq_dense_config){.units = 4, .no_bias = true});
}
static clq_tensor dense_linear(clq_model *m, clq_tensor x) {
    return clq_activate(m, dense(m, x), CLQ_ACTIVATION_LINEAR, NULL);
}
static clq_tensor dense_relu_reshaped(clq_model *m, clq_tensor x) { return relu(m, dense(m, x)); }
static clq_tensor pooled(clq_model *m, clq_tensor x) {
    return clq_max_pool2d(m, clq_reshape(m, x, CLQ_SHAPE(2, 2, 1), NULL),
                          &(clq_pool_config){.size = {2, 2}, .strides = {1, 1}, .padding = CLQ_PADDING_SAME});
}

/* Samples are {-1, 2, 0.5, -3} or the bytes {0, 51, 255, 102}; the dense kernel is {2, 4, 6, 8} on its diagonal. */
static const struct {
    clq_tensor (*build)(clq_model *m, clq_tensor x);
    clq_dtype dtype;
    float want[4];
} makers[] = {
    {only_input, CLQ_F32, {-1, 2, 0.5f, -3}},
    {only_input, CLQ_U8, {0, 0.2f, 1, 0.4f}},
    {only_reshapes, CLQ_F32, {-1, 2, 0.5f, -3}},
    {only_reshapes, CLQ_U8, {0, 0.2f, 1, 0.4f}},
    {relu, CLQ_F32, {0, 2, 0.5f, 0}},
    {linear, CLQ_F32, {-1, 2, 0.5f, -3}},
    {dense_linear, CLQ_F32, {-2, 8, 3, -24}},
    {dense_relu_reshaped, CLQ_F32, {0, 8, 3, 0}},
    {pooled, CLQ_F32, {2, 2, 0.5f, -3}},
};

static void outputs_on(clq_device *device, clq_queue *queue) {
    if (!clq_device_runs_in_caller(device)) return; /* launches depend on the model alone */
    for (size_t i = 0; i < CLQ_COUNT_OF(makers); i++) {
        bench b = {.s = &mlp_subject, .device = device, .queue = queue};
        CHECK_OK(clq_model_create("maker", &b.model));
        CHECK_OK(clq_model_finish(b.model, makers[i].build(b.model, clq_input(b.model, CLQ_SHAPE(4)))));
        CHECK_OK(clq_plan_create_alone(
            b.model, device, &(clq_plan_config){.capacity = 2, .sample_dtype = makers[i].dtype, .metric_slots = 1},
            &b.plan));
        const float x[] = {-1, 2, 0.5f, -3}, w[] = {2, 0, 0, 0, 0, 4, 0, 0, 0, 0, 6, 0, 0, 0, 0, 8};
        const unsigned char bytes[] = {0, 51, 255, 102};
        fill_whole(&b, clq_plan_output(b.plan, 0), 0xFF);
        if (makers[i].dtype == CLQ_U8)
            CHECK_OK(clq_queue_write(queue, clq_plan_samples(b.plan), 0, bytes, sizeof bytes, true));
        else
            CHECK_OK(clq_queue_write(queue, clq_plan_samples(b.plan), 0, x, sizeof x, true));
        if (clq_model_variable_count(b.model))
            CHECK_OK(clq_queue_write(queue, clq_plan_parameters(b.plan), 0, w, sizeof w, true));
        run_segments(&b, 1, 1, 0);
        float got[4];
        read_floats(&b, clq_plan_output(b.plan, 0), 0, got, 4);
        for (size_t k = 0; k < 4; k++)
            if (!(fabsf(got[k] - makers[i].want[k]) <= 1e-7f))
                fail_msg("maker %zu: output %zu is %g", i, k, (double)got[k]);
        assert_bytes(&b, clq_plan_output(b.plan, 0), sizeof got, 2 * sizeof got, 0xFF);
        close_bench(&b);
    }
}

static void every_layer_can_make_the_output(void **state) {
    (void)state;
    on_each_device(outputs_on);
}

/* ---- a model with nothing to train, refusals, memory ---- */

/* Also: the softmax is so sure of the wrong class that a loss of probabilities, clipped at 1e-7, would be only 16. */
static void nothing_to_train_on(clq_device *device, clq_queue *queue) {
    if (!clq_device_runs_in_caller(device)) return;
    clq_loss_problem loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                             .classes = 2,
                             .weight = 1,
                             .metric_count = 1,
                             .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
    bench b = {.s = &mlp_subject, .device = device, .queue = queue};
    CHECK_OK(clq_model_create("softmax", &b.model));
    CHECK_OK(clq_model_finish(b.model,
                              clq_activate(b.model, clq_input(b.model, CLQ_SHAPE(2)), CLQ_ACTIVATION_SOFTMAX, NULL)));
    clq_plan_config config = {.capacity = 2,
                              .sample_dtype = CLQ_F32,
                              .loss = &loss,
                              .update = &plain_sgd,
                              .gradient_norms = true,
                              .metric_slots = 1};
    CHECK_OK(clq_plan_create_alone(b.model, device, &config, &b.plan));
    const float x[] = {0, 0, 0, 40};
    const int32_t labels[] = {0, 0};
    CHECK_OK(clq_queue_write(queue, clq_plan_samples(b.plan), 0, x, sizeof x, true));
    CHECK_OK(clq_queue_write(queue, clq_plan_labels(b.plan, 0), 0, labels, sizeof labels, true));
    run_segments(&b, 2, 0.5f, 0);
    CHECK_OK(clq_plan_run(b.plan, queue, CLQ_SEGMENT_UPDATE, CLQ_SEGMENT_UPDATE));
    CHECK_OK(clq_queue_finish(queue));
    float got[2];
    read_floats(&b, clq_plan_metrics(b.plan), 0, got, 2);
    double want = log(2) + 40;
    assert_close(&b, "loss", got, &want, 1, 1e-6);
    assert_int_equal((int)got[1], 1); /* the first of equal values is chosen */
    assert_int_equal(clq_plan_arena_bytes(b.plan), 512);
    assert_bytes(&b, clq_plan_parameters(b.plan), 0, 512, 0);
    close_bench(&b);
}

static void nothing_to_train(void **state) {
    (void)state;
    on_each_device(nothing_to_train_on);
}

static void refusals_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    clq_model *model, *unfinished;
    CHECK_OK(clq_model_create("mlp", &model));
    CHECK_OK(clq_model_create("open", &unfinished));
    CHECK_OK(clq_model_finish(model, build_mlp(model)));
    build_mlp(unfinished);
    const clq_plan_config good = training_of(&mlp_subject, 2);
    clq_loss_problem wide = mlp_subject.loss;
    wide.classes = 5;
    clq_plan_config c[6] = {good, good, good, good, good, good};
    c[0].capacity = 0;
    c[1].metric_slots = 0;
    c[2].loss = NULL;
    c[3].sample_dtype = CLQ_F64;
    c[4].loss = &wide;
    c[5].capacity = UINT32_MAX;
    const struct {
        clq_status status;
        const char *words;
    } want[6] = {{CLQ_ERROR_INTERNAL, "capacity"},
                 {CLQ_ERROR_INTERNAL, "metric slots"},
                 {CLQ_ERROR_INTERNAL, "needs a loss"},
                 {CLQ_ERROR_UNSUPPORTED, "type f64: u8 or f32"},
                 {CLQ_ERROR_MISMATCH, "over 5 values and output 'dense_2' of model mlp has 4"},
                 {CLQ_ERROR_INTERNAL, "4294967295 examples"}};
    clq_plan *plan = NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(c); i++) {
        CHECK_FAILS(want[i].status, clq_plan_create_alone(model, device, &c[i], &plan));
        CHECK_DETAIL(want[i].words);
    }
    CHECK_FAILS(CLQ_ERROR_STATE, clq_plan_create_alone(unfinished, device, &good, &plan));
    CHECK_DETAIL("model open is not finished");
    assert_null(plan);
    clq_plan_destroy(NULL);
    clq_model_destroy(model);
    clq_model_destroy(unfinished);
}

static void refuses_bad_wishes(void **state) {
    (void)state;
    on_each_device(refusals_on);
}

typedef struct creation {
    const clq_model *model;
    clq_device *device;
    clq_plan_config config;
} creation;

static clq_status create_and_destroy(void *context) {
    const creation *c = context;
    uint64_t used = clq_device_memory_used(c->device);
    clq_plan *plan = NULL;
    clq_status status = clq_plan_create_alone(c->model, c->device, &c->config, &plan);
    assert_int_equal(status == CLQ_OK, plan != NULL);
    clq_plan_destroy(plan);
    assert_int_equal(clq_device_memory_used(c->device), used);
    return status;
}

static void memory_on(clq_device *device, clq_queue *queue) {
    if (!clq_device_runs_in_caller(device)) return;
    data d = make_data(&conv_subject);
    bench b =
        open_bench(device, queue, &conv_subject, training_of(&conv_subject, COUNT_MOST)); /* builds the programs */
    creation c = {b.model, device, training_of(&conv_subject, COUNT_MOST)};
    assert_true(walk_allocations(create_and_destroy, &c) > 100);
    /* AUTO makes lists until one fits the limit. Here none fits before the last try. */
    c.config.recompute = CLQ_RECOMPUTE_AUTO;
    c.config.activations_most = 1;
    assert_true(walk_allocations(create_and_destroy, &c) > 200);
    c.config.recompute = CLQ_RECOMPUTE_OFF;
    clq_plan_destroy(b.plan);
    CHECK_OK(clq_plan_create_alone(b.model, device, &c.config, &b.plan));
    check_gradients(&b, &d);
    close_bench(&b);
}

static void runs_out_of_memory(void **state) {
    (void)state;
    on_each_device(memory_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(count_is_a_number),
        cmocka_unit_test(arenas_have_one_layout),
        cmocka_unit_test(updates_follow_keras_and_keep_gaps),
        cmocka_unit_test(updates_can_be_made_elsewhere),
        cmocka_unit_test(inference_agrees_with_training),
        cmocka_unit_test(every_layer_can_make_the_output),
        cmocka_unit_test(nothing_to_train),
        cmocka_unit_test(refuses_bad_wishes),
        cmocka_unit_test(runs_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
