"""Ways in which a field of a Thrift structure is wrong, and the structures that are written so.

A way is given the structure and the number of a field in it, and changes the structure in place. `Doubled` lets a
field stand twice; `oracle.Encoded` lets a value be bytes that no writer makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from support.oracle.oracle import (
    BINARY,
    BOOL,
    DOUBLE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    Encoded,
    Many,
    Pairs,
    Struct,
    varint,
    write_struct,
)

Way = Callable[[Struct, int], None]

NUMBERS = {
    "zero": lambda old: 0,
    "minus-one": lambda old: -1,
    "negative": lambda old: -(1 << 30) - 7,
    "one-less": lambda old: old - 1,
    "one-more": lambda old: old + 1,
    "2^31-1": lambda old: (1 << 31) - 1,
    "2^31": lambda old: 1 << 31,
    "2^63-1": lambda old: (1 << 63) - 1,
    "-2^63": lambda old: -(1 << 63),
}
DEEP = 100_000  # levels: a reader that recurses without a bound dies of it
UNKNOWN = 1000  # a field that no structure has


class Doubled(Struct):
    """A structure with one field repeated at the end."""

    again: tuple[int, tuple[str, Any]]

    def items(self) -> Iterator[tuple[int, tuple[str, Any]]]:  # type: ignore[override]
        yield from super().items()
        yield self.again


def _set(value: Callable[[Any], Any]) -> Way:
    """The field with another value of its own type."""

    def change(struct: Struct, number: int) -> None:
        type_name, old = struct[number]
        struct[number] = (type_name, value(old))

    return change


def _typed(type_name: str, value: Any) -> Way:
    """The field with a value of another type."""

    def change(struct: Struct, number: int) -> None:
        struct[number] = (type_name, value)

    return change


def missing(struct: Struct, number: int) -> None:
    del struct[number]


def _twice(value: Callable[[Any], Any]) -> Way:
    """The field, and once more after all others, as the caller says; a changed class shows it to the writer."""

    def change(struct: Struct, number: int) -> None:
        type_name, old = struct[number]
        struct.__class__ = Doubled
        struct.again = (number, (type_name, value(old)))  # type: ignore[attr-defined]

    return change


def with_unknown(type_name: str, value: Any) -> Callable[[Struct], None]:
    return lambda struct: struct.set(UNKNOWN, type_name, value)


WRONG_TYPES: dict[str, Way] = {
    "as-binary": _typed(BINARY, b"\x05abc"),
    "as-bool": _typed(BOOL, True),
    "as-double": _typed(DOUBLE, 2.5),
    "as-struct": _typed(STRUCT, Struct({1: (I64, 5)})),
    "as-list": _typed(LIST, Many(I64, [1, 2, 3])),
    "as-set": _typed(SET, Many(BINARY, [b"x"])),
    "as-map": _typed(MAP, Pairs(I32, BINARY, [(1, b"x")])),
    "as-byte": _typed(I8, 3),
    "as-i16": _typed(I16, 3),
    "as-i64": _typed(I64, 3),
    "as-type-14": _typed("no type", Encoded(b"\x01")),
}
ALL: dict[str, Way] = {"missing": missing, **WRONG_TYPES}
INTEGER: dict[str, Way] = {
    **ALL,
    **{name: _set(value) for name, value in NUMBERS.items()},
    "twice-the-same": _twice(lambda old: old),
    "twice-and-other": _twice(lambda old: old + 9),
    "twice-and-zero": _twice(lambda old: 0),
    "eleven-bytes": _set(lambda old: Encoded(b"\xff" * 10 + b"\x01")),
}
TEXT: dict[str, Way] = {
    **ALL,
    "empty": _set(lambda old: b""),
    "cut": _set(lambda old: old[:-1]),
    "longer": _set(lambda old: old + b"\x00"),
    "not-text": _set(lambda old: b"\xff\xfe\x00\n\x1b[31m"),
    "a-megabyte": _set(lambda old: b"x" * (1 << 20)),
    "says-2^31": _set(lambda old: Encoded(varint(1 << 31) + old)),
    "says-2^63": _set(lambda old: Encoded(varint((1 << 63) - 1) + old)),
    "twice-and-other": _twice(lambda old: old[::-1] + b"!"),
}
FLAG: dict[str, Way] = {**ALL, "other": _set(lambda old: not old), "twice-and-other": _twice(lambda old: not old)}


def _counted(count: int) -> Way:
    """A list that says how many elements it has, and has those that it had."""

    def change(struct: Struct, number: int) -> None:
        type_name, old = struct[number]
        code = 1 if old.type == BOOL else {I32: 5, I64: 6, BINARY: 8, STRUCT: 12}[old.type]
        complete = Struct({1: (LIST, Many(old.type, old.items, True))})
        encoded = write_struct(complete)[1:-1]  # less the field's header and the end
        position = 1
        while encoded[position] > 127:
            position += 1
        struct[number] = (type_name, Encoded(bytes([0xF0 | code]) + varint(count) + encoded[position + 1 :]))

    return change


SEQUENCE: dict[str, Way] = {
    **ALL,
    "empty": _set(lambda old: Many(old.type, [])),
    "one-less": _set(lambda old: Many(old.type, old.items[:-1])),
    "one-more": _set(lambda old: Many(old.type, old.items + old.items[-1:])),
    "says-one-more": lambda struct, number: _counted(len(struct.value(number).items) + 1)(struct, number),
    "says-2^16": _counted(1 << 16),
    "says-2^31": _counted(1 << 31),
    "says-2^63": _counted((1 << 63) - 1),
    "of-integers": _typed(LIST, Many(I64, [4, 5])),
    "of-binaries": _typed(LIST, Many(BINARY, [b"ab", b""])),
    "of-empty-structs": _typed(LIST, Many(STRUCT, [Struct(), Struct()])),
    "of-bools": _typed(LIST, Many(BOOL, [True, False])),
    "twice-the-same": _twice(lambda old: old),
    "twice-and-empty": _twice(lambda old: Many(old.type, [])),
}


def _inside(type_name: str, value: Any) -> Way:
    """An unknown field in the structure that the field holds."""

    def change(struct: Struct, number: int) -> None:
        with_unknown(type_name, value)(struct.value(number))

    return change


def nested_structs(levels: int) -> Encoded:
    return Encoded(b"\x1c" * levels + b"\x00" * (levels + 1))


def nested_lists(levels: int) -> Encoded:
    return Encoded(b"\x19" * levels + b"\x13\x01")


STRUCTURE: dict[str, Way] = {
    **ALL,
    "empty": _set(lambda old: Struct()),
    "unknown-number": _inside(I64, 77),
    "unknown-list": _inside(LIST, Many(BINARY, [b"from", b"the future"])),
    "unknown-map": _inside(MAP, Pairs(I32, BINARY, [(1, b"x")])),
    "unknown-struct": _inside(STRUCT, Struct({4: (BOOL, True)})),
    "structs-50-deep": _inside(STRUCT, nested_structs(50)),
    "structs-very-deep": _inside(STRUCT, nested_structs(DEEP)),
    "lists-very-deep": _inside(LIST, nested_lists(DEEP)),
    "unknown-list-says-2^31": _inside(LIST, Encoded(b"\xfc" + varint(1 << 31))),
    "unknown-map-says-2^31": _inside(MAP, Encoded(varint(1 << 31) + b"\x55")),
    "twice-the-same": _twice(lambda old: old),
    "twice-and-empty": _twice(lambda old: Struct()),
    "without-its-end": lambda struct, number: _set(lambda old: Encoded(_without_end(old)))(struct, number),
    "other-member": _set(lambda old: Struct({9: (STRUCT, Struct())})),
}


def _without_end(struct: Struct) -> bytes:
    return write_struct(struct)[:-1]
