"""What reading asks of an opened data file, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from ...file.columns import Named
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import Probes
from ...storage import Source

if TYPE_CHECKING:
    from typing import Self


RowSelection = tuple[tuple[int, int], ...]
"""Ranges [start, stop) of the rows of a row group, ascending."""

RowGroupSelections = Sequence[tuple[int, RowSelection | None]]
"""Row groups, each with the rows that zones leave of it; None for all of them."""


class FileProjection(NamedTuple):
    """What is wanted of one file.

    Attributes
    ----------
    names : columns for its reader to read; None for all.
    absent : columns that the file does not have.
    schema : of what is read.
    is_counter : whether what is read is not wanted, and only tells the number of rows.
    """

    names: list[str] | None
    absent: list[str]
    schema: pa.Schema
    is_counter: bool = False


class RowFilter(NamedTuple):
    """What is asked of rows.

    Attributes
    ----------
    decider : the predicate, over columns as the file spells them; True if every row matches.
    timezone : zone of literals without one.
    probes : what was made of long lists of literals for other rows; see `predicate.evaluate.mask`.
    """

    decider: PruningPredicate | bool
    timezone: str
    probes: Probes


class Identified(Protocol):
    """A file that can be told from another one under its path."""

    @property
    def source(self) -> Source: ...

    @property
    def row_groups(self) -> Sequence[int]: ...


class DataFile(Protocol):
    """An opened file of rows in row groups; `formats.open_file` gives one. Errors name the file.

    Attributes
    ----------
    path, source : the file.
    format : `report.PARQUET` or `report.ORC`.
    leaves : its columns, dotted, in schema order.
    row_groups : their ordinals.
    schema : of its rows, as pyarrow gives it.
    """

    format: str

    @property
    def path(self) -> str: ...

    @property
    def source(self) -> Source: ...

    @property
    def leaves(self) -> Sequence[Named]: ...

    @property
    def row_groups(self) -> Sequence[int]: ...

    @property
    def schema(self) -> pa.Schema: ...

    def chosen(self, columns: Sequence[str]) -> pa.Schema:
        """The schema of chosen columns, top-level ones or dotted leaves, in the file's order."""

    def num_rows_of(self, row_group: int) -> int:
        """The rows of a row group."""

    def inexact(self) -> set[str]:
        """The columns (top-level) of which pyarrow may show other values than those that are stored."""

    def read(self, row_group: int, columns: Sequence[str], zoned: RowSelection | None = None) -> pa.Table:
        """Some columns of a row group, or of the rows that zones leave of it, as `chosen` gives their schema.

        Of columns that the file does not have there is none.
        """

    def matching(self, left: RowGroupSelections, question: RowFilter, wanted: FileProjection) -> Iterator[pa.Table]:
        """The rows of each row group that match, of those that zones leave; none for a row group without any."""

    def counts(self, row_groups: Sequence[int], question: RowFilter) -> Iterator[tuple[int, int]]:
        """How many rows of each row group match: (row group, rows)."""

    def rows_left(
        self, row_group: int, decider: PruningPredicate | bool, zoned: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        """Ranges of the rows of a row group that may match, as far as is known without reading them."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...
