"""Groups of local files: their footers are read many at a time, in several threads, largely without the interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import compress, count
from operator import not_

from ...errors import ParquetBloomError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...metadata.footer import Footer
from ...storage import ClosedSource, FileIdentity, LocalFileBatch, read_file_ends, stat_files
from ...util.threads import in_order
from .statistics import OpenedFile, parse_ends

_FIRST_FILES = 32  # of which the first bytes tell how long the footers of a lake are
_FILES_PER_READ = 256  # read and parsed at a time
_BYTES_PER_READ = 32 * 1024 * 1024
_MAX_RETAINED_BYTES = 64 * 1024 * 1024  # of files' ends, in which filters may be
_PAGE = 4096
_FIRST_TAIL_BYTES, _MIN_TAIL_BYTES, _MAX_TAIL_BYTES = 4 * _PAGE, _PAGE, 256 * _PAGE


class LocalFiles:
    """A `FileGroup` of local files. Whether a cached one is unchanged is found out when its filters are probed.

    Parameters
    ----------
    paths : the files.
    cache : cached footers, to which those read are added; None for none.
    threads : threads that read footers, at most.
    """

    def __init__(self, paths: list[str], cache: MetadataCache | None, threads: int):
        self.paths = paths
        self.cached: list[tuple[FileIdentity, CachedFooter] | None] = [None] * len(paths)
        if cache is not None:
            self.cached = cache.find_by_paths(paths)
        self._cache = cache
        self._threads = threads

    def read_footers(self) -> Iterator[list[OpenedFile]]:
        """See `FileGroup.read_footers`: hardly more of the files' ends is read than footers like theirs take."""
        length, retained = _FIRST_TAIL_BYTES, 0
        spent: dict[int, int] = {}  # bytes of files that are read a second time
        remaining = list(compress(count(), map(not_, self.cached)))
        some, remaining = remaining[:_FIRST_FILES], remaining[_FIRST_FILES:]
        while some:
            size = max(1, min(_FILES_PER_READ, _BYTES_PER_READ // length))
            groups = []
            for start in range(0, len(some), size):
                groups.append((some[start : start + size], length))
            longest, too_long = 0, []
            num_threads = min(self._threads, len(groups))
            # One thread more would take longer to start than few files to read.
            with (
                in_order(self._read_ends, groups, num_threads)
                if len(groups) > 1
                else nullcontext(map(self._read_ends, groups))
            ) as results:
                for ends in results:
                    opened = []
                    for position, identity, data, needed, footer in ends:
                        longest = max(longest, needed)
                        if len(data) < min(needed, _MAX_TAIL_BYTES) and position not in spent:
                            spent[position] = len(data)
                            too_long.append(position)
                            continue
                        path, cache = self.paths[position], self._cache
                        try:
                            if footer is None:
                                cached = BloomFile(ClosedSource(path, identity, data), cache).cached
                            else:
                                cached = CachedFooter(footer)
                                if cache is not None:
                                    cached = cache.keep(path, identity, cached)
                        except ParquetBloomError:
                            continue  # a closer look has to tell what is wrong with it
                        cost = 1 + (position in spent), len(data) + spent.get(position, 0)
                        tail = data if retained < _MAX_RETAINED_BYTES else b""
                        retained += len(tail)
                        opened.append(OpenedFile(position, path, identity, cached, tail, *cost))
                    yield opened
            # Files of a lake are alike: the next footers will hardly be longer than the first ones.
            some, remaining = too_long + remaining, []
            length = min(max(_MIN_TAIL_BYTES, -(-longest * 5 // 4 // _PAGE) * _PAGE), _MAX_TAIL_BYTES)

    def find_unchanged(self) -> Iterator[tuple[int, ClosedSource, CachedFooter]]:
        """See `FileGroup.find_unchanged`."""
        known = [position for position, entry in enumerate(self.cached) if entry is not None]
        for position, source in zip(known, stat_files([self.paths[position] for position in known]), strict=True):
            if source is not None and self._cache is not None:
                footer = self._cache.find(source.name, source.identity)
                if footer is not None:
                    yield position, source, footer

    def make_reader(self, files: Sequence[OpenedFile]) -> LocalFileBatch:
        """See `FileGroup.make_reader`."""
        paths, identities, in_memory = [], [], {}
        for i, file in enumerate(files):
            paths.append(file.path)
            identities.append(file.identity)
            if file.tail:
                in_memory[i] = [(file.identity.size - len(file.tail), file.tail)]
        return LocalFileBatch(paths, identities, in_memory)

    def _read_ends(self, group: tuple[list[int], int]) -> list[tuple[int, FileIdentity, bytes, int, Footer | None]]:
        """Read the last bytes of some files, and parse what footers are whole; files that cannot be read are left out.

        Returns
        -------
        Position, identity, and last bytes of each file, and what `parse_ends` says of it.
        """
        positions, length = group
        read, data, results = [], [], []
        ends = read_file_ends(list(map(self.paths.__getitem__, positions)), length)
        for position, end in zip(positions, ends, strict=True):
            if end is not None:
                read.append((position, *end))
                data.append((end[0].size, end[1]))
        for one, footer in zip(read, parse_ends(data), strict=True):
            results.append((*one, *footer))
        return results
