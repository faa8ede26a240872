"""metadata/page_match.pyx: pages of a column with lists, searched for values, beside the slow twin."""

from __future__ import annotations

import functools
import random

from support.oracle import list_pages
from support.oracle.list_pages import PLAIN, RLE_DICTIONARY, Refused, Shape
from support.stored_pages import make_column, search_chunk
from taking import Taken, check

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata.thrift_compact import index_pages

ALLOWED = (MalformedFooterError,)
MAX_INPUT = 1024
MOST = 1 << 14  # values that the twin decodes
SHAPES = [Shape([0, 1], 1), Shape([0, 2], 3), Shape([0, 1, 3], 4), Shape([0, 3, 7, 9], 40)]
WIDTHS = [0, 4, 8, 3]


def run(data: bytes) -> None:
    taken = Taken(data)
    shape, width = SHAPES[taken.number() % 4], WIDTHS[taken.number() % 4]
    num_rows, num_values = taken.number(2), taken.number(2)
    targets = [*dict.fromkeys(taken.bytes(width or taken.number() % 6) for _ in range(taken.number() % 4))]
    pages = taken.rest()
    if not pages:
        return
    table = index_pages(pages, 64)

    def ours() -> list[int]:
        return search_chunk(pages, make_column(shape.least, shape.max_definition, width), num_rows, num_values, targets)

    def twin() -> list[int] | None:
        try:
            return list_pages.search_slowly(pages, table.tolist(), width, shape, num_rows, num_values, targets)
        except Refused:
            return None

    if table[:, 4].sum() > MOST or not {*table[:, 5].tolist()} <= {PLAIN, 2, RLE_DICTIONARY}:
        ours()  # the twin knows no others
    else:
        check(data, ours, twin)


@functools.cache
def seeds() -> list[bytes]:
    results = []
    draw = random.Random(0)
    for number in range(12):
        shape, width = SHAPES[number % 4], WIDTHS[number // 3]
        num_rows = draw.choice([1, 3, 20])
        levels = list_pages.draw_levels(shape, num_rows, draw)[:100]
        entries = [draw.randbytes(width or draw.randrange(5)) for _ in range(5)]
        in_dictionary = number % 3 == 0
        pages = list_pages.dictionary_page(entries, width) if in_dictionary else b""
        for part in (levels[: len(levels) // 2], levels[len(levels) // 2 :]):
            numbers = draw.choices(range(5), k=sum(definition == shape.max_definition for _, definition in part))
            if in_dictionary:
                values, encoding = b"\x03" + list_pages.encode_runs(numbers, 3, draw), RLE_DICTIONARY
            else:
                values = list_pages.encode_values([entries[number] for number in numbers], width)
                encoding = list_pages.PLAIN
            pages += list_pages.data_page(part, values, shape, 1 + number % 2, draw, encoding)
        target = entries[0] if width else bytes([len(entries[0])]) + entries[0]
        num_rows = sum(repeat == 0 for repeat, _ in levels)
        counts = num_rows.to_bytes(2, "little") + len(levels).to_bytes(2, "little")
        results.append(bytes([number % 4, number // 3]) + counts + b"\x01" + target + pages)
    return [data for data in results if len(data) <= MAX_INPUT]
