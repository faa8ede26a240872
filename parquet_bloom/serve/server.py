"""The service as a process: it listens, says so, and stops when it is asked to."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from ..errors import StorageError
from .app import build_app
from .limits.host_guard import HostGuard
from .limits.http_protocol import make_protocol
from .service import Service

_GRACE_SECONDS = 20
_KEEP_ALIVE_SECONDS = 30
_BACKLOG = 512


class _Server(uvicorn.Server):
    """A server that says when it is ready, and for which a signal is a wish, not a death."""

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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # who asks twice is not made to wait
        self.should_exit = True
        self._service.stop()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes one that is free.

    Raises
    ------
    StorageError
        It cannot: the port is taken, or the address is not of this machine.
    """
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) else errno.EINVAL
        reason = getattr(error, "strerror", None) or (os.strerror(number) if number else str(error))
        raise StorageError(f"cannot listen at {host} port {port}: {reason}", errno=number) from error


def format_url(listening: socket.socket) -> str:
    """Where a socket listens, as clients write it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(
    service: Service,
    listening: socket.socket,
    host: str,
    ready: Callable[[str], None],
    report: Callable[[Exception], None],
) -> None:
    """Serve until SIGTERM or SIGINT: then what has begun is answered, and an append ends at its next file, undone.

    Parameters
    ----------
    host : that it listens at, as it was given.
    ready : called with the service's URL when it answers.
    report : takes exceptions that should not have been.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # what clients send is no news
    config = uvicorn.Config(
        HostGuard(build_app(service), host, report),
        http=make_protocol(service.settings),
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
