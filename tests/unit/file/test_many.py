"""`embed`, `drop` and `verify` of many files: what is done to each, and what happens to files that fail."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import errors
from parquet_bloom.file import many_files

NAMES = ["a.parquet", "x/b.parquet", "x/c.parquet"]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with `lake/`: three files of two row groups, the second of which has a filter."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        path = tmp_path / "lake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": range(200), "flag": [True] * 200}), path, row_group_size=100)
    parquet_bloom.embed("lake/x/b.parquet", ["id"])
    (tmp_path / "lake" / "_SUCCESS").touch()
    (tmp_path / "lake" / ".a.parquet.0123456789abcdef.parquet_bloom.tmp").write_bytes(b"left by a killed writer")
    return tmp_path


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def break_file(name: str = "lake/x/b.parquet") -> None:
    Path(name).write_bytes(b"no Parquet at all")


@pytest.mark.parametrize(
    "paths",
    [
        *("lake", Path("lake"), "lake/**/*.parquet", "file://{cwd}/lake"),
        *([f"lake/{name}" for name in NAMES], ["lake/x", "lake/a.parquet", "lake/x/b.parquet"]),
    ],
    ids=str,
)
def test_what_prune_takes_is_taken(paths, lake):
    if isinstance(paths, str):
        paths = paths.format(cwd=lake)
    expected = [os.path.realpath(path) for path in parquet_bloom.prune(paths, "id = 1").selected]
    report = parquet_bloom.embed(paths, ["id"])
    assert [os.path.realpath(one.path) for one in report] == expected
    assert len(report) == 3
    assert [report[i] for i in range(3)] == report.files
    assert Path("lake/.a.parquet.0123456789abcdef.parquet_bloom.tmp").read_bytes() == b"left by a killed writer"
    written = {os.path.basename(one.path): (one.changed, one.num_filters, one.kept) for one in report}
    assert written == {"a.parquet": (True, 2, 0), "b.parquet": (False, 0, 2), "c.parquet": (True, 2, 0)}
    assert (report.changed, report.num_filters, report.kept, report.errors) == (True, 4, 2, {})
    assert report.bytes_added == sum(one.bytes_added for one in report) > 0
    verified = parquet_bloom.verify(paths, data=True)
    assert [len(one.chunks) for one in verified] == [2, 2, 2]
    assert verified.ok
    assert len(verified.chunks) == 6
    dropped = parquet_bloom.drop(paths)
    assert [one.num_filters for one in dropped] == [2, 2, 2]
    assert dropped.bytes_freed == sum(one.bytes_freed for one in dropped) > 0
    assert parquet_bloom.verify(paths).chunks == []


def test_of_one_file_there_is_its_own_report(lake):
    for path in ("lake/a.parquet", Path("lake/a.parquet"), b"lake/a.parquet", f"file://{lake}/lake/a.parquet"):
        for report in (
            parquet_bloom.embed(path, ["id"], dry_run=True),
            parquet_bloom.drop(path, dry_run=True),
            parquet_bloom.verify(path),
        ):
            assert report.files == [report]
            assert len(str(report).splitlines()) == 1
            assert report.path.endswith("lake/a.parquet")


def test_files_and_folders_that_patterns_could_mean(lake):
    Path("lake/[x]").mkdir()
    pq.write_table(pa.table({"id": [1]}), "lake/[x]/d.parquet")
    pq.write_table(pa.table({"id": [1]}), "lake/[a].parquet")
    assert [one.path for one in parquet_bloom.embed("lake/[x]", ["id"])] == ["lake/[x]/d.parquet"]
    assert parquet_bloom.embed("lake/[a].parquet", ["id"]).path == "lake/[a].parquet"
    assert [one.path for one in parquet_bloom.verify("lake/[ab].parquet")] == ["lake/a.parquet"]


def test_the_report_is_a_table(lake):
    report = parquet_bloom.embed("lake", ["id"], dry_run=True)
    sizes = [f"{one.bytes_added:+}".rjust(5) for one in report]
    added = report.bytes_added
    assert str(report) == (
        "file              filters  kept  bytes  written\n"
        f"lake/a.parquet          2     0  {sizes[0]}       no\n"
        f"lake/x/b.parquet        0     2  {sizes[1]}       no\n"
        f"lake/x/c.parquet        2     0  {sizes[2]}       no\n"
        f"lake: would get 4 filters in 3 files, {added:+,} bytes"
    )
    break_file()
    report = parquet_bloom.verify("lake", on_error="report")
    assert str(report) == (
        "file              filters  bad\n"
        "lake/a.parquet          0    0\n"
        "lake/x/c.parquet        0    0\n"
        "failed: lake/x/b.parquet: not a Parquet file, or one cut off: it does not end in PAR1\n"
        "lake: no filters in 2 files; 1 file failed"
    )


def test_a_long_report_is_cut(tmp_path):
    for number in range(25):
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"{number:02}.parquet")
    lines = str(parquet_bloom.embed(tmp_path, ["id"])).splitlines()
    assert len(lines) == 23
    assert lines[-2] == "... and 5 more files"
    for number in range(25):
        (tmp_path / f"{number:02}.parquet").write_bytes(b"")
    lines = str(parquet_bloom.drop(tmp_path, on_error="report")).splitlines()
    assert lines[-2] == "... and 5 more failed"
    assert lines[-1].endswith(": 0 filters in 0 files, +0 bytes; 25 files failed")


CALLS = [
    lambda paths, **options: parquet_bloom.embed(paths, ["id"], **options),
    lambda paths, **options: parquet_bloom.drop(paths, **options),
    lambda paths, **options: parquet_bloom.verify(paths, **options),
]
each_call = pytest.mark.parametrize("call", CALLS, ids=["embed", "drop", "verify"])


def test_verify_is_not_ok_if_a_file_failed(lake):
    assert parquet_bloom.verify("lake").ok
    break_file()
    report = parquet_bloom.verify("lake", on_error="report")
    assert (report.problems, report.ok) == ([], False)


@each_call
@pytest.mark.parametrize("threads", [None, 1, 4])
def test_the_others_are_done_before_the_error_is_raised(call, threads, lake):
    break_file("lake/a.parquet")
    with pytest.raises(errors.FilesFailedError) as caught:
        call("lake", threads=threads)
    problem = "lake/a.parquet: not a Parquet file, or one cut off: it does not end in PAR1"
    assert str(caught.value) == f"1 of 3 files failed: {problem}"
    assert list(caught.value.errors) == ["lake/a.parquet"]
    assert isinstance(caught.value.errors["lake/a.parquet"], errors.NotParquetError)
    assert caught.value.__cause__ is caught.value.errors["lake/a.parquet"]
    report = caught.value.report
    assert report.errors == caught.value.errors
    assert [one.path for one in report] == ["lake/x/b.parquet", "lake/x/c.parquet"]
    assert Path("lake/a.parquet").read_bytes() == b"no Parquet at all"
    break_file()
    with pytest.raises(errors.FilesFailedError, match="2 of 3 files failed, the others are done; the first error: "):
        call("lake", threads=threads)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), list(again.errors)) == (str(caught.value), list(caught.value.errors))
    assert [one.path for one in again.report] == [one.path for one in caught.value.report]


@each_call
def test_errors_are_reported_or_given_to_a_function(call, lake):
    break_file()
    report = call("lake", on_error="report")
    assert list(report.errors) == ["lake/x/b.parquet"]
    assert len(report) == 2
    given: list[errors.ParquetBloomError] = []
    report = call("lake", on_error=given.append)
    assert given == list(report.errors.values())
    alone = call("lake/x/b.parquet", on_error="report")
    assert (list(alone.errors), len(alone), bool(alone)) == (["lake/x/b.parquet"], 0, True)
    call("lake/x/b.parquet", on_error=given.append)
    assert len(given) == 2
    for kind in ("finish", "raise"):
        with pytest.raises(errors.NotParquetError):
            call("lake/x/b.parquet", on_error=kind)


def test_raise_begins_no_further_file(lake):
    break_file("lake/a.parquet")
    before = snapshot(lake)
    with pytest.raises(errors.NotParquetError):
        parquet_bloom.embed("lake", ["id"], on_error="raise", threads=1)
    assert snapshot(lake) == before


@each_call
def test_options_that_cannot_be(call, lake):
    for threads in (0, -1, True, 1.5):
        with pytest.raises(errors.ParquetBloomError, match="threads must be an integer of at least 1"):
            call("lake", threads=threads)
    with pytest.raises(errors.ParquetBloomError, match="on_error must be 'finish', 'raise', 'report' or a function"):
        call("lake", on_error="ignore")
    with pytest.raises(errors.StorageError, match="there is no such file or folder"):
        call(["lake", "nowhere"])


def test_an_output_is_for_a_single_file(lake):
    before = snapshot(lake)
    for paths in ("lake", "lake/*.parquet", ["lake/a.parquet"], ["lake/a.parquet", "lake/x"]):
        for call in CALLS[:2]:
            with pytest.raises(errors.ParquetBloomError, match="output= is the new file of a single file, but "):
                call(paths, output="new.parquet")
    assert snapshot(lake) == before
    assert parquet_bloom.embed("lake/a.parquet", ["id"], output="new.parquet").output == "new.parquet"


def test_wrong_columns_are_said_once_or_by_file(lake):
    before = snapshot(lake)
    for columns in ([], {"id": 2}, ["id", 3]):
        with pytest.raises(errors.ParquetBloomError) as caught:
            parquet_bloom.embed("lake", columns)
        assert not isinstance(caught.value, errors.FilesFailedError)
    report = parquet_bloom.embed("lake", ["flag"], on_error="report")
    assert [type(error) for error in report.errors.values()] == [errors.UnsupportedTypeError] * 3
    assert [error.path for error in report.errors.values()] == list(report.errors)
    assert snapshot(lake) == before
    assert len(parquet_bloom.verify("lake", columns="id").chunks) == 2


def test_columns_and_paths_may_be_iterators(lake):
    report = parquet_bloom.embed((f"lake/{name}" for name in NAMES), (name for name in ["id"]))
    assert report.path == "3 paths"
    assert (len(report), report.num_filters) == (3, 4)
    assert len(parquet_bloom.drop(iter(["lake"]), iter(["id"])).filters) == 6


@pytest.mark.parametrize("marker", ["_delta_log", "_spark_metadata"])
def test_tables_are_refused(marker, lake):
    Path("lake/x", marker).mkdir()
    before = snapshot(lake)
    for paths in ("lake/x", "lake", "lake/x/*.parquet", ["lake/x"]):
        with pytest.raises(errors.ManagedTableError):
            parquet_bloom.prune(paths, "id = 1")
        for call in CALLS:
            with pytest.raises(errors.ManagedTableError):
                call(paths)
    with pytest.raises(errors.ManagedTableError, match="write new files and commit them through the table"):
        parquet_bloom.drop("lake/x")
    assert snapshot(lake) == before
    report = parquet_bloom.embed(["lake/a.parquet", "lake/x/c.parquet"], ["id"], on_error="report")
    assert isinstance(report.errors["lake/x/c.parquet"], errors.ManagedTableError)
    assert len(report) == 1
    assert len(parquet_bloom.verify([f"lake/{name}" for name in NAMES])) == 3


@pytest.mark.parametrize("threads", [None, 1, 4])
def test_a_dry_run_changes_nothing_and_tells_what_is_done(threads, lake):
    before = snapshot(lake)
    plan = parquet_bloom.embed("lake", ["id"], dry_run=True)
    assert snapshot(lake) == before
    done = parquet_bloom.embed("lake", ["id"], threads=threads)
    assert (plan.changed, done.changed) == (False, True)
    assert (plan.filters, plan.new_size) == (done.filters, done.new_size)
    assert [one.path for one in plan] == [one.path for one in done]
    assert parquet_bloom.drop("lake", dry_run=True).new_size == parquet_bloom.drop("lake").new_size


def test_links_to_one_file_are_one_file(lake):
    for letter in "mnop":
        Path(f"lake/{letter}.parquet").symlink_to("a.parquet")
    report = parquet_bloom.embed("lake", ["id"], threads=8)
    assert [one.path for one in report] == [f"lake/{name}" for name in NAMES]
    assert Path("lake/m.parquet").is_symlink()
    assert len(parquet_bloom.verify("lake")) == 7


def test_progress_counts_files_of_many_and_parts_of_one(lake):
    for call in CALLS:
        seen: list[tuple[int, int]] = []
        call("lake", progress=lambda done, total, seen=seen: seen.append((done, total)))
        assert seen == [(1, 3), (2, 3), (3, 3)]
    seen = []
    parquet_bloom.embed("lake/a.parquet", ["id"], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize("jobs", [1, 3])
def test_files_in_work_end_when_the_results_are_not_wanted(jobs):
    begun, ended, is_waiting = [], [], threading.Event()

    def work(file: int, progress: many_files.Progress) -> int:
        begun.append(file)
        if file == 0:
            return 0
        try:
            while True:
                progress(1, 2)
                is_waiting.set()
                threading.Event().wait(0.01)
        finally:
            ended.append(file)

    def interrupt() -> None:
        with many_files.process_files(range(100), work, jobs) as results:
            assert next(results) == 0
            if jobs > 1:
                is_waiting.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert sorted(ended) == sorted(begun)[1:]
    assert len(begun) <= 1 + 2 * jobs


def test_another_file_system(lake):
    filesystem = pyarrow.fs.SubTreeFileSystem(str(lake), pyarrow.fs.LocalFileSystem())
    assert [one.path for one in parquet_bloom.verify("lake", filesystem=filesystem)] == [f"lake/{n}" for n in NAMES]
    assert parquet_bloom.verify("lake/a.parquet", filesystem=filesystem).is_single
    report = parquet_bloom.embed("lake", ["id"], filesystem=filesystem, on_error="report")
    assert len(report.errors) == 2  # they cannot be replaced there
    assert [one.kept for one in report] == [2]
    assert parquet_bloom.embed("lake", ["id"], filesystem=filesystem, dry_run=True).num_filters == 4


def test_orc_files_are_verified_and_refused_by_writers(lake):
    table = pa.table({"id": range(5000)})
    pyarrow.orc.write_table(table, "lake/o.orc", bloom_filter_columns=[1], row_index_stride=1000)
    report = parquet_bloom.verify("lake", data=True)
    assert {one.path: len(one.chunks) for one in report}["lake/o.orc"] == 5
    assert parquet_bloom.verify("lake/o.orc").chunks
    failed = parquet_bloom.embed("lake", ["id"], on_error="report").errors
    assert [str(error) for error in failed.values()] == [
        "lake/o.orc: an ORC file: only its writer can make its filters; `advise` reports how"
    ]
