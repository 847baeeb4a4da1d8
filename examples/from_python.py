#!/usr/bin/env python3
"""Trains by name and from arrays on two devices, stops early, and adds up arrays on devices.
PYTHONPATH=python CLIQUE_LIBRARY=build/lib/libclique.so python3 examples/from_python.py [DEVICES]"""

import sys

import numpy as np

import clique_opencl as clique

devices = sys.argv[1] if len(sys.argv) > 1 else "auto"
rng = np.random.default_rng(0)
x = rng.random((2000, 16), np.float32)
y = np.argmax(x[:, :4], axis=1)  # which of the first four values is the largest

with clique.Model.from_name("mlp", input_shape=(16,), classes=4) as model:
    print(f"{model.name}: {model.count_params()} parameters, {', '.join(model.weight_names)}")
    model.compile("adam:lr=0.003", "sparse_categorical_crossentropy", metrics=["accuracy"], devices=devices)
    history = model.fit(
        x[:1600],
        y[:1600],
        batch_size=64,
        epochs=20,
        validation_data=(x[1600:], y[1600:]),
        callbacks=[clique.EarlyStopping(patience=3, restore_best_weights=True)],
        verbose=2,
    )
    loss, accuracy = model.evaluate(x[1600:], y[1600:])
    found = np.argmax(model.predict(x[1600:]), axis=1)
    print(f"{len(history.epoch)} epochs, accuracy {accuracy:.4f}, by predictions {np.mean(found == y[1600:]):.4f}")

with clique.Group(devices) as group:
    arrays = [np.full(1000, rank + 1, np.float32) for rank in range(len(group))]
    total = group.all_reduce(arrays)[0]
    print(f"{len(group)} ranks, sum {total[0]:g}")
