"""Middleware that rejects requests without a valid token."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import error_response
from ..tokens import Tokens

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
