"""The matrix for ORC: each field of postscript, footer, stripe footer, row index and filters, wrong in every way.

Left out are other numbers in a column's statistics and other bits in a filter: what is wrong but fits cannot be seen by
any reader.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as pa_orc

from support.malformed.malformed_fields import Case
from support.writers.orc_files import Field, Parts, fields_of, message_of, varint, with_fields

ROWS, STRIDE = 100, 20
Message = list[Field]
Way = Callable[[Message, int], Message]
ROW_INDEX, FILTERS = 6, 8


def good_table() -> pa.Table:
    rng = random.Random(3)
    keys = [-(2**40), 2**40] + [rng.randint(-(2**39), 2**39) for _ in range(ROWS - 2)]
    return pa.table({"key": keys, "other": [f"{key:x}" for key in keys], "row": range(ROWS)})


def good_file(path: Path) -> Path:
    pa_orc.write_table(
        good_table(),
        path,
        row_index_stride=STRIDE,
        bloom_filter_columns=[1, 2],
        bloom_filter_fpp=0.01,
        compression="uncompressed",
    )
    return path


def needles() -> Iterator[tuple[str, int]]:
    table = good_table()
    for column, row in (("key", 5), ("key", 35), ("other", 35), ("key", 99), ("row", 99)):
        yield f"{column} = {table[column][row].as_py()!r}", row


class Patient:
    """A file taken apart into its messages, by name."""

    def __init__(self, path: Path):
        data = path.read_bytes()
        parts = Parts(data)
        (stripe,) = [value for number, _, value in fields_of(parts.footer) if number == 3]
        assert isinstance(stripe, bytes)
        fields = {number: value for number, _, value in fields_of(stripe)}
        self.start = int(fields.get(1, 0))
        index, end = int(fields[2]), self.start + int(fields[2]) + int(fields[3])
        footer = parts.before[end : end + int(fields[4])]
        self.messages = {"postscript": parts.postscript, "footer": parts.footer, "stripe footer": footer}
        self.messages["metadata"] = parts.before[end + int(fields[4]) :]
        self.head, self.data = parts.before[: self.start], parts.before[self.start + index : end]
        self.streams: list[str] = []
        location = self.start
        for number, _, value in fields_of(footer):
            if number == 1 and location < self.start + index:
                stream = {each: what for each, _, what in fields_of(value)}
                name = f"stream {stream.get(1, 0)} of column {stream.get(2, 0)}"
                self.messages[name] = parts.before[location : location + int(stream[3])]
                location += int(stream[3])
                self.streams.append(name)

    def save(self, path: Path, changed: str) -> Path:
        """The file with its messages; lengths are right, but for those in the message that was changed."""
        results, footer, tail = (self.messages[name] for name in ("stripe footer", "footer", "postscript"))
        index = b"".join(self.messages[name] for name in self.streams)
        if changed in self.streams:
            lengths = iter([len(self.messages[name]) for name in self.streams])
            results = message_of(
                (n, w, with_fields(v, {3: length}) if n == 1 and (length := next(lengths, -1)) >= 0 else v)
                for n, w, v in fields_of(results)
            )
        if changed in ("stripe footer", *self.streams):
            sizes = {2: len(index), 4: len(results)}
            footer = message_of((n, w, with_fields(v, sizes) if n == 3 else v) for n, w, v in fields_of(footer))
        if changed != "postscript":
            tail = with_fields(tail, {1: len(footer), 5: len(self.messages["metadata"])})
        body = self.head + index + self.data + results + self.messages["metadata"] + footer
        path.write_bytes(body + tail + bytes([len(tail) & 255]))
        return path


def _value(wire: int, value: int | bytes) -> Way:
    return lambda message, number: [
        (n, wire, value) if at == _first(message, number) else (n, w, v) for at, (n, w, v) in enumerate(message)
    ]


def _first(message: Message, number: int) -> int:
    return next(at for at, field in enumerate(message) if field[0] == number)


def _by(change: Callable[[int | bytes], int | bytes]) -> Way:
    def apply(message: Message, number: int) -> Message:
        _, wire, old = message[_first(message, number)]
        return _value(wire, change(old))(message, number)

    return apply


def _twice(change: Callable[[int | bytes], int | bytes]) -> Way:
    def apply(message: Message, number: int) -> Message:
        _, wire, old = message[_first(message, number)]
        return [*message, (number, wire, change(old))]

    return apply


STRUCTURAL: dict[str, Way] = {
    "missing": lambda message, number: [f for at, f in enumerate(message) if at != _first(message, number)],
    "as-number": _value(0, 77),
    "as-bytes": _value(2, b"abc"),
    "as-64-bits": _value(1, b"\x01" * 8),
    "as-32-bits": _value(5, b"\x01" * 4),
    "as-group": _value(3, b""),
    "as-wire-type-7": _value(7, b""),
    # Its tag is that of bytes, and what follows is their length, which is more than there is.
    "says-2^31": lambda message, number: [*message[: _first(message, number)], (0, number << 3 | 2, varint(1 << 31))],
    "cut-off": _value(1, b"\x01"),
}
NUMBER: dict[str, Way] = {
    "zero": _by(lambda old: 0),
    "one-less": _by(lambda old: int(old) - 1),
    "one-more": _by(lambda old: int(old) + 1),
    "2^31": _by(lambda old: 1 << 31),
    "2^63": _by(lambda old: 1 << 63),
    "2^64-1": _by(lambda old: (1 << 64) - 1),
    "twice-and-other": _twice(lambda old: int(old) + 3),
}
BYTES: dict[str, Way] = {
    "empty": _by(lambda old: b""),
    "cut": _by(lambda old: bytes(old)[:-1]),
    "longer": _by(lambda old: bytes(old) + b"\x00"),
    "unknown-field-in-it": _by(lambda old: bytes(old) + message_of([(999, 2, b"from the future")])),
    "deep-in-it": _by(lambda old: bytes(old) + b"\x7b" * 5_000),
    "a-megabyte": _by(lambda old: b"\x08\x01" * (1 << 19)),
    "twice-and-empty": _twice(lambda old: b""),
}
BELIEVED = {*NUMBER, "a-megabyte", "deep-in-it", "as-number"}


@dataclass(frozen=True)
class DamageTarget:
    """A message in the file, the way down in it, and whether its numbers are such as nobody can check."""

    area: str
    message: str
    way_down: tuple[tuple[int, int], ...] = ()
    believed: bool = False


def list_targets(patient: Patient) -> list[DamageTarget]:
    result = [DamageTarget(name, name) for name in ("postscript", "footer", "stripe footer", "metadata")]
    result += [
        DamageTarget("stripe", "footer", ((3, 0),)),
        DamageTarget("root type", "footer", ((4, 0),)),
        DamageTarget("leaf type", "footer", ((4, 1),)),
        DamageTarget("stream", "stripe footer", ((1, 0),)),
        DamageTarget("encoding", "stripe footer", ((2, 1),)),
        DamageTarget("stripe statistics", "metadata", ((1, 0),)),
        DamageTarget("column statistics", "metadata", ((1, 0), (1, 1)), True),
    ]
    for column in (1, 2):
        index, filters = (f"stream {kind} of column {column}" for kind in (ROW_INDEX, FILTERS))
        assert index in patient.messages
        assert filters in patient.messages
        result += [
            DamageTarget("row index", index),
            DamageTarget("row index entry", index, ((1, 1),)),
            DamageTarget("row index statistics", index, ((1, 1), (2, 0)), True),
            DamageTarget("filters", filters),
            DamageTarget("filter", filters, ((1, 1),), True),
        ]
    return result


def cases(good: Path) -> list[Case]:
    return [case for case, _ in _all(Patient(good))]


def _all(patient: Patient) -> list[tuple[Case, Callable[[Patient], None]]]:
    results = []
    for location in list_targets(patient):
        message = fields_of(_at(patient.messages[location.message], location.way_down))
        for number in dict.fromkeys(field[0] for field in message):
            wire = next(w for n, w, _ in message if n == number)
            for name, way in {**STRUCTURAL, **(NUMBER if wire == 0 else BYTES if wire == 2 else {})}.items():
                if not (location.believed and name in BELIEVED):
                    case = Case(location.area, f"{location.message} {number}", name)
                    results.append((case, _application(location, number, way)))
    return results


def _application(location: DamageTarget, number: int, way: Way) -> Callable[[Patient], None]:
    def apply(patient: Patient) -> None:
        complete = patient.messages[location.message]
        patient.messages[location.message] = _changed(complete, location.way_down, lambda fields: way(fields, number))

    return apply


def _at(message: bytes, way_down: tuple[tuple[int, int], ...]) -> bytes:
    for number, which in way_down:
        inner = [value for n, _, value in fields_of(message) if n == number][which]
        assert isinstance(inner, bytes)
        message = inner
    return message


def _changed(message: bytes, way_down: tuple[tuple[int, int], ...], change: Callable[[Message], Message]) -> bytes:
    fields = fields_of(message)
    if not way_down:
        return message_of(change(fields))
    (number, which), *rest = way_down
    at = [position for position, field in enumerate(fields) if field[0] == number][which]
    inner = fields[at][2]
    assert isinstance(inner, bytes)
    fields[at] = (number, 2, _changed(inner, tuple(rest), change))
    return message_of(fields)


def write(case: Case, good: Path, path: Path) -> Path:
    """The file of a case."""
    patient = Patient(good)
    (apply,) = [apply for each, apply in _all(patient) if each == case]
    apply(patient)
    return patient.save(
        path.with_suffix(".orc"), next(name for name in patient.messages if str(case.field).startswith(name))
    )
