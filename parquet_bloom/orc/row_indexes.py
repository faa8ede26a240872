"""The index streams of stripes: statistics and filters of row groups, read together and cached."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ..core.decode.orc_lengths import sum_lengths
from ..errors import EncryptedFileError, MalformedOrcError
from ..metadata.protobuf import UINT, read_message, read_spans
from ..predicate.pruning_statistics import PruningStatistics
from ..storage import Source
from .orc_compression import MAX_FOOTER_BYTES, Compression
from .orc_filters import OrcFilter, find_fault, find_timezone_fault, parse_filter
from .orc_schema import KINDS, OrcLeaf
from .orc_statistics import OTHER_ROWS, Counts, read_counts, read_statistics
from .orc_tail import (
    BLOOM_FILTER,
    BLOOM_FILTER_UTF8,
    DATA,
    DICTIONARY_DATA,
    ENTRY_STATISTICS,
    FILTER_ENTRY,
    INDEX_ENTRY,
    LENGTH,
    PRESENT,
    ROW_INDEX,
    Message,
    OrcTail,
    Stripe,
    StripeFooter,
    count_row_groups,
    read_stripe_footer,
)

SECONDARY = 5  # a kind of stream
_ENTRY = {1: ("positions", UINT, True, None)}
_TEXTS = ("STRING", "VARCHAR", "CHAR")
_BLOBS = ("FLOAT", "DOUBLE", "BINARY", "DECIMAL")  # kinds whose DATA stream has bytes, not runs
_DICTIONARIES = (1, 3)


def count_positions(kind: str, streams: Collection[int], encoding: int, compressed: bool) -> int:
    """Return the minimum number of positions in an entry of a column's row index.

    Source: ORC specification, "Row Index".

    Parameters
    ----------
    kind : kind of the column; "STRUCT" for the rows themselves.
    streams : kinds of the column's data streams.
    encoding : encoding of the column in the stripe's footer.
    compressed : whether a position in a stream has two numbers: the offset of a chunk, and the offset in it.
    """
    offsets = 2 if compressed else 1
    in_dictionary = kind in _TEXTS and encoding in _DICTIONARIES
    blob = kind in _BLOBS or (kind in _TEXTS and not in_dictionary)
    data_count = offsets + (0 if blob else 2 if kind == "BOOLEAN" else 1)
    numbers = {
        PRESENT: offsets + 2,
        DATA: data_count,
        LENGTH: 0 if in_dictionary else offsets + 1,
        SECONDARY: offsets + 1,
    }
    return sum(count for stream, count in numbers.items() if stream in streams)


def has_positions(stream: bytes, row_groups: int, count: int) -> bool:
    """Return whether a row index has an entry for each row group, with at least `count` positions each."""
    try:
        entries = read_spans(stream, INDEX_ENTRY).tolist()
        counts = [len(read_message(stream, _ENTRY, start, end).get("positions", ())) for start, end in entries]
    except MalformedOrcError:
        return False
    return len(counts) == row_groups and min(counts, default=0) >= count


_MAX_BYTES = 1 << 62
_MAX_ITEMS = (1 << 31) - 1  # of all lists of a stripe: a limit of pyarrow
_ITEM_KINDS = (KINDS.index("LIST"), KINDS.index("MAP"))
_SECOND = (2, 3)  # encodings with integers of version 2

# ORC's C++ library does not check lengths: negative or too large ones make it read out of bounds.
# It allocates memory for all strings and items at once. Up to these sizes that is harmless; beyond, the
# streams of the values are decompressed to count their bytes.
_HARMLESS_BYTES, _HARMLESS_ITEMS = 1 << 26, 1 << 23
_USUAL_RATIO = 100  # of compression: more is rare
_MAX_ITEMS_PER_BYTE = 520  # the most that run-length encoding reaches, for booleans


def _find_length_problem(
    source: Source,
    compression: Compression,
    types: Sequence[Message],
    footer: StripeFooter,
    columns: Iterable[int],
) -> str | None:
    """Return why the lengths of a stripe's columns, given by their ids, are invalid; None if they are valid."""
    checked = [column for column in columns if (LENGTH, column) in footer.value_streams]
    streams = source.read_ranges([footer.value_streams[LENGTH, column] for column in checked])
    for column, packed in zip(checked, streams, strict=True):
        encoding = footer.column_encodings.get(column, 0)
        of_items = types[column].get("kind", 0) in _ITEM_KINDS
        kind = DICTIONARY_DATA if encoding in _DICTIONARIES else DATA
        location = footer.value_streams.get((kind, column), (0, 0))
        most = _MAX_ITEMS if of_items else location[1] if compression.name == "none" else _MAX_BYTES
        try:
            total = _sum_lengths(compression.plain(packed), encoding in _SECOND, most)
            if of_items and total > _HARMLESS_ITEMS:
                descendants = {*_list_descendants(types, types[column].get("children", []))}
                locations = [
                    location for (_, column_id), location in footer.value_streams.items() if column_id in descendants
                ]
                num_bytes = max((compression.num_bytes(data) for data in source.read_ranges(locations)), default=total)
                if total > num_bytes * _MAX_ITEMS_PER_BYTE:
                    return f"the lengths in column {column} are invalid: {total} items in {num_bytes} bytes"
            elif not of_items and total > max(_HARMLESS_BYTES, _USUAL_RATIO * location[1]):
                (data,) = source.read_ranges([location])
                if total > (num_bytes := compression.num_bytes(data)):
                    return (
                        f"the lengths in column {column} are invalid: they add up to {total} bytes,"
                        f" the texts have {num_bytes}"
                    )
        except MalformedOrcError as error:
            return f"the lengths in column {column} cannot be read: {error.problem}"
    return None


def _sum_lengths(stream: bytes, is_second: bool, most: int) -> int:
    try:
        return sum_lengths(stream, is_second, most)
    except ValueError as error:
        raise MalformedOrcError(str(error)) from error


def list_columns(types: Sequence[Message], names: Iterable[str] | None) -> list[int]:
    """Return the ids of the columns with these names and of all their descendants; all for None."""
    if names is None:
        return list(range(len(types)))
    requested = set(names)
    root = types[0] if types else {}
    children = zip(root.get("children", []), root.get("names", []), strict=False)
    return _list_descendants(types, [child for child, name in children if name.decode("utf-8", "replace") in requested])


def _list_descendants(types: Sequence[Message], columns: Iterable[int]) -> list[int]:
    """Return these columns and all their descendants."""
    pending, result = list(columns), []
    while pending:
        column = pending.pop()
        result.append(column)
        pending += types[column].get("children", [])
    return result


FILTER_STREAMS = (BLOOM_FILTER_UTF8, BLOOM_FILTER)
"""Kinds of filter streams in order of preference."""

_SHIFTED = "the row index is that of another stride: an entry counts more values than its row group has rows"

ColumnInStripe = tuple[OrcLeaf, int]
"""A column and the number of a stripe."""


class IndexStreams:
    """The index streams of one file.

    Parameters
    ----------
    source, tail, stripes, stride : the file, its tail and stripes, and the number of rows of a row group.
    """

    def __init__(self, source: Source, tail: OrcTail, stripes: Sequence[Stripe], stride: int):
        self._source = source
        self._tail = tail
        self._stripes = stripes
        self._stride = stride
        self._footers: dict[int, StripeFooter | str] = {}
        self._cache: dict[tuple[int, int], list[PruningStatistics]] = {}
        self._valid_lengths: set[tuple[int, int]] = set()  # stripes and columns with valid lengths

    def count_row_groups(self, stripe: int) -> int:
        return count_row_groups(self._stripes[stripe], self._stride)

    def read_timezone(self, stripe: int) -> str:
        """Return the time zone of a stripe's writer; "" if it is unknown."""
        self._read_footers([stripe])
        footer = self._footers[stripe]
        return footer.timezone if isinstance(footer, StripeFooter) else ""

    def find_footer_problem(self, stripe: int) -> str | None:
        """Return why the footer of a stripe cannot be read, or None."""
        self._read_footers([stripe])
        footer = self._footers[stripe]
        return footer if isinstance(footer, str) else None

    def check_lengths(self, stripe: int, columns: Sequence[int]) -> str | None:
        """Return why the lengths of values that a stripe stores for some columns are invalid, or None."""
        footer = self._footers[stripe]
        unchecked = [column for column in columns if (stripe, column) not in self._valid_lengths]
        if isinstance(footer, StripeFooter):
            types = self._tail.footer.get("types", [])
            problem = _find_length_problem(self._source, self._tail.compression, types, footer, unchecked)
            if problem:
                return f"in stripe {stripe} {problem}"
            self._valid_lengths.update((stripe, column) for column in unchecked)
        return None

    def has_all_positions(self, stripe: int, columns: Mapping[int, str]) -> bool:
        """Return whether row indexes have positions for every row group of a stripe.

        Parameters
        ----------
        columns : column id -> kind.
        """
        self._read_footers([stripe])
        footer = self._footers[stripe]
        if not isinstance(footer, StripeFooter):
            return False
        streams = self._read_streams((stripe, ROW_INDEX, column) for column in columns)
        compressed = self._tail.compression.name != "none"
        for column, kind in columns.items():
            stream, encoding = streams.get((stripe, ROW_INDEX, column)), footer.column_encodings.get(column, 0)
            count = count_positions(kind, footer.data_streams.get(column, ()), encoding, compressed)
            if not isinstance(stream, bytes) or not has_positions(stream, self.count_row_groups(stripe), count):
                return False
        return True

    def count_filters(self, leaves: Sequence[OrcLeaf]) -> int:
        """Return the number of filters of some columns, in all stripes and of both kinds."""
        self._read_footers(range(len(self._stripes)))
        footers = [(stripe, footer) for stripe, footer in self._footers.items() if isinstance(footer, StripeFooter)]
        return sum(
            self.count_row_groups(stripe)
            for stripe, footer in footers
            for leaf in leaves
            for kind in FILTER_STREAMS
            if (kind, leaf.column_id) in footer.streams
        )

    def _read_footers(self, stripes: Iterable[int]) -> None:
        unread = set(stripes) - self._footers.keys()
        if not unread:
            return
        unread_stripes = [self._stripes[number] for number in sorted(unread)]
        ranges = [
            (stripe.offset + stripe.index_length + stripe.data_length, stripe.footer_length)
            for stripe in unread_stripes
        ]
        for stripe, packed in zip(unread_stripes, self._source.read_ranges(ranges), strict=True):
            try:
                plain = self._tail.compression.plain(packed, MAX_FOOTER_BYTES)
                self._footers[stripe.number] = read_stripe_footer(plain, stripe)
            except EncryptedFileError as error:
                error.path = self._source.name
                raise
            except MalformedOrcError as error:
                self._footers[stripe.number] = f"the footer of stripe {stripe.number} cannot be read: {error.problem}"

    def _read_streams(
        self, requested: Iterable[tuple[int, int, int]]
    ) -> dict[tuple[int, int, int], bytes | MalformedOrcError]:
        """Read the existing streams among some (stripe, kind, column id): their plain bytes, or the error."""
        keys, ranges = [], []
        for stripe, kind, column in dict.fromkeys(requested):
            footer = self._footers[stripe]
            if isinstance(footer, StripeFooter) and (kind, column) in footer.streams:
                keys.append((stripe, kind, column))
                ranges.append(footer.streams[kind, column])
        streams: dict[tuple[int, int, int], bytes | MalformedOrcError] = {}
        for key, packed in zip(keys, self._source.read_ranges(ranges), strict=True):
            try:
                streams[key] = self._tail.compression.plain(packed)
            except MalformedOrcError as error:
                streams[key] = error
        return streams

    def statistics(self, columns: Sequence[ColumnInStripe]) -> list[list[PruningStatistics]]:
        """Return the statistics of columns in stripes: a list with one entry per row group for each of them."""
        self._read_footers(stripe for _, stripe in columns)
        missing = [(leaf, stripe) for leaf, stripe in columns if (stripe, leaf.column_id) not in self._cache]
        self._cache_statistics(missing, self._read_streams(_list_row_indexes(missing)))
        return [self._cache[stripe, leaf.column_id] for leaf, stripe in columns]

    def _cache_statistics(
        self, columns: Sequence[ColumnInStripe], streams: dict[tuple[int, int, int], bytes | MalformedOrcError]
    ) -> None:
        for leaf, stripe in columns:
            row_indexes = [streams.get(key) for key in _list_row_indexes([(leaf, stripe)])]
            statistics = self._read_statistics(leaf, self._stripes[stripe], *row_indexes)
            self._cache[stripe, leaf.column_id] = self._add_filters(leaf, stripe, statistics)

    def _read_statistics(
        self,
        leaf: OrcLeaf,
        stripe: Stripe,
        stream: bytes | MalformedOrcError | None,
        *of_parents: bytes | MalformedOrcError | None,
    ) -> list[PruningStatistics]:
        """Read the statistics of row groups, given the row index of a column and those of the columns that it is in."""
        count, footer = self.count_row_groups(stripe.number), self._footers[stripe.number]
        unknown = PruningStatistics(leaf.column_type, doubt=footer if isinstance(footer, str) else None)
        if stream is None:
            return [unknown] * count
        try:
            if isinstance(stream, MalformedOrcError):
                raise stream
            entries = read_spans(stream, INDEX_ENTRY).tolist()
            if len(entries) != count:
                raise MalformedOrcError(f"it has {len(entries)} entries for {count} row groups")
            parents = [_read_all_counts(of_parent, count) for of_parent in of_parents]
            statistics = []
            for i, (start, end) in enumerate(entries):
                num_rows = min(self._stride, stripe.num_rows - i * self._stride)
                spans = read_spans(stream, ENTRY_STATISTICS, start, end)
                if len(spans) == 1:
                    start, end = spans[0].tolist()
                    counts = [of_parent[i] for of_parent in parents]
                    statistics.append(read_statistics(stream, start, end, leaf, self._tail, num_rows, counts))
                else:
                    statistics.append(unknown)
            if any(entry.doubt == OTHER_ROWS for entry in statistics):  # all entries may cover other rows
                return [replace(unknown, doubt=_SHIFTED)] * count
            return statistics
        except MalformedOrcError as error:
            return [replace(unknown, doubt=f"the row index cannot be read: {error.problem}")] * count

    def _add_filters(self, leaf: OrcLeaf, stripe: int, statistics: list[PruningStatistics]) -> list[PruningStatistics]:
        """Add to statistics whether there are filters to probe."""
        kind = self._find_kind(leaf, stripe)
        if kind is None:
            return statistics
        fault = self._find_fault(leaf, stripe, kind, statistics)
        footer = self._footers[stripe]
        assert isinstance(footer, StripeFooter)
        result = []
        for entry in statistics:
            doubt = fault or find_timezone_fault(self._tail, leaf, footer.timezone, entry)
            message = entry.doubt or (f"its filter is not used: {doubt}" if doubt else None)
            result.append(replace(entry, filtered=not doubt, doubt=message))
        return result

    def _find_kind(self, leaf: OrcLeaf, stripe: int) -> int | None:
        """Return the preferred kind of filters that a column has in a stripe, or None."""
        footer = self._footers[stripe]
        streams = footer.streams if isinstance(footer, StripeFooter) else {}
        return next((kind for kind in FILTER_STREAMS if (kind, leaf.column_id) in streams), None)

    def _find_fault(self, leaf: OrcLeaf, stripe: int, kind: int, statistics: list[PruningStatistics]) -> str | None:
        """Return why no filter of a kind can be trusted for a column in a stripe with these statistics, or None."""
        footer = self._footers[stripe]
        assert isinstance(footer, StripeFooter)
        fault = find_fault(self._tail, leaf, kind, footer.bloom_encodings.get(leaf.column_id, 0))
        return fault or (_SHIFTED if statistics and statistics[0].doubt == _SHIFTED else None)

    def filters(self, columns: Sequence[ColumnInStripe], kind: int | None = None) -> list[list[OrcFilter] | None]:
        """Return the filters of columns in stripes, one per row group; None where there are none.

        Parameters
        ----------
        kind : the kind of filters; None for the preferred kind that exists.
        """
        self._read_footers(stripe for _, stripe in columns)
        kinds = [kind if kind is not None else self._find_kind(leaf, stripe) for leaf, stripe in columns]
        requested: list[tuple[int, int, int]] = []
        for (leaf, stripe), found_kind in zip(columns, kinds, strict=True):
            if found_kind is not None:
                requested.append((stripe, found_kind, leaf.column_id))
                if (stripe, leaf.column_id) not in self._cache:
                    requested += _list_row_indexes([(leaf, stripe)])
        streams = self._read_streams(requested)
        new_columns = [(leaf, stripe) for leaf, stripe in columns if (stripe, ROW_INDEX, leaf.column_id) in streams]
        self._cache_statistics(new_columns, streams)
        self.statistics([column for column, found_kind in zip(columns, kinds, strict=True) if found_kind is not None])
        return [
            self._make_filters(leaf, stripe, found_kind, streams.get((stripe, found_kind, leaf.column_id)))
            if found_kind is not None
            else None
            for (leaf, stripe), found_kind in zip(columns, kinds, strict=True)
        ]

    def _make_filters(
        self, leaf: OrcLeaf, stripe: int, kind: int, stream: bytes | MalformedOrcError | None
    ) -> list[OrcFilter] | None:
        footer = self._footers[stripe]
        if stream is None or not isinstance(footer, StripeFooter):
            return None
        count, statistics = self.count_row_groups(stripe), self._cache[stripe, leaf.column_id]
        fault = self._find_fault(leaf, stripe, kind, statistics)
        try:
            if isinstance(stream, MalformedOrcError):
                raise stream
            entries = read_spans(stream, FILTER_ENTRY).tolist()
            if len(entries) != count:
                raise MalformedOrcError(f"there are {len(entries)} filters for {count} row groups")
        except MalformedOrcError as error:
            return [OrcFilter(leaf, kind, stripe, i, problem=error.problem, fault=fault) for i in range(count)]
        filters = []
        for i, (start, end) in enumerate(entries):
            bits, functions, problem = parse_filter(stream, start, end, kind)
            timezone_fault = find_timezone_fault(self._tail, leaf, footer.timezone, statistics[i])
            if not problem and not fault and not any(bits) and statistics[i].has_values is not False:
                problem = "no bit is set, yet the row group may hold values"
            filters.append(
                OrcFilter(leaf, kind, stripe, i, bits, functions, problem=problem, fault=fault or timezone_fault)
            )
        return filters


def _list_row_indexes(columns: Iterable[ColumnInStripe]) -> list[tuple[int, int, int]]:
    """Return the row indexes (stripe, kind, column id) with the statistics of columns: each one's own comes first.

    Those of the columns that it is in tell whether its own statistics are about its rows.
    """
    return [(stripe, ROW_INDEX, column) for leaf, stripe in columns for column in (leaf.column_id, *leaf.parents)]


def _read_all_counts(stream: bytes | MalformedOrcError | None, num_row_groups: int) -> list[Counts | None]:
    """Read what a row index counts in each row group; None where it does not say, or cannot be read."""
    unknown: list[Counts | None] = [None] * num_row_groups
    if not isinstance(stream, bytes):
        return unknown
    try:
        entries = read_spans(stream, INDEX_ENTRY).tolist()
        spans = [read_spans(stream, ENTRY_STATISTICS, start, end).tolist() for start, end in entries]
        counts = [read_counts(stream, *of_entry[0]) if len(of_entry) == 1 else None for of_entry in spans]
    except MalformedOrcError:
        return unknown
    return counts if len(counts) == num_row_groups else unknown
