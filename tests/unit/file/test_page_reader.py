"""Pages read one by one hold what the whole row group holds, and what cannot be had so is read whole."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from support.by_pages import read_by_pages
from support.scans import ALL_PAGES, BY_PAGES, scan
from support.servers.counted import CountedFileSystem
from support.writers import surgery
from support.writers.page_indexes import encode_locations, locations, with_index

import parquet_bloom
from parquet_bloom.file.pages.page_columns import find_page_columns
from parquet_bloom.file.pages.page_lookup import PAGE_COSTS, PageCosts, PageLookup
from parquet_bloom.file.pages.row_group_batch import PageFetcher, RowGroupBatch, RowGroups, RowsOfGroups
from parquet_bloom.metadata.footer import Footer
from parquet_bloom.metadata.page_index import MAX_INDEX_BYTES
from parquet_bloom.scan.scan_options import Limits

ROWS = 1000


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    queried = {"write_page_index": True, "data_page_size": 300, "write_batch_size": 40, "row_group_size": len(table)}
    pq.write_table(table, path, **queried | options)
    return path


@pytest.fixture(params=["local", "remote"])
def by_page(request: pytest.FixtureRequest) -> Any:
    """Return what reads rows of a file by pages, however small its chunks are: of a local one, or of one in a store."""

    def read(path: Path, names: list[str], rows: Any, costs: PageCosts = ALL_PAGES) -> dict[str, pa.Array]:
        files = None if request.param == "local" else CountedFileSystem({"a.parquet": path.read_bytes()})
        with parquet_bloom.open("a.parquet" if files else path, files) as file:
            return read_by_pages(file, pq.ParquetFile(path).schema_arrow, names, rows, costs=costs)

    read.is_local = request.param == "local"
    return read


def test_annotated_and_renamed_columns(tmp_path: Path, by_page: Any) -> None:
    count, kinds = 500, [pa.timestamp("us", "Europe/Paris"), pa.int64(), pa.duration("s")]
    words = pa.array([f"v{i % 7}" for i in range(count)], pa.large_string()).dictionary_encode()
    kinds.append(pa.dictionary(pa.int8(), pa.large_string()))
    fields = [
        pa.field("a.b", kinds[0], metadata={"unit": "x"}),
        pa.field("not null", kinds[1], nullable=False),
        pa.field("duration", kinds[2]),
        pa.field("ключ", kinds[3]),
    ]
    arrays = [*(pa.array(range(count), kind) for kind in kinds[:3]), words.cast(kinds[3])]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    for int96 in (False, True):
        path = write(tmp_path / "a.parquet", table, use_deprecated_int96_timestamps=int96)
        every = pq.ParquetFile(path).read_row_group(0)
        found = by_page(path, every.schema.names, [3, 300, 301])
        assert set(found) == {"a.b", "not null", "duration"}  # a dictionary's numbers of 8 bits may not suffice
        expected = every.take([3, 300, 301])
        assert all(column.to_pylist() == expected[name].to_pylist() for name, column in found.items())
        assert all(column.type == expected[name].type for name, column in found.items())
        result = parquet_bloom.read_table(path, [("not null", "in", [3, 300])])
        assert result.schema.equals(every.schema, check_metadata=True)
        assert result.to_pylist() == every.take([3, 300]).to_pylist()
        for columns in (["duration"], ["ключ", "not null"]):
            result = parquet_bloom.read_table(path, [("not null", "in", [3, 300])], columns=columns)
            assert result.to_pylist() == every.select(columns).take([3, 300]).to_pylist()


def test_only_the_needed_pages_are_read(tmp_path: Path) -> None:
    count = 200_000  # smaller chunks are searched whole
    table = pa.table({"key": range(count), "text": [f"{i * 7919 % count:032}" for i in range(count)]})
    path = write(tmp_path / "a.parquet", table, use_dictionary=False, compression="none", data_page_size=50_000)
    with parquet_bloom.open(path) as file:
        before = file.source.bytes_read
        read_by_pages(file, pq.ParquetFile(path).schema_arrow, ["text"], [12_345])
        taken = file.source.bytes_read - before
    assert taken < 0.15 * path.stat().st_size
    for where in ("key = 12345", "key > 12344 AND key < 12346"):
        files = CountedFileSystem({"a.parquet": path.read_bytes()})
        found = scan("a.parquet", where, limits=BY_PAGES, filesystem=files).to_arrow()
        assert found.equals(table.slice(12_345, 1))
        assert sum(end - start for start, end in files.ranges_read) < 0.3 * path.stat().st_size


def test_most_of_a_chunk_and_small_ones_are_read_whole(tmp_path: Path, by_page: Any) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"a": range(ROWS)}), use_dictionary=False)
    half = PageCosts(small_bytes=0, most_share=0.5, request_bytes=0)
    assert set(by_page(path, ["a"], range(300), half)) == {"a"}
    assert (by_page(path, ["a"], range(700), half) == {}) != by_page.is_local
    small = PageCosts(small_bytes=1 << 20, most_share=0.5, request_bytes=0)
    assert (by_page(path, ["a"], range(300), small) == {}) != by_page.is_local  # there a small read is no request


def test_remote_pages_are_fetched_where_requests_are_worth_it(tmp_path: Path) -> None:
    rng = random.Random(1)
    count = 20_000
    table = pa.table({"a": range(count), "t": [rng.randbytes(100) for _ in range(count)]})
    options = {"use_dictionary": False, "compression": "none"}
    path = write(tmp_path / "a.parquet", table, data_page_size=200_000, **options)
    size, schema, selected = path.stat().st_size, pq.read_schema(path), table.slice(4567, 1)
    assert size > 2_000_000
    for costs, is_worth_it in ((PageCosts(request_bytes=1000), True), (PAGE_COSTS, False)):
        files = CountedFileSystem({"a.parquet": path.read_bytes()})
        with parquet_bloom.open("a.parquet", files) as file:
            before = len(files.ranges_read)
            pages = read_by_pages(file, schema, ["t"], [4567], costs=costs)
            ranges = len(files.ranges_read) - before
            assert {name: column.to_pylist() for name, column in pages.items()} == (
                {"t": selected["t"].to_pylist()} if is_worth_it else {}
            )
            # The index; the page, and the heads of those in front of it.
            assert (0 < ranges <= 2 + 4567 * 104 // 200_000 + 1) == is_worth_it
            assert not is_worth_it or file.source.bytes_read < size / 3
        limits = Limits(page_costs=costs)
        assert scan("a.parquet", "a = 4567", limits=limits, filesystem=files).to_arrow().equals(selected)
    below = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    with parquet_bloom.open("a.parquet", below) as file:  # each page's header would need a request
        assert read_by_pages(file, schema, ["a", "t"], [7, 555]) == {}
    assert parquet_bloom.read_table("a.parquet", "a = 4567", filesystem=below).equals(selected)


def test_confirmed_pages_are_not_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"a": range(2000)}), use_dictionary=False, compression="none")
    schema, files = pq.read_schema(path), CountedFileSystem({"a.parquet": path.read_bytes()})
    taken = []
    with parquet_bloom.open("a.parquet", files) as file:
        small = file.cached.num_bytes
        for _ in range(2):
            before = len(files.ranges_read)
            assert read_by_pages(file, schema, ["a"], [1500], costs=ALL_PAGES)["a"].to_pylist() == [1500]
            taken.append(sum(end - start for start, end in files.ranges_read[before:]))
        cached = file.cached.pages[0, 0]
        assert taken[1] == locations(path)[10][1]
        assert taken[0] > 10 * taken[1]
        assert 0 < cached.confirmed < cached.index.num_pages
        middle = file.cached.num_bytes
        PageLookup(file, 0, ALL_PAGES).find_bounds([file.leaf("a")])
        assert cached.is_confirmed
        assert small < middle < file.cached.num_bytes  # the bounds count


def test_adjacent_pages_are_one_request(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"a": range(ROWS)}), use_dictionary=False)
    pages = locations(path)
    files = CountedFileSystem({"a.parquet": path.read_bytes()})
    with parquet_bloom.open("a.parquet", files) as file:
        leaf, lookup = file.leaf("a"), PageLookup(file, 0, ALL_PAGES)
        lookup.confirm(lookup.find([leaf]))
        fetcher = PageFetcher(file, [0], ALL_PAGES)
        ranges = np.array([[pages[i][2], pages[i][2] + 1] for i in (1, 2, 5)])
        assert fetcher.fetch([leaf], [ranges]) == {leaf.index}
        (plan,), _ = fetcher._plan([leaf], [ranges])
    assert plan.spans() == [(pages[1][0], pages[1][1] + pages[2][1]), pages[5][:2]]
    assert plan.unread.tolist() == []


def test_signed_and_encrypted_files_are_read_whole(tmp_path: Path) -> None:
    table = pa.table({"row": range(ROWS), "i64": [i * 7 for i in range(ROWS)]})
    path = surgery.encrypted(tmp_path / "a.parquet", table, plaintext_footer=True, columns=("i64",))
    with parquet_bloom.open(path) as file:
        assert read_by_pages(file, table.schema, ["row", "i64"], [5], costs=ALL_PAGES) == {}
        (parsed,) = Footer.parse_many([file.footer.data], [file.footer.start])
        assert parsed is not None
        assert file.footer.encrypted
        assert parsed.encrypted


# ------------------------------------------------------------------------------------------------- indexes that lie


def swapped(result: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    i = next(i for i in range(len(result) - 1) if result[i][1] != result[i + 1][1])
    (o1, s1, r1), (_, s2, r2) = result[i : i + 2]
    return [*result[:i], (o1, s2, r1), (o1 + s2, s1, r2), *result[i + 2 :]]


LIES = {
    "first rows moved": lambda p: [(o, s, r + (0 < r < 500)) for o, s, r in p],
    "first rows moved by a page": lambda p: [(o, s, p[max(i - 1, 0)][2] + (i == 1)) for i, (o, s, r) in enumerate(p)],
    "sizes swapped": swapped,
    "two pages joined": lambda p: [p[0], (p[1][0], p[1][1] + p[2][1], p[1][2]), *p[3:]],
    "the last page left out": lambda p: p[:-1],
    "the last page too short": lambda p: [*p[:-1], (p[-1][0], p[-1][1] - 1, p[-1][2])],
    "the first page left out": lambda p: [(o, s, 0 if i == 0 else r) for i, (o, s, r) in enumerate(p[1:])],
    "a page cut in two": lambda p: [p[0], (p[1][0], 9, p[1][2]), (p[1][0] + 9, p[1][1] - 9, p[1][2] + 1), *p[2:]],
    "moved by a byte": lambda p: [(o + 1, s, r) for o, s, r in p],
    "moved behind the file": lambda p: [(o + (1 << 40), s, r) for o, s, r in p],
    "reaching behind the chunk": lambda p: [*p[:-1], (p[-1][0], p[-1][1] + 50, p[-1][2])],
    "one page": lambda p: [(p[0][0], sum(s for _, s, _ in p), 0)],
    "no page": lambda p: [],
    "other column's": lambda p: None,
    "another row a page": lambda p: [(o, s, i) for i, (o, s, _) in enumerate(p)],
}


@pytest.mark.ci
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_lies_changes_nothing(tmp_path: Path, by_page: Any, lie: str, dictionary: bool) -> None:
    table = pa.table({"a": range(ROWS), "b": [i * 3 for i in range(ROWS)]})
    path = write(tmp_path / "a.parquet", table, use_dictionary=dictionary)
    pages = locations(path)
    assert len(pages) > 5
    assert set(by_page(path, ["a", "b"], [ROWS // 2])) == {"a", "b"}
    lying = locations(path, "b") if lie == "other column's" else LIES[lie](pages)
    assert lying != pages
    with_index(path, encode_locations(lying))
    name, files = (
        (path, None) if by_page.is_local else ("a.parquet", CountedFileSystem({"a.parquet": path.read_bytes()}))
    )
    for row in (0, 1, pages[1][2], pages[2][2] + 1, 500, ROWS - 1):
        got = by_page(path, ["a"], [row])
        assert not got or got["a"].to_pylist() == [row]
        for where in (f"b = {3 * row}", f"a = {row}"):
            assert scan(name, where, limits=BY_PAGES, filesystem=files).to_arrow().equals(table.slice(row, 1))


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_remote_index_that_lies_costs_requests_and_no_row(dictionary: bool, tmp_path: Path) -> None:
    """Of pages before that of a row no more is fetched than their headers, which say that the index is wrong."""
    rng = np.random.default_rng(3)
    ids = rng.permutation(20_000)
    texts = pa.array([f"text number {number:020}" for number in ids], mask=rng.random(len(ids)) < 0.2)
    table = pa.table({"id": ids, "text": texts})
    options = {"use_dictionary": ["text"] if dictionary else False, "compression": "none"}
    path = write(tmp_path / "a.parquet", table, data_page_size=16_000, write_batch_size=500, **options)
    for column in ("text", "id"):
        lying = [(offset, size, row + (0 < row < 5000)) for offset, size, row in locations(path, column)]
        with_index(path, encode_locations(lying), column)
    costs = PageCosts(small_bytes=0, request_bytes=0)
    for rows in ([3000], [1], [19_999], [4000, 6000]):
        with parquet_bloom.open("a.parquet", CountedFileSystem({"a.parquet": path.read_bytes()})) as file:
            groups, columns = RowGroups([file.footer], [(0, 0)]), find_page_columns(file, table.schema)
            batch = RowGroupBatch.of_file(file, groups, columns, costs)
            selected = RowsOfGroups(np.array([len(rows)]), np.array(rows))
            for name in ("text", "id"):
                for array in batch.read([name], selected).values():
                    assert array.to_pylist() == table[name].take(rows).to_pylist()


@pytest.mark.ci
def test_indexes_of_random_bytes_and_offsets(tmp_path: Path) -> None:
    rng = random.Random(8)
    table = pa.table({"a": range(ROWS), "b": [i * 3 for i in range(ROWS)]})
    good = write(tmp_path / "good.parquet", table)
    original, encoded, path = good.read_bytes(), encode_locations(locations(good)), tmp_path / "a.parquet"
    for number in range(120):
        path.write_bytes(original)
        broken = bytearray(encoded)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        lengths = [None, 0, -1, 2**31 - 1, MAX_INDEX_BYTES + 1, rng.randrange(len(broken))]
        with_index(path, bytes(broken), length=None if number % 3 else rng.choice(lengths))
        row = rng.randrange(ROWS)
        assert scan(path, f"b = {3 * row}", limits=BY_PAGES).to_arrow().equals(table.slice(row, 1))


def test_a_broken_page_is_a_named_error(tmp_path: Path, by_page: Any) -> None:
    table = pa.table({"a": range(ROWS), "b": [f"{i:050}" for i in range(ROWS)]})
    path = write(tmp_path / "a.parquet", table, use_dictionary=False, compression="zstd")
    offset, size, row = locations(path, "b")[3]
    data = bytearray(path.read_bytes())
    data[offset + size // 2 : offset + size] = bytes(size - size // 2)
    path.write_bytes(data)
    with pytest.raises(parquet_bloom.errors.UnreadableColumnError):
        parquet_bloom.read_table(path, [("a", "=", row)])
    assert by_page(path, ["b"], [row - 1])  # the others can still be read
