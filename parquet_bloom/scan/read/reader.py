"""Read the rows that match a predicate: selected row groups are read, and filtered exactly."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from ...errors import ConcurrentChangeError, ParquetBloomError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...file.statistics import ColumnCompatibility
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import Probes
from ...storage import is_local
from ..model.columns import FileResidualEvaluator
from ..model.data_file import DataFile, RowFilter
from ..model.plan import FilePlan, ScanPlan, refuse_deleted_rows
from ..model.row_selection import RowGroupSelections
from ..model.schemas import map_in_threads, promote_table, unify_schemas
from .open import open_file, open_version
from .projection import Projection

BATCH_ROWS = 65_536


class RowReader:
    """Reads the rows that match the predicate of a plan; partition values answer their part of it.

    Parameters
    ----------
    plan : of the files, with its request.
    columns : top-level columns or dotted leaves of the result; None for all.
    schema : of the result; None for the unified schema of the files that are read.
    cache : of footers.
    trust : the columns that a dataset shows as other values than a file stores: their comparisons are left to its
        engine.
    """

    def __init__(
        self,
        plan: ScanPlan,
        columns: Sequence[str] | None = None,
        *,
        schema: pa.Schema | None = None,
        cache: MetadataCache | None = SHARED_CACHE,
        trust: ColumnCompatibility | None = None,
    ):
        request = plan.asked
        assert request is not None, "the report is not prune's"
        self._plan = plan
        self._filesystem = plan.filesystem
        self._cache = cache
        self._schema = schema
        self._projection = Projection(columns, plan.partitions, request.ignore_case)
        self._timezone = request.timezone
        residuals = plan.partitions.make_residuals(request.node, request.timezone, ignore_case=request.ignore_case)
        self._evaluator = FileResidualEvaluator(residuals, request.timezone, request.ignore_case, trust)
        self._probes: Probes = {}

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the result. The selected files are opened for it, unless it was given."""
        return self._find_schema(None)

    def read_batches(
        self,
        batch_size: int = BATCH_ROWS,
        *,
        progress: Callable[[int, int], None] | None = None,
        on_error: Callable[[ParquetBloomError], None] | None = None,
    ) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
        """Read the rows lazily; return their schema and a generator of batches.

        Parameters
        ----------
        batch_size : maximum rows of a batch; a batch has rows of one row group, and is never empty.
        progress : called after each file that is read with (done, in all).
        on_error : called with the error of a file that cannot be read, whose remaining rows are then missing; without
            it, the error is raised.
        """
        plans = self._files_to_open()
        failed: set[str] = set()

        def fail(error: ParquetBloomError, plan: FilePlan) -> None:
            if on_error is None:
                raise error
            failed.add(plan.path)
            on_error(error)

        schema = self._find_schema(None if on_error is None else fail)

        def read_batches() -> Generator[pa.RecordBatch, None, None]:
            for done, plan in enumerate(plans):
                try:
                    for table in self._read_file(plan) if plan.path not in failed else ():
                        yield from promote_table(table, schema).combine_chunks().to_batches(max_chunksize=batch_size)
                except ParquetBloomError as error:
                    error.path = error.path or plan.path  # rows that do not fit are no one's until now
                    fail(error, plan)
                if progress:
                    progress(done + 1, len(plans))

        return schema, read_batches()

    def read_table(self) -> pa.Table:
        """Read all rows."""
        plans = self._files_to_open()
        if is_local(self._filesystem, [plan.path for plan in plans]):
            tables = [self._read_table(plan) for plan in plans]
        else:  # each takes several consecutive requests, which are waited for
            tables = map_in_threads(self._read_table, plans, remote=True)
        schema = self._schema
        if schema is None:
            tables += [one.empty_table() for one in self._find_elsewhere()]
            schema = unify_schemas(table.schema for table in tables) if tables else pa.schema([])
        return pa.concat_tables([schema.empty_table(), *(promote_table(table, schema) for table in tables)])

    def count_matches(self, plan: FilePlan) -> dict[int, int]:
        """Count the matching rows of each selected row group of a file, reading the predicate's columns alone.

        Raises
        ------
        ConcurrentChangeError
            The file has changed since it was planned.
        """
        refuse_deleted_rows(plan.path, self._plan.deletes)
        with open_version(plan.path, self._filesystem, self._cache, plan.identity) as file:
            if plan.identity is not None and file.source.identity != plan.identity:
                raise ConcurrentChangeError("another writer changed it meanwhile", path=file.path)
            row_filter = self._make_filter(self._evaluator.predicate_for(file))
            return dict(file.count_matches(plan.selected, row_filter))

    def _files_to_open(self) -> list[FilePlan]:
        """Return the files with a row group to read; if there are none, the first file, for its schema alone."""
        selected = [plan for plan in self._plan.files if plan.selected]
        for plan in selected:
            refuse_deleted_rows(plan.path, self._plan.deletes)
        return selected if selected or self._schema is not None else self._plan.files[:1]

    def _find_schema(self, fail: Callable[[ParquetBloomError, FilePlan], None] | None) -> pa.Schema:
        if self._schema is not None:
            return self._schema
        plans = self._files_to_open()

        def read_schema(plan: FilePlan) -> pa.Schema | ParquetBloomError:
            try:
                with open_version(plan.path, self._filesystem, self._cache, plan.identity) as file:
                    return self._file_schema(file)
            except ParquetBloomError as error:
                if fail is None:
                    raise
                return error

        schemas = []
        remote = not is_local(self._filesystem, [plan.path for plan in plans])
        for plan, result in zip(plans, map_in_threads(read_schema, plans, remote=remote), strict=True):
            if isinstance(result, ParquetBloomError):
                assert fail is not None
                fail(result, plan)
            else:
                schemas.append(result)
        schemas += self._find_elsewhere()
        if not schemas:
            return pa.schema([])
        return self._projection.add_partitions(unify_schemas(schemas).empty_table()).schema

    def _find_elsewhere(self) -> list[pa.Schema]:
        return self._projection.find_elsewhere([plan.path for plan in self._plan.files], self._filesystem)

    def _file_schema(self, file: DataFile) -> pa.Schema:
        """Return the schema of the columns read of a file, without partition columns and columns that it lacks."""
        projection = self._projection.project(file)
        return pa.schema([]) if projection.is_counter and projection.absent else projection.schema

    def _read_table(self, plan: FilePlan) -> pa.Table:
        """Read the matching rows of a file; columns that it does not have are null."""
        tables = list(self._read_file(plan))
        if not tables:
            with open_version(plan.path, self._filesystem, self._cache, plan.identity) as file:
                return self._projection.add_partitions(self._file_schema(file).empty_table())
        return pa.concat_tables(tables) if len(tables) > 1 else tables[0]

    def _read_file(self, plan: FilePlan) -> Iterator[pa.Table]:
        """Read the matching rows of a file by row group; of all row groups if the file has changed since its plan."""
        has_begun = False
        try:
            with open_version(plan.path, self._filesystem, self._cache, plan.identity) as file:
                for table in self._read_matches(file, plan.selections_in(file)):
                    has_begun = True
                    yield table
                return
        except ConcurrentChangeError:
            if has_begun:
                raise
        with open_file(plan.path, self._filesystem, self._cache) as file:
            yield from self._read_matches(file, plan.selections_in(file))

    def _read_matches(self, file: DataFile, selections: RowGroupSelections) -> Iterator[pa.Table]:
        """Read the matching rows of some row groups, a table for each that has any."""
        predicate = self._evaluator.predicate_for(file)
        if predicate is False:
            return
        projection = self._projection.project(file)
        for table in file.read_matches(selections, self._make_filter(predicate), projection):
            yield self._projection.add_partitions(self._projection.add_absent(table, projection), file.path)

    def _make_filter(self, predicate: PruningPredicate | bool) -> RowFilter:
        return RowFilter(predicate, self._timezone, self._probes)
