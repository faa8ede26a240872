"""Open an Iceberg table by one of its metadata files, without a catalog.

pyiceberg's `StaticTable.from_metadata` creates its file IO from the properties in the table's metadata, and one of
those (`py-io-impl`) names any callable of any module, which is then imported and called: anyone who can write a
metadata file could run arbitrary code. Here only the caller's properties are used.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import Any, NamedTuple

_GZIP_MAGIC = b"\x1f\x8b"
_FORMAT_VERSIONS = (1, 2, 3)


class OpenedTable(NamedTuple):
    """A table, pyiceberg's, and the content of its metadata file."""

    table: Any
    content: bytes


class CutShortError(Exception):
    """A metadata file is empty or ends too early: its writer died, or has not finished yet."""


class NotUnderstoodError(Exception):
    """A metadata file is whole, and not of a table of a format version that is known."""


def open_metadata_file(path: str, properties: Mapping[str, Any], known: OpenedTable | None = None) -> OpenedTable:
    """Return the table of a metadata file.

    Parameters
    ----------
    path : the file, compressed by gzip or not, whatever its name says.
    properties : pyiceberg's settings of the store.
    known : the table as it was opened before, which is returned again if its metadata file is the same, byte by byte.

    Raises
    ------
    CutShortError
        The file is not a whole JSON document.
    NotUnderstoodError
        It is not a table's metadata of a known version.
    FileNotFoundError
        There is no such file.
    Exception
        Of many kinds, from pyiceberg: the file cannot be read, or is not a metadata file.
    """
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import FromByteStream
    from pyiceberg.table import StaticTable

    io = known.table.io if known is not None else load_file_io(dict(properties), location=path)
    with io.new_input(path).open() as stream:
        content = bytes(stream.read())
    if known is not None and known.table.metadata_location == path and known.content == content:
        return known
    metadata = FromByteStream.table_metadata(BytesIO(_unpack(content)))
    table = StaticTable(("static-table", path), metadata, path, io, NoopCatalog("static-table"))
    return OpenedTable(table, content)


def _unpack(content: bytes) -> bytes:
    """Return the JSON document in a file's content, uncompressed; raise unless it is whole and of a known version.

    No beginning of a JSON object is one itself.
    """
    if not content:
        raise CutShortError("it is empty")
    text = content
    if content.startswith(_GZIP_MAGIC):
        try:
            text = zlib.decompress(content, wbits=31)
        except zlib.error as error:
            raise CutShortError(f"it is cut short or damaged: {error}") from None
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CutShortError(f"it is cut short or damaged: {error}") from None
    version = document.get("format-version") if isinstance(document, dict) else None
    if version not in _FORMAT_VERSIONS:
        problem = "is not a table's metadata" if version is None else f"is of format version {version!r}"
        raise NotUnderstoodError(f"it {problem}; versions 1 to 3 are read")
    return text
