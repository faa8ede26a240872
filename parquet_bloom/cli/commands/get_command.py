"""`parquet-bloom get`: print the rows of keys."""

from __future__ import annotations

from typing import Any

from ...util.messages import count
from ..command import CommandOptions, command, group
from ..options.key_options import KeyList
from ..options.lookup_options import KeyLookup
from ..options.shared_options import OPTIONAL_PATHS, RowColumns, RowsTarget
from ..output.output import BAD, GOOD, Output
from ..output.row_files import open_rows


class GetOptions(CommandOptions):
    paths: tuple[str, ...] = OPTIONAL_PATHS
    lookup = group(KeyLookup)
    columns = group(RowColumns)
    rows = group(RowsTarget)


@command("get", GetOptions)
def get(output: Output, given: GetOptions) -> int:
    """Print the rows of keys, in the order of the keys: those of the first key, then those of the second one.

    With an index, only files that it names, or does not know, are opened. A key that is given twice has its rows twice.
    Values are printed as by find.

    Exit codes: 0 rows have a key, 1 no row has any, 2 error: nothing is printed.

    Example:
      parquet-bloom get lake/ --index ids.index --key user.id=42 --columns at,url
      parquet-bloom get --index ids.index --key user.id=42 --key user.id=43 --format ndjson | jq .url
      parquet-bloom get lake/ --index ids.index --key tenant=a,id=5
      parquet-bloom get lake/ --index ids.index --keys ids.txt -o rows.parquet
      parquet-bloom get lake/ --index ids.index --keys keys.parquet --key-column tenant --key-column id
    """
    requested = given.columns.parse()
    target, kind = given.rows.target, given.rows.kind
    with given.lookup.open_keys(given.paths, output) as opened:
        keys = opened if isinstance(opened, KeyList) else opened.read_all()
    with output.step("open"):
        lookups = given.lookup.open_lookups(given.paths, output)
    if target is not None:
        given.lookup.check_target(lookups, given.paths, output, target)
    column, values = keys.parse(lookups.schema)
    with output.step("get"):
        rows = lookups.get(column, values, requested, timezone=given.lookup.timezone)
    facts: dict[str, Any] = {"key": list(keys.columns), "totals": {"keys": len(keys), "rows": rows.num_rows}}
    with output.step("print"), open_rows(output, target, kind, rows.schema, facts) as take:
        for batch in rows.to_batches(max_chunksize=8192):
            take(batch)
    what = count(rows.num_rows, "row") + (f" in {target}" if target is not None else "")
    output.summary(f"{what} of {count(len(keys), 'key')}", in_any_format=True)
    return output.exit_code(GOOD if rows.num_rows else BAD)
