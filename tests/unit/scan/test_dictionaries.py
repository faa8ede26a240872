"""Dictionaries as evidence: which are proven to be whole, when they are read, and what they decide."""

import contextlib
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import BINARY, I32, I64, LIST, SET, STRUCT, Encoded, Many, Struct
from support.scale import scaled
from support.servers.counted import CountedFileSystem
from support.writers.surgery import FILE_PATH, each_chunk, integer_annotation, relabel, rewrite_footer

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError, UnreadableColumnError
from parquet_bloom.file.column_statistics import file_statistics
from parquet_bloom.scan.row_reader import RowReader

TYPE, ENCODINGS, CODEC, SIZE, DATA_OFFSET, DICTIONARY_OFFSET, ENCODING_STATS = 1, 2, 4, 7, 9, 11, 13
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 0, 2, 3, 4, 7, 8


def write(path, table, **options):
    pq.write_table(table, path, row_group_size=1000, **options)
    return path


@pytest.fixture
def file(tmp_path):
    """k: even numbers, which leave no range a value out; wide: what makes row groups large beside dictionaries."""
    numbers = [number % 50 * 2 for number in range(3000)]
    return write(tmp_path / "a.parquet", pa.table({"k": numbers, "wide": [f"{number:050}" for number in range(3000)]}))


def page_statistics(*pages):
    """Statistics of pages as (kind, encoding, number); what is None is left out."""
    return Many(
        STRUCT,
        [Struct({i: (I32, one) for i, one in enumerate(numbers, 1) if one is not None}) for numbers in pages],
    )


def twice(number, type_name, value):
    """A field's value that is followed by the same field once more."""
    one = oracle.write_struct(Struct({number: (type_name, value)}, [number]))[:-1]  # in the long form, its id included
    return Encoded(one[2:] + one)


PROOFS = {
    "all data pages use the dictionary": (
        [PLAIN, RLE, RLE_DICTIONARY],
        [(DICTIONARY_PAGE, PLAIN, 1), (DATA_PAGE, RLE_DICTIONARY, 3)],
    ),
    "of both versions, whatever the encodings are": (
        [PLAIN, RLE],
        [(DATA_PAGE, PLAIN_DICTIONARY, 1), (DATA_PAGE_V2, RLE_DICTIONARY, 3)],
    ),
    "no pages of another encoding": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, PLAIN, 0)]),
    "encodings of version 1": ([PLAIN_DICTIONARY, RLE, BIT_PACKED], None),
}
DOUBTS = {
    "a plain page": ([PLAIN, RLE, RLE_DICTIONARY], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, PLAIN, 1)]),
    "a plain page of version 2": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE_V2, PLAIN, 1)]),
    "no data pages": ([RLE_DICTIONARY], [(DICTIONARY_PAGE, PLAIN, 1)]),
    "no data pages with the dictionary": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 0)]),
    "pages that are not what the encodings say": (
        [PLAIN_DICTIONARY, RLE],
        [(DATA_PAGE, PLAIN_DICTIONARY, 1), (DATA_PAGE, PLAIN, 1)],
    ),
    "pages without their number": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, RLE_DICTIONARY, None)]),
    "pages without their kind": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (None, RLE_DICTIONARY, 1)]),
    "pages without their encoding": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, None, 1)]),
    "no pages at all": ([PLAIN_DICTIONARY, RLE], []),
    "a number of pages that cannot be": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, RLE_DICTIONARY, -1)]),
    "a kind of page that is not known": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (9, RLE_DICTIONARY, 1)]),
    "an encoding that is not known": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, 10, 1)]),
    "encodings of version 1 with plain pages": ([PLAIN_DICTIONARY, RLE, PLAIN], None),
    "encodings of version 1 with differences": ([PLAIN_DICTIONARY, RLE, DELTA_BYTE_ARRAY], None),
    "encodings of version 2, which do not tell": ([RLE_DICTIONARY, RLE], None),
    "no encodings": ([], None),
}


@pytest.mark.parametrize("case", [*PROOFS, *DOUBTS])
def test_dictionary_is_asked_if_footer_proves_it_whole(file, case):
    encodings, pages = (PROOFS | DOUBTS)[case]

    def change(footer):
        for _, metadata in each_chunk(footer, "k"):
            metadata.set(ENCODINGS, LIST, Many(I32, encodings))
            metadata.pop(ENCODING_STATS, None)
            if pages is not None:
                metadata.set(ENCODING_STATS, LIST, page_statistics(*pages))

    plan = parquet_bloom.prune(rewrite_footer(file, change), "k = 7")
    assert plan.skipped_by == ({"dictionary": 3} if case in PROOFS else {})


WHOLE = page_statistics((DATA_PAGE, RLE_DICTIONARY, 3))
ODD_CHUNKS = {
    "encodings that are there twice": lambda chunk, metadata: (
        metadata.pop(ENCODING_STATS),
        metadata.set(ENCODINGS, LIST, twice(ENCODINGS, LIST, Many(I32, [PLAIN_DICTIONARY, RLE]))),
    ),
    "pages that are told of twice": lambda chunk, metadata: metadata.set(
        ENCODING_STATS, LIST, twice(ENCODING_STATS, LIST, WHOLE)
    ),
    "pages in a field of another type": lambda chunk, metadata: (
        metadata.set(ENCODINGS, LIST, Many(I32, [PLAIN_DICTIONARY, RLE])),
        metadata.set(ENCODING_STATS, SET, WHOLE),
    ),
    "no offset": lambda chunk, metadata: metadata.pop(DICTIONARY_OFFSET),
    "offset 0": lambda chunk, metadata: metadata.set(DICTIONARY_OFFSET, I64, 0),
    "a negative offset": lambda chunk, metadata: metadata.set(DICTIONARY_OFFSET, I64, -(2**63)),
    "a dictionary of no bytes": lambda chunk, metadata: metadata.set(
        DICTIONARY_OFFSET, I64, metadata.value(DATA_OFFSET)
    ),
    "a dictionary behind its data": lambda chunk, metadata: metadata.set(
        DICTIONARY_OFFSET, I64, metadata.value(DATA_OFFSET) + 9
    ),
    "a chunk without room for data": lambda chunk, metadata: metadata.set(
        SIZE, I64, metadata.value(DATA_OFFSET) - metadata.value(DICTIONARY_OFFSET)
    ),
    "a chunk beyond the data": lambda chunk, metadata: metadata.set(SIZE, I64, 1 << 40),
    "a dictionary beyond the file": lambda chunk, metadata: (
        metadata.set(DICTIONARY_OFFSET, I64, 1 << 40),
        metadata.set(DATA_OFFSET, I64, (1 << 40) + 9),
    ),
    "a chunk in another file": lambda chunk, metadata: chunk.set(FILE_PATH, BINARY, b"elsewhere.parquet"),
    "no codec": lambda chunk, metadata: metadata.pop(CODEC),
    "another type than the schema's": lambda chunk, metadata: metadata.set(TYPE, I32, 5),
}


@pytest.mark.parametrize("case", ODD_CHUNKS)
def test_no_dictionary_is_looked_for_in_an_odd_chunk(file, case):
    def change(footer):
        for chunk, metadata in each_chunk(footer, "k"):
            ODD_CHUNKS[case](chunk, metadata)

    assert parquet_bloom.prune(file, "k = 7").skipped_by == {"dictionary": 3}
    rewrite_footer(file, change)
    assert parquet_bloom.prune(file, "k = 7").skipped_by == {}
    with parquet_bloom.open(file) as opened:
        assert not file_statistics(opened, ["k"]).columns["k"].dictionaries[:, 1:].any()


@pytest.mark.parametrize(
    ("where", "skipped", "certain"),
    [
        ("k = 7", 3, 0),
        ("k IN (7, 9, 11)", 3, 0),
        ("k IN (7, 8)", 0, 0),
        ("k > 6 AND k < 8", 3, 0),
        ("k > 6 OR k < 8", 0, 3),
        ("k <> 7", 0, 3),
        ("k <> 8", 0, 0),
        ("NOT (k = 7 OR k = 9)", 0, 3),
        ("k IS NOT NULL", 0, 3),  # as statistics say
        ("k = 7 OR wide >= '0'", 0, 0),
        ("k = 7 AND wide >= '0'", 3, 0),
        ("CAST(k AS STRING) LIKE '%1'", 3, 0),
        ("CAST(k AS STRING) LIKE '%8' OR k >= 0", 0, 3),
    ],
)
def test_row_groups_that_are_ruled_out_or_certain(file, where, skipped, certain):
    row_groups = parquet_bloom.prune(file, where).files[0].row_groups
    assert sum("dictionary" in one.by for one in row_groups) == skipped
    assert sum(one.certain for one in row_groups) == certain
    expected = {"k = 7": 0, "k <> 7": 3000, "k > 6 OR k < 8": 3000}.get(where)
    rows = parquet_bloom.read_table(file, where).num_rows
    assert expected is None or rows == expected
    assert skipped < 3 or rows == 0
    assert certain < 3 or rows == 3000


def test_nulls_are_neither_ruled_out_nor_certain(tmp_path):
    table = pa.table({"k": [1, None, 3, None] * 500, "wide": ["x" * 50] * 2000})
    path = write(tmp_path / "a.parquet", table)
    for where, rows, by in (("k = 2", 0, 2), ("k = 2 OR k IS NULL", 1000, 0), ("k <> 2", 1000, 0)):
        plan = parquet_bloom.prune(path, where)
        assert plan.skipped_by == ({"dictionary": by} if by else {})
        assert not any(one.certain for one in plan.files[0].row_groups)
        assert parquet_bloom.read_table(path, where).num_rows == rows
    assert all(one.certain for one in parquet_bloom.prune(path, "k <> 2 OR k IS NULL").files[0].row_groups)


def test_elements_of_lists_are_ruled_out_one_by_one(tmp_path):
    lists = [["a", "c"], ["c"], []] * 500
    path = write(tmp_path / "a.parquet", pa.table({"l": lists, "wide": ["x" * 50] * 1500}))
    assert parquet_bloom.prune(path, "array_contains(l, 'b')").skipped_by == {"dictionary": 2}
    assert parquet_bloom.read_table(path, "array_contains(l, 'a') AND array_contains(l, 'c')").num_rows == 500
    assert parquet_bloom.read_table(path, "NOT array_contains(l, 'b')").num_rows == 1500
    assert not any(one.certain for one in parquet_bloom.prune(path, "NOT array_contains(l, 'b')").files[0].row_groups)


def set_header(number, value):
    return lambda header: header.set(number, I32, value(header.value(number)))


def set_description(number, value):
    return lambda header: header.value(7).set(number, I32, value(header.value(7).value(number)))


UNPACKED_BYTES, PAGE_BYTES, CHECKSUM, NUM_VALUES, ENCODING = 2, 3, 4, 1, 2
DAMAGED_HEADERS = {
    "a value less": (set_description(NUM_VALUES, lambda count: count - 1), "value"),
    "a value more": (set_description(NUM_VALUES, lambda count: count + 1), "value"),
    "no values": (set_description(NUM_VALUES, lambda count: 0), "value"),
    "another encoding": (set_description(ENCODING, lambda _: DELTA_BYTE_ARRAY), "it is not a dictionary"),
    "shorter": (set_header(PAGE_BYTES, lambda size: size - 1), "does not end where the data pages begin"),
    "shorter when decompressed": (set_header(UNPACKED_BYTES, lambda size: size - 1), ""),
    "another checksum": (set_header(CHECKSUM, lambda checksum: checksum ^ 1), "checksum"),
}


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize(("column", "where"), [("k", "k = 7"), ("t", "t = 'a007'")])
@pytest.mark.parametrize("damage", DAMAGED_HEADERS)
def test_damaged_dictionary_is_a_doubt(tmp_path, damage, column, where, compression):
    numbers = [number % 50 * 2 for number in range(3000)]
    texts = [f"a{number:03}" for number in numbers]
    table = pa.table({"k": numbers, "t": texts, "wide": [f"{number:050}" for number in range(3000)]})
    path = write(tmp_path / "a.parquet", table, compression=compression, write_page_checksum=True)
    data = path.read_bytes()
    start = pq.read_metadata(path).row_group(0).column("kt".index(column)).dictionary_page_offset
    header, end = oracle.read_struct(data, start)
    change, problem = DAMAGED_HEADERS[damage]
    change(header)
    changed = oracle.write_struct(header)
    assert changed != data[start:end]
    path.write_bytes(data[:start] + changed + data[start + len(changed) :])
    assert len(changed) == end - start
    plan = parquet_bloom.prune(path, where)
    assert [one.read for one in plan.files[0].row_groups] == [True, False, False]
    (doubt,) = plan.files[0].row_groups[0].doubts
    assert doubt.startswith(f"'{column}': its dictionary cannot be used: ")
    assert problem in doubt
    with contextlib.suppress(UnreadableColumnError):  # pyarrow cannot read the row group, either
        assert parquet_bloom.read_table(path, where).num_rows == 0


@pytest.mark.parametrize("damage", ["a byte before", "a byte less", "not compressed so"])
def test_dictionary_elsewhere_is_a_doubt(file, damage):
    def change(footer):
        (_, metadata), *_ = each_chunk(footer, "k")
        if damage == "a byte before":
            metadata.set(DICTIONARY_OFFSET, I64, metadata.value(DICTIONARY_OFFSET) - 1)
        elif damage == "a byte less":
            metadata.set(DATA_OFFSET, I64, metadata.value(DATA_OFFSET) - 1)
        else:
            metadata.set(CODEC, I32, 2)

    rewrite_footer(file, change)
    for _ in range(2):  # what cannot be used is known the second time
        row_groups = parquet_bloom.prune(file, "k = 7").files[0].row_groups
        assert [one.read for one in row_groups] == [True, False, False]
        assert [len(one.doubts) for one in row_groups] == [1, 0, 0]


def test_data_page_is_no_dictionary(tmp_path):
    """It looks like one: as many values as its header says, plain-encoded, without levels."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("wide", pa.string())])
    table = pa.table({"k": list(range(0, 2000, 2)), "wide": ["x" * 50] * 1000}, schema)
    options = {"data_page_size": 800, "write_batch_size": 100, "use_dictionary": False, "compression": "none"}
    path = write(tmp_path / "a.parquet", table, **options)
    first = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    header, end = oracle.read_struct(path.read_bytes(), first)

    def change(footer):
        ((_, metadata),) = each_chunk(footer, "k")
        metadata.set(DICTIONARY_OFFSET, I64, first)
        metadata.set(DATA_OFFSET, I64, end + header.value(PAGE_BYTES))
        metadata.set(ENCODING_STATS, LIST, WHOLE)

    (one,) = parquet_bloom.prune(rewrite_footer(path, change), "k = 1000").files[0].row_groups
    assert one.read
    assert "it is not a dictionary" in one.doubts[0]


def test_values_that_are_shown_as_others_are_not_denied(tmp_path):
    table = pa.table(
        {"k": pa.array([300, 301] * 500, pa.int32()), "t": [b"a", b"\xff"] * 500, "wide": ["x" * 50] * 1000}
    )
    path = write(tmp_path / "a.parquet", table, store_schema=False)
    assert parquet_bloom.prune(path, "k = 44").skipped_by
    relabel(path, "k", integer_annotation(8, True))
    relabel(path, "t", Struct({1: (STRUCT, Struct())}))
    for where in ("k = 44", "k = 46", "t = 'b'"):  # what is shown of others is not the same in all engines
        assert parquet_bloom.prune(path, where).skipped_by == {}
    assert parquet_bloom.read_table(path, "k = 44", ["k"]).num_rows == 500


@pytest.fixture
def versions(tmp_path, settled_footers):
    """A name for one of two files, `even` and `odd` by their numbers, and a function that gives it to another one."""
    wide = [f"{number:050}" for number in range(3000)]
    for name, odd in (("even", 0), ("odd", 1)):
        numbers = [number % 50 * 2 + odd for number in range(3000)]
        write(tmp_path / name, pa.table({"k": numbers, "version": [name] * 3000, "wide": wide}))
    path, other = tmp_path / "a.parquet", tmp_path / "other"

    def exchange(name):
        other.symlink_to(tmp_path / name)
        other.replace(path)

    exchange("even")
    return path, exchange


ROWS = {"k = 7": (0, 60), "k = 8": (60, 0), "k <> 7": (3000, 2940), "k IN (7, 9) OR k <> 8": (2940, 3000)}  # even, odd


def test_file_that_is_another_one_than_was_planned(versions):
    path, exchange = versions
    dataset = parquet_bloom.dataset(path)
    for where, (even, odd) in ROWS.items():
        exchange("even")
        plan = dataset.scan(where).plan()
        assert dataset.scan(where).count_rows() == even
        exchange("odd")
        assert RowReader(plan).read_table().num_rows in (even, odd)
        assert set(RowReader(plan).read_table()["version"].to_pylist()) <= {"odd"}
        assert dataset.scan(where).count_rows() == parquet_bloom.read_table(path, where).num_rows == odd


@pytest.mark.ci
def test_file_that_is_exchanged_all_the_time(versions):
    """Each answer is that of one of the files, or an error that says so."""
    path, exchange = versions
    over, num_answers = threading.Event(), 0

    def exchange_until_over():
        while not over.is_set():
            exchange("odd")
            exchange("even")

    thread = threading.Thread(target=exchange_until_over)
    thread.start()
    try:
        for where, (even, odd) in [*ROWS.items()] * scaled(6):
            cache = parquet_bloom.MetadataCache()
            dataset = parquet_bloom.dataset(path, cache=cache)
            dataset.scan("k IS NULL").plan()  # now the cache has a footer, and no dictionary
            for read in (
                lambda cache=cache, where=where: parquet_bloom.read_table(path, where, cache=cache),
                dataset.scan(where).to_arrow,
                RowReader(dataset.scan(where).plan(), cache=cache).read_table,
            ):
                with contextlib.suppress(ConcurrentChangeError):
                    found = read()
                    seen = set(found["version"].to_pylist()) or {"even", "odd"}
                    assert found.num_rows in ({"even": even, "odd": odd}[one] for one in seen), where
                    assert len(seen) == 1 or not found.num_rows
                    num_answers += 1
            with contextlib.suppress(ConcurrentChangeError):
                assert dataset.scan(where).count_rows() in (even, odd), where
    finally:
        over.set()
        thread.join()
    assert num_answers


def test_dictionary_as_large_as_its_row_group_is_not_read(tmp_path):
    path = write(tmp_path / "a.parquet", pa.table({"k": list(range(0, 2000, 2))}))
    plan = parquet_bloom.prune(path, "k = 7", cache=None)
    assert plan.skipped_by == {}
    assert plan.requests == 1


@pytest.mark.parametrize(("rows", "is_read"), [(2_000, False), (200_000, True)])
def test_dictionary_in_a_store_is_read_if_the_row_group_is_worth_a_request(tmp_path, rows, is_read):
    numbers, wide = [number % 50 * 2 for number in range(rows)], [f"{number:050}" for number in range(rows)]
    table = pa.table({"k": numbers, "wide": wide})
    pq.write_table(table, tmp_path / "a.parquet", compression="none")
    files = CountedFileSystem({"a.parquet": (tmp_path / "a.parquet").read_bytes()})
    plan = parquet_bloom.prune("a.parquet", "k = 7", filesystem=files, cache=None)
    assert plan.skipped_by == ({"dictionary": plan.total_row_groups} if is_read else {})
    assert len(files.ranges_read) == 1 + is_read


@pytest.mark.ci
def test_dictionary_is_read_where_filters_were_asked_for_many_values(tmp_path):
    """What a filter does not deny of one value is there, most likely; of many values it need not be."""
    table = pa.table({"k": list(range(0, 2000, 2)), "wide": [f"{number:050}" for number in range(1000)]})
    path = write(tmp_path / "a.parquet", table, compression="none", write_statistics=False)
    parquet_bloom.embed(path, {"k": 0.1})
    not_denied = [odd for odd in range(1, 2000, 2) if parquet_bloom.prune(path, f"k = {odd}").skipped_by == {}]
    assert not_denied
    values = ", ".join(map(str, [not_denied[0], *range(2001, 2199, 2)]))
    assert parquet_bloom.prune(path, f"k IN ({values})").skipped_by == {"dictionary": 1}
