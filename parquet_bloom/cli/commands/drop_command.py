"""`parquet-bloom drop`: remove filters from files, in place or into copies, or show what would be removed."""

from __future__ import annotations

from ...file.drop_filters import DropReport, drop_file
from ...file.many_files import Progress
from ..command import CommandOptions, command, flag, group
from ..options.shared_options import FILE_JOBS, PATHS, SKIP_BROKEN, RewriteTarget, columns_option
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
        Column("column", "column"),
        Column("num_bytes", "bytes", right=True),
        Column("freed", "freed"),
    ),
    way_out="; the filters of a table's files go only when its own engine writes the files anew",
)


class _DropTarget(RewriteTarget):
    dry_run: bool = flag("Write nothing, print what would be removed. It is a row for each filter.")


class DropOptions(CommandOptions):
    paths: tuple[str, ...] = PATHS
    columns: tuple[str, ...] = columns_option(
        "Remove the filters of this column, a dotted path. Repeatable. Default: all filters."
    )
    target = group(_DropTarget)
    skip_broken: bool = SKIP_BROKEN
    jobs: int = FILE_JOBS


@command("drop", DropOptions)
def drop(output: Output, given: DropOptions) -> int:
    """Remove Bloom filters from Parquet files.

    Pages and all other metadata stay byte for byte. Filters that are stored right before the footer are cut out of the
    file; others, between row groups or before page indexes, become dead bytes that the footer no longer refers to.
    Either -o or --in-place is required, except with --dry-run. Files are replaced atomically.

    Exit codes: 0 done, or there was nothing to drop; 2 error in a file: the others were done.

    Example:
      parquet-bloom drop lake/ --column trace --dry-run
      parquet-bloom drop lake/ --column trace --in-place
      parquet-bloom drop a.parquet -o plain.parquet
    """
    given.target.require_one()
    columns, dry_run = given.columns or None, given.target.dry_run

    def drop_one(path: str, target: str | None, progress: Progress) -> DropReport:
        return drop_file(path, columns, output=target, dry_run=dry_run, filesystem=output.filesystem)

    return DROP.run(output, given.paths, given.target, given.jobs, drop_one)
