"""Arrow data of every kind as the bytes that Parquet stores: compared with files that pyarrow wrote, and the oracle."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import string
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle

from parquet_bloom.errors import FilterTypeError, UnsupportedTypeError
from parquet_bloom.filter import SplitBlockBloomFilter, hash_values
from parquet_bloom.hashing import arrow_keys as hashing_arrow
from parquet_bloom.hashing.coerce import coerce, stored_forms
from parquet_bloom.hashing.column_type import ColumnType, from_arrow, from_parquet

COUNT = 90


def drawn(arrow_type: pa.DataType) -> pa.Array:
    """Values of a type, its extremes and nulls among them."""
    rng = random.Random(str(arrow_type))
    types = pa.types
    values: list[Any]
    if types.is_integer(arrow_type) or types.is_duration(arrow_type):
        bits, signed = arrow_type.bit_width, not types.is_unsigned_integer(arrow_type)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        values = [low, high, 0, 1, *(rng.randint(low, high) for _ in range(COUNT))]
        return pa.array([*values, None], pa.int64() if types.is_duration(arrow_type) else arrow_type).cast(arrow_type)
    if types.is_floating(arrow_type):
        values = [
            0.0,
            1.5,
            -2.0,
            float("inf"),
            float("-inf"),
            *(float(rng.randrange(-1000, 1000)) / 8 for _ in range(COUNT)),
        ]
        return pa.array(np.array(values), pa.float64()).cast(arrow_type)
    if types.is_decimal(arrow_type):
        most = 10**arrow_type.precision - 1
        values = [most, -most, 0, 1, -1, *(rng.randint(-most, most) for _ in range(COUNT))]
        scaled = [Decimal(value).scaleb(-arrow_type.scale, decimal.Context(prec=90)) for value in values]
        return pa.array([*scaled, None], arrow_type)
    if types.is_temporal(arrow_type):
        size = {
            "time32[s]": 86_400,
            "time32[ms]": 86_400_000,
            "time64[us]": 86_400 * 10**6,
            "time64[ns]": 86_400 * 10**9,
        }
        if str(arrow_type) in size:
            values = [
                0,
                size[str(arrow_type)] - 1,
                *(rng.randrange(size[str(arrow_type)]) for _ in range(COUNT)),
            ]
        elif types.is_date32(arrow_type):
            values = [-719_162, 2_932_896, 0, -1, *(rng.randrange(-10_000, 40_000) for _ in range(COUNT))]
        elif types.is_date64(arrow_type):
            values = [day * 86_400_000 for day in (0, -1, *(rng.randrange(-10_000, 40_000) for _ in range(COUNT)))]
        else:
            most = {"s": 253_402_300_799, "ms": 253_402_300_799_999}.get(arrow_type.unit, 2**63 - 1)
            values = [0, -1, most, -most, *(rng.randint(-most, most) for _ in range(COUNT))]
        storage = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
        return pa.array([*values, None], storage).cast(arrow_type)
    if types.is_fixed_size_binary(arrow_type):
        return pa.array([None, *(rng.randbytes(arrow_type.byte_width) for _ in range(COUNT))], arrow_type)
    alphabet = string.ascii_letters + "äßЖ日本😀"
    texts = ["".join(rng.choice(alphabet) for _ in range(rng.randrange(60))) for _ in range(COUNT)]
    return pa.array([None, "", *texts], arrow_type)


def extension(kind: pa.DataType, storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, storage)


def all_arrays() -> dict[str, pa.Array]:
    plain = [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
        *(
            pa.decimal32(9, 2),
            pa.decimal64(18, 3),
            pa.decimal128(3, 1),
            pa.decimal128(18, 6),
            pa.decimal128(38, 10),
        ),
        *(pa.decimal256(40, 5), pa.decimal256(76, 20), pa.decimal256(5, 0)),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Kolkata")),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.binary(1), pa.binary(7), pa.binary(16)),
    ]
    results = {str(arrow_type): drawn(arrow_type) for arrow_type in plain}
    results["uuid"] = extension(pa.uuid(), results["fixed_size_binary[16]"])
    results["json"] = extension(pa.json_(), results["string"])
    results["bool8"] = extension(pa.bool8(), pa.array([0, 1, None, 1], pa.int8()))
    results["dictionary of strings"] = pa.concat_arrays([results["string"], results["string"][:9]]).dictionary_encode()
    results["dictionary of longs"] = results["int64"].dictionary_encode()
    results["dictionary of decimals"] = results["decimal128(18, 6)"].dictionary_encode()
    results["dictionary of unused values"] = pa.DictionaryArray.from_arrays(
        pa.array([3, None, 5, 3], pa.int8()), results["string"][2:20]
    )
    return results


ARRAYS = all_arrays()


def run_end_encoded(values: pa.Array) -> pa.Array:
    """Each value three times in a row."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(3, 3 * len(values) + 1, 3), pa.int32()), values)


def written_bitset(path: Path, column: pa.Array | pa.ChunkedArray) -> bytes:
    """The bitset of the filter that pyarrow writes for a column."""
    pq.write_table(pa.table({"c": column}), path, version="2.6", bloom_filter_options={"c": {"ndv": 300}})
    (stored,) = oracle.filters(path).values()
    return stored.bitset


def bitset_of(num_bytes: int, *values: Any) -> bytes:
    bloom_filter = SplitBlockBloomFilter(num_bytes)
    for part in values:
        bloom_filter.insert(part)
    return bloom_filter.to_bytes()


# ------------------------------------------------------------------------------------------------------------
# As pyarrow stores them
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARRAYS)
def test_bits_are_those_of_a_written_file(name, tmp_path):
    array = ARRAYS[name]
    for part in (array, array.slice(3), array.slice(5, len(array) // 2), array.slice(1, 1)):
        bitset = written_bitset(tmp_path / "c.parquet", part)
        assert any(bitset) or part.null_count == len(part)
        assert bitset_of(len(bitset), part) == bitset
    bitset = written_bitset(tmp_path / "c.parquet", array)
    split = [array.slice(start, 11) for start in range(0, len(array), 11)]
    assert bitset_of(len(bitset), *split) == bitset
    assert bitset_of(len(bitset), pa.chunked_array([array[:7], array[:0], array[7:]])) == bitset
    assert bitset_of(len(bitset), pa.table({"c": array})) == bitset
    assert bitset_of(len(bitset), pa.record_batch({"c": array})) == bitset
    assert bitset_of(len(bitset), *(value for value in array if value.is_valid)) == bitset


@pytest.mark.parametrize("name", ARRAYS)
def test_no_value_is_denied_and_others_are(name):
    array = ARRAYS[name]
    bloom_filter = SplitBlockBloomFilter.from_ndv(len(array), 0.001)
    bloom_filter.insert(array)
    for part in (array, array.slice(9, 20), pa.chunked_array([array[3:], array[:3]])):
        assert bloom_filter.check(part).tolist() == [True] * len(part)
    half = SplitBlockBloomFilter.from_ndv(len(array), 0.001)
    half.insert(array[: len(array) // 2])
    assert name == "bool8" or name == "dictionary of unused values" or half.check(array).mean() < 0.7


@pytest.mark.parametrize(
    "name", [name for name in ARRAYS if name not in ("uuid", "json", "bool8") and "diction" not in name]
)
def test_run_ends_and_dictionaries_are_only_wrapping(name):
    array = ARRAYS[name]
    hashes = [hash_values(array[i : i + 1]).tolist() for i in range(len(array))]  # none for a null
    wrapped = run_end_encoded(array)
    for start, stop in (
        (0, len(wrapped)),
        (1, 2),
        (2, 11),
        (4, len(wrapped) - 1),
        (len(wrapped), len(wrapped)),
    ):
        part = wrapped.slice(start, stop - start)
        assert hash_values(part).tolist() == [h for i in range(start, stop) for h in hashes[i // 3]]
    dictionary = pa.DictionaryArray.from_arrays(pa.array([*range(len(array)), None, 0]), array)
    assert hash_values(dictionary).tolist() == [h for one in (*hashes, *hashes[:1]) for h in one]
    assert hash_values(dictionary.slice(2)).tolist() == [h for one in (*hashes[2:], *hashes[:1]) for h in one]


def test_hashes_are_the_oracles():
    """Some types by hand; for the rest pyarrow's files speak."""
    cases = [
        (pa.array([5, -1], pa.int8()), [oracle.plain_encode(v, "INT32") for v in (5, -1)]),
        (pa.array([5, 255], pa.uint8()), [oracle.plain_encode(v, "INT32") for v in (5, 255)]),
        (pa.array([2**32 - 1], pa.uint32()), [b"\xff\xff\xff\xff"]),
        (pa.array([2**64 - 1], pa.uint64()), [b"\xff" * 8]),
        (pa.array([1.5], pa.float32()), [oracle.plain_encode(1.5, "FLOAT")]),
        (pa.array([np.float16(1.5)], pa.float16()), [oracle.plain(1.5, "FIXED_LEN_BYTE_ARRAY", 2)]),
        (pa.array([0.0, -0.0]), [bytes(8), bytes(7) + b"\x80"]),
        (pa.array([Decimal("-1.25")], pa.decimal128(5, 2)), [(-125).to_bytes(3, "big", signed=True)]),
        (pa.array([Decimal("1.25")], pa.decimal32(5, 2)), [(125).to_bytes(3, "big", signed=True)]),
        (pa.array([Decimal(7)], pa.decimal256(76, 0)), [(7).to_bytes(32, "big", signed=True)]),
        (pa.array([dt.date(1969, 12, 31)]), [oracle.plain_encode(-1, "INT32")]),
        (pa.array([5], pa.timestamp("s")), [oracle.plain_encode(5000, "INT64")]),
        (pa.array([5], pa.time32("s")), [oracle.plain_encode(5000, "INT32")]),
        (pa.array([5], pa.duration("s")), [oracle.plain_encode(5, "INT64")]),
        (pa.array(["é", ""]), ["é".encode(), b""]),
        (extension(pa.uuid(), pa.array([bytes(range(16))], pa.binary(16))), [bytes(range(16))]),
    ]
    for array, plain in cases:
        assert hash_values(array).tolist() == [oracle.xxh64(value) for value in plain], array.type


def test_nulls_hold_anything():
    """Bytes under a null are never read, and never an error."""
    garbage = pa.array([2**62, 5, -(2**62)]).buffers()[1]
    nulls = pa.array([None, 1, None], pa.int8()).buffers()[0]
    array = pa.Array.from_buffers(pa.int64(), 3, [nulls, garbage])
    assert array.to_pylist() == [None, 5, None]
    for target in (pa.int8(), pa.int32(), pa.uint16()):
        bloom_filter = SplitBlockBloomFilter(64)
        bloom_filter.insert(pa.array([5], target))
        assert bloom_filter.check(array).tolist() == [True] * 3
    stamps = array.view(pa.timestamp("s"))
    assert hash_values(stamps).tolist() == hash_values(pa.array([5], pa.timestamp("s"))).tolist()
    huge = pa.array([10**37, 5, -(10**37)], pa.decimal128(38, 0)).buffers()[1]
    decimals = pa.Array.from_buffers(pa.decimal128(3, 0), 3, [nulls, huge])
    assert hash_values(decimals).tolist() == [oracle.xxh64((5).to_bytes(2, "big"))]
    as_int96 = hashing_arrow.to_storage(stamps, from_parquet("INT96"))
    assert as_int96.to_pylist() == [None, oracle.plain_encode(5 * 10**9, "INT96"), None]


# ------------------------------------------------------------------------------------------------------------
# Values from everywhere
# ------------------------------------------------------------------------------------------------------------

MOMENTS = [dt.datetime(2020, 1, 1, 12), None, dt.datetime(1969, 12, 31, 23, 59, 59, 1)]


def zoned(moments: list[dt.datetime | None], zone: dt.tzinfo) -> list[dt.datetime | None]:
    return [moment and moment.replace(tzinfo=zone) for moment in moments]


FOREIGN = [
    # NumPy
    (np.array([1, 2, 3]), pa.array([1, 2, 3])),
    (np.array([1, 2, 3], np.uint8), pa.array([1, 2, 3], pa.uint8())),
    (np.arange(10)[::2], pa.array(range(0, 10, 2))),
    (np.arange(10, dtype=np.int32)[::-1], pa.array(range(9, -1, -1), pa.int32())),
    (np.arange(12).reshape(3, 4)[:, 1], pa.array([1, 5, 9])),
    (np.array([1, -2], ">i4"), pa.array([1, -2], pa.int32())),
    (np.array([1.5, -2], ">f8"), pa.array([1.5, -2.0])),
    (np.array([2**64 - 1], ">u8"), pa.array([2**64 - 1], pa.uint64())),
    (np.array([1.5, np.nan], np.float32), pa.array([1.5, np.nan], pa.float32())),
    (np.array([1.5, 2], np.float16), pa.array(np.array([1.5, 2], np.float16))),
    (np.array([b"a", b"bcd"]), pa.array([b"a", b"bcd"])),
    (np.array(["a", "日本"]), pa.array(["a", "日本"])),
    (np.array(["a", None, "b"], object), pa.array(["a", None, "b"])),
    (np.array(["2020-01-01", "NaT"], "M8[D]"), pa.array([dt.date(2020, 1, 1), None])),
    *(
        (np.array(["2020-01-01T12", "NaT"], f"M8[{unit}]"), pa.array([MOMENTS[0], None], pa.timestamp(unit)))
        for unit in ("s", "ms", "us", "ns")
    ),
    (np.array(["2020-01-01T12"], ">M8[us]"), pa.array(MOMENTS[:1], pa.timestamp("us"))),
    (np.array([5], "m8[us]"), pa.array([5], pa.duration("us"))),
    (np.ma.array([1, 2, 3], mask=[False, True, False]), pa.array([1, None, 3])),
    # polars
    (pl.Series([1, None, 3]), pa.array([1, None, 3])),
    (pl.Series([1, 2], dtype=pl.UInt16), pa.array([1, 2], pa.uint16())),
    (pl.Series(["a", None, "日本"]), pa.array(["a", None, "日本"])),
    (pl.Series(["a", "b", "a", None], dtype=pl.Categorical), pa.array(["a", "b", "a", None])),
    (pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])), pa.array(["a", "b"])),
    (pl.Series([b"\xff", b""]), pa.array([b"\xff", b""])),
    (
        pl.Series([Decimal("1.25"), None], dtype=pl.Decimal(9, 2)),
        pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
    ),
    (pl.Series(MOMENTS), pa.array(MOMENTS, pa.timestamp("us"))),
    (
        pl.Series(MOMENTS).dt.replace_time_zone("Europe/Berlin"),
        pa.array(zoned(MOMENTS, dt.UTC), pa.timestamp("us", "UTC")),
    ),
    (pl.Series([dt.date(2020, 1, 1)]), pa.array([dt.date(2020, 1, 1)])),
    (pl.Series([dt.time(1, 2, 3, 4)]), pa.array([dt.time(1, 2, 3, 4)], pa.time64("ns"))),
    (pl.Series([None, None]), pa.nulls(2)),
    (pl.concat([pl.Series([1, 2]), pl.Series([3])], rechunk=False), pa.array([1, 2, 3])),
    (pl.DataFrame({"a": [1, 2]}), pa.array([1, 2])),
    (pl.Series([0.5, -0.0], dtype=pl.Float32), pa.array([0.5, -0.0], pa.float32())),
    # pandas
    (pd.Series([1, 2, 3]), pa.array([1, 2, 3])),
    (pd.Series([1, None], dtype="Int32"), pa.array([1, None], pa.int32())),
    (pd.Series(["a", None]), pa.array(["a", None])),
    (pd.Series(["a", "b", "a"], dtype="category"), pa.array(["a", "b", "a"])),
    (pd.Series(pd.to_datetime(MOMENTS).as_unit("us")), pa.array(MOMENTS, pa.timestamp("us"))),
    (
        pd.Series(pd.to_datetime(MOMENTS).as_unit("us")).dt.tz_localize("UTC"),
        pa.array(zoned(MOMENTS, dt.UTC), pa.timestamp("us", "UTC")),
    ),
    (pd.Series([1, 2, 3])[::2], pa.array([1, 3])),
    (
        pd.Series([Decimal("1.5")], dtype=pd.ArrowDtype(pa.decimal128(4, 2))),
        pa.array([Decimal("1.5")], pa.decimal128(4, 2)),
    ),
    # streams, and tables of one column
    (pa.table({"a": [1, 2]}).to_reader(), pa.array([1, 2])),
    (pa.table({"a": pa.chunked_array([[1], [2]])}), pa.array([1, 2])),
    (pa.chunked_array([], pa.int32()), pa.array([], pa.int32())),
    (pa.table({"a": pa.chunked_array([], pa.int32())}), pa.array([], pa.int32())),
    # Python
    ([1, None, 3], pa.array([1, None, 3])),
    ((1, 2), pa.array([1, 2])),
    ([], pa.nulls(0)),
    ([None], pa.nulls(1)),
    ([1.5, 2], pa.array([1.5, 2.0])),
    (["a", b"b".decode()], pa.array(["a", "b"])),
    ([b"a", bytearray(b"b")], pa.array([b"a", b"b"])),
    ([uuid.UUID(int=7)], extension(pa.uuid(), pa.array([uuid.UUID(int=7).bytes], pa.binary(16)))),
    ([dt.datetime(2020, 1, 1)], pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us"))),
    ([np.int8(5), np.int8(6)], pa.array([5, 6], pa.int8())),
]


@pytest.mark.parametrize(("values", "array"), FOREIGN)
def test_values_of_other_libraries(values, array):
    if isinstance(values, pl.Series) and values.dtype == pl.Datetime("us", "Europe/Berlin"):
        values = values.dt.convert_time_zone("UTC").dt.replace_time_zone(None).dt.replace_time_zone("UTC")
        array = pa.array([moment and moment - dt.timedelta(hours=1) for moment in zoned(MOMENTS, dt.UTC)], array.type)
    hashes = hash_values(values)
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == hash_values(array).tolist()


@pytest.mark.parametrize(
    ("sql", "array"),
    [
        ("i::BIGINT", pa.array(range(9))),
        ("i::UTINYINT", pa.array(range(9), pa.uint8())),
        ("'x' || i", pa.array([f"x{i}" for i in range(9)])),
        ("(i / 4.0)::DECIMAL(9, 2)", pa.array([Decimal(i) / 4 for i in range(9)], pa.decimal128(9, 2))),
        ("DATE '2020-01-01' + i::INTEGER", pa.array([dt.date(2020, 1, 1 + i) for i in range(9)])),
        ("CASE WHEN i % 2 = 0 THEN i END::DOUBLE", pa.array([None if i % 2 else float(i) for i in range(9)])),
        ("('a' || i % 2)::ENUM('a0', 'a1')", pa.array([f"a{i % 2}" for i in range(9)])),
    ],
)
def test_duckdb_relations(sql, array):
    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT {sql} FROM range(9) t(i) ORDER BY i")
        assert hash_values(relation).tolist() == hash_values(array).tolist()


class Exported:
    """An object that gives its values out by Arrow's protocol for arrays, and by nothing else."""

    def __init__(self, array: pa.Array | pa.RecordBatch):
        self.array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.array.__arrow_c_array__(requested_schema)


def test_objects_that_export_an_array():
    array = pa.array([1, None, 3], pa.int16())
    expected = hash_values(array).tolist()
    assert hash_values(Exported(array)).tolist() == expected
    assert hash_values(Exported(array.slice(1))).tolist() == expected[1:]
    assert hash_values(Exported(pa.record_batch({"c": array}))).tolist() == expected
    with pytest.raises(FilterTypeError, match="one column"):
        hash_values(Exported(pa.record_batch({"c": array, "d": array})))


def test_python_values_take_the_type_that_is_given():
    assert hash_values([5], pa.int32()).tolist() == hash_values(pa.array([5], pa.int32())).tolist()
    assert hash_values([5], pa.float32()).tolist() == hash_values(pa.array([5], pa.float32())).tolist()
    assert hash_values(np.array([5]), pa.int32()).tolist() == hash_values(pa.array([5], pa.int32())).tolist()
    assert hash_values(["a"], pa.binary(1)).tolist() == hash_values(pa.array([b"a"], pa.binary(1))).tolist()
    with pytest.raises(FilterTypeError):
        hash_values([2**40], pa.int32())


@pytest.mark.parametrize(
    "values",
    [
        *("text", b"bytes", 5, None, {1, 2}, {1: 2}, iter([1]), object()),
        *([1, "a"], [2**70], [object()], [1j], ["\ud800"], [[1], 2]),
        *(
            np.array(5),
            np.zeros((2, 2)),
            np.zeros(2, complex),
            np.zeros(2, "i4,i4"),
            np.zeros(2, np.longdouble),
        ),
        *(np.array(["2020-01-01T05"], "M8[h]"), np.array([1, "a"], object), np.array([b"a"], "V3")),
        *(
            pd.Series([1, "a"], dtype=object),
            pd.DataFrame({"a": [1], "b": [2]}),
            pl.DataFrame({"a": [1], "b": [2]}),
        ),
        *(
            pl.Series([1], dtype=pl.Int128),
            pa.table({"a": [1], "b": [2]}),
            pa.record_batch({"a": [1], "b": [2]}),
        ),
        pa.table({}),
    ],
)
def test_unhashable_values_are_refused(values):
    with pytest.raises(FilterTypeError) as caught:
        hash_values(values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        [True],
        np.array([True]),
        pa.array([None], pa.bool_()),
        pa.array([True]).dictionary_encode(),
        [[1]],
        [{"a": 1}],
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        pl.Series([[1]]),
        pa.array([pa.MonthDayNano([1, 2, 3])]),
        pa.array([Decimal(100)], pa.decimal128(3, -2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_types_without_filters_are_refused(values):
    with pytest.raises(UnsupportedTypeError):
        hash_values(values)


# ------------------------------------------------------------------------------------------------------------
# As values of another type
# ------------------------------------------------------------------------------------------------------------


def assert_one_line(error: Exception) -> None:
    assert "\n" not in str(error)


TARGETS = [from_arrow(array.type) for array in ARRAYS.values()] + [
    from_parquet("INT32"),
    from_parquet("INT64"),
    from_parquet("INT96"),
    from_parquet("BYTE_ARRAY"),
    from_parquet("FIXED_LEN_BYTE_ARRAY", 5),
    from_parquet("INT32", None, 5, None, 2, 9),
    from_parquet("INT64", None, 5, None, 3, 18),
    from_parquet("BYTE_ARRAY", None, 5, None, 2, 12),
    from_parquet("FIXED_LEN_BYTE_ARRAY", 20, 5, None, 2, 12),
    from_parquet("FIXED_LEN_BYTE_ARRAY", 12, 21),
    from_parquet("INT64", logical={16: {}}),
]
TARGETS = list({str(target): target for target in TARGETS}.values())


def python_value(scalar: pa.Scalar) -> Any:
    return scalar if pa.types.is_temporal(scalar.type) else scalar.as_py()


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_and_literals_agree(target: ColumnType):
    """Arrays of every type for columns of every type: each value becomes what its literal is, or all are refused."""
    taken = 0
    for name, array in ARRAYS.items():
        if "diction" in name:
            continue
        try:
            storage = hashing_arrow.to_storage(array, target)
        except FilterTypeError as error:
            assert_one_line(error)
            continue
        taken += 1
        assert len(storage) == len(array)
        assert storage.is_valid().equals(array.is_valid())
        for scalar, stored in zip(array, storage, strict=True):
            if not scalar.is_valid:
                continue
            value = python_value(scalar)
            if isinstance(value, float) and value != value:
                continue
            coerced = coerce([value], target)
            raw = raw_bytes(stored)
            if coerced.unknown is None:
                assert raw in stored_forms(coerced.values, target), (name, value)
    assert taken or target.length == 5 or "UNKNOWN" in str(target), target


def raw_bytes(stored: pa.Scalar) -> bytes:
    """Plain encoding of a value of a storage array."""
    width = {"int32": "INT32", "int64": "INT64", "float": "FLOAT", "double": "DOUBLE"}.get(str(stored.type))
    return stored.as_py() if width is None else oracle.plain_encode(stored.as_py(), width)


@pytest.mark.parametrize("target", [t for t in TARGETS if "UNKNOWN" not in str(t)])
def test_probing_with_other_types_loses_nothing(target: ColumnType):
    """A filter of a column, probed with arrays of any type: "absent" only for what cannot be a value of the column."""
    for name, array in ARRAYS.items():
        forms, retained = [], []
        part = array.slice(0, 25)
        for scalar in part:
            coerced = coerce([python_value(scalar) if scalar.is_valid else None], target)
            retained.append(bool(coerced.values) or not scalar.is_valid)
            forms += stored_forms(coerced.values, target)[:1]
        bloom_filter = SplitBlockBloomFilter.from_ndv(max(1, len(forms)), 1e-6)
        bloom_filter.insert_hashes(np.array([oracle.xxh64(form) for form in forms], np.uint64))
        bound = SplitBlockBloomFilter.from_bitset(bloom_filter.to_bytes(), target)
        try:
            answers = bound.check(part).tolist()
        except FilterTypeError as error:
            assert_one_line(error)
            continue
        assert len(answers) == len(part)
        for scalar, answer, keep in zip(part, answers, retained, strict=True):
            assert answer or not keep, (name, scalar)


def test_int96_beyond_its_days():
    far = pa.array([2**62], pa.timestamp("s"))
    with pytest.raises(FilterTypeError, match="INT96"):
        hashing_arrow.to_storage(far, from_parquet("INT96"))
    sliced = pa.array([2**62, 5, None], pa.timestamp("s")).slice(1)
    storage = hashing_arrow.to_storage(sliced, from_parquet("INT96"))
    assert storage.to_pylist() == [oracle.plain_encode(5 * 10**9, "INT96"), None]


def test_decimals_that_do_not_fit_their_bytes():
    narrow = from_parquet("FIXED_LEN_BYTE_ARRAY", 2, 5, None, 2, 9)  # room for five digits, though nine are announced
    fits = pa.array([Decimal("327.67"), Decimal("-327.68"), None], pa.decimal128(9, 2))
    assert hashing_arrow.to_storage(fits, narrow).to_pylist() == [b"\x7f\xff", b"\x80\x00", None]
    with pytest.raises(FilterTypeError, match="2 bytes"):
        hashing_arrow.to_storage(pa.array([Decimal("327.68")], pa.decimal128(9, 2)), narrow)


def test_leaf_values():
    nested = pa.array(
        [{"a": [1, 2]}, None, {"a": []}, {"a": None}, {"a": [None, 3]}],
        pa.struct([("a", pa.list_(pa.int32()))]),
    )
    assert hashing_arrow.leaf_values(nested).to_pylist() == [1, 2, None, 3]
    assert hashing_arrow.leaf_values(nested.slice(3)).to_pylist() == [None, 3]
