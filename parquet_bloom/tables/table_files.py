"""Footers of a table's data files, in which columns have the names that the table gives them.

Everything that reads a file begins with its footer, so nothing else has to know of the table's names.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import ParquetBloomError
from ..file.bloom_file import BloomFile
from ..file.metadata_cache import SHARED_CACHE, CachedFooter, MetadataCache
from ..storage import FileIdentity
from .delta.delta_table import DeltaSource
from .names_in_files import find_names
from .table_snapshot import ReadTable, Table, TableFile, TableSnapshot

if TYPE_CHECKING:
    from .table_snapshot import TableColumn


def as_table_footers(cache: MetadataCache | None, columns: tuple[TableColumn, ...] | None) -> MetadataCache:
    """Return a cache as a table with some columns sees it; `columns` is None if files name them as the table does."""
    return cache if isinstance(cache, TableFooters) else TableFooters(cache, columns)


def _restore(cache: MetadataCache | None, columns: tuple[TableColumn, ...] | None) -> TableFooters:
    return TableFooters(SHARED_CACHE if cache is None else cache, columns)


def show_as_table(file: BloomFile, columns: tuple[TableColumn, ...]) -> BloomFile:
    """Return an opened file as a table with some columns sees it; the two share their source.

    Raises
    ------
    ParquetBloomError
        The table's columns cannot be identified in the file.
    """
    shown = TableFooters(None, columns).keep(file.path, file.source.identity, file.cached)
    return BloomFile(file.source, None, shown)


class TableFooters(MetadataCache):
    """A cache of footers as a table sees them; what it holds is in another cache, which it shares with others.

    Parameters
    ----------
    cache : the cache; None for one that holds nothing.
    columns : the table's columns; None if files name them as the table does.
    """

    def __init__(self, cache: MetadataCache | None, columns: tuple[TableColumn, ...] | None):
        super().__init__(0)
        self._cache = MetadataCache(0) if cache is None else cache
        self._columns = columns

    def __reduce__(self) -> tuple[Any, ...]:
        # A cache in memory stays in its process; another process uses the shared one that it has.
        return _restore, (None if type(self._cache) is MetadataCache else self._cache, self._columns)

    def __len__(self) -> int:
        return len(self._cache)

    def __repr__(self) -> str:
        return f"<TableFooters over {self._cache!r}>"

    @property
    def num_bytes(self) -> int:
        return self._cache.num_bytes

    def find(self, path: str, identity: Hashable) -> CachedFooter | None:
        cached = self._cache.find(path, identity)
        return None if cached is None else self._rename_of(path, cached)

    def find_by_paths(self, paths: Sequence[str]) -> list[tuple[FileIdentity, CachedFooter] | None]:
        entries = self._cache.find_by_paths(paths)
        for i, entry in enumerate(entries):
            if entry is not None:
                try:
                    entries[i] = entry[0], self._rename(entry[1])
                except ParquetBloomError:  # raised when the file is opened
                    entries[i] = None
        return entries

    def last_identity(self, path: str) -> Hashable:
        return self._cache.last_identity(path)

    def keep(self, path: str, identity: Hashable, cached: CachedFooter) -> CachedFooter:
        return self._rename_of(path, self._cache.keep(path, identity, cached.original or cached))

    def flush(self) -> None:
        self._cache.flush()

    def get_shared(self, key: Hashable) -> Any:
        return self._cache.get_shared((self._columns, key))

    def put_shared(self, key: Hashable, value: Any) -> None:
        self._cache.put_shared((self._columns, key), value)

    def clear(self) -> None:
        self._cache.clear()

    def _rename_of(self, path: str, cached: CachedFooter) -> CachedFooter:
        try:
            return self._rename(cached)
        except ParquetBloomError as error:
            error.path = error.path or path
            raise

    def _rename(self, cached: CachedFooter) -> CachedFooter:
        """Return an entry as the table sees it, made once."""
        views: dict[tuple[TableColumn, ...] | None, CachedFooter] = cached.derived.setdefault("table_footers", {})
        view = views.get(self._columns)
        if view is None:
            names = None if self._columns is None else find_names(cached.footer, self._columns)
            has_int96 = any(leaf.physical == "INT96" for leaf in cached.footer.leaves)
            is_same = names is None and not has_int96
            view = views.setdefault(self._columns, cached if is_same else cached.show(names, "us"))
        return view


@dataclass(frozen=True)
class TableFiles:
    """The data files of a table at one version.

    Attributes
    ----------
    kind : "delta" or "iceberg".
    table_id : the table's identifier, which does not change when the table is moved or written to.
    version : Delta's version or Iceberg's snapshot id; None for an Iceberg table without a snapshot.
    root : the table's folder, or its URL.
    files : the data files of the version, sorted by path. They still contain rows removed by deletion vectors or delete
        files: a value found in such a file may be deleted, but a value that is not found is absent.
    outside : whether files outside of the root were accepted.
    deletes : paths of files of which rows have been deleted: by deletion vectors in a Delta table, by delete files in
        an Iceberg table.
    snapshot : everything else that is known of the version.
    """

    kind: str
    table_id: str
    version: int | None
    root: str
    files: list[TableFile]
    outside: bool = False
    deletes: frozenset[str] = frozenset()
    snapshot: TableSnapshot | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, snapshot: TableSnapshot, outside: bool) -> TableFiles:
        """Return the files of a snapshot."""
        files, deletes = list(snapshot.files), frozenset(snapshot.deletes)
        of_table = snapshot.kind, snapshot.table_id, snapshot.version, snapshot.root
        return cls(*of_table, files, outside, deletes, snapshot)

    def as_table(self) -> Table:
        """Return the table at this version."""
        assert self.snapshot is not None
        return ReadTable(self.snapshot, outside=self.outside)


def delta_files(
    path: str | os.PathLike[str],
    version: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    outside: bool = False,
) -> TableFiles:
    """Return the data files of a Delta table.

    Parameters
    ----------
    path : the table's folder, or its URL.
    version : the version; None for the latest.
    storage_options : settings of the store, as named by obstore and deltalake.
    outside : accept files outside of the table's folder, as in a shallow clone. A log may name any file, so anyone who
        can write the log chooses which files are read.

    Raises
    ------
    StorageError
        There is no such table or version, or deltalake cannot read it.
    ParquetBloomError
        deltalake is missing, the table's log is not understood, or the table has a file outside of its folder.
    """
    source = DeltaSource(path, version, storage_options=storage_options, outside=outside)
    return TableFiles.of(source.read_snapshot(), outside)
