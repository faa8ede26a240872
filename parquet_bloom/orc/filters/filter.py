"""The Bloom filter of an ORC file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.hash import orc_murmur3 as orc_hash
from ...errors import MalformedOrcError
from ...hashing.arrow import chunks_of
from ...metadata.protobuf import read_bloom_filter
from ..metadata.schema import OrcLeaf
from ..metadata.stripes import BLOOM_FILTER, FILTER_KINDS
from .hashes import make_probes

_MAX_BITS = 1 << 31


class OrcFilter:
    """The filter of one column in one row group.

    Attributes
    ----------
    leaf, column, column_id : the column; `column` is its dotted path.
    kind : "BLOOM_FILTER" or "BLOOM_FILTER_UTF8".
    stripe, row_group : the rows; `row_group` is numbered within the stripe.
    num_hash_functions, num_bits : k and m; 0 if the filter is unreadable, see `problem`.
    bitset : the bits, as little-endian words.
    problem : error in its bytes, or None.
    fault : why filters of its writer cannot be trusted, or None.
    """

    def __init__(
        self,
        leaf: OrcLeaf,
        kind: int,
        stripe: int,
        row_group: int,
        bitset: bytes = b"",
        num_hash_functions: int = 0,
        problem: str | None = None,
        fault: str | None = None,
    ):
        self.leaf = leaf
        self.column = leaf.name
        self.column_id = leaf.column_id
        self.kind = FILTER_KINDS[kind]
        self.stripe = stripe
        self.row_group = row_group
        self.bitset = bitset
        self.num_bits = 8 * len(bitset)
        self.num_hash_functions = num_hash_functions
        self.problem = problem
        self.fault = fault

    def __repr__(self) -> str:
        location = f"stripe {self.stripe}, row group {self.row_group}, column '{self.column}'"
        return f"<OrcFilter {location}: {self.num_bits} bits>"

    @property
    def doubt(self) -> str | None:
        """Return why it must answer "maybe" to everything; None when it can be trusted."""
        return self.problem or self.fault

    @property
    def trusted(self) -> bool:
        """Return whether its answers can be used."""
        return self.doubt is None

    @property
    def fill(self) -> float:
        """Return the fraction of set bits; 0 for a filter without bits."""
        if not self.num_bits:
            return 0.0
        return int(np.bitwise_count(np.frombuffer(self.bitset, np.uint8)).sum()) / self.num_bits

    @property
    def fpp(self) -> float:
        """Return the false-positive probability, from the set bits."""
        return self.fill**self.num_hash_functions if self.num_bits else 1.0

    @property
    def ndv_estimate(self) -> float:
        """Return the estimated number of distinct values, from the set bits; infinite when all are set."""
        fill = self.fill
        if not fill:
            return 0.0
        return -self.num_bits / self.num_hash_functions * math.log1p(-fill) if fill < 1 else math.inf

    def check(self, values: Any) -> NDArray[np.bool_]:
        """Return which values may be in the row group: all if the filter is not trusted; NULL and NaN always.

        Parameters
        ----------
        values : Arrow data, NumPy array or list (see `hashing.arrow.chunks_of`).

        Raises
        ------
        FilterTypeError
            The values are of another kind than those of the column.
        """
        chunks = list(chunks_of(values))
        if not self.trusted:
            return np.ones(sum(map(len, chunks)), np.bool_)
        masks = [make_probes(chunk, self.leaf).answer(self.check_hashes) for chunk in chunks]
        return np.concatenate(masks) if masks else np.empty(0, np.bool_)

    def check_hashes(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which hashes have all their bits set, even if the filter is not trusted; all if it has no bits."""
        if not self.num_bits or not self.num_hash_functions:
            return np.ones(len(hashes), np.bool_)
        return orc_hash.check(self.bitset, hashes, self.num_hash_functions)


def parse_filter(data: bytes, start: int, end: int, kind: int) -> tuple[bytes, int, str | None]:
    """Parse a filter's message into its bits, number of hash functions, and the problem with it, or None."""
    try:
        functions, words, utf8 = read_bloom_filter(data, start, end)
    except MalformedOrcError as error:
        return b"", 0, error.problem
    bits, other = (words, utf8) if kind == BLOOM_FILTER else (utf8, words)
    if other is not None:
        return b"", 0, "its bits are in the field of filters of another kind"
    if not bits or len(bits) % 8 or 8 * len(bits) >= _MAX_BITS:
        return b"", 0, f"it has {8 * len(bits or b'')} bits"
    if functions is None or not 1 <= functions <= orc_hash.MAX_HASH_FUNCTIONS:
        return b"", 0, f"it has {functions} hash functions"
    return bits, functions, None
