"""`parquet-bloom get`: the rows of keys, and what is wrong with indexes and files."""

from __future__ import annotations

import datetime as dt
import decimal
import json
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
        "at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=i) for i in range(ROWS)],
        "price": pa.array([decimal.Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(9, 2)),
    }
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run) -> Path:
    """The working directory, with `lake/`: three files in partition folders, and two indexes of its ids."""
    monkeypatch.chdir(tmp_path)
    for day in range(3):
        path = tmp_path / "lake" / f"day={day}" / "a.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(TABLE.slice(day * 1000, 1000), path, row_group_size=250, write_page_index=True)
    for name in ("ids", "more"):
        assert run("index", "create", f"{name}.index", "id", "--lake", "lake").code == 0
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
def test_rows_are_in_the_order_of_the_keys(get, lake):
    index = ("--index", "ids.index")
    assert get(*index, "--key", "id=2001", "--key", "id=7", "--key", "id=-7", "--key", "id=7") == [2001, 7, 7]
    assert get(*index, "--keys", "-", stdin="\ufeff2001\n\n7\r\n99999\n7\n") == [2001, 7, 7]
    assert get(*index, "--key", '"tenant=t, 1",id=4', "--key", 'id=2,"tenant=t, 2"') == [4, 2]


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


def refused(run, *arguments: str) -> str:
    result = run("get", *arguments)
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    return result.err.removeprefix("error: ")


def test_a_broken_index_or_file_is_an_error(lake, run):
    newest = max(Path("ids.index").glob("manifest-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    assert "ids.index/manifest-" in refused(run, "lake", "--key", "id=7", "--index", "ids.index")
    assert "column 'nope': the dataset has no such column" in refused(run, "lake", "--key", "id=1", "--columns", "nope")
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
