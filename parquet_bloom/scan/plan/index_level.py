"""Query a lake index before any file is opened."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ...errors import ParquetBloomError, PredicateError, StorageError
from ...file.identity import NO_TOKEN, version_token
from ...predicate.pruning import PruningPredicate
from ...storage import Entry, Source
from ...storage.index_folder import Folder
from ...util.lazy import late_module
from ..model.scan_plan import INDEX, FilePlan, FileScan, RowGroupPlan, ScanPlan, group_by_predicate

if TYPE_CHECKING:
    from ...lake import index_manifest, index_pruning, lake_files, lake_reader
    from ...lake.index_pruning import Means, Trusted
    from ...lake.index_reports import FileSelection
    from ...lake.index_snapshot import IndexSnapshotReader
    from ...lake.lake_reader import LakeIndexReader
    from ...tables.table_snapshot import Table
    from ...util.given_types import FileSystem

    Index: TypeAlias = str | os.PathLike[str] | LakeIndexReader
else:
    index_manifest = late_module("parquet_bloom.lake.index_manifest")
    index_pruning = late_module("parquet_bloom.lake.index_pruning")
    lake_files = late_module("parquet_bloom.lake.lake_files")
    lake_reader = late_module("parquet_bloom.lake.lake_reader")


_BY_INDEX, _NO_ROW = frozenset({INDEX}), "the index says: no row of it matches"


@dataclass(eq=False)
class IndexView:
    """A lake index as one query uses it.

    Attributes
    ----------
    state : the snapshot to query; None for an index that cannot be read, which `doubts` explain.
    of_lake : whether the files are the index's own live files, which were checked when it was opened.
    roots : the folders, patterns or tables that its files were listed from.
    filesystem : of the lake, as the index was opened with.
    trusted : returns whether an engine reads a column of some stored type as what is stored; None if it always does.
    means : returns whether a column of the scan is the stored column of some meaning (see `ColumnPart`); None for
        columns as files name them.
    locate : returns files as the index knows them, on `filesystem`, by their paths in the scan; None if they are the
        same. It raises ParquetBloomError if the index cannot be used for them.
    doubts : why the index could not be used, or only in part, each doubt once.
    notes : what was asked of the index, for people.
    requests, bytes_read : what was read of the index.
    of_table : the opened index, and the table that it is over, if the files are to be the index's own; None for others.
    """

    state: IndexSnapshotReader | None
    of_lake: bool = False
    roots: Sequence[str] = ()
    filesystem: FileSystem | None = None
    trusted: Trusted | None = None
    means: Means | None = None
    locate: Callable[[Sequence[str]], list[Entry]] | None = None
    doubts: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    requests: int = 0
    bytes_read: int = 0
    of_table: tuple[LakeIndexReader, Table] | None = None

    @classmethod
    def make_unusable(cls, problem: object) -> IndexView:
        """Return the view of an index that cannot be used."""
        return cls(None, doubts={str(problem): None})

    def list_files(self, filesystem: FileSystem | None = None) -> tuple[FileSystem | None, Sequence[str], list[Entry]]:
        """Return the file system (the given one, if any), the roots, and the live files in order."""
        assert self.state is not None
        live = self.state.live
        paths = list(live.unindexed)
        for segment, alive in zip(self.state.segments, live.alive, strict=True):
            paths += segment.files.paths(alive.nonzero()[0])
        entries = [Entry(path) for path in sorted(paths)]
        return self.filesystem if filesystem is None else filesystem, self.roots, entries

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`: the index is asked about all files at once."""
        if plan.asked is None or plan.asked.node is None:
            yield from files
            return
        scans = [*files]
        for predicate, members in group_by_predicate(scans) if self.state is not None else ():
            if predicate is True:
                continue
            selections = self._select_files(members, predicate, plan)
            for file, selection in zip(members, selections, strict=True) if selections else ():
                if not selection.read:
                    file.rule_out(selection.reason, INDEX)
                elif selection.row_groups is not None:
                    file.narrow = partial(narrow_by_index, selection=selection)
        plan.requests += self.requests
        plan.bytes_read += self.bytes_read
        plan.index_doubts, plan.index_notes = [*self.doubts], [*self.notes]
        scans.reverse()
        while scans:  # what is yielded need not be held any longer
            yield scans.pop()

    def _select_files(
        self, files: Sequence[FileScan], predicate: PruningPredicate, plan: ScanPlan
    ) -> list[FileSelection]:
        """Return the index's answer for each of some files with one predicate; none at all if it has no answers."""
        assert self.state is not None
        assert plan.asked is not None
        _, timezone, ignore_case = plan.asked
        filesystem = plan.filesystem if self.locate is None else self.filesystem
        pruner = index_pruning.IndexPruner(
            self.state, predicate.node, timezone, ignore_case, filesystem, self.trusted, self.means
        )
        if not pruner.useful:
            self.notes.update(dict.fromkeys(pruner.describe_grams()))
            return []
        try:
            entries = [file.entry for file in files]
            if self.locate is not None:
                entries = self.locate([entry.path for entry in entries])
            return self._select_live(pruner.live(), entries) if self.of_lake else pruner.choose(entries)
        except PredicateError:
            raise
        except ParquetBloomError as error:
            self.doubts[str(error)] = None
            return []
        finally:
            self.doubts |= pruner.doubts
            self.notes.update(dict.fromkeys(pruner.describe_grams()))
            self.requests += pruner.requests
            self.bytes_read += pruner.bytes_read

    @staticmethod
    def _select_live(live: Iterator[tuple[str, FileSelection]], entries: Sequence[Entry]) -> list[FileSelection]:
        selections: dict[str, FileSelection | None] = dict.fromkeys(entry.path for entry in entries)
        selections |= {path: selection for path, selection in live if path in selections}
        return [selection for selection in selections.values() if selection is not None]


@contextmanager
def open_lake_index(
    index: Index | None,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    *,
    of_lake: bool = False,
    trusted: Trusted | None = None,
    means: Means | None = None,
    columns: Collection[str] = (),
) -> Iterator[IndexView | None]:
    """Open a lake index for one query; an index that is given open stays open.

    With `of_lake` the files of an index over a table are not looked at: the view says which table it is.

    Parameters
    ----------
    index : its folder, or an open one; None for none.
    filesystem, storage_options : of a folder, and of the lake.
    of_lake : whether the files to scan are those of the index.
    trusted, means : see `IndexView`.
    columns : of the predicate, if they are known, to read their part of the index ahead.

    Raises
    ------
    StorageError
        There is no index. An index that exists but cannot be read is an error only with `of_lake`.
    ParquetBloomError
        `of_lake` without an index, or with one that was opened without its live files.
    """
    if index is None:
        if of_lake:
            raise StorageError("a path is a string or a path object, not NoneType; with index= it may be left out")
        yield None
        return
    if isinstance(index, lake_reader.LakeIndexReader):
        if of_lake and not index.live and index.table is None:
            problem = "the index was opened with live=False, and does not know which files there are"
            raise ParquetBloomError(problem, path=index.path)
        yield _make_view(index, of_lake, trusted, means)
        return
    folder = _CountingFolder(index, filesystem)
    try:
        lake = lake_files.LakeAccess(None, filesystem, storage_options)
        opened = lake_reader.LakeIndexReader(folder, lake, live=of_lake, list_table=False, ahead=columns)
    except ParquetBloomError as error:
        if of_lake or _has_no_index(folder):
            raise
        view = IndexView.make_unusable(error)
        folder.add_counts(view)
        yield view
        return
    with closing(opened):
        view = _make_view(opened, of_lake, trusted, means)
        folder.add_counts(view)
        yield view


def _make_view(
    index: LakeIndexReader, of_lake: bool, trusted: Trusted | None = None, means: Means | None = None
) -> IndexView:
    roots, filesystem = index.state.manifest.lake.get("paths", ()), index.lake_filesystem
    view = IndexView(index.state, of_lake=of_lake, roots=roots, filesystem=filesystem, trusted=trusted, means=means)
    if of_lake and index.table is not None:
        view.of_table = index, index.table
    return view


class _CountingFolder(Folder):
    """A folder that counts what is read of its files."""

    def __init__(self, path: str | os.PathLike[str], filesystem: FileSystem | None):
        super().__init__(path, filesystem)
        self._opened: list[Source] = []

    def open(self, name: str) -> Source:
        source = super().open(name)
        self._opened.append(source)
        return source

    def add_counts(self, view: IndexView) -> None:
        """Add what was read so far to the counts of a view."""
        view.requests += sum(source.requests for source in self._opened)
        view.bytes_read += sum(source.bytes_read for source in self._opened)


def _has_no_index(folder: Folder) -> bool:
    """Return whether a folder has no index, rather than one that cannot be read."""
    try:
        return not index_manifest.numbers_in(folder.names())
    except StorageError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR)


def narrow_by_index(plan: FilePlan, selection: FileSelection) -> FilePlan:
    """Skip the row groups, and rows of others, that an index rules out, if the file is the indexed version."""
    selected, rows = selection.row_groups, selection.rows
    if selected is None or selection.stamp == NO_TOKEN or version_token(plan.identity) != selection.stamp:
        return plan
    if selection.row_counts and selection.row_counts != tuple([one.num_rows for one in plan.row_groups]):
        return plan  # rows of other row groups
    row_groups = []
    for one in plan.row_groups:
        if one.read and one.row_group not in selected:
            one = RowGroupPlan(one.row_group, False, _BY_INDEX, _NO_ROW, num_rows=one.num_rows)
        elif one.read and one.row_group in rows:
            one = one.narrow(rows[one.row_group], _BY_INDEX, _NO_ROW)
        row_groups.append(one)
    return replace(plan, row_groups=tuple(row_groups))


def list_live_files(index: LakeIndexReader) -> list[tuple[str, str | None]]:
    """Return the live files of an open index, each with the root folder that it is in; None if it is in none."""
    _, roots, entries = _make_view(index, True).list_files()
    folders = [root.rstrip("/") + "/" for root in roots]
    return [
        (entry.path, next((folder for folder in folders if entry.path.startswith(folder)), None)) for entry in entries
    ]
