"""Which rows of the surviving row groups can match, by the statistics of their pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ParquetBloomError
from ..file.cache.memory import SHARED_CACHE
from ..predicate import parse
from .formats import open_file
from .plan import prune
from .report import PruneReport
from .spelling import FileDeciders

if TYPE_CHECKING:
    from .indexed import Index
    from .zoned import Zones

Ranges = dict[int, list[tuple[int, int]]]
"""{row group: [(first row, row behind the last one), ...]}"""


def row_ranges(
    paths: Any,
    where: Any,
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    partitioning: Literal["hive"] | None = "hive",
    index: Index | None = None,
    zones: Zones | None = None,
) -> dict[str, Ranges]:
    """Find the rows that can match, without reading a value.

    Parameters
    ----------
    paths, where, filesystem, storage_options, timezone, dialect, partitioning, index, zones : as in `prune`.

    Returns
    -------
    {path: {row group: [(first row, row behind the last one), ...]}} of files and row groups that `prune` selects. Rows
    are counted from the beginning of their row group. A row group is there whole unless it has a page index that is
    usable and rules rows out, or zones do; ranges may be none at all. Row groups of ORC files are there whole.

    Raises
    ------
    PredicateError, ParquetBloomError
        As in `prune`.
    """
    node = parse(where, dialect=dialect)
    options: dict[str, Any] = {"filesystem": filesystem, "storage_options": storage_options, "timezone": timezone}
    return ranges_of(prune(paths, node, partitioning=partitioning, index=index, zones=zones, **options))


def ranges_of(
    report: PruneReport,
    *,
    on_error: Callable[[ParquetBloomError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Ranges]:
    """The rows that can match in the row groups that a report of `prune` has selected; see `row_ranges`.

    What is read of page indexes is added to the report's requests and bytes.

    Parameters
    ----------
    on_error : called with the error of a file that cannot be read any more, which is then left out; without it, the
        error is raised.
    progress : called after each file with (done, in all).
    """
    asked = report.asked
    assert asked is not None, "the report is not prune's"
    left = report.partitions.left_of(asked.node, asked.timezone, ignore_case=asked.ignore_case, strict=False)
    deciders = FileDeciders(left, asked.timezone, asked.ignore_case)
    found: dict[str, Ranges] = {}
    decisions = [decision for decision in report.files if decision.selected]
    for done, decision in enumerate(decisions):
        try:
            with open_file(decision.path, report.filesystem, SHARED_CACHE) as file:
                requests, num_bytes = file.source.requests, file.source.bytes_read
                decider = deciders.of(file)
                of_file = {
                    row_group: file.rows_left(row_group, decider, zoned) for row_group, zoned in decision.left_in(file)
                }
                found[decision.path] = of_file
                report.requests += file.source.requests - requests
                report.bytes_read += file.source.bytes_read - num_bytes
        except ParquetBloomError as error:
            if on_error is None:
                raise
            on_error(error)
        if progress:
            progress(done + 1, len(decisions))
    return found
