"""The kernels of every instruction set of this processor: the same results, and no reads outside of keys."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import subprocess
import sys
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest
from support.oracle import oracle

from parquet_bloom.core import dispatch
from parquet_bloom.core.cpu import instruction_sets
from parquet_bloom.core.hash import murmur3
from parquet_bloom.core.hash.xxh64 import Keys

PATHS = [*instruction_sets(), "base"]
PAGE = mmap.PAGESIZE
PROT_NONE = 0


@pytest.fixture(params=PATHS)
def kernels(request):
    return import_module(f"parquet_bloom.core.kernels.{request.param}")


def variable(values: list[bytes], wide: bool = False) -> Keys:
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64 if wide else np.int32)
    return Keys.variable(offsets, b"".join(values), len(values), wide=wide)


def views(values: list[bytes | None], offset: int = 0) -> Keys:
    array = pa.array(values, pa.binary_view())[offset:]
    validity, positions, *buffers = array.buffers()
    return Keys.views(positions, buffers, len(array), array.offset, validity)


def test_strings_of_one_length(kernels):
    """Enough keys for every vector width, and a rest for the scalar loop."""
    for length in range(131):
        rng = random.Random(length)
        values = [rng.randbytes(length) for _ in range(70)]
        expected = [oracle.xxh64(value) for value in values]
        assert kernels.hash_keys(variable(values)).tolist() == expected
        assert kernels.hash_keys(variable(values, wide=True)).tolist() == expected
        assert kernels.hash_keys(views(values)).tolist() == expected
        if length:
            assert kernels.hash_keys(Keys.fixed(b"".join(values), length, 70)).tolist() == expected
            assert kernels.hash_keys(Keys.fixed(b"".join(values), length, 60, 7)).tolist() == expected[7:67]


def test_strings_of_mixed_lengths(kernels):
    for longest in (3, 8, 12, 13, 31, 32, 40, 130, 1000):
        rng = random.Random(longest)
        values = [rng.randbytes(rng.randint(0, longest)) for _ in range(1000)]
        expected = [oracle.xxh64(value) for value in values]
        assert kernels.hash_keys(variable(values)).tolist() == expected
        assert kernels.hash_keys(views(values)).tolist() == expected
        assert kernels.hash_keys(views(values, 77)).tolist() == expected[77:]
    for position in range(16):  # groups of keys of equal length are hashed by a separate code path
        for other in (0, 1, 7, 8, 35, 37, 68, 100):
            values = [rng.randbytes(36) for _ in range(16)]
            values[position] = rng.randbytes(other)
            assert kernels.hash_keys(variable(values)).tolist() == [oracle.xxh64(value) for value in values]


def test_keys_offsets_and_views_at_any_address(kernels):
    for width in (4, 8, 12, 16, 17):
        for shift in (0, 1, 4, 8, 16, 63):
            raw = random.Random(width).randbytes(64 + shift + width * 300)
            keys = Keys.fixed(memoryview(raw)[shift:], width, 300)
            expected = [oracle.xxh64(raw[shift + width * i : shift + width * (i + 1)]) for i in range(300)]
            assert kernels.hash_keys(keys).tolist() == expected
    values = [bytes([i]) * (i % 40) for i in range(200)]
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    expected = [oracle.xxh64(value) for value in values]
    odd = memoryview(b"#" + offsets.tobytes())[1:]
    assert kernels.hash_keys(Keys.variable(odd, b"".join(values), 200)).tolist() == expected
    _, positions, *buffers = pa.array(values, pa.binary_view()).buffers()
    odd = memoryview(b"#" + positions.to_pybytes())[1:]
    assert kernels.hash_keys(Keys.views(odd, buffers, 200)).tolist() == expected


@pytest.mark.ci
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 127, 128, 129, 5000])
@pytest.mark.parametrize("num_blocks", [1, 3, 1024, 2**16 + 1])
def test_the_bits_and_the_answers_are_the_same_on_all_paths(kernels, count, num_blocks):
    """The largest filter is one whose blocks are prefetched."""
    base = import_module("parquet_bloom.core.kernels.base")
    rng = np.random.default_rng(count)
    numbers = rng.integers(0, 2**63, count)
    texts = [rng.bytes(int(length)) for length in rng.integers(0, 50, count)]
    validity = np.packbits(rng.integers(0, 2, count + 3, dtype=np.uint8), bitorder="little").tobytes()
    for keys in (
        Keys.fixed(numbers, 8, count),
        Keys.fixed(numbers, 8, max(0, count - 3), min(count, 3), validity),
        Keys.fixed(numbers.astype(np.int32), 4, count),
        Keys.hashed(numbers.astype(np.uint64)),
        variable(texts),
        views([text if i % 3 else None for i, text in enumerate(texts)]),
    ):
        expected, result = np.zeros(32 * num_blocks, np.uint8), np.zeros(32 * num_blocks, np.uint8)
        base.insert_keys(expected, keys)
        kernels.insert_keys(result, keys)
        assert np.array_equal(expected, result)
        again, fresh, seen = np.zeros_like(result), *np.empty((2, count), np.uint64)
        num_fresh, num_seen = kernels.insert_new(again, keys, fresh, seen)
        assert np.array_equal(expected, again)
        assert sorted([*fresh[:num_fresh], *seen[:num_seen]]) == sorted(base.hash_keys(keys))
        assert len(set(fresh[:num_fresh])) == num_fresh
        one_by_one, new = np.zeros_like(result), []
        for key in base.hash_keys(keys)[:200]:
            one = Keys.hashed(np.array([key]))
            new += [] if base.check_keys(one_by_one, one)[0] else [key]
            base.insert_keys(one_by_one, one)
        assert fresh[: len(new)].tolist() == new
        half = result & rng.integers(0, 256, len(result), dtype=np.uint8)  # so that some are absent
        assert np.array_equal(base.check_keys(half, keys), kernels.check_keys(half, keys))
        assert kernels.check_keys(result, keys).all()


def guarded(data: bytes, *, at_end: bool) -> memoryview:
    """Place `data` in memory right before (or after) an unreadable page."""
    pages = (len(data) + PAGE - 1) // PAGE + 2
    memory = mmap.mmap(-1, pages * PAGE)
    start = (pages - 1) * PAGE - len(data) if at_end else PAGE
    memory[start : start + len(data)] = data
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for page in (0, pages - 1):
        assert libc.mprotect(ctypes.c_void_p(address + page * PAGE), ctypes.c_size_t(PAGE), PROT_NONE) == 0
    return memoryview(memory)[start : start + len(data)]


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
def test_the_guard_guards():
    """The following tests rely on this: reading one byte further kills the process."""
    script = (
        "import sys, ctypes, runpy; sys.path[:0] = sys.argv[2:]; guarded = runpy.run_path(sys.argv[1])['guarded']\n"
        "view = guarded(bytes(10), at_end=True); start = ctypes.addressof(ctypes.c_char.from_buffer(view))\n"
        "ctypes.string_at(start, 10); print('alive', flush=True); ctypes.string_at(start, 11)"
    )
    command = [sys.executable, "-c", script, __file__, *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "alive\n", done.stderr
    assert done.returncode != 0


@pytest.mark.parametrize("wide", [False, True])
def test_strings_behind_their_lengths(kernels, wide):
    """As plain-encoded byte arrays are: bytes in front of each key belong to none."""
    rng = random.Random(12)
    for length in (None, 0, 1, 7, 36, 40):
        values = [rng.randbytes(rng.choice([0, 3, 36, 36, 100]) if length is None else length) for _ in range(150)]
        data = b"".join(len(value).to_bytes(4, "little") + value for value in values)
        offsets = np.cumsum([0, *(4 + len(value) for value in values)]).astype(np.int64 if wide else np.int32)
        keys = Keys.variable(offsets, data, 150, wide=wide, lead=4)
        assert kernels.hash_keys(keys).tolist() == [oracle.xxh64(value) for value in values]
        used = Keys.variable(offsets, data, 100, 3, bytes([0b10110101] * 13), wide, 4)
        kept = [value for i, value in enumerate(values[3:103], 3) if 0b10110101 >> i % 8 & 1]
        assert kernels.hash_keys(used).tolist() == [oracle.xxh64(value) for value in kept]
        assert murmur3.hash_keys(keys).tolist() == [murmur3.hash_one(value) for value in values]
    offsets[70] = offsets[69] + 3
    with pytest.raises(ValueError, match="the offsets fall"):
        Keys.variable(offsets, data, 150, wide=wide, lead=4)
    with pytest.raises(ValueError, match="must not be negative"):
        Keys.variable(offsets, data, 150, wide=wide, lead=-1)


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_is_read_beside_the_keys(kernels, at_end):
    rng = random.Random(11)
    bitset = np.zeros(64, np.uint8)
    for length in (*range(72), *range(72, 131, 5)):
        for count in (1, 16, 35):
            values = [rng.randbytes(length) for _ in range(count)]
            mixed = [rng.randbytes(rng.randint(0, length)) for _ in range(count - 1)] + [values[-1]]
            for strings in (values, mixed, mixed[::-1]):
                data = guarded(b"".join(strings), at_end=at_end)
                offsets = np.cumsum([0, *map(len, strings)])
                expected = [oracle.xxh64(value) for value in strings]
                for width in (np.int32, np.int64):
                    positions = guarded(offsets.astype(width).tobytes(), at_end=at_end)
                    keys = Keys.variable(positions, data, count, wide=width is np.int64)
                    assert kernels.hash_keys(keys).tolist() == expected
                    kernels.insert_keys(bitset, keys)
                    assert kernels.check_keys(bitset, keys).all()
                _, positions, *buffers = pa.array(strings, pa.binary_view()).buffers()
                buffers = [guarded(buffer.to_pybytes(), at_end=at_end) for buffer in buffers]
                keys = Keys.views(guarded(positions.to_pybytes(), at_end=at_end), buffers, count)
                assert kernels.hash_keys(keys).tolist() == expected
            if length:
                fixed = Keys.fixed(guarded(b"".join(values), at_end=at_end), length, count)
                assert kernels.hash_keys(fixed).tolist() == [oracle.xxh64(value) for value in values]


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
def test_nothing_is_read_beside_bitmap_and_bitset(kernels):
    rng = np.random.default_rng(3)
    for count in (*range(1, 20), 63, 64, 65, 200):
        for offset in (0, 1, 7, 8):
            numbers = guarded(rng.bytes(8 * (count + offset)), at_end=True)
            validity = guarded(rng.bytes((count + offset + 7) // 8), at_end=True)
            keys = Keys.fixed(numbers, 8, count, offset, validity)
            for at_end in (False, True):
                bitset = np.frombuffer(guarded(bytes(96), at_end=at_end), np.uint8)
                kernels.insert_keys(bitset, keys)
                assert kernels.check_keys(bitset, keys).all()


def test_views_that_do_not_fit_are_refused():
    for view in (
        *((-1, 0, 0, 0), (13, 0, 1, 0), (13, 0, -1, 0), (13, 0, 0, -1), (13, 0, 0, 8)),
        (2**31 - 1, 0, 0, 2**31 - 1),
    ):
        raw = np.array([[3, 0, 0, 0], view], np.int32).tobytes()
        with pytest.raises(ValueError, match="outside"):
            Keys.views(raw, [bytes(20)], 2)
        keys = Keys.views(raw, [bytes(20)], 2, 0, b"\x01")  # under a null it says nothing
        assert dispatch.kernels.hash_keys(keys).tolist() == [oracle.xxh64(bytes(3))]
    for arguments in ((bytes(31), [], 2), (bytes(32), [], 1, 2)):
        with pytest.raises(ValueError, match="do not fit"):
            Keys.views(*arguments)
    with pytest.raises(ValueError, match="not be negative"):
        Keys.views(bytes(32), [], -1)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_can_be_forced(path):
    script = "from parquet_bloom.core.dispatch import SIMD; print(SIMD)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), dispatch.VARIABLE: path}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == path


def test_a_path_that_cannot_be_is_refused_by_name():
    with pytest.raises(ImportError, match=r"PARQUET_BLOOM_SIMD=mmx is not supported: .*base"):
        dispatch.choose("mmx")
