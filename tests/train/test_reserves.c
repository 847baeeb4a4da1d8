/* Room for later members. Each struct of the headers that has some, and that a program fills in, is refused if this
 * room is not 0. */
#include "support/files.h"
#include "support/system.h"
#include "train/train.h"
#include <clique/callbacks.h>
#include <clique/custom.h>
#include <clique/world.h>

static const float samples[4][2] = {{1, 2}, {0, 1}, {3, 1}, {1, 1}}, targets[4] = {1, 2, 3, 4};

static clq_model *line(void) {
    clq_model *model;
    assert_ok(clq_model_create("line", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(2));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    return model;
}

static clq_status try_trainer(const clq_trainer_config *changed, const clq_devices *with) {
    clq_model *model = line();
    clq_devices devices;
    clq_trainer *trainer = NULL;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    const clq_status status = clq_trainer_create(model, with ? with : &devices, changed, &trainer);
    if (status == CLQ_OK) clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    return status;
}

static clq_trainer_config fitting(void) {
    clq_trainer_config config = clq_trainer_config_default();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    return config;
}

#define OF_TRAINER(name, member)                                                                                       \
    static clq_status name(void) {                                                                                     \
        clq_trainer_config config = fitting();                                                                         \
        config.member.reserved[0] = 1;                                                                                 \
        return try_trainer(&config, NULL);                                                                             \
    }
OF_TRAINER(clip, clip)
OF_TRAINER(loss, loss)
OF_TRAINER(options, strategy_options)
OF_TRAINER(compression, strategy_options.compression)
OF_TRAINER(group_of_trainer, group)

static clq_status output(void) {
    clq_output_config other = clq_output_config_default("dense");
    clq_trainer_config config = fitting();
    config.outputs = &other;
    config.output_count = 1;
    other.reserved[3] = 1;
    return try_trainer(&config, NULL);
}
static clq_status optimizer(void) {
    clq_optimizer_config other = {.variables = "dense", .optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD)};
    clq_trainer_config config = fitting();
    config.optimizers = &other;
    config.optimizer_count = 1;
    other.reserved[3] = 1;
    return try_trainer(&config, NULL);
}
static clq_status devices(void) {
    const clq_trainer_config config = fitting();
    clq_devices with;
    assert_ok(clq_devices_select(sys, "pocl:0", &with));
    with.reserved[3] = 1;
    return try_trainer(&config, &with);
}
static clq_status devices_of_generator(void) {
    clq_model *model = line();
    clq_devices with;
    clq_generator *made;
    assert_ok(clq_devices_select(sys, "pocl:0", &with));
    with.reserved[0] = 1;
    const clq_status status = clq_generator_create(model, &with, &(clq_generator_config){.whole_window = true}, &made);
    clq_model_destroy(model);
    return status;
}
static clq_status devices_of_check(void) {
    const clq_custom_operation own = {.name = "own", .source = "", .forward = "f"};
    clq_devices with;
    assert_ok(clq_devices_select(sys, "pocl:0", &with));
    with.reserved[1] = 1;
    return clq_custom_check(&with, &own, &CLQ_SHAPE(2), 1, 0, NULL);
}
static clq_status system_config(void) {
    clq_system *system;
    return clq_system_open(&(clq_system_config){.reserved[3] = 1}, &system);
}
static clq_status world(void) {
    clq_world *world;
    return clq_world_open(&(clq_world_config){.reserved[3] = 1}, &world);
}
static clq_status group(void) {
    clq_device *device;
    clq_comm *comm;
    assert_ok(clq_device_open(sys, (clq_device_choice){.index = 0}, &device));
    const clq_status status = clq_comm_create(&device, 1, &(clq_group_config){.reserved[5] = 1}, &comm);
    clq_device_close(device);
    return status;
}
static clq_status generator(void) {
    clq_model *model = line();
    clq_devices with;
    clq_generator *made;
    assert_ok(clq_devices_select(sys, "pocl:0", &with));
    clq_generator_config config = {.whole_window = true};
    memset(config.reserved, 1, 1);
    const clq_status status = clq_generator_create(model, &with, &config, &made);
    clq_model_destroy(model);
    return status;
}
static clq_status allocator(void) { return clq_set_allocator(&(clq_allocator){.reserved[3] = sys}); }

static clq_status batch(void) {
    const clq_trainer_config config = fitting();
    clq_model *model = line();
    clq_devices with;
    clq_trainer *trainer;
    assert_ok(clq_devices_select(sys, "pocl:0", &with));
    assert_ok(clq_trainer_create(model, &with, &config, &trainer));
    clq_batch own = {.count = 4,
                     .samples = samples,
                     .sample_elements = 2,
                     .sample_dtype = CLQ_F32,
                     .labels = targets,
                     .float_labels = true,
                     .label_elements = 1};
    assert_ok(clq_step(trainer, &own));
    own.reserved[3] = samples;
    const clq_status status = clq_step(trainer, &own);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    return status;
}

/* A builder's config: finishing the model fails with what was wrong with the config. */
typedef clq_tensor (*builder)(clq_model *model);
static clq_status build(builder make, clq_shape input) {
    clq_model *model;
    assert_ok(clq_model_create("built", &model));
    (void)input;
    const clq_status status = clq_model_finish(model, make(model));
    clq_model_destroy(model);
    return status;
}
#define OF_LAYER(name, call, shape_of, type, ...)                                                                      \
    static clq_tensor make_##name(clq_model *model) {                                                                  \
        const type config = {.reserved[3] = 1, __VA_ARGS__};                                                           \
        return call(model, clq_input(model, shape_of), &config);                                                       \
    }                                                                                                                  \
    static clq_status name(void) { return build(make_##name, shape_of); }
#define IMAGE CLQ_SHAPE(8, 8, 2)
#define VOLUME CLQ_SHAPE(8, 8, 8, 2)
#define STEPS CLQ_SHAPE(8, 2)
OF_LAYER(dense, clq_dense, CLQ_SHAPE(2), clq_dense_config, .units = 1)
OF_LAYER(conv2d, clq_conv2d, IMAGE, clq_conv2d_config, .filters = 1, .kernel = {2, 2})
OF_LAYER(conv2d_transpose, clq_conv2d_transpose, IMAGE, clq_conv2d_config, .filters = 1, .kernel = {2, 2})
OF_LAYER(conv1d, clq_conv1d, STEPS, clq_conv1d_config, .filters = 1, .kernel = 2)
OF_LAYER(conv3d, clq_conv3d, VOLUME, clq_conv3d_config, .filters = 1, .kernel = {2, 2, 2})
OF_LAYER(conv3d_transpose, clq_conv3d_transpose, VOLUME, clq_conv3d_config, .filters = 1, .kernel = {2, 2, 2})
OF_LAYER(depthwise, clq_depthwise_conv2d, IMAGE, clq_depthwise_conv2d_config, .kernel = {2, 2})
OF_LAYER(separable, clq_separable_conv2d, IMAGE, clq_separable_conv2d_config, .filters = 1, .depthwise.kernel = {2, 2})
OF_LAYER(max_pool, clq_max_pool2d, IMAGE, clq_pool_config, .name = "p")
OF_LAYER(average_pool, clq_average_pool2d, IMAGE, clq_pool_config, .name = "p")
OF_LAYER(max_pool1d, clq_max_pool1d, STEPS, clq_pool1d_config, .name = "p")
OF_LAYER(average_pool1d, clq_average_pool1d, STEPS, clq_pool1d_config, .name = "p")
OF_LAYER(max_pool3d, clq_max_pool3d, VOLUME, clq_pool3d_config, .name = "p")
OF_LAYER(average_pool3d, clq_average_pool3d, VOLUME, clq_pool3d_config, .name = "p")
OF_LAYER(batch_norm, clq_batch_norm, IMAGE, clq_batch_norm_config, .epsilon = 1e-3)
OF_LAYER(layer_norm, clq_layer_norm, IMAGE, clq_row_norm_config, .epsilon = 1e-3)
OF_LAYER(rms_norm, clq_rms_norm, IMAGE, clq_row_norm_config, .epsilon = 1e-3)
OF_LAYER(group_norm, clq_group_norm, IMAGE, clq_row_norm_config, .groups = 1)
OF_LAYER(embedding, clq_embedding, CLQ_SHAPE(4), clq_embedding_config, .rows = 3, .width = 2)
OF_LAYER(dropout, clq_dropout, IMAGE, clq_dropout_config, .rate = 0.5)

static clq_tensor make_separable_inside(clq_model *model) {
    const clq_separable_conv2d_config config = {.filters = 1, .depthwise = {.kernel = {2, 2}, .reserved[0] = 1}};
    return clq_separable_conv2d(model, clq_input(model, IMAGE), &config);
}
static clq_status separable_inside(void) { return build(make_separable_inside, IMAGE); }
static clq_tensor make_recurrent(clq_model *model) {
    const clq_recurrent_config config = {.units = 2, .reserved[3] = 1};
    return clq_recurrent(model, clq_input(model, STEPS), CLQ_CELL_GRU, &config);
}
static clq_status recurrent(void) { return build(make_recurrent, STEPS); }
static clq_tensor make_bidirectional(clq_model *model) {
    const clq_recurrent_config config = {.units = 2, .reserved[3] = 1};
    return clq_bidirectional(model, clq_input(model, STEPS), CLQ_CELL_GRU, &config);
}
static clq_status bidirectional(void) { return build(make_bidirectional, STEPS); }
static clq_tensor make_attention(clq_model *model) {
    const clq_attention_config config = {.heads = 1, .key = 2, .reserved[3] = 1};
    clq_tensor x = clq_input(model, STEPS);
    return clq_attention(model, CLQ_TENSORS(x, x), &config);
}
static clq_status attention(void) { return build(make_attention, STEPS); }
static clq_tensor make_expression(clq_model *model) {
    const clq_expression_config config = {.reserved[3] = 1};
    return clq_expression(model, "x * x", CLQ_TENSORS(clq_input(model, STEPS)), &config);
}
static clq_status expression(void) { return build(make_expression, STEPS); }
static clq_tensor make_custom(clq_model *model) {
    const clq_custom_operation own = {.name = "own", .source = "", .forward = "f", .reserved[3] = sys};
    return clq_custom(model, &own, CLQ_TENSORS(clq_input(model, STEPS)), "own");
}
static clq_status custom(void) { return build(make_custom, STEPS); }
static clq_tensor make_initialiser(clq_model *model) {
    const clq_dense_config config = {.units = 1, .kernel_initialiser = {.reserved[1] = 1}};
    return clq_dense(model, clq_input(model, STEPS), &config);
}
static clq_status initialiser(void) { return build(make_initialiser, STEPS); }
static clq_tensor make_constraint(clq_model *model) {
    const clq_constraint config = {.kind = CLQ_CONSTRAINT_NON_NEGATIVE, .reserved[1] = 1};
    clq_tensor y = clq_dense(model, clq_input(model, STEPS), &(clq_dense_config){.units = 1});
    return clq_constrain(model, y, "kernel", &config);
}
static clq_status constraint(void) { return build(make_constraint, STEPS); }

static const struct {
    const char *type;
    clq_status (*call)(void);
} cases[] = {{"clq_clip", clip},
             {"clq_loss", loss},
             {"clq_strategy_options", options},
             {"clq_compression", compression},
             {"clq_group_config", group_of_trainer},
             {"clq_group_config", group},
             {"clq_output_config", output},
             {"clq_optimizer_config", optimizer},
             {"clq_devices", devices},
             {"clq_devices", devices_of_generator},
             {"clq_devices", devices_of_check},
             {"clq_system_config", system_config},
             {"clq_world_config", world},
             {"clq_batch", batch},
             {"clq_dense_config", dense},
             {"clq_conv2d_config", conv2d},
             {"clq_conv2d_config", conv2d_transpose},
             {"clq_conv1d_config", conv1d},
             {"clq_conv3d_config", conv3d},
             {"clq_conv3d_config", conv3d_transpose},
             {"clq_depthwise_conv2d_config", depthwise},
             {"clq_separable_conv2d_config", separable},
             {"clq_depthwise_conv2d_config", separable_inside},
             {"clq_pool_config", max_pool},
             {"clq_pool_config", average_pool},
             {"clq_pool1d_config", max_pool1d},
             {"clq_pool1d_config", average_pool1d},
             {"clq_pool3d_config", max_pool3d},
             {"clq_pool3d_config", average_pool3d},
             {"clq_batch_norm_config", batch_norm},
             {"clq_row_norm_config", layer_norm},
             {"clq_row_norm_config", rms_norm},
             {"clq_row_norm_config", group_norm},
             {"clq_embedding_config", embedding},
             {"clq_attention_config", attention},
             {"clq_recurrent_config", recurrent},
             {"clq_recurrent_config", bidirectional},
             {"clq_dropout_config", dropout},
             {"clq_expression_config", expression},
             {"clq_custom_operation", custom},
             {"clq_initialiser", initialiser},
             {"clq_constraint", constraint},
             {"clq_generator_config", generator},
             {"clq_allocator", allocator}};

static void what_is_not_known_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        char says[128];
        (void)snprintf(says, sizeof says, "%s.reserved is not 0", cases[i].type);
        const clq_status status = cases[i].call();
        if (status != CLQ_ERROR_ARGUMENT || !strstr(clq_error_detail(), says))
            fail_msg("case %zu, %s: %s: %s", i, cases[i].type, clq_status_text(status), clq_error_detail());
    }
}

/* Structs that the library fills in, and structs that other tests try (train/settings, train/sampling, interop). */
static const char *const others[] = {"clq_device_info", "clq_variable_info",  "clq_checkpoint_counts",
                                     "clq_comm_times",  "clq_part_tensor",    "clq_custom_report",
                                     "clq_totals",      "clq_generator_info", "clq_early_stopping_result",
                                     "clq_callback",    "clq_monitor",        "clq_early_stopping",
                                     "clq_reduce_lr",   "clq_sampling",       "clq_keras_sizes"};

static bool is_tried(const char *type) {
    bool found = false;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) found = found || strcmp(cases[i].type, type) == 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(others); i++) found = found || strcmp(others[i], type) == 0;
    return found;
}

static size_t try_header(const char *path) {
    size_t found = 0;
    bool reserves = false;
    size_t bytes;
    char *text = files_get(path, &bytes), *rest = text;
    for (char *at; (at = strsep(&rest, "\n"));) {
        char type[64];
        if (strncmp(at, "typedef struct", 14) == 0) reserves = false;
        reserves = reserves || strstr(at, " reserved[") || strstr(at, "*reserved[");
        if (!reserves || sscanf(at, "} clq_%50[a-z0-9_];", type) != 1) continue;
        char name[80];
        (void)snprintf(name, sizeof name, "clq_%s", type);
        if (!is_tried(name)) fail_msg("%s: no case for %s", path, name);
        found++;
        reserves = false;
    }
    free(text);
    return found;
}

static void all_headers_are_tried(void **state) {
    (void)state;
    char folder[512], path[1024];
    size_t found = 0;
    (void)snprintf(folder, sizeof folder, "%s/include/clique", getenv("CLQ_TEST_SOURCE"));
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strstr(entry->d_name, ".h")) found += try_header(path);
    }
    closedir(listing);
    assert_true(found >= 45);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_not_known_is_refused),
                                       cmocka_unit_test(all_headers_are_tried)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
