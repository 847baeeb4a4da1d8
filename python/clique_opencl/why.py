"""What limits a training: the analysis of ``clique why``.

The analysis is part of the command and not of the library. So `why` runs the command, and returns its JSON.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from . import errors
from ._library import library
from .settings import find, text_of


def command() -> str:
    """The command ``clique``: from CLIQUE_COMMAND, from the folder bin beside the library's, or from PATH."""
    named = os.environ.get("CLIQUE_COMMAND")
    beside = pathlib.Path(os.fspath(library.path)).resolve().parent.parent / "bin" / "clique"
    found = named or (str(beside) if beside.is_file() else shutil.which("clique"))
    if not found:
        raise errors.NotFoundError("the command clique was not found: install it, or set CLIQUE_COMMAND to the file")
    return found


def _values(keyword: str, value: Any) -> list[Any]:
    """One value, or the values of an option that may be given several times."""
    try:
        several = find(keyword).type == "named"
    except errors.ArgumentError:  # the command refuses it, or only the command knows it
        several = False
    if several and isinstance(value, Mapping):
        return [f"{name}={text_of(one)}" for name, one in value.items()]
    # Texts without a name before them are one value: the command uses the last of several.
    several = several and isinstance(value, (list, tuple)) and all("=" in str(one).split(":", 1)[0] for one in value)
    return list(value) if several else [value]


def why(model: str | os.PathLike[str], *, timeout: float | None = None, **settings: Any) -> dict[str, Any]:
    """The document of ``clique why --json``: limits, predicted rates on 1 to n devices, advice (docs/guides). model: a
    name or a file of Keras. settings: options with underscores for dashes, such as ``devices="0,1", batch=128,
    data="synthetic"``; it measures for some seconds."""
    words = [command(), "why", "--json", "--model", os.fspath(model)]
    for keyword, value in settings.items():
        option = "--" + keyword.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            for one in _values(keyword, value):
                words += [option, str(text_of(one))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        lines = [one for one in done.stderr.splitlines() if "error: " in one]
        line = (lines or done.stderr.splitlines() or [f"clique why ended with {done.returncode}"])[-1]
        kinds = {2: errors.ArgumentError, 3: errors.MismatchError, 4: errors.NoDeviceError}
        raise kinds.get(done.returncode, errors.CliqueError)(line.split("error: ", 1)[-1])
    return json.loads(done.stdout)
