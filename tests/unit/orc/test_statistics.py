"""Statistics in ORC files of several writers: they hold for their row groups, and doubtful ones are left out."""

from __future__ import annotations

import datetime as dt
import math
import struct
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.writers.orc_columns import ROWS, STRIDE, columns, table_of
from support.writers.orc_files import message_of, varint

import parquet_bloom.orc as orc
from parquet_bloom.orc.orc_compression import Compression
from parquet_bloom.orc.orc_schema import OrcLeaf, read_leaves
from parquet_bloom.orc.orc_statistics import GREGORIAN_DAY, ZONED_MS, read_statistics
from parquet_bloom.orc.orc_tail import OrcTail
from parquet_bloom.predicate.pruning_statistics import CutBound, PruningStatistics

KINDS = {"BYTE": 1, "SHORT": 2, "INT": 3, "LONG": 4, "FLOAT": 5, "DOUBLE": 6, "STRING": 7, "BINARY": 8, "TIMESTAMP": 9}
KINDS |= {"DECIMAL": 14, "DATE": 15, "VARCHAR": 16, "CHAR": 17, "TIMESTAMP_INSTANT": 18, "BOOLEAN": 0}
ANY_ROWS = 10


def leaf(kind: str, **described: Any) -> OrcLeaf:
    types = [{"kind": 12, "children": [1], "names": [b"a"]}, {"kind": KINDS[kind], **described}]
    return read_leaves(types)[0]


def tail(writer: str = "java", version: int = 9, calendar: str | None = "proleptic") -> OrcTail:
    return OrcTail({}, Compression("none", 1), 0, 0, writer, "2.0.0", version, calendar)


def sint(value: int) -> int:
    return (value << 1 ^ value >> 63) & ((1 << 64) - 1)


def double(value: float) -> bytes:
    return struct.pack("<d", value)


def read_evidence(
    of: OrcLeaf,
    field: int,
    *inner: tuple[int, int, int | bytes],
    count: int = 5,
    by: OrcTail | None = None,
    rows: int = ANY_ROWS,
) -> PruningStatistics:
    """The evidence of statistics with some values, and some nulls."""
    message = message_of([(1, 0, count), (field, 2, message_of(inner)), (10, 0, int(count < rows))])
    return read_statistics(b"?" + message + b"?", 1, 1 + len(message), of, by or tail(), rows)


def bounds(*given: Any, **more: Any) -> tuple[Any, Any]:
    statistics = read_evidence(*given, **more)
    assert statistics.doubt is None
    return statistics.low, statistics.high


def test_what_pyarrow_writes(tmp_path: Path) -> None:
    """Bounds hold for all values of their row group, and are those of the values themselves where that can be."""

    def _assert_true(one: PruningStatistics, domain: list[Any], kind: str) -> None:
        non_null = [value for value in domain if value is not None]
        assert one.doubt is None
        assert one.has_values
        assert one.has_nulls is (None in domain)
        if kind == "BINARY":
            assert one.low is one.high is None
        elif kind.startswith("TIMESTAMP"):
            assert isinstance(one.low, int)
            assert isinstance(one.high, int)
            assert min(non_null) - 2_100_000_000 <= one.low <= min(non_null)
            assert max(non_null) <= one.high <= max(non_null) + 1_000_000
        else:
            assert (one.low, one.high) == (min(non_null), max(non_null))

    def _domain(value: Any, kind: str, scale: int) -> Any:
        if isinstance(value, str):
            return value.encode()
        return int(value.scaleb(scale)) if isinstance(value, Decimal) else value

    made_columns = columns(9)
    path = tmp_path / "a.orc"
    pa_orc.write_table(table_of(made_columns), path, row_index_stride=STRIDE)
    with orc.open(path) as file:
        statistics = file.row_group_evidence(file.leaves, [0])
        for of in file.leaves:
            values = made_columns[of.name][1]
            scale = of.column_type.scale
            domain = [_domain(value, of.kind, scale) for value in values]
            for one, start in zip(statistics[0, of.column_id], range(0, ROWS, STRIDE), strict=True):
                _assert_true(one, domain[start : start + STRIDE], of.kind)
            (stripe,) = file.stripe_statistics(of)
            _assert_true(stripe, domain, of.kind)


def test_only_nulls(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    pa_orc.write_table(pa.table({"a": pa.nulls(9, pa.int64()), "b": range(9)}), path, bloom_filter_columns=[1, 2])
    with orc.open(path) as file:
        statistics = file.row_group_evidence(file.leaves, [0])
        assert (statistics[0, 1][0].has_values, statistics[0, 1][0].has_nulls, statistics[0, 1][0].low) == (
            False,
            True,
            None,
        )
        assert (statistics[0, 2][0].has_values, statistics[0, 2][0].has_nulls) == (True, False)
        nulls = file.filters_of(file.leaf("a"), 0)[0]
        assert nulls is not None
        assert nulls.trusted  # no bit is set, and that is right
        assert nulls.check([1, None]).tolist() == [False, True]


@pytest.mark.parametrize("first", [True, False])
def test_nan_hides_values(first: bool, tmp_path: Path) -> None:
    """A NaN that comes first is taken for the bounds, and the stripe's bounds leave out all of its row group."""
    values = [1.0, 2.0, math.nan, 100.0] if first else [1.0, 2.0, 100.0, math.nan]
    path = tmp_path / "a.orc"
    pa_orc.write_table(
        pa.table({"a": values}), path, row_index_stride=2, compression="uncompressed", bloom_filter_columns=[1]
    )
    with orc.open(path) as file:
        of = file.leaf("a")
        (stripe,) = file.stripe_statistics(of)
        groups = file.row_group_evidence([of], [0])[0, 1]
        assert (groups[0].low, groups[0].high) == (1.0, 2.0)
        assert groups[1].low is None
        assert stripe.low is None
        assert stripe.high is None


def test_counts() -> None:
    of = leaf("LONG")

    def is_known(count: int | None, null: int | None, rows: int = 10, at: OrcLeaf = of) -> tuple[Any, Any]:
        fields = [(1, 0, count), (10, 0, null)]
        message = message_of((n, w, v) for n, w, v in fields if v is not None)
        statistics = read_statistics(message, 0, len(message), at, tail(), rows)
        return statistics.has_values, statistics.has_nulls

    assert is_known(10, 0) == (True, False)
    assert is_known(10, None) == (True, False)
    assert is_known(10, 1) == (True, None)  # they contradict each other
    assert is_known(5, 1) == (True, True)
    assert is_known(5, None) == (True, None)
    assert is_known(5, 0) == (None, None)  # without nulls there would be 10
    assert is_known(0, 1) == (False, True)
    assert is_known(0, 0) == (None, None)
    assert is_known(11, 0) == (None, None)
    assert is_known(None, 1) == (None, True)
    assert is_known(None, None) == (None, None)
    types = [
        {"kind": 12, "children": [1, 3], "names": [b"s", b"l"]},
        {"kind": 12, "children": [2], "names": [b"a"]},
        {"kind": 4},
        {"kind": 10, "children": [4]},
        {"kind": 4},
    ]
    member, element = read_leaves(types)
    assert (member.name, member.repeated, element.name, element.repeated) == ("s.a", False, "l.item", True)
    assert is_known(5, 0, at=member) == (True, None)  # rows whose struct is null are not counted as nulls
    assert is_known(0, 0, at=member) == (None, None)  # unless the struct is known to be null
    assert is_known(10, 0, at=member) == (True, False)
    assert is_known(30, 0, at=element) == (True, None)
    assert is_known(10, 0, at=element) == (True, None)
    assert is_known(0, 0, at=element) == (None, None)  # unless there are lists


def test_bounds_of_what_has_no_values() -> None:
    assert bounds(leaf("LONG"), 2, (1, 0, sint(1)), (2, 0, sint(2)), count=0) == (None, None)


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers(one: int, other: int) -> None:
    low, high = min(one, other), max(one, other)
    fields = (1, 0, sint(low)), (2, 0, sint(high))
    assert bounds(leaf("LONG"), 2, *fields) == (low, high)
    assert bounds(leaf("LONG"), 2, *reversed(fields)) == (low, high)
    for kind, bits in (("BYTE", 8), ("SHORT", 16), ("INT", 32)):
        fits = -(1 << bits - 1) <= low and high < 1 << bits - 1
        assert bounds(leaf(kind), 2, *fields) == ((low, high) if fits else (None, None))
    if low != high:
        assert bounds(leaf("LONG"), 2, (1, 0, sint(high)), (2, 0, sint(low))) == (None, None)
    assert bounds(leaf("LONG"), 2, fields[0]) == (low, None)
    assert bounds(leaf("LONG"), 7, *fields) == (None, None)  # those of another type


def test_floats() -> None:
    def of(low: float, high: float, total: float | None, writer: str = "java") -> tuple[Any, Any]:
        fields: list[Any] = [(1, 1, double(low)), (2, 1, double(high))]
        fields += [] if total is None else [(3, 1, double(total))]
        return bounds(leaf("DOUBLE"), 3, *fields, by=tail(writer))

    assert of(-1.5, 2.5, 4.0) == (-1.5, 2.5)
    assert of(-math.inf, math.inf, 4.0) == (-math.inf, math.inf)
    for nan in ((math.nan, 1.0, 2.0), (1.0, math.nan, 2.0), (1.0, 2.0, math.nan)):
        assert of(*nan) == (None, None)
    assert of(1.0, 2.0, None) == (None, None)
    assert of(1.0, 2.0, None, "trino") == (1.0, 2.0)


def test_texts() -> None:
    for kind in ("STRING", "VARCHAR"):
        assert bounds(leaf(kind), 4, (1, 2, b"a"), (2, 2, b"b")) == (b"a", b"b")
        for low_field in (1, 4):  # of both bounds, or of the upper one alone
            low, high = bounds(leaf(kind), 4, (low_field, 2, b"a"), (5, 2, b"b"))
            assert (low, type(high), bytes(high)) == (b"a", CutBound, b"b")
        assert bounds(leaf(kind), 4, (1, 2, b"a")) == (b"a", None)
    assert bounds(leaf("CHAR", length=3), 4, (1, 2, b"a"), (2, 2, b"b")) == (None, None)
    for version, good in ((0, False), (1, False), (2, True)):
        statistics = bounds(leaf("STRING"), 4, (1, 2, b"a"), (2, 2, b"b"), by=tail(version=version))
        assert statistics == ((b"a", b"b") if good else (None, None))


def test_the_first_writers_bounds_are_not_taken() -> None:
    assert bounds(leaf("LONG"), 2, (1, 0, sint(1)), (2, 0, sint(2)), by=tail(version=0)) == (None, None)
    assert bounds(leaf("LONG"), 2, (1, 0, sint(1)), (2, 0, sint(2)), by=tail(version=1)) == (1, 2)


def test_long_texts_are_cut_by_pyarrow_and_java(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    values = ["b" * 5_000, "c" * 5_000]
    pa_orc.write_table(pa.table({"a": values}), path)
    with orc.open(path) as file:
        (statistics,) = file.stripe_statistics(file.leaf("a"))
    assert statistics.low is None or statistics.low <= values[0].encode()  # type: ignore[operator]
    assert statistics.high is None or statistics.high >= values[1].encode()  # type: ignore[operator]


def test_decimals() -> None:
    of = leaf("DECIMAL", precision=20, scale=2)
    for low, high, expected in (
        *((b"-1.5", b"100", (-150, 10_000)), (b"0", b"0.01", (0, 1)), (b"3", b"2", (None, None))),
        *((low, b"2", (None, 200)) for low in (b"1.234", b"NaN", b"Infinity", b"1e999999", b"", b"\xff", b"1" * 101)),
    ):
        assert bounds(of, 6, (1, 2, low), (2, 2, high)) == expected, low
    own_scales = leaf("DECIMAL")
    assert own_scales.column_type.kind.name == "UNKNOWN"
    assert bounds(own_scales, 6, (1, 2, b"1"), (2, 2, b"2")) == (None, None)


def test_dates() -> None:
    for calendar, low, is_valid in (
        ("proleptic", -700_000, True),
        *((calendar, GREGORIAN_DAY - early, not early) for calendar in ("hybrid", None) for early in (1, 0)),
    ):
        statistics = bounds(leaf("DATE"), 7, (1, 0, sint(low)), (2, 0, sint(9)), by=tail(calendar=calendar))
        assert statistics == ((low, 9) if is_valid else (None, None))
    assert (dt.date(1970, 1, 1) + dt.timedelta(GREGORIAN_DAY)) == dt.date(1582, 10, 15)


def test_timestamps() -> None:
    ms, later = 1_000_000, 10**12

    def of(low: int | None, high: int | None, kind: str = "TIMESTAMP", **by: Any) -> tuple[Any, Any]:
        fields = [(3, 0, low), (4, 0, high), (5, 0, 9), (6, 0, 9)]
        given: list[Any] = [(n, 0, sint(v)) for n, _, v in fields if v is not None]
        return bounds(leaf(kind), 9, *given, by=tail(**by))

    for kind in ("TIMESTAMP", "TIMESTAMP_INSTANT"):
        assert of(later, later + 5, kind) == (later * ms, (later + 5) * ms + ms - 1)
        day = 86_400_000 if kind == "TIMESTAMP" else 0  # what zones may differ by, far back
        assert of(-later, later, kind) == ((-later - 1_001 - day) * ms, later * ms + ms - 1)
        assert of(-later, -5, kind) == ((-later - 1_001 - day) * ms, (1_001 - 5 + day) * ms + ms - 1)
        assert of(later, None, kind) == (later * ms, None)
        assert of(None, later, kind) == (None, None)
        assert of(later, later + 5, kind, version=5) == (None, None)
        assert of(later, later + 5, kind, version=6) != (None, None)
    assert of(ZONED_MS - 1, later) == (None, None)
    assert of(ZONED_MS - 1, later, "TIMESTAMP_INSTANT") != (None, None)
    assert of(GREGORIAN_DAY * 86_400_000 - 1, later, "TIMESTAMP_INSTANT") == (None, None)
    # in the writer's zone, which nobody knows: not taken
    assert bounds(leaf("TIMESTAMP"), 9, (1, 0, sint(later)), (2, 0, sint(later))) == (None, None)


def test_wall_clocks_of_spark_that_are_numbers() -> None:
    of = leaf("LONG", attributes=[{"key": b"spark.sql.catalyst.type", "value": b"timestamp_ntz"}])
    assert (of.column_type.kind.name, of.column_type.unit, of.column_type.utc) == ("TIMESTAMP", "us", False)
    assert of.attributes == (("spark.sql.catalyst.type", "timestamp_ntz"),)
    assert bounds(of, 2, (1, 0, sint(-5)), (2, 0, sint(7))) == (-5, 7)


def test_booleans() -> None:
    of = leaf("BOOLEAN")
    assert bounds(of, 5, (1, 2, varint(3))) == (False, True)
    assert bounds(of, 5, (1, 2, varint(0))) == (False, False)
    assert bounds(of, 5, (1, 0, 5)) == (True, True)
    assert bounds(of, 5, (1, 2, varint(6))) == (None, None)
    assert bounds(of, 5) == (None, None)


@given(
    st.lists(st.none() | st.integers(-(1 << 62), 1 << 62), min_size=1, max_size=30),
    st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=4), min_size=1, max_size=30),
    st.integers(1, 9),
)
def test_bounds_hold(numbers: list[int | None], texts: list[str | None], stride: int) -> None:
    rows = min(len(numbers), len(texts))
    sink = pa.BufferOutputStream()
    table = pa.table({"i": pa.array(numbers[:rows], pa.timestamp("ns")), "t": pa.array(texts[:rows], pa.string())})
    pa_orc.write_table(table, sink, row_index_stride=stride)
    with tempfile.NamedTemporaryFile(suffix=".orc") as stream:
        stream.write(sink.getvalue().to_pybytes())
        stream.flush()
        with orc.open(stream.name) as file:
            statistics = file.row_group_evidence(file.leaves, [0])
            for group in file.row_groups:
                for name, values in (
                    ("i", numbers),
                    ("t", [t and t.encode() if t else (b"" if t == "" else None) for t in texts]),
                ):
                    one = statistics[0, file.leaf(name).column_id][group.row_group]
                    here = values[group.first_row : group.first_row + group.num_rows]
                    non_null: list[Any] = [value for value in here if value is not None]
                    assert one.has_values is bool(non_null)
                    if non_null:
                        assert one.low is None or one.low <= min(non_null)
                        assert one.high is None or one.high >= max(non_null)
