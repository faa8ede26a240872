"""Small ORC files, taken apart and put together again with other words in them, under every codec."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import pyarrow as pa
import pyarrow.orc as po
from choices import Choices, damaged
from scratch import folder
from support.writers.orc_files import Field, Parts, fields_of, message_of, with_fields
from wire import changed_message

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


Target = tuple[str, int, int]
"""What is written: "footer", "metadata", "postscript", "stripe", "info", or "stream"; the stripe's and the stream's
number."""

Change = Callable[[Target, bytes], bytes]


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
    codec: str, change: Change, pack: Change = lambda location, data: data, only: Target | None = None
) -> bytes:
    """The file under a codec.

    Parameters
    ----------
    change : what becomes of each message and each stream before it is packed.
    pack : the same when it is packed.
    only : the one place that they change, so that the others need not be made again.
    """
    parts = base()

    def written(location: Target, plain: bytes) -> bytes:
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


def list_targets() -> list[Target]:
    """All that can be changed; the messages several times, as there are many streams."""
    stripes = base().stripes
    results: list[Target] = [("footer", 0, 0), ("metadata", 0, 0), ("postscript", 0, 0)] * 3
    for number, stripe in enumerate(stripes):
        results += [("stripe", number, 0), ("info", number, 0)] * 2
        results += [("stream", number, at) for at, (kind, *_) in enumerate(stripe.streams) if kind in (6, 7, 8)] * 2
        results += [("stream", number, at) for at, (kind, *_) in enumerate(stripe.streams) if kind not in (6, 7, 8)]
    return results


def changed_file(choices: Choices) -> bytes:
    """The file with something wrong in it, anywhere."""
    codec, target, how = choices.pick(CODECS), choices.pick(list_targets()), choices.below(4)

    def change(location: Target, plain: bytes) -> bytes:
        if location != target or how == 3:
            return plain
        return damaged(plain, choices) if how == 2 else changed_message(plain, choices)

    def pack(location: Target, stream: bytes) -> bytes:
        return damaged(stream, choices) if location == target and how == 3 else stream

    return together(codec, change, pack, target)


def changed_header(choices: Choices, stream: bytes) -> bytes:
    """A packed stream whose chunk has another length, or says otherwise whether it is compressed."""
    header = int.from_bytes(stream[:3], "little")
    new = header ^ 1 if choices.below(4) == 0 else choices.odd_number(header >> 1) << 1 | header & 1
    return (new & 0xFFFFFF).to_bytes(3, "little") + stream[3:]
