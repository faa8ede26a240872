"""Columns of every type, in every format: rows are read and found, and filters made, as pyarrow has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.scans import ALL_PAGES, BY_PAGES, scan
from support.servers.counted import CountedFileSystem
from support.writers.typed_columns import ARROW_TYPES, FORMATS, draw_values, write_options

import parquet_bloom
from parquet_bloom.file.column_hashes import distinct_hashes, hash_distinct
from parquet_bloom.file.pages.page_columns import find_page_columns
from parquet_bloom.file.pages.row_group_batch import RowGroupBatch, RowGroups, RowsOfGroups
from parquet_bloom.metadata.page_match import Targets
from parquet_bloom.scan.scan_options import Limits

ROWS, GROUP, FILES = 1600, 700, 2
LISTS = {
    "ints": pa.int64(),
    "shorts": pa.int16(),
    "texts": pa.string(),
    "times": pa.timestamp("us"),
    "flags": pa.bool_(),
}
each_format = pytest.mark.parametrize("name", FORMATS)


def make_table(number: int) -> pa.Table:
    """Return a table with a column of each type: of one value, of few, or of many, with nulls or without."""
    rng = np.random.default_rng(number)

    def draw(position: int, kind: pa.DataType, rows: int = ROWS) -> pa.Array:
        pool = draw_values(kind, (1, 20, 300)[position % 3])
        picked = rng.integers(0, len(pool), rows)
        picked[300:500] = picked[0]
        nulls = 1.0 if position % 11 == 10 else (0.0, 0.3)[position % 2]
        return pool.take(pa.array(picked, mask=rng.random(rows) < nulls))

    kinds = [kind for kind in ARROW_TYPES if not str(kind).endswith("_view")]  # of which pyarrow takes no rows
    columns: dict[str, Any] = {str(kind): draw(i + number, kind) for i, kind in enumerate(kinds)}
    columns["row"] = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int32())
    columns["uuid"] = pa.ExtensionArray.from_storage(pa.uuid(), draw(1, pa.binary(16)))
    columns["words"] = draw(1, pa.string()).dictionary_encode()
    columns["flag"] = pa.array(rng.random(ROWS) < 0.5, mask=rng.random(ROWS) < 0.1)
    lengths = rng.integers(0, 6, ROWS)
    lengths[::200] = 150  # they go on in other pages
    offsets = pa.array([0, *np.cumsum(lengths)], pa.int32())
    for i, (name, kind) in enumerate(LISTS.items()):
        elements = draw(i, kind, lengths.sum()) if kind != pa.bool_() else pa.array(rng.random(lengths.sum()) < 0.5)
        nulls = pa.array(rng.random(ROWS) < 0.2 if i % 2 else np.zeros(ROWS, bool))
        columns[name] = pa.ListArray.from_arrays(offsets, elements, mask=nulls)
    numbers = list(range(ROWS))
    columns["pairs"] = pa.array([None if n % 7 == 0 else [[n, None], []] for n in numbers])
    columns["large"] = pa.array([[f"x{n}"] * (n % 3) for n in numbers], pa.large_list(pa.string()))
    columns["fixed"] = pa.array([None if n % 5 == 0 else [n, n + 1] for n in numbers], pa.list_(pa.int32(), 2))
    columns["parts"] = pa.array([[{"q": f"q{n}", "r": n}] * (n % 3) for n in numbers])
    columns["map"] = pa.array([[(f"k{n}", n)] * (n % 2) for n in numbers], pa.map_(pa.string(), pa.int32()))
    columns["st"] = pa.array([None if n % 3 == 0 else {"a": n, "b": {"c": f"c{n % 9}"}} for n in numbers])
    return pa.table(columns)


@pytest.fixture(scope="module")
def tables() -> list[pa.Table]:
    return [make_table(number) for number in range(FILES)]


def write(folder: Path, tables: list[pa.Table], name: str) -> list[Path]:
    folder.mkdir()
    paths = [folder / f"{number}.parquet" for number in range(FILES)]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, row_group_size=GROUP, **write_options(name, table.schema))
    return paths


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Return whether two tables are equal; a dictionary's entries may stand in any order."""
    assert found.schema.equals(expected.schema, check_metadata=True)

    def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column

    return all(plain(a).equals(plain(b)) for a, b in zip(found.columns, expected.columns, strict=True))


@pytest.mark.ci
@each_format
def test_rows_are_those_of_pyarrow(name: str, tables: list[pa.Table], tmp_path: Path) -> None:
    """Few, many and all rows are read, and values of each column are found, by pages where that can be."""

    def has_literal(scalar: pa.Scalar) -> bool:
        try:
            return scalar.as_py() is not None
        except (ValueError, OverflowError):  # years that Python does not have
            return False

    def plain_values(column: pa.ChunkedArray) -> list[Any]:
        """Return values that can be compared, of any time too."""
        array = column.combine_chunks()
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pa.types.is_temporal(array.type):
            array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        return array.to_pylist()

    paths = write(tmp_path / "lake", tables, name)
    every = pa.concat_tables([pq.ParquetFile(path).read() for path in paths])
    rng = np.random.default_rng(5)
    dataset = parquet_bloom.dataset(tmp_path / "lake")
    for rows in ([3], [0, GROUP - 1, GROUP, ROWS - 1, ROWS, ROWS + 900], np.sort(rng.choice(2 * ROWS, 900, False))):
        found = dataset.scan([("row", "in", [int(row) for row in rows])]).to_arrow()
        assert same(found, every.take(rows))
    assert same(dataset.scan().to_arrow(), every)
    for field in every.schema:
        if pa.types.is_nested(field.type) or pa.types.is_duration(field.type):
            continue
        column, values = every[field.name], plain_values(every[field.name])
        first = {value: row for row, value in reversed([*enumerate(values)]) if value is not None}
        usable = [value for value, row in first.items() if has_literal(column[row])]
        wanted = {usable[i]: column[first[usable[i]]] for i in rng.permutation(len(usable))[:3]}
        literals = [one if pa.types.is_temporal(field.type) else one.as_py() for one in wanted.values()]
        rows = [row for row, value in enumerate(values) if value in wanted]
        names = [*dict.fromkeys(["row", field.name])]
        query = dataset.scan([(field.name, "in", literals)], names)
        assert same(query.to_arrow(), every.select(names).take(pa.array(rows, pa.int64()))), field.name
        assert query.count_rows() == len(rows)
        both = dataset.scan([(field.name, "in", literals), ("row", "<", ROWS)], ["row"])
        assert both.to_arrow()["row"].to_pylist() == [row for row in rows if row < ROWS], field.name
        for value, literal in zip(wanted, literals[:1], strict=False):
            got = dataset.get(field.name, [literal], ["row"])["row"].to_pylist()
            assert got == [row for row in rows if values[row] == value], field.name
    for where in ("array_contains(ints, 0)", "array_contains(texts, '')", "arrays_overlap(shorts, ARRAY(1, 7))"):
        lists, wanted = where.partition("(")[2].split(",")[0], {0, ""} if "contains" in where else {1, 7}
        rows = [row for row, value in enumerate(every[lists].to_pylist()) if value and not wanted.isdisjoint(value)]
        assert same(dataset.scan(where).to_arrow(), every.take(rows))


@pytest.mark.ci
@each_format
def test_rows_of_remote_files_are_those_of_pyarrow(name: str, tables: list[pa.Table], tmp_path: Path) -> None:
    """In requests that cost nothing, so that pages are fetched wherever that can be, and in such as have a price."""
    path = write(tmp_path / "lake", tables, name)[0]
    every = pq.ParquetFile(path).read()
    for limits in (BY_PAGES, Limits()):
        for rows in ([77], [5, GROUP - 1, GROUP + 1, ROWS - 1]):
            files = CountedFileSystem({"a.parquet": path.read_bytes()})
            found = scan("a.parquet", [("row", "in", rows)], limits=limits, filesystem=files).to_arrow()
            assert same(found, every.take(rows))
        for where, column in (([("int64", "in", every["int64"][5:8].to_pylist())], "int64"), ("string = ''", "string")):
            wanted = [*every[column][5:8].to_pylist()] if column == "int64" else [""]
            expected = every.filter(pc.is_in(every[column], pa.array(wanted, every[column].type)))
            found = scan("a.parquet", where, limits=limits, filesystem=files).to_arrow()
            assert same(found, expected)


@each_format
def test_rows_are_taken_and_found_in_pages(name: str, tables: list[pa.Table], tmp_path: Path) -> None:
    """In pages of every encoding, whether a scan would search them or not."""
    path = write(tmp_path / "lake", tables, name)[0]
    every, rng = pq.ParquetFile(path).read(), np.random.default_rng(6)
    for files in (None, CountedFileSystem({"a.parquet": path.read_bytes()})):
        with parquet_bloom.open("a.parquet" if files else path, files) as file:
            groups, columns = (
                RowGroups([file.footer], [(0, n) for n in range(3)]),
                find_page_columns(file, every.schema),
            )
            batch = RowGroupBatch.of_file(file, groups, columns, ALL_PAGES)
            names = [column for column, one in columns.items() if one.layout is not None]
            assert len(names) > 40
            some = [np.sort(rng.choice(size, 9, False)) for size in (GROUP, ROWS - 2 * GROUP)]
            expected = every.take(np.concatenate([some[0], some[1] + 2 * GROUP]))
            found = batch.read(names, RowsOfGroups(np.array([9, 0, 9]), np.concatenate(some)))
            assert files or [*found] == names
            for column, array in found.items():
                assert same(pa.table({column: array}), pa.table({column: expected[column]})), column
            for column, width in (("int32", 4), ("int64", 8), ("string", 0)):
                values = every[column].drop_null().unique().to_pylist()[-3:]
                stored = [one.to_bytes(width, "little", signed=True) if width else one.encode() for one in values]
                result = batch.search(column, Targets(stored), ROWS)
                if result is not None or not files:
                    rows = result[0].rows + GROUP * np.repeat(np.arange(3), result[0].counts)
                    assert rows.tolist() == [i for i, v in enumerate(every[column].to_pylist()) if v in values], column


@each_format
def test_filters_hold_the_stored_values(name: str, tables: list[pa.Table], tmp_path: Path) -> None:
    """Filters are those that `write_table` makes, have their column's hashes, and are dropped without a trace."""
    (path, _), table = write(tmp_path / "lake", tables, name), tables[0]
    before, every = path.read_bytes(), pq.read_table(path)
    with parquet_bloom.open(path) as file:
        leaves = [leaf for leaf in file.leaves if leaf.physical != "BOOLEAN"]
        hashes = {leaf.name: [set(part.tolist()) for _, part in distinct_hashes(file, leaf)] for leaf in leaves}
        repeated = {leaf.name for leaf in leaves if leaf.repeated}
    report = parquet_bloom.embed(path, [*hashes])
    assert path.read_bytes().startswith(before[: oracle.footer_start(before)])
    assert pq.read_table(path).equals(every)
    assert parquet_bloom.verify(path, data=True).ok
    assert not parquet_bloom.embed(path, [*hashes]).changed
    with parquet_bloom.open(path) as file:
        for chunk in file.chunks():
            expected = hashes[chunk.column][chunk.row_group]
            assert chunk.filter.check_hashes(np.array([*expected], np.uint64)).all()
            others = [one for some in hashes[chunk.column] for one in some if one not in expected]
            assert len(others) < 100 or chunk.filter.check_hashes(np.array(others, np.uint64)).mean() < 0.1
    for column, of_groups in hashes.items():
        if column not in repeated and column in table.column_names:
            assert set(hash_distinct(table[column])[1].tolist()) == set().union(*of_groups), column
    options = {"row_group_size": GROUP, **write_options(name, table.schema)}
    written = parquet_bloom.write_table(table, tmp_path / "w.parquet", [*hashes], **options)
    stored = [{key: one.bitset for key, one in oracle.filters(each).items()} for each in (path, tmp_path / "w.parquet")]
    assert stored[0] == stored[1]
    assert report.num_filters == written.num_filters == len(stored[0])
    for row in (0, GROUP, ROWS - 1):
        for column in ("int64", "string", "decimal128(38, 10)", "st.a"):
            if (value := every["st"][row]["a"] if column == "st.a" else every[column][row]).is_valid:
                selected = parquet_bloom.prune(path, [(column, "=", value.as_py())]).selected
                assert row // GROUP in selected[str(path)], column
    parquet_bloom.drop(path)
    assert path.read_bytes() == before
