"""Restrict the rows of selected row groups by zone indexes: filters of a few thousand rows each."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...errors import ParquetBloomError, StorageError
from ...file.identity import NO_TOKEN, compare_contents, read_version_tokens, version_token
from ...file.statistics import FileStatistics
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.tree import Contains, Equal, In, IsNull
from ...storage import Entry
from ...util.threads import in_order
from ..model.plan import ZONES, FilePlan, FileScan, ScanPlan
from .zone_rows import ZonedColumn, select_rows

if TYPE_CHECKING:
    from ...zones import ZonedFile, ZoneIndex

    OneZoneIndex = str | os.PathLike[str] | ZoneIndex
    Zones = OneZoneIndex | Sequence[OneZoneIndex]

_MAX_CONCURRENT_FILES = 32  # each is a request or two to an index in an object store

_BY_ZONES, _NO_ROW = frozenset({ZONES}), "its zones say: no row of it matches"

_PROBED_NODES = (Equal, In, Contains, IsNull)  # predicates that zones can answer


class ZoneView:
    """Zone indexes as one query uses them.

    Parameters
    ----------
    indexes : open indexes over Parquet files, each with the name that it was given by.
    filesystem : of the files.
    doubts : why other indexes cannot be used.

    Attributes
    ----------
    doubts : why zones are not used, each doubt once.
    """

    def __init__(self, indexes: Sequence[tuple[str, ZoneIndex]], filesystem: Any, doubts: Sequence[str] = ()):
        self.doubts: dict[str, None] = dict.fromkeys(doubts)
        self._indexes = indexes
        self._filesystem = filesystem
        self._has_files = [False] * len(indexes)  # whether an index has zones of one of the files at least
        self._used = False

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`: files are handled concurrently if an index is in an object store."""
        if any(index.distant for _, index in self._indexes):
            with in_order(self._restrict, files, _MAX_CONCURRENT_FILES) as restricted:
                yield from restricted
        else:
            yield from map(self._restrict, files)
        plan.zone_doubts = self._finish()

    def _restrict(self, file: FileScan) -> FileScan:
        """Restrict the plan of a file to the rows that zones leave."""
        if file.plan is not None and file.statistics is not None and file.predicate is not True and file.plan.selected:
            file.plan = self._restrict_plan(file.plan, file.statistics, file.predicate)
        return file

    def _restrict_plan(self, plan: FilePlan, statistics: FileStatistics, predicate: PruningPredicate) -> FilePlan:
        columns: dict[str, ZonedColumn] = {}
        for i, (_, index) in enumerate(self._indexes):
            number = index.of_file(plan.path, self._filesystem)
            if number is None:
                continue
            self._has_files[i] = True
            try:
                names = _find_names(index, statistics, predicate) - columns.keys()
                if names and self._check_version(index, number, plan):
                    columns |= dict.fromkeys(names, ZonedColumn(index, number))
            except ParquetBloomError as error:
                self._add_doubt(error, plan.path)
        self._used = True
        if not columns:
            return plan
        try:
            rows = select_rows(plan, statistics, predicate, columns)
        except ParquetBloomError as error:
            self._add_doubt(error, plan.path)
            return plan
        row_groups = tuple(
            one.narrow(rows[one.row_group], _BY_ZONES, _NO_ROW) if one.row_group in rows else one
            for one in plan.row_groups
        )
        return replace(plan, row_groups=row_groups)

    def _add_doubt(self, error: ParquetBloomError, path: str) -> None:
        error.path = error.path or path
        self.doubts[str(error)] = None

    def _finish(self) -> list[str]:
        """Return all doubts once every file is planned; an index without zones of any file read is one, too."""
        for (name, _), has_files in zip(self._indexes, self._has_files, strict=True):
            if self._used and not has_files:
                self.doubts[f"{name}: it has no zones of the files that are read"] = None
        return [*self.doubts]

    def _check_version(self, index: ZoneIndex, number: int, plan: FilePlan) -> bool:
        """Return whether a file is the indexed version; if not, note a doubt."""
        is_same = _is_indexed_version(index, index.file(number), plan, self._filesystem)
        if not is_same:
            problem = "it has changed since its zones were made, which are not used"
            self._add_doubt(ParquetBloomError(problem, column=index.column), plan.path)
        return is_same


def _find_names(index: ZoneIndex, statistics: FileStatistics, predicate: PruningPredicate) -> set[str]:
    """Return the names of an index's column in the parts of a predicate that zones can answer."""
    names = {leaf.column for leaf in tree.leaves(predicate.node) if isinstance(leaf, _PROBED_NODES)}
    columns = {name: statistics.columns[name] for name in names}
    return {name for name, column in columns.items() if column is not None and column.stored_name == index.column}


_VERIFIED: WeakKeyDictionary[ZoneIndex, dict[tuple[int, int, bytes], bool]] = WeakKeyDictionary()
"""For each open index: {(file number, size, version token): whether the contents proved to be what was indexed}."""
_VERIFYING = threading.Lock()


def _is_indexed_version(index: ZoneIndex, zoned: ZonedFile, plan: FilePlan, filesystem: Any) -> bool:
    """Return whether the planned file is the indexed one: by its version token, or else by its contents."""
    size, stamp = getattr(plan.identity, "size", None), version_token(plan.identity)
    if size is None:
        return False
    if stamp != NO_TOKEN and (size, stamp) == (zoned.size, zoned.stamp):
        return True
    key = zoned.number, size, stamp
    with _VERIFYING:  # one at a time, so that nothing is read twice
        verified = _VERIFIED.setdefault(index, {})
        if stamp != NO_TOKEN and key in verified:
            return verified[key]
        entry, column = Entry(plan.path), index.column or ""
        same, settled = compare_contents(entry, filesystem, zoned.footer, zoned.data, lambda file: [file.leaf(column)])
        if settled != NO_TOKEN and settled == stamp:
            verified[key] = same
    # The version planned before and read afterwards must be the one compared here.
    return same and read_version_tokens([entry], filesystem) == [(size, stamp)]


@contextmanager
def open_zone_indexes(zones: Zones | None, filesystem: Any = None) -> Iterator[ZoneView | None]:
    """Open zone indexes for one query; indexes that are given open stay open.

    Parameters
    ----------
    zones : a path or an open index, or a list of them; None for none.
    filesystem : of the paths, and of the files.

    Raises
    ------
    StorageError
        There is nothing at a path. An index that exists but cannot be read is not an error.
    ParquetBloomError
        An index is Lance's own, which is not over Parquet files.
    """
    if zones is None:
        yield None
        return
    from ...zones import ZoneIndex
    from ...zones import open as open_zones

    given: Sequence[Any] = zones if isinstance(zones, list | tuple) else [zones]
    indexes: list[tuple[str, ZoneIndex]] = []
    doubts = []
    with ExitStack() as stack:
        for one in given:
            if isinstance(one, ZoneIndex):
                name, index = one.path or "the zone index", one
            elif isinstance(one, str | os.PathLike):
                name = os.fsdecode(one)
                try:
                    index = stack.enter_context(open_zones(one, filesystem))
                except ParquetBloomError as error:
                    if isinstance(error, StorageError) and error.errno in (errno.ENOENT, errno.ENOTDIR):
                        raise
                    doubts.append(str(error))
                    continue
            else:
                raise ParquetBloomError(f"zones must be a path or an open ZoneIndex, got {type(one).__name__}")
            if index.files is None:
                problem = "it is Lance's own index, which is not over Parquet files: make one with zones.build"
                raise ParquetBloomError(f"{name}: {problem}")
            indexes.append((name, index))
        yield ZoneView(indexes, filesystem, doubts)
