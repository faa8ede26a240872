"""The functions that the pages on Spark show run as they stand there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.documents import doc_blocks, doc_lakes

pytestmark = [pytest.mark.spark, pytest.mark.long]
DOCS = doc_blocks.PROJECT / "docs"
ID = 912284217


def functions(page: str, folder: Path) -> dict[str, Any]:
    """Define what a page shows, over the lake in a folder: the JVM's working folder is another one."""
    shown: dict[str, Any] = {}
    for block in doc_blocks.blocks((DOCS / page).read_text("utf-8")):
        if block.language == "python" and "SparkSession" not in block.text:
            exec(block.text.replace('"lake/"', f'"{folder}/lake/"'), shown)
    return shown


def test_the_tutorial(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doc_lakes.lake(tmp_path)
    shown = functions("tutorial/spark.md", tmp_path)
    assert [row.asDict() for row in shown["first_lookup"](spark).collect()] == [{"id": ID, "country": "it"}]
    assert "8 filters" in capsys.readouterr().out
    try:
        assert [row.id for row in shown["every_query"](spark).collect()] == [ID]
    finally:
        spark.catalog.dropTempView("events")
    shown["what_is_read"](spark)
    assert "read 1 of 4 files" in capsys.readouterr().out


def test_page_contents(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doc_lakes.lake(tmp_path)
    shown = functions("how-to/spark.md", tmp_path)

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
