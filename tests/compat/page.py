"""The tables of `docs/compatibility.md`, between two markers of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from . import far
from .matrix import Cell, Matrix

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- made by tools/compatibility.py: begin -->", "<!-- made by tools/compatibility.py: end -->"
OURS = "parquet_bloom "  # how our release's title begins
AS_WRITTEN = "as we write them"

# What releases lose to everybody's filters, pyarrow's own as well: (how their titles begin, type). Decimals in fixed
# bytes are found there only where they have 16 of them.
TO_EVERYBODY = [("DataFusion 43.", "decimal FLBA"), ("DataFusion 48.", "decimal FLBA")]
# What is wrong with filters of others' own: parquet-java writes some for booleans, and puts nothing in.
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
    "Who asks filters",
    "Older releases read files with our filters",
    "Files by older releases",
    "Who asks filters, older releases",
    "Large filters over a network",
    "Rows that engines lose",
    "What was left out",
    "What `verify` says of these files",
)


def tables(current: Matrix, old: Matrix, date: str) -> str:
    """Everything that a run found, as Markdown."""
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
    """The figures that all is about."""
    cells = [cell for matrix in matrices for cell in matrix.sorted()]
    written = [cell for cell in cells if as_written(cell)]
    by_us = [cell for cell in cells if cell.reader.startswith(OURS)]
    checked = sum(len(matrix.checked) for matrix in matrices)
    theirs = sum(lost_to_everybody(cell) for cell in written)
    beside = f" (and {theirs} by releases that lose them to everybody's filters: see below)" if theirs else ""
    return (
        f"{len(cells):,} cells, {_count_asked(cells)} values asked for. Files with our filters {AS_WRITTEN}: "
        f"{_count_asked(written)} values, **{_lost(written) - theirs} rows lost**{beside}. "
        f"Read by us, whoever made the filters: {_count_asked(by_us)} values, **{_lost(by_us)} rows lost**; "
        f"{checked:,} files opened and verified"
    )


def as_written(cell: Cell) -> bool:
    """Return whether the cell's files were written by `embed`."""
    return cell.filters == "ours" and cell.length


def lost_to_everybody(cell: Cell) -> int:
    """Of the rows that a cell lost those of TO_EVERYBODY."""
    return sum(cell.losing[title] for reader, title in TO_EVERYBODY if cell.reader.startswith(reader))


def failures(*matrices: Matrix) -> list[str]:
    """List forbidden outcomes: rows lost by our filters or by our reader; one line each."""
    matches = [problem for matrix in matrices for problem in matrix.problems if not NO_FAULT_OF_OURS.fullmatch(problem)]
    for cell in (cell for matrix in matrices for cell in matrix.sorted()):
        ours = cell.reader.startswith(OURS)
        lost = cell.lost - lost_to_everybody(cell)
        if (as_written(cell) or ours) and (lost or cell.more or (ours and cell.failed)):
            matches.append(f"{cell.reader} of {cell.writer}, {kind(cell)}: {figures(cell)} {dict(cell.losing)}")
    return matches


def kind(cell: Cell) -> str:
    length = "length" if cell.length else "no length"
    return f"{cell.filters}, {length}, {'power of two' if cell.power else 'any size'}"


def figures(cell: Cell) -> str:
    """`rows lost / values queried`, and other failures."""
    text = f"{cell.lost:,} / {cell.asked:,}"
    if cell.lost:
        text = f"**{text}**"
    if cell.failed:
        text += f", {cell.failed} fail"
    if cell.more:
        text += f", {cell.more} more"
    return text


def _count_asked(cells: Iterable[Cell]) -> str:
    return f"{sum(cell.asked for cell in cells):,}"


def _lost(cells: Iterable[Cell]) -> int:
    return sum(cell.lost for cell in cells)


def markdown(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _grid(cells: list[Cell], down: Callable[[Cell], tuple[str, ...]], head: list[str]) -> str:
    """A table with a column for each reader."""
    readers = list(dict.fromkeys(cell.reader for cell in cells))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in cells:
        rows.setdefault(down(cell), {})[cell.reader] = figures(cell)
    return markdown(
        [*head, *readers],
        ([*titles, *(result.get(reader, "-") for reader in readers)] for titles, result in rows.items()),
    )


def lost(matrix: Matrix) -> list[str]:
    """A table for each writer."""
    cells = list(matrix.sorted())
    results = []
    for writer in dict.fromkeys(cell.writer for cell in cells):
        mine = [cell for cell in cells if cell.writer == writer]
        results += [
            f"Written by {writer}:",
            _grid(mine, lambda cell: tuple(kind(cell).split(", ")), ["filters", "field 15", "bitset"]),
        ]
    return results


def asking(matrix: Matrix, chosen: Callable[[str], bool] = lambda reader: True) -> list[str]:
    """Return, type by type, the readers that use our filters: a row vanished when the filters denied everything."""
    cells = [cell for cell in matrix.sorted() if cell.filters == "ours" and chosen(cell.reader)]
    readers = list(dict.fromkeys(cell.reader for cell in cells))
    types = sorted({title for reader, title in matrix.tried if reader in readers}, key=_type_order)
    rows = [[title, *(_asks(cells, matrix, reader, title) for reader in readers)] for title in types]
    return [markdown(["type", *readers], rows)] if rows else []


def _type_order(title: str) -> tuple[int, str]:
    """Numbers by their width, and all else by its name."""
    width = re.search(r"(?<=int)\d+$", title)
    return (int(width[0]) if width else 1000, title)


def older_asking(matrix: Matrix) -> list[str]:
    """A table for each engine."""
    engines = list(dict.fromkeys(title.split()[0] for title in matrix.order))
    return [
        table
        for engine in engines
        for table in asking(matrix, lambda reader, engine=engine: reader in matrix.order and reader.startswith(engine))
    ]


def _asks(cells: list[Cell], matrix: Matrix, reader: str, title: str) -> str:
    results = {(cell.length, cell.power): False for cell in cells if cell.reader == reader and title in cell.probed}
    for cell in cells:
        if cell.reader == reader and cell.probed.get(title):
            results[cell.length, cell.power] = True
    if not results:
        tried = (reader, title) in matrix.tried
        return "fails" if tried and (reader, title) in matrix.unread else "not tried" if tried else "-"
    if len(set(results.values())) == 1:
        return "asks" if all(results.values()) else "no"
    if all(queried == power for (_, power), queried in results.items()):
        return "asks, powers of two"
    if all(queried == length for (length, _), queried in results.items()):
        return "asks, with length"
    return "asks some"


def older_readers(matrix: Matrix) -> list[str]:
    """Today's files, read by older releases."""
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
    return [markdown(head, ([reader, *(result.get(name, "-") for name in kinds)] for reader, result in rows.items()))]


def older_writers(matrix: Matrix) -> list[str]:
    """Older releases' files with their filters and with ours: read by themselves, by today's release and by us."""
    cells = list(matrix.sorted())
    own = [cell for cell in cells if cell.writer != _shared_writer(matrix)]
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in own:
        row = rows.setdefault((cell.writer, kind(cell)), ["-"] * 3)
        location = 0 if cell.reader.startswith(OURS) else 1 if cell.reader == cell.writer else 2
        row[location] = figures(cell)
    head = ["writer", "filters", "parquet_bloom", "itself", "its release of today"]
    return [markdown(head, ([*title, *result] for title, result in rows.items()))] if rows else []


def _shared_writer(matrix: Matrix) -> str:
    """Today's writer, whose files all older releases read."""
    return next((cell.writer for cell in matrix.sorted() if cell.writer not in matrix.order), "")


def from_afar(matrices: Iterable[Matrix]) -> list[str]:
    """Return the readers that lose rows where streams return fewer bytes than requested."""
    rows = []
    for matrix in matrices:
        for reader in sorted(matrix.far):
            reported = (tuple(matrix.far[reader][kind]) for kind in far.KINDS)
            rows.append(
                [reader, *(f"**{lost} / {count}**" if lost else f"{lost} / {count}" for lost, count in reported)]
            )
    return [markdown(["reader", *far.KINDS], rows)] if rows else []


def losses(matrices: Iterable[Matrix]) -> list[str]:
    """Each reader that loses rows: of which files and types."""
    rows = []
    for cell in (cell for matrix in matrices for cell in matrix.sorted() if cell.lost):
        types = ", ".join(f"{title} {rows_lost}" for title, rows_lost in sorted(cell.losing.items()))
        rows.append([cell.reader, cell.writer, kind(cell), types])
    return [markdown(["reader", "writer", "filters", "rows lost"], rows)] if rows else []


def versions(text: str) -> set[str]:
    """The releases that a table's head or rows name."""
    engines = r"parquet_bloom|Arrow C\+\+|pyarrow|DuckDB|DataFusion|Spark|ClickHouse|polars"
    return set(re.findall(rf"(?:{engines}) \d[\d.]*\d", text))
