"""Read zone indexes of Lance with pylance."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ..errors import BrokenZonesError, ParquetBloomError, StorageError, first_line
from ..storage import is_url
from ..storage.paths import resolve_local_path
from .arrow_container import OpenedContainer, open_table
from .zone_manifest import read_zones

if TYPE_CHECKING:
    from lance import LanceDataset

FILE_NAME = "bloomfilter.lance"
_BATCH_ROWS = 1024
_TYPE = "bloomfilter"
_VERSION = 0  # of the index, as Lance numbers its formats
_STEP = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")  # of a column's path


class _IndexSegment(NamedTuple):
    """A segment of an index: one file, for some fragments."""

    name: str
    column: str
    uuid: str
    fragments: frozenset[int]
    version: int = 0
    elsewhere: bool = False


class LanceIndex(NamedTuple):
    """The Bloom filter index of a Lance dataset.

    Attributes
    ----------
    container : its zones and filters.
    column, value_type : the column, and its type in the dataset.
    uncovered : fragments without zones, as (fragment_id, rows).
    """

    container: OpenedContainer
    column: str
    value_type: pa.DataType
    uncovered: list[tuple[int, int]]


def _import_module(name: str, path: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        problem = (
            f"pylance, which reads Lance's files, cannot be imported ({error}): pip install 'parquet-bloom[lance]'"
        )
        raise ParquetBloomError(problem, path=path) from error


def read_file(path: str, storage_options: Mapping[str, object] | None = None) -> pa.Table:
    """Read the table in an index file, with the metadata of its schema.

    Raises
    ------
    BrokenZonesError
        pylance cannot read it.
    ParquetBloomError
        pylance is not installed.
    """
    module = _import_module("lance.file", path)
    options = {} if not storage_options else {"storage_options": dict(storage_options)}
    with _convert_errors(BrokenZonesError, "pylance cannot read it", path):
        return module.LanceFileReader(path, **options).read_all(batch_size=_BATCH_ROWS).to_table()


@contextmanager
def _convert_errors(kind: type[ParquetBloomError], problem: str, path: str) -> Iterator[None]:
    """Convert what pylance raises for damaged files: errors, and Rust panics, which are not Exceptions."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = first_line(error).split(", /")[0][:300]
        raise kind(f"{problem}: {reason}", path=path) from error


def open_dataset(
    path: str, column: str | None, name: str | None, storage_options: Mapping[str, object] | None = None
) -> LanceIndex:
    """Open the Bloom filter index of a Lance dataset with all its segments.

    Results include all fragments that it does not cover.

    Raises
    ------
    ParquetBloomError
        There is no such index, or more than one; or pylance is not installed.
    StorageError
        pylance cannot open the dataset.
    """
    if not is_url(path) and not os.path.isdir(os.path.join(resolve_local_path(path), "_versions")):
        raise BrokenZonesError("the folder is not a Lance dataset", path=path)
    lance = _import_module("lance", path)
    options = {} if not storage_options else {"storage_options": dict(storage_options)}
    with _convert_errors(StorageError, "pylance cannot open it as a dataset", path):
        dataset = lance.dataset(path, **options)
        segments = _list_segments(dataset)
        fragments = {fragment.fragment_id: int(fragment.physical_rows) for fragment in dataset.get_fragments()}
    selected = [segment for segment in segments if name in (None, segment.name) and column in (None, segment.column)]
    if len({segment.name for segment in selected}) != 1:
        available = ", ".join(sorted({f"{segment.name} of {segment.column}" for segment in segments}))
        criteria = "" if name is None and column is None else " of that name or column"
        problem = f"it has {len({segment.name for segment in selected}) or 'no'} Bloom filter indexes{criteria}"
        raise ParquetBloomError(problem + (f"; there are: {available}" if available else ""), path=path, column=column)
    tables = []
    for segment in selected:
        if segment.version > _VERSION or segment.elsewhere:
            what = "in another dataset" if segment.elsewhere else f"of version {segment.version}"
            raise ParquetBloomError(f"index {segment.name} is {what}, which is not supported", path=path, column=column)
        table = read_file(f"{path.rstrip('/')}/_indices/{segment.uuid}/{FILE_NAME}", storage_options)
        open_table(table, path)  # validates the table
        fragment_ids = pa.array(sorted(segment.fragments & fragments.keys()), pa.uint64())
        tables.append(table.filter(pa.compute.is_in(table["fragment_id"], fragment_ids)))
    table = pa.concat_tables(tables, promote_options="none")
    container = open_table(table.replace_schema_metadata(tables[0].schema.metadata), path)
    zones = read_zones(container.numbers, path)
    field = selected[0].column
    value_type = _find_arrow_type(dataset.schema, field, path)
    covered = {*zones["fragment_id"].tolist()}
    uncovered = [(number, rows) for number, rows in sorted(fragments.items()) if rows and number not in covered]
    return LanceIndex(container, field, value_type, uncovered)


def _list_segments(dataset: LanceDataset) -> list[_IndexSegment]:
    """Return the segments of a dataset's Bloom filter indexes."""
    if not hasattr(dataset, "describe_indices"):  # older versions of pylance
        return [
            _IndexSegment(
                index["name"], ".".join(index["fields"]), str(index["uuid"]), frozenset(index["fragment_ids"])
            )
            for index in dataset.list_indices()
            if str(index["type"]).lower() == _TYPE
        ]
    return [
        _IndexSegment(
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


def _find_arrow_type(schema: pa.Schema, column: str, path: str) -> pa.DataType:
    try:
        first, *more = (quoted.replace("``", "`") or plain for quoted, plain in _STEP.findall(column))
        field = schema.field(first)
        for step in more:
            field = field.type.field(step)
    except (KeyError, ValueError, pa.ArrowException, AttributeError) as error:
        raise ParquetBloomError("the dataset no longer has this column", path=path, column=column) from error
    return field.type
