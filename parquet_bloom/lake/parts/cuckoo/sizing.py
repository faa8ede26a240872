"""Choose the number of buckets and the width of fingerprints of cuckoo filters for units of given sizes.

More buckets make rows shorter, until small units have one slot a bucket and most of it is empty; fewer fill their slots
better. Longer fingerprints make rows longer, and false candidates rare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ....core.index.cuckoo import FINGERPRINT_BITS, MOST_BUCKETS
from ....util.wording import count

FALSE_UNIT_BYTES = 256 << 10
"""Cost of a false candidate unit, in bytes read: a file is opened, and its filter or a page of it read."""

_MOST_EXTRA = 1.25  # total bytes, relative to the smallest option of that width
_MOST_SIZES = 2048  # distinct unit sizes to evaluate; more are grouped
_ROW_CHECKSUM_BYTES = 4

# The share of slots in use at which every second unit needs one more a bucket: measured with `core.cuckoo.Group`.
_FULL = {2: 0.895, 3: 0.957, 4: 0.979, 5: 0.989, 6: 0.994, 7: 0.996, 8: 0.9975}
_MOST_FULL = 0.998


@dataclass(frozen=True)
class SizingOption:
    """A number of buckets and a width of fingerprints, with their size and costs.

    Attributes
    ----------
    num_buckets, fingerprint_bits : the choice.
    row_slots : fingerprints in a row: one bucket of every unit.
    num_bytes : total bytes.
    lookup_bytes : bytes that a lookup reads.
    occupancy : fraction of slots in use.
    false_units : false candidate units per lookup.
    """

    num_buckets: int
    fingerprint_bits: int
    row_slots: float
    num_bytes: int
    lookup_bytes: int
    occupancy: float
    false_units: float

    def cost(self, false_unit_bytes: float = FALSE_UNIT_BYTES) -> float:
        """Return the bytes that a lookup reads, plus the cost of false candidates in bytes."""
        return self.lookup_bytes + self.false_units * false_unit_bytes


@dataclass(frozen=True)
class CuckooAdvice:
    """All options that were evaluated, and the best.

    Attributes
    ----------
    num_units, num_values : numbers of units and values to index.
    best : the advised option.
    choices : all options, by width of fingerprints, then by number of buckets.
    """

    num_units: int
    num_values: int
    best: SizingOption
    choices: Sequence[SizingOption] = field(repr=False)

    def size_against_bytes(self, fingerprint_bits: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return data to plot: fingerprints in a row, and bytes that a lookup reads."""
        some = self._select_options(fingerprint_bits)
        return np.array([choice.row_slots for choice in some]), np.array([choice.lookup_bytes for choice in some])

    def buckets_against_occupancy(self, fingerprint_bits: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return data to plot: numbers of buckets, and fractions of slots in use."""
        some = self._select_options(fingerprint_bits)
        return np.array([choice.num_buckets for choice in some]), np.array([choice.occupancy for choice in some])

    def _select_options(self, fingerprint_bits: int) -> list[SizingOption]:
        return [choice for choice in self.choices if choice.fingerprint_bits == fingerprint_bits]

    def __str__(self) -> str:
        head = ("buckets", "bits", "bytes", "B/value", "bytes a lookup", "slots used", "false units a lookup", "")
        rows = [head]
        for choice in self.choices:
            each = choice.num_bytes / max(1, self.num_values)
            rows.append(
                (
                    f"{choice.num_buckets:,}",
                    f"{choice.fingerprint_bits}",
                    f"{choice.num_bytes:,}",
                    f"{each:.2f}",
                    f"{choice.lookup_bytes:,}",
                    f"{choice.occupancy:.0%}",
                    f"{choice.false_units:.3g}",
                    "advised" if choice == self.best else "",
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([f"{count(self.num_units, 'unit')}, {count(self.num_values, 'value')}", *lines])


def advise(
    sizes: NDArray[np.int64],
    *,
    fingerprint_bits: Sequence[int] = FINGERPRINT_BITS,
    false_unit_bytes: float = FALSE_UNIT_BYTES,
    max_bytes: int | None = None,
    num_buckets: Sequence[int] | None = None,
) -> CuckooAdvice:
    """Find the number of buckets and the width of fingerprints that make lookups cheap.

    The advice is the option with the cheapest lookups (see `SizingOption.cost`) among those that need little more room
    than the smallest option of their width.

    Parameters
    ----------
    sizes : number of distinct values of each unit.
    fingerprint_bits : widths to choose from.
    false_unit_bytes : cost of a false candidate unit, in bytes read.
    max_bytes : largest size of the part; if no option is below it, the smallest is advised.
    num_buckets : numbers to choose from; None for a range that fits the sizes.

    Raises
    ------
    ValueError
        There is nothing to choose from, or a negative size.
    """
    sizes = np.asarray(sizes, np.int64)
    if (sizes < 0).any():
        raise ValueError("units do not have fewer than 0 values")
    if not fingerprint_bits or not set(fingerprint_bits) <= set(FINGERPRINT_BITS):
        raise ValueError("fingerprints have 8, 12, 16 or 24 bits")
    if num_buckets is not None and not (num_buckets and 1 <= min(num_buckets) <= max(num_buckets) <= MOST_BUCKETS):
        raise ValueError(f"there are 1 to {MOST_BUCKETS} buckets")
    counts, weights = _group_sizes(sizes)
    candidates = _candidates(counts) if num_buckets is None else sorted(set(num_buckets))
    choices, allowed = [], []
    for bits in sorted(set(fingerprint_bits)):
        some = [_choice(counts, weights, buckets, bits) for buckets in candidates]
        least = min(choice.num_bytes for choice in some)
        choices += some
        allowed += [choice for choice in some if choice.num_bytes <= _MOST_EXTRA * least]
    if max_bytes is not None:
        small = [choice for choice in choices if choice.num_bytes <= max_bytes]
        allowed = small or [min(choices, key=lambda choice: choice.num_bytes)]
    best = min(allowed, key=lambda choice: (choice.cost(false_unit_bytes), choice.num_bytes))
    return CuckooAdvice(len(sizes), int(sizes.sum()), best, tuple(choices))


def expected_slots(sizes: NDArray[np.float64], num_buckets: int) -> NDArray[np.float64]:
    """Return the mean number of slots per bucket that units of some sizes need.

    A unit needs one more slot as soon as one value does not fit. The load at which that happens lies around what large
    filters reach, and scatters more with fewer buckets.
    """
    first = np.maximum(1, np.ceil(sizes / num_buckets))
    total = first.copy()
    for more in range(6):
        slots = first + more
        full, spread = _full(slots, num_buckets), 0.9 * slots**-1.6 / math.sqrt(num_buckets)
        surplus = (sizes / (slots * num_buckets) - full) / spread
        # the normal distribution, nearly
        total += 0.5 * (1 + np.tanh(0.7978845608 * (surplus + 0.044715 * surplus**3)))
    return np.where(sizes > 0, np.where(sizes <= 1, 1.0, total), 0.0)


def _full(slots: NDArray[np.float64], num_buckets: int) -> NDArray[np.float64]:
    full = np.full(slots.shape, _MOST_FULL)
    for number, share in _FULL.items():
        full[slots == number] = share
    full[slots == 1] = 0.515 + 1 / math.sqrt(num_buckets)
    return full


def _group_sizes(sizes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return distinct sizes, and the number of units with each."""
    counts, weights = np.unique(sizes, return_counts=True)
    if len(counts) > _MOST_SIZES:  # groups of neighbours, each with its mean, which keeps the total of values
        ordered = np.sort(sizes)
        starts = np.linspace(0, len(ordered), _MOST_SIZES, endpoint=False).astype(np.intp)
        weights = np.diff(np.append(starts, len(ordered)))
        return np.add.reduceat(ordered, starts) / weights, weights.astype(np.float64)
    return counts.astype(np.float64), weights.astype(np.float64)


def _candidates(counts: NDArray[np.float64]) -> list[int]:
    """Return numbers of buckets, from where small units fill a slot to where the largest have few slots."""
    filled = counts[counts > 0]
    if not len(filled):
        return [1]
    least = max(1.0, float(np.median(filled)) / 64)
    most = min(float(MOST_BUCKETS), max(least, 2 * float(filled.max())))
    steps = max(2, round(6 * math.log2(most / least)) + 1) if most > least else 1
    grid = np.geomspace(least, most, min(steps, 64))
    # where units of a common size just fit into whole slots, a row is shortest for its buckets
    fitting = [q / (s * _FULL.get(s, 0.5) * 0.96) for q in np.quantile(filled, [0.5, 0.9]) for s in range(1, 9)]
    numbers = np.clip(np.ceil(np.concatenate([grid, fitting])), 1, MOST_BUCKETS)
    return sorted({int(number) for number in numbers})


def _choice(counts: NDArray[np.float64], weights: NDArray[np.float64], num_buckets: int, bits: int) -> SizingOption:
    kinds = 0.5 * (2**bits - 1) * num_buckets
    stored = kinds * -np.expm1(-counts / kinds)  # values that share fingerprint and buckets are one
    slots = expected_slots(stored, num_buckets)
    row_slots = float((slots * weights).sum())
    row_bytes = math.ceil(row_slots * bits / 8) + _ROW_CHECKSUM_BYTES
    compared = (2 - 1 / num_buckets) * stored / num_buckets
    false_units = float((weights * -np.expm1(compared * math.log1p(-1 / (2**bits - 1)))).sum())
    in_use = float((stored * weights).sum())
    return SizingOption(
        num_buckets,
        bits,
        row_slots,
        row_bytes * num_buckets,
        row_bytes * min(2, num_buckets),
        in_use / (row_slots * num_buckets) if row_slots else 0.0,
        false_units,
    )
