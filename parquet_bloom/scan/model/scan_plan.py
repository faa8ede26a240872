"""The plan of a scan as data: what is read of each file, and why the rest is skipped.

`FileScan` is a file on its way through the levels of evidence, until it has its plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...file.column_statistics import FileStatistics
from ...file.metadata_cache import CachedFooter
from ...predicate.map_lookup import find_column_of
from ...predicate.pruning import POSSIBLE, PruningPredicate
from ...predicate.reason import UNDECIDED, Reason
from ...redaction import shown_redacted
from ...storage import Entry
from ...util.messages import count, count_of, format_bytes
from .data_file import Identified
from .folder_partitions import Partitions, ScanRequest
from .row_selection import (
    RowGroupSelections,
    RowSelection,
    count_rows,
    intersect_ranges,
    to_row_ranges,
    to_row_selection,
)

if TYPE_CHECKING:
    from ...predicate.tree import Node
    from ...tables.table_snapshot import TableSnapshot
    from ...util.given_types import FileSystem


PARTITION, TABLE, INDEX = "partition", "table", "index"
"""Evidence that rules out files before they are opened."""


ZONES = "zones"
"""Evidence that rules out rows, and row groups all of whose rows are ruled out."""


PARQUET, ORC = "parquet", "orc"
"""File formats."""

_IS_READ = attrgetter("read")
_FEW = 16  # row groups, of which the plans are made at once


class SourceListing(NamedTuple):
    """The files of a dataset at one moment.

    Attributes
    ----------
    entries : the files, in order.
    filesystem : of the files; None for local paths and URLs.
    partitions : their partition columns.
    table : the table whose files they are; None for files of no table.
    requests : requests that the listing took.
    """

    entries: list[Entry]
    filesystem: FileSystem | None
    partitions: Partitions
    table: TableSnapshot | None = None
    requests: int = 0


@dataclass(frozen=True)
class RowGroupPlan:
    """The plan of one row group: read or skipped, and why.

    Attributes
    ----------
    row_group : its ordinal in the file.
    read : False when no row of it can match.
    by : kinds of evidence that ruled it out ("type", "nulls", "range", "filter", "dictionary", "empty", "index",
        "zones"); empty if it is read.
    reason : the same as text.
    doubts : evidence that could not be used, such as a broken filter.
    num_rows : its rows.
    rows : ranges [start, stop) of its rows that can match, ascending, if zones, of filters or of a lake index, rule out
        some; None for all rows.
    stripe : in ORC files, the ordinal of its stripe; None in others.
    certain : whether all of its rows match the predicate.
    """

    row_group: int
    read: bool
    by: frozenset[str] = frozenset()
    reason: str = ""
    doubts: tuple[Reason, ...] = ()
    num_rows: int = 0
    rows: RowSelection | None = None
    stripe: int | None = None
    certain: bool = False

    def narrow(self, rows: RowSelection, by: frozenset[str], reason: str) -> RowGroupPlan:
        """Return the plan without the rows that other evidence rules out; `by` and `reason` are for one without any.

        Parameters
        ----------
        rows : that can match by that evidence.
        """
        if self.rows is not None:
            both = intersect_ranges(to_row_ranges(self.rows), to_row_ranges(rows))
            assert both is not None
            rows = to_row_selection(both)
        if rows:
            return replace(self, rows=rows)
        return replace(self, read=False, by=by, reason=reason, doubts=(), rows=None, certain=False)

    @property
    def num_left(self) -> int:
        """Number of rows that can match by the zones."""
        return self.num_rows if self.rows is None else count_rows(self.rows)


_EMPTY: Mapping[str, object] = vars(RowGroupPlan(0, False, frozenset({"empty"}), "it has no rows"))


@dataclass(eq=False)
class RowGroupDraft:
    """The plans of a file's row groups before they are made: of a file with many row groups few are looked at.

    Attributes
    ----------
    attributes : what the plans of all row groups with a verdict have in common, by the verdict's number.
    verdicts : the number of each row group's verdict.
    num_rows : rows of each row group; None for one without rows.
    """

    attributes: Mapping[int, Mapping[str, object]]
    verdicts: NDArray[np.int32]
    num_rows: Sequence[int | None]

    @cached_property
    def read(self) -> Sequence[RowGroupPlan]:
        """The plans of the row groups that are read."""
        reads = [number for number, attributes in self.attributes.items() if attributes["read"]]
        return self.make(np.flatnonzero(np.isin(self.verdicts, reads)).tolist(), with_empty=False)

    @cached_property
    def plans(self) -> tuple[RowGroupPlan, ...]:
        """The plans of all row groups; those that are read are the same objects as in `read`."""
        made = self.make(range(len(self.num_rows)), with_empty=True)
        for plan in self.read:
            made[plan.row_group] = plan
        return tuple(made)

    def make(self, row_groups: Iterable[int], with_empty: bool) -> list[RowGroupPlan]:
        """Make the plans of some row groups, without those without rows if these are not asked for."""
        plans = []
        num_rows, verdicts, attributes = self.num_rows, self.verdicts.tolist(), self.attributes
        new = RowGroupPlan.__new__
        for row_group in row_groups:
            rows = num_rows[row_group]
            if rows is None and not with_empty:
                continue
            # A third of the time that the constructor takes.
            plan = new(RowGroupPlan)
            own = plan.__dict__
            own.update(_EMPTY if rows is None else attributes[verdicts[row_group]])
            own["row_group"], own["num_rows"] = row_group, rows or 0
            plans.append(plan)
        return plans


@shown_redacted
@dataclass(frozen=True)
class FilePlan:
    """The plan of one file.

    Attributes
    ----------
    path : as listed.
    row_groups : a plan each; none for a file that was not opened.
    unopened : why the file was not opened: its partition values, its table's metadata or a lake index rule it out.
        Empty if it was opened.
    identity : the version of the file that was planned (see `storage.Source`); None if unknown.
    unopened_by : "partition", "table" or "index", for a file that was not opened.
    format : PARQUET or ORC. Row groups of ORC files are numbered through all stripes, in file order.
    footer : its metadata, if the plan is of few files: they are read with what they were planned by. Not pickled.
    """

    path: str
    row_groups: tuple[RowGroupPlan, ...]
    unopened: str = ""
    identity: Hashable = field(default=None, compare=False, repr=False)
    unopened_by: str = PARTITION
    format: str = PARQUET
    footer: CachedFooter | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_draft(
        cls, path: str, draft: RowGroupDraft, identity: Hashable, footer: CachedFooter | None = None
    ) -> FilePlan:
        """Return the plan of a file that was opened; the plans of its row groups are made when they are needed."""
        plan = cls.__new__(cls)
        plan.__dict__.update(path=path, identity=identity, footer=footer, _draft=draft)
        return plan

    if not TYPE_CHECKING:  # any other name is an error, to the checker too

        def __getattr__(self, name: str) -> object:
            # Only `row_groups` may be missing. Threads that come here together make equal plans, and keep the first.
            draft = self.__dict__.get("_draft") if name == "row_groups" else None
            if draft is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self.__dict__.setdefault(name, draft.plans)

    def __getstate__(self) -> dict[str, object]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "footer"}

    @property
    def read_groups(self) -> Sequence[RowGroupPlan]:
        """The plans of the row groups that are read."""
        draft: RowGroupDraft | None = self.__dict__.get("_draft")
        return list(filter(_IS_READ, self.row_groups)) if draft is None else draft.read

    @property
    def selected(self) -> list[int]:
        """Ordinals of the row groups that are read."""
        return [plan.row_group for plan in self.read_groups]

    def selected_in(self, file: Identified) -> list[int]:
        """Return the row groups to read of an open file: all of them if it has changed since it was planned."""
        return self.selected if self.is_of(file) else list(file.row_groups)

    def selections_in(self, file: Identified) -> RowGroupSelections:
        """Return the row groups to read of an open file, each with its rows that can match; None for all rows."""
        is_known = self.identity is not None and self.is_of(file)
        rows = {plan.row_group: plan.rows for plan in self.read_groups} if is_known else {}
        return [(row_group, rows.get(row_group)) for row_group in self.selected_in(file)]

    def is_of(self, file: Identified) -> bool:
        """Return whether an open file is the version that was planned, as far as is known."""
        return self.identity is None or file.source.identity == self.identity

    @property
    def skipped_by(self) -> dict[str, int]:
        """Number of row groups that each kind of evidence (or combination, such as "filter+range") ruled out."""
        return _count_by(self.row_groups)

    @property
    def doubts(self) -> list[Reason]:
        """Evidence that could not be used, each doubt once."""
        return list(dict.fromkeys(doubt for plan in self.row_groups for doubt in plan.doubts))


class RowGroupCounts(Protocol):
    """The part of a file's statistics, of either format, that plans are made of; see `FileStatistics`."""

    @property
    def num_rows(self) -> tuple[int | None, ...]: ...

    @property
    def doubts(self) -> tuple[Reason, ...]: ...


@dataclass(eq=False)
class RowGroupPlanner:
    """Converts verdicts to plans; equal plans are one object, since a lake has many.

    Attributes
    ----------
    doubts : added to each row group that is read.
    """

    doubts: tuple[Reason, ...] = ()
    _plans: dict[tuple[object, ...], tuple[RowGroupPlan, ...]] = field(default_factory=dict)
    _attributes: dict[tuple[object, ...], dict[str, object]] = field(default_factory=dict)

    def plan_file(
        self,
        path: str,
        predicate: PruningPredicate | Literal[True],
        counts: RowGroupCounts,
        verdicts: NDArray[np.int32],
        identity: Hashable,
        footer: CachedFooter | None = None,
    ) -> FilePlan:
        """Return the plan of a file; `identity` and `footer` are attributes of it.

        Parameters
        ----------
        predicate : the one that gave the verdicts; True if every row matches.
        """
        has_few = len(verdicts) <= _FEW
        alike = (predicate, counts.num_rows, counts.doubts, verdicts.tobytes() if has_few else b"")
        plans = self._plans.get(alike) if has_few else None
        if plans is not None:
            return FilePlan(path, plans, identity=identity, footer=footer)
        attributes = {}
        for number in dict.fromkeys(verdicts.tolist()):
            key = predicate, number, counts.doubts
            if key not in self._attributes:
                verdict = POSSIBLE if predicate is True else predicate.verdicts[number]
                doubts = verdict.doubts
                if counts.doubts:
                    # To the predicate, a column that is ignored is missing; the file's doubts say why it is ignored.
                    ignored = {doubt.column for doubt in counts.doubts if doubt.kind != UNDECIDED}
                    doubts = tuple(doubt for doubt in doubts if not _names_any(doubt, ignored))
                doubts = doubts + counts.doubts + self.doubts if verdict.possible else ()
                plan = RowGroupPlan(0, verdict.possible, verdict.by, verdict.reason, doubts, certain=verdict.certain)
                self._attributes[key] = vars(plan)
            attributes[number] = self._attributes[key]
        draft = RowGroupDraft(attributes, verdicts, counts.num_rows)
        if not has_few:
            return FilePlan.of_draft(path, draft, identity, footer)
        plans = self._plans[alike] = tuple(draft.make(range(len(verdicts)), with_empty=True))
        return FilePlan(path, plans, identity=identity, footer=footer)


def _names_any(doubt: Reason, columns: Collection[str | None]) -> bool:
    """Return whether a doubt is about one of some columns; one of a Variant's path, say, is about the Variant."""
    return doubt.column in columns or (doubt.column is not None and find_column_of(doubt.column) in columns)


def _count_by(row_groups: Iterable[RowGroupPlan]) -> dict[str, int]:
    """Count the row groups that are not read, by the evidence against them."""
    counts = Counter([plan.by for plan in row_groups if not plan.read])
    return {"+".join(sorted(by)): number for by, number in counts.items()}


class Decoded(NamedTuple):
    """Row groups of which rows were read in one way.

    Attributes
    ----------
    decoder : "pages" or "columns".
    reason : why whole columns were decoded; empty for pages.
    row_groups, rows : how many.
    """

    decoder: str
    reason: str
    row_groups: int
    rows: int


class Selection(dict[str, list[int]]):
    """{path: row groups to read}; a file with none has no entry, and looking it up gives an empty list."""

    def __missing__(self, path: str) -> list[int]:
        return []


@shown_redacted
@dataclass
class ScanPlan:
    """The plan of a scan: the files and row groups that can contain a matching row.

    Attributes
    ----------
    description : the predicate as text, of a plan that was not made from one.
    files : a plan for each file, in the order given.
    filesystem : of the files: a pyarrow or fsspec file system, or an object with the URLs' stores and their settings;
        None for local paths and URLs.
    requests : ranges read from the file system to make the plan, coalesced ranges counted once; listing is not counted,
        and opening only if it is a request to an object store.
    bytes_read : bytes in these ranges.
    data_requests, data_bytes_read : the same for the rows that have been read by the plan so far.
    decoded : how the columns of these rows were read; row groups with columns of both decoders count twice.
    partitions : the partition columns.
    asked : the predicate and its settings; None for plans that were not made from one.
    decided : the predicate that all rows of certain row groups match; another one than is asked if rows are filtered by
        more than they were planned by. None if that is not known.
    index_doubts : why a lake index could not be used, or only in part, so that more is read than necessary.
    index_notes : which grams of a lake index were asked for, and of which conditions there are none.
    zone_doubts : the same as `index_doubts` for zones: indexes that cannot be read, and files that have changed since.
    table : the table whose files they are, which says what deleted rows they have; None for files of no table.
    """

    description: str = ""
    files: list[FilePlan] = field(default_factory=list)
    filesystem: FileSystem | None = field(default=None, compare=False, repr=False)
    requests: int = field(default=0, compare=False)
    bytes_read: int = field(default=0, compare=False)
    data_requests: int = field(default=0, compare=False, kw_only=True)
    data_bytes_read: int = field(default=0, compare=False, kw_only=True)
    decoded: list[Decoded] = field(default_factory=list, compare=False, repr=False, kw_only=True)
    partitions: Partitions = field(default_factory=lambda: Partitions(()), compare=False, repr=False)
    asked: ScanRequest | None = field(default=None, repr=False)
    decided: Node | None = field(default=None, compare=False, repr=False)
    index_doubts: list[str] = field(default_factory=list, compare=False, repr=False)
    index_notes: list[str] = field(default_factory=list, compare=False, repr=False)
    zone_doubts: list[str] = field(default_factory=list, compare=False, repr=False)
    table: TableSnapshot | None = field(default=None, compare=False, repr=False)

    @property
    def where(self) -> str:
        """The predicate as text; empty if all rows match."""
        if self.asked is None:
            return self.description
        return "" if self.asked.node is None else str(self.asked.node)

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
        """Number of files that are ruled out unopened; their row groups are unknown and not counted."""
        return sum(bool(file.unopened) for file in self.files)

    @property
    def unopened_by(self) -> dict[str, int]:
        """Number of files ruled out by partition values ("partition"), a table's metadata ("table"), an index."""
        return dict(Counter(file.unopened_by for file in self.files if file.unopened))

    @property
    def total_row_groups(self) -> int:
        return sum(len(file.row_groups) for file in self.files)

    @property
    def selected_row_groups(self) -> int:
        return sum(len(file.selected) for file in self.files)

    @property
    def skipped(self) -> list[tuple[str, int, str]]:
        """(path, row group, reason) of each skipped row group, in files that were opened."""
        return [
            (file.path, plan.row_group, plan.reason) for file in self.files for plan in file.row_groups if not plan.read
        ]

    @property
    def doubts(self) -> list[tuple[str, int, Reason]]:
        """(path, row group, doubt) wherever evidence could not be used."""
        return [
            (file.path, plan.row_group, doubt)
            for file in self.files
            for plan in file.row_groups
            for doubt in plan.doubts
        ]

    @property
    def skipped_by(self) -> dict[str, int]:
        """Number of row groups that each kind of evidence (or combination, such as "filter+range") ruled out."""
        return _count_by(chain.from_iterable(file.row_groups for file in self.files))

    def first_files(self, count: int) -> list[FilePlan]:
        """Return at most `count` files: first those that are read, otherwise in the plan's order."""
        return sorted(self.files, key=lambda file: not file.selected)[: max(count, 0)]


@dataclass(slots=True)
class FileScan:
    """One file on its way through the evaluators.

    Attributes
    ----------
    entry : the file.
    predicate : what remains of the scan's predicate, so that it is over columns of the file; True if all rows match.
    plan : the file's plan; None until an evaluator makes one.
    error : why the file could not be read.
    missing : columns of the predicate that the file does not have; None if that is unknown.
    requests, bytes_read : what was read of the file.
    statistics : the statistics that the plan was made from; None for ORC files and files that were not opened.
    narrow : what was learned of the row groups before the file was opened, to apply to its plan; None for nothing.
    """

    entry: Entry
    predicate: PruningPredicate | Literal[True] = True
    plan: FilePlan | None = None
    error: ParquetBloomError | None = None
    missing: tuple[str, ...] | None = None
    requests: int = 0
    bytes_read: int = 0
    statistics: FileStatistics | None = None
    narrow: Callable[[FilePlan], FilePlan] | None = None

    @property
    def undecided(self) -> bool:
        """Whether the file has neither a plan nor an error yet."""
        return self.plan is None and self.error is None

    def rule_out(self, reason: str, by: str) -> None:
        """Plan not to open the file; `by` is as in `FilePlan.unopened_by`."""
        self.missing = ()
        self.plan = FilePlan(self.entry.path, (), reason, unopened_by=by)

    def set_plan(self, plan: FilePlan) -> None:
        """Set the plan by the file's own evidence, narrowed by what was learned before."""
        self.plan = plan if self.narrow is None else self.narrow(plan)


class Evaluator(Protocol):
    """One level of evidence; `plan_scan` in `scan/plan/` has the list of them."""

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """Yield the same files in the same order, each narrowed by this evidence.

        An evaluator that needs no open file passes over files that have a plan already, and either rules a file out
        (`FileScan.rule_out`), or leaves it what it has learned of its row groups (`FileScan.narrow`). A later one
        replaces the plan of a file by one that reads less. On doubt a file stays as it is.

        Parameters
        ----------
        files : taken as they are needed; several may be taken ahead to be evaluated together.
        plan : of the scan, with its request and file system. Cost and doubts of the evidence itself are added to it.
        """


def group_by_predicate(files: Iterable[FileScan]) -> list[tuple[PruningPredicate | Literal[True], list[FileScan]]]:
    """Return the files without a plan by their predicates, to evaluate each of these once."""
    groups: dict[int, tuple[PruningPredicate | Literal[True], list[FileScan]]] = {}
    for file in files:
        if file.plan is None and file.error is None:
            predicate = file.predicate
            group = groups.get(id(predicate))
            if group is None:
                group = groups[id(predicate)] = predicate, []
            group[1].append(file)
    return [*groups.values()]


def summarize(plan: ScanPlan, *, is_complete: bool = True) -> str:
    """Return a plan in one line: what is read, what is skipped unopened, and what planning cost.

    Parameters
    ----------
    is_complete : False if not all that was planned was read.
    """
    parts = [
        f"{'read' if is_complete else 'planned to read'} {count_of(plan.selected_files, plan.total_files, 'file')}, "
        f"{count_of(plan.selected_row_groups, plan.total_row_groups, 'row group')}"
    ]
    parts += describe_unopened(plan)
    if plan.index_doubts:
        parts.append("the index is doubtful")
    parts += describe_zones(plan)
    parts += describe_cost(plan)
    return "; ".join(parts)


def describe_cost(plan: ScanPlan) -> list[str]:
    """Return what was read to make a plan, and of the data by it so far."""
    costs = [(plan.requests, plan.bytes_read, ""), (plan.data_requests, plan.data_bytes_read, " of data")]
    phrases = [
        f"{count(requests, 'request')}, {format_bytes(size)}{what}" for requests, size, what in costs if requests
    ]
    if plan.requests and plan.data_requests:
        phrases[0] += " to plan"
    return phrases


def describe_unopened(plan: ScanPlan) -> list[str]:
    """Return how many files were not opened, a phrase for each cause."""
    causes = {
        PARTITION: "in other partitions",
        TABLE: "ruled out by the table's metadata",
        INDEX: "ruled out by the index",
    }
    counts = plan.unopened_by
    return [f"{count(counts[cause], 'file')} {phrase}" for cause, phrase in causes.items() if cause in counts]


def describe_zones(plan: ScanPlan) -> list[str]:
    """Return what the zone indexes contributed; empty if no zones were used."""
    zoned = [group for file in plan.files for group in file.row_groups if group.read and group.rows is not None]
    phrases = []
    if zoned:
        num_rows = sum(group.num_rows for group in zoned)
        phrases.append(f"zones leave {count_of(sum(group.num_left for group in zoned), num_rows, 'row')} of these")
    return phrases + ["zones are not used" for _ in plan.zone_doubts[:1]]
