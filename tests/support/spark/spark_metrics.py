"""Metrics of the scans in a classic DataFrame's plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def children(node: Any) -> Iterator[Any]:
    kind = node.getClass().getSimpleName()
    combined = [node.children(), node.subqueries()]
    yield from (items.apply(number) for items in combined for number in range(items.size()))
    if kind == "AdaptiveSparkPlanExec":
        yield node.executedPlan()
    elif kind.endswith("QueryStageExec"):
        yield node.plan()
    elif kind == "InMemoryTableScanExec":
        yield node.relation().cachedPlan()


def opened(frame: Any) -> list[int]:
    """Return the number of files that each scan of an executed plan has opened."""
    stack, results = [frame._jdf.queryExecution().executedPlan()], []
    while stack:
        node = stack.pop()
        if node.getClass().getSimpleName() == "FileSourceScanExec":
            results.append(int(node.metrics().apply("numFiles").value()))
        stack += children(node)
    return sorted(results)


def planned_files(frame: Any) -> list[str]:
    """Return the files that the scans of a classic DataFrame's plan read, each once."""
    stack, files = [frame._jdf.queryExecution().sparkPlan()], set()
    while stack:
        node = stack.pop()
        if node.getClass().getSimpleName() == "FileSourceScanExec":
            files.update(file.filePath().toString() for file in node.selectedPartitions().toPartitionArray())
        stack += children(node)
    return sorted(files)
