"""Chunked streams under every codec: round trips, and limits of decompressed sizes."""

import contextlib
import sys
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from parquet_bloom.errors import MalformedOrcError, ParquetBloomError
from parquet_bloom.orc import orc_compression
from parquet_bloom.orc.orc_compression import MAX_STREAM_BYTES, Compression

BLOCK = 1 << 12
TEXT = b"".join(b"%d," % (i * i) for i in range(600))


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def _lzo(data: bytes) -> bytes:
    lzallright = pytest.importorskip("lzallright")
    return bytes(lzallright.LZOCompressor().compress(data))


def _lz4(data: bytes) -> bytes:
    block = pytest.importorskip("lz4.block")
    return bytes(block.compress(data, store_size=False))


def _zstd_without_size(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    received = sink.getvalue().to_pybytes()
    assert orc_compression.read_zstd_size(received) is None
    return received


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "zlib": ("zlib", _raw_deflate),
    "snappy": ("snappy", lambda data: pa.Codec("snappy").compress(data, asbytes=True)),
    "lzo": ("lzo", _lzo),
    "lz4": ("lz4", _lz4),
    "zstd": ("zstd", lambda data: pa.Codec("zstd").compress(data, asbytes=True)),
    "zstd without size": ("zstd", _zstd_without_size),
}
every_codec = pytest.mark.parametrize("packer", PACKERS)


def chunk(data: bytes, original: bool = False) -> bytes:
    return (len(data) << 1 | original).to_bytes(3, "little") + data


@every_codec
def test_streams(packer: str) -> None:
    name, pack = PACKERS[packer]
    compression = Compression(name, BLOCK)
    assert len(TEXT) <= BLOCK
    stream = chunk(pack(TEXT)) + chunk(b"as it was", original=True) + chunk(pack(b"a"), False) + chunk(b"", True)
    assert compression.plain(stream) == TEXT + b"as it wasa"
    assert compression.plain(b"") == b""
    assert Compression("none", BLOCK).plain(TEXT) == TEXT  # without chunks


@every_codec
def test_no_more_than_a_block(packer: str) -> None:
    """One byte more than a block is refused; a block is not."""
    name, pack = PACKERS[packer]
    assert Compression(name, BLOCK).plain(chunk(pack(bytes(BLOCK)))) == bytes(BLOCK)
    for size in (BLOCK + 1, 1 << 22):
        with pytest.raises(MalformedOrcError, match=r"a chunk"):
            Compression(name, BLOCK).plain(chunk(pack(bytes(size))))


@every_codec
def test_chunks_that_are_cut_or_changed(packer: str) -> None:
    name, pack = PACKERS[packer]
    compression, packed = Compression(name, BLOCK), pack(TEXT)
    changed = [bytearray(packed) for _ in range(0, len(packed), 5)]
    for number, one in enumerate(changed):
        one[5 * number] ^= 0xFF
    for data in (*(packed[:length] for length in range(0, len(packed), 7)), *changed):
        with contextlib.suppress(MalformedOrcError):
            assert len(compression.plain(chunk(bytes(data)))) <= BLOCK


@pytest.mark.parametrize(
    "stream", [b"\x01", b"\x01\x00", b"\x0b\x00\x00abc", b"\xff\xff\xff", chunk(b"x" * 5000, True)]
)
def test_headers_that_lie(stream: bytes) -> None:
    with pytest.raises(MalformedOrcError, match="a chunk"):
        Compression("zlib", BLOCK).plain(stream)


def test_a_stream_is_limited_in_all() -> None:
    bomb = chunk(_raw_deflate(bytes(BLOCK))) * 100
    assert len(Compression("zlib", BLOCK).plain(bomb)) == 100 * BLOCK
    with pytest.raises(MalformedOrcError, match="a stream decompresses to more"):
        Compression("zlib", BLOCK).plain(bomb, limit=50 * BLOCK)
    assert MAX_STREAM_BYTES <= 1 << 28


def test_zstd_with_a_wide_window() -> None:
    frame = bytearray(_zstd_without_size(TEXT))
    frame[5] = 20 << 3  # a window of 2^30
    with pytest.raises(MalformedOrcError, match="window"):
        Compression("zstd", BLOCK).plain(chunk(bytes(frame)))


@pytest.mark.parametrize(("name", "module"), [("lz4", "lz4.block"), ("lzo", "lzallright")])
def test_a_missing_library(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named when it is needed, and no sooner."""
    for hidden in (module, module.partition(".")[0]):
        monkeypatch.setitem(sys.modules, hidden, None)
    compression: Any = Compression(name, BLOCK)
    assert compression.plain(chunk(b"abc", original=True)) == b"abc"
    with pytest.raises(ParquetBloomError, match=r"pip install 'parquet-bloom\[orc\]'"):
        compression.plain(chunk(b"abc"))
