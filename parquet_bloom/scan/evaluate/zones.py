"""Zones: filters of a few thousand rows each, asked which rows of the row groups that are read can match."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
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
from ..model.decision import ZONES, FilePlan, RowGroupPlan
from ..model.file_scan import FileScanResult, ResidualEvaluator
from .zone_rows import Zoned, rows_left

if TYPE_CHECKING:
    from ...zones import ZonedFile, ZoneIndex

    OneZones = str | os.PathLike[str] | ZoneIndex
    Zones = OneZones | Sequence[OneZones]

_ASKED_AT_A_TIME = 32  # files, where each is a request or two to an index in an object store

_ASKED = (Equal, In, Contains, IsNull)  # what zones know something of


class ZoneView:
    """Zone indexes as one question finds them.

    Parameters
    ----------
    indexes : open ones over Parquet files, each with the name by which it was given.
    filesystem : of the files.
    doubts : why others cannot be asked.

    Attributes
    ----------
    doubts : why zones are not used, each once.
    """

    def __init__(self, indexes: Sequence[tuple[str, ZoneIndex]], filesystem: Any, doubts: Sequence[str] = ()):
        self.doubts: dict[str, None] = dict.fromkeys(doubts)
        self._indexes = indexes
        self._filesystem = filesystem
        self._knows = [False] * len(indexes)  # one of the files at least
        self._asked = False

    @contextmanager
    def narrowing(
        self, looks: Iterable[FileScanResult], deciders: ResidualEvaluator
    ) -> Iterator[Iterator[tuple[FileScanResult, FilePlan | None]]]:
        """Each look, in order, and the decision less the rows that zones rule out.

        Files are asked about side by side where the answers are waited for.
        """

        def narrowed(look: FileScanResult) -> tuple[FileScanResult, FilePlan | None]:
            decision = look.decision
            return look, None if decision is None else self.narrowed(look, deciders.of(decision.path))

        if any(index.distant for _, index in self._indexes):
            with in_order(narrowed, looks, _ASKED_AT_A_TIME) as found:
                yield found
        else:
            yield map(narrowed, looks)

    def narrowed(self, look: FileScanResult, decider: PruningPredicate | bool) -> FilePlan:
        """The decision on a file, less the rows that zones rule out.

        Parameters
        ----------
        look : what was found of it, a decision among it.
        decider : the predicate that its row groups were held against.
        """
        decision, facts = look.decision, look.facts
        assert decision is not None
        if facts is None or isinstance(decider, bool) or not decision.selected:
            return decision
        columns: dict[str, Zoned] = {}
        for place, (_, index) in enumerate(self._indexes):
            number = index.of_file(decision.path, self._filesystem)
            if number is None:
                continue
            self._knows[place] = True
            try:
                names = _names(index, facts, decider) - columns.keys()
                if names and self._is_same(index, number, decision):
                    columns |= dict.fromkeys(names, Zoned(index, number))
            except ParquetBloomError as error:
                self._doubt(error, decision.path)
        self._asked = True
        if not columns:
            return decision
        try:
            left = rows_left(decision, facts, decider, columns)
        except ParquetBloomError as error:
            self._doubt(error, decision.path)
            return decision
        row_groups = tuple(
            _narrowed(one, left[one.row_group]) if one.row_group in left else one for one in decision.row_groups
        )
        return replace(decision, row_groups=row_groups)

    def _doubt(self, error: ParquetBloomError, path: str) -> None:
        error.path = error.path or path
        self.doubts[str(error)] = None

    def finish(self) -> list[str]:
        """All doubts, once every file was looked at; that an index knew none of those to be read is one, too."""
        for (name, _), knows in zip(self._indexes, self._knows, strict=True):
            if self._asked and not knows:
                self.doubts[f"{name}: it has zones of none of the files that are read"] = None
        return [*self.doubts]

    def _is_same(self, index: ZoneIndex, number: int, decision: FilePlan) -> bool:
        """Whether a file is the one whose zones an index has; the doubts tell if it is not."""
        same = _is_same(index, index.file(number), decision, self._filesystem)
        if not same:
            problem = "it has changed since its zones were made, which are not used"
            self._doubt(ParquetBloomError(problem, column=index.column), decision.path)
        return same


def _names(index: ZoneIndex, facts: FileStatistics, decider: PruningPredicate) -> set[str]:
    """The names by which a predicate asks an index's column what zones can answer."""
    asked = {leaf.column for leaf in tree.leaves(decider.node) if isinstance(leaf, _ASKED)}
    found = {name: facts.columns[name] for name in asked}
    return {name for name, column in found.items() if column is not None and column.leaf.name == index.column}


def _narrowed(decision: RowGroupPlan, rows: tuple[tuple[int, int], ...]) -> RowGroupPlan:
    if rows:
        return replace(decision, rows=rows)
    reason = "its zones say: no row of it matches"
    return replace(decision, read=False, by=frozenset({ZONES}), reason=reason, doubts=(), rows=None)


_VERIFIED: WeakKeyDictionary[ZoneIndex, dict[tuple[int, int, bytes], bool]] = WeakKeyDictionary()
"""For each open index, of files by number, size and stamp, whether their contents proved to be what was indexed."""
_VERIFYING = threading.Lock()


def _is_same(index: ZoneIndex, zoned: ZonedFile, decision: FilePlan, filesystem: Any) -> bool:
    """Whether a file that was judged is the one that was indexed: by its stamp, or else by its contents."""
    size, stamp = getattr(decision.identity, "size", None), version_token(decision.identity)
    if size is None:
        return False
    if stamp != NO_TOKEN and (size, stamp) == (zoned.size, zoned.stamp):
        return True
    key = zoned.number, size, stamp
    with _VERIFYING:  # one at a time, so that nothing is read twice
        verified = _VERIFIED.setdefault(index, {})
        if stamp != NO_TOKEN and key in verified:
            return verified[key]
        entry, column = Entry(decision.path), index.column or ""
        same, settled = compare_contents(entry, filesystem, zoned.footer, zoned.data, lambda file: [file.leaf(column)])
        if settled != NO_TOKEN and settled == stamp:
            verified[key] = same
    # What was judged before, and is read afterwards, has to be what was looked at now.
    return same and read_version_tokens([entry], filesystem) == [(size, stamp)]


@contextmanager
def open_zone_indexes(zones: Zones | None, filesystem: Any = None) -> Iterator[ZoneView | None]:
    """Have zone indexes at hand for one question; those that are given by their paths are open for that long.

    Parameters
    ----------
    zones : paths or open indexes, one or several; None for none.
    filesystem : of the paths, and of the files.

    Raises
    ------
    StorageError
        There is nothing at a path. What is there, and cannot be read, is no error.
    ParquetBloomError
        An index is Lance's, of no Parquet files.
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
                raise ParquetBloomError(f"zones are given by a path or an open ZoneIndex, not {type(one).__name__}")
            if index.files is None:
                problem = (
                    "it is Lance's own index, which tells nothing of Parquet files: zones.build makes one that does"
                )
                raise ParquetBloomError(f"{name}: {problem}")
            indexes.append((name, index))
        yield ZoneView(indexes, filesystem, doubts)
