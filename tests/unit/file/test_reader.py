"""`open`: what a file's footer and filters say, and what is said of those that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers import surgery
from support.writers.own_filters import HAS_OWN_FILTERS

import parquet_bloom
from parquet_bloom import SplitBlockBloomFilter, errors
from parquet_bloom.errors import BrokenFilterError
from parquet_bloom.metadata.filter_header import read_header, write_header
from parquet_bloom.metadata.footer import find_footer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three row groups; filters, pyarrow's where it can, on `i` and on a list's leaf, none on the others."""
    table = pa.table(
        {
            "i": pa.array(range(300), pa.int32()),
            "s": pa.array([f"s{i}" for i in range(300)]),
            "l": pa.array([[{"x": i}] for i in range(300)]),
            "b": pa.array([i % 2 == 0 for i in range(300)]),
        }
    )
    options = {"i": {"ndv": 100, "fpp": 0.001}, "l.list.element.x": {"ndv": 100}}
    target = tmp_path / "a.parquet"
    if HAS_OWN_FILTERS:
        pq.write_table(table, target, row_group_size=100, bloom_filter_options=options)
    else:
        pq.write_table(table, target, row_group_size=100)
        parquet_bloom.embed(target, list(options))
    return target


def test_file_contents(path):
    with parquet_bloom.open(path) as file:
        assert file.path == str(path)
        assert file.num_row_groups == 3
        assert list(file.row_groups) == [0, 1, 2]
        assert file.columns == ["i", "s", "l.list.element.x", "b"]
        assert str(file.column_type("i")) == "INT32"
        assert str(file.column_type("l")) == "INT64"
        assert repr(file) == f"<BloomFile {str(path)!r}: 3 row groups, 4 columns>"
        chunks = list(file.chunks())
        assert [(c.row_group, c.column) for c in chunks] == [
            (g, c) for g in range(3) for c in ("i", "l.list.element.x")
        ]
        assert [(c.row_group, c.column) for c in file.chunks([2], ["i"])] == [(2, "i")]
        assert list(file.chunks(columns=["s"])) == []
        assert file.chunk(0, "s") is None


def test_answers_of_a_filter(path):
    with parquet_bloom.open(path) as file:
        for chunk in file.chunks():
            stored = oracle.filters(path)[chunk.row_group, chunk.column]
            exact = oracle.OracleFilter(len(stored.bitset), stored.bitset)
            assert (chunk.offset, chunk.length) == (stored.offset, stored.length)
            assert chunk.header.num_bytes == chunk.num_bytes == len(stored.bitset)
            assert (chunk.header.algorithm, chunk.header.hash, chunk.header.compression) == (
                "BLOCK",
                "XXHASH",
                "UNCOMPRESSED",
            )
            assert chunk.header.header_bytes == stored.header_size
            assert chunk.num_blocks == len(stored.bitset) // 32
            assert chunk.fill == pytest.approx(exact.fill)
            assert chunk.fpp == pytest.approx(exact.fpp)
            assert chunk.ndv_estimate == pytest.approx(100, rel=0.1)
            assert chunk.problem is None
            assert chunk.filter.to_bytes() == stored.bitset
            assert (
                repr(chunk)
                == f"<ChunkFilter row group {chunk.row_group}, column '{chunk.column}', offset {chunk.offset}>"
            )


def test_filters_are_bound_to_their_column(path):
    with parquet_bloom.open(path) as file:
        bloom_filter = file.filter(1, "i")
        assert isinstance(bloom_filter, SplitBlockBloomFilter)
        assert bloom_filter.readonly
        assert str(bloom_filter.column_type) == "INT32"
        assert bloom_filter.check(pa.array(range(100, 200))).all()  # int64 values, coerced
        assert bloom_filter.check(pa.array(range(1000))).sum() < 110
        assert 2**40 not in bloom_filter
        with pytest.raises(errors.FilterTypeError):
            bloom_filter.check(["x"])
        assert file.filter(0, "l").check([5]).all()


def test_missing_paths(path):
    with parquet_bloom.open(path) as file:
        with pytest.raises(errors.MissingFilterError, match="row group 0, column 's': no filter"):
            file.filter(0, "s")
        for name in ("nope", "I", "l.list", "l.list.element.y", ""):
            if name == "l.list":
                assert file.filter(0, name).num_bytes
                continue
            with pytest.raises(errors.UnknownColumnError, match="no such column"):
                file.filter(0, name)
        for row_group in (3, -1, 10**9):
            with pytest.raises(errors.UnknownColumnError, match="the file has 3"):
                file.filter(row_group, "i")
        with pytest.raises(errors.UnknownColumnError):
            list(file.chunks(columns=["nope"]))
        with pytest.raises(errors.UnknownColumnError):
            list(file.chunks(row_groups=[5]))


def test_nothing_is_read_before_it_is_consumed(path):
    """Footer at once; headers and bitsets one by one, and none again."""
    with parquet_bloom.open(path) as file:
        file.source.keep(0, b"")  # what came along with the footer
        chunks, before = list(file.chunks()), file.source.requests
        assert [chunk.offset for chunk in chunks]
        assert file.source.requests == before
        assert chunks[0].header_problem is None
        assert file.source.requests == before + 1
        assert chunks[0].filter.num_bytes
        _ = chunks[0].fill, chunks[0].filter, chunks[0].header
        assert file.source.requests == before + 2


def test_values_that_are_present(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"v": [1, None], "n": pa.array([None, None], pa.int32())})
    pq.write_table(table, path)
    with parquet_bloom.open(path) as file:
        assert file.has_values(0, "v") is True
        assert file.has_values(0, "n") is False
    surgery.without_statistics(path)
    with parquet_bloom.open(path) as file:
        assert file.has_values(0, "v") is None
        assert file.has_values(0, "n") is None


def test_a_shared_offset_is_a_doubt_in_both(path):
    """Two chunks that point to the same bytes, of one column's name or of two."""

    def change(footer: oracle.Struct) -> None:
        theirs = oracle.column_metadata(footer, 0, "i")
        ours = oracle.column_metadata(footer, 1, "i")
        for number in (oracle.OFFSET, oracle.LENGTH):
            ours[number] = theirs[number]

    surgery.rewrite_footer(path, change)
    with parquet_bloom.open(path) as file:
        problems = [file.chunk(group, "i").problem for group in range(3)]
    assert "row group 1" in problems[0]
    assert "row group 0" in problems[1]
    assert problems[2] is None


def test_a_closed_file_is_closed(path):
    file = parquet_bloom.open(path)
    chunk = next(iter(file.chunks()))
    file.close()
    file.close()
    with pytest.raises((errors.ParquetBloomError, ValueError, OSError)):
        _ = chunk.filter


def test_every_byte_of_a_filters_header_matters_or_is_doubted(path):
    """A header changed in one byte: unusable, or as good as before; nothing else is ever raised."""
    data = path.read_bytes()
    stored = oracle.filters(path)[0, "i"]
    target = path.with_name("changed.parquet")
    for position in range(stored.header_size):
        for byte in (0, 1, 0x15, 0x1C, 0x7F, 0x80, 0xFF):
            changed = bytearray(data)
            changed[stored.offset + position] = byte
            target.write_bytes(changed)
            with parquet_bloom.open(target) as file:
                chunk = file.chunk(0, "i")
                if chunk.problem is None:
                    assert chunk.filter.to_bytes() == stored.bitset
                else:
                    with pytest.raises(BrokenFilterError):
                        _ = chunk.filter


def assert_one_line(error: Exception) -> None:
    assert "\n" not in str(error)


# ------------------------------------------------------------------------------------------------------------
# The parts
# ------------------------------------------------------------------------------------------------------------


def test_headers():
    for num_bytes in (32, 64, 100, 2**20, 2**27, 2**31 - 1):
        data = write_header(num_bytes)
        assert data == oracle.write_struct(oracle.filter_header(num_bytes))
        header = read_header(data + b"bitset")
        assert (header.num_bytes, header.header_bytes, header.problem) == (num_bytes, len(data), None)
        for length in range(len(data)):
            with pytest.raises(BrokenFilterError):
                read_header(data[:length])
    for header, problem in (
        (oracle.filter_header(64, algorithm=2), "algorithm is unknown"),
        (oracle.filter_header(64, hash_function=3), "hash is unknown"),
        (oracle.filter_header(64, compression=2), "compression is unknown"),
        *((oracle.filter_header(num_bytes), f"{num_bytes} bytes") for num_bytes in (0, 31, -64)),
        *((oracle.filter_header(num_bytes), "less than 2 GiB") for num_bytes in (2**31, 2**40)),
    ):
        assert problem in read_header(oracle.write_struct(header)).problem


def test_unions_with_more_than_one_member():
    both = oracle.Struct({1: (oracle.STRUCT, oracle.Struct()), 2: (oracle.STRUCT, oracle.Struct())})
    for field in (2, 3, 4):
        for order in (1, -1):
            header = oracle.filter_header(64)
            header[field] = (oracle.STRUCT, oracle.Struct(list(both.items())[::order]))
            assert "unknown" in read_header(oracle.write_struct(header)).problem
        header[field] = (oracle.STRUCT, oracle.Struct())
        assert "empty" in read_header(oracle.write_struct(header)).problem
        header[field] = (oracle.I32, 1)
        with pytest.raises(BrokenFilterError, match="lacks"):
            read_header(oracle.write_struct(header))
        del header[field]
        with pytest.raises(BrokenFilterError, match="lacks"):
            read_header(oracle.write_struct(header))


def test_ends_of_files():
    for tail, size, kind in (
        *((b"", 0, errors.NotParquetError), (b"PAR1", 4, errors.NotParquetError)),
        *((b"\0\0\0\0PAR1", 8, errors.NotParquetError), (b"\0\0\0\0PAR2", 100, errors.NotParquetError)),
        (b"\0\0\0\0PARE", 100, errors.EncryptedFileError),
        *((length + b"PAR1", 100, errors.TruncatedFileError) for length in (b"\xff\xff\xff\xff", b"\x59\0\0\0")),
    ):
        with pytest.raises(kind):
            find_footer(tail, size)
    assert find_footer(b"anything before\x58\x00\x00\x00PAR1", 100) == (4, 88)
    assert find_footer(b"\x00\x00\x00\x00PAR1", 12) == (4, 0)
