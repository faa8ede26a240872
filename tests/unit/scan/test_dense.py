"""Row groups of which many rows match are read together, with the rows of the general way."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.one_by_one import read_one_by_one

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.scan.decode.parquet_data import ParquetData
from parquet_bloom.scan.row_reader import RowReader

ROWS = 3000


def make_rows(number: int, rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(number)
    keys = rng.integers(0, 8, rows)
    floats = rng.choice([0.5, -0.0, 0.0, np.nan, np.inf, -3.25], rows)
    days = [dt.date(2026, 1, 1) + dt.timedelta(int(key)) for key in keys]
    return pa.table(
        {
            "key": pa.array(keys, pa.int32(), mask=rng.random(rows) < 0.1),
            "value": pa.array(rng.random(rows)),
            "odd": pa.array(floats, mask=rng.random(rows) < 0.1),
            "text": pa.array([f"t{key}" for key in keys.tolist()], mask=rng.random(rows) < 0.1),
            "day": pa.array(days),
            "price": pa.array([Decimal(int(key)) / 4 for key in keys], pa.decimal128(9, 2)),
            "at": pa.array(keys.astype(np.int64) * 1_000_000, pa.timestamp("us", "UTC")),
            "flag": pa.array(keys % 3 == 0),
            "tags": pa.array([[int(key), None] if key % 2 else None for key in keys]),
            "row": pa.array(range(number * ROWS, number * ROWS + rows)),
        }
    )


def write(path: Path, table: pa.Table, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **{"row_group_size": 700, **options})


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense") / "lake"
    codecs = ["snappy", "zstd", "none", "gzip"]
    for number in range(9):
        day = f"part={number % 2}"
        options: dict[str, Any] = {"compression": codecs[number % 4], "data_page_version": f"{1 + number % 2}.0"}
        write(
            folder / day / f"{number}.parquet", make_rows(number, 0 if number == 4 else ROWS - 100 * number), **options
        )
    return folder


CONDITIONS = [
    None,
    "value < 0.3",
    "key = 3",
    "key <> 3",
    "key IN (1, 2, 3, 4)",
    "key IS NULL OR value > 0.99",
    "NOT (value BETWEEN 0.1 AND 0.9)",
    "odd = 0.0",
    "odd > 0.5",
    "odd <> 0.5",
    "text >= 't5'",
    "day <= DATE '2026-01-03' AND flag = TRUE",
    "price >= 0.75",
    "at < TIMESTAMP '1970-01-01 00:00:04+00:00'",
    "array_contains(tags, 3) OR value < 0.2",
    "part = 1 AND value < 0.5",
    "part = 1",
    "value < 2",
    "value < 0.001",
    "value < -1",
]


@pytest.mark.ci
@pytest.mark.parametrize("columns", [None, ["row", "text"], ["value"], [], ["part", "tags"]], ids=str)
@pytest.mark.parametrize("where", CONDITIONS, ids=str)
def test_rows_are_those_of_the_general_way(lake: Path, where: str | None, columns: list[str] | None) -> None:
    expected = read_one_by_one(lake, where, columns)
    scan = parquet_bloom.dataset(lake).scan(where, columns)
    rows = scan.to_arrow()
    assert rows.schema.equals(expected.schema)
    assert rows.num_rows == expected.num_rows == scan.count_rows()
    assert repr(rows.to_pylist()) == repr(expected.to_pylist())  # NaN is not equal to itself


@pytest.mark.parametrize("where", ["value < 0.3", "value < 0.001", "key = 3", None])
def test_positions_of_dense_rows(lake: Path, where: str | None) -> None:
    scan = parquet_bloom.dataset(lake).scan(where, ["row"])
    schema, found = RowReader(scan.plan(), ["row"], positions=True).read_batches()
    rows = pa.Table.from_batches(found, schema)
    assert len(rows) == scan.count_rows()
    path, row = (rows[name].to_pylist() for name in schema.names[-3::2])
    firsts = [int(Path(one).stem) * ROWS for one in path]
    assert [first + number for first, number in zip(firsts, row, strict=True)] == rows["row"].to_pylist()


def test_wide_rows_are_read_in_a_second_step(tmp_path: Path) -> None:
    """Few rows are taken out of the pages of wide columns, of many rows these are decoded."""
    rng = np.random.default_rng(1)
    rows = 20_000
    wide = pa.array([os.urandom(200).hex() for _ in range(rows)])
    table = pa.table({"value": rng.random(rows), "wide": wide, "row": range(rows)})
    pages = {"data_page_size": 20_000, "write_batch_size": 50}
    write(tmp_path / "a.parquet", table, row_group_size=5000, use_dictionary=False, **pages)
    for limit in (0.0, 0.001, 0.5):
        scan = parquet_bloom.dataset(tmp_path).scan(f"value < {limit}")
        rows_read = scan.to_arrow()
        assert rows_read.equals(read_one_by_one(tmp_path, f"value < {limit}"))
        spent = scan.plan().data_bytes_read
        assert (spent < 5_000_000) == (limit < 0.5)


@pytest.mark.parametrize("columns", [["nested"], ["old"], ["row", "nested.x"]], ids=str)
def test_columns_that_arrow_may_show_otherwise_are_read_one_by_one(tmp_path: Path, columns: list[str]) -> None:
    old = pa.array([dt.datetime(1600, 1, 1), None, dt.datetime(2026, 1, 1)], pa.timestamp("us"))
    table = pa.table({"row": [1, 2, 3], "nested": [{"x": 1}, None, {"x": 3}], "old": old})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert parquet_bloom.dataset(tmp_path).scan("row > 1", columns).to_arrow().num_rows == 2


def test_files_of_other_types_are_named(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.parquet", make_rows(number, 100))
    lake = parquet_bloom.dataset(tmp_path)
    write(tmp_path / "1.parquet", pa.table({"value": ["text"], "row": [1]}))
    with pytest.raises(ParquetBloomError, match=r"1\.parquet"):
        lake.to_table(["value", "row"])


@pytest.mark.ci
def test_memory_is_bounded(lake: Path) -> None:
    expected = read_one_by_one(lake, "value < 0.5")
    rows = parquet_bloom.dataset(lake).scan("value < 0.5").to_arrow(max_bytes=100_000)
    assert repr(rows.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.ci
@pytest.mark.parametrize("columns", ["['value']", "['value', 'text']"])
def test_memory_of_long_texts_in_dictionaries(tmp_path: Path, columns: str) -> None:
    """Footers do not show how long such texts are: 400 MB of them are decoded in parts."""
    rng = np.random.default_rng(3)
    texts = pa.array([f"{number}" * 2000 for number in range(10)])
    for number in range(10):
        rows = 20_000
        text = pa.DictionaryArray.from_arrays(rng.integers(0, 10, rows).astype(np.int32), texts)
        table = pa.table({"value": rng.random(rows), "text": text.cast(pa.string())})
        write(tmp_path / f"{number}.parquet", table, row_group_size=2000)
    script = f"""
import pyarrow as pa, parquet_bloom
scan = parquet_bloom.dataset({str(tmp_path)!r}).scan("text > '5' AND value < 0.9", {columns})
print(sum(batch.num_rows for batch in scan.to_batches()), pa.default_memory_pool().max_memory())
"""
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=300)
    rows, memory = map(int, printed.stdout.split())
    assert rows == len(read_one_by_one(tmp_path, "text > '5' AND value < 0.9", ["value"]))
    assert memory < 300_000_000


def test_statistics_of_pages_still_save_reads(tmp_path: Path) -> None:
    rows = 300_000
    table = pa.table({"at": range(rows), "value": np.random.default_rng(0).random(rows)})
    options: dict[str, Any] = {"row_group_size": rows, "compression": "none", "use_dictionary": False}
    write(tmp_path / "a.parquet", table, write_page_index=True, data_page_size=16_000, **options)
    scan = parquet_bloom.dataset(tmp_path).scan("at >= 1000 AND at < 3000")
    assert scan.to_arrow().equals(table.slice(1000, 2000))
    assert scan.plan().data_bytes_read < 1_000_000


@pytest.fixture
def around_decoding(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], object]]:
    """What is done before and after columns of a file are decoded."""
    actions: dict[str, Callable[[], object]] = {}
    read_all = ParquetData.read_all

    def read(self: ParquetData, *arguments: Any) -> Any:
        actions.get("before", bool)()
        try:
            return read_all(self, *arguments)
        finally:
            actions.get("after", bool)()

    monkeypatch.setattr(ParquetData, "read_all", read)
    return actions


@pytest.mark.ci
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_file_that_is_replaced_meanwhile(tmp_path: Path, moment: str, around_decoding: dict[str, Any]) -> None:
    """The rows of a file that is replaced before or after the scan are those of one version."""
    lake, others = tmp_path / "lake", tmp_path / "others"
    for number in range(4):
        write(lake / f"{number}.parquet", make_rows(number))
        write(others / f"{number}.parquet", make_rows(number + 10))
    lock = threading.Lock()

    def replace() -> None:
        with lock:
            if (others / "2.parquet").exists():
                (others / "2.parquet").replace(lake / "2.parquet")

    around_decoding[moment] = replace
    rows = parquet_bloom.dataset(lake).scan("value < 0.5").to_arrow()
    assert not (others / "2.parquet").exists()
    versions = []
    for number in (2, 12):
        files = [make_rows(0), make_rows(1), make_rows(number), make_rows(3)]
        versions.append(repr([row for file in files for row in file.to_pylist() if row["value"] < 0.5]))
    assert repr(rows.to_pylist()) in versions


def test_a_file_that_is_another_one_only_while_it_is_decoded(tmp_path: Path, around_decoding: dict[str, Any]) -> None:
    """A file's folder is a link to another one, and then itself again, which changes no time of the file."""
    lake, other = tmp_path / "lake", tmp_path / "other"
    write(lake / "sub" / "0.parquet", make_rows(0))
    write(other / "0.parquet", make_rows(10))
    path, kept = lake / "sub", tmp_path / "kept"
    around_decoding["before"] = lambda: (path.rename(kept), path.symlink_to(other))
    around_decoding["after"] = lambda: (path.unlink(), kept.rename(path))
    rows = parquet_bloom.dataset(lake).scan("value < 0.5").to_arrow()
    assert repr(rows.to_pylist()) == repr([row for row in make_rows(0).to_pylist() if row["value"] < 0.5])
