"""One release of an engine in a separate process that answers lines of JSON: ``python worker.py ENGINE FOLDER``.

Runs on the Python of the release's environment and needs nothing but the release and the standard library. What the
engine prints goes to `engine.log` in the folder.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def engine(name: str, folder: str) -> Any:
    """An engine by its name; see `sql_engines` and `frame_engines`."""
    from support.engines import frame_engines, sql_engines

    if name == "spark":
        return sql_engines.Spark(sql_engines.spark_session(folder))
    if name == "clickhouse":
        return sql_engines.ClickHouse(f"{folder}/clickhouse")
    plain = {"duckdb": sql_engines.DuckDB, "datafusion": sql_engines.DataFusion, "pyarrow": frame_engines.PyArrow}
    plain |= {"polars": frame_engines.Polars, "fastparquet": frame_engines.FastParquet}
    return plain[name]()


def main(name: str, folder: str) -> None:
    # Engines print as they like, and Spark's JVM has the same standard output.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    log = os.open(f"{folder}/engine.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    created = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            created = created or engine(name, folder)
            answer = {"answer": getattr(created, question["do"])(**question["with"])}
        except BaseException as error:
            traceback.print_exc()
            answer = {"error": (str(error).strip() or type(error).__name__).splitlines()[0]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
