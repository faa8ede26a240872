"""Stripes of an ORC file: their row groups and the locations of their streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import EncryptedFileError, MalformedOrcError
from ..metadata.protobuf import read_message
from .orc_tail import STRIPE, STRIPE_FOOTER

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


def read_stripes(footer: Mapping[str, Any], end: int) -> list[Stripe]:
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
