"""Open an Iceberg table by one of its metadata files, without a catalog.

pyiceberg's `StaticTable.from_metadata` creates its file IO from the properties in the table's metadata, and one of
those (`py-io-impl`) names any callable of any module, which is then imported and called: anyone who can write a
metadata file could run arbitrary code. Here only the caller's properties are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ParquetBloomError

METADATA_SUFFIX = ".metadata.json"
_LONGEST_HINT = 4096


def open_static_table(path: str, properties: Mapping[str, Any]) -> Any:
    """Return the table, as a `pyiceberg.table.Table`.

    Parameters
    ----------
    path : its metadata file; or its folder, where `metadata/version-hint.text` names that.
    properties : pyiceberg's settings of the store.

    Raises
    ------
    ParquetBloomError
        The hint does not name a file in its folder.
    Exception
        Of many kinds, from pyiceberg: the file cannot be read, or is not a metadata file.
    """
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import StaticTable

    if not path.endswith(METADATA_SUFFIX):
        folder = f"{path}/metadata"
        hint = f"{folder}/version-hint.text"
        with load_file_io(dict(properties), location=hint).new_input(hint).open() as stream:
            path = f"{folder}/{_resolve_hint(stream.read(_LONGEST_HINT), hint)}"
    io = load_file_io(dict(properties), location=path)
    metadata = FromInputFile.table_metadata(io.new_input(path))
    return StaticTable(("static-table", path), metadata, path, io, NoopCatalog("static-table"))


def _resolve_hint(content: bytes, hint: str) -> str:
    """Return the name of the metadata file for a hint: its number, or its name with or without the suffix."""
    text = content.decode("utf-8").strip()
    if not text or "/" in text or "\0" in text:
        raise ParquetBloomError(f"it names {text[:100]!r}, which is not a file in its folder", path=hint)
    if text.endswith(METADATA_SUFFIX):
        return text
    return f"v{text}{METADATA_SUFFIX}" if text.isnumeric() else f"{text}{METADATA_SUFFIX}"
