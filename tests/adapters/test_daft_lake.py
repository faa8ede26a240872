"""Test Daft against its own reader: rows by every filter, columns, limits, joins, and which files are read."""

from __future__ import annotations

import asyncio
import datetime
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

daft = pytest.importorskip("daft", reason="tools/adapters.sh installs it")

from daft import col, lit  # noqa: E402
from daft.functions import contains, endswith, startswith  # noqa: E402
from daft.io.pushdowns import Pushdowns  # noqa: E402

from parquet_bloom.adapters import DaftLake  # noqa: E402
from parquet_bloom.adapters.daft_lake import FilterTranslation  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Daft's own

MOMENT = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=1777)


def rows_of(frame: Any) -> list[Any]:
    return sorted(frame.to_pydict()["row"])


def tasks_of(lake: Path, filters: Any = None, columns: list[str] | None = None, limit: int | None = None) -> list[Any]:
    async def collect() -> list[Any]:
        source = DaftLake(parquet_bloom.dataset(lake))
        return [task async for task in source.get_tasks(Pushdowns(filters=filters, columns=columns, limit=limit))]

    return asyncio.run(collect())


def files_of(tasks: list[Any]) -> list[str]:
    return [Path(file.path).name for task in tasks for file in task._part.plan().files]


def list_filters(rows: pa.Table) -> list[Any]:
    ids, names = rows["id"].to_pylist(), rows["name"].to_pylist()
    return [
        col("id") == ids[777],
        lit(ids[777]) == col("id"),
        lit(500) > col("id"),
        col("id").is_in([ids[5], ids[1999], -1]),
        ~col("id").is_in([ids[5], ids[1999]]),
        ~(col("id") > 900),
        ~((col("id") > 900) & (col("small") <= 90)),
        (col("name") == names[8]) | (col("small") < -97),
        (col("name") == names[8]) | (col("name").upper() == "N5"),
        (col("small") > 1_000_000) | (col("row") < 5),
        col("small").between(95, 97),
        col("score") > 0.5,
        ~(col("score") <= 0.5),
        col("score") != 0.5,
        col("score") == 0.0,
        col("score") == float("nan"),
        col("score").is_in([0.0, 1.5]),
        col("score") == 1,
        col("score") == (1 << 60) + 1,  # which no double is
        col("name").is_null() & (col("id") < 20_000),
        ~col("name").is_null() & (col("id") < 900),
        col("name") != names[8],
        startswith(col("name"), "n12"),
        endswith(col("name"), "77"),
        contains(col("name"), "77") & ~contains(col("name"), "1"),
        col("is_new") & (col("id") < 900),
        ~col("is_new") & (col("id") < 900),
        col("at") == MOMENT,
        col("at") < MOMENT,
        ~(col("at") < MOMENT),
        col("at") > MOMENT + datetime.timedelta(microseconds=1),
        col("day") == datetime.date(2026, 1, 2),
        (col("day") > datetime.date(2026, 1, 2)) & (col("id") + 1 == ids[3] + 1),
    ]


def test_every_filter_gives_the_rows_of_daft_alone(lake: Path, rows: pa.Table) -> None:
    ours = DaftLake(parquet_bloom.dataset(lake)).read()
    theirs = daft.from_arrow(parquet_bloom.dataset(lake).to_table())
    for filter in list_filters(rows):
        assert rows_of(ours.where(filter)) == rows_of(theirs.where(filter)), str(filter)


def test_random_filters_give_the_rows_of_daft_alone(lake: Path, rows: pa.Table) -> None:
    dice, leaves = random.Random(5), list_filters(rows)
    ours = DaftLake(parquet_bloom.dataset(lake)).read()
    theirs = daft.from_arrow(parquet_bloom.dataset(lake).to_table())

    def draw(depth: int) -> Any:
        if not depth or dice.random() < 0.3:
            return dice.choice(leaves)
        make: Callable[[], Any] = dice.choice(
            [lambda: draw(depth - 1) & draw(depth - 1), lambda: draw(depth - 1) | draw(depth - 1), lambda: ~draw(depth)]
        )
        return make()

    for _ in range(60):
        filter = draw(3)
        assert rows_of(ours.where(filter)) == rows_of(theirs.where(filter)), str(filter)


def test_what_is_certain_chooses_files(lake: Path, rows: pa.Table) -> None:
    id, name = rows["id"][777].as_py(), rows["name"][777].as_py()
    assert files_of(tasks_of(lake, col("id") == id)) == ["02.parquet"]
    assert files_of(tasks_of(lake, (col("name") == name) & (col("score") > 0.5))) == ["02.parquet"]
    assert files_of(tasks_of(lake, col("row") > 3500)) == ["11.parquet"]
    assert files_of(tasks_of(lake, ~(col("row") <= 3500))) == ["11.parquet"]
    assert files_of(tasks_of(lake, col("at") > datetime.datetime(1970, 1, 1, 0, 0, 3, 500_000))) == ["11.parquet"]
    assert files_of(tasks_of(lake, col("day") == datetime.date(2026, 1, 2))) == [
        f"{number:02}.parquet" for number in (1, 4, 7, 10)
    ]
    assert files_of(tasks_of(lake, col("id") == -1)) == []


@pytest.mark.parametrize(
    "filter",
    [
        col("score") > 0.5,  # NaN is greater to Daft
        ~(col("score") == 0.5),
        col("big") == 5,  # compared as doubles
        col("id") == 1 << 63,
        col("name") == 5,
        col("small") < 1_000_000,
        col("id").cast(daft.DataType.string()) == "5",
        col("missing") == 5,
        (col("id") == 5) | (col("score") > 0.5),
        ~((col("id") == 5) & (col("score") > 0.5)),
    ],
    ids=str,
)
def test_what_is_not_certain_is_left_to_daft(filter: Any) -> None:
    schema = pa.schema({"id": pa.int64(), "small": pa.int16(), "score": pa.float64(), "name": pa.string()})
    assert FilterTranslation(schema.append(pa.field("big", pa.uint64()))).visit(filter) is None


def test_columns_and_limits_are_pushed_down(lake: Path, rows: pa.Table) -> None:
    tasks = tasks_of(lake, col("id") == rows["id"][777].as_py(), ["name"])
    assert [task.schema.column_names() for task in tasks] == [["id", "name"]]  # the filter's columns, too
    frame = DaftLake(parquet_bloom.dataset(lake)).read()
    assert frame.select("name").column_names == ["name"]
    assert frame.count_rows() == len(rows)
    assert len(frame.limit(7).to_pydict()["row"]) == 7
    limited = frame.where(col("score") > 1).limit(5).select("score").to_pydict()
    assert list(limited) == ["score"]
    assert len(limited["score"]) == 5
    assert frame.where(col("id") == -1).to_pydict()["row"] == []

    async def count(task: Any) -> int:
        return sum([len(batch) async for batch in task.read()])

    assert [asyncio.run(count(task)) for task in tasks_of(lake, None, ["id"], 7)] == [7] * len(tasks_of(lake))


def test_joins_with_columns_that_come_later(lake: Path, rows: pa.Table) -> None:
    frame = DaftLake(parquet_bloom.dataset(lake)).read()
    few = daft.from_pydict({"id": rows["id"].to_pylist()[40:43], "note": ["a", "b", "c"]})
    joined = few.join(frame, on="id").select("note", "row").sort("note").to_pydict()
    assert joined == {"note": ["a", "b", "c"], "row": [40, 41, 42]}
    grouped = frame.join(few, on="id").groupby("note").agg(col("row").max()).sort("note").to_pydict()
    assert grouped == {"note": ["a", "b", "c"], "row": [40, 41, 42]}


def test_many_ids_and_few_columns(lake: Path, rows: pa.Table) -> None:
    """Daft shortens short lists to comparisons, and cannot tell the columns of a long one."""
    ids = rows["id"].to_pylist()[100:300]
    frame = DaftLake(parquet_bloom.dataset(lake)).read()
    assert rows_of(frame.where(col("id").is_in(ids)).select("row")) == [*range(100, 300)]
    assert tasks_of(lake, col("id").is_in(ids), ["row"])[0].schema.column_names() == ["row", "id"]


@pytest.fixture(scope="module")
def odd_types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of types that Daft does not take from Arrow as they are."""
    uuids = pa.array([uuid.UUID(int=row).bytes for row in range(50)], pa.uuid())
    labels = pa.array([f"l{row % 3}" for row in range(50)]).dictionary_encode()
    table = pa.table(
        {
            "row": range(50),
            "uuid": uuids,
            "label": labels,
            "point": pa.StructArray.from_arrays([pa.array(range(50)), labels], ["x", "label"]),
            "labels": pa.ListArray.from_arrays(pa.array(range(51), pa.int32()), labels),
        }
    )
    path = tmp_path_factory.mktemp("types") / "a.parquet"
    pq.write_table(table, path, row_group_size=10)
    return path


def test_rows_of_odd_types_are_those_of_daft_alone(odd_types: Path) -> None:
    ours, theirs = DaftLake(parquet_bloom.dataset(odd_types)).read(), daft.read_parquet(str(odd_types))
    assert ours.schema() == theirs.schema()
    assert ours.to_pydict() == theirs.to_pydict()
    assert ours.where(col("label") == "l1").count_rows() == 17


@pytest.mark.parametrize(
    "filter", [col("point")["x"] == 7, ~(col("point")["x"] != 7), (col("point")["x"] == 7) & (col("row") < 9)], ids=str
)
def test_fields_of_structs_are_left_to_daft(odd_types: Path, filter: Any) -> None:
    frame = DaftLake(parquet_bloom.dataset(odd_types)).read()
    assert frame.where(filter).select("row").to_pydict() == {"row": [7]}


def test_what_is_beside_a_field_of_a_struct_chooses_files(lake: Path, rows: pa.Table) -> None:
    id = rows["id"][777].as_py()
    unknown = col("tags")[0] == "t1"
    assert files_of(tasks_of(lake, (col("id") == id) & unknown)) == ["02.parquet"]
    schema = pa.schema({"id": pa.int64(), "point": pa.struct({"x": pa.int64()})})
    field = col("point")["x"] == 7
    assert FilterTranslation(schema).visit(field) is None
    assert FilterTranslation(schema).visit((col("id") == 5) | field) is None
    assert str(FilterTranslation(schema).visit(~(~(col("id") == 5) | field))) == "(id == 5)"


def test_only_a_dataset_is_taken() -> None:
    with pytest.raises(ParquetBloomError, match=r"give a dataset, as parquet_bloom\.dataset returns, got str"):
        DaftLake("lake")
