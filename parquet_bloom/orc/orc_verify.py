"""Verify the filters of an ORC file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ..errors import FilterTypeError, ParquetBloomError, UnreadableColumnError
from ..file.many_files import Progress
from ..file.verify_file import ChunkVerdict, VerifyReport
from ..predicate.pruning_statistics import PruningStatistics
from ..util.lazy import late_module
from .orc_filters import OrcFilter, make_probes
from .orc_reader import OrcFile, open
from .orc_schema import OrcLeaf
from .orc_tail import OrcRowGroup

if TYPE_CHECKING:
    from pyarrow import orc

    from ..util.given_types import FileSystem
else:
    orc = late_module("pyarrow.orc")

_MAX_NANOS = (1 << 63) - 1


class StripeValues:
    """Reader of one column of one stripe at a time, which caches the last one.

    Parameters
    ----------
    file : the file.

    Raises
    ------
    ParquetBloomError
        pyarrow cannot read ORC files.
    """

    def __init__(self, file: OrcFile):
        try:
            self._reader = orc.ORCFile
        except ImportError:  # some builds of pyarrow lack it
            raise ParquetBloomError("this build of pyarrow does not support ORC files", path=file.path) from None
        self._file = file
        self._last: tuple[tuple[int, str], pa.Array] | None = None

    def of(self, leaf: OrcLeaf, stripe: int, first_row: int, num_rows: int) -> pa.Array:
        """Return the values of a column in some rows of a stripe; elements of lists are concatenated.

        Raises
        ------
        UnreadableColumnError
            pyarrow cannot read them, or returns another number of rows.
        """
        try:
            return _descend(self._read_column(leaf, stripe).slice(first_row, num_rows), leaf.path[1:])
        except (pa.ArrowException, OSError) as error:
            raise self._make_error(leaf, str(error)) from error

    def _read_column(self, leaf: OrcLeaf, stripe: int) -> pa.Array:
        top = leaf.path[0] if leaf.path else ""
        if self._last is None or self._last[0] != (stripe, top):
            names = None if "." in top else [top]  # pyarrow would take a dot in a name for a path
            self._file.require_readable(stripe, names)
            with self._file.source.arrow_file() as opened:
                file = self._reader(opened)
                batch = file.read_stripe(stripe, columns=names)
            names = batch.schema.names
            expected = self._file.stripes[stripe].num_rows
            if names.count(top) != 1 or batch.num_rows != expected:
                raise self._make_error(leaf, f"{batch.num_rows} rows of {names.count(top)} columns in stripe {stripe}")
            self._last = (stripe, top), batch.column(names.index(top))
        return self._last[1]

    def _make_error(self, leaf: OrcLeaf, reason: str) -> UnreadableColumnError:
        problem = f"cannot be read: {reason.splitlines()[0] if reason else 'no reason given'}"
        return UnreadableColumnError(problem, path=self._file.path, column=leaf.name)


def _descend(array: pa.Array, path: Sequence[str]) -> pa.Array:
    """Return the values of a leaf below a column."""
    for name in path:
        if pa.types.is_struct(array.type):
            array = array.flatten()[array.type.get_field_index(name)]
        elif pa.types.is_map(array.type):
            start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
            array = (array.keys if name == "key" else array.items).slice(start, end - start)
        elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
            array = array.flatten()
        else:
            raise pa.ArrowNotImplementedError(f"values of {array.type} have no children")
    return array


def fits_nanoseconds(statistics: PruningStatistics) -> bool:
    """Return whether timestamps with these statistics certainly fit in 64-bit nanoseconds, as pyarrow reads them."""
    if statistics.has_values is False:
        return True
    if not isinstance(statistics.low, int) or not isinstance(statistics.high, int):
        return False
    return statistics.low >= -_MAX_NANOS and statistics.high <= _MAX_NANOS


def verify(
    path: str | os.PathLike[str],
    data: bool = False,
    columns: Iterable[str] | None = None,
    filesystem: FileSystem | None = None,
    progress: Progress | None = None,
    *,
    storage_options: Mapping[str, object] | None = None,
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

    Examples
    --------
    >>> import pyarrow.orc
    >>> from parquet_bloom import orc
    >>> pyarrow.orc.write_table(pyarrow.table({"id": [1, 2]}), "ids.orc")
    >>> print(orc.verify("ids.orc"))
    ids.orc: no filters
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
