"""Determine the variant of a filter from values of its column chunk.

Each variant that the header allows is tried: under the right one no value is denied, under the others most are. A
variant is accepted only if it is the only one that fits, and so many values passed that chance does not explain it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.bloom import sbbf
from ..core.bloom.variants import MASK, MURMUR3, SEED, VARIANTS, XXH64, Variant
from ..core.hash import murmur3, xxh64
from ..hashing.arrow_keys import keys_of
from ..metadata.filter_header import FilterHeader
from ..metadata.footer import MAGIC, Footer
from .column_reader import ColumnReader


def page_sizes(footer: Footer, find_ends: Callable[[list[int]], list[int]]) -> NDArray[np.int64] | None:
    """Return the length of each column chunk's pages where some sizes include filters; None where none does.

    Sizes are taken to include filters only if this is consistent for the entire file: filters, pages and page indexes
    then do not overlap, and each of these column chunks is directly followed by something else, which is not the case
    where sizes do not include filters.

    Parameters
    ----------
    footer : the file's footer.
    find_ends : returns the ends of the filters at given offsets, by their headers; the offset if there is no header.
    """
    chunks, first_pages = footer.chunks, footer.first_pages
    offsets, sizes = chunks["filter_offset"], chunks["compressed_size"]
    before = (offsets >= len(MAGIC)) & (offsets < np.minimum(first_pages, footer.start)) & (sizes > 0)
    literal = footer.data_ranges()
    if not before.any() or not (_begins_inside(offsets, literal) or (literal[:, 1] > footer.start).any()):
        return None
    inside = (offsets >= len(MAGIC)) & (offsets < footer.start)
    ends = offsets.copy()
    ends[inside] = find_ends(offsets[inside].tolist())
    leading = before & (ends == first_pages)
    starts = np.where(leading, offsets, first_pages)
    spans = np.stack([starts, starts + sizes], axis=1)[(starts > 0) & (sizes > 0)]
    others = np.stack([offsets, ends], axis=1)[~leading & (ends > offsets)]
    everything = np.concatenate([spans, others, footer.index_ranges()])
    everything = everything[np.argsort(everything[:, 0], kind="stable")]
    next_starts = np.append(everything[1:, 0], footer.start)
    disjoint = (everything[:, 1] <= next_starts).all()
    chunk_ends = offsets + sizes
    adjacent = np.isin(chunk_ends[leading], next_starts).all() and (first_pages < chunk_ends)[leading].all()
    return starts + sizes - first_pages if leading.any() and disjoint and adjacent else None


def _begins_inside(offsets: NDArray[np.int64], ranges: NDArray[np.int64]) -> bool:
    """Return whether any of the offsets is inside a range."""
    offsets = np.sort(offsets)
    return bool((np.searchsorted(offsets, ranges[:, 1]) > np.searchsorted(offsets, ranges[:, 0])).any())


ENOUGH_VALUES = 1024
"""Distinct values of a column chunk that are tried; more would hardly help where these do not decide."""

CHANCE = 1e-9
"""A variant is accepted if an unrelated filter would pass with a smaller probability than this."""

Hashes = dict[str, NDArray[np.uint64]]
"""Some distinct values of a column chunk as keys: {hash: uint64 array}, in one order."""


def read_some_hashes(reader: ColumnReader, row_group: int) -> Hashes:
    """Read the first ENOUGH_VALUES distinct values, or fewer, of a column chunk, as hashes.

    Raises
    ------
    UnreadableColumnError
    """
    hashes = {name: np.empty(0, np.uint64) for name in (XXH64, MURMUR3)}
    for array in reader.batches(row_group):
        keys = keys_of(array)
        both = {XXH64: xxh64.hash_keys(keys), MURMUR3: murmur3.hash_keys(keys, SEED)}
        _, first = np.unique(np.concatenate([hashes[XXH64], both[XXH64]]), return_index=True)
        first = np.sort(first)[:ENOUGH_VALUES]
        hashes = {name: np.concatenate([hashes[name], both[name]])[first] for name in hashes}
        if len(first) == ENOUGH_VALUES:
            break
    return hashes


def candidates(header: FilterHeader) -> list[Variant]:
    """Return the variants that a header, as read by `read_any`, allows."""
    power_of_two = not header.num_bytes & (header.num_bytes - 1)
    return [one for one in VARIANTS if one.header == header.form and (power_of_two or one.block != MASK)]


@dataclass(frozen=True)
class Trial:
    """The result of trying some values on one filter or more.

    Attributes
    ----------
    fitting : the variants under which no value was denied.
    chance : probability that an unrelated variant would be among them.
    num_values : number of distinct values tried, summed over filters.
    """

    fitting: tuple[Variant, ...]
    chance: float
    num_values: int

    @classmethod
    def of(cls, header: FilterHeader, bitset: np.ndarray, values: Hashes) -> Trial:
        """Try a filter's variants."""
        num_values, num_blocks = len(values[XXH64]), len(bitset) // sbbf.BLOCK_BYTES
        fitting = tuple(
            one
            for one in candidates(header)
            if sbbf.check_hashes(bitset, one.placed(values[one.hash], num_blocks)).all()
        )
        # Two ways to choose a block agree for one key in num_blocks; with a single block, always.
        passes = sbbf.measure(bitset)[1] + (1 / num_blocks if num_blocks > 1 else 0)
        return cls(fitting, min(1.0, passes) ** num_values, num_values)

    @classmethod
    def together(cls, trials: Sequence[Trial]) -> Trial:
        """Combine the trials (at least one) of filters of the same variant."""
        fitting = tuple(one for one in trials[0].fitting if all(one in trial.fitting for trial in trials))
        chance = float(np.prod([trial.chance for trial in trials]))
        return cls(fitting, chance, sum(trial.num_values for trial in trials))

    @property
    def problem(self) -> str | None:
        """The reason why the variant cannot be determined, or None."""
        if not self.fitting:
            return "no variant fits: under each, the filter denies values of its column"
        if not self.num_values:
            return "its variant cannot be said: its column has no values to tell it by"
        if len(self.fitting) > 1:
            return f"its variant cannot be said: {' and '.join(map(str, self.fitting))} fit"
        if self.chance > CHANCE:
            return f"its variant cannot be said: {self.num_values} distinct values are too few to tell it by"
        return None

    def of_single_blocks(self) -> Trial:
        """Return the trial for filters of one block, where all ways to choose a block are equivalent."""
        hashes = {one.hash: one for one in reversed(self.fitting)}
        return Trial(tuple(reversed(hashes.values())), self.chance, self.num_values)
