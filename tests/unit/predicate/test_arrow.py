"""Expressions of pyarrow become the expected predicate tree; anything unsupported is rejected by name."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import operator
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ExpressionError, ParquetBloomError, PredicateError
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.tree import And, Compare, Equal, In, IsNotNull, IsNull, Node, NotEqual, NotIn, Or

a, b = pc.field("a"), pc.field("b")
NAN = math.nan
TEXT_NUMBER = pa.scalar("x").cast(pa.dictionary(pa.int32(), pa.string()))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (a == 1, Equal("a", 1)),
        (a != "x", NotEqual("a", "x")),
        (a < 1.5, Compare("a", "<", 1.5)),
        (a <= dt.date(2020, 1, 1), Compare("a", "<=", dt.date(2020, 1, 1))),
        (a > b"x", Compare("a", ">", b"x")),
        (a >= decimal.Decimal("1.50"), Compare("a", ">=", decimal.Decimal("1.50"))),
        (pc.scalar(3) < a, Compare("a", ">", 3)),
        (pc.scalar(3) == a, Equal("a", 3)),
        (pc.equal(a, 1), Equal("a", 1)),
        (a == pa.scalar(2**64 - 1, pa.uint64()), Equal("a", 2**64 - 1)),
        (a == pa.scalar(1, pa.int8()), Equal("a", 1)),
        (a == uuid.UUID(int=7), Equal("a", uuid.UUID(int=7))),
        (a == pa.scalar(b"x", pa.binary_view()), Equal("a", b"x")),
        (a == TEXT_NUMBER, Equal("a", "x")),
        (a == pa.scalar(1, pa.timestamp("ns")), Equal("a", pa.scalar(1, pa.timestamp("ns")))),
        (a == pa.scalar(0, pa.timestamp("s", "UTC")), Equal("a", dt.datetime(1970, 1, 1, tzinfo=dt.UTC))),
        (a == pa.scalar(None), Equal("a", None)),
        (a == NAN, Equal("a", NAN)),
        (pc.field("a", "b.c", "d") == 1, Equal("a.b.c.d", 1)),
        (pc.field(("a", "b")) == 1, Equal("a.b", 1)),
        (pc.field(' "a"\n== 1)') == 1, Equal(' "a"\n== 1)', 1)),
        (a == "') or (b == '", Equal("a", "') or (b == '")),
        (a, Equal("a", True)),
        (~a, NotEqual("a", True)),
        (a.is_null(), IsNull("a")),
        (pc.is_null(a), IsNull("a")),
        (a.is_null(nan_is_null=True), Or((IsNull("a"), Equal("a", NAN)))),
        (a.is_valid(), IsNotNull("a")),
        (a.is_nan(), Equal("a", NAN)),
        (~a.is_null(), IsNotNull("a")),
        ((a == 1) & (b == 2), And((Equal("a", 1), Equal("b", 2)))),
        ((a == 1) | (b == 2) | (a == 3), Or((In("a", (1, 3)), Equal("b", 2)))),
        (~((a == 1) | ~(b < 2)), And((NotEqual("a", 1), Compare("b", "<", 2)))),
        ((a == 1) & ((b == 2) | (b.is_null())), And((Equal("a", 1), Or((Equal("b", 2), IsNull("b")))))),
        (pc.and_kleene(a == 1, b == 2), And((Equal("a", 1), Equal("b", 2)))),
        (pc.scalar(True) & (a == 1), Equal("a", 1)),
        (pc.scalar(False) | (a == 1), Equal("a", 1)),
        (a.isin([1, 2]), In("a", (1, 2))),
        (a.isin([]), In("a", ())),
        (a.isin(["x", None]), Or((IsNull("a"), In("a", ("x",))))),
        (pc.is_in(a, pa.array([1, None]), skip_nulls=True), In("a", (1,))),
        (~a.isin([1, 2]), Or((IsNull("a"), NotIn("a", (1, 2))))),
        (~a.isin([1, None]), And((IsNotNull("a"), NotIn("a", (1,))))),
        (~~a.isin([1]), In("a", (1,))),
        (a.isin(pa.chunked_array([[1], [2]])), In("a", (1, 2))),
        (pc.is_in(a, pa.array(["x", None]).dictionary_encode()), Or((IsNull("a"), In("a", ("x",))))),
        (a == pc.scalar("2020-01-31").cast(pa.date32()), Equal("a", dt.date(2020, 1, 31))),
        (a == pc.scalar(1).cast("int8"), Equal("a", 1)),
    ],
)
def test_expressions(expression: pc.Expression, expected: Node) -> None:
    assert parse(expression) == expected


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (pc.field(0) == 1, "cannot be decoded"),
        (pc.scalar(True), "a literal as a condition"),
        (pc.scalar(False) & (a == 1), "a literal as a condition"),
        ((a == 1) & pc.scalar(None), "a literal as a condition"),
        (a == b, "anything but a field with a literal"),
        (pc.scalar(1) == pc.scalar(1), "anything but a field with a literal"),
        ((a == 1) == (b == 2), "anything but a field with a literal"),
        ((a + 1) == 2, "'add_checked' is not supported"),
        (pc.match_like(a, "x%", ignore_case=True), "match_like that ignores case"),
        (pc.match_like(a, "x\\y"), "the escape character"),
        (pc.match_substring_regex(a, "("), "not a regular expression"),
        (pc.utf8_trim(a, " ") == "x", "'utf8_trim' is not supported"),
        (pc.list_element(a, 0) == 1, "'list_element' is not supported"),
        (pc.and_(a == 1, b == 2), "'and_' is not supported"),
        (pc.xor(a == 1, b == 2), "'xor' is not supported"),
        (a.cast("int32") == 1, "a cast of a field"),
        (a == pc.scalar("x").cast("int8"), "a literal cannot be cast"),
        (a == pc.scalar(300).cast("int8", safe=False), "a cast that may change a literal"),
        ((a == 1).is_null(), "is_null of anything but a field"),
        ((a == 1).is_valid(), "is_valid of anything but a field"),
        ((a == 1).isin([True]), "isin of anything but a field"),
        (a == pa.scalar([1, 2]), "cannot be a literal"),
        (a.isin(pa.array([[1]])), "cannot be a literal"),
    ],
)
def test_unsupported_input_is_a_type_error(expression: pc.Expression, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(expression)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, PredicateError)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.ci
def test_no_depth_is_too_deep() -> None:
    many = functools.reduce(operator.or_, [a == number for number in range(3000)])
    assert parse(many) == In("a", tuple(range(3000)))
    expression = a == 1
    for number in range(400):
        expression = ~((pc.field(f"f{number}") == number) & expression)
    assert len(str(parse(expression))) > 0


def test_every_entrance_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [3, 1, 2, 9], "b": ["x", "y", None, "z"]}), path, row_group_size=2)
    parquet_bloom.embed(path, ["a"])
    where = (a == 1) | b.is_null()
    assert parquet_bloom.prune(path, where).selected == {str(path): [0, 1]}
    assert parquet_bloom.prune(path, a == 5).selected == {}
    assert parquet_bloom.read_table(path, where)["a"].to_pylist() == [1, 2]
    assert parquet_bloom.dataset(path).scan(where).to_reader().read_all()["a"].to_pylist() == [1, 2]
    for call in (
        parquet_bloom.prune,
        parquet_bloom.read_table,
        lambda path, where: parquet_bloom.dataset(path).scan(where),
    ):
        with pytest.raises(TypeError, match="'add_checked' is not supported") as caught:
            call(path, (a + 1) == 2)
        assert isinstance(caught.value, ParquetBloomError)


def test_sql_holds_where_arrow_has_another_meaning(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    values = [0.0, -0.0, NAN, 1.5, None]
    pq.write_table(pa.table({"a": values}), path)
    assert parquet_bloom.read_table(path, a.isin([0.0]))["a"].to_pylist() == [0.0, 0.0]
    assert parquet_bloom.read_table(path, a == NAN).num_rows == 1
    assert parquet_bloom.read_table(path, a.is_nan()).num_rows == 1
    assert parquet_bloom.read_table(path, a.is_null(nan_is_null=True)).num_rows == 2
    assert parquet_bloom.read_table(path, ~a.is_null(nan_is_null=True)).num_rows == 3
    assert parquet_bloom.read_table(path, a > 1)["a"].drop_null().to_pylist()[1:] == [1.5]
