"""Write the new files, verify their filters, and delete those that are not committed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from ...errors import BrokenFilterError, StorageError
from ...file.many import Progress
from ...file.reader import BloomFile
from ...file.verify import verify_parquet
from ...file.write.embed import embed_in_table
from ...file.write.options import FilterOptions
from ...storage import stat_files
from ...storage.folder.folder import Folder
from .columns import FilterColumns
from .target import Exchange, LiveFile


class NewFiles:
    """The new files of a table, as a context manager: those that are not kept are deleted on leaving it."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._kept: set[str] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete(self._paths - self._kept)

    def write(
        self,
        old: LiveFile,
        path: str,
        columns: FilterColumns,
        *,
        dry_run: bool,
        progress: Progress | None = None,
        threads: int | None = None,
    ) -> Exchange | None:
        """Write a file with filters and verify it; return None if there was nothing to add.

        Raises
        ------
        ParquetBloomError
            The file cannot get filters, or the new one has a filter that denies a value.
        """
        with self._lock:
            self._paths.add(path)  # before there is a file, as an interrupt may follow its creation
        names: list[str] = []

        def choose(file: BloomFile) -> dict[str, FilterOptions]:
            chosen = columns.choose(file, old.size)
            names.extend(chosen)
            return chosen

        report = embed_in_table(old.path, path, choose, dry_run=dry_run, progress=progress, threads=threads)
        if not report.filters or not (dry_run or report.changed):
            return None
        if not dry_run:
            _verify(path, old.path, names, report.num_filters + report.kept)
        return Exchange(old, path, report.new_size, report.num_filters)

    def keep(self, exchanges: Iterable[Exchange]) -> None:
        """Do not delete files on leaving the context, as they are committed, or may be."""
        self._kept.update(exchange.path for exchange in exchanges)

    def release(self, exchanges: Iterable[Exchange]) -> None:
        """Take `keep` back: the files are not committed."""
        self._kept.difference_update(exchange.path for exchange in exchanges)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete uncommitted files now, as far as that is possible."""
        for path in sorted(paths):
            folder, name = os.path.split(path)
            with suppress(StorageError):  # a vacuum deletes it
                Folder(folder).delete([name, f".{name}.crc"])
                self._paths.discard(path)


def find_missing(exchanges: Sequence[Exchange]) -> set[str]:
    """Return the new files that are gone, or are not as they were written: an unlucky vacuum deletes them."""
    found = stat_files([exchange.path for exchange in exchanges])
    sizes = [None if source is None else source.size for source in found]
    return {exchange.path for exchange, size in zip(exchanges, sizes, strict=True) if size != exchange.size}


def _verify(path: str, old: str, names: Sequence[str], num_filters: int) -> None:
    """Raise unless a new file has at least so many filters and none of them denies a value.

    deltalake's `delete` and `update` ask filters, so that one that denies a value would leave rows as they are.
    """
    verified = verify_parquet(path, data=True, columns=names)
    if verified.problems:
        chunk = verified.problems[0]
        problem = f"the new file was not committed: its filter is wrong: {chunk.problem}"
        raise BrokenFilterError(problem, path=old, row_group=chunk.row_group, column=chunk.column)
    if len(verified.chunks) < num_filters:
        raise BrokenFilterError("the new file was not committed: it lacks filters that were written", path=old)
