"""Open the table that a caller of `embed_table` means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import ParquetBloomError
from ...storage import is_url
from ...storage.managed_tables import find_table_at
from ...storage.paths import resolve_local_path
from ..iceberg_metadata import METADATA_SUFFIX
from ..locations import without_scheme
from .target import Target


def open_target(table: Any, catalog: Any, storage_options: Mapping[str, Any] | None) -> Target:
    """Return the table; see `embed_table` for what it may be.

    Raises
    ------
    ParquetBloomError
        There is no table, it is of another kind, or it has no catalog to commit to.
    """
    if catalog is not None:
        from .iceberg import open_by_name

        return open_by_name(catalog, table)
    if isinstance(table, str | os.PathLike):
        return _open_folder(table, storage_options)
    module = type(table).__module__.partition(".")[0]
    if module == "deltalake" and hasattr(table, "table_uri"):
        from .delta import DeltaTarget

        return DeltaTarget(table.table_uri, storage_options or getattr(table, "_storage_options", None))
    if hasattr(table, "catalog") and hasattr(table, "metadata"):
        from .iceberg import IcebergTarget

        return IcebergTarget(table)
    problem = "a table is what parquet_bloom.delta or parquet_bloom.iceberg returns, a DeltaTable, a pyiceberg Table"
    raise ParquetBloomError(f"{problem} or the folder of a Delta table, not {type(table).__name__}")


def _open_folder(table: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> Target:
    from .delta import DeltaTarget

    path = without_scheme(os.fspath(table)) if isinstance(os.fspath(table), str) else os.fspath(table)
    if is_url(path):
        return DeltaTarget(path, storage_options)
    folder = resolve_local_path(path)
    reason = find_table_at(folder) or ""
    if os.path.isdir(os.path.join(folder, "_delta_log")):
        return DeltaTarget(folder, storage_options)
    if "Iceberg" in reason or folder.endswith(METADATA_SUFFIX):
        problem = "an Iceberg table given by its folder has no catalog to commit to; give a pyiceberg Table, or catalog="
        raise ParquetBloomError(problem, path=folder)
    raise ParquetBloomError(reason or "there is no Delta or Iceberg table", path=folder)
