"""Rows searched for and taken out of pages are those that pyarrow reads, whatever the pages are like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers.in_memory import InMemory

import parquet_bloom
from parquet_bloom.errors import MalformedFooterError, UnusualPageError
from parquet_bloom.file.pages.chunk_batch import ChunkBatch, PageHeaders
from parquet_bloom.file.pages.decompress import decompress
from parquet_bloom.file.pages.fetched_ranges import FetchedRanges
from parquet_bloom.metadata.page_decode import StoredColumn
from parquet_bloom.metadata.page_match import Targets
from parquet_bloom.metadata.thrift_compact import I32, STRUCT, index_pages, write_struct

TEXTS, NUMBERS = StoredColumn(0, [0], 1), StoredColumn(8, [0], 1)


def make_batch(chunk: bytes, headers: Any = None) -> ChunkBatch:
    known = None if headers is None else PageHeaders([{0: headers.astype(np.int32).tobytes()}], 0)
    return ChunkBatch(FetchedRanges(InMemory(chunk, "" if headers is None else None)), decompress, known)


def whole_chunk(chunk: bytes | bytearray, num_rows: int, codec: int | None) -> Any:
    return np.array([[0, 0, len(chunk), num_rows, codec, num_rows, 0]], np.int64)


def test_a_page_whose_header_is_wrong_hides_no_rows(tmp_path: Path) -> None:
    """One bit of a header says that a page has indices into a dictionary: there is none, or they are not in it."""
    for number, options in enumerate(
        ({"use_dictionary": False}, {"dictionary_pagesize_limit": 64, "data_page_size": 64})
    ):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"a": pa.array(range(1000))}), path, write_batch_size=64, **options)
        with parquet_bloom.open(path) as file:
            record = file.record(0, file.leaves[0])
            start = int(record["dictionary_page_offset"])
            start = start if start > 0 else int(record["data_page_offset"])
            chunk, codec = file.source.read_at(start, int(record["compressed_size"])), file.footer.codec(record)
        pages = index_pages(chunk, 1000).copy()
        targets = Targets([(999).to_bytes(8, "little")])
        search = whole_chunk(chunk, 1000, codec), NUMBERS, targets, 1000, np.array([1]), np.array([[0, 1000]])
        found = make_batch(chunk, pages).search(*search)
        assert found is not None
        assert found[1].tolist() == [999]
        pages[-1, 5] = 8
        with pytest.raises(MalformedFooterError):
            make_batch(chunk, pages).search(*search)


@pytest.mark.parametrize(("width", "num_entries"), [(1, 2), (2, 3), (3, 8), (5, 17), (7, 100), (8, 256), (9, 300)])
def test_packed_numbers_of_entries(width: int, num_entries: int) -> None:

    def pack_numbers(numbers: list[int], width: int) -> bytes:
        """Return numbers of dictionary entries as the values of a page: one bit-packed run."""
        groups = -(-len(numbers) // 8)
        bits = sum(number << width * i for i, number in enumerate(numbers))
        header = groups << 1 | 1
        return bytes([width, header & 0x7F | 0x80, header >> 7]) + bits.to_bytes(groups * width, "little")

    rng = np.random.default_rng(width)
    required = StoredColumn(8, [0], 0)
    for count in (1, 7, 8, 9, 64, 1001):
        numbers = rng.integers(0, num_entries, count).tolist()

        def search(
            numbers: list[int], sought: list[int], entries: bytes = np.arange(num_entries, dtype="<i8").tobytes()
        ) -> Any:
            body = pack_numbers(numbers, width)
            pages = np.zeros((2, 14), np.int64)
            pages[0, [1, 2, 3, 4, 6]] = 1, len(entries), 2, num_entries, len(entries)
            pages[1, :7] = 1 + len(entries), 1, len(body), 3, len(numbers), 8, len(body)
            batch = make_batch(b"-" + entries + b"-" + body, pages)
            targets = Targets([number.to_bytes(8, "little") for number in sought])
            table = whole_chunk(b" " * (len(entries) + len(body) + 2), len(numbers), 0)
            selected = np.array([1]), np.array([[0, len(numbers)]])
            return batch.search(table, required, targets, len(numbers), *selected)

        for sought in ([0], [num_entries - 1], [1, 2], [num_entries]):
            found = search(numbers, sought)
            assert found[1].tolist() == [row for row, number in enumerate(numbers) if number in sought]
        if num_entries < 1 << width:
            for row in {0, count // 2, count - 1}:
                wrong = [*numbers[:row], num_entries, *numbers[row + 1 :]]
                with pytest.raises(UnusualPageError, match="a number is not in the dictionary"):
                    search(wrong, [num_entries - 1])


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("width", [0, 8])
def test_a_chunk_without_its_dictionary_has_no_entries_of_the_chunk_before(
    width: int, compression: str, tmp_path: Path
) -> None:
    """A footer that says that a chunk begins behind its dictionary makes no rows of another one's."""
    path = tmp_path / "a.parquet"
    values = pa.array(range(100, 200) if width else [f"text {i}" for i in range(100)])
    pq.write_table(pa.table({"a": values}), path, compression=compression, row_group_size=50, write_statistics=False)
    table, codec = [], {"none": 0, "snappy": 1, "zstd": 6}[compression]
    for number in range(2):
        chunk = pq.read_metadata(path).row_group(number).column(0)
        start, end = chunk.dictionary_page_offset, chunk.dictionary_page_offset + chunk.total_compressed_size
        start = chunk.data_page_offset if number else start
        table.append([0, start, end - start, 50, codec, 50, 0])
    column, counts, rows = (NUMBERS if width else TEXTS), np.array([2, 2]), np.array([3, 9, 3, 9])
    with pytest.raises(UnusualPageError, match="a number is not in the dictionary"):
        make_batch(path.read_bytes()).take(np.array(table), column, counts, rows)


def test_values_that_differ_in_the_middle_alone(tmp_path: Path) -> None:
    """Values of one length with the same first and last bytes are told apart, and found without comparing all."""
    texts = [f"https://example.com/items/{number:08}/index.html" for number in range(5000)]
    numbers = [number << 32 | number for number in range(5000)]
    pq.write_table(pa.table({"text": texts, "number": numbers}), tmp_path / "a.parquet", row_group_size=1000)
    dataset = parquet_bloom.dataset(tmp_path)
    chosen = range(0, 5000, 37)
    for name, values in (("text", texts), ("number", numbers)):
        shown = ", ".join(repr(values[number]) for number in chosen)
        assert dataset.scan(f"{name} IN ({shown})").to_arrow()[name].to_pylist() == [values[i] for i in chosen]


@pytest.mark.parametrize("longest_first", [True, False])
def test_entries_of_a_dictionary_that_differ_in_size(longest_first: bool, tmp_path: Path) -> None:
    """Only a part of a dictionary is decompressed: as much as entries would take that are all alike."""
    sizes = sorted([1] * 1_800 + [3_000] * 200, reverse=longest_first)
    rng = np.random.default_rng(0)
    texts = [str(number) + rng.bytes(size // 2).hex() for number, size in enumerate(sizes)]
    table = pa.table({"id": range(2_000), "text": texts, "bytes": [text.encode() for text in texts]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, data_page_size=2_000, write_batch_size=64)
    dataset = parquet_bloom.dataset(path)
    for ids in ([0], [190], [205], [1_990], [5, 1_500, 1_999], [1_700, 1_900]):
        rows = dataset.scan(f"id IN ({', '.join(map(str, ids))})").to_arrow()
        assert rows.equals(table.take(ids))


@pytest.mark.ci
def test_many_bytes_are_not_taken_at_once(tmp_path: Path) -> None:
    """Rows of more than the 16 MiB that are taken out of pages."""
    text = "x" * 180_000
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), [text])
    rows = pa.table({"a": [number % 20 for number in range(2000)], "long": long})
    for codec in ("snappy", "zstd", "gzip"):
        pq.write_table(rows, tmp_path / "a.parquet", compression=codec, store_schema=False)
        scan = parquet_bloom.dataset(tmp_path).scan("a = 3")
        assert scan.count_rows() == 100
        found = scan.to_arrow()
        assert found["a"].to_pylist() == [3] * 100
        assert found["long"].unique().to_pylist() == [text]


@pytest.mark.parametrize("codec", [2, 4, 6, 7])
def test_pages_that_cannot_be_decompressed_are_declined(codec: int) -> None:

    def make_page(body: bytes, size: int, num_values: int = 1, dictionary: bool = False) -> bytes:
        """Return a page of version 1 whose header claims that so many bytes were compressed."""
        fields = [(1, I32, num_values), (2, I32, 0), *([] if dictionary else [(3, I32, 3), (4, I32, 3)])]
        header = [(1, I32, 2 if dictionary else 0), (2, I32, size), (3, I32, len(body))]
        return write_struct([*header, (7 if dictionary else 5, STRUCT, fields)]) + body

    name = {2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}[codec]
    text = b"abcdefghijkl" * 50
    packed, column = pa.Codec(name).compress(text, asbytes=True), StoredColumn(len(text), [0], 0)

    def take(page: bytes) -> bytes:
        taken = make_batch(page).take(whole_chunk(page, 1, codec), column, np.array([1]), np.array([0]))
        return bytes(taken[2])

    assert take(make_page(packed, len(text))) == text
    assert take(make_page(b"", -(1 << 31), 0, dictionary=True) + make_page(packed, len(text))) == text
    for body, size in ((packed[:-9], len(text)), (packed, len(text) - 1), (packed, len(text) + 1), (b"\xff" * 9, 9)):
        with pytest.raises(UnusualPageError):
            take(make_page(body, size))
