"""Advice on a lake's columns: a verdict per column, with its reason, from the merged surveys of files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from ..core.bloom.sizing import size_for
from ..hashing.column_type import ColumnType, Domain, Kind
from ..util.arrow_values import AnyArray
from .file_survey import BOUND_BYTES, SKETCH, Chunk, ColumnSurvey, FileSurvey, Sample, Sizing

_PARTS = 4  # of a range: values are assumed to lie between the parts
_LARGEST = 1e300  # larger numbers are clipped to it


def share_in_range(spans: Sequence[tuple[Domain, Domain]], unknown: int = 0) -> float:
    """Estimate the share of row groups that min and max cannot skip, for a value within some row group's range.

    Parameters
    ----------
    spans : (min, max) of row groups.
    unknown : number of other row groups, without a known range: these are always read.
    """
    total = len(spans) + unknown
    if not spans or not total:
        return 1.0
    lows, highs = _as_numbers(spans)
    # Multiplied instead of divided, so that integers of any size stay exact.
    points = np.concatenate([lows * _PARTS + (highs - lows) * part for part in range(1, _PARTS)])
    begun = np.searchsorted(np.sort(lows) * _PARTS, points, "right")
    inside = begun - np.searchsorted(np.sort(highs) * _PARTS, points, "left")
    return float((np.maximum(inside, 1).mean() + unknown) / total)


def share_of_equal_bounds(spans: Sequence[tuple[Domain, Domain]]) -> tuple[float, float] | None:
    """Return the shares of pairs of row groups with the same min, and with the same max; None if they are unknown.

    Row groups that draw their values from the same few agree on both. If there are many values, each in few row groups,
    hardly any two agree: the smallest value of two row groups is in both as often as any other of their values.
    """
    ends = [end for span in spans for end in span]
    if len(spans) < 2 or any(isinstance(end, bytes) and len(end) >= BOUND_BYTES for end in ends):
        return None  # a truncated text only shows how texts begin
    pairs = len(spans) * (len(spans) - 1)
    lows, highs = (Counter(ends).values() for ends in zip(*spans, strict=True))
    return sum(n * (n - 1) for n in lows) / pairs, sum(n * (n - 1) for n in highs) / pairs


def _as_numbers(spans: Sequence[tuple[Domain, Domain]]) -> tuple[AnyArray, AnyArray]:
    """Convert both ends of ranges to numbers in the same order.

    Texts become integers of all their bytes: with only the first few bytes, a single different text, such as an empty
    one, would make all others equal.
    """
    ends = [end for span in spans for end in span]
    values: AnyArray
    if texts := [end for end in ends if isinstance(end, bytes)]:
        length = max(map(len, texts))
        values = np.array([int.from_bytes(text.ljust(length, b"\0"), "big") for text in texts], np.object_)
    else:
        values = np.array([float(end) for end in ends], np.float64)
        values = np.nan_to_num(values, posinf=_LARGEST, neginf=-_LARGEST).clip(-_LARGEST, _LARGEST)
    return values[0::2], values[1::2]


def share_in_common(files: Sequence[Sequence[Sample]], mates: float = 0.0) -> float | None:
    """Estimate the probability that a value of one row group is also in another; None if fewer than two were read.

    Row groups of one file may have more in common than those of two, for example if files are buckets of a key.

    Parameters
    ----------
    files : the row groups that were read, by file.
    mates : share of the lake's other row groups that are in the same file.
    """
    within = _share([pair for samples in files for pair in permutations(samples, 2)])
    across = _share([pair for one, other in permutations(files, 2) for pair in product(one, other)])
    if within is None or across is None:
        return across if within is None else within
    return within * mates + across * (1 - mates)


def _share(pairs: Sequence[tuple[Sample, Sample]]) -> float | None:
    """Estimate the probability that a value of a pair's first row group is also in its second.

    The smallest hashes of each row group are known. Up to the smaller of the two row groups' largest known hashes they
    are complete, and a fair sample of the values.
    """
    shares = []
    for one, other in pairs:
        if not one.ndv:
            continue
        limit = min((sample.sketch[-1] for sample in (one, other) if sample.ndv > SKETCH), default=None)
        sample = one.sketch if limit is None else one.sketch[one.sketch <= limit]
        if len(sample):
            shares.append(float(np.isin(sample, other.sketch, assume_unique=True).mean()))
    return sum(shares) / len(shares) if shares else None


def fpp_apart(fpp: float, together: int) -> float:
    """Return the false-positive probability that each of some filters may have so that all together have `fpp`.

    Parameters
    ----------
    fpp : target for a reader that reads all of their row groups as soon as one of the filters answers "maybe".
    together : number of filters.
    """
    return fpp if together <= 1 else -math.expm1(math.log1p(-fpp) / together)


def fpp_together(fpp: float, together: int) -> float:
    """Return the probability that at least one of some filters answers "maybe", if each does so at `fpp`."""
    return fpp if together <= 1 or fpp >= 1 else -math.expm1(math.log1p(-fpp) * together)


def distinct_ratio(counts: Iterable[tuple[int, int]]) -> float | None:
    """Return the ratio of distinct values to values, given (distinct, values) of row groups; None if there are none."""
    distinct = values = 0
    for ndv, num_values in counts:
        distinct += min(ndv, num_values)
        values += num_values
    return distinct / values if values else None


DUCKDB, DATAFUSION, CLICKHOUSE, SPARK = "DuckDB", "DataFusion", "ClickHouse", "Spark"
ENGINES = (DUCKDB, DATAFUSION, CLICKHOUSE, SPARK)


def engines_for(column_type: ColumnType, nested: bool = False, repeated: bool = False) -> tuple[str, ...]:
    """Return the engines that skip row groups by filters of such a column, for `column = value`.

    Parameters
    ----------
    nested : whether it is a field of a struct.
    repeated : whether it holds elements of lists or maps: no engine uses their filters.
    """
    if repeated:
        return ()
    engines = _engines_by_type(column_type)
    return tuple(engine for engine in ENGINES if engine in engines and not (nested and engine == DATAFUSION))


def _engines_by_type(column_type: ColumnType) -> set[str]:
    kind, physical = column_type.kind, column_type.physical
    if physical in ("BOOLEAN", "INT96") or kind is Kind.UNKNOWN:
        return set()
    if kind is Kind.INTEGER:
        narrow = (column_type.bits or 64) < 32
        return {DUCKDB, CLICKHOUSE} | ({SPARK} if column_type.signed else set()) | (set() if narrow else {DATAFUSION})
    if kind is Kind.FLOAT:
        return {DUCKDB} if column_type.length == 2 else {DUCKDB, DATAFUSION, SPARK}
    if kind is Kind.DECIMAL:
        if physical == "BYTE_ARRAY":
            return set()
        return {DATAFUSION, SPARK} | ({DUCKDB} if physical in ("INT32", "INT64") else set())
    if kind is Kind.TIMESTAMP:
        return {DUCKDB, SPARK} if column_type.utc and column_type.unit == "us" else {DUCKDB}
    if physical == "BYTE_ARRAY":
        return set(ENGINES)
    return {
        Kind.DATE: {DUCKDB, SPARK},
        Kind.TIME: {DUCKDB},
        Kind.UUID: {DUCKDB},
        Kind.BYTES: {DUCKDB, DATAFUSION, CLICKHOUSE},
    }.get(kind, set())


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
    largest : the most bytes in one of them.
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
    largest: int = 0
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
        self.add_samples(survey)
        self.mates += len(survey.chunks) * (len(survey.chunks) - 1)
        for chunk in survey.chunks:
            self.row_groups += 1
            self.filtered += chunk.filter_bytes is not None
            self.in_dictionary += chunk.dictionary
            self.num_values += chunk.num_values
            self.num_bytes += chunk.num_bytes
            self.largest = max(self.largest, chunk.num_bytes)
            self.lengths[survey.sizing, _round_count(chunk.num_values)] += 1
            if chunk.ndv is not None and chunk.num_values:
                self.distinct_counts.append((chunk.ndv, chunk.num_values))
            if chunk.num_values:
                self.limits.append((_max_distinct(chunk), chunk.num_values))
                self._add_span(survey.type, chunk.low, chunk.high)

    def add_samples(self, survey: ColumnSurvey) -> None:
        """Add the samples of a file alone, the rest of which has been counted."""
        if survey.samples:
            self.samples.append(survey.samples)
        self.distinct_counts += [(sample.ndv, sample.num_values) for sample in survey.samples]

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
    def is_constant(self) -> bool:
        """Whether min and max prove that it has one value, besides nulls."""
        ends = {end for span in self.spans for end in span}
        if len(ends) != 1 or self.without_range or self.step > 1:
            return False
        (end,) = ends
        return not (isinstance(end, bytes) and len(end) >= BOUND_BYTES)  # which may be truncated

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


FPPS = (0.05, 0.01, 0.001)
"""False-positive probabilities for which sizes are reported, besides the requested one."""

YES, MAYBE, NO = "yes", "maybe", "no"

# Thresholds.
_SORTED = 0.1  # share of row groups that ranges cannot skip: up to this, ranges suffice
_EVERYWHERE = 0.5  # share of the other row groups that hold a row group's value: from this on, a filter is useless
_WORTH = 0.2  # share of row groups that a filter skips beyond ranges: from this on, it is worthwhile
_DEAR = 0.25  # share of the files' size that filters take: above this, they are expensive
_WEAK = 2  # multiple of the requested fpp above which existing filters are too weak
_NEARLY_ALL = 0.9  # share of row groups with dictionaries that may represent all
_SOME = 0.25  # share of row groups with dictionaries that say something of the others, if their min and max agree
_FEW = 0.1  # share of distinct values: small
_MANY = 0.5  # share of distinct values: large
_FEW_VALUES = 4096  # of a row group: a dictionary of more is dear to read for each lookup
_MOSTLY_ALIKE = 0.5  # share of pairs of row groups with the same min or max: large
_SELDOM_ALIKE = 0.05  # share of pairs of row groups with the same min or max: small
_ENOUGH = 8  # row groups needed for conclusions from min and max
_BY_BOUNDS = "row groups were compared by min and max alone"
_SELDOM = {Kind.FLOAT: "floats", Kind.TIMESTAMP: "timestamps", Kind.TIME: "times of day"}


@dataclass(frozen=True)
class ColumnAdvice:
    """Measurements of a column over all files, and the resulting verdict.

    Attributes
    ----------
    column : its dotted path.
    type : its type in the files; if they differ, in most of them.
    verdict, reason : "yes", "maybe" or "no", and why, on one line.
    engines : engines that use such a column's filters; parquet_bloom uses those of every column.
    row_groups : number of row groups that have the column and rows.
    filtered : number of these that already have a filter.
    num_values, num_bytes : non-null values and stored bytes, over all row groups. For ORC files all rows are counted,
        and no bytes.
    dictionary : share of the row groups whose values are all in a dictionary.
    distinct : ratio of distinct values to values within a row group, 0 to 1; None if neither samples nor dictionaries
        are available.
    distinct_at_most : an upper bound of it, where there are fewer integers from min to max than values; else 1.
    same_min, same_max : shares of pairs of row groups with the same min or max; None if unknown.
    in_range : share of the row groups that min and max cannot skip for a value within some row group's range.
    holding : share of the row groups that hold a value which occurs; None if unknown.
    sizes : {fpp: bytes} of filters in all row groups; an upper bound where `distinct` is unknown.
    skipped_present, skipped_absent : share of the row groups that min, max and a filter skip for a value which occurs
        somewhere, and for one that does not but lies in the range; None if unknown.
    together : most row groups of which some readers read all or none: those of a stripe of ORC files; else 1.
    row_group_fpp : fpp needed for a row group's filter so that row groups read together have the requested fpp.
    filter_fpp : mean fpp of the existing filters that were read; None if none was.
    number : its column id in ORC files, where writers need it; else None.
    barred : whether a filter of it is useless whatever its values are.
    weak : whether existing filters have too high an fpp, and would be sufficient otherwise.
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
    together: int = 1
    row_group_fpp: float = 0.0
    filter_fpp: float | None = None
    number: int | None = None
    barred: bool = False
    weak: bool = False

    def share(self, fpp: float, num_bytes: int) -> float | None:
        """Return the size of filters at an fpp as a share of `num_bytes`; None if it is unknown."""
        return self.sizes[fpp] / num_bytes if fpp in self.sizes and num_bytes else None


class Advice:
    """Accumulates the surveys of any number of files, and judges the columns at the end."""

    def __init__(self) -> None:
        self.files = self.row_groups = self.rows = self.num_bytes = self.written = 0
        self.strides: Counter[int] = Counter()
        self._columns: dict[str, MergedColumn] = {}

    def add(self, survey: FileSurvey) -> None:
        """Add one more file."""
        self.files += 1
        self.row_groups += survey.num_row_groups
        self.rows += survey.num_rows
        self.num_bytes += survey.num_bytes
        if not survey.embeddable:
            self.written += 1
            self.strides[survey.stride] += 1
        names: Counter[str] = Counter(column.name for column in survey.columns)
        for column in survey.columns:
            merged = self._columns.setdefault(column.name, MergedColumn())
            merged.twice |= names[column.name] > 1
            merged.add(column, survey)

    def add_samples(self, survey: FileSurvey) -> None:
        """Add the samples of a file that has been added."""
        for column in survey.columns:
            if column.name in self._columns:  # the file may have changed
                self._columns[column.name].add_samples(column)

    def bound_bytes(self, column: str) -> int:
        """Return how many bytes a row group has of a column at most; where that is not known, of all columns."""
        return self._columns[column].largest or self.num_bytes // max(self.row_groups, 1)

    def columns(self, fpp: float) -> list[ColumnAdvice]:
        """Return the advice on each column, in the order of their first occurrence."""
        return [self._advice(name, column, fpp) for name, column in self._columns.items()]

    def _advice(self, name: str, column: MergedColumn, fpp: float) -> ColumnAdvice:
        (kind, _), *_ = column.kinds.most_common(1)
        column_type, engines = kind.type, kind.engines
        unknown = column.without_range * max(len(column.spans), 1) // max(column.seen, 1)
        in_range = share_in_range(column.spans, unknown)
        total = max(column.row_groups, 1)
        # Dictionaries are representative only if nearly all row groups have them: they exist where values repeat.
        is_representative = column.samples or column.in_dictionary >= _NEARLY_ALL * total
        in_dictionaries = distinct_ratio(column.distinct_counts)
        ratio = in_dictionaries if is_representative else None
        same = share_of_equal_bounds(column.spans) or (None, None)
        common = _share_elsewhere(column, ratio, *same)
        holding = present = absent = None
        together = column.together.get(column.sizing, 1)
        apart = fpp_apart(fpp, together)
        if total == 1 or common is not None:
            holding = min(1.0, (1 + (total - 1) * (common or 0.0)) / total)
            in_range = max(in_range, holding)
            present = 1 - (holding + (in_range - holding) * apart)
        if column_type.hashable and column.num_values:
            absent = 1 - in_range * apart
        limit = distinct_ratio(column.limits) or 1.0
        sizes = _estimate_sizes(column, limit if ratio is None else ratio, fpp) if column_type.hashable else {}
        advice = ColumnAdvice(
            column=name,
            type=column_type.name if kind.number is not None else str(column_type),
            verdict="",
            reason="",
            engines=engines_for(column_type, kind.nested, kind.repeated) if engines is None else engines,
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
            together=together,
            row_group_fpp=apart,
            filter_fpp=sum(column.filter_fpps) / len(column.filter_fpps) if column.filter_fpps else None,
            number=kind.number,
            barred=kind.barred is not None or not column_type.hashable,
        )
        verdict, reason = self._judge(advice, column, kind, fpp, in_dictionaries)
        if verdict == NO and advice.filtered and reason != _describe_existing(advice):
            some = f"{advice.filtered:,} of {column.row_groups:,} row groups have a filter already"
            reason += f"; {_describe_existing(advice) if _has_all(advice, column) else some}"
        if column.problem and column.row_groups:
            files = f"{column.unreadable:,} files" if column.unreadable > 1 else "a file"
            reason += f"; in {files} it cannot be read ({column.problem})"
        weak = verdict == MAYBE and _has_all(advice, column)
        return replace(advice, verdict=verdict, reason=reason, weak=weak)

    def _judge(
        self, advice: ColumnAdvice, column: MergedColumn, kind: ColumnKind, fpp: float, in_dictionaries: float | None
    ) -> tuple[str, str]:
        """Return the verdict and its reason: first check what rules a filter out, then what casts doubt on it.

        Parameters
        ----------
        in_dictionaries : as `ColumnAdvice.distinct`, of the row groups with dictionaries alone; None if it is unknown.
        """
        total = advice.row_groups
        if not kind.type.hashable:
            return NO, "BOOLEAN columns get no filter: there are two values to find"
        if kind.barred:
            return NO, kind.barred
        if column.twice:
            return NO, "several columns of a file match the name"
        if not advice.row_groups and column.problem:
            return NO, column.problem
        if not advice.num_values:
            return NO, "it holds no values"
        weak = None
        if _has_all(advice, column):
            weak = _describe_weakness(advice, fpp)
            if weak is None:
                return NO, _describe_existing(advice)
        if column.is_constant:
            return NO, "all of its values are the same, by min and max"
        if total > 1 and advice.in_range <= max(_SORTED, 1.5 / total):
            return NO, f"min and max alone leave {advice.in_range:.1%} of the row groups: it is sorted, or nearly"
        known = None
        values_each = (in_dictionaries or 1.0) * advice.num_values / max(total, 1)
        if advice.dictionary == 1 and (in_dictionaries or 1.0) <= _FEW and values_each <= _FEW_VALUES:
            known = f"dictionaries hold all of its values, of which {in_dictionaries:.2%} are distinct: they rule out"
            known += " what filters would"
        if advice.holding is None:
            verdict = _judge_without_values(advice, in_dictionaries) if weak is None else (MAYBE, weak)
            return verdict if known is None or verdict[0] == NO else (NO, known)
        few = "" if advice.distinct is None else f"; {advice.distinct:.2%} of a row group's values are distinct"
        if total > 1 and (advice.holding * total - 1) / (total - 1) >= _EVERYWHERE:
            return NO, f"a value is in about {advice.holding:.0%} of the row groups, which have to be read{few}"
        if total > 1 and advice.in_range - advice.holding < _WORTH:
            return NO, f"min and max leave {advice.in_range:.0%} of the row groups, {advice.holding:.0%} hold the value"
        if known is not None:
            return NO, known
        if weak is not None:
            return MAYBE, weak
        doubts = []
        if total == 1:
            doubts.append("there is one row group, which only values that do not occur can skip")
        share = advice.share(fpp, self.num_bytes) or 0.0
        if share > _DEAR:
            upto = "up to " if advice.distinct is None else ""
            least = max(advice.sizes)
            less = (
                f", and {advice.share(least, self.num_bytes):.0%} at fpp {least:g}"
                if advice.sizes[least] < advice.sizes[fpp]
                else ""
            )
            doubts.append(f"filters would take {upto}{share:.0%} of the files' size{less}")
        if kind.type.kind in _SELDOM:
            doubts.append(f"{_SELDOM[kind.type.kind]} are seldom asked for by equality")
        if kind.repeated:
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
            + (f"; {_describe_stripe(advice, fpp)}" if advice.together > 1 else "")
            + ("" if column.samples else f"; {_BY_BOUNDS}")
        )


def _share_elsewhere(
    column: MergedColumn, ratio: float | None, same_min: float | None, same_max: float | None
) -> float | None:
    """Estimate the probability that a value of one row group is also in another; None if it is unknown.

    Without samples of two row groups, min and max decide one case: if values hardly repeat within a row group and
    hardly any two of many row groups have the same min or max, hardly any value is in more than one.
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


def _judge_without_values(advice: ColumnAdvice, in_dictionaries: float | None) -> tuple[str, str]:
    """Return the verdict if the number of row groups that hold the same value is unknown; see `Advice._judge`."""
    ratio = advice.distinct if advice.distinct is not None else advice.distinct_at_most
    most = "" if advice.distinct is not None else "at most "
    distinct = f"{most}{ratio:.2%} of a row group's values are distinct"
    alike = None if advice.same_min is None or advice.same_max is None else min(advice.same_min, advice.same_max)
    mostly_alike = alike is not None and alike >= _MOSTLY_ALIKE
    same = "most row groups have the same min and max"
    if ratio <= _FEW and mostly_alike:
        return NO, f"{distinct}, and {same}: they seem to hold the same few values"
    some = f"in {advice.dictionary:.0%} of the row groups dictionaries hold its values"
    if advice.distinct is None and in_dictionaries is not None:
        some += f", of which {in_dictionaries:.2%} are distinct"
        if in_dictionaries <= _FEW and mostly_alike and advice.dictionary >= _SOME:
            return NO, f"{some}, and {same}: they seem to hold the same few values"
    if ratio < 1 or advice.distinct is not None:
        facts = [distinct]
    elif advice.dictionary >= _NEARLY_ALL:
        facts = ["its values are in dictionaries, so few may be distinct"]
    elif advice.dictionary:
        facts = [some]
    else:
        facts = ["no dictionary holds its values, so most may be distinct"]
    if mostly_alike:
        facts.append(f"{same}, so they may hold the same few values")
    elif alike is not None and max(advice.same_min or 0.0, advice.same_max or 0.0) <= _SELDOM_ALIKE:
        facts.append("row groups seldom have the same min or max, so a value may be in few of them")
    facts.append(f"min and max leave {advice.in_range:.0%} of the row groups")
    return MAYBE, "; ".join([*facts, "a sample of several row groups would tell"])


def _has_all(advice: ColumnAdvice, column: MergedColumn) -> bool:
    """Whether all row groups with values have a filter."""
    return 0 < advice.filtered >= column.row_groups - column.empty


def _describe_existing(advice: ColumnAdvice) -> str:
    fpp = "" if advice.filter_fpp is None else f", of fpp {advice.filter_fpp:.2g}"
    return f"{_describe_row_groups(advice.filtered)} a filter already{fpp}"


def _describe_weakness(advice: ColumnAdvice, fpp: float) -> str | None:
    """Describe why existing filters are too weak for readers of many row groups at once; None if they are not."""
    if advice.filter_fpp is None or advice.together <= 1:
        return None
    real = fpp_together(advice.filter_fpp, advice.together)
    if real <= _WEAK * fpp:
        return None
    return (
        f"{_describe_existing(advice)}: readers of whole stripes, of up to {advice.together:,} row groups, "
        f"read {real:.0%} of them in vain; {_describe_stripe(advice, fpp)}"
    )


def _describe_stripe(advice: ColumnAdvice, fpp: float) -> str:
    return f"made for {advice.row_group_fpp:.2g} a row group, a stripe of {advice.together:,} has {fpp:g}"


def _describe_row_groups(total: int) -> str:
    return "its row group has" if total == 1 else f"all {total:,} row groups with values have"


def _estimate_sizes(column: MergedColumn, ratio: float, fpp: float) -> dict[float, int]:
    """Estimate the bytes of filters over all row groups, by false-positive probability of row groups read together."""
    fpps: Sequence[float] = sorted({*FPPS, fpp}, reverse=True)
    lengths = [(*one, count) for one, count in column.lengths.items() if one[1]]
    return {
        each: sum(
            sizing(math.ceil(n * ratio), fpp_apart(each, column.together[sizing])) * many for sizing, n, many in lengths
        )
        for each in fpps
    }
