"""Decode columns of some rows of row groups of an ORC file.

pyarrow reads whole stripes. If few row groups of a stripe are selected, pyorc reads these alone, if it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....errors import UnreadableColumnError
from ....file.pages.sparse import RowsOfGroups
from ....util.arrow_select import take_rows
from ....util.arrow_values import empty_table
from ...model.limits import Limits
from ...model.schemas import reading
from ..row_group_decoder import Window
from . import seek as orc_seeking
from .columns import column_positions, may_overflow, names_to_read, wraps_timestamps
from .data import OrcData

_DECODED_RATIO = 4  # of decoded to stored bytes of a stripe, a guess


class OrcRowGroups:
    """Row groups of an ORC file, as `RowGroups` are those of Parquet files."""

    def __init__(self, data: OrcData, row_groups: Sequence[int]):
        self.numbers = [(0, row_group) for row_group in row_groups]
        self.num_rows: NDArray[np.int64] = np.array([data.num_rows_of(one) for one in row_groups], np.int64)
        self.total_rows = int(self.num_rows.sum())
        self._data = data

    def find_first_row(self, group: int) -> int:
        """Return how many rows the file has before a row group."""
        return self._data.first_row_of(self.numbers[group][1])

    def find_indexed(self, leaves: Sequence[object], least: int) -> list[int]:
        """Return no row groups: statistics of fewer rows are not looked at."""
        return []


class OrcDecoder:
    """Decodes columns of row groups, as `RowGroupDecoder` does those of Parquet files.

    Parameters
    ----------
    data : the file.
    row_groups : their numbers.
    limits : how much is decoded at once; stripes are, however large they are.
    """

    WHOLE = "columns", "stripes of an ORC file"
    cost = (0, 0)  # is counted by the file

    def __init__(self, data: OrcData, row_groups: Sequence[int], limits: Limits):
        self.groups = OrcRowGroups(data, row_groups)
        self.limits = replace(limits, max_bytes=None, is_streamed=False, part_bytes=1 << 62)
        self.ways: list[tuple[str, str]] = []
        self._data = data

    def read(
        self,
        names: Sequence[str] | None,
        schema: pa.Schema,
        rows: RowsOfGroups,
        known: Mapping[str, pa.Array | pa.ChunkedArray],
        window: Window | None = None,
    ) -> pa.Table:
        """Read columns of some rows; see `RowGroupDecoder.read`."""
        if not len(rows) or not len(schema):
            return empty_table(schema)
        known = known if len({*schema.names}) == len(schema) else {}
        rest = [field for field in schema if field.name not in known]
        taken = iter(())
        if rest:
            self.ways = [self.WHOLE]
            every = np.flatnonzero(rows.counts)
            num_rows = self.groups.num_rows[every]
            numbers = [self.groups.numbers[group][1] for group in every.tolist()]
            with reading(self._data):
                tables = [
                    _Stripe(self._data, list(members)).read(pa.schema(rest))
                    for _, members in groupby(numbers, self._data.find_stripe)
                ]
            table = pa.concat_tables(tables)
            positions = rows.rows + np.repeat(np.cumsum(num_rows) - num_rows, rows.counts[every])
            taken = iter(take_rows(table, positions).columns)
        columns = [known[field.name] if field.name in known else next(taken) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def estimate(self, groups: Sequence[int], names: Sequence[str] | None) -> NDArray[np.float64]:
        """Estimate the memory that each of some row groups takes once it is decoded, with all of its stripe."""
        stripes = {self._data.find_stripe(number) for _, number in self.groups.numbers}
        total = sum(self._data.file.stripes[stripe].data_length for stripe in stripes) * _DECODED_RATIO
        return np.full(len(groups), total / len(self.groups.numbers))

    def require_rows(self, groups: Sequence[int], names: Sequence[str] | None) -> None:
        """Do nothing: the numbers of rows are checked as a stripe is read."""

    def forget_streams(self) -> None:
        """Do nothing: there are none."""


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
