"""The files of a writer: as it writes them, with our filters, with its own, with and without the filters' lengths."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from support.oracle import oracle
from support.writers import peers, surgery

import parquet_bloom

from . import columns
from .columns import Part, Question

# Blocks wanted: 5, or 8 as a power of two. The NDV is larger than the number of values, so that chance hides nothing.
OUR_FILTERS = {"fpp": 0.001, "ndv": 70}
# Writers of bitsets that are not a power of two, and their options.
OWN_ODD: dict[str, dict[str, Any]] = {"spark": {"parquet.bloom.filter.max.bytes": 320}}


@dataclass(frozen=True)
class Variant:
    """One file with filters.

    Attributes
    ----------
    filters : "ours" or "its own".
    length : whether the footer gives the lengths of the filters.
    power : whether the bitsets are a power of two.
    path, planted : the file, and the same with filters that deny everything.
    filtered : the leaves that have filters.
    """

    filters: str
    length: bool
    power: bool
    path: Path
    planted: Path
    filtered: frozenset[str]


@dataclass(frozen=True)
class Written:
    """A file by a writer, without filters, and its variants with filters."""

    writer: str
    name: str
    part: Part
    plain: Path
    questions: list[Question]
    variants: list[Variant]


def written(writer: str, engine: Any, folder: Path, name: str, part: Part, *, quick: bool = False) -> Written:
    """All files of a part by a writer; `engine` has its `write`, and `quick` leaves the corners of the matrix."""
    folder.mkdir(parents=True, exist_ok=True)
    source = columns.write_source(folder / f"{name}-source.parquet", part)
    plain = folder / f"{name}-plain.parquet"

    def write(target: Path, filters: bool, **more: Any) -> Path:
        engine.write(source=str(source), target=str(target), filters=filters, group=part.rows, **part.options, **more)
        return target

    write(plain, False)
    if oracle.filters(plain):  # a writer that writes filters by default
        parquet_bloom.drop(plain)
    indexes: list[Variant] = []
    for power in (True, False):
        ours = embedded(plain, folder / f"{name}-ours-{_words(True, power)}.parquet", power)
        indexes += _both_lengths(ours, "ours", power)
    for power, more in ((True, {}), (False, OWN_ODD.get(writer))):
        if more is not None:
            own = write(folder / f"{name}-own-{_words(True, power)}.parquet", True, **more)
            indexes += _both_lengths(own, "its own", power)
    source.unlink()
    if quick:
        indexes = [variant for variant in indexes if variant.length == variant.power]
    return Written(writer, name, part, plain, columns.list_questions(plain, part), indexes)


def embedded(plain: Path, path: Path, power: bool) -> Path:
    """The file with filters of ours on every leaf that can have one."""
    schema = pq.read_metadata(plain).schema
    leaves = [schema.column(i) for i in range(len(schema))]
    chosen = {leaf.path: dict(OUR_FILTERS) for leaf in leaves if leaf.physical_type != "BOOLEAN"}
    parquet_bloom.embed(plain, chosen, output=path, power_of_two=power, replace=True)
    return path


def _both_lengths(path: Path, filters: str, power: bool) -> list[Variant]:
    """The file as it is, and without lengths; nothing if it has no filters."""
    stored = oracle.filters(path)
    if not stored:
        return []
    with_length = all(item.length == item.header_size + len(item.bitset) for item in stored.values())
    assert with_length or filters == "its own", f"{path.name}: a filter of ours without its exact length"
    sizes = {len(item.bitset) for item in stored.values()}
    odd = {size for size in sizes if size & (size - 1)}
    if filters == "its own" and not power and not odd:  # parquet-java before 1.14 rounds the bound up
        return []
    assert odd == (set() if power else sizes), f"{path.name}: bitsets of {sorted(sizes)} bytes"
    without = path.with_name(path.name.replace("-length", "-no-length"))
    shutil.copy(path, without)
    surgery.without_lengths(without)
    created = []
    for length, location in ((True, path), (False, without)):
        if length and not with_length:  # parquet-java before 1.14 writes none
            continue
        planted = peers.with_zeroed_filters(location, location.with_suffix(".planted.parquet"), peers.NEVER)
        created.append(Variant(filters, length, power, location, planted, frozenset(column for _, column in stored)))
    return created


def _words(length: bool, power: bool) -> str:
    return f"{'length' if length else 'no-length'}-{'power' if power else 'odd'}"
