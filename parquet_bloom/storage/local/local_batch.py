"""Reads of many local files that are not kept open, and checks that they have not changed."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import StorageError
from ...util.threads import in_order
from ..source import Source
from . import batch_probe, batch_read
from .local_source import FileIdentity

# What work takes, roughly, with everything in the page cache; only used to share it among threads.
_OPEN_NS = 6_000  # to open, check and close a file
_READ_NS = 600  # a read, however short
_BYTES_PER_NS = 8  # of longer reads
_CHECK_NS = 5  # a key in a block
_WORTH_A_THREAD_NS = 1_000_000

_MOST_OPEN = 512  # files at a time
_WAIT_SECONDS = 1.0  # for descriptors: reading files one by one takes longer than waiting for a few batches


class FilterAnswers(NamedTuple):
    """The answers of filters of many files.

    Attributes
    ----------
    answers : of each filter: ABSENT, MAYBE, EMPTY, ODD or UNREAD of `batch_probe`.
    same : for each file, False if it is missing, cannot be read, ends before a filter does, or has changed. The answers
        of such a file are meaningless.
    requests, num_bytes : what was read of each file.
    """

    answers: NDArray[np.uint8]
    same: NDArray[np.bool_]
    requests: NDArray[np.int64]
    num_bytes: NDArray[np.int64]


class LocalFileBatch:
    """Local files that were opened before, for repeated reads in one call.

    Parameters
    ----------
    paths : the files, as they were opened; None for one of which only the bytes in memory are used.
    identities : their identities at that time.
    in_memory : {number of a file: sequence of (offset, bytes)}, read along with other bytes and used in place of reads.
    """

    def __init__(
        self,
        paths: Sequence[str | None],
        identities: Sequence[FileIdentity],
        in_memory: Mapping[int, Sequence[tuple[int, object]]] | None = None,
    ):
        self._paths: list[bytes | None] = []
        for path in paths:
            self._paths.append(None if path is None else os.fsencode(path))
        self._identities = batch_read.pack_identities(identities)
        self._in_memory = dict(in_memory or {})

    def __len__(self) -> int:
        return len(self._paths)

    def probe(
        self,
        first: NDArray[np.int64],
        filters: NDArray[np.int64],
        which: NDArray[np.int64],
        sets: Sequence[NDArray[np.uint64]],
        threads: int = 1,
    ) -> FilterAnswers:
        """Probe filters of the files, each for a set of keys, and report which files have not changed.

        Parameters
        ----------
        first : file i has the filters from first[i] to first[i + 1].
        filters : int64 of shape (filters, 3), by file: offset, length, and 1 if they include a header, which must be
            the usual one of such a filter, or 0.
        which : the number of the set of each filter.
        sets : hashes of keys.
        threads : threads to use, at most.
        """
        keys = np.concatenate([np.empty(0, np.uint64), *map(np.sort, sets)])
        first_key = np.cumsum([0, *map(len, sets)])
        cuts = _share_work(first, filters, np.diff(first_key)[which], threads)
        if len(cuts) == 1:
            of_files = self._paths, self._identities, self._in_memory, first
            return FilterAnswers(*batch_probe.probe(*of_files, *cuts[0][2:], filters, which, first_key, keys))

        def run(cut: tuple[int, int, int, int]) -> FilterAnswers:
            start, stop, begin, end = cut
            in_memory = {i - start: ranges for i, ranges in self._in_memory.items() if start <= i < stop}
            of_files = self._paths[start:stop], self._identities[start:stop], in_memory, first[start : stop + 1]
            return FilterAnswers(*batch_probe.probe(*of_files, begin, end, filters, which, first_key, keys))

        with in_order(run, cuts, len(cuts)) as parts:
            results = list(parts)
        same, costs = np.ones(len(self), np.bool_), np.zeros((2, len(self)), np.int64)
        for (start, stop, _, _), part in zip(cuts, results, strict=True):
            same[start:stop] &= part.same
            costs[:, start:stop] += part.requests, part.num_bytes
        return FilterAnswers(np.concatenate([part.answers for part in results]), same, costs[0], costs[1])


class OpenFileBudget:
    """Descriptors that files of batches take at a time in this process: a share of those that it may have open.

    Without it several scans at once would leave none to what opens files one by one, and has no other way.
    """

    def __init__(self) -> None:
        self._in_use = 0
        self._changed = threading.Condition()

    @staticmethod
    def find_limit() -> int:
        """Return how many descriptors there are: at least one."""
        try:
            import resource
        except ImportError:  # Windows
            return _MOST_OPEN
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return _MOST_OPEN if soft == resource.RLIM_INFINITY else max(1, min(_MOST_OPEN, soft // 4))

    def take(self, count: int, timeout: float = _WAIT_SECONDS) -> bool:
        """Take descriptors, waiting for others to give theirs back; return whether that was possible in time.

        More than there are can be taken if nobody has any.
        """
        most = self.find_limit()
        with self._changed:
            taken = not self._in_use or self._in_use + count <= most
            if not taken:
                taken = self._changed.wait_for(lambda: not self._in_use or self._in_use + count <= most, timeout)
            self._in_use += count if taken else 0
        return taken

    def give_back(self, count: int) -> None:
        """Give descriptors back; also while garbage is collected."""
        with self._changed:  # its lock may be taken again by the thread that has it
            self._in_use = max(self._in_use - count, 0)
            self._changed.notify_all()

    def forget(self) -> None:
        """Begin anew, in a process that was forked: its parent's threads do not give back here."""
        self._in_use, self._changed = 0, threading.Condition()


OPEN_FILE_BUDGET = OpenFileBudget()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OPEN_FILE_BUDGET.forget)


def _share_work(
    first: NDArray[np.int64], filters: NDArray[np.int64], num_keys: NDArray[np.int64], threads: int
) -> list[tuple[int, int, int, int]]:
    """Split files and filters into parts of equal work: (start, stop) of the files, and (start, stop) of the filters.

    A file with many filters may be in several parts; a file without any is in one.
    """
    blocks, whole = _READ_NS * num_keys, _READ_NS + np.maximum(filters[:, 1], 0) // _BYTES_PER_NS
    cost = np.minimum(blocks, whole) + _CHECK_NS * num_keys
    if len(cost):
        cost += _OPEN_NS * np.bincount(np.minimum(first[:-1], len(cost) - 1), minlength=len(cost))
    total = int(cost.sum()) if len(cost) else _OPEN_NS * (len(first) - 1)
    count = max(1, min(threads, total // _WORTH_A_THREAD_NS))
    if not len(cost):
        bounds = [len(first[:-1]) * i // count for i in range(count + 1)]
        return [(start, stop, 0, 0) for start, stop in pairwise(bounds)]
    shares = total * np.arange(1, count) // count
    bounds = sorted({0, *np.searchsorted(np.cumsum(cost), shares).tolist(), len(cost)})
    parts = []
    for begin, end in pairwise(bounds):
        start = int(np.searchsorted(first, begin, "right")) - 1 if begin else 0
        stop = int(max(np.searchsorted(first, end, "left"), np.searchsorted(first, end, "right") - 1))
        parts.append((start, len(first) - 1 if end == len(cost) else stop, begin, end))
    return parts


class ClosedSource(Source):
    """A local file that is not open, with only its last bytes in memory.

    Reading anything else raises StorageError.

    Attributes
    ----------
    end : the last bytes of the file.
    """

    identity: FileIdentity

    def __init__(self, name: str, identity: FileIdentity, end: bytes = b""):
        self.name = name
        self.identity = identity
        self.size = identity.size
        self.end = end
        self.first_read = len(end)
        if end:
            self.keep(self.size - len(end), end)

    @cached_property
    def path(self) -> str:  # type: ignore[override]
        return os.path.realpath(self.name)

    def _read(self, offset: int, length: int) -> NoReturn:
        raise StorageError("it is not open", path=self.name, errno=errno.EBADF)

    def _gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8]) -> NoReturn:
        raise StorageError("it is not open", path=self.name, errno=errno.EBADF)

    def arrow_file(self) -> pa.NativeFile:
        raise StorageError("it is not open", path=self.name, errno=errno.EBADF)

    def check_unchanged(self) -> None:
        raise StorageError("it is not open", path=self.name, errno=errno.EBADF)

    def close(self) -> None:
        """Do nothing: the file is not open."""


def try_stat(path: str) -> os.stat_result | OSError:
    """Return the status of a path, or the error; of a name that no file can have, such as one with a NUL, too."""
    if "\0" in path:
        return OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    try:
        return os.stat(path)
    except OSError as error:
        return error
    except UnicodeEncodeError:
        return OSError(errno.EILSEQ, os.strerror(errno.EILSEQ), path)


def stat_files(paths: Sequence[str]) -> Iterator[ClosedSource | None]:
    """Yield the regular file at each path, or None; nothing is read."""
    for path in paths:
        status = try_stat(path)
        if isinstance(status, OSError) or not stat.S_ISREG(status.st_mode):
            yield None
        else:
            yield ClosedSource(path, FileIdentity.from_stat(status))
