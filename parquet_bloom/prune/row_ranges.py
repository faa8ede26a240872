"""Which rows of the surviving row groups can match, by the statistics of their pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..file.footer_cache import FOOTERS
from ..file.pages import RowGroupPages
from ..file.reader import open
from ..predicate import parse
from ..predicate.decide import Decider
from ..storage import file_system
from .page_choice import rows_left
from .plan import Deciders, prune
from .schemas import reading, schema_in


def row_ranges(
    paths: Any,
    where: Any,
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    partitioning: Literal["hive"] | None = "hive",
) -> dict[str, dict[int, list[tuple[int, int]]]]:
    """Find the rows that can match, without reading a value.

    Parameters
    ----------
    paths, where, filesystem, storage_options, timezone, dialect, partitioning : as in `prune`.

    Returns
    -------
    {path: {row group: [(first row, row behind the last one), ...]}} of files and row groups that `prune` selects. Rows
    are counted from the beginning of their row group. A row group is there whole unless it has a page index that is
    usable and rules rows out; ranges may be none at all.

    Raises
    ------
    PredicateError, ParquetBloomError
        As in `prune`.
    """
    filesystem = file_system(filesystem, storage_options)
    node = parse(where, dialect=dialect)
    report = prune(paths, node, filesystem=filesystem, timezone=timezone, partitioning=partitioning)
    deciders = Deciders(Decider(node, timezone), report.partitions.left_of(node, timezone, strict=False), timezone)
    found: dict[str, dict[int, list[tuple[int, int]]]] = {}
    for decision in report.files:
        if not decision.selected:
            continue
        decider = deciders.of(decision.path)
        with open(decision.path, filesystem, cache=FOOTERS) as file, reading(file):
            of_file = found[decision.path] = {}
            for row_group in decision.selected_in(file):
                left = None
                if isinstance(decider, Decider):
                    left = rows_left(file, row_group, RowGroupPages(file, schema_in(file), row_group), decider)
                whole = [(0, file.footer.num_rows_of(row_group))]
                of_file[row_group] = whole if left is None else [(start, stop) for start, stop in left.tolist()]
    return found
