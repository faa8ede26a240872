"""Column chunks are read page by page, whatever their codec, encoding and window; odd ones are left to pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.stored_values import decoded, hash_all, open_readers, stored

from parquet_bloom.errors import UnusualPageError
from parquet_bloom.file.page_checks import PageClaimError, PageWalk
from parquet_bloom.file.pages.decompress import MAX_PAGE_BYTES, UNCOMPRESSED, decompress

ROWS = 6000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 2**62, ROWS)
    texts = [None if key % 5 == 0 else f"{key:x}" * (1 + key % 3) for key in keys.tolist()]
    few, floats = pa.array(rng.integers(0, 50, ROWS), pa.int32()), rng.random(ROWS).astype("f4")
    fields = [pa.field("k", pa.int64(), nullable=False), ("text", pa.string()), ("few", pa.int32())]
    return pa.table([keys, texts, few, floats], pa.schema([*fields, ("float", pa.float32())]))


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_other_encodings(tmp_path: Path, table: pa.Table, codec: str) -> None:
    for name, encoding in (
        *(("few", "DELTA_BINARY_PACKED"), ("few", "BYTE_STREAM_SPLIT"), ("k", "DELTA_BINARY_PACKED")),
        *(("float", "BYTE_STREAM_SPLIT"), ("text", "DELTA_BYTE_ARRAY"), ("text", "DELTA_LENGTH_BYTE_ARRAY")),
    ):
        path = tmp_path / "a.parquet"
        options: Any = {"use_dictionary": False, "compression": codec, "column_encoding": {name: encoding}}
        pq.write_table(table.select([name]), path, data_page_size=5000, write_batch_size=100, **options)
        with open_readers(path) as readers:
            expected = decoded(readers[name], 0)
            assert stored(readers[name], 0) == (None if encoding == "DELTA_BINARY_PACKED" else expected)
            assert hash_all(readers[name].read_occurring(0)) == expected


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("window", [600, 4096, 20_000, 1 << 20])
def test_pages_of_any_window(tmp_path: Path, table: pa.Table, window: int, once: bool) -> None:
    """Few bytes are read twice; headers that are longer than usual are read too."""
    path = tmp_path / "a.parquet"
    long = ["x" * 3000 + text if text else None for text in table["text"].to_pylist()[:600]]
    pq.write_table(pa.table({"s": long}), path, data_page_size=15_000, use_dictionary=False, write_batch_size=5)
    data = path.read_bytes()
    chunk = pq.read_metadata(path).row_group(0).column(0)
    start, end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
    lengths: list[int] = []
    ranges: set[int] = set()

    def read(offset: int, length: int) -> bytes:
        assert start <= offset <= offset + length <= end
        lengths.append(length)
        ranges.update(range(offset, offset + length))
        return data[offset : offset + length]

    walk = PageWalk(start, end, chunk.num_values)
    at = start
    for part, pages in walk.windows(read, window, once):
        assert bytes(part) == data[at : at + len(part)]
        assert pages[0, 0] == 0
        assert pages[:, :3].sum(axis=1).tolist() == [*pages[1:, 0].tolist(), len(part)]
        at += len(part)
    assert (at, walk.remaining) == (end, False)
    if once:
        assert sum(lengths) == len(ranges)
        assert len(ranges) >= at - start
    elif window == 4096:  # pages are much larger
        assert sum(lengths) < 1.6 * (at - start)


def test_a_chunk_that_ends_early(tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table.select(["k"]), path, use_dictionary=False)
    data = path.read_bytes()
    chunk = pq.read_metadata(path).row_group(0).column(0)
    end = chunk.data_page_offset + chunk.total_compressed_size - 1
    walk = PageWalk(chunk.data_page_offset, end, chunk.num_values)
    with pytest.raises(PageClaimError, match=r"claims \d+ bytes where there are \d+$"):
        list(walk.windows(lambda offset, length: data[offset : offset + length], 1 << 20))


@pytest.mark.parametrize(("number", "codec"), [(1, "snappy"), (2, "gzip"), (4, "brotli"), (6, "zstd"), (7, "lz4_raw")])
def test_sizes_are_those_that_headers_claim(number: int, codec: str) -> None:
    """What is missing could be anything otherwise: the codecs of pyarrow do not report it."""
    data = np.random.default_rng(4).bytes(500) * 4
    packed = memoryview(pa.Codec(codec).compress(data, asbytes=True))
    assert bytes(decompress(packed, number, len(data))) == data
    nothing = memoryview(pa.Codec(codec).compress(b"", asbytes=True))  # as a dictionary without entries is stored
    assert bytes(decompress(nothing, number, 0)) == b""
    for size in (len(data) - 1, len(data) + 1, 1):
        with pytest.raises((ValueError, OSError, pa.ArrowException)):
            decompress(packed, number, size)
    with pytest.raises((ValueError, OSError, pa.ArrowException)):
        decompress(packed[:-3], number, len(data))
    for size in (0, -1, MAX_PAGE_BYTES + 1):
        with pytest.raises(UnusualPageError):
            decompress(packed, number, size)


def test_codecs_that_are_left() -> None:
    with pytest.raises(ValueError, match="0 bytes were compressed, not 1"):  # though lz4 takes it, and leaves the byte
        decompress(memoryview(b"\x02"), 7, 1)
    for number in (3, 5, 99, None):
        with pytest.raises(UnusualPageError, match="codec"):
            decompress(memoryview(b"abc"), number, 3)
    assert bytes(decompress(memoryview(b"abc"), UNCOMPRESSED, 3)) == b"abc"
