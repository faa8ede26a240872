"""Filter memory: aligned, zeroed, not touched before use, released, and an error if there is not enough."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom import memory, sbbf
from parquet_bloom.core.bloom.memory import Memory

HUGE = 2 << 20
SMAPS = Path("/proc/self/smaps")
linux = pytest.mark.skipif(not SMAPS.is_file(), reason="there is no /proc/self/smaps")


def address(buffer: object) -> int:
    return np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]


def alignment(num_bytes: int) -> int:
    return HUGE if num_bytes >= HUGE and SMAPS.is_file() else 64


@pytest.mark.ci
def test_memory_is_aligned_and_zero():
    for num_bytes in (1, 31, 32, 63, 64, 65, 4096, 100_000, HUGE - 1, HUGE, HUGE + 1, 5 * HUGE + 32):
        stored = [Memory(num_bytes) for _ in range(4)]
        for one in stored:
            assert address(one) % alignment(num_bytes) == 0
            view = memoryview(one)
            assert (view.nbytes, view.readonly, view.format, one.num_bytes) == (num_bytes, False, "B", num_bytes)
            assert not np.frombuffer(one, np.uint8).any()
            view[:] = b"\xff" * num_bytes  # all of it is there, and that of the others is other memory
        del one, view, stored
        gc.collect()
        assert not memory.zeros(num_bytes).any()  # also when it was used before


def test_every_filter_of_its_own_bytes_is_aligned():
    for num_bytes in (32, 96, 4096, HUGE - 32, HUGE, HUGE + 32):
        bloom_filter = SplitBlockBloomFilter(num_bytes)
        unaligned = memoryview(bytearray(num_bytes + 1))[1:]
        for own in (
            bloom_filter,
            SplitBlockBloomFilter.from_bitset(unaligned, copy=True),
            bloom_filter.__reduce__()[0](*bloom_filter.__reduce__()[1]),
            SplitBlockBloomFilter(2 * num_bytes).fold(0.5),
            SplitBlockBloomFilter.from_bitset(unaligned).fold(0.5),
        ):
            assert address(own) % alignment(own.num_bytes) == 0
            assert not own.readonly
            assert own.fill == 0
    assert address(sbbf.fold(bytes(128))) % 64 == 0


@linux
def test_large_memory_asks_for_huge_pages_and_is_not_touched():
    large = SplitBlockBloomFilter(16 * HUGE)

    def mapping() -> dict[str, str]:
        """Return the kernel's data on the mapping of the filter."""
        for part in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", SMAPS.read_text()):
            start, end = (int(number, 16) for number in part.split(" ", 1)[0].split("-"))
            if start <= address(large) < end:
                return dict(line.split(":", 1) for line in part.splitlines()[1:])
        raise AssertionError("no mapping")

    if "hg" not in mapping()["VmFlags"].split():
        pytest.skip("this kernel has no huge pages")
    assert mapping()["Rss"].strip() == "0 kB"
    assert b"absent" not in large  # a probe is not a change, and yet it may bring one page
    large.insert_hashes(np.zeros(1, np.uint64))
    assert mapping()["Rss"].strip() != "0 kB"


@pytest.mark.ci
def test_views_keep_the_memory():
    bloom_filter = SplitBlockBloomFilter(HUGE)
    bloom_filter.insert_hashes(np.arange(1000, dtype=np.uint64))
    expected, view = bloom_filter.to_bytes(), memoryview(bloom_filter)
    bloom_filter.__init__(64)  # the filter takes other memory; what was given out stays
    assert bloom_filter.num_bytes == 64
    assert not bloom_filter.check_hashes(np.arange(1000, dtype=np.uint64)).any()
    del bloom_filter
    gc.collect()
    assert bytes(view) == expected


def test_impossible_requests_are_refused():
    for num_bytes in (0, -1, -(2**63)):
        with pytest.raises(ValueError, match="1 byte"):
            Memory(num_bytes)
    for num_bytes in (1 << 56, 1 << 62, 2**63 - 1):
        for make in (Memory, memory.zeros):
            with pytest.raises(MemoryError):
                make(num_bytes)


@pytest.mark.ci
@linux
def test_memory_is_given_back_and_refused_in_time():
    script = """
import resource, pickle
from parquet_bloom import SplitBlockBloomFilter
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20),) * 2)
for _ in range(30):  # given back each time
    made = SplitBlockBloomFilter(128 << 20)
    small = [SplitBlockBloomFilter(1 << 20) for _ in range(100)]
    del made, small
held = SplitBlockBloomFilter(128 << 20)
for make in (
    lambda: SplitBlockBloomFilter(1 << 30),
    lambda: SplitBlockBloomFilter.from_ndv(1e9),
    lambda: SplitBlockBloomFilter.from_bitset(held, copy=True),
    lambda: [SplitBlockBloomFilter(1 << 20) for _ in range(400)],
):
    kept = []
    try:
        kept.append(make())
        kept.append(make())
    except MemoryError:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["refused"] * 4), done.stderr


def test_copies():
    for data in (b"a", b"abc" * 1000, np.arange(HUGE, dtype=np.uint8), memoryview(b"xyz")[1:]):
        created = memory.copied(data)
        assert created.tobytes() == bytes(data)
        assert created.flags.writeable
        assert address(created) % 64 == 0
    with pytest.raises(ValueError):
        memory.copied(b"")
