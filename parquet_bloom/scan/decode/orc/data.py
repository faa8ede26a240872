"""Read rows of an ORC file: selected row groups, stripe by stripe, filtered exactly.

pyarrow reads whole stripes. If few row groups of a stripe are selected, pyorc reads these alone, if it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from ....errors import UnreadableColumnError
from ....file.pages.reader import take_rows
from ....file.statistics import ColumnCompatibility
from ....orc import OrcFile
from ....predicate import tree
from ....predicate.pruning import PruningPredicate
from ....predicate.row_filter import row_mask
from ....storage import Source
from ....util.arrow_values import empty_table
from ...model.data_file import FileProjection, MatchingRows, RowFilter
from ...model.limits import ReadLimits
from ...model.plan import ORC
from ...model.row_selection import RowGroupSelections, RowSelection, mask_to_positions
from ...model.schemas import reading
from ...plan.orc import find_distrusted
from . import seek as orc_seeking
from .columns import column_positions, may_overflow, names_to_read, select_columns, wraps_timestamps

if TYPE_CHECKING:
    from typing import Self

    from ....orc.metadata.schema import OrcLeaf


_DECODED_RATIO = 4  # of decoded to stored bytes of a stripe, a guess


class OrcData:
    """`DataFile` of an ORC file."""

    format = ORC
    is_shareable = False  # the last stripe is cached

    def __init__(self, file: OrcFile):
        self.file = file
        self.limits = ReadLimits()
        self._last: tuple[int, tuple[str, ...], pa.Table] | None = None  # stripe, columns, and its rows

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def source(self) -> Source:
        return self.file.source

    @property
    def leaves(self) -> Sequence[OrcLeaf]:
        return self.file.leaves

    @property
    def row_groups(self) -> range:
        return range(len(self.file.row_groups))

    @cached_property
    def reader(self) -> po.ORCFile:
        return po.ORCFile(self.source.counted_arrow_file())

    @cached_property
    def schema(self) -> pa.Schema:
        with reading(self):
            schema = self.reader.schema
            assert schema.names is not None  # decodes them, which fails for names that are not UTF-8
            return schema

    def select_schema(self, columns: Sequence[str]) -> pa.Schema:
        return select_columns(self.schema, columns, self.path)

    def num_rows_of(self, row_group: int) -> int:
        return self.file.row_groups[row_group].num_rows

    def first_row_of(self, row_group: int) -> int:
        return self.file.row_groups[row_group].first_row

    def find_doubts(self, trust: ColumnCompatibility) -> Mapping[str, str]:
        return find_distrusted(self.file, [leaf.name for leaf in self.leaves], trust)

    def read_matches(
        self, selections: RowGroupSelections, row_filter: RowFilter, projection: FileProjection
    ) -> Iterator[MatchingRows]:
        for stripe in self._stripes([row_group for row_group, _ in selections]):  # zones are of Parquet files only
            with reading(self):
                of_stripe = list(stripe.read_matches(row_filter, projection.schema))
            yield from (matches for matches in of_stripe if matches.table.num_rows)

    def split(self, selections: RowGroupSelections, row_filter: RowFilter) -> Iterator[RowGroupSelections]:
        for _, members in groupby(selections, lambda one: self.file.row_groups[one[0]].stripe):
            yield list(members)

    def estimate_step(self, selections: RowGroupSelections) -> int:
        """Estimate the memory that is needed to read row groups of one part of `split`, in bytes."""
        stripes = {self.file.row_groups[row_group].stripe for row_group, _ in selections}
        return sum(self.file.stripes[stripe].data_length for stripe in stripes) * _DECODED_RATIO

    def count_matches(self, selections: RowGroupSelections, row_filter: RowFilter) -> Iterator[tuple[int, int]]:
        for stripe in self._stripes([row_group for row_group, _ in selections]):
            if isinstance(row_filter.predicate, bool):
                for row_group in stripe.row_groups:
                    yield row_group, self.num_rows_of(row_group) if row_filter.predicate else 0
                continue
            with reading(self):
                matches = stripe.find_matches(row_filter)[1]
            yield from ((row_group, len(rows)) for row_group, rows in zip(stripe.row_groups, matches, strict=True))

    def select_rows(
        self, row_group: int, predicate: PruningPredicate | bool, selection: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        return [(0, self.num_rows_of(row_group))]

    def _stripes(self, row_groups: Sequence[int]) -> Iterator[_Stripe]:
        """Group row groups by stripe."""
        for _, members in groupby(row_groups, lambda row_group: self.file.row_groups[row_group].stripe):
            yield _Stripe(self, list(members))

    def stripe(self, number: int, schema: pa.Schema) -> pa.Table:
        """Read some columns of a stripe with pyarrow; the last stripe is cached for row groups read one by one."""
        names = names_to_read(self.schema, schema)
        key = () if names is None else tuple(names)
        if self._last is None or self._last[:2] != (number, key):
            self._last = None  # free its memory before the next one is read
            batch = self.reader.read_stripe(number, names)
            rows, expected = batch.num_rows, self.file.stripes[number].num_rows
            if rows != expected:
                raise UnreadableColumnError(f"cannot be read: stripe {number} has {rows} rows instead of {expected}")
            self._last = number, key, pa.table(batch)
        return self._last[2]

    def close(self) -> None:
        self._last = None
        self.__dict__.pop("reader", None)  # has a descriptor of its own
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class _Stripe:
    """Row groups of one stripe.

    Attributes
    ----------
    row_groups : their numbers in the file, ascending.
    """

    def __init__(self, data: OrcData, row_groups: list[int]):
        self.row_groups = row_groups
        self._data = data
        self._members = [data.file.row_groups[row_group] for row_group in row_groups]
        self._stripe = data.file.stripes[self._members[0].stripe]

    def _ranges(self) -> list[tuple[int, int]]:
        """Return the row groups as (first row in the stripe, number of rows), neighbours merged."""
        ranges: list[tuple[int, int]] = []
        for member in self._members:
            first = member.first_row - self._stripe.first_row
            if ranges and sum(ranges[-1]) == first:
                ranges[-1] = ranges[-1][0], ranges[-1][1] + member.num_rows
            else:
                ranges.append((first, member.num_rows))
        return ranges

    def read(self, schema: pa.Schema) -> pa.Table:
        """Read columns of these row groups, one row group after the other; without columns, no rows."""
        if not len(schema):
            return empty_table(schema)
        ranges = self._ranges()
        if wraps_timestamps():
            self._require_countable(schema)
        names = names_to_read(self._data.schema, schema)
        self._data.file.require_readable(self._stripe.number, None if names is None else schema.names)
        if orc_seeking.is_worthwhile(schema, ranges, self._stripe.num_rows):
            rows = orc_seeking.read(self._data.file, self._stripe.number, ranges, self._data.schema, schema)
            if rows is not None:
                return rows
        stripe = self._data.stripe(self._stripe.number, schema)
        columns = [stripe.column(i) for i in column_positions(stripe.schema, schema)]
        table = pa.Table.from_arrays(columns, schema=schema)
        return pa.concat_tables([table.slice(first, count) for first, count in ranges])

    def _require_countable(self, schema: pa.Schema) -> None:
        """Raise if pyarrow may wrap timestamps."""
        for leaf in self._data.leaves:
            if leaf.path[0] in schema.names and may_overflow(self._data.file, leaf, self._stripe.number):
                problem = "has timestamps that nanoseconds of 64 bits cannot count, or may have; leave the column out"
                raise UnreadableColumnError(problem, column=leaf.name)

    def find_matches(self, row_filter: RowFilter) -> tuple[pa.Table, list[np.ndarray]]:
        """Return the predicate's columns, and for each row group the positions of its matching rows in that table."""
        assert isinstance(row_filter.predicate, PruningPredicate)
        node = row_filter.predicate.node
        schema = select_columns(self._data.schema, sorted(tree.columns(node)))
        if len(schema):
            table = self.read(schema)
        else:  # the file has none of them; a table without columns has no number of rows
            table = pa.table({"": pa.nulls(sum(member.num_rows for member in self._members))})
        rows = mask_to_positions(row_mask(table, node, timezone=row_filter.timezone, probes=row_filter.probes))
        ends = np.cumsum([member.num_rows for member in self._members])
        return table, np.split(rows, np.searchsorted(rows, ends[:-1]))

    def read_matches(self, row_filter: RowFilter, schema: pa.Schema) -> Iterator[MatchingRows]:
        """Read the matching rows of each row group."""
        if row_filter.predicate is True:
            rows = self.read(schema)
            start = 0
            for row_group, member in zip(self.row_groups, self._members, strict=True):
                yield MatchingRows(rows.slice(start, member.num_rows), row_group, range(member.num_rows))
                start += member.num_rows
            return
        table, matches = self.find_matches(row_filter)
        matching = [i for i, rows in enumerate(matches) if len(rows)]
        if not matching:
            return
        remaining = _Stripe(self._data, [self.row_groups[i] for i in matching])  # enough for the other columns
        positions = [table.schema.get_field_index(field.name) for field in schema]  # -1 if there is none, or two
        is_read = [i >= 0 and table.schema.field(i) == field for i, field in zip(positions, schema, strict=True)]
        rest = [field for field, done in zip(schema, is_read, strict=True) if not done]
        others = remaining.read(pa.schema(rest)) if rest else None
        first = np.cumsum([0, *(member.num_rows for member in self._members)])
        start = 0
        for i in matching:
            unread = iter(others.columns if others is not None else ())
            columns = [
                take_rows(table.column(position), matches[i])
                if done
                else take_rows(next(unread), matches[i] - first[i] + start)
                for position, done in zip(positions, is_read, strict=True)
            ]
            table_of_group = pa.Table.from_arrays(columns, schema=schema)
            yield MatchingRows(table_of_group, self.row_groups[i], matches[i] - first[i])
            start += self._members[i].num_rows
