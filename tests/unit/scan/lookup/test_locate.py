"""`Dataset.locate` gives the positions that a pass over all rows gives, in any number of keys and of any type."""

from __future__ import annotations

import datetime as dt
import decimal
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from support.one_by_one import read_local_files_one_by_one
from support.writers.delta_log import add, beginning, column, commit, inline_vector
from support.writers.iceberg_tables import Entry, HandTable

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.predicate import row_filter
from parquet_bloom.scan.lookup import key_chunks, locate_keys
from parquet_bloom.scan.scan_options import Limits, ScanOptions
from parquet_bloom.scan.scan_source import ScanSource, fix_schema

FILES, ROWS, GROUP = 6, 3000, 700

Position = tuple[Any, str, int, int]

EPOCH = dt.datetime(2024, 1, 1)


def make_values(kind: str, numbers: np.ndarray) -> pa.Array:
    """Return different values for different numbers, of a type."""
    plain = numbers.tolist()
    makers: dict[str, Callable[[], pa.Array]] = {
        "int64": lambda: pa.array(plain, pa.int64()),
        "int32": lambda: pa.array(plain, pa.int32()),
        "uint64": lambda: pa.array([number + (1 << 63) for number in plain], pa.uint64()),
        "int16": lambda: pa.array([number % 3000 for number in plain], pa.int16()),
        "string": lambda: pa.array([f"n{number}" * (1 + number % 3) for number in plain]),
        "large_string": lambda: pa.array([f"n{number}" for number in plain], pa.large_string()),
        "dictionary": lambda: pa.array([f"n{number}" for number in plain]).dictionary_encode(),
        "binary": lambda: pa.array([number.to_bytes(1 + number % 9 + 4, "big") for number in plain]),
        "fixed": lambda: pa.array([number.to_bytes(12, "big") for number in plain], pa.binary(12)),
        "uuid": lambda: pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([uuid.UUID(int=number << 64).bytes for number in plain], pa.binary(16))
        ),
        "double": lambda: pa.array([number / 7 for number in plain]),
        "float": lambda: pa.array([number / 4 for number in plain], pa.float32()),
        "decimal": lambda: pa.array([decimal.Decimal(number) / 100 for number in plain], pa.decimal128(20, 2)),
        "date": lambda: pa.array([dt.date(1970, 1, 1) + dt.timedelta(days=number) for number in plain]),
        "timestamp": lambda: pa.array([EPOCH + dt.timedelta(seconds=number) for number in plain], pa.timestamp("us")),
        "timestamp_ns": lambda: pa.array([number * 10**9 + 5 for number in plain], pa.timestamp("ns", "UTC")),
        "bool": lambda: pa.array([number % 2 == 1 for number in plain]),
    }
    return makers[kind]()


KINDS = ["int64", "int32", "uint64", "int16", "string", "large_string", "dictionary", "binary", "fixed", "uuid"]
KINDS += ["double", "float", "decimal", "date", "timestamp", "timestamp_ns", "bool"]


def write_lake(root: Path, kind: str = "int64", **options: Any) -> list[pa.Table]:
    """Write files in which most numbers come about twice, and some rows are null."""
    rng = np.random.default_rng(7)
    root.mkdir(parents=True, exist_ok=True)
    tables = []
    for number in range(FILES):
        numbers = rng.integers(0, FILES * ROWS // 2, ROWS)
        values = make_values(kind, numbers)
        nulls = pa.array(rng.random(ROWS) < 0.1)
        key = pa.array(nulls.to_pylist()).cast(pa.bool_())
        values = values.take(pa.array(np.where(np.asarray(key), -1, np.arange(ROWS)), mask=np.asarray(key)))
        tables.append(pa.table({"key": values, "other": pa.array(numbers % 10), "text": [f"t{n}" for n in numbers]}))
        pq.write_table(tables[-1], root / f"{number}.parquet", row_group_size=GROUP, **options)
    return tables


def expect(
    root: Path, tables: Sequence[pa.Table], keys: Any, names: Sequence[str] = ("key",), deleted: Any = None
) -> list[Position]:
    """Return the positions by a pass over all rows."""
    wanted = set(keys)
    rows: list[Position] = []
    for number, table in enumerate(tables):
        columns = [table[name].to_pylist() for name in names]
        for row, values in enumerate(zip(*columns, strict=True)):
            key = values[0] if len(names) == 1 else values
            if key in wanted and not (deleted and row in deleted[number]):
                shown = key if len(names) == 1 else dict(zip(names, values, strict=True))
                rows.append((shown, str(root / f"{number}.parquet"), row // GROUP, row))
    return rows


def to_rows(table: pa.Table) -> list[Position]:
    return [*zip(*(table[name].to_pylist() for name in ("key", "path", "row_group", "row")), strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_types(tmp_path: Path, kind: str) -> None:
    """Few keys are planned, many are searched for: as an Arrow array, and as Python values."""
    tables = write_lake(tmp_path / "lake", kind)
    dataset = parquet_bloom.dataset(tmp_path / "lake")
    for count in (5, 4000):
        numbers = np.random.default_rng(count).integers(0, FILES * ROWS, count)
        keys = make_values(kind, np.concatenate([numbers, numbers[:3]]))
        expected = expect(tmp_path / "lake", tables, keys.to_pylist())
        assert expected
        located = dataset.locate("key", keys)
        assert to_rows(located) == expected
        assert located.schema.names == ["key", "path", "row_group", "row"]
        assert [field.type for field in located.schema][1:] == [pa.string(), pa.int32(), pa.int64()]
        if kind not in ("timestamp_ns",):
            assert to_rows(dataset.locate("key", keys.to_pylist())) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_types_in_files_that_are_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Many keys are then searched for in the columns as pyarrow decodes them."""
    read_local_files_one_by_one(monkeypatch)
    monkeypatch.setattr(row_filter, "_MANY_PROBES", 100)
    tables = write_lake(tmp_path / "lake", kind)
    keys = make_values(kind, np.random.default_rng(3).integers(0, FILES * ROWS, 4000))
    located = parquet_bloom.dataset(tmp_path / "lake").locate("key", keys.slice(500))
    assert to_rows(located) == expect(tmp_path / "lake", tables, keys.slice(500).to_pylist())


@pytest.mark.parametrize("by_batches", [True, False])
@pytest.mark.parametrize("form", ["plain", "pages", "v2"])
def test_ways_of_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_batches: bool, form: str) -> None:
    options: dict[str, Any] = {
        "plain": {"use_dictionary": False, "compression": "none"},
        "pages": {"write_page_index": True, "data_page_size": 500, "use_dictionary": False},
        "v2": {"data_page_version": "2.0", "compression": "zstd"},
    }[form]
    if not by_batches:
        read_local_files_one_by_one(monkeypatch)
    tables = write_lake(tmp_path / "lake", **options)
    for keys in ([17], [*range(0, 9000, 37)], [*range(0, 9000, 4)]):
        located = parquet_bloom.dataset(tmp_path / "lake").locate("key", keys)
        assert to_rows(located) == expect(tmp_path / "lake", tables, keys)


def test_windows_of_a_large_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = write_lake(tmp_path / "lake")
    read_local_files_one_by_one(monkeypatch)
    keys = [*range(0, 9000, 3)]
    source, schema = fix_schema(ScanSource(tmp_path / "lake").resolve())
    locator = locate_keys.Locator(source, schema, None, "key", ScanOptions(limits=Limits(max_bytes=4000)))
    located = locator.read_table(keys)
    assert to_rows(located) == expect(tmp_path / "lake", tables, keys)


def test_chunks_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are too many at once are searched for in parts; a key that comes twice is there once."""
    tables = write_lake(tmp_path / "lake", "string")
    monkeypatch.setattr(key_chunks, "CHUNK_KEYS", 1500)
    monkeypatch.setattr(locate_keys, "FEW_KEYS", 100)
    keys = make_values("string", np.concatenate([np.arange(0, 6000), np.arange(3000, 9000)]))
    expected = expect(tmp_path / "lake", tables, keys.to_pylist())
    dataset = parquet_bloom.dataset(tmp_path / "lake")
    counts: list[tuple[int, int]] = []
    assert to_rows(dataset.locate("key", keys, progress=lambda *count: counts.append(count))) == expected
    assert [done for done, _ in counts] == [*range(1, len(counts) + 1)]
    assert [total for _, total in counts] == [(done // FILES + 1) * FILES for done in range(len(counts))]
    assert len(counts) > 4 * FILES  # of so many searches at least
    pq.write_table(pa.table({"more": pa.nulls(len(keys)), "key": keys}), tmp_path / "keys.parquet", row_group_size=999)
    batches = pq.ParquetFile(tmp_path / "keys.parquet").iter_batches(500, columns=["key"])
    stream = pa.RecordBatchReader.from_batches(pa.schema({"key": pa.string()}), batches)
    chunks = [*key_chunks.iterate_chunks("key", tmp_path / "keys.parquet")]
    assert len(chunks) > 4
    assert sum(map(len, chunks)) == 9000
    assert max(map(len, chunks)) <= 1500
    for given in (tmp_path / "keys.parquet", stream):
        located = dataset.locate_batches("key", given).read_all()
        assert sorted(to_rows(located)) == sorted(expected)


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        ("float", pa.array([0.1, *(float(number) for number in range(40, 60)), 0.10000000001])),
        ("double", [decimal.Decimal(text) for text in ("0.1", *map(str, range(40, 60)), "0.10000000000000000001")]),
        ("at", ["2024-01-01 00:00:00", *(f"2023-01-{n:02}" for n in range(1, 21)), "2024-01-01T00:00:00Z"]),
        (
            "uuid",
            [str(uuid.UUID(int=10)), *(str(uuid.UUID(int=n)) for n in range(40, 60)), str(uuid.UUID(int=10)).upper()],
        ),
        (
            ["double", "number"],
            [(text, 7) for text in map(decimal.Decimal, ("0.1", *range(40, 60), "0.10000000000000000001"))],
        ),
    ],
    ids=["float", "double", "timestamp", "uuid", "tuple"],
)
def test_keys_that_mean_one_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: Any, keys: Any) -> None:
    """A row of two keys that are searched for one after the other is found once; 30 rows have the value."""
    monkeypatch.setattr(key_chunks, "CHUNK_KEYS", 1)
    monkeypatch.setattr(key_chunks, "CHUNK_TUPLES", 1)
    count = 30
    table = pa.table(
        {
            "float": pa.array([0.1] * count, pa.float32()),
            "double": pa.array([0.1] * count),
            "at": pa.array([EPOCH] * count, pa.timestamp("us", "UTC")),
            "uuid": pa.ExtensionArray.from_storage(
                pa.uuid(), pa.array([uuid.UUID(int=10).bytes] * count, pa.binary(16))
            ),
            "number": pa.array([7] * count),
        }
    )
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=20)
    dataset = parquet_bloom.dataset(tmp_path)
    expected = [(f"{tmp_path}/{name}.parquet", row // 20, row) for name in ("a", "b") for row in range(count)]
    assert [row[1:] for row in to_rows(dataset.locate(column, keys))] == expected
    assert sorted(row[1:] for row in to_rows(dataset.locate_batches(column, keys).read_all())) == expected


@pytest.mark.parametrize("size", [20, 100_000])
def test_keys_of_several_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    tables = write_lake(tmp_path / "lake")
    monkeypatch.setattr(key_chunks, "CHUNK_TUPLES", size)
    monkeypatch.setattr(locate_keys, "FEW_KEYS", 30)
    monkeypatch.setattr(locate_keys, "_MATCHED_ROWS", 100)
    pairs = [(number, number % 10 if number % 3 else 3) for number in range(0, 9000, 100)]
    names = ["key", "other"]
    expected = expect(tmp_path / "lake", tables, pairs, names)
    assert 50 < len(expected) < 200
    dataset = parquet_bloom.dataset(tmp_path / "lake")
    as_table = pa.table({"key": [a for a, _ in pairs], "other": [b for _, b in pairs]})
    for keys in (pairs + pairs[:9], as_table, {"key": as_table["key"].to_pylist(), "other": as_table["other"]}):
        assert to_rows(dataset.locate(names, keys)) == expected
    assert to_rows(dataset.locate(names, pairs[3])) == expect(tmp_path / "lake", tables, pairs[3:4], names)


def test_numbers_that_are_equal(tmp_path: Path) -> None:
    """Zeros are equal whatever their signs, and so are all NaN."""
    nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    values = [0.0, -0.0, nan[0], nan[1], 1.5, None]
    pq.write_table(pa.table({"key": pa.array(values, pa.float64(), from_pandas=False)}), tmp_path / "0.parquet")
    dataset = parquet_bloom.dataset(tmp_path / "0.parquet")
    for filler in ([], [float(number) for number in range(5, 20_000)]):
        located = dataset.locate("key", pa.array([-0.0, float("nan"), *filler]))
        assert located["row"].to_pylist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("column_type", "keys"),
    [
        (pa.int16(), pa.array([5, 70_000, -1], pa.int64())),
        (pa.int64(), pa.array([5.0, 5.5, 7.0])),
        (pa.int64(), pa.array([decimal.Decimal("5.00"), decimal.Decimal("1e20")])),
        (pa.float64(), pa.array([5, 6], pa.int32())),
        (pa.string(), pa.array(["5", "x"], pa.large_string())),
        (pa.string(), pa.array(["5", "5", "x"]).dictionary_encode()),
        (pa.timestamp("us"), pa.array([5_000, 6], pa.timestamp("ns"))),
        (pa.uuid(), pa.array([str(uuid.UUID(int=5))])),
    ],
)
def test_keys_of_another_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column_type: Any, keys: Any) -> None:
    """They are what they are as literals of a predicate, few and many."""
    numbers = [*range(10)]
    values = {pa.string(): [str(n) for n in numbers], pa.uuid(): [uuid.UUID(int=n).bytes for n in numbers]}
    if column_type == pa.uuid():
        array = pa.ExtensionArray.from_storage(column_type, pa.array(values[column_type], pa.binary(16)))
    else:
        array = pa.array(values.get(column_type, numbers), column_type)
    pq.write_table(pa.table({"key": array}), tmp_path / "0.parquet")
    dataset = parquet_bloom.dataset(tmp_path / "0.parquet")
    expected = [n for n in numbers if array[n] in [array[5], *([array[7]] if pa.types.is_floating(keys.type) else [])]]
    expected += [6] if column_type == pa.float64() else []
    assert dataset.locate("key", keys)["row"].to_pylist() == expected
    monkeypatch.setattr(locate_keys, "FEW_KEYS", 0)
    assert dataset.locate("key", keys)["row"].to_pylist() == expected


def test_errors(tmp_path: Path) -> None:
    lists = pa.array([[1], [2]])
    pq.write_table(pa.table({"key": [1, 2], "list": lists, "text": ["a", "b"]}), tmp_path / "0.parquet")
    dataset = parquet_bloom.dataset(tmp_path / "0.parquet")
    many = pa.array(range(5000))
    with pytest.raises(PredicateError, match=r"'list': a list<element: int64> has no single values"):
        dataset.locate("list", [1])
    with pytest.raises(PredicateError, match=r"a key is a list"):
        dataset.locate("key", lists)
    with pytest.raises(UnknownColumnError, match=r"'none': no such column"):
        dataset.locate("none", [1])
    for keys in ([1, None], pa.array([1, None]), pa.array([*range(5000), None])):
        with pytest.raises(PredicateError, match=r"a key is null"):
            dataset.locate("key", keys)
    for keys in (["a"], pa.array([f"{number}" for number in range(5000)])):
        with pytest.raises(PredicateError, match=r"compare"):
            dataset.locate("key", keys)
    with pytest.raises(PredicateError, match=r"compare"):
        dataset.locate("text", many)
    with pytest.raises(PredicateError, match=r"no type in common"):
        dataset.locate("key", [1, "a"])
    for names in (3, [3], None, {"key": 1}):
        with pytest.raises(ParquetBloomError, match=r"a name, or a list of names"):
            dataset.locate(names, [1])  # type: ignore[arg-type]
    with pytest.raises(PredicateError, match=r"a key needs a column"):
        dataset.locate([], [1])
    with pytest.raises(PredicateError, match=r"the keys have no such column, but other"):
        dataset.locate("key", pa.table({"other": [1]}))
    with pytest.raises(ParquetBloomError, match=r"nothing\.parquet"):
        dataset.locate("key", tmp_path / "nothing.parquet")
    (tmp_path / "text").write_bytes(b"no keys here")
    with pytest.raises(ParquetBloomError, match=r"text: its keys cannot be read"):
        dataset.locate("key", tmp_path / "text")


def test_no_keys(tmp_path: Path) -> None:
    write_lake(tmp_path / "lake")
    dataset = parquet_bloom.dataset(tmp_path / "lake")
    for keys in ([], pa.array([], pa.int64()), pa.array([], pa.null()), np.empty(0, np.int64)):
        located = dataset.locate("key", keys)
        assert located.num_rows == 0
        assert located.schema.field("key").type == pa.int64()
    assert dataset.locate("key", [10**9]).num_rows == 0


def test_partitions_and_members_of_structs(tmp_path: Path) -> None:
    """A partition column is a key as any other, alone and beside one of the files."""
    for day in (1, 2, 3):
        folder = tmp_path / "lake" / f"day={day}"
        folder.mkdir(parents=True)
        inner = pa.array([{"a": number + day, "b": None} for number in range(10)])
        pq.write_table(pa.table({"key": range(10), "inner": inner}), folder / "0.parquet", row_group_size=4)
    dataset = parquet_bloom.dataset(tmp_path / "lake")
    located = dataset.locate("day", [1, 3, 9])
    assert located["key"].to_pylist() == [1] * 10 + [3] * 10
    assert located["row"].to_pylist() == [*range(10)] * 2
    assert located["row_group"].to_pylist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2] * 2
    for pairs in ([(2, 5), (3, 5), (1, 11)], [(2, 5), (3, 5), *((9, number) for number in range(3000))]):
        located = dataset.locate(["day", "key"], pairs)
        assert located["key"].to_pylist() == [{"day": 2, "key": 5}, {"day": 3, "key": 5}]
        assert located["row"].to_pylist() == [5, 5]
    located = dataset.locate("inner.a", [3, 4])
    assert located["key"].to_pylist() == [3, 3, 4, 3, 4] or sorted(located["key"].to_pylist()) == [3, 3, 3, 4, 4, 4]


def test_an_index(tmp_path: Path) -> None:
    tables = write_lake(tmp_path / "lake")
    with parquet_bloom.LakeIndex.create(tmp_path / "index", ["key"]) as index:
        index.append(tmp_path / "lake")
    dataset = parquet_bloom.dataset(tmp_path / "lake", index=tmp_path / "index")
    for keys in ([17, 20], [*range(0, 9000, 3)]):
        assert to_rows(dataset.locate("key", keys)) == expect(tmp_path / "lake", tables, keys)
    rows = tables[0].slice(0, 100)
    pq.write_table(rows, tmp_path / "lake/6.parquet")
    for keys in ([17, *rows["key"].drop_null().to_pylist()[:2]], [*range(0, 9000, 3)]):
        assert to_rows(dataset.locate("key", keys)) == expect(tmp_path / "lake", [*tables, rows], keys)


def test_an_index_for_keys_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are in one order, though the keys of each part are in others of them."""
    (tmp_path / "lake").mkdir()
    tables = [pa.table({"key": range(number * 100, number * 100 + 100)}) for number in (3, 0, 2, 1)]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"lake/{number}.parquet", row_group_size=GROUP)
    with parquet_bloom.LakeIndex.create(tmp_path / "index", ["key"]) as index:
        index.append(tmp_path / "lake")
    monkeypatch.setattr(key_chunks, "CHUNK_KEYS", 20)
    dataset = parquet_bloom.dataset(tmp_path / "lake", index=tmp_path / "index")
    keys = [*range(0, 400, 4)]
    for few in (5, 1000):
        monkeypatch.setattr(locate_keys, "FEW_KEYS", few)
        assert to_rows(dataset.locate("key", keys)) == expect(tmp_path / "lake", tables, keys)


def test_orc(tmp_path: Path) -> None:
    table = pa.table(
        {"key": pa.array([n % 20_000 if n % 11 else None for n in range(50_000)]), "pad": ["x" * 9] * 50_000}
    )
    po.write_table(table, tmp_path / "0.orc", stripe_size=100_000, row_index_stride=10_000)
    dataset = parquet_bloom.dataset(tmp_path / "0.orc")
    for keys in ([25], [*range(0, 20_000, 7)]):
        located = dataset.locate("key", keys)
        wanted = set(keys)
        assert located["row"].to_pylist() == [row for row, key in enumerate(table["key"].to_pylist()) if key in wanted]


def test_iceberg_deletes(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    pytest.importorskip("pyroaring")
    fields = [{"id": 1, "name": "key", "required": False, "type": "long"}]
    table = HandTable(tmp_path / "t", [fields], version=2)
    tables = [one.select(["key"]) for one in write_lake(tmp_path / "unused")]
    entries: list[Entry] = [table.write_file(one, {"key": 1}, group=GROUP, sequence=1) for one in tables]
    gone = [{*range(number, ROWS, 2 + number)} if number % 2 else set() for number in range(FILES)]
    pairs = [(entry.path, row) for entry, rows in zip(entries, gone, strict=True) for row in sorted(rows)]
    by_value = pa.table({"key": [0, 3, 6]})
    order = [*entries, table.write_positions(pairs, sequence=2)]
    order.append(table.write_equality(by_value, {"key": 1}, equality_ids=[1], sequence=3))
    table.add_snapshot(order)
    source = parquet_bloom.iceberg(table.write_metadata())
    for keys in ([3, 9, 12], [*range(0, 9000, 3)]):
        located = parquet_bloom.dataset(source).locate("key", keys)
        rows = expect(tmp_path, tables, set(keys) - {0, 3, 6}, deleted=gone)
        paths = {str(tmp_path / f"{number}.parquet"): entry.path for number, entry in enumerate(entries)}
        assert [(key, Path(path).name, *rest) for key, path, *rest in to_rows(located)] == [
            (key, Path(paths[path]).name, *rest) for key, path, *rest in rows
        ]


def test_delta_deletes(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    root = tmp_path / "t"
    tables = write_lake(root)
    gone = [{*range(number, ROWS, 2 + number)} if number % 2 else set() for number in range(FILES)]
    actions = [
        *beginning(
            [column("key", "long"), column("other", "long"), column("text", "string")], features=["deletionVectors"]
        )
    ]
    for number, rows in enumerate(gone):
        members = {"deletionVector": inline_vector(sorted(rows))} if rows else {}
        size = (root / f"{number}.parquet").stat().st_size
        actions.append(add(f"{number}.parquet", size, {"numRecords": ROWS}, **members))
    commit(root, 0, actions)
    for keys in ([3, 9, 12], [*range(0, 9000, 3)]):
        located = parquet_bloom.dataset(parquet_bloom.delta(root)).locate("key", keys)
        assert [(key, Path(path).name, *rest) for key, path, *rest in to_rows(located)] == [
            (key, Path(path).name, *rest) for key, path, *rest in expect(root, tables, keys, deleted=gone)
        ]


def test_a_file_that_is_replaced_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its positions are those of the new version, or there is an error."""
    tables = write_lake(tmp_path / "lake")
    dataset = parquet_bloom.dataset(tmp_path / "lake")
    keys = [*range(0, 9000, 3)]
    original = locate_keys.Locator._plan

    def plan(self: locate_keys.Locator, *args: Any, **options: Any) -> Any:
        result = original(self, *args, **options)
        tables[2] = tables[2].slice(1000, 1800)
        pq.write_table(tables[2], tmp_path / "new", row_group_size=GROUP)
        (tmp_path / "new").replace(tmp_path / "lake/2.parquet")
        return result

    monkeypatch.setattr(locate_keys.Locator, "_plan", plan)
    assert to_rows(dataset.locate("key", keys)) == expect(tmp_path / "lake", tables, keys)


def test_a_stream_that_is_closed_early(tmp_path: Path) -> None:
    write_lake(tmp_path / "lake")
    before = threading.active_count()
    stream = parquet_bloom.dataset(tmp_path / "lake").locate_batches("key", [*range(9000)], threads=4)
    assert stream.read_next_batch().num_rows
    del stream
    assert threading.active_count() <= before + 1
