"""Devices, their selection, and ownership."""

import ctypes
import gc
import logging
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import clique_opencl as clique
from clique_opencl import _handles, _library


def test_devices():
    found = clique.devices()
    assert [one.index for one in found] == list(range(len(found)))
    assert all(one.type == "cpu" for one in found)
    assert sum(one.driver == "pocl" for one in found) == 6
    assert all(one.compute_units >= 1 and one.memory_bytes > 1 << 20 and one.name for one in found)
    tested = clique.devices(test=True)
    assert all(one.usable and not one.reason for one in tested if one.driver == "pocl")


def test_selection():
    system = clique.System.default()
    assert system.select("pocl:0,pocl:2").choices == [(0, 0, 1), (2, 0, 1)]
    assert system.select([0, clique.devices()[2]]).choices == [(0, 0, 1), (2, 0, 1)]
    assert [one.index for one in system.select("0*2").devices] == [0, 0]
    with pytest.raises(clique.ArgumentError):
        system.select("0,,1")
    with pytest.raises(clique.NoDeviceError):
        system.select("nvidia")
    with pytest.raises(clique.ArgumentError, match="devices="):
        system.select(3.5)


def test_exceptions_are_pythons_too():
    system = clique.System.default()
    with pytest.raises(ValueError) as caught:
        system.select("0,,1")
    assert isinstance(caught.value, clique.CliqueError) and caught.value.status == 1
    assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        clique.Dataset.open("/nowhere/at/all")


def test_closing_in_any_order():
    system = clique.System()
    selection = system.select("pocl:0,pocl:1")
    group = clique.Group(selection)
    system.close()
    system.close()
    assert system.closed
    with pytest.raises(clique.StateError, match="this System is closed"):
        system.devices()
    assert len(group.all_reduce([[1.0], [2.0]])) == 2  # the group needs the system, which therefore lives on
    del system, selection
    gc.collect()
    assert group.all_reduce([[1.0], [2.0]])[0][0] == 3.0
    group.close()
    with pytest.raises(clique.StateError, match="this Group is closed"):
        group.barrier()


def test_a_selection_keeps_its_system():
    system = clique.System()
    selection = system.select("pocl:0")
    system.close()
    with clique.Model.from_name("mlp") as model:
        model.compile("sgd", "sparse_categorical_crossentropy", devices=selection)
        assert model.predict(np.zeros((2, 28, 28), np.float32)).shape == (2, 10)
        with pytest.raises(clique.ArgumentError, match="devices is a Selection"):
            model.compile("sgd", "sparse_categorical_crossentropy", devices=selection, memory_limit=1 << 30)


def test_who_uses_an_object_holds_it():
    """The object is destroyed once, after the last use, even if uses are nested."""
    destroyed = []
    handle = _handles.Handle(ctypes.c_void_p(7), destroyed.append)
    user = _handles.Handle(ctypes.c_void_p(8), lambda _: None, (handle,))
    used = handle.pointer
    handle.close()
    user.close()
    assert not destroyed
    with pytest.raises(clique.StateError, match="this Handle is closed"):
        handle.pointer
    del used
    assert [one.value for one in destroyed] == [7]


def test_threads_select_in_turn():
    """device.h: one thread at a time may select devices."""
    system, inside, most = clique.System.default(), [0], [0]
    real = _library.library.devices_select

    def select(*arguments):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1
        return real(*arguments)

    _library.library.__dict__["devices_select"] = select
    try:
        threads = [threading.Thread(target=system.select, args=("pocl:0",)) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        del _library.library.__dict__["devices_select"]
    assert most == [1]


def test_settings_of_a_system():
    with clique.System(memory_limit=1 << 30, cache_dir="") as system:
        assert len(system.devices()) == len(clique.devices())


def test_log_lines_are_pythons(caplog):
    clique.set_log_level(logging.INFO)
    try:
        with caplog.at_level(logging.INFO, "clique_opencl"):
            _library._sink(None, 1, b"a warning")
    finally:
        clique.set_log_level()
    assert caplog.records[0].levelno == logging.WARNING and caplog.messages == ["a warning"]


def in_a_process(code, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(clique.__path__[0] + "/.."), **environment},
    )


def test_a_library_that_is_none():
    for path in ["/nowhere/libclique.so", "/lib/x86_64-linux-gnu/libm.so.6"]:
        done = in_a_process("import clique_opencl", CLIQUE_LIBRARY=path)
        line = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1 and "LibraryError" in line and path in line


def test_a_program_that_ends_without_closing():
    code = (
        "import clique_opencl as q, numpy as n\n"
        "g = q.Group([0, 1])\n"
        "print(g.all_reduce([n.ones(3, 'f'), n.ones(3, 'f')])[0])\n"
    )
    done = in_a_process(code)
    assert done.returncode == 0 and done.stderr == "" and "[2. 2. 2.]" in done.stdout


def test_tensorflow_is_warned_of():
    code = "import sys, types; sys.modules['tensorflow'] = {}; import clique_opencl; clique_opencl.devices()"
    for module, warned in [("types.ModuleType('t')", True), ("None", False)]:
        done = in_a_process(code.format(module))
        assert done.returncode == 0 and ("TensorFlow is loaded: PoCL's devices" in done.stderr) == warned
