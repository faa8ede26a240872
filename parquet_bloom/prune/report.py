"""What pruning found: the plan, and why it is what it is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from ..errors import ManagedTableError, ParquetBloomError, printable
from ..predicate.tree import Node
from ..redaction import shown_redacted
from ..storage import create
from .data_file import Identified, Left, Spans
from .partitions import Partitions

PARTITION, INDEX = "partition", "index"
"""What rules out files before they are opened."""

ZONES = "zones"
"""What rules out rows, and row groups that have no others."""

PARQUET, ORC = "parquet", "orc"
"""Formats of files."""

_MANY = 5  # doubts that are told one by one


@dataclass(frozen=True)
class RowGroupDecision:
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
    rows: Spans | None = None
    stripe: int | None = None

    @property
    def num_left(self) -> int:
        """How many rows can match, as far as zones tell."""
        return self.num_rows if self.rows is None else sum(stop - start for start, stop in self.rows)


@shown_redacted
@dataclass(frozen=True)
class FileDecision:
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
    row_groups: tuple[RowGroupDecision, ...]
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

    def left_in(self, file: Identified) -> Left:
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


class Asked(NamedTuple):
    """What `prune` was asked, so that a report can be followed up."""

    node: Node
    timezone: str
    ignore_case: bool


class Selection(dict[str, list[int]]):
    """{path: row groups to read}; a file with none has no entry, and asking for it gives an empty list."""

    def __missing__(self, path: str) -> list[int]:
        return []


def require_rows(path: str, deletes: frozenset[str]) -> None:
    """Raise ManagedTableError for a file of which its table may have taken rows away: they stand in it still."""
    if path in deletes:
        problem = "its table may have deleted rows of it, which would be shown: read the table by a library of its own"
        raise ManagedTableError(problem, path=path)


@shown_redacted
@dataclass
class PruneReport:
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
    files: list[FileDecision] = field(default_factory=list)
    filesystem: Any = field(default=None, compare=False, repr=False)
    requests: int = field(default=0, compare=False)
    bytes_read: int = field(default=0, compare=False)
    partitions: Partitions = field(default_factory=lambda: Partitions(()), compare=False, repr=False)
    asked: Asked | None = field(default=None, compare=False, repr=False)
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

    def to_dataset(self, schema: pa.Schema | None = None) -> Any:
        """The surviving row groups as a dataset, for DuckDB, polars, DataFusion and whoever else reads one.

        The predicate is not applied: the dataset holds every row of these row groups, and the engine filters them. A
        file that was replaced after it was judged is in it whole, all of its row groups, and so is an ORC file of which
        any row group is read: pyarrow has no fragments of parts of them. The files are read when the dataset is; one
        that is rewritten after the dataset was made has other row groups.

        Parameters
        ----------
        schema : of the dataset; None takes the one that all files of the report fit into, skipped ones too.

        Returns
        -------
        pyarrow.dataset.Dataset
            A fragment a file, in the report's order. Types differ between files as far as pyarrow's datasets allow.
            Partition columns stand behind the files' own. Of Parquet and ORC files together it is a union of datasets.

        Raises
        ------
        UnreadableColumnError
            The files' columns fit into no one schema.
        """
        # Not at the top: it opens files, and what opens files knows reports.
        from .handover import dataset

        return dataset(self.files, self.filesystem, schema, self.partitions)

    def explain(self, max_files: int = 20, max_lines: int = 20) -> str:
        """Tell for each row group whether it is read, what ruled it out, and what was doubtful.

        Parameters
        ----------
        max_files : so many files at most, those that are read first.
        max_lines : so many lines a file at most; neighbours that share their fate share a line.
        """
        lines = [printable(self.where), str(self), *self._causes()]
        shown = self.notable(max_files)
        for file in shown:
            lines += ["", f"{printable(file.path)}: {_told(file)}"]
            runs = list(_runs(file.row_groups))
            lines += [f"  {line}" for line in runs[:max_lines]]
            if len(runs) > max_lines:
                lines.append(f"  ... {len(runs) - max_lines:,} more lines")
        if len(shown) < len(self.files):
            rest = len(self.files) - len(shown)
            still = self.selected_files - sum(bool(file.selected) for file in shown)
            lines += ["", f"... {rest:,} more {'file' if rest == 1 else 'files'}, {still:,} of them read"]
        return "\n".join(lines)

    def _causes(self) -> Iterator[str]:
        if self.skipped_by:
            causes = sorted(self.skipped_by.items(), key=lambda item: (-item[1], item[0]))
            yield "skipped by " + ", ".join(f"{printable(cause)}: {count:,}" for cause, count in causes)
        if self.doubts:
            yield f"doubtful: {_of(len({doubt[:2] for doubt in self.doubts}), self.total_row_groups, 'row group')}"
        yield from (f"the index is doubtful: {printable(doubt)}" for doubt in self.index_doubts)
        yield from (f"zones are not used: {printable(doubt)}" for doubt in few(self.zone_doubts))

    def notable(self, count: int) -> list[FileDecision]:
        """At most so many files: the ones that are read come first, otherwise in the report's order."""
        return sorted(self.files, key=lambda file: not file.selected)[: max(count, 0)]

    def __str__(self) -> str:
        files = _of(self.selected_files, self.total_files, "file")
        told = [f"read {files}, {_of(self.selected_row_groups, self.total_row_groups, 'row group')}"]
        told += unopened_told(self)
        if self.index_doubts:
            told.append("the index is doubtful")
        told += zones_told(self)
        if self.requests:
            told.append(f"{_count(self.requests, 'request')}, {size(self.bytes_read)}")
        return "; ".join(told)

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        check: bool = False,
        asked_fpp: float | None = None,
        filesystem: Any = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> str:
        """Draw the report as a page that stands alone: a heat map of files and row groups, and how the filters do.

        The footers are looked at again, and of the filters as many are read as it takes to tell what
        false-positive probability they have, 64 MiB at most.

        Parameters
        ----------
        path : where to write the page, replacing what stands there; None to write nothing.
        check : also read the predicate's columns in the selected row groups, and tell in which of them rows match.
        asked_fpp : the false-positive probability that the filters were asked to have, to compare with.
        filesystem : of `path`; None for local paths and URLs.
        progress : called after each file with (done, in all).

        Returns
        -------
        The page, which loads nothing from anywhere. Its size is bounded: of many files or row groups several share a
        row or a cell.

        Raises
        ------
        ParquetBloomError
            The report is not one of `prune`, or the page cannot be written. Files that cannot be read any more are no
            error: the page says so.
        """
        # Not at the top: few callers need it.
        from .picture.look import look
        from .picture.page import page

        if self.asked is None:
            raise ParquetBloomError("a report that prune did not make cannot be followed up")
        if asked_fpp is not None and not 0 < asked_fpp < 1:
            raise ParquetBloomError(f"asked_fpp must lie between 0 and 1, not {asked_fpp}")
        text = page(self, look(self, check, progress), asked_fpp)
        if path is not None:
            with create(path, filesystem) as new:
                new.write(text.encode())
                new.commit()
        return text

    def _repr_html_(self) -> str:
        """For notebooks: the same heat map, smaller, of what is known without looking at a file again."""
        from .picture.notebook import snippet

        return snippet(self)


def unopened_told(report: PruneReport) -> list[str]:
    """How many files were not opened, by cause, for people."""
    causes = {PARTITION: "in other partitions", INDEX: "ruled out by the index"}
    counts = report.unopened_by
    return [f"{_count(counts[cause], 'file')} {told}" for cause, told in causes.items() if cause in counts]


def zones_told(report: PruneReport) -> list[str]:
    """What zones brought, for people."""
    zoned = [one for file in report.files for one in file.row_groups if one.read and one.rows is not None]
    left = sum(one.num_left for one in zoned)
    told = [f"zones leave {_of(left, sum(one.num_rows for one in zoned), 'row')} of these"] if zoned else []
    return told + ["zones are not used" for _ in report.zone_doubts[:1]]


def few(doubts: Sequence[str]) -> list[str]:
    """The first of many doubts, and how many there are more."""
    more = len(doubts) - _MANY
    return [*doubts[:_MANY], f"{more:,} more"] if more > 1 else list(doubts)


def _of(count: int, total: int, unit: str) -> str:
    return f"{count:,} of {total:,} {unit}{'' if total == 1 else 's'}"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def size(num_bytes: int) -> str:
    """A number of bytes for people, in units of 1,000."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:,.{1 if num_bytes < 10 * factor else 0}f} {unit}"
    return _count(num_bytes, "byte")


def _told(file: FileDecision) -> str:
    if file.unopened:
        return f"not opened: {printable(file.unopened)}"
    return f"{_of(len(file.selected), len(file.row_groups), 'row group')} read"


def _runs(decisions: tuple[RowGroupDecision, ...]) -> Iterator[str]:
    """One line for each run of row groups of the same fate, and one for each of its doubts."""
    for (*fate, doubts), run in groupby(decisions, lambda d: (d.read, d.rows is None, d.by, d.reason, d.doubts)):
        read, whole, by, reason = fate
        members = list(run)
        first, last = members[0].row_group, members[-1].row_group
        numbers = f"{first}" if first == last else f"{first}-{last}"
        rows = sum(member.num_rows for member in members)
        if read and not whole:
            yield f"{numbers}: read, {_of(sum(member.num_left for member in members), rows, 'row')} by zones"
        elif read:
            yield f"{numbers}: read, {rows:,} row{'' if rows == 1 else 's'}"
        else:
            yield f"{numbers}: skipped by {printable('+'.join(sorted(by)))}: {printable(reason)}"
        for doubt in doubts:
            yield f"    doubtful: {printable(doubt)}"
