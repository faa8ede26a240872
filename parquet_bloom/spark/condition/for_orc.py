"""A condition as ORC files can be asked: values as Spark stores them, and what is known where it shows others."""

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
    """What files are asked, and what Spark may ask them.

    Attributes
    ----------
    condition : its node asks for values as they are stored; None where nothing is left that could be asked.
    misleads : whether Spark's own tasks skip rows that match, if they are told of it.
    """

    condition: Condition
    misleads: bool


def adapt_to_orc(condition: Condition) -> OrcCondition:
    """A condition over a DataFrame's values as one over those that its ORC files store.

    ORC timestamps are wall clocks, which Spark shows as instants by the zone of each task's JVM: a day around them is
    asked for. What it calls TIMESTAMP_NTZ is stored as microseconds. Days before 1582-10-15 are counted by two
    calendars, of which Spark's own tasks take the wrong one.
    """
    if condition.node is None or condition.fields is None:
        return OrcCondition(condition, condition.meets_zero_or_nan)
    asked = _Stored(condition.fields)
    node = tree.fold(condition.node, asked.leaf, asked.joined)
    unknown = (*condition.unknown, *asked.unknown)
    if node is not None and asked.unknown:
        log.info("left to Spark alone: %s", "; ".join(asked.unknown))
    stored = replace(condition, node=node, doubt="; ".join(dict.fromkeys(unknown)), unknown=unknown)
    return OrcCondition(stored, asked.misleads or condition.meets_zero_or_nan)


class _Stored:
    def __init__(self, fields: Mapping[str, Field]):
        self._fields = fields
        self.unknown: list[str] = []
        self.misleads = False

    def leaf(self, item: Leaf) -> Node | None:
        data_type = self._fields[item.column].type
        if isinstance(item, Contains):
            self.unknown.append(f"{item}: ORC files tell nothing of what is inside of lists")
            return None
        if not isinstance(item, Equal | In) or all(value is None for value in item.literals):
            return item
        values: list[Any] = [value for value in item.literals if value is not None]
        if isinstance(data_type, DateType):
            if any(value < _FIRST_DAY for value in values):
                self.misleads = True
                self.unknown.append(f"{item}: days before {_FIRST_DAY} are counted by two calendars")
                return None
        elif isinstance(data_type, TimestampNTZType):
            return _with_values(item, [(value - _EPOCH) // _MICROSECOND for value in values])
        elif isinstance(data_type, TimestampType):
            return self._around(item, values)
        return item

    def _around(self, item: Leaf, values: Sequence[dt.datetime]) -> Node | None:
        walls = sorted(value.astimezone(dt.UTC).replace(tzinfo=None) for value in values)
        if walls[0].date() <= _FIRST_DAY + _MARGIN:
            self.unknown.append(f"{item}: timestamps before {_FIRST_DAY} are counted by two calendars")
            return None
        try:
            low, high = walls[0] - _MARGIN, walls[-1] + _MARGIN
        except OverflowError:
            self.unknown.append(f"{item}: a day later is not in the calendar")
            return None
        return And((Compare(item.column, ">=", low), Compare(item.column, "<=", high)))

    def joined(self, item: Connective, nodes: list[Node | None]) -> Node | None:
        found = [child for child in nodes if child is not None]
        whole = found and (isinstance(item, And) or len(found) == len(nodes))
        return type(item)(tuple(found)) if whole else None


def _with_values(item: Leaf, values: list[Any]) -> Node:
    return Equal(item.column, values[0]) if len(values) == 1 else In(item.column, tuple(values))
