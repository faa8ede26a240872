"""Upper bounds of texts that were cut and not rounded up: what begins with one is within."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.oracle import BINARY, BOOL, Struct
from support.writers import surgery
from support.writers.page_indexes import COLUMN_INDEX, encode_bounds, locations, with_index

import parquet_bloom
from parquet_bloom.file.chunk_bounds import decode_bounds
from parquet_bloom.hashing.column_type import from_parquet
from parquet_bloom.metadata.footer import Statistics
from parquet_bloom.predicate.pruning import PruningPredicate
from parquet_bloom.predicate.pruning_statistics import CutBound, PruningStatistics, PruningStatisticsArray
from parquet_bloom.predicate.tree import Compare, Equal, In, NotEqual, NotIn

TEXT = from_parquet("BYTE_ARRAY", converted=0)
BYTES = from_parquet("BYTE_ARRAY")


def keys(prefix: bytes, number: int) -> bytes:
    return prefix + b"%032d" % number


def write(path: Path, values: list[Any], created_by: str = "github.com/segmentio/parquet-go", **options: Any) -> Path:
    pq.write_table(pa.table({"a": values}), path, use_dictionary=False, compression="none", **options)
    return surgery.rewrite_footer(path, lambda footer: footer.set(6, BINARY, created_by.encode()))


def cut_statistics(path: Path, length: int, exact: bool | None) -> None:
    """Cut the bounds of row groups, and say, or not, whether they are exact."""

    def change(footer: Struct) -> None:
        for _, metadata in surgery.each_chunk(footer):
            statistics = metadata.value(surgery.STATISTICS)
            for field in (5, 6):
                statistics.set(field, BINARY, statistics.value(field)[:length])
            for field in (7, 8):
                statistics.pop(field, None)
                if exact is not None:
                    statistics.set(field, BOOL, exact)

    surgery.rewrite_footer(path, change)


def count(path: Path, where: Any, **options: Any) -> int:
    return parquet_bloom.read_table(str(path), where, **options).num_rows


@pytest.mark.ci
@pytest.mark.parametrize("exact", [None, False])
@pytest.mark.parametrize("length", [1, 8, 16, 40])
@pytest.mark.parametrize("created_by", ["github.com/parquet-go/parquet-go version 0.25.0", "parquet-mr version 1.16.0"])
def test_row_groups(created_by: str, length: int, exact: bool | None, tmp_path: Path) -> None:
    if length < 16 and exact is None and created_by.startswith("parquet-mr"):
        pytest.skip("parquet-mr rounds up what it cuts, and nothing was seen to cut to less than 16 bytes")
    values = [f"{i // 10:020d}{'x' * 30}{i:04d}" for i in range(40)]
    path = write(tmp_path / "a.parquet", values, created_by, row_group_size=10)
    cut_statistics(path, length, exact)
    (tmp_path / "more").mkdir()
    for name in "abc":
        (tmp_path / "more" / f"{name}.parquet").write_bytes(path.read_bytes())
    for value in values[::7]:
        for where in (f"a = '{value}'", f"a IN ('{value}', 'y')", f"a >= '{value}' AND a <= '{value}'"):
            assert count(path, where) == 1, where
            assert count(tmp_path / "more", where) == 3, where
    assert count(path, f"a > '{values[0]}'") == 39
    assert count(path, f"a <> '{values[0][:length]}'") == 40
    assert count(path, f"a NOT IN ('{values[0][:length]}', '{values[11][:length]}')") == 40


def test_rows_whose_bounds_are_equal(tmp_path: Path) -> None:
    """A row group of values that all begin alike: its bounds are no values of it."""
    values = [f"{'p' * 16}{i}" for i in range(10)]
    path = write(tmp_path / "a.parquet", values)
    cut_statistics(path, 16, None)
    assert count(path, f"a <> '{'p' * 16}'") == 10
    assert count(path, f"NOT a = '{'p' * 16}'") == 10
    assert count(path, f"a > '{'p' * 16}'") == 10


def test_bytes_that_cannot_be_rounded_up(tmp_path: Path) -> None:
    values = [b"\xff" * 16 + bytes([i]) for i in range(10)] + [b"\xff" * 90]
    path = write(tmp_path / "a.parquet", values)
    cut_statistics(path, 16, None)
    for value in values:
        assert count(path, [("a", "=", value)]) == 1
        assert count(path, [("a", "in", [value, b"a"])]) == 1
    assert not parquet_bloom.prune(str(path), [("a", "=", b"\xff" * 15 + b"\xfe" * 5)]).selected


def test_exact_bounds_rule_out_as_before(tmp_path: Path) -> None:
    """Where the file says so; where its writer is known to round up, and they are short; never the empty text."""
    path = write(tmp_path / "a.parquet", ["aa", "ab"])
    for exact, created_by, selected in (
        (True, "github.com/segmentio/parquet-go", 0),
        (None, "parquet-mr version 1.16.0 (build a)", 0),
        (None, "github.com/segmentio/parquet-go", 1),
        (False, "parquet-mr version 1.16.0 (build a)", 1),
    ):
        cut_statistics(path, 16, exact)
        surgery.rewrite_footer(path, lambda footer, name=created_by: footer.set(6, BINARY, name.encode()))
        assert parquet_bloom.prune(str(path), "a = 'abc'").selected_row_groups == selected, created_by
        assert parquet_bloom.prune(str(path), "a = 'ac'").selected_row_groups == 0
    path = write(tmp_path / "b.parquet", ["", ""])
    cut_statistics(path, 16, None)
    assert parquet_bloom.prune(str(path), "a = 'abc'").selected_row_groups == 0


@pytest.mark.parametrize("length", [4, 16])
def test_pages(length: int, tmp_path: Path) -> None:
    """Whichever columns are read with them, and for all rows of all pages."""
    count_rows, per_page = 4000, 40
    values = [f"{i // per_page:04d}{'x' * 12}{i % per_page:03d}" for i in range(count_rows)]
    path = tmp_path / "a.parquet"
    options: dict[str, Any] = {"use_dictionary": False, "compression": "none", "write_page_index": True}
    table = pa.table({"a": values, "b": [f"{i}" * 20 for i in range(count_rows)]})
    pq.write_table(table, path, write_batch_size=per_page, data_page_size=1, **options)
    pages = locations(path)
    starts = [first for *_, first in pages] + [count_rows]
    low = [values[start].encode()[:length] for start in starts[:-1]]
    high = [values[end - 1].encode()[:length] for end in starts[1:]]
    with_index(path, encode_bounds([False] * len(pages), low, high, [0] * len(pages), 1), kind=COLUMN_INDEX)

    def change(footer: Struct) -> None:
        footer.set(6, BINARY, b"github.com/segmentio/parquet-go")
        for _, metadata in surgery.each_chunk(footer):
            metadata.pop(surgery.STATISTICS, None)

    surgery.rewrite_footer(path, change)
    dataset = parquet_bloom.dataset(str(path))
    for row in range(0, count_rows, 333):
        for where in (f"a = '{values[row]}'", f"a >= '{values[row]}' AND a <= '{values[row]}'"):
            ranges = dataset.scan(where).row_ranges()[str(path)][0]
            assert any(start <= row < stop for start, stop in ranges), where
            assert sum(stop - start for start, stop in ranges) <= 2 * per_page, where
            for columns in (["a"], ["a", "b"], None):
                assert count(path, where, columns=columns) == 1, where
    assert count(path, f"a <> '{low[0].decode()}'") == count_rows
    assert len(pages) == count_rows // per_page


# ------------------------------------------------------------------------------------------------------------ the rule


def test_which_bounds_may_be_cut() -> None:
    fixed = from_parquet("FIXED_LEN_BYTE_ARRAY", 16)
    for low, high, exact, column_type, shortest, is_cut in (
        *((b"a", b"b", None, TEXT, 1, True), (b"a", b"b", True, TEXT, 1, False), (b"a", b"b", None, BYTES, 1, True)),
        *((b"a", b"b", None, TEXT, 16, False), (b"a", b"b", False, TEXT, 16, True), (b"", b"", None, TEXT, 1, False)),
        *((b"a" * 16, b"b" * 16, None, TEXT, 16, True), (bytes(16), b"\xff" * 16, None, fixed, 1, False)),
        (b"abcdef", b"abc", None, TEXT, 1, True),  # the lower bound is not cut
    ):
        stored = Statistics(None, low, high, None, None, *([] if exact is None else [exact]))
        decoded = decode_bounds(stored, column_type, True, shortest)
        assert (type(decoded[1]) is CutBound) == is_cut, stored
        assert decoded[0] == low
        assert bytes(decoded[1]) == high
    for precision, length, exact, known in (
        *((38, 16, None, True), (60, 15, None, True), (60, 16, False, False), (60, 16, True, True)),
        (60, 25, None, False),
    ):  # decimals that may be cut are other numbers
        column_type = from_parquet("BYTE_ARRAY", converted=5, scale=0, precision=precision)
        stored = Statistics(None, b"\x01" * length, b"\x02" * length, None, None, exact)
        assert (decode_bounds(stored, column_type, True) != (None, None)) == known


def possible(node: Any, *containers: tuple[bytes, bytes, bool]) -> list[bool]:
    """Which containers may have a match, given (low, high, whether high may be cut) of each."""
    evidence = [
        PruningStatistics(BYTES, True, low, CutBound(high) if cut else high, has_nulls=False)
        for low, high, cut in containers
    ]
    parts = [PruningStatisticsArray.of(BYTES, [one]) for one in evidence]
    predicate = PruningPredicate(node)
    joined = PruningStatisticsArray.joined(parts)
    outcomes = [
        predicate.possible(predicate.decide_all({"a": array}, len(array))).tolist()
        for array in (
            PruningStatisticsArray.of(BYTES, evidence),
            joined,
            joined.at(np.arange(len(joined))),
            PruningStatisticsArray.joined([joined.part(0, 1), joined.part(1, len(joined))]),
        )
    ]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    return list(outcomes[0])


def test_comparisons_with_bounds_that_are_cut() -> None:
    for node, expected in (
        *((Equal("a", b"abcz"), [1, 0, 1]), (Equal("a", b"abd"), [0, 0, 1]), (Equal("a", b"abc"), [1, 1, 1])),
        (In("a", (b"A", b"abca", b"abcz", b"abd")), [1, 0, 1]),
        *((In("a", (b"A", b"abd", b"b")), [0, 0, 1]), (NotEqual("a", b"abc"), [1, 1, 1])),
        *((Compare("a", ">", b"abcz"), [1, 0, 1]), (Compare("a", ">=", b"abcz"), [1, 0, 1])),
        *((Compare("a", ">", b"abc"), [1, 0, 1]), (Compare("a", ">=", b"abd"), [0, 0, 1])),
        (Compare("a", "<", b"aa"), [0, 0, 0]),
    ):
        assert possible(node, (b"aa", b"abc", True), (b"aa", b"abc", False), (b"aa", b"ab", True)) == expected, node


@pytest.mark.parametrize("node", [NotEqual("a", b"abc"), NotIn("a", (b"abc", b"x"))])
def test_a_constant_that_is_cut_is_none(node: Any) -> None:
    assert possible(node, (b"abc", b"abc", True), (b"abc", b"abc", False)) == [True, False]


def test_spans_end_where_literals_no_longer_begin_with_the_bound() -> None:
    literals = tuple(b"k%05d" % i for i in range(0, 3000, 3))
    node = In("a", literals)
    assert possible(node, (b"k00000", b"k01", True), (b"k03", b"k03", True), (b"k0299", b"k0299", True)) == [
        True,
        False,
        True,
    ]
    assert CutBound(b"ab") >= b"abc"
    assert not CutBound(b"ab") < b"abc"
    assert CutBound(b"ab") < b"ac"
    assert CutBound(b"ab") != b"ab"
    assert len({CutBound(b"ab")}) == 1
