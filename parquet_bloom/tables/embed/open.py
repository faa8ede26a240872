"""Open the table that a caller of `embed_table` means."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import ParquetBloomError
from ..delta.open import DeltaSource, delta
from ..iceberg.open import IcebergTable, iceberg
from ..iceberg.versions import Request
from ..open import find_table
from .delta import DeltaTarget
from .iceberg import IcebergTarget
from .target import Target


def open_target(table: Any, catalog: Any, storage_options: Mapping[str, Any] | None) -> Target:
    """Return the table; see `embed_table` for what it may be.

    Raises
    ------
    ParquetBloomError
        There is no table, it is of another kind, or it names one version.
    """
    if catalog is not None:
        return _make_iceberg(iceberg(table, catalog=catalog))
    if hasattr(table, "table_uri"):  # deltalake's: its latest version, and not the one that it has read
        return DeltaTarget(table.table_uri, storage_options or getattr(table, "_storage_options", None))
    found = find_table(table, storage_options)
    if found is None and isinstance(table, str | os.PathLike):
        name = os.fsdecode(table)
        if name.endswith(".metadata.json"):
            found = iceberg(name)
        elif "://" in name or name.startswith("file:"):
            found = delta(name, storage_options=storage_options)
        else:
            raise ParquetBloomError("there is no Delta or Iceberg table", path=name)
    if isinstance(found, DeltaSource):
        _require_latest((found._version, found._as_of), found.name)
        return DeltaTarget(found.name, found._options)
    if isinstance(found, IcebergTable):
        _require_latest((found._request.snapshot_id, found._request.ref, found._request.as_of), found.name)
        return _make_iceberg(found)
    problem = "a table is what parquet_bloom.delta or parquet_bloom.iceberg returns, a DeltaTable, a pyiceberg Table"
    raise ParquetBloomError(f"{problem} or the folder of a Delta table, not {type(table).__name__}")


def _make_iceberg(table: IcebergTable) -> IcebergTarget:
    # Files outside of its folder are left as they are; they are no reason to refuse the others.
    return IcebergTarget(IcebergTable(table.name, table._source, Request(), outside=True))


def _require_latest(given: Iterable[Any], name: str) -> None:
    if any(value is not None for value in given):
        problem = "files are exchanged in the latest version of a table, and this names one: give the table without"
        raise ParquetBloomError(problem, path=name)
