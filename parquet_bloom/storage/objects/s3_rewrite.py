"""Rewriting of S3 objects; the unchanged front is copied inside the store."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from types import TracebackType
from typing import Any, NamedTuple

from ...errors import ConcurrentChangeError, ParquetBloomError, StorageError, TruncatedFileError
from ..new_file import Rewrite
from ..source import Source
from .location import ObjectLocation
from .object_source import ObjectSource
from .object_state import (
    RUN,
    ObjectHead,
    copy_attributes,
    find_lost_attributes,
    find_run_id,
    make_request_error,
    parse_access,
    parse_tags,
    quoted,
    read_head,
    same_etag,
)
from .request_limits import RequestLimits
from .s3_client import connect, error_code, failure_types, http_status, make_error
from .s3_requests import Requests
from .s3_upload import Upload, add_to_error, digest
from .store_proofs import ConditionSupport, ProofContext, prove_no_tags, prove_put, prove_upload

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


_UNKNOWN_END = "cannot tell whether it was written (the object there is complete)"


class PartSizes(NamedTuple):
    """Sizes of the parts of a multipart upload, in bytes; the defaults are for S3.

    Attributes
    ----------
    smallest : what every part has but the last.
    copied : copied parts have this many to twice as many bytes, and are copied concurrently; S3 allows 5 GiB.
    uploaded : small enough for the time limit of a request on a slow network.
    most_copied : number of copied parts; S3 allows 10,000, the rest is for uploaded ones.
    """

    smallest: int = 5 << 20
    copied: int = 64 << 20
    uploaded: int = 16 << 20
    most_copied: int = 9000

    def plan(self, length: int) -> list[tuple[int, int]]:
        """Return the ranges of the copied parts."""
        count = min(self.most_copied, max(1, length // self.copied))
        ends = [length * number // count for number in range(count + 1)]
        return list(pairwise(ends))


def rewrite_in_place(source: ObjectSource, sizes: PartSizes = PartSizes()) -> S3Rewrite:  # noqa: B008 - it is frozen
    """Return the rewrite of an opened object; raise StorageError if it is not on S3, or boto3 is missing."""
    if source.location.kind != "S3":
        text = "objects are replaced in place on S3 only; give an output elsewhere"
        raise StorageError(text, path=source.name)
    if _pin(source) is None:
        text = "the store reports no etag, so a concurrent change would not be noticed; give an output elsewhere"
        raise StorageError(text, path=source.name)
    return S3Rewrite(source, source.location, sizes)


def rewrite_elsewhere(
    source: Source,
    target: ObjectLocation,
    sizes: PartSizes = PartSizes(),  # noqa: B008
) -> S3Rewrite | None:
    """Return the rewrite to another object of the same bucket; None if the store cannot copy, then it is uploaded."""
    if not isinstance(source, ObjectSource) or target.store is not source.store:
        return None
    if not target.key or target.name.endswith("/"):
        return None  # not the name of an object, which `ObjectRewrite` refuses
    if target.kind != "S3" or _pin(source) is None:
        return None
    try:
        return S3Rewrite(source, target, sizes)
    except StorageError:  # boto3 is missing, or does not support the settings
        return None


def _pin(source: ObjectSource) -> str | None:
    """Return the etag of the object if it is a strong one, else None."""
    return None if source.e_tag is None or source.e_tag.startswith("W/") else source.e_tag


class S3Rewrite(Rewrite):
    """Rewrite of an object on S3 or a compatible store, in place or to another key; the store copies the front.

    In place, an object is replaced only if it is still the one that was read, and readers see either the old object or
    the new one. This relies on conditions in the requests, which name the etag: in each copy, and in the request that
    replaces the object. Before anything is written the store must show that it honours these conditions, once per
    bucket (see `conditions`); other stores are refused. Right before the last step the object is checked again, and
    afterwards the new one is read back in part and compared with what was written (see `verify`).

    A front of less than `PartSizes.smallest` bytes is downloaded, and the object is written by one PUT, in place a
    conditional one.

    In place, the new object keeps the user metadata of the old one and gets one more key (`attributes.RUN`, which shows
    who wrote it if a response is lost). It keeps content type and similar headers, storage class, server-side
    encryption and tags, and the access control list if the store reports it; otherwise it gets the default of the
    bucket. It loses an additional checksum that was requested at the upload, and the modification time; its etag is
    that of a multipart upload. In a versioned bucket the old object remains as an older version. Objects that are
    locked, belong to another account, or whose tags cannot be read, are refused.

    Another key is written without a condition: of concurrent writers the last one wins. The source is checked after the
    last copy, and the result is read back. If the store cannot copy, the data is uploaded.

    Each request ends within the limits of the store (`RequestLimits`), and an interrupt ends it at once. Cleanup then
    has a fraction of a second, and errors name what is left. A process that dies leaves an unfinished upload: the
    object is unchanged, but the parts cost storage until a lifecycle rule (AbortIncompleteMultipartUpload) removes
    them.
    """

    def __init__(self, source: ObjectSource, target: ObjectLocation, sizes: PartSizes) -> None:
        super().__init__(source, target.name)
        self._sizes = sizes
        store = source.store
        bucket = store.config["bucket"]
        limits = RequestLimits.from_store(store)
        self._client = connect(bucket, {**(store.client_options or {}), **store.config}, target.name, limits)
        self._requests = Requests(limits)
        self._old, self._new = ({"Bucket": bucket, "Key": full_key(store, key)} for key in (source.key, target.key))
        self._in_place = self._old == self._new
        self._etag, self._read_from = str(_pin(source)), source.name
        self._run = uuid.uuid4().hex
        self._attributes: dict[str, Any] = {"Metadata": {RUN: self._run}}
        self._first: ObjectHead | None = None
        self._proven: ConditionSupport | None = None
        self._upload = Upload(self._client, self._requests, self._new, self.path, self._read_from)
        self._pieces: list[WrittenPart] = []
        self._tail = bytearray()

    def _begin(self) -> None:
        if not self._in_place:
            return
        first = read_head(self._client, self._requests, self._old, self.path)
        if not same_etag(first.head.get("ETag"), self._etag):
            raise self._changed_error()
        if first.tags is None:
            self._require_no_tags(first)
        self._attributes = copy_attributes(first.head, first.tags or (), self._run, self.path)
        self._attributes |= first.access.headers(self.path) if first.access is not None else {}
        self._first = first

    def _require_no_tags(self, first: ObjectHead) -> None:
        """Check that a missing TagSet means that there are no tags: a proxy may also return such a response."""
        if first.head.get("TagCount"):
            problem = "cannot read its tags, which a new object would lose: the response has no TagSet"
            raise StorageError(f"{problem}; give an output elsewhere", path=self.path)
        prove_no_tags(self._proof_context())

    def _proof_context(self) -> ProofContext:
        return ProofContext(self._client, self._requests, self._new["Bucket"], self._new["Key"], self.path)

    def _prove(self, prove: Callable[[ProofContext, Mapping[str, Any]], ConditionSupport]) -> None:
        """Check that the store honours conditions, before the first request that writes."""
        if not self._in_place or self._proven is not None:
            return
        self._proven = prove(self._proof_context(), self._attributes)
        access = self._first.access if self._first is not None else None
        if access is not None and access.owner and self._proven.owner not in ("", access.owner):
            problem = f"it belongs to another account ({access.owner}), but a new object would not"
            raise StorageError(f"{problem}; give an output elsewhere", path=self.path)

    def _copy(self, source: Source, length: int) -> None:
        if not 0 <= length <= source.size:
            raise TruncatedFileError(f"cannot copy {length} bytes: the file has {source.size}", path=source.name)
        old = StoredObject(self._client, self._requests, self._old)
        if length < self._sizes.smallest:
            self._prove(prove_put)
            self._tail += old.read(0, length, self._etag, self._read_from)
            return
        self._begin_upload()
        self._copy_in_store(old, 0, length, 0)

    def _begin_upload(self) -> None:
        if self._upload.upload_id is None:
            self._prove(prove_upload)
            self._upload.begin(self._attributes)

    def _copy_range(self, source: Source, offset: int, length: int) -> None:
        """Have the store copy a long range; bytes before it that are not uploaded yet become parts of their own."""
        old = StoredObject(self._client, self._requests, self._old)
        missing = max(0, self._sizes.smallest - len(self._tail)) if self._tail else 0
        if length < missing + self._sizes.smallest:
            self._upload_range(old, offset, length)
            return
        self._begin_upload()
        self._write(memoryview(old.read(offset, missing, self._etag, self._read_from)))
        if self._tail:
            self._upload.send(bytes(self._tail))
            self._tail.clear()
        self._copy_in_store(old, offset + missing, length - missing, self._position + missing)

    def _copy_in_store(self, old: StoredObject, offset: int, length: int, position: int) -> None:
        """Copy a range to a position of the new object; if the store cannot, and this is another object, upload it."""
        samples = [(offset + start, size) for start, size in sample_ranges(length)]
        reads = [partial(old.read, *sample, self._etag, self._read_from) for sample in samples]
        spelling = quoted if self._proven is None else self._proven.copy
        spans = [(offset + start, offset + end) for start, end in self._sizes.plan(length)]
        try:
            answers = self._upload.copy(self._old, spelling(self._etag), spans, reads)
        except ParquetBloomError as error:
            if self._in_place or not _cannot_copy(error):
                raise
            self._require_unchanged()  # so that the store is the reason, and not another writer
            self._upload_range(old, offset, length)
            return
        shift = position - offset
        self._pieces += [WrittenPart(start + shift, data) for (start, _), data in zip(samples, answers, strict=True)]

    def _upload_range(self, old: StoredObject, offset: int, length: int) -> None:
        size = self._sizes.uploaded
        for start in range(offset, offset + length, size):
            piece = old.read(start, min(size, offset + length - start), self._etag, self._read_from)
            self._write(memoryview(piece))

    def _write(self, data: memoryview) -> None:
        self._tail += data
        size = self._sizes.uploaded
        while self._upload.upload_id is not None and len(self._tail) >= size + self._sizes.smallest:
            self._upload.send(bytes(self._tail[:size]))
            del self._tail[:size]

    def _commit(self) -> None:
        tail = bytes(self._tail)
        if self._upload.upload_id is None:
            self._prove(prove_put)
            self._require_unchanged()
            etag = self._finish(self._client.put_object, Body=tail, ContentMD5=digest(tail), **self._attributes)
        else:
            self._upload.send(tail)
            self._require_unchanged()
            etag = self._finish(self._client.complete_multipart_upload, **self._upload.completion_arguments())
            self._upload.upload_id = None  # the upload is complete
        pieces = [*self._pieces, make_tail_part(self._position, tail)]
        given = self._attributes if self._in_place else None
        written = WriteCheck(etag, self._run, given, self._first, pieces, self.path)
        written.check(StoredObject(self._client, self._requests, self._new), self._requests)

    def _require_unchanged(self) -> None:
        """Raise an error if the source has changed; called as late as possible."""
        if self._first is not None:
            read_head(self._client, self._requests, self._old, self.path).require(self._first, self.path)
            return
        try:
            head = StoredObject(self._client, self._requests, self._old).head()
        except failure_types() as error:
            raise make_request_error(error, "cannot read its metadata", self._read_from) from error
        if not same_etag(head.get("ETag"), self._etag):
            raise self._changed_error()

    def _finish(self, replace: Callable[..., Any], **arguments: Any) -> str:
        """Run the last step and return the etag; if it fails, check the object, since the response may be lost."""
        condition = {} if self._proven is None else {"IfMatch": self._proven.replace(self._etag)}
        failure: Exception = ValueError("the response has no etag")
        try:
            etag = self._requests.send(replace, **self._new, **arguments, **condition).get("ETag")
            if etag:
                return str(etag)
        except failure_types() as error:
            failure = error
        self._upload.abort()  # so that a request that S3 is still executing cannot succeed later
        try:
            head = self._requests.clear_up(self._client.head_object, self._requests.end_of_clearing(), **self._new)
        except failure_types() as error:
            if http_status(error) != 404:
                raise make_error(failure, _UNKNOWN_END, self.path) from error
            if self._in_place:
                raise self._removed_error() from failure
            head = {}
        if find_run_id(head) == self._run:
            return str(head.get("ETag", ""))
        if self._in_place and not same_etag(head.get("ETag"), self._etag):
            raise self._changed_error() from failure
        # A request without a response may still be executed, unless its upload has been aborted.
        open_end = http_status(failure) == 0 and ("Body" in arguments or bool(self._upload.leftover))
        raise make_error(failure, _UNKNOWN_END if open_end else "cannot write it", self.path) from failure

    def _undo(self) -> None:
        self._upload.abort()

    def _tidy(self) -> None:
        self._tail.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._upload.leftover and error is not None:
            add_to_error(error, self._upload.leftover)

    def _changed_error(self) -> ParquetBloomError:
        return ConcurrentChangeError("another writer changed it meanwhile", path=self._read_from)

    def _removed_error(self) -> ParquetBloomError:
        return ConcurrentChangeError("it was removed meanwhile", path=self._read_from)


def _cannot_copy(error: ParquetBloomError) -> bool:
    """Return whether a copy was refused for its condition or key, or because the store does not support copies."""
    cause = error.__cause__
    return isinstance(cause, Exception) and (
        http_status(cause) in (404, 405, 412, 501) or error_code(cause) == "NotImplemented"
    )


def full_key(store: Any, key: str) -> str:
    """Return the key in the bucket; the store may have a prefix."""
    return "/".join(part for part in ((store.prefix or "").strip("/"), key) if part)
