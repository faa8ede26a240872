"""Row groups held against a predicate: what is known of their columns, and what their filters say when asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ...file.chunk_filter import ChunkFilter
from ...file.probe import probe_any, probe_hashes
from ...file.reader import BloomFile
from ...file.statistics import FileStatistics
from ...predicate.pruning import POSSIBLE, FilterProbe, ProbeResult, PruningPredicate
from ...predicate.statistics import PruningStatistics, PruningStatisticsArray
from ..model.decision import RowGroupPlan

Ask = Callable[[list[FilterProbe]], Sequence[ProbeResult]]


def columns_of(decider: PruningPredicate | Literal[True]) -> list[str]:
    """The columns that a predicate looks at; none if it is true."""
    return [] if decider is True else decider.columns


def columns_together(files: Sequence[FileStatistics]) -> dict[str, PruningStatisticsArray | None]:
    """The evidence on each column in all row groups of files of one layout, one file's behind the other's."""
    columns: dict[str, PruningStatisticsArray | None] = {}
    for name in files[0].columns:
        found = [of_file.evidence for facts in files if (of_file := facts.columns[name]) is not None]
        columns[name] = PruningStatisticsArray.joined(found).holding(files[0].holds[name]) if found else None
    return columns


def judge(
    facts: FileStatistics,
    decider: PruningPredicate | Literal[True],
    ask: Ask | None,
    others: Mapping[str, PruningStatistics | None] | None = None,
) -> NDArray[np.int32]:
    """Judge all row groups of a file.

    Parameters
    ----------
    facts : its facts.
    decider : the predicate, or True for one that holds for every row.
    ask : see `PruningPredicate.decide_all`; the places are the file's row groups.
    others : what is known of columns of the predicate that the facts are not about, the same in all row groups.

    Returns
    -------
    The number of each row group's verdict.
    """
    count = len(facts.num_rows)
    if decider is True:
        return np.zeros(count, np.int32)
    columns: dict[str, PruningStatisticsArray | None] = {}
    for name, one in (others or {}).items():
        columns[name] = (
            None if one is None else PruningStatisticsArray.of(one.column_type, [one]).at(np.zeros(count, np.intp))
        )
    return decider.decide_all(columns | columns_together([facts]), count, ask)


def ask_file(file: BloomFile, facts: FileStatistics) -> Ask:
    """How the filters of one file are asked: all that matters at once."""

    def ask(questions: list[FilterProbe]) -> list[ProbeResult]:
        asked = [filters_of(file, facts, question.column, question.places) for question in questions]
        file.read_headers(chunk for chunks in asked for chunk in chunks)
        every = [(chunk, q.hashes) for chunks, q in zip(asked, questions, strict=True) for chunk in chunks]
        found, problems = probe_any(every)
        answers, done = [], 0
        for chunks, question in zip(asked, questions, strict=True):
            of_column = facts.columns[question.column]
            assert of_column is not None
            for chunk in chunks:
                of_column.load_header(chunk)
            end = done + len(chunks)
            answers.append(ProbeResult(np.array(found[done:end], np.bool_), problems[done:end]))
            done = end
        return answers

    return ask


def filters_of(file: BloomFile, facts: FileStatistics, column: str, row_groups: NDArray[np.intp]) -> list[ChunkFilter]:
    """A column's filters in row groups that have one."""
    of_column = facts.columns[column]
    assert of_column is not None
    found = (file.chunk(row_group, of_column.leaf) for row_group in row_groups.tolist())
    return [chunk for chunk in found if chunk is not None]


def has_broken_filter(file: BloomFile, facts: FileStatistics, row_groups: Sequence[int]) -> bool:
    """Whether evidence on a column of some row groups cannot be used: a filter for one, which is asked to find out."""
    where = np.array(row_groups, np.intp)
    columns = {name: column for name, column in facts.columns.items() if column is not None}
    if any(
        column.evidence.doubts and any(column.evidence.doubts[i] for i in row_groups) for column in columns.values()
    ):
        return True
    chunks = [
        chunk
        for name, column in columns.items()
        for chunk in filters_of(file, facts, name, where[column.evidence.filtered[where]])
    ]
    return any(probe_hashes(chunks, np.zeros(1, np.uint64))[1])


class Judged(Protocol):
    """What decisions take of a file's facts, of whichever format: see `FileStatistics`."""

    @property
    def num_rows(self) -> tuple[int | None, ...]: ...

    @property
    def doubts(self) -> tuple[str, ...]: ...


class Decisions:
    """Makes decisions of verdicts; equal ones are one object, since a lake has many.

    Parameters
    ----------
    decider : who gave the verdicts; True for a predicate that holds for every row.
    doubts : about whatever is read.
    """

    def __init__(self, decider: PruningPredicate | Literal[True], doubts: tuple[str, ...] = ()):
        self._decider = decider
        self._doubts = doubts
        self._known: dict[tuple[object, ...], tuple[RowGroupPlan, ...]] = {}

    def of(self, facts: Judged, verdicts: NDArray[np.int32]) -> tuple[RowGroupPlan, ...]:
        """The decision on each row group of a file."""
        key = verdicts.tobytes(), facts.num_rows, facts.doubts
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = tuple(
                self._decision(number, row_group, num_rows, facts.doubts)
                for row_group, (number, num_rows) in enumerate(zip(verdicts.tolist(), facts.num_rows, strict=True))
            )
        return found

    def _decision(self, number: int, row_group: int, num_rows: int | None, doubts: tuple[str, ...]) -> RowGroupPlan:
        if num_rows is None:
            return RowGroupPlan(row_group, False, frozenset({"empty"}), "it has no rows")
        verdict = POSSIBLE if self._decider is True else self._decider.verdict(number)
        # What is not looked at is no column to the decider; `doubts` say why.
        held_back = tuple(doubt.partition(": ")[0] + ": " for doubt in doubts)
        told = tuple(doubt for doubt in verdict.doubts if not doubt.startswith(held_back))
        found = told + doubts + self._doubts if verdict.possible else ()
        return RowGroupPlan(row_group, verdict.possible, verdict.by, verdict.reason, found, num_rows)
