"""Test Ray Data against plain pyarrow: rows, columns, counts, which files are read, and positions of keys."""

from __future__ import annotations

import datetime
import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError

ray = pytest.importorskip("ray", reason="tools/adapters.sh installs it")
pytest.importorskip("ray.data")

from ray.data.expressions import col, lit  # noqa: E402

from parquet_bloom.adapters import RayLake, RayPositions  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, which are many

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": variables})
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    yield
    ray.shutdown()


def read(dataset: parquet_bloom.scan.dataset.Dataset, *arguments: object) -> ray.data.Dataset:
    return ray.data.read_datasource(RayLake(dataset, *arguments))


def rows_of(found: ray.data.Dataset) -> list[int]:
    return sorted(row["row"] for row in found.take_all())


def expected(lake: Path, filter: pc.Expression) -> list[int]:
    return sorted(ds.dataset(lake, partitioning="hive").to_table(filter=filter)["row"].to_pylist())


def test_everything_is_read_and_counted_by_footers(lake: Path, rows: pa.Table) -> None:
    found = read(parquet_bloom.dataset(lake))
    assert found.columns() == [*rows.column_names, "day"]
    assert found.count() == len(rows)
    table = pa.concat_tables(ray.get(found.to_arrow_refs()))
    assert repr(table.select(rows.column_names).sort_by("row").to_pylist()) == repr(rows.to_pylist())  # NaN is in it
    assert set(table["day"].to_pylist()) == {datetime.date(2026, 1, day) for day in (1, 2, 3)}


def test_filters_choose_files_and_rows_as_arrow_does(lake: Path, rows: pa.Table) -> None:
    ids, names = rows["id"].to_pylist(), rows["name"].to_pylist()
    dataset = parquet_bloom.dataset(lake)
    cases = [
        (col("id") == ids[777], pc.field("id") == ids[777]),
        (col("id").is_in([ids[5], ids[1999], -1]), pc.field("id").isin([ids[5], ids[1999], -1])),
        (~(col("id") > 900), ~(pc.field("id") > 900)),
        ((col("name") == names[8]) | (col("small") < -97), (pc.field("name") == names[8]) | (pc.field("small") < -97)),
        (col("score") > 0.5, pc.field("score") > 0.5),
        (col("score") == 0.0, pc.field("score") == 0.0),
        (~(col("score") <= 0.5), ~(pc.field("score") <= 0.5)),
        (col("name").is_null() & (col("id") < 20_000), pc.field("name").is_null() & (pc.field("id") < 20_000)),
        (col("id") + lit(1) == ids[3] + 1, pc.field("id") == ids[3]),
    ]
    for ours, theirs in cases:
        found = read(dataset).filter(expr=ours)
        wanted = expected(lake, theirs)
        assert rows_of(found) == wanted
        assert found.count() == len(wanted)
        assert found.select_columns(["row"]).count() == len(wanted)


def test_a_lookup_has_a_task_for_the_files_that_may_match(lake: Path, rows: pa.Table) -> None:
    source = RayLake(parquet_bloom.dataset(lake)).apply_predicate(col("id") == rows["id"][777].as_py())
    (task,) = source.get_read_tasks(8)
    assert [Path(path).name for path in task.metadata.input_files] == ["02.parquet"]
    assert task.metadata.num_rows is None  # how many match is not known
    assert 0 < source.estimate_inmemory_data_size() < (lake / "day=2026-01-03" / "02.parquet").stat().st_size
    whole = RayLake(parquet_bloom.dataset(lake))
    tasks = whole.get_read_tasks(5)
    assert len(tasks) == 5
    assert sum(task.metadata.num_rows for task in tasks) == len(rows)
    assert sum(task.metadata.size_bytes for task in tasks) == whole.estimate_inmemory_data_size()
    filtered = RayLake(parquet_bloom.dataset(lake).filter(pc.field("id") == rows["id"][777].as_py()))
    (task,) = filtered.get_read_tasks(8)
    assert task.metadata.num_rows is None  # Ray would count the row group's
    assert [block.num_rows for block in task()] == [1]


def test_no_row_leaves_the_columns(lake: Path) -> None:
    found = read(parquet_bloom.dataset(lake)).filter(expr=col("id") == -5)
    assert found.take_all() == []
    assert found.count() == 0
    assert "id" in found.columns()


def test_columns_alone_are_read(lake: Path, rows: pa.Table) -> None:
    found = read(parquet_bloom.dataset(lake)).select_columns(["name", "day"])
    table = pa.concat_tables(ray.get(found.to_arrow_refs()))
    assert table.column_names == ["name", "day"]
    assert sorted(table["name"].drop_null().to_pylist()) == sorted(rows["name"].drop_null().to_pylist())
    assert read(parquet_bloom.dataset(lake)).select_columns([]).count() == len(rows)


def test_predicates_of_our_own(lake: Path, rows: pa.Table) -> None:
    dataset = parquet_bloom.dataset(lake)
    where = "name LIKE '%77%' AND day = DATE '2026-01-02'"
    wanted = dataset.scan(where).to_arrow()["row"].to_pylist()
    assert wanted
    assert rows_of(read(dataset, where)) == sorted(wanted)
    assert rows_of(read(dataset, where).filter(expr=col("row") < 1000)) == [row for row in wanted if row < 1000]
    assert read(dataset, where).select_columns(["id"]).count() == len(wanted)
    assert read(dataset, where).count() == len(wanted)
    assert read(dataset, "id = -5").count() == 0
    with pytest.raises(PredicateError):
        RayLake(dataset, "id = = 5")
    with pytest.raises(ParquetBloomError, match=r"give a dataset, as parquet_bloom\.dataset returns, got str"):
        RayLake(str(lake))


def test_deleted_rows_of_a_table_stay_deleted(rows: pa.Table, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    for start in range(0, 1200, 400):
        deltalake.write_deltalake(path, rows.select(["row", "id"]).slice(start, 400), mode="append")
    deltalake.DeltaTable(path).alter.set_table_properties({"delta.enableDeletionVectors": "true"}, False)
    ids = rows["id"].to_pylist()[:1200]
    parquet_bloom.delete(path, ids[100:700], on="id")
    dataset = parquet_bloom.dataset(path)
    assert dataset.table is not None
    assert read(dataset).count() == 600
    assert rows_of(read(dataset).filter(expr=col("id").is_in(ids[90:110] + ids[695:705]))) == [
        *range(90, 100),
        *range(700, 705),
    ]
    keys = ray.data.from_items([{"id": key} for key in ids])
    assert ray.data.read_datasource(RayPositions(dataset, "id", keys)).count() == 600


@pytest.mark.parametrize("has_index", [False, True])
def test_positions_are_those_of_locate(lake: Path, rows: pa.Table, has_index: bool, tmp_path: Path) -> None:
    index = None
    if has_index:
        index = tmp_path / "index"
        with parquet_bloom.LakeIndex.create(index, ["id"], lake=lake) as made:
            made.append()
    dataset = parquet_bloom.dataset(lake, index=index)
    picked = random.Random(1).sample(rows["id"].to_pylist(), 200)
    keys = ray.data.from_arrow([pa.table({"id": picked[:120]}), pa.table({"id": [*picked[110:], None, -1]})])
    located = ray.data.read_datasource(RayPositions(dataset, "id", keys), override_num_blocks=4)
    table = pa.concat_tables(ray.get(located.to_arrow_refs()))
    wanted = dataset.locate("id", picked)
    order = [("path", "ascending"), ("row", "ascending")]
    assert table.sort_by(order).equals(wanted.sort_by(order).combine_chunks())
    for position in wanted.slice(0, 5).to_pylist():
        assert pq.read_table(position["path"])["id"][position["row"]].as_py() == position["key"]
    if has_index:
        source = RayPositions(dataset, "id", ray.data.from_items([{"id": picked[0]}]))
        assert sum(len(task.metadata.input_files) for task in source.get_read_tasks(9)) == 1


def test_keys_of_several_columns_and_none_at_all(lake: Path, rows: pa.Table) -> None:
    dataset = parquet_bloom.dataset(lake)
    pairs = rows.select(["small", "id"]).slice(40, 3)
    located = ray.data.read_datasource(RayPositions(dataset, ["id", "small"], ray.data.from_arrow(pairs)))
    assert located.count() == 3
    nothing = ray.data.from_arrow(pa.table({"id": pa.array([], pa.int64())}))
    assert ray.data.read_datasource(RayPositions(dataset, "id", nothing)).count() == 0
    with pytest.raises(UnknownColumnError, match="the keys have no such column, but small, id"):
        RayPositions(dataset, ["id", "row"], ray.data.from_arrow(pairs))
    with pytest.raises(ParquetBloomError, match="keys must be a Ray dataset, got list"):
        RayPositions(dataset, "id", [1])
