"""`parquet-bloom index check`: check an index for damage and wrong answers."""

from __future__ import annotations

import click

from ....errors import BrokenIndexError
from ....lake.reports import CheckReport
from ....util.wording import count
from ...options.common import command
from ...output.output import BAD, GOOD, Output
from ...output.table import Column
from .common import INDEX_HELP, index_argument, open_index

COLUMNS = (Column("problem", "problem", folds=True, style={"fg": "red"}),)


@command(
    "index check",
    example="parquet-bloom index check ids.index --sample 10",
    exit_codes="0 no problem, 1 the index has problems, 2 error.",
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
    help="Read N of its files again, chosen at random, and look up every value in them.",
)
def check(output: Output, path: str, sample: int) -> int:
    """Read all of an index, and optionally some of its files again; show the problems, a row each.

    A lookup that reads a broken part of the index lists every file this part may cover; create a new index to fix that.
    """
    try:
        with open_index(output, path, live=sample > 0) as index, output.progress(0) as bar, output.step("check"):
            report = index.check(sample, bar.update)
    except BrokenIndexError as error:  # it cannot even be opened
        report = CheckReport([str(error)])
    with output.rows("problems", COLUMNS) as rows:
        for problem in report.problems:
            rows.add({"problem": problem})
        rows.facts["totals"] = {"problems": len(report.problems), "files": report.files, "values": report.values}
    text = count(len(report.problems), "problem") if report.problems else "nothing is wrong"
    if sample:
        text += f"; {count(report.files, 'file')} read again, {count(report.values, 'value')} looked up"
    output.summary(text)
    return output.exit_code(GOOD if report.ok else BAD)
