"""The rows of an ORC file: surviving row groups, stripe by stripe, filtered exactly.

pyarrow reads stripes whole. Where few row groups of a stripe are wanted, pyorc reads these alone, if it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from ...errors import UnreadableColumnError
from ...file.pages.reader import take_rows
from ...orc import OrcFile
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import row_mask
from ...storage import Source
from ..model.data_file import FileProjection, RowFilter, RowGroupSelections, RowSelection
from ..model.decision import ORC
from ..model.schemas import reading
from . import orc_seek as orc_seeking
from .orc_columns import names_within, picked, positions
from .orc_timestamps import out_of_range, wraps
from .row_group import true_rows

if TYPE_CHECKING:
    from typing import Self

    from ...orc.metadata.schema import OrcLeaf


class OrcData:
    """`DataFile` of an ORC file."""

    format = ORC

    def __init__(self, file: OrcFile):
        self.file = file
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
        return po.ORCFile(self.source.arrow_file())

    @cached_property
    def schema(self) -> pa.Schema:
        with reading(self):
            schema = self.reader.schema
            assert schema.names is not None  # decodes them, which fails for what is no text
            return schema

    def chosen(self, columns: Sequence[str]) -> pa.Schema:
        return picked(self.schema, columns, self.path)

    def num_rows_of(self, row_group: int) -> int:
        return self.file.row_groups[row_group].num_rows

    def inexact(self) -> set[str]:
        return set()  # of timestamps that nanoseconds cannot count, reading is an error

    def read(self, row_group: int, columns: Sequence[str], zoned: RowSelection | None = None) -> pa.Table:
        schema = self.chosen([name for name in columns if name in self.schema.names])
        with reading(self):
            (stripe,) = self._stripes([row_group])
            return stripe.read(schema)

    def matching(self, left: RowGroupSelections, question: RowFilter, wanted: FileProjection) -> Iterator[pa.Table]:
        for stripe in self._stripes([row_group for row_group, _ in left]):  # zones know Parquet files only
            with reading(self):
                tables = list(stripe.matching(question, wanted.schema))
            yield from (table for table in tables if table.num_rows)

    def counts(self, row_groups: Sequence[int], question: RowFilter) -> Iterator[tuple[int, int]]:
        for stripe in self._stripes(row_groups):
            if isinstance(question.decider, bool):
                for row_group in stripe.row_groups:
                    yield row_group, self.num_rows_of(row_group) if question.decider else 0
                continue
            with reading(self):
                chosen = stripe.chosen(question)[1]
            yield from ((row_group, len(rows)) for row_group, rows in zip(stripe.row_groups, chosen, strict=True))

    def rows_left(
        self, row_group: int, decider: PruningPredicate | bool, zoned: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        return [(0, self.num_rows_of(row_group))]

    def _stripes(self, row_groups: Sequence[int]) -> Iterator[_Stripe]:
        """Row groups, those of a stripe together."""
        for _, members in groupby(row_groups, lambda row_group: self.file.row_groups[row_group].stripe):
            yield _Stripe(self, list(members))

    def stripe(self, number: int, schema: pa.Schema) -> pa.Table:
        """Some columns of a stripe, by pyarrow. The last one is kept: its row groups may be asked for one by one."""
        names = names_within(self.schema, schema)
        key = () if names is None else tuple(names)
        if self._last is None or self._last[:2] != (number, key):
            self._last = None  # before another one takes its room
            batch = self.reader.read_stripe(number, names)
            rows, expected = batch.num_rows, self.file.stripes[number].num_rows
            if rows != expected:
                raise UnreadableColumnError(f"cannot be read: stripe {number} has {rows} rows instead of {expected}")
            self._last = number, key, pa.table(batch)
        return self._last[2]

    def close(self) -> None:
        self._last = None
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class _Stripe:
    """Row groups of one stripe.

    Attributes
    ----------
    row_groups : which, by their numbers in the file, ascending.
    """

    def __init__(self, data: OrcData, row_groups: list[int]):
        self.row_groups = row_groups
        self._data = data
        self._places = [data.file.row_groups[row_group] for row_group in row_groups]
        self._stripe = data.file.stripes[self._places[0].stripe]

    def _ranges(self) -> list[tuple[int, int]]:
        """First row in the stripe, and number of rows; neighbours together."""
        ranges: list[tuple[int, int]] = []
        for place in self._places:
            first = place.first_row - self._stripe.first_row
            if ranges and sum(ranges[-1]) == first:
                ranges[-1] = ranges[-1][0], ranges[-1][1] + place.num_rows
            else:
                ranges.append((first, place.num_rows))
        return ranges

    def read(self, schema: pa.Schema) -> pa.Table:
        """Columns of these row groups, one row group behind the other; without columns, no rows."""
        if not len(schema):
            return schema.empty_table()
        ranges = self._ranges()
        if wraps():
            self._require_countable(schema)
        within = names_within(self._data.schema, schema)
        self._data.file.require_readable(self._stripe.number, None if within is None else schema.names)
        if orc_seeking.pays(schema, ranges, self._stripe.num_rows):
            found = orc_seeking.read(self._data.file, self._stripe.number, ranges, self._data.schema, schema)
            if found is not None:
                return found
        whole = self._data.stripe(self._stripe.number, schema)
        columns = [whole.column(place) for place in positions(whole.schema, schema)]
        table = pa.Table.from_arrays(columns, schema=schema)
        return pa.concat_tables([table.slice(first, count) for first, count in ranges])

    def _require_countable(self, schema: pa.Schema) -> None:
        """Raise if pyarrow may wrap timestamps."""
        for leaf in self._data.leaves:
            if leaf.path[0] in schema.names and out_of_range(self._data.file, leaf, self._stripe.number):
                problem = "has timestamps that nanoseconds of 64 bits cannot count, or may have; leave the column out"
                raise UnreadableColumnError(problem, column=leaf.name)

    def chosen(self, question: RowFilter) -> tuple[pa.Table, list[np.ndarray]]:
        """The predicate's columns; and of each row group the rows that match, counted in this table."""
        assert isinstance(question.decider, PruningPredicate)
        names = sorted(tree.columns(question.decider.node))
        schema = picked(self._data.schema, names)
        if len(schema):
            table = self.read(schema)
        else:  # the file has none of them; a table without columns does not know its rows
            table = pa.table({"": pa.nulls(sum(place.num_rows for place in self._places))})
        found = true_rows(row_mask(table, question.decider.node, timezone=question.timezone, probes=question.probes))
        ends = np.cumsum([place.num_rows for place in self._places])
        return table, np.split(found, np.searchsorted(found, ends[:-1]))

    def matching(self, question: RowFilter, schema: pa.Schema) -> Iterator[pa.Table]:
        """The rows of each row group that match."""
        if question.decider is True:
            rows = self.read(schema)
            start = 0
            for place in self._places:
                yield rows.slice(start, place.num_rows)
                start += place.num_rows
            return
        held, chosen = self.chosen(question)
        some = [at for at, rows in enumerate(chosen) if len(rows)]
        if not some:
            return
        left = _Stripe(self._data, [self.row_groups[at] for at in some])  # the other columns need no more
        places = [held.schema.get_field_index(field.name) for field in schema]  # -1 where there is no such, or two
        is_held = [at >= 0 and held.schema.field(at) == field for at, field in zip(places, schema, strict=True)]
        rest = [field for field, known in zip(schema, is_held, strict=True) if not known]
        others = left.read(pa.schema(rest)) if rest else None
        first = np.cumsum([0, *(place.num_rows for place in self._places)])
        start = 0
        for at in some:
            own = iter(others.columns if others is not None else ())
            columns = [
                take_rows(held.column(place), chosen[at])
                if known
                else take_rows(next(own), chosen[at] - first[at] + start)
                for place, known in zip(places, is_held, strict=True)
            ]
            yield pa.Table.from_arrays(columns, schema=schema)
            start += self._places[at].num_rows
