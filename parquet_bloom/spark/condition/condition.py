"""What a caller asks for, twice: as Spark applies it, and as pruning asks it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, TimestampNTZType

from ...errors import PredicateError, UnknownColumnError, first_line
from ...predicate import parse, tree
from ...predicate.tree import (
    And,
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
from ...redaction import without_secrets
from ..plan.connect import is_connect
from ..session.fallback import CannotPush, log
from ..session.fields import Field, find_field, types_of
from ..session.settings import ignores_case, is_set
from .comparison import Comparison, resolve
from .literals import Zone, exact_values, typed_values
from .terms import Fragment, Reading, Spelling, Term, as_column, derive_predicate, join_spellings, pieces, spell_term
from .to_spark import spell, spellings


@dataclass(frozen=True)
class Condition:
    """A predicate over a DataFrame.

    Attributes
    ----------
    where : as Spark applies it.
    node : as pruning asks it, with exact literals; each row that matches matches it as well. None where nothing is
        known.
    fields : the column that each name of `node` means.
    doubt : why there is no node.
    unknown : the parts that are left to Spark, and why.
    has_floats : whether the DataFrame has a float column.
    chance : whether it gives to a row what depends on other rows, as `rand(7)` does: then all must be read.
    """

    where: str | Column
    node: Node | None = None
    fields: Mapping[str, Field] | None = None
    doubt: str = ""
    unknown: tuple[str, ...] = ()
    has_floats: bool = False
    chance: bool = False

    @property
    def meets_zero_or_nan(self) -> bool:
        """Whether a float column is compared with zero or NaN, of which filters by other writers know one form only."""
        if self.unknown and self.has_floats:
            return True  # Spark may understand more of it, and ask filters
        leaves = tree.leaves(self.node) if self.node is not None and self.fields else ()
        return any(
            any(value is not None and (value == 0 or value != value) for value in leaf.literals)
            for leaf in leaves
            if isinstance((self.fields or {})[leaf.column].type, FloatType | DoubleType)
        )


def read_condition(frame: DataFrame, where: Any) -> Condition:
    """The condition that SQL text, pyarrow's lists, a tree or a Column put on a DataFrame's rows.

    Raises
    ------
    PredicateError
        Spark does not understand the condition, or a list is none.
    UnknownColumnError
        A list names a column that the DataFrame does not have.
    """
    if not isinstance(where, str | Column):
        return _from_tree(frame, parse(where))
    filtered = filter_frame(frame, where)
    try:
        return _Reader(frame).read(filtered, where)
    except _Chance as doubt:
        return Condition(where, doubt=str(doubt), chance=True)
    except (CannotPush, PredicateError) as doubt:
        return Condition(where, doubt=str(doubt))
    except RecursionError:
        return Condition(where, doubt="the condition nests too deeply")


def filter_frame(frame: DataFrame, where: str | Column) -> DataFrame:
    """The DataFrame under a condition that Spark has read.

    Raises
    ------
    PredicateError
        It does not understand it.
    """
    try:
        return analysed(frame.where(where))
    except AnalysisException as error:
        raise PredicateError(f"Spark does not understand {where!r}: {first_line(error)}") from without_secrets(error)
    except (PySparkException, AttributeError, AssertionError) as error:
        if isinstance(where, str):
            raise
        raise PredicateError(f"{where!r} is no Column of this session") from error


def analysed(frame: DataFrame) -> DataFrame:
    """The same DataFrame; Spark Connect would else analyse it only when it is used."""
    _ = frame.isStreaming
    return frame


def _has_floats(frame: DataFrame) -> bool:
    return any(isinstance(data_type, FloatType | DoubleType) for data_type in types_of(frame.schema))


def as_condition(frame: DataFrame, node: Node) -> tuple[Column, dict[str, Field]]:
    """A tree as Spark's own Column, and the column of the DataFrame that each name in it means.

    Raises
    ------
    PredicateError
        A name stands for several columns, or a literal has no counterpart in Spark.
    UnknownColumnError
        There is no such column.
    """
    ignore_case = ignores_case(frame.sparkSession)
    fields = {}
    try:
        for name in sorted(tree.columns(node)):
            field = find_field(frame.schema, name, ignore_case)
            if field is None:
                raise UnknownColumnError("no such column", column=name)
            fields[name] = field
    except CannotPush as doubt:
        raise PredicateError(str(doubt)) from None
    return as_column(spell(node, fields)), fields


def _from_tree(frame: DataFrame, node: Node) -> Condition:
    """A tree is spelled for Spark by us, so that only its literals can be in doubt."""
    where, fields = as_condition(frame, node)
    try:
        analysed(frame.where(where))
    except AnalysisException as error:
        raise PredicateError(f"Spark cannot compare so: {first_line(error)}") from without_secrets(error)
    coerce = _Coercion(frame.sparkSession)
    unknown: list[str] = []

    def leaf(item: Leaf) -> Node | None:
        try:
            return _exact(item, fields, coerce.plain(None))
        except CannotPush as doubt:
            unknown.append(str(doubt))
            return None

    def joined(item: Connective, nodes: list[Node | None]) -> Node | None:
        found = [child for child in nodes if child is not None]
        whole = found and (isinstance(item, And) or len(found) == len(nodes))
        return type(item)(tuple(found)) if whole else None

    exact = tree.fold(node, leaf, joined)
    return _condition(frame, where, exact, fields, unknown)


def _condition(
    frame: DataFrame, where: str | Column, node: Node | None, fields: Mapping[str, Field], unknown: Sequence[str]
) -> Condition:
    if node is None:
        return Condition(where, doubt="; ".join(dict.fromkeys(unknown)), unknown=tuple(unknown))
    if unknown:
        log.info("left to Spark alone: %s", "; ".join(unknown))
    return Condition(where, node, fields, unknown=tuple(unknown), has_floats=_has_floats(frame))


class _Chance(CannotPush):
    """What a condition gives to a row depends on other rows."""


class _Reader:
    """The front end for conditions that Spark alone knows how to read: SQL text and Columns.

    How Spark reads a text depends on its settings (of quotes, escapes, variables, time zone, kinds of timestamps). So
    each comparison is read by us, spelled in a form that depends on none, and Spark is asked whether the two plans mean
    the same; what is not proven so may be true of any row.
    """

    def __init__(self, frame: DataFrame):
        self.frame = frame
        self.spark = frame.sparkSession
        self.ignore_case = ignores_case(self.spark)
        self.schema = frame.schema
        self.coerce = _Coercion(self.spark)
        self.fields: dict[str, Field] = {}

    def read(self, filtered: DataFrame, where: str | Column) -> Condition:
        term = self._terms(filtered, where)
        if not any(piece.readings for piece in pieces(term)):
            self._refuse_chance([piece.raw for piece in pieces(term)])
            raise CannotPush("; ".join(_problem(piece) for piece in pieces(term)))
        self._prove(filtered, term)
        self._refuse_chance([piece.raw for piece in pieces(term) if not piece.readings])
        believed = [piece.readings[0] for piece in pieces(term) if piece.readings]
        resolve(self.spark, [literal for reading in believed for literal in reading.literals])
        unknown: list[str] = []

        def exact(piece: Fragment, negated: bool) -> Node | None:
            try:
                if piece.readings:
                    return piece.readings[0].exact(negated)
                unknown.append(_problem(piece))
            except CannotPush as doubt:
                unknown.append(f"{piece.text}: {doubt}")
            return None

        return _condition(self.frame, where, derive_predicate(term, exact), self.fields, unknown)

    def _terms(self, filtered: DataFrame, where: str | Column) -> Term:
        from .from_sql import sql_terms

        if isinstance(where, str):
            return sql_terms(where, self._of_node, self._of_comparison)
        if is_connect(self.spark):
            from .from_connect import connect_terms

            return connect_terms(where, self.spark.client, self._of_node, self._of_comparison)
        analysed = filtered._jdf.queryExecution().analyzed().condition().sql()
        return sql_terms(analysed, self._of_node, self._of_comparison)

    def _field(self, name: str) -> Field:
        found = self.fields.get(name) or find_field(self.schema, name, self.ignore_case)
        if found is None:
            raise PredicateError(f"'{name}' is no column")
        self.fields[name] = found
        return found

    def _of_node(self, node: Node) -> Iterator[Reading]:
        """The readings of a comparison that our own parser understands."""
        try:
            fields = {name: self._field(name) for name in tree.columns(node)}
        except CannotPush as doubt:
            raise PredicateError(str(doubt)) from None
        for stamp in ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ") if _has_naive(node) else ("TIMESTAMP_LTZ",):
            for spelling in spellings(node, fields, naive=stamp):
                yield Reading(spelling, _exactly(node, fields, self.coerce.plain(stamp)))

    def _of_comparison(self, comparison: Comparison) -> Iterator[Reading]:
        """The reading of a comparison whose literals Spark evaluates."""
        try:
            field = self._field(comparison.name)
        except (CannotPush, PredicateError):
            return
        literals = comparison.literals

        def exact(negated: bool) -> Node:
            types = [literal.known_type() for literal in literals] if comparison.asks_values else []
            node = comparison.node()
            return _exactly(node, {comparison.name: field}, self.coerce.typed(types))(negated)

        yield Reading(comparison.spelled(field), exact, literals if comparison.asks_values else ())

    def _prove(self, filtered: DataFrame, term: Term) -> None:
        """Leave to each comparison the one reading that Spark takes for the same, or none.

        Raises
        ------
        Doubt
            Comparisons are joined in another way than we think.
        """
        if self._is_same(filtered, spell_term(term)):
            return
        self._prove_some([piece for piece in pieces(term) if piece.readings])
        if not any(piece.readings for piece in pieces(term)) or not self._is_same(filtered, spell_term(term)):
            raise CannotPush("Spark reads the condition in a way of its own")

    def _prove_some(self, some: Sequence[Fragment]) -> None:
        while some:
            if self._is_same(
                self.frame.where(as_column(join_spellings([piece.raw for piece in some]))),
                join_spellings([piece.spelling for piece in some]),
            ):
                return
            if len(some) > 1:
                self._prove_some(some[: len(some) // 2])
                some = some[len(some) // 2 :]
            else:
                del some[0].readings[0]
                some[0].problem = some[0].problem or "Spark reads it in a way of its own"
                some = [piece for piece in some if piece.readings]

    def _refuse_chance(self, raws: Sequence[Spelling]) -> None:
        """Refuse `rand(7)` and the like: what they give to a row depends on the rows that are read before it.

        Spark tells by what it takes for a join's condition.

        Raises
        ------
        _Chance
        """
        if not raws:
            return
        try:
            analysed(self.frame.join(self.spark.sql("SELECT 1 AS `another side`"), as_column(join_spellings(raws))))
        except PySparkException as error:
            raise _Chance(f"a part of it is no plain function of a row: {first_line(error)}") from without_secrets(
                error
            )

    def _is_same(self, filtered: DataFrame, spelling: Spelling) -> bool:
        try:
            return filtered.sameSemantics(self.frame.where(as_column(spelling)))
        except PySparkException:
            return False


def _problem(piece: Fragment) -> str:
    return piece.problem if piece.text in piece.problem else f"{piece.text}: {piece.problem}"


def _has_naive(node: Node) -> bool:
    literals = (value for leaf in tree.leaves(node) for value in leaf.literals)
    return any(isinstance(value, dt.datetime) and value.tzinfo is None for value in literals)


# The values of a column of some type that Spark finds equal to the literals of a comparison; True for an IN list.
Coerce = Callable[[Sequence[Any], DataType, bool], Sequence[Any]]


class _Coercion:
    """How a session compares literals with columns."""

    def __init__(self, spark: SparkSession):
        self.zone = Zone(spark)
        self.as_texts = is_set(spark, "spark.sql.legacy.typeCoercion.datetimeToString.enabled")

    def plain(self, naive: str | None) -> Coerce:
        """Literals in their usual spelling; datetimes without zone are `naive`, or what suits the column."""

        def coerce(values: Sequence[Any], data_type: DataType, is_list: bool) -> Sequence[Any]:
            stamp = naive or ("TIMESTAMP_NTZ" if isinstance(data_type, TimestampNTZType) else "TIMESTAMP_LTZ")
            return exact_values(values, data_type, self.zone, stamp=stamp, is_list=is_list or self.as_texts)

        return coerce

    def typed(self, types: Sequence[DataType]) -> Coerce:
        """Literals of these types."""

        def coerce(values: Sequence[Any], data_type: DataType, is_list: bool) -> Sequence[Any]:
            return typed_values(values, types, data_type, self.zone, is_list=is_list or self.as_texts)

        return coerce


def _exactly(node: Node, fields: Mapping[str, Field], coerce: Coerce) -> Callable[[bool], Node]:
    return lambda negated: _exact(tree.negation(node) if negated else node, fields, coerce)


def _exact(node: Node, fields: Mapping[str, Field], coerce: Coerce) -> Node:
    """What pruning may ask: the same predicate with the values that Spark compares the columns with.

    How Spark compares values of two types by order is its own business: there only that a null matches nothing counts.
    """

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
        try:
            values = tuple(coerce(item.literals, data_type, isinstance(item, In)))
        except CannotPush as doubt:
            raise CannotPush(f"'{item.column}': {doubt}") from None
        if isinstance(item, Contains):
            return tree.any_of([Contains(item.column, value) for value in values])
        return Equal(item.column, values[0]) if len(values) == 1 else In(item.column, values)

    def joined(item: Connective, nodes: list[Node]) -> Node:
        return type(item)(tuple(nodes))

    return tree.fold(node, leaf, joined)
