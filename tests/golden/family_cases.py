"""The traced runs of small models of the kinds that people train: `FAMILIES`, in the group `families`.

Together they contain all kinds of layers that the importer reads, except random ones such as Dropout. (b, ...) after a
layer is its output's shape. The key biases of attention have only rounding errors as gradients, which Adam would turn
into steps. So models with attention train with SGD.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import keras
import numpy as np
from keras import layers as kl
from keras import ops

from branched_cases import conv, normalised, numbers, relu
from cases import Adam, Case, CrossEntropy, Data, Difference, Sgd, patterns
from losses import Named

Tensor = keras.KerasTensor
Draw = Callable[[np.random.Generator], Data]


def hub() -> object:
    import keras_hub  # only some models need it

    return keras_hub.layers


def of_hub(path: str) -> type:
    """Returns a class of keras_hub's models: "llama.llama_decoder.LlamaTransformerDecoder"."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"keras_hub.src.models.{module}"), name)


def head(x: Tensor, classes: int) -> Tensor:
    return kl.Dense(classes, activation="softmax", name="head")(x)


def norm(x: Tensor, name: str) -> Tensor:
    return kl.LayerNormalization(epsilon=1e-5, name=name)(x)


def tokens_of(length: int, name: str = "tokens") -> Tensor:
    return keras.Input((length,), dtype="int32", name=name)


# ---- sequences -------------------------------------------------------------------------------------


def gpt() -> keras.Model:
    """Two blocks that normalise first."""
    tokens = tokens_of(8)
    x = kl.ReversibleEmbedding(9, 8, name="table")(tokens)
    x = kl.Add(name="embedded")([x, hub().PositionEmbedding(8, name="places")(x)])
    for i in range(2):
        y = norm(x, f"norm_{i}")
        x = x + kl.MultiHeadAttention(2, 4, name=f"attention_{i}")(y, y, use_causal_mask=True)
        y = kl.Dense(16, activation="gelu", name=f"wide_{i}")(norm(x, f"norm_wide_{i}"))
        x = x + kl.Dense(8, name=f"narrow_{i}")(y)
    return keras.Model(tokens, kl.Softmax(name="chances")(kl.Dense(9, name="head")(norm(x, "last_norm"))), name="gpt")


def llama() -> keras.Model:
    """Rotary positions, fewer key heads, a gated product and RMS normalisation, by keras_hub's decoder."""
    tokens = tokens_of(6)
    x = kl.Embedding(9, 8, name="table")(tokens)
    decoder = of_hub("llama.llama_decoder.LlamaTransformerDecoder")
    decoder = decoder(intermediate_dim=12, num_query_heads=2, num_key_value_heads=1, name="decoder")
    decoder.rope_scaling_factor = 1.0  # Llama's configuration needs this attribute, which the layer lacks
    x = decoder(x)
    x = of_hub("llama.llama_layernorm.LlamaLayerNorm")(name="norm")(x)
    return keras.Model(tokens, head(x, 9), name="llama")


def bert_masked() -> keras.Model:
    """keras_hub's encoder. Tokens of 0 are padding, which attention and the mean skip."""
    tokens = tokens_of(7)
    x = hub().TokenAndPositionEmbedding(9, 7, 8, mask_zero=True, name="embedded")(tokens)
    x = hub().TransformerEncoder(12, 2, activation="gelu", name="encoder")(x)
    return keras.Model(tokens, head(kl.GlobalAveragePooling1D(name="mean")(x), 4), name="bert_masked")


def bilstm_masked() -> keras.Model:
    """Tokens of 0 are padding at the end of the sequence, which both directions skip."""
    tokens = tokens_of(8)
    x = kl.Embedding(11, 6, mask_zero=True, name="table")(tokens)  # (b, 8, 6)
    x = kl.Bidirectional(kl.LSTM(5, return_sequences=True), name="inner")(x)  # (b, 8, 10)
    x = kl.Bidirectional(kl.LSTM(4), name="outer")(x)  # (b, 8)
    return keras.Model(tokens, head(x, 4), name="bilstm_masked")


def gru_both_ways() -> keras.Model:
    rows = keras.Input((7, 3), name="rows")
    x = kl.GRU(6, return_sequences=True, name="forth")(kl.Masking(name="masking")(rows))
    x = kl.GRU(5, go_backwards=True, return_sequences=True, name="back")(x)  # (b, 7, 5)
    x = kl.GRU(4, use_bias=False, name="last")(x)
    return keras.Model(rows, kl.Dense(2, name="values")(x), name="gru_both_ways")


def rnn_tagger() -> keras.Model:
    """A label for each position."""
    tokens = tokens_of(6)
    x = kl.Embedding(8, 5, name="table")(tokens)
    x = kl.SimpleRNN(7, return_sequences=True, name="simple")(x)  # (b, 6, 7)
    x = kl.TimeDistributed(kl.Dense(5, activation="tanh"), name="each")(x)
    return keras.Model(tokens, head(x, 3), name="rnn_tagger")


def padded_tagger() -> keras.Model:
    """A label for each token. Keras's loss is a mean over the tokens that are not padding."""
    tokens = tokens_of(8)
    x = kl.Embedding(9, 5, mask_zero=True, name="table")(tokens)
    x = kl.Bidirectional(kl.LSTM(5, return_sequences=True), name="both")(x)  # (b, 8, 10)
    return keras.Model(tokens, head(kl.Activation("tanh", name="bent")(x), 4), name="padded_tagger")


def padded_rows() -> keras.Model:
    """Values for each step of rows that end in zeros, with sample weights. The L2 penalty does not depend on the
    mask."""
    rows = keras.Input((7, 3), name="rows")
    x = kl.GRU(6, return_sequences=True, name="forth")(kl.Masking(name="masking")(rows))
    x = kl.Dense(5, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01), name="wide")(x)
    return keras.Model(rows, kl.Dense(2, name="values")(x), name="padded_rows")


def padded_pair() -> keras.Model:
    """Two outputs. Each has the mask of its own input, and one attends to the other."""
    source, target = tokens_of(6, "source"), tokens_of(5, "target")
    memory = kl.Embedding(9, 8, mask_zero=True, name="table")(source)
    x = kl.Embedding(8, 8, mask_zero=True, name="table_1")(target)
    x = norm(x + kl.MultiHeadAttention(2, 4, name="crossed")(x, memory), "norm")
    kind = kl.Dense(3, activation="softmax", name="kind")(memory)
    return keras.Model([source, target], [head(x, 8), kind], name="padded_pair")


def padded_states() -> keras.Model:
    """A recurrent layer with given initial states ignores its input's mask, but passes it on."""
    source, target = tokens_of(6, "source"), tokens_of(5, "target")
    x, state = kl.GRU(6, return_sequences=True, return_state=True, name="encoder")(kl.Embedding(9, 5, mask_zero=True, name="table")(source))
    x = kl.GRU(6, name="encoder_1")(x)
    y = kl.GRU(6, return_sequences=True, name="decoder")(kl.Embedding(8, 4, mask_zero=True, name="table_1")(target), initial_state=state)
    y = kl.GRU(6, return_sequences=True, name="decoder_1")(y, initial_state=x)
    return keras.Model([source, target], head(kl.SimpleRNN(5, return_sequences=True, name="last")(y), 8), name="padded_states")


def padded_gates() -> keras.Model:
    """Products, maxima and minima of values that have one mask, the other mask, or none: masks change the results in
    Keras."""
    first, second = tokens_of(6, "first"), tokens_of(6, "second")
    x = kl.Embedding(9, 5, mask_zero=True, name="table")(first)
    y = kl.Embedding(9, 5, mask_zero=True, name="table_1")(second)
    x = kl.GRU(5, return_sequences=True, name="forth")(x)
    bare = kl.Permute((2, 1), name="turned")(kl.RepeatVector(5, name="copies")(kl.Flatten(name="flat")(kl.Dense(1, name="score")(x))))
    z = kl.Dense(5, activation="tanh", name="joined")(kl.Multiply(name="weighted")([x, bare]))
    larger = kl.Maximum(name="larger")([x, y, z])
    smaller = kl.Minimum(name="smaller")([z, y])
    both = kl.Multiply(name="gated")([x, y, kl.Dense(1, activation="sigmoid", name="gate")(y)])
    both = kl.Maximum(name="upper")([both, kl.Minimum(name="lower")([y, x])])
    x = kl.Add(name="sum")([both, kl.Dense(5, name="narrow")(kl.Concatenate(name="others")([larger, smaller]))])
    return keras.Model([first, second], kl.Dense(4, activation="softmax", name="tags")(kl.Average(name="mean")([both, kl.Activation("tanh", name="bent")(kl.Multiply(name="last")([both, x]))])), name="padded_gates")


def padded_parts() -> keras.Model:
    """Models within the model get the masks of their inputs. A Functional one is last."""
    tokens, others = tokens_of(6, "first"), tokens_of(6, "second")
    one, other = keras.Input((6, 5), name="one"), keras.Input((6, 5), name="other")
    x = kl.GRU(5, return_sequences=True, name="forth")(one)
    joined = keras.Model([one, other], kl.Add(name="sum")([x, kl.Attention(name="plain")([x, other])]), name="joined")
    rows = keras.Input((6, 5), name="rows")
    last = keras.Model(rows, head(kl.LSTM(4, return_sequences=True, name="again")(rows), 4), name="last")
    table = kl.Embedding(9, 5, mask_zero=True, name="table")
    steps = keras.Sequential([keras.Input((6, 5)), kl.Bidirectional(kl.LSTM(5, return_sequences=True), merge_mode="ave", name="both")], name="steps")
    x = joined([table(tokens), table(others)])
    return keras.Model([tokens, others], last(steps(x)), name="padded_parts")


def bert_given_mask() -> keras.Model:
    """An input says which tokens count, as BERT's tokenizers give it. The model turns its numbers into truth values."""
    tokens, given = tokens_of(6), tokens_of(6, "given")
    x = norm(kl.Embedding(9, 6, name="table")(tokens), "norm")
    counts = ops.cast(given, "bool")
    x = x + kl.MultiHeadAttention(2, 3, name="attention")(x, x, attention_mask=ops.expand_dims(counts, 1))
    weights = ops.cast(ops.expand_dims(counts, -1), x.dtype)
    return keras.Model([tokens, given], head(ops.sum(x * weights, axis=1) / ops.sum(weights, axis=1), 4), name="bert_given_mask")


def seq2seq() -> keras.Model:
    """The decoder starts from the encoder's last state."""
    source, target = tokens_of(6, "source"), tokens_of(5, "target")
    _, h, c = kl.LSTM(7, return_state=True, name="encoder")(kl.Embedding(9, 5, name="table")(source))
    x = kl.Embedding(8, 4, name="table_1")(target)
    x = kl.LSTM(7, return_sequences=True, name="decoder")(x, initial_state=[h, c])
    return keras.Model([source, target], head(x, 8), name="seq2seq")


def translation() -> keras.Model:
    """A decoder with one block, which attends to another sequence by two kinds of attention."""
    source, target = tokens_of(6, "source"), tokens_of(5, "target")
    memory = kl.Embedding(9, 8, name="table")(source)
    x = kl.Embedding(8, 8, name="table_1")(target)
    x = norm(x + kl.MultiHeadAttention(2, 4, name="own")(x, x, use_causal_mask=True), "norm")
    x = norm(x + kl.MultiHeadAttention(2, 3, name="crossed")(x, memory), "norm_1")
    x = kl.Concatenate(name="joined")([x, kl.Attention(name="plain")([x, memory]),
                                       kl.AdditiveAttention(name="additive")([x, memory])])  # fmt: skip
    return keras.Model([source, target], head(x, 8), name="translation")


def wavenet() -> keras.Model:
    """Causal convolutions of growing dilation, each with a gate."""
    rows = keras.Input((12, 2), name="rows")
    x = kl.Conv1D(5, 1, name="stem")(rows)
    for i in range(3):
        gate = kl.Conv1D(5, 2, padding="causal", dilation_rate=2**i, activation="sigmoid", name=f"gate_{i}")(x)
        signal = kl.Conv1D(5, 2, padding="causal", dilation_rate=2**i, activation="tanh", name=f"signal_{i}")(x)
        x = x + kl.Conv1D(5, 1, name=f"out_{i}")(signal * gate)
    x = kl.AveragePooling1D(2, name="pooled")(kl.LeakyReLU(0.1, name="leaky")(x))
    return keras.Model(rows, head(kl.GlobalMaxPooling1D(name="largest")(x), 4), name="wavenet")


def rows_autoencoder() -> keras.Model:
    """Rows become shorter by strides and pooling, with depthwise and grouped convolutions, and longer again."""
    rows = keras.Input((12, 3), name="rows")
    x = kl.Conv1D(6, 3, strides=2, padding="same", activation="elu", name="conv")(rows)  # (b, 6, 6)
    x = kl.DepthwiseConv1D(3, padding="same", activation="tanh", name="depthwise")(x)
    x = kl.MaxPooling1D(2, name="pooled")(kl.SeparableConv1D(6, 3, padding="same", name="separable")(x))
    x = kl.Conv1D(4, 3, groups=2, padding="same", activation="silu", name="grouped")(x)  # (b, 3, 4)
    x = kl.UpSampling1D(2, name="up")(x)
    x = kl.Conv1DTranspose(5, 3, strides=2, padding="same", activation="tanh", name="transposed")(x)  # (b, 12, 5)
    x = kl.Cropping1D((1, 2), name="cropped")(kl.ZeroPadding1D((2, 1), name="padded")(x))
    return keras.Model(rows, kl.Conv1D(3, 1, name="values")(x), name="rows_autoencoder")


def decoders() -> keras.Model:
    """One block each of three decoder families of keras_hub."""
    tokens = tokens_of(6)
    x = kl.Embedding(9, 8, name="table")(tokens)
    made = {"intermediate_dim": 6, "num_query_heads": 2, "num_key_value_heads": 1}
    for path, options in (("qwen.qwen_decoder.QwenTransformerDecoder", made),
                          ("mistral.mistral_transformer_decoder.MistralTransformerDecoder", {**made, "sliding_window": 3}),
                          ("phi3.phi3_decoder.Phi3Decoder", {**made, "hidden_dim": 8})):  # fmt: skip
        x = of_hub(path)(**options, name=path.split(".")[0])(x)
    return keras.Model(tokens, head(x, 9), name="decoders")


# ---- images ----------------------------------------------------------------------------------------


def mobilenet_v2() -> keras.Model:
    """One block with a residual, and one that halves the image after padding."""
    image = keras.Input((5, 5, 2), name="image")
    x = conv(image, 6, 3, "linear", "stem", use_bias=False)
    x = kl.ReLU(6.0, name="stem_relu")(normalised(x, "stem_norm", epsilon=1e-3, momentum=0.9))
    for i, strides in enumerate((1, 2)):
        y = conv(x, 8, 1, "linear", f"expand_{i}", use_bias=False)
        y = kl.ReLU(6.0, name=f"expand_{i}_relu")(normalised(y, f"expand_{i}_norm", momentum=0.9))
        if strides == 2:
            y = kl.ZeroPadding2D(((0, 1), (0, 1)), name="padded")(y)
        y = kl.DepthwiseConv2D(3, strides=strides, padding="same" if strides == 1 else "valid", use_bias=False,
                               name=f"depthwise_{i}")(y)  # fmt: skip
        y = kl.ReLU(6.0, name=f"depthwise_{i}_relu")(normalised(y, f"depthwise_{i}_norm", momentum=0.9))
        y = normalised(conv(y, 6, 1, "linear", f"project_{i}", use_bias=False), f"project_{i}_norm", momentum=0.9)
        x = kl.Add(name=f"add_{i}")([x, y]) if strides == 1 else y
    return keras.Model(image, head(kl.GlobalAveragePooling2D(name="mean")(x), 4), name="mobilenet_v2")


def xception() -> keras.Model:
    image = keras.Input((9, 8, 2), name="image")
    x = kl.SeparableConv2D(6, 3, padding="same", activation="relu", name="separable")(image)
    x = kl.MaxPooling2D(3, strides=2, padding="same", name="pooled")(x)  # (b, 5, 4, 6)
    x = kl.DepthwiseConv2D(3, strides=2, depth_multiplier=2, padding="same", activation="relu", name="depthwise")(x)
    x = kl.SeparableConv2D(8, 2, activation="tanh", name="separable_1")(x)  # (b, 2, 1, 8)
    return keras.Model(image, head(kl.GlobalMaxPooling2D(name="largest")(x), 4), name="xception")


def convnext() -> keras.Model:
    from keras.src.applications.convnext import LayerScale

    image = keras.Input((8, 8, 2), name="image")
    x = norm(kl.Conv2D(6, 2, strides=2, name="stem")(image), "stem_norm")  # (b, 4, 4, 6)
    y = kl.Conv2D(6, 3, padding="same", groups=6, name="depthwise")(x)
    y = kl.Activation("gelu", name="gelu")(kl.Dense(16, name="wide")(norm(y, "norm")))
    x = x + LayerScale(1e-6, 6, name="scale")(kl.Dense(6, name="narrow")(y))
    x = norm(kl.GlobalAveragePooling2D(name="mean")(x), "last_norm")
    return keras.Model(image, head(x, 4), name="convnext")


def squeeze_excite() -> keras.Model:
    image = keras.Input((7, 6, 2), name="image")
    x = conv(kl.Rescaling(1 / 127.5, -1.0, name="scaled")(image), 8, 3, "silu", "stem")
    y = kl.GlobalAveragePooling2D(keepdims=True, name="squeeze")(x)  # (b, 1, 1, 8)
    y = conv(conv(y, 3, 1, "silu", "narrow"), 8, 1, "sigmoid", "excite")
    x = kl.Multiply(name="scale")([x, y])
    x = kl.Flatten(name="flat")(kl.AveragePooling2D(2, name="pooled")(x))
    return keras.Model(image, head(x, 4), name="squeeze_excite")


def vit() -> keras.Model:
    """Patches with position embeddings, and one block."""
    image = keras.Input((8, 8, 3), name="image")
    x = kl.Reshape((4, 8), name="rows")(kl.Conv2D(8, 4, strides=4, name="patches")(image))
    x = kl.Add(name="placed")([x, hub().PositionEmbedding(4, name="places")(x)])
    y = norm(x, "norm")
    x = x + kl.MultiHeadAttention(2, 4, name="attention")(y, y)
    y = kl.Dense(12, activation="gelu", name="wide")(norm(x, "norm_1"))
    x = norm(x + kl.Dense(8, name="narrow")(y), "last_norm")
    return keras.Model(image, head(kl.GlobalAveragePooling1D(name="mean")(x), 4), name="vit")


def unet() -> keras.Model:
    """A class for each pixel of the image."""
    image = keras.Input((8, 6, 1), name="image")
    first = conv(image, 4, 3, "tanh", "down")
    x = conv(kl.MaxPooling2D(2, name="pool")(first), 6, 3, "tanh", "down_1")  # (b, 4, 3, 6)
    x = kl.Conv2DTranspose(4, 3, strides=2, padding="same", activation="tanh", name="up")(x)  # (b, 8, 6, 4)
    x = conv(kl.Concatenate(name="joined")([x, first]), 4, 3, "tanh", "up_1")
    return keras.Model(image, conv(x, 3, 1, "softmax", "head"), name="unet")


def upscaler() -> keras.Model:
    """An image resized by interpolation of three kinds."""
    image = keras.Input((5, 4, 2), name="image")
    x = conv(image, 4, 3, "tanh", "stem")
    up = kl.UpSampling2D(2, interpolation="bilinear", name="up")(x)  # (b, 10, 8, 4)
    near = kl.UpSampling2D(2, name="near")(conv(x, 4, 1, "linear", "plain"))
    x = kl.Resizing(8, 6, name="sized")(up) + kl.Cropping2D(1, name="cropped")(near)
    return keras.Model(image, conv(x, 2, 3, "linear", "values"), name="upscaler")


def norms() -> keras.Model:
    """Normalisation by statistics of groups and of rows, and by length."""
    image = keras.Input((6, 5, 2), name="image")
    x = kl.GroupNormalization(2, name="group")(conv(image, 6, 3, "linear", "stem"))
    x = kl.Flatten(name="flat")(kl.AveragePooling2D(2, name="pooled")(kl.Activation("mish", name="mish")(x)))
    x = kl.RMSNormalization(name="rms")(kl.Dense(10, activation="selu", name="dense")(x))
    x = kl.UnitNormalization(name="unit")(kl.Dense(8, name="dense_1")(x))
    return keras.Model(image, head(x, 4), name="norms")


def learned_slopes() -> keras.Model:
    """Activations with weights, and activations with constants."""
    image = keras.Input((6, 6, 2), name="image")
    x = kl.PReLU(shared_axes=[1, 2], name="prelu")(conv(image, 6, 3, "linear", "stem"))
    x = kl.ELU(0.7, name="elu")(conv(x, 6, 3, "linear", "conv", strides=2))
    x = kl.PReLU(name="prelu_1")(kl.Dense(10, name="dense")(kl.Flatten(name="flat")(kl.Permute((3, 1, 2), name="turned")(x))))
    return keras.Model(image, head(x, 4), name="learned_slopes")


def fine_tuned() -> keras.Model:
    """A frozen model as a layer, whose statistics stay; and a head that learns."""
    image = keras.Input((7, 6, 2), name="image")
    inner = keras.Input((7, 6, 2), name="inner_image")
    x = relu(normalised(conv(inner, 5, 3, "linear", "conv", use_bias=False), "norm"), "relu")
    base = keras.Model(inner, kl.GlobalAveragePooling2D(name="mean")(x), name="base")
    base.trainable = False
    x = kl.Dense(8, activation="tanh", name="dense")(base(image))
    return keras.Model(image, head(x, 4), name="fine_tuned")


def video() -> keras.Model:
    """A small network for each image of a sequence."""
    images = keras.Input((4, 6, 6, 1), name="images")
    inner = keras.Sequential([keras.Input((6, 6, 1)), kl.Conv2D(3, 3, activation="tanh", name="conv"),
                              kl.MaxPooling2D(2, name="pool"), kl.Flatten(name="flat")], name="inner")  # fmt: skip
    x = kl.TimeDistributed(inner, name="each")(images)  # (b, 4, 12)
    return keras.Model(images, head(kl.LSTM(5, name="lstm")(x), 3), name="video")


# ---- several inputs, and nested models -------------------------------------------------------------


def tokens_and_numbers() -> keras.Model:
    """A row of a table: two tokens that are embedded, a category as a one-hot row, and numbers."""
    token = keras.Input((2,), name="token")
    kind = keras.Input((1,), name="kind")
    row = keras.Input((5,), name="row")
    known = kl.Normalization(mean=[0.1, 0.0, -0.2, 0.3, 0.0], variance=[1.5, 1.0, 2.0, 0.5, 1.0], name="normal")(row)
    x = kl.Concatenate(name="joined")([kl.Flatten(name="flat")(kl.Embedding(7, 4, name="table")(token)),
                                       kl.CategoryEncoding(5, output_mode="one_hot", name="encoded")(kind), known])  # fmt: skip
    x = kl.Dense(10, activation="relu", name="dense")(x)
    return keras.Model([token, kind, row], kl.Dense(1, activation="sigmoid", name="chance")(x), name="tokens_and_numbers")


def two_towers() -> keras.Model:
    """The angle between the vectors of users and items."""
    user, item = keras.Input((), dtype="int32", name="user"), keras.Input((), dtype="int32", name="item")
    one = kl.Dense(6, name="user_dense")(kl.Embedding(12, 6, name="users")(user))
    other = kl.Dense(6, name="item_dense")(kl.Embedding(9, 6, name="items")(item))
    x = kl.Dot(1, normalize=True, name="angle")([one, other])
    return keras.Model([user, item], kl.Dense(1, name="value")(x), name="two_towers")


def siamese() -> keras.Model:
    """A model applied to two images, and the distance of its outputs."""
    left, right = keras.Input((6, 6, 1), name="left"), keras.Input((6, 6, 1), name="right")
    inner = keras.Input((6, 6, 1), name="inner_image")
    x = kl.Flatten(name="flat")(kl.Conv2D(4, 3, strides=2, activation="tanh", name="conv")(inner))
    tower = keras.Model(inner, kl.Dense(6, activation="tanh", name="dense")(x), name="tower")
    apart = ops.sqrt(ops.sum(ops.square(tower(left) - tower(right)), axis=-1, keepdims=True) + 0.01)
    return keras.Model([left, right], kl.Dense(1, activation="sigmoid", name="chance")(apart), name="siamese")


def penalties() -> keras.Model:
    vector = keras.Input((12,), name="vector")
    x = kl.Dense(10, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01), name="dense")(vector)
    x = kl.Dense(8, activation="tanh", kernel_regularizer=keras.regularizers.L1L2(0.001, 0.02),
                 bias_regularizer=keras.regularizers.L1(0.002), name="dense_1")(x)  # fmt: skip
    return keras.Model(vector, kl.Dense(3, name="values")(x), name="penalties")


def constraints() -> keras.Model:
    """Constraints on variables after each update, along one axis and several."""
    norms = keras.constraints
    rows = keras.Input((6, 4), name="rows")
    x = kl.Conv1D(6, 3, padding="same", activation="tanh", kernel_constraint=norms.MaxNorm(0.8, axis=[0, 1]),
                  bias_constraint="non_neg", name="conv")(rows)  # fmt: skip
    x = kl.SeparableConv1D(6, 3, depthwise_constraint=norms.MaxNorm(0.9), pointwise_constraint=norms.UnitNorm(axis=-1),
                           name="separable")(x)  # fmt: skip
    x = kl.GRU(5, kernel_constraint=norms.UnitNorm(), recurrent_constraint=norms.MinMaxNorm(0.5, 0.9, 0.7, axis=1),
               bias_constraint=norms.MaxNorm(0.1, axis=[0, 1]), name="gru")(x)  # fmt: skip
    x = kl.Dense(8, activation="tanh", kernel_constraint=norms.NonNeg(), name="dense")(x)
    return keras.Model(rows, head(kl.Dense(6, activation="tanh", name="free")(x), 3), name="constraints")


def expressions() -> keras.Model:
    """Functions of keras.ops: attention by einsum, slices, padding, powers."""
    rows = keras.Input((6, 5), name="rows")
    first, second = ops.split(kl.Dense(12, name="dense")(rows), 2, axis=-1)  # (b, 6, 6) each
    scores = ops.softmax(ops.einsum("bqc,bkc->bqk", first, second) / 6**0.5, axis=-1)
    x = ops.einsum("bqk,bkc->bqc", scores, first)
    x = ops.pad(x, [[0, 0], [1, 1], [0, 0]])[:, 2:] * ops.sigmoid(second)
    x = ops.concatenate([ops.mean(x, axis=1), ops.max(x, axis=1), ops.exp(-ops.square(x[:, 1]))], axis=-1)  # (b, 18)
    x = ops.where(ops.greater(x, 0.0), x, ops.sin(x)) + 0.1 * ops.log(1.0 + ops.absolute(ops.reshape(ops.transpose(
        ops.reshape(x, (-1, 3, 6)), (0, 2, 1)), (-1, 18))))  # fmt: skip
    return keras.Model(rows, head(x, 4), name="expressions")


def mixer() -> keras.Model:
    """Products along both axes by einsum, and gates by minimum and maximum."""
    rows = keras.Input((6, 5), name="rows")
    x = kl.Permute((2, 1), name="turned")(rows)  # (b, 5, 6)
    x = kl.EinsumDense("bct,tu->bcu", output_shape=(5, 6), bias_axes="u", activation="gelu", name="places")(x)
    x = ops.transpose(x, (0, 2, 1))
    x = norm(kl.Minimum(name="smaller")([x, kl.Subtract(name="less")([rows, x])]), "norm")
    x = kl.EinsumDense("btc,cd->btd", output_shape=(6, 8), bias_axes="d", activation="softplus", name="channels")(x)
    x = ops.matmul(x, ops.swapaxes(x, 1, 2)) / 6.0  # (b, 6, 6)
    row = ops.expand_dims(ops.squeeze(ops.flip(x, axis=1)[:, :1], axis=1), axis=1)
    x = kl.Flatten(name="flat")(ops.stack([ops.tanh(row), ops.minimum(row, 0.5), ops.power(ops.softplus(row), 1.5)], axis=2))
    return keras.Model(rows, head(kl.Reshape((18,), name="shaped")(x), 4), name="mixer")


def arithmetic() -> keras.Model:
    """Functions of single numbers, and of many numbers."""
    rows = keras.Input((4, 6), name="rows")
    x = kl.Dense(6, name="dense")(rows)
    soft = ops.reciprocal(1.0 + ops.square(x)) + ops.log1p(ops.square(x)) * ops.cos(x) - ops.expm1(-ops.absolute(x))
    bent = ops.relu6(4.0 * x) + ops.clip(x, -0.5, 0.7) - ops.relu(-x) + ops.silu(x) * ops.log_sigmoid(x)
    x = ops.divide(soft, 1.0 + ops.softplus(bent)) + ops.maximum(bent, soft) - ops.softsign(bent)
    sums = ops.cumsum(x, axis=1) + ops.cumsum(ops.ones_like(x), axis=1) + ops.zeros_like(x)
    x = ops.concatenate([ops.min(sums, axis=1), ops.sum(x, axis=1), ops.top_k(sums[:, 3], 1)[0]], axis=-1)  # (b, 13)
    return keras.Model(rows, head(x, 4), name="arithmetic")


def truths() -> keras.Model:
    """Comparisons and logic choose between the outputs of two layers. Tokens become one-hot rows."""
    tokens = tokens_of(5)
    x = ops.one_hot(tokens, 7)  # (b, 5, 7)
    one, other = kl.Dense(5, activation="tanh", name="one")(x), kl.Dense(5, name="other")(x)
    odd = ops.equal(ops.cast(ops.expand_dims(tokens, -1), "float32"), 3.0)
    x = ops.where(ops.logical_or(odd, ops.logical_and(ops.less(one, 0.3), ops.greater_equal(other, -0.6))), one, other)
    x = x * ops.cast(ops.logical_not(ops.less_equal(one, -0.8)), x.dtype) + 0.1 * ops.sign(x) * x
    some = ops.cast(ops.any(ops.greater(one, 0.5), axis=-1, keepdims=True), x.dtype)
    every = ops.cast(ops.all(ops.not_equal(one, other), axis=-1, keepdims=True), x.dtype)
    x = kl.GlobalAveragePooling1D(name="mean")(x * (some + every))
    return keras.Model(tokens, head(x, 3), name="truths")


def volumes() -> keras.Model:
    """Three spatial axes, and a scaled residual of Inception-ResNet."""
    from keras.src.applications.inception_resnet_v2 import CustomScaleLayer

    images = keras.Input((3, 5, 5, 2), name="images")
    x = kl.TimeDistributed(kl.Conv2D(5, 3, padding="same", activation="tanh", name="conv"), name="each")(images)
    x = CustomScaleLayer(0.3, name="scaled")([x, kl.Dense(5, activation="tanh", name="dense")(x)])
    x = kl.Cropping3D(((0, 1), (2, 0), (1, 1)), name="cropped")(kl.ZeroPadding3D((1, 1, 0), name="padded")(x))
    x = kl.Concatenate(name="joined")([kl.GlobalAveragePooling3D(name="mean")(x), kl.GlobalMaxPooling3D(name="largest")(x)])
    return keras.Model(images, head(x, 3), name="volumes")


def fnet() -> keras.Model:
    """Fourier transforms instead of attention."""
    tokens = tokens_of(8)
    x = kl.Embedding(9, 8, name="table")(tokens)
    x = hub().FNetEncoder(12, name="encoder")(x)
    x = kl.Dense(6, activation="softsign", name="dense")(kl.Flatten(name="flat")(x))
    return keras.Model(tokens, head(kl.Reshape((6,), name="shaped")(kl.RepeatVector(1, name="repeated")(x)), 4), name="fnet")


# ---- data ------------------------------------------------------------------------------------------


def sentences(count: int, length: int, table: int, classes: int, *, padded: bool = False) -> Draw:
    """A sentence per class, in which two of five tokens are random; padded sentences end in zeros."""

    def draw(rng: np.random.Generator) -> Data:
        prototypes = rng.integers(1, table, (classes, length))
        y = rng.integers(0, classes, count)
        x = np.where(rng.random((count, length)) < 0.4, rng.integers(1, table, (count, length)), prototypes[y])
        if padded:
            x *= np.arange(length) < rng.integers(length // 2, length + 1, count)[:, None]
        return x.astype(np.uint8), y

    return draw


def as_floats(draw: Draw) -> Draw:
    """Converts bytes to floats, because bytes that no Embedding reads would be divided by 255."""

    def floats(rng: np.random.Generator) -> Data:
        x, y = draw(rng)
        return x.astype(np.float32), y

    return floats


def next_tokens(count: int, length: int, table: int) -> Draw:
    """Each token is, with probability 0.7, three times the previous one plus two, modulo `table`. Labels are the next
    tokens."""

    def draw(rng: np.random.Generator) -> Data:
        x = rng.integers(0, table, (count, length + 1))
        for i in range(length):
            x[:, i + 1] = np.where(rng.random(count) < 0.7, (3 * x[:, i] + 2) % table, x[:, i + 1])
        return x[:, :-1].astype(np.uint8), x[:, 1:].astype(np.uint8)

    return draw


def tags(count: int, length: int, table: int, classes: int, *, padded: bool = False) -> Draw:
    """The label of a position is a function of its token and the previous one; padded sentences end in zeros."""

    def draw(rng: np.random.Generator) -> Data:
        x = rng.integers(0, table, (count, length))
        if padded:
            x = np.maximum(x, 1) * (np.arange(length) < rng.integers(1, length + 1, count)[:, None])
        return x.astype(np.uint8), ((x + np.roll(x, 1, axis=1)) % classes).astype(np.uint8)

    return draw


def translations(count: int) -> Draw:
    """Six tokens below nine. The target's five tokens, below eight, are a function of them. The second input is the
    target, shifted by one."""

    def draw(rng: np.random.Generator) -> Data:
        source = rng.integers(0, 9, (count, 6))
        target = (source[:, :5] + source[:, 1:]) % 8
        return (source.astype(np.uint8), np.roll(target, 1, axis=1).astype(np.uint8)), target.astype(np.uint8)

    return draw


def segments(count: int, shape: tuple[int, ...], classes: int) -> Draw:
    """The class of a pixel depends on its brightness."""

    def draw(rng: np.random.Generator) -> Data:
        x = rng.integers(0, 256, (count, *shape)).astype(np.uint8)
        return x, (x[..., 0].astype(int) * classes // 256).astype(np.uint8)

    return draw


def images(count: int, shape: tuple[int, ...], target: tuple[int, ...]) -> Draw:
    """Values of the target's shape."""

    def draw(rng: np.random.Generator) -> Data:
        x, y = values(shape, count, int(np.prod(target)))(rng)
        return x, y.reshape(count, *target)

    return draw


def values(shape: tuple[int, ...], count: int, size: int) -> Draw:
    """Products of the samples with a matrix."""

    def draw(rng: np.random.Generator) -> Data:
        x, _ = patterns(count, shape, 5, 1.0, as_float=True)(rng)
        matrix = rng.normal(0.0, 1.0, (x[0].size, size)) / np.sqrt(x[0].size)
        return x, (x.reshape(count, -1) @ matrix + rng.normal(0.0, 0.3, (count, size))).astype(np.float32)

    return draw


def padded_translations(count: int, *, once: bool = False) -> Draw:
    """Like translations; tokens after the end are 0. A second label belongs to each token of the source; once: without
    this label."""

    def draw(rng: np.random.Generator) -> Data:
        (source, target), wanted = translations(count)(rng)
        ends = rng.integers(2, 6, count)[:, None]
        source, target = (np.maximum(x, 1) * (np.arange(x.shape[1]) < ends) for x in (source, target))
        data = (source.astype(np.uint8), target.astype(np.uint8)), wanted, (source % 3).astype(np.uint8)
        return data[:2] if once else data

    return draw


def padded_twins(count: int, length: int, table: int, classes: int) -> Draw:
    """Two sentences of one length, which end in zeros at different positions, and a label for each position."""

    def draw(rng: np.random.Generator) -> Data:
        one, other = (tags(count, length, table, classes, padded=True)(rng)[0] for _ in range(2))
        return (one, other), ((one + other.astype(int)) % classes).astype(np.uint8)

    return draw


def given_masks(count: int, length: int, table: int, classes: int) -> Draw:
    """Sentences, a mask of the tokens that count, and the class of the sum of these tokens."""

    def draw(rng: np.random.Generator) -> Data:
        x = rng.integers(0, table, (count, length))
        counts = np.arange(length) < rng.integers(1, length + 1, count)[:, None]
        return (x.astype(np.uint8), counts.astype(np.uint8)), ((x * counts).sum(axis=1) % classes).astype(np.uint8)

    return draw


def masked_rows(count: int, steps: int = 0) -> Draw:
    """Rows that end in zeros, and two values for each row, or for each step."""

    def draw(rng: np.random.Generator) -> Data:
        x, y = values((7, 3), count, 2 * max(steps, 1))(rng)
        if steps:
            y = y.reshape(count, steps, 2)
        return x * (np.arange(7) < rng.integers(3, 8, count)[:, None])[..., None].astype(np.float32), y

    return draw


def table_rows(count: int) -> Draw:
    def draw(rng: np.random.Generator) -> Data:
        token, kind = rng.integers(0, 7, (count, 2)), rng.integers(0, 5, (count, 1))
        row = rng.normal(0.0, 1.0, (count, 5))
        y = row[:, :1] + 0.5 * (token[:, :1] - 3) + 0.5 * (kind - 2) + rng.normal(0.0, 0.3, (count, 1)) > 0
        return tuple(a.astype(np.float32) for a in (token, kind, row)), y.astype(np.float32)

    return draw


def pairs(count: int) -> Draw:
    def draw(rng: np.random.Generator) -> Data:
        user, item = rng.integers(0, 12, count), rng.integers(0, 9, count)
        tastes = rng.normal(0.0, 1.0, (12, 9))
        return (user.astype(np.uint8), item.astype(np.uint8)), tastes[user, item][:, None].astype(np.float32)

    return draw


def image_pairs(count: int) -> Draw:
    """Two images of the same class, or of two classes."""

    def draw(rng: np.random.Generator) -> Data:
        prototypes = rng.normal(0.0, 1.0, (4, 6, 6, 1))
        classes = rng.integers(0, 4, (2, count))
        classes[1] = np.where(rng.random(count) < 0.4, classes[0], classes[1])
        left, right = (np.clip(np.rint(96 + 40 * (prototypes[c] + rng.normal(0.0, 0.5, (count, 6, 6, 1)))), 0, 255) for c in classes)
        return (left.astype(np.uint8), right.astype(np.uint8)), (classes[0] == classes[1])[:, None].astype(np.float32)

    return draw


# ---- the list --------------------------------------------------------------------------------------


def case(build: Callable[[], keras.Model], data: Draw, optimizer: Sgd | Adam, loss: object = CrossEntropy(), seed: int = 1,
         tolerance: float = 1e-5, **more: object) -> Case:  # fmt: skip
    return Case(build.__name__, seed, build, data, optimizer, loss, batch=16, group="families", brief=True,
                tolerance_loss=tolerance, tolerance_grad_norm=tolerance, tolerance_final=tolerance, **more)  # fmt: skip


MSE, BINARY = Difference("mean_squared_error"), Named("binary_crossentropy", ())
ADAM_OF_IMAGES = 1e-4  # Adam enlarges the effect of a crossed kink
FAMILIES = (
    case(gpt, next_tokens(60, 8, 9), Sgd(0.1, 0.9)),
    case(llama, next_tokens(48, 6, 9), Adam(0.003)),
    case(bert_masked, sentences(48, 7, 9, 4, padded=True), Sgd(0.02, 0.9)),
    case(bilstm_masked, sentences(60, 8, 11, 4, padded=True), Adam(0.01)),
    case(gru_both_ways, masked_rows(48), Sgd(0.1, 0.9), MSE),
    case(rnn_tagger, tags(48, 6, 8, 3), Adam(0.005)),
    case(padded_tagger, tags(56, 8, 9, 4, padded=True), Adam(0.01)),
    case(padded_rows, masked_rows(48, 7), Sgd(0.1, 0.9), MSE, sample_weights=True),
    case(padded_pair, padded_translations(48), Sgd(0.05, 0.9), (CrossEntropy(), CrossEntropy()), loss_weights=(1.0, 0.5)),
    case(padded_states, padded_translations(48, once=True), Sgd(0.2, 0.9)),
    case(padded_gates, padded_twins(48, 6, 9, 4), Sgd(0.1, 0.9)),
    case(padded_parts, padded_twins(48, 6, 9, 4), Sgd(0.2, 0.9)),
    case(bert_given_mask, given_masks(48, 6, 9, 4), Sgd(0.05, 0.9)),
    case(seq2seq, translations(48), Sgd(0.5, 0.9)),
    case(translation, translations(48), Sgd(0.05, 0.9)),
    case(wavenet, patterns(48, (12, 2), 4, 1.0, as_float=True), Sgd(0.05, 0.9)),
    case(rows_autoencoder, images(48, (12, 3), (12, 3)), Adam(0.01), MSE, tolerance=ADAM_OF_IMAGES),
    case(mobilenet_v2, patterns(56, (5, 5, 2), 4, 1.5), Sgd(0.0005, 0.9), seed=4),
    case(xception, patterns(48, (9, 8, 2), 4, 1.0), Adam(0.003), seed=2, tolerance=ADAM_OF_IMAGES),
    case(convnext, patterns(48, (8, 8, 2), 4, 1.0), Adam(0.002), tolerance=ADAM_OF_IMAGES),
    case(squeeze_excite, patterns(48, (7, 6, 2), 4, 1.0), Sgd(0.05, 0.9), rescales=True),
    case(vit, patterns(48, (8, 8, 3), 4, 1.0), Sgd(0.005, 0.9)),
    case(unet, segments(40, (8, 6, 1), 3), Sgd(0.1, 0.9)),
    case(upscaler, images(48, (5, 4, 2), (8, 6, 2)), Sgd(0.05, 0.9), MSE),
    case(norms, patterns(48, (6, 5, 2), 4, 1.0), Sgd(0.01, 0.9)),
    case(learned_slopes, patterns(48, (6, 6, 2), 4, 1.0), Sgd(0.02, 0.9)),
    case(fine_tuned, patterns(48, (7, 6, 2), 4, 1.0), Adam(0.005)),
    case(video, patterns(48, (4, 6, 6, 1), 3, 1.0), Sgd(0.05, 0.9)),
    case(tokens_and_numbers, table_rows(48), Adam(0.01), BINARY),
    case(two_towers, pairs(60), Sgd(0.05, 0.9), MSE),
    case(siamese, image_pairs(48), Sgd(0.05, 0.9), BINARY),
    case(penalties, numbers(48, 12, 3, 0.3), Sgd(0.05, 0.9), MSE),
    case(constraints, patterns(48, (6, 4), 3, 1.0, as_float=True), Sgd(0.05, 0.9)),
    case(expressions, patterns(48, (6, 5), 4, 1.0, as_float=True), Sgd(0.05, 0.9)),
    case(mixer, patterns(48, (6, 5), 4, 1.0, as_float=True), Sgd(0.02, 0.9)),
    case(arithmetic, patterns(48, (4, 6), 4, 1.0, as_float=True), Sgd(0.002, 0.9)),
    case(truths, as_floats(sentences(48, 5, 7, 3)), Sgd(0.05, 0.9)),
    case(volumes, patterns(48, (3, 5, 5, 2), 3, 1.0), Sgd(0.05, 0.9)),
    case(decoders, next_tokens(48, 6, 9), Sgd(0.005, 0.9)),
    case(fnet, sentences(48, 8, 9, 4), Sgd(0.02, 0.9)),
)  # fmt: skip
