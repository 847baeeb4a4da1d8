"""Every kind of layer and attribute that the importer reads, each after one Dense layer: outputs and gradients.

A model has several layers side by side, each with its own output. The Dense layer before them collects the gradients of
their inputs. Keras computes in float64, from float32 weights and samples. `python single_layers.py` writes
single_layers.json. With names of groups as arguments, it writes only these again. For each model, the file has its
JSON, the samples (batch 2), targets, variables, outputs, the sum of the outputs' mean squared errors, and the
gradients. Needs Keras with the JAX backend.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import keras
import numpy as np
from keras import layers as kl
from keras import ops

from variables import names_of

linalg = keras.src.backend.linalg
norm_of_tuples = linalg.norm  # JAX's norm does not accept the list that Keras makes from an axis
linalg.norm = lambda x, ord=None, axis=None, keepdims=False: norm_of_tuples(x, ord, tuple(axis) if isinstance(axis, list) else axis, keepdims)
COUNT = 2
VECTOR, ROW, IMAGE, WIDE = (5,), (8, 4), (6, 5, 4), (3, 2, 8)


def activations() -> list[kl.Layer]:
    names = """silu gelu relu6 leaky_relu elu selu exponential softplus softsign log_sigmoid hard_sigmoid hard_silu
    hard_tanh tanh_shrink soft_shrink hard_shrink squareplus mish relu sigmoid tanh celu""".split()
    return [kl.Activation(n, name=f"of_{n}") for n in names]


def nested() -> keras.Model:
    x = keras.Input((8, 4))
    return keras.Sequential([keras.Model(x, kl.Add()([x, kl.Dense(4, activation="tanh")(x)])), kl.Dense(3)])


def parted() -> keras.Model:
    x = keras.Input((8, 4))
    return keras.Model(x, ops.multiply(*ops.split(kl.Dense(6, activation="tanh")(x), 2, axis=-1)))


def twice(model: keras.Model) -> Callable[[keras.KerasTensor], keras.KerasTensor]:
    return lambda x: model(x) - model(2.0 * x)


def written_attention(change: Callable[[keras.KerasTensor, keras.KerasTensor], keras.KerasTensor]) -> Callable[[keras.KerasTensor], keras.KerasTensor]:
    """Attention as models write it with keras.ops. change: a function of the scores and of the values that they come
    from."""
    def call(x: keras.KerasTensor) -> keras.KerasTensor:
        scores = ops.matmul(ops.sin(x), ops.transpose(x, (0, 2, 1)))
        return ops.matmul(ops.softmax(change(scores, x), axis=-1), x)
    return call


def left_out(x: keras.KerasTensor) -> keras.KerasTensor:
    """Masks some positions of each text, as a number that is added to the scores."""
    return (1.0 - ops.cast(ops.expand_dims(x[:, :, 0] > -0.3, 1), "float32")) * -1e4


PLACES = np.where(np.tril(np.ones((8, 8))) > 0, 0.0, -1e9).astype("float32")  # only earlier positions
FIRST = "channels_first"
# Never masks the first position, so that each query has one to attend to.
BEHIND_FIRST = (np.arange(8) > 0).astype("float32").reshape(1, 1, 8)


# The shapes of all inputs, for models with several.
INPUTS = {"inputs": [(5,), (2, 3, 4), (6,)], "inputs_by_name": [(3,), (2,)], "inputs_without_axes": [(), (4,), ()]}
GROUPS: list[tuple[str, tuple[int, ...], list[Callable[[keras.KerasTensor], keras.KerasTensor]]]] = [
    ("activations", VECTOR, activations()),
    ("activation_layers", VECTOR, [
        kl.ReLU(name="relu"), kl.ReLU(max_value=0.7, name="relu_most"), kl.ReLU(6.0, 0.1, 0.2, name="relu_all"),
        kl.LeakyReLU(name="leaky"), kl.LeakyReLU(0.2, name="leaky_2"), kl.ELU(0.7, name="elu"),
        kl.PReLU(alpha_initializer="random_normal", name="prelu"), kl.Softmax(name="softmax")]),
    ("images", IMAGE, [
        kl.Conv2D(4, 3, groups=2, padding="same", activation="silu", name="groups"),
        kl.Conv2D(8, (3, 2), groups=4, strides=2, name="groups_of_one"),
        kl.DepthwiseConv2D(3, padding="same", activation="relu", name="depthwise"),
        kl.DepthwiseConv2D(3, strides=2, depth_multiplier=2, use_bias=False, name="depthwise_twice"),
        kl.DepthwiseConv2D((2, 3), dilation_rate=2, padding="same", name="depthwise_apart"),
        kl.SeparableConv2D(5, 3, padding="same", activation="tanh", name="separable"),
        kl.SeparableConv2D(3, 3, strides=2, depth_multiplier=2, padding="same", name="separable_strides")]),
    ("transposed", IMAGE, [
        kl.Conv2DTranspose(3, 3, strides=2, padding="same", activation="relu", name="same"),
        kl.Conv2DTranspose(3, (2, 4), strides=(2, 3), name="valid"),
        kl.Conv2DTranspose(3, 2, strides=3, padding="same", use_bias=False, name="gaps"),
        kl.Conv2DTranspose(2, 3, name="plain"), kl.Conv2DTranspose(2, 2, strides=3, name="valid_gaps"),
        kl.UpSampling2D(name="up"), kl.UpSampling2D((3, 2), name="up_3")]),
    ("moved", IMAGE, [
        kl.ZeroPadding2D(((0, 1), (2, 1)), name="padded"), kl.ZeroPadding2D(2, name="padded_2"),
        kl.ZeroPadding2D((1, 2), name="padded_1_2"), kl.Cropping2D(((1, 0), (2, 1)), name="cropped"),
        kl.Permute((3, 1, 2), name="permuted"), kl.GlobalMaxPooling2D(name="largest"),
        kl.GlobalMaxPooling2D(keepdims=True, name="largest_kept"), kl.GlobalAveragePooling2D(name="mean")]),
    ("rows", ROW, [
        kl.Conv1D(5, 3, padding="same", activation="relu", name="conv"),
        kl.Conv1D(5, 3, padding="causal", dilation_rate=2, name="causal"), kl.Conv1D(4, 2, strides=3, name="strides"),
        kl.Conv1D(4, 3, groups=2, padding="same", name="groups"),
        kl.DepthwiseConv1D(3, padding="same", depth_multiplier=2, name="depthwise"),
        kl.SeparableConv1D(3, 3, strides=2, name="separable"),
        kl.Conv1DTranspose(3, 3, strides=2, padding="same", name="transposed")]),
    ("rows_pooled", ROW, [
        kl.MaxPooling1D(name="largest"), kl.MaxPooling1D(3, strides=2, padding="same", name="largest_same"),
        kl.AveragePooling1D(3, strides=3, name="mean"), kl.GlobalAveragePooling1D(name="mean_of_all"),
        kl.GlobalMaxPooling1D(name="largest_of_all"), kl.ZeroPadding1D((2, 1), name="padded"),
        kl.Cropping1D((2, 1), name="cropped"), kl.UpSampling1D(3, name="up")]),
    ("norms", WIDE, [
        kl.LayerNormalization(epsilon=1e-6, name="layer"), kl.LayerNormalization(axis=[1, 2, 3], name="layer_all"),
        kl.LayerNormalization(center=False, scale=False, name="layer_plain"),
        kl.GroupNormalization(4, name="group"), kl.GroupNormalization(-1, epsilon=1e-5, name="instance"),
        kl.RMSNormalization(name="rms"), kl.RMSNormalization(axis=[-2, -1], epsilon=1e-3, name="rms_2"),
        kl.UnitNormalization(name="unit")]),
    ("scaled", IMAGE, [
        kl.Rescaling(0.3, name="scaled"), kl.Rescaling(0.3, -1.5, name="moved"),
        kl.Rescaling([0.1, 2.0, 3.0, -1.0], [1.0, 0.0, 0.5, 2.0], name="by_channel"),
        kl.Normalization(mean=0.3, variance=2.5, name="normal"),
        kl.Normalization(mean=[1.0, 0.0, -1.0, 2.0], variance=[4.0, 0.0, 1.0, 0.25], name="normal_by_channel"),
        kl.Normalization(mean=[1.0, 0.0, -1.0, 2.0], variance=[4.0, 3.0, 1.0, 0.25], invert=True, name="back"),
        kl.PReLU(shared_axes=[1, 2], alpha_initializer="random_normal", name="prelu"),
        kl.Softmax(axis=1, name="softmax_of_rows")]),
    ("frozen", IMAGE, [
        kl.Conv2D(3, 3, trainable=False, name="conv"), kl.BatchNormalization(trainable=False, name="norm"),
        kl.Dense(3, activation="gelu", trainable=False, name="dense")]),
    ("attention", ROW, [
        lambda x: kl.MultiHeadAttention(2, 3, name="self")(x, x),
        lambda x: kl.MultiHeadAttention(1, 4, output_shape=5, use_bias=False, name="sized")(x, x),
        lambda x: kl.MultiHeadAttention(2, 2, name="causal")(x, x, use_causal_mask=True),
        lambda x: kl.MultiHeadAttention(2, 3, name="crossed")(x, x[:, 2:7, 1:], x[:, 3:8]),
        lambda x: kl.MultiHeadAttention(2, 2, name="named")(value=x[:, 2:7], query=x, key=x[:, 3:8, 1:])]),
    ("attention_of_images", IMAGE, [
        lambda x: kl.MultiHeadAttention(2, 3, attention_axes=[2], name="rows")(x, x),
        lambda x: kl.MultiHeadAttention(2, 3, value_dim=2, attention_axes=[1, 2], name="places")(x, x)]),
    ("operators", IMAGE, [
        lambda x: (1.5 - x) * x / 3.0, lambda x: ops.maximum(x, 0.1) + ops.minimum(x, 2.0 * x),
        lambda x: ops.square(x) + ops.exp(x) * ops.sin(x) - ops.cos(x), lambda x: ops.sqrt(ops.maximum(x * x, 0.01)),
        lambda x: ops.silu(x) + ops.relu(x), lambda x: ops.log(1.5 + ops.absolute(ops.tanh(x))),
        lambda x: ops.sum(x, axis=-1), lambda x: ops.mean(x, axis=[1, 2], keepdims=True) * x]),
    ("shapes", IMAGE, [
        lambda x: x[:, 1:-1, ::2], lambda x: x[:, ::-1, 3, 1:3], lambda x: x[:, None, ..., -1],
        lambda x: ops.transpose(x, (0, 3, 1, 2)), lambda x: ops.reshape(x, (-1, 10, 12)),
        lambda x: ops.stack([x, 2.0 * x], axis=2), lambda x: ops.softmax(x, axis=2),
        lambda x: ops.concatenate([ops.expand_dims(x, 1), ops.expand_dims(x * x, 1)], axis=2)]),
    ("counted", ROW, [
        lambda x: x * ops.cumsum(ops.ones_like(x), axis=1), lambda x: ops.cumsum(x, axis=-1) + ops.zeros_like(x),
        lambda x: nested()(x), lambda x: twice(nested())(x), lambda x: ops.stop_gradient(x) * ops.tanh(x)]),
    ("tokens", (4, 3), [kl.Embedding(7, 5, name="table"), kl.Embedding(9, 2, name="other")]),
    ("inputs", (35,), [
        lambda x: kl.Concatenate()([
            kl.Dense(3, name="first")(x[0]), kl.Flatten()(kl.Embedding(7, 2, name="third")(x[2]))]),
        lambda x: kl.Conv2D(2, 2, name="second")(x[1]),
        lambda x: kl.Dense(2, name="both")(x[0]) * kl.Flatten()(x[1])[:, 3:5]]),
    ("inputs_by_name", (5,), [lambda x: kl.Dense(3, name="three")(x[0]), lambda x: kl.Dense(2, name="two")(x[1])]),
    ("vectors", VECTOR, [kl.RepeatVector(4, name="repeated"), kl.Reshape((5, 1), name="reshaped")]),
    ("products", IMAGE, [
        lambda x: ops.matmul(x, ops.transpose(x, (0, 1, 3, 2))), lambda x: ops.matmul(ops.reshape(x, (-1, 6, 20)), ops.reshape(x, (-1, 20, 6))),
        lambda x: ops.einsum("bhwc,bijc->bhwij", x, x[:, 1:4]), lambda x: ops.einsum("bhwc,bwhd->bcd", x, ops.transpose(x, (0, 2, 1, 3))),
        lambda x: ops.einsum("bqnh,bknh->bnqk", x, x[:, 2:5]), lambda x: ops.einsum("bchw,bhwd->bdc", ops.transpose(x, (0, 3, 1, 2)), x),
        lambda x: ops.einsum("...ij,...kj->...ki", x, x * x), lambda x: ops.einsum("bnqk,bknh->bqnh", ops.transpose(x, (0, 2, 1, 3)), x[:, :4])]),
    ("dense_by_equation", WIDE, [
        kl.EinsumDense("abcd,def->abcef", output_shape=(3, 2, 2, 3), bias_axes="ef", activation="tanh", name="heads"),
        kl.EinsumDense("abcd,cde->abe", output_shape=(None, 4), name="summed"),
        kl.EinsumDense("abcd,de->abce", output_shape=(None, None, 5), bias_axes="e", name="plain"),
        lambda x: kl.Dot(axes=3, name="dot")([x[:, 0:2, 0:1], x[:, 1:3]]),
        lambda x: kl.Dot(axes=(1, 2), normalize=True, name="dot_normal")([x[:, :, 0], x[:, 0:2, 0:2, 0:3][:, :, 0]]),
        lambda x: kl.Dot(axes=1, name="dot_flat")([kl.Flatten()(x), kl.Flatten()(x * x)])]),
    ("truths", ROW, [
        lambda x: x * ops.cast(ops.not_equal(ops.cast(x > 0.1, "float32"), 0), "float32"),
        lambda x: ops.where(x > 0.2, x, x * x), lambda x: ops.where(ops.logical_or(x < -0.3, x >= 0.4), 2.0 * x, ops.exp(x)),
        lambda x: ops.where(ops.logical_and(x <= 0.3, ops.logical_not(ops.equal(x, 5.0))), x, -x),
        lambda x: x[:, :, 0] * ops.cast(ops.any(x > 0.5, axis=-1), "float32"),
        lambda x: x[:, :, 1] * ops.cast(ops.all(x > -0.6, axis=-1), "float32")]),
    ("numbers", ROW, [
        lambda x: ops.multiply(x, np.arange(4, dtype="float32")), lambda x: ops.subtract(np.arange(8, dtype="float32")[:, None], x),
        lambda x: ops.add(x[:, :, 0:1], np.arange(24, dtype="float32").reshape(1, 8, 3)),
        lambda x: ops.power(ops.absolute(x) + 0.5, 1.7), lambda x: ops.clip(x, -0.4, 0.6), lambda x: ops.reciprocal(x * x + 1.0),
        lambda x: ops.expm1(x) + ops.log1p(ops.square(x)), lambda x: ops.max(x, axis=1) - ops.min(x, axis=1)]),
    ("resized", IMAGE, [
        kl.UpSampling2D((2, 3), interpolation="bilinear", name="up"), kl.Resizing(9, 7, name="larger"),
        kl.Resizing(3, 2, name="smaller"), kl.Resizing(4, 9, interpolation="bicubic", name="cubic"),
        kl.Resizing(4, 11, interpolation="nearest", name="nearest"), kl.Resizing(2, 3, antialias=True, name="averaged"),
        lambda x: ops.pad(x, [[0, 0], [3, 3], [2, 0], [0, 0]], mode="reflect"),
        lambda x: ops.pad(x, [[0, 0], [0, 2], [1, 3], [0, 1]], mode="symmetric")]),
    ("cut", IMAGE, [
        lambda x: ops.split(x, 2, axis=-1)[1] * ops.split(x, 2, axis=3)[0], lambda x: ops.split(x, [1, 4], axis=1)[1],
        lambda x: ops.swapaxes(x, 1, 3), lambda x: ops.flip(x, axis=2), lambda x: ops.pad(x, [[0, 0], [0, 2], [1, 0], [0, 0]]),
        lambda x: ops.fft2((x[..., 0], ops.zeros_like(x[..., 0])))[0], lambda x: ops.fft2((x, ops.zeros_like(x)))[1]]),
    ("tokens_encoded", (3,), [
        kl.CategoryEncoding(7, output_mode="multi_hot", name="multi"), kl.CategoryEncoding(8, output_mode="count", name="count"),
        lambda x: kl.CategoryEncoding(7, output_mode="one_hot", name="one")(x[:, 1:2]), lambda x: ops.one_hot(x, 9),
        lambda x: kl.Embedding(7, 2)(ops.squeeze(x[:, :1], 1))]),
    ("regularised", ROW, [
        lambda x: kl.Conv1D(2, 3, kernel_regularizer=keras.regularizers.L1L2(0.1, 0.2), name="conv")(
            kl.Dense(3, kernel_regularizer=keras.regularizers.L2(0.3), bias_regularizer="l1", name="dense")(x))]),
    ("inputs_without_axes", (6,), [
        lambda x: kl.Dense(3)(kl.Embedding(7, 4)(x[2])), lambda x: ops.expand_dims(x[0], -1) * x[1],
        lambda x: kl.Dense(2)(ops.stack([x[0], ops.sin(2.0 * x[0])], axis=1))]),
    ("recurrent", ROW, [
        kl.LSTM(5, name="lstm"), kl.LSTM(3, return_sequences=True, go_backwards=True, name="lstm_back"),
        kl.GRU(5, name="gru"), kl.GRU(19, return_sequences=True, use_bias=False, name="gru_wide"),
        kl.SimpleRNN(4, return_sequences=True, unroll=True, name="simple"), kl.LSTM(17, use_bias=False, activation="relu", name="lstm_relu"),
        kl.GRU(4, activation="linear", recurrent_activation="tanh", go_backwards=True, name="gru_linear"),
        lambda x: kl.LSTM(4, return_sequences=True, name="second")(x, initial_state=kl.LSTM(4, return_state=True, name="first")(x)[1:])]),
    ("recurrent_wrapped", ROW, [
        lambda x: kl.GRU(3, name="with_state")(x, initial_state=kl.GRU(3, return_sequences=True, return_state=True, name="state")(x)[1]),
        kl.Bidirectional(kl.LSTM(3, return_sequences=True), name="both"), kl.Bidirectional(kl.GRU(2), merge_mode="sum", name="both_sum"),
        kl.Bidirectional(kl.LSTM(2, return_sequences=True), merge_mode="mul", backward_layer=kl.LSTM(2, return_sequences=True, go_backwards=True, activation="relu", name="other"), name="both_own"),
        kl.TimeDistributed(kl.Dense(3, activation="relu"), name="each_dense"),
        lambda x: kl.TimeDistributed(kl.Conv1D(3, 2, activation="tanh"), name="each_conv")(ops.expand_dims(x, -1)),
        lambda x: kl.TimeDistributed(kl.Flatten(), name="each_flat")(ops.reshape(x, (-1, 2, 4, 4))),
        lambda x: kl.TimeDistributed(keras.Sequential([keras.Input((4,)), kl.Dense(2, activation="tanh"), kl.Dense(3)], name="inner"), name="each_model")(x)]),
    ("tokens_masked", (6,), [
        lambda x: kl.LSTM(3, name="lstm")(kl.Embedding(7, 4, mask_zero=True, name="for_lstm")(x)),
        lambda x: kl.Dense(2, name="behind")(kl.Flatten()(kl.GRU(3, return_sequences=True, name="gru")(kl.Embedding(7, 4, mask_zero=True, name="for_gru")(x)))),
        lambda x: kl.Bidirectional(kl.LSTM(2), name="both")(kl.Bidirectional(kl.LSTM(2, return_sequences=True), name="inner")(kl.Embedding(7, 4, mask_zero=True, name="for_both")(x))),
        lambda x: kl.GlobalAveragePooling1D(name="mean")(kl.Dense(3, name="each")(kl.Embedding(7, 4, mask_zero=True, name="for_mean")(x))),
        lambda x: kl.Flatten()(kl.MultiHeadAttention(2, 3, name="attention")(*[kl.Embedding(7, 4, mask_zero=True, name="for_attention")(x)] * 2)),
        lambda x: kl.LSTM(2, name="joined")(kl.Add(name="sum")([kl.Embedding(7, 4, mask_zero=True, name="left")(x), kl.Embedding(7, 4, mask_zero=True, name="right")(ops.flip(x, 1))])),
        lambda x: kl.SimpleRNN(3, unroll=True, name="simple")(kl.Embedding(7, 4, name="plain")(x), mask=ops.not_equal(x, 3)),
        lambda x: kl.Flatten()(kl.MultiHeadAttention(1, 3, dropout=0.0, name="masked")(*[kl.Embedding(7, 4, name="of_pairs")(x)] * 2, attention_mask=ops.expand_dims(ops.not_equal(x, 2), 1)))]),
    ("hub_blocks", ROW, [
        lambda x: hub().TransformerEncoder(6, 2, name="encoder")(x), lambda x: hub().TransformerEncoder(6, 1, activation="gelu", normalize_first=True, name="encoder_first")(x, padding_mask=mask_of(x)),
        lambda x: hub().TransformerDecoder(5, 2, name="decoder")(x, decoder_padding_mask=mask_of(x)),
        lambda x: hub().TransformerDecoder(5, 2, normalize_first=True, name="decoder_crossed")(x, x[:, 1:5] * 0.5), lambda x: hub().FNetEncoder(6, name="fnet")(x),
        lambda x: x + hub().PositionEmbedding(11, name="places")(x), lambda x: hub().RotaryEmbedding(name="turned")(ops.reshape(x, (-1, 4, 2, 4))),
        lambda x: twice_applied(hub().TransformerEncoder(4, 2, name="encoder_twice"), x)]),
    ("hub_decoders", WIDE[1:], [
        lambda x: decoder("llama.llama_decoder.LlamaTransformerDecoder", name="llama")(wide_of(x)), lambda x: decoder("mistral.mistral_transformer_decoder.MistralTransformerDecoder", sliding_window=2, name="mistral")(wide_of(x), decoder_padding_mask=mask_of(wide_of(x))),
        lambda x: decoder("qwen.qwen_decoder.QwenTransformerDecoder", name="qwen")(wide_of(x)), lambda x: decoder("phi3.phi3_decoder.Phi3Decoder", hidden_dim=8, name="phi")(wide_of(x)),
        lambda x: models("gpt_neo_x.gpt_neo_x_decoder.GPTNeoXDecoder")(6, 2, rotary_percentage=0.5, name="neox")(wide_of(x), decoder_padding_mask=mask_of(wide_of(x))),
        lambda x: models("llama.llama_layernorm.LlamaLayerNorm")(name="norm")(x)]),
    ("hub_images", (8, 8, 3), [
        lambda x: models("vit.vit_layers.ViTPatchingAndEmbedding")((8, 8), (4, 4), 6, name="patches")(x), lambda x: models("deit.deit_layers.DeiTEmbeddings")((8, 8), (4, 4), 6, name="deit_patches")(x),
        lambda x: models("vit.vit_layers.ViTEncoder")(2, 2, 6, 5, name="vit")(kl.Conv1D(6, 2, name="rows")(ops.reshape(x, (-1, 8, 24)))),
        lambda x: deit_encoder()(kl.Conv1D(6, 2, name="deit_rows")(ops.reshape(x, (-1, 8, 24))))[0]]),
    ("scored", ROW, [
        lambda x: kl.Attention(name="dot")([x, x[:, 2:7]]), lambda x: kl.Attention(name="causal")([x, x * x, ops.sin(x)], use_causal_mask=True),
        lambda x: kl.AdditiveAttention(name="additive")([x, x[:, 2:7] * 2.0]), lambda x: kl.AdditiveAttention(use_scale=False, name="plain")([x, x]),
        lambda x: ops.top_k(x, 1)[0] * x, lambda x: ops.cast(ops.one_hot(ops.top_k(x, 1)[1][..., 0], 4), "float32") * x]),
    ("tokens_scored", (6,), [
        lambda x: kl.Flatten()(kl.Attention(name="dot")([kl.Embedding(7, 4, mask_zero=True, name="of_dot")(x)] * 2)),
        lambda x: kl.GlobalAveragePooling1D(name="mean")(kl.AdditiveAttention(name="additive")([kl.Embedding(7, 4, mask_zero=True, name="query")(x), kl.Embedding(7, 4, mask_zero=True, name="value")(ops.flip(x, 1))]))]),
    ("chosen", ROW, [
        lambda x: kl.Dense(2, name="of_square")(ops.square(chosen(x, "squared"))), lambda x: kl.Dense(2, name="of_times")(chosen(x, "times") * chosen(x, "times_other")),
        lambda x: kl.Dense(2, name="bell")(ops.exp(-ops.square(chosen(x, "bell_of")))),
        lambda x: kl.LSTM(3, name="behind_masking")(kl.Masking(name="masking")(x * ops.cast(ops.greater(x[..., :1], 0.0), "float32")))]),
    ("tokens_joined", (6,), [
        lambda x: kl.GlobalAveragePooling1D(name="some")(kl.Add(name="sum")([kl.Embedding(7, 4, mask_zero=True, name="counted")(x), kl.Embedding(7, 4, name="all")(x)])),
        lambda x: kl.GlobalAveragePooling1D(name="either")(kl.Average(name="mean")([kl.Embedding(7, 4, mask_zero=True, name="one")(x), kl.Embedding(7, 4, mask_zero=True, name="two")(ops.flip(x, 1))])),
        lambda x: kl.GlobalAveragePooling1D(name="ended")(kl.EinsumDense("abc,cd->abd", (None, 5), name="equation")(kl.Embedding(7, 4, mask_zero=True, name="of_equation")(x))),
        lambda x: twice_embedded(kl.Embedding(7, 4, mask_zero=True, name="twice"), x),
        lambda x: kl.Flatten()(kl.MultiHeadAttention(2, 3, name="left")(*[kl.Embedding(7, 4, mask_zero=True, name="padded")(x)] * 2, use_causal_mask=True)),
        lambda x: kl.Flatten()(kl.Attention(name="seen")([kl.Embedding(7, 3, name="asks")(x), kl.GRU(3, return_sequences=True, return_state=True, name="encoder")(kl.Embedding(7, 4, mask_zero=True, name="encoded")(x))[0]]))]),
    ("tokens_of_hub", (6,), [
        lambda x: hub().TokenAndPositionEmbedding(7, 9, 4, name="both")(x), lambda x: kl.ReversibleEmbedding(7, 4, name="table")(x)]),
    ("reset_before", ROW, [
        kl.GRU(5, reset_after=False, name="gru"), kl.GRU(18, reset_after=False, use_bias=False, return_sequences=True, name="gru_wide"),
        kl.GRU(4, reset_after=False, activation="linear", recurrent_activation="tanh", go_backwards=True, return_sequences=True, name="gru_linear"),
        kl.Bidirectional(kl.GRU(2, reset_after=False, unroll=True), name="both"),
        lambda x: kl.GRU(3, reset_after=False, name="masked")(kl.Masking(name="masking")(x * ops.cast(ops.greater(x[..., :1], 0.0), "float32"))),
        lambda x: kl.GRU(3, reset_after=False, name="with_state")(x, initial_state=kl.GRU(3, reset_after=False, return_state=True, name="state")(x)[1])]),
    ("volumes", (3, 5, 4, 4), [
        kl.Conv3D(3, 3, padding="same", activation="tanh", name="same"), kl.Conv3D(5, (2, 3, 2), name="valid"),
        kl.Conv3D(4, (3, 2, 3), strides=(2, 1, 2), padding="same", groups=2, name="strides"), kl.Conv3D(2, (1, 2, 3), strides=2, use_bias=False, name="strides_valid"),
        kl.Conv3D(4, 2, dilation_rate=(2, 1, 2), groups=4, activation="gelu", name="dilated"), kl.Conv3D(2, (3, 3, 1), dilation_rate=(1, 2, 1), padding="same", name="dilated_same"),
        kl.Conv3D(3, (1, 1, 5), strides=(2, 2, 1), padding="same", activation="softmax", name="along_width"), kl.UpSampling3D((2, 1, 3), name="up")]),
    ("volumes_pooled", (5, 4, 7, 3), [
        kl.MaxPooling3D(name="largest"), kl.MaxPooling3D((2, 3, 3), strides=(1, 2, 2), padding="same", name="largest_same"),
        kl.AveragePooling3D((1, 2, 3), name="mean"), kl.AveragePooling3D(3, strides=2, padding="same", name="mean_same"),
        kl.GlobalMaxPooling3D(name="largest_of_all"), kl.GlobalAveragePooling3D(keepdims=True, name="mean_of_all"),
        kl.ZeroPadding3D(((1, 0), (0, 2), (1, 1)), name="padded"), kl.Cropping3D(((1, 1), (0, 2), (3, 0)), name="cropped")]),
    ("images_in_steps", (4, 5, 4, 2), [
        kl.ConvLSTM2D(3, 3, padding="same", return_sequences=True, name="sequence"), kl.ConvLSTM2D(2, (2, 3), strides=(1, 2), name="last"),
        kl.ConvLSTM2D(2, (3, 2), dilation_rate=(1, 2), use_bias=False, go_backwards=True, return_sequences=True, name="backwards"),
        kl.ConvLSTM2D(2, 2, padding="same", activation="relu", recurrent_activation="tanh", name="relu")]),
    ("written_attention", ROW, [
        written_attention(lambda s, x: s), written_attention(lambda s, x: s / 2.0),
        written_attention(lambda s, x: 0.5 * s + PLACES), written_attention(lambda s, x: s * 0.7 + left_out(x)),
        written_attention(lambda s, x: (s * 0.7 + PLACES) + left_out(x) * BEHIND_FIRST)]),
    ("tokens_reversed", (6,), [
        lambda x: there_and_back(kl.ReversibleEmbedding(7, 4, name="tied"), x), lambda x: there_and_back(kl.ReversibleEmbedding(7, 8, name="wide"), x), lambda x: there_and_back(kl.ReversibleEmbedding(7, 4, tie_weights=False, logit_soft_cap=0.7, name="untied"), x),
        lambda x: kl.ReversibleEmbedding(7, 4, tie_weights=False, name="there_alone")(x), lambda x: kl.ReversibleEmbedding(7, 5, logit_soft_cap=1.5, name="back_alone")(kl.Embedding(7, 5, name="rows")(x), reverse=True)]),
    ("kernels_turned", ROW, [
        lambda x: kl.EinsumDense("btd,ndh->btnh", (None, 3, 2), bias_axes="nh", name="heads")(x), lambda x: kl.EinsumDense("btd,hnd->btnh", (None, 3, 2), name="mixed")(x),
        lambda x: kl.EinsumDense("btnh,dhn->btd", (None, 5), name="joined")(ops.reshape(x, (-1, 8, 2, 2)))]),
    ("hub_gemma", WIDE[1:], [
        lambda x: gemma("gemma.gemma_decoder_block.GemmaDecoderBlock", name="gemma")(wide_of(x)),
        lambda x: gemma("gemma.gemma_decoder_block.GemmaDecoderBlock", use_post_ffw_norm=True, use_post_attention_norm=True, logit_soft_cap=0.4, use_sliding_window_attention=True, sliding_window_size=3, name="second")(wide_of(x), padding_mask=late_mask_of(wide_of(x))),
        lambda x: gemma("gemma3.gemma3_decoder_block.Gemma3DecoderBlock", use_query_key_norm=True, gate_dim_reduction=1, rope_wavelength=1e3, rope_scaling_factor=4.0, use_post_ffw_norm=True, use_sliding_window_attention=True, sliding_window_size=2, name="third")(wide_of(x), padding_mask=late_mask_of(wide_of(x))),
        lambda x: models("gemma.rms_normalization.RMSNormalization")(name="norm")(x), lambda x: models("gemma3.gemma3_layers.RMSNormalization")(name="norm_3")(x)]),
    ("hub_slopes", WIDE[1:], [
        lambda x: models("falcon.falcon_transformer_decoder.FalconTransformerDecoder")(4, 6, name="falcon")(wide_of(x)), lambda x: models("falcon.falcon_transformer_decoder.FalconTransformerDecoder")(2, 5, name="masked")(wide_of(x), decoder_padding_mask=late_mask_of(wide_of(x))),
        lambda x: models("bloom.bloom_decoder.BloomDecoder")(4, 6, name="bloom")(wide_of(x)), lambda x: models("bloom.bloom_decoder.BloomDecoder")(3, 5, name="odd")(kl.Dense(6, name="six")(wide_of(x)), decoder_padding_mask=late_mask_of(wide_of(x)))]),
    ("recurrent_in_steps", ROW, [
        kl.LSTM(3, activation="elu", recurrent_activation="hard_sigmoid", return_sequences=True, name="lstm"),
        kl.LSTM(2, activation="softsign", recurrent_activation="gelu", go_backwards=True, use_bias=False, name="lstm_back"),
        kl.GRU(3, recurrent_activation="hard_sigmoid", name="gru"),
        kl.GRU(2, activation="silu", recurrent_activation="hard_sigmoid", reset_after=False, return_sequences=True, name="gru_before"),
        kl.SimpleRNN(3, activation="softplus", return_sequences=True, go_backwards=True, name="simple"),
        lambda x: kl.GRU(3, activation="selu", name="masked")(kl.Masking(name="masking")(x * ops.cast(ops.greater(x[..., :1], 0.0), "float32"))),
        lambda x: kl.LSTM(2, recurrent_activation="hard_sigmoid", name="second")(x, initial_state=kl.LSTM(2, activation="mish", return_state=True, name="first")(x)[1:])]),
    ("bent", VECTOR, [
        lambda x: ops.gelu(2.0 * x), lambda x: ops.gelu(3.0 * x, approximate=False), lambda x: ops.selu(x), lambda x: ops.hard_sigmoid(4.0 * x),
        lambda x: ops.hard_silu(4.0 * x), lambda x: ops.hard_tanh(2.0 * x), lambda x: ops.tanh_shrink(2.0 * x)]),
    ("hub_relative", ROW, [
        lambda x: disentangled("disentangled")(x, rel_embeddings=relative(x, "rows"), padding_mask=mask_of(x)),
        lambda x: disentangled("masked", activation="gelu")(x, rel_embeddings=relative(x, "other_rows"), padding_mask=late_mask_of(x)),
        lambda x: t5_stacks(x)]),
    ("hub_encoders", ROW, [
        lambda x: models("whisper.whisper_encoder.WhisperEncoder")(6, 2, activation="gelu", normalize_first=True, name="whisper")(models("whisper.whisper_backbone.Padder")(name="padder")(x)),
        lambda x: models("whisper.whisper_decoder.WhisperDecoder")(5, 2, normalize_first=True, name="whisper_decoder")(x, x[:, 1:5] * 0.5, decoder_padding_mask=mask_of(x)),
        lambda x: hub().TransformerDecoder(5, 2, name="open")(x, use_causal_mask=False),
        lambda x: models("clip.clip_layers.CLIPEncoderLayer")(4, 2, 6, name="clip")(x),
        lambda x: models("siglip.siglip_layers.SigLIPEncoderLayer")(4, 2, 5, use_causal_mask=True, name="siglip")(x),
        lambda x: models("siglip.siglip_layers.SigLIPMultiHeadAttentionPooling")(4, 6, 2, "gelu_approximate", name="pooled")(x),
        lambda x: qwen3(x), lambda x: models("qwen3.qwen3_layernorm.Qwen3LayerNorm")(name="qwen3_norm")(x)]),
    ("hub_convolutions", (6, 6, 4), [
        lambda x: models("siglip.siglip_layers.SigLIPVisionEmbedding")(5, 3, 6, name="siglip_patches")(x),
        lambda x: models("mobilenet.mobilenet_backbone.DepthwiseConvBlock")(4, 3, stride=2, squeeze_excite_ratio=0.5, name="by_channel")(x),
        lambda x: models("mobilenet.mobilenet_backbone.InvertedResidualBlock")(8, 4, 4, 3, 1, None, "relu", 1, name="inverted")(x),
        lambda x: models("mobilenet.mobilenet_backbone.ConvBnActBlock")(5, "relu6", name="pointwise")(x),
        lambda x: models("efficientnet.fusedmbconv.FusedMBConvBlock")(4, 4, 2, se_ratio=0.25, dropout=0.0, name="fused_")(x),
        lambda x: models("efficientnet.mbconv.MBConvBlock")(4, 3, 2, strides=2, se_ratio=0.5, name="mbconv_")(x),
        lambda x: models("efficientnet.mbconv.MBConvBlock")(4, 4, name="narrow_", dropout=0.0)(x),
        lambda x: models("efficientnet.cba.CBABlock")(4, 4, dropout=0.0, name="cba_")(x)]),
    ("hub_convolutions_more", (6, 6, 4), [
        lambda x: models("mobilenet.mobilenet_backbone.InvertedResidualBlock")(8, 4, 5, 3, 2, 0.5, "hard_swish", 1, name="excited")(x),
        lambda x: models("efficientnet.fusedmbconv.FusedMBConvBlock")(4, 4, 1, projection_activation="swish", dropout=0.0, name="projected_")(x)]),
    ("tokens_of_siglip", (6,), [
        lambda x: models("siglip.siglip_layers.SigLIPTextEmbedding")(7, 6, 4, name="texts")(x)]),
    ("patches", IMAGE, [
        lambda x: ops.image.extract_patches(x, 2), lambda x: ops.image.extract_patches(x, (4, 3), padding="same"),
        lambda x: ops.image.extract_patches(x, (3, 5), strides=(3, 5)), lambda x: ops.image.extract_patches(x, (3, 2), strides=(1, 2), padding="same"),
        lambda x: ops.image.extract_patches(x, 2, strides=1, dilation_rate=2), lambda x: ops.image.extract_patches(x, (1, 3), strides=2),
        lambda x: ops.image.extract_patches(x, (2, 1), strides=3, padding="same")]),
    ("patches_of_volumes", (3, 5, 4, 2), [
        lambda x: ops.image.extract_patches(x, (1, 2, 2)), lambda x: ops.image.extract_patches(x, (2, 3, 4), padding="same"),
        lambda x: ops.image.extract_patches(x, (2, 3, 1), strides=(1, 2, 1), padding="same"), lambda x: ops.image.extract_patches_3d(x, 2, strides=1)]),
    ("volumes_transposed", (2, 3, 4, 3), [
        kl.Conv3DTranspose(3, 3, strides=2, padding="same", activation="relu", name="same"), kl.Conv3DTranspose(2, (2, 3, 4), strides=(1, 2, 3), name="valid"),
        kl.Conv3DTranspose(4, (1, 2, 2), strides=3, padding="same", use_bias=False, name="gaps"), kl.Conv3DTranspose(1, 2, strides=2, activation="sigmoid", name="one"),
        kl.Conv3DTranspose(1, (3, 2, 3), padding="same", name="one_wide"), kl.Conv3DTranspose(2, 2, dilation_rate=(2, 1, 2), name="dilated"),
        kl.Conv3DTranspose(3, (2, 1, 2), strides=(1, 3, 3), activation="softmax", name="valid_gaps")]),
    ("in_common", IMAGE, [
        lambda x: ops.var(x, axis=[1, 2]), lambda x: (x - ops.mean(x, axis=-1, keepdims=True)) / (ops.std(x, axis=-1, keepdims=True) + 1e-3),
        lambda x: ops.logsumexp(3.0 * x, axis=2, keepdims=True), 
        lambda x: ops.log_softmax(2.0 * x, axis=1), lambda x: ops.normalize(x, axis=-1) + ops.normalize(x, axis=2, order=1), lambda x: ops.rsqrt(x * x + 0.1)]),
    ("in_blocks", IMAGE, [
        lambda x: ops.depth_to_space(x, 2), lambda x: ops.space_to_depth(x[:, :, :4], 2), lambda x: ops.roll(x, shift=[-2, 4], axis=[1, 2]), lambda x: ops.roll(x, 7, axis=-1),
        lambda x: ops.repeat(x, 3, axis=2), lambda x: ops.tile(x, (1, 2, 1, 3)), lambda x: ops.tile(x, 2), lambda x: ops.moveaxis(x, [3, 1], [1, 2])]),
    ("bent_by_numbers", VECTOR, [lambda x: ops.leaky_relu(x), lambda x: ops.leaky_relu(x, 0.05), lambda x: ops.elu(x, alpha=0.7)]),
    ("resized_in_part", IMAGE, [
        lambda x: ops.image.resize(x, (9, 3)), lambda x: ops.image.resize(x, (4, 8), interpolation="nearest"), lambda x: ops.image.resize(x, (3, 2), interpolation="bicubic", antialias=True),
        lambda x: ops.image.resize(x, (4, 2), crop_to_aspect_ratio=True), kl.Resizing(5, 9, crop_to_aspect_ratio=True, name="wide"),
        kl.CenterCrop(3, 4, name="middle"), kl.CenterCrop(8, 3, name="larger")]),
    ("of_other_axes", IMAGE, [
        kl.BatchNormalization(axis=1, name="rows"), kl.BatchNormalization(axis=-2, epsilon=1e-2, scale=False, name="columns"),
        lambda x: ops.einsum("bhwc->bwch", x), lambda x: ops.einsum("nhwc->nch", x), lambda x: ops.einsum("abcd->adcb", x)]),
    ("counted_whole", ROW, [
        lambda x: x + kl.Embedding(8, 4, name="places")(ops.cast(ops.cumsum(ops.ones_like(x[:, :, 0]), axis=1) - 1, "int32")),
        lambda x: x * ops.cast(2 * ops.cast(x > 0.1, "int32") + 1, "float32"), lambda x: x[:, 0] / ops.cast(ops.sum(ops.cast(x[:, :, :1] > -5.0, "int64"), axis=1), "float32")]),
    ("activations_as_layers", VECTOR, [
        kl.Dense(3, activation=kl.LeakyReLU(0.2), name="leaky"), kl.Dense(3, activation=kl.ReLU(), name="relu"), kl.Dense(3, activation=kl.ReLU(max_value=6), name="relu6"),
        kl.Dense(3, activation=kl.ELU(), name="elu"), kl.Dense(3, activation=kl.Softmax(), name="softmax"), kl.Dense(3, activation=kl.Activation("tanh"), name="tanh")]),
    ("rows_in_steps", IMAGE, [
        kl.ConvLSTM1D(3, 3, padding="same", return_sequences=True, name="sequence"), kl.ConvLSTM1D(2, 2, strides=2, activation="relu", name="last"),
        kl.ConvLSTM1D(2, 2, dilation_rate=2, use_bias=False, go_backwards=True, return_sequences=True, name="backwards")]),
    ("spread", ROW, [
        lambda x: ops.var(x, axis=1), lambda x: ops.var(x, axis=[1, 2], keepdims=True) * x, lambda x: ops.std(x, axis=-1), lambda x: ops.std(x, axis=1, keepdims=True) * x,
        lambda x: ops.normalize(x, axis=-1), lambda x: ops.log_softmax(x, axis=-1) * ops.log_softmax(x, axis=1), lambda x: ops.logsumexp(x, axis=1) + ops.logsumexp(x, axis=1, keepdims=True)[:, 0],
        lambda x: ops.elu(x, 0.7) + ops.leaky_relu(x, 0.1) * ops.erf(x) + ops.rsqrt(1.0 + x * x) * kl.Identity(name="same")(ops.concatenate([ops.glu(x), x[:, :, 1:3]], axis=-1))]),
    ("placed", ROW, [
        lambda x: ops.take(x, [0, 3, 5, 6, 7, 2], axis=1), lambda x: ops.take(x, np.array([3, 2, 1, 0, -1, -1]), axis=-1), lambda x: ops.take(x, 2, axis=1),
        lambda x: ops.tile(x, [1, 2, 3]) * 0.5, lambda x: ops.repeat(x, 3, axis=1) - ops.tile(x, (1, 3, 1)) + ops.repeat(ops.repeat(x, 3, axis=1), 2, axis=-1)[:, :, 3:7],
        lambda x: ops.where(x > 0.1, x * x, -2.5) + ops.where(x < -0.2, 0.0, ops.exp(x)), lambda x: ops.where(x[:, :, :1] > 0.1, 0.25, x) * ops.where(np.arange(4) % 2 == 0, x, 3.0),
        lambda x: ops.where(x[:, 0:1] > 0.0, np.arange(32, dtype="float32").reshape(8, 4) / 9, x) * twice(shifted())(x)]),
    ("largest", ROW, [
        lambda x: ops.top_k(x, 3)[0], lambda x: ops.top_k(ops.transpose(x, (0, 2, 1)), 5)[0], lambda x: routed(x),
        lambda x: ops.take_along_axis(x, ops.expand_dims(ops.top_k(x[:, :, 1], 3)[1], -1), axis=1),
        lambda x: ops.matmul(x, np.cos(np.arange(12)).astype("float32").reshape(4, 3)), lambda x: ops.matmul(np.sin(np.arange(40)).astype("float32").reshape(5, 8), x),
        lambda x: ops.matmul(ops.reshape(x, (-1, 2, 4, 4)), np.sin(np.arange(16)).astype("float32").reshape(4, 4))]),
    ("cells", ROW, [
        kl.RNN(kl.LSTMCell(3, name="one"), name="lstm"), kl.RNN([kl.GRUCell(3, name="first"), kl.LSTMCell(2, name="second")], return_sequences=True, name="stacked"),
        kl.RNN([kl.GRUCell(3, reset_after=False, name="back"), kl.GRUCell(2, name="ahead")], go_backwards=True, return_sequences=True, name="turned"),
        kl.RNN(kl.SimpleRNNCell(4, activation="relu", name="simple_cell"), unroll=True, name="simple"),
        lambda x: kl.RNN([kl.LSTMCell(2, name="masked_first"), kl.LSTMCell(2, name="masked_second")], name="masked")(kl.Masking(name="masking")(x * ops.cast(ops.greater(x[..., :1], 0.0), "float32")))]),
    ("written_functions", ROW, [
        lambda x: keras.activations.relu(x) * keras.activations.relu(x, negative_slope=0.1, max_value=0.7, threshold=0.1) + ops.hard_shrink(x) * ops.soft_shrink(x), lambda x: ops.celu(x) + ops.squareplus(x),
        lambda x: ops.log2(1.5 + x * x) * ops.log10(1.5 + ops.absolute(x)), lambda x: ops.average(x, axis=1) * ops.full_like(x[:, 0], 1.5), lambda x: ops.max_pool(x, 3, strides=2, padding="same"),
        lambda x: ops.average_pool(ops.reshape(x, (-1, 4, 4, 2)), 3, strides=1), lambda x: ops.roll(x, 3, axis=1) * ops.roll(x, -1, axis=-1) + ops.roll(x, 8, axis=1), lambda x: ops.moveaxis(ops.reshape(x, (-1, 4, 4, 2)), -1, 1) * 0.5]),
    ("written_places", ROW, [
        lambda x: ops.cast(ops.one_hot(ops.argmax(x, axis=-1), 4), "float32") * x, lambda x: x * ops.cast(ops.cast(ops.cast(x > 0.1, "int32"), "int64"), "float32"),
        lambda x: x[:, :, 0] * ops.cast(ops.cast(ops.argmax(ops.sin(x), axis=2, keepdims=True) + 1, "int64")[:, :, 0], "float32")]),
    ("both_ways", ROW, [
        lambda x: kl.Concatenate()(kl.Bidirectional(kl.LSTM(2, return_state=True), name="states")(x)), lambda x: (lambda r: r[0] * ops.expand_dims(kl.Concatenate()(r[1:]), 1))(kl.Bidirectional(kl.GRU(2, return_sequences=True, return_state=True), name="sequence")(x)),
        lambda x: (lambda r: r[0] * ops.sin(r[1]))(kl.Bidirectional(kl.LSTM(2, return_sequences=True), merge_mode=None, name="apart")(x)), lambda x: ops.multiply(*kl.Bidirectional(kl.GRU(3), merge_mode=None, name="ends")(x))]),
    ("hub_waves", ROW, [
        lambda x: x + hub().SinePositionEncoding(name="waves")(x), lambda x: x * hub().SinePositionEncoding(max_wavelength=50, name="short")(x)]),
    ("largest_of_lows", ROW, [
        lambda x: lows(x, 4)[1] * ops.sum(x, axis=-1, keepdims=True)[:, :, 0:1], lambda x: ops.exp(lows(x, 4)[0]), lambda x: lows(ops.transpose(x, (0, 2, 1)), 7)[1] + x[:, :4, :1],
        lambda x: ops.take_along_axis(x, ops.expand_dims(ops.top_k(ops.where(x[:, :, 1] > 0.3, x[:, :, 1], -3.4028234663852886e38), 6)[1], -1), axis=1)]),
    ("classes_of_places", ROW, [  # some below 0, and some above the last class
        lambda x: ops.one_hot(ops.top_k(x, 1)[1][..., 0] * 2 - 1, 4) * x, lambda x: ops.one_hot(ops.top_k(x[:, :, 1], 3)[1] - 2, 5) * ops.exp(x[:, 2:5, :1])]),
    # Attention removes masks from its inputs, in the order in which Keras runs layers.
    ("tokens_behind_attention", (6,), [
        lambda x: kl.GlobalAveragePooling1D(name="mean")(attended(attended(padded(x, "two"), "first"), "second")),
        lambda x: kl.Flatten()(attended(kl.Dense(3, name="wide")(padded(x, "apart")), "third", kept=True)),
        lambda x: (lambda e: kl.LSTM(2, name="behind")(ops.tanh(kl.MultiHeadAttention(1, 2, name="fourth")(e, e)) + e, mask=None))(padded(x, "late")),
        lambda x: (lambda e: kl.Add()([kl.GRU(4, name="deep")(kl.Activation("tanh", name="bent")(kl.Dense(4, name="front")(e))), kl.Flatten()(kl.MultiHeadAttention(1, 2, name="fifth")(e, e))[:, :4]]))(padded(x, "early"))]),
    ("adaptive_rows", ROW, [
        kl.AdaptiveAveragePooling1D(3, name="mean_3"), kl.AdaptiveAveragePooling1D(4, name="mean_4"),
        kl.AdaptiveAveragePooling1D(11, name="mean_11"), kl.AdaptiveMaxPooling1D(3, name="largest_3"),
        kl.AdaptiveMaxPooling1D(6, name="largest_6"), kl.AdaptiveMaxPooling1D(12, name="largest_12"),
        kl.AdaptiveMaxPooling1D(8, name="all"), kl.AdaptiveAveragePooling1D(1, name="mean_of_all")]),
    ("adaptive_images", IMAGE, [
        kl.AdaptiveAveragePooling2D(3, name="mean_3"), kl.AdaptiveAveragePooling2D((4, 7), name="mean_4_7"),
        kl.AdaptiveMaxPooling2D((4, 2), name="largest_4_2"), kl.AdaptiveMaxPooling2D((6, 3), name="largest_6_3"),
        kl.AdaptiveMaxPooling2D((9, 1), name="largest_9_1")]),
    ("adaptive_volumes", (3, 4, 5, 2), [
        kl.AdaptiveAveragePooling3D(2, name="mean_2"), kl.AdaptiveAveragePooling3D((1, 3, 5), name="mean_1_3_5"),
        kl.AdaptiveMaxPooling3D((2, 4, 3), name="largest_2_4_3")]),
    ("grouped_attention", ROW, [
        lambda x: kl.GroupQueryAttention(3, 4, 2, name="self")(x, x),
        lambda x: kl.GroupQueryAttention(3, 4, 1, use_bias=False, name="causal")(x, x, use_causal_mask=True),
        lambda x: kl.GroupQueryAttention(2, 2, 2, use_gate=True, name="gated")(x, x[:, 1:6], x[:, 2:7] * 0.5),
        lambda x: kl.GroupQueryAttention(3, 2, 1, sliding_window=3, name="window")(x, x),
        lambda x: kl.GroupQueryAttention(3, 2, 1, sliding_window=2, use_gate=True, use_bias=False, name="causal_window")(x, x, use_causal_mask=True),
        lambda x: kl.GroupQueryAttention(2, 4, 2, name="masked")(x, x, attention_mask=ops.expand_dims(mask_of(x), 1)),
        lambda x: ops.sin(kl.GroupQueryAttention(2, 4, 2, name="of_steps")(*2 * [kl.Masking(name="masking")(x * ops.cast(x[:, :, :1] > -0.2, "float32"))]))]),
    ("gated_attention", ROW, [
        lambda x: kl.MultiHeadAttention(2, 3, use_gate=True, name="gated")(x, x[:, 2:]),
        lambda x: kl.MultiHeadAttention(2, 3, output_shape=5, use_gate=True, use_bias=False, name="gated_plain")(x, x),
        lambda x: kl.MultiHeadAttention(2, 2, sliding_window=3, name="window")(x, x),
        lambda x: kl.MultiHeadAttention(2, 2, sliding_window=2, use_gate=True, name="causal_window")(x, x, use_causal_mask=True)]),
    ("output_padding_of_images", IMAGE, [
        kl.Conv2DTranspose(3, 3, strides=2, padding="same", output_padding=1, name="same"),
        kl.Conv2DTranspose(3, 3, strides=2, padding="same", output_padding=0, name="same_none"),
        kl.Conv2DTranspose(3, (4, 2), strides=(3, 2), padding="same", output_padding=(1, 0), name="same_even"),
        kl.Conv2DTranspose(3, 3, strides=(2, 3), output_padding=(1, 2), name="valid"),
        kl.Conv2DTranspose(2, (1, 2), strides=3, padding="same", output_padding=(2, 1), name="gaps"),
        kl.Conv2DTranspose(2, 3, padding="same", output_padding=0, dilation_rate=2, name="apart"),
        kl.Conv2DTranspose(2, (2, 1), strides=(2, 4), output_padding=0, name="valid_gaps")]),
    ("output_padding_of_rows", ROW, [
        kl.Conv1DTranspose(3, 3, strides=2, padding="same", output_padding=1, name="same"),
        kl.Conv1DTranspose(3, 4, strides=3, padding="same", output_padding=2, name="same_even"),
        kl.Conv1DTranspose(3, 3, strides=3, output_padding=1, name="valid")]),
    ("output_padding_of_volumes", (2, 3, 3, 2), [
        kl.Conv3DTranspose(2, 3, strides=2, padding="same", output_padding=1, name="same"),
        kl.Conv3DTranspose(2, (2, 3, 2), strides=(3, 2, 2), padding="same", output_padding=(2, 0, 1), name="same_uneven"),
        kl.Conv3DTranspose(2, 2, strides=(2, 3, 2), output_padding=(0, 2, 1), name="valid")]),
    ("discretized", ROW, [
        kl.Discretization([-0.5, 0.1, 0.1, 0.7], name="numbers"), lambda x: kl.Embedding(3, 2, name="rows")(kl.Discretization([-0.1, 0.4], name="bins")(x)),
        kl.Discretization([-0.2, 0.3], output_mode="one_hot", name="one_hot"), lambda x: kl.Discretization([0.0], output_mode="one_hot", name="of_one")(x[:, :, :1]),
        kl.Discretization([-0.4, 0.0, 0.2], output_mode="multi_hot", name="multi_hot"), lambda x: kl.Discretization([-0.4, 0.0, 0.2], output_mode="multi_hot", name="multi_hot_of_row")(x[:, :, 1]),
        lambda x: kl.Discretization([-0.4, 0.2], output_mode="count", name="counts")(x[:, :, 1]), lambda x: x * ops.cast(kl.Discretization([-0.4, 0.2], name="factors")(x), "float32")]),
    ("spectrograms", ROW, [
        kl.STFTSpectrogram(frame_length=4, name="log"), kl.STFTSpectrogram("magnitude", 5, 2, 9, padding="same", name="magnitude"),
        kl.STFTSpectrogram("psd", 6, 1, expand_dims=True, name="psd"), kl.STFTSpectrogram("real", 3, 3, 4, name="real"),
        lambda x: kl.STFTSpectrogram("imag", 4, 2, expand_dims=True, name="imag")(x[:, :, :1]), kl.STFTSpectrogram("stft", 4, 3, window="hamming", scaling="spectrum", name="both"),
        lambda x: kl.STFTSpectrogram("stft", 3, 1, expand_dims=True, name="both_apart")(x[:, :, 1:3])]),
    ("mel_spectrograms", (40,), [
        kl.MelSpectrogram(16, 5, 12, num_mel_bins=4, power_to_db=False, name="powers"),
        kl.MelSpectrogram(16, 4, num_mel_bins=3, window="hamming", sampling_rate=8000, min_freq=100.0, max_freq=3500, mag_exp=1.0, power_to_db=False, name="magnitudes"),
        kl.MelSpectrogram(20, 8, 9, num_mel_bins=3, mag_exp=1.5, power_to_db=False, name="between"),
        kl.MelSpectrogram(15, 7, 15, num_mel_bins=3, top_db=500.0, ref_power=0.5, min_power=1e-3, name="decibels")]),
    ("narrow_volumes", (2, 1, 1, 2), [  # with windows larger than the volume
        kl.Conv3D(2, 3, padding="same", name="same"), kl.Conv3D(2, (1, 2, 3), padding="same", name="uneven"), kl.Conv3DTranspose(2, 3, padding="same", name="transposed")]),
    ("steps_of_volumes", (2, 2, 3, 4, 2), [
        kl.ConvLSTM3D(2, 2, padding="same", return_sequences=True, name="sequence"), kl.ConvLSTM3D(1, (1, 2, 3), strides=(1, 1, 2), use_bias=False, go_backwards=True, name="strides")]),
    ("tokens_behind_models", (6,), [  # an inner model works on the tensors that it is applied to, and on their masks
        lambda x: beside(e := padded(x, "ended"), attending("ends")(e), "read_behind"),
        lambda x: beside(e := padded(x, "deep"), keras.Sequential([keras.Input((6, 4)), attending("deeper")], name="deepest")(e), "read_behind_two"),
        lambda x: (lambda y, a: kl.Add(name="both")([attended(y, "late"), kl.Dense(4, name="longer")(kl.Dense(4, name="long")(a))]))(*keras.Model(i := keras.Input((6, 4), name="given"), [d := kl.Dense(4, name="first")(i), kl.MultiHeadAttention(1, 2, name="within")(d, d)], name="two_outputs")(padded(x, "two"))),
        lambda x: ops.sin(beside(e := padded(x, "kept"), keras.Model(i := keras.Input((6, 4), name="kept_as_is"), kl.GRU(4, return_sequences=True, name="steps")(i), name="keeps")(e), "read_with_mask")),
        lambda x: beside(e := padded(x, "same"), kl.MultiHeadAttention(1, 2, name="of_same")(i := kl.Identity(name="itself")(e), i), "read_by_identity"),
        lambda x: beside(e := padded(x, "line"), kl.MultiHeadAttention(1, 2, name="of_line")(i := kl.Activation("linear", name="straight")(e), i), "read_by_line"),
        lambda x: beside(e := padded(x, "numbers"), kl.MultiHeadAttention(1, 2, name="of_cast")(i := ops.cast(e, "float32"), i), "read_by_cast"),
        lambda x: beside(e := padded(x, "nothing"), kl.MultiHeadAttention(1, 2, name="of_nothing")(i := kl.Dropout(0.0, name="no_rate")(e), i), "read_by_nothing")]),
    ("tokens_by_sentences", (3, 5), [
        lambda x: kl.TimeDistributed(keras.Model(i := keras.Input((5,), dtype="int32", name="sentence"), kl.Flatten(name="flat")(beside(e := padded(i, "words"), kl.MultiHeadAttention(1, 2, name="attention")(e, e), "within")), name="of_one"), name="each")(x)]),
    ("tokens_in_hub_blocks", (6,), [  # decoders read their inputs' masks as masks of pairs, and do not remove them
        lambda x: beside(e := padded(x, "of_encoder"), hub().TransformerEncoder(6, 2, name="encoder")(e), "behind_encoder"),
        lambda x: kl.Add(name="sum")([hub().TransformerEncoder(6, 2, name="one_way")(e := padded(x, "shared")), hub().TransformerEncoder(6, 2, name="other_way")(e)]),
        lambda x: ops.sin(hub().TransformerDecoder(6, 2, name="decoder")(padded(x, "of_decoder"))),
        lambda x: ops.sin(hub().TransformerDecoder(6, 2, normalize_first=True, name="crossed")(padded(x, "asks"), padded(ops.flip(x, 1), "answers"), use_causal_mask=False)),
        lambda x: ops.sin(hub().TransformerDecoder(6, 2, name="told")(padded(x, "told_asks"), padded(ops.flip(x, 1), "told_answers"), decoder_padding_mask=ops.not_equal(x, 3), encoder_padding_mask=ops.not_equal(x, 4))),
        lambda x: ops.sin(models("whisper.whisper_encoder.WhisperEncoder")(num_heads=2, intermediate_dim=6, name="whisper")(padded(x, "heard"))),
        lambda x: ops.sin(models("clip.clip_layers.CLIPEncoderLayer")(4, 2, 6, name="clip")(padded(x, "seen"))),
        lambda x: beside(e := padded(x, "pooled"), kl.RepeatVector(6, name="again")(models("siglip.siglip_layers.SigLIPMultiHeadAttentionPooling")(4, 6, 2, "gelu", name="pool")(e)), "behind_pool")]),
    ("channels_first", IMAGE, [  # six channels of five by four
        kl.Conv2D(4, 3, groups=2, padding="same", activation="silu", data_format=FIRST, name="groups"),
        kl.Conv2D(3, (3, 2), strides=(2, 1), use_bias=False, data_format=FIRST, name="strides"),
        kl.DepthwiseConv2D(3, padding="same", depth_multiplier=2, data_format=FIRST, name="depthwise"),
        kl.SeparableConv2D(3, 2, activation="tanh", data_format=FIRST, name="separable"),
        kl.Conv2DTranspose(2, 3, strides=2, padding="same", data_format=FIRST, name="transposed"),
        kl.MaxPooling2D((2, 3), data_format=FIRST, name="largest"), kl.AveragePooling2D(3, strides=2, padding="same", data_format=FIRST, name="mean"),
        kl.GlobalMaxPooling2D(data_format=FIRST, name="largest_of_all"), kl.GlobalAveragePooling2D(keepdims=True, data_format=FIRST, name="mean_kept"),
        kl.ZeroPadding2D(((0, 1), (2, 1)), data_format=FIRST, name="padded"), kl.Cropping2D(((1, 0), (2, 1)), data_format=FIRST, name="cropped"),
        kl.UpSampling2D((3, 2), data_format=FIRST, name="up"), kl.Flatten(data_format=FIRST, name="flat"),
        lambda x: twice(kl.Conv2D(2, 3, trainable=False, data_format=FIRST, name="frozen"))(x), kl.TimeDistributed(kl.Conv1D(2, 3, data_format=FIRST), name="each"),
        kl.AdaptiveAveragePooling2D((2, 3), data_format=FIRST, name="windows")]),
    ("channels_first_of_rows", ROW, [
        kl.Conv1D(3, 3, padding="same", dilation_rate=2, data_format=FIRST, name="conv"), kl.SeparableConv1D(3, 2, data_format=FIRST, name="separable"),
        kl.GlobalAveragePooling1D(data_format=FIRST, name="mean"), keras.Sequential([kl.Conv1D(3, 2, data_format=FIRST), kl.BatchNormalization(axis=1), kl.ReLU()], name="inner")]),
    ("other_axes", IMAGE, [
        kl.LayerNormalization(axis=[1, 3], name="layer"), kl.LayerNormalization(axis=1, center=False, name="layer_of_one"), kl.LayerNormalization(axis=[1, 2, 3], name="layer_of_all"),
        kl.GroupNormalization(3, axis=1, name="group"), kl.UnitNormalization(axis=[1, 2], name="unit"), kl.Softmax(axis=[1, 3], name="softmax"),
        lambda x: ops.softmax(x, axis=(1, 2))]),
    ("norms_and_moments", ROW, [
        lambda x: ops.amax(x, axis=-1, keepdims=True) * ops.amin(x, axis=1, keepdims=True), lambda x: x / ops.norm(x, axis=-1, keepdims=True), lambda x: ops.norm(x, ord=1, axis=-1),
        lambda x: ops.norm(x, axis=(1, 2)) + ops.norm(x[:, 0], ord=2, axis=1), lambda x: ops.subtract(*ops.moments(x, axes=[1])), lambda x: ops.multiply(*ops.moments(x, axes=-1, keepdims=True)) * x,
        lambda x: ops.rms_normalization(x), lambda x: ops.rms_normalization(x, axis=1, epsilon=1e-2)]),
    ("thresholds", ROW, [
        lambda x: ops.threshold(x, 0.1, 0.2), lambda x: ops.hard_shrink(x, 0.2), lambda x: ops.soft_shrink(x, 0.2), lambda x: ops.celu(x, 0.4),
        lambda x: ops.squareplus(x, 1.5), lambda x: ops.sparse_plus(2.0 * x), lambda x: ops.sparse_sigmoid(2.0 * x), lambda x: ops.diff(x, axis=1)]),
    ("parts_and_joins", ROW, [
        lambda x: ops.multiply(*ops.unstack(ops.reshape(x, (-1, 8, 2, 2)), axis=2)), lambda x: ops.unstack(x, num=8, axis=1)[5], lambda x: ops.hstack([x, 2.0 * x, x[:, 2:5]]),
        lambda x: ops.append(x, x * x, axis=-1), lambda x: ops.tril(x), lambda x: ops.triu(x, k=2), lambda x: ops.tril(ops.matmul(x, ops.transpose(x, (0, 2, 1))), k=-2)]),
    ("grey", (3, 4, 3), [lambda x: ops.image.rgb_to_grayscale(x)]),
    ("filled", ROW, [
        lambda x: ops.pad(x, [[0, 0], [1, 2], [0, 1]], constant_values=1.5), lambda x: ops.pad(x, [[0, 0], [2, 0], [0, 0]], mode="constant", constant_values=-1e9) * 1e-9]),
    ("channels_first_softmax", IMAGE, [  # Keras's softmax works along the last axis, the width
        kl.Conv2D(3, 2, activation="softmax", data_format=FIRST, name="conv"), kl.SeparableConv2D(3, 2, activation=kl.Softmax(), data_format=FIRST, name="separable"),
        kl.Conv2DTranspose(2, 2, activation=kl.Activation("softmax"), data_format=FIRST, name="transposed"), kl.DepthwiseConv2D(2, activation="softmax", data_format=FIRST, name="depthwise"),
        kl.Conv2D(4, 3, activation=kl.ELU(), data_format=FIRST, name="elu"), kl.TimeDistributed(kl.Conv1D(2, 3, activation="softmax", data_format=FIRST), name="each")]),
    ("axes_in_any_order", IMAGE, [
        kl.UnitNormalization(axis=[3, 1], name="unit"), kl.UnitNormalization(axis=[-1, -2], name="unit_of_last"), kl.Softmax(axis=[3, 1], name="softmax"),
        lambda x: ops.softmax(x, axis=(2, 1))]),
    ("grey_first", (3, 4, 3), [lambda x: ops.image.rgb_to_grayscale(x, data_format=FIRST)]),
    ("grey_already", (4, 3, 1), [lambda x: ops.image.rgb_to_grayscale(x), lambda x: ops.image.rgb_to_grayscale(ops.reshape(x, (-1, 1, 4, 3)), data_format=FIRST)]),
    ("norms_and_joins", ROW, [
        lambda x: ops.norm(x, ord="fro", axis=(1, 2)), lambda x: ops.norm(x, ord="fro", axis=(2, 1), keepdims=True) * x, lambda x: ops.diff(x, n=3, axis=1),
        lambda x: ops.hstack([x[:, i % 3 : i % 5 + 3] * (i + 1.0) for i in range(12)])]),
    ("parts_of_a_shared_model", ROW, [twice(parted())]),
]  # fmt: skip


def padded(x: keras.KerasTensor, name: str) -> keras.KerasTensor:
    return kl.Embedding(7, 4, mask_zero=True, name=name)(x)


def attending(name: str) -> keras.Model:
    """A tensor's attention to itself."""
    x = keras.Input((6, 4), name=f"{name}_given")
    return keras.Model(x, kl.MultiHeadAttention(1, 2, name=f"{name}_attention")(x, x), name=name)


def beside(x: keras.KerasTensor, y: keras.KerasTensor, name: str) -> keras.KerasTensor:
    """A product in which the steps that x's mask skips count as 1. It runs after the layers that make y."""
    return kl.Multiply(name=name)([x, kl.Dense(4, name=f"{name}_dense")(y)])


def attended(x: keras.KerasTensor, name: str, *, kept: bool = False) -> keras.KerasTensor:
    y = kl.MultiHeadAttention(1, 3, name=name)(x, x)
    return y if kept else kl.LayerNormalization(name=f"{name}_norm")(kl.Add(name=f"{name}_sum")([x, y]))


def lows(x: keras.KerasTensor, k: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """The k largest of numbers, many of which are the lowest float, and their positions."""
    values, places = ops.top_k(ops.where(x > 0.3, x, -3.4028234663852886e38), k)
    return values, ops.cast(places, "float32")


def shifted() -> keras.Model:
    """A model with constants in it."""
    x = keras.Input((8, 4))
    return keras.Model(x, 0.5 - ops.maximum(x, 0.2) * np.arange(4, dtype="float32"))


def routed(x: keras.KerasTensor) -> keras.KerasTensor:
    """A mixture of the two experts, of four, that a gate prefers."""
    values, places = ops.top_k(kl.Dense(4, name="gate")(x), 2)
    shares = ops.sum(ops.expand_dims(ops.softmax(values, axis=-1), -1) * ops.one_hot(places, 4), axis=2)
    experts = ops.stack([kl.Dense(3, activation="tanh", name=f"expert_{i}")(x) for i in range(4)], axis=2)
    return ops.sum(ops.expand_dims(shares, -1) * experts, axis=2)


def disentangled(name: str, **options) -> kl.Layer:
    return models("deberta_v3.disentangled_attention_encoder.DisentangledAttentionEncoder")(6, 2, max_position_embeddings=9, bucket_size=4, name=name, **options)


def relative(x: keras.KerasTensor, name: str) -> keras.KerasTensor:
    return models("deberta_v3.relative_embedding.RelativeEmbedding")(4, 4, name=name)(x)


def t5(name: str, first: bool, decoder: bool = False, gated: bool = False) -> kl.Layer:
    return models("t5.t5_transformer_layer.T5TransformerLayer")(
        is_decoder=decoder, hidden_dim=4, intermediate_dim=6, key_value_dim=3, dropout=0.0, activation="gelu" if gated else "relu", layer_norm_epsilon=1e-6,
        num_heads=2, use_gated_activation=gated, use_relative_attention_bias=first, name=name)  # fmt: skip


def t5_stacks(x: keras.KerasTensor) -> keras.KerasTensor:
    """Two encoder and two decoder layers. The second of each uses the first one's biases."""
    mask = ops.expand_dims(late_mask_of(x), 1)
    y, bias = t5("encoder_0", True)(x, attention_mask=mask, use_causal_mask=False)
    y, _ = t5("encoder_1", False, gated=True)(y, attention_mask=mask, position_bias=bias, use_causal_mask=False)
    z, bias = t5("decoder_0", True, True, True)(x * x, encoder_hidden_states=y, encoder_attention_mask=mask, attention_mask=ops.expand_dims(mask_of(x), 1), use_causal_mask=True)
    z, _ = t5("decoder_1", False, True)(z, position_bias=bias, encoder_hidden_states=y, encoder_attention_mask=mask, use_causal_mask=True)
    return models("t5.t5_layer_norm.T5LayerNorm")(name="t5_norm")(z)


def qwen3(x: keras.KerasTensor) -> keras.KerasTensor:
    made = models("qwen3.qwen3_decoder.Qwen3TransformerDecoder")(6, 2, 1, 4, rope_scaling_factor=2.0, name="qwen3")
    told = made.get_config
    made.get_config = lambda: {**told(), "head_dim": 4}  # the layer's configuration lacks it
    return made(x, decoder_padding_mask=late_mask_of(x))


def chosen(x, name):
    first, second = kl.Dense(3, name=name + "_first")(x), kl.Dense(3, name=name + "_second")(x)
    return ops.where(ops.greater(first, 0.0), first, second)


def twice_embedded(table, x):
    mean = kl.GlobalAveragePooling1D(name="of_each")
    return mean(table(x)) - mean(table(ops.flip(x, 1))) * 0.5


def hub():
    import keras_hub  # only these groups need it

    return keras_hub.layers


def models(path: str) -> type:
    """Returns a class of keras_hub's models: "llama.llama_decoder.LlamaTransformerDecoder"."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"keras_hub.src.models.{module}"), name)


def decoder(path: str, **options) -> keras.layers.Layer:
    made = models(path)(intermediate_dim=6, num_query_heads=4, num_key_value_heads=2, **options)
    made.rope_scaling_factor = 1.0  # Llama's configuration needs this attribute, which the layer lacks
    return made


def deit_encoder() -> keras.layers.Layer:
    made = models("deit.deit_layers.DeiTEncoder")(1, 2, 6, 5, name="deit")
    made.key_dim = 3  # the configuration needs this attribute, which the layer lacks
    return made


def gemma(path: str, **options) -> keras.layers.Layer:
    return models(path)(hidden_dim=8, intermediate_dim=6, head_dim=4, num_query_heads=4, num_key_value_heads=2, **options)


def there_and_back(table: kl.Layer, x: keras.KerasTensor) -> keras.KerasTensor:
    return table(table(x) * 0.5, reverse=True)


def wide_of(x: keras.KerasTensor) -> keras.KerasTensor:
    return ops.concatenate([x, x * x, ops.sin(3.0 * x)], axis=1)


def mask_of(x: keras.KerasTensor) -> keras.KerasTensor:
    return ops.cast(ops.not_equal(ops.cumsum(ops.ones_like(x[:, :, 0]), axis=1), 3), "float32")


def late_mask_of(x: keras.KerasTensor) -> keras.KerasTensor:
    """The first two tokens and the fifth are padding."""
    places = ops.cumsum(ops.ones_like(x[:, :, 0]), axis=1)
    return ops.cast(ops.logical_and(ops.greater(places, 2), ops.not_equal(places, 5)), "float32")


def twice_applied(layer: kl.Layer, x: keras.KerasTensor) -> keras.KerasTensor:
    return layer(layer(x))


def build(name: str, shape: tuple[int, ...], layers: list[Callable]) -> keras.Model:
    if name in INPUTS:
        inputs = [keras.Input(s, name=f"input_{2 - i}") for i, s in enumerate(INPUTS[name])]
        given = {i.name: i for i in inputs} if name == "inputs_by_name" else inputs
        return keras.Model(given, [layer(inputs) for layer in layers], name="model")
    tokens = name.startswith("tokens")
    x = keras.Input(shape, dtype="int32" if tokens else None, name="input")
    front = x if tokens else kl.Dense(shape[-1], name="front")(x)
    return keras.Model(x, [layer(front) for layer in layers], name="model")


def values_of(rng: np.random.Generator, variable: keras.Variable) -> np.ndarray:
    low, high = (0.5, 1.5) if "variance" in variable.path else (-0.8, 0.8)
    return rng.uniform(low, high, variable.shape).astype(np.float32)


def run(name: str, shape: tuple[int, ...], layers: list[Callable], seed: int) -> dict:
    rng = np.random.default_rng(seed)
    keras.config.set_floatx("float32")
    text = build(name, shape, layers).to_json()
    keras.config.set_floatx("float64")
    if name.startswith("hub"):  # keras_hub does not read everything that it writes
        keras.config.set_dtype_policy("float64")
        wide = build(name, shape, layers)
        keras.config.set_dtype_policy("float32")
    else:
        wide = keras.models.model_from_json(text.replace('"float32"', '"float64"'))
    kept, name_of = {}, names_of(wide)
    for v in wide.variables:
        if v.dtype != "float64":
            continue
        kept[name_of[id(v)]] = value = values_of(rng, v)
        v.assign(value.astype(np.float64))
    samples = rng.uniform(-1, 1, (COUNT, *shape)).astype(np.float32)
    if name.startswith("tokens"):
        samples = rng.integers(0, 7, (COUNT, *shape)).astype(np.float32)
    x = samples.astype(np.int32 if name.startswith("tokens") else np.float64)
    if name in INPUTS:
        ends = np.cumsum([np.prod(i.shape[1:], dtype=int) for i in wide.inputs])
        if name in ("inputs", "inputs_without_axes"):
            samples[:, ends[1] :] = rng.integers(0, 7, (COUNT, ends[2] - ends[1]))
        parts = np.split(samples.astype(np.float64), ends[:-1], axis=1)
        x = [part.reshape(COUNT, *i.shape[1:]) for part, i in zip(parts, wide.inputs)]
        if name == "inputs_by_name":
            x = {i.name: part for i, part in zip(wide.inputs, x)}
    outputs = wide(x, training=False)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    targets = [rng.uniform(-1, 1, o.shape).astype(np.float32) for o in outputs]

    def loss(trained: list[jax.Array]) -> jax.Array:
        fixed = [v.value for v in wide.non_trainable_variables]
        made, _, penalties = wide.stateless_call(trained, fixed, x, training=True, return_losses=True)
        made = made if isinstance(made, list) else [made]
        return sum(((m - t.astype(np.float64)) ** 2).mean() for m, t in zip(made, targets)) + sum(penalties)

    value, gradients = jax.value_and_grad(loss)([v.value for v in wide.trainable_variables])
    names = [name_of[id(v)] for v in wide.trainable_variables]
    def flat(a: jax.Array) -> list[float]:
        digits = 9 if np.asarray(a).dtype == np.float32 else 11
        return [float(f"{n:.{digits}g}") for n in np.asarray(a).ravel()]

    return {
        "name": name, "model": json.loads(text), "samples": flat(samples), "loss": float(value),
        "targets": [flat(t) for t in targets], "variables": {k: flat(v) for k, v in kept.items()},
        "outputs": [flat(o) for o in outputs], "gradients": dict(zip(names, map(flat, gradients))),
    }  # fmt: skip


def main() -> None:
    path = Path(__file__).with_name("single_layers.json")
    kept = {e["name"]: e for e in json.loads(path.read_text())["models"]} if len(sys.argv) > 1 else {}
    entries = []
    for seed, (name, shape, layers) in enumerate(GROUPS):
        for part in range(0, len(layers), 8):
            whole = name + (f"_{part // 8}" if len(layers) > 8 else "")
            anew = whole not in kept or name in sys.argv[1:]
            entries.append(run(whole, shape, layers[part : part + 8], 100 * seed + part) if anew else kept[whole])
    lines = ",\n".join("  " + json.dumps(e) for e in entries)
    path.write_text(f'{{"keras": "{keras.__version__}", "models": [\n{lines}\n]}}\n')
    print(path.name, len(entries), "models", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
