"""What pruning found: the plan, and why it is what it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RowGroupDecision:
    """Whether one row group is read.

    Attributes
    ----------
    row_group : its ordinal in the file.
    read : False when no row of it can match.
    by : what ruled it out ("type", "nulls", "range", "filter", "empty"); empty when it is read.
    reason : the same for people.
    doubts : what made nothing better possible, such as a broken filter.
    num_rows : its rows.
    """

    row_group: int
    read: bool
    by: frozenset[str] = frozenset()
    reason: str = ""
    doubts: tuple[str, ...] = ()
    num_rows: int = 0


@dataclass(frozen=True)
class FileDecision:
    """The row groups of one file."""

    path: str
    row_groups: tuple[RowGroupDecision, ...]

    @property
    def selected(self) -> list[int]:
        """Ordinals of the row groups that are read."""
        return [decision.row_group for decision in self.row_groups if decision.read]


class Selection(dict[str, list[int]]):
    """{path: row groups to read}; a file with none has no entry, and asking for it gives an empty list."""

    def __missing__(self, path: str) -> list[int]:
        return []


@dataclass
class PruneReport:
    """Which files and row groups can hold a row that matches.

    Attributes
    ----------
    where : the predicate as text.
    files : a decision a file, in the order given.
    """

    where: str
    files: list[FileDecision] = field(default_factory=list)

    @property
    def selected(self) -> Selection:
        """{path: [row groups to read]}, files with at least one only."""
        return Selection((file.path, file.selected) for file in self.files if file.selected)

    @property
    def total_files(self) -> int:
        return len(self.files)

    @property
    def selected_files(self) -> int:
        return sum(bool(file.selected) for file in self.files)

    @property
    def total_row_groups(self) -> int:
        return sum(len(file.row_groups) for file in self.files)

    @property
    def selected_row_groups(self) -> int:
        return sum(len(file.selected) for file in self.files)

    @property
    def skipped(self) -> list[tuple[str, int, str]]:
        """(path, row group, reason) of each row group that is not read."""
        return [(file.path, d.row_group, d.reason) for file in self.files for d in file.row_groups if not d.read]

    @property
    def doubts(self) -> list[tuple[str, int, str]]:
        """(path, row group, doubt) wherever something was read because evidence could not be used."""
        return [
            (file.path, decision.row_group, doubt)
            for file in self.files
            for decision in file.row_groups
            for doubt in decision.doubts
        ]

    @property
    def skipped_by(self) -> dict[str, int]:
        """How many row groups each kind of evidence (or a combination, as "filter+range") ruled out."""
        return dict(Counter("+".join(sorted(d.by)) for file in self.files for d in file.row_groups if not d.read))

    def __str__(self) -> str:
        def of(count: int, total: int, unit: str) -> str:
            return f"{count:,} of {total:,} {unit}{'' if total == 1 else 's'}"

        files = of(self.selected_files, self.total_files, "file")
        return f"read {files}, {of(self.selected_row_groups, self.total_row_groups, 'row group')}"
