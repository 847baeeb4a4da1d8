#!/usr/bin/env python3
"""Tests clique generate on models whose text is known: a table of logits determines the next token.

usage: check_generate.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import json
import pathlib
import struct
import subprocess
import sys
import unittest

import support

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin")
CONTEXT = 8


class Generate(support.InFolder):
    def model_of(self, tokens, successors):
        """Writes a model: an Embedding whose rows are logits, 8 for the tokens that may follow and 0 for the others."""
        layers = [{"class_name": "InputLayer", "config": {"name": "text", "batch_shape": [None, CONTEXT]}},
                  {"class_name": "Embedding", "config": {"name": "table", "input_dim": tokens, "output_dim": tokens}}]
        model = self.put("model.json", {"class_name": "Sequential", "config": {"name": "table_of_logits", "layers": layers}})
        rows = b"".join(struct.pack(f"<{tokens}f", *(8.0 if t in successors(row) else 0.0 for t in range(tokens))) for row in range(tokens))
        header = json.dumps({"table/embeddings": {"dtype": "F32", "shape": [tokens, tokens], "data_offsets": [0, len(rows)]}}).encode()
        weights = self.folder / "weights.safetensors"
        weights.write_bytes(struct.pack("<Q", len(header)) + header + rows)
        return ["--model", model, "--weights", str(weights), "--devices", "pocl:0", *support.APART]

    def run_generate(self, *args, code=0):
        result = subprocess.run([str(BIN / "clique"), "generate", *map(str, args)], capture_output=True, timeout=240)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def fails(self, code, *args, says):
        lines = self.run_generate(*args, code=code).stderr.decode().splitlines()
        self.assertEqual(len([line for line in lines if line.startswith("clique: error: ")]), 1, lines)
        self.assertIn(says, lines[-1])

    def test_bytes(self):
        """The alphabet, through two full windows; the prompt in a file; all bytes unchanged."""
        common = self.model_of(256, lambda t: [(t + 1) % 256])
        found = self.run_generate(*common, "--prompt", "xya", "--tokens", 20, "--temperature", 0)
        self.assertEqual(found.stdout, b"bcdefghijklmnopqrstu")
        speed = r"^20 tokens, [0-9]+ tokens/s; [0-9.]+ [a-zA-Z]+ of weights, keys and values each: [0-9.]+ GB/s, [0-9]+% of the [0-9.]+ GB/s "
        self.assertRegex(found.stderr.decode(), speed)
        prompt = self.folder / "prompt"
        prompt.write_bytes(b"\n\xf0")
        found = self.run_generate(*common, "--prompt-file", prompt, "--tokens", 18, "--top-k", 1)
        self.assertEqual(found.stdout, bytes(range(0xF1, 0x100)) + b"\0\1\2")
        whole = self.run_generate(*common, "--prompt-file", prompt, "--tokens", 18, "--temperature", 0, "--whole-window")
        self.assertEqual(whole.stdout, found.stdout)

    def test_numbers(self):
        """Random draws: the same seed gives the same text. Each token is one that may follow. --json gives the same
        tokens."""
        common = self.model_of(10, lambda t: [(t + 1) % 10, (t + 2) % 10])
        options = [*common, "--prompt", "3  4\n", "--tokens", 40, "--top-k", 2]
        texts = [self.run_generate(*options, "--seed", seed).stdout for seed in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        tokens = [4, *map(int, texts[0].split())]
        self.assertEqual(len(tokens), 41)
        self.assertEqual({(b - a) % 10 for a, b in zip(tokens, tokens[1:])}, {1, 2})
        found = json.loads(self.run_generate(*options, "--seed", 1, "--json").stdout)
        self.assertEqual((found["tokens"], found["prompt_tokens"], found["cached"]), (tokens[1:], 2, True))
        self.assertGreater(found["tokens_per_s"], 0)

    def test_nul_in_a_file_of_numbers(self):
        prompt = self.folder / "prompt"
        prompt.write_bytes(b"3 4\0 5\n")
        self.fails(2, *self.model_of(10, lambda t: [t]), "--prompt-file", prompt, says="byte 3 of the prompt is NUL")

    def test_wrong_usage(self):
        common = self.model_of(10, lambda t: [t])
        self.fails(2, *common, says="--prompt TEXT or --prompt-file FILE is needed")
        self.fails(2, *common[:2], "--prompt", "1", says="--weights FILE is needed")
        self.fails(2, *common, "--prompt", "1", "--prompt-file", "p", says="exclude each other")
        self.fails(2, *common, "--prompt", "1 10", says="the prompt has '10'")
        self.fails(2, *common, "--prompt", " ", says="the prompt is empty")
        self.fails(2, *common, "--prompt", "1", "--temperature", "-1", says="--temperature '-1'")
        self.fails(2, *common, "--prompt", "1", "--top-p", "0", says="--top-p 0")
        self.fails(3, "--weights", common[3], "--prompt", "1", "--model", "mlp", "--devices", "pocl:0", says="(context, vocabulary)")


if __name__ == "__main__":
    unittest.main()
