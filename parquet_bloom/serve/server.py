"""Run the service: listen, speak HTTP within limits, report when it is ready, and stop on a signal."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import h11
import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import StorageError
from .error_responses import ApiError, describe_validation_errors, encode_json, error_response, json_response, shorten
from .metrics import CONTENT_TYPE, RequestMetrics
from .request_body import read_body
from .request_guards import AUTHORIZED, HostGuard, TokenGuard
from .request_models import (
    AppendAnswer,
    AppendRequest,
    GetAnswer,
    GetRequest,
    HealthAnswer,
    LookupAnswer,
    LookupQuery,
    LookupRequest,
    Problem,
    RefreshAnswer,
    RemoveAnswer,
    RemoveRequest,
    StatsAnswer,
)
from .served_rows import ARROW_STREAM, GetQuery, accepts_arrow
from .service import Service, version
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


HEALTH, METRICS = "/health", "/metrics"
"""Paths that may be answered without a token."""

_DESCRIPTIONS = {
    400: "The request is not valid JSON or not valid HTTP.",
    401: "The service requires a token, and the request has none that is valid.",
    403: "The service is read-only, or gives no rows; a file is outside of the folders; or another site's page asks.",
    404: "The index has no such column or file, or the file does not exist.",
    408: "The request was sent too slowly.",
    409: "Another writer is changing the index.",
    413: "The body is too long.",
    415: "The body is not application/json.",
    421: "The host name is not one of the service's.",
    422: "The request is invalid, or asks for too much; or a file is not a Parquet file.",
    429: "Too many requests are waiting.",
    500: "The index or the lake cannot be read.",
    503: "The request took too long, or the service is stopping.",
}


Responses = dict[int | str, dict[str, Any]]
"""Answers of a route by their statuses, as FastAPI takes them."""


def _describe_errors(*statuses: int) -> Responses:
    return {status: {"model": Problem, "description": _DESCRIPTIONS[status]} for status in statuses}


OpenApi = dict[str, Any]
"""The document that describes the service, in JSON's types."""

_ALWAYS = (421, 429, 500, 503)
_WITH_BODY = (*_ALWAYS, 400, 403, 408, 413, 415, 422)


class _ServedRequest(Request):
    """A request whose body is read within the service's limits."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            service: Service = self.app.state.service
            self._body = await read_body(self, service.settings, service.budget)
        return self._body

    async def json(self) -> dict[str, object]:
        if not hasattr(self, "_json"):
            self._json = await self.app.state.service.parse(await self.body())
        return self._json


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_ServedRequest(_as_json(request.scope), request.receive))

        return handle


def _as_json(scope: Scope) -> Scope:
    """Return a request's scope that says that its body is JSON, where it does not say what it is.

    Releases of FastAPI differ in what they take such a body for. Pages of other sites, which can send one without
    being asked, are refused by their Origin before.
    """
    if any(name == b"content-type" for name, _ in scope["headers"]):
        return scope
    return {**scope, "headers": [*scope["headers"], (b"content-type", b"application/json")]}


def build_app(service: Service) -> FastAPI:
    app = FastAPI(
        title="parquet-bloom index",
        summary="Look up the files of a lake that may hold a value.",
        version=version(),
        redirect_slashes=False,
        redoc_url=None,
        exception_handlers={
            HTTPException: _on_http_error,
            RequestValidationError: _on_validation,
            Exception: _on_bug,
        },
    )
    app.state.service = service
    app.router.route_class = _Route
    _add_lookups(app, service)
    _add_changes(app, service)
    _add_monitoring(app, service)
    _complete_openapi(app, service)
    return app


def _add_lookups(app: FastAPI, service: Service) -> None:
    @app.post("/lookup", response_model=LookupAnswer, responses=_describe_errors(*_WITH_BODY, 404))
    async def lookup(body: LookupRequest) -> Response:
        """List the files that may hold each of several values."""
        return json_response(await service.lookup(body.column, body.values, body.timezone))

    @app.get("/lookup", response_model=LookupAnswer, responses=_describe_errors(*_ALWAYS, 400, 404, 422))
    async def lookup_one(request: Request, query: Annotated[LookupQuery, Query()]) -> Response:
        """List the files that may hold one value."""
        _check_query(request)
        return json_response(await service.lookup_text(query.column, query.value, query.type, query.timezone))

    described = _describe_errors(*_WITH_BODY, 404)
    described[200] = {"content": {ARROW_STREAM: {"schema": {"type": "string", "format": "binary"}}}}

    @app.post("/get", response_model=GetAnswer, responses=described)
    async def get(request: Request, body: GetRequest) -> Response:
        """Get the rows of keys; as an Arrow stream if the request accepts it by name."""
        as_arrow = accepts_arrow(request.headers.getlist("accept"))
        columns = [body.column] if isinstance(body.column, str) else body.column
        answer = await service.get(GetQuery(columns, body.keys, body.columns, body.timezone, as_arrow))
        return Response(answer, media_type=ARROW_STREAM) if as_arrow else json_response(answer)

    @app.get("/stats", response_model=StatsAnswer, responses=_describe_errors(*_ALWAYS))
    async def stats() -> Response:
        """Return the size and precision of the index."""
        return json_response(await service.stats())


def _add_monitoring(app: FastAPI, service: Service) -> None:
    @app.get(HEALTH, response_model=HealthAnswer, responses=_describe_errors(421))
    async def health(request: Request) -> Response:
        """Return the state of the service, even under load; its `status` alone to requests that lack a token."""
        return json_response(service.health() if request.scope.get(AUTHORIZED, True) else service.status())

    @app.get(METRICS, response_class=PlainTextResponse, responses=_describe_errors(421))
    async def metrics() -> Response:
        """Return counts for Prometheus in its text format, even under load."""
        return Response(service.encode_metrics(), headers={"content-type": CONTENT_TYPE})


def _add_changes(app: FastAPI, service: Service) -> None:
    changing = _describe_errors(*_WITH_BODY, 404, 409)

    @app.post("/append", response_model=AppendAnswer, responses=changing)
    async def append(body: AppendRequest) -> Response:
        """Index files. Answered when that is done; lookups continue meanwhile."""
        return json_response(await service.append(body.files, body.skip_unreadable))

    @app.post("/remove", response_model=RemoveAnswer, responses=changing)
    async def remove(body: RemoveRequest) -> Response:
        """Remove files from the index; lookups then list those that are still in the lake for every value."""
        return json_response(await service.remove(body.files))

    @app.post("/refresh", response_model=RefreshAnswer, responses=_describe_errors(*_ALWAYS, 403, 404, 409, 422))
    async def refresh() -> Response:
        """Reload the index, and check the lake for new, changed and deleted files."""
        return json_response(await service.refresh())


def _complete_openapi(app: FastAPI, service: Service) -> None:
    """Add the maximum lengths of lists to the OpenAPI document, and that a token is required."""
    make_openapi = app.openapi

    def openapi() -> OpenApi:
        if app.openapi_schema is None:
            document = make_openapi()
            schemas = document["components"]["schemas"]
            schemas["LookupRequest"]["properties"]["values"]["maxItems"] = service.settings.max_values
            schemas["GetRequest"]["properties"]["keys"]["maxItems"] = service.settings.max_values
            schemas["GetRequest"]["properties"]["columns"]["anyOf"][0]["maxItems"] = service.settings.max_values
            schemas["RemoveRequest"]["properties"]["files"]["maxItems"] = service.settings.max_values
            files = schemas["AppendRequest"]["properties"]["files"]
            files["anyOf"][0]["maxItems"] = service.settings.max_values
            if not service.index.state.manifest.lake:  # then there is no default
                schemas["AppendRequest"]["required"] = ["files"]
                del files["anyOf"][1:]
                files.pop("default", None)
            for status, response in document["paths"][METRICS]["get"]["responses"].items():
                if status != "200":  # errors are JSON, though the answer is text
                    response["content"] = {"application/json": response["content"].popitem()[1]}
            if service.settings.tokens is not None:
                _require_token(document, service.settings.open_metrics)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _require_token(document: OpenApi, open_metrics: bool) -> None:
    problem = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path == HEALTH:
                operation["security"] = [{}, {"token": []}]  # the answer says more to those who have one
            elif path != METRICS or not open_metrics:
                operation["security"] = [{"token": []}]
                operation["responses"]["401"] = {"description": _DESCRIPTIONS[401]} | problem


def _check_query(request: Request) -> None:
    """Reject queries that could be misunderstood: invalid UTF-8, or a repeated parameter."""
    query = request.scope["query_string"].replace(b"+", b" ")
    try:
        unquote_to_bytes(query).decode("utf-8")
    except UnicodeDecodeError:
        raise ApiError(400, "the query is not UTF-8") from None
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):
        raise ApiError(422, "the query has a parameter twice; use POST /lookup for several values")


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = error.detail
    if error.status_code == 404 and not isinstance(error, ApiError):
        text = f"there is nothing at {request.scope['path']}; see /docs"
    elif error.status_code == 405:
        path = request.scope["path"]
        routes = [route for route in request.app.routes if isinstance(route, Route) and route.path == path]
        methods = ", ".join(sorted({method for route in routes for method in route.methods or ()}))
        return error_response(405, f"{path} does not support {request.method}, but {methods}", {"allow": methods})
    return error_response(error.status_code, text, error.headers)


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_response(422, describe_validation_errors(error.errors()))


async def _on_bug(request: Request, error: Exception) -> Response:
    return error_response(500, f"a bug, please report it: {type(error).__name__}")
