"""The predicate tree: shape, equality, text, and depth without recursion."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from parquet_bloom.errors import ParquetBloomError, PredicateError
from parquet_bloom.hashing.column_type import from_arrow
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.pruning import PruningPredicate
from parquet_bloom.predicate.pruning_statistics import PruningStatistics
from parquet_bloom.predicate.row_filter import row_mask
from parquet_bloom.predicate.tree import (
    And,
    Connective,
    Equal,
    In,
    Leaf,
    Node,
    Or,
    all_of,
    any_of,
    columns,
    fold,
    leaves,
    to_text,
)


def alternating(depth: int) -> Node:
    node: Node = Equal("b", 0)
    for i in range(depth):
        node = (And if i % 2 else Or)((Equal("a", i), node))
    return node


def test_nested_connectives_of_one_kind_are_flattened():
    a, b, c = Equal("a", 1), Equal("b", 2), Equal("c", 3)
    assert And((a, And((b, c)))).children == (a, b, c)
    assert Or((Or((a, b)), c)).children == (a, b, c)
    assert And((a, Or((b, c)))).children == (a, Or((b, c)))


def test_equality_tells_literal_types_apart():
    assert Equal("a", 1) == Equal("a", 1)
    assert Equal("a", math.nan) == Equal("a", float("nan"))
    different = [Equal("a", v) for v in (1, True, 1.0, decimal.Decimal(1), "1", b"1", None)]
    different += [In("a", (1,)), Equal("b", 1), And((Equal("a", 1),)), Or((Equal("a", 1),))]
    for i, one in enumerate(different):
        for other in different[i + 1 :]:
            assert one != other
    assert len(set(different)) == len(different)
    assert Equal("a", 1) != "a = 1"


@pytest.mark.parametrize("kind", [And, Or])
def test_connectives_of_different_shape_differ(kind):
    a, b, c = (Equal(name, 1) for name in "abc")
    other = Or if kind is And else And
    assert kind((a, other((b, c)))) != kind((other((a, b)), c))
    assert kind((a, b)) != kind((a, b, c))
    assert kind((a, b)) != other((a, b))


@pytest.mark.parametrize(
    "value",
    [
        [1],
        object(),
        1j,
        decimal.Decimal("NaN"),
        decimal.Decimal("-Infinity"),
        dt.time(1, tzinfo=dt.UTC),
        pa.scalar(1),
        pa.scalar(None, pa.timestamp("ns")),
        pa.scalar(1, pa.duration("s")),
        pa.scalar(1, pa.timestamp("us")),
        pa.scalar(1, pa.time32("s")),
        type("Tagged", (str,), {})("a"),
    ],
)
def test_a_value_of_another_type_is_not_a_literal(value):
    with pytest.raises(PredicateError):
        Equal("a", value)
    with pytest.raises(PredicateError):
        In("a", (1, value))


def test_wrong_shapes_are_refused_with_an_error_of_ours():
    for wrong in (
        lambda: Equal(5, 1),
        lambda: In("a", "text"),
        lambda: In("a", [1]),
        lambda: And(()),
        lambda: Or((Equal("a", 1), "b = 2")),
    ):
        with pytest.raises(PredicateError) as caught:
            wrong()
        assert isinstance(caught.value, ParquetBloomError)
        assert "\n" not in str(caught.value)


def test_columns_and_leaves_come_from_everywhere_in_the_tree():
    node = And((Equal("a.b", 1), Or((In("c", (1, 2)), And((Equal("d", 1), Equal("c", 3)))))))
    assert columns(node) == {"a.b", "c", "d"}
    assert [leaf.column for leaf in leaves(node)] == ["a.b", "c", "d", "c"]


def test_any_of_gathers_comparisons_of_one_column():
    a, b = Equal("a", 1), Equal("b", 2)
    assert any_of([a, b, In("a", (5, None)), Equal("a", 1)]) == Or((In("a", (1, 5, None, 1)), b))
    assert any_of([Equal("a", 1), Or((Equal("a", 2), Equal("a", 3)))]) == In("a", (1, 2, 3))
    assert any_of([a]) == a
    assert any_of([a, b]) == Or((a, b))
    assert any_of([In("a", ()), a]) == In("a", (1,))
    both = And((a, b))
    assert any_of([both, a, both]) == Or((both, a, both))
    assert all_of([a]) == a
    assert all_of([a, Equal("a", 2)]) == And((a, Equal("a", 2)))


def test_fold_visits_from_left_to_right_and_from_the_leaves_up():
    node = And((Equal("a", 1), Or((Equal("b", 2), Equal("c", 3))), Equal("d", 4)))

    def leaf(item: Leaf) -> str:
        return item.column

    def join(item: Connective, parts: list[str]) -> str:
        return f"{type(item).__name__}({','.join(parts)})"

    assert fold(node, leaf, join) == "And(a,Or(b,c),d)"
    assert fold(Equal("a", 1), leaf, join) == "a"


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Equal("user.id", 42), "user.id = 42"),
        (Equal("a", None), "a = NULL"),
        (Equal("a", True), "a = TRUE"),
        (Equal("a", 0.5), "a = 0.5e0"),
        (Equal("a", 1e300), "a = 1e+300"),
        (Equal("a", math.nan), "a = CAST('NaN' AS DOUBLE)"),
        (Equal("a", -math.inf), "a = CAST('-inf' AS DOUBLE)"),
        (Equal("a", decimal.Decimal("1.50")), "a = 1.50"),
        (Equal("a", decimal.Decimal("1E+3")), "a = 1000."),
        (Equal("a", "it's"), "a = 'it''s'"),
        (Equal("a", b"\x00\xab"), "a = X'00AB'"),
        (Equal("a", dt.date(2026, 1, 31)), "a = DATE '2026-01-31'"),
        (Equal("a", dt.time(1, 2, 3, 4)), "a = TIME '01:02:03.000004'"),
        (Equal("a", dt.datetime(2026, 1, 2, 3)), "a = TIMESTAMP '2026-01-02 03:00:00'"),
        (Equal("a", dt.datetime(2026, 1, 2, tzinfo=dt.UTC)), "a = TIMESTAMP '2026-01-02 00:00:00+00:00'"),
        (Equal("a", pa.scalar(-1, pa.timestamp("ns"))), "a = TIMESTAMP '1969-12-31 23:59:59.999999999'"),
        (Equal("a", pa.scalar(1, pa.timestamp("ns", "UTC"))), "a = TIMESTAMP '1970-01-01 00:00:00.000000001+00:00'"),
        (Equal("a", pa.scalar(1, pa.time64("ns"))), "a = TIME '00:00:00.000000001'"),
        (Equal("a", uuid.UUID(int=5)), "a = UUID '00000000-0000-0000-0000-000000000005'"),
        (In("a", ()), "a IN ()"),
        (Equal('a "b.c', 1), '"a ""b"."c" = 1'),
        (And((Equal("a", 1), Or((Equal("b", 2), Equal("c", 3))))), "a = 1 AND (b = 2 OR c = 3)"),
    ],
)
def test_text_is_sql_and_reads_back(node, text):
    assert str(node) == text
    assert parse(text) == parse(to_text(node)) == node
    assert repr(node).startswith(f"<{type(node).__name__} ")


@pytest.mark.parametrize("name", ["order", "if", "current_date", "a.date.b", ".", "a..b", "a.", "ä", "1", "`", '"'])
def test_any_name_reads_back(name):
    assert parse(to_text(Equal(name, 1))) == Equal(name, 1)


def test_text_for_people_is_short_and_on_one_line():
    assert str(In("a", tuple(range(100_000)))) == "a IN (0, 1, 2, 3, 4, 5, 6, 7, ... 99,992 more)"
    assert str(Or(tuple(Equal(f"c{i}", i) for i in range(5_000)))).endswith(" OR c7 = 7 OR ... 4,992 more")
    assert len(str(Equal("a", "x" * 100_000))) < 100
    assert str(Equal("a", "1\n2")) == r"a = '1\n2'"
    assert to_text(Equal("a", "1\n2")) == "\"a\" = '1\n2'"
    assert len(to_text(In("a", tuple(range(1_000))))) > 3_000
    assert len(str(Equal("a", 10**50_000))) < 100  # past the digits that Python writes
    assert len(str(Equal("a", decimal.Decimal("1E+999999")))) < 100


@pytest.mark.parametrize(
    "node",
    [
        Equal("a", pa.scalar(1, pa.timestamp("ns", "UTC"))),
        In("a", (1, None, "x", pa.scalar(1, pa.time64("ns")))),
        And((Equal("a", 1),)),
        alternating(4),
    ],
)
def test_pickle(node):
    stored = pickle.dumps(node)
    assert b"pandas" not in stored  # which Arrow's own pickling of nanoseconds needs
    copy = pickle.loads(stored)
    assert copy == node
    assert hash(copy) == hash(node)
    assert type(copy) is type(node)


@pytest.mark.ci
def test_no_depth_is_too_deep():
    node = alternating(20_000)
    assert pickle.loads(pickle.dumps(node)) == node
    assert hash(node) == hash(alternating(20_000))
    assert node != alternating(19_998)
    assert columns(node) == {"a", "b"}
    assert str(node)
    assert fold(node, lambda leaf: 0, lambda connective, depths: 1 + max(depths)) == 20_000


@dataclass(frozen=True, eq=False)
class _Unknown(Leaf):
    """A kind of leaf that nothing but the tree knows."""

    column: str
    value: int

    @property
    def literals(self) -> tuple[Any, ...]:
        return (self.value,)

    def __str__(self) -> str:
        return f"{self.column} ~ {self.value}"


def test_a_new_kind_of_leaf_is_not_taken_for_an_equality() -> None:
    """A leaf that a module does not know is possible for pruning, and an error on rows: as `=` it would lose rows."""
    leaf = _Unknown("a", 3)
    statistics = PruningStatistics(from_arrow(pa.int64()), True, 5, 9)
    assert PruningPredicate(leaf).decide({"a": statistics}).possible
    with pytest.raises(PredicateError, match="a ~ 3"):
        row_mask(pa.table({"a": [1, 3]}), leaf)
