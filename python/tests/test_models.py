"""Keras models follow Keras's traces: predictions, losses of each step, weights."""

import zipfile

import numpy as np
import pytest

import clique_opencl as clique
from golden_cases import GOLDEN, Case, read_safetensors

CASES = [
    "mlp_adam_probs",
    "cnn_adam_logits",
    "normalised/residual_bn",
    "regression/huber_regression",
    "outputs/two_outputs",
    "losses/class_weights",
    "optimizers/lamb_decay",
    "families/two_towers",
    "families/gpt",
    "families/bilstm_masked",
]


class Losses(clique.Callback):
    def __init__(self):
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


def far(found, expected):
    return np.linalg.norm(np.float64(found) - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("name", CASES)
def test_traces(name):
    case = Case(name)
    trace, tolerance = case.trace, case.trace["tolerance"]
    with clique.Model.from_keras(case.model) as model:
        model.set_weights(case.weights)
        first = model.predict(clique.Dataset([one[:4] for one in case.x]))
        outputs = [first] if isinstance(first, np.ndarray) else first
        traces = trace.get("outputs", [trace])
        for found, one in zip(outputs, traces):
            np.testing.assert_allclose(found, one["predictions_first4"], atol=1e-5, rtol=1e-5)

        metrics = case.options["metrics"].split(",") if "metrics" in case.options else None
        data = clique.Dataset(case.x, case.y, case.sample_weight)
        model.compile(
            case.options["optimizer"],
            case.losses,
            metrics,
            case.loss_weights,
            devices="pocl:0",
            **{"disable_paths": "one launch", **case.settings},  # one launch takes long to compile
        )
        told = Losses()
        history = model.fit(
            data,
            batch_size=int(case.options["batch"]),
            steps=trace["steps"],
            shuffle=False,
            verbose=0,
            callbacks=told,
            class_weight=case.class_weight,
            drop_remainder="drop_remainder" in case.options,
        )
        assert len(told.losses) == trace["steps"]
        np.testing.assert_allclose(told.losses, trace["loss"], rtol=tolerance["loss"])
        assert len(history.history["loss"]) == len(history.epoch)
        state = trace.get("state", {}).get("50", {})
        weights = model.get_weights_by_name()
        shared = [variable for variable in state if variable in weights]
        assert bool(shared) == ("state" in trace)  # the others are the optimizer's state
        for variable in shared:
            assert far(weights[variable], state[variable]) <= tolerance["state"], variable
        if "evaluation_final" in trace and "sample_weights" not in case.options:
            found = model.evaluate(data, return_dict=True)
            assert found["loss"] == pytest.approx(
                trace["evaluation_final"]["loss"], rel=tolerance.get("evaluation", tolerance["loss"])
            )


def test_from_text_and_path():
    case = Case("cnn_adam_logits")
    for given in (case.model.read_text(), str(case.model), case.model):
        with clique.Model.from_keras(given) as model:
            assert model.weight_names == list(case.weights)
            assert model.weight_shapes == [one.shape for one in case.weights.values()]
            assert model.count_params() == sum(one.size for one in case.weights.values())
            assert (model.input_shape, model.output_shapes) == ((14, 14, 1), [(10,)])
            assert model.to_json() == case.model.read_text()
    with pytest.raises(clique.ArgumentError, match="from_keras"):
        clique.Model.from_keras(3)
    with pytest.raises(clique.NotFoundError):
        clique.Model.from_keras("/nowhere/model.json")
    with pytest.raises(clique.FormatError):
        clique.Model.from_keras("{")


@pytest.mark.parametrize("name", ["images", "nested", "heads"])
def test_archives(name):
    """Model, weights and predictions of files that Keras wrote."""
    expected = read_safetensors(GOLDEN / "keras_files" / f"{name}.safetensors")
    with clique.Model.from_keras(GOLDEN / "keras_files" / f"{name}.keras") as model:
        np.testing.assert_allclose(model.predict(clique.Dataset(expected["x"])), expected["y"], rtol=1e-5, atol=1e-5)


def test_open_sizes():
    path = GOLDEN / "keras_files" / "backbone.keras"
    expected = read_safetensors(path.with_suffix(".safetensors"))
    with pytest.raises(clique.UnsupportedError, match="is open"):
        clique.Model.from_keras(path)
    for sizes in (4, [(4,), (4,)]):
        with clique.Model.from_keras(path, input_shape=sizes) as model:
            found = model.predict(clique.Dataset(expected["x"]))
            np.testing.assert_allclose(found, expected["y"], rtol=1e-5, atol=1e-5)
    with pytest.raises(clique.MismatchError):
        clique.Model.from_keras(path, input_shape=[(4, 4), (4,)])


def test_by_name():
    with clique.Model.from_name("mlp:units=16", input_shape=(8, 8), classes=3) as model:
        assert model.output_shapes == [(3,)] and model.input_shape[:2] == (8, 8)
        assert model.predict(np.zeros((5, *model.input_shape), np.float32)).shape == (5, 3)
        assert '"class_name": "Functional"' in model.to_json()
    with pytest.raises(clique.ArgumentError, match="resnet18"):
        clique.Model.from_name("resnet81")


def test_freezing(tmp_path):
    x = np.zeros((5, 8, 8), np.float32)
    with clique.Model.from_name("mlp:units=16", input_shape=(8, 8), classes=3) as model:
        frozen = model.trainable_names[0].split("/")[0]
        before = model.to_json()
        model.freeze(frozen)
        assert frozen not in {one.split("/")[0] for one in model.trainable_names}
        assert model.to_json() != before and '"trainable": false' in model.to_json()
        model.predict(x)
        with pytest.raises(clique.StateError, match="freeze: the model is on devices already"):
            model.freeze(frozen)
        model.save_weights(tmp_path / "frozen.keras")
    with zipfile.ZipFile(tmp_path / "frozen.keras") as archive:
        assert b'"trainable": false' in archive.read("config.json")


def test_weights(tmp_path):
    case = Case("mlp_adam_probs")
    with clique.Model.from_keras(case.model) as model, clique.Model.from_keras(case.model) as other:
        model.set_weights(case.weights)
        for path in (tmp_path / "a.safetensors", tmp_path / "a.weights.h5", tmp_path / "a.keras"):
            model.save_weights(path)
            other.set_weights([np.zeros_like(one) for one in other.get_weights()])
            other.load_weights(path)
            for name, value in other.get_weights_by_name().items():
                np.testing.assert_array_equal(value, case.weights[name])
        loaded = clique.Model.from_keras(tmp_path / "a.keras")
        (tmp_path / "a.keras").unlink()  # the file was already read
        np.testing.assert_array_equal(loaded.get_weights()[0], case.weights[model.weight_names[0]])
        before = model.get_weights()
        with pytest.raises(clique.MismatchError, match="expected 4 variables, not 1"):
            model.set_weights(before[:1])
        with pytest.raises(clique.MismatchError, match="variable dense/kernel is .* not"):
            model.set_weights([one.T for one in before])
        with pytest.raises(clique.MismatchError, match="no variable extra"):
            model.set_weights({**case.weights, "extra": 1})
        with pytest.raises(clique.MismatchError, match="dense/bias is missing"):
            model.set_weights({name: one for name, one in case.weights.items() if name != "dense/bias"})
        with pytest.raises(clique.CliqueError):
            model.load_weights(tmp_path / "none.safetensors")
        for one, now in zip(before, model.get_weights()):
            np.testing.assert_array_equal(one, now)
