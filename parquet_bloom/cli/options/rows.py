"""Options of the commands that print rows of a lake: which columns, and into which file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from ..output.row_files import FORMATS
from .common import column_option

output_option = click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help=f"Write the rows into a file, atomically; its name ends in {', '.join(FORMATS)}.",
)

_OPTIONS = (
    column_option(
        "Print this column only, a top-level one or a dotted leaf. Repeatable; columns are printed in the order given, "
        "before those of --columns."
    ),
    click.option("--columns", "listed", metavar="A,B", help="Print these columns only, as a comma-separated list."),
    output_option,
)


def rows_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --column, --columns and --output to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def parse_columns(columns: Sequence[str], listed: str | None) -> list[str] | None:
    """Return the columns of --column and --columns; None for all."""
    names = [*columns, *(map(str.strip, listed.split(",")) if listed is not None else ())]
    for name in names:
        if not name:
            raise click.UsageError("a column has no name", click.get_current_context())
    return list(dict.fromkeys(names)) or None
