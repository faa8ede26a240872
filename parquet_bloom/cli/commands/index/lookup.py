"""`parquet-bloom index lookup`: the files that may hold values."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import click

from ....errors import PredicateError
from ....predicate import Equal, parse_sql
from ...options.common import command, timezone_option
from ...options.paths import STDIN
from ...output.output import BAD, GOOD, Output
from ...output.table import Column, counted
from .common import INDEX_HELP, index_argument, indexed_columns, no_live_option, opened

COLUMNS = (
    Column("value", "value", folds=True),
    Column(
        "row_groups",
        "row groups",
        text=lambda value: "all" if value is None else ", ".join(map(str, value)),
        usual=lambda row: row["row_groups"] is None,
    ),
    Column("file", "file", folds=True),
)

_NUMBER = re.compile(r"-\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,30}", re.ASCII)
_PLAIN = re.compile(r"'((?:[^']|'')*)'")


class _Lookup(click.Command):
    """Takes a negative number for a VALUE; other arguments that begin with a dash are options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = args[: args.index("--")] if "--" in args else list(args)
        left = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            for text in (ctx.params["path"], ctx.params["column"], *ctx.params["values"]):
                if text.startswith("-") and text != STDIN and text in given and not _NUMBER.fullmatch(text):
                    raise click.NoSuchOption(text, ctx=ctx)
        return left


@command(
    "index lookup",
    example=(
        "parquet-bloom index lookup ids.index user.id 42 43\n"
        "parquet-bloom index lookup ids.index trace --text f00d --format ndjson | jq -r .file\n"
        "parquet-bloom index lookup ids.index day \"DATE '2026-01-30'\"\n"
        "parquet-bloom index lookup ids.index user.id - < ids.txt"
    ),
    exit_codes="0 files are named, 1 none is: no row has any of the values; 2 error.",
    paths=False,
    about=(
        f"{INDEX_HELP} A VALUE is a literal as in `find --where`: 42, 1.50, 1e3, 'text', TRUE, X'AB', DATE "
        "'2026-01-30', TIMESTAMP '...', UUID '...'; or - for values on standard input, one a line."
    ),
    cls=_Lookup,
    ignore_unknown_options=True,
)
@index_argument
@click.argument("column", metavar="COLUMN", shell_complete=indexed_columns)
@click.argument("values", metavar="VALUE...", nargs=-1, required=True)
@click.option(
    "--text",
    "as_text",
    is_flag=True,
    help="Take VALUEs as they stand, as texts without quotes: for columns of texts, UUIDs, dates and times.",
)
@no_live_option
@timezone_option
def lookup(
    output: Output, path: str, column: str, values: tuple[str, ...], as_text: bool, no_live: bool, timezone: str
) -> int:
    """Name the files (and row groups) that may hold each VALUE; a file that is not named has no row of it.

    Named are those that the index says may, and every file of the lake that it does not know, or that has changed
    since.
    """
    spelled = list(_with_stdin(values))
    literals = spelled if as_text else list(_literals(spelled))
    with opened(output, path, live=not no_live) as index, output.step("look up"):
        answers = index.lookup(column, literals, timezone=timezone)
        unindexed = len(index.unindexed)
    count = sum(map(len, answers))
    files = len({candidate.path for answer in answers for candidate in answer})
    with output.rows("candidates", COLUMNS) as rows:
        for value, answer in zip(spelled, answers, strict=True):
            rows.add_all({"value": value, "row_groups": _listed(each.row_groups), "file": each.path} for each in answer)
        rows.facts |= {"column": column, "doubts": answers.doubts}
        rows.facts["totals"] = {
            "values": len(spelled),
            "candidates": count,
            "files": files,
            "unindexed": unindexed,
            "requests": answers.requests,
            "bytes_read": answers.bytes_read,
        }
    for doubt in answers.doubts:
        output.note(f"in doubt, so that more is named than need be: {doubt}")
    text = f"{counted(files, 'file')} for {counted(len(spelled), 'value')}"
    if unindexed:
        text += f", {unindexed:,} of them not indexed"
    output.summary(f"{text}; {counted(answers.requests, 'request')}, {counted(answers.bytes_read, 'byte')}")
    return output.exit_code(GOOD if count else BAD)


def _listed(row_groups: Iterable[int] | None) -> list[int] | None:
    return None if row_groups is None else list(row_groups)


def _with_stdin(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        if value != STDIN:
            yield value
            continue
        listed = sys.stdin.buffer.read() if sys.stdin else b""
        yield from filter(None, (line.decode("utf-8", "surrogateescape") for line in listed.splitlines()))


def _literals(texts: Iterable[str]) -> Iterator[Any]:
    """The values that texts stand for; SQL's parser is asked where they are not as simple as most."""
    for text in texts:
        if _WHOLE.fullmatch(text):
            yield int(text)
        elif found := _PLAIN.fullmatch(text):
            yield found[1].replace("''", "'")
        else:
            yield _parsed(text)


def _parsed(text: str) -> Any:
    with suppress(PredicateError):
        node = parse_sql(f"x = {text}")
        if isinstance(node, Equal) and node.column == "x" and node.value is not None:
            return node.value
    raise PredicateError(
        f"{text} is no literal, such as 42, 'text' or DATE '2026-01-30'; --text takes values as they stand"
    )
