"""Plan a scan: from files and a predicate to the row groups to read, by levels of evidence, the cheapest first.

    level         module             rules out                                       costs
    partition     plan_scan          files, by their folders' names                  nothing
    table         plan_scan          files, by bounds in a table's metadata          nothing, with the table read
    index         index_level        files, row groups and rows, by a lake index     reads of the index
    statistics    statistics_level   row groups, by bounds and null counts           a footer of each file, once
    defaults      plan_scan          files, by what a table says of absent columns   nothing, with the footer read
    Bloom filter  filter_level       row groups that are left, if they lack a value  some blocks of each row group
    zones         zone_level         rows, by zone indexes                           reads of the indexes
    page index    scan.scan          rows, by bounds of pages; for row ranges only   a read of each file

Each level is an `Evaluator`, but statistics and filters are one, in `file_level`: `PruningPredicate.decide_all` goes
from the first to the second. `orc_level` does the same for one ORC file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from ...file.metadata_cache import MetadataCache
from ...predicate.map_lookup import find_column_of
from ...predicate.pruning import PruningPredicate
from ...predicate.tree import Node
from ..model.column_defaults import ColumnDefaults
from ..model.folder_partitions import PartitionResiduals, ScanRequest
from ..model.scan_plan import (
    PARTITION,
    TABLE,
    Evaluator,
    FilePlan,
    FileScan,
    RowGroupPlanner,
    ScanPlan,
    SourceListing,
    group_by_predicate,
)
from ..named_columns import make_unknown_column_error
from ..scan_options import ScanOptions
from .file_level import FileEvaluator

if TYPE_CHECKING:
    from ...tables.table_snapshot import TableSnapshot


_BY_RANGE = frozenset({"range"})


class PartitionEvaluator:
    """Gives each file its residual as a predicate; files with the same residual share one object.

    Parameters
    ----------
    predicate : the predicate of the scan, which all files have so far; True if all rows match.
    residuals : what partition values leave of it.
    timezone : zone of literals without one.
    """

    def __init__(self, predicate: PruningPredicate | Literal[True], residuals: PartitionResiduals, timezone: str):
        self._residuals = residuals
        self._timezone = timezone
        self._is_unchanged = predicate is True or residuals.is_unchanged
        self._predicates = {} if predicate is True else {id(predicate.node): predicate}

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`."""
        for file in files:
            if not self._is_unchanged:
                predicate = self._predicate_for(file.entry.path)
                if predicate is False:
                    file.rule_out(self._residuals.describe(file.entry.path), PARTITION)
                else:
                    file.predicate = predicate
            yield file

    def _predicate_for(self, path: str) -> PruningPredicate | bool:
        residual = self._residuals.find_residual(path)
        if isinstance(residual, bool):
            return residual
        if id(residual) not in self._predicates:
            self._predicates[id(residual)] = PruningPredicate(residual, self._timezone)
        return self._predicates[id(residual)]


class TableEvaluator:
    """Rules out files by the statistics in the metadata of their table.

    Parameters
    ----------
    table : the table whose files are scanned.
    """

    def __init__(self, table: TableSnapshot):
        self._table = table

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`: all files are evaluated at once."""
        scans = [*files]
        positions: dict[str, int] = {}
        for predicate, members in group_by_predicate(scans):
            if predicate is True:
                continue
            columns = {name: self._table.find_statistics(name) for name in predicate.columns}
            if all(column is None for column in columns.values()):
                continue
            positions = positions or {file.path: i for i, file in enumerate(self._table.files)}
            rows = np.array([positions[file.entry.path] for file in members], np.intp)
            evidence = {name: None if column is None else column.at(rows) for name, column in columns.items()}
            verdicts = predicate.decide_all(evidence, len(members))
            for i in np.flatnonzero(~predicate.possible(verdicts)).tolist():
                members[i].rule_out(f"its table says: {predicate.verdicts[int(verdicts[i])].reason}", TABLE)
        yield from scans


class DefaultsEvaluator:
    """Rules out opened files by the values that their table gives to columns which they lack."""

    def __init__(self, defaults: ColumnDefaults):
        self._defaults = defaults

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`."""
        for file in files:
            if file.plan is not None and file.missing and file.predicate is not True and file.plan.selected:
                absent = self._defaults.select_absent(file.entry.path, file.missing)
                if absent and self._defaults.find_residual(file.predicate.node, absent, strict=False) is False:
                    file.plan = _skip_all(file.plan, self._defaults.describe(absent))
            yield file


def _skip_all(plan: FilePlan, reason: str) -> FilePlan:
    """Return the plan of a file of which nothing is read."""
    row_groups = [one.narrow((), _BY_RANGE, reason) if one.read else one for one in plan.row_groups]
    return replace(plan, row_groups=tuple(row_groups))


P = TypeVar("P", bound=ScanPlan)


@dataclass(frozen=True)
class Evidence:
    """What a scan is planned by, besides partition columns and the statistics of a table.

    Attributes
    ----------
    footers : plans files by what is in them; None for `FileEvaluator` in this process.
    index : lake index that is queried before files are opened; None for none.
    defaults : rules out files by the columns that they lack; None for none.
    zones : zone indexes that are queried for the rows of the remaining row groups; None for none.
    """

    footers: Evaluator | None = None
    index: Evaluator | None = None
    defaults: Evaluator | None = None
    zones: Evaluator | None = None


NO_EVIDENCE = Evidence()


def plan_scan(
    listing: SourceListing,
    node: Node | None,
    options: ScanOptions,
    kind: type[P],
    cache: MetadataCache | None,
    evidence: Evidence = NO_EVIDENCE,
) -> P:
    """Plan the scan of listed files; see `prune`.

    Parameters
    ----------
    node : the predicate; None for all rows.
    kind : of plan that is made.
    cache : cached footers, to which those read now are added; None for none.
    """
    entries, filesystem, partitions, table, requests = listing
    timezone, ignore_case = options.timezone, options.ignore_case
    request = ScanRequest(node, timezone, ignore_case)
    plan = kind(
        filesystem=filesystem, partitions=partitions, asked=request, decided=node, table=table, requests=requests
    )
    residuals, footers = None, evidence.footers
    if partitions:
        residuals = partitions.make_residuals(node, timezone, ignore_case=ignore_case, strict=False)
    predicate: PruningPredicate | Literal[True] = True if node is None else PruningPredicate(node, timezone)
    if footers is None:
        doubts = () if residuals is None else residuals.doubts
        footers = FileEvaluator(filesystem, cache, options, RowGroupPlanner(doubts))
    levels = (
        None if residuals is None else PartitionEvaluator(predicate, residuals, timezone),
        None if table is None else TableEvaluator(table),
        evidence.index,
        footers,
        evidence.defaults,
        None if node is None else evidence.zones,
    )
    missing = set() if predicate is True else {*predicate.columns}
    files: Iterator[FileScan] = map(FileScan, entries, repeat(predicate))
    with ExitStack() as stack:
        for level in levels:
            if level is not None:
                # Closed here: otherwise its threads would be ended by whichever thread collects garbage.
                files = stack.enter_context(closing(level.evaluate(files, plan)))
        for done, file in enumerate(files):
            plan.requests += file.requests
            plan.bytes_read += file.bytes_read
            if file.missing is not None:
                missing.intersection_update(file.missing)
            if file.plan is not None:
                plan.files.append(file.plan)
            if file.error is not None:
                if options.on_error is None:
                    raise file.error
                options.on_error(file.error)
            if options.progress:
                options.progress(done + 1, len(entries))
    for name in sorted(map(find_column_of, missing)) if plan.files else ():
        if not (options.named and options.named(name)):
            paths = [entry.path for entry in entries]
            raise make_unknown_column_error(name, paths, partitions, filesystem=filesystem, cache=cache)
    return plan
