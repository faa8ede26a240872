"""Read the bodies of requests within limits, and parse them strictly."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any, NoReturn

from starlette.requests import Request

from ..errors import ApiError
from ..settings import Settings
from ..values import MAX_DIGITS

MAX_KEY_COLUMNS = 16
"""Columns of a key."""

_MAX_KEYS = MAX_KEY_COLUMNS
_KEYS = "keys"  # the field whose items may be lists
_MAX_NUMBER_LENGTH = 4 * MAX_DIGITS  # characters
_BODIES_AT_A_TIME = 8
_DRAIN_SECONDS = 2.0
_JSON = re.compile(r"application/json\s*(;\s*charset\s*=\s*\"?utf-8\"?\s*)?", re.IGNORECASE)


class Budget:
    """The number of bytes that bodies in memory may take together."""

    def __init__(self, settings: Settings):
        self.remaining = _BODIES_AT_A_TIME * settings.max_body

    def take(self, count: int) -> None:
        if count > self.remaining:
            raise ApiError(429, "too many large requests at once", close=True, headers={"retry-after": "1"})
        self.remaining -= count


async def read_body(request: Request, settings: Settings, budget: Budget) -> bytes:
    """Read the body of a request.

    Raises
    ------
    ApiError
        The body is too long, is sent too slowly, or is not JSON by its headers.
    """
    kind = request.headers.get("content-type")
    encoding = request.headers.get("content-encoding", "identity")
    if (kind is not None and not _JSON.fullmatch(kind.strip())) or encoding.lower() != "identity":
        what = kind if encoding.lower() == "identity" else f"encoded ({encoding})"
        raise ApiError(415, f"the body must be application/json in UTF-8, not {what}", close=True)
    stated = request.headers.get("content-length", "0")
    body = bytearray()
    taken = 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            if not stated.isdecimal() or int(stated[:20]) > settings.max_body:
                await _drain(request, settings)
                raise _too_long(settings)
            async for chunk in request.stream():
                if len(body) + len(chunk) > settings.max_body:
                    body.clear()
                    await _drain(request, settings)
                    raise _too_long(settings)
                budget.take(len(chunk))
                taken += len(chunk)
                body += chunk
    except TimeoutError:
        text = f"the body took longer than {settings.body_seconds:g} seconds"
        raise ApiError(408, text, close=True) from None
    finally:
        budget.remaining += taken
    if body and kind is None:
        raise ApiError(415, "the body must be application/json, declared in Content-Type")
    return bytes(body)


def _too_long(settings: Settings) -> ApiError:
    return ApiError(413, f"the body is longer than {settings.max_body:,} bytes", close=True)


async def _drain(request: Request, settings: Settings) -> None:
    """Read and drop a limited part of the rest, as a client that is still sending could not read the response."""
    remaining = _BODIES_AT_A_TIME * settings.max_body
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while remaining > 0:
                message = await request.receive()
                if message["type"] != "http.request" or not message.get("more_body"):
                    return
                remaining -= len(message.get("body", b""))
    except TimeoutError:
        pass


def parse_body(data: bytes, max_items: int) -> Any:
    """Parse a body, and check limits that all requests have before anything large is made of it.

    Parameters
    ----------
    data : the body.
    max_items : maximum number of items of a list.

    Raises
    ------
    ApiError
        The body is not a JSON object, or exceeds a limit.
    """
    try:
        document = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise ApiError(400, "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ApiError(400, f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    if not isinstance(document, dict):
        raise ApiError(422, "the body must be a JSON object")
    if len(document) > _MAX_KEYS:
        raise ApiError(422, "the body has too many fields")
    for name, value in document.items():
        if isinstance(value, list) and len(value) > max_items:
            raise ApiError(422, f"{name[:50]}: {len(value):,} items are too many; the maximum is {max_items:,}")
        for i, item in enumerate(value if isinstance(value, list) else [value]):
            is_key = name == _KEYS and isinstance(value, list) and isinstance(item, list)  # of several columns
            if is_key and len(item) <= _MAX_KEYS and all(_is_value(one) for one in item):
                continue
            inner = list(item.values()) if isinstance(item, dict) else ()
            if isinstance(item, list) or len(inner) > _MAX_KEYS or any(isinstance(one, (list, dict)) for one in inner):
                where = f"{name[:50]}[{i}]" if isinstance(value, list) else name[:50]
                raise ApiError(422, f"{where}: lists and objects are not allowed here")
    return document


def _is_value(item: Any) -> bool:
    """Return whether an item is a plain value, or an object of plain values."""
    inner = item.values() if isinstance(item, dict) else [item]
    return len(inner) <= _MAX_KEYS and not any(isinstance(one, (list, dict)) for one in inner)


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ApiError(422, f"a number has more than {MAX_DIGITS} digits")
    return int(text)


def _float(text: str) -> float:
    if len(text) > _MAX_NUMBER_LENGTH:
        raise ApiError(422, f"a number has more than {_MAX_NUMBER_LENGTH} characters")
    number = float(text)
    if not math.isfinite(number):
        raise ApiError(422, f"{text[:40]} is out of the range of doubles; write it as a decimal")
    return number


def _constant(name: str) -> NoReturn:
    raise ApiError(400, f"the body is not JSON: {name} is not a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ApiError(400, "the body has an object with the same field twice")
    return result


_DECODER = json.JSONDecoder(parse_int=_int, parse_float=_float, parse_constant=_constant, object_pairs_hook=_object)
