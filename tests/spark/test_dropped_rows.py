"""Files that Spark has written, without some rows: Spark reads the others, and asks the filters that were made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from support.dropped_rows import assert_without
from support.writers import peers


def test_files_of_spark(spark: Any, tmp_path: Path) -> None:
    for number, peer in enumerate(peers.by_spark(spark, tmp_path)):
        total = pq.read_metadata(peer.path).num_rows
        target = tmp_path / f"without-{number}.parquet"
        report = assert_without(peer.path, [1, total // 2, total - 1], target)
        assert {one.column for one in report.lost if one.what == "filter"} <= {"bool"}
        frame = spark.read.parquet(str(target))
        frame.write.format("noop").mode("overwrite").save()  # which reads all columns
        assert frame.count() == total - 3
