"""`parquet-bloom get`: the rows of keys, and what is wrong with keys, indexes and files."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
    }
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run) -> Path:
    """The working directory, with `lake/`: three files in partition folders, and an index of ids and more."""
    monkeypatch.chdir(tmp_path)
    for day in range(3):
        path = tmp_path / "lake" / f"day={day}" / "a.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(TABLE.slice(day * 1000, 1000), path, row_group_size=250, write_page_index=True)
    for name, columns in (("ids", ["id"]), ("more", ["id", "name", "uid", "user.id"])):
        assert run("index", "create", f"{name}.index", *columns, "--lake", "lake").code == 0
        assert run("index", "append", f"{name}.index").code == 0
    return tmp_path


@pytest.fixture
def get(run):
    """The ids of the rows that `get` prints for some arguments."""

    def call(*arguments: str, stdin: str | bytes | None = None) -> list[int]:
        result = run("get", "lake", *arguments, "--columns", "id", "--format", "csv", stdin=stdin)
        assert result.code == (0 if result.out.count("\n") > 1 else 1), result.err
        return [int(line) for line in result.out.splitlines()[1:]]

    return call


@pytest.mark.default
def test_keys_of_each_type_in_their_order(get, lake):
    index = ("--index", "more.index")
    assert get(*index, "--key", "id=2001", "--key", "id=7", "--key", "id=-7", "--key", "id=7") == [2001, 7, 7]
    assert get(*index, "--key", "name=n=4") == [8, 9]
    assert get(*index, "--key", f"uid={uuid.UUID(int=12)}") == [12]
    assert get(*index, "--key", "user.id=-1500") == [1500]
    assert get(*index, "--key", "at=2026-01-01T07:00:00Z") == [7]
    assert get(*index, "--key", "at=2026-01-01 08:00", "--timezone", "+01:00") == [7]
    assert get(*index, "--key", "price=3.25") == [13]
    assert get(*index, "--key", "raw=X'0102'") == [258]
    assert get("--key", "id=5") == [5]
    assert get("--index", "ids.index", "--key", "id=99999") == []


def test_several_columns_are_one_key(get, lake):
    index = ("--index", "ids.index")
    assert get(*index, "--key", '"tenant=t, 1",id=4', "--key", 'id=2,"tenant=t, 2"') == [4, 2]
    assert get(*index, "--key", '"tenant=t, 1",id=5') == []
    assert get(*index, "--key", "day=2, id=2100", "--key", "day=1,id=2100") == [2100]


def test_keys_come_from_files(get, lake, run):
    index = ("--index", "ids.index")
    assert get(*index, "--keys", "-", stdin="\ufeff2001\n\n7\r\n99999\n7\n") == [2001, 7, 7]
    Path("ids.txt").write_text("12\n")
    assert get(*index, "--keys", "ids.txt") == [12]
    pq.write_table(pa.table({"id": [5, 1500], "tenant": ["t, 2", "t, 1"]}), "keys.parquet")
    assert get(*index, "--keys", "keys.parquet") == [5, 1500]
    both = ("--key-column", "tenant", "--key-column", "id")
    assert get(*index, "--keys", "keys.parquet", *both) == [5]
    Path("keys.csv").write_text('id,tenant\n1,"t, 1"\n3,"t, 1"\n2,"t, 2"\n')
    assert get(*index, "--keys", "keys.csv", *both) == [1, 2]
    assert get("--index", "more.index", "--keys", "-", "--key-column", "name", stdin="n=3\n") == [6, 7]
    assert get("--keys", "-", "--key-column", "id", stdin="3\n") == [3]


def test_an_index_stands_for_its_lake_and_changes_are_noticed(lake, run):
    arguments = ["--index", "ids.index", "--key", "id=7", "--columns", "id,day", "--format", "ndjson"]
    assert json.loads(run("get", *arguments).out) == {"id": 7, "day": 0}
    pq.write_table(TABLE.slice(7, 1), "lake/day=2/new.parquet")
    found = [json.loads(line)["day"] for line in run("get", *arguments).out.splitlines()]
    assert found == [0, 2]
    Path("lake/day=0/a.parquet").unlink()
    assert [json.loads(line)["day"] for line in run("get", "lake", *arguments).out.splitlines()] == [2]


def test_output_is_as_of_find(lake, run):
    arguments = ["lake", "--index", "ids.index", "--key", "id=2001", "--column", "price", "--columns", "at,id"]
    document = json.loads(run("get", *arguments, "--json").out)
    assert document == {
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
    refused = run("get", *arguments, "-o", "lake/rows.parquet")
    assert (refused.code, refused.out) == (2, "")
    assert "the output lies in lake" in refused.err
    assert "the output lies in" in run("get", *arguments[1:], "-o", "lake/rows.parquet").err
    assert not Path("lake/rows.parquet").exists()


def refused(run, *arguments: str, stdin: str | None = None) -> str:
    result = run("get", *arguments, stdin=stdin)
    assert (result.code, result.out) == (2, ""), result.err
    (line,) = result.err.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


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
        (["-", "--keys", "-", "--key-column", "id"], "standard input holds either PATHs or keys, not both"),
        (["lake", "--key", "id=x"], "column 'id': key 1: 'x' is not an integer"),
        (["lake", "--key", "id=1", "--key", "id="], "column 'id': key 2: '' is not an integer"),
        (["lake", "--key", "idd=1"], "column 'idd': the dataset has no such column; did you mean 'id' or 'uid'?"),
        (["lake", "--key", "user=1"], "column 'user': "),
        (["lake", "--key", "id=1", "--columns", "nope"], "column 'nope': the dataset has no such column"),
        (["lake", "--key", "id=1", "--index", "none.index"], "none.index: "),
        (["nowhere", "--key", "id=1"], "nowhere: "),
        (["lake", "--key", "id=1", "--version", "3"], "--version is for a Delta or Iceberg table, and lake is none"),
        (["lake", "--key", "id=1", "-o", "rows.txt"], "'rows.txt' must end in"),
        (["lake", "--keys", "nokeys.txt", "--key-column", "id"], "nokeys.txt: cannot open"),
    ],
)
def test_what_is_wrong_is_one_line(arguments, said, lake, run):
    assert said in refused(run, *arguments)


def test_bad_files_of_keys(lake, run):
    pq.write_table(pa.table({"id": [5, None]}), "keys.parquet")
    keys = ("--keys", "keys.parquet", "--key-column", "id")
    assert refused(run, "lake", *keys) == "keys.parquet: column 'id': row 2 has no key: nothing equals a null"
    Path("keys.csv").write_text("id,name\n1,a\n,b\n")
    said = refused(run, "lake", "--keys", "keys.csv", "--key-column", "id")
    assert said == "keys.csv: column 'id': line 3 has no key: nothing equals a null"
    several = ("--key-column", "id", "--key-column", "name")
    assert "not in lines" in refused(run, "lake", "--keys", "-", *several, stdin="1,a\n")
    assert refused(run, "lake", "--keys", "keys.parquet", *several) == "keys.parquet: it has no column 'name'"


def test_a_broken_index_or_file_is_an_error(lake, run):
    newest = max(Path("ids.index").glob("manifest-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    assert "ids.index/manifest-" in refused(run, "lake", "--key", "id=7", "--index", "ids.index")
    Path("lake/day=1/a.parquet").write_bytes(b"PAR1 is not all PAR1")
    assert refused(run, "lake", "--key", "id=7", "--index", "more.index").startswith("lake/day=1/a.parquet: ")


def test_tables_are_read_as_tables(lake, run):
    deltalake = pytest.importorskip("deltalake")
    for part in (TABLE.slice(0, 10), TABLE.slice(10, 10)):
        deltalake.write_deltalake("table", part.select(["id", "price"]), mode="append")
    deltalake.DeltaTable("table").delete("id = 12")
    arguments = ["--key", "id=12", "--key", "id=3", "--columns", "id", "--format", "csv"]
    assert run("get", "table", *arguments).out == "id\n3\n"
    assert run("get", "table", "--version", "1", *arguments).out == "id\n12\n3\n"
    parquet_bloom.LakeIndex.create("table.index", ["id"], lake=parquet_bloom.delta("table")).append()
    assert run("get", "--index", "table.index", *arguments).out == "id\n3\n"
