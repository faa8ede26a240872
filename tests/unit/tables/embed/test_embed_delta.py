"""Filters in the files of Delta tables: which files get them, what the log says afterwards, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import corpus
from support.writers import changing_tables as tables

import parquet_bloom
from parquet_bloom.errors import (
    ParquetBloomError,
    PredicateError,
    StorageError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from parquet_bloom.tables.embed import exchange_files
from parquet_bloom.tables.embed.embed_table import embed_table

deltalake = pytest.importorskip("deltalake")

CORPUS = corpus.FOLDER / "delta"


def log(root: str, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(root, "_delta_log", f"{version:020}.json").read_text().splitlines()]


def actions(root: str, version: int, name: str) -> list[dict[str, Any]]:
    return [action[name] for action in log(root, version) if name in action]


def edit_log(root: str, change: Any) -> None:
    """Change the actions of version 0."""
    path = Path(root, "_delta_log", f"{0:020}.json")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def files_of(root: str) -> set[str]:
    names = pa.table(deltalake.DeltaTable(root).get_add_actions())["path"].to_pylist()
    return {os.path.join(root, unquote(name)) for name in names}


def data_files(root: str) -> list[str]:
    return sorted(str(path) for path in Path(root).rglob("*.parquet"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    return tables.make_delta(tmp_path / "a table", 2)


def test_one_commit_and_the_same_rows(root: str) -> None:
    before, old = tables.read_delta(root), files_of(root)
    adds = {add["path"]: add for version in (0, 1) for add in actions(root, version, "add")}
    calls: list[tuple[int, int]] = []
    report = embed_table(root, ["id", "s"], progress=lambda done, total: calls.append((done, total)))
    sizes = [add["size"] for add in adds.values()]
    assert len(calls) == 10
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1] == (sum(sizes), sum(sizes))
    assert (report.old_version, report.new_version, report.changed, report.attempts) == (1, 2, True, 1)
    assert len(report.files) == 10
    assert report.num_filters == 20
    assert report.skipped == ()
    assert report.bytes_added == sum(os.path.getsize(file.new) - os.path.getsize(file.old) for file in report.files)
    table = deltalake.DeltaTable(root)
    assert [one["version"] for one in table.history()] == [2, 1, 0]
    assert tables.read_delta(root) == before
    assert {file.old for file in report.files} == old
    assert {file.new for file in report.files} == files_of(root)
    for file in report.files:
        assert os.path.dirname(file.new) == os.path.dirname(file.old)
        assert os.stat(file.new).st_mode == os.stat(file.old).st_mode
        data = Path(file.old).read_bytes()
        cut = pq.read_metadata(file.old).serialized_size
        assert Path(file.new).read_bytes()[: len(data) - cut - 8] == data[: len(data) - cut - 8]
        assert parquet_bloom.verify(pa_file(file.new), data=True).ok
    # The log: all else is as it was, to the letter.
    removed, added = actions(root, 2, "remove"), actions(root, 2, "add")
    assert {remove["path"] for remove in removed} == adds.keys()
    for remove in removed:
        assert remove["dataChange"] is False
        assert remove["extendedFileMetadata"] is True
        assert (remove["size"], remove["partitionValues"]) == (
            adds[remove["path"]]["size"],
            adds[remove["path"]]["partitionValues"],
        )
    by_path = {os.path.join(root, unquote(add["path"])): add for add in added}
    for file in report.files:
        add = by_path[file.new]
        was = next(one for path, one in adds.items() if os.path.join(root, unquote(path)) == file.old)
        assert add["path"].rpartition("/")[0] == was["path"].rpartition("/")[0]
        assert add["dataChange"] is False
        assert add["size"] == os.path.getsize(file.new)
        assert (add["stats"], add["partitionValues"]) == (was["stats"], was["partitionValues"])
    info = actions(root, 2, "commitInfo")[0]
    assert info["isBlindAppend"] is False
    assert info["parquetBloom"] == {"operation": "embed", "columns": ["id", "s"]}


def pa_file(path: str) -> Any:
    """Return a copy of a table's file elsewhere, as single files of tables are not taken by other functions."""
    copy = Path(path).parents[2] / "copies" / os.path.basename(path)
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(path, copy)
    return copy


def test_a_second_run_commits_nothing(root: str) -> None:
    embed_table(root, ["id"])
    files = data_files(root)
    report = embed_table(deltalake.DeltaTable(root), ["id"])
    assert not report.changed
    assert (report.old_version, report.new_version, report.attempts) == (2, 2, 0)
    assert report.num_complete == 10
    assert deltalake.DeltaTable(root).version() == 2
    assert data_files(root) == files
    # A column more: the filters that are there are kept.
    report = embed_table(root, ["id", "s"])
    assert report.num_filters == 10
    assert str(report).endswith("version 2 -> 3")


def test_the_version_before_is_readable_and_nobody_sees_a_change(tmp_path: Path) -> None:
    # Without partitions: the change feed of deltalake 1.6.6 does not find files whose paths are quoted.
    feed = {"delta.enableChangeDataFeed": "true"}
    root = tables.make_delta(tmp_path / "t", 2, partitioned=False, configuration=feed)
    before = tables.read_delta(root)
    changes = pa.table(deltalake.DeltaTable(root).load_cdf(starting_version=0)).num_rows
    embed_table(root, ["id"])
    assert tables.read_delta(root, 1) == before
    assert pa.table(deltalake.DeltaTable(root).load_cdf(starting_version=0)).num_rows == changes
    table = deltalake.DeltaTable(root)
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert tables.read_delta(root) == before
    assert len(data_files(root)) == 2


def test_other_readers_find_the_same_rows(tmp_path: Path) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    # polars 2.1 does not find files below folders with a space or percent sign in their names.
    root = tables.make_delta(tmp_path / "table", 2, partitioned=False)
    before = tables.read_delta(root)
    embed_table(root, ["id", "s"])
    table = deltalake.DeltaTable(root)
    assert tables.contents(table.to_pyarrow_table()) == before
    assert tables.contents(polars.scan_delta(root).collect().to_arrow()) == before
    for number in (0, 57, 199):
        assert pa.table(table.scan(predicate=f"id = {number}")).num_rows == 1
        found = duckdb.connect().execute(
            "select count(*) from read_parquet($1) where id = $2", [sorted(files_of(root)), number]
        )
        assert found.fetchone() == (1,)
    # deltalake asks filters before it deletes and updates.
    assert table.delete("id = 57")["num_deleted_rows"] == 1
    assert table.update(updates={"s": "'x'"}, predicate="id = 58")["num_updated_rows"] == 1


def test_some_files_only(root: str) -> None:
    report = embed_table(root, ["id"], where="p = 'x/y' or p is null", dry_run=True)
    assert (len(report.files), report.changed, report.dry_run) == (4, False, True)
    assert "would get 4 filters in 4 files" in str(report)
    assert len(data_files(root)) == 10
    assert deltalake.DeltaTable(root).version() == 1
    report = embed_table(root, ["id"], where=[("p", "in", ["x/y", "100%"])], max_files=3)
    assert (len(report.files), report.num_left) == (3, 1)
    assert all("p=x%2Fy" in file.old or "p=100%25" in file.old for file in report.files)
    report = embed_table(root, ["id"], where=[("p", "in", ["x/y", "100%"])])
    assert (len(report.files), report.num_complete) == (1, 3)
    with pytest.raises(PredicateError, match="partition columns, of p; 's' is not one"):
        embed_table(root, ["id"], where="s = 'v1'")


def test_so_many_bytes_only(root: str) -> None:
    adds = [add for version in (0, 1) for add in actions(root, version, "add")]
    largest = max(add["size"] for add in adds)
    report = embed_table(root, ["id"], max_bytes=1)
    assert (len(report.files), report.num_left) == (1, 9)
    report = embed_table(root, ["id"], max_bytes=3 * largest, max_files=4)
    assert (len(report.files), report.num_left) == (3, 6)
    assert sum(file.old_size for file in report.files) <= 3 * largest


def test_commits_after_so_many_bytes(root: str) -> None:
    before, calls = tables.read_delta(root), []
    size = min(add["size"] for version in (0, 1) for add in actions(root, version, "add"))
    report = embed_table(root, ["id"], commit_bytes=3 * size, progress=lambda *call: calls.append(call))
    assert (report.old_version, report.new_version, report.attempts) == (1, 5, 4)
    assert [len(actions(root, version, "add")) for version in range(2, 6)] == [3, 3, 3, 1]
    assert len(report.files) == 10
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] == calls[-1][1]
    for version in range(1, 6):
        assert tables.read_delta(root, version) == before


def test_rows_deleted_between_two_commits_stay_deleted(tmp_path: Path) -> None:
    root = tables.make_delta(tmp_path / "t", 4, partitioned=False)
    size = min(add["size"] for version in range(4) for add in actions(root, version, "add"))
    before, deleted = tables.read_delta(root), []

    def delete(done: int, total: int) -> None:
        if not deleted:
            table = deltalake.DeltaTable(root)
            deleted.append([table.version(), table.delete("id >= 90 and id < 310")])

    report = embed_table(root, ["id"], commit_bytes=size, progress=delete)
    assert tables.read_delta(root) == tables.kept(lambda row: not 90 <= row[0] < 310)(before)
    assert {one.reason for one in report.skipped} == {"another writer has removed it from the table meanwhile"}
    embed_table(root, ["id"])
    assert not embed_table(root, ["id"]).changed
    assert tables.read_delta(root) == tables.kept(lambda row: not 90 <= row[0] < 310)(before)


def test_typed_partition_values(tmp_path: Path) -> None:
    from datetime import date

    root = str(tmp_path / "t")
    data = pa.table(
        {"id": [1, 2, 3], "d": [date(2024, 1, 1), date(2024, 2, 1), None], "n": pa.array([1, 20, 300], pa.int32())}
    )
    deltalake.write_deltalake(root, data, partition_by=["d", "n"])
    report = embed_table(root, ["id"], where="d >= date '2024-02-01' and n < 100")
    assert [file.old.split("/")[-3:-1] for file in report.files] == [["d=2024-02-01", "n=20"]]


@pytest.mark.parametrize(
    ("columns", "kind", "text"),
    [
        (["nope"], UnknownColumnError, "no such column; it has: id, s"),
        (["p"], UnsupportedTypeError, "a partition column"),
        ([], ParquetBloomError, "no columns given"),
        ({"id": 2}, ParquetBloomError, "fpp must be"),
    ],
)
def test_columns_that_cannot_get_filters(root: str, columns: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        embed_table(root, columns)
    assert "\n" not in str(caught.value)
    assert len(data_files(root)) == 10


def test_nested_and_missing_columns(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    data = pa.table(
        {
            "user": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
            "tags": [["x", "y"], ["z"]],
            "deep": [[{"k": "one"}], [{"k": "two"}]],
            "flag": [True, False],
            "map": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
            "dotted.name": [1, 2],
        }
    )
    deltalake.write_deltalake(root, data)
    deltalake.write_deltalake(root, data.append_column("late", pa.array([5, 6])), mode="append", schema_mode="merge")
    columns = ["user.id", "tags", "late", "dotted.name"]
    report = embed_table(root, columns)
    assert sorted(file.num_filters for file in report.files) == [3, 4]
    assert not embed_table(root, columns).changed
    # What is in lists and maps has the names that the writer gave it, which deltalake does in two ways.
    report = embed_table(root, ["deep.list.element.k"])
    assert len(report.files) == 1
    assert [one.reason for one in report.skipped] == [
        "column 'deep.list.element.k': it has no such column, but deep.list.item.k"
    ]
    for name, text in (("user", "a struct: name one of its fields"), ("flag", "BOOLEAN")):
        with pytest.raises(UnsupportedTypeError, match=text):
            embed_table(root, [name])
    for name, text in (("map", "several columns match"), ("user.nope", "no such column; it has: user, tags")):
        with pytest.raises(UnknownColumnError, match=text):
            embed_table(root, [name])
    with pytest.raises(ParquetBloomError, match="Delta has no table property"):
        embed_table(root, ["user.id"], set_property=True)


def test_an_old_protocol_with_identity_columns(root: str) -> None:
    before = tables.read_delta(root)
    edit_log(
        root, lambda action: action.get("protocol", {}).update(minWriterVersion=6) if "protocol" in action else None
    )
    assert embed_table(root, ["id"]).changed
    assert tables.read_delta(root) == before


def test_entry_with_unknown_members_is_kept(tmp_path: Path) -> None:
    root = tables.make_delta(tmp_path / "t", 1)
    adds = actions(root, 0, "add")
    members: list[dict[str, Any]] = [{"invented": [1]}, {"tags": {}, "stats": None}]

    def change(action: dict[str, Any]) -> None:
        for add, more in zip(adds, members, strict=False):
            if action.get("add", {}).get("path") == add["path"]:
                action["add"].update(more)

    edit_log(root, change)
    before = tables.read_delta(root)
    report = embed_table(root, ["id"])
    assert {os.path.basename(one.path): one.reason for one in report.skipped} == {
        os.path.basename(adds[0]["path"]): "its entry in the log has invented, which a new entry cannot keep"
    }
    assert len(report.files) == 4
    assert tables.read_delta(root) == before
    assert sorted(add.get("stats") is None for add in actions(root, 1, "add")) == [False, False, False, True]


def test_paths_that_are_quoted_in_another_way(tmp_path: Path) -> None:
    """A reader that compares the texts of paths has to find the file that is removed."""
    root = tables.make_delta(tmp_path / "t", 1)

    def change(action: dict[str, Any]) -> None:
        if "add" in action and "x%252Fy" in action["add"]["path"]:
            action["add"]["path"] = action["add"]["path"].replace("p=", "p%3D")

    edit_log(root, change)
    before = tables.read_delta(root)
    report = embed_table(root, ["id"])
    assert (len(report.files), report.skipped) == (5, ())
    removed = {remove["path"] for remove in actions(root, 1, "remove")}
    assert removed == {add["path"] for add in actions(root, 0, "add")}
    assert tables.read_delta(root) == before


def test_files_that_are_not_what_the_log_says(root: str, tmp_path: Path) -> None:
    adds = actions(root, 0, "add")
    paths = [os.path.join(root, unquote(add["path"])) for add in adds]
    os.remove(paths[0])
    Path(paths[1]).write_bytes(b"PAR1 no more PAR1")
    with open(paths[2], "ab") as file:
        file.write(b"more")
    report = embed_table(root, ["id"])
    reasons = {one.path: one.reason for one in report.skipped}
    assert reasons.keys() == set(paths[:3])
    assert "No such file" in reasons[paths[0]]
    assert len(report.files) == 7


def test_a_file_outside_of_the_table(root: str, tmp_path: Path) -> None:
    """A log may name any file: it is neither read nor is one written beside it."""
    add = actions(root, 0, "add")[0]
    secret = tmp_path / "elsewhere" / "secret.parquet"
    secret.parent.mkdir()
    shutil.copy(os.path.join(root, unquote(add["path"])), secret)
    os.remove(os.path.join(root, unquote(add["path"])))
    os.symlink(secret, os.path.join(root, unquote(add["path"])))
    report = embed_table(root, ["id"])
    assert [one.reason for one in report.skipped] == ["it lies outside of the table's folder"]
    assert os.listdir(secret.parent) == ["secret.parquet"]


def test_a_filter_that_denies_a_value_is_not_committed(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embed = exchange_files.embed_in_table

    def spoil(path: str, output: str, *args: Any, **options: Any) -> Any:
        report = embed(path, output, *args, **options)
        if "p=x%2Fy" in path:
            with parquet_bloom.open(pa_file(output)) as file:
                chunk = file.chunk(0, "id")
                spans = chunk.offset + chunk.length - chunk.num_bytes, chunk.num_bytes
            with open(output, "r+b") as stream:
                stream.seek(spans[0])
                stream.write(np.zeros(spans[1], np.uint8).tobytes())
        return report

    monkeypatch.setattr(exchange_files, "embed_in_table", spoil)
    before = tables.read_delta(root)
    report = embed_table(root, ["id"])
    assert len(report.files) == 8
    assert len(report.skipped) == 2
    assert all("the new file was not committed" in one.reason for one in report.skipped)
    assert len(data_files(root)) == 18
    assert tables.read_delta(root) == before


def test_column_mapping(tmp_path: Path) -> None:
    """Renamed columns of Spark's making: by name, and by field id."""
    for mode in ("name", "id"):
        root = str(tmp_path / mode)
        os.makedirs(f"{root}/_delta_log")
        ids = {b"PARQUET:field_id": b"1"}, {b"PARQUET:field_id": b"2"}
        fields = [
            pa.field("col-a" if mode == "name" else "any", pa.int64(), metadata=ids[0]),
            pa.field("col-b", pa.string(), metadata=ids[1]),
        ]
        pq.write_table(pa.table([[1, 2, 3], ["x", "y", "z"]], schema=pa.schema(fields)), f"{root}/one.parquet")

        def column(name: str, physical: str, number: int, kind: str) -> dict[str, Any]:
            mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
            return {"name": name, "type": kind, "nullable": True, "metadata": mapping}

        schema = {"type": "struct", "fields": [column("id", "col-a", 1, "long"), column("col-a", "col-b", 2, "string")]}
        meta = {
            "id": "x",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": [],
            "configuration": {"delta.columnMapping.mode": mode},
            "createdTime": 1,
        }
        add = {
            "path": "one.parquet",
            "partitionValues": {},
            "size": os.path.getsize(f"{root}/one.parquet"),
            "modificationTime": 1,
            "dataChange": True,
            "stats": '{"numRecords":3}',
        }
        lines = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": meta}, {"add": add}]
        Path(f"{root}/_delta_log/{0:020}.json").write_text("\n".join(map(json.dumps, lines)))
        report = embed_table(root, ["id"])
        with parquet_bloom.open(pa_file(report.files[0].new)) as file:
            assert file.chunk(0, fields[0].name) is not None
            assert file.chunk(0, "col-b") is None
        report = embed_table(root, ["col-a"])
        assert report.num_filters == 1
        assert deltalake.DeltaTable(root).version() == 2


def test_a_table_by_its_url(root: str) -> None:
    """As deltalake gives it, quoted."""
    uri = deltalake.DeltaTable(root).table_uri
    assert uri.startswith("file:///")
    assert "%20" in uri
    report = embed_table(uri, ["id"])
    assert report.table.rstrip("/") == root
    assert len(report.files) == 10
    assert embed_table(parquet_bloom.delta(root), ["id"]).num_complete == 10
    with pytest.raises(ParquetBloomError, match="only the latest version can"):
        embed_table(parquet_bloom.delta(root, version=1), ["id"])


def test_what_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(ParquetBloomError, match="there is no Delta or Iceberg table"):
        embed_table(tmp_path, ["id"])
    with pytest.raises(ParquetBloomError, match="not int"):
        embed_table(5, ["id"])
    with pytest.raises(ParquetBloomError, match="max_files must be an integer of at least 1"):
        embed_table(tmp_path, ["id"], max_files=0)
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "00000000000000000000.json").write_text("{}")
    with pytest.raises(StorageError, match="cannot read the Delta table"):
        embed_table(tmp_path, ["id"])


@pytest.mark.ci
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the tables of other writers are not here")
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*")), ids=lambda path: path.name)
def test_tables_of_other_writers(path: Path, tmp_path: Path) -> None:
    root = str(shutil.copytree(path, tmp_path / "table", copy_function=shutil.copyfile))
    os.system(f"chmod -R u+w {root}")
    try:
        table = deltalake.DeltaTable(root)
        before = rows_of(root)
        names = {field.name: str(getattr(field.type, "type", "")) for field in table.schema().fields}
    except Exception:  # deltalake's
        pytest.skip("deltalake does not read it, or files of it are not here")
    columns = [
        name for name, kind in names.items() if kind in ("string", "long", "integer", "double", "date", "timestamp")
    ]
    columns = [name for name in columns if name not in table.metadata().partition_columns][:2]
    try:
        report = embed_table(root, columns)
    except ParquetBloomError as error:
        if columns and not any(words in str(error) for words in ("a lake index", "not supported: it is not read")):
            raise
        assert data_files(root) == sorted(str(Path(root, one.relative_to(path))) for one in path.rglob("*.parquet"))
        return
    assert rows_of(root) == before
    assert rows_of(root, report.old_version) == before
    assert not embed_table(root, columns).changed
    assert deltalake.DeltaTable(root).version() == table.version() + bool(report.files)


def rows_of(root: str, version: int | None = None) -> list[str]:
    table = pa.table(deltalake.DeltaTable(root, version=version).scan())
    return sorted(map(str, table.to_pylist())) if table.num_rows < 10_000 else [str(table.num_rows)]
