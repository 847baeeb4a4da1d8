"""Small .keras files as Keras 3 saves them, with their models' predictions for some samples.

    python keras_files.py [NAME …]           writes keras_files/, or those alone
    python keras_files.py --check FOLDER     loads the .keras files that another program saved into the folder, and compares
                                             predictions; of NAME.weights.h5 it loads the weights into the model of NAME

Uses the JAX backend. NAME.safetensors has `x`, and `y`, the predictions for x, in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"

import keras
import numpy as np
from keras import layers

HERE = Path(__file__).parent / "keras_files"
SAMPLES = 2


def images() -> keras.Model:
    """Several layers of one class, names in another order than the layers, a frozen layer, an optimizer."""
    x = inputs = keras.Input((6, 6, 2), name="zebra")
    x = layers.Conv2D(3, 3, name="yak")(x)
    x = layers.BatchNormalization(name="ape")(x)
    x = layers.Conv2D(4, 3, activation="relu", name="bear", trainable=False)(x)
    x = layers.SeparableConv2D(3, 2, name="ant")(x)
    x = layers.Flatten()(x)
    x = layers.Dropout(0.5)(x)
    x = layers.Dense(5, activation="tanh", name="newt")(x)
    x = layers.Dense(3, activation="softmax", name="cat")(x)
    model = keras.Model(inputs, x, name="images")
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def nested() -> keras.Model:
    """Models within the model, one of them used twice; a layer that is applied twice; a function of keras.ops in
    between."""
    tower = keras.Sequential([keras.Input((4,)), layers.Dense(5, activation="relu"), layers.Dense(3)], name="tower")
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    inner_in = keras.Input((3,))
    inner = keras.Model(inner_in, layers.Dense(2, name="last")(layers.Dense(3, name="first")(inner_in)), name="inner")
    shared = layers.Dense(4, name="shared")
    joined = keras.ops.add(tower(shared(a)), tower(shared(b)))
    return keras.Model([a, b], layers.Dense(2, name="top")(inner(joined)), name="nested")


def sequences() -> keras.Model:
    """Layers that contain layers."""
    x = inputs = keras.Input((5, 4))
    normal = layers.Normalization(name="scaled")
    normal.build((None, 5, 4))
    x = normal(x)
    x = layers.MultiHeadAttention(2, 3, name="look")(x, x)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True, name="memory"), name="both")(x)
    x = layers.TimeDistributed(layers.Dense(4), name="each")(x)
    x = layers.LayerNormalization()(x)
    x = layers.GRU(3, name="late")(x)
    return keras.Model(inputs, layers.Dense(2)(x), name="sequences")


def block() -> keras.Model:
    """A layer of keras_hub, whose inner layers are attributes."""
    import keras_hub

    x = inputs = keras.Input((5, 4))
    x = keras_hub.layers.TransformerEncoder(6, 2, name="encoder")(x)
    return keras.Model(inputs, layers.Dense(2)(x), name="block")


def blocks() -> keras.Model:
    """Layers of keras_hub that have their own variables, and layers without names."""
    from keras_hub.src.models.deberta_v3.disentangled_attention_encoder import DisentangledAttentionEncoder
    from keras_hub.src.models.deberta_v3.relative_embedding import RelativeEmbedding
    from keras_hub.src.models.siglip.siglip_layers import SigLIPMultiHeadAttentionPooling
    from keras_hub.src.models.t5.t5_transformer_layer import T5TransformerLayer
    from keras_hub.src.models.vit.vit_layers import ViTPatchingAndEmbedding

    inputs = keras.Input((8, 8, 3))
    x = ViTPatchingAndEmbedding((8, 8), (4, 4), 4, name="patches")(inputs)
    mask = x[:, :, 0] > -9.0
    x = DisentangledAttentionEncoder(5, 2, max_position_embeddings=9, bucket_size=4, name="disentangled")(
        x, rel_embeddings=RelativeEmbedding(4, 4, name="rows")(x), padding_mask=mask)  # fmt: skip
    x, _ = T5TransformerLayer(False, 4, 5, 3, 0.0, "relu", 1e-6, 2, use_relative_attention_bias=True, name="t5")(x)
    x = SigLIPMultiHeadAttentionPooling(4, 5, 2, "gelu", name="pooled")(x)
    return keras.Model(inputs, layers.Dense(2)(x), name="blocks")


def backbone() -> keras.Model:
    """A keras_hub model as keras_hub saves it: class name and hyper-parameters."""
    from keras_hub.src.models.gpt2.gpt2_backbone import GPT2Backbone

    return GPT2Backbone(vocabulary_size=7, num_layers=2, num_heads=2, hidden_dim=4, intermediate_dim=5, max_sequence_length=6, name="backbone")


def table() -> keras.Model:
    """The same, with a block that has its own variable."""
    from keras_hub.src.models.deberta_v3.deberta_v3_backbone import DebertaV3Backbone

    return DebertaV3Backbone(vocabulary_size=7, num_layers=1, num_heads=2, hidden_dim=4, intermediate_dim=5, max_sequence_length=9, bucket_size=4, name="table")


def heads() -> keras.Model:
    """Attention whose parts have their own names in the file, kernels that start as waves, and steps of volumes."""
    x = keras.Input((8, 4), name="x")
    y = layers.GroupQueryAttention(2, 4, 2, use_gate=True)(x, x)
    y = layers.MultiHeadAttention(2, 2, use_gate=True, sliding_window=3)(y, y)
    waves = layers.Flatten()(layers.STFTSpectrogram(frame_length=4)(y))
    steps = layers.Flatten()(layers.ConvLSTM3D(1, 2, padding="same")(layers.Reshape((2, 2, 2, 2, 2))(y)))
    return keras.Model(x, layers.Dense(3)(layers.Concatenate()([waves, steps])), name="heads")


MODELS = {"images": images, "nested": nested, "sequences": sequences, "block": block, "blocks": blocks, "backbone": backbone, "table": table, "heads": heads}
BACKBONES = ("backbone", "table")
TOKENS = 4  # per text


def write_safetensors(path: Path, arrays: dict[str, np.ndarray]) -> None:
    header, data = {}, b""
    for name, values in arrays.items():
        raw = np.ascontiguousarray(values, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(raw[8 + length :][slice(*info["data_offsets"])], np.float32).reshape(info["shape"])
        for name, info in header.items()
    }


def predict(model: keras.Model, x: np.ndarray) -> np.ndarray:
    """x: all inputs of a sample, concatenated in the order of their names."""
    if model.name in BACKBONES:
        return np.asarray(model({"padding_mask": x[:, :TOKENS].astype(int), "token_ids": x[:, TOKENS:].astype(int)}, training=False))
    parts, at = [], 0
    for shape in [i.shape[1:] for i in model.inputs]:
        size = int(np.prod(shape))
        parts.append(x[:, at : at + size].reshape(len(x), *shape))
        at += size
    return np.asarray(model(parts if len(parts) > 1 else parts[0], training=False))


def write(names: list[str]) -> None:
    HERE.mkdir(exist_ok=True)
    for number, (name, make) in enumerate(MODELS.items()):
        if names and name not in names:
            continue
        keras.utils.set_random_seed(number)
        keras.utils.clear_session()
        model = make()
        rng = np.random.default_rng(number)
        for v in model.variables:
            if "float" in v.dtype:  # other values than the defaults, so that ignoring a variable shows
                low, high = (0.5, 1.5) if v.name in ("moving_variance", "variance", "gamma") else (-0.7, 0.7)
                v.assign(rng.uniform(low, high, v.shape).astype(np.float32))
        if name in BACKBONES:
            x = np.array([[1, 1, 1, 1, 3, 0, 6, 2], [1, 1, 1, 0, 5, 1, 1, 4]], np.float32)
        else:
            x = rng.uniform(-1, 1, (SAMPLES, sum(int(np.prod(i.shape[1:])) for i in model.inputs))).astype(np.float32)
        if hasattr(model, "get_layer") and name == "sequences":
            model.get_layer("scaled").finalize_state()
        model.save(HERE / f"{name}.keras")
        write_safetensors(HERE / f"{name}.safetensors", {"x": x, "y": predict(model, x)})
    if not names:
        write_bfloat()


def write_bfloat() -> None:
    """16-bit weights: (0, 1, …) / 4 - 1/2, and the biases 1 and -2.5, which bfloat16 represents exactly."""
    keras.utils.clear_session()
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2, dtype="bfloat16", name="yak")], name="bfloat")
    model.set_weights([np.arange(6, dtype=np.float32).reshape(3, 2) / 4 - 0.5, np.array([1, -2.5], np.float32)])
    model.save_weights(HERE / "bfloat.weights.h5")


def check(folder: Path) -> int:
    worst = {}
    for path in sorted(folder.glob("*.keras")) + sorted(folder.glob("*.weights.h5")):
        name = path.name.split(".")[0]
        if name not in MODELS:
            continue
        model = keras.models.load_model(path if path.suffix == ".keras" else HERE / f"{name}.keras")
        if path.suffix != ".keras":
            for v in model.variables:
                v.assign(np.zeros(v.shape, v.dtype))
            model.load_weights(path)
        wanted = read_safetensors(HERE / f"{name}.safetensors")
        worst[path.name] = float(np.abs(predict(model, wanted["x"]) - wanted["y"]).max())
    for name, difference in worst.items():
        print(f"{name}: predictions differ by {difference:.1e}")
    return 0 if worst and max(worst.values()) < 1e-6 else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--check", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    sys.exit(check(options.check) if options.check else write(options.names))
