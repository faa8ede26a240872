"""Proof that a store honours the conditions that a write relies on, before anything is written.

Some S3-compatible stores accept conditions and ignore them, or honour only one spelling of the etag, or refuse the
right etag. Each store must show on a `Probe` what it does.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ...errors import StorageError
from ...util import threads
from .object_state import (
    PROBE,
    RUN,
    SPELLINGS,
    Access,
    Spelling,
    Tags,
    find_lost_attributes,
    find_run_id,
    parse_access,
    parse_tags,
    quoted,
)
from .s3_client import error_code, failure_types, http_status, make_error
from .s3_requests import Requests
from .s3_upload import add_to_error

_NO_VERSION = "null"  # version id of some stores for objects without versions
_MAX_UNNAMED = 10  # versions whose responses were lost


class ProofContext(NamedTuple):
    """Context of a proof.

    Attributes
    ----------
    client, requests : for requests to the store.
    bucket, key : of the object to write.
    path : path of that object, for errors.
    """

    client: Any
    requests: Requests
    bucket: str
    key: str
    path: str


class Probe:
    """Context manager for the object; on exit it and its uploads are deleted.

    Its methods raise the errors of boto3, `failure_types()`.

    Parameters
    ----------
    context : of the proof; the probe is in the folder of the object to write.

    Attributes
    ----------
    url : URL of the probe.
    path : path of the object to write, for errors.
    """

    def __init__(self, context: ProofContext) -> None:
        folder, slash, _ = context.key.rpartition("/")
        name = f"{folder}{slash}{PROBE}{uuid.uuid4().hex}"
        self.url = f"s3://{context.bucket}/{name}"
        self._client, self._requests, self.path = context.client, context.requests, context.path
        self._target = {"Bucket": context.bucket, "Key": name}
        self._server = self._run = ""
        self._written = self._cleared = False
        self._versions: set[str] = set()
        self._uploads: set[str] = set()
        self._lock = threading.Lock()

    @property
    def store(self) -> str:
        """Name of the store for messages: its server name and address."""
        url = urlsplit(self._client.meta.endpoint_url)
        where = f"{url.hostname}:{url.port}" if url.port else str(url.hostname)
        return f"the store ({self._server[:60]}, at {where})" if self._server else f"the store at {where}"

    def put(self, attributes: Mapping[str, Any], **condition: str) -> str:
        """Write the object and return its etag."""
        self._run, self._written = uuid.uuid4().hex, True
        put, body = self._client.put_object, self._run.encode()
        answer = self._send(put, self._note_written, Body=body, **self.marked(attributes), **condition)
        self._note_written(answer)
        return str(answer.get("ETag", ""))

    def begin(self, attributes: Mapping[str, Any]) -> str:
        """Begin an upload and return its id."""
        self._run = uuid.uuid4().hex
        create = self._client.create_multipart_upload
        answer = self._send(create, self._note_begun, **self.marked(attributes))
        self._note_begun(answer)
        return str(answer.get("UploadId", ""))

    def marked(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes with the last run in their metadata, as they were last written."""
        return {**attributes, "Metadata": {**attributes.get("Metadata", {}), RUN: self._run}}

    def copy_part(self, upload: str, condition: str) -> str:
        """Copy the object into the first part of the upload and return the etag of the part."""
        answer = self._send(
            self._client.upload_part_copy,
            UploadId=upload,
            PartNumber=1,
            CopySource=self._target,
            CopySourceIfMatch=condition,
        )
        return str(answer.get("CopyPartResult", {}).get("ETag", ""))

    def upload_part(self, upload: str) -> str:
        """Upload the first part and return its etag."""
        return str(self._send(self._client.upload_part, UploadId=upload, PartNumber=1, Body=b"part").get("ETag", ""))

    def complete(self, upload: str, part: str, **condition: str) -> None:
        """Complete the upload."""
        self._written = True
        parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
        call = self._client.complete_multipart_upload
        answer = self._send(call, self._note_written, UploadId=upload, MultipartUpload=parts, **condition)
        self._note_written(answer)
        self._uploads.discard(upload)

    def head(self) -> Mapping[str, Any]:
        """Return the HEAD response."""
        answer: Mapping[str, Any] = self._send(self._client.head_object)
        return answer

    def was_written(self) -> bool:
        """Return whether the last PUT or upload wrote the current object."""
        return find_run_id(self.head()) == self._run

    def tags(self) -> Tags | None:
        """Return its tags; None if the response has no TagSet."""
        return parse_tags(self._send(self._client.get_object_tagging))

    def access(self) -> Access | None:
        """Return its access control list; None if the store does not report it."""
        with suppress(*failure_types()):
            return parse_access(self._send(self._client.get_object_acl))
        return None

    def _send(self, call: Callable[..., Any], late: Callable[[Any], None] | None = None, **arguments: Any) -> Any:
        try:
            answer = self._requests.send(call, late, **self._target, **arguments)
        except failure_types() as error:
            self._note_server(getattr(error, "response", None) or {})
            raise
        self._note_server(answer)
        return answer

    def _note_server(self, answer: Mapping[str, Any]) -> None:
        self._server = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("server") or self._server

    def _note_written(self, answer: Mapping[str, Any]) -> None:
        with self._lock:
            self._versions |= {answer["VersionId"]} if answer.get("VersionId") else set()
            cleared = self._cleared
        if cleared:  # a late response, after the cleanup
            self._delete(lambda call, **arguments: call(**arguments))

    def _note_begun(self, answer: Mapping[str, Any]) -> None:
        with self._lock:
            self._uploads |= {answer["UploadId"]} if answer.get("UploadId") else set()
            cleared = self._cleared
        if cleared:
            self._abort(lambda call, **arguments: call(**arguments))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete the object; a failure is raised as StorageError, or added to the error that is being handled."""
        end = self._requests.end_of_clearing()
        with self._lock:
            self._cleared = True

        def send(call: Callable[..., Any], **arguments: Any) -> Any:
            return self._requests.clear_up(call, end, **arguments)

        problems = [text for text in (self._abort(send), self._delete(send)) if text]
        if problems and error is None:
            raise StorageError("; ".join(problems), path=self.path)
        if problems and error is not None:
            add_to_error(error, "; ".join(problems))

    def _abort(self, send: Callable[..., Any]) -> str:
        """Abort the uploads; return the problem if one is left, else an empty text."""
        problems = ""
        for upload in sorted(self._uploads):
            try:
                send(self._client.abort_multipart_upload, **self._target, UploadId=upload)
            except failure_types() as error:
                if http_status(error) != 404:
                    action = f"cannot abort the upload {upload} of the probe {self.url} (s3:AbortMultipartUpload)"
                    problems = make_error(error, action, self.path).problem
        return problems

    def _delete(self, send: Callable[..., Any]) -> str:
        if not self._written:
            return ""
        try:
            self._delete_versions(send)
        except failure_types() as error:
            action = f"cannot delete the probe {self.url}, which may be left there (s3:DeleteObject)"
            return make_error(error, action, self.path).problem
        return ""

    def _delete_versions(self, send: Callable[..., Any]) -> None:
        """Delete all versions that were written if this is allowed; else delete the object."""
        try:
            for version in sorted(self._versions):
                send(self._client.delete_object, **self._target, VersionId=version)
        except failure_types() as error:
            if http_status(error) in (0, 503):
                raise
        else:
            kept = self._versions - {_NO_VERSION}
            if self._versions and not (kept and self._has_unnamed_version(send)):
                return
        send(self._client.delete_object, **self._target)

    def _has_unnamed_version(self, send: Callable[..., Any]) -> bool:
        """Return whether a version is left whose response was lost."""
        for _ in range(_MAX_UNNAMED):
            try:
                version = send(self._client.head_object, **self._target).get("VersionId")
            except failure_types() as error:
                return http_status(error) != 404
            if not version:
                return True
            send(self._client.delete_object, **self._target, VersionId=version)
        return True


WAY_OUT = "give an output elsewhere (output=)"
_UNKNOWN = (405, 501)


class ConditionSupport(NamedTuple):
    """Support of a store for conditional writes.

    Attributes
    ----------
    copy, replace : spelling of the etag in conditions of copies, and of the request that replaces the object.
    owner : owner of objects that we write; empty if the store does not report it.
    """

    copy: Spelling
    replace: Spelling
    owner: str


class UnsupportedStoreError(Exception):
    """The store does not support conditional writes."""


T = TypeVar("T")

_ProofCache = dict[tuple[object, ...], "Future[Any]"]
_PROOFS: WeakKeyDictionary[Any, _ProofCache] = WeakKeyDictionary()  # by client, which has an endpoint and credentials
_LOCK = threading.Lock()
_POLL_SECONDS = 0.1  # between checks whether the work was cancelled


def prove_put(context: ProofContext, given: Mapping[str, Any]) -> ConditionSupport:
    """Check that a PUT replaces only the version that its condition names; see `prove_upload`."""
    return _prove_once(context, ("put", *sorted(given)), lambda probe: _show_put(probe, given))


def prove_upload(context: ProofContext, given: Mapping[str, Any]) -> ConditionSupport:
    """Check that a multipart upload copies from, and replaces, only the version that its conditions name.

    Parameters
    ----------
    given : attributes of the new object; it is also checked that the store keeps them.

    Raises
    ------
    StorageError
        If the store does not, or this cannot be checked. If the store does not support it, the result is remembered for
        the process.
    """
    return _prove_once(context, ("upload", *sorted(given)), lambda probe: _show_upload(probe, given))


def prove_no_tags(context: ProofContext) -> None:
    """Check that this store omits the TagSet in responses if there are no tags."""
    _prove_once(context, ("no tags",), _show_no_tags)


def _prove_once(context: ProofContext, name: tuple[object, ...], show: Callable[[Probe], T]) -> T:
    """Run a proof on a probe once: return the earlier result, or wait for the thread that is running it."""
    key = (context.bucket, *name)
    while True:
        with _LOCK:
            proofs = _PROOFS.setdefault(context.client, {})
            pending = proofs.get(key)
            if pending is None:
                future = proofs[key] = Future[Any]()
        if pending is None:
            return _run_proof(proofs, key, future, context, show)
        while not wait((pending,), _POLL_SECONDS).done:
            threads.raise_if_stopped()
        error = pending.exception()
        if error is None:
            result: T = pending.result()
            return result
        if isinstance(error, UnsupportedStoreError):
            raise StorageError(str(error), path=context.path)
        if isinstance(error, StorageError):
            raise StorageError(error.problem, path=context.path, errno=error.errno)


def _run_proof(
    proofs: _ProofCache,
    key: tuple[object, ...],
    future: Future[T],
    context: ProofContext,
    show: Callable[[Probe], T],
) -> T:
    try:
        with Probe(context) as probe:
            result = show(probe)
    except UnsupportedStoreError as error:
        future.set_exception(error)
        raise StorageError("; ".join([str(error), *getattr(error, "__notes__", ())]), path=context.path) from error
    except BaseException as error:
        with _LOCK:
            del proofs[key]
        future.set_exception(error)
        raise
    future.set_result(result)
    return result


def _show_put(probe: Probe, given: Mapping[str, Any]) -> ConditionSupport:
    """Check that PutObject honours If-Match and keeps attributes; raise UnsupportedStoreError if not."""
    etag = _send(probe, "PutObject", probe.put, given)

    def attempt(condition: str, right: bool) -> bool:
        try:
            probe.put(given, IfMatch=condition)
        except failure_types() as error:
            if http_status(error) != 412:
                raise _make_failure(probe, error, "PutObject with If-Match") from error
            # Refused; or it succeeded, the response was lost, and the retry was refused.
            return right and bool(_send(probe, "HeadObject", probe.was_written))
        return True

    spell = _find_spelling(probe, "PutObject's If-Match", etag, attempt)
    return ConditionSupport(quoted, spell, _require_kept(probe, given, "PutObject"))


def _show_upload(probe: Probe, given: Mapping[str, Any]) -> ConditionSupport:
    """Check that multipart uploads honour both conditions and keep attributes; raise UnsupportedStoreError if not."""
    plain = {name: given[name] for name in given if name in ("ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled")}
    etag = _send(probe, "PutObject", probe.put, plain)
    number = _send(probe, "CreateMultipartUpload", probe.begin, given)
    part = ""

    def copy(condition: str, right: bool) -> bool:
        nonlocal part
        try:
            part = probe.copy_part(number, condition)
        except failure_types() as error:
            if http_status(error) != 412:
                raise _make_failure(probe, error, "UploadPartCopy with x-amz-copy-source-if-match") from error
            return False
        return True

    copy_spelling = _find_spelling(probe, "UploadPartCopy's x-amz-copy-source-if-match", etag, copy)
    recreated = False

    def complete(condition: str, right: bool) -> bool:
        nonlocal number, recreated
        try:
            probe.complete(number, part, IfMatch=condition)
        except failure_types() as error:
            gone = error_code(error) == "NoSuchUpload"
            if http_status(error) != 412 and not gone:
                raise _make_failure(probe, error, "CompleteMultipartUpload with If-Match") from error
            if (right or gone) and _send(probe, "HeadObject", probe.was_written):
                return True  # the response was lost, and the retry was refused
            if gone and recreated:
                raise _make_failure(probe, error, "CompleteMultipartUpload with If-Match") from error
            if not gone:
                return False
        else:
            return True
        # The store ends an upload when it refuses to complete it.
        recreated = True
        number = _send(probe, "CreateMultipartUpload", probe.begin, given)
        if not copy(copy_spelling(etag), True):
            raise StorageError(f"cannot show on the probe {probe.url} that the store heeds conditions", path=probe.path)
        return complete(condition, right)

    replace_spelling = _find_spelling(probe, "CompleteMultipartUpload's If-Match", etag, complete)
    return ConditionSupport(copy_spelling, replace_spelling, _require_kept(probe, given, "a multipart upload"))


def _show_no_tags(probe: Probe) -> None:
    """Check that the store reports existing tags, and omits the TagSet if there are none.

    Some stores do so for multipart uploads. Raise UnsupportedStoreError if this store does not.
    """
    _send(probe, "PutObject with a tag", probe.put, {"Tagging": "parquet-bloom=probe"})
    tags = _send(probe, "GetObjectTagging", probe.tags)
    number = _send(probe, "CreateMultipartUpload", probe.begin, {})
    part = _send(probe, "UploadPart", probe.upload_part, number)
    _send(probe, "CompleteMultipartUpload", probe.complete, number, part)
    if not tags or _send(probe, "GetObjectTagging", probe.tags) is not None:
        text = "cannot read its tags, which a new object would lose: the response has no TagSet"
        raise UnsupportedStoreError(f"{text}; {WAY_OUT}")


def _find_spelling(probe: Probe, condition: str, etag: str, attempt: Callable[[str, bool], bool]) -> Spelling:
    """Find the spelling of etags for which a wrong etag is refused and the right one is not.

    Parameters
    ----------
    condition : name of the condition.
    etag : the right etag.
    attempt : makes the request with a spelled etag, which is the right one or not; returns whether it succeeded.
    """
    false = uuid.uuid4().hex
    for spell in SPELLINGS:
        if attempt(spell(false), False):
            problem = f"{probe.store} ignores {condition}, so that another writer's object could be lost"
            raise UnsupportedStoreError(f"{problem}; {WAY_OUT}")
        if attempt(spell(etag), True):
            return spell
    problem = f"{probe.store} cannot do conditional writes: it refuses {condition} even with the right etag"
    raise UnsupportedStoreError(f"{problem}; {WAY_OUT}")


def _send(probe: Probe, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except failure_types() as error:
        raise _make_failure(probe, error, what) from error


def _make_failure(probe: Probe, error: Exception, what: str) -> Exception:
    """Return the error for a request that did not fail because of its condition."""
    if http_status(error) in _UNKNOWN or error_code(error) == "NotImplemented":
        answer = " ".join(dict.fromkeys(str(text) for text in (http_status(error), error_code(error)) if text))
        return UnsupportedStoreError(
            f"{probe.store} cannot do conditional writes: it answers {what} with {answer}; {WAY_OUT}"
        )
    needed = "s3:PutObject and GetObject, PutObjectTagging for tags, and PutObjectAcl for others' grants"
    permission = f" (needs {needed})" if http_status(error) == 403 else ""
    action = f"cannot show on the probe {probe.url} that the store heeds conditions: {what}{permission}"
    failure = make_error(error, action, probe.path)
    failure.problem += f"; {WAY_OUT}"
    return failure


def _require_kept(probe: Probe, given: Mapping[str, Any], way: str) -> str:
    """Check that the probe has the attributes it was given, and return its owner."""
    head = _send(probe, "HeadObject", probe.head)
    tags = _send(probe, "GetObjectTagging", probe.tags) if given.get("Tagging") else frozenset()
    access = probe.access()
    lost = find_lost_attributes(probe.marked(given), head, tags)
    if any(name.startswith("Grant") for name in given) and (access is None or access.is_plain):
        lost.append("access control list")
    if lost:
        text = f"{probe.store} does not keep what {way} gives to an object: {', '.join(lost)}"
        raise UnsupportedStoreError(f"{text}; {WAY_OUT}")
    return "" if access is None else access.owner
