"""Small Parquet files of every sort, taken apart: what targets change in them, and the rows that they hold."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from choices import Choices
from scratch import folder
from support.oracle import oracle
from support.writers import drafts
from wire import Spelled

ROWS = 24
GROUP = 12
_FILTERS = {"ndv": 12, "fpp": 0.001}


def table() -> pa.Table:
    """Values between extremes that every row group has, so that statistics rule out nothing."""
    keys = [number for group in range(ROWS // GROUP) for number in (0, 10**6, *range(group * 50 + 1, group * 50 + 11))]
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "s": [f"v{key:07}" for key in keys],
            "n": pa.array([None if key % 7 == 3 else key for key in keys], pa.int32()),
        }
    )


def _other_table() -> pa.Table:
    base = table()
    keys = base["k"].to_pylist()
    return base.append_column("l", pa.array([[key, key + 1] if key % 3 else None for key in keys])).append_column(
        "t", pa.array([{"x": float(key), "m": decimal.Decimal(key) / 100, "d": dt.date(2020, 1, 1)} for key in keys])
    )


@dataclass(frozen=True)
class Base:
    """A file taken apart.

    Attributes
    ----------
    name : what is special in it.
    data : its bytes.
    body : those before the footer.
    footer : the footer; each chunk's fields can be given other numbers.
    filters : {(row group, column): header and bitset}.
    indexes : {(row group, column, field of the column chunk that says where): the struct}.
    variant : of its filters.
    """

    name: str
    data: bytes
    body: bytes
    footer: Spelled
    filters: dict[tuple[int, int], tuple[bytes, bytes]]
    indexes: dict[tuple[int, int, int], Spelled]
    variant: str | None

    def with_footer(self, footer: bytes, more: bytes = b"") -> bytes:
        """The file with another footer, and bytes before it."""
        return oracle.with_footer(self.body + more, footer)

    def chunk(self, row_group: int, column: int) -> tuple[int, ...]:
        """The path of a ColumnChunk in the footer."""
        return 4, -1 - row_group, 1, -1 - column


def _taken_apart(name: str, path: Path, variant: str | None = None) -> Base:
    data = path.read_bytes()
    footer = oracle.read_footer(path)
    filters, indexes = {}, {}
    for row_group, group in enumerate(footer.value(oracle.ROW_GROUPS).items):
        for column, chunk in enumerate(group.value(oracle.COLUMNS).items):
            for location in (4, 6):
                if location in chunk:
                    struct, _ = oracle.read_struct(data, chunk.value(location))
                    indexes[row_group, column, location] = Spelled.of(struct)
            offset = chunk.value(3).get(oracle.OFFSET)
            if offset is not None:
                start = offset[1]
                if variant is None:
                    header, end = oracle.read_struct(data, start)
                    num_bytes = header.value(1)
                else:
                    end, num_bytes = start + len(drafts.header(64, drafts.parts(variant)[2])), 64
                filters[row_group, column] = data[start:end], data[end : end + num_bytes]
    body = data[: oracle.footer_start(data)]
    return Base(name, data, body, Spelled.of(footer), filters, indexes, variant)


@cache
def bases() -> list[Base]:
    """One that is read by pages, one with dictionaries and pages of version 2, a nested one, and a draft."""
    location = folder() / "base.parquet"
    results = []
    # write_batch_size lets a page have few rows.
    pages = {"write_page_index": True, "data_page_size": 1, "write_batch_size": 4, "row_group_size": GROUP}
    options = dict.fromkeys(("k", "s", "n"), _FILTERS)
    pq.write_table(table(), location, compression="none", use_dictionary=False, bloom_filter_options=options, **pages)
    results.append(_taken_apart("plain", location))
    pq.write_table(
        table(), location, compression="snappy", data_page_version="2.0", bloom_filter_options=options, **pages
    )  # fmt: skip
    results.append(_taken_apart("dictionary", location))
    pq.write_table(_other_table(), location, compression="zstd", bloom_filter_options=options, **pages)
    results.append(_taken_apart("nested", location))
    variant = "murmur3+mask+raw"
    drafts.write_draft(
        location, table(), ["k", "s"], variant, row_group_size=GROUP, num_bytes=64, use_dictionary=False,
        compression="none",
    )  # fmt: skip
    results.append(_taken_apart("draft", location, variant))
    return results


def with_index(base: Base, key: tuple[int, int, int], index: bytes) -> bytes:
    """The file with another page index of a column."""
    row_group, column, field = key
    chunk = base.chunk(row_group, column)
    numbers = {(*chunk, field): len(base.body), (*chunk, field + 1): len(index)}
    return base.with_footer(base.footer.with_numbers(numbers).data, index)


def with_filter(base: Base, key: tuple[int, int], header: bytes, bitset: bytes, length: int | None = None) -> bytes:
    """The file with another filter of a column chunk."""
    metadata = (*base.chunk(*key), 3)
    length = len(header) + len(bitset) if length is None else length
    numbers = {(*metadata, oracle.OFFSET): len(base.body), (*metadata, oracle.LENGTH): length}
    return base.with_footer(base.footer.with_numbers(numbers).data, header + bitset)


def header_changed(choices: Choices) -> bytes:
    """A filter header with another word in it."""
    return Spelled.of(oracle.filter_header(choices.pick((32, 64, 128)))).changed(choices)
