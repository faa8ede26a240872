"""`parquet-bloom zones build`: a zone index of Parquet files."""

from __future__ import annotations

from pathlib import PurePath

import click

from ....errors import ParquetBloomError
from ....storage import is_url
from ....zones.build import build as build_zones
from ....zones.build import require_outside
from ....zones.sizing import lance_num_bytes
from ...options.column_completion import columns_beginning
from ...options.common import command, whole_number
from ...options.paths import find_files
from ...output.output import Output
from ...output.table import Column

COLUMNS = (
    Column("index", "index", folds=True),
    Column("column", "column", folds=True),
    Column("files", "files", right=True),
    Column("failed", "failed", right=True),
    Column("row_groups", "row groups", right=True),
    Column("zones", "zones", right=True),
    Column("rows", "rows", right=True),
    Column("filter_bytes", "bytes a zone", right=True),
    Column("num_bytes", "bytes", right=True),
)


@command(
    "zones build",
    example=(
        "parquet-bloom zones build lake/ --column user.id -o ids.zones.parquet\n"
        "parquet-bloom zones build 'lake/*/*.parquet' --column trace --rows-per-zone 4096 -o trace.zones.arrow"
    ),
    exit_codes="0 made, 2 error, of whichever file: the others have zones; if none has, nothing is written.",
)
@click.option(
    "--column", metavar="NAME", required=True, shell_complete=columns_beginning, help="The column, by its dotted path."
)
@click.option("-o", "--output", "target", metavar="FILE", required=True, help="The index: one file, which is replaced.")
@click.option(
    "--rows-per-zone",
    metavar="N",
    default="8192",
    show_default=True,
    callback=whole_number,
    help="Rows of a zone; its filter is sized for as many values.",
)
@click.option(
    "--fpp", type=float, default=0.00057, show_default=True, help="False-positive probability of the filters."
)
@click.option(
    "--container",
    type=click.Choice(("parquet", "arrow")),
    help="How the index is stored; by the ending of FILE if it is .parquet or .arrow.",
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads that read and hash; as many as there are processors by default.",
)
def build(
    output: Output,
    paths: tuple[str, ...],
    column: str,
    target: str,
    rows_per_zone: int,
    fpp: float,
    container: str | None,
    jobs: int | None,
) -> int:
    """Make a zone index of a column: a Bloom filter for every few thousand rows, in the schema of Lance's index.

    Predicates are narrowed by it to rows inside of row groups (`zones=` in Python). A file that cannot be read, or has
    no such column, is reported and has no zones, and so is read as if there were no index; so is one that changes.
    """
    try:
        lance_num_bytes(rows_per_zone, fpp)
    except ValueError as error:
        raise ParquetBloomError(str(error)) from error
    found = find_files(paths, output)
    require_outside(
        target, [file.root for file in found if file.root is not None and file.of_folder], output.filesystem
    )
    files = [file.path if is_url(file.path) else PurePath(file.path) for file in found]  # names, never patterns
    if not files:
        output.fail(ParquetBloomError("there are no files to make zones of", column=column))
        return output.exit_code()
    with output.progress(len(files)) as bar, output.step("make zones"):
        report = build_zones(
            files,
            column,
            target,
            rows_per_zone=rows_per_zone,
            fpp=fpp,
            container=container,
            filesystem=output.filesystem,
            threads=jobs,
            progress=bar.of,
        )
    for failed in report.failed.values():
        output.fail(failed)
    with output.rows("indexes", COLUMNS) as rows:
        row = {"index": report.path, "column": report.column, "files": report.files, "failed": len(report.failed)}
        row |= {"row_groups": report.fragments, "zones": report.zones, "rows": report.rows}
        rows.add(row | {"filter_bytes": report.filter_bytes, "num_bytes": report.num_bytes})
    return output.exit_code()
