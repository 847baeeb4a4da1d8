"""Translates Keras's objects into the library's words. The objects here are stand-ins with the same configs;
tests/soak/keras_objects does the same with Keras itself."""

import json

import numpy as np
import pytest

import clique_opencl as clique
from clique_opencl import keras_words
from golden_cases import Case


class Variable:
    def __init__(self, name, value, path=""):
        self.name, self.value, self.path = name, np.array(value), path or name
        self.shape, self.dtype = self.value.shape, str(self.value.dtype)

    def numpy(self):
        return self.value

    def assign(self, value):
        assert value.shape == self.shape
        self.value = np.array(value)


class Layer:
    def __init__(self, name, variables=(), layers=()):
        self.name = name
        self._trainable_variables, self._non_trainable_variables = list(variables), []
        self._layers = list(layers)

    @property
    def variables(self):
        return self._trainable_variables + [one for layer in self._layers for one in layer.variables]


class MultiHeadAttention(Layer):
    pass


class Model:
    def __init__(self, text, layers, seeds=()):
        self.text, self.layers, self.seeds = text, layers, list(seeds)

    def to_json(self):
        return self.text

    @property
    def variables(self):
        return self.seeds + [one for layer in self.layers for one in layer.variables]


def model_of(case):
    by_layer = {}
    for name, value in case.weights.items():
        layer, _, variable = name.rpartition("/")
        by_layer.setdefault(layer, []).append(Variable(variable, value, name))
    return Model(case.model.read_text(), [Layer(name, held) for name, held in by_layer.items()])


@pytest.fixture
def keras_model():
    return model_of(Case("mlp_adam_probs"))


def test_there_and_back(keras_model):
    case = Case("mlp_adam_probs")
    keras_model.seeds = [Variable("seed_generator_state", np.zeros(2, np.uint32))]
    with clique.Model.from_keras(keras_model) as model:
        for name, value in model.get_weights_by_name().items():
            np.testing.assert_array_equal(value, case.weights[name])
        found = model.predict(clique.Dataset(case.x[0][:4]))
        np.testing.assert_allclose(found, case.trace["predictions_first4"], atol=1e-5)
        model.set_weights([one + 1 for one in model.get_weights()])
        assert model.to_keras(keras_model) is keras_model
        for layer in keras_model.layers:
            for one in layer.variables:
                np.testing.assert_array_equal(one.value, case.weights[one.path] + 1)


def test_variables_that_do_not_match(keras_model):
    first = keras_model.layers[0]
    lost = first._trainable_variables.pop()
    with pytest.raises(clique.MismatchError, match=f"no variable {first.name}/{lost.name}"):
        clique.Model.from_keras(keras_model)
    first._trainable_variables.append(Variable(lost.name, lost.value[:-1]))
    with pytest.raises(clique.MismatchError, match=f"variable {first.name}/{lost.name} is .* in Keras"):
        clique.Model.from_keras(keras_model)
    first._trainable_variables[-1] = lost
    keras_model.layers.append(Layer("extra", [Variable("scale", np.ones(3, np.float32), "extra/scale")]))
    with pytest.raises(clique.MismatchError, match="extra/scale"):
        clique.Model.from_keras(keras_model)


def test_names_of_what_is_within():
    inner = Model("", [Layer("conv", [Variable("kernel", [1.0])])])
    inner.name = "base"
    cell = Layer("cell", [Variable("kernel", [1.0])])
    recurrent = Layer("lstm", layers=[cell])
    recurrent.cell = cell
    attention = MultiHeadAttention("attention", layers=[Layer("query", [Variable("kernel", [1.0])])])
    unnamed = Layer("scale", [gamma := Variable("variable_3", [1.0])])
    unnamed.gamma = gamma
    names = keras_words.variables_of(Model("", [inner, recurrent, attention, unnamed]))
    assert list(names) == ["base.conv/kernel", "lstm/kernel", "attention/query/kernel", "scale/gamma"]


def thing(name, /, **config):
    return type(name, (), {"get_config": lambda self: config})()


#: What get_config of Keras 3.15's optimizers returns besides hyper-parameters.
COMMON = {
    "name": "x",
    "weight_decay": None,
    "clipnorm": None,
    "global_clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("adam", {"optimizer": "adam"}),
        ("RMSprop", {"optimizer": "rmsprop"}),
        (
            thing("SGD", **COMMON, learning_rate=0.1, momentum=0.9, nesterov=True),
            {"optimizer": "sgd:lr=0.1,momentum=0.9,nesterov=1"},
        ),
        (
            thing("AdamW", **{**COMMON, "weight_decay": 0.004, "clipnorm": 1.0}, learning_rate=0.001, beta_1=0.9),
            {"optimizer": "adamw:weight_decay=0.004,lr=0.001,beta1=0.9", "clip": "norm=1.0"},
        ),
        (
            thing("RMSprop", **COMMON, learning_rate=0.01, rho=0.9, epsilon=1e-7, centered=False),
            {"optimizer": "rmsprop:lr=0.01,rho=0.9,epsilon=1e-07,centered=0"},
        ),
        (
            thing(
                "Adam",
                **COMMON,
                learning_rate={
                    "class_name": "CosineDecay",
                    "config": {
                        "initial_learning_rate": 0.01,
                        "decay_steps": 30,
                        "alpha": 0.1,
                        "name": "CosineDecay",
                        "warmup_target": 0.2,
                        "warmup_steps": 10,
                    },
                },
            ),
            {
                "optimizer": "adam:lr=0.2",
                "schedule": "cosine:decay_steps=30.0,alpha=0.1,warmup=10.0,warmup_from=0.01",
            },
        ),
        (
            thing(  # without warm-up steps, the rate begins at the target
                "SGD",
                **COMMON,
                learning_rate={
                    "class_name": "CosineDecay",
                    "config": {"initial_learning_rate": 0.0, "decay_steps": 30, "warmup_target": 0.2, "warmup_steps": 0},
                },
            ),
            {"optimizer": "sgd:lr=0.2", "schedule": "cosine:decay_steps=30.0"},
        ),
        (
            thing(
                "SGD",
                **COMMON,
                learning_rate={
                    "class_name": "PiecewiseConstantDecay",
                    "config": {"boundaries": [10, 30], "values": [0.2, 0.1, 0.02], "name": "x"},
                },
            ),
            {"optimizer": "sgd", "schedule": "piecewise:boundaries=10.0/30.0,values=0.2/0.1/0.02"},
        ),
    ],
)
def test_optimizers(given, expected):
    assert keras_words.optimizer_settings(given) == expected
    with clique.Model.from_keras(Case("mlp_adam_probs").model) as model:
        model.compile(given, "sparse_categorical_crossentropy", devices="pocl:0")
        assert model.learning_rate > 0


def test_variables_that_are_not_decayed():
    """Refuses the variables of Keras's exclude_from_weight_decay. Its cache, which updates fill, says nothing."""
    for kept, refused in (
        ({"_exclude_from_weight_decay": set(), "_exclude_from_weight_decay_cache": {1: True}}, False),
        ({"_exclude_from_weight_decay": {1}, "_exclude_from_weight_decay_cache": {}}, True),
        ({"_exclude_from_weight_decay_pattern": "bias"}, True),
    ):
        given = thing("AdamW", **{**COMMON, "weight_decay": 0.1})
        vars(given).update(kept)
        if refused:
            with pytest.raises(clique.UnsupportedError, match="exclude_from_weight_decay"):
                keras_words.optimizer_settings(given)
        else:
            assert "weight_decay=0.1" in keras_words.optimizer_settings(given)["optimizer"]


def test_metrics_of_outputs():
    case = Case("outputs/two_outputs")
    with clique.Model.from_keras(case.model) as model:
        first, second = model.output_names
        model.compile("sgd", case.losses, ["accuracy", None], devices="pocl:0")
        found = model.evaluate(clique.Dataset(case.x, case.y), return_dict=True)
        assert [name for name in found if "accuracy" in name] == [f"{first}_accuracy"]
        model.compile("sgd", case.losses, "accuracy", devices="pocl:0")
        found = model.evaluate(clique.Dataset(case.x, case.y), return_dict=True)
        assert len([name for name in found if "accuracy" in name]) == 2
        with pytest.raises(clique.ArgumentError, match="each of the 2 outputs, not 1"):
            model.compile("sgd", case.losses, ["mae"])


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (thing("SGD", **{**COMMON, "use_ema": True}), "use_ema=True is not supported: compile\\(ema=0.99\\)"),
        (thing("SGD", **{**COMMON, "gradient_accumulation_steps": 4}), "compile\\(accumulate=K\\)"),
        (thing("Ftrl", **COMMON), "one of Keras's SGD"),
        (thing("SGD", **COMMON, other=1), "other=1 is not supported"),
        (thing("SGD", **COMMON, learning_rate={"class_name": "Own", "config": {}}), "schedule Own is not supported"),
        (3, "expected a name"),
    ],
)
def test_optimizers_that_are_refused(given, line):
    with pytest.raises(clique.CliqueError, match=line):
        keras_words.optimizer_settings(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("mse", "mse"),
        ("MeanSquaredError", "mean_squared_error"),
        (
            thing("SparseCategoricalCrossentropy", reduction="sum_over_batch_size", from_logits=True),
            "sparse_categorical_crossentropy:from_logits=1",
        ),
        (thing("Huber", name="x", reduction="sum_over_batch_size", delta=2.0), "huber:delta=2.0"),
        (
            thing("BinaryCrossentropy", reduction="sum_over_batch_size", label_smoothing=0.1, axis=-1),
            "binary_crossentropy:label_smoothing=0.1",
        ),
    ],
)
def test_losses(given, expected):
    assert keras_words.loss_text(given) == expected


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (thing("MeanSquaredError", reduction="sum"), "reduction='sum' is not supported"),
        (thing("SparseCategoricalCrossentropy", ignore_class=3), "ignore_class=3 is not supported"),
        (thing("CategoricalCrossentropy", axis=1), "axis=1 is not supported"),
        (thing("Dice", axis=-1), "one of Keras's"),
        (thing("Huber", dtype={"config": {"name": "float64"}}), "losses are float32"),
    ],
)
def test_losses_that_are_refused(given, line):
    with pytest.raises(clique.CliqueError, match=line):
        keras_words.loss_text(given)


def test_inputs_by_name():
    case = Case("families/two_towers")
    config = json.loads(case.model.read_text())["config"]
    names = [one[0] for one in config["input_layers"]]
    with clique.Model.from_keras(case.model) as model:
        model.set_weights(case.weights)
        listed = model.predict(case.x)
        np.testing.assert_array_equal(model.predict(dict(zip(names, case.x))), listed)
        with pytest.raises(clique.ArgumentError, match="'other' is none of these"):
            model.predict({**dict(zip(names, case.x)), "other": case.x[0]})
        with pytest.raises(clique.ArgumentError, match=f"'{names[1]}' is missing"):
            model.predict({names[0]: case.x[0]})
