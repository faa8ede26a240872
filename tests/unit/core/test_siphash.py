"""SipHash, compared with the vectors of its reference programs, with Python's, and with a twin in plain Python."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.core.hash.siphash import fingerprints, hash_words, siphash

MASK = 2**64 - 1
NUMBERS = st.integers(0, MASK)


def twin(data: bytes, k0: int, k1: int, rounds: int = 1, last_rounds: int = 3) -> int:
    """Hash word by word, as in the paper."""
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def mix() -> None:
        for a, b, bits in ((0, 1, 13), (2, 3, 16), (0, 3, 21), (2, 1, 17)):
            v[a] = (v[a] + v[b]) & MASK
            v[b] = ((v[b] << bits) | (v[b] >> (64 - bits))) & MASK ^ v[a]
            if b == 1:
                v[a] = ((v[a] << 32) | (v[a] >> 32)) & MASK

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        for _ in range(rounds):
            mix()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(last_rounds):
        mix()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_published_vectors() -> None:
    """Of 0, 1, 2 ... bytes that count from 0, each as 8 little-endian bytes (test_siphash_1_3 of Rust's library)."""
    vectors = """
dcc40f055801acab 93ca577df39bf4c9 4dd4c74d029bcb82 fbf7dde7b80af88b 2883d388605775cf 673b53492fd5f9de a7229fc5502b0dc5
4011b19b987d92d3 8e9a298d11959036 e43d066cb38ea425 7f09ff92ee85de79 52c34df9c118c170 a2d9b457b184a378 a7ff29120c766f30
345df9c011a15a60 5699512a6dd820d3 668b907d1add4fcc 0cd8db639068f29c 3ee673b49c38fc8f 1c7d298de59d1ff2 40e0cca6462fdcc0
"""
    k0, k1 = 0x0706050403020100, 0x0F0E0D0C0B0A0908
    for length, vector in enumerate(vectors.split()):
        assert siphash(bytes(range(length)), k0, k1).to_bytes(8, "little").hex() == vector
    # From the paper's appendix (15 bytes), and the first of the reference program's.
    assert siphash(bytes(range(15)), k0, k1, 2, 4) == 0xA129CA6149BE45E5
    assert siphash(b"", k0, k1, 2, 4) == 0x726FDB47DD0E0E31


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="this Python hashes otherwise")
def test_it_is_pythons_own() -> None:
    code = "import sys; print(*[hash(bytes(range(n))) for n in range(1, 40)])"
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # keys of 0
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    expected = [int(number) & MASK for number in process.stdout.split()]
    assert [siphash(bytes(range(n)), 0, 0) for n in range(1, 40)] == expected


@given(st.binary(max_size=300), NUMBERS, NUMBERS, st.integers(0, 3), st.integers(0, 4), st.lists(NUMBERS, max_size=20))
def test_bytes_and_words_are_hashed_as_by_the_twin(
    data: bytes, k0: int, k1: int, rounds: int, last_rounds: int, words: list[int]
) -> None:
    assert siphash(data, k0, k1, rounds, last_rounds) == twin(data, k0, k1, rounds, last_rounds)
    expected = [twin(value.to_bytes(8, "little"), k0, k1) for value in words]
    assert hash_words(np.array(words, np.uint64), k0, k1).tolist() == expected


def test_fingerprints_are_never_0() -> None:
    values = np.arange(200_000, dtype=np.uint64)
    fingerprint = fingerprints(values, 329, 4242432435)
    assert fingerprint.all()
    hashes = hash_words(values, 329, 4242432435)
    zero = np.flatnonzero(hashes & np.uint64(0xFFFF) == 0)
    assert len(zero)  # or nothing was tried
    others = np.delete(values, zero)
    assert (fingerprint[others] == hashes[others].astype(np.uint16)).all()
    for value in zero.tolist():
        data = int(value).to_bytes(8, "little")
        while not (h := twin(data, 329, 4242432435)) & 0xFFFF:
            data += h.to_bytes(8, "little")
        assert fingerprint[value] == h & 0xFFFF
