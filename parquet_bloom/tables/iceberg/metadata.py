"""Open an Iceberg table by one of its metadata files, without a catalog.

pyiceberg's `StaticTable.from_metadata` creates its file IO from the properties in the table's metadata, and one of
those (`py-io-impl`) names any callable of any module, which is then imported and called: anyone who can write a
metadata file could run arbitrary code. Here only the caller's properties are used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

from ...errors import ParquetBloomError, StorageError

METADATA_SUFFIX = ".metadata.json"
_LONGEST_HINT = 4096
_NUMBERED = re.compile(r"(?:v(\d{1,18})|(\d{1,18})-[^/]+?)(?:\.gz)?\.metadata\.json")


class OpenedTable(NamedTuple):
    """A table, pyiceberg's, and the content of its metadata file."""

    table: Any
    content: bytes


def open_static_table(path: str, properties: Mapping[str, Any], known: OpenedTable | None = None) -> OpenedTable:
    """Return the table.

    Parameters
    ----------
    path : its metadata file; or its folder, where `metadata/version-hint.text` names that, or else the numbers in the
        files' names say which is the latest.
    properties : pyiceberg's settings of the store.
    known : the table as it was opened before, which is returned again if its metadata file is the same, byte by byte.

    Raises
    ------
    ParquetBloomError
        The hint does not name a file in its folder, or nothing says which file is the latest.
    Exception
        Of many kinds, from pyiceberg: the file cannot be read, or is not a metadata file.
    """
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import Compressor, FromByteStream
    from pyiceberg.table import StaticTable

    if path.endswith(f"{METADATA_SUFFIX}.gz"):
        problem = f"compressed metadata is read if its name ends in .gz{METADATA_SUFFIX}, as pyiceberg knows it by that"
        raise ParquetBloomError(f"{problem}: give the table by its catalog, or another metadata file", path=path)
    if not path.endswith(METADATA_SUFFIX):
        path = _find_latest(path, properties)
    io = known.table.io if known is not None else load_file_io(dict(properties), location=path)
    with io.new_input(path).open() as stream:
        content = bytes(stream.read())
    if known is not None and known.table.metadata_location == path and known.content == content:
        return known
    metadata = FromByteStream.table_metadata(BytesIO(content), compression=Compressor.get_compressor(path))
    table = StaticTable(("static-table", path), metadata, path, io, NoopCatalog("static-table"))
    return OpenedTable(table, content)


def _find_latest(table: str, properties: Mapping[str, Any]) -> str:
    """Return the latest metadata file of a table's folder."""
    from pyiceberg.io import load_file_io

    folder = f"{table}/metadata"
    hint = f"{folder}/version-hint.text"
    io = load_file_io(dict(properties), location=hint)
    try:
        with io.new_input(hint).open() as stream:
            content = stream.read(_LONGEST_HINT)
    except FileNotFoundError:  # tables of catalogs have none
        return f"{folder}/{_choose_latest(_list_names(io, folder), table)}"
    return f"{folder}/{_resolve_hint(content, hint)}"


def _resolve_hint(content: bytes, hint: str) -> str:
    """Return the name of the metadata file for a hint: its number, or its name with or without the suffix."""
    text = content.decode("utf-8").strip()
    if not text or "/" in text or "\0" in text:
        raise ParquetBloomError(f"it names {text[:100]!r}, which is not a file in its folder", path=hint)
    if text.endswith(METADATA_SUFFIX):
        return text
    return f"v{text}{METADATA_SUFFIX}" if text.isnumeric() else f"{text}{METADATA_SUFFIX}"


def _list_names(io: Any, folder: str) -> list[str]:
    """Return the names of the files in a folder."""
    if hasattr(io, "fs_by_scheme"):  # pyiceberg's FileIO over pyarrow
        from pyarrow.fs import FileSelector

        scheme, place, path = io.parse_location(folder, io.properties)
        entries = io.fs_by_scheme(scheme, place).get_file_info(FileSelector(path))
        return [entry.base_name for entry in entries if entry.is_file]
    if hasattr(io, "get_fs"):  # over fsspec
        scheme = folder.partition("://")[0] if "://" in folder else "file"
        return [os.path.basename(str(path)) for path in io.get_fs(scheme).ls(folder, detail=False)]
    raise StorageError("it has no metadata/version-hint.text: give the path of its latest metadata file", path=folder)


def _choose_latest(names: Sequence[str], table: str) -> str:
    """Return the metadata file with the highest number."""
    numbers = {name: int(match[1] or match[2]) for name in names if (match := _NUMBERED.fullmatch(name))}
    if not numbers:
        problem = "cannot read the Iceberg table: it has no metadata/version-hint.text and no metadata files"
        raise StorageError(problem, path=table)
    highest = max(numbers.values())
    latest = sorted(name for name, number in numbers.items() if number == highest)
    if len(latest) > 1:
        problem = f"nothing says which of its metadata files is the latest, {latest[0]} or {latest[1]}"
        raise ParquetBloomError(f"{problem}: give the path of one, or the catalog and the table's name", path=table)
    return latest[0]
