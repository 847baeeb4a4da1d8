/* Trainings that resume from a checkpoint with other settings than those it was made with. */
#include "train/callbacks.h"
#include "train/checkpoint.h"
#include "train/resumed.h"

#include <math.h>

/* Both rules have two slots, but these mean different things. */
static void slots_of_another_rule_are_refused(void **state) {
    (void)state;
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data();
    uint64_t step = 77;
    clq_checkpoints *checkpoints = save_two(model, data, &settings[0], "rmsprop:centered=1", "slots");
    clq_trainer *trainer = make_trainer(model, &settings[0], "rmsprop:momentum=0.9");
    assert_int_equal(clq_checkpoints_restore(checkpoints, trainer, data, &step), CLQ_ERROR_MISMATCH);
    assert_non_null(strstr(clq_error_detail(), "rmsprop_centered"));
    assert_int_equal(step, 77);
    clq_trainer_destroy(trainer);
    clq_checkpoints_close(checkpoints);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* Two of four local steps were made. Now two are enough, so the next step ends with an average. */
static void fewer_local_steps(void **state) {
    (void)state;
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data();
    uint64_t step;
    clq_snapshot snapshot;
    setting fewer = settings[10];
    assert_int_equal(fewer.options.local_steps, 4);
    clq_checkpoints *checkpoints = save_two(model, data, &fewer, "sgd", "local");
    fewer.options.local_steps = 2;
    clq_trainer *trainer = make_trainer(model, &fewer, "sgd");
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
    make_steps(trainer, data, 1);
    assert_ok(clq_strategy_take_snapshot(clq_trainer_strategy(trainer), false, &snapshot));
    assert_int_equal(snapshot.local_steps, 0);
    clq_snapshot_release(&snapshot);
    clq_trainer_destroy(trainer);
    clq_checkpoints_close(checkpoints);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* The scale keeps its value. The number of halvings does not: it counts from the initial scale. */
static void scales_go_on_from_other_initial_ones(void **state) {
    static const double pairs[][2] = {{1e9, 0}, {1e30, 0}, {0, 1e9}, {0x1p126, 3}, {1, 1e30}, {3, 0x1p126}};
    (void)state;
    precision = CLQ_PRECISION_MIXED;
    for (unsigned i = 0; i < CLQ_COUNT_OF(pairs); i++) {
        clq_model *model = make_model(false, 8);
        clq_dataset *data = make_data();
        char name[32];
        double before, now;
        uint64_t step;
        snprintf(name, sizeof name, "scale-%u", i);
        clq_checkpoints *checkpoints = open_checkpoints(files_path(name));
        loss_scale = pairs[i][0];
        clq_trainer *trainer = make_trainer(model, &settings[0], "sgd");
        make_steps(trainer, data, 6);
        assert_ok(clq_trainer_loss_scale(trainer, &before, NULL));
        assert_ok(clq_checkpoints_save(checkpoints, trainer, data));
        clq_trainer_destroy(trainer);
        loss_scale = pairs[i][1];
        trainer = make_trainer(model, &settings[0], "sgd");
        assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
        assert_ok(clq_trainer_loss_scale(trainer, &now, NULL));
        if (!(now >= 1 && now <= 0x1p126 && fabs(log2(now / before)) <= (before < 2 ? 1 : 0.5)))
            fail_msg("from %g to %g: the scale was %g, and is %g", pairs[i][0], pairs[i][1], before, now);
        clq_trainer_destroy(trainer);
        clq_checkpoints_close(checkpoints);
        clq_dataset_destroy(data);
        clq_model_destroy(model);
    }
    precision = CLQ_PRECISION_F32;
    loss_scale = 0;
}

/* ---- the epoch's totals ---- */

typedef struct told {
    double sums[2]; /* of the steps' metrics, times their samples */
    size_t samples;
    clq_totals epoch;
} told;

static clq_status stop_at_two(void *context, const clq_step_info *info) {
    (void)context;
    return info->step == 2 ? clq_fail(CLQ_ERROR_INTERRUPTED, "stopped") : CLQ_OK;
}

static clq_status sum_steps(void *context, const clq_step_info *info) {
    told *t = context;
    t->samples += info->samples;
    for (unsigned k = 0; k < info->metrics.count; k++) t->sums[k] += (double)info->samples * info->metrics.values[k];
    return CLQ_OK;
}

static clq_status keep_epoch(void *context, const clq_epoch_info *info) {
    ((told *)context)->epoch = info->train;
    return CLQ_OK;
}

/* The checkpoint holds two of an epoch's five steps, with other metrics. The epoch's totals are those of the last three
 * steps. */
static void totals_of_other_metrics_begin_anew(void **state) {
    (void)state;
    for (unsigned changes = 0; changes < 2; changes++) {
        clq_model *model = make_model(false, 8);
        clq_dataset *data = make_data();
        told t = {0};
        uint64_t step;
        metrics = "top_k_categorical_accuracy:k=2,accuracy";
        clq_checkpoints *checkpoints = open_checkpoints(files_path(changes ? "metrics" : "same metrics"));
        clq_trainer *trainer = make_trainer(model, &settings[0], "sgd");
        clq_fit_config fit = {.epochs = 1, .context = &t, .on_step = stop_at_two, .checkpoints = checkpoints};
        assert_int_equal(clq_fit(trainer, data, &fit), CLQ_ERROR_INTERRUPTED);
        clq_trainer_destroy(trainer);
        if (changes) metrics = "accuracy,top_k_categorical_accuracy:k=2";
        trainer = make_trainer(model, &settings[0], "sgd");
        warned[0] = '\0';
        assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
        fit.on_step = sum_steps;
        fit.on_epoch = keep_epoch;
        assert_ok(clq_fit(trainer, data, &fit));
        assert_int_equal(strstr(warned, "its loss or metrics are others") != NULL, changes);
        assert_int_equal(t.samples, SAMPLES - 2 * BATCH);
        assert_int_equal(t.epoch.samples, changes ? t.samples : SAMPLES);
        for (unsigned k = 0; k < 2 && changes; k++)
            assert_true(fabs(t.epoch.metrics.values[k] - t.sums[k] / (double)t.samples) < 1e-6);
        clq_trainer_destroy(trainer);
        clq_checkpoints_close(checkpoints);
        clq_dataset_destroy(data);
        clq_model_destroy(model);
    }
    metrics = NULL;
}

static clq_status look_at_epoch(void *context, const clq_epoch_info *info) {
    unsigned *epochs = context;
    assert_int_equal(info->epoch, *epochs);
    assert_int_equal(info->train.samples, *epochs ? SAMPLES : 0);
    assert_int_equal(isnan(info->train.loss), *epochs == 0);
    assert_int_equal(isnan(info->train.metrics.values[0]), *epochs == 0);
    ++*epochs;
    return CLQ_OK;
}

/* The checkpoint holds a whole epoch, whose metrics were others. Callbacks leave this epoch out, and tables have no
 * values for it. */
static void an_epoch_without_totals_is_left_out(void **state) {
    (void)state;
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data();
    clq_checkpoints *checkpoints = open_checkpoints(files_path("an epoch"));
    clq_callback callbacks[2];
    clq_early_stopping stop = {.patience = 5};
    clq_early_stopping_result found;
    uint64_t step;
    unsigned epochs = 0;
    clq_fit_config fit = {.epochs = 1, .checkpoints = checkpoints};
    metrics = "accuracy";
    clq_trainer *trainer = make_trainer(model, &settings[0], "sgd");
    assert_ok(clq_fit(trainer, data, &fit));
    clq_trainer_destroy(trainer);
    metrics = "categorical_crossentropy";
    trainer = make_trainer(model, &settings[0], "sgd");
    assert_ok(clq_early_stopping_parse("monitor=categorical_crossentropy", &stop));
    assert_ok(clq_callback_early_stopping(&stop, &callbacks[0]));
    char *table = clq_strdup(files_path("epochs.csv"));
    assert_non_null(table);
    assert_ok(clq_callback_csv(table, false, &callbacks[1]));
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
    fit = (clq_fit_config){.epochs = 2,
                           .checkpoints = checkpoints,
                           .context = &epochs,
                           .on_epoch = look_at_epoch,
                           .callbacks = callbacks,
                           .callback_count = 2};
    assert_ok(clq_fit(trainer, data, &fit));
    assert_int_equal(epochs, 2);
    assert_ok(clq_early_stopping_read(&callbacks[0], &found));
    assert_true(found.has_best && found.best_epoch == 1);
    for (unsigned i = 0; i < 2; i++) clq_callback_destroy(&callbacks[i]);
    FILE *file = fopen(table, "r");
    char line[256];
    assert_non_null(file);
    for (unsigned i = 0; i < 2; i++) assert_non_null(fgets(line, sizeof line, file));
    assert_memory_equal(line, "0,,,", 4); /* epoch, loss, metric, rate */
    (void)fclose(file);
    clq_free(table);
    clq_trainer_destroy(trainer);
    clq_checkpoints_close(checkpoints);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    metrics = NULL;
}

/* ---- what replicas have of their own ---- */

static void read_replica(clq_trainer *trainer, const clq_model *model, unsigned replica, float *out) {
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, v, &info));
        assert_ok(clq_strategy_read_variable(clq_trainer_strategy(trainer), replica, v, false, out));
        out += info.elements;
    }
}

/* Reads what each replica has of its own: values of variables (0 for all others), and whether any compression error
 * differs from 0. Reading the variables themselves would first replace them by their mean. */
static bool read_own(clq_trainer *trainer, const clq_model *model, float out[2][WEIGHTS_MOST]) {
    size_t offsets[64] = {0};
    bool errors = false;
    clq_snapshot snapshot;
    clq_variable_info info;
    memset(out, 0, 2 * sizeof out[0]);
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        assert_ok(clq_model_variable(model, v, &info));
        offsets[v + 1] = offsets[v] + info.elements;
    }
    assert_ok(clq_strategy_take_snapshot(clq_trainer_strategy(trainer), false, &snapshot));
    for (size_t i = 0; i < snapshot.count; i++) {
        const clq_snapshot_entry *e = &snapshot.entries[i];
        const size_t elements = offsets[e->variable + 1] - offsets[e->variable];
        for (size_t k = 0; k < elements && e->kind == CLQ_SNAPSHOT_ERROR; k++) errors = errors || e->values[k] != 0.0f;
        if (e->kind == CLQ_SNAPSHOT_VALUE && e->replica >= 0 && e->replica < 2)
            memcpy(out[e->replica] + offsets[e->variable], e->values, elements * sizeof *e->values);
    }
    clq_snapshot_release(&snapshot);
    return errors;
}

typedef struct change {
    const char *name;
    setting before, now;
    bool own;             /* replicas resume with their own values */
    const char *told[2];  /* in the warning: the replicas before and now */
    bool errors, weights; /* each replica has compression errors, or weights, of its own */
} change;

#define TWO "pocl:0,pocl:1"
#define F16                                                                                                            \
    {                                                                                                                  \
        .compression = { CLQ_COMPRESSION_F16, 0 }                                                                      \
    }
static const change changes[] = {
    {"local steps end",
     {.spec = TWO, .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART, .options = {.local_steps = 4}},
     {.spec = TWO, .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART, .bucket_bytes = 64},
     false,
     {"mirrored with local steps on pocl:0, pocl:1,", "mirrored on pocl:0, pocl:1:"},
     .weights = true},
    {"other devices with local steps",
     {.spec = TWO, .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART, .options = {.local_steps = 4}},
     {.spec = "pocl:0,pocl:2", .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART, .options = {.local_steps = 4}},
     false,
     {"on pocl:0, pocl:1,", "on pocl:0, pocl:2:"},
     .weights = true},
    {"compression on other devices",
     {.spec = TWO, .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART, .options = F16},
     {.spec = "pocl:0,pocl:2", .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART, .options = F16},
     false,
     {"on pocl:0, pocl:1,", "on pocl:0, pocl:2:"},
     .errors = true},
    {"the same compression",
     {.spec = TWO, .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART, .options = F16},
     {.spec = TWO, .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART, .options = F16, .bucket_bytes = 64},
     true,
     .errors = true},
    {"synchronized statistics",
     {.spec = TWO, .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART},
     {.spec = TWO, .strategy = CLQ_STRATEGY_MIRRORED, .disabled = APART, .synchronized = true},
     false,
     {"mirrored on", "mirrored with synchronized statistics on"},
     .weights = true},
    {"more stages",
     {.spec = "pocl:0,pocl:1,pocl:2,pocl:3",
      .strategy = CLQ_STRATEGY_PIPELINE,
      .disabled = APART,
      .options = {.stages = 2}},
     {.spec = "pocl:0,pocl:1,pocl:2,pocl:3",
      .strategy = CLQ_STRATEGY_PIPELINE,
      .disabled = APART,
      .options = {.stages = 4}},
     false,
     {"pipeline of 2 stages cut in front of tensors 4 on", "pipeline of 4 stages cut in front of tensors 3, 5, 6 on"},
     .errors = false},
};

/* The shares are equal, so the mean is a plain one. */
static void check_means(clq_trainer *trainer, const clq_model *model, float before[2][WEIGHTS_MOST]) {
    static float now[2][WEIGHTS_MOST];
    size_t apart = 0;
    for (unsigned r = 0; r < 2; r++) read_replica(trainer, model, r, now[r]);
    assert_memory_equal(now[0], now[1], sizeof now[0]);
    for (size_t i = 0; i < WEIGHTS_MOST; i++) {
        const double mean = ((double)before[0][i] + (double)before[1][i]) / 2;
        if (before[0][i] == 0 && before[1][i] == 0) continue;
        apart += before[0][i] != before[1][i];
        assert_true(fabs((double)now[0][i] - mean) <= 1e-7 * fabs(mean));
    }
    assert_true(apart > 0);
}

/* Replicas take back their own values only if their settings keep these values apart as before. Otherwise they go on
 * with the mean, and a warning says what differs. */
static void go_on_changed(const change *c, unsigned number) {
    static float before[2][WEIGHTS_MOST];
    char name[32];
    uint64_t step;
    clq_model *model = make_model(c->before.synchronized, 8), *same = make_model(c->now.synchronized, 8);
    clq_dataset *data = make_data();
    snprintf(name, sizeof name, "change-%u", number);
    clq_checkpoints *checkpoints = open_checkpoints(files_path(name));
    clq_trainer *trainer = make_trainer(model, &c->before, "sgd");
    make_steps(trainer, data, 2);
    assert_int_equal(read_own(trainer, model, before), c->errors);
    assert_ok(clq_checkpoints_save(checkpoints, trainer, data));
    clq_checkpoints_wait(checkpoints);
    clq_trainer_destroy(trainer);
    trainer = make_trainer(same, &c->now, "sgd");
    warned[0] = '\0';
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
    if (c->own)
        assert_string_equal(warned, "");
    else if (!strstr(warned, c->told[0]) || !strstr(warned, c->told[1]))
        fail_msg("%s: warned: %s", c->name, warned);
    if (c->weights) check_means(trainer, same, before);
    assert_int_equal(read_own(trainer, same, before), c->errors && c->own);
    clq_trainer_destroy(trainer);
    clq_checkpoints_close(checkpoints);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    clq_model_destroy(same);
}

static void other_replicas_take_the_mean(void **state) {
    (void)state;
    for (unsigned i = 0; i < CLQ_COUNT_OF(changes); i++) {
        printf("%s\n", changes[i].name);
        go_on_changed(&changes[i], i);
    }
}

/* If all names for a skipped checkpoint are in use, an error says so and the checkpoint stays. The same holds if the
 * rename fails, here because the folder is gone. */
static void names_to_set_aside_run_out(void **state) {
    char path[700];
    const char *folder = files_path("aside");
    (void)state;
    assert_ok(clq_make_folder(folder));
    snprintf(path, sizeof path, "%s/step-%012d", folder, 7);
    assert_ok(clq_make_folder(path));
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(path, sizeof path, "%s/skipped-%012d-%u", folder, 7, i);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
    }
    assert_fails(CLQ_ERROR_WRITE, "already: remove them", clq_checkpoint_set_aside(folder, 7));
    assert_int_equal(files_count(folder), 1001);
    snprintf(path, sizeof path, "%s/skipped-%012d-%u", folder, 7, 500);
    assert_int_equal(remove(path), 0);
    assert_ok(clq_checkpoint_set_aside(folder, 7));
    assert_int_equal(files_count(folder), 1000);
    assert_int_equal(remove(path), 0);
    assert_fails(CLQ_ERROR_WRITE, "step-000000000007: cannot be renamed: ", clq_checkpoint_set_aside(folder, 7));
}

/* The checkpoint to resume from is whole, but the damaged one after it cannot be set aside: nothing changes. */
static void setting_aside_comes_first(void **state) {
    (void)state;
    char path[700];
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data();
    uint64_t step = 77, epoch, index;
    clq_checkpoints_close(save_two(model, data, &settings[0], "sgd", "damaged"));
    const char *folder = files_path("damaged");
    snprintf(path, sizeof path, "%s/step-%012d", folder, 7);
    assert_ok(clq_make_folder(path));
    snprintf(path, sizeof path, "%s/step-%012d/manifest.json", folder, 7);
    fclose(fopen(path, "w"));
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(path, sizeof path, "%s/skipped-%012d-%u", folder, 7, i);
        fclose(fopen(path, "w"));
    }
    clq_checkpoints *checkpoints = open_checkpoints(folder);
    clq_trainer *trainer = make_trainer(model, &settings[0], "sgd");
    assert_ok(clq_dataset_seek(data, 1, 3));
    assert_fails(CLQ_ERROR_WRITE, "already: remove them", clq_checkpoints_restore(checkpoints, trainer, data, &step));
    clq_dataset_tell(data, &epoch, &index);
    assert_true(step == 77 && trainer->step == 0 && epoch == 1 && index == 3);
    assert_int_equal(remove(path), 0);
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
    assert_int_equal(step, 2);
    clq_trainer_destroy(trainer);
    clq_checkpoints_close(checkpoints);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_of_another_rule_are_refused),    cmocka_unit_test(fewer_local_steps),
        cmocka_unit_test(scales_go_on_from_other_initial_ones), cmocka_unit_test(totals_of_other_metrics_begin_anew),
        cmocka_unit_test(an_epoch_without_totals_is_left_out),  cmocka_unit_test(other_replicas_take_the_mean),
        cmocka_unit_test(names_to_set_aside_run_out),           cmocka_unit_test(setting_aside_comes_first),
    };
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    return cmocka_run_group_tests(tests, start, end);
}
