"""Builds the wheel (hatchling): the version, the shared library, and the program that the library starts for Keras's
files.

CLIQUE_BUILD names the build folder of Clique whose library is taken; the default is ../build. The wheel contains what
was built for this system. It needs the same C library, and the libraries that libclique.so needs (README.md names their
packages).
"""

from __future__ import annotations

import os
import pathlib
import re
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

HERE = pathlib.Path(__file__).resolve().parent


class Version(MetadataHookInterface):
    """MAJOR.MINOR.PATCH of Clique's own build."""

    def update(self, metadata: dict[str, Any]) -> None:
        header = HERE.parent / "include" / "clique" / "version.h"
        text = header.read_text("utf-8")
        numbers = re.findall(r"^#define CLQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text, re.MULTILINE)
        if len(numbers) != 3:
            raise RuntimeError(f"{header} does not define CLQ_VERSION_MAJOR, _MINOR and _PATCH")
        metadata["version"] = ".".join(numbers)


class Library(BuildHookInterface):
    """Adds files to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # uses the library of CLIQUE_LIBRARY, or the system's
            return
        folder = pathlib.Path(os.environ.get("CLIQUE_BUILD") or HERE.parent / "build") / "lib"
        library = folder / "libclique.so"
        if not library.exists():
            raise RuntimeError(f"{library} is not there: build Clique, or set CLIQUE_BUILD to its build folder")
        taken = {library.resolve(): "libclique.so"}
        helper = folder / "clique-keras-files"
        if helper.exists():
            taken[helper] = helper.name
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["force_include"].update({str(path): f"clique_opencl/lib/{name}" for path, name in taken.items()})
        build_data["force_include"][str(HERE.parent / "LICENSE")] = "clique_opencl/LICENSE"


def get_metadata_hook() -> type[MetadataHookInterface]:
    return Version


def get_build_hook() -> type[BuildHookInterface]:
    return Library
