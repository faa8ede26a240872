"""A Thrift struct of which some fields change, and all others keep their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from ..errors import MalformedFooterError
from .thrift_compact import (
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    read_value,
    split_struct,
    split_structs,
    write_struct,
)


class EncodedStruct:
    """A Thrift struct; fields that are not set keep their bytes, also those that this package does not know.

    Parameters
    ----------
    data, start : bytes that hold the struct, and its position in them.
    """

    def __init__(self, data: bytes | memoryview, start: int = 0):
        self._fields: dict[int, tuple[int, object]] = dict(split_struct(data, start)[0])

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    @property
    def numbers(self) -> list[int]:
        """The numbers of its fields."""
        return sorted(self._fields)

    def copy(self) -> EncodedStruct:
        """Return another struct with the same fields."""
        other = EncodedStruct.__new__(EncodedStruct)
        other._fields = dict(self._fields)
        return other

    def set(self, number: int, kind: int, value: object) -> None:
        """Set a field to a value as `write_struct` takes it."""
        self._fields[number] = kind, value

    def set_structs(self, number: int, structs: Iterable[EncodedStruct]) -> None:
        """Set a field to a list of structs."""
        self.set(number, LIST, (STRUCT, [struct.encode() for struct in structs]))

    def drop(self, *numbers: int) -> None:
        """Take fields out, if they are there."""
        for number in numbers:
            self._fields.pop(number, None)

    def take(self, number: int, other: Self) -> None:
        """Set a field to what it is in another struct, or take it out if it is not there."""
        self.drop(number)
        if number in other:
            self._fields[number] = other._fields[number]

    def integer(self, number: int, default: int = 0) -> int:
        """Return the value of a field that is a number.

        Raises
        ------
        MalformedFooterError
            It is of another type.
        """
        kind, value = self._fields.get(number, (I64, default))
        if isinstance(value, int):
            return value
        if kind not in (I16, I32, I64):
            raise MalformedFooterError(f"metadata: field {number} is not a number")
        return int(read_value(value, 0, kind))

    def struct(self, number: int) -> EncodedStruct:
        """Return a copy of a field that is a struct; MalformedFooterError if it is of another type."""
        return EncodedStruct(self._encoded(number, STRUCT))

    def structs(self, number: int) -> list[EncodedStruct]:
        """Return copies of the elements of a field that is a list of structs; errors as of `struct`."""
        return [EncodedStruct(element) for element in split_structs(self._encoded(number, LIST))[0]]

    def _encoded(self, number: int, expected: int) -> bytes:
        kind, value = self._fields.get(number, (0, b""))
        if kind != expected or not isinstance(value, bytes):
            raise MalformedFooterError(f"metadata: field {number} is missing, or of another type")
        return value

    def encode(self) -> bytes:
        """Return its bytes, with the fields in the order of their numbers."""
        return write_struct([(number, *self._fields[number]) for number in self.numbers])
