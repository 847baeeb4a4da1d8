#!/usr/bin/env python3
"""RandomBrightness and RandomContrast draw for each sample of a training, and do nothing in evaluation. The mean of
their outputs is compared with the mean of the distribution from which Keras draws. Each image is its channel's mean
plus or minus a number.

usage: check_shade.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import array
import json
import os
import pathlib
import subprocess
import sys
import unittest

import support

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin").resolve()
SAMPLES, SIDE, MEANS, PARTS = 2048, 4, (3.0, -2.0), (1.0, 0.5)
IMAGE = [mean + (part if (row + column) % 2 else -part) for row in range(SIDE) for column in range(SIDE) for mean, part in zip(MEANS, PARTS)]
MEAN_SQUARE = sum(m * m + p * p for m, p in zip(MEANS, PARTS)) / 2


class Shade(support.InFolder):
    def losses(self, kind, kept=("<f4", array.array("f", IMAGE * SAMPLES).tobytes()), **config):
        """The mean square of the layer's outputs for all images, in training and in evaluation."""
        layers = [("InputLayer", {"batch_shape": [None, SIDE, SIDE, 2]}), (kind, config), ("Flatten", {})]
        tree = {"class_name": "Sequential", "config": {"name": "shaded", "layers": [
            {"class_name": name, "config": {"name": name.lower()} | own} for name, own in layers]}}
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        for part in ("train", "test"):
            support.npy(data / f"x_{part}.npy", (SAMPLES, SIDE, SIDE, 2), *kept)
            support.npy(data / f"y_{part}.npy", (SAMPLES, len(IMAGE)), "<f4", bytes(4 * len(IMAGE) * SAMPLES))
        done = subprocess.run([BIN / "clique", "train", "--model", self.put("model.json", tree), "--data", data, "--loss", "mse", "--batch", "64", "--epochs", "1",
                               "--devices", "pocl:0", *support.APART, "--json"], capture_output=True, text=True, env=os.environ, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        epoch = json.loads(done.stdout)["epochs"][0]
        return epoch["loss"], epoch["val_loss"]

    def test_contrast(self):
        """(x - mean) f + mean, with f from 1 - 0.5 to 1 + 1: the mean of f * f is 1.75. The mean of 2,048 draws lies
        within 0.15."""
        trained, evaluated = self.losses("RandomContrast", factor=[0.5, 1.0], value_range=[-100, 100])
        means, parts = sum(m * m for m in MEANS) / 2, sum(p * p for p in PARTS) / 2
        self.assertAlmostEqual(evaluated, MEAN_SQUARE, places=5)
        self.assertAlmostEqual(trained, means + 1.75 * parts, delta=0.15 * parts)

    def test_brightness(self):
        """x + d, with d from -1 to 2: the mean of d is 0.5 and the mean of d * d is 1. So the mean square of x + d is x
        * x + 0.5 * 2 * x + 1."""
        trained, evaluated = self.losses("RandomBrightness", factor=[-0.005, 0.01], value_range=[-100, 100])
        self.assertAlmostEqual(evaluated, MEAN_SQUARE, places=5)
        self.assertAlmostEqual(trained, MEAN_SQUARE + sum(MEANS) / 2 + 1, delta=0.15)

    def test_clipped(self):
        """Values beyond the range become the end of the range."""
        trained, _ = self.losses("RandomBrightness", factor=[0, 0], value_range=[-1.5, 3])
        self.assertAlmostEqual(trained, (2 * 2 + 3 * 3 + 2 * 1.5 * 1.5) / 4, places=5)

    def test_bytes(self):
        """Bytes stay unchanged if the range of values ends above 1. Else they become fractions of 255. A factor of 0
        keeps the values."""
        kept = ("|u1", bytes([40, 60] * (SIDE * SIDE * SAMPLES)))
        square = (40 * 40 + 60 * 60) / 2
        for high, factor in ((255, 1), (1, 255)):
            with self.subTest(high=high):
                trained, evaluated = self.losses("RandomContrast", kept, factor=[0, 0], value_range=[0, high])
                self.assertAlmostEqual(trained, square / factor**2, delta=1e-5 * square / factor**2)
                self.assertAlmostEqual(evaluated, square / factor**2, delta=1e-5 * square / factor**2)


unittest.main()
