"""uvicorn's HTTP protocol with limits: idle connections, and those that do not speak HTTP, are closed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .error_responses import encode_json, shorten
from .service_settings import Settings

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

        def connection_made(self, transport: Any) -> None:
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
