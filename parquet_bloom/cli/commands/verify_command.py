"""`parquet-bloom verify`: check every filter."""

from __future__ import annotations

import click

from ...file.many_files import Progress
from ...file.verify_file import ChunkVerdict, VerifyReport, summarize_verdicts
from ...scan.survey_files import verify_file
from ...util.messages import count
from ..options.path_options import MatchedPaths
from ..options.shared_options import column_option, command, jobs_option, variant_option
from ..options.table_options import TABLES_HELP, TableRequest, find_inputs, table_options
from ..output.output import BAD, GOOD, Output
from ..output.row_formats import PROBLEM, Column
from ..rewrite_files import run_over_files

COLUMNS = (
    Column("file", "file", folds=True),
    Column("row_group", "row group", right=True),
    Column("column", "column", folds=True),
    Column("ok", "filter", text=lambda value: "good" if value else "bad"),
    Column("num_values", "values probed", right=True, usual=lambda row: row["num_values"] is None),
    Column("num_missing", "denied", right=True, usual=lambda row: not row["num_missing"]),
    Column("note", "note", usual=lambda row: row["note"] is None, folds=True),
    PROBLEM,
)


@command(
    "verify",
    example="parquet-bloom verify lake/ --data",
    exit_codes=(
        "0 every filter is good, or there is none; 1 a filter is bad; 2 error: a file or its footer cannot be read."
    ),
    optional_paths=True,
    about=TABLES_HELP,
)
@table_options
@click.option("--data", is_flag=True, help="Also read the columns and probe every value: a filter must not deny one.")
@column_option("Check the filters of this column only, a dotted path. Repeatable.")
@variant_option
@jobs_option
def verify(
    output: Output,
    paths: tuple[str, ...],
    table: TableRequest,
    data: bool,
    columns: tuple[str, ...],
    variant: str | None,
    jobs: int,
) -> int:
    """Check the filters of Parquet and ORC files: their offsets, headers, sizes, and with --data their answers.

    Without --data no values are read: that a filter denies a value of its column, by damage or a bug of its writer,
    only --data finds. Filters of ORC files that readers must ignore because of known writer bugs are marked as such,
    and count as good. Row groups of ORC files are numbered across stripes.
    """
    inputs = find_inputs(paths, table, output)
    totals = {"files": 0, "filters": 0, "bad": 0, "unfiltered": 0}
    probed = False

    def verify_one(file: MatchedPaths, progress: Progress) -> VerifyReport:
        return verify_file(file.path, data, columns or None, output.filesystem, progress, variant, inputs.footers)

    with output.rows("filters", COLUMNS) as rows:
        rows.facts |= {"data": data, "totals": totals} | inputs.facts
        with run_over_files(output, "verify", inputs.files, verify_one, jobs) as reports:
            for report in reports:
                totals["files"] += 1
                totals["filters"] += len(report.chunks)
                totals["bad"] += len(report.problems)
                totals["unfiltered"] += not report.chunks
                probed |= any(chunk.num_values is not None for chunk in report.chunks)
                for chunk in report.chunks:
                    rows.add(_row(chunk))
                output.detail(str(report))
    counts = totals["filters"], totals["bad"], totals["unfiltered"]
    output.summary(summarize_verdicts(f" in {count(totals['files'], 'file')}", *counts, probed, "--data"))
    return output.exit_code(BAD if totals["bad"] else GOOD)


def _row(chunk: ChunkVerdict) -> dict[str, object]:
    return {
        "file": chunk.path,
        "row_group": chunk.row_group,
        "column": chunk.column,
        "ok": chunk.problem is None,
        "num_values": chunk.num_values,
        "num_missing": None if chunk.num_values is None else chunk.num_missing,
        "note": chunk.note,
        "problem": chunk.problem,
    }
