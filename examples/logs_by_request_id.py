"""Find one request in a week of logs, by pyarrow alone. Read it from top to bottom.

    python examples/logs_by_request_id.py [FOLDER]

1. logs as a service writes them: one Parquet file an hour, request ids that are random, no filters
2. filters for the request ids, embedded into these files; an index over all of them
3. one request, looked for in four ways, with what each of them had to read
4. an hour later: a new file arrives, and the index learns about it

FOLDER keeps what is made; without it a temporary one is used. Needs nothing but `pip install parquet-bloom`.
"""

import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import parquet_bloom

HOURS, REQUESTS_PER_HOUR = 7 * 24, 2_000
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


# 1. Logs. Ids are random, so the minimum and maximum of a file cover nearly all of them and rule out nothing.


def write_hour(folder: Path, hour: int) -> list[str]:
    """Write the log file of an hour, and return its request ids."""
    dice = random.Random(hour)
    at = BEGIN + timedelta(hours=hour)
    ids = [str(uuid.UUID(int=dice.getrandbits(128), version=4)) for _ in range(REQUESTS_PER_HOUR)]
    log = pa.table(
        {
            "at": pa.array(
                [at + timedelta(seconds=1.8 * n) for n in range(REQUESTS_PER_HOUR)], pa.timestamp("ms", "UTC")
            ),
            "request_id": ids,
            "path": [f"/shop/item/{dice.randrange(5_000)}" for _ in ids],
            "status": pa.array([dice.choice([200, 200, 200, 304, 404, 500]) for _ in ids], pa.int16()),
        }
    )
    pq.write_table(log, folder / f"{at:%Y-%m-%dT%H}.parquet")
    return ids


# 3. Four ways to the same row.


def plain_scan(logs: Path, index: Path, request: str) -> pa.Table:
    return pyarrow.dataset.dataset(logs).to_table(filter=pyarrow.dataset.field("request_id") == request)


def by_filters(logs: Path, index: Path, request: str) -> pa.Table:
    return parquet_bloom.read_table(logs, f"request_id = '{request}'")


def by_index(logs: Path, index: Path, request: str) -> pa.Table:
    return parquet_bloom.dataset(logs, index=index).get("request_id", request)


def by_open_index(dataset: parquet_bloom.types.Dataset, request: str) -> pa.Table:
    return dataset.get("request_id", request)  # the index stays open between calls, as in a service


def show(name: str, way: Callable[[], pa.Table]) -> None:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        rows = way()
        seconds.append(time.perf_counter() - start)
    print(f"   {name:<34} {rows.num_rows:4} {1000 * seconds[0]:11.1f} {1000 * min(seconds):10.1f}")


def main(folder: Path) -> None:
    logs, index = folder / "logs", folder / "requests.index"
    logs.mkdir(parents=True)

    print(f"1. logs: {HOURS} files of {REQUESTS_PER_HOUR:,} requests")
    requests = [write_hour(logs, hour)[17] for hour in range(HOURS)]

    print("2. filters, and an index")
    for file in sorted(logs.glob("*.parquet")):
        parquet_bloom.embed(file, ["request_id"], fpp=0.001)
    with parquet_bloom.LakeIndex.create(index, ["request_id"], lake=logs) as opened:
        print(f"   {opened.append()}")

    wanted = requests[HOURS // 2]
    print(f"3. request {wanted}")
    report = parquet_bloom.prune(logs, f"request_id = '{wanted}'")
    print(f"   filters alone: {report}\n")
    print(f"   {'way':<34} {'rows':>4} {'first, ms':>11} {'again, ms':>10}")
    show("every file (pyarrow)", lambda: plain_scan(logs, index, wanted))
    show("the filters of every file", lambda: by_filters(logs, index, wanted))
    show("the index, opened for each lookup", lambda: by_index(logs, index, wanted))
    dataset = parquet_bloom.dataset(logs, index=index)
    show("the index, kept open", lambda: by_open_index(dataset, wanted))

    print("\n4. one hour later")
    newest = write_hour(logs, HOURS)[17]
    print(f"   not indexed yet, and found: {dataset.get('request_id', newest).num_rows} row")
    with parquet_bloom.LakeIndex.open(index) as opened:
        print(f"   {opened.append()}")
    print(f"   indexed, and found: {dataset.get('request_id', newest).num_rows} row")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="logs ") as name:
            main(Path(name))
