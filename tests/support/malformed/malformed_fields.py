"""Every field of a Parquet file's metadata that can be wrong, and the files in which one of them is.

The matrix is fields x ways (`malformed_ways`). It is made of one good file, of which the row group `BROKEN` and its
column ``key`` are hit. Page indexes and filters are rewritten after all others, and pointed to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.malformed import malformed_ways as ways
from support.malformed.malformed_ways import Way
from support.oracle import oracle
from support.oracle.oracle import BINARY, BOOL, I16, I32, I64, LIST, STRUCT, Many, Struct

ROWS_PER_GROUP, GROUPS, BROKEN, COLUMN = 60, 3, 1, "key"


def good_table() -> pa.Table:
    keys: list[int] = []
    for group in range(GROUPS):
        rng = random.Random(group)
        keys += [-(2**62), 2**62] + [rng.randint(-(2**61), 2**61) for _ in range(ROWS_PER_GROUP - 2)]
    texts = [f"{key:x}" for key in keys]
    lists = [[row, row + 1] if row % 3 else [] for row in range(len(keys))]
    return pa.table({"key": keys, "other": texts, "row": range(len(keys)), "list": lists})


def good_file(path: Path) -> Path:
    """Dictionaries, filters, page indexes, statistics: all that a writer can put into a footer."""
    pq.write_table(
        good_table(),
        path,
        row_group_size=ROWS_PER_GROUP,
        max_rows_per_page=20,
        use_dictionary=["key"],
        compression="snappy",
        write_page_index=True,
        sorting_columns=[pq.SortingColumn(2)],
        bloom_filter_options={name: {"ndv": 2 * ROWS_PER_GROUP, "fpp": 0.001} for name in ("key", "other")},
    )
    return path


class Patient:
    """A good file taken apart: what is before the footer, the footer, and the structures before it."""

    def __init__(self, path: Path):
        data = path.read_bytes()
        self.body = bytearray(data[: oracle.footer_start(data)])
        self.footer = oracle.read_footer(path)
        group = self.footer.value(4, [BROKEN])
        self.chunk: Struct = group.value(1, [0])
        self.metadata: Struct = self.chunk.value(3)
        self.filters = oracle.filters(path)
        self.header = self.filters[BROKEN, COLUMN].header
        self.offset_index, _ = oracle.read_struct(data, self.chunk.value(4))
        self.column_index, _ = oracle.read_struct(data, self.chunk.value(6))
        other: Struct = group.value(1, [1], 3)
        self.field_paths = {
            "itself-and-a-bit": self.metadata.value(9) + 7,
            "pages-of-its-row-group": other.value(9),
            "pages-of-another-row-group": self.footer.value(4, [0], 1, [0], 3, 9),
            "its-filter": self.metadata.value(14),
            "another-filter": other.value(14),
            "page-indexes": self.chunk.value(4),
            "footer": len(self.body),
            "in-the-footer": len(self.body) + 40,
            "end": len(data),
            "far-behind": len(data) + (1 << 33),
            "magic": 2,
        }

    def put(self, encoded: bytes, kind: str) -> None:
        """Write a filter or a page index after all others, and have the chunk point to it."""
        offset = len(self.body)
        self.body += encoded
        struct, number = {"filter": (self.metadata, 14), "offset": (self.chunk, 4), "column": (self.chunk, 6)}[kind]
        struct.set(number, I64, offset)
        struct.set(number + 1, I32, len(encoded))

    def save(self, path: Path) -> Path:
        path.write_bytes(oracle.with_footer(bytes(self.body), oracle.write_struct(self.footer)))
        return path


@dataclass(frozen=True)
class Field:
    """A field: which structure it is in, its number, and the ways in which it can be wrong."""

    area: str
    name: str
    number: int
    find: Callable[[Patient], Struct]
    kind: str
    default: tuple[str, Any] | None = None

    def ways(self, patient: Patient) -> dict[str, Way]:
        table = {"text": ways.TEXT, "list": ways.SEQUENCE, "struct": ways.STRUCTURE, "flag": ways.FLAG}
        results = dict(table.get(self.kind, ways.INTEGER))
        if self.kind in ("offset", "length"):
            start = self.find(patient).get(self.number - 1, (I64, 0))[1] if self.kind == "length" else 0
            for name, location in patient.field_paths.items():
                if self.kind == "offset" or location > start:
                    results[f"to-{name}"] = _to(location - start + (self.kind == "length"))
        return results


def _to(number: int) -> Way:
    def change(struct: Struct, field: int) -> None:
        struct[field] = (struct[field][0], number)

    return change


def _fields(area: str, find: Callable[[Patient], Struct], *rows: tuple[Any, ...]) -> list[Field]:
    return [Field(area, name, number, find, kind, *rest) for number, name, kind, *rest in rows]


_NO_ENCRYPTION = Struct({1: (STRUCT, Struct())})
_PAIRS = Many(STRUCT, [Struct({1: (BINARY, b"k"), 2: (BINARY, b"v")})])

FIELDS: list[Field] = [
    *_fields(
        "file",
        lambda p: p.footer,
        (1, "version", "number"),
        (2, "schema", "list"),
        (3, "num_rows", "number"),
        (4, "row_groups", "list"),
        (5, "key_value_metadata", "list"),
        (6, "created_by", "text"),
        (7, "column_orders", "list"),
        (8, "encryption_algorithm", "struct", (STRUCT, _NO_ENCRYPTION)),
        (9, "footer_signing_key_metadata", "text", (BINARY, b"key")),
    ),
    *_fields(
        "schema root",
        lambda p: p.footer.value(2, [0]),
        (3, "repetition_type", "number", (I32, 0)),
        (4, "name", "text"),
        (5, "num_children", "number"),
    ),
    *_fields(
        "schema leaf",
        lambda p: p.footer.value(2, [1]),
        (1, "type", "number"),
        (2, "type_length", "number", (I32, 8)),
        (3, "repetition_type", "number"),
        (4, "name", "text"),
        (5, "num_children", "number", (I32, 0)),
        (6, "converted_type", "number", (I32, 10)),
        (7, "scale", "number", (I32, 0)),
        (8, "precision", "number", (I32, 0)),
        (9, "field_id", "number", (I32, 1)),
        (10, "logicalType", "struct", (STRUCT, Struct({10: (STRUCT, Struct({1: ("i8", 64), 2: (BOOL, True)}))}))),
    ),
    *_fields("key-value pair", lambda p: p.footer.value(5, [0]), (1, "key", "text"), (2, "value", "text")),
    *_fields("column order", lambda p: p.footer.value(7, [0]), (1, "TYPE_ORDER", "struct")),
    *_fields(
        "row group",
        lambda p: p.footer.value(4, [BROKEN]),
        (1, "columns", "list"),
        (2, "total_byte_size", "number"),
        (3, "num_rows", "number"),
        (4, "sorting_columns", "list"),
        (5, "file_offset", "offset"),
        (6, "total_compressed_size", "number"),
        (7, "ordinal", "number", (I16, BROKEN)),
    ),
    *_fields(
        "sorting column",
        lambda p: p.footer.value(4, [BROKEN], 4, [0]),
        (1, "column_idx", "number"),
        (2, "descending", "flag"),
    ),
    *_fields(
        "column chunk",
        lambda p: p.chunk,
        (1, "file_path", "text", (BINARY, b"elsewhere.parquet")),
        (2, "file_offset", "offset"),
        (3, "meta_data", "struct"),
        (4, "offset_index_offset", "offset"),
        (5, "offset_index_length", "length"),
        (6, "column_index_offset", "offset"),
        (7, "column_index_length", "length"),
        (8, "crypto_metadata", "struct", (STRUCT, Struct({1: (STRUCT, Struct())}))),
        (9, "encrypted_column_metadata", "text", (BINARY, b"sealed")),
    ),
    *_fields(
        "column metadata",
        lambda p: p.metadata,
        (1, "type", "number"),
        (2, "encodings", "list"),
        (3, "path_in_schema", "list"),
        (4, "codec", "number"),
        (5, "num_values", "number"),
        (6, "total_uncompressed_size", "number"),
        (7, "total_compressed_size", "number"),
        (8, "key_value_metadata", "list", (LIST, _PAIRS)),
        (9, "data_page_offset", "offset"),
        (10, "index_page_offset", "offset", (I64, 100)),
        (11, "dictionary_page_offset", "offset"),
        (12, "statistics", "struct"),
        (13, "encoding_stats", "list"),
        (14, "bloom_filter_offset", "offset"),
        (15, "bloom_filter_length", "length"),
        (16, "size_statistics", "struct"),
    ),
    *_fields(
        "statistics",
        lambda p: p.metadata.value(12),
        (1, "max", "text", (BINARY, (2**62).to_bytes(8, "little", signed=True))),
        (2, "min", "text", (BINARY, (-(2**62)).to_bytes(8, "little", signed=True))),
        (3, "null_count", "number"),
        (4, "distinct_count", "number", (I64, 60)),
        (5, "max_value", "text"),
        (6, "min_value", "text"),
        (7, "is_max_value_exact", "flag", (BOOL, True)),
        (8, "is_min_value_exact", "flag", (BOOL, True)),
    ),
    *_fields(
        "page encoding stats",
        lambda p: p.metadata.value(13, [0]),
        (1, "page_type", "number"),
        (2, "encoding", "number"),
        (3, "count", "number"),
    ),
    *_fields("filter header", lambda p: p.header, (1, "numBytes", "number"), (2, "algorithm", "struct")),
    *_fields("filter header", lambda p: p.header, (3, "hash", "struct"), (4, "compression", "struct")),
    *_fields("filter algorithm", lambda p: p.header.value(2), (1, "BLOCK", "struct")),
    *_fields("filter hash", lambda p: p.header.value(3), (1, "XXHASH", "struct")),
    *_fields("filter compression", lambda p: p.header.value(4), (1, "UNCOMPRESSED", "struct")),
    *_fields(
        "offset index",
        lambda p: p.offset_index,
        (1, "page_locations", "list"),
        (2, "unencoded_byte_array_data_bytes", "list", (LIST, Many(I64, [1, 2, 3]))),
    ),
    *_fields(
        "page location",
        lambda p: p.offset_index.value(1, [1]),
        (1, "offset", "offset"),
        (2, "compressed_page_size", "number"),
        (3, "first_row_index", "number"),
    ),
    *_fields(
        "column index",
        lambda p: p.column_index,
        (1, "null_pages", "list"),
        (2, "min_values", "list"),
        (3, "max_values", "list"),
        (4, "boundary_order", "number"),
        (5, "null_counts", "list"),
        (6, "repetition_level_histograms", "list", (LIST, Many(I64, [1, 2, 3]))),
    ),
]


def _bitset(change: Callable[[bytes], bytes], announced: int | None = None) -> Callable[[Patient], None]:
    """A filter with another bitset; its header announces the old one's size unless another is given, or 0: the new."""

    def apply(patient: Patient) -> None:
        old = patient.filters[BROKEN, COLUMN].bitset
        new = change(old)
        num_bytes = len(old) if announced is None else announced or len(new)
        patient.put(oracle.write_struct(oracle.filter_header(num_bytes)) + new, "filter")

    return apply


BITSETS: dict[str, Callable[[Patient], None]] = {
    "missing": _bitset(lambda old: b""),
    "no-bit-set": _bitset(lambda old: bytes(len(old))),
    "all-bits-set": _bitset(lambda old: b"\xff" * len(old)),
    "short-by-a-byte": _bitset(lambda old: old[:-1]),
    "short-by-a-block": _bitset(lambda old: old[:-32]),
    "long-by-a-byte": _bitset(lambda old: old + b"\x00"),
    "long-by-a-block": _bitset(lambda old: old + bytes(32)),
    "half-a-block": _bitset(lambda old: old[:16], 0),
    "of-2^27-bytes-announced": _bitset(lambda old: old, 1 << 27),
}


@dataclass(frozen=True)
class Case:
    """One field wrong in one way."""

    area: str
    field: str
    way: str

    def __str__(self) -> str:
        return f"{self.area}/{self.field}/{self.way}"


def cases(good: Path) -> list[Case]:
    """All of the matrix, in an order that does not change."""
    patient = Patient(good)
    results = []
    for field in FIELDS:
        if field.default is not None:
            field.find(patient).set(field.number, *field.default)
        results += [Case(field.area, field.name, way) for way in field.ways(patient)]
    return results + [Case("bitset", "bitset", way) for way in BITSETS]


def write(case: Case, good: Path, path: Path) -> Path:
    """The file of a case."""
    patient = Patient(good)
    if case.area == "bitset":
        BITSETS[case.way](patient)
        return patient.save(path)
    (field,) = [field for field in FIELDS if (field.area, field.name) == (case.area, case.field)]
    struct = field.find(patient)
    if field.default is not None and field.number not in struct:
        struct.set(field.number, *field.default)
    field.ways(patient)[case.way](struct, field.number)
    if case.area.startswith("filter"):
        bitset = patient.filters[BROKEN, COLUMN].bitset
        patient.put(oracle.write_struct(patient.header) + bitset, "filter")
    elif case.area in ("offset index", "page location"):
        patient.put(oracle.write_struct(patient.offset_index), "offset")
    elif case.area == "column index":
        patient.put(oracle.write_struct(patient.column_index), "column")
    return patient.save(path)


def needles() -> Iterator[tuple[str, int]]:
    """Predicates that one row each matches, and that row: in each row group, by filters, statistics and pages."""
    table = good_table()
    for column, location in (("key", 2), ("key", 95), ("key", 179), ("other", 85), ("row", 119)):
        value = table[column][location].as_py()
        yield f"{column} = {value!r}", location
