"""Conditions on the moment of a query: `current_timestamp()`, `current_user()`, 'now'.

Spark puts values in their place each time that it plans. Files are asked once, for a DataFrame that may be used hours
later: from such conditions nothing may be concluded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from ..session.fallback import CannotPush
from ..session.jvm import Jvm, class_name, elements
from .catalyst_plan import of_plan

_CATALYST = "org.apache.spark.sql.catalyst"


def without_clock(jvm: Jvm, frame: DataFrame) -> DataFrame:
    """A DataFrame whose filters say nothing of the moment: with all rows that the given one has at any time.

    Raises
    ------
    Doubt
        The moment counts elsewhere than in what filters ask.
    """
    clock = _Clock(jvm)
    analysed = frame._jdf.queryExecution().analyzed()
    if not clock.in_plan(analysed):
        return frame
    plan = _rebuilt(jvm, analysed, clock)
    if clock.in_plan(plan):
        raise CannotPush("a part of the query depends on when it is asked")
    return of_plan(jvm, plan)


def _rebuilt(jvm: Jvm, node: Any, clock: _Clock) -> Any:
    children = [_rebuilt(jvm, child, clock) for child in elements(node.children())]
    if class_name(node) != "Filter":
        return node.withNewChildren(jvm.seq(children)) if children else node
    (child,) = children
    for conjunct in _conjuncts(node.condition()):
        made = _filter(jvm, conjunct, child)
        if not clock.in_plan(_filter(jvm, conjunct, clock.nothing)):
            child = made
    return child


def _filter(jvm: Jvm, condition: Any, child: Any) -> Any:
    return jvm.package(f"{_CATALYST}.plans.logical.Filter")(condition, child)


def _conjuncts(condition: Any) -> Iterator[Any]:
    if class_name(condition) != "And":
        yield condition
        return
    for child in elements(condition.children()):
        yield from _conjuncts(child)


class _Clock:
    """Finds what Spark's planner puts values in the place of."""

    def __init__(self, jvm: Jvm):
        trees = jvm.package(f"{_CATALYST}.trees.TreePattern")
        self._functions = trees.CURRENT_LIKE()
        rule = jvm.package(f"{_CATALYST}.optimizer.SpecialDatetimeValues$")
        self._texts = getattr(rule, "MODULE$")  # 'now', 'today' and the like, cast to moments and days
        self.nothing = jvm.package(f"{_CATALYST}.plans.logical.OneRowRelation")()

    def in_plan(self, plan: Any) -> bool:
        """Whether a plan, or a subquery of it, depends on when it is asked."""
        if plan.containsPattern(self._functions):
            return True
        several: Sequence[Any] = [plan, *elements(plan.subqueriesAll())]
        return any(not self._texts.apply(one).fastEquals(one) for one in several)
