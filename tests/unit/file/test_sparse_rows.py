"""Rows searched for and taken out of pages are those that pyarrow reads, whatever the pages are like."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.one_by_one import read_local_files_one_by_one
from support.servers.in_memory import InMemory

import parquet_bloom
from parquet_bloom.errors import MalformedFooterError, UnusualPageError
from parquet_bloom.file.pages.chunk_batch import ChunkBatch, PageHeaders
from parquet_bloom.file.pages.decompress import decompress
from parquet_bloom.file.pages.fetched_ranges import FetchedRanges
from parquet_bloom.file.pages.page_columns import find_page_columns
from parquet_bloom.file.pages.row_group_batch import RowGroupBatch, RowGroups, RowsOfGroups
from parquet_bloom.metadata.page_decode import StoredColumn
from parquet_bloom.metadata.page_match import Targets
from parquet_bloom.metadata.thrift_compact import I32, STRUCT, index_pages, write_struct
from parquet_bloom.storage import OpenFiles

ROWS = 4000
LISTS = 800


def make_table(rng: np.random.Generator, nulls: float, distinct: int) -> pa.Table:
    """Return a table with a column of each type that pages are searched for, or rows taken of."""
    keys = rng.integers(0, distinct, ROWS)
    missing = rng.random(ROWS) < nulls
    texts = [f"text {key}" * int(key % 4) for key in keys]
    columns: dict[str, Any] = {
        "i32": pa.array(keys.astype(np.int32), mask=missing),
        "i64": pa.array(keys << 33, mask=missing),
        "text": pa.array(texts, pa.string(), mask=missing),
        "bytes": pa.array([text.encode() for text in texts], pa.binary(), mask=missing),
        "fixed": pa.array([bytes([key % 251]) * 5 for key in keys.tolist()], pa.binary(5), mask=missing),
        "date": pa.array(keys.astype(np.int32), pa.date32(), mask=missing),
        "f64": pa.array(rng.random(ROWS), mask=missing),
        "time": pa.array(keys, pa.timestamp("us"), mask=missing),
        "i8": pa.array((keys % 200 - 100).astype(np.int8), mask=missing),
        "u16": pa.array((keys % 60_000).astype(np.uint16), mask=missing),
        "large": pa.array(texts, pa.large_string(), mask=missing),
        "small decimal": pa.array([Decimal(int(key)) / 100 for key in keys], pa.decimal128(7, 2), mask=missing),
        "decimal": pa.array([-Decimal(int(key)) * 10**9 for key in keys], pa.decimal128(30, 4), mask=missing),
        "dictionary": pa.array(texts, pa.string(), mask=missing).dictionary_encode(),
        "flag": pa.array(keys % 2 == 0, mask=missing),
        "list": pa.array([[key, None] for key in keys.tolist()], pa.list_(pa.int64()), mask=missing),
        "row": pa.array(range(ROWS)),
    }
    return pa.table(columns)


DELTAS = dict.fromkeys(("i32", "i64", "date", "i8", "u16", "time", "row"), "DELTA_BINARY_PACKED")
DELTAS |= {"text": "DELTA_BYTE_ARRAY", "large": "DELTA_LENGTH_BYTE_ARRAY", "fixed": "DELTA_BYTE_ARRAY", "flag": "RLE"}
DELTAS |= {"bytes": "DELTA_LENGTH_BYTE_ARRAY", "f64": "BYTE_STREAM_SPLIT", "decimal": "BYTE_STREAM_SPLIT"}
DELTAS |= {f"{name}.list.element": "DELTA_BINARY_PACKED" for name in ("i64", "i16", "full", "list")}
DELTAS |= {"text.list.element": "DELTA_BYTE_ARRAY", "time.list.element": "BYTE_STREAM_SPLIT"}

OPTIONS = [
    {},
    {"use_dictionary": False},
    {"use_dictionary": False, "compression": "none", "data_page_size": 500, "write_batch_size": 64},
    {"data_page_version": "2.0", "data_page_size": 1000, "write_batch_size": 64},
    {"data_page_version": "2.0", "compression": "zstd", "use_dictionary": ["text", "i64"]},
    {"compression": "zstd", "write_page_index": True},
    {"dictionary_pagesize_limit": 2000, "data_page_size": 700, "write_batch_size": 64},
    {"use_dictionary": False, "column_encoding": DELTAS, "data_page_size": 1000, "write_batch_size": 64},
    {"use_dictionary": False, "column_encoding": DELTAS, "data_page_version": "2.0", "compression": "gzip"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_rows_are_those_of_pyarrow(options: dict[str, Any], nulls: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(int(nulls * 10))
    for distinct in (1, 20, ROWS * 10):
        table = make_table(rng, nulls, distinct)
        path = tmp_path / f"{distinct}.parquet"
        pq.write_table(table, path, row_group_size=1500, **options)
        with parquet_bloom.open(path) as file:
            schema = pq.read_schema(path)
            files = OpenFiles([path], [file.source.identity])
            assert files.open()
            groups = [(0, number) for number in range(3)]
            columns = find_page_columns(file, schema)
            sparse = RowGroupBatch(RowGroups([file.footer], groups), columns, files)
            names = [name for name in table.column_names if name != "list"]
            assert [name for name, column in columns.items() if column.layout is not None] == [*table.column_names]
            assert not any(map(sparse.find_problem, names))
            for name in ("i32", "i64", "text", "bytes", "fixed", "date"):
                present = table[name].drop_null().unique()
                count = min(len(present), 3)
                chosen = present.take(pa.array(rng.choice(len(present), count, replace=False))) if count else present
                absent = [b"absent", b"absent 8", b"1234"] if name in ("text", "bytes") else []
                targets = Targets([*(_stored(value, name) for value in chosen.to_pylist()), *absent])
                result = sparse.search(name, targets, ROWS)
                assert result is not None
                counts, rows = result[0].counts, result[0].rows
                expected = np.flatnonzero(pc.is_in(table[name], chosen).to_numpy()) if count else []
                assert (rows + 1500 * np.repeat(np.arange(3), counts)).tolist() == [*expected]
                assert not len(expected) or sparse.search(name, targets, len(expected) - 1) is None
                assert result[1] is not None
                assert result[1].equals(table[name].take(pa.array(expected, pa.int64())).combine_chunks())
            some = [np.sort(rng.choice(1000, 7, replace=False)) for _ in range(2)]
            read = sparse.read(names, RowsOfGroups(np.array([7, 0, 7]), np.concatenate(some)))
            expected_rows = table.take(pa.array(np.concatenate([some[0], some[1] + 3000])))
            for name in names:
                assert read[name].type == table[name].type
                assert read[name].to_pylist() == expected_rows[name].to_pylist(), name
                read[name].validate(full=True)


def make_lists(rng: np.random.Generator, nulls: float, longest: int) -> pa.Table:
    """Return a table with columns of lists of several types, some of them null, empty, or with null elements."""

    def make(element: pa.DataType, values: list[Any], **of_element: Any) -> pa.Array:
        lengths = rng.integers(0, longest + 1, LISTS)
        lengths[::100] *= 50  # they go on in other pages
        lists: list[Any] = [
            [None if not of_element and number % 7 < 7 * nulls else values[number % len(values)] for number in numbers]
            for numbers in np.split(rng.integers(0, 5000, lengths.sum()), np.cumsum(lengths)[:-1])
        ]
        kind = pa.list_(pa.field("element", element, **of_element))
        return pa.array([None if rng.random() < nulls else one for one in lists], kind)

    words = [f"word {number}" * (number % 3) for number in range(500)]
    columns: dict[str, Any] = {
        "i64": make(pa.int64(), [number << 33 for number in range(500)]),
        "i16": make(pa.int16(), [*range(500)]),
        "text": make(pa.string(), words),
        "full": make(pa.int32(), [*range(500)], nullable=False),
        "time": make(pa.timestamp("us"), [*range(500)]),
        "flag": make(pa.bool_(), [True, False]),
        "pairs": pa.array([[[1, 2]], []] * (LISTS // 2), pa.list_(pa.list_(pa.int64()))),
        "large": pa.array([[1, 2], None] * (LISTS // 2), pa.large_list(pa.int64())),
        "parts": pa.array([[{"x": 1}, None]] * LISTS, pa.list_(pa.struct([("x", pa.int64())]))),
        "row": pa.array(range(LISTS)),
    }
    return pa.table(columns)


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_lists_are_those_of_pyarrow(options: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    options = {**options, "use_dictionary": options.get("use_dictionary") is not False}
    for nulls, longest in ((0.0, 3), (0.3, 6), (0.2, 0)):
        table = make_lists(rng, nulls, longest)
        path = tmp_path / f"{nulls}-{longest}.parquet"
        pq.write_table(table, path, row_group_size=300, **options)
        with parquet_bloom.open(path) as file:
            schema = pq.read_schema(path)
            files = OpenFiles([path], [file.source.identity])
            assert files.open()
            groups = [(0, number) for number in range(3)]
            columns = find_page_columns(file, schema)
            names = ["i64", "i16", "text", "full", "time", "flag"]
            assert [name for name, one in columns.items() if one.leaf.repeated and one.layout is not None] == names
            sparse = RowGroupBatch(RowGroups([file.footer], groups), columns, files)
            for size in (1, 7, 200):
                some = [np.sort(rng.choice(200, size, replace=False)) for _ in range(2)]
                read = sparse.read(names, RowsOfGroups(np.array([size, 0, size]), np.concatenate(some)))
                expected = table.select(names).take(pa.array(np.concatenate([some[0], some[1] + 600])))
                for name in names:
                    read[name].validate(full=True)
                    assert read[name].type == table[name].type
                    assert read[name].equals(expected[name].combine_chunks()), name
            for name in ("i64", "text"):
                wanted = rng.choice(500, 3)
                targets = Targets(
                    [int(n << 33).to_bytes(8, "little") if name == "i64" else b"word %d" % n for n in wanted]
                )
                found = sparse.search(name, targets, LISTS)
                assert found is not None
                rows, lists = found
                assert lists is not None
                in_file = pa.array(rows.rows + 300 * np.repeat(np.arange(3), rows.counts))
                assert lists.equals(table[name].take(in_file).combine_chunks())


@pytest.mark.parametrize("where", ["array_contains(text, 'word 7')", "arrays_overlap(i64, ARRAY(0, {0}))", "row = 77"])
@pytest.mark.parametrize("columns", [None, ["row"], ["text", "i64"], ["i16.list.element"], ["pairs", "full"]])
def test_scans_for_lists_by_search_and_without_are_the_same(
    where: str, columns: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(8)
    for number in range(2):
        pq.write_table(make_lists(rng, 0.1, 4), tmp_path / f"{number}.parquet", row_group_size=180)
    scan = parquet_bloom.dataset(tmp_path).scan(where.format(5 << 33) + " AND row < 780", columns)
    result, count = scan.to_arrow(), scan.count_rows()
    read_local_files_one_by_one(monkeypatch)
    without = parquet_bloom.dataset(tmp_path).scan(where.format(5 << 33) + " AND row < 780", columns).to_arrow()
    assert result.schema.equals(without.schema, check_metadata=True)
    assert result.equals(without)
    assert count == result.num_rows > 0


def _stored(value: Any, name: str) -> bytes:
    if isinstance(value, int):
        return value.to_bytes(8 if name == "i64" else 4, "little")
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    return (value.toordinal() - 719163).to_bytes(4, "little")


@pytest.mark.parametrize("where", ["i64 = {0}", "i64 IN ({0}, {1}, 7)", "i32 = 5 AND f64 < 0.9 AND text <> 'x'"])
@pytest.mark.parametrize("columns", [None, ["row"], ["text", "i64"], [], ["list", "flag"]])
def test_scans_by_search_and_without_are_the_same(
    where: str, columns: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    for number in range(2):
        pq.write_table(make_table(rng, 0.1, 300), tmp_path / f"{number}.parquet", row_group_size=900)
    where = where.format(5 << 33, 17 << 33)
    scan = parquet_bloom.dataset(tmp_path).scan(where, columns)
    result, count = scan.to_arrow(), scan.count_rows()
    read_local_files_one_by_one(monkeypatch)
    without = parquet_bloom.dataset(tmp_path).scan(where, columns).to_arrow()
    assert result.schema.equals(without.schema, check_metadata=True)
    assert result.to_pylist() == without.to_pylist()
    assert count == result.num_rows > 0


def test_pages_that_lie_are_refused(tmp_path: Path) -> None:
    """Whatever is cut off or changed in a page ends in an error, or in rows that are in the row group."""
    rng = np.random.default_rng(5)
    for options in ({}, {"use_dictionary": False}, {"data_page_version": "2.0"}, {"compression": "none"}):
        path = tmp_path / "a.parquet"
        texts = pa.array([f"t{i % 50}" if i % 3 else None for i in range(300)])
        pq.write_table(pa.table({"a": texts}), path, **options)
        with parquet_bloom.open(path) as file:
            record = file.record(0, file.leaves[0])
            start = int(record["dictionary_page_offset"])
            start = start if start > 0 else int(record["data_page_offset"])
            chunk, codec = file.source.read_at(start, int(record["compressed_size"])), file.footer.codec(record)
        targets = Targets([b"t7", b"t49"])
        good = make_batch(chunk).search(whole_chunk(chunk, 300, codec), TEXTS, targets, 300)
        assert good is not None
        assert good[0].tolist() == [8]
        for _ in range(3000):
            data = bytearray(chunk)
            for _ in range(rng.integers(1, 4)):
                data[rng.integers(len(data))] = rng.integers(256)
            data = data[: rng.integers(len(data))] if rng.random() < 0.2 else data
            if not data:
                continue
            batch, table = make_batch(bytes(data)), whole_chunk(data, 300, codec)
            with suppress(MalformedFooterError):
                found = batch.search(table, TEXTS, targets, 300)
                assert found is not None
                assert ((found[1] >= 0) & (found[1] < 300)).all()
                assert ((found[2] >= 0) & (found[2] < 2)).all()
            with suppress(MalformedFooterError):
                batch.take(table, TEXTS, np.array([3]), np.array([5, 100, 299]))


TEXTS, NUMBERS = StoredColumn(0, [0], 1), StoredColumn(8, [0], 1)


def make_batch(chunk: bytes, headers: Any = None) -> ChunkBatch:
    known = None if headers is None else PageHeaders([{0: headers.astype(np.int32).tobytes()}], 0)
    return ChunkBatch(FetchedRanges(InMemory(chunk, "" if headers is None else None)), decompress, known)


def whole_chunk(chunk: bytes | bytearray, num_rows: int, codec: int | None) -> Any:
    return np.array([[0, 0, len(chunk), num_rows, codec, num_rows, 0]], np.int64)


def test_a_page_whose_header_is_wrong_hides_no_rows(tmp_path: Path) -> None:
    """One bit of a header says that a page has indices into a dictionary: there is none, or they are not in it."""
    for number, options in enumerate(
        ({"use_dictionary": False}, {"dictionary_pagesize_limit": 64, "data_page_size": 64})
    ):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"a": pa.array(range(1000))}), path, write_batch_size=64, **options)
        with parquet_bloom.open(path) as file:
            record = file.record(0, file.leaves[0])
            start = int(record["dictionary_page_offset"])
            start = start if start > 0 else int(record["data_page_offset"])
            chunk, codec = file.source.read_at(start, int(record["compressed_size"])), file.footer.codec(record)
        pages = index_pages(chunk, 1000).copy()
        targets = Targets([(999).to_bytes(8, "little")])
        search = whole_chunk(chunk, 1000, codec), NUMBERS, targets, 1000, np.array([1]), np.array([[0, 1000]])
        found = make_batch(chunk, pages).search(*search)
        assert found is not None
        assert found[1].tolist() == [999]
        pages[-1, 5] = 8
        with pytest.raises(MalformedFooterError):
            make_batch(chunk, pages).search(*search)


def pack_numbers(numbers: list[int], width: int) -> bytes:
    """Return numbers of dictionary entries as the values of a page: one bit-packed run."""
    groups = -(-len(numbers) // 8)
    bits = sum(number << width * i for i, number in enumerate(numbers))
    header = groups << 1 | 1
    return bytes([width, header & 0x7F | 0x80, header >> 7]) + bits.to_bytes(groups * width, "little")


@pytest.mark.parametrize(("width", "num_entries"), [(1, 2), (2, 3), (3, 8), (5, 17), (7, 100), (8, 256), (9, 300)])
def test_packed_numbers_of_entries(width: int, num_entries: int) -> None:
    rng = np.random.default_rng(width)
    required = StoredColumn(8, [0], 0)
    for count in (1, 7, 8, 9, 64, 1001):
        numbers = rng.integers(0, num_entries, count).tolist()

        def search(
            numbers: list[int], sought: list[int], entries: bytes = np.arange(num_entries, dtype="<i8").tobytes()
        ) -> Any:
            body = pack_numbers(numbers, width)
            pages = np.zeros((2, 14), np.int64)
            pages[0, [1, 2, 3, 4, 6]] = 1, len(entries), 2, num_entries, len(entries)
            pages[1, :7] = 1 + len(entries), 1, len(body), 3, len(numbers), 8, len(body)
            batch = make_batch(b"-" + entries + b"-" + body, pages)
            targets = Targets([number.to_bytes(8, "little") for number in sought])
            table = whole_chunk(b" " * (len(entries) + len(body) + 2), len(numbers), 0)
            selected = np.array([1]), np.array([[0, len(numbers)]])
            return batch.search(table, required, targets, len(numbers), *selected)

        for sought in ([0], [num_entries - 1], [1, 2], [num_entries]):
            found = search(numbers, sought)
            assert found[1].tolist() == [row for row, number in enumerate(numbers) if number in sought]
        if num_entries < 1 << width:
            for row in {0, count // 2, count - 1}:
                wrong = [*numbers[:row], num_entries, *numbers[row + 1 :]]
                with pytest.raises(UnusualPageError, match="a number is not in the dictionary"):
                    search(wrong, [num_entries - 1])


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("width", [0, 8])
def test_a_chunk_without_its_dictionary_has_no_entries_of_the_chunk_before(
    width: int, compression: str, tmp_path: Path
) -> None:
    """A footer that says that a chunk begins behind its dictionary makes no rows of another one's."""
    path = tmp_path / "a.parquet"
    values = pa.array(range(100, 200) if width else [f"text {i}" for i in range(100)])
    pq.write_table(pa.table({"a": values}), path, compression=compression, row_group_size=50, write_statistics=False)
    table, codec = [], {"none": 0, "snappy": 1, "zstd": 6}[compression]
    for number in range(2):
        chunk = pq.read_metadata(path).row_group(number).column(0)
        start, end = chunk.dictionary_page_offset, chunk.dictionary_page_offset + chunk.total_compressed_size
        start = chunk.data_page_offset if number else start
        table.append([0, start, end - start, 50, codec, 50, 0])
    column, counts, rows = (NUMBERS if width else TEXTS), np.array([2, 2]), np.array([3, 9, 3, 9])
    with pytest.raises(UnusualPageError, match="a number is not in the dictionary"):
        make_batch(path.read_bytes()).take(np.array(table), column, counts, rows)


def test_values_that_differ_in_the_middle_alone(tmp_path: Path) -> None:
    """Values of one length with the same first and last bytes are told apart, and found without comparing all."""
    texts = [f"https://example.com/items/{number:08}/index.html" for number in range(5000)]
    numbers = [number << 32 | number for number in range(5000)]
    pq.write_table(pa.table({"text": texts, "number": numbers}), tmp_path / "a.parquet", row_group_size=1000)
    dataset = parquet_bloom.dataset(tmp_path)
    chosen = range(0, 5000, 37)
    for name, values in (("text", texts), ("number", numbers)):
        shown = ", ".join(repr(values[number]) for number in chosen)
        assert dataset.scan(f"{name} IN ({shown})").to_arrow()[name].to_pylist() == [values[i] for i in chosen]


@pytest.mark.parametrize("longest_first", [True, False])
def test_entries_of_a_dictionary_that_differ_in_size(longest_first: bool, tmp_path: Path) -> None:
    """Only a part of a dictionary is decompressed: as much as entries would take that are all alike."""
    sizes = sorted([1] * 1_800 + [3_000] * 200, reverse=longest_first)
    rng = np.random.default_rng(0)
    texts = [str(number) + rng.bytes(size // 2).hex() for number, size in enumerate(sizes)]
    table = pa.table({"id": range(2_000), "text": texts, "bytes": [text.encode() for text in texts]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, data_page_size=2_000, write_batch_size=64)
    dataset = parquet_bloom.dataset(path)
    for ids in ([0], [190], [205], [1_990], [5, 1_500, 1_999], [1_700, 1_900]):
        rows = dataset.scan(f"id IN ({', '.join(map(str, ids))})").to_arrow()
        assert rows.equals(table.take(ids))


def test_many_bytes_are_not_taken_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"a": [number % 20 for number in range(2000)], "long": ["x" * 4000] * 2000})
    pq.write_table(rows, tmp_path / "a.parquet")
    monkeypatch.setattr("parquet_bloom.file.pages.row_group_batch.MAX_TAKEN_BYTES", 100_000)
    result = parquet_bloom.dataset(tmp_path).scan("a = 3").to_arrow()
    assert result.equals(rows.filter(pc.equal(rows["a"], 3)))
    for codec in ("zstd", "gzip"):
        pq.write_table(rows, tmp_path / "a.parquet", compression=codec)
        assert parquet_bloom.dataset(tmp_path).scan("a = 3").count_rows() == 100


def make_page(body: bytes, size: int, num_values: int = 1, dictionary: bool = False) -> bytes:
    """Return a page of version 1 whose header claims that so many bytes were compressed."""
    fields = [(1, I32, num_values), (2, I32, 0), *([] if dictionary else [(3, I32, 3), (4, I32, 3)])]
    header = [(1, I32, 2 if dictionary else 0), (2, I32, size), (3, I32, len(body))]
    return write_struct([*header, (7 if dictionary else 5, STRUCT, fields)]) + body


@pytest.mark.parametrize("codec", [2, 4, 6, 7])
def test_pages_that_cannot_be_decompressed_are_declined(codec: int) -> None:
    name = {2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}[codec]
    text = b"abcdefghijkl" * 50
    packed, column = pa.Codec(name).compress(text, asbytes=True), StoredColumn(len(text), [0], 0)

    def take(page: bytes) -> bytes:
        taken = make_batch(page).take(whole_chunk(page, 1, codec), column, np.array([1]), np.array([0]))
        return bytes(taken[2])

    assert take(make_page(packed, len(text))) == text
    assert take(make_page(b"", -(1 << 31), 0, dictionary=True) + make_page(packed, len(text))) == text
    for body, size in ((packed[:-9], len(text)), (packed, len(text) - 1), (packed, len(text) + 1), (b"\xff" * 9, 9)):
        with pytest.raises(UnusualPageError):
            take(make_page(body, size))
