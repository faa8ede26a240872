"""Footers of many local files, read for the first time: in several threads, and largely without the interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

from ...errors import ParquetBloomError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...metadata.footer import MAGIC, TAIL_BYTES, Footer
from ...storage import ClosedSource, FileIdentity, read_file_ends
from ...util.threads import in_order

_FIRST_FILES = 32  # of which the first bytes tell how long the footers of a lake are
_FILES_PER_READ = 256  # read and parsed at a time
_BYTES_PER_READ = 32 * 1024 * 1024
_MAX_RETAINED_BYTES = 64 * 1024 * 1024  # of files' ends, in which filters may be
_PAGE = 4096
_FIRST_TAIL_BYTES, _MIN_TAIL_BYTES, _MAX_TAIL_BYTES = 4 * _PAGE, _PAGE, 256 * _PAGE


class OpenedFile(NamedTuple):
    """A file whose footer is known.

    Attributes
    ----------
    position : in the list of files that was given.
    path, identity : the file, and its version.
    footer : its metadata.
    tail : its last bytes, if it was read just now.
    requests, bytes_read : cost of reading the metadata.
    """

    position: int
    path: str
    identity: Any
    footer: CachedFooter
    tail: bytes = b""
    requests: int = 0
    bytes_read: int = 0


class _Tail(NamedTuple):
    """The end of a file that was read.

    Attributes
    ----------
    position, identity, data : the file, and its last bytes.
    needed : bytes that its footer takes, if it is a Parquet file.
    footer : its footer; None if it is not whole, malformed or unusual.
    """

    position: int
    identity: FileIdentity
    data: bytes
    needed: int
    footer: Footer | None


def read_footers(
    positions: Sequence[int], paths: Sequence[str], cache: MetadataCache | None, threads: int
) -> Iterator[list[OpenedFile]]:
    """Read the footers of files into a cache, from hardly more of their ends than footers like theirs take.

    Parameters
    ----------
    positions : the files to read, of those in `paths`.

    Yields
    ------
    Some files at a time. Those that cannot be read without trouble are left out.
    """
    length, retained = _FIRST_TAIL_BYTES, 0
    spent: dict[int, int] = {}  # bytes of files that are read a second time
    remaining = [*positions]
    some, remaining = remaining[:_FIRST_FILES], remaining[_FIRST_FILES:]
    while some:
        size = max(1, min(_FILES_PER_READ, _BYTES_PER_READ // length))
        groups = [some[start : start + size] for start in range(0, len(some), size)]
        longest, too_long = 0, []
        read = partial(_read_tails, paths=paths, length=length)
        num_threads = min(threads, len(groups))
        # One thread more would take longer to start than few files to read.
        with in_order(read, groups, num_threads) if len(groups) > 1 else nullcontext(map(read, groups)) as results:
            for tails in results:
                opened = []
                for tail in tails:
                    position = tail.position
                    longest = max(longest, tail.needed)
                    if len(tail.data) < min(tail.needed, _MAX_TAIL_BYTES) and position not in spent:
                        spent[position] = len(tail.data)
                        too_long.append(position)
                        continue
                    footer = _cache_footer(tail, paths[position], cache)
                    if footer is not None:
                        cost = 1 + (position in spent), len(tail.data) + spent.get(position, 0)
                        data = tail.data if retained < _MAX_RETAINED_BYTES else b""
                        retained += len(data)
                        opened.append(OpenedFile(position, paths[position], tail.identity, footer, data, *cost))
                yield opened
        # Files of a lake are alike: the next footers will hardly be longer than the first ones.
        some, remaining = too_long + remaining, []
        length = min(max(_MIN_TAIL_BYTES, -(-longest * 5 // 4 // _PAGE) * _PAGE), _MAX_TAIL_BYTES)


def _cache_footer(tail: _Tail, path: str, cache: MetadataCache | None) -> CachedFooter | None:
    """Return the cache entry of a file that was read; None if a closer look has to tell what is wrong with it."""
    cached = None if cache is None else cache.find_local(path, tail.identity)
    if cached is None and tail.footer is not None:
        cached = CachedFooter(tail.footer)
        try:
            return cached if cache is None else cache.keep_local(path, tail.identity, cached)
        except ParquetBloomError:
            return None
    if cached is None:
        try:
            return BloomFile(ClosedSource(path, tail.identity, tail.data), cache).cached
        except ParquetBloomError:
            return None
    return cached


def _read_tails(positions: Sequence[int], paths: Sequence[str], length: int) -> list[_Tail]:
    """Read the ends of files, and parse the footers that are whole; files that cannot be read are left out."""
    read: list[tuple[int, FileIdentity, bytes, int]] = []
    footers: list[bytes] = []
    starts: list[int] = []
    whole: dict[int, int] = {}  # {position: number of its footer}
    for position, end in zip(
        positions, read_file_ends([paths[position] for position in positions], length), strict=True
    ):
        if end is None:
            continue
        identity, data = end
        needed = 0
        if data[-len(MAGIC) :] == MAGIC and len(data) >= TAIL_BYTES:
            needed = int.from_bytes(data[-TAIL_BYTES:-4], "little") + TAIL_BYTES
        if needed + len(MAGIC) > identity.size:
            needed = 0  # it is cut off
        read.append((position, identity, data, needed))
        if 0 < needed <= len(data):
            whole[position] = len(footers)
            footers.append(data[len(data) - needed : -TAIL_BYTES])
            starts.append(identity.size - needed)
    parsed = Footer.parse_many(footers, starts)
    return [_Tail(*one, parsed[whole[one[0]]] if one[0] in whole else None) for one in read]
