"""Look up one id in 1,000 files in a store with 30 ms per request: time, requests and bytes of ours and of engines.

python tools/bench/slow_store.py [--quick] [--latency MS] [--folder FOLDER] [--ways NAME,...] [--repeat N] [--rebuild]
                                 [--files N] [--duckdb PYTHON] [--output FILE]

The store is a server on loopback (`_slow_server.py`) that delays each request, any number of them in parallel; bytes
cost next to nothing. It counts requests and bytes of bodies in both directions. Each case has separate processes:

cold    the first lookup of a process, which has imported its dependencies and has nothing of the store in memory
warm    the next lookup in the same process, of another id
new     the first lookup of a process, with a cache on disk filled by an earlier one

Each lookup is for another id, which one row has; the result is compared with that row. The figures are medians; a case
whose first lookup takes longer than 10 s has no second run. "MB again" are bytes of an object that the lookup had
already received, "at once" is the maximum number of requests that waited at the same time.

DuckDB's httpfs has to match its DuckDB, so it has a separate environment, FOLDER/duckdb unless PYTHON is given:
    python -m venv FOLDER/duckdb
    FOLDER/duckdb/bin/pip install duckdb==1.4.4 duckdb-extension-httpfs==1.4.4
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _slow_store
import numpy as np
from _common import header, positive
from _peers import HERE, Peer
from _results import record
from _slow_store import APPENDED, DATA, INDEX, ZONED, ZONES, Bucket, Server, url

import parquet_bloom

LONG = 10.0  # seconds of a first lookup after which there is no second run
# S3's list prices: dollars for 1,000 requests (DELETE is free), and for a GB that leaves the region; within it, none.
READING, WRITING, LEAVING = 0.0004, 0.005, 0.09
PRICES = {"GET": READING, "HEAD": READING, "LIST": WRITING, "PUT": WRITING, "POST": WRITING}
NO_PROXY = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True)
class Case:
    """A way to query (see `_slow_store_one.py`), and the moments to do so."""

    way: str
    title: str
    moments: tuple[str, ...] = ("cold", "warm")
    zoned: bool = False  # whether its rows are those of the file with zones
    module: str = "parquet_bloom"


CASES = (
    Case("read_table", "read_table"),
    Case("prune_disk", "prune, DiskMetadataCache", ("new",)),
    Case("read_table_disk", "read_table, DiskMetadataCache", ("new",)),
    Case("index_path", "index, no paths"),
    Case("index_open", "index, open, with row"),
    Case("index_alone", "index, lookup alone"),
    Case("index_not_live", "index, live=False, opened and asked"),
    Case("scan_polars", "scan_polars", module="polars"),
    Case("zoned", "zones", zoned=True),
    Case("not_zoned", "zones, without them", zoned=True),
    Case("append", "index append, to an empty one", ("cold",)),
    Case("append_more", "index append, to the lake's", ("cold",)),
    Case("duckdb", "DuckDB + httpfs", module="duckdb"),
    Case("polars", "polars scan_parquet", module="polars"),
    Case("pyarrow_dataset", "pyarrow dataset", module="pyarrow"),
    Case("datafusion", "DataFusion", module="datafusion"),
)
SLOW_WAYS = ("datafusion",)  # run only if requested, as it takes minutes


@dataclass
class Used:
    """The cost of the lookups of one case at one moment: a value each."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)

    def median(self, name: str) -> float:
        return statistics.median(count[name] for count in self.counts)

    def below(self, name: str) -> float:
        """Return the bytes sent of a file or folder at the top of the bucket."""
        return statistics.median(count["below"].get(name, 0) for count in self.counts)

    @property
    def ms(self) -> float:
        return statistics.median(self.seconds) * 1e3

    @property
    def requests(self) -> float:
        return statistics.median(sum(count["requests"].values()) for count in self.counts)

    @property
    def megabytes(self) -> float:
        return statistics.median(count["down"] + count["up"] for count in self.counts) / 1e6

    @property
    def dollars(self) -> tuple[float, float]:
        """Return the cost of 1,000 lookups at list prices, within the region and out of it."""
        within = statistics.median(
            sum(PRICES.get(kind, 0.0) * number for kind, number in count["requests"].items()) for count in self.counts
        )
        return within, within + self.median("down") / 1e9 * LEAVING * 1e3

    @property
    def kinds(self) -> str:
        return ", ".join(f"{number:,} {kind}" for kind, number in sorted(self.counts[-1]["requests"].items()))


class Race:
    """Runs cases, one after the other, on one store."""

    def __init__(self, bucket: Bucket, server: Server, repeat: int, duckdb: Path | None, caches: Path) -> None:
        self._bucket = bucket
        self._server = server
        self._repeat = repeat
        self._duckdb = duckdb
        self._caches = caches
        rng = np.random.default_rng()
        self._rows = {False: bucket.rows(rng), True: bucket.zoned_rows(rng)}
        self._where = {
            "endpoint": server.endpoint,
            "options": server.options,
            "bucket": _slow_store.BUCKET,
            "data": url(DATA),
            "index": url(INDEX),
            "zoned": url(ZONED),
            "zones": url(ZONES),
            "more": url(bucket.more_key),
            "more_files": bucket.more.files,
        }
        self.used: dict[tuple[str, str], Used] = {}

    def run(self, case: Case) -> None:
        print(f"... {case.title}", file=sys.stderr)
        where = {**self._where, "cache": str(self._caches / case.way)}
        if case.moments == ("new",):
            self._in_a_process(case, where, ("filling",))
        for turn in range(self._repeat):
            where["appended"] = url(APPENDED.format(turn))
            where["copy"] = url(APPENDED.format(f"copy-{turn}"))
            if self._in_a_process(case, where, case.moments) > LONG:
                break

    def _in_a_process(self, case: Case, where: Mapping[str, Any], moments: tuple[str, ...]) -> float:
        """Query at each of the moments; return the seconds of the first."""
        python = sys.executable if case.way != "duckdb" else str(self._duckdb)
        peer = Peer(case.title, [python, str(HERE / "_slow_store_one.py"), case.way], environment=NO_PROXY)
        try:
            peer.ask("prepare", json.dumps(where))
            for moment in moments:
                self._ask(peer, case, moment)
        finally:
            peer.close()
        return self.used[case.way, moments[0]].seconds[-1]

    def _ask(self, peer: Peer, case: Case, moment: str) -> None:
        row = next(self._rows[case.zoned])
        before = self._server.counts()
        answer = json.loads(peer.ask("lookup", row["id"]))
        counts = self._server.counts()
        if answer["rows"] is not None and answer["rows"] != [row]:
            raise SystemExit(f"{peer.name} has {answer['rows']} for id {row['id']}: there is {row}")
        used = self.used.setdefault((case.way, moment), Used())
        used.seconds.append(answer["seconds"])
        used.cpu.append(answer["cpu"])
        used.counts.append({**counts, "cpu": counts["cpu"] - before["cpu"]})


def print_table(cases: list[Case], used: Mapping[tuple[str, str], Used]) -> None:
    named = [(f"{case.title}, {moment}", used[case.way, moment]) for case in cases for moment in case.moments]
    width = max(len(name) for name, _ in named)
    print(f"  {'':{width}}         ms   requests         MB   MB again   at once   ms of CPU   the server's")
    for name, one in named:
        print(
            f"  {name:{width}} {one.ms:10,.0f} {one.requests:10,.0f} {one.megabytes:10,.2f} "
            f"{one.median('again') / 1e6:10,.2f} {one.median('most'):9,.0f} {statistics.median(one.cpu) * 1e3:11,.0f} "
            f"{one.median('cpu') * 1e3:14,.0f}   {one.kinds}"
        )
    print()


def verdicts(bucket: Bucket, used: Mapping[tuple[str, str], Used]) -> Iterator[tuple[str, float, float, str]]:
    """Return the targets: the case, its cost, the maximum, and the unit."""
    files = bucket.lake.files
    scale = files / 1_000
    limits = [
        ("read_table", "warm", 20, 600),
        ("read_table", "cold", files + 10, 3_000 * scale),
        ("prune_disk", "new", 20, None),
        ("read_table_disk", "new", 20, None),
        ("append", "cold", None, 3_000),
        ("append_more", "cold", None, 3_000),
    ]
    for way, moment, requests, milliseconds in limits:
        one = used.get((way, moment))
        if one is not None and requests is not None:
            yield f"{way}, {moment}", one.requests, requests, "requests"
        if one is not None and milliseconds is not None:
            yield f"{way}, {moment}", one.ms, milliseconds, "ms"
    for moment in ("cold", "warm"):
        ours, limit = used.get(("scan_polars", moment)), used.get(("read_table", moment))
        if ours is not None and limit is not None:
            yield f"scan_polars, {moment}", ours.ms, limit.ms, "ms, as read_table takes"
    if (zoned := used.get(("zoned", "cold"))) is not None:
        yield "zones, cold", zoned.below(ZONES) / 1e3, bucket.size(ZONES) / 1e5, "KB of the index, 1 % of it"
    for way in ("append", "append_more"):
        if (append := used.get((way, "cold"))) is not None:
            yield f"{way}, cold", append.median("again") / 1e3, 0, "KB sent again"


def print_verdicts(bucket: Bucket, used: Mapping[tuple[str, str], Used]) -> None:
    for name, taken, limit, what in verdicts(bucket, used):
        print(f"{name}: {taken:,.0f} (asked: at most {limit:,.0f}) {what}: {'reached' if taken <= limit else 'missed'}")
    for moment in ("cold", "warm"):
        if (one := used.get(("read_table", moment))) is not None:
            within, out = one.dollars
            prices = f"{within:,.3f} dollars, {out:,.3f} out of the region"
            print(f"1,000 lookups by read_table, {moment}, by S3's list price: {prices}")


def choose(requested: list[str] | None, duckdb: Path) -> list[Case]:
    """Return the cases that can run here; print the reason for each other one."""
    chosen = []
    for case in CASES:
        if case.way in SLOW_WAYS if requested is None else case.way not in requested:
            continue
        if case.way == "duckdb":
            if not duckdb.exists():
                print(f"left out {case.title}: no environment has it; see the first lines of slow_store.py")
                continue
        elif importlib.util.find_spec(case.module) is None:
            print(f"left out {case.title}: {case.module} is not installed; pip install {case.module}")
            continue
        if case.way == "read_table_disk" and "cache" not in inspect.signature(parquet_bloom.read_table).parameters:
            print(f"left out {case.title}: read_table takes no cache")
            continue
        chosen.append(case)
    return chosen


def _versions(cases: list[Case], duckdb: Path) -> str:
    texts = {}
    for case in cases:
        if case.module == "duckdb":
            command = [str(duckdb), "-c", "import duckdb; print(duckdb.__version__)"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            texts[case.module] = f"duckdb {done.stdout.strip()} of 16 threads"
        elif case.module != "parquet_bloom":
            texts[case.module] = f"{case.module} {importlib.metadata.version(case.module)}"
    return ", ".join(texts.values())


def _ways(text: str) -> list[str]:
    names = [case.way for case in CASES]
    for name in text.split(","):
        if name not in names:
            raise argparse.ArgumentTypeError(f"no way {name!r}; there are: {', '.join(names)}")
    return text.split(",")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=positive, default=1_000)
    parser.add_argument("--quick", action="store_true", help="100 files, one run of each case")
    parser.add_argument("--latency", type=float, default=30, help="delay of a request in milliseconds")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir(), "slow_store_lake"), help="folder of the lake"
    )
    parser.add_argument("--ways", type=_ways, default=None, help="comma-separated names; default: all but the slowest")
    parser.add_argument("--repeat", type=positive, default=3, help="number of processes of each case")
    parser.add_argument("--rebuild", action="store_true", help="rebuild index and zones")
    parser.add_argument("--duckdb", type=Path, default=None, help="a Python with DuckDB and httpfs")
    parser.add_argument("--output", type=Path, default=None, help="file of results to store the output in")
    options = parser.parse_args()
    files, more, repeat = (100, 5, 1) if options.quick else (options.files, 50, options.repeat)
    duckdb = options.duckdb or options.folder / "duckdb" / "bin" / "python"
    os.environ.update(NO_PROXY)
    bucket = Bucket(options.folder, files, more)
    with record(options.output, "slow_store"):
        cases = choose(options.ways, duckdb)
        bucket.make(options.rebuild, any(case.zoned for case in cases))
        _header(bucket, options.latency, _versions(cases, duckdb), repeat)
        bucket.empty(repeat if any(case.way == "append_more" for case in cases) else 0)
        try:
            with Server(bucket.folder, options.latency) as server, tempfile.TemporaryDirectory() as caches:
                race = Race(bucket, server, repeat, duckdb, Path(caches))
                for case in cases:
                    race.run(case)
        finally:
            bucket.empty(0)
        print_table(cases, race.used)
        print_verdicts(bucket, race.used)


def _header(bucket: Bucket, latency: float, versions: str, repeat: int) -> None:
    lake = bucket.lake
    details = [
        f"lake     {bucket.size(DATA) / 1e6:,.0f} MB, {lake.row_groups} row groups of {lake.rows:,} rows a file; "
        f"filters on id: fpp {lake.fpp}; its index {bucket.size(INDEX) / 1e6:,.1f} MB",
        f"append   {bucket.more.files} files of {bucket.size(bucket.more_key) / 1e6:.1f} MB in all",
    ]
    if (bucket.folder / ZONES).exists():
        details.append(f"zones    {bucket.size(ZONES) / 1e6:.1f} MB over a file of {bucket.size(ZONED) / 1e6:,.0f} MB")
    header(
        f"one id among {lake.files:,} files in a store that takes {latency:g} ms a request",
        *details,
        f"scale    {lake.files:,} files, 1,000 were asked for",
        f"peers    {versions or 'none'}",
        f"medians  of {repeat} processes of each case, of one where a lookup takes more than {LONG:g} s",
    )


if __name__ == "__main__":
    main()
