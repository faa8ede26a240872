"""Which object of which store a URL names. obstore is imported when the first store is needed."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ...errors import StorageError
from ...redaction import redacted, remember, remember_filesystem, remember_url
from .client import StoreClient
from .limits import RequestLimits
from .options import StoreHandle, make_store_handle, without_password

_URL = re.compile(r"(s3a?|gcs|gs|azure|az|abfss?|adl|https?)://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_SCHEME_ALIASES = {"gcs": "gs", "s3a": "s3", "azure": "az", "adl": "az"}  # obstore does not know all of them
_UNQUOTED = "!$&'()*+,;=:@~/"  # what obstore writes into an HTTP request as it stands, beside letters, digits and -._
_PLAIN = re.compile(rf"[\w .{re.escape(_UNQUOTED)}-]+")

_SETTINGS = ("AWS_", "AZURE_", "GOOGLE_")  # names of the environment's begin so
_Environment = tuple[tuple[str, str], ...]
_LABEL_KEYS = ("bucket", "container_name", "account_name", "endpoint")  # of a store's settings: no secret among them
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
_MAX_STORES = 64
_ANY_MEMORY = "MemoryStore"  # tells no two of them apart


class ObjectLocation(NamedTuple):
    """One object, or what keys begin with, in one store.

    Attributes
    ----------
    store : obstore's store; it and its connections are shared.
    key : inside of the store.
    name : as the caller named it.
    root : what the key follows in a name.
    label : scheme, bucket and endpoint as text, which tells stores apart; without credentials.
    kind : "S3", "GCS", "Azure", "HTTP", "Memory", "Local".
    client : what reads from the store.
    """

    store: Any
    key: str
    name: str
    root: str
    label: str
    kind: str
    client: StoreClient

    def __repr__(self) -> str:
        return redacted(f"<ObjectPlace {self.name!r}: {self.key!r} in {self.label}>")

    @property
    def can_list(self) -> bool:
        """Whether the store can be asked for its keys."""
        return self.kind != "HTTP"

    def same(self, other: ObjectLocation) -> bool:
        """Whether it is the same object, by the names that are known of it."""
        return self.key == other.key and (self.store is other.store or self.label == other.label != _ANY_MEMORY)

    def at(self, key: str) -> ObjectLocation:
        """Another key of the same store."""
        return self._replace(key=key, name=self.root + key)


def is_url(path: object) -> bool:
    """Whether a path is a URL of an object store or a web server, by its scheme."""
    return isinstance(path, str) and _URL.match(path) is not None


class ListedObject(NamedTuple):
    """What is known of an object before it is opened.

    Attributes
    ----------
    place : the object.
    size : its length in bytes.
    e_tag : as the server writes it; None if it is not known, or not in a form that requests can carry.
    tail : the end of its bytes, where what found it has read them.
    requests : that this took.
    """

    location: ObjectLocation
    size: int | None = None
    e_tag: str | None = None
    tail: bytes = b""
    requests: int = 0


class ObjectStores:
    """URLs and the options for their stores, or one store; stands for a file system wherever one is taken.

    Parameters
    ----------
    options : obstore's names of settings of the URLs' stores, its client's and its retries'.
    store : a store of obstore's; paths are then keys in it.
    """

    def __init__(self, options: Mapping[str, Any] | None = None, store: Any = None):
        self._options = dict(options or {})
        self._options_key = _freeze(self._options)
        self._caller_store = None if store is None else _wrap_caller_store(store)
        remember(options)
        if store is not None:
            remember_filesystem(store)

    def __repr__(self) -> str:
        handle = self._caller_store
        return redacted(f"<ObjectStores {handle.store!r}>") if handle is not None else "<ObjectStores of URLs>"

    @property
    def is_one_store(self) -> bool:
        """Whether all paths are keys in one store, which the caller has made."""
        return self._caller_store is not None

    def locate(self, path: str | os.PathLike[str]) -> ObjectLocation | None:
        """What a path names; see `places`."""
        return self.locate_all([path])[0]

    def locate_all(self, paths: Iterable[str | os.PathLike[str]]) -> list[ObjectLocation | None]:
        """What paths name; None for each that is no URL, and so a local path.

        Raises
        ------
        StorageError
            if the URL names no bucket, the key is one that obstore cannot name, or an option is unknown.
        """
        if self._caller_store is not None:
            handle = self._caller_store
            return [_make_location(handle, "", name, name) for name in map(os.fsdecode, paths)]
        environment: _Environment | None = None
        locations: list[ObjectLocation | None] = []
        for path in paths:
            # A path object has lost one of the two slashes.
            match = _URL.match(path) if isinstance(path, str) else None
            if match is not None and environment is None:
                environment = tuple(item for item in os.environ.items() if item[0].startswith(_SETTINGS))
            locations.append(None if match is None else self._locate_url(match, environment or ()))
        return locations

    def _locate_url(self, match: re.Match[str], environment: _Environment) -> ObjectLocation:
        path = match[0]
        scheme, host, rest = match.groups()
        if not host:
            raise StorageError("the URL names no bucket or host", path=path, errno=errno.EINVAL)
        scheme = scheme.lower()
        if scheme in ("http", "https"):
            return self._locate_http(path, f"{scheme}://{host}", rest, environment)
        if rest and not rest.startswith("/"):  # `s3://bucket?x`: no bucket's name has such characters
            raise StorageError("the URL names no bucket that could be", path=path, errno=errno.EINVAL)
        handle = self._get_handle(f"{_SCHEME_ALIASES.get(scheme, scheme)}://{host}", path, environment)
        return _make_location(handle, f"{match[1]}://{host}/", rest[1:], path)

    def _locate_http(self, path: str, origin: str, rest: str, environment: _Environment) -> ObjectLocation:
        """A file of the web's. The store of its server is used where obstore writes the URL just as it stands."""
        remember_url(path)
        key = unquote(rest[1:])
        if _is_valid_key(key) and _PLAIN.fullmatch(key) and quote(key, safe=_UNQUOTED) == rest[1:]:
            return _make_location(self._get_handle(origin, path, environment), f"{origin}/", key, path)
        handle = self._get_handle(path.partition("#")[0], path, environment)
        # A query may be a signature, which is nobody else's business, or what tells two files apart.
        label = f"{without_password(origin)} {sha256(path.encode()).hexdigest()[:32]}"
        return ObjectLocation(handle.store, "", path, path, label, handle.kind, handle.client)

    def _get_handle(self, url: str, path: str, environment: _Environment) -> StoreHandle:
        key = url, self._options_key, environment
        with _LOCK:
            handle = _STORES.get(key)
            if handle is not None:
                _STORES.move_to_end(key)
                return handle
        handle = make_store_handle(url, self._options, path)
        with _LOCK:
            handle = _STORES.setdefault(key, handle)
            while len(_STORES) > _MAX_STORES:
                _STORES.popitem(last=False)
        return handle


def _make_location(handle: StoreHandle, root: str, key: str, name: str) -> ObjectLocation:
    return ObjectLocation(handle.store, _check_key(key, name), name, root, handle.label, handle.kind, handle.client)


def _wrap_caller_store(store: Any) -> StoreHandle:
    kind = type(store).__name__.removesuffix("Store")
    return StoreHandle(store, _make_label(store), kind, StoreClient(store, RequestLimits.of_callers_store(store)))


_STORES: OrderedDict[Hashable, StoreHandle] = OrderedDict()
_LOCK = threading.Lock()


def resolve_stores(filesystem: object | None) -> ObjectStores | None:
    """What finds objects for a file system as callers give it; None if it is another one."""
    if filesystem is None:
        return _FROM_ENVIRONMENT
    if isinstance(filesystem, ObjectStores):
        return filesystem
    module = sys.modules.get("obstore.store")  # whoever has a store of it has imported it
    if module is not None and isinstance(filesystem, module.ObjectStoreMethods):
        return ObjectStores(store=filesystem)
    return None


def is_store(filesystem: object | None) -> bool:
    """Whether a file system as callers give it is one store, so that every path is a key in it."""
    stores = resolve_stores(filesystem)
    return stores is not None and stores.is_one_store


def object_location(path: str | os.PathLike[str], filesystem: object | None) -> ObjectLocation | None:
    """The object that a path on a file system names; None if it is none."""
    stores = resolve_stores(filesystem)
    return None if stores is None else stores.locate(path)


def resolve_filesystem(filesystem: object | None, storage_options: Mapping[str, Any] | None) -> object | None:
    """One object for the two parameters that callers have.

    Raises
    ------
    StorageError
        if both are given: a file system has options of its own; or the options are no mapping.
    """
    if not storage_options:
        return filesystem
    if not isinstance(storage_options, Mapping):
        raise StorageError(f"storage_options are a mapping of names to values, not {type(storage_options).__name__}")
    if filesystem is not None:
        raise StorageError("storage_options are for URLs; filesystem= has options of its own: give one of the two")
    return ObjectStores(storage_options)


def _make_label(store: Any) -> str:
    """What tells a caller's store from others."""
    config = getattr(store, "config", None) or {}
    parts = [f"{key}={config[key]}" for key in _LABEL_KEYS if key in config]
    if "endpoint" not in config:  # the store has taken it from there
        parts += [f"{name}={os.environ[name]}" for name in _ENDPOINT_VARIABLES if os.environ.get(name)]
    parts += [str(value) for value in (getattr(store, "prefix", None), getattr(store, "url", None)) if value]
    return " ".join([type(store).__name__, *parts])


def _freeze(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _freeze(item)) for key, item in value.items()))
    return value if isinstance(value, Hashable) else repr(value)


def _is_valid_key(key: str) -> bool:
    return not any(part in ("", ".", "..") for part in key.split("/"))


def _check_key(key: str, name: str) -> str:
    """A key without the slash that ends a folder's."""
    key = key.removesuffix("/")
    if key and not _is_valid_key(key):
        problem = "a key with an empty part, or . or .. as one, cannot be reached"
        raise StorageError(problem, path=name, errno=errno.EINVAL)
    return key


_FROM_ENVIRONMENT = ObjectStores()
