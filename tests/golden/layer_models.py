"""Small Keras models as JSON for the importer: those that it must read, and those that it must refuse, with the
message.

Keras writes the JSON. For variants that this Keras version does not write, the JSON is edited. Every model is then
given back to Keras, so `keras_reads` is measured, not claimed. README.md has the format.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import keras
from keras import layers as kl

Json = dict
Edit = Callable[[Json], None]

VECTOR, IMAGE = (6,), (8, 7, 2)


def one(shape: tuple[int | None, ...], *stack: kl.Layer) -> Json:
    """A Sequential model with a declared input."""
    return json.loads(keras.Sequential([keras.Input(shape, name="input"), *stack], name="model").to_json())


def edited(model: Json, edit: Edit) -> Json:
    model = copy.deepcopy(model)
    edit(model)
    return model


def layers_of(model: Json) -> list[Json]:
    return model["config"]["layers"]


def with_config(model: Json, **changed: object) -> Json:
    """The model with changed values in the last layer's config."""
    return edited(model, lambda m: layers_of(m)[-1]["config"].update(changed))


def dense(**options: object) -> kl.Layer:
    return kl.Dense(5, name="dense", **options)


def conv(**options: object) -> kl.Layer:
    return kl.Conv2D(4, options.pop("kernel_size", 3), name="conv2d", **options)


# ---- edits -----------------------------------------------------------------------------------------


def only_build_input_shape(model: Json) -> None:
    """As Keras writes a model without an InputLayer: the shape stands beside the layers."""
    del layers_of(model)[0]


def only_batch_shape(model: Json) -> None:
    """Only the InputLayer has the shape."""
    del (
        model["config"]["build_input_shape"],
        model["build_config"],
        layers_of(model)[-1]["build_config"],
    )


def no_shape(model: Json) -> None:
    only_batch_shape(model)
    del layers_of(model)[0]


def dtype_as_string(model: Json) -> None:
    """Writes the dtype as the first releases of Keras 3 did."""
    layers_of(model)[-1]["config"]["dtype"] = "float32"


def defaults_left_out(model: Json) -> None:
    config = layers_of(model)[-1]["config"]
    layers_of(model)[-1]["config"] = {k: config[k] for k in ("name", "units")}


def vector_input(model: Json) -> None:
    only_batch_shape(model)
    layers_of(model)[0]["config"]["batch_shape"] = [None, *VECTOR]


def units_left_out(model: Json) -> None:
    del layers_of(model)[-1]["config"]["units"]


def foreign_class(model: Json) -> None:
    layers_of(model)[-1].update(
        module="somebody.layers", class_name="Swirl", registered_name="somebody>Swirl"
    )


# ---- models that are more than a chain -------------------------------------------------------------


def chain() -> Json:
    x = keras.Input(VECTOR, name="input")
    return json.loads(keras.Model(x, dense()(x), name="model").to_json())


def branch() -> Json:
    x = keras.Input(VECTOR, name="input")
    sides = [kl.Dense(5, name="left")(x), kl.Dense(5, name="right")(x)]
    return json.loads(keras.Model(x, kl.Add(name="add")(sides), name="model").to_json())


def two_inputs() -> Json:
    a, b = keras.Input(VECTOR, name="first"), keras.Input(VECTOR, name="second")
    return json.loads(keras.Model([a, b], kl.Concatenate(name="concatenate")([a, b]), name="model").to_json())


def two_outputs() -> Json:
    x = keras.Input(VECTOR, name="input")
    h = kl.Dense(4, name="trunk")(x)
    outputs = [kl.Dense(3, name="head_a")(h), kl.Dense(2, name="head_b")(h)]
    return json.loads(keras.Model(x, outputs, name="model").to_json())


def shared() -> Json:
    x = keras.Input(VECTOR, name="input")
    twice = kl.Dense(VECTOR[0], name="twice")
    return json.loads(keras.Model(x, twice(twice(x)), name="model").to_json())


def compiled() -> Json:
    model = keras.Sequential([keras.Input(VECTOR, name="input"), dense(activation="softmax")], name="model")
    adam = keras.optimizers.Adam(name="adam")
    model.compile(optimizer=adam, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return json.loads(model.to_json())


# ---- the list --------------------------------------------------------------------------------------


def to_read() -> list[tuple[str, str, Json]]:
    """(group, name, model). `core`: what the trace models consist of; `more`: what other models have."""
    entries = [("core", f"dense_{a}", one(VECTOR, dense(activation=a)))
               for a in ("linear", "relu", "tanh", "sigmoid", "softmax")]  # fmt: skip
    entries += [("core", f"activation_{a}", one(IMAGE, kl.Activation(a, name="activation")))
                for a in ("linear", "relu", "tanh", "sigmoid", "softmax")]  # fmt: skip
    plain = one(VECTOR, dense())
    core = {
        "dense_no_bias": one(VECTOR, dense(use_bias=False)),
        "dense_input_by_build_input_shape": edited(plain, only_build_input_shape),
        "dense_input_by_batch_shape": edited(plain, only_batch_shape),
        "dense_dtype_as_string": edited(plain, dtype_as_string),
        "dense_defaults_left_out": edited(plain, defaults_left_out),
        "dense_compiled": compiled(),
        "dense_functional": chain(),
        "conv2d_valid": one(IMAGE, conv()),
        "conv2d_same": one(IMAGE, conv(padding="same", activation="relu")),
        "conv2d_even_kernel_same": one(IMAGE, conv(kernel_size=(2, 4), padding="same")),
        "conv2d_strides": one(IMAGE, conv(strides=(2, 3))),
        "conv2d_strides_same": one(IMAGE, conv(strides=2, padding="same")),
        "conv2d_dilation": one(IMAGE, conv(dilation_rate=2)),
        "conv2d_dilation_same": one(IMAGE, conv(dilation_rate=(1, 3), padding="same")),
        "conv2d_no_bias": one(IMAGE, conv(use_bias=False)),
        "conv2d_input_by_build_input_shape": edited(one(IMAGE, conv()), only_build_input_shape),
        "max_pooling2d": one(IMAGE, kl.MaxPooling2D(name="pool")),
        "max_pooling2d_same": one(IMAGE, kl.MaxPooling2D(2, padding="same", name="pool")),
        "max_pooling2d_overlap": one(IMAGE, kl.MaxPooling2D((3, 2), strides=(2, 1), name="pool")),
        "average_pooling2d": one(IMAGE, kl.AveragePooling2D((2, 3), name="pool")),
        "average_pooling2d_same": one(IMAGE, kl.AveragePooling2D(3, strides=2, padding="same", name="pool")),
        "flatten": one(IMAGE, kl.Flatten(name="flatten")),
        "flatten_of_vector": one(VECTOR, kl.Flatten(name="flatten")),
        "reshape": one(IMAGE, kl.Reshape((7, 4, 4), name="reshape")),
        "reshape_inferred": one(IMAGE, kl.Reshape((-1, 14), name="reshape")),
        "softmax_layer": one(VECTOR, kl.Softmax(name="softmax")),
    }
    more = {
        "dense_other_initializers": one(
            VECTOR, dense(kernel_initializer="he_normal", bias_initializer="ones")
        ),
        "relu_layer": one(IMAGE, kl.ReLU(name="re_lu")),
        "dropout": one(VECTOR, kl.Dropout(0.25, name="dropout")),
        "batch_normalization": one(IMAGE, kl.BatchNormalization(name="batch_norm")),
        "batch_normalization_no_scale": one(IMAGE, kl.BatchNormalization(scale=False, name="batch_norm")),
        "zero_padding2d": one(IMAGE, kl.ZeroPadding2D(((1, 0), (2, 1)), name="zero_padding2d")),
        "global_average_pooling2d": one(IMAGE, kl.GlobalAveragePooling2D(name="pool")),
        "global_max_pooling2d": one(IMAGE, kl.GlobalMaxPooling2D(name="pool")),
    }
    return entries + [(g, k, m) for g, d in (("core", core), ("more", more)) for k, m in d.items()]


def to_refuse() -> list[tuple[str, str, list[str], Json]]:
    """(group, name, what the message must contain, model). `may_change`: could be supported one day."""
    first = {"data_format": "channels_first"}
    maximum = kl.ReLU(max_value=6.0, name="relu6")
    dense_json, conv_json = one(VECTOR, dense()), one(IMAGE, conv())
    duplicate = one(VECTOR, dense(), kl.Dense(3, name="dense_1"))
    always = {
        "unknown_class": (["dense", "Swirl"], edited(dense_json, foreign_class)),
        "no_input_shape": (["batch_shape"], edited(dense_json, no_shape)),
        "unknown_image_size": (["input", "batch_shape"], one((None, None, 2), conv())),
        "units_missing": (["dense", "units"], edited(dense_json, units_left_out)),
        "units_negative": (["dense", "units", "-3"], with_config(dense_json, units=-3)),
        "units_text": (["dense", "units"], with_config(dense_json, units="ten")),
        "units_fraction": (["dense", "units", "2.5"], with_config(dense_json, units=2.5)),
        "filters_zero": (["conv2d", "filters", "0"], with_config(conv_json, filters=0)),
        "padding_unknown": (["conv2d", "padding", "mirror"], with_config(conv_json, padding="mirror")),
        "kernel_beyond_image": (["conv2d"], with_config(conv_json, kernel_size=[9, 3])),
        "kernel_three_numbers": (["conv2d", "kernel_size"], with_config(conv_json, kernel_size=[3, 3, 3])),
        "strides_zero": (["conv2d", "strides"], with_config(conv_json, strides=[0, 1])),
        "strides_and_dilation": (["conv2d", "dilation_rate"],
                                 with_config(conv_json, strides=[2, 2], dilation_rate=[2, 2])),
        "conv2d_of_vector": (["conv2d"], edited(conv_json, vector_input)),
        "reshape_wrong_count": (["reshape", "target_shape"],
                                with_config(one(IMAGE, kl.Reshape((7, 16), name="reshape")),
                                            target_shape=[7, 15])),
        "same_name_twice": (["dense", "name"], with_config(duplicate, name="dense")),
        "activation_unknown": (["dense", "activation", "wobble"],
                               with_config(dense_json, activation="wobble")),
    }  # fmt: skip
    not_yet = {
        "lstm": (["lstm", "LSTM"], one((5, 3), kl.LSTM(4, name="lstm"))),
        "dense_gelu": (["dense", "activation", "gelu"], one(VECTOR, dense(activation="gelu"))),
        "activation_selu": (["activation", "selu"], one(VECTOR, kl.Activation("selu", name="activation"))),
        "activation_is_a_layer": (["dense", "activation", "ReLU"], one(VECTOR, dense(activation=maximum))),
        "conv2d_channels_first": (["conv2d", "data_format", "channels_first"], one((2, 8, 7), conv(**first))),
        "max_pooling2d_channels_first": (["pool", "data_format", "channels_first"],
                                         one((2, 8, 7), kl.MaxPooling2D(name="pool", **first))),
        "flatten_channels_first": (["flatten", "data_format", "channels_first"],
                                   one((2, 8, 7), kl.Flatten(name="flatten", **first))),
        "conv2d_groups": (["conv2d", "groups", "2"], one(IMAGE, conv(groups=2))),
        "softmax_axis": (["softmax", "axis"], one(IMAGE, kl.Softmax(axis=1, name="softmax"))),
        "dense_regularizer": (["dense", "kernel_regularizer", "L2"],
                              one(VECTOR, dense(kernel_regularizer="l2"))),
        "dense_constraint": (["dense", "kernel_constraint", "NonNeg"],
                             one(VECTOR, dense(kernel_constraint="non_neg"))),
        "dense_frozen": (["dense", "trainable"], one(VECTOR, dense(trainable=False))),
        "dense_float64": (["dense", "dtype", "float64"], one(VECTOR, dense(dtype="float64"))),
        "nested_model": (["inner", "Sequential"],
                         one(VECTOR, keras.Sequential([keras.Input(VECTOR, name="in"), dense()],
                                                      name="inner"))),
        "branch": (["add", "Add"], branch()),
        "two_inputs": (["input_layers"], two_inputs()),
        "two_outputs": (["output_layers"], two_outputs()),
        "shared_layer": (["twice", "inbound_nodes"], shared()),
    }  # fmt: skip
    return [(g, k, *v) for g, d in (("always", always), ("may_change", not_yet)) for k, v in d.items()]


def tensor_name(variable: keras.Variable) -> str:
    return "/".join(variable.path.split("/")[-2:])


def read_by_keras(model: Json) -> keras.Model | None:
    try:
        return keras.models.model_from_json(json.dumps(model))
    except Exception:  # Keras raises many exception types for a bad file
        return None


def output_shapes(model: keras.Model) -> Json:
    """The output's shape. With several outputs, the first one's shape, and the list of all."""
    if not isinstance(model.output_shape, list):
        return {"output_shape": list(model.output_shape[1:])}
    shapes = [list(s[1:]) for s in model.output_shape]
    return {"output_shape": shapes[0], "output_shapes": shapes}


def write(path: Path, good: list[tuple[str, str, Json]], bad: list[tuple[str, str, list[str], Json]]) -> None:
    entries: list[Json] = []
    for group, name, model in good:
        read = read_by_keras(model)
        assert read is not None and read.built, name
        weights = [v for v in read.variables if v.dtype == "float32"]  # excludes a dropout's seed
        shapes = {tensor_name(v): list(v.shape) for v in weights}
        trainable = [tensor_name(v) for v in read.trainable_variables]
        entries.append({
            "name": name, "expect": "read", "group": group,
            "input_shape": list(read.input_shape[1:]), **output_shapes(read),
            "variables": shapes, "trainable": trainable, "model": model,
        })  # fmt: skip
    for group, name, message_has, model in bad:
        entries.append({
            "name": name, "expect": "refuse", "group": group, "message_has": message_has,
            "keras_reads": read_by_keras(model) is not None, "model": model,
        })  # fmt: skip
    assert len({e["name"] for e in entries}) == len(entries)
    lines = ",\n".join("  " + json.dumps(e) for e in entries)
    path.write_text(f'{{"keras": "{keras.__version__}", "models": [\n{lines}\n]}}\n')
    readable = sum(e["expect"] == "read" for e in entries)
    print(f"{path.name}  {readable} to read, {len(entries) - readable} to refuse")
