"""A user's program as a type checker sees it: read by mypy, never run. It asserts what the package's types promise.

tools/lint.sh has mypy read it with the rest, strictly. pyarrow has no types: what comes from it is Any, as for a user.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, assert_type

import numpy as np
from numpy.typing import NDArray

import parquet_bloom
from parquet_bloom import DiskMetadataCache, MetadataCache, SplitBlockBloomFilter, errors
from parquet_bloom import spark as bloom
from parquet_bloom.filter import hash_values
from parquet_bloom.lake import LakeIndex
from parquet_bloom.types import (
    AdviceReport,
    Answers,
    AppendReport,
    BloomFile,
    Candidate,
    CheckReport,
    ChunkFilter,
    ColumnAdvice,
    CompactReport,
    Dataset,
    DatasetSource,
    DropReport,
    EmbedReport,
    EmbedTableReport,
    IndexSnapshot,
    IndexStats,
    Paths,
    Predicate,
    Probed,
    PruneReport,
    RowKeys,
    Scan,
    Variant,
    VerifyReport,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAKE = Path("lake")

assert_type(parquet_bloom.__version__, str)
parquet_bloom.PruneReport  # type: ignore[attr-defined]  # noqa: B018 -- it is in types


def size() -> None:
    assert_type(parquet_bloom.size_for(1_000_000, 0.01), int)
    assert_type(parquet_bloom.fpp_for(1_000_000, 1 << 20), float)


def one_filter(values: Iterable[int]) -> None:
    one = SplitBlockBloomFilter.from_ndv(1000, fpp=0.001)
    one.insert([1, 2, 3])
    assert_type(one.num_bytes, int)
    assert_type(one.fpp, float)
    assert_type(one.to_bytes(), bytes)
    assert_type(one.merge(one.fold()), SplitBlockBloomFilter)
    assert_type(3 in one, bool)
    assert_type(SplitBlockBloomFilter.from_bitset(bytes(32)), SplitBlockBloomFilter)
    draft = SplitBlockBloomFilter(32, variant="murmur3+mask+raw")
    assert_type(
        SplitBlockBloomFilter.from_bytes(draft.to_bytes(header=True), variant=draft.variant), SplitBlockBloomFilter
    )
    assert_type(draft.variant, Variant)
    matches: np.ndarray[Any, Any] = one.check(values)
    hashes: np.ndarray[Any, Any] = hash_values(values)
    one.insert_hashes(hashes)
    print(matches, one.check_hashes(hashes))


def write(table: Any, progress: Callable[[int, int], None]) -> None:
    report = parquet_bloom.embed(
        LAKE / "a.parquet", {"user.id": 0.001}, output="b.parquet", progress=progress, threads=2
    )
    assert_type(report, EmbedReport)
    assert_type(report.bytes_added, int)
    assert_type(parquet_bloom.embed("a.parquet", ["id", "trace"], dry_run=True).changed, bool)
    of_many = parquet_bloom.embed([LAKE, "other"], ["id"], on_error="report")
    assert_type(of_many[0], EmbedReport)
    assert_type([one.bytes_added for one in of_many], list[int])
    assert_type(of_many.errors, dict[str, errors.ParquetBloomError])
    assert_type(parquet_bloom.drop(LAKE, on_error=print).files, list[DropReport])
    parquet_bloom.drop(LAKE, on_error="ignore")  # type: ignore[arg-type]
    assert_type(parquet_bloom.write_table(table, "a.parquet", ["id"], compression="zstd"), EmbedReport)


def read(cache: MetadataCache) -> Iterator[SplitBlockBloomFilter]:
    with parquet_bloom.open("s3://bucket/a.parquet", storage_options={"region": "x"}, cache=cache) as file:
        assert_type(file, BloomFile)
        assert_type(file.columns, list[str])
        assert_type(file.chunk(0, "id"), ChunkFilter | None)
        for chunk in file.chunks(columns=["id"]):
            assert_type(chunk, ChunkFilter)
            assert_type(chunk.fpp, float)
        probed = parquet_bloom.probe(file.chunks(), [1, "x"])
        assert_type(probed, Probed)
        assert_type(probed.maybe, NDArray[np.bool_])
        yield file.filter(0, "id")


def skip() -> None:
    with DiskMetadataCache("cache") as cache:
        report = parquet_bloom.prune([LAKE, "other"], "id = 7", cache=cache)
    assert_type(report, PruneReport)
    assert_type(report.selected_row_groups, int)
    assert_type(report.skipped, list[tuple[str, int, str]])
    assert_type(report.skipped_by, dict[str, int])
    assert_type(report.explain(), str)
    dataset = parquet_bloom.dataset("lake", index="ids.index", zones=["id.zones"])
    assert_type(dataset, Dataset)
    assert_type(dataset.files, list[str])
    scan = dataset.scan([("id", "==", 7)], ["id"], case_sensitive=False)
    assert_type(scan, Scan)
    assert_type(scan.plan(), PruneReport)
    assert_type(scan.explain(), str)
    assert_type(scan.row_ranges(), dict[str, dict[int, list[tuple[int, int]]]])
    assert_type(scan.count_rows(), int)
    assert_type(parquet_bloom.semi_join(dataset, [1, 2], on="id"), Scan)
    # pyarrow's and polars' own: Any, while they have no types here
    scan.to_reader(batch_size=10).schema  # noqa: B018
    dataset.to_table(columns=["id"])
    parquet_bloom.read_table("lake", "id = 7", ["id"], partitioning=None)
    parquet_bloom.scan_polars("lake")
    parquet_bloom.prune("lake", "id = 7", partitioning="hives")  # type: ignore[arg-type]


def take_what_callers_have(frame: Any, numbers: NDArray[np.int64], day: dt.date, index: LakeIndex) -> None:
    """Frame is of a library without types, as pyarrow: it is taken anywhere."""
    sources: list[DatasetSource] = ["lake", LAKE, ["a.parquet", LAKE], (path for path in [LAKE]), index, frame]
    sources.append(parquet_bloom.delta("events"))
    for source in sources:
        parquet_bloom.prune(source, "id = 7", index=index)
        parquet_bloom.dataset(source, filesystem=frame)
    parquet_bloom.prune([LAKE], ("id", "==", 7))
    parquet_bloom.prune(None, [("id", "in", {1, 2}), ("day", ">", day)], index="ids.index")
    parquet_bloom.read_table("lake", [[("id", "==", 7)], [("name", "=", "x")]])
    parquet_bloom.dataset("lake").scan(frame)
    keys: list[RowKeys] = [
        7,
        "x",
        day,
        uuid.uuid4(),
        Decimal(1),
        np.int64(7),
        [1, None],
        {"x"},
        numbers,
        range(3),
        frame,
    ]
    for key in keys:
        parquet_bloom.dataset("lake").get("id", key)
        parquet_bloom.delete("events", key, on="id")
    parquet_bloom.dataset("lake").get(["tenant", "id"], [("a", 1), ("b", 2)])
    parquet_bloom.dataset("lake").locate("id", LAKE / "keys.parquet")
    parquet_bloom.semi_join(parquet_bloom.dataset("lake"), frame, on="id")
    parquet_bloom.upsert(("prod", "events"), frame, on="id")
    LakeIndex.create("ids.index", "id", lake={"delta": LAKE}).append([LAKE])
    SplitBlockBloomFilter(32).insert(numbers)
    SplitBlockBloomFilter.from_bitset(memoryview(bytes(32)))
    chosen: Paths = ["a.parquet", LAKE]
    condition: Predicate = [("id", "==", 7)]
    parquet_bloom.erase(chosen, where=condition)


def refuse_what_is_no_path(file: BinaryIO) -> None:
    parquet_bloom.prune(5, "id = 7")  # type: ignore[arg-type]
    parquet_bloom.prune([5], "id = 7")  # type: ignore[list-item]
    parquet_bloom.dataset(file)  # type: ignore[arg-type]
    parquet_bloom.embed(None, ["id"])  # type: ignore[arg-type]
    parquet_bloom.embed_table(["a.parquet"], ["id"])  # type: ignore[arg-type]
    parquet_bloom.verify(object())  # type: ignore[arg-type]
    LakeIndex.create("ids.index", "id", lake=5)  # type: ignore[arg-type]
    parquet_bloom.open("a.parquet", filesystem="s3")  # type: ignore[arg-type]
    parquet_bloom.open("a.parquet", filesystem={"region": "x"})  # type: ignore[arg-type]


def refuse_what_is_no_condition_or_key() -> None:
    dataset = parquet_bloom.dataset("lake")
    dataset.scan(5)  # type: ignore[arg-type]
    dataset.scan(True)  # type: ignore[arg-type]
    dataset.scan({"id": 7})  # type: ignore[arg-type]
    dataset.scan([("id", 7)])  # type: ignore[list-item]
    dataset.get("id", None)  # type: ignore[arg-type]
    dataset.get("id", object())  # type: ignore[arg-type]
    parquet_bloom.semi_join(dataset, 5, on="id")  # type: ignore[arg-type]
    parquet_bloom.upsert("events", [{"id": 1}], on="id")  # type: ignore[arg-type]
    SplitBlockBloomFilter(32).insert(5)  # type: ignore[arg-type]
    SplitBlockBloomFilter.from_bitset(32)  # type: ignore[arg-type]


def judge() -> None:
    verified = parquet_bloom.verify("a.parquet", data=True)
    assert_type(verified, VerifyReport)
    assert_type(verified.ok, bool)
    advised = parquet_bloom.advise("lake", sample=0)
    assert_type(advised, AdviceReport)
    assert_type(advised["id"], ColumnAdvice)
    assert_type(advised["id"].sizes, Mapping[float, int])
    assert_type(advised.command, str | None)


def index(progress: Callable[[int, int], None], on_error: Callable[[errors.ParquetBloomError], None]) -> int:
    with LakeIndex.create("ids.index", ["user.id"], lake=LAKE, granularity="row_group") as created:
        assert_type(created, LakeIndex)
        report = created.append(memory_limit=1 << 30, threads=2, progress=progress, on_error=on_error)
        assert_type(report, AppendReport)
        assert_type(report.failed, dict[str, errors.ParquetBloomError])
        assert_type(created.append_batches([("a", {"user.id": None})]), AppendReport)
    LakeIndex.create("ids.index", "id", layout="posting")  # type: ignore[arg-type]
    with LakeIndex.open("ids.index", live=False) as opened:
        answers = opened.lookup("user.id", [1, 2])
        assert_type(answers, Answers)
        assert_type(answers[0], list[Candidate])
        assert_type(answers[0][0].row_groups, tuple[int, ...] | None)
        assert_type(answers.doubts, list[str])
        assert_type(opened.unindexed, list[str])
        assert_type(opened.stats(), IndexStats)
        assert_type(opened.check(sample=3), CheckReport)
        assert_type(opened.compact(keep_seconds=0), CompactReport)
        assert_type(opened.snapshot(), IndexSnapshot)
        opened.refresh()
        return opened.remove(["lake/a.parquet"])


def fail() -> str | None:
    try:
        parquet_bloom.open("a.parquet")
    except errors.StorageError as error:
        assert_type(error.errno, int | None)
        return error.path
    except parquet_bloom.errors.ParquetBloomError as error:
        assert_type(error.row_group, int | None)
        return error.column
    return None


def distribute(session: SparkSession, df: DataFrame) -> DataFrame:
    assert_type(bloom.embed(session, "lake", ["id"]), bloom.EmbedJobReport)
    assert_type(bloom.embed_table(session, "events", ["id"]), EmbedTableReport)
    assert_type(bloom.verify(session, "lake"), bloom.VerifyJobReport)
    assert_type(bloom.advise(session, "lake"), AdviceReport)
    assert_type(bloom.write_options(["id"], ndv=1000), dict[str, str])
    assert_type(bloom.explain_prune(df, "id = 7"), PruneReport)
    bloom.register(session)
    bloom.install(df).createOrReplaceTempView("fast")
    few = bloom.semi_join_prune(df, [1, 2], "id")
    return bloom.pruned(few, "id = 7").union(bloom.read_parquet(session, "lake", "id = 7"))
