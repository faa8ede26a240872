"""One comparison of a column with literals, whose values are told by Spark itself."""

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
    """What a column is compared with.

    Attributes
    ----------
    spelling : as Spark is given it.
    value, type : the same in Python, and its type in Spark; no type as long as Spark was not asked.
    texts : the texts that it is made of.
    """

    spelling: Spelling
    value: Any = None
    type: DataType | None = None
    texts: Sequence[str] = ()

    def known_type(self) -> DataType:
        """Its type in Spark.

        Raises
        ------
        Doubt
            Spark could not tell the value, or tells another one tomorrow.
        """
        if self.type is None:
            raise CannotPush("Spark does not tell what the literal is")
        by_clock = isinstance(self.type, DateType | TimestampType | TimestampNTZType)
        if by_clock and any(text.strip()[:1].isalpha() for text in self.texts):
            raise CannotPush("'now' and 'today' are another time whenever they are read")
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

    def spelled(self, column: Field) -> Spelling:
        """The comparison for Spark: as text if the literals are."""
        texts = [literal.spelling for literal in self.literals if isinstance(literal.spelling, str)]
        if len(texts) == len(self.literals) and "$" not in column.sql and not (self.operator == "in" and not texts):
            return self._text(column.sql, texts)
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
        compared: Column = _INFIX[self.operator](subject, values[0])
        return compared

    def _text(self, subject: str, values: Sequence[str]) -> str:
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
    def asks_values(self) -> bool:
        """Whether the literals' values matter to pruning."""
        return self.operator in ("=", "<=>", "in", "contains")

    def node(self) -> Node:
        """The comparison as a tree; literals by which nothing is pruned are left out of it.

        Raises
        ------
        Doubt
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


def resolve(spark: SparkSession, literals: Sequence[Literal]) -> None:
    """Ask Spark for the values of literals, all in one query; those that it cannot tell keep no type."""
    asked = [literal for literal in literals if literal.type is None]
    if not asked:
        return
    try:
        _ask(spark, asked)
    except (PySparkException, pa.ArrowException, ValueError, OverflowError):
        if len(asked) > 1:
            for literal in asked:
                resolve(spark, [literal])


def _ask(spark: SparkSession, literals: Sequence[Literal]) -> None:
    columns = [as_column(literal.spelling).alias(f"c{number}") for number, literal in enumerate(literals)]
    frame = spark.sql("SELECT 1").select(*columns)  # without a job
    types = [item.dataType for item in frame.schema.fields]
    values = [_value(column) for column in frame.toArrow().columns]
    for literal, value, data_type in zip(literals, values, types, strict=True):
        literal.value, literal.type = value, data_type


def _value(column: pa.ChunkedArray) -> Any:
    """The one value of a column, as trees have it."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        wall = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))[0].as_py()
        return None if wall is None else wall.replace(tzinfo=dt.UTC)
    return column[0].as_py()
