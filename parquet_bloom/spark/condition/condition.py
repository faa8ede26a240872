"""Conditions of callers, both as Spark applies them and as predicates for pruning."""

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
    CallIn,
    CallNotIn,
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
from ..session.session_settings import (
    CannotPush,
    SparkField,
    find_field,
    ignores_case,
    is_connect,
    is_set,
    iter_types,
    log,
)
from .literals import Zone, convert_typed_values, convert_values, is_ordered_alike
from .spark_comparison import (
    Comparison,
    ConditionFragment,
    Reading,
    Spelling,
    Term,
    as_column,
    derive_predicate,
    evaluate_literals,
    iter_fragments,
    join_spellings,
    read_call,
    spell_term,
)
from .to_spark import iter_spellings, spell


@dataclass(frozen=True)
class Condition:
    """A predicate over a DataFrame.

    Attributes
    ----------
    where : the condition as Spark applies it.
    node : the predicate for pruning, with exact literals; every row that matches the condition matches it too. None if
        nothing is known.
    fields : the column of each name in `node`.
    problem : the reason that there is no node.
    unknown : the parts that are left to Spark, with the reasons.
    has_floats : whether the DataFrame has a float column.
    is_nondeterministic : whether results depend on other rows, as with `rand(7)`; then all files must be read.
    """

    where: str | Column
    node: Node | None = None
    fields: Mapping[str, SparkField] | None = None
    problem: str = ""
    unknown: tuple[str, ...] = ()
    has_floats: bool = False
    is_nondeterministic: bool = False

    @property
    def meets_zero_or_nan(self) -> bool:
        """True if a float column is compared with zero or NaN, of which filters of other writers have only one form."""
        if self.unknown and self.has_floats:
            return True  # Spark may understand these parts and probe filters for them
        leaves = tree.leaves(self.node) if self.node is not None and self.fields else ()
        return any(
            any(value is not None and (value == 0 or value != value) for value in leaf.literals)
            for leaf in leaves
            if isinstance((self.fields or {})[leaf.column].type, FloatType | DoubleType)
        )


def read_condition(frame: DataFrame, where: Any) -> Condition:
    """Read a condition on a DataFrame: SQL text, pyarrow's filter lists, a predicate tree or a Column.

    Raises
    ------
    PredicateError
        Spark does not understand the condition, or a list is not a valid filter.
    UnknownColumnError
        A list names a column that the DataFrame does not have.
    """
    if not isinstance(where, str | Column):
        return _read_tree(frame, parse(where))
    filtered = filter_frame(frame, where)
    try:
        return _ConditionReader(frame).read(filtered, where)
    except _NonDeterministic as error:
        return Condition(where, problem=str(error), is_nondeterministic=True)
    except (CannotPush, PredicateError) as error:
        return Condition(where, problem=str(error))
    except RecursionError:
        return Condition(where, problem="the condition nests too deeply")


def filter_frame(frame: DataFrame, where: str | Column) -> DataFrame:
    """Apply a condition to a DataFrame and let Spark check it.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    """
    try:
        return analyze(frame.where(where))
    except AnalysisException as error:
        raise PredicateError(f"Spark does not understand {where!r}: {first_line(error)}") from without_secrets(error)
    except (PySparkException, AttributeError, AssertionError) as error:
        if isinstance(where, str):
            raise
        raise PredicateError(f"{where!r} is not a Column of this session") from error


def analyze(frame: DataFrame) -> DataFrame:
    """Analyze a DataFrame now and return it; Spark Connect would do so only when it is used."""
    _ = frame.isStreaming
    return frame


def _has_floats(frame: DataFrame) -> bool:
    return any(isinstance(data_type, FloatType | DoubleType) for data_type in iter_types(frame.schema))


def as_condition(frame: DataFrame, node: Node) -> tuple[Column, dict[str, SparkField]]:
    """Convert a predicate tree to a Column of Spark, and find the column of the DataFrame for each name in it.

    Raises
    ------
    PredicateError
        A name matches several columns, or a literal has no counterpart in Spark.
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
    except CannotPush as error:
        raise PredicateError(str(error)) from None
    return as_column(spell(node, fields)), fields


def _read_tree(frame: DataFrame, node: Node) -> Condition:
    """Read a predicate tree; we write it for Spark, so only its literals can be ambiguous."""
    where, fields = as_condition(frame, node)
    try:
        analyze(frame.where(where))
    except AnalysisException as error:
        raise PredicateError(f"Spark cannot evaluate the comparison: {first_line(error)}") from without_secrets(error)
    coerce = _Coercion(frame.sparkSession)
    unknown: list[str] = []

    def leaf(item: Leaf) -> Node | None:
        try:
            return _coerce_literals(item, fields, coerce.plain(None))
        except CannotPush as error:
            unknown.append(str(error))
            return None

    def combine(item: Connective, nodes: list[Node | None]) -> Node | None:
        known = [child for child in nodes if child is not None]
        is_implied = known and (isinstance(item, And) or len(known) == len(nodes))
        return type(item)(tuple(known)) if is_implied else None

    exact = tree.fold(node, leaf, combine)
    return _make_condition(frame, where, exact, fields, unknown)


def _make_condition(
    frame: DataFrame, where: str | Column, node: Node | None, fields: Mapping[str, SparkField], unknown: Sequence[str]
) -> Condition:
    if node is None:
        return Condition(where, problem="; ".join(dict.fromkeys(unknown)), unknown=tuple(unknown))
    if unknown:
        log.info("left to Spark alone: %s", "; ".join(unknown))
    return Condition(where, node, fields, unknown=tuple(unknown), has_floats=_has_floats(frame))


class _NonDeterministic(CannotPush):
    """The result of a condition for a row depends on other rows."""


class _ConditionReader:
    """Front end for conditions that only Spark can read reliably: SQL text and Columns.

    How Spark reads a text depends on its settings (quotes, escapes, variables, time zone, types of timestamps). So we
    parse each comparison, write it in a form that depends on no setting, and let Spark confirm that both plans are
    equivalent. A comparison without such a proof is assumed to be true of any row.
    """

    def __init__(self, frame: DataFrame):
        self.frame = frame
        self.spark = frame.sparkSession
        self.ignore_case = ignores_case(self.spark)
        self.schema = frame.schema
        self.coerce = _Coercion(self.spark)
        self.fields: dict[str, SparkField] = {}

    def read(self, filtered: DataFrame, where: str | Column) -> Condition:
        term = self._parse(filtered, where)
        if not any(fragment.readings for fragment in iter_fragments(term)):
            self._refuse_nondeterministic([fragment.raw for fragment in iter_fragments(term)])
            raise CannotPush("; ".join(_describe_problem(fragment) for fragment in iter_fragments(term)))
        self._prove(filtered, term)
        self._refuse_nondeterministic([fragment.raw for fragment in iter_fragments(term) if not fragment.readings])
        readings = [fragment.readings[0] for fragment in iter_fragments(term) if fragment.readings]
        evaluate_literals(self.spark, [literal for reading in readings for literal in reading.literals])
        unknown: list[str] = []

        def exact(fragment: ConditionFragment, negated: bool) -> Node | None:
            try:
                if fragment.readings:
                    return fragment.readings[0].exact(negated)
                unknown.append(_describe_problem(fragment))
            except CannotPush as error:
                unknown.append(f"{fragment.text}: {error}")
            return None

        return _make_condition(self.frame, where, derive_predicate(term, exact), self.fields, unknown)

    def _parse(self, filtered: DataFrame, where: str | Column) -> Term:
        from .from_sql import parse_sql_terms

        if isinstance(where, str):
            return parse_sql_terms(where, self._read_node, self._read_comparison)
        if is_connect(self.spark):
            from .from_connect import parse_connect_terms

            return parse_connect_terms(where, self.spark.client, self._read_node, self._read_comparison)
        analyzed = filtered._jdf.queryExecution().analyzed().condition().sql()
        return parse_sql_terms(analyzed, self._read_node, self._read_comparison)

    def _find_field(self, name: str) -> SparkField:
        field = self.fields.get(name) or find_field(self.schema, name, self.ignore_case)
        if field is None:
            raise PredicateError(f"'{name}' is not a column")
        self.fields[name] = field
        return field

    def _read_node(self, node: Node) -> Iterator[Reading]:
        """Iterate over the readings of a comparison that our own parser understands."""
        try:
            fields = {name: self._find_field(name) for name in tree.columns(node)}
        except CannotPush as error:
            raise PredicateError(str(error)) from None
        for timestamp_type in ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ") if _has_naive_datetimes(node) else ("TIMESTAMP_LTZ",):
            for spelling in iter_spellings(node, fields, naive=timestamp_type):
                yield Reading(spelling, _make_exact(node, fields, self.coerce.plain(timestamp_type)))

    def _read_comparison(self, comparison: Comparison) -> Iterator[Reading]:
        """Yield the reading of a comparison whose literals Spark evaluates."""
        try:
            field = self._find_field(comparison.name)
        except (CannotPush, PredicateError):
            return
        literals = comparison.literals

        def exact(negated: bool) -> Node:
            types = [literal.require_type() for literal in literals] if comparison.needs_values else []
            node = comparison.to_node()
            return _make_exact(node, {comparison.name: field}, self.coerce.typed(types))(negated)

        yield Reading(comparison.spell(field), exact, literals if comparison.needs_values else ())

    def _prove(self, filtered: DataFrame, term: Term) -> None:
        """Keep for each comparison the one reading that Spark confirms as equivalent, or none.

        Raises
        ------
        CannotPush
            Spark joins the comparisons in another way than our parser.
        """
        if self._is_same(filtered, spell_term(term)):
            return
        self._prove_fragments([fragment for fragment in iter_fragments(term) if fragment.readings])
        has_readings = any(fragment.readings for fragment in iter_fragments(term))
        if not has_readings or not self._is_same(filtered, spell_term(term)):
            raise CannotPush("Spark reads the condition differently")

    def _prove_fragments(self, fragments: Sequence[ConditionFragment]) -> None:
        while fragments:
            if self._is_same(
                self.frame.where(as_column(join_spellings([fragment.raw for fragment in fragments]))),
                join_spellings([fragment.spelling for fragment in fragments]),
            ):
                return
            if len(fragments) > 1:
                self._prove_fragments(fragments[: len(fragments) // 2])
                fragments = fragments[len(fragments) // 2 :]
            else:
                del fragments[0].readings[0]
                fragments[0].problem = fragments[0].problem or "Spark reads it differently"
                fragments = [fragment for fragment in fragments if fragment.readings]

    def _refuse_nondeterministic(self, raws: Sequence[Spelling]) -> None:
        """Refuse `rand(7)` and the like, whose result for a row depends on the rows that are read before it.

        Spark does not accept such expressions as the condition of a join, which is how they are detected.

        Raises
        ------
        _NonDeterministic
        """
        if not raws:
            return
        try:
            analyze(self.frame.join(self.spark.sql("SELECT 1 AS `another side`"), as_column(join_spellings(raws))))
        except PySparkException as error:
            problem = f"a part of it is not a plain function of a row: {first_line(error)}"
            raise _NonDeterministic(problem) from without_secrets(error)

    def _is_same(self, filtered: DataFrame, spelling: Spelling) -> bool:
        try:
            return filtered.sameSemantics(self.frame.where(as_column(spelling)))
        except PySparkException:
            return False


def _describe_problem(fragment: ConditionFragment) -> str:
    return fragment.problem if fragment.text in fragment.problem else f"{fragment.text}: {fragment.problem}"


def _has_naive_datetimes(node: Node) -> bool:
    literals = (value for leaf in tree.leaves(node) for value in leaf.literals)
    return any(isinstance(value, dt.datetime) and value.tzinfo is None for value in literals)


# Returns the values of a column that Spark finds equal to literals: (literals, type of the column, is it an IN list).
Coerce = Callable[[Sequence[Any], DataType, bool], Sequence[Any]]


class _Coercion:
    """Rules by which a session compares literals with columns."""

    def __init__(self, spark: SparkSession):
        self.zone = Zone(spark)
        self.as_texts = is_set(spark, "spark.sql.legacy.typeCoercion.datetimeToString.enabled")

    def plain(self, naive: str | None) -> Coerce:
        """Return the rule for literals in their usual form; `naive` is the type of datetimes without a zone."""

        def coerce(values: Sequence[Any], data_type: DataType, is_list: bool) -> Sequence[Any]:
            timestamp_type = naive or ("TIMESTAMP_NTZ" if isinstance(data_type, TimestampNTZType) else "TIMESTAMP_LTZ")
            return convert_values(values, data_type, self.zone, stamp=timestamp_type, is_list=is_list or self.as_texts)

        return coerce

    def typed(self, types: Sequence[DataType]) -> Coerce:
        """Return the rule for literals of these types."""

        def coerce(values: Sequence[Any], data_type: DataType, is_list: bool) -> Sequence[Any]:
            return convert_typed_values(values, types, data_type, self.zone, is_list=is_list or self.as_texts)

        return coerce


def _make_exact(node: Node, fields: Mapping[str, SparkField], coerce: Coerce) -> Callable[[bool], Node]:
    return lambda negated: _coerce_literals(tree.negation(node) if negated else node, fields, coerce)


def _coerce_literals(node: Node, fields: Mapping[str, SparkField], coerce: Coerce) -> Node:
    """Return the predicate for pruning: with the values that Spark compares the columns with.

    How Spark orders values of two types is not modelled: of such order comparisons only IS NOT NULL remains.
    """

    def leaf(item: Leaf) -> Node:
        if isinstance(item, NotContains):
            return item
        if isinstance(item, IsNull | IsNotNull) or (isinstance(item, NotIn) and not item.values):
            return item
        if isinstance(item, Compare):
            return _coerce_order(item, fields[item.column].type, coerce)
        if isinstance(item, NotEqual | NotIn | CallNotIn):
            return IsNotNull(item.column)
        if isinstance(item, CallIn):
            return read_call(item, fields[item.column].type)
        if not isinstance(item, Equal | In | Contains):  # a new kind of leaf must not be taken for an equality
            raise CannotPush(f"{item} is not supported")
        data_type = fields[item.column].type
        if isinstance(item, Contains) and isinstance(data_type, ArrayType):
            data_type = data_type.elementType
        try:
            values = tuple(coerce(item.literals, data_type, isinstance(item, In)))
        except CannotPush as error:
            raise CannotPush(f"'{item.column}': {error}") from None
        if isinstance(item, Contains):
            return tree.any_of([Contains(item.column, value) for value in values])
        return Equal(item.column, values[0]) if len(values) == 1 else In(item.column, values)

    def combine(item: Connective, nodes: list[Node]) -> Node:
        return type(item)(tuple(nodes))

    return tree.fold(node, leaf, combine)


def _coerce_order(item: Compare, data_type: DataType, coerce: Coerce) -> Node:
    """Return a comparison by order with the value that Spark compares with, or IS NOT NULL."""
    try:
        values = () if item.value is None else coerce(item.literals, data_type, False)
    except CannotPush:
        values = ()
    is_exact = len(values) == 1 and is_ordered_alike(values, data_type)
    return Compare(item.column, item.operator, values[0]) if is_exact else IsNotNull(item.column)
