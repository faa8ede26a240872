"""Files of which lookups know what a search needs: the rows of one key are read without planning a scan.

That takes a quarter of the time, or less (`tools/bench/get.py`: "get, open index"), which is why it stands beside the
general way. With the plan left out alone, but rows located and read by a `RowBatch`, a lookup takes 1.3 times the CPU
that it takes here, and twice that by zones.

Nothing here decides on its own: what is not as usual is left to the general way, which also reports errors.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from ...errors import MalformedFooterError, ParquetBloomError, StorageError
from ...file.bloom_file import BloomFile
from ...file.column_statistics import file_statistics, shows_stored
from ...file.file_columns import type_of
from ...file.identity import version_token
from ...file.metadata_cache import MetadataCache, distinct
from ...file.pages.page_columns import PageColumn, find_page_columns
from ...file.pages.row_group_batch import RowGroupBatch, RowGroups
from ...hashing.column_type import may_wrap
from ...lake.index_reports import FileSelection
from ...metadata.footer import SchemaLeaf
from ...predicate.in_array import make_targets
from ...storage import FileIdentity, OpenFiles, open_source
from ..locate.file_kind import STORED_ALIKE
from ..model.file_schemas import arrow_schema, reading
from ..model.row_selection import RowSelection
from ..scan_options import Limits

MAX_FILES = 1024
"""Of which lookups of a dataset know at a time."""

_FEW_ROWS = 1024  # are taken out of pages, however small the row groups are


class KnownFile:
    """A version of a local file, with what is known of its column chunks; it is opened to be read.

    Attributes
    ----------
    token : the version, as an index has it.
    is_settled : whether every later change of the file will show.
    """

    def __init__(self, path: str, identity: FileIdentity, file: BloomFile, cache: MetadataCache | None):
        self.token, self.is_settled = version_token(identity), distinct(identity)
        self._cached, self._footer = file.cached, file.footer
        self._columns: dict[str, PageColumn] = {}  # flat ones whose rows can be taken
        self._searched: set[str] = set()  # of these, those of which stored bytes decide what is equal
        for name, column in find_page_columns(file, arrow_schema(file)).items():
            if not column.leaf.repeated and column.layout is not None:
                self._columns[name] = column
                if type_of(column.leaf).kind in STORED_ALIKE and _shows_stored(file, column.leaf):
                    self._searched.add(name)
        self._files = OpenFiles([path], [identity])
        self._batches: dict[tuple[int, ...], RowGroupBatch] = {}
        self._remember = partial(cache.keep, path, identity) if cache is not None else None
        self._lock = threading.Lock()  # a batch is not for several threads at once

    def read(
        self, selection: FileSelection | None, column: str, literal: object, timezone: str, schema: pa.Schema
    ) -> pa.Table | None:
        """Read the rows with one key.

        Parameters
        ----------
        selection : the row groups and rows that may have it, by an index; None for all.
        schema : of the result.

        Returns
        -------
        None if the rows have to be read in the general way, or this is no longer the version at its path.
        """
        if column not in self._searched:
            return None
        for field in schema:
            if field.name not in self._columns or not self._columns[field.name].arrow.equals(field.type):
                return None
        targets = make_targets([literal], type_of(self._columns[column].leaf), timezone)
        if targets is None:
            return None
        with self._lock:
            try:
                if not self._files.open():
                    return None
                batch, row_selections = self._select(selection)
                most = max(batch.groups.total_rows // Limits.few_of, _FEW_ROWS)
                result = batch.search(column, targets, most, row_selections)
                if result is None:
                    return None
                rows, values = result
                arrays = {**batch.read([name for name in schema.names if name != column], rows)}
                if values is not None and column in schema.names:
                    arrays[column] = values
                if len(arrays) < len(schema) or not self._files.are_unchanged():
                    return None
                if batch.grown and self._remember is not None:
                    self._remember(self._cached)
                    batch.grown.clear()
            except (MalformedFooterError, StorageError):  # which the general way reads, or reports
                return None
            finally:
                self._files.close()
        return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)

    def is_current(self) -> bool:
        """Return whether this version is at its path."""
        with self._lock:
            try:
                return self._files.open()
            finally:
                self._files.close()

    def _select(self, selection: FileSelection | None) -> tuple[RowGroupBatch, Sequence[RowSelection | None] | None]:
        """Return the selected row groups, and the rows of each; None for all rows of all."""
        footer, selections = self._footer, None
        numbers: tuple[int, ...] = tuple(range(footer.num_row_groups))
        if selection is not None and selection.row_groups is not None:
            counts, rows = selection.row_counts, selection.rows
            # If the index knows the row groups' numbers of rows, they are those of the file, or these are other ones.
            if not counts or np.array_equal(counts, footer.row_groups["num_rows"]):
                numbers = tuple(sorted(selection.row_groups))
                selections = [rows.get(number) for number in numbers] if rows else None
        if numbers not in self._batches:
            if len(self._batches) > footer.num_row_groups:  # each alone, and all
                self._batches.clear()
            groups, headers = RowGroups([footer], [(0, number) for number in numbers]), [self._cached.page_headers]
            self._batches[numbers] = RowGroupBatch(groups, self._columns, self._files, headers)
        return self._batches[numbers], selections


def _shows_stored(file: BloomFile, leaf: SchemaLeaf) -> bool:
    """Return whether all values of a column are known to be shown as they are stored."""
    if not may_wrap(type_of(leaf)):
        return True
    file_statistics(file, [leaf.name])
    return shows_stored(file.cached, leaf, file.row_groups)


class KnownFiles:
    """The files that were looked up last. Thread-safe.

    Parameters
    ----------
    filesystem : the local one.
    cache : of footers.
    """

    def __init__(self, filesystem: object | None, cache: MetadataCache | None):
        self._filesystem = filesystem
        self._cache = cache
        self._files: OrderedDict[str, KnownFile] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, path: str, token: bytes | None) -> KnownFile | None:
        """Return a version of a file; None if there is another one, or it is unusual.

        Parameters
        ----------
        token : the version that an index has; None for the one that is there.
        """
        with self._lock:
            known = self._files.get(path)
            if known is not None and (known.is_current() if token is None else known.token == token):
                self._files.move_to_end(path)
                return known
        try:
            with open_source(path, self._filesystem) as source, BloomFile(source, self._cache) as file, reading(file):
                if not isinstance(source.identity, FileIdentity):
                    return None
                known = KnownFile(path, source.identity, file, self._cache)
        except ParquetBloomError:  # which the general way reports
            return None
        if token is not None and known.token != token:
            return None
        if token is None and not known.is_settled:  # the same times may be of other contents at the next call
            return known
        with self._lock:
            self._files[path] = known
            if len(self._files) > MAX_FILES:
                self._files.popitem(last=False)
        return known
