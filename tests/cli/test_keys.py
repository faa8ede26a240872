"""Keys of options and of files, as `find`, `get` and `locate` take them, and what is wrong with keys."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import random
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.cli.options import key_options

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
    }
)
BY_INDEX = ("get", "locate")  # commands that take --key, and keys of several columns
all_commands = pytest.mark.parametrize("command", ["find", *BY_INDEX])
by_index = pytest.mark.parametrize("command", BY_INDEX)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Three files in partition folders, with filters."""
    path = tmp_path_factory.mktemp("keys")
    for day in range(3):
        target = path / "lake" / f"day={day}" / "a.parquet"
        target.parent.mkdir(parents=True)
        columns = ["id", "name", "uid"]
        parquet_bloom.write_table(TABLE.slice(day * 1000, 1000), target, columns, row_group_size=250)
    return path


@pytest.fixture
def lake(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run) -> Path:
    """The working directory, with these files in `lake/`, and an index of their ids, and one of more."""
    monkeypatch.chdir(tmp_path)
    for source in made.glob("lake/*/*"):
        target = tmp_path / source.relative_to(made)
        target.parent.mkdir(parents=True)
        target.write_bytes(source.read_bytes())
    for name, columns in (("ids", ["id"]), ("more", ["id", "name", "uid", "user.id"])):
        with parquet_bloom.LakeIndex.create(f"{name}.index", columns, lake="lake") as index:
            index.append()
    return tmp_path


@pytest.fixture
def find(run) -> Callable[..., list[int]]:
    """The ids of the rows that a command finds in the lake, each once."""

    def call(command: str, *arguments: str, stdin: str | bytes | None = None) -> list[int]:
        columns = [] if command == "locate" else ["--columns", "id"]
        result = run(command, "lake", *arguments, *columns, "--format", "ndjson", stdin=stdin)
        rows = [json.loads(line) for line in result.out.splitlines()]
        assert result.code == (0 if rows else 1), result.err
        if command == "locate":
            return sorted(int(row["path"].split("=")[1][0]) * 1000 + row["row"] for row in rows)
        return sorted({row["id"] for row in rows})

    return call


@pytest.fixture
def refused(run) -> Callable[..., str]:
    """The one line that a command says, in place of any row."""

    def call(command: str, *arguments: str, stdin: str | bytes | None = None) -> str:
        result = run(command, *arguments, stdin=stdin)
        assert (result.code, result.out) == (2, ""), result.err
        (line,) = result.err.splitlines()
        assert line.startswith("error: ")
        return line.removeprefix("error: ")

    return call


def list_keys(column: str, *options: str) -> list[str]:
    """Arguments for keys of one column on standard input."""
    return ["--keys", "-", "--key-column", column, *options]


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
        ("user.id", "-7\n-2001\n7\n", [7, 2001]),
        ("day", "1\n", [*range(1000, 2000)]),
    ):
        assert find(command, *list_keys(column), stdin=keys) == expected, column
    assert find(command, *list_keys("at", "--timezone", "+01:00"), stdin="2026-01-01 08:00\n") == [7]
    for index in ("ids.index", "more.index"):
        assert find(command, *list_keys("id", "--index", index), stdin="12\n2001\n99999\n") == [12, 2001]


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
    Path("one.csv").write_text("nr\n5\n1500\n")
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


def test_orc_files_and_indexes_are_asked_too(find, lake, run):
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
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
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
        (["lake", "--keys", "-", "--index", "more.index"], "--keys needs --key-column: the index has id, name, uid"),
        (["lake", "--key", "id=x"], "column 'id': key 1: 'x' is not an integer"),
        (["lake", "--key", "id=1", "--key", "id="], "column 'id': key 2: '' is not an integer"),
        (["lake", "--key", "idd=1"], "column 'idd': the dataset has no such column; did you mean 'id' or 'uid'?"),
        (["lake", "--key", "user=1"], "column 'user': "),
        (["lake", "--key", "id=1", "--index", "none.index"], "none.index: "),
        (["nowhere", "--key", "id=1"], "nowhere: "),
        (["lake", "--key", "id=1", "--version", "3"], "--version is for a Delta or Iceberg table, and lake is none"),
        (["lake", "--key", "id=1", "-o", "rows.txt"], "'rows.txt' must end in"),
        (["lake", "--key", "id=1", "-o", "lake/rows.parquet"], "the output lies in lake"),
        (["lake", "--key", "id=1", "-o", "none/rows.parquet"], "none/rows.parquet: "),
    ],
)
def test_options_that_do_not_fit(command, arguments, said, lake, refused):
    assert said in refused(command, *arguments)


def test_options_of_find_that_do_not_fit(lake, refused):
    assert "--keys and --key-column go together" in refused("find", "lake", "--keys", "a.txt")
    assert "--keys and --key-column go together" in refused("find", "lake", "--key-column", "id", "--where", "id = 1")
    assert "give --where, or --keys" in refused("find", "lake")
    for column, more, said in (
        ("nam", [], "column 'nam': no such column in any of 3 files; did you mean 'name'?"),
        ("Id", [], "column 'Id': no such column in any of 3 files; 'id' differs in case only: "),
        ("id", ["--where", "nam = 'x'"], "no such column in any of 3 files; did you mean 'name'?"),
    ):
        assert said in refused("find", "lake", *list_keys(column, *more), stdin="1\n")


@pytest.mark.parametrize("command", ["find", "get"])
def test_limits(command, lake, refused, monkeypatch):
    def many(source, stdin=None):
        return refused(command, "lake", "--keys", source, "--key-column", "id", stdin=stdin)

    monkeypatch.setattr(key_options, "MAX_KEYS", 3)
    said = "4 keys; 3 are possible at a time, so find them in several steps"
    assert many("-", "1\n2\n3\n4\n") == f"standard input: {said}"
    keys = pa.table({"id": range(4)})
    pq.write_table(keys, "many.parquet")
    with pa.OSFile("many.arrow", "wb") as sink, pa.ipc.new_file(sink, keys.schema) as writer:
        writer.write_table(keys)
    assert (many("many.parquet"), many("many.arrow")) == (f"many.parquet: {said}", f"many.arrow: {said}")
    monkeypatch.setattr(key_options, "MAX_BYTES", 10)
    for source, stdin in (("-", "1\n" * 6), ("many.parquet", None), ("many.arrow", None)):
        assert many(source, stdin).endswith(": more than 10 bytes of keys; find them in several steps")


def test_files_that_cannot_be_read_do_not_hide_the_type(lake, run):
    Path("lake/day=0/0.parquet").write_bytes(b"not Parquet at all")
    result = run("find", "lake", *list_keys("id"), "--format", "csv", stdin="7\n")
    assert result.code == 2
    assert result.out.count("\n") == 2
    (line,) = result.errors
    assert line.startswith("error: lake/day=0/0.parquet: not a Parquet file")


def test_no_files_and_no_file_that_can_be_read(lake, run):
    Path("empty").mkdir()
    result = run("find", "empty", *list_keys("id"), stdin="7\n")
    assert (result.code, result.out, result.errors) == (2, "", ["error: empty: no files in it"])
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
