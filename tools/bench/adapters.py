"""Random ids in a lake, by Ray Data, Daft, dbt, datasets and awswrangler: their own readers against ours, in turn.

python tools/bench/adapters.py [--files N] [--rows N] [--repeat N] [--peers ray,daft,dbt,datasets,awswrangler]

It runs where the libraries are: `bash tools/adapters.sh` makes .cache/adapters, whose Python is the one to use. Each
lookup is of 1, 10 or 1,000 other ids that are there, and has to find their rows. The libraries have been started. The
first call is of one id; the footers that are kept in memory are read in it. Of dbt a whole run is timed, in this
process, in CPU time, since dbt itself waits a lot, and with the same ids, since it parses the project anew for others;
beside it a run whose model reads nothing. Its users start a process for each run, and so have first calls alone.
awswrangler reads 20 of the files, from moto's S3 in this process, which takes most of the time. Ids are random, so that
minima and maxima rule nothing out; the files have filters.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import awswrangler
import boto3
import daft
import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from _common import header, in_turn, positive
from dbt.cli.main import dbtRunner
from moto.server import ThreadedMotoServer
from ray.data.expressions import col

import parquet_bloom
from parquet_bloom.adapters import DaftLake, RayLake

ROOT = Path(__file__).resolve().parents[2]
PEERS = ("ray", "daft", "dbt", "datasets", "awswrangler")
SHAPES = [1, 10, 1000]

Way = Callable[[list[int]], int]
"""Looks for ids, and returns the number of rows."""

PROFILE = """
bench:
  target: dev
  outputs:
    dev:
      type: duckdb
      path: bench.duckdb
      plugins: [{module: parquet_bloom.adapters.dbt_plugin, alias: lake}]
"""
SOURCES = """
sources:
  - name: raw
    tables:
      - {{name: ours, config: {{plugin: lake, path: "{lake}"}}}}
      - {{name: theirs, config: {{external_location: "read_parquet('{lake}/*.parquet')"}}}}
"""


def make_lake(folder: Path, files: int, rows: int) -> Iterator[int]:
    """Write files of random ids, with filters; yield ids of rows, none of them twice."""
    dice = np.random.default_rng(20)
    ids = dice.permutation(files * rows * 4)[: files * rows]
    for number in range(files):
        part = ids[number * rows : (number + 1) * rows]
        table = pa.table({"id": part, "value": dice.random(rows), "text": [f"event {id}" for id in part.tolist()]})
        path = folder / f"{number:04}.parquet"
        pq.write_table(table, path, row_group_size=rows // 4)
        parquet_bloom.embed(path, ["id"], fpp=1e-3)
    yield from dice.permutation(ids).tolist()


def _name_shape(number: int) -> str:
    return f"{number:,} id{'s' * (number > 1)}"


def compare(
    name: str,
    ways: dict[str, Way],
    ids: Iterator[int],
    shapes: list[int],
    repeat: int,
    clock: Callable[[], float] = time.perf_counter,
    are_kept: bool = False,
) -> None:
    """Time ways; print the first call, medians, and the ratio of the first two ways.

    The ids are others every time, unless they `are_kept`.
    """
    asked: list[int] = []

    def make_run(way: Way) -> Callable[[], None]:
        def run() -> None:
            found = way(asked)
            if found != len(asked):
                raise SystemExit(f"{name}: {found} of {len(asked)} ids were found")

        return run

    def draw(number: int) -> Callable[[], None]:
        def take() -> None:
            asked[:] = [next(ids) for _ in range(number)]

        return take

    runs = {label: make_run(way) for label, way in ways.items()}
    draw(1)()
    if are_kept:
        runs[next(reversed(runs))]()  # the one that reads nothing
    first = in_turn(runs, 1, clock=clock)
    unit = "seconds" if clock is time.perf_counter else "CPU seconds"
    print(f"{name}; {unit}, medians of {repeat} runs in turn")
    print(
        f"  {'':<36}{'first call':>12}" + "".join(f"{number:>9,} id{'s' if number > 1 else ' '}" for number in shapes)
    )
    seconds = []
    for number in shapes:
        before = draw(number)
        if are_kept:
            before()
            in_turn(runs, 1)
        seconds.append(in_turn(runs, repeat, before=(lambda: None) if are_kept else before, clock=clock))
    for label in runs:
        print(f"  {label:<36}{first[label]:12.3f}" + "".join(f"{times[label]:12.3f}" for times in seconds))
    theirs, ours = list(runs)[:2]
    print(f"  {'times faster':<36}" + "".join(f"{times[theirs] / times[ours]:12.1f}" for times in [first, *seconds]))
    print()


@contextmanager
def ray_ways(lake: Path) -> Iterator[dict[str, Way]]:
    """Start Ray for as long as its ways are used."""
    variables = {"PYTHONPATH": str(ROOT)}
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": variables})
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    dataset = parquet_bloom.dataset(lake)

    def by_ray(ids: list[int]) -> int:
        return len(ray.data.read_parquet(str(lake)).filter(expr=col("id").is_in(ids)).take_all())

    def by_lake(ids: list[int]) -> int:
        return len(ray.data.read_datasource(RayLake(dataset)).filter(expr=col("id").is_in(ids)).take_all())

    ray.data.range(1).take_all()
    yield {"read_parquet, filter": by_ray, "RayLake, filter": by_lake}
    ray.shutdown()


def daft_ways(lake: Path) -> dict[str, Way]:
    dataset, paths = parquet_bloom.dataset(lake), str(lake / "*.parquet")

    def by_daft(ids: list[int]) -> int:
        return len(daft.read_parquet(paths).where(daft.col("id").is_in(ids)).to_arrow())

    def by_lake(ids: list[int]) -> int:
        return len(DaftLake(dataset).read().where(daft.col("id").is_in(ids)).to_arrow())

    daft.from_pydict({"id": [1]}).where(daft.col("id") == 1).to_arrow()
    return {"read_parquet, where": by_daft, "DaftLake, where": by_lake}


def dbt_ways(lake: Path, folder: Path) -> dict[str, Way]:
    """Return runs of dbt whose one model looks for ids, in a project of their own."""
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: bench\nprofile: bench\nversion: '1.0'\n")
    (folder / "profiles.yml").write_text(PROFILE)
    (folder / "models" / "sources.yml").write_text(SOURCES.format(lake=lake))
    where = "where id in ({{ var('ids') | join(', ') }})"
    for source in ("ours", "theirs"):
        found = "max(text) as text, if(count(*) = {{ var('ids') | length }}, true, error('not found')) as is_found"
        text = f"{{{{ config(materialized='table') }}}} select {found} from {{{{ source('raw', '{source}') }}}} {where}"
        (folder / "models" / f"by_{source}.sql").write_text(text)
    (folder / "models" / "by_nothing.sql").write_text(
        "{{ config(materialized='table') }} select {{ var('ids')[0] }} as id"
    )
    os.chdir(folder)
    runner = dbtRunner()

    def run(model: str) -> Way:
        def run_model(ids: list[int]) -> int:
            options = ["--quiet", "--profiles-dir", ".", "--vars", f"{{ids: {ids}}}", "--select", model]
            done = runner.invoke(["run", *options])
            if not done.success:
                raise SystemExit(f"dbt failed: {done.exception or done.result}")
            return len(ids)  # the model fails unless it finds them all

        return run_model

    return {
        "external_location: read_parquet": run("by_theirs"),
        "the plugin": run("by_ours"),
        "a model that reads nothing": run("by_nothing"),
    }


def datasets_ways(lake: Path, folder: Path) -> dict[str, Way]:
    """Return ways of Hugging Face's datasets, whose cache has the rows of what was asked: other ids every time."""
    everything = sorted(map(str, lake.iterdir()))

    def load(files: list[str], ids: list[int]) -> int:
        options = {"filters": [("id", "in", ids)], "cache_dir": str(folder)}
        return datasets.load_dataset("parquet", data_files=files, split="train", **options).num_rows

    def by_datasets(ids: list[int]) -> int:
        return load(everything, ids)

    def by_prune(ids: list[int]) -> int:
        return load(list(parquet_bloom.prune(lake, [("id", "in", ids)]).selected), ids)

    datasets.disable_progress_bars()
    return {"load_dataset, filters": by_datasets, "load_dataset of prune's files": by_prune}


@contextmanager
def awswrangler_ways(paths: list[Path]) -> Iterator[dict[str, Way]]:
    """Start an S3 that has some of the files, for as long as the ways are used."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # which names each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    settings = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= settings | {"AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    client = boto3.client("s3")
    client.create_bucket(Bucket="lake")
    for path in paths:
        client.upload_file(str(path), "lake", path.name)
    awswrangler.engine.register("python")  # and not Ray
    options = {"aws_endpoint": f"http://{host}:{port}", "allow_http": "true"}

    def count(files: str | list[str], ids: list[int]) -> int:
        rows = awswrangler.s3.read_parquet(files)
        return int(rows["id"].isin(ids).sum())

    def by_wrangler(ids: list[int]) -> int:
        return count("s3://lake/", ids)

    def by_prune(ids: list[int]) -> int:
        return count(list(parquet_bloom.prune("s3://lake", [("id", "in", ids)], storage_options=options).selected), ids)

    yield {"read_parquet, isin": by_wrangler, "read_parquet of prune's files": by_prune}
    server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=positive, default=200)
    parser.add_argument("--rows", type=positive, default=50_000, help="of each file")
    parser.add_argument("--repeat", type=positive, default=3)
    parser.add_argument("--peers", default=",".join(PEERS), help="which of them, separated by commas")
    options = parser.parse_args()
    peers = options.peers.split(",")
    names = ("ray", "daft", "dbt-duckdb", "duckdb", "datasets", "awswrangler", "pyarrow")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    header("random ids by Ray Data, Daft, dbt, datasets and awswrangler", f"peers    {versions}")
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    with tempfile.TemporaryDirectory(prefix="bench adapters ") as home:
        lake = Path(home) / "lake"
        lake.mkdir()
        ids = make_lake(lake, options.files, options.rows)
        next(ids)
        paths = sorted(lake.iterdir())
        size = sum(path.stat().st_size for path in lake.iterdir()) / 1e6
        print(f"lake     {options.files} files of {options.rows:,} rows in 4 row groups, {size:,.0f} MB, in memory")
        print()
        run = partial(compare, repeat=options.repeat)
        if "ray" in peers:
            with ray_ways(lake) as ways:
                run("Ray Data", ways, ids, SHAPES)
        if "daft" in peers:
            run("Daft", daft_ways(lake), ids, SHAPES)
        if "dbt" in peers:
            run("dbt run", dbt_ways(lake, Path(home) / "project"), ids, SHAPES, clock=time.process_time, are_kept=True)
        if "datasets" in peers:
            run("datasets", datasets_ways(lake, Path(home) / "cache"), ids, SHAPES)
        if "awswrangler" in peers:
            with awswrangler_ways(paths[:20]) as ways:
                few = iter(pq.read_table(paths[:20], columns=["id"])["id"].to_pylist())
                run("awswrangler, 20 files in moto's S3", ways, few, SHAPES[:1])
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
