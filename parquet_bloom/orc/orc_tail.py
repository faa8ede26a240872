"""The footers of an ORC file, of the file and of its stripes: where row groups and their streams are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import EncryptedFileError, MalformedOrcError, NotOrcError, ParquetBloomError
from ..metadata.protobuf import BOOL, BYTES, DOUBLE, MESSAGE, SINT, SPAN, UINT, read_message
from ..storage import Source
from .orc_compression import MAX_FOOTER_BYTES, NAMES, Compression

Fields: TypeAlias = "dict[int, tuple[str, int, bool, Fields | None]]"

Message = dict[str, Any]
"""A message that `read_message` has read, by the names of its fields; the type of each is in `Fields`."""


def _single(name: str, kind: int, inner: Fields | None = None) -> tuple[str, int, bool, Fields | None]:
    return name, kind, False, inner


def _repeated(name: str, kind: int, inner: Fields | None = None) -> tuple[str, int, bool, Fields | None]:
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
    footer : the footer's fields, by the names of `FOOTER`.
    compression : compression of everything but the postscript.
    metadata_start, metadata_length : location of the statistics of the stripes.
    writer, software_version, writer_version, calendar : see `OrcFile`.
    """

    footer: Message
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


def _read_postscript(source: Source, end: bytes) -> Message:
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


def _has_magic(source: Source, postscript: Message, size: int) -> bool:
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


ROW_INDEX, BLOOM_FILTER, BLOOM_FILTER_UTF8 = 6, 7, 8
"""Kinds of streams."""

PRESENT, DATA, LENGTH, DICTIONARY_DATA = range(4)
"""Kinds of streams with values."""

_INDEX_KINDS, _DATA_KINDS = (ROW_INDEX, BLOOM_FILTER, BLOOM_FILTER_UTF8), (0, 1, 2, 3, 5)
FILTER_KINDS = {BLOOM_FILTER: "BLOOM_FILTER", BLOOM_FILTER_UTF8: "BLOOM_FILTER_UTF8"}

_MAX_ROW_GROUPS = 1 << 22
_MAX_ROW_GROUPS_PER_BYTE = 1 << 12  # of a stripe, per byte of its indexes at the best compression
_MAX_ROWS = 1 << 62


@dataclass(frozen=True)
class Stripe:
    """One stripe, in bytes of the file and rows; `first_row` is counted in the file."""

    number: int
    offset: int
    index_length: int
    data_length: int
    footer_length: int
    num_rows: int
    first_row: int


@dataclass(frozen=True)
class OrcRowGroup:
    """One row group. `number` is counted through the file, `row_group` within the stripe, `first_row` in the file."""

    number: int
    stripe: int
    row_group: int
    first_row: int
    num_rows: int


def read_stripes(footer: Message, end: int) -> list[Stripe]:
    """Return the stripes listed in a file's footer.

    Parameters
    ----------
    end : offset of the metadata after the stripes.

    Raises
    ------
    MalformedOrcError
        Their offsets or numbers of rows are invalid.
    """
    stripes: list[Stripe] = []
    first_row = before = 0
    for number, message in enumerate(footer.get("stripes", [])):
        fields = {name: message.get(name, 0) for name, *_ in STRIPE.values()}
        stripe = Stripe(number=number, first_row=first_row, **fields)
        if stripe.offset + stripe.index_length + stripe.data_length + stripe.footer_length > end:
            raise MalformedOrcError(f"stripe {number} extends beyond byte {end}, where the stripes end")
        if stripe.offset < before:  # else one stripe could be decompressed any number of times
            raise MalformedOrcError(f"stripe {number} begins at byte {stripe.offset}, inside another one")
        before = stripe.offset + stripe.index_length + stripe.data_length + stripe.footer_length
        stripes.append(stripe)
        first_row += stripe.num_rows
    if first_row != footer.get("num_rows", 0) or first_row > _MAX_ROWS:
        raise MalformedOrcError(f"the stripes have {first_row} rows, the file {footer.get('num_rows', 0)}")
    return stripes


def count_row_groups(stripe: Stripe, stride: int) -> int:
    """Return the number of row groups of a stripe: one if it has no row index, none if it has no rows."""
    if not stripe.num_rows:
        return 0
    return -(-stripe.num_rows // stride) if stride and stripe.index_length else 1


def list_row_groups(stripes: list[Stripe], stride: int) -> list[OrcRowGroup]:
    """Return all row groups of a file.

    Raises
    ------
    MalformedOrcError
        There are too many.
    """
    if sum(count_row_groups(stripe, stride) for stripe in stripes) > _MAX_ROW_GROUPS:
        raise MalformedOrcError(f"files of more than {_MAX_ROW_GROUPS} row groups are not supported")
    for stripe in stripes:
        if (count := count_row_groups(stripe, stride)) > 1 and count > _MAX_ROW_GROUPS_PER_BYTE * stripe.index_length:
            raise MalformedOrcError(f"stripe {stripe.number} has {stripe.index_length} bytes for {count} row groups")
    row_groups: list[OrcRowGroup] = []
    for stripe in stripes:
        count = count_row_groups(stripe, stride)
        for row_group in range(count):
            first = row_group * stride
            num_rows = stripe.num_rows if count == 1 else min(stride, stripe.num_rows - first)
            row_groups.append(
                OrcRowGroup(len(row_groups), stripe.number, row_group, stripe.first_row + first, num_rows)
            )
    return row_groups


@dataclass(frozen=True)
class StripeFooter:
    """Locations and encodings of the streams of a stripe.

    Attributes
    ----------
    streams : (kind, column id) -> offset in the file and length, of row indexes and filters.
    bloom_encodings : column id -> encoding of its filters; 0 if not recorded.
    timezone : time zone of the writer; "" if not recorded.
    data_streams : column id -> kinds of its other streams.
    value_streams : (kind, column id) -> offset in the file and length, of PRESENT, DATA, LENGTH and DICTIONARY_DATA.
    column_encodings : column id -> encoding of its values.
    """

    streams: dict[tuple[int, int], tuple[int, int]]
    bloom_encodings: dict[int, int]
    timezone: str
    data_streams: dict[int, set[int]]
    value_streams: dict[tuple[int, int], tuple[int, int]]
    column_encodings: dict[int, int]


def read_stripe_footer(data: bytes, stripe: Stripe) -> StripeFooter:
    """Parse the footer of a stripe from its decompressed bytes.

    Raises
    ------
    EncryptedFileError, MalformedOrcError
    """
    message = read_message(data, STRIPE_FOOTER)
    if "encryption" in message:
        raise EncryptedFileError(f"columns of stripe {stripe.number} are encrypted, which is not read")
    streams: dict[tuple[int, int], tuple[int, int]] = {}
    data_streams: dict[int, set[int]] = {}
    value_streams: dict[tuple[int, int], tuple[int, int]] = {}
    first_data = stripe.offset + stripe.index_length
    offset, end = stripe.offset, first_data + stripe.data_length
    for stream in message.get("streams", []):
        length, key = stream.get("length", 0), (stream.get("kind", 0), stream.get("column", 0))
        if key[0] >> 31 or key[1] >> 32:  # a reader with 32-bit numbers would take it for another stream
            raise MalformedOrcError(f"stripe {stripe.number} has a stream {key[0]} of column {key[1]}")
        if length > end - offset:
            raise MalformedOrcError(f"the streams of stripe {stripe.number} are longer than the stripe")
        inside = offset + length <= first_data if key[0] in _INDEX_KINDS else offset >= first_data
        if not inside and key[0] in (*_INDEX_KINDS, *_DATA_KINDS):
            raise MalformedOrcError(f"stripe {stripe.number} has a stream {key[0]} outside of the section for its kind")
        locations = (
            streams
            if key[0] in _INDEX_KINDS
            else value_streams
            if key[0] in (PRESENT, DATA, LENGTH, DICTIONARY_DATA)
            else None
        )
        if locations is not None:
            if key in locations:
                raise MalformedOrcError(f"stripe {stripe.number} has two streams {key[0]} of column {key[1]}")
            locations[key] = offset, length
        if length and locations is not streams:
            data_streams.setdefault(key[1], set()).add(key[0])
        offset += length
    if offset != end:
        raise MalformedOrcError(
            f"the streams of stripe {stripe.number} are {end - offset} bytes shorter than the stripe"
        )
    encodings = {i: column.get("bloom_encoding", 0) for i, column in enumerate(message.get("encodings", []))}
    column_encodings = {i: column.get("kind", 0) for i, column in enumerate(message.get("encodings", []))}
    timezone = message.get("timezone", b"").decode("utf-8", "replace")
    return StripeFooter(streams, encodings, timezone, data_streams, value_streams, column_encodings)
