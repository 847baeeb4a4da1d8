"""Training: fit's result, callbacks, interruptions, checkpoints, and the state that a new trainer takes over."""

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

import clique_opencl as clique
from golden_cases import Case

RNG = np.random.default_rng(3)
#: Steps as one launch take long to compile, and no test here needs them.
QUICK = {"devices": "pocl:0", "disable_paths": "one launch"}


@pytest.fixture
def case():
    return Case("mlp_adam_probs")


@pytest.fixture
def model(case):
    with clique.Model.from_keras(case.model) as made:
        made.set_weights(case.weights)
        made.compile("sgd:lr=0.05,momentum=0.9", "sparse_categorical_crossentropy", ["accuracy"], **QUICK)
        yield made


@pytest.fixture
def x(model):
    return RNG.random((96, *model.input_shape), np.float32)


@pytest.fixture
def y():
    return RNG.integers(0, 10, 96)


def assert_same(model, other):
    for one, another in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(one, another)


def test_history(model, x, y, capsys):
    history = model.fit(x, y, 32, 3, validation_data=(x[:20], y[:20]), verbose=2)
    assert history.epoch == [0, 1, 2]
    assert list(history.history) == ["loss", "accuracy", "val_loss", "val_accuracy"]
    assert all(len(values) == 3 for values in history.history.values())
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert history.params == {"epochs": 3, "steps": 3, "verbose": 2}
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[0].startswith("Epoch 1/3  loss ") and "val_accuracy" in lines[2]
    loss, accuracy = model.evaluate(x[:20], y[:20])
    assert loss == pytest.approx(history.history["val_loss"][-1], rel=1e-6)
    assert accuracy == pytest.approx(history.history["val_accuracy"][-1])
    correct = np.argmax(model.predict(x[:20]), axis=1) == y[:20]
    assert accuracy == pytest.approx(correct.mean())


def test_validations_are_left_out(model, x, y):
    """Like Keras's validation_freq: after epochs 2 and 4 of 5, counted from 1."""
    told = []

    class Tell(clique.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            told.append("val_loss" in logs)

    history = model.fit(
        x, y, 32, 5, validation_data=(x[:20], y[:20]), validation_freq=np.int64(2), callbacks=[Tell()], verbose=0
    )
    assert told == [False, True, False, True, False]
    assert {name: len(values) for name, values in history.history.items()} == {
        "loss": 5,
        "accuracy": 5,
        "val_loss": 2,
        "val_accuracy": 2,
    }
    for refused in (0, [1, 3], 1.5, 2**64):
        with pytest.raises(clique.ArgumentError, match="validation_freq: .*whole number"):
            model.fit(x, y, validation_data=(x, y), validation_freq=refused)
    with pytest.raises(clique.ArgumentError, match="must be a multiple of validation_freq=2"):
        model.fit(x, y, validation_data=(x, y), validation_freq=2, initial_epoch=1)


def test_steps_are_the_first_batches(model, x, y):
    """Like Keras's steps of arrays: in each epoch, and for more than there are, all samples."""
    history = model.fit(
        x, y, 32, 2, validation_data=(x, y, np.ones(96)), validation_steps=3, validation_batch_size=16, verbose=0
    )
    first = model.evaluate(x[:48], y[:48], batch_size=16, return_dict=True)
    assert history.history["val_loss"][-1] == pytest.approx(first["loss"], rel=1e-6)
    assert model.evaluate(x, y, 16, "auto", None, 3, return_dict=True) == first
    assert model.evaluate(x, y, steps=1000) == model.evaluate(x, y)
    assert np.array_equal(model.predict(x, 16, steps=np.int64(3)), model.predict(x[:48], 16))
    split = model.fit(x, y, 16, validation_split=0.5, validation_steps=1, verbose=0)
    first = model.evaluate(x[48:64], y[48:64])[0]
    assert split.history["val_loss"][-1] == pytest.approx(first, rel=1e-6)
    for refused in (0, 1.5, True):
        with pytest.raises(clique.ArgumentError, match="evaluate: steps: .*whole number"):
            model.evaluate(x, y, steps=refused)
        with pytest.raises(clique.ArgumentError, match="validation_steps: .*whole number"):
            model.fit(x, y, validation_data=(x, y), validation_steps=refused)
    with pytest.raises(clique.ArgumentError, match="predict: steps is for arrays; Dataset.take"):
        model.predict(clique.Dataset(x, y), steps=1)
    with pytest.raises(clique.ArgumentError, match="give validation_data, too"):
        model.fit(x, y, validation_steps=1)


def test_losses_are_what_they_say(model, x, y):
    """Compared with NumPy: the mean of -log p, and sample weights as Keras counts them."""
    p = model.predict(x)[np.arange(96), y].astype(np.float64)
    assert model.evaluate(x, y)[0] == pytest.approx(-np.log(p).mean(), rel=1e-5)
    w = RNG.random(96)
    assert model.evaluate(x, y, sample_weight=w)[0] == pytest.approx((-np.log(p) * w).mean(), rel=1e-5)
    found = model.evaluate(x, y, batch_size=7, return_dict=True)
    assert found["loss"] == pytest.approx(-np.log(p).mean(), rel=1e-5) and set(found) == {"loss", "accuracy"}


def test_arrays_of_all_types(model):
    whole = RNG.integers(0, 200, (12, *model.input_shape))
    expected = model.predict(whole.astype(np.float32) / 1)
    for kind in ("uint8", "int64", "float64", "float16"):
        np.testing.assert_array_equal(model.predict(whole.astype(kind)), expected)
    np.testing.assert_array_equal(model.predict(np.asfortranarray(whole)), expected)
    bytes_ = clique.Dataset(whole.astype(np.uint8))  # the device divides by 255
    np.testing.assert_allclose(model.predict(bytes_), model.predict(whole / np.float32(255)), rtol=1e-5)


def test_a_split_is_the_end(model, x, y):
    other = clique.Model.from_keras(model.to_json())
    other.set_weights(model.get_weights())
    other.compile("sgd:lr=0.05,momentum=0.9", "sparse_categorical_crossentropy", ["accuracy"], **QUICK)
    split = model.fit(x, y, 16, 2, validation_split=0.25, shuffle=False, verbose=0)
    given = other.fit(x[:72], y[:72], 16, 2, validation_data=(x[72:], y[72:]), shuffle=False, verbose=0)
    assert split.history == given.history
    with pytest.raises(clique.ArgumentError, match="exclude each other"):
        model.fit(x, y, validation_split=0.2, validation_data=(x, y))
    with pytest.raises(clique.ArgumentError, match="between 0 and 1"):
        model.fit(x, y, validation_split=2)


def test_shuffling_goes_by_the_seed(case, x, y):
    def losses(seed, shuffle=True):
        with clique.Model.from_keras(case.model) as model:
            model.set_weights(case.weights)
            model.compile("sgd", "sparse_categorical_crossentropy", **QUICK, seed=seed)
            first = model.fit(x, y, 32, 1, shuffle=shuffle, verbose=0).history["loss"]
            return first, model.get_weights()[0]

    (_, one), (_, again), (_, other) = losses(1), losses(1), losses(2)
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert (one != losses(1, shuffle=False)[1]).any()


class Recorder(clique.Callback):
    def __init__(self, steps=False):
        self.calls = []
        if steps:
            self.on_train_batch_end = lambda batch, logs=None: self.calls.append(("step", batch, sorted(logs)))

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_train_end(self, logs=None):
        self.calls.append("end")

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("epoch begins", epoch))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("epoch ends", epoch, sorted(logs)))


def test_callbacks_in_order(model, x, y):
    recorder = Recorder(steps=True)
    history = model.fit(x, y, 48, 4, callbacks=[recorder], initial_epoch=2, verbose=0)
    names = ["accuracy", "loss"]
    assert recorder.calls == [
        "begin",
        *[
            one
            for epoch in (2, 3)
            for one in [
                ("epoch begins", epoch),
                ("step", 0, names),
                ("step", 1, names),
                ("epoch ends", epoch, names),
            ]
        ],
        "end",
    ]
    assert history.epoch == [2, 3]
    assert recorder.params["epochs"] == 4 and recorder.model is model
    empty = model.fit(x, y, 48, 2, initial_epoch=2, verbose=0, callbacks=Recorder())
    assert empty.epoch == []


def test_hooks_that_are_not_carried(model, x, y):
    class Asks(clique.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            raise AssertionError

    with pytest.raises(clique.ArgumentError, match="Asks.on_train_batch_begin would never be called"):
        model.fit(x, y, callbacks=[Asks()])
    with pytest.raises(clique.ArgumentError, match="not int"):
        model.fit(x, y, callbacks=[3])


HOOKS = ["on_train_begin", "on_epoch_begin", "on_train_batch_end", "on_epoch_end", "on_train_end"]


@pytest.mark.parametrize("hook", HOOKS)
def test_what_a_callback_raises_ends_the_fit(model, x, y, hook):
    def fail(*_args, **_more):
        raise ZeroDivisionError(hook)

    recorder = Recorder()
    with pytest.raises(ZeroDivisionError, match=hook):
        model.fit(x, y, 32, 5, callbacks=[recorder, clique.LambdaCallback(**{hook: fail})], verbose=0)
    assert recorder.calls[-1] == "end"
    assert len(model.fit(x, y, 32, 2, verbose=0).epoch) == 2  # the model can train again


def test_stop_training(model, x, y):
    def stop(epoch, logs):
        model.stop_training = epoch == 1

    assert model.fit(x, y, 32, 9, callbacks=clique.LambdaCallback(on_epoch_end=stop), verbose=0).epoch == [0, 1]
    assert not model.stop_training
    with pytest.raises(clique.StateError, match="no fit is under way"):
        model.stop_training = True
    with pytest.raises(clique.StateError, match="a callback may not call fit"):
        model.fit(x, y, callbacks=clique.LambdaCallback(on_epoch_end=lambda *_: model.fit(x, y)), verbose=0)


def test_the_librarys_callbacks(model, x, y, tmp_path):
    stopping = clique.EarlyStopping("loss", patience=1, min_delta=10.0, restore_best_weights=True)
    plateau = clique.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=10.0)
    best, csv = tmp_path / "best.safetensors", tmp_path / "epochs.csv"
    callbacks = [plateau, clique.ModelCheckpoint(best, "loss"), clique.CSVLogger(csv), stopping, recorder := Recorder()]
    history = model.fit(x, y, 32, 9, callbacks=callbacks, verbose=0)
    assert history.epoch == [0, 1] and stopping.stopped
    assert [one for one in recorder.calls if "begins" in one[0]] == [("epoch begins", 0), ("epoch begins", 1)]
    assert stopping.best_epoch == 0 and stopping.best == pytest.approx(history.history["loss"][0])
    assert best.exists() and len(csv.read_text().splitlines()) == 3
    assert model.learning_rate == pytest.approx(0.025)  # the rate of the next update
    model.fit(x, y, 32, 1, verbose=0)
    assert model.learning_rate == pytest.approx(0.025)
    model.learning_rate = 0.04
    model.fit(x, y, 32, 2, callbacks=clique.ReduceLROnPlateau("loss", patience=1, min_delta=10.0), verbose=0)
    model.fit(x, y, 32, 1, verbose=0)
    assert model.learning_rate == pytest.approx(0.004)  # the rate that was set before does not count
    with pytest.raises(clique.ArgumentError):
        model.fit(x, y, callbacks=clique.EarlyStopping("val_loss"), verbose=0)  # val_loss is not measured
    with pytest.raises(clique.ArgumentError, match="expected auto, min or max"):
        clique.EarlyStopping(mode="least")
    by_text = model.fit(x, y, 32, 9, early_stopping="monitor=loss,min_delta=10", verbose=0)
    assert by_text.epoch == [0, 1]


def test_weights_of_classes_that_compile_is_given(case, model, x, y):
    losses = []
    for of_compile, of_fit in (({0: 1, 3: 5}, None), (None, {0: 1, 3: 5}), ({0: 1, 3: 5}, {0: 1})):
        model.compile("sgd", "sparse_categorical_crossentropy", class_weights=of_compile, **QUICK)
        model.set_weights(case.weights)
        losses.append(model.fit(x, y, 32, 1, class_weight=of_fit, shuffle=False, verbose=0).history["loss"][0])
    assert losses[0] == losses[1] != losses[2]


def test_settings_that_the_data_make(model, x, y):
    for keyword, value in (("sample_dtype", "u8"), ("sample_weights", True), ("inference_only", True)):
        with pytest.raises(clique.ArgumentError, match=keyword):
            model.compile("sgd", "sparse_categorical_crossentropy", **{keyword: value}, **QUICK)
    with pytest.raises(clique.ArgumentError, match="save_best"):
        model.fit(x, y, monitor="loss", verbose=0)


def test_learning_rates(model, x, y):
    assert model.learning_rate == 0.05
    model.learning_rate = 0.25
    assert model.learning_rate == 0.25
    told = []
    scheduler = clique.LearningRateScheduler(lambda epoch, rate: rate / 2)
    tell = clique.LambdaCallback(on_epoch_end=lambda *_: told.append(model.learning_rate))
    model.fit(x, y, 32, 3, callbacks=[scheduler, tell], verbose=0)
    np.testing.assert_allclose(told, [0.125, 0.0625, 0.03125])
    before = model.get_weights()
    model.compile("sgd:lr=0.3", "sparse_categorical_crossentropy", **QUICK)
    assert model.learning_rate == 0.3
    model.learning_rate = 0.0
    model.fit(x, y, 32, 1, verbose=0)
    for one, now in zip(before, model.get_weights()):
        np.testing.assert_array_equal(one, now)


def test_a_rate_goes_on(model, x, y):
    """The next fit continues with this fit's learning rate, with another trainer and after ReduceLROnPlateau."""
    halve = clique.LearningRateScheduler(lambda epoch, rate: rate / 2)
    model.fit(x, y, 32, 2, callbacks=halve, verbose=0)
    model.fit(x, y, 64, 1, callbacks=halve, verbose=0)  # a larger batch needs another trainer
    assert model.learning_rate == pytest.approx(0.05 / 8)
    plateau = clique.ReduceLROnPlateau("loss", factor=0.1, patience=1, min_delta=10.0)
    model.learning_rate = 0.1
    same = clique.LearningRateScheduler(lambda epoch, rate: rate)
    model.fit(x, y, 32, 2, callbacks=[plateau, same], verbose=0)
    assert model.learning_rate == pytest.approx(0.01)
    model.fit(x, y, 32, 1, verbose=0)
    assert model.learning_rate == pytest.approx(0.01)


def test_a_reader_follows_the_fit(model, x, y):
    """While bytes are trained, another trainer predicts floats: it gets the weights of each epoch."""
    data = clique.Dataset((x * 255).astype(np.uint8), y)
    few, seen = x[:8], []

    def expected():
        first, a, second, b = (one.astype(np.float64) for one in model.get_weights())
        hidden = np.maximum(few.reshape(8, -1) @ first + a, 0)
        logits = hidden @ second + b
        e = np.exp(logits - logits.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def look(epoch, logs):
        seen.append(model.predict(few))
        np.testing.assert_allclose(seen[-1], expected(), rtol=1e-4, atol=1e-6)

    model.fit(data, batch_size=32, epochs=3, callbacks=clique.LambdaCallback(on_epoch_end=look), verbose=0)
    assert len(seen) == 3 and (seen[0] != seen[1]).any() and (seen[1] != seen[2]).any()
    model.fit(data, batch_size=32, verbose=0)
    np.testing.assert_allclose(model.predict(few), expected(), rtol=1e-4, atol=1e-6)
    assert (model.predict(few) != seen[2]).any()


def test_data_without_labels(model, x, y):
    line = "the samples have no labels"
    for work in (model.fit, model.evaluate):
        for given in (x, clique.Dataset(x)):
            with pytest.raises(clique.ArgumentError, match=line):
                work(given)
    with pytest.raises(clique.ArgumentError, match=f"validation_data: {line}"):
        model.fit(x, y, validation_data=(x,))
    assert model.predict(clique.Dataset(x)).shape == (96, 10)


def test_validation_data(model, x, y):
    given = {"epochs": 1, "shuffle": False, "verbose": 0}
    one = model.fit(x, y, 32, validation_data=[x[:20], y[:20]], validation_batch_size=7, **given)
    assert one.history["val_loss"][0] == pytest.approx(model.evaluate(x[:20], y[:20])[0], rel=1e-5)
    with pytest.raises(clique.ArgumentError, match="not 4 members"):
        model.fit(x, y, validation_data=(x, y, y, y))


def test_keras_places(model, x, y):
    assert model.evaluate(x, y, 32, 0) == model.evaluate(x, y, verbose=0)
    np.testing.assert_array_equal(model.predict(x, 32, 0), model.predict(x, verbose=0))


@pytest.mark.parametrize("work", ["evaluate", "predict"])
def test_the_trained_data_in_callbacks(model, x, y, work):
    """The callback does not change the fit's batches, nor their order."""
    other = clique.Model.from_keras(model.to_json())
    other.set_weights(model.get_weights())
    other.compile("sgd:lr=0.05,momentum=0.9", "sparse_categorical_crossentropy", ["accuracy"], **QUICK)
    shuffle = work == "evaluate"
    data = clique.Dataset(x, y)
    ask = clique.LambdaCallback(on_train_batch_end=lambda *_: getattr(model, work)(data, batch_size=7))
    given = {"batch_size": 32, "epochs": 3, "shuffle": shuffle, "verbose": 0}
    assert model.fit(data, callbacks=ask, **given).history == other.fit(clique.Dataset(x, y), **given).history
    assert_same(model, other)
    with pytest.raises(clique.StateError, match="shuffles it"):
        ask = clique.LambdaCallback(on_epoch_end=lambda *_: model.predict(data))
        model.fit(data, batch_size=32, callbacks=ask, verbose=0)
    with pytest.raises(clique.StateError, match="leaves its last samples out"):
        ask = clique.LambdaCallback(on_epoch_end=lambda *_: model.evaluate(data))
        model.fit(data, batch_size=40, callbacks=ask, drop_remainder=True, verbose=0)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_cut_training_goes_on(case, x, y, tmp_path, fresh):
    """A fit that was cut in the middle of an epoch, after another fit, resumes bit for bit. Callbacks get the right
    epoch and batch."""

    def make():
        made = clique.Model.from_keras(case.model)
        made.set_weights(case.weights)
        made.compile("sgd:lr=0.05,momentum=0.9", "sparse_categorical_crossentropy", ["accuracy"], **QUICK, seed=5)
        return made

    class Stop(clique.Callback):
        def __init__(self):
            self.steps = 0

        def on_train_batch_end(self, batch, logs=None):
            self.steps += 1
            if self.steps == 8:  # an epoch has 6 steps
                raise KeyboardInterrupt

    whole, cut = make(), make()
    rates = clique.LearningRateScheduler(lambda epoch, rate: rate / 2)
    whole.fit(x, y, 16, 4, callbacks=rates, verbose=0)
    folder = tmp_path / "checkpoints"
    with pytest.raises(KeyboardInterrupt):
        cut.fit(x, y, 16, 4, callbacks=[rates, Stop()], checkpoint=folder, verbose=0)
    if fresh:
        cut = make()
    told = Recorder(steps=True)
    cut.fit(x, y, 16, 4, callbacks=[rates, told], checkpoint=folder, resume=True, verbose=0)
    assert_same(whole, cut)
    assert cut.learning_rate == whole.learning_rate == 0.05 / 16
    assert told.calls[:3] == ["begin", ("epoch begins", 1), ("step", 2, ["accuracy", "loss"])]
    assert [one for one in told.calls if one[0] == "epoch ends"][0][1] == 1


def test_what_a_callback_may_not(model, x, y):
    model.fit(x, y, 32, verbose=0)
    for forbidden in (
        lambda: model.compile("sgd", "sparse_categorical_crossentropy"),
        model.close,
        model.swap_average,
        lambda: model.freeze("dense"),
    ):
        with pytest.raises(clique.StateError):
            model.fit(x, y, callbacks=clique.LambdaCallback(on_epoch_end=lambda *_: forbidden()), verbose=0)
    assert len(model.fit(x, y, 32, 2, verbose=0).epoch) == 2


def test_what_a_callback_closes(model, x, y):
    """A closed object is destroyed after the fit."""
    data, best = clique.Dataset(x, y), clique.EarlyStopping("loss")

    def close(*_):
        data.close()
        best.close()
        with pytest.raises(clique.StateError, match="this Dataset is closed"):
            len(data)

    closes = clique.LambdaCallback(on_train_begin=close)
    with pytest.raises(clique.StateError, match="this EarlyStopping is closed"):
        model.fit(data, batch_size=32, epochs=2, callbacks=[best, closes], verbose=0)


def test_ctrl_c_in_a_callbacks_work(model, x, y):
    few = (x[:8], y[:8])
    for work in (
        lambda: model.evaluate(*few),
        lambda: model.evaluate(*few, sample_weight=np.ones(8)),  # needs another trainer
        lambda: time.sleep(30),
    ):

        def interrupt(*_):
            timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            while timer.is_alive():
                work()
            for _ in range(1000):
                work()

        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            model.fit(x, y, 32, 1000, callbacks=clique.LambdaCallback(on_epoch_end=interrupt), verbose=0)
        assert time.monotonic() - began < 29
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert len(model.fit(x, y, 32, 2, verbose=0).epoch) == 2


def test_hooks_of_objects(model, x, y):
    told = []

    class Own(clique.Callback):
        def set_model(self, given):
            told.append(given)
            super().set_model(given)

        def set_params(self, params):
            told.append(sorted(params))

    one = Own()
    one.on_train_batch_end = lambda batch, logs=None: told.append(batch)
    model.fit(x, y, 48, 1, callbacks=one, verbose=0)
    assert told == [["epochs", "steps", "verbose"], model, 0, 1]


def test_weights_of_callbacks(model, x, y):
    zeros = [np.zeros_like(one) for one in model.get_weights()]

    def reset(*_):
        model.set_weights(zeros)
        assert all((one == 0).all() for one in model.get_weights())

    model.fit(x, y, 32, 2, callbacks=clique.LambdaCallback(on_epoch_end=reset), verbose=0)
    assert all((one == 0).all() for one in model.get_weights())


def test_a_new_trainer_keeps_the_optimizers_state(case, x, y):
    """A larger batch, or sample weights, need another trainer, which takes over the momentum."""
    kept = [clique.Model.from_keras(case.model) for _ in range(2)]
    for i, model in enumerate(kept):
        model.set_weights(case.weights)
        model.compile("sgd:lr=0.05,momentum=0.9", "sparse_categorical_crossentropy", **QUICK)
        if i == 0:
            model._batch = 96  # so that one trainer serves both fits
            model._to_train(clique.Dataset(x, y), 96, True, None)
        model.fit(x, y, 32, 1, shuffle=False, verbose=0)
        model.fit(x, y, 96, 2, shuffle=False, sample_weight=np.ones(96), verbose=0)
    for one, another in zip(*(model.get_weights() for model in kept)):
        np.testing.assert_allclose(one, another, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("where", ["step", "thread"])
def test_ctrl_c(model, x, y, tmp_path, where):
    handler = signal.getsignal(signal.SIGINT)
    folder = tmp_path / "checkpoints"

    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.5, interrupt)
    callbacks = [clique.LambdaCallback(on_train_batch_end=interrupt)] if where == "step" else []
    if where == "thread":
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, 32, 1000000, callbacks=callbacks, checkpoint=folder, verbose=0)
    timer.cancel()
    assert signal.getsignal(signal.SIGINT) is handler
    assert list(folder.glob("step-*"))
    assert all(np.isfinite(one).all() for one in model.get_weights())
    model.fit(x, y, 32, 1, verbose=0)


@pytest.mark.parametrize("work", ["evaluate", "predict"])
def test_ctrl_c_in_other_work(model, work):
    many = clique.Dataset(np.zeros((400000, *model.input_shape), np.uint8), np.zeros(400000, int))
    ask = {"evaluate": model.evaluate, "predict": model.predict}[work]
    few = np.zeros((3, *model.input_shape), np.float32)
    expected = model.predict(few)
    ask(clique.Dataset(np.zeros((1, *model.input_shape), np.uint8), np.zeros(1, int)), batch_size=1)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ask(many, batch_size=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    np.testing.assert_array_equal(model.predict(few), expected)


def test_a_stop_that_came_late(model, x, y):
    """The stopped trainer would end its next work, so another one takes over, with the optimizer's state."""
    model.fit(x, y, 32, 1, shuffle=False, verbose=0)
    clique._loaded.trainer_stop(model._trainer.pointer)
    model._trainer.stopped = True
    assert model.predict(x).shape == (96, 10)
    assert len(model.fit(x, y, 32, 2, shuffle=False, verbose=0).epoch) == 2
    assert not model._trainer.stopped


def test_checkpoints_go_on(case, model, x, y, tmp_path):
    whole = model.fit(x, y, 32, 4, verbose=0)
    folder = tmp_path / "checkpoints"
    cut = []
    for epochs in (2, 4):
        other = clique.Model.from_keras(case.model)
        if not cut:
            other.set_weights(case.weights)
        other.compile("sgd:lr=0.05,momentum=0.9", "sparse_categorical_crossentropy", ["accuracy"], **QUICK)
        cut.append(other.fit(x, y, 32, epochs, checkpoint=folder, resume=bool(cut), verbose=0))
    assert_same(model, other)
    assert cut[1].history["loss"][-2:] == whole.history["loss"][-2:]
    with pytest.raises(clique.ArgumentError, match="resume"):
        other.fit(x, y, 32, 1, checkpoint=folder)


def test_settings(case, x, y):
    with clique.Model.from_keras(case.model) as model:
        loss = "sparse_categorical_crossentropy"
        two = {**QUICK, "devices": "pocl:0,pocl:1"}
        model.compile("adam", loss, **two, strategy="mirrored", shard_optimizer=True, clip="norm=1")
        model.fit(x, y, 32, 1, verbose=0)
        assert [share for _, share in model.replicas()] == [16, 16]
        with pytest.raises(clique.ArgumentError, match="shard-optimizer"):
            model.compile("adam", loss, shard_optimiser=True)
        with pytest.raises(clique.ArgumentError, match="clip"):
            model.compile("adam", loss, clip="nrom=1")
        with pytest.raises(clique.ArgumentError, match="epochs is a setting of fit"):
            model.compile("adam", loss, epochs=3)
        with pytest.raises(clique.ArgumentError, match="a loss is needed"):
            model.compile("adam")
        with pytest.raises(clique.ArgumentError, match="sparse_categorical_crossentropy"):
            model.compile("adam", "sparse_categorical_crossentropi")
        with pytest.raises(clique.ArgumentError, match="no output 'other', only"):
            model.compile("adam", {"other": loss})
    with clique.Model.from_keras(case.model) as model:
        with pytest.raises(clique.StateError, match="call compile first"):
            model.fit(x, y)


def test_a_trainer_that_fails(model, x, y, tmp_path):
    before = model.get_weights()
    model.save_weights(tmp_path / "before.safetensors")
    loss = "sparse_categorical_crossentropy"
    for give in (lambda: model.set_weights(before), lambda: model.load_weights(tmp_path / "before.safetensors")):
        model.compile("sgd:lr=1e6", loss, **QUICK, check_numerics=True)
        with pytest.raises(clique.NotFiniteError):
            model.fit(x * 1e30, y, 32, 9, verbose=0)
        with pytest.raises(clique.StateError, match="the weights are lost"):
            model.get_weights()
        with pytest.raises(clique.StateError, match="the weights are lost"):
            model.fit(x, y, verbose=0)
        give()
        for one, now in zip(before, model.get_weights()):
            np.testing.assert_array_equal(one, now)
        model.compile("sgd", loss, **QUICK)
        model.fit(x, y, 32, 1, verbose=0)
        model.set_weights(before)


def test_batches_by_replica(case, x, y):
    with clique.Model.from_keras(case.model) as model:
        loss = "sparse_categorical_crossentropy"
        model.compile("sgd", loss, **{**QUICK, "devices": "pocl:0,pocl:1"}, batch_per_replica=12)
        assert model.fit(x, y, verbose=0).params["steps"] == 4
        assert [share for _, share in model.replicas()] == [12, 12]
        with pytest.raises(clique.ArgumentError, match="exclude each other"):
            model.compile("sgd", loss, batch=8, batch_per_replica=4)


def test_averages(model, x, y):
    """Computed by hand: average = 0.5 * average + 0.5 * weights after each update, from the first weights on."""
    model.compile("sgd:lr=0.05", "sparse_categorical_crossentropy", **QUICK, ema=0.5)
    with pytest.raises(clique.StateError):
        model.swap_average()
    seen = []
    tell = clique.LambdaCallback(on_train_batch_end=lambda *_: seen.append(model.get_weights()[0]))
    model.fit(x, y, 32, 1, callbacks=tell, verbose=0)
    average = seen[0]
    for one in seen[1:]:
        average = 0.5 * average + 0.5 * one
    model.swap_average()
    np.testing.assert_allclose(model.get_weights()[0], average, rtol=1e-5, atol=1e-7)
    model.swap_average()
    np.testing.assert_array_equal(model.get_weights()[0], seen[-1])


def test_labels_that_do_not_fit(model, x, y):
    with pytest.raises(clique.CliqueError, match="10"):
        model.fit(x, y + 90, verbose=0)
    with pytest.raises(clique.MismatchError):
        model.fit(x[:, :3], y, verbose=0)


def test_closing(model, x, y):
    model.fit(x, y, 32, 1, verbose=0)
    model.close()
    model.close()
    with pytest.raises(clique.StateError, match="closed"):
        model.predict(x)
    other = clique.Model.from_name("mlp")
    own = {**QUICK, "devices": clique.System().select("pocl:0")}  # from a system that no other object keeps
    other.compile("sgd", "sparse_categorical_crossentropy", **own)
    del own
    other.fit(np.zeros((8, 28, 28), np.float32), np.zeros(8, int), verbose=0)
    del other
    gc.collect()


def test_two_threads_take_turns(model, x, y):
    failures = []

    def predict():
        try:
            for _ in range(5):
                assert model.predict(x).shape == (96, 10)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=predict) for _ in range(2)]
    for one in threads:
        one.start()
    model.fit(x, y, 32, 3, verbose=0)
    for one in threads:
        one.join()
    assert not failures
