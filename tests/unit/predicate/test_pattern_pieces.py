"""Pieces of text that a pattern asks for: of LIKE, of regular expressions, in lower case, and of what takes long."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.calls import is_ordinary, list_ordinary
from parquet_bloom.predicate.pattern_pieces import _spell, find_common_pieces, find_pieces
from parquet_bloom.predicate.patterns import require_expression
from parquet_bloom.predicate.tree import Equal, Like, Matches, NotLike, NotMatches


def pieces_of(leaf, lowered=False):
    return [" ".join(sorted(pieces)) for pieces in find_pieces(leaf, lowered=lowered)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("%error%", ["error"]),
        ("abc%longer_xyz", ["longer", "xyz", "abc"]),
        ("abc", ["abc"]),
        ("%ab%cd%", []),
        ("%日%", ["日"]),
        (r"%50\%\_off%", ["50%_off"]),
        (r"%abc\\%def", ["abc\\", "def"]),
        (r"%abc\\\%def", [r"abc\%def"]),
        (r"%abc\_def%", ["abc_def"]),
        ("%abc\\", ["abc\\"]),
        ("%abc%xabcx%", ["xabcx"]),
        ("%abc\0d\n%", ["abc\0d\n"]),
        ("%abc\ud83dd%", ["abc"]),
        *((pattern, []) for pattern in ("", "%", "_", "%_%%", "___%")),
    ],
)
def test_wildcards_divide_a_pattern(pattern, expected):
    assert pieces_of(Like("t", pattern)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(foo|bar)baz", ["barbaz foobaz"]),
        ("a(b|c)d(e|f)g", ["abdeg abdfg acdeg acdfg"]),
        ("foo|bar|foobar", ["bar foo"]),
        ("foo|xy", []),
        ("foo|", []),
        ("(foo.*1|bar)baz", ["1baz barbaz", "bar foo"]),
        ("colou?r", ["color colour"]),
        ("abcx*def", ["def", "abc"]),
        ("abcx+def", ["xdef", "abcx"]),
        ("(abc)+", ["abc"]),
        ("(abc)*", []),
        ("(abc)??", []),
        ("(ab){2}c", ["ababc"]),
        ("(ab){2,}c", ["ababc"]),
        ("(ab){0,4}cde", ["cde"]),
        ("ab{01}", ["ab{01}"]),
        ("x{,2}", ["x{,2}"]),
        ("abc.def", ["def", "abc"]),
        (r"^GET /\b$", ["GET /"]),
        (r"\Aabc\z\B", ["abc"]),
        (r"\Qa.b*\E+", ["a.b*"]),
        (r"\Qa.b*", ["a.b*"]),
        (r"\x{1F600}\x41\101\t\.", ["😀AA\t."]),
        (r"abc\d\D\s\S\w\W\pL\p{Greek}\P{^Greek}\Cdef", ["def", "abc"]),
        ("[Ff]oo", ["Foo foo"]),
        ("[a]bc", ["abc"]),
        ("[a-c]bc", ["abc bbc cbc"]),
        ("[a-f]bcd", ["bcd"]),
        ("[^a]bcd", ["bcd"]),
        ("[]a]bcd", ["]bcd abcd"]),
        (r"[\]\x{61}-]bcd", ["-bcd ]bcd abcd"]),
        ("[[:alpha:]]bcd", ["bcd"]),
        (r"[a\d]bcd", ["bcd"]),
        ("(?P<n>abc)(?:def)", ["abcdef"]),
        ("abc(?i)def", ["abc"]),
        ("abc(?i:def)ghi", ["ghi", "abc"]),
        ("(abc(?i))def", ["abcdef"]),
        ("(?i)abc(?-i)def", ["def"]),
        ("(?i)Fehler 日本 123: x", [" 日本 123: "]),
        ("(?sU)abc|(?m-s:def)", ["abc def"]),
        ("|".join(f"wo{i:x}" for i in range(16)), [" ".join(f"wo{i:x}" for i in range(16))]),
        ("|".join(f"wo{i}" for i in range(17)), []),
        ("", []),
    ],
)
def test_literals_of_an_expression_are_joined(expression, expected):
    require_expression(expression)
    assert pieces_of(Matches("t", expression)) == expected


@pytest.mark.parametrize(
    "expression",
    ["(abc", "abc)", "[abc", "[abc-", "abc\\", r"\8abc", r"\yabc", "(?=abc)d", "(?x)abc", "*abc", r"\éabc"],
)
def test_of_what_is_no_expression_nothing_is_known(expression):
    with pytest.raises(PredicateError, match="not a regular expression"):
        require_expression(expression)
    assert find_pieces(Matches("t", expression)) == ()


def test_lowered_pieces_are_of_ordinary_characters():
    assert pieces_of(Like("t", "%Straße ÄÖ%"), lowered=True) == ["straße äö"]
    assert pieces_of(Like("t", "%abcİdef%"), lowered=True) == ["def", "abc"]
    assert pieces_of(Like("t", "%abc\u212adef%"), lowered=True) == ["def", "abc"]
    assert pieces_of(Matches("t", "(?i)ERROR|Warn"), lowered=True) == ["error warn"]
    assert pieces_of(Matches("t", "(?i)kiss"), lowered=True) == ["kiss"]
    assert pieces_of(Matches("t", "(?i)κόσμος"), lowered=True)[0].split() == [
        f"κό{s}{m}ο{end}" for s in "ςσ" for m in "µμ" for end in "ςσ"
    ]
    assert pieces_of(Matches("t", "(?i)[Aµ]bc"), lowered=True) == ["abc µbc μbc"]


def test_function_of_the_leaf_says_whose_pieces_they_are():
    assert pieces_of(Like("t", "%Abc%", "lower"), lowered=True) == ["abc"]
    for function in ("lower", "upper", "string"):
        assert find_pieces(Like("t", "%abc%", function)) == ()
    assert find_pieces(Like("t", "%abc%", "upper"), lowered=True) == ()
    assert find_pieces(Matches("t", "abc", "string"), lowered=True) == ()


def test_other_leaves_have_no_pieces():
    others = [NotLike("t", "%abc%"), NotMatches("t", "abc"), Equal("t", "abc"), parse("m['k'] LIKE '%abc%'")]
    assert [find_pieces(leaf, lowered=lowered) for leaf in others for lowered in (False, True)] == [()] * 8


def test_characters_that_re2_takes_for_the_same_are_known():
    """For each ordinary character with a case: what RE2 matches with it, in lower case, is what pieces have."""
    cased = [chr(point) for point in list_ordinary("lower") if chr(point).lower() != chr(point).upper()]
    texts = pa.array(cased)
    for character in cased:
        found = texts.filter(pc.match_substring_regex(texts, pattern=f"(?i){character}"))
        assert {*pc.utf8_lower(found).to_pylist()} == {*_spell(character, True, True)}, character
    caseless = [chr(point) for point in list_ordinary("lower") if _spell(chr(point), False, True)]
    characters = pa.array([chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000])
    members = "".join(rf"\x{{{ord(character):x}}}" for character in caseless)
    for text, expected in [(members, len(caseless)), (rf"^{members}", len(characters) - len(caseless))]:
        found = pc.match_substring_regex(characters, pattern=f"(?is)[{text}]")
        assert np.count_nonzero(found) == expected


def test_ordinary_characters_are_those_of_the_list():
    points = {*list_ordinary("upper")}
    for point in range(0, 0x20000, 11):
        assert is_ordinary(chr(point), "upper") == (point in points)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a" * 100_000, 1),
        ("(" * 10_000 + "abc" + ")" * 10_000, 1),
        ("(abc.d(a|b)" * 3_000 + ")" * 3_000, 1),
        ("(a|b)" * 3_000, 1),
        ("|".join(f"abc{i}" for i in range(2_000)), 0),
        ("(" * 5_000 + ")" + "){1000}" * 4_999, 0),
        ("(" * 10_000, 0),
        ("[" + "a-z" * 30_000 + "]", 0),
    ],
    ids=lambda value: str(value)[:12],
)
def test_long_and_deeply_nested_expressions(expression, expected):
    assert len(find_pieces(Matches("t", expression))) == expected
    assert len(find_pieces(Matches("t", expression), lowered=True)) == expected


def test_of_many_pieces_the_longest_are_chosen():
    pieces = find_pieces(Like("t", "%".join(str(i) for i in range(1_000, 5_000))))
    assert len(pieces) == 32
    assert {len(text) for one in pieces for text in one} == {4}


def test_pieces_of_what_java_and_rust_read_alike():
    common = {
        "error [0-9]{2,}: (foo|bar)": ["error ", ": bar : foo"],
        r"^a\.bc[\d.-]+\x20def$": ["a.bc", " def"],
        "(?i)abc 123 def": [" 123 "],
        "(?<n>abc)": ["abc"],
    }
    for expression, expected in common.items():
        assert [" ".join(sorted(one)) for one in find_common_pieces(expression)] == expected
    others = [r"\<abc", r"\b{start}abc", "abc{,2}", r"abc(d)\1", "[a&&b]abc", "[[ab]c]abc", "(?x)abc d", "abc(?=d)"]
    others += [r"\Qabc\E", "abc\ufffd", "[]a]bcd", r"\vabc", r"\habc", "(?>abc)", "abc(?i)d", "[a--b]cde", r"\u0041bc"]
    assert [expression for expression in others if find_common_pieces(expression)] == []
