"""Plan a scan: from a predicate to the row groups to read."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ParquetBloomError
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...file.statistics import ColumnCompatibility, FileStatistics, file_statistics
from ...predicate.pruning import PruningPredicate
from ...predicate.tree import Node
from ...storage import Entry, entry_for_identity, is_local, is_url, open_source
from ...util.threads import in_order, processors
from ..model.file_format import open_any
from ..model.file_scan import FileScanResult, ResidualEvaluator
from ..model.named_columns import make_unknown_column_error
from ..model.partitions import Partitions
from ..model.plan import FilePlan, ScanPlan, ScanRequest
from ..model.residual import Residuals
from ..model.schemas import REMOTE_THREADS
from .lake_index import IndexView, apply_index
from .local_batch import evaluate_local
from .object_batch import OBJECTS_PER_BATCH, evaluate_objects
from .parquet import RowGroupPlanner, evaluate_row_groups, make_filter_prober, predicate_columns
from .zones import ZoneView

if TYPE_CHECKING:
    from ...orc import OrcFile

_MAX_FILES_PER_TASK = 16
_LOCAL_FILES_PER_BATCH = 4096


def plan_scan(
    entries: Sequence[Entry],
    node: Node | None,
    partitions: Partitions,
    *,
    filesystem: Any,
    timezone: str,
    cache: MetadataCache | None,
    ignore_case: bool = False,
    progress: Callable[[int, int], None] | None = None,
    on_error: Callable[[ParquetBloomError], None] | None = None,
    threads: int | None = None,
    named: Callable[[str], bool] | None = None,
    trust: ColumnCompatibility | None = None,
    left: Residuals | None = None,
    index: IndexView | None = None,
    zones: ZoneView | None = None,
) -> ScanPlan:
    """Plan the scan of listed files; see `prune`.

    Parameters
    ----------
    node : the predicate; None for all rows.
    partitions : the partition columns of the files.
    named : returns whether a column that no file has is valid all the same.
    trust : which columns of a file are ignored, since an engine reads them as another type.
    left : the residuals of the predicate; None to compute them from `partitions`.
    index : lake index that is queried before files are opened; None for none.
    zones : zone indexes that are queried for the rows of the remaining row groups; None for none.
    """
    predicate = None if node is None else PruningPredicate(node, timezone)
    request = ScanRequest(node, timezone, ignore_case)
    plan = ScanPlan(request.where, filesystem=filesystem, partitions=partitions, asked=request)
    missing = set() if predicate is None else set(predicate.columns)
    if left is None:
        left = partitions.make_residuals(node, timezone, ignore_case=ignore_case, strict=False)
    evaluator = ResidualEvaluator(predicate, left, timezone)
    plan_files = _FilePlanner(
        evaluator, filesystem, ignore_case, cache, threads, trust, fail_fast=on_error is None
    ).plan_files
    if index is not None:
        plan.deletes = index.deletes
    if index is None or node is None:
        results = plan_files(entries)
    else:
        selections = index.select_files(entries, evaluator, timezone, ignore_case, filesystem)
        results = apply_index(entries, selections, plan_files)
        plan.requests, plan.bytes_read, plan.index_doubts = index.requests, index.bytes_read, [*index.doubts]
    with (
        closing(results),  # otherwise its threads would be ended by whichever thread collects garbage
        nullcontext((result, result.plan) for result in results)
        if zones is None or node is None
        else zones.restrict_plans(results, evaluator) as restricted,
    ):
        for done, (result, file_plan) in enumerate(restricted):
            plan.requests += result.requests
            plan.bytes_read += result.bytes_read
            if result.missing is not None:
                missing.intersection_update(result.missing)
            if file_plan is not None:
                plan.files.append(file_plan)
            if result.error is not None:
                if on_error is None:
                    raise result.error
                on_error(result.error)
            if progress:
                progress(done + 1, len(entries))
    if zones is not None and node is not None:
        plan.zone_doubts = zones.finish()
    if cache is not None:
        cache.flush()
    unknown = [name for name in sorted(missing) if plan.files and not (named and named(name))]
    if unknown:
        paths = [entry.path for entry in entries]
        raise make_unknown_column_error(unknown[0], paths, partitions, filesystem=filesystem, cache=cache)
    return plan


class _FilePlanner:
    """Plans files: in batches where possible, and one by one where a file needs a closer look."""

    def __init__(
        self,
        evaluator: ResidualEvaluator,
        filesystem: Any,
        ignore_case: bool,
        cache: MetadataCache | None,
        threads: int | None,
        trust: ColumnCompatibility | None,
        fail_fast: bool,
    ):
        self._evaluator = evaluator
        self._filesystem = filesystem
        self._ignore_case = ignore_case
        self._cache = cache
        self._threads = threads
        self._trust = trust
        self._fail_fast = fail_fast
        self._planners: dict[int, RowGroupPlanner] = {}

    def plan_files(self, files: Sequence[Entry]) -> Generator[FileScanResult, None, None]:
        """Plan files, in their order."""
        local = is_local(self._filesystem)
        for is_remote, group in groupby(files, lambda entry: not local or is_url(entry.path)):
            yield from self._plan_group(list(group), is_remote)

    def _plan_group(self, files: list[Entry], is_remote: bool) -> Iterator[FileScanResult]:
        """Plan files that are all local or all remote."""
        threads = self._threads or (REMOTE_THREADS if is_remote else 1)
        batch_size = OBJECTS_PER_BATCH if is_remote else _LOCAL_FILES_PER_BATCH
        for start in range(0, len(files), batch_size):
            batch = files[start : start + batch_size]
            results = self._plan_batch(batch, is_remote)
            remaining = [entry for i, entry in enumerate(batch) if i not in results]
            # Handing a task to a thread costs as much as planning a file that is in memory: a task is several files.
            length = 1 if is_remote else max(1, min(_MAX_FILES_PER_TASK, -(-len(remaining) // threads)))
            with closing(self._plan_one_by_one(remaining, threads, length)) as others:
                for i in range(len(batch)):
                    yield results[i] if i in results else next(others)

    def _plan_batch(self, files: list[Entry], is_remote: bool) -> dict[int, FileScanResult]:
        """Plan the files that can be evaluated as a batch, by position; entries of the others may be replaced."""
        if is_remote and len(files) < 2:  # a single file may be in the cache, and then needs no listing
            return {}
        groups: dict[int, tuple[PruningPredicate | Literal[True], list[int]]] = {}
        results: dict[int, FileScanResult] = {}
        common = self._evaluator.common
        for i, entry in enumerate(files if common is None else ()):
            predicate = self._evaluator.predicate_for(entry.path)
            if predicate is False:
                results[i] = self._plan_unopened(entry.path)
            else:
                groups.setdefault(id(predicate), (predicate, []))[1].append(i)
        if common is not None:
            groups[id(common)] = common, list(range(len(files)))
        threads = self._threads or processors()
        for predicate, positions in groups.values():
            paths = [files[i].path for i in positions]
            planner = self._planner_for(predicate)
            if is_remote:
                members = [files[i] for i in positions]
                evaluated, errors, entries = evaluate_objects(
                    members, predicate, self._cache, self._ignore_case, self._trust, self._fail_fast, self._threads
                )
                results |= {positions[j]: FileScanResult(error=error) for j, error in errors.items()}
                for j, entry in entries.items():
                    files[positions[j]] = entry
            else:
                evaluated = evaluate_local(paths, predicate, self._cache, self._ignore_case, threads, self._trust)
            for j, result in evaluated.items():
                row_groups = planner.plan(result.statistics, result.verdicts)
                plan = FilePlan(paths[j], row_groups, identity=result.identity)
                cost = result.requests, result.bytes_read
                results[positions[j]] = FileScanResult(result.statistics.missing, plan, None, *cost, result.statistics)
        return results

    def _plan_unopened(self, path: str) -> FileScanResult:
        """Plan a file that its partition values rule out."""
        return FileScanResult((), FilePlan(path, (), self._evaluator.residuals.told(path)))

    def _planner_for(self, predicate: PruningPredicate | Literal[True]) -> RowGroupPlanner:
        doubts = tuple(self._evaluator.residuals.doubts)
        planner = self._planners.get(id(predicate))
        return planner or self._planners.setdefault(id(predicate), RowGroupPlanner(predicate, doubts))

    def _plan_one_by_one(self, files: list[Entry], threads: int, length: int) -> Generator[FileScanResult, None, None]:
        """Plan files one by one, in several threads; a task is `length` files."""
        tasks = [files[start : start + length] for start in range(0, len(files), length)]
        threads = min(len(tasks), threads)
        results = in_order(self._run_task, tasks, threads) if threads > 1 else nullcontext(map(self._run_task, tasks))
        with results as of_tasks:
            yield from chain.from_iterable(of_tasks)

    def _run_task(self, files: list[Entry]) -> list[FileScanResult]:
        return [self._plan_file(entry) for entry in files]

    def _plan_file(self, entry: Entry) -> FileScanResult:
        predicate = self._evaluator.predicate_for(entry.path)
        if predicate is False:
            return self._plan_unopened(entry.path)
        if self._cache is not None and (entry.known is None or entry.known.e_tag is None):
            cached = entry_for_identity(entry.path, self._filesystem, self._cache.last_identity(entry.path))
            if cached is not None:
                result = self._open_and_plan(cached, predicate, verify=True)
                if result.error is None:
                    return result
        return self._open_and_plan(entry, predicate)

    def _open_and_plan(
        self, entry: Entry, predicate: PruningPredicate | Literal[True], verify: bool = False
    ) -> FileScanResult:
        """Open and plan a file; `verify` checks afterwards that an object is still the cached version."""
        result = FileScanResult()
        try:
            with open_source(entry.path, self._filesystem, entry) as source:
                try:
                    file = open_any(source, self._cache)
                    if isinstance(file, BloomFile):
                        result.missing, result.plan, result.statistics = self._plan_parquet(file, entry.path, predicate)
                    else:
                        result.missing, result.plan = self._plan_orc(file, entry.path, predicate)
                    if verify:
                        source.check_unchanged()
                finally:
                    result.requests, result.bytes_read = source.requests, source.bytes_read
        except ParquetBloomError as error:
            result.error = error
        return result

    def _plan_parquet(
        self, file: BloomFile, path: str, predicate: PruningPredicate | Literal[True]
    ) -> tuple[tuple[str, ...], FilePlan, FileStatistics]:
        statistics = file_statistics(file, predicate_columns(predicate), self._ignore_case, self._trust)
        verdicts = evaluate_row_groups(statistics, predicate, make_filter_prober(file, statistics))
        row_groups = self._planner_for(predicate).plan(statistics, verdicts)
        return statistics.missing, FilePlan(path, row_groups, identity=file.source.identity), statistics

    def _plan_orc(
        self, file: OrcFile, path: str, predicate: PruningPredicate | Literal[True]
    ) -> tuple[tuple[str, ...], FilePlan]:
        # Not at the top: most lakes have no ORC files.
        from .orc import plan_orc_file

        planner = self._planner_for(predicate)
        return plan_orc_file(file, path, predicate, planner, self._ignore_case, self._trust)
