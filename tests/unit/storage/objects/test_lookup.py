"""Lakes on an object store, from the predicate to the rows: requests counted, and every engine's rows the same."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import storage
from parquet_bloom.cli import main
from parquet_bloom.errors import ConcurrentChangeError
from parquet_bloom.file.metadata_cache import MetadataCache
from parquet_bloom.storage.objects import object_listing

FILES = 12
ROWS = 4_000
KEYS = np.random.default_rng(4).permutation(10_000_000)[: FILES * ROWS]
ABSENT = 10_000_001
PRESENT_KEY = int(KEYS[5 * ROWS + 3_000])  # in file 5, row group 3


def table(number: int) -> pa.Table:
    keys = KEYS[number * ROWS : (number + 1) * ROWS]
    return pa.table({"key": keys, "text": [f"{key}-{number}" for key in keys.tolist()], "number": [number] * ROWS})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Twelve partitions of a file with four row groups; filters of 1 KiB, which lie near the footer."""
    folder = tmp_path_factory.mktemp("lake")
    created = {}
    for number in range(FILES):
        path = folder / f"{number}.parquet"
        pq.write_table(table(number), path, row_group_size=1_000)
        parquet_bloom.embed(path, ["key"])
        created[f"lake/part={number % 3}/{number:02}.parquet"] = path.read_bytes()
    return created


@pytest.fixture
def lake(s3: Any, files: dict[str, bytes]) -> str:
    """URL of the lake."""
    object_listing._NO_TABLE.clear()
    for key, data in files.items():
        s3.put(key, data)
    s3.put("lake/_SUCCESS", b"")
    return str(s3.url("lake/"))


@pytest.fixture
def options(s3: Any) -> dict[str, Any]:
    return {"storage_options": s3.storage_options}


def requests(s3: Any) -> Counter[str]:
    return Counter("tail" if request.range.startswith("bytes=-") else request.operation for request in s3.log)


def test_a_point_lookup_counted(s3: Any, lake: str, options: dict[str, Any], files: dict[str, bytes]) -> None:
    cache = MetadataCache()
    cold = parquet_bloom.prune(lake, f"key = {PRESENT_KEY}", cache=cache, **options)
    assert [path.rpartition("/")[2] for path in cold.selected] == ["05.parquet"]
    assert list(cold.selected.values()) == [[3]]
    # The listing, four signs of a table in the bucket's root, and a file's end, which holds its filters.
    assert requests(s3) == {"ListObjects": 5, "GetObject": FILES}
    assert cold.requests == 5 + FILES
    assert cold.bytes_read == sum(min(len(data), 65_536) for data in files.values())
    s3.clear_log()
    warm = parquet_bloom.prune(lake, f"key = {PRESENT_KEY}", cache=cache, **options)
    assert warm.files == cold.files
    # Footers and filters are known, and objects by their etags: listing shows that all are what they were.
    assert requests(s3) == {"ListObjects": 1}
    assert (warm.requests, warm.bytes_read) == (1, 0)
    s3.clear_log()
    absent = parquet_bloom.prune(lake, f"key = {ABSENT}", cache=cache, **options)
    assert absent.selected == {}
    assert (requests(s3), absent.requests) == ({"ListObjects": 1}, 1)


def test_one_file_costs_its_end(s3: Any, lake: str, options: dict[str, Any]) -> None:
    url = s3.url("lake/part=2/05.parquet")
    cache = MetadataCache()
    report = parquet_bloom.prune(url, f"key = {ABSENT}", cache=cache, **options)
    assert (requests(s3), report.requests) == ({"tail": 1}, 1)
    s3.clear_log()
    for given, count in ((url, 1), ([url, s3.url("lake/part=0/00.parquet")], 2)):
        parquet_bloom.prune(given, f"key = {PRESENT_KEY}", cache=cache, **options)
        s3.clear_log()
        warm = parquet_bloom.prune(given, f"key = {PRESENT_KEY}", cache=cache, **options)
        # A byte, of the version that is known.
        assert requests(s3) == {"GetObject": count}
        assert all(request.headers["if-match"] for request in s3.log)
        assert (warm.requests, warm.bytes_read) == (count, count)


def test_a_cached_url_may_be_another_object(
    s3: Any, lake: str, options: dict[str, Any], files: dict[str, bytes]
) -> None:
    url, other = s3.url("lake/part=2/05.parquet"), files["lake/part=0/00.parquet"]
    cache = MetadataCache()
    for _ in range(2):
        assert parquet_bloom.prune(url, f"key = {PRESENT_KEY}", cache=cache, **options).selected
    s3.put("lake/part=2/05.parquet", other)
    key = int(table(0)["key"][5].as_py())
    for where, result in ((f"key = {PRESENT_KEY}", 0), (f"key = {key}", 1), ("number = 99", 0)):
        assert parquet_bloom.prune(url, where, cache=cache, **options).selected_files == result
    s3.put("lake/part=2/05.parquet", files["lake/part=2/05.parquet"])
    assert parquet_bloom.prune(url, "number = 0", cache=cache, **options).selected == {}
    s3.client().delete_object(Bucket=s3.bucket, Key="lake/part=2/05.parquet")
    with pytest.raises(parquet_bloom.errors.StorageError, match="no such"):
        parquet_bloom.prune(url, f"key = {PRESENT_KEY}", cache=cache, **options)


def test_files_are_looked_at_side_by_side(s3: Any, lake: str, options: dict[str, Any]) -> None:
    """No answer comes before four requests: sequential requests would wait for ever."""
    together = threading.Barrier(4, timeout=30)
    s3.before("GetObject", lambda request: together.wait(), times=FILES)
    report = parquet_bloom.prune(lake, f"key = {PRESENT_KEY}", cache=None, **options)
    assert report.requests == 5 + FILES
    assert not together.broken


def test_a_change_between_listing_and_reading_is_an_error(
    s3: Any, lake: str, options: dict[str, Any], files: dict[str, bytes]
) -> None:
    new = files["lake/part=2/05.parquet"]
    s3.before("GetObject", lambda request: s3.put("lake/part=0/00.parquet", new))  # after the listing
    with pytest.raises(ConcurrentChangeError, match=r"00\.parquet: it was changed"):
        parquet_bloom.prune(lake, f"key = {PRESENT_KEY}", cache=None, threads=1, **options)


WHERE = f"key IN ({PRESENT_KEY}, {KEYS[10]}, {ABSENT}) OR text = '{KEYS[20_000]}-5'"


def expected() -> pa.Table:
    full_table = pa.concat_tables(table(number) for number in (0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11))
    result = full_table.filter(pc.is_in(full_table["key"], pa.array([PRESENT_KEY, int(KEYS[10]), int(KEYS[20_000])])))
    return result.append_column("part", pa.array([number % 3 for number in result["number"].to_pylist()]))


@pytest.mark.ci
def test_every_way_of_reading_gives_the_same_rows(lake: str, options: dict[str, Any]) -> None:
    assert expected().num_rows == 3
    dataset = parquet_bloom.dataset(lake, **options)
    for table in (
        parquet_bloom.read_table(lake, WHERE, **options),
        dataset.scan(WHERE).to_reader().read_all(),
        dataset.to_table(filter=pc.field("key").isin(expected()["key"])),
        parquet_bloom.scan_polars(lake, **options).filter(pl.col("key").is_in(expected()["key"].to_pylist())).collect(),
    ):
        rows = (table if isinstance(table, pa.Table) else table.to_arrow()).to_pylist()
        assert rows == expected().to_pylist()
    columns = parquet_bloom.read_table(lake + "*/*.parquet", WHERE, ["text"], **options)
    assert columns.equals(expected().select(["text"]))
    (fragment,) = dataset.get_fragments(pc.field("key") == PRESENT_KEY)
    assert len(fragment.row_groups) == 1
    assert parquet_bloom.verify(lake, data=True, **options).problems == []


def test_a_dataset_of_urls_and_local_files(lake: str, s3: Any, options: dict[str, Any], tmp_path: Any) -> None:
    pq.write_table(table(5), tmp_path / "a.parquet")
    paths = [str(tmp_path / "a.parquet"), s3.url("lake/part=2/05.parquet")]
    dataset = parquet_bloom.dataset(paths, **options)
    assert dataset.to_table(filter=pc.field("key") == PRESENT_KEY).num_rows == 2


def test_a_dataset_of_objects_is_for_reading(s3: Any, lake: str, options: dict[str, Any]) -> None:
    from pyarrow.fs import FileSelector, FileType

    filesystem = storage.arrow_filesystem(storage.resolve_filesystem(None, s3.storage_options), [lake])
    url = s3.url("lake/part=2/05.parquet")
    info, missing = filesystem.get_file_info([url, s3.url("lake/none.parquet")])
    assert (info.type, info.size, missing.type) == (
        FileType.File,
        len(s3.get("lake/part=2/05.parquet")),
        FileType.NotFound,
    )
    assert len(filesystem.get_file_info(FileSelector(lake, recursive=True))) == FILES
    assert pq.read_metadata(url, filesystem=filesystem).num_row_groups == 4
    with filesystem.open_input_stream(url) as stream:
        assert stream.read(4) == b"PAR1"
    with pytest.raises(FileNotFoundError):
        filesystem.open_input_file(s3.url("lake/none.parquet"))
    for write in (filesystem.open_output_stream, filesystem.delete_file, filesystem.create_dir):
        with pytest.raises(NotImplementedError, match="can only be read"):
            write(url)
    assert filesystem.equals(filesystem)


# ------------------------------------------------------------------------------------------------------------
# The command line
# ------------------------------------------------------------------------------------------------------------


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    return code, *capsys.readouterr()


@pytest.fixture
def settings(s3: Any) -> list[str]:
    return [part for name, value in s3.storage_options.items() for part in ("--storage-option", f"{name}={value}")]


def test_a_list_of_urls_is_not_looked_through_one_by_one(
    s3: Any, lake: str, options: dict[str, Any], files: dict[str, bytes]
) -> None:
    report = parquet_bloom.prune([s3.url(key) for key in files], f"key = {PRESENT_KEY}", cache=None, **options)
    assert (report.selected_files, requests(s3)) == (1, {"tail": FILES})


def test_commands_say_what_is_wrong_with_urls(
    s3: Any, lake: str, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, error = ran(capsys, "show", s3.url("none"), *settings)
    assert (code, out) == (2, "")
    assert error.splitlines()[0] == f"error: {s3.url('none')}: there is no such object or folder"
    code, _, error = ran(capsys, "show", lake, "--storage-option", "nothing")
    assert code == 2
    assert "number 1 is not of the form KEY=VALUE" in error
    assert "nothing" not in error
    code, _, error = ran(capsys, "embed", lake, "--column", "key", "-o", lake + "out/", *settings)
    assert code == 2
    assert "whose readers would find rows twice" in error
