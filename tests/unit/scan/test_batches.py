"""Files that are read together give the rows that they give one by one, whatever happens to them meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.one_by_one import read_one_by_one

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError
from parquet_bloom.scan.lookup.row_batch import RowBatch
from parquet_bloom.scan.row_reader import RowReader
from parquet_bloom.scan.scan_options import Limits, ScanOptions
from parquet_bloom.storage import OPEN_FILE_BUDGET
from parquet_bloom.storage.local.local_batch import OpenFileBudget

ROWS = 2000
SMALL_TASKS = ScanOptions(threads=1, limits=Limits(least_batch_rows=1000, most_batch_rows=1000))
CODECS = ["snappy", "zstd", "none", "gzip", "lz4", "brotli"]


def make_rows(number: int, rows: int = ROWS) -> pa.Table:
    """Return rows in which each key from 0 to 199 comes about ten times."""
    rng = np.random.default_rng(number)
    keys = rng.integers(0, 200, rows)
    return pa.table(
        {
            "key": pa.array(keys),
            "text": pa.array([f"t{key}" for key in keys.tolist()], mask=rng.random(rows) < 0.1),
            "value": pa.array(rng.random(rows)),
            "flag": pa.array(keys % 3 == 0),
            "file": pa.array([number] * rows),
            "row": pa.array(range(rows)),
        }
    )


def write(path: Path, table: pa.Table, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **{"row_group_size": 500, **options})


@pytest.mark.ci
@pytest.mark.parametrize("where", ["key = 7", "key IN (7, 8, 1000) AND value < 0.5", "text = 't9' AND flag = TRUE"])
def test_random_lakes(where: str, tmp_path: Path) -> None:
    """Files of several codecs and schemas, in folders of partitions, with empty ones among them."""
    rng = np.random.default_rng(len(where))
    for number in range(24):
        table = make_rows(number, 0 if number == 5 else int(rng.integers(600, ROWS)))
        table = table.drop_columns(["row"]) if number % 5 == 2 else table
        options = {"compression": CODECS[number % 6], "data_page_version": "2.0" if number % 4 == 1 else "1.0"}
        write(tmp_path / f"day={number // 8}" / f"{number:02}.parquet", table, **options)
    for columns in (None, ["row"], ["day", "value"], []):
        scan = parquet_bloom.dataset(tmp_path).scan(where, columns)
        rows, expected = scan.to_arrow(), read_one_by_one(tmp_path, where, columns)
        assert rows.schema.equals(expected.schema)
        assert rows.num_rows == expected.num_rows == scan.count_rows() > 0
        assert rows.to_pylist() == expected.to_pylist()
    rows = parquet_bloom.dataset(tmp_path).scan(f"({where}) AND day = 1").to_arrow()
    assert rows.to_pylist() == [row for row in read_one_by_one(tmp_path, where).to_pylist() if row["day"] == 1]


@pytest.mark.ci
@pytest.mark.parametrize(
    "where",
    [
        "array_contains(tags, 7)",
        "(array_contains(tags, 7) OR array_contains(tags, 900)) AND value < 0.7",
        "array_contains(names, 'n7') AND array_contains(tags, 7)",
    ],
)
def test_lists(where: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for number in range(len(CODECS)):
        lists = [
            None if chance < 0.1 else [int(tag) if tag % 9 else None for tag in rng.integers(0, 1000, int(chance * 12))]
            for chance in rng.random(ROWS)
        ]
        names = [None if one is None else [f"n{tag}" for tag in one] for one in lists]
        table = pa.table({"tags": pa.array(lists, pa.list_(pa.int64())), "names": names, "value": rng.random(ROWS)})
        options = {"compression": CODECS[number % 6], "data_page_version": "2.0" if number % 4 == 1 else "1.0"}
        write(tmp_path / f"{number:02}.parquet", table, data_page_size=2000, write_batch_size=50, **options)
    for columns in (None, ["value"], []):
        scan = parquet_bloom.dataset(tmp_path).scan(where, columns)
        rows, expected = scan.to_arrow(), read_one_by_one(tmp_path, where, columns)
        assert rows.num_rows == expected.num_rows == scan.count_rows()
        assert rows.to_pylist() == expected.to_pylist()
    assert rows.num_rows > 20


def test_many_rows_are_read_as_columns(tmp_path: Path) -> None:
    write(tmp_path / "0.parquet", make_rows(0))
    where = f"key IN ({', '.join(map(str, range(50)))})"
    assert parquet_bloom.dataset(tmp_path).scan(where).to_arrow().equals(read_one_by_one(tmp_path, where))


def test_a_damaged_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path / f"{number}.parquet", make_rows(number), compression="none", use_dictionary=False)
    dataset = parquet_bloom.dataset(tmp_path)
    scan = dataset.scan("key = 7")
    plan = scan.plan()
    data = bytearray((tmp_path / "3.parquet").read_bytes())
    data[4:40] = bytes(36)  # the first page's header
    (tmp_path / "3.parquet").write_bytes(data)
    with pytest.raises(ParquetBloomError, match=r"3\.parquet"):
        scan.to_arrow()
    assert len(plan.files) == 6


def change_after_search(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Call a function once, as soon as the rows of a batch are known."""
    original, done = RowBatch._search, []

    def search(self: RowBatch, *args: Any) -> Any:
        matches = original(self, *args)
        if not done:
            done.append(True)
            change()
        return matches

    monkeypatch.setattr(RowBatch, "_search", search)


@pytest.mark.parametrize("count", [1, 4])
def test_a_file_that_changes_while_it_is_read(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is overwritten in place, with rows of the same form: none of its rows are of both versions."""
    for number in range(count):
        write(tmp_path / f"{number}.parquet", make_rows(number), compression="none", use_dictionary=False)
    new = make_rows(77)
    write(tmp_path / "new", new, compression="none", use_dictionary=False)
    data = (tmp_path / "new").read_bytes()
    (tmp_path / "new").unlink()
    scan = parquet_bloom.dataset(tmp_path).scan("key = 7")
    scan.plan()
    change_after_search(monkeypatch, lambda: (tmp_path / "0.parquet").write_bytes(data))
    rows = scan.to_arrow()
    expected = pa.concat_tables([new, *(make_rows(number) for number in range(1, count))])
    assert rows.equals(expected.filter(pc.equal(expected["key"], 7)).combine_chunks())


def test_a_large_file_that_is_replaced_between_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first part is read of the old version: the others are read of it, too, or there is an error."""
    old, new = (make_rows(number, 8000).drop_columns(["flag"]) for number in (0, 1))
    write(tmp_path / "0.parquet", old)
    expected = old.filter(pc.equal(old["key"], 7))

    def replace() -> None:
        write(tmp_path.parent / "new.parquet", new)
        os.replace(tmp_path.parent / "new.parquet", tmp_path / "0.parquet")

    change_after_search(monkeypatch, replace)
    reader = RowReader(parquet_bloom.prune(tmp_path, "key = 7"), options=SMALL_TASKS)
    assert reader.read_table().combine_chunks().equals(expected.combine_chunks())


@pytest.mark.parametrize("where", ["key = 7", "key < 150"])
def test_a_large_file_that_is_overwritten_between_its_parts(where: str, tmp_path: Path) -> None:
    """Its first part is in the result: no rows of another version follow."""
    for name in ("0.parquet", "new"):
        write(tmp_path / name, make_rows(name == "new", 8000), compression="none", use_dictionary=False)
    data = (tmp_path / "new").read_bytes()
    (tmp_path / "new").unlink()
    _, rows = RowReader(parquet_bloom.prune(tmp_path, where), options=SMALL_TASKS).read_batches()
    next(rows)
    (tmp_path / "0.parquet").write_bytes(data)
    with pytest.raises(ConcurrentChangeError, match=r"0\.parquet: another writer changed it"):
        list(rows)


def write_damaged(path: Path, row_groups: list[int], column: int = 0) -> pa.Table:
    """Write a file of 16 row groups, in some of which a column cannot be read; return its rows."""
    rows = make_rows(0, 8000)
    write(path, rows, compression="none", use_dictionary=False)
    data, metadata = bytearray(path.read_bytes()), pq.read_metadata(path)
    for row_group in row_groups:
        start = metadata.row_group(row_group).column(column).data_page_offset
        data[start : start + 36] = b"\xff" * 36
    path.write_bytes(data)
    return rows


@pytest.mark.parametrize("where", ["key = 7", "key < 150"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_large_file_has_one_error(threads: int, where: str, tmp_path: Path) -> None:
    """Whatever tasks find another one; the rows before it are given, and none after it."""
    path, errors = tmp_path / "0.parquet", list[ParquetBloomError]()
    rows = write_damaged(path, [3, 4, 9, 15])
    calls: list[tuple[int, int]] = []
    options = replace(SMALL_TASKS, threads=threads, on_error=errors.append)
    reader = RowReader(parquet_bloom.prune(tmp_path, where), options=options)
    _, batches = reader.read_batches()
    found = pa.Table.from_batches(batches)
    assert [error.path for error in errors] == [str(path)]
    expected = rows.slice(0, 1500)
    some = pc.equal(expected["key"], 7) if where == "key = 7" else pc.less(expected["key"], 150)
    assert found.to_pylist() == expected.filter(some).to_pylist()
    options = replace(options, progress=lambda *call: calls.append(call))
    RowReader(parquet_bloom.prune(tmp_path, where), options=options).count_rows()
    assert len(errors) == 2
    assert calls == [(1, 1)]


def test_a_damaged_file_that_is_overwritten_between_its_parts(tmp_path: Path) -> None:
    """Its first part is in the result, and its second one fails: its third one is not read of another version."""
    path, errors = tmp_path / "0.parquet", list[ParquetBloomError]()
    rows = write_damaged(path, [1], column=2)
    write(tmp_path / "new", make_rows(1, 8000), compression="none", use_dictionary=False)
    data = (tmp_path / "new").read_bytes()
    (tmp_path / "new").unlink()
    options = replace(SMALL_TASKS, on_error=errors.append)
    _, batches = RowReader(parquet_bloom.prune(tmp_path, "key = 11"), options=options).read_batches()
    found = next(batches).to_pylist()
    path.write_bytes(data)
    for batch in batches:
        found += batch.to_pylist()
    expected = rows.slice(0, 500)
    assert found == expected.filter(pc.equal(expected["key"], 11)).to_pylist()
    assert [error.path for error in errors] == [str(path)]


def test_a_replaced_file_that_is_overwritten_as_it_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    contents = []
    for number in range(3):
        write(path, make_rows(number, 8000), compression="none", use_dictionary=False)
        contents.append(path.read_bytes())
    reader = RowReader(parquet_bloom.prune(path, "key < 150"), options=ScanOptions(threads=1))
    path.unlink()
    path.write_bytes(contents[0])
    _, rows = reader.read_batches(100, max_bytes=20_000)
    found = [next(rows)]
    path.write_bytes(contents[1])
    with pytest.raises(ConcurrentChangeError, match=r"0\.parquet: another writer changed it"):
        found += rows
    assert set(pa.Table.from_batches(found)["file"].to_pylist()) == {0}


@pytest.mark.ci
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed on Linux alone")
def test_files_that_have_failed_are_closed(tmp_path: Path) -> None:
    """The tasks that are left of them do not begin, and count as ended all the same."""
    for number in range(40):
        write_damaged(tmp_path / f"{number:02}.parquet", [0, 2])
    before = len(os.listdir("/proc/self/fd"))
    errors: list[ParquetBloomError] = []
    most: list[int] = []

    def note(error: ParquetBloomError) -> None:
        errors.append(error)
        most.append(len(os.listdir("/proc/self/fd")) - before)

    options = replace(SMALL_TASKS, on_error=note)
    assert not list(RowReader(parquet_bloom.prune(tmp_path, "key = 7"), options=options).read_batches()[1])
    assert len(errors) == 40
    assert max(most) < 20


@pytest.mark.ci
@pytest.mark.parametrize("where", ["key = 7", "key < 7"])
def test_few_files_are_open_at_a_time(where: str, tmp_path: Path) -> None:
    for number in range(130):
        write(tmp_path / f"{number:03}.parquet", make_rows(number, 50))
    script = f"""
import resource, parquet_bloom
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
rows = parquet_bloom.read_table({str(tmp_path)!r}, {where!r}, ["row"], threads=1)
print(rows.num_rows)
"""
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=300)
    assert int(printed.stdout) == read_one_by_one(tmp_path, where).num_rows


def test_a_scan_that_is_given_up_gives_back_its_descriptors(tmp_path: Path) -> None:
    write(tmp_path / "0.parquet", make_rows(0, 8000))
    before = OPEN_FILE_BUDGET._in_use
    _, rows = RowReader(parquet_bloom.prune(tmp_path, "key = 7"), options=SMALL_TASKS).read_batches(1)
    next(rows)
    assert OPEN_FILE_BUDGET._in_use == before + 1
    rows.close()
    assert OPEN_FILE_BUDGET._in_use == before


def test_scans_at_once_share_descriptors() -> None:
    budget = OpenFileBudget()
    most = budget.find_limit()
    assert budget.take(most)
    assert not budget.take(1, timeout=0)
    budget.give_back(most)
    assert budget.take(10 * most, timeout=0)  # a batch alone goes on
    budget.give_back(10 * most)
    assert budget.take(1, timeout=0)


def test_columns_of_one_name(tmp_path: Path) -> None:
    columns = [pa.array(range(1000)), pa.array(range(1000)), pa.array(["x"] * 1000)]
    write(tmp_path / "0.parquet", pa.Table.from_arrays(columns, ["key", "a", "a"]))
    rows = parquet_bloom.read_table(tmp_path, "key = 7")
    assert rows.column_names == ["key", "a", "a"]
    assert [column.to_pylist() for column in rows.columns] == [[7], [7], ["x"]]


def test_a_column_named_as_a_field_of_another(tmp_path: Path) -> None:
    structs = [{"y": -number} for number in range(1000)]
    write(tmp_path / "0.parquet", pa.table({"key": range(1000), "x.y": range(1000), "x": structs}))
    rows = parquet_bloom.read_table(tmp_path, "key = 7", ["x.y"])
    assert rows.to_pylist() == [{"x.y": 7, "x": {"y": -7}}]


def test_a_required_column_that_some_files_lack(tmp_path: Path) -> None:
    required = pa.schema([pa.field("key", pa.int64()), pa.field("more", pa.int64(), nullable=False)])
    write(tmp_path / "0.parquet", pa.table({"key": range(1000), "more": range(1000)}, schema=required))
    write(tmp_path / "1.parquet", pa.table({"key": range(1000)}))
    for where in ("key = 7", "key < 1"):
        rows = parquet_bloom.read_table(tmp_path, where)
        assert rows.schema.field("more").nullable
        assert rows["more"].to_pylist() == [rows["key"][0].as_py(), None]


def test_files_are_counted_as_they_are_read(tmp_path: Path) -> None:
    for number in range(9):
        write(tmp_path / f"{number}.parquet", make_rows(number))
    calls: list[tuple[int, int]] = []
    options = ScanOptions(progress=lambda done, total: calls.append((done, total)))
    assert RowReader(parquet_bloom.prune(tmp_path, "key = 7"), options=options).count_rows() > 0
    assert calls == [(done, 9) for done in range(1, 10)]
