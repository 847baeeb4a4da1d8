/* <clique/settings.h>: trainers and fits made by settings equal those made by configs. */
#include "support/files.h"
#include "support/settings.h"
#include "support/system.h"

/* ---- trainers ---- */

enum { N = 12, IN = 3, VALUES = IN * 2 + 2 + 2 + 1 };
static const float samples[N * IN] = {1, -2, 0.5f, 0,  1, 1,     2, 0, -1, 0.25f, -1, 3, -1, -1, 0,  1, 2, 3,
                                      1, 1,  1,    -2, 2, 0.75f, 0, 0, 1,  1.5f,  -1, 0, 0,  2,  -2, 3, 2, 1};
static const float places[N * 2] = {-3, 1, 0.5f,  2,  -1, -4, 5, 0, 0, 0, 1, 1,
                                    -2, 3, 0.25f, -1, 4,  -5, 1, 2, 0, 1, 2, 3};
static const float sizes[N] = {1, 0, -2, 3, 0.5f, -1, 2, 4, -3, 1, 2, 0};

static clq_dataset *make_data(void) {
    clq_dataset *data;
    static const size_t shape[] = {IN};
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, N, 1, shape, places, CLQ_F32, 2, &data));
    assert_ok(clq_dataset_add_labels(data, sizes, CLQ_F32, 1));
    assert_ok(clq_dataset_batch(data, 4, false));
    return data;
}

static void read_all(clq_trainer *trainer, float values[VALUES]) {
    static const size_t counts[] = {IN * 2, 2, 2, 1};
    for (size_t i = 0; i < CLQ_COUNT_OF(counts); i++) {
        assert_ok(clq_trainer_get_variable(trainer, i, values));
        values += counts[i];
    }
}

static clq_settings *for_training(void) {
    static const char *const texts[][2] = {{"loss", "size=huber"},
                                           {"loss", "mse"},
                                           {"loss-weight", "size=0.5"},
                                           {"batch", "4"},
                                           {"optimizer", "adagrad"},
                                           {"learning-rate", "0.25"},
                                           {"sample-dtype", "f32"},
                                           {"seed", "3"},
                                           {"devices", "pocl:0"},
                                           {"metrics", "mae"},
                                           {"optimizer-of", "size/kernel=sgd:lr=0.125"}};
    clq_settings *settings = make_settings();
    for (size_t i = 0; i < CLQ_COUNT_OF(texts); i++) assert_ok(clq_settings_set(settings, texts[i][0], texts[i][1]));
    return settings;
}

/* The same trainer as for_training describes. */
static clq_trainer *by_config(const clq_model *model, clq_output_config outputs[2], clq_optimizer_config *other) {
    clq_trainer_config config = clq_trainer_config_default();
    clq_devices devices;
    clq_trainer *trainer;
    outputs[0] = clq_output_config_default("place");
    outputs[1] = clq_output_config_default("size");
    outputs[0].loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    outputs[1].loss = clq_loss_default(CLQ_LOSS_HUBER);
    outputs[1].weight = 0.5;
    outputs[0].metrics = outputs[1].metrics = "mae";
    *other = (clq_optimizer_config){.variables = "size/kernel", .optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD)};
    other->optimizer.values[0] = 0.125;
    config.outputs = outputs;
    config.output_count = 2;
    config.global_batch = 4;
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_ADAGRAD);
    config.optimizer.values[0] = 0.25;
    config.optimizers = other;
    config.optimizer_count = 1;
    config.sample_dtype = CLQ_F32;
    config.seed = 3;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static clq_status count_epochs(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    (void)trainer;
    (void)info;
    ++*(unsigned *)context;
    return CLQ_OK;
}

/* A fit by settings, with a callback of the program's own, and with checkpoints from which another fit resumes. */
static void trainers_by_settings_are_those_by_configs(void **state) {
    (void)state;
    char folder[] = "/tmp/clique-settings-XXXXXX", table[64], checkpoints[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(table, sizeof table, "%s/t.csv", folder);
    (void)snprintf(checkpoints, sizeof checkpoints, "%s/c", folder);
    clq_model *model = make_two_outputs();
    clq_dataset *data = make_data();
    clq_output_config outputs[2];
    clq_optimizer_config other;
    clq_trainer *config_made = by_config(model, outputs, &other), *made;
    unsigned epochs = 0;
    const clq_callback own = {.name = "own", .context = &epochs, .on_epoch = count_epochs};
    clq_settings *settings = for_training();
    assert_ok(clq_settings_create_trainer(settings, sys, model, &made));
    assert_ok(clq_settings_set(settings, "epochs", "2"));
    assert_ok(clq_settings_set(settings, "csv", table));
    assert_ok(clq_settings_set(settings, "checkpoint", checkpoints));
    assert_ok(clq_settings_fit(settings, made, data, data, &own, 1));
    assert_int_equal(epochs, 2);
    assert_int_equal(access(table, R_OK), 0);
    assert_ok(clq_fit(config_made, data, &(clq_fit_config){.epochs = 2}));
    float of_settings[VALUES], of_config[VALUES];
    read_all(made, of_settings);
    read_all(config_made, of_config);
    assert_memory_equal(of_settings, of_config, sizeof of_config);
    /* The fit resumes at the checkpoint: nothing is left of two epochs. */
    clq_trainer_destroy(made);
    assert_ok(clq_settings_create_trainer(settings, sys, model, &made));
    assert_fails(CLQ_ERROR_ARGUMENT, "resume", clq_settings_fit(settings, made, data, NULL, NULL, 0));
    assert_ok(clq_settings_set(settings, "resume", "1"));
    assert_ok(clq_settings_set(settings, "csv", NULL));
    assert_ok(clq_settings_fit(settings, made, data, NULL, NULL, 0));
    read_all(made, of_settings);
    assert_memory_equal(of_settings, of_config, sizeof of_config);
    clq_settings_destroy(settings);
    clq_trainer_destroy(made);
    clq_trainer_destroy(config_made);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    assert_int_equal(files_remove(folder), 0);
}

static void fits_are_refused(void **state) {
    (void)state;
    clq_model *model = make_two_outputs();
    clq_dataset *data = make_data();
    clq_trainer *trainer;
    clq_settings *settings = for_training();
    assert_ok(clq_settings_create_trainer(settings, sys, model, &trainer));
    assert_ok(clq_settings_set(settings, "keep", "2"));
    assert_fails(CLQ_ERROR_ARGUMENT, "keep needs 'checkpoint'",
                 clq_settings_fit(settings, trainer, data, NULL, NULL, 0));
    assert_ok(clq_settings_set(settings, "keep", NULL));
    assert_ok(clq_settings_set(settings, "monitor", "loss"));
    assert_fails(CLQ_ERROR_ARGUMENT, "save-best", clq_settings_fit(settings, trainer, data, NULL, NULL, 0));
    assert_ok(clq_settings_set(settings, "monitor", NULL));
    assert_ok(clq_settings_set(settings, "devices", "pocl:99"));
    clq_trainer *none = NULL;
    assert_fails(CLQ_ERROR_NO_DEVICE, "pocl:99", clq_settings_create_trainer(settings, sys, model, &none));
    assert_null(none);
    clq_settings_destroy(settings);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* The trainer decides what excludes a callback. Its config may have more than the settings say, and later settings do
 * not change it. */
static void fits_go_by_the_trainer(void **state) {
    (void)state;
    clq_model *model = make_two_outputs();
    clq_dataset *data = make_data();
    clq_trainer *trainer, *plain;
    clq_trainer_config config;
    clq_devices devices;
    clq_settings *settings = for_training();
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_settings_trainer_config(settings, model, 1, &config));
    config.average = 0.5;
    assert_ok(clq_lr_schedule_parse("cosine:decay_steps=100", &config.schedule));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_settings_create_trainer(settings, sys, model, &plain));
    assert_ok(clq_settings_set(settings, "epochs", "1"));
    assert_ok(clq_settings_set(settings, "early-stopping", "monitor=loss,restore_best=1"));
    assert_fails(CLQ_ERROR_ARGUMENT, "restore_best", clq_settings_fit(settings, trainer, data, NULL, NULL, 0));
    assert_ok(clq_settings_set(settings, "ema", "0.5"));
    assert_ok(clq_settings_fit(settings, plain, data, NULL, NULL, 0));
    assert_ok(clq_settings_set(settings, "early-stopping", NULL));
    assert_ok(clq_settings_set(settings, "reduce-lr", "monitor=loss"));
    assert_fails(CLQ_ERROR_ARGUMENT, "reduce-lr and 'schedule'",
                 clq_settings_fit(settings, trainer, data, NULL, NULL, 0));
    assert_ok(clq_settings_set(settings, "schedule", "cosine:decay_steps=10"));
    assert_ok(clq_settings_fit(settings, plain, data, NULL, NULL, 0));
    clq_settings_destroy(settings);
    clq_trainer_destroy(trainer);
    clq_trainer_destroy(plain);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void the_learning_rate_changes(void **state) {
    (void)state;
    clq_model *model = make_two_outputs();
    clq_dataset *data = make_data();
    clq_trainer *trainer;
    clq_step_info info;
    clq_settings *settings = for_training();
    assert_ok(clq_settings_set(settings, "steps", "1"));
    assert_ok(clq_settings_create_trainer(settings, sys, model, &trainer));
    assert_ok(clq_settings_fit(settings, trainer, data, NULL, NULL, 0));
    assert_ok(clq_step_read(trainer, &info));
    assert_int_equal(info.step, 1);
    assert_true(info.lr == 0.25);
    assert_ok(clq_trainer_set(trainer, "learning-rate", "0.5"));
    assert_fails(CLQ_ERROR_ARGUMENT, "expected a number", clq_trainer_set(trainer, "learning-rate", "fast"));
    assert_fails(CLQ_ERROR_ARGUMENT, "stays what the trainer was made with", clq_trainer_set(trainer, "batch", "8"));
    assert_fails(CLQ_ERROR_ARGUMENT, "did you mean 'learning-rate'?", clq_trainer_set(trainer, "learning_rate", "1"));
    assert_ok(clq_settings_fit(settings, trainer, data, NULL, NULL, 0));
    assert_ok(clq_step_read(trainer, &info));
    assert_true(info.lr == 0.5);
    clq_settings_destroy(settings);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* The system has the memory limit of the settings. */
static void systems_have_their_settings(void **state) {
    (void)state;
    clq_settings *settings = make_settings();
    clq_system *limited;
    clq_model *model = make_two_outputs();
    clq_trainer *trainer = NULL;
    assert_ok(clq_settings_set(settings, "memory-limit", "1000"));
    assert_ok(clq_settings_set(settings, "loss", "mse"));
    assert_ok(clq_settings_set(settings, "devices", "pocl:0"));
    assert_ok(clq_settings_open_system(settings, &limited));
    assert_fails(CLQ_ERROR_DEVICE_MEMORY, "1000 bytes",
                 clq_settings_create_trainer(settings, limited, model, &trainer));
    clq_system_close(limited);
    clq_model_destroy(model);
    clq_settings_destroy(settings);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(trainers_by_settings_are_those_by_configs),
                                       cmocka_unit_test(fits_are_refused), cmocka_unit_test(fits_go_by_the_trainer),
                                       cmocka_unit_test(the_learning_rate_changes),
                                       cmocka_unit_test(systems_have_their_settings)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
