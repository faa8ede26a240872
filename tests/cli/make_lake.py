"""Write the files of `lake/` for the golden tests: `python tests/cli/make_lake.py`, then update the golden files.

They are kept, not made anew by each run: what writers write changes with their versions. All but `plain.parquet` have
filters on `id`; their first row group holds the ids `100 * n`, the second `100 * n + 50`, for n below 50.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

LAKE = Path(__file__).parent / "lake"
DISTINCT = 50


def rows(group: int, repeat: int = 1) -> pa.Table:
    numbers = [n for n in range(DISTINCT) for _ in range(repeat)]
    ids = pa.array([100 * n + 50 * group for n in numbers], pa.int64())
    return pa.table({"id": ids, "tag": [f"tag {n % 7}" for n in numbers]})


def two_groups(repeat: int = 1) -> pa.Table:
    return pa.concat_tables([rows(0, repeat), rows(1, repeat)])


def make_path(writer: str, name: str = "part-0.parquet") -> str:
    folder = LAKE / f"by={writer}"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder / name)


def by_pyarrow() -> None:
    options = {"row_group_size": DISTINCT, "use_dictionary": False}
    filters = {"id": {"ndv": DISTINCT, "fpp": 0.01}}
    pq.write_table(two_groups(), make_path("pyarrow"), bloom_filter_options=filters, **options)
    pq.write_table(two_groups(), make_path("pyarrow", "plain.parquet"), **options)


def by_duckdb() -> None:
    repeat = 2048 // DISTINCT + 1  # its row groups have 2048 rows at least, its filters need few distinct values
    groups = [rows(group, repeat).slice(0, 2048) for group in (0, 1)]
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("given", pa.concat_tables(groups).combine_chunks())
        connection.execute(f"COPY given TO '{make_path('duckdb')}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")


def by_datafusion() -> None:
    options = datafusion.ParquetWriterOptions(
        max_row_group_size=DISTINCT,
        allow_single_file_parallelism=False,
        column_specific_options={
            "id": datafusion.ParquetColumnOptions(
                bloom_filter_enabled=True, bloom_filter_ndv=DISTINCT, bloom_filter_fpp=0.01
            )
        },
    )
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    context.from_arrow(two_groups()).write_parquet_with_options(make_path("datafusion"), options)


def by_spark() -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    options = {
        "parquet.enable.dictionary": "false",
        "parquet.block.row.count.limit": DISTINCT,
        "parquet.bloom.filter.enabled#id": "true",
        "parquet.bloom.filter.expected.ndv#id": DISTINCT,
        "parquet.bloom.filter.fpp#id": 0.01,
    }
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(two_groups(), f"{folder}/given.parquet")
        frame = spark.read.parquet(f"{folder}/given.parquet")
        frame.coalesce(1).write.options(**options).parquet(f"{folder}/written")
        (part,) = Path(folder, "written").glob("*.parquet")
        shutil.move(part, make_path("spark"))
    spark.stop()


def broken() -> None:
    """Write a file whose second filter of `key` has a header with one block too many."""
    from support.malformed import malformed

    with tempfile.TemporaryDirectory() as folder:
        good = malformed.good_file(Path(folder, "good.parquet"))
        for case in malformed.cases(good, Path(folder)):
            if case.name == "length-too-long-by-a-block":
                shutil.move(case.path, LAKE.parent / "broken.parquet")


def draft() -> None:
    """Write a file whose filters on `id` are those of the first draft, at the beginning of their column chunks."""
    from support.writers import drafts

    options = {"row_group_size": DISTINCT, "num_bytes": 256, "counted": True, "use_dictionary": False}
    drafts.write_draft(LAKE.parent / "draft.parquet", two_groups(), ["id"], "murmur3+mask+raw", **options)


if __name__ == "__main__":
    shutil.rmtree(LAKE, ignore_errors=True)
    by_pyarrow()
    by_duckdb()
    by_datafusion()
    by_spark()
    broken()
    draft()
