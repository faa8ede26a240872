"""Writing an object on S3 that begins as another one does, or as itself: that much S3 copies itself."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from types import TracebackType
from typing import Any

from ....errors import ConcurrentChangeError, ParquetBloomError, StorageError, TruncatedFileError
from ...rewrite import Rewrite
from ...source import Source
from ..limits import RequestLimits
from ..location import ObjectLocation
from ..source import ObjectSource
from .attributes import RUN, copy_attributes, find_run_id
from .client import connect, error_code, failure_types, http_status, make_error
from .conditions import ProofContext, prove_no_tags, prove_put, prove_upload
from .etags import quoted, same_etag
from .head import ObjectHead, make_request_error, read_head
from .proof import ConditionSupport
from .requests import Requests
from .upload import Upload, add_to_error, digest
from .verify import StoredObject, WriteCheck, WrittenPart, make_tail_part, sample_ranges

MIN_PART = 5 << 20
"""Every part of a multipart upload but the last must have so many bytes."""
COPIED_PART = 64 << 20
"""Parts that S3 copies, several at once, have so many bytes and up to twice as many; it allows 5 GiB."""
UPLOADED_PART = 16 << 20
"""Small enough to go within the time of a request where the way to the store is slow."""
_UNKNOWN_END = "cannot tell whether it was written (what stands there is whole)"
_MAX_COPIED_PARTS = 9000  # S3 allows 10,000; the others are for what is uploaded


def rewrite_in_place(source: ObjectSource) -> S3Rewrite:
    """Replace an object that was opened; StorageError if it is not one of S3's, or boto3 is not here."""
    if source.location.kind != "S3":
        text = "objects are replaced in place on S3 only; give an output elsewhere"
        raise StorageError(text, path=source.name)
    if _pin(source) is None:
        text = "the store tells no etag by which a change of the object could be noticed; give an output elsewhere"
        raise StorageError(text, path=source.name)
    return S3Rewrite(source, source.location)


def rewrite_elsewhere(source: Source, target: ObjectLocation) -> S3Rewrite | None:
    """Write another object of the same bucket; None if its store cannot copy, which then is done the plain way."""
    if not isinstance(source, ObjectSource) or target.store is not source.store:
        return None
    if not target.key or target.name.endswith("/"):
        return None  # no object's name, which the plain way refuses
    if target.kind != "S3" or _pin(source) is None:
        return None
    try:
        return S3Rewrite(source, target)
    except StorageError:  # no boto3, or settings that it cannot follow
        return None


def _pin(source: ObjectSource) -> str | None:
    """The object's etag, if it is one that tells versions apart byte by byte."""
    return None if source.e_tag is None or source.e_tag.startswith("W/") else source.e_tag


class S3Rewrite(Rewrite):
    """An object on S3 or a store that speaks its protocol, in place or beside; the store copies the unchanged front.

    In place, an object is replaced only if it still is the one that was read, and whoever looks sees the old object or
    the new one, whole. That rests on conditions in the requests, which name the etag: of each copy, and of the request
    that replaces the object. Before anything is written the store shows that it heeds those that are needed, once for a
    bucket (see `conditions`); one that does not is refused. Right before the last step the object is looked at once
    more, and after it the new one is read back in part and compared with what was planned (see `verify`).

    A front of less than `MIN_PART` is downloaded, and the object written by one (in place: conditional) PUT.

    In place, the new object has the old one's user metadata and one key more (`copy_attributes.RUN`, by which it is told
    from others' when an answer got lost), its content type and the other headers of its kind, storage class,
    server-side encryption and tags, and its access control list where the store tells it to us; else it gets the
    bucket's default. It does not have a checksum of the kind that was asked for when it was uploaded, or its
    modification time; its etag is that of a multipart upload. In a versioned bucket the old object stays as an older
    version. Objects that are locked, are another account's, or whose tags cannot be read, are refused.

    Another key is written without a condition: whoever else writes it, the last one wins. What it is copied from is
    looked at after the last copy, and the result read back. A store that cannot copy so gets an upload.

    Each request ends within the store's limits (`RequestLimits`), and an interrupt ends it at once. What clears up then
    has a part of a second; what it leaves is named. A process that dies leaves an unfinished upload behind: the object
    is as it was, but parts cost storage until a lifecycle rule (AbortIncompleteMultipartUpload) removes them.
    """

    def __init__(self, source: ObjectSource, target: ObjectLocation) -> None:
        super().__init__(source, target.name)
        store = source.store
        bucket = store.config["bucket"]
        limits = RequestLimits.of_store(store)
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
        self._copied = 0
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
        """Some stores say nothing of tags where there are none; so may a server between, which must not be believed."""
        if first.head.get("TagCount"):
            problem = "cannot read its tags, which a new object would lose: the answer has no TagSet"
            raise StorageError(f"{problem}; give an output elsewhere", path=self.path)
        prove_no_tags(self._proof_context())

    def _proof_context(self) -> ProofContext:
        return ProofContext(self._client, self._requests, self._new["Bucket"], self._new["Key"], self.path)

    def _prove(self, prove: Callable[[ProofContext, Mapping[str, Any]], ConditionSupport]) -> None:
        """Let the store show that it heeds conditions, before the first request that writes."""
        if not self._in_place or self._proven is not None:
            return
        self._proven = prove(self._proof_context(), self._attributes)
        access = self._first.access if self._first is not None else None
        if access is not None and access.owner and self._proven.owner not in ("", access.owner):
            problem = f"it belongs to another account ({access.owner}), which a new object would not"
            raise StorageError(f"{problem}; give an output elsewhere", path=self.path)

    def _copy(self, source: Source, length: int) -> None:
        if not 0 <= length <= source.size:
            raise TruncatedFileError(f"{length} bytes to be copied, the file has {source.size}", path=source.name)
        old = StoredObject(self._client, self._requests, self._old)
        if length < MIN_PART:
            self._prove(prove_put)
            self._tail += old.read(0, length, self._etag, self._read_from)
            return
        self._prove(prove_upload)
        self._upload.begin(self._attributes)
        samples = sample_ranges(length)
        reads = [partial(old.read, *sample, self._etag, self._read_from) for sample in samples]
        spelling = quoted if self._proven is None else self._proven.copy
        try:
            answers = self._upload.copy(self._old, spelling(self._etag), _plan_parts(length), reads)
        except ParquetBloomError as error:
            if self._in_place or not _cannot_copy(error):
                raise
            self._require_unchanged()  # so that it is the store's way, and not another writer's deed
            self._upload_front(old, length)
            return
        self._pieces = [WrittenPart(offset, data) for (offset, _), data in zip(samples, answers, strict=True)]
        self._copied = length

    def _upload_front(self, old: StoredObject, length: int) -> None:
        for offset in range(0, length, UPLOADED_PART):
            self._write(memoryview(old.read(offset, min(UPLOADED_PART, length - offset), self._etag, self._read_from)))

    def _write(self, data: memoryview) -> None:
        self._tail += data
        while self._upload.upload_id is not None and len(self._tail) >= UPLOADED_PART + MIN_PART:
            self._upload.send(bytes(self._tail[:UPLOADED_PART]))
            del self._tail[:UPLOADED_PART]

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
            self._upload.upload_id = None  # it is an object now
        pieces = [*self._pieces, make_tail_part(self._position, tail)]
        given = self._attributes if self._in_place else None
        written = WriteCheck(etag, self._run, given, self._first, pieces, self.path)
        written.check(StoredObject(self._client, self._requests, self._new), self._requests)

    def _require_unchanged(self) -> None:
        """Look as late as possible, whatever the store has shown."""
        if self._first is not None:
            read_head(self._client, self._requests, self._old, self.path).require(self._first, self.path)
            return
        try:
            head = StoredObject(self._client, self._requests, self._old).head()
        except failure_types() as error:
            raise make_request_error(error, "cannot look at it", self._read_from) from error
        if not same_etag(head.get("ETag"), self._etag):
            raise self._changed_error()

    def _finish(self, replace: Callable[..., Any], **arguments: Any) -> str:
        """Take the last step; where it seems to fail, see what became of it: an answer may have got lost."""
        condition = {} if self._proven is None else {"IfMatch": self._proven.replace(self._etag)}
        failure: Exception = ValueError("the answer tells no etag")
        try:
            etag = self._requests.send(replace, **self._new, **arguments, **condition).get("ETag")
            if etag:
                return str(etag)
        except failure_types() as error:
            failure = error
        self._upload.abort()  # so that what S3 may still be at cannot succeed later
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
        # What was sent and not answered may still be carried out, unless its upload is no more.
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


def _plan_parts(length: int) -> list[tuple[int, int]]:
    """Where parts that are copied begin and end."""
    count = min(_MAX_COPIED_PARTS, max(1, length // COPIED_PART))
    ends = [length * number // count for number in range(count + 1)]
    return list(pairwise(ends))


def _cannot_copy(error: ParquetBloomError) -> bool:
    """Whether a copy was refused for its condition or its key, or because the store knows no such copies."""
    cause = error.__cause__
    return isinstance(cause, Exception) and (
        http_status(cause) in (404, 405, 412, 501) or error_code(cause) == "NotImplemented"
    )


def full_key(store: Any, key: str) -> str:
    """A key as the bucket has it; the store may stand for what begins with a prefix."""
    return "/".join(part for part in ((store.prefix or "").strip("/"), key) if part)
