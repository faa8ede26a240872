"""Delta and Iceberg tables by Spark, held against the rows that they have by their libraries or by construction."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import logging
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.random_cases.hunting import seeds
from support.random_cases.spark_conditions import Drawing
from support.random_cases.spark_lakes import KINDS, Column, Lake
from support.scale import scaled

import parquet_bloom.spark
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError, UnreadableColumnError

pytestmark = pytest.mark.spark

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("pyroaring")

from support.random_cases.iceberg_tables import COLUMNS, STRUCT, RandomTable, draw_table  # noqa: E402
from support.random_cases.spark_tables import make_delta  # noqa: E402
from support.writers.delta_log import add, beginning, column, commit, inline_vector  # noqa: E402
from support.writers.iceberg_tables import HandTable  # noqa: E402

UTC = dt.UTC


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What was logged since the last call."""
    caplog.set_level(logging.INFO, "parquet_bloom.spark")

    def take() -> str:
        text = "; ".join(record.getMessage() for record in caplog.records if record.name == "parquet_bloom.spark")
        caplog.clear()
        return text

    return take


@pytest.fixture
def ask(spark: Any, tmp_path: Path, conf: Any) -> Iterator[Callable[..., list[int]]]:
    """Ask a table many questions in two jobs; hold the numbers of the rows against those that it has.

    ``ask(table, rows, ["id = 1", ...], number="id")``: the answer is how many rows each has. A question is SQL text, or
    a pair of that and the same as lists. Questions that Spark does not understand are left out.
    """
    from pyspark.sql import functions as F

    def asked(table: Any, rows: pa.Table, questions: Sequence[Any], number: str, **options: Any) -> list[int]:
        pq.write_table(rows, tmp_path / "expected.parquet")
        plain = spark.read.parquet(str(tmp_path / "expected.parquet"))
        known = []
        for question in questions:
            text, lists = question if isinstance(question, tuple) else (question, None)
            try:
                plain.where(text)
            except Exception:
                continue
            known.append((text, text if lists is None else lists))
        counts = [F.sort_array(F.collect_list(F.when(F.expr(text), F.col(number)))) for text, _ in known]
        expected = plain.select(*counts).first()
        frames = [parquet_bloom.spark.read_table(spark, table, where, **options) for _, where in known]
        numbered = [frame.select(F.lit(i), number) for i, frame in enumerate(frames)]
        found: list[list[int]] = [[] for _ in known]
        for i, value in functools.reduce(lambda one, other: one.unionAll(other), numbered).collect():
            found[i].append(value)
        for (text, _), values, right in zip(known, found, expected, strict=True):
            assert sorted(values) == right, text
        return [len(values) for values in found]

    with conf({"spark.sql.ansi.enabled": "false"}):
        yield asked


def as_texts(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


# ------------------------------------------------------------------------------------------------------------
# Random tables and conditions
# ------------------------------------------------------------------------------------------------------------


def test_random_delta_tables(spark: Any, tmp_path: Path, ask: Any) -> None:
    """Column mapping, partitions, deletion vectors, narrower types, fewer columns."""
    matches = 0
    for seed in seeds(scaled(1)):
        rng = random.Random(seed)
        table = make_delta(rng, tmp_path / f"t {seed}")
        drawing = Drawing(rng, table.lake, "UTC")
        drawn = [drawing.condition() for _ in range(8)]
        try:
            matches += sum(ask(table.lake.path, table.rows, [(one.text, one.lists) for one in drawn], "row"))
            whole = parquet_bloom.spark.read_table(spark, table.lake.path)
            assert whole.columns == table.rows.column_names
            assert as_texts(whole.toArrow()) == as_texts(table.rows)
        except BaseException as error:
            error.add_note(f"seed {seed}: {table.lake.story}")
            raise
    assert matches


_KINDS = {"n": "i64", "f": "f64", "d": "d9", "t": "ntz", "z": "ts", "a": "day", "s new": "s", "b": "bin", "o": "flag"}
_KINDS |= {"k": "i32", "later": "i64"}


def _show_rows(table: RandomTable) -> pa.Table:
    """The rows that are not deleted, without the columns that Spark has no types for."""
    rows = [row for file in table.files for i, row in enumerate(file.rows) if i not in file.deleted]
    arrays: dict[str, pa.Array] = {"id": pa.array([row[1] for row in rows], pa.int64())}
    for one in COLUMNS:
        if one.new is not None and one.within is None and one.new[0] in _KINDS:
            arrays[one.new[0]] = pa.array([row.get(one.field_id) for row in rows], one.new[2])
    inner = [None if row.get(14) is None else {"q": row.get(15)} for row in rows]
    arrays[STRUCT[14]] = pa.array(inner, pa.struct([("q", pa.string())]))
    return pa.table(arrays)


def test_random_iceberg_tables(spark: Any, tmp_path: Path, ask: Any) -> None:
    """Renamed, added, dropped and promoted columns, several specs, position deletes, vectors, equality deletes."""
    matches = 0
    for seed in seeds(scaled(1)):
        rng = random.Random(seed)
        table = draw_table(rng, tmp_path / f"t {seed}")
        rows = _show_rows(table)
        pools = {name: [*rows[name].to_pylist(), *KINDS[kind].always] for name, kind in _KINDS.items()}
        columns = [Column(name, kind, pools[name]) for name, kind in _KINDS.items()]
        drawing = Drawing(rng, Lake(tmp_path, columns, [], []), "UTC")
        drawn = [drawing.condition() for _ in range(8)]
        questions = [(one.text.replace("s new", "`s new`").replace("``", "`"), None) for one in drawn]
        try:
            source = parquet_bloom.iceberg(table.metadata)
            matches += sum(ask(source, rows, questions, "id", columns=rows.column_names))
            whole = parquet_bloom.spark.read_table(spark, source, columns=rows.column_names)
            assert as_texts(whole.toArrow()) == as_texts(rows)
        except BaseException as error:
            error.add_note(f"seed {seed}: {table.metadata}")
            raise
    assert matches


def test_defaults_of_columns_that_files_lack(spark: Any, tmp_path: Path, ask: Any, log: Any) -> None:
    columns = [("id", "long", None), ("n", "long", 5), ("s", "string", "é")]
    fields = [
        {"id": i + 1, "name": name, "type": kind, "required": False, "initial-default": default}
        for i, (name, kind, default) in enumerate(columns)
    ]
    table = HandTable(tmp_path / "t", [fields], version=3)
    old = table.write_file(pa.table({"id": range(12)}), {"id": 1})
    new = {"id": range(100, 103), "n": [None, 5, 6], "s": ["é", None, "x"]}
    table.add_snapshot([old, table.write_file(pa.table(new), {"id": 1, "n": 2, "s": 3})])
    rows = pa.table({"id": [*range(12), *new["id"]], "n": [5] * 12 + new["n"], "s": ["é"] * 12 + new["s"]})
    questions = [
        "n = 5",
        "n IS NULL",
        "n > 5",
        "n = 9",
        "n = 6 OR id = 3",
        "s = 'é' AND n = '5'",
        "s <> 'é'",
        "n + 0 = 5",
    ]
    log()
    assert ask(parquet_bloom.iceberg(table.write_metadata()), rows, questions, "id") == [13, 1, 1, 0, 2, 12, 1, 13]
    assert "it lacks 'n', to which the table gives a default" in log()


# ------------------------------------------------------------------------------------------------------------
# Tables by their libraries
# ------------------------------------------------------------------------------------------------------------

PARTITIONS = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "text": ["a b", "x/y", "100%", "é=ü", None, "02", "{}[]*?,\\", "2020-01-01"],
        "number": pa.array([2, None, 7, 2, -1, 7, 2, 2], pa.int32()),
        "day": [None, *[dt.date(2020, 1, i) for i in range(1, 8)]],
        "time": [dt.datetime(2020, 1, 1, i, 0, 0, 123456, UTC) for i in range(7)] + [None],
        "amount": pa.array([decimal.Decimal(f"{i}.50") for i in range(7)] + [None], pa.decimal128(9, 2)),
        "ratio": [0.1, -0.0, 1e20, 0.1, None, 0.5, 0.1, 3.0],
        "flag": [True, False, None, True, True, False, True, True],
    }
)


def test_partitions_of_every_type(spark: Any, tmp_path: Path, ask: Any, log: Any) -> None:
    names = PARTITIONS.column_names[1:]
    path = tmp_path / "a b {x}"
    deltalake.write_deltalake(path, PARTITIONS, partition_by=names)
    theirs = pa.table(deltalake.DeltaTable(path).to_pyarrow_table())
    log()
    ours = parquet_bloom.spark.read_table(spark, path)
    assert "Python tasks" not in log()
    assert as_texts(ours.toArrow()) == as_texts(theirs) == as_texts(PARTITIONS)
    questions = [
        "text = 'x/y'",
        "text IS NULL",
        "text IN ('02', '100%', '{}[]*?,\\\\')",
        "number = 2 AND id > 3",
        "number > 2",
        "number = 2.0",
        "number IS NULL OR text = 'é=ü'",
        "day >= DATE '2020-01-04'",
        "time = TIMESTAMP '2020-01-01 02:00:00.123456'",
        "time < '2020-01-01 02:00:00'",
        "amount = 2.5",
        "amount > 2.4",
        "ratio = 0.1",
        "ratio = 0",
        "ratio > 0.2",
        "ratio = 3",
        "flag",
        "NOT flag",
        "flag = false OR id = 7",
        "text = 'nowhere'",
    ]
    counts = ask(path, PARTITIONS, questions, "id")
    assert counts == [1, 1, 3, 2, 2, 4, 2, 4, 1, 2, 1, 5, 3, 1, 3, 1, 5, 2, 3, 0]
    chosen = log()
    assert "text = 'x/y': read 1 of 8 files" in chosen
    assert "day >= DATE '2020-01-04': read 4 of 8 files" in chosen
    assert "number > 2: read 2 of 8 files" in chosen
    assert "Python tasks" not in chosen


def test_the_log_rules_files_out(spark: Any, tmp_path: Path, log: Any) -> None:
    for start in (0, 100, 200):
        deltalake.write_deltalake(tmp_path / "t", pa.table({"id": range(start, start + 100)}), mode="append")
    parquet_bloom.spark.read_table(spark, tmp_path / "t", "id = 150 OR id > 290").select("id")
    assert "1 file ruled out by the table" in log()
    table = deltalake.DeltaTable(tmp_path / "t", version=1)
    frame = parquet_bloom.spark.read_table(spark, table, [("id", ">=", 150)], columns=["ID"])
    assert (frame.columns, frame.count()) == (["id"], 50)


def test_a_table_of_a_catalog(spark: Any, tmp_path: Path, ask: Any, log: Any) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

    (tmp_path / "w").mkdir()
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("db")
    fields = [NestedField(1, "id", LongType()), NestedField(2, "name", StringType())]
    fields += [NestedField(3, "part", StringType()), NestedField(4, "at", TimestamptzType())]
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "part"))
    table = catalog.create_table("db.t", Schema(*fields), partition_spec=spec)
    made = {
        "id": range(6),
        "name": [f"n{i}" for i in range(6)],
        "part": ["a b", "x/y", "100%", "é=ü", None, "a b"],
        "at": [dt.datetime(2020, 1, 1, i, tzinfo=UTC) for i in range(6)],
    }
    table.append(pa.table(made))
    log()
    source = parquet_bloom.iceberg("db.t", catalog=catalog)
    questions = ["part = 'a b'", "part IS NULL", "id = 3", "name = 'n5'", "at >= '2020-01-01 03:00:00'"]
    assert ask(source, table.scan().to_arrow(), questions, "id") == [2, 1, 1, 1, 3]
    assert "Python tasks" not in log()
    with table.update_schema() as update:
        update.rename_column("name", "called")
    with table.update_schema() as update:
        update.add_column("name", LongType())
    table = catalog.load_table("db.t")
    table.append(pa.table({"id": [6, 7], "called": ["n6", "n5"], "part": ["a b", None], "name": [1, 5]}))
    log()
    questions = ["called = 'n5'", "name = 5", "name IS NULL", "part = 'a b' AND called > 'n1'", "id >= 5"]
    assert ask(source, table.scan().to_arrow(), questions, "id") == [2, 1, 6, 2, 3]
    assert "it has 'called' under the name 'name'" in log()
    ours = parquet_bloom.spark.read_table(spark, table)
    assert as_texts(ours.toArrow()) == as_texts(table.scan().to_arrow())


# ------------------------------------------------------------------------------------------------------------
# What only one of the ways can read
# ------------------------------------------------------------------------------------------------------------


def write_delta(path: Path, fields: Sequence[Any], files: dict[str, pa.Table], *features: str, **members: Any) -> Path:
    actions = beginning(fields, (), None, features or None)
    path.mkdir()
    for name, rows in files.items():
        pq.write_table(rows, path / name, use_deprecated_int96_timestamps=name.endswith("96"))
        actions.append(add(name, (path / name).stat().st_size, **members.get(name, {})))
    commit(path, 0, actions)
    return path


def test_years_of_int96(spark: Any, tmp_path: Path, log: Any) -> None:
    times = [dt.datetime(year, 12, 31, 1, 2, 3, 456, UTC) for year in (1500, 2020, 9999)]
    rows = pa.table({"id": [0, 1, 2], "at": pa.array(times, pa.timestamp("us", "UTC"))})
    path = write_delta(tmp_path / "t", [column("id", "long"), column("at", "timestamp")], {"96": rows})
    log()
    frame = parquet_bloom.spark.read_table(spark, path, "at > TIMESTAMP '9999-01-01 00:00:00'")
    assert frame.toArrow().to_pylist() == rows.slice(2).to_pylist()
    assert "Python tasks" not in log()


def test_bounds_and_dictionaries_of_floats(spark: Any, tmp_path: Path, ask: Any, log: Any) -> None:
    """Spark alone loses NaN, which bounds leave out, and one zero where a dictionary has the other."""
    rows = pa.table({"id": [0, 1, 2, 3, 4], "x": [1.0, float("nan"), 2.0, None, -0.0]})
    path = write_delta(tmp_path / "t", [column("id", "long"), column("x", "double")], {"f": rows})
    log()
    questions = ["x > 5", "x >= 5 AND id < 9", "x = double('NaN')", "NOT (x <= 7)", "x <> 1", "x = 2", "x + 1 > 9"]
    questions += ["x = 0.0", "x IN (0, 9)"]
    assert ask(path, rows, questions, "id") == [1, 1, 1, 1, 3, 1, 1, 1, 1]
    assert "Python tasks" not in log()


def test_files_that_spark_hides(spark: Any, tmp_path: Path, log: Any) -> None:
    """Spark lists no files whose names begin so, even if they are given."""
    rows = {name: pa.table({"id": [i]}) for i, name in enumerate(["_a.parquet", ".b.parquet", "c.parquet"])}
    path = write_delta(tmp_path / "t", [column("id", "long")], rows)
    assert sorted(row.id for row in parquet_bloom.spark.read_table(spark, path).collect()) == [0, 1, 2]
    assert "Spark does not list exactly the table's files" in log()


def test_days_that_only_spark_reads(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [0, 1], "day": [dt.date(1500, 1, 1), dt.date(2020, 1, 1)]})
    legacy = rows.replace_schema_metadata({"org.apache.spark.legacyDateTime": "", "org.apache.spark.version": "3.5.0"})
    fields = [column("id", "long"), column("day", "date")]
    path = write_delta(tmp_path / "whole", fields, {"f": legacy})
    assert parquet_bloom.spark.read_table(spark, path, "id = 0").first().day != dt.date(1500, 1, 1)
    vector = {"f": {"deletionVector": inline_vector([1])}}
    path = write_delta(tmp_path / "deleted", fields, {"f": legacy}, "deletionVectors", **vector)
    with pytest.raises(UnreadableColumnError, match="legacyDateTime, so that only Spark's own scan reads its days"):
        parquet_bloom.spark.read_table(spark, path)
    frame = parquet_bloom.spark.read_table(spark, path, columns=["id"])
    assert [row.id for row in frame.collect()] == [0]


def test_vectors_that_cannot_be_read_show_no_rows(spark: Any, tmp_path: Path) -> None:
    vector = {"f": {"deletionVector": inline_vector([1]) | {"cardinality": 7}}}
    rows = pa.table({"id": [0, 1]})
    path = write_delta(tmp_path / "t", [column("id", "long")], {"f": rows}, "deletionVectors", **vector)
    frame = parquet_bloom.spark.read_table(spark, path, "id = 0")
    with pytest.raises(Exception, match="its deleted rows cannot be determined"):
        frame.collect()


def test_a_file_that_was_replaced(spark: Any, tmp_path: Path) -> None:
    vector = {"f": {"deletionVector": inline_vector([1])}}
    rows = pa.table({"id": [0, 1]})
    path = write_delta(tmp_path / "t", [column("id", "long")], {"f": rows}, "deletionVectors", **vector)
    frame = parquet_bloom.spark.read_table(spark, path)
    pq.write_table(pa.table({"id": [5, 6]}), path / "f")
    os.utime(path / "f", ns=(1, 1))
    with pytest.raises(Exception, match="it was changed since the table was read"):
        frame.collect()


# ------------------------------------------------------------------------------------------------------------
# Arguments
# ------------------------------------------------------------------------------------------------------------


def test_columns(spark: Any, tmp_path: Path, log: Any) -> None:
    """A condition that only Spark understands may be on columns that the result does not have."""
    rows = pa.table({"id": [0, 1, 2], "s": ["a", "bb", "ccc"], "n": [5, 6, 7]})
    vector = {"f": {"deletionVector": inline_vector([2])}}
    fields = [column("id", "long"), column("s", "string"), column("n", "long"), column("later", "long")]
    path = write_delta(tmp_path / "t", fields, {"f": rows}, "deletionVectors", **vector)
    read = functools.partial(parquet_bloom.spark.read_table, spark, path)
    assert [tuple(row) for row in read("length(s) > 1", columns=["id"]).collect()] == [(1,)]
    assert read("later = 5 OR later IS NULL").count() == 2  # no file has it yet
    assert read("later = 5").count() == 0
    assert [tuple(row) for row in read("n = 5 AND s <> 'x'", columns=["s", "id"]).collect()] == [("a", 0)]
    assert read("n = 7").count() == 0
    assert read(columns=[]).count() == 2
    with pytest.raises(UnknownColumnError):
        read(columns=["nothing"])
    with pytest.raises(PredicateError):
        read("nothing = 1")


def test_types_that_spark_does_not_have(spark: Any, tmp_path: Path) -> None:
    table = draw_table(random.Random(1), tmp_path / "t")
    source = parquet_bloom.iceberg(table.metadata)
    with pytest.raises(UnreadableColumnError, match=r"Spark has no type for time64.*leave the column out by columns="):
        parquet_bloom.spark.read_table(spark, source)


def test_variants(spark: Any, conf: Any, write: Any, tmp_path: Path) -> None:
    """Files that Spark has written, shredded or not, and rows that this package has changed."""
    pytest.importorskip("pyspark", minversion="4.1")
    root, actions, expected = tmp_path / "t", [], {}
    root.mkdir()
    value = "CASE WHEN id % 10 = 3 THEN NULL ELSE parse_json(concat('{\"a\": ', id, '}')) END v"
    for name, low in (("whole", 0), ("shredded", 10)):
        with conf({"spark.sql.variant.writeShredding.enabled": str(name == "shredded").lower()}):
            folder = write(name, f"id + {low} id", value.replace("id, '}", f"id + {low}, '}}"), rows=10, files=1)
        (path,) = folder.glob("*.parquet")
        statistics = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": low + 9}}
        actions.append(add(f"{name}.parquet", path.stat().st_size, statistics))
        path.rename(root / f"{name}.parquet")
        read = pq.read_table(root / f"{name}.parquet")
        assert ("typed_value" in str(read.schema)) == (name == "shredded")
        expected |= {} if low else dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))
    fields, features = [column("id", "long"), column("v", "variant")], ["variantType", "variantShredding"]
    commit(root, 0, [*beginning(fields, features=features), *actions])
    table = parquet_bloom.delta(root)
    rows = parquet_bloom.read_table(table, "id IN (3, 4)").sort_by("id")
    assert rows["v"].to_pylist() == [None, expected[4]]
    parquet_bloom.embed_table(root, ["id"])
    parquet_bloom.delete(root, [5, 15], "id", mode="rewrite")
    frame = parquet_bloom.spark.read_table(spark, table, "id < 10").orderBy("id")
    assert {row.id: row.v and row.v.asDict() for row in frame.collect()} == {
        n: value and {part: bytearray(data) for part, data in value.items()} for n, value in expected.items() if n != 5
    }
    ids = parquet_bloom.spark.read_table(spark, table, "id IN (4, 5, 14, 15)", columns=["id"])
    assert sorted(row.id for row in ids.collect()) == [4, 14]
    with pytest.raises(Exception, match=r"column 'v': its Variants are shredded.*variant='json'"):
        parquet_bloom.spark.read_table(spark, table, "id = 14").collect()
    # Spark puts together what was written anew.
    files = spark.read.parquet(*deltalake.DeltaTable(root).file_uris())
    assert {row.id: row.text for row in files.selectExpr("id", "to_json(v) text").collect()} == {
        n: None if n % 10 == 3 else f'{{"a":{n}}}' for n in range(20) if n % 10 != 5
    }


def test_what_is_no_table(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "f.parquet")
    for given in (tmp_path, str(tmp_path / "f.parquet"), "s3://bucket/t"):
        with pytest.raises(ParquetBloomError, match=r"no Delta or Iceberg table; .* read by read_parquet"):
            parquet_bloom.spark.read_table(spark, given)
    with pytest.raises(ParquetBloomError, match="int is no table"):
        parquet_bloom.spark.read_table(spark, 5)


# ------------------------------------------------------------------------------------------------------------
# Indexes of tables
# ------------------------------------------------------------------------------------------------------------


def test_index_of_a_table(spark: Any, tmp_path: Path, log: Any) -> None:
    rng = random.Random(3)
    ids = rng.sample(range(10_000), 300)
    for start in (0, 100, 200):
        rows = pa.table({"id": ids[start : start + 100]})
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append")
    report = parquet_bloom.spark.build_index(spark, tmp_path / "t", "id", tmp_path / "i")
    assert report.added == 3
    log()
    frame = parquet_bloom.spark.read_table(spark, tmp_path / "t", f"id = {ids[150]}", index=tmp_path / "i")
    assert frame.count() == 1
    assert "ruled out by the index" in log()
    table = draw_table(random.Random(2), tmp_path / "iceberg")
    source = parquet_bloom.iceberg(table.metadata)
    report = parquet_bloom.spark.build_index(spark, source, "id", tmp_path / "j")
    assert report.added == len(table.files)
    wanted = table.list_ids()[0]
    frame = parquet_bloom.spark.read_table(spark, source, f"id = {wanted}", columns=["id"], index=tmp_path / "j")
    assert [row.id for row in frame.collect()] == [wanted]


def test_connect(connect: Any, tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "plain", PARTITIONS, partition_by=["text", "number"])
    vector = {"f": {"deletionVector": inline_vector([1])}}
    rows = pa.table({"id": [0, 1, 2], "s": ["a", "b", "c"]})
    fields = [column("id", "long"), column("s", "string")]
    write_delta(tmp_path / "deleted", fields, {"f": rows}, "deletionVectors", **vector)
    code = """
def ask(path, where):
    return sorted(row.id for row in parquet_bloom.spark.read_table(spark, path, where).collect())
answer = [ask(plain, "text = 'x/y'"), ask(plain, "number = 2 AND id > 0"), ask(deleted, None), ask(deleted, "s > 'a'")]
"""
    answer = connect.run(code, plain=str(tmp_path / "plain"), deleted=str(tmp_path / "deleted"))
    assert answer == [[1], [3, 6, 7], [0, 2], [2]]
