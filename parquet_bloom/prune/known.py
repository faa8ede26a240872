"""Local files whose footers are known: judged together, each visited once for the few blocks of its filters.

What is remembered of a file is believed only after the visit, which tells whether the file still is the one it was.
Files that are not, and those with a question that takes more than a visit, are left to be looked at one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.blocks import check_blocks, locate_blocks
from ..core.sbbf import BLOCK_BYTES
from ..file.facts import FileFacts
from ..file.footer_cache import FooterCache
from ..predicate.decide import Answer, Decider, Question
from ..storage import FileIdentity, visit
from ..threads import in_order
from .evidence import judge

MANY_KEYS = 64
"""A filter that is asked for more keys is not visited for single blocks."""

_FILES_A_THREAD = 128  # fewer are not worth a thread


class Judged(NamedTuple):
    """A file that was judged: its facts, the number of each row group's verdict, and the blocks that were read."""

    facts: FileFacts
    verdicts: NDArray[np.int32]
    num_blocks: int


def judge_known(
    paths: Sequence[str], decider: Decider, cache: FooterCache, ignore_case: bool, threads: int
) -> dict[int, Judged]:
    """Judge those of some local files that can be judged by what a cache has of them.

    Parameters
    ----------
    paths : the files.
    threads : how many visit files at a time, at most.

    Returns
    -------
    {place in `paths`: what was found}, without files that are not known, or not any more.
    """
    view = (tuple(decider.columns), ignore_case)
    together: dict[int, list[_Known]] = {}
    for place, found in enumerate(cache.last_at(paths)):
        facts = None if found is None else found[1].views.get(view)
        if found is not None and facts is not None:
            together.setdefault(facts.layout, []).append(_Known(place, paths[place], found[0], facts))
    judged: dict[int, Judged] = {}
    for files in together.values():
        judged.update(_Visit(files, threads).judge(decider))
    return judged


class _Known(NamedTuple):
    place: int
    path: str
    identity: FileIdentity
    facts: FileFacts


class _Visit:
    """Files of one layout, judged and visited."""

    def __init__(self, files: list[_Known], threads: int):
        self._files = files
        self._threads = max(1, min(threads, len(files) // _FILES_A_THREAD))
        counts = np.array([len(file.facts.num_rows) for file in files], np.intp)
        self._ends = np.cumsum(counts)  # of each file's places among those of all
        self._is_same: NDArray[np.bool_] | None = None
        self._usable = np.ones(len(files), np.bool_)
        self._num_blocks = np.zeros(len(files), np.int64)

    def judge(self, decider: Decider) -> dict[int, Judged]:
        verdicts = judge([file.facts for file in self._files], decider, self._ask)
        if self._is_same is None:
            self._visit(np.empty(0, np.intp), np.empty(0, np.int64))
        assert self._is_same is not None
        usable = (self._usable & self._is_same).tolist()
        of_files = np.split(verdicts, self._ends[:-1])
        blocks = self._num_blocks.tolist()
        return {
            file.place: Judged(file.facts, of_file, count)
            for file, of_file, count, use in zip(self._files, of_files, blocks, usable, strict=True)
            if use
        }

    def _ask(self, questions: list[Question]) -> list[Answer]:
        answers = [Answer(np.ones(len(question.places), np.bool_)) for question in questions]
        asked: list[tuple[int, NDArray[np.intp]]] = []  # the question, and which of its places
        files, offsets = [], []
        for number, question in enumerate(questions):
            of_place = np.searchsorted(self._ends, question.places, "right")
            starts, num_bytes, problems = self._filters(question)
            if any(problems):
                answers[number] = Answer(answers[number].maybe, problems)
            members = np.flatnonzero(num_bytes > 0)
            if len(question.hashes) > MANY_KEYS:
                self._usable[of_place] = False
                continue
            self._usable[of_place[num_bytes < 0]] = False  # headers that were not read yet
            asked.append((number, members))
            places = starts[members, np.newaxis] + locate_blocks(num_bytes[members], question.hashes)
            files.append(np.repeat(of_place[members], len(question.hashes)))
            offsets.append(places.ravel())
        of_block = np.concatenate([np.empty(0, np.intp), *files])
        blocks = self._visit(of_block, np.concatenate([np.empty(0, np.int64), *offsets]))
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

    def _filters(self, question: Question) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str | None]]:
        """Starts, sizes and problems of the filters of a question's places."""
        found = [file.facts.columns[question.column] for file in self._files]
        columns = [of_file for of_file in found if of_file is not None]
        starts = np.concatenate([column.starts for column in columns])[question.places]
        num_bytes = np.concatenate([column.num_bytes for column in columns])[question.places]
        problems: list[str | None] = []
        if not num_bytes.all():
            every = [problem for column in columns for problem in column.problems]
            problems = [every[place] for place in question.places.tolist()]
        return starts, num_bytes, problems

    def _visit(self, of_block: NDArray[np.intp], offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read blocks, given by their file and offset, and see which files are still the same."""
        order = np.lexsort((offsets, of_block))
        self._num_blocks = np.bincount(of_block, minlength=len(self._files))
        first = np.concatenate([[0], np.cumsum(self._num_blocks)])
        size = -(-len(self._files) // self._threads)
        spans = [(start, min(start + size, len(self._files))) for start in range(0, len(self._files), size)]
        look = partial(self._visit_span, first=first, offsets=offsets[order])
        if len(spans) == 1:
            found = [look(spans[0])]
        else:
            with in_order(look, spans, len(spans)) as results:
                found = list(results)
        self._is_same = np.concatenate([is_same for _, is_same in found])
        blocks = np.empty((len(offsets), BLOCK_BYTES), np.uint8)
        blocks[order] = np.concatenate([data for data, _ in found])
        return blocks

    def _visit_span(
        self, span: tuple[int, int], first: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        start, stop = span
        files, of_span = self._files[start:stop], first[start : stop + 1]
        return visit(
            [file.path for file in files],
            [file.identity for file in files],
            of_span - of_span[0],
            offsets[of_span[0] : of_span[-1]],
            BLOCK_BYTES,
        )
