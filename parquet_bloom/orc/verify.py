"""Verify the filters of an ORC file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import FilterTypeError, ParquetBloomError
from ..file.many import Progress
from ..file.verify import ChunkVerdict, VerifyReport
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

    A filter that is not trusted gets a note, and is bad only if the data shows that it loses rows.

    Parameters
    ----------
    path : the file.
    data : also read the columns and probe every value: no value may be absent from its filter.
    columns : dotted paths; None for all.
    filesystem, storage_options : as in `prune`.
    progress : called after each filter with the number of verified filters and the total.

    Returns
    -------
    A report whose row groups are numbered through the file.

    Raises
    ------
    ParquetBloomError
        The file or its footer cannot be read. Problems of filters are reported, not raised.
    """
    with open(path, filesystem, storage_options=storage_options) as file:
        report = VerifyReport(file.path)
        names = None if columns is None else list(columns)
        total = file.num_filters(names)
        numbers = {(group.stripe, group.row_group): group for group in file.row_groups}
        values = StripeValues(file) if data else None
        for done, filter in enumerate(file.filters(names)):
            row_group = numbers[filter.stripe, filter.row_group]
            report.chunks.append(_verify_filter(file, filter, row_group, values))
            if progress:
                progress(done + 1, total)
        return report


def _verify_filter(
    file: OrcFile, filter: OrcFilter, row_group: OrcRowGroup, values: StripeValues | None
) -> ChunkVerdict:
    verdict = ChunkVerdict(file.path, row_group.number, filter.column, problem=filter.problem)
    if filter.problem:
        return verdict
    if filter.fault:
        verdict.note = f"not trusted: {filter.fault}"
    elif filter.fill > 0.9:
        verdict.note = f"saturated: {filter.fill:.0%} of the bits are set, {filter.fpp:.0%} of absent keys pass"
    if values is not None:
        try:
            _probe_all(file, filter, row_group, values, verdict)
        except ParquetBloomError as error:
            verdict.problem = error.problem
    return verdict


def _probe_all(
    file: OrcFile, filter: OrcFilter, row_group: OrcRowGroup, values: StripeValues, verdict: ChunkVerdict
) -> None:
    leaf = filter.leaf
    statistics = file.row_group_evidence([leaf], [filter.stripe])[filter.stripe, leaf.column_id][filter.row_group]
    if leaf.column_type.physical == "INT96" and not fits_nanoseconds(statistics):
        verdict.note = verdict.note or "not probed: pyarrow reads only timestamps of the years 1678 to 2262"
        return
    array = values.of(
        leaf, filter.stripe, row_group.first_row - file.stripes[filter.stripe].first_row, row_group.num_rows
    )
    try:
        probes = make_probes(array, leaf)
    except FilterTypeError:
        verdict.note = verdict.note or f"not probed: how values of {leaf.column_type.name} are hashed is not known"
        return
    verdict.num_values = len(array) - array.null_count
    verdict.num_missing = len(array) - int(probes.answer(filter.check_hashes).sum())
    if verdict.num_missing:
        reason = f": {filter.fault}" if filter.fault else ""
        verdict.problem = (
            f"the filter denies {verdict.num_missing:,} of the column's {verdict.num_values:,} values{reason}"
        )
