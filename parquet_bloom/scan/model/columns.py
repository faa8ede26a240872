"""Column names and predicates, resolved against the columns of each file."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import UnknownColumnError
from ...file.columns import find_leaves, spellings
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from .data_file import DataFile
from .partitions import PartitionResiduals


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
    residuals : what partition values leave of the predicate.
    timezone : zone of literals without one.
    ignore_case : match names whatever their case.
    """

    def __init__(self, residuals: PartitionResiduals, timezone: str, ignore_case: bool):
        self._residuals = residuals
        self._timezone = timezone
        self._ignore_case = ignore_case
        self._predicates: dict[tuple[int, tuple[tuple[str, str], ...]], PruningPredicate] = {}

    def predicate_for(self, file: DataFile) -> PruningPredicate | bool:
        """Return the predicate of a file; True if all of its rows match, False if none does.

        Files with the same residual and spelling share one object.
        """
        residual = self._residuals.of(file.path)
        if isinstance(residual, bool):
            return residual
        names = resolve_names(file, sorted(tree.columns(residual)), self._ignore_case)
        key = id(residual), tuple(names.items())
        if key not in self._predicates:
            self._predicates[key] = PruningPredicate(tree.rename_columns(residual, names), self._timezone)
        return self._predicates[key]
