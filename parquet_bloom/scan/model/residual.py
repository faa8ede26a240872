"""The interface of residuals: what the partition values of a file leave of a predicate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ...predicate.reason import Reason
from ...predicate.tree import Node


class Residuals(Protocol):
    """The residual of a predicate for each file; see `partitions.PartitionResiduals`."""

    @property
    def doubts(self) -> tuple[Reason, ...]: ...

    @property
    def is_unchanged(self) -> bool: ...

    def find_residual(self, path: str) -> Node | bool: ...

    def describe(self, path: str) -> str: ...


def describe_values(values: Iterable[tuple[str, Any]], source: str = "its folder") -> str:
    """Describe the partition values that rule a file out, given as (column, value), and where they are from."""
    described = (f"{name} is {'null' if value is None else value}" for name, value in values)
    return f"{source} says {', '.join(described)}"
