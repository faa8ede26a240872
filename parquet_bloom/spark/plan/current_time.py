"""Conditions that depend on the time of a query: `current_timestamp()`, `current_user()`, 'now'.

Spark replaces them by values each time that it plans. Files are pruned once, for a DataFrame that may be used hours
later, so such conditions must not be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from ..session.fallback import CannotPush
from ..session.jvm import Jvm, class_name, iter_elements
from .catalyst_plan import make_dataframe

_CATALYST = "org.apache.spark.sql.catalyst"


def drop_time_conditions(jvm: Jvm, frame: DataFrame) -> DataFrame:
    """Remove conditions on the current time from the filters of a DataFrame; it then has the rows of any time.

    Raises
    ------
    CannotPush
        Something other than a filter depends on the current time.
    """
    clock = _TimeDetector(jvm)
    analyzed = frame._jdf.queryExecution().analyzed()
    if not clock.in_plan(analyzed):
        return frame
    plan = _rebuild(jvm, analyzed, clock)
    if clock.in_plan(plan):
        raise CannotPush("a part of the query depends on the time when it runs")
    return make_dataframe(jvm, plan)


def _rebuild(jvm: Jvm, node: Any, clock: _TimeDetector) -> Any:
    children = [_rebuild(jvm, child, clock) for child in iter_elements(node.children())]
    if class_name(node) != "Filter":
        return node.withNewChildren(jvm.seq(children)) if children else node
    (child,) = children
    for conjunct in _iter_conjuncts(node.condition()):
        filtered = _make_filter(jvm, conjunct, child)
        if not clock.in_plan(_make_filter(jvm, conjunct, clock.empty_plan)):
            child = filtered
    return child


def _make_filter(jvm: Jvm, condition: Any, child: Any) -> Any:
    return jvm.package(f"{_CATALYST}.plans.logical.Filter")(condition, child)


def _iter_conjuncts(condition: Any) -> Iterator[Any]:
    if class_name(condition) != "And":
        yield condition
        return
    for child in iter_elements(condition.children()):
        yield from _iter_conjuncts(child)


class _TimeDetector:
    """Detector of expressions that Spark's planner replaces by the current time, user and the like."""

    def __init__(self, jvm: Jvm):
        trees = jvm.package(f"{_CATALYST}.trees.TreePattern")
        self._functions = trees.CURRENT_LIKE()
        rule = jvm.package(f"{_CATALYST}.optimizer.SpecialDatetimeValues$")
        self._texts = getattr(rule, "MODULE$")  # 'now', 'today' and the like, cast to timestamps and dates
        self.empty_plan = jvm.package(f"{_CATALYST}.plans.logical.OneRowRelation")()

    def in_plan(self, plan: Any) -> bool:
        """Return True if a plan, or a subquery of it, depends on the time when it runs."""
        if plan.containsPattern(self._functions):
            return True
        plans: Sequence[Any] = [plan, *iter_elements(plan.subqueriesAll())]
        return any(not self._texts.apply(item).fastEquals(item) for item in plans)
