"""Random predicates over the rows of a table: for its columns, and the fields of its structs."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parquet_bloom.errors import ParquetBloomError, PredicateError, UnsupportedTypeError
from parquet_bloom.hashing.column_type import from_arrow
from parquet_bloom.predicate import tree
from parquet_bloom.predicate.row_filter import row_mask
from parquet_bloom.predicate.tree import And, Compare, Equal, In, IsNotNull, IsNull, Leaf, Node, NotEqual, NotIn, Or

_OPERATORS = ("<", "<=", ">", ">=")


def find_columns(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Return {dotted name: values} of the columns that predicates can compare."""
    columns = {}
    for field, column in zip(rows.schema, rows.columns, strict=True):
        for name, values in _find_below(field.name, column):
            try:
                from_arrow(values.type)
            except ParquetBloomError:
                continue
            if not pa.types.is_nested(values.type) and not pa.types.is_null(values.type):
                columns[name] = values
    return columns


def _find_below(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    if "." in name.rpartition(".")[2]:
        return
    if pa.types.is_struct(column.type):
        for field in column.type:
            if "." not in field.name:
                yield from _find_below(f"{name}.{field.name}", pc.struct_field(column, field.name))
    else:
        yield name, column


def draw_node(rng: random.Random, columns: dict[str, pa.ChunkedArray], depth: int = 2) -> Node:
    """Return a predicate; most of its values occur in the rows, or are right beside one that does."""
    if depth and rng.random() < 0.45:
        parts = tuple(draw_node(rng, columns, depth - 1) for _ in range(rng.randint(2, 3)))
        return And(parts) if rng.random() < 0.6 else Or(parts)
    name = rng.choice([*columns])
    column = columns[name]
    draw = rng.random()
    if draw < 0.1:
        return IsNull(name) if rng.random() < 0.5 else IsNotNull(name)
    if draw < 0.45:
        return Equal(name, draw_value(rng, column))
    if draw < 0.65:
        return In(name, tuple(draw_value(rng, column) for _ in range(rng.randint(1, 5))))
    if draw < 0.7:
        return NotEqual(name, draw_value(rng, column))
    if draw < 0.75:
        return NotIn(name, tuple(draw_value(rng, column) for _ in range(rng.randint(1, 3))))
    return Compare(name, rng.choice(_OPERATORS), draw_value(rng, column))


def draw_value(rng: random.Random, column: pa.ChunkedArray) -> Any:
    """Return a value of a column, or one beside it."""
    value = None
    for _ in range(4):
        if len(column):
            value = column[rng.randrange(len(column))].as_py()
        if value is not None:
            break
    if value is None:
        value = _make_default(column.type)
    return value if rng.random() < 0.7 else _move(rng, value)


def _make_default(arrow_type: pa.DataType) -> Any:
    types = pa.types
    if types.is_boolean(arrow_type):
        return True
    if types.is_integer(arrow_type):
        return 1
    if types.is_floating(arrow_type):
        return 1.5
    if types.is_decimal(arrow_type):
        return Decimal(1)
    if types.is_date(arrow_type):
        return dt.date(2020, 1, 1)
    if types.is_timestamp(arrow_type):
        return dt.datetime(2020, 1, 1, tzinfo=dt.UTC if arrow_type.tz else None)
    if types.is_binary(arrow_type) or types.is_large_binary(arrow_type):
        return b"a"
    return "a"


def _move(rng: random.Random, value: Any) -> Any:
    """Return a value right beside another one."""
    sign = rng.choice((-1, 1))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(-(2**63), min(2**63 - 1, value + sign))
    if isinstance(value, float):
        return math.nextafter(value, sign * math.inf) if math.isfinite(value) else value
    if isinstance(value, Decimal):
        return value + sign * Decimal(1).scaleb(value.as_tuple().exponent)  # type: ignore[arg-type]
    try:
        if isinstance(value, dt.datetime):
            return value + sign * rng.choice((dt.timedelta(microseconds=1), dt.timedelta(milliseconds=1)))
        if isinstance(value, dt.date):
            return value + sign * dt.timedelta(days=1)
    except OverflowError:
        return value
    if isinstance(value, bytes):
        return value + b"\0" if sign > 0 else value[:-1]
    if isinstance(value, str):
        return value + "a" if sign > 0 else value[:-1]
    return value


def to_sql(node: Node, columns: dict[str, pa.ChunkedArray]) -> str | None:
    """Return a predicate as SQL for DuckDB; None if it compares bytes or floats, which DuckDB writes in other ways."""
    types = pa.types
    names = tree.columns(node)
    others = types.is_floating, types.is_binary, types.is_large_binary, types.is_fixed_size_binary
    if any(is_other(columns[name].type) for is_other in others for name in names):
        return None
    texts = [value for leaf in tree.leaves(node) for value in leaf.literals if isinstance(value, str)]
    return None if any("\0" in text for text in texts) else _to_sql(node)


def _to_sql(node: Node) -> str:
    if isinstance(node, And | Or):
        return "(" + (" AND " if isinstance(node, And) else " OR ").join(map(_to_sql, node.children)) + ")"
    assert isinstance(node, Leaf)
    name = ".".join('"' + part.replace('"', '""') + '"' for part in node.column.split("."))
    if isinstance(node, IsNull | IsNotNull):
        return f"{name} IS {'' if isinstance(node, IsNull) else 'NOT '}NULL"
    literals = [_to_literal(value) for value in node.literals]
    if isinstance(node, In | NotIn):
        return f"{name} {'' if isinstance(node, In) else 'NOT '}IN ({', '.join(literals)})"
    operator = node.operator if isinstance(node, Compare) else "=" if isinstance(node, Equal) else "<>"
    return f"{name} {operator} {literals[0]}"


def _to_literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dt.datetime):
        return f"{'TIMESTAMP' if value.tzinfo is None else 'TIMESTAMPTZ'} '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL(38, {max(0, -int(value.as_tuple().exponent))}))"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def iter_queries(
    rng: random.Random, dataset: Any, rows: pa.Table, count: int
) -> Iterator[tuple[Node, Any, pa.Table, pa.Table]]:
    """Yield random queries of a dataset: the predicate, its scan, the rows that it reads, and those of all that match.

    Parameters
    ----------
    rows : all rows of the dataset.
    count : of predicates; those of which a literal fits no type are passed over.
    """
    columns = find_columns(rows)
    for node in (draw_node(rng, columns) for _ in range(count)):
        try:
            expected = rows.filter(row_mask(rows, node))
        except (PredicateError, UnsupportedTypeError):
            continue
        scan = dataset.scan(node)
        yield node, scan, scan.to_arrow(), expected


def sort_rows(rows: pa.Table) -> list[str]:
    """Return rows as texts that can be compared, in whichever order they came."""
    return sorted(map(str, rows.to_pylist()))
