/* Callbacks of a fit under every strategy. If a strategy has the numbers of one device, callbacks decide as on one
 * device: rates fall after the same epochs, the fit ends after the same epoch, and the files have the same lines and
 * weights. If replicas have numbers of their own, the best epoch's weights that are restored are those in the file, and
 * they give that epoch's validation loss again. */
#include "support/runs.h"
#include "support/ways.h"
#include "train/resumed.h"
#include <clique/callbacks.h>

#include <math.h>

enum { EPOCHS = 9, EPOCH_STEPS = 4, SAVED = 3, LINES_MOST = 4000 };

/* ---- a program's own callback ---- */

typedef struct witness {
    clq_dataset *validation;
    double losses[EPOCHS * EPOCH_STEPS], rates[EPOCHS * EPOCH_STEPS], best;
    double trained[EPOCHS], validated[EPOCHS], evaluated[EPOCHS];
    uint64_t steps, epochs, begun, ended;
    uint64_t stop_at; /* after this step; 0: never */
} witness;

static clq_status begin(void *context, clq_trainer *trainer, const clq_fit_config *config) {
    witness *w = context;
    assert_non_null(config->callbacks);
    assert_int_equal(w->ended, w->begun++);
    return clq_trainer_wait(trainer);
}

static clq_status hear_step(void *context, clq_trainer *trainer, const clq_step_info *info) {
    witness *w = context;
    assert_int_equal(info->step, w->steps + 1);
    w->losses[w->steps] = info->loss;
    w->rates[w->steps++] = info->lr;
    return w->stop_at == info->step ? clq_fit_stop(trainer) : CLQ_OK;
}

/* Evaluates by itself, and then moves a bias a little. */
static clq_status hear_epoch(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    witness *w = context;
    const size_t bias = clq_model_variable_count(trainer->model) - 1;
    float values[16] = {0};
    clq_totals totals;
    assert_int_equal(info->epoch, w->epochs);
    CLQ_TRY(clq_evaluate(trainer, w->validation, &totals));
    w->trained[w->epochs] = info->train.loss;
    w->validated[w->epochs] = info->validation.loss;
    w->evaluated[w->epochs++] = totals.loss;
    CLQ_TRY(clq_trainer_get_variable(trainer, bias, values));
    values[0] += 0.01f;
    return clq_trainer_set_variable(trainer, bias, values);
}

static clq_status end_fit(void *context, clq_trainer *trainer, clq_status status) {
    witness *w = context;
    (void)trainer;
    w->ended++;
    return status == CLQ_OK ? CLQ_OK : clq_fail(CLQ_ERROR_INTERNAL, "the fit failed");
}

static clq_callback of_witness(witness *w) {
    return (clq_callback){.name = "witness",
                          .context = w,
                          .on_begin = begin,
                          .on_step = hear_step,
                          .on_epoch = hear_epoch,
                          .on_end = end_fit};
}

/* ---- a fit with all callbacks ---- */

enum { CSV, REDUCE, BEST, STOP, OWN, CALLBACKS };

typedef struct fitted {
    witness own;
    char table[LINES_MOST]; /* the lines of the CSV file */
    uint64_t best_epoch;
    double again; /* the validation loss with the final weights */
    size_t elements;
    float *weights, *saved; /* the final ones; those of the best epoch, from the file */
} fitted;

static void release(fitted *f) {
    clq_free(f->weights);
    clq_free(f->saved);
}

/* best_by: how much lower than the best a loss must be. */
static void open_all(witness *own, double best_by, const char *table, const char *best, clq_callback out[CALLBACKS]) {
    clq_reduce_lr reduce = clq_reduce_lr_default();
    const clq_monitor loss = {.min_delta = best_by};
    const clq_early_stopping stop = {.monitor = loss, .patience = 3, .restore_best_weights = true};
    assert_ok(clq_reduce_lr_parse("min_delta=0.15,patience=1,factor=0.5", &reduce));
    assert_ok(clq_callback_csv(table, false, &out[CSV]));
    assert_ok(clq_callback_reduce_lr(&reduce, &out[REDUCE]));
    assert_ok(clq_callback_save_best(best, &loss, &out[BEST]));
    assert_ok(clq_callback_early_stopping(&stop, &out[STOP]));
    out[OWN] = of_witness(own);
}

static void note_best(const clq_callback *stopping, fitted *f) {
    clq_early_stopping_result found;
    assert_ok(clq_early_stopping_read(stopping, &found));
    assert_true(found.has_best && found.restored_best_weights);
    f->best_epoch = found.best_epoch;
}

/* Leaves the trainer with the weights of the best epoch's file. */
static void fit(clq_trainer *trainer, clq_dataset *data, clq_dataset *validation, double best_by, fitted *f) {
    const char *table = files_path("epochs.csv"), *best = files_path("best.safetensors");
    clq_callback all[CALLBACKS];
    clq_totals totals;
    size_t bytes;
    f->own.validation = validation;
    f->elements = clq_model_parameter_count(trainer->model);
    open_all(&f->own, best_by, table, best, all);
    assert_ok(clq_fit(
        trainer, data,
        &(clq_fit_config){.epochs = EPOCHS, .validation = validation, .callbacks = all, .callback_count = CALLBACKS}));
    assert_true(f->own.begun == 1 && f->own.ended == 1);
    note_best(&all[STOP], f);
    for (size_t i = 0; i < CALLBACKS; i++) clq_callback_destroy(&all[i]);
    char *text = files_get(table, &bytes);
    snprintf(f->table, sizeof f->table, "%s", text);
    free(text);
    assert_ok(clq_evaluate(trainer, validation, &totals));
    f->again = totals.loss;
    f->weights = run_weights(trainer, trainer->model);
    assert_ok(clq_trainer_load(trainer, best));
    f->saved = run_weights(trainer, trainer->model);
}

/* ---- as on one device ---- */

static void fit_by(const way *w, uint64_t stop_at, fitted *f) {
    clq_model *model = run_model("mlp");
    clq_devices devices;
    clq_trainer *trainer;
    clq_dataset *data = run_data(), *validation;
    clq_trainer_config config = clq_trainer_config_default();
    *f = (fitted){.own.stop_at = stop_at};
    config.global_batch = RUN_BATCH;
    config.seed = 7;
    way_configure(w, &config);
    assert_ok(clq_optimizer_parse("adam:lr=0.004", &config.optimizer));
    assert_ok(clq_devices_select(sys, w->spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(open_synthetic("test", 2 * RUN_BATCH + RUN_LAST, &validation));
    assert_ok(clq_dataset_batch(validation, RUN_BATCH, false));
    fit(trainer, data, validation, 0.08, f);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_dataset_destroy(validation);
    clq_model_destroy(model);
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-4 * fabs(b); }

/* Lines have the same number of values, and all values are near. A line's first and last values are exactly the
 * same. */
static void check_table(const way *w, const char *a, const char *b) {
    if (strcspn(a, "\n") != strcspn(b, "\n") || strncmp(a, b, strcspn(a, "\n") + 1) != 0)
        fail_msg("%s: other columns: %s", w->name, a);
    a += strcspn(a, "\n") + 1;
    b += strcspn(b, "\n") + 1;
    for (bool first = true; *a && *b; a++, b++) {
        char *behind_a, *behind_b;
        const double x = strtod(a, &behind_a), y = strtod(b, &behind_b);
        const bool exact = first || *behind_b == '\n';
        if (behind_a == a || *behind_a != *behind_b || !(exact ? x == y : is_near(x, y)))
            fail_msg("%s: %.40s where one device has %.40s", w->name, a, b);
        a = behind_a, b = behind_b;
        first = *b == '\n';
    }
    if (*a || *b) fail_msg("%s: more lines, or fewer", w->name);
}

static void check_steps(const way *w, const witness *own, const witness *one) {
    assert_int_equal(own->steps, one->steps);
    assert_int_equal(own->epochs, one->epochs);
    for (size_t i = 0; i < one->steps; i++)
        if (own->rates[i] != one->rates[i] || !is_near(own->losses[i], one->losses[i]))
            fail_msg("%s: step %zu has loss %.9g at rate %g, not %.9g at %g", w->name, i + 1, own->losses[i],
                     own->rates[i], one->losses[i], one->rates[i]);
    for (size_t i = 0; i < one->epochs; i++)
        if (!is_near(own->trained[i], one->trained[i]) || !is_near(own->validated[i], one->validated[i]) ||
            !is_near(own->evaluated[i], own->validated[i]))
            fail_msg("%s: epoch %zu has losses %.9g, %.9g, %.9g, not %.9g, %.9g", w->name, i, own->trained[i],
                     own->validated[i], own->evaluated[i], one->trained[i], one->validated[i]);
}

static void check_weights(const char *name, const float *a, const float *b, size_t count, double tolerance) {
    double apart = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    if (!(sqrt(apart / size) <= tolerance)) fail_msg("%s: weights are %g apart", name, sqrt(apart / size));
}

/* The final weights are those of the best epoch, as in the file, and they give that epoch's loss. */
static void check_best(const char *name, const fitted *f, uint64_t best) {
    assert_true(f->own.epochs > best + 1);
    if (f->best_epoch != best) fail_msg("%s: epoch %d is the best", name, (int)f->best_epoch);
    check_weights(name, f->weights, f->saved, f->elements, 0);
    if (!is_near(f->again, f->own.validated[best]) || is_near(f->again, f->own.validated[f->own.epochs - 1]))
        fail_msg("%s: validation loss %.9g, not %.9g", name, f->again, f->own.validated[best]);
}

static void as_on_one_device(void **state) {
    (void)state;
    enum { BEST_EPOCH = 4, LAST_EPOCH = 7 };
    static const double rates[LAST_EPOCH + 1] = {1, 1, 1, 1, 0.5, 0.5, 0.25, 0.125};
    fitted one, f;
    fit_by(&way_single, 0, &one);
    assert_int_equal(one.own.epochs, LAST_EPOCH + 1);
    for (size_t i = 0; i < one.own.steps; i++) assert_true(one.own.rates[i] == 0.004 * rates[i / EPOCH_STEPS]);
    check_best("single", &one, BEST_EPOCH);
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        fit_by(&ways[i], 0, &f);
        check_steps(&ways[i], &f.own, &one.own);
        check_table(&ways[i], f.table, one.table);
        check_best(ways[i].name, &f, BEST_EPOCH);
        check_weights(ways[i].name, f.weights, one.weights, one.elements, 1e-4);
        release(&f);
    }
    release(&one);
}

/* A callback stops the fit in the middle of the second epoch, which ends there. */
static void a_callback_ends_the_fit(void **state) {
    (void)state;
    const uint64_t last = EPOCH_STEPS + 2;
    fitted one, f;
    fit_by(&way_single, last, &one);
    assert_true(one.own.steps == last && one.own.epochs == 2);
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        fit_by(&ways[i], last, &f);
        check_steps(&ways[i], &f.own, &one.own);
        check_table(&ways[i], f.table, one.table);
        check_weights(ways[i].name, f.weights, one.weights, one.elements, 1e-4);
        release(&f);
    }
    release(&one);
}

/* ---- with numbers of their own ---- */

/* No loss is better by more than 100, so the first epoch stays the best. Replicas have statistics and masks for their
 * own rows, weights between two averages, or updates in no certain order. */
static void best_weights_come_back(void **state) {
    (void)state;
    clq_model *models[] = {make_model(false, 8), make_model(true, 8)};
    for (size_t i = 0; i < CLQ_COUNT_OF(settings); i++) {
        clq_dataset *data = make_data(), *validation = make_data();
        clq_trainer *trainer = make_trainer(models[settings[i].synchronized], &settings[i], "adam:lr=0.01");
        fitted f = {0};
        fit(trainer, data, validation, 100, &f);
        check_best(settings[i].name, &f, 0);
        release(&f);
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
        clq_dataset_destroy(validation);
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++) clq_model_destroy(models[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_on_one_device), cmocka_unit_test(a_callback_ends_the_fit),
                                       cmocka_unit_test(best_weights_come_back)};
    return cmocka_run_group_tests(tests, start, end);
}
