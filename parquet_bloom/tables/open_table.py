"""Recognise what a caller gives as a Delta or Iceberg table."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..storage import is_url
from ..storage.file_names import ICEBERG, ICEBERG_FILES, find_table_at
from ..storage.paths import resolve_given_path
from ..util.lazy import late_module
from .table_snapshot import Table

if TYPE_CHECKING:
    from .delta import delta_table
    from .iceberg import iceberg_table
else:  # most lakes are of plain files
    delta_table = late_module("parquet_bloom.tables.delta.delta_table")
    iceberg_table = late_module("parquet_bloom.tables.iceberg.iceberg_table")

DELTA_LOG = "_delta_log"


def find_table(source: object, storage_options: Mapping[str, object] | None = None) -> Table | None:
    """Return the table that a caller gives; None for anything else.

    Parameters
    ----------
    source : a `Table`; a table of deltalake or pyiceberg; the local folder that is the root of one; or the path or URL
        of an Iceberg table's metadata file.
    storage_options : settings of the store of a Delta table.
    """
    if isinstance(source, str | os.PathLike):
        path = resolve_given_path(os.fsdecode(source))
        is_remote = is_url(path)
        if path.endswith(ICEBERG_FILES) and (os.path.isfile(path) or (is_remote and not glob.has_magic(path))):
            return open_iceberg(path)
        return None if is_remote else _open_table_at(path, storage_options)
    if isinstance(source, Table):
        return source
    if _is_instance(source, "deltalake.table", "DeltaTable"):
        return open_delta(source, storage_options)
    return open_iceberg(source) if _is_instance(source, "pyiceberg.table", "Table") else None


def open_delta(source: Any, storage_options: Mapping[str, object] | None = None, outside: bool = False) -> Table:
    """Return what `parquet_bloom.delta` does."""
    return delta_table.delta(source, storage_options=storage_options, outside=outside)


def open_iceberg(source: Any, catalog: str | None = None, outside: bool = False) -> Table:
    """Return what `parquet_bloom.iceberg` does."""
    return iceberg_table.iceberg(source, catalog=catalog, outside=outside)


def _open_table_at(folder: str, storage_options: Mapping[str, object] | None) -> Table | None:
    """Return the table of which a local folder is the root; None if it is the root of none that can be read."""
    log, has_commits = os.path.join(folder, DELTA_LOG), False
    if os.path.isdir(log):  # also asked of a text that no path can be, which is reported as such where it is listed
        try:
            has_commits = any(name.endswith((".json", ".parquet")) for name in os.listdir(log))
        except FileNotFoundError:
            has_commits = False
        except OSError:  # reading the table says why
            has_commits = True
    if has_commits:
        return open_delta(folder, storage_options)
    if os.path.isdir(os.path.join(folder, ICEBERG)) and find_table_at(folder, [ICEBERG]):
        return open_iceberg(folder)
    return None


def _is_instance(source: object, module: str, name: str) -> bool:
    """Return whether an object is of a class of a library, which is not imported for it."""
    imported = sys.modules.get(module)
    return imported is not None and isinstance(source, getattr(imported, name))
