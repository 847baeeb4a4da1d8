/* Counts, indices and enumerators of callers that are out of range. Each is refused in one line, whatever lies after
 * the struct or array that holds it. The address sanitizer sees any read or write there. */
#include "support/check.h"
#include "support/system.h"

#include <clique/clique.h>
#include <math.h>

enum { INPUTS = 3, SAMPLES = 8, BATCH = 4, LARGE = 1 << 30, NONE = 99 };

static clq_model *model;
static clq_dataset *data;
static clq_trainer *trainer;
static clq_devices one;
static float samples[SAMPLES * INPUTS];
static int32_t labels[SAMPLES];

static clq_trainer_config config_of(void) {
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    return config;
}

/* ---- devices ---- */

static void check_devices(clq_status status, const char *says, const clq_devices *devices) {
    clq_trainer_config config = config_of();
    clq_trainer *made = NULL;
    assert_fails(status, says, clq_trainer_create(model, devices, &config, &made));
    config.recompute = CLQ_RECOMPUTE_AUTO; /* counts bytes before devices are opened */
    assert_fails(status, says, clq_trainer_create(model, devices, &config, &made));
    config.group.transport = CLQ_TRANSPORT_PEER; /* looks for devices of one platform */
    assert_fails(status, says, clq_trainer_create(model, devices, &config, &made));
    assert_null(made);
}

static void devices(void **state) {
    (void)state;
    const uint32_t machine = (uint32_t)clq_system_device_count(sys);
    const uint32_t counts[] = {CLQ_REPLICAS_MAX + 1, CLQ_REPLICAS_MAX + 66, UINT32_MAX};
    clq_devices several = one;
    for (size_t i = 0; i < CLQ_COUNT_OF(counts); i++) {
        several.count = counts[i];
        check_devices(CLQ_ERROR_ARGUMENT, "expected 1 to 64", &several);
    }
    several.count = 0;
    check_devices(CLQ_ERROR_NO_DEVICE, "no device was selected", &several);
    several = one;
    several.count = 2;
    several.items[1].index = machine;
    check_devices(CLQ_ERROR_NO_DEVICE, "replica 1: device", &several);
    several = one;
    several.items[0] = (clq_device_choice){one.items[0].index, 3, 1};
    check_devices(CLQ_ERROR_ARGUMENT, "expected 0 to 0", &several);
    several.items[0] = (clq_device_choice){one.items[0].index, 7, 4};
    check_devices(CLQ_ERROR_ARGUMENT, "expected 0 to 3", &several);
    several = one;
    several.system = NULL;
    check_devices(CLQ_ERROR_ARGUMENT, "no system", &several);
    assert_null(clq_system_device_info(sys, machine));
    assert_null(clq_system_device_info(sys, SIZE_MAX));
}

/* If a struct names only the device, it means the whole device. */
static void a_device_without_parts(void **state) {
    (void)state;
    clq_devices whole = {.system = sys, .count = 1, .items = {{.index = one.items[0].index}}};
    const clq_trainer_config config = config_of();
    clq_trainer *made;
    assert_ok(clq_trainer_create(model, &whole, &config, &made));
    clq_trainer_destroy(made);
}

/* ---- trainers ---- */

static void trainers(void **state) {
    (void)state;
    clq_device_info device;
    clq_server_counts servers;
    const char *name;
    float out[INPUTS * 2];
    size_t share, shares[CLQ_REPLICAS_MAX];
    uint64_t step, counts[4];
    (void)servers;
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_trainer_replica(trainer, 1, &device, &share));
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_trainer_replica(trainer, UINT32_MAX, &device, &share));
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_trainer_share_change(trainer, 0, &step, shares));
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_trainer_share_change(trainer, SIZE_MAX, &step, shares));
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_trainer_get_variable(trainer, 2, out));
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_trainer_set_variable(trainer, SIZE_MAX, out));
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_trainer_get_gradient(trainer, 0, 2, out));
    assert_fails(CLQ_ERROR_ARGUMENT, "replica 1 is out of range", clq_trainer_get_gradient(trainer, 1, 0, out));
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_trainer_matrix(trainer, 0, &name, &share));
    assert_fails(CLQ_ERROR_ARGUMENT, "none of clq_matrix_source",
                 clq_trainer_read_matrix(trainer, 0, (clq_matrix_source)NONE, counts));
    assert_fails(CLQ_ERROR_ARGUMENT, "none of clq_matrix_source",
                 clq_trainer_read_matrix(trainer, 0, (clq_matrix_source)-1, counts));
    clq_optimizer optimizer = clq_optimizer_default((clq_optimizer_kind)NONE);
    assert_fails(CLQ_ERROR_ARGUMENT, "none of clq_optimizer_kind", clq_optimizer_set(&optimizer, "lr", 1.0));
    (void)clq_loss_default((clq_loss_kind)NONE);
    assert_string_equal(clq_precision_name((clq_precision)NONE), "?");
}

static void values_by_name(void **state) {
    (void)state;
    struct {
        clq_metric_values values;
        const char *behind[64];
    } many = {.values = {.count = LARGE}};
    for (size_t i = 0; i < CLQ_METRIC_VALUES_MAX; i++) many.values.names[i] = "accuracy";
    assert_true(isnan(clq_metric_value(&many.values, "loss")));
}

/* ---- batches and data ---- */

static void batches(void **state) {
    (void)state;
    const clq_labels more[2] = {{.values = labels}, {.values = labels}};
    const clq_batch good = {
        .count = BATCH, .samples = samples, .sample_elements = INPUTS, .sample_dtype = CLQ_F32, .labels = labels};
    clq_batch batch = good;
    batch.count = LARGE;
    assert_fails(CLQ_ERROR_ARGUMENT, "larger than the global batch", clq_step(trainer, &batch));
    batch.count = SIZE_MAX;
    assert_fails(CLQ_ERROR_ARGUMENT, "larger than the global batch", clq_step_gradients(trainer, &batch));
    batch = good;
    batch.sample_elements = LARGE;
    assert_fails(CLQ_ERROR_MISMATCH, "takes 3", clq_step(trainer, &batch));
    batch = good;
    batch.sample_dtype = (clq_dtype)NONE;
    assert_fails(CLQ_ERROR_MISMATCH, "trainer was made for", clq_step(trainer, &batch));
    batch = good;
    batch.label_elements = LARGE;
    assert_fails(CLQ_ERROR_MISMATCH, "a label", clq_step(trainer, &batch));
    batch = good;
    batch.more_labels = more;
    batch.more_count = SIZE_MAX;
    assert_fails(CLQ_ERROR_MISMATCH, "labels for", clq_step(trainer, &batch));
    batch.more_count = 2;
    assert_fails(CLQ_ERROR_MISMATCH, "labels for", clq_step_accumulate(trainer, &batch));
}

static void datasets(void **state) {
    (void)state;
    clq_dataset *made = NULL;
    const size_t shape[] = {INPUTS}, huge[] = {SIZE_MAX / 2, 3, 5};
    assert_fails(CLQ_ERROR_ARGUMENT, "at most 6",
                 clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 7, shape, labels, CLQ_I32, 1, &made));
    assert_fails(CLQ_ERROR_ARGUMENT, "at most 6",
                 clq_dataset_arrays(samples, CLQ_F32, SAMPLES, UINT32_MAX, shape, labels, CLQ_I32, 1, &made));
    assert_fails(CLQ_ERROR_ARGUMENT, "u8 or f32",
                 clq_dataset_arrays(samples, (clq_dtype)NONE, SAMPLES, 1, shape, labels, CLQ_I32, 1, &made));
    assert_fails(CLQ_ERROR_ARGUMENT, "i32 or f32",
                 clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, labels, (clq_dtype)-1, 1, &made));
    assert_true(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 3, huge, labels, CLQ_I32, 1, &made) != CLQ_OK);
    assert_true(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, labels, CLQ_I32, SIZE_MAX / 2, &made) !=
                CLQ_OK);
    assert_fails(CLQ_ERROR_ARGUMENT, "i32 or f32", clq_dataset_add_labels(data, labels, (clq_dtype)NONE, 1));
    assert_fails(CLQ_ERROR_ARGUMENT, "", clq_dataset_take(data, 0));
    assert_fails(CLQ_ERROR_ARGUMENT, "", clq_dataset_batch(data, 0, false));
    assert_fails(CLQ_ERROR_ARGUMENT, "", clq_dataset_prefetch(data, -2));
    assert_fails(CLQ_ERROR_ARGUMENT, "", clq_dataset_seek(data, 0, clq_dataset_batches(data) + 1));
    assert_null(made);
    assert_int_equal(clq_dtype_bytes((clq_dtype)NONE), 0);
    assert_string_equal(clq_dtype_name((clq_dtype)-1), "unknown type");
}

/* ---- models ---- */

static void build_badly(unsigned how, clq_model *m) {
    const clq_shape many = {.rank = 7, .dims = {1, 1, 1, 1, 1, 1}};
    const clq_tensor x = clq_input(m, how == 0 ? many : CLQ_SHAPE(8, 8, 2)), alien = {m, UINT32_MAX};
    const clq_conv2d_config conv = {.filters = how == 1 ? SIZE_MAX : 2,
                                    .kernel = {2, how == 2 ? SIZE_MAX : 2},
                                    .padding = how == 3 ? (clq_padding)NONE : CLQ_PADDING_SAME,
                                    .activation = how == 4 ? (clq_activation)NONE : CLQ_ACTIVATION_RELU};
    const clq_tensor y = clq_conv2d(m, how == 5 ? alien : x, &conv);
    (void)clq_dense(
        m, y, &(clq_dense_config){.units = how == 6 ? SIZE_MAX : 2, .activation = (clq_activation)(how == 7 ? -1 : 0)});
    (void)clq_max_pool2d(
        m, y, &(clq_pool_config){.size = {how == 8 ? SIZE_MAX : 2, 2}, .padding = (clq_padding)(how == 9 ? 2 : 0)});
    (void)clq_concatenate(m, CLQ_TENSORS(y, y), how == 10 ? 3 : how == 11 ? -4 : -1, NULL);
    (void)clq_reshape(m, y, how == 12 ? many : CLQ_SHAPE(128), NULL);
    (void)clq_activate(m, y, how == 13 ? (clq_activation)NONE : CLQ_ACTIVATION_TANH, NULL);
    if (how == 14) (void)clq_add(m, &y, 1, NULL);
    if (how == 15) (void)clq_subtract(m, CLQ_TENSORS(y, y, y), NULL);
    if (how == 16) (void)clq_share(m, alien, y);
    if (how == 17) (void)clq_pipeline_cut(m, alien);
    if (how == 18) (void)clq_recompute(m, alien);
    if (how == 19) (void)clq_dropout(m, y, &(clq_dropout_config){.rate = (double)NAN});
    if (how == 20) (void)clq_batch_norm(m, y, &(clq_batch_norm_config){.momentum = -1.0});
}

static void models(void **state) {
    (void)state;
    enum { WAYS = 21 };
    clq_variable_info variable;
    for (unsigned how = 0; how <= WAYS; how++) {
        clq_model *m;
        assert_ok(clq_model_create("bad", &m));
        const clq_tensor none = {0};
        build_badly(how, m);
        if (clq_model_finish(m, none) != CLQ_ERROR_ARGUMENT) fail_msg("way %u: %s", how, clq_error_detail());
        if (how < WAYS && strstr(clq_error_detail(), "has no output")) fail_msg("way %u was taken", how);
        clq_model_destroy(m);
    }
    const clq_tensor outputs[1] = {{0}};
    clq_model *m;
    assert_ok(clq_model_create("bad", &m));
    assert_fails(CLQ_ERROR_ARGUMENT, "outputs", clq_model_finish_outputs(m, outputs, 0));
    assert_fails(CLQ_ERROR_ARGUMENT, "outputs", clq_model_finish_outputs(m, outputs, CLQ_MODEL_OUTPUTS_MAX + 1));
    assert_fails(CLQ_ERROR_ARGUMENT, "outputs", clq_model_finish_outputs(m, outputs, SIZE_MAX));
    clq_model_destroy(m);
    assert_int_equal(clq_model_output_shape(model, 1).rank, 0);
    assert_null(clq_model_output_name(model, SIZE_MAX));
    assert_fails(CLQ_ERROR_ARGUMENT, "", clq_model_variable(model, 2, &variable));
}

/* ---- values per replica, inputs, parts ---- */

static void distribution(void **state) {
    (void)state;
    const size_t shape[CLQ_SHAPE_MAX] = {2};
    clq_per_replica *values = NULL;
    clq_mean *mean = NULL;
    clq_distributed_dataset *parts = NULL;
    size_t batch;
    double out[4];
    assert_fails(CLQ_ERROR_ARGUMENT, "1 to 64", clq_per_replica_create(CLQ_REPLICAS_MAX + 1, 1, shape, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "1 to 64", clq_per_replica_create(0, 1, shape, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "at most 6", clq_per_replica_create(1, CLQ_SHAPE_MAX + 1, shape, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "1 to 64", clq_mean_create(UINT32_MAX, &mean));
    assert_ok(clq_per_replica_create(2, 1, shape, &values));
    assert_null(clq_per_replica_of(values, 2));
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_per_replica_set_length(values, 2, 1));
    assert_fails(CLQ_ERROR_ARGUMENT, "too large", clq_per_replica_set_length(values, 0, 3));
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_reduction",
                 clq_per_replica_reduce(values, (clq_reduction)NONE, CLQ_NO_AXIS, out, 2));
    assert_fails(CLQ_ERROR_ARGUMENT, "axis 1", clq_per_replica_reduce(values, CLQ_REDUCE_SUM, 1, out, 2));
    assert_fails(CLQ_ERROR_ARGUMENT, "axis -2", clq_per_replica_reduce(values, CLQ_REDUCE_SUM, -2, out, 2));
    assert_fails(CLQ_ERROR_ARGUMENT, "room for 4", clq_per_replica_reduce(values, CLQ_REDUCE_SUM, CLQ_NO_AXIS, out, 4));
    clq_per_replica_destroy(values);
    assert_ok(clq_mean_create(1, &mean));
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_mean_add(mean, 1, 1.0, 1.0));
    clq_mean_destroy(mean);
    const unsigned wrong[] = {0, CLQ_REPLICAS_MAX + 1};
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++)
        assert_fails(CLQ_ERROR_ARGUMENT, "expected 1 to 64",
                     clq_input_batch_per_replica(&(clq_input_context){.replicas = wrong[i]}, 130, &batch));
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_input_replication",
                 clq_distribute_function(trainer, (clq_input_replication)NONE, NULL, NULL, &parts));
    const clq_distributed_batch many = {.replicas = CLQ_REPLICAS_MAX + 1};
    assert_fails(CLQ_ERROR_ARGUMENT, "parts for 65 replicas", clq_run(trainer, &many, NULL, NULL));
    assert_fails(CLQ_ERROR_ARGUMENT, "parts for 65 replicas", clq_run_evaluation(trainer, &many, NULL, NULL));
}

/* ---- callbacks ---- */

static void callbacks(void **state) {
    (void)state;
    clq_callback made = {0};
    clq_early_stopping stopping = {.monitor = {.mode = (clq_monitor_mode)NONE}};
    assert_fails(CLQ_ERROR_ARGUMENT, "none of clq_monitor_mode", clq_callback_early_stopping(&stopping, &made));
    stopping.monitor.mode = CLQ_MONITOR_AUTO;
    memset(stopping.monitor.name, 'x', sizeof stopping.monitor.name);
    assert_fails(CLQ_ERROR_ARGUMENT, "more than 159 bytes", clq_callback_early_stopping(&stopping, &made));
    assert_fails(CLQ_ERROR_ARGUMENT, "more than 159 bytes",
                 clq_callback_save_best("/tmp/never", &stopping.monitor, &made));
    stopping = (clq_early_stopping){.monitor = {.min_delta = (double)NAN}};
    assert_fails(CLQ_ERROR_ARGUMENT, "min_delta", clq_callback_early_stopping(&stopping, &made));
    clq_reduce_lr reduce = clq_reduce_lr_default();
    reduce.factor = 1.0;
    assert_fails(CLQ_ERROR_ARGUMENT, "factor", clq_callback_reduce_lr(&reduce, &made));
    reduce = clq_reduce_lr_default();
    reduce.min_lr = (double)NAN;
    assert_fails(CLQ_ERROR_ARGUMENT, "min_lr", clq_callback_reduce_lr(&reduce, &made));
    assert_null(made.context);
}

/* ---- gradients that are not there ---- */

static void gradients_of_accumulated_batches(void **state) {
    (void)state;
    const clq_batch batch = {
        .count = BATCH, .samples = samples, .sample_elements = INPUTS, .sample_dtype = CLQ_F32, .labels = labels};
    float before[INPUTS * 2], after[INPUTS * 2];
    assert_ok(clq_step_accumulate(trainer, &batch));
    assert_fails(CLQ_ERROR_STATE, "accumulated", clq_trainer_get_gradient(trainer, 0, 0, before));
    assert_ok(clq_step_gradients(trainer, &batch));
    assert_ok(clq_trainer_get_gradient(trainer, 0, 0, before));
    /* A second gradient: the first one, and the batch that was accumulated for it, are dropped. */
    assert_ok(clq_step_gradients(trainer, &batch));
    assert_ok(clq_trainer_get_gradient(trainer, 0, 0, after));
    assert_memory_equal(before, after, sizeof before); /* the mean over one batch equals that over two copies of it */
    assert_ok(clq_step_reduce(trainer));
    assert_ok(clq_step_apply(trainer));
    clq_step_info info;
    assert_ok(clq_step_read(trainer, &info));
    assert_int_equal(info.samples, BATCH);
}

static int setup(void **state) {
    for (int i = 0; i < SAMPLES; i++) labels[i] = i % 2;
    for (int i = 0; i < SAMPLES * INPUTS; i++) samples[i] = (float)(i % 5) - 2.0f;
    open_system(state);
    assert_ok(clq_model_create("small", &model));
    const clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    const clq_dense_config dense = {.units = 2, .activation = CLQ_ACTIVATION_SOFTMAX};
    assert_ok(clq_model_finish(model, clq_dense(model, x, &dense)));
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, (size_t[]){INPUTS}, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    assert_ok(clq_devices_select(sys, "pocl:0", &one));
    const clq_trainer_config config = config_of();
    assert_ok(clq_trainer_create(model, &one, &config, &trainer));
    return 0;
}

static int teardown(void **state) {
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    return close_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices),   cmocka_unit_test(a_device_without_parts),
                                       cmocka_unit_test(trainers),  cmocka_unit_test(values_by_name),
                                       cmocka_unit_test(batches),   cmocka_unit_test(datasets),
                                       cmocka_unit_test(models),    cmocka_unit_test(distribution),
                                       cmocka_unit_test(callbacks), cmocka_unit_test(gradients_of_accumulated_batches)};
    return cmocka_run_group_tests_name("ranges", tests, setup, teardown);
}
