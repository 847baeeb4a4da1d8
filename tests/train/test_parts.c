/* Models in parts, trained by hand. Losses, gradients and weights are compared with one trainer of the whole model, and
 * the gradient by a part's input with a computation in double. Failures of calls and of memory are tested, too. */
#include "support/faults.h"
#include "support/files.h"
#include "train/parts.h"

static faults layer;

/* Reads variable `v` from the part that has it; the other parts refuse. */
static void read_variable(const chain *c, size_t v, bool gradient, float *out) {
    unsigned found = 0;
    for (unsigned p = 0; p < c->count; p++) {
        const clq_status status = gradient ? clq_trainer_get_gradient(c->trainers[p], 0, v, out)
                                           : clq_trainer_get_variable(c->trainers[p], v, out);
        if (status == CLQ_OK)
            found++;
        else
            assert_fails(CLQ_ERROR_ARGUMENT, "none of part", status);
    }
    assert_int_equal(found, 1);
}

static void compare(const char *what, const float *got, const float *want, size_t count, double relative) {
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)got[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    if (!(error <= relative * relative * size + 1e-30))
        fail_msg("%s: differs by %.3g of %.3g", what, sqrt(error), sqrt(size));
}

static void compare_variables(const clq_model *model, const chain *a, const chain *b, bool gradient, double relative) {
    for (size_t v = 0; v < model->variable_count; v++) {
        float got[64], want[64];
        const clq_variable *variable = &model->variables[v];
        if (gradient && variable->role == CLQ_ROLE_STATE) continue;
        assert_true(variable->elements <= CLQ_COUNT_OF(got));
        read_variable(a, v, gradient, got);
        read_variable(b, v, gradient, want);
        compare(variable->name, got, want, variable->elements, relative);
    }
}

static void compare_inference(const clq_model *model, const chain *parts, clq_trainer *whole);

static void parts_train_as_the_whole(void **state) {
    (void)state;
    const clq_model *models[] = {modal, branched};
    for (size_t m = 0; m < CLQ_COUNT_OF(models); m++) {
        const clq_model *model = models[m];
        chain parts, whole;
        assert_ok(open_chain(model, false, &parts));
        assert_ok(open_chain(model, true, &whole));
        compare_variables(model, &parts, &whole, false, 0); /* the initial values */
        for (unsigned step = 0; step < STEPS; step++) {
            const clq_batch batch = batch_of_step(model, step);
            double loss, norm, want, want_norm;
            assert_ok(make_gradients(&parts, &batch));
            assert_ok(clq_step_gradients(whole.trainers[0], &batch));
            assert_ok(clq_step_reduce(whole.trainers[0]));
            compare_variables(model, &parts, &whole, true, step ? 1e-4 : 1e-6);
            assert_ok(read_step(&parts, &loss, &norm));
            assert_true(isnan(norm)); /* unknown before the update */
            assert_ok(apply(&parts));
            assert_ok(clq_step_apply(whole.trainers[0]));
            assert_ok(read_step(&parts, &loss, &norm));
            assert_ok(read_step(&whole, &want, &want_norm));
            if (!(fabs(loss / want - 1) < 1e-5)) fail_msg("step %u: loss %.9g, not %.9g", step, loss, want);
            if (!(fabs(norm / want_norm - 1) < 1e-4)) fail_msg("step %u: norm %.9g, not %.9g", step, norm, want_norm);
        }
        compare_variables(model, &parts, &whole, false, 1e-5);
        compare_inference(model, &parts, whole.trainers[0]);
        close_chain(&parts);
        close_chain(&whole);
    }
}

/* ---- inference ---- */

static double evaluate(const chain *c, const clq_batch *batch, double *metrics) {
    double loss = 0;
    for (unsigned p = 0; p < c->count; p++) {
        clq_totals totals;
        assert_ok(clq_part_evaluate(c->trainers[p], batch, p ? c->values[p - 1] : NULL, c->values[p], &totals));
        assert_int_equal(totals.samples, batch->count);
        loss += totals.loss;
        for (unsigned i = 0; i < totals.metrics.count; i++) metrics[i] += totals.metrics.values[i];
    }
    return loss;
}

/* The parts' matrices add up to that of the whole model. */
static void compare_matrices(const chain *parts, const clq_trainer *whole) {
    for (size_t i = 0; i < clq_trainer_matrix_count(whole); i++) {
        uint64_t want[CLASSES * CLASSES], found[CLASSES * CLASSES], sum[CLASSES * CLASSES] = {0}, seen = 0;
        assert_ok(clq_trainer_read_matrix(whole, i, CLQ_MATRIX_OF_EVALUATION, want));
        for (unsigned p = 0; p < parts->count; p++) {
            assert_ok(clq_trainer_read_matrix(parts->trainers[p], i, CLQ_MATRIX_OF_EVALUATION, found));
            for (size_t k = 0; k < CLASSES * CLASSES; k++) sum[k] += found[k];
        }
        assert_memory_equal(sum, want, sizeof want);
        for (size_t k = 0; k < CLASSES * CLASSES; k++) seen += sum[k];
        assert_int_equal(seen, BATCH);
    }
}

static void compare_inference(const clq_model *model, const chain *parts, clq_trainer *whole) {
    clq_dataset *data = first_samples(model);
    const clq_batch batch = batch_for(model, 0, BATCH);
    float got[2][BATCH * CLASSES] = {{0}}, want[2][BATCH * CLASSES] = {{0}};
    float *const got_in[] = {got[0], got[1]}, *const want_in[] = {want[0], want[1]};
    double metrics[CLQ_METRIC_VALUES_MAX] = {0};
    clq_totals totals;
    clq_step_info before, after;
    assert_ok(clq_step_read(parts->trainers[0], &before));
    assert_ok(clq_evaluate(whole, data, &totals));
    const double loss = evaluate(parts, &batch, metrics);
    assert_true(fabs(loss / totals.loss - 1) < 1e-5);
    for (unsigned i = 0; i < totals.metrics.count; i++) assert_true(fabs(metrics[i] - totals.metrics.values[i]) < 1e-5);
    assert_int_equal(clq_trainer_matrix_count(whole), model->output_count);
    compare_matrices(parts, whole);
    assert_ok(clq_predict_outputs(whole, data, want_in));
    const clq_batch unlabelled = {
        .count = BATCH, .samples = samples, .sample_elements = INPUTS, .sample_dtype = CLQ_F32};
    for (unsigned p = 0; p < parts->count; p++)
        assert_ok(clq_part_predict(parts->trainers[p], &unlabelled, p ? parts->values[p - 1] : NULL, parts->values[p],
                                   p % 2 ? NULL : got_in));
    if (parts->count == 2) /* the second part alone has an output, and was not asked for it */
        assert_ok(clq_part_predict(parts->trainers[1], &unlabelled, parts->values[0], NULL, got_in));
    for (uint32_t i = 0; i < model->output_count; i++) compare("output", got[i], want[i], BATCH * CLASSES, 1e-5);
    assert_ok(clq_step_read(parts->trainers[0], &after)); /* still tells of the last step */
    assert_true(before.loss == after.loss && before.samples == after.samples);
    clq_dataset_destroy(data);
}

/* ---- what crosses ---- */

static void crossing_tensors_are_told(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t elements;
        bool has_gradient;
    } expected[2][3] = {{{"scaled", INPUTS, false}, {"x", 7, true}},
                        {{"scaled", INPUTS, false}, {"x", 7, true}, {"dropout", 6, true}}};
    chain c;
    assert_ok(open_chain(branched, false, &c));
    for (unsigned p = 0; p < 2; p++) {
        clq_part_values *before;
        clq_part_tensor tensor;
        assert_ok(clq_part_values_create(c.trainers[p + 1], CLQ_PART_INPUT, &before)); /* of the same cut */
        assert_int_equal(clq_part_values_count(before), 2 + p);
        assert_int_equal(clq_part_values_count(c.values[p]), 2 + p);
        assert_int_equal(clq_part_values_rows(before), 0);
        for (unsigned i = 0; i < 2 + p; i++) {
            assert_ok(clq_part_values_tensor(i % 2 ? before : c.values[p], i, &tensor));
            assert_string_equal(tensor.name, expected[p][i].name);
            assert_int_equal(tensor.elements, expected[p][i].elements);
            assert_true(tensor.shape.rank == 1 && tensor.shape.dims[0] == expected[p][i].elements);
            assert_int_equal(tensor.has_gradient, expected[p][i].has_gradient);
            for (size_t k = 0; k < BATCH * tensor.elements; k++) assert_true(clq_part_values_of(before, i)[k] == 0);
        }
        assert_null(clq_part_values_of(before, 2 + p));
        assert_fails(CLQ_ERROR_ARGUMENT, "tensor", clq_part_values_tensor(before, 2 + p, &tensor));
        assert_fails(CLQ_ERROR_ARGUMENT, "11 rows", clq_part_values_set_rows(before, BATCH + 1));
        clq_part_values_destroy(before);
    }
    /* A tensor without a gradient has 0 in its place, whatever was there before. */
    const clq_batch batch = batch_for(branched, 0, 4);
    for (size_t k = 0; k < BATCH * INPUTS; k++) clq_part_values_of(c.gradients[0], 0)[k] = 3;
    assert_ok(make_gradients(&c, &batch));
    assert_int_equal(clq_part_values_rows(c.gradients[0]), 4);
    for (size_t k = 0; k < 4 * INPUTS; k++) {
        assert_true(clq_part_values_of(c.gradients[0], 0)[k] == 0);
        assert_true(fabsf(clq_part_values_of(c.values[1], 0)[k] - tanhf(samples[k / INPUTS][k % INPUTS])) < 1e-6f);
    }
    close_chain(&c);
}

/* ---- the gradient by the input ---- */

enum { WIDTH = 4, ROWS = 6 };

static clq_model *build_line(bool marked) {
    clq_model *m;
    assert_ok(clq_model_create("line", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(INPUTS));
    x = clq_dense(m, x, &(clq_dense_config){.units = WIDTH, .no_bias = true});
    if (marked) x = clq_pipeline_cut(m, x);
    assert_ok(clq_model_finish(
        m, clq_dense(m, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX})));
    return m;
}

/* The loss is the mean over the rows of -log softmax(y w + b)[label]. Its gradient by y is (softmax - one at the label)
 * times w transposed / rows. Computes both in double, and gives the loss. */
static double reference(const float *y, const float *w, const float *b, double *dy) {
    double loss = 0;
    for (size_t row = 0; row < ROWS; row++) {
        double e[CLASSES], sum = 0;
        for (size_t o = 0; o < CLASSES; o++) {
            double z = (double)b[o];
            for (size_t i = 0; i < WIDTH; i++) z += (double)y[row * WIDTH + i] * (double)w[i * CLASSES + o];
            sum += e[o] = exp(z);
        }
        loss -= log(e[labels[0][row]] / sum) / ROWS;
        for (size_t i = 0; i < WIDTH; i++) {
            dy[row * WIDTH + i] = 0;
            for (size_t o = 0; o < CLASSES; o++)
                dy[row * WIDTH + i] += (e[o] / sum - (o == (size_t)labels[0][row])) * (double)w[i * CLASSES + o] / ROWS;
        }
    }
    return loss;
}

static void assert_near(const float *got, const double *want, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <= 1e-5 * most))
            fail_msg("[%zu] %.9g, not %.9g", i, (double)got[i], want[i]);
}

/* Each part runs by itself, on values that the test made. The last part gives the gradient by its input. The first part
 * gets a gradient by its output; its weights' gradient is x transposed times that. */
static void gradients_are_those_of_mathematics(void **state) {
    (void)state;
    clq_model *model = build_line(true);
    const clq_batch batch = batch_for(model, 0, ROWS);
    float w[WIDTH * CLASSES], b[CLASSES], got[INPUTS * WIDTH];
    double dy[ROWS * WIDTH], dw[INPUTS * WIDTH] = {0};
    clq_step_info info;
    chain c;
    assert_ok(open_chain(model, false, &c));
    float *y = clq_part_values_of(c.values[0], 0), *given = clq_part_values_of(c.gradients[0], 0);
    for (size_t i = 0; i < ROWS * WIDTH; i++) y[i] = (float)((i * 7) % 13) / 4.0f - 1.5f;
    for (size_t i = 0; i < CLASSES; i++) b[i] = (float)i - 0.5f;
    assert_ok(clq_part_values_set_rows(c.values[0], ROWS));
    assert_ok(clq_trainer_set_variable(c.trainers[1], 2, b));
    assert_ok(clq_trainer_get_variable(c.trainers[1], 1, w));
    const double loss = reference(y, w, b, dy);
    assert_ok(clq_part_forward(c.trainers[1], &batch, c.values[0], NULL));
    assert_ok(clq_step_read(c.trainers[1], &info)); /* the loss is known before backward */
    assert_true(fabs(info.loss / loss - 1) < 1e-5 && info.samples == ROWS);
    assert_ok(clq_part_backward(c.trainers[1], NULL, c.gradients[0]));
    assert_near(given, dy, ROWS * WIDTH);

    for (size_t i = 0; i < ROWS * WIDTH; i++) given[i] = (float)((i * 5) % 11) / 3.0f - 1.0f;
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < INPUTS; i++)
            for (size_t o = 0; o < WIDTH; o++)
                dw[i * WIDTH + o] += (double)samples[row][i] * (double)given[row * WIDTH + o];
    assert_ok(clq_part_forward(c.trainers[0], &batch, NULL, c.values[0]));
    assert_ok(clq_part_backward(c.trainers[0], c.gradients[0], NULL));
    assert_ok(clq_trainer_get_gradient(c.trainers[0], 0, 0, got));
    assert_near(got, dw, INPUTS * WIDTH);
    close_chain(&c);
    clq_model_destroy(model);
}

/* Each trainer chooses the cuts by itself. */
static void models_without_marks_are_cut_alike(void **state) {
    (void)state;
    clq_model *model = build_line(false);
    const clq_batch batch = batch_for(model, 0, ROWS);
    double loss, want, norm;
    chain parts, whole;
    assert_ok(open_chain(model, false, &parts));
    assert_ok(open_chain(model, true, &whole));
    assert_ok(make_gradients(&parts, &batch));
    assert_ok(apply(&parts));
    assert_ok(clq_step(whole.trainers[0], &batch));
    assert_ok(read_step(&parts, &loss, &norm));
    assert_ok(read_step(&whole, &want, &norm));
    assert_true(fabs(loss / want - 1) < 1e-5);
    compare_variables(model, &parts, &whole, false, 1e-5);
    close_chain(&parts);
    close_chain(&whole);
    clq_model_destroy(model);
}

/* ---- weights in files ---- */

static void parts_share_files_with_the_whole(void **state) {
    (void)state;
    chain parts, whole;
    assert_ok(open_chain(modal, false, &parts));
    assert_ok(open_chain(modal, true, &whole));
    const char *const path[] = {files_path("all.safetensors"), files_path("one.safetensors")};
    const clq_batch batch = batch_for(modal, 0, BATCH);
    assert_ok(clq_step(whole.trainers[0], &batch));
    assert_ok(clq_trainer_save(whole.trainers[0], path[0]));
    for (unsigned p = 0; p < 2; p++) assert_ok(clq_trainer_load(parts.trainers[p], path[0]));
    compare_variables(modal, &parts, &whole, false, 0);
    assert_ok(clq_trainer_save(parts.trainers[1], path[1]));
    assert_ok(clq_trainer_load(parts.trainers[1], path[1]));
    assert_fails(CLQ_ERROR_MISMATCH, "'dense/kernel'", clq_trainer_load(parts.trainers[0], path[1]));
    assert_fails(CLQ_ERROR_MISMATCH, "'dense/kernel'", clq_trainer_load(whole.trainers[0], path[1]));
    compare_variables(modal, &parts, &whole, false, 0);
    close_chain(&parts);
    close_chain(&whole);
}

/* ---- failures ---- */

typedef struct attempt {
    unsigned fail_at, calls; /* which call of the parts' threads fails; 0: none. Out: how many there were */
    double loss;             /* out */
} attempt;

static clq_status train(void *context) {
    attempt *a = context;
    chain c;
    const clq_batch batch = batch_of_step(branched, 2);
    double norm;
    clq_status status = open_chain(branched, false, &c);
    layer.only(a->fail_at ? "replica 0" : NULL);
    (void)layer.arm(a->fail_at, CL_OUT_OF_RESOURCES, a->fail_at % 2);
    for (unsigned step = 0; step < 2 && status == CLQ_OK; step++) {
        status = make_gradients(&c, &batch);
        if (status == CLQ_OK) status = apply(&c);
        if (status == CLQ_OK) status = read_step(&c, &a->loss, &norm);
    }
    a->calls = layer.arm(0, 0, false);
    layer.only(NULL);
    /* A part that failed keeps failing. The other parts can still be closed. */
    close_chain(&c);
    return status;
}

static void calls_of_devices_fail(void **state) {
    (void)state;
    attempt a = {0};
    unsigned failures = 0;
    assert_ok(train(&a));
    const double clean = a.loss;
    a.fail_at = 1000000;
    assert_ok(train(&a));
    const unsigned calls = a.calls;
    assert_true(calls > 20);
    for (unsigned n = 1; n <= calls; n += 5) {
        a.fail_at = n;
        const clq_status status = train(&a);
        if (status == CLQ_OK && a.loss == clean) continue; /* a wait polls a varying number of times */
        failures++;
        if (status != CLQ_ERROR_DEVICE && status != CLQ_ERROR_DEVICE_MEMORY)
            fail_msg("call %u of %u: %s: %s", n, calls, clq_status_text(status), clq_error_detail());
    }
    assert_true(failures >= 4);
}

static clq_status make_values(void *trainer) {
    clq_part_values *values;
    CLQ_TRY(clq_part_values_create(trainer, CLQ_PART_INPUT, &values));
    clq_part_values_destroy(values);
    return CLQ_OK;
}

static void allocations_fail(void **state) {
    (void)state;
    attempt a = {0};
    uint64_t failures = 0;
    assert_ok(train(&a));
    const double clean = a.loss;
    (void)clq_memory_fail_at(0, false);
    assert_ok(train(&a));
    const uint64_t made = clq_memory_fail_at(0, false);
    for (uint64_t n = 1; n <= made; n += 7) { /* the steps' allocations come last */
        (void)clq_memory_fail_at(n, n % 2);
        const clq_status status = train(&a);
        (void)clq_memory_fail_at(0, false);
        if (status != CLQ_OK && (status != CLQ_ERROR_MEMORY || !strstr(clq_error_detail(), "memory")))
            fail_msg("allocation %d: %s: %s", (int)n, clq_status_text(status), clq_error_detail());
        if (status == CLQ_OK && a.loss != clean) fail_msg("allocation %d: another loss", (int)n);
        failures += status != CLQ_OK;
    }
    assert_true(failures > 60);
    chain c;
    assert_ok(open_chain(branched, false, &c));
    assert_int_equal(walk_allocations(make_values, c.trainers[2]), 2);
    close_chain(&c);
}

/* An output's mask is made before the cut, and only the output's loss reads it: predictions do not need it. */
static void masks_cross_cuts(void **state) {
    static int32_t steps[BATCH][INPUTS];
    static float tokens[BATCH][INPUTS], got[BATCH * INPUTS * CLASSES], want[BATCH * INPUTS * CLASSES];
    float *const got_in[] = {got}, *const want_in[] = {want};
    clq_model *m;
    clq_dataset *data;
    clq_totals totals;
    chain parts, whole;
    double metrics[CLQ_METRIC_VALUES_MAX] = {0};
    (void)state;
    for (unsigned i = 0; i < BATCH * INPUTS; i++) {
        steps[i / INPUTS][i % INPUTS] = (int32_t)(i % CLASSES);
        tokens[i / INPUTS][i % INPUTS] = (float)(i * 3 % 5); /* 0 is padding */
    }
    assert_ok(clq_model_create("masked", &m));
    clq_tensor x = clq_embedding(m, clq_input(m, CLQ_SHAPE(INPUTS)),
                                 &(clq_embedding_config){.rows = 5, .width = 4, .mask_zero = true});
    x = clq_pipeline_cut(m, clq_dense(m, x, &(clq_dense_config){.units = 5, .activation = CLQ_ACTIVATION_TANH}));
    assert_ok(clq_model_finish(
        m, clq_dense(m, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX})));
    assert_ok(open_chain(m, false, &parts));
    assert_ok(open_chain(m, true, &whole));
    assert_ok(clq_dataset_arrays(tokens, CLQ_F32, BATCH, 1, (size_t[]){INPUTS}, steps, CLQ_I32, INPUTS, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    assert_ok(clq_evaluate(whole.trainers[0], data, &totals));
    clq_batch batch = batch_at(0, BATCH);
    batch.samples = tokens;
    batch.labels = steps;
    batch.label_elements = INPUTS;
    const double loss = evaluate(&parts, &batch, metrics);
    assert_true(fabs(loss / totals.loss - 1) < 1e-5);
    assert_ok(clq_predict_outputs(whole.trainers[0], data, want_in));
    batch.labels = NULL;
    batch.more_labels = NULL;
    for (unsigned p = 0; p < parts.count; p++)
        assert_ok(clq_part_predict(parts.trainers[p], &batch, p ? parts.values[p - 1] : NULL, parts.values[p], got_in));
    compare("output", got, want, CLQ_COUNT_OF(got), 1e-5);
    clq_dataset_destroy(data);
    close_chain(&parts);
    close_chain(&whole);
    clq_model_destroy(m);
}

static int start(void **state) {
    if (faults_load(&layer) != 0 || files_begin(state) != 0) return -1;
    return open_models(state);
}

static int stop(void **state) {
    const int closed = close_models(state);
    return files_end(state) == 0 ? closed : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_train_as_the_whole),
                                       cmocka_unit_test(crossing_tensors_are_told),
                                       cmocka_unit_test(gradients_are_those_of_mathematics),
                                       cmocka_unit_test(models_without_marks_are_cut_alike),
                                       cmocka_unit_test(parts_share_files_with_the_whole),
                                       cmocka_unit_test(masks_cross_cuts),

                                       cmocka_unit_test(calls_of_devices_fail),
                                       cmocka_unit_test(allocations_fail)};
    return cmocka_run_group_tests_name("train/parts", tests, start, stop);
}
