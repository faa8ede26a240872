"""Test local files evaluated in batches: few blocks are read, and the plans are those of files opened one by one."""

import errno
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.malformed.malformed import Patient
from support.oracle import oracle

import parquet_bloom
from parquet_bloom import MetadataCache
from parquet_bloom.errors import StorageError
from parquet_bloom.file.cache import memory
from parquet_bloom.scan.evaluate import footers, local_batch
from parquet_bloom.scan.source import ScanSource
from parquet_bloom.storage import FileIdentity, LocalFileBatch, open_source
from parquet_bloom.storage.local import batch_read

# ---------------------------------------------------------------------------------------------------------- a visit


def identity(path: Path) -> FileIdentity:
    return FileIdentity.from_stat(path.stat())


def visit(paths: list[str], identities: list[FileIdentity], first: np.ndarray, offsets: Any, length: int) -> Any:
    return LocalFileBatch(paths, identities).visit(0, len(paths), first, offsets, length)


def counted(*numbers: int) -> np.ndarray:
    return np.array([0, *np.cumsum(numbers)], np.int64)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """More than are open at a time."""
    rng = np.random.default_rng(5)
    paths = [tmp_path / f"{number} ä%20.bin" for number in range(150)]
    for path in paths:
        path.write_bytes(rng.bytes(5000))
    return paths


def test_blocks_come_from_their_files(files: list[Path]) -> None:
    rng = np.random.default_rng(6)
    numbers = rng.integers(0, 5, len(files))
    offsets = rng.integers(0, 5000 - 32, numbers.sum())
    data, same = visit([str(path) for path in files], [identity(p) for p in files], counted(*numbers), offsets, 32)
    of_range = np.repeat(np.arange(len(files)), numbers)
    expected = [files[i].read_bytes()[at : at + 32] for i, at in zip(of_range, offsets, strict=True)]
    assert [row.tobytes() for row in data] == expected
    assert same.all()


def test_a_disk_is_waited_for(files: list[Path]) -> None:
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    offsets = np.full(len(files), 4968)
    data, same = visit([str(p) for p in files], [identity(p) for p in files], counted(*[1] * len(files)), offsets, 32)
    assert [row.tobytes() for row in data] == [path.read_bytes()[4968:] for path in files]
    assert same.all()


@pytest.mark.parametrize("queried", [0, 1])
def test_other_files_are_told(files: list[Path], queried: int) -> None:
    """With a range to be read and with none."""
    identities = [identity(path) for path in files]
    time.sleep(0.05)  # a tick of the clock, and more
    cut, replaced, touched, gone, folder, pipe, renamed = files[:7]
    os.truncate(cut, 10)
    files[7].replace(replaced)
    touched.write_bytes(touched.read_bytes())
    gone.unlink()
    folder.unlink()
    folder.mkdir()
    pipe.unlink()
    os.mkfifo(pipe)
    renamed.rename(renamed.with_name("aside"))
    disguised = files[8]  # written to, and given its old time back, as copying programs do
    before = disguised.stat()
    disguised.write_bytes(disguised.read_bytes()[::-1])
    os.utime(disguised, ns=(before.st_atime_ns, before.st_mtime_ns))
    descriptors = len(os.listdir("/proc/self/fd"))
    count = len(files)
    _, same = visit(
        [str(p) for p in files], identities, counted(*[queried] * count), np.zeros(queried * count, int), 32
    )
    assert np.flatnonzero(~same).tolist() == list(range(9))
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_range_beyond_the_end_is_a_doubt(files: list[Path]) -> None:
    some = files[:3]
    offsets = np.array([0, 4990, 4968, -1])
    _, same = visit([str(p) for p in some], [identity(p) for p in some], counted(2, 1, 1), offsets, 32)
    assert same.tolist() == [False, True, False]


def test_nothing_to_visit() -> None:
    data, same = visit([], [], counted(), np.empty(0, np.int64), 32)
    assert data.shape == (0, 32)
    assert same.shape == (0,)


@pytest.mark.parametrize(
    ("first", "offsets", "paths"),
    [
        ([0, 1], [], [b"a"]),
        ([0], [], [b"a"]),
        ([0, 2, 1], [0], [b"a", b"b"]),
        ([1, 1], [0], [b"a"]),
        ([0, 0], [], [b"a\0b"]),
        ([0, 0], [], ["a"]),
    ],
)
def test_shapes_are_checked(first: list[int], offsets: list[int], paths: list[Any]) -> None:
    known_files = np.zeros((len(paths), 5), np.int64)
    with pytest.raises(ValueError):
        batch_read.visit(paths, known_files, np.array(first, np.int64), np.array(offsets, np.int64), 32)


# -------------------------------------------------------------------------------------------------------- judgement


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of just now are cached."""
    monkeypatch.setattr(memory, "SETTLED_NS", -(10**12))


KEYS = np.random.default_rng(11).integers(0, 2**40, 12_000)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose columns differ in type, that lack one, that have no filter, a broken one, and one never filled."""
    root = tmp_path_factory.mktemp("known") / "a lake"
    root.mkdir()
    for number in range(12):
        keys = KEYS[1000 * number :][:1000]
        columns = {"key": keys, "text": keys.astype(str), "sorted": np.arange(1000), "flag": keys % 2 == 0}
        if number % 4 == 1:
            columns["key"] = columns["key"].astype(np.float64)
        if number % 4 == 2:
            del columns["text"]
        path = root / f"part-{number}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=300, use_dictionary=number % 3 == 0)
        if number != 5:
            parquet_bloom.embed(path, [name for name in ("key", "text") if name in columns])
    for number, spoil in ((7, b"\xff" * 8), (8, None)):
        path = root / f"part-{number}.parquet"
        with parquet_bloom.open(path) as file:
            chunk = next(file.chunks(columns=["key"]))
            offset, size = chunk.offset, chunk.header.header_bytes
            start, num_bytes = (offset, 8) if spoil else (offset + size, chunk.num_bytes)
        data = bytearray(path.read_bytes())
        data[start : start + num_bytes] = spoil or bytes(num_bytes)
        path.write_bytes(data)
    pq.write_table(pa.table({"key": pa.array([], pa.int64())}), root / "zero.parquet")
    return root


def predicates() -> list[Any]:
    rng = random.Random(3)
    some = KEYS.tolist()
    results: list[Any] = [f"key = {key}" for key in [*rng.sample(some, 10), 2**41, -1, 5]]
    results += [f"text = '{key}'" for key in [*rng.sample(some, 5), "x"]]
    for _ in range(20):
        one, other = rng.sample(some, 2)
        results += [
            f"key = {one} AND text = '{one}'",
            f"key = {one} OR text = '{other}'",
            f"key IN ({one}, {other}, 7)",
        ]
    results += ["key IS NULL", "text IS NOT NULL AND sorted < 100", "flag = TRUE AND key = 17", "sorted > 5000"]
    results += [[("key", "in", some[:40])], [("key", "in", [k + 1 for k in some[: local_batch.MAX_KEYS + 1]])]]
    return results


@pytest.mark.ci
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("threads", [1, 3])
def test_known_files_are_judged_like_new_ones(lake: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_batch, "_FILES_PER_THREAD", 3)
    cache = MetadataCache()
    for where in predicates():
        monkeypatch.setattr(footers, "evaluate_local", lambda *_: {})  # plan each file by itself
        alone = parquet_bloom.prune(lake, where, cache=None)
        monkeypatch.setattr(footers, "evaluate_local", local_batch.evaluate_local)
        for retained in (None, cache, cache):
            again = parquet_bloom.prune(lake, where, cache=retained, threads=threads)
            assert again.files == alone.files, where


@pytest.mark.usefixtures("settled")
def test_known_files_are_not_opened_one_by_one(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def noted(path: str, filesystem: Any, entry: Any) -> Any:
        opened.append(os.path.basename(path))
        return open_source(path, filesystem, entry)

    monkeypatch.setattr(footers, "open_source", noted)
    cache = MetadataCache()
    for _ in range(2):
        report = parquet_bloom.prune(lake, f"key = {KEYS[0] + 1}", cache=cache)
        # A header that is none, and a filter that was never filled, take a longer look.
        assert set(opened) <= {"part-7.parquet", "part-8.parquet"}
        assert "part-8.parquet" in opened
        opened.clear()
    assert 13 < report.requests < 60
    assert len(cache) == 13


@pytest.mark.usefixtures("settled")
def test_footers_longer_than_what_is_read_first(tmp_path: Path) -> None:
    """The first files are opened one by one; then the length of footers is estimated."""
    wide = {f"column_with_a_long_name_{number:04}": [1, 2] for number in range(300)}
    for number in range(6):
        pq.write_table(pa.table({"key": [2 * number, 2 * number + 1], **wide}), tmp_path / f"{number}.parquet")
    first_end = local_batch._FIRST_TAIL_BYTES
    for together in (2, 256):
        local_batch._TAILS_PER_READ, before = together, local_batch._TAILS_PER_READ
        try:
            report = parquet_bloom.prune(tmp_path, "key = 7", cache=None)
        finally:
            local_batch._TAILS_PER_READ = before
        assert report.selected == {str(tmp_path / "3.parquet"): [0]}
        assert report.bytes_read > 6 * first_end


@pytest.mark.usefixtures("settled")
def test_a_change_of_a_cached_file_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for target, keys in ((path, KEYS[:1000]), (other, KEYS[1000:2000])):
        pq.write_table(pa.table({"key": keys}), target)
        parquet_bloom.embed(target, ["key"])
    cache, where = MetadataCache(), f"key = {KEYS[1500]}"
    for _ in range(2):
        assert parquet_bloom.prune(path, where, cache=cache).selected == {}
    other.replace(path)
    assert parquet_bloom.prune(path, where, cache=cache).selected == {str(path): [0]}
    path.unlink()
    with pytest.raises(StorageError) as caught:
        parquet_bloom.prune([path], where, cache=cache)
    assert caught.value.errno == errno.ENOENT


@pytest.mark.usefixtures("settled")
def test_a_header_of_another_file_is_not_remembered(tmp_path: Path) -> None:
    """A link leads to a file with a broken header, to one with a good header there, and back."""
    broken, good, link = tmp_path / "broken", tmp_path / "good", tmp_path / "link"
    pq.write_table(pa.table({"key": KEYS[:1000]}), good)
    # So large that the header does not come with the file's end.
    parquet_bloom.embed(good, {"key": {"ndv": 200_000, "fpp": 0.01}})
    with parquet_bloom.open(good) as file:
        offset = next(file.chunks()).offset
    data = bytearray(good.read_bytes())
    data[offset : offset + 8] = b"\xff" * 8
    broken.write_bytes(data)
    cache, where = MetadataCache(), f"key = {KEYS[0] + 1}"
    link.symlink_to(broken)
    parquet_bloom.prune(link, "key < -1", cache=cache)  # its footer is cached, its filter was not probed
    for target in (good, broken):
        link.unlink()
        link.symlink_to(target)
        again = parquet_bloom.prune(link, where, cache=cache)
        assert again.files == parquet_bloom.prune(link, where, cache=None).files
        assert bool(again.doubts) == (target == broken)


@pytest.mark.usefixtures("settled")
def test_a_relative_path_means_another_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = MetadataCache()
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(pa.table({"key": KEYS[1000 * number :][:1000]}), folder / "a.parquet")
        parquet_bloom.embed(folder / "a.parquet", ["key"])
    for number in (0, 1, 0, 1):
        monkeypatch.chdir(tmp_path / str(number))
        report = parquet_bloom.prune("a.parquet", f"key = {KEYS[1234]}", cache=cache)
        assert report.selected == ({"a.parquet": [0]} if number else {})


@pytest.mark.usefixtures("settled")
def test_the_cache_forgets_the_paths_of_what_it_forgets(lake: Path) -> None:
    cache = MetadataCache(max_bytes=60_000)
    for _ in range(2):
        parquet_bloom.prune(lake, "key = 5", cache=cache)
    paths = [str(path) for path in sorted(lake.iterdir())]
    assert sum(match is not None for match in cache.find_by_paths(paths)) == len(cache) < 13
    cache.clear()
    assert cache.find_by_paths(paths) == [None] * 13


@pytest.mark.parametrize("cached", [True, False])
def test_a_file_replaced_after_it_was_judged_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    """Its row groups are others: those chosen may not be the ones that hold the match."""
    if cached:
        monkeypatch.setattr(memory, "SETTLED_NS", -(10**12))
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    key = int(KEYS[10])
    for target, keys in ((path, KEYS[:1000]), (other, KEYS[:1000][::-1])):
        pq.write_table(pa.table({"key": keys}), target, row_group_size=100)
        parquet_bloom.embed(target, ["key"])
    original = ScanSource.plan

    def then_replaced(*arguments: Any, **options: Any) -> Any:
        report = original(*arguments, **options)
        assert report.selected_row_groups < 5
        shutil.copy(other, tmp_path / "new")
        os.replace(tmp_path / "new", path)
        return report

    monkeypatch.setattr(ScanSource, "plan", then_replaced)
    assert parquet_bloom.read_table(path, f"key = {key}").num_rows == 1
    pq.write_table(pa.table({"key": KEYS[:1000]}), path, row_group_size=100)
    parquet_bloom.embed(path, ["key"])
    assert parquet_bloom.dataset(path).scan(f"key = {key}").to_reader().read_all().num_rows == 1
    pq.write_table(pa.table({"key": KEYS[:1000]}), path, row_group_size=100)
    parquet_bloom.embed(path, ["key"])
    assert parquet_bloom.scan_polars(path).filter(pl.col("key") == key).collect().height == 1


def test_a_dataset_holds_a_file_whole_that_was_replaced_after_it_was_judged(tmp_path: Path) -> None:
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    key = int(KEYS[10])
    for target, keys in ((path, KEYS[:1000]), (other, KEYS[:1000][::-1])):
        pq.write_table(pa.table({"key": keys}), target, row_group_size=100)
        parquet_bloom.embed(target, ["key"])
    dataset = parquet_bloom.dataset(path)
    scan = dataset.scan(f"key = {key}")
    (fragment,) = dataset.get_fragments(pc.field("key") == key)
    assert scan.plan().selected == {str(path): fragment.row_groups}
    assert len(fragment.row_groups) == 1
    other.replace(path)
    assert scan.to_arrow()["key"].to_pylist() == [key]
    assert fragment.to_table()["key"].to_pylist() == [key]
    assert dataset.filter(pc.field("key") == key).to_table().num_rows == 1


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("offset", [1 << 40, (1 << 63) - 1, -1, 0])
def test_a_known_footer_that_points_beyond_its_file(tmp_path: Path, offset: int) -> None:
    """Its headers have not been read when it is scanned again."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"key": KEYS[:1000], "number": range(1000)}), path, row_group_size=500)
    parquet_bloom.embed(path, ["key"])
    patient = Patient(path)
    location = oracle.column_metadata(patient.footer, 1, "key")
    location.set(oracle.OFFSET, oracle.I64, offset)
    patient.save(path)
    cache = MetadataCache()
    where = f"key = {KEYS[600]}"
    assert parquet_bloom.prune(path, f"{where} AND number > 5000", cache=cache).selected == {}
    assert len(cache) == 1
    for _ in range(2):
        report = parquet_bloom.prune(path, where, cache=cache)
        assert 1 in report.selected[str(path)]
        assert report.files == parquet_bloom.prune(path, where, cache=None).files
