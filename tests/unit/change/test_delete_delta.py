"""Deletes from Delta tables: what the commit consists of, which tables allow it, and other writers meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.dropped_rows import decoded_pages
from support.writers import delta_log

import parquet_bloom
from parquet_bloom.errors import (
    ConcurrentChangeError,
    ParquetBloomError,
    PredicateError,
    StorageError,
    UnknownColumnError,
)
from parquet_bloom.storage.index_folder import Folder

deltalake = pytest.importorskip("deltalake")

ROWS = 100


def make_table(root: Path, files: int = 3, **configuration: str) -> str:
    """Write a table with deletion vectors, a commit for each file."""
    settings = {"delta.enableDeletionVectors": "true"} | configuration
    for number in range(files):
        deltalake.write_deltalake(str(root), make_rows(number), mode="append", configuration=settings)
        settings = None
    return str(root)


def make_rows(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"id": ids, "name": [f"Name {i}" for i in ids]})


def list_ids(root: str, version: int | None = None) -> list[int]:
    ours = parquet_bloom.dataset(parquet_bloom.delta(root, version=version)).scan(columns=["id"]).to_arrow()
    theirs = pa.table(deltalake.DeltaTable(root, version=version).scan())
    assert sorted(ours["id"].to_pylist()) == sorted(theirs["id"].to_pylist())
    return sorted(ours["id"].to_pylist())


def read_commit(root: str, version: int) -> list[dict[str, Any]]:
    lines = Path(root, "_delta_log", f"{version:020d}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def list_vectors(root: str) -> list[Path]:
    return sorted(Path(root).glob("*.bin"))


def test_the_commit_names_its_vectors_and_keeps_what_the_entries_had(tmp_path: Path) -> None:
    root = make_table(tmp_path / "ä table")
    before = {a["add"]["path"]: a["add"] for v in range(3) for a in read_commit(root, v) if "add" in a}
    report = parquet_bloom.delete(root, [5, 7, 150, 1_000_000, None], "id")
    assert (report.num_rows, report.num_keys, report.num_null_keys, report.attempts) == (3, 5, 1, 1)
    info, *actions = read_commit(root, 3)
    assert info["commitInfo"]["operation"] == "DELETE"
    assert info["commitInfo"]["operationMetrics"]["numDeletedRows"] == "3"
    assert "150" not in json.dumps(info)  # a key may be what must not be kept
    adds = [action["add"] for action in actions if "add" in action]
    assert [action["remove"]["path"] for action in actions if "remove" in action] == [add["path"] for add in adds]
    assert all(action.get("remove", action.get("add"))["dataChange"] for action in actions)
    for add in adds:
        old, statistics = before[add["path"]], json.loads(add["stats"])
        assert statistics == json.loads(old["stats"]) | {"tightBounds": False}
        assert statistics["numRecords"] == ROWS
        assert {k: v for k, v in add.items() if k not in ("deletionVector", "stats", "dataChange")} == {
            k: v for k, v in old.items() if k not in ("stats", "dataChange") and v is not None
        }
    assert sorted(add["deletionVector"]["cardinality"] for add in adds) == [1, 2]
    assert len(list_vectors(root)) == 1
    assert list_ids(root) == [i for i in range(300) if i not in (5, 7, 150)]
    assert list_ids(root, 2) == [*range(300)]


def test_what_is_deleted_already_is_not_deleted_again(tmp_path: Path) -> None:
    root = make_table(tmp_path / "t")
    assert parquet_bloom.delete(root, [5, 150], "id").new_version == 3
    assert not parquet_bloom.delete(root, [5, 150], "id").changed
    merged = parquet_bloom.delete(root, where="id < 10")
    assert (merged.num_rows, merged.new_version) == (9, 4)
    (add,) = [action["add"] for action in read_commit(root, 4) if "add" in action]
    (remove,) = [action["remove"] for action in read_commit(root, 4) if "remove" in action]
    assert (remove["deletionVector"]["cardinality"], add["deletionVector"]["cardinality"]) == (1, 10)
    assert list_ids(root) == [i for i in range(10, 300) if i != 150]


def test_a_file_without_rows_leaves_the_table(tmp_path: Path) -> None:
    root = make_table(tmp_path / "t")
    parquet_bloom.delete(root, 5, "id")
    report = parquet_bloom.delete(root, where="id < 101")
    assert {(file.num_rows, file.how) for file in report.files} == {(99, "removed"), (1, "hidden")}
    assert list_ids(root) == [*range(101, 300)]
    assert parquet_bloom.delete(root, where="id >= 0").num_rows == 199
    assert list_ids(root) == []
    assert not parquet_bloom.delete(root, where="id >= 0").changed


def test_a_table_that_loses_all_rows_for_good_is_searched_again(tmp_path: Path) -> None:
    report = parquet_bloom.delete(make_table(tmp_path / "t"), where="id >= 0", mode="rewrite")
    assert ({file.how for file in report.files}, report.rows_after) == ({"removed"}, 0)


def test_files_are_written_anew_where_a_table_has_no_vectors(tmp_path: Path) -> None:
    """Bounds of the old file hold, nulls are counted anew, and what is left in older versions is said."""
    root = str(tmp_path / "t")
    rows = pa.table(
        {"id": range(10), "n": [None] * 5 + [1.5, 2.0, 3.0, 4.0, 5.0], "s": [{"a": i % 2 or None} for i in range(10)]}
    )
    deltalake.write_deltalake(root, rows)
    deltalake.write_deltalake(root, make_rows(1).select(["id"]), mode="append", schema_mode="merge")
    dry = parquet_bloom.delete(root, [*range(5, 10), 150], "id", dry_run=True)
    assert (dry.num_rows, [file.output for file in dry.files]) == (6, [None, None])
    assert len(list(Path(root).glob("*.parquet"))) == 2
    report = parquet_bloom.delete(root, [*range(5, 10), 150], "id")
    assert ({file.how for file in report.files}, report.rows_after, list_vectors(root)) == ({"rewritten"}, 0, [])
    assert list_ids(root) == [*range(5), *(i for i in range(100, 200) if i != 150)]
    assert list_ids(root, 1) == [*range(10), *range(100, 200)]
    statistics = [json.loads(action["add"]["stats"]) for action in read_commit(root, 2) if "add" in action]
    (few,) = [each for each in statistics if each["numRecords"] == 5]
    assert few["nullCount"] == {"id": 0, "n": 5, "s": {"a": 3}}
    assert (few["minValues"]["id"], few["maxValues"]["id"], few["tightBounds"]) == (0, 9, False)
    assert parquet_bloom.read_table(root, "n IS NULL AND id = 3").num_rows == 1
    assert [(one.known, one.num_rows) for one in report.held[:-2]] == [(True, 6), (True, 5)]
    assert "still holds 6 of them: the version 1 of the table" in str(report)
    assert "still holds 5 of them: the version 0 of the table" in str(report)
    assert parquet_bloom.upsert(root, parquet_bloom.read_table(root, "id = 3"), "id").files[0].how == "rewritten"
    assert list_ids(root) == [*range(5), *(i for i in range(100, 200) if i != 150)]


def test_dictionaries_of_files_that_are_written_anew(tmp_path: Path) -> None:
    """Nothing of a deleted row is left in that of a row group that is copied."""
    path = tmp_path / "t" / "a.parquet"
    path.parent.mkdir()
    keys = pa.array([f"key-{i:05}" for i in range(90)]).dictionary_encode()
    pq.write_table(pa.table({"id": range(90), "key": keys}), path, row_group_size=30)
    deltalake.convert_to_deltalake(str(path.parent))
    report = parquet_bloom.delete(str(path.parent), 4, "id", mode="rewrite")
    assert any("those of key had" in one.where for one in report.held)
    [new] = set(path.parent.glob("*.parquet")) - {path}
    assert decoded_pages(path).count(b"key-00004") == 3
    assert b"key-00004" not in decoded_pages(new)


def test_rewriting_takes_hidden_rows_out_as_well(tmp_path: Path) -> None:
    root = make_table(tmp_path / "t", 1)
    parquet_bloom.delete(root, [5, 6], "id")
    report = parquet_bloom.delete(root, 7, "id", mode="rewrite")
    assert (report.num_rows, report.files[0].how) == (1, "rewritten")
    assert pq.read_metadata(report.files[0].output).num_rows == ROWS - 3
    (add,) = [action["add"] for action in read_commit(root, 2) if "add" in action]
    assert "deletionVector" not in add
    assert list_ids(root) == [i for i in range(ROWS) if i not in (5, 6, 7)]


def test_versions_that_still_hold_rows_are_counted(tmp_path: Path) -> None:
    """Each of them is searched, as far as it can be read."""
    root = make_table(tmp_path / "t", 4)
    parquet_bloom.delete(root, [1, 101], "id")
    parquet_bloom.embed_table(root, ["id"])  # of which all files are others
    deltalake.write_deltalake(root, make_rows(0), mode="append")
    parquet_bloom.delete(root, 2, "id")
    report = parquet_bloom.delete(root, where="id IN (1, 2, 3, 150, 250, 350)", mode="rewrite")
    told = {}
    for one in report.held:
        if one.num_rows is not None:
            first, last = re.search(r"versions? (\d+)(?: to (\d+))? of", one.where).groups()  # type: ignore[union-attr]
            told |= dict.fromkeys(range(int(first), int(last or first) + 1), one.num_rows)
    assert (told, "the versions up to 4 of the table" in str(report)) == ({5: 4, 6: 6, 7: 6}, True)
    deleted = [1, 2, 3, 150, 250, 350]
    for version, number in told.items():
        held = [i for i in list_ids(root, version) if i in deleted]
        assert len(held) >= number, version
    assert report.to_dict()["still_held"][0]["rows"] == max(told.values())


def test_rows_are_chosen_by_keys_and_predicates(tmp_path: Path) -> None:
    root = make_table(tmp_path / "t")
    keys = tmp_path / "keys.parquet"
    pq.write_table(pa.table({"id": pa.array([1, None, 2], pa.int32())}), keys)

    def count(*given: Any, **options: Any) -> tuple[int, int]:
        report = parquet_bloom.delete(root, *given, **options, dry_run=True)
        assert (report.changed, report.old_version) == (False, 2)
        return report.num_rows, report.num_null_keys

    assert count(keys, "id") == (2, 1)
    assert count(pq.read_table(keys), "id") == (2, 1)
    assert count(pq.read_table(keys).to_reader(), "id") == (2, 1)
    assert count([1, 2, 2, None], "id") == (2, 1)
    assert count(7, "id") == (1, 0)
    assert count("Name 7", "name") == (1, 0)
    assert count(["name 7", "NAME 8"], "lower(name)") == (1, 0)
    assert count([(1, "Name 1"), (2, "Name 1"), (3, None)], ["id", "name"]) == (1, 1)
    assert count([*range(50)], "id", where="id >= 40") == (10, 0)
    assert count([], "id") == (0, 0)
    assert count(where="id BETWEEN 90 AND 109") == (20, 0)


def test_mistakes_are_named(tmp_path: Path) -> None:
    root = make_table(tmp_path / "t", 1)
    for arguments, error, said in (
        ({}, ParquetBloomError, "which rows"),
        ({"keys": [1]}, ParquetBloomError, "keys and on= go together"),
        ({"on": "id", "where": "id = 1"}, ParquetBloomError, "keys and on= go together"),
        ({"keys": [1], "on": "nothing"}, UnknownColumnError, "column 'nothing': "),
        ({"keys": ["x"], "on": "id"}, PredicateError, "column 'id': "),
        ({"where": "nothing = 1"}, UnknownColumnError, "column 'nothing'"),
        ({"where": "id = 1", "mode": "shred"}, ParquetBloomError, "mode must be 'hide' or 'rewrite', got 'shred'"),
        ({"where": "id = 1", "threads": "a"}, ParquetBloomError, "threads must be an integer of at least 1, got 'a'"),
        (
            {"where": "id = 1", "appended": "shred"},
            ParquetBloomError,
            "appended must be 'take' or 'leave', got 'shred'",
        ),
        ({"where": "id = 1", "retries": -1}, ParquetBloomError, "retries must be an integer of at least 0, got -1"),
    ):
        with pytest.raises(error, match=said):
            parquet_bloom.delete(root, **arguments)
    with pytest.raises(ParquetBloomError, match="there is no Delta or Iceberg table"):
        parquet_bloom.delete(tmp_path / "none", 1, "id")
    with pytest.raises(ParquetBloomError, match="only the latest version"):
        parquet_bloom.delete(parquet_bloom.delta(root, version=0), 1, "id")
    assert list_ids(root) == [*range(ROWS)]


@pytest.mark.parametrize(
    ("name", "said"),
    [("delta.appendOnly", "forbids that rows are deleted"), ("delta.enableChangeDataFeed", "a record of each deleted")],
)
def test_tables_that_ask_for_more_are_refused(tmp_path: Path, name: str, said: str) -> None:
    root = make_table(tmp_path / "t", 1, **{name: "True"})
    for is_dry in (True, False):
        with pytest.raises(ParquetBloomError, match=said):
            parquet_bloom.delete(root, 1, "id", dry_run=is_dry)
    assert not parquet_bloom.delete(root, -1, "id").files
    assert (list_ids(root), list_vectors(root)) == ([*range(ROWS)], [])


def test_row_tracking_and_partitions_stay(tmp_path: Path) -> None:
    """Statistics keep digits that a float has not, and files without any get their number of rows."""
    root = tmp_path / "t"
    names = ("a.parquet", "b.parquet")
    root.mkdir()
    for name in names:
        pq.write_table(pa.table({"id": [1, 2, 3]}), root / name)
    stats = '{"numRecords":3,"minValues":{"id":1,"d":12345678901234567890.12},"maxValues":{"tightBounds":true}}'
    members = {"baseRowId": 3, "defaultRowCommitVersion": 0, "tags": {"a": None}, "partitionValues": {"p": "x"}}
    adds = [
        delta_log.add(name, (root / name).stat().st_size, text, **members)
        for name, text in zip(names, (stats, None), strict=True)
    ]
    fields = [delta_log.column("id", "long"), delta_log.column("p", "string")]
    settings = {"delta.enableDeletionVectors": "True", "delta.enableRowTracking": "true"}  # in any case
    features = {"features": ["deletionVectors"], "writer_features": ["rowTracking", "domainMetadata"]}
    delta_log.commit(root, 0, [*delta_log.beginning(fields, ["p"], settings, **features), *adds])
    assert parquet_bloom.delete(str(root), 2, "id").num_rows == 2
    written = [action["add"] for action in read_commit(str(root), 1) if "add" in action]
    assert [add["stats"] for add in written] == [
        stats[:-1] + ',"tightBounds":false}',
        '{"numRecords":3,"tightBounds":false}',
    ]
    for add in written:
        assert {name: add[name] for name in members} == members


ID_COLUMN, VERSION_COLUMN = "_row-id-col-1", "_row-commit-version-col-2"
TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": ID_COLUMN,
    "delta.rowTracking.materializedRowCommitVersionColumnName": VERSION_COLUMN,
}


def track_rows(root: Path, configuration: dict[str, str], kind: str = "", **members: Any) -> None:
    """Write a table whose rows have had the ids up to 99; those of its only file are 40 to 49."""
    root.mkdir()
    pq.write_table(pa.table({"id": range(10)}), root / "a.parquet", row_group_size=5)
    domain = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":99}', "removed": False}
    settings = {"delta.enableDeletionVectors": "true"} | configuration
    features = {"features": ["deletionVectors"], "writer_features": ["rowTracking", "domainMetadata"]}
    beginning = delta_log.beginning([delta_log.column("id", "long")], configuration=settings, **features)
    add = delta_log.add("a.parquet", (root / "a.parquet").stat().st_size, '{"numRecords":10}', **members)
    delta_log.commit(root, 0, [*beginning, add, {"domainMetadata": domain}])
    if kind:
        deltalake.DeltaTable(str(root)).create_checkpoint()
        Path(root, "_delta_log", f"{0:020d}.json").unlink()


def find_tracked(root: str) -> dict[int, tuple[int, int]]:
    """Return {id: (row id, commit version)}, by the protocol's rules."""
    found = {}
    table = deltalake.DeltaTable(root)
    live = {Path(uri).name for uri in table.file_uris()}
    adds = {}
    for version in range(table.version() + 1):
        adds |= {a["add"]["path"]: a["add"] for a in read_commit(root, version) if "add" in a}
    for name in live:
        rows = pq.read_table(Path(root, name))
        own = [
            rows[c].to_pylist() if c in rows.column_names else [None] * len(rows) for c in (ID_COLUMN, VERSION_COLUMN)
        ]
        for number, (value, row_id, version) in enumerate(zip(rows["id"].to_pylist(), *own, strict=True)):
            base, default = adds[name]["baseRowId"] + number, adds[name]["defaultRowCommitVersion"]
            found[value] = (base if row_id is None else row_id, default if version is None else version)
    return found


def test_rows_keep_their_ids_when_files_are_written_anew(tmp_path: Path) -> None:
    """New files get ids for their rows as well, which no row has had; these are told by columns of their own."""
    root = str(tmp_path / "t")
    track_rows(Path(root), TRACKED, baseRowId=40, defaultRowCommitVersion=0)
    for version, gone, last in ((1, [0, 7], 107), (2, [2], 114)):
        report = parquet_bloom.delete(root, gone, "id", mode="rewrite")
        assert (report.files[0].how, report.rows_after) == ("rewritten", 0)
        info, *actions = read_commit(root, version)
        assert info["commitInfo"]["tags"] == {"delta.rowTracking.preserved": "true"}
        (add,) = [action["add"] for action in actions if "add" in action]
        left = json.loads(add["stats"])["numRecords"]
        assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (last - left + 1, version)
        (domain,) = [action["domainMetadata"] for action in actions if "domainMetadata" in action]
        assert (domain["domain"], json.loads(domain["configuration"])) == (
            "delta.rowTracking",
            {"rowIdHighWaterMark": last},
        )
    expected = [number for number in range(10) if number not in (0, 2, 7)]
    assert find_tracked(root) == {number: (40 + number, 0) for number in expected}
    assert list_ids(root) == expected
    parquet_bloom.delete(root, 3, "id")  # by a vector: no new file, and no new ids
    assert not [action for action in read_commit(root, 3) if "domainMetadata" in action]


def test_tables_that_track_rows_but_not_to_the_end(tmp_path: Path) -> None:
    plain = str(tmp_path / "supported")
    track_rows(Path(plain), {}, "checkpoint", baseRowId=40, defaultRowCommitVersion=0)
    report = parquet_bloom.delete(plain, 5, "id", mode="rewrite")
    assert pq.read_schema(report.files[0].output).names == ["id"]  # but the new file has ids for its rows
    assert parquet_bloom.upsert(plain, pa.table({"id": [1, 50]}), "id").num_added == 2
    adds = [action["add"] for version in (1, 2) for action in read_commit(plain, version) if "add" in action]
    assert sorted(add["baseRowId"] for add in adds) == [100, 100, 109]  # the first file again, with a vector
    track_rows(tmp_path / "new rows", TRACKED)
    with pytest.raises(ParquetBloomError, match="enableRowTracking is not heeded here for new rows"):
        parquet_bloom.upsert(str(tmp_path / "new rows"), pa.table({"id": [1]}), "id")
    with pytest.raises(
        ParquetBloomError, match=r"a\.parquet: it tracks rows, and the log has no ids for those of this"
    ):
        parquet_bloom.delete(str(tmp_path / "new rows"), 1, "id", mode="rewrite")
    track_rows(tmp_path / "unnamed", {"delta.enableRowTracking": "true"}, baseRowId=1, defaultRowCommitVersion=0)
    for is_dry in (True, False):
        with pytest.raises(ParquetBloomError, match=r"lacks the property delta\.rowTracking\.mat"):
            parquet_bloom.delete(str(tmp_path / "unnamed"), 1, "id", mode="rewrite", dry_run=is_dry)
    assert parquet_bloom.delete(str(tmp_path / "unnamed"), 1, "id").files[0].how == "hidden"


def test_statistics_that_are_not_json(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    add = delta_log.add("a.parquet", (tmp_path / "a.parquet").stat().st_size, "{bad")
    settings = {"delta.enableDeletionVectors": "true"}
    beginning = delta_log.beginning(
        [delta_log.column("id", "long")], configuration=settings, features=["deletionVectors"]
    )
    delta_log.commit(tmp_path, 0, [*beginning, add])
    with pytest.raises(ParquetBloomError, match=r"a\.parquet: its statistics in the log are not JSON"):
        parquet_bloom.delete(str(tmp_path), 2, "id")
    assert not list_vectors(str(tmp_path))


@pytest.mark.ci
@pytest.mark.parametrize("change", ["append", "delete", "compact", "embed", "schema"])
def test_other_writers_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """The rows are located anew: also those that were added meanwhile, and those that lie in other files now."""
    root = make_table(tmp_path / "t")
    expected = {i for i in range(300) if i % 50}
    if change == "append":
        expected -= {0}

    def change_table() -> Iterator[None]:
        yield
        table = deltalake.DeltaTable(root)
        if change == "append":
            deltalake.write_deltalake(root, make_rows(0), mode="append")
        elif change == "delete":
            parquet_bloom.delete(root, [50, 51], "id")
            expected.discard(51)
        elif change == "embed":
            parquet_bloom.embed_table(root, ["id"])
        elif change == "schema":
            table.alter.add_columns([deltalake.schema.Field("more", deltalake.schema.PrimitiveType("string"))])
        else:
            parquet_bloom.delete(root, where="id >= 0")  # as a compaction does, all files are others
            deltalake.write_deltalake(root, pa.concat_tables(map(make_rows, range(3))), mode="append")
        yield

    steps, create = change_table(), Folder.create
    next(steps)

    def interfere(self: Folder, name: str, new: bool = False) -> Any:
        if name.endswith(".json"):
            monkeypatch.setattr(Folder, "create", create)
            next(steps)
        return create(self, name, new)

    monkeypatch.setattr(Folder, "create", interfere)
    report = parquet_bloom.delete(root, range(0, 300, 50), "id")
    assert report.attempts == 2
    left = list_ids(root)
    assert {*left} == expected
    assert len(left) == len(expected) + (ROWS - 1 - 1 if change == "append" else 0)
    used = {path.name for path in list_vectors(root)}
    assert len(used) == (2 if change == "delete" else 1)  # what the first try has written is gone


@pytest.mark.parametrize("what", ["hide", "rewrite", "upsert"])
def test_a_vacuum_that_keeps_nothing_takes_the_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """They are not in the table yet, so that it may; a commit of files that are gone would lose their rows."""
    root = make_table(tmp_path / "t")
    before, create, taken = set(Path(root).iterdir()), Folder.create, list[Path]()

    def interfere(self: Folder, name: str, new: bool = False) -> Any:
        if name.endswith(".json") and not taken:
            taken.extend(set(Path(root).iterdir()) - before)
            for path in taken:
                path.unlink()
        return create(self, name, new)

    monkeypatch.setattr(Folder, "create", interfere)
    if what == "upsert":
        assert parquet_bloom.upsert(root, make_rows(9), "id").attempts == 2
    else:
        mode: Any = what
        assert parquet_bloom.delete(root, [5, 150], "id", mode=mode).attempts == 2
    assert taken
    more = range(900, 1000) if what == "upsert" else ()
    assert list_ids(root) == [i for i in range(300) if more or i not in (5, 150)] + [*more]


@pytest.mark.parametrize("change", ["append", "delete", "compact"])
def test_rows_that_are_added_meanwhile_may_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    root = make_table(tmp_path / "t")
    create = Folder.create

    def interfere(self: Folder, name: str, new: bool = False) -> Any:
        if name.endswith(".json"):
            monkeypatch.setattr(Folder, "create", create)
            if change == "append":
                deltalake.write_deltalake(root, make_rows(0), mode="append")
            elif change == "delete":
                parquet_bloom.delete(root, [50, 51], "id")
            else:
                deltalake.DeltaTable(root).optimize.compact()
        return create(self, name, new)

    monkeypatch.setattr(Folder, "create", interfere)
    if change == "compact":
        with pytest.raises(ConcurrentChangeError, match=r"parquet: another writer has replaced it.*: run again"):
            parquet_bloom.delete(root, range(0, 300, 50), "id", appended="leave")
        assert (list_ids(root), list_vectors(root)) == ([*range(300)], [])
        return
    report = parquet_bloom.delete(root, range(0, 300, 50), "id", appended="leave")
    assert (report.attempts, report.num_rows) == (2, 6 if change == "append" else 5)
    assert (report.num_later, report.to_dict()["later_files"]) == ((1, 1) if change == "append" else (0, 0))
    assert ("not searched: 1 file that other writers have added" in str(report)) == (change == "append")
    left = [i for i in range(300) if i % 50 and (i != 51 or change == "append")]
    assert list_ids(root) == sorted([*left, *(range(100) if change == "append" else ())])


def test_busy_tables_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_table(tmp_path / "t", 1)
    create = Folder.create

    def interfere(self: Folder, name: str, new: bool = False) -> Any:
        if name.endswith(".json"):
            deltalake.write_deltalake(root, make_rows(1), mode="append")
        return create(self, name, new)

    monkeypatch.setattr(Folder, "create", interfere)
    with pytest.raises(ConcurrentChangeError, match="during each of 2 attempts; nothing was changed"):
        parquet_bloom.delete(root, 1, "id", retries=1)
    assert list_vectors(root) == []


def test_an_interrupt_after_the_commit_leaves_its_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a failure before it leaves none."""
    root = make_table(tmp_path / "t", 1)
    create = Folder.create

    class Late:
        def __init__(self, new: Any, failure: BaseException, is_late: bool) -> None:
            self.new, self.failure, self.is_late = new, failure, is_late

        def __enter__(self) -> Any:
            self.inner = self.new.__enter__()
            return self

        def __exit__(self, *error: Any) -> Any:
            return self.new.__exit__(*error)

        def write(self, data: bytes) -> int:
            return self.inner.write(data)

        def commit(self) -> None:
            if self.is_late:
                self.inner.commit()
            raise self.failure

    full, interrupt = StorageError("the disk is full"), KeyboardInterrupt()
    for failure, is_late in ((full, False), (interrupt, False), (interrupt, True)):

        def interfere(self: Folder, name: str, new: bool = False) -> Any:
            made = create(self, name, new)
            return Late(made, failure, is_late) if name.endswith(".json") else made  # noqa: B023

        monkeypatch.setattr(Folder, "create", interfere)
        with pytest.raises(type(failure)):
            parquet_bloom.delete(root, 1, "id")
        monkeypatch.setattr(Folder, "create", create)
        assert len(list_vectors(root)) == is_late
        assert list_ids(root) == [i for i in range(ROWS) if i != 1 or not is_late]
