/* The importer against tests/golden/layers.json, branched.json and normalised.json, made by Keras: what must be read,
 * with the shapes and variables that Keras has, and what must be refused, with the words the message must hold. What
 * calls of layers say, and layers within layers. */
#include "interop/keras_text.h"

static json_t *entries;

static bool same_shape(clq_shape shape, json_t *want) {
    if (shape.rank != json_array_size(want)) return false;
    for (unsigned d = 0; d < shape.rank; d++)
        if ((json_int_t)shape.dims[d] != json_integer_value(json_array_get(want, d))) return false;
    return true;
}

static void check_read(const char *name, json_t *entry) {
    clq_model *model;
    clq_status status = read_json(json_object_get(entry, "model"), &model);
    if (status != CLQ_OK) fail_msg("%s: %s", name, clq_error_detail());
    if (!same_shape(clq_model_input_shape(model), json_object_get(entry, "input_shape")))
        fail_msg("%s: input shape", name);
    if (!same_shape(clq_model_output_shape(model, 0), json_object_get(entry, "output_shape")))
        fail_msg("%s: output shape", name);
    size_t output;
    json_t *shape;
    json_array_foreach(json_object_get(entry, "output_shapes"), output,
                       shape) if (!same_shape(clq_model_output_shape(model, output), shape))
        fail_msg("%s: shape of output %zu", name, output);
    json_t *variables = json_object_get(entry, "variables");
    assert_int_equal(clq_model_variable_count(model), json_object_size(variables));
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info v;
        assert_int_equal(clq_model_variable(model, i, &v), CLQ_OK);
        if (!same_shape(v.shape, json_object_get(variables, v.name))) fail_msg("%s: variable %s", name, v.name);
    }
    clq_model_destroy(model);
}

static void check_refused(const char *name, json_t *entry) {
    clq_model *model;
    clq_status status = read_json(json_object_get(entry, "model"), &model);
    if (status == CLQ_OK) fail_msg("%s was read", name);
    assert_true(status == CLQ_ERROR_FORMAT || status == CLQ_ERROR_UNSUPPORTED);
    size_t index;
    json_t *word;
    json_array_foreach(json_object_get(entry, "message_has"), index,
                       word) if (!strstr(clq_error_detail(), json_string_value(word)))
        fail_msg("%s: no '%s' in: %s", name, json_string_value(word), clq_error_detail());
}

/* What the files say may be refused, because an engine may not have it, and Keras reads: so do we. */
static bool is_read_now(const char *name) {
    static const char *const read[] = {"branch",
                                       "two_outputs",
                                       "two_inputs",
                                       "three_inputs",
                                       "shared_layer",
                                       "multiply_broadcast",
                                       "add_broadcast",
                                       "dead_end",
                                       "shared_conv2d_two_sizes",
                                       "dense_gelu",
                                       "activation_selu",
                                       "conv2d_groups",
                                       "softmax_axis",
                                       "nested_model",
                                       "dropout_noise_shape",
                                       "spatial_dropout2d",
                                       "gaussian_dropout",
                                       "layer_normalization",
                                       "batch_normalization_frozen",
                                       "batch_normalization_axis_1_of_images",
                                       "activation_is_a_layer",
                                       "minimum",
                                       "dense_frozen",
                                       "lstm",
                                       "dense_regularizer",
                                       "dense_constraint",
                                       "batch_normalization_constraint",
                                       "dot",
                                       "batch_normalization_regularizer",
                                       "conv2d_channels_first",
                                       "max_pooling2d_channels_first",
                                       "flatten_channels_first",
                                       "global_average_pooling_channels_first",
                                       "input_is_an_output"};
    for (size_t i = 0; i < CLQ_COUNT_OF(read); i++)
        if (strcmp(read[i], name) == 0) return true;
    return false;
}

static void check_is_read(const char *name, json_t *entry) {
    clq_model *model;
    assert_true(json_is_true(json_object_get(entry, "keras_reads")));
    if (read_json(json_object_get(entry, "model"), &model) != CLQ_OK) fail_msg("%s: %s", name, clq_error_detail());
    clq_model_destroy(model);
}

static void layers_of_keras(void **state) {
    (void)state;
    size_t index, read = 0, refused = 0;
    json_t *entry;
    json_array_foreach(entries, index, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        bool wanted = strcmp(json_string_value(json_object_get(entry, "expect")), "read") == 0;
        if (wanted) {
            check_read(name, entry);
            read++;
        } else if (is_read_now(name)) {
            check_is_read(name, entry);
            read++;
        } else {
            check_refused(name, entry);
            refused++;
        }
    }
    assert_true(read >= 114 && refused >= 76);
}

/* What calls say beside tensors: the same in each, and within the ranges of what follows. */
static void calls_of_layers(void **state) {
    (void)state;
    clq_model *model;
    const char *item =
        "{\"class_name\": \"GetItem\", \"module\": \"keras.src.ops.numpy\", \"name\": \"y\", "
        "\"config\": {\"name\": \"y\"}, \"inbound_nodes\": [{\"args\": [" TENSOR(
            "x", 0) ", [{\"class_name\": \"__slice__\", \"config\": {\"start\": null, \"stop\": null, \"step\": "
                    "null}}, %s]], \"kwargs\": {}}]}";
    const char *attention =
        "{\"class_name\": \"MultiHeadAttention\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"num_heads\": 1, "
        "\"key_dim\": 2}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) ", " TENSOR(
            "x", 0) "], \"kwargs\": {%s}}, "
                    "{\"args\": [" TENSOR("y", 0) ", " TENSOR("y", 0) "], \"kwargs\": {%s}}]}";
    const struct {
        const char *shape, *layer, *parts[2], *says; /* NULL: it is read */
    } cases[] = {
        {"[null, 2, 2, 2, 2, 2, 2]", item, {"null", ""}, "too many axes"},
        {"[null, 2, 2, 2, 2, 2]", item, {"null, null", ""}, "too many axes"},
        {"[null, 2, 2, 2, 2, 2]", item, {"null", ""}, NULL},
        {"[null, 1, 3]", item, {"-9223372036854775808", ""}, "args"},
        {"[null, 3, 4]", attention, {"\"use_causal_mask\": true", "\"use_causal_mask\": true"}, NULL},
        {"[null, 3, 4]", attention, {"\"use_causal_mask\": false", ""}, NULL},
        {"[null, 3, 4]", attention, {"\"query_mask\": null", ""}, NULL},
        {"[null, 3, 4]", /* Keras does not use it */
         attention,
         {"\"query_mask\": " TENSOR("x", 0), ""},
         "kwargs.query_mask is not supported"},
        {"[null, 3, 4]", attention, {"\"use_causal_mask\": true", ""}, "other keywords than the first"},
        {"[null, 3, 4]", attention, {"", "\"use_causal_mask\": true"}, "other keywords than the first"},
        {"[null, 2, 3, 4]",
         attention,
         {"\"use_causal_mask\": true", "\"use_causal_mask\": true"},
         "(tokens, channels)"},
        {"[null, 70000, 4]", attention, {"", ""}, "its pairs of tokens"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        char *layer = clq_strprintf(cases[i].layer, cases[i].parts[0], cases[i].parts[1]);
        const clq_status status = read_layers(cases[i].shape, layer, "y", &model);
        clq_free(layer);
        if (cases[i].says && status == CLQ_OK) fail_msg("case %zu was read", i);
        if (cases[i].says) expect_text(clq_error_detail(), cases[i].says);
        if (!cases[i].says && status != CLQ_OK) fail_msg("case %zu: %s", i, clq_error_detail());
        if (status == CLQ_OK) clq_model_destroy(model);
    }
}

/* What a layer may be given beside tensors, and layers within layers. */
static void layers_within_and_beside(void **state) {
    (void)state;
    static const struct {
        const char *shape, *layer, *says; /* NULL: it is read */
    } cases[] = {
        {"[null, 3, 4]",
         "{\"class_name\": \"MultiHeadAttention\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"num_heads\": 1, "
         "\"key_dim\": 2}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) ", " TENSOR(
             "x", 0) "]}, {\"args\": [" TENSOR("y", 0) ", " TENSOR("y", 0) ", " TENSOR("y", 0) "]}]}",
         "more or fewer tensors"},
        {"[null, 100000000, 2, 2]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"GlobalAveragePooling1D\", \"config\": {\"name\": \"g\"}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "more than 1024 steps"},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"l\", \"units\": 2}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) ", " TENSOR("x", 0) "]}]}",
         "by their names alone"},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"l\", \"units\": 2}}}, \"inbound_nodes\": "
         "[[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"output\", \"units\": 2, \"return_sequences\": "
         "true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"turned\", \"units\": 2, \"return_sequences\": "
         "true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"sequences\", \"units\": 2, "
         "\"return_sequences\": true}}, \"backward_layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": "
         "\"same\", \"units\": 2, \"return_sequences\": true, \"go_backwards\": true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"same\", \"units\": 2, \"return_sequences\": "
         "true}}, \"backward_layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"same\", \"units\": 2, "
         "\"return_sequences\": true, \"go_backwards\": true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"aéééééééééééééééééééééééééééééé\", \"units\": "
         "2, \"return_sequences\": true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Dense\", \"config\": {\"name\": \"output\", \"units\": 2}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Dense\", \"config\": {\"name\": \"inputs\", \"units\": 2}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Conv1D\", \"config\": {\"name\": \"output\", \"filters\": 2, \"kernel_size\": [2]}}}, "
         "\"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Conv1D\", \"config\": {\"name\": \"step_0\", \"filters\": 2, \"kernel_size\": [2]}}}, "
         "\"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Conv1D\", \"config\": {\"name\": \"inputs\", \"filters\": 2, \"kernel_size\": [2]}}}, "
         "\"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"l\", \"units\": 2}}, \"backward_layer\": "
         "{\"class_name\": \"LSTM\", \"config\": {\"name\": \"m\", \"units\": 2}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "backward_layer: it goes the same way"},
        {"[null, 3, 4]",
         "{\"module\": \"keras_hub.src.models.gpt_neo_x.gpt_neo_x_decoder\", \"class_name\": \"GPTNeoXDecoder\", "
         "\"name\": \"y\", \"config\": {\"name\": \"y\", \"intermediate_dim\": 4, \"num_heads\": 1, "
         "\"rotary_percentage\": -0.5}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "rotary_percentage: should be above 0"},
        {"[null, 3, 4]",
         "{\"class_name\": \"Masking\", \"name\": \"m\", \"config\": {\"name\": \"m\"}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x",
                                0) "]}]}, "
                                   "{\"module\": \"keras_hub.src.models.gpt_neo_x.gpt_neo_x_decoder\", \"class_name\": "
                                   "\"GPTNeoXDecoder\", "
                                   "\"name\": \"y\", \"config\": {\"name\": \"y\", \"intermediate_dim\": 4, "
                                   "\"num_heads\": 1, \"rotary_percentage\": 0.5}, "
                                   "\"inbound_nodes\": [{\"args\": [" TENSOR("m", 0) "]}]}",
         "drop mask_zero and give decoder_padding_mask"},
        {"[null, 1, 8192]",
         "{\"module\": \"keras_hub.src.models.bloom.bloom_decoder\", \"class_name\": \"BloomDecoder\", \"name\": "
         "\"y\", \"config\": {\"name\": \"y\", \"intermediate_dim\": 4, \"num_heads\": 8192}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "num_heads: more than 4096"},
        {"[null, 3, 4]",
         "{\"module\": \"keras_hub.src.models.mistral.mistral_transformer_decoder\", \"class_name\": "
         "\"MistralTransformerDecoder\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"intermediate_dim\": 4, "
         "\"num_query_heads\": 2, \"num_key_value_heads\": 1, \"sliding_window\": 0}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "sliding_window: should be above 0"},
        {"[null, 65, 4, 4, 1]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 1, "
         "\"kernel_size\": [1, 1]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "more than 64 steps"},
        {"[null, 1, 1, 2, 1]",
         "{\"class_name\": \"Conv3D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 1, \"padding\": "
         "\"same\", \"kernel_size\": [1, 1, 257]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "more than 256 places"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"module\": \"keras.constraints\", \"class_name\": \"MaxNorm\", \"config\": 7}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_constraint"},
        {"[null, 3, 4]",
         "{\"class_name\": \"ReversibleEmbedding\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"input_dim\": 7, "
         "\"output_dim\": 5}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "], \"kwargs\": {\"reverse\": true}}]}",
         "rows of 5 channels, not (3, 4)"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_regularizer\": {\"module\": \"my.package\", \"class_name\": \"L2\", \"config\": {\"l2\": 1}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_regularizer: L2 is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, \"use_bias\": "
         "false, "
         "\"bias_regularizer\": \"l2\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"module\": \"my.package\", \"class_name\": \"NonNeg\", \"config\": {}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_constraint: NonNeg is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"class_name\": \"MaxNorm\", \"config\": {\"max_value\": 1, \"min_value\": 0}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_constraint: MaxNorm is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"class_name\": \"UnitNorm\", \"config\": {\"axis\": []}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_constraint: UnitNorm is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"class_name\": \"UnitNorm\", \"config\": {\"axis\": [1, 2]}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "axis 2 is none of the variable's 2"},
        {"[null, 3, 4, 4, 2]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 2, "
         "\"kernel_size\": [2, 2], \"dropout\": 0.5}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "dropout"},
        {"[null, 3, 4, 4, 2]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 2, "
         "\"kernel_size\": [2, 2], \"return_state\": true}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "return_state"},
        {"[null, 3, 4, 4, 2]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 2, "
         "\"kernel_size\": [2, 2], \"activation\": \"softmax\"}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "activation 'softmax' is not supported"},
        {"[null, 3, 4, 4, 2]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 2, "
         "\"kernel_size\": [2, 2]}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"use_bias\": false, \"bias_constraint\": \"non_neg\", \"kernel_constraint\": \"MaxNorm\"}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.image\", \"class_name\": \"ExtractPatches\", \"name\": \"y\", \"config\": "
         "{\"name\": \"y\", \"size\": [2, 2], \"strides\": [1, 1, 1], \"dilation_rate\": 1}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "strides should be one whole number or 2, not 3"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.image\", \"class_name\": \"ExtractPatches\", \"name\": \"y\", \"config\": "
         "{\"name\": \"y\", \"size\": [2, 2, 2], \"strides\": 1, \"dilation_rate\": 1}, \"inbound_nodes\": [{\"args\": "
         "[" TENSOR("x", 0) "]}]}",
         "it takes (depth, height, width, channels)"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.image\", \"class_name\": \"ExtractPatches\", \"name\": \"y\", \"config\": "
         "{\"name\": \"y\", \"size\": [7, 2], \"strides\": 1, \"dilation_rate\": 1}, \"inbound_nodes\": [{\"args\": "
         "[" TENSOR("x", 0) "]}]}",
         "its window covers 7 values"},
        {"[null, 1, 900, 1]",
         "{\"module\": \"keras.src.ops.image\", \"class_name\": \"ExtractPatches\", \"name\": \"y\", \"config\": "
         "{\"name\": \"y\", \"size\": [1, 257], \"strides\": 1, \"dilation_rate\": 1}, \"inbound_nodes\": [{\"args\": "
         "[" TENSOR("x", 0) "]}]}",
         "more than 256 places"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Roll\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"shift\": [1, 2], \"axis\": [1]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "shift has 2 numbers, and axis 1"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Roll\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"shift\": 1.5, \"axis\": 1}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "1.5 is no whole number"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Roll\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"shift\": 1, \"axis\": null}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "axis: is missing"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Tile\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"repeats\": [2, 1, 1, 1]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "the batch can be there once, not 2 times"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Tile\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"repeats\": [1, 2, 0, 1]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "number 3 is 0"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Var\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"axis\": [1, -3]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "is named twice"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Tile\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"repeats\": [1, 1, 1, 1, 1]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "repeats has 5 numbers"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Moveaxis\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"source\": [1, 1], \"destination\": [2, 3]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "each once"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.nn\", \"class_name\": \"DepthToSpace\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"block_size\": 3}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "needs channels that its square divides, not 4"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.nn\", \"class_name\": \"SpaceToDepth\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"block_size\": 2}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "needs sides that it divides, not 6 x 5"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.nn\", \"class_name\": \"Normalize\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"axis\": 1, \"order\": 3}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "order 3 is not supported"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Einsum\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"subscripts\": \"bhhc->bhc\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "each letter should be of one axis"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Einsum\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"subscripts\": \"bbwc->bwc\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "the batch's letter should be there once"},
        {"[null, 6, 5, 4]",
         "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Einsum\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"subscripts\": \"bhwc->hbwc\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "the batch first"},
        {"[null, 2, 3, 4, 1]",
         "{\"module\": \"keras.layers\", \"class_name\": \"Conv3DTranspose\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"filters\": 2, \"kernel_size\": 2, \"strides\": 2, \"dilation_rate\": 2}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "cannot both be above 1"},
        {"[null, 2, 3, 4, 1]",
         "{\"module\": \"keras.layers\", \"class_name\": \"Conv3DTranspose\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"filters\": 2, \"kernel_size\": 2, \"output_padding\": [1, 1, 1]}, \"inbound_nodes\": [{\"args\": "
         "[" TENSOR("x", 0) "]}]}",
         "output_padding"},
        {"[null, 6, 5, 4, 2]",
         "{\"module\": \"keras.layers\", \"class_name\": \"ConvLSTM1D\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"filters\": 2, \"kernel_size\": 2}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "it takes (steps, places, channels)"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, \"activation\": "
         "{\"class_name\": \"LeakyReLU\", \"config\": {\"name\": \"l\", \"negative_slope\": 0.3}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "this LeakyReLU as an object is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, \"activation\": "
         "{\"class_name\": \"ReLU\", \"config\": {\"name\": \"l\", \"max_value\": 0}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "this ReLU as an object is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, \"activation\": "
         "{\"class_name\": \"ReLU\", \"config\": {\"name\": \"l\", \"negative_slope\": 0.1}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "this ReLU as an object is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, \"activation\": "
         "{\"module\": \"my.package\", \"class_name\": \"ReLU\", \"config\": {\"name\": \"l\"}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "this ReLU as an object is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, \"activation\": "
         "{\"class_name\": \"LeakyReLU\", \"config\": {\"alpha\": 0.20000000298023224}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 4]",
         "{\"module\": \"keras.src.ops.core\", \"class_name\": \"Cast\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"dtype\": \"int32\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "only whole ones are supported"},
        {"[null, 4]",
         "{\"module\": \"keras.src.ops.core\", \"class_name\": \"Cast\", \"name\": \"y\", \"config\": {\"name\": "
         "\"y\", \"dtype\": \"uint8\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "dtype 'uint8' is not supported"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_model *model;
        const clq_status status = read_layers(cases[i].shape, cases[i].layer, "y", &model);
        if (cases[i].says && status == CLQ_OK) fail_msg("case %zu was read", i);
        if (cases[i].says) expect_text(clq_error_detail(), cases[i].says);
        if (!cases[i].says && status != CLQ_OK) fail_msg("case %zu: %s", i, clq_error_detail());
        if (status == CLQ_OK) clq_model_destroy(model);
    }
}

/* Sizes that a file leaves open, and what says them. */
static void open_sizes(void **state) {
    (void)state;
    const clq_shape images = {3, {20, 30, 3}}, partly = {3, {0, 30, 0}}, wide = {3, {20, 30, 4}}, flat = {1, {7}};
    const clq_shape two[] = {images, flat};
    const struct {
        const char *shape;
        clq_keras_sizes sizes;
        clq_status status;
        const char *says;
        size_t dims[2];
    } cases[] = {
        {"[null, null, null, 3]", {.open = 9}, CLQ_OK, NULL, {9, 9}},
        {"[null, 5, null, 3]", {.open = 9}, CLQ_OK, NULL, {5, 9}},
        {"[null, null, null, 3]", {.shapes = &images, .count = 1}, CLQ_OK, NULL, {20, 30}},
        {"[null, 20, 30, 3]", {.shapes = &images, .count = 1}, CLQ_OK, NULL, {20, 30}},
        {"[null, null, null, 3]", {.open = 9, .shapes = &partly, .count = 1}, CLQ_OK, NULL, {9, 30}},
        {"[null, null, null, 3]", {.open = 0}, CLQ_ERROR_UNSUPPORTED, "batch_shape[1] is open", {0}},
        {"[null, null, null, 3]",
         {.shapes = &partly, .count = 1},
         CLQ_ERROR_UNSUPPORTED,
         "batch_shape[1] is open",
         {0}},
        {"[null, null, null, 3]", {.shapes = &wide, .count = 1}, CLQ_ERROR_MISMATCH, "batch_shape[3] is 3", {0}},
        {"[null, null, null, 3]", {.shapes = &flat, .count = 1}, CLQ_ERROR_MISMATCH, "3 axes behind the batch", {0}},
        {"[null, null, null, 3]", {.shapes = two, .count = 2}, CLQ_ERROR_MISMATCH, "shapes of 2 inputs", {0}},
        {"[null, null, null, 3]", {.open = 9, .reserved[1] = 1}, CLQ_ERROR_ARGUMENT, "clq_keras_sizes.reserved", {0}},
    };
    const char *layer =
        "{\"class_name\": \"Activation\", \"name\": \"y\", \"config\": {\"name\": \"y\", "
        "\"activation\": \"relu\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "], \"kwargs\": {}}]}";
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_model *model;
        /* This puts the file there, whatever becomes of it. */
        if (read_layers(cases[i].shape, layer, "y", &model) == CLQ_OK) clq_model_destroy(model);
        const clq_status status = clq_model_read_keras_json_sized(file, &cases[i].sizes, &model);
        if (status != cases[i].status) fail_msg("case %zu: %s", i, clq_error_detail());
        if (status != CLQ_OK) {
            expect_text(clq_error_detail(), cases[i].says);
            continue;
        }
        assert_int_equal(clq_model_output_shape(model, 0).dims[0], cases[i].dims[0]);
        assert_int_equal(clq_model_output_shape(model, 0).dims[1], cases[i].dims[1]);
        clq_model_destroy(model);
    }
}

/* A layer within a frozen model is not trained, whatever it says itself. */
static void frozen_models_within(void **state) {
    (void)state;
    clq_model *model;
    clq_variable_info info;
    const char *inner =
        "{\"class_name\": \"Sequential\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"trainable\": false, "
        "\"layers\": [{\"class_name\": \"Dense\", \"config\": {\"name\": \"d\", \"units\": 2, \"trainable\": true}}]}, "
        "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "], \"kwargs\": {}}]}";
    if (read_layers("[null, 3]", inner, "y", &model) != CLQ_OK) fail_msg("%s", clq_error_detail());
    assert_int_equal(clq_model_variable(model, 0, &info), CLQ_OK);
    assert_string_equal(info.name, "y.d/kernel");
    assert_false(info.trainable);
    clq_model_destroy(model);
}

static int start(void **state) {
    static const char *const names[] = {"layers", "branched", "normalised"};
    entries = json_array();
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) {
        char *path = clq_strprintf("%s/tests/golden/%s.json", getenv("CLQ_TEST_SOURCE"), names[i]);
        json_t *root;
        if (clq_json_read(path, 1 << 24, 64, &root) != CLQ_OK) return -1;
        clq_free(path);
        if (json_array_extend(entries, json_object_get(root, "models")) != 0) return -1;
        json_decref(root);
    }
    return open_file(state);
}

static int end(void **state) {
    json_decref(entries);
    return close_file(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_of_keras), cmocka_unit_test(calls_of_layers),
                                       cmocka_unit_test(layers_within_and_beside), cmocka_unit_test(open_sizes),
                                       cmocka_unit_test(frozen_models_within)};
    return cmocka_run_group_tests_name("interop/keras_json", tests, start, end);
}
