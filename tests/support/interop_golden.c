#include "support/interop_golden.h"
#include "graph/model.h"
#include "interop/interop.h"
#include "support/check.h"
#include "support/system.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define SMALL_PART 1e-2 /* of the whole gradient's norm */

golden_way golden_by;

int golden_open(void **state) { return open_system(state); }
int golden_close(void **state) { return close_system(state); }

static char *path_in(const golden *g, const char *file) {
    char *path = clq_strprintf("%s/%s", g->folder, file);
    assert_non_null(path);
    return path;
}

/* Reads the outputs, if there are several, with their losses. Their order is reversed, because names tell which output
 * is which. */
static void read_outputs(golden *g) {
    json_t *outputs = json_object_get(g->json, "outputs");
    const size_t count = json_array_size(outputs);
    assert_true(count <= CLQ_MODEL_OUTPUTS_MAX);
    for (size_t i = 0; i < count; i++) {
        json_t *output = json_array_get(outputs, count - 1 - i);
        g->outputs[i] = clq_output_config_default(json_string_value(json_object_get(output, "layer")));
        assert_ok(clq_loss_parse(json_string_value(json_object_get(output, "loss_spec")), &g->outputs[i].loss));
        g->outputs[i].weight = json_number_value(json_object_get(output, "loss_weight"));
    }
    if (count > 0) g->config.outputs = g->outputs;
    g->config.output_count = count;
}

/* Reads the case's options, which are written as on the command line. */
static void read_options(golden *g) {
    json_t *args = json_object_get(g->json, "args");
    assert_true(json_is_array(args));
    g->config = clq_trainer_config_default();
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *option = json_string_value(json_array_get(args, i));
        assert_non_null(option);
        if (strcmp(option, "--no-test") == 0) continue;
        if (strcmp(option, "--drop-remainder") == 0) {
            g->drop_remainder = true;
            continue;
        }
        const char *value = json_string_value(json_array_get(args, ++i));
        assert_non_null(value);
        if (strcmp(option, "--batch") == 0)
            g->batch = strtoul(value, NULL, 10);
        else if (strcmp(option, "--steps") == 0)
            g->steps = strtoul(value, NULL, 10);
        else if (strcmp(option, "--optimizer") == 0)
            assert_ok(clq_optimizer_parse(value, &g->config.optimizer));
        else if (strcmp(option, "--clip") == 0)
            assert_ok(clq_clip_parse(value, &g->config.clip));
        else if (strcmp(option, "--no-decay") == 0)
            g->config.no_decay = value;
        else if (strcmp(option, "--metrics") == 0)
            g->config.metrics = value;
        else if (strcmp(option, "--ema") == 0)
            g->config.average = strtod(value, NULL);
        else if (strcmp(option, "--schedule") == 0)
            assert_ok(clq_lr_schedule_parse(value, &g->config.schedule));
        else if (strcmp(option, "--loss") == 0)
            assert_ok(clq_loss_parse(value, &g->config.loss));
        else if (strcmp(option, "--class-weights") == 0) {
            assert_ok(clq_class_weights_parse(value, NULL, &g->config.class_weight_count));
            assert_true(g->config.class_weight_count <= CLQ_COUNT_OF(g->class_weights));
            assert_ok(clq_class_weights_parse(value, g->class_weights, &g->config.class_weight_count));
            g->config.class_weights = g->class_weights;
        } else if (strcmp(option, "--sample-weights") == 0)
            g->sample_weights = value;
        else if (strcmp(option, "--shuffle") == 0)
            assert_string_equal(value, "off");
        else
            fail_msg("%s: option %s is not known to this test", g->name, option);
    }
    g->config.measure_gradient = true;
    g->config.sample_weights = g->sample_weights != NULL;
    g->config.seed = (uint64_t)json_integer_value(json_object_get(json_object_get(g->json, "dropout"), "seed"));
    read_outputs(g);
}

static double number(const golden *g, const char *key, const char *inner) {
    json_t *value = json_object_get(g->json, key);
    if (inner) value = json_object_get(value, inner);
    if (!json_is_number(value)) fail_msg("%s: %s.%s is missing", g->name, key, inner ? inner : "");
    return json_number_value(value);
}

static void check_near(const golden *g, const char *spec, const char *what, size_t step, double got, double want,
                       double tolerance) {
    double error = fabs(got - want) / fmax(fabs(want), 1e-12);
    if (!(error <= tolerance))
        fail_msg("%s on %s: %s at step %zu is %.10g and Keras's is %.10g: %.2g relative, allowed %.2g", g->name, spec,
                 what, step, got, want, error, tolerance);
}

/* Checks the norm of each variable's reduced gradient on every replica. A norm far below that of the whole gradient
 * consists of rounding errors, which are fractions of the whole gradient; an example is the norm of an attention's key
 * biases, whose gradient is 0. */
static void check_gradient_norms(const golden *g, const char *spec, clq_trainer *trainer, const clq_model *model) {
    const double whole = json_number_value(json_array_get(json_object_get(g->json, "grad_norm"), 0));
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info variable;
        assert_ok(clq_model_variable(model, i, &variable));
        if (!variable.trainable) continue;
        const double want = number(g, "first_grad_norms", variable.name);
        float *gradient = clq_alloc(variable.elements, sizeof *gradient);
        for (unsigned r = 0; r < clq_trainer_replicas(trainer); r++) {
            double squares = 0.0;
            assert_ok(clq_trainer_get_gradient(trainer, r, i, gradient));
            for (size_t k = 0; k < variable.elements; k++) squares += (double)gradient[k] * (double)gradient[k];
            check_near(g, spec, variable.name, 1, sqrt(squares), want,
                       number(g, "tolerance", "grad_norm") * fmax(1, SMALL_PART * whole / fmax(want, 1e-12)));
        }
        clq_free(gradient);
    }
}

/* What a case says of an output. The values of an only output stand beside the trace. */
static json_t *said_of(const golden *g, size_t output) {
    json_t *outputs = json_object_get(g->json, "outputs");
    return outputs ? json_array_get(outputs, output) : g->json;
}

/* Counts the numbers in nested lists; number_at takes one of them, counted row by row. */
static size_t count_numbers(const json_t *value) {
    size_t count = 0;
    if (!json_is_array(value)) return json_is_number(value);
    for (size_t i = 0; i < json_array_size(value); i++) count += count_numbers(json_array_get(value, i));
    return count;
}
static double number_at(json_t *value, size_t index) {
    while (json_is_array(value)) {
        const size_t each = count_numbers(json_array_get(value, 0));
        value = json_array_get(value, index / each);
        index %= each;
    }
    return json_number_value(value);
}

static void check_rows(const golden *g, const char *spec, json_t *rows, size_t values, const float *out) {
    assert_int_equal(json_array_size(rows), 4);
    assert_int_equal(count_numbers(rows), 4 * values);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < values; k++) {
            const double want = number_at(json_array_get(rows, i), k);
            if (!(fabs((double)out[i * values + k] - want) <= 2e-6 * fmax(1.0, fabs(want))))
                fail_msg("%s on %s: output %zu of sample %zu is %.9g and Keras's is %.9g", g->name, spec, k, i,
                         (double)out[i * values + k], want);
        }
}

static void check_predictions(const golden *g, const char *spec, clq_trainer *trainer, clq_dataset *data,
                              const clq_model *model) {
    const size_t samples = clq_dataset_get_info(data)->samples, count = clq_model_output_count(model);
    float *out[CLQ_MODEL_OUTPUTS_MAX] = {NULL};
    size_t values[CLQ_MODEL_OUTPUTS_MAX];
    for (size_t i = 0; i < count; i++) {
        const clq_shape shape = clq_model_output_shape(model, i);
        assert_ok(clq_shape_elements(&shape, &values[i]));
        out[i] = clq_alloc(samples * values[i], sizeof **out);
        assert_non_null(out[i]);
    }
    assert_ok(count > 1 ? clq_predict_outputs(trainer, data, out) : clq_predict(trainer, data, out[0]));
    for (size_t i = 0; i < count; i++) {
        check_rows(g, spec, json_object_get(said_of(g, i), "predictions_first4"), values[i], out[i]);
        clq_free(out[i]);
    }
}

/* A metric's value for output `output`: "accuracy", or with several outputs "LAYER_accuracy". */
static double value_of(const clq_model *model, size_t output, const clq_metric_values *values, const char *name) {
    char whole[256];
    if (clq_model_output_count(model) == 1) return clq_metric_value(values, name);
    (void)snprintf(whole, sizeof whole, "%s_%s", clq_model_output_name(model, output), name);
    return clq_metric_value(values, whole);
}

static void check_accuracy(const golden *g, const char *spec, clq_trainer *trainer, clq_dataset *data,
                           const clq_model *model) {
    clq_totals totals;
    assert_ok(clq_evaluate(trainer, data, &totals));
    for (size_t i = 0; i < clq_model_output_count(model); i++) {
        json_t *want = json_object_get(said_of(g, i), "accuracy_initial");
        const double got = value_of(model, i, &totals.metrics, "accuracy");
        if (!want || (g->config.metrics && !strstr(g->config.metrics, "accuracy"))) continue; /* it is not measured */
        if (!(fabs(got - json_number_value(want)) < 1e-7 || g->drop_remainder)) /* of a label: over 1e-4 */
            fail_msg("%s on %s: the initial accuracy of output %zu is %.9g", g->name, spec, i, got);
    }
}

/* Compares the matrix of that name from the last evaluation with the rows of `want`. */
static void check_matrix(const golden *g, const char *spec, const clq_trainer *trainer, const char *name,
                         const json_t *want) {
    const char *called = "";
    size_t classes = 0, index = 0;
    while (strcmp(called, name) != 0) assert_ok(clq_trainer_matrix(trainer, index++, &called, &classes));
    assert_int_equal(classes, json_array_size(want));
    uint64_t *counts = clq_alloc(classes * classes, sizeof *counts);
    assert_non_null(counts);
    assert_ok(clq_trainer_read_matrix(trainer, index - 1, CLQ_MATRIX_OF_EVALUATION, counts));
    for (size_t i = 0; i < classes * classes; i++)
        check_near(g, spec, name, 0, (double)counts[i],
                   json_number_value(json_array_get(json_array_get(want, i / classes), i % classes)), 0);
    clq_free(counts);
}

/* Compares the initial model's metrics over all samples with Keras's, which are computed in float32. */
static void check_metrics(const golden *g, const char *spec, clq_trainer *trainer, clq_dataset *data) {
    const char *name;
    json_t *value, *want = json_object_get(g->json, "metrics_initial");
    clq_totals totals;
    if (!want) return;
    assert_ok(clq_evaluate(trainer, data, &totals));
    assert_int_equal(totals.metrics.count + clq_trainer_matrix_count(trainer), json_object_size(want));
    json_object_foreach(want, name, value) {
        if (json_is_array(value))
            check_matrix(g, spec, trainer, name, value);
        else
            check_near(g, spec, name, 0, clq_metric_value(&totals.metrics, name), json_number_value(value), 2e-6);
    }
}

/* With several outputs, compares the loss of each one, without its weight. */
static void check_losses(const golden *g, const char *spec, const clq_model *model, const clq_step_info *info) {
    for (size_t i = 0; i < json_array_size(json_object_get(g->json, "outputs")); i++)
        check_near(g, spec, clq_model_output_name(model, i), info->step, value_of(model, i, &info->metrics, "loss"),
                   json_number_value(json_array_get(json_object_get(said_of(g, i), "loss"), info->step - 1)),
                   number(g, "tolerance", "loss"));
}

/* Compares the variables that the trace has after a step, named `prefix` and the variable's name. All moving statistics
 * must be there. */
static void check_variables(const golden *g, const char *spec, clq_trainer *trainer, const clq_model *model,
                            size_t step, const char *prefix) {
    char key[256];
    snprintf(key, sizeof key, "%zu", step);
    json_t *state = json_object_get(json_object_get(g->json, "state"), key);
    for (size_t i = 0; state && i < clq_model_variable_count(model); i++) {
        clq_variable_info variable;
        assert_ok(clq_model_variable(model, i, &variable));
        snprintf(key, sizeof key, "%s%s", prefix, variable.name);
        json_t *want = json_object_get(state, key);
        if (variable.trainable && !want) continue;
        assert_int_equal(count_numbers(want), variable.elements);
        float *values = clq_alloc(variable.elements, sizeof *values);
        double apart = 0, size = 0;
        assert_ok(clq_trainer_get_variable(trainer, i, values));
        for (size_t k = 0; k < variable.elements; k++) {
            double exact = number_at(want, k);
            apart += pow((double)values[k] - exact, 2);
            size += exact * exact;
        }
        if (!(sqrt(apart / size) <= number(g, "tolerance", "state")))
            fail_msg("%s on %s: %s behind step %zu is %.2g away from Keras's", g->name, spec, key, step,
                     sqrt(apart / size));
        clq_free(values);
    }
}

static void check_state(const golden *g, const char *spec, clq_trainer *trainer, const clq_model *model, size_t step) {
    check_variables(g, spec, trainer, model, step, "");
    if (g->config.average == 0.0 || step < g->steps) return;
    assert_ok(clq_trainer_swap_average(trainer));
    check_variables(g, spec, trainer, model, step, "average/");
    assert_ok(clq_trainer_swap_average(trainer));
}

/* Evaluates with the moving statistics and without dropout, if the trace has such an evaluation. */
static void check_evaluation(const golden *g, const char *spec, clq_trainer *trainer, clq_dataset *data,
                             const char *key) {
    clq_totals totals;
    if (!json_object_get(g->json, key)) return;
    assert_ok(clq_evaluate(trainer, data, &totals));
    check_near(g, spec, key, 0, totals.loss, number(g, key, "loss"), number(g, "tolerance", "evaluation"));
    assert_true(fabs(clq_metric_value(&totals.metrics, "accuracy") - number(g, key, "accuracy")) < 1e-9);
}

static void step_on(const golden *g, const char *spec, clq_trainer *trainer, const clq_model *model,
                    const clq_batch *batch, bool first) {
    if (golden_by.strategy)
        assert_ok(clq_step(trainer, batch));
    else {
        assert_ok(clq_step_gradients(trainer, batch));
        assert_ok(clq_step_reduce(trainer));
    }
    if (first) check_gradient_norms(g, spec, trainer, model);
    if (!golden_by.strategy) assert_ok(clq_step_apply(trainer));
}

/* Returns how many steps are compared. A trace with a moving average of the variables has its values only after the
 * last step, so all of its steps are run. */
static size_t steps_to_follow(const golden *g) {
    return golden_by.steps && g->config.average == 0.0 ? CLQ_MIN(golden_by.steps, g->steps) : g->steps;
}

static void train(const golden *g, const char *spec, clq_trainer *trainer, const clq_model *model, clq_dataset *data) {
    const size_t steps = steps_to_follow(g);
    json_t *losses = json_object_get(g->json, "loss"), *norms = json_object_get(g->json, "grad_norm");
    assert_int_equal(json_array_size(losses), g->steps);
    assert_ok(clq_dataset_seek(data, 0, 0));
    for (size_t step = 1; step <= steps;) {
        clq_batch batch;
        bool more;
        assert_ok(clq_dataset_next(data, &batch, &more));
        if (!more) continue; /* the next epoch */
        const bool ends = batch.index + 1 == clq_dataset_batches(data);
        if (g->pieces && !ends && (batch.index + 1) % g->pieces) {
            assert_ok(clq_step_accumulate(trainer, &batch));
            continue;
        }
        step_on(g, spec, trainer, model, &batch, step == 1);
        clq_step_info info;
        assert_ok(clq_step_read(trainer, &info));
        assert_int_equal(info.step, step);
        check_near(g, spec, "loss", step, info.loss, json_number_value(json_array_get(losses, step - 1)),
                   number(g, "tolerance", "loss"));
        check_losses(g, spec, model, &info);
        if (step == 1)
            check_near(g, spec, "gradient norm", step, info.grad_norm, json_number_value(json_array_get(norms, 0)),
                       number(g, "tolerance", "grad_norm"));
        check_state(g, spec, trainer, model, step);
        step++;
    }
}

static void follow(const golden *g, const char *spec, clq_trainer *trainer, const clq_model *model, clq_dataset *data) {
    check_accuracy(g, spec, trainer, data, model);
    check_metrics(g, spec, trainer, data);
    check_predictions(g, spec, trainer, data, model);
    check_evaluation(g, spec, trainer, data, "evaluation_initial");
    train(g, spec, trainer, model, data);
    if (steps_to_follow(g) == g->steps) check_evaluation(g, spec, trainer, data, "evaluation_final");
}

/* Whether a choice of the plans has a candidate behind the forced one. */
static bool has_more(const clq_trainer *trainer, const clq_selections *selections) {
    const clq_list *list = clq_plan_list(clq_strategy_plan(clq_trainer_strategy(trainer), 0));
    for (size_t i = 0; selections && i < clq_list_choice_count(list); i++)
        if (clq_list_choice(list, i)->count > selections->nth + 1) return true;
    return false;
}

static void synchronize(json_t *value) {
    const char *key;
    json_t *inner;
    size_t i;
    if (json_object_get(value, "synchronized")) json_object_set_new(value, "synchronized", json_true());
    json_object_foreach(value, key, inner) synchronize(inner);
    json_array_foreach(value, i, inner) synchronize(inner);
}

static clq_model *read_model(const golden *g) {
    char *path = path_in(g, "model.json");
    clq_model *model;
    if (golden_by.synchronized) {
        json_t *file;
        assert_ok(clq_json_read(path, 1 << 24, 32, &file));
        synchronize(file);
        clq_free(path);
        assert_non_null(path = clq_strprintf("%s/synchronized_%d.json", getenv("CLQ_TEST_BINARY"), (int)getpid()));
        assert_int_equal(json_dump_file(file, path, 0), 0);
        json_decref(file);
    }
    assert_ok(clq_model_read_keras_json(path, &model));
    if (golden_by.synchronized) assert_int_equal(unlink(path), 0);
    clq_free(path);
    return model;
}

clq_status golden_try(golden *g, const char *spec, const clq_selections *selections, bool *out_more) {
    clq_devices devices;
    clq_dataset *data;
    clq_trainer *trainer;
    clq_trainer_config config = g->config;
    clq_model *model = read_model(g);
    char *weights = path_in(g, "init.safetensors");
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_dataset_npy(g->folder, "train", &data));
    if (g->sample_weights) {
        char *path = path_in(g, g->sample_weights);
        assert_ok(clq_dataset_read_weights(data, path));
        clq_free(path);
    }
    assert_ok(clq_dataset_batch(data, g->batch / CLQ_MAX(g->pieces, (size_t)1), g->drop_remainder));
    config.global_batch = g->batch / CLQ_MAX(g->pieces, (size_t)1);
    config.strategy_options.micro_batches = golden_by.micro_batches;
    config.sample_dtype = clq_dataset_get_info(data)->sample_dtype;
    config.matmul_precision = golden_by.lowered ? CLQ_MATMUL_MEDIUM : CLQ_MATMUL_HIGHEST;
    config.strategy_options.staleness = 0;
    config.disabled_paths = golden_by.disabled_paths;
    if (golden_by.strategy)
        assert_ok(clq_strategy_parse(golden_by.strategy, &config.strategy, &config.strategy_options));
    if (golden_by.set) golden_by.set(&config, devices.count);
    const clq_status status = clq_trainer_create_with_selections(model, &devices, &config, selections, &trainer);
    if (status == CLQ_OK) {
        assert_ok(clq_trainer_load(trainer, weights));
        follow(g, spec, trainer, model, data);
        *out_more = has_more(trainer, selections);
        if (golden_by.look_at) golden_by.look_at(trainer);
        clq_trainer_destroy(trainer);
    }
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    clq_free(weights);
    return status;
}

bool golden_run(golden *g, const char *spec, const clq_selections *selections) {
    bool more = false;
    assert_ok(golden_try(g, spec, selections, &more));
    return more;
}

size_t golden_each(const char *group, void (*run)(golden *g, void *context), void *context) {
    char *root = clq_strprintf("%s/tests/golden/%s", getenv("CLQ_TEST_SOURCE"), group);
    struct dirent **entries;
    const int count = scandir(root, &entries, NULL, alphasort);
    size_t cases = 0;
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        golden g = {0};
        snprintf(g.name, sizeof g.name, "%.100s", entries[i]->d_name);
        snprintf(g.folder, sizeof g.folder, "%s/%s", root, g.name);
        char *path = path_in(&g, "case.json");
        if (g.name[0] != '.' && clq_file_exists(path)) {
            assert_ok(clq_json_read(path, 1 << 24, 32, &g.json));
            read_options(&g);
            run(&g, context);
            json_decref(g.json);
            cases++;
        }
        clq_free(path);
        free(entries[i]);
    }
    free(entries);
    clq_free(root);
    return cases;
}

bool golden_has_statistics(const golden *g) {
    return strstr(g->folder, "/normalised/") != NULL || strcmp(g->name, "mobilenet_v2") == 0;
}

bool golden_leaves_steps_out(const golden *g) { return strncmp(g->name, "padded_", 7) == 0; }

bool golden_refusal_is_documented(void) {
    const char *refusal = clq_error_detail();
    static const char *const limits[] = {
        "statistics of the global batch", "leaves masked steps out",
        "can be cut into at most",        "has a regulariser, which this strategy does not support",
        "has constraints on its weights", "devices could split"};
    bool found = false;
    for (size_t i = 0; i < CLQ_COUNT_OF(limits); i++) found = found || strstr(refusal, limits[i]);
    return found && !strchr(refusal, '\n');
}
