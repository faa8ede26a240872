"""Elements of lists: `contains` in every notation, for every kind of Arrow list and every layout in files."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.oracle import BINARY, I32, Struct
from support.writers.surgery import each_chunk, rewrite_footer

import parquet_bloom
from parquet_bloom.errors import PredicateError, UnreadableColumnError
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.row_filter import row_mask
from parquet_bloom.predicate.tree import And, Contains, Node, NotContains, Or, negation

NAN = float("nan")

# ---------------------------------------------------------------------------------------------------------- notations


@pytest.mark.parametrize(
    ("where", "dialect", "expected"),
    [
        ("array_contains(tags, 'x')", None, Contains("tags", "x")),
        ("ARRAY_CONTAINS(a.tags, -1.5e0)", None, Contains("a.tags", -1.5)),
        ("list_contains(tags, 1)", None, Contains("tags", 1)),
        ("list_has(tags, 1)", "duckdb", Contains("tags", 1)),
        ("array_has(tags, DATE '2020-01-01')", None, Contains("tags", dt.date(2020, 1, 1))),
        ("contains(tags, 1)", "trino", Contains("tags", 1)),
        ("has(tags, 1)", "clickhouse", Contains("tags", 1)),
        ("1 = ANY(tags)", None, Contains("tags", 1)),
        ("array_contains(tags, NULL)", None, Contains("tags", None)),
        ("NOT array_contains(tags, 1)", None, NotContains("tags", 1)),
        ("NOT (array_contains(t, 1) OR a = 2)", None, And((NotContains("t", 1), parse("a <> 2")))),
        ("arrays_overlap(tags, array(1, 2))", "spark", Or((Contains("tags", 1), Contains("tags", 2)))),
        ("list_has_any(tags, [1, 2])", None, Or((Contains("tags", 1), Contains("tags", 2)))),
        ("list_has_all(tags, [1, 2])", "duckdb", And((Contains("tags", 1), Contains("tags", 2)))),
        ("tags && ARRAY[1, 2]", "postgres", Or((Contains("tags", 1), Contains("tags", 2)))),
        ("tags @> ARRAY[1]", "postgres", Contains("tags", 1)),
        (("tags", "contains", 1), None, Contains("tags", 1)),
        ([("tags", "NOT CONTAINS", None)], None, NotContains("tags", None)),
    ],
)
def test_notations(where: Any, dialect: str | None, expected: Node) -> None:
    result = parse(where, dialect)
    assert result == expected
    assert parse(str(result)) == result
    assert pickle.loads(pickle.dumps(result)) == result
    assert negation(negation(result)) == result


@pytest.mark.parametrize(
    ("where", "dialect"),
    [
        ("array_contains('x', tags)", None),
        ("array_contains('x', tags)", "snowflake"),
        ("array_contains(tags, other)", None),
        ("array_contains(tags, 1, 2)", None),
        ("array_contains(tags,, 1)", None),
        ("list_contains(tags, [1])", None),
        ("list_has_any(tags, [1,, 2])", None),
        ("list_has_any(tags, [])", None),
        ("list_has_any(tags, [1, NULL])", None),
        ("list_has_any(tags, others)", None),
        ("tags && [1,, 2]", "duckdb"),
        ("1 <> ANY(tags)", None),
        ("1 = ALL(tags)", None),
        ("1 = ANY(SELECT 1)", None),
        ("1 = ANY(tags, 2)", None),
        (("tags", "contains", [1]), None),
    ],
)
def test_unsupported_input_is_refused(where: Any, dialect: str | None) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(where, dialect)
    assert "\n" not in str(caught.value)


# --------------------------------------------------------------------------------------------------------- evaluation


def twin(rows: list[list[Any] | None], value: Any) -> list[bool | None]:
    """`contains` a row at a time."""

    def equal(element: Any) -> bool:
        return element == value or (element != element and value != value)

    return [None if row is None or (value is None and row) else any(map(equal, row)) for row in rows]


INTEGERS = [1, 2, 3, None]
ARROW_LISTS: list[Callable[[list[Any], pa.DataType], pa.Array]] = [
    lambda rows, kind: pa.array(rows, pa.list_(kind)),
    lambda rows, kind: pa.array(rows, pa.large_list(kind)),
    lambda rows, kind: pa.array(rows, pa.list_view(kind)),
    lambda rows, kind: pa.array(rows, pa.large_list_view(kind)),
]


def draw(rng: random.Random, pool: list[Any]) -> list[list[Any] | None]:
    return [
        None if rng.random() < 0.2 else [rng.choice(pool) for _ in range(rng.choice([0, 1, 2, 5]))] for _ in range(40)
    ]


@pytest.mark.parametrize("make", ARROW_LISTS)
@pytest.mark.parametrize(
    ("kind", "pool", "others"),
    [
        (pa.int64(), INTEGERS, [4, 2**70]),
        (pa.uint64(), [0, 2**64 - 1, None], [2**63]),
        (pa.float64(), [0.0, -0.0, 1.5, NAN, None], [2.0]),
        (pa.string(), ["a", "", "ä", None], ["b"]),
        (pa.string_view(), ["a", "", "a text of some length", None], ["b"]),
        (pa.bool_(), [True, False, None], []),
        (pa.date32(), [dt.date(2020, 1, 1), dt.date(1960, 1, 1), None], [dt.date(2020, 1, 2)]),
        (pa.timestamp("us"), [dt.datetime(2020, 1, 1), None], [dt.datetime(2020, 1, 2)]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None], ["c"]),
    ],
)
def test_every_kind_of_list(make: Any, kind: pa.DataType, pool: list[Any], others: list[Any]) -> None:
    rng = random.Random(str(kind))
    rows = draw(rng, pool)
    lists = make(rows, kind)
    cut = pa.chunked_array([lists.slice(0, 7), lists.slice(7, 0), lists.slice(7)])
    for value in [*pool, *others]:
        for column in (lists, cut):
            result = row_mask(pa.table({"t": column}), Contains("t", value)).to_pylist()
            assert result == twin(rows, value), value
            opposite = row_mask(pa.table({"t": column}), NotContains("t", value)).to_pylist()
            assert opposite == [None if one is None else not one for one in result], value


def test_many_literals_are_those_of_each() -> None:
    """`list_has_any` and its opposite, over columns that take turns, are what each literal by itself says."""
    rng = random.Random(5)
    pools = {"t": [1, 2, 3, None], "u": [0.0, -0.0, NAN, 7.5, None]}
    kinds = {"t": pa.int64(), "u": pa.float64()}
    columns = {name: [draw(rng, pool) for _ in range(2)] for name, pool in pools.items()}
    for _ in range(60):
        terms = [(name, rng.choice([*pools[name], 4])) for name in rng.choices(["t", "u"], k=rng.randint(2, 9))]
        for kind, connective, negated in ((Contains, Or, False), (NotContains, And, True), (Contains, And, False)):
            node = connective(tuple(kind(name, value) for name, value in terms))
            probes: Any = {}
            for number in range(2):
                rows = {name: columns[name][number] for name in pools}
                table = pa.table({name: pa.array(rows[name], pa.list_(kinds[name])) for name in pools})
                result = row_mask(table, node, probes=probes).to_pylist()
                each = [twin(rows[name], value) for name, value in terms]
                if negated:
                    each = [[None if one is None else not one for one in mask] for mask in each]
                decided = connective is Or
                assert result == [
                    decided if decided in row else None if None in row else not decided
                    for row in zip(*each, strict=True)
                ]


def test_lists_of_one_length_and_lists_in_structs() -> None:
    rows = [[1, 2], None, [None, 3], [2, 2], [None, None]]
    fixed = pa.array(rows, pa.list_(pa.int64(), 2))
    for start in range(len(rows)):
        result = row_mask(pa.table({"t": fixed.slice(start)}), Contains("t", 2)).to_pylist()
        assert result == twin(rows[start:], 2)
    nested = pa.array([{"t": [1]}, {"t": None}, None, {"t": [2, 1]}])
    assert row_mask(pa.table({"a": nested}), Contains("a.t", 1)).to_pylist() == [True, None, None, True]
    assert row_mask(pa.table({"a": nested}), Contains("a.missing", 1)).to_pylist() == [None] * 4
    nothing = pa.array([[None], [], None], pa.list_(pa.null()))
    assert row_mask(pa.table({"t": nothing}), Contains("t", 1)).to_pylist() == [False, False, None]
    assert row_mask(pa.table({"t": pa.nulls(2)}), Contains("t", 1)).to_pylist() == [None, None]


def test_what_a_null_list_hides_is_not_found() -> None:
    validity = pa.array([True, False, True]).buffers()[1]
    hidden = pa.Array.from_buffers(
        pa.list_(pa.int64()),
        3,
        [validity, pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]],
        children=[pa.array([1, 7, 2])],
    )
    assert row_mask(pa.table({"t": hidden}), Contains("t", 7)).to_pylist() == [False, None, False]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (pa.array([1]), 1, "is not a list"),
        (pa.array([{"a": 1}]), 1, "is not a list"),
        (pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())), 1, "is not a list"),
        (pa.array([[[1]]]), 1, "no single values"),
        (pa.array([[{"a": 1}]]), 1, "no single values"),
        (pa.array([["a"]]), 1, "compared exactly"),
    ],
)
def test_unsupported_nesting(column: pa.Array, value: Any, words: str) -> None:
    with pytest.raises(PredicateError, match=words) as caught:
        row_mask(pa.table({"t": column}), Contains("t", value))
    assert caught.value.column == "t"


# -------------------------------------------------------------------------------------------------------------- files

ROWS: list[list[int]] = [[number, 1000 + number] for number in range(100)]


def write(path: Path, **options: Any) -> Path:
    """Lists that are never null nor empty, of values that are never null: 4 row groups, ranges that say nothing."""
    shuffled = ROWS[:]
    random.Random(1).shuffle(shuffled)
    kind = pa.list_(pa.field("element", pa.int64(), nullable=False))
    schema = pa.schema([pa.field("tags", kind, nullable=False), pa.field("row", pa.int64())])
    table = pa.table({"tags": shuffled, "row": range(100)}, schema)
    pq.write_table(table, path, row_group_size=25, store_schema=False, **options)
    return path


def renamed(*names: str) -> Callable[[Path], Path]:
    """Let a file's three levels of a list have other names."""

    def change(footer: Struct) -> None:
        elements = footer.value(2).items
        for element, name in zip(elements[1:], names, strict=False):
            element.set(4, BINARY, name.encode())
        for _, metadata in each_chunk(footer, "tags.list.element"):
            metadata.value(3).items[:] = [name.encode() for name in names]

    return lambda path: rewrite_footer(path, change)


def of_two_levels(name: str) -> Callable[[Path], Path]:
    """`required group tags (LIST) { repeated int64 name }`: the levels of the values are the same."""

    def change(footer: Struct) -> None:
        elements = footer.value(2).items
        elements[3].set(3, I32, 2)
        elements[3].set(4, BINARY, name.encode())
        del elements[2]
        for _, metadata in each_chunk(footer, "tags.list.element"):
            metadata.value(3).items[:] = [b"tags", name.encode()]

    return lambda path: rewrite_footer(path, change)


def repeated(path: Path) -> Path:
    """`repeated int64 tags`."""

    def change(footer: Struct) -> None:
        elements = footer.value(2).items
        elements[3].set(3, I32, 2)
        elements[3].set(4, BINARY, b"tags")
        del elements[1:3]
        for _, metadata in each_chunk(footer, "tags.list.element"):
            metadata.value(3).items[:] = [b"tags"]

    return rewrite_footer(path, change)


FORMS: dict[str, Callable[[Path], Path]] = {
    "tags.list.element": lambda path: path,
    "tags.list.item": renamed("tags", "list", "item"),
    "tags.bag.array_element": renamed("tags", "bag", "array_element"),
    "tags.array": of_two_levels("array"),
    "tags.element": of_two_levels("element"),
    "tags": repeated,
}


@pytest.mark.parametrize("leaf", FORMS)
def test_lists_of_every_writer(leaf: str, tmp_path: Path) -> None:
    path = FORMS[leaf](write(tmp_path / "a.parquet"))
    assert [result.name for result in parquet_bloom.open(path).leaves] == [leaf, "row"]
    assert pq.read_table(path).schema.field("tags").type.value_type == pa.int64()
    parquet_bloom.embed(path, ["tags"], fpp=1e-6)
    where_each = {}
    for value in (5, 1005, 77):
        report = parquet_bloom.prune(path, f"array_contains(tags, {value})")
        assert report.selected_row_groups == 1, report.explain()
        result = parquet_bloom.read_table(path, Contains("tags", value))
        assert [value % 1000, 1000 + value % 1000] in result["tags"].to_pylist()
        assert result.num_rows == 1
        where_each[value] = report.selected
    assert parquet_bloom.prune(path, f'"{leaf}" = 77').selected == where_each[77]
    assert parquet_bloom.prune(path, Contains(leaf, 77)).selected == where_each[77]
    assert parquet_bloom.prune(path, "list_has_all(tags, [5, 1005])").selected == where_each[5]
    assert parquet_bloom.prune(path, "array_contains(tags, 5) AND array_contains(tags, 2000)").selected == {}
    assert parquet_bloom.prune(path, "array_contains(tags, 500)").selected == {}
    assert parquet_bloom.read_table(path, "NOT array_contains(tags, 5)").num_rows == 99
    assert parquet_bloom.prune(path, "NOT array_contains(tags, 5) AND tags IS NOT NULL").selected_row_groups == 4
    assert parquet_bloom.read_table(path, "list_has_any(tags, [5, 77, -1])").num_rows == 2


KEPT_TYPES = [
    pa.list_(pa.string(), 2),
    pa.large_list(pa.large_string()),
    pa.list_(pa.dictionary(pa.int32(), pa.string())),
    pa.list_(pa.string_view()),
]


@pytest.mark.parametrize("arrow_type", KEPT_TYPES, ids=str)
def test_arrow_types_that_files_keep(arrow_type: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = [["a", "b"], ["c", None], None, ["d", "a"]]
    pq.write_table(pa.table({"t": pa.array(rows, arrow_type)}), path, row_group_size=1)
    parquet_bloom.embed(path, ["t"], fpp=1e-6)
    assert parquet_bloom.prune(path, "array_contains(t, 'a')").selected == {str(path): [0, 3]}
    assert parquet_bloom.read_table(path, "array_contains(t, 'a')")["t"].to_pylist() == [rows[0], rows[3]]
    assert parquet_bloom.read_table(path, "NOT array_contains(t, 'a')")["t"].to_pylist() == [rows[1]]


def unmarked(path: Path) -> Path:
    """A struct with a list of structs, all of one field: the same groups as a list's, but for the mark."""

    def change(footer: Struct) -> None:
        for number in (6, 10):
            footer.value(2).items[1].pop(number, None)

    return rewrite_footer(path, change)


@pytest.mark.parametrize(
    "change",
    [unmarked, renamed("tags", "array", "element"), renamed("tags", "tags_tuple", "element")],
    ids=["unmarked", "array", "tuple"],
)
def test_apparent_lists_of_single_values_are_read(change: Callable[[Path], Path], tmp_path: Path) -> None:
    path = change(write(tmp_path / "a.parquet"))
    tags = pq.read_table(path).schema.field("tags").type
    assert pa.types.is_struct(tags) or pa.types.is_struct(tags.value_type)
    parquet_bloom.embed(path, ["tags"], fpp=1e-6)
    assert parquet_bloom.prune(path, Contains("tags", -5)).selected_row_groups == 4
    assert parquet_bloom.prune(path, Contains(parquet_bloom.open(path).leaves[0].name, -5)).selected == {}


def test_statistics_speak_of_elements(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"t": [[1, 2], [3], [], None, [None], [], [900]], "a": [{"t": [n]} for n in range(7)]})
    pq.write_table(table, path, row_group_size=1)

    def selected(where: Any) -> list[int]:
        return parquet_bloom.prune(path, where).selected.get(str(path), [])

    assert selected("array_contains(t, 2)") == [0]
    assert selected("array_contains(a.t, 2)") == [2]
    assert selected("array_contains(t, 2) OR a.t.list.element = 5") == [0, 5]
    assert selected("array_contains(t, NULL)") == []
    # Neither an empty list nor one of nothing but nulls is null, and neither has the element.
    everything = list(range(7))
    for where in ("t IS NULL", "t IS NOT NULL", "NOT array_contains(t, 2)", "NOT array_contains(t, NULL)"):
        assert selected(where) == everything, where
    result = parquet_bloom.read_table(path, "NOT array_contains(t, 2)")["t"].to_pylist()
    assert result == [[3], [], [None], [], [900]]


def test_a_struct_of_nothing_but_nulls_is_not_null(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array([{"b": None}, None], pa.struct({"b": pa.int64()}))}), path)
    assert parquet_bloom.prune(path, "a IS NOT NULL").selected_row_groups == 1
    assert parquet_bloom.prune(path, "a.b IS NOT NULL").selected_row_groups == 0


NESTED = [
    pa.array([[[1]], [[2]]]),
    pa.array([[{"x": 1}], [{"x": 2}]]),
    pa.array([{"t": [1]}, {"t": [2]}]),
    pa.array([[(1, 1)], [(2, 2)]], pa.map_(pa.int64(), pa.int64())),
    pa.array([1, 2]),
]


@pytest.mark.parametrize("column", NESTED, ids=lambda column: str(column.type))
def test_other_lists_are_read(column: pa.Array, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": column}), path, row_group_size=1)
    report = parquet_bloom.prune(path, Contains("t", 7))
    assert report.selected_row_groups == 2
    assert report.doubts
    with pytest.raises(PredicateError, match="'t'"):
        parquet_bloom.read_table(path, Contains("t", 7))


def test_a_field_of_structs_in_a_list_is_found_by_its_leaf_and_not_evaluated(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"items": [[{"sku": 1, "n": 1}], [{"sku": 2, "n": 2}]]}), path, row_group_size=1)
    where = Contains("items.list.element.sku", 2)
    assert parquet_bloom.prune(path, where).selected == {str(path): [1]}
    with pytest.raises(PredicateError, match="values inside a list"):
        parquet_bloom.read_table(path, where)


def test_int96_in_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = [dt.datetime(2020, 1, day) for day in (1, 2, 3)]
    table = pa.table({"t": pa.array([[one] for one in times], pa.list_(pa.timestamp("us")))})
    pq.write_table(table, path, row_group_size=1, use_deprecated_int96_timestamps=True)
    parquet_bloom.embed(path, ["t"], fpp=1e-6)
    where = [("t", "contains", times[1])]
    assert parquet_bloom.prune(path, where).selected == {str(path): [1]}
    assert parquet_bloom.read_table(path, where)["t"].to_pylist() == [[times[1]]]
    assert parquet_bloom.read_table(path, [("t", "contains", dt.datetime(9999, 12, 31))]).num_rows == 0


def test_int96_that_pyarrow_would_wrap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    far = dt.datetime(9999, 12, 31)
    table = pa.table({"t": pa.array([[far]], pa.list_(pa.timestamp("us")))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert parquet_bloom.prune(path, [("t", "contains", far)]).selected_row_groups == 1
    with pytest.raises(UnreadableColumnError, match=r"row group 0, column 't\.list\.element': holds INT96"):
        parquet_bloom.read_table(path, [("t", "contains", far)])


def test_files_without_the_column_and_with_another_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": pa.array([[1], [2]], pa.list_(pa.int32())), "n": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"t": pa.array([[2, 2**40]]), "n": [3]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"n": [4]}), tmp_path / "c.parquet")
    assert parquet_bloom.read_table(tmp_path, "array_contains(t, 2)", ["n"])["n"].to_pylist() == [2, 3]
    assert parquet_bloom.read_table(tmp_path, f"array_contains(t, {2**40})", ["n"])["n"].to_pylist() == [3]
    assert parquet_bloom.read_table(tmp_path, "NOT array_contains(t, 2)", ["n"])["n"].to_pylist() == [1]
