"""Writing an object on S3 that begins as another one does, or as itself: that much S3 copies itself."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .... import threads
from ....errors import ConcurrentChangeError, ParquetBloomError, StorageError, TruncatedFileError
from ...copying import PIECE
from ...rewrite import Rewrite
from ...source import Source
from ..location import ObjectPlace
from ..source import ObjectSource
from .attributes import RUN, attributes, run_of
from .client import PARALLEL_REQUESTS, code, connect, failures, problem, status

MIN_PART = 5 << 20
"""Every part of a multipart upload but the last must have so many bytes."""
COPIED_PART = 64 << 20
"""Parts that S3 copies, several at once, have so many bytes and up to twice as many; it allows 5 GiB."""
UPLOADED_PART = 64 << 20
_MOST_PARTS = 9000  # S3 allows 10,000; the others are for what is uploaded


def in_place(source: ObjectSource) -> S3Rewrite:
    """Replace an object that was opened; StorageError if it is not one of S3's, or boto3 is not here."""
    if source.place.kind != "S3":
        text = "objects are replaced in place on S3 only; give an output elsewhere"
        raise StorageError(text, path=source.name)
    if _pin(source) is None:
        text = "the store tells no etag by which a change of the object could be noticed; give an output elsewhere"
        raise StorageError(text, path=source.name)
    return S3Rewrite(source, source.place)


def elsewhere(source: Source, target: ObjectPlace) -> S3Rewrite | None:
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

    Every step is bound to the etag of the object that was read. In place, the object is replaced only if it is still
    that one, from the first read to the last step. Whoever looks sees the old object or the new one, whole. A store
    that takes the conditions of requests and does not heed them, as some that speak S3's protocol do, cannot give this
    protection: there, who replaces the object between the last copy and the end of the upload loses.

    A front of less than `MIN_PART` is downloaded, and the object written by one (in place: conditional) PUT.

    In place, the new object has the old one's user metadata and one key more (`attributes.RUN`, by which it is told
    from others' when an answer got lost), its content type and the other headers of its kind, storage class,
    server-side encryption and tags. It does not have its access control list (it gets the bucket's default), a checksum
    of the kind that was asked for when it was uploaded, or its modification time; its etag is that of a multipart
    upload. In a versioned bucket the old object stays as an older version. Objects that are locked, or whose tags
    cannot be read, are refused. A change of metadata or tags alone, which leaves the etag as it is, is not noticed.

    A process that dies, and a lost answer to the request that begins an upload, leave an unfinished upload behind: the
    object is as it was, but parts cost storage until a lifecycle rule (AbortIncompleteMultipartUpload) removes them.
    """

    def __init__(self, source: ObjectSource, target: ObjectPlace) -> None:
        super().__init__(source, target.name)
        store = source.store
        bucket = store.config["bucket"]
        self._client = connect(bucket, {**(store.client_options or {}), **store.config}, target.name)
        self._old, self._new = ({"Bucket": bucket, "Key": full_key(store, key)} for key in (source.key, target.key))
        self._in_place = self._old == self._new
        self._etag, self._read_from = _pin(source), source.name
        self._run = uuid.uuid4().hex
        self._attributes: dict[str, Any] = {"Metadata": {RUN: self._run}}
        self._upload: str | None = None
        self._parts: list[dict[str, Any]] = []
        self._tail = bytearray()

    def _begin(self) -> None:
        if not self._in_place:
            return
        head = self._ask("cannot look at it", self._client.head_object)
        if head.get("ETag") != self._etag:
            raise self._changed()
        self._attributes = attributes(head, self._tags(), self._run, self.path)

    def _tags(self) -> Any:
        """The object's tags; a HEAD tells of them only to who may read them."""
        action = "cannot read its tags, which a new object would lose (s3:GetObjectTagging)"
        try:
            return self._ask(action, self._client.get_object_tagging, "TagSet")
        except StorageError as error:
            if isinstance(error.__cause__, Exception) and status(error.__cause__) in (405, 501):
                return []  # a store that has no tags
            raise

    def _copy(self, source: Source, length: int) -> None:
        if not 0 <= length <= source.size:
            raise TruncatedFileError(f"{length} bytes to be copied, the file has {source.size}", path=source.name)
        if length < MIN_PART:
            for offset in range(0, length, PIECE):
                self._tail += source.read_at(offset, min(PIECE, length - offset))
            return
        create = self._client.create_multipart_upload
        self._upload = self._ask("cannot begin the upload", create, "UploadId", **self._attributes)
        count = min(_MOST_PARTS, max(1, length // COPIED_PART))
        ends = [length * number // count for number in range(count + 1)]
        spans = list(zip(range(1, count + 1), ends, ends[1:], strict=False))
        with threads.in_order(self._copy_part, spans, min(count, PARALLEL_REQUESTS)) as copied:
            self._parts.extend(copied)

    def _copy_part(self, span: tuple[int, int, int]) -> dict[str, Any]:
        number, start, end = span
        etag = self._ask(
            "cannot copy its data",
            self._client.upload_part_copy,
            "CopyPartResult",
            "ETag",
            UploadId=self._upload,
            PartNumber=number,
            CopySource=self._old,
            CopySourceIfMatch=self._etag,
            CopySourceRange=f"bytes={start}-{end - 1}",
        )
        return {"PartNumber": number, "ETag": etag}

    def _write(self, data: memoryview) -> None:
        self._tail += data
        while self._upload is not None and len(self._tail) >= UPLOADED_PART + MIN_PART:
            self._send(bytes(self._tail[:UPLOADED_PART]))
            del self._tail[:UPLOADED_PART]

    def _send(self, data: bytes) -> None:
        number = len(self._parts) + 1
        etag = self._ask(
            "cannot upload the filters",
            self._client.upload_part,
            "ETag",
            UploadId=self._upload,
            PartNumber=number,
            Body=data,
            ContentMD5=_digest(data),
        )
        self._parts.append({"PartNumber": number, "ETag": etag})

    def _commit(self) -> None:
        if not self._in_place and self._source is not None:
            self._source.check_unchanged()
        tail = bytes(self._tail)
        if self._upload is None:
            self._finish(self._client.put_object, Body=tail, ContentMD5=_digest(tail), **self._attributes)
            return
        self._send(tail)
        parts = {"Parts": self._parts}
        self._finish(self._client.complete_multipart_upload, UploadId=self._upload, MultipartUpload=parts)

    def _finish(self, replace: Callable[..., Any], **arguments: Any) -> None:
        """Take the last step; where it seems to fail, see what became of it: an answer may have got lost."""
        condition = {"IfMatch": self._etag} if self._in_place else {}
        failure: Exception = ValueError("the answer tells no etag")
        try:
            if replace(**self._new, **arguments, **condition).get("ETag"):
                return
        except failures() as error:
            failure = error
        self._undo()  # so that what S3 may still be at cannot succeed later
        try:
            head = self._client.head_object(**self._new)
        except failures() as error:
            if status(error) != 404:
                action = "cannot tell whether it was written (what stands there is whole)"
                raise problem(failure, action, self.path) from error
            if self._in_place:
                raise self._removed() from failure
            head = {}
        if run_of(head) == self._run:
            return
        if self._in_place and head.get("ETag") != self._etag:
            raise self._changed() from failure
        raise problem(failure, "cannot write it", self.path) from failure

    def _undo(self) -> None:
        if self._upload is not None:
            with suppress(*failures()):
                self._client.abort_multipart_upload(**self._new, UploadId=self._upload)
        self._upload = None

    def _tidy(self) -> None:
        self._tail.clear()

    def _ask(self, action: str, request: Callable[..., Any], *fields: str, **arguments: Any) -> Any:
        """One field of the answer to a request; what tells of another writer raises ConcurrentChangeError."""
        try:
            answer = request(**self._new, **arguments)
        except failures() as error:
            if status(error) == 412:
                raise self._changed() from error
            if code(error) in ("NoSuchKey", "404"):  # the second one of a HEAD, whose answer has no body
                raise self._removed() from error
            raise problem(error, action, self.path) from error
        for field in fields:  # a server or proxy may answer well, and with something else
            if field not in answer:
                raise StorageError(f"{action}: the answer has no {field}", path=self.path)
            answer = answer[field]
        return answer

    def _changed(self) -> ParquetBloomError:
        return ConcurrentChangeError("another writer changed it meanwhile", path=self._read_from)

    def _removed(self) -> ParquetBloomError:
        return ConcurrentChangeError("it was removed meanwhile", path=self._read_from)


def full_key(store: Any, key: str) -> str:
    """A key as the bucket has it; the store may stand for what begins with a prefix."""
    return "/".join(part for part in ((store.prefix or "").strip("/"), key) if part)


def _digest(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode("ascii")
