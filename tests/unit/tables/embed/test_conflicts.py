"""Other writers commit between the reading of a table and our commit: no row is lost or there twice."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers import changing_tables as tables
from support.writers import delta_log
from support.writers.iceberg_deletes import delete_positions

from parquet_bloom.errors import ConcurrentChangeError
from parquet_bloom.tables.embed.embed_table import embed_table

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")


def once(action: Any) -> Any:
    """Return a progress function that acts when all new files are written, before they are committed."""
    return lambda done, total: action() if done == total else None


def data_files(folder: str | Path) -> set[str]:
    return {str(path) for path in Path(folder).rglob("*.parquet") if "_delta_log" not in path.parts}


@pytest.mark.ci
@pytest.mark.parametrize("partitioned", [True, pytest.param(False, marks=pytest.mark.ci)])
@pytest.mark.parametrize("name", tables.DELTA_OPERATIONS)
def test_delta_with_another_writer_before_our_commit(name: str, partitioned: bool, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    root = tables.make_delta(tmp_path / "table", partitioned=partitioned)
    before = tables.read_delta(root)
    operation = tables.DELTA_OPERATIONS[name]
    after: list[Any] = []

    def act() -> None:
        operation.run(DeltaTable(root))
        after.append((DeltaTable(root).version(), tables.read_delta(root)))

    report = embed_table(root, ["id", "s"], progress=once(act))
    version, expected = after[0]
    assert expected == operation.changes(before)
    assert tables.read_delta(root) == expected
    table = DeltaTable(root)
    assert table.version() == version + report.changed
    assert len(report.files) + len(report.skipped) == (15 if partitioned else 3)
    # New files are the table's or gone: nothing of ours is left over.
    names = pa.table(table.get_add_actions())["path"].to_pylist()
    live = {os.path.join(root, unquote(path)) for path in names}
    for file in report.files:
        assert file.new in live
        assert file.old not in live
    ours = {path for path in data_files(root) if ".c000." in path}
    assert ours == {file.new for file in report.files}
    # What was missed this time is done the next time, and then nothing is left to do.
    embed_table(root, ["id", "s"])
    assert not embed_table(root, ["id", "s"]).changed
    assert tables.read_delta(root) == expected


@pytest.mark.ci
@pytest.mark.parametrize("name", tables.DELTA_OPERATIONS)
def test_delta_of_another_version_can_still_be_read(name: str, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    if name == "vacuum":
        pytest.skip("it deletes the files of other versions")
    root = tables.make_delta(tmp_path / "table")
    before = tables.read_delta(root)
    embed_table(root, ["id"])
    tables.DELTA_OPERATIONS[name].run(DeltaTable(root))
    assert tables.read_delta(root) == tables.DELTA_OPERATIONS[name].changes(before)
    for version in (2, 3):
        assert tables.read_delta(root, version) == before


@pytest.mark.ci
@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.ci), 2])
@pytest.mark.parametrize("name", tables.ICEBERG_OPERATIONS)
def test_iceberg_with_another_writer_before_our_commit(name: str, version: int, tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, version=version)
    before = tables.read_iceberg(table)
    operation = tables.ICEBERG_OPERATIONS[name]
    after: list[Any] = []

    def act() -> None:
        operation.run(tables.reload(table))
        after.append(tables.read_iceberg(table))

    report = embed_table(table, ["id", "s"], progress=once(act))
    assert after[0] == operation.changes(before)
    assert tables.read_iceberg(table) == after[0]
    now = tables.reload(table)
    live = {task.file.file_path.removeprefix("file://") for task in now.scan().plan_files()}
    for file in report.files:
        assert file.new in live
        assert file.old not in live
    ours = {path for path in data_files(tmp_path / "warehouse") if path.endswith("-00001.parquet")}
    assert ours == {file.new for file in report.files}
    # Each metadata file belongs to a snapshot: those of tries that failed are gone.
    used = set()
    for snapshot in now.snapshots():
        used |= {snapshot.manifest_list, *(manifest.manifest_path for manifest in snapshot.manifests(now.io))}
    if name != "expire":
        found = {f"file://{path}" for path in (tmp_path / "warehouse").rglob("*.avro")}
        assert found - used == set()
    embed_table(table, ["id", "s"])
    assert not embed_table(table, ["id", "s"]).changed
    assert tables.read_iceberg(table) == after[0]


def test_rows_of_a_delta_file_are_deleted_before_our_commit(tmp_path: Path) -> None:
    """By a deletion vector, which the entry of the new file takes over."""
    from deltalake import DeltaTable

    root = tables.make_delta(tmp_path / "table", 2, partitioned=False)
    lines = [
        json.loads(line) for line in (tmp_path / "table" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    ]
    for line in lines:
        if "protocol" in line:
            both = ["deletionVectors"]
            line["protocol"] = {
                "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": both, "writerFeatures": both,
            }  # fmt: skip
    delta_log.commit(tmp_path / "table", 0, lines)
    add = next(line["add"] for line in lines if "add" in line)
    vector = delta_log.inline_vector([3, 5])
    actions = [delta_log.remove(add["path"]), {"add": add | {"deletionVector": vector}}]
    act = once(lambda: delta_log.commit(tmp_path / "table", 2, actions))
    before = tables.read_delta(root)
    report = embed_table(root, ["id"], progress=act)
    assert (len(report.files), report.skipped, report.old_version, report.new_version) == (2, (), 2, 3)
    assert tables.read_delta(root) == tables.kept(lambda row: row[0] not in (3, 5))(before)
    assert DeltaTable(root).version() == 3
    assert not embed_table(root, ["id"]).changed


def test_rows_of_an_iceberg_file_are_deleted_before_our_commit(tmp_path: Path) -> None:
    """By their positions in the old file, which are written anew for the new one."""
    table = tables.make_iceberg(tmp_path, 2)
    before = tables.read_iceberg(table)
    first = min(task.file.file_path for task in table.scan().plan_files())
    gone: list[int] = []

    def act() -> None:
        gone.extend(pq.read_table(first.removeprefix("file://"))["id"].to_pylist()[3:6:2])
        delete_positions(tables.reload(table), first, [3, 5])

    report = embed_table(table, ["id"], progress=once(act))
    assert (len(report.files), report.skipped, report.attempts) == (2, (), 2)
    assert tables.read_iceberg(table) == tables.kept(lambda row: row[0] not in gone)(before)
    assert sum(before.values()) - 2 == sum(tables.read_iceberg(table).values())
    assert not embed_table(table, ["id"]).changed


def test_another_table_takes_its_place(tmp_path: Path) -> None:
    import shutil

    from deltalake import write_deltalake

    root = tables.make_delta(tmp_path / "table", 1)

    def act() -> None:
        shutil.rmtree(f"{root}/_delta_log")
        write_deltalake(root, tables.rows(0), partition_by=["p"])
        write_deltalake(root, tables.rows(0), mode="append")

    with pytest.raises(ConcurrentChangeError, match="another table has taken its place"):
        embed_table(root, ["id"], progress=once(act))
    assert not any(".c000." in path for path in data_files(root))
    assert sum(tables.read_delta(root).values()) == 2 * tables.ROWS
    assert os.path.isdir(root)


def test_iceberg_with_another_writer_between_our_commits(tmp_path: Path) -> None:
    """Each commit but the first follows one of ours: what that has written is not taken for a try that failed."""
    table = tables.make_iceberg(tmp_path, 3)
    before, number = tables.read_iceberg(table), [0]

    def act(done: int, total: int) -> None:
        number[0] += 1
        tables.reload(table).append(tables.rows(5_000 + number[0], 1))

    report = embed_table(table, ["id"], commit_bytes=1, progress=act)
    assert number == [3]
    assert (len(report.files), report.attempts, report.skipped) == (3, 6, ())
    expected = before + Counter({row: 1 for i in range(3) for row in tables.contents(tables.rows(5_001 + i, 1))})
    assert tables.read_iceberg(table) == expected
    now = tables.reload(table)
    for snapshot in now.snapshots():
        assert now.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows
    embed_table(table, ["id"], commit_bytes=1)
    assert not embed_table(table, ["id"]).changed
    assert tables.read_iceberg(table) == expected
