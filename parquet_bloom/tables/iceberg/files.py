"""The data files of an Iceberg table at one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..files import TableFiles
from .open import iceberg


def iceberg_files(
    table: Any,
    snapshot_id: int | None = None,
    properties: Mapping[str, Any] | None = None,
    *,
    outside: bool = False,
) -> TableFiles:
    """Return the data files of an Iceberg table.

    Parameters
    ----------
    table : a `pyiceberg.table.Table` from a catalog; or the path of one of its `*.metadata.json`, or of its folder.
    snapshot_id : the snapshot, with columns by its schema; None for the current one, with the table's current schema.
    properties : pyiceberg's settings of the store, for a path; the properties in the table's metadata are ignored.
    outside : accept files outside of the table's location, such as files that were added in place. For a table given
        by a path, also accept a location other than the folder of its metadata, and manifests that lie elsewhere.

    Raises
    ------
    StorageError
        There is no such table, or pyiceberg cannot read it.
    ParquetBloomError
        pyiceberg is missing, there is no such snapshot, the metadata is not understood, a file is outside of the
        table's location, or the location is not the given folder.
    """
    given = iceberg(table, snapshot_id=snapshot_id, properties=properties, outside=outside)
    return TableFiles.of(given.read_snapshot(), outside)
