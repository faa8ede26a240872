"""Objects of a listing that are not opened: their versions, and concurrent reads of their last bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ParquetBloomError
from ..filesystem_source import RemoteIdentity
from ..listing import Entry
from ..local.local_batch import ClosedSource
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
