"""Middleware that rejects requests without a valid token."""

from __future__ import annotations

import errno
import hashlib
import hmac
import ipaddress
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import ParquetBloomError, StorageError
from ..lake.lake_files import name_of
from ..redaction import remember
from ..storage import Entry, is_local, is_url, list_entries, open_source
from ..storage.confined import ANY_DEPTH, ConfinedFolders, list_confined, matches_parts, split_path
from .error_responses import ApiError, error_response

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

VARIABLE = "PARQUET_BLOOM_TOKEN"
"""The environment variable that holds a token."""

_MIN_LENGTH = 16  # characters: a shorter one could be guessed
_MAX_BYTES = 65_536  # of the file
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # the form that RFC 6750 allows in the header
_FORM = f"at least {_MIN_LENGTH} letters, digits and characters of -._~+/, such as `openssl rand -hex 32` prints"


class Tokens:
    """A set of tokens, of which only digests are kept.

    Parameters
    ----------
    tokens : the tokens; all texts of the package hide them from now on.
    """

    def __init__(self, tokens: Iterable[str]):
        tokens = list(tokens)
        remember({"token": tokens})
        self._digests = [_digest(token.encode()) for token in tokens]

    def accept(self, authorization: Iterable[bytes]) -> bool:
        """Return whether the values of the Authorization header are a single token of the set.

        The time that it takes depends neither on the token that was sent nor on how much of it is right.
        """
        values = list(authorization)
        scheme, _, sent = values[0].strip().partition(b" ") if len(values) == 1 else (b"", b"", b"")
        digest = _digest(sent.strip())
        equal = [hmac.compare_digest(digest, known) for known in self._digests]
        return scheme.lower() == b"bearer" and any(equal)


def read_tokens(path: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> Tokens | None:
    """Read the tokens of the service.

    Parameters
    ----------
    path : file with one token per line; two are for the time in which clients change from one to the other.
    environment : may hold a token instead.

    Returns
    -------
    None if neither is given.

    Raises
    ------
    ParquetBloomError
        Both are given, the file cannot be read, or what is given is not a token.
    """
    given = environment.get(VARIABLE)
    if path is None:
        return None if given is None else Tokens([_check(given, f"the environment variable {VARIABLE}")])
    if given is not None:
        raise ParquetBloomError(f"there is a --token-file and an environment variable {VARIABLE}; give one of them")
    with open_source(path) as source:
        if source.size > _MAX_BYTES:
            problem = f"the file is longer than {_MAX_BYTES:,} bytes: it should hold one token per line"
            raise ParquetBloomError(problem, path=path)
        data = source.read_at(0, source.size)
    lines = [line.strip() for line in data.decode("ascii", "replace").splitlines()]
    tokens = [_check(line, f"{os.fspath(path)}: line {i}") for i, line in enumerate(lines, 1) if line]
    if not tokens:
        raise ParquetBloomError("the file is empty; it should hold a token", path=path)
    return Tokens(tokens)


def _check(token: str, where: str) -> str:
    """Return a token without the white space around it, if it is one; the error does not show it."""
    token = token.strip()
    if len(token) < _MIN_LENGTH or not _TOKEN.fullmatch(token):
        raise ParquetBloomError(f"{where} is not a token: {_FORM}")
    return token


def _digest(token: bytes) -> bytes:
    """Return a digest, whose length says nothing about the token's."""
    return hashlib.sha256(token).digest()


AUTHORIZED = "parquet_bloom.authorized"
"""Key of a request's scope: whether it had a valid token, or none was needed."""

_CHALLENGE = 'Bearer realm="parquet-bloom"'
_REQUIRED = "a token is required: the header Authorization with the word Bearer, a space and the token"


class TokenGuard:
    """Wraps an application, and answers requests without a valid token with 401.

    Parameters
    ----------
    app : the application.
    tokens : the valid tokens; None if no token is needed.
    open_paths : paths that are answered without one.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens | None, open_paths: Collection[str]):
        self._app = app
        self._tokens = tokens
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._tokens is not None:
            sent = [value for name, value in scope["headers"] if name == b"authorization"]
            scope[AUTHORIZED] = self._tokens.accept(sent)
            if not scope[AUTHORIZED] and scope["path"] not in self._open_paths:
                challenge = f'{_CHALLENGE}, error="invalid_token"' if sent else _CHALLENGE
                text = "the token is not valid" if sent else _REQUIRED
                headers = {"www-authenticate": challenge, "connection": "close"}
                await error_response(401, text, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::[0-9]{0,5})?")


class HostGuard:
    """Wraps an application, and checks the Host and Origin headers of its requests.

    Any web page that a user of the machine opens can send requests to a service on the loopback interface. So requests
    of pages of other sites are rejected, and so are host names that merely resolve to this machine (DNS rebinding).

    Parameters
    ----------
    app : the application.
    host : the address that the service listens on.
    report : called with exceptions that the application raised.
    """

    def __init__(self, app: ASGIApp, host: str, report: Callable[[Exception], None]):
        self._app = app
        self._host = host.lower()
        self._only_local = is_loopback(host)
        self._report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        rejection = self._check_headers(scope)
        if rejection is not None:
            await error_response(*rejection, {"connection": "close"})(scope, receive, send)
            return
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as error:  # a bug, of any kind: the client gets an answer, and the service goes on
            self._report(error)
            if not started:
                await error_response(500, f"a bug, please report it: {type(error).__name__}")(scope, receive, send)

    def _check_headers(self, scope: Scope) -> tuple[int, str] | None:
        hosts, origins = (
            [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]
            for wanted in (b"host", b"origin")
        )
        for host in hosts if self._only_local else ():
            if host and not self._is_own_name(_strip_port(host)):
                return 421, f"the service answers to localhost, not to {host[:100]}"
        own = {f"{scheme}://{host}".lower() for scheme in ("http", "https") for host in hosts if host}
        if any(origin.lower() not in own for origin in origins):
            return 403, "requests from pages of other sites are not allowed"
        return None

    def _is_own_name(self, name: str) -> bool:
        return name == self._host or is_loopback(name)


def is_loopback(host: str) -> bool:
    """Return whether a name or address is a loopback one."""
    if host.lower() == "localhost":
        return True
    for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        with suppress(ipaddress.AddressValueError):
            return kind(host).is_loopback
    return False


def _strip_port(host: str) -> str:
    """Return the name of a Host header, without port and brackets of IPv6; all of it if it has another form."""
    match = _HOST.fullmatch(host)
    return (match[1] or match[2] if match else host).lower()


_FILE_URL = re.compile(r"file:(//(localhost)?(?=/))?(?=/)", re.IGNORECASE)
_AMBIGUOUS = re.compile(r"%2e|%2f|%5c|[?#\\\x00-\x1f\x7f]", re.IGNORECASE)  # URL parsers drop line breaks and tabs
_MAX_DEPTHS = 2  # per pattern: each multiplies the number of folders that are listed


class AllowedPaths:
    """The paths that clients may name.

    Parameters
    ----------
    roots : folders, patterns and URLs; symbolic links of local ones are resolved.

    Attributes
    ----------
    folders : the local ones.
    """

    def __init__(self, roots: Iterable[str]):
        local = [(root, _local_path(root)) for root in roots]
        self.folders = ConfinedFolders(path for _, path in local if path is not None)
        self._urls = [split_path(name_of(root)) for root, path in local if path is None]

    def find_files(self, paths: Sequence[str], filesystem: FileSystem | None) -> list[Entry]:
        """Return the files that paths mean, if all of them are allowed.

        Raises
        ------
        ApiError
            A file is not allowed, or a path is invalid.
        ParquetBloomError
            There is no such path in the allowed folders, or it cannot be listed.
        """
        entries: dict[str, Entry] = {}
        for path in paths:
            if not path or "\0" in path:
                raise ApiError(422, f"files: {path!r} is not a path")
            if path[0] != "/":
                self._check_url(path)
                entries |= {entry.path: entry for entry in list_entries(path, filesystem, alone=len(paths) == 1)}
            else:
                entries |= {entry.path: entry for entry in self._list_local(path, filesystem)}
        return list(entries.values())

    def _list_local(self, path: str, filesystem: FileSystem | None) -> Iterable[Entry]:
        if ".." in path.split("/"):
            raise outside(path)
        if path.split("/").count(ANY_DEPTH) > _MAX_DEPTHS:
            raise ApiError(422, f"files: {path[:200]!r} has more than {_MAX_DEPTHS} times {ANY_DEPTH}")
        name = "/" + os.path.normpath(path).strip("/")
        if not is_local(filesystem):
            entries = list_entries(name, filesystem)
            if not all(self.folders.has_file(entry.path) for entry in entries):
                raise outside(path)
            return entries
        try:
            self.folders.check_way(name)
            # A file that is indexed by two names would give its rows twice.
            return [Entry(self.folders.name_file(file)) for file in list_confined(name, self.folders)]
        except StorageError as error:
            if error.errno == errno.EXDEV:
                raise outside(path) from error
            raise

    def _check_url(self, path: str) -> None:
        if _FILE_URL.match(path):
            raise outside(path)
        if not is_url(path):
            raise ApiError(422, f"files: {path[:200]!r} is not absolute")
        parts = split_path(name_of(path))
        ambiguous = (
            _AMBIGUOUS.search(path) or any(part in ("", ".", "..") for part in parts[2:-1]) or parts[-1] in (".", "..")
        )
        if ambiguous or not any(matches_parts(parts, root) for root in self._urls):
            raise outside(path)


def check_roots(roots: Iterable[str]) -> None:
    """Check that local roots exist.

    Raises
    ------
    ParquetBloomError
        A root does not exist.
    """
    for root in roots:
        local = _local_path(root)
        if local is not None and not os.path.isdir(local):
            raise ParquetBloomError("there is no such folder to append files from", path=root)


def outside(path: str) -> ApiError:
    """Return the answer to a path that leads elsewhere, whether there is anything or not."""
    return ApiError(403, f"files: {path[:200]!r} is outside of the lake's folders and of the allowed roots")


def _local_path(root: str) -> str | None:
    return None if is_url(root) else _FILE_URL.sub("", root)
