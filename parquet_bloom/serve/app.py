"""The HTTP application: routes, checks of requests before they are handled, and error handlers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from .error_responses import ApiError, describe_validation_errors, error_response, json_response
from .metrics import CONTENT_TYPE
from .request_body import read_body
from .request_guards import AUTHORIZED
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
            return await handler(_ServedRequest(request.scope, request.receive))

        return handle


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
