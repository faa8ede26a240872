"""Pruning by what a Variant has at a path: only where every value at the path is in the column that is the evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers.variant_rows import KIND, METADATA, NULL, NUMBER, row, write

import parquet_bloom
from parquet_bloom.errors import PredicateError, UnknownColumnError

GROUPS = 3  # row groups of three rows each


def selected(path: Path, where: str, **options: Any) -> list[int]:
    plan = parquet_bloom.prune(path, where, **options)
    return [row_group for file in plan.files for row_group in file.selected]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write(tmp_path / "a.parquet", [row(number) for number in range(GROUPS * 3)])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("v:id::bigint = 4", [1]),
        ("v:id::bigint IN (0, 8)", [0, 2]),
        ("v:id::bigint > 5", [2]),
        ("variant_get(v, '$.id', 'bigint') = 4", [1]),
        ("try_variant_get(v, '$.id', 'bigint') = 4", [1]),
        ("TRY_CAST(v:id AS BIGINT) = 4", [1]),
        ("v:['s.t']::string = 't4'", [1]),
        ("v:\"s.t\"::string LIKE 't4%'", [1]),
        ("v:o.x::double = 2", [1]),
        ("v:o.x::double = 2 AND k = 8", []),
        ("v:id::int = 4", [0, 1, 2]),  # of fewer bits: a value may be an error
        ("v:id::string = '4'", [0, 1, 2]),
        ("v:id::decimal(10,0) = 4", [0, 1, 2]),
        ("v:ID::bigint = 4", [0, 1, 2]),  # another field
        ("v:s.t::string = 't4'", [0, 1, 2]),
        ("v:l[0]::bigint = 4", [0, 1, 2]),
        ("v:id::bigint IS NULL", [0, 1, 2]),
        ("NOT (v:id::bigint = 4)", [0, 1, 2]),
        ("v:id::bigint <> 4", [0, 1, 2]),
        ("v:id::bigint IS NOT DISTINCT FROM 4", [1]),
    ],
)
def test_row_groups(plain: Path, where: str, expected: list[int]) -> None:
    assert selected(plain, where) == expected


@pytest.mark.parametrize("place", ["value", "typed_value__id__value"])
@pytest.mark.parametrize(("value", "is_read"), [(NUMBER, True), (NULL, False)])
@pytest.mark.parametrize("options", [{}, {"write_page_index": True, "data_page_size": 1}], ids=["groups", "pages"])
def test_a_value_of_another_type_in_one_row_group(
    tmp_path: Path, place: str, value: bytes, is_read: bool, options: dict[str, Any]
) -> None:
    """Its row group is read, by statistics, filters, dictionaries and pages; a Variant's null is no value."""
    rows = [row(number) for number in range(GROUPS * 3)]
    rows[4] = row(4, **{place: value, "typed_value__id__typed_value": None})
    path = write(tmp_path / "a.parquet", rows, **options)
    expected = [1] if is_read else []
    assert selected(path, "v:id::bigint = 7") == [*expected, 2]
    assert selected(path, "v:id::bigint = 100") == expected
    parquet_bloom.embed(path, ["v:id", "v:$.o.x"])
    assert selected(path, "v:id::bigint = 100") == expected
    assert selected(path, "v:o.x::double = 0.75") == (expected if place == "value" else [])


def test_values_that_the_type_of_the_column_does_not_have(tmp_path: Path) -> None:
    """Where a path is shredded to a narrower type, values that do not fit are elsewhere."""
    number = pa.struct([("value", pa.binary()), ("typed_value", pa.int8())])
    typed = pa.struct([pa.field("a", number, nullable=False)])
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", typed)])
    large = {"value": b"\x10\x00\x10", "typed_value": None}  # 4096
    rows = [{"metadata": METADATA, "typed_value": {"a": large if at == 3 else {"typed_value": at}}} for at in range(9)]
    pq.write_table(pa.table({"v": pa.array(rows, kind)}), tmp_path / "a.parquet", row_group_size=3)
    for where in ("v:a::bigint = 4096", "v:a::bigint IN (4096, 4097)", "v:a::bigint > 4000"):
        assert selected(tmp_path / "a.parquet", where) == [1]
        assert parquet_bloom.read_table(tmp_path / "a.parquet", where, columns=["v"]).num_rows == 1


def test_bounds_that_are_no_proof_of_null(tmp_path: Path) -> None:
    """A row group with Variant nulls and another value has other bounds."""
    rows = [row(number) for number in range(GROUPS * 3)]
    for number, value in ((3, NULL), (5, NUMBER)):
        rows[number] = row(number, typed_value__id__value=value, typed_value__id__typed_value=None)
    assert selected(write(tmp_path / "a.parquet", rows), "v:id::bigint = 100") == [1]


def test_without_statistics(tmp_path: Path) -> None:
    """Nothing shows that there are no values of other types, whatever filters say."""
    rows = [row(number) for number in range(GROUPS * 3)]
    path = write(tmp_path / "a.parquet", rows, write_statistics=False)
    parquet_bloom.embed(path, ["v:id"])
    assert selected(path, "v:id::bigint = 100") == [0, 1, 2]
    assert selected(path, "v.typed_value.id.typed_value = 100") == []


def test_filters_and_dictionaries(tmp_path: Path) -> None:
    rows = [row(number * 2) for number in range(GROUPS * 3)]
    path = write(tmp_path / "a.parquet", rows, use_dictionary=False)
    assert selected(path, "v:id::bigint = 9") == [1]
    parquet_bloom.embed(path, ["v:id"])
    assert selected(path, "v:id::bigint = 9") == []
    path = write(tmp_path / "b.parquet", rows)
    assert selected(path, "v:['s.t']::string LIKE '%9'") == []


def test_null_variants(tmp_path: Path) -> None:
    rows = [None if number % 3 == 0 else row(number) for number in range(GROUPS * 3)]
    path = write(tmp_path / "a.parquet", rows)
    assert selected(path, "v:id::bigint = 4") == [1]
    assert selected(path, "v:id::bigint IS NULL") == [0, 1, 2]
    assert selected(write(path, [None] * 3), "v:id::bigint = 4") == []


@pytest.mark.parametrize(
    ("kind", "values", "target", "expected"),
    [
        (pa.int32(), [1, 5], "bigint", False),
        (pa.int32(), [1, 5], "int", False),
        (pa.int32(), [1, 5], "smallint", True),
        (pa.uint32(), [1, 5], "bigint", True),
        (pa.float32(), [1, 5], "float", False),
        (pa.float32(), [1, 5], "double", True),
        (pa.decimal128(9, 2), [1, 5], "decimal(9,2)", False),
        (pa.decimal128(9, 2), [1, 5], "decimal(18,2)", False),
        (pa.decimal128(9, 2), [1, 5], "decimal(8,2)", True),
        (pa.decimal128(9, 2), [1, 5], "decimal(9,1)", True),
    ],
)
def test_types_of_columns(tmp_path: Path, kind: pa.DataType, values: list[Any], target: str, expected: bool) -> None:
    rows = pa.array(values, pa.int8()).cast(pa.decimal128(3, 0)).cast(kind)
    of_field = pa.StructArray.from_arrays([pa.nulls(2, pa.binary()), rows], ["value", "typed_value"])
    typed = pa.StructArray.from_arrays([of_field], fields=[pa.field("a", of_field.type, nullable=False)])
    metadata = pa.array([METADATA] * 2)
    variants = pa.StructArray.from_arrays(
        [metadata, pa.nulls(2, pa.binary()), typed], ["metadata", "value", "typed_value"]
    )
    pq.write_table(pa.table({"v": variants}), tmp_path / "a.parquet")
    assert selected(tmp_path / "a.parquet", f"v:a::{target} = 7") == ([0] if expected else [])


def test_the_variant_itself(tmp_path: Path) -> None:
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())])
    rows = [{"metadata": METADATA, "value": None, "typed_value": number} for number in range(6)]
    pq.write_table(pa.table({"v": pa.array(rows, kind)}), tmp_path / "a.parquet", row_group_size=3)
    assert selected(tmp_path / "a.parquet", "variant_get(v, '$', 'bigint') = 4") == [1]


def test_names(plain: Path) -> None:
    with pytest.raises(UnknownColumnError, match="column 'w'"):
        parquet_bloom.prune(plain, "w:id::bigint = 4")
    with pytest.raises(UnknownColumnError, match="v:none"):
        parquet_bloom.embed(plain, ["v:none"])
    with pytest.raises(PredicateError, match="variant_get"):
        parquet_bloom.prune(plain, "v:id = 4")
    assert selected(plain, "k:id::bigint = 4") == [0, 1, 2]  # which is no Variant: its rows are an error, or not read
    parquet_bloom.embed(plain, ["v:id", "v:['s.t']"])
    with parquet_bloom.open(plain) as file:
        assert file.filter(1, "v:id").check([4, 5, 6]).tolist() == [True, True, False]


def test_a_column_of_such_a_name(tmp_path: Path) -> None:
    """Its evidence is not the path's, nor the path's its."""
    rows = [row(number) for number in range(6)]
    table = pa.table({"v": pa.array(rows, KIND), "v:$.id::bigint": [9] * 6})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    assert selected(tmp_path / "a.parquet", '"v:$.id::bigint" = 9') == [0, 1]
    assert 1 in selected(tmp_path / "a.parquet", "v:id::bigint = 4")


def test_advice_is_on_what_conditions_compare(plain: Path) -> None:
    """Filters of residuals and of the metadata would answer no question."""
    columns = parquet_bloom.advise(plain)
    for name in ("v.metadata", "v.value", "v.typed_value.id.value"):
        assert (columns[name].verdict, "encoding" in columns[name].reason) == ("no", True), name
    assert "encoding" not in columns["v.typed_value.id.typed_value"].reason
