"""Finds and loads the shared library, and calls it.

ctypes loads the library: it is part of Python, needs no compiler, and lets other Python threads run during a call (CDLL
releases the interpreter's lock).
"""

from __future__ import annotations

import atexit
import ctypes as c
import logging
import os
import pathlib
from typing import Any

from . import _abi as abi
from . import errors

#: The library's releases whose layouts this package knows: MAJOR.MINOR.
SUPPORTED = "0.1"
log = logging.getLogger("clique_opencl")

_p = c.c_void_p
_P = c.POINTER
_text = c.c_char_p
_size = c.c_size_t
#: Result and arguments of each function that this package calls. STATUS: a clq_status, which `call` turns into an
#: exception.
STATUS = "status"
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "clq_status_text": (_text, [c.c_int]),
    "clq_error_detail": (_text, []),
    "clq_version": (_text, []),
    "clq_log_set_sink": (None, [abi.LOG_SINK, _p, c.c_int]),
    "clq_dtype_bytes": (_size, [c.c_int]),
    # devices
    "clq_system_open": (STATUS, [_P(abi.clq_system_config), _P(_p)]),
    "clq_system_close": (None, [_p]),
    "clq_system_device_count": (_size, [_p]),
    "clq_system_device_info": (_P(abi.clq_device_info), [_p, _size]),
    "clq_system_test_devices": (STATUS, [_p]),
    "clq_devices_select": (STATUS, [_p, _text, _P(abi.clq_devices)]),
    # models
    "clq_model_builtin": (STATUS, [_text, _P(_p)]),
    "clq_model_builtin_for": (STATUS, [_text, abi.clq_shape, _size, _P(_p)]),
    "clq_model_read_keras_json_sized": (STATUS, [_text, _P(abi.clq_keras_sizes), _P(_p)]),
    "clq_model_read_keras": (STATUS, [_text, _P(abi.clq_keras_sizes), _P(_p)]),
    "clq_model_write_keras_json": (STATUS, [_p, _text]),
    "clq_model_prepare_keras": (STATUS, [_p]),
    "clq_model_freeze": (STATUS, [_p, _text]),
    "clq_model_destroy": (None, [_p]),
    "clq_model_name": (_text, [_p]),
    "clq_model_input_shape": (abi.clq_shape, [_p]),
    "clq_model_output_count": (_size, [_p]),
    "clq_model_output_shape": (abi.clq_shape, [_p, _size]),
    "clq_model_output_name": (_text, [_p, _size]),
    "clq_model_variable_count": (_size, [_p]),
    "clq_model_variable": (STATUS, [_p, _size, _P(abi.clq_variable_info)]),
    "clq_model_parameter_count": (_size, [_p]),
    # datasets
    "clq_dataset_open": (STATUS, [_text, _text, _P(_p)]),
    "clq_dataset_arrays": (STATUS, [_p, c.c_int, _size, c.c_uint, _P(_size), _p, c.c_int, _size, _P(_p)]),
    "clq_dataset_add_samples": (STATUS, [_p, _p, c.c_int, _size]),
    "clq_dataset_add_labels": (STATUS, [_p, _p, c.c_int, _size]),
    "clq_dataset_label_by_samples": (STATUS, [_p, c.c_double]),
    "clq_dataset_set_weights": (STATUS, [_p, _p]),
    "clq_dataset_destroy": (None, [_p]),
    "clq_dataset_get_info": (_P(abi.clq_dataset_info), [_p]),
    "clq_dataset_window": (STATUS, [_p, _size]),
    "clq_dataset_take": (STATUS, [_p, _size]),
    "clq_dataset_shuffle": (STATUS, [_p, _size, c.c_uint64]),
    "clq_dataset_batch": (STATUS, [_p, _size, c.c_bool]),
    "clq_dataset_prefetch": (STATUS, [_p, c.c_int]),
    "clq_dataset_seek": (STATUS, [_p, c.c_uint64, c.c_uint64]),
    "clq_dataset_batches": (_size, [_p]),
    # trainers
    "clq_trainer_destroy": (None, [_p]),
    "clq_trainer_replicas": (c.c_uint, [_p]),
    "clq_trainer_replica": (STATUS, [_p, c.c_uint, _P(abi.clq_device_info), _P(_size)]),
    "clq_trainer_device_bytes": (c.c_uint64, [_p]),
    "clq_trainer_set_learning_rate": (STATUS, [_p, c.c_double]),
    "clq_trainer_next_learning_rate": (c.c_double, [_p]),
    "clq_trainer_stop": (None, [_p]),
    "clq_trainer_wait": (STATUS, [_p]),
    "clq_step_read_sized": (STATUS, [_p, _P(abi.clq_step_info), _size]),
    "clq_fit_sized": (STATUS, [_p, _p, _P(abi.clq_fit_config), _size]),
    "clq_fit_stop": (STATUS, [_p]),
    "clq_evaluate_sized": (STATUS, [_p, _p, _P(abi.clq_totals), _size]),
    "clq_predict_outputs": (STATUS, [_p, _p, _P(_p)]),
    "clq_trainer_get_variable": (STATUS, [_p, _size, _p]),
    "clq_trainer_set_variable": (STATUS, [_p, _size, _p]),
    "clq_trainer_load": (STATUS, [_p, _text]),
    "clq_trainer_save": (STATUS, [_p, _text]),
    "clq_trainer_swap_average": (STATUS, [_p]),
    "clq_trainer_matrix_count": (_size, [_p]),
    "clq_trainer_matrix": (STATUS, [_p, _size, _P(_text), _P(_size)]),
    "clq_trainer_read_matrix": (STATUS, [_p, _size, c.c_int, _p]),
    "clq_trainer_create_sized": (
        STATUS,
        [_p, _P(abi.clq_devices), _P(abi.clq_trainer_config), _size, _P(_p)],
    ),
    # settings
    "clq_setting_count": (_size, []),
    "clq_setting_at": (_p, [_size]),
    "clq_setting_find": (STATUS, [_text, _P(_p)]),
    "clq_setting_key": (_text, [_p]),
    "clq_setting_placeholder": (_text, [_p]),
    "clq_setting_help": (_text, [_p]),
    "clq_setting_group": (_text, [_p]),
    "clq_setting_kind": (c.c_int, [_p]),
    "clq_setting_uses": (c.c_uint, [_p]),
    "clq_setting_default": (_text, [_p]),
    "clq_setting_choice": (_text, [_p, _size]),
    "clq_setting_range": (c.c_bool, [_p, _P(c.c_double), _P(c.c_double)]),
    "clq_settings_create": (STATUS, [_P(_p)]),
    "clq_settings_destroy": (None, [_p]),
    "clq_settings_set": (STATUS, [_p, _text, _text]),
    "clq_settings_open_system": (STATUS, [_p, _P(_p)]),
    "clq_settings_trainer_config_sized": (STATUS, [_p, _p, c.c_uint, _P(abi.clq_trainer_config), _size]),
    # callbacks and checkpoints
    "clq_callback_destroy": (None, [_P(abi.clq_callback)]),
    "clq_callback_early_stopping": (STATUS, [_P(abi.clq_early_stopping), _P(abi.clq_callback)]),
    "clq_early_stopping_read": (STATUS, [_P(abi.clq_callback), _P(abi.clq_early_stopping_result)]),
    "clq_reduce_lr_default": (abi.clq_reduce_lr, []),
    "clq_callback_reduce_lr": (STATUS, [_P(abi.clq_reduce_lr), _P(abi.clq_callback)]),
    "clq_callback_save_best": (STATUS, [_text, _P(abi.clq_monitor), _P(abi.clq_callback)]),
    "clq_callback_csv": (STATUS, [_text, c.c_bool, _P(abi.clq_callback)]),
    "clq_early_stopping_parse": (STATUS, [_text, _P(abi.clq_early_stopping)]),
    "clq_reduce_lr_parse": (STATUS, [_text, _P(abi.clq_reduce_lr)]),
    "clq_checkpoints_open_sized": (STATUS, [_P(abi.clq_checkpoints_config), _size, _P(_p)]),
    "clq_checkpoints_close": (None, [_p]),
    "clq_checkpoints_restore": (STATUS, [_p, _p, _p, _P(c.c_uint64)]),
    "clq_checkpoints_continue_at": (c.c_bool, [_p, _P(c.c_uint64), _P(c.c_uint64)]),
    "clq_checkpoints_save": (STATUS, [_p, _p, _p]),
    "clq_checkpoints_wait": (None, [_p]),
    # groups
    "clq_group_create": (STATUS, [_P(abi.clq_rank), c.c_uint, _P(abi.clq_group_config), _P(_p)]),
    "clq_group_destroy": (None, [_p]),
    "clq_group_alloc": (STATUS, [_p, c.c_uint, _size, _P(_p)]),
    "clq_group_free": (None, [_p, _p]),
    "clq_group_wait": (STATUS, [_p]),
    "clq_group_abort": (None, [_p]),
    "clq_group_explain": (STATUS, [_p, _P(_p)]),
    "clq_group_barrier": (STATUS, [_p, _p, _p]),
    "clq_all_reduce": (STATUS, [_p, _P(abi.clq_slice), _P(abi.clq_slice), _size, c.c_int, c.c_int, _p, _p]),
    "clq_reduce_scatter": (STATUS, [_p, _P(abi.clq_slice), _P(abi.clq_slice), _size, c.c_int, c.c_int, _p, _p]),
    "clq_all_gather": (STATUS, [_p, _P(abi.clq_slice), _P(abi.clq_slice), _size, c.c_int, _p, _p]),
    "clq_broadcast": (STATUS, [_p, _P(abi.clq_slice), _P(abi.clq_slice), _size, c.c_int, c.c_uint, _p, _p]),
    "clq_reduce": (STATUS, [_p, _P(abi.clq_slice), _P(abi.clq_slice), _size, c.c_int, c.c_int, c.c_uint, _p, _p]),
    "clq_send_recv": (
        STATUS,
        [_p, c.c_uint, _P(abi.clq_slice), c.c_uint, _P(abi.clq_slice), _size, c.c_int, _p, _p],
    ),
}


def candidates() -> list[pathlib.Path | str]:
    """The file of CLIQUE_LIBRARY if that is set; else the file beside the package, as in a wheel; then the system's
    library."""
    named = os.environ.get("CLIQUE_LIBRARY")
    if named:
        return [pathlib.Path(named).absolute()]  # the library looks for its engines in its own folder
    beside = pathlib.Path(__file__).resolve().parent / "lib"
    return [*sorted(beside.glob("libclique.so*")), "libclique.so.0", "libclique.so"]


def _open() -> tuple[c.CDLL, pathlib.Path | str]:
    failures = []
    for name in candidates():
        try:
            return c.CDLL(os.fspath(name)), name
        except OSError as failure:
            failures.append(str(failure))
    raise errors.LibraryError(
        f"libclique.so was not loaded ({'; '.join(failures)}): install Clique, or set CLIQUE_LIBRARY to the file"
    )


class _Library:
    """The loaded library. Functions are attributes without their prefix: `library.fit_sized(...)`."""

    def __init__(self) -> None:
        self._handle, self.path = _open()
        self._functions: dict[str, Any] = {}
        self.version = self.version_text()

    def version_text(self) -> str:
        try:
            version = self.version_of_handle()
        except AttributeError:
            raise errors.LibraryError(f"{self.path} is no library of Clique: it has no clq_version") from None
        if version.split(".")[:2] != SUPPORTED.split("."):
            raise errors.LibraryError(
                f"{self.path} is version {version}, and this package is for {SUPPORTED}.x: install both of one release"
            )
        return version

    def version_of_handle(self) -> str:
        return self.__getattr__("version_")().decode()

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__.get("_functions", {}).get(name)
        if own is not None:
            return own
        full = "clq_" + name.rstrip("_")
        result, arguments = _FUNCTIONS[full]
        function = getattr(self._handle, full)
        function.argtypes = arguments
        function.restype = c.c_int if result is STATUS else result
        called = self._checked(function) if result is STATUS else function
        self._functions[name] = called
        return called

    def _checked(self, function: Any) -> Any:
        def call(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                raise self.failure(status)

        call.raw = function  # type: ignore[attr-defined]
        return call

    def failure(self, status: int) -> errors.CliqueError:
        """The exception for the status that the calling thread just got."""
        detail = (self.error_detail() or b"").decode(errors="replace")
        return errors.from_status(status, detail or (self.status_text(status) or b"").decode())

    def raw(self, name: str) -> Any:
        """A function without the check of its status: it returns the status."""
        return getattr(self, name).raw


# The commands set this variable so that PoCL compiles a kernel once instead of twice. This package does the same,
# unless the user has set it. The setting holds for the whole process and for programs that it starts, as the guide
# says.
os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")
library = _Library()

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


@abi.LOG_SINK
def _sink(_context: object, level: int, line: bytes) -> None:
    log.log(_LEVELS[min(max(level, 0), len(_LEVELS) - 1)], "%s", line.decode(errors="replace"))


def set_log_level(level: int = logging.WARNING) -> None:
    """Lines that the library reports, up to this level of `logging`, go to the logger ``clique_opencl``."""
    highest = sum(level <= one for one in (logging.WARNING, logging.INFO, logging.DEBUG))
    library.log_set_sink(_sink, None, highest)


set_log_level()
# When the interpreter ends, threads of the library may still have something to report.
atexit.register(library.log_set_sink, abi.LOG_SINK(), None, 0)


def encode(text: str | os.PathLike[str]) -> bytes:
    """A text or path for the library."""
    coded = os.fsencode(text)
    if b"\0" in coded:
        raise errors.ArgumentError(f"{text!r} has a NUL character")
    return coded
