"""The commands that tests of the command line share (check_cli.py, check_plans.py, check_trainings.py).

Drivers' compilers take most of these tests' time. For them, each combination of model, batch, optimizer and devices is a
separate program. So most tests train one model, the smallest one with weights, with the same settings. Tests that need a
model with two layers use mlp, with the same settings. Each launch of the convolutional models has 64 samples. Kernels
are launched one by one (support.APART), so replicas do not share the parts of an update, either. And kernels are
compiled without optimization (`unoptimized_tests` in cmake/tests.cmake)."""
import json
import pathlib
import subprocess
import sys
import tempfile

import support

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin")
CLIQUE = str(BIN / "clique")
MODELS = tempfile.TemporaryDirectory()
LEAST = support.put_least(MODELS.name)
# `synthetic` itself generates 60000 samples, which takes three times as long as these trainings.
SAMPLES, TESTED = 1920, 320  # test sets have a sixth as many samples
SYNTHETIC = f"synthetic:28x28/10/{SAMPLES}"
COMMON = ["--data", SYNTHETIC, "--take", "640", "--devices", "pocl:0"]
SMALL, MLP = ["--model", LEAST, *COMMON], ["--model", "mlp", *COMMON]
# A model with more parameters than a given memory budget allows, so that stages train it.
WIDE_MODEL = pathlib.Path(MODELS.name) / "wide.json"
WIDE_MODEL.write_text(json.dumps(support.sequential("wide", [("Flatten", {}), *(
    ("Dense", {"units": units, "activation": activation}) for units, activation in ((300, "tanh"), (700, "tanh"), (10, "softmax")))])))
WIDE = ["--model", str(WIDE_MODEL), "--data", SYNTHETIC, "--take", "48", "--batch", "16"]


def run(*args, whole=False, **kwargs):
    """whole: a step may be one launch."""
    args = list(map(str, args))
    if args and args[0] in ("train", "eval", "predict", "plan", "tune") and not whole:
        args[1:1] = support.APART
    return subprocess.run([CLIQUE, *args], capture_output=True, text=True, timeout=240, **kwargs)


class Commands(support.InFolder):
    def fails(self, code, *args, says=()):
        return self.check_refusal(run(*args), code, args, says)

    def train(self, *args, **more):
        result = run("train", *args, "--json", **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)
