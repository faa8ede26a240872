"""Distributed jobs: what they share, and embed's dry run, verify and advise, which answer as they do without Spark."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom import errors
from parquet_bloom.spark.jobs import file_tasks
from parquet_bloom.spark.jobs import run_files as job_runner

pytestmark = pytest.mark.spark

FILES = 6
MANY = 40  # files, of which the driver does not process all by itself


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Files of two row groups; `Id` and `bulk` are worth a filter, `seq` and `flag` are not."""
    rng = np.random.default_rng(5)
    path = tmp_path / "lake"
    path.mkdir()
    for number in range(FILES):
        ids = rng.integers(0, 1 << 60, 400)
        columns = {"Id": ids, "seq": np.arange(400) + 400 * number, "flag": ids % 2 == 0}
        bulk = [rng.bytes(60) for _ in ids]
        pq.write_table(pa.table(columns | {"bulk": bulk}), path / f"{number}.parquet", row_group_size=200)
    return path


def paths(lake: Path) -> list[str]:
    return [str(file) for file in sorted(lake.iterdir())]


def test_a_dry_run_tells_and_writes_nothing(spark: Any, lake: Path) -> None:
    before = {file: file.read_bytes() for file in lake.iterdir()}
    would = parquet_bloom.spark.embed(spark, lake, ["id"], dry_run=True)
    assert {file: file.read_bytes() for file in lake.iterdir()} == before
    assert (would.dry_run, {result.status for result in would.files}) == (True, {"would embed"})
    assert str(would).startswith(f"would embed 12 filters into 6 of 6 files, {would.bytes_added:+,} bytes, ")
    done = parquet_bloom.spark.embed(spark, lake, ["id"])
    numbers = [[(r.path, r.bytes_added, r.filters, r.kept) for r in report.files] for report in (would, done)]
    assert numbers[0] == numbers[1]
    again = parquet_bloom.spark.embed(spark, lake, ["id"], dry_run=True)
    assert {result.status for result in again.files} == {"unchanged"}
    with pytest.raises(errors.ParquetBloomError, match="dry_run must be"):
        parquet_bloom.spark.embed(spark, lake, ["id"], dry_run="yes")  # type: ignore[arg-type]


def test_a_report_is_rows_of_what_was_done(spark: Any, lake: Path) -> None:
    report = parquet_bloom.spark.embed(spark, lake, ["id"])
    frame = report.to_dataframe(spark)
    shutil.rmtree(lake)  # nothing of the job is left that could run again
    assert frame.where("status = 'embedded'").count() == FILES
    assert frame.columns == list(report.rows()[0]) == report.to_arrow().column_names
    assert frame.selectExpr("sum(bytes_added)").first()[0] == report.bytes_added
    assert list(report.to_pandas()["path"]) == [result.path for result in report.files]
    odd = parquet_bloom.spark.FileResult(os.fsdecode(b"/lake/\xff.parquet"), "embedded")
    assert parquet_bloom.spark.EmbedJobReport([odd]).to_arrow()["path"].to_pylist() == ["file:///lake/%FF.parquet"]


def test_verify(spark: Any, lake: Path) -> None:
    good, bad, broken, *_ = paths(lake)
    for path in (good, bad):
        parquet_bloom.embed(path, ["Id", "seq"])
    with parquet_bloom.open(bad) as file:
        (chunk,) = file.chunks(row_groups=[1], columns=["seq"])
        begin, length = chunk.offset + chunk.header.header_bytes, chunk.num_bytes
    data = bytearray(Path(bad).read_bytes())
    data[begin : begin + length // 2] = bytes(length // 2)
    Path(bad).write_bytes(data)
    Path(broken).write_bytes(b"PAR1 is not enough")
    report = parquet_bloom.spark.verify(spark, lake)
    assert [result.status for result in report.files] == ["good", "bad", "failed", *["no filters"] * 3]
    assert [result.filters for result in report.files] == [4, 4, 0, 0, 0, 0]
    assert [result.values for result in report.files[:2]] == [4 * 200, 4 * 200]
    assert not report.ok
    assert report.problems == [str(problem) for problem in parquet_bloom.verify(bad, data=True).problems]
    assert "row group 1, column 'seq': the filter denies " in report.problems[0]
    assert str(report.failures[0].error).startswith(f"{broken}: ")
    assert str(report).startswith("8 filters in 6 files, 1 of them bad; 3 files without filters, 1 bad (")
    assert report.to_dataframe(spark).where("size(problems) = 1").count() == 1

    unread = parquet_bloom.spark.verify(spark, [good, bad], data=False)
    assert unread.ok
    assert [result.values for result in unread.files] == [None, None]
    chosen = parquet_bloom.spark.verify(spark, [good, bad], columns="ID")
    assert chosen.ok
    assert chosen.num_filters == 4
    with pytest.raises(errors.UnknownColumnError, match="'nobody'"):
        parquet_bloom.spark.verify(spark, [good], columns=["nobody"])


def test_advise_as_without_spark(spark: Any, lake: Path) -> None:
    (lake / "broken.parquet").write_bytes(b"PAR1 is not enough")
    report = parquet_bloom.spark.advise(spark, str(lake), sample=4, fpp=0.02)
    assert report == parquet_bloom.advise(str(lake), sample=4, fpp=0.02)
    assert report.worth() == ["Id", "bulk"]
    assert [path for path, _ in report.failures] == [str(lake / "broken.parquet")]
    with pytest.raises(errors.UnknownColumnError, match="'nobody'"):
        parquet_bloom.spark.advise(spark, lake, ["nobody"])


def test_a_file_that_fails_hides_no_other_of_its_task(spark: Any, conf: Any) -> None:
    def task_of(path: str) -> tuple[str, int]:
        """The task that a file is in; of files whose names end in 7, an error."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if path.endswith("7"):
            raise ValueError("not\nthis")
        return path, context.partitionId()

    files = [os.fsdecode(b"/lake/\xff %d") % number for number in range(25)]
    for cores, tasks in ((25, 25), (4, 4), (1, 1)):
        with conf({"spark.sql.leafNodeDefaultParallelism": str(cores)}):
            outcomes = job_runner.run(spark, "ask", files, task_of, on_executors=True)
        assert [outcome.path for outcome in outcomes] == files
        assert [(n, outcome.error) for n, outcome in enumerate(outcomes) if outcome.error] == [
            (n, f"/lake/\\udcff {n}: ValueError: not this") for n in (7, 17)
        ]
        result = [(outcome.path, outcome.result) for outcome in outcomes if outcome.result]
        assert result == [(file, (file, n % tasks)) for n, file in enumerate(files) if n not in (7, 17)]


def test_a_job_that_fails_as_a_whole_says_why_in_a_line(spark: Any) -> None:
    class Missing:
        """Work that a worker cannot import."""

        def __reduce__(self) -> tuple[Any, ...]:
            return __import__, ("a_module_of_nobody",)

        def __call__(self, path: str) -> None:
            raise AssertionError

    problem = (
        "^the Spark job failed: ModuleNotFoundError: No module named 'a_module_of_nobody'; the executors need a Python"
    )
    with pytest.raises(errors.ParquetBloomError, match=problem) as raised:
        job_runner.run(spark, "ask", ["/lake/1"], Missing(), on_executors=True)
    assert "\n" not in str(raised.value)


def test_a_local_master_runs_tasks_in_the_python_of_the_driver(
    spark: Any, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark's `python3` does not have the package, where a virtual environment is not activated."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/bin/false")
    for number in range(FILES, MANY):
        shutil.copy(lake / "0.parquet", lake / f"{number}.parquet")
    assert parquet_bloom.spark.embed(spark, lake, ["id"]).num_filters == 2 * MANY
    assert parquet_bloom.spark.verify(spark, lake, data=True).ok
    assert spark.sparkContext.pythonExec == "/bin/false"  # nobody else's tasks are concerned


def test_the_driver_does_a_few_files_in_local_mode(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def process(path: str) -> int:
        if path.endswith("/3"):
            raise ValueError("a secret")
        return os.getpid()

    def run(sizes: list[int], prefix: str = "/lake/", on_executors: bool = False) -> tuple[set[int], list[str]]:
        files = [f"{prefix}{number}" for number in range(len(sizes))]
        options = {"aws_secret_access_key": "a secret"}
        outcomes = job_runner.run(spark, "ask", files, process, options, sizes, on_executors=on_executors)
        assert [outcome.path for outcome in outcomes] == files
        return {outcome.result for outcome in outcomes if outcome.result}, [one.error for one in outcomes if one.error]

    pids, failed = run([0] * 20)
    assert pids == {os.getpid()}
    assert [error.startswith("/lake/3: ValueError: ") and "a secret" not in error for error in failed] == [True]
    for sizes, on_executors in (([0] * 33, False), ([1, 1, 1, 1, 64 << 20], False), ([0] * 20, True)):
        pids, failed = run(sizes, on_executors=on_executors)
        assert os.getpid() not in pids
        assert failed == ["/lake/3: ValueError: ***"]
    # Workers may have other environment variables, with which they open a store.
    assert os.getpid() not in run([0] * 3, "s3://lake/")[0]
    monkeypatch.setattr(spark.sparkContext, "master", "spark://host:7077")
    assert os.getpid() not in run([0] * 3)[0]


def test_tasks_are_as_many_as_cores(spark: Any, lake: Path, tmp_path: Path) -> None:
    """Of each job: embed in both modes, verify, advise, an index by file and by row group, and probing."""

    def tasks_of(job: Callable[[], object]) -> int:
        """Those of the job's largest stage."""
        context, group = spark.sparkContext, uuid.uuid4().hex
        context.setJobGroup(group, "counted")
        try:
            job()
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
        tracker = context.statusTracker()
        stages = [stage for number in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(number).stageIds]
        return max(tracker.getStageInfo(stage).numTasks for stage in stages)

    for number in range(FILES, MANY):
        shutil.copy(lake / "0.parquet", lake / f"{number}.parquet")
    frame = spark.read.parquet(str(lake))
    module = parquet_bloom.spark
    ways: dict[str, Callable[[], object]] = {
        "dry run": lambda: module.embed(spark, lake, ["Id"], dry_run=True),
        "embed": lambda: module.embed(spark, lake, ["Id"]),
        "verify": lambda: module.verify(spark, lake),
        "verify filters": lambda: module.verify(spark, lake, data=False),
        "advise": lambda: module.advise(spark, lake),
        "index": lambda: module.build_index(spark, lake, ["Id"], tmp_path / "files"),
        "fine index": lambda: module.build_index(spark, lake, ["Id"], tmp_path / "groups", granularity="row_group"),
        "probing": lambda: module.pruned(frame, "Id = 5", probe_on="executors"),
    }
    cores = spark.sparkContext.defaultParallelism
    assert cores < MANY
    assert {name: tasks_of(way) for name, way in ways.items()} == dict.fromkeys(ways, cores)


@pytest.mark.parametrize("on_executors", [True, False])
def test_interrupted(spark: Any, tmp_path: Path, on_executors: bool) -> None:
    begun = tmp_path / "begun"

    def wait(path: str) -> None:
        Path(path).touch()
        time.sleep(120)

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    # Spark's own handler cancels whatever runs in the session; ours is that of any program.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    tracker = spark.sparkContext.statusTracker()
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            job_runner.run(spark, "wait", [str(begun)], wait, on_executors=on_executors)
    finally:
        signal.signal(signal.SIGINT, before)
    until = time.monotonic() + 30
    while tracker.getActiveJobsIds() and time.monotonic() < until:
        time.sleep(0.05)
    assert not tracker.getActiveJobsIds()
    assert spark.range(3).count() == 3


@contextmanager
def terminal() -> Iterator[bytearray]:
    """A terminal as stderr; what was written on it."""
    ours, theirs = pty.openpty()
    output = bytearray()

    def listen() -> None:
        try:
            while piece := os.read(ours, 65536):
                output.extend(piece)
        except OSError:  # the other end is closed
            pass

    listener = threading.Thread(target=listen)
    listener.start()
    with os.fdopen(theirs, "w") as stream, redirect_stderr(stream):
        yield output
    listener.join()
    os.close(ours)


def test_progress_on_a_terminal(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar appears after a second."""

    def wait(path: str) -> None:
        time.sleep(0.7)

    monkeypatch.setenv("TERM", "xterm-256color")
    sizes = [file_tasks.MAX_TASK_BYTES] * 8
    with terminal() as output:
        job_runner.run(spark, "count sheep", [str(number) for number in range(8)], wait, None, sizes)
    text = output.decode()
    assert "count sheep" in text
    assert any(f"{done}/8 files" in text for done in range(1, 9))
    with terminal() as output:
        job_runner.run(spark, "count sheep", ["1"], len)
    assert output == b""


def test_objects_on_s3(spark: Any, lake: Path, s3: Any) -> None:
    pytest.importorskip("boto3")
    options = s3.storage_options | {"aws_secret_access_key": "a secret of the test"}
    for file in lake.iterdir():
        s3.put(f"lake/p=1/{file.name}", file.read_bytes())
    s3.put("lake/p=1/broken.parquet", b"PAR1 is not enough")
    s3.put("lake/_SUCCESS", b"")
    url = f"s3a://{s3.bucket}/lake/"
    keys = [f"lake/p=1/{number}.parquet" for number in range(FILES)]
    before = {key: s3.get(key) for key in keys}
    dry = parquet_bloom.spark.embed(spark, url, ["id"], dry_run=True, storage_options=options)
    assert {key: s3.get(key) for key in keys} == before
    report = parquet_bloom.spark.embed(spark, url, ["id"], storage_options=options)
    assert [result.status for result in report.files] == [*["embedded"] * FILES, "failed"]
    assert dry.bytes_added == report.bytes_added
    assert [result.path for result in report.files][:-1] == [f"s3a://{s3.bucket}/{key}" for key in keys]
    verdict = parquet_bloom.spark.verify(spark, url, storage_options=options)
    assert [result.status for result in verdict.files] == [*["good"] * FILES, "failed"]
    advice = parquet_bloom.spark.advise(spark, url, storage_options=options)
    assert advice == parquet_bloom.advise(url, storage_options=options)
    assert advice["Id"].filtered == 2 * FILES
    again = parquet_bloom.spark.embed(spark, url, ["id"], storage_options=options)
    assert (again.unchanged_files, again.bytes_added) == (FILES, 0)

    s3.fail(status=403, code="AccessDenied", times=1000, when=lambda request: request.key.endswith("3.parquet"))
    refused = parquet_bloom.spark.embed(spark, url, ["id"], replace=True, storage_options=options)
    assert [result.status for result in refused.files].count("failed") == 2
    for text in (str(refused), str(refused.rows()), repr(refused), str(verdict.rows()), repr(advice)):
        assert "a secret of the test" not in text


def test_secrets() -> None:
    options = {
        "aws_access_key_id": "the name of a key",
        "aws_secret_access_key": "hidden one",
        "default_headers": {"Authorization": "hidden two"},
        "aws_endpoint": "http://visible",
    }
    assert file_tasks.hide_secrets(
        file_tasks.find_secrets(options), "hidden one, hidden two, http://visible, the name of a key"
    ) == ("***, ***, http://visible, the name of a key")
    assert file_tasks.find_secrets(None) == []


def test_objects_that_cannot_be_replaced_in_place(spark: Any) -> None:
    with pytest.raises(errors.StorageError, match="only local files, and objects on S3, can be replaced in place"):
        parquet_bloom.spark.embed(spark, "https://127.0.0.1:9/a.parquet", ["id"])
