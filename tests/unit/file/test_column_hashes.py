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
from parquet_bloom.file.column_hashes import distinct_hashes, hash_distinct
from parquet_bloom.hashing.arrow_keys import type_of
from parquet_bloom.hashing.column_type import ColumnType

ROWS, GROUPS = 100, 4


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, **{"row_group_size": max(1, -(-table.num_rows // GROUPS))} | options)
    return path


def read(path: Path, column: str) -> list[set[int]]:
    with parquet_bloom.open(path) as file:
        result = list(distinct_hashes(file, file.leaf(column)))
    assert [group for group, _ in result] == list(range(pq.read_metadata(path).num_row_groups))
    assert all(hashes.dtype == np.uint64 and len(hashes) == len(set(hashes.tolist())) for _, hashes in result)
    return [set(hashes.tolist()) for _, hashes in result]


def of_array(values: Any) -> tuple[ColumnType, set[int]]:
    column_type, hashes = hash_distinct(values)
    assert hashes.dtype == np.uint64
    assert len(hashes) == len(set(hashes.tolist()))
    return column_type, set(hashes.tolist())


def xxh(*stored: bytes) -> set[int]:
    return {oracle.xxh64(value) for value in stored}


def longs(*numbers: int) -> set[int]:
    return xxh(*(struct.pack("<q", number) for number in numbers))


@pytest.mark.ci
def test_a_file_and_an_array_have_the_hashes_of_stored_bytes(tmp_path: Path) -> None:
    """Of some types by hand; of every type they agree with each other in `test_every_type.py`."""
    day = datetime.date(2024, 2, 29)
    days = xxh(struct.pack("<i", (day - datetime.date(1970, 1, 1)).days))
    prices = [decimal.Decimal("-1.5"), decimal.Decimal("2.5")]
    deep = pa.list_(pa.list_(pa.struct([("a", pa.list_(pa.string()))])))
    for values, arrow_type, expected in (
        ([1, -1, None, 1], pa.int8(), xxh(b"\1\0\0\0", b"\xff\xff\xff\xff")),
        ([255], pa.uint8(), xxh(b"\xff\0\0\0")),
        ([7, -8, None], pa.int64(), longs(7, -8)),
        (["a", "", None, "ä" * 40], pa.string(), xxh(b"a", b"", "ä".encode() * 40)),
        (["a", "b" * 30, "a"], pa.string_view(), xxh(b"a", b"b" * 30)),
        ([b"abc", None], pa.binary(3), xxh(b"abc")),
        *(([day, None], pa.date32(), days), ([day], pa.date64(), days)),
        *(([5], pa.timestamp("s"), longs(5000)), ([5], pa.timestamp("us", "UTC"), longs(5))),
        ([datetime.time(0, 0, 1)], pa.time32("s"), xxh(struct.pack("<i", 1000))),
        ([5], pa.duration("us"), longs(5)),
        (prices, pa.decimal128(5, 2), xxh((-150).to_bytes(3, "big", signed=True), b"\0\0\xfa")),
        (np.array([1.5, 1.5], np.float16), pa.float16(), xxh(struct.pack("<e", 1.5))),
        ([1.5, math.inf], pa.float32(), xxh(struct.pack("<f", 1.5), struct.pack("<f", math.inf))),
        ([0.0], pa.float64(), xxh(struct.pack("<d", 0.0), struct.pack("<d", -0.0))),
        ([-0.0, 1.0], pa.float64(), xxh(*(struct.pack("<d", value) for value in (0.0, -0.0, 1.0)))),
        ([[1, 2], None, [], [None, 2]], pa.list_(pa.int64()), longs(1, 2)),
        ([["a"], ["b", "a"]], pa.large_list(pa.string()), xxh(b"a", b"b")),
        ([[1, 2], None, [2, 3]], pa.list_(pa.int32(), 2), xxh(*(struct.pack("<i", value) for value in (1, 2, 3)))),
        ([{"a": "x"}, None, {"a": None}], pa.struct([("a", pa.string())]), xxh(b"x")),
        ([[[{"a": ["x"]}], None], None, [[{"a": ["y", None]}]]], deep, xxh(b"x", b"y")),
        *(([None, None], pa.null(), set()), ([None, None], pa.string(), set())),
        (["a", "b", "a", None], pa.dictionary(pa.int8(), pa.string()), xxh(b"a", b"b")),
        ([b"0123456789abcdef", None], pa.uuid(), xxh(b"0123456789abcdef")),
    ):
        array = pa.array(values, arrow_type)
        path = write(tmp_path / "a.parquet", pa.table({"column": array}), row_group_size=100)
        assert read(path, "column") == [expected], arrow_type
        column_type, found = of_array(array)
        assert found == expected, arrow_type
        with parquet_bloom.open(path) as file:
            assert column_type == file.column_type("column") or arrow_type in (pa.null(), pa.duration("us"))
        many = pa.concat_arrays([array] * (70_000 // len(array)))  # more than are hashed at once
        for part in (many.slice(len(array)), pa.chunked_array([array, many, array.slice(0, 0)])):
            assert of_array(part) == (column_type, expected)
        for nothing in (pa.chunked_array([], arrow_type), array.slice(0, 0)):
            assert of_array(nothing) == (column_type, set())
    assert column_type == type_of(array)


def test_unused_dictionary_entries_are_not_values() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([3, 1, None, 3], pa.int8()), ["left", "b", "over", "d", None])
    assert of_array(array)[1] == xxh(b"b", b"d")
    assert of_array(array.slice(1, 1))[1] == xxh(b"b")
    assert of_array(pa.RunEndEncodedArray.from_arrays([2, 5], [10, 20]).slice(3, 1))[1] == longs(20)


def test_every_nan_is_found_by_the_usual_one(tmp_path: Path) -> None:
    bits = 0x7FF8000000000001, 0xFFF8000000000000
    odd = np.array(bits, np.uint64).view(np.float64)
    expected = xxh(*(struct.pack("<Q", one) for one in bits), struct.pack("<d", math.nan))
    assert of_array(pa.array(odd))[1] == expected
    assert read(write(tmp_path / "a.parquet", pa.table({"f": odd}), row_group_size=9), "f") == [expected]


def test_row_groups_have_their_own(tmp_path: Path) -> None:
    numbers = [number * number % 60 for number in range(ROWS)]
    table = pa.table({"n": numbers, "t": [f"text {number}" if number % 3 else None for number in numbers]})
    step = ROWS // GROUPS
    groups = [numbers[start : start + step] for start in range(0, ROWS, step)]
    for options in (
        *({}, {"use_dictionary": False}, {"dictionary_pagesize_limit": 100, "data_page_size": 64}),
        {"compression": "none", "data_page_version": "2.0", "data_page_size": 100},
    ):
        path = write(tmp_path / "a.parquet", table, **options)
        assert read(path, "t") == [xxh(*(f"text {n}".encode() for n in group if n % 3)) for group in groups]
        for _ in range(2):
            assert read(path, "n") == [longs(*group) for group in groups]
            parquet_bloom.embed(path, ["n", "t"])
    # The set that they are counted in is used again: nothing of one row group is in the next.
    many = np.concatenate([np.random.default_rng(2).integers(-(2**62), 2**62, 100_000), np.full(100_000, 5)])
    first, second = read(write(tmp_path / "b.parquet", pa.table({"n": many}), row_group_size=100_000), "n")
    assert first.issuperset(longs(*many[:100_000:997].tolist()))
    assert len(first) == len(set(many[:100_000].tolist()))
    assert second == longs(5)


def test_int96_and_decimals_of_any_length(tmp_path: Path) -> None:
    table = pa.table({"m": pa.array([0, 1_000_000_000, None], pa.timestamp("ns"))})
    path = write(tmp_path / "a.parquet", table, use_deprecated_int96_timestamps=True, row_group_size=9)
    assert read(path, "m") == [xxh(struct.pack("<qi", 0, 2440588), struct.pack("<qi", 10**9, 2440588))]
    path = write(tmp_path / "b.parquet", pa.table({"d": pa.array([b"\x01", b"\0\x02"])}), row_group_size=9)
    surgery.relabel(path, "d", surgery.decimal_annotation(5, 2))
    assert read(path, "d") == [xxh(b"\x01", b"\0\x02")]


def test_no_rows_and_no_row_groups(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([], pa.int64()), "t": pa.array([], pa.string())})
    path = write(tmp_path / "a.parquet", table)
    assert read(path, "n") == read(path, "t") == [set()] * pq.read_metadata(path).num_row_groups
    with pq.ParquetWriter(tmp_path / "b.parquet", table.schema):
        pass
    assert read(tmp_path / "b.parquet", "n") == []
    with pq.ParquetWriter(tmp_path / "c.parquet", table.schema) as writer:
        for rows in ([], [1, 2], [], [3]):
            writer.write_table(pa.table({"n": pa.array(rows, pa.int64()), "t": ["x"] * len(rows)}, table.schema))
    assert [result for result in read(tmp_path / "c.parquet", "n") if result] == [longs(1, 2), longs(3)]


# ------------------------------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------------------------------


def refused(path: Path, column: str, error: type[Exception], match: str) -> None:
    with parquet_bloom.open(path) as file, pytest.raises(error, match=match) as caught:
        list(distinct_hashes(file, file.leaf(column)))
    assert str(caught.value).startswith(str(path))


def test_columns_and_pages_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    table = pa.table({"id": range(ROWS), "flag": [True] * ROWS})
    path = write(tmp_path / "a.parquet", table)
    refused(path, "flag", errors.UnsupportedTypeError, "column 'flag': BOOLEAN")
    refused(surgery.in_another_file(path, "id"), "id", errors.UnreadableColumnError, "another file")
    path = surgery.encrypted(tmp_path / "b.parquet", table, plaintext_footer=True, columns=("id",))
    refused(path, "id", errors.EncryptedFileError, "column 'id': the column is encrypted")
    path = write(tmp_path / "c.parquet", pa.table({"id": range(ROWS)}), compression="zstd")
    data = bytearray(path.read_bytes())
    first = pq.read_metadata(path).row_group(2).column(0).dictionary_page_offset
    data[first : first + 30] = b"\xff" * 30
    path.write_bytes(data)
    refused(path, "id", errors.UnreadableColumnError, "row group 2, column 'id'")
    path = write(tmp_path / "d.parquet", pa.table({"n": pa.array([1, 1000], pa.int32())}), row_group_size=9)
    surgery.relabel(path, "n", surgery.integer_annotation(8, True))
    refused(path, "n", errors.UnreadableColumnError, "outside its type")


def test_a_footer_that_lacks_a_chunk_or_lies_about_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"id": range(ROWS), "n": range(ROWS)}))

    def lose(footer: Struct) -> None:
        footer.value(oracle.ROW_GROUPS).items[1].value(oracle.COLUMNS).items.pop()

    refused(surgery.rewrite_footer(path, lose), "id", errors.MalformedFooterError, "1 column chunks for 2 columns")

    def say(number: int) -> Any:
        return lambda footer: footer.value(oracle.ROW_GROUPS).items[1].set(3, I64, number)

    for name, values, numbers, match in (
        ("id", range(ROWS), (ROWS, 3, 0), "25 values in"),
        ("l", [[1, 2]] * ROWS, (ROWS, 0), "50 values in"),
    ):
        path = write(tmp_path / f"{name}.parquet", pa.table({name: values}))
        for number in numbers:
            refused(surgery.rewrite_footer(path, say(number)), name, errors.MalformedFooterError, match)
    refused(surgery.rewrite_footer(path, say(30)), "l", errors.UnreadableColumnError, "25 rows instead of 30")


def test_arrays_that_cannot_be_hashed() -> None:
    for values in (
        *(pa.array([True]), pa.array([[True]]), pa.array([True]).dictionary_encode(), pa.array([{"a": 1, "b": 2}])),
        *(pa.array([{}], pa.struct([])), pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8()))),
    ):
        with pytest.raises(errors.UnsupportedTypeError):
            hash_distinct(values)
    for values in (pa.array([2**62], pa.timestamp("s")), [1, 2], np.array([1, 2])):
        with pytest.raises(errors.FilterTypeError):
            hash_distinct(values)
