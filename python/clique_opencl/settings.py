"""The settings of a training: what the command line has as options.

Their names, values and descriptions are the library's table of settings, so `describe()` and the keywords of
`Model.compile` and `Model.fit` always are what the library knows.
"""

from __future__ import annotations

import ctypes as c
import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any

from . import _abi as abi
from . import errors
from ._handles import Handle
from ._library import encode, library


class Use(enum.IntFlag):
    """What uses a setting."""

    SYSTEM = 1  #: opening the devices: `Model.compile`
    TRAINER = 2  #: `Model.compile`
    FIT = 4  #: `Model.fit`
    CHANGES = 8  #: may change between the updates of a training


_TYPES = ("text", "flag", "count", "seconds", "named", "choice")


@dataclasses.dataclass(frozen=True)
class Setting:
    """A row of the library's table of settings."""

    key: str  #: the option's name without its dashes
    placeholder: str
    help: str
    group: str
    type: str  #: text, flag, count, seconds, named (which may be given several times), or choice
    use: Use
    default: str | None
    range: tuple[float, float] | None
    choices: tuple[str, ...]  #: the words that a choice takes

    @property
    def keyword(self) -> str:
        """The setting's name as a keyword of `Model.compile` or `Model.fit`."""
        return self.key.replace("-", "_")

    def __str__(self) -> str:
        value = f" {self.placeholder}" if self.placeholder else ""
        return f"{self.keyword}{value}: {self.help}"


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _choices(row: Any) -> Iterable[str]:
    index = 0
    while (word := library.setting_choice(row, index)) is not None:
        yield _text(word)
        index += 1


def _describe(row: Any) -> Setting:
    least, most = c.c_double(), c.c_double()
    ranged = library.setting_range(row, c.byref(least), c.byref(most))
    default = library.setting_default(row)
    return Setting(
        key=_text(library.setting_key(row)),
        placeholder=_text(library.setting_placeholder(row)),
        help=_text(library.setting_help(row)),
        group=_text(library.setting_group(row)),
        type=_TYPES[library.setting_kind(row)],
        use=Use(library.setting_uses(row)),
        default=None if default is None else _text(default),
        range=(least.value, most.value) if ranged else None,
        choices=tuple(_choices(row)),
    )


def describe(use: Use = Use.SYSTEM | Use.TRAINER | Use.FIT) -> list[Setting]:
    """The settings that one of these uses has, in the table's order."""
    rows = (_describe(library.setting_at(i)) for i in range(library.setting_count()))
    return [row for row in rows if row.use & use]


def find(keyword: str) -> Setting:
    """The setting of a keyword. Errors: ArgumentError, which names the nearest one."""
    row = c.c_void_p()
    library.setting_find(encode(keyword.replace("_", "-")), c.byref(row))
    return _describe(row)


def text_of(value: Any) -> str | None:
    """A keyword's value as the command line has it: True is "1", a mapping "KEY=VALUE,…", a sequence "A,B"."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (int, float)):  # NumPy's float64 is a float, too, but its repr contains its type
        return repr(float(value) if isinstance(value, float) else int(value))
    if isinstance(value, Mapping):
        return ",".join(f"{key}={text_of(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(str(text_of(one)) for one in value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return text_of(value.item())
    if hasattr(value, "__fspath__"):
        return str(value.__fspath__())
    raise errors.ArgumentError(f"a setting is a text, a number or a truth value, and not {type(value).__name__}")


class Settings(Handle):
    """Values of settings. Errors: ArgumentError, if there is no such setting (it names the nearest), or if the value is
    not what the setting takes."""

    def __init__(self) -> None:
        pointer = c.c_void_p()
        library.settings_create(c.byref(pointer))
        super().__init__(pointer, library.settings_destroy)

    def set(self, keyword: str, value: Any) -> None:
        """A keyword's value. A setting that may be given several times takes a mapping of names to values, or a list of
        these texts."""
        key = encode(keyword.replace("_", "-"))
        if value is not None and find(keyword).type == "named":
            values = [f"{name}={text_of(one)}" for name, one in value.items()] if isinstance(value, Mapping) else value
            library.settings_set(self.pointer, key, None)
            for one in [values] if isinstance(values, str) else values:
                library.settings_set(self.pointer, key, encode(str(text_of(one))))
            return
        text = text_of(value)
        library.settings_set(self.pointer, key, None if text is None else encode(text))

    def update(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Several of them."""
        for keyword, value in dict(values).items():
            self.set(keyword, value)

    def trainer_config(self, model: Any, devices: int) -> abi.clq_trainer_config:
        """The config from which the library makes a trainer. It points to the settings, which must live as long."""
        config = abi.clq_trainer_config()
        library.settings_trainer_config_sized(self.pointer, model, devices, c.byref(config), c.sizeof(config))
        return config
