"""SQL text becomes the predicate tree: literals are exact, anything unsupported is rejected, nesting is unlimited."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math
import string
import subprocess
import sys
import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scale import scaled

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import parse, parse_sql
from parquet_bloom.predicate.row_filter import row_mask
from parquet_bloom.predicate.sql_parser import fold_spark
from parquet_bloom.predicate.tree import (
    And,
    CallIn,
    Compare,
    Contains,
    Equal,
    In,
    IsNotNull,
    IsNull,
    Node,
    NotEqual,
    NotIn,
    Or,
    all_of,
    any_of,
    fold,
    negation,
    to_text,
)

D = decimal.Decimal
A, B, C = Equal("a", 1), Equal("b", 2), Equal("c", 3)
BETWEEN = And((Compare("a", ">=", 1), Compare("a", "<=", 2)))


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a = 1", A),
        ("a == 1", A),
        ('"" = 1', Equal("", 1)),
        ("a = INTERVAL '-1 day 1.5 seconds'", Equal("a", dt.timedelta(-1, 1.5))),
        ("a = INTERVAL '2' HOURS", Equal("a", dt.timedelta(hours=2))),
        ("a = INTERVAL '1 nanosecond'", Equal("a", pa.scalar(1, pa.duration("ns")))),
        ("1 = a", A),
        ("  a=1\n", A),
        ("((a)) = (1)", A),
        ("(((a = 1)))", A),
        ("a = 1 AND b = 2", And((A, B))),
        ("a = 1 and b = 2 or c = 3", Or((And((A, B)), C))),
        ("a = 1 Or b = 2 aNd c = 3", Or((A, And((B, C))))),
        ("a = 1 AND (b = 2 OR c = 3)", And((A, Or((B, C))))),
        ("(a = 1 OR b = 2) AND c = 3", And((Or((A, B)), C))),
        ("(a = 1 AND (b = 2 AND c = 3))", And((A, B, C))),
        ("((a = 1) OR (b = 2)) OR (c = 3)", Or((A, B, C))),
        ("a <> 1", NotEqual("a", 1)),
        ("a != 1", NotEqual("a", 1)),
        ("1 <> a", NotEqual("a", 1)),
        ("a < 1", Compare("a", "<", 1)),
        ("a <= 1.5", Compare("a", "<=", D("1.5"))),
        ("a > 'x'", Compare("a", ">", "x")),
        ("a >= DATE '2026-01-02'", Compare("a", ">=", dt.date(2026, 1, 2))),
        ("1 < a", Compare("a", ">", 1)),
        ("1 >= a", Compare("a", "<=", 1)),
        ("a BETWEEN 1 AND 2", BETWEEN),
        ("a BETWEEN 1 AND 2 AND b = 2", And((*BETWEEN.children, B))),
        ("b = 2 OR a BETWEEN 1 AND 2", Or((B, BETWEEN))),
        ("a NOT BETWEEN 1 AND 2", Or((Compare("a", "<", 1), Compare("a", ">", 2)))),
        ("a IS NULL", IsNull("a")),
        ("a IS NOT NULL", IsNotNull("a")),
        ("NOT a IS NULL", IsNotNull("a")),
        ("a <=> 1", And((IsNotNull("a"), A))),
        ("a <=> NULL", IsNull("a")),
        ("a IS NOT DISTINCT FROM 1", And((IsNotNull("a"), A))),
        ("a IS DISTINCT FROM 1", Or((IsNull("a"), NotEqual("a", 1)))),
        ("a NOT IN (1, NULL)", NotIn("a", (1, None))),
        ("NOT a IN (1, 2)", NotIn("a", (1, 2))),
        ("NOT a = 1", NotEqual("a", 1)),
        ("not not a = 1", A),
        ("NOT a = 1 AND b = 2", And((NotEqual("a", 1), B))),
        ("NOT (a = 1 AND b = 2)", Or((NotEqual("a", 1), NotEqual("b", 2)))),
        ("NOT (a = 1 OR NOT (b = 2))", And((NotEqual("a", 1), B))),
        ("NOT (a < 1)", Compare("a", ">=", 1)),
        ("NOT ((a)) > 1", Compare("a", "<=", 1)),
        ("c = 3 OR NOT (a = 1)", Or((C, NotEqual("a", 1)))),
        ("a IN (1, 2,3)", In("a", (1, 2, 3))),
        ("a in (1)", In("a", (1,))),
        ("a IN ()", In("a", ())),
        ("a IN (1, NULL, 'x', -2, DATE '2026-01-02')", In("a", (1, None, "x", -2, dt.date(2026, 1, 2)))),
        ("(a) IN ((1), (2))", In("a", (1, 2))),
        ("a = 1 OR a = 2 OR a IN (3, 4)", In("a", (1, 2, 3, 4))),
        ("a = 1 OR b = 2 OR a = 2", Or((In("a", (1, 2)), B))),
        ("user.id = 42", Equal("user.id", 42)),
        ("a.b.c.d.e.f.g = 1", Equal("a.b.c.d.e.f.g", 1)),
        ('"User Id" = 1', Equal("User Id", 1)),
        ("`User Id` = 1", Equal("User Id", 1)),
        ('"a""b" = 1', Equal('a"b', 1)),
        ("`a``b` = 1", Equal("a`b", 1)),
        ('"a`b" = 1', Equal("a`b", 1)),
        ('"a.b".`c d` = 1', Equal("a.b.c d", 1)),
        ("UserId = 1", Equal("UserId", 1)),
        ("größe = 1", Equal("größe", 1)),
        ("_c0 = 1", Equal("_c0", 1)),
        ("date = DATE '2026-01-02'", Equal("date", dt.date(2026, 1, 2))),
        ("timestamp IN (1) AND order = 2", And((In("timestamp", (1,)), Equal("order", 2)))),
        ("a = 1 -- the first", A),
        ("a /* the\nfirst */ = 1", A),
    ],
)
def test_conditions(text, node):
    assert parse_sql(text) == node
    assert parse(text) == node


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-5", -5),
        ("- 5", -5),
        ("+5", 5),
        ("007", 7),
        ("18446744073709551615", 2**64 - 1),
        ("-123456789012345678901234567890", -123456789012345678901234567890),
        ("1.50", D("1.50")),
        ("5.", D(5)),
        (".5", D("0.5")),
        ("-0.1", D("-0.1")),
        ("-1.234567890123456789012345678901234567890123", D("-1.234567890123456789012345678901234567890123")),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
        ("'text'", "text"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("''''", "'"),
        (r"'a\nb\'", "a\\nb\\"),
        ("'a\nb'", "a\nb"),
        ("'-- no comment /*'", "-- no comment /*"),
        ("'ünï ☃'", "ünï ☃"),
        ("TRUE", True),
        ("false", False),
        ("NULL", None),
        ("X'00aB'", b"\x00\xab"),
        ("x''", b""),
        ("DATE '2026-01-31'", dt.date(2026, 1, 31)),
        ("'2026-01-31'::DATE", dt.date(2026, 1, 31)),
        ("CAST('2026-01-31' AS DATE)", dt.date(2026, 1, 31)),
        ("DATE '0001-01-01'", dt.date(1, 1, 1)),
        ("TIME '01:02'", dt.time(1, 2)),
        ("TIME '01:02:03.5'", dt.time(1, 2, 3, 500_000)),
        ("TIME '01:02:03.123456000'", dt.time(1, 2, 3, 123_456)),
        ("TIME '00:00:01.000000001'", pa.scalar(1_000_000_001, pa.time64("ns"))),
        ("TIMESTAMP '2026-01-31'", dt.datetime(2026, 1, 31)),
        ("TIMESTAMP '2026-01-31 01:02'", dt.datetime(2026, 1, 31, 1, 2)),
        ("TIMESTAMP '2026-01-31T01:02:03.25'", dt.datetime(2026, 1, 31, 1, 2, 3, 250_000)),
        ("TIMESTAMP_NTZ '2026-01-31 01:02:03'", dt.datetime(2026, 1, 31, 1, 2, 3)),
        ("TIMESTAMPTZ '2026-01-31 01:02:03'", dt.datetime(2026, 1, 31, 1, 2, 3)),
        ("'2026-01-31 01:02:03Z'::TIMESTAMP", dt.datetime(2026, 1, 31, 1, 2, 3, tzinfo=dt.UTC)),
        ("TIMESTAMP '2026-01-31 01:02:03 UTC'", dt.datetime(2026, 1, 31, 1, 2, 3, tzinfo=dt.UTC)),
        ("TIMESTAMP WITH TIME ZONE '2026-01-31 03:02:03+02'", dt.datetime(2026, 1, 31, 1, 2, 3, tzinfo=dt.UTC)),
        ("TIMESTAMP '2026-01-31 01:02:03 -05:30'", dt.datetime(2026, 1, 31, 6, 32, 3, tzinfo=dt.UTC)),
        ("TIMESTAMP '2026-07-31 01:00:00 Europe/Berlin'", dt.datetime(2026, 7, 30, 23, tzinfo=dt.UTC)),
        ("TIMESTAMP '1970-01-01 00:00:00.000000001'", pa.scalar(1, pa.timestamp("ns"))),
        ("TIMESTAMP '1970-01-01 01:00:00.000000001+01:00'", pa.scalar(1, pa.timestamp("ns", "UTC"))),
        ("TIMESTAMP '1970-01-01 00:00:00.1000000000000'", dt.datetime(1970, 1, 1, 0, 0, 0, 100_000)),
        ("UUID '00000000-0000-0000-0000-00000000000A'", uuid.UUID(int=10)),
        ("CAST('Infinity' AS DOUBLE)", math.inf),
        ("'-1.5'::DOUBLE", -1.5),
    ],
)
def test_literals_are_exact(text, value):
    for node in (parse_sql(f"a = {text}"), parse_sql(f"{text} = a"), parse_sql(f"a IN ({text})")):
        result = node.literals[0]
        assert (type(result), result) == (type(value), value)


def test_nan():
    assert math.isnan(parse_sql("a = CAST('NaN' AS DOUBLE)").value)


def test_decimals_do_not_depend_on_the_callers_context():
    with decimal.localcontext(prec=3):
        assert parse_sql("a = -1.23456789").value == D("-1.23456789")


NOT_SUPPORTED = """
! a = 1|such a NOT
a NOT 1|not understood
NOT|missing
a = NOT 1|such a NOT
a IS 5|IS takes NULL
a IS NOT b|IS takes NULL
a < 1 < 2|not understood at '<' (character 7)
a < b|two columns
a BETWEEN b AND 2|the column b
a BETWEEN SYMMETRIC 2 AND 1|the column SYMMETRIC
length(a) = 1|the function length
upper(a) ILIKE 'x%'|ILIKE of upper
a ILIKE 'İx%'|not the same in all engines
a RLIKE 'x'|regexp_matches
a LIKE NULL|LIKE takes a text
a LIKE b|the column b
a LIKE 'x\\%'|ESCAPE
a LIKE 'x' ESCAPE 'ab'|one character
a LIKE 'x!y' ESCAPE '!'|before 'y'
a LIKE 'x!' ESCAPE '!'|at the end
regexp_matches(a, '(')|not a regular expression
regexp_matches(a, 'x', 'g')|more than a text and a pattern
starts_with(a, 1)|takes a text
a + 1e0 = 2|arithmetic
a / 2 = 1|arithmetic
a * 2 = 4|arithmetic
5 - a = 1|arithmetic
a + b = 1|arithmetic
a + 1 = 2.5e0|a sum is compared
a + 1|a sum is compared
lower(a) + 1 = 2|anything but a column
coalesce(a, NULL) = 1|coalesce
coalesce(a, 'x') = 1|of the kind of its own
coalesce(a, 1) IS NULL|never null
coalesce(a, b) = 1|the column b
CAST(a AS DATE) = 5|compared with dates only
CAST(a AS DATE) > DATE '9999-12-31'|out of range
my_function(a, 1) = 1|my_function
-a = 1|a sign
a = - - 1|a sign
a = -'1'|a sign
a = b|two columns (texts take single quotes)
a = "b"|double quotes are for names
a = a|two columns
1 = 1|without a column
'a' = 'a'|without a column
NULL = NULL|without a column
TRUE|TRUE
1|literal
NULL|NULL
a = 1 = 1|not understood at '='
a IN (1) = TRUE|not understood at '='
(a = 1) = TRUE|not understood at '='
a IN 1|parentheses
a IN b|parentheses
a IN (b)|the column b
a IN (1, b)|the column b
a IN (1,,2)|missing
a IN (1, NULL,)|missing
a IN (SELECT 1)|subquery
a = (SELECT 1)|subquery
EXISTS (SELECT 1)|subquery
(a, b) IN ((1, 2))|tuple
(a, b) = (1, 2)|tuple
a IN ((1, 2))|tuple
1 IN (1, 2)|a column is expected
CASE WHEN a = 1 AND b = 2 THEN TRUE END|CASE
a = CASE WHEN b = 1 OR c = 2 THEN 1 END|CASE
a = INTERVAL '1' MONTH|not an interval
a = INTERVAL '1 day 2'|not an interval
a = ?|placeholder
a = :x|placeholder
a = @x|parameter
a[0][1] = 1|element
a.* = 1|not a column name
* = 1|arithmetic
a = ANY (1, 2)|a column is expected
a = 'x' 'y'|pieces
a = N'x'|not understood at "'x'" (character 6)
a = E'x'|not understood
a = U&'x'|
a = b'101'|
a = 0x1F|
a = X'ABC'|hexadecimal
a = X'GG'|
a = 1_000|
a = 5L|
a = 1e400|range
a = 1e-400|range
a = DATE '2026-02-30'|not a date
a = DATE '2026-1-5'|not a date
a = DATE ' 2026-01-05'|not a date
a = DATE '٢٠٢٦-01-05'|not a date
a = DATE 'today'|not a date
a = TIME '25:00'|not a time
a = TIME '01:02:03+01:00'|not a time
a = TIME '01:02:03.0000000001'|finer
a = TIMESTAMP '2026-01-01 24:00:00'|not a timestamp
a = TIMESTAMP '2026-01-01 00:00:60'|not a timestamp
a = TIMESTAMP '2026-01-01 00:00.5'|not a timestamp
a = TIMESTAMP '2026-01-01 00:00:00.0000000001'|finer
a = TIMESTAMP '9999-01-01 00:00:00.000000001'|exactly
a = TIMESTAMP '2026-01-01 00:00:00 Mars/Base'|time zone
a = TIMESTAMP '2026-01-01 00:00:00 Europe/../Berlin'|
a = TIMESTAMP '2026-03-29 02:30:00 Europe/Berlin'|skipped
a = TIMESTAMP '2026-10-25 02:30:00 Europe/Berlin'|twice
a = TIMESTAMP '2026-01-01 +25:00'|not a timestamp
a = TIMESTAMP_NTZ '2026-01-01 00:00:00Z'|without time zone
a = DATETIME '2026-01-01 00:00:00+01'|without time zone
a = TIMESTAMP(3) '2026-01-01 00:00:00'|the function TIMESTAMP
a = UUID '1'|uuid
a = CAST(1 AS FLOAT)|CAST
a = CAST(300 AS TINYINT)|CAST
a = CAST('1' AS INT)|CAST
a = CAST('1e400' AS DOUBLE)|double
a = 'x'::TEXT|CAST
CAST(a AS FLOAT) = 1|CAST
a = 1::FLOAT|CAST
a = 1 COLLATE x|COLLATE
a = 1;|';'
a = 1; b = 2|';'
a = 1 /* b = 2|not closed
a = 1 {# b #}|not understood at '{'
a = 1 /*+ hint */|comment
a = 1 /* a /* b */ c */|comment
a = 'x|not closed
"a = 1|not closed
(a = 1|not closed
a = 1)|without a matching
(a = 1]|without a matching
a = 1 AND|missing at the end
AND a = 1|missing before
a = 1 AND OR b = 2|missing before
a = 1 OR () OR b = 2|missing before
()|missing
a =|missing at the end
= 1|not understood at '=' (character 1)
a b = 1|not understood
a = 1 b|not understood
a = 1 AS b|not understood
a = 1 LIMIT 5|not understood
WHERE a = 1|not understood
SELECT a = 1|
a = 1 UNION SELECT 1|
a = 1 XOR b = 2|
a := 1|
a:b = 1|
a.1 = 1|
a$b = 1|quotes
$1 = 1|parameter
current_date = 1|CURRENT_DATE
a . 5 = 1|not a column name
a . x'00' = 1|not a column name
a = CAST(CAST('2026-01-01' AS DATE) AS DATE)|CAST
lower(lower(a)) = 'x'|the function lower
a IN ('x' 'y')|pieces
"array_contains"(a, 5)|the function
array_contains(a, 5) = TRUE|not understood at '='
array_contains(5, a)|a column is expected
array_contains(a)|not understood at ')'
array_contains(a, 5, 6)|a tuple
arrays_overlap(a, ARRAY())|none of them missing
arrays_overlap(a, ARRAY(1, NULL))|none of them missing
arrays_overlap(a, ARRAY(1, 2])|without a matching
arrays_overlap(a, (1, 2))|an array of literals
a = 5L|not a number
a = 5AND b = 5|not a number
DROP TABLE x|
""".strip().splitlines()


@pytest.mark.parametrize("line", NOT_SUPPORTED)
def test_the_rest_is_refused_and_named(line):
    text, _, words = line.rpartition("|")
    with pytest.raises(PredicateError) as caught:
        parse_sql(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "text",
    ["", "  \n", "-- nothing", "/* */", "\0", "a = 1\0", "\ud800 = 1", "a = 1 \0 OR b = 2", "=" * 50],
)
def test_nothing_and_garbage(text):
    with pytest.raises(PredicateError):
        parse_sql(text)


def test_invalid_texts():
    with pytest.raises(PredicateError):
        parse_sql(b"a = 1")
    with pytest.raises(PredicateError):
        parse(None)
    assert parse(A) is A


def test_the_message_shows_the_piece_that_is_meant():
    with pytest.raises(PredicateError, match=r"^length\(b\) = 2: the function length is not supported"):
        parse_sql("a = 1 AND (length(b) = 2 OR c = 3)")


# ------------------------------------------------------------------------------------------------------ Spark's dialect


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ('`a b` = "x"', Equal("a b", "x")),
        (r"a = 'a\'b\\c\nd\te'", Equal("a", "a'b\\c\nd\te")),
        (r'a = "a\"b"', Equal("a", 'a"b')),
        (r"a IN ('it\'s', 'x')", In("a", ("it's", "x"))),
        ("a = TIMESTAMP '2026-01-02 00:00:00'", Equal("a", dt.datetime(2026, 1, 2))),
        ("a = CAST('2026-01-02' AS DATE)", Equal("a", dt.date(2026, 1, 2))),
        ('a = date("2026-01-02")', Equal("a", dt.date(2026, 1, 2))),
        ("a = X'1F' AND b == 2", And((Equal("a", b"\x1f"), B))),
        ("a.`b c`.case = 1 AND b = 2", And((Equal("a.b c.case", 1), B))),
    ],
)
def test_spark(text, node):
    for dialect in ("spark", "Spark", "databricks"):
        assert parse_sql(text, dialect) == node
    assert parse(text, dialect="spark") == node


@pytest.mark.parametrize(
    "text",
    [
        r"a = '\u0041'",
        r"a = '\101'",
        r"a = '\%'",
        "a = 'it''s'",
        "a = r'x'",
        r"a = r'x\' OR b = '\'",
        "a = 5L",
        "a = 5.0D",
        "a = 1_000",
        '"a" = 1',
        'a."b" = 1',
        r"a = 'x\'",
        "a = int('1')",
    ],
)
def test_doubtful_forms_of_spark_are_refused(text):
    with pytest.raises(PredicateError):
        parse_sql(text, "spark")


def test_sqlglot_is_not_needed():
    code = (
        "import sys; sys.modules['sqlglot'] = None; import parquet_bloom.predicate as p;"
        "p.parse('NOT 1 = a'); p.parse('lower(a) <=> \"x\"', 'spark')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------------------------------------------- size and depth


def test_long_chains_become_one_list():
    text = " OR ".join(f"a = {i}" for i in range(5_000))
    assert parse_sql(text) == In("a", tuple(range(5_000)))
    text = " OR ".join(f"(a = {i} AND b = {i})" for i in range(2_000))
    assert len(parse_sql(text).children) == 2_000


def test_deep_nesting():
    depth = 3_000
    assert parse_sql("(" * depth + "a = 1" + ")" * depth) == A
    remaining = "(" * depth + "a = 0" + "".join(f" OR a = {i})" for i in range(1, depth + 1))
    assert parse_sql(remaining) == In("a", tuple(range(depth + 1)))
    mixed = "".join(f"(a = {i} {('AND', 'OR')[i % 2]} " for i in range(depth)) + "b = 1" + ")" * depth
    node = parse_sql(mixed)
    assert parse_sql(to_text(node)) == node


def test_operands_in_many_parentheses():
    assert parse_sql("a = " + "(" * 2_000 + "1" + ")" * 2_000) == A
    assert parse_sql("(" * 2_000 + "a" + ")" * 2_000 + " = -(((1)))") == Equal("a", -1)


N = min(scaled(4_000), 60_000)  # of the last one the square is too many steps for any test


@pytest.mark.ci
@pytest.mark.parametrize(
    "text",
    [
        "(" * N + "a = 0" + "".join(f" OR a = {i})" for i in range(N)),
        "".join(f"(a = {i} OR " for i in range(N)) + "b = 1" + ")" * N,
        "".join(f"NOT (a = {i} OR NOT (b = {i} AND " for i in range(N)) + "c = 1" + "))" * N,
        "NOT (" * N + "a = 1 OR b = 2" + ")" * N,
        "NOT (" * N + f"a IN ({', '.join(map(str, range(N)))})" + ")" * N,
    ],
    ids=["left", "right", "alternating", "negated", "negated list"],
)
def test_deep_nesting_takes_linear_time(text):
    parse_sql(text)
    parse_sql(text, "spark")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("start", "repeated", "end"),
    [
        ("", "(", ""),
        ("a = 1", ")", ""),
        ("a = ", "'", "x"),
        ("a = '", "\\'", ""),
        ("a = ", "'\"`", ""),
        ("", "/* ", ""),
        ("", "/*", ""),
        ("a = 1 /*", "*", ""),
        ("a = 1 ", "--\n", "b"),
        ("a = ", " ", ""),
        ("a = ", "- ", "1"),
        ("", "CAST(", ""),
        ("", "lower(", "a"),
        ("a IN (", "[{(", ""),
        ("a", ".a", " 5"),
        ("a = ", "1.", ""),
        ("a = 1", "e1", ""),
        ("a ", "<", ""),
        ("", "NOT ", ""),
        ("", "CASE ", ""),
        ("a = 'x'", "::DATE", ""),
        ("a IN (", ",", ")"),
        ("", "a = 1 AND ", "b SIMILAR TO 'x'"),
        ("", "\0", ""),
    ],
)
def test_hostile_texts_are_refused_in_linear_time(start, repeated, end):
    for dialect in (None, "spark"):
        with pytest.raises(PredicateError) as caught:
            parse_sql(start + repeated * (3 * N) + end, dialect)
        assert len(str(caught.value)) < 300
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["{}", "-{}", "'id{}'", "{}.25", "UUID '00000000-0000-0000-0000-{:012}'"])
def test_long_lists(form):
    values = ", ".join(form.format(i) for i in range(1, 20_001))
    node = parse_sql(f"a IN ({values}) AND b = 2")
    assert len(node.children[0].values) == 20_000
    assert len(set(node.children[0].values)) == 20_000


# --------------------------------------------------------------------------------------------------------- at random

moments = st.datetimes(min_value=dt.datetime(1900, 1, 1), max_value=dt.datetime(2200, 1, 1))
literals = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.text(),
    st.binary(max_size=8),
    st.uuids(),
    st.dates(),
    st.times(),
    moments,
    moments.map(lambda moment: moment.replace(tzinfo=dt.timezone(dt.timedelta(minutes=-330)))),
    st.integers(-(2**52), 2**52).map(lambda n: pa.scalar(n * 1_000 + 1, pa.timestamp("ns"))),
    st.integers(0, 86_399_999_999).map(lambda n: pa.scalar(n * 1_000 + 1, pa.time64("ns"))),
)
names = st.one_of(
    st.sampled_from(["a", "user.id", "order", "A b", 'q"q', "b`b", "x.y z.w", ".", "date"]),
    st.text(string.ascii_letters + string.digits + "_. '\"`-;é", min_size=1),
)
lists = st.lists(literals, max_size=4).map(tuple)
leaf_nodes = st.one_of(
    st.builds(Equal, names, literals),
    st.builds(Compare, names, st.sampled_from(["<", "<=", ">", ">="]), literals),
    st.builds(In, names, lists),
    st.builds(IsNull, names),
    st.builds(Contains, names, literals),
    st.builds(CallIn, names, st.sampled_from(["lower", "upper", "string"]), st.lists(st.text(), max_size=2).map(tuple)),
).flatmap(lambda leaf: st.sampled_from([leaf, negation(leaf)]))
JOINTS = ((all_of, " AND "), (any_of, " or "))
# Nodes, and texts of them in parentheses.
nodes = st.recursive(
    leaf_nodes.map(lambda leaf: (leaf, to_text(leaf))),
    lambda inner: st.one_of(
        inner.map(lambda part: (negation(part[0]), f"NOT ({part[1]})")),
        st.lists(inner, min_size=2, max_size=3).flatmap(
            lambda parts: st.sampled_from(
                [
                    (make([node for node, _ in parts]), word.join(f"({text})" for _, text in parts))
                    for make, word in JOINTS
                ]
            )
        ),
    ),
    max_leaves=6,
)


@pytest.mark.ci
@given(nodes)
def test_text_of_any_tree_reads_back(pair: tuple[Node, str]):
    node, text = pair
    assert parse_sql(text) == node
    assert parse_sql(to_text(node)) == fold(
        node, lambda leaf: leaf, lambda joint, parts: (all_of if isinstance(joint, And) else any_of)(parts)
    )


WORDS = """
    a b.c "d" 1 -2 1.5 1e2 'x' = == IN ( ) , AND OR NOT NULL TRUE IS DATE '2026-01-01' BETWEEN CASE WHEN END -- /* */ ;
    . [ ] { } :: < + X'00' CAST( AS SELECT ' " ` \\ @ ? $ {{ %} é INTERVAL IF x f( \0
"""
pieces = st.sampled_from([*WORDS.split(), "\n"])
texts = st.one_of(st.lists(pieces, max_size=12).map(" ".join), st.lists(pieces, max_size=12).map("".join), st.text())


@given(texts)
def test_any_text_gives_a_tree_or_our_error(text: str):
    for dialect in (None, "spark"):
        with contextlib.suppress(PredicateError):
            fold_spark(text, lambda text, read: text, str.strip, lambda kind, parts: kind.__name__.join(parts))
        with contextlib.suppress(PredicateError):
            node = parse_sql(text, dialect)
            assert parse_sql(to_text(node)) == node


# ------------------------------------------------------------------------------------- the same answers as an engine

CENTS = ["1.50", "-0.10", "", "2.00", "1.50", "0.00", "3.25", "1.00"]
TABLE = pa.table(
    {
        "a": pa.array([0, 1, 2, 3, None, -1, 2, 1], pa.int32()),
        "b": pa.array(["x", "y", None, "it's", "", "x", "y", "1"]),
        "c": pa.array([None if text == "" else D(text) for text in CENTS], pa.decimal128(9, 2)),
        "d": pa.array([dt.date(2026, 1, day) if day % 3 else None for day in range(1, 9)]),
        "s": pa.array([{"f": i % 3} if i % 4 else None for i in range(8)], pa.struct([("f", pa.int64())])),
    }
)
comparisons = st.one_of(
    st.tuples(
        st.sampled_from(["a", '"a"', "s.f", "( a )"]),
        st.sampled_from(["0", "1", "-1", "(2)", "2.0", "NULL", "+3"]),
    ),
    st.tuples(st.just("b"), st.sampled_from(["'x'", "'it''s'", "''", "NULL", "'Y'"])),
    st.tuples(st.just("c"), st.sampled_from(["1.5", "-.1", "2", "NULL", "1.505", "0."])),
    st.tuples(
        st.just("d"),
        st.sampled_from(["DATE '2026-01-02'", "'2026-01-04'::DATE", "CAST('2026-01-05' AS DATE)", "NULL"]),
    ),
)
equalities = st.builds(
    lambda pair, turned, sign: f"{pair[1]} {sign} {pair[0]}" if turned else f"{pair[0]}{sign} {pair[1]}",
    comparisons,
    st.booleans(),
    st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">="]),
)
in_lists = st.builds(
    lambda column, items: f"{column} IN ({', '.join(items)})",
    st.sampled_from(["a", "s.f", "a NOT"]),
    st.lists(st.sampled_from(["0", "1", "-1", "2", "NULL", "(3)"]), min_size=1),
)
joints = st.sampled_from([" AND ", " or ", "\nOR\n", " /* c */ and -- c\n "])
conditions = st.recursive(
    st.one_of(equalities, in_lists),
    lambda inner: st.one_of(
        st.lists(st.tuples(inner, joints), min_size=1, max_size=3).map(
            lambda pairs: "".join(part + word for part, word in pairs[:-1]) + pairs[-1][0]
        ),
        inner.map("({})".format),
        inner.map("(({} ) )".format),
        inner.map("NOT ({})".format),
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def connection():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows_of_t", TABLE.append_column("n", pa.array(range(8))))
        connection.execute("CREATE TABLE t AS FROM rows_of_t")
        yield connection


@given(conditions)
def test_a_condition_selects_the_rows_that_duckdb_selects(connection, text: str):
    rows = [row[0] for row in connection.execute(f"SELECT n FROM t WHERE {text} ORDER BY n").fetchall()]
    ours = row_mask(TABLE, parse_sql(text)).to_pylist()
    assert [n for n, selected in enumerate(ours) if selected] == rows
