"""The index streams of stripes: statistics and filters of row groups, read together and kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..errors import EncryptedFileError, MalformedOrcError
from ..metadata.protobuf import read_spans
from ..predicate.statistics import PruningStatistics
from ..storage import Source
from .filters.filter import OrcFilter, parse_filter
from .filters.writer_bugs import find_fault, find_timezone_fault
from .metadata.compression import MAX_FOOTER_BYTES
from .metadata.messages import ENTRY_STATISTICS, FILTER_ENTRY, INDEX_ENTRY
from .metadata.row_positions import count_positions, has_positions
from .metadata.schema import OrcLeaf
from .metadata.statistics import OTHER_ROWS, read_statistics
from .metadata.stripes import (
    BLOOM_FILTER,
    BLOOM_FILTER_UTF8,
    ROW_INDEX,
    Stripe,
    StripeFooter,
    count_row_groups,
    read_stripe_footer,
)
from .metadata.tail import Tail
from .metadata.validate_lengths import find_length_problem

FILTER_STREAMS = (BLOOM_FILTER_UTF8, BLOOM_FILTER)
"""Kinds of filters, the better first."""

_SHIFTED = "the row index is that of another stride: an entry counts more values than its row group has rows"

ColumnInStripe = tuple[OrcLeaf, int]
"""A column, in a stripe."""


class IndexStreams:
    """The index streams of one file.

    Parameters
    ----------
    source, tail, stripes, stride : the file, what stands at its end, and rows of a row group.
    """

    def __init__(self, source: Source, tail: Tail, stripes: Sequence[Stripe], stride: int):
        self._source = source
        self._tail = tail
        self._stripes = stripes
        self._stride = stride
        self._footers: dict[int, StripeFooter | str] = {}
        self._known: dict[tuple[int, int], list[PruningStatistics]] = {}
        self._sound: set[tuple[int, int]] = set()  # stripes and columns whose lengths can be

    def count_row_groups(self, stripe: int) -> int:
        """How many row groups a stripe has."""
        return count_row_groups(self._stripes[stripe], self._stride)

    def timezone(self, stripe: int) -> str:
        """The zone of a stripe's writer; "" if that cannot be told."""
        self._read_footers([stripe])
        footer = self._footers[stripe]
        return footer.timezone if isinstance(footer, StripeFooter) else ""

    def problem(self, stripe: int) -> str | None:
        """Why the footer of a stripe cannot be read, or None."""
        self._read_footers([stripe])
        footer = self._footers[stripe]
        return footer if isinstance(footer, str) else None

    def lengths_problem(self, stripe: int, columns: Sequence[int]) -> str | None:
        """Why values of columns, by their numbers, cannot be as long as a stripe says; None if they can."""
        footer = self._footers[stripe]
        left = [column for column in columns if (stripe, column) not in self._sound]
        if isinstance(footer, StripeFooter):
            types = self._tail.footer.get("types", [])
            found = find_length_problem(self._source, self._tail.compression, types, footer, left)
            if found:
                return f"in stripe {stripe} {found}"
            self._sound.update((stripe, column) for column in left)
        return None

    def seekable(self, stripe: int, columns: Mapping[int, str]) -> bool:
        """Whether row indexes lead to every row group of a stripe, in columns by their numbers and kinds."""
        self._read_footers([stripe])
        footer = self._footers[stripe]
        if not isinstance(footer, StripeFooter):
            return False
        streams = self._streams((stripe, ROW_INDEX, column) for column in columns)
        compressed = self._tail.compression.name != "none"
        for column, kind in columns.items():
            stream, encoding = streams.get((stripe, ROW_INDEX, column)), footer.column_encodings.get(column, 0)
            count = count_positions(kind, footer.data_streams.get(column, ()), encoding, compressed)
            if not isinstance(stream, bytes) or not has_positions(stream, self.count_row_groups(stripe), count):
                return False
        return True

    def num_filters(self, leaves: Sequence[OrcLeaf]) -> int:
        """How many filters columns have, in all stripes, of both kinds."""
        self._read_footers(range(len(self._stripes)))
        footers = [(number, one) for number, one in self._footers.items() if isinstance(one, StripeFooter)]
        return sum(
            self.count_row_groups(number)
            for number, footer in footers
            for leaf in leaves
            for kind in FILTER_STREAMS
            if (kind, leaf.column_id) in footer.streams
        )

    def _read_footers(self, stripes: Iterable[int]) -> None:
        unread = set(stripes) - self._footers.keys()
        if not unread:
            return
        wanted = [self._stripes[number] for number in sorted(unread)]
        ranges = [(one.offset + one.index_length + one.data_length, one.footer_length) for one in wanted]
        for stripe, packed in zip(wanted, self._source.read_ranges(ranges), strict=True):
            try:
                plain = self._tail.compression.plain(packed, MAX_FOOTER_BYTES)
                self._footers[stripe.number] = read_stripe_footer(plain, stripe)
            except EncryptedFileError as error:
                error.path = self._source.name
                raise
            except MalformedOrcError as error:
                self._footers[stripe.number] = f"the footer of stripe {stripe.number} cannot be read: {error.problem}"

    def _streams(self, wanted: Iterable[tuple[int, int, int]]) -> dict[tuple[int, int, int], bytes | MalformedOrcError]:
        """The plain bytes of streams that there are, by (stripe, kind, column id), or what is wrong with them."""
        keys, ranges = [], []
        for stripe, kind, column in dict.fromkeys(wanted):
            footer = self._footers[stripe]
            if isinstance(footer, StripeFooter) and (kind, column) in footer.streams:
                keys.append((stripe, kind, column))
                ranges.append(footer.streams[kind, column])
        found: dict[tuple[int, int, int], bytes | MalformedOrcError] = {}
        for key, packed in zip(keys, self._source.read_ranges(ranges), strict=True):
            try:
                found[key] = self._tail.compression.plain(packed)
            except MalformedOrcError as error:
                found[key] = error
        return found

    def evidence(self, places: Sequence[ColumnInStripe]) -> list[list[PruningStatistics]]:
        """What is known of columns in each row group of stripes, a list for each place."""
        self._read_footers(stripe for _, stripe in places)
        missing = [(leaf, stripe) for leaf, stripe in places if (stripe, leaf.column_id) not in self._known]
        self._learn(missing, self._streams((stripe, ROW_INDEX, leaf.column_id) for leaf, stripe in missing))
        return [self._known[stripe, leaf.column_id] for leaf, stripe in places]

    def _learn(
        self, places: Sequence[ColumnInStripe], streams: dict[tuple[int, int, int], bytes | MalformedOrcError]
    ) -> None:
        for leaf, stripe in places:
            known = self._statistics(leaf, self._stripes[stripe], streams.get((stripe, ROW_INDEX, leaf.column_id)))
            self._known[stripe, leaf.column_id] = self._with_filters(leaf, stripe, known)

    def _statistics(
        self, leaf: OrcLeaf, stripe: Stripe, stream: bytes | MalformedOrcError | None
    ) -> list[PruningStatistics]:
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
            found = []
            for number, (start, end) in enumerate(entries):
                num_rows = min(self._stride, stripe.num_rows - number * self._stride)
                spans = read_spans(stream, ENTRY_STATISTICS, start, end)
                if len(spans) == 1:
                    start, end = spans[0].tolist()
                    found.append(read_statistics(stream, start, end, leaf, self._tail, num_rows))
                else:
                    found.append(unknown)
            if any(one.doubt == OTHER_ROWS for one in found):  # so all entries may begin elsewhere
                return [replace(unknown, doubt=_SHIFTED)] * count
            return found
        except MalformedOrcError as error:
            return [replace(unknown, doubt=f"the row index cannot be read: {error.problem}")] * count

    def _with_filters(self, leaf: OrcLeaf, stripe: int, known: list[PruningStatistics]) -> list[PruningStatistics]:
        """Evidence, and whether there are filters to ask."""
        kind = self._filters_there(leaf, stripe)
        if kind is None:
            return known
        fault = self._fault(leaf, stripe, kind, known)
        footer = self._footers[stripe]
        assert isinstance(footer, StripeFooter)
        found = []
        for one in known:
            doubt = fault or find_timezone_fault(self._tail, leaf, footer.timezone, one)
            told = one.doubt or (f"its filter is not used: {doubt}" if doubt else None)
            found.append(replace(one, filtered=not doubt, doubt=told))
        return found

    def _filters_there(self, leaf: OrcLeaf, stripe: int) -> int | None:
        """The best kind of filters that a column has in a stripe."""
        footer = self._footers[stripe]
        streams = footer.streams if isinstance(footer, StripeFooter) else {}
        return next((kind for kind in FILTER_STREAMS if (kind, leaf.column_id) in streams), None)

    def _fault(self, leaf: OrcLeaf, stripe: int, kind: int, known: list[PruningStatistics]) -> str | None:
        """What is wrong with all filters of a kind that a column has in a stripe, of whose statistics this is known."""
        footer = self._footers[stripe]
        assert isinstance(footer, StripeFooter)
        fault = find_fault(self._tail, leaf, kind, footer.bloom_encodings.get(leaf.column_id, 0))
        return fault or (_SHIFTED if known and known[0].doubt == _SHIFTED else None)

    def filters(self, places: Sequence[ColumnInStripe], kind: int | None = None) -> list[list[OrcFilter] | None]:
        """The filters of columns in stripes, one a row group; None where there are none.

        Parameters
        ----------
        kind : of the filters; None for the best that there is at each place.
        """
        self._read_footers(stripe for _, stripe in places)
        kinds = [kind if kind is not None else self._filters_there(leaf, stripe) for leaf, stripe in places]
        wanted = [
            (stripe, each, leaf.column_id)
            for (leaf, stripe), found in zip(places, kinds, strict=True)
            if found is not None
            for each in (found, ROW_INDEX)
            if each != ROW_INDEX or (stripe, leaf.column_id) not in self._known
        ]
        streams = self._streams(wanted)
        unseen = [(leaf, stripe) for leaf, stripe in places if (stripe, ROW_INDEX, leaf.column_id) in streams]
        self._learn(unseen, streams)
        self.evidence([place for place, found in zip(places, kinds, strict=True) if found is not None])
        return [
            self._filters(leaf, stripe, found, streams.get((stripe, found, leaf.column_id)))
            if found is not None
            else None
            for (leaf, stripe), found in zip(places, kinds, strict=True)
        ]

    def _filters(
        self, leaf: OrcLeaf, stripe: int, kind: int, stream: bytes | MalformedOrcError | None
    ) -> list[OrcFilter] | None:
        footer = self._footers[stripe]
        if stream is None or not isinstance(footer, StripeFooter):
            return None
        count, known = self.count_row_groups(stripe), self._known[stripe, leaf.column_id]
        fault = self._fault(leaf, stripe, kind, known)
        try:
            if isinstance(stream, MalformedOrcError):
                raise stream
            entries = read_spans(stream, FILTER_ENTRY).tolist()
            if len(entries) != count:
                raise MalformedOrcError(f"there are {len(entries)} filters for {count} row groups")
        except MalformedOrcError as error:
            return [OrcFilter(leaf, kind, stripe, i, problem=error.problem, fault=fault) for i in range(count)]
        found = []
        for number, (start, end) in enumerate(entries):
            bits, functions, problem = parse_filter(stream, start, end, kind)
            of_values = find_timezone_fault(self._tail, leaf, footer.timezone, known[number])
            if not problem and not fault and not any(bits) and known[number].has_values is not False:
                problem = "no bit is set, yet the row group may hold values"
            found.append(
                OrcFilter(leaf, kind, stripe, number, bits, functions, problem=problem, fault=fault or of_values)
            )
        return found
