"""`parquet-bloom find`: the rows that match a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import click
import pyarrow as pa

from ...predicate import parse
from ...scan.read.reader import iter_selected
from ...storage import Rewrite, create
from ..options.common import column_option, command
from ..options.paths import check_output
from ..options.predicate import describe_plan, files_asked, pruned, totals_of, where_options
from ..output.formats import RowWriter, Write, as_value
from ..output.output import BAD, GOOD, Output
from ..output.row_files import FORMATS, batches_into, format_of
from ..output.table import Column, counted
from ..output.values import is_number, plain_rows

_BATCH_ROWS = 8192

_Take = Callable[[pa.RecordBatch], None]


@command(
    "find",
    example=(
        'parquet-bloom find lake/ --where "user.id = 42" --columns user,at,url\n'
        "parquet-bloom find lake/ --where \"trace = 'f00d'\" --format ndjson | jq .url\n"
        "parquet-bloom find 's3://bucket/events/*' --where \"id IN (1, 2)\" --limit 10 -o found.parquet"
    ),
    exit_codes="0 rows match, 1 none does, 2 error: a file could not be read, so rows may be missing.",
    index=True,
)
@where_options
@column_option(
    "Give this column only, a top-level one or a dotted leaf. Repeatable; columns stand in the order they are named."
)
@click.option("--columns", "listed", metavar="A,B", help="The same, several at once.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Stop when so many rows are found.")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help=f"Write the rows into a file; its name ends in {', '.join(FORMATS)}. It is there whole, or not at all.",
)
def find(
    output: Output,
    paths: tuple[str, ...],
    where: str,
    dialect: str | None,
    timezone: str,
    ignore_case: bool,
    cache: str | None,
    index: str | None,
    zones: tuple[str, ...],
    columns: tuple[str, ...],
    listed: str | None,
    limit: int | None,
    target: str | None,
) -> int:
    """Find the rows that match a predicate, reading only what statistics, filters and page indexes leave.

    Rows come as they are found, in the order of files. A table is laid out a thousand rows at a time. In json, ndjson
    and csv, decimals, dates, times and timestamps are text (instants in UTC), bytes are hexadecimal, and NaN and the
    infinities are "NaN", "Infinity" and "-Infinity"; in csv, a null is nothing and an empty text "".
    """
    node = parse(where, dialect)
    wanted = _wanted(columns, listed)
    kind = None if target is None else format_of(target)
    with files_asked(paths, index, output) as (files, asked):
        if target is not None:
            check_output(files, target)
        report = pruned(output, files, node, timezone, ignore_case, cache, asked, zones)
    found = 0
    with output.progress(report.selected_files) as bar, output.step("read"):
        schema, batches = iter_selected(
            report,
            node,
            wanted,
            batch_size=_BATCH_ROWS,
            timezone=timezone,
            ignore_case=ignore_case,
            progress=bar.of,
            on_error=output.fail,
        )
        names = _in_order(schema.names, wanted, ignore_case)
        schema = pa.schema([schema.field(name) for name in names], schema.metadata)
        facts: dict[str, Any] = {"where": report.where, "totals": {"rows": 0} | totals_of(report)}
        with closing(batches), _taking(output, target, kind, schema, facts) as take:
            for batch in _first(batches, limit):
                found += batch.num_rows
                facts["totals"]["rows"] = found
                take(batch.select(names))
    what = counted(found, "row") + (f" in {target}" if target is not None else "")
    output.note(f"{what}; {describe_plan(report)}")
    return output.exit_code(GOOD if found else BAD)


def _wanted(columns: Sequence[str], listed: str | None) -> list[str] | None:
    """The columns to give; None for all."""
    names = [*columns, *(listed.split(",") if listed is not None else ())]
    for name in names:
        if not name:
            raise click.UsageError("a column has no name", click.get_current_context())
    return list(dict.fromkeys(names)) or None


def _in_order(names: Sequence[str], wanted: Sequence[str] | None, ignore_case: bool) -> list[str]:
    """The columns in the order in which they, or leaves of theirs, were asked for."""

    def place(name: str) -> int:
        own = name.lower() if ignore_case else name
        asked = [one.lower() if ignore_case else one for one in wanted or ()]
        return next((i for i, one in enumerate(asked) if one == own or one.startswith(own + ".")), len(asked))

    return sorted(names, key=place)


def _first(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """No more rows than wanted; nothing more is read when they are there."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


@contextmanager
def _taking(
    output: Output, target: str | None, kind: str | None, schema: pa.Schema, facts: dict[str, Any]
) -> Iterator[_Take]:
    """What takes batches: standard output, or a file that stands in its place when all was taken."""
    columns = [
        Column(field.name, field.name, right=is_number(field.type), text=as_value, folds=True) for field in schema
    ]
    with nullcontext() if target is None else create(target, output.filesystem) as new:
        if new is not None and kind in ("parquet", "arrow"):
            with batches_into(new, kind, schema) as into:
                yield into.add
        else:
            with output.records("rows", columns, None if new is None else _text_into(new), kind) as rows:
                rows.facts = facts
                yield lambda batch: _add(rows, batch, schema)
        if new is not None:
            new.commit()


def _text_into(new: Rewrite) -> Write:
    def write(text: str) -> None:
        new.write(text.encode("utf-8", "surrogateescape"))

    return write


def _add(rows: RowWriter, batch: pa.RecordBatch, schema: pa.Schema) -> None:
    rows.add_all(dict(zip(schema.names, row, strict=True)) for row in plain_rows(batch))
