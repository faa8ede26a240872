"""Secrets that are known by their value: of options, of the environment, of URLs of the stores that were used."""

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

_SHORTEST = 6  # characters of a value that is hidden wherever it occurs: shorter ones occur in any text
_MOST_VALUES, _MOST_OF_URLS = 2000, 500  # that are remembered; the oldest are forgotten


class _Values:
    """Secret values, bounded in number.

    Attributes
    ----------
    found : all of them in every form in which they are looked for, longest first, as one may hold another.
    """

    def __init__(self) -> None:
        self.found: tuple[str, ...] = ()
        self._lock = threading.Lock()
        # Signed URLs may be many; they must not push out the secrets of stores.
        self._known: tuple[dict[str, None], dict[str, None]] = ({}, {})

    def add(self, values: Iterable[str], of_urls: bool = False) -> None:
        """Remember values, those of URLs apart."""
        known, most = self._known[of_urls], _MOST_OF_URLS if of_urls else _MOST_VALUES
        new = [form for value in values if len(value) >= _SHORTEST and value not in known for form in _forms(value)]
        if not new:
            return
        with self._lock:
            known.update(dict.fromkeys(new))
            for form in [*known][: max(0, len(known) - most)]:
                del known[form]
            self.found = tuple(sorted({form for part in self._known for form in part}, key=len, reverse=True))

    def forget(self) -> None:
        """Forget all, as tests want it."""
        with self._lock:
            for part in self._known:
                part.clear()
            self.found = ()


VALUES = _Values()
forget = VALUES.forget

# Names of options, in any case and with or without what stands before them, such as `azure_storage_`.
_SECRET_OPTION = re.compile(
    r"secret|passwor[dt]|passwd|pwd$|token|sas_|sas$|authorization|auth$|cookie|signature|connection_string"
    r"|(account|access|master|service_account|private|api|encryption|customer|shared)_?key|key_base64"
)
_NO_SECRET_OPTION = re.compile(
    r"(key_id|_file|_path|_uri|_url|endpoint|_provider|_disable_tagging)$|token_expir|max_|timeout"
)
_SECRET_HEADER = re.compile(r"auth|cookie|key|secret|token|signature|password|credential")
_ENVIRONMENT = re.compile(r"(AWS|AZURE|GOOGLE|GCS|S3|FSSPEC|HTTPS?_PROXY|ALL_PROXY|https?_proxy|all_proxy)")


def remember(options: Mapping[str, Any] | None) -> None:
    """Keep in mind which values are secret, by the names of options, so that no text shows them from now on.

    Parameters
    ----------
    options : of a store, of its client, of a file system; mappings in it are looked at, too.
    """
    if options:
        VALUES.add(_iter_secrets(options))


def remember_environment() -> None:
    """Keep in mind which values of the environment that stores' clients look at are secret."""
    VALUES.add(_iter_secrets({name: value for name, value in os.environ.items() if _ENVIRONMENT.match(name)}))


def remember_url(url: str) -> None:
    """Keep in mind what is secret in a URL: its password, its query, and what in this signs it."""
    VALUES.add(_passwords(url))
    _, mark, query = url.partition("?")
    if mark:
        query = query.partition("#")[0]
        VALUES.add([query, *(text for name, text in parse_qsl(query) if _signs(name))], of_urls=True)


def remember_filesystem(filesystem: object) -> None:
    """Keep in mind the secrets that a file system of pyarrow's or fsspec's, or a store of obstore's, was made of."""
    known = _FILE_SYSTEMS.get(id(filesystem))
    if known is not None and known() is filesystem:
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
        # They do not show what they were made of but to who makes another one of it.
        with suppress(Exception):
            made: Any = filesystem.__reduce__()
            remember({"options": [one for one in made[1] if isinstance(one, Mapping)]})
    remember_environment()
    with suppress(TypeError):
        if len(_FILE_SYSTEMS) >= _MOST_OF_URLS:
            _FILE_SYSTEMS.clear()
        _FILE_SYSTEMS[id(filesystem)] = weakref.ref(filesystem)


_FILE_SYSTEMS: dict[int, weakref.ref[object]] = {}


def _signs(name: str) -> bool:
    """Whether a parameter of a query is one whose value should not be seen anywhere; not a date or a version."""
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
                secret = _SECRET_OPTION.search(name) is not None and _NO_SECRET_OPTION.search(name) is None
            if secret:
                yield from _parts(text)


def _parts(text: str) -> Iterator[str]:
    """A secret value, and what in it is secret by itself."""
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
        yield from (value for name, value in parse_qsl(text.lstrip("?")) if _signs(name))


def _passwords(text: str) -> Iterator[str]:
    """The password, or the user, that a URL names, as it stands there and as it is meant."""
    scheme, mark, rest = text.partition("://")
    user, at, _ = rest.rpartition("@")
    if not mark or not at or (":" not in user and CONTAINER.match(scheme)):
        return
    authority, slash, _ = rest.partition("/")
    if slash and "@" not in authority and ":" not in authority:
        return  # the sign is one of its path
    name, colon, password = user.partition(":")
    secret = password if colon else name
    yield secret
    yield unquote(secret)
    yield base64.b64encode(unquote(user).encode()).decode()


def _forms(value: str) -> Iterator[str]:
    """How a value may be written: as it is, as in URLs, as in JSON and Python, line by line."""
    forms = [value, quote(value, safe=""), quote(value), quote_plus(value), json.dumps(value)[1:-1], repr(value)[1:-1]]
    forms += [line for line in value.splitlines() if len(line) > 2 * _SHORTEST and not line.startswith("-----")]
    yield from (form for form in dict.fromkeys(forms) if len(form) >= _SHORTEST)


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
