"""Page indexes: found once a file, confirmed by the pages, paid for where a request costs, and given up with a word."""

import logging
import random

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from support.by_pages import read_by_pages
from support.servers.counted import CountedFileSystem
from support.writers.page_indexes import COLUMN_INDEX, encode_bounds, encode_locations, locations, with_index

import parquet_bloom
from parquet_bloom.file import metadata_cache
from parquet_bloom.file.metadata_cache import MetadataCache
from parquet_bloom.file.pages.page_lookup import PAGE_COSTS, PageLookup

ROWS = 2000


@pytest.fixture(autouse=True)
def by_pages(monkeypatch):
    """However small the column chunk."""
    monkeypatch.setitem(vars(PAGE_COSTS), "small_bytes", 0)
    monkeypatch.setattr(metadata_cache, "SETTLED_NS", -(1 << 62))  # however new the file


def make_table(nulls=False):
    """a: ascending; b: not; t: texts too long for whole bounds, ascending."""
    numbers = list(range(ROWS))
    if nulls:
        numbers[600:900] = [None] * 300
    texts = [f"{'x' * 80}{i // 100:05}{'y' * (i % 7)}" for i in range(ROWS)]
    return pa.table({"a": pa.array(numbers, pa.int64()), "b": [i * 7919 % ROWS for i in range(ROWS)], "t": texts})


def write(path, table, **options):
    queried = {"write_page_index": True, "data_page_size": 700, "write_batch_size": 50, "use_dictionary": False}
    pq.write_table(table, path, row_group_size=len(table), **queried | {"compression": "none"} | options)
    return path


def test_confirmed_pages_are_not_read_again(tmp_path, monkeypatch) -> None:
    path = write(tmp_path / "a.parquet", make_table())
    schema, files = pq.ParquetFile(path).schema_arrow, remote(path, monkeypatch, 0)
    monkeypatch.setitem(vars(PAGE_COSTS), "most_share", 10.0)
    taken = []
    with parquet_bloom.open("a.parquet", files) as file:
        small = file.cached.num_bytes
        for _ in range(2):
            before = len(files.ranges_read)
            assert read_by_pages(file, schema, ["a"], [1500])["a"].to_pylist() == [1500]
            taken.append(sum(end - start for start, end in files.ranges_read[before:]))
        cached = file.cached.pages[0, 0]
        (size,) = {size for _, size, _ in locations(path)[1:-1]}
        assert taken[1] == size
        assert taken[0] > 10 * size
        assert 0 < cached.confirmed < cached.index.num_pages
        middle = file.cached.num_bytes
        PageLookup(file, 0).find_bounds([file.leaf("a")])
        assert cached.is_confirmed
        assert small < middle < file.cached.num_bytes  # the bounds count


def test_a_cache_that_is_full_forgets(tmp_path) -> None:
    path = write(tmp_path / "a.parquet", make_table())
    with parquet_bloom.open(path) as file:
        cache = MetadataCache(file.cached.num_bytes + 100)
    for _ in range(2):
        with parquet_bloom.open(path, cache=cache) as file:
            PageLookup(file, 0).find_bounds([file.leaf("a")])
        assert len(cache) == 0
        assert cache.num_bytes == 0


def test_a_rewritten_file_is_another_one(tmp_path) -> None:
    table, path = make_table(), tmp_path / "a.parquet"
    for shift in (0, 1):
        shifted = pa.table({"a": [(i + 700 * shift) % ROWS for i in range(ROWS)]})
        write(path, shifted)
        result = parquet_bloom.read_table(path, "a = 700")
        assert result.num_rows == 1
        assert parquet_bloom.dataset(path).scan("a = 700").row_ranges()[str(path)][0][0][0] in (
            (0,) if shift else range(1, 701)
        )
    assert table.num_rows == ROWS


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


LIES = {
    "first row": lambda p: [(o, s, r + (r > 0)) for o, s, r in p],
    "size": lambda p: [*p[:-1], (p[-1][0], p[-1][1] - 1, p[-1][2])],
    "no page": lambda p: [],
}


@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_is_not_used_is_named(tmp_path, caplog, lie) -> None:
    table = make_table()
    path = write(tmp_path / "a.parquet", table)
    assert parquet_bloom.read_table(path, "a = 1700").equals(table.slice(1700, 1))
    assert not warnings_of(caplog)
    path = with_index(path, encode_locations(LIES[lie](locations(path))))
    for _ in range(2):
        assert parquet_bloom.read_table(path, "a = 1700").equals(table.slice(1700, 1))
        assert parquet_bloom.dataset(path).scan("a = 1700").row_ranges() == {str(path): {0: [(0, ROWS)]}}
    (message,) = warnings_of(caplog)  # once a file, as long as it is known
    assert message.startswith(f"{path}: row group 0, column 'a': the page index is not used: ")


def bounds_of(values, path, column="a"):
    """A valid index: null pages, bounds, null counts."""
    rows = [row for _, _, row in locations(path, column)]
    results = []
    for start, stop in zip(rows, [*rows[1:], len(values)], strict=True):
        there = [value for value in values[start:stop] if value is not None]
        encoded = [value.to_bytes(8, "little") for value in (min(there, default=0), max(there, default=0))]
        results.append((not there, *encoded, stop - start - len(there)))
    return [list(part) for part in zip(*results, strict=True)]


def all_null(bounds, page, rows):
    null_pages, low, high, counts = bounds
    null_pages[page], counts[page] = True, rows
    return null_pages, low, high, counts


NO_BOUND = (0).to_bytes(8, "little")
FALSE_BOUNDS = {
    "a page is called null": lambda b, n: all_null(b, 5, n),
    "a page is called null, nulls not counted": lambda b, n: (*all_null(b, 5, n)[:3], None),
    "nulls moved to another page": lambda b, n: (b[0], b[1], b[2], [b[3][-1], *b[3][:-1]]),
    "too few nulls": lambda b, n: (*b[:3], [0] * len(b[3])),
    "a largest value that is none": lambda b, n: (b[0], b[1], [*b[2][:-1], NO_BOUND], b[3]),
    "all bounds alike": lambda b, n: (b[0], [b[1][1]] * len(b[1]), [b[1][1]] * len(b[1]), b[3]),
    "bounds the wrong way round": lambda b, n: (b[0], b[2], b[1], b[3]),
    "bounds of no bytes": lambda b, n: (b[0], [b""] * len(b[1]), [b""] * len(b[1]), b[3]),
    "a page too few": lambda b, n: tuple(part[:-1] for part in b),
}


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("lie", FALSE_BOUNDS)
def test_bounds_that_contradict_the_column_chunk(tmp_path, lie, order) -> None:
    table = make_table(nulls=True)
    path = write(tmp_path / "a.parquet", table)
    values, result = table["a"].to_pylist(), locations(path)
    bounds = bounds_of(values, path)
    with_index(path, encode_bounds(*bounds, order=order), kind=COLUMN_INDEX)
    (ranges,) = parquet_bloom.dataset(path).scan("a = 1700").row_ranges()[str(path)].values()
    believed = sum(stop - start for start, stop in ranges) < ROWS / 10
    assert believed == (order != 2)  # the true one, unless it is said to be in an order that it is not in
    with_index(
        path, encode_bounds(*FALSE_BOUNDS[lie](bounds, result[6][2] - result[5][2]), order=order), kind=COLUMN_INDEX
    )
    for row in (0, result[5][2], result[6][2] - 1, 1700, ROWS - 1):
        assert parquet_bloom.read_table(path, [("a", "=", row)]).equals(table.slice(row, 1))
        if values[row] is not None:  # whose pages are read however small the chunk is
            (ranges,) = parquet_bloom.dataset(path).scan(f"a = {row}").row_ranges()[str(path)].values()
            assert any(start <= row < stop for start, stop in ranges)
    for where in ("a IS NULL", "a IS NOT NULL"):
        rows = [row for row, value in enumerate(values) if (value is None) == (where == "a IS NULL")]
        assert parquet_bloom.read_table(path, where)["b"].to_pylist() == table["b"].take(rows).to_pylist()


def test_bounds_that_are_cut_short(tmp_path) -> None:
    table = make_table()
    path = write(tmp_path / "a.parquet", table)
    rows = [row for _, _, row in locations(path, "t")]
    texts = table["t"].to_pylist()
    # Nothing but their first 82 bytes, the upper one the next above: no text of the file is equal to one.
    low = [texts[row][:82].encode() for row in rows]
    high = [texts[row - 1][:82].encode() + b"\xff" for row in [*rows[1:], ROWS]]
    with_index(path, encode_bounds([False] * len(rows), low, high, [0] * len(rows)), "t", kind=COLUMN_INDEX)
    for row in (0, 99, 100, 1234, ROWS - 1):
        expected = [i for i, text in enumerate(texts) if text == texts[row]]
        assert parquet_bloom.read_table(path, [("t", "=", texts[row])])["a"].to_pylist() == expected


def test_null_counts_rule_pages_out(tmp_path) -> None:
    table = make_table(nulls=True)
    path = write(tmp_path / "a.parquet", table, max_rows_per_page=100)
    name = str(path)
    assert parquet_bloom.dataset(path).scan("a IS NULL").row_ranges()[name] == {0: [(600, 900)]}
    assert parquet_bloom.dataset(path).scan("a IS NOT NULL").row_ranges()[name] == {0: [(0, 600), (900, ROWS)]}
    assert parquet_bloom.dataset(path).scan("a IS NULL OR a = 1234").row_ranges()[name] == {
        0: [(600, 900), (1200, 1300)]
    }
    assert parquet_bloom.dataset(path).scan("a = 1 AND a = 1999").row_ranges()[name] == {0: []}
    assert parquet_bloom.dataset(path).scan("b < 1900").row_ranges()[name] == {0: [(0, ROWS)]}
    assert parquet_bloom.dataset(path).scan("a = -1").row_ranges() == {}
    assert parquet_bloom.read_table(path, "a = 1 AND a = 1999").num_rows == 0
    assert parquet_bloom.read_table(path, "a IS NULL OR a = 1234")["b"].equals(
        pa.chunked_array([table["b"].take([*range(600, 900), 1234]).combine_chunks()])
    )


# ------------------------------------------------------------------------------------------------- remote files


def remote(path, monkeypatch, request_bytes):
    monkeypatch.setitem(vars(PAGE_COSTS), "request_bytes", request_bytes)
    return CountedFileSystem({"a.parquet": path.read_bytes()})


def test_remote_files_by_pages_where_requests_are_worth_it(tmp_path, monkeypatch) -> None:
    rng = random.Random(1)
    count = 20_000
    table = pa.table({"a": range(count), "t": [rng.randbytes(100) for _ in range(count)]})
    path = write(tmp_path / "a.parquet", table, data_page_size=200_000)
    assert path.stat().st_size > 2_000_000
    taken = {}
    for request_bytes in (1000, PAGE_COSTS.request_bytes):
        files = remote(path, monkeypatch, request_bytes)
        with parquet_bloom.open("a.parquet", files) as file:
            before = len(files.ranges_read)
            schema = pq.ParquetFile(path).schema_arrow
            pages = read_by_pages(file, schema, ["t"], [4567])
            taken[request_bytes] = len(files.ranges_read) - before, file.source.bytes_read
        assert pages.keys() == ({"t"} if request_bytes == 1000 else set())
        if pages:
            assert pages["t"].to_pylist() == [table["t"][4567].as_py()]
        where = [("a", "=", 4567)]
        assert parquet_bloom.read_table("a.parquet", where, filesystem=files).equals(table.slice(4567, 1))
    (few, few_bytes), (none, _) = taken.values()
    # The index; the page, and the heads of those in front of it.
    assert 0 < few <= 2 + 4567 * 104 // 200_000 + 1
    assert few_bytes < path.stat().st_size / 3
    assert none == 0


@pytest.mark.parametrize("lie", LIES)
def test_remote_indexes_are_believed_no_more_than_local_ones(tmp_path, monkeypatch, lie, caplog) -> None:
    monkeypatch.setitem(vars(PAGE_COSTS), "most_share", 10.0)
    table = make_table()
    path = write(tmp_path / "a.parquet", table)
    with_index(path, encode_locations(LIES[lie](locations(path))))
    files = remote(path, monkeypatch, 0)
    for row in (0, 5, 1000, ROWS - 1):
        result = parquet_bloom.read_table("a.parquet", [("b", "=", row * 7919 % ROWS)], filesystem=files)
        assert result.equals(table.slice(row, 1))
    assert warnings_of(caplog)


def test_other_file_systems(tmp_path) -> None:
    table = make_table()
    write(tmp_path / "a.parquet", table)
    files = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    assert parquet_bloom.read_table("a.parquet", "a = 1700", filesystem=files).equals(table.slice(1700, 1))
    assert parquet_bloom.dataset("a.parquet", filesystem=files).scan("a = 1700").row_ranges() == {
        "a.parquet": {0: [(0, ROWS)]}
    }
