"""`parquet-bloom find`: print the rows that match a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pyarrow as pa

from ...errors import PredicateError
from ...file.metadata_cache import MetadataCache
from ...predicate import parse
from ...predicate.tree import In, all_of
from ...scan.model.folder_partitions import Partitions
from ...scan.named_columns import FoundType, find_column_type, find_table_column_type, select_table_columns
from ...scan.row_reader import RowReader
from ...scan.scan_options import ScanOptions
from ...util.messages import count
from ...variant.variant_type import show_json
from ..command import POSITIVE, CommandOptions, command, group, option, usage_error
from ..options.key_options import WhereKeys
from ..options.path_options import check_output
from ..options.predicate_options import PredicateOptions, describe_plan
from ..options.shared_options import OPTIONAL_PATHS, RowColumns, RowsTarget
from ..options.table_options import Inputs
from ..output.output import BAD, GOOD, Output
from ..output.row_files import open_rows

_BATCH_ROWS = 8192
_MAX_BYTES = 48 * 1024 * 1024  # of rows that are read ahead: printing them takes longer than reading them


class FindOptions(CommandOptions):
    paths: tuple[str, ...] = OPTIONAL_PATHS
    predicate = group(PredicateOptions)
    keys = group(WhereKeys)
    columns = group(RowColumns)
    rows = group(RowsTarget)
    limit: int | None = option("N", "Stop after this number of rows.", type=POSITIVE)


@command("find", FindOptions)
def find(output: Output, given: FindOptions) -> int:
    """Find the rows that match a predicate, reading only what statistics, filters and page indexes do not rule out.

    The predicate is that of --where, or keys (--key, --keys), or both. Rows are printed as they are found, in the order
    of files. In json, ndjson and csv, decimals, dates, times and timestamps are strings (instants in UTC), bytes are
    hexadecimal, and NaN and the infinities are "NaN", "Infinity" and "-Infinity"; in csv, a null is an empty field and
    an empty string "".

    Exit codes: 0 rows match, 1 no row matches, 2 error: a file could not be read, so rows may be missing.

    Example:
      parquet-bloom find lake/ --where "user.id = 42" --columns user,at,url
      parquet-bloom find lake/ --key user.id=42 --key user.id=43
      parquet-bloom find lake/ --where "trace = 'f00d'" --format ndjson | jq .url
      parquet-bloom find 's3://bucket/events/*' --where "id IN (1, 2)" --limit 10 -o found.parquet
      parquet-bloom find lake/ --keys ids.txt --key-column user.id --where "day >= DATE '2026-01-01'"
      parquet-bloom find events/ --as-of 2026-01-31 --where "user.id = 42"
      parquet-bloom find --iceberg-catalog prod --table db.events --where "user.id = 42"
    """
    predicate, target, limit = given.predicate, given.rows.target, given.limit
    if predicate.where is None and not given.keys.are_given:
        raise usage_error("nothing to find: give --where, or --key COLUMN=VALUE, or --keys")
    nodes = [] if predicate.where is None else [parse(predicate.where, predicate.dialect)]
    requested = given.columns.parse()
    kind = given.rows.kind
    keys = given.keys.read(given.paths, output)
    case_sensitive = predicate.case_sensitive
    num_rows = 0
    with ExitStack() as stack:
        footers = stack.enter_context(predicate.open_footer_cache())
        with predicate.resolve_files(given.paths, output) as (inputs, index):
            if target is not None:
                check_output(inputs.files, target)
            found = None
            if keys is not None:
                with output.step("keys"):
                    column = keys.columns[0]
                    found = _find_type(column, inputs, case_sensitive, output, footers)
                    literals = () if found is None else keys.parse_column(0, found.column_type)
                    nodes.append(In(column, tuple(dict.fromkeys(literals))))
            report = predicate.prune(output, inputs, all_of(nodes), footers, index)
            if found is not None:
                report.requests += found.requests
                report.bytes_read += found.bytes_read
        bar = stack.enter_context(output.progress(report.selected_files))
        stack.enter_context(output.step("read"))
        selected, of_table = requested, None
        if report.table is not None:
            selected, of_table = select_table_columns(show_json(report.table.schema), requested, case_sensitive)
        num_errors = len(output.failures)
        options = ScanOptions(progress=bar.update, on_error=output.fail)
        reader = RowReader(report, selected, schema=of_table, cache=footers, options=options, show=show_json)
        schema, batches = reader.read_batches(_BATCH_ROWS, max_bytes=_MAX_BYTES)
        names = _sort_columns(schema.names, requested, case_sensitive)
        schema = pa.schema([schema.field(name) for name in names], schema.metadata)
        facts: dict[str, Any] = {"where": report.where, "totals": {"rows": 0} | report.to_dict()} | inputs.facts
        with open_rows(output, target, kind, schema, facts) as take:
            with closing(batches):
                for batch in _limit(batches, limit):
                    num_rows += batch.num_rows
                    take(batch.select(names))
            facts["totals"] |= {"rows": num_rows} | report.to_dict()  # now with what was read of the data
    what = count(num_rows, "row") + (f" in {target}" if target is not None else "")
    is_stopped = limit is not None and num_rows >= limit and report.selected_row_groups > 1  # one was read
    what += ", where --limit stops" if is_stopped else ""
    output.report_mistakes()
    mistaken = any(isinstance(error, PredicateError) for error in output.failures)
    is_complete = not is_stopped and len(output.failures) == num_errors
    plan = describe_plan(report, is_complete=is_complete, with_doubts=not mistaken)
    output.summary(f"{what}; {plan}", in_any_format=True)
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
