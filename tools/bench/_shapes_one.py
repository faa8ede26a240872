"""Run one engine of the benchmark of shapes in a process of its own: `_shapes_one.py ENGINE`.

After its imports it answers `ready` to the first line of its input. Each other line is a job: a query of a lake, as
`_shapes_peers.make_job` writes it. "first" includes opening the lake, which otherwise stays open. The answer is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from _shapes_peers import ENGINES, Engine
from _shapes_rows import describe


def _read_bytes() -> int:
    """Return the bytes that this process has read by system calls."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar: "):
            return int(line.removeprefix("rchar: "))
    return 0


def answer(engine: Engine, lakes: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Run one job; its seconds of wall clock and of all threads, and its bytes, with a description of the rows."""
    folder = job["folder"]
    if not job["first"] and folder not in lakes:
        lakes[folder] = engine.open(Path(folder), is_kept=True)
    bytes_before = _read_bytes()
    cpu, started = time.process_time(), time.perf_counter()
    lake = engine.open(Path(folder), is_kept=False) if job["first"] else lakes[folder]
    rows = engine.query(lake, [tuple(term) for term in job["terms"]], job["columns"])
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    read = _read_bytes() - bytes_before
    return {"seconds": seconds, "cpu": cpu, "read": read, "rows": describe(engine.to_rows(rows))}


def main() -> None:
    # Output of engines goes to stderr, as stdout is for the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    engine = ENGINES[sys.argv[1]][1]()
    lakes: dict[str, Any] = {}
    sys.stdin.readline()
    answers.write("ready\n")
    for line in sys.stdin:
        answers.write(json.dumps(answer(engine, lakes, json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
