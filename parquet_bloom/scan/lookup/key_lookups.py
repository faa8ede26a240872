"""Rows of keys, and their positions, in the files of one lake or table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import ParquetBloomError
from ...util.threads import stop_at_exit
from ..scan_options import ScanOptions
from ..scan_source import ScanSource, fix_row_schema
from .locate_keys import Locator
from .lookup_session import LookupKeys, LookupSession, get_rows

if TYPE_CHECKING:
    from ...tables.table_snapshot import Table


class KeyLookups:
    """Lookups of keys, as `Dataset` has them, which need no `pyarrow.dataset`: that imports pandas if it is installed.

    Parameters
    ----------
    source : of the files.
    schema : of the rows; see `fix_row_schema`.
    """

    def __init__(self, source: ScanSource, schema: pa.Schema):
        self.source, self.schema = source, schema
        is_table = source.table is not None or source.table_schema is not None  # the latter of an index over one
        plans_anew = is_table or source.cuts_fractions or (source.index is None and source.paths is not None)
        self.session = None if plans_anew else LookupSession(source)

    @classmethod
    def open(cls, source: ScanSource) -> KeyLookups:
        """Open the files of a source, whose schema is read now."""
        return cls(*fix_row_schema(source))

    @property
    def files(self) -> list[str]:
        """The files as they are listed now."""
        return [entry.path for entry in self.source.list_files().entries]

    @property
    def table(self) -> Table | None:
        """The Delta or Iceberg table whose files these are; None for other files."""
        return self.source.find_table()

    def get(
        self,
        column: str | Sequence[str],
        keys: Any,
        columns: Sequence[str] | None = None,
        *,
        timezone: str = "UTC",
        threads: int | None = None,
    ) -> pa.Table:
        """Read the rows with one key or with many; see `Dataset.get`."""
        parsed = LookupKeys.parse(column, keys)
        return get_rows(self.source, self.schema, self.session, parsed, columns, ScanOptions(timezone, threads=threads))

    def locate_batches(
        self,
        column: str | Sequence[str],
        keys: Any,
        *,
        timezone: str = "UTC",
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> pa.RecordBatchReader:
        """Find positions, as a stream; see `Dataset.locate_batches`."""
        locator = self.make_locator(column, timezone, threads, progress)
        return pa.RecordBatchReader.from_batches(locator.schema, stop_at_exit(locator.read_batches(keys)))

    def make_locator(
        self,
        column: str | Sequence[str],
        timezone: str,
        threads: int | None,
        progress: Callable[[int, int], None] | None,
    ) -> Locator:
        """Return what finds the positions of keys in a column, or in several."""
        if threads is not None and threads < 1:
            raise ParquetBloomError(f"threads must be at least 1, got {threads}")
        options = ScanOptions(timezone, threads=threads)
        return Locator(self.source, self.schema, self.session, column, options, progress)
