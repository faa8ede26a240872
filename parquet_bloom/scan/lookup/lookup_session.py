"""What lookups of a dataset keep between calls: an open index, and the state of the files that it was checked for."""

from __future__ import annotations

import errno
import glob
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from ...errors import ParquetBloomError, StorageError, UnknownColumnError
from ...file.metadata_cache import distinct
from ...lake.expression_keys import find_tuples
from ...lake.index_reports import FileSelection
from ...lake.index_snapshot import Selections
from ...lake.lake_index import LakeIndex
from ...predicate.key_expression import match_keys
from ...storage import Entry, FileIdentity, PathStates, as_path_list, entry_for_identity, is_local, list_entries
from ...util.arrow_values import empty_table, take
from ..model.file_schemas import fit_table
from ..model.scan_plan import FileScan, ScanPlan
from ..named_columns import has_column, make_names_error, select_columns, select_table_columns, suggest_names
from ..plan.index_level import narrow_by_index
from ..plan.plan_scan import plan_scan
from ..row_reader import RowReader
from ..scan_options import ScanOptions
from ..scan_source import ScanSource
from .known_file import KnownFiles
from .lookup_keys import LookupKeys

_FEW = 128  # local files are compared faster than by two threads
_MAX_CHECKS = 4  # that run at a time, of lookups of one session

T = TypeVar("T")


class CheckThreads:
    """Threads that compare files while lookups go on. They are made when they are first used, and end with this object.

    `submit` must not be called by two threads at a time.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None  # whose threads end when nothing refers to it
        self._process = 0

    def submit(self, check: Callable[[], T]) -> Future[T]:
        """Begin a check; a process that was forked has threads of its own."""
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(_MAX_CHECKS, "parquet-bloom-watch"), os.getpid()
        return self._pool.submit(check)


class LakeWatch(Protocol):
    """The state of a lake's files, taken before an index is checked for them: whatever changes later differs from it.

    Attributes
    ----------
    is_settled : whether every later change will show; what changed just now may change again within the same tick.
    """

    @property
    def is_settled(self) -> bool: ...

    def begin_check(self, threads: CheckThreads) -> Callable[[], bool]:
        """Begin to compare the files with this state, in another thread.

        Returns
        -------
        A function that waits for the result: whether nothing has changed.
        """


class LocalWatch:
    """The state of local files, and of all folders in which others may appear.

    Parameters
    ----------
    roots : the folders, patterns and files of the lake: absolute paths.
    list_files : lists the files, and other files or folders to watch.
    """

    def __init__(self, roots: Sequence[str], list_files: Callable[[], Sequence[str]]):
        started = time.time_ns()
        folders = _list_all_folders(roots)
        # Before the files are listed: one that appears meanwhile is among them, or its folder differs.
        states = [PathStates([os.fsencode(path) for path in folders])]
        are_all = _list_all_folders(roots) == folders  # a new one is not watched yet
        states.append(PathStates([os.fsencode(path) for path in list_files()]))
        self._states = states
        identities = [FileIdentity(*state[:5]) for one in states for state in one.states.tolist()]
        self.is_settled = are_all and all(one.inode >= 0 and distinct(one, started) for one in identities)

    def begin_check(self, threads: CheckThreads) -> Callable[[], bool]:
        """See `LakeWatch.begin_check`: the thread that waits takes part in the comparison."""
        checks = [states.begin_check() for states in self._states]

        def check() -> bool:
            return all(one.run() for one in checks)

        other: Future[bool] | None = threads.submit(check) if sum(map(len, self._states)) > _FEW else None
        return lambda: check() and (other is None or other.result())


class ListedWatch:
    """The state of objects in a store as listings give it.

    Parameters
    ----------
    list_files : lists the files.
    """

    def __init__(self, list_files: Callable[[], Sequence[Entry]]):
        self._list_files = list_files
        self._files = self._describe()
        self.is_settled = all(e_tag is not None for _, _, e_tag in self._files)

    def _describe(self) -> list[tuple[str, int | None, str | None]]:
        known = [(entry.path, entry.known) for entry in self._list_files()]
        return [(path, None if one is None else one.size, None if one is None else one.e_tag) for path, one in known]

    def begin_check(self, threads: CheckThreads) -> Callable[[], bool]:
        """See `LakeWatch.begin_check`."""
        future = threads.submit(self._describe)

        def is_same() -> bool:
            try:
                return future.result() == self._files
            except ParquetBloomError:  # which the next listing raises
                return False

        return is_same


def _list_all_folders(roots: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(folder for root in roots for folder in _list_folders(_fixed_folder(root))))


def _fixed_folder(root: str) -> str:
    """Return the folder below which a root's files are."""
    parts = root.split("/")
    while len(parts) > 1 and (any(map(glob.has_magic, parts)) or not os.path.isdir("/".join(parts) or "/")):
        parts.pop()
    return "/".join(parts) or "/"


def _list_folders(folder: str, above: Iterable[tuple[int, int]] = ()) -> Iterator[str]:
    """Yield a folder and all below it, by links too, but none that leads back to one above."""
    try:
        status = os.stat(folder)
        key = status.st_dev, status.st_ino
        if key in above:
            return
        with os.scandir(folder) as listing:
            below = [entry.path for entry in listing if entry.is_dir()]
    except OSError:
        yield folder  # its state says that there is nothing, which counts as a change
        return
    yield folder
    for path in below:
        yield from _list_folders(path, {*above, key})


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
        self._threads = CheckThreads()
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
                    wait = watch.begin_check(self._threads)
                index = self._index
        lookup = Lookup(source, index, self._known)
        try:
            yield lookup
        finally:
            if wait is not None:
                lookup.is_current = wait()
            if lookup.has_doubts:  # another process may have removed parts of the index that are not open yet
                self._watch = None

    def plan(self, keys: LookupKeys, options: ScanOptions, *, by_index_alone: bool = False) -> ScanPlan | None:
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

    def plan(self, keys: LookupKeys, options: ScanOptions, *, by_index_alone: bool = False) -> ScanPlan | None:
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

    def find_files(self, keys: LookupKeys, timezone: str) -> list[str] | None:
        """Return the files that may have a key, sorted; None if the index cannot say which."""
        answers = self._select(keys, timezone)
        return None if answers is None else _intersect(answers)

    def _select(self, keys: LookupKeys, timezone: str) -> list[Selections] | None:
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

    def read(self, keys: LookupKeys, schema: pa.Schema, timezone: str) -> pa.Table | None:
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


def get_rows(
    source: ScanSource,
    schema: pa.Schema,
    session: LookupSession | None,
    keys: LookupKeys,
    columns: Sequence[str] | None,
    options: ScanOptions,
    note: Callable[[pa.Table], None] | None = None,
) -> pa.Table:
    """Read the rows of keys, in the order of the keys and of the files; see `Dataset.get`.

    Parameters
    ----------
    note : called with rows as they are read, before more are; what it raises ends the read.
    """
    if isinstance(columns, str):
        raise make_names_error(columns)
    for column in keys.columns:
        if not has_column(schema, column):
            similar = suggest_names(column, schema.names, can_ignore_case=False)
            raise UnknownColumnError(f"the dataset has no such column{similar}", column=column)
    if not len(keys):
        return empty_table(select_table_columns(schema, columns, kind="dataset")[1])
    options = replace(options, named=schema.names.__contains__)

    def read(lookup: Lookup | None) -> pa.Table:
        """Read the rows by an index; None to plan a scan of all files."""
        plan = None
        if lookup is not None:
            shown = select_columns(schema, columns)[1]
            if len(keys) == len(keys.columns) == 1 and shown is not None and len(shown):
                rows = lookup.read(keys, shown, options.timezone)
                if rows is not None:
                    if note is not None:
                        note(rows)
                    return rows
            plan = lookup.plan(keys, options)
        if plan is None:
            plan = source.plan(keys.node, options, schema)
        # Columns and types are the dataset's, whichever files have the rows.
        names = None if columns is None else list(dict.fromkeys([*columns, *keys.columns]))
        chosen, read_schema = select_table_columns(schema, names, kind="dataset")
        reader = RowReader(plan, chosen, schema=read_schema, cache=source.cache)
        rows = reader.read_table(threads=options.threads, note=note)
        if len(keys) > 1:
            rows = take(rows, match_keys(rows, keys.columns, keys.literals, options.timezone).rows)
        return rows if columns is None else fit_table(rows, select_table_columns(schema, columns, kind="dataset")[1])

    if session is None:
        return read(None)
    lookup: Lookup | None = None
    try:
        with session.begin(refresh=False) as lookup:
            rows = read(lookup)
    except ParquetBloomError as error:
        is_gone = isinstance(error, StorageError) and error.errno == errno.ENOENT
        if lookup is None or (lookup.is_current and not is_gone):
            raise
    else:
        if lookup.is_current:
            return rows
    with session.begin(refresh=True) as lookup:  # files have changed, of which one may be gone
        return read(lookup)
