/* A ConvLSTM2D of a single step does not read its recurrent kernel, which is trained all the same: by a gradient of 0,
 * and so not at all, whoever updates it. */
#include "interop/keras_text.h"
#include "strategy/strategy.h"
#include "support/system.h"
#include "train/trainer.h"

enum { SIDE = 5, CHANNELS = 2, BATCH = 32, STEPS = 3, CLASSES = 3, VARIABLES = 5, FLOATS_MOST = 1024 };

/* All variables of a replica, one after another. */
typedef struct values {
    float of[VARIABLES][FLOATS_MOST];
} values;

static clq_model *read_model(void) {
    clq_model *model;
    const char *layers =
        "{\"class_name\": \"ConvLSTM2D\", \"name\": \"c\", \"config\": {\"name\": \"c\", \"filters\": 2, "
        "\"kernel_size\": [2, 2]}, \"inbound_nodes\": [{\"args\": [" TENSOR(
            "x", 0) "]}]}, "
                    "{\"class_name\": \"Flatten\", \"name\": \"f\", \"config\": {\"name\": \"f\"}, \"inbound_nodes\": "
                    "[{\"args\": [" TENSOR("c", 0) "]}]}, "
                                                   "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": "
                                                   "{\"name\": \"y\", \"units\": 3, \"activation\": "
                                                   "\"softmax\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("f",
                                                                                                           0) "]}]}";
    if (read_layers("[null, 1, 5, 5, 2]", layers, "y", &model) != CLQ_OK) fail_msg("%s", clq_error_detail());
    assert_int_equal(clq_model_variable_count(model), VARIABLES);
    return model;
}

static clq_dataset *make_data(void) {
    static float samples[BATCH][SIDE * SIDE * CHANNELS];
    static int32_t labels[BATCH];
    const size_t shape[] = {1, SIDE, SIDE, CHANNELS};
    clq_dataset *data;
    for (size_t n = 0; n < BATCH; n++) {
        labels[n] = (int32_t)(n % CLASSES);
        for (size_t i = 0; i < SIDE * SIDE * CHANNELS; i++)
            samples[n][i] = (float)((n * 7 + i * 3) % 11) / 11.0f + (i % CLASSES == n % CLASSES ? 1.0f : 0.0f);
    }
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, BATCH, 4, shape, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

static void read_values(const clq_trainer *trainer, const clq_model *model, unsigned replica, values *out) {
    const clq_plan *plan = clq_strategy_plan(trainer->strategy, replica);
    memset(out, 0, sizeof *out);
    for (uint32_t v = 0; v < VARIABLES; v++) {
        assert_true(model->variables[v].elements <= FLOATS_MOST);
        assert_ok(clq_strategy_read(trainer->strategy, replica, CLQ_ARENA_PARAMETERS, clq_plan_variable_offset(plan, v),
                                    out->of[v], model->variables[v].elements * sizeof(float)));
    }
}

static uint32_t index_of(const clq_model *model, const char *name) {
    uint32_t v = 0;
    while (v < VARIABLES && strcmp(model->variables[v].name, name) != 0) v++;
    assert_true(v < VARIABLES);
    return v;
}

/* Of replicas that shard the update, weights and gradients change places with each. */
static void train_on(const char *spec, bool shards) {
    static values first, now, other;
    clq_trainer_config config = clq_trainer_config_default();
    clq_devices devices;
    clq_trainer *trainer;
    clq_model *model = read_model();
    clq_dataset *data = make_data();
    const uint32_t recurrent = index_of(model, "c/recurrent_kernel");
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    read_values(trainer, model, 0, &first);
    for (unsigned step = 0; step < STEPS; step++) {
        clq_batch batch;
        bool more;
        assert_ok(clq_dataset_next(data, &batch, &more));
        if (!more) assert_ok(clq_dataset_next(data, &batch, &more)); /* of the next epoch */
        assert_ok(clq_step(trainer, &batch));
        read_values(trainer, model, 0, &now);
        for (uint32_t v = 0; v < VARIABLES; v++) {
            const bool same = memcmp(now.of[v], first.of[v], sizeof now.of[v]) == 0;
            if (same != (v == recurrent)) fail_msg("%s, step %u: %s", spec, step, model->variables[v].name);
        }
        for (unsigned r = 1; r < clq_trainer_replicas(trainer); r++) {
            read_values(trainer, model, r, &other);
            assert_memory_equal(&other, &now, sizeof now);
        }
    }
    assert_int_equal(clq_strategy_shards_updates(trainer->strategy), shards);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void the_recurrent_kernel_stays(void **state) {
    (void)state;
    train_on("pocl:0", false);
    train_on("pocl:0,pocl:1", true);
}

static int begin(void **state) { return open_file(state) == 0 ? open_system(state) : -1; }
static int end(void **state) { return close_system(state) == 0 ? close_file(state) : -1; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_recurrent_kernel_stays)};
    return cmocka_run_group_tests_name("interop/single_steps", tests, begin, end);
}
