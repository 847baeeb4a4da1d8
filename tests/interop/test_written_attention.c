/* Attention that models write by keras.ops (tests/golden/single_layers.json) runs by the kernel that attention of
 * layers has, if that is chosen, and gives Keras's numbers in float64 either way. */
#include "device/fixture.h"
#include "graph/layers/layer.h"
#include "graph/plan.h"
#include "interop/interop.h"
#include "support/files.h"

#include <jansson.h>
#include <math.h>

enum { COUNT = 2, WRITTEN = 5, NUMBERS_MOST = 512 };

static json_t *entry;

static size_t numbers_of(const json_t *array, float numbers[NUMBERS_MOST]) {
    const size_t count = json_array_size(array);
    assert_true(count > 0 && count <= NUMBERS_MOST);
    for (size_t i = 0; i < count; i++) numbers[i] = (float)json_number_value(json_array_get(array, i));
    return count;
}

static clq_plan *make_plan(const clq_model *model, clq_device *device, const char *how, bool trains) {
    static clq_loss_problem losses[WRITTEN];
    for (unsigned o = 0; o < WRITTEN; o++)
        losses[o] = (clq_loss_problem){.kind = CLQ_LOSS_MEAN_SQUARED_ERROR, .classes = 32, .weight = 1};
    static const clq_optimizer update = {.kind = CLQ_OPTIMIZER_SGD};
    clq_selection selection = {.key = "attention *"};
    (void)snprintf(selection.candidate, sizeof selection.candidate, "%s", how);
    const clq_selections selections = {.entries = &selection, .count = 1};
    const clq_plan_config config = {.capacity = COUNT,
                                    .sample_dtype = CLQ_F32,
                                    .metric_slots = 1,
                                    .selections = &selections,
                                    .loss = trains ? losses : NULL,
                                    .update = trains ? &update : NULL};
    clq_plan *plan;
    CHECK_OK(clq_plan_create_alone(model, device, &config, &plan));
    return plan;
}

static unsigned launches_of(const clq_plan *plan, const char *function) {
    unsigned found = 0;
    for (size_t i = 0; i < clq_list_launch_count(clq_plan_list(plan)); i++) {
        clq_launch_info info;
        clq_list_launch_info(clq_plan_list(plan), i, &info);
        found += info.file && strcmp(info.function, function) == 0;
    }
    return found;
}

static void check_outputs(const clq_model *model, clq_plan *plan, clq_queue *queue) {
    float numbers[NUMBERS_MOST], got[NUMBERS_MOST];
    size_t count = numbers_of(json_object_get(entry, "samples"), numbers);
    CHECK_OK(clq_queue_write(queue, clq_plan_samples(plan), 0, numbers, count * sizeof *numbers, true));
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        CHECK_OK(clq_model_variable(model, v, &info));
        count = numbers_of(json_object_get(json_object_get(entry, "variables"), info.name), numbers);
        assert_int_equal(count, info.elements);
        CHECK_OK(clq_queue_write(queue, clq_plan_parameters(plan), clq_plan_variable_offset(plan, (uint32_t)v), numbers,
                                 count * sizeof *numbers, true));
    }
    clq_plan_set_params(plan, &(clq_step_params){.count = COUNT});
    CHECK_OK(clq_plan_run(plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_FORWARD));
    for (uint32_t o = 0; o < WRITTEN; o++) {
        const json_t *want = json_array_get(json_object_get(entry, "outputs"), o);
        count = numbers_of(want, numbers);
        CHECK_OK(clq_queue_read(queue, clq_plan_output(plan, o), 0, got, count * sizeof *got, true));
        for (size_t i = 0; i < count; i++)
            if (!(fabs((double)got[i] - json_number_value(json_array_get(want, i))) <= 2e-6))
                fail_msg("output %u: [%zu] is %.9g, and Keras has %.9g", o, i, (double)got[i], (double)numbers[i]);
    }
}

static void written_on(clq_device *device, clq_queue *queue) {
    static const char *const ways[] = {"one", "apart"};
    clq_model *model;
    const char *path = files_path("written.json");
    assert_int_equal(json_dump_file(json_object_get(entry, "model"), path, 0), 0);
    CHECK_OK(clq_model_read_keras_json(path, &model));
    for (unsigned way = 0; way < 2; way++) {
        clq_plan *plan = make_plan(model, device, ways[way], false);
        assert_int_equal(launches_of(plan, "attend"), way == 0 ? WRITTEN : 0);
        assert_int_equal(launches_of(plan, "batched"), way == 0 ? 0 : 2 * WRITTEN);
        check_outputs(model, plan, queue);
        clq_plan_destroy(plan);
    }
    clq_model_destroy(model);
}

static void written_attention_has_the_kernel_of_attention(void **state) {
    (void)state;
    on_each_driver(written_on);
}

/* Of layers; the kernel has no derivative, so that training is by the products. */
static void layers_on(clq_device *device, clq_queue *queue) {
    clq_model *model;
    (void)queue;
    CHECK_OK(clq_model_create("attentive", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(6, 5));
    x = clq_attention(model, &x, 1, &(clq_attention_config){.heads = 2, .key = 3, .causal = true});
    x = clq_attention(model, &x, 1, &(clq_attention_config){.heads = 1, .key = 4, .value = 3});
    CHECK_OK(clq_model_finish(model, clq_dense(model, clq_flatten(model, x, NULL), &(clq_dense_config){.units = 32})));
    clq_plan *plan = make_plan(model, device, "one", false);
    assert_int_equal(launches_of(plan, "attend"), 2);
    assert_int_equal(launches_of(plan, "batched"), 0);
    clq_plan_destroy(plan);
    plan = make_plan(model, device, "one", true);
    assert_int_equal(launches_of(plan, "attend"), 0);
    assert_true(launches_of(plan, "batched") > 4);
    clq_plan_destroy(plan);
    clq_model_destroy(model);
}

/* By itself it is chosen where the scores would take much memory. */
static void long_texts_on(clq_device *device, clq_queue *queue) {
    static const struct {
        size_t tokens;
        unsigned launches;
    } texts[] = {{5800, 1}, {57, 0}};
    (void)queue;
    for (size_t i = 0; i < CLQ_COUNT_OF(texts); i++) {
        clq_model *model;
        CHECK_OK(clq_model_create("long", &model));
        clq_tensor x = clq_input(model, CLQ_SHAPE(texts[i].tokens, 2));
        x = clq_attention(model, &x, 1, &(clq_attention_config){.heads = 1, .key = 2});
        CHECK_OK(clq_model_finish(model, clq_global_average_pool(model, x, false, NULL)));
        clq_plan *plan = make_plan(model, device, "no candidate", false);
        assert_int_equal(launches_of(plan, "attend"), texts[i].launches);
        clq_plan_destroy(plan);
        clq_model_destroy(model);
    }
}

static void long_texts_have_it(void **state) {
    (void)state;
    on_each_driver(long_texts_on);
}

static void layers_have_it_where_nothing_is_trained(void **state) {
    (void)state;
    on_each_driver(layers_on);
}

static int begin(void **state) {
    char *path = clq_strprintf("%s/tests/golden/single_layers.json", getenv("CLQ_TEST_SOURCE"));
    json_t *file = path ? json_load_file(path, 0, NULL) : NULL, *one;
    size_t index;
    clq_free(path);
    json_array_foreach(json_object_get(file, "models"), index,
                       one) if (strcmp(json_string_value(json_object_get(one, "name")), "written_attention") == 0)
        entry = json_incref(one);
    json_decref(file);
    return entry ? files_begin(state) : -1;
}
static int end(void **state) {
    json_decref(entry);
    return files_end(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(written_attention_has_the_kernel_of_attention),
                                       cmocka_unit_test(layers_have_it_where_nothing_is_trained),
                                       cmocka_unit_test(long_texts_have_it)};
    return cmocka_run_group_tests_name("interop/written_attention", tests, begin, end);
}
