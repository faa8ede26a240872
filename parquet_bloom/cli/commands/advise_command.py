"""`parquet-bloom advise`: recommend columns for filters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from ...errors import printable
from ...file.advice_report import SAMPLE, SAMPLE_BYTES, AdviceReport, LakeSurvey, SurveyTask, make_survey_task
from ...file.file_survey import FileSurvey
from ...file.many_files import Progress
from ...file.verdict import ENGINES, MAYBE, NO, YES, ColumnAdvice
from ...scan.survey_files import survey
from ...util.messages import count
from ...util.threads import processors
from ..command import CommandOptions, command, group, option
from ..options.path_options import MatchedPaths, check_output
from ..options.shared_options import OPTIONAL_PATHS, columns_option
from ..options.table_options import TableVersion, find_inputs
from ..output.output import Output
from ..output.row_formats import Column
from ..rewrite_files import run_over_files

_ORDER = (YES, MAYBE, NO)
_LEGEND = """\b
Columns of the table:
  distinct     share of a row group's values that are distinct
  in dict.     row groups whose values are all in a dictionary
  in range     row groups that min and max do not skip: few of a sorted
               column, all of a random one
  size         of all filters, relative to the files; at most, if distinct
               is ?
  skips        row groups that min, max and a filter skip, for a value that
               occurs
  absent       the same for a value that does not occur
  fpp now      of the existing filters; of ORC files only, as are the next two
  a stripe     the most row groups in one
  fpp of each  the fpp to write filters with, so that a stripe has --fpp
  asked by     which of DuckDB, DataFusion, ClickHouse and Spark use such a
               column's filters themselves"""
_FILES_AT_ONCE = 4  # per processor: waiting for a store takes no processor time


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.1%}"


def _shares(value: dict[str, float]) -> str:
    return "; ".join(f"{fpp}: {share:.2%}" for fpp, share in value.items()) or "-"


def _engines(value: list[str]) -> str:
    return "all" if len(value) == len(ENGINES) else ", ".join(value) or "-"


def _detail(row: Any) -> bool:
    """Mark a column that tables leave out."""
    return True


COLUMNS = (
    Column("verdict", "filter?"),
    Column("column", "column"),
    Column("type", "type"),
    Column("row_groups", "row groups", right=True, usual=_detail),
    Column("filtered", "have one", right=True, usual=lambda row: row["filtered"] == 0, sinks=True),
    Column("num_values", "values", right=True, usual=_detail),
    Column("num_bytes", "bytes", right=True, usual=_detail),
    Column("distinct", "distinct", right=True, text=_percent),
    Column("distinct_at_most", "at most", right=True, text=_percent, usual=_detail),
    Column("dictionary", "in dict.", right=True, text=_percent),
    Column("same_min", "same min", right=True, text=_percent, usual=_detail),
    Column("same_max", "same max", right=True, text=_percent, usual=_detail),
    Column("in_range", "in range", right=True, text=_percent),
    Column("holding", "hold it", right=True, text=_percent, usual=_detail),
    Column("filter_share", "size", right=True, text=_percent),
    Column("skipped_present", "skips", right=True, text=_percent),
    Column("skipped_absent", "absent", right=True, text=_percent),
    Column("sizes", "bytes of filters", usual=_detail),
    Column("shares", "share of the files", text=_shares, usual=_detail),
    Column("filter_fpp", "fpp now", right=True, usual=lambda row: row["filter_fpp"] is None, sinks=True),
    Column("together", "a stripe", right=True, usual=lambda row: row["together"] <= 1),
    Column("row_group_fpp", "fpp of each", right=True, usual=lambda row: row["together"] <= 1),
    Column("engines", "asked by", text=_engines, sinks=True),
    Column("reason", "why", below=True),
)


class AdviseOptions(CommandOptions):
    about = _LEGEND

    paths: tuple[str, ...] = OPTIONAL_PATHS
    table = group(TableVersion)
    columns: tuple[str, ...] = columns_option(
        "Consider this column only. It is a dotted path; a group means all columns in it. Repeatable."
    )
    sample: int | None = option(
        "N",
        "Read the values of N row groups, of all columns; 0 reads none. By default only columns that metadata leaves "
        f"in doubt are read: {SAMPLE} row groups, of at most {SAMPLE_BYTES >> 20} MiB, spread over all files.",
        type=click.IntRange(min=0),
    )
    html: str | None = option(
        "FILE",
        "Also write a self-contained HTML page. It shows what a lookup reads of each column, and the figures.",
    )
    fpp: float = option(
        "FPP",
        "False-positive probability to compute sizes for. In ORC files it is that of a stripe.",
        type=float,
        default=0.01,
    )


@command("advise", AdviseOptions)
def advise(output: Output, given: AdviseOptions) -> int:
    """Recommend the columns that deserve filters, for queries of the form column = value, and say why.

    Footers are read, and the headers of dictionaries in a few files; and where these leave a doubt of a column, a
    sample of its values, of 64 MiB at most (--sample). Prints a row per column, the best first, then the command that
    embeds the recommended filters. Nothing can be embedded into ORC files: for them it prints how to rewrite them. A
    reader that reads whole stripes probes the filters of all row groups in them, so each of these needs a smaller fpp.

    Exit codes: 0 advised, 2 error: a file could not be read; the advice is about the others.

    Example:
      parquet-bloom advise lake/
      parquet-bloom advise lake/ --column user.id --column trace --sample 8 --fpp 0.001
    """
    inputs = find_inputs(given.paths, given.table, output)
    if given.html is not None:
        check_output(inputs.files, given.html)
    look: Callable[..., FileSurvey] = survey
    arguments: tuple[str, ...] | None = None
    if inputs.table is not None:
        look = partial(survey, table_columns=inputs.table.snapshot.columns)
        arguments = given.table.arguments or given.paths
    names = [file.path for file in inputs.files]
    task, _ = make_survey_task(
        names, given.columns or None, given.sample or 0, given.fpp, filesystem=output.filesystem, look=look
    )
    surveys = LakeSurvey(task)
    jobs = _FILES_AT_ONCE * processors()
    with output.rows("columns", COLUMNS) as rows:
        with run_over_files(output, "look at files", inputs.files, _bind(task), jobs) as results:
            surveys.add(results)
        sample = surveys.plan_sample(given.fpp) if given.sample is None else None
        if sample is not None:
            files = [file for file in inputs.files if file.path in sample.per_file]
            with run_over_files(output, "read values", files, _bind(sample), jobs) as results:
                surveys.add_samples(results)
        report = surveys.make_report(given.paths, given.fpp, arguments)
        if given.html is not None:
            report.to_html(given.html, filesystem=output.filesystem)
        rows.add_all(_row(advice, report) for advice in sorted(report.columns, key=_rank))
        rows.facts |= report.to_dict() | inputs.facts
    _say_commands(output, report)
    output.summary(_summary(report))
    return output.exit_code()


def _bind(task: SurveyTask) -> Callable[[MatchedPaths, Progress], tuple[str, FileSurvey | None, str | None]]:
    """Return the survey of a file as `run_over_files` calls it."""

    def survey_one(file: MatchedPaths, progress: Progress) -> tuple[str, FileSurvey | None, str | None]:
        return file.path, task(file.path), None

    return survey_one


def _rank(advice: ColumnAdvice) -> int:
    return _ORDER.index(advice.verdict)


def _row(advice: ColumnAdvice, report: AdviceReport) -> dict[str, Any]:
    row: dict[str, Any] = {column.key: getattr(advice, column.key, None) for column in COLUMNS}
    shares = {each: advice.share(each, report.num_bytes) for each in advice.sizes}
    return row | {
        "engines": list(advice.engines),
        "filter_share": shares.get(report.fpp),
        "sizes": {f"{each:g}": num_bytes for each, num_bytes in advice.sizes.items()},
        "shares": {f"{each:g}": share for each, share in shares.items() if share is not None},
    }


def _say_commands(output: Output, report: AdviceReport) -> None:
    """Print the commands to run next on stdout, as they are part of the result."""
    commands = [("to embed what is advised:", report.command), ("to know more:", report.open_question)]
    if report.orc_calls:
        spark, pyarrow = report.orc_calls
        commands += [("to write ORC files with what is advised, on Spark:", spark), ("by pyarrow:", pyarrow)]
    lines = [f"{head}\n    {printable(command)}\n" for head, command in commands if command]
    if lines:
        output.text("\n" + "".join(lines))


def _summary(report: AdviceReport) -> str:
    counts = (count(report.files, "file"), count(report.row_groups, "row group"), count(report.rows, "row"))
    read = f"values of {count(report.sampled, 'file')} read" if report.sampled else "no values read"
    return f"{', '.join(counts)}, {report.num_bytes:,} bytes; {read}"
