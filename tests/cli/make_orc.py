"""Write the files of `orc/` for the golden tests: `python tests/cli/make_orc.py`, then update the golden files.

They are kept, not made anew by each run: what writers write changes with their versions. Row groups hold the ids
`100 * n + 50 * group` for n below 50, as in `lake/`, the second stripe those moved by 10,000; in the file by Spark,
whose row groups have a thousand rows at least, each id stands twenty times. All have filters on `id`, Spark's also on
`tag`, and those by ORC's C++ library on `tiny`, where they deny values that are there.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyorc
from pyarrow import orc
from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "orc"
DISTINCT, GROUPS, STRIPES = 50, 2, 2


def rows(repeat: int = 1) -> pa.Table:
    """Return all rows of a file: stripe 0 has row groups 0 and 1, stripe 1 the same, increased by 10,000."""
    numbers = [
        10_000 * stripe + 100 * n + 50 * group
        for stripe in range(STRIPES)
        for group in range(GROUPS)
        for _ in range(repeat)
        for n in range(DISTINCT)
    ]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "tag": [f"tag {n // 100 % 7}" for n in numbers],
            "tiny": pa.array([n % 100 for n in numbers], pa.int8()),
        }
    )


def make_path(writer: str) -> str:
    folder = FOLDER / f"by={writer}"
    folder.mkdir(parents=True)
    return str(folder / "part-0.orc")


def by_pyarrow() -> None:
    """A stripe a batch: each is larger than the size that it asks for."""
    orc.write_table(
        rows(),
        make_path("pyarrow"),
        batch_size=DISTINCT * GROUPS,
        stripe_size=1,
        row_index_stride=DISTINCT,
        compression="uncompressed",
        bloom_filter_columns=[1, 3],
        bloom_filter_fpp=0.01,
    )


def by_pyorc() -> None:
    with Path(make_path("pyorc")).open("wb") as file:
        writer = pyorc.Writer(
            file,
            "struct<id:bigint,tag:string,tiny:tinyint>",
            batch_size=DISTINCT * GROUPS,
            stripe_size=1,
            row_index_stride=DISTINCT,
            compression=pyorc.CompressionKind.NONE,
            bloom_filter_columns=("id", "tiny"),
        )
        with writer:
            writer.writerows(tuple(row.values()) for row in rows().to_pylist())


def by_spark() -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    options = {
        "orc.bloom.filter.columns": "id,tag",
        "orc.row.index.stride": 1000,
        "orc.stripe.row.count": 1000 * GROUPS,
    }
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(rows(repeat=20), f"{folder}/given.parquet")
        frame = spark.read.parquet(f"{folder}/given.parquet").coalesce(1)
        frame.write.options(**options).orc(f"{folder}/written")
        (part,) = Path(folder, "written").glob("*.orc")
        shutil.move(part, make_path("spark"))
    spark.stop()


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    by_pyarrow()
    by_pyorc()
    by_spark()
