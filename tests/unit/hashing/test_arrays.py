"""Arrow data of every kind as the bytes that Parquet stores: compared with files that pyarrow wrote, and the oracle."""

from __future__ import annotations

import datetime as dt
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
from support.writers.typed_columns import ARROW_TYPES, draw_values

from parquet_bloom.errors import FilterTypeError, UnsupportedTypeError
from parquet_bloom.filter import SplitBlockBloomFilter, hash_values
from parquet_bloom.hashing.arrow_keys import leaf_values, to_storage
from parquet_bloom.hashing.coerce import coerce, stored_forms
from parquet_bloom.hashing.column_type import ColumnType, from_arrow, from_parquet


def extension(kind: pa.DataType, storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, storage)


def all_arrays() -> dict[str, pa.Array]:
    results = {str(kind): pa.concat_arrays([draw_values(kind, 40), pa.nulls(1, kind)]) for kind in ARROW_TYPES}
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
PLAIN = [name for name in ARRAYS if name not in ("uuid", "json", "bool8") and "diction" not in name]


def bitset_of(num_bytes: int, *values: Any) -> bytes:
    bloom_filter = SplitBlockBloomFilter(num_bytes)
    for part in values:
        bloom_filter.insert(part)
    return bloom_filter.to_bytes()


# ------------------------------------------------------------------------------------------------------------
# As pyarrow stores them
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.ci
@pytest.mark.parametrize("name", ARRAYS)
def test_bits_are_those_of_a_written_file(name: str, tmp_path: Path) -> None:
    def written_bitset(column: pa.Array) -> bytes:
        """The bitset of the filter that pyarrow writes for a column."""
        path, options = tmp_path / "c.parquet", {"c": {"ndv": 300}}
        pq.write_table(pa.table({"c": column}), path, version="2.6", bloom_filter_options=options)
        (stored,) = oracle.filters(path).values()
        return stored.bitset

    array = ARRAYS[name]
    for part in (array, array.slice(3), array.slice(5, len(array) // 2), array.slice(1, 1)):
        bitset = written_bitset(part)
        assert any(bitset) or part.null_count == len(part)
        assert bitset_of(len(bitset), part) == bitset
    bitset = written_bitset(array)
    for values in (
        [array.slice(start, 11) for start in range(0, len(array), 11)],
        [pa.chunked_array([array[:7], array[:0], array[7:]])],
        [pa.table({"c": array})],
        [pa.record_batch({"c": array})],
        [value for value in array if value.is_valid],
    ):
        assert bitset_of(len(bitset), *values) == bitset


@pytest.mark.parametrize("name", ARRAYS)
def test_no_value_is_denied_and_others_are(name: str) -> None:
    array = ARRAYS[name]
    complete, half = (SplitBlockBloomFilter.from_ndv(len(array), 0.001) for _ in range(2))
    complete.insert(array)
    for part in (array, array.slice(9, 20), pa.chunked_array([array[3:], array[:3]])):
        assert complete.check(part).tolist() == [True] * len(part)
    half.insert(array[: len(array) // 2])
    assert name in ("bool8", "dictionary of unused values") or half.check(array).mean() < 0.7


@pytest.mark.parametrize("name", PLAIN)
def test_run_ends_and_dictionaries_are_only_wrapping(name: str) -> None:
    array = ARRAYS[name]
    hashes = [hash_values(array[i : i + 1]).tolist() for i in range(len(array))]  # none for a null
    runs = pa.array(range(3, 3 * len(array) + 1, 3), pa.int32())  # each value three times in a row
    wrapped = pa.RunEndEncodedArray.from_arrays(runs, array)
    for start, stop in ((0, len(wrapped)), (1, 2), (2, 11), (4, len(wrapped) - 1), (len(wrapped), len(wrapped))):
        part = wrapped.slice(start, stop - start)
        assert hash_values(part).tolist() == [h for i in range(start, stop) for h in hashes[i // 3]]
    dictionary = pa.DictionaryArray.from_arrays(pa.array([*range(len(array)), None, 0]), array)
    assert hash_values(dictionary).tolist() == [h for one in (*hashes, *hashes[:1]) for h in one]
    assert hash_values(dictionary.slice(2)).tolist() == [h for one in (*hashes[2:], *hashes[:1]) for h in one]


def test_hashes_are_the_oracles() -> None:
    """Some types by hand; for the rest pyarrow's files speak."""
    plain = oracle.plain_encode
    for array, expected in (
        (pa.array([5, -1], pa.int8()), [plain(v, "INT32") for v in (5, -1)]),
        (pa.array([5, 255], pa.uint8()), [plain(v, "INT32") for v in (5, 255)]),
        (pa.array([2**32 - 1], pa.uint32()), [b"\xff\xff\xff\xff"]),
        (pa.array([2**64 - 1], pa.uint64()), [b"\xff" * 8]),
        (pa.array([1.5], pa.float32()), [plain(1.5, "FLOAT")]),
        (pa.array([np.float16(1.5)], pa.float16()), [oracle.plain(1.5, "FIXED_LEN_BYTE_ARRAY", 2)]),
        (pa.array([0.0, -0.0]), [bytes(8), bytes(7) + b"\x80"]),
        (pa.array([Decimal("-1.25")], pa.decimal128(5, 2)), [(-125).to_bytes(3, "big", signed=True)]),
        (pa.array([Decimal("1.25")], pa.decimal32(5, 2)), [(125).to_bytes(3, "big", signed=True)]),
        (pa.array([Decimal(7)], pa.decimal256(76, 0)), [(7).to_bytes(32, "big", signed=True)]),
        (pa.array([dt.date(1969, 12, 31)]), [plain(-1, "INT32")]),
        (pa.array([5], pa.timestamp("s")), [plain(5000, "INT64")]),
        (pa.array([5], pa.time32("s")), [plain(5000, "INT32")]),
        (pa.array([5], pa.duration("s")), [plain(5, "INT64")]),
        (pa.array(["é", ""]), ["é".encode(), b""]),
        (extension(pa.uuid(), pa.array([bytes(range(16))], pa.binary(16))), [bytes(range(16))]),
    ):
        assert hash_values(array).tolist() == [oracle.xxh64(value) for value in expected], array.type


def test_bytes_under_a_null_are_never_read_and_never_an_error() -> None:
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
    as_int96 = to_storage(stamps, from_parquet("INT96"))
    assert as_int96.to_pylist() == [None, oracle.plain_encode(5 * 10**9, "INT96"), None]


# ------------------------------------------------------------------------------------------------------------
# Values from everywhere
# ------------------------------------------------------------------------------------------------------------


def test_values_of_other_libraries() -> None:
    noon, early = dt.datetime(2020, 1, 1, 12), dt.datetime(1969, 12, 31, 23, 59, 59, 1)
    moments, day, quarter = [noon, None, early], dt.date(2020, 1, 1), Decimal("1.25")
    berlin = pl.Series(moments).dt.replace_time_zone("Europe/Berlin")
    in_utc = pa.array([one and (one - dt.timedelta(hours=1)).replace(tzinfo=dt.UTC) for one in moments])
    stamps, zoned = pa.array(moments, pa.timestamp("us")), pa.array(moments, pa.timestamp("us")).cast(in_utc.type)
    of_pandas = pd.Series(pd.to_datetime(moments).as_unit("us"))
    price = pa.array([quarter], pa.decimal128(9, 2))
    for values, array in [
        # NumPy
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
        (np.array(["2020-01-01", "NaT"], "M8[D]"), pa.array([day, None])),
        *(
            (np.array(["2020-01-01T12", "NaT"], f"M8[{unit}]"), pa.array([noon, None], pa.timestamp(unit)))
            for unit in ("s", "ms", "us", "ns")
        ),
        (np.array(["2020-01-01T12"], ">M8[us]"), pa.array([noon], pa.timestamp("us"))),
        (np.array([5], "m8[us]"), pa.array([5], pa.duration("us"))),
        (np.ma.array([1, 2, 3], mask=[False, True, False]), pa.array([1, None, 3])),
        # polars
        (pl.Series([1, None, 3]), pa.array([1, None, 3])),
        (pl.Series([1, 2], dtype=pl.UInt16), pa.array([1, 2], pa.uint16())),
        (pl.Series(["a", None, "日本"]), pa.array(["a", None, "日本"])),
        (pl.Series(["a", "b", "a", None], dtype=pl.Categorical), pa.array(["a", "b", "a", None])),
        (pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])), pa.array(["a", "b"])),
        (pl.Series([b"\xff", b""]), pa.array([b"\xff", b""])),
        (pl.Series([quarter], dtype=pl.Decimal(9, 2)), price),
        *((pl.Series(moments), stamps), (berlin, in_utc)),
        (pl.Series([day]), pa.array([day])),
        (pl.Series([dt.time(1, 2, 3, 4)]), pa.array([dt.time(1, 2, 3, 4)], pa.time64("ns"))),
        (pl.Series([None, None]), pa.nulls(2)),
        (pl.concat([pl.Series([1, 2]), pl.Series([3])], rechunk=False), pa.array([1, 2, 3])),
        (pl.DataFrame({"a": [1, 2]}), pa.array([1, 2])),
        (pl.Series([0.5, -0.0], dtype=pl.Float32), pa.array([0.5, -0.0], pa.float32())),
        # pandas
        (pd.Series([1, None], dtype="Int32"), pa.array([1, None], pa.int32())),
        (pd.Series(["a", None]), pa.array(["a", None])),
        (pd.Series(["a", "b", "a"], dtype="category"), pa.array(["a", "b", "a"])),
        *((of_pandas, stamps), (of_pandas.dt.tz_localize("UTC"), zoned)),
        (pd.Series([1, 2, 3])[::2], pa.array([1, 3])),
        (pd.Series([quarter], dtype=pd.ArrowDtype(pa.decimal128(9, 2))), price),
        # streams, and tables of one column
        (pa.table({"a": [1, 2]}).to_reader(), pa.array([1, 2])),
        (pa.table({"a": pa.chunked_array([[1], [2]])}), pa.array([1, 2])),
        (pa.chunked_array([], pa.int32()), pa.array([], pa.int32())),
        (pa.table({"a": pa.chunked_array([], pa.int32())}), pa.array([], pa.int32())),
        # Python
        *(([1, None, 3], pa.array([1, None, 3])), ((1, 2), pa.array([1, 2])), ([], pa.nulls(0)), ([None], pa.nulls(1))),
        *(([1.5, 2], pa.array([1.5, 2.0])), (["a", b"b".decode()], pa.array(["a", "b"]))),
        ([b"a", bytearray(b"b")], pa.array([b"a", b"b"])),
        ([uuid.UUID(int=7)], extension(pa.uuid(), pa.array([uuid.UUID(int=7).bytes], pa.binary(16)))),
        ([noon], pa.array([noon], pa.timestamp("us"))),
        ([np.int8(5), np.int8(6)], pa.array([5, 6], pa.int8())),
    ]:
        hashes = hash_values(values)
        assert hashes.dtype == np.uint64
        assert hashes.tolist() == hash_values(array).tolist(), repr(values)


def test_duckdb_relations() -> None:
    with duckdb.connect() as connection:
        for sql, array in (
            ("i::BIGINT", pa.array(range(9))),
            ("i::UTINYINT", pa.array(range(9), pa.uint8())),
            ("'x' || i", pa.array([f"x{i}" for i in range(9)])),
            ("(i / 4.0)::DECIMAL(9, 2)", pa.array([Decimal(i) / 4 for i in range(9)], pa.decimal128(9, 2))),
            ("DATE '2020-01-01' + i::INTEGER", pa.array([dt.date(2020, 1, 1 + i) for i in range(9)])),
            ("CASE WHEN i % 2 = 0 THEN i END::DOUBLE", pa.array([None if i % 2 else float(i) for i in range(9)])),
            ("('a' || i % 2)::ENUM('a0', 'a1')", pa.array([f"a{i % 2}" for i in range(9)])),
        ):
            relation = connection.sql(f"SELECT {sql} FROM range(9) t(i) ORDER BY i")
            assert hash_values(relation).tolist() == hash_values(array).tolist(), sql


def test_objects_that_export_an_array() -> None:
    class Exported:
        """An object that gives its values out by Arrow's protocol for arrays, and by nothing else."""

        def __init__(self, array: pa.Array | pa.RecordBatch):
            self.array = array

        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return self.array.__arrow_c_array__(requested_schema)

    array = pa.array([1, None, 3], pa.int16())
    expected = hash_values(array).tolist()
    assert hash_values(Exported(array)).tolist() == expected
    assert hash_values(Exported(array.slice(1))).tolist() == expected[1:]
    assert hash_values(Exported(pa.record_batch({"c": array}))).tolist() == expected
    with pytest.raises(FilterTypeError, match="one column"):
        hash_values(Exported(pa.record_batch({"c": array, "d": array})))


def test_python_values_take_the_type_that_is_given() -> None:
    for values, kind in (([5], pa.int32()), ([5], pa.float32()), (np.array([5]), pa.int32()), (["a"], pa.binary(1))):
        assert hash_values(values, kind).tolist() == hash_values(pa.array(values, kind)).tolist()
    with pytest.raises(FilterTypeError):
        hash_values([2**40], pa.int32())


def test_unhashable_values_are_refused() -> None:
    for values in (
        *("text", b"bytes", 5, None, {1, 2}, {1: 2}, iter([1]), object()),
        *([1, "a"], [2**70], [object()], [1j], ["\ud800"], [[1], 2]),
        *(np.array(5), np.zeros((2, 2)), np.zeros(2, complex), np.zeros(2, "i4,i4"), np.zeros(2, np.longdouble)),
        *(np.array(["2020-01-01T05"], "M8[h]"), np.array([1, "a"], object), np.array([b"a"], "V3")),
        *(pd.Series([1, "a"], dtype=object), pd.DataFrame({"a": [1], "b": [2]}), pl.DataFrame({"a": [1], "b": [2]})),
        *(pl.Series([1], dtype=pl.Int128), pa.table({"a": [1], "b": [2]}), pa.record_batch({"a": [1], "b": [2]})),
        pa.table({}),
    ):
        with pytest.raises(FilterTypeError) as caught:
            hash_values(values)
        assert "\n" not in str(caught.value)
    for values in (
        *([True], np.array([True]), pa.array([None], pa.bool_()), pa.array([True]).dictionary_encode()),
        *([[1]], [{"a": 1}], pa.array([[1]]), pa.array([{"a": 1}]), pl.Series([[1]])),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        *(pa.array([pa.MonthDayNano([1, 2, 3])]), pa.array([Decimal(100)], pa.decimal128(3, -2))),
    ):
        with pytest.raises(UnsupportedTypeError):
            hash_values(values)


# ------------------------------------------------------------------------------------------------------------
# As values of another type
# ------------------------------------------------------------------------------------------------------------

TARGETS = [from_arrow(array.type) for array in ARRAYS.values()] + [
    *(from_parquet(physical) for physical in ("INT32", "INT64", "INT96", "BYTE_ARRAY")),
    from_parquet("FIXED_LEN_BYTE_ARRAY", 5),
    from_parquet("INT32", None, 5, None, 2, 9),
    from_parquet("INT64", None, 5, None, 3, 18),
    from_parquet("BYTE_ARRAY", None, 5, None, 2, 12),
    from_parquet("FIXED_LEN_BYTE_ARRAY", 20, 5, None, 2, 12),
    from_parquet("FIXED_LEN_BYTE_ARRAY", 12, 21),
    from_parquet("INT64", logical={16: {}}),
]


def assert_one_line(error: Exception) -> None:
    assert "\n" not in str(error)


@pytest.mark.ci
@pytest.mark.parametrize("target", {str(target): target for target in TARGETS}.values())
def test_arrays_become_what_their_literals_are_and_probes_lose_nothing(target: ColumnType) -> None:
    """Arrays of every type for columns of every type: each value is stored as its literal would be, or all are refused.

    A filter of the column says "absent" only of what cannot be a value of it.
    """

    def raw_bytes(stored: pa.Scalar) -> bytes:
        """Plain encoding of a value of a storage array."""
        width = {"int32": "INT32", "int64": "INT64", "float": "FLOAT", "double": "DOUBLE"}.get(str(stored.type))
        return stored.as_py() if width is None else oracle.plain_encode(stored.as_py(), width)

    taken = 0
    for name, array in ARRAYS.items():
        coerced = [
            coerce([(one if pa.types.is_temporal(one.type) else one.as_py()) if one.is_valid else None], target)
            for one in array
        ]
        try:
            storage = None if "diction" in name else to_storage(array, target)
        except FilterTypeError as error:
            assert_one_line(error)
            storage = None
        if storage is not None:
            taken += 1
            assert storage.is_valid().equals(array.is_valid())
            for scalar, stored, of_literal in zip(array, storage, coerced, strict=True):
                if scalar.is_valid and of_literal.unknown is None:
                    assert raw_bytes(stored) in stored_forms(of_literal.values, target), (name, scalar)
        if "UNKNOWN" in str(target):
            continue
        part = array.slice(0, 25)
        forms = [form for one in coerced[:25] for form in stored_forms(one.values, target)[:1]]
        bloom_filter = SplitBlockBloomFilter.from_ndv(max(1, len(forms)), 1e-6)
        bloom_filter.insert_hashes(np.array([oracle.xxh64(form) for form in forms], np.uint64))
        try:
            answers = SplitBlockBloomFilter.from_bitset(bloom_filter.to_bytes(), target).check(part).tolist()
        except FilterTypeError as error:
            assert_one_line(error)
            continue
        for scalar, answer, of_literal in zip(part, answers, coerced, strict=False):
            assert answer or (scalar.is_valid and not of_literal.values), (name, scalar)
        assert len(answers) == len(part)
    assert taken or target.length == 5 or "UNKNOWN" in str(target), target


def test_values_that_do_not_fit_their_column() -> None:
    """Days of INT96, and decimals whose bytes have room for fewer digits than are announced."""
    int96, far = from_parquet("INT96"), pa.array([2**62, 5, None], pa.timestamp("s"))
    with pytest.raises(FilterTypeError, match="INT96"):
        to_storage(far, int96)
    assert to_storage(far.slice(1), int96).to_pylist() == [oracle.plain_encode(5 * 10**9, "INT96"), None]
    narrow = from_parquet("FIXED_LEN_BYTE_ARRAY", 2, 5, None, 2, 9)
    fits = pa.array([Decimal("327.67"), Decimal("-327.68"), None], pa.decimal128(9, 2))
    assert to_storage(fits, narrow).to_pylist() == [b"\x7f\xff", b"\x80\x00", None]
    with pytest.raises(FilterTypeError, match="2 bytes"):
        to_storage(pa.array([Decimal("327.68")], pa.decimal128(9, 2)), narrow)


def test_leaf_values() -> None:
    kind = pa.struct([("a", pa.list_(pa.int32()))])
    nested = pa.array([{"a": [1, 2]}, None, {"a": []}, {"a": None}, {"a": [None, 3]}], kind)
    assert leaf_values(nested).to_pylist() == [1, 2, None, 3]
    assert leaf_values(nested.slice(3)).to_pylist() == [None, 3]
