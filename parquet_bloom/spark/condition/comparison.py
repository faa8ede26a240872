"""Comparisons of one column with literals; Spark itself evaluates the literals."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, TimestampNTZType, TimestampType

from ...errors import PredicateError
from ...predicate import tree
from ...predicate.tree import Compare, Contains, Equal, In, IsNotNull, IsNull, Node
from ..session.fallback import CannotPush
from ..session.fields import Field
from .terms import Spelling, as_column


@dataclass
class Literal:
    """A literal that a column is compared with.

    Attributes
    ----------
    spelling : the literal as Spark gets it.
    value, type : its value in Python and its type in Spark; the type is None until Spark has evaluated the literal.
    texts : the string literals that it is made of.
    """

    spelling: Spelling
    value: Any = None
    type: DataType | None = None
    texts: Sequence[str] = ()

    def require_type(self) -> DataType:
        """Return the type in Spark.

        Raises
        ------
        CannotPush
            Spark could not evaluate the literal, or its value depends on the time of the query.
        """
        if self.type is None:
            raise CannotPush("Spark could not evaluate the literal")
        is_temporal = isinstance(self.type, DateType | TimestampType | TimestampNTZType)
        if is_temporal and any(text.strip()[:1].isalpha() for text in self.texts):
            raise CannotPush("'now' and 'today' have another value each time that they are read")
        return self.type


_INFIX = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Comparison:
    """A column compared with literals.

    Attributes
    ----------
    operator : =, <=>, <, <=, >, >=, in, contains, between, null or notnull.
    name : the column, dotted.
    """

    operator: str
    name: str
    literals: Sequence[Literal] = field(default=())

    def spell(self, column: Field) -> Spelling:
        """Format the comparison for Spark: as SQL text if all literals are text, else as a Column."""
        texts = [literal.spelling for literal in self.literals if isinstance(literal.spelling, str)]
        if len(texts) == len(self.literals) and "$" not in column.sql and not (self.operator == "in" and not texts):
            return self._to_sql(column.sql, texts)
        subject, values = F.col(column.sql), [as_column(literal.spelling) for literal in self.literals]
        if self.operator in ("null", "notnull"):
            return subject.isNull() if self.operator == "null" else subject.isNotNull()
        if self.operator == "in":
            return subject.isin(*values)
        if self.operator == "contains":
            return F.array_contains(subject, values[0])
        if self.operator == "between":
            return subject.between(*values)
        if self.operator == "<=>":
            return subject.eqNullSafe(values[0])
        comparison: Column = _INFIX[self.operator](subject, values[0])
        return comparison

    def _to_sql(self, subject: str, values: Sequence[str]) -> str:
        if self.operator in ("null", "notnull"):
            return f"{subject} IS NULL" if self.operator == "null" else f"{subject} IS NOT NULL"
        if self.operator == "in":
            return f"{subject} IN ({', '.join(values)})"
        if self.operator == "contains":
            return f"array_contains({subject}, {values[0]})"
        if self.operator == "between":
            return f"{subject} BETWEEN {' AND '.join(values)}"
        return f"{subject} {self.operator} {values[0]}"

    @property
    def needs_values(self) -> bool:
        """True if pruning uses the values of the literals."""
        return self.operator in ("=", "<=>", "in", "contains")

    def to_node(self) -> Node:
        """Return the comparison as a predicate tree, without literals that pruning does not use.

        Raises
        ------
        CannotPush
            The tree has no such comparison.
        """
        values = [literal.value for literal in self.literals]
        try:
            if self.operator in ("null", "notnull"):
                return IsNull(self.name) if self.operator == "null" else IsNotNull(self.name)
            if self.operator in ("=", "<=>"):
                return (Equal if self.operator == "=" else tree.null_safe_equal)(self.name, values[0])
            if self.operator == "in":
                return In(self.name, tuple(values))
            if self.operator == "contains":
                return Contains(self.name, values[0])
            return Compare(self.name, "<", None)
        except PredicateError as error:
            raise CannotPush(error.problem) from None


def evaluate_literals(spark: SparkSession, literals: Sequence[Literal]) -> None:
    """Let Spark evaluate literals, all in one query; those that it cannot evaluate keep no type."""
    unresolved = [literal for literal in literals if literal.type is None]
    if not unresolved:
        return
    try:
        _evaluate(spark, unresolved)
    except (PySparkException, pa.ArrowException, ValueError, OverflowError):
        if len(unresolved) > 1:
            for literal in unresolved:
                evaluate_literals(spark, [literal])


def _evaluate(spark: SparkSession, literals: Sequence[Literal]) -> None:
    columns = [as_column(literal.spelling).alias(f"c{i}") for i, literal in enumerate(literals)]
    frame = spark.sql("SELECT 1").select(*columns)  # toArrow() then runs no job
    types = [item.dataType for item in frame.schema.fields]
    values = [_read_value(column) for column in frame.toArrow().columns]
    for literal, value, data_type in zip(literals, values, types, strict=True):
        literal.value, literal.type = value, data_type


def _read_value(column: pa.ChunkedArray) -> Any:
    """Return the one value of a column as predicate trees represent it."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        local = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))[0].as_py()
        return None if local is None else local.replace(tzinfo=dt.UTC)
    return column[0].as_py()
