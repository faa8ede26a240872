"""Test folders `name=value` as columns: their types, the files they rule out unopened, and their place in results."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from support.servers.counted import CountedFileSystem

import parquet_bloom
from parquet_bloom import errors
from parquet_bloom.scan.model.folder_partitions import Partitions

DAYS = ["2026-01-01", "2026-01-02", "2026-01-03"]
COUNTRIES = ["de", "fr", "__HIVE_DEFAULT_PARTITION__"]
ROWS = 20


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("partitions") / "lake"
    number = 0
    for day in DAYS:
        for country in COUNTRIES:
            ids = list(range(number, number + ROWS))
            path = write(root / f"day={day}" / f"country={country}" / "0.parquet", {"id": ids}, row_group_size=5)
            parquet_bloom.embed(path, ["id"])
            number += ROWS
    return root


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


# ------------------------------------------------------------------------------------------------------------
# What folders say
# ------------------------------------------------------------------------------------------------------------


def values(*folders: str) -> tuple[list[Any], str]:
    """The values that folders `k=...` have together, and their type."""
    paths = [f"lake/k={folder}/x.parquet" for folder in folders]
    partitions = Partitions(paths)
    return [partitions.values(path)["k"] for path in paths], str(partitions.schema.field("k").type)


@pytest.mark.parametrize(
    ("folders", "expected", "kind"),
    [
        (["1", "-20", "0"], [1, -20, 0], "int64"),
        (["1", "__HIVE_DEFAULT_PARTITION__"], [1, None], "int64"),
        (["9223372036854775807"], [2**63 - 1], "int64"),
        (["9223372036854775808"], ["9223372036854775808"], "string"),
        (["07", "10"], ["07", "10"], "string"),
        (["-0"], ["-0"], "string"),
        (["+7"], ["+7"], "string"),
        (["1", "x"], ["1", "x"], "string"),
        (["1.5"], ["1.5"], "string"),
        (["\u0661"], ["\u0661"], "string"),
        (["2026-01-31", "0001-01-01"], [dt.date(2026, 1, 31), dt.date(1, 1, 1)], "date32[day]"),
        (["2026-01-31", "2026-02-30"], ["2026-01-31", "2026-02-30"], "string"),
        (["2026-01-31", "1"], ["2026-01-31", "1"], "string"),
        (["2026-1-31"], ["2026-1-31"], "string"),
        (["__HIVE_DEFAULT_PARTITION__"], [None], "string"),
        (["a%3Ab%2Fc%25", "%C3%A4", "%zz"], ["a:b/c%", "ä", "%zz"], "string"),
        (["", "b=c", "NULL"], ["", "b=c", "NULL"], "string"),
    ],
)
def test_all_values_of_a_name_decide_its_type(folders: list[str], expected: list[Any], kind: str) -> None:
    assert values(*folders) == (expected, kind)


@pytest.mark.parametrize("folder", ["%E4", "\udce4", "%00%FF"])
def test_invalid_texts_are_not_columns(folder: str) -> None:
    assert not Partitions([f"k={folder}/x.parquet"])


def test_names_are_those_that_all_paths_have() -> None:
    assert Partitions(["a=1/b=2/x", "b=3/a=4/x"]).schema.names == ["a", "b"]
    assert Partitions(["a=1/b=2/x", "b=3/x"]).schema.names == ["b"]
    assert not Partitions(["a=1/x", "x"])
    assert not Partitions(["dir/a=1.parquet"])  # the file's own name
    assert not Partitions(["=1/x", "a/x"])
    assert Partitions(["k=1/k=2/x"]).values("k=1/k=2/x") == {"k": 1}
    assert Partitions(["a%20b=1/x"]).schema.names == ["a b"]
    assert not Partitions([])


def test_the_same_types_as_duckdb(tmp_path: Path) -> None:
    pools = [["1", "2", "-3"], ["01", "1"], [*DAYS], ["a", "1"], ["a%3Ab", "ä"], ["1", "__HIVE_DEFAULT_PARTITION__"]]
    kinds = {"int64": "BIGINT", "date32[day]": "DATE", "string": "VARCHAR"}
    for number, pool in enumerate(pools):
        root = tmp_path / str(number)
        for position, value in enumerate(pool):
            write(root / f"k={value}" / "x.parquet", {"x": [position]})
        table = parquet_bloom.read_table(root, "x >= 0")
        other = duckdb.sql(f"SELECT x, k FROM read_parquet('{root}/**/*.parquet', hive_partitioning=1)")
        assert str(other.types[1]) == kinds[str(table.schema.field("k").type)]
        assert sorted(rows_of(table), key=str) == sorted(other.fetchall(), key=str)


# ------------------------------------------------------------------------------------------------------------
# What they rule out
# ------------------------------------------------------------------------------------------------------------


def test_files_ruled_out_are_not_opened(tree: Path) -> None:
    report = parquet_bloom.prune(tree, "day = '2026-01-02' AND id = 65", cache=None)
    assert (report.total_files, report.unopened_files, report.requests) == (9, 6, 3)
    assert report.selected == {f"{tree}/day=2026-01-02/country=de/0.parquet": [1]}
    assert (report.total_row_groups, report.selected_row_groups) == (12, 1)
    assert all(not file.row_groups for file in report.files if file.unopened)
    assert str(report).startswith("read 1 of 9 files, 1 of 12 row groups; 6 files in other partitions; 3 requests, ")
    text = report.explain()
    assert f"{tree}/day=2026-01-01/country=de/0.parquet: not opened: its folder says day is 2026-01-01" in text
    assert "not opened: 6 files" in report._repr_html_()


def test_files_ruled_out_need_not_be_readable(tmp_path: Path) -> None:
    good = write(tmp_path / "k=1" / "a.parquet", {"x": [1]})
    (tmp_path / "k=2").mkdir()
    (tmp_path / "k=2" / "b.parquet").write_bytes(b"no Parquet")
    assert parquet_bloom.prune(tmp_path, "k = 1").selected == {str(good): [0]}
    assert parquet_bloom.read_table(tmp_path, "k = 1").to_pylist() == [{"x": 1, "k": 1}]
    with pytest.raises(errors.NotParquetError):
        parquet_bloom.prune(tmp_path, "k = 1 OR x = 2")


def test_no_filter_is_probed_where_folders_decide_alone(tree: Path) -> None:
    report = parquet_bloom.prune(tree, "day = '2026-01-03' OR id = 3")
    assert report.selected_row_groups == 3 * 4 + 1
    assert report.doubts == []
    empty = parquet_bloom.prune(tree, "day > '2026-01-03' OR country = 'it'")
    assert (empty.unopened_files, empty.requests) == (9, 0)


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("country IS NULL", 3),
        ("country IS NOT NULL", 6),
        ("country <> 'de'", 3),
        ("country NOT IN ('de', 'fr')", 0),
        ("country = NULL", 0),
        ("country <=> NULL", 3),
        ("NOT (country = 'de')", 3),
        ("NOT (country = 'de' AND day = '2026-01-01')", 7),  # null and false is false
        ("country IN ('de', NULL)", 3),
        ("day BETWEEN '2026-01-02' AND '2026-01-09'", 6),
        ("day < DATE '2026-01-02'", 3),
        ("day > TIMESTAMP '2026-01-01 12:00:00'", 6),
        ("country >= 'e'", 3),
    ],
)
def test_three_valued_logic(tree: Path, where: str, count: int) -> None:
    report = parquet_bloom.prune(tree, where)
    assert report.total_files - report.unopened_files == count
    table = parquet_bloom.read_table(tree, where)
    assert table.num_rows == count * ROWS


def test_nulls_alone_compare_with_all_literals(tmp_path: Path) -> None:
    write(tmp_path / "k=__HIVE_DEFAULT_PARTITION__" / "a.parquet", {"x": [1]})
    for where, count in (("k = 1", 0), ("k <> DATE '2026-01-01'", 0), ("k IS NULL", 1), ("k = 'a' OR x = 1", 1)):
        assert parquet_bloom.read_table(tmp_path, where).num_rows == count


def test_incomparable_values_are_read_and_refused_by_rows(tree: Path, tmp_path: Path) -> None:
    report = parquet_bloom.prune(tree, "day = 20260101")
    assert (report.unopened_files, report.selected_files) == (0, 9)
    assert "cannot be compared exactly with INT32 DATE" in report.doubts[0][2]
    with pytest.raises(errors.PredicateError, match="column 'day': 20260101 cannot be compared exactly"):
        parquet_bloom.read_table(tree, "day = 20260101")
    write(tmp_path / "k=07" / "a.parquet", {"k": [5]})
    assert parquet_bloom.prune(tmp_path, "k = 7").selected_row_groups == 1  # whatever the file's own column says


def test_names_whatever_their_case(tree: Path) -> None:
    assert parquet_bloom.prune(tree, "DAY = '2026-01-02'", case_sensitive=False).unopened_files == 6
    with pytest.raises(errors.UnknownColumnError):
        parquet_bloom.prune(tree, "DAY = '2026-01-02'", partitioning=None)


def test_a_mistyped_column_is_noticed_unless_a_file_was_left_out(tree: Path) -> None:
    with pytest.raises(errors.UnknownColumnError, match=r"no such column in any of 9 files"):
        parquet_bloom.prune(tree, "idd = 5")
    assert parquet_bloom.prune(tree, "idd = 5 AND day = '2026-01-01'").unopened_files == 6


def test_lists_of_files_and_other_file_systems(tree: Path) -> None:
    files = sorted(str(path) for path in tree.rglob("*.parquet"))
    assert parquet_bloom.prune(files, "country = 'fr'").unopened_files == 6
    sub = SubTreeFileSystem(str(tree), LocalFileSystem())
    assert parquet_bloom.prune("", "country = 'fr'", filesystem=sub).unopened_files == 6
    inside = parquet_bloom.read_table(tree / "day=2026-01-02", "id = 65")
    assert inside.to_pylist() == [{"id": 65, "country": "de"}]
    pattern = parquet_bloom.read_table(f"{tree}/day=2026-01-0[2]", "id = 65")
    assert pattern.to_pylist() == [{"id": 65, "day": dt.date(2026, 1, 2), "country": "de"}]


def test_folders_above_the_one_that_was_given_are_mere_names(tmp_path: Path) -> None:
    """As in Spark and pyarrow: what the file says goes, and no row of it is lost."""
    write(tmp_path / "run=5" / "lake" / "k=1" / "a.parquet", {"run": [7, 8], "x": [1, 2]})
    lake = tmp_path / "run=5" / "lake"
    expected = [{"run": 7, "x": 1, "k": 1}]
    for given in (lake, f"{lake}/", [lake], f"{lake}/*/*.parquet"):
        assert parquet_bloom.read_table(given, "run = 7").to_pylist() == expected
        assert parquet_bloom.scan_polars(given).filter(pl.col("run") == 7).collect().to_dicts() == expected
    assert list(parquet_bloom.dataset(lake).scan("run = 7 AND k = 1").row_ranges()) == [f"{lake}/k=1/a.parquet"]


def test_without_partitioning_folders_are_mere_names(tree: Path) -> None:
    report = parquet_bloom.prune(tree, "day = '2026-01-02'", partitioning=None)
    assert (report.unopened_files, report.selected_files) == (0, 9)
    assert parquet_bloom.read_table(tree, "id = 3", partitioning=None).schema.names == ["id"]
    assert parquet_bloom.dataset(tree, partitioning=None).scan("id = 3").to_reader().schema.names == ["id"]
    with pytest.raises(errors.ParquetBloomError, match="partitioning must be 'hive' or None, got 'spark'"):
        parquet_bloom.prune(tree, "id = 3", partitioning="spark")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------
# Where they show
# ------------------------------------------------------------------------------------------------------------


def test_tables_and_batches_have_the_columns(tree: Path) -> None:
    where = "id = 65 OR (country IS NULL AND day = '2026-01-01')"
    table = parquet_bloom.read_table(tree, where)
    assert table.schema == pa.schema({"id": pa.int64(), "day": pa.date32(), "country": pa.string()})
    assert table.num_rows == 1 + ROWS
    batches = parquet_bloom.dataset(tree).scan(where).to_reader(batch_size=3)
    assert batches.schema == table.schema
    assert batches.read_all() == table
    of_null = ds.field("country").is_null() & (ds.field("day") == DAYS[0])
    other = pq.read_table(tree).filter((ds.field("id") == 65) | of_null)
    assert [(a, str(b), c) for a, b, c in rows_of(table)] == rows_of(other)


@pytest.mark.ci
@pytest.mark.parametrize("columns", [["day"], ["country", "day"], ["id", "day"], ["id"], []])
@pytest.mark.parametrize("where", ["id > 100", "day = '2026-01-03'", "day = '2026-01-03' AND id > 140", "id < 0"])
def test_chosen_columns(tree: Path, columns: list[str], where: str) -> None:
    everything = parquet_bloom.read_table(tree, where)
    table = parquet_bloom.read_table(tree, where, columns)
    assert set(table.column_names) == set(columns)
    if columns:
        assert table == everything.select(table.column_names)
        found = parquet_bloom.dataset(tree).scan(where, columns).to_reader().read_all()
        assert found.column_names == columns
        assert found.select(table.column_names) == table
    with pytest.raises(errors.UnknownColumnError):
        parquet_bloom.read_table(tree, where, [*columns, "none"])


def test_the_folder_goes_over_the_files_own_column(tmp_path: Path) -> None:
    write(tmp_path / "k=1" / "a.parquet", {"k": [1, 2], "x": [1, 2]})
    write(tmp_path / "k=7" / "b.parquet", {"k": ["text", "7"], "x": [3, 4]})
    other = duckdb.sql(f"SELECT k, x FROM read_parquet('{tmp_path}/k=1/*.parquet', hive_partitioning=1) WHERE k = 2")
    assert parquet_bloom.prune(tmp_path, "k = 2").unopened_files == 2
    assert other.fetchall() == []
    with pytest.raises(errors.UnreadableColumnError):  # the columns of the files themselves do not fit
        parquet_bloom.scan_polars(tmp_path)
    table = parquet_bloom.read_table(tmp_path, "k = 7")
    assert table.to_pylist() == [{"k": 7, "x": 3}, {"k": 7, "x": 4}]
    assert parquet_bloom.dataset(tmp_path / "k=1" / "a.parquet").to_table().to_pylist() == [
        {"k": 1, "x": 1},
        {"k": 1, "x": 2},
    ]


def test_datasets_have_the_columns(tree: Path) -> None:
    dataset = parquet_bloom.dataset(tree)
    assert dataset.schema.names == ["id", "day", "country"]
    of_null = ds.field("country").is_null() & (ds.field("day") > dt.date(2026, 1, 1))
    assert dataset.count_rows(filter=of_null) == 2 * ROWS
    assert len(list(dataset.get_fragments(of_null))) == 2
    assert dataset.to_table(filter=of_null & (ds.field("day") == dt.date(2026, 1, 2))).num_rows == ROWS
    result = duckdb.sql(
        "SELECT count(*), min(day), count(country) FROM dataset WHERE country IS NULL AND day > '2026-01-01'"
    ).fetchall()
    assert result == [(2 * ROWS, dt.date(2026, 1, 2), 0)]


def test_polars_has_the_columns(tree: Path) -> None:
    lazy = parquet_bloom.scan_polars(tree)
    assert lazy.collect_schema() == {"id": pl.Int64(), "day": pl.Date(), "country": pl.String()}
    day = dt.date(2026, 1, 2)
    assert lazy.filter(pl.col("day") == day, pl.col("id") == 65).collect().rows() == [(65, day, "de")]
    assert lazy.filter(pl.col("country").is_null()).select("day").collect().height == 3 * ROWS
    assert lazy.select("country").collect().height == 9 * ROWS
    assert lazy.filter(pl.col("country") == "fr").head(3).collect().height == 3
    assert lazy.collect().equals(pl.from_arrow(parquet_bloom.read_table(tree, "id >= 0")))
    assert parquet_bloom.scan_polars(tree, partitioning=None).collect_schema().names() == ["id"]


def test_polars_opens_no_file_of_another_partition(tree: Path) -> None:
    files = {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*.parquet")}
    filesystem = CountedFileSystem(files)
    lazy = parquet_bloom.scan_polars(sorted(files), filesystem=filesystem)
    assert len(filesystem.ranges_read) == 9  # a footer a file
    filesystem.ranges_read.clear()
    assert lazy.filter(pl.col("day") == dt.date(2026, 1, 1), pl.col("id") == 3).collect().height == 1
    footers, pages = filesystem.ranges_read[:4], filesystem.ranges_read[4:]
    assert len(footers) == 4  # three are probed, one of them is read
    assert 0 < len(pages) < 5


@pytest.mark.usefixtures("settled_footers")
def test_polars_reads_a_footer_once(tree: Path) -> None:
    cache, rows = parquet_bloom.MetadataCache(), []
    for _ in range(2):
        lazy = parquet_bloom.scan_polars(tree, cache=cache, timezone="Europe/Berlin")
        rows.append(lazy.filter(pl.col("id") == 65).collect().height)
        before = bytes_of_process()
        parquet_bloom.scan_polars(tree, cache=cache, timezone="Europe/Berlin")
        assert bytes_of_process() - before < 4096  # nine footers are more
    assert rows == [1, 1]
    assert len(cache) == 9


def bytes_of_process() -> int:
    """Return how many bytes the process has read."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_folder_that_only_some_files_have_is_not_a_null_column(tmp_path: Path) -> None:
    """A pyarrow dataset finds the row; to find none would be to lose it without a word."""
    for path in (tmp_path / "k=5" / "a.parquet", tmp_path / "b.parquet"):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [1]}), path)
    for ask in (parquet_bloom.prune, parquet_bloom.read_table):
        with pytest.raises(errors.UnknownColumnError, match="column 'k': no such column in any of 2 files"):
            ask(tmp_path, "k = 5")
    assert parquet_bloom.read_table(tmp_path / "k=5" / "a.parquet", "k = 5").num_rows == 1


@pytest.mark.ci
@pytest.mark.parametrize("where", ["k = 3", "k = 13", "k > 0", "k = 300", "year = 7", "year = 1"])
@pytest.mark.parametrize("columns", [None, ["year", "z"], ["z", "k"], ["year"]])
def test_the_order_of_columns_does_not_depend_on_the_files_that_are_read(
    tmp_path: Path, where: str, columns: list[str] | None
) -> None:
    write(tmp_path / "year=1" / "x.parquet", {"k": range(10)})
    write(tmp_path / "year=2" / "x.parquet", {"k": range(10, 20), "z": range(10)})
    names = parquet_bloom.read_table(tmp_path, where, columns).schema.names
    if columns is None:
        has_second = where in {"k = 13", "k > 0"}
        assert names == ["k", "z", "year"] if has_second else names in (["k", "year"], ["k", "z", "year"])
    else:
        assert names == [name for name in columns if name != "year"] + ["year"] * ("year" in columns)
    assert parquet_bloom.dataset(tmp_path).scan(where, columns).to_arrow().num_rows == (
        parquet_bloom.read_table(tmp_path, where, columns).num_rows
    )
