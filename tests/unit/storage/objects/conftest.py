"""A boto3 client of the S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def client(s3: Any) -> Iterator[Any]:
    client = s3.client()
    yield client
    client.close()
