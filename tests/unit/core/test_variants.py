"""Variants of the filter, the current format and its drafts: keys, headers, filters, and old samples."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import oracle
from support.writers import drafts

import parquet_bloom
from parquet_bloom import SplitBlockBloomFilter, errors
from parquet_bloom.core.bloom.variants import FINAL, NAMED, VARIANTS
from parquet_bloom.metadata.filter_header import read_any, read_header, write_header
from parquet_bloom.types import Variant

keys = st.lists(st.binary(max_size=40), max_size=30)
each_variant = pytest.mark.parametrize("name", drafts.NAMES)


def test_names():
    assert parquet_bloom.types.Variant is Variant
    assert tuple(NAMED) == drafts.NAMES
    for name, variant in NAMED.items():
        assert variant.name == str(variant) == name
        assert Variant.of(name) == Variant.of(variant) == variant
        assert (variant.hash.lower(), variant.block, variant.header) == drafts.parts(name)
    assert Variant.of(None) == FINAL == VARIANTS[0] == Variant("XXH64", "multiply-shift", "thrift4")
    assert len(set(VARIANTS)) == len(VARIANTS) == 10
    for wrong in ("", "Final", "murmur3", "detect", "murmur3+mask+thrift4", 7, Variant("a", "b", "c")):
        with pytest.raises(ValueError, match=r"there is no variant .*; there are final, murmur3"):
            SplitBlockBloomFilter(32, variant=wrong)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 2**31 - 1) | st.sampled_from([1, 2, 2**31 - 1]))
def test_multiply_shift_finds_the_place_of_the_mask(hashes, num_blocks):
    """For a converted hash the current format selects the draft's block, and the same bits in it."""
    placed = Variant.of("xxh64+mask+raw").placed(np.array(hashes, np.uint64), num_blocks).tolist()
    for hash, result in zip(hashes, placed, strict=True):
        assert oracle.block_index(result, num_blocks) == (hash >> 32) % num_blocks
        assert result & 0xFFFFFFFF == hash & 0xFFFFFFFF


# ---------------------------------------------------------------------------------------------------- filters


@pytest.mark.ci
@each_variant
@given(num_bytes=st.integers(1, 40).map(lambda blocks: 32 * blocks), inserted=keys, others=keys)
def test_filters_are_those_of_the_twin(name, num_bytes, inserted, others):
    expected = drafts.filled(name, num_bytes, inserted)
    bloom_filter = SplitBlockBloomFilter(num_bytes, variant=name)
    bloom_filter.insert(pa.array(inserted, pa.binary()))
    assert bloom_filter.variant.name == name
    assert bloom_filter.to_bytes() == expected.to_bytes()
    assert bloom_filter.to_bytes(header=True) == expected.with_header()
    queried = inserted + others
    answers = [expected.check(key) for key in queried]
    assert bloom_filter.check(pa.array(queried, pa.binary())).tolist() == answers
    assert [key in bloom_filter for key in queried] == answers
    hashes = np.array([expected.hash(key) for key in queried], np.uint64)
    assert bloom_filter.check_hashes(hashes).tolist() == answers
    again = SplitBlockBloomFilter(num_bytes, variant=name)
    again.insert_hashes(hashes[: len(inserted)])
    assert again.to_bytes() == expected.to_bytes()


@each_variant
def test_types_nulls_and_single_values(name):
    for physical, array in {
        "INT32": pa.array([1, None, -7, 2**31 - 1], pa.int32()),
        "INT64": pa.array([1, None, -7, 2**62], pa.int64()),
        "DOUBLE": pa.array([1.5, None, -0.0, 1e300], pa.float64()),
        "BYTE_ARRAY": pa.array(["a", None, "ünï", ""], pa.string()),
    }.items():
        plain = [oracle.plain(value, physical) for value in array.to_pylist() if value is not None]
        bloom_filter = SplitBlockBloomFilter(256, variant=name)
        bloom_filter.insert(array)
        assert bloom_filter.to_bytes() == drafts.filled(name, 256, plain).to_bytes()
        assert bloom_filter.check(array).all()  # a null is never looked up in a filter
        assert all(value in bloom_filter for value in array.to_pylist())
        absent = pa.array([value * 3 for value in array.drop_null().to_pylist()[:1]] + [None], array.type)
        assert bloom_filter.check(absent).tolist() == [False, True]
        assert absent[0].as_py() not in bloom_filter
        if physical == "DOUBLE":
            assert 0.0 in bloom_filter  # under the sign it was not inserted with
            assert bloom_filter.check([0.0, float("nan")]).all()
        elif physical != "BYTE_ARRAY":
            assert 2**70 not in bloom_filter
            assert 1.0 in bloom_filter
            with pytest.raises(errors.FilterTypeError):
                bloom_filter.check(["x"])


@pytest.mark.ci
@each_variant
def test_threads_insert_and_check_alike(name):
    values = pa.array(np.arange(1_200_000))  # enough for two threads
    one, combined = (SplitBlockBloomFilter(1 << 16, variant=name) for _ in range(2))
    one.insert(values)
    combined.insert(values, threads=2)
    assert one == combined
    assert combined.check(values, threads=2).all()


@each_variant
def test_filters_are_folded_pickled_and_shown(name):
    words = [str(i).encode() for i in range(20)]
    large = drafts.filled(name, 2048, words)
    folded = SplitBlockBloomFilter.from_bitset(large.to_bytes(), variant=name).fold(fpp=0.01)
    assert folded.variant.name == name
    assert folded.num_bytes < 2048
    assert folded.fpp <= 0.01
    assert folded.to_bytes() == drafts.filled(name, folded.num_bytes, words).to_bytes()
    assert SplitBlockBloomFilter(96, variant=name).fold().num_bytes == 96
    bloom_filter = SplitBlockBloomFilter.from_ndv(100, variant=name)
    assert bloom_filter.num_bytes == SplitBlockBloomFilter.from_ndv(100).num_bytes
    bloom_filter.insert(["x"])
    again = pickle.loads(pickle.dumps(bloom_filter))
    assert (again, again.variant) == (bloom_filter, Variant.of(name))
    assert "x" in again
    assert (f"variant {name}" in repr(bloom_filter)) == (name != "final")


def test_merging_takes_one_variant():
    filters = [SplitBlockBloomFilter(64, variant=name) for name in drafts.NAMES]
    for one, other in itertools.permutations(filters, 2):
        with pytest.raises(errors.FilterTypeError, match=r"a filter of variant .* cannot be merged into one of"):
            one.merge(other)
        assert one != other
    left, right, both = (SplitBlockBloomFilter(256, variant="murmur3+mask+raw") for _ in range(3))
    left.insert(["a", "b"])
    right.insert(["c"])
    both.insert(["a", "b", "c"])
    assert left.merge(right) == both


# ---------------------------------------------------------------------------------------------------- headers


@each_variant
def test_headers_are_written_and_read(name):
    variant = Variant.of(name)
    for num_bytes in (32, 1024, 2**27):
        data = write_header(num_bytes, variant)
        assert data == drafts.header(num_bytes, variant.header)
        for result in (read_header(data + b"\xff" * 300, variant), read_any(data + b"\xff" * 300)):
            assert (result.num_bytes, result.header_bytes, result.form) == (num_bytes, len(data), variant.header)
            assert (result.algorithm, result.compression, result.problem) == ("BLOCK", "UNCOMPRESSED", None)
        assert read_header(data, variant).hash == {"xxh64": "XXHASH", "murmur3": "MURMUR3"}[drafts.parts(name)[0]]
        assert read_any(data).hash == ("XXHASH" if variant.header == "thrift4" else "XXHASH or MURMUR3")
        for length in range(len(data)):
            with pytest.raises(errors.BrokenFilterError):
                read_header(data[:length], variant)
    for form in {"raw", "thrift3", "thrift4"} - {variant.header}:
        problem = "it is a draft's; to read it, name its variant" if name == "final" else f"variant {name} has another"
        with pytest.raises(errors.BrokenFilterError) as caught:
            read_header(drafts.header(64, form), variant)
        assert problem in str(caught.value)


def test_headers_that_cannot_be_are_refused():
    for numbers in (
        *((size, 0, 0) for size in (-1, -32, -(2**31), 0, 16, 31, 96, 2**31 - 32)),
        *((64, 1, 0), (64, 0, 1), (64, -1, 0), (2**30, 0, 2**30)),
    ):
        data = struct.pack("<iii", *numbers) + bytes(100)
        for read in (read_any, *(lambda data, variant=variant: read_header(data, variant) for variant in VARIANTS)):
            with pytest.raises(errors.BrokenFilterError):
                read(data)
    # A writer used `upper & (z - 1)`, the draft says remainder: they differ for sizes that the format excluded.
    with pytest.raises(errors.BrokenFilterError, match="powers of two alone"):
        read_header(drafts.header(96, "thrift3"), Variant.of("xxh64+mask+thrift3"))
    assert read_header(drafts.header(96, "thrift3"), Variant.of("xxh64+multiply-shift+thrift3")).num_bytes == 96
    for field in (2, 3):
        header = oracle.filter_header(64)
        del header[4]
        header[field] = (oracle.STRUCT, oracle.Struct({2: (oracle.STRUCT, oracle.Struct())}))
        assert "unknown (field 2)" in read_header(oracle.write_struct(header), NAMED["xxh64+mask+thrift3"]).problem
    for num_bytes in (-64, 0, 16):
        header = oracle.filter_header(num_bytes)
        del header[4]
        assert "at least 32" in read_header(oracle.write_struct(header), NAMED["xxh64+multiply-shift+thrift3"]).problem


@given(st.binary(max_size=40), st.sampled_from(VARIANTS))
def test_noise_is_not_a_header(data, variant):
    for start in (b"", struct.pack("<i", 64), b"\x15\x80\x10\x1c"):
        for read in (read_any, lambda data: read_header(data, variant)):
            try:
                header = read(start + data)
            except errors.BrokenFilterError:
                continue
            assert 0 < header.header_bytes <= len(start + data)


# ---------------------------------------------------------------------------------------------------- samples


@pytest.mark.parametrize(
    ("sample", "name", "digest"),
    [
        ("bloom_filter.bin", "murmur3+mask+raw", "b37b890afa22e64ea6b5c00c19261f7400820f9d026234d789eda587fd5fba97"),
        ("bloom_filter.xxhash.bin", "final", "1e7e1500b81d0f1b149fa8c3415c0f4c97e0c14cb9c8d125f0baec2b224492bf"),
    ],
)
def test_samples_of_parquet_testing_are_rebuilt_and_read(sample, name, digest, request):
    """Two files of Apache's with four strings, by what they were when they were looked at, and where they are here."""
    words = pa.array([b"hello", b"parquet", b"bloom", b"filter"])
    built = SplitBlockBloomFilter(1024, variant=name)
    built.insert(words)
    data = built.to_bytes(header=True)
    assert hashlib.sha256(data).hexdigest() == digest
    assert data == drafts.filled(name, 1024, words.to_pylist()).with_header()
    bloom_filter = SplitBlockBloomFilter.from_bytes(data, variant=name)
    assert bloom_filter == built
    assert bloom_filter.check(words).all()
    assert not bloom_filter.check(pa.array([b"Hello", b"parque", b"blossom", b""])).any()
    assert (request.getfixturevalue("corpus") / sample).read_bytes() == data


def test_entire_bitsets_that_are_not_filters():
    good = SplitBlockBloomFilter(64, variant="murmur3+mask+raw").to_bytes(header=True)
    assert SplitBlockBloomFilter.from_bytes(memoryview(good), variant="murmur3+mask+raw").num_bytes == 64
    for data in (b"", good[:-1], good + b"\x00", good[:12]):
        with pytest.raises(errors.BrokenFilterError):
            SplitBlockBloomFilter.from_bytes(data, variant="murmur3+mask+raw")
    with pytest.raises(errors.BrokenFilterError, match="it is a draft's"):
        SplitBlockBloomFilter.from_bytes(good)
