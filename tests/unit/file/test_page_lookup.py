"""Page indexes: pages are ruled out by bounds and null counts; false ones lose no row and are given up with a word."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scans import ALL_PAGES, BY_PAGES, scan
from support.writers.page_indexes import COLUMN_INDEX, encode_bounds, encode_locations, locations, with_index

import parquet_bloom
from parquet_bloom.file.metadata_cache import MetadataCache
from parquet_bloom.file.pages.page_lookup import PageLookup

ROWS = 2000
pytestmark = pytest.mark.usefixtures("settled_footers")


def make_table() -> pa.Table:
    """a: ascending, with nulls; b: not."""
    numbers = [None if 600 <= i < 900 else i for i in range(ROWS)]
    return pa.table({"a": pa.array(numbers, pa.int64()), "b": [i * 7919 % ROWS for i in range(ROWS)]})


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    queried = {"write_page_index": True, "data_page_size": 700, "write_batch_size": 50, "use_dictionary": False}
    pq.write_table(table, path, row_group_size=len(table), **queried | {"compression": "none"} | options)
    return path


def rows_left(path: Path, where: str) -> list[tuple[int, int]]:
    return scan(path, where, limits=BY_PAGES).row_ranges()[str(path)][0]


def read(path: Path, where: Any) -> pa.Table:
    return scan(path, where, limits=BY_PAGES).to_arrow()


def test_a_cache_that_is_full_forgets(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", make_table())
    with parquet_bloom.open(path) as file:
        cache = MetadataCache(file.cached.num_bytes + 100)
    for _ in range(2):
        with parquet_bloom.open(path, cache=cache) as file:
            PageLookup(file, 0, ALL_PAGES).find_bounds([file.leaf("a")])
        assert len(cache) == 0
        assert cache.num_bytes == 0


def test_a_rewritten_file_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for shift in (0, 1):
        write(path, pa.table({"a": [(i + 700 * shift) % ROWS for i in range(ROWS)]}))
        assert read(path, "a = 700").num_rows == 1
        assert rows_left(path, "a = 700")[0][0] in ((0,) if shift else range(1, 701))


@pytest.mark.parametrize(
    "lie", [lambda p: [(o, s, r + (r > 0)) for o, s, r in p], lambda p: []], ids=["first rows", "no page"]
)
def test_an_index_that_is_not_used_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, lie: Any) -> None:
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    table = make_table()
    path = write(tmp_path / "a.parquet", table)
    assert read(path, "a = 1700").equals(table.slice(1700, 1))
    assert not warnings()
    with_index(path, encode_locations(lie(locations(path))))
    for _ in range(2):
        assert read(path, "a = 1700").equals(table.slice(1700, 1))
        assert rows_left(path, "a = 1700") == [(0, ROWS)]
    (message,) = warnings()  # as long as the file is known
    assert message.startswith(f"{path}: row group 0, column 'a': the page index is not used: ")


NO_BOUND = bytes(8)
FALSE_BOUNDS = {
    "a page is called null": lambda b, n: all_null(b, 5, n),
    "a page is called null, nulls not counted": lambda b, n: (*all_null(b, 5, n)[:3], None),
    "nulls moved to another page": lambda b, n: (b[0], b[1], b[2], [b[3][-1], *b[3][:-1]]),
    "too few nulls": lambda b, n: (*b[:3], [0] * len(b[3])),
    "a largest value that is none": lambda b, n: (b[0], b[1], [*b[2][:-1], NO_BOUND], b[3]),
    "all bounds alike": lambda b, n: (b[0], [b[1][1]] * len(b[1]), [b[1][1]] * len(b[1]), b[3]),
    "bounds the wrong way round": lambda b, n: (b[0], b[2], b[1], b[3]),
    "bounds of no bytes": lambda b, n: (b[0], [b""] * len(b[1]), [b""] * len(b[1]), b[3]),
    "a page too few": lambda b, n: tuple(part[:-1] for part in b),
}


def all_null(bounds: Any, page: int, rows: int) -> Any:
    null_pages, low, high, counts = bounds
    null_pages[page], counts[page] = True, rows
    return null_pages, low, high, counts


@pytest.mark.ci
@pytest.mark.parametrize("lie", FALSE_BOUNDS)
def test_bounds_that_contradict_the_column_chunk(tmp_path: Path, lie: str) -> None:
    table = make_table()
    values = table["a"].to_pylist()
    for order in (0, 1, 2):
        path = write(tmp_path / f"{order}.parquet", table)
        result = locations(path)
        starts = [row for _, _, row in result]
        parts = []  # null pages, bounds, null counts
        for start, stop in zip(starts, [*starts[1:], ROWS], strict=True):
            there = [value for value in values[start:stop] if value is not None]
            encoded = [value.to_bytes(8, "little") for value in (min(there, default=0), max(there, default=0))]
            parts.append((not there, *encoded, stop - start - len(there)))
        bounds = [list(part) for part in zip(*parts, strict=True)]
        with_index(path, encode_bounds(*bounds, order=order), kind=COLUMN_INDEX)
        believed = sum(stop - start for start, stop in rows_left(path, "a = 1700")) < ROWS / 10
        assert believed == (order != 2)  # the true one, unless it is said to be in an order that it is not in
        false = FALSE_BOUNDS[lie](bounds, result[6][2] - result[5][2])
        with_index(path, encode_bounds(*false, order=order), kind=COLUMN_INDEX)
        for row in (0, result[5][2], result[6][2] - 1, 1700, ROWS - 1):
            assert read(path, [("a", "=", row)]).equals(table.slice(row, 1))
            if values[row] is not None:  # whose pages are read however small the chunk is
                assert any(start <= row < stop for start, stop in rows_left(path, f"a = {row}"))
        for where in ("a IS NULL", "a IS NOT NULL"):
            rows = [row for row, value in enumerate(values) if (value is None) == (where == "a IS NULL")]
            assert read(path, where)["b"].to_pylist() == table["b"].take(rows).to_pylist()


def test_null_counts_rule_pages_out(tmp_path: Path) -> None:
    table = make_table()
    path = write(tmp_path / "a.parquet", table, max_rows_per_page=100)
    for where, expected in (
        ("a IS NULL", [(600, 900)]),
        ("a IS NOT NULL", [(0, 600), (900, ROWS)]),
        ("a IS NULL OR a = 1234", [(600, 900), (1200, 1300)]),
        ("a = 1 AND a = 1999", []),
        ("b < 1900", [(0, ROWS)]),
    ):
        assert rows_left(path, where) == expected, where
    assert scan(path, "a = -1", limits=BY_PAGES).row_ranges() == {}
    assert read(path, "a = 1 AND a = 1999").num_rows == 0
    assert read(path, "a IS NULL OR a = 1234")["b"].to_pylist() == table["b"].take([*range(600, 900), 1234]).to_pylist()
