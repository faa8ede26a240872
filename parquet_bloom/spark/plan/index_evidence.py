"""A lake's index as a scan of Spark's files uses it: how it knows the files, and which columns it may answer."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DateType, TimestampType, VariantType

from ...errors import ParquetBloomError
from ...hashing.column_type import ColumnType
from ...lake import lake_files as sources
from ...lake.lake_index import LakeIndex
from ...predicate import tree
from ...predicate.tree import Node, VariantLookup
from ...predicate.variant_names import parse_evidence
from ...scan.plan.index_level import IndexView
from ...storage import Entry, list_entries, resolve_filesystem
from ...storage.paths import as_arrow_filesystem
from ..session.hadoop import OBJECTS, object_url
from ..session.session_settings import find_scheme, fold_case, listed_path
from .column_trust import SparkCompatibility, is_stored_as

if TYPE_CHECKING:
    from ...util.given_types import FileSystem

Index = str | os.PathLike[str] | LakeIndex

_LAST_AMBIGUOUS_YEAR = 1901  # until then calendars, and so the meaning of old files, may differ
_LAST_AMBIGUOUS_SECOND = -2_145_744_000  # 1902-01-03, in whatever zone
_FIRST_SECOND = -(1 << 63) // 10**6 - 1  # of an instant in microseconds
_YEARS = re.compile(r"(\d{4,})-\d\d-\d\d", re.ASCII)
_UNKNOWN = Entry("")


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


def make_index_view(
    index: LakeIndex,
    uris: Mapping[str, str],
    node: Node,
    compatibility: SparkCompatibility,
    storage_options: Mapping[str, Any] | None,
    states: Callable[[], list[tuple[int, int]]] | None,
) -> IndexView:
    """Return an open index as the scan of Spark's files uses it.

    Parameters
    ----------
    uris : {path in the scan: file as Spark lists it}.
    node, compatibility : as for `scan_files`. Names other than columns of the files have no field in `compatibility`.
    storage_options : options of the files' store.
    states : returns size and modification time (ms) of each file, if Spark reports them.
    """
    try:
        scheme = _find_scheme(index, uris.values())
        filesystem = None
        if scheme in OBJECTS:
            filesystem = index.lake_filesystem or resolve_filesystem(None, storage_options)
    except ParquetBloomError as error:
        return IndexView.make_unusable(error)
    trusted = _TypeCompatibility(node, compatibility)
    return IndexView(
        index.state, filesystem=filesystem, trusted=trusted, locate=_IndexedFiles(uris, scheme, filesystem, states)
    )


def _find_scheme(index: LakeIndex, uris: Collection[str]) -> str:
    """Return the scheme of the files, if an index may know them."""
    schemes = sorted({find_scheme(uri) or "file" for uri in uris})
    if len(schemes) > 1:
        raise ParquetBloomError(f"the files are on several kinds of file systems: {', '.join(schemes)}")
    if as_arrow_filesystem(index.lake_filesystem) is not None:
        problem = "its files are on a pyarrow or fsspec file system, which cannot be matched with Spark's files"
        raise ParquetBloomError(problem)
    if schemes[0] not in ("file", *OBJECTS):
        raise ParquetBloomError(f"files of {schemes[0]} are not supported")
    return schemes[0]


@dataclass(frozen=True)
class _IndexedFiles:
    """The files of a scan as an index knows them; see `IndexView`.

    Attributes
    ----------
    uris, states : see `make_index_view`.
    scheme : of all of them.
    filesystem : of the objects as the index knows them.
    """

    uris: Mapping[str, str]
    scheme: str
    filesystem: FileSystem | None
    states: Callable[[], list[tuple[int, int]]] | None

    def __call__(self, paths: Sequence[str]) -> list[Entry]:
        return [self._entries[path] for path in paths]

    @cached_property
    def _entries(self) -> Mapping[str, Entry]:
        """The files by their paths in the scan; one that the index cannot know gets an entry that no index has."""
        listed = list(map(listed_path, self.uris.values()))
        if self.scheme == "file":
            return dict(zip(self.uris, map(Entry, listed), strict=True))
        entries = _list_objects(list(map(object_url, listed)), self.filesystem)
        if self.states is not None:
            # Spark may use another endpoint of the store: its object must at least have the same size.
            sizes = [size for size, _ in self.states()]
            entries = [
                entry if entry.known is None or entry.known.size in (None, size) else _UNKNOWN
                for entry, size in zip(entries, sizes, strict=True)
            ]
        return dict(zip(self.uris, entries, strict=True))


def _list_objects(urls: Sequence[str], filesystem: FileSystem | None) -> list[Entry]:
    """Return the objects as entries of one listing; one that is not listed gets an entry that no index has."""
    first_parts, last_parts = (url.split("/")[:-1] for url in (min(urls), max(urls)))
    common = (
        part for part, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first_parts, last_parts, strict=False))
    )
    folder = "/".join(common) + "/"
    entries = {sources.name_of(entry.path): entry for entry in list_entries(folder, filesystem)}
    return [entries.get(sources.name_of(url), _UNKNOWN) for url in urls]


class _TypeCompatibility:
    """Test of whether Spark reads a column of a type as it is stored, regardless of other problems of a file."""

    def __init__(self, node: Node, compatibility: SparkCompatibility):
        self._ignore_case = compatibility.rules.ignore_case
        self._fields = {self._fold(name): field for name, field in compatibility.fields}
        self._literals: dict[str, list[Any]] = {}
        for leaf in tree.leaves(node):
            self._literals.setdefault(self._fold(leaf.column), []).extend(leaf.literals)
        self._paths = find_trusted_paths(node)

    def _fold(self, name: str) -> str:
        return fold_case(name, self._ignore_case)

    def __call__(self, column: str, column_type: ColumnType) -> bool:
        field = self._fields.get(self._fold(column))
        of_variant = parse_evidence(column)
        if of_variant is not None:
            variant = self._fields.get(self._fold(of_variant.column))
            if variant is not None:  # where a column has the very name, nobody knows which of the two is meant
                is_path = field is None and isinstance(variant.type, VariantType)
                is_plain = not any("." in name for name in variant.path)
                return is_path and is_plain and (of_variant.path, of_variant.target) in self._paths
        if field is None or any("." in name for name in field.path):
            return False  # a partition column, or a name that could be mistaken for a path
        data_type = field.type.elementType if isinstance(field.type, ArrayType) else field.type
        if not is_stored_as(data_type, column_type) or column_type.physical == "INT96":
            return False  # INT96 may be truncated or shifted, depending on a file's writer
        if isinstance(data_type, DateType | TimestampType):
            return all(map(_is_calendar_independent, self._literals.get(self._fold(column), ())))
        return True


def find_trusted_paths(node: Node) -> set[tuple[str, str]]:
    """Return the paths of Variants, each with its type, of which an index knows where Spark sees what is compared with.

    The days and instants that a file stores as columns may be in another calendar, which an index does not know. So
    nothing that may be made of such is trusted: neither numbers, which are seconds of an instant, nor texts.
    """
    trusted: dict[tuple[str, str], bool] = {}
    for leaf in tree.leaves(tree.drop_whole_names(node)):
        if isinstance(leaf, VariantLookup):
            path = str(leaf.path), leaf.target
            trusted[path] = trusted.get(path, True) and not any(map(_may_be_of_old_calendar, leaf.literals))
    return {path for path, is_trusted in trusted.items() if is_trusted}


def _may_be_of_old_calendar(literal: Any) -> bool:
    """Return whether a value may be, or be made of, a day or instant that calendars differ on."""
    if isinstance(literal, str):
        return any(int(year) <= _LAST_AMBIGUOUS_YEAR for year in _YEARS.findall(literal))
    if isinstance(literal, int | float | Decimal):
        return bool(_FIRST_SECOND <= literal <= _LAST_AMBIGUOUS_SECOND)
    return isinstance(literal, dt.date) and not _is_calendar_independent(literal)


def _is_calendar_independent(literal: Any) -> bool:
    """Return whether a day or instant is the same in every calendar that a file may be written in."""
    return literal is None or (isinstance(literal, dt.date) and literal.year > _LAST_AMBIGUOUS_YEAR)
