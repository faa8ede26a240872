"""`parquet-bloom zones build`: build a zone index of Parquet files."""

from __future__ import annotations

from pathlib import PurePath

import click

from ...errors import ParquetBloomError
from ...storage import is_url
from ...zones.zone_builder import build as build_zones
from ...zones.zone_builder import require_outside
from ...zones.zone_filters import lance_num_bytes
from ..options.name_completion import complete_columns
from ..options.path_options import find_files
from ..options.shared_options import command, parse_whole_number, skip_broken_option
from ..output.output import Output
from ..output.row_formats import Column

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
    exit_codes="0 built, 2 error in a file: the others have zones; if none has, nothing is written.",
)
@click.option(
    "--column", metavar="NAME", required=True, shell_complete=complete_columns, help="The column, by its dotted path."
)
@click.option(
    "-o", "--output", "target", metavar="FILE", required=True, help="The index: one file, replaced if it exists."
)
@click.option(
    "--rows-per-zone",
    metavar="N",
    default="8192",
    show_default=True,
    callback=parse_whole_number,
    help="Rows per zone; its filter is sized for as many values.",
)
@click.option(
    "--fpp",
    metavar="FPP",
    type=float,
    default=0.00057,
    show_default=True,
    help="False-positive probability of the filters.",
)
@click.option(
    "--container",
    type=click.Choice(("parquet", "arrow")),
    help="File format of the index. Default: by the extension of FILE, .parquet or .arrow.",
)
@skip_broken_option
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads that read and hash. Default: the number of processors.",
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
    """Build a zone index of a column: a Bloom filter for every few thousand rows, in the schema of Lance's index.

    It selects rows within row groups for a predicate (`zones=` in Python). A file that cannot be read, or does not have
    the column, is reported and gets no zones: it is read as if there were no index, as is a file that changes later.
    """
    try:
        lance_num_bytes(rows_per_zone, fpp)
    except ValueError as error:
        raise ParquetBloomError(str(error)) from error
    matched = find_files(paths, output, way_out="; zones build takes only that list, by the PATH - on standard input")
    require_outside(
        target, [file.root for file in matched if file.root is not None and file.of_folder], output.filesystem
    )
    files = [file.path if is_url(file.path) else PurePath(file.path) for file in matched]  # names, never patterns
    if not files:
        if not output.exit_code():  # nothing has been reported
            output.fail(ParquetBloomError("there are no files to build zones of", column=column))
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
            progress=bar.update,
        )
    for failed in report.failed.values():
        output.fail(failed)
    with output.rows("indexes", COLUMNS) as rows:
        row = {"index": report.path, "column": report.column, "files": report.files, "failed": len(report.failed)}
        row |= {"row_groups": report.fragments, "zones": report.zones, "rows": report.rows}
        rows.add(row | {"filter_bytes": report.filter_bytes, "num_bytes": report.num_bytes})
    return output.exit_code()
