"""Checks of the conditions of a store on a `Probe`, and errors for stores that do not support them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ....errors import StorageError
from .attributes import find_lost_attributes
from .client import error_code, failure_types, http_status, make_error
from .etags import SPELLINGS, Spelling, quoted
from .probe import Probe

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


def prove_put(probe: Probe, given: Mapping[str, Any]) -> ConditionSupport:
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


def prove_upload(probe: Probe, given: Mapping[str, Any]) -> ConditionSupport:
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


def prove_no_tags(probe: Probe) -> None:
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
