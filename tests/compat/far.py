"""Large filters read over a network: readers that take a short read of a filter for all of it.

A reader that does not know the length of a filter reads its header, then as many bytes as that says; streams may give
fewer at a time. Local files hardly ever do, so a server is used.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.servers.webhdfs_server import WebHdfsServer
from support.writers import surgery

import parquet_bloom

ROWS, ROUNDS = 40, 2
NDV = 500_000  # given for each filter, which then has a mebibyte
KINDS = ("length", "no length")


def value_of(row: int) -> int:
    return row * 7919


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A server's URL, below which is a file for each of KINDS."""
    folder.mkdir(parents=True)
    with_lengths, without = (folder / f"{number}.parquet" for number in range(len(KINDS)))
    table = pa.table({"k": pa.array(map(value_of, range(ROWS)), pa.int64())})
    pq.write_table(table, with_lengths, row_group_size=ROWS // 2)
    parquet_bloom.embed(with_lengths, {"k": {"fpp": 0.01, "ndv": NDV}})
    shutil.copy(with_lengths, without)
    surgery.without_lengths(without)
    with WebHdfsServer(folder) as server:
        yield server.url


def lost(worker: Any, url: str) -> dict[str, tuple[int, int]]:
    """{kind: rows lost, values queried} by a release of Spark."""
    results = {}
    for number, kind in enumerate(KINDS):
        path = f"{url}/{number}.parquet"
        questions = [{"path": path, "where": f"k = {value_of(row % ROWS)}"} for row in range(ROUNDS * ROWS)]
        counts = worker.counts(questions)
        answered = [count for count in counts if count is not None]
        results[kind] = answered.count(0), len(answered)
    return results
