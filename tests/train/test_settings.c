/* The table of settings: its rows are complete, keys contain what the rows say, and configs are checked. */
#include "support/check.h"
#include "support/system.h"
#include "device/device.h"
#include "strategy/module.h"
#include "train/callbacks.h"
#include "train/checkpoint.h"
#include "train/train.h"
#include "train/trainer.h"
#include <clique/callbacks.h>

#include <math.h>
#include <string.h>

/* Help lists each option in a group, and no two groups have the same key word. It begins with ten options of train. */
static void help_has_each_option(void **state) {
    (void)state;
    const clq_setting *row;
    unsigned usual = 0;
    size_t of_group[CLQ_HELP_COUNT] = {0};
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        assert_true((row->group != CLQ_HELP_NONE) == (row->commands != 0));
        assert_true(row->group < CLQ_HELP_COUNT);
        of_group[row->group]++;
        usual += row->usual && (row->commands & CLQ_COMMAND_TRAIN);
    }
    assert_int_equal(usual, 10);
    for (unsigned group = CLQ_HELP_NONE + 1; group < CLQ_HELP_COUNT; group++) {
        assert_true(of_group[group] > 0);
        assert_true(strlen(clq_setting_group_title((clq_help_group)group)) > 0);
        for (unsigned other = 0; other < group; other++)
            assert_string_not_equal(clq_setting_group_key((clq_help_group)group),
                                    clq_setting_group_key((clq_help_group)other));
    }
}

static bool is_one_of_two(const clq_setting *a, const clq_setting *b) { return !(a->commands & b->commands); }

static void rows_are_whole(void **state) {
    (void)state;
    const clq_setting *row, *other;
    size_t count = 0;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++, count++) {
        assert_true((row->value != NULL) == (row->type != CLQ_SETTING_FLAG));
        assert_non_null(row->help);
        const bool names_files = row->value && (strstr(row->value, "FILE") || strstr(row->value, "DIR"));
        assert_int_equal(row->file.use != CLQ_FILE_NONE, names_files);
        if (names_files) assert_int_equal(row->type, CLQ_SETTING_TEXT);
        assert_true(row->field < sizeof(clq_settings) && row->commands <= CLQ_COMMANDS_ALL);
        if (row->type == CLQ_SETTING_COUNT) assert_true(row->min < row->max);
        /* Defaults are taken unchecked. */
        clq_settings taken = {0};
        const char *initial = row->initial ? row->initial : row->implied;
        if (initial) assert_ok(clq_settings_take(&taken, row, initial));
        if (row->initial) assert_true(row->type == CLQ_SETTING_TEXT || row->type == CLQ_SETTING_COUNT);
        if (row->member.type == CLQ_MEMBER_KIND) assert_true(row->member.count > 1 && row->member.name_of(0) != NULL);
        if (row->member.type == CLQ_MEMBER_OWN) assert_non_null(row->member.write);
        if (row->keys || row->strategies) assert_true(row->member.type != CLQ_MEMBER_NONE);
        for (size_t k = 0; k < i; k++) {
            other = clq_setting_row(k);
            if (strcmp(other->name, row->name) == 0) assert_true(is_one_of_two(other, row));
        }
    }
    assert_true(count > 60);
}

static clq_hash128 key_of(const clq_trainer_config *config, unsigned key, clq_strategy_kind strategy) {
    clq_text text = {0};
    clq_settings_add_key(config, key, strategy, &text);
    assert_false(text.failed);
    const clq_hash128 hash = clq_hash128_of(text.data, text.length, 0);
    clq_free(text.data);
    return hash;
}

/* What is changed, and the keys that must change with it. */
typedef struct change {
    clq_trainer_config config;
    unsigned keys;
} change;

static void keys_have_what_matters(void **state) {
    (void)state;
    enum { P = CLQ_KEY_PREDICTION, S = CLQ_KEY_STAGES, C = CLQ_KEY_CHOICE, CASES = 15 };
    static const unsigned all[] = {P, S, C};
    const clq_trainer_config config = clq_trainer_config_default();
    change cases[CASES];
    for (size_t i = 0; i < CASES; i++) cases[i] = (change){.config = config};
#define CHANGE(i, member, value, changed) (cases[i].config.member = (value), cases[i].keys = (changed))
    CHANGE(0, precision, CLQ_PRECISION_MIXED, P | S | C);
    CHANGE(1, recompute, CLQ_RECOMPUTE_ALL, P | S | C);
    CHANGE(2, matmul_precision, CLQ_MATMUL_HIGH, P | S | C);
    CHANGE(3, clip, ((clq_clip){.kind = CLQ_CLIP_NORM, .limit = 1}), P);
    CHANGE(4, global_batch, 65, P | C);
    CHANGE(5, loss, clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR), P | S);
    CHANGE(6, sample_dtype, CLQ_F32, P | S);
    CHANGE(7, check_numerics, true, P | S);
    CHANGE(8, strategy_options.local_steps, 5, C);
    CHANGE(9, strategy_options.micro_batches, 5, 0); /* of pipelines, but the key is that of mirrored */
    CHANGE(10, seed, 5, 0);
    CHANGE(11, optimizer.values[0], 5, 0);
    CHANGE(12, optimizer, clq_optimizer_default(CLQ_OPTIMIZER_SGD), P | C);
    CHANGE(13, average, 0.5, P);
    CHANGE(14, disabled_paths, "overlap", P | S | C);
#undef CHANGE
    for (size_t i = 0; i < CASES; i++)
        for (size_t k = 0; k < CLQ_COUNT_OF(all); k++) {
            const clq_hash128 before = key_of(&config, all[k], CLQ_STRATEGY_MIRRORED),
                              after = key_of(&cases[i].config, all[k], CLQ_STRATEGY_MIRRORED);
            if ((memcmp(&before, &after, sizeof before) != 0) != ((cases[i].keys & all[k]) != 0))
                fail_msg("case %zu, key %u", i, all[k]);
        }
}

/* The same paths in another order give the same text. */
static void disabled_paths_have_one_text(void **state) {
    (void)state;
    static const char *const texts[] = {"one launch,overlap", "overlap,one launch", "overlap,one launch,overlap,"};
    clq_trainer_config config = clq_trainer_config_default();
    for (size_t i = 0; i < CLQ_COUNT_OF(texts); i++) {
        config.disabled_paths = texts[i];
        clq_text text = {0};
        clq_settings_add_key(&config, CLQ_KEY_CHOICE, CLQ_STRATEGY_MIRRORED, &text);
        assert_false(text.failed);
        expect_text(text.data, "disable-paths one launch,overlap\n");
        clq_free(text.data);
    }
}

static clq_model *make_model(void) {
    clq_model *model;
    assert_ok(clq_model_create("bias", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(1));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    return model;
}

static clq_trainer_config working(void) {
    clq_trainer_config config = clq_trainer_config_default();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    return config;
}

/* If nothing is given, the code does what the table says. */
static void implied_defaults_hold(void **state) {
    (void)state;
    clq_settings settings = {0};
    clq_made_config *made = clq_alloc(1, sizeof *made);
    clq_model *model = make_model();
    clq_fit_config fit = {0};
    clq_watch watch;
    clq_trainer *trainer;
    clq_devices devices;
    const clq_trainer_config config = working();
    clq_settings_init(&settings);
    assert_non_null(made);
    assert_ok(clq_settings_make(&settings, model, 1, made));
    assert_string_equal(clq_loss_row_of(made->config.outputs[0].loss.kind)->name, "sparse_categorical_crossentropy");
    made->config.precision = CLQ_PRECISION_MIXED;
    const clq_loss_scaling scaling = clq_mixed_scaling(&made->config);
    clq_fit_set_length(&settings, &fit);
    assert_ok(clq_watch_open(&watch, &(clq_monitor){.min_delta = 0}, "a callback"));
    assert_string_equal(watch.monitor.name, "val_loss");
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    const struct {
        const char *key;
        double value;
    } held[] = {{"build-deadline", CLQ_BUILD_DEADLINE_S},
                {"batch", (double)made->config.global_batch},
                {"epochs", (double)fit.epochs},
                {"validation-freq", (double)fit.validation_freq},
                {"seed", (double)made->config.seed},
                {"staleness", made->config.strategy_options.staleness},
                {"backup", made->config.strategy_options.backup},
                {"deadline", clq_strategy_deadline(trainer->strategy)},
                {"keep", CLQ_CHECKPOINTS_KEPT},
                {"loss-scale", (double)scaling.initial},
                {"loss-scale-interval", scaling.interval},
                {"trace-steps", (double)made->config.trace_steps},
                {"parts", made->config.parts},
                {"part", made->config.part}};
    const clq_setting *row;
    size_t compared = 2, implied = 0; /* the loss and the monitor are compared above */
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        double value;
        for (size_t k = 0; row->implied && k < CLQ_COUNT_OF(held); k++) {
            if (strcmp(row->name, held[k].key) != 0) continue;
            compared++;
            if (!clq_parse_number(row->implied, &value) || value != held[k].value)
                fail_msg("%s: %s, not %g", row->name, row->implied, held[k].value);
        }
        implied += row->implied != NULL;
    }
    assert_int_equal(compared, implied);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_made_config_release(made);
    clq_free(made);
}

/* Each config breaks one rule of the headers. */
static void configs_are_checked(void **state) {
    (void)state;
    enum { CASES = 24 };
    static const char *const says[CASES] = {
        "tune 9 is none of clq_tuning",
        "tune -1 is none of clq_tuning",
        "recompute 9 is none of clq_recompute_kind",
        "matmul-precision 9 is none of clq_matmul_precision",
        "precision 9 is none of clq_precision",
        "cross-device-ops 99 is none of clq_algorithm",
        "transport 99 is none of clq_transport",
        "sample-dtype 99 is none of clq_dtype",
        "shares 9 is none of clq_shares_kind",
        "compress 9 is none of clq_compression_kind",
        "shard-optimizer is 2: expected 0 or 1",
        "a staleness of -1",
        "a staleness of 65537",
        "part 3 of 1",
        "budget is -1",
        "deadline is -1",
        "clq_strategy_options.unused is 1",
        "clq_strategy_options.reserved is not 0",
        "clq_loss.reserved is not 0",
        "strategy 99 is none of clq_strategy_kind",
        "clip 9 is none of clq_clip_kind",
        "budget is nan",
        "optimizer 99 is none of clq_optimizer_kind",
        "loss 99 is none of clq_loss_kind",
    };
    clq_trainer_config cases[CASES];
    for (size_t i = 0; i < CASES; i++) cases[i] = working();
    cases[0].tuning = (clq_tuning)9;
    cases[1].tuning = (clq_tuning)-1;
    cases[2].recompute = (clq_recompute_kind)9;
    cases[3].matmul_precision = (clq_matmul_precision)9;
    cases[4].precision = (clq_precision)9;
    cases[5].group.algorithm = (clq_algorithm)99;
    cases[6].group.transport = (clq_transport)99;
    cases[7].sample_dtype = (clq_dtype)99;
    cases[8].strategy_options.shares = (clq_shares_kind)9;
    cases[9].strategy_options.compression.kind = (clq_compression_kind)9;
    cases[10].strategy_options.shard_optimizer = 2;
    cases[11].strategy_options.staleness = -1;
    cases[12].strategy_options.staleness = CLQ_STALENESS_MAX + 1;
    cases[13].parts = 1, cases[13].part = 3;
    cases[14].tuning_s = -1;
    cases[15].group.deadline_s = -1;
    cases[16].strategy_options.unused = 1;
    cases[17].strategy_options.reserved[20] = 1;
    cases[18].loss.reserved[1] = 1;
    cases[19].strategy = (clq_strategy_kind)99;
    cases[20].clip.kind = (clq_clip_kind)9;
    cases[21].tuning_s = (double)NAN;
    cases[22].optimizer.kind = (clq_optimizer_kind)99;
    cases[23].loss.kind = (clq_loss_kind)99;
    clq_model *model = make_model();
    clq_devices devices;
    clq_trainer *trainer = NULL;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    for (size_t i = 0; i < CASES; i++)
        assert_fails(CLQ_ERROR_ARGUMENT, says[i], clq_trainer_create(model, &devices, &cases[i], &trainer));
    assert_null(trainer);
    clq_model_destroy(model);
}

static clq_status nothing(void *context, const clq_step_info *info) {
    (void)context;
    (void)info;
    return CLQ_OK;
}

static void fits_and_callbacks_are_checked(void **state) {
    (void)state;
    static const float sample[1] = {0};
    static const size_t shape[] = {1};
    clq_model *model = make_model();
    clq_devices devices;
    clq_trainer *trainer;
    clq_dataset *data;
    clq_callback callback = {.name = "own", .reserved[0] = &callback}, made;
    const clq_trainer_config config = working();
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_dataset_arrays(sample, CLQ_F32, 1, 1, shape, sample, CLQ_F32, 1, &data));
    assert_ok(clq_dataset_batch(data, 1, false));
    for (unsigned i = 0; i < 2; i++) /* without a log and with one */
        assert_fails(
            CLQ_ERROR_ARGUMENT, "log_every_s is -1",
            clq_fit(trainer, data, &(clq_fit_config){.epochs = 1, .log_every_s = -1, .on_log = i ? nothing : NULL}));
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_callback.reserved is not 0",
                 clq_fit(trainer, data, &(clq_fit_config){.epochs = 1, .callbacks = &callback, .callback_count = 1}));
    clq_early_stopping stop = {.reserved[3] = 1};
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_early_stopping.reserved is not 0", clq_callback_early_stopping(&stop, &made));
    stop = (clq_early_stopping){.monitor.reserved[0] = 1};
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_monitor.reserved is not 0", clq_callback_early_stopping(&stop, &made));
    clq_reduce_lr reduce = clq_reduce_lr_default();
    reduce.reserved[0] = 1;
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_reduce_lr.reserved is not 0", clq_callback_reduce_lr(&reduce, &made));
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_whole),
                                       cmocka_unit_test(help_has_each_option),
                                       cmocka_unit_test(keys_have_what_matters),
                                       cmocka_unit_test(disabled_paths_have_one_text),
                                       cmocka_unit_test(implied_defaults_hold),
                                       cmocka_unit_test(configs_are_checked),
                                       cmocka_unit_test(fits_and_callbacks_are_checked)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
