/* The importer against thousands of damaged files, and against files that ask for much: what is refused has a message,
 * and nothing takes long. */
#include "interop/keras_text.h"

#include <sys/time.h>

/* What a value is called below the nearest object of a class; of a list, its first element, and all others alike. */
static char *place_of(json_t *parent, const char *place, const char *key, size_t i) {
    const char *class_name = json_string_value(json_object_get(parent, "class_name"));
    if (class_name) return clq_strprintf("%s/%s", class_name, key);
    return clq_strprintf("%s/%s", place, key ? key : i == 0 ? "first" : "other");
}

/* Values of a good file replaced by other ones, one at a time: read or refused with a message, never worse. once: the
 * first value of each place alone (seen), by one of the nine others in turn; with CLQ_TEST_WHOLE in the environment, by
 * each of them. */
static void damage(json_t *root, json_t *parent, const char *place, bool once, json_t *seen, size_t *made) {
    json_t *const wrong[] = {json_null(),    json_integer(-1), json_integer(0), json_integer(INT64_MAX),
                             json_real(2.5), json_string("x"), json_array(),    json_object(),
                             json_true()};
    void *iterator = json_is_object(parent) ? json_object_iter(parent) : NULL;
    size_t count = json_is_array(parent) ? json_array_size(parent) : json_object_size(parent);
    for (size_t i = 0; i < count; i++) {
        const char *key = iterator ? json_object_iter_key(iterator) : NULL;
        json_t *good = json_incref(key ? json_object_get(parent, key) : json_array_get(parent, i));
        char *below = place_of(parent, place, key, i);
        assert_non_null(below);
        const bool is_new = !once || !json_object_get(seen, below);
        assert_int_equal(json_object_set_new(seen, below, json_true()), 0);
        const size_t step = once && !getenv("CLQ_TEST_WHOLE") ? CLQ_COUNT_OF(wrong) : 1;
        for (size_t w = json_object_size(seen) % step; is_new && w < CLQ_COUNT_OF(wrong); w += step) {
            clq_model *model;
            if (key)
                json_object_set(parent, key, wrong[w]);
            else
                json_array_set(parent, i, wrong[w]);
            clq_status status = read_json(root, &model);
            if (status == CLQ_OK)
                clq_model_destroy(model);
            else
                assert_true(*clq_error_detail() && strstr(clq_error_detail(), file));
            ++*made;
        }
        if (key)
            json_object_set(parent, key, good);
        else
            json_array_set(parent, i, good);
        if (json_is_object(good) || json_is_array(good)) damage(root, good, below, once, seen, made);
        clq_free(below);
        json_decref(good);
        if (iterator) iterator = json_object_iter_next(parent, json_object_key_to_iter(key));
    }
    for (size_t w = 0; w < CLQ_COUNT_OF(wrong); w++) json_decref(wrong[w]);
}

static void damaged_values(void **state) {
    (void)state;
    const char *const files[] = {"cnn_sgd_nesterov_ragged", "functional_chain",       "conv_variants",
                                 "outputs/two_outputs",     "branched/branch_concat", "branched/shared_layer",
                                 "normalised/dropout_eval"};
    json_t *seen = json_object(), *root, *entry;
    size_t made = 0, index;
    for (size_t i = 0; i < CLQ_COUNT_OF(files); i++) {
        char *path = clq_strprintf("%s/tests/golden/%s/model.json", getenv("CLQ_TEST_SOURCE"), files[i]);
        assert_int_equal(clq_json_read(path, 1 << 24, 64, &root), CLQ_OK);
        damage(root, root, "file", IS_WATCHED, seen, &made); /* under sanitizers three times as slow */
        json_decref(root);
        clq_free(path);
    }
    char *path = clq_strprintf("%s/tests/golden/single_layers.json", getenv("CLQ_TEST_SOURCE"));
    assert_int_equal(clq_json_read(path, 1 << 24, 64, &root), CLQ_OK);
    clq_free(path);
    json_array_foreach(json_object_get(root, "models"), index, entry) {
        json_t *model = json_object_get(entry, "model");
        damage(model, model, "file", true, seen, &made);
    }
    json_decref(root);
    json_decref(seen);
    assert_true(made > (IS_WATCHED ? 3000 : 30000));
}

/* Every prefix of a good file, and no allocation that may fail quietly. */
static void cut_short_and_out_of_memory(void **state) {
    (void)state;
    char *path = clq_strprintf("%s/tests/golden/mlp_adam_probs/model.json", getenv("CLQ_TEST_SOURCE"));
    void *text;
    size_t bytes;
    clq_model *model;
    assert_int_equal(clq_file_read(path, 1 << 20, &text, &bytes), CLQ_OK);
    while (bytes > 0 && ((char *)text)[bytes - 1] != '}') bytes--; /* a missing newline at the end is no damage */
    for (size_t length = 0; length < bytes; length += 7) {
        put(text, length);
        assert_int_not_equal(clq_model_read_keras_json(file, &model), CLQ_OK);
    }
    put(text, bytes);
    for (uint64_t nth = 1;; nth++) {
        clq_memory_fail_at(nth, false);
        clq_status status = clq_model_read_keras_json(file, &model);
        uint64_t allocations = clq_memory_fail_at(0, false);
        if (status == CLQ_OK) {
            clq_model_destroy(model);
            assert_true(nth > 3 && allocations < nth); /* the failing one was never reached */
            break;
        }
        assert_int_equal(status, CLQ_ERROR_MEMORY);
    }
    clq_free(text);
    clq_free(path);
}

/* The most layers that are read, the last one first. Well below a second of the processor's time; where each layer is
 * looked for among all, a minute, and SIGVTALRM ends the program. */
static void long_chains(void **state) {
    (void)state;
    enum { LAYERS = 10000 };
    clq_text text = {0};
    clq_text_add(&text, "{\"class_name\": \"Functional\", \"config\": {\"name\": \"long\", \"layers\": [");
    for (int i = LAYERS - 1; i > 0; i--)
        clq_text_add(
            &text,
            "{\"class_name\": \"Activation\", \"name\": \"a%d\", \"config\": {\"name\": \"a%d\", \"activation\": "
            "\"relu\"}, \"inbound_nodes\": [{\"args\": [{\"config\": {\"keras_history\": [\"a%d\", 0, 0]}}]}]}, ",
            i, i, i - 1);
    clq_text_add(&text,
                 "{\"class_name\": \"InputLayer\", \"name\": \"a0\", \"config\": {\"name\": \"a0\", \"batch_shape\": "
                 "[null, 3]}}], \"input_layers\": [\"a0\", 0, 0], \"output_layers\": [\"a9999\", 0, 0]}}");
    assert_false(text.failed);
    put(text.data, text.length);
    clq_free(text.data);
    clq_model *model;
    const struct itimerval limit = {.it_value = {.tv_sec = 20}}, none = {0};
    assert_int_equal(setitimer(ITIMER_VIRTUAL, &limit, NULL), 0);
    clq_status status = clq_model_read_keras_json(file, &model);
    assert_int_equal(setitimer(ITIMER_VIRTUAL, &none, NULL), 0);
    if (status != CLQ_OK) fail_msg("%s", clq_error_detail());
    assert_int_equal(model->layer_count, LAYERS);
    clq_model_destroy(model);
}

/* A model that applies one within it a hundred times, in a chain, which does the same: few bytes, and many layers. */
static json_t *model_within(unsigned levels) {
    enum { CALLS = 100 };
    json_t *nodes = json_array(), *layers = json_array(), *arguments;
    const char *inner = levels > 0 ? "inner" : "act";
    for (int i = 0; i < CALLS; i++) {
        arguments = json_pack("[{s:s, s:{s:[s, i, i]}}]", "class_name", "__keras_tensor__", "config", "keras_history",
                              i == 0 ? "x" : inner, i == 0 ? 0 : i - 1, 0);
        json_array_append_new(nodes, json_pack("{s:o, s:{}}", "args", arguments, "kwargs"));
    }
    json_t *layer = levels > 0 ? model_within(levels - 1)
                               : json_pack("{s:s, s:{s:s, s:s}}", "class_name", "Activation", "config", "name", "act",
                                           "activation", "relu");
    json_object_set_new(layer, "name", json_string(inner));
    json_object_set_new(layer, "inbound_nodes", nodes);
    json_array_append_new(layers, json_pack("{s:s, s:s, s:{s:s, s:[n, i]}, s:[]}", "class_name", "InputLayer", "name",
                                            "x", "config", "name", "x", "batch_shape", 2, "inbound_nodes"));
    json_array_append_new(layers, layer);
    return json_pack("{s:s, s:{s:s, s:o, s:[[s, i, i]], s:[[s, i, i]]}}", "class_name", "Functional", "config", "name",
                     "model", "layers", layers, "input_layers", "x", 0, 0, "output_layers", inner, CALLS - 1, 0);
}

static void models_that_multiply(void **state) {
    (void)state;
    clq_model *model;
    json_t *few = model_within(1), *many = model_within(4);
    if (read_json(few, &model) != CLQ_OK) fail_msg("%s", clq_error_detail());
    clq_model_destroy(model);
    assert_int_equal(read_json(many, &model), CLQ_ERROR_UNSUPPORTED);
    expect_text(clq_error_detail(), "calls of layers are not supported");
    json_decref(few);
    json_decref(many);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_values), cmocka_unit_test(cut_short_and_out_of_memory),
                                       cmocka_unit_test(long_chains), cmocka_unit_test(models_that_multiply)};
    return cmocka_run_group_tests_name("interop/keras_damage", tests, open_file, close_file);
}
