"""Whether every filter of an ORC file is what it should be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import FilterTypeError, ParquetBloomError
from ..file.verify import ChunkVerdict, VerifyReport
from ..file.write.embed import Progress
from .filters.filter import OrcFilter
from .filters.hashes import make_probes
from .metadata.stripes import OrcRowGroup
from .reader import OrcFile, open
from .values import StripeValues, fits_nanoseconds


def verify(
    path: Any,
    data: bool = False,
    columns: Iterable[str] | None = None,
    filesystem: Any = None,
    progress: Progress | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> VerifyReport:
    """Check the filters of an ORC file.

    A filter that is not trusted is noted, and not called bad, unless the data shows that it loses rows.

    Parameters
    ----------
    path : the file.
    data : also read the columns and probe every value: a filter must not deny one.
    columns : dotted paths; None for all.
    filesystem, storage_options : as in `prune`.
    progress : called after each filter with (done, in all).

    Returns
    -------
    A report whose row groups are numbered through the file.

    Raises
    ------
    ParquetBloomError
        The file cannot be read, or its footer. What is wrong with a filter is not raised, but reported.
    """
    with open(path, filesystem, storage_options=storage_options) as file:
        report = VerifyReport(file.path)
        names = None if columns is None else list(columns)
        total = file.num_filters(names)
        numbers = {(one.stripe, one.row_group): one for one in file.row_groups}
        values = StripeValues(file) if data else None
        for done, found in enumerate(file.filters(names)):
            place = numbers[found.stripe, found.row_group]
            report.chunks.append(_verify_filter(file, found, place, values))
            if progress:
                progress(done + 1, total)
        return report


def _verify_filter(file: OrcFile, found: OrcFilter, place: OrcRowGroup, values: StripeValues | None) -> ChunkVerdict:
    verdict = ChunkVerdict(file.path, place.number, found.column, problem=found.problem)
    if found.problem:
        return verdict
    if found.fault:
        verdict.note = f"not trusted: {found.fault}"
    elif found.fill > 0.9:
        verdict.note = f"saturated: {found.fill:.0%} of the bits are set, {found.fpp:.0%} of absent keys pass"
    if values is not None:
        try:
            _probe_all(file, found, place, values, verdict)
        except ParquetBloomError as error:
            verdict.problem = error.problem
    return verdict


def _probe_all(
    file: OrcFile, found: OrcFilter, place: OrcRowGroup, values: StripeValues, verdict: ChunkVerdict
) -> None:
    leaf = found.leaf
    known = file.row_group_evidence([leaf], [found.stripe])[found.stripe, leaf.column_id][found.row_group]
    if leaf.column_type.physical == "INT96" and not fits_nanoseconds(known):
        verdict.note = verdict.note or "not probed: pyarrow reads timestamps of the years 1678 to 2262 alone"
        return
    array = values.of(leaf, found.stripe, place.first_row - file.stripes[found.stripe].first_row, place.num_rows)
    try:
        probes = make_probes(array, leaf)
    except FilterTypeError:
        verdict.note = verdict.note or f"not probed: how values of {leaf.column_type.name} are hashed is not known"
        return
    verdict.num_values = len(array) - array.null_count
    verdict.num_missing = len(array) - int(probes.answer(found.check_hashes).sum())
    if verdict.num_missing:
        why = f": {found.fault}" if found.fault else ""
        verdict.problem = (
            f"the filter denies {verdict.num_missing:,} of the column's {verdict.num_values:,} values{why}"
        )
