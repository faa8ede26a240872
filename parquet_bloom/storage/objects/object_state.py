"""State of an S3 object besides its bytes: HEAD response, tags and access control list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from ...errors import ConcurrentChangeError, ParquetBloomError, StorageError
from .s3_client import error_code, failure_types, http_status, make_error
from .s3_requests import Requests

Spelling = Callable[[str], str]


def bare(etag: str | None) -> str:
    """Return the etag without quotes, for comparisons; empty for None."""
    return (etag or "").strip().strip('"')


def quoted(etag: str) -> str:
    """Return the etag in quotes, as in HTTP."""
    return f'"{bare(etag)}"'


def same_etag(one: str | None, other: str | None) -> bool:
    """Return whether two etags are equal and not empty."""
    return bool(bare(one)) and bare(one) == bare(other)


SPELLINGS: tuple[Spelling, ...] = (quoted, bare)
"""The spellings, in the order in which they are tried."""


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


_HEADERS = {
    "FULL_CONTROL": "GrantFullControl",
    "READ": "GrantRead",
    "READ_ACP": "GrantReadACP",
    "WRITE_ACP": "GrantWriteACP",
}
_OWNERS = "FULL_CONTROL"


class Access(NamedTuple):
    """An access control list.

    Attributes
    ----------
    owner : id of the owner; empty if the store does not report it.
    grants : pairs of permission and grantee, the latter as in headers.
    """

    owner: str
    grants: frozenset[tuple[str, str]]

    @property
    def is_plain(self) -> bool:
        """Return whether it is the default list: full control for the owner, and no other grants."""
        return self.grants <= {(_OWNERS, _by_id(self.owner))}

    def headers(self, path: str) -> dict[str, str]:
        """Return request arguments that give a new object this list; none for a plain list.

        Raises
        ------
        StorageError
            If it has a grant that no header can express.
        """
        if self.is_plain:
            return {}
        grants: dict[str, list[str]] = {}
        for permission, grantee in sorted(self.grants):
            if permission not in _HEADERS or not grantee:
                grant = f"a grant of {permission}" if permission else "a grant of an unknown kind"
                problem = f"its access control list has {grant} that a new object cannot be given"
                raise StorageError(f"{problem}; give an output elsewhere", path=path)
            grants.setdefault(_HEADERS[permission], []).append(grantee)
        return {header: ", ".join(grantees) for header, grantees in grants.items()}


def parse_access(answer: Mapping[str, Any]) -> Access | None:
    """Parse a response to GetObjectAcl; None if it is not one."""
    if "Grants" not in answer:
        return None
    owner = str((answer.get("Owner") or {}).get("ID", ""))
    grants = [(str(grant.get("Permission", "")), _grantee(grant.get("Grantee") or {})) for grant in answer["Grants"]]
    return Access(owner, frozenset(grants))


def _grantee(grantee: Mapping[str, str]) -> str:
    """Return the name of a grantee in headers; empty if there is none."""
    if grantee.get("URI"):
        return f'uri="{grantee["URI"]}"'
    return _by_id(grantee.get("ID", ""))


def _by_id(identity: str) -> str:
    return f'id="{identity}"' if identity and '"' not in identity else ""


RUN = "parquet-bloom-run"
"""Key of user metadata that identifies the run which wrote an object."""

PROBE = ".parquet-bloom-probe-"
"""Prefix of objects on which a store shows what it does; listings of data skip names that begin with a dot."""

DESCRIPTIVE = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "Expires",
    "WebsiteRedirectLocation",
    "ServerSideEncryption",
    "SSEKMSKeyId",
    "BucketKeyEnabled",
    "StorageClass",
)
"""Fields of a HEAD response that a new object can be given, besides user metadata."""

_USUAL_CLASS = "STANDARD"  # responses omit it
# Fields that a new object would lose, with the reason to refuse a rewrite.
_LOST = {
    "ObjectLockMode": "it is under an object lock",
    "ObjectLockLegalHoldStatus": "it is under a legal hold",
    "SSECustomerAlgorithm": "it is encrypted with a customer-provided key",
    "MissingMeta": "it has metadata that the store does not show",
}


def copy_attributes(head: Mapping[str, Any], tags: Iterable[tuple[str, str]], run: str, path: str) -> dict[str, Any]:
    """Return request arguments that give a new object the attributes of the old one.

    Parameters
    ----------
    head : the HEAD response of the old object.
    tags : its tags.
    run : id of this run for the user metadata of the new object, which identifies its writer.
    path : path of the object, for errors.

    Raises
    ------
    StorageError
        If something would be lost: a lock, a key, or metadata that the store does not show.
    """
    for name, reason in _LOST.items():
        if head.get(name) not in (None, 0, "OFF"):
            raise StorageError(f"{reason}, which a new object would lose; give an output elsewhere", path=path)
    if "ExpiresString" in head and "Expires" not in head:
        text = f"its header Expires, {head['ExpiresString']!r}, is not a date and would be lost"
        raise StorageError(f"{text}; give an output elsewhere", path=path)
    arguments = {name: head[name] for name in DESCRIPTIVE if head.get(name) is not None}
    arguments["Metadata"] = {key: text for key, text in head.get("Metadata", {}).items() if key.lower() != RUN} | {
        RUN: run
    }
    tagging = urlencode(sorted(tags), quote_via=quote)
    if tagging:
        arguments["Tagging"] = tagging
    return arguments


def find_lost_attributes(
    given: Mapping[str, Any], head: Mapping[str, Any], tags: Iterable[tuple[str, str]] | None
) -> list[str]:
    """Return the names of attributes that a new object was given but does not have.

    Parameters
    ----------
    given : what `copy_attributes` has returned.
    head : the HEAD response of the new object.
    tags : its tags; None if they are unknown.
    """
    names = [name for name in DESCRIPTIVE if name in given and head.get(name) != given[name]]
    if head.get("StorageClass", _USUAL_CLASS) != given.get("StorageClass", _USUAL_CLASS):
        names.append("StorageClass")
    if _lower_keys(given.get("Metadata", {})) != _lower_keys(head.get("Metadata", {})):
        names.append("user metadata")
    if urlencode(sorted(tags or ()), quote_via=quote) != given.get("Tagging", ""):
        names.append("tags")
    return sorted(set(names))


def _lower_keys(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): text for key, text in metadata.items()}


def find_run_id(head: Mapping[str, Any]) -> str | None:
    """Return the run that wrote an object, or None; some servers change the case of keys."""
    return next((text for key, text in head.get("Metadata", {}).items() if key.lower() == RUN), None)
