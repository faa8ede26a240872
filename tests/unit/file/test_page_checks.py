"""Headers of pages are followed through whole column chunks, however long they are and however the bytes come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from support.oracle.oracle import varint

import parquet_bloom
from parquet_bloom import storage
from parquet_bloom.file.page_checks import PageClaimError, PageWalk, RangeFile, require_pages

MIB = 1 << 20
ROWS = 200_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Column chunks of several MiB, dictionaries and both versions of pages; texts that stand in headers, too."""
    location = tmp_path_factory.mktemp("claims") / "a.parquet"
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "k": rng.integers(0, 2**62, ROWS),
            "few": rng.integers(0, 5000, ROWS),
            "long": [f"{key:x}" * 40 if key % 20 == 0 else None for key in rng.integers(0, 2**62, ROWS)],
            "list": pa.array([[int(key)] * (key % 3) for key in rng.integers(0, 2**40, ROWS)]),
        }
    )
    options = {"compression": "none", "data_page_size": 100_000, "use_dictionary": ["few"], "row_group_size": ROWS}
    pq.write_table(table, location, **options, data_page_version="2.0")
    return location


def spans(path: Path) -> list[tuple[int, int, int]]:
    group = pq.read_metadata(path).row_group(0)
    results = []
    for number in range(group.num_columns):
        chunk = group.column(number)
        start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
        results.append((start, start + chunk.total_compressed_size, chunk.num_values))
    return results


@pytest.mark.ci
def test_good_pages(path: Path) -> None:
    with storage.open_source(path) as source:
        for start, end, num_values in spans(path):
            require_pages(source, PageWalk(start, end, num_values))
            with pytest.raises(PageClaimError, match=r"claims \d+ bytes where there are \d+$"):
                require_pages(source, PageWalk(start, end - 1, num_values))
            with pytest.raises(PageClaimError, match="there is no page at"):
                require_pages(source, PageWalk(start + 1, end, num_values))
            require_pages(source, PageWalk(start, end + 100, num_values))  # after the last value nothing is a page


@pytest.mark.ci
@pytest.mark.parametrize("step", [1, 7, 100, 4096, MIB, 1 << 26])
def test_as_they_come_by(step: int, path: Path) -> None:
    def read(start: int, end: int, num_values: int, upto: int) -> None:
        with storage.open_source(path) as source:
            pages = RangeFile(source.size, source.read_at, PageWalk(start, min(end, source.size), num_values))
            pages.seek(start)
            while pages.tell() < upto:
                assert pages.read(min(step, upto - pages.tell()))

    for start, end, num_values in spans(path):
        upto = start + min(end - start, max(step * 1000, 10_000))
        if step < 100:
            upto = min(upto, start + 1000 * step)
        read(start, end, num_values, upto)
        if upto == end:
            with pytest.raises(PageClaimError, match="claims"):
                read(start, end - 1, num_values, end - 1)
        with pytest.raises(PageClaimError, match=r"there is no page at|claims"):
            read(start + 1, start + 1 + 20_000, num_values, start + 20_001)


def test_pages_that_are_passed_over(path: Path) -> None:
    (start, end, num_values), *_ = spans(path)
    with storage.open_source(path) as source:
        pages = RangeFile(source.size, source.read_at, PageWalk(start, end, num_values))
        pages.seek(start + 10)
        with pytest.raises(PageClaimError, match="not read in order"):
            pages.read(10)


def test_filters_are_the_same_however_a_chunk_is_read(path: Path, tmp_path: Path) -> None:
    """Of a local file in windows of 256 KiB, of another one in such as hold whole chunks."""
    columns, written = ["k", "few", "long", "list.list.element"], []
    for filesystem in (None, SubTreeFileSystem("/", LocalFileSystem())):
        target = tmp_path / f"{len(written)}.parquet"
        parquet_bloom.embed(str(path), columns, output=str(target), filesystem=filesystem)
        written.append(target.read_bytes())
    assert written[0] == written[1]


def test_nothing_after_the_last_page_is_read(tmp_path: Path) -> None:
    """A footer that counts a value too many: pyarrow reads such a file."""
    path = tmp_path / "a.parquet"
    lists = pa.array([[number, number] for number in range(200_000)])
    pq.write_table(pa.table({"a": lists, "b": lists}), path, compression="none", use_dictionary=False)
    data = path.read_bytes()
    fields = varint(400_000 << 1)
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert footer.count(fields) >= 2
    path.write_bytes(data.replace(footer, footer.replace(fields, varint(400_001 << 1))))
    assert pq.ParquetFile(path, buffer_size=1 << 17).read().num_rows == 200_000
    assert parquet_bloom.embed(path, ["a.list.element", "b.list.element"]).num_filters == 2
