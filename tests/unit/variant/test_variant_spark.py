"""Files that Spark wrote, shredded and not, and casts of thousands of values: what Spark itself gives."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.variant_twin import paths_of, same_floats
from support.random_cases.random_documents import draw_document, draw_json, draw_scalar
from support.scale import scaled
from support.writers.variant_columns import Primitive, encode, make_column

from parquet_bloom.errors import PredicateError, VariantCastError
from parquet_bloom.variant.variant_path import VariantPath, parse_path
from parquet_bloom.variant.variant_text import to_json
from parquet_bloom.variant.variant_values import extract

# Spark's names of types, and Arrow's.
TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(5, 2)": pa.decimal128(5, 2),
    "decimal(18, 0)": pa.decimal128(18, 0),
    "decimal(38, 10)": pa.decimal128(38, 10),
    "decimal(38, 38)": pa.decimal128(38, 38),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
SHREDDING = "spark.sql.variant.writeShredding.enabled"
SCHEMA = "spark.sql.variant.forceShreddingSchemaForTest"
STAMPS = "spark.sql.parquet.outputTimestampType"


def stored(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> list[Any]:
    """Values for comparison: dates and times as numbers, floating-point numbers as texts, since NaN is not itself."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64()).to_pylist()
    if pa.types.is_date(kind):
        return array.view(pa.int32()).to_pylist()
    if kind == pa.string():
        return array.cast(pa.binary()).to_pylist()
    return [repr(value) for value in array.to_pylist()] if pa.types.is_floating(kind) else array.to_pylist()


def differs_by_java(ours: Any, theirs: Any, document: Any) -> bool:
    """Whether it is for Java before 19, which writes more digits of floating-point numbers than it takes."""
    if isinstance(ours, bytes) and isinstance(theirs, bytes):
        return same_floats(ours.decode(), theirs.decode())
    if isinstance(document, Primitive) and document.kind in ("double", "float") and isinstance(ours, Decimal):
        return isinstance(theirs, Decimal) and abs(ours - theirs) <= abs(theirs) * Decimal("2e-16")
    return False


def may_refuse(document: Any, kind: pa.DataType) -> bool:
    """Whether a value may be refused even by try_variant_get: a zone decides, or the text would not be UTF-8."""
    if kind == pa.string():
        return not isinstance(document, Primitive) or document.kind in ("timestamp", "binary")
    if pa.types.is_timestamp(kind):
        return isinstance(document, str) or document.kind in ("timestamp", "timestamp_ntz", "date")
    return kind == pa.date32() and document.kind == "timestamp"


@pytest.fixture
def cast_by_spark(spark: Any, tmp_path: Path) -> Any:
    def cast(rows: list[tuple[bytes, bytes]], zone: str) -> pa.Table:
        table = pa.table({"i": pa.array(range(len(rows)), pa.int64()), "v": make_column(rows)})
        pq.write_table(table, tmp_path / "values.parquet")
        before = {name: spark.conf.get(name) for name in ("spark.sql.session.timeZone", STAMPS)}
        try:
            spark.conf.set("spark.sql.session.timeZone", zone)
            spark.conf.set(STAMPS, "TIMESTAMP_MICROS")
            values = spark.read.schema("i bigint, v variant").parquet(str(tmp_path / "values.parquet"))
            casts = [f"try_variant_get(v, '$', '{name}') as `{name}`" for name in TYPES]
            out = values.selectExpr("i", "to_json(v) as json", *casts).coalesce(1)
            out.write.mode("overwrite").parquet(str(tmp_path / zone[:3]))
        finally:
            for name, value in before.items():
                spark.conf.set(name, value)
        return pq.read_table(tmp_path / zone[:3]).sort_by("i")

    return cast


@pytest.mark.ci
def test_casts_are_sparks(cast_by_spark: Any) -> None:
    """What depends on the session's zone is refused, and all that Spark gives in two zones alike is given."""
    rng = random.Random(21)
    documents = [draw_scalar(rng) for _ in range(scaled(300))] + [draw_document(rng) for _ in range(scaled(50))]
    rows = [encode(document, rng) for document in documents]
    theirs, elsewhere = cast_by_spark(rows, "UTC"), cast_by_spark(rows, "America/Los_Angeles")
    column = make_column(rows)
    for document, text, expected in zip(
        documents, to_json(column).to_pylist(), theirs["json"].to_pylist(), strict=True
    ):
        assert text == expected or same_floats(text, expected), document
    refused = 0
    for name, kind in TYPES.items():
        pairs = zip(documents, stored(theirs[name], kind), stored(elsewhere[name], kind), strict=True)
        for i, (document, expected, other) in enumerate(pairs):
            try:
                (ours,) = stored(extract(column[i : i + 1], VariantPath(()), kind, try_cast=True), kind)
            except VariantCastError:
                assert may_refuse(document, kind), (document, name)
                refused += 1
                continue
            assert ours == expected == other or differs_by_java(ours, expected, document), (document, name)
    assert refused


SHREDDED = [
    "a int, b struct<a string, `c d` array<bigint>>",
    "a string, `a.b` double",
    "`é` array<struct<a int>>",
    "array<int>",
    "int",
]


@pytest.mark.ci
def test_nested_objects_of_spark(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(22)
    for number, schema in enumerate([None, *SHREDDED]):
        documents = [draw_json(rng) if i % 4 else {"a": i, "b": draw_json(rng)} for i in range(60)]
        frame = spark.createDataFrame([(i, json.dumps(each)) for i, each in enumerate(documents)], "i int, text string")
        path = str(tmp_path / str(number))
        spark.conf.set(SHREDDING, str(schema is not None).lower())
        if schema is not None:
            spark.conf.set(SCHEMA, schema)
        try:
            frame.selectExpr("i", "parse_json(text) v").coalesce(1).write.parquet(path)
        finally:
            spark.conf.unset(SHREDDING)
            spark.conf.unset(SCHEMA)
        table = pq.read_table(path).sort_by("i")
        column = table["v"]
        assert (column.type.get_field_index("typed_value") >= 0) == (schema is not None)
        found = [VariantPath(parts) for document in documents for parts in paths_of(document)]
        paths = rng.sample(found, 12)
        kinds = [rng.choice(["string", "bigint", "double", "decimal(38, 10)", "boolean"]) for _ in paths]
        asked = ["to_json(v)"] + [f"try_variant_get(v, {quoted(p)}, '{k}')" for p, k in zip(paths, kinds, strict=True)]
        rows = spark.read.parquet(path).orderBy("i").selectExpr(*asked).collect()
        for text, row in zip(to_json(column).to_pylist(), rows, strict=True):
            assert text == row[0] or same_floats(text, row[0])
        for i, (variant_path, kind) in enumerate(zip(paths, kinds, strict=True), 1):
            ours = extract(column, variant_path, TYPES[kind], try_cast=True).to_pylist()
            for mine, row in zip(ours, rows, strict=True):
                assert mine == row[i] or (kind == "string" and same_floats(mine, row[i])), (str(variant_path), kind)


def quoted(path: VariantPath) -> str:
    text = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


@pytest.mark.ci
def test_paths_are_sparks(spark: Any) -> None:
    """A text that begins with $ is a path here if it is one there, and leads to the same."""
    from pyspark.errors import PySparkException

    rng = random.Random(23)
    document = {"a": {"b": "1", "": "2"}, "a b": ["3", {"c": "4"}], "é": "5", "a]": "6", " a": "7"}
    column = make_column([encode(document)])
    source = spark.createDataFrame([(json.dumps(document),)], "text string").selectExpr("parse_json(text) v").cache()
    pieces = [
        ".a",
        ".b",
        "['a']",
        '["a b"]',
        "[0]",
        "[1]",
        ".",
        "[",
        "]",
        "'",
        '"',
        " ",
        "$",
        "a",
        ".c",
        "[-1]",
        "['']",
    ]
    pieces += [".é", "?", "*"]
    for _ in range(scaled(12)):
        text = "$" + "".join(rng.choices(pieces, k=rng.randint(0, 3)))
        literal = text.replace("'", "\\'")
        try:
            ((expected,),) = source.selectExpr(f"variant_get(v, '{literal}', 'string')").collect()
        except PySparkException as error:
            if "INVALID_VARIANT_GET_PATH" not in str(error):
                raise
            with pytest.raises(PredicateError):
                parse_path(text)
        else:
            assert extract(column, parse_path(text), pa.string(), try_cast=False).to_pylist() == [expected]
