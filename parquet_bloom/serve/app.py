"""The service's addresses, and what is refused before they are reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Route

from .errors import ApiError, describe_validation_errors, error_response, json_response
from .limits.request_body import read_body
from .models import (
    AppendAnswer,
    AppendRequest,
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
from .service import Service, version

_WHY = {
    400: "No JSON, or no HTTP.",
    403: "Read-only; or a file is where none may be; or a browser asks for another site.",
    404: "The index has no such column or file, or the file does not exist.",
    408: "The request came too slowly.",
    409: "Another writer is at work on the index.",
    413: "The body is too long.",
    415: "The body is not application/json.",
    421: "The service answers to other names.",
    422: "The request cannot be understood, or asks for too much; or a file is no Parquet file.",
    429: "Too much is waiting.",
    500: "The index or the lake cannot be read.",
    503: "It took too long, or the service is stopping.",
}


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Problem, "description": _WHY[status]} for status in statuses}


_ALWAYS = (421, 429, 500, 503)
_WITH_BODY = (*_ALWAYS, 400, 403, 408, 413, 415, 422)


class _Request(Request):
    """A request whose body is read by our rules."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            service: Service = self.app.state.service
            self._body = await read_body(self, service.settings, service.budget)
        return self._body

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = await self.app.state.service.parse(await self.body())
        return self._json


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Any]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_Request(request.scope, request.receive))

        return handle


def build_app(service: Service) -> FastAPI:
    """The application, of one service."""
    app = FastAPI(
        title="parquet-bloom index",
        summary="From a value to the files of a lake that may hold it.",
        version=version(),
        redirect_slashes=False,
        redoc_url=None,
        exception_handlers={
            HTTPException: _on_refusal,
            RequestValidationError: _on_validation,
            Exception: _on_bug,
        },
    )
    app.state.service = service
    app.router.route_class = _Route
    _add_lookups(app, service)
    _add_changes(app, service)
    _describe_bounds(app, service)
    return app


def _add_lookups(app: FastAPI, service: Service) -> None:
    @app.post("/lookup", response_model=LookupAnswer, responses=_refusals(*_WITH_BODY, 404))
    async def lookup(asked: LookupRequest) -> Response:
        """Name the files that may hold each of some values."""
        return json_response(await service.lookup(asked.column, asked.values, asked.timezone))

    @app.get("/lookup", response_model=LookupAnswer, responses=_refusals(*_ALWAYS, 400, 404, 422))
    async def lookup_one(request: Request, asked: Annotated[LookupQuery, Query()]) -> Response:
        """Name the files that may hold one value."""
        _check_query(request)
        return json_response(await service.lookup_text(asked.column, asked.value, asked.type, asked.timezone))

    @app.get("/stats", response_model=StatsAnswer, responses=_refusals(*_ALWAYS))
    async def stats() -> Response:
        """Say how large the index is, and how good."""
        return json_response(await service.stats())

    @app.get("/health", response_model=HealthAnswer, responses=_refusals(421))
    async def health() -> Response:
        """Say how the service is, however much it has to do."""
        return json_response(service.health())


def _add_changes(app: FastAPI, service: Service) -> None:
    changing = _refusals(*_WITH_BODY, 404, 409)

    @app.post("/append", response_model=AppendAnswer, responses=changing)
    async def append(asked: AppendRequest) -> Response:
        """Index files. It is answered when that is done; lookups go on meanwhile."""
        return json_response(await service.append(asked.files, asked.skip_unreadable))

    @app.post("/remove", response_model=RemoveAnswer, responses=changing)
    async def remove(asked: RemoveRequest) -> Response:
        """Take files out of the index; those that are still in the lake are named for every value from then on."""
        return json_response(await service.remove(asked.files))

    @app.post("/refresh", response_model=RefreshAnswer, responses=_refusals(*_ALWAYS, 403, 404, 409, 422))
    async def refresh() -> Response:
        """See the index and the lake as they are now: what others have appended, which files came and went."""
        return json_response(await service.refresh())


def _describe_bounds(app: FastAPI, service: Service) -> None:
    """Let the OpenAPI document tell how long lists may be."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schemas = made()["components"]["schemas"]
            schemas["LookupRequest"]["properties"]["values"]["maxItems"] = service.settings.max_values
            schemas["RemoveRequest"]["properties"]["files"]["maxItems"] = service.settings.max_values
            schemas["AppendRequest"]["properties"]["files"]["anyOf"][0]["maxItems"] = service.settings.max_values
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _check_query(request: Request) -> None:
    """Refuse what would be understood as something else than was sent."""
    query = request.scope["query_string"].replace(b"+", b" ")
    try:
        unquote_to_bytes(query).decode("utf-8")
    except UnicodeDecodeError:
        raise ApiError(400, "the query is not UTF-8") from None
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):
        raise ApiError(422, "the query has a parameter twice; several values take POST /lookup")


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = error.detail
    if error.status_code == 404 and not isinstance(error, ApiError):
        text = f"there is nothing at {request.scope['path']}; /docs tells what there is"
    elif error.status_code == 405:
        path = request.scope["path"]
        found = [route.methods or () for route in request.app.routes if isinstance(route, Route) and route.path == path]
        methods = ", ".join(sorted({method for some in found for method in some}))
        return error_response(405, f"{request.method} is not for {path}, but {methods}", {"allow": methods})
    return error_response(error.status_code, text, error.headers)


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_response(422, describe_validation_errors(error.errors()))


async def _on_bug(request: Request, error: Exception) -> Response:
    return error_response(500, f"a bug, please report it: {type(error).__name__}")
