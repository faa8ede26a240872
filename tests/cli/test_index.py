"""`parquet-bloom index`: indexes of real files, from creation to damage."""

from __future__ import annotations

import csv
import io
import json
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
from support.processes.on_a_terminal import ESCAPE, on_terminal

import parquet_bloom
from parquet_bloom.storage.index_folder import Folder

NAMES = [
    "with spaces and 'quotes' \"both\"",
    "[red]markup :smile: [bold]",
    "ümläut 数据 🎉 e\u0301",
    "esc\x1b[31mred\x1b]0;title\x07",
    "line\nbreak\r\ttab",
    "comma,semicolon;",
    "not utf-8 \udcff\udc80",
    "-dash",
]


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
    assert run("index", "create", "ids.index", "id", "name", "--lake", "lake").code == 0
    assert run("index", "append", "ids.index").code == 0
    return here


def named(run: Callable[..., Any], *arguments: Any, stdin: str | None = None) -> dict[str, list[str]]:
    """Return the result of a lookup: {value: names of files}."""
    done = run("index", "lookup", *arguments, "--json", stdin=stdin)
    document = json.loads(done.out)
    assert (done.code, done.err) == (0 if document["candidates"] else 1, "")
    results: dict[str, list[str]] = {}
    for row in document["candidates"]:
        results.setdefault(row["value"], []).append(os.path.basename(row["file"]))
    return {value: sorted(files) for value, files in results.items()}


# --------------------------------------------------------------------------------------------------- its whole life


def test_from_its_making_to_its_mending(here, run):
    done = run("index", "create", "ids.index", "id", "name", "--lake", "lake")
    assert done.code == 0
    assert (
        " ".join(done.out.splitlines()[-1].split()) == f"ids.index postings file prefix_bits: 35 id; name {here}/lake"
    )
    assert named(run, "ids.index", "id", 5) == {"5": ["0.parquet", "1.parquet", "2.parquet"]}  # nothing is indexed yet
    done = run("index", "append", "ids.index", "--jobs", "1", "--memory-limit", "1MB")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].split() == ["3", "0", "0", "0", "600", "0"]
    assert named(run, "ids.index", "id", 5, 1099, 7) == {"5": ["0.parquet"], "1099": ["1.parquet"], "7": ["0.parquet"]}
    assert named(run, "ids.index", "name", "'n2050'") == {"'n2050'": ["2.parquet"]}
    assert named(run, "ids.index", "id", 500) == {}

    write("lake/3.parquet", [5])  # came since
    write("lake/1.parquet", range(4000, 4010))  # was written anew
    os.remove("lake/2.parquet")
    assert named(run, "ids.index", "id", 5, 2050) == {
        "5": ["0.parquet", "1.parquet", "3.parquet"],
        "2050": ["1.parquet", "3.parquet"],
    }
    assert named(run, "ids.index", "id", 5, 2050, "--no-live") == {"5": ["0.parquet"], "2050": ["2.parquet"]}
    done = run("index", "stats", "ids.index")
    assert done.err == "postings: 3 files, in 1 segment; 2 not indexed, 1 changed since, 1 gone\n"
    assert run("index", "stats", "ids.index", "--no-live").err == "postings: 3 files, in 1 segment\n"

    done = run("index", "append", "ids.index", "--json")
    (row,) = json.loads(done.out)["appends"]
    assert row == {"added": 1, "replaced": 1, "unchanged": 1, "failed": 0, "values": 22, "merged": 0}
    assert named(run, "ids.index", "id", 5, 4001, 1050) == {"5": ["0.parquet", "3.parquet"], "4001": ["1.parquet"]}

    (row,) = json.loads(run("index", "compact", "ids.index", "--keep-seconds", "0", "--json").out)["compactions"]
    assert (row["segments_before"], row["segments_after"], row["dropped"]) == (2, 1, 2)
    assert row["deleted"] > 3
    assert named(run, "ids.index", "id", 5, 4001) == {"5": ["0.parquet", "3.parquet"], "4001": ["1.parquet"]}

    (row,) = json.loads(run("index", "remove", "ids.index", "lake/0.parquet", "--json").out)["removals"]
    assert row == {"removed": 1, "files": 2}
    assert named(run, "ids.index", "id", 4001) == {"4001": ["0.parquet", "1.parquet"]}  # known no longer
    done = run("index", "check", "ids.index", "--sample", "5")
    assert (done.code, done.out) == (0, "")
    assert done.err == "nothing is wrong; 2 files read again, 22 values looked up\n"


def test_row_groups_are_named(here, run):
    write("lake/many.parquet", range(5000, 5100), row_group_size=10)
    assert run("index", "create", "ids.index", "id", "--granularity", "row_group").code == 0
    assert run("index", "append", "ids.index", "lake/many.parquet").code == 0
    for value in range(5000, 5100, 7):
        done = run("index", "lookup", "ids.index", "id", value, "--format", "ndjson")
        assert json.loads(done.out) == {
            "value": str(value),
            "row_groups": [(value - 5000) // 10],
            "rows": None,
            "file": f"{here}/lake/many.parquet",
        }
    assert run("index", "stats", "ids.index").err == "postings: 1 file, 10 row groups, in 1 segment\n"
    (row,) = csv.DictReader(io.StringIO(run("index", "lookup", "ids.index", "id", 5099, "--format", "csv").out))
    assert row == {"value": "5099", "row_groups": "9", "rows": "", "file": f"{here}/lake/many.parquet"}


def test_settings_of_the_layouts(here, run):
    def settings(*options: str) -> Any:
        shutil.rmtree("ids.index", ignore_errors=True)
        done = run("index", "create", "ids.index", "id", *options, "--json")
        return json.loads(done.out)["indexes"][0]["settings"] if done.code == 0 else done.err

    assert settings() == {"prefix_bits": 35}
    assert settings("--expected-values", "12_000", "--remainder-bits", "10") == {"prefix_bits": 20}
    assert settings("--layout", "cuckoo", "--num-buckets", "1e3", "--fingerprint-bits", "12") == {
        "num_buckets": 1000,
        "fingerprint_bits": 12,
    }
    for options in (
        ["--fingerprint-bits", "12"],
        ["--remainder-bits", "99"],
        ["--layout", "cuckoo", "--remainder-bits", "8"],
        ["--layout", "cuckoo", "--fingerprint-bits", "13"],
        ["--expected-values", "0"],
        ["id"],
        ["--lake", "nowhere"],
    ):
        assert settings(*options).startswith("error: ")
        assert not os.path.exists("ids.index")


def test_a_second_one_is_not_made_in_its_place(indexed, run):
    done = run("index", "create", "ids.index", "id")
    assert (done.code, done.out, done.err) == (2, "", "error: ids.index: there is an index already\n")
    assert named(run, "ids.index", "id", 5) == {"5": ["0.parquet"]}


# ------------------------------------------------------------------------------------------------------------ values


def test_values_are_literals_as_find_takes_them(indexed, run):
    queried = ["5", "-5", "-1e3", "5.0", "1e3", "(5)"]
    done = run("index", "lookup", "ids.index", "id", *queried, "--json")
    document = json.loads(done.out)
    results = {row["value"] for row in document["candidates"]}
    assert results == {"5", "5.0", "1e3", "(5)"}
    assert document["doubts"] == []
    assert document["totals"]["values"] == len(queried)


@pytest.mark.parametrize("column", ["id", "name"])
def test_a_value_of_another_kind_is_refused(indexed, run, column):
    wrong = {"id": ["'5'", "DATE '2026-01-30'", "true"], "name": ["5", "DATE '2026-01-30'"]}[column]
    for text in wrong:
        done = run("index", "lookup", "ids.index", "--column", column, text)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: column '{column}': ")
        assert ("INT64; give an integer" if column == "id" else "STRING; give a string") in done.err


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
        done = run("index", "lookup", "ids.index", "name", "--text", "--format", "ndjson", "--", text)
        assert json.loads(done.out)["file"].endswith("odd.parquet")
    assert named(run, "ids.index", "name", "'it''s'") == {"'it''s'": ["odd.parquet"]}


def test_many_values_come_from_standard_input(indexed, run):
    results = named(run, "ids.index", "id", "-", stdin="".join(f"{value}\n" for value in range(-500, 3000)))
    assert results == {str(value): [f"{value // 1000}.parquet"] for value in range(3000) if value % 1000 < 100}
    done = run("index", "lookup", "ids.index", "id", "-", stdin="")
    assert (done.code, done.out) == (1, "")
    assert done.err == "0 files for 0 values; 0 requests, 0 bytes\n"


@pytest.mark.parametrize(
    "value", ["n5", "NULL", "id", "5 OR 1 = 1", "1, 2", "'open", "", "5) OR (x = 6", "upper('a')", "IN (5)", "\x1b[2J"]
)
def test_invalid_literals_are_refused(value, indexed, run):
    done = run("index", "lookup", "ids.index", "id", value)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert "is not a literal such as 42, 'text' or DATE '2026-01-30'; use --text for strings without quotes" in line
    assert "\x1b" not in line


def test_timestamps_have_the_zone_that_is_said(here, run):
    noon = pa.array([1_767_268_800_000_000], pa.timestamp("us", "UTC"))  # 2026-01-01 12:00
    pq.write_table(pa.table({"at": noon}), "times.parquet")
    assert run("index", "create", "at.index", "at").code == 0
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
    assert run("index", "create", "ids.index", "id", "--lake", "lake").code == 0
    done = run("index", "append", "ids.index", "--json")
    assert done.code == 2
    assert len(done.errors) == 2 == len(done.err.splitlines())
    document = json.loads(done.out)
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


ERRORS = {
    "no folder": (["stats", "nowhere"], "nowhere: there is no index"),
    "no index": (["append", "lake", "lake"], "lake: there is no index"),
    "not indexed": (["lookup", "ids.index", "nope", "5"], "column 'nope': the index has no such column; it has: id,"),
    "no path": (["append", "ids.index", "lake", "no\nwhere"], "no\\nwhere: there is no such file or folder"),
    "no column": (["append", "new.index", "other.parquet"], "other.parquet: column 'id': no such column"),
    "not in it": (["remove", "ids.index", "lake/0.parquet", "lake/9.parquet"], "9.parquet: the index has no such file"),
    "a file": (["create", "lake/0.parquet", "id"], "lake/0.parquet: "),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("format", ["table", "json"])
def test_errors_are_one_line_and_change_nothing(name, format, indexed, run):
    pq.write_table(pa.table({"x": [1]}), "other.parquet")
    parquet_bloom.LakeIndex.create("new.index", "id").close()
    before = {path.name: path.read_bytes() for path in Path("ids.index").iterdir() if path.suffix == ".json"}
    arguments, expected = ERRORS[name]
    done = run("index", *arguments, "--format", format)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert expected in line
    assert before == {path.name: path.read_bytes() for path in Path("ids.index").iterdir() if path.suffix == ".json"}


def test_an_index_without_a_lake_wants_paths(here, run):
    assert run("index", "create", "ids.index", "id").code == 0
    done = run("index", "append", "ids.index", "--json")
    assert (done.code, done.out) == (2, "")
    assert done.errors[0].startswith(
        "error: the index has no recorded lake: give the files to index by PATHs, --delta or"
    )
    done = run("index", "append", "ids.index", "-", stdin="")
    assert done.code == 0
    assert run("index", "append", "ids.index", "-", stdin="lake/0.parquet\nlake/2.parquet\n").code == 0
    assert named(run, "ids.index", "id", 5, 1005, 2005) == {"5": ["0.parquet"], "2005": ["2.parquet"]}


@pytest.mark.parametrize("arguments", [["append"], ["remove", "lake/"], ["compact"]], ids=str)
def test_a_second_writer_is_refused(arguments, indexed, run):
    arguments = [arguments[0], "ids.index", *arguments[1:]]
    with Folder("ids.index").lock():
        done = run("index", *arguments, "--json")
        assert (done.code, done.out) == (2, "")
        (line,) = done.err.splitlines()
        assert line.startswith("error: ids.index: another writer is at work: process ")
        assert named(run, "ids.index", "id", 5) == {"5": ["0.parquet"]}  # readers are in nobody's way
    assert run("index", *arguments).code == 0


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
    document = json.loads(run("index", "check", "ids.index", "--json").out)
    assert [row["problem"] for row in document["problems"]] == lines
    done = run("index", "lookup", "ids.index", "id", 5, "--format", "csv")
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
    done = run("index", "lookup", "ids.index", "id", 5)
    assert (done.code, done.out) == (2, "")
    assert "the manifest does not fit its checksum" in done.errors[0]


# --------------------------------------------------------------------------------------------- conventions of the house


@pytest.mark.parametrize(
    "arguments",
    [
        ["append", "ids.index", "lake"],
        ["lookup", "ids.index", "id", "5", "2005"],
        ["stats", "ids.index"],
        ["compact", "ids.index"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_formats_say_the_same(arguments, indexed, run):
    run("index", *arguments)  # what is to be done is done
    document = json.loads(run("index", *arguments, "--json").out)
    assert (document["command"], document["errors"]) == (f"index {arguments[0]}", [])
    rows = next(value for value in document.values() if isinstance(value, list))
    assert rows
    assert [json.loads(line) for line in run("index", *arguments, "--format", "ndjson").out.splitlines()] == rows
    lines = list(csv.DictReader(io.StringIO(run("index", *arguments, "--format", "csv").out)))
    assert [list(line) for line in lines] == [list(row) for row in rows]
    for format in ("json", "ndjson", "csv"):
        assert run("index", *arguments, "--format", format).err == ""
    assert "\x1b" not in run("index", *arguments).out
    assert "\x1b" in run("index", *arguments, "--color", "always").out
    assert re.match(r"time: .*open \d+\.\d+ s, ", run("index", *arguments, "-v").err.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_folders_and_files_are_neither_lost_nor_obeyed(name, here, run):
    folder = f"./{name}"
    path = write(f"{folder}/lake/{name}.parquet", [5, 6])
    assert run("index", "create", f"{folder}/index", "id", "--lake", f"{folder}/lake").code == 0
    done = run("index", "append", f"{folder}/index", "-v")
    assert done.code == 0
    done = run("index", "lookup", f"{folder}/index", "id", 5, "--json")
    assert json.loads(done.out)["candidates"][0]["file"] == os.path.abspath(path)
    for arguments in (["lookup", "index", "id", "5"], ["stats", "index"], ["stats", "no"]):
        done = run("index", arguments[0], f"{folder}/{arguments[1]}", *arguments[2:])
        assert all(c.isprintable() or c == "\n" for c in done.out + done.err)
    assert run("index", "check", f"{folder}/index", "--sample", "1").code == 0
    assert run("index", "remove", f"{folder}/index", path).code == 0


@pytest.mark.ci
def test_a_recording_of_the_bar(tmp_path):
    """Frame by frame, the bar appears, moves, and makes room for the result."""
    for letter in "abc":
        write(tmp_path / "lake" / f"{letter}.parquet", range(200_000), row_group_size=20_000, compression="none")
    (tmp_path / "lake" / "d.parquet").write_bytes(b"no Parquet file")
    index = str(tmp_path / "index")
    parquet_bloom.LakeIndex.create(index, ["id"], lake=tmp_path / "lake").close()
    text = on_terminal("index", "append", index, patience=0, columns=100, NO_COLOR="1")
    frames = re.findall(r"index append +[━╸╺ ]+ (\d)/4 files", text)
    assert frames
    assert frames == sorted(frames)
    shown = ESCAPE.sub("", text[text.rindex("━") :])
    titles = "added +indexed again +unchanged +failed +values +segments merged"
    assert re.search(rf"[\r\n]{titles}\n +3 +0 +0 +1 +600,000 ", shown)
    assert len(re.findall(r"error: \S+/d\.parquet: ", ESCAPE.sub("", text).replace("\n", ""))) == 1
    text = on_terminal("index", "check", index, "--sample", "3", patience=0, columns=100, NO_COLOR="1")
    assert re.search(r"index check +[━╸╺ ]+ \d/4 files", text)  # the part, and three files
    assert re.search(r"[\r\n]nothing is wrong; 3 files read again, 600,000 values looked up\n", ESCAPE.sub("", text))
    assert "━" not in on_terminal("index", "stats", index, patience=60, columns=100)


def test_narrow_terminals_lose_nothing(indexed):
    text = on_terminal("index", "lookup", str(indexed / "ids.index"), "id", "5", columns=40, patience=60, NO_COLOR="1")
    rows = text.partition("\n1 file for 1 value")[0]
    assert max(map(len, rows.splitlines())) <= 40
    assert str(indexed / "lake" / "0.parquet") in "".join(line.strip() for line in rows.splitlines())


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
    assert spawn("index", "lookup", "ids.index", "id", "9005").out.count("new.parquet") == 1


# ------------------------------------------------------------------------------------------------- where it is kept


def options(s3: Any) -> list[str]:
    return [text for pair in s3.storage_options.items() for text in ("--storage-option", "=".join(pair))]


def put(s3: Any, key: str, ids: Iterable[int]) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(list(ids), pa.int64())}), sink)
    s3.put(key, sink.getvalue())


def test_index_and_lake_in_an_object_store(run, s3):
    for number in range(3):
        put(s3, f"lake/day={number}/a b ü.parquet", range(1000 * number, 1000 * number + 100))
    index = s3.url("ids.index")
    assert run("index", "create", index, "id", "--lake", s3.url("lake/"), *options(s3)).code == 0
    assert run("index", "append", index, *options(s3)).code == 0
    done = run("index", "lookup", index, "id", 1005, "--format", "ndjson", *options(s3))
    file = s3.url("lake/day=1/a b ü.parquet")
    assert json.loads(done.out) == {"value": "1005", "row_groups": None, "rows": None, "file": file}
    put(s3, "lake/day=9/new.parquet", [5])
    put(s3, "lake/day=0/a b ü.parquet", range(7000, 7100))
    done = run("index", "lookup", index, "id", 2005, "--json", *options(s3))
    assert {row["file"].rpartition("day=")[2][0] for row in json.loads(done.out)["candidates"]} == {"0", "2", "9"}
    assert run("index", "append", index, *options(s3)).out.splitlines()[-1].split()[:3] == ["1", "1", "2"]
    assert run("index", "check", index, "--sample", 9, *options(s3)).code == 0
    assert run("index", "remove", index, s3.url("lake/day=2/"), *options(s3)).code == 0
    assert run("index", "compact", index, *options(s3)).code == 0
    done = run("index", "stats", index, "--json", *options(s3))
    assert json.loads(done.out)["totals"]["files"] == 3


def test_an_index_on_disk_of_a_lake_in_an_object_store(tmp_path, run, s3):
    for number in range(2):
        put(s3, f"lake/{number}.parquet", range(1000 * number, 1000 * number + 100))
    index = tmp_path / "ids.index"
    assert run("index", "create", index, "id", *options(s3)).code == 0
    assert run("index", "append", index, s3.url("lake/*.parquet"), *options(s3)).code == 0
    done = run("index", "lookup", index, "id", 1005, "--format", "csv", *options(s3))
    assert done.out.splitlines()[1:] == [f"1005,,,{s3.url('lake/1.parquet')}"]


def test_an_object_store_that_refuses_is_one_line(run, s3):
    put(s3, "lake/0.parquet", range(10))
    index = s3.url("ids.index")
    assert run("index", "create", index, "id", "--lake", s3.url("lake/"), *options(s3)).code == 0
    s3.fail("PutObject", status=403, code="AccessDenied")
    done = run("index", "append", index, "--json", *options(s3))
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "AccessDenied" in done.errors[0]


def test_a_delta_table(here, run):
    deltalake = pytest.importorskip("deltalake")
    for first in (0, 1000):
        ids = pa.table({"id": pa.array(range(first, first + 10), pa.int64())})
        deltalake.write_deltalake("table", ids, mode="append")
    assert run("index", "create", "ids.index", "id", "--delta", "table").code == 0
    assert run("index", "append", "ids.index").code == 0
    assert [len(files) for files in named(run, "ids.index", "id", 5, 1005, 2005).values()] == [1, 1]
    deltalake.write_deltalake("table", pa.table({"id": pa.array([2005], pa.int64())}), mode="overwrite")
    assert [len(files) for files in named(run, "ids.index", "id", 5, 2005).values()] == [1, 1]  # the file that is new
    assert run("index", "append", "ids.index", "--delta", "table").code == 0
    assert [*named(run, "ids.index", "id", 5, 2005)] == ["2005"]
    assert "delta version 2" in run("index", "stats", "ids.index").err
    done = run("index", "append", "ids.index", "lake")
    assert (done.code, len(done.errors)) == (2, 1)
    assert run("index", "append", "ids.index", "--delta", "lake").code == 2


def test_an_iceberg_table(here, run):
    catalogs = pytest.importorskip("pyiceberg.catalog.memory")
    catalog = catalogs.InMemoryCatalog("memory", warehouse=f"file://{here}/warehouse")
    catalog.create_namespace("db")
    ids = pa.table({"id": pa.array(range(10), pa.int64())})
    table = catalog.create_table("db.events", ids.schema)
    folder = f"{here}/warehouse/db/events"

    def append(ids: pa.Table) -> None:
        """Commit, and write the hint by which catalogs on a file system find the newest metadata."""
        table.append(ids)
        Path(f"{folder}/metadata/version-hint.text").write_text(os.path.basename(table.metadata_location))

    append(ids)
    assert run("index", "create", "ids.index", "id", "--iceberg", f"file://{folder}").code == 0
    assert run("index", "append", "ids.index").code == 0
    assert [len(files) for files in named(run, "ids.index", "id", 5, 77).values()] == [1]
    append(pa.table({"id": pa.array([77], pa.int64())}))
    assert [len(files) for files in named(run, "ids.index", "id", 5, 77).values()] == [2, 1]  # one file is new
    assert run("index", "append", "ids.index", "--iceberg", folder).code == 0
    assert [len(files) for files in named(run, "ids.index", "id", 5, 77).values()] == [1, 1]
    assert "iceberg version" in run("index", "stats", "ids.index").err


def test_expressions(indexed, run):
    Path("tenants").mkdir()
    pq.write_table(pa.table({"tenant": ["A", "b"], "n": [1, 2]}), "tenants/tenants.parquet")
    done = run("index", "create", "e.index", "lower(tenant)", "(tenant,n)", "--lake", "tenants", "--json")
    assert json.loads(done.out)["indexes"][0]["columns"] == ["lower(tenant)", "(tenant, n)"]
    assert run("index", "append", "e.index").code == 0
    files = {"tenants.parquet"}
    for column, value in (("lower(tenant)", "'a'"), ("( tenant, n )", "('A', 1)")):
        done = run("index", "lookup", "e.index", column, value, "--json")
        assert {Path(row["file"]).name for row in json.loads(done.out)["candidates"]} == files
    assert run("index", "lookup", "e.index", "lower(tenant)", "'A'").code == 1
    assert run("index", "lookup", "e.index", "(tenant, n)", "('A', 2)").code == 1
    done = run("index", "lookup", "e.index", "(tenant, n)", "5")
    assert done.code == 2
    assert "tuples of 2 values" in done.err
