"""What lookups of a dataset keep between calls: an open index, and the state of the files that it was checked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import pyarrow as pa

from ...lake.index import LakeIndex
from ...lake.expressions import find_tuples
from ...lake.reports import FileSelection
from ...storage import Entry, as_path_list, is_local, list_entries
from ...util.arrow_values import empty_table
from ..evaluate.lake_index import remove_row_groups
from ..evaluate.planner import plan_scan
from ..model.file_scan import FileScan
from ..model.partitions import parse_partitions
from ..model.plan import ScanPlan
from ..source import ScanSource
from .keys import Keys
from .known_file import KnownFiles
from .watch import LakeWatch

_MOST_FILES = 8  # that are read without a plan


class LookupSession:
    """Plans lookups of a dataset by its index; thread-safe.

    Parameters
    ----------
    source : of the dataset, with an index.
    """

    def __init__(self, source: ScanSource):
        self._source = source
        self._index: LakeIndex | None = None
        self._watch: LakeWatch | None = None
        self._lock = threading.Lock()
        self._known = KnownFiles(source.cache)
        self._is_plain = is_local(source.filesystem, as_path_list(source.paths or ())) and source.zones is None

    def plan(self, keys: Keys, timezone: str, threads: int | None = None) -> ScanPlan | None:
        """Plan the scan for some keys; None if the index cannot say which files may have them."""
        source, columns = self._source, self._source.partition_columns
        index = self._open()
        known = [] if columns is None else columns.names
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
        roots = index.state.manifest.lake.get("paths", ()) if source.paths is None else source.paths
        answers = [index.state.select(column, literals, timezone, index.remote) for column, literals in indexed]
        paths = sorted(set.intersection(*(set(answer.files) for answer in answers)))
        plan = plan_scan(
            [Entry(path) for path in paths],
            keys.node,
            parse_partitions(paths, source.partitioning, roots, columns),
            filesystem=source.filesystem,
            timezone=timezone,
            cache=source.cache,
            threads=threads,
            named=lambda _: True,
            index=_CandidateEvaluator(answers[0].files),
        )
        plan.requests += sum(answer.requests for answer in answers)
        plan.bytes_read += sum(answer.bytes_read for answer in answers)
        plan.index_doubts = list(dict.fromkeys(doubt for answer in answers for doubt in answer.doubts))
        return plan

    def read(self, keys: Keys, schema: pa.Schema, timezone: str) -> pa.Table | None:
        """Read the rows of one key out of few files; None if the general way has to.

        Whether the lake's files are still the same is found out meanwhile.

        Parameters
        ----------
        schema : of the result.
        """
        index, watch, columns = self._index, self._watch, self._source.partition_columns
        if isinstance(self._source.index, LakeIndex) and self._source.paths is None:
            index = self._source.index
        elif watch is None:
            return None
        if index is None or not self._is_plain or (columns is not None and len(columns)) or len(keys.columns) != 1:
            return None
        column, literal = keys.columns[0], keys.literals[0][0]
        if not index.state.manifest.has_column(column) or index.remote:
            return None
        with nullcontext() if watch is None else watch.check() as check:
            rows = self._read_files(index, column, literal, timezone, schema)
        return rows if check is None or check.is_current() else None

    def _read_files(
        self, index: LakeIndex, column: str, literal: Any, timezone: str, schema: pa.Schema
    ) -> pa.Table | None:
        selected = index.state.select(column, [literal], timezone, remote=False)
        if selected.doubts or len(selected.files) > _MOST_FILES:
            return None
        tables = [empty_table(schema)]
        for path in sorted(selected.files):
            selection = selected.files[path]
            known = self._known.find(path, None if selection is None else selection.stamp)
            row_groups = None if selection is None else selection.row_groups
            rows = None if known is None else known.read(row_groups, column, literal, timezone, schema)
            if rows is None:
                return None
            tables.append(rows)
        return tables[1] if len(tables) == 2 else pa.concat_tables(tables)

    def _open(self) -> LakeIndex:
        """Return the index, opened for the files as they are now; one that was given for its own files is as it is."""
        source = self._source
        if isinstance(source.index, LakeIndex) and source.paths is None:
            return source.index
        with self._lock:
            if self._index is None or self._watch is None or not self._watch.is_current():
                self._watch = None
                watch = self._make_watch()
                if self._index is None:
                    self._index = self._open_index()
                else:
                    self._index.refresh()
                self._watch = watch  # of a state before the index was checked for it
            return self._index

    def _open_index(self) -> LakeIndex:
        source = self._source
        given: Any = source.index
        path = given.path if isinstance(given, LakeIndex) else given
        options = {"filesystem": source.filesystem, "lake_filesystem": source.filesystem}
        return LakeIndex.open(path, lake=source.paths, **options)

    def _make_watch(self) -> LakeWatch | None:
        """Return the state of the files now; None where that takes a listing each time."""
        source = self._source
        roots = as_path_list(source.paths)
        if source.paths is None or not is_local(source.filesystem, roots):
            return None
        files = [entry.path for entry in list_entries(source.paths, source.filesystem)]
        return LakeWatch([os.path.abspath(root) for root in roots], files)


class _CandidateEvaluator:
    """Leaves of each file the row groups that an index names; see `Evaluator`."""

    def __init__(self, files: Mapping[str, FileSelection | None]):
        self._files = files

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`."""
        for file in files:
            selection = self._files[file.entry.path]
            if selection is not None:
                file.narrow = partial(remove_row_groups, selection=selection)
            yield file
