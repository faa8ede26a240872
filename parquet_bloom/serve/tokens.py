"""Bearer tokens that clients of the service must send: where they come from, and how they are compared."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping

from ..errors import ParquetBloomError
from ..redaction import remember
from ..storage import open_source

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
        equal = [hmac.compare_digest(digest, one) for one in self._digests]
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
