"""External sort of keys: sorted runs on disk, merged by ranges of keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.index.postings import squeeze
from ..storage.spill import SpillFile, SpillRun

_KEY_BYTES = 8
_LEAST_KEYS = 1024


def sort_once(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort keys in place, and return them without duplicates.

    `np.unique` is not used: it hashes integers by their lower bits, which keys of one unit, or of one value, have in
    common, and then takes minutes for some millions.
    """
    keys.sort()
    return keys[: squeeze(keys)]


class _SortedRun(NamedTuple):
    """Sorted keys on disk; `samples` has every n-th of them, from the first."""

    run: SpillRun
    samples: NDArray[np.uint64]


class SortedRuns:
    """Sorts keys and drops duplicates, with limited memory.

    Parameters
    ----------
    memory_limit : bytes; five eighths of it are for added keys, and less during the merge.
    folder : folder of the spill file, see `SpillFile`.

    Attributes
    ----------
    num_keys : keys added, without most duplicates; exact after `sort` if nothing was spilled.
    """

    def __init__(self, memory_limit: int, folder: str | os.PathLike[str] | None = None):
        self._folder = folder
        self._room = max(_LEAST_KEYS, memory_limit * 5 // 8 // _KEY_BYTES)
        self._window = max(_LEAST_KEYS, memory_limit // 8 // _KEY_BYTES)
        self._step = min(4096, max(16, self._window // 256))  # keys a sample
        self._keys: NDArray[np.uint64] | None = None
        self._count = 0
        self._runs: list[_SortedRun] = []
        self._scratch: SpillFile | None = None
        self._put_aside = 0

    @property
    def num_keys(self) -> int:
        return self._put_aside + self._count

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Add keys; they are copied."""
        done = 0
        while done < len(keys):
            if self._count == self._room:
                self._sort_in_memory()
                if self._count > self._room * 3 // 4:  # few duplicates: the buffer would soon be full again
                    self._spill()
            if self._keys is None:
                self._keys = np.empty(self._room, np.uint64)  # untouched pages take no memory
            count = min(len(keys) - done, self._room - self._count)
            self._keys[self._count : self._count + count] = keys[done : done + count]
            self._count, done = self._count + count, done + count

    def _sort_in_memory(self) -> NDArray[np.uint64]:
        if self._keys is None:
            return np.empty(0, np.uint64)
        keys = sort_once(self._keys[: self._count])
        self._count = len(keys)
        return keys

    def _spill(self) -> None:
        """Write the sorted keys in memory to disk."""
        assert self._keys is not None
        if self._scratch is None:
            self._scratch = SpillFile(self._folder)
        keys = self._keys[: self._count]
        self._runs.append(_SortedRun(self._scratch.put([keys]), keys[:: self._step].copy()))
        self._put_aside += self._count
        self._count = 0

    def sort(self) -> Iterator[NDArray[np.uint64]]:
        """Sort all keys; yield them in chunks, which callers may change and are valid until the next one."""
        keys = self._sort_in_memory()
        if not self._runs:
            return iter([keys] if len(keys) else [])
        if len(keys):
            self._spill()
        self._keys = None
        return self._merge()

    def _merge(self) -> Iterator[NDArray[np.uint64]]:
        """Merge all runs by ranges; bounds from the samples limit the keys per range, whatever their distribution."""
        samples = np.sort(np.concatenate([run.samples for run in self._runs]))
        step = max(1, self._window // self._step)
        bounds = sort_once(samples[step::step].copy())
        del samples
        positions = [0] * len(self._runs)
        for bound in [*bounds, None]:
            ends = [run.run.count if bound is None else self._count_below(run, bound) for run in self._runs]
            keys = np.empty(sum(ends) - sum(positions), np.uint64)
            at = 0
            for run, first, end in zip(self._runs, positions, ends, strict=True):
                keys[at : at + end - first] = self._get(run, first, end)
                at += end - first
            positions = ends
            keys = sort_once(keys)
            if len(keys):
                yield keys

    def _count_below(self, run: _SortedRun, bound: np.uint64) -> int:
        """Return how many keys of a run are less than a bound."""
        number = int(np.searchsorted(run.samples, bound))
        if number == 0:
            return 0
        first, end = (number - 1) * self._step, min(number * self._step, run.run.count)
        return first + int(np.searchsorted(self._get(run, first, end), bound))

    def _get(self, run: _SortedRun, first: int, end: int) -> NDArray[np.uint64]:
        assert self._scratch is not None
        return self._scratch.get(run.run, first, end - first)

    def close(self) -> None:
        """Free memory and disk space; may be called again."""
        self._keys, self._count, self._runs = None, 0, []
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
