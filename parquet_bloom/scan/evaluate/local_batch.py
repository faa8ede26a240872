"""Files judged together: their footers known or read by the hundred, their filters' blocks read in one visit.

What is known of a local file is believed only after the visit, which tells whether the file still is the one it was.
Files that are not, those about which anything is odd, and those with a question that takes more than a visit, are left
to be looked at one by one. `prune.objects` does the same with objects of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.bloom.blocks import check_blocks, locate_blocks
from ...core.bloom.sbbf import BLOCK_BYTES
from ...errors import ParquetBloomError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...file.statistics import (
    UNREAD,
    ColumnCompatibility,
    ColumnStatistics,
    FileStatistics,
    cached_statistics,
    file_statistics,
)
from ...metadata.footer import TAIL_BYTES
from ...predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ...predicate.statistics import PruningStatisticsArray
from ...storage import ClosedSource, FileIdentity, LocalFileBatch, read_file_tails
from ...util.threads import in_order
from .parquet import columns_of, columns_together

MANY_KEYS = 64
"""A filter that is asked for more keys is not visited for single blocks."""

_FILES_A_THREAD = 128  # fewer are not worth a thread

_ENDS = 256  # files whose last bytes are in memory at a time
_PAGE = 4096
_FIRST_END, _SHORTEST_END, _LONGEST_END = 4 * _PAGE, _PAGE, 256 * _PAGE  # bytes that are read of their ends
_NOWHERE = np.iinfo(np.int64).max
_HEAD_BYTES = 32  # more than the header of a filter takes


class LocalResult(NamedTuple):
    """A file that was judged: which, its facts, the number of each row group's verdict, and what was read for it."""

    identity: Hashable
    facts: FileStatistics
    verdicts: NDArray[np.int32]
    requests: int
    bytes_read: int


class KnownFile(NamedTuple):
    """A file to be judged: its position among those that were asked for, its state, and what is known of it.

    Attributes
    ----------
    end : of a file that was read just now and whose end is in memory; None of others.
    requests, bytes_read : what reading it has taken before.
    """

    place: int
    path: str
    identity: Any
    known: CachedFooter
    facts: FileStatistics
    end: ClosedSource | None = None
    requests: int = 0
    bytes_read: int = 0


class Visitor(Protocol):
    """Reads ranges of many files, and tells which files are still what they were; see `storage.KnownFiles.visit`.

    Attributes
    ----------
    in_memory : whether it asks no file system.
    """

    in_memory: bool

    def visit(
        self, start: int, stop: int, first: NDArray[np.int64], offsets: NDArray[np.int64], length: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]: ...


def judge_local(
    paths: Sequence[str],
    decider: PruningPredicate | Literal[True],
    cache: MetadataCache | None,
    ignore_case: bool,
    threads: int,
    trust: ColumnCompatibility | None = None,
) -> dict[int, LocalResult]:
    """Judge those of some local files that can be judged without a closer look.

    Parameters
    ----------
    paths : the files.
    decider : the predicate; True for one that holds for every row.
    cache : footers that are known, and to which those read now are added.
    threads : how many visit files at a time, at most.
    trust : which columns of a file are not looked at.

    Returns
    -------
    {place in `paths`: what was found}; the others must be looked at one by one.
    """
    names = tuple(columns_of(decider))
    known: list[tuple[FileIdentity, CachedFooter] | None] = [None] * len(paths)
    if cache is not None:
        known = cache.find_by_paths(paths)
    asked = StatisticsKey(names, ignore_case, trust)
    return judge_together(paths, known, asked, decider, cache, threads, lambda: _batches(paths, known, asked, cache))


def judge_together(
    paths: Sequence[str],
    known: Sequence[tuple[Hashable, CachedFooter] | None],
    asked: StatisticsKey,
    decider: PruningPredicate | Literal[True],
    cache: MetadataCache | None,
    threads: int,
    make_batches: Callable[[], list[Batch]],
) -> dict[int, LocalResult]:
    """Judge files in batches, which are made once for files of which the same is known."""
    key = (asked, len(paths), paths[0] if paths else "")
    together: _BatchKey | None = cache.get_shared(key) if cache is not None else None
    if together is None or together.known != known or together.paths != paths:
        together = _BatchKey(list(paths), known, make_batches())
        if cache is not None and None not in known:
            cache.put_shared(key, together)
    judged: dict[int, LocalResult] = {}
    for batch in together.batches:
        judged.update(_BatchRead(batch, threads).judge(decider))
    return judged


class StatisticsKey(NamedTuple):
    """What is looked at in each file: the arguments of `file_statistics`, by which it also keeps what it found."""

    names: tuple[str, ...]
    ignore_case: bool
    trust: ColumnCompatibility | None


class _BatchKey(NamedTuple):
    """What was made of some files: valid as long as the same is known of them."""

    paths: list[str]
    known: Sequence[tuple[Hashable, CachedFooter] | None]
    batches: list[Batch]


def _batches(
    paths: Sequence[str],
    known: list[tuple[FileIdentity, CachedFooter] | None],
    asked: StatisticsKey,
    cache: MetadataCache | None,
) -> list[Batch]:
    files: list[KnownFile] = []
    for place, found in enumerate(known):
        if found is not None:
            identity, footer = found
            facts = cached_statistics(footer, asked)
            if facts is None:
                file = BloomFile(ClosedSource(paths[place], identity), cached=footer)
                facts = facts_or_none(file, asked)
            if facts is not None:
                files.append(KnownFile(place, paths[place], identity, footer, facts))
    unknown = [place for place, found in enumerate(known) if found is None]
    files += _first_looks(unknown, paths, asked, cache)
    return [
        Batch(some, LocalFileBatch([file.path for file in some], [file.identity for file in some]))
        for some in by_layout(files)
    ]


def by_layout(files: Iterable[KnownFile]) -> list[list[KnownFile]]:
    """Files grouped by the layout of their facts, so that those of each group are judged as arrays."""
    of_layout: dict[int, list[KnownFile]] = {}
    for one in files:
        of_layout.setdefault(one.facts.layout, []).append(one)
    return [*of_layout.values()]


def facts_or_none(file: BloomFile, asked: StatisticsKey) -> FileStatistics | None:
    try:
        return file_statistics(file, *asked)
    except ParquetBloomError:
        return None  # a closer look says what is wrong


def _first_looks(
    places: list[int], paths: Sequence[str], asked: StatisticsKey, cache: MetadataCache | None
) -> Iterator[KnownFile]:
    """Read the footers of files; of those that are read without any trouble, what is known now."""
    length = _FIRST_END
    for start in range(0, len(places), _ENDS):
        some = places[start : start + _ENDS]
        longest = 0
        for place, source in zip(some, read_file_tails([paths[place] for place in some], length), strict=True):
            if source is None:
                continue
            longest = max(longest, int.from_bytes(source.end[-TAIL_BYTES:-4], "little") + TAIL_BYTES)
            try:
                file = BloomFile(source, cache)
                facts = file_statistics(file, *asked)
            except ParquetBloomError:
                continue  # its footer is longer than what was read of it, or a closer look says what is wrong
            costs = 1, len(source.end)
            yield KnownFile(place, paths[place], source.identity, file.cached, facts, source, *costs)
        # Files of a lake are of a kind: the next footers will not be much longer.
        length = min(max(_SHORTEST_END, -(-longest * 5 // 4 // _PAGE) * _PAGE), _LONGEST_END)


class Batch:
    """Files of one layout, and what is known of all of them together.

    Attributes
    ----------
    files : the files.
    ends : where each file's row groups end among those of all.
    known : the files as they are visited.
    kept_from : int64, where the bytes of each file's end begin that are in memory.
    """

    def __init__(self, files: list[KnownFile], visitor: Visitor):
        self.files = files
        self.ends = np.cumsum([len(file.facts.num_rows) for file in files])
        self.known = visitor
        ends = [_NOWHERE if file.end is None else file.end.size - len(file.end.end) for file in files]
        self.kept_from = np.array(ends, np.int64)
        self._filters: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], list[str | None]]] = {}

    @cached_property
    def columns(self) -> dict[str, PruningStatisticsArray | None]:
        return columns_together([file.facts for file in self.files])

    def filters(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str | None]]:
        """Starts and sizes of a column's filters in all row groups; and problems, none at all if none has one."""
        found = self._filters.get(name)
        if found is None:
            columns = [column for file in self.files if (column := file.facts.columns[name]) is not None]
            num_bytes = np.concatenate(
                [column.num_bytes for column in columns]
            )  # before the starts: see `ColumnStatistics`
            problems = [] if num_bytes.all() else [problem for column in columns for problem in column.problems]
            found = np.concatenate([column.starts for column in columns]), num_bytes, problems
            self._filters[name] = found
        return found

    def forget_filters(self, name: str) -> None:
        """Put together anew what is known of them: it has become more."""
        self._filters.pop(name, None)


class _BatchRead:
    """A visit to the files of a batch."""

    def __init__(self, batch: Batch, threads: int):
        self._batch = batch
        self._files = batch.files
        self._ends = batch.ends
        self._threads = max(1, min(threads, len(batch.files) // _FILES_A_THREAD))
        self._is_same: NDArray[np.bool_] | None = None
        self._usable = np.ones(len(batch.files), np.bool_)
        self._requests = np.zeros(len(batch.files), np.int64)
        self._bytes = np.zeros(len(batch.files), np.int64)

    def judge(self, decider: PruningPredicate | Literal[True]) -> dict[int, LocalResult]:
        count = int(self._ends[-1])
        verdicts = np.zeros(count, np.int32)
        if decider is not True:
            verdicts = decider.decide_all(self._batch.columns, count, self._ask)
        if self._is_same is None:
            self._visit(np.empty(0, np.intp), np.empty(0, np.int64), BLOCK_BYTES)
        assert self._is_same is not None
        usable = (self._usable & self._is_same).tolist()
        found = zip(
            self._files, self._ends.tolist(), usable, self._requests.tolist(), self._bytes.tolist(), strict=True
        )
        judged, start = {}, 0
        for file, end, use, requests, num_bytes in found:
            of_file, start = verdicts[start:end], end
            if use:
                requests, num_bytes = requests + file.requests, num_bytes + file.bytes_read
                judged[file.place] = LocalResult(file.identity, file.facts, of_file, requests, num_bytes)
        return judged

    def _ask(self, questions: list[FilterProbe]) -> list[ProbeResult]:
        self._read_heads([question for question in questions if len(question.hashes) <= MANY_KEYS])
        answers = [ProbeResult(np.ones(len(question.places), np.bool_)) for question in questions]
        asked: list[tuple[int, NDArray[np.intp]]] = []  # the question, and which of its places
        files, offsets = [], []
        for number, question in enumerate(questions):
            of_place = np.searchsorted(self._ends, question.places, "right")
            starts, num_bytes, problems = self._batch.filters(question.column)
            starts, num_bytes = starts[question.places], num_bytes[question.places]
            if problems:
                answers[number] = ProbeResult(answers[number].maybe, [problems[at] for at in question.places.tolist()])
            members = np.flatnonzero(num_bytes > 0)
            if len(question.hashes) > MANY_KEYS:
                self._usable[of_place] = False
                continue
            self._usable[of_place[num_bytes == UNREAD]] = False
            asked.append((number, members))
            places = starts[members, np.newaxis] + locate_blocks(num_bytes[members], question.hashes)
            files.append(np.repeat(of_place[members], len(question.hashes)))
            offsets.append(places.ravel())
        of_block = np.concatenate([np.empty(0, np.intp), *files])
        blocks = self._visit(of_block, np.concatenate([np.empty(0, np.int64), *offsets]), BLOCK_BYTES)
        done = 0
        for number, members in asked:
            hashes = questions[number].hashes
            shape = len(members), len(hashes)
            numbers = np.arange(done, done + shape[0] * shape[1], dtype=np.int64).reshape(shape)
            answers[number].maybe[members] = check_blocks(blocks, numbers, hashes).any(axis=1)
            # Where no block has a bit set the filter may never have been filled: that takes a longer look.
            set_bits = blocks[done : done + numbers.size].reshape(*shape, BLOCK_BYTES).any(axis=(1, 2))
            self._usable[of_block[numbers[~set_bits, :1].ravel()]] = False
            done += numbers.size
        return answers

    def _read_heads(self, questions: list[FilterProbe]) -> None:
        """Read the headers of filters that are asked for the first time."""
        wanted: list[tuple[int, int, ColumnStatistics]] = []  # file, row group, column
        for question in questions:
            of_place = np.searchsorted(self._ends, question.places, "right")
            unread = np.flatnonzero(self._batch.filters(question.column)[1][question.places] == UNREAD)
            if len(unread):
                self._batch.forget_filters(question.column)
            for number, place in zip(of_place[unread].tolist(), question.places[unread].tolist(), strict=True):
                file = self._files[number]
                row_group = place - int(self._ends[number]) + len(file.facts.num_rows)
                column = file.facts.columns[question.column]
                assert column is not None
                offset = column.filter_offset(row_group)
                head = file.known.filter_headers.get(offset)
                known = head is not None and column.decode_header(file.known, row_group, head, offset)
                if not known and file.end is not None:
                    known = column.decode_header(file.known, row_group, *file.end.kept)
                # Else no header would be believed, and the place may be anywhere.
                if not known and offset >= 0 and file.known.footer.filters_apart:
                    wanted.append((number, row_group, column))
        if not wanted:
            return
        of_head = np.array([number for number, _, _ in wanted], np.intp)
        offsets = np.array([column.filter_offset(row_group) for _, row_group, column in wanted], np.int64)
        heads = self._visit(of_head, offsets, _HEAD_BYTES)
        assert self._is_same is not None
        for (number, row_group, column), offset, head in zip(wanted, offsets.tolist(), heads, strict=True):
            if self._is_same[number]:  # else they are another file's, and must not be remembered of this one
                column.decode_header(self._files[number].known, row_group, head.tobytes(), offset)

    def _visit(self, of_range: NDArray[np.intp], offsets: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
        """Read ranges, given by their file and offset, and see which files are still the same."""
        data = np.empty((len(offsets), length), np.uint8)
        far = np.ones(len(offsets), np.bool_)
        near = self._batch.kept_from[of_range] <= offsets  # they came with the file's end
        for at in np.flatnonzero(near).tolist():
            end = self._files[of_range[at]].end
            assert end is not None
            begin = int(offsets[at]) - end.size
            piece = end.end[begin : begin + length or None]
            if len(piece) == length:
                data[at] = np.frombuffer(piece, np.uint8)
                far[at] = False
        data[far] = self._visit_far(of_range[far], offsets[far], length)
        return data

    def _visit_far(self, of_range: NDArray[np.intp], offsets: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
        order = np.lexsort((offsets, of_range))
        counts = np.bincount(of_range, minlength=len(self._files))
        if not self._batch.known.in_memory:
            self._requests += counts
            self._bytes += length * counts
        first = np.concatenate([[0], np.cumsum(counts)])
        size = -(-len(self._files) // self._threads)
        spans = [(start, min(start + size, len(self._files))) for start in range(0, len(self._files), size)]
        look = partial(self._visit_span, first=first, offsets=offsets[order], length=length)
        if len(spans) == 1:
            found = [look(spans[0])]
        else:
            with in_order(look, spans, len(spans)) as results:
                found = list(results)
        is_same = np.concatenate([same for _, same in found])
        self._is_same = is_same if self._is_same is None else self._is_same & is_same
        data = np.empty((len(offsets), length), np.uint8)
        data[order] = np.concatenate([part for part, _ in found])
        return data

    def _visit_span(
        self, span: tuple[int, int], first: NDArray[np.int64], offsets: NDArray[np.int64], length: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        start, stop = span
        of_span = first[start : stop + 1]
        return self._batch.known.visit(start, stop, of_span - of_span[0], offsets[of_span[0] : of_span[-1]], length)
