"""ORC files for tests: written by real writers, and taken apart and put together again with other words in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

Field = tuple[int, int, int | bytes]  # number, wire type, value

ROOT = Path(__file__).resolve().parents[3]


def varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= (1 << 64) - 1
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(data) + bytes([value])


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[start]
        start += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, start


def fields_of(message: bytes) -> list[Field]:
    """The fields of a message, in their order."""
    results: list[Field] = []
    start = 0
    while start < len(message):
        tag, start = read_varint(message, start)
        wire = tag & 7
        if wire == 0:
            value, start = read_varint(message, start)
            results.append((tag >> 3, wire, value))
            continue
        length = {1: 8, 5: 4}.get(wire)
        if length is None:
            length, start = read_varint(message, start)
        results.append((tag >> 3, wire, message[start : start + length]))
        start += length
    return results


def message_of(fields: Iterable[Field]) -> bytes:
    """A message of these fields."""
    data = b""
    for number, wire, value in fields:
        data += varint(number << 3 | wire)
        if isinstance(value, int):
            data += varint(value)
        else:
            data += (varint(len(value)) if wire == 2 else b"") + value
    return data


def with_fields(message: bytes, changes: dict[int, int | bytes | None]) -> bytes:
    """A message with other values in some fields, which had one at most; None takes a field out."""
    retained = [field for field in fields_of(message) if field[0] not in changes]
    new = [
        (number, 0 if isinstance(value, int) else 2, value) for number, value in changes.items() if value is not None
    ]
    return message_of(sorted([*retained, *new], key=lambda field: field[0]))


def original(plain: bytes, compressed: bool) -> bytes:
    """Bytes as a stream: in one chunk that is kept as it was, where streams have chunks."""
    return (len(plain) << 1 | 1).to_bytes(3, "little") + plain if compressed else plain


class Parts:
    """An ORC file taken apart: stripes and metadata as they are, footer and postscript as plain messages.

    Only files whose streams are not compressed, or whose footer `plain` unpacks, can be taken apart.
    """

    def __init__(self, data: bytes, plain: Callable[[bytes], bytes] = bytes):
        length = data[-1]
        self.postscript = data[-1 - length : -1]
        fields = {number: value for number, _, value in fields_of(self.postscript)}
        self.compressed = fields.get(2, 0) != 0
        end = len(data) - 1 - length
        self.before = data[: end - fields[1]]
        self.metadata_length = fields.get(5, 0)
        self.footer = plain(data[end - fields[1] : end])

    def together(self, footer: bytes | None = None, postscript: dict[int, int | bytes | None] | None = None) -> bytes:
        stream = original(self.footer if footer is None else footer, self.compressed)
        tail = with_fields(self.postscript, {1: len(stream), **(postscript or {})})
        return self.before + stream + tail + bytes([len(tail)])


def patched(
    path: Path,
    target: Path,
    footer: dict[int, int | bytes | None] | None = None,
    postscript: dict[int, int | bytes | None] | None = None,
) -> Path:
    """A copy of an uncompressed ORC file with other fields in its footer and its postscript."""
    parts = Parts(path.read_bytes())
    target.write_bytes(parts.together(with_fields(parts.footer, footer or {}), postscript))
    return target


def with_stripe_footer(path: Path, target: Path, change: Callable[[bytes], bytes]) -> Path:
    """A copy of an uncompressed file of one stripe, whose stripe footer is what `change` makes of it."""
    parts = Parts(path.read_bytes())
    stripes = [value for number, _, value in fields_of(parts.footer) if number == 3]
    assert len(stripes) == 1
    fields = {number: value for number, _, value in fields_of(stripes[0])}
    start = fields.get(1, 0) + fields.get(2, 0) + fields.get(3, 0)
    end = start + fields[4]
    new = change(parts.before[start:end])
    parts.before = parts.before[:start] + new + parts.before[end:]
    stripe = with_fields(stripes[0], {4: len(new)})
    footer = message_of((n, w, stripe if n == 3 else v) for n, w, v in fields_of(parts.footer))
    target.write_bytes(parts.together(footer))
    return target
