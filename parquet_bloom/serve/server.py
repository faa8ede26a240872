"""Run the service: listen, report when it is ready, and stop on a signal."""

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

import uvicorn
from fastapi import FastAPI
from starlette.routing import Route

from ..errors import StorageError
from .app import HEALTH, METRICS, build_app
from .http_protocol import make_protocol
from .metrics import RequestMetrics
from .request_guards import HostGuard, TokenGuard
from .service import Service

_GRACE_SECONDS = 20
_KEEP_ALIVE_SECONDS = 30
_BACKLOG = 512


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
    """Return the URL of a listening socket."""
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
