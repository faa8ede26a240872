"""One random id in a lake, by Ray Data, Daft and dbt: their own Parquet readers against the adapters, in turn.

python tools/bench/adapters.py [--files N] [--rows N] [--repeat N] [--peers ray,daft,dbt]

It runs where the libraries are: `bash tools/adapters.sh` makes .cache/adapters, whose Python is the one to use. Each
lookup is of another id that is there, and has to find its one row. Ray's cluster and Daft's engine have been started,
and both have read once; of dbt a whole run is timed, in this process, since that is what its users wait for, and beside
it a run whose model reads nothing. Ids are random, so that minima and maxima rule nothing out; the files have filters
for them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import daft
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from _common import header, in_turn, positive
from dbt.cli.main import dbtRunner
from ray.data.expressions import col

import parquet_bloom
from parquet_bloom.adapters import DaftLake, RayLake

ROOT = Path(__file__).resolve().parents[2]

Way = Callable[[int], int]
"""Looks for an id, and returns the number of rows."""

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


def compare(name: str, ways: dict[str, Way], ids: Iterator[int], first: int, repeat: int) -> None:
    """Time two ways, or three, each with another id every time, and print medians and the ratio of the first two."""
    asked: list[int] = []
    for way in ways.values():
        way(first)

    def make_run(way: Way) -> Callable[[], None]:
        def run() -> None:
            if way(asked[-1]) != 1:
                raise SystemExit(f"{name}: id {asked[-1]} was not found once")

        return run

    runs = {label: make_run(way) for label, way in ways.items()}
    seconds = in_turn(runs, repeat, before=lambda: asked.append(next(ids)))
    (theirs, before), (ours, after), *others = seconds.items()
    print(f"{name}, medians of {repeat} runs in turn")
    print(f"  {theirs:<34} {before:8.3f} s")
    print(f"  {ours:<34} {after:8.3f} s   {before / after:5.1f} x faster")
    for label, time in others:
        print(f"  {label:<34} {time:8.3f} s")
    print()


@contextmanager
def ray_ways(lake: Path) -> Iterator[dict[str, Way]]:
    """Start Ray for as long as its ways are used."""
    variables = {"PYTHONPATH": str(ROOT)}
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": variables})
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    dataset = parquet_bloom.dataset(lake)

    def by_ray(id: int) -> int:
        return len(ray.data.read_parquet(str(lake)).filter(expr=col("id") == id).take_all())

    def by_lake(id: int) -> int:
        return len(ray.data.read_datasource(RayLake(dataset)).filter(expr=col("id") == id).take_all())

    yield {"read_parquet, filter": by_ray, "RayLake, filter": by_lake}
    ray.shutdown()


def daft_ways(lake: Path) -> dict[str, Way]:
    dataset, paths = parquet_bloom.dataset(lake), str(lake / "*.parquet")

    def by_daft(id: int) -> int:
        return len(daft.read_parquet(paths).where(daft.col("id") == id).to_arrow())

    def by_lake(id: int) -> int:
        return len(DaftLake(dataset).read().where(daft.col("id") == id).to_arrow())

    return {"read_parquet, where": by_daft, "DaftLake, where": by_lake}


def dbt_ways(lake: Path, folder: Path) -> dict[str, Way]:
    """Return runs of dbt whose one model looks for an id, in a project of their own."""
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: bench\nprofile: bench\nversion: '1.0'\n")
    (folder / "profiles.yml").write_text(PROFILE)
    (folder / "models" / "sources.yml").write_text(SOURCES.format(lake=lake))
    where = "where id = {{ var('id') }}"
    for source in ("ours", "theirs"):
        found = "max(text) as text, if(count(*) = 1, true, error('not found once')) as is_found"
        text = f"{{{{ config(materialized='table') }}}} select {found} from {{{{ source('raw', '{source}') }}}} {where}"
        (folder / "models" / f"by_{source}.sql").write_text(text)
    (folder / "models" / "by_nothing.sql").write_text("{{ config(materialized='table') }} select {{ var('id') }} as id")
    os.chdir(folder)
    runner = dbtRunner()

    def run(model: str) -> Way:
        def run_model(id: int) -> int:
            options = ["--quiet", "--profiles-dir", ".", "--vars", f"{{id: {id}}}", "--select", model]
            done = runner.invoke(["run", *options])
            if not done.success:
                raise SystemExit(f"dbt failed: {done.exception or done.result}")
            return 1  # the model fails unless it finds one row

        return run_model

    return {
        "external_location: read_parquet": run("by_theirs"),
        "the plugin": run("by_ours"),
        "a model that reads nothing": run("by_nothing"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=positive, default=200)
    parser.add_argument("--rows", type=positive, default=50_000, help="of each file")
    parser.add_argument("--repeat", type=positive, default=5)
    parser.add_argument("--peers", default="ray,daft,dbt", help="which of them, separated by commas")
    options = parser.parse_args()
    peers = options.peers.split(",")
    names = ("ray", "daft", "dbt-duckdb", "duckdb", "pyarrow")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    header("one random id by Ray Data, Daft and dbt", f"peers    {versions}")
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    with tempfile.TemporaryDirectory(prefix="bench adapters ") as home:
        lake = Path(home) / "lake"
        lake.mkdir()
        ids = make_lake(lake, options.files, options.rows)
        first = next(ids)
        size = sum(path.stat().st_size for path in lake.iterdir()) / 1e6
        print(f"lake     {options.files} files of {options.rows:,} rows in 4 row groups, {size:,.0f} MB, in memory")
        print()
        if "ray" in peers:
            with ray_ways(lake) as ways:
                compare("Ray Data", ways, ids, first, options.repeat)
        if "daft" in peers:
            compare("Daft", daft_ways(lake), ids, first, options.repeat)
        if "dbt" in peers:
            compare("dbt run", dbt_ways(lake, Path(home) / "project"), ids, first, options.repeat)
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
