"""core/index/cuckoo_rows.pyx: rows of any bytes and sizes, and rows with the right checksum, beside numpy."""

from __future__ import annotations

import functools

import numpy as np
from taking import Taken, is_compared, short

from parquet_bloom.core.index import cuckoo_rows
from parquet_bloom.core.index.cuckoo import FINGERPRINT_BITS, Layout

ALLOWED = (ValueError,)
MAX_INPUT = 2048


def run(data: bytes) -> None:
    taken = Taken(data)
    kind = taken.number()
    layout = Layout(1 + taken.number(), FINGERPRINT_BITS[kind % 4])
    if kind & 4:
        anything(taken, layout)
    else:
        sound(taken, layout)


def anything(taken: Taken, layout: Layout) -> None:
    """Numbers that do not fit together are refused; what fits is damaged."""
    num_slots, first = (int(number) for number in taken.short_numbers(2))
    rows, expected = taken.short_numbers(taken.number() % 4), taken.short_numbers(taken.number() % 5)
    fingerprints = np.unique(taken.short_numbers(taken.number() % 12).astype(np.uint32))
    data = np.frombuffer(taken.rest(), np.uint8)
    for pieces in (64, len(data) + 1):
        scan = cuckoo_rows.RowScan(layout, max(num_slots, 0), fingerprints)
        for at in range(0, len(data), pieces):
            scan.feed(data[at : at + pieces])
        scan.finish(first & 0xFFFF)
    errors = 0
    try:
        slots_by_row, damaged = cuckoo_rows.unpack(layout, data, num_slots, first)
        assert slots_by_row.shape == (len(damaged), num_slots)
    except ValueError:
        errors += 1
    slots, which, damaged = cuckoo_rows.scan_rows(layout, num_slots, data, rows, expected, fingerprints)
    assert len(damaged) == len(rows)
    assert len(slots) == len(which)
    assert (slots < num_slots).all()
    assert errors == 0 or not len(rows)


def sound(taken: Taken, layout: Layout) -> None:
    num_slots, first, flip = taken.number() + 1, taken.number(), taken.number(2)
    requested = np.unique(taken.short_numbers(taken.number() % 12).astype(np.uint32) & 0xFFFFFF)
    raw = np.frombuffer(taken.rest(), np.uint8)
    row_bytes = layout.row_bytes(num_slots)
    num_rows = min(len(raw) // row_bytes, 5)
    items, _ = cuckoo_rows.unpack(layout, raw[: num_rows * row_bytes], num_slots, first)
    rows = cuckoo_rows.pack(layout, items, first)
    again, damaged = cuckoo_rows.unpack(layout, rows.reshape(-1), num_slots, first)
    assert not damaged.any()
    assert (again == items).all()
    if num_rows == 0:
        return
    rows[-1].view()[flip % row_bytes] ^= np.uint8(flip >> 12)  # sometimes a bit of the last row is another one
    is_broken = flip >> 12 != 0
    ends = np.arange(num_rows + 1) * len(requested)
    slots, which, damaged = cuckoo_rows.scan_rows(
        layout, num_slots, rows.reshape(-1), np.arange(num_rows) + first, ends, np.tile(requested, num_rows)
    )
    assert damaged.tolist() == [False] * (num_rows - 1) + [is_broken]
    slots_by_row = [set() for _ in range(num_rows)]
    for slot, number in zip(slots.tolist(), which.tolist(), strict=True):
        slots_by_row[number // max(len(requested), 1)].add((slot, number % len(requested)))
    for row in range(num_rows - is_broken if is_compared(taken.data) else 0):
        expected = {
            (slot, number)
            for number, item in enumerate(requested.tolist())
            for slot in np.flatnonzero(items[row] == item)
        }
        assert slots_by_row[row] == expected
        scan = cuckoo_rows.RowScan(layout, num_slots, requested)
        for at in range(0, row_bytes, 64):
            scan.feed(rows[row, at : at + 64])
        reported = scan.finish(first + row)
        assert reported is not None
        assert {
            (slot, number) for slot, number in zip(reported[0].tolist(), reported[1].tolist(), strict=True)
        } == expected


@functools.cache
def seeds() -> list[bytes]:
    rng = np.random.default_rng(1)
    slots_by_row = []
    for kind, slots in ((0, 70), (1, 33), (2, 40), (3, 25)):
        bits = FINGERPRINT_BITS[kind]
        items = rng.integers(0, 1 << min(bits, 14), (2, slots))
        layout = Layout(9, bits)
        rows = cuckoo_rows.pack(layout, items.astype(layout.dtype), 3)
        some = np.unique(items[0, :6])
        front = bytes([kind, 8, slots - 1, 3, 0, 0, len(some)]) + short(*some.tolist())
        slots_by_row.append(front + rows.tobytes())
        numbers = (
            short(slots, 3)
            + b"\2"
            + short(3, 4)
            + b"\3"
            + short(0, 1, len(some))
            + bytes([len(some)])
            + short(*some.tolist())
        )
        slots_by_row.append(bytes([kind + 4, 8]) + numbers + rows.tobytes())
    return slots_by_row
