/* Models written as Keras's JSON (clq_model_write_keras_json). Keras's own files, read and written, must be the same
 * model when they are read again, and have no key, class or call that Keras's file of that layer does not have; so must
 * models that each builder has a part in. tests/golden/written.py loads what is written with Keras, and
 * interop/single_layers computes by files that were written. */
#include "interop/interop.h"
#include "interop/keras.h"
#include "support/check.h"
#include "support/files.h"
#include <clique/clique.h>

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static clq_status write_again(void *model) { return clq_model_write_keras_json(model, files_path("written.json")); }

static json_t *load(const char *name) {
    json_t *root;
    assert_ok(clq_json_read(files_path(name), 1 << 26, 64, &root));
    return root;
}

/* ---- the same model ---- */

static void check_same_variables(const clq_model *a, const clq_model *b) {
    assert_int_equal(a->variable_count, b->variable_count);
    for (uint32_t i = 0; i < a->variable_count; i++) {
        const clq_variable *v = &a->variables[i], *w = NULL;
        for (uint32_t k = 0; k < b->variable_count && !w; k++)
            if (strcmp(b->variables[k].name, v->name) == 0) w = &b->variables[k];
        if (!w) fail_msg("%s: variable %s is gone", a->name, v->name);
        const clq_initialiser *p = &v->initialiser, *q = &w->initialiser;
        assert_int_equal(v->shape.rank, w->shape.rank);
        assert_memory_equal(v->shape.dims, w->shape.dims, v->shape.rank * sizeof(size_t));
        assert_true(v->role == w->role && v->fixed == w->fixed && v->properties.l1 == w->properties.l1 &&
                    v->properties.l2 == w->properties.l2);
        assert_true(p->kind == q->kind && p->value == q->value && p->low == q->low && p->high == q->high);
        assert_true(p->mean == q->mean && p->deviation == q->deviation && p->scale == q->scale && p->fan == q->fan);
        assert_true(p->distribution == q->distribution && p->gain == q->gain);
        assert_memory_equal(v->ones, w->ones, sizeof v->ones);
        const clq_constraint *c = &v->properties.constraint, *d = &w->properties.constraint;
        assert_true(c->kind == d->kind && c->least == d->least && c->most == d->most && c->rate == d->rate);
        for (unsigned k = 0; k < CLQ_MAX(c->axes.count, 1u); k++) assert_int_equal(c->axes.axes[k], d->axes.axes[k]);
    }
}

static const clq_layer *find_layer(const clq_model *model, const char *name) {
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (strcmp(model->layers[i].name, name) == 0) return &model->layers[i];
    fail_msg("%s: layer %s is gone", model->name, name);
    return NULL;
}

static void check_same(const clq_model *a, const clq_model *b) {
    check_same_variables(a, b);
    assert_int_equal(a->layer_count, b->layer_count);
    assert_int_equal(a->tensor_count, b->tensor_count);
    assert_int_equal(a->output_count, b->output_count);
    for (uint32_t i = 0; i < a->layer_count; i++) {
        const clq_layer *x = &a->layers[i];
        if (x->kind->output_member) continue; /* of two alike calls the file has one */
        const clq_layer *y = find_layer(b, x->name);
        assert_true(x->kind == y->kind && x->frozen == y->frozen);
    }
    for (uint32_t i = 0; i < a->output_count; i++) {
        assert_string_equal(clq_model_output_name(a, i), clq_model_output_name(b, i));
        assert_int_equal(clq_model_output(a, i)->elements, clq_model_output(b, i)->elements);
    }
}

/* Written and read again it is the same, and so is what is written of that. The second model. */
static clq_model *check_round(clq_model *model) {
    clq_model *again;
    void *text[2];
    size_t bytes[2];
    const clq_status status = write_again(model);
    if (status != CLQ_OK) fail_msg("%s: %s", model->name, clq_error_detail());
    if (clq_model_read_keras_json(files_path("written.json"), &again) != CLQ_OK) fail_msg("%s", clq_error_detail());
    check_same(model, again);
    assert_ok(clq_file_read(files_path("written.json"), 1 << 26, &text[0], &bytes[0]));
    assert_ok(write_again(again));
    assert_ok(clq_file_read(files_path("written.json"), 1 << 26, &text[1], &bytes[1]));
    if (bytes[0] != bytes[1] || memcmp(text[0], text[1], bytes[0]) != 0)
        fail_msg("%s: the model that was read again is written in another way", model->name);
    clq_free(text[0]);
    clq_free(text[1]);
    return again;
}

/* ---- Keras's files ---- */

/* The layer of a list whose configuration has the name. */
static json_t *layer_named(json_t *layers, const char *name) {
    size_t i;
    json_t *layer;
    json_array_foreach(layers, i, layer) {
        const char *found = json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
        if (found && strcmp(found, name) == 0) return layer;
    }
    return NULL;
}

/* What a call is given: the tensors, where there are any. */
static void add_histories(json_t *value, clq_text *to) {
    json_t *history = json_object_get(json_object_get(value, "config"), "keras_history"), *child;
    const char *key;
    size_t i;
    if (history) clq_json_dump(history, JSON_COMPACT, to);
    clq_text_add(to, json_is_array(value) ? "[" : "");
    json_array_foreach(value, i, child) add_histories(child, to);
    clq_text_add(to, json_is_array(value) ? "]" : "");
    json_object_foreach(value, key, child) if (!json_is_null(child) && !history && strcmp(key, "config") != 0 &&
                                               strcmp(key, "training") != 0 && strcmp(key, "class_name") != 0) {
        clq_text_add(to, "%s:", key);
        add_histories(child, to);
    }
}

static bool is_one_of(const char *word, const char *const *words) {
    while (*words && strcmp(word, *words) != 0) words++;
    return *words != NULL;
}

/* Keys of which Keras's own file says nothing are refused by Keras. What is written for a word, a flag or a whole
 * number is what Keras wrote. */
static void check_config(const char *name, json_t *written, json_t *original) {
    const char *key;
    json_t *value;
    json_object_foreach(written, key, value) {
        json_t *known = json_object_get(original, key);
        if (!known) fail_msg("%s: Keras has no '%s'", name, key);
        if ((json_is_string(value) && json_is_string(known)) || (json_is_boolean(value) && json_is_boolean(known)))
            if (!json_equal(value, known) && strcmp(key, "dtype") != 0 && strcmp(key, "activation") != 0)
                fail_msg("%s: another value of '%s' than Keras's", name, key);
        if (json_is_number(value) && json_is_number(known) && strstr(key, "ax") == NULL)
            if (!(fabs(json_number_value(value) - json_number_value(known)) <= 1e-6 * fabs(json_number_value(known))))
                fail_msg("%s: %g of '%s' in place of Keras's", name, json_number_value(value), key);
    }
}

/* Layers that are written as the layers within them, or as one of the same name between permutations. */
static const char *const models[] = {"Functional", "Sequential", NULL};

/* Whether the calls name a layer of Keras's file that the written one has not: a block, or one of two alike calls. */
static bool calls_others(json_t *known, json_t *written, const char *calls) {
    size_t i;
    json_t *layer;
    json_array_foreach(known, i, layer) {
        const char *name = json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
        char quoted[80];
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", name ? name : "");
        if (name && strstr(calls, quoted) && (!layer_named(written, name) || clq_keras_is_block(layer))) return true;
    }
    return false;
}

/* Of layers that the two files have under one name, of the whole. Gives how many these are. */
static size_t check_against(json_t *written, json_t *original) {
    json_t *layers = json_object_get(json_object_get(written, "config"), "layers"), *layer;
    json_t *known = json_object_get(json_object_get(original, "config"), "layers");
    size_t i, count = 0;
    json_array_foreach(layers, i, layer) {
        const char *name = json_string_value(json_object_get(layer, "name"));
        json_t *other = layer_named(known, name);
        const char *class_name = json_string_value(json_object_get(other, "class_name"));
        clq_text calls[2] = {{0}};
        if (!other || is_one_of(class_name, models) || clq_keras_is_block(other) ||
            strcmp(class_name, "InputLayer") == 0)
            continue;
        assert_string_equal(json_string_value(json_object_get(layer, "class_name")), class_name);
        if (!json_object_get(other, "module")) continue; /* of Keras 2 */
        assert_string_equal(json_string_value(json_object_get(layer, "module")),
                            json_string_value(json_object_get(other, "module")));
        check_config(name, json_object_get(layer, "config"), json_object_get(other, "config"));
        add_histories(json_object_get(layer, "inbound_nodes"), &calls[0]);
        add_histories(json_object_get(other, "inbound_nodes"), &calls[1]);
        if (json_object_get(other, "inbound_nodes") && !strstr(calls[1].data, "args:[]") &&
            !calls_others(known, layers, calls[1].data) && strcmp(calls[0].data, calls[1].data) != 0)
            fail_msg("%s: calls %s in place of %s", name, calls[0].data, calls[1].data);
        clq_free(calls[0].data);
        clq_free(calls[1].data);
        count++;
    }
    return count;
}

static bool has_blocks_of_hub(json_t *model) {
    json_t *layers = json_object_get(json_object_get(model, "config"), "layers"), *layer;
    size_t i;
    json_array_foreach(layers, i, layer) {
        const char *module = json_string_value(json_object_get(layer, "module"));
        const char *name = json_string_value(json_object_get(layer, "registered_name"));
        if ((module && strncmp(module, "keras_hub", 9) == 0) || (name && strncmp(name, "keras_hub", 9) == 0))
            return true;
    }
    return false;
}

/* Parts of keras_hub's blocks that Keras has no layer for are refused by name. */
static size_t check_file(json_t *root, bool may_be_refused) {
    clq_model *model, *again = NULL;
    size_t count = 0;
    assert_int_equal(json_dump_file(root, files_path("model.json"), 0), 0);
    assert_ok(clq_model_read_keras_json(files_path("model.json"), &model));
    if (may_be_refused && write_again(model) == CLQ_ERROR_UNSUPPORTED) {
        expect_text(clq_error_detail(), "layer '");
    } else {
        again = check_round(model);
        json_t *written = load("written.json");
        count = check_against(written, root);
        json_decref(written);
    }
    clq_model_destroy(again);
    clq_model_destroy(model);
    return count;
}

static void keras_files(void **state) {
    const char *const files[] = {"cnn_sgd_nesterov_ragged", "functional_chain",       "conv_variants",
                                 "outputs/two_outputs",     "branched/branch_concat", "branched/shared_layer",
                                 "normalised/dropout_eval", "branched/fan_out3"};
    size_t index, count = 0;
    json_t *root, *entry;
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(files); i++) {
        char *path = clq_strprintf("%s/tests/golden/%s/model.json", getenv("CLQ_TEST_SOURCE"), files[i]);
        assert_ok(clq_json_read(path, 1 << 24, 64, &root));
        count += check_file(root, false);
        json_decref(root);
        clq_free(path);
    }
    char *path = clq_strprintf("%s/tests/golden/single_layers.json", getenv("CLQ_TEST_SOURCE"));
    assert_ok(clq_json_read(path, 1 << 24, 64, &root));
    json_array_foreach(json_object_get(root, "models"), index, entry) {
        json_t *model = json_object_get(entry, "model");
        count += check_file(model, has_blocks_of_hub(model));
    }
    json_decref(root);
    clq_free(path);
    assert_true(count > 200);
}

/* ---- builders ---- */

static void finish_and_check(clq_model *model, const clq_tensor *outputs, size_t count) {
    if (clq_model_finish_outputs(model, outputs, count) != CLQ_OK) fail_msg("%s", clq_error_detail());
    clq_model_destroy(check_round(model));
    clq_model_destroy(model);
}

static void images(void **state) {
    clq_model *m;
    clq_tensor y[4];
    const size_t sides[2][2] = {{1, 2}, {0, 1}};
    const float mean[] = {1, 2, 3}, variance[] = {1, 4, 9};
    (void)state;
    assert_ok(clq_model_create("images", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(12, 12, 3));
    x = clq_normalization(m, clq_rescaling(m, x, 1.0 / 255, -0.5, NULL), 3, mean, variance, NULL);
    x = clq_normalization(m, x, 0, NULL, NULL, NULL);
    x = clq_zero_padding(m, x, sides, NULL);
    x = clq_cropping(m, x, sides, NULL);
    x = clq_conv2d(m, x,
                   &(clq_conv2d_config){.filters = 8,
                                        .kernel = {3, 3},
                                        .strides = {2, 1},
                                        .padding = CLQ_PADDING_SAME,
                                        .activation = CLQ_ACTIVATION_RELU,
                                        .kernel_initialiser = {.kind = CLQ_INITIALISER_NORMAL, .deviation = 0.1},
                                        .bias_initialiser = {.kind = CLQ_INITIALISER_CONSTANT, .value = 0.5}});
    x = clq_regularise(m, x, "kernel", 0.25, 0.5);
    x = clq_freeze(m, clq_batch_norm(m, x, NULL));
    x = clq_recompute(m, clq_group_norm(m, x, &(clq_row_norm_config){.groups = 4}));
    x = clq_pipeline_cut(m, x);
    x = clq_depthwise_conv2d(m, x, &(clq_depthwise_conv2d_config){.kernel = {3, 3}, .padding = CLQ_PADDING_SAME});
    x = clq_regularise(m, x, "kernel", 0, 0.125);
    x = clq_constrain(
        m, x, "kernel",
        &(clq_constraint){.kind = CLQ_CONSTRAINT_MAX_NORM, .most = 0.75, .axes = {.count = 2, .axes = {0, -1}}});
    x = clq_constrain(m, x, "bias", &(clq_constraint){.kind = CLQ_CONSTRAINT_NON_NEGATIVE});
    x = clq_separable_conv2d(
        m, x, &(clq_separable_conv2d_config){.depthwise = {.kernel = {3, 3}, .no_bias = true}, .filters = 6});
    x = clq_conv2d_transpose(m, x, &(clq_conv2d_config){.filters = 4, .kernel = {2, 2}, .strides = {2, 2}});
    x = clq_max_pool2d(m, x, NULL);
    x = clq_average_pool2d(m, x, &(clq_pool_config){.size = {2, 2}, .strides = {1, 1}, .padding = CLQ_PADDING_SAME});
    x = clq_up_sampling2d(m, x, NULL, NULL);
    x = clq_leaky_relu(m, clq_prelu(m, x, true, NULL), 0.2, NULL);
    y[0] = clq_global_average_pool2d(m, x, false, "mean");
    y[1] = clq_global_max_pool(m, x, true, NULL);
    y[2] = clq_global_average_pool(m, clq_gaussian_noise(m, x, 0.1, NULL), false, NULL);
    y[3] = clq_flatten(
        m,
        clq_dropout(m, clq_alpha_dropout(m, x, 0.1, NULL), &(clq_dropout_config){.rate = 0.25, .seed = 7, .shared = 3}),
        NULL);
    finish_and_check(m, y, 4);
}

static void volumes(void **state) {
    clq_model *m;
    clq_tensor y[4];
    (void)state;
    assert_ok(clq_model_create("volumes", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(6, 5, 7, 4));
    x = clq_conv3d(m, x,
                   &(clq_conv3d_config){.filters = 6,
                                        .kernel = {2, 3, 1},
                                        .strides = {2, 1, 3},
                                        .padding = CLQ_PADDING_SAME,
                                        .activation = CLQ_ACTIVATION_RELU,
                                        .kernel_initialiser = {.kind = CLQ_INITIALISER_NORMAL, .deviation = 0.1},
                                        .groups = 2});
    x = clq_constrain(m, x, "kernel", &(clq_constraint){.kind = CLQ_CONSTRAINT_UNIT_NORM});
    x = clq_conv3d(m, x,
                   &(clq_conv3d_config){.filters = 2, .kernel = {1, 2, 2}, .dilation = {1, 2, 1}, .no_bias = true});
    y[0] = clq_max_pool3d(m, x,
                          &(clq_pool3d_config){.size = {3, 1, 2}, .strides = {1, 2, 1}, .padding = CLQ_PADDING_SAME});
    y[1] = clq_average_pool3d(m, x, NULL);
    y[2] = clq_up_sampling3d(m, x, (const size_t[]){2, 1, 3}, NULL);
    y[3] = clq_conv3d_transpose(
        m, x,
        &(clq_conv3d_config){.filters = 3, .kernel = {1, 2, 3}, .strides = {1, 2, 2}, .padding = CLQ_PADDING_SAME});
    finish_and_check(m, y, 4);
}

static void sequences(void **state) {
    clq_model *m;
    const clq_shape shapes[] = {CLQ_SHAPE(7), CLQ_SHAPE(6, 4), {.rank = 0}};
    const char *const names[] = {"tokens", NULL, "number"};
    static const char *const kernels[] = {"query/kernel", "key/kernel", "value/kernel", "attention_output/kernel"};
    clq_recurrent_config cell = clq_recurrent_config_default(5);
    clq_tensor in[3], y[8];
    (void)state;
    cell.return_sequences = true;
    assert_ok(clq_model_create("sequences", &m));
    clq_inputs(m, shapes, names, 3, in); /* the last one leads nowhere */
    clq_tensor x = clq_embedding(m, in[0], &(clq_embedding_config){.rows = 20, .width = 4});
    x = clq_regularise(m, x, "embeddings", 0.5, 0);
    x = clq_add(m, CLQ_TENSORS(x, clq_position_embedding(m, x, 9, NULL, NULL)), NULL);
    x = clq_layer_norm(m, clq_rms_norm(m, x, NULL), &(clq_row_norm_config){.epsilon = 0.5, .no_center = true});
    x = clq_attention(m, CLQ_TENSORS(x, in[1], in[1]), &(clq_attention_config){.heads = 2, .key = 3, .dropout = 0.5});
    for (size_t i = 0; i < CLQ_COUNT_OF(kernels); i++) x = clq_regularise(m, x, kernels[i], 0.25, 0.5);
    x = clq_attention(m, &x, 1, &(clq_attention_config){.heads = 2, .key = 2, .value = 3, .output = 4, .causal = true});
    x = clq_conv1d(m, x, &(clq_conv1d_config){.filters = 4, .kernel = 2, .padding = CLQ_PADDING_CAUSAL, .dilation = 2});
    x = clq_max_pool1d(m, x, &(clq_pool1d_config){.size = 2, .strides = 1, .padding = CLQ_PADDING_SAME});
    x = clq_average_pool1d(m, x, &(clq_pool1d_config){.size = 2, .strides = 1, .padding = CLQ_PADDING_SAME});
    y[0] = clq_recurrent(m, x, CLQ_CELL_LSTM, &cell);
    y[0] = clq_regularise(m, y[0], "recurrent_kernel", 0, 0.5);
    y[0] = clq_constrain(m, y[0], "kernel", &(clq_constraint){.kind = CLQ_CONSTRAINT_UNIT_NORM});
    y[0] = clq_constrain(m, y[0], "recurrent_kernel",
                         &(clq_constraint){.kind = CLQ_CONSTRAINT_MIN_MAX_NORM,
                                           .least = 0.25,
                                           .most = 0.5,
                                           .rate = 0.125,
                                           .axes = {.count = 1, .axes = {1}}});
    y[1] = clq_bidirectional(m, x, CLQ_CELL_GRU, &cell);
    cell.reset_before = true;
    y[1] = clq_recurrent(m, y[1], CLQ_CELL_GRU, &cell);
    cell.return_sequences = cell.reset_before = false;
    cell.activation = CLQ_ACTIVATION_RELU;
    cell.name = "ends";
    y[2] = clq_bidirectional(m, x, CLQ_CELL_SIMPLE, &cell);
    const clq_tensor dense = clq_dense(m, x, &(clq_dense_config){.units = 4, .activation = CLQ_ACTIVATION_SILU});
    const clq_tensor other = clq_share(m, dense, in[1]);
    y[3] = clq_concatenate(m, CLQ_TENSORS(other, in[1]), -1, NULL);
    y[4] = clq_subtract(m, CLQ_TENSORS(clq_multiply(m, CLQ_TENSORS(dense, x), NULL), x), NULL);
    y[5] = clq_average(m, CLQ_TENSORS(clq_maximum(m, CLQ_TENSORS(dense, x), NULL), clq_unit_norm(m, x, NULL)), NULL);
    y[6] = clq_permute(m, clq_minimum(m, CLQ_TENSORS(dense, x), NULL), CLQ_SHAPE(2, 1), NULL);
    y[7] = clq_repeat_vector(
        m, clq_reshape(m, clq_activate(m, dense, CLQ_ACTIVATION_GELU_APPROXIMATE, NULL), CLQ_SHAPE(28), NULL), 2, NULL);
    finish_and_check(m, y, 8);
}

/* ---- refusals ---- */

static clq_model *small(const char *penalty) {
    clq_model *model;
    assert_ok(clq_model_create("small", &model));
    const clq_tensor first = clq_dense(model, clq_input(model, CLQ_SHAPE(4)), &(clq_dense_config){.units = 3});
    const clq_tensor x = clq_rms_norm(model, first, &(clq_row_norm_config){.name = "rows"});
    if (penalty) (void)clq_regularise(model, strcmp(penalty, "scale") == 0 ? x : first, penalty, 0, 1);
    assert_ok(clq_model_finish(model, x));
    return model;
}

/* Tokens with a mask, and a sum with their places, which has none. */
static clq_tensor embed(clq_model *m, clq_tensor *tokens) {
    *tokens =
        clq_embedding(m, clq_input(m, CLQ_SHAPE(5)), &(clq_embedding_config){.rows = 9, .width = 4, .mask_zero = true});
    return clq_add(m, CLQ_TENSORS(*tokens, clq_position_embedding(m, *tokens, 5, NULL, NULL)), NULL);
}

/* Of what is looked at, a call of Keras's MultiHeadAttention may name the mask; of the queries Keras takes their own.
 */
static void masks_of_attention(void **state) {
    const clq_attention_config config = {.heads = 2, .key = 2};
    clq_model *m;
    clq_tensor tokens;
    void *text;
    size_t bytes;
    (void)state;
    assert_ok(clq_model_create("seen", &m));
    clq_tensor x = embed(m, &tokens);
    for (unsigned i = 0; i < 2; i++) {
        const clq_tensor seen = clq_keep_mask(m, clq_activate(m, x, CLQ_ACTIVATION_LINEAR, NULL), tokens);
        x = clq_add(m, CLQ_TENSORS(x, clq_attention(m, CLQ_TENSORS(x, seen), &config)), NULL);
    }
    assert_ok(clq_model_finish(m, x));
    assert_ok(write_again(m));
    assert_ok(clq_file_read(files_path("written.json"), 1 << 26, &text, &bytes));
    const char *first = strstr(text, "\"value_mask\"");
    assert_true(first && strstr(first + 1, "\"value_mask\"") && !strstr(text, "\"query_mask\""));
    clq_free(text);
    clq_model_destroy(m);
    assert_ok(clq_model_create("looking", &m));
    x = clq_keep_mask(m, embed(m, &tokens), tokens);
    assert_ok(clq_model_finish(m, clq_flatten(m, clq_attention(m, &x, 1, &config), NULL)));
    assert_int_equal(write_again(m), CLQ_ERROR_UNSUPPORTED);
    expect_text(clq_error_detail(), "'multi_head_attention': Keras would give its call another mask");
    clq_model_destroy(m);
}

/* In Keras the second attention sees no mask of its query, and the loss leaves no steps out: the first has ended it. A
 * model that was read has none either. */
static void masks_that_attention_ends(void **state) {
    const clq_attention_config config = {.heads = 2, .key = 2};
    clq_model *m;
    (void)state;
    for (int attentions = 1; attentions <= 2; attentions++) {
        assert_ok(clq_model_create("twice", &m));
        clq_tensor x = clq_input(m, CLQ_SHAPE(4));
        x = clq_embedding(m, x, &(clq_embedding_config){.rows = 5, .width = 4, .mask_zero = true});
        for (int i = 0; i < attentions; i++)
            x = clq_add(m, CLQ_TENSORS(x, clq_attention(m, CLQ_TENSORS(x, x), &config)), i == 0 ? "sum" : NULL);
        assert_ok(clq_model_finish(m, attentions > 1 ? clq_flatten(m, x, NULL) : x));
        assert_int_equal(write_again(m), CLQ_ERROR_UNSUPPORTED);
        expect_text(clq_error_detail(),
                    attentions > 1 ? "'multi_head_attention_1': Keras would give its call another mask"
                                   : "output 'sum': Keras's loss would leave out other steps than this model's");
        clq_model_destroy(m);
    }
}

/* A mask that Keras is to find when the call runs is written as null, as Keras writes it. Without the keyword Keras
 * takes the mask that there is when the file is read, before any attention has ended it. */
static void masks_of_the_run(void **state) {
    const clq_recurrent_config config = clq_recurrent_config_default(2);
    clq_model *m;
    void *text;
    size_t bytes;
    (void)state;
    assert_ok(clq_model_create("run", &m));
    const clq_tensor x =
        clq_embedding(m, clq_input(m, CLQ_SHAPE(4)), &(clq_embedding_config){.rows = 5, .width = 4, .mask_zero = true});
    assert_ok(clq_model_finish(m, clq_recurrent(m, x, CLQ_CELL_GRU, &config)));
    assert_ok(write_again(m));
    assert_ok(clq_file_read(files_path("written.json"), 1 << 26, &text, &bytes));
    assert_non_null(strstr(text, "\"mask\": null"));
    clq_free(text);
    clq_model_destroy(m);
}

/* So it is for layers that Clique gives no masks: without the keyword BatchNormalization and Softmax would have the one
 * that the attention ends. */
static void masks_that_are_not_taken(void **state) {
    static const char *const keys[] = {"\"BatchNormalization\"", "\"Softmax\""};
    const clq_attention_config config = {.heads = 2, .key = 2};
    clq_model *m;
    void *text;
    size_t bytes;
    (void)state;
    assert_ok(clq_model_create("not_taken", &m));
    clq_tensor x = clq_attention(m, CLQ_TENSORS(clq_input(m, CLQ_SHAPE(4, 4))), &config);
    x = clq_activate(m, clq_batch_norm(m, x, NULL), CLQ_ACTIVATION_SOFTMAX, NULL);
    assert_ok(clq_model_finish(m, x));
    assert_ok(write_again(m));
    assert_ok(clq_file_read(files_path("written.json"), 1 << 26, &text, &bytes));
    for (size_t i = 0; i < CLQ_COUNT_OF(keys); i++) {
        const char *layer = strstr(text, keys[i]);
        const char *mask = layer ? strstr(layer, "\"mask\": null") : NULL;
        const char *next = layer ? strstr(layer + 1, "\"class_name\": \"Softmax\"") : NULL;
        assert_true(mask && (!next || mask < next));
    }
    clq_free(text);
    clq_model_destroy(m);
}

static void refused(void **state) {
    clq_model *model;
    (void)state;
    assert_ok(clq_model_create("open", &model));
    (void)clq_input(model, CLQ_SHAPE(3));
    assert_int_equal(write_again(model), CLQ_ERROR_STATE);
    expect_text(clq_error_detail(), "open is not finished");
    clq_model_destroy(model);
    model = small("scale");
    assert_int_equal(write_again(model), CLQ_ERROR_UNSUPPORTED);
    expect_text(clq_error_detail(), "'rows'");
    clq_model_destroy(model);
    assert_ok(clq_model_create("small", &model));
    const clq_tensor x = clq_rms_norm(model, clq_input(model, CLQ_SHAPE(4)), &(clq_row_norm_config){.name = "rows"});
    assert_ok(clq_model_finish(
        model, clq_constrain(model, x, "scale", &(clq_constraint){.kind = CLQ_CONSTRAINT_NON_NEGATIVE})));
    assert_int_equal(write_again(model), CLQ_ERROR_UNSUPPORTED);
    expect_text(clq_error_detail(), "'rows': Keras's RMSNormalization has no constraint");
    clq_model_destroy(model);
    model = small(NULL);
    assert_int_equal(clq_model_write_keras_json(model, files_path("none/written.json")), CLQ_ERROR_WRITE);
    expect_text(clq_error_detail(), "none/written.json");
    assert_false(clq_file_exists(files_path("none/written.json")));
    clq_model_destroy(model);
}

static void *json_alloc(size_t bytes) { return clq_alloc(1, bytes); }

/* Those of the JSON, too. */
static void out_of_memory(void **state) {
    clq_model *model = small("kernel");
    (void)state;
    json_set_alloc_funcs(json_alloc, clq_free);
    assert_true(walk_allocations(write_again, model) > 100);
    json_set_alloc_funcs(malloc, free);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keras_files),
                                       cmocka_unit_test(images),
                                       cmocka_unit_test(volumes),
                                       cmocka_unit_test(sequences),
                                       cmocka_unit_test(masks_of_attention),
                                       cmocka_unit_test(masks_that_attention_ends),
                                       cmocka_unit_test(masks_of_the_run),
                                       cmocka_unit_test(masks_that_are_not_taken),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests_name("interop/keras_writer", tests, files_begin, files_end);
}
