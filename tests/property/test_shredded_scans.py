"""Random Variants, shredded in random ways: every condition finds the rows that it finds where nothing is shredded."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from support.random_cases.hunting import seeds
from support.scale import scaled
from support.writers.surgery import I8, STRUCT, Struct, relabel
from support.writers.variant_columns import NULL, Primitive, make_column, make_shredded
from support.writers.variant_columns import encode as encode_variant

import parquet_bloom
from parquet_bloom.errors import VariantCastError

INTEGERS = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}
LEAVES = [*INTEGERS.values(), pa.string(), pa.float64(), pa.decimal128(9, 2), pa.bool_(), pa.date32()]
TARGETS = [
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "string",
    "double",
    "decimal(9,2)",
    "decimal(18,2)",
    "boolean",
    "date",
]
NUMBERS = ["0", "5", "5.00", "1.23", "127", "-128", "32767", "2147483647", "9223372036854775807"]
PATHS = ["a", "o.x", "o", "['s.t']", "l[0]", "none.x"]
PLACES_OF_DUCKDB = {"a": ["'a'"], "o.x": ["'o'", "'x'"], "o": ["'o'"], "['s.t']": ["'s.t'"], "l[0]": ["'l'", "1"]}

# Where DuckDB casts as Spark does, by what the value is. It rounds a double or decimal that becomes an integer, which
# Spark truncates; in a text it keeps the zeros of a decimal, and spells doubles, objects and arrays in its own way. The
# texts here are cast alike to numbers, truths and dates; others, such as '5.0' and '2020', are not.
ALIKE = ["INT8", "INT16", "INT32", "INT64", "VARCHAR", "BOOL_TRUE", "BOOL_FALSE", "DATE", "VARIANT_NULL"]
TARGETS_ALIKE = ["tinyint", "smallint", "int", "bigint", "string", "boolean", "date"]


def draw_integer(rng: random.Random) -> Primitive:
    kind = rng.choice([*INTEGERS])
    limit = 1 << (8 * int(kind.removeprefix("int")) // 8 - 1)
    return Primitive(kind, rng.choice([rng.randrange(20), limit - 1, -limit]))


def draw_value(rng: random.Random, kind: str) -> Any:
    if kind == "integer":
        return draw_integer(rng)
    if kind == "text":
        return rng.choice(["", "a", "5", "12", "x" * 70, f"t{rng.randrange(30)}"])
    if kind == "double":
        return Primitive("double", rng.choice([0.0, -0.0, 5.0, 2.5, float("nan"), rng.random()]))
    if kind == "decimal":
        return Primitive("decimal4", (rng.choice([0, 500, 123, rng.randrange(10_000)]), 2))
    if kind == "truth":
        return Primitive(rng.choice(["true", "false"]))
    return Primitive("date", rng.randrange(20_000, 20_020)) if kind == "date" else NULL


KINDS = ["integer", "text", "double", "decimal", "truth", "date", "null"]


def draw_documents(rng: random.Random, groups: int, rows: int) -> list[Any]:
    """Return documents of which each row group has its own mixture of types, most of them of one."""
    documents: list[Any] = []
    usual = {name: rng.choice(KINDS[:5]) for name in ("a", "x", "s.t")}
    for _ in range(groups):
        odd = {name: rng.choice([0, 0, 0.02, 0.5]) for name in usual}
        missing = rng.choice([0, 0, 0.1])
        for _ in range(rows):
            drawn = {
                name: draw_value(rng, rng.choice(KINDS) if rng.random() < odd[name] else kind)
                for name, kind in usual.items()
                if rng.random() >= missing
            }
            document: Any = {name: drawn[name] for name in ("a", "s.t") if name in drawn}
            if rng.random() >= missing:
                document["o"] = {"x": drawn["x"]} if "x" in drawn and rng.random() < 0.98 else draw_value(rng, "text")
            if rng.random() < 0.3:
                document["l"] = [draw_value(rng, rng.choice(KINDS)) for _ in range(rng.randrange(3))]
            if rng.random() < rng.choice([0, 0.01]):
                document = rng.choice([None, NULL, draw_value(rng, "integer"), draw_value(rng, "text")])
            documents.append(document)
    return documents


def draw_shredding(rng: random.Random) -> pa.DataType:
    inner = pa.struct([("x", rng.choice(LEAVES))]) if rng.random() < 0.8 else rng.choice(LEAVES)
    fields = [("a", rng.choice(LEAVES)), ("o", inner), ("s.t", rng.choice(LEAVES))]
    if rng.random() < 0.5:
        fields.append(("l", pa.list_(rng.choice(LEAVES))))
    return pa.struct(rng.sample(fields, rng.randint(1, len(fields)))) if rng.random() < 0.95 else rng.choice(LEAVES)


def draw_condition(rng: random.Random) -> str:
    part = f"try_variant_get(v, '{draw_path(rng)}', '{(target := rng.choice(TARGETS))}')"
    literal = {
        "string": lambda: rng.choice(["''", "'5'", "'a'", f"'t{rng.randrange(30)}'", "'" + "x" * 70 + "'"]),
        "double": lambda: rng.choice(["0e0", "5e0", "2.5e0", "5"]),
        "boolean": lambda: rng.choice(["TRUE", "FALSE"]),
        "date": lambda: f"DATE '2024-10-{rng.randint(4, 25):02}'",
    }.get(target, lambda: rng.choice(NUMBERS))
    form = rng.randrange(8)
    if form == 0:
        return f"{part} IS {rng.choice(['', 'NOT '])}NULL"
    if form == 1:
        return f"{part} {rng.choice(['<', '<=', '>', '>='])} {literal()}"
    if form == 2:
        return f"NOT ({part} {rng.choice(['=', '<', '>'])} {literal()})"
    if form == 3:
        return f"{part} IN ({literal()}, {literal()})"
    if form == 4:
        return f"{part} <> {literal()}"
    if form == 5 and target == "string":
        return f"{part} LIKE '{rng.choice(['t%', '%5%', 'x%', ''])}'"
    return f"{part} = {literal()}"


def draw_path(rng: random.Random) -> str:
    path = rng.choice(PATHS)
    return (f"${path}" if path.startswith("[") else f"$.{path}").replace("'", "''")


def find(path: Path, where: str) -> list[int] | None:
    """Return the rows of a condition; None if a value's cast depends on a session's settings."""
    try:
        rows: list[int] = parquet_bloom.read_table(path, where, ["k"])["k"].to_pylist()
    except VariantCastError:
        return None
    return rows


def test_conditions_find_the_same_rows(tmp_path: Path) -> None:
    for seed in seeds(scaled(3)):
        rng = random.Random(f"shredded {seed}")
        groups, rows = rng.randint(1, 4), rng.choice([1, 20, 200])
        documents = draw_documents(rng, groups, rows)
        numbers = range(len(documents))
        plain, path = tmp_path / f"plain{seed}.parquet", tmp_path / f"shredded{seed}.parquet"
        encoded = make_column([None if one is None else encode_variant(one, rng) for one in documents])
        pq.write_table(pa.table({"k": numbers, "v": encoded}), plain, write_statistics=False, use_dictionary=False)
        options = {
            "use_dictionary": rng.random() < 0.5,
            "write_statistics": rng.random() < 0.9,
            "write_page_index": rng.random() < 0.5,
            "data_page_size": rng.choice([100, 1 << 20]),
            "write_batch_size": rng.choice([7, 1024]),
        }
        shredding = draw_shredding(rng)
        shredded = pa.table({"k": numbers, "v": make_shredded(documents, shredding, rng)})
        pq.write_table(shredded, path, row_group_size=rows, **options)
        with parquet_bloom.open(path) as file:
            typed = [leaf for leaf in file.leaves if leaf.path[-1] == "typed_value" and leaf.physical != "BOOLEAN"]
        if typed and rng.random() < 0.7:
            parquet_bloom.embed(path, [leaf.name for leaf in typed])
        for _ in range(40):
            where = draw_condition(rng)
            if rng.random() < 0.3:
                where = f"({where}) {rng.choice(['AND', 'OR'])} ({draw_condition(rng)})"
            case = seed, where, shredding, options
            expected, found = find(plain, where), find(path, where)
            if expected is None:  # unless no row is left for which the session would decide
                continue
            assert found == expected, case
            ranges = parquet_bloom.dataset(path).scan(where).row_ranges().get(str(path), {})
            for number in expected:
                spans = ranges.get(number // rows, [])
                assert any(start <= number % rows < end for start, end in spans), case
        path.unlink()
        plain.unlink()


def draw_for_both(rng: random.Random) -> tuple[str, str, str]:
    """Return a condition for this package, the same one for DuckDB, and where both cast alike."""
    name, target = rng.choice([*PLACES_OF_DUCKDB]), rng.choice(TARGETS_ALIKE)
    path = (f"${name}" if name.startswith("[") else f"$.{name}").replace("'", "''")
    place = "v"
    for step in PLACES_OF_DUCKDB[name]:
        place = f"variant_extract({place}, {step})"
    literals = {
        "string": ["''", "'5'", "'a'", "'true'", "'2024-10-10'", f"'t{rng.randrange(30)}'", "'" + "x" * 70 + "'"],
        "boolean": ["TRUE", "FALSE"],
        "date": [f"DATE '2024-10-{day:02}'" for day in range(4, 26)],
    }.get(target, ["0", "1", "5", "127", "-128", "32767", "2147483647", "9223372036854775807"])
    one, other, operator = rng.choice(literals), rng.choice(literals), rng.choice(["<", "<=", ">", ">=", "<>"])
    forms = ["{} IS NULL", "{} IS NOT NULL", f"{{}} {operator} {one}", f"NOT ({{}} {operator} {one})"]
    condition = rng.choice([*forms, *[f"{{}} IN ({one}, {other})"] * 2, *[f"{{}} = {one}"] * 4])
    ours, theirs = f"try_variant_get(v, '{path}', '{target}')", f"TRY_CAST({place} AS {target})"
    kinds = ", ".join(f"'{kind}'" for kind in ALIKE)
    return condition.format(ours), condition.format(theirs), f"variant_typeof({place}) IN ({kinds})"


def test_rows_are_those_of_duckdb(tmp_path: Path) -> None:
    """Files that DuckDB has shredded by itself, and random ones, of which it reads each row."""
    for seed in seeds(scaled(2)):
        rng = random.Random(f"duckdb {seed}")
        rows = rng.choice([20, 200])
        documents = draw_documents(rng, rng.randint(1, 4), rows)
        shredded = pa.table({"k": range(len(documents)), "v": make_shredded(documents, draw_shredding(rng), rng)})
        ours, theirs = tmp_path / f"ours{seed}.parquet", tmp_path / f"theirs{seed}.parquet"
        pq.write_table(shredded, ours, row_group_size=rows, write_page_index=rng.random() < 0.5, data_page_size=500)
        relabel(ours, "v", Struct({16: (STRUCT, Struct({1: (I8, 1)}))}))  # DuckDB goes by the annotation
        with duckdb.connect() as connection:
            connection.execute(f"COPY (FROM '{ours}' ORDER BY k) TO '{theirs}' (FORMAT parquet)")
            for _ in range(25):
                where, for_duckdb, alike = draw_for_both(rng)
                if rng.random() < 0.3:
                    more, more_for_duckdb, also_alike = draw_for_both(rng)
                    operator = rng.choice(["AND", "OR"])
                    where, for_duckdb = (
                        f"({where}) {operator} ({more})",
                        f"({for_duckdb}) {operator} ({more_for_duckdb})",
                    )
                    alike = f"{alike} AND {also_alike}"
                for path in (ours, theirs):
                    query = f"SELECT k, coalesce({for_duckdb}, FALSE) FROM '{path}' WHERE {alike} ORDER BY k"
                    answers = dict(connection.execute(query).fetchall())
                    found = find(path, where)
                    assert found is not None
                    case = seed, path.stem, where
                    assert [k for k in found if k in answers] == [k for k, holds in answers.items() if holds], case
        ours.unlink()
        theirs.unlink()
