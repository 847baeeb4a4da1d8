/* Calls that would compute something else than in Keras if they were read, beside calls of the same kinds that are
 * read.
 */
#include "interop/keras_text.h"

#define NUMPY "keras.src.ops.numpy"
#define MATH "keras.src.ops.math"
#define NN "keras.src.ops.nn"
#define LAYERS "keras.layers"
#define CONFIG(class_name, keys) "{\"class_name\": \"" class_name "\", \"config\": {" keys "}}"
/* keys: behind the name, with a comma in front. */
#define LAYER(module, class_name, name, keys, arguments)                                                               \
    "{\"module\": \"" module "\", \"class_name\": \"" class_name "\", \"name\": \"" name                               \
    "\", \"config\": {\"name\": \"" name "\"" keys "}, \"inbound_nodes\": [{\"args\": [" arguments "]}]}"
#define X TENSOR("x", 0)
#define M TENSOR("m", 0)
#define L1 CONFIG("L1", "\"l1\": 0.1")
#define ARRAY(values) CONFIG("__numpy__", "\"value\": " values ", \"dtype\": \"float32\"")
#define MASKING LAYER(LAYERS, "Masking", "m", "", X) ", "

#define GRU_CELL(name) CONFIG("GRUCell", "\"name\": \"" name "\", \"units\": 2")
#define STACK(keys, cells) CONFIG("StackedRNNCells", keys "\"cells\": [" cells "]")
#define TWO_CELLS STACK("", GRU_CELL("a") ", " GRU_CELL("b"))
#define RNN(cell, keys, from) LAYER(LAYERS, "RNN", "y", ", \"cell\": " cell keys, from)
#define BACKWARDS ", \"go_backwards\": true"
#define TURNED(keys)                                                                                                   \
    LAYER(LAYERS, "Bidirectional", "y", ", \"layer\": " CONFIG("GRU", "\"name\": \"g\", \"units\": 2") keys, X)

typedef struct call {
    const char *shape, *layers;
    const char *says; /* NULL: it is read */
} call;

static void check_calls(const call *calls, size_t count) {
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        clq_model *model;
        const clq_status status = read_layers(calls[i].shape, calls[i].layers, "y", &model);
        const char *says = status == CLQ_OK ? "" : clq_error_detail();
        if (calls[i].says ? !strstr(says, calls[i].says) : status != CLQ_OK) {
            print_error("call %zu, which should %s%s: %s\n", i, calls[i].says ? "say: " : "be read",
                        calls[i].says ? calls[i].says : "", status == CLQ_OK ? "it was read" : says);
            wrong++;
        }
        if (status == CLQ_OK) clq_model_destroy(model);
    }
    assert_int_equal(wrong, 0);
}

static void recurrent_cells(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 3, 4]", MASKING RNN(TWO_CELLS, BACKWARDS, M), "go_backwards: true is not supported of several cells"},
        {"[null, 3, 4]", MASKING RNN(TWO_CELLS, "", M), NULL},
        {"[null, 3, 4]", MASKING RNN(GRU_CELL("a"), BACKWARDS, M), NULL},
        {"[null, 3, 4]", RNN(TWO_CELLS, BACKWARDS, X), NULL},
        {"[null, 3, 4]", RNN(CONFIG("MyCell", "\"units\": 2"), "", X), "cell: should be an LSTMCell, GRUCell"},
        {"[null, 3, 4]", RNN(STACK("", GRU_CELL("a") ", " CONFIG("Dense", "\"units\": 2")), "", X),
         "cell: should be an LSTMCell, GRUCell"},
        {"[null, 3, 4]", RNN(STACK("", ""), "", X), "cell: there are no cells"},
        {"[null, 3, 4]", RNN(STACK("", GRU_CELL("a") ", " GRU_CELL("b") ", " GRU_CELL("a")), "", X), NULL},
        {"[null, 3, 4]",
         RNN(STACK("", GRU_CELL("a") ", " GRU_CELL("a") ", " GRU_CELL("cell_1_a") ", " GRU_CELL("a")), "", X), NULL},
        {"[null, 3, 4]", RNN(STACK("\"name\": \"s\", \"trainable\": true, ", GRU_CELL("a")), "", X), NULL},
        {"[null, 3, 4]", RNN(STACK("\"residual\": true, ", GRU_CELL("a")), "", X),
         "cell.config.residual is not supported"},
        {"[null, 3, 4]", RNN(STACK("\"dtype\": \"float16\", ", GRU_CELL("a")), "", X), "cell.config.dtype: 'float16'"},
        {"[null, 3, 4]", RNN(STACK("\"trainable\": 5, ", GRU_CELL("a")), "", X), "cell.config.trainable should be"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

/* What freezes the stack freezes its cells. */
static void frozen_cells(void **state) {
    (void)state;
    clq_model *model;
    clq_variable_info info;
    static const char *const stacks[] = {
        RNN(STACK("\"trainable\": false, ", GRU_CELL("a") ", " GRU_CELL("b")), "", X),
        RNN(STACK("\"trainable\": true, ", GRU_CELL("a") ", " GRU_CELL("b")), "", X),
    };
    for (size_t k = 0; k < CLQ_COUNT_OF(stacks); k++) {
        if (read_layers("[null, 3, 4]", stacks[k], "y", &model) != CLQ_OK) fail_msg("%s", clq_error_detail());
        for (size_t i = 0; i < 6; i++) { /* a kernel, a recurrent kernel and biases of each */
            assert_int_equal(clq_model_variable(model, i, &info), CLQ_OK);
            assert_int_equal(info.trainable, k == 1);
        }
        clq_model_destroy(model);
    }
}

/* Without the key Keras joins both ways by concat; null keeps them apart. */
static void merge_modes(void **state) {
    (void)state;
    clq_model *model;
    static const call calls[] = {
        {"[null, 3, 4]", TURNED(", \"merge_mode\": 5"), "merge_mode: should be null, or one of concat"},
        {"[null, 3, 4]", TURNED(", \"merge_mode\": \"dot\""), "merge_mode: 'dot' is not supported"},
        {"[null, 3, 4]", TURNED(", \"merge_mode\": null"), NULL},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
    assert_int_equal(read_layers("[null, 3, 4]", TURNED(""), "y", &model), CLQ_OK);
    assert_int_equal(clq_model_output_shape(model, 0).dims[0], 4);
    clq_model_destroy(model);
}

#define TOP(from) LAYER(MATH, "TopK", "t", ", \"k\": 2", from) ", "
#define PLACES_OF_TOP "{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": [\"t\", 0, 1]}}"
#define COLUMN(name, from) LAYER(NUMPY, "GetItem", name, "", from ", [" SLICE ", " SLICE ", 1]") ", "
#define SLICE CONFIG("__slice__", "\"start\": null, \"stop\": null, \"step\": null")
#define LAST(from) LAYER(NUMPY, "ExpandDims", "e", ", \"axis\": -1", from) ", "
#define ALONG LAYER(NUMPY, "TakeAlongAxis", "y", ", \"axis\": 1", X ", " TENSOR("e", 0))

static void arrays(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 2]", LAYER(NUMPY, "Matmul", "y", "", X ", " ARRAY("[[[1, 2, 3], [4, 5, 6]]]")), "an array of 3 axes"},
        {"[null, 2]", LAYER(NUMPY, "Matmul", "y", "", X ", " ARRAY("[[1, 2, 3], [4, 5, 6]]")), NULL},
        {"[null, 5, 2]", LAYER(NUMPY, "Matmul", "y", "", X ", " ARRAY("[[[1, 2, 3], [4, 5, 6]]]")), NULL},
        {"[null, 5, 2]", LAYER(NUMPY, "Matmul", "y", "", X ", " ARRAY("[[[[1, 2, 3], [4, 5, 6]]]]")),
         "an array of 4 axes"},
        {"[null, 5, 2]", LAYER(NUMPY, "Matmul", "y", "", ARRAY("[[[[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5]]]]") ", " X),
         "only if these have two axes"},
        {"[null, 2]", LAYER(NUMPY, "Matmul", "y", "", X ", " ARRAY("[[1, 2], [3, 4], [5, 6]]")), "there is no product"},
        {"[null, 2]", LAYER(NUMPY, "Add", "y", "", X ", " ARRAY("[[[1, 2]]]")), "an array of 3 axes"},
        {"[null, 2]", LAYER(NUMPY, "Add", "y", "", ARRAY("[[[7]]]") ", " X), "an array of 3 axes"},
        {"[null, 2]", LAYER(NUMPY, "Add", "y", "", X ", " ARRAY("[[1, 2]]")), NULL},
        {"[null, 2]", LAYER(NUMPY, "Where", "y", "", X ", " X ", " ARRAY("[[[1, 2]]]")), "an array of 3 axes"},
        {"[null, 2]", LAYER(NUMPY, "Where", "y", "", X ", " ARRAY("[[1, 2]]") ", " X), NULL},
        {"[null, 2]", LAYER(NUMPY, "Where", "y", "", X ", " X ", " ARRAY("[1, 2, 3]")), "do not broadcast"},
        {"[null, 3, 2]", LAYER(NUMPY, "Where", "y", "", X ", " X ", " ARRAY("[[1, 2], [3, 4]]")), "do not broadcast"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

/* Keras counts places below 0 from the end of the axis, and what it gives for places behind the end is its backend's.
 */
static void places(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 3, 4]", COLUMN("c", X) TOP(TENSOR("c", 0)) LAST(PLACES_OF_TOP) ALONG, NULL},
        {"[null, 3, 4]",
         COLUMN("c", X) TOP(TENSOR("c", 0))
             LAYER(NUMPY, "Subtract", "s", "", PLACES_OF_TOP ", 1") ", " LAST(TENSOR("s", 0)) ALONG,
         "indices: should be an input, or places of top_k or argmax"},
        {"[null, 3, 4]", COLUMN("c", X) LAST(TENSOR("c", 0)) ALONG,
         "indices: should be an input, or places of top_k or argmax"},
        /* Places among four, of an axis of three. */
        {"[null, 3, 4]",
         LAYER(NUMPY, "GetItem", "c", "", X ", [" SLICE ", 1]") ", " TOP(TENSOR("c", 0)) LAST(PLACES_OF_TOP) ALONG,
         "indices: should be an input, or places of top_k or argmax"},
        {"[null, 3, 1]", LAYER(NUMPY, "TakeAlongAxis", "y", ", \"axis\": 1", X ", " X), NULL},
        {"[null, 4]", LAYER(MATH, "TopK", "y", ", \"k\": 4", X), NULL},
        {"[null, 4]", LAYER(MATH, "TopK", "y", ", \"k\": 5", X), "5"},
        {"[null, 4]", LAYER(NUMPY, "Take", "y", ", \"axis\": 1", X ", [0, 3, -4]"), NULL},
        {"[null, 4]", LAYER(NUMPY, "Take", "y", ", \"axis\": 1", X ", [0, 4]"), "from -4 to 3"},
        {"[null, 4]", LAYER(NUMPY, "Take", "y", ", \"axis\": 1", X ", -5"), "from -4 to 3"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

#define TRANSPOSED(behind)                                                                                             \
    LAYER(LAYERS, "Conv2DTranspose", "y",                                                                              \
          ", \"filters\": 2, \"kernel_size\": 2, \"strides\": 2, \"padding\": \"same\", \"output_padding\": " behind,  \
          X)
#define GROUPED(keys, from)                                                                                            \
    LAYER(LAYERS, "GroupQueryAttention", "y", ", \"head_dim\": 2, \"num_query_heads\": " keys, from)

static void windows(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 1000, 2]", LAYER(LAYERS, "AdaptiveMaxPooling1D", "y", ", \"output_size\": 999", X),
         "over 1000 places needs 999 windows that do not repeat, and 256"},
        {"[null, 1000, 2]", LAYER(LAYERS, "AdaptiveMaxPooling1D", "y", ", \"output_size\": [500]", X), NULL},
        {"[null, 9, 2]", LAYER(LAYERS, "AdaptiveAveragePooling1D", "y", "", X), "output_size: is missing"},
        {"[null, 9, 2]", LAYER(LAYERS, "AdaptiveAveragePooling1D", "y", ", \"output_size\": 0", X), "output_size"},
        {"[null, 9, 2]", LAYER(LAYERS, "AdaptiveAveragePooling2D", "y", ", \"output_size\": 2", X),
         "it takes (height, width, channels)"},
        {"[null, 9, 2]",
         LAYER(LAYERS, "AdaptiveMaxPooling1D", "y", ", \"output_size\": 2, \"data_format\": \"channels_middle\"", X),
         "data_format"},
        {"[null, 4, 4, 1]", TRANSPOSED("[1, 1]"), NULL},
        {"[null, 4, 4, 1]", TRANSPOSED("null"), NULL},
        {"[null, 4, 4, 1]", TRANSPOSED("[1, 2]"),
         "output_padding along its width is 2, and should be below its stride"},
        {"[null, 4, 4, 1]", TRANSPOSED("[1, 1, 1]"), "output_padding should be one whole number of at least 0, or 2"},
        {"[null, 4, 4, 1]", TRANSPOSED("0.5"), "output_padding should be one whole number"},
        {"[null, 4, 4, 1]", TRANSPOSED("-1"), "output_padding should be one whole number"},
        {"[null, 1, 4, 1]", TRANSPOSED("0"), "leaves nothing of its height"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

static void heads(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 5, 4]", GROUPED("4, \"num_key_value_heads\": 2", X ", " X), NULL},
        {"[null, 5, 4]", GROUPED("4, \"num_key_value_heads\": 3", X ", " X),
         "num_key_value_heads 3 does not divide num_query_heads, which is 4"},
        {"[null, 5, 4]", GROUPED("4", X ", " X), "num_key_value_heads: is missing"},
        {"[null, 5, 3, 4]", GROUPED("4, \"num_key_value_heads\": 2", X ", " X),
         "num_key_value_heads is supported for (tokens, channels) alone"},
        {"[null, 5, 3, 4]",
         LAYER(LAYERS, "MultiHeadAttention", "y", ", \"num_heads\": 2, \"key_dim\": 2, \"sliding_window\": 2",
               X ", " X),
         "sliding_window is supported for (tokens, channels) alone"},
        {"[null, 5, 4]",
         LAYER(LAYERS, "MultiHeadAttention", "y", ", \"num_heads\": 2, \"key_dim\": 2, \"sliding_window\": 0",
               X ", " X),
         "sliding_window"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

#define BINS(keys) LAYER(LAYERS, "Discretization", "y", keys, X)

static void bins(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 4]", BINS(", \"bin_boundaries\": [0, 1], \"num_bins\": 3"), NULL},
        {"[null, 4]", BINS(", \"num_bins\": 3"), "it has no bin_boundaries: adapt it to data in Keras"},
        {"[null, 4]", BINS(", \"bin_boundaries\": [0, 2, 1]"), "bin_boundaries[2] is below the one before"},
        {"[null, 4]", BINS(", \"bin_boundaries\": [0, \"a\"]"), "bin_boundaries"},
        {"[null, 4]", BINS(", \"bin_boundaries\": 0.5"), "bin_boundaries: 0.5 should be a list of numbers"},
        {"[null, 4]", BINS(", \"bin_boundaries\": [0], \"sparse\": true, \"output_mode\": \"count\""), "sparse"},
        {"[null, 4]", BINS(", \"bin_boundaries\": [0], \"output_mode\": \"tf_idf\""), "output_mode"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

#define STFT(keys) LAYER(LAYERS, "STFTSpectrogram", "y", ", \"frame_length\": 4" keys, X)
#define MEL(keys) LAYER(LAYERS, "MelSpectrogram", "y", ", \"fft_length\": 8" keys, X)
#define LINEAR ", \"power_to_db\": false"

static void spectrograms(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 9, 2]", STFT(""), NULL},
        {"[null, 9, 2]", STFT(", \"mode\": \"angle\""), "mode: 'angle' is not supported; there are log, magnitude"},
        {"[null, 9, 2]", STFT(", \"window\": null"), "window: 'null' is not supported"},
        {"[null, 9, 2]", STFT(", \"scaling\": null"), "scaling: 'null' is not supported"},
        {"[null, 9, 2]", STFT(", \"window\": \"kaiser\""), "window: 'kaiser' is not supported"},
        {"[null, 9, 2]", STFT(", \"frame_step\": 5"), "a frame_step of 5 should be from 1 to its frame_length, 4"},
        {"[null, 9, 2]", STFT(", \"fft_length\": 3"), "an fft_length of 3 should be at least its frame_length, 4"},
        {"[null, 3, 2]", STFT(""), "use a smaller window"},
        {"[null, 9]", STFT(""), "it takes (steps, channels)"},
        {"[null, 9]", MEL(LINEAR), NULL},
        {"[null, 9]", MEL(", \"top_db\": 486"), NULL},
        {"[null, 9]", MEL(""), "top_db 80 cuts each sample by the loudest of its batch"},
        {"[null, 9]", MEL(", \"top_db\": 485"), "top_db of at least 486"},
        {"[null, 9]", MEL(LINEAR ", \"window\": null"), "window: 'null' is not supported"},
        {"[null, 9]", MEL(LINEAR ", \"sequence_length\": 9"),
         "a sequence_length of 9 should be at most its fft_length"},
        {"[null, 9]", MEL(LINEAR ", \"min_freq\": 8000"), "min_freq 8000 should be below max_freq, which is 8000"},
        {"[null, 9]", MEL(LINEAR ", \"min_freq\": 50, \"max_freq\": 40"), "below max_freq, which is 40"},
        {"[null, 4]", MEL(LINEAR), "its input of 4 steps should have more than half of fft_length"},
        {"[null, 9, 2]", MEL(LINEAR), "it takes (steps): its input has 2 axes"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

#define STEPS(keys) LAYER(LAYERS, "ConvLSTM3D", "y", ", \"filters\": 2, \"kernel_size\": 2" keys, X)

static void steps_of_volumes(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 2, 3, 3, 3, 1]", STEPS(""), NULL},
        {"[null, 3, 3, 3, 1]", STEPS(""), "it takes (steps, depth, height, width, channels)"},
        {"[null, 2, 3, 3, 3, 1]", STEPS(", \"strides\": [2, 1, 1], \"dilation_rate\": [1, 2, 1]"),
         "cannot both be above 1"},
        {"[null, 2, 3, 3, 3, 1]", STEPS(", \"dropout\": 0.5"), "dropout"},
        {"[null, 2, 3, 3, 3, 1]", STEPS(", \"return_state\": true"), "return_state"},
        {"[null, 65, 3, 3, 3, 1]", STEPS(""), "more than 64 steps are not supported"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

#define AXES(class_name, axes) LAYER(LAYERS, class_name, "y", ", \"axis\": " axes, X)
#define FIRST ", \"data_format\": \"channels_first\""

static void other_axes(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 4, 3, 2]", AXES("LayerNormalization", "[1, 2]"), NULL},
        {"[null, 4, 3, 2]", AXES("LayerNormalization", "[2, 1]"), "should be axes from 1 to 3, the lower ones first"},
        {"[null, 4, 3, 2]", AXES("LayerNormalization", "[0, 1]"), "should be axes from 1 to 3"},
        {"[null, 4, 3, 2]", AXES("LayerNormalization", "[-1, -2]"), "the lower ones first"},
        {"[null, 4, 3, 2]", AXES("LayerNormalization", "[1, 1]"), "should be axes from 1 to 3"},
        {"[null, 4, 3, 2]", AXES("UnitNormalization", "[1, 1]"), "should be axes from 1 to 3"},
        {"[null, 4, 3, 2]", AXES("GroupNormalization", "4"), "should be axes from 1 to 3"},
        {"[null, 4, 3, 2]", AXES("GroupNormalization", "1, \"groups\": 4"), NULL},
        {"[null, 4, 3, 2]", AXES("GroupNormalization", "1, \"groups\": 4, \"mystery\": 1"), "mystery"},
        {"[null, 4, 4, 2]", AXES("RMSNormalization", "1"),
         "axes that are not the last ones"}, /* Keras scales the last */
        {"[null, 4, 3, 2]", AXES("Softmax", "[1, 3]"), NULL},
        {"[null, 4, 3, 2]", AXES("Softmax", "[3, 1]"), NULL},
        {"[null, 4, 3, 2]", AXES("Softmax", "[3, -1]"), "should be axes from 1 to 3, each of them once"},
        {"[null, 4, 3, 2]", AXES("Softmax", "[1, 3], \"mystery\": 1"), "config.mystery is not supported"},
        {"[null, 4, 3, 2]", AXES("Softmax", "[1, 3], \"activity_regularizer\": " L1), "activity_regularizer"},
        {"[null, 3, 4]", MASKING LAYER(LAYERS, "Softmax", "y", ", \"axis\": [1, 2]", M), "carries a mask"},
        {"[null, 3, 4]", LAYER(LAYERS, "Conv1D", "y", ", \"filters\": 2, \"kernel_size\": 2, \"mystery\": 1" FIRST, X),
         "mystery"},
        {"[null, 3, 4]", MASKING LAYER(LAYERS, "Conv1D", "y", ", \"filters\": 2, \"kernel_size\": 2" FIRST, M),
         "carries a mask"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

#define FUNCTION(module, class_name, keys, from) LAYER(module, class_name, "y", keys, from)
#define PAD(mode, number)                                                                                              \
    "{\"module\": \"" NUMPY "\", \"class_name\": \"Pad\", \"name\": \"y\", \"config\": {\"name\": \"y\", "             \
    "\"pad_width\": [[0, 0], [1, 1]], \"mode\": \"" mode "\"}, \"inbound_nodes\": [{\"args\": [" X                     \
    "], \"kwargs\": {\"constant_values\": " number "}}]}"
#define LINALG "keras.src.ops.linalg"
#define CORE "keras.src.ops.core"
#define IMAGES "keras.src.ops.image"
#define X5 X ", " X ", " X ", " X ", " X
#define X31 X5 ", " X5 ", " X5 ", " X5 ", " X5 ", " X5 ", " X

static void functions(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 4, 3]", FUNCTION(LINALG, "Norm", ", \"axis\": 1, \"ord\": null", X), NULL},
        {"[null, 4, 3]", FUNCTION(LINALG, "Norm", ", \"axis\": null, \"ord\": null", X), "a norm over the batch"},
        {"[null, 4, 3]", FUNCTION(LINALG, "Norm", ", \"axis\": [1, 2], \"ord\": 2", X), "only null is supported"},
        {"[null, 4, 3]", FUNCTION(LINALG, "Norm", ", \"axis\": 1, \"ord\": 3", X), "only null is supported"},
        {"[null, 4, 3]", FUNCTION(LINALG, "Norm", ", \"axis\": 1, \"ord\": \"fro\"", X), "only null is supported"},
        {"[null, 4, 3]", FUNCTION(LINALG, "Norm", ", \"axis\": [1, 2], \"ord\": \"fro\"", X), NULL},
        {"[null, 4, 3]", FUNCTION(LINALG, "Norm", ", \"axis\": [1, 2], \"ord\": \"nuc\"", X), "over two \"fro\""},
        {"[null, 4, 3]", FUNCTION(NN, "Moments", ", \"axes\": [1], \"synchronized\": true", X), "synchronized"},
        {"[null, 4, 3]", FUNCTION(NN, "Celu", ", \"alpha\": 0", X), "alpha: 0 should be above 0"},
        {"[null, 4, 3]", FUNCTION(NN, "SoftShrink", ", \"threshold\": -1", X), "threshold: -1 should be at least 0"},
        {"[null, 4, 3]", FUNCTION(NN, "Squareplus", ", \"b\": -1", X), "b: -1 should be at least 0"},
        {"[null, 4, 3]", FUNCTION(CORE, "Unstack", ", \"num\": null, \"axis\": 1", X), NULL},
        {"[null, 4, 3]", FUNCTION(CORE, "Unstack", ", \"num\": null, \"axis\": 0", X), "an axis behind the batch"},
        {"[null, 4, 3]", FUNCTION(CORE, "Unstack", ", \"num\": 3, \"axis\": 1", X), "3 should be the axis's size, 4"},
        {"[null, 65, 3]", FUNCTION(CORE, "Unstack", ", \"num\": null, \"axis\": 1", X), "more than 64 parts"},
        {"[null, 64, 3]", FUNCTION(CORE, "Unstack", ", \"num\": null, \"axis\": 1", X), NULL},
        {"[null, 4, 3]", FUNCTION(NUMPY, "Append", ", \"axis\": 1", X ", " X), NULL},
        {"[null, 4, 3]", FUNCTION(NUMPY, "Append", ", \"axis\": null", X ", " X), "Keras joins samples"},
        {"[null, 4, 3]", FUNCTION(NUMPY, "Diff", ", \"n\": 3, \"axis\": 1", X), NULL},
        {"[null, 4, 3]", FUNCTION(NUMPY, "Diff", ", \"n\": 0, \"axis\": 1", X), "n: 0 should be at least 1"},
        {"[null, 4, 3]", FUNCTION(NUMPY, "Diff", ", \"n\": 4, \"axis\": 1", X), "an axis of 4 has no differences"},
        {"[null, 1, 3]", FUNCTION(NUMPY, "Diff", ", \"n\": 1, \"axis\": 1", X), "an axis of 1 has no differences"},
        {"[null, 99, 3]", FUNCTION(NUMPY, "Diff", ", \"n\": 65, \"axis\": 1", X), "more than 64 is not supported"},
        {"[null, 2, 3]", FUNCTION(NUMPY, "Hstack", "", "[" X31 ", " X "]"), NULL},
        {"[null, 2, 3]", FUNCTION(NUMPY, "Hstack", "", "[" X31 ", " X ", " X "]"), "more than 32 tensors"},
        {"[null, 4]", PAD("reflect", "1"), "constant_values are of mode constant"},
        {"[null, 4]", PAD("reflect", "null"), NULL},
        {"[null, 4]", PAD("constant", "0"), NULL},
        {"[null, 4]", PAD("constant", "\"one\""), "constant_values"},
        {"[null, 4]", PAD("constant", "-3.4028234e38"), NULL},
        {"[null, 4]", PAD("constant", "1e300"), "should be a number of float32"},
        {"[null, 4]", PAD("constant", "-3.5e38"), "should be a number of float32"},
        {"[null, 4]", FUNCTION(NUMPY, "Tril", ", \"k\": 0", X), "two axes behind the batch"},
        {"[null, 4, 3]", FUNCTION(NUMPY, "Tril", ", \"k\": 0.5", X), "should be a whole number"},
        {"[null, 2048, 1024]", FUNCTION(NUMPY, "Triu", ", \"k\": 0", X), "more than 1048576 numbers"},
        {"[null, 4, 4, 2]", FUNCTION(IMAGES, "RGBToGrayscale", "", X), "it takes (height, width, 3 or 1)"},
        {"[null, 3, 4, 4]", FUNCTION(IMAGES, "RGBToGrayscale", FIRST, X), NULL},
        {"[null, 4, 4, 3]", FUNCTION(IMAGES, "RGBToGrayscale", FIRST, X), "it takes (3 or 1, height, width)"},
        {"[null, 4, 4, 3]", FUNCTION(IMAGES, "RGBToGrayscale", ", \"data_format\": \"last\"", X), "'last' should be"},
        {"[null, 4, 3]", FUNCTION(NN, "RMSNorm", ", \"axis\": -1, \"epsilon\": null, \"rows\": 1", X), "rows"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

#define SCORED(value)                                                                                                  \
    "{\"module\": \"keras.layers\", \"class_name\": \"Attention\", \"name\": \"a\", \"config\": {\"name\": \"a\"}, "   \
    "\"inbound_nodes\": [{\"args\": [[" X ", " X "]], \"kwargs\": {\"return_attention_scores\": " value "}}]}, "
#define READS(number)                                                                                                  \
    LAYER(LAYERS, "ReLU", "y", "",                                                                                     \
          "{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": [\"a\", 0, " number "]}}")

/* Attention that gives its scores, too, is read as long as nothing reads these. */
static void scores(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 4, 3]", SCORED("true") READS("0"), NULL},
        {"[null, 4, 3]", SCORED("false") READS("0"), NULL},
        {"[null, 4, 3]", SCORED("true") READS("1"), "what layer 'a' gives by return_attention_scores is not supported"},
        {"[null, 4, 3]", SCORED("false") READS("1"), "gives 1 tensor, and number 1 is asked for"},
        {"[null, 4, 3]", SCORED("true") READS("2"), "gives 1 tensor, and number 2 is asked for"},
        {"[null, 4, 3]", SCORED("1") READS("0"), "kwargs.return_attention_scores is not supported"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

/* Layers of mixed precision keep float32; others do not. */
static void policies(void **state) {
    (void)state;
#define OF_POLICY(policy) LAYER(LAYERS, "Dense", "y", ", \"units\": 2, \"dtype\": " policy, X)
#define POLICY(name) "{\"module\": \"keras\", \"class_name\": \"DTypePolicy\", \"config\": {\"name\": \"" name "\"}}"
    static const call calls[] = {
        {"[null, 4]", OF_POLICY(POLICY("mixed_float16")), NULL},
        {"[null, 4]", OF_POLICY("\"mixed_bfloat16\""), NULL},
        {"[null, 4]", OF_POLICY(POLICY("float16")),
         "dtype: 'float16' is not supported, only float32, mixed_float16 and mixed_bfloat16"},
        {"[null, 4]", OF_POLICY(POLICY("float64")), "dtype: 'float64' is not supported"},
        {"[null, 4]", OF_POLICY("7"), "dtype: should name a type"},
        {"[null, 3, 4]",
         LAYER(LAYERS, "TimeDistributed", "y",
               ", \"dtype\": \"mixed_float16\", \"layer\": " CONFIG("Dense", "\"name\": \"d\", \"units\": 2"), X),
         NULL},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

static void layers_that_are_not_read(void **state) {
    (void)state;
    static const call calls[] = {
        {"[null, 4]", LAYER(LAYERS, "ActivityRegularization", "y", ", \"l1\": 0.1, \"l2\": 0", X),
         "penalties on what layers give are not supported"},
        {"[null, 4]", LAYER(LAYERS, "Dense", "y", ", \"units\": 2, \"activity_regularizer\": " L1, X),
         "activity_regularizer: penalties on what layers give are not supported"},
        {"[null, 4]", LAYER(LAYERS, "Dense", "y", ", \"units\": 2, \"activity_regularizer\": null", X), NULL},
        {"[null, 4]",
         LAYER(LAYERS, "SpectralNormalization", "y",
               ", \"power_iterations\": 1, \"layer\": " CONFIG("Dense", "\"name\": \"d\", \"units\": 2"), X),
         "a SpectralNormalization is not supported: it sets its layer's kernel"},
        {"[null, 4]", LAYER(LAYERS, "IntegerLookup", "y", ", \"vocabulary\": [3, 4]", X),
         "TensorFlow computes it in front of the model"},
        {"[null, 4]", LAYER(LAYERS, "Mystery", "y", "", X), "a Mystery is not supported; expected Dense"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

/* ---- masks ---- */

#define D TENSOR("d", 0)
#define A TENSOR("a", 0)
#define N TENSOR("n", 0)
#define ATTENTION(name, query, value)                                                                                  \
    LAYER(LAYERS, "MultiHeadAttention", name, ", \"num_heads\": 1, \"key_dim\": 2", query ", " value)
#define PRODUCT_OF(name, a, b) LAYER(LAYERS, "Multiply", name, "", "[" a ", " b "]")
#define PRODUCT(a, b) PRODUCT_OF("y", a, b)
#define EQUAL LAYER(LAYERS, "Reshape", "d", ", \"target_shape\": [3, 4]", M) ", "
#define DROPOUT(rate) LAYER(LAYERS, "Dropout", "d", ", \"rate\": " rate, M) ", "
#define DENSE(from) LAYER(LAYERS, "Dense", "y", ", \"units\": 2", from)
#define SIN(from) LAYER(NUMPY, "Sin", "y", "", from)
#define GIVEN(name)                                                                                                    \
    "{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"name\": \"" name                                 \
    "\", \"config\": {\"name\": \"" name "\", \"batch_shape\": [null, 3, 4]}, \"inbound_nodes\": []}, "
/* A model within the model; inputs: "[\"i\", 0, 0], …". */
#define MODEL(inputs, layers, arguments, keywords)                                                                     \
    "{\"module\": \"keras.src.models.functional\", \"class_name\": \"Functional\", \"name\": \"n\", \"config\": {"     \
    "\"name\": \"n\", \"layers\": [" layers "], \"input_layers\": [" inputs "], \"output_layers\": [[\"o\", 0, 0]]}, " \
    "\"inbound_nodes\": [{\"args\": [" arguments "], \"kwargs\": {" keywords "}}]}, "
#define I TENSOR("i", 0)
#define J TENSOR("j", 0)
#define GATES(arguments, keywords)                                                                                     \
    MODEL("[\"i\", 0, 0]", GIVEN("i") LAYER(LAYERS, "GRU", "o", ", \"units\": 4, \"return_sequences\": true", I),      \
          arguments, keywords)
#define LOOKS(arguments, keywords)                                                                                     \
    MODEL("[\"i\", 0, 0], [\"j\", 0, 0]",                                                                              \
          GIVEN("i") GIVEN("j") ATTENTION("a", I, I) ", " LAYER(LAYERS, "Add", "o", "", "[" A ", " J "]"), arguments,  \
          keywords)
#define TRUTHS LAYER(NUMPY, "Any", "t", ", \"axis\": [-1], \"keepdims\": false", X) ", "
#define OTHER_TRUTHS LAYER(NUMPY, "All", "t", ", \"axis\": [-1], \"keepdims\": false", X) ", "
#define T TENSOR("t", 0)
#define SWAPPED(one, other) LAYER(NUMPY, "Swapaxes", "d", ", \"axis1\": " one ", \"axis2\": " other, M) ", "
#define MOVED(from, to) LAYER(NUMPY, "Moveaxis", "d", ", \"source\": " from ", \"destination\": " to, M) ", "
#define SUMMED(equation) LAYER(NUMPY, "Einsum", "d", ", \"subscripts\": \"" equation "\"", M) ", "
#define OF_TRUTHS "\"mask\": " T

/* What lies on a tensor in Keras, and on which tensors that is one: without training a Dropout gives its input itself,
 * and so does, with some backends, what changes nothing. */
static void masks_of_one_tensor(void **state) {
    static const char unsure[] = "in Keras the mask of 'm' counts here in training and not in evaluation",
                      nothing[] = "it gives its input unchanged; Keras keeps the mask with the JAX backend",
                      stays[] = "in Keras the mask of its call stays on input 1",
                      both[] = "two of its inputs are one tensor";
    (void)state;
    static const call calls[] = {
        {"[null, 3, 4]", MASKING DROPOUT("0.5") ATTENTION("a", D, D) ", " PRODUCT(M, A), unsure},
        {"[null, 3, 4]", MASKING DROPOUT("0.5") ATTENTION("a", M, M) ", " PRODUCT(D, A),
         "in Keras the mask of 'd' counts here in training"},
        {"[null, 3, 4]", MASKING DROPOUT("0.5") ATTENTION("a", D, D) ", " PRODUCT(D, A), NULL},
        {"[null, 3, 4]", MASKING DROPOUT("0") ATTENTION("a", D, D) ", " PRODUCT(M, A), NULL},
        {"[null, 3, 4]", MASKING DROPOUT("0.5") ATTENTION("a", D, D) ", " LAYER(NUMPY, "Multiply", "y", "", M ", " A),
         NULL},
        {"[null, 3, 4]", MASKING EQUAL DENSE(D), nothing},
        {"[null, 3, 4]", MASKING EQUAL SIN(D), NULL},
        {"[null, 3, 4]", LAYER(LAYERS, "Reshape", "d", ", \"target_shape\": [3, 4]", X) ", " DENSE(D), NULL},
        {"[null, 3, 4]", MASKING LAYER(LAYERS, "Reshape", "d", ", \"target_shape\": [6, 2]", M) ", " DENSE(D), NULL},
        {"[null, 4, 4]", MASKING LAYER(LAYERS, "Permute", "d", ", \"dims\": [1, 2]", M) ", " DENSE(D), nothing},
        {"[null, 4, 4]", MASKING LAYER(LAYERS, "Permute", "d", ", \"dims\": [2, 1]", M) ", " DENSE(D), NULL},
        {"[null, 3, 4]", MASKING LAYER(LAYERS, "Cropping1D", "d", ", \"cropping\": 0", M) ", " DENSE(D), nothing},
        {"[null, 4, 4]", MASKING SWAPPED("1", "1") DENSE(D), nothing},
        {"[null, 4, 4]", MASKING SWAPPED("2", "-1") DENSE(D), nothing},
        {"[null, 4, 4]", MASKING SWAPPED("1", "1") SIN(D), NULL},
        {"[null, 4, 4]", MASKING SWAPPED("1", "2") DENSE(D), NULL},
        {"[null, 4, 4]", MASKING MOVED("1", "1") DENSE(D), nothing},
        {"[null, 4, 4]", MASKING MOVED("[1, 2]", "[-2, -1]") DENSE(D), nothing},
        {"[null, 4, 4]", MASKING MOVED("[1, 2]", "[2, 1]") DENSE(D), NULL},
        {"[null, 3, 4]", MASKING SUMMED("bij->bij") DENSE(D), nothing},
        {"[null, 3, 4]", MASKING SUMMED("bij->bji") DENSE(D), NULL},
        {"[null, 3, 4]", TRUTHS GATES(X, OF_TRUTHS) PRODUCT(X, N), stays},
        {"[null, 3, 4]", TRUTHS GATES(X, OF_TRUTHS) LAYER(NUMPY, "Multiply", "y", "", X ", " N), NULL},
        {"[null, 3, 4]", MASKING OTHER_TRUTHS GATES(M, OF_TRUTHS) PRODUCT(M, N), stays},
        {"[null, 3, 4]", MASKING DROPOUT("0.5") ATTENTION("a", D, D) ", " DENSE(M), NULL}, /* no output needs it */
        {"[null, 3, 4]", MASKING EQUAL PRODUCT_OF("a", D, D) ", " SIN(M), NULL},
        {"[null, 3, 4]", MASKING LOOKS("[" M ", " M "]", "") SIN(N), both},
        {"[null, 3, 4]", MASKING LOOKS("[" M ", " X "]", "") SIN(N), NULL},
        {"[null, 3, 4]", LOOKS("[" X ", " X "]", "\"mask\": [null, null]") SIN(N), NULL},
        {"[null, 3, 4]", MASKING TRUTHS LOOKS("[" M ", " X "]", "\"mask\": [" T ", null]") PRODUCT(X, N), NULL},
        {"[null, 3, 4]", MASKING TRUTHS LOOKS("[" M ", " X "]", "\"mask\": [" T ", " T "]") PRODUCT(X, N),
         "in Keras the mask of its call stays on input 2"},
        {"[null, 3, 4]", MASKING TRUTHS LOOKS("[" M ", " X "]", "\"mask\": [" T ", null, null]") SIN(N),
         "its call has 3 masks of 2 inputs"},
        {"[null, 3, 4]", LOOKS("[" X ", " X "]", "\"mask\": [null, 1]") SIN(N), "kwargs.mask is not supported"},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

#define REFERENCE "{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": [\"%s\", 0, 0]}}"
/* The mask of `m` and the one that the call is given are computed alike: sums of 128 times one tensor, five deep. To
 * follow them tensor by tensor would take minutes, and so it is not known that they are one. */
static void masks_of_many_inputs(void **state) {
    enum { DEEP = 5, TIMES = 128 };
    clq_text text = {0};
    clq_model *model;
    (void)state;
    for (int i = 0; i < 2 * DEEP; i++) {
        char from[8] = "x";
        if (i >= 2) (void)snprintf(from, sizeof from, "s%d", i - 2);
        clq_text_add(&text,
                     "{\"module\": \"" LAYERS "\", \"class_name\": \"Add\", \"name\": \"s%d\", \"config\": {\"name\": "
                     "\"s%d\"}, \"inbound_nodes\": [{\"args\": [[",
                     i, i);
        for (int k = 0; k < TIMES; k++) clq_text_add(&text, "%s" REFERENCE, k ? ", " : "", from);
        clq_text_add(&text, "]]}]}, ");
    }
    clq_text_add(&text, "%s",
                 LAYER(LAYERS, "Embedding", "m", ", \"input_dim\": 5, \"output_dim\": 4, \"mask_zero\": true",
                       TENSOR("s8", 0)) ", " LAYER(NUMPY, "NotEqual", "t", "",
                                                   TENSOR("s9", 0) ", 0") ", " GATES(M, OF_TRUTHS) PRODUCT(M, N));
    assert_false(text.failed);
    assert_int_equal(read_layers("[null, 3]", text.data, "y", &model), CLQ_ERROR_UNSUPPORTED);
    assert_non_null(strstr(clq_error_detail(), "in Keras the mask of its call stays on input 1"));
    clq_free(text.data);
}

#define SOFTMAX(module, from) LAYER(module, "Softmax", "y", "", from)
#define NORM(name, from) LAYER(LAYERS, "BatchNormalization", name, "", from)
#define EACH(class_name, keys)                                                                                         \
    LAYER(LAYERS, "TimeDistributed", "y", ", \"layer\": " CONFIG(class_name, "\"name\": \"inner\"" keys), M)

/* Layers whose calls in Keras have an argument `mask`. */
static void layers_that_take_masks(void **state) {
    static const char has[] = "its input has a mask, which is not supported",
                      looks[] = ", which looks at masks, is not supported of an input that has one";
    (void)state;
    static const call calls[] = {
        {"[null, 4, 4]", MASKING SOFTMAX(LAYERS, M), has},
        {"[null, 4, 4]", SOFTMAX(LAYERS, X), NULL},
        {"[null, 4, 4]", MASKING SOFTMAX(NN, M), NULL},
        {"[null, 3, 4]", MASKING NORM("y", M), has},
        {"[null, 3, 4]", MASKING ATTENTION("a", M, M) ", " NORM("n", M) ", " PRODUCT(A, N), NULL},
        {"[null, 3, 4]", MASKING EQUAL NORM("y", D), "it gives its input unchanged; Keras keeps the mask"},
        {"[null, 3, 4]", MASKING EACH("BatchNormalization", ""), looks},
        {"[null, 3, 4]", MASKING EACH("Softmax", ""), looks},
        {"[null, 3, 4]", MASKING EACH("LayerNormalization", ""), NULL},
        {"[null, 3, 4]", MASKING EACH("Dense", ", \"units\": 2"), NULL},
    };
    check_calls(calls, CLQ_COUNT_OF(calls));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(recurrent_cells),
                                       cmocka_unit_test(frozen_cells),
                                       cmocka_unit_test(merge_modes),
                                       cmocka_unit_test(arrays),
                                       cmocka_unit_test(places),
                                       cmocka_unit_test(windows),
                                       cmocka_unit_test(heads),
                                       cmocka_unit_test(bins),
                                       cmocka_unit_test(spectrograms),
                                       cmocka_unit_test(steps_of_volumes),
                                       cmocka_unit_test(other_axes),
                                       cmocka_unit_test(functions),
                                       cmocka_unit_test(scores),
                                       cmocka_unit_test(policies),
                                       cmocka_unit_test(masks_of_one_tensor),
                                       cmocka_unit_test(masks_of_many_inputs),
                                       cmocka_unit_test(layers_that_take_masks),
                                       cmocka_unit_test(layers_that_are_not_read)};
    return cmocka_run_group_tests_name("interop/keras_refused", tests, open_file, close_file);
}
