"""Query the slow store in one way, in a separate process: `_slow_store_one.py WAY`, with a line of JSON on its input.

The JSON has the endpoint, options and URLs. It is answered once everything that the way requires is imported. Each
following `lookup ID` is answered by a line of JSON: the rows, or null if the way reads none, and the elapsed and
processor seconds. The first lookup of a process has nothing of the store in memory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Where = dict[str, Any]
Lookup = Callable[[int], Any]
Way = Callable[[Where], Lookup]
"""Imports its dependencies, and returns a function that looks up an id: to a pyarrow table, a list of rows, or None."""


def _ours() -> None:
    """Import the dependencies of all our ways, which `parquet_bloom` imports lazily."""
    import obstore.store  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    import parquet_bloom

    for name in ("read_table", "prune", "DiskMetadataCache", "LakeIndex"):
        getattr(parquet_bloom, name)


def read_table(where: Where) -> Lookup:
    import parquet_bloom

    return lambda key: parquet_bloom.read_table(where["data"], [("id", "=", key)], storage_options=where["options"])


def read_table_disk(where: Where) -> Lookup:
    import parquet_bloom

    def lookup(key: int) -> Any:
        cache = parquet_bloom.DiskMetadataCache(where["cache"])
        try:
            options: dict[str, Any] = {"storage_options": where["options"], "cache": cache}
            return parquet_bloom.read_table(where["data"], [("id", "=", key)], **options)
        finally:
            cache.close()

    return lookup


def prune_disk(where: Where) -> Lookup:
    import parquet_bloom

    def lookup(key: int) -> None:
        cache = parquet_bloom.DiskMetadataCache(where["cache"])
        try:
            report = parquet_bloom.prune(
                where["data"], [("id", "=", key)], storage_options=where["options"], cache=cache
            )
        finally:
            cache.close()
        if not report.selected:
            raise SystemExit(f"prune has lost {key}")

    return lookup


def index_path(where: Where) -> Lookup:
    import parquet_bloom

    def lookup(key: int) -> Any:
        predicate = [("id", "=", key)]
        return parquet_bloom.read_table(None, predicate, index=where["index"], storage_options=where["options"])

    return lookup


def index_open(where: Where) -> Lookup:
    import parquet_bloom

    opened = parquet_bloom.LakeIndex.open(where["index"], storage_options=where["options"])
    options = {"storage_options": where["options"]}
    return lambda key: parquet_bloom.read_table(None, [("id", "=", key)], index=opened, **options)


def index_alone(where: Where) -> Lookup:
    import parquet_bloom

    opened = parquet_bloom.LakeIndex.open(where["index"], storage_options=where["options"])
    return lambda key: _named(opened, key)


def index_not_live(where: Where) -> Lookup:
    import parquet_bloom

    def lookup(key: int) -> None:
        with parquet_bloom.LakeIndex.open(where["index"], live=False, storage_options=where["options"]) as index:
            _named(index, key)

    return lookup


def _named(index: Any, key: int) -> None:
    """Look up a value in an index, without reading rows."""
    if not index.lookup("id", [key])[0]:
        raise SystemExit(f"the index has lost {key}")


def scan_polars(where: Where) -> Lookup:
    import polars as pl

    import parquet_bloom

    def lookup(key: int) -> Any:
        frame = parquet_bloom.scan_polars(where["data"], storage_options=where["options"])
        return frame.filter(pl.col("id") == key).collect().to_arrow()

    return lookup


def zoned(where: Where) -> Lookup:
    import parquet_bloom
    import parquet_bloom.zones

    options = {"storage_options": where["options"]}
    return lambda key: parquet_bloom.read_table(where["zoned"], [("id", "=", key)], zones=where["zones"], **options)


def not_zoned(where: Where) -> Lookup:
    import parquet_bloom

    return lambda key: parquet_bloom.read_table(where["zoned"], [("id", "=", key)], storage_options=where["options"])


def append(where: Where) -> Lookup:
    """Index the files outside of the lake in a new index; the id is not used."""
    import parquet_bloom

    index = parquet_bloom.LakeIndex.create(where["appended"], "id", storage_options=where["options"])
    return lambda key: _appended(index, where)


def append_more(where: Where) -> Lookup:
    """Index them in a copy of the lake's index, including opening it."""
    import parquet_bloom

    def lookup(key: int) -> None:
        with parquet_bloom.LakeIndex.open(where["copy"], storage_options=where["options"]) as index:
            _appended(index, where)

    return lookup


def _appended(index: Any, where: Where) -> None:
    report = index.append(where["more"])
    if report.added != where["more_files"]:
        raise SystemExit(f"{report.added} files were indexed, there are {where['more_files']}")


def polars(where: Where) -> Lookup:
    import polars as pl

    def lookup(key: int) -> Any:
        frame = pl.scan_parquet(where["data"], storage_options=where["options"])
        return frame.filter(pl.col("id") == key).collect().to_arrow()

    return lookup


def pyarrow_dataset(where: Where) -> Lookup:
    import pyarrow.dataset as ds
    import pyarrow.fs as fs

    opened: list[Any] = []

    def lookup(key: int) -> Any:
        if not opened:
            store = fs.S3FileSystem(
                endpoint_override=where["endpoint"].removeprefix("http://"),
                scheme="http",
                region=where["options"]["aws_region"],
                access_key=where["options"]["aws_access_key_id"],
                secret_key=where["options"]["aws_secret_access_key"],
            )
            opened.append(ds.dataset(where["data"].removeprefix("s3://"), filesystem=store))
        return opened[0].to_table(filter=ds.field("id") == key)

    return lookup


def datafusion(where: Where) -> Lookup:
    import datafusion
    import pyarrow as pa
    from datafusion.object_store import AmazonS3

    opened: list[Any] = []

    def lookup(key: int) -> Any:
        if not opened:
            config = datafusion.SessionConfig()
            for name in ("pruning", "bloom_filter_on_read", "pushdown_filters"):
                config = config.set(f"datafusion.execution.parquet.{name}", "true")
            context = datafusion.SessionContext(config)
            store = AmazonS3(
                where["bucket"],
                where["options"]["aws_region"],
                where["options"]["aws_access_key_id"],
                where["options"]["aws_secret_access_key"],
                where["endpoint"],
                allow_http=True,
            )
            context.register_object_store("s3://", store, where["bucket"])
            context.register_parquet("lake", where["data"])
            opened.append(context)
        batches = opened[0].sql(f"SELECT * FROM lake WHERE id = {key}").collect()
        return pa.Table.from_batches(batches) if batches else []

    return lookup


def duckdb(where: Where) -> Lookup:
    import duckdb
    import duckdb_extension_httpfs

    version = f"v{duckdb.__version__}"
    folder = os.path.join(next(iter(duckdb_extension_httpfs.__path__)), "extensions", version)
    connection = duckdb.connect()
    connection.execute(f"LOAD '{os.path.join(folder, 'httpfs.duckdb_extension')}'")
    connection.execute("SET threads = 16")  # the default is the number of processors, which takes eight times as long
    connection.execute("SET parquet_metadata_cache = true")
    for name, value in {
        "s3_endpoint": where["endpoint"].removeprefix("http://"),
        "s3_url_style": "path",
        "s3_use_ssl": "false",
        "s3_region": where["options"]["aws_region"],
        "s3_access_key_id": where["options"]["aws_access_key_id"],
        "s3_secret_access_key": where["options"]["aws_secret_access_key"],
    }.items():
        connection.execute(f"SET {name} = '{value}'")

    def lookup(key: int) -> Any:
        cursor = connection.execute(f"SELECT * FROM read_parquet('{where['data']}*.parquet') WHERE id = {key}")
        names = [name for name, *_ in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    return lookup


WAYS: dict[str, Way] = {
    "read_table": read_table,
    "read_table_disk": read_table_disk,
    "prune_disk": prune_disk,
    "index_path": index_path,
    "index_open": index_open,
    "index_alone": index_alone,
    "index_not_live": index_not_live,
    "scan_polars": scan_polars,
    "zoned": zoned,
    "not_zoned": not_zoned,
    "append": append,
    "append_more": append_more,
    "polars": polars,
    "pyarrow_dataset": pyarrow_dataset,
    "datafusion": datafusion,
    "duckdb": duckdb,
}
PEERS = ("polars", "pyarrow_dataset", "datafusion", "duckdb")


def main() -> None:
    # Redirect output of engines to stderr, as stdout is for the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if sys.argv[1] not in PEERS:
        _ours()
    lookup = WAYS[sys.argv[1]](json.loads(sys.stdin.readline().split("\t", 1)[1]))
    answers.write("ready\n")
    for line in sys.stdin:
        key = int(line.split("\t")[1])
        cpu, started = time.process_time(), time.perf_counter()
        answer = lookup(key)
        used = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}
        rows = answer.to_pylist() if hasattr(answer, "to_pylist") else answer
        answers.write(json.dumps({"rows": rows, **used}) + "\n")


if __name__ == "__main__":
    main()
