"""Searches of some rows of column chunks: they read the pages of these rows alone, and find all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.file.pages.page_columns import find_page_columns
from parquet_bloom.file.pages.row_group_batch import RowGroupBatch, RowGroups, RowsOfGroups
from parquet_bloom.metadata.page_match import Targets
from parquet_bloom.storage import OpenFiles

ROWS = 30_000
FORMATS: list[dict[str, Any]] = [
    {"compression": "none", "use_dictionary": False},
    {"compression": "snappy", "use_dictionary": True},
    {"compression": "zstd", "use_dictionary": True, "data_page_version": "2.0"},
    {"compression": "gzip", "use_dictionary": False, "write_page_index": True},
    {"compression": "snappy", "use_dictionary": True, "dictionary_pagesize_limit": 2000},  # given up halfway
]


def make_batch(
    path: Path, rows: int = ROWS, page_bytes: int = 4000, **options: Any
) -> tuple[RowGroupBatch, Any, list[int]]:
    rng = np.random.default_rng(7)
    values = [None if one % 11 == 0 else int(one) for one in rng.integers(0, 2000, rows)]
    table = pa.table({"id": pa.array(values, pa.int64())})
    pages: dict[str, Any] = {"data_page_size": page_bytes, "write_batch_size": 200}
    pq.write_table(table, path, row_group_size=rows // 2, **pages, **options)
    with parquet_bloom.open(path) as file:
        footer, identity = file.footer, file.source.identity
        columns = find_page_columns(file, table.schema)
    files = OpenFiles([str(path)], [identity])
    assert files.open()
    return RowGroupBatch(RowGroups([footer], [(0, 0), (0, 1)]), columns, files), files, values


def find(batch: RowGroupBatch, targets: list[int], selections: Any) -> list[list[int]]:
    result = batch.search("id", Targets([one.to_bytes(8, "little") for one in targets]), ROWS, selections)
    assert result is not None
    (counts, rows), values = (result[0].counts, result[0].rows), result[1]
    assert values is not None
    assert len(rows) == len(values) == counts.sum()
    ends = np.cumsum(counts)
    return [rows[end - count : end].tolist() for count, end in zip(counts, ends, strict=True)]


@pytest.mark.ci
@pytest.mark.parametrize("options", FORMATS, ids=lambda options: "-".join(str(one) for one in options.values()))
def test_all_rows_of_the_ranges_are_found(tmp_path: Path, options: dict[str, Any]) -> None:
    batch, files, values = make_batch(tmp_path / "a.parquet", **options)
    rng = np.random.default_rng(8)
    half = ROWS // 2
    for _ in range(60):
        selections: list[Any] = []
        for _ in range(2):
            bounds = np.unique(rng.integers(0, half + 1, 2 * rng.integers(1, 4)))
            pairs = [(int(a), int(b)) for a, b in zip(bounds[::2], bounds[1::2], strict=False)]
            selections.append(None if rng.random() < 0.2 else pairs)
        targets = rng.integers(0, 2000, 5).tolist()
        found = find(batch, targets, selections)
        for number, (selection, rows) in enumerate(zip(selections, found, strict=True)):
            part = values[number * half : (number + 1) * half]
            matching = {row for row, value in enumerate(part) if value in targets}
            ranges = [(0, half)] if selection is None else selection
            inside = {row for row in matching if any(start <= row < stop for start, stop in ranges)}
            assert rows == sorted(inside)
    files.close()


@pytest.mark.ci
@pytest.mark.parametrize("options", FORMATS[:1] + FORMATS[3:4], ids=["plain", "gzip"])
def test_only_the_pages_of_the_ranges_are_read(tmp_path: Path, options: dict[str, Any]) -> None:
    batch, files, values = make_batch(tmp_path / "a.parquet", 400_000, 40_000, **options)
    with pq.ParquetFile(tmp_path / "a.parquet") as file:
        size = file.metadata.row_group(0).column(0).total_compressed_size
    before = batch.cost[1]
    key = next(value for value in values[5000:] if value is not None)
    find(batch, [key], [[(5000, 5100)], []])
    assert 0 < batch.cost[1] - before < size / 4
    files.close()


@pytest.mark.parametrize(
    "ranges", [[(5, 5)], [(9, 5)], [(-1, 5)], [(0, ROWS)], [(0, 9), (8, 12)], [(20, 30), (0, 9)]], ids=str
)
def test_ranges_that_are_none(tmp_path: Path, ranges: list[tuple[int, int]]) -> None:
    batch, files, _ = make_batch(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="ranges must ascend"):
        find(batch, [1], [ranges, None])
    with pytest.raises(ValueError, match="zip"):
        find(batch, [1], [ranges])
    files.close()


def test_rows_are_selected_and_taken() -> None:
    rng = np.random.default_rng(12)
    for _ in range(50):
        num_rows = rng.integers(0, 30, rng.integers(0, 5)).astype(np.int64)
        selections: list[Any] = []
        for count in num_rows.tolist():
            bounds = np.unique(rng.integers(0, count + 1, 6)).tolist()
            pairs = tuple(zip(bounds[::2], bounds[1::2], strict=False))
            selections.append([None, (), pairs][rng.integers(3)])
        expected = [
            (group, row)
            for group, (count, selection) in enumerate(zip(num_rows.tolist(), selections, strict=True))
            for row in range(count)
            if selection is None or any(start <= row < stop for start, stop in selection)
        ]
        rows = RowsOfGroups.select(num_rows, selections)
        kept = np.flatnonzero(rng.random(len(rows)) < 0.5)
        for some, wanted in ((rows, expected), (rows.take(kept), [expected[number] for number in kept.tolist()])):
            groups = np.repeat(np.arange(len(num_rows)), some.counts)
            assert [*zip(groups.tolist(), some.rows.tolist(), strict=True)] == wanted
            assert len(some) == len(wanted)


TEXT_FORMATS: list[dict[str, Any]] = [
    *FORMATS,
    {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
    {"use_dictionary": False, "column_encoding": "DELTA_LENGTH_BYTE_ARRAY", "compression": "zstd"},
]


@pytest.mark.ci
@pytest.mark.parametrize("options", TEXT_FORMATS, ids=lambda options: "-".join(str(one) for one in options.values()))
def test_all_texts_with_a_piece_are_found(tmp_path: Path, options: dict[str, Any]) -> None:
    """Among texts of two letters, and NUL as lengths have, a piece is at every place: at borders, and across them."""
    rng = np.random.default_rng(9)
    lengths = [*rng.integers(0, 9, 3000), *rng.integers(60, 70, 300), 500]
    values = [None if rng.random() < 0.05 else "".join(rng.choice([*"ab\0"], length)) for length in lengths]
    table = pa.table({"text": values})
    pages: dict[str, Any] = {"data_page_size": 3000, "write_batch_size": 100, "row_group_size": 2000}
    pq.write_table(table, tmp_path / "a.parquet", **pages, **options)
    with parquet_bloom.open(tmp_path / "a.parquet") as file:
        footer, identity = file.footer, file.source.identity
        columns = find_page_columns(file, table.schema)
    files = OpenFiles([str(tmp_path / "a.parquet")], [identity])
    assert files.open()
    batch = RowGroupBatch(RowGroups([footer], [(0, 0), (0, 1)]), columns, files)
    pieces = ["a", "\0", "ab", "\0\0\0", "aab", "abab\0", "babbab", values[-1] or "b" * 500, "b" * 501]
    for piece in [*pieces, *((values[number] or "a")[-7:] or "a" for number in range(2950, 3050))]:
        expected = [row for row, value in enumerate(values) if value is not None and piece in value]
        for selections, inside in (
            (None, range(len(values))),
            ([[(5, 700)], None], {*range(5, 700), *range(2000, 3301)}),
        ):
            result = batch.search("text", Targets.of_piece(piece.encode()), len(values), selections)
            assert result is not None
            assert result[1] is None
            rows = result[0].rows + np.repeat([0, 2000], result[0].counts)
            assert rows.tolist() == [row for row in expected if row in inside]
    files.close()


def test_a_piece_is_one_of_byte_arrays(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="empty piece"):
        Targets.of_piece(b"")
    batch, files, _ = make_batch(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="in byte arrays"):
        batch.search("id", Targets.of_piece(b"abc"), ROWS)
    files.close()
