"""Conditions with parts that are not understood: the predicate derived from the others never excludes a match."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("pyspark")

from parquet_bloom.predicate import tree
from parquet_bloom.predicate.sql_parser import fold_spark
from parquet_bloom.predicate.tree import And, Equal, Node, Or
from parquet_bloom.spark.condition.from_sql import parse_comparison
from parquet_bloom.spark.condition.spark_comparison import (
    ConditionFragment,
    Junction,
    Negation,
    Reading,
    Term,
    derive_predicate,
    join_spellings,
    spell_term,
)

Truth = bool | None


def conjunction(values: list[Truth]) -> Truth:
    return False if False in values else None if None in values else True


def opposite(value: Truth) -> Truth:
    return None if value is None else not value


def truth(term: Any, values: dict[str, Truth]) -> Truth:
    """Evaluate a term by SQL's three-valued logic."""
    if isinstance(term, ConditionFragment):
        return values[term.text]
    if isinstance(term, Negation):
        return opposite(truth(term.child, values))
    children = [truth(child, values) for child in term.children]
    if term.kind is And:
        return conjunction(children)
    return opposite(conjunction([opposite(value) for value in children]))


def holds(node: Node, values: dict[str, Truth]) -> Truth:
    def leaf(item: Any) -> Truth:
        return values[item.column] if isinstance(item, Equal) else opposite(values[item.column])

    def combine(item: Any, children: list[Truth]) -> Truth:
        if isinstance(item, And):
            return conjunction(children)
        return opposite(conjunction([opposite(child) for child in children]))

    return tree.fold(node, leaf, combine)


def make_term(rng: random.Random, depth: int, names: list[str]) -> Term:
    kind = rng.choice(["and", "or", "not", "fragment"]) if depth else "fragment"
    if kind == "not":
        return Negation(make_term(rng, depth - 1, names))
    if kind in ("and", "or"):
        children = [make_term(rng, depth - 1, names) for _ in range(rng.randint(2, 3))]
        return Junction(And if kind == "and" else Or, children)
    names.append(f"c{len(names)}")
    name = names[-1]
    fragment = ConditionFragment(name, name)
    if rng.random() < 0.6:
        node = Equal(name, 1)
        fragment.readings.append(Reading(name, lambda negated: tree.negation(node) if negated else node))
    return fragment


def test_derived_predicate_holds_wherever_the_condition_does() -> None:
    rng = random.Random(5)
    useful = refused = 0
    for _ in range(400):
        names: list[str] = []
        term = make_term(rng, 4, names)
        node = derive_predicate(
            term, lambda fragment, negated: fragment.readings[0].exact(negated) if fragment.readings else None
        )
        for _ in range(20):
            values = {name: rng.choice([True, False, None]) for name in names}
            if truth(term, values):
                assert node is None or holds(node, values)
            elif node is not None:
                refused += holds(node, values) is not True
        useful += node is not None
    assert useful > 100
    assert refused > 1000


def test_derived_predicate_is_exact_if_all_is_understood() -> None:
    rng = random.Random(6)
    for _ in range(100):
        names: list[str] = []
        term = make_term(rng, 3, names)
        node = derive_predicate(
            term, lambda fragment, negated: (tree.negation if negated else lambda item: item)(Equal(fragment.text, 1))
        )
        assert node is not None
        for _ in range(20):
            values = {name: rng.choice([True, False, None]) for name in names}
            assert holds(node, values) == truth(term, values)


def test_texts_are_split_at_connectives_only() -> None:
    def fragment(text: str, read: Any) -> Term:
        return ConditionFragment(text, text)

    for text, expected in {
        "a = 1 AND f(b, 'x AND y') > 3": "(a = 1) AND (f(b, 'x AND y') > 3)",
        "NOT (a = 5L OR b LIKE 'x%') AND c": "(NOT ((a = 5L) OR (b LIKE 'x%'))) AND (c)",
        "a BETWEEN 1 AND 2 AND CASE WHEN b AND c THEN d END": "(a BETWEEN 1 AND 2) AND (CASE WHEN b AND c THEN d END)",
        "(a) = 1 OR (b = 2 AND (c = 3))": "((a) = 1) OR ((b = 2) AND (c = 3))",
    }.items():
        assert spell_term(fold_spark(text, fragment, Negation, Junction)) == expected


@pytest.mark.parametrize(
    ("text", "operator", "name", "literals"),
    [
        ("a = 5L", "=", "a", ["5L"]),
        ("CAST('x' AS STRING) == `a b`.c", "=", "a b.c", ["CAST('x' AS STRING)"]),
        ("3S >= a", "<=", "a", ["3S"]),
        ("a <=> -5", "<=>", "a", ["-5"]),
        ("a in (1L, CAST(2 AS DECIMAL(9, 2)), 'x, y')", "in", "a", ["1L", "CAST(2 AS DECIMAL(9, 2))", "'x, y'"]),
        ("a BETWEEN 1 + 1 AND 'x AND y'", "between", "a", ["1 + 1", "'x AND y'"]),
        ("ARRAY_CONTAINS(a.b, 5::BIGINT)", "contains", "a.b", ["5::BIGINT"]),
        ("a = DATE '2020-01-01'", "=", "a", ["DATE '2020-01-01'"]),
    ],
)
def test_comparisons_with_casts(text: str, operator: str, name: str, literals: list[str]) -> None:
    comparison = parse_comparison(text)
    assert comparison is not None
    assert (comparison.operator, comparison.name) == (operator, name)
    assert [literal.spelling for literal in comparison.literals] == literals


@pytest.mark.parametrize(
    "text",
    [
        "a = b",
        "a = now()",
        "a = current_date",
        "a = abs(5)",
        "a = 'x\\'y'",
        'a = "x"',
        "a = '${x}'",
        "a = X'6E6F77'",
        "a + 1 = 5",
        "f(a) = 5",
        "a = 5 OR b",
        "a IN (SELECT 5)",
        "a <> 5",
        "a.5 = 5",
    ],
)
def test_no_comparisons_with_literals(text: str) -> None:
    assert parse_comparison(text) is None


def test_long_conditions_are_one_text() -> None:
    assert join_spellings(["a"] * 3, Or) == "(a) OR (a) OR (a)"
