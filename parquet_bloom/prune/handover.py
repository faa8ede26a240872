"""Surviving row groups as a `pyarrow.dataset.Dataset`, which DuckDB, polars and DataFusion read by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..file.footer_cache import FOOTERS
from ..file.reader import open
from ..storage import arrow_filesystem
from .partitions import Partitions
from .schemas import chosen, in_threads, reading, unified

if TYPE_CHECKING:
    from .report import FileDecision


def dataset(
    decisions: Sequence[FileDecision],
    filesystem: Any = None,
    schema: pa.Schema | None = None,
    partitions: Partitions | None = None,
) -> Any:
    """A dataset of chosen row groups.

    Parameters
    ----------
    decisions : of all files. One that is not the file any more that was judged is taken whole.
    filesystem : of the paths, as in `PruneReport`.
    schema : of the dataset; None takes the one that all files fit into, whose footers are read for it.
    partitions : the columns that the files' folders give.

    Returns
    -------
    pyarrow.dataset.FileSystemDataset, a fragment a file.
    """
    # Not at the top: it takes a third of a second to import, and few callers need it.
    import pyarrow.dataset as ds

    def look(decision: FileDecision) -> tuple[str, list[int], pa.Schema | None]:
        if decision.unopened and schema is not None:
            return decision.path, [], None
        with open(decision.path, filesystem, cache=FOOTERS) as file, reading(file):
            return decision.path, decision.selected_in(file), chosen(file, None) if schema is None else None

    found = in_threads(look, decisions)
    selected = {path: row_groups for path, row_groups, _ in found if row_groups}
    if schema is None:
        schema = unified(own for _, _, own in found if own is not None) if found else pa.schema([])
        if partitions:
            schema = partitions.joined(schema.empty_table()).schema

    def of_folder(path: str) -> Any:
        values = partitions.values(path) if partitions else {}
        fields = {name: ds.field(name) == value for name, value in values.items() if value is not None}
        fields |= {name: ds.field(name).is_null() for name, value in values.items() if value is None}
        return reduce(and_, fields.values()) if fields else None

    file_format = ds.ParquetFileFormat()
    place = arrow_filesystem(filesystem, [decision.path for decision in decisions])
    fragments = [
        file_format.make_fragment(path, place, partition_expression=of_folder(path), row_groups=row_groups)
        for path, row_groups in selected.items()
    ]
    return ds.FileSystemDataset(fragments, schema, file_format, place)
