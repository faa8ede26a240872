"""A column's distinct hashes are those of its stored values, row group by row group."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import I64, Struct
from support.writers import surgery

import parquet_bloom
from parquet_bloom import errors
from parquet_bloom.file import column_hashes
from parquet_bloom.file.column_hashes import distinct_hashes, hash_distinct
from parquet_bloom.hashing.arrow_keys import type_of
from parquet_bloom.hashing.column_type import ColumnType

ROWS, GROUPS = 100, 4
D = decimal.Decimal


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, **{"row_group_size": max(1, -(-table.num_rows // GROUPS))} | options)
    return path


def read(path: Path, column: str) -> list[set[int]]:
    with parquet_bloom.open(path) as file:
        result = list(distinct_hashes(file, file.leaf(column)))
    assert [group for group, _ in result] == list(range(pq.read_metadata(path).num_row_groups))
    for _, hashes in result:
        assert hashes.dtype == np.uint64
        assert len(hashes) == len(set(hashes.tolist()))
    return [set(hashes.tolist()) for _, hashes in result]


def of_array(values: Any) -> tuple[ColumnType, set[int]]:
    column_type, hashes = hash_distinct(values)
    assert hashes.dtype == np.uint64
    assert len(hashes) == len(set(hashes.tolist()))
    return column_type, set(hashes.tolist())


def xxh(*stored: bytes) -> set[int]:
    return {oracle.xxh64(value) for value in stored}


def days(value: datetime.date) -> bytes:
    return struct.pack("<i", (value - datetime.date(1970, 1, 1)).days)


DAY = datetime.date(2024, 2, 29)
CASES: dict[str, tuple[list[Any], pa.DataType, set[int]]] = {
    "int8": ([1, -1, None, 1], pa.int8(), xxh(b"\1\0\0\0", b"\xff\xff\xff\xff")),
    "uint8": ([255], pa.uint8(), xxh(b"\xff\0\0\0")),
    "int32": ([7, 7, 8], pa.int32(), xxh(struct.pack("<i", 7), struct.pack("<i", 8))),
    "uint32": ([2**32 - 1], pa.uint32(), xxh(b"\xff" * 4)),
    "int64": ([7, -8, None], pa.int64(), xxh(struct.pack("<q", 7), struct.pack("<q", -8))),
    "uint64": ([2**64 - 1], pa.uint64(), xxh(b"\xff" * 8)),
    "string": (["a", "", None, "ä" * 40], pa.string(), xxh(b"a", b"", "ä".encode() * 40)),
    "large_string": (["a", "b", "a"], pa.large_string(), xxh(b"a", b"b")),
    "string_view": (["a", "b" * 30, "a"], pa.string_view(), xxh(b"a", b"b" * 30)),
    "binary": ([b"\0", b"\0"], pa.binary(), xxh(b"\0")),
    "fixed": ([b"abc", None], pa.binary(3), xxh(b"abc")),
    "date32": ([DAY, None], pa.date32(), xxh(days(DAY))),
    "date64": ([DAY], pa.date64(), xxh(days(DAY))),
    "timestamp_s": ([5], pa.timestamp("s"), xxh(struct.pack("<q", 5000))),
    "timestamp_us": ([5], pa.timestamp("us", "UTC"), xxh(struct.pack("<q", 5))),
    "time": ([datetime.time(0, 0, 1)], pa.time32("s"), xxh(struct.pack("<i", 1000))),
    "duration": ([5], pa.duration("us"), xxh(struct.pack("<q", 5))),
    "decimal": ([D("-1.5"), D("2.5")], pa.decimal128(5, 2), xxh((-150).to_bytes(3, "big", signed=True), b"\0\0\xfa")),
    "half": (np.array([1.5, 1.5], np.float16), pa.float16(), xxh(struct.pack("<e", 1.5))),
    "float": ([1.5, math.inf], pa.float32(), xxh(struct.pack("<f", 1.5), struct.pack("<f", math.inf))),
    "zero": ([0.0], pa.float64(), xxh(struct.pack("<d", 0.0), struct.pack("<d", -0.0))),
    "minus_zero": ([-0.0, 1.0], pa.float64(), xxh(*(struct.pack("<d", value) for value in (0.0, -0.0, 1.0)))),
    "list": ([[1, 2], None, [], [None, 2]], pa.list_(pa.int64()), xxh(struct.pack("<q", 1), struct.pack("<q", 2))),
    "large_list": ([["a"], ["b", "a"]], pa.large_list(pa.string()), xxh(b"a", b"b")),
    "pair": ([[1, 2], None, [2, 3]], pa.list_(pa.int32(), 2), xxh(*(struct.pack("<i", value) for value in (1, 2, 3)))),
    "struct": ([{"a": "x"}, None, {"a": None}], pa.struct([("a", pa.string())]), xxh(b"x")),
    "deep": (
        [[[{"a": ["x"]}], None], None, [[{"a": ["y", None]}]]],
        pa.list_(pa.list_(pa.struct([("a", pa.list_(pa.string()))]))),
        xxh(b"x", b"y"),
    ),
    "nulls": ([None, None], pa.null(), set()),
    "no_values": ([None, None], pa.string(), set()),
    "words": (["a", "b", "a", None], pa.dictionary(pa.int8(), pa.string()), xxh(b"a", b"b")),
}
by_type = pytest.mark.parametrize("name", CASES)


@by_type
def test_a_file_and_an_array_have_the_hashes_of_stored_bytes(tmp_path: Path, name: str) -> None:
    values, arrow_type, expected = CASES[name]
    array = pa.array(values, arrow_type)
    path = write(tmp_path / "a.parquet", pa.table({"column": array}), row_group_size=100)
    assert read(path, "column") == [expected]
    column_type, actual_type = of_array(array)
    assert actual_type == expected
    with parquet_bloom.open(path) as file:
        assert column_type == file.column_type("column") or arrow_type in (pa.null(), pa.duration("us"))


@by_type
def test_pieces_slices_and_chunks_of_arrays(name: str, monkeypatch: Any) -> None:
    values, arrow_type, expected = CASES[name]
    monkeypatch.setattr(column_hashes, "PIECE_ROWS", 2)
    array = pa.array(values, arrow_type)
    column_type, _ = hash_distinct(array)
    padded = pa.concat_arrays([array.slice(0, 1), array, array.slice(0, 1)])
    assert of_array(padded.slice(1, len(array))) == (column_type, expected)
    assert of_array(pa.chunked_array([array, padded, array.slice(0, 0)])) == (column_type, expected)
    assert of_array(pa.chunked_array([], arrow_type)) == (column_type, set())
    assert of_array(array.slice(0, 0)) == (column_type, set())


def test_unused_dictionary_entries_are_not_values() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([3, 1, None, 3], pa.int8()), ["left", "b", "over", "d", None])
    assert of_array(array)[1] == xxh(b"b", b"d")
    assert of_array(array.slice(1, 1))[1] == xxh(b"b")
    runs = pa.RunEndEncodedArray.from_arrays([2, 5], [10, 20])
    assert of_array(runs.slice(3, 1))[1] == xxh(struct.pack("<q", 20))


def test_uuids_and_other_wrapped_arrays(tmp_path: Path) -> None:
    array = pa.array([b"0123456789abcdef", None], pa.uuid())
    assert of_array(array) == (type_of(array), xxh(b"0123456789abcdef"))
    assert read(write(tmp_path / "a.parquet", pa.table({"u": array})), "u") == [xxh(b"0123456789abcdef"), set()]


def test_every_nan_is_found_by_the_usual_one(tmp_path: Path) -> None:
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    stored = [struct.pack("<Q", bits) for bits in (0x7FF8000000000001, 0xFFF8000000000000)]
    expected = xxh(*stored, struct.pack("<d", math.nan))
    assert of_array(pa.array(odd))[1] == expected
    assert read(write(tmp_path / "a.parquet", pa.table({"f": odd}), row_group_size=9), "f") == [expected]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"compression": "none", "data_page_version": "2.0", "data_page_size": 100},
        {"dictionary_pagesize_limit": 100, "data_page_size": 64},
    ],
)
def test_row_groups_have_their_own(tmp_path: Path, options: dict[str, Any]) -> None:
    numbers = [number * number % 60 for number in range(ROWS)]
    table = pa.table({"n": numbers, "t": [f"text {number}" if number % 3 else None for number in numbers]})
    path = write(tmp_path / "a.parquet", table, **options)
    step = ROWS // GROUPS
    groups = [numbers[start : start + step] for start in range(0, ROWS, step)]
    assert read(path, "n") == [xxh(*(struct.pack("<q", n) for n in group)) for group in groups]
    assert read(path, "t") == [xxh(*(f"text {n}".encode() for n in group if n % 3)) for group in groups]
    parquet_bloom.embed(path, ["n", "t"])
    assert read(path, "n") == [xxh(*(struct.pack("<q", n) for n in group)) for group in groups]


def test_many_distinct_values_and_then_few(tmp_path: Path) -> None:
    """The set that they are counted in is used again: nothing of one row group is in the next."""
    rng = np.random.default_rng(2)
    numbers = np.concatenate([rng.integers(-(2**62), 2**62, 100_000), np.full(100_000, 5)])
    path = write(tmp_path / "a.parquet", pa.table({"n": numbers}), row_group_size=100_000)
    first, second = read(path, "n")
    sample = numbers[:100_000:997].tolist()
    assert first.issuperset(xxh(*(struct.pack("<q", n) for n in sample)))
    assert len(first) == len(set(numbers[:100_000].tolist()))
    assert second == xxh(struct.pack("<q", 5))


def test_int96_and_decimals_of_any_length(tmp_path: Path) -> None:
    moments = pa.array([0, 1_000_000_000, None], pa.timestamp("ns"))
    table = pa.table({"m": moments})
    path = write(tmp_path / "a.parquet", table, use_deprecated_int96_timestamps=True, row_group_size=9)
    assert read(path, "m") == [xxh(struct.pack("<qi", 0, 2440588), struct.pack("<qi", 10**9, 2440588))]
    path = write(tmp_path / "b.parquet", pa.table({"d": pa.array([b"\x01", b"\0\x02"])}), row_group_size=9)
    surgery.relabel(path, "d", surgery.decimal_annotation(5, 2))
    assert read(path, "d") == [xxh(b"\x01", b"\0\x02")]


def test_no_rows_and_no_row_groups(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([], pa.int64()), "t": pa.array([], pa.string())})
    path = write(tmp_path / "a.parquet", table)
    assert read(path, "n") == read(path, "t") == [set()] * pq.read_metadata(path).num_row_groups
    with pq.ParquetWriter(tmp_path / "b.parquet", table.schema) as writer:
        pass
    assert read(tmp_path / "b.parquet", "n") == []
    with pq.ParquetWriter(tmp_path / "c.parquet", table.schema) as writer:
        for rows in ([], [1, 2], [], [3]):
            writer.write_table(pa.table({"n": pa.array(rows, pa.int64()), "t": ["x"] * len(rows)}, table.schema))
    expected = [xxh(*(struct.pack("<q", n) for n in rows)) for rows in ([], [1, 2], [], [3])]
    assert [result for result in read(tmp_path / "c.parquet", "n") if result] == [
        result for result in expected if result
    ]


# ------------------------------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------------------------------


def refused(path: Path, column: str, error: type[Exception], match: str) -> None:
    with parquet_bloom.open(path) as file, pytest.raises(error, match=match) as caught:
        list(distinct_hashes(file, file.leaf(column)))
    assert str(caught.value).startswith(str(path))


def test_booleans_encrypted_columns_and_those_elsewhere(tmp_path: Path) -> None:
    table = pa.table({"id": range(ROWS), "flag": [True] * ROWS})
    path = write(tmp_path / "a.parquet", table)
    refused(path, "flag", errors.UnsupportedTypeError, "column 'flag': BOOLEAN")
    refused(surgery.in_another_file(path, "id"), "id", errors.UnreadableColumnError, "another file")
    path = surgery.encrypted(tmp_path / "b.parquet", table, plaintext_footer=True, columns=("id",))
    refused(path, "id", errors.EncryptedFileError, "column 'id': the column is encrypted")


def test_damaged_pages_and_values_outside_their_type(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"id": range(ROWS)}), compression="zstd")
    data = bytearray(path.read_bytes())
    first = pq.read_metadata(path).row_group(2).column(0).dictionary_page_offset
    data[first : first + 30] = b"\xff" * 30
    path.write_bytes(data)
    refused(path, "id", errors.UnreadableColumnError, "row group 2, column 'id'")
    path = write(tmp_path / "b.parquet", pa.table({"n": pa.array([1, 1000], pa.int32())}), row_group_size=9)
    surgery.relabel(path, "n", surgery.integer_annotation(8, True))
    refused(path, "n", errors.UnreadableColumnError, "outside its type")


def test_a_footer_that_lacks_a_chunk_or_lies_about_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"id": range(ROWS), "n": range(ROWS)}))

    def lose(footer: Struct) -> None:
        footer.value(oracle.ROW_GROUPS).items[1].value(oracle.COLUMNS).items.pop()

    refused(surgery.rewrite_footer(path, lose), "id", errors.MalformedFooterError, "1 column chunks for 2 columns")
    path = write(tmp_path / "b.parquet", pa.table({"id": range(ROWS)}))

    def say(number: int) -> Any:
        return lambda footer: footer.value(oracle.ROW_GROUPS).items[1].set(3, I64, number)

    for number in (ROWS, 3, 0):
        refused(surgery.rewrite_footer(path, say(number)), "id", errors.MalformedFooterError, "25 values in")
    path = write(tmp_path / "c.parquet", pa.table({"l": [[1, 2]] * ROWS}))
    for number in (ROWS, 0):
        refused(surgery.rewrite_footer(path, say(number)), "l", errors.MalformedFooterError, "50 values in")
    refused(surgery.rewrite_footer(path, say(30)), "l", errors.UnreadableColumnError, "25 rows instead of 30")


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (pa.array([True]), errors.UnsupportedTypeError),
        (pa.array([[True]]), errors.UnsupportedTypeError),
        (pa.array([True]).dictionary_encode(), errors.UnsupportedTypeError),
        (pa.array([{"a": 1, "b": 2}]), errors.UnsupportedTypeError),
        (pa.array([{}], pa.struct([])), errors.UnsupportedTypeError),
        (pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), errors.UnsupportedTypeError),
        (pa.array([2**62], pa.timestamp("s")), errors.FilterTypeError),
        ([1, 2], errors.FilterTypeError),
        (np.array([1, 2]), errors.FilterTypeError),
    ],
)
def test_arrays_that_cannot_be_hashed(values: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        hash_distinct(values)
