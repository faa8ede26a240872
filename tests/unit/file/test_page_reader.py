"""Pages read one by one hold what the whole row group holds, and what cannot be had so is read whole."""

import random
import struct
from datetime import date

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from support.by_pages import read_by_pages, search_by_pages
from support.servers.counted import CountedFileSystem
from support.writers import peers, surgery
from support.writers.page_indexes import encode_locations, locations, with_index
from support.writers.peers import VALUES

import parquet_bloom
from parquet_bloom.file.pages.page_lookup import PAGE_COSTS, PageLookup
from parquet_bloom.file.pages.row_group_batch import PageFetcher
from parquet_bloom.metadata.footer import Footer
from parquet_bloom.metadata.page_index import MAX_INDEX_BYTES
from parquet_bloom.util.arrow_values import take_rows

NESTED = ["st", "li", "ma", "ls"]
FLAT = [name for name in VALUES if name not in NESTED]
ROWS = 1000
PLACE = {"is local": True}


@pytest.fixture(autouse=True, params=[True, False], ids=["local", "remote"])
def by_pages(monkeypatch, request):
    """However small the column chunk, and however much of it is wanted; of local files, and of those in a store."""
    monkeypatch.setitem(vars(PAGE_COSTS), "small_bytes", 0)
    monkeypatch.setitem(vars(PAGE_COSTS), "most_share", 10.0)
    monkeypatch.setitem(vars(PAGE_COSTS), "request_bytes", 0)
    monkeypatch.setitem(PLACE, "is local", request.param)


def write(path, table, **options):
    queried = {"write_page_index": True, "data_page_size": 300, "write_batch_size": 40, "row_group_size": len(table)}
    pq.write_table(table, path, **queried | options)
    return path


def make_table(names, rng=None, rows=ROWS):
    """Runs of nulls, of one value, and of many."""
    rng = rng or random.Random(1)
    columns = {"row": pa.array(range(rows), pa.int32())}
    for name in names:
        pool = VALUES[name].always + [VALUES[name].draw(rng) for _ in range(300)]
        values = [rng.choice(pool) for _ in range(rows)]
        values[200:400] = [None] * 200
        values[500:600] = [pool[0]] * 100
        columns[name] = peers.arrow_array(values, VALUES[name].arrow)
    return pa.table(columns)


def by_page(path, names, rows, row_group=0):
    schema, files = pq.ParquetFile(path).schema_arrow, None
    if not PLACE["is local"]:
        files = CountedFileSystem({"a.parquet": path.read_bytes()})
    with parquet_bloom.open(path if files is None else "a.parquet", files) as file:
        return read_by_pages(file, schema, names, rows, row_group)


def same_values(left, right):
    """Equality under which NaN is NaN, and a dictionary's entries may stand in any order."""
    return repr(left.to_pylist()) == repr(right.to_pylist()) and left.type == right.type


CHOICES = [[0], [ROWS - 1], [250], list(range(390, 410)), [0, 7, 333, 334, 599, 998, 999], list(range(ROWS))]


@pytest.mark.parametrize(
    ("version", "dictionary", "compression", "store_schema"),
    [
        ("1.0", True, "none", True),
        ("1.0", False, "snappy", True),
        ("2.0", True, "zstd", True),
        ("2.0", False, "gzip", False),
        ("1.0", True, "lz4", False),
        ("2.0", True, "brotli", True),
    ],
)
def test_all_flat_types(tmp_path, version, dictionary, compression, store_schema) -> None:
    path = write(
        tmp_path / "a.parquet",
        make_table(FLAT),
        data_page_version=version,
        use_dictionary=dictionary,
        compression=compression,
        store_schema=store_schema,
        dictionary_pagesize_limit=600,  # some give theirs up on the way
    )
    full_table = pq.ParquetFile(path).read_row_group(0)
    for rows in CHOICES:
        page_values = by_page(path, full_table.schema.names, rows)
        assert set(page_values) == set(full_table.schema.names)
        for name, column in page_values.items():
            expected = take_rows(full_table.column(name), np.array(rows))
            assert same_values(column, expected), name


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["snappy", "zstd"])
def test_other_encodings(tmp_path, version, compression) -> None:
    names = ["i32", "i64", "f64", "str", "bin"]
    encodings = {
        "row": "DELTA_BINARY_PACKED",
        "i32": "BYTE_STREAM_SPLIT",
        "i64": "DELTA_BINARY_PACKED",
        "f64": "BYTE_STREAM_SPLIT",
        "str": "DELTA_BYTE_ARRAY",
        "bin": "DELTA_LENGTH_BYTE_ARRAY",
    }
    options = {"use_dictionary": False, "column_encoding": encodings, "data_page_version": version}
    path = write(tmp_path / "a.parquet", make_table(names), compression=compression, **options)
    full_table = pq.ParquetFile(path).read_row_group(0)
    for rows in CHOICES:
        page_values = by_page(path, full_table.schema.names, rows)
        assert set(page_values) == set(full_table.schema.names)
        for name, column in page_values.items():
            assert same_values(column, take_rows(full_table.column(name), np.array(rows))), name


def test_rows_are_taken_out_of_their_pages(tmp_path) -> None:
    count = 10_000
    rng = random.Random(4)
    # Long ones first: a share of a page's rows is not the same share of its bytes.
    texts = [None if i % 11 == 0 else f"{rng.getrandbits(3000 if i % 100 < 10 else 50):x}" for i in range(count)]
    few = [None if 3000 < i < 9000 else f"v{i % 40}" for i in range(count)]
    prices = pa.array([None if i % 7 == 0 else i for i in range(count)]).cast(pa.decimal128(30, 2))
    table = pa.table({"n": range(count), "text": texts, "few": few, "price": prices})
    for compression in ("none", "snappy", "zstd"):
        options = {
            "max_rows_per_page": 100,
            "data_page_size": 1 << 20,
            "compression": compression,
            "use_dictionary": ["few"],
        }
        path = write(tmp_path / f"{compression}.parquet", table, **options)
        for rows in ([0], [count - 1], [2999, 3001, 8999, 9001], [4011], sorted(rng.sample(range(count), 60))):
            page_values = by_page(path, table.schema.names, rows)
            assert {name: column.to_pylist() for name, column in page_values.items()} == table.take(rows).to_pydict()


@pytest.mark.parametrize("int96", [False, True])
def test_annotated_and_renamed_columns(tmp_path, int96) -> None:
    fields = [
        pa.field("a.b", pa.timestamp("us", "Europe/Paris"), metadata={"unit": "x"}),
        pa.field("ключ", pa.dictionary(pa.int8(), pa.large_string()), nullable=True),
        pa.field("not null", pa.int64(), nullable=False),
        pa.field("duration", pa.duration("s")),
    ]
    count = 500
    arrays = [
        pa.array(range(count), fields[0].type),
        pa.array([f"v{i % 7}" for i in range(count)], pa.large_string()).dictionary_encode().cast(fields[1].type),
        pa.array(range(count), pa.int64()),
        pa.array(range(count), fields[3].type),
    ]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    path = write(tmp_path / "a.parquet", table, use_deprecated_int96_timestamps=int96)
    full_table = pq.ParquetFile(path).read_row_group(0)
    page_values = by_page(path, full_table.schema.names, [3, 300, 301])
    assert set(page_values) == {"a.b", "not null", "duration"}  # a dictionary's numbers of 8 bits may not suffice
    assert all(same_values(column, full_table.column(name).take([3, 300, 301])) for name, column in page_values.items())
    result = parquet_bloom.read_table(path, [("not null", "in", [3, 300])])
    assert result.schema.equals(full_table.schema, check_metadata=True)
    assert same_values_of(result, full_table.take([3, 300]))  # the dictionary may have these entries alone


def test_only_the_needed_pages_are_read(tmp_path) -> None:
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
        assert parquet_bloom.read_table("a.parquet", where, filesystem=files).equals(table.slice(12_345, 1))
        assert sum(end - start for start, end in files.ranges_read) < 0.3 * path.stat().st_size


def test_most_of_a_chunk_and_small_ones_are_read_whole(tmp_path, monkeypatch) -> None:
    table = pa.table({"a": range(ROWS)})
    path = write(tmp_path / "a.parquet", table, use_dictionary=False)
    monkeypatch.setitem(vars(PAGE_COSTS), "most_share", 0.5)
    assert set(by_page(path, ["a"], range(300))) == {"a"}
    assert (by_page(path, ["a"], range(700)) == {}) != PLACE["is local"]
    monkeypatch.setitem(vars(PAGE_COSTS), "small_bytes", 1 << 20)
    assert (by_page(path, ["a"], range(300)) == {}) != PLACE["is local"]  # there a small read is no request


def test_nested_columns_are_read_in_full(tmp_path) -> None:
    path = write(tmp_path / "a.parquet", make_table([*NESTED, "i64", "str"]))
    assert set(by_page(path, ["row", *NESTED, "i64", "nowhere"], [5])) == {"row", "i64"}
    full_table = pq.ParquetFile(path).read_row_group(0)
    result = parquet_bloom.read_table(path, [("row", "in", [3, 250, 251, 999])])
    assert result.schema.equals(full_table.schema, check_metadata=True)
    assert same_values_of(result, full_table.take([3, 250, 251, 999]))
    for columns in (["st.a", "str"], ["str", "row", "st"], ["ls", "st.b"]):
        result = parquet_bloom.read_table(path, [("row", "in", [3, 250])], columns=columns)
        expected = pq.ParquetFile(path).read_row_group(0, columns).take([3, 250])
        assert result.schema.equals(expected.schema, check_metadata=True)
        assert same_values_of(result, expected)


def same_values_of(left, right):
    return all(same_values(a, b) for a, b in zip(left.columns, right.columns, strict=True))


def test_pages_that_statistics_rule_out(tmp_path) -> None:
    rng = random.Random(3)
    names = ["i64", "u64", "f64", "str", "d38", "date", "ts_us", "bin", "bool", "uuid", "f16", "d9", "nothing", "st"]
    table = make_table(names, rng)
    # Sorted, so that pages differ; with nulls at the end
    for name in ("i64", "str", "f64"):
        values = sorted(v for v in table[name].to_pylist() if v is not None and v == v)
        values += [None] * (ROWS - len(values))
        table = table.set_column(table.schema.names.index(name), name, pa.array(values, table[name].type))
    path = write(tmp_path / "a.parquet", table)
    plain = pq.write_table(table, tmp_path / "plain.parquet", row_group_size=ROWS) or tmp_path / "plain.parquet"
    for _ in range(150):
        terms = []
        for _ in range(rng.randint(1, 2)):
            term = []
            for _ in range(rng.randint(1, 2)):
                name = rng.choice(["row", *names[:-1]])
                values = [rng.choice(table[name].to_pylist()) for _ in range(rng.choice([1, 1, 5]))]
                term.append((name, "in", values))
            terms.append(term)
        result, expected = (parquet_bloom.read_table(each, terms)["row"].to_pylist() for each in (path, plain))
        assert result == expected, terms


def test_datafusion_files(tmp_path) -> None:
    path = tmp_path / "a.parquet"
    table = make_table(["i64", "f64", "str", "bin", "d38", "date", "ts_us", "u8", "bool"])
    options = datafusion.ParquetWriterOptions(
        data_page_row_count_limit=100, write_batch_size=50, statistics_enabled="page"
    )
    datafusion.SessionContext().from_arrow(table).write_parquet_with_options(str(path), options)
    full_table = pq.ParquetFile(path).read_row_group(0)
    for rows in CHOICES:
        page_values = by_page(path, full_table.schema.names, rows)
        assert set(page_values) == set(full_table.schema.names)
        assert all(same_values(column, full_table.column(name).take(rows)) for name, column in page_values.items())


def test_several_row_groups_and_embedded_filters(tmp_path) -> None:
    table = make_table(["i64", "str"], rows=3000)
    path = write(tmp_path / "a.parquet", table, row_group_size=700)
    parquet_bloom.embed(path, ["i64", "str", "row"])
    rows = [0, 699, 700, 1401, 2999]
    assert by_page(path, ["row"], [1, 2], 4)["row"].to_pylist() == [2801, 2802]
    assert parquet_bloom.read_table(path, [("row", "in", rows)])["row"].to_pylist() == rows


def test_signed_and_encrypted_files_are_read_whole(tmp_path) -> None:
    path = surgery.encrypted(tmp_path / "a.parquet", make_table(["i64"]), plaintext_footer=True, columns=("i64",))
    with parquet_bloom.open(path) as file:
        schema = pa.schema([("row", pa.int32()), ("i64", pa.int64())])
        assert read_by_pages(file, schema, ["row", "i64"], [5]) == {}
        (parsed,) = Footer.parse_many([file.footer.data], [file.footer.start])
        assert parsed is not None
        assert file.footer.encrypted
        assert parsed.encrypted


# ------------------------------------------------------------------------------------------------- indexes that lie


def swapped(result):
    i = next(i for i in range(len(result) - 1) if result[i][1] != result[i + 1][1])
    (o1, s1, r1), (_, s2, r2) = result[i : i + 2]
    return [*result[:i], (o1, s2, r1), (o1 + s2, s1, r2), *result[i + 2 :]]


LIES = {
    "first rows moved": lambda p: [(o, s, r + (0 < r < 500)) for o, s, r in p],
    "first rows moved by a page": lambda p: [(o, s, p[max(i - 1, 0)][2] + (i == 1)) for i, (o, s, r) in enumerate(p)],
    "sizes swapped": swapped,
    "two pages joined": lambda p: [p[0], (p[1][0], p[1][1] + p[2][1], p[1][2]), *p[3:]],
    "the last page left out": lambda p: p[:-1],
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


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_lies_changes_nothing(tmp_path, lie, dictionary) -> None:
    table = pa.table({"a": range(ROWS), "b": [i * 3 for i in range(ROWS)]})
    path = write(tmp_path / "a.parquet", table, use_dictionary=dictionary)
    page_values = locations(path)
    assert len(page_values) > 5
    assert set(by_page(path, ["a", "b"], [ROWS // 2])) == {"a", "b"}
    lying = locations(path, "b") if lie == "other column's" else LIES[lie](page_values)
    assert lying != page_values
    with_index(path, encode_locations(lying))
    for row in (0, 1, page_values[1][2], page_values[2][2] + 1, 500, ROWS - 1):
        got = by_page(path, ["a"], [row])
        assert not got or got["a"].to_pylist() == [row]
        assert parquet_bloom.read_table(path, [("b", "=", 3 * row)]).equals(table.slice(row, 1))
        assert parquet_bloom.read_table(path, [("a", "=", row)]).equals(table.slice(row, 1))


@pytest.mark.ci
def test_indexes_of_random_bytes_and_offsets(tmp_path) -> None:
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
        assert parquet_bloom.read_table(path, [("b", "=", 3 * row)]).equals(table.slice(row, 1))


def test_a_broken_page_is_a_named_error(tmp_path) -> None:
    table = pa.table({"a": range(ROWS), "b": [f"{i:050}" for i in range(ROWS)]})
    path = write(tmp_path / "a.parquet", table, use_dictionary=False, compression="zstd")
    offset, size, row = locations(path, "b")[3]
    data = bytearray(path.read_bytes())
    data[offset + size // 2 : offset + size] = bytes(size - size // 2)
    path.write_bytes(data)
    with pytest.raises(parquet_bloom.errors.UnreadableColumnError):
        parquet_bloom.read_table(path, [("a", "=", row)])
    assert by_page(path, ["b"], [row - 1])  # the others can still be read


def test_adjacent_pages_are_one_request(tmp_path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"a": range(ROWS)}), use_dictionary=False)
    pages = locations(path)
    files = CountedFileSystem({"a.parquet": path.read_bytes()})
    with parquet_bloom.open("a.parquet", files) as file:
        leaf = file.leaf("a")
        PageLookup(file, 0).confirm(PageLookup(file, 0).find([leaf]))
        fetcher = PageFetcher(file, [0])
        ranges = np.array(
            [[pages[1][2], pages[1][2] + 1], [pages[2][2], pages[2][2] + 1], [pages[5][2], pages[5][2] + 1]]
        )
        assert fetcher.fetch([leaf], [ranges]) == {leaf.index}
        (plan,), _ = fetcher._plan([leaf], [ranges])
    assert plan.spans() == [(pages[1][0], pages[1][1] + pages[2][1]), pages[5][:2]]
    assert plan.unread.tolist() == []


def test_files_that_are_not_local(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(vars(PAGE_COSTS), "request_bytes", 1 << 20)
    table = pa.table({"a": range(ROWS), "b": [i * 3 for i in range(ROWS)]})
    write(tmp_path / "a.parquet", table)
    files = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    with parquet_bloom.open("a.parquet", files) as file:
        schema = pq.ParquetFile(tmp_path / "a.parquet").schema_arrow
        # Each page's header would need a request: nothing is read by pages.
        assert read_by_pages(file, schema, ["a", "b"], [7, 555]) == {}
    assert parquet_bloom.read_table("a.parquet", "b = 1665", filesystem=files).equals(table.slice(555, 1))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_rows_of_a_value_by_their_bytes(tmp_path, version, dictionary) -> None:
    count = 3000
    rng = random.Random(5)
    columns = {
        "i32": pa.array([None if i % 5 == 0 else i % 300 - 150 for i in range(count)], pa.int32()),
        "u64": pa.array([(1 << 64) - 1 - i % 299 for i in range(count)], pa.uint64()),
        "text": pa.array([None if i % 11 == 0 else rng.choice(["", "a", "ab", "é" * 40]) for i in range(count)]),
        "bin": pa.array([bytes([i % 7]) * (i % 4) for i in range(count)]),
        "fixed": pa.array([bytes([i % 9]) * 16 for i in range(count)], pa.binary(16)),
        "day": pa.array([i % 99 for i in range(count)], pa.date32()),
        "price": pa.array(range(count)).cast(pa.decimal128(30, 0)),
    }
    table = pa.table(columns)
    path = write(
        tmp_path / "a.parquet", table, max_rows_per_page=200, use_dictionary=dictionary, data_page_version=version
    )
    stored = {"i32": lambda v: struct.pack("<i", v), "u64": lambda v: struct.pack("<Q", v), "text": str.encode}
    stored |= {"bin": bytes, "fixed": bytes, "day": lambda v: struct.pack("<i", (v - date(1970, 1, 1)).days)}
    with parquet_bloom.open(path) as file:
        schema = pq.ParquetFile(path).schema_arrow
        for name, form in stored.items():
            for rows in (range(390, 640), range(7), [0, 7, 333, 334, 599, 998, 999, 2999]):
                values = table.column(name).take(list(rows)).to_pylist()
                requested = [value for value in rng.sample(values, min(3, len(values))) if value is not None]
                found, array = search_by_pages(file, schema, name, rows, [*map(form, requested), b"of another length"])
                expected = [(row, value) for row, value in zip(rows, values, strict=True) if value in requested]
                assert list(zip(found, array.to_pylist(), strict=True)) == expected
                assert array.type == table.schema.field(name).type
            nothing, array = search_by_pages(file, schema, name, range(390, 640), [])
            assert (len(nothing), len(array)) == (0, 0)
