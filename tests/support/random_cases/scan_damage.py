"""Damage to one column chunk of a Parquet file: bytes of pages, of page headers, and sizes in the footer."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from support.oracle import oracle
from support.writers import surgery

_NUM_VALUES, _UNCOMPRESSED, _COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE = 5, 6, 7, 9, 11  # of ColumnMetaData
_SIZES = {2: "uncompressed_page_size", 3: "compressed_page_size"}  # of PageHeader
_OF_PAGES = {5: (1,), 7: (1,), 8: (1, 2, 3, 5, 6)}  # numbers in the headers of data pages, dictionaries, pages V2


@dataclass(frozen=True)
class Page:
    """Where a page is.

    Attributes
    ----------
    start, body, end : offsets of its header, of the bytes after it, and of those after the page.
    """

    start: int
    body: int
    end: int
    header: oracle.Struct


def damage(rng: random.Random, path: Path, spared: Collection[str]) -> str:
    """Damage a file, in place; return what was done, or "" if there is nothing that can be damaged.

    Parameters
    ----------
    spared : columns whose chunks stay as they are.
    """
    footer = oracle.read_footer(path)
    chunks = [
        (number, metadata)
        for number, group in enumerate(footer.value(oracle.ROW_GROUPS).items)
        for metadata in [chunk.value(oracle.META_DATA) for chunk in group.value(oracle.COLUMNS).items]
        if oracle.dotted(metadata).split(".")[0] not in spared and metadata.value(_NUM_VALUES) > 0
    ]
    how = rng.choice(["flip", "flip", "flip", "zero", "header", "size", "size", "footer", "cut"])
    if how == "cut":
        return _cut(rng, path)
    if not chunks:
        return ""
    group, metadata = rng.choice(chunks)
    where = f"row group {group}, {oracle.dotted(metadata)}"
    data = bytearray(path.read_bytes())
    if how == "footer":
        field = rng.choice([_NUM_VALUES, _UNCOMPRESSED, _COMPRESSED, _DATA_PAGE])
        before = metadata.value(field)
        after = max(before + rng.choice([-1, 1, -7, 100, -before // 2]), 0)
        metadata.set(field, oracle.I64, after)
        oracle.write_footer(path, footer)
        return f"{where}: field {field} of the footer is {after}, not {before}"
    page = rng.choice(find_pages(bytes(data), metadata))
    if how in ("flip", "zero") and page.body == page.end:
        return ""
    if how == "flip":
        at = rng.randrange(page.body, page.end)
        data[at] ^= 1 << rng.randrange(8)
        done = f"a bit of byte {at - page.body} of the {page.end - page.body} of page {page.start}"
    elif how == "zero":
        at = rng.randrange(page.body, page.end)
        data[at : page.end] = bytes(page.end - at)
        done = f"page {page.start} ends in zeros from byte {at - page.body} of {page.end - page.body}"
    elif how == "header":
        at = rng.randrange(page.start, page.body)
        data[at] ^= 1 << rng.randrange(8)
        done = f"a bit of byte {at - page.start} of the header of page {page.start}"
    else:
        done = _change_number(rng, data, page)
    path.write_bytes(data)
    return done and f"{where}: {done}"


def _cut(rng: random.Random, path: Path) -> str:
    data = path.read_bytes()
    kept = rng.choice([0, 1, 11, len(data) // 2, len(data) - 1, rng.randrange(len(data))])
    path.write_bytes(data[:kept])
    return f"cut after {kept} of {len(data)} bytes"


def _change_number(rng: random.Random, data: bytearray, page: Page) -> str:
    """Give a number of a page's header another value that takes as many bytes."""
    places = [(page.header, number, name) for number, name in _SIZES.items()]
    for number, inner in _OF_PAGES.items():
        if number in page.header:
            places += [(page.header.value(number), field, f"{number}.{field}") for field in inner]
    struct, field, name = rng.choice([place for place in places if place[1] in place[0]])
    before = struct.value(field)
    after = max(before + rng.choice([-1, 1, -3, 8, -before // 2, before]), 0)
    struct.set(field, oracle.I32, after)
    encoded = oracle.write_struct(page.header)
    if after == before or len(encoded) != page.body - page.start:
        return ""
    data[page.start : page.body] = encoded
    return f"{name} in the header of page {page.start} is {after}, not {before}"


def find_pages(data: bytes, metadata: oracle.Struct) -> list[Page]:
    """Return the pages of a column chunk."""
    position = surgery.first_byte(metadata)
    if _DICTIONARY_PAGE in metadata and not metadata.value(_DICTIONARY_PAGE):
        position = metadata.value(_DATA_PAGE)
    end, pages = position + metadata.value(_COMPRESSED), []
    while position < end:
        header, body = oracle.read_struct(data, position)
        stop = body + header.value(3)
        pages.append(Page(position, body, stop, header))
        position = stop
    return pages
