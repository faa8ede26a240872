"""Advice on cuckoo filters against filters that are built, and against what it promises."""

from __future__ import annotations

import numpy as np
import pytest

from parquet_bloom.core.index.cuckoo import Group, Layout
from parquet_bloom.lake.cuckoo_reader import advise, expected_false


def built(sizes: list[int], num_buckets: int, bits: int) -> tuple[list[int], int]:
    """Slots of units of random values, and fingerprints in all of them."""
    rng = np.random.default_rng(11)
    group = Group(Layout(num_buckets, bits))
    slots = []
    for size in sizes:
        group.add(rng.integers(0, 2**64, size, dtype=np.uint64))
        slots.append(group.close_unit())
    return slots, group.num_entries


SPREAD = np.random.default_rng(2).lognormal(4.5, 1.2, 300).astype(int).tolist()


@pytest.mark.parametrize("sizes", [[100] * 300, SPREAD, [0, 1, 2, 3] * 40, [300] * 9 + [10] * 90])
@pytest.mark.parametrize("bits", [8, 16, 24])
@pytest.mark.parametrize("num_buckets", [7, 38, 150])
def test_what_it_tells_is_what_comes(sizes: list[int], bits: int, num_buckets: int) -> None:
    (choice,) = advise(np.array(sizes), fingerprint_bits=[bits], num_buckets=[num_buckets]).choices
    slots, entries = built(sizes, num_buckets, bits)
    layout = Layout(num_buckets, bits)
    assert choice.row_slots == pytest.approx(sum(slots), rel=0.06)
    assert choice.num_bytes == pytest.approx(layout.row_bytes(sum(slots)) * num_buckets, rel=0.06)
    assert choice.lookup_bytes == pytest.approx(2 * layout.row_bytes(sum(slots)), rel=0.06)
    assert choice.occupancy == pytest.approx(entries / (sum(slots) * num_buckets), rel=0.06)
    assert choice.false_units == pytest.approx(expected_false(layout, np.array(slots), entries), rel=0.1)


def test_the_best() -> None:
    sizes = np.full(1_000_000, 100)
    advice = advise(sizes)
    assert advice.num_units == 1_000_000
    assert advice.num_values == 100_000_000
    assert advice.best in advice.choices
    assert advice.best.fingerprint_bits == 24  # 80 files opened for nothing cost more than a third more bytes
    assert advise(sizes, false_unit_bytes=0).best.fingerprint_bits < 16
    small = advise(sizes, max_bytes=250_000_000).best
    assert small.num_bytes <= 250_000_000
    assert small.cost() > advice.best.cost()
    least = min(choice.num_bytes for choice in advice.choices)
    assert advise(sizes, max_bytes=1).best.num_bytes == least


def test_the_seeds_two_plots() -> None:
    advice = advise(np.full(1000, 10_000), fingerprint_bits=[16])
    sizes, lookup_bytes = advice.size_against_bytes(16)
    assert np.allclose(lookup_bytes, 4 * sizes, atol=20)  # the line of the seed's first plot
    buckets, occupancy = advice.buckets_against_occupancy(16)
    assert (np.diff(buckets) > 0).all()
    assert occupancy.max() <= 1
    assert occupancy[-1] <= 0.5 < occupancy[0]


def test_how_it_reads() -> None:
    text = str(advise(SPREAD, fingerprint_bits=[8, 16], num_buckets=[10, 20]))
    lines = text.splitlines()
    assert lines[0] == f"300 units, {sum(SPREAD):,} values"
    assert len(lines) == 6
    assert text.count("advised") == 1


@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 0], [1]])
def test_next_to_nothing(sizes: list[int]) -> None:
    advice = advise(np.array(sizes, np.int64))
    assert advice.best.num_buckets >= 1
    assert str(advice)


def test_refused_input() -> None:
    with pytest.raises(ValueError):
        advise(np.array([-1]))
    with pytest.raises(ValueError):
        advise(np.array([1]), fingerprint_bits=[9])
    with pytest.raises(ValueError):
        advise(np.array([1]), num_buckets=[])


def test_more_sizes_than_are_looked_at() -> None:
    sizes = np.arange(20_000)
    (choice,) = advise(sizes, fingerprint_bits=[16], num_buckets=[100]).choices
    assert choice.occupancy * choice.row_slots * 100 == pytest.approx(sizes.sum(), rel=0.01)
