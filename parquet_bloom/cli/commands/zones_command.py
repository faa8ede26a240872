"""The group `parquet-bloom zones COMMAND`, whose commands build and show zone indexes."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup

# One line of `--help` for each command, kept here so that `--help` does not have to import them.
COMMANDS = {
    "build": ("zones_build", "Build a zone index of Parquet files."),
    "show": ("zones_show", "Show the contents of a zone index."),
}

EPILOG = """
Exit codes: 0 done, 2 error.

\b
Example:
  parquet-bloom zones build lake/ --column user.id -o ids.zones.parquet
  parquet-bloom zones show ids.zones.parquet
"""


@click.group("zones", cls=LazyGroup, commands=COMMANDS, epilog=EPILOG)
def zones() -> None:
    """Build and show zone indexes: a filter for every few thousand rows, to read few pages of a row group, not all."""
