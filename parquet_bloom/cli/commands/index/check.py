"""`parquet-bloom index check`: whether an index is what was written."""

from __future__ import annotations

import click

from ....errors import BrokenIndexError
from ....lake.reports import CheckReport
from ...options.common import command
from ...output.output import BAD, GOOD, Output
from ...output.table import Column, counted
from .common import INDEX_HELP, index_argument, opened

COLUMNS = (Column("problem", "problem", folds=True, style={"fg": "red"}),)


@command(
    "index check",
    example="parquet-bloom index check ids.index --sample 10",
    exit_codes="0 nothing is wrong, 1 something is, 2 error.",
    paths=False,
    about=INDEX_HELP,
)
@index_argument
@click.option(
    "--sample",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Read so many of its files again, chosen at random, and look up every value in them.",
)
def check(output: Output, path: str, sample: int) -> int:
    """Read a whole index, and some of its files again; show what is wrong, a row each.

    A lookup that meets something broken names every file that it could be about; a new index mends that.
    """
    try:
        with opened(output, path, live=sample > 0) as index, output.progress(0) as bar, output.step("check"):
            report = index.check(sample, bar.of)
    except BrokenIndexError as error:  # it cannot even be opened
        report = CheckReport([str(error)])
    with output.rows("problems", COLUMNS) as rows:
        for problem in report.problems:
            rows.add({"problem": problem})
        rows.facts["totals"] = {"problems": len(report.problems), "files": report.files, "values": report.values}
    text = counted(len(report.problems), "problem") if report.problems else "nothing is wrong"
    if sample:
        text += f"; {counted(report.files, 'file')} read again, {counted(report.values, 'value')} looked up"
    output.summary(text)
    return output.exit_code(GOOD if report.ok else BAD)
