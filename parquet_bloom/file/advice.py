"""What is advised about a lake's columns: surveys of its files merged, a verdict a column, and its reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..core.sizing import size_for
from ..hashing.physical import ColumnType, Domain, Kind
from .engines import engines_for
from .estimates import distinct_ratio, share_in_common, share_in_range
from .survey import ColumnSurvey, FileSurvey, Sample

FPPS = (0.05, 0.01, 0.001)
"""False-positive probabilities that sizes are told for, besides the one asked for."""

YES, MAYBE, NO = "yes", "maybe", "no"

_MOST_SPANS = 4096  # row groups of a column whose ranges are compared; of more, every second, every fourth ...
_SORTED = 0.1  # a share of row groups, that ranges leave, which is small enough
_EVERYWHERE = 0.5  # a share of the other row groups, that hold a row group's value, which is too large
_WORTH = 0.2  # a share of row groups, that a filter skips beyond ranges, which is worth having
_DEAR = 0.1  # a share of the files, that filters take, which wants to be thought about
_SELDOM = {Kind.FLOAT: "floats", Kind.TIMESTAMP: "timestamps", Kind.TIME: "times of day"}


@dataclass(frozen=True)
class ColumnAdvice:
    """What is known of a column over all files, and what follows.

    Attributes
    ----------
    column : its dotted path.
    type : as files store it; where they differ, as most do.
    verdict, reason : "yes", "maybe" or "no", and why, on one line.
    engines : those that ask such a column's filters; parquet_bloom asks those of every column.
    row_groups : number of row groups that have the column and rows.
    filtered : number of them that have a filter already.
    num_values, num_bytes : of all row groups: values that are not null, and bytes as they are stored.
    dictionary : share of the row groups whose values are all in a dictionary.
    distinct : distinct values a value within a row group, 0 to 1; None if neither samples nor dictionaries tell.
    in_range : share of the row groups that min and max leave to be read for a value within some row group's range.
    holding : share of the row groups that hold a value which occurs; None if unknown.
    sizes : {fpp: bytes} of filters in all row groups; empty where `distinct` is unknown.
    skipped_present, skipped_absent : share of the row groups that min, max and a filter skip for a value which occurs
        somewhere, and for one that does not but lies in the range; None if unknown.
    """

    column: str
    type: str
    verdict: str
    reason: str
    engines: tuple[str, ...] = ()
    row_groups: int = 0
    filtered: int = 0
    num_values: int = 0
    num_bytes: int = 0
    dictionary: float = 0.0
    distinct: float | None = None
    in_range: float = 1.0
    holding: float | None = None
    sizes: Mapping[float, int] = field(default_factory=dict)
    skipped_present: float | None = None
    skipped_absent: float | None = None


@dataclass
class _Column:
    """One column over the files so far."""

    types: Counter[tuple[ColumnType, bool, bool]] = field(default_factory=Counter)
    row_groups: int = 0
    filtered: int = 0
    in_dictionary: int = 0
    num_values: int = 0
    num_bytes: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    told: list[tuple[int, int]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    spans: list[tuple[Domain, Domain]] = field(default_factory=list)
    spanned_type: ColumnType | None = None
    step: int = 1
    seen: int = 0
    without_range: int = 0
    problem: str | None = None
    unreadable: int = 0
    twice: bool = False

    def add(self, found: ColumnSurvey) -> None:
        self.types[found.type, found.nested, found.repeated] += 1
        self.problem = self.problem or found.problem
        self.unreadable += found.problem is not None
        self.samples += found.samples
        self.told += [(sample.ndv, sample.num_values) for sample in found.samples]
        for chunk in found.chunks:
            self.row_groups += 1
            self.filtered += chunk.filter_bytes is not None
            self.in_dictionary += chunk.dictionary
            self.num_values += chunk.num_values
            self.num_bytes += chunk.num_bytes
            self.lengths[_rounded(chunk.num_values)] += 1
            if chunk.ndv is not None and chunk.num_values:
                self.told.append((chunk.ndv, chunk.num_values))
            if chunk.num_values:
                self._add_span(found.type, chunk.low, chunk.high)

    def _add_span(self, column_type: ColumnType, low: Domain | None, high: Domain | None) -> None:
        """Keep a range, or every so many-th: of a million row groups some thousands tell as much."""
        self.spanned_type = self.spanned_type or column_type
        if low is None or high is None or column_type != self.spanned_type:
            self.without_range += 1
            return
        if self.seen % self.step == 0:
            self.spans.append((low, high))
        self.seen += 1
        if len(self.spans) > _MOST_SPANS:
            self.spans, self.step = self.spans[::2], 2 * self.step


def _rounded(count: int) -> int:
    """A number of values by its first two digits: row groups of about a size are counted together."""
    digits = max(0, len(str(count)) - 2)
    return round(count, -digits)


class Advice:
    """Takes the surveys of files, one by one and in any number, and judges at the end."""

    def __init__(self) -> None:
        self.files = self.row_groups = self.rows = self.num_bytes = 0
        self._columns: dict[str, _Column] = {}

    def add(self, found: FileSurvey) -> None:
        """Count one more file."""
        self.files += 1
        self.row_groups += found.num_row_groups
        self.rows += found.num_rows
        self.num_bytes += found.num_bytes
        names: Counter[str] = Counter(column.name for column in found.columns)
        for column in found.columns:
            known = self._columns.setdefault(column.name, _Column())
            known.twice |= names[column.name] > 1
            known.add(column)

    def columns(self, fpp: float) -> list[ColumnAdvice]:
        """What is advised of each column, in the order in which they were met."""
        return [self._advice(name, column, fpp) for name, column in self._columns.items()]

    def _advice(self, name: str, column: _Column, fpp: float) -> ColumnAdvice:
        (column_type, nested, repeated), _ = column.types.most_common(1)[0]
        unknown = column.without_range * max(len(column.spans), 1) // max(column.seen, 1)
        in_range = share_in_range(column.spans, unknown)
        ratio = distinct_ratio(column.told)
        total = max(column.row_groups, 1)
        holding = None
        if ratio is not None:
            common = share_in_common(column.samples)
            # Where only one row group was read: what repeats within one is thought to repeat in others as well.
            holding = min(1.0, (1 + (total - 1) * (1 - ratio if common is None else common)) / total)
        present = absent = None
        if holding is not None:
            in_range = max(in_range, holding)
            present = 1 - (holding + (in_range - holding) * fpp)
            absent = 1 - in_range * fpp
        sizes = {} if ratio is None or not column_type.hashable else _sizes(column, ratio, fpp)
        advice = ColumnAdvice(
            column=name,
            type=str(column_type),
            verdict="",
            reason="",
            engines=engines_for(column_type, nested, repeated),
            row_groups=column.row_groups,
            filtered=column.filtered,
            num_values=column.num_values,
            num_bytes=column.num_bytes,
            dictionary=column.in_dictionary / total,
            distinct=ratio,
            in_range=in_range,
            holding=holding,
            sizes=sizes,
            skipped_present=present,
            skipped_absent=absent,
        )
        verdict, reason = self._judge(advice, column, column_type, repeated, fpp)
        if column.problem and column.row_groups:
            several = f"{column.unreadable:,} files" if column.unreadable > 1 else "a file"
            reason += f"; in {several} it cannot be read ({column.problem})"
        return ColumnAdvice(**{**vars(advice), "verdict": verdict, "reason": reason})

    def _judge(
        self, advice: ColumnAdvice, column: _Column, column_type: ColumnType, repeated: bool, fpp: float
    ) -> tuple[str, str]:
        """The verdict and its reason: first what rules a filter out, then what casts doubt on it."""
        total = advice.row_groups
        if not column_type.hashable:
            return NO, "BOOLEAN columns get no filter: there are two values to find"
        if column.twice:
            return NO, "the name stands for several columns of a file"
        if not advice.row_groups and column.problem:
            return NO, column.problem
        if not advice.num_values:
            return NO, "it holds no values"
        if advice.filtered >= total - column.lengths[0]:
            return NO, f"{_all(advice.filtered)} a filter already"
        if total > 1 and advice.in_range <= max(_SORTED, 1.5 / total):
            return NO, f"min and max alone leave {advice.in_range:.1%} of the row groups: it is sorted, or nearly"
        if advice.holding is None:
            if advice.dictionary > 0.5:
                return MAYBE, "its values are in dictionaries, so few may be distinct; a sample would tell"
            return MAYBE, "no dictionary holds its values, so most may be distinct; a sample would tell"
        few = f"{advice.distinct:.2%} of a row group's values are distinct"
        if total > 1 and (advice.holding * total - 1) / (total - 1) >= _EVERYWHERE:
            return NO, f"a value is in about {advice.holding:.0%} of the row groups, which have to be read; {few}"
        if total > 1 and advice.in_range - advice.holding < _WORTH:
            return NO, f"min and max leave {advice.in_range:.0%} of the row groups, {advice.holding:.0%} hold the value"
        doubts = []
        if total == 1:
            doubts.append("there is one row group, which only values that do not occur can skip")
        share = advice.sizes[fpp] / max(self.num_bytes, 1)
        if share > _DEAR:
            doubts.append(f"filters would take {share:.0%} of the files' size")
        if column_type.kind in _SELDOM:
            doubts.append(f"{_SELDOM[column_type.kind]} are seldom asked for by equality")
        if repeated:
            doubts.append("only parquet_bloom asks filters of elements")
        elif not advice.engines:
            doubts.append(f"only parquet_bloom asks filters of {advice.type}")
        if doubts:
            return MAYBE, "; ".join(doubts)
        left = 1 - (advice.skipped_present or 0.0)
        some = f", {advice.filtered:,} have one already" if advice.filtered else ""
        return YES, (
            f"a filter leaves {left:.1%} of the row groups, where min and max leave {advice.in_range:.0%}, "
            f"for {share:.2%} of the files' size{some}"
        )


def _all(total: int) -> str:
    return "its row group has" if total == 1 else f"all {total:,} row groups with values have"


def _sizes(column: _Column, ratio: float, fpp: float) -> dict[float, int]:
    """Bytes of filters over all row groups, at several false-positive probabilities."""
    wanted: Sequence[float] = sorted({*FPPS, fpp}, reverse=True)
    lengths = {length: count for length, count in column.lengths.items() if length}
    return {each: sum(size_for(math.ceil(n * ratio), each) * many for n, many in lengths.items()) for each in wanted}
