"""Middleware that counts requests, whichever part of the service answers them."""

from __future__ import annotations

import time
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .metrics import Metrics

_METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH")
_OTHER = "other"  # clients choose methods and paths, and each label value takes memory


class RequestMetrics:
    """Wraps an application, and counts its requests, their bytes and their time.

    Parameters
    ----------
    app : the application.
    metrics : where to count.
    paths : paths that are counted by name.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Collection[str]):
        self._app = app
        self._metrics = metrics
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self._paths else _OTHER
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        start = time.perf_counter()
        status = received = sent = 0

        async def counting_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message

        async def counting_send(message: Message) -> None:
            nonlocal status, sent
            status = message.get("status", status)
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, counting_receive, counting_send)
        finally:
            metrics = self._metrics
            metrics.requests.add(1, method, path, str(status or 500))
            metrics.seconds.observe(time.perf_counter() - start, path)
            metrics.received.add(received, path)
            metrics.sent.add(sent, path)
