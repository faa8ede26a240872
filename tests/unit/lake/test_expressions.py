"""Indexes with keys of expressions: what DuckDB, Arrow and polars answer by themselves, or a refusal."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from support.index_files import read_manifest, seal_manifest
from support.scale import scaled

import parquet_bloom
from parquet_bloom.errors import BrokenIndexError, ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate.calls import list_ordinary

QUERIES = scaled(100)
KEYS = ["lower(name)", "upper(name)", "CAST(n AS STRING)", "CAST(day AS VARCHAR)", "(tenant, n)", "n"]
UNUSUAL = ["İx", "ΟΔΟΣ", "straße", "ŉ", "ǅ", "ﬁ", "Ⅷ", "ꟊ", "ꮿ", "ς", "ſ", "\U00010d50", "ẞ", "ı"]
USUAL = ["Ab", "aB", "ÄÖ", "äö", "Ёж", "ёЖ", "ĲSSEL", "Việt", "VIỆT", "漢字", "한국", "αβγ", "ΑΒΓ", "👍a", "", "É", "É"]


def make_lake(path: Path, rng: random.Random, files: int = 8, rows: int = 60) -> pa.Table:
    """Write files of two types of `n`, with few unusual texts, and return all rows."""
    path.mkdir()
    tables = []
    for number in range(files):
        names = [*USUAL, *rng.sample(UNUSUAL, rng.randrange(3))]
        table = pa.table(
            {
                "name": [rng.choice([None, f"{rng.choice(names)}{rng.randrange(30)}"]) for _ in range(rows)],
                "n": pa.array([rng.choice([None, rng.randrange(-50, 200)]) for _ in range(rows)], pa.int64()),
                "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(rng.randrange(300)) for _ in range(rows)]),
                "tenant": [rng.choice(["a", "b", "c|", None]) for _ in range(rows)],
            }
        )
        stored = table.set_column(1, "n", table["n"].cast(pa.int32())) if number % 2 else table
        pq.write_table(stored, path / f"{number}.parquet", row_group_size=20, use_dictionary=number % 3 != 0)
        tables.append(table)
    return pa.concat_tables(tables)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, pa.Table]:
    folder = tmp_path_factory.mktemp("expressions")
    table = make_lake(folder / "lake", random.Random(5))
    with LakeIndex.create(folder / "index", KEYS, lake=folder / "lake", granularity="row_group") as index:
        assert not index.append().uncovered
        assert index.check(8).problems == []
    return folder / "lake", folder / "index", table


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def random_condition(rng: random.Random, table: pa.Table) -> str:
    """Make a condition that hits a row, mostly."""
    row = table.slice(rng.randrange(len(table)), 1).to_pylist()[0]
    other = table.slice(rng.randrange(len(table)), 1).to_pylist()[0]
    function = rng.choice(["lower", "upper"])
    texts = [getattr(one["name"] or "nothing", function)() for one in (row, other)]
    n = row["n"] if row["n"] is not None else 7
    return rng.choice(
        [
            f"{function}(name) = {quote(texts[0])}",
            f"{function}(name) IN ({', '.join(map(quote, texts))})",
            f"CAST(n AS VARCHAR) = '{n}'",
            f"n::VARCHAR IN ('{n}', '0{n}', '+{n}')",
            f"CAST(day AS VARCHAR) = '{row['day']}'",
            f"tenant = '{row['tenant']}' AND n = {n}",
            f"tenant IN ('{row['tenant']}', 'x') AND n IN ({n}, {n}.0, {other['n'] or 3}) AND name IS NOT NULL",
            f"NOT {function}(name) = {quote(texts[0])} AND n = {n}",
            f"{function}(name) = {quote(texts[0])} OR (tenant = 'a' AND n = {n})",
            f"{function}(name) IS NULL AND n = {n}",
        ]
    )


@pytest.mark.ci
def test_answers_are_those_of_duckdb_or_refused(lake: tuple[Path, Path, pa.Table]) -> None:
    path, index, table = lake
    rng, connection = random.Random(1), duckdb.connect()
    connection.register("whole", table)
    answered = skipped = 0
    refused: list[str] = []
    for _ in range(QUERIES):
        where = random_condition(rng, table)
        expected = connection.sql(f"SELECT * FROM whole WHERE {where}").to_arrow_table()
        files = parquet_bloom.prune(path, where, index=index).selected
        skipped += 8 - len(files)
        if files:
            names = ", ".join(quote(str(file)) for file in files)
            shown = connection.sql(f"SELECT * FROM read_parquet([{names}]) WHERE {where}").to_arrow_table()
            assert rows_of(shown.cast(table.schema)) == rows_of(expected), where
        else:
            assert not len(expected), where
        try:
            rows = parquet_bloom.read_table(path, where, index=index)
        except PredicateError as refusal:
            refused.append(str(refusal))
            continue
        assert rows_of(rows.cast(table.schema)) == rows_of(expected), where
        answered += 1
    assert all("is not the same in all engines" in one for one in refused)
    assert answered > QUERIES // 2
    assert skipped > QUERIES  # the index is used


@pytest.mark.ci
def test_expressions_of_arrow_and_polars_answer_as_without_an_index(lake: tuple[Path, Path, pa.Table]) -> None:
    path, index, table = lake
    dataset, rng = parquet_bloom.dataset(path, index=index), random.Random(2)
    plain = pads.dataset(path, schema=dataset.schema)
    lazy, frame = parquet_bloom.scan_polars(path, index=index), pl.from_arrow(table)
    for _ in range(QUERIES):
        row = table.slice(rng.randrange(len(table)), 1).to_pylist()[0]
        name, n = row["name"] or "zz", str(row["n"])
        field = pc.field("name")
        expressions = [
            pc.utf8_lower(field) == pc.utf8_lower(name).as_py(),
            pc.utf8_upper(field).isin([pc.utf8_upper(name).as_py(), "ZZ"]),
            ~(pc.utf8_lower(field) == name.lower()) & (pc.field("n") == 5),
            pc.field("n").cast(pa.string()) == n,
            pc.field("day").cast(pa.string()).isin([str(row["day"])]),
            (pc.field("tenant") == "a") & pc.field("n").isin([1, 2, 3]),
        ]
        expression = rng.choice(expressions)
        assert rows_of(dataset.to_table(filter=expression)) == rows_of(plain.to_table(filter=expression)), expression
        column = pl.col("name")
        conditions = [
            column.str.to_lowercase() == name.lower(),
            column.str.to_uppercase().is_in([name.upper(), "ZZ"]),
            ~(column.str.to_uppercase() == name.upper()) & (pl.col("n") == 5),
            pl.col("n").cast(pl.String) == n,
            pl.col("day").cast(pl.String).is_in([str(row["day"]), "x"]),
        ]
        condition = rng.choice(conditions)
        assert rows_of(lazy.filter(condition).collect().to_arrow()) == rows_of(frame.filter(condition).to_arrow())


def test_lookups_of_expressions(lake: tuple[Path, Path, pa.Table]) -> None:
    path, folder, table = lake
    dataset = parquet_bloom.dataset(path, index=folder)
    tenants, numbers = table["tenant"].to_pylist(), table["n"].to_pylist()
    keys = sorted({(a, b) for a, b in zip(tenants, numbers, strict=True) if a is not None and b is not None})[:40]
    found = dataset.get(["tenant", "n"], keys)
    assert found.num_rows == sum((a, b) in keys for a, b in zip(tenants, numbers, strict=True))
    swapped = dataset.get(["n", "tenant"], [(b, a) for a, b in keys])
    assert rows_of(swapped) == rows_of(found)
    with LakeIndex.open(folder) as index:
        (answer,) = index.lookup("(tenant, n)", [keys[0]])
        assert 1 <= len(answer) < 8
        assert index.lookup("( tenant,n )", [keys[0]])[0] == answer
        assert index.lookup("(tenant, n)", [("nobody", 10**30)]) == [[]]
        assert index.lookup("cast(n as varchar)", ["5"])[0] == index.lookup("n", [5])[0]
        for values in ([5], ["a", 5], "ab", [("a",)], [("a", None)]):
            with pytest.raises(PredicateError):
                index.lookup("(tenant, n)", values)
        with pytest.raises(PredicateError, match="texts"):
            index.lookup("lower(name)", [5])
        with pytest.raises(UnknownColumnError, match="lower"):
            index.lookup("lower(tenant)", ["a"])


def test_parts_of_a_tuple_do_not_run_together(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    for number, (a, b) in enumerate([("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", "")]):
        pq.write_table(pa.table({"a": [a], "b": [b]}), tmp_path / "lake" / f"{number}.parquet")
    with LakeIndex.create(tmp_path / "i", "(a, b)", lake=tmp_path / "lake") as index:
        index.append()
        for number, key in enumerate([("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", "")]):
            assert [Path(one.path).stem for one in index.lookup("(a, b)", [key])[0]] == [str(number)]


def test_a_column_that_is_named_like_an_expression_is_another(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    for number, (a, b) in enumerate([("X", "y"), ("Y", "x")]):
        pq.write_table(pa.table({"a": [a], "lower(a)": [b]}), tmp_path / "lake" / f"{number}.parquet")
    wheres = {"lower(a) = 'x'": ["0"], "\"lower(a)\" = 'x'": ["1"], "lower(a) = 'x' OR \"lower(a)\" = 'x'": ["0", "1"]}
    for columns in (["lower(a)"], ['"lower(a)"']):
        with LakeIndex.create(tmp_path / str(len(columns[0])), columns, lake=tmp_path / "lake") as index:
            index.append()
            for where, stems in wheres.items():
                rows = parquet_bloom.read_table(tmp_path / "lake", where, index=index)
                assert rows.num_rows == len(stems)


def test_compacted_and_grown_indexes_keep_expressions(tmp_path: Path) -> None:
    table = make_lake(tmp_path / "lake", random.Random(9), files=3)
    with LakeIndex.create(tmp_path / "i", KEYS, lake=tmp_path / "lake") as index:
        index.append()
        pq.write_table(table.slice(0, 5).cast(table.schema), tmp_path / "lake" / "more.parquet")
        index.append()
        index.compact(keep_seconds=0)
        assert index.check(4).problems == []
        (tmp_path / "lake" / "more.parquet").touch()
        index.refresh()  # the bytes of the columns of expressions are what they were
        assert index.unindexed == []


def test_a_changed_rule_or_an_older_version_refuses(tmp_path: Path) -> None:
    LakeIndex.create(tmp_path / "i", ["lower(a)", "b"]).close()
    path, fields = read_manifest(tmp_path / "i")
    assert fields["format"] == 2  # older versions know 1 alone
    changes: list[tuple[Any, str]] = [
        ({"lower(a)": {**fields["expressions"]["lower(a)"], "rule": "ordinary-2"}}, "rule 'ordinary-2'"),
        ({"lower(a)": {**fields["expressions"]["lower(a)"], "function": "casefold"}}, "not known"),
        ({"lower(a)": {**fields["expressions"]["lower(a)"], "columns": ["c"]}}, "rule"),
        ({"lower(c)": fields["expressions"]["lower(a)"]}, "not among the columns"),
        ([], "cannot be understood"),
    ]
    for expressions, message in changes:
        seal_manifest(path, {**fields, "expressions": expressions})
        with pytest.raises(BrokenIndexError, match=message):
            LakeIndex.open(tmp_path / "i")
    LakeIndex.create(tmp_path / "plain", ["b"]).close()
    assert read_manifest(tmp_path / "plain")[1]["format"] == 1


def test_columns_without_exact_texts_are_not_covered(tmp_path: Path) -> None:
    columns = {
        "f": [1.5],
        "t": [dt.datetime(2020, 1, 1)],
        "i": [1],
        "s": ["a"],
        "u": pa.array([uuid.UUID(int=7).bytes], pa.uuid()),
    }
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "lake" / "a.parquet")
    keys = ["CAST(f AS STRING)", "CAST(t AS STRING)", "lower(i)", "(f, s)", "CAST(u AS STRING)", "CAST(s AS TEXT)"]
    with LakeIndex.create(tmp_path / "i", keys, lake=tmp_path / "lake") as index:
        assert set(index.append().uncovered) == set(keys[:4])
        assert len(index.lookup("lower(i)", ["1"])[0]) == 1
        assert len(index.lookup("CAST(u AS STRING)", [str(uuid.UUID(int=7))])[0]) == 1
        assert index.lookup("CAST(u AS STRING)", [str(uuid.UUID(int=8))]) == [[]]
    with pytest.raises(ParquetBloomError, match="different columns"):
        LakeIndex.create(tmp_path / "twice", "(a, a)")


@pytest.mark.parametrize("function", ["lower", "upper"])
def test_engines_agree_on_ordinary_characters(function: str) -> None:
    characters = list(map(chr, list_ordinary(function)))
    expected = [getattr(one, function)() for one in characters]
    characters_table = pa.table({"x": characters})
    assert getattr(pc, f"utf8_{function}")(characters_table["x"]).to_pylist() == expected
    assert duckdb.sql(f"SELECT {function}(x) FROM characters_table").to_arrow_table().column(0).to_pylist() == expected
    assert getattr(pl.Series(characters).str, f"to_{function}case")().to_list() == expected
    assert all(len(one) == 1 for one in expected)


def test_a_lake_in_an_object_store_is_read_once(tmp_path: Path) -> None:
    table = make_lake(tmp_path / "lake", random.Random(11), files=4)
    remote = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    with (
        LakeIndex.create(tmp_path / "i", KEYS, lake=tmp_path / "lake") as local,
        LakeIndex.create(tmp_path / "j", KEYS, lake="lake", lake_filesystem=remote) as index,
    ):
        local.append()
        index.append()
        assert index.stats().entries == local.stats().entries
        assert index.check(4).problems == []
        rows = [row for row in table.to_pylist() if row["tenant"] and row["n"] is not None][:20]
        keys = [(row["tenant"], row["n"]) for row in rows]
        names = [[Path(one.path).name for one in answer] for answer in index.lookup("(tenant, n)", keys)]
        assert names == [[Path(one.path).name for one in answer] for answer in local.lookup("(tenant, n)", keys)]
        assert all(names)
