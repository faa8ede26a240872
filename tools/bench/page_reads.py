"""One row out of a row group of 1,000,000: its pages, against pyarrow's `read_row_group` and a filter.

The file: one row group, 5 columns (a time stamp, ascending; a random int64 id; a 36-byte request id; one of 1,000
device names; a float64), a page index. Asked for is the row in the middle, by its time stamp, which statistics of pages
find, and by its id, whose column has to be read whole.
"""

from __future__ import annotations

import argparse
import tempfile
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _common import header, in_turn

import parquet_bloom

ROWS = 1_000_000
ASKED = {"ts": 50}


def make_table() -> pa.Table:
    rng = np.random.default_rng(7)
    raw = rng.bytes(16 * ROWS)
    ids = pa.array([str(uuid.UUID(bytes=raw[16 * i : 16 * i + 16])) for i in range(ROWS)])
    stamps = 1_700_000_000_000_000 + np.cumsum(rng.integers(1, 60_000_000, ROWS))
    return pa.table(
        {
            "ts": pa.array(stamps, pa.timestamp("us")),
            "user_id": rng.integers(0, 2**63, ROWS),
            "request_id": ids,
            "device": ids[:1000].take(pa.array(rng.integers(0, 1000, ROWS))),
            "amount": rng.random(ROWS),
        }
    )


def measure(path: Path, table: pa.Table, column: str) -> None:
    value = table[column][ROWS // 2]
    results: dict[str, pa.Table] = {}

    def whole() -> None:
        read = pq.ParquetFile(path).read_row_group(0)
        results["pyarrow"] = read.filter(pc.equal(read[column], value))

    def by_pages() -> None:
        results["parquet_bloom"] = parquet_bloom.read_table(path, [(column, "=", value)])

    seconds = in_turn({"pyarrow": whole, "parquet_bloom": by_pages}, repeat=21)
    assert results["pyarrow"].num_rows == 1
    assert results["pyarrow"].equals(results["parquet_bloom"])
    print(f"{column} = {value}")
    for name, taken in seconds.items():
        print(f"  {name:14} {taken * 1e3:9.2f} ms")
    asked = f" (asked: at least {ASKED[column]})" if column in ASKED else ""
    print(f"  ratio          {seconds['pyarrow'] / seconds['parquet_bloom']:9.1f} x faster{asked}\n")


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, table = Path(folder, "a.parquet"), make_table()
        pq.write_table(table, path, row_group_size=ROWS, write_page_index=True)
        header(
            "one row out of a row group of 1,000,000",
            f"file     {path.stat().st_size / 1e6:.0f} MB, 1 row group, 5 columns, snappy, page index",
            f"peer     pyarrow {pa.__version__}: ParquetFile(path).read_row_group(0).filter(...)",
        )
        for column in ("ts", "user_id"):
            measure(path, table, column)


if __name__ == "__main__":
    main()
