"""Avro files as columns: every schema and codec, only the fields that are wanted, and nothing from bytes that lie."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping
from typing import Any

import pytest
from support.scale import scaled
from support.writers.avro_files import SYNC, MemoryIO, make_schema, make_value, write_file, write_long, write_value

from parquet_bloom.core.decode.avro import TYPES, RecordDecoder, read_block_head
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.tables.iceberg.avro_files import AvroColumn, compile_schema, read_avro

pytest.importorskip("pyiceberg")


def read(data: bytes, schema: Mapping[str, Any], **arguments: Any) -> AvroColumn:
    return read_avro(MemoryIO(data), "p", "t", dict.fromkeys(list_ids(schema)), **arguments)


def list_ids(schema: Mapping[str, Any]) -> list[int]:
    return [each["field-id"] for each in schema["fields"]]


def make_file(rng: random.Random, count: int) -> tuple[dict[str, Any], list[Any], bytes]:
    schema = make_schema(rng)
    records = [make_value(schema, rng) for _ in range(count)]
    return schema, records, write_file(schema, records, rng, rng.choice(["null", "deflate"]))


def test_every_schema_reads_as_it_was_written() -> None:
    rng = random.Random(0)
    for _ in range(scaled(150)):
        schema, records, data = make_file(rng, rng.choice([0, 1, 2, 30]))
        columns = read(data, schema, length=len(data))
        assert columns.array.to_pylist() == records
        columns.array.validate(full=True)
        chosen = [number for number in list_ids(schema) if rng.random() < 0.4]
        part = read_avro(MemoryIO(data), "p", "t", dict.fromkeys(chosen))
        names = {each["field-id"]: each["name"] for each in schema["fields"]}
        assert [*part.fields] == chosen
        for number, column in part.fields.items():
            assert column.array.to_pylist() == [each[names[number]] for each in records]


def test_parts_of_a_record_are_chosen_by_their_ids() -> None:
    inner = {"type": "record", "name": "i", "fields": [
        {"name": "a", "type": "int", "field-id": 7}, {"name": "b", "type": ["null", "string"], "field-id": 8},
    ]}  # fmt: skip
    schema = {"type": "record", "name": "o", "fields": [{"name": "i", "type": inner, "field-id": 2}]}
    data = write_file(schema, [{"i": {"a": 5, "b": "x"}}, {"i": {"a": 6, "b": None}}], random.Random(0))
    column = read_avro(MemoryIO(data), "p", "t", {2: {8: None, 9: None}})
    assert [*column.fields[2].fields] == [8]
    assert column.fields[2].fields[8].array.to_pylist() == ["x", None]


def test_a_type_may_be_used_again_by_its_name() -> None:
    uuid = {"type": "fixed", "name": "uuid_fixed", "size": 4, "logicalType": "uuid"}
    again = {"type": "record", "name": "r", "fields": [
        {"name": "a", "type": uuid, "field-id": 1}, {"name": "b", "type": ["null", "uuid_fixed"], "field-id": 2},
    ]}  # fmt: skip
    plain = {"type": "record", "name": "r", "fields": [
        {"name": "a", "type": uuid, "field-id": 1}, {"name": "b", "type": ["null", uuid], "field-id": 2},
    ]}  # fmt: skip
    rng = random.Random(0)
    data = write_file(again, [], rng) + b"".join([write_long(1), write_long(9)])
    data += write_value(plain, {"a": b"1234", "b": b"5678"}, rng) + SYNC
    column = read(data, again)
    assert column.array.to_pylist() == [{"a": b"1234", "b": b"5678"}]
    assert column.fields[2].annotations["logicalType"] == "uuid"


@pytest.mark.ci
def test_damaged_files_end_in_one_line_or_are_read() -> None:
    rng = random.Random(1)
    for _ in range(scaled(20)):
        schema, records, data = make_file(rng, 12)
        for size in rng.sample(range(len(data)), min(40, len(data))):
            with contextlib.suppress(ParquetBloomError):
                found = read(data[:size], schema).array.to_pylist()
                assert found == records[: len(found)]  # cut between two blocks; its length, if known, gives it away
            with pytest.raises(ParquetBloomError, match=rf"has {size} bytes instead of {len(data)}"):
                read(data[:size], schema, length=len(data))
        for _ in range(60):
            broken = bytearray(data)
            for _ in range(rng.choice([1, 1, 6])):
                broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
            with contextlib.suppress(ParquetBloomError):
                read(bytes(broken), schema).array.validate(full=True)


def one_block(count: int, content: bytes, field: Any) -> bytes:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": field, "field-id": 1}]}
    return write_file(schema, [], random.Random(0)) + write_long(count) + write_long(len(content)) + content + SYNC


HUGE = write_long(2**62)
ARRAY = {"type": "array", "items": "int"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (one_block(2, write_long(5), "int"), "a count is more than the bytes can hold"),
        (one_block(-1, write_long(5), "int"), "a count is more than the bytes can hold"),
        (one_block(1, b"\xff" * 11, "long"), "a number does not end"),
        (one_block(1, b"\x80", "long"), "its records end too early"),
        (one_block(1, b"\0" * 7, "double"), "its records end too early"),
        (one_block(1, HUGE, "string"), "a length is negative, or behind the end"),
        (one_block(1, write_long(-5), "bytes"), "a length is negative, or behind the end"),
        (one_block(1, HUGE, ARRAY), "a count is more than the bytes can hold"),
        (one_block(1, write_long(-(2**63)) + b"\0", ARRAY), "a count is more than the bytes can hold"),
        (one_block(1, write_long(-1) + HUGE, ARRAY), "a length is negative, or behind the end"),
        (one_block(1, write_long(2), ["null", "int"]), "a union has no such branch"),
        (one_block(1, write_long(-1), ["null", "int"]), "a union has no such branch"),
        (one_block(1, write_long(1) + b"\0", "int"), "a block is longer than its records"),
        (one_block(1, write_long(1) + b"\xff", "string"), "UTF8"),
        (one_block(5, b"", "null"), "its records take no bytes"),
        (one_block(1, HUGE, {"type": "array", "items": "null"}), "items of an array take no bytes"),
        (one_block(1, b"\0", ["int", "long"]), "a union of several types"),
        (one_block(1, b"\0", "nothing"), "has a type 'nothing'"),
        (one_block(1, b"\0", {"type": "fixed", "name": "f", "size": -1}), "a fixed type of -1 bytes"),
        (one_block(1, b"\0", {"type": "fixed", "name": "f", "size": 2**40}), "a fixed type of"),
        (one_block(1, b"\0", {"type": "array", "items": "r"}), "that contains itself|below another"),
        (one_block(1, b"\0", {"type": "record", "name": "e"}), "a record without fields"),
        (one_block(1, write_long(5), "int")[:-1], "does not end with the file's marker"),
        (one_block(1, write_long(5), "int").replace(b"null", b"what", 1), "compressed by 'what'"),
        (b"nothing", "it is not an Avro file"),
    ],
)  # fmt: skip
def test_bytes_that_lie(data: bytes, problem: str) -> None:
    with pytest.raises(StorageError, match=problem) as caught:
        read_avro(MemoryIO(data), "p", "t", {1: None})
    assert str(caught.value).startswith("t: its file p is malformed or cut short: ")


def test_a_few_bytes_cannot_fill_the_memory() -> None:
    """A null record of many fields takes a byte, and each of its fields some in the columns."""
    fields = [{"name": f"f{i}", "type": "long", "field-id": i} for i in range(2000)]
    inner = {"type": "record", "name": "i", "fields": fields}
    data = one_block(100_000, b"\0" * 100_000, ["null", inner])
    with pytest.raises(StorageError, match="far more memory than bytes"):
        read_avro(MemoryIO(data), "p", "t", {1: None})
    assert len(read_avro(MemoryIO(data), "p", "t", {2: None}).array) == 100_000


def test_the_decoder_trusts_no_nodes() -> None:
    nodes = [node.to_tuple() for node in compile_schema(make_schema(random.Random(4)), {0: None})]
    RecordDecoder(nodes)
    record, number, array = TYPES["record"], TYPES["int"], TYPES["array"]
    for wrong in (
        [],
        [(number, -1, True, 0, 1, 0)],
        [(record, 1, True, 0, 1, 0)],
        [(record, -1, True, 0, 0, 1)],  # itself
        [(record, -1, True, 0, 1, 2), (number, -1, True, 0, 2, 0)],  # a child that is not there
        [(record, -1, True, 0, 1, 1), (99, -1, True, 0, 2, 0)],
        [(record, -1, True, 0, 1, 1), (number, 2, True, 0, 2, 0)],
        [(record, -1, True, 0, 1, 1), (array, -1, True, 0, 2, 0)],
        [(record, -1, True, 0, 1, 1), (number, -1, True, 0, 1, 1)],
        [(record, -1, True, 0, i + 1, 1) for i in range(100)] + [(number, -1, True, 0, 101, 0)],
    ):
        with pytest.raises(ValueError):
            RecordDecoder(wrong)
    decoder = RecordDecoder([(record, -1, True, 0, 1, 1), (number, -1, True, 0, 2, 0)])
    for begin, end in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(ValueError):
            decoder.decode(b"abc", begin, end, 1)
    for node in (-1, 2):
        with pytest.raises(ValueError):
            decoder.column(node)
    for begin in (-1, 3, 100):
        with pytest.raises(ValueError):
            read_block_head(b"\x02\x00\x00", begin)
