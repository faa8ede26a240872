"""Embed filters into a Delta table of 1,000 files, 10 GB, in a store with 30 ms per request: time, requests, memory.

python tools/bench/table_embed.py [--files N] [--megabytes N] [--latency MS] [--folder FOLDER] [--output FILE]

The store is a server on loopback (`_slow_server.py`) that delays each request, any number of them in parallel; bytes
cost next to nothing. Its folder needs twice the table's size, and is deleted at the end. Each file has one row group of
random bytes, as a writer makes it of so few rows; an int64 `id`, which gets a filter, is a twelfth of them.
`embed_table` runs in a process of its own:

embed   the first run, which writes all files anew and commits once
again   the next one, in another process, which finds nothing to do
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, positive
from _results import record
from _slow_store import Server, url
from slow_store import NO_PROXY, PRICES

import parquet_bloom

OTHER = 88  # bytes of a row beside its id
PROGRAM = """
import json, sys, time
import parquet_bloom
table, options = sys.argv[1], json.loads(sys.argv[2])
started = time.perf_counter()
report = parquet_bloom.embed_table(table, ["id"], storage_options=options)
seconds = time.perf_counter() - started
with open("/proc/self/status") as status:  # getrusage would count the parent's memory at the fork as well
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024
print(json.dumps({
    "files": len(report.files), "bytes": report.bytes_written,
    "seconds": seconds, "cpu": time.process_time(), "peak": peak,
}))
"""


def make_table(folder: Path, files: int, megabytes: int) -> int:
    """Write a table, and return the bytes of its files."""
    from deltalake import convert_to_deltalake

    folder.mkdir(parents=True)
    rng, rows = np.random.default_rng(21), megabytes * 1_000_000 // (8 + OTHER)
    for number in range(files):
        ids = rng.integers(-(2**63), 2**63, rows)
        other = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(OTHER), rows, [None, pa.py_buffer(rng.bytes(rows * OTHER))]
        )
        table = pa.table({"id": ids, "other": other})
        pq.write_table(table, folder / f"part-{number:05}.parquet", use_dictionary=False, compression="none")
    convert_to_deltalake(folder)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def embed(server: Server) -> dict[str, Any]:
    """Run `embed_table` in a process of its own, and return what it took, by its own and by the server's account."""
    server.counts()
    command = [sys.executable, "-c", PROGRAM, url("t"), json.dumps(server.options)]
    environment = {**NO_PROXY, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return {**server.counts(), **json.loads(done.stdout)}


def print_cost(name: str, cost: dict[str, Any], files: int) -> None:
    requests = cost["requests"]
    number = sum(requests.values())
    dollars = sum(PRICES.get(kind, 0.0) * count for kind, count in requests.items()) / 1_000
    print(
        f"{name:7} {cost['seconds']:7.1f} s, {cost['cpu']:6.1f} s of CPU, peak {cost['peak'] / 1e6:4,.0f} MB; "
        f"{cost['files']:,} files of {cost['bytes'] / 1e9:.2f} GB written; down {cost['down'] / 1e6:,.0f} MB, "
        f"up {cost['up'] / 1e6:,.0f} MB"
    )
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(requests.items()))
    print(f"        {number:,} requests, {number / files:.1f} a file, at most {cost['most']} at once: {kinds}")
    print(f"        by S3's list price within a region: {dollars:.4f} dollars")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=positive, default=1_000)
    parser.add_argument("--megabytes", type=positive, default=10, help="size of a file")
    parser.add_argument("--latency", type=float, default=30, help="delay of a request in milliseconds")
    parser.add_argument("--folder", type=Path, default=None, help="where a folder for the store is made")
    parser.add_argument("--output", type=Path, default=None, help="file of results to store the output in")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        with record(options.output, "table_embed"):
            size = make_table(folder / "t", options.files, options.megabytes)
            header(
                f"filters for a Delta table in a store that takes {options.latency:g} ms a request",
                f"table    {options.files:,} files, {size / 1e9:.2f} GB; filters on id",
            )
            with Server(folder, options.latency) as server:
                for name in ("embed", "again"):
                    cost = embed(server)
                    if cost["files"] != (options.files if name == "embed" else 0):
                        raise SystemExit(f"{name}: {cost['files']} files were embedded")
                    print_cost(name, cost, options.files)
                table: Any = parquet_bloom.delta(url("t"), storage_options=server.options)
                if not parquet_bloom.prune(table, "id = 5").skipped_by["filter"]:
                    raise SystemExit("the filters are not asked")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
