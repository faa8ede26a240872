"""Survey one ORC file for advice on filters: its row indexes and the values of sampled row groups."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.bloom.distinct import HashSet
from ..core.hash.orc_murmur3 import size_for
from ..errors import ParquetBloomError
from ..file.file_survey import BOUND_BYTES, Chunk, ColumnSurvey, FileSurvey, Sample, Sizing, make_sample, spread
from ..file.verdict import CLICKHOUSE, SPARK
from ..hashing.arrow_keys import hash_values
from ..hashing.column_type import Domain, Kind
from ..predicate.pruning_statistics import PruningStatistics
from .orc_filters import find_fault
from .orc_reader import OrcFile
from .orc_schema import OrcLeaf
from .orc_tail import BLOOM_FILTER_UTF8, OrcRowGroup
from .orc_verify import StripeValues

STRIDE = 10_000
"""Default number of rows of a row group."""


_MAX_BITS = (1 << 31) - 64


def num_bits(expected: int, fpp: float) -> int:
    """Return the number of bits of a filter for `expected` values; see `orc_murmur3.size_for`, also for errors."""
    return size_for(expected, fpp)[0]


def num_hash_functions(expected: int, fpp: float) -> int:
    """Return the number of bits that each value sets in a filter for `expected` values."""
    return size_for(expected, fpp)[1]


def fpp_for(ndv: float, bits: int, hash_functions: int) -> float:
    """Return the false-positive probability of a filter with `ndv` distinct values."""
    return float(-math.expm1(-hash_functions * ndv / bits)) ** hash_functions


@dataclass(frozen=True)
class StrideSizing:
    """Size in bytes of the filters of `ndv` distinct values; a `file.advise.survey.Sizing`.

    Attributes
    ----------
    stride : rows of a row group. A stripe without a row index is one row group, and would be divided into several with
        a row index.
    """

    stride: int = STRIDE

    def __call__(self, ndv: int, fpp: float) -> int:
        # A stride may be any number: the size is limited to that of ORC's largest filters.
        bits = num_bits(self.stride, fpp) if -self.stride * math.log(fpp) < _MAX_BITS * math.log(2) ** 2 else _MAX_BITS
        return max(1, -(-ndv // self.stride)) * bits // 8


# Measured with ClickHouse 26.9 and Spark 4.3: the rows that they read of a file with and without filters.
_ALL_ENGINES = (CLICKHOUSE, SPARK)
_ENGINES_BY_KIND: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "DATE", "DECIMAL"), _ALL_ENGINES
)
_ENGINES_BY_KIND |= {"BYTE": (SPARK,), "CHAR": (SPARK,), "VARCHAR": (SPARK,), "TIMESTAMP": (CLICKHOUSE,)}

_MAX_STRIDE = 1 << 20  # filters of files with larger strides are sized for this one
_NEWEST = "99.0.0"
_MAX_FILTERS_READ = 64  # filters of a column whose set bits are counted


def survey(file: OrcFile, sample: int | None = None, columns: Collection[str] | None = None) -> FileSurvey:
    """Survey one file, as `file.advise.survey.survey` does; the file stays open.

    Parameters
    ----------
    file : the file.
    sample : number of row groups to read, evenly spread, with their stripes; with 0 only some of the existing filters
        are read, with None not even these.
    columns : dotted paths, where a group means all columns in it; columns that the file lacks are ignored. None for
        all.

    Raises
    ------
    ParquetBloomError
        The tail of the file cannot be read. Problems of single columns are reported in their `problem`.
    """
    leaves = [leaf for leaf in file.leaves if columns is None or _is_requested(leaf, columns)]
    stride = min(file.row_index_stride or STRIDE, _MAX_STRIDE)
    sizing = StrideSizing(stride)
    evidence, problem = _read_statistics(file, leaves)
    read = spread(list(range(len(file.row_groups))), sample or 0)
    surveys = []
    for leaf in leaves:
        chunks = evidence.get(leaf.column_id, [])
        surveys.append(
            _survey_column(file, leaf, chunks, [file.row_groups[number] for number in read], sample, sizing, problem)
        )
    row_groups_per_stripe = max((-(-stripe.num_rows // stride) for stripe in file.stripes), default=1)
    return FileSurvey(
        file.path,
        file.source.size,
        file.num_rows,
        len(file.row_groups),
        tuple(surveys),
        embeddable=False,
        together=max(1, row_groups_per_stripe),
        stride=stride,
    )


def _is_requested(leaf: OrcLeaf, columns: Collection[str]) -> bool:
    return any(leaf.name == name or leaf.name.startswith(f"{name}.") for name in columns)


def _read_statistics(file: OrcFile, leaves: Sequence[OrcLeaf]) -> tuple[dict[int, list[PruningStatistics]], str | None]:
    """Return the statistics of each column, one per row group of the file; or why they cannot be read."""
    try:
        statistics = file.row_group_evidence(leaves, [stripe.number for stripe in file.stripes])
    except ParquetBloomError as error:
        return {}, str(error)
    by_column: dict[int, list[PruningStatistics]] = defaultdict(list)
    for stripe in file.stripes:
        for leaf in leaves:
            by_column[leaf.column_id] += statistics[stripe.number, leaf.column_id]
    return by_column, None


def _survey_column(
    file: OrcFile,
    leaf: OrcLeaf,
    evidence: Sequence[PruningStatistics],
    read: Sequence[OrcRowGroup],
    sample: int | None,
    sizing: Sizing,
    problem: str | None,
) -> ColumnSurvey:
    chunks = [_make_chunk(statistics, group) for statistics, group in zip(evidence, file.row_groups, strict=False)]
    samples: tuple[Sample, ...] = ()
    fpp = None
    try:
        if leaf.column_type.hashable and not leaf.repeated:
            samples = tuple(_read_samples(file, leaf, read))
        if sample is not None:
            fpp = _measure_fpp(file, leaf, evidence)
    except ParquetBloomError as error:
        problem = problem or str(error)
    return ColumnSurvey(
        leaf.name,
        leaf.column_type,
        len(leaf.path) > 1,
        leaf.repeated,
        tuple(chunks),
        samples,
        problem,
        sizing=sizing,
        engines=_find_engines(leaf),
        barred=_find_filter_obstacle(file, leaf),
        filter_fpp=fpp,
        number=leaf.column_id,
    )


def _make_chunk(statistics: PruningStatistics, group: OrcRowGroup) -> Chunk:
    return Chunk(
        num_values=0 if statistics.has_values is False else group.num_rows,
        num_bytes=0,
        filter_bytes=0 if statistics.filtered else None,
        dictionary=False,
        low=_truncate(statistics.low),
        high=_truncate(statistics.high),
    )


def _truncate(bound: Domain | None) -> Domain | None:
    return bound[:BOUND_BYTES] if isinstance(bound, bytes) else bound


def _find_filter_obstacle(file: OrcFile, leaf: OrcLeaf) -> str | None:
    """Return why filters of such a column would not be probed, even if the newest release of the writer wrote them."""
    if leaf.repeated:
        return "no engine probes filters of elements of ORC's lists and maps"
    tail = file.tail
    writer = "c++" if tail.writer == "c++" else "java"
    fault = find_fault(replace(tail, writer=writer, software_version=_NEWEST), leaf, BLOOM_FILTER_UTF8, 1)
    return fault and f"filters of it cannot be trusted: {fault}"


def _find_engines(leaf: OrcLeaf) -> tuple[str, ...]:
    """Return the engines that skip row groups by filters of such a column, for `column = value`."""
    if leaf.repeated:
        return ()
    # Other engines read Spark's timestamps without a zone as integers.
    engines = (
        _ENGINES_BY_KIND.get(leaf.kind, ())
        if leaf.column_type.kind is not Kind.TIMESTAMP or leaf.kind != "LONG"
        else (SPARK,)
    )
    return tuple(engine for engine in engines if engine == SPARK or len(leaf.path) == 1)


def _measure_fpp(file: OrcFile, leaf: OrcLeaf, evidence: Sequence[PruningStatistics]) -> float | None:
    """Return the mean fpp of existing filters, from their set bits: those of the first stripe with filters."""
    for group, statistics in zip(file.row_groups, evidence, strict=False):
        if statistics.filtered:
            fpps = [
                filter.fpp for filter in file.filters_of(leaf, group.stripe)[:_MAX_FILTERS_READ] if filter is not None
            ]
            return sum(fpps) / len(fpps) if fpps else None
    return None


def _read_samples(file: OrcFile, leaf: OrcLeaf, read: Sequence[OrcRowGroup]) -> Iterator[Sample]:
    """Sample the values of some row groups; each stripe is read once."""
    values = StripeValues(file)
    for group in read:
        array = values.of(leaf, group.stripe, group.first_row - file.stripes[group.stripe].first_row, group.num_rows)
        distinct = HashSet()
        distinct.add(hash_values(array))
        yield make_sample(distinct, len(array) - array.null_count)
