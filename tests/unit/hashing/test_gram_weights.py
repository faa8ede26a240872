"""Weights of grams: counted, stored and read back, and the grams that are asked for."""

from __future__ import annotations

import random
import zlib
from base64 import b64encode

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom.core.index.grams import NUM_PAIRS, list_grams
from parquet_bloom.hashing.gram_weights import GramWeights, PairCounts


def learn(*texts: str) -> GramWeights:
    counts = PairCounts()
    counts.add(pa.array(texts, pa.string()).cast(pa.binary()))
    return counts.to_weights()


def test_rarer_pairs_weigh_more_and_no_order_depends_on_the_sample() -> None:
    weights = learn("aaaaaaaaab", "ab", "b" * 100_000)
    aa, ab, bb, never = (int(weights.array[int.from_bytes(pair, "big")]) for pair in (b"aa", b"ab", b"bb", b"xy"))
    assert bb < aa < ab < never
    even = PairCounts().to_weights()  # of nothing
    assert len(set(even.array.tolist())) == 256
    assert even.levels == bytes([255]) * NUM_PAIRS
    assert (even.array == PairCounts().to_weights().array).all()
    with pytest.raises(ValueError, match="read-only"):
        weights.array[0] = 1


def test_round_trip_and_damaged_texts() -> None:
    for weights in (learn("some texts", "and others"), PairCounts().to_weights(), GramWeights(bytes(NUM_PAIRS))):
        assert GramWeights.from_text(weights.text) == weights
    whole = learn("a text").text
    rng = random.Random(1)
    refused = 0
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        other = rng.choice("ABCDEFGHabcdefgh0123456789+/=\u00e9")
        damaged = whole[:at] + other + whole[at + 1 :]
        if damaged == whole:
            continue
        with pytest.raises(ValueError, match=r"."):
            GramWeights.from_text(damaged)
        refused += 1
    assert refused
    packed = zlib.compress(bytes(NUM_PAIRS))
    for data in (
        b"",
        packed[:-1],
        packed[:-4],
        packed + b"x",
        zlib.compress(bytes(5)),
        zlib.compress(bytes(NUM_PAIRS + 1)),
    ):
        with pytest.raises(ValueError, match=r"."):
            GramWeights.from_text(b64encode(data).decode())
    bomb = b64encode(zlib.compress(bytes(1 << 24))).decode()
    with pytest.raises(ValueError, match="65536 levels, not 65537"):
        GramWeights.from_text(bomb)
    for text in (5, None, ["x"], b"\xff"):
        with pytest.raises((ValueError, TypeError)):
            GramWeights.from_text(text)  # type: ignore[arg-type]


def test_chosen_grams_are_those_of_the_text_and_cover_it() -> None:
    rng = random.Random(2)
    for seed in range(300):
        levels = np.random.default_rng(seed).integers(0, rng.choice([1, 3, 256]), NUM_PAIRS).astype(np.uint8)
        weights = GramWeights(levels.tobytes())
        text = bytes(rng.choices(rng.choice([b"ab", bytes(range(256))]), k=rng.randrange(40)))
        spans = set(list_grams(text, weights.array))
        chosen = weights.choose_grams(text)
        assert {*chosen} <= {text[first:last] for first, last in spans}
        assert len(chosen) == len(set(chosen))
        assert bool(chosen) == (len(text) >= 3)
        if len(chosen) == 8:  # the longest
            lengths = sorted(map(len, chosen))
            others = [text[first:last] for first, last in spans if not any(text[first:last] in gram for gram in chosen)]
            assert max(map(len, others), default=0) <= lengths[0]
            continue
        for first, last in spans:
            assert any(text[first:last] in gram for gram in chosen)
        covered = {at for first, last in spans if text[first:last] in chosen for at in range(first, last)}
        assert len(covered) == (len(text) if len(text) >= 3 else 0)
