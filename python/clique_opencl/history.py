"""What `Model.fit` returns."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass
class History:
    """As Keras's History: `history` has a list for each name ("loss", "accuracy", "val_loss", …) with a value for each
    epoch of `epoch`; those of the validation only for epochs that had one (validation_freq)."""

    params: dict[str, Any] = dataclasses.field(default_factory=dict)
    epoch: list[int] = dataclasses.field(default_factory=list)
    history: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    #: Seconds of each epoch, without its validation; and the part of these that devices waited for data.
    seconds: list[float] = dataclasses.field(default_factory=list)
    input_seconds: list[float] = dataclasses.field(default_factory=list)

    def _add(self, epoch: int, logs: dict[str, float], seconds: float, input_seconds: float) -> None:
        self.epoch.append(epoch)
        self.seconds.append(seconds)
        self.input_seconds.append(input_seconds)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)
