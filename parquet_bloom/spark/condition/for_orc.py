"""Conditions for ORC files: literals as Spark stores them, widened where it shows other values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from ...predicate import tree
from ...predicate.tree import And, Compare, Connective, Contains, Equal, In, Leaf, Node
from ..session.fallback import log
from ..session.fields import Field
from .condition import Condition

_FIRST_DAY = dt.date(1582, 10, 15)
_MARGIN = dt.timedelta(days=1)
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class OrcCondition:
    """A condition over stored values.

    Attributes
    ----------
    condition : its node has values as they are stored; the node is None if nothing is left to evaluate.
    misleads : whether Spark's own tasks would skip matching rows if the condition were pushed down to them.
    """

    condition: Condition
    misleads: bool


def adapt_to_orc(condition: Condition) -> OrcCondition:
    """Convert a condition over the values of a DataFrame to one over the values stored in its ORC files.

    ORC timestamps are local times, which Spark shows as instants in the time zone of each task's JVM, so a day before
    and after them is included. TIMESTAMP_NTZ is stored as microseconds. Days before 1582-10-15 differ between two
    calendars, and Spark's own tasks use the wrong one.
    """
    if condition.node is None or condition.fields is None:
        return OrcCondition(condition, condition.meets_zero_or_nan)
    translator = _Translator(condition.fields)
    node = tree.fold(condition.node, translator.leaf, translator.combine)
    unknown = (*condition.unknown, *translator.unknown)
    if node is not None and translator.unknown:
        log.info("left to Spark alone: %s", "; ".join(translator.unknown))
    stored = replace(condition, node=node, problem="; ".join(dict.fromkeys(unknown)), unknown=unknown)
    return OrcCondition(stored, translator.misleads or condition.meets_zero_or_nan)


class _Translator:
    """Converter of a condition's leaves, which collects what cannot be converted."""

    def __init__(self, fields: Mapping[str, Field]):
        self._fields = fields
        self.unknown: list[str] = []
        self.misleads = False

    def leaf(self, item: Leaf) -> Node | None:
        data_type = self._fields[item.column].type
        if isinstance(item, Contains):
            self.unknown.append(f"{item}: ORC files have no statistics of list elements")
            return None
        if not isinstance(item, Equal | In) or all(value is None for value in item.literals):
            return item
        values: list[Any] = [value for value in item.literals if value is not None]
        if isinstance(data_type, DateType):
            if any(value < _FIRST_DAY for value in values):
                self.misleads = True
                self.unknown.append(f"{item}: days before {_FIRST_DAY} differ between two calendars")
                return None
        elif isinstance(data_type, TimestampNTZType):
            return _with_values(item, [(value - _EPOCH) // _MICROSECOND for value in values])
        elif isinstance(data_type, TimestampType):
            return self._widen(item, values)
        return item

    def _widen(self, item: Leaf, values: Sequence[dt.datetime]) -> Node | None:
        local_times = sorted(value.astimezone(dt.UTC).replace(tzinfo=None) for value in values)
        if local_times[0].date() <= _FIRST_DAY + _MARGIN:
            self.unknown.append(f"{item}: timestamps before {_FIRST_DAY} differ between two calendars")
            return None
        try:
            low, high = local_times[0] - _MARGIN, local_times[-1] + _MARGIN
        except OverflowError:
            self.unknown.append(f"{item}: a day later or earlier is out of range")
            return None
        return And((Compare(item.column, ">=", low), Compare(item.column, "<=", high)))

    def combine(self, item: Connective, nodes: list[Node | None]) -> Node | None:
        known = [child for child in nodes if child is not None]
        is_implied = known and (isinstance(item, And) or len(known) == len(nodes))
        return type(item)(tuple(known)) if is_implied else None


def _with_values(item: Leaf, values: list[Any]) -> Node:
    return Equal(item.column, values[0]) if len(values) == 1 else In(item.column, tuple(values))
