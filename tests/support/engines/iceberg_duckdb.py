"""Rows of Iceberg and Delta tables by DuckDB's extensions, which pip installs only for some versions of DuckDB.

`PARQUET_BLOOM_DUCKDB` is the Python of an environment with `duckdb`, `duckdb-extension-iceberg`,
`duckdb-extension-avro` and `duckdb-extension-delta` of one version, such as 1.5.5. Without it the DuckDB of the tests
is asked, if it can.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache

from support.processes.line_process import LineProcess

PROGRAM = """
import importlib.util, json, os, sys
import duckdb
connection = duckdb.connect()
try:
    for name in ("avro", "iceberg", "delta"):
        found = importlib.util.find_spec(f"duckdb_extension_{name}")
        path = found and [
            os.path.join(folder, each) for folder, _, files in os.walk(os.path.dirname(found.origin)) for each in files
            if each.endswith(".duckdb_extension")
        ][0]
        connection.execute(f"LOAD '{path or name}'")
except duckdb.Error:
    sys.exit()
print("ready", flush=True)
for line in sys.stdin:
    scan, place, column, condition = json.loads(line)
    try:
        rows = connection.execute(f"SELECT {column} FROM {scan}('{place}') WHERE {condition}").fetchall()
        print(json.dumps(sorted(value for (value,) in rows)), flush=True)
    except Exception as error:
        print(json.dumps(str(error)), flush=True)
"""


class DuckdbReader:
    """DuckDB in a process of its own."""

    def __init__(self, process: LineProcess):
        self._process = process

    def read(self, place: str, column: str, condition: str = "true", scan: str = "iceberg_scan") -> list[int] | str:
        """Return the values of a column of integers, ascending; or DuckDB's error.

        Parameters
        ----------
        place : the path of a metadata file of an Iceberg table, or of the folder of a Delta table.
        scan : the function that reads such a table, "iceberg_scan" or "delta_scan".
        """
        answer: list[int] | str = json.loads(self._process.ask(json.dumps([scan, place, column, condition])))
        return answer


@cache
def open_duckdb() -> DuckdbReader | None:
    """Return the reader; None if there is no such DuckDB."""
    process = LineProcess([os.environ.get("PARQUET_BLOOM_DUCKDB", sys.executable), "-u", "-c", f"exec({PROGRAM!r})"])
    assert process.process.stdout is not None
    if process.process.stdout.readline() != "ready\n":
        process.close()
        return None
    return DuckdbReader(process)
