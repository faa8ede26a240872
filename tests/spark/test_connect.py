"""Spark Connect: the rows of Spark alone from fewer files, whatever a condition is written as."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom.spark
from parquet_bloom import LakeIndex

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("every", [14, pytest.param(1, marks=pytest.mark.long)])
def test_columns(lake: str, connect: Any, every: int) -> None:
    """Python code of Columns that are answered from a few of the lake's 12 files."""
    wheres = [
        "F.col('id') == 4321",
        "F.lit(4321) == F.col('ID')",
        "F.col('id') == 4321.0",
        "F.col('id').eqNullSafe(4321)",
        "F.equal_null('id', F.lit(4321))",
        "F.col('id').isin(17, 4321, -5)",
        "F.col('id').isin([])",
        "F.col('id').isin(5, None)",
        "(F.col('id') == 17) | (F.col('s') == 'u4321')",
        "(F.col('id') == 17) & (F.col('s') == 'u17') & (F.col('i32') == 119)",
        "~((F.col('id') != 17) | (F.col('s') != 'u17'))",
        "~~(F.col('id') == 17)",
        "(F.col('id') == 4321) & F.col('s').like('u%') & ~F.col('flag').isNull()",
        "(F.col('id') == 4321) & F.udf(lambda n: n > 5, 'boolean')('i32')",
        "(F.col('id') == 4321) & F.col('day').between('1900-01-01', dt.date(2100, 1, 1))",
        "(F.col('id') == 4321).alias('found')",
        "F.expr('id = 4321') & (F.col('s') == \"u4321\")",
        "F.expr(\"id IN (4321, 5L) AND s LIKE 'u%'\")",
        "F.col('id') == F.lit('4321').cast('bigint')",
        "F.col('i32') == F.lit(700).cast('smallint')",
        "F.col('i16') == -F.lit(-4321)",
        "F.col('f32') == 100.125",
        "F.col('f64') == F.lit(100.125).cast('float')",
        "F.col('d9') == Decimal('700.00')",
        "F.col('d18').isin(Decimal('700.0'), Decimal('1.234'))",
        "F.col('d38') == Decimal('4321.0000000000')",
        "F.col('s') == F.concat(F.lit('u'), F.lit('4321'))",
        "F.col('bin') == F.lit(bytearray(b'b17'))",
        "F.col('day') == dt.date(1990, 1, 11)",
        "F.col('day') == F.to_date(F.lit('1990-01-11'))",
        "F.col('ts') == dt.datetime(2020, 9, 13, 12, 26, 43, 703701, tzinfo=dt.UTC)",
        "F.col('ts') == F.lit('2020-09-13 12:26:43.703701').cast('timestamp')",
        "F.col('ntz') == F.lit('2020-09-13 12:26:43.703701').cast('timestamp_ntz')",
        "F.col('st.a') == 4321",
        "F.col('st').getField('b')['c'] == 'n4321'",
        "(F.col('p') == 'a b%/ü{}') & (F.col('id') == 5)",
        "F.col('p').isNull() & (F.col('id') == 4)",
        "(F.col('d') == dt.date(2020, 1, 1)) & (F.col('id') == 6)",
        "F.col('id') == F.lit(None)",
    ]
    for where, answer in connect.ask_all(lake, wheres[::every], python=True).items():
        assert (answer.files <= 6, answer.doubts) == (True, ""), where


def test_pieces_of_text(connect: Any, tmp_path: Path, settled_tokens: None) -> None:
    """Patterns as Columns and as texts, by an index of grams: the rows of Spark from the files that have the pieces."""
    lake, index = tmp_path / "lake", tmp_path / "index"
    lake.mkdir()
    for number in range(6):
        texts = [None if row % 9 == 0 else f"Name0{number} of {row} 50%_\\ end" for row in range(40)]
        columns = {"m": pa.array(texts), "b": pa.array([text and text.encode() for text in texts])}
        pq.write_table(pa.table(columns), lake / f"{number}.parquet", use_dictionary=False)
        os.utime(lake / f"{number}.parquet", (1.7e9, 1.7e9))
    with LakeIndex.create(index, ["grams(m)", "grams(lower(m))"], lake=lake) as made:
        made.append()
    questions = {
        "F.col('m').contains('ame03')": 1,
        "F.contains('m', F.lit('ame03 o'))": 1,
        "F.col('m').startswith('Name04')": 1,
        "F.col('m').endswith('% end') & F.col('m').like('Name0_ of 3_ %')": 0,
        "F.col('m').like('%ame02%') | F.col('m').rlike('ame0[0-9]* of 7 |ame05 of')": 6,
        "F.col('m').rlike('^Name01 .*[0-9]') | F.col('m').rlike('ame05')": 2,
        "F.col('m').ilike('%NAME02%')": 1,
        "F.regexp_like('m', F.lit('ame0(1|4) of'))": 2,
        "~F.col('m').rlike('ame01') & ~F.col('m').ilike('name02%')": 6,
        "F.col('m').contains('50%_\\\\ e') & F.col('m').contains('ame01')": 1,
        "F.expr(\"contains(m, 'ame03')\")": 1,
        "F.expr(\"m RLIKE 'ame0(3|5)x?' AND startswith(m, 'Name05')\")": 1,
        "F.expr(\"m ILIKE '%nAME05%' OR endswith(m, 'x end')\")": 1,
        "F.expr(\"m NOT LIKE '%ame05%'\")": 6,
        "F.col('m').contains(F.col('m'))": 6,
        "F.col('b').contains(F.lit(b'ame03'))": 6,
        "F.col('m').contains(F.lit(None))": 0,
        "F.col('m').rlike('(?i)NAME02')": 6,
    }
    code = """
answer = []
plain = spark.read.parquet(path)
for where in wheres:
    where = eval(where)
    frame = parquet_bloom.spark.read_parquet(spark, path, where, index=index)
    rows = [sorted(map(str, one.toArrow().to_pylist())) for one in (frame, plain.where(where))]
    few = parquet_bloom.spark.pruned(plain, where, index=index)
    answer.append([rows[0] == rows[1], len(frame.inputFiles())])
    assert len(few.inputFiles()) == answer[-1][1] and few.count() == len(rows[1]), where
"""
    answers = connect.run(code, path=str(lake), index=str(index), wheres=[*questions])
    assert dict(zip(questions, answers, strict=True)) == {where: [True, files] for where, files in questions.items()}


@pytest.mark.long
def test_columns_that_are_left_to_spark(lake: str, connect: Any) -> None:
    wheres = [
        "(F.col('id') == 4321) | F.col('s').like('u432%')",
        "F.col('id') + 0 == 4321",
        "F.col('id') == F.col('id')",
        "F.col('flag')",
        "F.col('ma')['k5'] == 5",
        "F.when(F.col('id') == 4321, True).otherwise(False)",
        "F.col('id') == '4321'",
        "F.col('day') == F.current_date()",
        "F.col('day') == F.to_date(F.lit('today'))",
    ]
    answers = connect.ask_all(lake, wheres, python=True)
    for more in ("F.rand() >= 0", "F.monotonically_increasing_id() >= 0"):
        wheres.append(f"(F.col('id') == 4321) & ({more})")
    for where in (*wheres[-2:], "F.col('id').isin(df.where('id = 5').select('id'))"):
        answers[where] = connect.ask(lake, where, python=True)
    for where, answer in answers.items():
        assert (answer.files, answer.doubts[:20]) == (12, "all files are read: "), where


@pytest.mark.long
def test_parts_of_texts(lake: str, connect: Any) -> None:
    """SQL texts of which some parts are understood, and that is enough."""
    wheres = [
        "id = 4321 AND s LIKE 'u%'",
        "s LIKE 'u%' AND (abs(i32) > 3 AND (id = 4321 AND f64 + 1 > 0))",
        "id = 4321 AND (s = 'x' OR abs(i32) > 3)",
        "(id = 4321 AND abs(i32) > 3) OR (id = 17 AND length(s) = 3)",
        "NOT (id <> 4321 OR s NOT LIKE 'u%')",
        "NOT (NOT id = 4321 OR abs(i32) < 3)",
        "id = 4321 AND day BETWEEN DATE '1900-01-01' AND DATE '2100-01-01'",
        "id <=> 4321",
        "NOT (id IS DISTINCT FROM 4321)",
        "id = CAST('4321' AS BIGINT)",
        "id = 4321L",
        "id IN (CAST('4321' AS INT), 17S, NULL)",
        "d18 = CAST(700 AS DECIMAL(9, 2))",
        "s = 'u' || '4321'",
        "ts = CAST('2020-09-13 12:26:43.703701' AS TIMESTAMP)",
        "day = CAST('1990-01-11' AS DATE)",
        "id = 4321 AND i32 = '30247'",
    ]
    answers = connect.ask_all(lake, wheres)
    answers |= {where: connect.ask(lake, where) for where in ("id = 4321 AND id IN (SELECT 4321)", wheres[0])}
    for where, answer in answers.items():
        assert (answer.files <= 6, answer.doubts) == (True, ""), where


def test_texts_that_are_left_to_spark(lake: str, connect: Any) -> None:
    wheres = ["id = 4321 OR s LIKE 'u432_'", "NOT (id = 4321 AND abs(i32) > 3)", "NOT (id = 4321)", "abs(id) = 4321"]
    answers = connect.ask_all(lake, wheres)
    for where in ("id = 4321 AND rand() >= 0", "id = 4321 AND rand(7) >= 0", "id = 4321 AND spark_partition_id() >= 0"):
        answers[where] = connect.ask(lake, where)
    for where, answer in answers.items():
        assert answer.files == 12, where


def test_what_is_left_to_spark_is_logged(lake: str, connect: Any) -> None:
    answers = connect.ask(lake, "id = 4321 AND s RLIKE '[a-z]' AND abs(i32) > 3 AND i32 = '5'")
    for part in (
        "s RLIKE '[a-z]': it asks for no piece of text",
        "abs(i32) > 3: the function abs",
        "i32 = '5': 'i32': comparisons of",
    ):
        assert part in answers.plan


def test_lists(lake: str, connect: Any) -> None:
    questions = {
        "[('id', '=', 4321), ('s', '=', 'u4321')]": "id = 4321 AND s = 'u4321'",
        "[[('id', 'in', [17, 18])], [('s', '=', \"it's\")]]": "id IN (17, 18)",
        "[('id', '=', 4321), ('s', '=', 5)]": "id = 4321 AND s = 5",
        "[('ts', '=', dt.datetime(2020, 9, 13, 12, 26, 43, 703701))]": "ts = TIMESTAMP '2020-09-13 12:26:43.703701'",
    }
    for where, native in questions.items():
        answers = connect.ask(lake, where, python=True, native=native, conf={"spark.sql.ansi.enabled": "false"})
        assert (answers.files <= 6, answers.doubts) == (True, ""), where


def test_a_part_in_doubt_of_an_or_is_not_left_out(lake: str, connect: Any) -> None:
    """Comparisons that only Spark defines may be true of a row in any file."""
    where, native = "[[('id', '=', 4321)], [('s', '=', 5)]]", "id = 4321 OR s = 5"
    answers = connect.ask(lake, where, python=True, native=native, conf={"spark.sql.ansi.enabled": "false"})
    assert answers.files == 12


@pytest.mark.parametrize(("ansi", "zone"), [("true", "America/Los_Angeles"), ("false", "+05:30")])
def test_settings_of_the_session(ansi: str, zone: str, lake: str, connect: Any) -> None:
    conf = {"spark_sql_ansi_enabled": ansi, "spark_sql_session_timeZone": zone}
    texts = [
        "ts = TIMESTAMP '2020-09-13 05:26:43.703701'",
        "ts = CAST('2020-09-13 17:56:43.703701' AS TIMESTAMP)",
        "ntz = TIMESTAMP_NTZ '2020-09-13 12:26:43.703701'",
        "id = TRY_CAST('many' AS BIGINT) AND s LIKE 'u%'",
        "id = CAST(4321.7 AS BIGINT)",
        "i32 = 70000000000",
    ]
    columns = [
        "F.col('ts') == dt.datetime(2020, 9, 13, 12, 26, 43, 703701, tzinfo=dt.UTC)",
        "F.col('ts') == F.lit('2020-09-13 05:26:43.703701').cast('timestamp')",
        "F.col('day') == F.to_date(F.lit('1990-01-11'))",
    ]
    instant = "F.col('ntz') == dt.datetime(2020, 9, 13, 12, 26, 43, 703701, tzinfo=dt.UTC)"  # no wall clock
    answers = connect.ask_all(lake, texts, **conf)
    answers |= connect.ask_all(lake, [*columns, instant], python=True, **conf)
    assert sum(answer.rows for answer in answers.values()) >= 5
    del answers[instant]
    assert all(answer.files <= 6 for answer in answers.values())


def test_ways_to_write_a_path(lake: str, connect: Any) -> None:
    folder, other = f"{lake}/p=02/d=2020-01-01", f"{lake}/p=02/d=2020-01-02"
    for path in [f"file:{lake}", f"file://{lake}", os.path.relpath(lake), [folder, other]]:
        assert connect.ask(path, "id = 4320 AND s LIKE 'u%'").files <= 6, path
    assert connect.ask(f"{lake}/p=*", "id = 4320 AND s LIKE 'u%'", basePath=lake).files <= 6
    assert connect.ask(folder, "p = '02' AND id = 4320", basePath=lake).files == 1


def test_row_groups(lake: str, connect: Any) -> None:
    answers = connect.ask(lake, "ts = TIMESTAMP '2020-09-13 12:26:43.703701' AND s LIKE 'u%'", row_groups=True)
    assert (answers.files, answers.doubts) == (0, "")  # the rows are read by us
    where = "F.col('ts') == F.timestamp_micros(F.lit(1600000003703701))"
    assert connect.ask(lake, where, python=True, row_groups=True).files == 0


def test_a_file_that_changes_meanwhile(write: Any, connect: Any) -> None:
    path = write("changing", "id", embed=["id"])
    code = """
frame = parquet_bloom.spark.read_parquet(spark, path, "id = 5", row_groups=True)
for file in __import__("pathlib").Path(path).glob("*.parquet"):
    __import__("os").utime(file)
frame.collect()
"""
    with pytest.raises(RuntimeError, match="it was changed since the DataFrame was made"):
        connect.run(code, path=str(path))


def test_embed(write: Any, connect: Any, ask_spark: Any) -> None:
    path = write("plain", "id", "concat('u', id) s")
    code = "report = parquet_bloom.spark.embed(spark, path, ['id', 's']); answer = [report.ok, report.num_filters]"
    assert connect.run(code, path=str(path)) == [True, 8]
    assert ask_spark(path, "s = 'u17'").files == 1


def test_locate(lake: str, connect: Any) -> None:
    code = """
keys = spark.range(0, 9000, 700)
rows = lambda table: sorted(zip(*(table[name].to_pylist() for name in ("key", "path", "row_group", "row"))))
expected = rows(parquet_bloom.dataset(lake).locate("id", keys.toArrow()["id"]))
found = [parquet_bloom.spark.locate(spark, lake, "id", keys, max_keys=number) for number in (1_000_000, 0)]
answer = [len(expected), *(rows(frame.toArrow()) == expected for frame in found)]
"""
    number, sent, joined = connect.run(code, lake=lake)
    assert number > 5
    assert sent
    assert joined


def test_errors_are_one_line(lake: str, connect: Any) -> None:
    for where, message in {
        "'nope = 3'": "PredicateError: Spark does not understand 'nope = 3': [UNRESOLVED_COLUMN",
        "'id ='": "PredicateError: Spark does not understand 'id =': [PARSE_SYNTAX_ERROR]",
        "F.col('nope') == 3": "PredicateError: Spark does not understand Column<'==(nope, 3)'>: [UNRESOLVED_COLUMN",
        "spark.range(1).id == 3": "PredicateError: Spark does not understand Column",
        "[('nope', '=', 3)]": "UnknownColumnError: column 'nope': no such column",
        "5": "PredicateError: a condition must be",
    }.items():
        with pytest.raises(RuntimeError) as caught:
            connect.run(f"parquet_bloom.spark.read_parquet(spark, path, {where})", path=lake)
        text = str(caught.value)
        assert text.startswith(message)
        assert "\n" not in text


def test_a_column_of_a_classic_session(spark: Any, lake: str, connect: Any) -> None:
    from pyspark.sql.connect.functions import col

    with pytest.raises(parquet_bloom.errors.PredicateError, match="is not a Column of this session"):
        parquet_bloom.spark.read_parquet(spark, lake, col("id") == 5)


# ------------------------------------------------------------------------------------------ what a DataFrame reads

SOURCE = (
    "from parquet_bloom.spark.plan.connect_session import find_source, replace_source; df = spark.read.parquet(path); "
)


def test_columns_of_a_dataframe(lake: str, connect: Any) -> None:
    code = "from parquet_bloom.spark.condition.condition import read_condition; df = spark.read.parquet(path); "
    for where, node in {
        "df.id == 4321": "id = 4321",
        "(df['s'] == \"it's\") & (df.st.b.c == 'n4321') & (F.col('i32') + 1 > 0)": "s = 'it''s' AND st.b.c = 'n4321'",
        "df.ID.isin(1, 2) | ~(df.p != '02')": "ID IN (1, 2) OR p = '02'",
    }.items():
        assert connect.run(f"{code} answer = str(read_condition(df, {where}).node)", path=lake) == node


def test_files_of_a_dataframe(lake: str, connect: Any) -> None:
    for frame in [
        "df",
        "df.where('id = 5')",
        "df.where(df.id == 5).filter(F.col('s').like('u%'))",
        "spark.read.load(path)",
        "spark.read.format('PARQUET').option('mergeSchema', True).load(path)",
        "spark.read.schema('id BIGINT, s STRING').parquet(path)",
        "df.where('id IN (SELECT 5)')",
    ]:
        code = f"{SOURCE} source = find_source({frame}); "
        code += "answer = [source.paths, source.frame.count(), len(source.conditions)]"
        paths, count, conditions = connect.run(code, path=lake)
        assert (paths, count, conditions) == ([lake], 6000, frame.count("where(") + frame.count("filter("))


def test_dataframes_that_are_not_plain_reads(lake: str, connect: Any) -> None:
    for frame, doubt in (
        ("spark.read.option('path', path).load()", "paths are among its options"),
        ("spark.read.json(path + '/_nothing')", "reads json, not parquet"),
        ("spark.sql('SELECT * FROM parquet.`' + path + '`')", "it is a query"),
        ("df.select('id')", "its columns were chosen"),
        ("df.withColumn('x', F.lit(1))", "with columns"),
        ("df.alias('x')", "it has an alias"),
        ("df.join(df.alias('x'), 'id')", "it is a join"),
        ("df.limit(3)", "limit"),
        ("df.where(F.col('id').isin(df.select('id')))", "it has subqueries"),
        ("spark.range(3)", "range"),
        ("spark.readStream.schema(df.schema).parquet(path)", "is a stream"),
        ("(df.createOrReplaceTempView('by_name'), spark.table('by_name'))[1]", "tables by name"),
        ("df.localCheckpoint()", "checkpoint"),
    ):
        with pytest.raises(RuntimeError, match=f"CannotPush: .*{doubt}"):
            connect.run(f"{SOURCE} find_source({frame})", path=lake)


def test_the_same_dataframe_over_fewer_files(lake: str, connect: Any) -> None:
    """Columns of the old DataFrame are understood by the new one."""
    code = f"""{SOURCE}
some = spark.read.schema(df.schema).option("basePath", path).parquet(path + "/p=02")
frame = replace_source(df.where(df.s != "u3"), some)
answer = [
    frame.count(),
    len(frame.inputFiles()),
    frame.schema == df.schema,
    frame.where(df.id == 6).count(),
    frame.where(frame.id == 6).select(df.s, frame.id).collect()[0][0],
    frame.where("id = 3").count(),
]
"""
    assert connect.run(code, path=lake) == [1999, 4, True, 1, "u6", 0]


def test_changes(connect: Any, tmp_path: Path) -> None:
    """Rows of a table are replaced and deleted, those of a file erased."""
    deltalake = pytest.importorskip("deltalake")
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "text": ["old"] * 100})
    deltalake.write_deltalake(tmp_path / "t", rows, configuration={"delta.enableDeletionVectors": "true"})
    (tmp_path / "lake").mkdir()
    pq.write_table(rows, tmp_path / "lake" / "0.parquet")
    code = """
keys = spark.createDataFrame([(5,), (7,), (None,)], "id long")
rows = spark.createDataFrame([(8, "new"), (100, "new")], "id long, text string")
table, lake = f"{folder}/t", f"{folder}/lake"
replaced = parquet_bloom.spark.upsert(spark, table, rows, "id")
deleted = parquet_bloom.spark.delete(spark, table, keys, "id")
erased = parquet_bloom.spark.erase(spark, lake, keys, "id")
answer = [replaced.num_added, replaced.num_replaced, deleted.num_rows, erased.num_rows, erased.rows_after]
"""
    assert connect.run(code, folder=str(tmp_path)) == [2, 1, 2, 2, 0]
    found = pa.table(deltalake.DeltaTable(tmp_path / "t").scan()).to_pylist()
    expected = {id: "new" if id in (8, 100) else "old" for id in range(101) if id not in (5, 7)}
    assert {row["id"]: row["text"] for row in found} == expected
    assert len(found) == len(expected)
