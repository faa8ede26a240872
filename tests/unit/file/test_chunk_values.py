"""Column chunks are read page by page, whatever their codec, encoding and window; odd ones are left to pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.stored_values import decoded, hash_all, leave_to_pyarrow, open_readers, stored

import parquet_bloom
from parquet_bloom.errors import UnusualPageError
from parquet_bloom.file import column_reader
from parquet_bloom.file.page_checks import PageClaimError, PageWalk
from parquet_bloom.file.pages.decompress import MAX_PAGE_BYTES, UNCOMPRESSED, decompress

ROWS = 6000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 2**62, ROWS)
    texts = [None if key % 5 == 0 else f"{key:x}" * (1 + key % 3) for key in keys.tolist()]
    lists = [None if key % 7 == 0 else [key + i for i in range(key % 4)] for key in keys.tolist()]
    required = pa.field("k", pa.int64(), nullable=False)
    return pa.table(
        [
            keys,
            texts,
            lists,
            rng.integers(0, 50, ROWS),
            rng.random(ROWS).astype("f4"),
            pa.array(texts).dictionary_encode(),
        ],
        pa.schema(
            [
                required,
                ("text", pa.string()),
                ("list", pa.list_(pa.int64())),
                ("few", pa.int32()),
                ("float", pa.float32()),
                ("words", pa.dictionary(pa.int32(), pa.string())),
            ]
        ),
    )


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "brotli", "lz4"])
def test_each_codec_and_version_is_read(tmp_path: Path, table: pa.Table, codec: str, version: str) -> None:
    path = tmp_path / "a.parquet"
    dictionaries: Any = ["few", "words"]
    pq.write_table(table, path, compression=codec, data_page_version=version, use_dictionary=dictionaries)
    with open_readers(path) as readers:
        for name, reader in readers.items():
            assert stored(reader, 0) == decoded(reader, 0), name


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("few", "DELTA_BINARY_PACKED"),
        ("few", "BYTE_STREAM_SPLIT"),
        ("k", "DELTA_BINARY_PACKED"),
        ("float", "BYTE_STREAM_SPLIT"),
        ("text", "DELTA_BYTE_ARRAY"),
        ("text", "DELTA_LENGTH_BYTE_ARRAY"),
    ],
)
def test_other_encodings(tmp_path: Path, table: pa.Table, name: str, encoding: str, codec: str) -> None:
    path = tmp_path / "a.parquet"
    options: Any = {"use_dictionary": False, "compression": codec, "column_encoding": {name: encoding}}
    pq.write_table(table.select([name]), path, data_page_size=5000, write_batch_size=100, **options)
    with open_readers(path) as readers:
        expected = decoded(readers[name], 0)
        assert stored(readers[name], 0) == (None if encoding == "DELTA_BINARY_PACKED" else expected)
        assert hash_all(readers[name].read_occurring(0)) == expected


def test_small_pages(tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, data_page_size=100, write_batch_size=100, use_dictionary=False)
    with open_readers(path) as readers:
        for name, reader in readers.items():
            assert stored(reader, 0) == decoded(reader, 0), name


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


def test_missing_pages(tmp_path: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an even and of an odd number of pages, since some are decompressed in pairs: pyarrow says what is wrong."""
    path = tmp_path / "a.parquet"
    pq.write_table(table.select(["k"]), path, use_dictionary=False, data_page_size=5000, write_batch_size=10)
    with open_readers(path) as readers:
        every = decoded(readers["k"], 0)
        windows = PageWalk.windows
        for count in (-1, -2):

            def cut(walk: PageWalk, read: Any, window: int, once: bool, count: int = count) -> Any:
                return iter([*windows(walk, read, 2000, True)][:count])

            with monkeypatch.context() as patch:
                patch.setattr(PageWalk, "windows", cut)
                assert stored(readers["k"], 0) is None
                assert hash_all(readers["k"].read_occurring(0)) == every


@pytest.mark.parametrize(("number", "codec"), [(1, "snappy"), (2, "gzip"), (4, "brotli"), (6, "zstd"), (7, "lz4_raw")])
def test_sizes_are_those_that_headers_claim(number: int, codec: str) -> None:
    """What is missing could be anything otherwise: the codecs of pyarrow do not report it."""
    data = np.random.default_rng(4).bytes(500) * 4
    packed = memoryview(pa.Codec(codec).compress(data, asbytes=True))
    assert bytes(decompress(packed, number, len(data))) == data
    for size in (len(data) - 1, len(data) + 1, 1):
        with pytest.raises((ValueError, OSError, pa.ArrowException)):
            decompress(packed, number, size)
    with pytest.raises((ValueError, OSError, pa.ArrowException)):
        decompress(packed[:-3], number, len(data))
    for size in (0, -1, MAX_PAGE_BYTES + 1):
        with pytest.raises(UnusualPageError):
            decompress(packed, number, size)


def test_an_empty_block_of_lz4() -> None:
    """The codec accepts it where there is room for a byte, and leaves that byte as it was."""
    with pytest.raises(ValueError, match="0 bytes were compressed, not 1"):
        decompress(memoryview(b"\x02"), 7, 1)


def test_codecs_that_are_left() -> None:
    for number in (3, 5, 99, None):
        with pytest.raises(UnusualPageError, match="codec"):
            decompress(memoryview(b"abc"), number, 3)
    assert bytes(decompress(memoryview(b"abc"), UNCOMPRESSED, 3)) == b"abc"


@pytest.mark.parametrize("name", ["k", "text", "list.list.element", "few", "float", "words"])
def test_filters_are_the_same_both_ways(
    tmp_path: Path, table: pa.Table, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ways = tmp_path / "a.parquet", [tmp_path / "pages.parquet", tmp_path / "arrow.parquet"]
    pq.write_table(pa.concat_tables([table] * 3), path, row_group_size=2 * ROWS, dictionary_pagesize_limit=20_000)
    parquet_bloom.embed(path, [name], output=ways[0])
    monkeypatch.setattr(column_reader.ColumnReader, "_scan", leave_to_pyarrow)
    parquet_bloom.embed(path, [name], output=ways[1])
    assert ways[0].read_bytes() == ways[1].read_bytes()
