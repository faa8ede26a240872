"""Remember secrets by their value: those of options, of the environment, and of URLs of stores."""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote

from .forms import CONTAINER

_MIN_LENGTH = 6  # characters: shorter values would be hidden in unrelated text
_MAX_VALUES, _MAX_URL_VALUES = 2000, 500  # remembered values; the oldest are forgotten


class _Values:
    """A bounded set of secret values.

    Attributes
    ----------
    forms : the values in all forms in which text may contain them, longest first, as one may contain another.
    """

    def __init__(self) -> None:
        self.forms: tuple[str, ...] = ()
        self._lock = threading.Lock()
        # Signed URLs may be many; they must not displace the secrets of stores.
        self._sets: tuple[dict[str, None], dict[str, None]] = ({}, {})

    def add(self, values: Iterable[str], of_urls: bool = False) -> None:
        """Remember values; those of URLs have a limit of their own."""
        values_of_kind, limit = self._sets[of_urls], _MAX_URL_VALUES if of_urls else _MAX_VALUES
        new = [
            form
            for value in values
            if len(value) >= _MIN_LENGTH and value not in values_of_kind
            for form in _forms(value)
        ]
        if not new:
            return
        with self._lock:
            values_of_kind.update(dict.fromkeys(new))
            for form in [*values_of_kind][: max(0, len(values_of_kind) - limit)]:
                del values_of_kind[form]
            self.forms = tuple(sorted({form for part in self._sets for form in part}, key=len, reverse=True))

    def forget(self) -> None:
        """Forget all values, for tests."""
        with self._lock:
            for part in self._sets:
                part.clear()
            self.forms = ()


VALUES = _Values()
forget = VALUES.forget

# Names of options, in lower case, with or without a prefix such as `azure_storage_`.
_SECRET_OPTION = re.compile(
    r"secret|passwor[dt]|passwd|pwd$|token|sas_|sas$|authorization|auth$|cookie|signature|connection_string"
    r"|(account|access|master|service_account|private|api|encryption|customer|shared)_?key|key_base64"
)
_HARMLESS_OPTION = re.compile(
    r"(key_id|_file|_path|_uri|_url|endpoint|_provider|_disable_tagging)$|token_expir|max_|timeout"
)
_SECRET_HEADER = re.compile(r"auth|cookie|key|secret|token|signature|password|credential")
_ENVIRONMENT = re.compile(r"(AWS|AZURE|GOOGLE|GCS|S3|FSSPEC|HTTPS?_PROXY|ALL_PROXY|https?_proxy|all_proxy)")


def remember(options: Mapping[str, Any] | None) -> None:
    """Remember the values of options whose names denote secrets, to hide them in all later text.

    Parameters
    ----------
    options : options of a store, its client or a file system, including nested mappings.
    """
    if options:
        VALUES.add(_iter_secrets(options))


def remember_environment() -> None:
    """Remember the secrets among the environment variables that clients of stores read."""
    VALUES.add(_iter_secrets({name: value for name, value in os.environ.items() if _ENVIRONMENT.match(name)}))


def remember_url(url: str) -> None:
    """Remember the secrets in a URL: its password, its query, and the query's signature parameters."""
    VALUES.add(_passwords(url))
    _, mark, query = url.partition("?")
    if mark:
        query = query.partition("#")[0]
        VALUES.add([query, *(text for name, text in parse_qsl(query) if _is_secret_parameter(name))], of_urls=True)


def remember_filesystem(filesystem: object) -> None:
    """Remember the secrets that a file system of pyarrow or fsspec, or a store of obstore, was created with."""
    reference = _FILE_SYSTEMS.get(id(filesystem))
    if reference is not None and reference() is filesystem:
        return
    for name in ("storage_options", "config", "client_options"):
        options = getattr(filesystem, name, None)
        if isinstance(options, Mapping):
            remember(options)
    url = getattr(filesystem, "url", None)
    if isinstance(url, str):
        remember_url(url)
    inner = getattr(filesystem, "base_fs", None) or getattr(getattr(filesystem, "handler", None), "fs", None)
    if inner is not None:
        remember_filesystem(inner)
    elif type(filesystem).__module__.startswith("pyarrow._"):
        # Their options are accessible only by pickling.
        with suppress(Exception):
            reduced: Any = filesystem.__reduce__()
            remember({"options": [one for one in reduced[1] if isinstance(one, Mapping)]})
    remember_environment()
    with suppress(TypeError):
        if len(_FILE_SYSTEMS) >= _MAX_URL_VALUES:
            _FILE_SYSTEMS.clear()
        _FILE_SYSTEMS[id(filesystem)] = weakref.ref(filesystem)


_FILE_SYSTEMS: dict[int, weakref.ref[object]] = {}


def _is_secret_parameter(name: str) -> bool:
    """Return whether the value of a query parameter is secret, such as a signature, unlike a date or a version."""
    return re.fullmatch(r"x-(amz|goog)-(signature|credential|security-token)|sig|key|auth", name, re.I) is not None or (
        re.search(r"signature|token|secret|passw|credential|key", name, re.I) is not None
        and re.search(r"id$|algorithm|expires|date|headers", name, re.I) is None
    )


def _iter_secrets(options: Mapping[Any, Any], headers: bool = False) -> Iterator[str]:
    for given, value in options.items():
        name = _text(given).lower().replace("-", "_")
        if isinstance(value, Mapping):
            yield from _iter_secrets(value, headers or "headers" in name)
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from _iter_secrets({name: item}, headers)
        elif isinstance(value, (str, bytes)):
            text = _text(value)
            yield from _passwords(text)
            if headers:
                secret = _SECRET_HEADER.search(name) is not None
            else:
                secret = _SECRET_OPTION.search(name) is not None and _HARMLESS_OPTION.search(name) is None
            if secret:
                yield from _parts(text)


def _parts(text: str) -> Iterator[str]:
    """Yield a secret value, and the parts of it that are secrets themselves."""
    yield text
    scheme, space, rest = text.partition(" ")
    if space and scheme.lower() in ("basic", "bearer", "token", "digest", "negotiate"):
        yield rest.strip()
        if scheme.lower() == "basic":
            with suppress(ValueError):
                yield base64.b64decode(rest).decode().partition(":")[2]
    if text.lstrip().startswith("{"):  # a service account
        with suppress(ValueError):
            account = json.loads(text)
            yield from (str(account[name]) for name in account if name.startswith("private_key"))
    for part in text.split(";"):  # a connection string
        name, equals, value = part.partition("=")
        if equals and _SECRET_OPTION.search(name.lower()):
            yield value
    if "&" in text or text.startswith("?"):  # a shared access signature
        yield from (value for name, value in parse_qsl(text.lstrip("?")) if _is_secret_parameter(name))


def _passwords(text: str) -> Iterator[str]:
    """Yield the password, or the user, of a URL, as written, percent-decoded, and as Basic authentication."""
    scheme, mark, rest = text.partition("://")
    user, at, _ = rest.rpartition("@")
    if not mark or not at or (":" not in user and CONTAINER.match(scheme)):
        return
    authority, slash, _ = rest.partition("/")
    if slash and "@" not in authority and ":" not in authority:
        return  # the @ is part of the path
    name, colon, password = user.partition(":")
    secret = password if colon else name
    yield secret
    yield unquote(secret)
    yield base64.b64encode(unquote(user).encode()).decode()


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which text may contain a value: as it is, as in URLs, JSON and Python, and line by line."""
    forms = [value, quote(value, safe=""), quote(value), quote_plus(value), json.dumps(value)[1:-1], repr(value)[1:-1]]
    forms += [line for line in value.splitlines() if len(line) > 2 * _MIN_LENGTH and not line.startswith("-----")]
    yield from (form for form in dict.fromkeys(forms) if len(form) >= _MIN_LENGTH)


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
