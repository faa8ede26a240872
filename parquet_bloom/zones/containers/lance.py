"""Lance's own containers, by way of pylance."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import pyarrow as pa

from ...errors import BrokenZonesError, ParquetBloomError, StorageError, first_line
from ...storage import is_url
from ...storage.paths import resolve_local_path
from ..filters import Filters
from ..hashes import type_of
from ..index import ZoneIndex
from ..schema import Sizes, zones_of
from .arrow import held

FILE_NAME = "bloomfilter.lance"
_BATCH_ROWS = 1024
_TYPE = "bloomfilter"
_VERSION = 0  # of the index, as Lance numbers its formats
_STEP = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")  # of a column's path


class _Part(NamedTuple):
    """A part of an index: a file of its own, of some fragments."""

    name: str
    column: str
    uuid: str
    fragments: frozenset[int]
    version: int = 0
    elsewhere: bool = False


def _module(name: str, path: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        problem = (
            f"pylance, which reads Lance's files, cannot be imported ({error}): pip install 'parquet-bloom[lance]'"
        )
        raise ParquetBloomError(problem, path=path) from error


def read_file(path: str, storage_options: Mapping[str, Any] | None = None) -> pa.Table:
    """The table in an index file, with its schema's metadata.

    Raises
    ------
    BrokenZonesError
        pylance cannot read it.
    ParquetBloomError
        pylance is not installed.
    """
    module = _module("lance.file", path)
    options = {} if not storage_options else {"storage_options": dict(storage_options)}
    with _pylance(BrokenZonesError, "pylance cannot read it", path):
        return module.LanceFileReader(path, **options).read_all(batch_size=_BATCH_ROWS).to_table()


@contextmanager
def _pylance(kind: type[ParquetBloomError], problem: str, path: str) -> Iterator[None]:
    """What pylance makes of damage: errors, and panics in Rust, which are no Exceptions."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = first_line(error).split(", /")[0][:300]
        raise kind(f"{problem}: {reason}", path=path) from error


def of_dataset(
    path: str, column: str | None, name: str | None, storage_options: Mapping[str, Any] | None = None
) -> ZoneIndex:
    """The Bloom filter index of a Lance dataset, all its parts together.

    Fragments that it does not cover any more, or not yet, are named in every answer.

    Raises
    ------
    ParquetBloomError
        There is none, or not just one; or pylance is not installed.
    StorageError
        pylance cannot open the dataset.
    """
    if not is_url(path) and not os.path.isdir(os.path.join(resolve_local_path(path), "_versions")):
        raise BrokenZonesError("the folder is no Lance dataset", path=path)
    lance = _module("lance", path)
    options = {} if not storage_options else {"storage_options": dict(storage_options)}
    with _pylance(StorageError, "pylance cannot open it as a dataset", path):
        dataset = lance.dataset(path, **options)
        parts = _parts(dataset)
        fragments = {fragment.fragment_id: int(fragment.physical_rows) for fragment in dataset.get_fragments()}
    chosen = [part for part in parts if name in (None, part.name) and column in (None, part.column)]
    if len({part.name for part in chosen}) != 1:
        there = ", ".join(sorted({f"{part.name} of {part.column}" for part in parts}))
        wanted = "" if name is None and column is None else " of that name or column"
        problem = f"it has {len({part.name for part in chosen}) or 'no'} Bloom filter indexes{wanted}"
        raise ParquetBloomError(problem + (f"; there are: {there}" if there else ""), path=path, column=column)
    tables = []
    for part in chosen:
        if part.version > _VERSION or part.elsewhere:
            what = "in another dataset" if part.elsewhere else f"of version {part.version}"
            raise ParquetBloomError(f"index {part.name} is {what}, which is not read", path=path, column=column)
        table = read_file(f"{path.rstrip('/')}/_indices/{part.uuid}/{FILE_NAME}", storage_options)
        held(table, path)  # before its numbers are looked at
        covers = pa.array(sorted(part.fragments & fragments.keys()), pa.uint64())
        tables.append(table.filter(pa.compute.is_in(table["fragment_id"], covers)))
    whole = pa.concat_tables(tables, promote_options="none")
    found = held(whole.replace_schema_metadata(tables[0].schema.metadata), path)
    zones = zones_of(found.numbers, path)
    field = chosen[0].column
    value_type = _type_of_column(dataset.schema, field, path)
    covered = {*zones["fragment_id"].tolist()}
    uncovered = [(number, rows) for number, rows in sorted(fragments.items()) if rows and number not in covered]
    return ZoneIndex(
        path,
        zones,
        Filters(found.parts),
        Sizes.of(found.metadata, path),
        column=field,
        column_type=type_of(value_type),
        value_type=value_type,
        uncovered=uncovered,
    )


def _parts(dataset: Any) -> list[_Part]:
    """The parts of a dataset's Bloom filter indexes."""
    if not hasattr(dataset, "describe_indices"):  # pylance was older
        return [
            _Part(each["name"], ".".join(each["fields"]), str(each["uuid"]), frozenset(each["fragment_ids"]))
            for each in dataset.list_indices()
            if str(each["type"]).lower() == _TYPE
        ]
    return [
        _Part(
            index.name,
            ".".join(index.field_names),
            str(part.uuid),
            frozenset(part.fragment_ids),
            int(part.index_version),
            part.base_id is not None,
        )
        for index in dataset.describe_indices()
        if str(index.index_type).lower() == _TYPE
        for part in index.segments
    ]


def _type_of_column(schema: pa.Schema, column: str, path: str) -> pa.DataType:
    try:
        first, *more = (quoted.replace("``", "`") or plain for quoted, plain in _STEP.findall(column))
        field = schema.field(first)
        for step in more:
            field = field.type.field(step)
    except (KeyError, ValueError, pa.ArrowException, AttributeError) as error:
        raise ParquetBloomError("the dataset has no such column any more", path=path, column=column) from error
    return field.type
