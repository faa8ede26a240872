"""The plan of a scan as data: what is read of each file, and why not the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...errors import ManagedTableError
from ...predicate.tree import Node
from ...redaction import shown_redacted
from .data_file import Identified, RowGroupSelections, RowSelection
from .partitions import Partitions

PARTITION, INDEX = "partition", "index"
"""What rules out files before they are opened."""


ZONES = "zones"
"""What rules out rows, and row groups that have no others."""


PARQUET, ORC = "parquet", "orc"
"""Formats of files."""


@dataclass(frozen=True)
class RowGroupPlan:
    """Whether one row group is read.

    Attributes
    ----------
    row_group : its ordinal in the file.
    read : False when no row of it can match.
    by : what ruled it out ("type", "nulls", "range", "filter", "empty", "index", "zones"); empty when it is read.
    reason : the same for people.
    doubts : what made nothing better possible, such as a broken filter.
    num_rows : its rows.
    rows : ranges [start, stop) of its rows that can match, ascending, where zones tell them apart; None for all rows.
    stripe : of ORC files, the ordinal of the stripe that it is in; None in others.
    """

    row_group: int
    read: bool
    by: frozenset[str] = frozenset()
    reason: str = ""
    doubts: tuple[str, ...] = ()
    num_rows: int = 0
    rows: RowSelection | None = None
    stripe: int | None = None

    @property
    def num_left(self) -> int:
        """How many rows can match, as far as zones tell."""
        return self.num_rows if self.rows is None else sum(stop - start for start, stop in self.rows)


@shown_redacted
@dataclass(frozen=True)
class FilePlan:
    """The row groups of one file.

    Attributes
    ----------
    path : as listed.
    row_groups : a decision each; none for a file that was not opened.
    unopened : why the file was not opened: its folders, or an index of the lake, rule it out. Empty if it was.
    identity : which file it was (see `storage.Source`); None where that is not known.
    unopened_by : "partition" or "index", of a file that was not opened.
    format : PARQUET or ORC. Row groups of ORC files are numbered through all stripes, in the order of the file.
    """

    path: str
    row_groups: tuple[RowGroupPlan, ...]
    unopened: str = ""
    identity: Hashable = field(default=None, compare=False, repr=False)
    unopened_by: str = PARTITION
    format: str = PARQUET

    @property
    def selected(self) -> list[int]:
        """Ordinals of the row groups that are read."""
        return [decision.row_group for decision in self.row_groups if decision.read]

    def selected_in(self, file: Identified) -> list[int]:
        """What is read of the file as it is now: all of it, if it is not the one any more that was looked at."""
        if self.identity is None or self._is(file):
            return self.selected
        return list(file.row_groups)

    def left_in(self, file: Identified) -> RowGroupSelections:
        """The same, each with the ranges of its rows that can match; None for all of them."""
        rows = {one.row_group: one.rows for one in self.row_groups} if self._is(file) else {}
        return [(row_group, rows.get(row_group)) for row_group in self.selected_in(file)]

    def _is(self, file: Identified) -> bool:
        return self.identity is not None and file.source.identity == self.identity

    @property
    def skipped_by(self) -> dict[str, int]:
        """How many row groups each kind of evidence (or a combination, as "filter+range") ruled out."""
        return dict(Counter("+".join(sorted(decision.by)) for decision in self.row_groups if not decision.read))

    @property
    def doubts(self) -> list[str]:
        """Why something was read although evidence stood there, each reason once."""
        return list(dict.fromkeys(doubt for decision in self.row_groups for doubt in decision.doubts))


class ScanRequest(NamedTuple):
    """What `prune` was asked, so that a report can be followed up."""

    node: Node
    timezone: str
    ignore_case: bool


class Selection(dict[str, list[int]]):
    """{path: row groups to read}; a file with none has no entry, and asking for it gives an empty list."""

    def __missing__(self, path: str) -> list[int]:
        return []


def refuse_deleted_rows(path: str, deletes: frozenset[str]) -> None:
    """Raise ManagedTableError for a file of which its table may have taken rows away: they stand in it still."""
    if path in deletes:
        problem = "its table may have deleted rows of it, which would be shown: read the table by a library of its own"
        raise ManagedTableError(problem, path=path)


@shown_redacted
@dataclass
class ScanPlan:
    """Which files and row groups can hold a row that matches.

    Attributes
    ----------
    where : the predicate as text.
    files : a decision a file, in the order given.
    filesystem : where the files are: a pyarrow or fsspec file system, or what stands for URLs and the settings of their
        stores; None for local paths and URLs.
    requests : ranges of files asked of the file system, those read as one counted once; listing is not, and opening
        only where it is a request to an object store.
    bytes_read : bytes that came upon them.
    partitions : the columns that the files' folders give.
    asked : the predicate, and how it is to be understood; None for reports that `prune` did not make.
    index_doubts : why an index of the lake could not be asked, or not all of it, so that more is read than need be.
    zone_doubts : the same of zones: indexes that cannot be read, and files that have changed since.
    deletes : files of an index's table that may hold rows which the table has deleted; their rows are not read.
    """

    where: str
    files: list[FilePlan] = field(default_factory=list)
    filesystem: Any = field(default=None, compare=False, repr=False)
    requests: int = field(default=0, compare=False)
    bytes_read: int = field(default=0, compare=False)
    partitions: Partitions = field(default_factory=lambda: Partitions(()), compare=False, repr=False)
    asked: ScanRequest | None = field(default=None, compare=False, repr=False)
    index_doubts: list[str] = field(default_factory=list, compare=False, repr=False)
    zone_doubts: list[str] = field(default_factory=list, compare=False, repr=False)
    deletes: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def selected(self) -> Selection:
        """{path: [row groups to read]}, files with at least one only."""
        return Selection((file.path, file.selected) for file in self.files if file.selected)

    @property
    def total_files(self) -> int:
        return len(self.files)

    @property
    def selected_files(self) -> int:
        return sum(bool(file.selected) for file in self.files)

    @property
    def unopened_files(self) -> int:
        """Files that their folders or an index rule out; their row groups are not known, and are not counted."""
        return sum(bool(file.unopened) for file in self.files)

    @property
    def unopened_by(self) -> dict[str, int]:
        """How many files were ruled out by folders ("partition") and by an index ("index")."""
        return dict(Counter(file.unopened_by for file in self.files if file.unopened))

    @property
    def total_row_groups(self) -> int:
        return sum(len(file.row_groups) for file in self.files)

    @property
    def selected_row_groups(self) -> int:
        return sum(len(file.selected) for file in self.files)

    @property
    def skipped(self) -> list[tuple[str, int, str]]:
        """(path, row group, reason) of each row group that is not read, of files that were opened."""
        return [(file.path, d.row_group, d.reason) for file in self.files for d in file.row_groups if not d.read]

    @property
    def doubts(self) -> list[tuple[str, int, str]]:
        """(path, row group, doubt) wherever something was read because evidence could not be used."""
        return [
            (file.path, decision.row_group, doubt)
            for file in self.files
            for decision in file.row_groups
            for doubt in decision.doubts
        ]

    @property
    def skipped_by(self) -> dict[str, int]:
        """How many row groups each kind of evidence (or a combination, as "filter+range") ruled out."""
        found: Counter[str] = Counter()
        for file in self.files:
            found.update(file.skipped_by)
        return dict(found)

    def notable(self, count: int) -> list[FilePlan]:
        """At most so many files: the ones that are read come first, otherwise in the report's order."""
        return sorted(self.files, key=lambda file: not file.selected)[: max(count, 0)]
