"""Dictionaries as evidence: which are proven to be whole, when they are read, and what they decide."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import I32, LIST, STRUCT, Many, Struct
from support.servers.counted import CountedFileSystem
from support.writers.surgery import each_chunk, rewrite_footer

import parquet_bloom

ENCODINGS, ENCODING_STATS = 2, 13
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, RLE_DICTIONARY = 0, 2, 3, 4, 8


def write(path, table, **options):
    pq.write_table(table, path, row_group_size=1000, **options)
    return path


@pytest.fixture
def file(tmp_path):
    """k: even numbers, which leave no range a value out; wide: what makes row groups large beside dictionaries."""
    numbers = [number % 50 * 2 for number in range(3000)]
    return write(tmp_path / "a.parquet", pa.table({"k": numbers, "wide": [f"{number:050}" for number in range(3000)]}))


def page_statistics(*pages):
    return Many(
        STRUCT, [Struct({1: (I32, kind), 2: (I32, encoding), 3: (I32, count)}) for kind, encoding, count in pages]
    )


PROOFS = {
    "all data pages use the dictionary": (
        [PLAIN, RLE, RLE_DICTIONARY],
        [(DICTIONARY_PAGE, PLAIN, 1), (DATA_PAGE, RLE_DICTIONARY, 3)],
    ),
    "of both versions": ([PLAIN, RLE], [(DATA_PAGE, PLAIN_DICTIONARY, 1), (DATA_PAGE_V2, RLE_DICTIONARY, 3)]),
    "no pages of another encoding": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, PLAIN, 0)]),
    "encodings of version 1": ([PLAIN_DICTIONARY, RLE, BIT_PACKED], None),
}
DOUBTS = {
    "a plain page": ([PLAIN, RLE, RLE_DICTIONARY], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, PLAIN, 1)]),
    "a plain page of version 2": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE_V2, PLAIN, 1)]),
    "no data pages": ([RLE_DICTIONARY], [(DICTIONARY_PAGE, PLAIN, 1)]),
    "no pages at all": ([PLAIN_DICTIONARY, RLE], []),
    "a number of pages that cannot be": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, RLE_DICTIONARY, -1)]),
    "a kind of page that is not known": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (9, RLE_DICTIONARY, 1)]),
    "an encoding that is not known": ([RLE], [(DATA_PAGE, RLE_DICTIONARY, 3), (DATA_PAGE, 10, 1)]),
    "encodings of version 1 with plain pages": ([PLAIN_DICTIONARY, RLE, PLAIN], None),
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


@pytest.mark.parametrize("damage", ["another page", "shorter", "not compressed so"])
def test_damaged_dictionary_rules_nothing_out(file, damage):
    offset = pq.ParquetFile(file).metadata.row_group(0).column(0).dictionary_page_offset

    def change(footer):
        (_, metadata), *_ = each_chunk(footer, "k")
        if damage == "another page":
            metadata.set(11, oracle.I64, metadata.value(9) - 1)
        elif damage == "shorter":
            metadata.set(9, oracle.I64, metadata.value(9) - 1)
        else:
            metadata.set(4, I32, 2)

    plan = parquet_bloom.prune(rewrite_footer(file, change), "k = 7")
    assert offset
    assert [one.read for one in plan.files[0].row_groups] == [True, False, False]


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


def test_dictionary_is_read_where_filters_were_asked_for_many_values(tmp_path):
    """What a filter does not deny of one value is there, most likely; of many values it need not be."""
    table = pa.table({"k": list(range(0, 2000, 2)), "wide": [f"{number:050}" for number in range(1000)]})
    path = write(tmp_path / "a.parquet", table, compression="none", write_statistics=False)
    parquet_bloom.embed(path, {"k": 0.1})
    not_denied = [odd for odd in range(1, 2000, 2) if parquet_bloom.prune(path, f"k = {odd}").skipped_by == {}]
    assert not_denied
    values = ", ".join(map(str, [not_denied[0], *range(2001, 2199, 2)]))
    assert parquet_bloom.prune(path, f"k IN ({values})").skipped_by == {"dictionary": 1}
