"""Values in zones: Lance's sizes, native widths, bits; results of an index in memory, compared with slow twins."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import oracle
from support.writers.zone_tables import INTS, answered, table_of

from parquet_bloom import zones
from parquet_bloom.core.bloom import sbbf
from parquet_bloom.errors import BrokenZonesError, ParquetBloomError, UnsupportedTypeError
from parquet_bloom.hashing.coerce import coerce
from parquet_bloom.zones import zone_hashes
from parquet_bloom.zones.zone_filters import InMemoryFilters
from parquet_bloom.zones.zone_manifest import SCHEMA

D = decimal.Decimal

# ----------------------------------------------------------------------------------------------------------- sizes

TABLE = {
    1_000: (1, 1, 2, 4, 4),
    8_192: (8, 8, 16, 32, 32),
    100_000: (128, 128, 256, 256, 512),
    1_000_000: (1024, 1024, 2048, 4096, 4096),
}


@pytest.mark.parametrize("items", TABLE)
def test_sizes_are_those_of_lance(items):
    sizes = [zones.lance_num_bytes(items, fpp) // 1024 for fpp in (0.1, 0.05, 0.01, 0.00057, 0.0001)]
    assert sizes == list(TABLE[items])


@given(st.integers(1, 1 << 40), st.floats(1e-9, 0.999))
def test_a_size_is_the_smallest_that_meets_the_probability(items, fpp):
    size = zones.lance_num_bytes(items, fpp)
    assert size in {1 << power for power in range(5, 28)}
    # The model of this project is the same one, but for where its sum ends.
    if 32 < size < 1 << 27:
        assert oracle.fpp_float(items, size) <= fpp * 1.001
        assert oracle.fpp_float(items, size // 2) > fpp * 0.999


def test_sizes_end_at_both_ends():
    assert zones.lance_num_bytes(1, 0.999) == 32
    assert zones.lance_num_bytes(1 << 50, 0.1) == 1 << 27
    for items, fpp in ((0, 0.1), (-1, 0.1), (True, 0.1), (1.5, 0.1), (10, 0.0), (10, 1.0), (10, math.nan)):
        with pytest.raises(ValueError):
            zones.lance_num_bytes(items, fpp)


# ------------------------------------------------------------------------------------------------------------ bytes

EPOCH = dt.datetime(1970, 1, 1)
NATIVE = {
    "int8": (pa.int8(), [5, -5, 127, -128], lambda v: struct.pack("<b", v)),
    "uint8": (pa.uint8(), [5, 255], lambda v: struct.pack("<B", v)),
    "int16": (pa.int16(), [5, -300], lambda v: struct.pack("<h", v)),
    "uint16": (pa.uint16(), [5, 65535], lambda v: struct.pack("<H", v)),
    "int32": (pa.int32(), [5, -70000], lambda v: struct.pack("<i", v)),
    "uint32": (pa.uint32(), [5, 2**32 - 1], lambda v: struct.pack("<I", v)),
    "int64": (pa.int64(), [5, -(2**40)], lambda v: struct.pack("<q", v)),
    "uint64": (pa.uint64(), [5, 2**64 - 1], lambda v: struct.pack("<Q", v)),
    "float16": (pa.float16(), [1.5, -2.0], lambda v: struct.pack("<e", v)),
    "float32": (pa.float32(), [1.5, -0.25], lambda v: struct.pack("<f", v)),
    "float64": (pa.float64(), [1.5, 0.1], lambda v: struct.pack("<d", v)),
    "string": (pa.string(), ["", "é", "a" * 50], str.encode),
    "large_string": (pa.large_string(), ["", "é"], str.encode),
    "string_view": (pa.string_view(), ["", "é", "a" * 50], str.encode),
    "binary": (pa.binary(), [b"", b"\0\xff"], bytes),
    "large_binary": (pa.large_binary(), [b"", b"\0\xff"], bytes),
    "fixed": (pa.binary(3), [b"abc", b"\0\0\0"], bytes),
    "uuid": (pa.uuid(), [uuid.UUID(int=5)], lambda v: v.bytes),
    "date32": (pa.date32(), [dt.date(2020, 2, 3)], lambda v: struct.pack("<i", (v - EPOCH.date()).days)),
    "date64": (pa.date64(), [dt.date(2020, 2, 3)], lambda v: struct.pack("<q", (v - EPOCH.date()).days * 86_400_000)),
    "decimal128": (
        pa.decimal128(20, 2),
        [D("1.25"), D("-7.00")],
        lambda v: int(v * 100).to_bytes(16, "little", signed=True),
    ),
    "decimal256": (
        pa.decimal256(50, 2),
        [D("1.25"), D("-7.00")],
        lambda v: int(v * 100).to_bytes(32, "little", signed=True),
    ),
    "decimal256, few digits": (
        pa.decimal256(20, 2),
        [D("1.25"), D("-7.00")],
        lambda v: int(v * 100).to_bytes(16, "little", signed=True),
    ),
}
for _unit, _scale in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
    for _zone in (None, "UTC"):
        NATIVE[f"timestamp {_unit} {_zone}"] = (
            pa.timestamp(_unit, _zone),
            [dt.datetime(2020, 2, 3, 4, 5, 6, tzinfo=dt.UTC if _zone else None)],
            lambda v, scale=_scale: struct.pack(
                "<q", (v.replace(tzinfo=None) - EPOCH) // dt.timedelta(seconds=1) * scale
            ),
        )
    NATIVE[f"time {_unit}"] = (
        pa.time32(_unit) if _unit in ("s", "ms") else pa.time64(_unit),
        [dt.time(4, 5, 6)],
        lambda v, scale=_scale, code="<i" if _unit in ("s", "ms") else "<q": struct.pack(
            code, (v.hour * 3600 + v.minute * 60 + v.second) * scale
        ),
    )


@pytest.mark.parametrize("name", NATIVE)
def test_filters_hold_native_bytes_and_literals_find_them(name):
    arrow_type, values, encode = NATIVE[name]
    array = pa.array([None, *values, None][: len(values) + 2], arrow_type).slice(1)
    column_type = zone_hashes.find_column_type(arrow_type)
    expected = oracle.OracleFilter.of(64, map(encode, values))
    assert zones.lance_filter(array, 60, 0.1) == expected.to_bytes()
    for value in values:
        coerced = coerce([value], column_type)
        assert coerced.unknown is None, name
        hashes, first = zones.keying(sorted(coerced.values), column_type)
        assert hashes.tolist() == [oracle.xxh64(encode(value))]
        assert first.tolist() == [0, 1]


def test_columns_without_zones():
    for values in ([True, False], pa.array([[1]]), pa.array([{"a": 1}])):
        with pytest.raises(UnsupportedTypeError):
            zones.lance_filter(values)


def test_dictionaries_and_chunks_are_hashed_as_what_they_hold():
    texts = ["a", None, "b", "a"]
    plain = zones.lance_filter(pa.array(texts), 10, 0.1)
    assert zones.lance_filter(pa.array(texts).dictionary_encode(), 10, 0.1) == plain
    assert zones.lance_filter(pa.chunked_array([texts[:1], texts[1:]], pa.string()), 10, 0.1) == plain
    assert zones.lance_filter([], 10, 0.1) == zones.lance_filter(pa.nulls(3), 10, 0.1) == bytes(32)


@given(st.lists(st.integers(-(10**9) + 1, 10**9 - 1), min_size=1, max_size=8))
def test_decimals_are_hashed_alike_however_they_are_stored(unscaled):
    """As what they are, in 16 bytes; stored as INT32, INT64, or 4, 9, 20 or any number of bytes."""
    from parquet_bloom.core.hash.xxh64 import hash_keys
    from parquet_bloom.hashing.column_type import from_parquet

    expected = [oracle.xxh64(value.to_bytes(16, "little", signed=True)) for value in unscaled]
    decimal_of = {5: {1: 2, 2: 9}}
    stored = {
        from_parquet("INT32", logical=decimal_of): pa.array(unscaled, pa.int32()),
        from_parquet("INT64", logical=decimal_of): pa.array(unscaled, pa.int64()),
        from_parquet("BYTE_ARRAY", logical=decimal_of): pa.array(
            [v.to_bytes(4 + i % 9, "big", signed=True) for i, v in enumerate(unscaled)], pa.binary()
        ),
    } | {
        from_parquet("FIXED_LEN_BYTE_ARRAY", n, logical=decimal_of): pa.array(
            [v.to_bytes(n, "big", signed=True) for v in unscaled], pa.binary(n)
        )
        for n in (4, 9, 16, 20)
    }
    for column_type, array in stored.items():
        assert hash_keys(zone_hashes.stored_keys(array, column_type)).tolist() == expected
        hashes, _ = zones.keying(sorted(set(unscaled)), column_type)
        assert {*hashes.tolist()} == {*expected}


def test_a_decimal_that_16_bytes_do_not_hold():
    from parquet_bloom.core.hash.xxh64 import hash_keys
    from parquet_bloom.hashing.column_type import from_parquet

    column_type = from_parquet("FIXED_LEN_BYTE_ARRAY", 20, logical={5: {1: 0, 2: 38}})
    value = 1 << 140
    stored = pa.array([value.to_bytes(20, "big", signed=True)], pa.binary(20))
    assert (
        hash_keys(zone_hashes.stored_keys(stored, column_type)).tolist()
        == zones.keying([value], column_type)[0].tolist()
    )


def test_both_zeros_are_probed():
    for arrow_type in (pa.float16(), pa.float32(), pa.float64()):
        hashes, first = zones.keying([-1.0, 0.0, 2.0], zone_hashes.find_column_type(arrow_type))
        assert first.tolist() == [0, 1, 3, 4]
        assert len({*hashes.tolist()}) == 4


# ---------------------------------------------------------------------------------------------------- tables in memory


def test_answers_are_what_the_filters_say():
    table, stored = table_of(INTS)
    index = zones.open(table, value_type=pa.int8())
    positions = [(row["fragment_id"], row["zone_start"], row["zone_length"]) for row in table.to_pylist()]
    assert (index.items, index.probability, len(index)) == (8, 0.01, 4)
    for value in range(-128, 128):
        expected = [
            location
            for location, bitset in zip(positions, table["bloom_filter_data"].to_pylist(), strict=True)
            if oracle.OracleFilter(32, bitset).check(struct.pack("<b", value))
        ]
        assert answered(index.equals(value)) == expected
        for location, values in zip(positions, stored, strict=True):
            assert location in expected or value not in values.to_pylist()
    assert answered(index.is_null()) == answered(index.equals(None)) == [positions[0], positions[3]]
    assert {*answered(index.is_in([4, None]))} >= {positions[0], positions[3]}
    assert answered(index.is_in([])) == []
    assert answered(index.equals(1000)) == []  # no int8 is
    assert index.equals(1).schema == pa.schema([SCHEMA.field(name) for name in SCHEMA.names[:3]])


def test_all_zones_where_nothing_can_be_said():
    table, _ = table_of(INTS)
    assert zones.open(table).equals(1).num_rows == 4  # of which type?
    index = zones.open(table, value_type=pa.int8())
    assert index.equals("1").num_rows == index.is_in([1, "x"]).num_rows == 4
    floats, _ = table_of([pa.array([0.0, -0.0, math.nan, 1.0, 2.0])], rows=1)
    index = zones.open(floats, value_type=pa.float64())
    assert index.equals(math.nan).num_rows == 5
    assert answered(index.equals(0.0)) == answered(index.equals(-0.0)) == [(0, 0, 1), (0, 1, 1)]
    assert index.equals(np.float64(1)).num_rows == index.equals(pa.scalar(1.0)).num_rows == 1


def test_a_table_comes_back_as_it_was():
    table, _ = table_of(INTS)
    assert zones.open(table).to_table().equals(table, check_metadata=True)
    assert zones.open(table.to_reader()).to_table().equals(table)
    wide = table.cast(pa.schema([*list(SCHEMA)[:4], pa.field("bloom_filter_data", pa.large_binary(), nullable=False)]))
    assert zones.open(wide.select([4, 3, 2, 1, 0])).to_table().equals(table)
    combined = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    index = zones.open(combined, value_type=pa.int8())
    assert index.to_table().equals(table)
    assert index.check(np.array([3, 0, 3]), zones.keying([5], index.column_type)[0]).tolist() == [
        True,
        False,
        True,
    ]
    assert index.check(np.array([], int), zones.keying([5], index.column_type)[0]).tolist() == []
    assert index.check(np.array([1]), np.array([], np.uint64)).tolist() == [False]
    with pytest.raises(ValueError, match="zones must be from 0 to 3"):
        index.check(np.array([4]), np.array([1], np.uint64))
    assert (index.files, index.fragments, index.column) == (None, None, None)
    with pytest.raises(ParquetBloomError, match="not over Parquet files"):
        index.of_file("a")
    assert zones.open(table.slice(0, 0)).is_null().num_rows == 0


def changed(name, values):
    def change(table):
        position = SCHEMA.get_field_index(name)
        return table.set_column(position, SCHEMA.field(name), pa.array(values, SCHEMA.field(name).type))

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda table: table.drop(["has_null"]), "no columns of the name has_null"),
        (lambda table: table.append_column("has_null", table["has_null"]), "2 columns of the name has_null"),
        (lambda table: table.set_column(1, "zone_start", table["zone_start"].cast(pa.int32())), "int32, not of uint64"),
        (changed("zone_length", [4, 4, 0, 2]), "zone 2: 0 rows from row 8 on cannot be"),
        (changed("zone_length", [4, 4, 1, 2**63]), "zone 3: 9223372036854775808 rows"),
        (changed("zone_start", [0, 4, 2**64 - 1, 0]), "zone 2: 1 rows from row 18446744073709551615"),
        (changed("zone_start", [0, 3, 8, 0]), "fragment 0: zones 0 and 1 have rows in common"),
        (changed("fragment_id", [0, 0, 1, 1]), None),
        (changed("fragment_id", [1, 0, 0, 1]), "have rows in common"),
        (changed("fragment_id", [None, 0, 0, 1]), "column fragment_id has nulls"),
        (changed("bloom_filter_data", [b"", bytes(32), bytes(32), bytes(32)]), "zone 0: a filter of 0 bytes"),
        (changed("bloom_filter_data", [bytes(32), bytes(33), bytes(32), bytes(32)]), "zone 1: a filter of 33 bytes"),
        (changed("bloom_filter_data", [bytes(32), None, bytes(32), bytes(32)]), "bloom_filter_data has nulls"),
        (lambda table: table.replace_schema_metadata({"bloomfilter_item": "x"}), "filters of x items at"),
        (lambda table: table.replace_schema_metadata({"bloomfilter_item": "0"}), "filters of 0 items"),
        (lambda table: table.replace_schema_metadata({"bloomfilter_probability": "nan"}), "at nan cannot be"),
        (lambda table: table.replace_schema_metadata({"parquet_bloom.zones": "{"}), "is not JSON"),
        (lambda table: table.replace_schema_metadata({"parquet_bloom.zones": '{"version":3}'}), "version 3; this"),
        (lambda table: table.replace_schema_metadata({"parquet_bloom.zones": '{"version":1}'}), "checksum"),
    ],
)
def test_impossible_values_are_refused(change, problem):
    table, _ = table_of(INTS)
    if problem is None:
        assert len(zones.open(change(table))) == 4
        return
    with pytest.raises(BrokenZonesError, match=problem) as caught:
        zones.open(change(table))
    assert "\n" not in str(caught.value)


def test_other_things_are_not_an_index():
    for source in (5, [1], None):
        with pytest.raises(ParquetBloomError, match="is a path or a pyarrow Table"):
            zones.open(source)


@pytest.mark.parametrize("num_hashes", [1, 3, 501])
def test_filters_in_memory_are_probed_as_one_after_the_other(num_hashes):
    rng = np.random.default_rng(num_hashes)
    array = pa.array([rng.integers(0, 256, size, np.uint8).tobytes() for size in 32 * rng.integers(1, 4, 2200)]).slice(
        5
    )
    rows = rng.integers(0, len(array), 3000).astype(np.intp)
    hashes = rng.integers(0, 2**64, num_hashes, np.uint64)
    bitsets = [np.frombuffer(bitset, np.uint8) for bitset in array.to_pylist()]
    expected = [bool(sbbf.check_hashes(bitsets[row], hashes).any()) for row in rows.tolist()]
    assert InMemoryFilters(array).check(rows, hashes).tolist() == expected
    assert num_hashes > 500 or len(set(expected)) == 2
