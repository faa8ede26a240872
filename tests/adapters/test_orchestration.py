"""Run the examples for Dagster and Airflow in their own processes, and read with Hugging Face's datasets."""

from __future__ import annotations

import glob
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES, ROWS = 4, 500


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, str]:
    """Make a lake, and a request to forget two users; return the parameters of a job."""
    users = np.random.default_rng(3).integers(0, 200, FILES * ROWS)
    users[:2] = 7, 8
    for number in range(FILES):
        part = users[number * ROWS : (number + 1) * ROWS]
        table = pa.table({"user_id": part, "request_id": [f"r{number}-{row}" for row in range(ROWS)]})
        path = tmp_path / "lake" / f"day=2026-01-{number + 1:02}" / "a.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table, path)
    (tmp_path / "requests").mkdir()
    pq.write_table(pa.table({"user_id": [7, 8]}), tmp_path / "requests" / "one.parquet")
    return {name: str(tmp_path / name) for name in ("folder", "index", "requests")} | {"folder": str(tmp_path / "lake")}


def check(paths: dict[str, str]) -> None:
    lake = parquet_bloom.dataset(paths["folder"], index=paths["index"])
    assert lake.scan("user_id IN (7, 8)").count_rows() == 0
    assert 0 < FILES * ROWS - lake.count_rows() < 100
    report = lake.scan("request_id = 'r2-77'").plan()
    assert (report.selected_files, report.index_doubts) == (1, [])
    assert len(parquet_bloom.dataset(None, index=paths["index"]).files) == FILES
    for path in Path(paths["folder"]).rglob("*.parquet"):
        with parquet_bloom.open(path) as file:
            assert {chunk.column for chunk in file.chunks()} == {"user_id", "request_id"}
    assert [path.name for path in Path(paths["requests"]).iterdir()] == ["one.done"]


def test_dagster_keeps_a_lake(paths: dict[str, str]) -> None:
    dagster = pytest.importorskip("dagster", reason="tools/adapters.sh installs it")
    example = runpy.run_path(str(EXAMPLES / "lake_dagster.py"))
    names = ("erase_requests", "embed_filters", "append_to_index")
    config = {"ops": {name: {"config": paths} for name in names}}
    for _ in range(2):  # the second run finds nothing to do
        assert example["keep_lake"].execute_in_process(run_config=config).success
        check(paths)
    assert dagster.Definitions.validate_loadable(example["definitions"]) is None


def test_airflow_keeps_a_lake(paths: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("airflow.sdk", reason="tools/adapters.sh installs it")
    home = tmp_path / "airflow"
    script = tmp_path / "run.py"
    script.write_text(
        f"""
import sys
sys.path.insert(0, {str(EXAMPLES)!r})
import lake_airflow
for _ in range(2):
    run = lake_airflow.lake_dag.test(run_conf={paths!r})
    assert run.state == "success", run.state
"""
    )
    environment = os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(EXAMPLES.parent), os.environ.get("PYTHONPATH")])),
    }
    for command in (["-m", "airflow", "db", "migrate"], [str(script)]):
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    check(paths)


def test_datasets_reads_the_files_that_prune_has_selected(paths: dict[str, str], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="tools/adapters.sh installs it")
    files = select_files(paths)
    found = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert found["request_id"][:] == [f"r2-{row}" for row in range(ROWS)]


def test_datasets_takes_paths_for_patterns(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="tools/adapters.sh installs it")
    for name in ("a[1]", "b*c", "ü %20"):
        (tmp_path / "lake" / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": [7, 8]}), tmp_path / "lake" / name / "f.parquet")
    files = list(parquet_bloom.prune(tmp_path / "lake", "id = 7").selected)
    assert len(files) == 3
    escaped = [glob.escape(path) for path in files]
    found = datasets.load_dataset("parquet", data_files=escaped, split="train", cache_dir=str(tmp_path / "cache"))
    assert found["id"][:] == [7, 8] * 3


def select_files(paths: dict[str, str]) -> list[str]:
    for path in Path(paths["folder"]).rglob("*.parquet"):
        parquet_bloom.embed(path, ["request_id"], fpp=1e-6)
    files = list(parquet_bloom.prune(paths["folder"], "request_id = 'r2-77'").selected)
    assert [Path(path).parent.name for path in files] == ["day=2026-01-03"]
    return files


def test_awswrangler_reads_the_objects_that_prune_has_selected(
    paths: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrangler = pytest.importorskip("awswrangler", reason="tools/adapters.sh installs it")
    wrangler.engine.register("python")  # where Ray is installed it starts that, in the process in which Ray's tests do
    server_module = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    select_files(paths)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        settings = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
        for name, value in (settings | {"AWS_ENDPOINT_URL": f"http://{host}:{port}"}).items():
            monkeypatch.setenv(name, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket="lake")
        for path in Path(paths["folder"]).rglob("*.parquet"):
            client.upload_file(str(path), "lake", path.relative_to(paths["folder"]).as_posix())
        options = {"aws_endpoint": f"http://{host}:{port}", "allow_http": "true"}
        objects = list(parquet_bloom.prune("s3://lake", "request_id = 'r2-77'", storage_options=options).selected)
        assert objects == ["s3://lake/day=2026-01-03/a.parquet"]
        rows = wrangler.s3.read_parquet(objects)
        assert rows["request_id"].tolist() == [f"r2-{row}" for row in range(ROWS)]
    finally:
        server.stop()
