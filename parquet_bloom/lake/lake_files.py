"""List the lake's files: in folders, by patterns, of a table, or given by name."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypedDict, cast

from ..errors import ParquetBloomError, UnsupportedTypeError
from ..predicate.key_expression import TUPLE, KeyExpression, first_column, is_of_path
from ..storage import Entry, is_local, is_url, list_entries
from ..storage.file_names import is_hidden
from ..storage.paths import name_of as name_of
from ..storage.paths import resolve_given_path as resolve_given_path
from ..tables.names_in_files import is_same_column
from ..tables.open_table import find_table, open_delta, open_iceberg
from ..tables.table_snapshot import Table, TableChanges, TableFiles, TableSnapshot
from ..variant.variant_type import find_variant
from .hash_files import TableColumns

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

_ESCAPED = re.compile(r"\[([*?[])\]")  # as `glob.escape` does
_FIXED = re.compile(r"(?:\[[*?[]\]|[^*?[])*")  # of a pattern, what is in front of its first part that varies

OUTSIDE: Final = "outside"
CATALOG: Final = "catalog"


class LakeDescription(TypedDict, total=False):
    """How the live files of an index are listed: in folders and by patterns, or of a table.

    Attributes
    ----------
    paths : the folders and patterns.
    delta, iceberg : path of the table; for Iceberg with `catalog`, its name there.
    outside : whether files of the table may lie outside of its folder.
    """

    paths: list[str]
    delta: str
    iceberg: str | list[str]
    catalog: str
    outside: bool


@dataclass(frozen=True)
class LakeAccess:
    """A lake as a caller gives it, and how its files are reached.

    Attributes
    ----------
    given : what `list_lake` takes; None for the lake that the index describes itself.
    filesystem, storage_options : of the files.
    """

    given: object | None = None
    filesystem: FileSystem | None = None
    storage_options: Mapping[str, object] | None = None


@dataclass(frozen=True)
class LakeListing:
    """Listed files of the lake.

    Attributes
    ----------
    entries : the files.
    roots : the folders, patterns or table that were listed.
    named : paths of files that were given by name; the others were listed in `roots`.
    table : the table whose files they are, at one version, or what has changed in it; None for plain files.
    """

    entries: Sequence[Entry]
    roots: LakeDescription = field(default_factory=LakeDescription)
    named: frozenset[str] = frozenset()
    table: TableSnapshot | TableChanges | None = None

    @property
    def snapshot(self) -> dict[str, object]:
        """The table's snapshot; empty for plain files."""
        if self.table is None:
            return {}
        return {"kind": self.table.kind, "table_id": self.table.table_id, "version": self.table.version}

    @property
    def table_columns(self) -> TableColumns:
        """How the files name the table's columns; None for plain files and others that name them alike."""
        return None if self.table is None else self.table.columns

    def means(self, column: str, meaning: str) -> bool:
        """Return whether a column of the files is the stored column of some meaning; see `ColumnPart`."""
        name = first_column(column)
        return not meaning if self.table is None else is_same_column(self.table.columns, name, meaning)


def require_columns(columns: Sequence[str], table: object | None) -> None:
    """Raise ParquetBloomError for an index over a table of several columns together, or of Variants as stored."""
    tuples = (column for column in columns if isinstance(column, KeyExpression) and column.function == TUPLE)
    expression = next(tuples, None)
    if table is not None and expression is not None:
        problem = "indexes of Delta and Iceberg tables are of single columns, as each may be renamed by itself"
        raise ParquetBloomError(problem, column=expression)
    if not isinstance(table, TableSnapshot):
        return
    for column in columns:
        if not is_of_path(column) and find_variant(table.schema, first_column(column)) is not None:
            problem = "what files have of a Variant depends on how it is shredded: it cannot be indexed"
            raise UnsupportedTypeError(f"{problem}; index a path of it, column:path::TYPE", column=column)


def list_lake(
    lake: object, filesystem: FileSystem | None, storage_options: Mapping[str, object] | None = None
) -> LakeListing:
    """List the files of a caller's description of the lake.

    Parameters
    ----------
    lake : what `storage.list_files` takes; a table, as `find_lake_table` takes it; or, as manifests have it,
        {"paths": [...]}; or a listing, which is returned.

    Raises
    ------
    StorageError
        There is no such path.
    ManagedTableError
        A folder belongs to a table.
    ParquetBloomError
        The table cannot be read, or the library that reads it is not installed.
    """
    if isinstance(lake, LakeListing):
        return lake
    table = find_lake_table(lake, storage_options)
    if table is not None:
        snapshot = table.read_snapshot()
        roots = cast(LakeDescription, table.describe(snapshot))
        return LakeListing([Entry(file.path) for file in snapshot.files], roots, table=snapshot)
    if isinstance(lake, Mapping):
        if not lake.keys() <= {"paths"}:
            raise ParquetBloomError("a lake is paths, a table, {'delta': table} or {'iceberg': table}")
        return list_lake(lake.get("paths", []), filesystem)
    is_list = isinstance(lake, Iterable) and not isinstance(lake, str | bytes | os.PathLike)
    given = cast(Iterable[str | os.PathLike[str]], lake if is_list else [lake])
    paths = [resolve_given_path(path, filesystem) for path in given]
    entries = list_entries(paths, filesystem)
    files = {entry.path for entry in entries}
    texts = [os.fsdecode(path) for path in paths]
    folders = [_root(text, filesystem) for text in texts if text not in files]
    return LakeListing(entries, {"paths": folders} if folders else {}, frozenset(files.intersection(texts)))


def find_lake_table(lake: object, storage_options: Mapping[str, object] | None = None) -> Table | None:
    """Return the table that a caller's description of the lake, or a manifest's, names; None for plain files.

    Parameters
    ----------
    lake : what `tables.open.find_table` takes; a `TableFiles`; or {"delta": path} or {"iceberg": path}, with
        "outside": True where the table's files may lie elsewhere, and "catalog" for an Iceberg table's name in one.

    Raises
    ------
    ParquetBloomError
        The manifest cannot say where the table is, or the library that reads it is not installed.
    """
    if isinstance(lake, TableFiles):
        return lake.as_table()
    if not isinstance(lake, Mapping):
        return find_table(lake, storage_options)
    outside = lake.get(OUTSIDE) is True
    if "delta" in lake:
        given = lake["delta"]
        return given if isinstance(given, Table) else open_delta(given, storage_options, outside)
    if "iceberg" in lake:
        given, catalog = lake["iceberg"], lake.get(CATALOG)
        if isinstance(given, Table):
            return given
        if catalog == "":
            problem = "its catalog has no name to open it by: give the table, as lake= or to append"
            raise ParquetBloomError(problem, path=given if isinstance(given, str) else ".".join(given))
        return open_iceberg(tuple(given) if isinstance(given, list) else given, catalog, outside)
    return None


def resolve_roots(lake: LakeAccess) -> LakeDescription:
    """Return the description of a lake for the manifest of a new index; raises as `list_lake`.

    Raises
    ------
    ParquetBloomError
        The lake contains single files, which are to be passed to `append`.
    """
    if lake.given is None:
        return {}
    listing = list_lake(lake.given, lake.filesystem, lake.storage_options)
    if listing.named:
        problem = "a lake is folders, patterns or a table; pass single files to append"
        raise ParquetBloomError(problem, path=min(listing.named))
    return listing.roots


def _root(path: str, filesystem: FileSystem | None) -> str:
    """Return a folder or pattern as stored: absolute, and a folder escaped so that it is not read as a pattern."""
    name = name_of(path, filesystem)
    is_folder = not is_url(name) and is_local(filesystem) and os.path.isdir(name)
    return glob.escape(name) if is_folder else name


def merge_roots(roots: LakeDescription, more: LakeDescription, same_table: bool = False) -> LakeDescription:
    """Merge new roots into a manifest's description of the lake.

    Parameters
    ----------
    same_table : whether both are known to be one table, which may be given in several ways.

    Raises
    ------
    ParquetBloomError
        One is a table, and the other is not that table.
    """
    if not roots or not more or dict(roots) == dict(more):
        return roots or more
    if same_table:
        return more
    if set(roots) != {"paths"} or set(more) != {"paths"}:
        raise ParquetBloomError("an index is of one table, or of files that are in none: make another one")
    paths = list(roots["paths"])
    for path in more["paths"]:
        if not any(covers(other, path) for other in paths):
            paths = [other for other in paths if not covers(path, other)]
            paths.append(path)
    return {"paths": paths}


def covers(root: str, path: str) -> bool:
    """Return whether listing `root` finds everything below `path`, as no folder between them is hidden."""
    if root == path:
        return True
    folder = root.rstrip("/") + "/"
    if glob.has_magic(root) or glob.has_magic(path) or not path.startswith(folder):
        return False
    return not any(is_hidden(part, is_folder=True) for part in path[len(folder) :].strip("/").split("/"))


def is_below(path: str, roots: Sequence[str]) -> bool:
    """Return whether a file of an index can have been listed in one of a manifest's folders and patterns."""
    return any(_is_below(path, root) for root in roots)


def _is_below(path: str, root: str) -> bool:
    match = _FIXED.match(root)
    fixed = _ESCAPED.sub(r"\1", match[0]) if match else ""
    if match is not None and match[0] == root:  # a folder
        fixed = fixed.rstrip("/") + "/"
    if path.startswith(fixed):
        return True
    return not is_url(root) and path.startswith(os.path.join(os.path.realpath(fixed), ""))  # given by way of `..`


def require_outside(index: str, roots: LakeDescription) -> None:
    """Raise ParquetBloomError if the index lies in its lake."""
    location = name_of(index) if not is_url(index) else index
    for root in roots.get("paths", ()):
        if covers(root, location):
            raise ParquetBloomError(f"it lies inside of its lake, {root}", path=index)
