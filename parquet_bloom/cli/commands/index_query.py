"""`parquet-bloom index lookup`: list the files that may hold values."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import click

from ...errors import BrokenIndexError, PredicateError
from ...lake.index_reports import CheckReport, IndexStats
from ...lake.units import FILE
from ...predicate import Equal, In, parse_sql
from ...util.messages import count
from ..options.index_options import INDEX_HELP, complete_indexed_columns, index_argument, no_live_option, open_index
from ..options.path_options import STDIN
from ..options.shared_options import OnceCommand, command, timezone_option
from ..output.output import BAD, GOOD, Output
from ..output.row_formats import Column

LOOKUP_COLUMNS = (
    Column("value", "value", folds=True),
    Column(
        "row_groups",
        "row groups",
        text=lambda value: "all" if value is None else ", ".join(map(str, value)),
        usual=lambda row: row["row_groups"] is None,
    ),
    Column(
        "rows",
        "rows",
        text=lambda value: "all" if value is None else "; ".join(map(_format_ranges, value)),
        rare=lambda row: row["rows"] is None,
        folds=True,
    ),
    Column("file", "file", folds=True),
)

_NUMBER = re.compile(r"-\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,30}", re.ASCII)
_PLAIN = re.compile(r"'((?:[^']|'')*)'")


class _Lookup(OnceCommand):
    """A command that takes negative numbers as VALUEs; other arguments that begin with a dash are options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = args[: args.index("--")] if "--" in args else list(args)
        remaining = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            for text in (ctx.params["path"], *ctx.params["values"]):
                if text.startswith("-") and text != STDIN and text in given and not _NUMBER.fullmatch(text):
                    raise click.NoSuchOption(text, ctx=ctx)
        return remaining


@command(
    "index lookup",
    example=(
        "parquet-bloom index lookup ids.index --column user.id 42 43\n"
        "parquet-bloom index lookup ids.index --column trace --text f00d --format ndjson | jq -r .file\n"
        "parquet-bloom index lookup ids.index --column day \"DATE '2026-01-30'\"\n"
        "parquet-bloom index lookup ids.index --column '(tenant, id)' \"('acme', 42)\"\n"
        "parquet-bloom index lookup ids.index --column user.id - < ids.txt"
    ),
    exit_codes="0 files are listed, 1 no file is: no row has any of the values; 2 error.",
    paths=False,
    about=(
        f"{INDEX_HELP} A VALUE is a literal as in `find --where`: 42, 1.50, 1e3, 'text', TRUE, X'AB', DATE "
        "'2026-01-30', TIMESTAMP '...', UUID '...'; of several columns together ('acme', 42); or - for values on "
        "standard input, one a line."
    ),
    cls=_Lookup,
    ignore_unknown_options=True,
)
@index_argument
@click.argument("values", metavar="VALUE...", nargs=-1, required=True, shell_complete=complete_indexed_columns)
@click.option(
    "--column",
    metavar="NAME",
    shell_complete=complete_indexed_columns,
    help="Look values up in this column, or expression, of the index. Without it the first VALUE is its name.",
)
@click.option(
    "--text",
    "as_text",
    is_flag=True,
    help="Take VALUEs literally, as strings without quotes: for columns of strings, UUIDs, dates and times.",
)
@no_live_option
@timezone_option
def lookup(
    output: Output,
    path: str,
    column: str | None,
    values: tuple[str, ...],
    as_text: bool,
    no_live: bool,
    timezone: str,
) -> int:
    """List the files (and row groups, and rows in them) that may hold each VALUE.

    A file that is not listed has no such row. The result includes every file of the lake that is not indexed, or has
    changed since it was.
    """
    if column is None:
        column, values = values[0], values[1:]
    if not values:
        raise click.UsageError("missing argument 'VALUE...'", click.get_current_context())
    texts = list(_expand_stdin(values))
    literals = texts if as_text else list(_parse_literals(texts))
    with open_index(output, path, live=not no_live) as index, output.step("look up"):
        index.state.require_comparable(column, literals)
        answers = index.lookup(column, literals, timezone=timezone)
        unindexed = len(index.unindexed)
    num_candidates = sum(map(len, answers))
    files = len({candidate.path for answer in answers for candidate in answer})
    with output.rows("candidates", LOOKUP_COLUMNS) as rows:
        for value, answer in zip(texts, answers, strict=True):
            rows.add_all(
                {
                    "value": value,
                    "row_groups": _as_list(each.row_groups),
                    "rows": None if each.rows is None else [[list(span) for span in ranges] for ranges in each.rows],
                    "file": each.path,
                }
                for each in answer
            )
        rows.facts |= {"column": column, "doubts": answers.doubts}
        rows.facts["totals"] = {
            "values": len(texts),
            "candidates": num_candidates,
            "files": files,
            "unindexed": unindexed,
            "requests": answers.requests,
            "bytes_read": answers.bytes_read,
        }
    for doubt in answers.doubts:
        output.note(f"in doubt, so more files may be listed than necessary: {doubt}")
    text = f"{count(files, 'file')} for {count(len(texts), 'value')}"
    if unindexed:
        text += f", {unindexed:,} of them not indexed"
    output.summary(f"{text}; {count(answers.requests, 'request')}, {count(answers.bytes_read, 'byte')}")
    return output.exit_code(GOOD if num_candidates else BAD)


def _as_list(row_groups: Iterable[int] | None) -> list[int] | None:
    return None if row_groups is None else list(row_groups)


def _format_ranges(ranges: Iterable[list[int]]) -> str:
    """Format the rows of a row group, from the first to the last of each range."""
    return ", ".join(f"{start}-{stop - 1}" for start, stop in ranges)


def _expand_stdin(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        if value != STDIN:
            yield value
            continue
        data = sys.stdin.buffer.read() if sys.stdin else b""
        yield from filter(None, (line.decode("utf-8", "surrogateescape") for line in data.splitlines()))


def _parse_literals(texts: Iterable[str]) -> Iterator[Any]:
    """Parse literals, using the SQL parser, which is slow, only for those that are not plain integers or strings."""
    for text in texts:
        if _WHOLE.fullmatch(text):
            yield int(text)
        elif match := _PLAIN.fullmatch(text):
            yield match[1].replace("''", "'")
        else:
            yield _parse_literal(text)


def _parse_literal(text: str) -> Any:
    with suppress(PredicateError):
        node = parse_sql(f"x = {text}")
        if isinstance(node, Equal) and node.column == "x" and node.value is not None:
            return node.value
    with suppress(PredicateError):  # values of several columns together
        node = parse_sql(f"x IN {text}")
        if isinstance(node, In) and node.column == "x" and text.startswith("(") and len(node.values) > 1:
            return node.values
    raise PredicateError(
        f"{text} is not a literal such as 42, 'text' or DATE '2026-01-30'; use --text for strings without quotes"
    )


CHECK_COLUMNS = (Column("problem", "problem", folds=True, style={"fg": "red"}),)


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
    with output.rows("problems", CHECK_COLUMNS) as rows:
        for problem in report.problems:
            rows.add({"problem": problem})
        rows.facts["totals"] = {"problems": len(report.problems), "files": report.files, "values": report.values}
    text = count(len(report.problems), "problem") if report.problems else "nothing is wrong"
    if sample:
        text += f"; {count(report.files, 'file')} read again, {count(report.values, 'value')} looked up"
    output.summary(text)
    return output.exit_code(GOOD if report.ok else BAD)


STATS_COLUMNS = (
    Column("column", "column", folds=True),
    Column("values", "values", right=True, text=lambda value: f"{value:,}"),
    Column("num_bytes", "bytes", right=True, text=lambda value: f"{value:,}"),
    Column("bytes_a_value", "bytes a value", right=True, text=lambda value: "-" if value is None else f"{value:.2f}"),
    Column("expected_false", "named in vain", right=True),
)


@command(
    "index stats",
    example="parquet-bloom index stats ids.index --json",
    exit_codes="0 shown, 2 error.",
    paths=False,
    about=INDEX_HELP,
)
@index_argument
@no_live_option
def stats(output: Output, path: str, no_live: bool) -> int:
    """Show the size of an index, a row per column: values (once per file, row group or zone), bytes, bytes a value.

    "named in vain" is the number of files (or row groups, or zones) that a lookup is expected to list for a value that
    no file has.
    """
    with open_index(output, path, live=not no_live) as index, output.step("reckon"):
        statistics = index.stats()
    with output.rows("columns", STATS_COLUMNS) as rows:
        for column in statistics.columns:
            values, num_bytes = statistics.entries[column], statistics.num_bytes[column]
            row = {"column": column, "values": values, "num_bytes": num_bytes}
            row |= {"bytes_a_value": num_bytes / values if values else None}
            rows.add(row | {"expected_false": float(statistics.expected_false[column])})
        rows.facts |= {
            "layout": statistics.layout,
            "granularity": statistics.granularity,
            "zone_rows": statistics.zone_rows or None,
            "settings": dict(statistics.settings),
        }
        rows.facts |= {"version": statistics.version, "snapshot": dict(statistics.snapshot)}
        rows.facts["totals"] = {
            "segments": statistics.segments,
            "files": statistics.files,
            "units": statistics.units,
            "unindexed": statistics.unindexed,
            "changed": statistics.changed,
            "gone": statistics.gone,
            "files_bytes": statistics.files_bytes,
        }
    output.summary(_summarize(statistics))
    return output.exit_code()


def _summarize(statistics: IndexStats) -> str:
    text = f"{statistics.layout}: {count(statistics.files, 'file')}"
    if statistics.granularity != FILE:
        text += f", {count(statistics.units, statistics.granularity.replace('_', ' '))}"
    if statistics.zone_rows:
        text += f" of {count(statistics.zone_rows, 'row')}"
    text += f", in {count(statistics.segments, 'segment')}"
    if statistics.unindexed is not None:
        text += f"; {statistics.unindexed:,} not indexed"
    for number, what in ((statistics.changed, "changed since"), (statistics.gone, "gone")):
        if number:
            text += f", {number:,} {what}"
    if statistics.snapshot:
        text += f"; {statistics.snapshot.get('kind')} version {statistics.snapshot.get('version')}"
    return text
