"""Conditions that are parsed without sqlglot: the tree is the one that sqlglot's way gives, or there is none."""

from __future__ import annotations

import datetime as dt
import random
import re

import pyarrow as pa
import pytest
from sqlglot.tokens import Tokenizer, TokenType
from support.random_cases.table_predicates import draw_node, find_columns
from support.scale import scaled

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate.parse.sql_parser import TREE, fold_sql
from parquet_bloom.predicate.parse.sql_simple import parse_simple
from parquet_bloom.predicate.tree import Node, to_text

LEAVES = [
    "a = 5",
    "b IN (1, 2, 'x')",
    "c BETWEEN -1 AND 2.5",
    "d NOT IN ('a','b')",
    "e IS NOT NULL",
    "f <= 1.50",
    "g = TRUE",
    "h > DATE '2020-01-01'",
    "`k k`=='it''s'",
    "m.n <>-5e3",
    "o IS NULL",
    "\"p.q\" >= TIMESTAMP '2020-01-01 00:00:00+01:00'",
    "r NOT BETWEEN 1 AND 2",
    "u = UUID '00000000-0000-0000-0000-000000000005'",
    "uuid IN ('a', 'b')",
    "uuid.v BETWEEN 1 AND 2",
    'x."a b".`c` != NULL',
    "(a = 5)",
    "NOT a = 5",
    "NOT (a = 5 OR NOT (b = 6 AND c IN (7, 8)))",
    "array_contains(tags, 5)",
    "Array_Contains(`a b`.c, 'x') ",
    "list_contains(tags, DATE '2020-01-01')",
    "list_has(tags, -5)",
    "NOT array_has(tags, NULL)",
    "arrays_overlap(tags, ARRAY(1, 2))",
    "arrays_overlap(tags, array['a', 'b'])",
    "list_has_any(tags, [1])",
    "array_has_any(tags, [1, 2.5])",
    "list_has_all(tags, [1, 2])",
    "(array_has_all(tags, ARRAY[1, 2]))",
]
TEXT = """
    a b x `q,q` "a.b" a.b date case end year interval 5 -5 1.5 1e5 1. .5 1L 0x1F 1_000 99999999999999999999999 1e999 'a'
    'it''s' '' 'é' AND and OR NOT IN IS NULL BETWEEN ( ) , = == <> != < <= > >= <=> TRUE false X'AB' N'x' -- /* */ :: ?
    array_contains list_contains list_has array_has arrays_overlap list_has_any array_has_any array_has_all ARRAY ] [ (
    array_contains(a, array_contains(a,5) list_has_all(b, ARRAY[1,2]) arrays_overlap(a, [
    @ :a $1 a.5 _x a$ ü ; [a] a[1] ESCAPE COLLATE -> | ~ DATE TIMESTAMP UUID '2020-01-01' '2020-02-30' CAST AS DOUBLE
    uuid
"""
ATOMS = TEXT.split()
SIGNS = [*" '\"`().,-=<>5aeE\n\t!_\\$@#é/*;:[]{}|&~%^?+x", "--", " AND ", "\x00", "\u00a0", "\v"]


def with_sqlglot(text: str) -> Node | None:
    try:
        return fold_sql(text, None, TREE)
    except PredicateError:
        return None


def assert_same_or_none(text: str) -> bool:
    simple = parse_simple(text)
    if simple is not None:
        expected = with_sqlglot(text)
        assert (simple, repr(simple)) == (expected, repr(expected)), text  # 1.5 and 1.50 are equal, too
    return simple is not None


@pytest.mark.parametrize("text", LEAVES)
def test_simple_conditions_are_parsed_without_sqlglot(text):
    assert assert_same_or_none(text)
    assert assert_same_or_none(f"{text} and z = 1 OR {text}\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a",
        "a = b",
        "5 = a",
        "(a) = 5",
        "(a = 5",
        "a = 5)",
        "(a = 5) = TRUE",
        "()",
        "NOT NOT a = 5",
        "(" * 60 + "a = 5" + ")" * 60,
        "array_contains(tags)",
        "array_contains(tags, 5, 6)",
        "array_contains(5, tags)",
        "array_contains(tags, 5) = TRUE",
        "contains(tags, 5)",
        '"array_contains"(tags, 5)',
        "arrays_overlap(tags, ARRAY())",
        "arrays_overlap(tags, ARRAY(1, NULL))",
        "arrays_overlap(tags, ARRAY(1, 2])",
        "arrays_overlap(tags, (1, 2))",
        "arrays_overlap(tags, 1)",
        "a = 5 AND",
        "a = 5;",
        "a = 5 -- b",
        "a = 5 /* b */",
        "a IN ()",
        "a IN (1,)",
        "a IN (1,,2)",
        "a IN (SELECT 1)",
        "a LIKE 'b'",
        "a = 'b' 'c'",
        "a = 'b\\'",
        "a = x'AB'",
        "a = 1L",
        "a = 5 IS NULL",
        "a IS TRUE",
        "f(a) = 5",
        "a <=> 5",
        "a = DATE '2020-02-30'",
        "a = 1e999",
        "a = TIME '01:02:03'",
        "select = 5",
        "a.case = 5",
        "ü = 5",
        '"" = 5',
        '"a"".b" = 5',
        "a = 5 b = 5",
    ],
)
def test_others_are_left_to_sqlglot(text):
    assert parse_simple(text) is None


def test_every_word_that_sqlglot_knows_is_parsed_alike_or_left_to_it():
    words = {word for key in Tokenizer.KEYWORDS for word in re.findall(r"[A-Za-z_]\w*", key)}
    words |= {kind.name for kind in TokenType}
    forms = "{} = 5|{} < 5|x.{} = 'a'|{}.x IN (5, 6)|{} NOT IN (5)|{} IS NULL|{} BETWEEN 1 AND 2|a = 1 AND {} = -5"
    parsed = sum(assert_same_or_none(form.format(word)) for word in sorted(words) for form in forms.split("|"))
    assert parsed > len(words)  # most of them are names


@pytest.mark.parametrize("seed", range(4))
def test_random_conditions_are_parsed_alike_or_left_to_sqlglot(seed):
    rng = random.Random(seed)
    parsed = 0
    for _ in range(scaled(1_500)):
        if rng.random() < 0.6:
            text = rng.choice(LEAVES)
            for _ in range(rng.randrange(3)):
                text += rng.choice([" AND ", " or ", " AND NOT ", "\nAND\n"]) + rng.choice(LEAVES)
            if rng.random() < 0.3:
                text = f"{rng.choice(['', 'NOT '])}({text}) {rng.choice(['AND', 'or'])} ({text})"
            for _ in range(rng.randrange(4)):
                at = rng.randrange(len(text) + 1)
                inserted = rng.choice([rng.choice(SIGNS), rng.choice(SIGNS), "", text[at : at + 3]])
                text = text[:at] + inserted + text[at + (not inserted) :]
        else:
            text = rng.choice([" ", " ", ""]).join(rng.choices(ATOMS, k=rng.randint(2, 9)))
        parsed += assert_same_or_none(text)
    assert parsed > 100


def test_texts_of_random_trees_are_parsed_alike_or_left_to_sqlglot():
    rows = pa.table({"a": [1, None], "b.c": [1.5, 2.0], "d e": ["x", "it's"], "f": [dt.date(2020, 1, 1), None]})
    rng = random.Random(0)
    count = scaled(500)
    texts = [to_text(draw_node(rng, find_columns(rows), depth=rng.randrange(4))) for _ in range(count)]
    assert sum(map(assert_same_or_none, texts)) > len(texts) // 3
