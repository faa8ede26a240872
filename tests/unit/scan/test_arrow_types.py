"""Test datasets with columns, and keys, of Arrow types that some of Arrow's kernels lack."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import PredicateError
from parquet_bloom.util.arrow_values import take

ROWS = 120
LONG = [f"a text of more than twelve bytes {i}" if i % 3 else None for i in range(ROWS)]
VIEWS = pa.array(LONG, pa.string_view())
PAIRS = pa.array(range(ROWS + 1), pa.int32())

COLUMNS: dict[str, pa.Array] = {
    "string_view": VIEWS,
    "binary_view": VIEWS.cast(pa.binary_view()),
    "list": pa.ListArray.from_arrays(PAIRS, VIEWS),
    "fixed_size_list": pa.FixedSizeListArray.from_arrays(pa.concat_arrays([VIEWS, VIEWS]), 2),
    "map": pa.MapArray.from_arrays(PAIRS, pa.array([str(i) for i in range(ROWS)]), VIEWS),
    "struct": pa.StructArray.from_arrays([VIEWS], ["s"]),
    "extension": pa.ExtensionArray.from_storage(pa.opaque(pa.string_view(), "t", "v"), VIEWS),
    "list_view": pa.array([[i, None] for i in range(ROWS)], pa.list_view(pa.int64())),
    "half": pa.array(np.arange(ROWS, dtype=np.float16)),
    "null": pa.nulls(ROWS),
    "duration": pa.array(range(ROWS), pa.duration("us")),
    "decimal32": pa.array([decimal.Decimal(i) for i in range(ROWS)], pa.decimal32(5, 0)),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes([i]) * 16 for i in range(ROWS)], pa.binary(16))),
}


@pytest.mark.parametrize("indexed", [False, True], ids=["files", "index"])
@pytest.mark.parametrize("name", COLUMNS)
def test_any_column_comes_with_the_rows(tmp_path: Path, name: str, indexed: bool) -> None:
    table = pa.table({"k": np.arange(ROWS) % 40, "n": np.arange(ROWS), "x": COLUMNS[name]})
    (tmp_path / "lake").mkdir()
    for part in range(2):
        half = take(table, np.arange(part * 60, part * 60 + 60))  # pyarrow writes no slices of structs of views
        pq.write_table(half, tmp_path / "lake" / f"{part}.parquet")
    index = None
    if indexed:
        index = tmp_path / "index"
        with parquet_bloom.LakeIndex.create(index, ["k"], lake=tmp_path / "lake") as made:
            made.append()
    dataset = parquet_bloom.dataset(tmp_path / "lake", index=index)
    rows = table.to_pylist()

    def expect(keys: list[int]) -> list[dict[str, Any]]:
        return [row for key in keys for row in rows if row["k"] == key]

    for keys in ([3], [39, 0, 3], list(range(40))):
        found = dataset.get("k", keys)
        assert (found.to_pylist(), found.schema.field("x").type) == (expect(keys), dataset.schema.field("x").type)
    assert dataset.get("k", [3, 1], ["x"]).to_pylist() == [{"x": row["x"]} for row in expect([3, 1])]
    assert dataset.get(["k", "n"], [(5, 45), (3, 3)]).to_pylist() == [rows[45], rows[3]]
    assert dataset.take([70, 2, 2]).to_pylist() == [rows[70], rows[2], rows[2]]
    assert dataset.to_table(filter=pc.field("k") >= 38).to_pylist() == [row for row in rows if row["k"] >= 38]
    assert dataset.count_rows(pc.field("n") < 7) == 7
    assert dataset.scan("k < 20 AND n > 50").to_arrow().to_pylist() == [r for r in rows if r["k"] < 20 and r["n"] > 50]
    ordered = dataset.sort_by([("k", "descending"), ("n", "ascending")]).to_table()
    assert ordered.to_pylist() == sorted(rows, key=lambda row: (-row["k"], row["n"]))
    (fragment, *_) = dataset.get_fragments(pc.field("k") == 7)
    assert fragment.take([0]).to_pylist() == [rows[7]]


@pytest.mark.parametrize("arrow_type", [pa.string_view(), pa.binary_view()])
def test_views_are_filtered_and_ordered(tmp_path: Path, arrow_type: pa.DataType) -> None:
    column = VIEWS.cast(arrow_type)
    pq.write_table(pa.table({"x": column, "n": range(ROWS)}), tmp_path / "a.parquet", row_group_size=25)
    dataset, values = parquet_bloom.dataset(tmp_path), column.to_pylist()
    wanted = [values[7], values[100]]
    plain = pa.string() if arrow_type == pa.string_view() else pa.binary()
    for expression, numbers in (
        (pc.field("x") == pa.scalar(wanted[0], plain), [7]),
        (pc.field("x") == pa.scalar(wanted[0], arrow_type), [7]),
        (pc.field("x").isin(pa.array(wanted, plain)), [7, 100]),
        (pc.field("x").is_null() & (pc.field("n") < 5), [0, 3]),
    ):
        assert dataset.to_table(filter=expression)["n"].to_pylist() == numbers
        assert dataset.count_rows(expression) == len(numbers)
    ordered = dataset.sort_by("x").to_table()["x"].to_pylist()
    assert ordered == sorted([value for value in values if value is not None]) + [None] * 40
    located = dataset.locate(["x", "n"], [(values[7], 7), (values[100], 100), (values[8], 7)])
    assert located["row"].to_pylist() == [7, 100]


TEXTS = pa.array(["k3", "k150", "nope"])


def runs(array: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(array) + 1), pa.int32()), array)


def encoded(array: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(range(len(array)), pa.int8()), array)


DECIMALS = pa.array([decimal.Decimal(3), decimal.Decimal(150)], pa.decimal32(5, 0))
KEYS: list[tuple[str, pa.Array]] = [
    ("s", TEXTS.cast(pa.string_view())),
    ("s", runs(TEXTS.cast(pa.string_view()))),
    ("s", encoded(TEXTS.cast(pa.string_view()))),
    ("s", encoded(encoded(TEXTS))),
    ("s", runs(encoded(TEXTS))),
    ("s", pa.ExtensionArray.from_storage(pa.opaque(pa.string_view(), "t", "v"), TEXTS.cast(pa.string_view()))),
    ("v", TEXTS.cast(pa.binary_view())),
    ("v", runs(TEXTS)),
    ("i", DECIMALS),
    ("i", DECIMALS.cast(pa.decimal64(18, 0))),
    ("i", encoded(pa.array(np.array([3, 150], np.float16)))),
    ("d", DECIMALS),
    ("d", runs(DECIMALS)),
    ("t", encoded(pa.array([3, 150], pa.timestamp("us")))),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    texts = [f"k{i}" for i in range(200)]
    table = pa.table(
        {
            "s": texts,
            "v": pa.array(texts, pa.string_view()),
            "i": range(200),
            "d": pa.array([decimal.Decimal(i) for i in range(200)], pa.decimal32(7, 0)),
            "t": pa.array(range(200), pa.timestamp("us")),
            "one": [1] * 200,
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=50)
    return folder


@pytest.mark.ci
@pytest.mark.parametrize(("column", "keys"), KEYS, ids=[f"{column}-{keys.type}"[:60] for column, keys in KEYS])
def test_keys_of_any_encoding_find_their_rows(lake: Path, column: str, keys: pa.Array) -> None:
    dataset = parquet_bloom.dataset(lake)
    assert dataset.get(column, keys)["i"].to_pylist() == [3, 150]
    assert parquet_bloom.semi_join(dataset, keys, on=column).to_arrow()["i"].to_pylist() == [3, 150]
    for given in (keys, pa.chunked_array([keys, keys]), pa.concat_arrays([keys] * 600)):
        assert dataset.locate(column, given)["row"].to_pylist() == [3, 150]
    both = pa.table({column: keys, "one": [1] * len(keys)})
    assert dataset.locate([column, "one"], both)["row"].to_pylist() == [3, 150]
    assert dataset.get([column, "one"], both)["i"].to_pylist() == [3, 150]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([["a"]], pa.list_(pa.string_view())),
        pa.array([[1]], pa.list_view(pa.int64())),
        pa.array([{"a": "b"}], pa.struct({"a": pa.string_view()})),
        pa.array([1], pa.duration("s")),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.nulls(1),
    ],
    ids=str,
)
def test_keys_that_are_no_single_values_are_refused(lake: Path, keys: pa.Array) -> None:
    dataset = parquet_bloom.dataset(lake)
    for call in (dataset.get, dataset.locate):
        with pytest.raises(PredicateError, match=r"cannot be a literal|single values|is null|without a unit of time"):
            call("i", keys)
