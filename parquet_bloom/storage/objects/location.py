"""Resolution of URLs to objects in stores. obstore is imported when the first store is needed."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote, unquote

from ...errors import StorageError
from ...redaction import redacted, remember, remember_environment, remember_filesystem, remember_url
from .request_limits import seconds
from .store_client import StoreClient
from .store_errors import first_line, is_panic

_CLIENT_OPTIONS = frozenset(
    (
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "default_headers",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    )
)
_CLIENT_TIMES = frozenset(
    ("connect_timeout", "http2_keep_alive_timeout", "pool_idle_timeout", "read_timeout", "timeout")
)
_DURATIONS = frozenset(("init_backoff", "max_backoff", "retry_timeout"))
_RETRY = {"max_retries": 6, "init_backoff": 0.1, "max_backoff": 5.0, "retry_timeout": 60.0}
"""With doubling pauses, about six seconds pass before a response such as 503 is final."""

_ENDPOINTS = ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3")
_ENDPOINT = re.compile(r"https?://[!-.0-~][!-~]*", re.IGNORECASE)
_ACCOUNTS = ("account_name", "endpoint", "azure_storage_account_name", "azure_storage_endpoint", "azure_endpoint")


class StoreHandle(NamedTuple):
    """A store with its label, kind and client; see `ObjectLocation`."""

    store: Any
    label: str
    kind: str
    client: StoreClient


def make_store_handle(url: str, options: Mapping[str, Any], path: str) -> StoreHandle:
    """Create the store for a URL without a key.

    Raises
    ------
    StorageError
        If obstore is not installed, an option is unknown, or its value is invalid. It names `path`, for which the store
        is created.
    """
    try:
        from obstore.store import HTTPStore, from_url
    except ImportError:
        problem = "URLs are read by obstore, which is not installed: pip install 'parquet-bloom[objects]'"
        raise StorageError(problem, path=path) from None

    remember(options)
    remember_url(url)
    remember_environment()
    config, client, retry = _split_options(options, path)
    provider = config.pop("credential_provider", None)
    is_http = url.startswith(("http://", "https://"))
    if is_http:
        if config:
            raise StorageError(f"'{min(config)}' is not an option for HTTP", path=path)
        client.setdefault("allow_http", "true")  # a URL with http:// asks for it
    elif url.startswith("s3://"):
        _check_endpoint(config, path)
    arguments: dict[str, Any] = {}
    if client:  # even an empty mapping would override the environment
        arguments["client_options"] = client
    if provider is not None:
        arguments["credential_provider"] = provider

    try:
        if is_http:
            store: Any = HTTPStore(url, retry_config=retry, **arguments)
        else:
            open_url: Any = from_url  # its overloads are one for each kind of store
            store = open_url(url, config=config, retry_config=retry, **arguments)
    except Exception as error:
        raise StorageError(f"cannot create its store: {first_line(error)}", path=path, errno=errno.EINVAL) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise StorageError(f"cannot create its store: {first_line(error)}", path=path, errno=errno.EINVAL) from error
    kind = type(store).__name__.removesuffix("Store")
    label = " at ".join(filter(None, (without_password(url), _describe_endpoint(kind, config))))
    return StoreHandle(store, label, kind, StoreClient(store))


def _check_endpoint(config: Mapping[str, Any], path: str) -> None:
    """Raise StorageError for an S3 endpoint that is not a URL: obstore panics on the first request to it."""
    given = [config[name] for name in _ENDPOINTS if name in config]
    variables = [name.upper() for name in _ENDPOINTS if name.startswith("aws_")]
    for endpoint in given or [os.environ[name] for name in variables if os.environ.get(name)]:
        if not _ENDPOINT.fullmatch(endpoint):
            problem = f"the endpoint {endpoint!r} is not a URL of the form http://host or https://host"
            raise StorageError(problem, path=path, errno=errno.EINVAL)


def _describe_endpoint(kind: str, config: Mapping[str, Any]) -> str:
    """Return the endpoint or account from settings or the environment, which distinguishes buckets of one name."""
    names = _ENDPOINTS if kind == "S3" else _ACCOUNTS
    values = [config.get(name) or os.environ.get(name.upper()) for name in names if "_" in name or name in config]
    return " ".join(dict.fromkeys(without_password(str(value)) for value in values if value))


def without_password(url: str) -> str:
    """Return an HTTP URL without user and password."""
    return re.sub("^(https?://)[^/@]*@", r"\1", url, flags=re.IGNORECASE)


def _split_options(options: Mapping[str, Any], path: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Split options into those of the store, its HTTP client, and retries, in the form that obstore takes."""
    config: dict[str, Any] = {}
    client: dict[str, Any] = {}
    retry: dict[str, Any] = dict(_RETRY)
    for given, value in options.items():
        name = str(given).lower()
        bare = re.sub("^(aws|azure|google)_", "", name)
        if name in retry:
            retry[name] = value
        elif bare in _CLIENT_OPTIONS:
            client[bare] = _duration_text(value) if bare in _CLIENT_TIMES else _client_value(value)
        else:
            config[name] = value if name == "credential_provider" else _text(value)
    try:
        durations = {name: timedelta(seconds=seconds(retry[name])) for name in _DURATIONS}
        backoff = {name: durations[name] for name in ("init_backoff", "max_backoff")}
        limits = {"max_retries": int(retry["max_retries"]), "retry_timeout": durations["retry_timeout"]}
    except (TypeError, ValueError, OverflowError) as error:
        raise StorageError(f"a retry option is not a number: {first_line(error)}", path=path) from error
    return config, client, {"backoff": backoff, **limits}


def _client_value(value: Any) -> Any:
    return value if isinstance(value, (Mapping, bytes, timedelta)) else _text(value)


def _duration_text(value: Any) -> Any:
    """Return a duration for obstore; a plain number means seconds."""
    return f"{value}s" if isinstance(value, int | float) or str(value).isdecimal() else _client_value(value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


URL = re.compile(r"(s3a?|gcs|gs|azure|az|abfss?|adl|https?)://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
"""A URL of an object store or a web server: scheme, host, and the rest."""
_SCHEME_ALIASES = {"gcs": "gs", "s3a": "s3", "azure": "az", "adl": "az"}  # obstore does not support all of these
_UNQUOTED = "!$&'()*+,;=:@~/"  # not escaped by obstore in HTTP requests, besides letters, digits and -._
_PLAIN = re.compile(rf"[\w .{re.escape(_UNQUOTED)}-]+")

_SETTINGS = ("AWS_", "AZURE_", "GOOGLE_")  # prefixes of environment variables with settings
_Environment = tuple[tuple[str, str], ...]
_LABEL_KEYS = ("bucket", "container_name", "account_name", "endpoint")  # settings that identify a store; none is secret
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
_MAX_STORES = 64
_ANY_MEMORY = "MemoryStore"  # the same for all stores in memory


class ObjectLocation(NamedTuple):
    """Location of an object, or of a prefix of keys, in a store.

    Attributes
    ----------
    store : the obstore store; it and its connections are shared.
    key : key in the store.
    name : the name that the caller used.
    root : the part of the name before the key.
    label : scheme, bucket and endpoint as text that identifies the store; without credentials.
    kind : "S3", "GCS", "Azure", "HTTP", "Memory", "Local".
    client : client for requests to the store.
    """

    store: Any
    key: str
    name: str
    root: str
    label: str
    kind: str
    client: StoreClient

    def __repr__(self) -> str:
        return redacted(f"<ObjectLocation {self.name!r}: {self.key!r} in {self.label}>")

    @property
    def can_list(self) -> bool:
        """Return whether the store can list its keys."""
        return self.kind != "HTTP"

    def same(self, other: ObjectLocation) -> bool:
        """Return whether two locations have the same store and key."""
        return self.key == other.key and (self.store is other.store or self.label == other.label != _ANY_MEMORY)

    def at(self, key: str) -> ObjectLocation:
        """Return the location of another key in the same store."""
        return self._replace(key=key, name=self.root + key)


class ListedObject(NamedTuple):
    """Description of an object that is not opened yet.

    Attributes
    ----------
    location : the object.
    size : its length in bytes.
    e_tag : as the server writes it; None if it is unknown, or requests cannot use it.
    tail : its last bytes, if they were read.
    requests : number of requests that this description took.
    """

    location: ObjectLocation
    size: int | None = None
    e_tag: str | None = None
    tail: bytes = b""
    requests: int = 0


@dataclass
class RequestCount:
    """Counter of requests."""

    number: int = 0


class ObjectStores:
    """Options for the stores of URLs, or one store; accepted wherever a file system is.

    Parameters
    ----------
    options : settings of stores, HTTP client and retries, under the names of obstore.
    store : an obstore store; paths are then keys in it.

    Attributes
    ----------
    takes_uris : whether a local path may be a `file:` URI, or be quoted.
    is_one_store : whether all paths are keys in one store, which the caller created.
    """

    takes_uris: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any] | None = None, store: Any = None):
        self._options = dict(options or {})
        self._options_key = _freeze(self._options)
        self.is_one_store = store is not None
        self._caller_store = None if store is None else _wrap_caller_store(store)
        remember(options)
        if store is not None:
            remember_filesystem(store)

    def __repr__(self) -> str:
        handle = self._caller_store
        return redacted(f"<ObjectStores {handle.store!r}>") if handle is not None else "<ObjectStores of URLs>"

    @property
    def options(self) -> Mapping[str, Any]:
        return self._options

    def locate(self, path: str | os.PathLike[str]) -> ObjectLocation | None:
        """Return the location of one path; see `locate_all`."""
        return self.locate_all([path])[0]

    def locate_all(self, paths: Iterable[str | os.PathLike[str]]) -> list[ObjectLocation | None]:
        """Return the locations of paths; None for local paths.

        Raises
        ------
        StorageError
            If a URL has no bucket, a key cannot be used with obstore, or an option is unknown.
        """
        if self._caller_store is not None:
            handle = self._caller_store
            return [_make_location(handle, "", name, name) for name in map(os.fsdecode, paths)]
        environment: _Environment | None = None
        locations: list[ObjectLocation | None] = []
        for path in paths:
            # A path object is never a URL: it has lost one of the two slashes.
            match = URL.match(path) if isinstance(path, str) else None
            if match is not None and environment is None:
                environment = tuple(item for item in os.environ.items() if item[0].startswith(_SETTINGS))
            locations.append(None if match is None else self._locate_url(match, environment or ()))
        return locations

    def _locate_url(self, match: re.Match[str], environment: _Environment) -> ObjectLocation:
        path = match[0]
        scheme, host, rest = match.groups()
        if not host:
            raise StorageError("the URL has no bucket or host", path=path, errno=errno.EINVAL)
        scheme = scheme.lower()
        if scheme in ("http", "https"):
            return self._locate_http(path, f"{scheme}://{host}", rest, environment)
        if rest and not rest.startswith("/"):  # such as `s3://bucket?x`; bucket names do not contain these characters
            raise StorageError("the URL has an invalid bucket name", path=path, errno=errno.EINVAL)
        handle = self._get_handle(f"{_SCHEME_ALIASES.get(scheme, scheme)}://{host}", path, environment)
        return _make_location(handle, f"{match[1]}://{host}/", rest[1:], path)

    def _locate_http(self, path: str, origin: str, rest: str, environment: _Environment) -> ObjectLocation:
        """Return the location of a file on a web server, in one store per server if obstore does not change the URL."""
        remember_url(path)
        key = unquote(rest[1:])
        if _is_valid_key(key) and _PLAIN.fullmatch(key) and quote(key, safe=_UNQUOTED) == rest[1:]:
            return _make_location(self._get_handle(origin, path, environment), f"{origin}/", key, path)
        handle = self._get_handle(path.partition("#")[0], path, environment)
        from hashlib import sha256

        # A query may be a signature, which must stay secret, or distinguish two files; so the label has a digest.
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
    return StoreHandle(store, _make_label(store), kind, StoreClient(store))


_STORES: OrderedDict[Hashable, StoreHandle] = OrderedDict()
_LOCK = threading.Lock()


def _make_label(store: Any) -> str:
    """Return a label that identifies a store of the caller."""
    config = getattr(store, "config", None) or {}
    parts = [f"{key}={config[key]}" for key in _LABEL_KEYS if key in config]
    if "endpoint" not in config:  # the store read it from the environment
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
    """Check a key, and return it without a slash at its end."""
    key = key.removesuffix("/")
    if key and not _is_valid_key(key):
        problem = "a key cannot have empty parts, . or .."
        raise StorageError(problem, path=name, errno=errno.EINVAL)
    return key
