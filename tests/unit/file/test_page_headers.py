"""Page headers that are kept between batches: they save reads, change no row, and take bounded memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.file.metadata_cache import SETTLED_NS, MetadataCache
from parquet_bloom.file.pages.page_columns import find_page_columns
from parquet_bloom.file.pages.row_group_batch import RowGroupBatch, RowGroups, RowsOfGroups
from parquet_bloom.storage import OpenFiles

ROWS = 60_000
Headers = list[dict[int, bytes]]


def write(path: Path, seed: int = 7, **options: Any) -> pa.Table:
    """Write two row groups whose chunks are too large to be read whole, of small pages."""
    rng = np.random.default_rng(seed)
    table = pa.table({"id": rng.permutation(ROWS), "v": pa.array(rng.random(ROWS), mask=rng.random(ROWS) < 0.1)})
    pages = {"data_page_size": 16_000, "write_batch_size": 500, "compression": "none", "use_dictionary": False}
    pq.write_table(table, path, row_group_size=ROWS // 2, **pages | options)
    return table


def read(path: Path, headers: Headers | None) -> tuple[list[object], tuple[int, int]]:
    """Return some rows of both row groups, and requests and bytes."""
    rows = RowsOfGroups(np.array([2, 1]), np.array([5, 20_000, 29_999]))
    with parquet_bloom.open(path) as file:
        footer, identity = file.footer, file.source.identity
        columns = find_page_columns(file, pq.read_schema(path))
    files = OpenFiles([str(path)], [identity])
    assert files.open()
    batch = RowGroupBatch(RowGroups([footer], [(0, 0), (0, 1)]), columns, files, headers)
    arrays = batch.read(["id", "v"], rows)
    files.close()
    return [arrays[name].to_pylist() for name in ("id", "v")], batch.cost


def test_headers_of_files_whose_chunks_are_alike(tmp_path: Path) -> None:
    """Chunks at the same places, of the same sizes, of which one begins with long pages and one with short ones."""
    texts = [f"{row:024}" if row < ROWS // 4 else f"{row:06}" for row in range(ROWS // 2)]
    tables = [pa.table({"t": texts}), pa.table({"t": texts[::-1]})]
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for path, table in zip(paths, tables, strict=True):
        options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        pq.write_table(table, path, write_batch_size=500, data_page_size=1, **options)
    opened = [parquet_bloom.open(path) for path in paths]
    chunks = {(int(file.footer.first_pages[0]), int(file.footer.chunks["compressed_size"][0])) for file in opened}
    assert len(chunks) == 1
    footers, identities = [file.footer for file in opened], [file.source.identity for file in opened]
    columns = find_page_columns(opened[0], tables[0].schema)
    for file in opened:
        file.close()
    files = OpenFiles([str(path) for path in paths], identities)
    assert files.open()
    headers: Headers = [{}, {}]
    some = [0, 499, 500, 7000, ROWS // 4 - 1, ROWS // 4, ROWS // 2 - 1]
    rows = RowsOfGroups(np.array([len(some)] * 2), np.array(some * 2))
    for _ in range(2):
        batch = RowGroupBatch(RowGroups(footers, [(0, 0), (1, 0)]), columns, files, headers)
        assert batch.read(["t"], rows)["t"].to_pylist() == [texts[row] for row in some] + [
            texts[::-1][row] for row in some
        ]
    files.close()
    assert all(headers)


def test_headers_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = write(path)
    headers: Headers = [{}]
    expected = [table[name].take([5, 20_000, 59_999]).to_pylist() for name in ("id", "v")]
    (first, (many, many_bytes)), (again, (few, few_bytes)) = read(path, headers), read(path, headers)
    assert first == again == expected
    assert len(headers[0]) == 4
    assert few == 6, "one page for each row and column"
    assert many > 3 * few
    assert few_bytes < many_bytes
    assert read(path, None) == (expected, (many, many_bytes))


def test_no_more_is_kept_than_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, data_page_size=1, write_batch_size=5)  # 6,000 pages in each chunk, whose headers take 300 kB
    headers: Headers = [{}]
    first, _ = read(path, headers)
    assert first == read(path, None)[0] == read(path, headers)[0]
    assert sum(map(len, headers[0].values())) <= 64 << 10 < 6000 * 14 * 4


def wait_until_settled(*paths: Path) -> None:
    """Wait until a change of the files would show in their times."""
    latest = max(path.stat().st_ctime_ns for path in paths)
    time.sleep(max(latest + SETTLED_NS - time.time_ns(), 0) / 1e9 + 0.01)


@pytest.mark.ci
def test_a_cache_counts_them_and_gives_them_up_before_footers(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for number, path in enumerate(paths):
        write(path, number)
    wait_until_settled(*paths)
    cache = MetadataCache()
    lake = parquet_bloom.dataset(tmp_path, cache=cache)
    lake.scan("id = -1").to_arrow()  # footers alone
    before = cache.num_bytes
    rows = lake.scan("id = 7").to_arrow()
    kept = [cached for _, cached in filter(None, cache.find_by_paths([str(path) for path in paths]))]
    headers = sum(len(one) for cached in kept for one in cached.page_headers.values())
    assert headers > 0
    assert cache.num_bytes >= before + headers
    cache.max_bytes = before // 3 * 4 + headers // 2  # another footer fits, if some headers go
    write(tmp_path / "3.parquet", 3)
    wait_until_settled(tmp_path / "3.parquet")
    lake.scan("id = -1").to_arrow()
    assert len(cache) == 4
    assert cache.num_bytes <= cache.max_bytes
    assert any(not cached.page_headers for cached in kept)
    assert lake.scan("id = 7").to_arrow()[: len(rows)].equals(rows)


@pytest.mark.ci
def test_a_file_that_is_replaced_is_read_by_its_own_headers(tmp_path: Path) -> None:
    path, other = tmp_path / "lake" / "a.parquet", tmp_path / "other.parquet"
    path.parent.mkdir()
    old, new = write(path), write(other, 8)
    wait_until_settled(path, other)
    lake = parquet_bloom.dataset(path.parent, cache=MetadataCache())
    for key in (3, 4, 3):
        assert lake.scan(f"id = {key}").to_arrow().equals(old.filter(pc.equal(old["id"], key)))
    other.replace(path)
    for key in (3, 4, 3):
        assert lake.scan(f"id = {key}").to_arrow().equals(new.filter(pc.equal(new["id"], key)))


@pytest.mark.ci
def test_small_zones_of_many_files_are_read_together(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    tables = [write(lake / f"{number}.parquet", number) for number in range(3)]
    wait_until_settled(*lake.iterdir())
    options = {"granularity": "zone", "zone_rows": 256}
    with parquet_bloom.LakeIndex.create(tmp_path / "index", ["id"], lake=lake, **options) as index:
        index.append()
    dataset = parquet_bloom.dataset(lake, index=tmp_path / "index")
    keys = [5, 40_000, -1, 59_999, 5]
    plan = dataset.scan("id IN (5, 40000, 59999)").plan()
    assert all(group.num_left * 16 < group.num_rows for file in plan.files for group in file.read_groups)
    rows = dataset.get("id", keys)
    expected = [table.filter(pc.equal(table["id"], key)) for key in keys for table in tables]
    assert rows.to_pylist() == pa.concat_tables(expected).to_pylist()
