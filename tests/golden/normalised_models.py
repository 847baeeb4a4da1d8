"""The models of normalised.json: BatchNormalization, Dropout and GlobalAveragePooling2D."""

from __future__ import annotations

from keras import layers as kl

from branched_models import Tensor, instead, model_of
from layer_models import IMAGE, VECTOR, Json, dense, edited, one, with_config


def norm(**options: object) -> kl.Layer:
    return kl.BatchNormalization(name="norm", **options)


def residual(x: Tensor) -> Tensor:
    inner = kl.Conv2D(4, 3, padding="same", use_bias=False, name="conv")(x)
    inner = kl.Activation("relu", name="relu")(kl.BatchNormalization(name="norm_1")(inner))
    inner = kl.Conv2D(4, 3, padding="same", use_bias=False, name="conv_1")(inner)
    inner = kl.BatchNormalization(name="norm_2")(inner)
    shortcut = kl.BatchNormalization(name="norm_3")(kl.Conv2D(4, 1, use_bias=False, name="shortcut")(x))
    x = kl.Activation("relu", name="relu_1")(kl.Add(name="add")([shortcut, inner]))
    x = kl.Dropout(0.5, name="dropout")(kl.GlobalAveragePooling2D(name="mean")(x))
    return kl.Dense(5, activation="softmax", name="head")(x)


def shared_norm(x: Tensor) -> Tensor:
    """Each use updates the moving statistics, in the model's order."""
    both = norm()
    return kl.Add(name="add")([both(kl.Dense(5, name=k)(x)) for k in ("left", "right")])


def shared_dropout(x: Tensor) -> Tensor:
    """Each use draws its own masks."""
    both = kl.Dropout(0.5, name="both")
    return kl.Add(name="add")([both(kl.Dense(5, name=k)(x)) for k in ("left", "right")])


def to_read() -> list[tuple[str, str, Json]]:
    normalised = {
        "batch_normalization_of_images": one(IMAGE, norm()),
        "batch_normalization_of_vectors": one(VECTOR, norm()),
        "batch_normalization_after_dense": one(VECTOR, dense(use_bias=False), norm(), kl.ReLU(name="relu")),
        "batch_normalization_no_scale": one(IMAGE, norm(scale=False)),
        "batch_normalization_no_center": one(IMAGE, norm(center=False)),
        "batch_normalization_neither": one(VECTOR, norm(scale=False, center=False)),
        "batch_normalization_options": one(IMAGE, norm(momentum=0.9, epsilon=0.01)),
        "batch_normalization_axis_3": one(IMAGE, norm(axis=3)),
        "batch_normalization_axis_1_of_vectors": one(VECTOR, norm(axis=1)),
        "batch_normalization_synchronized": one(IMAGE, norm(synchronized=True)),
        "batch_normalization_momentum_0": one(IMAGE, norm(momentum=0.0)),
        "batch_normalization_momentum_1": one(IMAGE, norm(momentum=1.0)),
        "dropout_of_vectors": one(VECTOR, kl.Dropout(0.25, name="dropout")),
        "dropout_of_images": one(IMAGE, kl.Dropout(0.5, name="dropout")),
        "dropout_rate_0": one(VECTOR, kl.Dropout(0.0, name="dropout")),
        "dropout_rate_as_integer": with_config(one(VECTOR, kl.Dropout(0.0, name="dropout")), rate=0),
        "global_average_pooling": one(IMAGE, kl.GlobalAveragePooling2D(name="mean")),
        "residual_net": model_of(IMAGE, residual),
    }
    more = {
        "dropout_seed": one(VECTOR, kl.Dropout(0.25, seed=11, name="dropout")),
        "global_average_pooling_keepdims": one(IMAGE, kl.GlobalAveragePooling2D(keepdims=True, name="mean")),
        "batch_normalization_shared": model_of(VECTOR, shared_norm),
        "dropout_shared": model_of(VECTOR, shared_dropout),
    }
    return [(g, k, m) for g, d in (("normalised", normalised), ("more", more)) for k, m in d.items()]


def to_refuse() -> list[tuple[str, str, list[str], Json]]:
    image, dropped = one(IMAGE, norm()), one(VECTOR, kl.Dropout(0.5, name="dropout"))
    always = {
        "batch_normalization_axis_beyond": (["norm", "axis", "4"], with_config(image, axis=4)),
        "batch_normalization_axis_is_the_batch": (["norm", "axis", "0"], with_config(image, axis=0)),
        "batch_normalization_axis_text": (["norm", "axis"], with_config(image, axis="last")),
        "batch_normalization_momentum_negative": (["norm", "momentum", "-0.5"], with_config(image, momentum=-0.5)),
        "batch_normalization_momentum_above_1": (["norm", "momentum", "1.5"], with_config(image, momentum=1.5)),
        "batch_normalization_momentum_text": (["norm", "momentum"], with_config(image, momentum="slow")),
        "batch_normalization_epsilon_negative": (["norm", "epsilon", "-0.001"], with_config(image, epsilon=-0.001)),
        "batch_normalization_epsilon_text": (["norm", "epsilon"], with_config(image, epsilon="small")),
        "batch_normalization_scale_number": (["norm", "scale"], with_config(image, scale=2)),
        "dropout_rate_negative": (["dropout", "rate", "-0.25"], with_config(dropped, rate=-0.25)),
        "dropout_rate_above_1": (["dropout", "rate", "1.5"], with_config(dropped, rate=1.5)),
        "dropout_rate_text": (["dropout", "rate"], with_config(dropped, rate="half")),
        "dropout_rate_null": (["dropout", "rate"], with_config(dropped, rate=None)),
        "global_average_pooling_of_vector": (
            ["mean", "(6)"],
            edited(model_of(VECTOR, lambda x: kl.Activation("relu", name="mean")(x)),
                   instead("mean", kl.GlobalAveragePooling2D(name="mean"))),
        ),
        "global_average_pooling_keepdims_text": (
            ["mean", "keepdims"], with_config(one(IMAGE, kl.GlobalAveragePooling2D(name="mean")), keepdims="yes")),
    }  # fmt: skip
    first = {"data_format": "channels_first"}
    may_change = {
        "batch_normalization_axis_1_of_images": (["norm", "axis", "1"], one(IMAGE, norm(axis=1))),
        "batch_normalization_frozen": (["norm", "trainable"], one(IMAGE, norm(trainable=False))),
        "batch_normalization_regularizer": (["norm", "gamma_regularizer", "L2"],
                                            one(IMAGE, norm(gamma_regularizer="l2"))),
        "batch_normalization_constraint": (["norm", "beta_constraint", "NonNeg"],
                                           one(IMAGE, norm(beta_constraint="non_neg"))),
        "batch_normalization_renorm": (["norm", "renorm"], with_config(image, renorm=True)),
        "dropout_rate_1": (["dropout", "rate", "1"], one(VECTOR, kl.Dropout(1.0, name="dropout"))),
        "dropout_noise_shape": (["dropout", "noise_shape"],
                                one(IMAGE, kl.Dropout(0.5, noise_shape=(None, 1, 1, 2), name="dropout"))),
        "spatial_dropout2d": (["dropout", "SpatialDropout2D"], one(IMAGE, kl.SpatialDropout2D(0.5, name="dropout"))),
        "gaussian_dropout": (["dropout", "GaussianDropout"], one(VECTOR, kl.GaussianDropout(0.5, name="dropout"))),
        "layer_normalization": (["norm", "LayerNormalization"], one(VECTOR, kl.LayerNormalization(name="norm"))),
        "global_average_pooling_channels_first": (["mean", "data_format", "channels_first"],
                                                  one((2, 8, 7), kl.GlobalAveragePooling2D(name="mean", **first))),
    }  # fmt: skip
    return [(g, k, *v) for g, d in (("always", always), ("may_change", may_change)) for k, v in d.items()]
