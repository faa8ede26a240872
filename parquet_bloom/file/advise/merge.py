"""Merging the surveys of one column over the files of a lake."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from ...core.bloom.sizing import size_for
from ...hashing.column_type import ColumnType, Domain
from .survey import Chunk, ColumnSurvey, FileSurvey, Sample, Sizing

_MAX_SPANS = 4096  # row groups whose ranges are compared; if there are more, every second, every fourth ...


class ColumnKind(NamedTuple):
    """The properties of a column that may differ from file to file; those of most files are used.

    Attributes
    ----------
    type, nested, repeated, engines, barred, number : as in `ColumnSurvey`.
    """

    type: ColumnType
    nested: bool
    repeated: bool
    engines: tuple[str, ...] | None
    barred: str | None
    number: int | None


@dataclass
class MergedColumn:
    """One column over the files so far.

    Attributes
    ----------
    kinds : number of files by the column's kind.
    row_groups, filtered, in_dictionary : number of row groups that have the column, that have a filter of it, and whose
        values are all in a dictionary.
    num_values, num_bytes : totals over these row groups.
    lengths : {(sizing, number of values, rounded): row groups}.
    together : {sizing: most row groups that are read together}.
    distinct_counts, limits : (distinct values, values) of row groups; in `limits` the former are upper bounds.
    samples : samples of the row groups that were read, by file.
    mates : ordered pairs of row groups of one file.
    spans : (min, max) of every `step`-th of the `seen` row groups that have them.
    without_range : number of row groups without a range.
    filter_fpps : false-positive probabilities of filters that were read.
    problem, unreadable : the first problem, and the number of files that have one.
    twice : whether a file has two columns of that name.
    """

    kinds: Counter[ColumnKind] = field(default_factory=Counter)
    row_groups: int = 0
    filtered: int = 0
    in_dictionary: int = 0
    num_values: int = 0
    num_bytes: int = 0
    lengths: Counter[tuple[Sizing, int]] = field(default_factory=Counter)
    together: dict[Sizing, int] = field(default_factory=dict)
    distinct_counts: list[tuple[int, int]] = field(default_factory=list)
    limits: list[tuple[int, int]] = field(default_factory=list)
    samples: list[tuple[Sample, ...]] = field(default_factory=list)
    mates: int = 0
    spans: list[tuple[Domain, Domain]] = field(default_factory=list)
    spanned_type: ColumnType | None = None
    step: int = 1
    seen: int = 0
    without_range: int = 0
    filter_fpps: list[float] = field(default_factory=list)
    problem: str | None = None
    unreadable: int = 0
    twice: bool = False

    def add(self, survey: ColumnSurvey, file: FileSurvey) -> None:
        """Count the column of one more file."""
        self.kinds[
            ColumnKind(survey.type, survey.nested, survey.repeated, survey.engines, survey.barred, survey.number)
        ] += 1
        self.together[survey.sizing] = max(self.together.get(survey.sizing, 1), file.together)
        if survey.filter_fpp is not None:
            self.filter_fpps.append(survey.filter_fpp)
        self.problem = self.problem or survey.problem
        self.unreadable += survey.problem is not None
        if survey.samples:
            self.samples.append(survey.samples)
        self.mates += len(survey.chunks) * (len(survey.chunks) - 1)
        self.distinct_counts += [(sample.ndv, sample.num_values) for sample in survey.samples]
        for chunk in survey.chunks:
            self.row_groups += 1
            self.filtered += chunk.filter_bytes is not None
            self.in_dictionary += chunk.dictionary
            self.num_values += chunk.num_values
            self.num_bytes += chunk.num_bytes
            self.lengths[survey.sizing, _round_count(chunk.num_values)] += 1
            if chunk.ndv is not None and chunk.num_values:
                self.distinct_counts.append((chunk.ndv, chunk.num_values))
            if chunk.num_values:
                self.limits.append((_max_distinct(chunk), chunk.num_values))
                self._add_span(survey.type, chunk.low, chunk.high)

    def _add_span(self, column_type: ColumnType, low: Domain | None, high: Domain | None) -> None:
        """Add a range, or only every `step`-th: some thousand ranges are enough even for a million row groups."""
        self.spanned_type = self.spanned_type or column_type
        if low is None or high is None or column_type != self.spanned_type:
            self.without_range += 1
            return
        if self.seen % self.step == 0:
            self.spans.append((low, high))
        self.seen += 1
        if len(self.spans) > _MAX_SPANS:
            self.spans, self.step = self.spans[::2], 2 * self.step

    @property
    def empty(self) -> int:
        """Number of row groups that have no values."""
        return sum(count for (_, length), count in self.lengths.items() if not length)

    @property
    def sizing(self) -> Sizing:
        """The sizing of most of its filters."""
        return max(self.lengths, key=lambda one: self.lengths[one])[0] if self.lengths else size_for


def _max_distinct(chunk: Chunk) -> int:
    """Return the largest number of distinct values that a chunk can hold, by its min and max."""
    if isinstance(chunk.low, int) and isinstance(chunk.high, int):
        return min(chunk.num_values, max(0, chunk.high - chunk.low) + 1)
    return chunk.num_values


def _round_count(count: int) -> int:
    """Round a number of values to two digits, so that row groups of similar size are counted together."""
    digits = max(0, len(str(count)) - 2)
    return round(count, -digits)
