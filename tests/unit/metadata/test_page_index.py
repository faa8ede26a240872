"""The page index is decoded as the format has it, and not believed when it contradicts itself."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers.page_indexes import encode_bounds, encode_locations

import parquet_bloom
from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata import page_index
from parquet_bloom.metadata.page_index import read_column_index, read_offset_index, read_page_header
from parquet_bloom.metadata.thrift_compact import I32, I64, LIST, STRUCT, write_struct

PAGES = [(4, 10, 0), (14, 20, 100), (34, 5, 150)]


def test_an_offset_index() -> None:
    index = read_offset_index(encode_locations(PAGES), 200)
    assert index.offsets.tolist() == [4, 14, 34]
    assert index.sizes.tolist() == [10, 20, 5]
    assert index.rows.tolist() == [0, 100, 150, 200]
    assert index.find_pages(np.array([0, 99, 100, 149, 150, 199])).tolist() == [0, 0, 1, 1, 2, 2]


def test_offset_indexes_that_are_not_believed() -> None:
    first, second, last = PAGES
    for pages, num_rows in (
        *(([], 200), (PAGES, 150), (PAGES, 0)),  # the last page would have no rows
        *(([(4, 10, 1), second, last], 200), ([first, (14, 20, 150), last], 200), ([first, (14, 20, 170), last], 200)),
        *(([first, (15, 19, 100), last], 200), ([first, (13, 21, 100), last], 200)),  # a gap, an overlap
        *(([second, first, last], 200), ([(0, 14, 0), second, last], 200), ([(-4, 18, 0), second, last], 200)),
        *(([(2**62, 2**62, 0), (-(2**63), 5, 100)], 200), ([(4, 0, 0), (4, 5, 100)], 200)),
        ([(4 + i, 1, i) for i in range(page_index.MAX_PAGES + 1)], 2 * page_index.MAX_PAGES),
    ):
        with pytest.raises(MalformedFooterError):
            read_offset_index(encode_locations(pages), num_rows)
    types = {1: I64, 2: I32, 3: I64}
    for missing in (1, 2, 3):
        items = [
            [(n, types[n], value) for n, value in zip((1, 2, 3), page, strict=True) if n != missing] for page in PAGES
        ]
        with pytest.raises(MalformedFooterError):
            read_offset_index(write_struct([(1, LIST, (STRUCT, items))]), 200)


def test_a_column_index() -> None:
    index = read_offset_index(encode_locations(PAGES), 200)
    statistics = read_column_index(
        encode_bounds([False, True, False], [b"a", b"", b"c"], [b"b", b"", b"d"], [3, 50, 0]), index
    )
    assert statistics.null_pages == [False, True, False]
    assert statistics.null_counts == [3, 50, 0]
    first, second = statistics.statistics(0), statistics.statistics(1)
    assert (first.min_value, first.max_value, first.null_count) == (b"a", b"b", 3)
    assert (second.min_value, second.max_value, second.null_count) == (None, None, 50)
    assert read_column_index(encode_bounds([False] * 3, [b""] * 3, [b""] * 3), index).null_counts is None


def test_column_indexes_that_are_not_believed() -> None:
    index = read_offset_index(encode_locations(PAGES), 200)
    flags, low, high = [False] * 3, [b"a"] * 3, [b"b"] * 3
    for parts in (
        *(([False] * 2, low, high), (flags, [b"a"] * 4, high), (flags, low, [])),
        *((flags, low, high, counts) for counts in ([0, 0], [0, 0, -1], [0, 0, 51])),
        (flags, low, high, [0, 50, 0]),  # all null, and not a null page
        ([False, True, False], low, high, [0, 49, 0]),  # a null page with a value
    ):
        with pytest.raises(MalformedFooterError):
            read_column_index(encode_bounds(*parts), index)


def test_lists_of_another_type() -> None:
    index = read_offset_index(encode_locations(PAGES), 200)
    numbers = write_struct([(number, LIST, (I64, [0, 0, 0])) for number in (1, 2, 3)])
    for broken in (numbers, write_struct([(1, I32, 3)]), b"\x00"):
        with pytest.raises(MalformedFooterError):
            read_column_index(broken, index)
        with pytest.raises(MalformedFooterError):
            read_offset_index(broken, 200)


def test_broken_bytes_end_in_the_named_error_or_in_a_consistent_index() -> None:
    rng, refused = random.Random(4), 0
    complete = encode_locations(PAGES)
    bounds = encode_bounds([False, True, False], [b"a", b"", b"c"], [b"b", b"", b"d"], [3, 50, 0])
    good = read_offset_index(complete, 200)
    for encoded, read in [
        (complete, lambda data: read_offset_index(data, 200)),
        (bounds, lambda data: read_column_index(data, good)),
    ]:
        for cut in range(len(encoded)):
            with pytest.raises(MalformedFooterError):
                read(encoded[:cut])
        for _ in range(1500):
            broken = bytearray(encoded)
            for _ in range(rng.randint(1, 3)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            try:
                result = read(bytes(broken))
            except MalformedFooterError:
                refused += 1
                continue
            if isinstance(result, page_index.OffsetIndex):
                assert (result.rows[0], result.rows[-1]) == (0, 200)
                assert (np.diff(result.rows) > 0).all()
                assert (result.offsets[:-1] + result.sizes[:-1] == result.offsets[1:]).all()
    assert refused > 1000


def test_page_headers() -> None:
    data = write_struct([(1, I32, 0), (2, I32, 9), (3, I32, 7), (5, STRUCT, [(1, I32, 3), (2, I32, 8)])])
    header = read_page_header(data + b"pagedat")
    assert (header.is_dictionary, header.num_values, header.needs_dictionary) == (False, 3, True)
    assert header.num_bytes == len(data) + 7
    v2 = write_struct([(1, I32, 3), (3, I32, 0), (8, STRUCT, [(1, I32, 4), (2, I32, 0), (3, I32, 4), (4, I32, 0)])])
    assert read_page_header(v2).num_values == 4
    assert not read_page_header(v2).needs_dictionary
    assert read_page_header(v2)[4:] == (2, len(v2), 0)
    for fields in (
        [(1, I32, 1), (3, I32, 0)],  # an index page
        [(1, I32, 0), (3, I32, -1), (5, STRUCT, [(1, I32, 3)])],
        [(1, I32, 0), (3, I32, 7), (5, STRUCT, [(1, I32, -3)])],
        [(1, I32, 0), (3, I32, 7), (7, STRUCT, [(1, I32, 3)])],  # described as another kind
        [(3, I32, 7), (5, STRUCT, [(1, I32, 3)])],
    ):
        with pytest.raises(MalformedFooterError):
            read_page_header(write_struct(fields))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_indexes_of_a_file_agree_with_its_pages(tmp_path, version) -> None:
    path = tmp_path / "a.parquet"
    values = [None if 300 <= i < 700 else i for i in range(2000)]
    table = pa.table({"a": pa.array(values, pa.int64())})
    pq.write_table(
        table, path, write_page_index=True, data_page_size=400, write_batch_size=50, data_page_version=version
    )
    data = path.read_bytes()
    with parquet_bloom.open(path) as file:
        record = file.record(0, file.leaf("a"))
        start, length = int(record["offset_index_offset"]), int(record["offset_index_length"])
        index = read_offset_index(data[start : start + length], 2000)
        start, length = int(record["column_index_offset"]), int(record["column_index_length"])
        known_statistics = read_column_index(data[start : start + length], index)
    assert index.num_pages > 10
    for page in range(index.num_pages):
        header = read_page_header(data[index.offsets[page] :])
        first, end = index.rows[page : page + 2].tolist()
        assert (header.num_values, header.num_bytes) == (end - first, index.sizes[page])
        present = [value for value in values[first:end] if value is not None]
        assert known_statistics.null_pages[page] == (not present)
        if present:
            statistics = known_statistics.statistics(page)
            assert int.from_bytes(statistics.min_value, "little") == min(present)
            assert int.from_bytes(statistics.max_value, "little") == max(present)
    assert any(known_statistics.null_pages)
