"""Local files that are read together, each of them the version that was planned."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ...errors import ConcurrentChangeError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.pages.sparse import RowGroupBatch
from ...file.reader import BloomFile
from ...storage import OPEN_FILE_BUDGET, FileIdentity, Source, make_open_files
from ...storage.local.source import LocalSource
from ..decode.parquet_file import ParquetData
from ..decode.row_group_decoder import Pages
from ..locate.file_kind import FileKind
from ..model.limits import ReadLimits
from ..model.plan import FilePlan

_MOST_SHARED = 32  # files that stay open for pyarrow, each by two more descriptors


class PlannedFiles:
    """Local files that several batches read, opened by the first of them and closed after the last one."""

    def __init__(
        self,
        plans: Sequence[FilePlan],
        footers: Sequence[CachedFooter],
        num_batches: int,
        cache: MetadataCache | None,
        note: Callable[[Source], None],
    ):
        self._footers = footers
        self._note = note
        self._paths = [plan.path for plan in plans]
        self._identities = [plan.identity for plan in plans if isinstance(plan.identity, FileIdentity)]
        self._files = make_open_files(self._paths, self._identities)
        self._remaining = num_batches
        self._cache = cache
        self._are_open: bool | None = None
        self._taken = 0  # of the budget
        self._lock = threading.RLock()
        self._shared: dict[int, ParquetData] = {}
        self._stack = ExitStack()

    def open(self) -> None:
        """Open the files; raise ConcurrentChangeError if they are not those of the plan."""
        with self._lock:
            if self._are_open is None:
                # Waits for other scans; more than the budget is better than to wait for what may never end.
                self._taken = len(self._paths) if OPEN_FILE_BUDGET.take(len(self._paths)) else 0
                self._are_open = self._files.open()
                if not self._are_open:
                    self._close()
            if not self._are_open:
                raise self._make_error()

    def _make_error(self) -> ConcurrentChangeError:
        path = self._paths[0] if len(self._paths) == 1 else None
        return ConcurrentChangeError("another writer changed it meanwhile", path=path)

    @contextmanager
    def borrow(self, number: int, limits: ReadLimits) -> Iterator[ParquetData]:
        """Give an open file for as long as it is used; if there are few, it stays open until the last batch is read."""
        if len(self._paths) > _MOST_SHARED:
            with self._open_data(number, limits) as data:
                yield data
            return
        with self._lock:
            if number not in self._shared:
                self._shared[number] = self._stack.enter_context(self._open_data(number, limits))
        yield self._shared[number]

    @contextmanager
    def _open_data(self, number: int, limits: ReadLimits) -> Iterator[ParquetData]:
        """Open a file that is open already, whatever is at its path by now."""
        path, descriptor = self._paths[number], self._files.descriptor(number)
        source = LocalSource(path, (path, os.dup(descriptor)))
        with ParquetData(BloomFile(source, self._cache, self._footers[number])) as data:
            data.limits = limits
            try:
                yield data
            finally:
                self._note(source)

    def make_pages(
        self, footers: Sequence[CachedFooter], row_groups: Sequence[tuple[int, int]], kind: FileKind
    ) -> Pages:
        """Make the decoder "pages" of row groups."""
        headers = None if self._cache is None else [cached.page_headers for cached in footers]
        return RowGroupBatch([cached.footer for cached in footers], row_groups, kind.columns, self._files, headers)

    def remember(self, pages: Pages, footers: Sequence[CachedFooter]) -> None:
        """Update the sizes in the cache of files whose entries have grown."""
        for number in pages.grown:
            if self._cache is not None:
                self._cache.keep(self._paths[number], self._identities[number], footers[number])

    def require_unchanged(self) -> None:
        """Raise ConcurrentChangeError if what was read may be of another version."""
        if not self._files.are_unchanged():
            raise self._make_error()

    def release(self) -> None:
        """Note that a batch has been read."""
        with self._lock:
            self._remaining -= 1
            if self._remaining <= 0:
                self._close()

    def close(self) -> None:
        """Close the files, whatever batches have not been read; no more are read after that."""
        with self._lock:
            self._are_open = False
            self._close()

    def _close(self) -> None:
        self._stack.close()
        self._shared.clear()
        self._files.close()
        taken, self._taken = self._taken, 0
        OPEN_FILE_BUDGET.give_back(taken)
