"""`get` and `locate`, and keys of options and of files, as these and `find` take them."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import random
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from support.processes.on_a_terminal import on_terminal
from support.writers.iceberg_tables import POSITIONS, Entry, HandTable

import parquet_bloom

ROWS = 3000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "tenant": [f"t, {i % 3}" for i in range(ROWS)],
        "name": [f"n={i // 2}" for i in range(ROWS)],
        "uid": pa.array([uuid.UUID(int=i).bytes for i in range(ROWS)], pa.uuid()),
        "at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=i) for i in range(ROWS)],
        "price": pa.array([decimal.Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(9, 2)),
        "user": [{"id": -i} for i in range(ROWS)],
        "raw": [i.to_bytes(2, "big") for i in range(ROWS)],
        "ns": pa.array(range(ROWS), pa.timestamp("ns", "UTC")),
    }
)
BY_INDEX = ("get", "locate")  # commands that take --key, and keys of several columns
all_commands = pytest.mark.parametrize("command", ["find", *BY_INDEX])
by_index = pytest.mark.parametrize("command", BY_INDEX)


def make_lake(path: Path) -> None:
    """Write three files in partition folders, with filters, and an index of their ids, and one of more."""
    for day in range(3):
        target = path / "lake" / f"day={day}" / "a.parquet"
        target.parent.mkdir(parents=True)
        columns, options = ["id", "name", "uid"], {"row_group_size": 250, "write_page_index": True}
        parquet_bloom.write_table(TABLE.slice(day * 1000, 1000), target, columns, **options)
    for name, columns in (("ids", ["id"]), ("more", ["id", "name", "uid", "user.id"])):
        with parquet_bloom.LakeIndex.create(path / f"{name}.index", columns, lake=path / "lake") as index:
            index.append()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("keys")
    make_lake(path)
    return path


@pytest.fixture
def lake(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of all tests that leave the files in `lake/` as they are."""
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def own_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with files to be changed."""
    make_lake(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def find(run) -> Callable[..., list[int]]:
    """The ids of the rows that a command finds in the lake, each once."""

    def call(command: str, *arguments: str, stdin: str | bytes | None = None) -> list[int]:
        columns = [] if command == "locate" else ["--columns", "id"]
        result = run(command, "lake", *arguments, *columns, "--format", "ndjson", stdin=stdin)
        rows = result.rows
        assert result.code == (0 if rows else 1), result.err
        if command == "locate":
            return sorted(int(row["path"].split("=")[1][0]) * 1000 + row["row"] for row in rows)
        return sorted({row["id"] for row in rows})

    return call


def list_keys(column: str, *options: str) -> list[str]:
    """Arguments for keys of one column on standard input."""
    return ["--keys", "-", "--key-column", column, *options]


@pytest.mark.ci
@all_commands
def test_keys_of_each_type(command, find, lake):
    for column, keys, expected in (
        ("id", "7\n\n2001\r\n 12\n99999\n-5\n7", [7, 12, 2001]),
        ("id", "\ufeff1\n2\n", [1, 2]),
        ("id", "99999\n", []),
        ("id", "\n\n", []),
        ("id", "", []),
        ("name", "n=3\n n=4\n3\n", [6, 7]),
        ("uid", f"{uuid.UUID(int=7)}\n{uuid.UUID(int=2001).hex}\n", [7, 2001]),
        ("at", "2026-01-01T07:00:00Z\n2026-01-01T09:00:00+01:00\n", [7, 8]),
        ("at", "2026-01-01 08:00\n", [8]),
        ("price", "3.25\n", [13]),
        ("raw", "X'0102'\n", [258]),
        ("ns", "1970-01-01T00:00:00.000000012Z\n", [12]),
        ("user.id", "-7\n-2001\n7\n", [7, 2001]),
        ("day", "1\n", [*range(1000, 2000)]),
    ):
        assert find(command, *list_keys(column), stdin=keys) == expected, column
    assert find(command, *list_keys("at", "--timezone", "+01:00"), stdin="2026-01-01 08:00\n") == [7]
    for index in ("ids.index", "more.index"):
        assert find(command, *list_keys("id", "--index", index), stdin="12\n2001\n99999\n") == [12, 2001]


@pytest.mark.ci
@all_commands
def test_keys_may_be_a_column_of_a_file(command, find, lake):
    for name, table in (
        ("keys.parquet", pa.table({"x": ["a", "b"], "id": [5, 1500]})),
        ("one.parquet", pa.table({"anything": pa.array([5, 1500, 5], pa.int32())})),
        ("text.parquet", pa.table({"id": ["5", "1500"]})),
    ):
        pq.write_table(table, name)
        with pa.OSFile(f"{name}.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1)
        for file in (name, f"{name}.arrow"):
            assert find(command, "--keys", file, "--key-column", "id") == [5, 1500]
            assert find(command, *list_keys("id"), stdin=Path(file).read_bytes()) == [5, 1500]
    Path("keys.csv").write_text('\ufeffx,id\r\n"a,b",5\r\n\r\n2,1500\r\n')
    Path("one.csv").write_text("ID\n5\n1500\n")
    for file in ("keys.csv", "one.csv"):
        assert find(command, "--keys", file, "--key-column", "id") == [5, 1500]
    pq.write_table(TABLE.slice(4, 2).select(["uid", "name"]), "more.parquet")
    assert find(command, "--keys", "more.parquet", "--key-column", "uid") == [4, 5]
    assert find(command, "--keys", "more.parquet", "--key-column", "name") == [4, 5]
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), "empty.parquet")
    assert find(command, "--keys", "empty.parquet", "--key-column", "id") == []


def test_floats_and_nulls_among_the_keys_of_find(find, lake):
    pq.write_table(pa.table({"id": [5.0, 1500.0, 0.5, None]}), "float.parquet")
    assert find("find", "--keys", "float.parquet", "--key-column", "id") == [5, 1500]
    Path("keys.csv").write_text("x,id\n1,\n2,1500\n")
    assert find("find", "--keys", "keys.csv", "--key-column", "id") == [1500]
    assert find("find", *list_keys("ID", "--case-insensitive"), stdin="3\n") == [3]


@by_index
def test_keys_of_options_and_of_several_columns(command, find, lake):
    assert find(command, "--index", "ids.index", "--key", "id=2001", "--key", "id=7", "--key", "id=-7") == [7, 2001]
    assert find(command, "--key", "name=n=4") == [8, 9]
    assert find(command, "--index", "ids.index", "--key", '"tenant=t, 1",id=4', "--key", 'id=2,"tenant=t, 2"') == [2, 4]
    assert find(command, "--index", "ids.index", "--key", '"tenant=t, 1",id=5') == []
    assert find(command, "--key", "day=2, id=2100", "--key", "day=1,id=2100") == [2100]
    assert find(command, "--index", "ids.index", "--keys", "-", stdin="12\n") == [12]  # whose column it is
    both = ("--key-column", "tenant", "--key-column", "id")
    pq.write_table(pa.table({"id": [5, 1500], "tenant": ["t, 2", "t, 1"]}), "keys.parquet")
    assert find(command, "--keys", "keys.parquet", *both) == [5]
    Path("keys.csv").write_text('id,tenant\n1,"t, 1"\n3,"t, 1"\n2,"t, 2"\n')
    assert find(command, "--keys", "keys.csv", *both) == [1, 2]


def test_where_holds_as_well(find, lake):
    keys = "".join(f"{i}\n" for i in range(0, ROWS, 100))
    where = ("--where", "id >= 500 AND name <> 'n=300' AND day = 0")
    assert find("find", *list_keys("id", *where), stdin=keys) == [500, 700, 800, 900]
    assert find("find", *list_keys("id", "--where", "id = 1 OR id = 100"), stdin=keys) == [100]


@all_commands
def test_thousands_of_keys_find_what_a_join_finds(command, find, lake):
    rng = random.Random(12)
    keys = [rng.randrange(-ROWS, 2 * ROWS) for _ in range(20_000)]
    expected = sorted({key for key in keys if 0 <= key < ROWS})
    assert find(command, *list_keys("id"), stdin="\n".join(map(str, keys))) == expected


def test_orc_files_and_indexes_are_asked_too(own_lake, run):
    pyarrow.orc.write_table(TABLE.select(["id", "name"]).slice(10, 5), "lake/day=0/o.orc")
    arguments = [*list_keys("id"), "--columns", "id", "--format", "csv"]
    for source in (["lake"], ["--index", "ids.index"]):  # the index has no ORC files, so they are read
        result = run("find", *source, *arguments, stdin="12\n2001\n")
        assert sorted(result.out.split()) == ["12", "12", "2001", "id"]


@all_commands
def test_what_is_wrong_with_keys_is_one_line(command, refused, lake):
    def given(data, column="id"):
        return refused(command, "lake", *list_keys(column), stdin=data)

    assert given("1\nx1\n") == "standard input: column 'id': line 2: 'x1' is not an integer"
    assert given("1\n" * 2000 + "y" * 9999, "uid").startswith("standard input: column 'uid': line 1: '1' is not a UUID")
    assert len(given("y" * 99_999, "uid")) < 200
    assert given(b"1\n\xff\n") == "standard input: line 2 is not valid UTF-8"
    assert given(b"1\0002\0").startswith("standard input: line 1 holds a null character")
    assert refused(command, "lake", "--keys", "none.txt", "--key-column", "id").startswith("none.txt: cannot open")
    assert "standard input holds either PATHs or keys, not both" in refused(command, "-", *list_keys("id"))
    file = ("lake", "--keys", "keys", "--key-column", "id")
    for broken in (b"PAR1 is not all", b"PAR1 is not all PAR1", b"ARROW1 is not all"):
        Path("keys").write_bytes(broken)
        assert refused(command, *file).startswith("keys: its keys cannot be read: ")
    pq.write_table(pa.table({"id": [5], "more": [1]}), "keys")
    assert refused(command, *file[:3], "--key-column", "name") == "keys: it has no column 'name', and not just one"
    pq.write_table(pa.table({"id": ["4", "x"]}), "keys")
    assert refused(command, *file) == "keys: column 'id': row 2: 'x' is not an integer"
    pq.write_table(pa.table({"id": [[5], [6]]}), "keys")
    assert "column 'id': " in refused(command, *file)
    for text, said in (
        ("x,y\n1,2\n", "keys.csv: it has no column 'id', and not just one"),
        ("id,id\n1,2\n", "keys.csv: several columns match"),
        (
            "1\n2\n",
            "keys.csv: the first line of a .csv file names its column, which is 'id'; keys alone, one a line, are in a "
            "file named .txt",
        ),
        ("id,y\n1,2\n3\n", "keys.csv: line 3 has 1 fields, the header 2"),
        ('id,y\n1,"2\n', "keys.csv: line 2 is not CSV: unexpected end of data"),
        ("id,y\n1,2\nz,3\n", "keys.csv: column 'id': line 3: 'z' is not an integer"),
    ):
        Path("keys.csv").write_text(text)
        assert refused(command, "lake", "--keys", "keys.csv", "--key-column", "id") == said


@by_index
def test_nulls_and_several_columns_of_files(command, refused, lake):
    keys = ("lake", "--keys", "keys.parquet", "--key-column", "id")
    pq.write_table(pa.table({"id": [5, None]}), "keys.parquet")
    assert refused(command, *keys) == "keys.parquet: column 'id': row 2 has no key: nothing equals a null"
    assert refused(command, *keys, "--key-column", "name") == "keys.parquet: it has no column 'name'"
    Path("keys.csv").write_text("id,name\n1,a\n,b\n")
    said = refused(command, "lake", "--keys", "keys.csv", "--key-column", "id")
    assert said == "keys.csv: column 'id': line 3 has no key: nothing equals a null"
    assert "not in lines" in refused(command, "lake", *list_keys("id", "--key-column", "name"), stdin="1,a\n")
    pq.write_table(pa.table({"name": [5, 6]}), "keys.parquet")
    assert "column 'name': 5 cannot be compared" in refused(command, *keys[:3], "--key-column", "name")


@by_index
def test_options_that_do_not_fit(command, lake, refused):
    for arguments, said in (
        (["lake"], "nothing to look up: give --key COLUMN=VALUE, or --keys FILE"),
        (["--key", "id=1"], "missing argument 'PATH...'"),
        (["lake", "--key", "id"], "--key number 1 is not of the form COLUMN=VALUE"),
        (["lake", "--key", "id=1", "--key", "=2"], "--key number 2 is not of the form"),
        (["lake", "--key", "id=1,2"], "--key number 1 is not of the form"),
        (["lake", "--key", "id=1,id=2"], "--key number 1 is not of the form"),
        (["lake", "--key", '"id=1'], "--key number 1 is not of the form"),
        (["lake", "--key", "id=1\nid=2"], "--key number 1 is not of the form"),
        (["lake", "--key", "id=1", "--key", "name=x"], "all --key are of the same columns; number 2 is of name"),
        (["lake", "--key", "id=1", "--keys", "ids.txt"], "--key and --keys exclude each other"),
        (["lake", "--key", "id=1", "--key-column", "id"], "--key-column is for --keys"),
        (["lake", "--keys", "-"], "--keys needs --key-column"),
        (["lake", "--keys", "-", "--index", "more.index"], "--key-column is required: the index has id, name, uid"),
        (["lake", "--key", "id=x"], "column 'id': key 1: 'x' is not an integer"),
        (["lake", "--key", "id=1", "--key", "id="], "column 'id': key 2: '' is not an integer"),
        (["lake", "--key", "idd=1"], "column 'idd': the dataset has no such column; did you mean 'id' or 'uid'?"),
        (["lake", "--key", "user=1"], "column 'user': "),
        (["lake", "--key", "id=1", "--index", "none.index"], "none.index: "),
        (["nowhere", "--key", "id=1"], "nowhere: "),
        (["lake", "--key", "id=1", "--version", "3"], "--version is for a Delta or Iceberg table, and lake is none"),
        (["lake", "--key", "id=1", "-o", "rows.txt"], "'rows.txt' must end in"),
        (["lake", "--key", "id=1", "-o", "lake/rows.parquet"], "the output lies in lake"),
        (["--index", "ids.index", "--key", "id=1", "-o", "lake/rows.parquet"], "the output lies in"),
        (["lake", "--key", "id=1", "-o", "none/rows.parquet"], "none/rows.parquet: "),
    ):
        assert said in refused(command, *arguments), arguments


def test_columns_of_find_that_there_are_not(lake, refused):
    none = "no such column in any of 3 files"
    for column, more, said in (
        ("nam", [], f"column 'nam': {none}; did you mean 'name'?"),
        ("Id", [], f"column 'Id': {none}; 'id' differs in case only: "),
        ("id", ["--where", "nam = 'x'"], f"{none}; did you mean 'name'?"),
    ):
        assert said in refused("find", "lake", *list_keys(column, *more), stdin="1\n")


@pytest.mark.ci
@pytest.mark.parametrize("command", ["find", "get"])
def test_more_keys_than_are_possible_at_a_time(command, lake, refused):
    keys = pa.table({"id": range(1_000_001)})
    pq.write_table(keys, "many.parquet")
    with pa.OSFile("many.arrow", "wb") as sink, pa.ipc.new_file(sink, keys.schema) as writer:
        writer.write_table(keys)
    for source, stdin in (("many.parquet", None), ("many.arrow", None), ("-", "1\n" * 1_000_001)):
        said = refused(command, "lake", "--keys", source, "--key-column", "id", stdin=stdin)
        name = "standard input" if stdin else source
        assert said == f"{name}: 1,000,001 keys; 1,000,000 are possible at a time, so find them in several steps"
    data = Path("many.parquet").read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    os.truncate("many.arrow", 0)
    for name, start, end in (("many.parquet", data[:footer], data[footer:]), ("many.arrow", b"1\n", b"2\n")):
        with open(name, "wb") as file:  # with a hole of 256 MiB
            file.write(start)
            file.seek((1 << 28) - len(end) + 1)
            file.write(end)
        said = refused(command, "lake", "--keys", name, "--key-column", "id")
        assert said == f"{name}: more than 268,435,456 bytes of keys; find them in several steps"
        os.unlink(name)


@pytest.mark.default
def test_files_of_keys_are_read_in_batches(find, lake):
    """Of more keys than a batch has, mostly absent ones; those of an Arrow file are in batches of its own."""
    wanted = [*range(0, 3000, 13)]
    keys = [*range(-150_000, 0), *wanted]
    pq.write_table(pa.table({"other": keys[::-1], "id": keys}), "keys.parquet", row_group_size=50_000)
    assert find("locate", "--index", "ids.index", "--keys", "keys.parquet") == wanted
    with pa.OSFile("keys.arrow", "wb") as sink, pa.ipc.new_file(sink, pa.schema([("id", pa.int64())])) as writer:
        writer.write_table(pa.table({"id": wanted}), max_chunksize=7)
    assert find("locate", "--keys", "keys.arrow", "--key-column", "id") == wanted


def test_files_that_cannot_be_read_do_not_hide_the_type(own_lake, run):
    Path("lake/day=0/0.parquet").write_bytes(b"not Parquet at all")
    result = run("find", "lake", *list_keys("id"), "--format", "csv", stdin="7\n")
    assert result.code == 2
    assert result.out.count("\n") == 2
    (line,) = result.errors
    assert line.startswith("error: lake/day=0/0.parquet: not a Parquet file")


def test_no_files_and_no_file_that_can_be_read(own_lake, run):
    Path("empty").mkdir()
    result = run("find", "empty", *list_keys("id"), stdin="7\n")
    assert (result.code, result.out, result.errors) == (3, "", ["error: empty: no files in it"])
    Path("empty/a.parquet").write_bytes(b"not Parquet at all")
    result = run("find", "empty", *list_keys("id"), stdin="7\n")
    problem = "error: empty/a.parquet: not a Parquet file, or one cut off: it does not end in PAR1"
    assert (result.code, result.out, result.errors) == (2, "", [problem])


def test_a_column_without_single_values_is_said(lake, run):
    pq.write_table(pa.table({"s": [{"a": 1, "b": 2}], "l": [[1]]}), "nested.parquet")
    for column, said in (("s", "several columns match the name: s.a, s.b"), ("l", "is not a single value")):
        result = run("find", "nested.parquet", *list_keys(column), stdin="1\n")
        assert (result.code, len(result.errors)) == (2, 1)
        assert said in result.err


# ---------------------------------------------------------------------------------------------------------- get


@pytest.mark.default
def test_rows_are_in_the_order_of_the_keys(lake, run):
    for keys, stdin, expected in (
        (["--key", "id=2001", "--key", "id=7", "--key", "id=-7", "--key", "id=7"], None, [2001, 7, 7]),
        (["--keys", "-"], "\ufeff2001\n\n7\r\n99999\n7\n", [2001, 7, 7]),
        (["--key", '"tenant=t, 1",id=4', "--key", 'id=2,"tenant=t, 2"'], None, [4, 2]),
    ):
        arguments = ["get", "lake", "--index", "ids.index", *keys, "--columns", "id", "--format", "ndjson"]
        assert [row["id"] for row in run(*arguments, stdin=stdin).rows] == expected


def test_an_index_stands_for_its_lake_and_changes_are_noticed(own_lake, run):
    arguments = ["--index", "ids.index", "--key", "id=7", "--columns", "id,day", "--format", "ndjson"]
    assert run("get", *arguments).rows == [{"id": 7, "day": 0}]
    pq.write_table(TABLE.slice(7, 1), "lake/day=2/new.parquet")
    assert [row["day"] for row in run("get", *arguments).rows] == [0, 2]
    Path("lake/day=0/a.parquet").unlink()
    assert [row["day"] for row in run("get", "lake", *arguments).rows] == [2]


def test_output_of_get_is_as_of_find(lake, run):
    arguments = ["lake", "--index", "ids.index", "--key", "id=2001", "--columns", "price, at,id"]
    assert run("get", *arguments, "--json").document == {
        "schema_version": 1,
        "command": "get",
        "rows": [{"price": "500.25", "at": "2026-03-25T09:00:00.000000Z", "id": 2001}],
        "key": ["id"],
        "totals": {"keys": 1, "rows": 1},
        "errors": [],
    }
    result = run("get", *arguments, "-o", "rows.parquet")
    assert (result.code, result.out, result.err) == (0, "", "1 row in rows.parquet of 1 key\n")
    assert pq.read_table("rows.parquet").to_pylist() == TABLE.slice(2001, 1).select(["price", "at", "id"]).to_pylist()


def test_a_broken_index_or_file_is_an_error(own_lake, refused):
    newest = max(Path("ids.index").glob("manifest-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    assert "ids.index/manifest-" in refused("get", "lake", "--key", "id=7", "--index", "ids.index")
    problem = "column 'nope': the dataset has no such column"
    assert problem in refused("get", "lake", "--key", "id=1", "--columns", "nope")
    Path("lake/day=1/a.parquet").write_bytes(b"PAR1 is not all PAR1")
    assert refused("get", "lake", "--key", "id=7", "--index", "more.index").startswith("lake/day=1/a.parquet: ")


def test_tables_are_read_as_tables(tmp_path, monkeypatch, run):
    deltalake = pytest.importorskip("deltalake")
    monkeypatch.chdir(tmp_path)
    for part in (TABLE.slice(0, 10), TABLE.slice(10, 10)):
        deltalake.write_deltalake("table", part.select(["id", "price"]), mode="append")
    keys = ["--key", "id=12", "--key", "id=3"]
    as_delta = ["-o", "out.parquet", "--as", "delta"]
    assert run("locate", "table", *keys, *as_delta).code == 0
    found = pq.read_table("out.parquet").to_pylist()
    assert sorted(row["row_index"] for row in found) == [2, 3]
    assert {row["path"] for row in found} == {path.name for path in Path("table").glob("*.parquet")}
    deltalake.DeltaTable("table").delete("id = 12")
    arguments = [*keys, "--columns", "id", "--format", "csv"]
    assert run("get", "table", *arguments).out == "id\n3\n"
    assert run("get", "table", "--version", "1", *arguments).out == "id\n12\n3\n"
    parquet_bloom.LakeIndex.create("table.index", ["id"], lake=parquet_bloom.delta("table")).append()
    assert run("get", "--index", "table.index", *arguments).out == "id\n3\n"
    assert run("locate", "--index", "table.index", *keys, *as_delta).code == 0
    assert [row["row_index"] for row in pq.read_table("out.parquet").to_pylist()] == [3]
    assert run("locate", "table", "--key", "id=12").code == 1
    assert run("locate", "table", "--version", "1", "--key", "id=12").code == 0


# ------------------------------------------------------------------------------------------------------- locate


@pytest.mark.ci
def test_files_of_positions(lake, run):
    arguments = ["locate", "lake", "--key", "id=2001", "--key", "id=7"]
    rows = [
        {"key": 7, "path": "lake/day=0/a.parquet", "row_group": 0, "row": 7},
        {"key": 2001, "path": "lake/day=2/a.parquet", "row_group": 0, "row": 1},
    ]
    document = run(*arguments, "--json").document
    assert (document["rows"], document["key"], document["totals"]) == (rows, ["id"], {"keys": 2, "rows": 2})
    for more in (["out.parquet"], ["out.parquet", "--as", "parquet"]):
        result = run(*arguments, "--output", *more)
        assert (result.code, result.out, result.err) == (0, "", "2 rows in out.parquet of 2 keys\n")
        assert pq.read_table("out.parquet").to_pylist() == rows
    assert run(*arguments, "-o", "out.csv").code == 0
    assert Path("out.csv").read_text() == run(*arguments, "--format", "csv").out
    assert run(*arguments, "-o", "out.parquet", "--as", "iceberg").code == 0
    # Files of no table have the paths that they are listed by.
    positions = [{"file_path": row["path"], "pos": row["row"]} for row in rows]
    assert pq.read_table("out.parquet").to_pylist() == positions
    text = on_terminal("locate", "lake", "--key", "name=n=3", "-o", "out.csv", patience=0, columns=100, NO_COLOR="1")
    assert "2 rows in out.csv of 1 key" in text


@pytest.mark.ci
def test_deletes_of_an_iceberg_table_are_applied_by_pyiceberg_and_duckdb(tmp_path, monkeypatch, run):
    tables = pytest.importorskip("pyiceberg.table")
    monkeypatch.chdir(tmp_path)
    fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    root = tmp_path / "table"
    table = HandTable(root, [fields], version=2)
    parts = [TABLE.slice(start, 1000).select(["id"]) for start in (0, 1000)]
    entries = [table.write_file(part, {"id": 1}, group=300, sequence=1) for part in parts]
    table.add_snapshot(entries)
    table.write_metadata()
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
    assert sorted(tables.StaticTable.from_metadata(metadata).scan().to_arrow()["id"].to_pylist()) == live
    assert run("locate", metadata, "--key", "id=7").code == 1
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    try:
        connection.execute("LOAD iceberg")
    except duckdb.Error:
        return  # its extension is not installed, and is fetched from a server
    rows = connection.execute(f"SELECT id FROM iceberg_scan('{metadata}') ORDER BY id").fetchall()
    assert [id for (id,) in rows] == live


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


@pytest.mark.ci
def test_a_file_of_positions_is_the_old_one_or_the_new_one(own_lake, run):
    """Whatever fails: a file of the lake that cannot be read, an interrupt, a full disk."""
    Path("keys.txt").write_text("".join(f"{number}\n" for number in range(3000)))
    broken = Path("lake/day=1/a.parquet").read_bytes()
    arguments = ["locate", "lake", "--keys", "keys.txt", "--key-column", "id", "-o"]
    for more in (["out.parquet"], ["out.parquet", "--as", "iceberg"], ["out.csv"]):
        Path(more[0]).write_text("what was there")
        Path("lake/day=1/a.parquet").write_bytes(broken[:4] + bytes(len(broken) // 2) + broken[len(broken) // 2 + 4 :])
        result = run(*arguments, *more)
        assert (result.code, len(result.errors)) == (2, 1), result.err
        Path("lake/day=1/a.parquet").write_bytes(broken)
        for how, code, said in (
            ("interrupted", 130, "interrupted\n"),
            ("full", 2, r"error: .*: cannot write .*: File too large\n"),
        ):
            command = [sys.executable, "-c", INTERRUPTED, how, *arguments, *more]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert (done.returncode, done.stdout) == (code, "")
            assert re.fullmatch(said, done.stderr), done.stderr
        assert Path(more[0]).read_text() == "what was there"
        Path(more[0]).unlink()
        assert sorted(os.listdir()) == ["ids.index", "keys.txt", "lake", "more.index"]


@pytest.mark.ci
def test_two_processes_that_write_one_file(tmp_path, lake):
    """It is that of one of them."""
    target = str(tmp_path / "out.parquet")
    arguments = [sys.executable, "-m", "parquet_bloom", "locate", "lake", "-o", target, "--as", "iceberg"]
    for _ in range(2):
        both = [subprocess.Popen([*arguments, "--key", f"name=n={number}"]) for number in (3, 900)]
        assert [process.wait(120) for process in both] == [0, 0]
        assert pq.read_table(target)["pos"].to_pylist() in ([6, 7], [800, 801])
        assert os.listdir(tmp_path) == ["out.parquet"]
