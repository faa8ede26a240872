"""ORC files held against a predicate: stripes by the file's metadata, then row groups by row indexes and filters.

What is not understood is not looked at, and read: maps, unions, structs in lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ...file.columns import find_leaves
from ...file.statistics import ColumnCompatibility
from ...orc.filters.hashes import keying_of
from ...predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ...predicate.statistics import ColumnShape, PruningStatistics, PruningStatisticsArray
from ..model.decision import ORC, FilePlan
from .parquet import Decisions, columns_of

if TYPE_CHECKING:
    from ...orc import OrcFile
    from ...orc.metadata.schema import OrcLeaf


@dataclass(frozen=True)
class OrcFacts:
    """What of a file a predicate is about.

    Attributes
    ----------
    columns : the leaf of each name; None for a column that the file does not have, or that is not looked at.
    holds : what the values of each are of what its name means.
    missing : the columns that the file does not have.
    doubts : why columns that it has are not looked at.
    num_rows : of each row group, through the whole file; None for one without rows.
    """

    columns: dict[str, OrcLeaf | None]
    holds: dict[str, ColumnShape]
    missing: tuple[str, ...]
    doubts: tuple[str, ...]
    num_rows: tuple[int | None, ...]


def evaluate_orc(
    file: OrcFile,
    path: str,
    decider: PruningPredicate | Literal[True],
    decisions: Decisions,
    ignore_case: bool = False,
    trust: ColumnCompatibility | None = None,
) -> tuple[tuple[str, ...], FilePlan]:
    """Judge all row groups of a file.

    Parameters
    ----------
    path : as it was listed.
    decider : the predicate; True for one that holds for every row.
    decisions : of this decider.
    ignore_case : whether names match whatever their case.
    trust : which columns are not looked at; one that does not know ORC files (by `orc_doubts`) trusts none.

    Returns
    -------
    The columns that the file does not have, and the decision.
    """
    facts = orc_statistics(file, columns_of(decider), ignore_case, trust)
    found = decisions.of(facts, verdicts_of(file, facts, decider))
    row_groups = (replace(one, stripe=row_group.stripe) for one, row_group in zip(found, file.row_groups, strict=True))
    return facts.missing, FilePlan(path, tuple(row_groups), identity=file.source.identity, format=ORC)


def orc_statistics(
    file: OrcFile, names: Iterable[str], ignore_case: bool = False, trust: ColumnCompatibility | None = None
) -> OrcFacts:
    """Find the columns that names mean."""
    names = list(names)
    columns: dict[str, OrcLeaf | None] = {}
    holds: dict[str, ColumnShape] = {}
    missing, doubts = [], []
    distrusted = _distrusted(file, names, trust)
    for name in names:
        leaves = find_leaves(file.leaves, name, ignore_case)
        columns[name] = None
        if not leaves:
            missing.append(name)
        elif name in distrusted:
            doubts.append(f"'{name}': {distrusted[name]}")
        elif len(leaves) > 1:
            doubts.append(f"'{name}' stands for {len(leaves)} columns of the file")
        elif (held := _holds(leaves[0], name)) is ColumnShape.PARTS:
            doubts.append(f"'{name}': what is inside of it is not looked into")
        elif misleading(file, leaves[0]):
            doubts.append(f"'{name}': ORC's C++ library writes other values of nested structs than it counts")
        else:
            columns[name], holds[name] = leaves[0], held
    num_rows = tuple(row_group.num_rows or None for row_group in file.row_groups)
    return OrcFacts(columns, holds, tuple(missing), tuple(doubts), num_rows)


def misleading(file: OrcFile, leaf: OrcLeaf) -> bool:
    """Whether evidence may be about other values than those that every reader finds.

    pyarrow's writer, by ORC's C++ library, loses values of a struct with nulls in a struct without, and texts of a
    struct with nulls that it writes by a dictionary; what it counts are the values that it was given.
    """
    text = leaf.kind in ("STRING", "VARCHAR", "CHAR", "BINARY")
    return file.writer == "c++" and not leaf.repeated and len(leaf.path) > (1 if text else 2)


def _distrusted(file: OrcFile, names: Sequence[str], trust: ColumnCompatibility | None) -> Mapping[str, str]:
    if trust is None:
        return {}
    asked: Callable[[OrcFile], Mapping[str, str]] | None = getattr(trust, "orc_doubts", None)
    return dict.fromkeys(names, "how the engine reads ORC files is not known") if asked is None else asked(file)


def _holds(leaf: OrcLeaf, name: str) -> ColumnShape:
    """What a leaf's values are of what a name means that it was found by."""
    if not leaf.repeated and len(leaf.name) == len(name):
        return ColumnShape.VALUES
    above = leaf.path[:-1]
    # Elements are called "item"; what stands below another list, a map or a union is called so too, or by these names.
    inside = any(part in ("item", "key", "value") or part.isdigit() for part in above[1:])
    of_list = leaf.repeated and leaf.path[-1] == "item" and len(".".join(above)) == len(name) and not inside
    return ColumnShape.ELEMENTS if of_list else ColumnShape.PARTS


def verdicts_of(file: OrcFile, facts: OrcFacts, decider: PruningPredicate | Literal[True]) -> NDArray[np.int32]:
    """Judge all row groups of a file: the number of each one's verdict."""
    if decider is True:
        return np.zeros(len(facts.num_rows), np.int32)
    of_stripes = decider.decide_all(_columns(facts, lambda leaf: file.stripe_statistics(leaf)), len(file.stripes))
    stripe_of = np.array([row_group.stripe for row_group in file.row_groups], np.intp)
    verdicts = of_stripes[stripe_of]
    possible = decider.possible(of_stripes)
    places = np.flatnonzero(possible[stripe_of])
    left = sorted({*stripe_of[places].tolist()})
    leaves = {leaf.column_id: leaf for leaf in facts.columns.values() if leaf is not None}
    if not len(places) or not leaves:
        return verdicts
    known = file.row_group_evidence(list(leaves.values()), left)

    def in_row_groups(leaf: OrcLeaf) -> list[PruningStatistics]:
        return [one for stripe in left for one in known[stripe, leaf.column_id]]

    ask = _Asking(file, facts, places)
    verdicts[places] = decider.decide_all(_columns(facts, in_row_groups), len(places), ask)
    return verdicts


def _columns(
    facts: OrcFacts, look: Callable[[OrcLeaf], list[PruningStatistics]]
) -> dict[str, PruningStatisticsArray | None]:
    """The evidence on each column, in the places that `look` knows."""
    columns: dict[str, PruningStatisticsArray | None] = {}
    for name, leaf in facts.columns.items():
        columns[name] = None
        if leaf is not None:
            found = look(leaf)
            if leaf.repeated:  # a list's filter holds more than its elements
                found = [replace(one, filtered=False) for one in found]
            columns[name] = PruningStatisticsArray.of(leaf.column_type, found, keying_of(leaf)).holding(
                facts.holds[name]
            )
    return columns


class _Asking:
    """Asks the filters of row groups, of a stripe and column together.

    Parameters
    ----------
    places : which of the file's row groups are judged.
    """

    def __init__(self, file: OrcFile, facts: OrcFacts, places: NDArray[np.intp]):
        self._file = file
        self._facts = facts
        self._row_groups = [file.row_groups[place] for place in places.tolist()]

    def __call__(self, questions: list[FilterProbe]) -> list[ProbeResult]:
        asked = [[self._row_groups[place] for place in question.places.tolist()] for question in questions]
        wanted = {
            (leaf.column_id, row_group.stripe): (leaf, row_group.stripe)
            for question, row_groups in zip(questions, asked, strict=True)
            if (leaf := self._facts.columns[question.column]) is not None
            for row_group in row_groups
        }
        found = dict(zip(wanted, self._file.filters_at(list(wanted.values())), strict=True))
        answers = []
        for question, row_groups in zip(questions, asked, strict=True):
            leaf = self._facts.columns[question.column]
            assert leaf is not None
            filters = [found[leaf.column_id, one.stripe][one.row_group] for one in row_groups]
            maybe = [one is None or not one.trusted or one.check_hashes(question.hashes).any() for one in filters]
            problems = [None if one is None else one.doubt for one in filters]
            answers.append(ProbeResult(np.array(maybe, np.bool_), problems))
        return answers
