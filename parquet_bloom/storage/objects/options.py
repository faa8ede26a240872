"""Creation of object stores from the options that callers give."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from ...errors import StorageError
from ...redaction import remember, remember_environment, remember_url
from .client import StoreClient
from .errors import first_line, is_panic
from .limits import RequestLimits, seconds

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

    def make_store(retries: Any) -> Any:
        if is_http:
            return HTTPStore(url, retry_config=retries, **arguments)
        open_url: Any = from_url  # its overloads are one for each kind of store
        return open_url(url, config=config, retry_config=retries, **arguments)

    try:
        store, single_try_store = (make_store(retries) for retries in (retry, {**retry, "max_retries": 0}))
    except Exception as error:
        raise StorageError(f"cannot create its store: {first_line(error)}", path=path, errno=errno.EINVAL) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise StorageError(f"cannot create its store: {first_line(error)}", path=path, errno=errno.EINVAL) from error
    kind = type(store).__name__.removesuffix("Store")
    label = " at ".join(filter(None, (without_password(url), _describe_endpoint(kind, config))))
    return StoreHandle(store, label, kind, StoreClient(single_try_store, RequestLimits.from_store(store)))


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
