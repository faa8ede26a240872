"""Regressions: ORC files that once lost rows, or took long."""

from __future__ import annotations

import datetime as dt
import random
import time
import zoneinfo
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pytest
from support.writers.orc_files import Parts, fields_of, message_of, patched, with_fields, with_stripe_footer
from support.writers.orc_tables import by_pyorc

import parquet_bloom
from parquet_bloom import orc
from parquet_bloom.errors import MalformedOrcError, UnreadableColumnError
from parquet_bloom.orc.orc_compression import Compression
from parquet_bloom.orc.orc_filters import find_timezone_fault
from parquet_bloom.orc.orc_schema import read_leaves
from parquet_bloom.orc.orc_statistics import read_statistics
from parquet_bloom.orc.orc_tail import OrcTail
from parquet_bloom.orc.row_indexes import count_positions, has_positions
from parquet_bloom.predicate.pruning_statistics import PruningStatistics

DAY_NS = 86_400 * 10**9


def tail(writer: str) -> OrcTail:
    return OrcTail({}, Compression("none", 1 << 18), 0, 0, writer, "2.2.2", 9, "proleptic")


def evidence(kind: int, field: int, low: tuple[int, int, int | bytes], high: tuple[int, int, int | bytes], writer: str):
    (leaf,) = read_leaves([{"kind": kind}])
    message = message_of([(1, 0, 5), (field, 2, message_of([low, high]))])
    return read_statistics(message, 0, len(message), leaf, tail(writer), 5)


def test_texts_that_are_not_utf8():
    """Java has U+FFFD in the bounds for bytes that are not UTF-8: '\U0001f600' was beyond them."""
    bad = "\ufffd".encode()
    statistics = evidence(7, 4, (1, 2, b"a"), (2, 2, bad), "java")
    assert (statistics.low, statistics.high) == (b"a", None)
    statistics = evidence(7, 4, (1, 2, bad), (2, 2, "\U0001f600".encode()), "java")
    assert (statistics.low, statistics.high) == (None, "\U0001f600".encode())
    statistics = evidence(7, 4, (1, 2, b"a"), (2, 2, bad), "c++")
    assert statistics.high == bad


def test_wall_clocks_that_programs_do_not_agree_on():
    (leaf,) = read_leaves([{"kind": 9}])
    for first, last, good in (
        (dt.date(1906, 8, 16), dt.date(1910, 1, 1), False),  # Almaty, Mexico City: local mean time in Java alone
        (dt.date(1978, 11, 15), dt.date(1978, 12, 1), False),  # Tehran: databases differ
        (dt.date(2010, 1, 1), dt.date(2030, 1, 1), True),
        (dt.date(2010, 1, 1), dt.date(2087, 5, 9), False),  # Casablanca: rules of the future
    ):
        low, high = ((day - dt.date(1970, 1, 1)).days * DAY_NS for day in (first, last))
        statistics = PruningStatistics(leaf.column_type, True, low, high)
        assert (find_timezone_fault(tail("java"), leaf, "Asia/Almaty", statistics) is None) is good
        assert find_timezone_fault(tail("java"), leaf, "UTC", statistics) is None


def test_bounds_of_wall_clocks_reach_as_far_as_zones_may_differ():
    low, high = -2_000_023_797_000, -964_253_318_997
    statistics = evidence(9, 9, (3, 0, 2 * -low - 1), (4, 0, 2 * -high - 1), "java")
    assert statistics.low <= (low - 3_600_000) * 10**6  # as 'America/Mexico_City' was once read
    assert statistics.high >= (high + 3_600_000) * 10**6


@pytest.mark.ci
def test_row_groups_read_alone_show_the_times_that_stripes_show(tmp_path: Path):
    """Around 1970 pyorc's library and pyarrow's differ by a second, in zones other than UTC."""
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    rows = [(i, epoch + dt.timedelta(seconds=i * 37 - 37 * 1500, milliseconds=i % 1000)) for i in range(3000)]
    path = by_pyorc(
        tmp_path / "a.orc",
        "struct<n:bigint,w:timestamp>",
        rows,
        row_index_stride=50,
        batch_size=1024,
        stripe_size=64 << 20,
        timezone=zoneinfo.ZoneInfo("America/Los_Angeles"),
    )
    full_table = po.ORCFile(path).read()
    for row in range(0, 3000, 50):
        result = parquet_bloom.read_table(path, f"n = {row}")
        assert result["w"][0] == full_table["w"][row], row


def _file(footer: list[tuple[int, int, int | bytes]], before: bytes = b"ORC") -> bytes:
    types = [(12, [(2, 0, 1), (3, 2, b"a")]), (4, [])]
    described = [(4, 2, message_of([(1, 0, kind), *more])) for kind, more in types]
    packed = message_of([*footer[:-1], *described, footer[-1], (8, 0, 1), (9, 0, 1)])
    postscript = message_of([(1, 0, len(packed)), (2, 0, 0), (8000, 2, b"ORC")])
    return before + packed + postscript + bytes([len(postscript)])


def test_few_bytes_make_no_millions_of_row_groups(tmp_path: Path):
    path = tmp_path / "a.orc"
    stripe = message_of([(1, 0, 0), (2, 0, 1), (3, 0, 1), (4, 0, 1), (5, 0, 1 << 22)])
    path.write_bytes(_file([(3, 2, stripe), (6, 0, 1 << 22)]))
    begin = time.process_time()
    with pytest.raises(MalformedOrcError, match="1 bytes for 4194304 row groups"):
        orc.open(path)
    assert time.process_time() - begin < 2


def test_stripes_follow_each_other(tmp_path: Path):
    """Identical packed bytes would be unpacked and held once for each stripe: gigabytes of 200 KB."""
    path = tmp_path / "a.orc"
    stripes = [(3, 2, message_of([(1, 0, 3), (2, 0, 9), (3, 0, 0), (4, 0, 9), (5, 0, 1)]))] * 2
    path.write_bytes(_file([*stripes, (6, 0, 2)], b"ORC" + bytes(40)))
    with pytest.raises(MalformedOrcError, match="inside another one"):
        orc.open(path)


@pytest.mark.ci
def test_values_that_pyarrow_loses_in_nested_structs(tmp_path: Path):
    """Pyarrow counts its input values and writes 0 for some; readers find rows that the statistics do not cover."""
    inner = pa.struct([("c", pa.float64()), ("id", pa.int64())])
    outer = pa.struct([("a", pa.int64()), ("b", inner)])
    some = random.Random(1)
    rows = [{"a": 7, "b": some.choice([None, {"c": 2.5, "id": 9}])} for _ in range(16_000)]
    table = pa.table({"st": pa.array(rows, outer)})
    po.write_table(table, tmp_path / "f.orc", batch_size=1024, row_index_stride=10, bloom_filter_columns=[4, 5])
    read = po.ORCFile(tmp_path / "f.orc").read()["st"].to_pylist()
    for value in {row["b"]["id"] for row in read if row["b"] is not None}:
        result = parquet_bloom.read_table(tmp_path / "f.orc", [("st.b.id", "==", value)])
        assert result.num_rows == sum(row["b"] is not None and row["b"]["id"] == value for row in read)


@pytest.fixture
def one_stripe(tmp_path: Path) -> Path:
    """Forty rows in row groups of ten, not compressed."""
    table = pa.table({"i": range(40), "t": [f"t{i}" for i in range(40)]})
    options = {"row_index_stride": 10, "compression": "uncompressed", "bloom_filter_columns": [1, 2]}
    po.write_table(table, tmp_path / "a.orc", **options)
    return tmp_path / "a.orc"


@pytest.mark.parametrize(
    ("field", "value"),
    [(3, 0), (3, 7), (1, 1), (1, 1 << 40), (1, 1 << 63)],
    ids=["no-length", "short", "kind-of-data", "kind-cut-to-32-bits", "negative-kind"],
)
def test_rows_are_not_read_where_a_stripe_footer_is_wrong(one_stripe: Path, tmp_path: Path, field: int, value: int):
    """ORC's C++ library takes what lies beside a stream for values, or crashes."""

    def change(footer: bytes) -> bytes:
        fields = fields_of(footer)
        fields[1] = 1, 2, with_fields(fields[1][2], {field: value})  # the row index of column 1
        return message_of(fields)

    path = with_stripe_footer(one_stripe, tmp_path / "b.orc", change)
    report = parquet_bloom.prune(path, "i = 33")
    assert 3 in report.selected[str(path)]
    assert "footer of stripe 0 cannot be read" in str(report.files[0].row_groups[3].doubts)
    with pytest.raises(MalformedOrcError, match="stripe 0"):
        parquet_bloom.read_table(path, "i = 33")
    assert not orc.verify(path, data=True).problems  # no filter is there to be wrong


@pytest.mark.parametrize("stride", [2, 9, 10**12])
def test_another_stride_does_not_read_past_the_row_index(one_stripe: Path, tmp_path: Path, stride: int):
    """To read few row groups, ORC's C++ library took an entry of the row index that there was none of, and crashed."""
    parts = Parts(one_stripe.read_bytes())
    path = tmp_path / "b.orc"
    path.write_bytes(parts.together(with_fields(parts.footer, {8: stride})))
    assert parquet_bloom.read_table(path, "i IN (33, 4)")["t"].to_pylist() == ["t4", "t33"]
    if stride < 40:
        with orc.open(path) as file:
            assert not file.seekable(0, ["i"])
    parquet_bloom.advise(path)  # a stride of no size that filters have


def test_a_seek_needs_all_positions(one_stripe: Path):
    with orc.open(one_stripe) as file:
        assert file.seekable(0, ["i", "t"])
    assert count_positions("LONG", (0, 1), 2, True) == 7
    assert count_positions("STRING", (1, 2, 3), 3, True) == 3
    assert count_positions("STRING", (0, 1, 2), 2, False) == 6
    entries = message_of([(1, 2, message_of([(1, 2, bytes(count))])) for count in (5, 4)])
    assert has_positions(entries, 2, 4)
    assert not has_positions(entries, 2, 5)
    assert not has_positions(entries, 3, 4)
    assert not has_positions(b"\x0a\x7f", 1, 0)


def test_advice_on_a_file_whose_stride_is_larger_than_any_filter(tmp_path: Path):
    """It ended in a ValueError: filters are sized for the stride, which a footer may set to anything."""
    path = tmp_path / "a.orc"
    table = pa.table({"a": range(50)})
    po.write_table(table, path, row_index_stride=16, bloom_filter_columns=[1], compression="uncompressed")
    for stride in (1 << 27, 1 << 28, 1 << 31, (1 << 64) - 1):
        report = parquet_bloom.advise(patched(path, tmp_path / "b.orc", {8: stride}), fpp=1e-6)
        assert [advice.column for advice in report.columns] == ["a"]


@pytest.mark.parametrize("stride", [21, 23, 24])
def test_a_stride_under_which_there_are_as_many_row_groups(stride: int, tmp_path: Path):
    """Entries and filters were taken for those of other rows, and rows between were lost; only counts show it."""
    path = tmp_path / "a.orc"
    keys = random.Random(4).sample(range(1 << 40), 100)
    table = pa.table({"a": keys, "b": [f"{key:x}" for key in keys]})
    po.write_table(table, path, row_index_stride=20, bloom_filter_columns=[1, 2], compression="uncompressed")
    shifted = patched(path, tmp_path / "b.orc", {8: stride})
    with orc.open(shifted) as file:
        assert len(file.row_groups) == 5
    for row in (20, 22, 40, 43, 60, 66, 99):
        for where in (f"a = {keys[row]}", f"b = '{keys[row]:x}'"):
            assert parquet_bloom.read_table(shifted, where).num_rows == 1
            assert "of another stride" in str(parquet_bloom.prune(shifted, where).doubts)
            assert parquet_bloom.prune(path, where).doubts == []


@pytest.mark.parametrize("change", [{1: 0}, {3: 1}, {3: 41}], ids=["kind", "shorter", "longer"])
def test_streams_that_do_not_fill_the_stripe(change: dict[int, int | bytes | None], tmp_path: Path):
    """Streams after such a stream were read at the wrong offset, and their rows were lost without an error."""
    path = tmp_path / "a.orc"
    keys = random.Random(4).sample(range(1 << 40), 100)
    po.write_table(
        pa.table({"a": keys}), path, row_index_stride=20, bloom_filter_columns=[1], compression="uncompressed"
    )

    def first_stream(footer: bytes) -> bytes:
        first, *others = fields_of(footer)
        return message_of([(1, 2, with_fields(bytes(first[2]), change)), *others])

    broken = with_stripe_footer(path, tmp_path / "b.orc", first_stream)
    assert set(parquet_bloom.prune(broken, f"a = {keys[35]}").selected[str(broken)]) == {0, 1, 2, 3, 4}
    with pytest.raises(MalformedOrcError, match=r"b\.orc: the footer of stripe 0 cannot be read: .*stream"):
        parquet_bloom.read_table(broken, f"a = {keys[35]}")


def test_names_that_are_not_text(tmp_path: Path):
    """They ended in a UnicodeDecodeError of pyarrow's schema, not when it was made but when it was looked at."""
    path = tmp_path / "a.orc"
    po.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"\x1a\x01b", b"\x1a\x01\xba"))
    with pytest.raises(UnreadableColumnError, match=r"a\.orc: cannot be read"):
        parquet_bloom.read_table(path, "a = 1")
