"""Files by writers that are known to be wrong lose no row by any path; those by later versions are pruned as before."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.oracle.oracle import BINARY, I64, STRUCT, Struct
from support.writers import surgery

import parquet_bloom
from parquet_bloom.cli import tool
from parquet_bloom.errors import UnusualPageError
from parquet_bloom.file.column_statistics import file_statistics
from parquet_bloom.file.metadata_cache import MetadataCache
from parquet_bloom.file.pages.page_columns import find_page_columns
from parquet_bloom.file.pages.page_lookup import PageLookup
from parquet_bloom.file.pages.row_group_batch import RowGroupBatch, RowGroups, RowsOfGroups
from parquet_bloom.metadata.footer import Footer
from parquet_bloom.metadata.writer_rules import KINDS, RULES, find_rules, parse_created_by
from parquet_bloom.storage import OpenFiles

ROWS, GROUPS = 100, 4


def table() -> pa.Table:
    """Four row groups: in each column every value of a row group is between 100 times its number and 99 more."""
    numbers = [i if i % 10 else None for i in range(ROWS * GROUPS)]

    def column(convert: Callable[[int], Any], arrow_type: pa.DataType) -> pa.Array:
        return pa.array([None if number is None else convert(number) for number in numbers], arrow_type)

    return pa.table(
        {
            "n": column(int, pa.int64()),
            "u": column(int, pa.uint32()),
            "s": column(lambda i: f"{i:05d}", pa.string()),
            "c": column(lambda i: f"{i:05d}", pa.string()).dictionary_encode(),
            "t": column(lambda i: dt.datetime(2021, 1, 1) + dt.timedelta(days=i), pa.timestamp("ms")),
            "d": column(Decimal, pa.decimal128(25, 0)),
        }
    )


WANTED = {  # one value of row group 2 of each column
    "n": "205",
    "u": "205",
    "s": "'00205'",
    "c": "'00205'",
    "t": "TIMESTAMP '2021-07-25 00:00:00'",
    "d": "205",
}


def lie(statistics: Struct) -> None:
    """Let statistics say what rules out all values and nulls: bounds at the far end, and a count of 0."""
    for field in (5, 6):
        width = len(statistics.value(field))
        low = {4: struct.pack("<i", 9999), 8: struct.pack("<q", 1 << 60)}
        statistics.set(field, BINARY, low.get(width, b"\x7e" * width))
    statistics.set(3, I64, 0)


def write(path: Path, created_by: str | None, columns: tuple[str, ...] = ()) -> Path:
    """A file by some writer, with statistics of some columns that are wrong."""
    pq.write_table(table(), path, row_group_size=ROWS, store_decimal_as_integer=False, use_dictionary=False)

    def change(footer: Struct) -> None:
        footer.pop(6, None)
        if created_by is not None:
            footer.set(6, BINARY, created_by.encode())
        for column in columns:
            for _, metadata in surgery.each_chunk(footer, column):
                lie(metadata.value(surgery.STATISTICS))

    return surgery.rewrite_footer(path, change)


def count_by_all_paths(path: Path, where: str) -> set[int]:
    """The numbers of rows that match, by each path that leads to them; one number if all agree."""
    folder = path.parent / f"{path.stem}_folder"
    folder.mkdir(exist_ok=True)
    for name in ("a", "b"):  # more than one file is planned in a batch
        (folder / f"{name}.parquet").write_bytes(path.read_bytes())
    dataset = parquet_bloom.dataset(str(path))
    opened = duckdb.connect()
    opened.register("ds", dataset)
    cache = MetadataCache()
    selected = parquet_bloom.prune(str(path), where, cache=cache).selected
    numbers = {
        parquet_bloom.read_table(str(path), where).num_rows,
        parquet_bloom.read_table(str(folder), where).num_rows // 2,
        dataset.scan(where).count_rows(),
        opened.sql(f"select count(*) from ds where {where}").fetchall()[0][0],
        parquet_bloom.scan_polars(str(path)).filter(pl.sql_expr(where)).collect().height,
    }
    return numbers if selected else {*numbers, 0}


def count_read(path: Path, where: str) -> int:
    return sum(len(groups) for groups in parquet_bloom.prune(str(path), where).selected.values())


BAD = [
    ("parquet-mr version 1.7.0 (build abcd)", ("s", "c", "d"), ("s", "c", "d")),
    ("parquet-mr version 1.8.0-SNAPSHOT (build abcd)", ("s",), ()),
    ("parquet-mr version 1.5.0-cdh5.4.9 (build abcd)", ("s",), ("s",)),
    ("parquet-mr version 1.9.0 (build abcd)", ("s", "u"), ()),
    ("parquet-mr", ("s", "c", "d"), ("s",)),
    ("parquet-mr version none (build abcd)", ("s",), ("s",)),
    ("parquet-cpp version 1.2.1-SNAPSHOT", ("s", "u", "d"), ()),
    ("parquet-cpp version 1.5.1-SNAPSHOT", ("c", "d"), ("c",)),
    ("parquet-cpp-arrow version 3.0.0", ("c", "d"), ("c",)),
    ("parquet-cpp-arrow version 4.0.1", ("c",), ("c",)),
    ("parquet-cpp-arrow version 10.0.1", ("c",), ("c",)),
    ("parquet-cpp-arrow version 11.0.0", ("c",), ("c",)),
    ("Parquet.Net version 4.25.0 (build 0123)", ("t",), ()),
    ("Parquet.Net version %Version% (build %Git.LongCommitHash%)", ("t",), ()),
    ("Parquet.Net version 6.0.3 (build 0123)", ("t",), ()),
    ("parquet-rs version 4.4.0 (build 0123)", ("s", "c", "u", "d"), ()),
    ("parquet-rs version 13.0.0", ("u", "d"), ()),
    ("Arrow2 - Native Rust implementation of Arrow", tuple("nuscd"), tuple("nuscd")),
    ("Polars", ("d", "u"), ()),
    ("Polars (python) version 1.35.2 (build 0123)", ("d",), ()),
    ("ClickHouse v25.3.2.1-testing", ("d",), ()),
    ("ClickHouse version 24.8.1 (build 0123)", ("d",), ()),
    ("hyparquet", ("d",), ()),
    ("parquet-go version 0.9.0", (), ("n", "s")),
]


@pytest.mark.parametrize(("created_by", "bounds", "nulls"), BAD)
def test_no_row_is_lost(created_by: str, bounds: tuple[str, ...], nulls: tuple[str, ...], tmp_path: Path) -> None:
    """What each bad writer is doubted of may be as wrong as can be."""
    path = write(tmp_path / "a.parquet", created_by)
    for column in {*bounds, *nulls}:
        lying = tmp_path / f"{column}.parquet"
        lying.write_bytes(path.read_bytes())

        def change(footer: Struct, column: str = column) -> None:
            for _, metadata in surgery.each_chunk(footer, column):
                statistics = metadata.value(surgery.STATISTICS)
                right = statistics.value(5), statistics.value(6), statistics.value(3)
                lie(statistics)
                if column not in bounds:
                    statistics.set(5, BINARY, right[0])
                    statistics.set(6, BINARY, right[1])
                if column not in nulls:
                    statistics.set(3, I64, right[2])

        surgery.rewrite_footer(lying, change)
        if column in bounds:
            for where in (f"{column} = {WANTED[column]}", f"{column} BETWEEN {WANTED[column]} AND {WANTED[column]}"):
                assert count_by_all_paths(lying, where) == {1}, (created_by, where)
        if column in nulls:
            assert count_by_all_paths(lying, f"{column} IS NULL") == {ROWS * GROUPS // 10}, (created_by, column)


GOOD = [
    *("parquet-mr version 1.10.0 (build abcd)", "parquet-mr version 1.16.0 (build abcd)", "parquet-rs version 14.0.0"),
    *("parquet-cpp-arrow version 12.0.0", "parquet-cpp-arrow version 26.0.1", "datafusion version 55.2.0"),
    *("Polars (python) version 2.1.0 (build 0123)", "ClickHouse version 26.9.2.1 (build 0123)"),
    *("DuckDB version v1.0.1-dev5504 (build 86723c9912)", "DuckDB", "Trino version 460 (build n/a)"),
    "impala version 1.0 (build 6cf94d29b2b7115df4de2c06e2ab4326d721eb55)",
    *("github.com/segmentio/parquet-go", "something new"),
]


@pytest.mark.ci
@pytest.mark.parametrize("created_by", [*GOOD, None])
def test_others_are_pruned_as_before(created_by: str | None, tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", created_by)
    for column, value in WANTED.items():
        assert count_read(path, f"{column} = {value}") == 1, (created_by, column)
        assert count_read(path, f"{column} > {value}") == 2, (created_by, column)
        assert count_read(path, f"{column} IS NULL") == GROUPS, (created_by, column)
    assert parquet_bloom.prune(str(path), f"c = {WANTED['c']}").doubts == []


def test_other_columns_of_bad_writers_are_pruned(tmp_path: Path) -> None:
    for created_by, columns in (
        ("parquet-mr version 1.7.0 (build abcd)", "nt"),
        ("parquet-cpp-arrow version 4.0.1", "s"),  # the Arrow schema says that it is not a dictionary
        *(("parquet-cpp-arrow version 3.0.0", "n"), ("Parquet.Net version 4.25.0 (build 0123)", "s")),
        *(("parquet-rs version 4.4.0", "n"), ("Polars", "s"), ("hyparquet", "s")),
        ("parquet-mr version 1.5.0-cdh5.5.0 (build abcd)", "n"),
    ):
        path = write(tmp_path / "a.parquet", created_by)
        for column in columns:
            assert count_read(path, f"{column} = {WANTED[column]}") == 1, (created_by, column)


def test_columns_that_may_be_dictionaries(tmp_path: Path) -> None:
    """Without the Arrow schema, or with one that cannot be read, any text may have been one."""

    def _spoil_schema(footer: Struct) -> None:
        for pair in footer.value(5).items:
            if pair.value(1) == b"ARROW:schema":
                pair.set(2, BINARY, b"no schema")

    for change in (lambda footer: footer.pop(5, None), lambda footer: _spoil_schema(footer)):
        path = write(tmp_path / "a.parquet", "parquet-cpp-arrow version 4.0.1")
        surgery.rewrite_footer(path, change)
        assert count_read(path, f"s = {WANTED['s']}") == GROUPS
        assert count_read(path, f"n = {WANTED['n']}") == 1


def test_counts_of_nulls_that_are_too_high(tmp_path: Path) -> None:
    """Polars counted nulls again for each page: as many nulls as values do not mean that all are null."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"s": ["x", None] * 50}), path, write_statistics=["s"])

    def change(footer: Struct) -> None:
        footer.set(6, BINARY, b"Polars")
        for _, metadata in surgery.each_chunk(footer):
            metadata.set(surgery.STATISTICS, STRUCT, Struct({3: (I64, 100)}))

    surgery.rewrite_footer(path, change)
    assert count_by_all_paths(path, "s = 'x'") == {50}
    assert count_by_all_paths(path, "s IS NOT NULL") == {50}


def test_a_file_without_a_writer_is_believed_where_its_order_is_declared(tmp_path: Path) -> None:
    """As parquet-java does: min and max of byte arrays, and their null counts, might be of a faulty parquet-mr."""
    path = write(tmp_path / "a.parquet", None)

    def change(footer: Struct) -> None:
        footer.pop(7, None)
        for column in ("s", "n"):
            for _, metadata in surgery.each_chunk(footer, column):
                statistics = metadata.value(surgery.STATISTICS)
                low, high = statistics.value(6), statistics.value(5)
                metadata.set(surgery.STATISTICS, STRUCT, Struct({1: (BINARY, high), 2: (BINARY, low), 3: (I64, 0)}))

    surgery.rewrite_footer(path, change)
    assert count_read(path, "n IS NULL") == 0  # numbers are not doubted
    assert count_read(path, "n = 205") == 1
    assert count_by_all_paths(path, "s IS NULL") == {ROWS * GROUPS // 10}


# ------------------------------------------------------------------------------------- what statistics contradict


def test_counts_that_contradict_the_number_of_values(tmp_path: Path) -> None:
    """They are not believed, nor are the bounds beside them: in one file and in many."""
    for null_count, nullable, is_bounded in (
        *((count, True, True) for count in (-1, 101, 1 << 40, 100)),
        *((100, False, False), (5, False, True)),
    ):
        path = tmp_path / f"{null_count}-{nullable}.parquet"
        schema = pa.schema([pa.field("n", pa.int64(), nullable)])
        pq.write_table(pa.table({"n": list(range(100))}, schema), path)
        bounds = {5: (BINARY, bytes(8)), 6: (BINARY, bytes(8))} if is_bounded else {}
        statistics = Struct({3: (I64, null_count), **bounds})

        def change(footer: Struct, statistics: Struct = statistics) -> None:
            for _, metadata in surgery.each_chunk(footer):
                metadata.set(surgery.STATISTICS, STRUCT, statistics)

        surgery.rewrite_footer(path, change)
        for where, expected in (("n = 7", 1), ("n IS NOT NULL", 100), ("n <> 0", 99)):
            assert count_by_all_paths(path, where) == {expected}, where


def test_a_list_column_of_fewer_values_than_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"l": [[1, 2], [3]] * 50}), path)

    def change(footer: Struct) -> None:
        for _, metadata in surgery.each_chunk(footer):
            metadata.set(5, I64, 0)

    surgery.rewrite_footer(path, change)
    assert count_read(path, "list_contains(l, 3)") == 1


# ------------------------------------------------------------------------------------- the same, one by one and many


def test_many_footers_are_doubted_as_each_one_is(tmp_path: Path) -> None:
    """Files by different writers in one batch: what is believed of each is what is believed of it alone."""
    writers = [name for name, *_ in BAD] + [*GOOD]
    paths = [write(tmp_path / f"{i:02d}.parquet", name) for i, name in enumerate(writers)]
    for where in ("s = '00205'", "c IS NULL", "d = 205", "u = 205", "t > TIMESTAMP '2021-07-25 00:00:00'"):
        alone = [count_read(path, where) for path in paths]
        together = parquet_bloom.prune(str(tmp_path), where)
        by_name = {Path(plan.path).name: plan.selected for plan in together.files}
        assert [len(by_name[path.name]) for path in paths] == alone, where
        cached = MetadataCache()
        parquet_bloom.prune(str(tmp_path), where, cache=cached)
        again = parquet_bloom.prune(str(tmp_path), where, cache=cached)
        assert [plan.selected for plan in again.files] == [plan.selected for plan in together.files]
    names = tuple(WANTED)
    for path in paths:
        with parquet_bloom.open(path) as file:
            one = file_statistics(file, names)
            (parsed,) = Footer.parse_many([file.footer.data], [file.footer.start])
            assert parsed is not None
            assert parsed.writer_rules == file.footer.writer_rules
            assert [reason.column for reason in one.doubts] == [
                name for name in names if file.footer.describe_doubts(file.leaf(name))
            ]


# ------------------------------------------------------------------------------------------------- filters and pages


@pytest.mark.parametrize(("version", "is_asked"), [("459", False), ("460", True)])
@pytest.mark.parametrize("name", ["Trino", "parquet-mr-trino"])
def test_filters_of_trino(name: str, version: str, is_asked: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": list(range(0, 2000, 2))}), path, row_group_size=250)
    parquet_bloom.embed(path, ["n"])
    surgery.rewrite_footer(path, lambda footer: footer.set(6, BINARY, f"{name} version {version} (build n/a)".encode()))
    report = parquet_bloom.prune(str(path), "n = 1001")
    assert report.selected_row_groups == (0 if is_asked else 1)
    assert [*{str(doubt) for *_, doubt in report.doubts}] == (
        []
        if is_asked
        else [
            f"'n': filters are not used, as '{name} version {version} (build n/a)' is known to get them wrong: "
            "values after the dictionary's are not in them (trino#22701)"
        ]
    )
    rows = json.loads(CliRunner().invoke(tool, ["show", str(path), "--json"]).stdout)
    assert {row["doubt"] is None for row in rows["filters"]} == {is_asked}
    assert len(rows["distrusted"]) == (0 if is_asked else 1)
    assert {chunk.note is None for chunk in parquet_bloom.verify(path, data=True).chunks} == {is_asked}


@pytest.mark.parametrize(
    ("created_by", "is_read_whole"),
    [
        ("parquet-mr version 1.7.0", True),
        (None, True),
        ("no name", True),
        ("parquet-mr version 1.8.0 (build a)", False),
    ],
)
def test_pages_of_delta_byte_arrays(created_by: str | None, is_read_whole: bool, tmp_path: Path) -> None:
    """Before 1.8.0 a page may go on with the last value of the page before: pages are not read alone (PARQUET-246)."""
    path = tmp_path / "a.parquet"
    values = [f"prefix{i:06d}" for i in range(20_000)]
    pq.write_table(
        pa.table({"s": values, "n": list(range(20_000))}),
        path,
        use_dictionary=False,
        column_encoding={"s": "DELTA_BYTE_ARRAY", "n": "PLAIN"},
        write_page_index=True,
        data_page_size=4096,
        write_batch_size=256,
    )

    def change(footer: Struct) -> None:
        footer.pop(6, None)
        if created_by is not None:
            footer.set(6, BINARY, created_by.encode())

    surgery.rewrite_footer(path, change)
    with parquet_bloom.open(path) as file:
        lookup = PageLookup(file, 0)
        assert (lookup.chunk_span(file.leaf("s")) is None) == is_read_whole
        assert lookup.chunk_span(file.leaf("n")) is not None
        files = OpenFiles([str(path)], [file.source.identity])
        assert files.open()
        batch = RowGroupBatch(RowGroups([file.footer], [(0, 0)]), find_page_columns(file, pq.read_schema(path)), files)

    rows = RowsOfGroups(np.array([1]), np.array([12_345]))
    with pytest.raises(UnusualPageError) if is_read_whole else nullcontext():
        assert batch.read(["s"], rows)["s"].to_pylist() == ["prefix012345"]
    files.close()
    assert parquet_bloom.read_table(str(path), "n = 12345")["s"].to_pylist() == ["prefix012345"]


def test_page_indexes_that_are_not_believed(tmp_path: Path) -> None:
    """ClickHouse left out one bound of pages with long texts: the empty text in its place rules out what is there."""
    from support.writers.page_indexes import COLUMN_INDEX, encode_bounds, locations, with_index

    path = tmp_path / "a.parquet"
    values = [f"{i:05d}" for i in range(20_000)]
    options = {"use_dictionary": False, "data_page_size": 4096, "write_batch_size": 256, "compression": "none"}
    pq.write_table(pa.table({"a": values}), path, write_page_index=True, **options)
    count = len(locations(path))
    index = encode_bounds([False] * count, [b""] * count, [b""] * count, [0] * count)
    with_index(path, index, kind=COLUMN_INDEX)

    def by(name: bytes) -> int:
        surgery.rewrite_footer(path, lambda footer: footer.set(6, BINARY, name))
        return parquet_bloom.read_table(str(path), "a = '12345'").num_rows

    assert by(b"ClickHouse v25.8.1.1") == 1
    assert by(b"ClickHouse version 26.3.1 (build a)") == 1


# --------------------------------------------------------------------------------------------------- what is reported


def test_doubts_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", "parquet-cpp-arrow version 4.0.1", ("c",))
    text = (
        "'c': minimum and maximum, null counts are not used, as 'parquet-cpp-arrow version 4.0.1' is known to get them "
        "wrong: of dictionary arrays it counts only the first batch, and before 6.0.0 no nulls "
        "(ARROW-12513, arrow#15042, arrow#34106)"
    )
    report = parquet_bloom.prune(str(path), "c IS NULL AND n < 250")
    assert [str(doubt) for *_, doubt in report.doubts] == [text] * 3
    assert "doubtful: 3 of 4 row groups" in report.explain()
    assert parquet_bloom.prune(str(path), "s = 'x'").doubts == []
    result = CliRunner().invoke(tool, ["show", str(path)])
    assert f"not all is believed of 1 column in 1 file, first of {text}" in result.output
    shown = json.loads(CliRunner().invoke(tool, ["show", str(path), "--json"]).stdout)
    assert shown["distrusted"] == [{"file": str(path), "column": "c", "doubt": text.removeprefix("'c': ")}]
    shown = json.loads(CliRunner().invoke(tool, ["show", str(path), "--json", "--column", "n"]).stdout)
    assert shown["distrusted"] == []


def test_a_rewritten_file_is_still_known(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", "parquet-cpp-arrow version 4.0.1", ("c",))
    parquet_bloom.embed(path, ["c"])
    assert count_by_all_paths(path, "c IS NULL") == {ROWS * GROUPS // 10}
    assert count_read(path, f"c = {WANTED['c']}") == 1  # by the filter


# ---------------------------------------------------------------------------------------------------------- created_by


def test_created_by() -> None:
    for created_by, *expected in (
        ("parquet-mr version 1.8.0 (build abcd)", "parquet-mr", (1, 8, 0), True),
        ("parquet-mr version 1.8.0rc4 (build abcd)", "parquet-mr", (1, 8, 0), False),
        ("parquet-mr version 1.8.0-SNAPSHOT", "parquet-mr", (1, 8, 0), False),
        ("parquet-mr version 1.8.0+xyz (build a)", "parquet-mr", (1, 8, 0), True),
        ("parquet-mr version 1.5.0-cdh5.5.0 (build abcd)", "parquet-mr", (1, 5, 0), False),
        ("parquet-mr version 1.6", "parquet-mr", (1, 6, 0), True),
        *((f"parquet-mr{more}", "parquet-mr", None, True) for more in ("", " version ", " version " + "9" * 5000)),
        ("parquet-cpp-arrow version 4.0.1", "parquet-cpp-arrow", (4, 0, 1), True),
        ("Trino version 460 (build n/a)", "Trino", (460, 0, 0), True),
        ("Trino version 459-e.1 (build n/a)", "Trino", (459, 0, 0), False),
        ("DuckDB version v1.4.2 (build 68d7555f68)", "DuckDB", (1, 4, 2), True),
        ("ClickHouse v25.5.2.1-testing", "ClickHouse", (25, 5, 2), False),
        ("Polars (rust) version 0.50.1 (build 12)", "Polars", (0, 50, 1), True),
        ("Polars", "Polars", None, True),
        ("Arrow2 - Native Rust implementation of Arrow", "Arrow2", None, True),
        ("Parquet.Net version %Version% (build %Git.LongCommitHash%)", "Parquet.Net", None, True),
        *(("a\nversion 1.2.3", "a", (1, 2, 3), True), ("\0\ufffd version \ufffd", "\0\ufffd", None, True)),
        *((text, "", None, True) for text in ("something else", "", None)),
    ):
        writer = parse_created_by(created_by)
        assert [writer.name, writer.version, writer.is_final] == expected, created_by
    for version, doubted in (
        *(("1.5.0-cdh5.4.9", True), ("1.5.0-cdh5.5.0", False), ("1.5.0-cdh5.10.1", False), ("1.5.0", True)),
        *(("1.6.0-cdh5.5.0", True), ("1.8.0rc1", True), ("1.8.0", False)),
    ):
        sources = [rule.source for rule in find_rules(f"parquet-mr version {version}").rules]
        assert ("PARQUET-251" in sources) == doubted, version


def test_rules_are_found_once_for_each_writer() -> None:
    assert find_rules("parquet-mr version 1.7.0") is find_rules("parquet-mr version 1.7.0")
    assert find_rules("DuckDB version v1.4.2 (build a)") is find_rules("parquet-cpp-arrow version 26.0.1")
    assert not find_rules("DuckDB version v1.4.2 (build a)").rules


def test_each_rule_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "compatibility.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|")]
    for rule in RULES:
        assert rule.columns in KINDS
        assert rule.doubts
        name = f"`{rule.writer}`" if rule.writer else "no name"
        fitting = [row for row in rows if name in row and rule.versions in row and f"| {rule.columns} |" in row]
        assert any(all(source in row for source in rule.source.split(", ")) for row in fitting), rule
