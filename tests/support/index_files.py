"""Changed files of a lake index, under checksums that fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from parquet_bloom.core.hash.xxh64 import hash_one


def read_manifest(index: Path) -> tuple[Path, Any]:
    """Return the newest manifest of an index, and what it says."""
    path = max(index.glob("manifest-*"))
    return path, json.loads(path.read_bytes()[:-18])


def seal_manifest(path: Path, document: Any) -> None:
    """Write a manifest: a document, or its bytes."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode("utf-8", "surrogatepass")
    path.write_bytes(body + f"\n{hash_one(body):016x}\n".encode())


def change_file_tables(index: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the tables of files of an index."""
    for path in index.glob("*.files"):
        with pa.ipc.open_file(pa.BufferReader(path.read_bytes()[:-8])) as reader:
            table = change(reader.read_all())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        body = sink.getvalue().to_pybytes()
        path.write_bytes(body + hash_one(body).to_bytes(8, "little"))
