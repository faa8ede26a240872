"""The tables of `docs/reference/compatibility.md`, between two markers of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from . import far
from .matrix import Cell, Matrix

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "compatibility.md"
BEGIN, END = "<!-- made by tools/compatibility.py: begin -->", "<!-- made by tools/compatibility.py: end -->"
OURS = "parquet_bloom "  # prefix of the title of our release
AS_WRITTEN = "as `embed` writes them"

# Releases that lose rows to the filters of every writer, pyarrow's own included: (prefix of the title, type). They find
# decimals in fixed-length byte arrays only if these have 16 bytes.
TO_EVERYBODY = [("DataFusion 43.", "decimal FLBA"), ("DataFusion 48.", "decimal FLBA")]
# A problem of other writers' filters: parquet-java writes filters for booleans, and inserts no value.
NO_FAULT_OF_OURS = re.compile(r"Spark .*-own-.*: no bit is set, yet the column chunk may hold values")


def put(text: str, page: Path = PAGE) -> None:
    """Write the tables into the page."""
    before, rest = page.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{text.strip()}\n{END}{after}", "utf-8")


def read_table_text(page: Path = PAGE) -> str:
    """Return the text between the markers."""
    return page.read_text("utf-8").split(BEGIN)[1].split(END)[0].strip()


HEADS = (
    "Rows lost",
    "Use of filters by readers",
    "Rows lost by older releases in files with our filters",
    "Rows lost in files by older releases",
    "Use of filters by older releases",
    "Rows lost with large filters over a network",
    "Lost rows by file and type",
    "Not measured",
    "Problems that `verify` reports in these files",
)


def tables(current: Matrix, old: Matrix, date: str) -> str:
    """Return all results of a run, as Markdown."""
    notes = [f"- {note}" for note in dict.fromkeys(current.notes + old.notes)]
    problems = [f"- {problem}" for problem in current.problems + old.problems]
    bodies = (
        lost(current),
        asking(current),
        older_readers(old),
        older_writers(old),
        older_asking(old),
        from_afar([old, current]),
        losses([current, old]),
        ["\n".join(notes)] if notes else [],
        ["\n".join(problems)] if problems else [],
    )
    parts = [f"Run of {date}: {totals(current, old)}."]
    for head, body in zip(HEADS, bodies, strict=True):
        parts += [f"### {head}", *(body or ["Nothing."])]
    return "\n\n".join(parts)


def totals(*matrices: Matrix) -> str:
    """Return the totals: values queried, rows lost, and files verified."""
    cells = [cell for matrix in matrices for cell in matrix.sorted()]
    written = [cell for cell in cells if as_written(cell)]
    by_us = [cell for cell in cells if cell.reader.startswith(OURS)]
    checked = sum(len(matrix.checked) for matrix in matrices)
    theirs = sum(lost_to_everybody(cell) for cell in written)
    beside = f" (and {theirs} by releases that lose rows to the filters of every writer: see below)" if theirs else ""
    return (
        f"{len(cells):,} cells, {_asked(cells)} values queried. Files with our filters, {AS_WRITTEN}: "
        f"{_asked(written)} values, **{_lost(written) - theirs} rows lost**{beside}. "
        f"Read by parquet_bloom, with the filters of any writer: {_asked(by_us)} values, **{_lost(by_us)} rows lost**; "
        f"{checked:,} files opened and verified"
    )


def as_written(cell: Cell) -> bool:
    """Return whether the cell's files are as `embed` writes them."""
    return cell.filters == "ours" and cell.length


def lost_to_everybody(cell: Cell) -> int:
    """Return how many of the rows that a cell lost are due to TO_EVERYBODY."""
    return sum(cell.losing[title] for reader, title in TO_EVERYBODY if cell.reader.startswith(reader))


def failures(*matrices: Matrix) -> list[str]:
    """Return the failures, one line each: rows lost with our filters, or by our reader."""
    found = [problem for matrix in matrices for problem in matrix.problems if not NO_FAULT_OF_OURS.fullmatch(problem)]
    for cell in (cell for matrix in matrices for cell in matrix.sorted()):
        ours = cell.reader.startswith(OURS)
        lost = cell.lost - lost_to_everybody(cell)
        if (as_written(cell) or ours) and (lost or cell.more or (ours and cell.failed)):
            found.append(f"{cell.reader} of {cell.writer}, {kind(cell)}: {figures(cell)} {dict(cell.losing)}")
    return found


def kind(cell: Cell) -> str:
    length = "length" if cell.length else "no length"
    return f"{cell.filters}, {length}, {'power of two' if cell.power else 'any size'}"


def figures(cell: Cell) -> str:
    """Return `rows lost / values queried`, and other problems."""
    text = f"{cell.lost:,} / {cell.asked:,}"
    if cell.lost:
        text = f"**{text}**"
    if cell.failed:
        text += f", {cell.failed} fail"
    if cell.more:
        text += f", {cell.more} more"
    return text


def _asked(cells: Iterable[Cell]) -> str:
    return f"{sum(cell.asked for cell in cells):,}"


def _lost(cells: Iterable[Cell]) -> int:
    return sum(cell.lost for cell in cells)


def markdown(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _grid(cells: list[Cell], down: Callable[[Cell], tuple[str, ...]], head: list[str]) -> str:
    """Return a table with a column for each reader."""
    readers = list(dict.fromkeys(cell.reader for cell in cells))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in cells:
        rows.setdefault(down(cell), {})[cell.reader] = figures(cell)
    return markdown(
        [*head, *readers],
        ([*titles, *(found.get(reader, "-") for reader in readers)] for titles, found in rows.items()),
    )


def lost(matrix: Matrix) -> list[str]:
    """Return a table for each writer."""
    cells = list(matrix.sorted())
    found = []
    for writer in dict.fromkeys(cell.writer for cell in cells):
        mine = [cell for cell in cells if cell.writer == writer]
        found += [
            f"Written by {writer}:",
            _grid(mine, lambda cell: tuple(kind(cell).split(", ")), ["filters", "field 15", "bitset"]),
        ]
    return found


def asking(matrix: Matrix, chosen: Callable[[str], bool] = lambda reader: True) -> list[str]:
    """Return which readers use our filters, by type: a row was missing when the filters denied everything."""
    cells = [cell for cell in matrix.sorted() if cell.filters == "ours" and chosen(cell.reader)]
    readers = list(dict.fromkeys(cell.reader for cell in cells))
    types = sorted({title for reader, title in matrix.tried if reader in readers}, key=_type_order)
    rows = [[title, *(_asks(cells, matrix, reader, title) for reader in readers)] for title in types]
    return [markdown(["type", *readers], rows)] if rows else []


def _type_order(title: str) -> tuple[int, str]:
    """Sort integers by their width, and other types by name."""
    width = re.search(r"(?<=int)\d+$", title)
    return (int(width[0]) if width else 1000, title)


def older_asking(matrix: Matrix) -> list[str]:
    """Return a table for each engine."""
    engines = list(dict.fromkeys(title.split()[0] for title in matrix.order))
    return [
        table
        for engine in engines
        for table in asking(matrix, lambda reader, engine=engine: reader in matrix.order and reader.startswith(engine))
    ]


def _asks(cells: list[Cell], matrix: Matrix, reader: str, title: str) -> str:
    found = {(cell.length, cell.power): False for cell in cells if cell.reader == reader and title in cell.probed}
    for cell in cells:
        if cell.reader == reader and cell.probed.get(title):
            found[cell.length, cell.power] = True
    if not found:
        tried = (reader, title) in matrix.tried
        return "fails" if tried and (reader, title) in matrix.unread else "not tested" if tried else "-"
    if len(set(found.values())) == 1:
        return "used" if all(found.values()) else "not used"
    if all(asked == power for (_, power), asked in found.items()):
        return "used if power of two"
    if all(asked == length for (length, _), asked in found.items()):
        return "used if length"
    return "used in part"


def older_readers(matrix: Matrix) -> list[str]:
    """Return the table of files of the current release, read by older releases."""
    cells = [cell for cell in matrix.sorted() if cell.filters == "ours" and cell.writer != cell.reader]
    writer = _shared_writer(matrix)
    cells = [cell for cell in cells if cell.writer == writer and cell.reader in matrix.order]
    if not cells:
        return []
    kinds = list(dict.fromkeys(kind(cell) for cell in cells))
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        rows.setdefault(cell.reader, {})[kind(cell)] = figures(cell)
    head = [f"reader of files by {writer}", *(name.removeprefix("ours, ") for name in kinds)]
    return [markdown(head, ([reader, *(found.get(name, "-") for name in kinds)] for reader, found in rows.items()))]


def older_writers(matrix: Matrix) -> list[str]:
    """Return the table of older releases' files, read by themselves, by the current release and by parquet_bloom."""
    cells = list(matrix.sorted())
    own = [cell for cell in cells if cell.writer != _shared_writer(matrix)]
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in own:
        row = rows.setdefault((cell.writer, kind(cell)), ["-"] * 3)
        position = 0 if cell.reader.startswith(OURS) else 1 if cell.reader == cell.writer else 2
        row[position] = figures(cell)
    head = ["writer", "filters", "parquet_bloom", "itself", "current release"]
    return [markdown(head, ([*title, *found] for title, found in rows.items()))] if rows else []


def _shared_writer(matrix: Matrix) -> str:
    """Return the current writer, whose files all older releases read."""
    return next((cell.writer for cell in matrix.sorted() if cell.writer not in matrix.order), "")


def from_afar(matrices: Iterable[Matrix]) -> list[str]:
    """Return the table of rows lost where streams return fewer bytes than requested."""
    rows = []
    for matrix in matrices:
        for reader in sorted(matrix.far):
            counts = (tuple(matrix.far[reader][kind]) for kind in far.KINDS)
            rows.append([reader, *(f"**{lost} / {count}**" if lost else f"{lost} / {count}" for lost, count in counts)])
    return [markdown(["reader", *far.KINDS], rows)] if rows else []


def losses(matrices: Iterable[Matrix]) -> list[str]:
    """Return the table of readers that lose rows, with the files and types."""
    rows = []
    for cell in (cell for matrix in matrices for cell in matrix.sorted() if cell.lost):
        types = ", ".join(f"{title} {rows_lost}" for title, rows_lost in sorted(cell.losing.items()))
        rows.append([cell.reader, cell.writer, kind(cell), types])
    return [markdown(["reader", "writer", "filters", "rows lost"], rows)] if rows else []


def versions(text: str) -> set[str]:
    """Return the releases named in a table."""
    engines = r"parquet_bloom|Arrow C\+\+|pyarrow|DuckDB|DataFusion|Spark|ClickHouse|polars"
    return set(re.findall(rf"(?:{engines}) \d[\d.]*\d", text))
