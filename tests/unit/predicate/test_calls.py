"""Functions of columns in predicates: their notations, and the rows that they select."""

from __future__ import annotations

import datetime as dt
import pickle
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import parse, parse_sql, tree
from parquet_bloom.predicate.key_expression import KeyExpression, parse_key
from parquet_bloom.predicate.necessary import read_filter
from parquet_bloom.predicate.row_filter import row_mask
from parquet_bloom.predicate.tree import And, CallIn, CallNotIn, IsNotNull, IsNull, Node, negation

LOWER = CallIn("x", "lower", ("a",))
CAST = CallIn("n", "string", ("5",))


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        (None, "lower(x) = 'a'", LOWER),
        (None, "'a' = LOWER((x))", LOWER),
        (None, "lower(s.x) IN ('a', NULL)", CallIn("s.x", "lower", ("a", None))),
        (None, "upper(\"x\") NOT IN ('a', 'b')", CallNotIn("x", "upper", ("a", "b"))),
        (None, "lower(x) <> 'a'", CallNotIn("x", "lower", ("a",))),
        (None, "lower(x) <=> 'a'", And((IsNotNull("x"), LOWER))),
        (None, "lower(x) IS NULL", IsNull("x")),
        (None, "CAST(n AS VARCHAR) = '5'", CAST),
        (None, "n::text = '5'", CAST),
        ("spark", "string(n) = '5'", CAST),
        ("spark", "CAST(n AS STRING) = '5'", CAST),
        ("spark", "lcase(x) = 'a'", LOWER),
        ("duckdb", "n::VARCHAR = '5'", CAST),
        ("postgres", "CAST(n AS TEXT) = '5'", CAST),
    ],
)
def test_sql(dialect: str | None, text: str, expected: Node) -> None:
    node = parse_sql(text, dialect)
    assert node == expected
    assert parse_sql(tree.to_text(node)) == node
    assert pickle.loads(pickle.dumps(node)) == node
    assert negation(negation(node)) == node


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("tsql", "CAST(n AS VARCHAR) = '5'"),  # 30 characters
        ("snowflake", "CAST(n AS VARCHAR) = '5'"),
        (None, "CAST(n AS VARCHAR(3)) = '5'"),
        (None, "CAST(n AS FLOAT) = 5"),
        (None, "lower(x) < 'a'"),
        (None, "lower(x) BETWEEN 'a' AND 'b'"),
        (None, "lower(x) = 5"),
        (None, "lower(lower(x)) = 'a'"),
        (None, "lower(x || 'b') = 'a'"),
        (None, "lower(x) = upper(x)"),
        (None, "lower('x') = 'x'"),
        (None, "lower(DISTINCT x) = 'a'"),
        (None, "lower(x)"),
        (None, "trim(x) = 'a'"),
        ("spark", "lower(x) COLLATE UNICODE_CI = 'a'"),
        ("spark", "lower(x COLLATE UNICODE_CI) = 'a'"),
        ("duckdb", "lower(x COLLATE NOCASE) = 'a'"),
        ("duckdb", "lower(x) COLLATE NOCASE = 'a'"),
        ("postgres", "lower(x) = 'a' COLLATE \"de-x-icu\""),
    ],
)
def test_sql_that_is_refused(dialect: str | None, text: str) -> None:
    with pytest.raises(PredicateError):
        parse_sql(text, dialect)


def test_arrow() -> None:
    x, n = pc.field("x"), pc.field("n")
    schema = pa.schema({"x": pa.string(), "n": pa.int64(), "f": pa.float64(), "t": pa.timestamp("us")})
    assert parse(pc.utf8_lower(x) == "a") == LOWER
    assert parse(pc.scalar("a") == pc.utf8_lower(x)) == LOWER
    assert parse(~(pc.utf8_lower(x) == "a")) == negation(LOWER)
    assert parse(pc.utf8_upper(x).isin(["a"])) == CallIn("x", "upper", ("a",))
    assert parse(n.cast(pa.large_string()) == "5") == CAST
    for expression in (pc.utf8_lower(x) < "a", n.cast(pa.float64()) == 5, pc.utf8_lower(pc.utf8_lower(x)) == "a"):
        with pytest.raises(PredicateError):
            parse(expression)
    condition = read_filter((pc.utf8_lower(x) == "a") & (pc.utf8_lower(x) < "b"), schema).condition
    assert condition == CallIn("x", "lower", ("a",), is_exact=False)
    assert read_filter(~(n.cast(pa.string()) == "5"), schema).condition == CallNotIn("n", "string", ("5",), False)
    for name in ("f", "t"):
        assert read_filter(pc.field(name).cast(pa.string()) == "5", schema).condition is None
    assert read_filter(pc.utf8_lower(n) == "5", schema).condition is None


def values_of(where: str | Node, **columns: pa.Array) -> list[bool | None]:
    return row_mask(pa.table(columns), parse(where)).to_pylist()


@pytest.mark.parametrize("encode", [lambda a: a, lambda a: a.dictionary_encode(), lambda a: a.cast(pa.large_string())])
def test_rows_of_case(encode: object) -> None:
    x = encode(pa.array(["Äb", None, "äB", "ab", "ﬁ"]))  # type: ignore[operator]
    assert values_of("lower(x) = 'äb'", x=x) == [True, None, True, False, False]
    assert values_of("lower(x) <> 'äb'", x=x) == [False, None, False, True, True]
    assert values_of("upper(x) IN ('ÄB', NULL)", x=x) == [True, None, True, None, None]
    assert values_of("upper(x) NOT IN ('ÄB', NULL)", x=x) == [False, None, False, None, None]
    assert values_of("lower(nothing) = 'a'", x=x) == [None] * 5


def test_rows_that_engines_disagree_about() -> None:
    x = pa.array(["İ", "i", None, "Σ", "ß"])
    assert values_of("lower(x) = 'o'", x=x) == [False, False, None, False, False]  # by none of the mappings
    for where in ("lower(x) = 'i'", "lower(x) <> 'i'", "upper(x) IN ('SS')", "lower(x) = 'i\u0307'"):
        with pytest.raises(PredicateError, match="not the same in all engines"):
            values_of(where, x=x)
    lenient = CallIn("x", "lower", ("i",), is_exact=False)
    assert values_of(lenient, x=x) == [True, True, None, False, False]
    assert values_of(negation(lenient), x=x) == [True, False, None, True, True]


def test_rows_of_casts() -> None:
    day = pa.array([dt.date(2020, 1, 2), None])
    assert values_of("CAST(x AS STRING) = '2020-01-02'", x=day) == [True, None]
    assert values_of("CAST(x AS STRING) IN ('-5', '+5')", x=pa.array([-5, 5], pa.int8())) == [True, False]
    assert values_of("CAST(x AS STRING) = '18446744073709551615'", x=pa.array([2**64 - 1], pa.uint64())) == [True]
    assert values_of("CAST(x AS STRING) = 'true'", x=pa.array([True, False, None])) == [True, False, None]
    assert values_of("CAST(x AS STRING) = 'Ä'", x=pa.array(["Ä", "ä"])) == [True, False]
    one = uuid.UUID(int=5)
    stored = pa.array([one.bytes, None], pa.uuid())
    assert values_of(f"CAST(x AS STRING) = '{one}'", x=stored) == [True, None]
    for values in (pa.array([1.5]), pa.array([dt.datetime(2020, 1, 1)]), pa.array([b"a"]), pa.array([[1]])):
        with pytest.raises(PredicateError):
            values_of("CAST(x AS STRING) = '1.5'", x=values)
    far = pa.array([3_000_000], pa.int32()).view(pa.date32())
    with pytest.raises(PredicateError, match="not the same"):
        values_of("CAST(x AS STRING) = '+10183-09-30'", x=far)


def test_texts_of_keys() -> None:
    for text, expected in {
        "LOWER( email )": "lower(email)",
        "cast(n as varchar)": "CAST(n AS STRING)",
        "( a ,b.c )": "(a, b.c)",
        'lower("a b")': 'lower("a b")',
        '("a,b", "c""d")': '("a,b", "c""d")',
    }.items():
        key = parse_key(text)
        assert isinstance(key, KeyExpression)
        assert key == expected
        assert parse_key(str(key)) == key
        assert pickle.loads(pickle.dumps(key)).columns == key.columns
        assert KeyExpression.from_json(str(key), key.to_json()).columns == key.columns
    for text in ("email", "a.b", "lower", "trim(x)", "(a)", "lower(a, b)", "lower(lower(x))", "CAST(x AS INT)"):
        assert parse_key(text) == text
        assert not isinstance(parse_key(text), KeyExpression)
    assert parse_key('"lower(email)"') == "lower(email)"
    assert not isinstance(parse_key('"lower(email)"'), KeyExpression)
    with pytest.raises(PredicateError):
        parse_key("(a, b, a)")


@pytest.mark.parametrize(
    ("texts", "by", "rows"),
    [
        ("'5'", {"range": 1}, 1),
        ("'6'", {"range": 1, "filter": 1}, 0),
        ("'-30', '1000'", {}, 2),
        ("'-30', '6', NULL, 'x'", {"filter+range": 1}, 1),
        ("'05', '+5', '5.0', ' 5', '-0', '٥', ''", {"type": 2}, 0),
        (f"'{'9' * 5000}'", {"type": 2}, 0),
    ],
)
def test_texts_of_whole_numbers_are_held_against_bounds_and_filters(
    tmp_path: Path, texts: str, by: dict[str, int], rows: int
) -> None:
    path = tmp_path / "a.parquet"
    numbers = pa.array([-30, None, -10, 5, 7, 1000], pa.int32())
    pq.write_table(pa.table({"n": numbers}), path, row_group_size=3, use_dictionary=False)
    parquet_bloom.embed(path, {"n": 1e-6})
    where = f"CAST(n AS VARCHAR) IN ({texts})"
    assert parquet_bloom.prune(path, where).skipped_by == by
    assert parquet_bloom.read_table(path, where).num_rows == rows
