"""`parquet-bloom zones COMMAND`: zones inside row groups, a module a command."""

from __future__ import annotations

import click

from ...lazy_group import Commands

# What `--help` says of each command; it need not import them for that.
COMMANDS = {
    "build": "Make a zone index of Parquet files.",
    "show": "Say what is in a zone index.",
}

EPILOG = """\b
Exit codes: 0 done, 2 error.

\b
Example:
  parquet-bloom zones build lake/ --column user.id -o ids.zones.parquet
  parquet-bloom zones show ids.zones.parquet
"""


@click.group("zones", cls=Commands, package=__package__, texts=COMMANDS, epilog=EPILOG)
def zones() -> None:
    """A zone index: a filter for every few thousand rows, so that a few pages of a row group are read, not all."""
