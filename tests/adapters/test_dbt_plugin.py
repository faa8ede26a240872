"""Test the plugin of dbt-duckdb by real runs of dbt over small projects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parquet_bloom

pytest.importorskip("dbt.adapters.duckdb", reason="tools/adapters.sh installs it")
duckdb = pytest.importorskip("duckdb")

PROJECT = Path(__file__).resolve().parents[2]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs dbt on a project of these sources, given as YAML below `tables`, and models."""

    def run_dbt(tables: str, **models: str) -> subprocess.CompletedProcess[str]:
        files = {
            "dbt_project.yml": "name: shop\nprofile: shop\nversion: '1.0'\n",
            "profiles.yml": f"""
shop:
  target: dev
  outputs:
    dev:
      type: duckdb
      path: {tmp_path / "shop.duckdb"}
      plugins:
        - module: parquet_bloom.adapters.dbt_plugin
          alias: lake
""",
            "models/sources.yml": "sources:\n  - name: raw\n    config:\n      plugin: lake\n    tables:\n" + tables,
            **{f"models/{name}.sql": sql for name, sql in models.items()},
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        paths = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
        code = "import sys; from dbt.cli.main import cli; cli(sys.argv[1:])"
        return subprocess.run(
            [sys.executable, "-c", code, "run", "--profiles-dir", ".", "--no-use-colors", "--no-version-check"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": paths, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
            capture_output=True,
            text=True,
        )

    return run_dbt


def read(tmp_path: Path, query: str) -> list[Any]:
    with duckdb.connect(tmp_path / "shop.duckdb", read_only=True) as connection:
        return connection.sql(query).fetchall()


def test_models_over_a_dataset(run: Run, lake: Path, rows: pa.Table, tmp_path: Path) -> None:
    id, name = rows["id"][777].as_py(), rows["name"][40].as_py()
    shutil.copytree(lake / "day=2026-01-02", tmp_path / "raw" / "second_day")
    done = run(
        f"""
      - name: events
        config: {{path: "{lake}"}}
      - name: narrow
        config: {{path: "{lake}", columns: [row, day]}}
      - name: named
        config: {{path: "{lake}", where: "name = '{name}'", columns: [row, name]}}
      - name: second_day
        config: {{path: "{tmp_path}/{{schema}}/{{identifier}}"}}
""",
        one=f"select row, day from {{{{ source('raw', 'events') }}}} where id = {id}",
        counted="select count(*) as number, count(distinct day) as days from {{ source('raw', 'narrow') }}",
        named="{{ config(materialized='table') }} select * from {{ source('raw', 'named') }}",
        days="{{ config(materialized='table') }} select count(*) as number from {{ source('raw', 'second_day') }}",
        joined="""{{ config(materialized='table') }}
select events.row from {{ source('raw', 'events') }} events join {{ source('raw', 'named') }} named using (row)""",
        kept="{{ config(materialized='table') }} select * from {{ ref('one') }}",
        summed="{{ config(materialized='table') }} select * from {{ ref('counted') }}",
    )
    assert done.returncode == 0, done.stdout
    assert read(tmp_path, "select row from kept") == [(777,)]
    assert read(tmp_path, "select * from summed") == [(len(rows), 3)]
    assert read(tmp_path, "select * from named") == [(40, name)]
    assert read(tmp_path, "select * from days") == [(len(rows) // 3,)]
    assert read(tmp_path, "select * from joined") == [(40,)]


def test_an_index_and_a_table(run: Run, lake: Path, rows: pa.Table, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    with parquet_bloom.LakeIndex.create(tmp_path / "ids", ["id"], lake=lake) as index:
        index.append()
    deltalake.write_deltalake(str(tmp_path / "table"), rows.select(["row", "id"]))
    id = rows["id"][777].as_py()
    done = run(
        f"""
      - name: events
        config: {{index: "{tmp_path / "ids"}"}}
      - name: orders
        meta: {{path: "{tmp_path / "table"}", owner: sales}}
""",
        pairs=f"""{{{{ config(materialized='table') }}}}
select a.row, b.id from {{{{ source('raw', 'events') }}}} a join {{{{ source('raw', 'orders') }}}} b using (row)
where a.id = {id} and b.id = {id}""",
    )
    assert done.returncode == 0, done.stdout
    assert read(tmp_path, "select * from pairs") == [(777, id)]


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ("{}", "source shop.raw.events: it has no path: write the lake's below its meta, as path: lake/events"),
        ('{path: "LAKE", columns: [id, nothing]}', "one of these is no column of the source: id, nothing"),
        ('{path: "LAKE", where: "id = = 5"}', "id = = 5"),
        ('{path: "LAKE/nothing"}', "LAKE/nothing"),
        ('{path: "LAKE", columns: id}', "columns must be a list of names, got a string; give ['id']"),
        ('{path: "LAKE/{year}"}', "it has {year}, which a source does not have"),
    ],
)
def test_an_error_says_what_is_wrong(run: Run, lake: Path, config: str, error: str) -> None:
    done = run(
        f"\n      - name: events\n        config: {config.replace('LAKE', str(lake))}\n",
        one="{{ config(materialized='table') }} select * from {{ source('raw', 'events') }}",
    )
    assert done.returncode == 1
    assert error.replace("LAKE", str(lake)) in " ".join(done.stdout.split())
