"""Backbones of keras_hub by class name and hyper-parameters, with their outputs for some texts.

`python backbones.py` writes backbones.json. For each backbone, the file has: what keras_hub saves, variables under
Clique's names, samples (all inputs concatenated in the order of their names; the second text ends in padding), and
outputs in the order of their names, computed in float64 by the JAX backend from float32 variables. Needs keras-hub.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"

import keras
import numpy as np

from variables import names_of

VOCABULARY, TOKENS = 7, 5
COMMON = {"vocabulary_size": VOCABULARY, "num_layers": 2, "hidden_dim": 8, "intermediate_dim": 5}
HEADS = COMMON | {"num_heads": 2}
PLACES = HEADS | {"max_sequence_length": 6}
SHARED = COMMON | {"num_query_heads": 4, "num_key_value_heads": 2}
# Hyper-parameters for which Clique has defaults have other values here, or are missing in a second backbone of the
# class.
BACKBONES: list[tuple[str, str, dict]] = [
    ("llama", "LlamaBackbone", SHARED | {"rope_max_wavelength": 50, "layer_norm_epsilon": 0.1}),
    ("llama3", "Llama3Backbone", SHARED),
    ("mistral", "MistralBackbone", SHARED | {"sliding_window": 2, "rope_scaling_factor": 2.0, "head_dim": 4}),
    ("qwen", "QwenBackbone", SHARED | {"use_sliding_window_attention": True, "sliding_window_size": 5, "tie_word_embeddings": False}),
    ("qwen3", "Qwen3Backbone", SHARED | {"head_dim": 4, "sliding_window_size": 5, "rope_scaling_factor": 2.0}),
    ("phi3", "Phi3Backbone", SHARED | {"layer_norm_epsilon": 0.1, "rope_max_wavelength": 50}),
    ("gpt2", "GPT2Backbone", PLACES),
    ("opt", "OPTBackbone", PLACES),
    ("gpt_neo_x", "GPTNeoXBackbone", PLACES | {"rotary_percentage": 0.5, "rotary_max_wavelength": 50, "layer_norm_epsilon": 0.1}),
    ("bloom", "BloomBackbone", HEADS | {"layer_norm_epsilon": 0.1}),
    ("falcon", "FalconBackbone", COMMON | {"num_attention_heads": 2}),
    ("gemma", "GemmaBackbone", SHARED | {"num_layers": 3, "head_dim": 4, "use_sliding_window_attention": True, "sliding_window_size": 2,
                                         "use_post_ffw_norm": True, "use_post_attention_norm": True, "attention_logit_soft_cap": 2.0,
                                         "query_head_dim_normalize": False, "final_logit_soft_cap": 3.0}),
    ("f_net", "FNetBackbone", COMMON | {"max_sequence_length": 6, "num_segments": 3}),
    ("bert", "BertBackbone", PLACES | {"num_segments": 3}),
    ("roberta", "RobertaBackbone", PLACES),
    ("xlm_roberta", "XLMRobertaBackbone", PLACES),
    ("distil_bert", "DistilBertBackbone", PLACES),
    ("deberta_v3", "DebertaV3Backbone", PLACES | {"max_sequence_length": 9, "bucket_size": 4}),
]  # fmt: skip


def inputs_of(model: keras.Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    every = {
        "padding_mask": np.array([[1] * TOKENS, [1] * (TOKENS - 2) + [0] * 2]),
        "segment_ids": rng.integers(0, 3, (2, TOKENS)),
        "token_ids": rng.integers(0, VOCABULARY, (2, TOKENS)),
    }
    return {name: every[name] for name in sorted(i.name for i in model.inputs)}


def run(folder: str, class_name: str, options: dict, seed: int) -> dict:
    keras.utils.clear_session()
    made = getattr(importlib.import_module(f"keras_hub.src.models.{folder}.{folder}_backbone"), class_name)(**options)
    rng = np.random.default_rng(seed)
    for v in made.variables:
        if "float" in v.dtype:
            low, high = (0.5, 1.5) if v.name in ("gamma", "scale") else (-0.7, 0.7)
            v.assign(np.round(rng.uniform(low, high, v.shape), 3).astype(np.float32))
    given = inputs_of(made, rng)
    outputs = made(given, training=False)
    outputs = [outputs[name] for name in sorted(outputs)] if isinstance(outputs, dict) else [outputs]
    names = names_of(made)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(made)))
    config["config"].pop("dtype")  # float64
    return {
        "name": folder,
        "model": {key: config[key] for key in ("module", "class_name", "config")},
        "variables": {names[id(v)]: np.asarray(v).ravel().astype(float).round(3).tolist() for v in made.variables if "float" in v.dtype},
        "samples": np.concatenate(list(given.values()), axis=1).ravel().tolist(),
        "outputs": [[float(f"{y:.8g}") for y in np.asarray(o).ravel()] for o in outputs],
    }


def main() -> None:
    keras.config.set_floatx("float64")
    entries = [run(*entry, seed) for seed, entry in enumerate(BACKBONES)]
    lines = ",\n".join("  " + json.dumps(e) for e in entries)
    path = Path(__file__).with_name("backbones.json")
    path.write_text(f'{{"keras": "{keras.__version__}", "models": [\n{lines}\n]}}\n')
    print(path.name, len(entries), "models", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
