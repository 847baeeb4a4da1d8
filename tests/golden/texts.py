"""Models of texts, from (context) tokens to (context, vocabulary), with layers of Keras and keras_hub: texts.json.

    KERAS_BACKEND=jax python texts.py

`tests/interop/test_generator.c` generates text with them token by token, and compares with the results of the whole
window. `cached` tells whether each layer computes a token only from the tokens before it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import keras
import keras_hub
from keras import layers as kl
from keras import ops

CONTEXT, VOCABULARY, WIDTH = 12, 11, 16
Tensor = keras.KerasTensor
TABLE = Path(__file__).parent / "texts.json"


def decoder(path: str, **options: object) -> kl.Layer:
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(f"keras_hub.src.models.{module}"), name)
    made = kind(num_query_heads=4, num_key_value_heads=2, **options)
    made.rope_scaling_factor = 1.0  # Llama's configuration needs this attribute, which the layer lacks
    return made


def llama(x: Tensor) -> Tensor:
    x = kl.ReversibleEmbedding(VOCABULARY, WIDTH, name="tokens")(x)
    for i in range(2):
        x = decoder("llama.llama_decoder.LlamaTransformerDecoder", intermediate_dim=24, name=f"block_{i}")(x)
    return kl.Dense(VOCABULARY, use_bias=False, name="logits")(x)


def mistral(x: Tensor) -> Tensor:
    x = kl.Embedding(VOCABULARY, WIDTH, name="tokens")(x)
    kind = "mistral.mistral_transformer_decoder.MistralTransformerDecoder"
    x = decoder(kind, intermediate_dim=24, sliding_window=3, name="block")(x)
    return kl.Softmax(name="probabilities")(kl.Dense(VOCABULARY, name="logits")(x))


def gpt2(x: Tensor) -> Tensor:
    x = keras_hub.layers.TokenAndPositionEmbedding(VOCABULARY, CONTEXT + 3, WIDTH, name="tokens")(x)
    for i in range(2):
        x = keras_hub.layers.TransformerDecoder(20, 2, activation="gelu", normalize_first=True, name=f"block_{i}")(x)
    return kl.Dense(VOCABULARY, activation="softmax", name="probabilities")(kl.LayerNormalization(name="norm")(x))


def counted(x: Tensor) -> Tensor:
    """Positions as sums of ones, instead of a position layer; Keras's attention, and a gate."""
    places = ops.cumsum(ops.ones_like(x), axis=1) - 1
    x = kl.Embedding(VOCABULARY, WIDTH, name="tokens")(x) + kl.Embedding(CONTEXT, WIDTH, name="places")(places)
    y = kl.MultiHeadAttention(2, 8, dropout=0.1, name="attention")(x, x, use_causal_mask=True)
    y = kl.Concatenate(name="both")([kl.Dropout(0.1, name="dropped")(y), kl.RMSNormalization(name="rms")(x)])
    y = kl.Multiply(name="gated")([kl.Dense(24, name="inner")(y), kl.Dense(24, activation="silu", name="gate")(y)])
    return kl.Dense(VOCABULARY, name="logits")(kl.ReLU(name="bent")(y))


def grouped(x: Tensor) -> Tensor:
    """Queries that share keys and values, only of the last tokens, and with a gate; then each query with its own keys
    and values."""
    x = kl.Embedding(VOCABULARY, WIDTH, name="tokens")(x)
    y = kl.GroupQueryAttention(4, 4, 2, sliding_window=4, use_gate=True, name="shared")(x, x, use_causal_mask=True)
    x = kl.LayerNormalization(name="norm")(kl.Add(name="sum")([x, y]))
    y = kl.MultiHeadAttention(2, 8, sliding_window=3, use_gate=True, name="gated")(x, x, use_causal_mask=True)
    return kl.Dense(VOCABULARY, name="logits")(kl.Add(name="both")([x, y]))


def convolved(x: Tensor) -> Tensor:
    x = kl.Embedding(VOCABULARY, WIDTH, name="tokens")(x)
    return kl.Dense(VOCABULARY, name="logits")(kl.Conv1D(WIDTH, 3, padding="causal", name="convolution")(x))


MODELS: tuple[tuple[Callable[[Tensor], Tensor], bool], ...] = (
    (llama, True), (mistral, True), (gpt2, True), (counted, True), (convolved, False), (grouped, True))  # fmt: skip


def main() -> None:
    rows = []
    for build, cached in MODELS:
        tokens = keras.Input((CONTEXT,), name="text")
        model = keras.Model(tokens, build(tokens), name=build.__name__)
        rows.append({"name": build.__name__, "cached": cached, "model": json.loads(model.to_json())})
    TABLE.write_text(json.dumps({"keras": keras.__version__, "models": rows}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
