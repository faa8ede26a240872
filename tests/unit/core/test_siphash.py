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

K0, K1 = 0x0706050403020100, 0x0F0E0D0C0B0A0908
MASK = 2**64 - 1

# SipHash-1-3 of 0, 1, 2 ... bytes that count from 0, each as 8 little-endian bytes (test_siphash_1_3 of Rust's library)
_LINES = """
dcc40f055801acab 93ca577df39bf4c9 4dd4c74d029bcb82 fbf7dde7b80af88b 2883d388605775cf 673b53492fd5f9de a7229fc5502b0dc5
4011b19b987d92d3 8e9a298d11959036 e43d066cb38ea425 7f09ff92ee85de79 52c34df9c118c170 a2d9b457b184a378 a7ff29120c766f30
345df9c011a15a60 5699512a6dd820d3 668b907d1add4fcc 0cd8db639068f29c 3ee673b49c38fc8f 1c7d298de59d1ff2 40e0cca6462fdcc0
"""
VECTORS_1_3 = _LINES.split()


def rotated(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & MASK


def twin(data: bytes, k0: int, k1: int, rounds: int = 1, last_rounds: int = 3) -> int:
    """Hash word by word, as in the paper."""
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def mix() -> None:
        v[0] = (v[0] + v[1]) & MASK
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)

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


def test_the_vectors_of_1_3() -> None:
    for length, vector in enumerate(VECTORS_1_3):
        assert siphash(bytes(range(length)), K0, K1).to_bytes(8, "little").hex() == vector


def test_the_vectors_of_2_4() -> None:
    # from the paper's appendix (15 bytes), and the first of the reference program's
    assert siphash(bytes(range(15)), K0, K1, 2, 4) == 0xA129CA6149BE45E5
    assert siphash(b"", K0, K1, 2, 4) == 0x726FDB47DD0E0E31


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="this Python hashes otherwise")
def test_it_is_pythons_own() -> None:
    data = [bytes(range(n)) for n in range(1, 40)]
    code = "import sys; print(*[hash(bytes(range(n))) for n in range(1, 40)])"
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # keys of 0
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert [siphash(text, 0, 0) for text in data] == [int(number) & MASK for number in process.stdout.split()]


@given(st.binary(max_size=300), st.integers(0, MASK), st.integers(0, MASK), st.integers(0, 3), st.integers(0, 4))
def test_any_bytes(data: bytes, k0: int, k1: int, rounds: int, last_rounds: int) -> None:
    assert siphash(data, k0, k1, rounds, last_rounds) == twin(data, k0, k1, rounds, last_rounds)


@given(st.lists(st.integers(0, MASK), max_size=20), st.integers(0, MASK), st.integers(0, MASK))
def test_words(values: list[int], k0: int, k1: int) -> None:
    expected = [twin(value.to_bytes(8, "little"), k0, k1) for value in values]
    assert hash_words(np.array(values, np.uint64), k0, k1).tolist() == expected


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
