"""Test plans read by other engines (datasets, polars' lazy frames), as batches, and shown as text."""

from __future__ import annotations

import datetime as dt
import html
import io
import random
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from support.one_by_one import read_local_files_one_by_one

import parquet_bloom
from parquet_bloom import errors
from parquet_bloom.scan import polars_frame
from parquet_bloom.scan.model.scan_plan import FilePlan, RowGroupPlan
from parquet_bloom.scan.plan_report import PruneReport

FILES, GROUPS, ROWS = 3, 4, 50  # row groups a file, rows a row group
ABSENT = 2**40 + 5
col = pl.col


def make_table(seed: int) -> pa.Table:
    """Keys of each row group spread over the whole range, so that only filters can rule one out."""
    rng = random.Random(seed)
    keys = [rng.randrange(2**40) for _ in range(GROUPS * ROWS)]
    moment = dt.datetime(2026, 1, 1)
    return pa.table(
        {
            "key": pa.array(keys),
            "text": [None if i % 9 == 0 else f"{key:x}" for i, key in enumerate(keys)],
            "seed": pa.array([seed] * len(keys), pa.int32()),
            "half": pa.array([rng.random() for _ in keys], pa.float32()),
            "price": pa.array([Decimal(rng.randrange(10**9)) / 100 for _ in keys], pa.decimal128(12, 2)),
            "day": pa.array([moment.date() + dt.timedelta(rng.randrange(10**5)) for _ in keys]),
            "at": pa.array([moment + dt.timedelta(microseconds=key) for key in keys], pa.timestamp("us", "UTC")),
            "raw": pa.array([key.to_bytes(8, "big") for key in keys], pa.binary(8)),
            "flag": [key % 2 == 0 for key in keys],
            "st": [{"a": key} for key in keys],
        }
    )


TABLES = [make_table(seed) for seed in range(FILES)]
TABLE = pa.concat_tables(TABLES)
KEYS = TABLE["key"].to_pylist()
FILTERED = ["key", "text", "half", "price", "day", "at", "raw", "st.a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("handover")
    for number, table in enumerate(TABLES):
        path = folder / f"{number}.parquet"
        pq.write_table(table, path, row_group_size=ROWS)
        parquet_bloom.embed(path, FILTERED, fpp=1e-6)
    return folder


class Reads:
    """The row groups, told apart by their first values, and the columns that were read."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, tuple[str, ...] | None]] = []

    @property
    def groups(self) -> int:
        return len({number for number, _ in self.calls})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Record reads through pyarrow's reader from here on."""
    seen = Reads()
    plain = pq.ParquetFile.read_row_groups

    def counted(self: Any, row_groups: list[int], columns: Any = None, **options: Any) -> pa.Table:
        for row_group in row_groups:
            first = plain(self, [row_group], use_threads=False).slice(0, 1).to_pylist()
            seen.calls.append((repr(first), None if columns is None else tuple(columns)))
        return plain(self, row_groups, columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
    return seen


def same_rows(result: pa.Table, expected: pa.Table) -> None:
    """Equal tables, whatever the order of rows and the flavour of their types."""
    assert result.column_names == expected.column_names
    key = str
    assert sorted(result.to_pylist(), key=key) == sorted(expected.to_pylist(), key=key)


def where(values: list[int]) -> str:
    return f"key IN ({', '.join(map(str, values))})"


def rows(values: list[int]) -> pa.Table:
    return TABLE.filter(pc.is_in(TABLE["key"], pa.array(values, pa.int64())))


# ------------------------------------------------------------------------------------------------------------
# Datasets
# ------------------------------------------------------------------------------------------------------------


def by_duckdb(dataset: Any, values: list[int]) -> pa.Table:
    return duckdb.sql(f"SELECT * FROM dataset WHERE {where(values)}").to_arrow_table()


def by_duckdb_relation(dataset: Any, values: list[int]) -> pa.Table:
    return duckdb.from_arrow(dataset).filter(where(values)).to_arrow_table()


def by_polars(dataset: Any, values: list[int]) -> pa.Table:
    return pl.scan_pyarrow_dataset(dataset).filter(col("key").is_in(values)).collect().to_arrow()


def by_datafusion(dataset: Any, values: list[int]) -> pa.Table:
    context = datafusion.SessionContext()
    context.register_dataset("lake", dataset)
    return pa.table(context.sql(f"SELECT * FROM lake WHERE {where(values)}").to_arrow_table())


ENGINES = [by_duckdb, by_duckdb_relation, by_polars, by_datafusion]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows_of", [[], [7], [7, 8, 560]])
def test_engines_find_the_same_rows_in_the_dataset_as_in_the_files(
    folder: Path, engine: Callable[[Any, list[int]], pa.Table], rows_of: list[int]
) -> None:
    values = [KEYS[row] for row in rows_of] or [ABSENT]
    dataset = parquet_bloom.dataset(folder)
    same_rows(engine(dataset, values), rows(values))


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_read_the_row_groups_that_a_query_needs(
    folder: Path, engine: Callable[[Any, list[int]], pa.Table], reads: Reads
) -> None:
    dataset = parquet_bloom.dataset(folder)
    assert engine(dataset, [KEYS[7], KEYS[560]]).num_rows == 2
    assert reads.groups == 2
    assert engine(dataset, [ABSENT]).num_rows == 0
    assert reads.groups == 2
    assert engine(dataset, [KEYS[300]]).num_rows == 1  # another query on the same dataset
    assert reads.groups == 3


def test_fragments_are_the_row_groups_that_a_filter_leaves(folder: Path) -> None:
    report = parquet_bloom.prune(folder, where([KEYS[7], KEYS[560]]))
    dataset = parquet_bloom.dataset(folder)
    fragments = list(dataset.get_fragments(pc.field("key").isin([KEYS[7], KEYS[560]])))
    assert [(f.path, f.row_groups) for f in fragments] == list(report.selected.items())
    assert report.selected_row_groups == 2
    assert pa.concat_tables(f.to_table() for f in fragments)["key"].to_pylist() == [KEYS[7], KEYS[560]]
    assert not any(f.row_groups for f in dataset.get_fragments(pc.field("key") == ABSENT))
    assert [len(f.row_groups) for f in dataset.get_fragments()] == [GROUPS] * FILES


def test_a_dataset_without_files_needs_a_schema(tmp_path: Path) -> None:
    with pytest.raises(errors.ParquetBloomError, match="no files to scan"):
        parquet_bloom.dataset(tmp_path)
    empty = parquet_bloom.dataset(tmp_path, schema=TABLE.schema)
    assert empty.to_table().equals(TABLE.schema.empty_table())
    assert by_duckdb(empty, [1]).num_rows == 0


def test_datasets_of_other_file_systems(folder: Path) -> None:
    sub = SubTreeFileSystem(str(folder), LocalFileSystem())
    memory = fsspec.filesystem("memory")
    for path in folder.iterdir():
        memory.pipe(f"/handover/{path.name}", path.read_bytes())
    for paths, filesystem in (("", sub), ("/handover", memory), (str(folder), fsspec.filesystem("file"))):
        report = parquet_bloom.prune(paths, where([KEYS[7]]), filesystem=filesystem)
        dataset = parquet_bloom.dataset(paths, filesystem=filesystem)
        same_rows(dataset.to_table(filter=pc.field("key") == KEYS[7]), rows([KEYS[7]]))
        assert [(f.path, f.row_groups) for f in dataset.get_fragments(pc.field("key") == KEYS[7])] == list(
            report.selected.items()
        )
        assert report == PruneReport(files=report.files, asked=report.asked)
        assert "ilesystem" not in repr(report)


def test_a_dataset_over_files_whose_columns_differ(tmp_path: Path) -> None:
    narrow = pa.table({"id": pa.array([1, 2], pa.int32()), "old": ["a", "b"]})
    wide = pa.table({"id": pa.array([2, 2**40], pa.int64()), "new": [0.5, 1.5]})
    for name, table in (("a", narrow), ("b", wide)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        parquet_bloom.embed(tmp_path / f"{name}.parquet", ["id"])
    dataset = parquet_bloom.dataset(tmp_path)
    expected = pa.concat_tables([narrow, wide], promote_options="permissive")
    assert dataset.schema.equals(expected.schema)
    result = duckdb.sql("SELECT * FROM dataset WHERE id = 2").to_arrow_table()
    same_rows(result, expected.filter(pc.equal(expected["id"], 2)))
    one = dataset.to_table(filter=pc.field("id") == 2**40)
    assert one.schema.equals(expected.schema)  # of the file that is left out as well
    assert one.to_pylist() == expected.slice(3).to_pylist()
    chosen = parquet_bloom.dataset(tmp_path, schema=pa.schema({"id": pa.float64()}))
    assert chosen.to_table()["id"].to_pylist() == [1.0, 2.0, 2.0, 2.0**40]


def test_columns_that_fit_into_no_schema(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [1], "x": ["1"]}), tmp_path / "b.parquet")
    for hand_over in (
        lambda: parquet_bloom.dataset(tmp_path),
        lambda: parquet_bloom.read_table(tmp_path, "id = 1"),
        lambda: parquet_bloom.scan_polars(tmp_path),
    ):
        with pytest.raises(errors.UnreadableColumnError, match="do not fit into one table"):
            hand_over()
    assert parquet_bloom.read_table(tmp_path, "id = 1", ["id"])["id"].to_pylist() == [1, 1]
    dataset = parquet_bloom.dataset(tmp_path, schema=pa.schema({"id": pa.int64()}))
    assert dataset.to_table(filter=pc.field("id") == 1).to_pylist() == [{"id": 1}] * 2
    assert [batch.to_pylist() for batch in dataset.scan("id = 1").to_batches()] == [[{"id": 1}]] * 2


def test_scans_of_a_dataset_have_its_schema(tmp_path: Path) -> None:
    """Whichever files they read: those of `read_table`, which knows no others, have the columns of the files read."""
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32()), "st": [{"x": 1}] * 2}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [3, 2**40], "new": ["p", "q"]}), tmp_path / "b.parquet")
    dataset = parquet_bloom.dataset(tmp_path)
    assert dataset.schema == pa.schema({"id": pa.int64(), "st": pa.struct({"x": pa.int64()}), "new": pa.string()})
    for where, row in (
        ("id = 1", [{"id": 1, "st": {"x": 1}, "new": None}]),
        ("id = 3", [{"id": 3, "st": None, "new": "p"}]),
        ("id = 99", []),
        ("st.x = 5", []),
    ):
        for read in (dataset.scan(where).to_arrow(), dataset.scan(where).to_reader().read_all()):
            assert (read.schema, read.to_pylist()) == (dataset.schema, row)
    assert parquet_bloom.read_table(tmp_path, "id = 1").schema.names == ["id", "st"]
    assert dataset.scan("id = 1", ["new", "id"]).to_arrow().to_pydict() == {"new": [None], "id": [1]}
    assert dataset.scan("ID = 1", ["NEW", "ST"], case_sensitive=False).to_arrow().schema.names == ["new", "st"]
    assert dataset.scan("id = 1", ["st.x"]).to_arrow().to_pylist() == [{"st": {"x": 1}}]
    pq.write_table(pa.table({"id": [1], "later": [0]}), tmp_path / "c.parquet")
    assert dataset.scan("id = 1").to_arrow().to_pylist() == [
        {"id": 1, "st": {"x": 1}, "new": None},
        {"id": 1, "st": None, "new": None},
    ]
    (tmp_path / "b.parquet").unlink()
    assert dataset.scan("new = 'p'").to_arrow().num_rows == 0  # a column that no file has any more
    assert dataset.scan("new IS NULL").count_rows() == 3
    for where, columns in (("nope = 1", None), ("st.y = 1", None), ("id.x = 1", None), ("id = 1", ["nope"])):
        with pytest.raises(errors.UnknownColumnError):
            dataset.scan(where, columns).to_arrow()


# ------------------------------------------------------------------------------------------------------------
# polars
# ------------------------------------------------------------------------------------------------------------

ROW = TABLE.slice(260, 1).to_pylist()[0]  # of the second file
OTHER = TABLE.slice(563, 1).to_pylist()[0]  # of the last row group

QUERIES: list[tuple[Any, int]] = [  # predicate, how many row groups of the 12 are read
    (col("key") == ROW["key"], 1),
    (pl.lit(ROW["key"]) == col("key"), 1),
    (col("key") == ABSENT, 0),
    (col("key") == pl.lit(None, pl.Int64), 12),  # polars keeps it for itself
    (col("key").is_in([ROW["key"], OTHER["key"], None]), 2),
    (col("key").is_in(pl.Series([ROW["key"]]).implode()), 1),
    (col("key").is_in([]), 0),
    (col("key").is_in(pl.Series("k", [ROW["key"]]).implode()), 1),
    (col("text").is_in([ROW["text"], None], nulls_equal=True), 12),
    (col("text").is_in([ROW["text"], OTHER["text"]], nulls_equal=True), 2),
    ((col("key") == ROW["key"]) | (col("text") == OTHER["text"]), 2),
    ((col("key") == ROW["key"]) | (col("text").str.len_chars() == 3), 12),
    ((col("key") == ROW["key"]) & (col("text").str.len_chars() > 3), 1),
    ((col("key") == ROW["key"]) & (col("text") == OTHER["text"]), 0),
    (col("text") == ROW["text"], 1),
    (col("half") == ROW["half"], 1),
    (col("half") == pl.lit(ROW["half"], pl.Float64), 12),  # polars converts the column
    (col("price") == ROW["price"], 1),
    (col("price") == ROW["price"] + Decimal("0.001"), 12),
    (col("day") == ROW["day"], 1),
    (col("at") == ROW["at"], 1),
    (col("raw") == ROW["raw"], 1),
    (col("seed") == 1, 4),
    (col("seed") == 1.0, 12),
    (col("seed").cast(pl.Int64) == 1, 12),
    (col("seed") == 2**40, 12),
    (col("flag"), 12),
    (~col("flag"), 12),
    (col("key") == col("st").struct.field("a"), 12),
    (col("st").struct.field("a") == ROW["key"], 12),
    (pl.lit(True), 12),
]


@pytest.mark.ci
@pytest.mark.parametrize(("predicate", "count"), QUERIES, ids=[str(predicate)[:60] for predicate, _ in QUERIES])
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_finds_the_same_rows_and_reads_what_it_needs(
    folder: Path, reads: Reads, predicate: Any, count: int, engine: str
) -> None:
    everything = pl.from_arrow(TABLE)
    result = parquet_bloom.scan_polars(folder).filter(predicate).collect(engine=engine)
    assert result.equals(everything.filter(predicate))
    assert result.schema == everything.schema
    assert reads.groups == count


@pytest.mark.ci
@pytest.mark.parametrize(
    "predicate",
    [
        col("text").is_null(),
        col("text").is_not_null(),
        col("key") != ROW["key"],
        col("text") != ROW["text"],
        col("key") < ROW["key"],
        col("key") >= ROW["key"],
        pl.lit(ROW["key"]) > col("key"),
        col("half") <= ROW["half"],
        col("half") > pl.lit(ROW["half"], pl.Float64),
        col("seed").is_between(1, 2, closed="left"),
        ~col("seed").is_between(1, 2, closed="right"),
        ~col("text").is_in([ROW["text"], None]),
        ~col("text").is_in([ROW["text"], None], nulls_equal=True),
        ~((col("key") == ROW["key"]) | (col("text") == ROW["text"])),
        ~((col("seed") == 1) & (col("text").str.len_chars() > 3)),
        ~(col("seed") == 1),
        col("text").eq_missing(None),
        col("text").ne_missing(ROW["text"]),
        (col("text") == ROW["text"]).fill_null(True),
        (col("text") == ROW["text"]).is_null(),
        (col("key") == ROW["key"]) ^ col("flag"),
    ],
    ids=str,
)
def test_other_operators_lose_nothing(folder: Path, predicate: Any) -> None:
    everything = pl.from_arrow(TABLE)
    assert parquet_bloom.scan_polars(folder).filter(predicate).collect().equals(everything.filter(predicate))


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files read one by one, by row groups."""
    read_local_files_one_by_one(monkeypatch)


@pytest.mark.usefixtures("one_by_one")
def test_only_the_requested_columns_are_read(folder: Path, reads: Reads) -> None:
    alone = pl.col("key").is_between(ROW["key"], ROW["key"])  # as an equality it would be searched in the pages
    result = parquet_bloom.scan_polars(folder).filter(alone).select("day", "price").collect()
    assert result.rows() == [(ROW["day"], ROW["price"])]
    assert {name for _, columns in reads.calls for name in columns or ()} <= {"key", "day", "price"}


@pytest.mark.ci
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("count", [0, 1, ROWS, 130, 10_000])
def test_the_first_rows(folder: Path, reads: Reads, count: int, engine: str) -> None:
    everything, lazy = pl.from_arrow(TABLE), parquet_bloom.scan_polars(folder)
    assert lazy.head(count).collect(engine=engine).equals(everything.head(count))
    assert reads.groups <= max(1, -(-count // ROWS))
    key = KEYS[60]
    result = lazy.head(count).filter(col("key") == key).collect(engine=engine)  # the first rows, and of them a match
    assert result.equals(everything.head(count).filter(col("key") == key))
    result = lazy.filter(col("seed") == 1).head(count).collect(engine=engine)  # the first matches
    assert result.equals(everything.filter(col("seed") == 1).head(count))
    assert lazy.slice(70, count).collect(engine=engine).equals(everything.slice(70, count))
    assert lazy.tail(count).collect(engine=engine).equals(everything.tail(count))


def test_several_filters_joins_and_groups(folder: Path) -> None:
    lazy, everything = parquet_bloom.scan_polars(folder), pl.from_arrow(TABLE).lazy()
    expected = pl.LazyFrame({"key": [ROW["key"], OTHER["key"], ABSENT], "name": ["a", "b", "c"]})
    queries: list[Callable[[Any], Any]] = [
        lambda f: f.filter(col("seed") == 1).filter(col("flag")).select("key", "text"),
        lambda f: f.filter(key=ROW["key"], seed=1).select(col("text").alias("key")),
        lambda f: f.join(expected, on="key").select("name", "text", "key").sort("name"),
        lambda f: f.filter(col("seed") > 0).group_by("seed").agg(pl.len(), col("half").sum().round(2)).sort("seed"),
        lambda f: f.filter(col("key") == ROW["key"]).join(f.filter(col("key") == ROW["key"]), on="key"),
        lambda f: f.with_columns(twice=col("seed") * 2).filter(col("twice") == 4, col("key") == OTHER["key"]),
        lambda f: f.rename({"key": "text", "text": "key"}).filter(col("text") == ROW["key"]),
        lambda f: f.select(pl.len()),
        lambda f: f.filter(col("key") == ABSENT).select(pl.len()),
        lambda f: pl.concat([f.filter(key=ROW["key"]), f.filter(key=OTHER["key"])]),
    ]
    for query in queries:
        assert query(lazy).collect().equals(query(everything).collect())


@pytest.mark.usefixtures("one_by_one")
def test_polars_over_files_whose_columns_differ(tmp_path: Path, reads: Reads) -> None:
    price = pa.array([Decimal("0.1"), Decimal("0.2")])
    tables = [
        pa.table({"id": pa.array([1, 2], pa.int32()), "p": price, "f": pa.array([0.1, 2], pa.float32())}),
        pa.table({"id": pa.array([2, 2**40]), "p": [0.5, 0.2], "f": [0.1, 3], "new": ["q", None]}),
    ]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=1)
        parquet_bloom.embed(tmp_path / f"{number}.parquet", ["id", "p", "f"])
    everything = pl.from_arrow(pa.concat_tables(tables, promote_options="permissive"))
    assert everything.schema["p"] == pl.Float64  # so that the decimals 0.1 and 0.2 are what they are not, exactly
    lazy = parquet_bloom.scan_polars(tmp_path)
    assert lazy.collect().equals(everything)
    for predicate in (
        col("id") == 2,
        col("id") == 2**40,
        col("p") == 0.1,
        col("p").is_in([0.2, 0.5]),
        col("p") >= 0.5,
        (col("p") >= 0.1) & (col("p") < 0.2),
        col("f") == 0.1,
        col("f") == float(tables[0]["f"][0].as_py()),
        col("new") == "q",
        col("new").is_null(),
    ):
        assert lazy.filter(predicate).collect().equals(everything.filter(predicate))
        assert everything.filter(predicate).height > 0
        assert lazy.filter(predicate).select("new").collect().equals(everything.filter(predicate).select("new"))
    assert lazy.select("new").collect().equals(everything.select("new"))
    # A column prunes nothing in the files of which it is converted: here the first one's two row groups.
    for predicate, count in ((col("id") == 1, 1), (col("p") == 0.5, 3)):
        reads.calls.clear()
        assert lazy.filter(predicate).collect().height == 1
        assert reads.groups == count


def test_polars_looks_into_lists(tmp_path: Path, reads: Reads) -> None:
    lists = [[number, None, number + 100] for number in range(36)]
    lists[5:9] = [[], None, [None], [8]]
    table = pa.table(
        {
            "n": range(36),
            "t": lists,
            "s": pa.array([[f"{number}"] for number in range(36)], pa.large_list(pa.string())),
            "deep": [[[number]] for number in range(36)],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    parquet_bloom.embed(tmp_path / "a.parquet", ["t", "s"], fpp=1e-6)
    everything, lazy = pl.from_arrow(table), parquet_bloom.scan_polars(tmp_path)
    queries = [
        (col("t").list.contains(31), 1),
        (col("t").list.contains(31, nulls_equal=False), 1),
        (col("t").list.contains(31) & (col("n") > 3), 1),
        (col("t").list.contains(31) | col("s").list.contains("4"), 2),
        (col("t").list.contains(500), 0),
        (~col("t").list.contains(31), 12),
        (col("t").list.contains(None), 12),
        (col("t").list.contains(col("n")), 12),
        (col("deep").list.contains([3]), 12),
        (col("t").is_not_null(), 12),
        (col("t").is_null(), 12),
        (col("t") == [8], 12),
        (col("t").list.len() == 0, 12),
    ]
    for predicate, count in queries:
        reads.calls.clear()
        assert lazy.filter(predicate).collect().equals(everything.filter(predicate)), predicate
        assert reads.groups == count, predicate


def test_polars_columns_whose_names_have_dots(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a.b": [1, 2], "a": [{"b": 5}, {"b": 6}]}), tmp_path / "a.parquet", row_group_size=1)
    pq.write_table(pa.table({"a": [{"b": 1}, {"b": 6}]}), tmp_path / "b.parquet", row_group_size=1)
    lazy = parquet_bloom.scan_polars(tmp_path)
    assert lazy.filter(col("a.b") == 2).collect().rows() == [(2, {"b": 6})]
    assert lazy.filter(col("a.b").is_null()).select("a").collect().rows() == [({"b": 1},), ({"b": 6},)]


def test_polars_sees_no_int96_that_pyarrow_would_wrap(tmp_path: Path) -> None:
    moments = [dt.datetime(2026, 1, 1), dt.datetime(1600, 1, 1)]  # too early for int64
    table = pa.table({"t": pa.array(moments, pa.timestamp("us"))})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=1, use_deprecated_int96_timestamps=True)
    parquet_bloom.embed(path, ["t"], fpp=1e-6)
    wrapped = pq.read_table(path)["t"].cast(pa.int64()).to_pylist()[1]
    assert wrapped > 0
    with pytest.raises(
        errors.UnreadableColumnError, match="row group 1, column 't': holds INT96 timestamps before 1677"
    ):
        parquet_bloom.scan_polars(tmp_path).filter(col("t") == pl.lit(wrapped, pl.Datetime("ns"))).collect()
    lazy = parquet_bloom.dataset(tmp_path, schema=table.schema).to_polars()
    for moment in moments:
        assert lazy.filter(col("t") == moment).collect()["t"].to_list() == [moment]


def test_polars_on_another_file_system_and_in_vain(folder: Path, tmp_path: Path) -> None:
    sub = SubTreeFileSystem(str(folder), LocalFileSystem())
    assert parquet_bloom.scan_polars("", filesystem=sub).filter(key=ROW["key"]).collect().height == 1
    with pytest.raises(errors.StorageError, match="no such file"):
        parquet_bloom.scan_polars(tmp_path / "none")
    with pytest.raises(errors.ParquetBloomError, match="no files to scan"):
        parquet_bloom.scan_polars(tmp_path)


def test_polars_takes_no_two_columns_of_one_name(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1], [2]], ["a", "a"]), tmp_path / "a.parquet")
    with pytest.raises(errors.UnreadableColumnError, match="column 'a': polars cannot read two"):
        parquet_bloom.scan_polars(tmp_path)


def test_without_polars_one_line_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(errors.ParquetBloomError, match=r"^scan_polars needs polars .*not installed$"):
        parquet_bloom.scan_polars(folder)


class Lookalike:
    """An expression in a form that polars may have tomorrow."""

    def __init__(self, text: str):
        self.text = text

    @property
    def meta(self) -> Lookalike:
        return self

    def serialize(self, **_: Any) -> str:
        return self.text

    def pop(self) -> list[Any]:
        return [pl.Expr.deserialize(io.StringIO(ONE), format="json")]


ONE = '{"Literal":{"Scalar":{"Int64":1}}}'
EQ = f'{{"BinaryExpr":{{"left":{{"Column":"a"}},"op":"%s","right":{ONE}}}}}'


def test_forms_that_are_not_known_are_not_understood() -> None:
    def translated(text: str) -> Any:
        return polars_frame.translate(pl, Lookalike(text), {"a": pl.Int64()}, {"a"})

    assert str(translated(EQ % "Eq")) == "a = 1"
    for text in (
        "",
        "[]",
        "{}",
        '"x"',
        '{"Column":"a","Other":1}',
        EQ % "EqValidity",
        EQ % "Xor",
        (EQ % "Eq").replace("Int64", "Int32"),
        (EQ % "Eq").replace('"a"', '"b"'),
        (EQ % "Eq").replace('"Column":"a"', '"Cast":{"expr":{"Column":"a"},"dtype":{"Literal":"Int64"}}'),
        (EQ % "Eq").replace('"Column":"a"', '"Literal":{"Scalar":{"Int64":1}}'),
        '{"BinaryExpr":' * 50_000,
    ):
        assert translated(text) is None


# ------------------------------------------------------------------------------------------------------------
# Batches
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, 65_536])
def test_batches_are_the_table_in_pieces(folder: Path, batch_size: int) -> None:
    condition = "seed IN (0, 2)"
    reader = parquet_bloom.dataset(folder).scan(condition, ["text", "key"]).to_reader(batch_size)
    table = parquet_bloom.read_table(folder, condition, ["text", "key"])
    assert reader.schema.equals(table.schema)
    batches = list(reader)
    assert all(0 < batch.num_rows <= batch_size for batch in batches)
    assert pa.Table.from_batches(batches).equals(table)
    assert table.num_rows == 2 * GROUPS * ROWS


def test_a_row_group_is_read_when_its_batches_are_consumed(folder: Path, reads: Reads) -> None:
    reader = parquet_bloom.dataset(folder).scan("seed = 1").to_reader()
    assert reads.groups == 0
    assert reader.read_next_batch().num_rows == ROWS
    assert 1 <= reads.groups < GROUPS  # threads read ahead
    assert sum(batch.num_rows for batch in reader) == (GROUPS - 1) * ROWS
    assert reads.groups == GROUPS


def test_batches_of_no_rows_still_have_a_schema(folder: Path) -> None:
    reader = parquet_bloom.dataset(folder).scan(f"key = {ABSENT}").to_reader()
    assert reader.schema.equals(TABLE.schema)
    assert list(reader) == []
    with pytest.raises(errors.ParquetBloomError, match="at least 1"):
        parquet_bloom.dataset(folder).scan("key = 1").to_reader(batch_size=0)
    with pytest.raises(errors.UnknownColumnError):
        parquet_bloom.dataset(folder).scan("key = 1", ["none"]).to_reader()


def test_batches_of_files_whose_columns_differ_have_one_schema(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32()), "old": ["a", "b"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"new": [0.5], "id": pa.array([2])}), tmp_path / "b.parquet")
    reader = parquet_bloom.dataset(tmp_path).scan("id = 2").to_reader()
    table = parquet_bloom.read_table(tmp_path, "id = 2")
    assert reader.schema.equals(table.schema)
    assert reader.read_all().equals(table)


def test_a_bad_row_group_is_named_when_it_is_read(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / "0.parquet").read_bytes())
    pages = pq.ParquetFile(folder / "0.parquet").metadata.row_group(1).column(0)
    start = pages.dictionary_page_offset or pages.data_page_offset
    data[start : start + 40] = bytes(40)
    (tmp_path / "bad.parquet").write_bytes(data)
    reader = parquet_bloom.dataset(tmp_path).scan("seed = 0").to_reader()
    assert reader.read_next_batch().num_rows == ROWS
    with pytest.raises(errors.UnreadableColumnError, match=r"bad\.parquet"):
        reader.read_next_batch()


def test_batches_feed_duckdb(folder: Path) -> None:
    reader = parquet_bloom.dataset(folder).scan("seed = 2").to_reader()
    assert duckdb.from_arrow(reader).aggregate("count(*), min(seed)").fetchall() == [(GROUPS * ROWS, 2)]


def test_tables_become_frames_by_way_of_arrow(folder: Path) -> None:
    table = parquet_bloom.read_table(folder, f"key = {ROW['key']}", ["key", "text"])
    assert table.to_pandas().to_dict("records") == [{"key": ROW["key"], "text": ROW["text"]}]
    assert pl.from_arrow(table).rows() == [(ROW["key"], ROW["text"])]


# ------------------------------------------------------------------------------------------------------------
# Texts
# ------------------------------------------------------------------------------------------------------------


def decision(number: int, **options: Any) -> RowGroupPlan:
    return RowGroupPlan(number, **{"read": True, "num_rows": 10} | options)


def skipped(number: int, by: str = "filter") -> RowGroupPlan:
    return decision(number, read=False, by=frozenset({by}), reason=f"'a' by its {by}")


REPORT = PruneReport(
    "a = 1",
    [
        FilePlan("x.parquet", (skipped(0), skipped(1), skipped(2, "range"))),
        FilePlan("y.parquet", (skipped(0), decision(1, doubts=("'a': broken",)), decision(2))),
        FilePlan("z.parquet", (decision(0, num_rows=1),)),
    ],
)


def test_the_explanation_is_shown_as_it_is_printed() -> None:
    """Interactive Python and notebooks show the representation of what a line returns."""
    explanation = REPORT.explain()
    assert isinstance(explanation, str)
    assert repr(explanation) == str(explanation)
    assert explanation.splitlines()[0] == "a = 1"


def test_the_explanation_names_each_row_group() -> None:
    assert REPORT.explain().splitlines() == [
        "a = 1",
        "read 2 of 3 files, 3 of 7 row groups",
        "skipped by filter: 3, range: 1",
        "doubtful: 1 of 7 row groups",
        "",
        "y.parquet: 2 of 3 row groups read",
        "  0: skipped by filter: 'a' by its filter",
        "  1: read, 10 rows",
        "      doubtful: 'a': broken",
        "  2: read, 10 rows",
        "",
        "z.parquet: 1 of 1 row group read",
        "  0: read, 1 row",
        "",
        "x.parquet: 0 of 3 row groups read",
        "  0-1: skipped by filter: 'a' by its filter",
        "  2: skipped by range: 'a' by its range",
    ]


@pytest.mark.ci
def test_the_explanation_is_bounded() -> None:
    files = [FilePlan(f"{n}", tuple(skipped(g, ("filter", "range")[g % 2]) for g in range(99))) for n in range(5000)]
    files.append(FilePlan("last", (decision(0),)))
    text = PruneReport("a = 1", files).explain(max_files=3, max_lines=5)
    assert len(text.splitlines()) < 30
    assert text.index("last: 1 of 1 row group read") < text.index("0: 0 of 99")
    assert "  ... 94 more lines" in text
    assert text.endswith("... 4,998 more files, 0 of them read")
    assert PruneReport("a = 1", files).explain(max_files=0).endswith("... 5,001 more files, 1 of them read")
    assert len(PruneReport("a = 1", files)._repr_html_()) < 1_000_000


def test_an_explanation_of_real_files(folder: Path) -> None:
    text = parquet_bloom.prune(folder, f"key = {KEYS[7]}").explain()
    assert f"{folder / '0.parquet'}: 1 of 4 row groups read\n  0: read, 50 rows\n  1-3: skipped by filter" in text
    assert "skipped by filter: 11" in text


PICTURE = {"div", "p", "span", "b", "svg", "path"}


def test_hostile_names_stay_text() -> None:
    evil = "<img src=x onerror='alert(1)'>&\"\n\x1b[31m"
    files = [FilePlan(evil, (decision(0, doubts=(evil,)), decision(1, read=False, by=frozenset({evil}), reason=evil)))]
    report = PruneReport(evil, files)
    page = report._repr_html_()
    tags = set(re.findall(r"</?([^\s>/]*)", page))
    assert tags <= PICTURE | {"table", "code", "thead", "tbody", "tfoot", "tr", "th", "td", "details", "summary"}
    assert "\x1b" not in page
    assert "&lt;img src=x onerror=&#x27;alert(1)&#x27;&gt;&amp;&quot;" in page
    assert "\x1b" not in report.explain()


def test_the_table_has_the_totals() -> None:
    page = REPORT._repr_html_()
    cells = [html.unescape(cell) for cell in re.findall(r"<t[dh]>(.*?)</t[dh]>", page)]
    lines = [cells[i : i + 6] for i in range(0, len(cells), 6)]
    assert lines == [
        ["file", "row groups read", "of", "rows read", "skipped by", "doubtful"],
        ["y.parquet", "2", "3", "20", "filter: 1", "'a': broken"],
        ["z.parquet", "1", "1", "1", "", ""],
        ["x.parquet", "0", "3", "0", "filter: 2, range: 1", ""],
        ["2 of 3 files", "3", "7", "21", "filter: 3, range: 1", "1 row groups"],
    ]
