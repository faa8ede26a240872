"""Delta and Iceberg tables on the command line: at a version, live files only, without deleted rows."""

from __future__ import annotations

import base64
import csv
import datetime as dt
import io
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.shell_completion import ShellComplete

from parquet_bloom import cli

deltalake = pytest.importorskip("deltalake")
pyroaring = pytest.importorskip("pyroaring")

FORMATS = ("table", "json", "ndjson", "csv")
SPARK = "by=spark/part-0.parquet"


# ---------------------------------------------------------------------------------------------------- Delta


@pytest.fixture
def delta(lake: Path) -> Path:
    """A Delta table over the files of `lake/`, whose log is written by hand; its columns have other names in the files.

    Version 0 has `plain.parquet`, version 1 `part-0.parquet` instead, and version 2 has deleted the first three rows of
    a file, by a deletion vector. Two of the files have statistics.
    """
    log = lake / "lake" / "_delta_log"
    log.mkdir()
    fields = [("by", "by", "string"), ("user", "id", "long"), ("label", "tag", "string")]
    schema = {
        "type": "struct",
        "fields": [
            {
                "name": name,
                "type": kind,
                "nullable": True,
                "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical},
            }
            for number, (name, physical, kind) in enumerate(fields, 1)
        ],
    }
    metadata = {
        "id": "7a3c1f0e-0000-4000-8000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": ["by"],
        "configuration": {
            "delta.columnMapping.mode": "name",
            "delta.columnMapping.maxColumnId": "3",
            "delta.enableDeletionVectors": "true",
        },
    }
    features = ["columnMapping", "deletionVectors"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    first = ["by=datafusion/part-0.parquet", "by=duckdb/part-0.parquet", "by=pyarrow/plain.parquet", SPARK]
    with_statistics = first[:1] + first[3:]
    commit(log, 0, {"protocol": protocol}, {"metaData": metadata}, *(add(lake, f, f in with_statistics) for f in first))
    commit(log, 1, remove(first[2]), add(lake, "by=pyarrow/part-0.parquet", False))
    commit(log, 2, remove(SPARK), add(lake, SPARK, True, deletionVector=make_vector(range(3))))
    return lake / "lake"


def commit(log: Path, version: int, *actions: dict) -> None:
    """Write a commit, of noon on the day of its version."""
    at = int(dt.datetime(2026, 1, 1 + version, 12, tzinfo=dt.UTC).timestamp() * 1000)
    path = log / f"{version:020}.json"
    lines = [{"commitInfo": {"timestamp": at, "operation": "WRITE"}}, *actions]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, (at / 1000, at / 1000))


def add(lake: Path, name: str, has_statistics: bool, **more: object) -> dict:
    path = lake / "lake" / name
    action = {
        "path": name,
        "partitionValues": {"by": name.split("/")[0].removeprefix("by=")},
        "size": path.stat().st_size,
        "modificationTime": 1767268800000,
        "dataChange": True,
        **more,
    }
    if has_statistics:
        numbers = {"numRecords": 100, "nullCount": {"id": 0, "tag": 0}, "tightBounds": "deletionVector" not in more}
        bounds = {"minValues": {"id": 0, "tag": "tag 0"}, "maxValues": {"id": 4950, "tag": "tag 6"}}
        action["stats"] = json.dumps(numbers | bounds)
    return {"add": action}


def remove(name: str) -> dict:
    values = {"by": name.split("/")[0].removeprefix("by=")}
    return {
        "remove": {
            "path": name,
            "deletionTimestamp": 1767268800000,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": values,
            "size": 1,
        }
    }


Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
TO_Z85 = str.maketrans(B85, Z85)


def make_vector(positions: range) -> dict:
    """Describe a deletion vector that is inline in a log."""
    data = struct.pack("<I", 1681511377) + bytes(pyroaring.BitMap64(positions).serialize())
    text = base64.b85encode(data + bytes(-len(data) % 4)).decode().translate(TO_Z85)
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(positions)}


GOLDEN = {
    "table-find": "find lake --where \"user IN (100, 50) AND by <> 'duckdb'\" --columns label,user,by",
    "table-find-version": "find lake --version 1 --where \"user = 100 AND by = 'spark'\"",
    "table-prune": "prune lake --where \"user = 7000 AND by <> 'duckdb'\"",
    "table-show": "show lake --column user --row-group 0",
    "table-verify": "verify lake --data",
    "table-advise": "advise lake --sample 4",
    "table-embed-dry-run": "embed lake --commit --column label --max-files 2 --dry-run",
    "table-embed": "embed lake --commit --column label --column user=0.001",
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", GOLDEN)
def test_printed(name, format, run, delta, golden):
    command = f"{GOLDEN[name]} --format {format}"
    result = run(*shlex.split(command))
    printed = re.sub(r"part-00000-[0-9a-f-]{36}\.c000", "part-NEW", result.out).replace(str(delta), "/here/lake")
    printed = re.sub(r"\d\.\d{9,}(e-\d+)?", lambda number: f"{float(number.group()):.9g}", printed)
    printed = re.sub(r'("(?:data_)?(?:requests|bytes_read)": )[1-9]\d*', r"\1N", printed)
    output = re.sub(r"; \d+ requests?, [\d.]+ \w+( of data| to plan)?", r"; N requests\1", result.err)
    if format == "table":
        printed = re.sub(" {2,}", "  ", printed)  # columns are as wide as the path of the working folder makes them
    golden(f"{name}.{format}", f"$ parquet-bloom {command}\n{printed}--- stderr\n{output}--- exit {result.code}\n")


def rows_of(result) -> list[dict]:
    assert result.code in (0, 1), result.err
    document = json.loads(result.out)
    (name,) = [
        key for key, value in document.items() if isinstance(value, list) and key not in ("errors", "properties")
    ]
    return document[name]


# Arguments, the version that they mean, the name of pyarrow's file in it, and whether spark's file has its first rows.
VERSIONS = [
    ([], 2, "part-0", False),
    (["--version", 2], 2, "part-0", False),
    (["--version", 1], 1, "part-0", True),
    (["--version", 0], 0, "plain", True),
    (["--as-of", "2026-01-01T12:00:00Z"], 0, "plain", True),
    (["--as-of", "2026-01-02T20:00:00+08:00"], 1, "part-0", True),
    (["--as-of", "2026-01-03"], 1, "part-0", True),
]


@pytest.mark.parametrize(("arguments", "version", "name", "has_all"), VERSIONS)
def test_each_command_reads_the_files_of_a_version(arguments, version, name, has_all, run, delta):
    live = {f"by={by}/part-0.parquet" for by in ("datafusion", "duckdb", "spark")} | {f"by=pyarrow/{name}.parquet"}
    found = rows_of(run("find", "lake", "--where", "user = 100 AND by <> 'duckdb'", "--json", *arguments))
    assert [row["by"] for row in found] == ["datafusion", "pyarrow", *["spark"] * has_all]
    assert list(found[0]) == ["by", "user", "label"]
    pruned = rows_of(run("prune", "lake", "--where", "user = 100", "--json", *arguments))
    assert {row["file"] for row in pruned} == {str(delta / one) for one in live}
    filtered = {str(delta / one) for one in live if "plain" not in one}
    for command in ("show", "verify"):
        document = json.loads(run(command, "lake", "--json", *arguments).out)
        assert {row["file"] for row in document["filters"]} == filtered
        assert {row["column"] for row in document["filters"]} == {"user", "label"}  # of duckdb's both columns
        assert (document["table"]["version"], document["totals"]["files"]) == (version, 4)
    advised = json.loads(run("advise", "lake", "--json", *arguments).out)
    assert (advised["table"]["version"], advised["totals"]["files"]) == (version, 4)
    assert {row["column"] for row in advised["columns"]} == {"user", "label"}


def test_deleted_rows_are_not_shown_in_any_way(run, delta, tmp_path):
    for user, rows in ((0, 0), (100, 0), (200, 0), (300, 1)):
        done = run("find", "lake", "--where", f"user = {user} AND by = 'spark'", "--json")
        assert (done.code, len(rows_of(done))) == (0 if rows else 1, rows)
    (tmp_path / "keys.txt").write_text("100\n300\n")
    for target in ([], ["-o", "found.csv"], ["-o", "found.parquet"]):
        done = run("find", "lake", "--keys", "keys.txt", "--key-column", "user", "--where", "by = 'spark'", *target)
        assert done.code == 0
        assert "1 row" in done.err
    assert pq.read_table("found.parquet", columns=["user"]).to_pydict() == {"user": [300]}
    assert [row["user"] for row in csv.DictReader(io.StringIO(Path("found.csv").read_text()))] == ["300"]


def test_what_the_metadata_rules_out_is_called_table(run, delta):
    done = run("prune", "lake", "--where", "user = 7000 AND by <> 'duckdb'", "--json", "--html", "page.html", "--check")
    document = json.loads(done.out)
    by = {Path(row["file"]).parent.name: row["by"] for row in document["row_groups"] if row["row_group"] is None}
    assert by == {"by=datafusion": ["table"], "by=duckdb": ["partition"], "by=spark": ["table"]}
    assert document["totals"]["unopened_by"] == {"table": 2, "partition": 1}
    assert done.code == 1
    assert "ruled out by the table" in Path("page.html").read_text()
    lines = run("prune", "lake", "--where", "user = 7000", "--format", "csv").out.splitlines()
    assert sum(",table," in line for line in lines) == 2


def test_the_page_of_a_table_uses_its_names(run, delta):
    done = run("prune", "lake", "--where", "user = 300", "--html", "page.html", "--check", "--json")
    assert done.code == 0
    read = [row for row in json.loads(done.out)["row_groups"] if row["read"]]
    assert [row["row_group"] for row in read] == [0] * 4
    assert "cannot be read" not in Path("page.html").read_text()


def test_a_table_is_named_once_and_only_for_people(run, delta):
    for command in (
        ["show"],
        ["verify"],
        ["advise"],
        ["prune", "--where", "user = 1"],
        ["find", "--where", "user = 1"],
    ):
        done = run(*command[:1], "lake", *command[1:])
        assert done.err.count("Delta table lake at version 2\n") == 1
        for format in ("json", "ndjson", "csv"):
            done = run(*command[:1], "lake", *command[1:], "--format", format)
            assert "Delta table" not in done.err
            if format == "json":
                table = {"kind": "delta", "name": "lake", "version": 2, "id": "7a3c1f0e-0000-4000-8000-000000000001"}
                assert json.loads(done.out)["table"] == table


@pytest.mark.parametrize("path", ["lake/", "{here}/lake", "file://{here}/lake", "file:{here}/lake", "./lake/../lake"])
def test_paths_of_a_table(path, run, delta, tmp_path):
    path = path.format(here=tmp_path)
    assert (
        len(rows_of(run("find", path, "--where", "user = 4200", "--json"))) == 3 + 41
    )  # the file of duckdb repeats values


def test_rows_are_written_outside_of_the_table_only(run, delta):
    for target in ("lake/found.csv", "lake/by=spark/found.csv", "lake/_delta_log/found.csv"):
        done = run("find", "lake", "--where", "user = 100", "-o", target)
        assert (done.code, len(done.errors)) == (2, 1)
        assert "whose readers would find rows twice" in done.err or "is also an input" in done.err
        assert not Path(target).exists()


# ---------------------------------------------------------------------------------------------------- embed --commit


def live_files(path: Path) -> set[str]:
    return set(deltalake.DeltaTable(str(path)).file_uris())


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Delta table by deltalake, of three files in two partitions."""
    monkeypatch.chdir(tmp_path)
    for start in (0, 100, 200):
        rows = pa.table({"id": range(start, start + 100), "day": ["mon" if start else "sun"] * 100})
        deltalake.write_deltalake("events", rows, mode="append", partition_by=["day"])
    return tmp_path / "events"


def test_embed_commits_to_a_table_and_leaves_the_old_version(run, events):
    old = live_files(events)
    planned = json.loads(run("embed", "events", "--commit", "--column", "id", "--dry-run", "--json").out)
    assert planned["dry_run"]
    assert (planned["totals"]["filters"], planned["totals"]["changed"]) == (3, 0)
    assert [row["output"] for row in planned["files"]] == [None] * 3
    assert live_files(events) == old
    done = run("embed", "events", "--commit", "--column", "id=0.001", "--where", "day = 'mon'", "--json", "--jobs", "1")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert document["table"] == {"kind": "delta", "name": "events", "old_version": 2, "new_version": 3}
    assert [(row["changed"], row["reason"]) for row in document["files"]] == [(True, None)] * 2
    new = live_files(events)
    replaced = {row["file"] for row in document["files"]}
    assert (old - new, new - old) == (replaced, {row["output"] for row in document["files"]})
    assert len(replaced) == 2
    assert run("verify", "events", "--data").code == 0
    assert json.loads(run("show", "events", "--json").out)["totals"]["filters"] == 2
    assert json.loads(run("show", "events", "--version", "2", "--json").out)["totals"]["filters"] == 0
    rest = json.loads(run("embed", "events", "--commit", "--column", "id=0.001", "--max-files", "5", "--json").out)
    assert rest["totals"] == {
        "files": 1,
        "changed": 1,
        "filters": 1,
        "bytes_added": rest["totals"]["bytes_added"],
        "skipped": 0,
        "complete": 2,
        "left": 0,
    }
    again = run("embed", "events", "--commit", "--column", "id")
    assert (again.code, again.out) == (0, "")
    assert again.err.endswith("3 files had nothing to add; nothing committed, version 4\n")
    assert deltalake.DeltaTable("events").version() == 4
    ids = [row["id"] for row in rows_of(run("find", "events", "--where", "id IN (7, 150, 250, 300)", "--json"))]
    assert sorted(ids) == [7, 150, 250]


def test_the_advised_command_commits(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        ids = np.random.default_rng(seed).integers(0, 1 << 60, 5_000)
        rows = pa.table({"a key": ids, "text": [f"{id_:x}" * 10 for id_ in ids]})
        deltalake.write_deltalake("a table", rows, mode="append")
    first = json.loads(run("advise", "a table", "--column", "a key", "--fpp", "0.001", "--json").out)["sample_command"]
    assert shlex.split(first)[:5] == ["parquet-bloom", "advise", "a table", "--column", "a key"]
    command = json.loads(run(*shlex.split(first)[1:], "--json").out)["embed_command"]
    assert command == "parquet-bloom embed 'a table' --column 'a key' --fpp 0.001 --commit"
    done = run(*shlex.split(command)[1:])
    assert (done.code, "embedded 3 filters in 3 files" in done.err) == (0, True)


def test_files_left_for_another_run_are_counted(run, events):
    done = run("embed", "events", "--commit", "--column", "id", "--max-files", "1")
    assert (done.code, "; 2 files left for another run; version 2 -> 3" in done.err) == (0, True)


def test_the_formats_of_a_commit_say_the_same(run, events):
    arguments = ["embed", "events", "--commit", "--column", "id", "--dry-run", "--format"]
    rows = json.loads(run(*arguments, "json").out)["files"]
    assert [json.loads(line) for line in run(*arguments, "ndjson").out.splitlines()] == rows
    lines = list(csv.DictReader(io.StringIO(run(*arguments, "csv").out)))
    assert [line["file"] for line in lines] == [row["file"] for row in rows]
    assert [list(line) for line in lines] == [list(row) for row in rows]


REFUSED = [
    ("embed lake --column user --in-place", r"lake: belongs to the Delta table .*`parquet-bloom embed TABLE --commit`"),
    ("embed lake --column user -o out", r"`parquet-bloom embed TABLE --commit` embeds filters into a Delta or Iceberg"),
    ("embed lake/by=spark/part-0.parquet --column id --in-place", r"part-0.parquet: .*embed TABLE --commit"),
    ("drop lake --in-place", r"the filters of a table's files go only when its own engine writes the files anew"),
    ("embed lake --column user --commit --in-place", r"--commit and --in-place exclude each other"),
    ("embed lake --column user --commit --exact-size", r"--commit and --exact-size exclude each other"),
    ("embed lake --column user --where by=1 --in-place", r"--where is for a table: add --commit"),
    ("embed lake --column user --retries 0 -o out", r"--retries is for a table: add --commit"),
    ("embed --column user --commit", r"--commit is for one table"),
    ("embed --column user --in-place", r"missing argument 'PATH...'"),
    ("embed lake lake --column user --commit", r"--commit is for one table"),
    ("embed broken.parquet --column user --commit", r"broken.parquet: --commit is for a Delta or Iceberg table"),
    ("embed lake --column nothing --commit", r"lake: column 'nothing': the table has no such column"),
    ("embed lake --column by --commit", r"column 'by': "),
    ("embed lake --column user --commit --set-property", r"--set-property is for Iceberg"),
    ("embed lake --column user --commit --where 'user = 1'", r"'user' is not one"),
    ("embed lake --column user --commit --where 'by =='", r"by ==: a column or literal is missing at the end"),
    ("find lake --where user=1 --snapshot 3", r"--snapshot is for Iceberg tables.* chosen by --version"),
    ("find lake --where user=1 --ref main", r"--ref is for Iceberg tables"),
    ("find lake --where user=1 --version 1 --as-of 2026-01-01", r"--version and --as-of exclude each other"),
    ("find lake --where user=1 --version -1", r"'--version': -1 is not in the range"),
    ("find lake --where user=1 --version 9", r"lake: it has no version 9: its log has the versions 0 to 2$"),
    ("zones build lake --column id -o z.parquet", r"lake: belongs to .*; zones build takes only that list"),
    ("find lake --where user=1 --as-of yesterday", r"'yesterday' is not a time such as 2026-01-31"),
    ("prune lake --where user=1 --as-of 2020-01-01", r"before the first"),
    ("show orc --version 1", r"--version is for a Delta or Iceberg table, and orc is none"),
    (
        "verify broken.parquet --as-of 2026-01-01",
        r"--as-of is for a Delta or Iceberg table, and broken.parquet is none",
    ),
    ("verify nowhere --version 1", r"--version is for a Delta or Iceberg table, and nowhere is none"),
    ("show lake orc --version 1", r"--version is for one table, whose folder is the only PATH"),
    ("show - --outside", r"--outside is for one table"),
    ("advise lake orc", r"lake: belongs to the Delta table .*is read when its folder is the only PATH"),
    ("find lake --where user=1 --table db.events", r"--iceberg-catalog and --table go together"),
    ("find --where user=1 --iceberg-catalog prod", r"--iceberg-catalog and --table go together"),
    ("find lake --where user=1 --iceberg-catalog prod --table t", r"--table names the table: leave out PATH"),
    ("find --where user=1 --iceberg-catalog prod --table t --version 1", r"--version is for Delta tables"),
    ("find --where user=1 --iceberg-catalog nowhere --table a.b", r"a.b: cannot read the Iceberg table"),
    ("find --where user=1", r"missing argument 'PATH...'"),
    ("find lake --where id=1", r"column 'id': the table has no such column"),
    ("find lake --where user=1 --columns tag", r"column 'tag': the table has no such column"),
    ("find lake --keys broken.parquet --key-column id", r"."),
    ("prune --index nothing.index --where user=1 --version 3", r"--version is for .* table, and no PATH names one"),
    ("show lake --column id", r"column 'id': no such column in any of 4 files"),
    ("advise lake --column id", r"column 'id': no such column"),
]


@pytest.mark.parametrize(("command", "expected"), REFUSED)
def test_bad_input_is_one_line(command, expected, run, delta):
    done = run(*shlex.split(command), stdin="")
    assert done.code == 2
    assert len(done.errors) == 1, done.err
    assert re.search(expected, done.errors[0]), done.err
    assert {path.name for path in (delta / "_delta_log").iterdir()} == {f"{v:020}.json" for v in range(3)}


def test_damaged_metadata_is_one_line(run, delta):
    (delta / "_delta_log" / f"{1:020}.json").write_text('{"add": {"path": "../../secret.parquet", "size": 1}}\n{"add')
    for command in ("show", "verify", "advise", "embed --column user --commit", "find --where user=1"):
        name, *arguments = command.split()
        done = run(name, "lake", *arguments)
        assert (done.code, len(done.errors)) == (2, 1), (command, done.err)
    shutil.rmtree(delta / "_delta_log")
    (delta / "_delta_log").mkdir()
    done = run("show", "lake")
    assert (done.code, len(done.errors)) == (2, 1)


def test_files_outside_are_taken_only_if_asked(run, delta, tmp_path):
    moved, name = tmp_path / "elsewhere.parquet", "by=datafusion/part-0.parquet"
    shutil.move(delta / name, moved)
    action = {"path": f"file://{moved}", "partitionValues": {"by": "datafusion"}, "dataChange": True}
    action |= {"size": moved.stat().st_size, "modificationTime": 0}
    commit(delta / "_delta_log", 3, remove(name), {"add": action})
    done = run("find", "lake", "--where", "user = 100 AND by = 'datafusion'")
    assert (done.code, len(done.errors)) == (2, 1)
    assert "outside of the table's folder" in done.err
    assert "--outside" in done.err
    done = run("find", "lake", "--where", "user = 100 AND by = 'datafusion'", "--outside", "--json")
    assert len(rows_of(done)) == 1


# ---------------------------------------------------------------------------------------------------- Iceberg


@pytest.fixture
def iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An Iceberg table `db.events` of a catalog `prod`: two snapshots, a branch, a column that was renamed."""
    pyiceberg = pytest.importorskip("pyiceberg.catalog")
    config = pytest.importorskip("pyiceberg.utils.config")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr(pyiceberg, "_ENV_CONFIG", config.Config())
    catalog = pyiceberg.load_catalog("prod")
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", pa.schema([("id", pa.int64()), ("text", pa.string())]))
    table.append(pa.table({"id": range(100), "text": ["a"] * 100}))
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "first").commit()
    with table.update_schema() as update:
        update.rename_column("id", "user")
    table.append(pa.table({"user": range(100, 200), "text": ["b"] * 100}))
    return catalog.load_table("db.events")


def test_a_table_of_a_catalog_by_its_name(run, iceberg):
    first, second = (snapshot.snapshot_id for snapshot in iceberg.snapshots())
    named = ["--iceberg-catalog", "prod", "--table", "db.events"]
    done = run("find", *named, "--where", "user IN (7, 107)", "--json")
    assert [row["user"] for row in rows_of(done)] in ([7, 107], [107, 7])
    table = json.loads(done.out)["table"]
    assert (table["kind"], table["name"], table["version"]) == ("iceberg", "db.events", second)
    for at in (["--snapshot", first], ["--ref", "first"]):
        assert [row["id"] for row in rows_of(run("find", *named, "--where", "id < 3", "--json", *at))] == [0, 1, 2]
        assert run("prune", *named, "--where", "id = 107", *at).code == 1
    moment = dt.datetime.fromtimestamp(iceberg.snapshots()[0].timestamp_ms / 1000, dt.UTC)
    done = run("advise", *named, "--as-of", moment.isoformat(), "--json")
    assert json.loads(done.out)["totals"]["rows"] == 100
    pruned = rows_of(run("prune", *named, "--where", "user = 107", "--json"))
    assert sorted((row["read"], row["by"]) for row in pruned) == [(False, ["table"]), (True, [])]
    done = run("show", *named)
    assert done.err.startswith(f"Iceberg table db.events at snapshot {second}\n")


def test_a_table_by_its_folder_or_its_metadata(run, iceberg):
    metadata = iceberg.metadata_location.removeprefix("file://")
    folder = str(Path(metadata).parents[1])
    for path in (metadata, f"file://{metadata}", folder):
        assert len(rows_of(run("find", path, "--where", "user IN (7, 107)", "--json"))) == 2
    for name, arguments in (("find", ["--where", "user=1"]), ("show", []), ("verify", []), ("advise", [])):
        done = run(name, folder, *arguments, "--version", "1")
        assert (done.code, done.errors) == (
            2,
            [
                "error: --version is for Delta tables; the versions of this Iceberg table are chosen by --snapshot "
                f"(see parquet-bloom {name} --help)"
            ],
        )
    for at in (["--snapshot", "5"], ["--ref", "nothing"], ["--as-of", "2000-01-01"]):
        done = run("show", folder, *at)
        assert (done.code, len(done.errors)) == (2, 1), done.err


def test_embed_commits_to_a_table_of_a_catalog(run, iceberg):
    named = ["--iceberg-catalog", "prod", "--table", "db.events"]
    document = json.loads(run("advise", *named, "--sample", "2", "--json").out)
    for command in filter(None, (document["embed_command"], document["sample_command"])):
        assert shlex.split(command)[2:6] == named
    done = run("embed", *named, "--commit", "--column", "user", "--set-property", "--json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert document["totals"]["filters"] == 2
    assert document["properties"] == ["write.parquet.bloom-filter-enabled.column.user"]
    before, after = iceberg.current_snapshot().snapshot_id, iceberg.refresh().current_snapshot()
    assert (document["table"]["old_version"], document["table"]["new_version"]) == (before, after.snapshot_id)
    assert after.summary.operation.value == "replace"
    rows = json.loads(run("show", *named, "--json").out)["filters"]
    assert [row["column"] for row in rows] == ["user", "user"]
    assert run("embed", *named, "--commit", "--column", "text").code == 0
    done = run("embed", *named, "--commit", "--column", "text", "--set-property")
    snapshot = iceberg.refresh().current_snapshot().snapshot_id
    assert done.err.endswith(f"2 files had nothing to add; 1 property of the table set; snapshot {snapshot} stays\n")
    assert run("verify", *named, "--data").code == 0
    folder = str(Path(iceberg.metadata_location.removeprefix("file://")).parents[1])
    done = run("embed", folder, "--commit", "--column", "user")
    assert (done.code, len(done.errors)) == (2, 1)
    assert "catalog" in done.err


def test_the_catalog_is_found_in_pyiceberg_s_own_file(spawn, iceberg, tmp_path, monkeypatch):
    for name in ("URI", "WAREHOUSE"):
        monkeypatch.delenv(f"PYICEBERG_CATALOG__PROD__{name}")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".pyiceberg.yaml").write_text(
        f"catalog:\n  other:\n    uri: sqlite:///{tmp_path}/catalog.db\n"
    )
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path / "home"))
    named = ["--iceberg-catalog", "other", "--table", "db.events"]
    done = spawn("find", *named, "--where", "user = 107", "--format", "csv")
    # A catalog's name is a part of its tables' in the database.
    assert done.code == 2
    assert "Traceback" not in done.err
    (tmp_path / "home" / ".pyiceberg.yaml").write_text(f"catalog:\n  prod:\n    uri: sqlite:///{tmp_path}/catalog.db\n")
    done = spawn("find", "--iceberg-catalog", "prod", *named[2:], "--where", "user = 107", "--format", "csv")
    assert (done.code, done.out) == (0, "user,text\n107,b\n"), done.err


# ---------------------------------------------------------------------------------------------------- completion


def complete(words: list[str], begun: str) -> list[str]:
    completer = ShellComplete(cli.tool, {}, "parquet-bloom", "_PARQUET_BLOOM_COMPLETE")
    return [item.value for item in completer.get_completions(words, begun)]


def test_columns_of_a_table_are_completed_by_its_names(delta):
    assert complete(["show", "lake", "--column"], "") == ["by", "user", "label"]
    assert complete(["embed", "lake", "--commit", "--column"], "la") == ["label"]
    assert complete(["find", "lake", "--key-column"], "u") == ["user"]
    (delta / "_delta_log" / f"{0:020}.json").write_text("{")
    assert complete(["show", "lake", "--column"], "") == []


def test_catalogs_are_completed_by_the_configuration(iceberg):
    assert complete(["find", "--iceberg-catalog"], "p") == ["prod"]
    assert complete(["find", "--iceberg-cat"], "--iceberg-cat") == ["--iceberg-catalog"]
    assert complete(["embed", "--com"], "--com") == ["--commit"]


# ---------------------------------------------------------------------------------------------------- S3


def test_a_table_in_s3(run, s3, events):
    for path in sorted(events.rglob("*")):
        if path.is_file():
            s3.put(f"lake/events/{path.relative_to(events)}", path.read_bytes())
    options = [text for pair in s3.storage_options.items() for text in ("--storage-option", "=".join(pair))]
    url = s3.url("lake/events")
    for path in (url, f"{url}/", url.replace("s3://", "s3a://")):
        done = run("find", path, "--where", "id IN (7, 150) AND day = 'mon'", "--json", *options)
        assert [row["id"] for row in rows_of(done)] == [150]
    done = run("find", url, "--where", "id IN (7, 150)", "--version", "0", "--json", *options)
    assert [row["id"] for row in rows_of(done)] == [7]
    assert len(rows_of(run("prune", url, "--where", "id = 150", "--json", *options))) == 3
    assert json.loads(run("show", url, "--json", *options).out)["table"]["version"] == 2
    for path in (s3.url("lake"), f"{url}/day=mon"):
        done = run("show", path, *options)
        assert (done.code, len(done.errors)) == (2, 1)
        assert "a Delta or Iceberg table is read when its folder is the only PATH" in done.err
        done = run("show", path, "--version", "1", *options)
        assert (done.code, len(done.errors)) == (2, 1)
        assert "is none" in done.err


# ---------------------------------------------------------------------------------------------------- Interrupts


INTERRUPT = """
import os, signal, sys
imported, sys.argv = sys.argv[1], ["parquet-bloom", *sys.argv[2:]]
class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == imported and self in sys.meta_path:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from parquet_bloom.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["click", "parquet_bloom.cli.commands.find_command", "deltalake", "pyiceberg.table"])
def test_an_interrupt_while_modules_are_imported(module, delta, tmp_path):
    path = tmp_path / "v1.metadata.json" if module.startswith("pyiceberg") else delta
    command = [sys.executable, "-c", INTERRUPT, module, "find", path, "--where", "user = 7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_get_leaves_deleted_rows_out_by_an_index_too(delta, run):
    arguments = ["--key", "user=100", "--columns", "by,user,label", "--format", "csv"]
    rows = run("find", delta, "--where", "user = 100", "--columns", "by,user,label", "--format", "csv").out
    assert "spark" not in rows
    assert "pyarrow" in rows
    assert run("get", delta, *arguments).out == rows
    assert run("index", "create", "users.index", "user", "--delta", delta).code == 0
    assert run("index", "append", "users.index").code == 0
    assert run("get", "--index", "users.index", *arguments).out == rows
    assert run("get", delta, "--index", "users.index", *arguments).out == rows
