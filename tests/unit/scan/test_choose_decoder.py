"""How rows are read is chosen by types and numbers of rows alone, and reports say what was chosen."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.scan.decode.row_group_decoder import MANY_ROWS, OTHER_TYPE

ROWS = 4000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "flag": pa.array([True] * ROWS),
        "tags": pa.array([[1]] * ROWS),
        "nested": pa.array([{"x": 1}] * ROWS),
    }
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=1000)
    return tmp_path / "a.parquet"


@pytest.mark.parametrize(
    ("where", "columns", "expected"),
    [
        ("id = 7", None, [("pages", "", 1, 1), ("columns", OTHER_TYPE, 1, 1)]),
        ("id = 7", ["flag"], [("pages", "", 1, 1)]),
        ("id < 3000", ["id"], [("columns", MANY_ROWS, 3, 3000)]),
        ("id < 0", None, []),
    ],
)
def test_reports_say_how_rows_were_read(
    path: Path, where: str, columns: list[str] | None, expected: list[object]
) -> None:
    scan = parquet_bloom.dataset(path).scan(where, columns)
    assert scan.plan().decoded == []
    scan.to_arrow()
    assert scan.plan().decoded == expected
    assert ("read by pages: 1 row group, 1 row" in scan.explain()) == (where == "id = 7")
