"""Read the filters and statistics of an ORC file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..errors import MalformedOrcError, ParquetBloomError
from ..file.file_columns import find_leaf
from ..metadata.protobuf import read_spans
from ..predicate.pruning_statistics import PruningStatistics
from ..redaction import redacted
from ..storage import Source, open_source, resolve_filesystem
from ..util.messages import count
from .orc_filters import UTC_ZONES, OrcFilter
from .orc_schema import OrcLeaf, read_leaves
from .orc_statistics import read_counts, read_statistics
from .orc_tail import (
    METADATA_STRIPE,
    STRIPE_COLUMN,
    OrcRowGroup,
    OrcTail,
    Stripe,
    list_row_groups,
    read_stripes,
    read_tail,
)
from .row_indexes import FILTER_STREAMS, IndexStreams, list_columns

if TYPE_CHECKING:
    from ..util.given_types import FileSystem


class OrcFile:
    """An ORC file opened for its filters. Use `orc.open`; close it, or use it as a context manager.

    Attributes
    ----------
    source, path : the file.
    stripes, num_rows, leaves, row_groups : its contents; a stripe without a row index is one row group.
    row_index_stride : rows of a row group; 0 where there is no row index.
    compression : name of the codec.
    writer : "java", "c++", "presto", "go", "trino", "cudf" or "unknown N".
    software_version : version of the writer; None if it is not recorded.
    writer_version : ORC's number for the state of the writer, which identifies known bugs.
    calendar : "hybrid", "proleptic" or None.
    """

    def __init__(self, source: Source):
        self.source = source
        self.path = source.name
        try:
            self.tail: OrcTail = read_tail(source)
            footer = self.tail.footer
            self.row_index_stride: int = footer.get("row_index_stride", 0)
            self.stripes: list[Stripe] = read_stripes(footer, self.tail.metadata_start)
            self.row_groups: list[OrcRowGroup] = list_row_groups(self.stripes, self.row_index_stride)
            self.leaves: list[OrcLeaf] = read_leaves(footer.get("types", []))
        except ParquetBloomError as error:
            error.path = error.path or source.name
            raise
        self.num_rows: int = footer.get("num_rows", 0)
        self.compression = self.tail.compression.name
        self.writer = self.tail.writer
        self.software_version = self.tail.software_version
        self.writer_version = self.tail.writer_version
        self.calendar = self.tail.calendar
        self._indexes = IndexStreams(source, self.tail, self.stripes, self.row_index_stride)

    def __repr__(self) -> str:
        counts = f"{count(len(self.stripes), 'stripe')}, {count(len(self.leaves), 'column')}"
        return redacted(f"<OrcFile {self.path!r}: {counts}>")

    @property
    def columns(self) -> list[str]:
        """Return the dotted paths of the leaf columns, in schema order."""
        return [leaf.name for leaf in self.leaves]

    def leaf(self, column: str) -> OrcLeaf:
        """Return the leaf of a name; a list or struct with a single leaf may be given by its path without the leaf.

        Raises
        ------
        UnknownColumnError
        """
        return find_leaf(self.leaves, column, self.path)

    def filters(self, columns: Iterable[str] | None = None) -> Iterator[OrcFilter]:
        """Yield the filters of the file (or of some columns), by stripe, column, kind and row group."""
        leaves = self._select_leaves(columns)
        for stripe in range(len(self.stripes)):
            for leaf in leaves:
                for kind in FILTER_STREAMS:
                    yield from self._indexes.filters([(leaf, stripe)], kind)[0] or []

    def num_filters(self, columns: Iterable[str] | None = None) -> int:
        """Return the number of filters of the file (or of some columns)."""
        return self._indexes.count_filters(self._select_leaves(columns))

    def _select_leaves(self, columns: Iterable[str] | None) -> list[OrcLeaf]:
        if columns is None:
            return self.leaves
        indices = {self.leaf(name).index for name in columns}
        return [leaf for leaf in self.leaves if leaf.index in indices]

    def stripe_statistics(self, leaf: OrcLeaf) -> list[PruningStatistics]:
        """Return the statistics of a column in the file's metadata, one per stripe."""
        unknown = PruningStatistics(leaf.column_type)
        if isinstance(self._metadata, str):
            doubt = f"the statistics of stripes cannot be read: {self._metadata}"
            return [replace(unknown, doubt=doubt)] * len(self.stripes)
        data, spans = self._metadata
        if len(spans) != len(self.stripes):
            return [unknown] * len(self.stripes)
        statistics = []
        for stripe, (start, end) in zip(self.stripes, spans, strict=True):
            try:
                columns = read_spans(data, STRIPE_COLUMN, start, end)
                if leaf.column_id < len(columns):
                    parents = [
                        read_counts(data, *columns[parent].tolist()) if parent < len(columns) else None
                        for parent in leaf.parents
                    ]
                    start, end = columns[leaf.column_id].tolist()
                    statistics.append(read_statistics(data, start, end, leaf, self.tail, stripe.num_rows, parents))
                else:
                    statistics.append(unknown)
            except MalformedOrcError as error:
                statistics.append(replace(unknown, doubt=f"the stripe's statistics cannot be read: {error.problem}"))
        return statistics

    @cached_property
    def _metadata(self) -> tuple[bytes, list[tuple[int, int]]] | str:
        """Return the metadata section and the span of each stripe's statistics in it; or why it cannot be read."""
        try:
            packed = self.source.read_at(self.tail.metadata_start, self.tail.metadata_length)
            data = self.tail.compression.plain(packed)
            return data, [(start, end) for start, end in read_spans(data, METADATA_STRIPE).tolist()]
        except MalformedOrcError as error:
            return error.problem

    def row_group_evidence(
        self, leaves: Sequence[OrcLeaf], stripes: Sequence[int]
    ) -> dict[tuple[int, int], list[PruningStatistics]]:
        """Return the statistics of columns in some stripes: (stripe, column id) -> one entry per row group.

        `filtered` reports whether there is a filter to probe, `doubt` why an existing one cannot be used. Errors in the
        bytes of a filter are only detected when it is read.
        """
        columns = [(leaf, stripe) for stripe in stripes for leaf in leaves]
        statistics = self._indexes.statistics(columns)
        return {(stripe, leaf.column_id): entries for (leaf, stripe), entries in zip(columns, statistics, strict=True)}

    def filters_of(self, leaf: OrcLeaf, stripe: int) -> list[OrcFilter | None]:
        """Return the filters of a column in a stripe, one per row group (the UTF8 kind where there are both)."""
        return self.filters_at([(leaf, stripe)])[0]

    def filters_at(self, columns: Sequence[tuple[OrcLeaf, int]]) -> list[list[OrcFilter | None]]:
        """Return the filters of many (column, stripe) pairs, read at once; see `filters_of`."""
        lists = self._indexes.filters(columns)
        return [
            list(filters) if filters is not None else [None] * self._indexes.count_row_groups(stripe)
            for filters, (_, stripe) in zip(lists, columns, strict=True)
        ]

    def require_readable(self, stripe: int, names: Iterable[str] | None) -> None:
        """Raise if the footer of a stripe, or its lengths of strings and lists, are inconsistent.

        ORC's C++ library checks neither: it would return other bytes as values, or read out of bounds.

        Parameters
        ----------
        names : top-level columns to be read; None for all.

        Raises
        ------
        EncryptedFileError, MalformedOrcError
        """
        problem = self._indexes.find_footer_problem(stripe)
        if not problem:
            columns = list_columns(self.tail.footer.get("types", []), names)
            problem = self._indexes.check_lengths(stripe, columns)
        if problem:
            raise MalformedOrcError(problem, path=self.source.name)

    def seekable(self, stripe: int, names: Iterable[str]) -> bool:
        """Return whether ORC's C++ library can seek to row groups of a stripe to read these flat columns."""
        requested = set(names)
        columns = {leaf.column_id: leaf.kind for leaf in self.leaves if leaf.path[0] in requested}
        return self._indexes.has_all_positions(stripe, {0: "STRUCT"} | columns)

    def is_in_utc(self, stripe: int) -> bool:
        """Return whether a stripe was written in the time zone UTC."""
        return self._indexes.read_timezone(stripe) in UTC_ZONES

    def close(self) -> None:
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(
    path: str | os.PathLike[str],
    filesystem: FileSystem | None = None,
    *,
    storage_options: Mapping[str, object] | None = None,
) -> OrcFile:
    """Open an ORC file of any writer to read its filters and statistics.

    Parameters
    ----------
    path : str or path-like; a local path or a URL of an object store or web server.
    filesystem, storage_options : as in `prune`.

    Raises
    ------
    StorageError
        The file cannot be opened.
    NotOrcError, TruncatedFileError, EncryptedFileError, MalformedOrcError
        The file is not an ORC file with a readable footer.
    ParquetBloomError
        The codec of the footer needs a library that is not installed.

    Examples
    --------
    >>> with parquet_bloom.orc.open("events.orc") as file:  # doctest: +SKIP
    ...     [filter.check([42]).tolist() for filter in file.filters(["user.id"])]
    [[False], [True]]
    """
    source = open_source(path, resolve_filesystem(filesystem, storage_options))
    try:
        return OrcFile(source)
    except BaseException:
        source.close()
        raise
