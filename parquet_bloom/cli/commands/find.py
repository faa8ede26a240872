"""`parquet-bloom find`: print the rows that match a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import click
import pyarrow as pa

from ...predicate import parse
from ...scan.read.reader import RowReader
from ...storage import Rewrite, create
from ...util.wording import count
from ..options.common import column_option, command
from ..options.paths import check_output
from ..options.predicate import collect_totals, describe_plan, prune_files, resolve_files, where_options
from ..output.formats import RowWriter, Write, as_value
from ..output.output import BAD, GOOD, Output
from ..output.row_files import FORMATS, open_batch_writer, parse_format
from ..output.table import Column
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
    exit_codes="0 rows match, 1 no row matches, 2 error: a file could not be read, so rows may be missing.",
    index=True,
)
@where_options
@column_option(
    "Print this column only, a top-level one or a dotted leaf. Repeatable; columns are printed in the order given."
)
@click.option("--columns", "listed", metavar="A,B", help="Print these columns only, as a comma-separated list.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Stop after this number of rows.")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help=f"Write the rows into a file, atomically; its name ends in {', '.join(FORMATS)}.",
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
    """Find the rows that match a predicate, reading only what statistics, filters and page indexes do not rule out.

    Rows are printed as they are found, in the order of files. A table is laid out a thousand rows at a time. In json,
    ndjson and csv, decimals, dates, times and timestamps are strings (instants in UTC), bytes are hexadecimal, and NaN
    and the infinities are "NaN", "Infinity" and "-Infinity"; in csv, a null is an empty field and an empty string "".
    """
    node = parse(where, dialect)
    requested = _parse_columns(columns, listed)
    kind = None if target is None else parse_format(target)
    with resolve_files(paths, index, output) as (files, lake_index):
        if target is not None:
            check_output(files, target)
        report = prune_files(output, files, node, timezone, ignore_case, cache, lake_index, zones)
    num_rows = 0
    with output.progress(report.selected_files) as bar, output.step("read"):
        reader = RowReader(report, requested)
        schema, batches = reader.read_batches(_BATCH_ROWS, progress=bar.update, on_error=output.fail)
        names = _sort_columns(schema.names, requested, ignore_case)
        schema = pa.schema([schema.field(name) for name in names], schema.metadata)
        facts: dict[str, Any] = {"where": report.where, "totals": {"rows": 0} | collect_totals(report)}
        with _open_writer(output, target, kind, schema, facts) as take:
            with closing(batches):
                for batch in _limit(batches, limit):
                    num_rows += batch.num_rows
                    take(batch.select(names))
            facts["totals"] |= {"rows": num_rows} | collect_totals(report)  # now with what was read of the data
    what = count(num_rows, "row") + (f" in {target}" if target is not None else "")
    output.note(f"{what}; {describe_plan(report)}")
    return output.exit_code(GOOD if num_rows else BAD)


def _parse_columns(columns: Sequence[str], listed: str | None) -> list[str] | None:
    """Return the requested columns; None for all."""
    names = [*columns, *(listed.split(",") if listed is not None else ())]
    for name in names:
        if not name:
            raise click.UsageError("a column has no name", click.get_current_context())
    return list(dict.fromkeys(names)) or None


def _sort_columns(names: Sequence[str], requested: Sequence[str] | None, ignore_case: bool) -> list[str]:
    """Sort columns by the order in which they, or leaves of them, were requested."""
    keys = [one.lower() if ignore_case else one for one in requested or ()]

    def position(name: str) -> int:
        key = name.lower() if ignore_case else name
        return next((i for i, one in enumerate(keys) if one == key or one.startswith(key + ".")), len(keys))

    return sorted(names, key=position)


def _limit(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield at most `limit` rows, and read no further batches after that."""
    remaining = limit
    for batch in batches:
        if remaining is None:
            yield batch
            continue
        yield batch.slice(0, remaining)
        remaining -= batch.num_rows
        if remaining <= 0:
            return


@contextmanager
def _open_writer(
    output: Output, target: str | None, kind: str | None, schema: pa.Schema, facts: dict[str, Any]
) -> Iterator[_Take]:
    """Open standard output, or a file that is put in place once all batches are written."""
    columns = [
        Column(field.name, field.name, right=is_number(field.type), text=as_value, folds=True) for field in schema
    ]
    with nullcontext() if target is None else create(target, output.filesystem) as new:
        if new is not None and kind in ("parquet", "arrow"):
            with open_batch_writer(new, kind, schema) as into:
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
