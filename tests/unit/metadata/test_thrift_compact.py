"""The cursor over the compact protocol: what it reads, its position, and what it refuses."""

from __future__ import annotations

import resource
import struct
import uuid

import pytest
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
    Many,
    Pairs,
    Struct,
    varint,
    zigzag,
)

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata import thrift_compact as compact

# A value of every type of the protocol, and what Python sees of it (raw bytes where nothing in a footer has the type).
VALUES = [
    (BOOL, True, True),
    (BOOL, False, False),
    (I8, -5, -5),
    (I16, -300, -300),
    (I32, 2**31 - 1, 2**31 - 1),
    (I64, -(2**63), -(2**63)),
    (I64, 2**63 - 1, 2**63 - 1),
    (DOUBLE, -0.1, -0.1),
    (BINARY, b"", b""),
    (BINARY, b"x" * 200, b"x" * 200),
    (oracle.UUID, uuid.UUID(int=5).bytes, uuid.UUID(int=5).bytes),
    (STRUCT, Struct({1: (I32, 7), 3: (BOOL, True)}), {1: 7, 3: True}),
    (STRUCT, Struct(), {}),
    (LIST, Many(BOOL, [True, False, True]), [True, False, True]),
    (LIST, Many(I32, list(range(15))), list(range(15))),
    (LIST, Many(I32, list(range(-700, 700))), list(range(-700, 700))),
    (LIST, Many(BINARY, [b"a"] * 14), [b"a"] * 14),
    (LIST, Many(I8, [1, 2], long_form=True), [1, 2]),
    (LIST, Many(I64, []), []),
    (LIST, Many(STRUCT, [Struct(), Struct({2: (I8, 1)})]), [{}, {2: 1}]),
    (LIST, Many(LIST, [Many(I16, [1]), Many(DOUBLE, [0.5])]), [[1], [0.5]]),
    (SET, Many(I64, list(range(16))), list(range(16))),
]


@pytest.mark.parametrize(("type_name", "value", "seen"), VALUES)
def test_values_of_every_type(type_name, value, seen):

    def encoded(type_name: str, value: object) -> tuple[int, bytes]:
        """Compact type number and bytes of a value (a boolean field lives in its header)."""
        if type_name == BOOL:
            return (compact.TRUE if value else compact.FALSE), b""
        return oracle.CODES[type_name], oracle._write_value(type_name, value)

    code, raw = encoded(type_name, value)
    assert compact.read_value(b"??" + raw + b"behind", 2, code) == seen
    data = oracle.write_struct(Struct({1: (type_name, value), 2: (I32, 9)}))
    assert compact.read_struct(data + b"behind") == ({1: seen, 2: 9}, len(data))
    data = oracle.write_struct(Struct({1: (type_name, value), 40: (type_name, value)}))
    for length in range(len(data)):
        with pytest.raises(MalformedFooterError):
            compact.read_struct(data[:length])


def test_maps_are_passed_over():
    for pairs in (
        Pairs(None, None),
        Pairs(I32, BINARY, [(1, b"a"), (2, b"")]),
        Pairs(BINARY, BOOL, [(b"a", True)] * 20),
        Pairs(BOOL, MAP, [(True, Pairs(I8, I8, [(1, 2)]))]),
    ):
        raw = oracle._write_value(MAP, pairs)
        data = oracle.write_struct(Struct({1: (MAP, pairs), 2: (I32, 9)}))
        assert compact.read_struct(data) == ({1: raw, 2: 9}, len(data))


def test_field_numbers():
    """In order, far apart, spelled out, going down, negative, and zero."""
    fields = Struct({3: (I32, 1), 4: (I32, 2), 19: (I32, 3), 35: (I32, 4), 2: (I32, 5), -7: (I32, 6), 0: (I32, 7)})
    fields[32767] = (I32, 8)
    fields[-32768] = (I32, 9)
    fields.long_form = {4, 19}
    data = oracle.write_struct(fields)
    assert compact.read_struct(data) == ({number: value for number, (_, value) in fields.items()}, len(data))


def test_field_numbers_that_do_not_exist():
    for number in (32768, -32769, 2**40, -(2**62)):
        with pytest.raises(MalformedFooterError, match="field number"):
            compact.read_struct(bytes([5]) + varint(zigzag(number)) + b"\x02\x00")
    data = bytes([5]) + varint(zigzag(32760)) + b"\x02" + b"\xf5\x02\x00"  # by steps of 15, each of which is fine
    with pytest.raises(MalformedFooterError, match="field number 32775"):
        compact.read_struct(data)


def test_the_last_of_duplicates_counts():
    assert compact.read_struct(b"\x15\x02" + b"\x05\x02\x04" + b"\x00") == ({1: 2}, 6)


def test_positions():
    inner = oracle.write_struct(Struct({1: (I32, 5)}))
    data = b"before" + inner + b"behind"
    assert compact.read_struct(data, 6) == ({1: 5}, 6 + len(inner))
    for start in (-1, len(data) + 1, 2**62):
        with pytest.raises(MalformedFooterError, match="begin"):
            compact.read_struct(data, start)
    with pytest.raises(MalformedFooterError):
        compact.read_struct(data, len(data))


def test_types_that_do_not_exist():
    for code in (0, 14, 15, 200, -1):
        with pytest.raises(MalformedFooterError, match="type"):
            compact.read_value(bytes(20), 0, code)
    for code in (14, 15):  # of a field, a list's element, a map's key and its value
        for data in ([0x10 | code], [0x19, 0x10 | code], [0x1B, 1, code << 4 | 5], [0x1B, 1, 5 << 4 | code]):
            with pytest.raises(MalformedFooterError, match="type"):
                compact.read_struct(bytes(data) + bytes(20))
    assert compact.read_value(b"\xff" * 9 + b"\x01", 0, compact.I64) == -(2**63)
    for raw in (b"\xff" * 10 + b"\x01", b"\x80" * 30 + b"\x01"):
        with pytest.raises(MalformedFooterError, match="ten bytes"):
            compact.read_value(raw, 0, compact.I64)


HUGE = (2**60, 2**63, 2**64 - 1, 2**31, 2**32)


@pytest.mark.parametrize("count", HUGE)
@pytest.mark.parametrize("wrap", ["file", "row group", "chunk", "metadata", "deep"])
def test_huge_announcements_cost_nothing(count, wrap):
    """A few bytes that announce 2^60 elements: no memory is taken for them, at any level of a footer."""
    announced = [bytes([0xF0 | code]) + varint(count) for code in range(1, 14)]  # lists
    bodies = [(9, raw) for raw in announced] + [(10, raw) for raw in announced]
    bodies += [(8, varint(count))]
    bodies += [(11, varint(count) + bytes([key << 4 | value])) for key in range(1, 14) for value in range(1, 14)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for code, body in bodies:
        field = bytes([code]) + varint(zigzag(20)) + body
        footer = {
            "file": field,
            "row group": b"\x49\x1c" + field,
            "chunk": b"\x49\x1c" + b"\x19\x1c" + field,
            "metadata": b"\x49\x1c" + b"\x19\x1c" + b"\x3c" + field,
            "deep": b"\x49\x1c" + b"\x1c" * 20 + field,
        }[wrap]
        for data in (footer, footer + bytes(50)):
            with pytest.raises(MalformedFooterError):
                compact.index_footer(data)
        with pytest.raises(MalformedFooterError):
            compact.read_struct(field + bytes(50))
    # Row groups and column chunks themselves, which records are made for.
    for head in (b"\x49\xfc", b"\x49\x1c\x19\xfc"):
        with pytest.raises(MalformedFooterError):
            compact.index_footer(head + varint(count) + bytes(50))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


def test_nesting_has_an_end():
    """Structs, structs in lists, structs in maps, and lists of lists."""
    for depth in (1000, 300_000):
        for level in (b"\x1c", b"\x19\x1c", b"\x1b\x01\x5c\x02"):
            for data in (level * depth, level * depth + bytes(2 * depth)):
                for read in (compact.read_struct, compact.index_footer):
                    with pytest.raises(MalformedFooterError, match="nesting"):
                        read(data)
        with pytest.raises(MalformedFooterError, match="nesting"):
            compact.read_struct(b"\x19" + b"\x19" * depth)


def test_shallower_nesting_is_read():
    nested = Struct({1: (I32, 1)})
    for _ in range(30):
        nested = Struct({1: (STRUCT, nested)})
    fields, _ = compact.read_struct(oracle.write_struct(nested))
    for _ in range(30):
        fields = fields[1]
    assert fields == {1: 1}


# ------------------------------------------------------------------------------------------------------------
# Writing
# ------------------------------------------------------------------------------------------------------------


def test_written_structs_are_the_oracles():
    ours = [
        (1, compact.I32, -7),
        (2, compact.LIST, (compact.STRUCT, [[(4, compact.BINARY, b"root")], [(1, compact.I32, 2**31 - 1)]])),
        (3, compact.I64, -(2**63)),
        (20, compact.LIST, (compact.I32, list(range(20)))),
        (21, compact.LIST, (compact.BINARY, [b"x"] * 14)),
        (22, compact.STRUCT, []),
        (7, compact.BYTE, -1),
        (8, compact.I16, 300),
        (-3, compact.I64, 5),
    ]
    theirs = Struct(
        {
            1: (I32, -7),
            2: (LIST, Many(STRUCT, [Struct({4: (BINARY, b"root")}), Struct({1: (I32, 2**31 - 1)})])),
            3: (I64, -(2**63)),
            20: (LIST, Many(I32, list(range(20)))),
            21: (LIST, Many(BINARY, [b"x"] * 14)),
            22: (STRUCT, Struct()),
            7: (I8, -1),
            8: (I16, 300),
            -3: (I64, 5),
        }
    )
    assert compact.write_struct(ours) == oracle.write_struct(theirs)


def test_types_that_are_not_written():
    with pytest.raises(ValueError, match="type 11"):
        compact.write_struct([(1, compact.MAP, {})])


# ------------------------------------------------------------------------------------------------------------
# Footers
# ------------------------------------------------------------------------------------------------------------


def metadata(**more: tuple[str, object]) -> Struct:
    fields = Struct(
        {
            1: (I32, 2),
            2: (LIST, Many(I32, [0, 3])),
            3: (LIST, Many(BINARY, [b"a"])),
            4: (I32, 1),
            5: (I64, 100),
            6: (I64, 900),
            7: (I64, 800),
            9: (I64, 44),
            11: (I64, 4),
            12: (STRUCT, Struct({3: (I64, 0)})),
        }
    )
    for name, field in more.items():
        fields.set(int(name[1:]), *field)
    return fields


def footer(chunks: list[list[Struct]]) -> Struct:
    groups = [
        Struct({1: (LIST, Many(STRUCT, group)), 2: (I64, 0), 3: (I64, 100 + number)})
        for number, group in enumerate(chunks)
    ]
    return Struct({1: (I32, 2), 2: (LIST, Many(STRUCT, [])), 3: (I64, 205), 4: (LIST, Many(STRUCT, groups))})


def chunk(meta: Struct, **more: tuple[str, object]) -> Struct:
    fields = Struct({2: (I64, 4), 3: (STRUCT, meta)})
    for name, field in more.items():
        fields.set(int(name[1:]), *field)
    return fields


def test_records_of_column_chunks():
    indexed = chunk(metadata(f14=(I64, 700), f15=(I32, 47)), f4=(I64, 1000), f5=(I32, 20), f6=(I64, 1020), f7=(I32, 33))
    plain = chunk(metadata())
    data = oracle.write_struct(footer([[indexed, plain], [plain, chunk(metadata(), f8=(STRUCT, Struct()))]]))
    result, groups, chunks = compact.index_footer(data)
    assert result["num_rows"] == 205
    assert result["end"] == len(data)
    assert groups["num_rows"].tolist() == [100, 101]
    assert groups["num_columns"].tolist() == [2, 2]
    assert groups["first_chunk"].tolist() == [0, 2]
    assert chunks["row_group"].tolist() == [0, 0, 1, 1]
    assert chunks["column"].tolist() == [0, 1, 0, 1]
    first, second = chunks[0], chunks[1]
    assert {name: int(first[name]) for name in ("physical_type", "num_values", "compressed_size")} == {
        "physical_type": 2,
        "num_values": 100,
        "compressed_size": 800,
    }
    assert (first["data_page_offset"], first["dictionary_page_offset"]) == (44, 4)
    assert (first["filter_offset"], first["filter_length"], first["filter_fields"]) == (700, 47, 2)
    assert (second["filter_offset"], second["filter_length"], second["filter_fields"]) == (-1, -1, 0)
    assert [
        int(first[f"{kind}_{what}"]) for kind in ("offset_index", "column_index") for what in ("offset", "length")
    ] == [
        *(1000, 20),
        *(1020, 33),
    ]
    assert chunks["encrypted"].tolist() == [0, 0, 0, 1]
    for record in chunks:
        start, end = int(record["meta_start"]), int(record["meta_end"])
        assert compact.read_struct(data, start)[1] == end
        assert compact.read_value(data, int(record["path_start"]), compact.LIST) == [b"a"]
        assert compact.read_struct(data, int(record["statistics_start"]))[0] == {3: 0}


def test_doubtful_filter_offsets_are_counted():
    for fields, doubts in (
        *((b"\xe6\x14\x00", 1), (b"\xf5\x14\x00", 1)),  # the offset alone, the length alone
        *((b"\xe6\x14\x15\x14\x00", 2), (b"\xe6\x14\x15\x14\x06\x1c\x16\x00", 3)),  # the offset again
        *((b"\xe8\x01x\x00", 4), (b"\xe1\x00", 4), (b"\xec\x00\x00", 4)),  # not a number
    ):
        data = b"\x29\x0c\x16\x00\x19\x1c" + b"\x19\x1c" + b"\x3c" + fields + b"\x00" * 3
        assert compact.index_footer(data)[2]["filter_fields"].tolist() == [doubts]
    for offset in (-1, -2, -(2**63)):  # a negative place is not none
        data = oracle.write_struct(footer([[chunk(metadata(f14=(I64, offset), f15=(I32, offset)))]]))
        record = compact.index_footer(data)[2][0]
        assert record["filter_offset"] < -1
        assert record["filter_length"] < -1


def test_footers_that_cannot_be():
    for data in (
        b"\x49\x15\x02\x00",  # row groups that are numbers
        b"\x49\x1c\x19\x15\x02\x00\x00",  # column chunks that are numbers
        b"\x49\x0c\x09\x08\x0c\x00",  # row groups twice
        b"\x49\x1c" + b"\x19\x1c\x00" + b"\x09\x02\x1c\x00" + b"\x00\x00",  # columns twice
        b"\x49\x1c" + b"\x19\x1c" + b"\x3c\x00" + b"\x0c\x06\x00" + b"\x00\x00\x00",  # metadata twice
        *(b"", b"\x15"),
    ):
        with pytest.raises(MalformedFooterError):
            compact.index_footer(data)


def test_fields_of_other_types_are_not_taken_for_what_they_are_not():
    """As readers do it: a field that has not its type is passed over."""
    data = oracle.write_struct(
        Struct(
            {
                2: (I32, 5),
                3: (BINARY, b"x"),
                4: (BINARY, b"x"),
                5: (I32, 1),
                6: (I32, 1),
                7: (MAP, Pairs(None, None)),
            }
        )
    )
    result, groups, chunks = compact.index_footer(data)
    assert set(result) == {"end"}
    assert len(groups) == len(chunks) == 0


def test_invalid_buffers():
    for call in (compact.index_footer, compact.read_struct):
        for value in (None, "text", 5):
            with pytest.raises((TypeError, ValueError, BufferError)):
                call(value)
    assert compact.read_struct(struct.pack("<B", 0)) == ({}, 1)
