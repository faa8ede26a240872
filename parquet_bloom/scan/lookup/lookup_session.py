"""What lookups of a dataset keep between calls: an open index, and the state of the files that it was checked for."""

from __future__ import annotations

import errno
import glob
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from ...errors import MalformedFooterError, ParquetBloomError, PredicateError, StorageError, UnknownColumnError
from ...file.bloom_file import BloomFile
from ...file.column_statistics import file_statistics, shows_stored
from ...file.file_columns import type_of
from ...file.identity import version_token
from ...file.metadata_cache import MetadataCache, distinct
from ...file.pages.page_columns import PageColumn, find_page_columns
from ...file.pages.row_group_batch import RowGroupBatch, RowGroups
from ...hashing.column_type import may_wrap
from ...lake.expression_keys import find_tuples
from ...lake.index_reports import FileSelection
from ...lake.index_snapshot import Selections
from ...lake.lake_reader import LakeIndexReader
from ...metadata.footer import SchemaLeaf
from ...predicate import literal
from ...predicate.in_array import make_targets
from ...predicate.key_expression import match_keys
from ...predicate.tree import Equal, In, Node, all_of
from ...storage import (
    Entry,
    FileIdentity,
    OpenFiles,
    PathStates,
    as_path_list,
    entry_for_identity,
    is_local,
    list_entries,
    open_source,
)
from ...util.arrow_values import empty_table, take
from ..model.file_schemas import arrow_schema, fit_table, reading
from ..model.row_selection import RowSelection
from ..model.scan_plan import FileScan, ScanPlan, SourceListing
from ..named_columns import has_column, make_names_error, select_columns, select_table_columns, suggest_names
from ..plan.index_level import narrow_by_index
from ..plan.plan_scan import Evidence, plan_scan
from ..row_reader import RowReader
from ..scan_options import Limits, ScanOptions
from ..scan_source import ScanSource
from .file_kind import STORED_ALIKE

if TYPE_CHECKING:
    from ...util.given_types import FileSystem


@dataclass(frozen=True)
class LookupKeys:
    """Keys to find.

    Attributes
    ----------
    columns : of the key.
    literals : for each column, its literal in each key.
    is_single : whether the caller gave one key, not a collection of keys.
    """

    columns: tuple[str, ...]
    literals: tuple[tuple[object, ...], ...]
    is_single: bool

    @classmethod
    def parse(cls, columns: str | Sequence[str], keys: Any) -> LookupKeys:
        """Return a caller's key or keys.

        Parameters
        ----------
        columns : one column, or a list of several.
        keys : of one column: a value, or a list, Arrow or NumPy array or Series of values. Of several: a tuple of a
            value of each, a list of such tuples, or a table or mapping that has these columns.

        Raises
        ------
        PredicateError
            A value is null, or cannot be a literal; or a key has not as many values as there are columns.
        """
        if isinstance(columns, str):
            names: tuple[str, ...] = (columns,)
            is_arrow = isinstance(keys, pa.Array | pa.ChunkedArray)
            is_single = not is_arrow and (not isinstance(keys, Collection) or isinstance(keys, str | bytes))
            is_single = is_single and (not hasattr(keys, "__array__") or np.ndim(keys) == 0)
            literals = [(literal.from_python(keys),) if is_single else literal.from_collection(keys)]
        else:
            names = tuple(columns)
            is_single = isinstance(keys, tuple)
            if not names:
                raise PredicateError("a key needs a column")
            if isinstance(keys, pa.Table | pa.RecordBatch | Mapping):
                columns_of_keys = [keys[name] for name in names]
            else:
                if not hasattr(keys, "__iter__") or getattr(keys, "ndim", 1) == 0:
                    raise PredicateError(f"keys of several columns are tuples, or a table of them, not {keys!r}")
                rows = [keys] if is_single else [*keys]
                for row in rows:
                    if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != len(names):
                        problem = f"a key of {len(names)} columns is a tuple of {len(names)} values, not {row!r}"
                        raise PredicateError(problem)
                columns_of_keys = [[row[i] for row in rows] for i in range(len(names))]
            literals = [literal.from_collection(values) for values in columns_of_keys]
        for name, values in zip(names, literals, strict=True):
            if None in values:
                raise PredicateError("a key is null: nothing equals it, leave it out", column=name)
        return cls(names, tuple(literals), is_single)

    def __len__(self) -> int:
        return len(self.literals[0])

    @cached_property
    def node(self) -> Node:
        """The predicate that all rows of the keys meet, and of one column no others."""
        leaves: list[Node] = []
        for column, values in zip(self.columns, self.literals, strict=True):
            leaves.append(Equal(column, values[0]) if len(values) == 1 else In(column, values))
        return all_of(leaves)


MAX_FILES = 1024
"""Of which lookups of a dataset know at a time."""

_FEW_ROWS = 1024  # are taken out of pages, however small the row groups are


class KnownFile:
    """A version of a local file, with what a search needs of its column chunks; it is opened to be read.

    Rows of one key are read without planning a scan, in a quarter of the time, or less (`tools/bench/get.py`: "get,
    open index"). With the plan left out alone, but rows located and read by a `RowBatch`, a lookup takes 1.3 times
    the CPU that it takes here, and twice that by zones. Nothing here decides on its own: other files and columns are
    left to the scan, which also reports errors.

    Attributes
    ----------
    token : the version, as an index has it.
    is_settled : whether every later change of the file will show.
    """

    def __init__(self, path: str, identity: FileIdentity, file: BloomFile, cache: MetadataCache | None):
        self.token, self.is_settled = version_token(identity), distinct(identity)
        self._cached, self._footer = file.cached, file.footer
        self._columns: dict[str, PageColumn] = {}  # flat ones whose rows can be taken
        self._searched: set[str] = set()  # of these, those of which stored bytes decide what is equal
        for name, column in find_page_columns(file, arrow_schema(file)).items():
            if not column.leaf.repeated and column.layout is not None:
                self._columns[name] = column
                if type_of(column.leaf).kind in STORED_ALIKE and _shows_stored(file, column.leaf):
                    self._searched.add(name)
        self._files = OpenFiles([path], [identity])
        self._batches: dict[tuple[int, ...], RowGroupBatch] = {}
        self._remember = partial(cache.keep, path, identity) if cache is not None else None
        self._lock = threading.Lock()  # a batch is not for several threads at once

    def read(
        self, selection: FileSelection | None, column: str, literal: object, timezone: str, schema: pa.Schema
    ) -> pa.Table | None:
        """Read the rows with one key.

        Parameters
        ----------
        selection : the row groups and rows that may have it, by an index; None for all.
        schema : of the result.

        Returns
        -------
        None if the rows have to be read in the general way, or this is no longer the version at its path.
        """
        if column not in self._searched:
            return None
        for field in schema:
            if field.name not in self._columns or not self._columns[field.name].arrow.equals(field.type):
                return None
        targets = make_targets([literal], type_of(self._columns[column].leaf), timezone)
        if targets is None:
            return None
        with self._lock:
            try:
                if not self._files.open():
                    return None
                batch, row_selections = self._select(selection)
                most = max(batch.groups.total_rows // Limits.few_of, _FEW_ROWS)
                result = batch.search(column, targets, most, row_selections)
                if result is None:
                    return None
                rows, values = result
                arrays = {**batch.read([name for name in schema.names if name != column], rows)}
                if values is not None and column in schema.names:
                    arrays[column] = values
                if len(arrays) < len(schema) or not self._files.are_unchanged():
                    return None
                if batch.grown and self._remember is not None:
                    self._remember(self._cached)
                    batch.grown.clear()
            except (MalformedFooterError, StorageError):  # which the general way reads, or reports
                return None
            finally:
                self._files.close()
        return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)

    def is_current(self) -> bool:
        """Return whether this version is at its path."""
        with self._lock:
            try:
                return self._files.open()
            finally:
                self._files.close()

    def _select(self, selection: FileSelection | None) -> tuple[RowGroupBatch, Sequence[RowSelection | None] | None]:
        """Return the selected row groups, and the rows of each; None for all rows of all."""
        footer, selections = self._footer, None
        numbers: tuple[int, ...] = tuple(range(footer.num_row_groups))
        if selection is not None and selection.row_groups is not None:
            counts, rows = selection.row_counts, selection.rows
            # If the index knows the row groups' numbers of rows, they are those of the file, or these are other ones.
            if not counts or np.array_equal(counts, footer.row_groups["num_rows"]):
                numbers = tuple(sorted(selection.row_groups))
                selections = [rows.get(number) for number in numbers] if rows else None
        if numbers not in self._batches:
            if len(self._batches) > footer.num_row_groups:  # each alone, and all
                self._batches.clear()
            groups, headers = RowGroups([footer], [(0, number) for number in numbers]), [self._cached.page_headers]
            self._batches[numbers] = RowGroupBatch(groups, self._columns, self._files, headers)
        return self._batches[numbers], selections


def _shows_stored(file: BloomFile, leaf: SchemaLeaf) -> bool:
    """Return whether all values of a column are known to be shown as they are stored."""
    if not may_wrap(type_of(leaf)):
        return True
    file_statistics(file, [leaf.name])
    return shows_stored(file.cached, leaf, file.row_groups)


class KnownFiles:
    """The files that were looked up last. Thread-safe.

    Parameters
    ----------
    filesystem : the local one.
    cache : of footers.
    """

    def __init__(self, filesystem: FileSystem | None, cache: MetadataCache | None):
        self._filesystem = filesystem
        self._cache = cache
        self._files: OrderedDict[str, KnownFile] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, path: str, token: bytes | None) -> KnownFile | None:
        """Return a version of a file; None if there is another one, or it is unusual.

        Parameters
        ----------
        token : the version that an index has; None for the one that is there.
        """
        with self._lock:
            known = self._files.get(path)
            if known is not None and (known.is_current() if token is None else known.token == token):
                self._files.move_to_end(path)
                return known
        try:
            with open_source(path, self._filesystem) as source, BloomFile(source, self._cache) as file, reading(file):
                if not isinstance(source.identity, FileIdentity):
                    return None
                known = KnownFile(path, source.identity, file, self._cache)
        except ParquetBloomError:  # which the general way reports
            return None
        if token is not None and known.token != token:
            return None
        if token is None and not known.is_settled:  # the same times may be of other contents at the next call
            return known
        with self._lock:
            self._files[path] = known
            if len(self._files) > MAX_FILES:
                self._files.popitem(last=False)
        return known


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
        self._index: LakeIndexReader | None = None
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
        if isinstance(source.index, LakeIndexReader) and source.paths is None:
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

    def _refresh(self) -> LakeIndexReader:
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
        index = self._source.index
        assert index is not None
        return os.fsdecode(index.path if isinstance(index, LakeIndexReader) else index)

    def _open_index(self) -> LakeIndexReader:
        source = self._source
        filesystem = source.filesystem
        return LakeIndexReader.open(
            self._index_path, lake=source.paths, filesystem=filesystem, lake_filesystem=filesystem
        )

    def _make_watch(self) -> LakeWatch | None:
        """Return the state of the files now; None where it cannot be told from another one."""
        source = self._source
        if source.paths is None:
            return None
        roots = [os.fsdecode(path) for path in as_path_list(source.paths)]
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

    def __init__(self, source: ScanSource, index: LakeIndexReader, known: KnownFiles):
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
        listing = SourceListing(self._find_entries(paths), self._filesystem, source.find_partitions(paths, roots))
        evidence = Evidence(index=_CandidateEvaluator(answers[0].files))
        node, options = None if by_index_alone else keys.node, replace(options, named=lambda _: True)
        plan = plan_scan(listing, node, options, ScanPlan, source.cache, evidence)
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
        indexed: list[tuple[str, Sequence[object]]] = [
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
        reader = RowReader(plan, chosen, schema=read_schema, cache=source.cache, options=options)
        rows = reader.read_table(note=note)
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
