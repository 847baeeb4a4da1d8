"""Files that readers have, or make by Keras or PyTorch, for the pages' commands. Needs only the standard library."""
import array
import json
import math
import random
import re
import shutil
import struct

LOSS = "--loss sparse_categorical_crossentropy:from_logits=1"


def tensors(path, shapes):
    """Writes a safetensors file with random numbers."""
    header, at = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * math.prod(shape)]}
        at += 4 * math.prod(shape)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + array.array("f", [random.gauss(0, 0.05) for _ in range(at // 4)]).tobytes())


def npy(path, kind, shape, values):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + values)


def model(path, name):
    """The model of from-keras.md and from-pytorch.md, as Keras's to_json() writes it."""
    layers = (("InputLayer", {"name": "input_layer", "batch_shape": [None, 28, 28, 1]}),
              ("Conv2D", {"name": "conv2d", "filters": 16, "kernel_size": [3, 3], "activation": "relu"}),
              ("MaxPooling2D", {"name": "max_pooling2d", "pool_size": [2, 2], "strides": [2, 2]}), ("Flatten", {"name": "flatten"}),
              ("Dense", {"name": "dense", "units": 10}))
    layers = [{"module": "keras.layers", "class_name": kind, "config": config} for kind, config in layers]
    path.write_text(json.dumps({"module": "keras", "class_name": "Sequential", "config": {"name": name, "layers": layers}}))


def make(root, folder, page, blocks, text, run):
    """Makes the files in `folder` that the page's commands, all in `text`, read and do not write. `run` runs a command
    there."""
    random.seed(page)
    for block in blocks:
        for name in block.mark("file"):
            (folder / name).write_text(block.text + "\n")
    for example in (root / "examples").iterdir():
        if re.search(rf"(?<![\w/]){re.escape(example.name)}\b", text):
            shutil.copy(example, folder)
    if "text:book.txt" in text:
        (folder / "book.txt").write_text("".join(path.read_text() for path in sorted(root.glob("docs/*.md")))[:50000])
    if "--data data" in text:
        (folder / "data").mkdir()
        shape, counts = ((64, 64, 3), (40, 8)) if "resnet18" in text else ((28, 28, 1), (500, 100))
        for part, count in zip(("train", "test"), counts):
            npy(folder / f"data/x_{part}.npy", "|u1", (count, *shape), random.randbytes(count * math.prod(shape)))
            npy(folder / f"data/y_{part}.npy", "<i8", (count,), struct.pack(f"<{count}q", *(i % 10 for i in range(count))))
    if re.search(r"--model model\.(json|keras)", text):
        model(folder / "model.json", "from_pytorch" if "pytorch" in page else "sequential")
        tensors(folder / "start.safetensors", {"conv2d/kernel": (3, 3, 1, 16), "conv2d/bias": (16,), "dense/kernel": (2704, 10),
                                               "dense/bias": (10,)})
        tensors(folder / "torch.safetensors", {"0.weight": (16, 1, 3, 3), "0.bias": (16,), "fc.weight": (10, 2704)})
    if "--model model.keras" in text:
        # At a rate of nearly 0, weights keep their initial values: the file equals the file that Keras writes for a new
        # model.
        done = run(f"clique train --model model.json {LOSS} --data synthetic --no-test --steps 1 --optimizer sgd:lr=1e-9 "
                   "--save model.keras")
        if done[0] != 0:
            raise SystemExit(f"{page}: model.keras was not made: {done[2]}")
