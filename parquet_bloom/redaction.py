"""Remember secrets by their value: those of options, of the environment, and of URLs of stores."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote

HIDDEN = "..."
"""The replacement of a secret."""

# Texts may be as long as a server's response, and malicious: each of these expressions takes linear time.
_WORD = re.compile(r"[^\s\"'<>]+")  # a URL, and the punctuation of the text around it
_WEB = re.compile(r"https?://", re.IGNORECASE)
_SCHEME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-"
_PORT = re.compile(r"\d*(?:[:,;.)\]}]|$)")
CONTAINER = re.compile(r"(abfs|wasb)s?$", re.IGNORECASE)  # in these, a name without a password is a container
_TRAILING_PUNCTUATION = re.compile(r"[:,;)\]}]{1,3}$")

_SECRET_PARAMETERS = (
    r"x-(?:amz|goog)-[a-z-]{1,40}|awsaccesskeyid|googleaccessid|signature|policy|key-pair-id"
    r"|sig|se|sp|sv|st|sr|ss|srt|spr|sip|sks|skt|ske|skv|skoid|sktid|saoid|suoid"
    r"|auth|key|[a-z0-9_.-]{0,40}(?:token|secret|passwor[dt]|passwd|pwd|credential|api_?key|access_?key)[a-z0-9_.-]{0,40}"
)
_PARAMETER = re.compile(
    rf"((?:[?&;]|%3F|%26|%3B|\\u0026)(?:{_SECRET_PARAMETERS})(?:=|%3D))[^&;\s\"'<>]+", re.IGNORECASE
)
_SIGNATURE = re.compile(r"\b((?:sig|signature|credential)=)[a-z0-9%+/=_-]{20,}", re.IGNORECASE)

_OPTION = re.compile(
    r"""(?<![a-z0-9/]) (?<!column\ ["'])
    ( (?: (?:aws[_-])? secret[_-]?(?:access[_-])?key | (?:aws[_-])? session[_-]?token | x-amz-security-token
        | (?:azure[_-])? (?:storage[_-])? (?:account|master|sas)[_-]?key | sas[_-]token | sharedaccesssignature
        | client[_-]secret | private[_-]key(?:[_-]id)? | password | (?:proxy-)?authorization )
      ["']? \s? [=:] \s? b?["']?
      (?: (?:basic|bearer|digest|negotiate|token) \s{1,3} )? )
    (?! aws4-hmac ) [^\s"',;&<>]+""",
    re.IGNORECASE | re.VERBOSE,
)
_OPTION_WORDS = ("key", "token", "secret", "password", "authorization", "signature", "sig=", "credential")
_BEARER = re.compile(r"\b((?:Bearer|Basic)\s+)(?=[^\s]*\d)[A-Za-z0-9._~+/=-]{12,}")
_ELEMENT = re.compile(
    r"<((?:StringToSign|SignatureProvided|CanonicalRequest)(?:Bytes)?|AWSAccessKeyId|Token-\d|SecretAccessKey|SessionToken)>"
    r"[^<]+"
)
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*-----|$)", re.DOTALL)


def redact_patterns(text: str) -> str:
    """Replace everything in a text that looks like a secret."""
    if "://" in text:
        text = _WORD.sub(_redact_url, text)
    if "&" in text or "?" in text or ";" in text or "%" in text or "\\u0026" in text:
        text = _PARAMETER.sub(rf"\1{HIDDEN}", text)
    lower = text.lower()
    if any(word in lower for word in _OPTION_WORDS):
        text = _OPTION.sub(rf"\1{HIDDEN}", text)
        text = _SIGNATURE.sub(rf"\1{HIDDEN}", text)
    if "earer" in text or "asic" in text:
        text = _BEARER.sub(rf"\1{HIDDEN}", text)
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}", text)
    if "</" in text:
        text = _ELEMENT.sub(rf"<\1>{HIDDEN}", text)
    return text


def _redact_url(match: re.Match[str]) -> str:
    """Redact the URLs in a word of a text."""
    word = match[0]
    if "://" not in word:
        return word
    web = _WEB.search(word)
    start = web.end() if web else len(word)
    query, fragment = word.find("?", start), word.find("#", start)
    if query < 0 <= fragment and "=" in word[fragment:]:  # a redirect after signing in
        query = fragment
    if query >= 0:
        punctuation = _TRAILING_PUNCTUATION.search(word[query:])
        word = f"{word[: query + 1]}{HIDDEN}{punctuation[0] if punctuation else ''}"
    before, *rest = word.split("://")
    parts = [before]
    for part in rest:
        scheme = parts[-1][len(parts[-1].rstrip(_SCHEME)) :]
        parts.append(_redact_user(scheme, part) if scheme else part)
    return "://".join(parts)


def _redact_user(scheme: str, rest: str) -> str:
    """Redact the user and the password in the part of a URL after `://`."""
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, _ = authority.rpartition("@")
    if at:
        is_container = ":" not in user and CONTAINER.match(scheme) is not None
        return rest if is_container else HIDDEN + rest[len(user) :]
    _, colon, port = authority.partition(":")
    if not colon or authority.startswith("[") or _PORT.match(port):
        return rest
    end = rest.rfind(
        "@"
    )  # a password may hold a character that ends an authority, or the text may be cut off before the @
    return HIDDEN + rest[end if end >= 0 else len(authority) :]


_MIN_LENGTH = 6  # characters: shorter values would be hidden in unrelated text
_MAX_VALUES, _MAX_URL_VALUES = 2000, 500  # remembered values; the oldest are forgotten


class _SecretValues:
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


VALUES = _SecretValues()
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


def remember(options: Mapping[str, object] | None) -> None:
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


def _iter_secrets(options: Mapping[str, object], headers: bool = False) -> Iterator[str]:
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


T = TypeVar("T")


def redacted(text: str) -> str:
    """Return a text with its secrets hidden; idempotent."""
    for value in VALUES.forms:
        if value in text:
            text = text.replace(value, HIDDEN)
    return redact_patterns(text)


def redacted_in(value: Any) -> Any:
    """Return a value with all texts redacted, including those in lists, tuples, sets and mappings and their keys."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        result = redacted(text)
        return value if result == text else result.encode("latin-1")
    if isinstance(value, Mapping):
        return {redacted_in(key): redacted_in(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(redacted_in, value))
    return value


def shown_redacted(cls: type[T]) -> type[T]:
    """Decorate a class so that `repr` and `str` of its objects hide secrets; attributes are not changed."""
    for name in ("__repr__", "__str__"):
        if name in cls.__dict__:
            setattr(cls, name, _redact_result(cls.__dict__[name]))
    return cls


def _redact_result(method: Callable[[object], str]) -> Callable[[object], str]:
    @functools.wraps(method)
    def wrapper(self: object) -> str:
        return redacted(method(self))

    return wrapper


class LibraryError(Exception):
    """Replaces an exception of a library whose text holds secrets and cannot be changed.

    Attributes
    ----------
    kind : name of the original class.
    """

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.kind}: {self.args[0]}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.kind)


def without_secrets(error: BaseException) -> BaseException:
    """Remove secrets from an exception, its causes and contexts, so that its traceback can be printed.

    Texts and attributes are changed in place, so that callers can still use the exception's class or the status of a
    response. An exception without secrets is not changed.

    Returns
    -------
    The exception, or a `LibraryError` that replaces one whose text cannot be changed: raise `from` the result.
    """
    return _without_secrets(error, {})


def _without_secrets(error: BaseException, done: dict[int, BaseException]) -> BaseException:
    if id(error) in done:
        return done[id(error)]
    done[id(error)] = error
    replacement = done[id(error)] = error if _redact_text(error) else _make_library_error(error)
    cause, context, suppressed = error.__cause__, error.__context__, error.__suppress_context__
    if cause is not None:
        replacement.__cause__ = _without_secrets(cause, done)
    if context is not None:
        replacement.__context__ = _without_secrets(context, done)
    replacement.__suppress_context__ = suppressed
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            _without_secrets(one, done)
    return replacement


def _format(error: BaseException) -> str:
    """Return the text that a traceback shows of one exception."""
    try:
        text = str(error)
    except Exception:  # an exception of some library that has no text must not hide the one that is being formatted
        text = ""
    return "\n".join([text, *map(str, getattr(error, "__notes__", ()))])


def _redact_text(error: BaseException) -> bool:
    """Remove secrets from the text of one exception; return whether none are left in it."""
    before = _format(error)
    if redacted(before) == before:
        return True
    with suppress(Exception):
        error.args = tuple(_without_secrets_in(one) for one in error.args)
    for name in ("filename", "filename2", "strerror", *getattr(error, "__dict__", ())):
        with suppress(Exception):
            value = getattr(error, name)
            if value is not None:
                setattr(error, name, _without_secrets_in(value))
    after = _format(error)
    return redacted(after) == after


def _without_secrets_in(value: object) -> object:
    return without_secrets(value) if isinstance(value, BaseException) else redacted_in(value)


def _make_library_error(error: BaseException) -> LibraryError:
    replacement = LibraryError(redacted(_format(error)), type(error).__name__)
    return replacement.with_traceback(error.__traceback__)


__all__ = [
    "LibraryError",
    "forget",
    "redacted",
    "redacted_in",
    "remember",
    "remember_environment",
    "remember_filesystem",
    "remember_url",
    "shown_redacted",
    "without_secrets",
]
