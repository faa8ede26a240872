"""Footers as a whole: columns, chunks and their surroundings, in valid files and in impossible ones."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import BINARY, I32, I64, LIST, Many, Struct
from support.writers import surgery

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata.footer import Footer
from parquet_bloom.metadata.footer_rewrite import make_physical_view

TABLE = pa.table(
    {
        "i": pa.array([1, 2, None], pa.int32()),
        "x": pa.array([b"12345"] * 3, pa.binary(5)),
        "st": pa.array([{"a": 1, "b": {"c": "x"}}] * 3),
        "li": pa.array([[1], [], None], pa.list_(pa.int64())),
        "lli": pa.array([[[1]]] * 3, pa.list_(pa.list_(pa.int8()))),
        "ma": pa.array([[("k", {"v": 1.5})]] * 3, pa.map_(pa.string(), pa.struct([("v", pa.float64())]))),
    }
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "a.parquet"
    pq.write_table(TABLE.replace_schema_metadata({"key": "value"}), target, row_group_size=2, write_page_index=True)
    return target


def footer_of(path: Path) -> Footer:
    data = path.read_bytes()
    start = oracle.footer_start(data)
    return Footer(data[start:-8], start)


def test_leaves_are_pyarrows(path):
    footer = footer_of(path)
    metadata = pq.read_metadata(path)
    schema = metadata.schema
    assert [leaf.name for leaf in footer.leaves] == [schema.column(i).path for i in range(len(schema.names))]
    for leaf in footer.leaves:
        column = schema.column(leaf.index)
        assert (leaf.physical, leaf.name) == (column.physical_type, ".".join(leaf.path))
        assert leaf.length == (5 if leaf.name == "x" else None)
        assert leaf.repeated == (column.max_repetition_level > 0)


def test_footer_contents(path):
    footer, metadata = footer_of(path), pq.read_metadata(path)
    assert footer.num_rows == 3
    assert footer.num_row_groups == 2
    assert [footer.num_rows_of(i) for i in range(2)] == [2, 1]
    assert footer.created_by == metadata.created_by
    assert footer.key_value_metadata[b"key"] == b"value"
    assert footer.column_orders == (1,) * 8
    assert not footer.encrypted
    for group in range(2):
        for leaf in footer.leaves:
            record, theirs = footer.chunk(group, leaf), metadata.row_group(group).column(leaf.index)
            assert record["num_values"] == theirs.num_values
            assert record["data_page_offset"] == theirs.data_page_offset
            assert record["compressed_size"] == theirs.total_compressed_size
            assert record["column_index_offset"] > 0
            assert record["offset_index_length"] > 0
            assert footer.statistics(record).null_count == theirs.statistics.null_count
            assert footer.has_values(group, leaf) == (theirs.num_values > theirs.statistics.null_count)


def test_where_data_lies(path):
    """Pages and page indexes, all within the file and none over another."""
    footer = footer_of(path)
    ranges = sorted(map(tuple, footer.data_ranges().tolist()))
    assert len(ranges) == 2 * 8 * 3
    assert ranges[0][0] == 4
    assert ranges[-1][1] == footer.start
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ranges))


def test_the_view_of_one_column(path):
    """Return the footer that pyarrow gets: one column, without a logical type, its pages where they are."""
    footer, data = footer_of(path), path.read_bytes()
    for leaf in footer.leaves:
        view = pq.read_metadata(pa.BufferReader(make_physical_view(footer, leaf)))
        assert (view.num_columns, view.num_row_groups, view.num_rows) == (1, 2, 3)
        column = view.schema.column(0)
        assert (column.physical_type, column.logical_type.type) == (leaf.physical, "NONE")
        original = pq.read_metadata(path).schema.column(leaf.index)
        assert (column.max_definition_level, column.max_repetition_level) == (
            original.max_definition_level,
            original.max_repetition_level,
        )
        file = pq.ParquetFile(pa.BufferReader(data), metadata=view)
        assert file.read().num_rows == 3


def change_metadata(path: Path, number: int, *value: object) -> Path:
    def change(footer: Struct) -> None:
        metadata = oracle.column_metadata(footer, 0, "i")
        if value:
            metadata.set(number, *value)
        else:
            del metadata[number]

    return surgery.rewrite_footer(path, change)


def test_chunks_that_are_another_columns(path):
    """Type numbers that do not exist are the same error as a wrong type."""
    data = path.read_bytes()
    for number, value, match in (
        *((1, (I32, kind), r"row group 0, column 'i'.*another type") for kind in (2, 7, 8, -1, 2**30, -(2**31))),
        (3, (LIST, Many(BINARY, [b"j"])), "names another column"),
    ):
        path.write_bytes(data)
        footer = footer_of(change_metadata(path, number, *value))
        with pytest.raises(MalformedFooterError, match=match):
            footer.chunk(0, footer.leaves[0])
        footer.chunk(1, footer.leaves[0])


def test_row_groups_with_too_few_chunks(path):
    data = path.read_bytes()
    for change, match in (
        (lambda footer: footer.value(4, [0], 1, [0]).pop(3), "missing"),
        (lambda footer: footer.value(4, [0], 1).items.pop(), "7 column chunks for 8 columns"),
    ):
        path.write_bytes(data)
        footer = footer_of(surgery.rewrite_footer(path, change))
        with pytest.raises(MalformedFooterError, match=match):
            footer.chunk(0, footer.leaves[0])
        assert footer.chunk(1, footer.leaves[7])["column"] == 7


def test_views_of_incomplete_chunks(path):
    data = path.read_bytes()
    for number in (4, 5, 6, 7, 9):
        for value in ((), (BINARY, b"five")):
            path.write_bytes(data)
            footer = footer_of(change_metadata(path, number, *value))
            with pytest.raises(MalformedFooterError, match=f"lacks field {number}"):
                make_physical_view(footer, footer.leaves[0])


def test_schema_elements_and_trees_that_cannot_be(path):
    data = path.read_bytes()
    names_and_types = (4, (I32, 5)), (5, (BINARY, b"x")), (1, (BINARY, b"x")), (1, (I32, 8)), (1, (I32, -1))
    for element, number, value in (
        *(("i", *each) for each in names_and_types),
        *((None, 5, (I32, children)) for children in (-1, 1, 5, 7, 2**31 - 1)),
    ):
        path.write_bytes(data)

        def change(footer, element=element, number=number, value=value):
            one = footer.value(2, [0]) if element is None else surgery.schema_element(footer, element)
            one.set(number, *value)

        surgery.rewrite_footer(path, change)
        with pytest.raises(MalformedFooterError, match="schema" if element is None else "metadata:"):
            _ = footer_of(path).leaves


def test_annotations_of_the_wrong_type_are_passed_over(path):
    """As readers do it."""
    data = path.read_bytes()
    for number in (2, 3, 6, 7, 8, 10):
        for value in ((BINARY, b"x"), (LIST, Many(I64, [1])), (I64, 2**62)):
            path.write_bytes(data)

            def change(footer, number=number, value=value):
                surgery.schema_element(footer, "i").set(number, *value)

            footer = footer_of(surgery.rewrite_footer(path, change))
            (leaf,) = [leaf for leaf in footer.leaves if leaf.name == "i"]
            for part in (leaf.converted, leaf.scale, leaf.precision, leaf.length):
                assert part is None or isinstance(part, int)
            assert leaf.logical is None or isinstance(leaf.logical, dict)


def test_required_fields_of_a_footer(path):
    for number in (2, 3, 4):
        for value in (None, (BINARY, b"x")):
            footer = oracle.read_footer(path)
            del footer[number]
            if value:
                footer.set(number, *value)
            with pytest.raises(MalformedFooterError, match="the footer has no"):
                Footer(oracle.write_struct(footer), oracle.footer_start(path.read_bytes()))


def test_odd_metadata_of_the_file(path):
    """Fields of a wrong type count as missing."""

    def change(footer: Struct) -> None:
        pairs = footer.value(5).items
        pairs.append(Struct({2: (BINARY, b"no key")}))
        pairs.append(Struct({1: (LIST, Many(I32, [])), 2: (BINARY, b"v")}))
        footer.set(6, BINARY, b"\xffwriter")
        footer.set(7, LIST, Many(I32, [1]))

    footer = footer_of(surgery.rewrite_footer(path, change))
    assert footer.key_value_metadata[b"key"] == b"value"
    assert footer.created_by == "\ufffdwriter"
    assert footer.column_orders == (-1,)
    surgery.rewrite_footer(path, lambda footer: [footer.pop(number) for number in (5, 6, 7)])
    bare = footer_of(path)
    assert (bare.key_value_metadata, bare.created_by, bare.column_orders) == ({}, None, ())


def test_signs_of_encryption(path):
    data = path.read_bytes()
    for number in (8, 9):
        path.write_bytes(data)
        surgery.rewrite_footer(path, lambda footer, number=number: footer.set(number, BINARY, b""))
        assert footer_of(path).encrypted
