"""What is advised about a lake's columns: surveys of its files merged, a verdict a column, and its reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..core.sizing import size_for
from ..hashing.physical import ColumnType, Domain, Kind
from .engines import engines_for
from .estimates import distinct_ratio, share_in_common, share_in_range, share_of_same
from .survey import Chunk, ColumnSurvey, FileSurvey, Sample

FPPS = (0.05, 0.01, 0.001)
"""False-positive probabilities that sizes are told for, besides the one asked for."""

YES, MAYBE, NO = "yes", "maybe", "no"

_MOST_SPANS = 4096  # row groups of a column whose ranges are compared; of more, every second, every fourth ...
_SORTED = 0.1  # a share of row groups, that ranges leave, which is small enough
_EVERYWHERE = 0.5  # a share of the other row groups, that hold a row group's value, which is too large
_WORTH = 0.2  # a share of row groups, that a filter skips beyond ranges, which is worth having
_DEAR = 0.1  # a share of the files, that filters take, which wants to be thought about
_NEARLY_ALL = 0.9  # a share of the row groups, with dictionaries, that may stand for all
_FEW = 0.1  # a share of values, that are distinct, which is small
_MANY = 0.5  # one which is large
_MOSTLY_ALIKE = 0.5  # a share of pairs of row groups, that have the same min or max, which is large
_SELDOM_ALIKE = 0.05  # one which is small
_ENOUGH = 8  # row groups whose min and max can tell
_BY_BOUNDS = "row groups were compared by min and max alone"
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
    distinct_at_most : a bound of it by min and max, where whole numbers between them are fewer than values; else 1.
    same_min, same_max : shares of pairs of row groups that have the same one; None if unknown.
    in_range : share of the row groups that min and max leave to be read for a value within some row group's range.
    holding : share of the row groups that hold a value which occurs; None if unknown.
    sizes : {fpp: bytes} of filters in all row groups; at most so many where `distinct` is unknown.
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
    distinct_at_most: float = 1.0
    same_min: float | None = None
    same_max: float | None = None
    in_range: float = 1.0
    holding: float | None = None
    sizes: Mapping[float, int] = field(default_factory=dict)
    skipped_present: float | None = None
    skipped_absent: float | None = None

    def share(self, fpp: float, num_bytes: int) -> float | None:
        """What filters at an fpp take of so many bytes; None where their size is unknown."""
        return self.sizes[fpp] / num_bytes if fpp in self.sizes and num_bytes else None


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
    limits: list[tuple[int, int]] = field(default_factory=list)
    samples: list[tuple[Sample, ...]] = field(default_factory=list)  # a file each
    mates: int = 0  # ordered pairs of row groups of one file
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
        if found.samples:
            self.samples.append(found.samples)
        self.mates += len(found.chunks) * (len(found.chunks) - 1)
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
                self.limits.append((_most_between(chunk), chunk.num_values))
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


def _most_between(chunk: Chunk) -> int:
    """How many distinct values a chunk can hold, by its min and max."""
    if isinstance(chunk.low, int) and isinstance(chunk.high, int):
        return min(chunk.num_values, max(0, chunk.high - chunk.low) + 1)
    return chunk.num_values


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
        total = max(column.row_groups, 1)
        # Dictionaries tell of the row groups that have them alone, which are those where values repeat.
        told = column.samples or column.in_dictionary >= _NEARLY_ALL * total
        ratio = distinct_ratio(column.told) if told else None
        same = share_of_same(column.spans) or (None, None)
        common = _share_elsewhere(column, ratio, *same)
        holding = present = absent = None
        if total == 1 or common is not None:
            holding = min(1.0, (1 + (total - 1) * (common or 0.0)) / total)
            in_range = max(in_range, holding)
            present = 1 - (holding + (in_range - holding) * fpp)
        if column_type.hashable and column.num_values:
            absent = 1 - in_range * fpp
        limit = distinct_ratio(column.limits) or 1.0
        sizes = _sizes(column, limit if ratio is None else ratio, fpp) if column_type.hashable else {}
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
            distinct_at_most=limit,
            same_min=same[0],
            same_max=same[1],
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
            return _judge_unread(advice)
        few = "" if advice.distinct is None else f"; {advice.distinct:.2%} of a row group's values are distinct"
        if total > 1 and (advice.holding * total - 1) / (total - 1) >= _EVERYWHERE:
            return NO, f"a value is in about {advice.holding:.0%} of the row groups, which have to be read{few}"
        if total > 1 and advice.in_range - advice.holding < _WORTH:
            return NO, f"min and max leave {advice.in_range:.0%} of the row groups, {advice.holding:.0%} hold the value"
        doubts = []
        if total == 1:
            doubts.append("there is one row group, which only values that do not occur can skip")
        share = advice.share(fpp, self.num_bytes) or 0.0
        if share > _DEAR:
            upto = "up to " if advice.distinct is None else ""
            doubts.append(f"filters would take {upto}{share:.0%} of the files' size")
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
            f"for {share:.2%} of the files' size{some}" + ("" if column.samples else f"; {_BY_BOUNDS}")
        )


def _share_elsewhere(
    column: _Column, ratio: float | None, same_min: float | None, same_max: float | None
) -> float | None:
    """The chance that a value of one row group is in another one, too; None where nothing tells.

    Without values of two row groups at hand, min and max tell in one case: where values hardly repeat within a row
    group and hardly any two of many row groups agree on min or max, hardly any value is in several.
    """
    total = column.row_groups
    common = share_in_common(column.samples, column.mates / max(1, total * (total - 1)))
    if common is not None:
        return common
    if ratio is None or same_min is None or same_max is None or column.without_range:
        return None
    alike = max(same_min, same_max)
    if ratio < _MANY or alike > _SELDOM_ALIKE or len(column.spans) < _ENOUGH:
        return None
    return 2 * alike / (1 + alike)  # of Jaccard's index, which the two estimate


def _judge_unread(advice: ColumnAdvice) -> tuple[str, str]:
    """The verdict where no values tell how many row groups hold the same one."""
    known = advice.distinct if advice.distinct is not None else advice.distinct_at_most
    most = "" if advice.distinct is not None else "at most "
    distinct = f"{most}{known:.2%} of a row group's values are distinct"
    alike = None if advice.same_min is None or advice.same_max is None else min(advice.same_min, advice.same_max)
    if known <= _FEW and alike is not None and alike >= _MOSTLY_ALIKE:
        return NO, f"{distinct}, and most row groups have the same min and max: they seem to hold the same few values"
    if known < 1 or advice.distinct is not None:
        facts = [distinct]
    elif advice.dictionary > 0.5:
        facts = ["its values are in dictionaries, so few may be distinct"]
    else:
        facts = ["no dictionary holds its values, so most may be distinct"]
    if alike is not None and max(advice.same_min or 0.0, advice.same_max or 0.0) <= _SELDOM_ALIKE:
        facts.append("row groups seldom have the same min or max, so a value may be in few of them")
    facts.append(f"min and max leave {advice.in_range:.0%} of the row groups")
    return MAYBE, "; ".join([*facts, "a sample of several row groups would tell"])


def _all(total: int) -> str:
    return "its row group has" if total == 1 else f"all {total:,} row groups with values have"


def _sizes(column: _Column, ratio: float, fpp: float) -> dict[float, int]:
    """Bytes of filters over all row groups, at several false-positive probabilities."""
    wanted: Sequence[float] = sorted({*FPPS, fpp}, reverse=True)
    lengths = {length: count for length, count in column.lengths.items() if length}
    return {each: sum(size_for(math.ceil(n * ratio), each) * many for n, many in lengths.items()) for each in wanted}
