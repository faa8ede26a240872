"""core/decode/avro.pyx and what compiles schemas for it: Avro files as Iceberg's manifests are."""

from __future__ import annotations

import random

from support.writers.avro_files import MemoryIO, make_schema, make_value, write_file

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.iceberg.avro_files import read_avro

ALLOWED = (ParquetBloomError,)
WANTED = dict.fromkeys(range(40))


def run(data: bytes) -> None:
    column = read_avro(MemoryIO(data), "p", "t", WANTED)
    column.array.validate(full=True)
    assert all(len(each.array) == len(column.array) for each in column.fields.values())


def seeds() -> list[bytes]:
    made = []
    for number in range(12):
        rng = random.Random(number)
        schema = make_schema(rng)
        made.append(
            write_file(
                schema, [make_value(schema, rng) for _ in range(4)], rng, "deflate" if number % 3 == 0 else "null"
            )
        )
    return [data for data in made if len(data) <= 4096]
