"""Files of given tables by several writers, each with random options but for those given; followed by our filters."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom
from support.engines.clickhouse import ClickHouse
from support.writers.peers import VALUES

NESTED = {"li", "ma", "ls", "st"}
# What a writer takes; DataFusion and DuckDB get what they do not change on the way.
DUCKDB = [
    *("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "d4", "d9", "d18", "d38", "date", "time_us"),
    *("ts_us", "tz_us", "ts_ns", "str", "large_str", "bin", "uuid", "bool", "nothing"),
]
DATAFUSION = [name for name in DUCKDB if name != "uuid"] + ["flba", "time_ms", "time_ns", "ts_ms", "view_str"]
POLARS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "d9", "d18", "d38", "date", "str", "bin"]
# No times of day, and all stamps as instants of UTC; JSON and texts that are none change on the way.
CLICKHOUSE = [
    *("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "d4", "d9", "d18", "d38", "date"),
    *("ts_s", "ts_ms", "ts_us", "ts_ns", "tz_s", "tz_ms", "tz_us", "tz_ns", "str", "large_str", "view_str", "dict_str"),
    *("bin", "flba", "uuid", "bool", "nothing", "st", "li"),
]
KINDS = {
    "pyarrow": list(VALUES),
    "duckdb": DUCKDB,
    "datafusion": DATAFUSION,
    "polars": POLARS,
    "clickhouse": CLICKHOUSE,
}


def by_pyarrow(rng: random.Random, table: pa.Table, path: Path, group: int) -> dict[str, Any]:
    options: dict[str, Any] = {
        "version": rng.choice(["1.0", "2.4", "2.6"]),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "compression": rng.choice(["none", "snappy", "zstd", "gzip", "lz4", "brotli"]),
        "use_dictionary": rng.choice([True, False]),
        "write_statistics": rng.choice([True, False]),
        "write_page_index": rng.choice([True, False]),
        "data_page_size": rng.choice([100, 1 << 20]),
        "store_schema": rng.choice([True, False]),
        "use_deprecated_int96_timestamps": rng.random() < 0.25,
        "store_decimal_as_integer": rng.choice([True, False]),
        "use_content_defined_chunking": rng.random() < 0.1,
    }
    if any(pa.types.is_temporal(field.type) and "ns" in str(field.type) for field in table.schema):
        options["version"] = "2.6"  # the older ones have no nanoseconds
    if rng.random() < 0.4:
        leaves = _leaves(table)
        options["bloom_filter_options"] = {
            leaf: {"ndv": rng.choice([1, 50, 1000]), "fpp": rng.choice([0.5, 0.01])}
            for leaf in rng.sample(leaves, rng.randint(0, len(leaves)))
        }
    pq.write_table(table, path, row_group_size=group, **options)
    return options


def _leaves(table: pa.Table) -> list[str]:
    sink = pa.BufferOutputStream()
    pq.write_table(table.slice(0, 0), sink)
    schema = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [schema.column(i).path for i in range(len(schema)) if schema.column(i).physical_type != "BOOLEAN"]


def by_duckdb(rng: random.Random, table: pa.Table, path: Path, group: int, **given: Any) -> dict[str, Any]:
    options = {
        "ROW_GROUP_SIZE": group,
        "COMPRESSION": rng.choice(["snappy", "zstd", "gzip", "uncompressed"]),
        "PARQUET_VERSION": rng.choice(["V1", "V2"]),
        "DICTIONARY_SIZE_LIMIT": rng.choice([0, 1000, 100_000]),
        **given,
    }
    with duckdb.connect() as connection:
        connection.register("made", table)
        connection.execute("SET threads=1; SET TimeZone='UTC'")
        text = ", ".join(f"{key} '{value}'" for key, value in options.items())
        connection.execute(f"COPY (SELECT * FROM made) TO '{path}' (FORMAT parquet, {text})")
    return options


def by_datafusion(rng: random.Random, table: pa.Table, path: Path, group: int, **given: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "max_row_group_size": group,
        "bloom_filter_on_write": rng.random() < 0.7,
        "bloom_filter_fpp": rng.choice([0.1, 0.01]),
        "bloom_filter_ndv": rng.choice([10, 1000]),
        "dictionary_enabled": rng.choice([True, False]),
        "statistics_enabled": rng.choice(["none", "chunk", "page"]),
        **given,
    }
    context = datafusion.SessionContext()
    context.from_arrow(table).write_parquet_with_options(str(path), datafusion.ParquetWriterOptions(**options))
    if not path.exists() and table.num_rows == 0:
        pq.write_table(table, path)
    return options


def by_polars(rng: random.Random, table: pa.Table, path: Path, group: int) -> dict[str, Any]:
    options = {
        "compression": rng.choice(["snappy", "zstd", "uncompressed"]),
        "row_group_size": group,
        "statistics": rng.choice([True, False, "full"]),
    }
    pl.from_arrow(table).write_parquet(path, **options)
    return options


def by_clickhouse(
    server: ClickHouse, rng: random.Random, table: pa.Table, path: Path, group: int, **given: Any
) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "row_group_size": group,
        "write_bloom_filter": rng.randint(0, 1),
        "bloom_filter_bits_per_value": rng.choice([2, 10.5, 30]),
        "bloom_filter_flush_threshold_bytes": rng.choice([0, 1 << 27]),
        "write_page_index": rng.randint(0, 1),
        "data_page_size": rng.choice([100, 1 << 20]),
        "max_dictionary_size": rng.choice([0, 1 << 20]),
        "compression_method": rng.choice(["'none'", "'snappy'", "'zstd'", "'gzip'", "'lz4'"]),
        "string_as_string": 0 if {"bin", "flba"} & set(table.column_names) else rng.randint(0, 1),
        "fixed_string_as_fixed_byte_array": rng.randint(0, 1),
        **given,
    }
    source = path.with_suffix(".source")
    pq.write_table(table, source)
    text = ", ".join(f"output_format_parquet_{key} = {value}" for key, value in settings.items())
    server(
        f"INSERT INTO FUNCTION file('{path}', Parquet) SELECT * FROM file('{source}', Parquet) "
        f"SETTINGS max_threads = 1, {text}"
    )
    source.unlink()
    return settings


def readable(path: Path, story: str) -> bool:
    """Return whether pyarrow reads the file: it does not read all of DuckDB's delta-encoded integers."""
    try:
        pq.read_table(path)
    except OSError:
        assert "'PARQUET_VERSION': 'V2'" in story
        return False
    return True


def embed(rng: random.Random, path: Path, *, odd: bool = False) -> str:
    """Some of the columns get filters of ours; what was there before stays, or is built anew. Returns what was done.

    `odd`: the writer's own filters are not all good ones, as Spark's for BOOLEAN and of odd sizes.
    """
    message = ""
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        with parquet_bloom.open(path) as file:
            leaves = [leaf.name for leaf in file.leaves if leaf.physical != "BOOLEAN" and leaf.name != "row"]
        if not leaves:
            return message
        chosen = {name: rng.choice([0.3, 0.01, 0.001]) for name in rng.sample(leaves, rng.randint(1, len(leaves)))}
        replace, powers = rng.random() < 0.5, rng.random() < 0.8
        parquet_bloom.embed(path, chosen, replace=replace, power_of_two=powers)
        message += f"; embed({chosen}, {replace=}, {powers=})"
    report = parquet_bloom.verify(path, data=True)
    assert odd or report.ok, [str(problem) for problem in report.problems]
    return message
