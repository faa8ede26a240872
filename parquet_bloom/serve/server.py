"""Run the service: listen, speak HTTP within limits, report when it is ready, and stop on a signal."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import h11
import uvicorn
from fastapi import FastAPI
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import StorageError
from .app import HEALTH, METRICS, build_app
from .error_responses import encode_json, shorten
from .metrics import RequestMetrics
from .request_guards import HostGuard, TokenGuard
from .service import Service
from .service_settings import Settings

_GRACE_SECONDS = 20
_KEEP_ALIVE_SECONDS = 30
_BACKLOG = 512


_MIN_TAKEN = 1 << 16  # bytes of a response that a client must read within `answer_seconds`
_REASONS = {400: "Bad Request", 408: "Request Timeout", 429: "Too Many Requests"}


def make_protocol(settings: Settings, on_refusal: Callable[[int], None]) -> type[asyncio.Protocol]:
    """Make a protocol class with the limits of `settings`.

    Parameters
    ----------
    on_refusal : called with the status of the answer to what is not a valid request.
    """

    class Bounded(H11Protocol):
        _head: asyncio.TimerHandle | None = None
        _taking: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            # A response is written in two pieces; Nagle's algorithm would delay the second until the first is acked.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if len(self.connections) > settings.max_connections:
                self._refuse(429, "too many connections are open")
            else:
                self._await_head(settings.head_seconds)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE:
                # The response was sent before the end of the request, and nothing else limits the rest of it.
                self._await_head(settings.body_seconds)
            elif self.conn.their_state is not h11.IDLE:
                self._cancel_head_timer()
            elif self.timeout_keep_alive_task is None:
                self._await_head(settings.head_seconds)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._await_taking()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._await_taking()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_head_timer()
            if self._taking is not None:
                self._taking.cancel()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, msg)

        def _await_head(self, seconds: float) -> None:
            if self._head is None:
                self._head = self.loop.call_later(seconds, self._late)

        def _cancel_head_timer(self) -> None:
            if self._head is not None:
                self._head.cancel()
                self._head = None

        def _await_taking(self) -> None:
            """Limit the time in which the client reads its response, as closing waits until all is sent."""
            remaining = self.transport.get_write_buffer_size()
            if remaining and self._taking is None:
                self._taking = self.loop.call_later(settings.answer_seconds, self._check_taken, remaining)

        def _check_taken(self, before: int) -> None:
            self._taking = None
            if self.transport.get_write_buffer_size() > before - _MIN_TAKEN:
                self.transport.abort()
            else:
                self._await_taking()

        def _late(self) -> None:
            self._head = None
            self._refuse(408, f"the request took longer than {settings.head_seconds:g} seconds")

        def _refuse(self, status: int, text: str) -> None:
            """Answer an invalid request with an error, unless a response has been started, and close."""
            self._cancel_head_timer()
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self.transport.is_closing():
                on_refusal(status)
                body = encode_json({"error": shorten(text)})
                head = (
                    f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
                )
                self.transport.write(head.encode() + body)
            self.transport.close()

    return Bounded


class _Server(uvicorn.Server):
    """A server that reports when it is ready, and shuts down gracefully on a signal."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]):
        super().__init__(config)
        self._service = service
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._refreshing = asyncio.create_task(self._service.keep_fresh())
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._refreshing.cancel()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving, and ignore them after: uvicorn would let a second one kill the process."""
        numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        for number in numbers:
            signal.signal(number, self.handle_exit)
        try:
            yield
        finally:
            for number in numbers:
                signal.signal(number, signal.SIG_IGN)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # a second signal exits without waiting
        self.should_exit = True
        self._service.stop()


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes a free one.

    Raises
    ------
    StorageError
        The port is in use, or the address is not one of this machine.
    """
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) else errno.EINVAL
        reason = getattr(error, "strerror", None) or (os.strerror(number) if number else str(error))
        raise StorageError(f"cannot listen on {host} port {port}: {reason}", errno=number) from error


def format_url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _wrap(app: FastAPI, service: Service, host: str, report: Callable[[Exception], None]) -> RequestMetrics:
    """Add the checks that come before the application, and the metrics, which count what those refuse as well."""
    open_paths = [HEALTH, METRICS] if service.settings.open_metrics else [HEALTH]
    guarded = TokenGuard(app, service.settings.tokens, open_paths)
    paths = [route.path for route in app.routes if isinstance(route, Route)]
    return RequestMetrics(HostGuard(guarded, host, report), service.metrics, paths)


def run(
    service: Service,
    listening: socket.socket,
    host: str,
    ready: Callable[[str], None],
    report: Callable[[Exception], None],
) -> None:
    """Serve until SIGTERM or SIGINT; then complete running requests, and stop appends at their next file, undone.

    Parameters
    ----------
    service : the service.
    listening : the listening socket.
    host : the host name as given by the user.
    ready : called with the service's URL once it answers requests.
    report : called with unexpected exceptions.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # invalid requests are not worth a warning
    config = uvicorn.Config(
        _wrap(build_app(service), service, host, report),
        http=make_protocol(service.settings, service.count_refusal),
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    url = format_url(listening)
    with listening:
        asyncio.run(_Server(config, service, lambda: ready(url)).serve([listening]))
