"""No row is lost: ORC files in which only what a reader has to doubt is wrong.

That is how long the streams of an index are said to be and what they are called, how their chunks begin, and how many
entries they have; not statistics, nor the bits and numbers of a filter, which nothing can be held against.
"""

from __future__ import annotations

from choices import Choices
from scratch import as_file
from small_orc import CODECS, FILTERS, GROUP, ROW_INDEX, Target, base, changed_header, table, together
from support.writers.orc_files import fields_of, message_of

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.predicate import parse

ALLOWED = (ParquetBloomError,)
SLICE = 60

_TRUTH = table().to_pylist()
_NEEDLES = [
    (parse(text), [row for row in _TRUTH if holds(row)])
    for text, holds in (
        ("k = 53", lambda row: row["k"] == 53),
        ("s = 'v0000108'", lambda row: row["s"] == "v0000108"),
        ("n IN (4, 155)", lambda row: row["n"] in (4, 155)),
        ("k = 0 AND f = 0.0", lambda row: row["k"] == 0),
        ("n IS NULL", lambda row: row["n"] is None),
    )
]


def seeds() -> list[bytes]:
    return [bytes([codec, needle, how, 5, 7]) for codec in range(6) for needle in range(5) for how in range(4)]


def run(data: bytes) -> None:
    choices = Choices(data)
    codec, (node, rows), how = choices.pick(CODECS), choices.pick(_NEEDLES), choices.below(4)
    stripes = base().stripes
    number = choices.below(len(stripes))
    index = [at for at, (kind, *_) in enumerate(stripes[number].streams) if kind in (ROW_INDEX, *FILTERS)]
    target: Target = ("stream", number, choices.pick(index)) if how != 1 else ("stripe", number, 0)

    def change(location: Target, plain: bytes) -> bytes:
        if location != target or how in (2, 3):
            return plain
        fields = fields_of(plain)
        if how == 0:  # an entry less, or more, or one with a field that is cut off
            at = choices.below(len(fields))
            what = choices.below(3)
            if what == 0:
                del fields[at]
            elif what == 1:
                fields.insert(at, fields[at])
            else:
                return message_of(fields)[: choices.below(len(plain))]
            return message_of(fields)
        at = choices.pick([at for at in index if at < len(fields)])
        declared = fields_of(bytes(fields[at][2]))  # type: ignore[arg-type]
        field = choices.pick((0, 2))  # its kind, its length
        declared[field] = declared[field][0], 0, choices.odd_number(int(declared[field][2]))
        if field == 0 and declared[0][2] in (ROW_INDEX, *FILTERS):
            return plain
        fields[at] = 1, 2, message_of(declared)
        return message_of(fields)

    def pack(location: Target, stream: bytes) -> bytes:
        if location != target or how < 2 or codec == "none":
            return stream
        return changed_header(choices, stream) if how == 2 else stream[: choices.below(len(stream))]

    complete = together(codec, change, pack, target)
    with as_file(complete, ".orc") as path:
        try:
            report = parquet_bloom.prune(path, node, cache=None)
        except ParquetBloomError:
            return
        selected = {group for groups in report.selected.values() for group in groups}
        lost = {_TRUTH.index(row) // GROUP for row in rows if row["k"] not in (0, 10**6)} - selected
        assert not lost, f"{node}: row groups {lost} are lost: {report}"
        if sum(complete[-64:]) % 16:
            return
        try:
            result = parquet_bloom.read_table(path, node).to_pylist()
        except ParquetBloomError:
            return
        assert result == rows, f"{node}: {result} instead of {rows}"
