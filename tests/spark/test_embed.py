"""embed: every file below a path, by Spark's tasks; whole, once, and whatever becomes of the others."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers import peers

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom import errors
from parquet_bloom.file.filter_builder import FilterOptions
from parquet_bloom.spark.jobs.file_tasks import FileTask, find_secrets
from parquet_bloom.spark.jobs.run_files import describe_failure
from parquet_bloom.spark.lake_jobs import _Embed

pytestmark = pytest.mark.spark


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


@pytest.fixture(scope="module")
def template(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files in two folders, as Spark leaves them; tests copy it."""
    path = tmp_path_factory.mktemp("template") / "lake"
    frame = spark.range(0, 400, 1, 2).selectExpr(
        "id", "concat('u', id) UserId", "id % 2 = 0 flag", "struct(id as x) st", "id div 200 p"
    )
    frame.repartition(2).write.partitionBy("p").parquet(str(path))
    return path


@pytest.fixture
def copied(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "lake"))


def parquet_files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.parquet"))


def test_every_file_and_nothing_else(spark: Any, copied: Path, rows: Any) -> None:
    before = rows(spark.read.parquet(str(copied)))
    hidden = {path: item for path, item in contents(copied).items() if "part-" not in path}
    (copied / "p=0" / ".hidden.parquet").write_bytes(b"not for us")
    (copied / "_temporary").mkdir()
    (copied / "_temporary" / "half.parquet").write_bytes(b"not for us")
    report = parquet_bloom.spark.embed(spark, copied, ["id", "st.x"], fpp=0.001)
    files = parquet_files(copied / "p=0") + parquet_files(copied / "p=1")
    assert [result.path for result in report.files] == [str(file) for file in files if file.name[0] != "."]
    assert {result.status for result in report.files} == {"embedded"}
    assert (report.ok, report.total_files, report.embedded_files, report.num_filters) == (True, 4, 4, 8)
    assert report.bytes_added == sum(result.bytes_added for result in report.files) > 0
    assert all(0 < result.seconds < report.seconds for result in report.files)
    assert str(report).startswith(f"embedded 8 filters into 4 of 4 files, {report.bytes_added:+,} bytes, ")
    for result in report.files:
        assert parquet_bloom.verify(result.path, data=True).ok
        assert all(stored.fpp < 0.0015 for stored in parquet_bloom.open(result.path).chunks())
        assert not (Path(result.path).parent / f".{Path(result.path).name}.crc").exists()
    assert rows(spark.read.parquet(str(copied))) == before
    now = contents(copied)
    assert {path: now[path] for path in hidden} == hidden
    assert not list(copied.rglob("*.tmp"))

    again = parquet_bloom.spark.embed(spark, copied, ["id", "st.x"])
    assert (again.unchanged_files, again.num_filters, again.bytes_added) == (4, 0, 0)
    assert [result.kept for result in again.files] == [2] * 4
    assert contents(copied) == now
    assert "embedded 0 filters into 0 of 4 files, +0 bytes, 4 unchanged, " in str(again)

    replaced = parquet_bloom.spark.embed(
        spark, copied, {"id": {"fpp": 0.01, "ndv": 4000}}, replace=True, power_of_two=False
    )
    assert replaced.num_filters == 4
    assert all(parquet_bloom.open(file).filter(0, "id").num_bytes > 4000 for file in files if file.name[0] != ".")


def test_spark_prunes_by_our_filters(spark: Any, write: Any) -> None:
    path = write("pruned", "id * 3 id", rows=4000, files=1, embed=["id"], **{"parquet.block.row.count.limit": 1000})
    (file,) = path.glob("*.parquet")

    def scanned(where: str) -> int:
        frame = spark.read.parquet(str(path)).where(where)
        frame.collect()
        plan = frame._jdf.queryExecution().executedPlan()
        while plan.children().size():
            plan = plan.children().head()
        return int(plan.metrics().apply("numOutputRows").value())

    assert scanned("id = 301") == 0  # between the bounds of a row group, and absent by its filter
    assert scanned("id = 300") == 1000
    assert len(oracle.filters(file)) == 4
    peers.with_zeroed_filters(file, file)
    (path / f".{file.name}.crc").unlink(missing_ok=True)
    assert scanned("id = 300") == 0


def test_paths(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a%20b ü", "{a,b}[x]*"):
        folder = tmp_path / name / "p=a%2Fb"
        folder.mkdir(parents=True)
        for number in range(6):
            pq.write_table(pa.table({"id": [number]}), folder / f"{number} %.parquet")
        files = parquet_files(folder)
        frame = spark.read.parquet(f"file://{folder}".translate({ord(c): f"\\{c}" for c in "{}[]*?,\\"}))
        (uri,) = frame.where("id = 4").select("_metadata.file_path").first()
        relative = files[3].relative_to(tmp_path)
        for path in (str(files[0]), f"file:{files[1]}", f"file://{files[2]}", relative, uri, tmp_path / name):
            report = parquet_bloom.spark.embed(spark, path, ["id"])
            assert (report.ok, report.embedded_files) == (True, 1)
        assert parquet_bloom.spark.embed(spark, [files[0], str(folder)], "id").total_files == 6


def test_a_broken_file_does_not_stop_the_others(spark: Any, copied: Path) -> None:
    text, cut, filtered = copied / "a.parquet", copied / "p=1" / "cut.parquet", parquet_files(copied)[0]
    text.write_text("no Parquet file")
    cut.write_bytes(parquet_files(copied)[1].read_bytes()[:-700] + b"\xff\xff\x00\x00PAR1")
    parquet_bloom.embed(filtered, ["id"])
    before = contents(copied)
    report = parquet_bloom.spark.embed(spark, copied, ["id"])
    assert not report.ok
    assert (report.embedded_files, report.unchanged_files, len(report.failures)) == (3, 1, 2)
    assert {failure.path for failure in report.failures} == {str(text), str(cut)}
    assert all(failure.error and failure.path in failure.error for failure in report.failures)
    assert f"2 failed ({report.failures[0].error})" in str(report)
    assert "\n" not in str(report)
    assert {path: contents(copied)[path] for path in (str(text), str(cut))} == {
        path: before[path] for path in (str(text), str(cut))
    }


def test_errors_of_the_whole_job(spark: Any, copied: Path, tmp_path: Path) -> None:
    before = contents(copied)
    embed = parquet_bloom.spark.embed
    with pytest.raises(errors.StorageError, match="there is no such file or folder"):
        embed(spark, tmp_path / "nowhere", ["id"])
    with pytest.raises(errors.StorageError, match="only local files, and objects by their URLs, can be reached"):
        embed(spark, "hdfs://host/lake", ["id"])
    with pytest.raises(errors.UnknownColumnError, match="column 'nobody': no such column in any of 4 files"):
        embed(spark, copied, ["id", "nobody"])
    with pytest.raises(errors.UnsupportedTypeError, match="BOOLEAN"):
        embed(spark, copied, ["flag"])
    with pytest.raises(errors.ParquetBloomError, match="fpp"):
        embed(spark, copied, ["id"], fpp=2)
    with pytest.raises(errors.ParquetBloomError, match="no path"):
        embed(spark, [], ["id"])
    for log in ("_delta_log", "_spark_metadata", ".hoodie"):
        (copied / log).mkdir()
        for path in (copied, copied / "p=0", [parquet_files(copied)[0]]):
            with pytest.raises(errors.ManagedTableError):
                embed(spark, path, ["id"])
        (copied / log).rmdir()
    assert contents(copied) == before
    (tmp_path / "empty").mkdir()
    assert embed(spark, tmp_path / "empty", ["id"]).total_files == 0


def test_columns_that_the_first_files_lack(spark: Any, tmp_path: Path) -> None:
    """The driver looks into some files; into the others a job does, as it embeds into so many."""
    for number in range(40):
        table = {"x": [1]} if number < 35 else {"id": [number], "flag": [True], "UserId": ["u"]}
        pq.write_table(pa.table(table), tmp_path / f"{number:02}.parquet")
    before = contents(tmp_path)
    embed = parquet_bloom.spark.embed
    with pytest.raises(errors.UnknownColumnError, match="column 'nobody': no such column in any of 40 files"):
        embed(spark, tmp_path, ["x", "id", "nobody"])
    with pytest.raises(errors.UnsupportedTypeError, match="BOOLEAN"):
        embed(spark, tmp_path, ["x", "flag"])
    with pytest.raises(errors.ParquetBloomError, match="cannot be sent to the executors: "):
        embed(spark, tmp_path, ["x", "id"], storage_options={"credential_provider": threading.Lock()})
    assert contents(tmp_path) == before
    report = embed(spark, tmp_path, ["x", "id"])
    assert (report.embedded_files, report.num_filters) == (40, 40)
    assert embed(spark, tmp_path, ["x", "id"]).unchanged_files == 40


def test_names_by_case_and_columns_that_some_files_lack(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"Id": [1], "new": ["x"]}), tmp_path / "2.parquet")
    pq.write_table(pa.table({"id": [1], "ID2": [2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "0.parquet")
    report = parquet_bloom.spark.embed(spark, tmp_path, {"ID": 0.001, "NEW": None})
    assert [(result.status, result.filters, result.missing) for result in report.files] == [
        ("unchanged", 0, ("ID", "NEW")),
        ("embedded", 1, ("NEW",)),
        ("embedded", 2, ()),
    ]


def test_a_task_that_runs_again(copied: Path) -> None:
    """Retries and speculative tasks, without Spark: the same file, later or at the same time."""
    files = [str(file) for file in parquet_files(copied)]
    job = _Embed({"id": FilterOptions(), "UserId": FilterOptions()}, False, True)
    first = FileTask(job).process_files([*enumerate(files[:2])])
    assert next(first)[1].result.status == "embedded"
    first.close()  # the executor is lost before the second file
    again = FileTask(job, threads=2)(pickle.dumps([*enumerate(files[:2])]))
    assert [(number, outcome.result.status) for number, outcome in pickle.loads(again)] == [
        (0, "unchanged"),
        (1, "embedded"),
    ]

    results: list[Any] = []
    barrier = threading.Barrier(4)

    def attempt() -> None:
        barrier.wait()
        results.append(job(files[2]))

    twins = [threading.Thread(target=attempt) for _ in range(4)]
    for twin in twins:
        twin.start()
    for twin in twins:
        twin.join()
    assert [result.error for result in results] == [None] * 4
    assert "embedded" in {result.status for result in results}
    assert parquet_bloom.verify(files[2], data=True).ok
    assert [os.path.basename(name) for name in os.listdir(copied / "p=1") if name.endswith(".tmp")] == []
    with parquet_bloom.open(files[2]) as file:
        assert len(list(file.chunks())) == 2


def test_whatever_goes_wrong_is_a_result() -> None:
    secret = "x" * 20
    secrets = find_secrets({"aws_secret_access_key": secret})

    def fail(path: str) -> None:
        raise MemoryError(f"not\nenough for {secret}")

    def change(path: str) -> None:
        raise errors.ConcurrentChangeError("another writer replaced it meanwhile", path=path)

    assert FileTask(fail, secrets).process("/a").error == "/a: MemoryError: not enough for ***"
    assert secret not in repr(FileTask(fail, secrets))
    assert FileTask(change, secrets).process("/a").error == "/a: another writer replaced it meanwhile"


def test_why_a_job_failed() -> None:
    python = (
        'An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File "x", line 1\n%s\n'
    )
    gone = describe_failure(python % "ModuleNotFoundError: No module named 'parquet_bloom'" + "\tat org.apache.X")
    assert gone.startswith(
        "the Spark job failed: ModuleNotFoundError: No module named 'parquet_bloom'; the executors need"
    )
    other = describe_failure(
        python % "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] worker 3.12, driver 3.11"
    )
    assert other.startswith(
        "the Spark job failed: PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] worker 3.12, driver 3.11; "
    )
    lost = (
        "An error occurred while calling o48.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to "
        "stage failure: Task 2, most recent failure: Lost task 2.3 (TID 9) (host executor driver): "
        'java.io.IOException: Cannot run program "python9": error=2\n\tat java.base/x\nCaused by: java.io.IOException\n'
    )
    assert 'failed: java.io.IOException: Cannot run program "python9": error=2; the executors need' in describe_failure(
        lost
    )
    assert describe_failure("org.apache.spark.SparkException: boom\n") == (
        "the Spark job failed: org.apache.spark.SparkException: boom"
    )
    assert describe_failure("") == "the Spark job failed: no reason was given"
