"""Test that `prune` makes few requests: counted requests, cached footers, concurrent files."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from support.servers.counted import CountedFileSystem
from support.writers import surgery

import parquet_bloom
from parquet_bloom import MetadataCache, errors
from parquet_bloom.file import probe_file as probe_module
from parquet_bloom.file.bloom_file import BloomFile
from parquet_bloom.file.column_statistics import file_statistics
from parquet_bloom.file.probe_file import probe_hashes
from parquet_bloom.metadata.filter_header import MAX_HEADER_BYTES
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.pruning import FilterProbe, ProbeResult, PruningPredicate, Verdict
from parquet_bloom.scan.plan.filter_level import find_filters, make_filter_prober
from parquet_bloom.scan.plan.statistics_level import evaluate_row_groups
from parquet_bloom.types import PruneReport

TAIL = 64 * 1024
GROUPS, ROWS = 6, 60_000
KEYS = np.random.default_rng(7).integers(0, 2**60, ROWS)
ABSENT = 2**59 + 1
BIG_FILTER = {"ndv": 80_000, "fpp": 0.01}  # 128 KiB


def no_dictionaries(*_: Any) -> None:
    """Read no dictionaries."""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose filters stand further from its end than a first read reaches, but for the last one."""
    target = tmp_path_factory.mktemp("requests") / "big.parquet"
    table = pa.table({"key": KEYS, "sorted": np.arange(ROWS), "other": KEYS[::-1]})
    pq.write_table(table, target, row_group_size=ROWS // GROUPS, use_dictionary=False)
    parquet_bloom.embed(target, {"key": BIG_FILTER, "other": BIG_FILTER})
    return target


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose filters, of more than one block's read, all stand in the last 64 KiB."""
    target = tmp_path_factory.mktemp("requests") / "small.parquet"
    table = pa.table({"key": KEYS[:4000], "sorted": np.arange(4000)})
    pq.write_table(table, target, row_group_size=1000, use_dictionary=False)
    parquet_bloom.embed(target, {"key": {"ndv": 5_000, "fpp": 0.01}})
    return target


def remote(*paths: Path) -> CountedFileSystem:
    return CountedFileSystem({path.name: path.read_bytes() for path in paths})


def counts(report: PruneReport) -> tuple[int, int]:
    return report.requests, report.bytes_read


# ------------------------------------------------------------------------------------------------------------
# Requests
# ------------------------------------------------------------------------------------------------------------


def test_filters_beside_the_footer_come_with_it(small: Path) -> None:
    filesystem = remote(small)
    size = small.stat().st_size
    report = parquet_bloom.prune("small.parquet", f"key = {ABSENT}", filesystem=filesystem)
    assert report.skipped_by == {"filter": 4}
    assert filesystem.ranges_read == [(max(0, size - TAIL), size)]
    assert counts(report) == (1, min(size, TAIL))
    local = parquet_bloom.prune(small, f"key = {ABSENT}", cache=None)
    assert local.files[0].row_groups == report.files[0].row_groups
    assert local.bytes_read < report.bytes_read  # a disk gives a few bytes as fast as many
    arrow = pafs.SubTreeFileSystem(str(small.parent), pafs.LocalFileSystem())
    assert counts(parquet_bloom.prune("small.parquet", f"key = {ABSENT}", filesystem=arrow)) == counts(report)


def headers_before_the_tail(path: Path, column: str) -> int:
    with parquet_bloom.open(path) as file:
        chunks = list(file.chunks(columns=[column]))
        assert [chunk.num_bytes for chunk in chunks] == [1 << 17] * GROUPS
        return sum(chunk.offset < path.stat().st_size - TAIL for chunk in chunks)


def test_all_row_groups_are_probed_together(big: Path) -> None:
    """A header and a block of each filter, too far from each other for any two to be one request."""
    filesystem = remote(big)
    report = parquet_bloom.prune("big.parquet", f"key = {ABSENT}", filesystem=filesystem)
    assert report.skipped_by == {"filter": GROUPS}
    assert len(filesystem.ranges_read) == report.requests
    assert sum(end - start for start, end in filesystem.ranges_read) == report.bytes_read
    heads = [span for span in filesystem.ranges_read[1:] if span[1] - span[0] == MAX_HEADER_BYTES]
    blocks = [span for span in filesystem.ranges_read[1:] if span[1] - span[0] == 32]
    assert len(heads) == headers_before_the_tail(big, "key")
    assert GROUPS - 1 <= len(blocks) <= GROUPS  # the last one's may have come with the footer
    assert len(filesystem.ranges_read) == 1 + len(heads) + len(blocks)
    # Headers first, then blocks: two rounds for all row groups, not two for each.
    order = [span[1] - span[0] for span in filesystem.ranges_read[1:]]
    assert order == [MAX_HEADER_BYTES] * len(heads) + [32] * len(blocks)


def test_row_groups_ruled_out_by_statistics_are_not_read(big: Path) -> None:
    """Nor is the header of a filter that is not probed."""
    filesystem = remote(big)
    where = f"key = {ABSENT} AND sorted = 5"
    report = parquet_bloom.prune("big.parquet", where, filesystem=filesystem)
    assert report.skipped_by == {"filter": 1, "range": GROUPS - 1}
    assert [end - start for start, end in filesystem.ranges_read] == [TAIL, MAX_HEADER_BYTES, 32]
    none = parquet_bloom.prune("big.parquet", "sorted = -1 AND key = 3", filesystem=remote(big))
    assert none.requests == 1


def test_a_long_footer_takes_two_requests(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    table = pa.table({f"a_column_with_a_name_{i:05}": [1, 2] for i in range(2000)} | {"key": [3, 4]})
    pq.write_table(table, path)
    size = path.stat().st_size
    filesystem = remote(path)
    report = parquet_bloom.prune("wide.parquet", "key = 5", filesystem=filesystem)
    length = int.from_bytes(path.read_bytes()[-8:-4], "little")
    assert length > TAIL
    assert filesystem.ranges_read == [(size - TAIL, size), (size - 8 - length, size - TAIL)]
    assert report.skipped_by == {"range": 1}


def test_an_fsspec_file_is_looked_up_no_more_often_than_needed(small: Path) -> None:
    """Opening asks for the size; the identity asks once more, for want of an etag."""

    class Noted(CountedFileSystem):
        num_listings = 0

        def info(self, path: str, **options: Any) -> dict[str, Any]:
            self.num_listings += 1
            return super().info(path, **options)

    filesystem = Noted({"small.parquet": small.read_bytes()})
    parquet_bloom.open("small.parquet", filesystem).close()
    assert filesystem.num_listings == 2


# ------------------------------------------------------------------------------------------------------------
# The same answers
# ------------------------------------------------------------------------------------------------------------


PREDICATES = [
    f"key = {ABSENT}",
    f"key = {KEYS[25_000]}",
    f"key IN ({KEYS[5]}, {KEYS[59_999]}, {ABSENT}) OR other = {KEYS[30_000]}",
    f"key = {KEYS[5]} AND other = {KEYS[-6]} AND sorted IN (5, 15000, 25000)",
    f"(key = {KEYS[5]} AND key IN ({KEYS[5]}, {KEYS[6]})) OR (other = 'x' AND key = {KEYS[20_000]})",
    f"key = {ABSENT} OR key = 1 OR sorted = 59999",
    f"key IN ({', '.join(map(str, KEYS[:3000]))}) AND other = {ABSENT}",
]


def one_by_one(decider: PruningPredicate, file: BloomFile, row_group: int) -> Verdict:
    """The verdict on one row group, each filter probed separately."""
    facts = file_statistics(file, decider.columns)

    def ask(questions: list[FilterProbe]) -> list[ProbeResult]:
        answers = []
        for question in questions:
            matches, problems = probe_hashes(
                find_filters(file, facts, question.column, np.array([row_group])), question.hashes
            )
            answers.append(ProbeResult(matches.any(axis=1), problems))
        return answers

    columns = {
        name: None if column is None else column.evidence.at(np.array([row_group]))
        for name, column in facts.columns.items()
    }
    return decider.verdicts[int(decider.decide_all(columns, 1, ask)[0])]


@pytest.mark.ci
@pytest.mark.parametrize("where", PREDICATES, ids=range(len(PREDICATES)))
@pytest.mark.parametrize("batch_bytes", [1, 1 << 26])
def test_filters_probed_together_or_one_by_one_agree(
    big: Path, tmp_path: Path, where: str, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_module, "BATCH_BYTES", batch_bytes)
    broken = tmp_path / "broken.parquet"
    shutil.copy(big, broken)
    with parquet_bloom.open(big) as file:
        chunks = {(chunk.row_group, chunk.column): chunk for chunk in file.chunks()}
        start = chunks[3, "key"].offset + chunks[3, "key"].header.header_bytes
        header = chunks[1, "key"].offset
    data = bytearray(broken.read_bytes())
    data[start : start + (1 << 17)] = bytes(1 << 17)  # never filled
    data[header : header + 4] = b"\xff" * 4
    broken.write_bytes(data)
    for path in (big, broken):
        decider = PruningPredicate(parse(where))
        with parquet_bloom.open(path) as file:
            alone = {number: one_by_one(decider, file, number) for number in file.row_groups}
        with parquet_bloom.open(path) as file:
            facts = file_statistics(file, decider.columns)
            numbers = evaluate_row_groups(facts, decider, make_filter_prober(file, facts), no_dictionaries).tolist()
        together = dict(enumerate(map(decider.verdicts.__getitem__, numbers)))
        assert together == alone
        if path == broken and "key = " in where[:6] and "AND" not in where:
            assert together[1].doubts
            assert together[3].doubts


def test_long_lists_are_cut_down_by_statistics_and_keep_their_memory(tmp_path: Path) -> None:
    path = tmp_path / "sorted.parquet"
    keys = np.arange(0, 800_000, 2)
    pq.write_table(pa.table({"key": keys}), path, row_group_size=20_000)
    parquet_bloom.embed(path, {"key": {"fpp": 0.01}})
    expected = np.arange(1, 200_000, 2)  # absent all, and of half of the range
    report = parquet_bloom.prune(path, [("key", "in", [*expected.tolist(), 0])], cache=None)
    assert report.selected_row_groups >= 1
    ranged = sum("range" in decision.by for file in report.files for decision in file.row_groups)
    assert ranged >= 15
    # Whole bitsets of those that are left, once: not a block a value.
    assert report.bytes_read < path.stat().st_size


# ------------------------------------------------------------------------------------------------------------
# Footers that are known
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("settled_footers")
def test_a_second_query_reads_no_footer(big: Path) -> None:
    cache = MetadataCache()
    first = parquet_bloom.prune(big, f"key = {ABSENT}", cache=cache)
    second = parquet_bloom.prune(big, f"key = {ABSENT}", cache=cache)
    assert counts(second) == (GROUPS, 32 * GROUPS)  # a block a filter: headers are known, too
    assert first.requests > second.requests
    assert second.files == first.files
    assert (len(cache), cache.num_bytes > 0) == (1, True)
    cache.clear()
    assert (len(cache), cache.num_bytes) == (0, 0)
    assert counts(parquet_bloom.prune(big, f"key = {ABSENT}", cache=cache)) == counts(first)
    assert counts(parquet_bloom.prune(big, f"key = {ABSENT}", cache=None)) == counts(first)


@pytest.mark.usefixtures("settled_footers")
@pytest.mark.parametrize("how", ["replaced", "written to"])
def test_a_file_of_the_same_size_and_time_is_another_one(tmp_path: Path, how: str) -> None:
    def write(path: Path, shift: int) -> None:
        table = pa.table({"key": np.arange(1000) * 10 + shift})
        pq.write_table(table, path, row_group_size=100, compression="none", use_dictionary=False)
        parquet_bloom.embed(path, ["key"])

    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write(path, 0)
    write(other, 5_000)
    assert path.stat().st_size == other.stat().st_size
    cache = MetadataCache()
    assert parquet_bloom.prune(path, "key = 12340", cache=cache).selected == {}
    time.sleep(0.05)  # a tick of the clock, and more
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    if how == "replaced":
        os.replace(other, path)
    else:
        path.write_bytes(other.read_bytes())
    os.utime(path, ns=times)
    assert path.stat().st_mtime_ns == times[1]
    assert parquet_bloom.prune(path, "key = 12340", cache=cache).selected == {str(path): [7]}


def test_a_file_of_just_now_is_not_cached(tmp_path: Path) -> None:
    """A change within the same tick of the file system's clock would not show."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"key": [1]}), path)
    cache = MetadataCache()
    parquet_bloom.prune(path, "key = 1", cache=cache)
    assert len(cache) == 0


def test_objects_are_cached_by_etag_only(small: Path, s3: Any) -> None:
    cache, where = MetadataCache(), f"key = {ABSENT}"
    parquet_bloom.prune("small.parquet", where, filesystem=remote(small), cache=cache)
    assert len(cache) == 0  # this file system has none
    content, received = small.read_bytes(), []
    for version in (content, None, content[:4] + bytes([content[4] ^ 1]) + content[5:]):
        if version is not None:
            s3.put("small.parquet", version)
        s3.clear_log()
        report = parquet_bloom.prune(s3.url("small.parquet"), where, storage_options=s3.storage_options, cache=cache)
        received.append(sum(request.received for request in s3.log if request.status in (200, 206)))
        assert report.skipped_by == {"filter": 4}
    size = small.stat().st_size
    assert received[0] == received[2] == min(size, TAIL)
    assert received[1] == 1  # its etag is asked for; the filters came with the footer
    assert len(cache) == 2


@pytest.mark.usefixtures("settled_footers")
def test_a_cache_keeps_its_bounds(tmp_path: Path, small: Path) -> None:
    paths = [tmp_path / f"{i}.parquet" for i in range(6)]
    for path in paths:
        shutil.copy(small, path)
    one = MetadataCache()
    parquet_bloom.prune(paths[0], f"key = {ABSENT}", cache=one)
    cache = MetadataCache(int(one.num_bytes * 3.5))
    for path in (*paths[:3], paths[0], paths[3]):  # the first is used again, so that the second is evicted
        parquet_bloom.prune(path, f"key = {ABSENT}", cache=cache)
        assert cache.num_bytes <= cache.max_bytes
    assert len(cache) == 3
    cached = [parquet_bloom.prune(path, "sorted = -1", cache=cache).requests == 0 for path in (paths[0], paths[3])]
    assert cached == [True, True]
    assert parquet_bloom.prune(paths[1], "sorted = -1", cache=cache).requests == 1
    tiny = MetadataCache(100)
    parquet_bloom.prune(paths, f"key = {ABSENT}", cache=tiny)
    assert (len(tiny), tiny.num_bytes) == (0, 0)


# ------------------------------------------------------------------------------------------------------------
# Files side by side
# ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    for i in range(40):
        path = folder / f"{i:02}.parquet"
        pq.write_table(pa.table({"key": KEYS[i * 100 : i * 100 + 100]}), path, row_group_size=50)
        parquet_bloom.embed(path, ["key"])
    return folder


@pytest.mark.parametrize("threads", [None, 1, 2, 5, 100])
def test_the_order_is_that_of_the_files(lake: Path, threads: int | None) -> None:
    done: list[tuple[int, int]] = []
    report = parquet_bloom.prune(
        lake, f"key = {KEYS[1234]}", threads=threads, progress=lambda *step: done.append(step), cache=None
    )
    assert [Path(file.path).name for file in report.files] == [f"{i:02}.parquet" for i in range(40)]
    assert str(lake / "12.parquet") in report.selected
    assert done == [(i + 1, 40) for i in range(40)]
    assert 40 <= report.requests <= 120  # the end of each, and a block a row group at most


@pytest.mark.parametrize("threads", [1, 4])
def test_broken_files_among_many(lake: Path, tmp_path: Path, threads: int) -> None:
    folder = tmp_path / "lake"
    shutil.copytree(lake, folder)
    for name in ("07", "23"):
        (folder / f"{name}.parquet").write_bytes(b"no Parquet" * 9)
    with pytest.raises(errors.NotParquetError) as caught:
        parquet_bloom.prune(folder, "key = 5", threads=threads)
    assert Path(caught.value.path or "").name == "07.parquet"
    reported: list[str] = []
    done: list[int] = []

    def tell(error: errors.ParquetBloomError) -> None:
        assert threading.current_thread() is threading.main_thread()
        reported.append(f"{len(done)} {Path(error.path or '').name}")

    report = parquet_bloom.prune(
        folder, "key = 5", threads=threads, on_error=tell, progress=lambda at, _: done.append(at)
    )
    assert reported == ["7 07.parquet", "23 23.parquet"]
    assert report.total_files == 38
    assert done == list(range(1, 41))
    assert report.requests == 40


def test_remote_files_are_waited_for_together(lake: Path) -> None:
    """Eight requests that wait for each other: one after the other they would wait for ever."""
    paths = sorted(lake.iterdir())[:8]
    filesystem = remote(*paths)
    filesystem.expected_at_once = 8
    report = parquet_bloom.prune([path.name for path in paths], f"key = {ABSENT}", filesystem=filesystem)
    assert filesystem.most_at_once == 8
    assert report.requests == 8


def test_an_interrupt_stops_the_work(lake: Path) -> None:
    filesystem = remote(*lake.iterdir())

    def interrupt(done: int, _: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parquet_bloom.prune(sorted(filesystem.files), "key = 5", filesystem=filesystem, threads=2, progress=interrupt)
    assert len(filesystem.ranges_read) < 12


def test_one_predicate_serves_all_threads(tmp_path: Path) -> None:
    """A list's values are the same ones for all threads, so that the gathered values are the probed ones."""
    path = surgery.with_bitsets(tmp_path / "a", [np.random.default_rng(3).bytes(1 << 17)] * 2, statistics=False)
    decider = PruningPredicate(parse([("key", "in", list(range(2000)))]))
    barrier = threading.Barrier(4)
    verdicts: list[Any] = []

    def judge() -> None:
        with parquet_bloom.open(path) as file:
            facts = file_statistics(file, decider.columns)
            barrier.wait(20)
            numbers = evaluate_row_groups(facts, decider, make_filter_prober(file, facts), no_dictionaries)
            verdicts.append([decider.verdicts[number] for number in numbers.tolist()])

    workers = [threading.Thread(target=judge) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(verdicts) == 4
    assert all(verdict == verdicts[0] for verdict in verdicts)
