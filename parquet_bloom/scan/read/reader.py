"""Read the rows that match a predicate: selected row groups are read, and filtered exactly."""

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
from ..model.data_file import DataFile, RowFilter
from ..model.partitions import Partitions
from ..model.plan import FilePlan, ScanPlan, refuse_deleted_rows
from ..model.row_selection import RowGroupSelections
from ..model.schemas import map_in_threads, promote_table, unify_schemas
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
    """Read the matching rows of the selected row groups lazily; return their schema and a generator of batches.

    Parameters
    ----------
    report : of `prune`, for the same predicate, timezone and case.
    columns, batch_size : as in `iter_batches`.
    progress : called after each file that is read with (done, in all).
    on_error : called with the error of a file that cannot be read, whose remaining rows are then missing; without it,
        the error is raised.
    """
    reader = _RowReader(node, columns, timezone, report.partitions, ignore_case)
    filesystem = report.filesystem

    def read_schema(plan: FilePlan) -> pa.Schema | ParquetBloomError:
        try:
            with open_version(plan.path, filesystem, SHARED_CACHE, plan.identity) as file:
                return reader.read_schema(file)
        except ParquetBloomError as error:
            if on_error is None:
                raise
            return error

    plans, schemas = [], []
    to_open = _files_to_open(report)
    remote = not is_local(filesystem, [plan.path for plan in to_open])
    for plan, result in zip(to_open, map_in_threads(read_schema, to_open, remote=remote), strict=True):
        if isinstance(result, ParquetBloomError):
            assert on_error is not None
            on_error(result)
        else:
            plans.append(plan)
            schemas.append(result)
    schemas += reader.projection.find_elsewhere([plan.path for plan in report.files], filesystem)
    schema = reader.projection.add_partitions(unify_schemas(schemas).empty_table()).schema if schemas else pa.schema([])

    def read_batches() -> Generator[pa.RecordBatch, None, None]:
        for done, plan in enumerate(plans):
            try:
                for table in reader.read_file(plan, filesystem):
                    yield from promote_table(table, schema).combine_chunks().to_batches(max_chunksize=batch_size)
            except ParquetBloomError as error:
                if on_error is None:
                    raise
                on_error(error)
            if progress:
                progress(done + 1, len(plans))

    return schema, read_batches()


def read_selected(
    report: ScanPlan,
    node: Node,
    columns: Sequence[str] | None = None,
    *,
    filesystem: Any = None,
    timezone: str = "UTC",
) -> pa.Table:
    """Read the matching rows of the selected row groups; see `read_table`."""
    reader = _RowReader(node, columns, timezone, report.partitions)
    to_open = _files_to_open(report)
    if is_local(filesystem, [plan.path for plan in to_open]):
        tables = [reader.read_table(plan, filesystem) for plan in to_open]
    else:  # each takes several consecutive requests, which are waited for
        tables = map_in_threads(lambda plan: reader.read_table(plan, filesystem), to_open, remote=True)
    elsewhere = reader.projection.find_elsewhere([plan.path for plan in report.files], filesystem)
    tables += [schema.empty_table() for schema in elsewhere]
    if not tables:
        return pa.table({})
    schema = unify_schemas(table.schema for table in tables)
    return pa.concat_tables([promote_table(table, schema) for table in tables])


def make_match_counter(report: ScanPlan) -> Callable[[FilePlan], dict[int, int]]:
    """Return a function that counts the matching rows of each selected row group of a file.

    It reads the predicate's columns alone, and raises ConcurrentChangeError for a file that has changed since `prune`.
    """
    request = report.asked
    assert request is not None, "the report is not prune's"
    reader = _RowReader(request.node, None, request.timezone, report.partitions, request.ignore_case)

    def count_matches(plan: FilePlan) -> dict[int, int]:
        refuse_deleted_rows(plan.path, report.deletes)
        with open_version(plan.path, report.filesystem, SHARED_CACHE, plan.identity) as file:
            if plan.identity is not None and file.source.identity != plan.identity:
                raise ConcurrentChangeError("another writer changed it meanwhile", path=file.path)
            return dict(reader.count_matches(file, plan.selected))

    return count_matches


def _files_to_open(report: ScanPlan) -> list[FilePlan]:
    """Return the files with a row group to read; if there are none, the first file, for its schema alone."""
    selected = [plan for plan in report.files if plan.selected]
    for plan in selected:
        refuse_deleted_rows(plan.path, report.deletes)
    return selected or report.files[:1]


class _RowReader:
    """Reads the rows that match a predicate from files; partition values answer their part of it.

    Attributes
    ----------
    projection : the columns of the result.
    """

    def __init__(
        self,
        node: Node,
        columns: Sequence[str] | None,
        timezone: str,
        partitions: Partitions,
        ignore_case: bool = False,
    ):
        self.projection = Projection(columns, partitions, ignore_case)
        self._timezone = timezone
        residuals = partitions.make_residuals(node, timezone, ignore_case=ignore_case)
        self._evaluator = FileResidualEvaluator(residuals, timezone, ignore_case)
        self._probes: Probes = {}

    def read_schema(self, file: DataFile) -> pa.Schema:
        """Return the schema of the columns read of a file, without partition columns and columns that it lacks."""
        projection = self.projection.project(file)
        return pa.schema([]) if projection.is_counter and projection.absent else projection.schema

    def read_table(self, plan: FilePlan, filesystem: Any) -> pa.Table:
        """Read the matching rows of a file; columns that it does not have are null."""
        tables = list(self.read_file(plan, filesystem))
        if not tables:
            with open_version(plan.path, filesystem, SHARED_CACHE, plan.identity) as file:
                return self.projection.add_partitions(self.read_schema(file).empty_table())
        return pa.concat_tables(tables) if len(tables) > 1 else tables[0]

    def read_file(self, plan: FilePlan, filesystem: Any) -> Iterator[pa.Table]:
        """Read the matching rows of a file by row group; of all row groups if the file has changed since its plan."""
        has_begun = False
        try:
            with open_version(plan.path, filesystem, SHARED_CACHE, plan.identity) as file:
                for table in self.read_matches(file, plan.selections_in(file)):
                    has_begun = True
                    yield table
                return
        except ConcurrentChangeError:
            if has_begun:
                raise
        with open_file(plan.path, filesystem, SHARED_CACHE) as file:
            yield from self.read_matches(file, plan.selections_in(file))

    def read_matches(self, file: DataFile, selections: RowGroupSelections) -> Iterator[pa.Table]:
        """Read the matching rows of some row groups, a table for each that has any."""
        predicate = self._evaluator.predicate_for(file)
        if predicate is False:
            return
        projection = self.projection.project(file)
        for table in file.read_matches(selections, self._make_filter(predicate), projection):
            yield self.projection.add_partitions(self.projection.add_absent(table, projection), file.path)

    def count_matches(self, file: DataFile, row_groups: list[int]) -> Iterator[tuple[int, int]]:
        """Count the matching rows of each row group."""
        return file.count_matches(row_groups, self._make_filter(self._evaluator.predicate_for(file)))

    def _make_filter(self, predicate: PruningPredicate | bool) -> RowFilter:
        return RowFilter(predicate, self._timezone, self._probes)
