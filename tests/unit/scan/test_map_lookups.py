"""Lookups in maps: their notations, the rows that match, as in DuckDB and Arrow, and what rules row groups out."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ExpressionError, PredicateError
from parquet_bloom.predicate import parse, tree
from parquet_bloom.predicate.tree import Compare, Equal, In, MapLookup, NotEqual, negation, to_text

MAPS: list[Any] = [
    [("a", 1), ("b", 2)],
    [("a", 5)],
    None,
    [],
    [("a", None)],
    [("a", 1), ("a", 2)],  # of equal keys the first one counts
    [("c", 7)],
    [("b", 8), ("a", 9)],
]
TYPE = pa.map_(pa.string(), pa.int64())
LOOKED_UP = pc.map_lookup(pc.field("m"), "a", "first")
CONDITIONS = """
    m['a'] = 1
    NOT m['a'] = 1
    m['a'] <> 1
    1 = m['a']
    m['a'] < 5
    m['a'] BETWEEN 2 AND 9
    m['a'] NOT BETWEEN 2 AND 9
    m['a'] IN (1, 9)
    m['a'] IN (1, NULL)
    m['a'] NOT IN (1, 9)
    m['a'] NOT IN (1, NULL)
    m['a'] IS NULL
    m['a'] IS NOT NULL
    m['a'] = NULL
    m['a'] IS NOT DISTINCT FROM 5
    m['a'] IS DISTINCT FROM 5
    m['a'] IS NOT DISTINCT FROM NULL
    m['nowhere'] = 1
    m['nowhere'] IS NULL
    NOT (m['a'] = 1 AND m['b'] = 2)
    m['b'] = 2 OR m['c'] = 7
    m['a'] > 1 AND m['b'] IS NULL
    coalesce(m['b'], -1) = -1
    m['a'] + 1 = 6
    CAST(m['a'] AS BIGINT) > 4
    CAST(m['a'] AS VARCHAR) = '5'
    map_extract_value(m, 'a') = 1
    map_extract(m, 'a')[1] = 1
    s.m['a'] = 5
    s.m['a'] IS NULL
""".strip().splitlines()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Maps at the top and in a struct; each row group has two of them."""
    path = tmp_path_factory.mktemp("maps") / "a.parquet"
    structs = pa.array([{"m": maps} for maps in MAPS], pa.struct([("m", TYPE)]))
    table = pa.table({"i": range(len(MAPS)), "m": pa.array(MAPS, TYPE), "s": structs})
    pq.write_table(table, path, row_group_size=2)
    return path


def find_groups(path: Path, where: Any) -> list[int]:
    return parquet_bloom.prune(path, where).selected.get(str(path), [])


@pytest.mark.parametrize("where", [condition.strip() for condition in CONDITIONS])
def test_rows_are_those_of_duckdb(path: Path, where: str) -> None:
    node = parse(where)
    assert parse(to_text(node)) == node == pickle.loads(pickle.dumps(node))
    expected = sorted(row[0] for row in duckdb.sql(f"SELECT i FROM '{path}' WHERE {where}").fetchall())
    table = parquet_bloom.read_table(path, where)
    assert table["i"].to_pylist() == expected
    assert table["m"].to_pylist() == [MAPS[i] for i in expected]
    assert parquet_bloom.dataset(path).scan(where).count_rows() == len(expected)


def test_notations(path: Path) -> None:
    lookup = MapLookup("m", "a", Equal("m", 1))
    for where in ("element_at(m, 'a') = 1", "try_element_at(m, 'a') = 1", "`m`['a'] == 1", LOOKED_UP == 1):
        assert parse(where) == lookup, where
    assert parse('m["a"] = 1', "spark") == lookup
    assert parse("m[-5] < 2") == MapLookup("m", -5, Compare("m", "<", 2))
    assert negation(lookup) == MapLookup("m", "a", NotEqual("m", 1)) != MapLookup("m", "b", NotEqual("m", 1))
    assert str(tree.rename_columns(lookup, {"m": "x.y"})) == "x.y['a'] = 1"
    assert parse(LOOKED_UP.isin([1, 2])).children[1] == MapLookup("m", "a", In("m", (1, 2)))
    dataset = parquet_bloom.dataset(path)
    for condition in (LOOKED_UP == 1, ~(LOOKED_UP == 1), LOOKED_UP > 1, LOOKED_UP.is_null(), LOOKED_UP.isin([9, None])):
        expected = pq.read_table(path).filter(condition)["i"].to_pylist()
        assert dataset.to_table(filter=condition)["i"].to_pylist() == expected, condition
        assert parquet_bloom.read_table(path, condition)["i"].to_pylist() == expected, condition
    for fragment in dataset.get_fragments(pc.map_lookup(pc.field("m"), "c", "first") > 1):
        assert fragment.row_groups == [3]


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("m['a']['b'] = 1", "such an element of a list or map is not supported"),
        ("m[NULL] = 1", "the key of a map is not NULL"),
        ("m[] = 1", "is missing"),
        ("m[i] = 1", "a literal is expected, not the column i"),
        ("map_extract(m, 'a') = 1", r"map_extract without \[1\]"),
        ("array_contains(m['a'], 1)", "a column is expected"),
        ("i['a'] = 1", "a int64 is not a map"),
        ("m[1] = 1", "1 cannot be compared exactly with BYTE_ARRAY STRING"),
        ("m['a'] = 'x'", "'x' cannot be compared exactly with INT64"),
        ("nowhere['a'] = 1", "'nowhere': no such column"),
        (pc.map_lookup(pc.field("m"), "a", "last") == 1, "anything but the first key"),
    ],
)
def test_the_rest_is_refused(path: Path, where: Any, problem: str) -> None:
    with pytest.raises((PredicateError, ExpressionError, parquet_bloom.errors.UnknownColumnError), match=problem):
        parquet_bloom.read_table(path, where)


def test_keys_and_values_rule_row_groups_out(path: Path) -> None:
    for where, groups in (
        ("m['a'] = 1", [0, 2]),  # 5 to 9 and 1 to 7 in the others
        ("m['nowhere'] = 1", []),
        ("m['c'] IN (7, 8)", [3]),
        ("m['a'] > 5", [3]),
        ("m['a'] < 1", []),
        ("m['a'] = 2", [0, 2]),  # a value of another key, or of a second one
        ("m['b'] IS NOT NULL", [0, 3]),
        ("NOT m['c'] = 1", [3]),
        ("m['a'] <> 1", [0, 2, 3]),
        ("m['c'] IS NULL", [0, 1, 2, 3]),  # which is true where there is no such key
        ("coalesce(m['c'], 0) = 0", [0, 1, 2, 3]),
        ("m['a'] = 1 AND s.m['c'] = 7", []),
        ("CAST(m['c'] AS VARCHAR) = '7'", [3]),
    ):
        assert find_groups(path, where) == groups, where
    assert "'m.key_value.key' lies outside of its range" in parquet_bloom.prune(path, "m['z'] = 1").explain()


def test_dictionaries_and_filters_rule_row_groups_out(tmp_path: Path) -> None:
    maps = [[(f"k{i % 50 * 7:04}", f"v{i % 50 * 7:04}"), ("k0000", "v0000"), ("k9999", "v9999")] for i in range(4000)]
    table = pa.table({"m": pa.array(maps, pa.map_(pa.string(), pa.string())), "wide": ["x" * 40] * 4000})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000)
    for where in ("m['k0008'] = 'v0007'", "m['k0007'] = 'v0008'", "m['k0007'] LIKE '%x'"):
        report = parquet_bloom.prune(tmp_path / "a.parquet", where)
        assert (report.selected, report.skipped_by) == ({}, {"dictionary": 4}), where
    assert find_groups(tmp_path / "a.parquet", "m['k0007'] = 'v0014'") == [0, 1, 2, 3]
    pq.write_table(table, tmp_path / "b.parquet", row_group_size=1000, use_dictionary=False)
    assert find_groups(tmp_path / "b.parquet", "m['k0008'] = 'v0007'") == [0, 1, 2, 3]
    assert parquet_bloom.embed(tmp_path / "b.parquet", ["m.key_value.key", "m.key_value.value"]).num_filters == 8
    for where in ("m['k0008'] = 'v0007'", "m['k0007'] IN ('v0008', 'v0009')", "m['k0008'] IS NOT NULL"):
        report = parquet_bloom.prune(tmp_path / "b.parquet", where)
        assert (report.selected, report.skipped_by) == ({}, {"filter": 4}), where
    assert parquet_bloom.read_table(tmp_path / "b.parquet", "m['k0007'] = 'v0007'").num_rows == 80


def test_two_keys_have_two_values(tmp_path: Path) -> None:
    maps = [[("a", f"v{i % 9:02}"), ("b", f"v{i % 9 + 20:02}")] for i in range(3000)]
    table = pa.table({"m": pa.array(maps, pa.map_(pa.string(), pa.string())), "wide": ["x" * 40] * 3000})
    pq.write_table(table, tmp_path / "a.parquet")
    for where, rows in (("m['a'] = 'v01' AND m['b'] = 'v21'", 334), ("m['a'] LIKE '%1' AND m['b'] LIKE '%1'", 334)):
        assert parquet_bloom.read_table(tmp_path / "a.parquet", where).num_rows == rows, where


def test_names_of_keys_and_values_differ_by_writer(tmp_path: Path) -> None:
    schema = pa.schema([("m", TYPE), ("u", pa.struct([("m", TYPE)]))])
    rows = [one for one in MAPS if one != MAPS[5]]  # DuckDB writes no map with two equal keys
    maps = pa.table({"m": pa.array(rows, TYPE), "u": [{"m": one} for one in rows]}, schema)
    context = datafusion.SessionContext()
    context.register_record_batches("maps", [maps.to_batches()])
    context.sql(f"COPY maps TO '{tmp_path / 'datafusion.parquet'}' STORED AS PARQUET").collect()
    duckdb.sql(f"COPY (SELECT * FROM maps) TO '{tmp_path / 'duckdb.parquet'}'")
    paths = {pq.ParquetFile(path).schema[0].path for path in tmp_path.iterdir()}
    assert paths == {"m.entries.key", "m.key_value.key"}
    for path in tmp_path.iterdir():
        for where, rows in (("m['a'] = 1", 1), ("m['zz'] = 1", 0), ("u.m['a'] = 10", 0), ("m['a'] IS NULL", 4)):
            assert parquet_bloom.read_table(path, where).num_rows == rows
            assert bool(find_groups(path, where)) == (rows > 0), where


def test_values_that_are_not_single_ones(tmp_path: Path) -> None:
    nested = pa.map_(pa.string(), pa.list_(pa.int64()))
    columns = {"m": pa.array([[("a", [1])], None], nested), "l": pa.array([[[("a", 1)]], []], pa.list_(TYPE))}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert parquet_bloom.read_table(tmp_path / "a.parquet", "m['a'] IS NULL").num_rows == 1
    for where, problem in (("m['a'] = 1", "is not a single value"), ("l['a'] = 1", "is not a map")):
        with pytest.raises(PredicateError, match=problem):
            parquet_bloom.read_table(tmp_path / "a.parquet", where)


def test_files_whose_values_the_dataset_shows_as_others(tmp_path: Path) -> None:
    pq.write_table(pa.table({"m": pa.array([[("a", 1)]], TYPE)}), tmp_path / "a.parquet")
    floats = pa.map_(pa.string(), pa.float64())
    pq.write_table(pa.table({"m": pa.array([[("a", 0.5)], [("b", 1.0)]], floats)}), tmp_path / "b.parquet")
    dataset = parquet_bloom.dataset(tmp_path, schema=pa.schema([("m", floats)]))
    assert dataset.to_table(filter=pc.map_lookup(pc.field("m"), "a", "first") == 1.0).num_rows == 1
