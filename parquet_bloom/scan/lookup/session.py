"""What lookups of a dataset keep between calls: an open index, and the state of the files that it was checked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from ...lake.expressions import find_tuples
from ...lake.index import LakeIndex
from ...lake.reports import FileSelection
from ...lake.snapshot import Selections
from ...storage import Entry, as_path_list, entry_for_identity, is_local, list_entries
from ...util.arrow_values import empty_table
from ..model.plan import FileScan, ScanPlan
from ..options import ScanOptions
from ..plan.index import narrow_by_index
from ..plan.planner import plan_scan
from ..source import ScanSource
from .keys import Keys
from .known_file import KnownFiles
from .watch import LakeWatch, ListedWatch, LocalWatch

_MOST_FILES = 8  # that are read without a plan


class LookupSession:
    """Keeps the index of a dataset open; thread-safe.

    Parameters
    ----------
    source : of the dataset, with an index, and of no table.
    """

    def __init__(self, source: ScanSource):
        self._source = source
        self._index: LakeIndex | None = None
        self._watch: LakeWatch | None = None
        self._lock = threading.Lock()
        self._known = KnownFiles(source.filesystem, source.cache)

    @contextmanager
    def begin(self, refresh: bool) -> Iterator[Lookup]:
        """Begin a lookup by the index as it is in memory; whether it is still up to date is found out meanwhile.

        Parameters
        ----------
        refresh : whether to check the index for the files as they are now before it is used.
        """
        source, wait = self._source, None
        if isinstance(source.index, LakeIndex) and source.paths is None:
            index = source.index  # whose files are as of its opening, or of its last refresh
        else:
            with self._lock:
                watch = self._watch
                if refresh or self._index is None or watch is None or not watch.is_settled:
                    self._index = self._refresh()
                else:
                    wait = watch.begin_check()
                index = self._index
        lookup = Lookup(source, index, self._known)
        try:
            yield lookup
        finally:
            if wait is not None:
                lookup.is_current = wait()
            if lookup.has_doubts:  # another process may have removed parts of the index that are not open yet
                self._watch = None

    def plan(self, keys: Keys, options: ScanOptions, *, by_index_alone: bool = False) -> ScanPlan | None:
        """Plan the scan for some keys by the index as it is now; see `Lookup.plan`."""
        with self.begin(refresh=False) as lookup:
            plan = lookup.plan(keys, options, by_index_alone=by_index_alone)
        if not lookup.is_current:
            with self.begin(refresh=True) as lookup:
                plan = lookup.plan(keys, options, by_index_alone=by_index_alone)
        return plan

    def _refresh(self) -> LakeIndex:
        """Return the index, checked for the files as they are now."""
        self._watch = None
        watch = self._make_watch()
        index = self._index
        if index is None:
            index = self._open_index()
        else:
            index.refresh()
        # Of the time before the check. A remote index shows by being opened alone that files were added to it.
        self._watch = None if index.remote and index.unindexed else watch
        return index

    @property
    def _index_path(self) -> str:
        index: Any = self._source.index
        return os.fsdecode(index.path if isinstance(index, LakeIndex) else index)

    def _open_index(self) -> LakeIndex:
        source = self._source
        files = {"filesystem": source.filesystem, "lake_filesystem": source.filesystem}
        return LakeIndex.open(self._index_path, lake=source.paths, **files)

    def _make_watch(self) -> LakeWatch | None:
        """Return the state of the files now; None where it cannot be told from another one."""
        source = self._source
        if source.paths is None:
            return None
        roots = as_path_list(source.paths)
        if is_local(source.filesystem, roots):
            index = self._index_path
            others = [index] if is_local(source.filesystem, [index]) else []
            return LocalWatch(
                [os.path.abspath(root) for root in roots],
                lambda: [*others, *(entry.path for entry in list_entries(source.paths, source.filesystem))],
            )
        return ListedWatch(partial(list_entries, source.paths, source.filesystem))


class Lookup:
    """One lookup.

    Parameters
    ----------
    source : of the dataset.
    index : as it is used.
    known : files that were looked up before.

    Attributes
    ----------
    is_current : at the end, whether the index was up to date.
    has_doubts : whether the index could not be read everywhere.
    """

    def __init__(self, source: ScanSource, index: LakeIndex, known: KnownFiles):
        self.is_current, self.has_doubts = True, False
        self._source = source
        self._index = index
        self._known = known
        self._filesystem = index.lake_filesystem if source.filesystem is None else source.filesystem

    def plan(self, keys: Keys, options: ScanOptions, *, by_index_alone: bool = False) -> ScanPlan | None:
        """Plan the scan for some keys; None if the index cannot say which files may have them.

        Parameters
        ----------
        by_index_alone : do not query the statistics and filters of the files that the index leaves.
        """
        source, index = self._source, self._index
        answers = self._select(keys, options.timezone)
        if answers is None:
            return None
        paths = _intersect(answers)
        roots = index.state.manifest.lake.get("paths", ()) if source.paths is None else source.paths
        plan = plan_scan(
            self._find_entries(paths),
            None if by_index_alone else keys.node,
            source.find_partitions(paths, roots),
            replace(options, named=lambda _: True),
            ScanPlan,
            filesystem=self._filesystem,
            cache=source.cache,
            index=_CandidateEvaluator(answers[0].files),
        )
        plan.requests += sum(answer.requests for answer in answers)
        plan.bytes_read += sum(answer.bytes_read for answer in answers)
        plan.index_doubts = list(dict.fromkeys(doubt for answer in answers for doubt in answer.doubts))
        return plan

    def find_files(self, keys: Keys, timezone: str) -> list[str] | None:
        """Return the files that may have a key, sorted; None if the index cannot say which."""
        answers = self._select(keys, timezone)
        return None if answers is None else _intersect(answers)

    def _select(self, keys: Keys, timezone: str) -> list[Selections] | None:
        """Return what the index says of each of the keys' columns that it has; None if it has none of them."""
        source, index = self._source, self._index
        known = [] if source.partition_columns is None else source.partition_columns.names
        manifest = index.state.manifest
        tuples = find_tuples(manifest.expressions, keys.columns, keys.literals, known)
        covered = {column for key, _ in tuples for column in key.columns}
        indexed: list[tuple[str, Sequence[Any]]] = [
            (column, literals)
            for column, literals in zip(keys.columns, keys.literals, strict=True)
            if manifest.has_column(column) and column not in known and column not in covered
        ]
        indexed = [*tuples, *indexed]
        if not indexed:
            return None
        answers = [index.state.select(column, literals, timezone, index.remote) for column, literals in indexed]
        self.has_doubts |= any(answer.doubts for answer in answers)
        return answers

    def _find_entries(self, paths: Sequence[str]) -> list[Entry]:
        """Return entries of files; those of objects that were opened before need no request to be opened.

        Reads of such an object ask for that version of it: if there is another one, all of that is read.
        """
        cache = self._source.cache
        if cache is None or is_local(self._filesystem, paths):
            return [Entry(path) for path in paths]
        return [entry_for_identity(path, self._filesystem, cache.last_identity(path)) or Entry(path) for path in paths]

    def read(self, keys: Keys, schema: pa.Schema, timezone: str) -> pa.Table | None:
        """Read the rows of one key of one column out of few local files; None if the general way has to.

        Parameters
        ----------
        schema : of the result.
        """
        source, index, columns = self._source, self._index, self._source.partition_columns
        column, literal = keys.columns[0], keys.literals[0][0]
        is_plain = not index.remote and is_local(self._filesystem, as_path_list(source.paths or ()))
        if not is_plain or source.zones is not None or (columns is not None and len(columns)):
            return None
        if not index.state.manifest.has_column(column):
            return None
        selected = index.state.select(column, [literal], timezone, remote=False)
        if selected.doubts or len(selected.files) > _MOST_FILES:
            return None
        tables = [empty_table(schema)]
        for path in sorted(selected.files):
            selection = selected.files[path]
            known = self._known.find(path, None if selection is None else selection.stamp)
            rows = None if known is None else known.read(selection, column, literal, timezone, schema)
            if rows is None:
                return None
            tables.append(rows)
        return tables[1] if len(tables) == 2 else pa.concat_tables(tables)


def _intersect(answers: Sequence[Selections]) -> list[str]:
    return sorted(set.intersection(*(set(answer.files) for answer in answers)))


class _CandidateEvaluator:
    """Leaves of each file the row groups, and rows in them, that an index names; see `Evaluator`."""

    def __init__(self, files: Mapping[str, FileSelection | None]):
        self._files = files

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`."""
        for file in files:
            selection = self._files[file.entry.path]
            if selection is not None:
                # The index says more than statistics and filters would, which take time, or requests.
                file.predicate = True
                file.narrow = partial(narrow_by_index, selection=selection)
            yield file
