"""Rows by their keys in a store that answers late: round trips, requests and time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _slow_store import Server, url

import parquet_bloom

DATA, INDEX = "data/", "store.index"


def look_up_in_store(folder: Path, files: int, columns: Sequence[str], keys: Sequence[int], latency: float) -> None:
    """Look up keys of one row each, and print what that takes.

    Parameters
    ----------
    folder : of the lake, with its files in `data`; an index by the etags of the store is made in it, once.
    keys : the first few warm up.
    latency : milliseconds until the store answers.
    """
    _make_index(folder)
    with Server(folder, latency) as server:
        options = {"storage_options": server.options}
        print(f"{files:,} files in a store that answers after {latency:g} ms, one key, warm process")
        print(f"  {'':<26}{'round trips':>12}{'at most':>9}{'requests':>10}{'kB':>7}{'median ms':>11}{'keys':>6}")
        parquet_bloom.prune(url(DATA), "id = 1", **options)  # reads all footers
        with parquet_bloom.LakeIndex.open(url(INDEX), **options) as index:
            datasets = {
                "get, folder and index": parquet_bloom.dataset(url(DATA), index=url(INDEX), **options),
                "get, open index": parquet_bloom.dataset(index),
            }
            for title, dataset in datasets.items():
                _measure(title, dataset, columns, keys, server)
    print()


def _measure(title: str, dataset: Any, columns: Sequence[str], keys: Sequence[int], server: Server) -> None:
    seconds, counts = [], []
    for number, key in enumerate([*keys[:3], *keys]):
        server.counts()
        started = time.perf_counter()
        rows = dataset.get("id", key, columns).num_rows
        taken = time.perf_counter() - started
        assert rows == 1, (key, rows)
        if number >= 3:
            seconds.append(taken)
            counts.append(server.counts())
    rounds = [count["rounds"] for count in counts]
    requests = statistics.median(sum(count["requests"].values()) for count in counts)
    kilobytes = statistics.median(count["down"] for count in counts) / 1e3
    print(
        f"  {title:<26}{statistics.median(rounds):>12g}{max(rounds):>9}{requests:>10g}{kilobytes:>7.0f}"
        f"{1e3 * statistics.median(seconds):>11.1f}{len(seconds):>6}"
    )


def _make_index(folder: Path) -> None:
    complete = folder / f"{INDEX}.complete"
    if complete.exists():
        return
    with Server(folder, 0) as server:
        settings: dict[str, Any] = {"granularity": "row_group", "storage_options": server.options}
        with parquet_bloom.LakeIndex.create(url(INDEX), ["id"], lake=url(DATA), **settings) as index:
            index.append()
    complete.touch()
