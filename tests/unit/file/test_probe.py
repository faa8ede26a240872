"""Many filters probed for a few values: the bytes read, and the report on those that cannot be probed."""

from __future__ import annotations

import decimal
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.malformed import malformed
from support.servers.counted import CountedFileSystem
from support.writers import surgery

import parquet_bloom
from parquet_bloom.core.bloom.sizing import size_for
from parquet_bloom.file.bloom_file import BloomFile
from parquet_bloom.file.column_statistics import file_statistics
from parquet_bloom.file.probe_file import BLOCK_BYTES, WHOLE_BYTES, probe, probe_hashes
from parquet_bloom.metadata.filter_header import write_header
from parquet_bloom.scan.plan.filter_level import has_broken_filter

HEADER = 256  # bytes that are read of each header
BIG = 1 << 17
HEAD = len(write_header(BIG))
HALF_FULL = [np.random.default_rng(i).bytes(BIG) for i in range(4)]
KEY = np.array([0x123456789ABCDEF0], np.uint64)


def opened(path: Path, **options: Any) -> tuple[BloomFile, CountedFileSystem]:
    remote = CountedFileSystem({"a": path.read_bytes()}, **options)
    return forgetful(parquet_bloom.open("a", remote)), remote


def forgetful(file: BloomFile) -> BloomFile:
    """The file without what came along with its footer, which may hold the filters that a test wants to see read."""
    file.source.keep(0, b"")
    return file


def probe_ranges(file: BloomFile, hashes: np.ndarray, remote: CountedFileSystem) -> tuple[list[tuple[int, int]], Any]:
    """The ranges that a probe of all filters reads, in order, and its answer."""
    remote.ranges_read.clear()
    before = file.source.requests, file.source.bytes_read
    answer = probe_hashes(list(file.chunks()), hashes)
    counted = file.source.requests - before[0], file.source.bytes_read - before[1]
    assert counted == (len(remote.ranges_read), sum(end - start for start, end in remote.ranges_read))
    return sorted(remote.ranges_read), answer


# ------------------------------------------------------------------------------------------------------------
# What is read
# ------------------------------------------------------------------------------------------------------------


def test_a_header_and_a_block_of_each_filter(tmp_path: Path) -> None:
    file, remote = opened(surgery.with_bitsets(tmp_path / "a", HALF_FULL))
    with file:
        offsets = [chunk.offset for chunk in file.chunks()]
        ranges, (result, problems) = probe_ranges(file, KEY, remote)
        assert problems == [None] * 4
        heads = [(offset, offset + HEADER) for offset in offsets]
        assert set(heads) <= set(ranges)
        blocks = [span for span in ranges if span not in heads]
        position = (0x12345678 * (BIG // 32)) >> 32
        assert blocks == [(at, at + 32) for at in (offset + HEAD + 32 * position for offset in offsets)]
        complete = [chunk.filter.check_hashes(KEY).tolist() for chunk in file.chunks()]
        assert result.tolist() == complete
        # Headers are known from now on.
        assert probe_ranges(file, KEY, remote)[0] == blocks


def test_blocks_close_together_are_one_request(tmp_path: Path) -> None:
    file, remote = opened(surgery.with_bitsets(tmp_path / "a", HALF_FULL[:1]))
    with file:
        (chunk,) = file.chunks()
        assert chunk.header.header_bytes == HEAD
        start = chunk.offset + HEAD
        near = np.array([0, 5 << 32, 1 << 32, 900_000 << 32, 0], np.uint64)  # upper halves that lie close together
        ranges, _ = probe_ranges(file, near, remote)
        assert ranges == [(start, start + 32 + 32 * ((900_000 * (BIG // 32)) >> 32))]


def test_the_entire_bitset_is_read_when_most_blocks_are_needed_or_it_is_small(tmp_path: Path) -> None:
    def read_by(bitset: bytes, hashes: np.ndarray) -> int:
        with forgetful(parquet_bloom.open(surgery.with_bitsets(tmp_path / "a", [bitset]))) as file:
            (chunk,) = file.chunks()
            assert not chunk.header_problem
            before = file.source.bytes_read
            matches, _ = probe_hashes([chunk], hashes)
            read = file.source.bytes_read - before
            assert (matches[0] == chunk.filter.check_hashes(hashes)).all()
            return read

    for num_hashes, is_complete in ((1, False), (64, False), (2_500, False), (30_000, True)):
        hashes = np.random.default_rng(4).integers(0, 2**64, num_hashes, dtype=np.uint64)
        blocks = {((int(key) >> 32) * (BIG // 32)) >> 32 for key in hashes}
        assert (2 * len(blocks) > BIG // 32) == is_complete
        assert read_by(HALF_FULL[0], hashes) == (BIG if is_complete else 32 * len(blocks))
    assert read_by(HALF_FULL[0], np.repeat(KEY, 50)) == BLOCK_BYTES  # a hash that is probed twice is read once
    for num_bytes in (32, 1024, WHOLE_BYTES, WHOLE_BYTES + 32):
        assert read_by(HALF_FULL[0][:num_bytes], KEY) == (num_bytes if num_bytes <= WHOLE_BYTES else BLOCK_BYTES)


def test_an_empty_block_is_looked_into(tmp_path: Path) -> None:
    """The last bit of a bitset distinguishes a sparse filter from one that was never filled."""
    sparse, empty = bytes(BIG - 1) + b"\x80", bytes(BIG)
    path = surgery.with_bitsets(tmp_path / "a", [sparse, empty, b"\x01" + bytes(BIG - 1)])
    with forgetful(parquet_bloom.open(path)) as file:
        chunks = list(file.chunks())
        assert not any(chunk.header_problem for chunk in chunks)
        before = file.source.bytes_read
        matches, problems = probe_hashes(chunks, KEY)
        assert matches.tolist() == [[False], [True], [False]]
        assert problems == [None, "no bit is set, yet the column chunk may hold values", None]
        # A block of each, the first two filters to their ends, and of the third no more than the first piece.
        assert file.source.bytes_read - before == 3 * 32 + 2 * BIG + 4096


def test_an_empty_filter_over_nulls_is_as_it_should_be(tmp_path: Path) -> None:
    path = tmp_path / "a"
    pq.write_table(pa.table({"key": pa.array([None] * 5, pa.int64())}), path)
    parquet_bloom.embed(path, {"key": {"ndv": 100_000}})
    with parquet_bloom.open(path) as file:
        (chunk,) = file.chunks()
        assert chunk.num_bytes > WHOLE_BYTES
        matches, problems = probe_hashes([chunk], KEY)
        assert (matches.tolist(), problems) == ([[False]], [None])


def test_headers_of_many_filters_are_read_at_once(tmp_path: Path) -> None:
    """Also those of the filters before, where the footer gives no lengths: each header gives the filter's end."""
    path = surgery.without_lengths(malformed.good_file(tmp_path / "a"))
    with forgetful(parquet_bloom.open(path)) as file:
        chunks = list(file.chunks(columns=["other"]))
        file.read_headers(chunks)
        requests = file.source.requests
        assert requests == 1 + 2 * len(chunks)  # the footer; "other" and the "key" before it
        assert [chunk.header_problem for chunk in chunks] == [None] * malformed.GROUPS
        assert file.source.requests == requests


def test_prune_reads_blocks(tmp_path: Path) -> None:
    path = tmp_path / "a"
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 2**62, 80_000)
    pq.write_table(pa.table({"key": keys}), path, row_group_size=20_000)
    parquet_bloom.embed(path, ["key"], fpp=1e-6)
    data = path.read_bytes()
    remote = CountedFileSystem({"a": data})
    report = parquet_bloom.prune("a", f"key = {keys[50_000]}", filesystem=remote)
    assert report.selected == {"a": [2]}
    assert not report.doubts
    num_bytes = size_for(20_000, 1e-6)
    read = sum(end - start for start, end in remote.ranges_read)
    assert 4 * num_bytes > 200_000
    assert read <= 64 * 1024 + 4 * (HEADER + BLOCK_BYTES)
    assert len(remote.ranges_read) == 1 + 4 + 4


# ------------------------------------------------------------------------------------------------------------
# Values
# ------------------------------------------------------------------------------------------------------------


def embedded(path: Path, array: pa.Array, **options: Any) -> Path:
    pq.write_table(pa.table({"v": array}), path, row_group_size=max(1, len(array) // 2))
    parquet_bloom.embed(path, ["v"], fpp=1e-9, **options)
    return path


def test_a_value_is_probed_in_each_files_type(tmp_path: Path) -> None:
    numbers = [3, 70_000, 5_000_000_000, 9]
    paths = [
        embedded(tmp_path / "int64", pa.array(numbers, pa.int64())),
        embedded(tmp_path / "int32", pa.array([3, 70_000, 8, 9], pa.int32())),
        embedded(tmp_path / "uint16", pa.array([3, 7, 8, 9], pa.uint16())),
        embedded(tmp_path / "decimal", pa.array([decimal.Decimal(n) for n in (3, 7, 8, 9)], pa.decimal128(5, 1))),
        embedded(tmp_path / "text", pa.array(["3", "7", "8", "9"])),
    ]
    files = [parquet_bloom.open(path) for path in paths]
    result = probe([chunk for file in files for chunk in file.chunks()], [3, 70_000, 5_000_000_000, 9])
    assert result.maybe.tolist() == [
        [True, True, False, False],
        [False, False, True, True],
        [True, True, False, False],
        [False, False, False, True],
        [True, False, False, False],
        [False, False, False, True],
        [True, False, False, False],
        [False, False, False, True],
        [True] * 4,  # text is not compared with numbers
        [True] * 4,
    ]
    assert [doubt is None for doubt in result.doubts] == [True] * 8 + [False] * 2
    assert result.doubts[-1] == "3 cannot be compared exactly with BYTE_ARRAY STRING"
    for file in files:
        file.close()


def test_nulls_nan_and_zeros(tmp_path: Path) -> None:
    path = embedded(tmp_path / "a", pa.array([0.0, 1.5, 2.5, 3.5], pa.float64()))
    with parquet_bloom.open(path) as file:
        chunks = list(file.chunks())
        result = probe(chunks, [None, math.nan, 0.0, -0.0, 1.5, 0])
        assert result.maybe.tolist() == [[True] * 6, [True, True, False, False, False, False]]
        assert result.doubts == ("NaN is not looked for in filters or ranges",) * 2
        assert probe(chunks, [None]).doubts == (None, None)


def test_no_columns_requested(tmp_path: Path) -> None:
    path = surgery.with_bitsets(tmp_path / "a", HALF_FULL)
    with parquet_bloom.open(path) as file:
        requests = file.source.requests
        assert probe(file.chunks(), []).maybe.shape == (4, 0)
        assert probe([], [1, 2]).maybe.shape == (0, 2)
        assert probe(file.chunks(), ["text", 2**70]).maybe.tolist() == [[True, False]] * 4
        assert file.source.requests == requests


# ------------------------------------------------------------------------------------------------------------
# Filters and files that cannot be probed
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.ci
@pytest.mark.parametrize("immutable", [False, True])
@pytest.mark.parametrize("is_remote", [False, True])
def test_broken_filters_say_maybe(tmp_path: Path, is_remote: bool, immutable: bool) -> None:
    """By the words that `ChunkFilter.problem` has for them; the filters beside them answer as ever."""
    good = malformed.good_file(tmp_path / "good.parquet")
    (tmp_path / "broken").mkdir()
    for case in malformed.cases(good, tmp_path / "broken"):
        files = CountedFileSystem({"a": case.path.read_bytes()}) if is_remote else None
        with parquet_bloom.open("a" if files else case.path, files) as file, parquet_bloom.open(case.path) as other:
            chunks = list(file.chunks(columns=["key"]))
            result = probe(chunks, [key for _, key in malformed.needles()], immutable=immutable)
            assert list(result.doubts) == [chunk.problem for chunk in other.chunks(columns=["key"])], case.name
            for chunk, answers, doubt in zip(chunks, result.maybe.tolist(), result.doubts, strict=True):
                holds = [row_group == chunk.row_group for row_group, _ in malformed.needles()]
                assert answers == (holds if doubt is None else [True] * len(holds)), case.name


@pytest.mark.parametrize("immutable", [False, True])
@pytest.mark.parametrize("headers_known", [False, True])
def test_a_file_cut_after_it_was_opened(tmp_path: Path, immutable: bool, headers_known: bool) -> None:
    """Every filter of it is in doubt, those of the other file are not; and nobody dies of a mapping."""
    cut = surgery.with_bitsets(tmp_path / "a", HALF_FULL)
    other = surgery.with_bitsets(tmp_path / "b", HALF_FULL)
    with parquet_bloom.open(cut) as a, parquet_bloom.open(other) as b:
        chunks = [*a.chunks(), *b.chunks()]
        answers = [[chunk.filter.check_hashes(KEY)[0]] for chunk in b.chunks()]
        if headers_known:
            probe_hashes(chunks, KEY, immutable=immutable)
        os.truncate(cut, chunks[1].offset + 1_000)
        matches, problems = probe_hashes(chunks, KEY, immutable=immutable)
        assert matches[:4].all()
        assert all("truncated meanwhile" in (problem or "") for problem in problems[:4]), problems
        assert matches[4:].tolist() == answers
        assert problems[4:] == [None] * 4


def test_a_remote_file_that_fails(tmp_path: Path) -> None:
    file, remote = opened(surgery.with_bitsets(tmp_path / "a", HALF_FULL))
    with file:
        chunks = list(file.chunks())
        remote.failing = {chunks[2].offset}
        matches, problems = probe_hashes(chunks, KEY)
        assert matches.all()
        assert all("injected" in (problem or "") for problem in problems)
        remote.failing.clear()
        assert probe_hashes(chunks, KEY)[1] == [None] * 4


def test_no_answer_of_a_file_that_fails_halfway_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.file.probe_file.BATCH_BYTES", 1)
    file, remote = opened(surgery.with_bitsets(tmp_path / "a", [b"\x01" + bytes(BIG - 1)] * 2))
    with file:
        chunks = list(file.chunks())
        assert not probe_hashes(chunks, KEY)[0].any()
        remote.failing = {
            start for start, end in remote.ranges_read if end - start == BLOCK_BYTES and start > chunks[1].offset
        }
        assert len(remote.failing) == 1
        matches, problems = probe_hashes(chunks, KEY)
        assert matches.all()
        assert all("injected" in (problem or "") for problem in problems)


def test_filters_that_reach_into_each_other_without_lengths(tmp_path: Path) -> None:
    """The first one's header says more bytes than there are before the second."""
    path = surgery.with_bitsets(tmp_path / "a", HALF_FULL[:2], lengths=False)
    with parquet_bloom.open(path) as file:
        first = file.chunk(0, "key").offset
    data = bytearray(path.read_bytes())
    longer = write_header(BIG + 32)
    assert len(longer) == HEAD
    data[first : first + HEAD] = longer
    path.write_bytes(data)
    for row_groups in ([0, 1], [1, 0], [1]):
        with parquet_bloom.open(path) as file:
            matches, problems = probe_hashes([file.chunk(i, "key") for i in row_groups], KEY)
            assert matches.all()
            assert all("its bytes are also those of the filter" in (problem or "") for problem in problems)


def test_where_pages_are(tmp_path: Path) -> None:
    """The ranges of pages and indexes, searched by halves, against all of them looked at."""
    path = malformed.good_file(tmp_path / "a")
    with parquet_bloom.open(path) as file:
        ranges = file.footer.data_ranges().tolist()
        positions = sorted({location + step for span in ranges for location in span for step in (-1, 0, 1)})
        answers = set()
        for start in positions:
            for end in positions:
                if start < end:
                    holds = any(first < end and last > start for first, last in ranges)
                    assert file._holds_data(start, end) == holds
                    answers.add(holds)
        assert answers == {True, False}


def test_a_broken_filter_is_reported_even_if_unused(tmp_path: Path) -> None:
    """Spark's own scan may ask it, and must then not be trusted with the file."""
    path = surgery.with_bitsets(tmp_path / "a", [bytes(BIG), HALF_FULL[0]])
    with parquet_bloom.open(path) as file:
        facts = file_statistics(file, ["key"])
        assert [has_broken_filter(file, facts, [row_group]) for row_group in file.row_groups] == [True, False]
