"""Selected row groups as a `pyarrow.dataset.Dataset`, which DuckDB, polars and DataFusion can read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from itertools import groupby
from operator import and_, itemgetter
from typing import Any

import pyarrow as pa

from ...file.cache.memory import SHARED_CACHE
from ...storage import arrow_filesystem, is_local
from ..model.partitions import Partitions
from ..model.plan import PARQUET, FilePlan
from ..model.schemas import map_in_threads, unify_schemas
from ..read.open import open_version


def make_dataset(
    plans: Sequence[FilePlan],
    filesystem: Any = None,
    schema: pa.Schema | None = None,
    partitions: Partitions | None = None,
) -> Any:
    """Return a dataset of the selected row groups.

    Parameters
    ----------
    plans : of all files. A file that has changed since its plan was made is included whole.
    filesystem : of the paths, as in `PruneReport`.
    schema : of the dataset; None for the unified schema of all files, whose footers are read for it.
    partitions : the partition columns.

    Returns
    -------
    pyarrow.dataset.FileSystemDataset, a fragment for each file; for Parquet and ORC files together, a UnionDataset of
    such. A fragment of an ORC file is the whole file.
    """
    # Not at the top: the import takes a third of a second, and few callers need it.
    import pyarrow.dataset as ds

    def read_file(plan: FilePlan) -> tuple[str, str, list[int], pa.Schema | None]:
        if plan.unopened and schema is not None:
            return plan.path, PARQUET, [], None
        # A file that is read must be the current version; for the others the planned version gives the schema.
        identity = None if plan.selected else plan.identity
        with open_version(plan.path, filesystem, SHARED_CACHE, identity) as file:
            return plan.path, file.format, plan.selected_in(file), file.schema if schema is None else None

    remote = not is_local(filesystem, [plan.path for plan in plans])
    files = map_in_threads(read_file, plans, remote=remote)
    selected = [(path, kind, row_groups) for path, kind, row_groups, _ in files if row_groups]
    if schema is None:
        schema = unify_schemas(one for *_, one in files if one is not None) if files else pa.schema([])
        if partitions:
            schema = partitions.add_columns(schema.empty_table()).schema

    def partition_expression(path: str) -> Any:
        values = partitions.values(path) if partitions else {}
        fields = {name: ds.field(name) == value for name, value in values.items() if value is not None}
        fields |= {name: ds.field(name).is_null() for name, value in values.items() if value is None}
        return reduce(and_, fields.values()) if fields else None

    arrow_fs = arrow_filesystem(filesystem, [plan.path for plan in plans])

    def make_part(kind: str, members: Iterable[tuple[str, str, list[int]]]) -> Any:
        if kind == PARQUET:
            file_format: Any = ds.ParquetFileFormat()
            make = file_format.make_fragment
        else:  # pyarrow has no fragments of some row groups of an ORC file
            file_format = ds.OrcFileFormat()
            make = partial(_make_orc_fragment, file_format)
        fragments = [
            make(path, arrow_fs, partition_expression(path), row_groups=row_groups) for path, _, row_groups in members
        ]
        return ds.FileSystemDataset(fragments, schema, file_format, arrow_fs)

    parts = [make_part(kind, members) for kind, members in groupby(selected, itemgetter(1))] or [make_part(PARQUET, ())]
    return parts[0] if len(parts) == 1 else ds.UnionDataset(schema, parts)


def _make_orc_fragment(
    file_format: Any, path: str, filesystem: Any, partition_expression: Any, *, row_groups: list[int]
) -> Any:
    """Return a fragment of a whole file, whichever row groups are selected."""
    return file_format.make_fragment(path, filesystem, partition_expression)
