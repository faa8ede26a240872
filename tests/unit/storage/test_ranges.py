"""Many ranges at once: the right bytes by every file system, each request counted, and no more of them than needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow.fs as fs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.servers.counted import CountedFileSystem
from support.servers.web_server import Page, WebServer

from parquet_bloom.errors import ConcurrentChangeError, StorageError, TruncatedFileError
from parquet_bloom.storage import Source, open_source
from parquet_bloom.storage.byte_ranges import GAP_BYTES, PARALLEL_REQUESTS, SPAN_BYTES, coalesce
from parquet_bloom.storage.local import scatter
from parquet_bloom.storage.objects.location import ObjectStores

DATA = np.random.default_rng(5).bytes(3_000_000)


@pytest.fixture(scope="module")
def web() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.close()


@pytest.fixture(params=["local", "mapped", "subtree", "fsspec memory", "fsspec counted", "s3", "web"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Source, Any]]:
    """Open one file through every kind of file system, and the functions that read ranges of it."""
    path = tmp_path / "a"
    path.write_bytes(DATA)
    name, filesystem = str(path), None
    if request.param == "subtree":
        filesystem, name = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "a"
    elif request.param == "fsspec memory":
        filesystem = fsspec.filesystem("memory")
        filesystem.pipe_file(name, DATA)
    elif request.param == "fsspec counted":
        filesystem = CountedFileSystem({name: DATA})
    elif request.param == "s3":
        s3 = request.getfixturevalue("s3")
        s3.put("a", DATA)
        filesystem, name = ObjectStores(s3.storage_options), s3.url("a")
    elif request.param == "web":
        server = request.getfixturevalue("web")
        server.pages["/a"] = Page(DATA, '"x"')
        name = f"{server.url}/a"
    with open_source(name, filesystem) as source:
        yield source, source.mapped() if request.param == "mapped" else source


RANGES = [(0, 10), (2_999_990, 10), (7, 0), (5, 100), (5, 100), (1_000_000, 70_000), (3_000_000, 0), (900_000, 32)]


def gathered(reader: Any, pairs: list[tuple[int, int]]) -> bytes:
    offsets, lengths = np.array(pairs, np.int64).reshape(-1, 2).T
    return reader.gather(offsets, lengths).tobytes()


def expected(pairs: list[tuple[int, int]], data: bytes = DATA) -> list[bytes]:
    return [data[offset : offset + length] for offset, length in pairs]


def test_ranges_come_in_the_order_given(opened) -> None:
    source, reader = opened
    assert gathered(reader, RANGES) == b"".join(expected(RANGES))
    assert source.read_ranges(RANGES) == expected(RANGES)
    assert source.read_ranges([]) == []
    assert gathered(reader, []) == b""
    assert source.read_ranges([(3, 0)]) == [b""]


def test_a_pyarrow_file_outlives_its_source_and_has_a_position_of_its_own(opened) -> None:
    source, _ = opened
    if source.name.startswith("/") and source.path is None and not hasattr(source, "fileno"):
        pytest.skip("fsspec's files in memory have one position")
    source.check_unchanged()
    file, other = source.arrow_file(), source.arrow_file()
    source.close()
    assert (file.size(), file.tell(), file.readable(), file.seekable()) == (len(DATA), 0, True, True)
    assert file.read(10) == DATA[:10]
    assert file.tell() == 10
    assert file.read_at(7, 300_000) == DATA[300_000:300_007]
    assert file.seek(-5, os.SEEK_END) == len(DATA) - 5
    assert file.read(100) == DATA[-5:]
    assert file.read(1) == b""
    assert other.read() == DATA
    file.close()
    assert file.closed


def test_thousands_of_ranges(opened) -> None:
    """More than one turn of the compiled loop, and more than the threads take at a time."""
    source, reader = opened
    if "://" in source.name:
        pytest.skip("requests in such numbers take long")
    rng = np.random.default_rng(1)
    pairs = [(int(offset), 32) for offset in rng.integers(0, len(DATA) - 32, 9_000)]
    assert gathered(reader, pairs) == b"".join(expected(pairs))


@pytest.mark.ci
@pytest.mark.parametrize("bad", [(0, 1 << 62), (1 << 62, 1), (-1, 4), (0, -1), (len(DATA), 1), (len(DATA) - 3, 4)])
def test_a_range_outside_the_file(opened, bad: tuple[int, int]) -> None:
    source, reader = opened
    with pytest.raises(TruncatedFileError, match=r"cannot read .* the file has 3000000$") as caught:
        gathered(reader, [(0, 8), bad])
    assert caught.value.path == source.name
    with pytest.raises(TruncatedFileError, match=r"cannot read .* the file has"):
        source.read_ranges([bad])
    assert source.requests <= 1  # that opened it


# ------------------------------------------------------------------------------------------------------------
# Counting
# ------------------------------------------------------------------------------------------------------------


def test_local_requests_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    with open_source(tmp_path / "a") as source:
        assert (source.requests, source.bytes_read) == (0, 0)
        source.read_at(5, 100)
        source.read_at(5, 0)
        assert (source.requests, source.bytes_read) == (1, 100)
        source.read_ranges(RANGES)
        queried = [length for _, length in RANGES if length]
        assert (source.requests, source.bytes_read) == (1 + len(queried), 100 + sum(queried))
        gathered(source.mapped(), RANGES)
        assert source.requests == 1 + len(queried)


def test_remote_requests_are_those_of_the_file_system() -> None:
    filesystem = CountedFileSystem({"a": DATA})
    with open_source("a", filesystem) as source:
        source.read_at(100, 7)
        assert filesystem.ranges_read == [(100, 107)]  # not the 5 MiB that fsspec would read ahead
        pairs = [(i * 70_000, 32) for i in range(40)] + [(40, 10)]
        assert source.read_ranges(pairs) == expected(pairs)
        assert len(filesystem.ranges_read) == 41
        assert source.requests == len(filesystem.ranges_read)
        assert source.bytes_read == sum(end - start for start, end in filesystem.ranges_read) == 7 + 39 * 32 + 50
        assert filesystem.most_at_once <= PARALLEL_REQUESTS


def test_remote_requests_run_side_by_side() -> None:
    """Two requests that wait for each other: one after the other they would wait for ever."""
    filesystem = CountedFileSystem({"a": DATA})
    with open_source("a", filesystem) as source:
        filesystem.expected_at_once = 2
        pairs = [(i * 100_000, 32) for i in range(8)]
        assert source.read_ranges(pairs) == expected(pairs)
    assert filesystem.most_at_once >= 2


def test_files_that_share_one_position_are_read_one_request_at_a_time() -> None:
    """Fsspec's files in memory are one object for all that open them: threads would move each other's position."""
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/shared", DATA)
    with open_source("/shared", memory) as source:
        assert source._side_by_side.name == "NOT"  # type: ignore[attr-defined]
        pairs = [(i * 70_000, 32) for i in range(40)]
        assert source.read_ranges(pairs) == expected(pairs)


def test_counts_of_many_threads_are_exact(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    with open_source(tmp_path / "a") as source:
        workers = [
            threading.Thread(target=lambda: [source.read_at(0, 3) for _ in range(2_000)], daemon=True) for _ in range(8)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert (source.requests, source.bytes_read) == (16_000, 48_000)


# ------------------------------------------------------------------------------------------------------------
# Coalescing
# ------------------------------------------------------------------------------------------------------------


def spans_of(pairs: list[tuple[int, int]], **limits: int) -> list[tuple[int, int, list[int]]]:
    offsets, lengths = np.array(pairs, np.int64).reshape(-1, 2).T
    return [(span.offset, span.length, span.members.tolist()) for span in coalesce(offsets, lengths, **limits)]


@pytest.mark.parametrize(
    ("pairs", "spans"),
    [
        ([], []),
        ([(5, 0)], []),
        ([(0, 10), (10 + GAP_BYTES, 10)], [(0, 20 + GAP_BYTES, [0, 1])]),
        ([(0, 10), (11 + GAP_BYTES, 10)], [(0, 10, [0]), (11 + GAP_BYTES, 10, [1])]),
        ([(50, 10), (0, 10)], [(0, 60, [1, 0])]),
        ([(0, 100), (10, 10), (20, 200)], [(0, 220, [0, 1, 2])]),
        ([(0, 100), (10, 10), (100 + GAP_BYTES, 5)], [(0, 105 + GAP_BYTES, [0, 1, 2])]),
        ([(0, SPAN_BYTES - 10), (SPAN_BYTES - 10, 10)], [(0, SPAN_BYTES, [0, 1])]),
        ([(0, SPAN_BYTES - 10), (SPAN_BYTES - 10, 11)], [(0, SPAN_BYTES - 10, [0]), (SPAN_BYTES - 10, 11, [1])]),
        ([(0, 3 * SPAN_BYTES)], [(0, 3 * SPAN_BYTES, [0])]),
        ([(0, 3 * SPAN_BYTES), (8, 8)], [(0, 3 * SPAN_BYTES, [0]), (8, 8, [1])]),
    ],
)
def test_ranges_that_become_one_request(pairs, spans) -> None:
    assert spans_of(pairs) == spans


@given(
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 300)), max_size=40),
    st.integers(0, 200),
    st.integers(1, 2_000),
)
def test_requests_hold_every_range_and_keep_their_bounds(pairs, gap, limit) -> None:
    spans = spans_of(pairs, gap=gap, limit=limit)
    members = [member for _, _, inside in spans for member in inside]
    assert sorted(members) == [i for i, (_, length) in enumerate(pairs) if length]
    for offset, length, inside in spans:
        covered = sorted((pairs[i][0], pairs[i][0] + pairs[i][1]) for i in inside)
        assert covered[0][0] == offset
        assert max(end for _, end in covered) == offset + length
        assert length <= limit or len(inside) == 1
        reached = covered[0][1]
        for start, end in covered[1:]:
            assert start - reached <= gap
            reached = max(reached, end)
    for (offset, length, _), (after, next_length, _) in pairwise(spans):
        # Nothing is left apart that could have been joined.
        end = max(offset + length, after + next_length)
        assert after - (offset + length) > gap or end - offset > limit or limit < end - offset + gap + 600


# ------------------------------------------------------------------------------------------------------------
# Files that change, and requests that fail
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
def test_a_local_file_cut_meanwhile(tmp_path: Path, mapped: bool) -> None:
    """Also under a mapping, which the system would kill the process for."""
    path = tmp_path / "a"
    path.write_bytes(DATA)
    with open_source(path) as source:
        reader: Any = source.mapped() if mapped else source
        assert gathered(reader, [(2_000_000, 8)]) == DATA[2_000_000:2_000_008]
        os.truncate(path, 1_000_010)
        with pytest.raises(TruncatedFileError, match="truncated meanwhile") as caught:
            gathered(reader, [(10, 32), (1_000_000, 32), (2_000_000, 32)])
        assert caught.value.path == str(path)
        if not mapped:
            assert "read 10 of 32 bytes at offset 1000000" in str(caught.value)


def test_a_mapping_keeps_a_file_that_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(DATA)
    with open_source(path) as source:
        mapped = source.mapped()
        (tmp_path / "b").write_bytes(b"short")
        os.replace(tmp_path / "b", path)
        assert gathered(mapped, [(2_999_000, 100)]) == DATA[2_999_000:2_999_100]


def test_a_mapping_is_made_once_and_closed_with_the_source(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    source = open_source(tmp_path / "a")
    mapped = source.mapped()
    assert source.mapped() is mapped
    assert not mapped.data.flags.writeable
    source.close()
    with pytest.raises(StorageError, match="Bad file descriptor"):
        gathered(mapped, [(0, 8)])
    assert not len(mapped.data)


def test_only_local_files_are_mapped() -> None:
    with (
        open_source("a", CountedFileSystem({"a": DATA})) as source,
        pytest.raises(StorageError, match="a: cannot map: it is not a local file"),
    ):
        source.mapped()


def test_a_remote_file_cut_meanwhile() -> None:
    filesystem = CountedFileSystem({"a": DATA})
    with open_source("a", filesystem) as source:
        filesystem.files["a"] = DATA[:1_000_010]
        with pytest.raises(TruncatedFileError, match="read 10 of 32 bytes at offset 1000000"):
            source.read_ranges([(1_000_000, 32)])
        assert (source.requests, source.bytes_read) == (1, 10)
        # Another thread's file is opened anew, and is no longer the same.
        with pytest.raises((TruncatedFileError, ConcurrentChangeError)):
            source.read_ranges([(i * 100_000, 32) for i in range(25)])


def test_a_remote_request_that_fails() -> None:
    filesystem = CountedFileSystem({"a": DATA})
    pairs = [(i * 100_000, 32) for i in range(25)]
    with open_source("a", filesystem) as source:
        filesystem.failing = {700_000}
        with pytest.raises(StorageError, match=r"a: cannot read at offset 700000: .*injected"):
            source.read_ranges(pairs)
        filesystem.failing.clear()
        assert source.read_ranges(pairs) == expected(pairs)


# ------------------------------------------------------------------------------------------------------------
# The compiled loops
# ------------------------------------------------------------------------------------------------------------


def test_ranges_must_fill_the_array(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    ints = [np.array(numbers, np.int64) for numbers in ([0, 8], [4, 4], [4, -4], [4], [1 << 62, 1 << 62])]
    offsets, lengths, negative, one, huge = ints
    with open_source(tmp_path / "a") as source:
        data, descriptor = source.mapped().data, source.fileno()  # type: ignore[attr-defined]
        for numbers, room in ((lengths, 7), (lengths, 9), (negative, 8), (one, 4), (huge, 8)):
            out = np.zeros(room, np.uint8)
            with pytest.raises(ValueError, match=r"fill|one length"):
                scatter.read_scattered(descriptor, offsets, numbers, out)
            with pytest.raises(ValueError, match=r"fill|one length"):
                scatter.copy_scattered(data, offsets, numbers, out)
        with pytest.raises(ValueError, match="one length"):
            scatter.will_need(descriptor, offsets, one)
        for position in (-1, len(DATA) - 3, 1 << 62):
            with pytest.raises(ValueError, match="range 1 is outside"):
                scatter.copy_scattered(data, np.array([0, position]), lengths, np.zeros(8, np.uint8))
        with pytest.raises(ValueError, match="range 0 is outside"):
            scatter.count_resident(data, np.array([len(DATA)]))
        out = np.zeros(8, np.uint8)
        assert scatter.read_scattered(descriptor, offsets, lengths, out) == 2
        assert out.tobytes() == DATA[0:4] + DATA[8:12]
        assert scatter.count_resident(data, offsets) == 2
        scatter.will_need(descriptor, offsets, lengths)


def test_what_the_system_cannot_give_from_memory_is_read(tmp_path: Path) -> None:
    """After the page cache was emptied the blocks come from the disk (on a file system that has one)."""
    path = tmp_path / "a"
    path.write_bytes(DATA)
    with open_source(path) as source:
        descriptor = source.fileno()  # type: ignore[attr-defined]
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        pairs = [(i * 4_100, 32) for i in range(700)]
        assert source.read_ranges(pairs) == expected(pairs)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        assert gathered(source.mapped(), pairs) == b"".join(expected(pairs))
