"""Delta and Iceberg tables on the command line: at a version, live files only, without deleted rows."""

from __future__ import annotations

import csv
import datetime as dt
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.shell_completion import ShellComplete

import parquet_bloom
from parquet_bloom import cli

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyroaring")

from support.writers import delta_log  # noqa: E402

FORMATS = ("table", "json", "ndjson", "csv")
SPARK = "by=spark/part-0.parquet"
NAMED = ["--iceberg-catalog", "prod", "--table", "db.events"]


@pytest.fixture
def delta(lake: Path) -> Path:
    """A Delta table over the files of `lake/`, whose log is written by hand; its columns have other names in the files.

    Version 0 has `plain.parquet`, version 1 `part-0.parquet` instead, and version 2 has deleted the first three rows of
    a file, by a deletion vector. Two of the files have statistics.
    """
    names = [("by", "by", "string"), ("user", "id", "long"), ("label", "tag", "string")]
    fields = [
        delta_log.column(name, kind, **{"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical})
        for number, (name, physical, kind) in enumerate(names, 1)
    ]
    settings = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
    settings["delta.enableDeletionVectors"] = "true"
    first = ["by=datafusion/part-0.parquet", "by=duckdb/part-0.parquet", "by=pyarrow/plain.parquet", SPARK]
    begin = delta_log.beginning(fields, ["by"], settings, ["columnMapping", "deletionVectors"])
    commit(lake, 0, *begin, *(add(name, name in (first[0], SPARK)) for name in first))
    commit(lake, 1, remove(first[2]), add("by=pyarrow/part-0.parquet", False))
    commit(lake, 2, remove(SPARK), add(SPARK, True, deletionVector=delta_log.inline_vector(range(3))))
    return lake / "lake"


def commit(here: Path, version: int, *actions: dict) -> None:
    """Write a commit, of noon on the day of its version."""
    at = dt.datetime(2026, 1, 1 + version, 12, tzinfo=dt.UTC).timestamp()
    about = {"commitInfo": {"timestamp": int(at * 1000), "operation": "WRITE"}}
    os.utime(delta_log.commit(here / "lake", version, [about, *actions]), (at, at))


def partition(name: str) -> dict:
    return {"partitionValues": {"by": name.split("/")[0].removeprefix("by=")}}


def add(name: str, has_statistics: bool, **more: object) -> dict:
    numbers = {"numRecords": 100, "nullCount": {"id": 0, "tag": 0}, "tightBounds": "deletionVector" not in more}
    numbers |= {"minValues": {"id": 0, "tag": "tag 0"}, "maxValues": {"id": 4950, "tag": "tag 6"}}
    size = os.path.getsize(f"lake/{name}")
    return delta_log.add(name, size, numbers if has_statistics else None, **partition(name), **more)


def remove(name: str) -> dict:
    return delta_log.remove(name, extendedFileMetadata=True, size=1, **partition(name))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("table-find", "find lake --where \"user IN (100, 50) AND by <> 'duckdb'\" --columns label,user,by"),
        ("table-find-version", "find lake --version 1 --where \"user = 100 AND by = 'spark'\""),
        ("table-prune", "prune lake --where \"user = 7000 AND by <> 'duckdb'\""),
        ("table-show", "show lake --column user --row-group 0"),
        ("table-verify", "verify lake --data"),
        ("table-advise", "advise lake --sample 4"),
        ("table-embed-dry-run", "embed lake --commit --column label --max-files 2 --dry-run"),
        ("table-embed", "embed lake --commit --column label --column user=0.001"),
    ],
)
def test_printed(name, command, format, run, delta, golden):
    command += f" --format {format}"
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
    lists = {key: value for key, value in result.document.items() if isinstance(value, list)}
    (name,) = lists.keys() - {"errors", "properties"}
    return lists[name]


def test_each_command_reads_the_files_of_a_version(run, delta):
    for arguments, version, name, has_first_rows in (
        ([], 2, "part-0", False),
        (["--version", 2], 2, "part-0", False),
        (["--version", 1], 1, "part-0", True),
        (["--version", 0], 0, "plain", True),
        (["--as-of", "2026-01-01T12:00:00Z"], 0, "plain", True),
        (["--as-of", "2026-01-02T20:00:00+08:00"], 1, "part-0", True),
        (["--as-of", "2026-01-03"], 1, "part-0", True),
    ):
        live = {f"by={by}/part-0.parquet" for by in ("datafusion", "duckdb", "spark")} | {f"by=pyarrow/{name}.parquet"}
        found = rows_of(run("find", "lake", "--where", "user = 100 AND by <> 'duckdb'", "--json", *arguments))
        assert [row["by"] for row in found] == ["datafusion", "pyarrow", *["spark"] * has_first_rows]
        assert list(found[0]) == ["by", "user", "label"]
        pruned = rows_of(run("prune", "lake", "--where", "user = 100", "--json", *arguments))
        assert {row["file"] for row in pruned} == {str(delta / one) for one in live}
        for command in ("show", "verify", "advise"):
            document = run(command, "lake", "--json", *arguments).document
            rows = document["columns" if command == "advise" else "filters"]
            assert {row["column"] for row in rows} == {"user", "label"}  # of duckdb's both columns
            assert (document["table"]["version"], document["totals"]["files"]) == (version, 4)
            if command != "advise":
                assert {row["file"] for row in rows} == {str(delta / one) for one in live if "plain" not in one}


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
    arguments = ["--columns", "by,user,label", "--format", "csv"]
    rows = run("find", delta, "--where", "user = 100", *arguments).out
    assert ("spark" in rows, "pyarrow" in rows) == (False, True)
    with parquet_bloom.LakeIndex.create("users.index", "user", lake=parquet_bloom.delta(delta)) as index:
        index.append()
    for source in ([delta], ["--index", "users.index"], [delta, "--index", "users.index"]):
        assert run("get", *source, "--key", "user=100", *arguments).out == rows


def test_what_the_metadata_rules_out_is_called_table(run, delta):
    done = run("prune", "lake", "--where", "user = 7000 AND by <> 'duckdb'", "--json", "--html", "page.html", "--check")
    document = done.document
    by = {Path(row["file"]).parent.name: row["by"] for row in document["row_groups"] if row["row_group"] is None}
    assert by == {"by=datafusion": ["table"], "by=duckdb": ["partition"], "by=spark": ["table"]}
    assert document["totals"]["unopened_by"] == {"table": 2, "partition": 1}
    assert done.code == 1
    assert "ruled out by the table" in Path("page.html").read_text()
    lines = run("prune", "lake", "--where", "user = 7000", "--format", "csv").out.splitlines()
    assert sum(",table," in line for line in lines) == 2
    # The page has the table's names.
    done = run("prune", "lake", "--where", "user = 300", "--html", "page.html", "--check", "--json")
    assert done.code == 0
    assert [row["row_group"] for row in done.document["row_groups"] if row["read"]] == [0] * 4
    assert "cannot be read" not in Path("page.html").read_text()


def test_a_table_is_named_once_and_only_for_people(run, delta):
    named = {"kind": "delta", "name": "lake", "version": 2, "id": delta_log.TABLE_ID}
    where = ["--where", "user = 1"]
    for command, *more in (["show"], ["verify"], ["advise"], ["prune", *where], ["find", *where]):
        assert run(command, "lake", *more).err.count("Delta table lake at version 2\n") == 1
        for format in ("json", "ndjson", "csv"):
            done = run(command, "lake", *more, "--format", format)
            assert "Delta table" not in done.err
            if format == "json":
                assert done.document["table"] == named


def test_paths_of_a_table(run, delta, tmp_path):
    for path in ("lake/", f"{tmp_path}/lake", f"file://{tmp_path}/lake", f"file:{tmp_path}/lake", "./lake/../lake"):
        # The file of duckdb repeats values.
        assert len(rows_of(run("find", path, "--where", "user = 4200", "--json"))) == 3 + 41


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
    command = ["embed", "events", "--commit", "--column"]
    planned = run(*command, "id", "--dry-run", "--json").document
    assert planned["dry_run"]
    assert (planned["totals"]["filters"], planned["totals"]["changed"]) == (3, 0)
    assert [row["output"] for row in planned["files"]] == [None] * 3
    assert run(*command, "id", "--dry-run", "--format", "ndjson").rows == planned["files"]
    lines = list(csv.DictReader(io.StringIO(run(*command, "id", "--dry-run", "--format", "csv").out)))
    assert [list(line) for line in lines] == [list(row) for row in planned["files"]]
    assert live_files(events) == old
    done = run(*command, "id=0.001", "--where", "day = 'mon'", "--json", "--jobs", "1")
    assert (done.code, done.err) == (0, "")
    document = done.document
    assert document["table"] == {"kind": "delta", "name": "events", "old_version": 2, "new_version": 3}
    assert [(row["changed"], row["reason"]) for row in document["files"]] == [(True, None)] * 2
    new = live_files(events)
    replaced = {row["file"] for row in document["files"]}
    assert (old - new, new - old) == (replaced, {row["output"] for row in document["files"]})
    assert len(replaced) == 2
    assert run("verify", "events", "--data").code == 0
    assert run("show", "events", "--json").document["totals"]["filters"] == 2
    assert run("show", "events", "--version", "2", "--json").document["totals"]["filters"] == 0
    rest = run(*command, "id=0.001", "--max-files", "5", "--json").document["totals"]
    assert rest | {"bytes_added": 0} == {
        "files": 1, "changed": 1, "filters": 1, "bytes_added": 0, "skipped": 0, "complete": 2, "left": 0,
    }  # fmt: skip
    again = run(*command, "id")
    assert (again.code, again.out) == (0, "")
    assert again.err.endswith("3 files had nothing to add; nothing committed, version 4\n")
    assert deltalake.DeltaTable("events").version() == 4
    ids = [row["id"] for row in rows_of(run("find", "events", "--where", "id IN (7, 150, 250, 300)", "--json"))]
    assert sorted(ids) == [7, 150, 250]


@pytest.fixture
def hiding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Delta table by deltalake, of three files, with deletion vectors."""
    monkeypatch.chdir(tmp_path)
    for start in (0, 100, 200):
        settings = None if start else {"delta.enableDeletionVectors": "true"}
        rows = pa.table({"id": range(start, start + 100), "name": [f"n{i}" for i in range(100)]})
        deltalake.write_deltalake("events", rows, mode="append", configuration=settings)
    return tmp_path / "events"


def test_delete_commits_to_a_table(run, hiding):
    Path("keys.csv").write_text("id,name\n5,n5\n150,n50\n7,\n151,n7\n")
    chosen = ["delete", "events", "--keys", "keys.csv", "--key-column", "id", "--key-column", "name"]
    planned = run(*chosen, "--dry-run", "--json").document
    assert planned["totals"] == {"files": 2, "rows": 2, "bytes_written": 0, "keys": 4, "null_keys": 1}
    assert [row["how"] for row in planned["files"]] == ["hidden"] * 2
    done = run(*chosen, "--commit", "--yes", "--json").document
    assert (done["files"], done["totals"]) == (planned["files"], planned["totals"])
    assert done["table"] == {"kind": "delta", "name": "events", "old_version": 2, "new_version": 3}
    again = run(*chosen, "--commit", "--yes")
    assert (again.code, again.out) == (0, "")
    said = "deleted 0 rows in 0 files, of 4 keys, 1 of them null, which no row equals; nothing committed, version 3\n"
    assert again.err == said
    ids = [row["id"] for row in rows_of(run("find", "events", "--where", "id IN (5, 7, 150, 151)", "--json"))]
    assert sorted(ids) == [7, 151]
    deleted = run("delete", "events", "--key", "id=7", "--where", "name = 'n7'", "--commit", "--yes")
    assert deleted.err == "deleted 1 row in 1 file, of 1 key; version 3 -> 4\n"
    assert run("delete", "events", "--where", "id < 100", "--commit", "--yes").err == (
        "deleted 98 rows in 1 file; version 4 -> 5\n"
    )
    Path("keys.txt").write_text("N60\n")
    deleted = run("delete", "events", "--keys", "keys.txt", "--key-column", "upper(name)", "--commit", "--yes")
    assert deleted.err == "deleted 2 rows in 2 files, of 1 key; version 5 -> 6\n"


def test_upsert_commits_to_a_table(run, hiding):
    pq.write_table(pa.table({"id": [7, 150, 1000], "name": ["new"] * 3}), "rows.parquet")
    command = ["upsert", "events", "--rows", "rows.parquet", "--key-column", "id"]
    planned = run(*command, "--dry-run", "--json").document
    expected = {"files": 2, "rows_added": 3, "rows_replaced": 2, "rows_kept": 0, "null_keys": 0}
    assert (planned["totals"], planned["added"]) == (expected, [])
    done = run(*command, "--commit", "--yes", "--json").document
    assert (done["totals"], len(done["added"])) == (expected, 1)
    names = {row["name"] for row in rows_of(run("find", "events", "--where", "id IN (7, 150, 1000)", "--json"))}
    assert names == {"new"}
    kept = run(*command, "--when-matched", "keep", "--commit", "--yes")
    assert kept.err == "0 rows added, 0 of the table replaced, 3 left out, as the table has their keys\n"
    Path("text.parquet").write_text("id,name")
    for arguments, said in (
        ("--rows rows.parquet --key-column id", "one of --commit and --dry-run is required"),
        ("--rows rows.parquet --key-column id --commit", "there is no terminal to ask on: add --yes"),
        ("--rows rows.parquet --commit --yes", "missing option '--key-column'"),
        ("--rows nowhere.parquet --key-column id --dry-run", "nowhere.parquet: "),
        (
            "--rows text.parquet --key-column id --dry-run",
            "text.parquet: its rows cannot be read: it is neither a Parquet",
        ),
        ("--rows rows.parquet --key-column nothing --dry-run", "column 'nothing': the table has no such column"),
    ):
        failed = run("upsert", "events", *shlex.split(arguments))
        assert (failed.code, failed.out, len(failed.err.splitlines())) == (2, "", 1), arguments
        assert said in failed.err, failed.err


def test_rewriting_leaves_nothing_to_hide(run, hiding):
    command = ["delete", "events", "--key", "id=7", "--mode", "rewrite"]
    planned = run(*command, "--dry-run").err
    done = run(*command, "--commit", "--yes", "--json").document
    size = Path(done["files"][0]["output"]).stat().st_size
    assert planned == f"would delete 1 row in 1 file, of 1 key; {size:,} bytes of new files\n"
    assert done["totals"]["bytes_written"] == size
    assert [row["how"] for row in done["files"]] == ["rewritten"]
    assert done["rows_after"] == 0
    assert {one["known"] for one in done["still_held"]} == {True, False}
    assert not list(hiding.glob("*.bin"))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("command", "question"),
    [
        (["delete", "--key", "id=7"], "delete 1 row in 1 file of "),
        (["upsert", "--rows", "rows.parquet", "--key-column", "id"], "put 1 row into "),
    ],
)
def test_a_change_of_a_table_is_confirmed(hiding, run_on_terminal, command, question):
    pq.write_table(pa.table({"id": [7], "name": ["new"]}), "rows.parquet")
    for answer, code, version in (("n", 1, 2), ("y", 0, 3)):
        done = run_on_terminal(answer, command[0], "events", *command[1:], "--commit")
        assert done.code == code
        assert question in done.err
        assert ("not confirmed: nothing was changed" in done.err) == (answer == "n")
        assert deltalake.DeltaTable(hiding).version() == version


def test_mistakes_of_delete_are_one_line(run, hiding):
    for arguments, said in (
        ("--key id=1", "one of --commit and --dry-run is required"),
        ("--key id=1 --commit --dry-run", "one of --commit and --dry-run is required, not both"),
        ("--commit", "no rows are chosen: give --key"),
        ("--key id=1 --commit", "there is no terminal to ask on: add --yes"),
        ("--key id=1 --key-column id --commit --yes", "--keys and --key-column go together"),
        ("--keys keys.txt --commit --yes", "--keys and --key-column go together"),
        ("--key id=x --dry-run", "column 'id': "),
        ("--key nothing=1 --dry-run", "column 'nothing': "),
        ("--where id== --dry-run", "a column or literal is missing"),
        ("more --key id=1 --dry-run", "--commit is for one table"),
    ):
        done = run("delete", "events", *shlex.split(arguments))
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1), arguments
        assert said in done.err, done.err
    assert run("delete", "nowhere", "--key", "id=1", "--dry-run").code == 2
    assert deltalake.DeltaTable("events").version() == 2


def test_files_left_for_another_run_are_counted(run, events):
    done = run("embed", "events", "--commit", "--column", "id", "--max-files", "1")
    assert (done.code, "; 2 files left for another run; version 2 -> 3" in done.err) == (0, True)


def test_the_advised_command_commits(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        ids = np.random.default_rng(seed).integers(0, 1 << 60, 5_000)
        rows = pa.table({"a key": ids, "text": [f"{id_:x}" * 10 for id_ in ids]})
        deltalake.write_deltalake("a table", rows, mode="append")
    options = ("--column", "a key", "--fpp", "0.001", "--json")
    first = run("advise", "a table", *options, "--sample", "0").document["sample_command"]
    assert shlex.split(first)[:5] == ["parquet-bloom", "advise", "a table", "--column", "a key"]
    command = run(*shlex.split(first)[1:], "--json").document["embed_command"]
    assert command == "parquet-bloom embed 'a table' --column 'a key' --fpp 0.001 --commit"
    assert run("advise", "a table", *options).document["embed_command"] == command
    done = run(*shlex.split(command)[1:])
    assert (done.code, "embedded 3 filters in 3 files" in done.err) == (0, True)


def test_bad_input_is_one_line(run, delta):
    twice, none = r"whose readers would find rows twice|is also an input", "is for a Delta or Iceberg table, and"
    for command, said in (
        ("embed lake --column user --in-place", r"lake: belongs to the Delta table .*`parquet-bloom embed TABLE --com"),
        ("embed lake --column user -o out", r"`parquet-bloom embed TABLE --commit` embeds filters into a Delta or Ice"),
        ("embed lake/by=spark/part-0.parquet --column id --in-place", r"part-0.parquet: .*embed TABLE --commit"),
        ("drop lake --in-place", r"the filters of a table's files go only when its own engine writes the files anew"),
        ("embed lake --column user --commit --in-place", r"--commit and --in-place exclude each other"),
        ("embed lake --column user --commit --exact-size", r"--commit and --exact-size exclude each other"),
        ("embed lake --column user --where by=1 --in-place", r"--where is for a table: add --commit"),
        ("embed lake --column user --retries 0 -o out", r"--retries is for a table: add --commit"),
        ("embed --column user --commit", r"--commit is for one table"),
        ("embed --column user --in-place", r"missing argument 'PATH...'"),
        ("embed lake lake --column user --commit", r"--commit is for one table"),
        (
            "embed broken.parquet --column user --commit",
            r"broken.parquet: this is no Delta or .*; plain files take erase",
        ),
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
        ("show orc --version 1", rf"--version {none} orc is none"),
        ("verify broken.parquet --as-of 2026-01-01", rf"--as-of {none} broken.parquet is none"),
        ("verify nowhere --version 1", rf"--version {none} nowhere is none"),
        ("get orc --key id=1 --version 3", rf"--version {none} orc is none"),
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
        ("find lake --where 'user = 100' -o lake/found.csv", twice),
        ("find lake --where 'user = 100' -o lake/by=spark/found.csv", twice),
        ("find lake --where 'user = 100' -o lake/_delta_log/found.csv", twice),
        ("prune --index nothing.index --where user=1 --version 3", r"--version is for .* table, and no PATH names one"),
        ("show lake --column id", r"column 'id': no such column in any of 4 files"),
        ("advise lake --column id", r"column 'id': no such column"),
    ):
        before = {path for path in Path().rglob("*") if path.is_file()}
        done = run(*shlex.split(command), stdin="")
        assert (done.code, len(done.errors)) == (2, 1), (command, done.err)
        assert re.search(said, done.errors[0]), (command, done.err)
        assert {path for path in Path().rglob("*") if path.is_file()} == before, command


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
    commit(tmp_path, 3, remove(name), delta_log.add(f"file://{moved}", moved.stat().st_size, **partition(name)))
    done = run("find", "lake", "--where", "user = 100 AND by = 'datafusion'")
    assert (done.code, len(done.errors)) == (2, 1)
    assert "outside of the table's folder" in done.err
    assert "--outside" in done.err
    done = run("find", "lake", "--where", "user = 100 AND by = 'datafusion'", "--outside", "--json")
    assert len(rows_of(done)) == 1


# ---------------------------------------------------------------------------------------------------- Iceberg


def test_a_table_of_a_catalog_by_its_name(run, iceberg):
    first, second = (snapshot.snapshot_id for snapshot in iceberg.snapshots())
    done = run("find", *NAMED, "--where", "user IN (7, 107)", "--json")
    assert [row["user"] for row in rows_of(done)] in ([7, 107], [107, 7])
    table = done.document["table"]
    assert (table["kind"], table["name"], table["version"]) == ("iceberg", "db.events", second)
    for at in (["--snapshot", first], ["--ref", "first"]):
        assert [row["id"] for row in rows_of(run("find", *NAMED, "--where", "id < 3", "--json", *at))] == [0, 1, 2]
        assert run("prune", *NAMED, "--where", "id = 107", *at).code == 1
    moment = dt.datetime.fromtimestamp(iceberg.snapshots()[0].timestamp_ms / 1000, dt.UTC)
    assert run("advise", *NAMED, "--as-of", moment.isoformat(), "--json").document["totals"]["rows"] == 100
    pruned = rows_of(run("prune", *NAMED, "--where", "user = 107", "--json"))
    assert sorted((row["read"], row["by"]) for row in pruned) == [(False, ["table"]), (True, [])]
    assert run("show", *NAMED).err.startswith(f"Iceberg table db.events at snapshot {second}\n")
    # By its folder or its metadata.
    metadata = iceberg.metadata_location.removeprefix("file://")
    folder = str(Path(metadata).parents[1])
    for path in (metadata, f"file://{metadata}", folder):
        assert len(rows_of(run("find", path, "--where", "user IN (7, 107)", "--json"))) == 2
    problem = "error: --version is for Delta tables; the versions of this Iceberg table are chosen by --snapshot "
    for name, arguments in (("find", ["--where", "user=1"]), ("show", []), ("verify", []), ("advise", [])):
        done = run(name, folder, *arguments, "--version", "1")
        assert (done.code, done.errors) == (2, [f"{problem}(see parquet-bloom {name} --help)"])
    for at in (["--snapshot", "5"], ["--ref", "nothing"], ["--as-of", "2000-01-01"]):
        done = run("show", folder, *at)
        assert (done.code, len(done.errors)) == (2, 1), done.err


def test_embed_commits_to_a_table_of_a_catalog(run, iceberg):
    document = run("advise", *NAMED, "--sample", "2", "--json").document
    for command in filter(None, (document["embed_command"], document["sample_command"])):
        assert shlex.split(command)[2:6] == NAMED
    done = run("embed", *NAMED, "--commit", "--column", "user", "--set-property", "--json")
    assert (done.code, done.err) == (0, "")
    document = done.document
    assert document["totals"]["filters"] == 2
    assert document["properties"] == ["write.parquet.bloom-filter-enabled.column.user"]
    before, after = iceberg.current_snapshot().snapshot_id, iceberg.refresh().current_snapshot()
    assert (document["table"]["old_version"], document["table"]["new_version"]) == (before, after.snapshot_id)
    assert after.summary.operation.value == "replace"
    rows = run("show", *NAMED, "--json").document["filters"]
    assert [row["column"] for row in rows] == ["user", "user"]
    assert run("embed", *NAMED, "--commit", "--column", "text").code == 0
    done = run("embed", *NAMED, "--commit", "--column", "text", "--set-property")
    snapshot = iceberg.refresh().current_snapshot().snapshot_id
    assert done.err.endswith(f"2 files had nothing to add; 1 property of the table set; snapshot {snapshot} stays\n")
    assert run("verify", *NAMED, "--data").code == 0
    folder = str(Path(iceberg.metadata_location.removeprefix("file://")).parents[1])
    done = run("embed", folder, "--commit", "--column", "user")
    assert (done.code, len(done.errors)) == (2, 1)
    assert "no catalog to commit to; name the catalog as well, by catalog= (--iceberg-catalog)" in done.err
    for place in (folder, os.path.relpath(folder), iceberg.metadata_location):
        assert run("embed", place, "--iceberg-catalog", "prod", "--commit", "--column", "user").code == 0


@pytest.mark.ci
def test_the_catalog_is_found_in_pyiceberg_s_own_file(spawn, iceberg, tmp_path, monkeypatch):
    for name in ("URI", "WAREHOUSE"):
        monkeypatch.delenv(f"PYICEBERG_CATALOG__PROD__{name}")
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  prod:\n    uri: sqlite:///{tmp_path}/catalog.db\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    done = spawn("find", *NAMED, "--where", "user = 107", "--format", "csv")
    assert (done.code, done.out) == (0, "user,text\n107,b\n"), done.err


def test_columns_and_catalogs_are_completed_by_their_names(delta, iceberg):
    def complete(words: list[str], begun: str) -> list[str]:
        completer = ShellComplete(cli.tool, {}, "parquet-bloom", "_PARQUET_BLOOM_COMPLETE")
        return [item.value for item in completer.get_completions(words, begun)]

    assert complete(["show", "lake", "--column"], "") == ["by", "user", "label"]
    assert complete(["embed", "lake", "--commit", "--column"], "la") == ["label"]
    assert complete(["find", "lake", "--key-column"], "u") == ["user"]
    (delta / "_delta_log" / f"{0:020}.json").write_text("{")
    assert complete(["show", "lake", "--column"], "") == []
    assert complete(["find", "--iceberg-catalog"], "p") == ["prod"]
    assert complete(["find", "--iceberg-cat"], "--iceberg-cat") == ["--iceberg-catalog"]
    assert complete(["embed", "--com"], "--com") == ["--commit", "--commit-bytes"]


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


@pytest.mark.ci
@pytest.mark.parametrize("module", ["click", "parquet_bloom.cli.commands.find_command", "deltalake", "pyiceberg.table"])
def test_an_interrupt_while_modules_are_imported(module, delta, tmp_path):
    path = tmp_path / "v1.metadata.json" if module.startswith("pyiceberg") else delta
    command = [sys.executable, "-c", INTERRUPT, module, "find", path, "--where", "user = 7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


# ---------------------------------------------------------------------------------------------------- index


def lookup(run, *arguments) -> list[int]:
    """How many files may hold each of the values that any may."""
    done = run("index", "lookup", "ids.index", *arguments, "--json")  # its only column
    values = [row["value"] for row in done.document["candidates"]]
    return [values.count(value) for value in dict.fromkeys(values)]


@pytest.mark.ci
def test_an_index_over_a_table_of_a_catalog(run, iceberg):
    created = run("index", "create", "ids.index", "--column", "user", *NAMED)
    assert created.code == 0, created.err
    assert "iceberg db.events in catalog prod" in created.out
    assert "added" in run("index", "append", "ids.index").out
    assert lookup(run, 4) == [1]
    for more in ([], NAMED):
        done = run("find", *more, "--index", "ids.index", "--where", "user IN (4, 105)", "--format", "ndjson")
        assert done.code == 0, done.err
        assert sorted(done.out.split("\n"))[1:] == ['{"user": 105, "text": "b"}', '{"user": 4, "text": "a"}']
        done = run("prune", *more, "--index", "ids.index", "--where", "user = 4")
        assert re.search("[12] files? ruled out by", done.err), done.err
    iceberg.append(pa.table({"user": [4], "text": ["c"]}))
    assert min(lookup(run, 4, 107)) >= 2  # one file is new
    assert run("index", "append", "ids.index", *NAMED).out.split()[-6:][0] == "1"
    assert len(lookup(run, 4, 107, 777)) >= 2
    assert run("find", "--index", "ids.index", "--where", "user = 4", "--format", "ndjson").out.count("\n") == 2
    assert "iceberg version" in run("index", "stats", "ids.index").err
    folder = Path(iceberg.metadata_location.removeprefix("file://")).parents[1]
    assert run("index", "create", "other.index", "--column", "user", "--iceberg", f"file://{folder}").code == 0
    for more in ([], ["--iceberg", folder]):
        assert run("index", "append", "other.index", *more).code == 0
    done = run("find", "--index", "other.index", "--where", "user IN (4, 105)", "--format", "ndjson")
    assert sorted(row["text"] for row in done.rows) == ["a", "b", "c"]


def test_an_index_over_a_delta_table(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for first in (0, 1000):
        ids = pa.table({"id": pa.array(range(first, first + 10), pa.int64())})
        deltalake.write_deltalake("a table", ids, mode="append")
    assert run("index", "create", "ids.index", "--column", "id", "--delta", "a table").code == 0
    for create, append in ((["--lake", "a table"], []), ([], ["a table"])):  # a folder that holds a table is one
        assert run("index", "create", "other.index", "--column", "id", *create).code == 0
        assert run("index", "append", "other.index", *append).code == 0
        with parquet_bloom.LakeIndex.open("other.index") as index:
            assert index.state.manifest.lake == {"delta": str(tmp_path / "a table")}
            assert index.snapshot().table["version"] == 1
            assert index.unindexed == []
        shutil.rmtree("other.index")
    assert run("index", "append", "ids.index").code == 0
    assert lookup(run, 5, 1005, 2005) == [1, 1]
    deltalake.write_deltalake("a table", pa.table({"id": pa.array([2005], pa.int64())}), mode="overwrite")
    assert lookup(run, 5, 2005) == [1, 1]  # the file that is new
    assert run("index", "append", "ids.index", "--delta", "a table").code == 0
    assert lookup(run, 5, 2005) == [1]
    assert "delta version 2" in run("index", "stats", "ids.index").err
    done = run("index", "append", "ids.index", "ids.index")
    assert (done.code, len(done.errors)) == (2, 1)
    assert run("index", "append", "ids.index", "--delta", "ids.index").code == 2
