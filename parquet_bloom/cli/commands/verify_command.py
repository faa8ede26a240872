"""`parquet-bloom verify`: check every filter."""

from __future__ import annotations

from ...file.many_files import Progress
from ...file.verify_file import VerifyReport, summarize_verdicts
from ...scan.survey_files import verify_file
from ...util.messages import count
from ..command import CommandOptions, command, flag, group
from ..options.path_options import MatchedPaths
from ..options.shared_options import FILE_JOBS, OPTIONAL_PATHS, VARIANT, columns_option
from ..options.table_options import TableVersion, find_inputs
from ..output.output import BAD, GOOD, Output
from ..output.row_formats import PROBLEM, Column
from ..rewrite_files import run_over_files

COLUMNS = (
    Column("file", "file"),
    Column("row_group", "row group", right=True),
    Column("column", "column"),
    Column("ok", "filter", text=lambda value: "good" if value else "bad"),
    Column("num_values", "values probed", right=True, usual=lambda row: row["num_values"] is None),
    Column("num_missing", "denied", right=True, usual=lambda row: not row["num_missing"]),
    Column("note", "note", usual=lambda row: row["note"] is None, folds=True),
    PROBLEM,
)


class VerifyOptions(CommandOptions):
    paths: tuple[str, ...] = OPTIONAL_PATHS
    table = group(TableVersion)
    data: bool = flag("Also read the columns and probe every value: a filter must not deny one.")
    columns: tuple[str, ...] = columns_option("Check the filters of this column only, a dotted path. Repeatable.")
    variant: str | None = VARIANT
    jobs: int = FILE_JOBS


@command("verify", VerifyOptions)
def verify(output: Output, given: VerifyOptions) -> int:
    """Check the filters of Parquet and ORC files: their offsets, headers, sizes, and with --data their answers.

    Without --data no values are read: that a filter denies a value of its column, by damage or a bug of its writer,
    only --data finds. Filters of ORC files that readers must ignore because of known writer bugs are marked as such,
    and count as good. Row groups of ORC files are numbered across stripes.

    Exit codes: 0 every filter is good, or there is none; 1 a filter is bad; 2 error: a file or its footer cannot be
    read.

    Example:
      parquet-bloom verify lake/ --data
    """
    inputs = find_inputs(given.paths, given.table, output)
    totals = {"files": 0, "filters": 0, "bad": 0, "unfiltered": 0}
    probed = False

    def verify_one(file: MatchedPaths, progress: Progress) -> VerifyReport:
        columns = given.columns or None
        return verify_file(file.path, given.data, columns, output.filesystem, progress, given.variant, inputs.footers)

    with output.rows("filters", COLUMNS) as rows:
        rows.facts |= {"data": given.data, "totals": totals} | inputs.facts
        with run_over_files(output, "verify", inputs.files, verify_one, given.jobs) as reports:
            for report in reports:
                totals["files"] += 1
                totals["filters"] += len(report.chunks)
                totals["bad"] += len(report.problems)
                totals["unfiltered"] += not report.chunks
                probed |= any(chunk.num_values is not None for chunk in report.chunks)
                rows.add_all(chunk.to_dict() for chunk in report.chunks)
                output.detail(str(report))
    counts = totals["filters"], totals["bad"], totals["unfiltered"]
    output.summary(summarize_verdicts(f" in {count(totals['files'], 'file')}", *counts, probed, "--data"))
    return output.exit_code(BAD if totals["bad"] else GOOD)
