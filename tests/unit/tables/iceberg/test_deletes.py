"""Deleted rows of Iceberg tables: which delete file applies to which rows, and what is refused instead of guessed."""

from __future__ import annotations

import decimal
import math
import pickle
import struct
import uuid
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.processes.watching import watching_opens
from support.writers.iceberg_tables import PATH_ID, Entry, HandTable, make_blob

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.iceberg.iceberg_deletes import parse_bitmap
from parquet_bloom.tables.iceberg.iceberg_table import iceberg
from parquet_bloom.tables.iceberg.manifests import SizedCache
from parquet_bloom.tables.table_snapshot import DeletedRows, RowsOfFile, find_deleted

pytest.importorskip("pyiceberg")
pyroaring = pytest.importorskip("pyroaring")

FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "s", "required": False, "type": "string"},
]
IDS = {"id": 1, "s": 2}
PARTITIONED = [{"source-id": 2, "field-id": 1000, "name": "s", "transform": "identity"}]
VOID = [{"source-id": 2, "field-id": 1000, "name": "s", "transform": "void"}]
ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "s": pa.array(["x"] * 10, pa.large_string())})


def read_rows(rows: pa.Table, start: int, stop: int) -> Any:
    return lambda names: rows.slice(start, stop - start).select(names)


def find_in(deleted: DeletedRows, start: int, stop: int, read: Any, path: str = "") -> list[int]:
    """The deleted rows of a range, which are the same when single rows of it are asked for."""
    mask = find_deleted([RowsOfFile(path, deleted, range(start, stop))], read)
    some = np.arange(stop - start)[::2]
    assert find_deleted([RowsOfFile(path, deleted, some + start)], lambda names: read(names).take(some)).tolist() == (
        mask[some].tolist()
    )
    return [start + number for number in np.flatnonzero(mask).tolist()]


def find(table: HandTable, entries: Sequence[Entry], rows: pa.Table = ROWS, **arguments: Any) -> list[int]:
    """The deleted rows of the table's only file."""
    table.add_snapshot(entries)
    snapshot = iceberg(table.write_metadata(), **arguments).read_snapshot()
    (file,) = snapshot.files
    if file.path not in snapshot.deletes:
        return []
    found: list[int] = []
    for start in range(0, len(rows), 5):
        stop = min(start + 5, len(rows))
        found += find_in(snapshot.deletes[file.path], start, stop, read_rows(rows, start, stop), file.path)
    return found


def refuse(table: HandTable, entries: Sequence[Entry], rows: pa.Table = ROWS, **arguments: Any) -> str:
    """What is said where deleted rows cannot be determined."""
    with pytest.raises(ParquetBloomError) as caught:
        find(table, entries, rows, **arguments)
    assert "\n" not in str(caught.value)
    assert caught.value.path == f"{table.root}/data/00001.parquet"
    return caught.value.problem


def make(root: Path, version: int = 3, specs: Any = ((), PARTITIONED), **entry: Any) -> tuple[HandTable, Entry]:
    table = HandTable(root, [FIELDS], specs, version)
    return table, table.write_file(ROWS, IDS, **({"sequence": 5} | entry))


def test_sequence_numbers(tmp_path: Path) -> None:
    for number in (4, 5, 6, None):
        for status in (0, 1):
            table, data = make(tmp_path / f"{number}{status}")
            late = number is None or number >= 5
            if number is None and status == 0:
                continue
            positions = table.write_positions([(data.path, 3)], sequence=number, status=status)
            assert find(table, [data, positions]) == ([3] if late else [])
            equality = table.write_equality(pa.table({"id": [4]}), {"id": 1}, sequence=number, status=status)
            assert find(table, [data, equality]) == ([4] if number is None or number > 5 else [])
    table, data = make(tmp_path / "inherited", sequence=None)  # 100, as its manifest
    early = table.write_equality(pa.table({"id": [4]}), {"id": 1}, sequence=100)
    late = table.write_equality(pa.table({"id": [5]}), {"id": 1}, sequence=101)
    assert find(table, [data, early, late]) == [5]
    removed = table.write_equality(pa.table({"id": [6]}), {"id": 1}, sequence=101, status=2)
    assert find(table, [data, early, late, removed]) == [5]
    unknown = table.write_positions([(data.path, 3)], sequence=None, status=0)
    assert "in which order files and deletes were added" in refuse(table, [data, unknown])


def test_partitions(tmp_path: Path) -> None:
    one: dict[str, Any] = {"spec": 1, "partition": ("x",)}
    other: dict[str, Any] = {"spec": 1, "partition": ("y",)}
    whole: dict[str, Any] = {"spec": 0}
    for number, (of, expected, by_values) in enumerate([(one, [3], [4]), (other, [], []), (whole, [], [4])]):
        table, data = make(tmp_path / str(number), **one)
        assert find(table, [data, table.write_positions([(data.path, 3)], sequence=6, **of)]) == expected
        equality = table.write_equality(pa.table({"id": [4]}), {"id": 1}, sequence=6, **of)
        assert find(table, [data, equality]) == by_values
    table, data = make(tmp_path / "void", specs=((), PARTITIONED, VOID), **one)
    equality = table.write_equality(pa.table({"id": [4]}), {"id": 1}, sequence=6, spec=2, partition=(None,))
    assert find(table, [data, equality]) == [4]
    # What names the data file, but is of another partition, should not exist.
    named = table.write_positions([(data.path, 3)], sequence=6, referenced=data.path, **other)
    assert "of another partition" in refuse(table, [data, named])
    (vector,) = table.write_vectors({data.path: [3]}, sequence=6, **other)
    assert "of another partition" in refuse(table, [data, vector])


def test_partitions_that_are_nan_or_zero(tmp_path: Path) -> None:
    fields = [*FIELDS, {"id": 3, "name": "f", "required": False, "type": "double"}]
    spec = [{"source-id": 3, "field-id": 1000, "name": "f", "transform": "identity"}]
    for number, (one, two, expected) in enumerate([(math.nan, math.nan, [3]), (0.0, -0.0, []), (None, None, [3])]):
        table = HandTable(tmp_path / str(number), [fields], [spec])
        data = table.write_file(ROWS, IDS, sequence=1, partition=(one,))
        deletes = table.write_positions([(data.path, 3)], sequence=1, partition=(two,))
        assert find(table, [data, deletes]) == expected


def test_paths_with_and_without_a_scheme(tmp_path: Path) -> None:
    table, data = make(tmp_path / "t")
    plain = data.path.removeprefix("file://")
    near = [f"{plain}x", plain[1:], f"s3://b{plain}", plain.upper()]
    for written in (data.path, plain, f"file:{plain}"):
        for referenced in (None, written):
            for bounds in ({}, {"lower": {PATH_ID: written.encode()}, "upper": {PATH_ID: written.encode()}}):
                entry = table.write_positions(
                    [(written, 3), *((each, 4) for each in near)], sequence=6, referenced=referenced, metrics=bounds
                )
                assert find(table, [data, entry]) == [3]
    wide = {"lower": {PATH_ID: b"file:///"}, "upper": {PATH_ID: b"file:///~"}}
    narrow = {"lower": {PATH_ID: b"file:///~"}, "upper": {PATH_ID: b"file:///~~"}}
    assert find(table, [data, table.write_positions([(data.path, 3)], sequence=6, metrics=wide)]) == [3]
    assert find(table, [data, table.write_positions([(data.path, 3)], sequence=6, metrics=narrow)]) == []


def test_vectors(tmp_path: Path) -> None:
    table, data = make(tmp_path / "t")
    positions = table.write_positions([(data.path, 1)], sequence=6)
    equality = table.write_equality(pa.table({"id": [9]}), {"id": 1}, sequence=6)
    (vector,) = table.write_vectors({data.path: [0, 7, 1 << 40]}, sequence=6)
    assert find(table, [data, vector]) == [0, 7]
    assert find(table, [data, vector, positions, equality]) == [0, 7, 9]
    plain = data.path.removeprefix("file://")
    (vector,) = table.write_vectors({plain: [2]}, sequence=6)
    assert find(table, [data, vector]) == [2]
    both = table.write_vectors({data.path: [2], "s3://other/file": [5]}, sequence=6)
    assert find(table, [data, *both]) == [2]
    for size in (0, 1, 5000, 70_000):  # arrays, bitsets and runs
        (vector,) = table.write_vectors({data.path: range(0, 2 * size, 2)}, sequence=6)
        assert find(table, [data, vector]) == [i for i in range(0, 10, 2) if i < 2 * size]
    (again,) = table.write_vectors({data.path: [2]}, sequence=6)
    assert "has 2 deletion vectors" in refuse(table, [data, vector, again])
    (early,) = table.write_vectors({data.path: [2]}, sequence=4)
    assert "is older than the file" in refuse(table, [data, early])
    (nameless,) = table.write_vectors({data.path: [2]}, sequence=6, referenced=None)
    assert "does not name its data file" in refuse(table, [data, nameless])


def test_damaged_vectors(tmp_path: Path) -> None:
    table, data = make(tmp_path / "t")
    (vector,) = table.write_vectors({data.path: [0, 7]}, sequence=6)
    path = Path(vector.path.removeprefix("file://"))
    good = path.read_bytes()
    assert find(table, [data, vector]) == [0, 7]
    offset, length = vector.offset or 0, vector.length or 0

    def with_body(body: bytes) -> bytes:
        blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        assert len(blob) == length
        return good[:offset] + blob + good[offset + length :]

    body = good[offset + 4 : offset + length - 4]
    cases = {
        "wrong checksum": good[: offset + 20] + b"\xff" + good[offset + 21 :],
        "wrong length": good[:offset] + b"\xff" + good[offset + 1 :],
        "wrong length or magic": with_body(b"abcd" + body[4:]),
        "not a Puffin file": b"PAR1" + good[4:],
        "malformed": with_body(body[:4] + b"\xff" * 8 + body[12:]),
        "would lie behind": good[: offset + 3],
    }
    for problem, content in cases.items():
        path.write_bytes(content)
        assert problem in refuse(table, [data, vector])
    path.write_bytes(good)
    for field, value in (("offset", None), ("offset", -1), ("length", None), ("length", 3), ("length", 1 << 40)):
        (odd,) = table.write_vectors({data.path: [0, 7]}, sequence=6)
        setattr(odd, field, value)
        assert "where in" in (problem := refuse(table, [data, odd])) or "behind the end" in problem
    vector.records = 3
    assert "has 2 positions, but by the manifest 3" in refuse(table, [data, vector])
    path.unlink()
    assert "cannot be read" in refuse(table, [data, vector])


def test_bitmaps_that_are_malformed(tmp_path: Path) -> None:
    """Whatever is read is in order: CRoaring's behaviour is undefined for other bitmaps."""
    rng = np.random.default_rng(0)
    seeds = [
        pyroaring.BitMap64([1, 5, 70_000, 1 << 33]),
        pyroaring.BitMap64(range(10_000)),
        pyroaring.BitMap64(range(0, 200_000, 3)),
    ]
    run = pyroaring.BitMap64([*range(100, 3000), *range(70_000, 90_000), 200_000, 300_000])
    run.run_optimize()
    seeds.append(run)
    read = 0
    for seed in seeds:
        data = seed.serialize()
        assert parse_bitmap(data) == seed
        for size in {0, 1, 7, 8, len(data) // 2, len(data) - 1}:
            with pytest.raises(ValueError, match="cut short"):
                parse_bitmap(data[:size])
        with pytest.raises(ValueError, match="after its end"):
            parse_bitmap(data + b"\0")
        for _ in range(200):
            broken = bytearray(data)
            broken[rng.integers(0, min(len(data), 80))] = rng.integers(0, 256)
            try:
                bitmap = parse_bitmap(bytes(broken))
            except ValueError:
                continue
            read += 1
            if len(bitmap) < 1 << 20:
                values = np.array(bitmap.to_array(), np.uint64)
                assert len(values) == len(bitmap)
                assert (values[1:] > values[:-1]).all()
    assert read > 20


def test_files_of_positions_that_are_not(tmp_path: Path) -> None:
    table, data = make(tmp_path / "t")
    entry = table.write_positions([(data.path, 3)], sequence=6)
    path = Path(entry.path.removeprefix("file://"))
    good = pq.read_table(path)
    cases = {
        "has no columns file_path and pos": good.select(["pos"]),
        "a negative position": good.set_column(1, "pos", pa.array([-1], pa.int64())),
        "without a path or position": good.set_column(1, "pos", pa.array([None], pa.int64())),
    }
    for problem, content in cases.items():
        pq.write_table(content, path)
        assert problem in refuse(table, [data, entry])
    pq.write_table(good.rename_columns(["a", "b"]).cast(pa.schema([("a", pa.string()), ("b", pa.int64())])), path)
    assert "has no columns" in refuse(table, [data, entry])
    path.write_bytes(b"PAR1 nothing PAR1")
    assert "cannot be read" in refuse(table, [data, entry])
    for kind in ("AVRO", "ORC"):
        entry.file_format = kind
        assert f"is {kind}, and only Parquet is supported" in refuse(table, [data, entry])
    entry.file_format, entry.key = "PARQUET", b"k"
    assert "is encrypted" in refuse(table, [data, entry])
    entry.key, entry.content = None, 7
    assert "the content of" in refuse(table, [data, entry])


def test_nothing_outside_is_read(tmp_path: Path) -> None:
    table, data = make(tmp_path / "t")
    inside = table.write_positions([(data.path, 3)], sequence=6)
    elsewhere = tmp_path / "elsewhere.parquet"
    elsewhere.write_bytes(Path(inside.path.removeprefix("file://")).read_bytes())
    link = table.root / "data" / "link.parquet"
    link.symlink_to(elsewhere)
    for path in (f"file://{elsewhere}", str(elsewhere), f"file://{link}", f"file://{table.root}/../elsewhere.parquet"):
        outside = Entry(path, 1, inside.size, content=1, sequence=6)
        with pytest.raises(ParquetBloomError, match="is outside of the table's folder"):
            find(table, [data, outside])
        assert find(table, [data, outside], outside=True) == [3]


# ------------------------------------------------------------------------------------------------------ equality

VALUES: list[tuple[Any, pa.DataType, pa.DataType, list[Any], list[Any], list[int]]] = [
    ("long", pa.int64(), pa.int32(), [1, 2, None, 2], [2, None], [1, 2, 3]),
    ("double", pa.float64(), pa.float32(), [0.5, math.nan, -0.0, 0.0, None], [math.nan, 0.0], [1, 3]),
    ("float", pa.float32(), pa.float32(), [0.5, math.nan, -0.0, 0.0, None], [-0.0, None, 0.5], [0, 2, 4]),
    (
        "decimal(18, 2)",
        pa.decimal128(18, 2),
        pa.decimal128(9, 2),
        [decimal.Decimal("1.50"), decimal.Decimal("-0.01"), None],
        [decimal.Decimal("-0.01")],
        [1],
    ),
    ("timestamp", pa.timestamp("us"), pa.timestamp("us"), [1, -1, None], [-1, 7], [1]),
    ("timestamptz", pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), [1000, 1, None], [1, None], [0, 2]),
    ("timestamp_ns", pa.timestamp("ns"), pa.timestamp("ns"), [1, 2], [2], [1]),
    ("date", pa.date32(), pa.date32(), [1, None, 3], [3], [2]),
    ("time", pa.time64("us"), pa.time64("us"), [1, None, 3], [3], [2]),
    ("boolean", pa.bool_(), pa.bool_(), [True, False, None], [False], [1]),
    ("string", pa.large_string(), pa.string(), ["", "a", None, "é"], ["", "é"], [0, 3]),
    ("binary", pa.large_binary(), pa.binary(), [b"", b"\0", None], [b"\0"], [1]),
    ("fixed[2]", pa.binary(2), pa.binary(2), [b"ab", b"ac", None], [None, b"ac"], [1, 2]),
]


@pytest.mark.ci
@pytest.mark.parametrize(("kind", "arrow", "stored", "values", "deleted", "expected"), VALUES)
def test_equality_of_every_type(
    tmp_path: Path,
    kind: Any,
    arrow: pa.DataType,
    stored: pa.DataType,
    values: list[Any],
    deleted: list[Any],
    expected: list[int],
) -> None:
    table = HandTable(
        tmp_path / uuid.uuid4().hex, [[{"id": 7, "name": "a b", "required": False, "type": kind}, *FIELDS]], version=3
    )
    rows = pa.table({"a b": pa.array(values, arrow), "id": pa.array(range(len(values)), pa.int64())})
    data = table.write_file(rows, {"a b": 7, "id": 1}, sequence=1)
    entry = table.write_equality(pa.table({"x": pa.array(deleted, stored)}), {"x": 7}, sequence=2)
    assert find(table, [data, entry], rows) == expected
    # Of two columns both have to be equal.
    pairs = pa.table(
        {"x": pa.array([*deleted, *deleted], stored), "id": [0] * len(deleted) + [expected[-1]] * len(deleted)}
    )
    entry = table.write_equality(pairs, {"x": 7, "id": 1}, sequence=2)
    assert find(table, [data, entry], rows) == sorted({expected[-1], *({0} & set(expected))})


def test_equality_of_uuids_and_fields_of_structs(tmp_path: Path) -> None:
    ones = [uuid.uuid4() for _ in range(3)]
    inner = {"type": "struct", "fields": [{"id": 9, "name": "q", "required": False, "type": "string"}]}
    fields = [
        {"id": 7, "name": "u", "required": False, "type": "uuid"},
        {"id": 8, "name": "st", "required": False, "type": inner},
    ]
    table = HandTable(tmp_path / "t", [fields])
    stored = pa.array([one.bytes for one in ones], pa.binary(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    st = pa.array([None, {"q": None}, {"q": "a"}], pa.struct([("q", pa.large_string())]))
    rows = pa.table({"u": uuids, "st": st})
    data = table.write_file(rows, {"u": 7, "st": 8, "st.q": 9}, sequence=1)
    by_uuid = table.write_equality(pa.table({"u": stored.slice(1, 1)}), {"u": 7}, sequence=2)
    assert find(table, [data, by_uuid], rows) == [1]
    for values, expected in (([{"q": "a"}], [2]), ([None], [0, 1]), ([{"q": None}], [0, 1])):
        made = pa.table({"st": pa.array(values, pa.struct([("q", pa.string())]))})
        entry = table.write_equality(made, {"st": 8, "st.q": 9}, sequence=2, equality_ids=[9])
        assert find(table, [data, entry], rows) == expected
        assert find(table, [data, entry, by_uuid], rows) == sorted({1, *expected})


def test_equality_deletes_that_are_refused(tmp_path: Path) -> None:
    table, data = make(tmp_path / "t")
    dropped = table.write_equality(pa.table({"gone": [1]}), {"gone": 77}, sequence=6)
    assert "field id 77, which is not in the table's schema" in refuse(table, [data, dropped])
    nothing = table.write_equality(pa.table({"id": [1]}), {"id": 1}, sequence=6, equality_ids=[])
    assert "does not say for which columns" in refuse(table, [data, nothing])
    lacking = table.write_equality(pa.table({"id": [1]}), {"id": 1}, sequence=6, equality_ids=[1, 2])
    assert "has no column of field id 2, of 's'" in refuse(table, [data, lacking])
    for odd in (pa.array(["1"]), pa.array([1.0]), pa.array([1], pa.uint64()), pa.array([[1]])):
        entry = table.write_equality(pa.table({"id": odd}), {"id": 1}, sequence=6)
        assert "has 'id' as" in refuse(table, [data, entry])
    orc = table.write_equality(pa.table({"id": [1]}), {"id": 1}, sequence=6, file_format="ORC")
    assert "is ORC" in refuse(table, [data, orc])
    good = table.write_equality(pa.table({"id": [1]}), {"id": 1}, sequence=6)
    table.add_snapshot([data, good])
    (deletes,) = iceberg(table.write_metadata()).read_snapshot().deletes.values()
    with pytest.raises(ParquetBloomError, match="4 rows were read for its equality deletes instead of 5"):
        find_in(deletes, 0, 5, read_rows(ROWS, 0, 4))


def test_delete_files_are_read_once(tmp_path: Path) -> None:
    table = HandTable(tmp_path / "t", [FIELDS])
    files = [table.write_file(ROWS, IDS, sequence=1) for _ in range(4)]
    positions = table.write_positions([(file.path, i) for i, file in enumerate(files)], sequence=2)
    equality = table.write_equality(pa.table({"id": [8]}), {"id": 1}, sequence=2)
    table.add_snapshot([*files, positions, equality])
    snapshot = iceberg(table.write_metadata()).read_snapshot()

    def ask(number: int) -> list[int]:
        path = snapshot.files[number % 4].path
        return find_in(snapshot.deletes[path], 0, 10, read_rows(ROWS, 0, 10))

    with watching_opens(table.root / "data") as opened, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(40)))
    assert answers == [[i % 4, 8] for i in range(40)]
    assert sorted(opened) == sorted(Path(entry.path).name for entry in (positions, equality))
    again = pickle.loads(pickle.dumps(snapshot.deletes))
    assert find_in(again[snapshot.files[2].path], 0, 10, read_rows(ROWS, 0, 10)) == [2, 8]


def test_the_cache_is_bounded() -> None:
    cache = SizedCache(100)
    read: list[int] = []

    def get(key: int, size: int) -> int:
        return cache.get(key, lambda: (read.append(key), (key, size))[1])

    assert [get(1, 60), get(2, 30), get(1, 60), get(3, 60), get(1, 60), get(4, 1000), get(4, 1000)] == [
        1,
        2,
        1,
        3,
        1,
        4,
        4,
    ]
    assert read == [1, 2, 3, 1, 4]  # 3 left no room for 1

    def fail() -> tuple[int, int]:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cache.get(9, fail)


def test_blobs_are_as_the_specification_has_them() -> None:
    """Read by hand: 3 and 4, of one array container."""
    blob = make_blob([3, 4])
    assert blob[:8] == (len(blob) - 8).to_bytes(4, "big") + bytes.fromhex("d1d33964")
    assert blob[8:20] == bytes.fromhex("0100000000000000" + "00000000")
    assert blob[-8:-4] == bytes.fromhex("03000400")
