"""Test local files evaluated in batches: few blocks are read, and the plans are those of files opened one by one."""

import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.malformed.malformed import Patient
from support.oracle import oracle
from support.scans import elsewhere

import parquet_bloom
from parquet_bloom import MetadataCache
from parquet_bloom.core.bloom.sbbf import check_hashes
from parquet_bloom.metadata.filter_header import write_header
from parquet_bloom.storage import FileIdentity, LocalFileBatch
from parquet_bloom.storage.local import batch_probe

# ----------------------------------------------------------------------------------------------------------- probes


def identity(path: Path) -> FileIdentity:
    return FileIdentity.from_stat(path.stat())


Filters = list[tuple[int, int, int, int]]  # file, offset, length, set of keys


def probe(files: list[Path], identities: list[FileIdentity], filters: Filters, sets: Any, **options: Any) -> Any:
    """Probe bitsets without headers, given by file."""
    numbers = np.array(filters, np.int64).reshape(-1, 4)
    first = np.concatenate([[0], np.cumsum(np.bincount(numbers[:, 0], minlength=len(files)))])
    described = np.stack([numbers[:, 1], numbers[:, 2], np.zeros_like(numbers[:, 0])], axis=1)
    batch = LocalFileBatch([str(path) for path in files], identities, options.pop("in_memory", None))
    return batch.probe(first, described, numbers[:, 3].copy(), sets, **options)


def expected_answers(files: list[Path], filters: Filters, sets: Any) -> list[int]:
    answers = []
    for number, offset, length, which in filters:
        bitset = files[number].read_bytes()[offset : offset + length]
        maybe = check_hashes(np.frombuffer(bitset, np.uint8), sets[which]).any()
        answers.append(batch_probe.MAYBE if maybe else batch_probe.ABSENT if any(bitset) else batch_probe.EMPTY)
    return answers


SIZE = 20_000


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """More than are open at a time; each begins with bytes that are sparsely set, and has 1,000 that are not."""
    rng = np.random.default_rng(5)
    paths = [tmp_path / f"{number} ä%20.bin" for number in range(150)]
    for path in paths:
        data = rng.integers(0, 256, SIZE) | rng.integers(0, 256, SIZE)
        data[:8000] &= rng.integers(0, 256, 8000)
        data[8000:9000] = 0
        path.write_bytes(data.astype(np.uint8).tobytes())
    return paths


def make_filters(rng: np.random.Generator, files: list[Path]) -> tuple[Filters, list[np.ndarray]]:
    sets = [rng.integers(0, 2**64, count, np.uint64) for count in (1, 2, 7, 65, 20_000)]  # so many that threads pay
    filters: Filters = []
    for number in range(len(files)):
        for _ in range(int(rng.integers(0, 5))):
            length = 32 * int(rng.integers(1, 200)) + int(rng.integers(0, 2)) * int(rng.integers(0, 32))
            filters.append((number, int(rng.integers(0, SIZE - length)), length, int(rng.integers(0, len(sets)))))
        filters.append((number, 8000, 960, number % len(sets)))
    return filters, sets


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("in_memory", [False, True])
def test_filters_are_probed_in_their_files(files: list[Path], threads: int, in_memory: bool) -> None:
    filters, sets = make_filters(np.random.default_rng(6), files)
    retained = {i: [(3, path.read_bytes()[3:9001])] for i, path in enumerate(files) if i % 3} if in_memory else None
    identities = [identity(path) for path in files]
    result = probe(files, identities, filters, sets, in_memory=retained, threads=threads)
    expected = expected_answers(files, filters, sets)
    assert len(set(expected)) == 3
    assert result.answers.tolist() == expected
    assert result.same.all()
    assert (result.requests[[1, 2]] > 0).all() or in_memory
    assert result.num_bytes.sum() >= 32 * result.requests.sum()


def test_a_disk_is_waited_for(files: list[Path]) -> None:
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    filters, sets = make_filters(np.random.default_rng(7), files)
    result = probe(files, [identity(path) for path in files], filters, sets)
    assert result.answers.tolist() == expected_answers(files, filters, sets)
    assert result.same.all()


def test_dense_blocks_are_read_together(files: list[Path]) -> None:
    rng = np.random.default_rng(8)
    keys = [rng.integers(0, 2**64, count, np.uint64) for count in (1, 1000)]
    few, many = (
        probe(files[:1], [identity(files[0])], [(0, 8000, 992, which)], keys).requests[0] for which in range(2)
    )
    assert few <= 2
    assert many <= 2


@pytest.mark.parametrize("queried", [0, 1])
def test_other_files_are_told(files: list[Path], queried: int) -> None:
    """With a filter to be read and with none."""
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
    filters = [(number, 0, 32, 0) for number in range(len(files)) for _ in range(queried)]
    result = probe(files, identities, filters, [np.zeros(1, np.uint64)])
    assert np.flatnonzero(~result.same).tolist() == list(range(9))
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_filter_beyond_the_end_is_a_doubt(files: list[Path]) -> None:
    filters = [(0, 0, 32, 0), (0, SIZE - 10, 32, 0), (1, SIZE - 32, 32, 0), (2, 0, 32, 0), (2, -1, 32, 0)]
    result = probe(files[:3], [identity(path) for path in files[:3]], filters, [np.zeros(1, np.uint64)])
    assert result.same.tolist() == [False, True, True]
    assert result.answers[1] == batch_probe.UNREAD
    assert result.answers[4] == batch_probe.ODD


@pytest.mark.parametrize("num_bytes", [32, 64, 4096, 8192, 1 << 20, 1 << 21, 96, 1 << 30])
def test_usual_headers(num_bytes: int) -> None:
    header = write_header(num_bytes)
    assert batch_probe.usual_header(len(header) + num_bytes) == header


@pytest.mark.parametrize("length", [0, -1, 46, 2**40, 2**63 - 1])
def test_no_header_fits_a_length(length: int) -> None:
    assert batch_probe.usual_header(length) == b""


def test_a_header_is_checked(tmp_path: Path) -> None:
    header = write_header(64)
    for number in range(len(header)):
        path = tmp_path / "a"
        for spoilt in (False, True):
            data = bytearray(header + b"\xff" * 64)
            data[number] ^= spoilt
            path.write_bytes(data)
            filters = np.array([[0, len(data), 1]], np.int64)
            result = LocalFileBatch([str(path)], [identity(path)]).probe(
                np.array([0, 1]), filters, np.zeros(1, np.int64), [np.array([5], np.uint64)]
            )
            assert result.answers.tolist() == [batch_probe.ODD if spoilt else batch_probe.MAYBE]


def test_nothing_to_probe() -> None:
    result = probe([], [], [], [])
    assert result.answers.shape == result.same.shape == (0,)


@pytest.mark.parametrize(
    "changed",
    [
        {"first": [0]},
        {"first": [0, 2]},
        {"first": [1, 0]},
        {"first": [-1, 1]},
        {"filters": [[0, 32]]},
        {"which": []},
        {"which": [1]},
        {"which": [-1]},
        {"first_key": []},
        {"first_key": [0, 3]},
        {"first_key": [1, 0]},
        {"keys": [2, 1]},
        {"paths": [b"a\0b"]},
        {"paths": ["a"]},
        {"paths": []},
        {"start": -1},
        {"stop": 2},
        {"in_memory": {1: [(0, b"x")]}},
    ],
)
def test_shapes_are_checked(changed: dict[str, Any]) -> None:
    given = {"paths": [b"a"], "in_memory": {}, "first": [0, 1], "start": 0, "stop": 1, "filters": [[0, 32, 0]]}
    given |= {"which": [0], "first_key": [0, 2], "keys": [1, 2]} | changed
    for name in ("first", "filters", "which", "first_key"):
        given[name] = np.array(given[name], np.int64)
    with pytest.raises(ValueError):
        batch_probe.probe(identities=np.zeros((1, 5), np.int64), keys=np.array(given.pop("keys"), np.uint64), **given)


# -------------------------------------------------------------------------------------------------------- judgement


KEYS = np.random.default_rng(11).integers(0, 2**40, 12_000)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose columns differ in type, that lack one, that have no filter, a broken one, and one never filled.

    None has a dictionary: these are read from local files where they would not be worth a request to a store.
    """
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
        pq.write_table(pa.table(columns), path, row_group_size=300, use_dictionary=False)
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
            f"key = {one} OR (key = {other} AND text = 'x')",
        ]
    results += ["key IS NULL", "text IS NOT NULL AND sorted < 100", "flag = TRUE AND key = 17", "sorted > 5000"]
    results += [[("key", "in", some[:40])], [("key", "in", [k + 1 for k in some[:500]])]]
    return results


@pytest.mark.ci
@pytest.mark.usefixtures("settled_footers")
@pytest.mark.parametrize("threads", [1, 3])
def test_known_files_are_judged_like_new_ones(lake: Path, threads: int) -> None:
    cache, single = MetadataCache(), elsewhere(Path("/"))
    for where in predicates():
        alone = parquet_bloom.prune(str(lake), where, filesystem=single, cache=None)  # each file by itself
        for retained in (None, cache, cache):
            again = parquet_bloom.prune(lake, where, cache=retained, threads=threads)
            assert [file.path for file in again.files] == [f"/{file.path}" for file in alone.files]
            assert [file.row_groups for file in again.files] == [file.row_groups for file in alone.files], where


@pytest.mark.usefixtures("settled_footers")
def test_known_files_take_few_requests(lake: Path) -> None:
    cache = MetadataCache()
    for _ in range(2):
        report = parquet_bloom.prune(lake, f"key = {KEYS[0] + 1}", cache=cache)
    assert 13 < report.requests < 60
    assert len(cache) == 13


@pytest.mark.ci
@pytest.mark.usefixtures("settled_footers")
def test_footers_longer_than_what_is_read_first(tmp_path: Path) -> None:
    """The first 32 files are read again; then the length of footers is estimated."""
    wide = {f"column_with_a_long_name_{number:04}": [1, 2] for number in range(300)}
    for number in range(40):
        table = pa.table({"key": [2 * number, 2 * number + 1], **wide})
        pq.write_table(table, tmp_path / f"{number}.parquet", use_dictionary=False)
    report = parquet_bloom.prune(tmp_path, "key = 7", cache=None)
    assert report.selected == {str(tmp_path / "3.parquet"): [0]}
    assert report.requests == 40 + 32
    assert report.bytes_read > 40 * 16_384


@pytest.mark.usefixtures("settled_footers")
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


@pytest.mark.usefixtures("settled_footers")
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


@pytest.mark.parametrize("cached", [True, False])
def test_a_file_that_is_replaced_after_it_was_judged_is_read_whole(
    tmp_path: Path, cached: bool, request: pytest.FixtureRequest
) -> None:
    """Its row groups are others: those chosen may not be the ones that hold the match."""
    if cached:
        request.getfixturevalue("settled_footers")
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
    assert scan.to_reader().read_all()["key"].to_pylist() == [key]
    assert fragment.to_table()["key"].to_pylist() == [key]
    assert dataset.filter(pc.field("key") == key).to_table().num_rows == 1


@pytest.mark.usefixtures("settled_footers")
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


@pytest.mark.usefixtures("settled_footers")
def test_a_filter_that_is_probed_twice_stays_where_it_is(tmp_path: Path) -> None:
    for number in range(3):
        ids = np.arange(2000) * 1_000_003 + number
        pq.write_table(pa.table({"id": ids, "v": ids % 7}), tmp_path / f"{number}.parquet")
        parquet_bloom.embed(tmp_path / f"{number}.parquet", ["id"])
    cache = MetadataCache()
    twice = "(id = 77 AND v = 1) OR (id = 99 AND v = 2) OR (id = 1000003 AND v > 100)"
    for _ in range(2):
        assert not parquet_bloom.prune(tmp_path, twice, cache=cache).selected
    for number in range(3):
        for row in range(0, 2000, 97):
            report = parquet_bloom.prune(tmp_path, f"id = {row * 1_000_003 + number}", cache=cache)
            assert str(tmp_path / f"{number}.parquet") in report.selected
