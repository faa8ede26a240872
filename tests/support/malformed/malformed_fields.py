"""Every field of a Parquet file's metadata that can be wrong, and the files in which one of them is.

The matrix is fields x ways (`malformed_ways`). It is made of one good file, of which the row group `BROKEN` and its
column ``key`` are hit. Page indexes and filters are rewritten after all others, and pointed to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
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
    """A field: which structure it is in, its number, and what it is where the good file has none."""

    area: str
    number: int
    default: tuple[str, Any] | None = None

    def find(self, patient: Patient) -> Struct:
        """Return the structure, with the field."""
        struct = AREAS[self.area][0](patient)
        if self.number not in struct:
            assert self.default is not None
            struct.set(self.number, *deepcopy(self.default))  # some ways change it in place
        return struct

    def ways(self, patient: Patient) -> dict[str, Way]:
        """Return the ways in which the field can be wrong."""
        struct, place = self.find(patient), (self.area, self.number)
        table = {BINARY: ways.TEXT, LIST: ways.SEQUENCE, STRUCT: ways.STRUCTURE, BOOL: ways.FLAG}
        results = dict(table.get(struct[self.number][0], ways.INTEGER))
        if place in OFFSETS | LENGTHS:
            start = struct.get(self.number - 1, (I64, 0))[1] if place in LENGTHS else 0
            for name, location in patient.field_paths.items():
                if place in OFFSETS or location > start:
                    results[f"to-{name}"] = _to(location - start + (place in LENGTHS))
        return results


def _to(number: int) -> Way:
    def change(struct: Struct, field: int) -> None:
        struct[field] = (struct[field][0], number)

    return change


_LOGICAL_TYPE = Struct({10: (STRUCT, Struct({1: ("i8", 64), 2: (BOOL, True)}))})
_PAIRS = Many(STRUCT, [Struct({1: (BINARY, b"k"), 2: (BINARY, b"v")})])
_LOW, _HIGH = ((sign * 2**62).to_bytes(8, "little", signed=True) for sign in (-1, 1))
_NO_MEMBER = STRUCT, Struct({1: (STRUCT, Struct())})

# {structure: where it is, and the fields that the good file has not, by number}
AREAS: dict[str, tuple[Callable[[Patient], Struct], dict[int, tuple[str, Any]]]] = {
    "file": (lambda p: p.footer, {8: _NO_MEMBER, 9: (BINARY, b"key")}),
    "schema root": (lambda p: p.footer.value(2, [0]), {3: (I32, 0)}),
    "schema leaf": (
        lambda p: p.footer.value(2, [1]),
        {2: (I32, 8), 5: (I32, 0), 6: (I32, 10), 7: (I32, 0), 8: (I32, 0), 9: (I32, 1), 10: (STRUCT, _LOGICAL_TYPE)},
    ),
    "key-value pair": (lambda p: p.footer.value(5, [0]), {}),
    "column order": (lambda p: p.footer.value(7, [0]), {}),
    "row group": (lambda p: p.footer.value(4, [BROKEN]), {7: (I16, BROKEN)}),
    "sorting column": (lambda p: p.footer.value(4, [BROKEN], 4, [0]), {}),
    "column chunk": (lambda p: p.chunk, {1: (BINARY, b"elsewhere.parquet"), 8: _NO_MEMBER, 9: (BINARY, b"sealed")}),
    "column metadata": (lambda p: p.metadata, {8: (LIST, _PAIRS), 10: (I64, 100)}),
    "statistics": (
        lambda p: p.metadata.value(12),
        {1: (BINARY, _HIGH), 2: (BINARY, _LOW), 4: (I64, 60), 7: (BOOL, True), 8: (BOOL, True)},
    ),
    "page encoding stats": (lambda p: p.metadata.value(13, [0]), {}),
    "filter header": (lambda p: p.header, {}),
    "filter algorithm": (lambda p: p.header.value(2), {}),
    "filter hash": (lambda p: p.header.value(3), {}),
    "filter compression": (lambda p: p.header.value(4), {}),
    "offset index": (lambda p: p.offset_index, {2: (LIST, Many(I64, [1, 2, 3]))}),
    "page location": (lambda p: p.offset_index.value(1, [1]), {}),
    "column index": (lambda p: p.column_index, {6: (LIST, Many(I64, [1, 2, 3]))}),
}
OFFSETS = {("row group", 5), ("page location", 1), *(("column chunk", number) for number in (2, 4, 6))}
OFFSETS |= {("column metadata", number) for number in (9, 10, 11, 14)}
LENGTHS = {("column chunk", 5), ("column chunk", 7), ("column metadata", 15)}


def list_fields(patient: Patient) -> list[Field]:
    return [
        Field(area, number, defaults.get(number))
        for area, (find, defaults) in AREAS.items()
        for number in sorted({*find(patient), *defaults})
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
    field: str | int
    way: str

    def __str__(self) -> str:
        return f"{self.area}/{self.field}/{self.way}"


def cases(good: Path) -> list[Case]:
    """All of the matrix, in an order that does not change."""
    patient = Patient(good)
    results = [
        Case(field.area, field.number, way) for field in list_fields(patient) for way in field.ways(Patient(good))
    ]
    return results + [Case("bitset", "bitset", way) for way in BITSETS]


def write(case: Case, good: Path, path: Path) -> Path:
    """The file of a case."""
    patient = Patient(good)
    if case.area == "bitset":
        BITSETS[case.way](patient)
        return patient.save(path)
    assert isinstance(case.field, int)
    field = Field(case.area, case.field, AREAS[case.area][1].get(case.field))
    field.ways(patient)[case.way](field.find(patient), case.field)
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
