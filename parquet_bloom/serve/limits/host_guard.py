"""Middleware that rejects requests of other sites and other host names, and turns exceptions into responses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import error_response

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
        except Exception as error:
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
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _strip_port(host: str) -> str:
    """Return the name of a Host header, without port and brackets of IPv6; all of it if it has another form."""
    match = _HOST.fullmatch(host)
    return (match[1] or match[2] if match else host).lower()
