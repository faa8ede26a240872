"""Sources of files as other processes get them, each of which opens some of the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import pyarrow as pa

from ..file.metadata_cache import SHARED_CACHE
from ..redaction import shown_redacted
from ..storage import Entry, is_url, resolve_filesystem
from ..tables.table_snapshot import ReadTable, TableSnapshot
from .lookup.key_chunks import iterate_chunks
from .lookup.locate_keys import INDEX_KEYS
from .lookup.lookup_session import LookupSession
from .model.scan_plan import SourceListing
from .scan_source import ScanSource

Files = Sequence[str] | TableSnapshot
"""The files of a task: their paths, or the part of a table that has them."""


@shown_redacted
@dataclass(frozen=True)
class SentSource:
    """A source of files as tasks get it, each of which opens some of the files.

    Attributes
    ----------
    source : without its files.
    storage_options : of the files' store.
    """

    source: ScanSource
    storage_options: Mapping[str, object] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, source: ScanSource, listing: SourceListing) -> SentSource:
        """Return the source of listed files, whose schema is fixed."""
        settings = source.storage_options
        sent = replace(source, filesystem=None, storage_options=None, index=None, cache=None, table=None, paths=None)
        if listing.table is None:
            return cls(sent, settings)
        return cls(replace(sent, partitioning=None), settings or listing.table.storage_options)

    def open(self, files: Files) -> ScanSource:
        """Return the source of some of the files."""
        source = replace(
            self.source,
            filesystem=resolve_filesystem(None, self.storage_options),
            storage_options=self.storage_options,
            cache=SHARED_CACHE,
        )
        if isinstance(files, TableSnapshot):
            return replace(source, paths=None, table=ReadTable(files))
        # a PurePath is never taken for a pattern
        return replace(source, paths=[path if is_url(path) else PurePath(path) for path in files])


def find_candidates(
    source: ScanSource, listing: SourceListing, column: str | Sequence[str], keys: pa.Table | None
) -> list[Entry]:
    """Return the listed files that may have a key by the source's index; all of them if it has none, or cannot say.

    Of a table they are always all.

    Parameters
    ----------
    keys : None if they are not known here.
    """
    entries = listing.entries
    if source.index is None or listing.table is not None or keys is None or not 0 < keys.num_rows <= INDEX_KEYS:
        return entries
    (chunk,) = iterate_chunks(column, keys, INDEX_KEYS)
    with LookupSession(source).begin(refresh=True) as lookup:
        candidates = lookup.find_files(chunk.to_keys(), "UTC")
    if candidates is None:
        return entries
    by_path = {entry.path: entry for entry in entries}
    return [by_path.get(path) or Entry(path) for path in candidates]
