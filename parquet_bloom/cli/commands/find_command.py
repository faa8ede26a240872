"""`parquet-bloom find`: print the rows that match a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import click
import pyarrow as pa

from ...errors import PredicateError
from ...file.metadata_cache import MetadataCache
from ...predicate import parse
from ...predicate.tree import In, all_of
from ...scan.model.folder_partitions import Partitions
from ...scan.named_columns import FoundType, find_column_type, find_table_column_type, select_table_columns
from ...scan.row_reader import RowReader
from ...util.messages import count
from ..options.key_values import key_options, read_keys
from ..options.path_options import check_output
from ..options.predicate_options import (
    collect_totals,
    describe_plan,
    open_footer_cache,
    prune_files,
    resolve_files,
    where_options,
)
from ..options.shared_options import command, parse_columns, rows_options
from ..options.table_options import TABLES_HELP, Inputs, TableRequest, table_options
from ..output.output import BAD, GOOD, Output
from ..output.row_files import open_rows, parse_format

_BATCH_ROWS = 8192
_MAX_BYTES = 48 * 1024 * 1024  # of rows that are read ahead: printing them takes longer than reading them


@command(
    "find",
    example=(
        'parquet-bloom find lake/ --where "user.id = 42" --columns user,at,url\n'
        "parquet-bloom find lake/ --where \"trace = 'f00d'\" --format ndjson | jq .url\n"
        "parquet-bloom find 's3://bucket/events/*' --where \"id IN (1, 2)\" --limit 10 -o found.parquet\n"
        "parquet-bloom find lake/ --keys ids.txt --key-column user.id --where \"day >= DATE '2026-01-01'\"\n"
        'parquet-bloom find events/ --as-of 2026-01-31 --where "user.id = 42"\n'
        'parquet-bloom find --iceberg-catalog prod --table db.events --where "user.id = 42"'
    ),
    exit_codes="0 rows match, 1 no row matches, 2 error: a file could not be read, so rows may be missing.",
    optional_paths=True,
    about=TABLES_HELP,
)
@where_options(required=False)
@table_options
@key_options
@rows_options
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Stop after this number of rows.")
def find(
    output: Output,
    paths: tuple[str, ...],
    table: TableRequest,
    where: str | None,
    dialect: str | None,
    timezone: str,
    case_sensitive: bool,
    cache: str | None,
    index: str | None,
    zones: tuple[str, ...],
    ids_from: str | None,
    id_column: str | None,
    columns: tuple[str, ...],
    listed: str | None,
    limit: int | None,
    target: str | None,
) -> int:
    """Find the rows that match a predicate, reading only what statistics, filters and page indexes do not rule out.

    The predicate is that of --where, or a list of keys (--keys), or both.
    Rows are printed as they are found, in the order of files. A table is laid out a thousand rows at a time. In json,
    ndjson and csv, decimals, dates, times and timestamps are strings (instants in UTC), bytes are hexadecimal, and NaN
    and the infinities are "NaN", "Infinity" and "-Infinity"; in csv, a null is an empty field and an empty string "".
    """
    if where is None and ids_from is None and id_column is None:
        raise click.UsageError("nothing to find: give --where, or --keys", click.get_current_context())
    nodes = [] if where is None else [parse(where, dialect)]
    requested = parse_columns(columns, listed)
    kind = None if target is None else parse_format(target)
    keys = read_keys(ids_from, id_column, paths, output.filesystem)
    num_rows = 0
    with ExitStack() as stack:
        footers = stack.enter_context(open_footer_cache(cache))
        with resolve_files(paths, table, index, output) as (inputs, lake_index):
            if target is not None:
                check_output(inputs.files, target)
            found = None
            if keys is not None:
                with output.step("keys"):
                    found = _find_type(keys.column, inputs, case_sensitive, output, footers)
                    nodes.append(In(keys.column, ()) if found is None else keys.match(found.column_type))
            report = prune_files(output, inputs, all_of(nodes), timezone, case_sensitive, footers, lake_index, zones)
            if found is not None:
                report.requests += found.requests
                report.bytes_read += found.bytes_read
        bar = stack.enter_context(output.progress(report.selected_files))
        stack.enter_context(output.step("read"))
        selected, of_table = requested, None
        if report.table is not None:
            selected, of_table = select_table_columns(report.table.schema, requested, case_sensitive)
        num_errors = len(output.failures)
        reader = RowReader(report, selected, schema=of_table, cache=footers)
        schema, batches = reader.read_batches(
            _BATCH_ROWS, max_bytes=_MAX_BYTES, progress=bar.update, on_error=output.fail
        )
        names = _sort_columns(schema.names, requested, case_sensitive)
        schema = pa.schema([schema.field(name) for name in names], schema.metadata)
        facts: dict[str, Any] = {"where": report.where, "totals": {"rows": 0} | collect_totals(report)} | inputs.facts
        with open_rows(output, target, kind, schema, facts) as take:
            with closing(batches):
                for batch in _limit(batches, limit):
                    num_rows += batch.num_rows
                    take(batch.select(names))
            facts["totals"] |= {"rows": num_rows} | collect_totals(report)  # now with what was read of the data
    what = count(num_rows, "row") + (f" in {target}" if target is not None else "")
    is_stopped = limit is not None and num_rows >= limit and report.selected_row_groups > 1  # one was read
    what += ", where --limit stops" if is_stopped else ""
    output.report_mistakes()
    mistaken = any(isinstance(error, PredicateError) for error in output.failures)
    is_complete = not is_stopped and len(output.failures) == num_errors
    output.note(f"{what}; {describe_plan(report, is_complete=is_complete, with_doubts=not mistaken)}")
    return output.exit_code(GOOD if num_rows else BAD)


def _find_type(
    column: str, inputs: Inputs, case_sensitive: bool, output: Output, cache: MetadataCache
) -> FoundType | None:
    """Find the type that a column has in the files, or in their table; None if there are no files."""
    if inputs.table is not None:
        return FoundType(find_table_column_type(inputs.table.snapshot.schema, column, case_sensitive))
    if not inputs.files:
        return None
    paths = [file.path for file in inputs.files]
    partitions = Partitions(paths, paths)
    return find_column_type(
        column, paths, partitions, filesystem=output.filesystem, cache=cache, case_sensitive=case_sensitive
    )


def _sort_columns(names: Sequence[str], requested: Sequence[str] | None, case_sensitive: bool) -> list[str]:
    """Sort columns by the order in which they, or leaves of them, were requested."""
    keys = [one if case_sensitive else one.lower() for one in requested or ()]

    def position(name: str) -> int:
        key = name if case_sensitive else name.lower()
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
