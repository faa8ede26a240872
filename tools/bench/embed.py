"""Filters added to a file that exists: `embed` against pyarrow's way, which is to read it and write it anew.

The file: 2,000,000 rows, a random int64 id, a 36-byte request id, and three columns of payload; row groups of 500,000
rows; filters on both ids at an fpp of 0.01.
"""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, in_turn

import parquet_bloom

ROWS = 2_000_000
ROW_GROUP = 500_000
COLUMNS = ("user_id", "request_id")
FPP = 0.01


def make_table() -> pa.Table:
    rng = np.random.default_rng(7)
    raw = rng.bytes(16 * ROWS)
    return pa.table(
        {
            "user_id": rng.integers(0, 2**63, ROWS),
            "request_id": [str(uuid.UUID(bytes=raw[16 * i : 16 * i + 16])) for i in range(ROWS)],
            "ts": pa.array(
                np.sort(rng.integers(1_700_000_000_000_000, 1_760_000_000_000_000, ROWS)), pa.timestamp("us")
            ),
            "amount": rng.random(ROWS),
            "country": pa.array(rng.choice(["de", "fr", "it", "us"], ROWS)),
        }
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        plain, ours, theirs = (Path(folder, name) for name in ("plain.parquet", "ours.parquet", "theirs.parquet"))
        pq.write_table(make_table(), plain, row_group_size=ROW_GROUP)

        def embed() -> None:
            parquet_bloom.embed(plain, list(COLUMNS), fpp=FPP, output=ours)

        def rewrite() -> None:
            options = {name: {"ndv": ROW_GROUP, "fpp": FPP} for name in COLUMNS}
            pq.write_table(pq.read_table(plain), theirs, row_group_size=ROW_GROUP, bloom_filter_options=options)

        header(
            "embed two columns of a 2,000,000-row file",
            f"file     {plain.stat().st_size / 1e6:.0f} MB, 4 row groups, snappy",
            f"peer     pyarrow {pa.__version__}: read_table, write_table(bloom_filter_options=...)",
        )

        def clear() -> None:  # to free the last run's file is not what is measured
            for output in (ours, theirs):
                output.unlink(missing_ok=True)

        seconds = in_turn({"pyarrow": rewrite, "parquet_bloom": embed}, repeat=9, before=clear)
        rewrite()
        embed()
        report = parquet_bloom.verify(ours, data=True)
        assert report.ok, report
        with parquet_bloom.open(ours) as first, parquet_bloom.open(theirs) as second:
            pairs = list(zip(first.chunks(), second.chunks(), strict=True))
            same = sum(mine.filter == other.filter for mine, other in pairs)
            print(f"filters  {len(pairs)}, {same} of them bit for bit as pyarrow's")
        for name, taken in seconds.items():
            print(f"{name:14} {taken:7.3f} s   {taken / (2 * ROWS) * 1e9:6.0f} ns a value")
        print(f"ratio          {seconds['pyarrow'] / seconds['parquet_bloom']:7.1f} x faster (asked: at least 4)")


if __name__ == "__main__":
    main()
