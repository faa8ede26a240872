"""Conditions of callers, both as Spark applies them and as predicates for pruning."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DoubleType, FloatType

from ...errors import PredicateError, UnknownColumnError, first_line
from ...predicate import parse, tree
from ...predicate.tree import IsNotNull, Leaf, Node, VariantLookup
from ...redaction import without_secrets
from ..session.session_settings import (
    CannotPush,
    SparkField,
    find_field,
    ignores_case,
    is_connect,
    iter_types,
    log,
)
from .from_connect import parse_connect_terms
from .from_sql import parse_sql_terms
from .literals import Coercion, is_plain_text, meets_zero_or_nan
from .spark_comparison import (
    Comparison,
    ConditionFragment,
    PatternMatch,
    Reading,
    Spelling,
    Term,
    as_column,
    derive_predicate,
    evaluate_literals,
    iter_fragments,
    join_spellings,
    spell_term,
)
from .to_spark import iter_parts, iter_spellings, spell


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
        return self.fields is not None and meets_zero_or_nan(self.node, self.fields)


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
    node = tree.drop_whole_names(node)
    where, fields = as_condition(frame, node)
    try:
        analyze(frame.where(where))
    except AnalysisException as error:
        raise PredicateError(f"Spark cannot evaluate the comparison: {first_line(error)}") from without_secrets(error)
    coerce = Coercion.of(frame.sparkSession)
    unknown: list[str] = []

    def leaf(item: Leaf) -> Node | bool:
        try:
            return coerce.apply(item, fields)
        except CannotPush as error:
            unknown.append(str(error))
            return True  # of any row, for all that is known

    exact = tree.find_residual(node, leaf)
    return _make_condition(frame, where, exact if isinstance(exact, Node) else None, fields, unknown)


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
        self.coerce = Coercion.of(self.spark)
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
        readers = self._read_node, self._read_comparison, self._read_match
        if isinstance(where, str):
            return parse_sql_terms(where, *readers)
        if is_connect(self.spark):
            return parse_connect_terms(where, self.spark.client, *readers)
        analyzed = filtered._jdf.queryExecution().analyzed().condition().sql()
        return parse_sql_terms(analyzed, *readers)

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
                coerce = replace(self.coerce, naive=timestamp_type)
                yield Reading(spelling, partial(_coerce_term, node, fields, coerce))

    def _read_comparison(self, comparison: Comparison) -> Iterator[Reading]:
        """Yield the reading of a comparison whose literals Spark evaluates."""
        try:
            field = self._find_field(comparison.name)
        except (CannotPush, PredicateError):
            return
        literals = comparison.literals

        def exact(negated: bool) -> Node:
            types = [literal.require_type() for literal in literals] if comparison.needs_values else []
            coerce = replace(self.coerce, types=types)
            return _coerce_term(comparison.to_node(), {comparison.name: field}, coerce, negated)

        item = VariantLookup(comparison.name, *comparison.part, IsNotNull(comparison.name)) if comparison.part else None
        for subject in [field] if item is None else iter_parts(item, field):
            yield Reading(comparison.spell(subject), exact, literals if comparison.needs_values else ())

    def _read_match(self, match: PatternMatch) -> Iterator[Reading]:
        """Yield the reading of a match of a text column with a pattern, or a piece of text."""
        try:
            field = self._find_field(match.name)
        except (CannotPush, PredicateError):
            return
        if is_plain_text(field.type):
            yield Reading(match.spell(field), match.to_node)

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


def _coerce_term(node: Node, fields: Mapping[str, SparkField], coerce: Coercion, negated: bool) -> Node:
    """Return the predicate for pruning of a comparison or of its negation."""
    return coerce.apply(tree.negation(node) if negated else node, fields)
