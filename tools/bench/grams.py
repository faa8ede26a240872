"""A piece of text among logs: an index of grams beside scans, ClickHouse's text index and Lance's n-gram index.

python tools/bench/grams.py --logs FOLDER [--folder FOLDER] [--megabytes N] [--pieces N] [--peers PYTHON]

FOLDER has log files (*.log). Of each one a Parquet file is made: lines drawn at random, in which numbers of more than
two digits are replaced by others of the same length; zstd, a page index, row groups of 131,072 lines.

build     megabytes of text indexed in a second of CPU, and the index's share of the text, of one core
scan      DuckDB, polars and DataFusion over the same files, warm
index     `read_table(index=)`; the rows are compared, and shown to be those of DuckDB
piece     10 characters of a random line that are in few lines; medians over the pieces, each asked twice
--peers   a Python with chdb and pylance, to which the texts are given, each with its own index; they answer from
          their own tables
--store   also from an object store (`_slow_server.py`) that takes 30 ms for a request, by an index that is open
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, positive  # first, to import the package of this checkout

import parquet_bloom

_ROW_GROUP = 131_072
_NUMBER = re.compile(rb"[0-9a-fA-F]*[0-9][0-9a-fA-F]*")
_RARE = 50  # lines that have a piece, at most


def make_lake(logs: Path, folder: Path, num_bytes: int) -> int:
    """Write the files, unless they are there; return how many bytes of text they have."""
    marker = folder / "bytes"
    if marker.exists():
        return int(marker.read_text())
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lake").mkdir(parents=True)
    sources, total, rng = sorted(logs.glob("*.log")), 0, random.Random(1)

    def vary(match: re.Match[bytes]) -> bytes:
        text = match[0]
        if len(text) <= 2:
            return text
        if re.search(rb"[a-fA-F]", text):
            return b"%0*x" % (len(text), rng.getrandbits(4 * len(text)))
        return b"%0*d" % (len(text), rng.randrange(10 ** len(text)))

    for number, source in enumerate(sources):
        lines = [line.decode("utf-8", "replace").encode() for line in source.read_bytes().splitlines() if line]
        schema = pa.schema({"line": pa.int64(), "message": pa.string()})
        written = count = 0
        with pq.ParquetWriter(
            folder / "lake" / f"{number:02}.parquet", schema, compression="zstd", write_page_index=True
        ) as writer:
            while written < num_bytes // len(sources):
                texts = [_NUMBER.sub(vary, rng.choice(lines)) for _ in range(_ROW_GROUP)]
                columns = [pa.array(range(count, count + len(texts)), pa.int64()), pa.array(texts).cast(pa.string())]
                writer.write_table(pa.table(columns, schema=schema), row_group_size=_ROW_GROUP)
                written, count = written + sum(map(len, texts)), count + len(texts)
        total += written
    marker.write_text(str(total))
    return total


def draw_pieces(lake: Path, number: int) -> list[str]:
    """Return pieces of 10 characters that few lines have."""
    import duckdb

    rng, pieces = random.Random(2), []
    files = sorted(lake.glob("*.parquet"))
    while len(pieces) < number:
        file = pq.ParquetFile(rng.choice(files))
        texts = file.read_row_group(rng.randrange(file.num_row_groups), ["message"])["message"]
        text = texts[rng.randrange(len(texts))].as_py()
        if len(text) < 10 or not text.isascii():
            continue
        first = rng.randrange(len(text) - 9)
        piece = text[first : first + 10]
        count = f"SELECT count(*) FROM read_parquet('{lake}/*.parquet') WHERE contains(message, ?)"
        if duckdb.execute(count, [piece]).fetchall()[0][0] <= _RARE:
            pieces.append(piece)
    return pieces


def build(lake: Path, index: Path, granularity: str, num_bytes: int) -> None:
    shutil.rmtree(index, ignore_errors=True)
    wall, cpu = time.perf_counter(), time.process_time()
    with parquet_bloom.LakeIndex.create(index, ["grams(message)"], lake=lake, granularity=granularity) as made:
        made.append()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    size = sum(file.stat().st_size for file in index.iterdir())
    print(
        f"  {granularity:10} {wall:8.1f} s {cpu:8.1f} s CPU {num_bytes / 1e6 / cpu:8.1f} MB a second of CPU"
        f" {size / 1e6:9.1f} MB {size / num_bytes:8.1%} of the text"
    )


Ask = Callable[[str], int]


def quote(text: str) -> str:
    return text.replace("'", "''")


def list_scans(lake: Path) -> dict[str, Ask]:
    import datafusion
    import duckdb
    import polars as pl

    context = datafusion.SessionContext()
    context.register_parquet("lake", str(lake))
    pattern = f"{lake}/*.parquet"

    def by_duckdb(piece: str) -> int:
        rows = f"SELECT line, message FROM read_parquet('{pattern}') WHERE contains(message, ?)"
        return duckdb.sql(rows, params=[piece]).to_arrow_table().num_rows

    def by_polars(piece: str) -> int:
        return pl.scan_parquet(pattern).filter(pl.col("message").str.contains(piece, literal=True)).collect().height

    def by_datafusion(piece: str) -> int:
        rows = f"SELECT line, message FROM lake WHERE contains(message, '{quote(piece)}')"
        batches = context.sql(rows).collect()
        return sum(batch.num_rows for batch in batches)

    return {"DuckDB": by_duckdb, "polars": by_polars, "DataFusion": by_datafusion}


def measure(ways: dict[str, Ask], pieces: list[str], expected: dict[str, int]) -> dict[str, float]:
    """Ask each way for each piece, twice; return the median milliseconds of each."""
    medians = {}
    for name, ask in ways.items():
        taken = []
        ask(pieces[0])
        for piece in pieces * 2:
            started = time.perf_counter()
            found = ask(piece)
            taken.append((time.perf_counter() - started) * 1e3)
            if expected.setdefault(piece, found) != found:
                raise SystemExit(f"{name} finds {found} lines with {piece!r}, not {expected[piece]}")
        medians[name] = statistics.median(taken)
    return medians


class _Store:
    """The folder as a bucket of the slow store."""

    def __init__(self, folder: Path, latency: int):
        command = [sys.executable, str(Path(__file__).parent / "_slow_server.py"), "--latency", str(latency)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([*command, f"bench={folder}"], **pipes)
        self._url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        keys = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
        self.options = {"endpoint": self._url, **keys, "allow_http": True, "virtual_hosted_style_request": False}

    def count(self) -> dict[str, object]:
        return json.load(urllib.request.urlopen(f"{self._url}/_counts"))

    def __enter__(self) -> _Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()


def measure_store(folder: Path, pieces: list[str], expected: dict[str, int]) -> None:
    """Ask for each piece twice by an open index of zones of the files in the store."""
    shutil.rmtree(folder / "stored.index", ignore_errors=True)
    index = "s3://bench/stored.index"
    with _Store(folder, 0) as store:
        settings = {"granularity": "zone", "storage_options": store.options}
        with parquet_bloom.LakeIndex.create(index, ["grams(message)"], lake="s3://bench/lake/", **settings) as made:
            made.append()
    taken, requests, megabytes = [], [], []
    with _Store(folder, 30) as store, parquet_bloom.LakeIndex.open(index, storage_options=store.options) as opened:
        for piece in pieces * 2:
            store.count()
            started = time.perf_counter()
            where = f"contains(message, '{quote(piece)}')"
            rows = parquet_bloom.read_table(None, where=where, index=opened, storage_options=store.options).num_rows
            taken.append((time.perf_counter() - started) * 1e3)
            if rows != expected[piece]:
                raise SystemExit(f"from the store there are {rows} lines with {piece!r}, not {expected[piece]}")
            counts = store.count()
            requests.append(sum(counts["requests"].values()))
            megabytes.append(counts["down"] / 1e6)
    middle = [statistics.median(each) for each in (taken, requests, megabytes)]
    print(
        f"\nfrom a store of 30 ms: {middle[0]:.0f} ms, {middle[1]:.0f} requests, {middle[2]:.1f} MB, medians;"
        f" at most {max(taken):.0f} ms, {max(requests)} requests"
    )


_PEER = """
import sys, time, statistics, shutil, glob
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.dataset as pd
lake, folder, pieces = sys.argv[1], sys.argv[2], sys.argv[3:]
def report(name, ask, size, seconds):
    ask(pieces[0])
    taken, found = [], 0
    for piece in pieces * 2:
        started = time.perf_counter()
        found += ask(piece)
        taken.append((time.perf_counter() - started) * 1e3)
    print(f"  {name:34} {statistics.median(taken):9.1f} ms, {found // 2} lines; index made in {seconds:.0f} s, {size}")
import chdb.session
s = chdb.session.Session(folder + "/clickhouse")
s.query("CREATE DATABASE IF NOT EXISTS d")
s.query("CREATE TABLE d.t (line Int64, message String, INDEX i message TYPE text(tokenizer = ngrams(4))"
        " GRANULARITY 1) ENGINE = MergeTree ORDER BY tuple()")
started = time.perf_counter()
s.query(f"INSERT INTO d.t SELECT line, message FROM file('{lake}/*.parquet', Parquet)")
s.query("OPTIMIZE TABLE d.t FINAL")
seconds = time.perf_counter() - started
size = s.query("SELECT name, formatReadableSize(data_compressed_bytes) FROM system.data_skipping_indices"
               " WHERE table = 't'", "TSV").bytes().decode().strip()
def clickhouse(piece):
    text = piece.replace("\\\\", "\\\\\\\\").replace("'", "\\\\'").replace("%", "\\\\\\\\%").replace("_", "\\\\\\\\_")
    answer = s.query(f"SELECT line, message FROM d.t WHERE message LIKE '%{text}%'", "Arrow").bytes()
    return pa.ipc.open_file(pa.BufferReader(answer)).read_all().num_rows if answer else 0
report("ClickHouse, text(ngrams(4))", clickhouse, size, seconds)
import lance
started = time.perf_counter()
table = lance.write_dataset(pd.dataset(lake).to_batches(), folder + "/lance", schema=pd.dataset(lake).schema)
table.create_scalar_index("message", index_type="NGRAM")
seconds = time.perf_counter() - started
size = sum(__import__("os").path.getsize(p) for p in glob.glob(folder + "/lance/_indices/**/*", recursive=True)
           if __import__("os").path.isfile(p))
def lancedb(piece):
    text = piece.replace("'", "''")
    return table.to_table(filter=f"contains(message, '{text}')").num_rows
report("Lance, NGRAM", lancedb, f"{size / 1e6:.1f} MB", seconds)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "bench_grams")
    parser.add_argument("--megabytes", type=positive, default=1000)
    parser.add_argument("--pieces", type=positive, default=10)
    parser.add_argument("--peers")
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    header("pieces of text among logs", "duckdb", "polars", "datafusion")
    num_bytes = make_lake(given.logs, given.folder, given.megabytes * 1_000_000)
    lake = given.folder / "lake"
    size = sum(file.stat().st_size for file in lake.iterdir())
    print(f"{num_bytes / 1e6:,.0f} MB of text in {size / 1e6:,.0f} MB of Parquet\n\nbuild, all cores")
    indexes = {name: given.folder / f"{name}.index" for name in ("zone", "row_group")}
    for granularity, index in indexes.items():
        build(lake, index, granularity, num_bytes)
    pieces = draw_pieces(lake, given.pieces)
    ways = list_scans(lake)
    for granularity, index in indexes.items():
        ways[f"parquet_bloom, {granularity}"] = lambda piece, index=index: (
            parquet_bloom.read_table(lake, where=f"contains(message, '{quote(piece)}')", index=index).num_rows
        )
    expected: dict[str, int] = {}
    medians = measure(ways, pieces, expected)
    print(f"\n{len(pieces)} pieces in {statistics.median(expected.values()):.0f} lines, medians")
    for name, median in medians.items():
        print(f"  {name:34} {median:9.1f} ms {median / medians['parquet_bloom, zone']:8.1f} x")
    if given.store:
        measure_store(given.folder, pieces, expected)
    if given.peers:
        scratch = given.folder / "peers"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        sys.stdout.flush()
        subprocess.run([given.peers, "-c", _PEER, str(lake), str(scratch), *pieces], check=True)


if __name__ == "__main__":
    main()
