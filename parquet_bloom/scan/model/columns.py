"""Column names and predicates, resolved against the columns of each file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ...errors import UnknownColumnError
from ...file.columns import find_leaves, spellings
from ...file.statistics import ColumnCompatibility
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.tree import Node
from .data_file import DataFile
from .partitions import Partitions
from .plan import ScanRequest


def resolve_names(file: DataFile, names: Iterable[str], ignore_case: bool) -> dict[str, str]:
    """Return {name: the file's spelling of it} for the names that a file has.

    Raises
    ------
    UnknownColumnError
        The file has several columns that differ only in case, and none that is spelled exactly so.
    """
    spelling = {}
    for name in names:
        if find_leaves(file.leaves, name):
            spelling[name] = name
        elif ignore_case and (matches := spellings(file.leaves, name)):
            if len(matches) > 1:
                problem = f"several columns match the name: {', '.join(matches)}"
                raise UnknownColumnError(problem, path=file.path, column=name)
            spelling[name] = matches[0]
    return spelling


class FileResidualEvaluator:
    """The predicate to evaluate on each file's rows: its residual, over columns as the file spells them.

    Parameters
    ----------
    request : the predicate, and how its names and literals are meant.
    partitions : what is known of each file's columns by its folder or table.
    trust : the columns of a file that are shown as other values than it stores; comparisons with them count as true.
    strict : as in `Partitions.make_residuals`.
    """

    def __init__(
        self,
        request: ScanRequest,
        partitions: Partitions,
        trust: ColumnCompatibility | None = None,
        *,
        strict: bool = True,
    ):
        node, self._timezone, self._ignore_case = request
        self._predicate: Node | Literal[True] = True if node is None else node
        self._residuals = (
            partitions.make_residuals(node, self._timezone, ignore_case=self._ignore_case, strict=strict)
            if partitions
            else None
        )
        self._trust = trust
        self._predicates: dict[tuple[int, tuple[tuple[str, str], ...]], PruningPredicate] = {}
        self._weakened: dict[tuple[int, frozenset[str]], Node | bool] = {}

    def predicate_for(self, file: DataFile) -> PruningPredicate | bool:
        """Return the predicate of a file; True if all of its rows match, False if none does.

        Files with the same residual and spelling share one object.
        """
        residual = self._predicate if self._residuals is None else self._residuals.find_residual(file.path)
        if self._trust is not None and not isinstance(residual, bool):
            residual = self._drop_untrusted(residual, file, self._trust)
        if isinstance(residual, bool):
            return residual
        names = resolve_names(file, sorted(tree.columns(residual)), self._ignore_case)
        key = id(residual), tuple(names.items())
        if key not in self._predicates:  # concurrent threads all continue with the same object
            self._predicates.setdefault(key, PruningPredicate(tree.rename_columns(residual, names), self._timezone))
        return self._predicates[key]

    def _drop_untrusted(self, residual: Node, file: DataFile, trust: ColumnCompatibility) -> Node | bool:
        untrusted = frozenset(file.find_doubts(trust))
        if not untrusted:
            return residual
        key = id(residual), untrusted
        if key not in self._weakened:
            weakened = tree.find_residual(residual, lambda leaf: leaf.column in untrusted or leaf)
            self._weakened.setdefault(key, weakened)
        return self._weakened[key]
