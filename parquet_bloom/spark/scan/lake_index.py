"""Use of a lake's index before a scan: files that it excludes are not even opened."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from pyspark.sql.types import ArrayType, DateType, TimestampType

from ...errors import ParquetBloomError
from ...hashing.column_type import ColumnType
from ...lake.files import listing as sources
from ...lake.index import LakeIndex
from ...lake.select import IndexPruner
from ...predicate import tree
from ...predicate.tree import Node
from ...storage import Entry, list_entries, resolve_filesystem
from ...storage.paths import as_arrow_filesystem
from ..session.fallback import CannotPush, log
from ..session.fields import fold_case
from ..session.paths import find_scheme, listed_path
from ..session.storage import OBJECTS, object_url
from .parquet_columns import is_stored_as
from .trust import SparkCompatibility

Index = str | os.PathLike[str] | LakeIndex

_LAST_AMBIGUOUS_YEAR = 1901  # until then calendars, and so the meaning of old files, may differ


@dataclass(frozen=True)
class IndexResult:
    """Result of an index for a scan's files.

    Attributes
    ----------
    excluded : {position in the list of files: why no row of the file can match}.
    requests, bytes_read : reads of the index.
    """

    excluded: Mapping[int, str] = field(default_factory=dict)
    requests: int = 0
    bytes_read: int = 0


NO_EXCLUSIONS = IndexResult()


@contextmanager
def use_index(index: Index | None, storage_options: Mapping[str, Any] | None) -> Iterator[LakeIndex | None]:
    """Provide an open index; one that is given by its folder is closed at the end of the block.

    Raises
    ------
    StorageError
        The index does not exist.
    BrokenIndexError
        The index is corrupt.
    ParquetBloomError
        The argument is not an index.
    """
    if index is None or isinstance(index, LakeIndex):
        yield index
        return
    opened = open_index(index, storage_options)
    try:
        yield opened
    finally:
        opened.close()


def open_index(index: Index, storage_options: Mapping[str, Any] | None) -> LakeIndex:
    """Open an index by its folder; raises as `use_index`. Liveness of files is checked when they are queried."""
    if isinstance(index, LakeIndex):
        return index
    if not isinstance(index, str | os.PathLike):
        raise ParquetBloomError(f"index must be the folder of an index, or a LakeIndex, got {type(index).__name__}")
    return LakeIndex.open(index, live=False, storage_options=storage_options, lake_storage_options=storage_options)


def query_index(
    index: LakeIndex,
    uris: Sequence[str],
    node: Node,
    compatibility: SparkCompatibility,
    storage_options: Mapping[str, Any] | None,
    states: Callable[[], list[tuple[int, int]]] | None,
) -> IndexResult:
    """Return the files of a scan that an index excludes. In case of doubt it is none, and the log says why.

    Parameters
    ----------
    uris : the files as Spark lists them.
    node, compatibility : as for `scan_files`. Names other than columns of the files have no field in `compatibility`.
    storage_options : options of the files' store.
    states : returns size and modification time (ms) of each file, if Spark reports them.
    """
    try:
        return _query_index(index, uris, node, compatibility, storage_options, states)
    except (CannotPush, ParquetBloomError) as error:
        log.warning("the index is not used: %s", error)
        return NO_EXCLUSIONS


def _query_index(
    index: LakeIndex,
    uris: Sequence[str],
    node: Node,
    compatibility: SparkCompatibility,
    storage_options: Mapping[str, Any] | None,
    states: Callable[[], list[tuple[int, int]]] | None,
) -> IndexResult:
    schemes = sorted({find_scheme(uri) for uri in uris})
    if len(schemes) > 1:
        raise CannotPush(f"the files are on several kinds of file systems: {', '.join(schemes)}")
    filesystem = index.lake_filesystem
    if as_arrow_filesystem(filesystem) is not None:
        raise CannotPush("its files are on a pyarrow or fsspec file system, which cannot be matched with Spark's files")
    paths = list(map(listed_path, uris))
    is_local = not schemes or schemes[0] in ("", "file")
    if not is_local and schemes[0] not in OBJECTS:
        raise CannotPush(f"files of {schemes[0]} are not supported")
    if is_local:
        filesystem = None
    elif filesystem is None:
        filesystem = resolve_filesystem(None, storage_options)
    pruner = IndexPruner(
        index.state, node, "UTC", compatibility.rules.ignore_case, filesystem, _TypeCompatibility(node, compatibility)
    )
    if not pruner.useful:
        log.info("the condition is not about a column of the index")
        return NO_EXCLUSIONS
    entries = list(map(Entry, paths)) if is_local else _list_objects(list(map(object_url, paths)), filesystem)
    selections = pruner.choose(entries)
    sizes = [size for size, _ in states()] if states is not None and not is_local else None
    excluded = {}
    for i, (selection, entry) in enumerate(zip(selections, entries, strict=True)):
        if not selection.current or selection.read:
            continue
        # Spark may use another endpoint of the store: its object must at least have the same size.
        if sizes is None or entry.known is None or entry.known.size in (None, sizes[i]):
            excluded[i] = selection.reason
    for doubt in pruner.doubts:
        log.warning("the index cannot be read completely: %s", doubt)
    log.info("the index excludes %d of %d files", len(excluded), len(uris))
    return IndexResult(excluded, pruner.requests, pruner.bytes_read)


def _list_objects(urls: Sequence[str], filesystem: object | None) -> list[Entry]:
    """Return the objects as entries of one listing; one that is not listed gets an entry that no index has."""
    first_parts, last_parts = (url.split("/")[:-1] for url in (min(urls), max(urls)))
    common = (
        part for part, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first_parts, last_parts, strict=False))
    )
    folder = "/".join(common) + "/"
    entries = {sources.name_of(entry.path): entry for entry in list_entries(folder, filesystem)}
    return [entries.get(sources.name_of(url)) or Entry("") for url in urls]


class _TypeCompatibility:
    """Test of whether Spark reads a column of a type as it is stored, regardless of other problems of a file."""

    def __init__(self, node: Node, compatibility: SparkCompatibility):
        self._ignore_case = compatibility.rules.ignore_case
        self._fields = {self._fold(name): field for name, field in compatibility.fields}
        self._literals: dict[str, list[Any]] = {}
        for leaf in tree.leaves(node):
            self._literals.setdefault(self._fold(leaf.column), []).extend(leaf.literals)

    def _fold(self, name: str) -> str:
        return fold_case(name, self._ignore_case)

    def __call__(self, column: str, column_type: ColumnType) -> bool:
        field = self._fields.get(self._fold(column))
        if field is None or any("." in name for name in field.path):
            return False  # a partition column, or a name that could be mistaken for a path
        data_type = field.type.elementType if isinstance(field.type, ArrayType) else field.type
        if not is_stored_as(data_type, column_type) or column_type.physical == "INT96":
            return False  # INT96 may be truncated or shifted, depending on a file's writer
        if isinstance(data_type, DateType | TimestampType):
            return all(map(_is_calendar_independent, self._literals.get(self._fold(column), ())))
        return True


def _is_calendar_independent(literal: Any) -> bool:
    """Return whether a day or instant is the same in every calendar that a file may be written in."""
    return literal is None or (isinstance(literal, dt.date) and literal.year > _LAST_AMBIGUOUS_YEAR)
