"""Cursors over protocol buffers, and small ORC files with other words in them, under every codec.

What is wrong is anything, or only what a reader has to doubt: then no row may be lost. That is how long the streams
of an index are said to be and what they are called, how their chunks begin, and how many entries they have; not
statistics, nor the bits and numbers of a filter, which nothing can be held against.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from changes import changed_message
from fuzzing import Choices, RefusedError, as_file, check, folder, fuzz
from support.oracle import orc_runs
from support.writers import protobuf_fields
from support.writers.orc_files import Field, Parts, fields_of, message_of, with_fields

import parquet_bloom
from parquet_bloom import orc
from parquet_bloom.errors import MalformedOrcError, ParquetBloomError
from parquet_bloom.metadata import protobuf
from parquet_bloom.metadata.protobuf import BOOL, BYTES, DOUBLE, INT, MESSAGE, SINT, SPAN, UINT
from parquet_bloom.orc import orc_tail
from parquet_bloom.predicate import parse

FIELDS: dict[int, Any] = protobuf_fields.FIELDS | {11: ("reals", DOUBLE, True, None)}
FIELDS[12] = ("self", MESSAGE, False, FIELDS)


def written(*fields: tuple[int, int | float | bytes]) -> bytes:
    """A message; a number stands as a varint, a float as eight bytes."""
    wires = {int: 0, float: 1, bytes: 2}
    packed = ((number, wires[type(v)], struct.pack("<d", v) if type(v) is float else v) for number, v in fields)
    return message_of(packed)


@cache
def good_messages() -> list[bytes]:
    inner = written((1, 5), (2, b"a"), (2, b""), (77, b"?"))
    every = written(
        (1, 255), (2, (1 << 64) - 1), (3, 3), (4, 1), (5, 1.5), (6, b"a"), (7, b"bb"), (8, inner), (8000, b"far")
    )
    reals = struct.pack("<2d", 1, 2)
    more = written(
        (9, 1), (9, b"\2\3\x80\1"), (10, inner), (10, b""), (11, reals), (12, written((12, every))), (99, 7.0)
    )  # fmt: skip
    stripe = written((1, 3), (2, 100), (3, 200), (4, 50), (5, 1000))
    column = written((1, 12), (2, b"\1\2"), (3, b"x"), (3, b"y"), (7, written((1, b"k"), (2, b"v"))))
    kinds = (4, column), (4, written((1, 4)))
    footer = written((1, 3), (3, stripe), (3, stripe), *kinds, (6, 2000), (8, 10000), (12, b"1.9"))
    tail = written((1, 100), (2, 1), (3, 1 << 18), (5, 9), (6, 8), (8000, b"ORC"))
    streams = [
        (1, written((1, 6), (2, 1), (3, 99))),
        (1, written((1, 8), (2, 1), (3, 300))),
        (2, written((1, 0), (3, 1))),
    ]
    filters = [(1, 4), (2, bytes(range(16)))], [(1, 3), (2, 1.5), (2, 2.5)], [(1, 3), (3, bytes(24)), (9, 1)]
    return [
        *(b"\0" + data for data in (every, more)),
        *(bytes([1 + 4 * i]) + data for i, data in enumerate((tail, footer, written(*streams)))),
        bytes([2 + (2 << 5)]) + footer,
        *(b"\3" + written(*fields) for fields in filters),
    ]


@fuzz(MalformedOrcError, good=good_messages, longest=512, examples=30)
def test_protobuf(data: bytes) -> None:
    """Messages beside a slow twin, spans, and filters."""
    kind, data = (data[0], data[1:]) if data else (0, data)
    if kind % 4 == 2:
        for start, end in protobuf.read_spans(data, 1 + (kind >> 5), 0, len(data)).tolist():
            assert 0 < start <= end <= len(data)
        return
    if kind % 4 == 3:
        _, words, utf8 = protobuf.read_bloom_filter(data)
        assert words is None or (words and len(words) % 8 == 0)
        assert len(words or b"") + len(utf8 or b"") <= len(data)
        return
    ours = [orc_tail.POSTSCRIPT, orc_tail.FOOTER, orc_tail.STRIPE_FOOTER]
    fields, at = (FIELDS, min(kind >> 5, len(data))) if kind % 4 == 0 else (ours[(kind >> 2) % 3], 0)
    start = at

    def varint(end: int) -> int:
        nonlocal at
        value = 0
        for i in range(10):
            if at >= end:
                break
            at += 1
            value |= (data[at - 1] & 0x7F) << (7 * i)
            if data[at - 1] < 0x80:
                return value & ((1 << 64) - 1)
        raise RefusedError

    def skip(count: int, end: int) -> int:
        nonlocal at
        at += count
        if at > end:
            raise RefusedError
        return at - count

    def number(kind: int, end: int) -> Any:
        if kind == DOUBLE:
            return struct.unpack_from("<d", data, skip(8, end))[0]
        value = varint(end)
        signed = value - (value >> 63 << 64)
        return {UINT: value, BOOL: value != 0, SINT: value >> 1 ^ -(value & 1), INT: signed}[kind]

    def message(fields: dict[int, Any], end: int, depth: int = 0) -> dict[str, Any]:
        nonlocal at
        results: dict[str, Any] = {}
        if depth > 32:
            raise RefusedError
        while at < end:
            tag = varint(end)
            wire = tag & 7
            if not 0 < tag >> 3 < 1 << 29 or wire in (3, 4, 6, 7):
                raise RefusedError
            name, kind, repeated, inner = fields.get(tag >> 3, ("", 0, False, None))
            if not name:
                if wire == 0:
                    varint(end)
                else:
                    skip(varint(end) if wire == 2 else 8 if wire == 1 else 4, end)
                continue
            if repeated and kind < BYTES and wire == 2:
                values, length = results.setdefault(name, []), varint(end)
                last = skip(length, end) + length
                at = last - length
                while at < last:
                    values.append(number(kind, last))
                continue
            if wire != (1 if kind == DOUBLE else 0 if kind < BYTES else 2):
                raise RefusedError
            if kind < BYTES:
                value = number(kind, end)
            else:
                first = skip(varint(end), end)
                value = (first, at) if kind == SPAN else data[first:at]
                if kind == MESSAGE:
                    last, at = at, first
                    value = message(inner, last, depth + 1)
            if repeated:
                results.setdefault(name, []).append(value)
            else:
                results[name] = value
        return results

    def twin() -> dict[str, Any]:
        return message(fields, len(data))

    check(lambda: protobuf.read_message(data, fields, start), twin, MalformedOrcError)


ROWS, STRIPE, GROUP = 48, 24, 12
CODECS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd")
ROW_INDEX, FILTERS = 6, (7, 8)


def table() -> pa.Table:
    """Values between extremes that every row group has."""
    keys = [number for group in range(ROWS // GROUP) for number in (0, 10**6, *range(group * 50 + 1, group * 50 + 11))]
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "s": [f"v{key:07}" for key in keys],
            "n": pa.array([None if key % 7 == 3 else key for key in keys], pa.int32()),
            "f": [key / 4 for key in keys],
        }
    )


@dataclass(frozen=True)
class Stripe:
    """A stripe's streams as (kind, column, bytes), and the rest of its footer."""

    info: bytes
    streams: list[tuple[int, int, bytes]]
    rest: list[Field]


@dataclass(frozen=True)
class Base:
    """An ORC file taken apart: plain messages and streams."""

    postscript: bytes
    footer: list[Field]
    metadata: bytes
    stripes: list[Stripe]


Place = tuple[str, int, int]
"""What is written: "footer", "metadata", "postscript", "stripe", "info", or "stream"; the stripe's and the stream's
number."""

Change = Callable[[Place, bytes], bytes]


@cache
def base() -> Base:
    location = folder() / "base.orc"
    po.write_table(
        table(), location, compression="uncompressed", row_index_stride=GROUP, stripe_size=1, batch_size=STRIPE,
        bloom_filter_columns=[1, 2, 3, 4], bloom_filter_fpp=0.01,
    )  # fmt: skip
    parts = Parts(location.read_bytes())
    fields, stripes = fields_of(parts.footer), []
    for info in (value for number, _, value in fields if number == 3):
        assert isinstance(info, bytes)
        declared = {number: value for number, _, value in fields_of(info)}
        at = int(declared.get(1, 0))
        end = at + int(declared[2]) + int(declared[3])
        streams, rest = [], []
        for field in fields_of(parts.before[end : end + int(declared[4])]):
            if field[0] == 1:
                of = {number: int(value) for number, _, value in fields_of(bytes(field[2]))}  # type: ignore[arg-type]
                length = of.get(3, 0)
                streams.append((of.get(1, 0), of.get(2, 0), parts.before[at : at + length]))
                at += length
            else:
                rest.append(field)
        assert at == end
        stripes.append(Stripe(info, streams, rest))
    metadata = parts.before[len(parts.before) - parts.metadata_length :]
    return Base(parts.postscript, [field for field in fields if field[0] != 3], metadata, stripes)


@lru_cache(maxsize=4096)
def packed(data: bytes, codec: str) -> bytes:
    """A stream of one chunk, compressed if a codec is available."""
    if codec == "none" or not data:
        return data
    if codec == "zlib":
        pressed = zlib.compressobj(wbits=-15)
        chunk = pressed.compress(data) + pressed.flush()
    elif codec == "lz4":
        chunk = pa.Codec("lz4_raw").compress(data, asbytes=True)
    elif codec == "lzo":
        return (len(data) << 1 | 1).to_bytes(3, "little") + data
    else:
        chunk = pa.Codec(codec).compress(data, asbytes=True)
    return (len(chunk) << 1).to_bytes(3, "little") + chunk


@lru_cache(maxsize=4096)
def _stream_message(kind: int, column: int, length: int) -> bytes:
    """Return the message of a stripe's footer that describes a stream."""
    return message_of([(1, 0, kind), (2, 0, column), (3, 0, length)])


def _stripe(number: int, written: Change) -> tuple[bytes, tuple[int, int, int]]:
    """A stripe as it is written, and the lengths of its index, its data and its footer."""
    out, lengths, reported = bytearray(), [0, 0], []
    stripe = base().stripes[number]
    for at, (kind, column, data) in enumerate(stripe.streams):
        stream = written(("stream", number, at), data)
        lengths[kind not in (ROW_INDEX, *FILTERS)] += len(stream)
        reported.append((1, 2, _stream_message(kind, column, len(stream))))
        out += stream
    footer = written(("stripe", number, 0), message_of([*reported, *stripe.rest]))
    return bytes(out + footer), (lengths[0], lengths[1], len(footer))


@cache
def _good_stripe(number: int, codec: str) -> tuple[bytes, tuple[int, int, int]]:
    return _stripe(number, lambda location, plain: packed(plain, codec))


@lru_cache(maxsize=4096)
def _info(number: int, start: int, lengths: tuple[int, int, int]) -> bytes:
    """Return the message of the file's footer that describes a stripe."""
    positions = {1: start, 2: lengths[0], 3: lengths[1], 4: lengths[2]}
    return with_fields(base().stripes[number].info, dict(positions))


def together(
    codec: str, change: Change, pack: Change = lambda location, data: data, only: Place | None = None
) -> bytes:
    """The file under a codec.

    Parameters
    ----------
    change : what becomes of each message and each stream before it is packed.
    pack : the same when it is packed.
    only : the one place that they change, so that the others need not be made again.
    """
    parts = base()

    def written(location: Place, plain: bytes) -> bytes:
        return pack(location, packed(change(location, plain), codec))

    out = bytearray(b"ORC")
    infos = []
    for number in range(len(parts.stripes)):
        if only is None or (only[0] in ("stripe", "stream") and only[1] == number):
            stripe, lengths = _stripe(number, written)
        else:
            stripe, lengths = _good_stripe(number, codec)
        infos.append((3, 2, change(("info", number, 0), _info(number, len(out), lengths))))
        out += stripe
    metadata = written(("metadata", 0, 0), parts.metadata)
    footer = written(("footer", 0, 0), message_of([*parts.footer, *infos]))
    postscript = with_fields(
        parts.postscript,
        {1: len(footer), 2: CODECS.index(codec), 3: 65_536, 5: len(metadata)},
    )
    postscript = change(("postscript", 0, 0), postscript)[:255]
    return bytes(out + metadata + footer + postscript + bytes([len(postscript)]))


def list_places() -> list[Place]:
    """All that can be changed; the messages several times, as there are many streams."""
    stripes = base().stripes
    results: list[Place] = [("footer", 0, 0), ("metadata", 0, 0), ("postscript", 0, 0)] * 3
    for number, stripe in enumerate(stripes):
        results += [("stripe", number, 0), ("info", number, 0)] * 2
        results += [("stream", number, at) for at, (kind, *_) in enumerate(stripe.streams) if kind in (6, 7, 8)] * 2
        results += [("stream", number, at) for at, (kind, *_) in enumerate(stripe.streams) if kind not in (6, 7, 8)]
    return results


def unchanged(location: Place, data: bytes) -> bytes:
    return data


def good_orc_files() -> list[bytes]:
    recipes = (bytes([codec, at, how, 9]) for codec in range(6) for at in range(0, 60, 7) for how in range(4))
    return [*(together(codec, unchanged) for codec in CODECS), *recipes]


@fuzz(ParquetBloomError, recipes=good_orc_files, examples=20)
def test_orc_files(data: bytes) -> None:
    """Damage anywhere ends in a named error or an answer: of a file, or of a good file by a recipe."""
    choices = Choices(data)
    codec, place, how = choices.pick(CODECS), choices.pick(list_places()), choices.below(4)

    def change(location: Place, plain: bytes) -> bytes:
        if location != place or how == 3:
            return plain
        return choices.damage(plain) if how == 2 else changed_message(plain, choices)

    def pack(location: Place, stream: bytes) -> bytes:
        return choices.damage(stream) if location == place and how == 3 else stream

    complete = data if data.startswith(b"ORC") else together(codec, change, pack, place)
    step = sum(complete[-64:]) % 16
    where, few = parse("k = 53 AND s = 'v0000053'"), parse("k IN (3, 53) OR n IS NULL")
    with as_file(complete, ".orc") as path:
        if step >= 8:
            with orc.open(path) as file:
                for leaf in file.leaves:
                    file.stripe_statistics(leaf)
                file.row_group_evidence(file.leaves, range(len(file.stripes)))
                for bloom_filter in file.filters():
                    assert 0 <= bloom_filter.fill <= 1
                    assert bloom_filter.check_hashes.__self__ is bloom_filter
        elif step >= 4:
            parquet_bloom.prune(path, where if step % 2 else few, cache=None)
        elif step < 2:
            orc.verify(path, data=step == 1)
        elif step == 2:
            parquet_bloom.read_table(path, where)
        else:
            parquet_bloom.advise(path)


def good_orc_recipes() -> list[bytes]:
    return [bytes([codec, needle, how, 5, 7]) for codec in range(6) for needle in range(5) for how in range(4)]


@fuzz(ParquetBloomError, recipes=good_orc_recipes, examples=15)
def test_orc_rows(data: bytes) -> None:
    """No row is lost where only what a reader has to doubt is wrong."""
    needles: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
        ("k = 53", lambda row: row["k"] == 53),
        ("s = 'v0000108'", lambda row: row["s"] == "v0000108"),
        ("n IN (4, 155)", lambda row: row["n"] in (4, 155)),
        ("k = 0 AND f = 0.0", lambda row: row["k"] == 0),
        ("n IS NULL", lambda row: row["n"] is None),
    ]
    choices = Choices(data)
    codec, (where, holds), how = choices.pick(CODECS), choices.pick(needles), choices.below(4)
    number = choices.below(len(base().stripes))
    kinds = [kind for kind, *_ in base().stripes[number].streams]
    index = [at for at, kind in enumerate(kinds) if kind in (ROW_INDEX, *FILTERS)]
    place = ("stream", number, choices.pick(index)) if how != 1 else ("stripe", number, 0)

    def change(location: Place, plain: bytes) -> bytes:
        if location != place or how in (2, 3):
            return plain
        fields = fields_of(plain)
        if how == 0:  # an entry less, or more, or one with a field that is cut off
            at = choices.below(len(fields))
            what = choices.below(3)
            fields[at : at + 1] = [[], [fields[at]] * 2, [fields[at]]][what]
            return message_of(fields)[: choices.below(len(plain)) if what == 2 else None]
        at = choices.pick([at for at in index if at < len(fields)])
        declared = fields_of(bytes(fields[at][2]))  # type: ignore[arg-type]
        field = choices.pick((0, 2))  # its kind, its length
        declared[field] = declared[field][0], 0, choices.odd_number(int(declared[field][2]))
        if field == 0 and declared[0][2] in (ROW_INDEX, *FILTERS):
            return plain
        fields[at] = 1, 2, message_of(declared)
        return message_of(fields)

    def pack(location: Place, stream: bytes) -> bytes:
        if location != place or how < 2 or codec == "none":
            return stream
        if how == 3:
            return stream[: choices.below(len(stream))]
        # The chunk has another length, or says otherwise whether it is compressed.
        header = int.from_bytes(stream[:3], "little")
        new = header ^ 1 if choices.below(4) == 0 else choices.odd_number(header >> 1) << 1 | header & 1
        return (new & 0xFFFFFF).to_bytes(3, "little") + stream[3:]

    with as_file(together(codec, change, pack, place), ".orc") as path:
        report = parquet_bloom.prune(path, parse(where), cache=None)
    selected = {group for groups in report.selected.values() for group in groups}
    rows = [i for i, row in enumerate(table().to_pylist()) if holds(row) and row["k"] not in (0, 10**6)]
    lost = {row // GROUP for row in rows} - selected
    assert not lost, f"{where}: row groups {lost} are lost: {report}"


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
@pytest.mark.parametrize("length", [8, 1 << 25, 1 << 50])
def test_texts_that_claim_to_be_longer_than_their_file(codec: str, length: int) -> None:
    streams = base().stripes[0].streams
    (number,) = (number for number, (kind, _, _) in enumerate(streams) if kind == orc_tail.LENGTH)
    lengths = orc_runs.direct([length] * STRIPE, 64)

    def change(location: Place, plain: bytes) -> bytes:
        return lengths if location == ("stream", 0, number) else plain

    with as_file(together(codec, change), ".orc") as path:
        if length == 8:
            assert parquet_bloom.read_table(path, "s >= ''").to_pylist() == table().to_pylist()
            return
        problem = r"in stripe 0 the lengths in column 2 are invalid: they add up to \d+ bytes, the texts have 192$"
        with pytest.raises(MalformedOrcError, match=problem):
            parquet_bloom.read_table(path, "s >= ''")
