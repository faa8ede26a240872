"""Names of a predicate, and the predicate itself, as each file spells its columns."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import UnknownColumnError
from ...file.columns import find_leaves, spellings
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from .data_file import DataFile
from .partitions import PartitionResiduals


def spelled(file: DataFile, names: Iterable[str], ignore_case: bool) -> dict[str, str]:
    """{name: as the file spells it} of those names that the file has.

    Raises
    ------
    UnknownColumnError
        The file has several columns that differ in nothing but their case, and none of that very name.
    """
    found = {}
    for name in names:
        if find_leaves(file.leaves, name):
            found[name] = name
        elif ignore_case and (several := spellings(file.leaves, name)):
            if len(several) > 1:
                problem = f"the name stands for several columns: {', '.join(several)}"
                raise UnknownColumnError(problem, path=file.path, column=name)
            found[name] = several[0]
    return found


class FileResidualEvaluator:
    """The predicate that each file's rows are asked: what its folders have left, over columns as the file spells them.

    Parameters
    ----------
    left : what folders have left.
    timezone : zone of literals without one.
    ignore_case : match names whatever their case.
    """

    def __init__(self, left: PartitionResiduals, timezone: str, ignore_case: bool):
        self._left = left
        self._timezone = timezone
        self._ignore_case = ignore_case
        self._known: dict[tuple[int, tuple[tuple[str, str], ...]], PruningPredicate] = {}

    def of(self, file: DataFile) -> PruningPredicate | bool:
        """One for all files that are asked the same; True where every row matches, False where none does."""
        left = self._left.of(file.path)
        if isinstance(left, bool):
            return left
        names = spelled(file, sorted(tree.columns(left)), self._ignore_case)
        key = id(left), tuple(names.items())
        if key not in self._known:
            self._known[key] = PruningPredicate(tree.rename_columns(left, names), self._timezone)
        return self._known[key]
