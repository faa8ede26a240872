"""The condition on a table as its planner takes it, and the part of it that is decided for each row in tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import DateType, DoubleType, FloatType, TimestampType

from ...file.reader import BloomFile
from ...hashing.column_type import ColumnType
from ...predicate import tree
from ...predicate.tree import And, Compare, Connective, Equal, In, IsNotNull, IsNull, Leaf, Node
from ...scan.compatibility import DatasetCompatibility
from ..condition.condition import Condition
from ..condition.literals import find_equal_values, is_atomic
from ..scan.parquet_columns import NO_COLUMN, is_stored_as
from ..scan.trust import SparkCompatibility
from ..session.fallback import log
from ..session.fields import Field


@dataclass(frozen=True)
class TablePredicate:
    """What is known of a condition on a table; every row that meets the condition meets both nodes.

    Attributes
    ----------
    node : for planning; None if nothing is known.
    rows : for each row, with comparisons that Spark decides by equal values alone; None for all rows.
    fields : the column of each name, as the table spells it.
    follows_bounds : whether Spark may skip rows by the bounds of columns: not if NaN may match, which they leave out.
    """

    node: Node | None = None
    rows: Node | None = None
    fields: Mapping[str, Field] = field(default_factory=dict)
    follows_bounds: bool = False

    @classmethod
    def of(cls, condition: Condition | None, partition_columns: Collection[str]) -> TablePredicate:
        """Return the predicate of a condition.

        Parameters
        ----------
        partition_columns : columns whose values the table's metadata has, by which each file is decided like a row.
        """
        if condition is None or condition.node is None or condition.fields is None:
            if condition is not None:
                log.warning("all files are read: %s", condition.problem)
            return cls()
        names = tree.columns(condition.node)
        found = {name: condition.fields[name] for name in names}
        if any("." in part for item in found.values() for part in item.path):
            log.warning("all files are read: the condition has a column with a dot in its name")
            return cls()
        node = tree.rename_columns(condition.node, {name: item.name for name, item in found.items()})
        fields = {item.name: item for item in found.values()}

        def plan(item: Leaf) -> Leaf:
            if item.column not in partition_columns:
                return item
            inexact = IsNotNull(item.column) if isinstance(item, Equal | In) else item
            return _find_exact(item, fields[item.column]) or inexact

        def join(item: Connective, nodes: list[Node | None]) -> Node | None:
            known = [child for child in nodes if child is not None]
            is_implied = known and (isinstance(item, And) or len(known) == len(nodes))
            return type(item)(tuple(known)) if is_implied else None

        planned = tree.find_residual(node, plan)
        assert isinstance(planned, Node)
        rows = tree.fold(node, lambda item: _find_exact(item, fields[item.column]), join)
        meets_nan = any(_may_match_nan(item, fields[item.column]) for item in tree.leaves(node))
        return cls(planned, rows, fields, not condition.unknown and not meets_nan)


def _may_match_nan(item: Leaf, column: Field) -> bool:
    """Return whether NaN may meet a comparison; of orders and inequalities of floats only IS NOT NULL is known."""
    if not isinstance(column.type, FloatType | DoubleType) or isinstance(item, IsNull):
        return False
    return not isinstance(item, Equal | In) or any(value is not None and value != value for value in item.literals)


def _find_exact(item: Leaf, column: Field) -> Leaf | None:
    """Return a comparison with values of the column's type, or None if Spark may find other rows equal."""
    if not is_atomic(column.type):
        return None
    if isinstance(item, IsNull | IsNotNull | Compare):  # orders are of the column's type
        return item
    if not isinstance(item, Equal | In):
        return None
    values = find_equal_values(item.literals, column.type)
    if values is None:
        return None
    return Equal(item.column, values[0]) if isinstance(item, Equal) else In(item.column, tuple(values))


@dataclass(frozen=True)
class TableCompatibility(DatasetCompatibility):
    """`file.statistics.ColumnCompatibility` of a table that Spark reads, by its own scan or in tasks.

    Attributes
    ----------
    by_spark : where Spark shows other values than are stored.
    """

    by_spark: SparkCompatibility

    @property
    def by_schema(self) -> bool:
        return False

    def doubts(self, file: BloomFile) -> dict[str, str]:
        by_spark = {name: doubt for name, doubt in self.by_spark.doubts(file).items() if doubt is not NO_COLUMN}
        return {**by_spark, **super().doubts(file)}

    def is_same(self, column: str, stored: ColumnType) -> bool:
        """Return whether an index knows the values that Spark shows; of days it does not know by which calendar."""
        data_type = dict(self.by_spark.fields)[column].type
        is_dated = isinstance(data_type, DateType | TimestampType)
        return not is_dated and is_stored_as(data_type, stored) and super().is_same(column, stored)
