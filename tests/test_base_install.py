"""The package without its extras: all commands work on local files, and what needs an extra names it in one line."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

# Modules of the distributions in the extras for users; others are named like their distribution.
MODULES = {"pylance": "lance"}
EXTRAS = ("delta", "dialects", "iceberg", "lance", "objects", "orc", "s3", "serve", "spark")
BLOCKED = {
    MODULES.get(name, name)
    for extra in EXTRAS
    for name in (re.match(r"[\w-]+", text)[0] for text in PROJECT["optional-dependencies"][extra])
    if name != PROJECT["name"]
}

RUN = f"""
import sys
class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {sorted(BLOCKED)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing)
from parquet_bloom.cli import main
sys.exit(main(sys.argv[1:]))
"""

COMMANDS = [
    "embed lake --column id --in-place",
    "show lake",
    "verify lake --data",
    "advise lake",
    "size --ndv 1000",
    "prune lake --where id=5",
    "prune lake --where 'id in (5, 6) and name is not null'",
    "find lake --where id=5",
    "find lake --where id=5 --format ndjson",
    "zones build lake --column id -o zones.parquet",
    "zones show zones.parquet",
    "index create ids.index --column id --lake lake",
    "index append ids.index",
    "index lookup ids.index --column id 5",
    "index stats ids.index",
    "index check ids.index",
    "get lake --key id=5 --index ids.index",
    "index remove ids.index lake/1.parquet",
    "index compact ids.index",
    "drop lake --in-place",
    "sweep lake",
    "completion bash",
]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    for i in range(2):
        table = pa.table({"id": range(i * 1000, i * 1000 + 1000), "name": [f"n{n}" for n in range(1000)]})
        pq.write_table(table, tmp_path / "lake" / f"{i}.parquet")
    return tmp_path


def test_the_base_install_has_no_more_than_it_needs():
    required = {re.match(r"[\w-]+", text)[0] for text in PROJECT["dependencies"] if ";" not in text}
    assert required == {"numpy", "pyarrow", "thrift", "click", "rich", "pyroaring"}
    assert not required & BLOCKED
    assert {"obstore", "boto3", "deltalake", "pyiceberg", "pyspark", "pandas", "fastapi", "uvicorn", "lance"} <= BLOCKED


@pytest.mark.ci
def test_all_commands_work_without_the_extras(folder):
    for command in COMMANDS:
        done = run(folder, *shlex.split(command))
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert run(folder, "find", "lake", "--where", "id = 5").stdout.split()[-2:] == ["5", "n5"]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("show", "s3://bucket/a.parquet"), "objects"),
        (("prune", "https://example.org/a.parquet", "--where", "id=5"), "objects"),
        (("find", "gs://bucket/lake/", "--where", "id=5"), "objects"),
        (("prune", "lake", "--where", "id=5", "--dialect", "duckdb"), "dialects"),
        (("index", "serve", "ids.index"), "serve"),
    ],
)
def test_what_needs_an_extra_names_it(folder, arguments, extra):
    if arguments[0] == "index":
        assert run(folder, "index", "create", "ids.index", "--column", "id", "--lake", "lake").returncode == 0
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    problem, *_ = done.stderr.splitlines()  # a summary may follow
    assert problem.startswith("error: ")
    assert done.stderr.count("error") == 1
    assert f"pip install 'parquet-bloom[{extra}]'" in problem
