"""`parquet-bloom locate`: positions of keys, printed and in files, and what is wrong with tables and outputs."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.processes.on_a_terminal import on_terminal
from support.writers.iceberg_tables import POSITIONS, Entry, HandTable

import parquet_bloom
from parquet_bloom.cli.options import key_options

ROWS = 3000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "name": [f"n{i // 2}" for i in range(ROWS)],
        "at": pa.array(range(ROWS), pa.timestamp("ns", "UTC")),
    }
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run) -> Path:
    """The working directory, with `lake/`: three files in partition folders, and an index of their ids."""
    monkeypatch.chdir(tmp_path)
    for day in range(3):
        path = tmp_path / "lake" / f"day={day}" / "a.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(TABLE.slice(day * 1000, 1000), path, row_group_size=250)
    assert run("index", "create", "ids.index", "id", "--lake", "lake").code == 0
    assert run("index", "append", "ids.index").code == 0
    return tmp_path


@pytest.fixture
def locate(run):
    """The ids of the rows that `locate` finds for some arguments, by their files and rows."""

    def call(*arguments: str, stdin: str | None = None) -> list[int]:
        result = run("locate", "lake", *arguments, "--format", "ndjson", stdin=stdin)
        found = [json.loads(line) for line in result.out.splitlines()]
        assert result.code == (0 if found else 1), result.err
        for row in found:
            assert row["row_group"] == row["row"] // 250
        return [int(row["path"].split("=")[1][0]) * 1000 + row["row"] for row in found]

    return call


@pytest.mark.default
def test_parquet_files_of_keys_are_read_in_batches(locate, lake, monkeypatch):
    monkeypatch.setattr(key_options, "_BATCH_ROWS", 7)
    wanted = [*range(0, 3000, 13)]
    pq.write_table(pa.table({"other": wanted[::-1], "id": wanted}), "keys.parquet", row_group_size=50)
    assert locate("--index", "ids.index", "--keys", "keys.parquet") == wanted
    table = pa.table({"id": wanted})
    with pa.OSFile("keys.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    assert locate("--keys", "keys.arrow", "--key-column", "id") == wanted
    assert locate("--key", "at=1970-01-01T00:00:00.000000012Z") == [12]


def test_files_of_positions(lake, run):
    arguments = ["locate", "lake", "--key", "id=2001", "--key", "id=7"]
    document = json.loads(run(*arguments, "--json").out)
    rows = [
        {"key": 7, "path": "lake/day=0/a.parquet", "row_group": 0, "row": 7},
        {"key": 2001, "path": "lake/day=2/a.parquet", "row_group": 0, "row": 1},
    ]
    assert document == {
        "schema_version": 1,
        "command": "locate",
        "rows": rows,
        "key": ["id"],
        "totals": {"keys": 2, "rows": 2},
        "errors": [],
    }
    for more in (["out.parquet"], ["out.parquet", "--as", "parquet"]):
        result = run(*arguments, "--output", *more)
        assert (result.code, result.out, result.err) == (0, "", "2 rows in out.parquet of 2 keys\n")
        assert pq.read_table("out.parquet").to_pylist() == rows
    assert run(*arguments, "-o", "out.csv").code == 0
    assert Path("out.csv").read_text() == run(*arguments, "--format", "csv").out
    assert run(*arguments, "-o", "out.parquet", "--as", "iceberg").code == 0
    assert pq.read_table("out.parquet").to_pylist() == [
        {"file_path": row["path"], "pos": row["row"]} for row in rows
    ]  # files of no table have the paths that they are listed by


def test_a_delta_table(lake, run):
    deltalake = pytest.importorskip("deltalake")
    for part in (TABLE.slice(0, 10), TABLE.slice(10, 10)):
        deltalake.write_deltalake("table", part.select(["id"]), mode="append")
    arguments = ["--key", "id=12", "--key", "id=3", "-o", "out.parquet", "--as", "delta"]
    assert run("locate", "table", *arguments).code == 0
    found = pq.read_table("out.parquet").to_pylist()
    assert sorted(row["row_index"] for row in found) == [2, 3]
    assert {row["path"] for row in found} == {path.name for path in Path("table").glob("*.parquet")}
    parquet_bloom.LakeIndex.create("table.index", ["id"], lake=parquet_bloom.delta("table")).append()
    assert run("locate", "--index", "table.index", *arguments).code == 0
    assert pq.read_table("out.parquet").to_pylist() == found
    deltalake.DeltaTable("table").delete("id = 12")
    assert run("locate", "table", "--key", "id=12").code == 1
    assert run("locate", "table", "--version", "1", "--key", "id=12").code == 0


def test_deletes_of_an_iceberg_table_are_applied_by_pyiceberg_and_duckdb(lake, run):
    pytest.importorskip("pyiceberg")
    fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    root = lake / "table"
    table = HandTable(root, [fields], version=2)
    parts = [TABLE.slice(start, 1000).select(["id"]) for start in (0, 1000)]
    entries = [table.write_file(part, {"id": 1}, group=300, sequence=1) for part in parts]
    table.add_snapshot(entries)
    metadata = str(table.write_metadata())
    removed = [*range(0, 2000, 7)]
    pq.write_table(pa.table({"id": removed}), "gone.parquet")
    target = root / "data/deletes.parquet"
    keys = ("--keys", "gone.parquet", "--key-column", "id")
    assert run("locate", "table", *keys, "-o", str(target)).code == 2  # which a reader of the folder takes for data
    assert run("locate", "table", *keys, "-o", str(target), "--as", "iceberg").code == 0
    name = entries[0].path.rpartition("/")[0] + "/deletes.parquet"
    table.add_snapshot([*entries, Entry(name, len(removed), target.stat().st_size, POSITIONS, sequence=2)])
    metadata = str(table.write_metadata())
    live = sorted({*range(2000)} - {*removed})
    from pyiceberg.table import StaticTable

    assert sorted(StaticTable.from_metadata(metadata).scan().to_arrow()["id"].to_pylist()) == live
    assert run("locate", metadata, "--key", "id=7").code == 1
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    try:
        connection.execute("LOAD iceberg")
    except duckdb.Error:
        return  # its extension is not installed, and is fetched from a server
    rows = connection.execute(f"SELECT id FROM iceberg_scan('{metadata}') ORDER BY id").fetchall()
    assert [id for (id,) in rows] == live


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lake", "--key", "id=1", "--as", "iceberg"], "--as is for --output FILE.parquet"),
        (["lake", "--key", "id=1", "--as", "delta", "-o", "a.csv"], "--as is for --output FILE.parquet"),
        (["lake", "--key", "id=1", "--as", "delta", "-o", "a.parquet"], "--as delta is for the files of a Delta table"),
    ],
)
def test_what_is_wrong_is_one_line(arguments, said, lake, run):
    result = run("locate", *arguments)
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert said in result.err


def test_a_file_is_the_old_one_or_the_new_one(lake, run):
    """Whatever fails: a file of the lake that cannot be read, a folder that cannot be written to."""
    Path("out").mkdir()
    arguments = ["locate", "lake", "--key", "name=n3", "--key", "name=n600"]
    forms = [["out/a.parquet"], ["out/a.parquet", "--as", "iceberg"]]
    broken = Path("lake/day=1/a.parquet").read_bytes()
    for more in forms:
        assert run(*arguments, "-o", *more).code == 0
        before = Path("out/a.parquet").read_bytes()
        Path("lake/day=1/a.parquet").write_bytes(broken[:4] + bytes(len(broken) // 2) + broken[len(broken) // 2 + 4 :])
        result = run(*arguments, "-o", *more)
        assert (result.code, len(result.errors)) == (2, 1), result.err
        Path("lake/day=1/a.parquet").write_bytes(broken)
        assert Path("out/a.parquet").read_bytes() == before
        assert os.listdir("out") == ["a.parquet"]
    if os.geteuid() == 0:
        return  # who may write everywhere
    Path("out").chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert run(*arguments, "-o", *forms[0]).code == 2
    assert Path("out/a.parquet").read_bytes() == before


INTERRUPTED = """
import os, resource, signal, sys
from parquet_bloom import cli
from parquet_bloom.scan.lookup.locate_keys import Locator
make = Locator._make_batch
def stop(*arguments):  # once the first rows are read
    os.kill(os.getpid(), signal.SIGINT)
    return make(*arguments)
if sys.argv[1] == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
else:
    Locator._make_batch = stop
sys.exit(cli.main(sys.argv[2:]))
"""


@pytest.mark.parametrize("how", ["interrupted", "full"])
def test_an_interrupt_and_a_full_disk_leave_the_old_file(how, lake):
    Path("keys.txt").write_text("".join(f"{number}\n" for number in range(3000)))
    for more in (["out.parquet"], ["out.parquet", "--as", "iceberg"], ["out.csv"]):
        Path(more[0]).write_text("what was there")
        command = [sys.executable, "-c", INTERRUPTED, how, "locate", "lake", "--keys", "keys.txt"]
        command += ["--key-column", "id", "-o", *more]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if how == "interrupted":
            assert (result.returncode, result.stdout, result.stderr) == (130, "", "interrupted\n")
        else:
            assert (result.returncode, result.stdout) == (2, "")
            assert re.fullmatch(r"error: .*: cannot write .*: File too large\n", result.stderr), result.stderr
        assert Path(more[0]).read_text() == "what was there"
        Path(more[0]).unlink()
        assert sorted(os.listdir()) == ["ids.index", "keys.txt", "lake"]


@pytest.mark.ci
def test_two_processes_that_write_one_file(lake):
    """It is that of one of them."""
    arguments = [sys.executable, "-m", "parquet_bloom", "locate", "lake", "-o", "out.parquet", "--as", "iceberg"]
    for _ in range(3):
        both = [subprocess.Popen([*arguments, "--key", f"name=n{number}"]) for number in (3, 900)]
        assert [process.wait(120) for process in both] == [0, 0]
        assert pq.read_table("out.parquet")["pos"].to_pylist() in ([6, 7], [800, 801])
        assert sorted(os.listdir()) == ["ids.index", "lake", "out.parquet"]


def test_a_terminal_gets_the_sum_as_well(lake):
    text = on_terminal("locate", "lake", "--key", "name=n3", "-o", "out.csv", patience=0, columns=100, NO_COLOR="1")
    assert "2 rows in out.csv of 1 key" in text
