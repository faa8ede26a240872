"""Hold queries of random Delta and Iceberg tables against all of their rows, for many tables.

    python tests/property/table_campaign.py [--tables 200] [--seed 0] [--duckdb PYTHON] [delta] [iceberg]

`--duckdb` names a Python that has DuckDB and its extensions for Delta and Iceberg, which is then asked the same queries
for comparison: what it answers otherwise is counted and shown. The exit code is 1 after any wrong answer of ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.random_cases.table_hunt import hunt

_QUERIES = 30
_TABLES_AT_ONCE = 10
_ANSWERS = """
import glob, importlib, json, os, sys
import duckdb
def connect():
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg", "delta"):
        folder = os.path.dirname(importlib.import_module("duckdb_extension_" + name).__file__)
        connection.execute(f"LOAD '{glob.glob(folder + '/**/*.duckdb_extension', recursive=True)[0]}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection
connection = connect()
for line in sys.stdin:
    kind, path, where = json.loads(line)
    try:
        scan = f"{kind}_scan('{path}')"
        answer = connection.execute(f"SELECT count(*) FROM {scan} WHERE {where}").fetchone()[0]
    except Exception as error:
        answer = str(error)
        connection = connect()  # some errors end a database
    print(json.dumps(answer), flush=True)
"""


class DuckDB:
    """DuckDB in a process of its own, which is started again when it ends."""

    def __init__(self, python: str):
        self._python = python
        self._process: Any = None

    def __call__(self, kind: str, path: str, where: str) -> Any:
        if self._process is None or self._process.poll() is not None:
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            command = [self._python, "-c", _ANSWERS]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
        try:
            self._process.stdin.write(json.dumps([kind, path, where]) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):
            return "it ended"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=200, help="tables of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first table")
    parser.add_argument("--duckdb", metavar="PYTHON", help="a Python with DuckDB and its extensions")
    parser.add_argument("kinds", nargs="*", default=["delta", "iceberg"], metavar="KIND", help="delta or iceberg")
    arguments = parser.parse_args()
    ask = DuckDB(arguments.duckdb) if arguments.duckdb else None
    wrong = 0
    for kind in arguments.kinds:
        start, readers_wrong = time.monotonic(), []
        totals = {"tables": 0, "queries": 0, "files": 0, "unopened": 0}
        readers: dict[str, int] = {}
        for first in range(arguments.seed, arguments.seed + arguments.tables, _TABLES_AT_ONCE):
            with tempfile.TemporaryDirectory() as folder:
                tally = hunt(kind, iter(range(first, first + _TABLES_AT_ONCE)), Path(folder), _QUERIES, ask)
            for text in tally.wrong:
                print(f"WRONG {text}", flush=True)
            wrong += len(tally.wrong)
            readers_wrong += tally.readers_wrong
            totals = {name: number + getattr(tally, name) for name, number in totals.items()}
            readers = {name: readers.get(name, 0) + tally.readers.get(name, 0) for name in {*readers, *tally.readers}}
        for text in readers_wrong[:10]:
            print(f"otherwise by DuckDB: {text}"[:400])
        print(f"{kind}: {totals}; {wrong} wrong; {readers}; {time.monotonic() - start:.0f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
