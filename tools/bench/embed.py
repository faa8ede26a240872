"""Compare adding filters to an existing file by `embed` with pyarrow's way, to read and rewrite it, and with a copy.

The file: 2,000,000 rows, a random int64 id, a 36-byte request id, the 36-byte id of one of 1,000 devices (a dictionary
holds them), and three columns of payload; row groups of 500,000 rows. Two cases: filters on the first two, and on the
device, at an fpp of 0.01.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, in_turn

import parquet_bloom

ROWS = 2_000_000
ROW_GROUP = 500_000
CASES = {"ids": ("user_id", "request_id"), "dictionary": ("device",)}
TARGETS = {"ids": 4}
LEAST_CPU = 6  # times less than pyarrow
MOST_COPY = 1.5  # times the time of copying the file and waiting until it is on disk
DEVICES = 1000
FPP = 0.01


def make_table() -> pa.Table:
    rng = np.random.default_rng(7)
    raw = rng.bytes(16 * ROWS)
    ids = pa.array([str(uuid.UUID(bytes=raw[16 * i : 16 * i + 16])) for i in range(ROWS)])
    return pa.table(
        {
            "user_id": rng.integers(0, 2**63, ROWS),
            "request_id": ids,
            "device": ids[:DEVICES].take(pa.array(rng.integers(0, DEVICES, ROWS))),
            "ts": pa.array(
                np.sort(rng.integers(1_700_000_000_000_000, 1_760_000_000_000_000, ROWS)), pa.timestamp("us")
            ),
            "amount": rng.random(ROWS),
            "country": pa.array(rng.choice(["de", "fr", "it", "us"], ROWS)),
        }
    )


def measure(case: str, plain: Path, folder: Path) -> None:
    columns = CASES[case]
    ours, theirs, copied = folder / "ours.parquet", folder / "theirs.parquet", folder / "copied.parquet"

    def embed() -> None:
        parquet_bloom.embed(plain, list(columns), fpp=FPP, output=ours)

    def rewrite() -> None:
        ndv = DEVICES if case == "dictionary" else ROW_GROUP
        options = {name: {"ndv": ndv, "fpp": FPP} for name in columns}
        pq.write_table(pq.read_table(plain), theirs, row_group_size=ROW_GROUP, bloom_filter_options=options)

    def copy() -> None:
        subprocess.run(["cp", plain, copied], check=True)
        with copied.open("r+b") as file:
            os.fsync(file.fileno())

    def clear() -> None:  # exclude freeing the last run's file, and writing it to disk, from the measurement
        for output in (ours, theirs, copied):
            output.unlink(missing_ok=True)
        os.sync()

    runs = {"pyarrow": rewrite, "parquet_bloom": embed, "copy and sync": copy}
    seconds = in_turn(runs, repeat=9, before=clear)
    processor = in_turn(runs, repeat=9, before=clear, clock=time.process_time)
    rewrite()
    embed()
    report = parquet_bloom.verify(ours, data=True)
    assert report.ok, report
    with parquet_bloom.open(ours) as first, parquet_bloom.open(theirs) as second:
        pairs = list(zip(first.chunks(), second.chunks(), strict=True))
        same = sum(mine.filter == other.filter for mine, other in pairs)
        print(f"{case}: filters on {', '.join(columns)}; {same} of {len(pairs)} bit for bit as pyarrow's")
    for name, taken in seconds.items():
        each = 1e9 / (len(columns) * ROWS)
        print(
            f"  {name:14} {taken:7.3f} s   {taken * each:6.0f} ns a value"
            f"   CPU {processor[name]:7.3f} s   {processor[name] * each:6.0f} ns a value"
        )
    target = f" (asked: at least {TARGETS[case]})" if case in TARGETS else ""
    wall, cpu = (times["pyarrow"] / times["parquet_bloom"] for times in (seconds, processor))
    print(f"  ratio          {wall:7.1f} x faster{target}, {cpu:.1f} x less CPU (asked: at least {LEAST_CPU})")
    ratio = seconds["parquet_bloom"] / seconds["copy and sync"]
    print(f"  copy and sync  {ratio:7.2f} x its time (asked: at most {MOST_COPY})\n")


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "plain.parquet")
        pq.write_table(make_table(), plain, row_group_size=ROW_GROUP)
        header(
            "embed filters into a 2,000,000-row file",
            f"file     {plain.stat().st_size / 1e6:.0f} MB, 4 row groups, snappy",
            f"peer     pyarrow {pa.__version__}: read_table, write_table(bloom_filter_options=...)",
        )
        for case in CASES:
            measure(case, plain, Path(folder))


if __name__ == "__main__":
    main()
