"""`parquet-bloom index COMMAND`: an index of a lake, a module a command."""

from __future__ import annotations

import click

from ...lazy_group import Commands

# What `--help` says of each command; it need not import them for that.
COMMANDS = {
    "create": "Make an empty index.",
    "append": "Index files that are new, or have changed.",
    "remove": "Take files out of an index.",
    "lookup": "Name the files that may hold values.",
    "compact": "Merge an index's segments into one.",
    "stats": "Say how large an index is, and how good.",
    "check": "Read an index, and say what is wrong with it.",
    "serve": "Answer lookups in an index over HTTP.",
}

EPILOG = """\b
Exit codes: 0 done, or files are named; 1 no file is, or an index is broken; 2 error.

\b
Example:
  parquet-bloom index create ids.index user.id --lake lake/
  parquet-bloom index append ids.index
  parquet-bloom index lookup ids.index user.id 42
"""


@click.group("index", cls=Commands, package=__package__, texts=COMMANDS, epilog=EPILOG)
def index() -> None:
    """An index of a lake: from a value to the files, or the row groups, that may hold it."""
