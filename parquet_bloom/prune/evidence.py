"""What a Parquet file's footer and filters tell of one row group, as evidence for `predicate.decide`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import numpy as np

from ..errors import ParquetBloomError
from ..file.columns import find_leaves, type_of
from ..file.probing import probe_any, probe_hashes
from ..file.reader import BloomFile, ChunkFilter
from ..hashing import physical
from ..hashing.physical import ColumnType, Domain
from ..metadata.footer import Leaf, Statistics
from ..predicate.decide import Decider, Evidence, Verdict


class FileEvidence:
    """Evidence of one file's row groups for some columns.

    Parameters
    ----------
    file : the file.
    columns : dotted names, as the predicate has them.
    ignore_case : whether names match whatever their case, as in Spark.

    Attributes
    ----------
    missing : the columns that the file does not have.
    doubts : why columns that it has cannot be told apart.
    """

    def __init__(self, file: BloomFile, columns: list[str], ignore_case: bool = False):
        self._file = file
        self._leaves: dict[str, Leaf | None] = {}
        self.doubts: list[str] = []
        self.missing: list[str] = []
        for name in columns:
            found = find_leaves(file.leaves, name, ignore_case)
            if not found:
                self.missing.append(name)
            if len(found) > 1:
                self.doubts.append(f"'{name}' stands for {len(found)} columns of the file")
            self._leaves[name] = found[0] if len(found) == 1 else None
        self._gathered: list[Probe] | None = None
        self._headers_read = False

    def decide_all(self, decider: Decider, row_groups: Iterable[int]) -> dict[int, Verdict]:
        """Judge row groups, {row group: verdict}. All filters that matter are asked at once.

        First every row group is judged as if filters denied nothing, and what they would be asked is written down; then
        the row groups that are left are judged again, with the answers. What the predicate's leaves make of ranges
        before they ask a filter, such as which values of an IN list are left, so decides what is read.

        Raises
        ------
        TruncatedFileError, StorageError
            The file is shorter than it was, or cannot be read.
        """
        verdicts: dict[int, Verdict] = {}
        undecided: dict[int, dict[str, Evidence | None]] = {}
        self._gathered = []
        try:
            for row_group in row_groups:
                before = len(self._gathered)
                found = self.of(row_group)
                verdicts[row_group] = decider.decide(found)
                asked = [probe for probe in self._gathered[before:] if probe.questions]
                if not verdicts[row_group].possible:
                    asked.clear()
                elif asked:
                    undecided[row_group] = found
                self._gathered[before:] = asked
            asked = self._gathered
        finally:
            self._gathered = None
        self._answer(asked)
        verdicts.update((row_group, decider.decide(found)) for row_group, found in undecided.items())
        return verdicts

    def _answer(self, probes: list[Probe]) -> None:
        if not probes:
            return
        self._file.read_headers(probe.chunk for probe in probes)
        questions = [(probe, hashes) for probe in probes for hashes in probe.questions or ()]
        found, problems = probe_any([(probe.chunk, hashes) for probe, hashes in questions])
        for (probe, hashes), maybe, problem in zip(questions, found, problems, strict=True):
            probe.take(hashes, maybe, problem)

    def read_headers(self) -> None:
        """Read the headers of all filters that may be asked, once: for who asks one after the other."""
        if not self._headers_read:
            self._headers_read = True
            self._file.read_headers(self._filters())

    def _filters(self) -> Iterator[ChunkFilter]:
        """The filters that may be asked for."""
        for row_group in self._file.row_groups:
            for leaf in self._leaves.values():
                if leaf is None or not type_of(leaf).hashable or self._file.footer.empty(row_group):
                    continue
                with suppress(ParquetBloomError):  # it has its say where the chunk is looked at
                    chunk = self._file.chunk(row_group, leaf)
                    if chunk is not None:
                        yield chunk

    def of(self, row_group: int) -> dict[str, Evidence | None]:
        """The evidence on each column in one row group."""
        return {
            name: None if leaf is None else self._chunk_evidence(row_group, leaf) for name, leaf in self._leaves.items()
        }

    def _chunk_evidence(self, row_group: int, leaf: Leaf) -> Evidence:
        column_type = type_of(leaf)
        try:
            record = self._file.record(row_group, leaf)
        except ParquetBloomError as error:
            return Evidence(column_type, doubt=error.problem)
        statistics = self._file.footer.statistics(record)
        low, high = bounds(statistics, column_type, leaf.index in self._file.footer.type_ordered)
        has_values = self._file.footer.has_values_by(row_group, leaf, record, statistics)
        has_nulls = self._file.footer.has_nulls_by(row_group, leaf, record, statistics)
        chunk = self._file.chunk_of(row_group, leaf, record)
        if chunk is None or not column_type.hashable:  # a BOOLEAN column's filter: some writers leave it empty
            return Evidence(column_type, has_values, low, high, has_nulls=has_nulls)
        probe = Probe(chunk, self)
        if self._gathered is not None:
            self._gathered.append(probe)
            probe.questions = []
        return Evidence(column_type, has_values, low, high, probe, has_nulls=has_nulls)


class Probe:
    """Asks a filter for the blocks concerned, when it is asked; one that turns out to be broken denies nothing.

    Attributes
    ----------
    chunk : the filter. Nothing of it is read before it is asked.
    questions : while they are gathered, the keys asked for so far, all of which "may be there"; None when it answers.
    """

    def __init__(self, chunk: ChunkFilter, evidence: FileEvidence | None = None):
        self.chunk = chunk
        self.questions: list[np.ndarray] | None = None
        self._evidence = evidence
        self._answers: dict[tuple[int, int], tuple[bool, np.ndarray]] = {}  # keys are kept: their place is their name
        self._asked = False
        self._doubt: str | None = None

    def __call__(self, hashes: np.ndarray) -> np.ndarray:
        if self.questions is not None:
            if len(hashes):
                self.questions.append(hashes)
            return np.ones(len(hashes), np.bool_)
        known = self._answers.get(_place(hashes))
        if known is not None:
            return np.full(len(hashes), known[0])
        if self._evidence is not None:
            self._evidence.read_headers()
        found, (problem,) = probe_hashes([self.chunk], hashes)
        self._asked, self._doubt = True, self._doubt or problem
        return found[0]

    def take(self, hashes: np.ndarray, maybe: bool, problem: str | None) -> None:
        """Know from now on whether any of some keys may be there, and why the filter cannot be used."""
        self.questions = None
        self._answers[_place(hashes)] = maybe, hashes
        self._asked, self._doubt = True, self._doubt or problem

    @property
    def doubt(self) -> str | None:
        """Why the filter cannot be used. It is asked for some key if it was not asked yet: that shows it as well."""
        if self.questions is None and not self._asked:
            self(np.zeros(1, np.uint64))
        return self._doubt


def _place(hashes: np.ndarray) -> tuple[int, int]:
    return hashes.__array_interface__["data"][0], len(hashes)


def bounds(statistics: Statistics, column_type: ColumnType, type_ordered: bool) -> tuple[Domain | None, Domain | None]:
    """The smallest and largest value that a column chunk can hold, as domain values; None where nothing is known.

    Statistics count only where the format says what order they are in: under a declared type order, or in the
    deprecated fields for signed numbers. NaN bounds nothing, and bounds the wrong way round are none.
    """
    low_stored, high_stored = statistics.min_value, statistics.max_value
    if not physical.ordered(column_type) or not (type_ordered or physical.legacy_ordered(column_type)):
        return None, None
    if low_stored is None and high_stored is None and physical.legacy_ordered(column_type):
        low_stored, high_stored = statistics.legacy_min, statistics.legacy_max
    low = None if low_stored is None else physical.decode(low_stored, column_type)
    high = None if high_stored is None else physical.decode(high_stored, column_type)
    if any(bound is not None and physical.is_nan(bound) for bound in (low, high)):
        return None, None
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return None, None
    return low, high
