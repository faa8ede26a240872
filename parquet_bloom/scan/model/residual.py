"""The interface of residuals: what the partition values of a file leave of a predicate."""

from __future__ import annotations

from typing import Protocol

from ...predicate.reason import Reason
from ...predicate.tree import Node


class Residuals(Protocol):
    """The residual of a predicate for each file; see `partitions.PartitionResiduals`."""

    @property
    def doubts(self) -> tuple[Reason, ...]: ...

    @property
    def whole(self) -> bool: ...

    def of(self, path: str) -> Node | bool: ...

    def told(self, path: str) -> str: ...
