"""DuckDB's readers of Delta and Iceberg tables: extensions for an older DuckDB, which has an environment of its own.

python -m venv .cache/duckdb
.cache/duckdb/bin/pip install duckdb==1.5.5 duckdb-extension-{avro,delta,iceberg}==1.5.5
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

PYTHON = Path(__file__).resolve().parents[3] / ".cache" / "duckdb" / "bin" / "python"

_PROGRAM = """
import glob, importlib, json, os, sys
import duckdb
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for extension in ("avro", "iceberg", "delta"):
    folder = os.path.dirname(importlib.import_module(f"duckdb_extension_{extension}").__file__)
    connection.execute(f"LOAD '{glob.glob(folder + '/**/*.duckdb_extension', recursive=True)[0]}'")
print(json.dumps([connection.execute(query).fetchall() for query in sys.argv[1:]]))
"""


def ask(*queries: str) -> list[list[Any]]:
    """Return the rows of each query, by one DuckDB; skip the test where it is not installed."""
    if not PYTHON.exists():
        pytest.skip(f"no DuckDB with extensions in {PYTHON.parents[1]}; {__name__} says how to install it")
    done = subprocess.run([str(PYTHON), "-c", _PROGRAM, *queries], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found: list[list[Any]] = json.loads(done.stdout)
    return found
