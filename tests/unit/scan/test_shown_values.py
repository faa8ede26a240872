"""Values that readers show otherwise than files store them: each way to ask finds the rows that show a value."""

from __future__ import annotations

import datetime as dt
import pickle
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers import surgery

import parquet_bloom
from parquet_bloom.errors import UnreadableColumnError
from parquet_bloom.hashing import int96
from parquet_bloom.hashing.column_type import JULIAN_EPOCH_DAY, NANOS_PER_DAY, encode, from_parquet
from parquet_bloom.predicate.tree import Compare, Contains, Equal, Or

EPOCH = dt.datetime(1970, 1, 1)


def find_rows(path: Path, column: str, literal: Any, dataset: Any = None) -> dict[str, list[int]]:
    """Return the numbers of the rows that equal a literal, by each way to ask for them."""
    where = Equal(column, literal)
    dataset = parquet_bloom.dataset(path) if dataset is None else dataset
    key = dataset.schema.field(column).type
    expression = pc.field(column) == pa.scalar(literal, key)
    either = dataset.scan(Or((where, Compare("n", "<", -1))), ["n"]).to_arrow()
    selected = parquet_bloom.prune(path, where).selected
    located = dataset.locate(column, pa.array([literal], key))
    return {
        "read": parquet_bloom.read_table(path, where, ["n"])["n"].to_pylist(),
        "either": either["n"].to_pylist(),
        "count": [dataset.scan(where).count_rows()],
        "get": dataset.get(column, literal, ["n"])["n"].to_pylist(),
        "locate": located["row"].to_pylist(),
        "pyarrow": dataset.to_table(["n"], expression)["n"].to_pylist(),
        "duckdb": [row for (row,) in duckdb.execute(f"SELECT n FROM dataset WHERE {column} = ?", [literal]).fetchall()],
        "polars": dataset.to_polars().filter(pl.col(column) == literal).collect()["n"].to_list(),
        "pruned": sorted(group for groups in selected.values() for group in groups),
    }


def count_rows(path: Path, where: Any) -> int:
    return int(parquet_bloom.dataset(path).scan(where).count_rows())


def assert_found(path: Path, column: str, literal: Any, rows: list[int], group_rows: int, dataset: Any = None) -> None:
    """Check that each way to ask finds these rows, whose numbers are those in the file, and no others."""
    found = find_rows(path, column, literal, dataset)
    assert {row // group_rows for row in rows} <= {*found.pop("pruned")}
    assert found.pop("count") == [len(rows)]
    assert found == dict.fromkeys(found, rows)


def annotate(path: Path, column: str, bits: int, signed: bool) -> None:
    """Annotate a column of INT32; its statistics stay."""

    def change(footer: Any) -> None:
        surgery.schema_element(footer, column).set(10, oracle.STRUCT, surgery.integer_annotation(bits, signed))

    surgery.rewrite_footer(path, change)


def write_integers(path: Path, values: list[int | None], bits: int, signed: bool, **options: Any) -> Path:
    """Write integers of 32 bits under an annotation for fewer."""
    has_filter, has_statistics = options.pop("has_filter", False), options.pop("has_statistics", True)
    table = pa.table({"i": pa.array(values, pa.int32()), "n": range(len(values))})
    pq.write_table(table, path, store_schema=False, **{"row_group_size": 2, **options})
    if has_filter:  # of what is stored, as other writers would make it
        parquet_bloom.embed(path, ["i"])
    annotate(path, "i", bits, signed)
    return path if has_statistics else surgery.without_statistics(path)


OUTSIDE = [5, 1000, -1, 65536 + 7, 3, None, 255, -300, 2**31 - 1, 7]


@pytest.mark.ci
@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize(("bits", "signed"), [(8, True), (8, False), (16, True), (16, False)])
def test_integers_of_more_bits_than_their_type(tmp_path: Path, bits: int, signed: bool, has_statistics: bool) -> None:
    options = {"has_filter": True, "has_statistics": has_statistics, "use_dictionary": signed}
    path = write_integers(tmp_path / "a.parquet", OUTSIDE, bits, signed, **options)
    shown = pq.read_table(path)["i"].to_pylist()
    assert shown != OUTSIDE
    for value in {*shown} - {None}:
        assert_found(path, "i", value, [row for row, one in enumerate(shown) if one == value], 2)
    for value in (1000, -300, 65543):
        if value not in shown:
            assert parquet_bloom.read_table(path, Equal("i", value)).num_rows == 0
    for value in (0, 5):
        rows = [row for row, one in enumerate(shown) if one is not None and one < value]
        assert parquet_bloom.read_table(path, Compare("i", "<", value), ["n"])["n"].to_pylist() == rows


def test_one_bound_does_not_tell_what_is_shown(tmp_path: Path) -> None:
    """255 is shown as -1, which is below the least value."""
    path = write_integers(tmp_path / "a.parquet", [5, 255], 8, True)

    def drop_upper_bound(footer: Any) -> None:
        for _, metadata in surgery.each_chunk(footer, "i"):
            for number in (1, 5):
                metadata.value(surgery.STATISTICS).pop(number, None)

    surgery.rewrite_footer(path, drop_upper_bound)
    assert_found(path, "i", -1, [1], 2)


def test_a_column_chunk_without_bounds_among_files_with_them(tmp_path: Path) -> None:
    """Files of one schema are read together; of the chunk without bounds nothing is known, and of the others all."""
    for number in range(3):
        path = tmp_path / f"{number}.parquet"
        values = [*range(10 * number, 10 * number + 3 * 3)]
        pq.write_table(pa.table({"i": pa.array(values, pa.int8())}), path, row_group_size=3)
        parquet_bloom.embed(path, ["i"])

    def drop_bounds(footer: Any) -> None:
        _, metadata = [*surgery.each_chunk(footer, "i")][1]
        for number in (1, 2, 5, 6):
            metadata.value(surgery.STATISTICS).pop(number, None)

    odd = surgery.rewrite_footer(tmp_path / "1.parquet", drop_bounds)
    for value in (3, 14, 24):
        report = parquet_bloom.prune(tmp_path, Equal("i", value))
        expected = {str(tmp_path / f"{value // 10}.parquet"): [value % 10 // 3]}
        assert report.selected == {str(odd): [1]} | expected, value
        assert parquet_bloom.read_table(tmp_path, Equal("i", value))["i"].to_pylist() == [value]


def test_pages_of_wide_integers(tmp_path: Path) -> None:
    """Bounds of pages are of stored values; one page of the chunk has values outside of the type."""
    values = [*range(50, 114)] * 4096  # so many that the page index is worth a read
    values[3000] = 300
    table = pa.table({"i": pa.array(values, pa.int32()), "n": range(len(values))})
    path = tmp_path / "a.parquet"
    options = {"write_page_index": True, "use_dictionary": False, "compression": "none", "data_page_size": 1 << 14}
    pq.write_table(table, path, store_schema=False, **options)
    annotate(path, "i", 8, False)
    assert_found(path, "i", 44, [3000], len(values))
    ranges = parquet_bloom.dataset(path).scan(Equal("i", 44)).row_ranges()[str(path)][0]
    assert any(start <= 3000 < stop for start, stop in ranges)
    assert sum(stop - start for start, stop in ranges) < len(values) / 2  # of the other pages the bounds are believed
    assert_found(path, "i", 113, [row for row, value in enumerate(values) if value == 113], len(values))


def test_wide_integers_in_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    lists = [[65535], [3, 70000], [], None, [4464], [-1, 5]]
    table = pa.table({"l": pa.array(lists, pa.list_(pa.int32())), "n": range(6)})
    pq.write_table(table, path, store_schema=False, row_group_size=2)
    parquet_bloom.embed(path, ["l"])
    annotate(path, "element", 16, True)
    for value, rows in ((-1, [0, 5]), (4464, [1, 4]), (3, [1]), (70000, [])):
        assert parquet_bloom.read_table(path, Contains("l", value), ["n"])["n"].to_pylist() == rows
        assert parquet_bloom.dataset(path).scan(Contains("l", value)).count_rows() == len(rows)
        query = f"SELECT n FROM dataset WHERE list_contains(l, {value})"
        dataset = parquet_bloom.dataset(path)
        assert dataset is not None
        assert [row for (row,) in duckdb.sql(query).fetchall()] == rows


def test_integers_within_their_type_are_pruned_as_before(tmp_path: Path) -> None:
    path = write_integers(tmp_path / "a.parquet", [-100, 100, -100, 50, -99, 120], 8, True, has_filter=True)
    report = parquet_bloom.prune(path, Equal("i", 50))
    assert report.selected == {str(path): [1]}
    assert not report.doubts
    assert parquet_bloom.prune(path, Equal("i", 101)).selected == {}  # by the filter, in the last row group
    surgery.without_statistics(path)
    report = parquet_bloom.prune(path, Equal("i", 50))
    assert report.selected_row_groups == 3
    assert "no bounds show" in str(report.doubts)


def test_many_files_of_narrow_integers(tmp_path: Path) -> None:
    """Footers of many files are read at once, and few rows are searched in pages."""
    for number in range(40):
        values = [number * 1000 % 251 if number != 7 else 256 + 9] * 2 + [100 + number] + [250] * 60
        bits = 8 if number % 2 else 16
        write_integers(tmp_path / f"{number:02}.parquet", values, bits, False, has_filter=True, row_group_size=100)
    shown = [value for path in tmp_path.iterdir() for value in pq.ParquetFile(path).read()["i"].to_pylist()]
    for value in (9, 103, 0):
        assert parquet_bloom.read_table(tmp_path, Equal("i", value)).num_rows == shown.count(value)
        assert count_rows(tmp_path, Equal("i", value)) == shown.count(value)
    assert parquet_bloom.read_table(tmp_path / "07.parquet", Equal("i", 9)).num_rows == 2  # 265, as it is stored


def test_a_file_that_an_index_does_not_know(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    write_integers(lake / "a.parquet", [1, 2], 8, True)
    parquet_bloom.LakeIndex.create(tmp_path / "i.index", ["i"]).append(lake)
    write_integers(lake / "b.parquet", [3, 255], 8, True)
    dataset = parquet_bloom.dataset(lake, index=tmp_path / "i.index")
    for _ in range(2):
        assert dataset.get("i", -1)["n"].to_pylist() == [1]
        assert dataset.get("i", 2)["n"].to_pylist() == [1]


@pytest.mark.parametrize("physical", ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"])
def test_decimals_of_more_digits_than_their_type(tmp_path: Path, physical: str) -> None:
    """They are shown as they are stored; a literal of so many digits is compared as such."""
    unscaled = [1, 12345678, -30000000, 150, 99999, 20000001]
    of_type: dict[str, tuple[pa.DataType, list[Any]]] = {
        "INT32": (pa.int32(), unscaled),
        "INT64": (pa.int64(), unscaled),
        "FIXED_LEN_BYTE_ARRAY": (pa.binary(9), [one.to_bytes(9, "big", signed=True) for one in unscaled]),
        "BYTE_ARRAY": (pa.binary(), [one.to_bytes(6, "big", signed=True) for one in unscaled]),
    }
    data_type, stored = of_type[physical]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"d": pa.array(stored, data_type), "n": range(6)}), path, row_group_size=2)
    surgery.relabel(path, "d", surgery.decimal_annotation(5, 2))
    dataset = parquet_bloom.dataset(path)
    for row, value in enumerate(unscaled):
        literal = Decimal(value).scaleb(-2)
        assert parquet_bloom.read_table(path, Equal("d", literal), ["n"])["n"].to_pylist() == [row]
        assert dataset.scan(Or((Equal("d", literal), Compare("n", "<", 0)))).count_rows() == 1
        assert dataset.get("d", [literal, literal], ["n"])["n"].to_pylist() == [row, row]
        for operator, is_met in (("<", value.__gt__), (">=", value.__le__)):
            rows = [number for number, other in enumerate(unscaled) if is_met(other)]
            assert parquet_bloom.read_table(path, Compare("d", operator, literal), ["n"])["n"].to_pylist() == rows


def write_int96(path: Path, forms: list[tuple[int, int] | None], **options: Any) -> Path:
    """Write INT96 values, given as (days since 1970, nanoseconds); `embed` puts a filter of their bytes in."""
    has_filter = options.pop("has_filter", False)
    raw = [one and struct.pack("<qi", one[1], one[0] + JULIAN_EPOCH_DAY) for one in forms]
    pq.write_table(pa.table({"t": pa.array(raw, pa.binary(12)), "n": range(len(raw))}), path, **options)
    if has_filter:
        parquet_bloom.embed(path, ["t"])
    surgery.relabel(path, "t", None, physical=3)
    return surgery.rewrite_footer(path, lambda footer: surgery.schema_element(footer, "t").pop(2))


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False, "write_page_index": True, "has_filter": True}])
def test_a_time_of_day_beyond_the_day(tmp_path: Path, options: dict[str, Any]) -> None:
    """Bytes differ, what is shown does not; a filter has the bytes, of which forms a day apart are probed."""
    noon = NANOS_PER_DAY // 2
    days = (0, 1, -1) if options.get("has_filter") else (0, 1, -1, 2, -100, 106_000)
    forms: list[tuple[int, int] | None] = [(100 - day, noon + day * NANOS_PER_DAY) for day in days]
    path = write_int96(tmp_path / "a.parquet", [*forms, None, (5, 0), (101, 0)], row_group_size=1, **options)
    moment, rows = dt.datetime(1970, 4, 11, 12), list(range(len(days)))
    assert_found(path, "t", moment, rows, 1)
    last = len(days)
    for operator, expected in (
        (">=", [*rows, last + 2]),
        ("<=", [*rows, last + 1]),
        (">", [last + 2]),
        ("<", [last + 1]),
    ):
        assert parquet_bloom.read_table(path, Compare("t", operator, moment), ["n"])["n"].to_pylist() == expected
        kernel = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}[operator]
        expression = kernel(pc.field("t"), pa.scalar(moment, pa.timestamp("ns")))
        assert parquet_bloom.dataset(path).to_table(["n"], expression)["n"].to_pylist() == expected


FIRST, LAST = divmod(-(2**63), NANOS_PER_DAY), divmod(2**63 - 1, NANOS_PER_DAY)
FAR = [(FIRST[0], FIRST[1] - 1), (LAST[0], LAST[1] + 1), (dt.date(1400, 1, 1).toordinal() - 719_163, 0), (2_932_896, 5)]
"""Moments that nanoseconds do not count, and by how little."""


@pytest.mark.parametrize("form", FAR)
@pytest.mark.parametrize("num_rows", [3, 5000])
def test_moments_that_nanoseconds_do_not_count(tmp_path: Path, form: tuple[int, int], num_rows: int) -> None:
    """Their rows are counted and found, and no other date is shown, by whole columns and by pages."""
    forms: list[tuple[int, int] | None] = [(FIRST[0] + 1, 5), LAST, *[(18_000 + row, 7) for row in range(num_rows - 2)]]
    forms[1] = form
    path = write_int96(tmp_path / "a.parquet", forms, write_page_index=True, data_page_size=4096)
    dataset = parquet_bloom.dataset(path)
    micros = EPOCH + dt.timedelta(days=form[0], microseconds=form[1] // 1000)
    nanos = form[0] * NANOS_PER_DAY + form[1]
    is_whole = nanos % 1000 == 0
    message = "row group 0, column 't': holds INT96 timestamps .*; leave the column out, or open a dataset"
    with pytest.raises(UnreadableColumnError, match=message):
        parquet_bloom.read_table(path, "n = 1")
    with pytest.raises(UnreadableColumnError, match=message):
        dataset.to_table()
    with pytest.raises(UnreadableColumnError, match=message):
        list(dataset.scan("n >= 0").to_batches())
    assert parquet_bloom.read_table(path, "n = 1", ["n"])["n"].to_pylist() == [1]
    shown = parquet_bloom.read_table(path, "n = 2")["t"]
    assert shown.cast(pa.int64()).to_pylist() == [18_000 * NANOS_PER_DAY + 7]
    assert count_rows(path, Compare("t", "<" if nanos < 0 else ">", dt.datetime(2000, 1, 1))) >= 1
    if is_whole:
        assert count_rows(path, Equal("t", micros)) == 1
        with pytest.raises(UnreadableColumnError, match=message):
            parquet_bloom.read_table(path, Equal("t", micros))
    wrapped = pa.scalar((nanos + 2**63) % 2**64 - 2**63, pa.timestamp("ns"))
    assert count_rows(path, Equal("t", wrapped)) == 0
    with pytest.raises(UnreadableColumnError, match=message):  # Arrow compares the rows itself
        dataset.to_table(filter=pc.field("t") == wrapped)


def test_moments_at_the_ends_of_nanoseconds_are_shown(tmp_path: Path) -> None:
    path = write_int96(tmp_path / "a.parquet", [FIRST, LAST, None, (FIRST[0] + 1, FIRST[1] - NANOS_PER_DAY)])
    shown = parquet_bloom.read_table(path, "n >= 0")["t"].cast(pa.int64()).to_pylist()
    assert shown == [-(2**63), 2**63 - 1, None, -(2**63)]
    assert parquet_bloom.dataset(path).to_table()["t"].cast(pa.int64()).to_pylist() == shown


def test_large_row_groups_are_checked_in_the_rows_that_are_read(tmp_path: Path) -> None:
    """Rows are decoded a window at a time; only rows that are shown have to fit."""
    forms: list[tuple[int, int] | None] = [(row % 20_000, 0) for row in range(200_000)]
    forms[150_000] = FAR[2]
    path = write_int96(tmp_path / "a.parquet", forms, use_dictionary=False)
    dataset = parquet_bloom.dataset(path)
    assert dataset.scan("n <> 150000", ["t"]).to_arrow().num_rows == 199_999
    with pytest.raises(UnreadableColumnError, match="column 't'"):
        dataset.scan("n > 100000", ["t"]).to_arrow()


def test_int96_in_structs_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    far, near = dt.datetime(9999, 12, 31), dt.datetime(2020, 1, 1)
    structs = pa.array([{"t": near}, None, {"t": far}], pa.struct([("t", pa.timestamp("us"))]))
    lists = pa.array([[near], [], [near, far]], pa.list_(pa.timestamp("us")))
    table = pa.table({"s": structs, "l": lists, "n": range(3)})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert parquet_bloom.read_table(path, "n = 0", ["s"])["s"].to_pylist() == [{"t": near}]
    assert parquet_bloom.read_table(path, Equal("s.t", far), ["n"])["n"].to_pylist() == [2]
    for column, leaf in (("s", "s.t"), ("l", "l.list.element")):
        with pytest.raises(UnreadableColumnError, match=f"row group 0, column '{leaf}': holds INT96"):
            parquet_bloom.read_table(path, "n = 2", [column])
    shown = parquet_bloom.dataset(path, schema=table.schema).to_table()
    assert shown.equals(table)


def test_a_schema_in_microseconds_shows_all_years(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    moments = [dt.datetime(1400, 1, 1), dt.datetime(2020, 5, 17, 1, 2, 3, 4), dt.datetime(9999, 12, 31), None]
    table = pa.table({"t": pa.array(moments, pa.timestamp("us")), "n": range(4)})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=2)
    dataset = parquet_bloom.dataset(path, schema=table.schema)
    assert dataset.to_table().equals(table)
    assert pickle.loads(pickle.dumps(dataset)).to_table().equals(table)
    for row, moment in enumerate(moments[:3]):
        assert_found(path, "t", moment, [row], 2, dataset) if row == 1 else None
        assert dataset.get("t", moment)["n"].to_pylist() == [row]
        assert dataset.locate("t", moment)["row"].to_pylist() == [row]
        assert dataset.to_table(filter=pc.field("t") == moment)["n"].to_pylist() == [row]
        assert duckdb.execute("SELECT n FROM dataset WHERE t = ?", [moment]).fetchall() == [(row,)]
        assert dataset.to_polars().filter(pl.col("t") == moment).collect()["n"].to_list() == [row]
    # With nanoseconds in the schema it is as without one.
    mixed = pa.schema([("t", pa.timestamp("us")), ("n", pa.int64()), ("other", pa.timestamp("ns"))])
    with pytest.raises(UnreadableColumnError, match="column 't'"):
        parquet_bloom.dataset(path, schema=mixed).to_table()


def test_fractions_of_microseconds_are_compared_as_they_are_shown(tmp_path: Path) -> None:
    """Filters, indexes and zones have what is stored."""
    lake = tmp_path / "lake"
    lake.mkdir()
    path = write_int96(lake / "a.parquet", [(5, 123_456_789), (6, 1000), (-5, 999)], row_group_size=1, has_filter=True)
    parquet_bloom.LakeIndex.create(tmp_path / "t.index", ["t"]).append(lake)
    schema = pa.schema([("t", pa.timestamp("us")), ("n", pa.int64())])
    moments = [EPOCH + dt.timedelta(5, 0, 123_456), EPOCH + dt.timedelta(6, 0, 1), EPOCH + dt.timedelta(-5)]
    for index in (None, tmp_path / "t.index"):
        dataset = parquet_bloom.dataset(lake, schema=schema, index=index)
        assert dataset.to_table()["t"].to_pylist() == moments
        for row, moment in enumerate(moments):
            assert dataset.get("t", moment)["n"].to_pylist() == [row]
            assert dataset.locate("t", [moment])["row"].to_pylist() == [row]
            assert dataset.scan(Equal("t", moment)).count_rows() == 1
            assert dataset.to_table(filter=pc.field("t") == moment)["n"].to_pylist() == [row]
    exact = pa.scalar(5 * NANOS_PER_DAY + 123_456_789, pa.timestamp("ns"))
    assert parquet_bloom.read_table(path, Equal("t", exact))["n"].to_pylist() == [0]
    assert parquet_bloom.dataset(path).get("t", exact)["n"].to_pylist() == [0]
    assert parquet_bloom.dataset(path, schema=schema).scan(Equal("t", exact)).count_rows() == 0


def test_forms_of_one_moment() -> None:
    column_type = from_parquet("INT96")
    forms = encode(5 * NANOS_PER_DAY + 1, column_type)
    assert [struct.unpack("<qi", one) for one in forms] == [
        (1, JULIAN_EPOCH_DAY + 5),
        (1 - NANOS_PER_DAY, JULIAN_EPOCH_DAY + 6),
        (1 + NANOS_PER_DAY, JULIAN_EPOCH_DAY + 4),
    ]
    last = (2**31 - 1 - JULIAN_EPOCH_DAY) * NANOS_PER_DAY
    assert len(encode(last, column_type)) == 2


@pytest.mark.parametrize("unit", ["ns", "us"])
def test_what_is_shown_is_what_pyarrow_shows(tmp_path: Path, unit: str) -> None:
    """Wherever `find_hidden` does not say otherwise."""
    rng = np.random.default_rng(5)
    days = np.concatenate([rng.integers(-(2**31), 2**31, 400), JULIAN_EPOCH_DAY + rng.integers(-106_800, 106_800, 600)])
    nanos = np.concatenate([rng.integers(-(2**63), 2**63 - 1, 500), rng.integers(-1, NANOS_PER_DAY + 1, 500)])
    raw = [struct.pack("<qi", nano, day) for nano, day in zip(rng.permutation(nanos), days, strict=True)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": pa.array([*raw, None], pa.binary(12))}), path)
    surgery.relabel(path, "t", None, physical=3)
    surgery.rewrite_footer(path, lambda footer: surgery.schema_element(footer, "t").pop(2))
    stored = pa.array([*raw, None], pa.binary(12))
    hidden = int96.find_hidden(stored, unit)
    assert 50 < hidden.sum() < 950
    shown = pq.ParquetFile(path, coerce_int96_timestamp_unit=unit).read()["t"].cast(pa.int64()).to_pylist()
    per_day = NANOS_PER_DAY if unit == "ns" else NANOS_PER_DAY // 1000
    for number, (one, is_hidden) in enumerate(zip(raw, hidden.tolist(), strict=False)):
        nano, day = struct.unpack("<qi", one)
        exact = (day - JULIAN_EPOCH_DAY) * per_day + (nano if unit == "ns" else nano // 1000)
        assert (shown[number] == exact) or is_hidden
        assert is_hidden == (shown[number] != exact) or unit == "us"
    seen = stored.filter(pa.array(~hidden))
    assert int96.to_shown(seen, unit).cast(pa.int64()).to_pylist() == [
        one for one, is_hidden in zip(shown, hidden.tolist(), strict=True) if not is_hidden
    ]


def test_a_moment_without_a_day_in_int96(tmp_path: Path) -> None:
    path = write_int96(tmp_path / "a.parquet", [(2**31 - 1 - JULIAN_EPOCH_DAY, NANOS_PER_DAY)])
    with pytest.raises(UnreadableColumnError, match="row group 0, column 't': a time of day leads to a day"):
        count_rows(path, Equal("t", EPOCH))


@pytest.mark.ci
@pytest.mark.parametrize("data_type", [pa.float64(), pa.float32(), pa.float16()])
def test_keys_that_are_floats(tmp_path: Path, data_type: pa.DataType) -> None:
    """Both zeros are one key, and so is every NaN, as for `=`."""
    values = pa.array(np.array([0.0, -0.0, np.nan, -np.nan, 1.5, np.inf], data_type.to_pandas_dtype()), data_type)
    pq.write_table(pa.table({"x": values, "n": range(6)}), tmp_path / "a.parquet", row_group_size=2)
    parquet_bloom.LakeIndex.create(tmp_path / "x.index", ["x"]).append(tmp_path / "a.parquet")
    for index in (None, tmp_path / "x.index"):
        dataset = parquet_bloom.dataset(tmp_path / "a.parquet", index=index)
        for keys, rows in ((0.0, [0, 1]), (-0.0, [0, 1]), (float("nan"), [2, 3]), ([1.5, np.inf], [4, 5])):
            assert dataset.get("x", keys)["n"].to_pylist() == rows
            assert dataset.locate("x", keys)["row"].to_pylist() == rows
            assert parquet_bloom.semi_join(dataset, [*np.atleast_1d(keys)], "x").to_arrow()["n"].to_pylist() == rows
        assert dataset.get("x", [0.0, -0.0])["n"].to_pylist() == [0, 1, 0, 1]  # as of any key that is given twice
        assert dataset.locate("x", [0.0, -0.0])["row"].to_pylist() == [0, 1]
        assert parquet_bloom.semi_join(dataset, [0.0, -0.0], "x").to_arrow()["n"].to_pylist() == [0, 1]
        assert dataset.get(["x", "n"], [(-0.0, 0), (float("nan"), 3)])["n"].to_pylist() == [0, 3]


def test_far_dates_among_rows_of_pages(tmp_path: Path) -> None:
    """Single rows are taken out of their pages, without pyarrow; an error names a date, another row is shown."""
    forms: list[tuple[int, int] | None] = [(row % 20_000, row) for row in range(20_000)]
    forms[777] = FAR[3]
    forms[778] = None
    path = write_int96(tmp_path / "a.parquet", forms, write_page_index=True, data_page_size=4096, use_dictionary=False)
    for row in (5, 778, 776, 19_999):
        shown = parquet_bloom.read_table(path, Equal("n", row))["t"].cast(pa.int64()).to_pylist()
        assert shown == [None if row == 778 else row * NANOS_PER_DAY + row]
    with pytest.raises(UnreadableColumnError, match="row group 0, column 't': holds INT96"):
        parquet_bloom.read_table(path, Equal("n", 777))
    with pytest.raises(UnreadableColumnError, match="row group 0, column 't': holds INT96"):
        parquet_bloom.read_table(path, "n IN (776, 777)")


def test_fractions_of_microseconds_in_a_table(tmp_path: Path) -> None:
    """A table shows INT96 in microseconds."""
    path = write_int96(tmp_path / "a.parquet", [(5, 123_456_789), (6, 1000)], row_group_size=1, has_filter=True)
    pytest.importorskip("deltalake").convert_to_deltalake(tmp_path)
    dataset = parquet_bloom.dataset(tmp_path)
    moments = [EPOCH + dt.timedelta(5, 0, 123_456), EPOCH + dt.timedelta(6, 0, 1)]
    assert [moment.replace(tzinfo=None) for moment in dataset.to_table()["t"].to_pylist()] == moments
    for row, moment in enumerate(moments):
        assert dataset.get("t", moment)["n"].to_pylist() == [row]
        assert parquet_bloom.read_table(tmp_path, Equal("t", moment))["n"].to_pylist() == [row]
        assert parquet_bloom.read_table(path, "n >= 0").num_rows == 2
