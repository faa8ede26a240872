"""No row is lost: files in which only what a reader has to doubt is wrong.

That is where the footer says that filters and page indexes are, headers of filters, and page indexes but for the bounds
of pages, which nothing can be held against. What pyarrow reads is the truth; where the footer is changed elsewhere
(and not in statistics), rows are those that pyarrow finds, or there is an error.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from choices import Choices
from harness import bounded_memory
from scratch import as_file
from small_parquet import GROUP, ROWS, bases, header_changed, table, with_filter, with_index
from support.oracle import oracle

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file.metadata_cache import SHARED_CACHE
from parquet_bloom.predicate import parse

ALLOWED = (ParquetBloomError,)
SLICE = 60

_TRUTH = table().to_pydict()
_COLUMNS = ["k", "s", "n"]
_NEEDLES = [
    (parse(text), filters, [row for row in range(ROWS) if holds({name: _TRUTH[name][row] for name in _COLUMNS})])
    for text, filters, holds in (
        ("k = 53", [("k", "=", 53)], lambda row: row["k"] == 53),
        ("s = 'v0000008'", [("s", "=", "v0000008")], lambda row: row["s"] == "v0000008"),
        ("n IN (4, 55)", [("n", "in", [4, 55])], lambda row: row["n"] in (4, 55)),
        ("k < 5 AND s >= 'v0000002'", [("k", "<", 5), ("s", ">=", "v0000002")], lambda row: 2 <= row["k"] < 5),
        ("n IS NULL", None, lambda row: row["n"] is None),
        ("k = 0 OR n = 60", [[("k", "=", 0)], [("n", "=", 60)]], lambda row: row["k"] == 0 or row["n"] == 60),
    )
]
_STATISTICS = 12


def seeds() -> list[bytes]:
    return [
        bytes([how, needle, base, *range(base, 20)]) for how in range(5) for needle in range(6) for base in range(4)
    ]


def run(data: bytes) -> None:
    choices = Choices(data)
    how, (node, filters, rows), base = choices.below(5), choices.pick(_NEEDLES), choices.pick(bases())
    if how == 0:  # places of filters and page indexes
        footer = base.footer.only(_is_location)
        complete = base.with_footer(footer.changed(choices, 1))
    elif how == 1 and base.variant is None:
        key = choices.pick(list(base.filters))
        complete = with_filter(base, key, header_changed(choices), base.filters[key][1])
    elif how == 2 and base.indexes:
        key = choices.pick([key for key in base.indexes if key[2] == 4])
        complete = with_index(base, key, base.indexes[key].changed(choices, 2))
    elif how == 3 and base.indexes:
        key = choices.pick([key for key in base.indexes if key[2] == 6])
        bounds = base.indexes[key].only(lambda path: path[0] not in (1, 2, 3, 5) or len(path) == 1)
        complete = with_index(base, key, bounds.changed(choices, 1))
    else:
        complete = base.with_footer(base.footer.only(_is_no_statistic).changed(choices, 1))
        if filters is None:
            return
        try:
            # Not `pq.read_table`: it waits for ever for some files, whose columns say to be of unknown types. Bounded:
            # by what some footers say it makes room for gigabytes.
            with bounded_memory():
                everything = pq.ParquetFile(io.BytesIO(complete)).read(columns=_COLUMNS, use_threads=False)
            result = everything.filter(pq.filters_to_expression(filters)).to_pylist()
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, NotImplementedError, IndexError):
            return
        if any(row.keys() != set(_COLUMNS) for row in result):
            return
        _require(complete, node, result, None, base.variant)
        return
    _require(complete, node, [{name: _TRUTH[name][row] for name in _COLUMNS} for row in rows], rows, base.variant)


def _require(data: bytes, node: Any, expected: list[Any], rows: list[int] | None, variant: str | None) -> None:
    SHARED_CACHE.clear()
    with as_file(data) as path:
        if rows is not None:
            try:
                report = parquet_bloom.prune(path, node, cache=None)
            except ParquetBloomError:
                return
            selected = {number for groups in report.selected.values() for number in groups}
            lost = {row // GROUP for row in rows} - selected
            assert not lost, f"{node}: row groups {lost} are lost: {report}"
            if sum(data[-64:]) % 16:  # to read takes longer than all else
                return
        try:
            result = parquet_bloom.read_table(path, node, columns=_COLUMNS).to_pylist()
        except ParquetBloomError:
            return
        if rows is None:  # pyarrow may pass over rows of a row group that is said to have fewer
            assert all(row in result for row in expected), f"{node}: {result} lacks some of {expected}"
        else:
            assert result == expected, f"{node}: {result} instead of {expected}"


def _is_location(path: tuple[int, ...]) -> bool:
    """Of a column chunk the places of page indexes, of its metadata that of a filter."""
    return path[0] == 4 and (
        (len(path) == 5 and path[4] in (4, 5, 6, 7))
        or (len(path) == 6 and path[4] == 3 and path[5] in (oracle.OFFSET, oracle.LENGTH))
    )


def _is_no_statistic(path: tuple[int, ...]) -> bool:
    return not (len(path) > 5 and path[0] == 4 and path[5] == _STATISTICS) and path[0] != 5
