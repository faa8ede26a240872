"""What one ORC file tells about the worth of filters: its row indexes, and of some row groups the values themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ..core.bloom.distinct import HashSet
from ..errors import ParquetBloomError
from ..file.advise.engines import CLICKHOUSE, SPARK
from ..file.advise.survey import (
    BOUND_BYTES,
    Chunk,
    ColumnSurvey,
    FileSurvey,
    Sample,
    Sizing,
    make_sample,
    spread,
)
from ..hashing.arrow import hash_values
from ..hashing.column_type import Domain, Kind
from ..predicate.statistics import PruningStatistics
from .filters.writer_bugs import fault_of
from .metadata.schema import OrcLeaf
from .metadata.stripes import BLOOM_FILTER_UTF8, OrcRowGroup
from .reader import OrcFile
from .sizing import STRIDE, StrideSizing
from .values import StripeValues

# Seen of ClickHouse 26.9 and Spark 4.3: how many rows they read of a file with filters, and without.
_BOTH = (CLICKHOUSE, SPARK)
_ASKED_BY: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "DATE", "DECIMAL"), _BOTH
)
_ASKED_BY |= {"BYTE": (SPARK,), "CHAR": (SPARK,), "VARCHAR": (SPARK,), "TIMESTAMP": (CLICKHOUSE,)}

_LARGEST_STRIDE = 1 << 20  # of a file that says more, filters are sized as if it had said this
_NEWEST = "99.0.0"
_LOOKED_AT = 64  # filters of a column whose bits are counted


def survey(file: OrcFile, sample: int | None = None, columns: Collection[str] | None = None) -> FileSurvey:
    """Look at one file, as `file.survey.survey` does; it stays open.

    Parameters
    ----------
    file : the file.
    sample : number of row groups to be read, evenly spread, with the stripes that they are in; with 0 only some of the
        filters that are there, with None not even these.
    columns : dotted paths, a group standing for all columns in it; those that the file lacks are passed over. None for
        all.

    Raises
    ------
    ParquetBloomError
        The file's tail cannot be read. Of a column that cannot, `problem` says why.
    """
    leaves = [leaf for leaf in file.leaves if columns is None or _asked(leaf, columns)]
    stride = min(file.row_index_stride or STRIDE, _LARGEST_STRIDE)
    sizing = StrideSizing(stride)
    evidence, problem = _evidence(file, leaves)
    read = spread(list(range(len(file.row_groups))), sample or 0)
    found = []
    for leaf in leaves:
        chunks = evidence.get(leaf.column_id, [])
        found.append(_column(file, leaf, chunks, [file.row_groups[number] for number in read], sample, sizing, problem))
    together = max((-(-stripe.num_rows // stride) for stripe in file.stripes), default=1)
    return FileSurvey(
        file.path,
        file.source.size,
        file.num_rows,
        len(file.row_groups),
        tuple(found),
        embeddable=False,
        together=max(1, together),
        stride=stride,
    )


def _asked(leaf: OrcLeaf, columns: Collection[str]) -> bool:
    return any(leaf.name == name or leaf.name.startswith(f"{name}.") for name in columns)


def _evidence(file: OrcFile, leaves: Sequence[OrcLeaf]) -> tuple[dict[int, list[PruningStatistics]], str | None]:
    """What row indexes say of each column, one a row group through the file; and why nothing, if they do not."""
    try:
        found = file.row_group_evidence(leaves, [stripe.number for stripe in file.stripes])
    except ParquetBloomError as error:
        return {}, str(error)
    joined: dict[int, list[PruningStatistics]] = defaultdict(list)
    for stripe in file.stripes:
        for leaf in leaves:
            joined[leaf.column_id] += found[stripe.number, leaf.column_id]
    return joined, None


def _column(
    file: OrcFile,
    leaf: OrcLeaf,
    evidence: Sequence[PruningStatistics],
    read: Sequence[OrcRowGroup],
    sample: int | None,
    sizing: Sizing,
    problem: str | None,
) -> ColumnSurvey:
    chunks = [_chunk(known, group) for known, group in zip(evidence, file.row_groups, strict=False)]
    samples: tuple[Sample, ...] = ()
    fpp = None
    try:
        if leaf.column_type.hashable and not leaf.repeated:
            samples = tuple(_samples(file, leaf, read))
        if sample is not None:
            fpp = _filter_fpp(file, leaf, evidence)
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
        engines=_engines(leaf),
        barred=_barred(file, leaf),
        filter_fpp=fpp,
        number=leaf.column_id,
    )


def _chunk(known: PruningStatistics, group: OrcRowGroup) -> Chunk:
    return Chunk(
        num_values=0 if known.has_values is False else group.num_rows,
        num_bytes=0,
        filter_bytes=0 if known.filtered else None,
        dictionary=False,
        low=_cut(known.low),
        high=_cut(known.high),
    )


def _cut(bound: Domain | None) -> Domain | None:
    return bound[:BOUND_BYTES] if isinstance(bound, bytes) else bound


def _barred(file: OrcFile, leaf: OrcLeaf) -> str | None:
    """Why filters of such a column would not be asked, also of the newest release of the file's writer."""
    if leaf.repeated:
        return "nobody asks filters of elements of ORC's lists and maps"
    tail = file.tail
    writer = "c++" if tail.writer == "c++" else "java"
    fault = fault_of(replace(tail, writer=writer, software_version=_NEWEST), leaf, BLOOM_FILTER_UTF8, 1)
    return fault and f"filters of it cannot be trusted: {fault}"


def _engines(leaf: OrcLeaf) -> tuple[str, ...]:
    """Who skips row groups by filters of such a column, for `column = value`."""
    if leaf.repeated:
        return ()
    # Spark's timestamps without a zone are whole numbers to all others.
    found = (
        _ASKED_BY.get(leaf.kind, ()) if leaf.column_type.kind is not Kind.TIMESTAMP or leaf.kind != "LONG" else (SPARK,)
    )
    return tuple(engine for engine in found if engine == SPARK or len(leaf.path) == 1)


def _filter_fpp(file: OrcFile, leaf: OrcLeaf, evidence: Sequence[PruningStatistics]) -> float | None:
    """How often filters that are there say "maybe", by their bits: those of the first stripe that has some."""
    for group, known in zip(file.row_groups, evidence, strict=False):
        if known.filtered:
            found = [one.fpp for one in file.filters_of(leaf, group.stripe)[:_LOOKED_AT] if one is not None]
            return sum(found) / len(found) if found else None
    return None


def _samples(file: OrcFile, leaf: OrcLeaf, read: Sequence[OrcRowGroup]) -> Iterator[Sample]:
    """Some row groups' values; a stripe is read once."""
    values = StripeValues(file)
    for group in read:
        found = values.of(leaf, group.stripe, group.first_row - file.stripes[group.stripe].first_row, group.num_rows)
        distinct = HashSet()
        distinct.add(hash_values(found))
        yield make_sample(distinct, len(found) - found.null_count)
