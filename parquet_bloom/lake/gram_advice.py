"""Measure on a sample which pieces of text an index of grams finds: of which lengths, and how well."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..file.gram_hashes import GramHashes
from ..hashing.gram_weights import GramWeights, hash_grams
from ..predicate.calls import OTHER
from ..predicate.key_expression import KeyExpression
from .hash_files import OpenedDataFile

LENGTHS = (4, 6, 8, 12, 16, 24)

_USUAL_LENGTH = 12  # of a piece that is searched for, if texts are twice as long
_TEXTS_A_FILE = 64
_PIECES = 200  # of each length


class PieceAdvice(NamedTuple):
    """How well pieces of one length are found, which the sampled texts have.

    Attributes
    ----------
    length : bytes of a piece.
    named : the share of the units that the index names of a piece, on average.
    """

    length: int
    named: float


def draw_texts(opened: OpenedDataFile, expression: KeyExpression, rng: random.Random) -> tuple[list[bytes], float]:
    """Draw texts from the first rows of each row group of a file; estimate by them how many bytes all texts have."""
    hashes = opened.columns[expression].hashes
    assert isinstance(hashes, GramHashes)
    drawn: list[bytes] = []
    num_bytes = 0.0
    for row_group, num_rows in zip(opened.file.row_groups, opened.row_counts, strict=True):
        found, num_read = hashes.read_texts(row_group)
        num_bytes += sum(map(len, found)) * num_rows / max(1, num_read)
        drawn += rng.sample(found, min(len(found), _TEXTS_A_FILE))
    return rng.sample(drawn, min(len(drawn), _TEXTS_A_FILE)), num_bytes


def measure_pieces(
    texts: Sequence[bytes], units: Sequence[NDArray[np.uint64]], weights: GramWeights, rng: random.Random
) -> tuple[PieceAdvice, ...]:
    """Ask for pieces of texts.

    Parameters
    ----------
    units : the hashes of each unit of a sample, ascending.
    """
    advice = []
    for length in LENGTHS:
        long_enough = [text for text in texts if len(text) >= length]
        shares = []
        for _ in range(_PIECES if long_enough and units else 0):
            text = rng.choice(long_enough)
            first = rng.randrange(len(text) - length + 1)
            shares.append(_find_share(weights.choose_grams(text[first : first + length]), units))
        if shares:
            advice.append(PieceAdvice(length, float(np.mean(shares))))
    return tuple(advice)


def choose_usual(pieces: Sequence[PieceAdvice], texts: Sequence[bytes]) -> PieceAdvice | None:
    """Return the advice on what is searched for: 12 bytes, of shorter texts half of one. None if they have no pieces.

    All of a text is found by an index of the column.
    """
    usual = min(_USUAL_LENGTH, float(np.mean([len(text) for text in texts])) / 2 if texts else 0)
    return next((piece for piece in reversed(pieces) if piece.length <= usual), pieces[0] if pieces else None)


def _find_share(grams: Sequence[bytes], units: Sequence[NDArray[np.uint64]]) -> float:
    hashes = hash_grams(grams)
    return sum(_has_all(unit, hashes) for unit in units) / len(units)


def _has_all(unit: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> bool:
    return _has(unit, np.array([OTHER], np.uint64)) or _has(unit, hashes)


def _has(unit: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> bool:
    places = np.minimum(np.searchsorted(unit, hashes), max(len(unit) - 1, 0))
    return bool(len(unit) and (unit[places] == hashes).all())
