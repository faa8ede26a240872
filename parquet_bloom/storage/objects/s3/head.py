"""State of an S3 object besides its bytes: HEAD response, tags and access control list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ....errors import ConcurrentChangeError, ParquetBloomError, StorageError
from .access import Access, parse_access
from .attributes import DESCRIPTIVE
from .client import error_code, failure_types, http_status, make_error
from .etags import same_etag
from .requests import Requests

Tags = frozenset[tuple[str, str]]

_UNKNOWN = (405, 501)  # status of stores without support for the request


class ObjectHead(NamedTuple):
    """State of an object at one moment.

    Attributes
    ----------
    head : the HEAD response.
    tags : its tags; None if the response has no TagSet.
    access : access control list; None if the store does not report it, or this user may not read it.
    """

    head: Mapping[str, Any]
    tags: Tags | None
    access: Access | None

    def require(self, first: ObjectHead, path: str) -> None:
        """Raise ConcurrentChangeError if the object has changed since its state was first read."""
        changed = "another writer changed"
        if not same_etag(self.head.get("ETag"), first.head.get("ETag")):
            raise ConcurrentChangeError(f"{changed} it meanwhile", path=path)
        if _descriptive_fields(self.head) != _descriptive_fields(first.head):
            raise ConcurrentChangeError(f"{changed} its metadata meanwhile", path=path)
        if self.tags != first.tags:
            raise ConcurrentChangeError(f"{changed} its tags meanwhile", path=path)
        if None not in (self.access, first.access) and self.access != first.access:
            raise ConcurrentChangeError(f"{changed} its access control list meanwhile", path=path)


def read_head(client: Any, requests: Requests, target: Mapping[str, str], path: str) -> ObjectHead:
    """Read the state of an object with three concurrent requests.

    Raises
    ------
    ConcurrentChangeError
        If it does not exist any more.
    StorageError
        If it or its tags cannot be read.
    """

    def ask(call: Callable[..., Any], action: str) -> Any:
        try:
            return requests.send(call, **target)
        except failure_types() as error:
            raise make_request_error(error, action, path) from error

    def tags() -> Tags | None:
        try:
            action = "cannot read its tags, which a new object would lose (s3:GetObjectTagging)"
            return parse_tags(ask(client.get_object_tagging, action))
        except StorageError as error:
            if isinstance(error.__cause__, Exception) and http_status(error.__cause__) in _UNKNOWN:
                return frozenset()
            raise

    def access() -> Access | None:
        action = "cannot read its access control list, which a new object would lose"
        try:
            answer = ask(client.get_object_acl, action)
        except StorageError as error:
            if isinstance(error.__cause__, Exception) and http_status(error.__cause__) in (401, 403, *_UNKNOWN):
                return None
            raise
        access_list = parse_access(answer)
        if access_list is None:
            raise StorageError(f"{action}: the response has no Grants", path=path)
        return access_list

    head = lambda: ask(client.head_object, "cannot read its metadata")  # noqa: E731
    return ObjectHead(*requests.together([head, tags, access]))


def parse_tags(answer: Mapping[str, Any]) -> Tags | None:
    """Parse a response to GetObjectTagging; None if it has no TagSet."""
    if "TagSet" not in answer:
        return None
    return frozenset((tag["Key"], tag["Value"]) for tag in answer["TagSet"])


def make_request_error(error: Exception, action: str, path: str) -> ParquetBloomError:
    """Convert the error of a request for an object; signs of another writer become a ConcurrentChangeError."""
    if http_status(error) in (412, 416):  # 416: it is shorter than before
        return ConcurrentChangeError("another writer changed it meanwhile", path=path)
    if error_code(error) in ("NoSuchKey", "404"):  # "404" for a HEAD, whose response has no body
        return ConcurrentChangeError("it was removed meanwhile", path=path)
    return make_error(error, action, path)


def _descriptive_fields(head: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a HEAD response that must not change while the bytes are the same."""
    access_list = {name: head.get(name) for name in DESCRIPTIVE}
    return access_list | {"Metadata": dict(head.get("Metadata", {}))}
