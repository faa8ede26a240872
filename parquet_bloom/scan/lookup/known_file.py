"""Files of which lookups know what a search needs: the rows of one key are read without planning a scan.

That takes a quarter of the time, or less (`tools/bench/get.py`), which is why it stands beside the general way.
Nothing here decides on its own: what is not as usual is left to the general way, which also reports errors.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from ...errors import MalformedFooterError, ParquetBloomError, StorageError
from ...file.cache.memory import MetadataCache, distinct
from ...file.columns import type_of
from ...file.identity import version_token
from ...file.pages.plain import find_page_columns
from ...file.pages.sparse import RowGroupBatch, RowGroups
from ...file.reader import BloomFile
from ...file.statistics import file_statistics, shows_stored
from ...hashing.column_type import may_wrap
from ...lake.reports import FileSelection
from ...metadata.footer import Leaf
from ...predicate.in_array import make_targets
from ...storage import FileIdentity, OpenFiles, open_source
from ..locate.file_kind import STORED_ALIKE
from ..model.limits import Limits
from ..model.row_selection import RowSelection
from ..model.schemas import arrow_schema, reading

MAX_FILES = 1024
"""Of which lookups of a dataset know at a time."""

_FEW_ROWS = 1024  # are taken out of pages, however small the row groups are


class KnownFile:
    """A version of a local file, with what is known of its column chunks; it is opened to be read.

    Attributes
    ----------
    token : the version, as an index has it.
    is_settled : whether every later change of the file will show.
    columns : its flat columns by name.
    """

    @classmethod
    def open(cls, path: str, filesystem: object | None, cache: MetadataCache | None) -> KnownFile | None:
        """Return what is to be known of a file; None for one that is not local."""
        with open_source(path, filesystem) as source, BloomFile(source, cache) as file, reading(file):
            return cls(path, source.identity, file, cache) if isinstance(source.identity, FileIdentity) else None

    def __init__(self, path: str, identity: FileIdentity, file: BloomFile, cache: MetadataCache | None):
        self.is_settled = distinct(identity)
        self._cached, self._footer = file.cached, file.footer
        columns = find_page_columns(file, arrow_schema(file))
        self.columns = {name: one for name, one in columns.items() if not one.leaf.repeated}
        self._changed = {name for name, one in self.columns.items() if not _shows_stored(file, one.leaf)}
        self.token = version_token(identity)
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
        if not self._supports(column) or not all(self._has(field) for field in schema):
            return None
        column_type = type_of(self.columns[column].leaf)
        if column_type.kind not in STORED_ALIKE or column in self._changed:
            return None
        targets = make_targets([literal], column_type, timezone)
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
        """Return the row groups that are selected, and the rows of each; None for all rows of all."""
        if selection is None or selection.row_groups is None or not self._fits(selection.row_counts):
            return self._find_batch(range(self._footer.num_row_groups)), None
        numbers, rows = sorted(selection.row_groups), selection.rows
        return self._find_batch(numbers), [rows.get(number) for number in numbers] if rows else None

    def _fits(self, row_counts: Sequence[int]) -> bool:
        """Return whether an index knows the row groups as they are, if it knows their rows."""
        return not row_counts or np.array_equal(row_counts, self._footer.row_groups["num_rows"])

    def _find_batch(self, row_groups: Collection[int]) -> RowGroupBatch:
        numbers = tuple(row_groups)
        if numbers not in self._batches:
            if len(self._batches) > self._footer.num_row_groups:  # each alone, and all
                self._batches.clear()
            groups = RowGroups([self._footer], [(0, number) for number in numbers])
            headers = [self._cached.page_headers]
            self._batches[numbers] = RowGroupBatch(groups, self.columns, self._files, headers)
        return self._batches[numbers]

    def _supports(self, name: str) -> bool:
        return name in self.columns and self.columns[name].layout is not None

    def _has(self, field: pa.Field) -> bool:
        return self._supports(field.name) and self.columns[field.name].arrow.equals(field.type)


def _shows_stored(file: BloomFile, leaf: Leaf) -> bool:
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
            known = KnownFile.open(path, self._filesystem, self._cache)
        except ParquetBloomError:  # which the general way reports
            return None
        if known is None:
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
