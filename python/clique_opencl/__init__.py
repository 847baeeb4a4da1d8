"""Clique from Python: training on all OpenCL devices of a machine.

    import clique_opencl as clique

    model = clique.Model.from_keras(keras_model)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], devices="0,1")
    history = model.fit(x, y, batch_size=64, epochs=3, validation_data=(x_test, y_test))
    model.to_keras(keras_model)

Arrays are NumPy's. The package calls the C library, libclique, and has no other code that computes.
"""

from ._library import library as _loaded
from ._library import set_log_level
from .callbacks import (
    Callback,
    CSVLogger,
    EarlyStopping,
    LambdaCallback,
    LearningRateScheduler,
    ModelCheckpoint,
    ReduceLROnPlateau,
)
from .data import Dataset
from .devices import Device, Selection, System, devices
from .errors import (
    AbortedError,
    ArgumentError,
    BuildError,
    CliqueError,
    DeadlineError,
    DeviceError,
    DeviceMemoryError,
    FormatError,
    InternalError,
    InterruptedFitError,
    LibraryError,
    MemoryFullError,
    MismatchError,
    NoDeviceError,
    NotFiniteError,
    NotFoundError,
    ReadError,
    ReplicasDifferError,
    StateError,
    SystemRefusedError,
    UnsupportedError,
    WriteError,
)
from .group import Group
from . import keras_words, settings
from .history import History
from .model import Model
from .why import why

#: The library's release.
__version__: str = _loaded.version

__all__ = [
    "AbortedError",
    "ArgumentError",
    "BuildError",
    "CSVLogger",
    "Callback",
    "CliqueError",
    "Dataset",
    "DeadlineError",
    "Device",
    "DeviceError",
    "DeviceMemoryError",
    "EarlyStopping",
    "FormatError",
    "Group",
    "History",
    "InternalError",
    "InterruptedFitError",
    "LambdaCallback",
    "LearningRateScheduler",
    "LibraryError",
    "MemoryFullError",
    "MismatchError",
    "Model",
    "ModelCheckpoint",
    "NoDeviceError",
    "NotFiniteError",
    "NotFoundError",
    "ReadError",
    "ReduceLROnPlateau",
    "ReplicasDifferError",
    "Selection",
    "StateError",
    "System",
    "SystemRefusedError",
    "UnsupportedError",
    "WriteError",
    "devices",
    "set_log_level",
    "why",
]
