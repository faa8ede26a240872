"""An index of the lake, asked before any of its files is opened."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import ParquetBloomError, PredicateError, StorageError
from ...file.identity import NO_TOKEN, version_token
from ...predicate.pruning import PruningPredicate
from ...storage import Entry, Folder, Source
from ..model.decision import INDEX, FilePlan, RowGroupPlan
from ..model.file_scan import FileScanResult, ResidualEvaluator
from ..model.partitions import Partitions

if TYPE_CHECKING:
    from ...lake.index import LakeIndex
    from ...lake.select import FileSelection, Trusted
    from ...lake.snapshot import IndexSnapshotReader

    Index = str | os.PathLike[str] | LakeIndex


class IndexView:
    """An index as one question finds it.

    Parameters
    ----------
    state : what is asked; None for an index that cannot be read, of which `doubts` tell.
    of_lake : whether the files are the index's own, which were looked at when it was opened, and are not again.
    roots : the folders, patterns or tables that its files were found in.
    filesystem : of the lake, as the index knows it.
    trusted : whether an engine reads a column of some stored type as what is stored; None if it does in every case.

    Attributes
    ----------
    doubts : why it cannot be asked, or not all of it, each once.
    requests, bytes_read : what was read of it.
    """

    def __init__(
        self,
        state: IndexSnapshotReader | None,
        *,
        of_lake: bool = False,
        roots: Sequence[str] = (),
        filesystem: Any = None,
        trusted: Trusted | None = None,
    ):
        self.doubts: dict[str, None] = {}
        self.requests = self.bytes_read = 0
        self._state = state
        self._of_lake = of_lake
        self._roots = roots
        self._filesystem = filesystem
        self._trusted = trusted

    def lake(self, filesystem: Any = None) -> tuple[Any, Sequence[str], list[Entry]]:
        """The file system of its files, or the one given; what they were found in; and the live ones, in order."""
        assert self._state is not None
        live = self._state.live
        paths = list(live.unindexed)
        for segment, alive in zip(self._state.segments, live.alive, strict=True):
            paths += segment.files.paths(alive.nonzero()[0])
        entries = [Entry(path) for path in sorted(paths)]
        return self._filesystem if filesystem is None else filesystem, self._roots, entries

    def confirmed(self, partitions: Partitions, entries: Sequence[Entry]) -> Partitions:
        """Of what folders say of the index's own files, that which a table's books say, too, if they tell."""
        assert self._state is not None
        told = self._state.live.told
        return partitions if told is None else partitions.confirmed([entry.path for entry in entries], told)

    @property
    def deletes(self) -> frozenset[str]:
        """The index's own files of which their table may have taken rows away."""
        return self._state.live.deletes if self._of_lake and self._state is not None else frozenset()

    def choose(
        self, entries: Sequence[Entry], deciders: ResidualEvaluator, timezone: str, ignore_case: bool, filesystem: Any
    ) -> list[FileSelection]:
        """What the index says of files, in their order; nothing of those that their folders decide about."""
        from ...lake.select import FileSelection, IndexPruner

        found = [FileSelection(False)] * len(entries)
        for decider, places in _by_decider(entries, deciders) if self._state is not None else ():
            assert self._state is not None
            chooser = IndexPruner(self._state, decider.node, timezone, ignore_case, filesystem, self._trusted)
            if not chooser.useful:
                continue
            some = [entries[place] for place in places]
            try:
                choices = self._live(chooser.live(), some) if self._of_lake else chooser.choose(some)
            except PredicateError:
                raise
            except ParquetBloomError as error:
                self.doubts[str(error)] = None
                continue
            finally:
                self.doubts |= chooser.doubts
                self.requests += chooser.requests
                self.bytes_read += chooser.bytes_read
            for place, choice in zip(places, choices, strict=True):
                found[place] = choice
        return found

    @staticmethod
    def _live(live: Iterator[tuple[str, FileSelection]], entries: Sequence[Entry]) -> list[FileSelection]:
        wanted: dict[str, FileSelection | None] = dict.fromkeys(entry.path for entry in entries)
        wanted |= {path: choice for path, choice in live if path in wanted}
        return [choice for choice in wanted.values() if choice is not None]


def _by_decider(entries: Sequence[Entry], deciders: ResidualEvaluator) -> list[tuple[PruningPredicate, Sequence[int]]]:
    """The places of files that are asked the same."""
    if deciders.of_all is not None:
        return [(deciders.of_all, range(len(entries)))]
    found: dict[int, tuple[PruningPredicate, list[int]]] = {}
    for place, entry in enumerate(entries):
        decider = deciders.of(entry.path)
        if not isinstance(decider, bool):
            found.setdefault(id(decider), (decider, []))[1].append(place)
    return list(found.values())


@contextmanager
def open_lake_index(
    index: Index | None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    of_lake: bool = False,
    trusted: Trusted | None = None,
    columns: Collection[str] = (),
) -> Iterator[IndexView | None]:
    """Have an index at hand for one question; one that is given by its folder is open for that long.

    Parameters
    ----------
    index : its folder, or an open one; None for none.
    filesystem, storage_options : of a folder, and of the lake.
    of_lake : whether the index has to say which files there are.
    trusted : see `IndexView`.
    columns : those of the predicate, if it is known, so that they need not be waited for.

    Raises
    ------
    StorageError
        There is no index. One that is there, and cannot be read, is no error unless it has to say which files there
        are.
    ParquetBloomError
        Files are wanted of no index, or of one that does not know them.
    """
    if index is None:
        if of_lake:
            raise StorageError("a path is a string or a path object, not NoneType; with index= it may be left out")
        yield None
        return
    from ...lake.index import LakeIndex

    if isinstance(index, LakeIndex):
        if of_lake and not index.live:
            problem = "the index was opened with live=False, and does not know which files there are"
            raise ParquetBloomError(problem, path=index.path)
        yield _view(index, of_lake, trusted)
        return
    folder = _CountedFolder(index, filesystem)
    try:
        opened = LakeIndex(folder, filesystem, storage_options, None, live=of_lake, ahead=columns)
    except ParquetBloomError as error:
        if of_lake or _is_none(folder):
            raise
        view = IndexView(None)
        view.doubts[str(error)] = None
        folder.count(view)
        yield view
        return
    with closing(opened):
        view = _view(opened, of_lake, trusted)
        folder.count(view)
        yield view


def _view(index: LakeIndex, of_lake: bool, trusted: Trusted | None) -> IndexView:
    lake = index.state.manifest.lake
    roots = lake.get("paths", [path for path in lake.values() if isinstance(path, str)])
    filesystem = index.lake_filesystem
    return IndexView(index.state, of_lake=of_lake, roots=roots, filesystem=filesystem, trusted=trusted)


class _CountedFolder(Folder):
    """A folder that knows what was read of its files."""

    def __init__(self, path: str | os.PathLike[str], filesystem: Any):
        super().__init__(path, filesystem)
        self._opened: list[Source] = []

    def open(self, name: str) -> Source:
        source = super().open(name)
        self._opened.append(source)
        return source

    def count(self, view: IndexView) -> None:
        view.requests += sum(source.requests for source in self._opened)
        view.bytes_read += sum(source.bytes_read for source in self._opened)


def _is_none(folder: Folder) -> bool:
    """Whether there is no index in a folder, rather than one that cannot be read."""
    from ...lake.manifest import numbers_in

    try:
        return not numbers_in(folder.names())
    except StorageError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR)


def apply_index(
    entries: Sequence[Entry],
    choices: Sequence[FileSelection],
    look: Callable[[Sequence[Entry]], Generator[FileScanResult, None, None]],
) -> Generator[FileScanResult, None, None]:
    """The looks at all files, in their order, where an index spares those that it rules out."""
    left = [entry for entry, choice in zip(entries, choices, strict=True) if choice.read]
    with closing(look(left)) as others:
        for entry, choice in zip(entries, choices, strict=True):
            if not choice.read:
                yield FileScanResult((), FilePlan(entry.path, (), choice.reason, unopened_by=INDEX))
                continue
            found = next(others)
            if found.decision is not None and choice.row_groups is not None:
                found.decision = _narrowed(found.decision, choice)
            yield found


def _narrowed(decision: FilePlan, choice: FileSelection) -> FilePlan:
    """A file without the row groups that an index rules out, if it is the very file that the index knows."""
    few = choice.row_groups
    if few is None or choice.stamp == NO_TOKEN or version_token(decision.identity) != choice.stamp:
        return decision
    by, reason = frozenset({INDEX}), "the index says: no row of it matches"
    row_groups = (
        RowGroupPlan(one.row_group, False, by, reason, num_rows=one.num_rows)
        if one.read and one.row_group not in few
        else one
        for one in decision.row_groups
    )
    return replace(decision, row_groups=tuple(row_groups))


def files_of(index: LakeIndex) -> list[tuple[str, str | None]]:
    """The live files of an open index, each with the folder of its lake that it is in, if it is in one."""
    _, roots, entries = _view(index, True, None).lake()
    folders = [root.rstrip("/") + "/" for root in roots]
    return [
        (entry.path, next((folder for folder in folders if entry.path.startswith(folder)), None)) for entry in entries
    ]
