"""`parquet-bloom locate`: print the physical positions of the rows of keys, or write them into a file."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from ...tables.position_files import PositionForm, write_positions
from ...util.messages import count
from ..command import CommandOptions, command, group, option, usage_error
from ..options.lookup_options import KeyLookup
from ..options.shared_options import OPTIONAL_PATHS, RowsTarget
from ..output.output import BAD, GOOD, Output
from ..output.row_files import open_rows


class LocateOptions(CommandOptions):
    paths: tuple[str, ...] = OPTIONAL_PATHS
    lookup = group(KeyLookup)
    rows = group(RowsTarget)
    form: PositionForm | None = option(
        None,
        "What the Parquet file of --output has: the columns that are printed (parquet, the default); file_path and "
        "pos, as a position delete file of an Iceberg table; or path, as the log of a Delta table names it, and "
        "row_index.",
        "--as",
        type=click.Choice(("parquet", "iceberg", "delta")),
    )


@command("locate", LocateOptions)
def locate(output: Output, given: LocateOptions) -> int:
    """Find where the rows of keys are: key, path, row_group, and row, counted from the first row of the file.

    The values are compared, so positions are exact. Rows that a table has deleted are left out. They are printed in the
    order of files and rows. Of more than a million keys, each million (or 100,000 of several columns) is searched for
    after the one before; there may be any number of them in a Parquet or Arrow file, and a million in others.

    Exit codes: 0 rows have a key, 1 no row has any, 2 error: nothing is written, and what was printed is incomplete.

    Example:
      parquet-bloom locate lake/ --index ids.index --key user.id=42
      parquet-bloom locate lake/ --keys ids.txt --key-column id --format csv
      parquet-bloom locate lake/ --index ids.index --keys keys.parquet --output positions.parquet
      parquet-bloom locate table/ --keys gone.parquet --key-column id -o deletes.parquet --as iceberg
    """
    lookup, target, kind, form = given.lookup, given.rows.target, given.rows.kind, given.form
    if form is not None and kind != "parquet":
        raise usage_error("--as is for --output FILE.parquet")
    with ExitStack() as stack:
        keys = stack.enter_context(lookup.open_keys(given.paths, output))
        with output.step("open"):
            lookups = lookup.open_lookups(given.paths, output)
        of_table = lookups.table if form in ("iceberg", "delta") else None
        if target is not None:
            lookup.check_target(lookups, given.paths, output, target, inside=of_table is not None)
        if form == "delta" and of_table is None:
            raise usage_error("--as delta is for the files of a Delta table")
        column, values = keys.parse(lookups.schema)
        bar = stack.enter_context(output.progress(0))
        stack.enter_context(output.step("locate"))
        batches = lookups.locate_batches(column, values, timezone=lookup.timezone, progress=bar.update)
        if target is not None and form in ("iceberg", "delta"):
            number = write_positions(batches, target, form, table=of_table, filesystem=output.filesystem)
        else:
            facts: dict[str, Any] = {"key": list(keys.columns)}
            number = 0
            with open_rows(output, target, kind, batches.schema, facts) as take:
                for batch in batches:
                    number += batch.num_rows
                    take(batch)
                facts["totals"] = {"keys": len(keys), "rows": number}
    what = count(number, "row") + (f" in {target}" if target is not None else "")
    output.summary(f"{what} of {count(len(keys), 'key')}", in_any_format=True)
    return output.exit_code(GOOD if number else BAD)
