"""`parquet-bloom index`: indexes of real files, from creation to damage."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers.shredded_variants import make_variants

import parquet_bloom
from parquet_bloom.storage.index_folder import Folder


def write(path: str | Path, ids: Iterable[int], **options: Any) -> str:
    values = list(ids)
    table = pa.table({"id": pa.array(values, pa.int64()), "name": [f"n{value}" for value in values]})
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:  # whose name may be no UTF-8
        pq.write_table(table, file, **options)
    return str(path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: `lake/` has three files of a hundred ids each, from 0, 1000 and 2000 on."""
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        write(f"lake/{number}.parquet", range(1000 * number, 1000 * number + 100))
    return tmp_path


@pytest.fixture
def indexed(here: Path, run: Callable[..., Any]) -> Path:
    """Make the lake, and an index of it, `ids.index`."""
    assert run("index", "create", "ids.index", "--column", "id", "--column", "name", "--lake", "lake").code == 0
    assert run("index", "append", "ids.index").code == 0
    return here


def named(
    run: Callable[..., Any], index: str, column: str, *arguments: Any, stdin: str | None = None
) -> dict[str, list[str]]:
    """Return the result of a lookup: {value: names of files}."""
    done = run("index", "lookup", index, "--column", column, *arguments, "--json", stdin=stdin)
    document = done.document
    assert (done.code, done.err) == (0 if document["candidates"] else 1, "")
    results: dict[str, list[str]] = {}
    for row in document["candidates"]:
        results.setdefault(row["value"], []).append(os.path.basename(row["file"]))
    return {value: sorted(files) for value, files in results.items()}


# --------------------------------------------------------------------------------------------------- its whole life


def test_from_its_making_to_its_mending(here, run):
    done = run("index", "create", "ids.index", "--column", "id", "--column", "name", "--lake", "lake")
    assert done.code == 0
    assert " ".join(done.out.split()).endswith(f"ids.index postings file prefix_bits: 35 id; name {here}/lake")
    assert named(run, "ids.index", "id", 5) == {"5": ["0.parquet", "1.parquet", "2.parquet"]}  # nothing is indexed yet
    done = run("index", "append", "ids.index", "--jobs", "1", "--memory-limit", "1MB")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].split() == ["3", "0", "0", "0", "600", "0"]
    assert named(run, "ids.index", "id", 5, 1099, 7) == {
        "5": ["0.parquet"],
        "1099": ["1.parquet"],
        "7": ["0.parquet"],
    }
    assert named(run, "ids.index", "name", "'n2050'") == {"'n2050'": ["2.parquet"]}
    assert named(run, "ids.index", "id", 500) == {}

    write("lake/3.parquet", [5])  # came since
    write("lake/1.parquet", range(4000, 4010))  # was written anew
    os.remove("lake/2.parquet")
    assert named(run, "ids.index", "id", 5, 2050) == {
        "5": ["0.parquet", "1.parquet", "3.parquet"],
        "2050": ["1.parquet", "3.parquet"],
    }
    assert named(run, "ids.index", "id", 5, 2050, "--no-live") == {
        "5": ["0.parquet"],
        "2050": ["2.parquet"],
    }
    done = run("index", "stats", "ids.index")
    assert done.err == "postings: 3 files, in 1 segment; 2 not indexed, 1 changed since, 1 gone\n"
    assert run("index", "stats", "ids.index", "--no-live").err == "postings: 3 files, in 1 segment\n"

    done = run("index", "append", "ids.index", "--json")
    (row,) = done.document["appends"]
    assert row == {"added": 1, "replaced": 1, "unchanged": 1, "failed": 0, "values": 22, "merged": 0}
    assert named(run, "ids.index", "id", 5, 4001, 1050) == {
        "5": ["0.parquet", "3.parquet"],
        "4001": ["1.parquet"],
    }

    (row,) = run("index", "compact", "ids.index", "--keep-seconds", "0", "--json").document["compactions"]
    assert (row["segments_before"], row["segments_after"], row["dropped"]) == (2, 1, 2)
    assert row["deleted"] > 3
    assert named(run, "ids.index", "id", 5, 4001) == {
        "5": ["0.parquet", "3.parquet"],
        "4001": ["1.parquet"],
    }

    (row,) = run("index", "remove", "ids.index", "lake/0.parquet", "--json").document["removals"]
    assert row == {"removed": 1, "files": 2}
    assert named(run, "ids.index", "id", 4001) == {"4001": ["0.parquet", "1.parquet"]}  # known no longer
    done = run("index", "check", "ids.index", "--sample", "5")
    assert (done.code, done.out) == (0, "")
    assert done.err == "nothing is wrong; 2 files read again, 22 values looked up\n"


def test_row_groups_are_named(here, run):
    write("lake/many.parquet", range(5000, 5100), row_group_size=10)
    assert run("index", "create", "ids.index", "--column", "id", "--granularity", "row_group").code == 0
    assert run("index", "append", "ids.index", "lake/many.parquet").code == 0
    for value in range(5000, 5100, 7):
        done = run("index", "lookup", "ids.index", "--column", "id", value, "--format", "ndjson")
        assert done.document == {
            "value": str(value),
            "row_groups": [(value - 5000) // 10],
            "rows": None,
            "file": f"{here}/lake/many.parquet",
        }
    assert run("index", "stats", "ids.index").err == "postings: 1 file, 10 row groups, in 1 segment\n"
    (row,) = csv.DictReader(
        io.StringIO(run("index", "lookup", "ids.index", "--column", "id", 5099, "--format", "csv").out)
    )
    assert row == {"value": "5099", "row_groups": "9", "rows": "", "file": f"{here}/lake/many.parquet"}


def test_settings_of_the_layouts(here, run):
    """Those that are refused are in `test_conventions.py`."""
    for options, settings in (
        ([], {"prefix_bits": 35}),
        (["--expected-values", "12_000", "--remainder-bits", "10"], {"prefix_bits": 20}),
        (
            ["--layout", "cuckoo", "--num-buckets", "1e3", "--fingerprint-bits", "12"],
            {"num_buckets": 1000, "fingerprint_bits": 12},
        ),
    ):
        shutil.rmtree("ids.index", ignore_errors=True)
        done = run("index", "create", "ids.index", "--column", "id", *options, "--json")
        assert done.document["indexes"][0]["settings"] == settings


# ------------------------------------------------------------------------------------------------------------ values


def test_values_are_literals_as_find_takes_them(indexed, run):
    queried = ["5", "-5", "-1e3", "5.0", "1e3", "(5)"]
    done = run("index", "lookup", "ids.index", "--column", "id", *queried, "--json")
    document = done.document
    results = {row["value"] for row in document["candidates"]}
    assert results == {"5", "5.0", "1e3", "(5)"}
    assert document["doubts"] == []
    assert document["totals"]["values"] == len(queried)


def test_a_value_of_another_kind_is_refused(indexed, refused):
    for column, wrong, wanted in (
        ("id", ["'5'", "DATE '2026-01-30'", "true"], "; give an integer"),
        ("name", ["5", "DATE '2026-01-30'"], "STRING; give a string"),
    ):
        for text in wrong:
            said = refused("index", "lookup", "ids.index", "--column", column, text)
            assert said.startswith(f"column '{column}': ")
            assert wanted in said
    literal = "is not a literal such as 42, 'text' or DATE '2026-01-30'; use --text for strings without quotes"
    for text in (
        "n5",
        "NULL",
        "id",
        "5 OR 1 = 1",
        "1, 2",
        "'open",
        "",
        "5) OR (x = 6",
        "upper('a')",
        "IN (5)",
        "\x1b[2J",
    ):
        assert literal in refused("index", "lookup", "ids.index", "--column", "id", text)


def test_texts_as_they_stand(indexed, run):
    assert named(run, "ids.index", "name", "--text", "n5", "-", stdin="n2005\n\nn1\n") == {
        "n5": ["0.parquet"],
        "n2005": ["2.parquet"],
        "n1": ["0.parquet"],
    }
    write("lake/odd.parquet", [0])
    texts = ["-5", "--json", "it's", "'quoted'", " blank ", "ümläut 🎉", ""]
    pq.write_table(pa.table({"id": [1] * len(texts), "name": texts}), "lake/odd.parquet")
    assert run("index", "append", "ids.index", "lake/odd.parquet").code == 0
    for text in texts:
        done = run("index", "lookup", "ids.index", "--column", "name", "--text", "--format", "ndjson", "--", text)
        assert done.document["file"].endswith("odd.parquet")
    assert named(run, "ids.index", "name", "'it''s'") == {"'it''s'": ["odd.parquet"]}


def test_many_values_come_from_standard_input(indexed, run):
    results = named(run, "ids.index", "id", "-", stdin="".join(f"{value}\n" for value in range(-500, 3000)))
    assert results == {str(value): [f"{value // 1000}.parquet"] for value in range(3000) if value % 1000 < 100}
    done = run("index", "lookup", "ids.index", "--column", "id", "-", stdin="")
    assert (done.code, done.out) == (1, "")
    assert done.err == "0 files for 0 values; 0 requests, 0 bytes\n"


def test_timestamps_have_the_zone_that_is_said(here, run):
    noon = pa.array([1_767_268_800_000_000], pa.timestamp("us", "UTC"))  # 2026-01-01 12:00
    pq.write_table(pa.table({"at": noon}), "times.parquet")
    assert run("index", "create", "at.index", "--column", "at").code == 0
    assert run("index", "append", "at.index", "times.parquet").code == 0
    for zone, value, hit in (
        ("UTC", "TIMESTAMP '2026-01-01 12:00:00'", True),
        ("+01:00", "TIMESTAMP '2026-01-01 13:00:00'", True),
        ("+01:00", "TIMESTAMP '2026-01-01 12:00:00'", False),
    ):
        assert bool(named(run, "at.index", "at", value, "--timezone", zone)) == hit


# --------------------------------------------------------------------------------------------------- what goes wrong


def test_a_file_that_cannot_be_read_is_reported_and_named_for_every_value(here, run):
    Path("lake/broken.parquet").write_bytes(b"PAR1 is not all PAR1")
    Path("lake/empty.parquet").write_bytes(b"")
    assert run("index", "create", "ids.index", "--column", "id", "--lake", "lake").code == 0
    done = run("index", "append", "ids.index", "--json")
    assert done.code == 2
    assert len(done.errors) == 2 == len(done.err.splitlines())
    document = done.document
    assert {os.path.basename(error["file"]) for error in document["errors"]} == {"broken.parquet", "empty.parquet"}
    assert (document["appends"][0]["added"], document["appends"][0]["failed"]) == (3, 2)
    assert named(run, "ids.index", "id", 1005) == {"1005": ["1.parquet", "broken.parquet", "empty.parquet"]}


def test_a_column_that_some_files_lack_is_reported(indexed, run):
    for number in (7, 8):
        pq.write_table(pa.table({"id": [number]}), f"lake/{number}.parquet")
    write("lake/9.parquet", [9])
    done = run("index", "append", "ids.index")
    assert done.code == 0
    assert re.fullmatch(r"\S+lake/7.parquet: column 'name' is not indexed: no such column, 2 files in all\n", done.err)
    assert named(run, "ids.index", "name", "'x'") == {"'x'": ["7.parquet", "8.parquet"]}


def test_errors_are_one_line_and_change_nothing(indexed, refused):
    pq.write_table(pa.table({"x": [1]}), "other.parquet")
    parquet_bloom.LakeIndex.create("new.index", "id").close()
    for arguments, said in (
        (["create", "ids.index", "--column", "id"], "ids.index: there is an index already"),
        (["lookup", "ids.index", "--column", "nope", "5"], "column 'nope': the index has no such column; it has: id,"),
        (["append", "ids.index", "lake", "no\nwhere"], "no\\nwhere: there is no such file or folder"),
        (["append", "new.index", "other.parquet"], "other.parquet: column 'id': no such column"),
        (["append", "new.index"], "the index has no recorded lake: give the files to index by PATHs, --delta or"),
        (["remove", "ids.index", "lake/0.parquet", "lake/9.parquet"], "9.parquet: the index has no such file"),
    ):
        for format in ("table", "json"):
            assert said in refused("index", *arguments, "--format", format)
    with Folder("ids.index").lock():
        for arguments in (["append", "ids.index"], ["remove", "ids.index", "lake/"], ["compact", "ids.index"]):
            said = refused("index", *arguments, "--json")
            assert said.startswith("ids.index: another writer is at work: process ")


def test_an_index_without_a_lake_wants_paths(here, run):
    assert run("index", "create", "ids.index", "--column", "id").code == 0
    assert run("index", "append", "ids.index", "-", stdin="").code == 0
    assert run("index", "append", "ids.index", "-", stdin="lake/0.parquet\nlake/2.parquet\n").code == 0
    assert named(run, "ids.index", "id", 5, 1005, 2005) == {"5": ["0.parquet"], "2005": ["2.parquet"]}


def test_a_writer_is_in_no_reader_s_way(indexed, run):
    with Folder("ids.index").lock():
        assert named(run, "ids.index", "id", 5) == {"5": ["0.parquet"]}
    for arguments in (["append"], ["remove", "lake/"], ["compact"]):
        assert run("index", arguments[0], "ids.index", *arguments[1:]).code == 0


def test_damage_is_found_and_loses_nothing(indexed, run):
    parts = sorted(Path("ids.index").glob("*.postings"))
    assert len(parts) == 2
    for part in parts:
        data = bytearray(part.read_bytes())
        for position in range(0, len(data) // 2, 3):
            data[position] ^= 255
        part.write_bytes(data)
    done = run("index", "check", "ids.index")
    assert done.code == 1
    lines = done.out.splitlines()[1:]
    assert len(lines) >= 2
    assert all(any(part.name in line for line in lines) for part in parts)
    assert done.err == f"{len(lines)} problems\n"
    document = run("index", "check", "ids.index", "--json").document
    assert [row["problem"] for row in document["problems"]] == lines
    done = run("index", "lookup", "ids.index", "--column", "id", 5, "--format", "csv")
    assert done.code == 0
    assert len(done.out.splitlines()) == 4  # all files
    assert done.err.startswith("in doubt, so more files may be listed than necessary: ")
    os.remove(parts[0])
    done = run("index", "check", "ids.index")
    assert (done.code, parts[0].name in done.out) == (1, True)
    assert run("index", "stats", "ids.index").errors


def test_an_index_that_cannot_be_opened_is_a_problem(indexed, run):
    manifest = max(Path("ids.index").glob("manifest-*"))
    manifest.write_bytes(manifest.read_bytes()[:-30])
    done = run("index", "check", "ids.index")
    assert (done.code, done.err) == (1, "1 problem\n")
    assert "the manifest does not fit its checksum" in done.out
    done = run("index", "lookup", "ids.index", "--column", "id", 5)
    assert (done.code, done.out) == (2, "")
    assert "the manifest does not fit its checksum" in done.errors[0]


@pytest.mark.ci
def test_ctrl_c_leaves_the_index_as_it_was(indexed, spawn):
    write("lake/new.parquet", range(9000, 9100))
    code = (
        "import os, signal, sys\n"
        "from parquet_bloom.lake import hash_files as hashed\n"
        "read = hashed._read\n"
        "def interrupted(*arguments):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return read(*arguments)\n"
        "hashed._read = interrupted\n"
        "from parquet_bloom.cli import main\n"
        "sys.exit(main(['index', 'append', 'ids.index']))\n"
    )
    before = set(os.listdir("ids.index"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert set(os.listdir("ids.index")) == before
    assert spawn("index", "lookup", "ids.index", "--column", "id", "9005").out.count("new.parquet") == 1


def test_expressions(indexed, run):
    Path("tenants").mkdir()
    pq.write_table(pa.table({"tenant": ["A", "b"], "n": [1, 2]}), "tenants/tenants.parquet")
    done = run(
        "index",
        "create",
        "e.index",
        "--column",
        "lower(tenant)",
        "--column",
        "(tenant,n)",
        "--lake",
        "tenants",
        "--json",
    )
    assert done.document["indexes"][0]["columns"] == ["lower(tenant)", "(tenant, n)"]
    assert run("index", "append", "e.index").code == 0
    files = {"tenants.parquet"}
    for column, value in (("lower(tenant)", "'a'"), ("( tenant, n )", "('A', 1)")):
        done = run("index", "lookup", "e.index", "--column", column, value, "--json")
        assert {Path(row["file"]).name for row in done.document["candidates"]} == files
    assert run("index", "lookup", "e.index", "--column", "lower(tenant)", "'A'").code == 1
    assert run("index", "lookup", "e.index", "--column", "(tenant, n)", "('A', 2)").code == 1
    done = run("index", "lookup", "e.index", "--column", "(tenant, n)", "5")
    assert done.code == 2
    assert "tuples of 2 values" in done.err


def test_paths_of_variants(indexed, run):
    Path("events").mkdir()
    pq.write_table(pa.table({"v": make_variants([{"user": {"id": "u7"}, "n": 7}])}), "events/a.parquet")
    done = run(
        "index",
        "create",
        "e.index",
        "--column",
        "v:user.id::STRING",
        "--column",
        "v:n::int",
        "--lake",
        "events",
        "--json",
    )
    assert done.document["indexes"][0]["columns"] == ["v:$.user.id::string", "v:$.n::int"]
    assert run("index", "append", "e.index").code == 0
    for column, value in (("v:user.id::string", "'u7'"), ("variant_get(v, '$.n', 'int')", "7")):
        done = run("index", "lookup", "e.index", "--column", column, value, "--json")
        assert [Path(row["file"]).name for row in done.document["candidates"]] == ["a.parquet"]
    assert run("index", "lookup", "e.index", "--column", "v:user.id::string", "'u8'").code == 1
    done = run("index", "create", "f.index", "--column", "v:user.id::strings", "--lake", "events")
    assert done.code == 2
    assert "strings is no type" in done.err
    Path("keys.txt").write_text("u7\nu9\n")
    done = run("erase", "events", "--key-column", "v:user.id::string", "--keys", "keys.txt", "--dry-run")
    assert done.code == 0


def test_grams(here, run):
    assert run("index", "create", "names.index", "--column", "grams(name)", "--lake", "lake").code == 0
    assert run("index", "append", "names.index").code == 0
    done = run("prune", "lake", "--index", "names.index", "--where", "name LIKE '%n2000%' OR name LIKE '%zz%'")
    assert "grams(name), of 3 files: 'n" in done.err
    assert "grams(name) cannot tell where name LIKE '%zz%': no text of 3 bytes" in done.err
    for command in ("prune", "find"):
        done = run(command, "lake", "--index", "names.index", "--where", "name LIKE '%n2000%'", "--json")
        (note,) = done.document["totals"]["index_notes"]
        assert note.startswith("grams(name), of 3 files: 'n")
    [advice, *_] = run("index", "advise", "lake", "--column", "grams(name)", "--format", "json").document[
        "granularities"
    ]
    assert advice["pieces"]["4"] < 1
    assert advice["piece_bytes"] == 4
