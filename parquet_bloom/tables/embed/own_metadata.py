"""Write metadata files of tables of format version 3 where a catalog would have pyiceberg write them, which it cannot.

The file before is kept as it is, whatever is in it, but for what the commit of a snapshot changes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...errors import ParquetBloomError
from ...util.lazy import late_module
from ..iceberg.metadata_folder import open_metadata_file, parse_metadata, unpack

if TYPE_CHECKING:
    import pyiceberg.exceptions as exceptions
    import pyiceberg.serializers as serializers
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
else:
    exceptions, serializers = late_module("pyiceberg.exceptions"), late_module("pyiceberg.serializers")

OWN_VERSION = 3

_WRITERS = ("_write_metadata", "_write_metadata_no_exist_check")  # of pyiceberg's catalogs
_CHANGED = (
    *("current-snapshot-id", "last-sequence-number", "last-updated-ms", "snapshot-log", "metadata-log"),
    *("next-row-id", "properties"),
)


class SameSequence:
    """Requires of a commit that no branch has got a snapshot meanwhile: its sequence number and row ids are taken then.

    For catalogs that check requirements in this process, by `validate`; those on a server check that by themselves.
    """

    def __init__(self, metadata: TableMetadata):
        self._last = metadata.last_sequence_number

    def validate(self, base_metadata: TableMetadata | None) -> None:
        last = None if base_metadata is None else base_metadata.last_sequence_number
        if last != self._last:
            raise exceptions.CommitFailedException(f"the last sequence number has become {last}")


def checks_itself(catalog: Catalog) -> bool:
    """Return whether a catalog checks requirements and writes metadata files in this process."""
    return any(hasattr(type(catalog), name) for name in _WRITERS)


def write_own_metadata(catalog: Catalog) -> None:
    """Have a catalog write metadata files of version 3 by `change_document`, if it writes metadata files itself.

    Parameters
    ----------
    catalog : as `CatalogTable.open` returns it with the table: a copy that nothing else uses.
    """
    for name in _WRITERS:
        if hasattr(type(catalog), name):
            setattr(catalog, name, _write_metadata)


def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
    before = open_metadata_file(metadata.metadata_log[-1].metadata_file, io.properties)
    document = change_document(unpack(before.content), metadata)
    content = json.dumps(document).encode()
    with io.new_output(metadata_path).create() as stream:
        stream.write(serializers.Compressor.get_compressor(metadata_path).bytes_compressor()(content))


def change_document(document: dict[str, Any], metadata: TableMetadata) -> dict[str, Any]:
    """Return a metadata file's document with what the commit of a snapshot, or of properties, changes.

    Parameters
    ----------
    document : of the file before.
    metadata : pyiceberg's, after the commit.

    Raises
    ------
    ParquetBloomError
        The commit would change something else.
    """
    dumped = metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    known = {each["snapshot-id"] for each in document.get("snapshots", ())}
    new = [each for each in dumped["snapshots"] if each["snapshot-id"] not in known]
    document = {
        **document,
        **{key: dumped[key] for key in _CHANGED if key in dumped},
        "snapshots": [*document.get("snapshots", ()), *new],
        "refs": {name: document.get("refs", {}).get(name, {}) | ref for name, ref in dumped.get("refs", {}).items()},
    }
    if parse_metadata(document) != metadata:
        raise ParquetBloomError("the commit would change the table's metadata in other ways than by a snapshot")
    return document
