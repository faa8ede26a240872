"""Evaluate a predicate on the row groups of Parquet files: by statistics, and by filters where these leave a doubt."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ...file.chunk_filter import ChunkFilter
from ...file.probe import probe_any, probe_hashes
from ...file.reader import BloomFile
from ...file.statistics import FileStatistics, join_parts
from ...predicate.pruning import POSSIBLE, FilterProbe, ProbeResult, PruningPredicate
from ...predicate.reason import UNDECIDED, Reason
from ...predicate.statistics import PruningStatisticsArray
from ..model.plan import FilePlan, RowGroupDraft, RowGroupPlan

_FEW = 16  # row groups, of which the plans are made at once

FilterProber = Callable[[list[FilterProbe]], Sequence[ProbeResult]]


def predicate_columns(predicate: PruningPredicate | Literal[True]) -> list[str]:
    """Return the columns of a predicate; none if it is True."""
    return [] if predicate is True else predicate.columns


def concatenate_statistics(files: Sequence[FileStatistics]) -> dict[str, PruningStatisticsArray | None]:
    """Return the statistics of each column in all row groups of files with one layout, file after file."""
    columns: dict[str, PruningStatisticsArray | None] = {}
    for name in files[0].columns:
        parts = [column.part for statistics in files if (column := statistics.columns[name]) is not None]
        columns[name] = join_parts(parts)[0].holding(files[0].holds[name]) if parts else None
    return columns


def evaluate_row_groups(
    statistics: FileStatistics,
    predicate: PruningPredicate | Literal[True],
    probe_filters: FilterProber,
) -> NDArray[np.int32]:
    """Evaluate a predicate on all row groups of a file.

    Parameters
    ----------
    statistics : of the file.
    predicate : True if every row matches.
    probe_filters : see `PruningPredicate.decide_all`; its places are the file's row groups.

    Returns
    -------
    The number of each row group's verdict.
    """
    count = len(statistics.num_rows)
    if predicate is True:
        return np.zeros(count, np.int32)
    return predicate.decide_all(concatenate_statistics([statistics]), count, probe_filters)


def make_filter_prober(file: BloomFile, statistics: FileStatistics) -> FilterProber:
    """Return a function that probes the filters of one file, all of a step at once."""

    def probe_filters(probes: list[FilterProbe]) -> list[ProbeResult]:
        chunks_of_probes = [find_filters(file, statistics, probe.column, probe.positions) for probe in probes]
        file.read_headers(chunk for chunks in chunks_of_probes for chunk in chunks)
        pairs = [
            (chunk, probe.hashes) for chunks, probe in zip(chunks_of_probes, probes, strict=True) for chunk in chunks
        ]
        maybe, problems = probe_any(pairs)
        results, done = [], 0
        for chunks, probe in zip(chunks_of_probes, probes, strict=True):
            column = statistics.columns[probe.column]
            assert column is not None
            for chunk in chunks:
                column.load_header(chunk)
            end = done + len(chunks)
            results.append(ProbeResult(np.array(maybe[done:end], np.bool_), problems[done:end]))
            done = end
        return results

    return probe_filters


def find_filters(
    file: BloomFile, statistics: FileStatistics, column: str, row_groups: NDArray[np.intp]
) -> list[ChunkFilter]:
    """Return a column's filters in the row groups that have one."""
    column_statistics = statistics.columns[column]
    assert column_statistics is not None
    chunks = (file.chunk(row_group, column_statistics.leaf) for row_group in row_groups.tolist())
    return [chunk for chunk in chunks if chunk is not None]


def has_broken_filter(file: BloomFile, statistics: FileStatistics, row_groups: Sequence[int]) -> bool:
    """Return whether statistics or filters of some row groups cannot be used; filters are probed to find out."""
    positions = np.array(row_groups, np.intp)
    columns = {name: column for name, column in statistics.columns.items() if column is not None}
    if any(
        column.evidence.doubts and any(column.evidence.doubts[i] for i in row_groups) for column in columns.values()
    ):
        return True
    chunks = [
        chunk
        for name, column in columns.items()
        for chunk in find_filters(file, statistics, name, positions[column.evidence.filtered[positions]])
    ]
    return any(probe_hashes(chunks, np.zeros(1, np.uint64))[1])


class RowGroupCounts(Protocol):
    """The part of a file's statistics, of either format, that plans are made of; see `FileStatistics`."""

    @property
    def num_rows(self) -> tuple[int | None, ...]: ...

    @property
    def doubts(self) -> tuple[Reason, ...]: ...


class RowGroupPlanner:
    """Converts verdicts to plans; equal plans are one object, since a lake has many.

    Parameters
    ----------
    predicate : the one that gave the verdicts; True if every row matches.
    doubts : added to each row group that is read.
    """

    def __init__(self, predicate: PruningPredicate | Literal[True], doubts: tuple[Reason, ...] = ()):
        self._predicate = predicate
        self._doubts = doubts
        self._plans: dict[tuple[object, ...], tuple[RowGroupPlan, ...]] = {}
        self._attributes: dict[tuple[int, tuple[Reason, ...]], dict[str, Any]] = {}

    def plan(self, counts: RowGroupCounts, verdicts: NDArray[np.int32]) -> tuple[RowGroupPlan, ...]:
        """Return the plan of each row group of a file."""
        key = verdicts.tobytes(), counts.num_rows, counts.doubts
        plans = self._plans.get(key)
        if plans is None:
            plans = self._plans[key] = self._draft(counts, verdicts).make()
        return plans

    def plan_file(self, path: str, counts: RowGroupCounts, verdicts: NDArray[np.int32], identity: Hashable) -> FilePlan:
        """Return the plan of a file."""
        if len(verdicts) > _FEW:
            return FilePlan.of_draft(path, self._draft(counts, verdicts), identity)
        return FilePlan(path, self.plan(counts, verdicts), identity=identity)

    def _draft(self, counts: RowGroupCounts, verdicts: NDArray[np.int32]) -> RowGroupDraft:
        numbers = dict.fromkeys(verdicts.tolist())
        attributes = {number: self._find_attributes(number, counts.doubts) for number in numbers}
        return RowGroupDraft(attributes, verdicts, counts.num_rows)

    def _find_attributes(self, number: int, file_doubts: tuple[Reason, ...]) -> dict[str, Any]:
        """Return the attributes of the plan of each row group with a verdict; see `RowGroupDraft`."""
        key = number, file_doubts
        if key not in self._attributes:
            verdict = POSSIBLE if self._predicate is True else self._predicate.verdict(number)
            # To the predicate, a column that is ignored is missing; the file's doubts say why it is ignored.
            ignored = {doubt.column for doubt in file_doubts if doubt.kind != UNDECIDED}
            others = tuple(doubt for doubt in verdict.doubts if doubt.column not in ignored)
            doubts = others + file_doubts + self._doubts if verdict.possible else ()
            self._attributes[key] = vars(RowGroupPlan(0, verdict.possible, verdict.by, verdict.reason, doubts))
        return self._attributes[key]
