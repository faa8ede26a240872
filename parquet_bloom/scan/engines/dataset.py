"""Surviving row groups as a `pyarrow.dataset.Dataset`, which DuckDB, polars and DataFusion read by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from itertools import groupby
from operator import and_, itemgetter
from typing import Any

import pyarrow as pa

from ...file.cache.memory import SHARED_CACHE
from ...storage import arrow_filesystem, is_local
from ..model.decision import PARQUET, FilePlan
from ..model.partitions import Partitions
from ..model.schemas import in_threads, unified
from ..read.open import open_version


def dataset(
    decisions: Sequence[FilePlan],
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
    pyarrow.dataset.FileSystemDataset, a fragment a file; of Parquet and ORC files together a UnionDataset of such. A
    fragment of an ORC file is the whole file.
    """
    # Not at the top: it takes a third of a second to import, and few callers need it.
    import pyarrow.dataset as ds

    def look(decision: FilePlan) -> tuple[str, str, list[int], pa.Schema | None]:
        if decision.unopened and schema is not None:
            return decision.path, PARQUET, [], None
        # What is read has to be what is there now; of what is not, the schema is that of the version that was judged.
        identity = None if decision.selected else decision.identity
        with open_version(decision.path, filesystem, SHARED_CACHE, identity) as file:
            return decision.path, file.format, decision.selected_in(file), file.schema if schema is None else None

    remote = not is_local(filesystem, [decision.path for decision in decisions])
    found = in_threads(look, decisions, remote=remote)
    selected = [(path, kind, row_groups) for path, kind, row_groups, _ in found if row_groups]
    if schema is None:
        schema = unified(own for *_, own in found if own is not None) if found else pa.schema([])
        if partitions:
            schema = partitions.joined(schema.empty_table()).schema

    def of_folder(path: str) -> Any:
        values = partitions.values(path) if partitions else {}
        fields = {name: ds.field(name) == value for name, value in values.items() if value is not None}
        fields |= {name: ds.field(name).is_null() for name, value in values.items() if value is None}
        return reduce(and_, fields.values()) if fields else None

    place = arrow_filesystem(filesystem, [decision.path for decision in decisions])

    def of_format(kind: str, files: Iterable[tuple[str, str, list[int]]]) -> Any:
        if kind == PARQUET:
            file_format: Any = ds.ParquetFileFormat()
            make = file_format.make_fragment
        else:  # there is no fragment of some row groups of an ORC file
            file_format = ds.OrcFileFormat()
            make = partial(_whole, file_format)
        fragments = [make(path, place, of_folder(path), row_groups=row_groups) for path, _, row_groups in files]
        return ds.FileSystemDataset(fragments, schema, file_format, place)

    parts = [of_format(kind, files) for kind, files in groupby(selected, itemgetter(1))] or [of_format(PARQUET, ())]
    return parts[0] if len(parts) == 1 else ds.UnionDataset(schema, parts)


def _whole(file_format: Any, path: str, place: Any, partition_expression: Any, *, row_groups: list[int]) -> Any:
    """A fragment of a whole file, whatever row groups of it are wanted."""
    return file_format.make_fragment(path, place, partition_expression)
