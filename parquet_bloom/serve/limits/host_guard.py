"""What stands before the application: who is answered at all, and that nothing but an answer comes out."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import error_response


class HostGuard:
    """An application with a guard before it.

    A service on the loopback interface is still within reach of every web page that a user of the machine looks at. So
    requests that a page of another site sends are refused, and so are names that only lead here (DNS rebinding).

    Parameters
    ----------
    app : the application.
    host : the address that the service listens at.
    report : takes exceptions that came out of the application.
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
        refusal = self._refusal(scope)
        if refusal is not None:
            await error_response(*refusal, {"connection": "close"})(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            self._report(error)
            if not begun:
                await error_response(500, f"a bug, please report it: {type(error).__name__}")(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, Any] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if self._only_local and host and not self._own(_name_of(host)):
            return 421, f"the service answers to localhost, and not to {host[:100]}"
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2].lower() != host.lower():
            return 403, "requests of other sites' pages are not answered"
        return None

    def _own(self, name: str) -> bool:
        return name == self._host or is_loopback(name)


def is_loopback(host: str) -> bool:
    """Whether a name or address is of this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """The name in a Host header, without the port and the brackets of IPv6."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
