"""Thrift structs, protobuf messages and JSON documents with another word in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fuzzing import Choices
from support.oracle import oracle
from support.oracle.oracle import BINARY, BOOL, CODES, LIST, SET, STRUCT, Struct, varint, zigzag
from support.writers.orc_files import fields_of, message_of

_NUMBERS = ("i16", "i32", "i64")


class Node(NamedTuple):
    """A value in a struct's bytes.

    Attributes
    ----------
    path : field ids that lead to it; positions in lists stand below them as negative numbers from -1 on.
    type : of the compact protocol.
    head, start, end : where its field header begins (of a list's item: the item), its value, and what follows.
    """

    path: tuple[int, ...]
    type: str
    head: int
    start: int
    end: int


@dataclass(frozen=True)
class Spelled:
    """A struct's bytes, all field headers in the long form, so that fields can be taken out, and put in twice."""

    data: bytes
    nodes: Sequence[Node]

    @classmethod
    def of(cls, struct: Struct) -> Spelled:
        out, nodes = bytearray(), []
        _spell(struct, (), out, nodes)
        return cls(bytes(out), nodes)

    def only(self, selects: Callable[[tuple[int, ...]], bool]) -> Spelled:
        """Return a copy in which only some nodes may be changed."""
        return Spelled(self.data, [node for node in self.nodes if selects(node.path)])

    def with_numbers(self, numbers: Mapping[tuple[int, ...], int]) -> Spelled:
        """Return a copy with other numbers in some fields, which may not be changed any more."""
        data, at, out = self.data, 0, bytearray()
        numbered = [(node, numbers[node.path]) for node in self.nodes if node.path in numbers]
        for node, number in sorted(numbered, key=lambda location: location[0].start):
            out += data[at : node.start] + varint(zigzag(number))
            at = node.end
        out += data[at:]
        return Spelled(bytes(out), ())

    def changed(self, choices: Choices, most: int = 2) -> bytes:
        """The struct with another word, or a few."""
        edits = sorted(self._edit(choices) for _ in range(1 + choices.below(most)))
        out, at = bytearray(), 0
        for start, end, new in edits:
            if start < at:
                continue
            out += self.data[at:start] + new
            at = end
        return bytes(out + self.data[at:])

    def _edit(self, choices: Choices) -> tuple[int, int, bytes]:
        node = choices.pick(self.nodes)
        value = self.data[node.start : node.end]
        how = choices.below(16)
        if how == 0:
            return node.head, node.end, b""
        if how == 1:
            return node.end, node.end, self.data[node.head : node.end]
        if how == 2 and node.head < node.start:
            return node.head, node.start, bytes([choices.below(16)]) + self.data[node.head + 1 : node.start]
        if how == 3 and node.head < node.start:
            renamed = varint(zigzag(choices.odd_number(node.path[-1])) & 2**32 - 1)
            return node.head, node.start, self.data[node.head : node.head + 1] + renamed
        if how == 4:
            other = choices.pick([each for each in self.nodes if each.type == node.type])
            return node.start, node.end, self.data[other.start : other.end]
        if how == 5:
            return node.start, node.end, choices.take(choices.below(16))
        if node.type in _NUMBERS:
            near = oracle._read_zigzag(value, 0)[0]
            return node.start, node.end, varint(zigzag(choices.odd_number(near)) & 2**64 - 1)
        if node.type == BINARY:
            body = oracle._read_value(BINARY, value, 0)[0]
            if how < 9:
                return node.start, node.end, varint(choices.odd_number(len(body)) & 2**32 - 1) + body
            new = choices.take(choices.below(32)) if how < 12 else body[: choices.below(len(body) + 1)]
            return node.start, node.end, varint(len(new)) + new
        if node.type in (LIST, SET):
            code = value[0] & 15 if how < 12 else choices.below(16)
            skip = 1 if value[0] >> 4 != 15 else 1 + len(varint(oracle._read_varint(value, 1)[0]))
            head = bytes([0xF0 | code]) + varint(choices.odd_number(value[0] >> 4) & 2**32 - 1)
            return node.start, node.end, head + value[skip:]
        if node.type == STRUCT and how < 9:
            return node.start, node.end, bytes([0x1C]) * choices.pick((10, 100, 1000, 10_000)) + b"\0"
        if node.type == BOOL and node.head < node.start:
            return node.head, node.start, bytes([3 - self.data[node.head]]) + self.data[node.head + 1 : node.start]
        return node.start, node.end, choices.take(len(value))


def _spell(struct: Struct, path: tuple[int, ...], out: bytearray, nodes: list[Node]) -> None:
    for field_id, (kind, value) in struct.items():
        head = len(out)
        out.append((1 if value else 2) if kind == BOOL else CODES[kind])
        out += varint(zigzag(field_id))
        start, location = len(out), len(nodes)
        below = (*path, field_id)
        if kind != BOOL:
            _spell_value(kind, value, below, out, nodes)
        nodes.insert(location, Node(below, kind, head, start, len(out)))
    out.append(0)


def _spell_value(kind: str, value: object, path: tuple[int, ...], out: bytearray, nodes: list[Node]) -> None:
    if kind == STRUCT:
        assert isinstance(value, Struct)
        _spell(value, path, out, nodes)
    elif kind in (LIST, SET):
        assert isinstance(value, oracle.Many)
        out += bytes([0xF0 | (1 if value.type == BOOL else CODES[value.type])]) + varint(len(value.items))
        for number, item in enumerate(value.items):
            start, location = len(out), len(nodes)
            _spell_value(value.type, item, (*path, -1 - number), out, nodes)
            nodes.insert(location, Node((*path, -1 - number), value.type, start, start, len(out)))
    else:
        out += oracle._write_value(kind, value)


# ------------------------------------------------------------------------------------------------------------ protobuf


def changed_message(message: bytes, choices: Choices, depth: int = 0) -> bytes:
    """A message with another word in it, somewhere."""
    try:
        fields = fields_of(message)
    except IndexError:
        return message
    if not fields:
        return message
    at = choices.below(len(fields))
    number, wire, value = fields[at]
    how = choices.below(16)
    if wire == 2 and how < 9 and depth < 6 and value:
        inner = changed_message(bytes(value), choices, depth + 1)
        if inner != value:
            fields[at] = number, wire, inner
            return message_of(fields)
    if how == 9:
        del fields[at]
    elif how == 10:
        fields.insert(at, fields[at])
    elif how == 11:
        fields[at] = choices.odd_number(number) & 2**29 - 1, wire, value
    elif how == 12:
        wire = choices.below(8)
        fields[at] = number, wire, choices.odd_number() if wire == 0 else choices.take(8)
    elif how == 13:
        data = message_of(fields)
        return data[: choices.below(len(data))]
    elif how == 14:
        other = choices.pick(fields)
        fields[at] = number, other[1], other[2]
    elif isinstance(value, int):
        fields[at] = number, wire, choices.odd_number(value)
    else:
        fields[at] = number, wire, choices.take(choices.below(2 * len(value) + 8))
    return message_of(fields)


# ---------------------------------------------------------------------------------------------------------------- JSON


def changed_json(document: Any, choices: Choices) -> bytes:
    """A document with another value somewhere, as text; keys may be missing."""
    mark = "\x01odd"
    path = choices.pick([*_paths(document, ())])
    is_dropped = choices.below(8) >= 6
    new = "null" if is_dropped else _odd_json(choices)
    text = json.dumps(_with(document, path, mark, is_dropped)).replace(json.dumps(mark), new)
    return text.encode("utf-8", "surrogatepass")


def _odd_json(choices: Choices) -> str:
    makers: tuple[Callable[[], Any], ...] = (
        choices.odd_number,
        choices.odd_number,
        lambda: None,
        lambda: 1e308,
        lambda: 0.5,
        lambda: True,
        lambda: "",
        lambda: choices.take(choices.below(9)).decode("latin-1"),
        list,
        dict,
        lambda: [choices.odd_number(), choices.odd_number()],
        lambda: {"a": 1},
        lambda: 10 ** choices.below(300),
        lambda: "../" + "x" * choices.below(8),
        lambda: choices.pick((3, 50, 100_000)),
        lambda: "\ud800",
    )
    how = choices.below(len(makers))
    value = makers[how]()
    return "[" * value + "]" * value if how == 14 else json.dumps(value)


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _paths(value[key], (*path, key))


def _with(value: Any, path: tuple[Any, ...], new: Any, is_dropped: bool) -> Any:
    if not path:
        return new
    copy = value.copy()
    if len(path) == 1 and is_dropped:
        del copy[path[0]]
    else:
        copy[path[0]] = _with(value[path[0]], path[1:], new, is_dropped)
    return copy
