"""From a predicate to the row groups worth reading."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ParquetBloomError, UnknownColumnError
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...file.statistics import ColumnCompatibility, FileStatistics, file_statistics
from ...predicate.pruning import PruningPredicate
from ...predicate.tree import Node
from ...storage import Entry, entry_for_identity, is_local, is_url, open_source
from ...util.threads import in_order, processors
from ..model.decision import FilePlan, ScanPlan, ScanRequest
from ..model.file_format import open_any
from ..model.file_scan import FileScanResult, ResidualEvaluator
from ..model.partitions import Partitions
from ..model.residual import Residuals
from ..model.schemas import REMOTE_THREADS
from .lake_index import IndexView, apply_index
from .local_batch import judge_local
from .object_batch import TOGETHER, judge_objects
from .parquet import Decisions, ask_file, columns_of, judge
from .zones import ZoneView

if TYPE_CHECKING:
    from ...orc import OrcFile

_RUN = 16  # files that a thread is handed at a time
_TOGETHER = 4096  # local files that are judged at a time


def prune_entries(
    entries: Sequence[Entry],
    node: Node,
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
    """`prune` for files that were listed, and folders that were read.

    Parameters
    ----------
    partitions : the columns that the files' folders give.
    named : whether a column that no file has is no mistake all the same.
    trust : which columns of a file are not looked at, since an engine reads them as something else.
    left : what folders have left of the predicate; None to work it out from `partitions`.
    index : what is asked before files are opened; None for nothing.
    zones : what is asked about the rows of row groups that are read; None for nothing.
    """
    decider = PruningPredicate(node, timezone)
    report = ScanPlan(
        str(node), filesystem=filesystem, partitions=partitions, asked=ScanRequest(node, timezone, ignore_case)
    )
    missing = set(decider.columns)
    if left is None:
        left = partitions.left_of(node, timezone, ignore_case=ignore_case, strict=False)
    deciders = ResidualEvaluator(decider, left, timezone)
    look = _Looker(deciders, filesystem, ignore_case, cache, threads, trust, on_error is None).look
    if index is None:
        looks = look(entries)
    else:
        looks = apply_index(entries, index.choose(entries, deciders, timezone, ignore_case, filesystem), look)
        report.requests, report.bytes_read, report.index_doubts = index.requests, index.bytes_read, [*index.doubts]
        report.deletes = index.deletes
    with (
        closing(looks),  # else whichever thread collects garbage would end the others, or itself
        nullcontext((found, found.decision) for found in looks)
        if zones is None
        else zones.narrowing(looks, deciders) as narrowed,
    ):
        for done, (found, decided) in enumerate(narrowed):
            report.requests += found.requests
            report.bytes_read += found.bytes_read
            if found.missing is not None:
                missing.intersection_update(found.missing)
            if decided is not None:
                report.files.append(decided)
            if found.error is not None:
                if on_error is None:
                    raise found.error
                on_error(found.error)
            if progress:
                progress(done + 1, len(entries))
    if zones is not None:
        report.zone_doubts = zones.finish()
    if cache is not None:
        cache.flush()
    unknown = [name for name in sorted(missing) if report.files and not (named and named(name))]
    if unknown:
        several = f" in any of {len(entries):,} files" if len(entries) > 1 else ""
        path = None if several else entries[0].path
        raise UnknownColumnError(f"no such column{several}", path=path, column=unknown[0])
    return report


class _Looker:
    """Looks at files: at local ones many at a time, at the others, and where anything is odd, one by one."""

    def __init__(
        self,
        deciders: ResidualEvaluator,
        filesystem: Any,
        ignore_case: bool,
        cache: MetadataCache | None,
        threads: int | None,
        trust: ColumnCompatibility | None,
        fail_fast: bool,
    ):
        self._deciders = deciders
        self._filesystem = filesystem
        self._ignore_case = ignore_case
        self._cache = cache
        self._threads = threads
        self._trust = trust
        self._fail_fast = fail_fast
        self._decisions: dict[int, Decisions] = {}

    def look(self, files: Sequence[Entry]) -> Generator[FileScanResult, None, None]:
        """Look at files, in their order."""
        local = is_local(self._filesystem)
        for is_remote, group in groupby(files, lambda entry: not local or is_url(entry.path)):
            yield from self._in_batches(list(group), is_remote)

    def _in_batches(self, files: list[Entry], is_remote: bool) -> Iterator[FileScanResult]:
        threads = self._threads or (REMOTE_THREADS if is_remote else 1)
        together = TOGETHER if is_remote else _TOGETHER
        for start in range(0, len(files), together):
            some = files[start : start + together]
            looks = self._judged(some, is_remote)
            left = [entry for place, entry in enumerate(some) if place not in looks]
            # To hand over a file to a thread takes as long as to look at one that is in memory: they go by several.
            run = 1 if is_remote else max(1, min(_RUN, -(-len(left) // threads)))
            with closing(self._look_at_all(left, threads, run)) as others:
                for place in range(len(some)):
                    yield looks[place] if place in looks else next(others)

    def _judged(self, files: list[Entry], is_remote: bool) -> dict[int, FileScanResult]:
        """Looks at those files that can be judged together, by their places; entries of others may be replaced."""
        if is_remote and len(files) < 2:  # one by one it may be known again without a listing
            return {}
        of_deciders: dict[int, tuple[PruningPredicate | Literal[True], list[int]]] = {}
        looks: dict[int, FileScanResult] = {}
        same = self._deciders.of_all
        for place, entry in enumerate(files if same is None else ()):
            decider = self._deciders.of(entry.path)
            if decider is False:
                looks[place] = self._unopened(entry.path)
            else:
                of_deciders.setdefault(id(decider), (decider, []))[1].append(place)
        if same is not None:
            of_deciders[id(same)] = same, list(range(len(files)))
        threads = self._threads or processors()
        for decider, places in of_deciders.values():
            paths = [files[place].path for place in places]
            decisions = self._decisions_of(decider)
            if is_remote:
                some = [files[place] for place in places]
                found, errors, entries = judge_objects(
                    some, decider, self._cache, self._ignore_case, self._trust, self._fail_fast, self._threads
                )
                looks |= {places[number]: FileScanResult(error=error) for number, error in errors.items()}
                for number, entry in entries.items():
                    files[places[number]] = entry
            else:
                found = judge_local(paths, decider, self._cache, self._ignore_case, threads, self._trust)
            for number, evaluate_orc in found.items():
                row_groups = decisions.of(evaluate_orc.facts, evaluate_orc.verdicts)
                decision = FilePlan(paths[number], row_groups, identity=evaluate_orc.identity)
                cost = evaluate_orc.requests, evaluate_orc.bytes_read
                looks[places[number]] = FileScanResult(
                    evaluate_orc.facts.missing, decision, None, *cost, evaluate_orc.facts
                )
        return looks

    def _unopened(self, path: str) -> FileScanResult:
        """A file whose folders rule it out."""
        return FileScanResult((), FilePlan(path, (), self._deciders.residuals.told(path)))

    def _decisions_of(self, decider: PruningPredicate | Literal[True]) -> Decisions:
        doubts = tuple(self._deciders.residuals.doubts)
        return self._decisions.get(id(decider)) or self._decisions.setdefault(id(decider), Decisions(decider, doubts))

    def _look_at_all(self, files: list[Entry], threads: int, length: int) -> Generator[FileScanResult, None, None]:
        """Look at files one by one, by threads that are handed so many at a time."""
        runs = [files[start : start + length] for start in range(0, len(files), length)]
        threads = min(len(runs), threads)
        looks = in_order(self._look_at_run, runs, threads) if threads > 1 else nullcontext(map(self._look_at_run, runs))
        with looks as found:
            yield from chain.from_iterable(found)

    def _look_at_run(self, files: list[Entry]) -> list[FileScanResult]:
        return [self._look_at(entry) for entry in files]

    def _look_at(self, entry: Entry) -> FileScanResult:
        decider = self._deciders.of(entry.path)
        if decider is False:
            return self._unopened(entry.path)
        if self._cache is not None and (entry.known is None or entry.known.e_tag is None):
            known = entry_for_identity(entry.path, self._filesystem, self._cache.last_identity(entry.path))
            if known is not None:
                found = self._look_inside(known, decider, verify=True)
                if found.error is None:
                    return found
        return self._look_inside(entry, decider)

    def _look_inside(
        self, entry: Entry, decider: PruningPredicate | Literal[True], verify: bool = False
    ) -> FileScanResult:
        """Look at a file; with `verify` an object that may be another one by now."""
        found = FileScanResult()
        try:
            with open_source(entry.path, self._filesystem, entry) as source:
                try:
                    file = open_any(source, self._cache)
                    if isinstance(file, BloomFile):
                        found.missing, found.decision, found.facts = self._parquet(file, entry.path, decider)
                    else:
                        found.missing, found.decision = self._orc(file, entry.path, decider)
                    if verify:
                        source.check_unchanged()
                finally:
                    found.requests, found.bytes_read = source.requests, source.bytes_read
        except ParquetBloomError as error:
            found.error = error
        return found

    def _parquet(
        self, file: BloomFile, path: str, decider: PruningPredicate | Literal[True]
    ) -> tuple[tuple[str, ...], FilePlan, FileStatistics]:
        facts = file_statistics(file, columns_of(decider), self._ignore_case, self._trust)
        row_groups = self._decisions_of(decider).of(facts, judge(facts, decider, ask_file(file, facts)))
        return facts.missing, FilePlan(path, row_groups, identity=file.source.identity), facts

    def _orc(
        self, file: OrcFile, path: str, decider: PruningPredicate | Literal[True]
    ) -> tuple[tuple[str, ...], FilePlan]:
        # Not at the top: a lake without ORC files does without.
        from .orc import evaluate_orc

        return evaluate_orc(file, path, decider, self._decisions_of(decider), self._ignore_case, self._trust)
