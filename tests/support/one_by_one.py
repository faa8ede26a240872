"""Read the files of a lake one by one, as objects are read: another way to the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pytest

import parquet_bloom
from parquet_bloom.scan.read_tasks import TaskPlanner
from parquet_bloom.scan.scan_options import LIMITS


def read_one_by_one(lake: Path, where: Any, columns: list[str] | None = None, **options: Any) -> pa.Table:
    """Read rows of a local lake through a file system that is not known to be local."""
    files = fs.SubTreeFileSystem(str(lake.parent), fs.LocalFileSystem())
    return parquet_bloom.dataset(lake.name, filesystem=files, **options).scan(where, columns).to_arrow()


def read_local_files_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Let local files be read as objects are: each by itself, and their pages not searched."""
    patch.setattr(TaskPlanner, "_find_alike", lambda *_: None)
    patch.setitem(vars(LIMITS), "tries", 0)
