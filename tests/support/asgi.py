"""A client of an application that runs in this process."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

import httpx


class AppClient:
    """Sends requests to an ASGI application, one after the other."""

    def __init__(self, app: Any):
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._client.get(path, **options))

    def post(self, path: str, document: Any) -> httpx.Response:
        """Send a document as JSON, surrogates included."""
        headers = {"content-type": "application/json"}
        return self._runner.run(self._client.post(path, content=json.dumps(document), headers=headers))
