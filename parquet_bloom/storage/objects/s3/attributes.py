"""Attributes of S3 objects besides their bytes, and their transfer to new objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ....errors import StorageError

RUN = "parquet-bloom-run"
"""Key of user metadata that identifies the run which wrote an object."""

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
