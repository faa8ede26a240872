"""What an S3 object has besides its bytes, and what of it a new object can be given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ....errors import StorageError

RUN = "parquet-bloom-run"
"""The key of user metadata under which an object says which run wrote it."""

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
"""What an answer to a HEAD tells of an object and a new object can be given, beside its metadata."""

_USUAL_CLASS = "STANDARD"  # of which answers say nothing
# What of it would be lost: the reason why the object is left alone.
_LOST = {
    "ObjectLockMode": "it is under an object lock",
    "ObjectLockLegalHoldStatus": "it is under a legal hold",
    "SSECustomerAlgorithm": "it is encrypted with a key of the customer's",
    "MissingMeta": "it has metadata that the store does not show",
}


def copy_attributes(head: Mapping[str, Any], tags: Iterable[tuple[str, str]], run: str, path: str) -> dict[str, Any]:
    """Arguments that give a new object what the old one has.

    Parameters
    ----------
    head : the answer to a HEAD of the old object.
    tags : its tags.
    run : written into the new object's user metadata, so that it can be told from others'.
    path : for errors.

    Raises
    ------
    StorageError
        if something would be lost: a lock, a key, metadata that the store does not show.
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
    """Names of what a new object was given and does not have.

    Parameters
    ----------
    given : what `copy_attributes` has returned.
    head : the answer to a HEAD of the new object.
    tags : of the new object; None where they cannot be known.
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
    """Which run wrote the object; some servers answer with capital letters."""
    return next((text for key, text in head.get("Metadata", {}).items() if key.lower() == RUN), None)
