"""The functions that `docs/how-to/spark.md` shows run as they stand there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.documents import doc_blocks, doc_lakes

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = doc_blocks.PROJECT / "docs" / "how-to" / "spark.md"
ID = 912284217


def test_page_contents(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doc_lakes.lake(tmp_path)
    shown: dict[str, Any] = {}
    for block in doc_blocks.blocks(PAGE.read_text("utf-8")):
        if block.language == "python":
            # The JVM's working folder is another one.
            exec(block.text.replace('"lake/"', f'"{tmp_path}/lake/"'), shown)

    shown["add_filters"](spark)
    assert "8 filters in 4 files, none of them bad" in capsys.readouterr().out

    events = spark.read.parquet(f"{tmp_path}/lake/")
    events.createOrReplaceTempView("events")
    try:
        shown["lookups"](spark, events, spark.createDataFrame([(ID,)], "id bigint"))
        assert spark.sql(f"SELECT id FROM fast WHERE id = {ID}").collect() == [(ID,)]
    finally:
        for view in ("events", "fast"):
            spark.catalog.dropTempView(view)
    assert [row.id for row in shown["by_data_source"](spark).collect()] == [ID]
