"""Dropout's masks as a function of seed, layer, step and row: any replica would draw the same mask for a row.

    python masks.py            compare Philox with its published answers and with masks.json; exit 1 on a difference
    python masks.py --write    write masks.json

The rule. Element `e` (row-major within a sample) of sample `row` of the global batch, in the step that makes the
update `step` (the first is 1), of the Dropout layer numbered `layer` (below 2^24), in a run with `seed`, has the word

    philox4x32_10(key = (seed mod 2^32, seed / 2^32), counter = (e / 4, row, step, 3 * 2^24 + layer))[e % 4]

The element is kept if the word is at least rate * 2^32, rounded; kept elements are divided by 1 - rate. Key and counter
are given as 32-bit words, the lowest first. The 3 separates Dropout's numbers from other draws with the same seed.
Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
DROPOUT = 3
TABLE = Path(__file__).parent / "masks.json"

# key, counter, answer: the vectors for philox4x32 with 10 rounds that are published with Random123
KNOWN = (
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0xA4093822, 0x299F31D0), (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)  # fmt: skip


def philox(key: tuple[ArrayLike, ArrayLike], counter: tuple[ArrayLike, ...]) -> np.ndarray:
    """Philox4x32-10. Takes two and four arrays of 32-bit words that broadcast. The result has a last axis of four."""
    k0, k1 = (np.asarray(k, np.uint64) for k in key)
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(c, np.uint64) for c in counter))
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> HALF) ^ c1 ^ k0, p1 & LOW, (p0 >> HALF) ^ c3 ^ k1, p0 & LOW
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & LOW, (k1 + np.uint64(0xBB67AE85)) & LOW
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def words(seed: int, layer: int, step: int, rows: ArrayLike, elements: int) -> np.ndarray:
    """The words of a batch's rows, (rows, elements)."""
    rows, blocks = np.asarray(rows), np.arange(-(-elements // 4))
    counter = (blocks[None, :], rows[:, None], step, DROPOUT << 24 | layer)
    return philox((seed & 0xFFFFFFFF, seed >> 32), counter).reshape(len(rows), -1)[:, :elements]


def keep(rate: float, drawn: np.ndarray) -> np.ndarray:
    return drawn >= np.uint32(min(round(rate * 2**32), 2**32 - 1))


def factors(
    rate: float, seed: int, layer: int, step: int, rows: ArrayLike, shape: tuple[int, ...]
) -> np.ndarray:
    """The numbers by which samples of `shape` are multiplied, (rows, *shape), float64: 0 or 1 / (1 - rate)."""
    drawn = words(seed, layer, step, rows, int(np.prod(shape)))
    return keep(rate, drawn).reshape(-1, *shape) / (1 - rate)


def table() -> list[dict]:
    """The words of a few positions, and the elements that are kept at a few rates."""
    entries = []
    for seed, layer, step, row in ((0, 0, 1, 0), (7, 0, 1, 0), (7, 1, 1, 0), (7, 0, 2, 0), (7, 0, 1, 1), (7, 2, 50, 31),
                                   (7 << 32, 0, 1, 0), (2**64 - 1, 2**24 - 1, 2**32 - 1, 2**31)):  # fmt: skip
        drawn = words(seed, layer, step, [row], 10)[0]
        kept = {str(rate): keep(rate, drawn).astype(int).tolist() for rate in (0.1, 0.25, 0.5)}
        entries.append(
            {"seed": seed, "layer": layer, "step": step, "row": row, "words": drawn.tolist(), "keep": kept}
        )
    return entries


def text() -> str:
    return "[\n" + ",\n".join("  " + json.dumps(e) for e in table()) + "\n]\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write masks.json")
    write = parser.parse_args().write
    good = all(tuple(philox(key, counter)) == answer for key, counter, answer in KNOWN)
    if good and write:
        TABLE.write_text(text())
    good = good and TABLE.read_text() == text()
    print("ok" if good else "BAD", TABLE.name)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
