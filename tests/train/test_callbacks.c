/* Callbacks of clq_fit: their decisions compared with Keras's (tests/golden/callbacks.py), their order, how they end a
 * fit, their states and files, and their failures. */
#include "support/apart.h"
#include "support/check.h"
#include "support/named.h"
#include "support/system.h"
#include "train/callbacks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The model is a bias alone. With a learning rate of 0.25 it goes from 0 towards 1: after e updates it is 1 - 2^-e. */
static const float sample[1] = {0}, target[1] = {1};
static const size_t shape[] = {1};
static clq_model *model;
static clq_dataset *data, *validation;

static clq_trainer *open_trainer(const char *spec, double lr, const char *schedule) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.metrics = "mae";
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    assert_ok(clq_optimizer_set(&config.optimizer, "lr", lr));
    assert_ok(clq_lr_schedule_parse(schedule, &config.schedule));
    assert_ok(clq_dataset_seek(data, 0, 0)); /* a fit that failed leaves the dataset after the last batch of an epoch */
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static float bias_of(clq_trainer *trainer) {
    float bias;
    assert_ok(clq_trainer_get_variable(trainer, 1, &bias));
    return bias;
}

static char *temporary(const char *name) {
    return clq_strprintf("%s/callbacks_%d_%s", getenv("CLQ_TEST_BINARY"), (int)getpid(), name);
}

/* ---- against Keras ---- */

static const char *text_of(json_t *options, const char *alias, char *text, size_t bytes) {
    const char *key;
    json_t *value;
    size_t length = (size_t)clq_format(text, bytes, "%s", json_object_get(options, "mode") ? "" : "mode=min");
    json_object_foreach(options, key, value) {
        const char *name = strcmp(key, "restore_best_weights") == 0 ? alias : key, *comma = length ? "," : "";
        length += (size_t)(json_is_string(value) ? clq_format(text + length, bytes - length, "%s%s=%s", comma, name,
                                                              json_string_value(value))
                                                 : clq_format(text + length, bytes - length, "%s%s=%g", comma, name,
                                                              json_is_true(value) ? 1.0 : json_number_value(value)));
    }
    return text;
}

/* JSON has neither NaN, which is written as null, nor infinity, which is written as a string. */
static double value_of(const json_t *value) {
    return json_is_number(value) ? json_number_value(value) : (double)(json_is_null(value) ? NAN : INFINITY);
}

/* The file appears after the same epochs as Keras's file. One callback sees two fits with half the epochs each. If
 * `saves`, its state is saved and restored into a new callback in between. */
static void play_saving(json_t *one, json_t *values, bool saves) {
    const char *mode = json_string_value(json_object_get(json_object_get(one, "options"), "mode"));
    const clq_monitor monitor = {.mode = mode ? CLQ_MONITOR_MAX : CLQ_MONITOR_MIN};
    const size_t count = json_array_size(values);
    clq_trainer *trainer = open_trainer("pocl:0", 0.5, "constant");
    char *path = temporary("saved.safetensors"), state[CLQ_CALLBACK_STATE_MAX];
    clq_callback callback, next;
    size_t saved = 0;
    json_t *wanted = json_object_get(one, "saved");
    assert_ok(clq_callback_save_best(path, &monitor, &callback));
    for (size_t epoch = 0; epoch < count; epoch++) {
        const clq_epoch_info info = {.epoch = epoch,
                                     .train.samples = 1,
                                     .validation = {.samples = 1, .loss = value_of(json_array_get(values, epoch))}};
        if (epoch == count / 2 && saves) {
            assert_ok(callback.save(callback.context, state, sizeof state));
            assert_ok(clq_callback_save_best(path, &monitor, &next));
            FILE *file = fopen(path, "w"); /* stands for the best weights so far */
            assert_true(file && fclose(file) == 0);
            assert_ok(next.restore(next.context, state));
            assert_int_equal(unlink(path), 0);
            clq_callback_destroy(&callback);
            callback = next;
        }
        if (epoch % (count / 2) == 0)
            assert_ok(callback.on_begin(callback.context, trainer, &(clq_fit_config){.validation = validation}));
        assert_ok(callback.on_epoch(callback.context, trainer, &info));
        const bool is = unlink(path) == 0;
        const bool should =
            (size_t)json_integer_value(json_array_get(wanted, saved)) == epoch && saved < json_array_size(wanted);
        if (is != should) fail_msg("save_best, sequence of case %s: epoch %zu", mode ? mode : "min", epoch);
        saved += is;
    }
    clq_callback_destroy(&callback);
    clq_free(path);
    clq_trainer_destroy(trainer);
}

/* If `saves`, the state is saved after each epoch and restored into a new callback. */
static void play(json_t *one, json_t *values, bool saves) {
    const char *kind = json_string_value(json_object_get(one, "callback"));
    const bool stopping = strcmp(kind, "early_stopping") == 0;
    clq_trainer *trainer = open_trainer("pocl:0", 0.5, "constant");
    const clq_fit_config config = {.validation = validation};
    clq_early_stopping stop = {.patience = 0};
    clq_reduce_lr reduce = clq_reduce_lr_default();
    clq_callback callback, next;
    char text[256], state[CLQ_CALLBACK_STATE_MAX];
    (void)text_of(json_object_get(one, "options"), "restore_best", text, sizeof text);
    assert_ok(stopping ? clq_early_stopping_parse(text, &stop) : clq_reduce_lr_parse(text, &reduce));
    assert_ok(stopping ? clq_callback_early_stopping(&stop, &callback) : clq_callback_reduce_lr(&reduce, &callback));
    assert_ok(callback.on_begin(callback.context, trainer, &config));
    trainer->fitting = true;
    size_t epoch = 0, count = json_array_size(values);
    json_t *rates = json_object_get(one, "rates");
    for (; epoch < count && !trainer->stop; epoch++) {
        const float marked = (float)epoch;
        clq_epoch_info info = {.epoch = epoch,
                               .train.samples = 1,
                               .validation = {.samples = 1, .loss = value_of(json_array_get(values, epoch))}};
        assert_ok(clq_trainer_set_variable(trainer, 1, &marked));
        assert_ok(callback.on_epoch(callback.context, trainer, &info));
        const double rate = trainer->config.optimizer.values[0],
                     wanted = rates ? json_number_value(json_array_get(rates, epoch)) : 0.5;
        if (fabs(rate / wanted - 1) > 1e-6) fail_msg("%s, epoch %zu: rate %g, not %g", text, epoch, rate, wanted);
        if (!saves) continue;
        assert_ok(callback.save(callback.context, state, sizeof state));
        assert_ok(stopping ? clq_callback_early_stopping(&stop, &next) : clq_callback_reduce_lr(&reduce, &next));
        assert_ok(next.restore(next.context, state));
        clq_callback_destroy(&callback);
        callback = next;
        assert_ok(callback.on_begin(callback.context, trainer, &config));
    }
    assert_ok(callback.on_end(callback.context, trainer, CLQ_OK));
    if (stopping) {
        clq_early_stopping_result found;
        assert_ok(clq_early_stopping_read(&callback, &found));
        if (!saves) assert_int_equal(found.stopped, json_is_true(json_object_get(one, "stopped")));
        if (epoch != (size_t)json_integer_value(json_object_get(one, "epochs")) ||
            trainer->stop != json_is_true(json_object_get(one, "stopped")))
            fail_msg("%s on sequence %d: ended behind %zu epochs", text,
                     (int)json_integer_value(json_object_get(one, "values")), epoch);
        if (!saves) assert_int_equal(bias_of(trainer), json_integer_value(json_object_get(one, "weights_of")));
    }
    clq_callback_destroy(&callback);
    clq_trainer_destroy(trainer);
}

static void decide_as_keras(void **state) {
    (void)state;
    json_t *file, *one, *cases;
    size_t i, stops = 0;
    char *path = clq_strprintf("%s/tests/golden/callbacks.json", getenv("CLQ_TEST_SOURCE"));
    assert_ok(clq_json_read(path, 1 << 20, 8, &file));
    clq_free(path);
    cases = json_object_get(file, "cases");
    assert_int_equal(json_array_size(cases), 112);
    json_array_foreach(cases, i, one) {
        json_t *values =
            json_array_get(json_object_get(file, "values"), (size_t)json_integer_value(json_object_get(one, "values")));
        stops += json_is_true(json_object_get(one, "stopped"));
        const bool saving = strcmp(json_string_value(json_object_get(one, "callback")), "save_best") == 0;
        (saving ? play_saving : play)(one, values, false);
        (saving ? play_saving : play)(one, values, true);
    }
    assert_true(stops > 10 && stops < 56);
    json_decref(file);
}

/* ---- in a fit ---- */

typedef struct witness {
    char seen[200];
    char mark;
    uint64_t stop_at, fail_at;      /* steps; 0: never */
    clq_status begins, ends, ended; /* what on_begin returns; what on_end returns; what on_end is told */
} witness;
static char order[200];

static void note(witness *w, char what) {
    const size_t length = strlen(order);
    if (length + 3 < sizeof order) snprintf(order + length, sizeof order - length, "%c%c", what, w->mark);
}
static clq_status witness_begin(void *context, clq_trainer *trainer, const clq_fit_config *config) {
    witness *w = context;
    assert_non_null(trainer);
    assert_non_null(config->callbacks);
    note(w, 'b');
    return w->begins == CLQ_OK ? CLQ_OK : clq_fail(w->begins, "does not begin");
}
static clq_status witness_step(void *context, clq_trainer *trainer, const clq_step_info *info) {
    witness *w = context;
    note(w, 's');
    if (info->step == w->stop_at) assert_ok(clq_fit_stop(trainer));
    return info->step == w->fail_at ? clq_fail(CLQ_ERROR_INTERRUPTED, "at step %d", (int)info->step) : CLQ_OK;
}
static clq_status witness_epoch(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    assert_non_null(trainer);
    assert_true(info->validation.samples == 1);
    note(context, 'e');
    return CLQ_OK;
}
static clq_status witness_end(void *context, clq_trainer *trainer, clq_status status) {
    witness *w = context;
    assert_non_null(trainer);
    note(w, 'z');
    w->ended = status;
    return w->ends == CLQ_OK ? CLQ_OK : clq_fail(w->ends, "does not end");
}

static clq_callback of_witness(witness *w) {
    return (clq_callback){.name = "witness",
                          .context = w,
                          .on_begin = witness_begin,
                          .on_step = witness_step,
                          .on_epoch = witness_epoch,
                          .on_end = witness_end};
}

static clq_status fit_two(clq_trainer *trainer, witness *a, witness *b, uint64_t epochs) {
    const clq_callback both[] = {of_witness(a), of_witness(b)};
    order[0] = '\0';
    return clq_fit(
        trainer, data,
        &(clq_fit_config){.epochs = epochs, .validation = validation, .callbacks = both, .callback_count = 2});
}

static void are_called_in_order(void **state) {
    (void)state;
    clq_trainer *trainer = open_trainer("pocl:0", 0.25, "constant");
    witness a = {.mark = '1'}, b = {.mark = '2'};
    assert_ok(fit_two(trainer, &a, &b, 2));
    assert_string_equal(order, "b1b2s1s2e1e2s1s2e1e2z1z2");
    assert_fails(CLQ_ERROR_STATE, "no clq_fit", clq_fit_stop(trainer));
    a.stop_at = 3; /* on_epoch still follows, and the fit does not fail */
    assert_ok(fit_two(trainer, &a, &b, 9));
    assert_string_equal(order, "b1b2s1s2e1e2z1z2");
    assert_int_equal(b.ended, CLQ_OK);
    b.fail_at = 5;
    assert_fails(CLQ_ERROR_INTERRUPTED, "at step 5", fit_two(trainer, &a, &b, 9));
    assert_string_equal(order, "b1b2s1s2e1e2s1s2z1z2");
    assert_int_equal(a.ended, CLQ_ERROR_INTERRUPTED);
    b = (witness){.mark = '2', .begins = CLQ_ERROR_WRITE};
    assert_fails(CLQ_ERROR_WRITE, "does not begin", fit_two(trainer, &a, &b, 1));
    assert_string_equal(order, "b1b2z1"); /* the second has not begun */
    assert_int_equal(a.ended, CLQ_ERROR_WRITE);
    a.ends = b.ends = CLQ_ERROR_READ; /* the fit returns the first failure */
    b.begins = CLQ_OK;
    assert_fails(CLQ_ERROR_READ, "does not end", fit_two(trainer, &a, &b, 1));
    assert_int_equal(a.ended, CLQ_OK);
    assert_int_equal(b.ended, CLQ_ERROR_READ);
    a = (witness){.mark = '1'};
    const clq_callback nameless = {.context = &a};
    assert_fails(CLQ_ERROR_ARGUMENT, "callback 0 has no name",
                 clq_fit(trainer, data, &(clq_fit_config){.epochs = 1, .callbacks = &nameless, .callback_count = 1}));
    clq_trainer_destroy(trainer);
}

/* The validation loss is lowest when the bias overshoots 1 least: rates above 1 swing it around 1, ever further. */
static void best_weights_are_put_back(void **state) {
    (void)state;
    static const char *const specs[] = {"pocl:0", "pocl:5"};
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        clq_trainer *trainer = open_trainer(specs[i], 1.25, "constant");
        clq_callback stop;
        clq_early_stopping config = {.patience = 3, .restore_best_weights = true};
        assert_ok(clq_callback_early_stopping(&config, &stop));
        const clq_fit_config fit = {.epochs = 20, .validation = validation, .callbacks = &stop, .callback_count = 1};
        clq_early_stopping_result found;
        assert_ok(clq_fit(trainer, data, &fit));
        assert_true(fabsf(bias_of(trainer) - 2.5f) < 1e-5f); /* after epoch 0: 1 + 1.5 */
        assert_ok(clq_early_stopping_read(&stop, &found));
        assert_true(found.stopped && found.restored_best_weights && found.has_best && found.best_epoch == 0);
        assert_true(fabs(found.best - 2.25) < 1e-5);
        /* A fit that fails keeps its last weights, and the callback starts afresh in a second fit. */
        witness w = {.mark = '1', .fail_at = 6};
        const clq_callback both[] = {stop, of_witness(&w)};
        assert_fails(CLQ_ERROR_ARGUMENT, "is not of clq_callback_early_stopping",
                     clq_early_stopping_read(&both[1], &found));
        clq_fit_config again = fit;
        again.callbacks = both;
        again.callback_count = 2;
        assert_fails(CLQ_ERROR_INTERRUPTED, "at step 6", clq_fit(trainer, data, &again));
        assert_true(fabsf(bias_of(trainer) - 4.375f) < 1e-4f);
        clq_callback_destroy(&stop);
        assert_null(stop.context);
        clq_trainer_destroy(trainer);
    }
}

/* The metric decides the direction, whatever the name of the output before it. */
static void direction_goes_by_the_metric(void **state) {
    static const struct {
        const char *name;
        clq_monitor_mode mode;
    } cases[] = {{"loss", CLQ_MONITOR_MIN},
                 {"val_loss", CLQ_MONITOR_MIN},
                 {"accuracy", CLQ_MONITOR_MAX},
                 {"val_head:a_accuracy", CLQ_MONITOR_MAX},
                 {"val_categorical_accuracy", CLQ_MONITOR_MAX},
                 {"mae", CLQ_MONITOR_MIN},
                 {"val_accident_mae", CLQ_MONITOR_MIN},
                 {"face_accuracy", CLQ_MONITOR_MAX},
                 {"positive_mean_squared_error", CLQ_MONITOR_MIN},
                 {"recall_loss", CLQ_MONITOR_MIN},
                 {"val_lossy_precision", CLQ_MONITOR_MAX},
                 {"my_own_auc", CLQ_MONITOR_MAX},
                 {"false_positives", CLQ_MONITOR_MIN},
                 {"binary_accuracy", CLQ_MONITOR_MAX},
                 {"acc", CLQ_MONITOR_MAX},
                 {"val_precision:threshold=0.7", CLQ_MONITOR_MAX},
                 {"val_false_alarm_precision:threshold=0.7", CLQ_MONITOR_MAX},
                 {"recall_mse", CLQ_MONITOR_MIN},
                 {"top_k_categorical_accuracy:k=2", CLQ_MONITOR_MAX},
                 {"val_pr_auc:num_thresholds=50", CLQ_MONITOR_MAX},
                 {"f1_score", CLQ_MONITOR_MAX},
                 {"cosine_similarity", CLQ_MONITOR_MAX},
                 {"perplexity", CLQ_MONITOR_MIN},
                 {"sparse_categorical_crossentropy", CLQ_MONITOR_MIN}};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_monitor monitor = {.mode = CLQ_MONITOR_AUTO};
        clq_watch watch;
        snprintf(monitor.name, sizeof monitor.name, "%s", cases[i].name);
        assert_ok(clq_watch_open(&watch, &monitor, "test"));
        if (watch.monitor.mode != cases[i].mode) fail_msg("%s: mode %d", cases[i].name, (int)watch.monitor.mode);
    }
}

static void refused(void **state) {
    (void)state;
    clq_trainer *trainer = open_trainer("pocl:0", 0.25, "constant"),
                *scheduled = open_trainer("pocl:0", 0.25, "constant:warmup=2");
    clq_callback callback;
    clq_reduce_lr reduce = clq_reduce_lr_default();
    clq_early_stopping stop = {.patience = 1};
    clq_fit_config fit = {.epochs = 1, .callbacks = &callback, .callback_count = 1};
    assert_ok(clq_callback_reduce_lr(&reduce, &callback));
    assert_fails(CLQ_ERROR_STATE, "schedule sets the learning rate", clq_fit(scheduled, data, &fit));
    assert_fails(CLQ_ERROR_ARGUMENT, "there is no validation: watch 'loss'", clq_fit(trainer, data, &fit));
    clq_callback_destroy(&callback);
    assert_ok(clq_early_stopping_parse("monitor=val_mea", &stop));
    assert_ok(clq_callback_early_stopping(&stop, &callback));
    fit.validation = validation;
    assert_fails(CLQ_ERROR_ARGUMENT,
                 "expected loss, mae, and each of these with val_ in front; did you mean 'val_mae'?",
                 clq_fit(trainer, data, &fit));
    assert_fails(CLQ_ERROR_FORMAT, "no state of this callback",
                 callback.restore(callback.context, "{\"callback\": \"csv\"}"));
    assert_fails(CLQ_ERROR_FORMAT, "no number 'best_value'",
                 callback.restore(callback.context, "{\"callback\": \"early_stopping\"}"));
    assert_fails(CLQ_ERROR_FORMAT, "", callback.restore(callback.context, "{"));
    char small[8];
    assert_fails(CLQ_ERROR_ARGUMENT, "there is room for 8", callback.save(callback.context, small, sizeof small));
    clq_callback_destroy(&callback);
    assert_fails(CLQ_ERROR_ARGUMENT, "did you mean 'patience'?", clq_early_stopping_parse("patiense=3", &stop));
    assert_fails(CLQ_ERROR_ARGUMENT, "'x=1': unknown key 'x'; it takes: ", clq_early_stopping_parse("x=1", &stop));
    assert_fails(CLQ_ERROR_ARGUMENT, "did you mean 'monitor'?", clq_reduce_lr_parse("monitr=loss", &reduce));
    assert_fails(CLQ_ERROR_ARGUMENT, "mode 'up' is unknown: expected auto, min or max",
                 clq_early_stopping_parse("mode=up", &stop));
    assert_fails(CLQ_ERROR_ARGUMENT, "patience=1.5 is not a whole number from 0 to",
                 clq_early_stopping_parse("patience=1.5", &stop));
    assert_fails(CLQ_ERROR_ARGUMENT, "factor=1 is not", clq_reduce_lr_parse("factor=1", &reduce));
    reduce.factor = 1;
    assert_fails(CLQ_ERROR_ARGUMENT, "factor 1 is not", clq_callback_reduce_lr(&reduce, &callback));
    clq_trainer_destroy(trainer);
    clq_trainer_destroy(scheduled);
}

/* ---- files ---- */

static void expect_file(const char *path, const char *wanted) {
    char text[2000] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, wanted);
}

static clq_status fit_csv(const char *path, bool append, const char *state, char *saved, uint64_t epochs) {
    clq_trainer *trainer = open_trainer("pocl:0", 0.25, "constant");
    clq_callback callback;
    clq_status status = clq_callback_csv(path, append, &callback);
    if (status == CLQ_OK) {
        if (state) assert_ok(callback.restore(callback.context, state));
        const clq_fit_config fit = {
            .epochs = epochs, .validation = validation, .callbacks = &callback, .callback_count = 1};
        status = clq_fit(trainer, data, &fit);
        if (saved) assert_ok(callback.save(callback.context, saved, CLQ_CALLBACK_STATE_MAX));
        clq_callback_destroy(&callback);
    }
    clq_trainer_destroy(trainer);
    return status;
}

#define HEADER "epoch,loss,mae,val_loss,val_mae,lr\n"
#define FIRST "0,1,1,0.25,0.5,0.25\n"
#define SECOND "1,0.25,0.5,0.0625,0.25,0.25\n"

static void epochs_become_a_table(void **state) {
    (void)state;
    char *path = temporary("table.csv"), saved[CLQ_CALLBACK_STATE_MAX];
    assert_ok(fit_csv(path, false, NULL, saved, 1));
    expect_file(path, HEADER FIRST);
    assert_ok(fit_csv(path, true, NULL, NULL, 2));
    expect_file(path, HEADER FIRST FIRST SECOND);
    assert_ok(fit_csv(path, false, saved, NULL, 1)); /* rows after the saved state are removed */
    expect_file(path, HEADER FIRST FIRST);
    assert_ok(fit_csv(path, false, NULL, NULL, 2));
    expect_file(path, HEADER FIRST SECOND);
    FILE *file = fopen(path, "w");
    fputs("epoch,loss\n0,3\n", file);
    fclose(file);
    assert_fails(CLQ_ERROR_MISMATCH, "its first line is not 'epoch,loss,mae,val_loss,val_mae,lr'",
                 fit_csv(path, true, NULL, NULL, 1));
    expect_file(path, "epoch,loss\n0,3\n");
    assert_int_equal(unlink(path), 0);
    clq_free(path);
    assert_fails(CLQ_ERROR_WRITE, "/no/such/folder/a.csv: cannot write",
                 fit_csv("/no/such/folder/a.csv", false, NULL, NULL, 1));
    assert_fails(CLQ_ERROR_WRITE, "/dev/full: cannot write: No space left", fit_csv("/dev/full", false, NULL, NULL, 1));
}

static void put_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Another program edits the table before training resumes. The state was saved after the first row. */
static void edited_tables_go_on(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"epoch,loss,mae,val_loss,val_mae,lr\r\n0,1,1,0.25,0.5,0.25\r\n1,0.25,0.5,0.0625,0.25,0.25\r\n",
         "epoch,loss,mae,val_loss,val_mae,lr\r\n0,1,1,0.25,0.5,0.25\r\n0,1,1,0.25,0.5,0.25\r\n"},
        {"\xef\xbb\xbf" HEADER FIRST, "\xef\xbb\xbf" HEADER FIRST FIRST},
        {"# run 7\n" HEADER "# a note\n\n" FIRST "# behind\n" SECOND "# and last\n",
         "# run 7\n" HEADER "# a note\n\n" FIRST "# behind\n" FIRST},
        {HEADER "0,1,1,0.25,0.5,0.25", HEADER FIRST FIRST}, /* the last line end is missing */
        {HEADER FIRST "1,0.25,0.5", HEADER FIRST FIRST},    /* the second row is cut off */
        {HEADER "\"0\",1,1,0.25,0.5,0.25\n", HEADER "\"0\",1,1,0.25,0.5,0.25\n" FIRST},
        {HEADER "1,0.25,0.5,0.0625,0.25,0.25\n", HEADER FIRST}, /* the first row is missing */
        {HEADER, HEADER FIRST},
        {"", HEADER FIRST},
    };
    char *path = temporary("edited.csv"), saved[CLQ_CALLBACK_STATE_MAX];
    assert_ok(fit_csv(path, false, NULL, saved, 1));
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        put_file(path, cases[i][0]);
        assert_ok(fit_csv(path, false, saved, NULL, 1));
        expect_file(path, cases[i][1]);
    }
    put_file(path, HEADER FIRST SECOND);
    assert_ok(fit_csv(path, false, "{\"callback\": \"csv\", \"bytes\": 55}", NULL, 1)); /* of an earlier version */
    expect_file(path, HEADER FIRST FIRST);
    put_file(path, "epoch;loss;mae;val_loss;val_mae;lr\n0;1;1;0,25;0,5;0,25\n");
    assert_fails(CLQ_ERROR_MISMATCH, "its first line is not", fit_csv(path, false, saved, NULL, 1));
    expect_file(path, "epoch;loss;mae;val_loss;val_mae;lr\n0;1;1;0,25;0,5;0,25\n");
    put_file(path, HEADER FIRST SECOND); /* rows of another training, to which this one appends */
    assert_ok(fit_csv(path, true, NULL, saved, 1));
    put_file(path, HEADER FIRST "# a note\n" SECOND FIRST SECOND);
    assert_ok(fit_csv(path, true, saved, NULL, 1));
    expect_file(path, HEADER FIRST "# a note\n" SECOND FIRST FIRST);
    assert_int_equal(unlink(path), 0);
    clq_free(path);
}

static void best_weights_go_into_a_file(void **state) {
    (void)state;
    char *path = temporary("best.safetensors");
    const clq_monitor monitor = {.mode = CLQ_MONITOR_AUTO};
    clq_callback best;
    clq_trainer *trainer = open_trainer("pocl:0", 1.25, "constant");
    assert_fails(CLQ_ERROR_WRITE, "save_best", clq_callback_save_best("/no/such/folder/b", &monitor, &best));
    assert_ok(clq_callback_save_best(path, &monitor, &best));
    const clq_fit_config fit = {.epochs = 3, .validation = validation, .callbacks = &best, .callback_count = 1};
    assert_ok(clq_fit(trainer, data, &fit));
    assert_true(fabsf(bias_of(trainer) - 4.375f) < 1e-4f); /* 1 + 1.5^3 */
    assert_ok(clq_trainer_load(trainer, path));
    assert_true(fabsf(bias_of(trainer) - 2.5f) < 1e-5f);
    clq_callback_destroy(&best);
    assert_int_equal(unlink(path), 0);
    clq_free(path);
    clq_trainer_destroy(trainer);
}

/* As Keras's validation_freq: validates after epochs whose number, from 1, it divides. A watch sees no other epoch. */
static void validations_are_left_out(void **state) {
    (void)state;
    char *path = temporary("freq.csv");
    const clq_early_stopping config = {.patience = 1};
    clq_callback both[2];
    clq_fit_config fit = {.validation = validation, .callbacks = both, .callback_count = 2};
    for (int diverges = 0; diverges < 2; diverges++) {
        clq_trainer *trainer = open_trainer("pocl:0", diverges ? 1.25 : 0.25, "constant");
        assert_ok(clq_callback_csv(path, false, &both[0]));
        assert_ok(clq_callback_early_stopping(&config, &both[1]));
        fit.epochs = diverges ? 9 : 4;
        fit.validation_freq = 10;
        assert_fails(CLQ_ERROR_ARGUMENT, "measured after every 10 epochs", clq_fit(trainer, data, &fit));
        fit.validation_freq = 2;
        assert_ok(clq_fit(trainer, data, &fit));
        for (int k = 0; k < 2; k++) clq_callback_destroy(&both[k]);
        if (!diverges)
            expect_file(path, HEADER "0,1,1,,,0.25\n" SECOND
                                     "2,0.0625,0.25,,,0.25\n3,0.015625,0.125,0.00390625,0.0625,0.25\n");
        if (diverges) assert_int_equal(trainer->step, 4); /* the second validation is worse than the first */
        clq_trainer_destroy(trainer);
    }
    assert_int_equal(unlink(path), 0);
    clq_free(path);
}

/* ---- memory ---- */

static clq_status make_all(clq_trainer *trainer) {
    clq_callback all[4] = {{0}};
    const clq_early_stopping stop = {.patience = 2, .restore_best_weights = true};
    const clq_reduce_lr reduce = clq_reduce_lr_default();
    const clq_monitor monitor = {.mode = CLQ_MONITOR_MIN};
    clq_status status = CLQ_ERROR_MEMORY;
    char *csv = temporary("memory.csv");
    if (csv) status = clq_callback_csv(csv, false, &all[0]);
    if (status == CLQ_OK) status = clq_callback_early_stopping(&stop, &all[1]);
    if (status == CLQ_OK) status = clq_callback_reduce_lr(&reduce, &all[2]);
    char *best = status == CLQ_OK ? clq_strprintf("%s.best", csv) : NULL;
    if (status == CLQ_OK) status = best ? clq_callback_save_best(best, &monitor, &all[3]) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK)
        status =
            clq_fit(trainer, data,
                    &(clq_fit_config){.epochs = 2, .validation = validation, .callbacks = all, .callback_count = 4});
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_callback_destroy(&all[i]);
    if (csv) (void)unlink(csv);
    if (best) (void)unlink(best);
    clq_free(csv);
    clq_free(best);
    return status;
}

/* Each run has a new trainer: the first fit of a trainer allocates more than later ones, and a trainer whose step
 * failed cannot go on. */
static void memory_runs_out(void **state) {
    (void)state;
    uint64_t failures = 0;
    bool more = true;
    for (uint64_t nth = 1; more; nth++) {
        clq_trainer *trainer = open_trainer("pocl:0", 0.25, "constant");
        clq_memory_fail_at(nth, false);
        clq_status status = make_all(trainer);
        more = clq_memory_fail_at(0, false) >= nth;
        failures += status != CLQ_OK;
        if (status != CLQ_OK && (status != CLQ_ERROR_MEMORY || !*clq_error_detail()))
            fail_msg("allocation %d: %s: %s", (int)nth, clq_status_text(status), clq_error_detail());
        clq_trainer_destroy(trainer);
    }
    assert_true(failures > 100);
}

static int start(void **state) {
    if (open_system(state) != 0) return -1;
    assert_ok(clq_model_create("bias", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(1));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    assert_ok(clq_dataset_arrays(sample, CLQ_F32, 1, 1, shape, target, CLQ_F32, 1, &data));
    assert_ok(clq_dataset_batch(data, 1, false));
    assert_ok(clq_dataset_arrays(sample, CLQ_F32, 1, 1, shape, target, CLQ_F32, 1, &validation));
    assert_ok(clq_dataset_batch(validation, 1, false));
    return 0;
}

static int finish(void **state) {
    clq_dataset_destroy(data);
    clq_dataset_destroy(validation);
    clq_model_destroy(model);
    return close_system(state);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decide_as_keras),
                                       cmocka_unit_test(are_called_in_order),
                                       cmocka_unit_test(best_weights_are_put_back),
                                       cmocka_unit_test(direction_goes_by_the_metric),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(epochs_become_a_table),
                                       cmocka_unit_test(edited_tables_go_on),
                                       cmocka_unit_test(best_weights_go_into_a_file),
                                       cmocka_unit_test(validations_are_left_out),
                                       cmocka_unit_test(memory_runs_out)};
    return run_named(argc, argv, tests, start, finish);
}
