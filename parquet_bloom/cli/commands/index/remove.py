"""`parquet-bloom index remove`: remove files from an index."""

from __future__ import annotations

import os

import click

from ...options.common import command
from ...options.paths import expand_stdin
from ...output.output import Output
from ...output.table import Column
from .common import INDEX_HELP, index_argument, open_index

COLUMNS = (Column("removed", "removed", right=True), Column("files", "files left", right=True))


@command(
    "index remove",
    example=(
        "parquet-bloom index remove ids.index lake/day=2026-01-30/\n"
        "parquet-bloom index remove ids.index lake/day=2026-01-30/a.parquet"
    ),
    exit_codes="0 done; 2 error: nothing was removed.",
    paths=False,
    about=f"{INDEX_HELP} A PATH is an indexed file, all indexed files below a folder if it ends in /, or - for a list "
    "of files on standard input. The files need not exist any more.",
)
@index_argument
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(readable=False, allow_dash=True))
def remove(output: Output, path: str, paths: tuple[str, ...]) -> int:
    """Remove files from an index: from then on lookups list those that still are in the lake for every value.

    Files that were deleted from the lake need not be removed: they are not listed any more, and `index compact` drops
    their entries.
    """
    with open_index(output, path, live=False) as index, output.step("remove"):
        count = index.remove([os.fspath(each) for each in expand_stdin(paths)])
        remaining = index.snapshot().files
    with output.rows("removals", COLUMNS) as rows:
        rows.add({"removed": count, "files": remaining})
    return output.exit_code()
