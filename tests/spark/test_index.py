"""The index of a lake that Spark builds, and asks before it reads: the answers and rows are those without either."""

from __future__ import annotations

import functools
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DateType, IntegerType, LongType, StringType, TimestampType, VariantType
from support.random_cases.hunting import seeds
from support.random_cases.random_queries import Asking, QueryTally, draw_settings
from support.random_cases.spark_lakes import Lake, make_lake
from support.spark.spark_metrics import opened, planned_files
from support.spark.spark_settings import settings

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom.errors import IndexInUseError, ParquetBloomError, StorageError, UnknownColumnError
from parquet_bloom.hashing.column_type import ColumnType, Kind, from_arrow
from parquet_bloom.lake.index_pruning import IndexPruner
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.pruning import PruningPredicate
from parquet_bloom.predicate.tree import Like
from parquet_bloom.predicate.variant_names import parse_evidence, to_arrow_type
from parquet_bloom.scan.model.folder_partitions import ScanRequest
from parquet_bloom.scan.model.scan_plan import FileScan, ScanPlan
from parquet_bloom.spark import build_index, explain_prune, install, pruned, read_parquet, semi_join_prune
from parquet_bloom.spark.jobs import index_job
from parquet_bloom.spark.jobs.index_job import (
    LAST_HASH,
    HashedTask,
    HashTask,
    Slices,
    WriteTask,
    WrittenSlice,
    spark_hash,
)
from parquet_bloom.spark.plan.column_trust import Rules, SparkCompatibility
from parquet_bloom.spark.plan.index_evidence import _TypeCompatibility, make_index_view, open_index
from parquet_bloom.spark.session.session_settings import SparkField
from parquet_bloom.storage import Entry
from parquet_bloom.storage.index_folder import Folder

pytestmark = pytest.mark.spark

COLUMNS = ["id", "name", "day", "tags", "st.x", "odd"]
GRAMS = ["grams(name)", "grams(lower(name))"]
NATIVE = {"parquet.filter.bloom.enabled": "false"}


def settle() -> None:
    """Wait until files' times show every later change."""
    time.sleep(2.1)


def table(number: int, rows: int = 120) -> pa.Table:
    """Rows of a file of several types, not the same ones in all files; every file has id 7."""
    rng = np.random.default_rng(number)
    ids = [*rng.integers(0, 1 << 31, rows - 3).tolist(), 7, number, None]
    narrow = pa.int32() if number % 4 == 1 else pa.int64()
    names = [None if id is None else f"n{id}" for id in ids]
    columns = {
        "id": pa.array(ids, narrow),
        "name": pa.array(names) if number % 3 else pa.array(names).dictionary_encode(),
        "day": pa.array([None if id is None else id % 30_000 for id in ids], pa.int32()).cast(pa.date32()),
        "tags": pa.array([[f"t{id}", f"t{number}"] if id else [] for id in ids]),
        "st": pa.array([{"x": id, "y": 1.0} for id in ids], pa.struct([("x", pa.int64()), ("y", pa.float64())])),
    }
    if number % 4 == 2:
        del columns["tags"]
    odd = {0: pa.int64(), 1: pa.string(), 2: pa.bool_()}.get(number % 4)
    if odd is not None:
        columns["odd"] = pa.array([id if id is None else id % 2 for id in ids]).cast(odd)
    return pa.table(columns)


def write(lake: Path, number: int, **options: Any) -> str:
    lake.mkdir(parents=True, exist_ok=True)
    path = lake / f"part {number:02}.parquet"
    pq.write_table(table(number), path, **({"row_group_size": 50} | options))
    return str(path)


@pytest.fixture(scope="module")
def twelve_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve files, whose times are past; tests that change them take a copy."""
    path = tmp_path_factory.mktemp("index") / "lä{k}e%41"
    for number in range(12):
        write(path, number)
    pq.write_table(table(12).slice(0, 0), path / "without rows.parquet")
    settle()
    return path


@pytest.fixture
def lake(twelve_files: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(twelve_files, tmp_path / "copied"))


def values_of(lake: Path, column: str) -> list[Any]:
    """Every value of a column, in all files; elements of lists."""
    column = column.removeprefix("lower(").removesuffix(")")
    results: dict[Any, None] = {}
    for file in sorted(lake.glob("*.parquet")):
        if column.split(".")[0] not in pq.read_schema(file).names:
            continue
        own = pq.read_table(file, columns=[column]).column(0).combine_chunks()
        if pa.types.is_struct(own.type):
            own = own.field("x")
        if pa.types.is_list(own.type):
            own = own.flatten()
        if not pa.types.is_boolean(own.type):
            results |= dict.fromkeys(value for value in own.to_pylist() if value is not None)
    return list(results)


def assert_same(one: LakeIndex, other: LakeIndex, lake: Path) -> int:
    """Two indexes answer alike for every value, and for some that are nowhere; how many values that were."""
    count = 0
    for column in one.columns:
        if column in GRAMS:
            count += assert_same_pieces(one, other, values_of(lake, "name"))
            continue
        values = values_of(lake, column)
        absent = [-value - 5 if isinstance(value, int) else value for value in values[:50]]
        first, second = ([sorted(answer) for answer in index.lookup(column, values + absent)] for index in (one, other))
        assert first == second, column
        count += len(values)
    return count


def assert_same_pieces(one: LakeIndex, other: LakeIndex, values: list[str]) -> int:
    """Two indexes leave the same units for pieces of texts, and not all of them; how many pieces that were."""
    total = left = 0
    for value in values[::17]:
        for node in (Like("name", f"%{value[2:]}"), Like("name", f"{value}%", "lower"), Like("name", "%\\%none%")):
            first, second = (sorted(IndexPruner(index.state, node).live()) for index in (one, other))
            assert first == second, node
            total += len(first)
            left += sum(selection.read for _, selection in first)
    assert left < total / 2
    return total


def files_in(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if name != "writer.lock"}


# ------------------------------------------------------------------------------------------------------------- building


@pytest.mark.parametrize(("granularity", "slices"), [("file", None), ("row_group", 5), ("zone", 2)])
def test_it_is_the_index_that_append_makes(
    spark: Any, twelve_files: Path, tmp_path: Path, granularity: Any, slices: int | None
) -> None:
    units: dict[str, Any] = {"granularity": granularity} | ({"zone_rows": 30} if granularity == "zone" else {})
    keys = [*COLUMNS, *GRAMS, "lower(name)"]
    report = build_index(spark, twelve_files, keys, tmp_path / "a", slices=slices, **units)
    created_index = LakeIndex.create(tmp_path / "b", keys, **units)
    expected = created_index.append(twelve_files)
    assert (report.added, report.entries, report.failed) == (13, expected.entries, {})
    assert report.uncovered == expected.uncovered
    with LakeIndex.open(tmp_path / "a") as index:
        assert index.check(13).problems == []
        one, other = index.stats(), created_index.stats()
        assert (one.entries, one.units, one.files, one.unindexed) == (other.entries, other.units, other.files, 0)
        for segment in index.state.segments:
            for part in segment.parts:
                tiles = part.info.slices
                assert (tiles[0].first, tiles[-1].last) == (0, LAST_HASH)
                assert all(before.last + 1 == tile.first for before, tile in pairwise(tiles))
        assert max(len(p.info.slices) for s in index.state.segments for p in s.parts) == (slices or 1)
        assert assert_same(index, created_index, twelve_files) > 4000
    manifests = [name for name in files_in(tmp_path / "a") if name.startswith("manifest")]
    assert manifests == ["manifest-000000000001.json"]


def test_paths_of_variants_that_spark_wrote(spark: Any, tmp_path: Path) -> None:
    """What Spark finds at a path is in the files that an index names, whether Spark shredded them or not."""
    mixed = "if(k % 3 = 0, '\"' || k || '\"', string(k))"
    document = f"""'{{"a":{{"b":"x' || k || '","n":' || k || '}},"m":' || {mixed} || '}}'"""
    shredding = ("spark.sql.variant.writeShredding.enabled", "spark.sql.variant.inferShreddingSchema")
    pushing = "spark.sql.variant.pushVariantIntoScan"  # fails on shredded columns where Spark generates no code
    for number, shreds in enumerate(("true", "false")):
        for name in shredding:
            spark.conf.set(name, shreds)
        numbers = f"(SELECT id k FROM range({100 * number}, {100 * number + 100}))"
        rows = spark.sql(f"SELECT k, parse_json({document}) v FROM {numbers}")
        rows.coalesce(1).write.mode("append").parquet(str(tmp_path / "lake"))
    for name in shredding:
        spark.conf.unset(name)
    settle()
    names = [pq.read_metadata(path).num_columns for path in (tmp_path / "lake").glob("*.parquet")]
    assert min(names) == 3 < max(names)
    keys = ["v:a.b::string", "v:a.n::bigint", "v:m::string", "v:m::bigint"]
    report = build_index(spark, tmp_path / "lake", keys, tmp_path / "i", granularity="zone")
    with LakeIndex.create(tmp_path / "j", keys, lake=tmp_path / "lake", granularity="zone") as created_index:
        created_index.append()
        expected = created_index.stats().entries
    assert not report.uncovered
    spark.conf.set(pushing, "false")
    frame = spark.read.parquet(str(tmp_path / "lake"))
    with LakeIndex.open(tmp_path / "i") as index:
        assert index.stats().entries == expected
        assert index.check(8).problems == []
        for key in keys:
            path, target = key.removeprefix("v:").split("::")
            got = frame.selectExpr(f"try_variant_get(v, '$.{path}', '{target}') x", "input_file_name() file")
            found = {(row.x, Path(row.file).name) for row in got.collect()}
            values = sorted({value for value, _ in found})
            answers = zip(values, index.lookup(key, values), strict=True)
            assert {(value, Path(one.path).name) for value, answer in answers for one in answer} == found
            assert len(found) == 200
    spark.conf.unset(pushing)


def test_existing_files_are_appended_to(spark: Any, lake: Path, tmp_path: Path) -> None:
    first, index = sorted(map(str, lake.glob("part*")))[:5], tmp_path / "index"
    build_index(spark, first, ["id", "name"], index, granularity="row_group", expected_values=10**6)
    assert str(build_index(spark, lake, ["name", "id"], index)).startswith("8 files added, 5 unchanged")
    os.unlink(first[0])
    pq.write_table(table(99), first[1])
    parquet_bloom.embed(first[2], "id")
    report = build_index(spark, None, ["id", "name"], index, slices=3)
    assert (report.added, report.replaced, report.unchanged) == (0, 2, 10)
    created_index = LakeIndex.create(tmp_path / "own", ["id", "name"], granularity="row_group", expected_values=10**6)
    created_index.append(lake)
    with LakeIndex.open(index) as opened_index:
        assert opened_index.check(20).problems == []
        assert_same(opened_index, created_index, lake)
        opened_index.compact(keep_seconds=0)
        assert_same(opened_index, created_index, lake)
        write(lake, 40)
        opened_index.append()
        created_index.append()
        assert_same(opened_index, created_index, lake)


def test_refused_input(spark: Any, lake: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"

    def refused(error: type[Exception], match: str, *given: Any, **options: Any) -> None:
        before = files_in(index) if index.exists() else set()
        with pytest.raises(error, match=match):
            build_index(spark, *given, **options)
        assert (files_in(index) if index.exists() else set()) == before

    refused(UnknownColumnError, "no such column in any of 13 files", lake, ["id", "nowhere"], index)
    refused(StorageError, "no such file or folder", tmp_path / "nothing", "id", index)
    refused(ParquetBloomError, "'postings', not 'cuckoo'", lake, "id", index, layout="cuckoo")
    refused(ParquetBloomError, "columns are one or more different names", lake, ["id", "id"], index)
    refused(ParquetBloomError, "granularity is", lake, "id", index, granularity="page")
    refused(ParquetBloomError, "memory_limit", lake, "id", index, memory_limit=1)
    refused(ParquetBloomError, "slices must be", lake, "id", index, slices=0)
    refused(ParquetBloomError, "give a path", None, "id", index)
    build_index(spark, lake, ["id", "name"], index)
    refused(ParquetBloomError, "the columns id, name", lake, "id", index)
    refused(ParquetBloomError, "the granularity 'file'", lake, ["id", "name"], index, granularity="row_group")
    refused(ParquetBloomError, "the granularity 'file'", lake, ["id", "name"], index, zone_rows=100)
    refused(ParquetBloomError, "other settings", lake, ["id", "name"], index, remainder_bits=3)
    with Folder(index).lock():
        refused(IndexInUseError, "another writer is at work", lake, ["id", "name"], index)
    (lake / "_delta_log").mkdir()
    (lake / "_delta_log" / "00000000000000000000.json").write_text("{}")
    refused(StorageError, "cannot read the Delta table", lake, ["id", "name"], index)
    assert LakeIndex.create(tmp_path / "other", "id", layout="postings", remainder_bits=4).stats().files == 0
    build_index(spark, sorted(map(str, lake.glob("part 0*"))), "id", tmp_path / "other", remainder_bits=4)
    with LakeIndex.open(tmp_path / "other") as other:
        assert other.stats().files == 10


@pytest.mark.parametrize("granularity", ["row_group", pytest.param("file", marks=pytest.mark.long)])
def test_a_file_that_cannot_be_read_is_a_candidate(spark: Any, lake: Path, tmp_path: Path, granularity: Any) -> None:
    cut, torn = sorted(map(str, lake.glob("part*")))[:2]
    Path(cut).write_bytes(Path(cut).read_bytes()[:-100])
    data = bytearray(Path(torn).read_bytes())
    data[60:600] = bytes(540)  # pages, not the footer
    Path(torn).write_bytes(data)
    report = build_index(spark, lake, ["id", "name"], tmp_path / "index", granularity=granularity, slices=2)
    assert (set(report.failed), report.added) == ({cut, torn}, 11)
    assert all(
        isinstance(error, ParquetBloomError) and str(path) in str(error) for path, error in report.failed.items()
    )
    with LakeIndex.open(tmp_path / "index") as index:
        assert set(index.unindexed) == {cut, torn}
        assert {candidate.path for candidate in index.lookup("id", [-1])[0]} == {cut, torn}
        assert index.check(20).problems == []
    again = build_index(spark, lake, ["id", "name"], tmp_path / "index")
    assert (set(again.failed), again.unchanged) == ({cut, torn}, 11)


class Dying(WriteTask):
    """Dies when it has written a slice."""

    def __call__(self, batches: Any) -> Any:
        for batch in super().__call__(batches):
            yield batch
            if isinstance(cloudpickle.loads(batch.column(0)[0].as_py()), WrittenSlice):
                os.kill(os.getpid(), signal.SIGKILL)


class Failing(HashTask):
    """Fails at the end of its files."""

    def __call__(self, batches: Any) -> Any:
        yield from super().__call__(batches)
        raise ParquetBloomError("the disk is on fire")


@pytest.fixture
def by_value() -> Iterator[None]:
    """Executors know nothing of this module."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_a_job_that_failed_leaves_nothing_and_may_be_run_again(
    spark: Any, lake: Path, tmp_path: Path, by_value: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    build_index(spark, str(lake / "part 00.parquet"), ["id", "name"], index)
    before = files_in(index)
    with monkeypatch.context() as patched:
        patched.setattr(index_job, "WriteTask", Dying)
        with pytest.raises(ParquetBloomError, match="the Spark job failed"):
            build_index(spark, lake, ["id", "name"], index, slices=3)
        assert files_in(index) == before
        patched.setattr(index_job.SegmentJobs, "_delete_files", lambda *_: None)  # the driver died as well
        with pytest.raises(ParquetBloomError, match="the Spark job failed"):
            build_index(spark, lake, ["id", "name"], index, slices=3)
        assert any(name.endswith(".postings") for name in files_in(index) - before)
    with monkeypatch.context() as patched:
        patched.setattr(index_job, "HashTask", Failing)
        with pytest.raises(ParquetBloomError, match=r"the Spark job failed: .*the disk is on fire$"):
            build_index(spark, lake, ["id", "name"], index)
    with LakeIndex.open(index) as opened_index:
        assert opened_index.stats().files == 1
    build_index(spark, lake, ["id", "name"], index)
    created_index = LakeIndex.create(tmp_path / "own", ["id", "name"])
    created_index.append(lake)
    with LakeIndex.open(index) as opened_index:
        assert_same(opened_index, created_index, lake)
        needed = opened_index.state.manifest.names
    remaining = {name for name in files_in(index) if not name.startswith("manifest")}
    assert remaining == {name for name in needed if not name.startswith("manifest")}


def test_values_of_two_states_of_a_file_are_not_mixed(
    spark: Any, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = Slices(3, 30)
    hashed = [HashedTask(task, [], np.array([task, 5, 0], np.uint64)) for task in (0, 1)]

    def written(*sums: dict[int, int]) -> list[WrittenSlice]:
        return [WrittenSlice(number, {}, of_tasks) for number, of_tasks in enumerate(sums)]

    good = written({1: 1}, {0: 5, 1: 5})
    assert index_job._find_mismatch(hashed, good, slices) is None
    for bad in (
        written({1: 2}, {0: 5, 1: 5}),
        written({1: 1}, {0: 5}),
        written({1: 1}, {0: 5, 1: 5}, {0: 3}),
        written({1: 1}, {0: 5, 1: 5, 2: 9}),
        written({1: 1}),
        good + good,
    ):
        assert index_job._find_mismatch(hashed, bad, slices)
    assert index_job._find_mismatch(hashed + hashed, good, slices)
    problems = ["they differ"]
    monkeypatch.setattr(index_job, "_find_mismatch", lambda *_: problems.pop() if problems else None)
    assert build_index(spark, lake, "id", tmp_path / "index").added == 13
    before = files_in(tmp_path / "index")
    problems += ["they differ"] * 3
    with pytest.raises(ParquetBloomError, match=r"changed while they were indexed: they differ; try again"):
        build_index(spark, write(lake, 50), "id", tmp_path / "index")
    assert files_in(tmp_path / "index") == before


def test_an_executor_elsewhere_is_noticed(
    spark: Any, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    os.mkdir(elsewhere)
    monkeypatch.setattr(index_job, "WriteTask", lambda path, *rest: WriteTask(elsewhere, *rest))
    with pytest.raises(StorageError, match="must share the index's folder"):
        build_index(spark, lake, "id", tmp_path / "index")
    assert files_in(tmp_path / "index") == set()


def test_slices(spark: Any) -> None:
    numbers = [*range(300), 2**31 - 1]
    frame = spark.createDataFrame([(number,) for number in numbers], "n int").select(F.hash("n"))
    assert [row[0] for row in frame.collect()] == list(map(spark_hash, numbers))
    for count, bits in ((1, 8), (2, 40), (7, 8), (256, 8), (300, 8), (100, 35)):
        slices = Slices(count, bits)
        assert slices.count == min(count, 2**bits)
        ranges = [slices.range_of(number) for number in range(slices.count)]
        assert (ranges[0][0], ranges[-1][1]) == (0, LAST_HASH)
        assert all(one[1] + 1 == other[0] for one, other in pairwise(ranges))
        assert all(first % 2 ** (64 - bits) == 0 for first, _ in ranges)
        assert sorted(spark_hash(target) % slices.count for target in slices.targets()) == [*range(slices.count)]


@pytest.mark.long
@pytest.mark.crash
def test_workers_that_are_killed(tmp_path: Path) -> None:
    tests = Path(__file__).resolve().parents[1]
    paths = [str(tests.parent), str(tests), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("dying_index.py")), str(tmp_path)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    assert done.stdout.splitlines()[-1] == "24 files added, 0 wrong"


# -------------------------------------------------------------------------------------------------------------- reading

FILES = 60


@pytest.fixture(scope="module")
def wide(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """60 files of random keys, 2 of which share the key 77, without filters; and their index."""
    path = tmp_path_factory.mktemp("wide")
    rng = np.random.default_rng(8)
    for number in range(FILES):
        folder = path / "lake" / f"p={number % 4:02}"
        folder.mkdir(parents=True, exist_ok=True)
        keys = rng.integers(1000, 1 << 60, 50).tolist() + ([77] if number in (9, 30) else []) + [10**15 + number]
        columns = {"k": keys, "s": [f"u{key}" for key in keys], "m": [f"name{number:02}x"] * len(keys)}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    settle()
    build_index(spark, path / "lake", ["k", "s", "grams(m)"], path / "index")
    return str(path / "lake"), str(path / "index")


def counted(frame: Any) -> tuple[int, list[int]]:
    """Rows, and the files that each scan opened, as Spark itself counts them (numFiles)."""
    return len(frame.collect()), opened(frame)


def test_only_files_that_hold_it_are_opened(spark: Any, wide: tuple[str, str]) -> None:
    lake, index = wide
    native = spark.read.options(**NATIVE).parquet(lake)
    with LakeIndex.open(index) as open_index:
        for where, rows, files in (
            ("k = 77", 2, 2),
            ("k = 78", 0, 0),
            ("s = 'u77' and p = '01'", 1, 1),
            ("k in (77, 1000000000000003)", 3, 3),
            ("k = 77 or s = 'u1000000000000004'", 3, 3),
            ("k <=> 1000000000000005 and s is not null", 1, 1),
            ("m like '%ame04x%' or contains(m, 'name05')", 102, 2),
            ("m rlike 'ame0(7|8)x$' and not m rlike 'ame08'", 51, 2),
            ("startswith(m, 'name06') and endswith(m, '06x') and m not like '%y%'", 51, 1),
        ):
            frames = [read_parquet(spark, lake, where, index=given) for given in (index, open_index)]
            frames.append(pruned(native, where, index=open_index))
            frames.append(install(native, index=index).where(where))
            assert [len(planned_files(frame)) for frame in frames] == [files] * 4, where
            numbered = [frame.select(F.lit(way).alias("way"), "k", "s", "p") for way, frame in enumerate(frames)]
            found = functools.reduce(lambda one, other: one.unionAll(other), numbered).toArrow()
            expected = sorted(map(repr, native.where(where).select("k", "s", "p").toArrow().to_pylist()))
            assert len(expected) == rows
            for way in range(4):
                own = found.filter(pc.equal(found["way"], way)).drop_columns("way")
                assert sorted(map(repr, own.to_pylist())) == expected, (where, way)
    assert counted(read_parquet(spark, lake, "k = 77", index=index)) == (2, [2])  # as Spark itself counts
    assert opened_without(spark, lake, "k = 77") > 2
    keys = spark.createDataFrame([(77,), (5,)], "k bigint")
    assert counted(semi_join_prune(native, keys, "k", index=index)) == (2, [2])


def opened_without(spark: Any, lake: str, where: str) -> int:
    """Files that Spark opens itself: there are no filters in them, and ranges are wide."""
    frame = spark.read.parquet(lake).where(where)
    frame.collect()
    return sum(opened(frame))


def test_messages(spark: Any, wide: tuple[str, str], caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    lake, index = wide
    frame = spark.read.parquet(lake)
    report = explain_prune(frame, "k = 77", index=index)
    assert (report.total_files, report.selected_files, report.unopened_files) == (FILES, 2, FILES - 2)
    assert report.bytes_read > 0
    reported = [file.unopened for file in report.files if file.unopened]
    assert all(text.startswith("the index says: 'k' is absent") for text in reported)
    assert "the index says" in report.explain()
    with caplog.at_level(logging.INFO, "parquet_bloom.spark"):
        read_parquet(spark, lake, "k = 77", index=index)
    assert "the index excludes 58 of 60 files" in caplog.text
    with pytest.raises(StorageError, match="there is no index"):
        read_parquet(spark, lake, "k = 77", index=tmp_path)
    with pytest.raises(ParquetBloomError, match="index must be the folder of an index"):
        pruned(frame, "k = 77", index=5)  # type: ignore[arg-type]
    # On a partition's column, another column, the current time: the index is not queried, nothing is lost.
    assert explain_prune(frame, "p = '02' and k > 5", index=index).unopened_files == 0
    assert read_parquet(spark, lake, "k > 5 or p = '9'", index=index).count() == frame.where("k > 5").count()
    moment = "k = 77 and current_timestamp() > timestamp'2020-01-01 00:00:00'"
    assert counted(read_parquet(spark, lake, moment, index=index)) == (2, [2])


def test_damage_and_change_lose_nothing(
    spark: Any, wide: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Path(shutil.copytree(wide[0], tmp_path / "lake"))
    index = str(tmp_path / "index")
    build_index(spark, lake, ["k", "s"], index)
    files = sorted(lake.rglob("*.parquet"))
    table = pa.table({"k": [5, 5], "s": ["u5", "u5"]})
    pq.write_table(table, files[3])  # changed
    pq.write_table(table, lake / "p=02" / "new.parquet")
    os.unlink(files[7])
    shutil.copy(files[9], files[11])
    frame = spark.read.parquet(str(lake))
    assert len(frame.where("k = 5").collect()) == 4
    assert counted(read_parquet(spark, lake, "k = 5", index=index)) == (4, [2])
    for part in Path(index).glob("*.postings"):
        data = bytearray(part.read_bytes())
        data[: len(data) // 2] = bytes(len(data) // 2)
        part.write_bytes(data)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "parquet_bloom.spark"):
        assert len(read_parquet(spark, lake, "k = 77", index=index).collect()) == frame.where("k = 77").count() > 0
    assert "the index is doubtful: " in caplog.text


def test_objects(spark: Any, twelve_files: Path, s3: Any, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(6):
        s3.put(f"a lake/p={number % 2}/{number}.parquet", (twelve_files / f"part {number:02}.parquet").read_bytes())
    options = s3.storage_options | {"aws_secret_access_key": "a secret of the test"}
    lake, folder = s3.url("a lake/"), s3.url("index")
    assert build_index(spark, lake, ["id"], folder, storage_options=options, slices=2).added == 6
    s3.put("a lake/p=0/6.parquet", b"PAR1 is not enough")
    again = build_index(spark, lake, ["id"], folder, storage_options=options)
    assert (again.added, again.unchanged, len(again.failed)) == (0, 6, 1)
    uris = [s3.url(f"a%20lake/p={number % 2}/{number}.parquet").replace("s3:", "s3a:") for number in range(7)]
    trust = SparkCompatibility.of({"id": SparkField(("id",), LongType())}, Rules())

    doubts: list[str] = []

    def list_kept(index: Any, where: str, states: Any = None, files: list[str] = uris) -> list[int]:
        node, paths = parse(where), list(map(str, range(len(files))))
        view = make_index_view(index, dict(zip(paths, files, strict=True)), node, trust, options, states)
        files = (FileScan(Entry(path), PruningPredicate(node)) for path in paths)
        plan = ScanPlan(where, asked=ScanRequest(node, "UTC", True))
        plans = [file.plan for file in view.evaluate(files, plan)]
        assert {one.unopened for one in plans if one} <= {"the index says: 'id' is absent"}
        doubts.extend(plan.index_doubts)
        return [number for number, one in enumerate(plans) if one is None]

    with open_index(folder, options) as index:
        assert index.check(6).problems == []
        assert list_kept(index, "id = 3") == [3, 6]
        assert list_kept(index, "id = 7") == [*range(7)]
        assert list_kept(index, "id in (1, 5) and p = 0") == [1, 5, 6]
        sizes = [len((twelve_files / f"part {number:02}.parquet").read_bytes()) for number in range(6)] + [0]
        assert list_kept(index, "id = 3", lambda: [(size, 0) for size in sizes]) == [3, 6]
        sizes[4] += 1  # Spark sees another object
        assert list_kept(index, "id = 3", lambda: [(size, 0) for size in sizes]) == [3, 4, 6]
        s3.put("a lake/p=0/2.parquet", (twelve_files / "part 03.parquet").read_bytes())
        assert list_kept(index, "id = 3") == [2, 3, 6]
        assert list_kept(index, "id = 3", files=uris[:1]) == []
        assert doubts == []
        assert list_kept(index, "id = 3", files=["hdfs://host/a/0.parquet"]) == [0]
        assert list_kept(index, "id = 3", files=[*uris, "file:/a/0.parquet"]) == [*range(8)]
        assert doubts == [
            "files of hdfs are not supported",
            "the files are on several kinds of file systems: file, s3a",
        ]
    assert "a secret" not in caplog.text


def trusted(where: str, column: str, data_type: Any, stored: ColumnType, **rules: Any) -> bool:
    trust = SparkCompatibility.of({column: SparkField(tuple(column.split(".")), data_type)}, Rules(**rules))
    return _TypeCompatibility(parse(where), trust)(column, stored)


def test_columns_that_spark_shows_as_they_are_stored() -> None:
    complete = ColumnType("INT32", Kind.INTEGER, 4, bits=32)
    text = ColumnType("BYTE_ARRAY", Kind.STRING)
    day = ColumnType("INT32", Kind.DATE, 4)
    moment = ColumnType("INT64", Kind.TIMESTAMP, 8, unit="us", utc=True)
    old = ColumnType("INT96", Kind.TIMESTAMP, 12)
    assert trusted("a = 5", "a", IntegerType(), complete)
    assert trusted("a = 5", "a", LongType(), complete)
    assert trusted("a.b = 5", "a.b", LongType(), complete)
    assert not trusted("a = 5", "a", StringType(), complete)
    assert trusted("a = 'x'", "a", ArrayType(StringType()), text)
    assert not _TypeCompatibility(parse("p = 'x'"), SparkCompatibility.of({}, Rules()))(
        "p", text
    )  # a partition's column
    assert trusted("A = 'x'", "a", StringType(), text)
    assert trusted("a = date '2020-01-01'", "a", DateType(), day)
    assert not trusted("a = date '1900-01-01'", "a", DateType(), day)
    assert not trusted("a in (date '2020-01-01', date '1582-10-10')", "a", DateType(), day)
    assert trusted("a = timestamp '2020-01-01 00:00:00'", "a", TimestampType(), moment)
    assert not trusted("a = timestamp '1899-01-01 00:00:00'", "a", TimestampType(), moment)
    assert not trusted("a = timestamp '2020-01-01 00:00:00'", "a", TimestampType(), old)


def trusted_path(where: str, name: str = "v:$.a::string", **fields: Any) -> bool:
    types = {"v": VariantType(), **fields}
    trust = SparkCompatibility.of({one: SparkField((one,), kind) for one, kind in types.items()}, Rules())
    of_variant = parse_evidence(name)
    assert of_variant is not None
    return _TypeCompatibility(parse(where), trust)(name, from_arrow(to_arrow_type(of_variant.target)))


@pytest.mark.parametrize(
    ("target", "literal", "expected"),
    [
        ("string", "'x'", True),
        ("string", "'2020-01-01'", True),
        ("string", "'1582-10-10'", False),
        ("string", """'{"d":"1900-01-01 00:00:00"}'""", False),
        ("bigint", "7", True),
        ("bigint", "-12219292800", False),  # seconds of an instant in 1582
        ("bigint", "-9000000000000000000", True),
        ("double", "-12219292800.5", False),
        ("decimal(20,2)", "-12219292800.50", False),
        ("date", "DATE '2020-01-01'", True),
        ("date", "DATE '1582-10-10'", False),
        ("timestamp_ntz", "TIMESTAMP_NTZ '1582-10-10 00:00:00'", False),
    ],
)
def test_paths_that_spark_shows_as_they_are_stored(target: str, literal: str, expected: bool) -> None:
    name = f"v:$.a::{target}"
    where = f"v:a::{target}"
    assert trusted_path(f"{where} = {literal}", name) is expected
    assert trusted_path(f"{where} = {literal} AND {where} IN ({literal}, {literal})", name) is expected
    assert trusted_path(f"{where} = {literal} OR v:b::{target} = {literal}", name) is expected
    assert not trusted_path(f"{where} = {literal}", name, v=StringType())
    assert not trusted_path(f"{where} = {literal}", name, **{name: StringType()})  # nobody knows which one is meant
    assert not trusted_path(f"v:b::{target} = {literal}", name)


# ---------------------------------------------------------------------------------------------------- whatever is asked


def indexed_columns(lake: Lake) -> list[str]:
    there = {name for file in lake.files for name in pq.read_schema(file).names}
    nested = {"st": ["st.a", "st.b.c", "st.t", "st.f"], "ma": []}
    own = [name for column in lake.columns for name in nested.get(column.kind, [column.name])]
    return [name for name in own if name.partition(".")[0] in there]


def change(rng: random.Random, lake: Lake, path: Path) -> Lake:
    """A copy of a lake in which files have taken each other's places since it was indexed."""
    files = lake.files
    for _ in range(4):
        one, other = rng.sample(files, 2)
        stored = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(stored)
    return lake


@pytest.mark.parametrize("granularity", ["file", pytest.param("row_group", marks=pytest.mark.long)])
def test_rows_are_those_of_spark_alone(
    spark: Any, tmp_path: Path, interpreted: None, granularity: Any, quiet: None
) -> None:
    reported = QueryTally()
    for seed in seeds(1):
        rng = random.Random(seed + (100 if granularity == "file" else 200))
        lake = make_lake(spark, rng, tmp_path / f"lake {seed}")
        columns = indexed_columns(lake)
        build_index(spark, lake.path, columns, tmp_path / f"index {seed}", granularity=granularity, slices=2)
        for stale in (False, True):
            if stale:
                change(rng, lake, tmp_path)
            with settings(spark, draw_settings(rng)):
                index: Any = tmp_path / f"index {seed}"
                if rng.random() < 0.5:
                    index = LakeIndex.open(index)
                answers = Asking(spark, rng, lake, index=index).ask(14)
            assert answers.wrong == [], f"{seed=} {stale=} {granularity=}"
            reported += answers
    assert reported.num_queries > 10
    assert reported.skipped > 2


def test_connect(spark: Any, connect: Any, wide: tuple[str, str], lake: Path, tmp_path: Path) -> None:
    result = connect.run(
        "report = parquet_bloom.spark.build_index(spark, lake, ['id', 'name'], index, slices=2)\n"
        "frame = parquet_bloom.spark.read_parquet(spark, wide, 'k = 77', index=wide_index)\n"
        "plain = spark.read.parquet(wide)\n"
        "same = parquet_bloom.spark.pruned(plain, \"s = 'u1000000000000004' and p = '00'\", index=wide_index)\n"
        'explained = parquet_bloom.spark.explain_prune(plain, "k = 77", index=wide_index)\n'
        "answer = [str(report), len(frame.inputFiles()), frame.count(), len(same.inputFiles()), same.count(),\n"
        "          explained.unopened_files]\n",
        lake=str(lake),
        index=str(tmp_path / "index"),
        wide=wide[0],
        wide_index=wide[1],
    )
    created_index = LakeIndex.create(tmp_path / "own", ["id", "name"])
    assert result == [str(created_index.append(lake)), 2, 2, 1, 1, FILES - 2]
    with LakeIndex.open(tmp_path / "index") as index:
        assert_same(index, created_index, lake)
