"""Avro files written anew: what does not change has the same bytes, and fields may be changed and added."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from support.scale import scaled
from support.writers.avro_files import MemoryIO, make_schema, make_value, write_file

from parquet_bloom.core.decode.avro import TYPES, RecordDecoder
from parquet_bloom.tables.iceberg.avro_files import AvroColumn, read_avro
from parquet_bloom.tables.iceberg.avro_rewrite import StoredRecords

pytest.importorskip("pyiceberg")

BOUNDS = {"type": "array", "logicalType": "map", "items": {"type": "record", "name": "e", "fields": [
    {"name": "key", "type": "int", "field-id": 6}, {"name": "value", "type": "bytes", "field-id": 7},
]}}  # fmt: skip
FILE = {"type": "record", "name": "f", "fields": [
    {"name": "path", "type": "string", "field-id": 3}, {"name": "bounds", "type": ["null", BOUNDS], "field-id": 4},
    {"name": "later", "type": [{"type": "array", "items": "double"}, "null"]},
]}  # fmt: skip
ENTRY = {"type": "record", "name": "o", "fields": [
    {"name": "status", "type": "int", "field-id": 1}, {"name": "file", "type": FILE, "field-id": 2},
    {"name": "number", "type": ["long", "null"], "field-id": 5},
]}  # fmt: skip
RECORDS = [
    {"status": 1, "file": {"path": "a", "bounds": None, "later": [0.1]}, "number": -5},
    {"status": 0, "file": {"path": "b", "bounds": [{"key": 9, "value": b"x"}], "later": None}, "number": None},
]


class Written:
    """Stands for pyiceberg's OutputFile: a file in memory."""

    def __init__(self) -> None:
        self.content = b""

    def create(self, overwrite: bool = False) -> Any:
        written = self

        class Stream(io.BytesIO):
            def close(self) -> None:
                written.content = self.getvalue()
                super().close()

        return Stream()


def rewrite(records: StoredRecords, changes: list[dict[int, object]], **meta: str) -> AvroColumn:
    output = Written()
    size = records.write(output, [records.encode(row, each) for row, each in enumerate(changes)], meta)  # type: ignore[arg-type]
    assert size == len(output.content)
    return read_avro(MemoryIO(output.content), "p", "t", {1: None, 2: {3: None, 4: None, 8: None}, 5: None, 10: None})


def open_records(record: int | None = 2) -> StoredRecords:
    return StoredRecords(MemoryIO(write_file(ENTRY, RECORDS, random.Random(1), "deflate")), "p", "t", record=record)


def test_every_schema_is_written_as_it_was() -> None:
    rng = random.Random(3)
    for _ in range(scaled(100)):
        schema = make_schema(rng)
        records = [make_value(schema, rng) for _ in range(rng.choice([0, 1, 20]))]
        stored = StoredRecords(MemoryIO(write_file(schema, records, rng)), "p", "t")
        output = Written()
        stored.write(output, [stored.encode(row, {}) for row in range(len(records))], {})  # type: ignore[arg-type]
        wanted = dict.fromkeys(each["field-id"] for each in schema["fields"])
        assert read_avro(MemoryIO(output.content), "p", "t", wanted).array.to_pylist() == records


def test_fields_are_changed_and_added() -> None:
    records = open_records()
    records.add_field(8, "inner", "string", nullable=True, inside=True)
    records.add_field(10, "outer", "long", nullable=False)
    records.add_field(5, "there already", "int", nullable=False)
    bounds = [{"key": 1, "value": b"12"}, {"key": 2, "value": b""}]
    changes: list[dict[int, object]] = [{10: 2**40, 4: bounds, 99: "no such field"}, {10: -1, 3: "c", 8: "x", 5: 7}]
    found = rewrite(records, changes)
    assert found.fields[10].array.to_pylist() == [2**40, -1]
    assert found.fields[5].array.to_pylist() == [-5, 7]
    assert found.fields[1].array.to_pylist() == [1, 0]
    file = found.fields[2].fields
    assert file[3].array.to_pylist() == ["a", "c"]
    assert file[4].array.to_pylist() == [bounds, RECORDS[1]["file"]["bounds"]]  # type: ignore[index]
    assert file[8].array.to_pylist() == [None, "x"]


def test_values_that_a_field_cannot_have() -> None:
    records = open_records()
    with pytest.raises(ValueError, match="its field status has no null"):
        records.encode(0, {1: None})
    schema = {**ENTRY, "fields": [{"name": "file", "type": "int", "field-id": 2}]}
    with pytest.raises(ValueError, match="its field file is not a record"):
        StoredRecords(MemoryIO(write_file(schema, [], random.Random(0))), "p", "t", record=2)


def test_what_is_kept_as_it_is_stored_is_not_kept_twice() -> None:
    with pytest.raises(ValueError, match="kept twice"):
        RecordDecoder([
            (TYPES["record"], -1, 1, 0, 1, 1), (TYPES["record"], -1, 2, 0, 2, 1), (TYPES["int"], -1, 1, 0, 0, 0),
        ])  # fmt: skip
    with pytest.raises(ValueError, match="no such type"):
        RecordDecoder([(TYPES["record"], -1, 3, 0, 1, 1), (TYPES["int"], -1, 1, 0, 0, 0)])
