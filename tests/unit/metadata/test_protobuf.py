"""The cursor over protocol buffers against a slow twin, and against bytes that are none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.writers.orc_files import message_of, varint
from support.writers.protobuf_fields import FIELDS

from parquet_bloom.errors import MalformedOrcError
from parquet_bloom.metadata import protobuf
from parquet_bloom.metadata.protobuf import MESSAGE

NUMBERS = st.integers(0, (1 << 64) - 1)


def zigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def read(message: bytes, **span: int) -> dict[str, Any]:
    return protobuf.read_message(message, FIELDS, **span)


def test_every_kind() -> None:
    inner = message_of([(1, 0, 7), (2, 2, b"x"), (2, 2, b"")])
    message = message_of(
        [
            (1, 0, (1 << 64) - 1),
            (2, 0, (1 << 64) - 1),
            (3, 0, 3),
            (4, 0, 1),
            (5, 1, b"\0\0\0\0\0\0\xf8\x3f"),
            (6, 2, b"abc"),
            (7, 2, b"def"),
            (8, 2, inner),
            (9, 0, 4),
            (9, 2, varint(1) + varint(5)),
            (10, 2, inner),
            (10, 2, b""),
            (11, 5, b"1234"),
            (8000, 2, b"ORC"),
        ]
    )
    results = read(message)
    start, end = results.pop("span")
    assert message[start:end] == b"def"
    expected_inner = {"number": 7, "texts": [b"x", b""]}
    assert results == {
        "uint": (1 << 64) - 1,
        "int": -1,
        "sint": -2,
        "bool": True,
        "double": 1.5,
        "bytes": b"abc",
        "message": expected_inner,
        "many": [2, -1, -3],
        "messages": [expected_inner, {}],
        "far": b"ORC",
    }


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 9, 77]), NUMBERS), max_size=12))
def test_numbers(pairs: list[tuple[int, int]]) -> None:
    expected: dict[str, Any] = {}
    for number, value in pairs:
        if number == 1:
            expected["uint"] = value
        elif number == 2:
            expected["int"] = value - (1 << 64) if value >> 63 else value
        elif number == 3:
            expected["sint"] = zigzag(value)
        elif number == 4:
            expected["bool"] = value != 0
        elif number == 9:
            expected.setdefault("many", []).append(zigzag(value))
    assert read(message_of((number, 0, value) for number, value in pairs)) == expected


def test_a_part_of_a_buffer() -> None:
    message = message_of([(1, 0, 5)])
    assert read(b"\xff" + message + b"\xff", start=1, end=1 + len(message)) == {"uint": 5}
    for start, end in ((-1, 2), (2, 1), (0, 9)):
        with pytest.raises(MalformedOrcError, match="a message is said to be"):
            read(b"abcd", start=start, end=end)


def test_invalid_messages() -> None:
    for message, problem in (
        *((b"\x08", "cut off"), (b"\x08" + b"\xff" * 10 + b"\x01", "more than ten bytes")),
        (b"\x32\x05abc", "5 bytes are announced, 3 remain"),
        *((b"\x32" + varint(size), "announced") for size in ((1 << 64) - 1, 1 << 63)),
        *((b"\x29abc", "8 bytes are announced"), (b"\x5dabc", "4 bytes are announced")),
        *((b"\x0b", "group"), (b"\x0c", "group"), (b"\x0e", "wire type 6"), (b"\x00\x01", "field number 0")),
        (varint(1 << 32) + b"\x01", "does not exist"),
        (b"\x0a\x01\x01", r"field 1 \(uint\) has wire type 2"),
        (b"\x30\x01", r"field 6 \(bytes\) has wire type 0"),
        *((data, "cut off") for data in (b"\x42\x02\x08\x80", b"\x4a\x01\x80\x01")),  # numbers past their message
    ):
        with pytest.raises(MalformedOrcError, match=problem):
            read(message)


def test_nesting_is_limited() -> None:
    fields: dict[int, Any] = {}
    fields[1] = ("again", MESSAGE, False, fields)
    message = b""
    for _ in range(40):
        message = message_of([(1, 2, message)])
    with pytest.raises(MalformedOrcError, match="levels of nesting"):
        protobuf.read_message(message, fields)


def test_values_are_limited() -> None:
    message = b"\x52\x00" * (1 << 20)
    assert len(read(message)["messages"]) == 1 << 20
    with pytest.raises(MalformedOrcError, match="more than 1048576 values"):
        read(message + b"\x52\x00")


@given(st.lists(st.tuples(st.integers(1, 3), st.binary(max_size=9)), max_size=9))
def test_spans(pairs: list[tuple[int, bytes]]) -> None:
    message = b"??" + message_of((number, 2, value) for number, value in pairs)
    fields = protobuf.read_spans(message, 2, 2)
    assert [message[start:end] for start, end in fields.tolist()] == [value for number, value in pairs if number == 2]


def test_spans_of_something_else() -> None:
    with pytest.raises(MalformedOrcError, match="wire type 0"):
        protobuf.read_spans(message_of([(2, 0, 1)]), 2)


def test_filters_of_both_kinds() -> None:
    word = bytes(range(8))
    assert protobuf.read_bloom_filter(message_of([(1, 0, 7), (2, 1, word), (2, 1, b"8" * 8)])) == (
        7,
        word + b"8" * 8,
        None,
    )
    assert protobuf.read_bloom_filter(message_of([(2, 2, word + word), (9, 0, 1), (2, 1, word)]))[1] == word * 3
    assert protobuf.read_bloom_filter(message_of([(1, 0, 3), (3, 2, b"abc")])) == (3, None, b"abc")
    assert protobuf.read_bloom_filter(b"") == (None, None, None)


def test_invalid_filters() -> None:
    for fields, problem in (
        ([(1, 0, 5), (2, 1, bytes(8)), (3, 0, 1)], "before its release"),
        *(([(1, 2, b"")], "wire type 2"), ([(2, 0, 1)], "wire type 0"), ([(2, 2, bytes(9))], "not 64-bit words")),
    ):
        with pytest.raises(MalformedOrcError, match=problem):
            protobuf.read_bloom_filter(message_of(fields))
