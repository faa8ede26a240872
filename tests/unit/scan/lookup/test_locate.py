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
from support.scans import elsewhere, make_locator
from support.writers.delta_log import add, beginning, column, commit, inline_vector
from support.writers.iceberg_tables import Entry, HandTable

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.scan.lookup import key_chunks
from parquet_bloom.scan.lookup.locate_keys import Locator
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


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_types(tmp_path: Path, kind: str) -> None:
    """Few keys are planned, many are searched for: as an Arrow array, and as Python values."""
    tables = write_lake(tmp_path / "lake", kind)
    dataset = parquet_bloom.dataset(tmp_path / "lake")
    single = parquet_bloom.dataset("lake", filesystem=elsewhere(tmp_path))  # searched as pyarrow decodes them
    for count in (5, 12_000):
        numbers = np.random.default_rng(count).integers(0, FILES * ROWS, count)
        keys = make_values(kind, np.concatenate([numbers, numbers[:3]]))
        expected = expect(tmp_path / "lake", tables, keys.to_pylist())
        assert expected
        located = dataset.locate("key", keys)
        assert to_rows(located) == expected
        in_single = [(key, str(tmp_path / path), *rest) for key, path, *rest in to_rows(single.locate("key", keys))]
        assert in_single == expected
        assert located.schema.names == ["key", "path", "row_group", "row"]
        assert [field.type for field in located.schema][1:] == [pa.string(), pa.int32(), pa.int64()]
        if kind not in ("timestamp_ns",):
            assert to_rows(dataset.locate("key", keys.to_pylist())) == expected


@pytest.mark.ci
@pytest.mark.parametrize("form", ["plain", "pages", "v2"])
def test_ways_of_reading(tmp_path: Path, form: str) -> None:
    options: dict[str, Any] = {
        "plain": {"use_dictionary": False, "compression": "none"},
        "pages": {"write_page_index": True, "data_page_size": 500, "use_dictionary": False},
        "v2": {"data_page_version": "2.0", "compression": "zstd"},
    }[form]
    tables = write_lake(tmp_path / "lake", **options)
    for keys in ([17], [*range(0, 9000, 37)], [*range(0, 9000, 4)]):
        for root, filesystem in ((tmp_path / "lake", None), (Path("lake"), elsewhere(tmp_path))):
            located = parquet_bloom.dataset(str(root), filesystem=filesystem).locate("key", keys)
            assert to_rows(located) == expect(root, tables, keys)


def test_windows_of_a_large_row_group(tmp_path: Path) -> None:
    tables = write_lake(tmp_path / "lake")
    keys = [*range(0, 9000, 3)]
    located = make_locator("lake", "key", Limits(max_bytes=4000), filesystem=elsewhere(tmp_path)).read_table(keys)
    assert to_rows(located) == expect(Path("lake"), tables, keys)


def test_chunks_of_keys(tmp_path: Path) -> None:
    """Keys that are too many at once are searched for in parts; a key that comes twice is there once."""
    tables = write_lake(tmp_path / "lake", "string")
    keys = make_values("string", np.concatenate([np.arange(0, 6000), np.arange(3000, 9000)]))
    expected = expect(tmp_path / "lake", tables, keys.to_pylist())
    counts: list[tuple[int, int]] = []
    limits = Limits(few_keys=100, chunk_keys=1500)
    locator = make_locator(tmp_path / "lake", "key", limits, lambda *count: counts.append(count))
    assert to_rows(locator.read_table(keys)) == expected
    assert [done for done, _ in counts] == [*range(1, len(counts) + 1)]
    assert [total for _, total in counts] == [(done // FILES + 1) * FILES for done in range(len(counts))]
    assert len(counts) > 4 * FILES  # of so many searches at least
    pq.write_table(pa.table({"more": pa.nulls(len(keys)), "key": keys}), tmp_path / "keys.parquet", row_group_size=999)
    batches = pq.ParquetFile(tmp_path / "keys.parquet").iter_batches(500, columns=["key"])
    stream = pa.RecordBatchReader.from_batches(pa.schema({"key": pa.string()}), batches)
    chunks = [*key_chunks.iterate_chunks("key", tmp_path / "keys.parquet", 1500)]
    assert len(chunks) > 4
    assert sum(map(len, chunks)) == 9000
    assert max(map(len, chunks)) <= 1500
    for given in (tmp_path / "keys.parquet", stream):
        found = pa.Table.from_batches(make_locator(tmp_path / "lake", "key", limits).read_batches(given))
        assert sorted(to_rows(found)) == sorted(expected)


@pytest.mark.ci
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
def test_keys_that_mean_one_value(tmp_path: Path, column: Any, keys: Any) -> None:
    """A row of two keys that are searched for one after the other is found once; 30 rows have the value."""
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
    locator = make_locator(tmp_path, column, Limits(chunk_keys=1, chunk_tuples=1))
    expected = [(f"{tmp_path}/{name}.parquet", row // 20, row) for name in ("a", "b") for row in range(count)]
    assert [row[1:] for row in to_rows(locator.read_table(keys))] == expected
    batches = pa.Table.from_batches(locator.read_batches(keys))
    assert sorted(row[1:] for row in to_rows(batches)) == expected


@pytest.mark.ci
@pytest.mark.parametrize("size", [20, 100_000])
def test_keys_of_several_columns(tmp_path: Path, size: int) -> None:
    tables = write_lake(tmp_path / "lake")
    pairs = [(number, number % 10 if number % 3 else 3) for number in range(0, 9000, 100)]
    names = ["key", "other"]
    expected = expect(tmp_path / "lake", tables, pairs, names)
    assert 50 < len(expected) < 200
    locator = make_locator(tmp_path / "lake", names, Limits(few_keys=30, chunk_tuples=size, matched_rows=100))
    as_table = pa.table({"key": [a for a, _ in pairs], "other": [b for _, b in pairs]})
    for keys in (pairs + pairs[:9], as_table, {"key": as_table["key"].to_pylist(), "other": as_table["other"]}):
        assert to_rows(locator.read_table(keys)) == expected
    assert to_rows(locator.read_table(pairs[3])) == expect(tmp_path / "lake", tables, pairs[3:4], names)


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
def test_keys_of_another_type(tmp_path: Path, column_type: Any, keys: Any) -> None:
    """They are what they are as literals of a predicate, few and many."""
    numbers = [*range(10)]
    values = {pa.string(): [str(n) for n in numbers], pa.uuid(): [uuid.UUID(int=n).bytes for n in numbers]}
    if column_type == pa.uuid():
        array = pa.ExtensionArray.from_storage(column_type, pa.array(values[column_type], pa.binary(16)))
    else:
        array = pa.array(values.get(column_type, numbers), column_type)
    pq.write_table(pa.table({"key": array}), tmp_path / "0.parquet")
    expected = [n for n in numbers if array[n] in [array[5], *([array[7]] if pa.types.is_floating(keys.type) else [])]]
    expected += [6] if column_type == pa.float64() else []
    for few in (0, 1000):
        locator = make_locator(tmp_path / "0.parquet", "key", Limits(few_keys=few))
        assert locator.read_table(keys)["row"].to_pylist() == expected


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
    for keys in (["a"], pa.array([f"x{number}" for number in range(5000)])):
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


def test_an_index_for_keys_in_parts(tmp_path: Path) -> None:
    """Files are in one order, though the keys of each part are in others of them."""
    (tmp_path / "lake").mkdir()
    tables = [pa.table({"key": range(number * 100, number * 100 + 100)}) for number in (3, 0, 2, 1)]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"lake/{number}.parquet", row_group_size=GROUP)
    with parquet_bloom.LakeIndex.create(tmp_path / "index", ["key"]) as index:
        index.append(tmp_path / "lake")
    keys = [*range(0, 400, 4)]
    for few in (5, 1000):
        limits = Limits(few_keys=few, chunk_keys=20)
        locator = make_locator(tmp_path / "lake", "key", limits, index=tmp_path / "index")
        assert to_rows(locator.read_table(keys)) == expect(tmp_path / "lake", tables, keys)


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


def test_a_file_that_is_replaced_meanwhile(tmp_path: Path) -> None:
    """Its positions are those of the new version, or there is an error."""
    tables = write_lake(tmp_path / "lake")
    keys = [*range(0, 9000, 3)]

    class ReplacedAfterPlan(ScanSource):
        def plan(self, *arguments: Any) -> Any:
            result = super().plan(*arguments)
            tables[2] = tables[2].slice(1000, 1800)
            pq.write_table(tables[2], tmp_path / "new", row_group_size=GROUP)
            (tmp_path / "new").replace(tmp_path / "lake/2.parquet")
            return result

    source, schema = fix_schema(ScanSource(tmp_path / "lake").resolve())
    locator = Locator(ReplacedAfterPlan(**vars(source)), schema, None, "key", ScanOptions())
    assert to_rows(locator.read_table(keys)) == expect(tmp_path / "lake", tables, keys)


def test_a_stream_that_is_closed_early(tmp_path: Path) -> None:
    write_lake(tmp_path / "lake")
    before = threading.active_count()
    stream = parquet_bloom.dataset(tmp_path / "lake").locate_batches("key", [*range(9000)], threads=4)
    assert stream.read_next_batch().num_rows
    del stream
    assert threading.active_count() <= before + 1
