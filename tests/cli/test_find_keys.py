"""`parquet-bloom find --keys`: thousands of keys, and what is wrong with them."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.cli.options import key_values as key_options

ROWS = 3000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "name": [f"n {i}" for i in range(ROWS)],
        "uid": pa.array([uuid.UUID(int=i).bytes for i in range(ROWS)], pa.uuid()),
        "at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=i) for i in range(ROWS)],
        "user": [{"id": -i} for i in range(ROWS)],
    }
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with `lake/`: three files in partition folders, with filters."""
    monkeypatch.chdir(tmp_path)
    for day in range(3):
        path = tmp_path / "lake" / f"day={day}" / "a.parquet"
        path.parent.mkdir(parents=True)
        columns = ["id", "name", "uid"]
        parquet_bloom.write_table(TABLE.slice(day * 1000, 1000), path, columns, row_group_size=250)
    return tmp_path


@pytest.fixture
def find(run):
    """Find rows by keys, given as text on standard input or as a file's name: their ids."""

    def call(column: str, keys: str | Path, *options: str) -> list[int]:
        source, stdin = ("-", keys) if isinstance(keys, str) else (keys, None)
        arguments = ["--keys", source, "--key-column", column, "--columns", "id", "--format", "csv", *options]
        result = run("find", "lake", *arguments, stdin=stdin)
        assert result.code == (0 if result.out.count("\n") > 1 else 1), result.err
        return [int(line) for line in result.out.splitlines()[1:]]

    return call


def test_keys_of_each_type_are_found(find, lake):
    assert find("id", "7\n\n2001\r\n 12\n99999\n-5\n7") == [7, 12, 2001]
    assert find("name", "n 7\nn 2001\n n 8\n7\n") == [7, 2001]
    assert find("uid", f"{uuid.UUID(int=7)}\n{uuid.UUID(int=2001).hex}\n") == [7, 2001]
    assert find("at", "2026-01-01T07:00:00Z\n2026-01-01 08:00\n") == [7, 8]
    assert find("at", "2026-01-01 08:00\n", "--timezone", "+01:00") == [7]
    assert find("user.id", "-7\n-2001\n7\n") == [7, 2001]
    assert find("day", "1\n") == list(range(1000, 2000))
    assert find("ID", "3\n", "--case-insensitive") == [3]
    assert find("id", "\ufeff1\n2\n") == [1, 2]


def test_nothing_is_found_by_no_keys_or_by_others(find, lake):
    assert find("id", "") == []
    assert find("id", "\n\n") == []
    assert find("id", "99999\n") == []


def test_where_holds_as_well(find, lake):
    keys = "".join(f"{i}\n" for i in range(0, ROWS, 100))
    assert find("id", keys, "--where", "id >= 500 AND name <> 'n 600' AND day = 0") == [500, 700, 800, 900]
    assert find("id", keys, "--where", "id = 1 OR id = 100") == [100]


def test_keys_may_be_a_column_of_a_file(find, lake):
    for name, table in (
        ("keys.parquet", pa.table({"x": ["a", "b", None], "id": [5, 1500, None]})),
        ("one.parquet", pa.table({"anything": pa.array([5, 1500, 5], pa.int32())})),
        ("text.parquet", pa.table({"id": ["5", "1500"]})),
        ("float.parquet", pa.table({"id": [5.0, 1500.0, 0.5]})),
    ):
        pq.write_table(table, name)
        assert find("id", Path(name)) == [5, 1500]
        with pa.OSFile(f"{name}.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        assert find("id", Path(f"{name}.arrow")) == [5, 1500]
    Path("keys.csv").write_text('\ufeffx,id\r\n"a,b",5\r\n\r\n1,\r\n2,1500\r\n')
    assert find("id", Path("keys.csv")) == [5, 1500]
    Path("one.csv").write_text("nr\n5\n1500\n")
    assert find("id", Path("one.csv")) == [5, 1500]
    pq.write_table(TABLE.slice(3, 2).select(["uid", "name"]), "more.parquet")
    assert find("uid", Path("more.parquet")) == [3, 4]
    assert find("name", Path("more.parquet")) == [3, 4]


def test_orc_files_and_indexes_are_asked_too(find, lake, run):
    assert run("index", "create", "ids.index", "id", "--lake", "lake").code == 0
    assert run("index", "append", "ids.index").code == 0
    pyarrow.orc.write_table(TABLE.select(["id", "name"]).slice(10, 5), "lake/day=0/o.orc")
    assert sorted(find("id", "12\n2001\n")) == [12, 12, 2001]
    arguments = ["--keys", "-", "--key-column", "id", "--columns", "id", "--format", "csv"]
    result = run("find", "--index", "ids.index", *arguments, stdin="12\n2001\n")
    assert sorted(result.out.split()) == ["12", "12", "2001", "id"]  # the index has no ORC files, so they are read


def test_thousands_of_keys_find_what_a_join_finds(find, lake):
    rng = random.Random(12)
    keys = [rng.randrange(-ROWS, 2 * ROWS) for _ in range(20_000)]
    assert find("id", "\n".join(map(str, keys))) == sorted({key for key in keys if 0 <= key < ROWS})
    names = [f"n {key}" for key in keys]
    assert find("name", "\n".join(names)) == sorted({key for key in keys if 0 <= key < ROWS})


def refused(run, *arguments, stdin=None) -> str:
    result = run("find", "lake", "--columns", "id", *arguments, stdin=stdin)
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.splitlines()
    return line.removeprefix("error: ")


def test_what_is_wrong_is_one_line(lake, run):
    def given(data, column="id", *options):
        return refused(run, "--keys", "-", "--key-column", column, *options, stdin=data)

    assert given("1\nx1\n") == "standard input: column 'id': line 2: 'x1' is not an integer"
    assert given("1\n" * 2000 + "y" * 9999, "uid").startswith("standard input: column 'uid': line 1: '1' is not a UUID")
    assert len(given("y" * 99_999, "uid")) < 200
    assert given(b"1\n\xff\n") == "standard input: line 2 is not valid UTF-8"
    assert given(b"1\0002\0").startswith("standard input: line 1 holds a null character")
    assert given("1\n", "nam").startswith("column 'nam': no such column in any of 3 files; did you mean 'name'?")
    assert given("1\n", "Id").startswith("column 'Id': no such column in any of 3 files; 'id' differs in case only: ")
    assert given("1\n", "id", "--where", "nam = 'x'").endswith("no such column in any of 3 files; did you mean 'name'?")
    assert refused(run, "--keys", "none.txt", "--key-column", "id").startswith("none.txt: cannot open")
    for broken in (b"PAR1 is not all", b"ARROW1 is not all"):
        Path("broken").write_bytes(broken)
        assert refused(run, "--keys", "broken", "--key-column", "id").startswith("broken: its keys cannot be read: ")
    for text, said in (
        ("x,y\n1,2\n", "keys.csv: it has no column 'id', and not just one"),
        ("id,id\n1,2\n", "keys.csv: several columns match"),
        ("id,y\n1,2\n3\n", "keys.csv: line 3 has 1 fields, the header 2"),
        ('id,y\n1,"2\n', "keys.csv: line 2 is not CSV: unexpected end of data"),
        ("id,y\n1,2\nz,3\n", "keys.csv: column 'id': line 3: 'z' is not an integer"),
    ):
        Path("keys.csv").write_text(text)
        assert refused(run, "--keys", "keys.csv", "--key-column", "id") == said
    pq.write_table(pa.table({"id": [[1]]}), "nested.parquet")
    assert refused(run, "--keys", "nested.parquet", "--key-column", "id").startswith("nested.parquet: column 'id': ")
    pq.write_table(pa.table({"id": ["4", "x"]}), "text.parquet")
    said = "text.parquet: column 'id': row 2: 'x' is not an integer"
    assert refused(run, "--keys", "text.parquet", "--key-column", "id") == said


def test_options_that_do_not_fit(lake, run):
    assert "--keys and --key-column go together" in refused(run, "--keys", "a.txt")
    assert "--keys and --key-column go together" in refused(run, "--key-column", "id", "--where", "id = 1")
    assert "give --where, or --keys" in refused(run)
    said = refused(run, "-", "--keys", "-", "--key-column", "id")
    assert "standard input holds either PATHs or keys, not both" in said


def test_limits(lake, run, monkeypatch):
    monkeypatch.setattr(key_options, "MAX_KEYS", 3)
    said = refused(run, "--keys", "-", "--key-column", "id", stdin="1\n2\n3\n4\n")
    assert said == "standard input: 4 keys; 3 are possible at a time, so find them in several steps"
    pq.write_table(pa.table({"id": range(5)}), "many.parquet")
    said = refused(run, "--keys", "many.parquet", "--key-column", "id")
    assert said == "many.parquet: 5 keys; 3 are possible at a time, so find them in several steps"
    monkeypatch.setattr(key_options, "MAX_BYTES", 10)
    for source, stdin in (("-", "1\n" * 6), ("many.parquet", None)):
        said = refused(run, "--keys", source, "--key-column", "id", stdin=stdin)
        assert said.endswith(": more than 10 bytes of keys; find them in several steps")


def test_files_that_cannot_be_read_do_not_hide_the_type(lake, run):
    Path("lake/day=0/0.parquet").write_bytes(b"not Parquet at all")
    result = run("find", "lake", "--keys", "-", "--key-column", "id", "--format", "csv", stdin="7\n")
    assert result.code == 2
    assert result.out.count("\n") == 2
    (line,) = result.errors
    assert line.startswith("error: lake/day=0/0.parquet: not a Parquet file")


def test_no_files_and_no_file_that_can_be_read(lake, run):
    Path("empty").mkdir()
    result = run("find", "empty", "--keys", "-", "--key-column", "id", stdin="7\n")
    assert (result.code, result.out) == (2, "")
    assert result.errors == run("find", "empty", "--where", "id = 7").errors == ["error: empty: no files in it"]
    Path("empty/a.parquet").write_bytes(b"not Parquet at all")
    result = run("find", "empty", "--keys", "-", "--key-column", "id", stdin="7\n")
    assert (result.code, result.out) == (2, "")
    assert result.errors == [
        "error: empty/a.parquet: not a Parquet file, or one cut off: it does not end in PAR1",
    ]


def test_a_column_without_single_values_is_said(lake, run):
    pq.write_table(pa.table({"s": [{"a": 1, "b": 2}], "l": [[1]]}), "nested.parquet")
    for column, said in (("s", "several columns match the name: s.a, s.b"), ("l", "is not a single value")):
        result = run("find", "nested.parquet", "--keys", "-", "--key-column", column, stdin="1\n")
        assert (result.code, len(result.errors)) == (2, 1)
        assert said in result.err
