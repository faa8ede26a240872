"""Footers of a table's data files, in which columns have the names that the table gives them.

Everything that reads a file begins with its footer, so nothing else has to know of the table's names.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from ..errors import ParquetBloomError
from ..file.bloom_file import BloomFile
from ..file.metadata_cache import SHARED_CACHE, CachedFooter, MetadataCache
from ..storage import FileIdentity
from .names_in_files import find_names

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

    def __reduce__(self) -> tuple[object, ...]:
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

    def get_shared(self, key: Hashable) -> object:
        return self._cache.get_shared((self._columns, key))

    def put_shared(self, key: Hashable, value: object) -> None:
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
