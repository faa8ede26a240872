"""delete and erase on Spark: executors search for rows and write files, the driver commits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers import changing_tables as tables

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom.change import commit_rows, erase_files
from parquet_bloom.errors import (
    ConcurrentChangeError,
    FilesFailedError,
    ManagedTableError,
    ParquetBloomError,
    PredicateError,
    UnknownColumnError,
)
from parquet_bloom.spark import search_rows
from parquet_bloom.spark.jobs import run_files

pytestmark = pytest.mark.spark
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

FILES, ROWS = 4, 100


@pytest.fixture(autouse=True)
def _on_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few small files would be processed by the driver itself."""
    monkeypatch.setattr(run_files, "MAX_DRIVER_LOAD", 0)


def make_rows(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    emails = [None if id % 10 == 9 else f"User{id}@x.org" for id in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "email": emails, "tenant": [id % 3 for id in ids]})


def make_delta(root: Path) -> str:
    """Write a table with deletion vectors, a commit for each file."""
    for number in range(FILES):
        configuration = None if number else {"delta.enableDeletionVectors": "true"}
        deltalake.write_deltalake(str(root), make_rows(number), mode="append", configuration=configuration)
    return str(root)


def make_lake(root: Path) -> str:
    for number in range(FILES):
        folder = root / f"part={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        rows = make_rows(number) if number else make_rows(number).drop_columns(["email"])  # an older file
        pq.write_table(rows, folder / f"{number}.parquet", row_group_size=40)
    return str(root)


def list_ids(source: object) -> list[int]:
    """The ids of a lake or table, by our reading; of a Delta table, deltalake's has to be the same."""
    found = parquet_bloom.dataset(source).scan(columns=["id"]).to_arrow()["id"].to_pylist()
    if isinstance(source, str) and Path(source, "_delta_log").exists():
        theirs = pa.table(deltalake.DeltaTable(source).scan())["id"].to_pylist()
        assert sorted(theirs) == sorted(found)
    return sorted(found)


def without(*gone: int) -> list[int]:
    return sorted({*range(FILES * ROWS)} - {*gone})


def test_delete_from_delta(spark: Any, tmp_path: Path) -> None:
    root = make_delta(tmp_path / "a täble")
    keys = spark.createDataFrame([(5,), (5,), (7,), (150,), (None,), (99_999,)], "other int")
    report = parquet_bloom.spark.delete(spark, root, keys, "id", dry_run=True)
    assert (report.num_rows, report.num_keys, report.num_null_keys, report.changed) == (3, 6, 1, False)
    report = parquet_bloom.spark.delete(spark, root, keys, "id")
    assert (report.num_rows, len(report.files), report.attempts) == (3, 2, 1)
    assert list_ids(root) == without(5, 7, 150)
    assert not parquet_bloom.spark.delete(spark, root, keys, "id").changed
    # Several columns, together with a predicate; then a function of a column, and a predicate alone.
    keys = spark.createDataFrame([(1, 10), (1, 310), (2, 12), (None, 13)], "tenant int, id int")
    report = parquet_bloom.spark.delete(spark, root, keys, ["id", "tenant"], where="id > 100")
    assert (report.num_rows, report.num_keys, report.num_null_keys) == (1, 4, 1)
    keys = spark.createDataFrame([("user20@x.org",), ("User21@x.org",), (None,)], "email string")
    assert parquet_bloom.spark.delete(spark, root, keys, "lower(email)").num_rows == 1
    assert parquet_bloom.spark.delete(spark, root, where="id >= 398 AND email IS NULL").num_rows == 1
    assert parquet_bloom.spark.delete(spark, root, [30, None], "id").num_rows == 1
    assert list_ids(root) == without(5, 7, 150, 310, 20, 399, 30)


def test_files_are_written_anew_by_executors(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: Any
) -> None:
    """Of a table with deletion vectors that is told so, of one without any, and of one in a store."""
    root = make_delta(tmp_path / "a täble")
    write = commit_rows.write_without_rows
    monkeypatch.setattr(commit_rows, "write_without_rows", None)  # of this process; executors have their own
    keys = spark.createDataFrame([(7,), (150,)], "id long")
    parquet_bloom.spark.delete(spark, root, [5, 151], "id")
    dry = parquet_bloom.spark.delete(spark, root, keys, "id", mode="rewrite", dry_run=True)
    report = parquet_bloom.spark.delete(spark, root, keys, "id", mode="rewrite")
    sizes = [file.new_size for file in report.files]
    assert [file.new_size for file in dry.files] == sizes == [os.path.getsize(file.output) for file in report.files]
    assert ({file.how for file in report.files}, report.rows_after) == ({"rewritten"}, 0)
    assert [pq.read_metadata(file.output).num_rows for file in report.files] == [ROWS - 2, ROWS - 2]
    assert list_ids(root) == without(5, 7, 150, 151)
    with pytest.raises(ParquetBloomError, match="mode must be 'hide' or 'rewrite', got 'shred'"):
        parquet_bloom.spark.delete(spark, root, keys, "id", mode="shred")
    plain = str(tmp_path / "plain")
    deltalake.write_deltalake(plain, make_rows(0))
    rows = spark.createDataFrame(make_rows(0).slice(3, 2))
    assert parquet_bloom.spark.upsert(spark, plain, rows, "id").files[0].how == "rewritten"
    assert list_ids(plain) == [*range(ROWS)]
    for path in (path for path in Path(plain).rglob("*") if path.is_file()):
        s3.put(str(path.relative_to(tmp_path)), path.read_bytes())
    options = s3.storage_options
    report = parquet_bloom.spark.delete(spark, s3.url("plain"), keys, "id", storage_options=options)
    assert (report.num_rows, report.rows_after) == (1, 0)
    monkeypatch.setattr(commit_rows, "write_without_rows", write)
    Path(parquet_bloom.delta(root).read_snapshot().files[0].path).write_bytes(b"PAR1" * 9)
    with pytest.raises(ParquetBloomError, match=r"\.parquet: "):
        parquet_bloom.spark.delete(spark, root, where="id >= 0 AND id < 2", mode="rewrite")


def test_delete_by_keys_that_are_joined(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_rows, "SENT_KEYS", 2)
    root = make_delta(tmp_path / "t")
    keys = spark.createDataFrame([(id,) for id in (5, 5, 150, 250, 350, None)], "id long")
    report = parquet_bloom.spark.delete(spark, root, keys, "id", where="tenant <> 1")
    assert (report.num_rows, report.num_keys, report.num_null_keys) == (3, 6, 1)
    assert list_ids(root) == without(5, 150, 350)
    texts = spark.createDataFrame([("a",), ("b",), ("c",)], "email string")
    with pytest.raises(ParquetBloomError, match="more than 2 keys"):
        parquet_bloom.spark.delete(spark, root, texts, "lower(email)")


def test_delete_from_iceberg(spark: Any, tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 2)
    before = list_ids(table)
    keys = spark.createDataFrame([(before[0],), (before[-1],)], "id long")
    report = parquet_bloom.spark.delete(spark, table, keys, "id")
    assert report.changed
    assert list_ids(tables.reload(table)) == [id for id in before if id not in (before[0], before[-1])]


def test_object_store(spark: Any, tmp_path: Path, s3: Any) -> None:
    """A table's commit, new rows, and files that are replaced."""
    roots = Path(make_delta(tmp_path / "t")), Path(make_lake(tmp_path / "lake"))
    for path in (path for root in roots for path in root.rglob("*") if path.is_file()):
        s3.put(str(path.relative_to(tmp_path)), path.read_bytes())
    options = s3.storage_options
    keys = spark.createDataFrame([(5,), (150,)], "id long")
    assert parquet_bloom.spark.delete(spark, s3.url("t"), keys, "id", storage_options=options).num_rows == 2
    rows = spark.createDataFrame(make_rows(FILES).slice(0, 5))
    report = parquet_bloom.spark.upsert(spark, s3.url("t"), rows, "id", storage_options=options)
    assert (report.num_added, report.num_replaced) == (5, 0)
    table = parquet_bloom.delta(s3.url("t"), storage_options=options)
    assert list_ids(table) == sorted([*without(5, 150), *range(FILES * ROWS, FILES * ROWS + 5)])
    erased = parquet_bloom.spark.erase(spark, s3.url("lake"), keys, "id", storage_options=options)
    assert (erased.num_rows, erased.rows_after, len(erased.files)) == (2, 0, 2)


def test_rows_are_located_anew_after_a_conflict(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_delta(tmp_path / "t")
    find, writers = search_rows.ExecutorSearch.find, [make_rows(1)]

    def find_slowly(self: Any, source: Any) -> Any:
        found = find(self, source)
        if writers:
            deltalake.write_deltalake(root, writers.pop(), mode="append")
        return found

    monkeypatch.setattr(search_rows.ExecutorSearch, "find", find_slowly)
    keys = spark.createDataFrame([(5,), (150,)], "id long")
    report = parquet_bloom.spark.delete(spark, root, keys, "id")
    assert (report.attempts, report.num_rows, report.num_keys) == (2, 3, 2)
    assert 150 not in list_ids(root)
    writers.append(make_rows(0))
    report = parquet_bloom.spark.delete(spark, root, [7], "id", appended="leave")
    assert (report.attempts, report.num_rows, report.num_later) == (2, 1, 1)
    assert 7 in list_ids(root)


def test_bad_arguments(spark: Any, tmp_path: Path) -> None:
    root = make_delta(tmp_path / "t")
    with pytest.raises(PredicateError, match="cast the key"):
        parquet_bloom.spark.delete(spark, root, spark.createDataFrame([("5",)], "id string"), "id")
    with pytest.raises(UnknownColumnError):
        parquet_bloom.spark.delete(spark, root, where="nothing = 1")
    with pytest.raises(PredicateError):
        parquet_bloom.spark.delete(spark, root, ["x"], "id")
    with pytest.raises(ParquetBloomError, match="go together"):
        parquet_bloom.spark.delete(spark, root, [1])
    with pytest.raises(ManagedTableError, match="mode='rewrite'"):
        parquet_bloom.spark.erase(spark, root, [1], "id")
    assert list_ids(root) == without()


def test_erase(spark: Any, tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lä ke")
    keys = spark.createDataFrame([(5,), (7,), (150,), (None,), (99_999,)], "id long")
    before = {path: path.read_bytes() for path in Path(lake).rglob("*.parquet")}
    report = parquet_bloom.spark.erase(spark, lake, keys, "id", dry_run=True)
    assert (report.num_rows, report.rows_after) == (3, None)
    assert {path: path.read_bytes() for path in before} == before
    report = parquet_bloom.spark.erase(spark, lake, keys, "id", output=tmp_path / "new")
    assert (report.num_rows, report.rows_after) == (3, 0)
    assert sorted(path.name for path in (tmp_path / "new").rglob("*.parquet")) == ["0.parquet", "1.parquet"]
    report = parquet_bloom.spark.erase(spark, lake, keys, "id")
    assert (report.num_rows, report.num_located, report.rows_after, report.num_searched) == (3, 3, 0, FILES)
    assert (report.keys_given, report.keys_null, report.keys_found) == (5, 1, 3)
    assert sorted((file.dropped.rewritten, file.dropped.copied) for file in report.files) == [(1, 2), (1, 2)]
    assert sum(path.read_bytes() != data for path, data in before.items()) == 2
    assert list_ids(lake) == without(5, 7, 150)
    local = parquet_bloom.erase(lake, [200], "id", dry_run=True)
    report = parquet_bloom.spark.erase(spark, lake, [200], "id", dry_run=True)
    assert report.files == local.files
    # The first file lacks this column; partitions are those of the whole lake.
    assert parquet_bloom.spark.erase(spark, lake, ["user300@x.org"], "lower(email)").num_rows == 1
    assert parquet_bloom.spark.erase(spark, lake, where="part = 0 AND id < 2").num_rows == 2
    assert list_ids(lake) == without(0, 1, 5, 7, 150, 300)


def test_a_file_that_an_attempt_has_written_is_done(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that is run again finds another file; that of another writer, which has the rows, has failed."""
    lake = make_lake(tmp_path / "lake")
    first, second = Path(lake, "part=0", "0.parquet"), Path(lake, "part=1", "1.parquet")
    tokens = erase_files.read_version_tokens

    def erase_before(*arguments: Any) -> Any:
        found = tokens(*arguments)
        rows = pq.read_table(first, partitioning=None)
        pq.write_table(rows.filter(pa.compute.field("id") != 5), first)
        os.utime(second, ns=(1, 1))
        return found

    monkeypatch.setattr(erase_files, "read_version_tokens", erase_before)
    search = search_rows.ExecutorSearch.find
    located = parquet_bloom.dataset(lake).locate("id", [5, 150, 350]).to_pydict()
    rows: dict[str, Any] = {}
    for path, row in zip(located["path"], located["row"], strict=True):
        rows[path] = pa.array([row]).to_numpy()
    answers = [search_rows.FoundRows(rows)]

    def find(self: Any, source: Any) -> Any:
        return answers.pop() if answers else search(self, source)

    monkeypatch.setattr(search_rows.ExecutorSearch, "find", find)
    with pytest.raises(FilesFailedError) as caught:
        parquet_bloom.spark.erase(spark, lake, [5, 150, 350], "id")
    report = caught.value.report
    assert [Path(file.path).name for file in report.files] == ["0.parquet", "3.parquet"]
    assert [file.dropped.rows_left for file in report.files] == [ROWS - 1, ROWS - 1]
    assert [type(error) for error in report.errors.values()] == [ConcurrentChangeError]
    assert report.rows_after == 1
    assert list_ids(lake) == without(5, 350)
