"""Whatever way a lake is pruned, the rows are those of Spark alone without filters: random lakes, types and conditions.

A seed decides everything, and a failure names it; `hunting` says how to go on for longer.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.random_cases.hunting import SECONDS, seeds
from support.random_cases.random_queries import CLASSIC, Asking, QueryTally, draw_settings
from support.random_cases.spark_lakes import Lake, make_lake
from support.spark.spark_settings import settings

import parquet_bloom.spark

pytestmark = pytest.mark.spark

SEED = 3  # of the lake that tests share: partitions of odd names, files of five writers
QUESTIONS = 16


@pytest.fixture(scope="module")
def random_lake(spark: Any, tmp_path_factory: pytest.TempPathFactory, interpreted: None) -> Lake:
    return make_lake(spark, random.Random(SEED), tmp_path_factory.mktemp("lakes") / "lä{k}e%41 [a]")


def check(reported: QueryTally, story: str, least: float = 0.15) -> None:
    assert reported.wrong == [], story
    assert reported.num_queries >= 2 * reported.refused, story
    assert reported.skipped >= least * reported.num_queries, story
    assert reported.matched >= 0.1 * reported.num_queries, story


def test_classic(spark: Any, random_lake: Lake, tmp_path: Path, quiet: None) -> None:
    for seed in seeds(1):
        rng = random.Random(seed)
        lake = random_lake if seed == 0 else make_lake(spark, rng, tmp_path / f"lake {seed}")
        reported = QueryTally()
        for ansi in ("true", "false"):
            with settings(spark, draw_settings(rng) | {"spark.sql.ansi.enabled": ansi}):
                reported += Asking(spark, rng, lake).ask(QUESTIONS)
        check(reported, f"{seed=}")


def test_data_source(spark: Any, random_lake: Lake, tmp_path: Path, quiet: None) -> None:
    parquet_bloom.spark.register(spark)
    for seed in seeds(1):
        rng = random.Random(SEED + seed)
        lake = random_lake if seed == 0 else make_lake(spark, rng, tmp_path / f"lake {seed}")
        with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
            outcome = Asking(spark, rng, lake, ("source",)).ask(12)
        assert outcome.wrong == [], f"{seed=}"
        assert outcome.num_queries > 1


def test_connect(spark: Any, connect: Any, random_lake: Lake, tmp_path: Path) -> None:
    for seed in seeds(1):
        lake = random_lake if seed == 0 else make_lake(spark, random.Random(seed), tmp_path / f"lake {seed}")
        lake.save(tmp_path / "lake")
        outcome = connect.run(
            "import dataclasses, random\n"
            "from support.random_cases import random_queries, spark_lakes\n"
            "from support.spark import spark_settings\n"
            "parquet_bloom.spark.register(spark)\n"
            f"with spark_settings.settings(spark, random_queries.draw_settings(random.Random({seed + 1}))):\n"
            "    lake = spark_lakes.Lake.load(path)\n"
            "    ways = ('read', 'read', 'read', 'pruned', 'source')\n"
            f"    asking = random_queries.Asking(spark, random.Random({seed + 2}), lake, ways)\n"
            "    answer = dataclasses.asdict(asking.ask(12))\n",
            path=str(tmp_path / "lake"),
        )
        result = QueryTally(**outcome)
        if SECONDS:  # a hunt: what is drawn of a few questions need not meet a bound
            print(f"{seed=} {result}")
            assert result.wrong == [], f"{seed=}"
        else:
            check(result, "connect", least=0.1)


@pytest.mark.long
def test_cluster(random_lake: Lake, tmp_path: Path) -> None:
    random_lake.save(tmp_path / "lake")
    tests = Path(__file__).resolve().parents[1]
    paths = [str(tests.parent), str(tests), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("equal_cluster.py"))]
    command += [str(tmp_path / "lake"), str(tmp_path), "5", "16"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=500, check=True)
    document = QueryTally(**json.loads(done.stdout.splitlines()[-1]))
    check(document, "cluster")
    assert len(document.ways) > 5
    assert set(document.ways) <= {*CLASSIC, "source"}
