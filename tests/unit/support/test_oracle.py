"""The oracle itself: against the spec's numbers, against Thrift's own library, and against every peer's filters."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import oracle
from support.oracle.oracle import (
    BINARY,
    BOOL,
    DOUBLE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    UUID,
    Many,
    OracleFilter,
    Pairs,
    Struct,
)
from support.writers import peers
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

BY_PEERS = [pytest.param(name, marks=pytest.mark.spark if "spark" in name else ()) for name in peers.NAMES]

# ------------------------------------------------------------------------------------------------------------
# Hash, mask, block
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "hash64"),
    [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999)],
)
def test_xxh64_gives_the_published_hashes(data, hash64):
    assert oracle.xxh64(data) == hash64


def test_mask_of_one_is_the_top_five_bits_of_each_salt():
    assert [word.bit_length() - 1 for word in oracle.mask(1)] == [8, 8, 17, 20, 14, 5, 19, 11]


@given(st.integers(0, 2**64 - 1))
def test_mask_sets_one_bit_a_word_and_sees_the_low_half_alone(hash64):
    words = oracle.mask(hash64)
    assert [word.bit_count() for word in words] == [1] * 8
    assert words == oracle.mask(hash64 & 0xFFFFFFFF)


def test_block_choice_is_multiply_shift_and_not_modulo():
    assert oracle.block_index(0x80000000 << 32, 3) == 1  # modulo would say 2
    assert oracle.block_index(0xFFFFFFFF << 32, 3) == 2
    assert oracle.block_index(0x55555555_FFFFFFFF, 3) == 0
    assert oracle.block_index(0x55555556_00000000, 3) == 1


def test_filter_of_the_draft_in_the_final_form_is_rebuilt(corpus):
    data = (corpus / "bloom_filter.xxhash.bin").read_bytes()
    header, end = oracle.read_struct(data)
    assert header == oracle.filter_header(1024)
    assert OracleFilter.of(1024, [b"hello", b"parquet", b"bloom", b"filter"]).to_bytes() == data[end:]


def test_header_is_the_one_in_the_spec():
    assert oracle.write_struct(oracle.filter_header(131_072)).hex() == "158080101c1c00001c1c00001c1c000000"


# ------------------------------------------------------------------------------------------------------------
# Whole filters
# ------------------------------------------------------------------------------------------------------------

hashes = st.lists(st.integers(0, 2**64 - 1), max_size=60)
sizes = st.integers(1, 12).map(lambda blocks: 32 * blocks)


def filled(num_bytes, keys):
    bloom_filter = OracleFilter(num_bytes)
    for key in keys:
        bloom_filter.insert_hash(key)
    return bloom_filter


@given(sizes, hashes)
def test_inserted_hashes_are_found_and_bytes_come_back(num_bytes, keys):
    filled_filter = filled(num_bytes, keys)
    assert all(filled_filter.check_hash(key) for key in keys)
    again = OracleFilter(num_bytes, filled_filter.to_bytes())
    assert again.words == filled_filter.words


@given(sizes, hashes, hashes)
def test_merged_filters_hold_the_keys_of_both(num_bytes, some, others):
    merged = filled(num_bytes, some).merge(filled(num_bytes, others))
    assert merged.to_bytes() == filled(num_bytes, some + others).to_bytes()


@given(sizes, hashes)
def test_a_folded_filter_is_the_one_of_half_the_size(num_bytes, keys):
    assert filled(2 * num_bytes, keys).fold().to_bytes() == filled(num_bytes, keys).to_bytes()


def test_odd_bytes_belong_to_no_block():
    bloom_filter = OracleFilter.of(100, [b"%d" % i for i in range(50)])
    assert bloom_filter.num_blocks == 3
    assert bloom_filter.to_bytes()[:96] == OracleFilter.of(96, [b"%d" % i for i in range(50)]).to_bytes()
    assert bloom_filter.to_bytes()[96:] == bytes(4)
    with pytest.raises(ValueError, match="cannot be folded"):
        bloom_filter.fold()


def test_false_positives_come_as_often_as_the_bits_say():
    rng = random.Random(1)
    filled_filter = filled(1024, [rng.getrandbits(64) for _ in range(1000)])
    tries = 20_000
    matches = sum(filled_filter.check_hash(rng.getrandbits(64)) for _ in range(tries))
    assert filled_filter.fpp == pytest.approx(oracle.exact_fpp(1000, 1024), rel=0.15)
    assert matches / tries == pytest.approx(filled_filter.fpp, rel=0.10)
    assert filled_filter.fill == pytest.approx(1 - (31 / 32) ** (1000 / 32), rel=0.05)


# ------------------------------------------------------------------------------------------------------------
# Sizes
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ndv", "fpp", "digits"), [(26_214, 0.0126, 4), (52_428, 0.18, 2), (13_107, 0.0004, 4)])
def test_model_gives_the_specs_example(ndv, fpp, digits):
    assert round(oracle.exact_fpp(ndv, 1024 * 32), digits) == fpp


@pytest.mark.parametrize(("bits", "fpp"), [(6.0, 0.1), (10.5, 0.01), (16.9, 0.001), (26.4, 0.0001), (41, 0.00001)])
def test_model_gives_the_specs_table(bits, fpp):
    assert oracle.exact_fpp(320_000, int(320_000 * bits / 8)) == pytest.approx(fpp, rel=0.03)


@given(st.integers(0, 5_000), st.integers(1, 200).map(lambda blocks: 32 * blocks))
def test_both_models_agree(ndv, num_bytes):
    exact = oracle.exact_fpp(ndv, num_bytes)
    assert oracle.fpp_float(ndv, num_bytes) == pytest.approx(exact, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("fpp", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("ndv", [1, 7, 100, 5_000])
def test_sizes_are_the_smallest_that_keep_the_promise(ndv, fpp):
    exact = oracle.smallest_num_bytes(ndv, fpp, power_of_two=False)
    assert oracle.exact_fpp(ndv, exact) <= fpp
    assert exact == 32 or oracle.exact_fpp(ndv, exact - 32) > fpp
    power = oracle.smallest_num_bytes(ndv, fpp)
    assert power.bit_count() == 1
    assert exact <= power < 2 * exact


def test_a_million_values_take_two_mebibytes():
    assert oracle.smallest_num_bytes(1_000_000, 0.01) == 2_097_152
    assert oracle.exact_fpp(1_000_000, 1_316_256) <= 0.01 < oracle.exact_fpp(1_000_000, 1_315_000)


# ------------------------------------------------------------------------------------------------------------
# Plain encoding
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "physical", "options", "encoded"),
    [
        (-2, "INT32", {}, "feffffff"),
        (2**32 - 2, "INT32", {}, "feffffff"),
        (200, "INT32", {}, "c8000000"),
        (-(2**63), "INT64", {}, "0000000000000080"),
        (2**64 - 1, "INT64", {}, "ffffffffffffffff"),
        (0, "INT96", {}, "00000000000000008c3d2500"),
        (-1, "INT96", {}, "ffff4e91944e00008b3d2500"),
        (datetime.datetime(1, 1, 1), "INT96", {}, "000000000000000052441a00"),
        (1.5, "FLOAT", {}, "0000c03f"),
        (-0.0, "DOUBLE", {}, "0000000000000080"),
        (1.5, "FIXED_LEN_BYTE_ARRAY", {"length": 2}, "003e"),
        ("é", "BYTE_ARRAY", {}, "c3a9"),
        (b"", "BYTE_ARRAY", {}, ""),
        (True, "BOOLEAN", {}, "01"),
        (decimal.Decimal("-1.23"), "INT32", {"scale": 2}, "85ffffff"),
        (decimal.Decimal("1.2"), "INT64", {"scale": 2}, "7800000000000000"),
        (decimal.Decimal("-1.23"), "FIXED_LEN_BYTE_ARRAY", {"scale": 2, "length": 4}, "ffffff85"),
        (decimal.Decimal("-1.28"), "BYTE_ARRAY", {"scale": 2}, "80"),
        (decimal.Decimal("1.28"), "BYTE_ARRAY", {"scale": 2}, "0080"),
        (datetime.date(1969, 12, 31), "INT32", {}, "ffffffff"),
        (datetime.datetime(1970, 1, 1, 0, 0, 1), "INT64", {"unit": "ms"}, "e803000000000000"),
        (
            datetime.datetime(1970, 1, 1, 1, 0, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
            "INT64",
            {"unit": "ns"},
            "0000000000000000",
        ),
        (datetime.time(0, 0, 1, 1), "INT64", {"unit": "us"}, "41420f0000000000"),
        (
            uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
            "FIXED_LEN_BYTE_ARRAY",
            {"length": 16},
            "00112233445566778899aabbccddeeff",
        ),
    ],
)
def test_plain_encoding(value, physical, options, encoded):
    assert oracle.plain(value, physical, **options).hex() == encoded


def test_values_outside_of_the_type_are_refused():
    with pytest.raises(AssertionError):
        oracle.plain(datetime.datetime(2024, 1, 1, 0, 0, 0, 1), "INT64", unit="ms")
    with pytest.raises(AssertionError):
        oracle.plain(decimal.Decimal("0.001"), "INT32", scale=2)


# ------------------------------------------------------------------------------------------------------------
# Thrift
# ------------------------------------------------------------------------------------------------------------

EVERY_TYPE = Struct(
    {
        1: (BOOL, True),
        2: (BOOL, False),
        3: (I8, -7),
        5: (I16, -300),
        6: (I32, 2**31 - 1),
        40: (I64, -(2**63)),
        41: (DOUBLE, math.pi),
        42: (BINARY, b"\x00bytes"),
        43: (LIST, Many(I32, list(range(-20, 20)))),
        44: (LIST, Many(BOOL, [True, False])),
        45: (SET, Many(BINARY, [b"a", b"b"])),
        46: (MAP, Pairs(BINARY, STRUCT, [(b"k", Struct({7: (I8, 1)}))])),
        47: (MAP, Pairs(None, None)),
        48: (STRUCT, Struct({32_767: (I16, 1), 3: (I64, 5), -2: (BOOL, True)})),  # the second and third step back
        49: (LIST, Many(LIST, [Many(I8, [1, 2]), Many(I8, [])])),
        50: (UUID, bytes(range(16))),
    },
    long_form=[2, 43],
)


def test_a_struct_of_every_type_comes_back():
    data = oracle.write_struct(EVERY_TYPE)
    again, end = oracle.read_struct(b"before" + data + b"behind", 6)
    assert again == EVERY_TYPE
    assert list(again) == list(EVERY_TYPE)
    assert again.long_form == EVERY_TYPE.long_form
    assert end == 6 + len(data)
    assert oracle.write_struct(again) == data


def test_long_forms_differ_on_the_wire():
    short, long = Struct({1: (I8, 1)}), Struct({1: (I8, 1)}, long_form=[1])
    assert oracle.write_struct(short).hex() == "130100"
    assert oracle.write_struct(long).hex() == "03020100"
    assert oracle.write_struct(Struct({1: (LIST, Many(I8, [1], long_form=True))})).hex() == "19f3010100"
    assert oracle.write_struct(Struct({5: (I8, 1), 3: (I8, 1)})).hex() == "530103060100"  # a negative delta


def test_a_new_field_goes_where_order_wants_it():
    fields = Struct({1: (I8, 1), 16: (I8, 3)})
    fields.set(14, I64, 2)
    fields.set(1, I8, 0)
    assert list(fields.items()) == [(1, (I8, 0)), (14, (I64, 2)), (16, (I8, 3))]


def test_thrifts_own_library_writes_the_same_bytes():
    transport = TMemoryBuffer()
    protocol = TCompactProtocol(transport)
    protocol.writeStructBegin("")

    def field(type_number, field_id, write, *values):
        protocol.writeFieldBegin("", type_number, field_id)
        write(*values)
        protocol.writeFieldEnd()

    def many(write_begin, write_end, element, write, items):
        write_begin(element, len(items))
        for item in items:
            write(item)
        write_end()

    field(TType.BOOL, 1, protocol.writeBool, True)
    field(TType.BOOL, 2, protocol.writeBool, False)
    field(TType.BYTE, 3, protocol.writeByte, -7)
    field(TType.I16, 30, protocol.writeI16, -300)
    field(TType.I32, 31, protocol.writeI32, 2**31 - 1)
    field(TType.I64, 32, protocol.writeI64, -(2**63))
    field(TType.DOUBLE, 33, protocol.writeDouble, 0.1)
    field(TType.STRING, 34, protocol.writeBinary, b"\x00bytes" * 40)
    numbers = list(range(-20, 20))
    field(TType.LIST, 20, many, protocol.writeListBegin, protocol.writeListEnd, TType.I32, protocol.writeI32, numbers)
    field(TType.SET, 21, many, protocol.writeSetBegin, protocol.writeSetEnd, TType.I64, protocol.writeI64, [1, 2])
    protocol.writeFieldStop()
    protocol.writeStructEnd()
    fields = Struct(
        {
            1: (BOOL, True),
            2: (BOOL, False),
            3: (I8, -7),
            30: (I16, -300),
            31: (I32, 2**31 - 1),
            32: (I64, -(2**63)),
            33: (DOUBLE, 0.1),
            34: (BINARY, b"\x00bytes" * 40),
            20: (LIST, Many(I32, numbers)),
            21: (SET, Many(I64, [1, 2])),
        }
    )
    assert oracle.write_struct(fields) == transport.getvalue()
    assert oracle.read_struct(transport.getvalue())[0] == fields


# ------------------------------------------------------------------------------------------------------------
# Real files
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.ci
@pytest.mark.parametrize("name", BY_PEERS)
def test_footers_of_real_writers_come_back_byte_for_byte(name, peer_file, tmp_path):
    path = peer_file(name).path
    copy = tmp_path / "copy.parquet"
    oracle.write_footer(copy, oracle.read_footer(path), source=path)
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.ci
@pytest.mark.parametrize("name", BY_PEERS)
def test_filters_of_real_writers_are_rebuilt_from_the_values(name, peer_file):
    file = peer_file(name)
    stored = oracle.filters(file.path)
    assert stored
    for (row_group, leaf), theirs in stored.items():
        assert theirs.length == theirs.header_size + len(theirs.bitset)
        ours = OracleFilter.of(len(theirs.bitset), file.hashed(row_group, leaf))
        assert ours.to_bytes() == theirs.bitset, (row_group, leaf)


@pytest.mark.ci
def test_every_type_that_a_writer_knows_gets_a_filter(peer_file):
    """Precondition of the tests above: a writer that silently left a column out would leave them nothing to compare."""
    missing = {}
    for name in ("pyarrow-all", "duckdb-all", "datafusion-all"):
        file = peer_file(name)
        missing[name] = {leaf for leaf in file.leaves if (0, leaf) not in oracle.filters(file.path)}
    assert missing == {"pyarrow-all": {"bool"}, "duckdb-all": {"bool", "nothing", "d38"}, "datafusion-all": set()}


@pytest.mark.spark
def test_every_type_that_spark_knows_gets_a_filter(peer_file):
    for name in peers.FILES["spark"]:
        file = peer_file(f"spark-{name}")
        groups = range(len(file.group_sizes))
        assert oracle.filters(file.path).keys() == {(group, leaf) for group in groups for leaf in file.leaves}


def test_double_bits_are_ieee(peer_file):
    """Both zeros and NaN are values of their own to the writers, or a test on zeros would prove nothing."""
    file = peer_file("pyarrow-all")
    zeros = {struct.pack("<d", 0.0), struct.pack("<d", -0.0)}
    assert zeros <= file.plain(0, "f64")
