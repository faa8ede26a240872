"""Small indexes over lakes, of both layouts: their files, and what is wrong in them with checksums that fit."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from choices import Choices, damaged
from scratch import folder

from parquet_bloom import LakeIndex
from parquet_bloom.core.hash.xxh64 import hash_one

FILES, GROUP = 3, 4
_TAIL = struct.Struct("<IQ8s")


def rows(number: int) -> pa.Table:
    """The rows of a file: one value that every row group has, the others once."""
    keys = [0 if row % GROUP == 0 else 1000 * number + row for row in range(6 * GROUP)]
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"v{key % 97}" for key in keys]})


@dataclass(frozen=True)
class Base:
    """An index.

    Attributes
    ----------
    files : {name: bytes} of its folder.
    truth : {column: {value: the (file, row group or None) that have it}}.
    """

    files: dict[str, bytes]
    truth: dict[str, dict[Any, set[tuple[str, int | None]]]]

    @property
    def manifest(self) -> str:
        return max(name for name in self.files if name.startswith("manifest-"))

    @property
    def parts(self) -> list[str]:
        return [name for name, data in self.files.items() if data.endswith(b"PBLAKE01")]

    @property
    def tables(self) -> list[str]:
        return [name for name, data in self.files.items() if data.startswith(b"ARROW1")]


@cache
def bases() -> list[Base]:
    """One of each layout, of files and of row groups; of two segments, and with a file removed."""
    location = folder() / "lake"
    location.mkdir()
    names = [str(location / f"{number}.parquet") for number in range(FILES)]
    for number, name in enumerate(names):
        pq.write_table(rows(number), name, row_group_size=GROUP)
    results = []
    for layout, granularity in (("postings", "row_group"), ("cuckoo", "row_group"), ("postings", "file")):
        at = folder() / f"index-{len(results)}"
        options: Any = {"layout": layout, "granularity": granularity, "expected_values": 100}
        with LakeIndex.create(at, ["k", "s"], **options) as index:
            index.append(names)
            if not results:
                index.remove(names[:1])
        remaining = names[1:] if not results else names
        results.append(Base(_files_of(at), _truth(names, remaining, granularity)))
    return results


def _files_of(location: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(location.iterdir()) if path.stat().st_size}


def _truth(
    names: list[str], remaining: list[str], granularity: str
) -> dict[str, dict[Any, set[tuple[str, int | None]]]]:
    truth: dict[str, dict[Any, set[tuple[str, int | None]]]] = {"k": {}, "s": {}}
    for number, name in enumerate(names):
        for column, values in rows(number).to_pydict().items() if name in remaining else ():
            for row, value in enumerate(values):
                unit = row // GROUP if granularity == "row_group" else None
                truth[column].setdefault(value, set()).add((name, unit))
    return truth


# ------------------------------------------------------------------------------------- with checksums that fit


def sealed_manifest(body: bytes) -> bytes:
    return body + f"\n{hash_one(body):016x}\n".encode()


def sealed_table(body: bytes) -> bytes:
    return body + hash_one(body).to_bytes(8, "little")


def sealed_part(body: bytes, footer: dict[str, Any]) -> bytes:
    """A part whose sections' checksums are what they have to be, where they have one."""
    for section in footer.get("sections", {}).values():
        if isinstance(section, list) and len(section) == 3 and section[2] is not None:
            section[2] = hash_one(body[section[0] : section[0] + section[1]])
    document = json.dumps(footer).encode()
    return body + document + _TAIL.pack(len(document), hash_one(document), b"PBLAKE01")


def part_opened(data: bytes) -> tuple[bytes, dict[str, Any]]:
    length = _TAIL.unpack(data[-_TAIL.size :])[0]
    start = len(data) - _TAIL.size - length
    return data[:start], json.loads(data[start : start + length])


_ODD: tuple[Callable[[Choices], Any], ...] = (
    lambda choices: choices.odd_number(),
    lambda choices: choices.odd_number(),
    lambda choices: None,
    lambda choices: 1e308,
    lambda choices: 0.5,
    lambda choices: True,
    lambda choices: "",
    lambda choices: choices.take(choices.below(9)).decode("latin-1"),
    lambda choices: [],
    lambda choices: {},
    lambda choices: [choices.odd_number(), choices.odd_number()],
    lambda choices: {"a": 1},
    lambda choices: 10 ** choices.below(300),
    lambda choices: "../" + "x" * choices.below(8),
    lambda choices: _nested(choices.pick((3, 50, 100_000))),
    lambda choices: "\ud800",
)


class Raw(str):
    """JSON text that is used as it is."""


def _nested(depth: int) -> Raw:
    return Raw("[" * depth + "]" * depth)


def changed_json(document: Any, choices: Choices) -> bytes:
    """A document with another value somewhere, as text; keys may be missing, or be there twice."""
    paths = list(_list_paths(document, ()))
    path = choices.pick(paths)
    how = choices.below(8)
    created = choices.pick(_ODD)(choices) if how < 6 else None
    mark = "\x01odd"
    text = json.dumps(_with(document, path, mark if how < 6 else None, drop=how >= 6))
    if how < 6:
        text = text.replace(json.dumps(mark), created if isinstance(created, Raw) else json.dumps(created))
    return text.encode("utf-8", "surrogatepass")


def _list_paths(value: Any, path: tuple[Any, ...]) -> Any:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _list_paths(value[key], (*path, key))


def _with(value: Any, path: tuple[Any, ...], new: Any, drop: bool) -> Any:
    if not path:
        return new
    copy = value.copy()
    if len(path) == 1 and drop:
        del copy[path[0]]
    else:
        copy[path[0]] = _with(value[path[0]], path[1:], new, drop)
    return copy


def changed_manifest(data: bytes, choices: Choices) -> bytes:
    document = json.loads(data[:-18])
    if choices.below(8) == 0:
        for segment in document["segments"]:
            segment["removed"] = base64.b64encode(
                damaged(base64.b64decode(segment["removed"]) or bytes(16), choices)
            ).decode()
        return sealed_manifest(json.dumps(document).encode())
    return sealed_manifest(changed_json(document, choices))


def changed_part(data: bytes, choices: Choices) -> bytes:
    body, footer = part_opened(data)
    if choices.below(2):
        return sealed_part(damaged(body, choices), footer)
    document = changed_json(footer, choices)
    return body + document + _TAIL.pack(len(document), hash_one(document), b"PBLAKE01")


def changed_table(data: bytes, choices: Choices) -> bytes:
    body = data[:-8]
    if choices.below(3) == 0:
        return sealed_table(damaged(body, choices))
    table = pa.ipc.open_file(pa.BufferReader(body)).read_all()
    at = choices.below(table.num_columns)
    field, values = table.schema.field(at), table.column(at).to_pylist()
    how = choices.below(5)
    if how == 0:
        table = table.remove_column(at)
    elif how == 1:
        table = table.rename_columns([name if i != at else "x" for i, name in enumerate(table.schema.names)])
    else:
        values[choices.below(len(values))] = None if how == 2 else choices.odd_number()
        target = field.type if how < 4 else choices.pick((pa.int8(), pa.float64(), pa.string(), pa.null(), pa.int64()))
        try:
            column = pa.chunked_array([pa.array(values).cast(target)])
        except (pa.ArrowException, OverflowError):
            column = pa.chunked_array([pa.array([None] * len(values), target)])
        table = table.set_column(at, field.name, column)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sealed_table(sink.getvalue().to_pybytes())
