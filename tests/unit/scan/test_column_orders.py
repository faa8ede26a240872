"""Bounds count in the order that the footer declares of them, if that is one of the column's type, and in no other."""

import random
import struct
from math import inf, nan
from operator import eq, ge, gt, le, lt, ne

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.corpus import FOLDER
from support.oracle.oracle import BINARY, I64, STRUCT, Struct
from support.writers.page_indexes import COLUMN_INDEX, encode_bounds, locations, with_index
from support.writers.surgery import each_chunk, relabel, rewrite_footer, schema_element, with_bounds, with_order

import parquet_bloom
from parquet_bloom.hashing.column_type import JULIAN_EPOCH_DAY, NANOS_PER_DAY, Order

FLOATS = {pa.float16(): "<e", pa.float32(): "<f", pa.float64(): "<d"}
DAY = NANOS_PER_DAY


def write_floats(path, values, arrow_type, order, nan_count):
    """A file of one row group, with bounds as its order wants them: of the numbers, or of NaNs alone."""
    array = pa.array(np.array(values, arrow_type.to_pandas_dtype()))
    pq.write_table(pa.table({"x": array}), path, use_dictionary=False)
    numbers = sorted(value for value in values if value == value)
    bounds = None
    if numbers or order == Order.IEEE_754:
        bounds = tuple(struct.pack(FLOATS[arrow_type], end) for end in (numbers or [nan])[:: max(1, len(numbers) - 1)])
        bounds = bounds[0], bounds[-1]
    counts = {"null_count": 0} if nan_count is None else {"null_count": 0, "nan_count": nan_count}
    return with_order(with_bounds(path, "x", [bounds], **counts), "x", order)


@pytest.mark.parametrize("arrow_type", FLOATS)
@pytest.mark.parametrize("order", [Order.TYPE, Order.IEEE_754])
@pytest.mark.parametrize(
    ("values", "outside", "inside"),
    [
        ([-2.0, -1.0, -0.0, 0.0, 5.0], ["x > 5.5", "x < -2.5", "x = 7", "x BETWEEN 6 AND 8"], ["x <> 5", "x >= 5"]),
        ([0.0, 1.0, 2.0], ["x < -0.5", "x = -1"], ["x = -0.0", "x <= -0.0", "x < 0.5"]),
        ([-3.0, -0.0], ["x > 0.5", "x = 1"], ["x = 0.0", "x >= 0.0"]),
        ([1.0, nan, 3.0], ["x < 0.5", "x = 7"], ["x > 100", "x = 1", "x <> 1", "NOT x < 4"]),
        ([nan, nan], ["x < 100", "x = 1", "x <= 0"], ["x > 100", "x <> 1"]),
    ],
)
def test_bounds_of_floats(tmp_path, arrow_type, order, values, outside, inside):
    nans = sum(value != value for value in values)
    path = write_floats(tmp_path / "a.parquet", values, arrow_type, order, nans)
    for where in outside:
        assert parquet_bloom.prune(path, where).skipped_by == {"range": 1}, where
    for where in inside:
        assert parquet_bloom.read_table(path, where).num_rows, where
    # Without the count nothing says that there is no NaN, which is above all numbers.
    path = write_floats(tmp_path / "b.parquet", values, arrow_type, order, None)
    for where in ("x > 50", "x <> 5", *inside):
        assert parquet_bloom.prune(path, where).skipped_by == {}, where


def order_of_sql(value):
    """NaN is above all numbers, and equal to itself; both zeros are equal."""
    return (1, 0.0) if value != value else (0, value)


@pytest.mark.ci
@pytest.mark.parametrize("order", [None, Order.TYPE, Order.IEEE_754])
@pytest.mark.parametrize("arrow_type", FLOATS)
def test_no_row_of_random_floats_is_lost(tmp_path, arrow_type, order):
    """By bounds as pyarrow writes them, without an order, and as each order wants them."""
    path, numbers = tmp_path / "a.parquet", random.Random(str(arrow_type))
    skipped = 0
    for _ in range(10):
        pool = numbers.sample([-inf, -2.5, -0.0, 0.0, 1.0, 1.5, 60000.0, inf, nan, nan, nan], 4)
        values = [numbers.choice(pool[: numbers.randint(1, 4)]) for _ in range(15)]
        array = pa.array(np.array(values, arrow_type.to_pandas_dtype()))
        pq.write_table(pa.table({"x": array, "n": range(15)}), path, row_group_size=5, use_dictionary=False)
        if order is not None:
            for group in range(3):
                part = values[5 * group : 5 * group + 5]
                declare_bounds(path, group, part, FLOATS[arrow_type], order)
            with_order(path, "x", order)
        for operator in ("<", "<=", "=", "<>", ">=", ">"):
            literal = numbers.choice([*pool, 1.25, -70000.0, 0.0])
            if literal != literal:
                continue
            compare = {"<": lt, "<=": le, "=": eq, "<>": ne, ">=": ge, ">": gt}[operator]
            expected = [n for n, x in enumerate(values) if compare(order_of_sql(x), order_of_sql(literal))]
            where = [("x", "!=" if operator == "<>" else operator, literal)]
            assert parquet_bloom.read_table(path, where, ["n"])["n"].to_pylist() == expected, (values, where)
            skipped += parquet_bloom.prune(path, where).skipped_by.get("range", 0)
    assert skipped > (5 if order is None else 20)


def declare_bounds(path, row_group, values, form, order):
    numbers = [value for value in values if value == value]
    ends = (min(numbers), max(numbers)) if numbers else (nan, nan)
    if order == Order.TYPE:
        ends = ends[0] or -0.0, ends[1] or 0.0
    fields = {3: (I64, 0), 9: (I64, len(values) - len(numbers))}
    if numbers or order == Order.IEEE_754:
        fields |= {5: (BINARY, struct.pack(form, ends[1])), 6: (BINARY, struct.pack(form, ends[0]))}

    def change(footer):
        _, metadata = [*each_chunk(footer, "x")][row_group]
        metadata.set(12, STRUCT, Struct(dict(sorted(fields.items()))))

    rewrite_footer(path, change)


@pytest.mark.parametrize("order", [None, Order.INT96_TIMESTAMP, 4, 77])
@pytest.mark.parametrize("arrow_type", [pa.int32(), pa.float64(), pa.string(), pa.float16()])
def test_bounds_in_another_order_are_not_used(tmp_path, order, arrow_type):
    """Neither the deprecated ones, which a writer of that order may have written in it."""
    values = ["b", "c"] if arrow_type == pa.string() else np.array([2, 3], arrow_type.to_pandas_dtype())
    literal = "'a'" if arrow_type == pa.string() else "1"
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": pa.array(values, arrow_type)}), path, use_dictionary=False, write_page_index=True)
    assert parquet_bloom.prune(path, f"x <= {literal}").skipped_by == {"range": 1}
    ranges = parquet_bloom.prune(with_order(path, "x", order), f"x <= {literal}")
    assert ranges.skipped_by == {}
    assert parquet_bloom.read_table(path, f"x > {literal}").num_rows == 2


@pytest.mark.parametrize("order", [Order.IEEE_754, Order.INT96_TIMESTAMP])
def test_no_other_type_has_the_order_of_one(tmp_path, order):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": pa.array([2, 3], pa.int64())}), path, use_dictionary=False)
    assert parquet_bloom.prune(with_order(path, "x", order), "x = 1").skipped_by == {}


PAGES = {"compression": "none", "write_page_index": True, "data_page_size": 1, "write_batch_size": 2500}


def test_pages_without_nan_are_skipped_by_order(tmp_path):
    """In the pages of a chunk that has NaNs; where an index does not count them, none is skipped."""
    path, where = tmp_path / "a.parquet", "x > 4"
    values = np.array([[1.0, 2.0], [nan, 3.0], [5.0, 6.0], [nan, nan]]).repeat(1250)
    pq.write_table(pa.table({"x": values}), path, use_dictionary=False, **PAGES)
    with_bounds(path, "x", [(struct.pack("<d", 1.0), struct.pack("<d", 6.0))], null_count=0, nan_count=3750)
    with_order(path, "x", Order.IEEE_754)
    assert [row for _, _, row in locations(path, "x")] == [0, 2500, 5000, 7500]
    low, high = ([struct.pack("<d", end) for end in ends] for ends in ([1.0, 3.0, 5.0, nan], [2.0, 3.0, 6.0, nan]))
    for nan_counts, first in (
        ([0, 1250, 0, 2500], 2500),
        (None, 0),
        # Counts that contradict themselves, the pages, or the column chunk.
        ([0, 0, 0, 0], 0),
        ([0, 1250, -1, 2501], 0),
        ([0, 1250, 2500], 0),
    ):
        with_index(path, encode_bounds([False] * 4, low, high, [0] * 4, nan_counts=nan_counts), "x", kind=COLUMN_INDEX)
        assert parquet_bloom.dataset(path).scan(where).row_ranges() == {str(path): {0: [(first, 10_000)]}}
        assert parquet_bloom.read_table(path, where).num_rows == 6250


def pack(day, nanos):
    return struct.pack("<qi", nanos, day + JULIAN_EPOCH_DAY)


def write_int96(path, groups, order=Order.INT96_TIMESTAMP, **options):
    """A file of INT96 timestamps, given as (day, nanoseconds of the day), with bounds in their order."""
    values = [pack(*value) for group in groups for value in group]
    table = pa.table({"t": pa.array(values, pa.binary(12)), "n": range(len(values))})
    pq.write_table(table, path, row_group_size=len(groups[0]), use_dictionary=False, **options)
    relabel(path, "t", None, physical=3)
    rewrite_footer(path, lambda footer: schema_element(footer, "t").pop(2))
    with_bounds(path, "t", [(pack(*min(group)), pack(*max(group))) for group in groups], null_count=0)
    return with_order(path, "t", order)


NOON, EVENING = DAY // 2, DAY * 3 // 4
GROUPS = [[(-1, NOON), (0, 0)], [(0, NOON), (0, EVENING)], [(1, 0), (200_000, 5)]]  # the last one beyond nanoseconds


def test_int96_in_its_order(tmp_path):
    path = write_int96(tmp_path / "a.parquet", GROUPS)
    for where, groups in (
        ("t = TIMESTAMP '1970-01-01 13:00:00'", [1]),
        ("t < TIMESTAMP '1970-01-01 00:00:00'", [0]),
        ("t <= TIMESTAMP '1970-01-01 12:00:00'", [0, 1]),
        ("t > TIMESTAMP '1970-01-01 18:00:00'", [2]),
        ("t > TIMESTAMP '2517-01-01'", [2]),
        ("t < TIMESTAMP '1969-12-31 11:00:00'", []),
    ):
        report = parquet_bloom.prune(path, where)
        assert [*report.selected.get(str(path), [])] == groups, where
        assert report.skipped_by == ({"range": 3 - len(groups)})
    assert "t" in {column.column for column in parquet_bloom.advise(path).columns}
    assert parquet_bloom.read_table(path, "t >= TIMESTAMP '1970-01-01 12:00:00' AND n < 4", ["n"])["n"].to_pylist() == [
        2,
        3,
    ]


@pytest.mark.parametrize("order", [Order.TYPE, Order.IEEE_754, None, 4])
def test_int96_in_any_other_order(tmp_path, order):
    path = write_int96(tmp_path / "a.parquet", GROUPS, order)
    assert parquet_bloom.prune(path, "t < TIMESTAMP '1960-01-01'").skipped_by == {}


@pytest.mark.parametrize("form", [(-1, DAY), (0, -1), (-1, 3 * DAY)])
def test_int96_whose_bounds_are_beyond_the_day(tmp_path, form):
    """Days are compared first, which is no order of moments then."""
    path = write_int96(tmp_path / "a.parquet", [[form, (0, NOON)]])
    assert parquet_bloom.prune(path, "t > TIMESTAMP '1975-01-01'").skipped_by == {}
    assert parquet_bloom.prune(path, "t < TIMESTAMP '1960-01-01'").skipped_by == {}


@pytest.mark.parametrize("is_cut", [True, False])
def test_int96_by_pages(tmp_path, is_cut):
    """What is shown in microseconds may be below the least of what is stored, so the bounds are not used then."""
    path, days = tmp_path / "a.parquet", range(4)
    groups = [[(day, nanos) for day in days for nanos in (999, 1999) for _ in range(1250)]]
    write_int96(path, groups, **PAGES)
    low, high = [pack(day, 999) for day in days], [pack(day, 1999) for day in days]
    with_index(path, encode_bounds([False] * 4, low, high, [0] * 4), "t", kind=COLUMN_INDEX)
    schema = pa.schema([("t", pa.timestamp("us")), ("n", pa.int64())]) if is_cut else None
    scan = parquet_bloom.dataset(path, schema=schema).scan("t <= TIMESTAMP '1970-01-03'")
    assert scan.row_ranges() == {str(path): {0: [(0, 10_000 if is_cut else 5000)]}}
    assert scan.count_rows() == (6250 if is_cut else 5000)


CORPUS = FOLDER / "floating_orders_nan_count.parquet"


@pytest.mark.skipif(not CORPUS.exists(), reason="no file of another project")
def test_the_file_of_other_readers():
    table = pq.read_table(CORPUS)
    for name in table.column_names:
        values = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in table[name].chunks]).astype("f8")
        for literal in (-6.0, -5.0, -2.0, -0.5, 0.0, 0.25, 2.0, 5.0, 6.0):
            with np.errstate(invalid="ignore"):
                expected = {
                    "<": values < literal,
                    "=": values == literal,
                    "<>": values != literal,
                    ">": ~(values <= literal),
                }
            for operator, mask in expected.items():
                where = f"{name} {operator} {literal}"
                assert parquet_bloom.read_table(CORPUS, where).num_rows == mask.sum(), where
    # All but the row group of all kinds of numbers, or those that may have NaN.
    assert parquet_bloom.prune(CORPUS, "double_ieee754 < -4").skipped_by == {"range": 4}
    assert parquet_bloom.prune(CORPUS, "float16_typedef > 6").skipped_by == {"range": 3}
    assert parquet_bloom.prune(CORPUS, [("float_ieee754", "=", inf)]).skipped_by == {"range": 5}
