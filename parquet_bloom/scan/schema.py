"""The schema of a dataset: of all its files together, with the partition columns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import pyarrow as pa

from ..errors import ParquetBloomError
from ..file.cache.memory import MetadataCache
from ..file.reader import BloomFile
from ..storage import Entry, is_local
from ..storage.confined import ConfinedFiles, is_in_place, leads_inside
from ..util.arrow_values import empty_table
from ..util.collector import paused_collection
from ..util.threads import processors
from .decode.open import open_file
from .model.schemas import arrow_schema, map_in_threads, reading, unify_schemas
from .plan.files import LocalFiles
from .plan.statistics import cache_footers
from .source import ScanSource


def fix_schema(source: ScanSource, schema: pa.Schema | None = None) -> tuple[ScanSource, pa.Schema]:
    """Return the source of a dataset, whose partition columns stay as they are now, and the dataset's schema.

    Without `schema` it is the unified schema of the files; of an index's files, the schema of the first one. Footers
    are read for it, and cached with those that planning reads. With an index, files need not be opened, and there may
    be a million of them.

    Raises
    ------
    ParquetBloomError
        There are no files, or one cannot be read, or their columns do not fit into one schema.
    """
    listing = source.list_files()
    entries = listing.entries
    if listing.table is not None:
        return source.with_table_schema(listing.table.schema), listing.table.schema if schema is None else schema
    if schema is not None:
        return source.with_partitions(listing.partitions.schema.names, schema) if entries else source, schema
    if not entries:
        problem = "no files to scan (in Python, schema= makes a dataset of none)"
        raise ParquetBloomError(problem, path=None if source.paths is None else str(source.paths))
    if source.index is not None:
        entries = entries[:1]

    def read_schema(entry: Entry) -> pa.Schema:
        with open_file(entry.path, listing.filesystem, source.cache, entry) as file:
            return file.schema

    remote = not is_local(listing.filesystem, [entry.path for entry in entries])
    footers: list[BloomFile | None] = [None] * len(entries)
    if source.cache is not None and remote:
        from .plan.objects import ListedObjects

        footers = cache_footers(ListedObjects(entries, source.cache, fail_fast=True))
    elif source.cache is not None:
        footers = _cache_local_footers([entry.path for entry in entries], listing.filesystem, source.cache)
    unread = [entry for entry, file in zip(entries, footers, strict=True) if file is None]
    read = iter(map_in_threads(read_schema, unread, remote=remote))
    schemas = []
    for file in footers:
        with reading(file) if file is not None else nullcontext():
            schemas.append(next(read) if file is None else arrow_schema(file))
    schema = listing.partitions.add_columns(empty_table(unify_schemas(schemas))).schema
    return source.with_partitions(listing.partitions.schema.names, schema), schema


def _cache_local_footers(
    paths: Sequence[str], filesystem: object | None, cache: MetadataCache
) -> list[BloomFile | None]:
    """Read the footers of files into a cache; None for files that have to be opened one by one."""
    has_to_ask = isinstance(filesystem, ConfinedFiles)
    inside = [path for path in paths if not has_to_ask or leads_inside(path, filesystem)]
    with paused_collection():
        footers = cache_footers(LocalFiles(inside, cache, processors()))
    files = {
        path: file
        for path, file in zip(inside, footers, strict=True)
        if file is not None and not (has_to_ask and not is_in_place(path, filesystem, file.source.identity))
    }
    return [files.get(path) for path in paths]
