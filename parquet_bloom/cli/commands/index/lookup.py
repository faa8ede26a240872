"""`parquet-bloom index lookup`: list the files that may hold values."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import click

from ....errors import PredicateError
from ....predicate import Equal, In, parse_sql
from ....util.wording import count
from ...options.common import OnceCommand, command, timezone_option
from ...options.paths import STDIN
from ...output.output import BAD, GOOD, Output
from ...output.table import Column
from .common import INDEX_HELP, complete_indexed_columns, index_argument, no_live_option, open_index

COLUMNS = (
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
    with output.rows("candidates", COLUMNS) as rows:
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
