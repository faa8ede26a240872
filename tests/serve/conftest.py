"""A lake, an index over it, and the service as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom.lake.lake_index import LakeIndex

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

ROWS = 500


def write(path: Path, ids: list[int]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{value}" for value in ids]})
    pq.write_table(table, path, row_group_size=200)
    return str(path)


@dataclass
class Lake:
    """A folder of files, the truth about them, and an index."""

    folder: Path
    index: Path
    truth: dict[str, list[int]] = field(default_factory=dict)

    def add(self, number: int) -> str:
        """One more file: its ids are those from `number * ROWS` on."""
        ids = list(range(number * ROWS, (number + 1) * ROWS))
        path = write(self.folder / f"part-{number:03}.parquet", ids)
        self.truth[path] = ids
        return path

    def holder(self, value: int) -> tuple[str, int]:
        """The file and row group of an id."""
        path = str(self.folder / f"part-{value // ROWS:03}.parquet")
        return path, self.truth[path].index(value) // 200


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    created_lake = Lake(tmp_path / "lake ü", tmp_path / "index")
    for number in range(10):
        created_lake.add(number)
    options: dict[str, Any] = {"granularity": "row_group", "lake": str(created_lake.folder)}
    with LakeIndex.create(created_lake.index, ["id", "name"], **options) as index:
        index.append()
    return created_lake


class Process:
    """`parquet-bloom index serve`, running."""

    def __init__(self, index: Path, *arguments: str):
        command = [sys.executable, "-m", "parquet_bloom", "index", "serve", str(index), "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            _, errors = self.process.communicate(timeout=30)
            raise RuntimeError(errors)
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def get(self, path: str, **options: Any) -> Any:
        return self.client.get(path, **options)

    def post(self, path: str, document: Any = None, **options: Any) -> Any:
        return self.client.post(path, json=document, **options) if document is not None else self.client.post(path)

    def lookup(self, column: str, values: list[Any], **more: Any) -> list[list[tuple[str, Any]]]:
        """For each value (path, row groups) of the files named."""
        response = self.post("/lookup", {"column": column, "values": values} | more)
        assert response.status_code == 200, response.text
        results = response.json()["results"]
        return [[(one["path"], one["row_groups"]) for one in result["candidates"]] for result in results]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and what was said on stderr."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            _, errors = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, errors


@pytest.fixture
def serve() -> Iterator[Callable[..., Process]]:
    """Start the service: ``serve(index, "--read-only")``. However the test ends, so do the processes."""
    started: list[Process] = []

    def start(index: Path, *arguments: str) -> Process:
        started.append(Process(index, *arguments))
        return started[-1]

    yield start
    for process in started:
        code, errors = process.stop()
        assert "Traceback" not in errors
        assert code in (0, -signal.SIGKILL)
