"""LIKE, pieces of texts and regular expressions: as DuckDB, in every notation, on rows and on bounds."""

import itertools
import pickle
import re

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.patterns import Prefix, find_prefix
from parquet_bloom.predicate.tree import Equal, Like, Matches, negation, to_text
from parquet_bloom.scan.polars_frame import translate

TEXTS = ["", "a", "A", "ab", "abc", "b", "a%b", "a_b", "a\\b", "a\nb", "ä", "äb", "日本", "%", "_", "\\", "ß", None]
texts = pa.table({"t": TEXTS, "n": range(len(TEXTS))})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return a file of one text in each row group, without dictionaries: its bounds decide."""
    path = tmp_path_factory.mktemp("patterns") / "a.parquet"
    pq.write_table(texts, path, row_group_size=1, use_dictionary=False)
    return str(path)


def rows(path, where):
    assert parse(to_text(parse(where))) == parse(where)
    assert pickle.loads(pickle.dumps(parse(where))) == parse(where)
    return parquet_bloom.read_table(path, where)["n"].to_pylist()


PIECES = ["a", "b", "%", "_", "!%", "!_", "!!", "ä", "\n", "\\"]
PATTERNS = ["".join(pieces) for length in range(4) for pieces in itertools.product(PIECES, repeat=length)][::13]


@pytest.mark.ci
def test_rows_of_like_are_those_of_duckdb(path):
    for pattern in PATTERNS:
        for word in ("LIKE", "NOT LIKE"):
            where = f"t {word} '{pattern}' ESCAPE '!'"
            expected = duckdb.sql(f"SELECT n FROM texts WHERE {where} ORDER BY n").fetchall()
            assert rows(path, where) == [row for (row,) in expected], where


@pytest.mark.parametrize(
    "where",
    [
        "t LIKE '%b'",
        "t NOT LIKE '%a%'",
        "regexp_matches(t, '^a.')",
        "lower(t) = 'a'",
        "upper(t) <> 'AB'",
        "CAST(t AS VARCHAR) IN ('a', 'ab')",
        "NOT (t LIKE '%a%' OR lower(t) = 'b')",
        "t LIKE '%a%' AND t <> 'a'",
        "t LIKE '%a' OR n = 5",
        "t IS NULL OR t LIKE '_b'",
    ],
)
def test_bounds_that_are_one_text_decide_every_pattern(path, where):
    found = rows(path, where)
    assert found
    assert parquet_bloom.prune(path, where).files[0].selected == found


@pytest.mark.ci
@pytest.mark.parametrize("piece", ["a", "ab", "%", "_", "\\", "", "日", "zz"])
def test_pieces_of_texts_are_found_by_every_notation(path, piece):
    ours = {
        "starts_with": lambda text: text.startswith(piece),
        "ends_with": lambda text: text.endswith(piece),
        "contains": lambda text: piece in text,
    }
    for function, holds in ours.items():
        expected = [n for n, text in enumerate(TEXTS) if text is not None and holds(text)]
        column, name = pc.field("t"), pl.col("t").str
        arrow = {"starts_with": pc.starts_with, "ends_with": pc.ends_with, "contains": pc.match_substring}[function]
        frame = name.contains(piece, literal=True) if function == "contains" else getattr(name, function)(piece)
        assert rows(path, f"{function}(t, '{piece}')") == expected
        assert rows(path, arrow(column, piece)) == expected
        assert parquet_bloom.dataset(path).to_table(filter=arrow(column, piece))["n"].to_pylist() == expected
        assert parquet_bloom.scan_polars(path).filter(frame).collect()["n"].to_list() == expected
        others = [n for n, text in enumerate(TEXTS) if text is not None and not holds(text)]
        assert rows(path, f"NOT {function}(t, '{piece}')") == others
        assert parquet_bloom.scan_polars(path).filter(~frame).collect()["n"].to_list() == others


@pytest.mark.parametrize("expression", ["a", "^a", "b$", "a.b", "(?s)a.b", "[äß]", "^$", "(?i)A", "\\\\", "a|ß"])
def test_rows_of_expressions_are_those_of_duckdb(path, expression):
    for where in (f"regexp_matches(t, '{expression}')", f"NOT regexp_matches(t, '{expression}')"):
        expected = duckdb.sql(f"SELECT n FROM texts WHERE {where} ORDER BY n").fetchall()
        assert rows(path, where) == [row for (row,) in expected]
    assert rows(path, pc.match_substring_regex(pc.field("t"), expression)) == rows(
        path, f"regexp_matches(t, '{expression}')"
    )


@pytest.mark.ci
@pytest.mark.parametrize("piece", ["A", "ab", "B", "Ä", "(", "%", "\\", "\nB", ""])
def test_case_is_ignored_as_by_arrow_and_duckdb(path, piece):
    for arrow in (pc.starts_with, pc.ends_with, pc.match_substring):
        expected = texts.filter(arrow(texts["t"], piece, ignore_case=True))["n"].to_pylist()
        assert rows(path, arrow(pc.field("t"), piece, ignore_case=True)) == expected
        found = parquet_bloom.dataset(path).to_table(filter=arrow(pc.field("t"), piece, ignore_case=True))
        assert found["n"].to_pylist() == expected
    where = f"regexp_matches(t, '{re.escape(piece)}|^ß', 'i')"
    assert rows(path, where) == [n for (n,) in duckdb.sql(f"SELECT n FROM texts WHERE {where} ORDER BY n").fetchall()]


@pytest.mark.parametrize("expression", ["^a.*$", "abc|ä", "(?i)A%", "日本", "a{3}|abc", r"\\", "[^a-z]"])
def test_expressions_of_polars_lose_no_row(path, expression):
    expected = pl.from_arrow(texts).filter(pl.col("t").str.contains(expression))["n"].to_list()
    frame = parquet_bloom.scan_polars(path)
    assert frame.filter(pl.col("t").str.contains(expression)).collect()["n"].to_list() == expected
    others = pl.from_arrow(texts).filter(~pl.col("t").str.contains(expression))["n"].to_list()
    assert frame.filter(~pl.col("t").str.contains(expression)).collect()["n"].to_list() == others


def test_pieces_of_an_expression_of_polars_are_necessary_for_it():
    def condition(expression):
        return str(translate(pl, expression, {"t": pl.String()}, {"t"}))

    text = pl.col("t").str
    assert condition(text.contains("(a%c|bar)x.*qux")) == (
        r"(t LIKE '%a\%cx%' ESCAPE '\' OR t LIKE '%barx%') AND t LIKE '%qux%'"
    )
    assert condition(text.to_lowercase().str.contains("abc+")) == "lower(t) LIKE '%abc%'"
    assert (
        condition(~text.contains("abc"))
        == condition(text.contains("a.c"))
        == condition(text.contains(r"\<abc"))
        == "None"
    )


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("t LIKE 'ab%'", ["ab", "abc"]),
        ("t LIKE 'ab_'", ["ab", "abc"]),
        ("t LIKE 'z%'", []),
        ("t NOT LIKE 'a%'", ["", "A", "b", "ä", "äb", "日本", "%", "_", "\\", "ß"]),
        ("t NOT LIKE 'a_'", [text for text in TEXTS if text is not None]),
        ("t NOT LIKE '%'", []),
        ("starts_with(t, 'ä')", ["ä", "äb"]),
    ],
)
def test_bounds_rule_out_by_what_texts_begin_with(tmp_path, where, groups):
    pairs = [None if text is None else text + end for text in TEXTS for end in ("", "!")]
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"t": pairs}), path, row_group_size=2, use_dictionary=False)
    assert [TEXTS[n] for n in parquet_bloom.prune(path, where).selected[path]] == groups


def test_functions_of_columns_match_as_engines_agree(path):
    assert rows(path, "lower(t) LIKE 'a%'") == [n for n, text in enumerate(TEXTS) if text and text.lower()[0] == "a"]
    assert rows(path, "CAST(n AS STRING) LIKE '1_'") == list(range(10, len(TEXTS)))
    assert rows(path, "NOT regexp_matches(CAST(n AS STRING), '^.$')") == list(range(10, len(TEXTS)))
    with pytest.raises(PredicateError, match="not the same in all engines"):
        rows(path, "upper(t) LIKE 'SS%'")


def test_what_is_no_text_has_no_pattern(path):
    with pytest.raises(PredicateError, match="int64 is not a text"):
        parquet_bloom.read_table(path, "n LIKE '1%'")


def test_pattern_of_one_text_is_an_equality():
    assert parse("a LIKE 'x!%' ESCAPE '!'") == Equal("a", "x%")
    assert parse("a LIKE 'x'") == Equal("a", "x")
    assert parse("a LIKE 'x%'") == Like("a", "x%")
    assert parse("a ILIKE '%Äb!%_' ESCAPE '!'") == Like("a", "%äb\\%_", "lower")
    assert parse("NOT lower(a) ILIKE 'X%'") == parse("a NOT ILIKE 'x%'") == parse("lower(a) NOT LIKE 'x%'")
    assert parse("starts_with(a, '50%')") == Like("a", "50\\%%")
    assert negation(negation(parse("regexp_matches(a, 'x')"))) == Matches("a", "x")


def test_beginnings_of_patterns():
    assert find_prefix("a%") == Prefix("a", is_all=True, is_whole=False)
    assert find_prefix("a%%") == Prefix("a", is_all=True, is_whole=False)
    assert find_prefix("a_") == Prefix("a", is_all=False, is_whole=False)
    assert find_prefix("a%b") == Prefix("a", is_all=False, is_whole=False)
    assert find_prefix("a\\%b") == Prefix("a%b", is_all=False, is_whole=True)
    assert find_prefix("%") == Prefix("", is_all=True, is_whole=False)
