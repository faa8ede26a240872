"""`parquet-bloom drop`: remove filters from files, in place or into copies, or show what would be removed."""

from __future__ import annotations

from dataclasses import asdict

from ...file.many_files import Progress
from ...file.write.drop_filters import DropReport, drop_file
from ..options.shared_options import (
    column_option,
    command,
    jobs_option,
    require_target,
    skip_broken_option,
    target_options,
)
from ..output.output import Output
from ..output.row_formats import Column
from ..rewrite_files import RewriteCommand

DROP = RewriteCommand(
    "drop",
    "dropped",
    bytes="bytes_freed",
    grows=False,
    columns=(
        Column("row_group", "row group", right=True),
        Column("column", "column", folds=True),
        Column("num_bytes", "bytes", right=True),
        Column("freed", "freed"),
    ),
    make_row=asdict,
    way_out="; the filters of a table's files go only when its own engine writes the files anew",
)


@command(
    "drop",
    example=(
        "parquet-bloom drop lake/ --column trace --dry-run\n"
        "parquet-bloom drop lake/ --column trace --in-place\n"
        "parquet-bloom drop a.parquet -o plain.parquet"
    ),
    exit_codes="0 done, or there was nothing to drop; 2 error in a file: the others were done.",
)
@column_option("Remove the filters of this column, a dotted path. Repeatable. Default: all filters.")
@target_options("the filters that would be removed")
@skip_broken_option
@jobs_option
def drop(
    output: Output,
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    target: str | None,
    in_place: bool,
    dry_run: bool,
    jobs: int,
) -> int:
    """Remove Bloom filters from Parquet files.

    Pages and all other metadata stay byte for byte. Filters that are stored right before the footer are cut out of the
    file; others, between row groups or before page indexes, become dead bytes that the footer no longer refers to.
    Either -o or --in-place is required, except with --dry-run. Files are replaced atomically.
    """
    require_target(target, in_place, dry_run)

    def drop_one(path: str, target: str | None, progress: Progress) -> DropReport:
        return drop_file(path, columns or None, output=target, dry_run=dry_run, filesystem=output.filesystem)

    return DROP.run(output, paths, target, dry_run, jobs, drop_one)
