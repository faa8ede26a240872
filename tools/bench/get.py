"""Rows by their keys: `Dataset.get` with a lake index, beside engines without one.

python tools/bench/get.py [--folder FOLDER] [--files N] [--keys N] [--peer-keys N] [--store-keys N] [--latency MS]
                          [--layout NAME]

The lakes have files of 40,000 rows in two row groups, with page indexes; the key is a random int64, the result has five
other columns. They are made once, in the folder given, and reused (5.5 GB):

defaults    as pyarrow writes it: unique texts are in dictionaries, of which a row needs about half; pages of 64 KiB
lookups     laid out for lookups: dictionaries for columns of few values alone, pages of 16 KiB

folder      a dataset of the folder and the index: each call finds out whether any file has changed
index       a dataset of an open index of row groups, whose files are as of its opening
zones       the same by an index of zones of 2,048 rows, about a page of keys
many        1,000 keys in one call
cold        one key, after the kernel has dropped what it had of all files
store       one key of the same files in a store on loopback that answers each request after 30 ms (`_slow_server.py`),
            in a process that knows their footers; round trips are those that the store counts, one after the other
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _common import header, positive  # first, to import the package of this checkout
from _get_store import look_up_in_store
from numpy.typing import NDArray

import parquet_bloom

ROWS, STEP = 40_000, 7_919
COLUMNS = ["ts", "amount", "country", "payload", "uuid"]
LAYOUTS: dict[str, dict[str, Any]] = {
    "defaults": {"data_page_size": 64 * 1024},
    "lookups": {"data_page_size": 16 * 1024, "use_dictionary": ["country"]},
}
INDEXES: dict[str, dict[str, Any]] = {
    "index": {"granularity": "row_group"},
    "zones": {"granularity": "zone", "zone_rows": 2_048},
}
MANY, COLD = 1_000, 9


def make_lake(folder: Path, files: int, options: dict[str, Any]) -> None:
    """Write a lake and its indexes, unless they are there."""
    if (folder / "complete").exists():
        return
    (folder / "data").mkdir(parents=True, exist_ok=True)
    ids, rng = list_ids(files), np.random.default_rng(1)
    words = pa.array([f"word{number:05d}" for number in range(5_000)])
    for number in range(files):
        keys = ids[number * ROWS : (number + 1) * ROWS]
        times = np.sort(rng.integers(1_700_000_000_000_000, 1_730_000_000_000_000, ROWS))
        amounts, countries = rng.random(ROWS), rng.integers(0, 200, ROWS)
        sixes = rng.integers(0, 5_000, (ROWS, 6))
        path = folder / "data" / f"part-{number:05d}.parquet"
        if path.exists():  # of a run that was stopped
            continue
        table = pa.table(
            {
                "id": keys,
                "uuid": _make_uuids(keys),
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                "amount": amounts,
                "country": words.take(pa.array(countries)),
                "payload": pc.binary_join_element_wise(*(words.take(pa.array(one)) for one in sixes.T), " "),
            }
        )
        new = path.with_name(f".{path.name}")
        pq.write_table(table, new, row_group_size=ROWS // 2, write_page_index=True, **options)
        new.rename(path)
    for name, settings in INDEXES.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        settings = {"lake": folder / "data", "expected_values": files * ROWS, **settings}
        with parquet_bloom.LakeIndex.create(folder / name, ["id"], **settings) as index:
            index.append()
    (folder / "complete").touch()


def _make_uuids(keys: NDArray[np.int64]) -> pa.Array:
    """Return a text of 32 hexadecimal digits for each key: the key times a prime."""
    high, low = keys.astype(np.uint64) >> np.uint64(32), keys.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    factor = np.uint64(2_654_435_761)
    carry = (high * factor + (low * factor >> np.uint64(32))) >> np.uint64(32)
    digits = np.stack([carry, keys.astype(np.uint64) * factor], axis=1).astype(">u8").tobytes().hex().encode()
    offsets = np.arange(len(keys) + 1, dtype=np.int32) * 32
    return pa.Array.from_buffers(pa.string(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def list_ids(files: int) -> NDArray[np.int64]:
    """Return the keys of all files, one file after the other."""
    return np.random.default_rng(0).permutation(files * ROWS).astype(np.int64) * STEP


def draw(rng: np.random.Generator, files: int, count: int) -> list[int]:
    return (rng.integers(0, files * ROWS, count) * STEP).tolist()


def measure(look_up: Callable[[int], int], keys: list[int]) -> tuple[float, float, float]:
    """Return the median, the 99th percentile and the median of CPU time of lookups of one row, in ms."""
    seconds, cpu = [], []
    for key in keys:
        before, started = time.process_time(), time.perf_counter()
        rows = look_up(key)
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - before)
        assert rows == 1, (key, rows)
    ordered = sorted(seconds)
    return (
        1e3 * statistics.median(ordered),
        1e3 * ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)],
        1e3 * statistics.median(cpu),
    )


def drop_pages(folder: Path) -> None:
    """Have the kernel forget the contents of all files."""
    os.sync()
    for path in [*folder.glob("data/*"), *(path for name in INDEXES for path in folder.glob(f"{name}/*"))]:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def engines(folder: Path) -> Iterator[tuple[str, Callable[[int], int]]]:
    """Yield what else looks up a key: without an index."""
    import datafusion
    import duckdb

    names = ", ".join(COLUMNS)
    connection = duckdb.connect()
    connection.execute("SET parquet_metadata_cache = true")
    query = f"SELECT {names} FROM read_parquet('{folder}/data/*.parquet') WHERE id = "
    yield "DuckDB", lambda key: connection.sql(f"{query}{key}").to_arrow_table().num_rows
    context = datafusion.SessionContext()
    context.register_parquet("lake", str(folder / "data"))
    yield (
        "DataFusion",
        lambda key: sum(
            batch.num_rows for batch in context.sql(f"SELECT {names} FROM lake WHERE id = {key}").collect()
        ),
    )
    data = folder / "data"
    yield "read_table, no index", lambda key: parquet_bloom.read_table(data, f"id = {key}", COLUMNS).num_rows


def show(name: str, figures: tuple[float, float, float], count: int) -> None:
    print(f"  {name:<28}{figures[0]:>10.2f}{figures[1]:>10.2f}{figures[2]:>10.2f}{count:>8}")


def show_cold(name: str, look_up: Callable[[int], int], keys: list[int], folder: Path) -> None:
    """Measure each key after the kernel has forgotten all files."""

    def measure_one(key: int) -> tuple[float, float]:
        drop_pages(folder)
        figures = measure(look_up, [key])
        return figures[0], figures[2]

    times, cpu = zip(*map(measure_one, keys), strict=True)
    show(name, (statistics.median(times), max(times), statistics.median(cpu)), len(keys))


def run(name: str, folder: Path, arguments: argparse.Namespace) -> None:
    """Measure one lake."""
    make_lake(folder, arguments.files, LAYOUTS[name])
    rng = np.random.default_rng(2)
    files, count = arguments.files, arguments.keys
    print(f"{name}: one key             median ms    99 %, ms   CPU ms    keys")
    of_groups = list_ids(files)[:: ROWS // 2].tolist()  # one of each row group
    opened, zones = (parquet_bloom.LakeIndex.open(folder / name) for name in INDEXES)
    datasets = {
        "get, folder and index": parquet_bloom.dataset(folder / "data", index=folder / "index"),
        "get, open index": parquet_bloom.dataset(opened),
        "get, open index of zones": parquet_bloom.dataset(zones),
    }
    for title, dataset in datasets.items():
        first = measure(lambda key: dataset.get("id", key, COLUMNS).num_rows, draw(rng, files, 1))  # noqa: B023
        for key in of_groups:
            dataset.get("id", key, COLUMNS)
        show(title, measure(lambda key: dataset.get("id", key, COLUMNS).num_rows, draw(rng, files, count)), count)  # noqa: B023
        show("  its first call", first, 1)
    peers = list(engines(folder))
    for title, look_up in peers:
        look_up(draw(rng, files, 1)[0])
        keys = draw(rng, files, arguments.peer_keys)
        show(title, measure(look_up, keys), len(keys))
    for title, dataset in datasets.items():
        rates = []
        for _ in range(5):
            keys = draw(rng, files, MANY)
            before, started = time.process_time(), time.perf_counter()
            rows = dataset.get("id", keys, [*COLUMNS, "id"])
            seconds, cpu = time.perf_counter() - started, time.process_time() - before
            assert rows["id"].to_pylist() == keys
            rates.append((MANY / seconds, MANY / cpu))
        wall, core = (statistics.median(each) for each in zip(*rates, strict=True))
        print(f"  {MANY:,} keys in a call, {title[5:]}: {wall:,.0f} rows/s, {core:,.0f} rows/s a core")
    print("cold pages, one key    median ms    99 %, ms   CPU ms    keys")
    for title, dataset in datasets.items():
        show_cold(title, lambda key: dataset.get("id", key, COLUMNS).num_rows, draw(rng, files, COLD), folder)  # noqa: B023
    for title, look_up in peers:
        show_cold(title, look_up, draw(rng, files, min(3, arguments.peer_keys)), folder)
    opened.close()
    zones.close()
    print()
    if arguments.store_keys:
        look_up_in_store(folder, files, COLUMNS, draw(rng, files, arguments.store_keys), arguments.latency)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder of the lakes, which are kept; default: a temporary one")
    parser.add_argument("--files", type=positive, default=1_000)
    parser.add_argument("--keys", type=positive, default=2_000, help="lookups of one key")
    parser.add_argument("--peer-keys", type=positive, default=9, help="the same of engines without an index")
    parser.add_argument("--store-keys", type=int, default=40, help="the same in a slow store; 0 to leave it out")
    parser.add_argument("--latency", type=float, default=30, help="milliseconds until that store answers a request")
    parser.add_argument("--layout", choices=[*LAYOUTS], action="append", help="of the lakes to measure; default: all")
    arguments = parser.parse_args()
    header("rows by their keys", f"lake     {arguments.files:,} files of {ROWS:,} rows")
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.layout or LAYOUTS:
            run(name, (arguments.folder or Path(temporary)) / name, arguments)


if __name__ == "__main__":
    main()
