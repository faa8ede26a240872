"""Surviving row groups as a `pyarrow.dataset.Dataset`, which DuckDB, polars and DataFusion read by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa

from ..storage import arrow_filesystem
from .partitions import Partitions
from .schemas import schemas_of, unified


def dataset(
    paths: Sequence[str],
    selected: Mapping[str, list[int]],
    filesystem: Any = None,
    schema: pa.Schema | None = None,
    partitions: Partitions | None = None,
) -> Any:
    """A dataset of chosen row groups.

    Parameters
    ----------
    paths : all files, for the schema.
    selected : {path: row groups}; a file without an entry is left out.
    filesystem : of the paths, as in `PruneReport`.
    schema : of the dataset; None takes the one that all files fit into, whose footers are read for it.
    partitions : the columns that the files' folders give.

    Returns
    -------
    pyarrow.dataset.FileSystemDataset, a fragment a file.
    """
    # Not at the top: it takes a third of a second to import, and few callers need it.
    import pyarrow.dataset as ds

    if schema is None:
        schema = unified(schemas_of(paths, filesystem)) if paths else pa.schema([])
        if partitions:
            schema = partitions.joined(schema.empty_table()).schema

    def of_folder(path: str) -> Any:
        values = partitions.values(path) if partitions else {}
        fields = {name: ds.field(name) == value for name, value in values.items() if value is not None}
        fields |= {name: ds.field(name).is_null() for name, value in values.items() if value is None}
        return reduce(and_, fields.values()) if fields else None

    file_format = ds.ParquetFileFormat()
    place = arrow_filesystem(filesystem, paths)
    fragments = [
        file_format.make_fragment(path, place, partition_expression=of_folder(path), row_groups=row_groups)
        for path, row_groups in selected.items()
    ]
    return ds.FileSystemDataset(fragments, schema, file_format, place)
