"""Indexes over paths of Variants: rows are those of scans without them, wherever and however the values are stored."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from support.index_files import read_manifest, seal_manifest
from support.random_cases.random_paths import KEYS, SHREDDINGS, random_condition, random_document
from support.scale import scaled
from support.writers.shredded_variants import MISSING, Shredding, make_variants

import parquet_bloom
from parquet_bloom.errors import BrokenIndexError, ParquetBloomError, PredicateError, VariantCastError
from parquet_bloom.file.column_hashes import hash_distinct
from parquet_bloom.file.variant_hashes import VariantHashes
from parquet_bloom.lake.expression_keys import KeyPredicate
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.calls import OTHER
from parquet_bloom.predicate.key_expression import KeyExpression, parse_key
from parquet_bloom.predicate.tree import Equal, leaves
from parquet_bloom.predicate.variant_names import to_arrow_type
from parquet_bloom.variant.variant_values import extract

pytestmark = pytest.mark.usefixtures("settled_tokens")

QUERIES = scaled(40)


def make_lake(path: Path, rng: random.Random, rows: int = 24) -> None:
    """Write a file of each shredding, and one by DuckDB, of consecutive numbers `k`."""
    path.mkdir()
    for number, shredding in enumerate(SHREDDINGS):
        some = [random_document(rng, 100 * number + i) for i in range(rows)]
        table = pa.table({"k": range(number * rows, (number + 1) * rows), "v": make_variants(some, shredding)})
        options = {"use_dictionary": bool(rng.randrange(2)), "write_statistics": number % 2 == 0}
        pq.write_table(table, path / f"{number}.parquet", row_group_size=6, **options)
    first = len(SHREDDINGS) * rows
    text = """'{"a":{"b":"x' || k || '","n":' || k || '},"t":["x' || k || '",' || k || ']}'"""
    query = f"SELECT k, ({text})::JSON::VARIANT v FROM range({first}, {first + rows}) r(k)"
    duckdb.connect().execute(f"COPY ({query}) TO '{path / 'duckdb.parquet'}' (FORMAT parquet)")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paths")
    make_lake(folder / "lake", random.Random(3))
    with LakeIndex.create(folder / "index", KEYS, lake=folder / "lake", granularity="row_group") as index:
        report = index.append()
        assert not report.uncovered
        assert not report.failed
        assert index.check(8).problems == []
    return folder


def read_numbers(path: Path, where: str, index: object = None) -> list[int]:
    return sorted(parquet_bloom.read_table(path, where, index=index, columns=["k"])["k"].to_pylist())


@pytest.mark.ci
def test_rows_are_those_of_a_scan_without_an_index(lake: Path) -> None:
    rng = random.Random(8)
    found = skipped = answered = 0
    for _ in range(QUERIES):
        where = random_condition(rng, 24 * (len(SHREDDINGS) + 1))
        try:
            expected = read_numbers(lake / "lake", where)
        except VariantCastError:
            continue  # a row that cannot be cast, in a file that an index may rule out
        assert read_numbers(lake / "lake", where, lake / "index") == expected, where
        plan = parquet_bloom.prune(lake / "lake", where, index=lake / "index")
        skipped += len(plan.files) - len(plan.selected)
        found += len(expected)
        answered += 1
    assert answered > QUERIES // 2
    assert found > QUERIES // 10
    assert skipped > 2 * QUERIES


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(scaled(6)))
def test_random_lakes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(100 + seed)
    make_lake(tmp_path / "lake", rng)
    options: dict[str, Any] = rng.choice([{}, {"granularity": "row_group"}, {"granularity": "zone", "zone_rows": 1024}])
    with LakeIndex.create(tmp_path / "i", rng.sample(KEYS, 5), lake=tmp_path / "lake", **options) as index:
        index.append()
        assert index.check(8).problems == []
        for _ in range(40):
            where = random_condition(rng, 168)
            try:
                expected = read_numbers(tmp_path / "lake", where)
            except VariantCastError:
                continue
            assert read_numbers(tmp_path / "lake", where, index) == expected, where


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v:a.b::STRING", "v:$.a.b::string"),
        ("variant_get(v, '$.a.b', 'string')", "v:$.a.b::string"),
        ("TRY_VARIANT_GET(v, '$.a[0]', 'long')", "v:$.a[0]::bigint"),
        ("v:$.a.b::text", "v:$.a.b::string"),
        ("v:['s.t']::decimal(10, 2)", "v:$['s.t']::decimal(10,2)"),
        ('"my v":"s.t"::double precision', "my v:$['s.t']::double"),
        ('"x:y":a::date', "x::y:$.a::date"),
        ("s.v:a::int", "s.v:$.a::int"),
    ],
)
def test_texts_of_paths(text: str, expected: str) -> None:
    key = parse_key(text)
    assert isinstance(key, KeyExpression)
    assert key == expected
    assert KeyExpression.from_json(key, key.to_json()).__reduce__() == key.__reduce__()


@pytest.mark.parametrize("text", ["a:b", '"v:a::string"', "a::b", "v:", ":a::string"])
def test_texts_that_are_columns(text: str) -> None:
    assert not isinstance(parse_key(text), KeyExpression)


@pytest.mark.parametrize(
    "text", ["v:a::words", "v:a.::int", "variant_get(v, '$.a')", "v:a::int OR w:b::int", "v:$.::int"]
)
def test_texts_that_are_refused(text: str) -> None:
    with pytest.raises(PredicateError):
        parse_key(text)


def test_lookups_and_conditions(lake: Path) -> None:
    with LakeIndex.open(lake / "index") as index:
        names = [[Path(one.path).stem for one in answer] for answer in index.lookup("v:a.n::bigint", [150, 10**17])]
        assert "duckdb" in names[0]
        assert not names[1]
        assert index.lookup("variant_get(v, '$.a.b', 'string')", ["x150"]) == index.lookup("v:$.a.b::string", ["x150"])
        with pytest.raises(PredicateError):
            index.lookup("v:a.n::bigint", [None])
        assert index.stats().entries["v:$.a.b::string"] > 50
        for where, uses in {
            "v:A.b::string = 'none'": False,
            "v:a.b::string > 'none'": False,
            "v:a.b::string IS NULL": False,
            "v:a.b::string <> 'none'": False,
            "v:a.b::varchar = 'none'": True,
            "v:a.b::string IN ('none', 'nobody')": True,
            "v:a.n::decimal(10,2) = 'text'": False,
            "v:a.b::string = 'none' OR v:a.n::bigint = -1": True,
            "v:a.b::string = 'none' OR v:a.n::int = -1": False,
            'v:"s.t"::int = -1': True,
            'v:"s.t"::bigint = -1': False,
        }.items():
            report = parquet_bloom.prune(lake / "lake", where, index=index)
            assert (len(report.selected) == 0) == uses, where


@pytest.mark.ci
@pytest.mark.parametrize("granularity", ["file", "row_group", "zone"])
@pytest.mark.parametrize("shredding", [None, {"id": pa.int64()}], ids=["binary", "shredded"])
@pytest.mark.parametrize("statistics", [True, False])
def test_a_value_of_another_type_in_one_row_group(
    tmp_path: Path, granularity: str, shredding: Shredding, statistics: bool
) -> None:
    """It is found where its cast is what is asked for, whether statistics show where residuals are or not."""
    documents: list[object] = [{"id": number} for number in range(6000)]
    documents[5500] = {"id": "70000"}
    documents[5501] = {"id": "not a number"}
    (tmp_path / "lake").mkdir()
    table = pa.table({"v": make_variants(documents, shredding), "k": range(6000)})
    pq.write_table(table, tmp_path / "lake/a.parquet", row_group_size=3000, write_statistics=statistics)
    options = {"zone_rows": 1024} if granularity == "zone" else {}
    keys = ["v:id::bigint", "v:id::string"]
    with LakeIndex.create(tmp_path / "i", keys, lake=tmp_path / "lake", granularity=granularity, **options) as index:
        index.append()
        for column, values in (("v:id::bigint", [70000, 5, 5502]), ("v:id::string", ["70000", "5", "5502"])):
            for answer, row in zip(index.lookup(column, values), (5500, 5, 5502), strict=True):
                [candidate] = answer
                row_groups, rows = candidate.row_groups, candidate.rows
                assert row_groups == (None if granularity == "file" else (row // 3000,))
                if granularity == "zone":
                    start = row % 3000 // 1024 * 1024
                    assert rows == (((start, min(start + 1024, 3000)),),)
        assert index.lookup("v:id::bigint", [5500]) == [[]]
        assert len(index.lookup("v:id::string", ["not a number"])[0]) == 1
        assert index.stats().entries["v:$.id::bigint"] == 5999


def test_only_the_column_of_a_shredded_path_is_read(tmp_path: Path) -> None:
    """What else the Variant has may be unreadable, as long as statistics show that the path's values are not there."""
    (tmp_path / "lake").mkdir()
    path = tmp_path / "lake/a.parquet"
    documents = [{"id": number, "more": "m" * 20} for number in range(100)]
    pq.write_table(pa.table({"v": make_variants(documents, {"id": pa.int64(), "more": pa.string()})}), path)
    column = pq.read_metadata(path).row_group(0).column(0)
    assert column.path_in_schema == "v.metadata"
    data = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    with LakeIndex.create(tmp_path / "i", "v:id::bigint", lake=tmp_path / "lake") as index:
        assert not index.append().failed
        assert index.lookup("v:id::bigint", [7])[0]
        assert index.lookup("v:id::bigint", [700]) == [[]]
    with LakeIndex.create(tmp_path / "j", "v:other::bigint", lake=tmp_path / "lake") as index:
        assert not index.append().failed
        assert index.lookup("v:other::bigint", [7]) == [[]]  # there are no other fields at all


def test_what_depends_on_a_session_is_read(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    for name, value in (("a", moment), ("b", "2020-01-01")):
        table = pa.table({"v": make_variants([{"d": value}, {"d": None}])})
        pq.write_table(table, tmp_path / f"lake/{name}.parquet")
    with LakeIndex.create(tmp_path / "i", "v:d::date", lake=tmp_path / "lake") as index:
        assert not index.append().failed
        candidates = index.lookup("v:d::date", [dt.date(1999, 1, 1), dt.date(2020, 1, 1)])
        assert [sorted(Path(one.path).stem for one in answer) for answer in candidates] == [["a"], ["a", "b"]]
        where = "v:d::date = DATE '1999-01-01'"
        report = parquet_bloom.prune(tmp_path / "lake", where, index=index)
        assert [Path(file).stem for file in report.selected] == ["a"], report.files


def test_zeros_and_nans_are_those_of_a_column(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    values = [0.0, -0.0, float("nan"), 1.5]
    for number, value in enumerate(values):
        for shredding in (None, {"f": pa.float64()}):
            table = pa.table({"f": [value], "v": make_variants([{"f": value}], shredding)})
            pq.write_table(table, tmp_path / f"lake/{number}{'s' if shredding else ''}.parquet")
    with LakeIndex.create(tmp_path / "i", ["f", "v:f::double"], lake=tmp_path / "lake") as index:
        index.append()
        of_column, of_path = (index.lookup(key, values) for key in ("f", "v:f::double"))
        assert [sorted(one.path for one in answer) for answer in of_path] == [
            sorted(one.path for one in answer) for answer in of_column
        ]
        assert [len(answer) for answer in of_path][::3] == [4, 2]


def test_a_variant_in_a_struct_and_one_that_is_null(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    variants = make_variants([{"id": 1}, MISSING, {"id": "2"}, {"id": 3}], {"id": pa.int64()})
    inner = pa.StructArray.from_arrays([variants], ["v"], mask=pa.array([False, False, False, True]))
    pq.write_table(pa.table({"s": inner}), tmp_path / "lake/a.parquet")
    with LakeIndex.create(tmp_path / "i", "s.v:id::bigint", lake=tmp_path / "lake") as index:
        assert not index.append().uncovered
        assert [len(answer) for answer in index.lookup("s.v:id::bigint", [1, 2, 3])] == [1, 1, 0]


def test_columns_that_are_not_covered(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    variants = make_variants([{"id": 1}])
    pq.write_table(pa.table({"v": variants, "w": [1], "u": variants, "U": [1]}), tmp_path / "lake/a.parquet")
    pq.write_table(pa.table({"v": variants, "w": variants, "u": variants}), tmp_path / "lake/b.parquet")
    keys = ["w:id::bigint", "v:id::boolean", "u:id::bigint", "v:id::bigint"]
    with LakeIndex.create(tmp_path / "i", keys, lake=tmp_path / "lake") as index:
        doubts = {column: next(iter(files.values())) for column, files in index.append().uncovered.items()}
    assert doubts == {
        "w:$.id::bigint": "it is no Variant",
        "v:$.id::boolean": "BOOLEAN values are not indexed: there are two values to find",
        "u:$.id::bigint": "other columns differ from it by their case only",
    }


def test_malformed_variants_are_named_and_read(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    variants = make_variants([{"id": number} for number in range(10)])
    values = variants.field("value").to_pylist()
    values[7] = b"\x02\xff\xff"
    broken = pa.StructArray.from_arrays([variants.field("metadata"), pa.array(values)], ["metadata", "value"])
    pq.write_table(pa.table({"v": broken}), tmp_path / "lake/a.parquet", row_group_size=5)
    with LakeIndex.create(tmp_path / "i", "v:id::bigint", lake=tmp_path / "lake") as index:
        [error] = index.append(on_error=lambda _: None).failed.values()
        assert "row group 1, column 'v': row 2" in str(error)
        assert len(index.lookup("v:id::bigint", [99])[0]) == 1


def test_a_column_that_is_named_like_a_path(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    name = "v:$.id::bigint"
    for number in range(2):
        table = pa.table({"v": make_variants([{"id": number}]), name: [1 - number]})
        pq.write_table(table, tmp_path / f"lake/{number}.parquet")
    for key in ("v:id::bigint", f'"{name}"'):
        with LakeIndex.create(tmp_path / str(len(key)), key, lake=tmp_path / "lake") as index:
            index.append()
            for where, rows in {
                "v:id::bigint = 1": [1],
                f'"{name}" = 1': [0],
                f'v:id::bigint = 1 AND "{name}" = 0': [1],
                f'v:id::bigint = 1 OR "{name}" = 1': [0, 1],
            }.items():
                found = parquet_bloom.read_table(tmp_path / "lake", where, index=index, columns=[name])
                assert sorted(1 - value for value in found[name].to_pylist()) == rows, (key, where)


def test_a_manifest_of_another_rule_or_path(tmp_path: Path) -> None:
    LakeIndex.create(tmp_path / "i", ["v:a::int", "b"]).close()
    path, fields = read_manifest(tmp_path / "i")
    stored = fields["expressions"]["v:$.a::int"]
    expected = {"function": "path", "columns": ["v"], "rule": "variant-get-1", "path": "$.a", "target": "int"}
    assert stored == expected
    changes: list[tuple[dict[str, Any], str]] = [
        ({"rule": "variant-get-2"}, "rule 'variant-get-2'"),
        ({"function": "lower"}, "other fields"),
        ({"target": "float"}, "rule"),
        ({"target": "number"}, "not known"),
        ({"path": "$.b"}, "rule"),
        ({"path": "$."}, "not known"),
        ({"columns": ["v", "w"]}, "has 2 columns"),
        ({"case": "lower"}, "other fields"),
    ]
    for change, message in changes:
        seal_manifest(path, {**fields, "expressions": {"v:$.a::int": {**stored, **change}}})
        with pytest.raises(BrokenIndexError, match=message):
            LakeIndex.open(tmp_path / "i")


@pytest.mark.ci
def test_compacted_and_grown_indexes_keep_paths(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake", random.Random(9), rows=8)
    with LakeIndex.create(tmp_path / "i", KEYS, lake=tmp_path / "lake") as index:
        index.append()
        more = tmp_path / "lake/more.parquet"
        pq.write_table(pa.table({"k": [10**6], "v": make_variants([{"a": {"b": "new"}}])}), more)
        index.append()
        index.compact(keep_seconds=0)
        assert index.check(8).problems == []
        more.touch()
        index.refresh()  # the bytes of the columns are what they were
        assert index.unindexed == []
        assert [Path(one.path).stem for one in index.lookup("v:a.b::string", ["new"])[0]] == ["more"]


@pytest.mark.ci
def test_a_lake_in_an_object_store_is_read_once(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake", random.Random(11), rows=12)
    remote = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    with (
        LakeIndex.create(tmp_path / "i", KEYS, lake=tmp_path / "lake") as local,
        LakeIndex.create(tmp_path / "j", KEYS, lake="lake", lake_filesystem=remote) as index,
    ):
        local.append()
        index.append()
        assert index.stats().entries == local.stats().entries
        assert index.check(8).problems == []
        texts = [f"x{number}" for number in range(24)]
        names = [[Path(one.path).name for one in answer] for answer in index.lookup("v:a.b::string", texts)]
        assert names == [[Path(one.path).name for one in answer] for answer in local.lookup("v:a.b::string", texts)]


@pytest.mark.ci
def test_flipped_bytes_are_noticed_or_change_nothing(tmp_path: Path) -> None:
    """Whatever byte of a file is another: the index has all values that a scan of it shows, or not the file."""
    rng = random.Random(4)
    table = pa.table({"v": make_variants([random_document(rng, number) for number in range(40)], SHREDDINGS[1])})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=20, compression="none")
    data = path.read_bytes()
    end = len(data) - 8 - pq.read_metadata(path).serialized_size
    keys = [key for key in map(parse_key, KEYS) if isinstance(key, KeyExpression)]
    compared = 0
    for _ in range(scaled(100)):
        changed = bytearray(data)
        changed[rng.randrange(4, end)] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        key = rng.choice(keys)
        try:
            shown = pq.read_table(path)["v"]
            values = extract(shown, key.path, to_arrow_type(key.target), try_cast=True)
        except (ParquetBloomError, pa.ArrowException, OSError):
            continue
        with parquet_bloom.open(path) as file:
            try:
                hashes = VariantHashes(file, key)
                found = np.concatenate([hashes.of(row_group) for row_group in file.row_groups])
            except ParquetBloomError:
                continue
        assert OTHER in found or np.isin(hash_distinct(values)[1], found).all()
        compared += 1
    assert compared > scaled(100) // 4


def test_names_without_regard_to_case(tmp_path: Path) -> None:
    """Case is that of the column, never that of the path."""
    node = parse("V:a::string = 'x' AND V:A::string = 'y'")
    key = parse_key("v:a::string")
    assert isinstance(key, KeyExpression)
    for ignore_case, expected in ((True, {key: ["x"]}), (False, {})):
        found = KeyPredicate(node, [key], "UTC", ignore_case)
        named = {leaf.column: [*leaf.literals] for leaf in leaves(found.node) if isinstance(leaf, Equal)}
        assert named == expected
        assert list(found.by_name) == [*expected]


def test_rows_by_keys(tmp_path: Path) -> None:
    """Keys are compared with what is at the path where rows are erased."""
    (tmp_path / "lake").mkdir()
    documents = [{"id": f"u{number}"} for number in range(10)]
    pq.write_table(pa.table({"k": range(10), "v": make_variants(documents)}), tmp_path / "lake/a.parquet")
    with LakeIndex.create(tmp_path / "i", "v:id::string", lake=tmp_path / "lake") as index:
        index.append()
    report = parquet_bloom.erase(tmp_path / "lake", ["u3", "u5", "nobody"], on="v:id::string")
    assert report.num_rows == 2
    assert read_numbers(tmp_path / "lake", "k >= 0") == [0, 1, 2, 4, 6, 7, 8, 9]
