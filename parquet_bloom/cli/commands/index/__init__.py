"""The commands `parquet-bloom index COMMAND`, which create and query an index of a lake, one module each.

All of them build on `common`; no command imports another.
"""

from __future__ import annotations

import click

from ...lazy_group import LazyGroup

# One line of `--help` for each command, kept here so that `--help` does not have to import them.
COMMANDS = {
    "advise": "Estimate what an index costs by each granularity.",
    "create": "Create an empty index.",
    "append": "Index new and changed files.",
    "remove": "Remove files from an index.",
    "lookup": "List the files that may hold values.",
    "compact": "Merge an index's segments into one.",
    "stats": "Show the size and precision of an index.",
    "check": "Read an index, and report what is wrong with it.",
    "serve": "Answer lookups in an index over HTTP.",
}

EPILOG = """
Exit codes: 0 done, or files are listed; 1 no file is listed, or the index is broken; 2 error.

\b
Example:
  parquet-bloom index create ids.index --column user.id --lake lake/
  parquet-bloom index append ids.index
  parquet-bloom index lookup ids.index --column user.id 42
"""


@click.group("index", cls=LazyGroup, package=__package__, texts=COMMANDS, epilog=EPILOG)
def index() -> None:
    """Create and query an index of a lake: from a value to the files, or the row groups, that may hold it."""
