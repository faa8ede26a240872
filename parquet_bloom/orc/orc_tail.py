"""The end of an ORC file: postscript and footer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import EncryptedFileError, MalformedOrcError, NotOrcError, ParquetBloomError
from ..metadata.protobuf import BOOL, BYTES, DOUBLE, MESSAGE, SINT, SPAN, UINT, read_message
from ..storage import Source
from .orc_compression import MAX_FOOTER_BYTES, NAMES, Compression

Fields = dict[int, tuple[str, int, bool, Any]]


def _single(name: str, kind: int, inner: Fields | None = None) -> tuple[str, int, bool, Any]:
    return name, kind, False, inner


def _repeated(name: str, kind: int, inner: Fields | None = None) -> tuple[str, int, bool, Any]:
    return name, kind, True, inner


POSTSCRIPT: Fields = {
    1: _single("footer_length", UINT),
    2: _single("compression", UINT),
    3: _single("block_size", UINT),
    5: _single("metadata_length", UINT),
    6: _single("writer_version", UINT),
    8000: _single("magic", BYTES),
}

STRIPE: Fields = {
    1: _single("offset", UINT),
    2: _single("index_length", UINT),
    3: _single("data_length", UINT),
    4: _single("footer_length", UINT),
    5: _single("num_rows", UINT),
}

TYPE: Fields = {
    1: _single("kind", UINT),
    2: _repeated("children", UINT),
    3: _repeated("names", BYTES),
    4: _single("length", UINT),
    5: _single("precision", UINT),
    6: _single("scale", UINT),
    7: _repeated("attributes", MESSAGE, {1: _single("key", BYTES), 2: _single("value", BYTES)}),
}

FOOTER: Fields = {
    3: _repeated("stripes", MESSAGE, STRIPE),
    4: _repeated("types", MESSAGE, TYPE),
    6: _single("num_rows", UINT),
    8: _single("row_index_stride", UINT),
    9: _single("writer", UINT),
    10: _single("encryption", SPAN),
    11: _single("calendar", UINT),
    12: _single("software_version", BYTES),
}

STRIPE_FOOTER: Fields = {
    1: _repeated(
        "streams", MESSAGE, {1: _single("kind", UINT), 2: _single("column", UINT), 3: _single("length", UINT)}
    ),
    2: _repeated("encodings", MESSAGE, {1: _single("kind", UINT), 3: _single("bloom_encoding", UINT)}),
    3: _single("timezone", BYTES),
    4: _repeated("encryption", SPAN),
}

COLUMN_STATISTICS: Fields = {
    1: _single("num_values", UINT),
    2: _single("integers", MESSAGE, {1: _single("low", SINT), 2: _single("high", SINT)}),
    3: _single("doubles", MESSAGE, {1: _single("low", DOUBLE), 2: _single("high", DOUBLE), 3: _single("sum", DOUBLE)}),
    4: _single(
        "strings",
        MESSAGE,
        {1: _single("low", BYTES), 2: _single("high", BYTES), 4: _single("lower", BYTES), 5: _single("upper", BYTES)},
    ),
    5: _single("buckets", MESSAGE, {1: _repeated("counts", UINT)}),
    6: _single("decimals", MESSAGE, {1: _single("low", BYTES), 2: _single("high", BYTES)}),
    7: _single("dates", MESSAGE, {1: _single("low", SINT), 2: _single("high", SINT)}),
    # Not read: 1 and 2, in the writer's zone, and 5 and 6, digits below milliseconds.
    9: _single("timestamps", MESSAGE, {3: _single("low", SINT), 4: _single("high", SINT)}),
    10: _single("has_null", BOOL),
}

# Numbers of repeated fields that are read one by one.
METADATA_STRIPE, STRIPE_COLUMN = 1, 1
INDEX_ENTRY, ENTRY_STATISTICS = 1, 2
FILTER_ENTRY = 1


MAGIC = b"ORC"

MAX_BLOCK_BYTES = 1 << 23
"""A chunk's header has 23 bits for its length, so that larger blocks have no use."""

WRITERS = {0: "java", 1: "c++", 2: "presto", 3: "go", 4: "trino", 5: "cudf"}
CALENDARS = {1: "hybrid", 2: "proleptic"}


@dataclass(frozen=True)
class OrcTail:
    """The tail of an ORC file.

    Attributes
    ----------
    footer : the footer's fields, by the names of `messages.FOOTER`.
    compression : compression of everything but the postscript.
    metadata_start, metadata_length : location of the statistics of the stripes.
    writer, software_version, writer_version, calendar : see `OrcFile`.
    """

    footer: dict[str, Any]
    compression: Compression
    metadata_start: int
    metadata_length: int
    writer: str
    software_version: str | None
    writer_version: int
    calendar: str | None


def is_orc(source: Source) -> bool:
    """Return whether a file ends like an ORC file. Takes one or two small reads, and never raises for invalid files."""
    try:
        length = min(source.size, 256)
        _read_postscript(source, source.read_at(source.size - length, length))
    except ParquetBloomError:
        return False
    return True


def _read_postscript(source: Source, end: bytes) -> dict[str, Any]:
    """Read the postscript, given the last bytes of the file.

    Presto's writer, and Hive's before 0.12, leave out its magic; as other readers do, they are recognised by the magic
    that their files begin with.
    """
    if len(end) < 1 + len(MAGIC):
        raise NotOrcError(f"not an ORC file: {len(end)} bytes are too few")
    length, postscript = end[-1], None
    if length < len(end):
        with suppress(MalformedOrcError):
            postscript = read_message(end, POSTSCRIPT, len(end) - 1 - length, len(end) - 1)
    if postscript is None or not _has_magic(source, postscript, source.size - length - 1):
        raise NotOrcError("not an ORC file, or one cut off: it does not end in ORC's postscript")
    return postscript


def _has_magic(source: Source, postscript: dict[str, Any], size: int) -> bool:
    """Return whether a postscript has its magic, or describes a footer within `size` bytes that begin with it."""
    if "magic" in postscript:
        return bool(postscript["magic"] == MAGIC)
    # Any bytes may parse as a message: without a footer of a possible length they are not a postscript.
    described = postscript.get("footer_length", 0) + postscript.get("metadata_length", 0)
    is_plausible = postscript.get("footer_length", 0) > 0 and described <= size - len(MAGIC)
    known = postscript.get("compression", 0) < len(NAMES)
    return bool(is_plausible and known and source.read_at(0, len(MAGIC)) == MAGIC)


def read_tail(source: Source) -> OrcTail:
    """Read the tail of an opened file.

    Raises
    ------
    NotOrcError, EncryptedFileError, TruncatedFileError, MalformedOrcError
    ParquetBloomError
        The codec of the footer needs a library that is not installed.
    """
    length = min(source.size, max(256, source.first_read))
    tail = source.read_at(source.size - length, length)
    postscript = _read_postscript(source, tail[-256:])
    size = source.size - tail[-1] - 1
    footer_length, metadata_length = postscript.get("footer_length", 0), postscript.get("metadata_length", 0)
    if footer_length + metadata_length > size:
        raise MalformedOrcError(
            f"the postscript states {footer_length + metadata_length} bytes of metadata, but {size} are before it"
        )
    number, block_size = postscript.get("compression", 0), postscript.get("block_size", 1 << 18)
    if number >= len(NAMES):
        raise MalformedOrcError(f"unknown compression {number}")
    if number and not 0 < block_size <= MAX_BLOCK_BYTES:
        raise MalformedOrcError(f"chunks of {block_size} bytes are not supported")
    compression = Compression(NAMES[number], block_size)
    start = size - footer_length
    inside = start - (source.size - length)
    missing = b"" if inside >= 0 else source.read_at(start, -inside)
    packed = missing + tail[max(0, inside) : len(tail) - tail[-1] - 1]
    footer = read_message(compression.plain(packed, MAX_FOOTER_BYTES), FOOTER)
    if "encryption" in footer:
        raise EncryptedFileError("columns of the file are encrypted, which is not read")
    writer = footer.get("writer", 0)
    version = footer.get("software_version")
    if inside > 0:
        source.keep(source.size - length, tail)
    return OrcTail(
        footer,
        compression,
        start - metadata_length,
        metadata_length,
        WRITERS.get(writer, f"unknown {writer}"),
        None if version is None else version.decode("utf-8", "replace"),
        postscript.get("writer_version", 0),
        CALENDARS.get(footer.get("calendar", 0)),
    )
