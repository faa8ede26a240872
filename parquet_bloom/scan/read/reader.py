"""The rows that match a predicate: surviving row groups read, and filtered exactly."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import pyarrow as pa

from ...errors import ConcurrentChangeError, ParquetBloomError
from ...file.cache.memory import SHARED_CACHE
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import Probes
from ...predicate.tree import Node
from ...storage import is_local
from ..model.columns import FileResidualEvaluator
from ..model.data_file import DataFile, RowFilter, RowGroupSelections
from ..model.decision import FilePlan, ScanPlan, refuse_deleted_rows
from ..model.partitions import Partitions
from ..model.schemas import in_threads, promoted, unified
from .open import open_file, open_version
from .projection import Projection


def iter_selected(
    report: ScanPlan,
    node: Node,
    columns: Sequence[str] | None = None,
    *,
    batch_size: int = 65_536,
    timezone: str = "UTC",
    ignore_case: bool = False,
    progress: Callable[[int, int], None] | None = None,
    on_error: Callable[[ParquetBloomError], None] | None = None,
) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
    """The schema of the matching rows of the row groups that a report has selected, and these rows by and by.

    Parameters
    ----------
    report : of `prune`, for the same predicate, timezone and case.
    columns, batch_size : as in `iter_batches`.
    progress : called after each file that is read with (done, in all).
    on_error : called with the error of a file that cannot be read, whose further rows are then missing; without it,
        the error is raised.
    """
    rows = _Rows(node, columns, timezone, report.partitions, ignore_case)
    filesystem = report.filesystem

    def look(decision: FilePlan) -> pa.Schema | ParquetBloomError:
        try:
            with open_version(decision.path, filesystem, SHARED_CACHE, decision.identity) as file:
                return rows.schema_of(file)
        except ParquetBloomError as error:
            if on_error is None:
                raise
            return error

    decisions, schemas = [], []
    opened = _opened(report)
    remote = not is_local(filesystem, [decision.path for decision in opened])
    for decision, found in zip(opened, in_threads(look, opened, remote=remote), strict=True):
        if isinstance(found, ParquetBloomError):
            assert on_error is not None
            on_error(found)
        else:
            decisions.append(decision)
            schemas.append(found)
    schemas += rows.wanted.elsewhere([decision.path for decision in report.files], filesystem)
    schema = rows.wanted.joined(unified(schemas).empty_table()).schema if schemas else pa.schema([])

    def batches() -> Generator[pa.RecordBatch, None, None]:
        for done, decision in enumerate(decisions):
            try:
                for table in rows.of_file(decision, filesystem):
                    yield from promoted(table, schema).combine_chunks().to_batches(max_chunksize=batch_size)
            except ParquetBloomError as error:
                if on_error is None:
                    raise
                on_error(error)
            if progress:
                progress(done + 1, len(decisions))

    return schema, batches()


def read_selected(
    report: ScanPlan,
    node: Node,
    columns: Sequence[str] | None = None,
    *,
    filesystem: Any = None,
    timezone: str = "UTC",
) -> pa.Table:
    """The matching rows of the row groups that a report has selected; see `read_table`."""
    rows = _Rows(node, columns, timezone, report.partitions)
    opened = _opened(report)
    if is_local(filesystem, [decision.path for decision in opened]):
        tables = [rows.table(decision, filesystem) for decision in opened]
    else:  # each takes several requests, one after the other, and is waited for
        tables = in_threads(lambda decision: rows.table(decision, filesystem), opened, remote=True)
    elsewhere = rows.wanted.elsewhere([decision.path for decision in report.files], filesystem)
    tables += [schema.empty_table() for schema in elsewhere]
    if not tables:
        return pa.table({})
    schema = unified(table.schema for table in tables)
    return pa.concat_tables([promoted(table, schema) for table in tables])


def match_counter(report: ScanPlan) -> Callable[[FilePlan], dict[int, int]]:
    """What tells of a file that a report of `prune` has judged how many rows of each selected row group match.

    No other columns than the predicate's are read. The file being another one by now is a ConcurrentChangeError.
    """
    asked = report.asked
    assert asked is not None, "the report is not prune's"
    rows = _Rows(asked.node, None, asked.timezone, report.partitions, asked.ignore_case)

    def count(decision: FilePlan) -> dict[int, int]:
        refuse_deleted_rows(decision.path, report.deletes)
        with open_version(decision.path, report.filesystem, SHARED_CACHE, decision.identity) as file:
            if decision.identity is not None and file.source.identity != decision.identity:
                raise ConcurrentChangeError("another writer changed it meanwhile", path=file.path)
            return dict(rows.counts(file, decision.selected))

    return count


def _opened(report: ScanPlan) -> list[FilePlan]:
    """The files to open: those with a row group to read, or else one, for its schema alone."""
    selected = [decision for decision in report.files if decision.selected]
    for decision in selected:
        refuse_deleted_rows(decision.path, report.deletes)
    return selected or report.files[:1]


class _Rows:
    """The rows that match a predicate, file by file: what the folders say is theirs, the rest is the files'.

    Attributes
    ----------
    wanted : the columns of the result.
    """

    def __init__(
        self,
        node: Node,
        columns: Sequence[str] | None,
        timezone: str,
        partitions: Partitions,
        ignore_case: bool = False,
    ):
        self.wanted = Projection(columns, partitions, ignore_case)
        self._timezone = timezone
        left = partitions.left_of(node, timezone, ignore_case=ignore_case)
        self._deciders = FileResidualEvaluator(left, timezone, ignore_case)
        self._probes: Probes = {}

    def schema_of(self, file: DataFile) -> pa.Schema:
        """The schema of what a file gives: not of the columns that its folders give, nor of those that it lacks."""
        wanted = self.wanted.of(file)
        return pa.schema([]) if wanted.is_counter and wanted.absent else wanted.schema

    def table(self, decision: FilePlan, filesystem: Any) -> pa.Table:
        """The matching rows of a file; columns that it does not have are null."""
        tables = list(self.of_file(decision, filesystem))
        if not tables:
            with open_version(decision.path, filesystem, SHARED_CACHE, decision.identity) as file:
                return self.wanted.joined(self.schema_of(file).empty_table())
        return pa.concat_tables(tables) if len(tables) > 1 else tables[0]

    def of_file(self, decision: FilePlan, filesystem: Any) -> Iterator[pa.Table]:
        """The matching rows of each row group of a file; of all of them, if it is another one than was judged."""
        begun = False
        try:
            with open_version(decision.path, filesystem, SHARED_CACHE, decision.identity) as file:
                for table in self.matches(file, decision.left_in(file)):
                    begun = True
                    yield table
                return
        except ConcurrentChangeError:
            if begun:
                raise
        with open_file(decision.path, filesystem, SHARED_CACHE) as file:
            yield from self.matches(file, decision.left_in(file))

    def matches(self, file: DataFile, left: RowGroupSelections) -> Iterator[pa.Table]:
        """The matching rows of each row group that has any, of those given and the rows that zones leave of them."""
        decider = self._deciders.of(file)
        if decider is False:
            return
        wanted = self.wanted.of(file)
        for table in file.matching(left, self._question(decider), wanted):
            yield self.wanted.joined(self.wanted.filled(table, wanted), file.path)

    def counts(self, file: DataFile, row_groups: list[int]) -> Iterator[tuple[int, int]]:
        """How many rows of each row group match."""
        return file.counts(row_groups, self._question(self._deciders.of(file)))

    def _question(self, decider: PruningPredicate | bool) -> RowFilter:
        return RowFilter(decider, self._timezone, self._probes)
