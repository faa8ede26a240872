"""`parquet-bloom get`: print the rows of keys."""

from __future__ import annotations

from typing import Any

from ...util.messages import count
from ..options.lookup_options import KEYS_HELP, check_lookup_output, collect_keys, lookup_options, open_lookups
from ..options.shared_options import command, parse_columns, rows_options, timezone_option
from ..options.table_options import TABLES_HELP, TableRequest, table_options
from ..output.output import BAD, GOOD, Output
from ..output.row_files import open_rows, parse_format


@command(
    "get",
    example=(
        "parquet-bloom get lake/ --index ids.index --key user.id=42 --columns at,url\n"
        "parquet-bloom get --index ids.index --key user.id=42 --key user.id=43 --format ndjson | jq .url\n"
        "parquet-bloom get lake/ --index ids.index --key tenant=a,id=5\n"
        "parquet-bloom get lake/ --index ids.index --keys ids.txt -o rows.parquet\n"
        "parquet-bloom get lake/ --index ids.index --keys keys.parquet --key-column tenant --key-column id"
    ),
    exit_codes="0 rows have a key, 1 no row has any, 2 error: nothing is printed.",
    optional_paths=True,
    about=f"{TABLES_HELP}\n\n{KEYS_HELP}",
)
@lookup_options
@timezone_option
@table_options
@rows_options
def get(
    output: Output,
    paths: tuple[str, ...],
    table: TableRequest,
    given: tuple[str, ...],
    keys_from: str | None,
    key_columns: tuple[str, ...],
    index: str | None,
    timezone: str,
    columns: tuple[str, ...],
    listed: str | None,
    target: str | None,
) -> int:
    """Print the rows of keys, in the order of the keys: those of the first key, then those of the second one.

    With an index, only files that it names, or does not know, are opened. A key that is given twice has its rows twice.
    Values are printed as by find.
    """
    requested = parse_columns(columns, listed)
    kind = None if target is None else parse_format(target)
    keys = collect_keys(given, keys_from, key_columns, index, paths, output)
    with output.step("open"):
        dataset = open_lookups(paths, table, index, output)
    if target is not None:
        check_lookup_output(dataset, paths, index, output, target)
    column, values = keys.parse(dataset.schema)
    num_keys = len(values if isinstance(column, str) else values[column[0]])
    with output.step("get"):
        rows = dataset.get(column, values, requested, timezone=timezone)
    facts: dict[str, Any] = {"key": list(keys.columns), "totals": {"keys": num_keys, "rows": rows.num_rows}}
    with output.step("print"), open_rows(output, target, kind, rows.schema, facts) as take:
        for batch in rows.to_batches(max_chunksize=8192):
            take(batch)
    what = count(rows.num_rows, "row") + (f" in {target}" if target is not None else "")
    output.note(f"{what} of {count(num_keys, 'key')}")
    return output.exit_code(GOOD if rows.num_rows else BAD)
