"""Grams of texts against a slow twin: every layout of keys, any bytes, and what is left for a next call."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from support.oracle import oracle

from parquet_bloom.core.hash.xxh64 import Keys
from parquet_bloom.core.index.grams import NUM_PAIRS, GramExtractor, count_pairs, list_grams
from parquet_bloom.hashing.arrow_keys import keys_of


def spans_of(text: bytes, weights: NDArray[np.uint16]) -> set[tuple[int, int]]:
    """Return where grams are: 3 to 8 bytes; the first pair outweighs all between, none of these the last one."""
    pairs = [int(weights[first << 8 | second]) for first, second in pairwise(text)]
    return {
        (first, last + 2)
        for first in range(len(pairs))
        for last in range(first + 1, min(first + 7, len(pairs)))
        if all(inside < pairs[first] and inside <= pairs[last] for inside in pairs[first + 1 : last])
    }


def hashes_of(texts: list[bytes | None], weights: NDArray[np.uint16]) -> set[int]:
    grams = {text[first:last] for text in texts if text is not None for first, last in spans_of(text, weights)}
    return {oracle.xxh64(gram.ljust(8, b"\0")) for gram in grams}


def extract(keys: Keys, weights: NDArray[np.uint16]) -> set[int]:
    """Extract in as many calls as it takes."""
    extractor, found, first = GramExtractor(weights), set(), 0
    while first < len(keys):
        hashes, following = extractor.extract(keys, first)
        assert following > first
        found.update(hashes.tolist())
        first = following
    return found


def make_weights(seed: int, levels: int = 60_000) -> NDArray[np.uint16]:
    return np.random.default_rng(seed).integers(0, levels, NUM_PAIRS).astype(np.uint16)


def draw_texts(rng: random.Random, count: int) -> list[bytes | None]:
    alphabets = [bytes(range(256)), b"\0\xff", b"ab", b"abcdefgh \n0123", "äß😀日本".encode(), b"\xff"]
    return [
        None
        if rng.random() < 0.1
        else bytes(rng.choices(rng.choice(alphabets), k=rng.choice([0, 1, 2, 3, 4, 8, 13, 70])))
        for _ in range(count)
    ]


@pytest.mark.parametrize("levels", [1, 2, 5, 60_000])
def test_spans_are_those_of_the_slow_twin(levels: int) -> None:
    weights, rng = make_weights(levels, levels), random.Random(levels)
    for text in draw_texts(rng, 200):
        found = list_grams(text or b"", weights)
        assert len(found) == len(set(found)) <= 2 * len(text or b"")
        assert set(found) == spans_of(text or b"", weights)
    assert list_grams(b"", weights) == list_grams(b"ab", weights) == []


@pytest.mark.parametrize("levels", [1, 3, 60_000])
@pytest.mark.parametrize(
    "arrow_type", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=["offsets32", "offsets64", "views"]
)
def test_texts_of_every_layout_and_slice(arrow_type: pa.DataType, levels: int) -> None:
    weights, rng = make_weights(7, levels), random.Random(f"{arrow_type} {levels}")
    texts = draw_texts(rng, 400)
    array = pa.array(texts, arrow_type)
    for first, last in [(0, 400), (3, 371), (8, 9), (13, 13), (399, 400)]:
        assert extract(keys_of(array.slice(first, last - first)), weights) == hashes_of(texts[first:last], weights)
    assert extract(keys_of(pa.array([], arrow_type)), weights) == set()
    assert extract(keys_of(pa.array([None] * 9, arrow_type)), weights) == set()


@pytest.mark.parametrize("lead", [0, 4, 5])
def test_texts_with_bytes_in_front_of_each(lead: int) -> None:
    """As in a page, where the length is before each text: what is in front is part of no gram."""
    weights, rng = make_weights(8), random.Random(lead)
    texts = [text or b"" for text in draw_texts(rng, 200)]
    data = b"#" * 7 + b"".join(b"\x00\xfe\x00\x00\x01"[:lead] + text for text in texts) + b"behind"
    starts = np.cumsum([7, *(lead + len(text) for text in texts)])
    for wide in (False, True):
        keys = Keys.variable(starts.astype(np.int64 if wide else np.int32), data, len(texts), wide=wide, lead=lead)
        assert extract(keys, weights) == hashes_of(texts, weights)
    width = 11
    stored = rng.randbytes((lead + width) * 50)
    values = [stored[start + lead : start + lead + width] for start in range(0, len(stored), lead + width)]
    assert extract(Keys.fixed(stored, lead + width, 50, lead=lead), weights) == hashes_of(values, weights)
    assert extract(Keys.fixed(stored, lead + width, 40, 10, lead=lead), weights) == hashes_of(values[10:], weights)


@pytest.mark.parametrize("gram", [b"\xff" * 8, b"\0" * 3, b"\0" * 8, b"\xff" * 3])
def test_grams_of_all_ones_and_of_all_zeros(gram: bytes) -> None:
    """They are not taken for what the extractor remembers at the beginning."""
    weights = np.zeros(NUM_PAIRS, np.uint16)
    weights[:0x100] = np.arange(0x100)
    if len(gram) == 8 and gram[0]:  # with pairs that are alike, only three bytes are a gram: make the borders heavier
        assert set(list_grams(gram, weights)) == {(i, i + 3) for i in range(6)}
    keys = keys_of(pa.array([gram], pa.binary()))
    assert extract(keys, weights) == hashes_of([gram], weights) == {oracle.xxh64(gram[:3].ljust(8, b"\0"))}


def test_what_was_returned_is_forgotten_on_demand() -> None:
    weights, texts = make_weights(9), [b"a text of some length", b"another text of some length"]
    extractor, keys = GramExtractor(weights), keys_of(pa.array(texts, pa.binary()))
    assert set(extractor.extract(keys)[0].tolist()) == hashes_of(texts, weights)
    assert len(extractor.extract(keys)[0]) < 5  # few, whose places others took
    extractor.forget()
    assert set(extractor.extract(keys)[0].tolist()) == hashes_of(texts, weights)
    extractor.forget()  # also of all ones, and zeros
    for _ in range(2):
        assert len(extractor.extract(keys_of(pa.array([b"\0\0\0", b"\xff\xff\xff"], pa.binary())))[0]) == 2
        extractor.forget()


@pytest.mark.ci
def test_a_long_text_and_many_are_extracted_in_pieces() -> None:
    weights, rng = make_weights(10), random.Random(1)
    long = rng.randbytes(10_000_000)
    short = [rng.randbytes(rng.randrange(200)) for _ in range(3000)]
    extractor = GramExtractor(weights)
    keys = keys_of(pa.array([*short[:1500], long, *short[1500:]], pa.large_binary()))
    found: set[int] = set()
    ends, first = [], 0
    while first < len(keys):
        hashes, first = extractor.extract(keys, first)
        found.update(hashes.tolist())
        ends.append(first)
    assert 1500 in ends  # the long one began a call of its own
    assert len(ends) > 20
    assert found >= hashes_of([long[:2000], long[-2000:], *short], weights)
    spans = list_grams(long, weights)
    assert len(found) <= len(spans) + sum(2 * len(text) for text in short)
    assert found >= {oracle.xxh64(long[first:last].ljust(8, b"\0")) for first, last in rng.sample(spans, 2000)}


@pytest.mark.parametrize("levels", [1, 3, 60_000])
def test_a_text_is_compared_in_parts_that_share_no_gram(levels: int) -> None:
    """1,024 pairs at once: grams that begin before such a border are found, and none before the text."""
    weights, rng = make_weights(levels, levels), random.Random(levels)
    for length in (1023, 1024, 1025, 1026, 1027, 1030, 2048, 2049, 2050, 3100):
        texts: list[bytes | None] = [bytes(rng.choices(b"abcdefgh", k=length))]
        assert extract(keys_of(pa.array(texts, pa.binary())), weights) == hashes_of(texts, weights)


def test_a_gram_ends_with_its_text() -> None:
    weights = make_weights(11)
    apart, together = ([b"abcd", b"efgh"], [b"abcdefgh"])
    assert extract(keys_of(pa.array(apart, pa.binary())), weights) == hashes_of(apart, weights)
    assert hashes_of(together, weights) > hashes_of(apart, weights)


def test_grams_of_a_piece_are_grams_of_every_text_with_it() -> None:
    rng = random.Random(12)
    for levels in (1, 2, 4, 1000):
        weights = make_weights(levels, levels)
        for text in filter(None, draw_texts(rng, 100)):
            first, last = sorted(rng.choices(range(len(text) + 1), k=2))
            inside = {(first + start, first + end) for start, end in list_grams(text[first:last], weights)}
            assert inside <= set(list_grams(text, weights))


def test_pairs_are_counted_up_to_the_largest_number() -> None:
    texts = draw_texts(random.Random(13), 300)
    expected = np.zeros(NUM_PAIRS, np.uint32)
    for text in filter(None, texts):
        for first, second in pairwise(text):
            expected[first << 8 | second] += 1
    for arrow_type in (pa.binary(), pa.large_binary(), pa.binary_view()):
        counts = np.zeros(NUM_PAIRS, np.uint32)
        num_bytes = count_pairs(keys_of(pa.array(texts, arrow_type).slice(0)), counts)
        assert num_bytes == sum(len(text or b"") for text in texts)
        assert (counts == expected).all()
    full = np.full(NUM_PAIRS, 2**32 - 1, np.uint32)
    count_pairs(keys_of(pa.array([b"abc"], pa.binary())), full)
    assert (full == 2**32 - 1).all()


def test_what_has_no_grams_is_refused() -> None:
    few = np.zeros(5, np.uint16)
    for function in (lambda: GramExtractor(few), lambda: list_grams(b"abc", few)):
        with pytest.raises(ValueError, match="65536 weights"):
            function()
    extractor, hashed = GramExtractor(make_weights(1)), Keys.hashed(np.zeros(3, np.uint64))
    with pytest.raises(ValueError, match="no grams"):
        extractor.extract(hashed)
    with pytest.raises(ValueError, match="no text -1"):
        extractor.extract(keys_of(pa.array([b"abc"])), -1)
    for keys, counts in ((hashed, np.zeros(NUM_PAIRS, np.uint32)), (keys_of(pa.array([b"a"])), np.zeros(5, np.uint32))):
        with pytest.raises(ValueError, match="pairs are counted"):
            count_pairs(keys, counts)
    assert extractor.extract(keys_of(pa.array([b"abc"])), 7)[0].tolist() == []  # there is none left
