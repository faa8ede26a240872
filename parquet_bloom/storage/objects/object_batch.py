"""Objects of a listing that are not opened: their versions, and concurrent reads of ranges of many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ..byte_ranges import Extents, coalesce, require_inside
from ..filesystem_source import RemoteIdentity
from ..listing import Entry
from ..local.local_batch import ClosedSource
from ..source import REMEMBERED_BYTES
from .location import ListedObject
from .object_source import ObjectSource, make_identity
from .store_client import wait_for_all
from .store_errors import is_unanswered, translate_errors


class ClosedObject(ClosedSource):
    """Version of an object in a listing; only its last bytes can be read, by `read_tails`.

    Attributes
    ----------
    known : its description in the listing.
    """

    path: None  # type: ignore[assignment]
    identity: RemoteIdentity  # type: ignore[assignment]

    def __init__(self, known: ListedObject, identity: RemoteIdentity):
        self.known = known
        super().__init__(known.location.name, identity)  # type: ignore[arg-type]
        self.take_end(known.tail)

    def take_end(self, end: bytes) -> None:
        """Set the last bytes."""
        self.end = end
        self.first_read = len(end)
        self.keep(self.size - len(end), end)

    def entry(self) -> Entry:
        """Return a listing entry with the last bytes, so that opening the object takes no request."""
        return Entry(self.name, self.known._replace(tail=self.end, requests=0))


def listed_objects(entries: Sequence[Entry]) -> list[ClosedObject | None]:
    """Return the versions of objects in a listing, or None for entries that do not identify a version.

    These are local files, and objects of stores whose listings have no etags.
    """
    return [_listed_object(entry.known) for entry in entries]


def _listed_object(known: ListedObject | None) -> ClosedObject | None:
    if known is None or known.size is None or known.e_tag is None:
        return None
    identity = make_identity(known.location, known.size, known.e_tag)
    return None if identity.etag is None else ClosedObject(known, identity)


def read_tails(objects: Sequence[ClosedObject], fail_fast: bool) -> dict[int, ParquetBloomError]:
    """Read the last bytes of many objects concurrently.

    Parameters
    ----------
    objects : the objects; those whose last bytes are in memory are skipped.
    fail_fast : raise an error at once if a store does not answer, so that not every object waits for it.

    Returns
    -------
    {position: the error of an object whose last bytes could not be read}.

    Raises
    ------
    StorageError
        If `fail_fast` and a store does not answer, or does not answer like a store.
    """
    failures: dict[int, ParquetBloomError] = {}

    def read(position: int, closed: ClosedObject) -> None:
        source = ObjectSource(closed.known.location, closed.known)
        try:
            with translate_errors("cannot open", closed.name):
                closed.take_end(source.fetch_tail())
        except ParquetBloomError as error:
            if fail_fast and error.__cause__ is not None and is_unanswered(error.__cause__):
                raise
            failures[position] = error
        finally:
            closed.requests, closed.bytes_read = source.requests, source.bytes_read

    unread = [(position, closed) for position, closed in enumerate(objects) if not closed.end and closed.size]
    wait_for_all([closed.known.location.client.submit(read, position, closed) for position, closed in unread])
    return failures


class RangesOfObjects(NamedTuple):
    """Ranges of objects, and what it took to read them, with an entry for each object.

    Attributes
    ----------
    ranges : position and bytes (uint8 array) of each range; also of others that are in memory.
    requests, num_bytes : int64 arrays.
    """

    ranges: list[list[tuple[int, NDArray[np.uint8]]]]
    requests: NDArray[np.int64]
    num_bytes: NDArray[np.int64]


def read_ranges(
    objects: Sequence[ClosedObject],
    known: Sequence[Extents],
    numbers: NDArray[np.intp],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    at_once: int,
) -> RangesOfObjects:
    """Read ranges of many objects concurrently, each of the version that was listed.

    Parameters
    ----------
    known : of each object what is in memory; it is added to.
    numbers : of each range's object.
    offsets, lengths : the ranges, in bytes.
    at_once : requests that are made at a time; the store's client may take fewer.

    Raises
    ------
    TruncatedFileError
        A range is not inside its object.
    StorageError
        A range cannot be read, or is of another version.
    """
    ranges = [list(extents.items()) for extents in known]
    requests, num_bytes = np.zeros((2, len(objects)), np.int64)
    spans = []
    for number in np.unique(numbers).tolist():
        closed, extents = objects[number], known[number]
        of_object = np.flatnonzero(numbers == number)
        missing = [i for i in of_object.tolist() if not extents.covers(int(offsets[i]), int(lengths[i]))]
        begins, sizes, _ = require_inside(offsets[missing], lengths[missing], closed.size, closed.name)
        source = ObjectSource(closed.known.location, closed.known)
        spans += [(number, source, span) for span in coalesce(begins, sizes, source.gap_bytes)]
    for start in range(0, len(spans), at_once):
        some = spans[start : start + at_once]
        reads = [source.client.submit(source.fetch, span.offset, span.length) for _, source, span in some]
        for (number, _, span), data in zip(some, wait_for_all(reads), strict=True):
            requests[number] += 1
            num_bytes[number] += len(data)
            ranges[number].append((span.offset, np.frombuffer(data, np.uint8)))
            if len(data) <= REMEMBERED_BYTES:
                known[number].add(span.offset, data)
    return RangesOfObjects(ranges, requests, num_bytes)
