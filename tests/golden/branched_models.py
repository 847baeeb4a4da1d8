"""The models of branched.json: several inputs per layer, several readers, shared layers, several outputs."""

from __future__ import annotations

import json
from collections.abc import Callable

import keras
from keras import layers as kl

from layer_models import IMAGE, VECTOR, Edit, Json, edited, layers_of

Tensor = keras.KerasTensor


def model_of(shape: tuple[int, ...], build: Callable[[Tensor], Tensor | list[Tensor]]) -> Json:
    x = keras.Input(shape, name="input")
    return json.loads(keras.Model(x, build(x), name="model").to_json())


def two_vectors(merge: kl.Layer, sizes: tuple[int, ...] = (5, 5)) -> Json:
    """Dense layers `left`, `right`, ... read by `merge`."""
    names = ("left", "right", "third")
    return model_of(
        VECTOR, lambda x: merge([kl.Dense(n, name=k)(x) for n, k in zip(sizes, names, strict=False)])
    )


def two_images(merge: kl.Layer, **right: object) -> Json:
    """Convolutions `left` and `right` to (8, 7, 4), read by `merge`."""
    more = {"filters": 4, "kernel_size": 1, "padding": "same", **right}

    def build(x: Tensor) -> Tensor:
        return merge([kl.Conv2D(4, 3, padding="same", name="left")(x), kl.Conv2D(name="right", **more)(x)])

    return model_of(IMAGE, build)


# ---- good models -----------------------------------------------------------------------------------


def residual(x: Tensor) -> Tensor:
    inner = kl.Conv2D(2, 3, padding="same", activation="relu", name="conv")(x)
    inner = kl.Conv2D(2, 3, padding="same", name="conv_1")(inner)
    return kl.Activation("relu", name="relu")(kl.Add(name="add")([x, inner]))


def fan_out(x: Tensor) -> Tensor:
    h = kl.Dense(5, name="trunk")(x)
    gate, side = kl.Dense(5, activation="sigmoid", name="gate")(h), kl.Activation("tanh", name="tanh")(h)
    return kl.Add(name="add")([kl.Multiply(name="multiply")([h, gate]), side])


def input_read_twice(x: Tensor) -> Tensor:
    return kl.Concatenate(name="concatenate")([x, kl.Dense(4, name="dense")(x)])


def same_value_twice(x: Tensor) -> Tensor:
    h = kl.Dense(5, name="dense")(x)
    return kl.Multiply(name="square")([h, h])


def shared_in_a_row(x: Tensor) -> Tensor:
    twice = kl.Dense(VECTOR[0], name="twice")
    return twice(twice(x))


def shared_by_two(x: Tensor) -> Tensor:
    both = kl.Dense(3, name="both")
    return kl.Subtract(name="subtract")(
        [both(kl.Dense(5, name="left")(x)), both(kl.Dense(5, name="right")(x))]
    )


def shared_conv2d(x: Tensor) -> Tensor:
    both, flat = kl.Conv2D(2, 3, padding="same", name="both"), kl.Flatten(name="flat")
    return kl.Average(name="average")([flat(both(x)), flat(both(both(x)))])


def two_outputs(x: Tensor) -> list[Tensor]:
    """The first output comes from the layer that is listed last."""
    h = kl.Dense(4, name="trunk")(x)
    second = kl.Dense(2, name="second")(h)
    return [kl.Dense(3, name="first")(kl.Activation("tanh", name="tanh")(h)), second]


def output_read_by_another(x: Tensor) -> list[Tensor]:
    h = kl.Dense(4, name="inner")(x)
    return [kl.Dense(3, name="outer")(h), h]


def three_outputs(x: Tensor) -> list[Tensor]:
    return [kl.Dense(n, name=f"head_{n}")(x) for n in (2, 3, 4)]


def both_uses_are_outputs(x: Tensor) -> list[Tensor]:
    twice = kl.Dense(VECTOR[0], name="twice")
    once = twice(x)
    return [twice(once), once]


def reversed_layers(model: Json) -> None:
    """Puts each layer before the layers that it reads."""
    layers_of(model).reverse()


def to_read() -> list[tuple[str, str, Json]]:
    branched = {
        "add": two_vectors(kl.Add(name="add")),
        "add_three": two_vectors(kl.Add(name="add"), (5, 5, 5)),
        "add_images": two_images(kl.Add(name="add")),
        "subtract": two_vectors(kl.Subtract(name="subtract")),
        "subtract_images": two_images(kl.Subtract(name="subtract")),
        "multiply_three": two_vectors(kl.Multiply(name="multiply"), (5, 5, 5)),
        "multiply_images": two_images(kl.Multiply(name="multiply")),
        "average_three": two_vectors(kl.Average(name="average"), (5, 5, 5)),
        "average_images": two_images(kl.Average(name="average")),
        "maximum_three": two_vectors(kl.Maximum(name="maximum"), (5, 5, 5)),
        "maximum_images": two_images(kl.Maximum(name="maximum")),
        "concatenate": two_vectors(kl.Concatenate(name="concatenate"), (5, 3)),
        "concatenate_three": two_vectors(kl.Concatenate(name="concatenate"), (5, 1, 3)),
        "concatenate_axis_1_of_vectors": two_vectors(kl.Concatenate(axis=1, name="concatenate"), (5, 3)),
        "concatenate_images": two_images(kl.Concatenate(name="concatenate"), filters=3),
        "concatenate_axis_3": two_images(kl.Concatenate(axis=3, name="concatenate"), filters=3),
        "residual_block": model_of(IMAGE, residual),
        "fan_out_of_3": model_of(VECTOR, fan_out),
        "input_read_twice": model_of(VECTOR, input_read_twice),
        "same_value_twice": model_of(VECTOR, same_value_twice),
        "layers_reversed": edited(model_of(VECTOR, fan_out), reversed_layers),
        "shared_in_a_row": model_of(VECTOR, shared_in_a_row),
        "shared_by_two": model_of(VECTOR, shared_by_two),
        "shared_conv2d": model_of(IMAGE, shared_conv2d),
        "two_outputs": model_of(VECTOR, two_outputs),
        "three_outputs": model_of(VECTOR, three_outputs),
        "output_read_by_another": model_of(VECTOR, output_read_by_another),
        "both_uses_are_outputs": model_of(VECTOR, both_uses_are_outputs),
        "one_output_in_a_list": model_of(VECTOR, lambda x: [kl.Dense(5, name="dense")(x)]),
    }
    more = {
        "concatenate_axis_1_of_images": two_images(kl.Concatenate(axis=1, name="concatenate")),
        "concatenate_axis_2_of_images": two_images(kl.Concatenate(axis=2, name="concatenate")),
        "concatenate_axis_minus_2": two_images(kl.Concatenate(axis=-2, name="concatenate")),
    }
    return [(g, k, m) for g, d in (("branched", branched), ("more", more)) for k, m in d.items()]


# ---- bad models, made by editing good ones -----------------------------------------------------------


def named(model: Json, name: str) -> Json:
    return next(one for one in layers_of(model) if one["name"] == name)


def tensors_of(model: Json, name: str, use: int = 0) -> list[Json]:
    """The values that a use of a layer reads, as `__keras_tensor__` objects."""
    first = named(model, name)["inbound_nodes"][use]["args"][0]
    return first if isinstance(first, list) else [first]


def reads(reader: str, place: int, source: str, node: int = 0, tensor: int = 0, use: int = 0) -> Edit:
    """Makes input `place` of a use of `reader` come from another value. The stored shape stays."""

    def edit(model: Json) -> None:
        tensors_of(model, reader, use)[place]["config"]["keras_history"] = [source, node, tensor]

    return edit


def set_config(name: str, **changed: object) -> Edit:
    return lambda model: named(model, name)["config"].update(changed)


def keep_inputs(name: str, count: int) -> Edit:
    def edit(model: Json) -> None:
        del tensors_of(model, name)[count:]

    return edit


def instead(name: str, other: kl.Layer) -> Edit:
    """Replaces a layer by another one with the same inputs."""

    def edit(model: Json) -> None:
        one = json.loads(json.dumps(keras.saving.serialize_keras_object(other)))
        named(model, name).update({**one, "name": other.name})

    return edit


def set_name(old: str, new: str) -> Edit:
    """Renames only the layer itself. Its readers still use the old name."""

    def edit(model: Json) -> None:
        one = named(model, old)
        one["name"] = one["config"]["name"] = new

    return edit


def without_inbound(name: str) -> Edit:
    return lambda model: named(model, name).update(inbound_nodes=[])


def without_history(name: str) -> Edit:
    def edit(model: Json) -> None:
        del tensors_of(model, name)[0]["config"]["keras_history"]

    return edit


def forget_shapes(model: Json) -> None:
    """Removes the shapes that were built before the edits. Keras would use them instead of checking the shapes that
    layers read."""
    for one in layers_of(model):
        one.pop("build_config", None)


def several(*edits: Edit) -> Edit:
    def edit(model: Json) -> None:
        for one in edits:
            one(model)

    return edit


def ends(key: str, value: list) -> Edit:
    return lambda model: model["config"].update({key: value})


def ring(x: Tensor) -> Tensor:
    h = kl.Dense(5, name="dense")(x)
    a = kl.Add(name="ring_a")([h, h])
    return kl.Activation("tanh", name="ring_b")(a)


def image_pair_of(sizes: tuple[int, ...], merge: kl.Layer) -> Json:
    """Convolutions with padding "valid", to images of different sizes. The merge is added afterwards, since Keras would
    refuse it."""

    def build(x: Tensor) -> Tensor:
        left, right = (kl.Conv2D(4, n, name=k)(x) for n, k in zip(sizes, ("left", "right"), strict=True))
        flat = [kl.GlobalMaxPooling2D(name=f"flat_{k}")(v) for v, k in ((left, "left"), (right, "right"))]
        return merge(flat)

    def join(model: Json) -> None:
        reads(merge.name, 0, "left")(model)
        reads(merge.name, 1, "right")(model)
        model["config"]["layers"] = [one for one in layers_of(model) if not one["name"].startswith("flat_")]

    return edited(model_of(IMAGE, build), join)


def pair_of_ranks() -> Json:
    """`concatenate` reads an image and the same image, flattened."""

    def build(x: Tensor) -> Tensor:
        image = kl.Conv2D(4, 3, padding="same", name="left")(x)
        flat = kl.Flatten(name="right")(image)
        return kl.Concatenate(name="concatenate")([flat, flat])

    return edited(model_of(IMAGE, build), reads("concatenate", 0, "left"))


def shared_dense_of_two_sizes() -> Json:
    """`both` reads `left` (5) and `right` (3)."""
    return edited(model_of(VECTOR, shared_by_two), set_config("right", units=3))


def shared_conv2d_of_two_channels() -> Json:
    """`both` reads `left` (8, 7, 4) and `right` (8, 7, 3)."""

    def build(x: Tensor) -> Tensor:
        both = kl.Conv2D(2, 3, padding="same", name="both")
        sides = [kl.Conv2D(4, 3, padding="same", name=k)(x) for k in ("left", "right")]
        return kl.Add(name="add")([both(v) for v in sides])

    return edited(model_of(IMAGE, build), set_config("right", filters=3))


def shared_conv2d_of_two_sizes() -> Json:
    """The weights fit both images, so Keras accepts the model."""

    def build(x: Tensor) -> list[Tensor]:
        both = kl.Conv2D(2, 3, padding="same", name="both")
        return [both(x), both(kl.MaxPooling2D(2, name="pool")(x))]

    return model_of(IMAGE, build)


def broadcast_of_channels(merge: kl.Layer) -> Json:
    """(8, 7, 4) and one value per channel, (1, 1, 4)."""

    def build(x: Tensor) -> Tensor:
        image = kl.Conv2D(4, 3, padding="same", name="left")(x)
        factor = kl.Reshape((1, 1, 4), name="right")(
            kl.Dense(4, name="dense")(kl.Flatten(name="flat")(image))
        )
        return merge([image, factor])

    return model_of(IMAGE, build)


def three_inputs() -> Json:
    inputs = [keras.Input(VECTOR, name=f"input_{i}") for i in range(3)]
    return json.loads(keras.Model(inputs, kl.Add(name="add")(inputs), name="model").to_json())


def orphan_output() -> Json:
    """`orphan` is the second output and reads nothing."""

    def build(x: Tensor) -> list[Tensor]:
        return [kl.Dense(5, name="left")(x), kl.Dense(5, name="orphan")(x)]

    return edited(model_of(VECTOR, build), without_inbound("orphan"))


def island() -> Json:
    """Layers that read each other, and not the input, make the second output."""

    def build(x: Tensor) -> list[Tensor]:
        a = kl.Activation("tanh", name="ring_a")(kl.Dense(5, name="dense")(x))
        return [kl.Dense(3, name="head")(x), kl.Activation("tanh", name="ring_b")(a)]

    return edited(model_of(VECTOR, build), reads("ring_a", 0, "ring_b"))


def to_refuse() -> list[tuple[str, str, list[str], Json]]:
    add, concatenate = (
        two_vectors(kl.Add(name="add")),
        two_vectors(kl.Concatenate(name="concatenate"), (5, 3)),
    )
    images = two_images(kl.Concatenate(name="concatenate"))
    add_images = two_images(kl.Add(name="add"))
    outputs = model_of(VECTOR, two_outputs)
    merges = (kl.Add, kl.Subtract, kl.Multiply, kl.Average, kl.Maximum)
    shapes_differ = {
        f"{kind.__name__.lower()}_shapes_differ": (
            [kind.__name__.lower(), "(5)", "(4)"],
            edited(two_vectors(kind(name=kind.__name__.lower())), set_config("right", units=4)),
        )
        for kind in merges
    }
    always = {
        **shapes_differ,
        "add_third_shape_differs": (["add", "(5)", "(4)"], edited(two_vectors(kl.Add(name="add"), (5, 5, 5)),
                                                                  set_config("third", units=4))),
        "add_channels_differ": (["add", "(8, 7, 4)", "(8, 7, 3)"], edited(add_images, set_config("right", filters=3))),
        "add_image_sizes_differ": (["add", "(6, 5, 4)", "(7, 6, 4)"], image_pair_of((3, 2), kl.Add(name="add"))),
        "concatenate_image_sizes_differ": (["concatenate", "(6, 5, 4)", "(7, 6, 4)"],
                                           image_pair_of((3, 2), kl.Concatenate(name="concatenate"))),
        "concatenate_channels_differ": (["concatenate", "(8, 7, 4)", "(8, 7, 2)"],
                                     edited(images, several(set_config("concatenate", axis=1),
                                                            set_config("right", filters=2)))),
        "concatenate_ranks_differ": (["concatenate", "(8, 7, 4)", "(224)"], pair_of_ranks()),
        "concatenate_axis_beyond": (["concatenate", "axis", "4"], edited(images, set_config("concatenate", axis=4))),
        "concatenate_axis_far_below": (["concatenate", "axis", "-5"],
                                       edited(images, set_config("concatenate", axis=-5))),
        "concatenate_axis_of_vectors_beyond": (["concatenate", "axis", "2"],
                                               edited(concatenate, set_config("concatenate", axis=2))),
        "concatenate_axis_is_the_batch": (["concatenate", "axis", "0"],
                                          edited(concatenate, set_config("concatenate", axis=0))),
        "concatenate_axis_text": (["concatenate", "axis"], edited(images, set_config("concatenate", axis="last"))),
        "concatenate_axis_fraction": (["concatenate", "axis"], edited(images, set_config("concatenate", axis=1.5))),
        "add_of_none": (["add"], edited(add, keep_inputs("add", 0))),
        "subtract_of_three": (["subtract"], edited(two_vectors(kl.Add(name="subtract"), (5, 5, 5)),
                                                   instead("subtract", kl.Subtract(name="subtract")))),
        "dense_of_two": (["dense"], edited(add, several(instead("add", kl.Dense(3, name="dense")),
                                                         ends("output_layers", [["dense", 0, 0]])))),
        "cycle_of_two": (["ring"], edited(model_of(VECTOR, ring), reads("ring_a", 1, "ring_b"))),
        "cycle_of_one": (["ring_a"], edited(model_of(VECTOR, ring), reads("ring_a", 1, "ring_a"))),
        "cycle_beside_the_input": (["ring"], island()),
        "shared_reads_itself": (["twice"], edited(model_of(VECTOR, shared_in_a_row), reads("twice", 0, "twice", 1))),
        "shared_dense_two_shapes": (["both", "(5)", "(3)"], shared_dense_of_two_sizes()),
        "shared_conv2d_two_shapes": (["both", "(8, 7, 4)", "(8, 7, 3)"], shared_conv2d_of_two_channels()),
        "source_unknown": (["right", "nobody"], edited(add, reads("right", 0, "nobody"))),
        "source_unknown_of_merge": (["add", "nobody"], edited(add, reads("add", 1, "nobody"))),
        "source_use_unknown": (["add", "left", "3"], edited(add, reads("add", 0, "left", 3))),
        "source_use_negative": (["add", "left", "-1"], edited(add, reads("add", 0, "left", -1))),
        "source_output_unknown": (["add", "left", "1"], edited(add, reads("add", 0, "left", 0, 1))),
        "source_is_no_name": (["add", "keras_history"], edited(add, reads("add", 0, 7))),
        "source_missing": (["add", "keras_history"], edited(add, without_history("add"))),
        "output_unknown": (["output_layers", "nobody"],
                           edited(outputs, ends("output_layers", [["first", 0, 0], ["nobody", 0, 0]]))),
        "output_use_unknown": (["output_layers", "second", "2"],
                               edited(outputs, ends("output_layers", [["first", 0, 0], ["second", 2, 0]]))),
        "output_is_no_list": (["output_layers"], edited(outputs, ends("output_layers", [["first", 0, 0], "second"]))),
        "no_outputs": (["output_layers"], edited(outputs, ends("output_layers", []))),
        "output_reads_nothing": (["orphan"], orphan_output()),
        "input_unknown": (["input_layers", "nobody"], edited(add, ends("input_layers", [["nobody", 0, 0]]))),
        "same_name_twice_in_branches": (["left"], edited(add, set_name("right", "left"))),
    }  # fmt: skip
    may_change = {
        "minimum": (["minimum", "Minimum"], two_vectors(kl.Minimum(name="minimum"))),
        "dot": (["dot", "Dot"], two_vectors(kl.Dot(axes=1, name="dot"))),
        "multiply_broadcast": (["multiply", "(8, 7, 4)", "(1, 1, 4)"],
                               broadcast_of_channels(kl.Multiply(name="multiply"))),
        "add_broadcast": (["add", "(8, 7, 4)", "(1, 1, 4)"], broadcast_of_channels(kl.Add(name="add"))),
        "shared_conv2d_two_sizes": (["both", "(8, 7, 2)", "(4, 3, 2)"], shared_conv2d_of_two_sizes()),
        "add_of_one": (["add"], edited(add, keep_inputs("add", 1))),
        "dead_end": (["right"], edited(two_vectors(kl.Add(name="add"), (5, 5, 5)), reads("add", 1, "left"))),
        "three_inputs": (["input_layers"], three_inputs()),
        "output_twice": (["output_layers", "first"],
                         edited(outputs, ends("output_layers", [["first", 0, 0], ["first", 0, 0]]))),
        "input_is_an_output": (["output_layers", "input"],
                               edited(outputs, ends("output_layers", [["first", 0, 0], ["input", 0, 0]]))),
    }  # fmt: skip
    groups = (("always", always), ("may_change", may_change))
    return [(g, k, words, edited(m, forget_shapes)) for g, d in groups for k, (words, m) in d.items()]
