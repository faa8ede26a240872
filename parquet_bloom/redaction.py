"""Secrets are taken out of every text that leaves: errors, logs, reports, what the command line prints.

The text may be anybody's: libraries print the URLs, options and answers that they had. Hidden are, by their form, users
and passwords in URLs, query strings of web URLs, values behind names that only secrets have; and, wherever they occur,
the values of secret options of the stores that were used.
"""

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

T = TypeVar("T")

HIDDEN = "..."
"""What stands in the place of a secret."""

_SHORTEST = 6  # characters of a value that is hidden wherever it occurs: shorter ones occur in any text
_MOST_VALUES, _MOST_OF_URLS = 2000, 500  # that are remembered; the oldest are forgotten

# ---------------------------------------------------------------------------------------------------- by their form

# Texts may be as long as an answer, and made to harm: each of these takes time in proportion to the text.
_WORD = re.compile(r"[^\s\"'<>]+")  # a URL, and the punctuation of the text that it stands in
_WEB = re.compile(r"https?://", re.IGNORECASE)
_SCHEME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-"
_PORT = re.compile(r"\d*(?:[:,;.)\]}]|$)")
_CONTAINER = re.compile(r"(abfs|wasb)s?$", re.IGNORECASE)  # of these, a name without a password is a container's
_BEHIND = re.compile(r"[:,;)\]}]{1,3}$")

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
    r"""(?<![a-z0-9])
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


def redacted(text: str) -> str:
    """Return a text without the secrets in it.

    What is hidden once stays as it is: the result is redacted to itself.
    """
    for value in _VALUES.found:
        if value in text:
            text = text.replace(value, HIDDEN)
    if "://" in text:
        text = _WORD.sub(_without_url_secrets, text)
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


def redacted_in(value: Any) -> Any:
    """Return lists, tuples and mappings with all texts in them redacted, keys included; else the value itself."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        without = redacted(text)
        return value if without == text else without.encode("latin-1")
    if isinstance(value, Mapping):
        return {redacted_in(key): redacted_in(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(redacted_in, value))
    return value


def shown_redacted(cls: type[T]) -> type[T]:
    """Let `repr` and `str` of a class's objects hide secrets; their attributes are what they were given."""
    for name in ("__repr__", "__str__"):
        if name in cls.__dict__:
            setattr(cls, name, _redacting(cls.__dict__[name]))
    return cls


def _redacting(method: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(method)
    def shown(self: Any) -> str:
        return redacted(method(self))

    return shown


def _without_url_secrets(found: re.Match[str]) -> str:
    """A word of a text without what is secret in the URLs that it may be."""
    word = found[0]
    if "://" not in word:
        return word
    web = _WEB.search(word)
    start = web.end() if web else len(word)
    query, fragment = word.find("?", start), word.find("#", start)
    if query < 0 <= fragment and "=" in word[fragment:]:  # what a browser is sent after signing in
        query = fragment
    if query >= 0:
        behind = _BEHIND.search(word[query:])
        word = f"{word[: query + 1]}{HIDDEN}{behind[0] if behind else ''}"
    before, *rest = word.split("://")
    parts = [before]
    for part in rest:
        scheme = parts[-1][len(parts[-1].rstrip(_SCHEME)) :]
        parts.append(_without_user(scheme, part) if scheme else part)
    return "://".join(parts)


def _without_user(scheme: str, rest: str) -> str:
    """What follows `://`, without the user and the password."""
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, _ = authority.rpartition("@")
    if at:
        is_container = ":" not in user and _CONTAINER.match(scheme) is not None
        return rest if is_container else HIDDEN + rest[len(user) :]
    _, colon, port = authority.partition(":")
    if not colon or authority.startswith("[") or _PORT.match(port):
        return rest
    end = rest.rfind("@")  # a password may hold what ends an authority, or the text is cut off before the sign
    return HIDDEN + rest[end if end >= 0 else len(authority) :]


# ------------------------------------------------------------------------------------------------------- by their value


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


_VALUES = _Values()
forget = _VALUES.forget

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
        _VALUES.add(_secrets_of(options))


def remember_environment() -> None:
    """Keep in mind which values of the environment that stores' clients look at are secret."""
    _VALUES.add(_secrets_of({name: value for name, value in os.environ.items() if _ENVIRONMENT.match(name)}))


def remember_url(url: str) -> None:
    """Keep in mind what is secret in a URL: its password, its query, and what in this signs it."""
    _VALUES.add(_passwords(url))
    _, mark, query = url.partition("?")
    if mark:
        query = query.partition("#")[0]
        _VALUES.add([query, *(text for name, text in parse_qsl(query) if _signs(name))], of_urls=True)


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


def _secrets_of(options: Mapping[Any, Any], headers: bool = False) -> Iterator[str]:
    for given, value in options.items():
        name = _text(given).lower().replace("-", "_")
        if isinstance(value, Mapping):
            yield from _secrets_of(value, headers or "headers" in name)
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from _secrets_of({name: item}, headers)
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
    if not mark or not at or (":" not in user and _CONTAINER.match(scheme)):
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


# --------------------------------------------------------------------------------------------------------- exceptions


class LibraryError(Exception):
    """Stands for an exception of a library whose text holds secrets that cannot be taken out of it.

    Attributes
    ----------
    kind : the class that it had.
    """

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.kind}: {self.args[0]}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.kind)


def without_secrets(error: BaseException) -> BaseException:
    """Take secrets out of an exception and of all that led to it, so that its traceback can be printed.

    Exceptions stay the objects that they are, for those who look at their class or at an answer's status; their texts
    and attributes are changed. Nothing is touched of an exception that holds no secret.

    Returns
    -------
    The exception, or a `LibraryError` that stands for one whose text cannot be changed: raise `from` what is returned.
    """
    return _without_secrets(error, {})


def _without_secrets(error: BaseException, done: dict[int, BaseException]) -> BaseException:
    if id(error) in done:
        return done[id(error)]
    done[id(error)] = error
    instead = done[id(error)] = error if _changed(error) else _instead_of(error)
    cause, context, suppressed = error.__cause__, error.__context__, error.__suppress_context__
    if cause is not None:
        instead.__cause__ = _without_secrets(cause, done)
    if context is not None:
        instead.__context__ = _without_secrets(context, done)
    instead.__suppress_context__ = suppressed
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            _without_secrets(one, done)
    return instead


def _shown(error: BaseException) -> str:
    """What a traceback shows of one exception."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return "\n".join([text, *map(str, getattr(error, "__notes__", ()))])


def _changed(error: BaseException) -> bool:
    """Take secrets out of an exception's own text, and tell whether there are none in it now."""
    before = _shown(error)
    if redacted(before) == before:
        return True
    with suppress(Exception):
        error.args = tuple(_without_secrets_in(one) for one in error.args)
    for name in ("filename", "filename2", "strerror", *getattr(error, "__dict__", ())):
        with suppress(Exception):
            value = getattr(error, name)
            if value is not None:
                setattr(error, name, _without_secrets_in(value))
    after = _shown(error)
    return redacted(after) == after


def _without_secrets_in(value: Any) -> Any:
    return without_secrets(value) if isinstance(value, BaseException) else redacted_in(value)


def _instead_of(error: BaseException) -> LibraryError:
    instead = LibraryError(redacted(_shown(error)), type(error).__name__)
    return instead.with_traceback(error.__traceback__)
