"""Verification of a write: the stored object is read back in part and compared with what was written."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ....errors import ConcurrentChangeError, ParquetBloomError, StorageError
from .access import parse_access
from .attributes import find_lost_attributes, find_run_id
from .client import failure_types, http_status, make_error
from .etags import same_etag
from .head import ObjectHead, make_request_error, parse_tags
from .requests import Requests

_SAMPLE = 1024  # bytes of each sample of the copied range
_SAMPLES = 2  # random samples, besides the first and the last bytes
_TAIL = 64 << 10  # last bytes of the uploaded part

_RANDOM = random.SystemRandom()


class WrittenPart(NamedTuple):
    """Bytes that the new object must contain."""

    offset: int
    data: bytes


class StoredObject:
    """Reader of an object in the store.

    Parameters
    ----------
    target : bucket and key.
    """

    def __init__(self, client: Any, requests: Requests, target: Mapping[str, str]) -> None:
        self._client, self._requests, self._target = client, requests, target

    def get(self, offset: int, length: int) -> tuple[Mapping[str, Any], bytes]:
        """Read a range: return the response and its bytes, or raise one of `failure_types()`."""
        span = f"bytes={offset}-{offset + length - 1}"
        answer, data = self._requests.send(self._get_with_body, Range=span, **self._target)
        return answer, data

    def _get_with_body(self, **arguments: Any) -> tuple[Mapping[str, Any], bytes]:
        answer = self._client.get_object(**arguments)
        with answer["Body"] as body:
            return answer, body.read()

    def read(self, offset: int, length: int, etag: str, path: str) -> bytes:
        """Read bytes of one version.

        Raises
        ------
        ConcurrentChangeError
            If it has been replaced.
        StorageError
            If they cannot be read.
        """
        if not length:
            return b""
        try:
            answer, data = self.get(offset, length)
        except failure_types() as error:
            raise make_request_error(error, f"cannot read at offset {offset}", path) from error
        if not same_etag(answer.get("ETag"), etag):
            raise ConcurrentChangeError("another writer changed it meanwhile", path=path)
        if len(data) != length:
            text = f"cannot read at offset {offset}: received {len(data)} of {length} bytes"
            raise StorageError(text, path=path)
        return data

    def head(self) -> Mapping[str, Any]:
        """Return the HEAD response, or raise one of `failure_types()`."""
        answer: Mapping[str, Any] = self._requests.send(self._client.head_object, **self._target)
        return answer

    def tags(self) -> Any:
        """Return its tags, as in `read_head`."""
        return parse_tags(self._requests.send(self._client.get_object_tagging, **self._target))

    def access(self) -> Any:
        """Return the response to GetObjectAcl."""
        return self._requests.send(self._client.get_object_acl, **self._target)


def sample_ranges(length: int) -> list[tuple[int, int]]:
    """Return ranges for comparing a copied range: its first and last bytes, and random samples."""
    last = max(0, length - _SAMPLE)
    offsets = {0, last, *(_RANDOM.randrange(last + 1) for _ in range(_SAMPLES))}
    return [(offset, min(_SAMPLE, length - offset)) for offset in sorted(offsets)]


def make_tail_part(size: int, tail: bytes) -> WrittenPart:
    """Return the last bytes of an object of `size` bytes as a part to compare; `tail` are its last bytes."""
    kept = tail[-_TAIL:]
    return WrittenPart(size - len(kept), kept)


class WriteCheck(NamedTuple):
    """Check of a write that the store has confirmed.

    Attributes
    ----------
    etag, run : etag and run of the new object.
    given : its attributes; None if they are not checked.
    first : state of the object that it replaced; None for another key.
    pieces : parts of its bytes.
    path : its path, for errors.
    """

    etag: str
    run: str
    given: Mapping[str, Any] | None
    first: ObjectHead | None
    pieces: list[WrittenPart]
    path: str

    def check(self, stored: StoredObject, requests: Requests) -> None:
        """Read it back: one request per piece, and one each for tags and access control list if it has any.

        If another writer has replaced or removed the object since, nothing is checked.

        Raises
        ------
        ConcurrentChangeError
            If its bytes differ from what was written.
        StorageError
            If it lacks attributes, or cannot be read back.
        """
        try:
            problem = self._find_problem(stored, requests)
            # Responses without a version may be about a later object, so check that it is still ours.
            if problem is not None and self._is_ours(stored.head()):
                raise problem
        except failure_types() as error:
            if http_status(error) != 404:
                raise make_error(error, "it was written, but cannot be read back to be checked", self.path) from error

    def _find_problem(self, stored: StoredObject, requests: Requests) -> ParquetBloomError | None:
        """Return the error if something differs, else None."""

        def read(piece: WrittenPart) -> Callable[[], Any]:
            return lambda: stored.get(piece.offset, len(piece.data))

        given = self.given or {}
        tagged, granted = "Tagging" in given, any(name.startswith("Grant") for name in given)
        extra = [stored.tags] * tagged + [stored.access] * granted
        try:
            answers = requests.together([*map(read, self.pieces), *extra])
        except failure_types() as error:
            if http_status(error) == 416:
                return self._make_mismatch_error("it is shorter")
            raise
        heads = answers[: len(self.pieces)]
        if not all(self._is_ours(head) for head, _ in heads):
            return None
        for piece, (_, data) in zip(self.pieces, heads, strict=True):
            if data != piece.data:
                return self._make_mismatch_error(f"it has other bytes at offset {piece.offset}")
        if self.given is None:
            return None
        lost = find_lost_attributes(self.given, heads[0][0], answers[len(self.pieces)] if tagged else ())
        if granted and (self.first is None or parse_access(answers[-1]) != self.first.access):
            lost.append("access control list")
        if lost:
            return StorageError(f"it was written, but the store did not keep: {', '.join(lost)}", path=self.path)
        return None

    def _is_ours(self, head: Mapping[str, Any]) -> bool:
        return find_run_id(head) == self.run or same_etag(head.get("ETag"), self.etag)

    def _make_mismatch_error(self, difference: str) -> ParquetBloomError:
        """Return the error for an object that mixes versions, and so is broken."""
        if self.first is None:
            kept = "its source is unchanged"
        elif self.first.head.get("VersionId", "null") != "null":
            read = self.first.head["VersionId"]
            kept = f"the version that was read is kept as {read}, another writer's, if there was one, as a later one"
        else:
            kept = "the bucket keeps no versions: those that were read, and written by others meanwhile, are gone"
        text = (
            f"what was written is not what was planned: {difference}; the store did not heed the conditions of requests"
        )
        return ConcurrentChangeError(
            f"{text}, and the object there now, with etag {self.etag}, is broken; {kept}", path=self.path
        )
