"""Positions are written as they are, and as the delete files of tables, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers.iceberg_tables import POSITIONS, Entry, HandTable

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError
from parquet_bloom.tables import write_positions

SCHEMA = pa.schema(
    [("key", pa.int64()), ("path", pa.string()), ("row_group", pa.int32()), ("row", pa.int64())]  # as `locate` gives it
)


def make_reader(rows: list[tuple[int, str, int, int]]) -> pa.RecordBatchReader:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    table = pa.table(columns, schema=SCHEMA)
    return pa.RecordBatchReader.from_batches(SCHEMA, table.to_batches(max_chunksize=3))


def draw_rows() -> list[tuple[int, str, int, int]]:
    """Return positions in the order of several chunks of keys; names that sort by bytes and by characters alike."""
    rng = np.random.default_rng(3)
    paths = ["/t/b.parquet", "/t/p=a%20b/ü.parquet", "/t/a.parquet", "/t/Z.parquet"]
    pairs = {(paths[rng.integers(4)], int(rng.integers(1000))) for _ in range(60)}
    return [(row * 3, path, row // 100, row) for path, row in sorted(pairs, key=lambda pair: pair[1] % 7)]


def test_as_they_are(tmp_path: Path) -> None:
    rows = draw_rows()
    assert write_positions(make_reader(rows), tmp_path / "out.parquet") == len(rows)
    assert pq.read_table(tmp_path / "out.parquet").equals(make_reader(rows).read_all())


@pytest.mark.ci
@pytest.mark.parametrize("count", [60, 1_200_000], ids=["one run", "several runs"])
def test_a_position_delete_file_is_sorted_by_file_and_position(tmp_path: Path, count: int) -> None:
    rng = np.random.default_rng(3)
    names = pa.array(["/t/b.parquet", "/t/p=a%20b/ü.parquet", "/t/a.parquet", "/t/Z.parquet"])
    paths, positions = names.take(pa.array(rng.integers(0, 4, count))), pa.array(rng.permutation(count))
    drawn = pa.table([positions, paths, positions.cast(pa.int32()), positions], schema=SCHEMA)
    write_positions(drawn, tmp_path / "out.parquet", "iceberg")
    written = pq.read_table(tmp_path / "out.parquet")
    expected = drawn.select(["path", "row"]).sort_by([("path", "ascending"), ("row", "ascending")])
    assert [column.combine_chunks() for column in written.columns] == [
        column.combine_chunks() for column in expected.columns
    ]
    ids = [field.metadata[b"PARQUET:field_id"] for field in written.schema]
    assert ids == [b"2147483546", b"2147483545"]
    assert not any(field.nullable for field in written.schema)


def test_names_of_a_delta_log(tmp_path: Path) -> None:
    """They are those of the log, letter by letter, whatever the table's folder is called."""
    deltalake = pytest.importorskip("deltalake")
    root = tmp_path / "a table"
    names = ["a b", "ü%", "plain", "a:b=c"]
    deltalake.write_deltalake(root, pa.table({"id": range(8), "part": names * 2}), partition_by=["part"])
    log = (root / "_delta_log/00000000000000000000.json").read_text("utf-8")
    logged = [action["add"]["path"] for action in map(json.loads, log.splitlines()) if "add" in action]
    dataset = parquet_bloom.dataset(parquet_bloom.delta(root))
    for table in (dataset.table, root, parquet_bloom.delta(root)):
        number = write_positions(dataset.locate_batches("id", range(3, 20)), tmp_path / "out", "delta", table=table)
        written = pq.read_table(tmp_path / "out")
        assert written.schema.names == ["path", "row_index"]
        assert number == written.num_rows == 5
        assert {*written["path"].to_pylist()} == {*logged}
    located = dataset.locate("id", range(3, 20))
    deltalake.write_deltalake(root, pa.table({"id": [1], "part": ["new"]}), mode="overwrite")
    with pytest.raises(ConcurrentChangeError, match="no longer a file of the table"):
        write_positions(located, tmp_path / "out", "delta", table=root)
    assert pq.read_table(tmp_path / "out").num_rows == 5


def test_iceberg_deletes_that_a_reader_applies(tmp_path: Path) -> None:
    """The rows of the keys are no longer in the table, and all others are."""
    pytest.importorskip("pyiceberg")
    pytest.importorskip("pyroaring")
    fields = [{"id": 1, "name": "key", "required": False, "type": "long"}]
    table = HandTable(tmp_path / "t", [fields], version=2)
    keys = [pa.array(np.random.default_rng(number).integers(0, 500, 2000)) for number in range(3)]
    entries = [table.write_file(pa.table({"key": one}), {"key": 1}, group=300, sequence=1) for one in keys]
    table.add_snapshot(entries)
    removed = [*range(0, 500, 7)]
    dataset = parquet_bloom.dataset(parquet_bloom.iceberg(table.write_metadata()))
    target = tmp_path / "t/data/deletes.parquet"
    number = write_positions(dataset.locate_batches("key", removed), target, "iceberg", table=dataset.table)
    name = entries[0].path.rpartition("/")[0] + "/deletes.parquet"
    deletes = Entry(name, number, target.stat().st_size, POSITIONS, sequence=2)
    table.add_snapshot([*entries, deletes])
    live = [key for one in keys for key in one.to_pylist() if key % 7]
    metadata = table.write_metadata()
    from pyiceberg.table import StaticTable

    assert StaticTable.from_metadata(str(metadata)).scan().to_arrow()["key"].to_pylist() == live
    assert parquet_bloom.dataset(parquet_bloom.iceberg(metadata)).scan().to_arrow()["key"].to_pylist() == live


def test_a_stream_that_fails(tmp_path: Path) -> None:
    """What was there before is there still."""

    def fail() -> Iterator[pa.RecordBatch]:
        yield from make_reader(draw_rows())
        raise ParquetBloomError("it ends here")

    (tmp_path / "out.parquet").write_bytes(b"before")
    for form in ("parquet", "iceberg"):
        with pytest.raises(ParquetBloomError, match="it ends here"):
            write_positions(pa.RecordBatchReader.from_batches(SCHEMA, fail()), tmp_path / "out.parquet", form)
        assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]
        assert (tmp_path / "out.parquet").read_bytes() == b"before"


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(ParquetBloomError, match="not as 'orc'"):
        write_positions(make_reader(draw_rows()), tmp_path / "out.parquet", "orc")  # type: ignore[arg-type]
    with pytest.raises(ParquetBloomError, match="needs the table"):
        write_positions(make_reader(draw_rows()), tmp_path / "out.parquet", "delta")
    with pytest.raises(ParquetBloomError, match="is not one"):
        write_positions(make_reader(draw_rows()), tmp_path / "out.parquet", "iceberg", table=tmp_path)
    pytest.importorskip("deltalake").write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    with pytest.raises(ParquetBloomError, match="'iceberg' is not for a table of the format 'delta'"):
        write_positions(make_reader(draw_rows()), tmp_path / "out.parquet", "iceberg", table=tmp_path / "t")
    assert not [*tmp_path.glob("*out*")]
