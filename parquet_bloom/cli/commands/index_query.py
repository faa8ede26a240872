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
from ..command import CommandOptions, OnceCommand, argument, command, flag, option
from ..options.index_options import INDEX, NO_LIVE, complete_indexed_columns, find_only_column, open_index
from ..options.path_options import STDIN
from ..options.shared_options import TIMEZONE
from ..output.output import BAD, GOOD, Output
from ..output.row_formats import Column

LOOKUP_COLUMNS = (
    Column("value", "value"),
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
        usual=lambda row: row["rows"] is None,
    ),
    Column("file", "file"),
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


class LookupOptions(CommandOptions):
    path: str = INDEX
    values: tuple[str, ...] = argument(
        "VALUE...",
        "A VALUE is a literal as in `find --where`: 42, 1.50, 1e3, 'text', TRUE, X'AB', DATE '2026-01-30', TIMESTAMP "
        "'...', UUID '...'; of several columns together ('acme', 42); or - for values on standard input, one a line.",
        nargs=-1,
        required=True,
    )
    column: str | None = option(
        "NAME",
        "Look values up in this column, or expression, of the index. Default: the index's column, if it has one.",
        shell_complete=complete_indexed_columns,
    )
    as_text: bool = flag(
        "Take VALUEs literally, as strings without quotes: for columns of strings, UUIDs, dates and times.", "--text"
    )
    no_live: bool = NO_LIVE
    timezone: str = TIMEZONE


@command("index lookup", LookupOptions, cls=_Lookup, ignore_unknown_options=True)
def lookup(output: Output, given: LookupOptions) -> int:
    """List the files (and row groups, and rows in them) that may hold each VALUE.

    A file that is not listed has no such row. The result includes every file of the lake that is not indexed, or has
    changed since it was.

    Exit codes: 0 files are listed, 1 no file is: no row has any of the values; 2 error.

    Example:
      parquet-bloom index lookup ids.index --column user.id 42 43
      parquet-bloom index lookup ids.index --column trace --text f00d --format ndjson | jq -r .file
      parquet-bloom index lookup ids.index --column day "DATE '2026-01-30'"
      parquet-bloom index lookup ids.index --column '(tenant, id)' "('acme', 42)"
      parquet-bloom index lookup ids.index --column user.id - < ids.txt
    """
    texts = list(_expand_stdin(given.values))
    literals = texts if given.as_text else list(_parse_literals(texts))
    with open_index(output, given.path, live=not given.no_live) as index, output.step("look up"):
        column = given.column or find_only_column(index, "--column")
        index.state.require_comparable(column, literals)
        answers = index.lookup(column, literals, timezone=given.timezone)
        unindexed = len(index.unindexed)
    num_candidates = sum(map(len, answers))
    files = len({candidate.path for answer in answers for candidate in answer})
    with output.rows("candidates", LOOKUP_COLUMNS, asked_for=True) as rows:
        for value, answer in zip(texts, answers, strict=True):
            rows.add_all(each.to_dict() | {"value": value, "file": each.path} for each in answer)
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


class CheckOptions(CommandOptions):
    path: str = INDEX
    sample: int = option(
        "N",
        "Read N of its files again, chosen at random, and look up every value in them.",
        type=click.IntRange(min=0),
        default=0,
    )


@command("index check", CheckOptions)
def check(output: Output, given: CheckOptions) -> int:
    """Read all of an index, and optionally some of its files again; show the problems, a row each.

    A lookup that reads a broken part of the index lists every file this part may cover; create a new index to fix that.

    Exit codes: 0 no problem, 1 the index has problems, 2 error.

    Example:
      parquet-bloom index check ids.index --sample 10
    """
    try:
        with (
            open_index(output, given.path, live=given.sample > 0) as index,
            output.progress(0) as bar,
            output.step("check"),
        ):
            report = index.check(given.sample, bar.update)
    except BrokenIndexError as error:  # it cannot even be opened
        report = CheckReport([str(error)])
    with output.rows("problems", CHECK_COLUMNS) as rows:
        rows.add_all({"problem": problem} for problem in report.problems)
        rows.facts["totals"] = {"problems": len(report.problems), "files": report.files, "values": report.values}
    text = count(len(report.problems), "problem") if report.problems else "nothing is wrong"
    if given.sample:
        text += f"; {count(report.files, 'file')} read again, {count(report.values, 'value')} looked up"
    output.summary(text)
    return output.exit_code(GOOD if report.ok else BAD)


STATS_COLUMNS = (
    Column("column", "column"),
    Column("values", "values", right=True, text=lambda value: f"{value:,}"),
    Column("num_bytes", "bytes", right=True, text=lambda value: f"{value:,}"),
    Column("bytes_a_value", "bytes a value", right=True, text=lambda value: "-" if value is None else f"{value:.2f}"),
    Column("expected_false", "named in vain", right=True),
)


class StatsOptions(CommandOptions):
    path: str = INDEX
    no_live: bool = NO_LIVE


@command("index stats", StatsOptions)
def stats(output: Output, given: StatsOptions) -> int:
    """Show the size of an index, a row per column: values (once per file, row group or zone), bytes, bytes a value.

    "named in vain" is the number of files (or row groups, or zones) that a lookup is expected to list for a value that
    no file has.

    Exit codes: 0 shown, 2 error.

    Example:
      parquet-bloom index stats ids.index --json
    """
    with open_index(output, given.path, live=not given.no_live) as index, output.step("reckon"):
        statistics = index.stats()
    facts = statistics.to_dict() | {"zone_rows": statistics.zone_rows or None}
    with output.rows("columns", STATS_COLUMNS) as rows:
        for column in statistics.columns:
            values, num_bytes = statistics.entries[column], statistics.num_bytes[column]
            row = {"column": column, "values": values, "num_bytes": num_bytes}
            row |= {"bytes_a_value": num_bytes / values if values else None}
            rows.add(row | {"expected_false": float(statistics.expected_false[column])})
        rows.facts |= {key: facts[key] for key in _STATS_FACTS}
        rows.facts["totals"] = {key: facts[key] for key in _STATS_TOTALS}
    output.summary(_summarize(statistics))
    return output.exit_code()


_STATS_FACTS = ("layout", "granularity", "zone_rows", "settings", "version", "snapshot")
_STATS_TOTALS = ("segments", "files", "units", "unindexed", "changed", "gone", "files_bytes")


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
