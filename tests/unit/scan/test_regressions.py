"""Test former bugs that lost rows, or reported errors badly, when row groups were selected."""

from __future__ import annotations

import struct
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.by_pages import search_by_pages
from support.malformed.malformed_ways import Doubled
from support.oracle import oracle
from support.oracle.oracle import I64
from support.scans import ALL_PAGES, BY_PAGES, scan
from support.writers import surgery
from support.writers.page_indexes import COLUMN_INDEX, encode_bounds, locations, with_index

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import MalformedFooterError, ParquetBloomError, UnknownColumnError, UnreadableColumnError
from parquet_bloom.scan.scan import Scan


@pytest.fixture
def path(tmp_path):
    table = pa.table({"id": pa.array(range(20), pa.int32())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10, use_dictionary=False)
    return tmp_path / "a.parquet"


def test_row_group_without_a_number_of_rows(path):
    surgery.rewrite_footer(path, lambda footer: footer.value(4).items[0].pop(3))
    with pytest.raises(MalformedFooterError, match="row group 0: metadata: it does not say how many rows"):
        parquet_bloom.prune(path, "id = 3")


def test_row_group_is_empty_only_if_its_chunks_are(path):
    """A row group of no rows whose chunks have values may well have rows."""
    surgery.rewrite_footer(path, lambda footer: footer.value(4).items[0].set(3, I64, 0))
    assert parquet_bloom.prune(path, "id = 3").selected == {str(path): [0]}


def test_what_cannot_be_read_of_a_footer_has_its_place(path):
    """It was recognized by the byte alone."""

    def change(footer):
        chunk = footer.value(4, [1], 1, [0])
        chunk.__class__, chunk.again = Doubled, (3, chunk[3])

    surgery.rewrite_footer(path, change)
    with pytest.raises(MalformedFooterError, match=r"a\.parquet: row group 1: .* twice .* in column chunk 0$"):
        parquet_bloom.prune(path, "id = 3")


@pytest.mark.parametrize("num_rows", [0, 9, 11, 2**31, 2**63 - 1])
def test_rows_that_no_reader_would_give_are_an_error(num_rows, path):
    """The plan said to read the row group, and then pyarrow skipped the rows after the recorded number."""
    surgery.rewrite_footer(path, lambda footer: footer.value(4).items[0].set(3, I64, num_rows))
    where = "row group 0, column 'id': metadata: 10 values in"
    for read in (Scan.to_arrow, Scan.row_ranges, lambda scan: list(scan.to_batches())):
        with pytest.raises(MalformedFooterError, match=where):
            read(parquet_bloom.dataset(path).scan("id = 3"))
    with pytest.raises(MalformedFooterError, match=where):
        zones.build(path, "id", path.with_suffix(".arrow"))
    with pytest.raises(MalformedFooterError, match=where):
        parquet_bloom.embed(path, ["id"])
    assert parquet_bloom.read_table(path, "id = 13").to_pydict() == {"id": [13]}


@pytest.mark.parametrize("name", ["x" * (1 << 20), "a\nb" * 1000], ids=["long", "of lines"])
def test_names_as_long_as_the_footer_do_not_fill_the_screen(name, path):
    """A name of a megabyte stood in each error, and in each row of advice as blanks."""

    def change(footer):
        surgery.schema_element(footer, "id").set(4, oracle.BINARY, name.encode())

    surgery.rewrite_footer(path, change)
    with pytest.raises(MalformedFooterError) as caught, parquet_bloom.open(path) as file:
        list(file.chunks())
    assert len(str(caught.value)) < len(str(path)) + 500
    with pytest.raises(UnknownColumnError) as unknown:
        parquet_bloom.embed(path, ["id"])
    assert len(str(unknown.value)) < len(str(path)) + 2_000
    assert max(map(len, str(parquet_bloom.advise(path)).splitlines())) < 3_000


def test_value_counts_that_contradict_the_rows_are_not_evidence(path):
    def change(footer):
        for _, metadata in surgery.each_chunk(footer):
            metadata.set(5, I64, 0)  # as many as there are nulls: "all null"

    surgery.rewrite_footer(path, change)
    # Nothing of statistics that contradict each other is believed, the bounds included.
    assert parquet_bloom.prune(path, "id = 13").selected == {str(path): [0, 1]}


def test_nulls_alone_have_no_bounds(path):
    """A count of nulls as large as that of values was believed beside a smallest and a largest value."""

    def change(footer):
        for _, metadata in surgery.each_chunk(footer):
            metadata.value(surgery.STATISTICS).set(3, I64, 10)

    surgery.rewrite_footer(path, change)
    # Nothing of statistics that contradict each other is believed, the bounds included.
    assert parquet_bloom.prune(path, "id = 13").selected == {str(path): [0, 1]}
    assert parquet_bloom.read_table(path, "id IS NOT NULL").num_rows == 20


def test_lists_that_lie_about_their_elements(path):
    """Most readers do not look at what a list says of its elements, and so read on elsewhere than one that does."""
    data = path.read_bytes()
    start = oracle.footer_start(data)
    before, path_in_schema, after = data[start:].rpartition(b"\x18\x02id")
    path.write_bytes(data[:start] + before + path_in_schema.replace(b"\x18", b"\x19") + after)
    with pytest.raises(MalformedFooterError, match="elements of another type"):
        parquet_bloom.prune(path, "id = 3")


def test_files_that_cannot_be_joined(tmp_path):
    pq.write_table(pa.table({"row": [0, 1], "name": ["a", "b"], "x": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"row": [2, 3], "name": ["a", "b"], "x": ["1", "2"]}), tmp_path / "b.parquet")
    with pytest.raises(UnreadableColumnError, match="do not fit into one table"):
        parquet_bloom.read_table(str(tmp_path), "name = 'a'")
    assert parquet_bloom.read_table(str(tmp_path), "name = 'a'", columns=["row"]).to_pydict() == {"row": [0, 2]}


@pytest.mark.parametrize("turned", [False, True])
def test_a_dictionary_in_some_files_only(tmp_path, turned):
    names = pa.array(["a", None, "b"])
    files = [names, names.dictionary_encode(), names.cast(pa.large_string()).dictionary_encode()]
    for number, values in enumerate(reversed(files) if turned else files):
        rows = [3 * number + row for row in range(3)]
        pq.write_table(pa.table({"row": rows, "name": values}), tmp_path / f"{number}.parquet")
    expected = {"row": [0, 3, 6], "name": ["a"] * 3}
    table = parquet_bloom.read_table(str(tmp_path), "name = 'a'")
    assert table.to_pydict() == expected
    assert not pa.types.is_dictionary(table.schema.field("name").type)
    assert parquet_bloom.dataset(str(tmp_path)).scan("name = 'a'").to_reader().read_all().equals(table)
    nulls = parquet_bloom.read_table(str(tmp_path), "name IS NULL")
    assert nulls.to_pydict() == {"row": [1, 4, 7], "name": [None] * 3}
    # Where all files have one, it stays one.
    (tmp_path / f"{2 if turned else 0}.parquet").unlink()
    assert pa.types.is_dictionary(parquet_bloom.read_table(str(tmp_path), "name = 'a'").schema.field("name").type)


@pytest.mark.parametrize("rows", [0, 4, 11, 1 << 40])
@pytest.mark.parametrize("where", ["id = 8", "id < 30"])
def test_rows_of_a_row_group_that_is_said_to_have_others_are_not_passed_over(path, rows, where):
    """Pyarrow reads as many rows of each column as the row group is said to have; the others were lost."""
    surgery.rewrite_footer(path, lambda footer: footer.value(4).items[0].set(3, I64, rows))
    assert 0 in parquet_bloom.prune(path, where).selected[str(path)]
    with pytest.raises(MalformedFooterError, match=f"column 'id': metadata: 10 values in {rows} rows"):
        parquet_bloom.read_table(path, where)
    assert parquet_bloom.read_table(path, "id = 13")["id"].to_pylist() == [13]


@pytest.mark.ci
def test_a_long_value_that_many_rows_have_is_not_copied_for_each(tmp_path):
    long = ["a" * 100_000, "b" * 100_000]
    table = pa.table({"name": [long[row % 2] for row in range(4000)]})
    pq.write_table(table, tmp_path / "a.parquet", write_page_index=True, compression="zstd")
    with parquet_bloom.open(tmp_path / "a.parquet") as file:
        tracemalloc.start()
        try:
            found = search_by_pages(file, table.schema, "name", range(4000), [b"c", b"b" * 99_999], ALL_PAGES)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert found is not None
        assert (len(found[0]), len(found[1])) == (0, 0)
        assert peak < 10 << 20  # all of them are 400 MB
        assert search_by_pages(file, table.schema, "name", range(3), [long[1].encode()], ALL_PAGES)[0] == [1]


PAGES = 4000
PAGED = {
    "text": pa.array([f"{i:06d} and so on" for i in range(PAGES)]),
    "float": pa.array([i / 4 for i in range(PAGES)], pa.float64()),
    "number": pa.array(range(PAGES), pa.int64()),
}
LIES = {
    "the first bounds for all": lambda low, high: ([low[0]] * len(low), [high[0]] * len(low)),
    "bounds of no bytes": lambda low, high: ([b""] * len(low), [b""] * len(low)),
    "bounds of other pages": lambda low, high: (low[1:] + low[:1], high[1:] + high[:1]),
    "the way back": lambda low, high: (low[::-1], high[::-1]),
}


@pytest.mark.ci
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", PAGED)
def test_bounds_of_pages_that_contradict_the_statistics(kind, lie, counted, tmp_path):
    """Only whole numbers were held against the column chunk's, and nothing against the order that is said."""
    if kind == "text" and lie == "the first bounds for all":
        return  # it may be that they are cut short
    path, values = tmp_path / "a.parquet", PAGED[kind]
    writing = {"data_page_size": 2000, "write_batch_size": 100, "use_dictionary": False, "write_page_index": True}
    pq.write_table(pa.table({"a": values}), path, **writing)
    rows = [row for *_, row in locations(path)]
    assert len(rows) > 5
    stored = [_plain(value) for value in values.to_pylist()]
    low, high = [stored[row] for row in rows], [stored[row - 1] for row in [*rows[1:], PAGES]]
    counts = [0] * len(rows) if counted else None
    for low_said, high_said in ((low, high), LIES[lie](low, high)):
        output = encode_bounds([False] * len(rows), low_said, high_said, counts, order=1)
        with_index(path, output, kind=COLUMN_INDEX)
        for row in (0, 1, PAGES // 2, PAGES - 1):
            assert scan(path, [("a", "=", values[row].as_py())], limits=BY_PAGES).to_arrow().num_rows == 1


def _plain(value):
    return value.encode() if isinstance(value, str) else struct.pack("<d" if isinstance(value, float) else "<q", value)


def test_columns_as_a_text_are_refused_and_not_taken_for_letters(path):
    for read in (
        lambda: parquet_bloom.read_table(path, "id = 3", "id"),
        lambda: parquet_bloom.dataset(path).scan("id = 3", "id"),
        lambda: parquet_bloom.dataset(path).get("id", [3], "id"),
    ):
        with pytest.raises(ParquetBloomError, match=r"^columns must be a list of names, got a string; give \['id'\]$"):
            read()


def test_page_indexes_of_pages_with_the_same_long_bounds_are_used(tmp_path, caplog):
    """Upper bounds of 64 bytes and more may be cut, and two of them have no order: that is no contradiction."""
    texts = [("a" * 1000, "z" * 1000, f"row {i}")[i % 3] for i in range(6000)]
    options = {"data_page_size": 400_000, "write_batch_size": 512, "use_dictionary": False, "write_page_index": True}
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", compression="none", **options)
    assert parquet_bloom.read_table(tmp_path / "a.parquet", where="contains(text, 'w 389')").num_rows == 5
    assert "the page index is not used" not in caplog.text
