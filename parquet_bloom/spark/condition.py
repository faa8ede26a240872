"""What a caller asks for, twice: as Spark applies it, and as pruning asks it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DoubleType, FloatType, TimestampNTZType

from ..errors import PredicateError, UnknownColumnError
from ..predicate import parse, tree
from ..predicate.tree import (
    Compare,
    Connective,
    Contains,
    Equal,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Node,
    NotContains,
    NotEqual,
    NotIn,
)
from .doubt import Doubt
from .exact import Zone, exact_values
from .fields import Field, find_field
from .settings import ignores_case, is_set
from .spelling import spell


@dataclass(frozen=True)
class Condition:
    """A predicate over a DataFrame.

    Attributes
    ----------
    where : as Spark applies it.
    node : as pruning asks it, with exact literals; None where that is in doubt.
    fields : the column that each name of `node` means.
    doubt : why there is no node.
    """

    where: str | Column
    node: Node | None = None
    fields: Mapping[str, Field] | None = None
    doubt: str = ""

    @property
    def meets_zero_or_nan(self) -> bool:
        """Whether a float column is compared with zero or NaN, of which filters by other writers know one form only."""
        leaves = tree.leaves(self.node) if self.node is not None and self.fields else ()
        return any(
            any(value is not None and (value == 0 or value != value) for value in leaf.literals)
            for leaf in leaves
            if isinstance((self.fields or {})[leaf.column].type, FloatType | DoubleType)
        )


def read_condition(frame: DataFrame, where: Any) -> Condition:
    """The condition that SQL text, pyarrow's lists or a tree put on a DataFrame's rows.

    Raises
    ------
    PredicateError
        Spark does not understand the text, or a list is no condition.
    UnknownColumnError
        A list names a column that the DataFrame does not have.
    """
    spark = frame.sparkSession
    ignore_case = ignores_case(spark)
    if not isinstance(where, str):
        return _from_tree(frame, parse(where), ignore_case)
    try:
        filtered = _analysed(frame.where(where))
    except AnalysisException as error:
        raise PredicateError(f"Spark does not understand {where!r}: {str(error).splitlines()[0]}") from error
    try:
        return _from_text(frame, filtered, where, ignore_case)
    except (Doubt, PredicateError) as doubt:
        return Condition(where, doubt=str(doubt))


def _analysed(frame: DataFrame) -> DataFrame:
    """The same DataFrame; Spark Connect would else analyse it only when it is used."""
    _ = frame.isStreaming
    return frame


def _from_tree(frame: DataFrame, node: Node, ignore_case: bool) -> Condition:
    """A tree is spelled for Spark by us, so that only its literals can be in doubt."""
    fields = {}
    try:
        for name in sorted(tree.columns(node)):
            field = find_field(frame.schema, name, ignore_case)
            if field is None:
                raise UnknownColumnError("no such column", column=name)
            fields[name] = field
    except Doubt as doubt:
        raise PredicateError(str(doubt)) from None
    where = spell(node, fields)
    try:
        _analysed(frame.where(where))
    except AnalysisException as error:
        raise PredicateError(f"Spark cannot compare so: {str(error).splitlines()[0]}") from error
    try:
        return Condition(where, _exact(frame.sparkSession, node, fields, naive=None, split=False), fields)
    except Doubt as doubt:
        return Condition(where, doubt=str(doubt))


def _from_text(frame: DataFrame, filtered: DataFrame, where: str, ignore_case: bool) -> Condition:
    """The tree that our own parser reads, if Spark's analysis shows that it reads the same.

    How Spark reads a text depends on its settings (of quotes, escapes, variables, time zone, kinds of timestamps); so
    the tree is spelled in forms that depend on none, and Spark is asked whether the two plans mean the same.
    """
    node = parse(where, "spark")
    fields = {}
    for name in tree.columns(node):
        field = find_field(frame.schema, name, ignore_case)
        if field is None:
            raise Doubt(f"'{name}' is no column")
        fields[name] = field
    has_lists = any(isinstance(leaf, In | NotIn) for leaf in tree.leaves(node))
    stamps = ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ") if _has_naive(node) else ("TIMESTAMP_LTZ",)
    for stamp, split in product(stamps, (False, True) if has_lists else (False,)):
        try:
            same = filtered.sameSemantics(frame.where(spell(node, fields, naive=stamp, split=split)))
        except AnalysisException:
            continue
        if same:
            exact = _exact(frame.sparkSession, node, fields, naive=stamp, split=split)
            return Condition(where, exact, fields)
    raise Doubt("Spark reads the condition in a way of its own")


def _has_naive(node: Node) -> bool:
    literals = (value for leaf in tree.leaves(node) for value in leaf.literals)
    return any(isinstance(value, dt.datetime) and value.tzinfo is None for value in literals)


def _exact(spark: SparkSession, node: Node, fields: Mapping[str, Field], naive: str | None, split: bool) -> Node:
    """What pruning may ask: the same predicate with the values that Spark compares the columns with.

    How Spark compares values of two types by order is its own business: there only that a null matches nothing counts.
    """
    zone = Zone(spark)
    as_texts = is_set(spark, "spark.sql.legacy.typeCoercion.datetimeToString.enabled")

    def leaf(item: Leaf) -> Node:
        if isinstance(item, NotContains):
            return item
        if isinstance(item, IsNull | IsNotNull) or (isinstance(item, NotIn) and not item.values):
            return item
        if isinstance(item, Compare | NotEqual | NotIn):
            return IsNotNull(item.column)
        data_type = fields[item.column].type
        if isinstance(item, Contains) and isinstance(data_type, ArrayType):
            data_type = data_type.elementType
        stamp = naive or ("TIMESTAMP_NTZ" if isinstance(data_type, TimestampNTZType) else "TIMESTAMP_LTZ")
        is_list = as_texts or (isinstance(item, In) and not split)
        try:
            values = tuple(exact_values(item.literals, data_type, zone, stamp=stamp, is_list=is_list))
        except Doubt as doubt:
            raise Doubt(f"'{item.column}': {doubt}") from None
        if isinstance(item, Contains):
            return tree.any_of([Contains(item.column, value) for value in values])
        return Equal(item.column, values[0]) if len(values) == 1 else In(item.column, values)

    def join(item: Connective, nodes: list[Node]) -> Node:
        return type(item)(tuple(nodes))

    return tree.fold(node, leaf, join)
