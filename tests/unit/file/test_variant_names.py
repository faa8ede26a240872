"""Names of paths in Variants: the columns that files store them as, and what is said of paths that no column stores."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers.shredded_variants import make_variants

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, UnknownColumnError

DOCUMENTS = [{"a": {"b": number * 7, "c": f"t{number}"}} for number in range(100)]


def write(path: Path, shredding: dict[str, object] | None) -> Path:
    table = pa.table({"id": range(len(DOCUMENTS)), "v": make_variants(DOCUMENTS, shredding)})
    pq.write_table(table, path, row_group_size=50)
    return path


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return write(tmp_path / "stored.parquet", {"a": {"b": pa.int64(), "c": pa.string()}})


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write(tmp_path / "whole.parquet", None)


def test_a_path_that_no_column_stores_says_what_to_do(stored: Path, whole: Path) -> None:
    for path, name, problem in (
        (stored, "v:a", "the file stores these paths of the Variant as columns: v:a.b, v:a.c; an index takes any path"),
        (stored, "v", "the file stores these paths of the Variant as columns: v:a.b, v:a.c; an index takes any path"),
        (stored, "v:a.b::BIGINT", "stored paths are named without a type: v:a.b"),
        (whole, "v:a", "stores no path of the Variant as a column; an index takes any path: v:a::STRING, say"),
        (
            whole,
            "v:a.b::BIGINT",
            "stores no path of the Variant as a column; an index takes any path: v:a.b::BIGINT, say",
        ),
        (whole, "v", "several columns match the name: v.metadata, v.value"),
        (whole, "id:a", "no such column; there are: id, v.metadata, v.value"),
    ):
        before = path.read_bytes()
        with pytest.raises(UnknownColumnError, match=re.escape(problem)):
            parquet_bloom.embed(path, [name])
        assert path.read_bytes() == before


def test_several_columns_together_are_for_an_index(stored: Path) -> None:
    with pytest.raises(ParquetBloomError, match="only an index takes several columns together"):
        parquet_bloom.embed(stored, [("id", "v:a.b")])  # type: ignore[list-item]


def test_advice_takes_a_path(stored: Path, whole: Path) -> None:
    report = parquet_bloom.advise(stored, ["v:a.b"])
    assert [advice.column for advice in report.columns] == ["v.typed_value.a.typed_value.b.typed_value"]
    assert report["v:a.b"] == report.columns[0]
    for name in ("v:a.b", "v:a"):
        with pytest.raises(UnknownColumnError, match="no file stores such a path as a column of its own"):
            parquet_bloom.advise(whole, [name])


def test_names_of_variants_may_have_colons(tmp_path: Path) -> None:
    path = tmp_path / "colons.parquet"
    documents = [{"a:b": {"c": number}} for number in range(100)]
    table = pa.table({"x:v": make_variants(documents, {"a:b": {"c": pa.int64()}}), ":n": range(100)})
    pq.write_table(table, path, row_group_size=50)
    for name in ("x:v:a:b.c", "x:v:['a:b'].c"):
        report = parquet_bloom.advise(path, [name])
        assert [advice.column for advice in report.columns] == ["x:v.typed_value.a:b.typed_value.c.typed_value"]
        assert report[name] == report.columns[0]
        assert parquet_bloom.embed(path, [name], replace=True).filters
    assert parquet_bloom.advise(path, [":n"])[":n"].verdict
    for name in ("x:v:a", "x:v:a:b", "x:v:a:b.d"):
        with pytest.raises(UnknownColumnError, match="no file stores such a path as a column of its own"):
            parquet_bloom.advise(path, [name])
        with pytest.raises(
            UnknownColumnError, match=r"the file stores these paths of the Variant as columns: x:v:.*a:b.*c;"
        ):
            parquet_bloom.embed(path, [name])
    with pytest.raises(UnknownColumnError, match="the file stores these paths"):
        parquet_bloom.embed(path, ["x:v"])


def test_keys_and_projections_are_told_what_paths_are_for(stored: Path) -> None:
    dataset = parquet_bloom.dataset(stored)
    said = (
        re.escape("'v:a.b::BIGINT': ")
        + ".*no such column; paths of a Variant are for conditions: find --where 'v:a.b::TYPE"
    )
    for ask in (dataset.get, dataset.locate):
        with pytest.raises(UnknownColumnError, match=said):
            ask("v:a.b::BIGINT", [7])
    with pytest.raises(UnknownColumnError, match=r"no such column.*are for conditions"):
        parquet_bloom.read_table(stored, "id = 1", ["v:a.b"])
