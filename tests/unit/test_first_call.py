"""What the common calls import, each in a process of its own: modules that take long, and that the call need not."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom

# Of these no call on local files needs any, whatever is installed.
NEVER = {"polars", "boto3", "fsspec", "obstore", "asyncio", "deltalake", "pyiceberg", "pyspark", "duckdb"}
NEVER |= {"sqlglot"}  # for other dialects of SQL than ours and Spark's
# For `dataset` only: the first imports the second, if it is installed, which takes as long as a query does.
DATASET = {"pyarrow.dataset", "pandas"}
COMPUTE = {"pyarrow.compute"}  # for rows that are filtered after they are read
# For whole columns of Parquet, other file systems, tables, and some options only.
RARE = {"pyarrow.parquet", "pyarrow.fs", "ssl", "sqlite3", "secrets", "shutil", "thrift", "rich"}
RARE |= {f"parquet_bloom.{name}" for name in ("file.drafts", "lake", "zones")}
RARE |= {f"parquet_bloom.storage.{name}" for name in ("index_folder", "local.local_rewrite")}
COMMANDS = {"click", "rich"}

API = NEVER | COMMANDS
CALLS = [
    ("p.dataset(lake).scan('id = 5').to_arrow()", API),
    ("p.dataset(lake).scan(\"s IN ('s5', 's6') AND id > 3 AND d = DATE '2020-01-01'\").to_arrow()", API),
    ("p.dataset(lake).scan('id = 5').count_rows()", API),
    ("list(p.dataset(lake).scan('f <= 1.5 AND id IS NOT NULL', ['id']).to_batches())", API),
    ("p.dataset(lake).scan().to_arrow()", API),
    ("p.read_table(lake, 'id = 5')", API | DATASET),
    ("p.dataset(lake).scan(\"NOT (5 <> id OR lower(s) = 'S5')\").to_arrow()", API),
    ("p.prune(lake, 'id = 5')", API | DATASET | COMPUTE),
    ("p.prune(lake, \"day = DATE '2026-01-01' AND s = 'none'\")", API | DATASET),
    ("p.prune(lake, \"d IN (DATE '2020-01-01', DATE '2020-01-03') AND regexp_matches(s, '5$')\")", API | DATASET),
    ("p.read_table(lake, \"s LIKE '%s39%' AND id > 5\", index=index)", API | DATASET),
    ("p.embed(file, ['id', 's', 'f'], replace=True, output=target)", API | DATASET),
    ("p.verify(lake)", API | DATASET),
    ("p.advise(lake)", API | DATASET),
    ("main(['find', lake, '--where', 'id = 5'])", NEVER | DATASET),
    ("main(['find', lake, '--where', 'id = 5', '--format', 'csv'])", NEVER | DATASET | COMPUTE | RARE),
    ("main(['find', lake, '--where', 'id = -5'])", NEVER | DATASET | COMPUTE),
    ("main(['get', lake, '--key', 'id=5'])", NEVER | DATASET),
    ("main(['locate', lake, '--key', 'id=5'])", NEVER | {"pyarrow.dataset"}),
    ("main(['prune', lake, '--where', 'id = 5'])", NEVER | DATASET | COMPUTE),
    ("main(['verify', lake])", NEVER | DATASET),
    ("main(['advise', lake])", NEVER | DATASET),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    folder = root / "day=2026-01-01"
    folder.mkdir()
    number = 4_000
    columns = {"id": range(number), "s": [f"s{i}" for i in range(number)], "f": [i / 2 for i in range(number)]}
    table = pa.table({name: list(values) for name, values in columns.items()})
    table = table.append_column("d", pa.array([18_262 + i % 9 for i in range(number)], pa.int32()).cast(pa.date32()))
    for name in ("a", "b"):
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=1_000)
        parquet_bloom.embed(folder / f"{name}.parquet", ["id", "s"])
    return root


@pytest.fixture(scope="module")
def index(lake, tmp_path_factory):
    path = tmp_path_factory.mktemp("indexes") / "grams"
    with parquet_bloom.LakeIndex.create(path, ["grams(s)", "id"], lake=lake, granularity="zone", zone_rows=500) as made:
        made.append()
    return path


@pytest.mark.ci
@pytest.mark.parametrize(("call", "not_needed"), CALLS, ids=[call for call, _ in CALLS])
def test_a_call_imports_what_it_needs(call, not_needed, lake, index, tmp_path):
    code = f"""
import sys
sys.path[:0] = {[path for path in sys.path if path]}
import parquet_bloom as p
{"from parquet_bloom.cli import main" if "main(" in call else ""}
index = {str(index)!r}
lake, file, target = {str(lake)!r}, {str(lake / "day=2026-01-01" / "a.parquet")!r}, {str(tmp_path / "b.parquet")!r}
{call}
print("", *sys.modules, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = {*done.stdout.splitlines()}
    assert "pyarrow" in loaded
    assert not_needed & loaded == set()
