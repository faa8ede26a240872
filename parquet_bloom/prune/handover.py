"""Surviving row groups as a `pyarrow.dataset.Dataset`, which DuckDB, polars and DataFusion read by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..storage import arrow_filesystem
from .schemas import schemas_of, unified


def dataset(
    paths: Sequence[str], selected: Mapping[str, list[int]], filesystem: Any = None, schema: pa.Schema | None = None
) -> Any:
    """A dataset of chosen row groups.

    Parameters
    ----------
    paths : all files, for the schema.
    selected : {path: row groups}; a file without an entry is left out.
    filesystem : of the paths, as in `PruneReport`.
    schema : of the dataset; None takes the one that all files fit into, whose footers are read for it.

    Returns
    -------
    pyarrow.dataset.FileSystemDataset, a fragment a file.
    """
    # Not at the top: it takes a third of a second to import, and few callers need it.
    import pyarrow.dataset as ds

    if schema is None:
        schema = unified(schemas_of(paths, filesystem)) if paths else pa.schema([])
    file_format = ds.ParquetFileFormat()
    place = arrow_filesystem(filesystem, paths)
    fragments = [file_format.make_fragment(path, place, row_groups=row_groups) for path, row_groups in selected.items()]
    return ds.FileSystemDataset(fragments, schema, file_format, place)
