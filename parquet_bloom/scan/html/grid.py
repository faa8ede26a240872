"""The cells of the heat map: a row for each file and a column for each row group, or a cell for several of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...errors import printable
from ...util.messages import count, format_bytes
from ..model.scan_plan import FilePlan, ScanPlan
from .details import PlanDetails, RowGroupDetails
from .states import CellState, file_state, row_group_state, sort_states

_MAX_NAMES = 3  # row groups named in a cell of several, and doubts in a cell of one
_REASON, _NAME, _SHORT = 160, 100, 44  # characters of a reason or doubt, a file's name, a name in a list


@dataclass
class Cell:
    """One row group, or several.

    Attributes
    ----------
    states : number of row groups in each state; for a file that was not opened, the file itself.
    text : their description.
    column, width : its first column, and how many columns it takes.
    """

    states: Counter[CellState]
    text: str
    column: int
    width: int = 1

    @property
    def main(self) -> CellState:
        """The most important state."""
        return sort_states([*self.states])[0]


@dataclass
class Row:
    """One file, or several.

    Attributes
    ----------
    label : short name.
    text : full name.
    note : how much of it is read.
    cells : at most one for each column.
    """

    label: str
    text: str
    note: str
    cells: list[Cell]


@dataclass
class Grid:
    """The whole heat map.

    Attributes
    ----------
    rows : from top to bottom.
    heads : title of each column.
    states : number of row groups in each state.
    prefix : common prefix of all paths; labels leave it out.
    files_a_row, groups_a_cell : how many files and row groups share a row or a cell.
    """

    rows: list[Row] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    states: Counter[CellState] = field(default_factory=Counter)
    prefix: str = ""
    files_a_row: int = 1
    groups_a_cell: int = 1


def make_grid(report: ScanPlan, details: PlanDetails | None, max_rows: int, max_columns: int) -> Grid:
    """Lay out a report.

    Parameters
    ----------
    report : of `prune`.
    details : of its files; None for none.
    max_rows, max_columns : of the grid.
    """
    grid = Grid(prefix=_common_prefix([file.path for file in report.files]))
    most = max((len(file.row_groups) for file in report.files), default=0)
    grid.files_a_row = max(1, -(-len(report.files) // max_rows))
    grid.groups_a_cell = max(1, -(-most // max_columns))
    columns = -(-most // grid.groups_a_cell) or 1
    grid.heads = [_format_range(i * grid.groups_a_cell, grid.groups_a_cell, most) for i in range(columns)]
    for start in range(0, len(report.files), grid.files_a_row):
        files = report.files[start : start + grid.files_a_row]
        grid.rows.append(_make_row(files, start, grid, details, columns))
    for row in grid.rows:
        for cell in row.cells:
            grid.states.update(cell.states)
    return grid


def _common_prefix(paths: Sequence[str]) -> str:
    """Return the folders that all paths, or URLs, begin with."""
    folders = sorted({path.rpartition("/")[0] + "/" for path in paths})
    if not folders:
        return ""
    first, last = folders[0], folders[-1]  # a common prefix of these two is one of all
    same = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: first.rfind("/", 0, same) + 1]


def _format_range(first: int, count: int, total: int) -> str:
    last = min(first + count, total) - 1
    return f"{first}" if last <= first else f"{first}–{last}"


def _make_row(files: Sequence[FilePlan], start: int, grid: Grid, details: PlanDetails | None, columns: int) -> Row:
    row_groups = [details.files.get(file.path) if details is not None else None for file in files]
    read = sum(len(file.selected) for file in files)
    total = sum(len(file.row_groups) for file in files)
    if len(files) == 1:
        text = label = _shorten(files[0].path[len(grid.prefix) :], 2 * _REASON)
    else:
        label = f"files {start + 1:,}–{start + len(files):,}"
        text = f"{label}, from {_shorten(files[0].path)} to {_shorten(files[-1].path)}"
    unopened = sum(bool(file.unopened) for file in files)
    note = f"{read:,} of {total:,}" if total or not unopened else "not opened"
    if read and any(row_groups):
        pairs = [(file, of_file) for file, of_file in zip(files, row_groups, strict=True) if of_file]
        num_bytes = sum(of_file[row_group].num_bytes for file, of_file in pairs for row_group in file.selected)
        note += f" · {format_bytes(num_bytes)}"
    cells = list(_make_cells(files, row_groups, grid, columns))
    return Row(label, text, note, cells)


def _make_cells(
    files: Sequence[FilePlan], details: Sequence[list[RowGroupDetails] | None], grid: Grid, columns: int
) -> Iterator[Cell]:
    if all(file.unopened for file in files):
        reasons = "; ".join(dict.fromkeys(_shorten(file.unopened) for file in files[:_MAX_NAMES]))
        states = Counter(map(file_state, files))
        yield Cell(states, f"{count(len(files), 'file')} not opened: {reasons}", 0, columns)
        return
    step = grid.groups_a_cell
    for column in range(columns):
        states = Counter[CellState]()
        texts: dict[CellState, list[str]] = {}
        alone = len(files) == 1 and step == 1
        for file, of_file in zip(files, details, strict=True):
            for plan in file.row_groups[column * step : (column + 1) * step]:
                group = None if of_file is None else of_file[plan.row_group]
                state = row_group_state(plan, group and group.filtered, group and group.matches)
                states[state] += 1
                named = texts.setdefault(state, [])
                if alone:
                    named.append(_describe_row_group(file, plan.row_group, state, group, grid.prefix))
                elif state.read and len(named) < _MAX_NAMES:
                    named.append(f"{_shorten(file.path[len(grid.prefix) :], _SHORT)} {plan.row_group}")
            if file.unopened and column == 0:
                states[file_state(file)] += 1
        if not states:
            continue
        if alone:
            ((text,),) = texts.values()
        else:
            counts = [f"{states[state]:,} {state.label}" for state in sort_states([*states])]
            counts[0] += _name_row_groups(texts.get(sort_states([*states])[0], []), states)
            text = f"row groups {grid.heads[column]}: {'; '.join(counts)}"
        yield Cell(states, text, column)


def _name_row_groups(named: list[str], states: Counter[CellState]) -> str:
    """Name a few row groups of the first state."""
    if not named:
        return ""
    return f" ({', '.join(named)}{', …' if states[sort_states([*states])[0]] > len(named) else ''})"


def _describe_row_group(
    file: FilePlan, row_group: int, state: CellState, details: RowGroupDetails | None, prefix: str
) -> str:
    """Describe one row group, on several lines."""
    plan = file.row_groups[row_group]
    rows = count(plan.num_rows, "row")
    if details is not None:
        rows += f", {format_bytes(details.num_bytes)}"
    lines = [f"{_shorten(file.path[len(prefix) :], _NAME)}, row group {plan.row_group}", state.label, rows]
    if details is not None and details.matches is not None:
        lines.append(f"{details.matches:,} of its rows match")
    lines += [_shorten(plan.reason)] if plan.reason else []
    lines += [f"zones leave {plan.num_left:,} rows"] if plan.rows is not None else []
    lines += [f"doubtful: {_shorten(doubt)}" for doubt in plan.doubts[:_MAX_NAMES]]
    for column, filter in details.filters.items() if details is not None else ():
        lines.append(
            f"filter on {_shorten(column)}: {format_bytes(filter.num_bytes)}, fpp {format_percent(filter.fpp)}"
        )
    return "\n".join(lines)


def _shorten(text: str, length: int = _REASON) -> str:
    text = printable(text)
    return text if len(text) <= length else f"{text[: length // 2]}…{text[-length // 2 :]}"


def format_percent(share: float) -> str:
    """Format a probability."""
    if share == 0:
        return "0 %"
    text = f"{share * 100:.2g}"
    return f"{share * 100:.0f} %" if share >= 0.1 else (f"{text} %" if "e" not in text else f"{share:.1e}")
