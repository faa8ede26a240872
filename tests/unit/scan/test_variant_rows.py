"""Rows that are selected by what a Variant has at a path, whatever of it is stored as columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from support.writers.shredded_variants import make_variants
from support.writers.variant_rows import NUMBER, row, write

import parquet_bloom
from parquet_bloom.errors import (
    MalformedVariantError,
    ParquetBloomError,
    PredicateError,
    UnknownColumnError,
    UnreadableColumnError,
    VariantCastError,
)

DOCUMENTS: list[dict[str, Any]] = [
    {
        "id": number,
        "user": f"u{number % 50:03}",
        "at": {"x": number / 4, "tags": [number % 3, "a"]},
        "ok": number % 2 == 0,
    }
    for number in range(3000)
]
for number in range(7, 3000, 100):
    DOCUMENTS[number]["user"] = number  # of another type
for number in range(9, 3000, 100):
    del DOCUMENTS[number]["at"]
for number in range(11, 3000, 100):
    DOCUMENTS[number]["user"] = None

CONDITIONS: list[tuple[str, Any]] = [
    ("v:user::string = 'u011'", lambda one: one["user"] == "u011"),
    ("try_variant_get(v, '$.id', 'int') IN (7, 2900)", lambda one: one["id"] in (7, 2900)),
    ("v:user::string = '2907'", lambda one: one["user"] == 2907),
    ("v:user::string IS NULL", lambda one: one["user"] is None),
    ("v:at.x::double >= 749", lambda one: one.get("at", {}).get("x", 0) >= 749),
    ("v:at.x::double IS NULL", lambda one: "at" not in one),
    ("NOT (v:at.x::double < 749)", lambda one: one.get("at", {}).get("x", 0) >= 749),
    ("v:at.tags[0]::int = 2 AND v:id::bigint < 20", lambda one: "at" in one and one["id"] % 3 == 2 and one["id"] < 20),
    ("v:at.tags[1]::string <> 'a'", lambda one: False),
    ("v:at.none::int = 1 OR v:id::bigint = 5", lambda one: one["id"] == 5),
    ("v:ok::boolean AND v:id::int BETWEEN 10 AND 12", lambda one: one["id"] in (10, 12)),
    (
        "v:user::string LIKE 'u04%' AND v:id::decimal(12,1) < 100",
        lambda one: str(one["user"]).startswith("u04") and one["id"] < 100,
    ),
    ("lower(v:user::string) = 'u013' AND k > 2950", lambda one: one["user"] == "u013" and one["id"] > 2950),
    ("v:at::string LIKE '%749.75%'", lambda one: one.get("at", {}).get("x") == 749.75),
]


@pytest.fixture(scope="module")
def by_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("variants") / "a.parquet"
    texts = pa.table({"k": range(len(DOCUMENTS)), "j": [json.dumps(one) for one in DOCUMENTS]})
    with duckdb.connect() as connection:
        connection.register("texts", texts)
        query = "SELECT k, j::JSON::VARIANT AS v FROM texts ORDER BY k"
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 1000)")
    return path


@pytest.mark.parametrize(("where", "holds"), CONDITIONS, ids=[where for where, _ in CONDITIONS])
def test_conditions(by_duckdb: Path, where: str, holds: Any) -> None:
    expected = [number for number, one in enumerate(DOCUMENTS) if holds(one)]
    assert parquet_bloom.read_table(by_duckdb, where, ["k"])["k"].to_pylist() == expected
    scan = parquet_bloom.dataset(by_duckdb).scan(where, ["k"])
    assert scan.to_arrow()["k"].to_pylist() == expected
    assert scan.count_rows() == len(expected)


def test_engines_and_filters(by_duckdb: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(by_duckdb.read_bytes())
    parquet_bloom.embed(path, ["v:user", "v:at.x"])
    frame = parquet_bloom.dataset(path).scan("v:user::string = 'u042'", ["k"]).to_polars()
    assert frame["k"].to_list() == [one["id"] for one in DOCUMENTS if one["user"] == "u042"]
    for where, holds in CONDITIONS:
        expected = [number for number, one in enumerate(DOCUMENTS) if holds(one)]
        assert parquet_bloom.read_table(path, where, ["k"])["k"].to_pylist() == expected, where


def test_a_value_that_cannot_be_cast(by_duckdb: Path) -> None:
    with pytest.raises(VariantCastError, match="try_variant_get") as caught:
        parquet_bloom.read_table(by_duckdb, "v:user::bigint = 7", ["k"])
    assert str(by_duckdb) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    rows = parquet_bloom.read_table(by_duckdb, "try_variant_get(v, '$.user', 'bigint') = 7", ["k"])
    assert rows["k"].to_pylist() == [7]


def test_values_of_other_types_in_pages(tmp_path: Path) -> None:
    """Page statistics of a path's column say nothing of a row group in which the path has other values, too."""
    rows = [row(number) for number in range(24_000)]  # in chunks that are large enough for pages to be looked at
    rows[5] = row(5, typed_value__id__value=NUMBER, typed_value__id__typed_value=None)
    pages = {"write_page_index": True, "data_page_size": 800, "write_batch_size": 100}
    path = write(tmp_path / "a.parquet", rows, 12_000, compression="none", use_dictionary=False, **pages)
    assert parquet_bloom.read_table(path, "v:id::bigint IN (7, 15000)", ["k"])["k"].to_pylist() == [5, 7, 15_000]
    (ranges,) = parquet_bloom.dataset(path).scan("v:id::bigint IN (7, 15000)").row_ranges().values()
    assert ranges == {0: [(0, 12_000)], 1: [(3000, 3100)]}


def test_only_what_the_path_needs_is_read(tmp_path: Path) -> None:
    """The rest of a wide Variant is not read, unless the result has the column."""
    rows = [row(number, **{"typed_value__s.t__typed_value": f"{number:09}" * 1000}) for number in range(3000)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": range(3000), "v": pa.array(rows)}), path, compression="none", use_dictionary=False)
    assert path.stat().st_size > 20_000_000
    scan = parquet_bloom.dataset(path).scan("v:id::bigint = 1500", ["k"])
    assert scan.to_arrow()["k"].to_pylist() == [1500]
    assert scan.plan().data_bytes_read < 1_000_000


def test_variants_as_json(by_duckdb: Path, tmp_path: Path) -> None:
    """Files that are shredded in other ways, or not, have one type then; also within structs and lists."""
    (tmp_path / "a.parquet").write_bytes(by_duckdb.read_bytes())
    write(tmp_path / "b.parquet", [row(number) for number in range(3)] + [None])
    plain = [{"metadata": b"\x01\0\0", "value": NUMBER}]
    pq.write_table(pa.table({"k": [0], "v": plain}), tmp_path / "c.parquet")
    rows = parquet_bloom.read_table(tmp_path, "k < 4", variant="json")
    assert rows.schema.field("v").type == pa.large_string()
    assert list(map(json.loads, rows["v"].to_pylist()[:4])) == DOCUMENTS[:4]
    assert json.loads(rows["v"][6].as_py()) == {"id": 2, "l": [2], "o": {"x": 1.0}, "s.t": "t2"}
    assert rows["v"].to_pylist()[7:] == [None, "7"]
    with pytest.raises(UnreadableColumnError, match="variant='json'"):
        parquet_bloom.read_table(tmp_path, "k < 4")
    lake = parquet_bloom.dataset(tmp_path, variant="json")
    assert lake.schema.field("v").type == pa.large_string()
    assert lake.scan("v:id::bigint = 2").to_arrow()["v"].to_pylist() == [rows["v"][2].as_py(), rows["v"][6].as_py()]
    expected = [text for text in lake.to_table()["v"].to_pylist() if text and "u013" in text]
    assert duckdb.sql("SELECT v FROM lake WHERE v LIKE '%u013%'").to_arrow_table()["v"].to_pylist() == expected
    frame = parquet_bloom.scan_polars(tmp_path, variant="json").filter(pl.col("v") == rows["v"][3].as_py())
    assert frame.collect()["k"].to_list() == [3]
    nested = pa.table({"s": [{"v": plain[0]}], "l": [plain * 2]})
    pq.write_table(nested, tmp_path / "d.parquet")
    shown = parquet_bloom.read_table(tmp_path / "d.parquet", "s IS NOT NULL", variant="json")
    assert shown.to_pylist() == [{"s": {"v": "7"}, "l": ["7", "7"]}]
    with pytest.raises(ParquetBloomError, match="variant must be"):
        parquet_bloom.dataset(tmp_path, variant="text")  # type: ignore[arg-type]


def test_what_is_no_variant(tmp_path: Path) -> None:
    columns = {"k": [1, 2], "s": [{"a": 1}, {"a": 2}], "t": ["x", "y"], "l": [[1], [2]]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    for column in columns:
        with pytest.raises(
            PredicateError, match=f"column '{column}': it is .*, and no Variant: only these have paths$"
        ):
            parquet_bloom.read_table(tmp_path / "a.parquet", f"{column}:a::bigint = 1")


def test_of_orc(tmp_path: Path) -> None:
    """A struct of the parts of a Variant has paths; a column that has the name of one is not taken for it."""
    documents = make_variants([{"a": number} for number in range(5)])
    parts = pa.StructArray.from_arrays([documents.field("metadata"), documents.field("value")], ["metadata", "value"])
    path = tmp_path / "a.orc"
    orc.write_table(pa.table({"k": range(5), "v": parts, "v:$.a::int": [9] * 5}), path)
    for where, expected in {
        "v:a::int = 1": [1],
        "v:a::int IS NULL": [],
        '"v:$.a::int" = 9 AND v:a::int > 3': [4],
    }.items():
        assert parquet_bloom.read_table(path, where, ["k"])["k"].to_pylist() == expected, where
    with pytest.raises(PredicateError, match="column 'k': it is int64, and no Variant"):
        parquet_bloom.read_table(path, "k:a::int = 1")
    with pytest.raises(UnknownColumnError, match=r"column 'w': no such column$"):
        parquet_bloom.read_table(path, "w:a::int = 1")


def test_a_name_with_both_quotes(tmp_path: Path) -> None:
    """No row of another path is taken for one of a name that has no text of its own."""
    documents = [{"a'b\"c.d": 1}, {"a'b\"c": {"d": 1}}]
    pq.write_table(pa.table({"k": [0, 1], "v": make_variants(documents)}), tmp_path / "a.parquet")
    for part in ("""v:"a'b""c.d\"""", """v:['a''b"c.d']""", """v:['a''b"c[0]']"""):
        with pytest.raises(PredicateError, match="no engine takes a name with both kinds of quotes"):
            parquet_bloom.read_table(tmp_path / "a.parquet", f"{part}::int = 1")
    rows = parquet_bloom.read_table(tmp_path / "a.parquet", """v:"a'b""c"."d"::int = 1""", ["k"])
    assert rows["k"].to_pylist() == [1]


@pytest.mark.parametrize("text", ["v:a::timestamp with", "CAST(v:a AS timestamp without", "v:a::timestamp with time"])
def test_a_type_that_is_cut_short(by_duckdb: Path, text: str) -> None:
    with pytest.raises(PredicateError, match=r"is no type|is not closed"):
        parquet_bloom.read_table(by_duckdb, text)


def test_a_damaged_variant_is_named(tmp_path: Path) -> None:
    rows = [row(number) for number in range(3)]
    rows[1] = row(1, typed_value__id__value=b"\x0c", typed_value__id__typed_value=None)  # an int8 without its byte
    path = write(tmp_path / "a.parquet", rows)
    with pytest.raises(MalformedVariantError, match="row 1") as caught:
        parquet_bloom.read_table(path, "v:id::bigint = 7")
    assert str(path) in str(caught.value)
