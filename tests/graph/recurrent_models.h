/* Models with recurrent layers, for tests of step graphs. */
#ifndef CLQ_TEST_GRAPH_RECURRENT_MODELS_H
#define CLQ_TEST_GRAPH_RECURRENT_MODELS_H

#include "graph/keyed_layers.h"

static keyed_config cell_settings(const clq_layer_kind *kind, size_t units) {
    keyed_config config = {.kind = kind};
    *(size_t *)setting(&config, "units") = units;
    *(clq_activation *)setting(&config, "activation") = CLQ_ACTIVATION_TANH;
    if (kind != &clq_layer_simple_rnn)
        *(clq_activation *)setting(&config, "recurrent_activation") = CLQ_ACTIVATION_SIGMOID;
    *(bool *)setting(&config, "return_state") = true;
    *(size_t *)setting(&config, "initial_state") = 2;
    return config;
}

static clq_tensor masked_both_ways(subject *s, clq_tensor x) {
    clq_recurrent_config config = clq_recurrent_config_default(5);
    config.return_sequences = true;
    clq_tensor y = clq_bidirectional(s->model, masked_sequence(s, x, 12), CLQ_CELL_LSTM, &config);
    config = clq_recurrent_config_default(3);
    config.return_sequences = config.zero_output_for_mask = config.no_bias = true;
    const clq_tensor z = clq_recurrent(s->model, masked_sequence(s, x, 8), CLQ_CELL_LSTM, &config);
    config = clq_recurrent_config_default(4);
    y = clq_bidirectional(s->model, y, CLQ_CELL_LSTM, &config);
    return clq_concatenate(s->model, CLQ_TENSORS(y, clq_flatten(s->model, z, NULL)), 0, NULL);
}

/* A GRU with dropout of inputs and of states, and a GRU with dropout of inputs alone that resets before the product. */
static clq_tensor dropped_sequences(subject *s, clq_tensor x) {
    clq_recurrent_config config = clq_recurrent_config_default(5);
    config.return_sequences = true;
    config.dropout = 0.3;
    config.recurrent_dropout = 0.25;
    x = clq_recurrent(s->model, clq_reshape(s->model, x, CLQ_SHAPE(9, 8), NULL), CLQ_CELL_GRU, &config);
    config.recurrent_dropout = 0;
    config.go_backwards = config.reset_before = true;
    return clq_flatten(s->model, clq_recurrent(s->model, x, CLQ_CELL_GRU, &config), NULL);
}

/* An encoder starts from a given state and passes its final state to a decoder. A layer that is not trained also starts
 * from a given state. */
static clq_tensor from_state_to_state(subject *s, clq_tensor x) {
    const clq_tensor sequence = clq_reshape(s->model, x, CLQ_SHAPE(6, 12), NULL), flat = clq_flatten(s->model, x, NULL);
    const clq_dense_config dense = {.units = 5, .activation = CLQ_ACTIVATION_TANH};
    keyed_config simple = cell_settings(&clq_layer_simple_rnn, 5), lstm = cell_settings(&clq_layer_lstm, 5),
                 gru = cell_settings(&clq_layer_gru, 5);
    const clq_tensor first = clq_dense(s->model, flat, &dense), second = clq_dense(s->model, flat, &dense);
    *(bool *)setting(&simple, "return_sequences") = true;
    const clq_tensor encoded =
        clq_model_add_layer(s->model, simple.kind, NULL, simple.bytes, CLQ_TENSORS(sequence, first));
    const clq_tensor decoded =
        clq_model_add_layer(s->model, lstm.kind, NULL, lstm.bytes,
                            CLQ_TENSORS(clq_model_output_of(s->model, encoded, 0, NULL),
                                        clq_model_output_of(s->model, encoded, 1, NULL), second));
    *(bool *)setting(&gru, "return_state") = false;
    const clq_tensor fixed =
        clq_freeze(s->model, clq_model_add_layer(s->model, gru.kind, NULL, gru.bytes, CLQ_TENSORS(sequence, second)));
    return clq_concatenate(s->model,
                           CLQ_TENSORS(clq_model_output_of(s->model, decoded, 0, NULL),
                                       clq_model_output_of(s->model, decoded, 2, NULL), fixed),
                           0, NULL);
}

#endif
