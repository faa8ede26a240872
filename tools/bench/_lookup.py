"""Run one engine of the point lookups in a separate process: `_lookup.py ENGINE FOLDER TRIAL`.

It first looks up ids in another lake, TRIAL, to import, connect and compile everything, and then answers the first line
of standard input. Each following `lookup ID` line is answered by a line of JSON: the rows found in FOLDER, the seconds
taken, and the resources used by the process and its children: see `_used`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common  # noqa: F401  (first, to import the package of this checkout)

_THREADS = 2 * (os.cpu_count() or 1)  # faster than one per processor, as a lookup waits as much as it computes

Engine = Callable[[], tuple[Callable[[Path, int], Any], Callable[[Any], list[dict[str, Any]] | None]]]
"""Returns a function that looks up an id in a folder, and one that turns its result into rows, which is not timed."""


def prune() -> Any:
    import parquet_bloom

    return lambda folder, key: parquet_bloom.prune(folder, [("id", "=", key)]), lambda report: None  # reads no rows


def read_table() -> Any:
    import parquet_bloom

    return lambda folder, key: parquet_bloom.read_table(folder, [("id", "=", key)]), _arrow_rows


def duckdb() -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET parquet_metadata_cache = true")
    connection.execute(f"SET threads = {_THREADS}")

    def lookup(folder: Path, key: int) -> Any:
        cursor = connection.execute(f"SELECT * FROM read_parquet('{folder}/*.parquet') WHERE id = {key}")
        return [name for name, *_ in cursor.description], cursor.fetchall()

    return lookup, lambda answer: [dict(zip(answer[0], row, strict=True)) for row in answer[1]]


def datafusion() -> Any:
    import datafusion
    import pyarrow as pa

    config = datafusion.SessionConfig()
    for name in ("pruning", "bloom_filter_on_read", "enable_page_index", "pushdown_filters", "reorder_filters"):
        config = config.set(f"datafusion.execution.parquet.{name}", "true")
    # By default it would read the last 512 KiB of each file.
    config = config.set("datafusion.execution.parquet.metadata_size_hint", str(16 * 1024))
    context = datafusion.SessionContext(config)
    for name in ("metadata_cache_limit", "list_files_cache_limit", "file_statistics_cache_limit"):
        context.sql(
            f"SET datafusion.runtime.{name} = '1G'"
        )  # the default cache of footers is too small for 1,000 files

    def register(folder: Path) -> str:
        name = f"lake_{abs(hash(folder))}"
        context.register_parquet(name, str(folder))
        return name

    names = _FolderCache(register)

    def lookup(folder: Path, key: int) -> Any:
        return context.sql(f"SELECT * FROM {names[folder]} WHERE id = {key}").collect()

    return lookup, lambda batches: _arrow_rows(pa.Table.from_batches(batches)) if batches else []


def polars() -> Any:
    import polars as pl

    def lookup(folder: Path, key: int) -> Any:
        return pl.scan_parquet(folder).filter(pl.col("id") == key).collect()

    return lookup, lambda frame: frame.to_dicts()


def pyarrow_dataset() -> Any:
    import pyarrow.dataset as ds

    datasets = _FolderCache(ds.dataset)  # keeps the list of files and their footers
    return lambda folder, key: datasets[folder].to_table(filter=ds.field("id") == key), _arrow_rows


def pyarrow_read_table() -> Any:
    import pyarrow.parquet as pq

    return lambda folder, key: pq.read_table(folder, filters=[("id", "=", key)]), _arrow_rows


def clickhouse() -> Any:
    import pyarrow as pa
    from chdb.session import Session

    session = Session()
    # `pread`, as reads of mapped files cannot be counted, and the system would read ahead. The other settings are the
    # defaults, given explicitly as the results depend on them.
    settings = (
        f"storage_file_read_method = 'pread', max_threads = {_THREADS}, use_parquet_metadata_cache = 1, "
        "input_format_parquet_bloom_filter_push_down = 1, input_format_parquet_filter_push_down = 1, "
        "input_format_parquet_page_filter_push_down = 1"
    )

    def lookup(folder: Path, key: int) -> Any:
        source = f"file('{folder}/*.parquet', Parquet)"
        return session.query(f"SELECT * FROM {source} WHERE id = {key} SETTINGS {settings}", "Arrow").bytes()

    return lookup, lambda answer: _arrow_rows(pa.ipc.open_file(answer).read_all()) if answer else []


def spark() -> Any:
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col

    builder = SparkSession.builder.master(f"local[{os.cpu_count()}]").appName("point lookup")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.openCostInBytes": "0",  # by default every 30 files become a task
        "spark.hadoop.parquet.filter.bloom.enabled": "true",
        "spark.driver.memory": "2g",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    frames = _FolderCache(lambda folder: session.read.parquet(str(folder)))  # keeps the list of files and the schema
    return lambda folder, key: frames[folder].filter(col("id") == key).collect(), _spark_rows


ENGINES: dict[str, tuple[str, Engine]] = {
    "prune": ("parquet_bloom", prune),
    "read_table": ("parquet_bloom", read_table),
    "DuckDB": ("duckdb", duckdb),
    "DataFusion": ("datafusion", datafusion),
    "ClickHouse": ("chdb", clickhouse),
    "Spark": ("pyspark", spark),
    "polars": ("polars", polars),
    "pyarrow dataset": ("pyarrow", pyarrow_dataset),
    "pyarrow read_table": ("pyarrow", pyarrow_read_table),
}
"""{name: (required module, engine)}."""


class _FolderCache(dict[Path, Any]):
    """A cache of objects made of folders at their first use."""

    def __init__(self, make: Callable[[Path], Any]) -> None:
        self._make = make

    def __missing__(self, folder: Path) -> Any:
        self[folder] = self._make(folder)
        return self[folder]


def _spark_rows(rows: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows]


def _arrow_rows(table: Any) -> list[dict[str, Any]]:
    return table.to_pylist()


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Normalize a row: engines return texts as bytes or str, instants with a zone or as text."""
    values = {name: value.decode() if isinstance(value, bytes) else value for name, value in row.items()}
    return {**values, "ts": values["ts"].replace(tzinfo=None).isoformat()}


def _family() -> list[int]:
    """Return the process itself and its descendants."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it ended
                continue
    family = [os.getpid()]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family


def _used(family: list[int]) -> dict[str, float]:
    """Return the resources that processes have used since they started.

    Bytes read by system calls, bytes read from storage for them, and processor seconds.
    """
    queried = stored = cpu = 0.0
    for member in family:
        for line in Path("/proc", str(member), "io").read_text().splitlines():
            name, _, value = line.partition(": ")
            queried += int(value) if name == "rchar" else 0
            stored += int(value) if name == "read_bytes" else 0
        cpu += time.clock_gettime(~member << 3 | 2)  # clock_getcpuclockid, which Python offers for threads only
    return {"asked": queried, "stored": stored, "cpu": cpu}


def main() -> None:
    name, folder, trial = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    # Redirect output of engines to stderr, as stdout is for the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    lookup, to_rows = ENGINES[name][1]()
    for key in range(2):
        to_rows(lookup(trial, key))
    family = _family()
    sys.stdin.readline()
    answers.write("ready\n")
    for line in sys.stdin:
        key = int(line.split("\t")[1])
        before = _used(family)
        started = time.perf_counter()
        result = lookup(folder, key)
        seconds = time.perf_counter() - started
        used = {what: after - before[what] for what, after in _used(family).items()}
        rows = to_rows(result)
        plain_rows = None if rows is None else [plain(row) for row in rows]
        answers.write(json.dumps({"rows": plain_rows, "seconds": seconds, **used}) + "\n")


if __name__ == "__main__":
    main()
