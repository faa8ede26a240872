"""Files of later formats: what is not known is named, whatever is asked, and no row is lost to what can be read."""

import re

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import I32, STRUCT, Struct
from support.writers import surgery

import parquet_bloom
from parquet_bloom.errors import FilesFailedError, UnreadableColumnError

ROWS, ALP = 2000, 10

LATER = {
    "pages": (lambda path: surgery.with_page_encoding(path, "x", ALP), r"encoding 10 \(ALP\) is not known"),
    "some pages": (lambda path: surgery.with_page_encoding(path, "x", 60, 1), "encoding 60 is not known"),
    "pages, footer": (
        lambda path: surgery.with_declared_encoding(surgery.with_page_encoding(path, "x", 60), "x", 77),
        "encoding 60 is not known",
    ),
    "codec": (lambda path: surgery.with_codec(path, "x", 77), "codec 77 is not known"),
    "type": (lambda path: surgery.with_page_type(path, "x", 9), "pages of type 9 do not exist"),
}


@pytest.fixture(params=[True, False])
def path(request, tmp_path):
    """A file of two row groups, of which "x" has few values, with a filter."""
    numbers = np.arange(2 * ROWS)
    table = pa.table({"x": numbers % 50 + 0.5, "k": numbers})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=ROWS, use_dictionary=request.param, write_page_index=True)
    parquet_bloom.embed(path, ["x"])
    return path


@pytest.mark.parametrize("what", LATER)
def test_what_is_not_known_is_named(path, tmp_path, what):
    change, problem = LATER[what]
    change(path)
    message = rf"a\.parquet: row group [01], column 'x': cannot be read: .*{problem}"
    dataset = parquet_bloom.dataset(path)
    for ask in (
        lambda: parquet_bloom.read_table(path, "x = 7.5"),
        lambda: parquet_bloom.read_table(path, "x > 7.5 OR k = 5", ["k"]),
        lambda: parquet_bloom.read_table(path, f"k = {ROWS + 5}"),
        lambda: dataset.scan("x <> 7.5").count_rows(),
        lambda: list(dataset.scan("x <> 7.5").to_batches()),
        lambda: dataset.get("x", 7.5),
        lambda: dataset.locate("x", [7.5]),
        lambda: parquet_bloom.embed(path, ["x"], replace=True),
        lambda: parquet_bloom.LakeIndex.create(tmp_path / "x.index", ["x"]).append(path),
    ):
        with pytest.raises((UnreadableColumnError, FilesFailedError), match=message) as raised:
            ask()
        assert "\n" not in str(raised.value)
    (verdict, *_) = parquet_bloom.verify(path, data=True).problems
    assert verdict.column == "x"
    assert re.search(problem, str(verdict.problem))
    # What else the file has is read, and pruned by.
    assert parquet_bloom.prune(path, "x = 7.5").skipped_by == {}
    assert parquet_bloom.prune(path, "x = 100").skipped_by == {"range": 2}
    assert parquet_bloom.read_table(path, "k = 5", ["k"]).num_rows == 1
    assert parquet_bloom.embed(path, ["k"]).num_filters == 2
    assert parquet_bloom.drop(path).num_filters == 4
    assert "x" in {column.column for column in parquet_bloom.advise(path, sample=2).columns}


def test_of_a_remote_file_the_footer_tells(path):
    surgery.with_declared_encoding(surgery.with_page_encoding(path, "x", ALP), "x", ALP)
    message = r"row group 0, column 'x': cannot be read: encoding 10 \(ALP\) is not known"
    with pytest.raises(UnreadableColumnError, match=message):
        parquet_bloom.read_table(path, "x = 7.5", filesystem=pa.fs.LocalFileSystem())


def test_an_encoding_that_only_the_footer_has(path):
    """Pages say how they are to be read; that a dictionary has all values is not proven any more."""
    parquet_bloom.drop(path)
    surgery.with_declared_encoding(path, "x", 77)
    assert parquet_bloom.prune(path, "x = 7.75").skipped_by == {}
    assert parquet_bloom.read_table(path, "x = 7.75").num_rows == 0
    assert parquet_bloom.read_table(path, "x = 7.5").num_rows == 2 * ROWS // 50
    assert parquet_bloom.embed(path, ["x"]).num_filters == 2
    assert parquet_bloom.verify(path, data=True).ok


def test_a_dictionary_in_another_encoding_is_no_evidence(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(ROWS) % 50 + 0.5}), path)
    assert parquet_bloom.prune(path, "x = 7.75").skipped_by == {"dictionary": 1}

    def change(header):
        if 7 in header:
            header.value(7)[2] = (I32, ALP)

    surgery.change_pages(path, "x", change)
    assert parquet_bloom.prune(path, "x = 7.75").skipped_by == {}
    with pytest.raises(UnreadableColumnError, match=r"row group 0, column 'x': cannot be read: encoding 10 \(ALP\)"):
        parquet_bloom.read_table(path, "x = 7.5")


def test_a_repetition_that_is_not_known(tmp_path):
    """No evidence speaks of the column; the others are read."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2, 3], "k": [1, 2, 3]}), path)
    surgery.rewrite_footer(path, lambda footer: surgery.schema_element(footer, "x").set(3, I32, 3))
    assert parquet_bloom.prune(path, "x = 7").skipped_by == {}
    with pytest.raises(UnreadableColumnError):
        parquet_bloom.read_table(path, "x = 2")
    assert parquet_bloom.read_table(path, "k = 2", ["k"]).num_rows == 1


@pytest.mark.parametrize("member", [19, 42])
def test_a_logical_type_that_is_not_known(tmp_path, member):
    """The order and the meaning of its values are not known; they are hashed as they are stored."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [b"a", b"b", b"c"]}), path, write_page_index=True)
    annotation = Struct({member: (STRUCT, Struct())})
    surgery.rewrite_footer(path, lambda footer: surgery.schema_element(footer, "x").set(10, STRUCT, annotation))
    for where, num_rows in (("x > 'd'", 0), ("x = 'd'", 0), ("x <> 'b'", 2), ("x = 'b'", 1)):
        assert parquet_bloom.prune(path, where).skipped_by == {}
        assert parquet_bloom.read_table(path, where).num_rows == num_rows
    assert parquet_bloom.prune(path, "x IS NULL").skipped_by == {"nulls": 1}
    before = path.read_bytes()
    assert parquet_bloom.embed(path, ["x"]).num_filters == 1
    assert parquet_bloom.prune(path, "x = 'd'").skipped_by == {}
    assert parquet_bloom.drop(path).num_filters == 1
    assert path.read_bytes().startswith(before[: oracle.footer_start(before)])


@pytest.mark.parametrize("store_schema", [True, False])
def test_groups_of_a_later_type_are_read_as_structs(tmp_path, store_schema):
    """As the format wants them to be; pyarrow does not open such files."""
    path = tmp_path / "a.parquet"
    table = pa.table({"doc": [{"uri": "a", "size": 1}, {"uri": "b", "size": 2}, None], "k": [1, 2, 3]})
    pq.write_table(table, path, store_schema=store_schema, row_group_size=2)
    annotation = Struct({19: (STRUCT, Struct())})
    surgery.rewrite_footer(path, lambda footer: surgery.schema_element(footer, "doc").set(10, STRUCT, annotation))
    dataset = parquet_bloom.dataset(path)
    assert dataset.to_table().equals(table)
    assert dataset.to_table(filter=pc.field("k") == 2).equals(table.slice(1, 1))
    assert duckdb.sql("SELECT doc.size FROM dataset WHERE k = 2").fetchall() == [(2,)]
    assert parquet_bloom.read_table(path, "doc.size = 2").equals(table.slice(1, 1))
    assert parquet_bloom.prune(path, "doc.size = 7").skipped_by == {"range": 1, "nulls": 1}
    assert parquet_bloom.read_table(path, "doc IS NULL", ["k"])["k"].to_pylist() == [3]
    assert dataset.get("k", 2)["doc"].to_pylist() == [{"uri": "b", "size": 2}]
    assert parquet_bloom.embed(path, ["doc.uri", "k"]).num_filters == 4
    assert parquet_bloom.verify(path, data=True).ok
    assert parquet_bloom.read_table(path, "doc.uri = 'a'")["k"].to_pylist() == [1]
