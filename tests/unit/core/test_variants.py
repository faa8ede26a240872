"""Variants of the filter, the current format and its drafts: keys, headers, sizes, filters, and old samples."""

from __future__ import annotations

import hashlib
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
from parquet_bloom.core.bloom import sizing
from parquet_bloom.core.bloom.variants import FINAL, NAMED, VARIANTS
from parquet_bloom.metadata.filter_header import read_any, read_header, write_header
from parquet_bloom.types import Variant

WORDS = [b"hello", b"parquet", b"bloom", b"filter"]

# Two files of Apache's parquet-testing with these four strings, and what they were when they were looked at.
SAMPLES = {
    "bloom_filter.bin": ("murmur3+mask+raw", "b37b890afa22e64ea6b5c00c19261f7400820f9d026234d789eda587fd5fba97"),
    "bloom_filter.xxhash.bin": ("final", "1e7e1500b81d0f1b149fa8c3415c0f4c97e0c14cb9c8d125f0baec2b224492bf"),
}

sizes = st.integers(1, 40).map(lambda blocks: 32 * blocks)
keys = st.lists(st.binary(max_size=40), max_size=30)


# ---------------------------------------------------------------------------------------------------- variants


def test_names():
    assert tuple(NAMED) == drafts.NAMES
    for name, variant in NAMED.items():
        assert variant.name == str(variant) == name
        assert Variant.of(name) == Variant.of(variant) == variant
        hash, block, header = drafts.parts(name)
        assert (variant.hash.lower(), variant.block, variant.header) == (hash, block, header)
    assert Variant.of(None) == FINAL == VARIANTS[0] == Variant("XXH64", "multiply-shift", "thrift4")
    assert len(set(VARIANTS)) == len(VARIANTS) == 10


@pytest.mark.parametrize("wrong", ["", "Final", "murmur3", "detect", "murmur3+mask+thrift4", 7, Variant("a", "b", "c")])
def test_no_such_variant(wrong):
    with pytest.raises(ValueError, match=r"there is no variant .*; there are final, murmur3"):
        SplitBlockBloomFilter(32, variant=wrong)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 2**31 - 1) | st.sampled_from([1, 2, 2**31 - 1]))
def test_multiply_shift_finds_the_place_of_the_mask(hashes, num_blocks):
    """For a converted hash the current format selects the draft's block, and the same bits in it."""
    placed = Variant.of("xxh64+mask+raw").placed(np.array(hashes, np.uint64), num_blocks).tolist()
    for hash, result in zip(hashes, placed, strict=True):
        assert oracle.block_index(result, num_blocks) == (hash >> 32) % num_blocks
        assert result & 0xFFFFFFFF == hash & 0xFFFFFFFF
        if num_blocks & (num_blocks - 1) == 0:
            assert (hash >> 32) % num_blocks == (hash >> 32) & (num_blocks - 1)


# ---------------------------------------------------------------------------------------------------- filters


@pytest.mark.parametrize("name", drafts.NAMES)
@given(num_bytes=sizes, inserted=keys, others=keys)
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


VALUES = {
    "INT32": pa.array([1, None, -7, 2**31 - 1], pa.int32()),
    "INT64": pa.array([1, None, -7, 2**62], pa.int64()),
    "DOUBLE": pa.array([1.5, None, -0.0, 1e300], pa.float64()),
    "BYTE_ARRAY": pa.array(["a", None, "ünï", ""], pa.string()),
}


@pytest.mark.parametrize("name", drafts.NAMES)
@pytest.mark.parametrize("physical", VALUES)
def test_types_nulls_and_single_values(name, physical):
    array = VALUES[physical]
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
    if physical in ("INT32", "INT64"):
        assert 2**70 not in bloom_filter
        assert 1.0 in bloom_filter
        with pytest.raises(errors.FilterTypeError):
            bloom_filter.check(["x"])


@pytest.mark.parametrize("name", drafts.NAMES)
def test_threads_insert_and_check_alike(name, monkeypatch):
    monkeypatch.setattr("parquet_bloom.filter._MIN_KEYS", 100)
    values = pa.array(range(1000), pa.int64())
    one, combined = (SplitBlockBloomFilter(2048, variant=name) for _ in range(2))
    one.insert(values)
    combined.insert(values, threads=3)
    assert one == combined
    assert combined.check(values, threads=3).all()


@pytest.mark.parametrize("name", drafts.NAMES)
def test_folded_filters_are_those_filled_at_that_size(name):
    words = [str(i).encode() for i in range(20)]
    large = drafts.filled(name, 2048, words)
    bloom_filter = SplitBlockBloomFilter.from_bitset(large.to_bytes(), variant=name).fold(fpp=0.01)
    assert bloom_filter.variant.name == name
    assert bloom_filter.num_bytes < 2048
    assert bloom_filter.fpp <= 0.01
    assert bloom_filter.to_bytes() == drafts.filled(name, bloom_filter.num_bytes, words).to_bytes()
    odd = SplitBlockBloomFilter(96, variant=name)
    assert odd.fold().num_bytes == 96


def test_merging_takes_one_variant():
    filters = [SplitBlockBloomFilter(64, variant=name) for name in drafts.NAMES]
    for one in filters:
        for other in filters:
            if one is other:
                continue
            with pytest.raises(errors.FilterTypeError, match=r"a filter of variant .* cannot be merged into one of"):
                one.merge(other)
            assert one != other
    left, right, both = (SplitBlockBloomFilter(256, variant="murmur3+mask+raw") for _ in range(3))
    left.insert(["a", "b"])
    right.insert(["c"])
    both.insert(["a", "b", "c"])
    assert left.merge(right) == both


@pytest.mark.parametrize("name", drafts.NAMES)
def test_pickled_and_shown(name):
    bloom_filter = SplitBlockBloomFilter.from_ndv(100, variant=name)
    assert bloom_filter.num_bytes == SplitBlockBloomFilter.from_ndv(100).num_bytes
    bloom_filter.insert(["x"])
    again = pickle.loads(pickle.dumps(bloom_filter))
    assert (again, again.variant) == (bloom_filter, Variant.of(name))
    assert "x" in again
    assert (f"variant {name}" in repr(bloom_filter)) == (name != "final")


# ---------------------------------------------------------------------------------------------------- headers


@pytest.mark.parametrize("name", drafts.NAMES)
@pytest.mark.parametrize("num_bytes", [32, 1024, 2**27])
def test_headers_are_written_and_read(name, num_bytes):
    variant = Variant.of(name)
    data = write_header(num_bytes, variant)
    assert data == drafts.header(num_bytes, variant.header)
    for result in (read_header(data + b"\xff" * 300, variant), read_any(data + b"\xff" * 300)):
        assert (result.num_bytes, result.header_bytes, result.form) == (num_bytes, len(data), variant.header)
        assert (result.algorithm, result.compression, result.problem) == ("BLOCK", "UNCOMPRESSED", None)
    assert read_header(data, variant).hash == {"xxh64": "XXHASH", "murmur3": "MURMUR3"}[drafts.parts(name)[0]]
    assert read_any(data).hash == ("XXHASH" if variant.header == "thrift4" else "XXHASH or MURMUR3")


def test_a_header_of_another_form_is_refused():
    for name in drafts.NAMES:
        for form in {"raw", "thrift3", "thrift4"} - {Variant.of(name).header}:
            with pytest.raises(errors.BrokenFilterError) as caught:
                read_header(drafts.header(64, form), Variant.of(name))
            if name == "final":
                assert "it is a draft's; to read it, name its variant, or 'detect'" in str(caught.value)
            else:
                assert f"variant {name} has another" in str(caught.value)


@pytest.mark.parametrize(
    "numbers",
    [
        *((size, 0, 0) for size in (-1, -32, -(2**31), 0, 16, 31, 96, 2**31 - 32)),
        *((64, 1, 0), (64, 0, 1), (64, -1, 0), (2**30, 0, 2**30)),
    ],
)
def test_raw_headers_that_cannot_be(numbers):
    data = struct.pack("<iii", *numbers) + bytes(100)
    for variant in VARIANTS:
        with pytest.raises(errors.BrokenFilterError):
            read_header(data, variant)
    with pytest.raises(errors.BrokenFilterError):
        read_any(data)


@pytest.mark.parametrize("name", drafts.NAMES)
def test_headers_cut_short(name):
    data = write_header(2**20, Variant.of(name))
    for length in range(len(data)):
        with pytest.raises(errors.BrokenFilterError):
            read_header(data[:length], Variant.of(name))


def test_a_remainder_wants_a_power_of_two_in_a_file():
    """A writer used `upper & (z - 1)`, the draft says remainder: they differ for sizes that the format excluded."""
    with pytest.raises(errors.BrokenFilterError, match="powers of two alone"):
        read_header(drafts.header(96, "thrift3"), Variant.of("xxh64+mask+thrift3"))
    assert read_header(drafts.header(96, "thrift3"), Variant.of("xxh64+multiply-shift+thrift3")).num_bytes == 96


def test_thrift_headers_that_cannot_be_used():
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


def test_four_words():
    """The rules of the samples, tested without the samples."""
    for name, words in (("murmur3+mask+raw", WORDS), ("final", WORDS)):
        bloom_filter = SplitBlockBloomFilter(1024, variant=name)
        bloom_filter.insert(pa.array(words))
        assert bloom_filter.to_bytes(header=True) == drafts.filled(name, 1024, words).with_header()


@pytest.mark.parametrize("sample", SAMPLES)
def test_four_words_hash_to_the_samples(sample):
    name, digest = SAMPLES[sample]
    bloom_filter = SplitBlockBloomFilter(1024, variant=name)
    bloom_filter.insert(pa.array(WORDS))
    assert hashlib.sha256(bloom_filter.to_bytes(header=True)).hexdigest() == digest


@pytest.mark.parametrize("sample", SAMPLES)
def test_samples_are_rebuilt_and_read(sample, corpus):
    data, (name, digest) = (corpus / sample).read_bytes(), SAMPLES[sample]
    assert hashlib.sha256(data).hexdigest() == digest
    built = SplitBlockBloomFilter(1024, variant=name)
    built.insert(pa.array(WORDS))
    assert built.to_bytes(header=True) == data
    bloom_filter = SplitBlockBloomFilter.from_bytes(data, variant=name)
    assert bloom_filter == built
    assert bloom_filter.check(pa.array(WORDS)).all()
    assert not bloom_filter.check(pa.array([b"Hello", b"parque", b"blossom", b""])).any()


def test_entire_bitsets_that_are_not_filters():
    good = SplitBlockBloomFilter(64, variant="murmur3+mask+raw").to_bytes(header=True)
    assert SplitBlockBloomFilter.from_bytes(memoryview(good), variant="murmur3+mask+raw").num_bytes == 64
    for data in (b"", good[:-1], good + b"\x00", good[:12]):
        with pytest.raises(errors.BrokenFilterError):
            SplitBlockBloomFilter.from_bytes(data, variant="murmur3+mask+raw")
    with pytest.raises(errors.BrokenFilterError, match="it is a draft's"):
        SplitBlockBloomFilter.from_bytes(good)


# ---------------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("ndv", "fpp", "num_bytes"),
    [
        *((0, 0.01, 32), (1, 0.01, 32), (26, 0.01, 32), (27, 0.01, 64), (1000, 0.01, 2048), (10_000, 0.05, 16384)),
        *((1_000_000, 0.01, 2**21), (1_000_000, 0.001, 2**21), (10**9, 0.01, 2**27), (10**18, 0.5, 2**27)),
    ],
)
def test_sizes_by_the_drafts_formula(ndv, fpp, num_bytes):
    assert sizing.draft_size_for(ndv, fpp) == num_bytes
    bits = -8 * ndv / np.log(1 - fpp ** (1 / 8))
    assert num_bytes in (32, 2**27) or num_bytes * 4 < int(bits) <= num_bytes * 8


def test_the_fraction_of_a_bit_is_cut_off():
    """256.9 bits are truncated to 256, which are 32 bytes."""
    fpp = (1 - np.exp(-8 / 256.9)) ** 8
    assert sizing.draft_size_for(1, fpp) == 32
    assert sizing.draft_size_for(1, (1 - np.exp(-8 / 257.1)) ** 8) == 64


@pytest.mark.parametrize(("ndv", "fpp"), [(-1, 0.1), (float("nan"), 0.1), (1, 0), (1, 1), (1, float("nan"))])
def test_sizes_that_make_no_sense(ndv, fpp):
    with pytest.raises(ValueError):
        sizing.draft_size_for(ndv, fpp)


def test_public_names():
    assert parquet_bloom.types.Variant is Variant
