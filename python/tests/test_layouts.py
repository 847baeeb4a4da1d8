"""Structs, enumerations and functions of this package are those of the C headers, as a compiler reads them."""

import ctypes
import json
import os
import re
import shlex
import subprocess

from clique_opencl import _abi as abi
from clique_opencl import _library, errors, settings
from golden_cases import SOURCE

INCLUDE = SOURCE / "include"
STRUCTS = [
    kind
    for kind in vars(abi).values()
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure
]
CONSTANTS = {
    "CLQ_SHAPE_MAX": abi.SHAPE_MAX,
    "CLQ_MODEL_OUTPUTS_MAX": abi.OUTPUTS_MAX,
    "CLQ_REPLICAS_MAX": abi.REPLICAS_MAX,
    "CLQ_NAME_MAX": abi.NAME_MAX,
    "CLQ_REASON_MAX": abi.REASON_MAX,
    "CLQ_METRIC_VALUES_MAX": abi.METRIC_VALUES_MAX,
    "CLQ_HYPERPARAMETERS_MAX": abi.HYPERPARAMETERS_MAX,
    "CLQ_MONITOR_NAME_MAX": abi.MONITOR_NAME_MAX,
    **{f"CLQ_{one.name}": one.value for kind in (abi.Dtype, abi.Redop) for one in kind},
    **{f"CLQ_ALGORITHM_{one.name}": one.value for one in abi.Algorithm},
    **{f"CLQ_TRANSPORT_{one.name}": one.value for one in abi.Transport},
    "CLQ_DTYPE_COUNT": len(abi.Dtype),
    "CLQ_REDOP_COUNT": len(abi.Redop),
    "CLQ_ALGORITHM_COUNT": len(abi.Algorithm),
    "CLQ_TRANSPORT_COUNT": len(abi.Transport),
    "CLQ_STATUS_COUNT": len(errors.STATUSES) + 1,
    **{f"CLQ_{name}": number for number, name in enumerate(errors.STATUSES, 1)},
    **{f"CLQ_SETTING_OF_{one.name}": one.value for one in settings.Use if one is not settings.Use.CHANGES},
    "CLQ_SETTING_CHANGES": settings.Use.CHANGES.value,
    **{f"CLQ_SETTING_{name.upper()}": number for number, name in enumerate(settings._TYPES)},
    "CLQ_MONITOR_AUTO": 0,
    "CLQ_MONITOR_MIN": 1,
    "CLQ_MONITOR_MAX": 2,
    "CLQ_DEVICE_OTHER": 3,
    "CLQ_LOG_DEBUG": 3,
    "CLQ_PREFETCH_AUTO": -1,
}


def compiled(tmp_path):
    lines = []
    for kind in STRUCTS:
        name = kind.__name__
        lines.append(f'printf("\\"{name}\\": [%zu", sizeof(struct {name}));')
        for member, *_ in kind._fields_:
            lines.append(
                f'printf(", %zu, %zu", offsetof(struct {name}, {member}), sizeof ((struct {name} *)0)->{member});'
            )
        lines.append('puts("],");')
    lines += [f'printf("\\"{name}\\": %d,\\n", (int){name});' for name in CONSTANTS]
    source = tmp_path / "layouts.c"
    source.write_text(
        "#include <clique/clique.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\nputs(\"{\");\n"
        + "\n".join(lines)
        + '\nputs("\\"end\\": 0}");\nreturn 0;\n}\n'
    )
    program = tmp_path / "layouts"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, "-std=c11", f"-I{INCLUDE}", source, "-o", program], check=True)
    return json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def test_structs_and_enumerations(tmp_path):
    found = compiled(tmp_path)
    assert len(STRUCTS) > 20
    for kind in STRUCTS:
        members = [getattr(kind, name) for name, *_ in kind._fields_]
        ours = [ctypes.sizeof(kind)] + [number for one in members for number in (one.offset, one.size)]
        assert ours == found[kind.__name__], kind.__name__
    for name, value in CONSTANTS.items():
        assert found[name] == value, name


def test_members_are_all_there():
    """A member that a header's struct has and this package's has not would not show in offsets at a struct's end."""
    text = "\n".join(path.read_text() for path in sorted(INCLUDE.glob("clique/*.h")))
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    for kind in STRUCTS:
        body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (kind.__name__, kind.__name__), text, re.DOTALL)
        assert body, kind.__name__
        names = []
        for statement in body[1].split(";"):
            function = re.search(r"\(\*(\w+)\)\(", statement)
            if function:
                names.append(function[1])
                continue
            declared = re.sub(r"\[[^\]]*\]", "", statement).replace("*", " ").split(",")
            names += [one.split()[-1] for one in declared if one.split()]
        assert names == [name for name, *_ in kind._fields_], kind.__name__


def test_functions_are_declared():
    """With as many arguments as here, and with a status where one is expected."""
    text = "\n".join(path.read_text() for path in sorted(INCLUDE.glob("clique/*.h")))
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    for name, (result, arguments) in _library._FUNCTIONS.items():
        declared = re.search(r"CLQ_API\s+((?:const\s+)?\w+)\s*(\**)\s*%s\((.*?)\);" % name, text, re.DOTALL)
        assert declared, name
        count = 0 if declared[3].strip() == "void" else declared[3].count(",") + 1
        assert count == len(arguments), name
        assert (declared[1] == "clq_status" and not declared[2]) == (result is _library.STATUS), name
        getattr(_library.library, name.removeprefix("clq_"))


def test_the_release_is_this_packages():
    header = (INCLUDE / "clique" / "version.h").read_text()
    numbers = re.findall(r"^#define CLQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE)
    assert ".".join(numbers) == _library.library.version and ".".join(numbers[:2]) == _library.SUPPORTED
