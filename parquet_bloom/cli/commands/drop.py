"""`parquet-bloom drop`: filters out of files again, in place or to another place, or as a plan."""

from __future__ import annotations

from dataclasses import asdict

from ...file.write.drop import DropReport
from ...file.write.drop import drop as drop_from
from ..options.common import column_option, command, jobs_option, require_target, target_options
from ..output.output import Output
from ..output.table import Column
from ..run.parallel import Progress
from ..run.rewrite import Rewriting

DROP = Rewriting(
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
    row_of=asdict,
)


@command(
    "drop",
    example=(
        "parquet-bloom drop lake/ --column trace --dry-run\n"
        "parquet-bloom drop lake/ --column trace --in-place\n"
        "parquet-bloom drop a.parquet -o plain.parquet"
    ),
    exit_codes="0 done, or there was nothing to drop; 2 error, of whichever file: the others were done.",
)
@column_option("A column whose filters go, as a dotted path. Repeatable. Without it, all filters go.")
@target_options("the filters that would go")
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
    """Take Bloom filters out of Parquet files again.

    Pages and all other metadata stay byte for byte. Filters that stand right before the footer leave the file; others,
    between row groups or before page indexes, become dead bytes: the footer points to them no more. -o or --in-place
    is needed, but for --dry-run. A file is the old one or the new one, whole, whatever happens.
    """
    require_target(target, in_place, dry_run)

    def drop_one(path: str, place: str | None, progress: Progress) -> DropReport:
        progress(0, 1)  # it takes no time but that of the copy, which is not begun once nobody waits for it
        return drop_from(path, columns or None, output=place, dry_run=dry_run, filesystem=output.filesystem)

    return DROP.run(output, paths, target, dry_run, jobs, drop_one)
