"""`parquet-bloom zones build`: build a zone index of Parquet files."""

from __future__ import annotations

from pathlib import PurePath

import click

from ...errors import NoFilesError, ParquetBloomError
from ...storage import is_url
from ...zones.zone_builder import build as build_zones
from ...zones.zone_builder import require_outside
from ...zones.zone_filters import lance_num_bytes
from ..command import CommandOptions, command, option
from ..options.name_completion import complete_columns
from ..options.path_options import find_files
from ..options.shared_options import PATHS, SKIP_BROKEN, THREAD_JOBS, parse_whole_number
from ..output.output import Output
from ..output.row_formats import Column

COLUMNS = (
    Column("index", "index"),
    Column("column", "column"),
    Column("files", "files", right=True),
    Column("failed", "failed", right=True),
    Column("row_groups", "row groups", right=True),
    Column("zones", "zones", right=True),
    Column("rows", "rows", right=True),
    Column("filter_bytes", "bytes a zone", right=True),
    Column("num_bytes", "bytes", right=True),
)


class ZonesOptions(CommandOptions):
    paths: tuple[str, ...] = PATHS
    column: str = option("NAME", "The column, by its dotted path.", required=True, shell_complete=complete_columns)
    target: str = option("FILE", "The index: one file, replaced if it exists.", "-o", "--output", required=True)
    rows_per_zone: int = option(
        "N",
        "Rows per zone; its filter is sized for as many values.",
        default="8192",
        callback=parse_whole_number,
    )
    fpp: float = option("FPP", "False-positive probability of the filters.", type=float, default=0.00057)
    container: str | None = option(
        None,
        "File format of the index. Default: by the extension of FILE, .parquet or .arrow.",
        type=click.Choice(("parquet", "arrow")),
    )
    skip_broken: bool = SKIP_BROKEN
    jobs: int | None = THREAD_JOBS


@command("zones build", ZonesOptions, totals=False)
def build(output: Output, given: ZonesOptions) -> int:
    """Build a zone index of a column: a Bloom filter for every few thousand rows, in the schema of Lance's index.

    It selects rows within row groups for a predicate (`--zones` of find and prune, `zones=` in Python). A file that
    cannot be read, or does not have the column, is reported and gets no zones: it is read as if there were no index, as
    is a file that changes later.

    Exit codes: 0 built, 2 error in a file: the others have zones; if none has, nothing is written.

    Example:
      parquet-bloom zones build lake/ --column user.id -o ids.zones.parquet
      parquet-bloom zones build 'lake/*/*.parquet' --column trace --rows-per-zone 4096 -o trace.zones.arrow
    """
    try:
        lance_num_bytes(given.rows_per_zone, given.fpp)
    except ValueError as error:
        raise ParquetBloomError(str(error)) from error
    matched = find_files(
        given.paths, output, way_out="; zones build takes only that list, by the PATH - on standard input"
    )
    roots = [file.root for file in matched if file.root is not None and file.of_folder]
    require_outside(given.target, roots, output.filesystem)
    files = [file.path if is_url(file.path) else PurePath(file.path) for file in matched]  # names, never patterns
    if not files:
        if not output.exit_code():  # nothing has been reported
            output.fail(NoFilesError("there are no files to build zones of", column=given.column))
        return output.exit_code()
    with output.progress(len(files)) as bar, output.step("make zones"):
        report = build_zones(
            files,
            given.column,
            given.target,
            rows_per_zone=given.rows_per_zone,
            fpp=given.fpp,
            container=given.container,
            filesystem=output.filesystem,
            threads=given.jobs,
            progress=bar.update,
        )
    for failed in report.failed.values():
        output.fail(failed)
    with output.rows("indexes", COLUMNS) as rows:
        row = {"index": report.path, "column": report.column, "files": report.files, "failed": len(report.failed)}
        row |= {"row_groups": report.fragments, "zones": report.zones, "rows": report.rows}
        rows.add(row | {"filter_bytes": report.filter_bytes, "num_bytes": report.num_bytes})
    return output.exit_code()
