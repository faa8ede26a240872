"""Write the files that the golden tests read: `python tests/cli/make_lake.py`, then update the golden files.

They are kept, not made anew by each run: what writers write changes with their versions. Row groups hold the ids
`100 * n + 50 * group` for n below 50. In `lake/` all files but `plain.parquet` have filters on `id`, and two row
groups. In `orc/` a second stripe has the ids of the first one moved by 10,000; in the file by Spark, whose row groups
have a thousand rows at least, each id stands twenty times. All have filters on `id`, Spark's also on `tag`, and those
by ORC's C++ library on `tiny`, where they deny values that are there.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pyorc
from pyarrow import orc
from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from support.malformed import malformed  # noqa: E402
from support.writers import drafts  # noqa: E402

DISTINCT = 50


def rows(group: int, repeat: int = 1) -> pa.Table:
    numbers = [n for n in range(DISTINCT) for _ in range(repeat)]
    ids = pa.array([100 * n + 50 * group for n in numbers], pa.int64())
    return pa.table({"id": ids, "tag": [f"tag {n % 7}" for n in numbers]})


def orc_rows(repeat: int = 1) -> pa.Table:
    starts = (10_000 * stripe + 50 * group for stripe in range(2) for group in range(2) for _ in range(repeat))
    numbers = [start + 100 * n for start in starts for n in range(DISTINCT)]
    tiny = pa.array([n % 100 for n in numbers], pa.int8())
    return pa.table(
        {"id": pa.array(numbers, pa.int64()), "tag": [f"tag {n // 100 % 7}" for n in numbers], "tiny": tiny}
    )


def make_path(writer: str, name: str = "part-0.parquet") -> str:
    path = HERE / ("orc" if name.endswith("orc") else "lake") / f"by={writer}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


def by_pyarrow(table: pa.Table) -> None:
    options = {"row_group_size": DISTINCT, "use_dictionary": False}
    filters = {"id": {"ndv": DISTINCT, "fpp": 0.01}}
    pq.write_table(table, make_path("pyarrow"), bloom_filter_options=filters, **options)
    pq.write_table(table, make_path("pyarrow", "plain.parquet"), **options)
    # A stripe a batch: each is larger than the size that it asks for.
    options = {"batch_size": 2 * DISTINCT, "stripe_size": 1, "row_index_stride": DISTINCT}
    filters = {"bloom_filter_columns": [1, 3], "bloom_filter_fpp": 0.01}
    orc.write_table(orc_rows(), make_path("pyarrow", "part-0.orc"), compression="uncompressed", **options, **filters)


def by_pyorc() -> None:
    options = {"batch_size": 2 * DISTINCT, "stripe_size": 1, "row_index_stride": DISTINCT}
    options |= {"compression": pyorc.CompressionKind.NONE, "bloom_filter_columns": ("id", "tiny")}
    with (
        open(make_path("pyorc", "part-0.orc"), "wb") as file,
        pyorc.Writer(file, "struct<id:bigint,tag:string,tiny:tinyint>", **options) as writer,
    ):
        writer.writerows(tuple(row.values()) for row in orc_rows().to_pylist())


def by_duckdb() -> None:
    repeat = 2048 // DISTINCT + 1  # its row groups have 2048 rows at least, its filters need few distinct values
    groups = [rows(group, repeat).slice(0, 2048) for group in (0, 1)]
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("given", pa.concat_tables(groups).combine_chunks())
        connection.execute(f"COPY given TO '{make_path('duckdb')}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")


def by_datafusion(table: pa.Table) -> None:
    column = datafusion.ParquetColumnOptions(
        bloom_filter_enabled=True, bloom_filter_ndv=DISTINCT, bloom_filter_fpp=0.01
    )
    options = datafusion.ParquetWriterOptions(
        max_row_group_size=DISTINCT, allow_single_file_parallelism=False, column_specific_options={"id": column}
    )
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    context.from_arrow(table).write_parquet_with_options(make_path("datafusion"), options)


def by_spark(table: pa.Table) -> None:
    parquet = {"parquet.enable.dictionary": "false", "parquet.block.row.count.limit": DISTINCT}
    parquet |= {"parquet.bloom.filter.enabled#id": "true", "parquet.bloom.filter.expected.ndv#id": DISTINCT}
    parquet |= {"parquet.bloom.filter.fpp#id": 0.01}
    of_orc = {"orc.bloom.filter.columns": "id,tag", "orc.row.index.stride": 1000, "orc.stripe.row.count": 2000}
    written: list[tuple[str, pa.Table, dict[str, Any]]] = [("parquet", table, parquet), ("orc", orc_rows(20), of_orc)]
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    for kind, given, options in written:
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(given, f"{folder}/given.parquet")
            frame = spark.read.parquet(f"{folder}/given.parquet").coalesce(1)
            frame.write.options(**options).format(kind).save(f"{folder}/written")
            (part,) = Path(folder, "written").glob(f"*.{kind}")
            shutil.move(part, make_path("spark", f"part-0.{kind}"))
    spark.stop()


def broken_and_draft(table: pa.Table) -> None:
    """A file whose second filter of `key` has a header with one block too many; filters of the first draft on `id`."""
    with tempfile.TemporaryDirectory() as folder:
        good = malformed.good_file(Path(folder, "good.parquet"))
        (case,) = [one for one in malformed.cases(good, Path(folder)) if one.name == "length-too-long-by-a-block"]
        shutil.move(case.path, HERE / "broken.parquet")
    options = {"row_group_size": DISTINCT, "num_bytes": 256, "counted": True, "use_dictionary": False}
    drafts.write_draft(HERE / "draft.parquet", table, ["id"], "murmur3+mask+raw", **options)


if __name__ == "__main__":
    for folder in ("lake", "orc"):
        shutil.rmtree(HERE / folder, ignore_errors=True)
    both = pa.concat_tables([rows(0), rows(1)])
    by_pyarrow(both)
    by_pyorc()
    by_duckdb()
    by_datafusion(both)
    by_spark(both)
    broken_and_draft(both)
