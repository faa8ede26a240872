"""Bodies of requests: read within bounds, and understood strictly."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any, NoReturn

from starlette.requests import Request

from ..errors import ApiError
from ..settings import Settings
from ..values import MOST_DIGITS

_MOST_KEYS = 16
_MOST_NUMBER = 4 * MOST_DIGITS  # characters
_BODIES_AT_A_TIME = 8
_DRAIN_SECONDS = 2.0
_JSON = re.compile(r"application/json\s*(;\s*charset\s*=\s*\"?utf-8\"?\s*)?", re.IGNORECASE)


class Budget:
    """Bytes of all bodies that are held at once."""

    def __init__(self, settings: Settings):
        self.left = _BODIES_AT_A_TIME * settings.max_body

    def take(self, count: int) -> None:
        if count > self.left:
            raise ApiError(429, "too many large requests at once", close=True, headers={"retry-after": "1"})
        self.left -= count


async def read_body(request: Request, settings: Settings, budget: Budget) -> bytes:
    """The body, of whatever length it says to have.

    Raises
    ------
    Refused
        It is too long, comes too slowly, or is not of the type that is understood.
    """
    kind = request.headers.get("content-type")
    encoding = request.headers.get("content-encoding", "identity")
    if (kind is not None and not _JSON.fullmatch(kind.strip())) or encoding.lower() != "identity":
        what = kind if encoding.lower() == "identity" else f"one that is encoded ({encoding})"
        raise ApiError(415, f"the body is application/json in UTF-8, not {what}", close=True)
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
        budget.left += taken
    if body and kind is None:
        raise ApiError(415, "the body is application/json: say so in Content-Type")
    return bytes(body)


def _too_long(settings: Settings) -> ApiError:
    return ApiError(413, f"the body is longer than {settings.max_body:,} bytes", close=True)


async def _drain(request: Request, settings: Settings) -> None:
    """Take a little more, and drop it: a client that is still sending would not get to read the answer."""
    left = _BODIES_AT_A_TIME * settings.max_body
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while left > 0:
                message = await request.receive()
                if message["type"] != "http.request" or not message.get("more_body"):
                    return
                left -= len(message.get("body", b""))
    except TimeoutError:
        pass


def parse_body(data: bytes, most: int) -> Any:
    """What a body says.

    Parameters
    ----------
    most : items that a list may have.

    Raises
    ------
    Refused
        It is not JSON, or such as no request is: so nothing large is left of it.
    """
    try:
        found = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise ApiError(400, "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ApiError(400, f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    if not isinstance(found, dict):
        raise ApiError(422, "the body is a JSON object")
    if len(found) > _MOST_KEYS:
        raise ApiError(422, "the body has too many fields")
    for name, value in found.items():
        if isinstance(value, list) and len(value) > most:
            raise ApiError(422, f"{name[:50]}: {len(value):,} are too many; {most:,} are most")
        for at, item in enumerate(value if isinstance(value, list) else [value]):
            inner = list(item.values()) if isinstance(item, dict) else ()
            if isinstance(item, list) or len(inner) > _MOST_KEYS or any(isinstance(one, (list, dict)) for one in inner):
                where = f"{name[:50]}[{at}]" if isinstance(value, list) else name[:50]
                raise ApiError(422, f"{where}: lists and objects do not belong there")
    return found


def _int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ApiError(422, f"a number has more than {MOST_DIGITS} digits")
    return int(text)


def _float(text: str) -> float:
    if len(text) > _MOST_NUMBER:
        raise ApiError(422, f"a number has more than {_MOST_NUMBER} characters")
    found = float(text)
    if not math.isfinite(found):
        raise ApiError(422, f"{text[:40]} is beyond the range of doubles; write it as a decimal")
    return found


def _constant(name: str) -> NoReturn:
    raise ApiError(400, f"the body is not JSON: {name} is no number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ApiError(400, "the body has an object with the same field twice")
    return found


_DECODER = json.JSONDecoder(parse_int=_int, parse_float=_float, parse_constant=_constant, object_pairs_hook=_object)
