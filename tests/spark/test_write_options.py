"""write_options: filters that Spark itself writes exist, are as good as requested, and no larger than necessary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.spark import write_options

pytestmark = pytest.mark.spark

ROWS = 40_000
# Leaf columns of every sort and how many values each row group of 20,000 rows has.
EXPRESSIONS = {
    "id * 7919 id": ("id", 20_000),
    "concat('u', id) UserId": ("UserId", 20_000),
    "id % 13000 middle": ("middle", 13_000),  # at fpp 0.01 the formula takes them for fewer than they are
    "cast(id % 10 as short) few": ("few", 10),
    "concat('only', id div 1000000) one": ("one", 1),
    "struct(id a, id % 2000 b) st": ("st.b", 2_000),
    "array(id, id + 1) li": ("li.list.element", 20_001),
    "map(id, 1) ma": ("ma.key_value.key", 20_000),
    "timestamp_micros(1600000000000000 + id) int96": ("int96", 20_000),
    "cast(id as decimal(38, 2)) `a #,= b`": ("a #,= b", 20_000),
}
NDV = dict(EXPRESSIONS.values())


@pytest.fixture(scope="module")
def written(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Writes all columns to one file of two row groups with the options given; returns its path."""
    frame = spark.range(0, ROWS, 1, 1).selectExpr(*EXPRESSIONS)

    def write(options: dict[str, str]) -> str:
        path = tmp_path_factory.mktemp("lake") / "one file"
        frame.write.options(**options).option("parquet.block.row.count.limit", ROWS // 2).parquet(str(path))
        return str(next(path.glob("*.parquet")))

    return write


def sizes(path: str | Path) -> dict[str, int]:
    """Bytes of each column's filters, which are alike in all row groups."""
    with parquet_bloom.open(path) as file:
        results = {(chunk.column, chunk.num_bytes) for chunk in file.chunks()}
    assert len(dict(results)) == len(results)
    return dict(results)


def real_fpp(path: str, column: str) -> float:
    """The share of 100,000 numbers which are in no row that the first filter of a column lets pass."""
    with parquet_bloom.open(path) as file:
        return float(file.filter(0, column).check(pa.array(range(10**12, 10**12 + 100_000))).mean())


@pytest.mark.parametrize("fpp", [0.1, 0.01, 0.0001])
def test_sized_by_ndv_as_embed_sizes(fpp: float, written: Any) -> None:
    path = written(write_options(list(NDV), fpp, NDV))
    expected = {name: parquet_bloom.size_for(ndv, fpp) for name, ndv in NDV.items()}
    assert {name: size for name, size in sizes(path).items() if size > 256} == {
        name: size for name, size in expected.items() if size > 256
    }
    # parquet-java rounds tiny ones up once more.
    assert all(expected[name] <= size <= 2 * expected[name] for name, size in sizes(path).items())
    assert parquet_bloom.verify(path, data=True).ok
    with parquet_bloom.open(path) as file:
        assert all(chunk.fpp < fpp * 1.05 for chunk in file.chunks())
    assert all(real_fpp(path, column) < fpp * 1.1 + 0.0001 for column in ("id", "middle", "st.b"))


@pytest.mark.parametrize("fpp", [0.1, 0.01, 0.0001])
def test_sized_by_the_values_without_a_count(fpp: float, written: Any) -> None:
    path = written(write_options(list(NDV), fpp))
    assert set(sizes(path)) == set(NDV)
    for name, size in sizes(path).items():
        # The smallest that it tries: parquet-java passes over those for fewer than 500 values.
        assert size == max(parquet_bloom.size_for(NDV[name], fpp), parquet_bloom.size_for(500, fpp)), name
    assert parquet_bloom.verify(path, data=True).ok
    assert all(real_fpp(path, column) < fpp * 1.1 + 0.0001 for column in ("id", "middle", "st.b"))


def test_columns_have_their_own_fpp_and_ndv(written: Any) -> None:
    columns = {"id": 0.1, "st.b": {"fpp": 0.001, "ndv": 2_000}, "middle": None, "li.list.element": {"ndv": 20_001}}
    path = written(write_options(columns, 0.02, ndv={"id": 20_000, "st.b": 5}))
    assert sizes(path) == {
        "id": parquet_bloom.size_for(20_000, 0.1),
        "st.b": parquet_bloom.size_for(2_000, 0.001),
        "middle": parquet_bloom.size_for(13_000, 0.02),
        "li.list.element": parquet_bloom.size_for(20_001, 0.02),
    }


@pytest.mark.parametrize("fpp", [pytest.param(0.2, marks=pytest.mark.long), 0.01, 0.0003])
def test_ndv_next_to_where_sizes_change(fpp: float, spark: Any, tmp_path: Path) -> None:
    for size in (1 << 10, 1 << 16):
        most = next(ndv for ndv in range(size // 8, size * 8) if parquet_bloom.fpp_for(ndv + 1, size) > fpp)
        for ndv in (most, most + 1):
            path = tmp_path / f"{size} {ndv}"
            spark.range(0, 1, 1, 1).write.options(**write_options("id", fpp, ndv)).parquet(str(path))
            assert sizes(next(path.glob("*.parquet"))) == {"id": parquet_bloom.size_for(ndv, fpp)}


def test_without_these_options(written: Any) -> None:
    """Reasons for the options: if one of these fails, parquet-java has changed, and they may change as well."""
    names = ("id", "few", "middle")
    enabled = {f"parquet.bloom.filter.enabled#{name}": "true" for name in names}
    assert sizes(written(enabled)) == {"id": 1 << 20}  # a dictionary instead of the others; all that may be
    ndv = {f"parquet.bloom.filter.expected.ndv#{name}": "19000" for name in names}
    (size,) = sizes(written(enabled | ndv)).values()
    assert parquet_bloom.fpp_for(19_000, size) < 0.01
    tight = {"parquet.bloom.filter.expected.ndv#id": "13000"}  # by its formula 9.68 bits a value
    assert parquet_bloom.fpp_for(13_000, sizes(written(enabled | tight))["id"]) > 0.012


def test_spark_and_read_parquet_skip_by_them(spark: Any, written: Any) -> None:
    path = written(write_options(["id", "few", "int96"], ndv=20_000))

    def scanned(where: str) -> int:
        frame = spark.read.parquet(path).where(where)
        frame.collect()
        plan = frame._jdf.queryExecution().executedPlan()
        return int(plan.collectLeaves().head().metrics().apply("numOutputRows").value())

    assert scanned("id = 7919") == ROWS // 2
    assert scanned("id = 7920") == 0
    assert scanned("few = 3") == ROWS
    assert parquet_bloom.prune(path, "int96 = TIMESTAMP '2020-09-13 12:26:40.000001'").selected_row_groups == 1


def test_names_that_parquet_java_does_not_find(spark: Any, tmp_path: Path) -> None:
    options = write_options(["a.b", "userid", "nobody"])
    spark.range(1).selectExpr("id `a.b`", "id UserId").write.options(**options).parquet(str(tmp_path / "none"))
    assert sizes(next((tmp_path / "none").glob("*.parquet"))) == {}


def test_invalid_arguments() -> None:
    for arguments, problem in (
        (([],), "no columns given that should get a filter"),
        (("id", 0), "fpp must be a number between 0 and 1, not 0"),
        (("id", 2), "fpp must be a number between 0 and 1, not 2"),
        (({"id": 1.5},), "column 'id': fpp must be a number between 0 and 1, not 1.5"),
        (("id", 0.01, 0.5), "column 'id': ndv must be a whole number of distinct values, not 0.5"),
        (("id", 0.01, -1), "column 'id': ndv must be a whole number of distinct values, not -1"),
        (("id", 0.01, "many"), "column 'id': ndv must be a whole number of distinct values, not 'many'"),
        (("id", 0.01, {"ID": 5}), "ndv is given for 'ID', which is not one of the columns that get filters"),
        (
            (["id", "ID"],),
            "column 'ID': Spark's options cannot distinguish it from 'id': write without filters, and embed them",
        ),
        ((["id "],), "column 'id ': Spark's options cannot represent a name that is empty or ends in a blank"),
        (([""],), "column '': Spark's options cannot represent a name that is empty or ends in a blank"),
        (({"id": {"power_of_two": False}},), "column 'id': parquet-java's filters have sizes that are powers of two"),
        (
            ("id", 0.01, 200_000_000),
            "column 'id': the largest filter, of 128 MiB, cannot hold 200,000,000 distinct values at fpp 0.01: write "
            "smaller row groups (parquet.block.size)",
        ),
        ((7,), "columns must be a list or mapping of dotted paths, not 7"),
    ):
        given: Any = arguments
        with pytest.raises(ParquetBloomError) as caught:
            write_options(*given)
        assert str(caught.value) == problem
