"""The cells of the picture: a row a file and a column a row group, or, of many, a cell for several of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...errors import printable
from ...util.wording import format_bytes
from ..model.decision import FilePlan, ScanPlan
from .details import PlanDetails, RowGroupLook
from .states import CellState, in_order, state_of, state_of_file

_NAMED = 3  # row groups that a cell of several names, and doubts that a cell of one has
_REASON, _NAME, _SHORT = 160, 100, 44  # characters of a reason or doubt, of a file's name, of one among others


@dataclass
class Cell:
    """One row group, or several.

    Attributes
    ----------
    states : how many row groups have which fate; of a file that was not opened, the file itself.
    text : what they are, for people.
    column, width : where it stands, and how many columns it takes.
    """

    states: Counter[CellState]
    text: str
    column: int
    width: int = 1

    @property
    def main(self) -> CellState:
        """The fate that matters most."""
        return in_order([*self.states])[0]


@dataclass
class Row:
    """One file, or several.

    Attributes
    ----------
    label : short.
    text : the same at length.
    note : what is read of it.
    cells : at most one a column.
    """

    label: str
    text: str
    note: str
    cells: list[Cell]


@dataclass
class Grid:
    """All of it.

    Attributes
    ----------
    rows : from top to bottom.
    heads : a column's title each.
    states : how many row groups have which fate.
    prefix : what all files' paths begin with; labels leave it out.
    files_a_row, groups_a_cell : how many files and row groups are taken together; 1 for none.
    """

    rows: list[Row] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    states: Counter[CellState] = field(default_factory=Counter)
    prefix: str = ""
    files_a_row: int = 1
    groups_a_cell: int = 1


def grid_of(report: ScanPlan, look: PlanDetails | None, max_rows: int, max_columns: int) -> Grid:
    """Lay out a report.

    Parameters
    ----------
    report : of `prune`.
    look : what is known beyond it; None for nothing.
    max_rows, max_columns : of the grid.
    """
    grid = Grid(prefix=_prefix([file.path for file in report.files]))
    most = max((len(file.row_groups) for file in report.files), default=0)
    grid.files_a_row = max(1, -(-len(report.files) // max_rows))
    grid.groups_a_cell = max(1, -(-most // max_columns))
    columns = -(-most // grid.groups_a_cell) or 1
    grid.heads = [_numbers(i * grid.groups_a_cell, grid.groups_a_cell, most) for i in range(columns)]
    for start in range(0, len(report.files), grid.files_a_row):
        files = report.files[start : start + grid.files_a_row]
        grid.rows.append(_row(files, start, grid, look, columns))
    for row in grid.rows:
        for cell in row.cells:
            grid.states.update(cell.states)
    return grid


def _prefix(paths: Sequence[str]) -> str:
    """The folders that all paths begin with, of URLs too."""
    folders = sorted({path.rpartition("/")[0] + "/" for path in paths})
    if not folders:
        return ""
    first, last = folders[0], folders[-1]  # what these two share, all share
    same = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: first.rfind("/", 0, same) + 1]


def _numbers(first: int, count: int, total: int) -> str:
    last = min(first + count, total) - 1
    return f"{first}" if last <= first else f"{first}–{last}"


def _row(files: Sequence[FilePlan], start: int, grid: Grid, look: PlanDetails | None, columns: int) -> Row:
    looks = [look.files.get(file.path) if look is not None else None for file in files]
    read = sum(len(file.selected) for file in files)
    total = sum(len(file.row_groups) for file in files)
    if len(files) == 1:
        text = label = _brief(files[0].path[len(grid.prefix) :], 2 * _REASON)
    else:
        label = f"files {start + 1:,}–{start + len(files):,}"
        text = f"{label}, from {_brief(files[0].path)} to {_brief(files[-1].path)}"
    unopened = sum(bool(file.unopened) for file in files)
    note = f"{read:,} of {total:,}" if total or not unopened else "not opened"
    if read and any(looks):
        pairs = [(file, of_file) for file, of_file in zip(files, looks, strict=True) if of_file]
        num_bytes = sum(of_file[row_group].num_bytes for file, of_file in pairs for row_group in file.selected)
        note += f" · {format_bytes(num_bytes)}"
    cells = list(_cells(files, looks, grid, columns))
    return Row(label, text, note, cells)


def _cells(
    files: Sequence[FilePlan], looks: Sequence[list[RowGroupLook] | None], grid: Grid, columns: int
) -> Iterator[Cell]:
    if all(file.unopened for file in files):
        reasons = "; ".join(dict.fromkeys(_brief(file.unopened) for file in files[:_NAMED]))
        states = Counter(map(state_of_file, files))
        yield Cell(states, f"{_files(len(files))} not opened: {reasons}", 0, columns)
        return
    step = grid.groups_a_cell
    for column in range(columns):
        states = Counter[CellState]()
        texts: dict[CellState, list[str]] = {}
        alone = len(files) == 1 and step == 1
        for file, of_file in zip(files, looks, strict=True):
            for decision in file.row_groups[column * step : (column + 1) * step]:
                found = None if of_file is None else of_file[decision.row_group]
                state = state_of(decision, found and found.filtered, found and found.matches)
                states[state] += 1
                named = texts.setdefault(state, [])
                if alone:
                    named.append(_told(file, decision.row_group, state, found, grid.prefix))
                elif state.read and len(named) < _NAMED:
                    named.append(f"{_brief(file.path[len(grid.prefix) :], _SHORT)} {decision.row_group}")
            if file.unopened and column == 0:
                states[state_of_file(file)] += 1
        if not states:
            continue
        if alone:
            ((text,),) = texts.values()
        else:
            told = [f"{states[state]:,} {state.label}" for state in in_order([*states])]
            told[0] += _naming(texts.get(in_order([*states])[0], []), states)
            text = f"row groups {grid.heads[column]}: {'; '.join(told)}"
        yield Cell(states, text, column)


def _naming(named: list[str], states: Counter[CellState]) -> str:
    """Which row groups those of the first fate are, a few of them."""
    if not named:
        return ""
    return f" ({', '.join(named)}{', …' if states[in_order([*states])[0]] > len(named) else ''})"


def _told(file: FilePlan, row_group: int, state: CellState, found: RowGroupLook | None, prefix: str) -> str:
    """All about one row group, on several lines."""
    decision = file.row_groups[row_group]
    rows = f"{decision.num_rows:,} row{'' if decision.num_rows == 1 else 's'}"
    if found is not None:
        rows += f", {format_bytes(found.num_bytes)}"
    lines = [f"{_brief(file.path[len(prefix) :], _NAME)}, row group {decision.row_group}", state.label, rows]
    if found is not None and found.matches is not None:
        lines.append(f"{found.matches:,} of its rows match")
    lines += [_brief(decision.reason)] if decision.reason else []
    lines += [f"zones leave {decision.num_left:,} rows"] if decision.rows is not None else []
    lines += [f"doubtful: {_brief(doubt)}" for doubt in decision.doubts[:_NAMED]]
    for column, filter in found.filters.items() if found is not None else ():
        lines.append(f"filter on {_brief(column)}: {format_bytes(filter.num_bytes)}, fpp {percent(filter.fpp)}")
    return "\n".join(lines)


def _brief(text: str, length: int = _REASON) -> str:
    text = printable(text)
    return text if len(text) <= length else f"{text[: length // 2]}…{text[-length // 2 :]}"


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


def percent(share: float) -> str:
    """A probability for people."""
    if share == 0:
        return "0 %"
    text = f"{share * 100:.2g}"
    return f"{share * 100:.0f} %" if share >= 0.1 else (f"{text} %" if "e" not in text else f"{share:.1e}")
