"""A catalog of pyiceberg's in a file, and a table in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest


def rows(first: int, count: int = 3) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    pytest.importorskip("sqlalchemy")
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    (tmp_path / "wh").mkdir()
    created = sql.SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    created.create_namespace("n")
    yield created
    created.close()


@pytest.fixture
def table(catalog: Any) -> Any:
    """A table of three and three rows; its latest metadata file has number 2."""
    made = catalog.create_table("n.t", rows(0).schema, properties={"commit.retry.num-retries": "0"})
    made.append(rows(0))
    time.sleep(0.003)  # snapshots of different milliseconds
    made.append(rows(3))
    return made
