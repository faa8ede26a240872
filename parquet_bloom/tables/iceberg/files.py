"""The data files of an Iceberg table at one snapshot, as the lake index takes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from ...errors import StorageError
from ..files import TableFiles
from .columns import iceberg_names
from .open import iceberg
from .partitions import find_identities
from .snapshot import Contents

_EPOCH = date(1970, 1, 1)


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
    contents = given.read_contents()
    opened, schema = contents.table, contents.schema
    try:
        mapping = opened.name_mapping()
        columns, ids = iceberg_names(schema, [*opened.schemas().values(), schema], mapping)
        partition_values = _list_partition_values(contents)
    except Exception as error:  # of many kinds: pyiceberg's
        raise StorageError.wrap(error, "cannot understand the Iceberg table", given.name) from error
    places = {row: file.path for row, file in zip(contents.order, contents.files, strict=True)}
    return TableFiles(
        "iceberg",
        str(opened.metadata.table_uuid),
        None if contents.snapshot is None else int(contents.snapshot.snapshot_id),
        contents.root,
        contents.files,
        columns,
        ids,
        mapping is not None,
        outside=outside,
        deletes=frozenset(places[row] for row in contents.deletes),
        partition_values=partition_values,
    )


def _list_partition_values(contents: Contents) -> dict[str, dict[str, Any]]:
    """Return {path: {column: value}} of the identity partition columns that have the column's name."""
    from pyiceberg.types import DateType

    specs, schema, manifests = contents.table.specs(), contents.schema, contents.manifests
    columns: dict[int, list[tuple[str, int, bool]]] = {}
    for source_id, positions in find_identities(specs).items():
        name = schema.find_column_name(source_id)
        for spec_id, position in positions.items():
            if name == specs[spec_id].fields[position].name:
                is_date = isinstance(schema.find_type(source_id), DateType)
                columns.setdefault(spec_id, []).append((name, position, is_date))
    result = {}
    for row, file in zip(contents.order, contents.files, strict=True):
        values = manifests.values[row]
        result[file.path] = {
            name: _EPOCH + timedelta(days=values[position])
            if is_date and isinstance(values[position], int)
            else values[position]
            for name, position, is_date in columns.get(manifests.partitions[row][0], ())
        }
    return result
