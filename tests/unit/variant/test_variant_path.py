"""Paths in Variants: what Spark takes is taken, and what it refuses is refused."""

from __future__ import annotations

import pytest

from parquet_bloom.errors import PredicateError
from parquet_bloom.variant.variant_path import VariantPath, make_path, parse_path

# As Spark 4.3 parses them; those without $ are Databricks' and Snowflake's.
PATHS: dict[str, tuple[tuple[str | int, ...], str]] = {
    "$": ((), "$"),
    "$.a.b": (("a", "b"), "$.a.b"),
    "$['a.b'][0]": (("a.b", 0), "$['a.b'][0]"),
    '$["x"]': (("x",), "$.x"),
    "$.a b": (("a b",), "$['a b']"),
    "$.a ": (("a ",), "$['a ']"),
    "$. a": ((" a",), "$[' a']"),
    "$.*": (("*",), "$['*']"),
    "$.a]": (("a]",), "$['a]']"),
    "$['it?']": (("it?",), "$['it?']"),
    "$['']": (("",), "$['']"),
    '$["it\'s"]': (("it's",), '$["it\'s"]'),
    "$.é": (("é",), "$['é']"),
    "$[00]": ((0,), "$[0]"),
    "$[2147483647]": ((2147483647,), "$[2147483647]"),
    "a.b": (("a", "b"), "$.a.b"),
    "a['x y'][3].c": (("a", "x y", 3, "c"), "$.a['x y'][3].c"),
    "A": (("A",), "$.A"),
}
REFUSED = [
    "",
    " ",
    " $.a",
    "$a",
    "$.",
    "$..a",
    "$.a.",
    "$[]",
    "$[*]",
    "$[x]",
    "$[-1]",
    "$[ 0 ]",
    "$['a' ]",
    "$.a[0]b",
    "$ ",
    "[0]",
    ".",
]
REFUSED += ["$[2147483648]", f"$[{'9' * 5000}]", "$['a", "$['it's']", "$[٣]", "$.a\ud800", "a..b"]


@pytest.mark.parametrize("text", PATHS)
def test_a_path(text: str) -> None:
    parts, canonical = PATHS[text]
    path = parse_path(text)
    assert (path, str(path)) == (VariantPath(parts), canonical)
    assert parse_path(canonical) == path


@pytest.mark.parametrize("text", REFUSED)
def test_no_path(text: str) -> None:
    with pytest.raises(PredicateError, match="is not a path in a Variant"):
        parse_path(text)


def test_a_name_with_both_quotes() -> None:
    path = VariantPath(('it\'s "x"',))
    assert parse_path(str(path)) == path
    assert make_path(path.parts) == path


@pytest.mark.parametrize("name", ["a'b\"c.d", "a'b\"c[0]", "\ud800"])
def test_a_name_without_a_text(name: str) -> None:
    with pytest.raises(PredicateError, match="is not a path in a Variant"):
        make_path([name])
