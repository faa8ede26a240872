"""Elements of lists are searched as pyarrow reads them, whatever the pages are like; other bytes are refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import list_pages, oracle
from support.oracle.list_pages import RLE_DICTIONARY, Shape
from support.oracle.oracle import varint
from support.stored_pages import make_column, search_chunk

import parquet_bloom
from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.file.file_columns import stored_column
from parquet_bloom.metadata.thrift_compact import I32, STRUCT, index_pages, write_struct

ROWS, GROUP = 1200, 700
INTEGER, LONG, TEXT, FIXED = pa.int32(), pa.int64(), pa.string(), pa.binary(5)
REQUIRED = pa.field("element", LONG, nullable=False)
TYPES: dict[str, pa.DataType] = {
    "longs": pa.list_(LONG),
    "required": pa.list_(REQUIRED),
    "texts": pa.large_list(TEXT),
    "fixed": pa.list_(FIXED, 2),
    "two": pa.list_(pa.list_(TEXT)),
    "three": pa.list_(pa.list_(pa.list_(INTEGER))),
    "structs": pa.list_(pa.struct({"number": LONG, "texts": pa.list_(TEXT)})),
    "struct": pa.struct({"inner": pa.struct({"longs": pa.list_(LONG)})}),
    "map": pa.map_(TEXT, pa.list_(INTEGER)),
}
SCHEMA = pa.schema([*TYPES.items(), pa.field("whole", pa.list_(REQUIRED), nullable=False)])


OPTIONS: list[dict[str, Any]] = [
    {"compression": "none", "use_dictionary": False},
    {"data_page_size": 100, "write_batch_size": 7, "use_dictionary": False},
    {"data_page_size": 200, "write_batch_size": 5, "data_page_version": "2.0", "compression": "none"},
    {"compression": "zstd", "data_page_version": "2.0"},
    {"compression": "gzip", "data_page_size": 1000, "write_batch_size": 64},
    {"dictionary_pagesize_limit": 300, "data_page_size": 300, "write_batch_size": 50, "data_page_version": "2.0"},
    {"dictionary_pagesize_limit": 500, "data_page_size": 1, "write_batch_size": 1},
    {"use_compliant_nested_type": False},
]
NAMES = {"list", "element", "item", "key_value"}


@pytest.mark.ci
@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
@pytest.mark.parametrize(("nulls", "distinct"), [(0.1, 200), (0.6, 5000)])
def test_rows_are_those_of_pyarrow(options: dict[str, Any], nulls: float, distinct: int, tmp_path: Path) -> None:

    def stored(value: Any, width: int) -> bytes:
        if isinstance(value, int):
            return value.to_bytes(width, "little")
        return value.encode() if isinstance(value, str) else bytes(value)

    def find_values(value: Any, path: list[str]) -> Iterator[Any]:
        """Yield the values of a leaf in a row, given the names of fields below the root."""
        if value is None:
            return
        if isinstance(value, list):
            for element in value:
                yield from find_values(element, path)
        elif isinstance(value, tuple):
            yield from find_values(value[path[0] == "value"], path[1:])
        elif isinstance(value, dict):
            yield from find_values(value[path[0]], path[1:])
        else:
            yield value

    def draw_value(
        arrow_type: pa.DataType, draw: random.Random, nulls: float, distinct: int, nullable: bool = True
    ) -> Any:
        """Return a value of a type; lists are short, and half of them empty."""
        if nullable and draw.random() < nulls:
            return None
        if pa.types.is_struct(arrow_type):
            return {field.name: draw_value(field.type, draw, nulls, distinct) for field in arrow_type}
        if pa.types.is_map(arrow_type):
            keys = [draw_value(TEXT, draw, 0, distinct) for _ in range(draw.choice([0, 1, 3]))]
            return [(key, draw_value(arrow_type.item_type, draw, nulls, distinct)) for key in keys]
        if pa.types.is_nested(arrow_type):
            length = 2 if pa.types.is_fixed_size_list(arrow_type) else draw.choice([0, 0, 0, 1, 2, 5])
            element = arrow_type.value_field
            return [draw_value(element.type, draw, nulls, distinct, element.nullable) for _ in range(length)]
        number = draw.randrange(distinct)
        if arrow_type == TEXT:
            return f"text {number}" * (number % 3)
        return bytes([number % 251]) * 5 if arrow_type == FIXED else number

    draw = random.Random(f"{options} {nulls}")
    rows = [
        {field.name: draw_value(field.type, draw, nulls, distinct, field.nullable) for field in SCHEMA}
        for _ in range(ROWS)
    ]
    path, groups = tmp_path / "a.parquet", [range(GROUP), range(GROUP, ROWS)]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=GROUP, **options)
    metadata = pq.read_metadata(path)
    with parquet_bloom.open(path) as file:
        assert len(file.leaves) == 12
        for leaf in file.leaves:
            names = [name for name in leaf.path[1:] if name not in NAMES or name == "value"]
            values = [[*find_values(row[leaf.path[0]], names)] for row in rows]
            every = sorted({value for of_row in values for value in of_row})
            chosen = draw.sample(every, min(len(every), draw.choice([1, 3, 30])))
            column = stored_column(leaf)
            absent = [b"absent"] if not column.width else [b"\xff" * column.width]
            targets = [*(stored(value, column.width) for value in chosen), *absent]
            for number, group in enumerate(groups):
                chunk = metadata.row_group(number).column(leaf.index)
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                data = bytes(file.source.read_at(start, chunk.total_compressed_size))
                codec = file.footer.codec(file.record(number, leaf))
                assert codec is not None
                found = search_chunk(data, column, len(group), chunk.num_values, targets, codec)
                expected = [row - group.start for row in group if not {*chosen}.isdisjoint(values[row])]
                assert found == expected, (leaf.name, chosen)


SHAPES = [
    Shape([0, 1], 1),  # a repeated field by itself
    Shape([0, 1], 2),  # a required list, of two levels, with optional elements
    Shape([0, 2], 3),
    Shape([0, 2, 4], 5),
    Shape([0, 1, 2, 3], 3),
    Shape([0, 3, 7, 9], 40),
    Shape([0, *range(2, 30, 2)], 255),
]


def search(pages: bytes, shape: Shape, width: int, num_rows: int, num_values: int, targets: list[bytes]) -> list[int]:
    column = make_column(shape.least, shape.max_definition, width)
    return search_chunk(pages, column, num_rows, num_values, targets)


@pytest.mark.ci
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_that_go_on_over_pages(shape: Shape) -> None:

    def make_pages(
        shape: Shape, draw: random.Random, width: int = 8, num_rows: int = 60
    ) -> tuple[bytes, list[tuple[int, int]], list[bytes]]:
        """Return pages that are cut anywhere, in the middle of rows too, and the levels and values that they hold."""
        levels = list_pages.draw_levels(shape, num_rows, draw)
        entries = [draw.randbytes(width or draw.randrange(9)) for _ in range(draw.choice([1, 2, 20]))]
        in_dictionary = draw.random() < 0.5
        pages = list_pages.dictionary_page(entries, width) if in_dictionary else b""
        values: list[bytes] = []
        at = 0
        while at < len(levels):
            part = levels[at : at + draw.choice([1, 2, 7, 100, 3000])]
            at += len(part)
            count = sum(definition == shape.max_definition for _, definition in part)
            numbers = draw.choices(range(len(entries)), k=count)
            values += [entries[number] for number in numbers]
            if in_dictionary and draw.random() < 0.8:
                bits = draw.choice([0] if len(entries) == 1 else [5, 6, 13, 32])
                runs = list_pages.encode_runs(numbers, bits, draw) if bits else varint(count << 1) if count else b""
                encoded = bytes([bits]) + runs
                encoding = RLE_DICTIONARY
            else:
                encoded, encoding = list_pages.encode_values(values[len(values) - count :], width), list_pages.PLAIN
            pages += list_pages.data_page(part, encoded, shape, draw.choice([1, 2]), draw, encoding)
        return pages, levels, values

    draw = random.Random(str(shape))
    for _ in range(30):
        width, num_rows = draw.choice([0, 4, 8, 16]), draw.choice([1, 60, 3000])
        pages, levels, values = make_pages(shape, draw, width, num_rows)
        targets = [*dict.fromkeys([*values[: draw.choice([1, 3])], draw.randbytes(width or 5)])]
        expected = list_pages.find_rows(levels, values, shape, targets)
        assert search(pages, shape, width, num_rows, len(levels), targets) == expected
        table = index_pages(pages, 10_000).tolist()
        assert list_pages.search_slowly(pages, table, width, shape, num_rows, len(levels), targets) == expected


LISTS = Shape([0, 2], 3)


def test_levels_that_contradict_are_refused() -> None:
    draw, targets = random.Random(0), [b"7" * 8]
    whole = [(0, 3), (1, 3), (0, 3)]
    for levels, num_rows, num_values, problem in (
        *((whole, 3, 3, "not as many rows"), (whole, 1, 3, "not as many rows"), (whole, 2, 4, "values are not those")),
        ([(1, 3), (1, 3), (0, 3)], 1, 3, "without elements goes on"),
        *((levels, 1, 2, "without elements goes on") for levels in ([(0, 1), (1, 3)], [(0, 3), (1, 1)])),
        ([(0, 3)] * 1500 + [(0, 1), (1, 3)], 1501, 1502, "without elements goes on"),
    ):
        for version in (1, 2):
            values = b"".join(b"7" * 8 for _, definition in levels if definition == 3)
            one = list_pages.data_page(levels, values, LISTS, version, draw)
            parts = ([pair] for pair in levels)
            each = (list_pages.data_page(p, b"7" * 8 * (p[0][1] == 3), LISTS, version, draw) for p in parts)
            for pages in (one, b"".join(each)):
                with pytest.raises(MalformedFooterError, match=problem):
                    search(pages, LISTS, 8, num_rows, num_values, targets)


def test_a_level_that_the_schema_does_not_have() -> None:
    wider = Shape([0, 1, 3], 3)
    page = list_pages.data_page([(0, 3), (2, 3)], b"7" * 16, wider, 1, random.Random(0))
    assert search(page, wider, 8, 1, 2, [b"7" * 8]) == [0]
    with pytest.raises(MalformedFooterError):  # the levels have another width
        search(page, Shape([0, 1], 3), 8, 1, 2, [b"7" * 8])
    with pytest.raises(MalformedFooterError, match="higher than the schema"):
        search(page, Shape([0, 1, 2], 2), 8, 1, 2, [b"7" * 8])


def test_pages_of_other_kinds_are_refused() -> None:
    pair, targets = [(0, 3), (1, 3)], [b"7" * 8]
    page = list_pages.data_page(pair, b"7" * 16, LISTS, 1, random.Random(0))
    assert search(page, LISTS, 8, 1, 2, targets) == [0]
    header, end = oracle.read_struct(page, 0)
    body, fields = page[end:], {1: 2, 2: 0, 3: 3, 4: 3}

    def encode(kind: int, changed: dict[int, int]) -> bytes:
        of_page = [(number, I32, value) for number, value in (fields | changed).items()]
        of_header = [(1, I32, kind), (2, I32, len(body)), (3, I32, len(body)), (5, STRUCT, of_page)]
        return write_struct(of_header) + body

    assert encode(0, {}) == page
    assert header.value(3) == len(body)
    for kind, changed in [(0, {2: RLE_DICTIONARY}), (0, {2: 5}), (0, {3: 4}), (0, {4: 4}), (1, {}), (0, {1: 1 << 24})]:
        with pytest.raises(MalformedFooterError):
            search(encode(kind, changed), LISTS, 8, 1, changed.get(1, 2), targets)
    with pytest.raises(MalformedFooterError):
        search_chunk(page, make_column([0, 2], 3), 1, 2, targets, 5)  # a codec that is not known
    for wrong in (Shape([0], 3), Shape(range(17), 3), Shape([0, 2], 256)):
        with pytest.raises(MalformedFooterError):
            search(page, wrong, 8, 1, 2, targets)
    with pytest.raises(MalformedFooterError):
        search(b"", LISTS, 8, 1, 0, targets)
    for num_rows, num_values in [(-1, 2), (1 << 40, 2), (1, -1), (1, 1 << 40)]:
        with pytest.raises(MalformedFooterError):
            search(page, LISTS, 8, num_rows, num_values, targets)
    with pytest.raises(MalformedFooterError):
        search(page[:-1], LISTS, 8, 1, 2, targets)
