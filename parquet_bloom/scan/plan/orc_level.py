"""Evaluate a predicate on ORC files: stripes by the file's metadata, then row groups by row indexes and filters.

Columns that are not supported are ignored, so that their row groups are read: maps, unions, structs in lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ...file.column_statistics import ColumnCompatibility
from ...file.file_columns import find_leaves
from ...orc.orc_filters import keying_of
from ...predicate.map_lookup import find_map, is_key
from ...predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ...predicate.pruning_statistics import ColumnShape, PruningStatistics, PruningStatisticsArray
from ...predicate.reason import Reason, make_ignored
from ...predicate.variant_names import parse_evidence
from ..model.scan_plan import ORC, FilePlan, RowGroupPlanner

if TYPE_CHECKING:
    from ...orc import OrcFile
    from ...orc.orc_schema import OrcLeaf


@dataclass(frozen=True)
class OrcStatistics:
    """The columns of a predicate in an ORC file.

    Attributes
    ----------
    columns : {name: leaf}; None for a column that the file does not have, or that is ignored.
    holds : {name: shape of the column}.
    missing : the columns that the file does not have.
    doubts : why columns that it has are ignored.
    num_rows : of each row group, through the whole file; None for one without rows.
    """

    columns: dict[str, OrcLeaf | None]
    holds: dict[str, ColumnShape]
    missing: tuple[str, ...]
    doubts: tuple[Reason, ...]
    num_rows: tuple[int | None, ...]


def plan_orc_file(
    file: OrcFile,
    path: str,
    predicate: PruningPredicate | Literal[True],
    planner: RowGroupPlanner,
    ignore_case: bool = False,
    trust: ColumnCompatibility | None = None,
) -> tuple[tuple[str, ...], FilePlan]:
    """Plan a file.

    Parameters
    ----------
    path : as it was listed.
    predicate : True if every row matches.
    ignore_case : match names whatever their case.
    trust : which columns are ignored; one without `orc_doubts` does not know ORC files, and all columns are ignored.

    Returns
    -------
    The columns that the file does not have, and the plan.
    """
    statistics = orc_statistics(file, [] if predicate is True else predicate.columns, ignore_case, trust)
    verdicts = evaluate_row_groups(file, statistics, predicate)
    plans = planner.plan_file(path, predicate, statistics, verdicts, file.source.identity).row_groups
    row_groups = (
        replace(plan, stripe=row_group.stripe) for plan, row_group in zip(plans, file.row_groups, strict=True)
    )
    return statistics.missing, FilePlan(path, tuple(row_groups), identity=file.source.identity, format=ORC)


def orc_statistics(
    file: OrcFile, names: Iterable[str], ignore_case: bool = False, trust: ColumnCompatibility | None = None
) -> OrcStatistics:
    """Find the columns that names mean in a file."""
    names = list(names)
    columns: dict[str, OrcLeaf | None] = {}
    holds: dict[str, ColumnShape] = {}
    missing, doubts = [], []
    distrusted = find_distrusted(file, names, trust)
    for name in names:
        container = find_map(name)
        leaves = find_leaves(file.leaves, container, ignore_case)
        columns[name] = None
        of_variant = parse_evidence(name)
        if of_variant is not None and find_leaves(file.leaves, of_variant.column, ignore_case):
            doubts.append(make_ignored("ORC files have no evidence of paths in it", of_variant.column))
        elif not leaves:
            missing.append(name)
        elif container != name:
            doubts += [make_ignored("maps in ORC files are read whole", container)] if is_key(name) else []
        elif name in distrusted:
            doubts.append(make_ignored(distrusted[name], name))
        elif len(leaves) > 1:
            doubts.append(make_ignored(f"the name is ambiguous: the file has {len(leaves)} such columns", name))
        elif (shape := _column_shape(leaves[0], name)) is ColumnShape.PARTS:
            doubts.append(make_ignored("values nested in it are not supported", name))
        elif is_misleading(file, leaves[0]):
            doubts.append(make_ignored("ORC's C++ library writes other values of nested structs than it counts", name))
        else:
            columns[name], holds[name] = leaves[0], shape
    num_rows = tuple(row_group.num_rows or None for row_group in file.row_groups)
    return OrcStatistics(columns, holds, tuple(missing), tuple(doubts), num_rows)


def is_misleading(file: OrcFile, leaf: OrcLeaf) -> bool:
    """Return whether statistics may be about other values than readers find.

    pyarrow's writer, which is ORC's C++ library, loses values of a struct with nulls inside a struct without, and texts
    of a struct with nulls that it writes with a dictionary; its statistics are of the values that it was given.
    """
    text = leaf.kind in ("STRING", "VARCHAR", "CHAR", "BINARY")
    return file.writer == "c++" and not leaf.repeated and len(leaf.path) > (1 if text else 2)


def find_distrusted(file: OrcFile, names: Sequence[str], trust: ColumnCompatibility | None) -> Mapping[str, str]:
    """Return {name: doubt} for the columns that an engine may read as another type."""
    if trust is None:
        return {}
    find_doubts: Callable[[OrcFile], Mapping[str, str]] | None = getattr(trust, "orc_doubts", None)
    if find_doubts is None:
        return dict.fromkeys(names, "how the engine reads ORC files is not known")
    return find_doubts(file)


def _column_shape(leaf: OrcLeaf, name: str) -> ColumnShape:
    """Return the shape of the column that a name means, from the leaf that it was resolved to."""
    if not leaf.repeated and len(leaf.name) == len(name):
        return ColumnShape.VALUES
    parents = leaf.path[:-1]
    # The elements of a list are called "item"; a parent with one of these names is another list, a map or a union.
    is_nested = any(part in ("item", "key", "value") or part.isdigit() for part in parents[1:])
    is_list = leaf.repeated and leaf.path[-1] == "item" and len(".".join(parents)) == len(name) and not is_nested
    return ColumnShape.ELEMENTS if is_list else ColumnShape.PARTS


def evaluate_row_groups(
    file: OrcFile, statistics: OrcStatistics, predicate: PruningPredicate | Literal[True]
) -> NDArray[np.int32]:
    """Evaluate a predicate on all row groups of a file; return the number of each one's verdict."""
    if predicate is True:
        return np.zeros(len(statistics.num_rows), np.int32)
    of_stripes = predicate.decide_all(
        _collect_statistics(statistics, lambda leaf: file.stripe_statistics(leaf)), len(file.stripes)
    )
    stripe_of = np.array([row_group.stripe for row_group in file.row_groups], np.intp)
    verdicts = of_stripes[stripe_of]
    possible = predicate.possible(of_stripes)
    row_groups = np.flatnonzero(possible[stripe_of])
    stripes = sorted({*stripe_of[row_groups].tolist()})
    leaves = {leaf.column_id: leaf for leaf in statistics.columns.values() if leaf is not None}
    if not len(row_groups) or not leaves:
        return verdicts
    evidence = file.row_group_evidence(list(leaves.values()), stripes)

    def row_group_statistics(leaf: OrcLeaf) -> list[PruningStatistics]:
        return [one for stripe in stripes for one in evidence[stripe, leaf.column_id]]

    prober = _FilterProber(file, statistics, row_groups)
    columns = _collect_statistics(statistics, row_group_statistics)
    verdicts[row_groups] = predicate.decide_all(columns, len(row_groups), prober)
    return verdicts


def _collect_statistics(
    statistics: OrcStatistics, read_statistics: Callable[[OrcLeaf], list[PruningStatistics]]
) -> dict[str, PruningStatisticsArray | None]:
    """Return the pruning statistics of each column, from those that `read_statistics` returns for its leaf."""
    columns: dict[str, PruningStatisticsArray | None] = {}
    for name, leaf in statistics.columns.items():
        columns[name] = None
        if leaf is not None:
            items = read_statistics(leaf)
            if leaf.repeated:  # the filter of a list contains more than its elements
                items = [replace(one, filtered=False) for one in items]
            array = PruningStatisticsArray.of(leaf.column_type, items, keying_of(leaf))
            columns[name] = array.holding(statistics.holds[name])
    return columns


class _FilterProber:
    """Probes the filters of row groups; those of one stripe and column are read together.

    Parameters
    ----------
    row_groups : those of the file's row groups that are evaluated.
    """

    def __init__(self, file: OrcFile, statistics: OrcStatistics, row_groups: NDArray[np.intp]):
        self._file = file
        self._statistics = statistics
        self._row_groups = [file.row_groups[row_group] for row_group in row_groups.tolist()]

    def __call__(self, probes: list[FilterProbe]) -> list[ProbeResult]:
        probed = [[self._row_groups[i] for i in probe.positions.tolist()] for probe in probes]
        keys = {
            (leaf.column_id, row_group.stripe): (leaf, row_group.stripe)
            for probe, row_groups in zip(probes, probed, strict=True)
            if (leaf := self._statistics.columns[probe.column]) is not None
            for row_group in row_groups
        }
        of_stripes = dict(zip(keys, self._file.filters_at(list(keys.values())), strict=True))
        results = []
        for probe, row_groups in zip(probes, probed, strict=True):
            leaf = self._statistics.columns[probe.column]
            assert leaf is not None
            filters = [of_stripes[leaf.column_id, one.stripe][one.row_group] for one in row_groups]
            maybe = [one is None or not one.trusted or one.check_hashes(probe.hashes).any() for one in filters]
            problems = [None if one is None else one.doubt for one in filters]
            results.append(ProbeResult(np.array(maybe, np.bool_), problems))
        return results
