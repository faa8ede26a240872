"""`parquet-bloom index remove`: files go out of an index."""

from __future__ import annotations

import os

import click

from ...options.common import command
from ...options.paths import with_stdin
from ...output.output import Output
from ...output.table import Column
from .common import INDEX_HELP, index_argument, opened

COLUMNS = (Column("removed", "removed", right=True), Column("files", "files left", right=True))


@command(
    "index remove",
    example=(
        "parquet-bloom index remove ids.index lake/day=2026-01-30/\n"
        "parquet-bloom index remove ids.index lake/day=2026-01-30/a.parquet"
    ),
    exit_codes="0 done; 2 error: nothing was removed.",
    paths=False,
    about=f"{INDEX_HELP} A PATH is a file of it, all its files below a folder if it ends in /, or - for a list of "
    "files on standard input. The files need not be there any more.",
)
@index_argument
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(readable=False, allow_dash=True))
def remove(output: Output, path: str, paths: tuple[str, ...]) -> int:
    """Take files out of an index: from then on those that still are in the lake are named for every value.

    Files that went from the lake need no removing: they are not named any more, and `index compact` drops them.
    """
    with opened(output, path, live=False) as index, output.step("remove"):
        count = index.remove([os.fspath(each) for each in with_stdin(paths)])
        left = index.snapshot().files
    with output.rows("removals", COLUMNS) as rows:
        rows.add({"removed": count, "files": left})
    return output.exit_code()
