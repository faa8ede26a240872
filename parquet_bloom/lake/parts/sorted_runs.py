"""Sorting more keys than fit in memory: sorted runs on disk, merged by ranges of keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.index.postings import squeeze
from ...storage.spill import SpillFile, SpillRun

_KEY_BYTES = 8
_LEAST_KEYS = 1024


def sort_once(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort keys where they stand; each of them once.

    Not by `np.unique`: it hashes whole numbers by their lower bits, which keys that share a unit, or a value, have in
    common, and then takes minutes for some million.
    """
    keys.sort()
    return keys[: squeeze(keys)]


class _SortedRun(NamedTuple):
    """Sorted keys on disk; `samples` is every so many-th of them, the first one included."""

    run: SpillRun
    samples: NDArray[np.uint64]


class SortedRuns:
    """Takes keys in any order, and gives them back sorted, each once.

    Parameters
    ----------
    memory_limit : bytes; five eighths of it are for keys that have come, and less than that when they are given back.
    folder : where what does not fit is put, see `SpillFile`.

    Attributes
    ----------
    num_keys : keys that have come, most repetitions left out; exact after `sort` if nothing had to be put aside.
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
        """Take some keys; they are copied."""
        done = 0
        while done < len(keys):
            if self._count == self._room:
                self._sort_in_memory()
                if self._count > self._room * 3 // 4:  # few repetitions: there would soon be no room again
                    self._spill()
            if self._keys is None:
                self._keys = np.empty(self._room, np.uint64)  # pages that are not written to take no memory
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
        """Put the sorted keys in memory aside."""
        assert self._keys is not None
        if self._scratch is None:
            self._scratch = SpillFile(self._folder)
        keys = self._keys[: self._count]
        self._runs.append(_SortedRun(self._scratch.put([keys]), keys[:: self._step].copy()))
        self._put_aside += self._count
        self._count = 0

    def sort(self) -> Iterator[NDArray[np.uint64]]:
        """Sort what has come; the keys, in chunks that may be changed by whoever takes them and hold until the next."""
        keys = self._sort_in_memory()
        if not self._runs:
            return iter([keys] if len(keys) else [])
        if len(keys):
            self._spill()
        self._keys = None
        return self._merge()

    def _merge(self) -> Iterator[NDArray[np.uint64]]:
        """Between two bounds lie few enough keys of all runs together, whatever they are: samples tell."""
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
        """How many keys of a run are less than a bound."""
        number = int(np.searchsorted(run.samples, bound))
        if number == 0:
            return 0
        first, end = (number - 1) * self._step, min(number * self._step, run.run.count)
        return first + int(np.searchsorted(self._get(run, first, end), bound))

    def _get(self, run: _SortedRun, first: int, end: int) -> NDArray[np.uint64]:
        assert self._scratch is not None
        return self._scratch.get(run.run, first, end - first)

    def close(self) -> None:
        """Let go of memory and disk; may be called again."""
        self._keys, self._count, self._runs = None, 0, []
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
