"""Test objects of a listing evaluated in batches: the plans are those of the same files on disk, cached or not."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import DiskMetadataCache, MetadataCache, errors
from parquet_bloom.storage import Extents

ROWS = 400
LARGE = (8, 9)  # files whose filters take more than an object's end has
WHERE = (
    "id = {known}",
    "id = -1",
    "id IN ({known}, {other}, -5)",
    "text = 'row 17 of 3'",
    "text = 'row 17 of 3' OR id = {other}",
    "number < 100 AND id = {known}",
    "number = 250",
    "id = {known} AND text = 'nothing of the kind'",
    "NOT (id = {known})",
    "part = 1 AND number BETWEEN 0 AND 5",
)


def table(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    count = 20_000 if seed in LARGE else ROWS
    texts = [f"row {number} of {seed}" for number in range(count)]
    return pa.table({"id": rng.integers(1 << 60, size=count), "text": texts, "number": np.arange(count)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of several layouts: with filters before the footer, elsewhere, larger than an object's end, and without."""
    root = tmp_path_factory.mktemp("lake")
    for number in range(12):
        path = root / f"part={number % 2}" / f"{number:02}.parquet"
        path.parent.mkdir(exist_ok=True)
        content = table(number)
        if number == 3:
            content = content.append_column("more", pa.array(["x" * 300] * ROWS))
        size = len(content) if number in LARGE else 100 if number % 3 else 200
        # Of dictionaries, fewer are read from objects than from files.
        pq.write_table(content, path, row_group_size=size, use_dictionary=False)
        if number not in (4, 7):
            columns = ["id", "text"] if number != 6 else ["text"]
            parquet_bloom.embed(path, columns, fpp=1e-6 if number in LARGE else 0.01)
    return root


@pytest.fixture
def upload(s3: Any, folder: Path) -> Callable[[], str]:
    def put_all() -> str:
        for path in sorted(folder.rglob("*.parquet")):
            s3.put(f"lake/{path.relative_to(folder)}", path.read_bytes())
        return str(s3.url("lake/"))

    return put_all


def questions() -> list[str]:
    present, other = table(5)["id"][7].as_py(), table(8)["id"][300].as_py()
    return [where.format(known=present, other=other) for where in WHERE]


def decisions(report: Any, root: str) -> dict[str, Any]:
    return {
        one.path.removeprefix(root).lstrip("/"): [(g.row_group, g.read, g.by, g.doubts) for g in one.row_groups]
        for one in report.files
    }


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["no cache", "memory", "little memory", "disk"])
def test_objects_are_judged_as_files_are(
    s3: Any, folder: Path, upload: Callable[[], str], tmp_path: Path, kind: str
) -> None:
    url = upload()
    caches: dict[str, Any] = {"no cache": None, "memory": MetadataCache(), "little memory": MetadataCache(60_000)}
    for repeat in range(3):
        cache = DiskMetadataCache(tmp_path / "cache") if kind == "disk" else caches[kind]
        for where in questions():
            local = parquet_bloom.prune(folder, where, cache=None)
            remote = parquet_bloom.prune(url, where, cache=cache, storage_options=s3.storage_options)
            assert decisions(remote, url) == decisions(local, str(folder)), (where, repeat)
            rows = parquet_bloom.read_table(url, where, storage_options=s3.storage_options)
            assert rows.equals(parquet_bloom.read_table(folder, where)), (where, repeat)


@pytest.mark.parametrize("on_disk", [False, True])
def test_cached_files_take_no_request(s3: Any, upload: Callable[[], str], tmp_path: Path, on_disk: bool) -> None:
    url, cache = upload(), MetadataCache()
    if on_disk:
        cache = DiskMetadataCache(tmp_path / "cache")
    where = "id = 5"
    parquet_bloom.prune(url, where, cache=cache, storage_options=s3.storage_options)
    if on_disk:
        cache = DiskMetadataCache(tmp_path / "cache")
    s3.clear_log()
    report = parquet_bloom.prune(url, where, cache=cache, storage_options=s3.storage_options)
    assert s3.operations() == ["ListObjects"]
    assert report.requests == 1
    assert report.bytes_read == 0


def test_another_version_is_another_object(s3: Any, folder: Path, upload: Callable[[], str]) -> None:
    url, cache = upload(), MetadataCache()
    where = questions()[0]

    def selected() -> list[str]:
        report = parquet_bloom.prune(url, where, cache=cache, storage_options=s3.storage_options)
        return [path.rpartition("/")[2] for path in report.selected]

    assert selected() == selected() == ["04.parquet", "06.parquet", "05.parquet", "07.parquet"]
    with_the_row = (folder / "part=1/05.parquet").read_bytes()
    s3.put("lake/part=0/00.parquet", with_the_row)
    s3.put("lake/part=1/05.parquet", (folder / "part=1/01.parquet").read_bytes())
    assert selected() == ["00.parquet", "04.parquet", "06.parquet", "07.parquet"]


def test_errors_are_of_their_files(s3: Any, folder: Path, upload: Callable[[], str]) -> None:
    url = upload()
    s3.put("lake/part=0/02.parquet", b"PAR1 and nothing else")
    s3.put("lake/part=1/03.parquet", (folder / "part=1/03.parquet").read_bytes()[:-40])
    caught: list[str] = []
    report = parquet_bloom.prune(
        url, "id = 5", cache=None, storage_options=s3.storage_options, on_error=lambda error: caught.append(str(error))
    )
    assert len(report.files) == 10
    assert [text.partition(": ")[0].rpartition("/")[2] for text in caught] == ["02.parquet", "03.parquet"]
    with pytest.raises(errors.NotParquetError, match=r"02\.parquet"):
        parquet_bloom.prune(url, "id = 5", cache=None, storage_options=s3.storage_options)


def test_an_unreadable_file_is_not_an_error_of_the_others(s3: Any, upload: Callable[[], str]) -> None:
    url = upload()
    s3.fail("GetObject", times=100, status=403, code="AccessDenied", when=lambda request: "/03." in request.key)
    caught: list[Any] = []
    options = {"storage_options": s3.storage_options, "cache": None}
    report = parquet_bloom.prune(url, "id = 5", on_error=caught.append, **options)
    assert len(report.files) == 11
    assert [(error.path.rpartition("/")[2], "access denied" in error.problem) for error in caught] == [
        ("03.parquet", True)
    ]
    with pytest.raises(errors.StorageError, match=r"03\.parquet: cannot open: access denied"):
        parquet_bloom.prune(url, "id = 5", **options)


def test_orc_files_among_them_are_opened_once(s3: Any, upload: Callable[[], str], tmp_path: Path) -> None:
    url = upload()
    path = tmp_path / "a.orc"
    pa.orc.write_table(table(50), path)
    s3.put("lake/part=0/a.orc", path.read_bytes())
    s3.clear_log()
    where = f"id = {table(50)['id'][3].as_py()}"
    report = parquet_bloom.prune(url, where, cache=None, storage_options=s3.storage_options)
    assert f"{url}part=0/a.orc" in report.selected
    of_orc = [request for request in s3.log if request.key.endswith(".orc")]
    assert len(of_orc) == 1


@pytest.fixture
def with_dictionaries(s3: Any, tmp_path: Path) -> str:
    """The URL of four files whose `k` has even numbers only, in dictionaries, in row groups worth a request."""
    wide = pa.array(np.random.default_rng(0).bytes(100)[:50].hex() + str(number) for number in range(20_000))
    for number in range(4):
        path = tmp_path / f"{number}.parquet"
        keys = np.arange(20_000) % 50 * 2 + number * 100
        pq.write_table(pa.table({"k": keys, "wide": wide}), path, row_group_size=10_000, compression="none")
        s3.put(f"coded/{path.name}", path.read_bytes())
    return str(s3.url("coded/"))


ODD = "k IN (1, 101, 201, 301) OR k = 210"  # 210 is in the third file


@pytest.mark.ci
@pytest.mark.parametrize("threads", [1, None])
def test_dictionaries_of_objects_are_read_together_and_kept(
    s3: Any, with_dictionaries: str, threads: int | None
) -> None:
    cache, options = MetadataCache(), {"storage_options": s3.storage_options, "threads": threads}
    s3.clear_log()
    report = parquet_bloom.prune(with_dictionaries, ODD, cache=cache, **options)
    assert [path.rpartition("/")[2] for path in report.selected] == ["2.parquet"]
    assert report.skipped_by == {"dictionary": 6}
    assert s3.operations().count("GetObject") == 4 + 8
    assert report.requests == len(s3.log)
    again = parquet_bloom.prune(with_dictionaries, ODD, cache=cache, **options)
    assert s3.operations().count("GetObject") == 4 + 8
    assert (again.bytes_read, again.selected) == (0, report.selected)


@pytest.mark.ci
def test_object_replaced_before_its_dictionary_is_read(s3: Any, with_dictionaries: str) -> None:
    first = s3.get("coded/0.parquet")
    third = s3.get("coded/2.parquet")

    def exchange(request: Any) -> None:
        s3.put("coded/0.parquet", third)
        s3.put("coded/2.parquet", first)

    options = {"storage_options": s3.storage_options, "threads": 1}
    of_dictionary = s3.before("GetObject", exchange, when=lambda request: request.key == "coded/1.parquet")
    of_dictionary.skip = 1  # the footer
    with pytest.raises(errors.ConcurrentChangeError, match=r"2\.parquet: it was changed while it was being read"):
        parquet_bloom.prune(with_dictionaries, ODD, cache=MetadataCache(), **options)
    report = parquet_bloom.prune(with_dictionaries, ODD, cache=MetadataCache(), **options)
    assert [path.rpartition("/")[2] for path in report.selected] == ["0.parquet"]


@pytest.mark.ci
def test_dictionary_that_cannot_be_read_is_an_error_of_its_object(s3: Any, with_dictionaries: str) -> None:
    refused = s3.fail(
        "GetObject", times=100, status=403, code="AccessDenied", when=lambda request: request.key == "coded/3.parquet"
    )
    refused.skip = 1
    caught: list[Any] = []
    report = parquet_bloom.prune(
        with_dictionaries, ODD, on_error=caught.append, cache=None, storage_options=s3.storage_options
    )
    assert [path.rpartition("/")[2] for path in report.selected] == ["2.parquet"]
    assert len(report.files) == 3
    assert [error.path.rpartition("/")[2] for error in caught] == ["3.parquet"]


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_at_once_than_requested(s3: Any, upload: Callable[[], str], threads: int) -> None:
    url = upload()
    lock, now, most = threading.Lock(), [0], [0]

    def begin(request: Any) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])

    def end(request: Any) -> None:
        with lock:
            now[0] -= 1

    s3.before("GetObject", begin, times=1000)
    s3.after("GetObject", end, times=1000)
    parquet_bloom.prune(url, "number = 1", cache=None, storage_options=s3.storage_options, threads=threads)
    assert most[0] <= threads


def test_row_groups_of_an_object_come_by_few_requests(s3: Any) -> None:
    """Column chunks are fetched together, each byte once, and read as they are on disk."""
    wide = pa.table({f"c{number}": np.random.default_rng(number).random(50_000) for number in range(12)})
    data = io.BytesIO()
    pq.write_table(wide, data, use_dictionary=False, compression="none")
    s3.put("lake/a.parquet", data.getvalue())
    columns = [f"c{number}" for number in range(0, 12, 2)]
    s3.clear_log()
    result = parquet_bloom.read_table(s3.url("lake/a.parquet"), "c1 > 0.5", columns, storage_options=s3.storage_options)
    assert result.num_rows == int((wide["c1"].to_numpy() > 0.5).sum())
    spans = []
    for request in s3.log:
        if request.range and not request.range.startswith("bytes=-"):
            start, end = request.range.removeprefix("bytes=").split("-")
            spans.append((int(start), int(end)))
    assert len(spans) == 1 + 6  # the predicate's column, and then the others, which are far apart, at once
    spans.sort()
    assert all(end < start for (_, end), (start, _) in pairwise(spans))


# ------------------------------------------------------------------------------------------------------------- extents


def test_extents_hold_what_was_added() -> None:
    data = np.random.default_rng(0).integers(256, size=10_000, dtype=np.uint8).tobytes()
    rng = np.random.default_rng(1)
    extents = Extents()
    for _ in range(500):
        start, end = sorted(rng.integers(0, len(data) + 1, 2).tolist())
        extents.add(start, data[start:end])
        assert extents.num_bytes == sum(len(extent) for _, extent in extents.items())
        offset, length = int(rng.integers(len(data))), int(rng.integers(200))
        expected = extents.find(offset, length)
        if expected is not None:
            assert expected.tobytes() == data[offset : offset + length]
    extents.clear()
    assert (len(extents), extents.num_bytes, extents.find(0, 1)) == (0, 0, None)


def test_extents_are_bounded() -> None:
    extents = Extents(max_extents=3)
    for number in range(5):
        extents.add(number * 100, b"x" * 10)
    assert [offset for offset, _ in extents.items()] == [200, 300, 400]
    extents.add(150, b"y" * 500)
    assert [offset for offset, _ in extents.items()] == [150]
