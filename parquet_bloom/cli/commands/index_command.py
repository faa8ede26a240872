"""The group `parquet-bloom index COMMAND`, whose commands create and query an index of a lake."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup

# One line of `--help` for each command, kept here so that `--help` does not have to import them.
COMMANDS = {
    "advise": ("index_advise", "Estimate what an index costs by each granularity."),
    "create": ("index_build", "Create an empty index."),
    "append": ("index_build", "Index new and changed files."),
    "remove": ("index_build", "Remove files from an index."),
    "lookup": ("index_query", "List the files that may hold values."),
    "compact": ("index_build", "Merge an index's segments into one."),
    "stats": ("index_query", "Show the size and precision of an index."),
    "check": ("index_query", "Read an index, and report what is wrong with it."),
    "serve": ("index_serve", "Answer lookups in an index over HTTP."),
}

EPILOG = """
Exit codes: 0 done, or files are listed; 1 no file is listed, or the index is broken; 2 error.

\b
Example:
  parquet-bloom index create ids.index --column user.id --lake lake/
  parquet-bloom index append ids.index
  parquet-bloom index lookup ids.index --column user.id 42
"""


@click.group("index", cls=LazyGroup, commands=COMMANDS, epilog=EPILOG)
def index() -> None:
    """Create and query an index of a lake: from a value to the files, or the row groups, that may hold it."""
