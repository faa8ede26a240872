"""An index of the lake, asked before a scan: files that it rules out are not even looked into."""

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
from ..session.fields import folded
from ..session.paths import listed_path, scheme_of
from ..session.storage import OBJECTS, object_url
from .parquet_columns import stored_as
from .trust import SparkCompatibility

Index = str | os.PathLike[str] | LakeIndex

_LAST_OLD_YEAR = 1901  # until then calendars, and with them what old files mean, differ


@dataclass(frozen=True)
class Ruled:
    """What an index says of a scan's files.

    Attributes
    ----------
    out : {place in the list of files: why no row of it can match}.
    requests, bytes_read : what was read of the index.
    """

    out: Mapping[int, str] = field(default_factory=dict)
    requests: int = 0
    bytes_read: int = 0


NOTHING = Ruled()


@contextmanager
def opened_index(index: Index | None, storage_options: Mapping[str, Any] | None) -> Iterator[LakeIndex | None]:
    """Have an index open; one that was given by its folder no longer than the block takes.

    Raises
    ------
    StorageError
        There is no index.
    BrokenIndexError
        It is not as it was written.
    ParquetBloomError
        It is no index.
    """
    if index is None or isinstance(index, LakeIndex):
        yield index
        return
    found = open_index(index, storage_options)
    try:
        yield found
    finally:
        found.close()


def open_index(index: Index, storage_options: Mapping[str, Any] | None) -> LakeIndex:
    """An index by its folder; errors as of `opened_index`. Which files are live shows when they are asked about."""
    if isinstance(index, LakeIndex):
        return index
    if not isinstance(index, str | os.PathLike):
        raise ParquetBloomError(f"index is the folder of an index, or a LakeIndex, not {type(index).__name__}")
    return LakeIndex.open(index, live=False, storage_options=storage_options, lake_options=storage_options)


def ruled_out(
    index: LakeIndex,
    uris: Sequence[str],
    node: Node,
    trust: SparkCompatibility,
    storage_options: Mapping[str, Any] | None,
    states: Callable[[], list[tuple[int, int]]] | None,
) -> Ruled:
    """The files of a scan that an index rules out. In doubt it rules out none, and the log says why.

    Parameters
    ----------
    uris : the files as Spark lists them.
    node, trust : as for `scan_files`. Names that are no columns of the files have no field in `trust`.
    storage_options : of the files' store.
    states : gives size and modification time (ms) of each file, if Spark tells.
    """
    try:
        return _ruled_out(index, uris, node, trust, storage_options, states)
    except (CannotPush, ParquetBloomError) as error:
        log.warning("the index is not asked: %s", error)
        return NOTHING


def _ruled_out(
    index: LakeIndex,
    uris: Sequence[str],
    node: Node,
    trust: SparkCompatibility,
    storage_options: Mapping[str, Any] | None,
    states: Callable[[], list[tuple[int, int]]] | None,
) -> Ruled:
    schemes = sorted({scheme_of(uri) for uri in uris})
    if len(schemes) > 1:
        raise CannotPush(f"files of several kinds of file systems are not looked up: {', '.join(schemes)}")
    filesystem = index.lake_filesystem
    if as_arrow_filesystem(filesystem) is not None:
        raise CannotPush("its files are on a pyarrow or fsspec file system, and which those are to Spark is not known")
    paths = list(map(listed_path, uris))
    is_here = not schemes or schemes[0] in ("", "file")
    if not is_here and schemes[0] not in OBJECTS:
        raise CannotPush(f"files of {schemes[0]} are not looked up")
    if is_here:
        filesystem = None
    elif filesystem is None:
        filesystem = resolve_filesystem(None, storage_options)
    chooser = IndexPruner(index.state, node, "UTC", trust.rules.ignore_case, filesystem, _Trusted(node, trust))
    if not chooser.useful:
        log.info("the condition is about no column of the index")
        return NOTHING
    entries = list(map(Entry, paths)) if is_here else _listed(list(map(object_url, paths)), filesystem)
    choices = chooser.choose(entries)
    sizes = [size for size, _ in states()] if states is not None and not is_here else None
    found = {}
    for place, (choice, entry) in enumerate(zip(choices, entries, strict=True)):
        if not choice.known or choice.read:
            continue
        # Spark may know the store by another endpoint: what it lists there has at least to be as large.
        if sizes is None or entry.known is None or entry.known.size in (None, sizes[place]):
            found[place] = choice.reason
    for doubt in chooser.doubts:
        log.warning("the index cannot be read whole: %s", doubt)
    log.info("the index rules out %d of %d files", len(found), len(uris))
    return Ruled(found, chooser.requests, chooser.bytes_read)


def _listed(urls: Sequence[str], filesystem: object | None) -> list[Entry]:
    """Objects with what one listing tells of them; those that it does not name are none that the index could know."""
    first, last = (url.split("/")[:-1] for url in (min(urls), max(urls)))
    same = (one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    above = "/".join(same) + "/"
    entries = {sources.name_of(entry.path): entry for entry in list_entries(above, filesystem)}
    return [entries.get(sources.name_of(url)) or Entry("") for url in urls]


class _Trusted:
    """Whether Spark reads a column of some stored type as what is stored, whatever else is the matter with a file."""

    def __init__(self, node: Node, trust: SparkCompatibility):
        self._ignore_case = trust.rules.ignore_case
        self._fields = {self._folded(name): item for name, item in trust.fields}
        self._literals: dict[str, list[Any]] = {}
        for leaf in tree.leaves(node):
            self._literals.setdefault(self._folded(leaf.column), []).extend(leaf.literals)

    def _folded(self, name: str) -> str:
        return folded(name, self._ignore_case)

    def __call__(self, column: str, column_type: ColumnType) -> bool:
        item = self._fields.get(self._folded(column))
        if item is None or any("." in name for name in item.path):
            return False  # a partition's, or one whose name could be taken for a path
        data_type = item.type.elementType if isinstance(item.type, ArrayType) else item.type
        if not stored_as(data_type, column_type) or column_type.physical == "INT96":
            return False  # INT96 may be cut off, or shifted: that depends on who wrote a file
        if isinstance(data_type, DateType | TimestampType):
            return all(map(_in_any_calendar, self._literals.get(self._folded(column), ())))
        return True


def _in_any_calendar(literal: Any) -> bool:
    """Whether a day or moment is the same one in whichever calendar a file was written."""
    return literal is None or (isinstance(literal, dt.date) and literal.year > _LAST_OLD_YEAR)
