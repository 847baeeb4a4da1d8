"""Compares this package's structs, enumerations and functions with the C headers, as a compiler reads them."""

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
    **{f"CLQ_{one.name}": one.value for one in abi.Dtype},
    **{f"CLQ_REDOP_{one.name}": one.value for one in abi.Redop},
    **{f"CLQ_ALGORITHM_{one.name}": one.value for one in abi.Algorithm},
    **{f"CLQ_TRANSPORT_{one.name}": one.value for one in abi.Transport},
    "CLQ_DTYPE_COUNT": len(abi.Dtype),
    "CLQ_REDOP_COUNT": len(abi.Redop),
    "CLQ_ALGORITHM_COUNT": len(abi.Algorithm),
    "CLQ_TRANSPORT_COUNT": len(abi.Transport),
    "CLQ_STATUS_COUNT": len(errors.STATUSES) + 1,
    **{f"CLQ_ERROR_{name}": number for number, name in enumerate(errors.STATUSES, 1)},
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
    """Checks for missing members, because offsets do not show one that is missing at a struct's end."""
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


#: The ctypes types for types of the headers that are not pointers.
PLAIN = {
    "void": (None,),
    "bool": (ctypes.c_bool,),
    "int": (ctypes.c_int,),
    "unsigned": (ctypes.c_uint,),
    "uint32_t": (ctypes.c_uint32,),
    "uint64_t": (ctypes.c_uint64,),
    "size_t": (ctypes.c_size_t,),
    "double": (ctypes.c_double,),
    "clq_status": (_library.STATUS, ctypes.c_int),
}


def fits(declared, ours):
    """Whether ctypes was told the type of the header."""
    text = " ".join(re.sub(r"\b(const|struct)\b", " ", declared).replace("*", " * ").split())
    base, stars = text.replace("*", "").strip(), text.count("*")
    if stars == 0:
        if base in PLAIN:
            return ours in PLAIN[base]
        if isinstance(ours, type) and issubclass(ours, ctypes.Structure):
            return ours.__name__ == base
        if base in ("cl_mem", "cl_event", "cl_context", "cl_command_queue", "cl_device_id"):  # names of pointer types
            return ours is ctypes.c_void_p
        if base == "clq_log_sink":
            return ours is abi.LOG_SINK
        return base in ENUMERATIONS and ours is ctypes.c_int
    if ours is ctypes.c_char_p:
        return base == "char" and stars == 1
    if ours is ctypes.c_void_p:
        return True
    inner = getattr(ours, "_type_", None)
    return inner is not None and fits(base + "*" * (stars - 1), inner)


def declared_type(parameter):
    """The type of a parameter with or without a name."""
    array = re.sub(r"\[[^\]]*\]\s*$", "*", parameter.strip())
    pointer = re.fullmatch(r"(.*\*)\s*(?:const\s+)?\w*\s*(\**)", array)
    if pointer:
        return pointer[1] + pointer[2]
    words = array.replace("*", " *").split()
    named = [one for one in words if one not in ("const", "struct", "*")]
    return array if len(named) == 1 else named[0] + "*" * array.count("*")


TEXT = re.sub(
    r"/\*.*?\*/", " ", "\n".join(path.read_text() for path in sorted(INCLUDE.glob("clique/*.h"))), flags=re.DOTALL
)
ENUMERATIONS = set(re.findall(r"\}\s*(clq_\w+);", "".join(re.findall(r"typedef enum[^;]*;", TEXT))))


def test_functions_are_declared():
    """The result and each argument have the same type as here."""
    for name, (result, arguments) in _library._FUNCTIONS.items():
        declared = re.search(r"CLQ_API\s+((?:const\s+)?\w+)\s*(\**)\s*%s\((.*?)\);" % name, TEXT, re.DOTALL)
        assert declared, name
        assert fits(declared[1] + declared[2], result), name
        parameters = [] if declared[3].strip() == "void" else declared[3].split(",")
        assert len(parameters) == len(arguments), name
        for one, ours in zip(parameters, arguments):
            assert fits(declared_type(one), ours), (name, one.strip(), ours)
        getattr(_library.library, name[len("clq_") :])


def test_types_that_do_not_fit():
    for declared, ours in (("size_t", ctypes.c_uint), ("double", ctypes.c_int), ("clq_status", None)):
        assert not fits(declared, ours)
    assert not fits("const clq_shape *", ctypes.POINTER(ctypes.c_size_t))


def test_the_release_is_this_packages():
    header = (INCLUDE / "clique" / "version.h").read_text()
    numbers = re.findall(r"^#define CLQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE)
    assert ".".join(numbers) == _library.library.version and ".".join(numbers[:2]) == _library.SUPPORTED
