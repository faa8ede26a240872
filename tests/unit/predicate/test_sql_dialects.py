"""Conditions in other dialects of SQL, which sqlglot translates; and our own parser next to sqlglot's."""

from __future__ import annotations

import datetime as dt
import random
import re
import subprocess
import sys

import pyarrow as pa
import pytest
from support.random_cases.random_predicates import draw_predicate, rank_table
from support.scale import scaled

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import parse, parse_sql
from parquet_bloom.predicate.sql_dialects import translate
from parquet_bloom.predicate.tree import (
    And,
    CallIn,
    Compare,
    Contains,
    Equal,
    In,
    IsNotNull,
    IsNull,
    MapLookup,
    Node,
    Or,
    to_text,
)

sqlglot = pytest.importorskip("sqlglot")

A, B = Equal("a", 1), Equal("b", 2)


@pytest.mark.parametrize(
    ("text", "dialect", "node"),
    [
        ("\"a\" = 'x'", "duckdb", Equal("a", "x")),
        ("a = TIMESTAMP_NS '1970-01-01 00:00:00.000000001'", "duckdb", Equal("a", pa.scalar(1, pa.timestamp("ns")))),
        ("list_has_any(a, [1, 2]) AND b = 2", "duckdb", And((Or((Contains("a", 1), Contains("a", 2))), B))),
        ("list_contains(a, 1)", "duckdb", Contains("a", 1)),
        ("n::VARCHAR = '5'", "duckdb", CallIn("n", "string", ("5",))),
        ("CAST(n AS TEXT) IN ('5')", "postgres", CallIn("n", "string", ("5",))),
        ("a @> ARRAY[1, 2]", "postgres", And((Contains("a", 1), Contains("a", 2)))),
        ("a && ARRAY[1, 2]", "postgres", Or((Contains("a", 1), Contains("a", 2)))),
        ("1 = ANY(a)", "postgres", Contains("a", 1)),
        ("a IS NOT NULL AND NOT b IS NULL", "postgres", And((IsNotNull("a"), IsNotNull("b")))),
        ("NOT a IS NOT NULL OR a ISNULL OR b NOTNULL", "postgres", Or((IsNull("a"), IsNull("a"), IsNotNull("b")))),
        ("`a` = 1 && b = 2 || c = 3", "mysql", Or((And((A, B)), Equal("c", 3)))),
        ("a = \"it's\" OR a = 'it\\'s' OR a = 'it''s'", "mysql", In("a", ("it's",) * 3)),
        ("a <=> 1", "mysql", And((IsNotNull("a"), A))),
        ("[a] = 1", "tsql", A),
        ("contains(a, 1)", "trino", Contains("a", 1)),
        ("a['k'] = 1", "duckdb", MapLookup("a", "k", A)),
        ("element_at(a, 'k') = 1", "trino", MapLookup("a", "k", A)),
        ("array_has_all(a, [1])", "bigquery", Contains("a", 1)),
        ("has(a.b, -1.5e0)", "clickhouse", Contains("a.b", -1.5)),
        ("a NOT BETWEEN 1 AND 2 -- c", "snowflake", Or((Compare("a", "<", 1), Compare("a", ">", 2)))),
        ("LOWER(a) <> 'x' AND a NOT IN (X'0A', TRUE, NULL)", "trino", None),
        ("a = 1", "", A),
    ],
)
def test_dialects(text, dialect, node):
    expected = parse_sql(text) if node is None else node
    assert parse_sql(text, dialect) == expected
    assert parse(text, dialect=dialect) == expected


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("a = 1_000", "duckdb"),
        ("a = $$x$$", "duckdb"),
        ("a = TIMESTAMP '2026-01-02 00:00:00+02:00'", "duckdb"),
        ("a IN (1,,2)", "duckdb"),
        ("a IN (1, 2,)", "duckdb"),
        ("a IN (, 1)", "duckdb"),
        ("a IN", "trino"),
        ("a NOT IN -- (1)", "trino"),
        ("lower(x COLLATE NOCASE) = 'a'", "duckdb"),
        ("lower(x) COLLATE NOCASE = 'a'", "duckdb"),
        ("a LIKE 'x%'", "mysql"),  # by a collation that need not tell cases apart
        ("regexp_matches(a, 'x')", "postgres"),
        ("starts_with(a, 'x')", "sqlite"),
        ("a[2] = 1", "duckdb"),  # the second element of a list
        ("a['k', 'l'] = 1", "duckdb"),
        ("a['k'] = 1", "clickhouse"),  # 0 without such a key
        ("a = 1;", "duckdb"),
        ("a = 'x", "duckdb"),
        ("a = ", "duckdb"),
        ("", "duckdb"),
        ("-- a = 1", "duckdb"),
        ("IF = NULL", "duckdb"),
        ("a = ANY(1, 2)", "postgres"),
        ("lower(x) = 'a' COLLATE \"de-x-icu\"", "postgres"),
        ("a = 1 XOR b = 2", "mysql"),
        ("a = 0x1F", "mysql"),
        ("a = 1 /*! OR b = 2 */", "mysql"),
        ("! a = 1", "mysql"),
        ("a = b'x'", "bigquery"),
        ("a = '''x'''", "bigquery"),
        ("ARRAY_CONTAINS(1, a)", "snowflake"),
        ("CAST(n AS VARCHAR) = '5'", "snowflake"),
        ("CAST(n AS VARCHAR) = '5'", "tsql"),  # 30 characters
        ("a = 1 AND " + "(" * 2_000 + "a" + ")" * 2_000 + " = 1", "duckdb"),
        ("a = 1", "no such dialect"),
        ("a$b = 1", "spark2"),
    ],
)
def test_what_has_no_counterpart_is_refused(text, dialect):
    with pytest.raises(PredicateError) as caught:
        parse_sql(text, dialect)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_text_of_bytes_is_refused():
    with pytest.raises(PredicateError):
        parse_sql(b"a = 1", "duckdb")


@pytest.mark.ci
def test_long_chains():
    text = " OR ".join(f"(a = {i} AND b = {i})" for i in range(2_000))
    assert parse_sql(text, "duckdb") == parse_sql(text)


def test_without_sqlglot_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['sqlglot'] = None; from parquet_bloom.predicate import parse; parse('a = 1', 'duckdb')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "PredicateError: the dialect 'duckdb' is translated by sqlglot" in done.stderr
    assert done.stderr.rstrip().endswith("pip install 'parquet-bloom[dialects]'")


# ------------------------------------------------------------------------------------------- our parser and sqlglot's

LEAVES = r"""
    a = 5|5 <> a|(a) == (-5)|b IN (1, 2, 'x')|d NOT IN ('a','b')|c BETWEEN -1 AND 2.5|r NOT BETWEEN 1 AND (2)
    e IS NOT NULL|o IS NULL|f <= 1.50|.5 > f|g = TRUE|h > DATE '2020-01-01'|h = '2020-01-01'::DATE|m.n <>-5e3
    m . n = 5|a <=> NULL|a IS DISTINCT FROM 5|5 IS NOT DISTINCT FROM a|`k k`='it'|`a`.b.`c c` != NULL
    t >= TIMESTAMP '2020-01-01 00:00:00+01:00'|t = CAST('2020-01-01' AS TIMESTAMP)
    u = UUID '00000000-0000-0000-0000-000000000005'|uuid IN ('a', 'b')|x = X'0A'|v < CAST('NaN' AS DOUBLE)|NOT a = 5
    NOT NOT a = 5|NOT (a = 5 OR NOT (b = 6 AND c IN (7, 8)))|array_contains(tags, 5)|Array_Contains(`a b`.c, 'x')
    list_contains(tags, DATE '2020-01-01')|NOT array_has(tags, NULL)|'5' = ANY(tags)
    arrays_overlap(tags, ARRAY(1, 2))|list_has_any(tags, ARRAY[1])|list_has_all(tags, ARRAY['a', 'b'])|lower(s) = 'x'
    upper(s) NOT IN ('X', 'Y')|lcase(s.t) <> 'x'|TIME '01:02' < w|date = 5 AND case.end = 6
""".strip()
ATOMS = [
    *("a", "b", "x", "`q,q`", '"a.b"', "date", "case", "end", "year", "interval", "5", "-5", "1.5", "1e5", "1.", ".5"),
    *("1L", "0x1F", "1_000", "9" * 23, "1e999", "'a'", "''", "'it''s'", "'it\\'s'", "X'AB'", "N'x'", "'2020-01-01'"),
    *("AND", "and", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "(", ")", ",", "=", "==", "<>", "!=", "<", "<=", ">"),
    *(">=", "<=>", "TRUE", "false", "--", "/*", "*/", "::", "?", "array_contains(a,", "list_has_all(b,", "ARRAY[1,2]"),
    *("arrays_overlap(a,", "]", "[", "@", ":a", "$1", "a.5", "ü", ";", "a[1]", "ESCAPE", "COLLATE", "->", "|", "~"),
    *(
        "DATE",
        "TIMESTAMP",
        "UUID",
        "CAST(",
        "AS",
        "DOUBLE)",
        "lower(",
        "DISTINCT",
        "FROM",
        "LIKE",
        "CASE",
        "WHEN",
        "END",
    ),
    "INTERVAL",
]
SIGNS = [*" '\"`().,-=<>5aeE\n\t!_\\$@#é/*;:[]{}|&~%^?+x", "--", " AND ", "\x00", "\u00a0", "\v"]


class DefaultDialect(sqlglot.Dialect):
    """Our default dialect, as sqlglot's parser reads it."""

    class Tokenizer(sqlglot.tokens.Tokenizer):
        QUOTES = ["'"]  # noqa: RUF012 - declared in sqlglot
        STRING_ESCAPES = ["'"]  # noqa: RUF012
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012
        HEX_STRINGS = [("X'", "'"), ("x'", "'")]  # noqa: RUF012


def attempt(text: str, translates: bool, dialect: str | None) -> Node | None:
    try:
        if translates:
            return parse_sql(translate(text, dialect or DefaultDialect))
        return parse_sql(text, dialect)
    except PredicateError:
        return None


def is_same(text: str, dialect: str | None) -> bool:
    """Return whether our parser and sqlglot's understand a condition, and require that they do so alike."""
    ours, translated = (attempt(text, translates, dialect) for translates in (False, True))
    if ours is None or translated is None:
        return False
    assert (ours, repr(ours)) == (translated, repr(translated)), text  # 1.5 and 1.50 are equal, too
    return True


def draw_text(rng: random.Random, leaves: list[str]) -> str:
    if rng.random() < 0.3:
        return rng.choice([" ", " ", ""]).join(rng.choices(ATOMS, k=rng.randint(2, 9)))
    text = rng.choice(leaves)
    for _ in range(rng.randrange(3)):
        text += rng.choice([" AND ", " or ", " AND NOT ", "\nOR\n"]) + rng.choice(leaves)
    if rng.random() < 0.3:
        text = f"{rng.choice(['', 'NOT '])}({text}) {rng.choice(['AND', 'or'])} {rng.choice(['', 'not '])}({text})"
    for _ in range(rng.choice([0, 0, 1, 2, 3])):
        at = rng.randrange(len(text) + 1)
        inserted = rng.choice([rng.choice(SIGNS), rng.choice(SIGNS), "", text[at : at + 3]])
        text = text[:at] + inserted + text[at + (not inserted) :]
    return text


@pytest.mark.ci
@pytest.mark.parametrize("dialect", [None, "spark"])
def test_our_parser_and_that_of_sqlglot_give_the_same_tree(dialect):
    leaves = [leaf.strip() for leaf in LEAVES.replace("\n", "|").split("|")]
    assert [leaf for leaf in leaves if not is_same(leaf, dialect)] == []
    rng = random.Random(1)
    count = scaled(1_000)
    assert sum(is_same(draw_text(rng, leaves), dialect) for _ in range(count)) > count // 5


@pytest.mark.ci
def test_texts_of_random_trees_are_read_alike():
    rows = pa.table({"a": [1, None], "b.c": [1.5, 2.0], "d e": ["x", "it's"], "f": [dt.date(2020, 1, 1), None]})
    rng = random.Random(0)
    for _ in range(scaled(200)):
        assert is_same(to_text(draw_predicate(rng, rank_table(rows)).node), None)


@pytest.mark.ci
def test_names_that_are_words_of_sql():
    words = {word for key in sqlglot.tokens.Tokenizer.KEYWORDS for word in re.findall(r"[A-Za-z_]\w*", key)}
    forms = [
        "{} = 5",
        "x.{} = 'a'",
        "{}.x IN (5, 6)",
        "{} NOT IN (5)",
        "{} IS NULL",
        "{} BETWEEN 1 AND 2",
        "a = 1 AND {} = -5",
    ]
    same = sum(is_same(form.format(word), None) for word in sorted(words) for form in forms)
    assert same > 4 * len(words)
