"""Small Parquet files with damage anywhere, or only where a reader has to doubt what it reads: then no row may be lost.

That is where the footer says that filters and page indexes are, headers of filters, and page indexes but for the
bounds of pages, which nothing can be held against. Where the footer is changed elsewhere, but for statistics, rows are
those that pyarrow finds.
"""

from __future__ import annotations

import datetime as dt
import decimal
import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent))

from changes import Spelled
from fuzzing import Choices, as_file, folder, fuzz
from good_files import GROUP, ROWS, table
from support.oracle import oracle
from support.writers import drafts

import parquet_bloom
from parquet_bloom.cli.commands.show_command import _rows
from parquet_bloom.core.bloom.variants import VARIANTS
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file.metadata_cache import SHARED_CACHE
from parquet_bloom.predicate import parse


@dataclass(frozen=True)
class Base:
    """A file taken apart.

    Attributes
    ----------
    data : its bytes.
    body : those before the footer.
    footer : the footer; each chunk's fields can be given other numbers.
    filters : {(row group, column): header and bitset}.
    indexes : {(row group, column, field of the column chunk that says where): the struct}.
    variant : of its filters.
    """

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


def taken_apart(path: Path, variant: str | None = None) -> Base:
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
    return Base(data, body, Spelled.of(footer), filters, indexes, variant)


@cache
def bases() -> list[Base]:
    """One that is read by pages, one with dictionaries and pages of version 2, a nested one, and a draft."""
    path = folder() / "base.parquet"
    filters = {name: {"ndv": 12, "fpp": 0.001} for name in ("k", "s", "n")}
    # write_batch_size lets a page have few rows.
    options = {"write_page_index": True, "data_page_size": 1, "write_batch_size": 4, "row_group_size": GROUP}
    keys = table()["k"].to_pylist()
    lists = pa.array([[key, key + 1] if key % 3 else None for key in keys])
    structs = [{"x": float(key), "m": decimal.Decimal(key) / 100, "d": dt.date(2020, 1, 1)} for key in keys]
    nested = table().append_column("l", lists).append_column("t", pa.array(structs))
    results = []
    for rows, more in (
        (table(), {"compression": "none", "use_dictionary": False}),
        (table(), {"compression": "snappy", "data_page_version": "2.0"}),
        (nested, {"compression": "zstd"}),
    ):
        pq.write_table(rows, path, bloom_filter_options=filters, **options, **more)
        results.append(taken_apart(path))
    variant = "murmur3+mask+raw"
    draft = {"row_group_size": GROUP, "num_bytes": 64, "use_dictionary": False, "compression": "none"}
    drafts.write_draft(path, table(), ["k", "s"], variant, **draft)
    results.append(taken_apart(path, variant))
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


def good_files() -> list[bytes]:
    return [base.data for base in bases()] + [bytes([number, how]) for number in range(4) for how in range(8)]


@fuzz(ParquetBloomError, recipes=good_files, longest=16_384, examples=20)
def test_parquet_files(data: bytes) -> None:
    """Damage anywhere ends in a named error or an answer: of a file, or of a good file by a recipe."""
    SHARED_CACHE.clear()
    choices = Choices(data)
    base, how = choices.pick(bases()), choices.below(8)
    if data.startswith(b"PAR1"):
        complete = data
    elif how == 4 and base.indexes:
        key = choices.pick(list(base.indexes))
        complete = with_index(base, key, base.indexes[key].changed(choices, 2))
    elif how < 5:
        complete = base.with_footer(base.footer.changed(choices, 3))
    elif how == 5:
        key = choices.pick(list(base.filters))
        header, bitset = header_changed(choices), base.filters[key][1]
        complete = with_filter(base, key, header, bitset, choices.pick((None, 32, 0, 2**31 - 1)))
    elif how == 6:  # pages, dictionaries, filters, page indexes
        complete = base.with_footer(base.footer.data)[:4] + choices.damage(base.data[4:])
    else:
        complete = base.data[:4] + choices.damage(base.body[4:]) + base.data[len(base.body) :]
    where, few = parse("k = 53 AND s = 'v0000053'"), parse("k IN (3, 53) OR n IS NULL")
    # What is done with a file depends on its bytes, so that an input means one thing, and takes the time of one.
    step = sum(complete[-64:]) % 32
    heavy: dict[int, Callable[[str], object]] = {
        2: lambda path: parquet_bloom.verify(path, variant=VARIANTS[os.path.getsize(path) % len(VARIANTS)].name),
        6: partial(parquet_bloom.verify, data=True, variant="detect"),
        8: partial(parquet_bloom.verify, data=True),
        10: parquet_bloom.advise,
        12: lambda path: parquet_bloom.read_table(path, where),
        14: lambda path: parquet_bloom.read_table(path, few),
    }
    with as_file(complete) as path:
        with parquet_bloom.open(path) as file:
            file.columns  # noqa: B018
            for chunk in file.chunks():
                chunk.problem  # noqa: B018
            if step == 0:
                list(_rows(file, (), (), set()))
        if step in heavy:
            heavy[step](path)
        elif step % 4 == 1:
            parquet_bloom.prune(path, where if step % 8 == 1 else few, cache=None)


def good_recipes() -> list[bytes]:
    return [
        bytes([how, needle, base, *range(base, 20)]) for how in range(5) for needle in range(6) for base in range(4)
    ]


@fuzz(ParquetBloomError, recipes=good_recipes, examples=15)
def test_parquet_rows(data: bytes) -> None:
    """No row is lost where only what a reader has to doubt is wrong."""
    needles: list[tuple[str, Any, Callable[[dict[str, Any]], bool]]] = [
        ("k = 53", [("k", "=", 53)], lambda row: row["k"] == 53),
        ("s = 'v0000008'", [("s", "=", "v0000008")], lambda row: row["s"] == "v0000008"),
        ("n IN (4, 55)", [("n", "in", [4, 55])], lambda row: row["n"] in (4, 55)),
        ("k < 5 AND s >= 'v0000002'", [("k", "<", 5), ("s", ">=", "v0000002")], lambda row: 2 <= row["k"] < 5),
        ("n IS NULL", None, lambda row: row["n"] is None),
        ("k = 0 OR n = 60", [[("k", "=", 0)], [("n", "=", 60)]], lambda row: row["k"] == 0 or row["n"] == 60),
    ]

    def is_location(path: tuple[int, ...]) -> bool:
        """Of a column chunk the places of page indexes, of its metadata that of a filter."""
        if len(path) == 6 and path[4] == 3:
            return path[0] == 4 and path[5] in (oracle.OFFSET, oracle.LENGTH)
        return len(path) == 5 and path[0] == 4 and path[4] in (4, 5, 6, 7)

    def is_no_statistic(path: tuple[int, ...]) -> bool:
        return not (len(path) > 5 and path[0] == 4 and path[5] == 12) and path[0] != 5

    SHARED_CACHE.clear()
    choices = Choices(data)
    how, (where, filters, holds), base = choices.below(5), choices.pick(needles), choices.pick(bases())
    expected = [row for row in table().to_pylist() if holds(row)]
    is_exact = True
    if how == 0:
        complete = base.with_footer(base.footer.only(is_location).changed(choices, 1))
    elif how == 1 and base.variant is None:
        key = choices.pick(list(base.filters))
        complete = with_filter(base, key, header_changed(choices), base.filters[key][1])
    elif how in (2, 3) and base.indexes:
        key = choices.pick([key for key in base.indexes if key[2] == (4 if how == 2 else 6)])
        index = base.indexes[key]
        if how == 3:
            index = index.only(lambda path: path[0] not in (1, 2, 3, 5) or len(path) == 1)
        complete = with_index(base, key, index.changed(choices, 2 if how == 2 else 1))
    else:
        is_exact = False
        complete = base.with_footer(base.footer.only(is_no_statistic).changed(choices, 1))
        if filters is None:
            return
        try:
            # Not `pq.read_table`: it waits for ever for some files, whose columns say to be of unknown types.
            everything = pq.ParquetFile(io.BytesIO(complete)).read(columns=["k", "s", "n"], use_threads=False)
            expected = everything.filter(pq.filters_to_expression(filters)).to_pylist()
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, NotImplementedError, IndexError):
            return
        if any(row.keys() != {"k", "s", "n"} for row in expected):
            return
    with as_file(complete) as path:
        if is_exact:
            report = parquet_bloom.prune(path, parse(where), cache=None)
            selected = {number for groups in report.selected.values() for number in groups}
            rows = table().to_pylist()
            lost = {i // GROUP for i in range(ROWS) if holds(rows[i])} - selected
            assert not lost, f"{where}: row groups {lost} are lost: {report}"
            if sum(complete[-64:]) % 16:  # to read takes longer than all else
                return
        result = parquet_bloom.read_table(path, parse(where), columns=["k", "s", "n"]).to_pylist()
    if is_exact:
        assert result == expected, f"{where}: {result} instead of {expected}"
    else:  # pyarrow may pass over rows of a row group that is said to have fewer
        assert all(row in result for row in expected), f"{where}: {result} lacks some of {expected}"
