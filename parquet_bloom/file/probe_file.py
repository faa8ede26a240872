"""Probes of many filters for a few values; only the blocks that can hold the values are read from each bitset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.bloom import sbbf
from ..core.bloom.blocks import check_blocks, locate_blocks
from ..core.bloom.variants import FINAL, MULTIPLY_SHIFT, Variant
from ..errors import ParquetBloomError, PredicateError
from ..hashing.coerce import hash_literals
from ..hashing.column_type import ColumnType
from ..predicate.literal import from_python
from .chunk_filter import ChunkFilter

if TYPE_CHECKING:
    from ..util.given_types import Value

BLOCK_BYTES = sbbf.BLOCK_BYTES

WHOLE_BYTES = 4096
"""A bitset up to this size is read whole: a disk reads no less. On object stores the limit is `Source.gap_bytes`: a
request takes no longer for it, and the cached bytes serve later probes."""

BATCH_BYTES = 64 * 1024 * 1024
"""Blocks and bitsets held in memory at a time."""

# Where all probed blocks are empty, the bitset is searched for a set bit, in pieces of growing size.
_FIRST_PIECE = 4096
_GROWTH = 16


Gather = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.uint8]]
"""Reads ranges of a file, given their offsets and lengths, one after the other; see `Source.gather`."""


class _FilterReader(Protocol):
    def gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]: ...


@dataclass(frozen=True)
class Probed:
    """The answers of many filters.

    Attributes
    ----------
    chunks : the filters, in the order given.
    maybe : bool array of shape (filters, values), False where the column chunk certainly lacks the value.
    doubts : for each filter, why it could not be fully used; None where it could.
    """

    chunks: tuple[ChunkFilter, ...]
    maybe: NDArray[np.bool_]
    doubts: tuple[str | None, ...]


def probe(
    chunks: Iterable[ChunkFilter], values: Sequence[Value | None], *, timezone: str = "UTC", immutable: bool = False
) -> Probed:
    """Probe many filters, of one or more files, for the same values.

    Parameters
    ----------
    chunks : filters of open files: `file.chunks(columns=["user.id"])`. The column's type may differ from file to file.
    values : Python, NumPy or Arrow scalars, coerced for each column type: exactly, or not at all. None and NaN answer
        "maybe", since filters do not contain them.
    timezone : zone of timestamps without one where a column holds instants.
    immutable : True if the caller guarantees that the files are not truncated while they are open. Local files are then
        mapped, which saves a system call per filter; truncating a mapped file can crash the process.

    Returns
    -------
    Probed
        Broken filters, unreadable files and the like answer "maybe", with a reason in `doubts`.

    Examples
    --------
    >>> with parquet_bloom.open("lake/day=2026-01-30/a.parquet") as file:
    ...     parquet_bloom.probe(file.chunks(columns=["id"]), [1401181143, -1]).maybe.tolist()
    [[True, False], [False, False]]
    """
    chunks = tuple(chunks)
    maybe = np.ones((len(chunks), len(values)), np.bool_)
    doubts: list[str | None] = [None] * len(chunks)
    by_type: dict[tuple[ColumnType, str], list[int]] = {}
    variants: dict[str, Variant] = {}
    for number, chunk in enumerate(chunks):
        variant = chunk.variant if chunk.file.is_draft and not chunk.variant_problem else FINAL
        variants[variant.hash] = variant
        by_type.setdefault((chunk.column_type, variant.hash), []).append(number)
    for (column_type, hash_name), members in by_type.items():
        keys = _ProbeKeys.of(values, column_type, timezone, variants[hash_name])
        answers, problems = probe_hashes([chunks[number] for number in members], keys.hashes, immutable=immutable)
        maybe[members] = keys.combine(answers)
        for number, problem in zip(members, problems, strict=True):
            doubts[number] = problem or keys.doubt
    return Probed(chunks, maybe, tuple(doubts))


@dataclass(frozen=True)
class _ProbeKeys:
    """Values as keys of one column type; the hashes of value i are hashes[first[i]:first[i + 1]]."""

    hashes: NDArray[np.uint64]
    first: list[int]
    always: list[bool]  # values that the filter cannot answer for
    doubt: str | None

    @classmethod
    def of(cls, values: Sequence[object], column_type: ColumnType, timezone: str, variant: Variant) -> _ProbeKeys:
        literals: list[object] = []
        problems: dict[int, str] = {}
        for number, value in enumerate(values):
            try:
                literals.append(from_python(value))
            except PredicateError as error:
                literals.append(None)
                problems[number] = error.problem
        hashes, owners, reasons = hash_literals(literals, column_type, timezone, variant.hash_keys)
        problems |= reasons
        if not column_type.hashable:
            problems |= dict.fromkeys(owners.tolist(), f"a filter over {column_type} tells nothing")
        always = [literal is None or number in problems for number, literal in enumerate(literals)]
        first = np.searchsorted(owners, np.arange(len(values) + 1)).tolist()
        return cls(hashes, first, always, problems[min(problems)] if problems else None)

    def combine(self, answers: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Combine answers per hash, of shape (filters, hashes), into answers per value: "maybe" if any hash is."""
        columns = [
            np.ones(len(answers), np.bool_) if always else answers[:, start:end].any(axis=1)
            for always, start, end in zip(self.always, self.first, self.first[1:], strict=False)
        ]
        return np.stack(columns, axis=1) if columns else np.ones((len(answers), 0), np.bool_)


def probe_hashes(
    chunks: Sequence[ChunkFilter], hashes: NDArray[np.uint64], *, immutable: bool = False
) -> tuple[NDArray[np.bool_], list[str | None]]:
    """Probe many filters for the same keys, given by their hashes (uint64). See `file_probe`, also for `immutable`.

    The hashes are those of the filters' variant: XXH64, except in files opened under a draft with another hash.

    Returns
    -------
    A bool array of shape (filters, hashes), False where a key is certainly absent, and for each filter why it could
    not be used, or None. A filter that could not be used answers True throughout.
    """
    answers = np.ones((len(chunks), len(hashes)), np.bool_)
    problems: list[str | None] = [None] * len(chunks)
    if not len(hashes):
        return answers, problems
    for members, file_probe in _probe_files(chunks, [hashes], np.zeros(len(chunks), np.intp), immutable, each_key=True):
        answers[members] = file_probe.answers
        for number, problem in zip(members, file_probe.problems, strict=True):
            problems[number] = problem
    return answers, problems


def probe_any(
    chunks: Sequence[ChunkFilter], sets: Sequence[NDArray[np.uint64]], which: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], list[str | None]]:
    """Probe each filter for its own keys, and return whether any of the keys may be present. Batches probes by file.

    Parameters
    ----------
    chunks : the filters; one may occur more than once.
    sets : hashes of keys, at least one in each set.
    which : the number of the set of each filter.

    Returns
    -------
    For each filter, False where all of its keys are certainly absent, and why it could not be used, or None.
    """
    answers = np.ones(len(chunks), np.bool_)
    problems: list[str | None] = [None] * len(chunks)
    for members, file_probe in _probe_files(chunks, sets, which):
        answers[members] = file_probe.any
        for number, problem in zip(members, file_probe.problems, strict=True):
            problems[number] = problem
    return answers, problems


def _probe_files(
    chunks: Sequence[ChunkFilter],
    sets: Sequence[NDArray[np.uint64]],
    which: NDArray[np.intp],
    immutable: bool = False,
    each_key: bool = False,
) -> Iterator[tuple[list[int], _FileProbe]]:
    """Yield the numbers of each file's filters, and their probe; with `each_key` it has the answers of every key."""
    by_file: dict[int, list[int]] = {}
    for number, chunk in enumerate(chunks):
        by_file.setdefault(id(chunk.file), []).append(number)
    for members in by_file.values():
        file_probe = _FileProbe([chunks[number] for number in members], [*sets], which[members])
        if each_key:
            file_probe.answers = np.ones((len(members), len(sets[0])), np.bool_)
        file_probe.run(immutable)
        yield members, file_probe


def gather_blocks(
    gather: Gather, probes: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]]
) -> tuple[NDArray[np.uint8], list[NDArray[np.int64]]]:
    """Read the blocks of filters of one file that can hold some keys, each block once.

    Parameters
    ----------
    probes : offsets and lengths of bitsets, and the hashes of the keys to look for in each of these.

    Returns
    -------
    blocks : one a row.
    numbers : for each probe, which block belongs to each bitset (rows) and hash (columns), as `check_blocks` takes it.
    """
    places = [starts[:, np.newaxis] + locate_blocks(num_bytes, hashes) for starts, num_bytes, hashes in probes]
    flat = places[0].ravel() if len(places) == 1 else np.concatenate([part.ravel() for part in places])
    if len(places) == 1 and len(probes[0][2]) == 1:  # each block occurs once
        offsets, numbers = flat, np.arange(len(flat))
    else:
        offsets, numbers = np.unique(flat, return_inverse=True)
    blocks = gather(offsets, np.full(len(offsets), BLOCK_BYTES, np.int64)).reshape(-1, BLOCK_BYTES)
    parts = np.split(numbers.ravel().astype(np.int64, copy=False), np.cumsum([part.size for part in places])[:-1])
    return blocks, [part.reshape(place.shape) for part, place in zip(parts, places, strict=True)]


class _FileProbe:
    """A probe of filters of one file, each for one of some sets of keys.

    Attributes
    ----------
    any : for each filter, whether any of its keys may be present.
    answers : the same for each key, if there is only one set and the caller has put an array of True here.
    problems : for each filter, why it could not be used, or None.
    """

    def __init__(self, chunks: list[ChunkFilter], sets: list[NDArray[np.uint64]], which: NDArray[np.intp]):
        self.chunks = chunks
        self.sets = sets
        self._placed: dict[tuple[int, int], int] = {}  # {(set, number of blocks): set with adapted hashes}
        self.which = which
        self.any = np.ones(len(chunks), np.bool_)
        self.answers: NDArray[np.bool_] | None = None
        self.problems: list[str | None] = [None] * len(chunks)
        self.starts = np.zeros(len(chunks), np.int64)
        self.num_bytes = np.zeros(len(chunks), np.int64)
        self.num_hashes = np.array([len(hashes) for hashes in sets], np.int64)[which]

    def run(self, immutable: bool) -> None:
        """Probe the filters; if the file itself has a problem, no answer can be trusted, and all keys may be there."""
        try:
            self._run(immutable)
        except ParquetBloomError as error:
            self.problems = [error.problem] * len(self.chunks)
            self.any[:] = True
            if self.answers is not None:
                self.answers[:] = True

    def _run(self, immutable: bool) -> None:
        file = self.chunks[0].file
        file.read_headers(self.chunks)
        for i, chunk in enumerate(self.chunks):
            self.problems[i] = chunk.header_problem
            if not self.problems[i] and file.is_draft:
                self._apply_variant(i, chunk)
            if not self.problems[i]:
                self.starts[i], self.num_bytes[i] = chunk.offset + chunk.header.header_bytes, chunk.num_bytes
        usable = np.flatnonzero(self.num_bytes)
        usable = usable[np.argsort(self.starts[usable], kind="stable")]  # sequential reads are faster
        if immutable and file.source.path is not None:
            self._probe(usable, file.source.mapped())
        else:
            self._probe(usable, file.source)
            file.note_reads()

    def _apply_variant(self, i: int, chunk: ChunkFilter) -> None:
        """Adapt the hashes so that the kernels probe the block that the draft chooses."""
        self.problems[i] = chunk.variant_problem
        if self.problems[i] or chunk.variant.block == MULTIPLY_SHIFT:
            return
        key = int(self.which[i]), chunk.num_blocks
        if key not in self._placed:
            self._placed[key] = len(self.sets)
            self.sets.append(chunk.variant.placed(self.sets[key[0]], chunk.num_blocks))
        self.which[i] = self._placed[key]

    def _probe(self, usable: NDArray[np.intp], reader: _FilterReader) -> None:
        costs = np.minimum(self.num_bytes[usable], BLOCK_BYTES * self.num_hashes[usable])
        unsure: list[int] = []
        for batch in _split_batches(usable, costs):
            whole = self._wants_whole(batch)
            for i, bitset in zip(batch[whole].tolist(), self._bitsets(batch[whole], reader), strict=True):
                self._take(i, sbbf.check_hashes(bitset, self.sets[self.which[i]]))
                if not bitset.any():
                    self._is_empty(i)
            unsure += self._probe_blocks(batch[~whole], reader)
        self._search_for_a_bit(np.array(unsure, np.intp), reader)

    def _take(self, members: int | NDArray[np.intp], answers: NDArray[np.bool_]) -> None:
        self.any[members] = answers.any(axis=-1)
        if self.answers is not None:
            self.answers[members] = answers

    def _wants_whole(self, batch: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which filters are read whole: small ones, and those of which more than half the blocks are needed."""
        sizes = self.num_bytes[batch]
        source = self.chunks[0].file.source
        whole = sizes <= (WHOLE_BYTES if source.path is not None else source.gap_bytes)
        dense: dict[tuple[int, int], bool] = {}
        for i in np.flatnonzero(~whole & (2 * self.num_hashes[batch] * BLOCK_BYTES > sizes)):
            key = int(sizes[i]), int(self.which[batch[i]])
            if key not in dense:
                blocks = np.unique(locate_blocks(sizes[i : i + 1], self.sets[key[1]]))
                dense[key] = 2 * len(blocks) * BLOCK_BYTES > key[0]
            whole[i] = dense[key]
        return whole

    def _bitsets(self, batch: NDArray[np.intp], reader: _FilterReader) -> list[NDArray[np.uint8]]:
        sizes = self.num_bytes[batch]
        return np.split(reader.gather(self.starts[batch], sizes), np.cumsum(sizes)[:-1]) if len(batch) else []

    def _probe_blocks(self, batch: NDArray[np.intp], reader: _FilterReader) -> list[int]:
        """Probe single blocks; return the filters of which no probed block had a bit set."""
        if not len(batch):
            return []
        groups = [(batch[self.which[batch] == number], self.sets[number]) for number in np.unique(self.which[batch])]
        probes = [(self.starts[members], self.num_bytes[members], hashes) for members, hashes in groups]
        blocks, numbers_of_probes = gather_blocks(reader.gather, probes)
        is_empty = ~np.any(blocks.view(np.uint64), axis=1)
        unsure: list[int] = []
        for (members, hashes), numbers in zip(groups, numbers_of_probes, strict=True):
            self._take(members, check_blocks(blocks, numbers, hashes))
            unsure += members[np.all(is_empty[numbers], axis=1)].tolist()
        return unsure

    def _search_for_a_bit(self, unsure: NDArray[np.intp], reader: _FilterReader) -> None:
        """Distinguish sparse filters from those that were never filled and would wrongly deny everything."""
        done, piece = 0, _FIRST_PIECE
        unsure = unsure[[self.chunks[i]._empty_problem is not None for i in unsure]] if len(unsure) else unsure
        while len(unsure):
            remaining: list[NDArray[np.intp]] = []
            for batch in _split_batches(unsure, np.minimum(self.num_bytes[unsure] - done, piece)):
                lengths = np.minimum(self.num_bytes[batch] - done, piece)
                data = reader.gather(self.starts[batch] + done, lengths)
                empty = ~np.logical_or.reduceat(data != 0, np.cumsum(lengths) - lengths)
                for i in batch[empty & (self.num_bytes[batch] <= done + lengths)]:
                    self._is_empty(int(i))
                remaining.append(batch[empty & (self.num_bytes[batch] > done + lengths)])
            unsure = np.concatenate(remaining)
            done, piece = done + piece, piece * _GROWTH

    def _is_empty(self, i: int) -> None:
        self.problems[i] = self.chunks[i]._empty_problem
        if self.problems[i]:
            self._take(i, np.ones(self.num_hashes[i], np.bool_))


def _split_batches(members: NDArray[np.intp], costs: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    """Split into runs of at most BATCH_BYTES, or of one member."""
    ends = np.cumsum(costs)
    start, before = 0, 0
    while start < len(members):
        stop = max(start + 1, int(np.searchsorted(ends, before + BATCH_BYTES, "right")))
        yield members[start:stop]
        start, before = stop, int(ends[stop - 1])
