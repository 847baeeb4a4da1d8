"""Measures TensorFlow for clique bench peers: Keras's fit. Prints the result on stdout as one line of JSON.

usage: peer_tensorflow.py probe
       peer_tensorflow.py train RANKS MODEL BATCH SAMPLES EPOCHS THREADS    RANKS 1: the CPU as it is; else MirroredStrategy
                                                                            over RANKS logical CPUs
                                                                            MODEL: a name, or a model of Keras's as .json
"""
import importlib.util
import json
import os
import sys
import time


def rank_of(sorted_values, percent):
    """Nearest rank."""
    return sorted_values[max((len(sorted_values) * percent + 99) // 100, 1) - 1]


def build(keras, name):
    conv, pool = keras.layers.Conv2D, keras.layers.MaxPooling2D
    torso = {"mlp": lambda: [keras.layers.Flatten(), keras.layers.Dense(128, "relu")],
             "cnn": lambda: [conv(32, 3, activation="relu"), pool(2), conv(64, 3, activation="relu"), pool(2), keras.layers.Flatten()],
             "cnn1": lambda: [conv(32, 3, activation="relu"), pool(2), keras.layers.Flatten()]}
    if name.endswith(".json"):
        model = read(keras, name)
    elif name in torso:
        model = keras.Sequential([keras.Input((28, 28, 1)), *torso[name](), keras.layers.Dense(10)])
    else:
        sys.exit(f"there is no model {name} here")
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def read(keras, path):
    """Reads the model without its final softmax, which the loss computes."""
    with open(path, encoding="utf-8") as file:
        model = json.load(file)
    last = model["config"]["layers"][-1]
    if last["config"].get("activation") == "softmax":
        last["config"]["activation"] = "linear"
    elif last["class_name"] == "Softmax":
        last.update(class_name="Activation", config={"name": last["config"]["name"], "activation": "linear"})
    return keras.models.model_from_json(json.dumps(model))


def train(ranks, name, batch, samples, epochs, threads):
    import contextlib
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(max(ranks, threads))
    tf.config.set_visible_devices([], "GPU")
    strategy = None
    if ranks > 1:
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                                   [tf.config.LogicalDeviceConfiguration()] * ranks)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(ranks)])
    tf.keras.utils.set_random_seed(0)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = build(tf.keras, name)
    shape, classes = model.input_shape[1:], model.output_shape[-1]
    data = tf.data.Dataset.from_tensor_slices((tf.random.uniform((samples, *shape)), tf.random.uniform((samples,), 0, classes, tf.int32)))
    data = data.cache().shuffle(samples, seed=0).batch(batch).prefetch(tf.data.AUTOTUNE)
    seconds = []

    class Clock(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            seconds.append(time.perf_counter() - self.start)

    model.fit(data, epochs=1 + epochs, verbose=0, callbacks=[Clock()])
    rates = sorted(samples / s for s in seconds[1:])
    print(json.dumps({"version": tf.__version__, "images_per_s": rank_of(rates, 50), "images_per_s_least": rates[0],
                      "images_per_s_most": rates[-1]}), flush=True)


def main():
    what, *args = sys.argv[1:]
    if what == "probe":
        print(json.dumps({"installed": importlib.util.find_spec("tensorflow") is not None}))
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    ranks, name, rest = int(args[0]), args[1], list(map(int, args[2:]))
    train(ranks, name, *rest)


if __name__ == "__main__":
    main()
