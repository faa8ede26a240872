"""`parquet-bloom locate`: print the physical positions of the rows of keys, or write them into a file."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from ...tables.position_files import PositionForm, write_positions
from ...util.messages import count
from ..options.lookup_options import KEYS_HELP, check_lookup_output, lookup_options, open_keys, open_lookups
from ..options.shared_options import command, output_option, timezone_option
from ..options.table_options import TABLES_HELP, TableRequest, table_options
from ..output.output import BAD, GOOD, Output
from ..output.row_files import open_rows, parse_format


@command(
    "locate",
    example=(
        "parquet-bloom locate lake/ --index ids.index --key user.id=42\n"
        "parquet-bloom locate lake/ --keys ids.txt --key-column id --format csv\n"
        "parquet-bloom locate lake/ --index ids.index --keys keys.parquet --output positions.parquet\n"
        "parquet-bloom locate table/ --keys gone.parquet --key-column id -o deletes.parquet --as iceberg"
    ),
    exit_codes="0 rows have a key, 1 no row has any, 2 error: nothing is written, and what was printed is incomplete.",
    optional_paths=True,
    about=f"{TABLES_HELP}\n\n{KEYS_HELP}",
)
@lookup_options
@timezone_option
@table_options
@output_option
@click.option(
    "--as",
    "form",
    type=click.Choice(("parquet", "iceberg", "delta")),
    help="What the Parquet file of --output has: the columns that are printed (parquet, the default); file_path and "
    "pos, as a position delete file of an Iceberg table; or path, as the log of a Delta table names it, and row_index.",
)
def locate(
    output: Output,
    paths: tuple[str, ...],
    table: TableRequest,
    given: tuple[str, ...],
    keys_from: str | None,
    key_columns: tuple[str, ...],
    index: str | None,
    timezone: str,
    target: str | None,
    form: PositionForm | None,
) -> int:
    """Find where the rows of keys are: key, path, row_group, and row, counted from the first row of the file.

    The values are compared, so positions are exact. Rows that a table has deleted are left out. They are printed in the
    order of files and rows. Of more than a million keys, each million (or 100,000 of several columns) is searched for
    after the one before; there may be any number of them in a Parquet file, and a million in others.
    """
    kind = None if target is None else parse_format(target)
    if form is not None and kind != "parquet":
        raise click.UsageError("--as is for --output FILE.parquet", click.get_current_context())
    with ExitStack() as stack:
        keys = stack.enter_context(open_keys(given, keys_from, key_columns, index, paths, output))
        with output.step("open"):
            dataset = open_lookups(paths, table, index, output)
        of_table = dataset.table if form in ("iceberg", "delta") else None
        if target is not None:
            check_lookup_output(dataset, paths, index, output, target, inside=of_table is not None)
        if form == "delta" and of_table is None:
            raise click.UsageError("--as delta is for the files of a Delta table", click.get_current_context())
        column, values = keys.parse(dataset.schema)
        bar = stack.enter_context(output.progress(0))
        stack.enter_context(output.step("locate"))
        batches = dataset.locate_batches(column, values, timezone=timezone, progress=bar.update)
        if target is not None and form in ("iceberg", "delta"):
            number = write_positions(batches, target, form, table=of_table, filesystem=output.filesystem)
        else:
            facts: dict[str, Any] = {"key": list(keys.columns)}
            number = 0
            with open_rows(output, target, kind, batches.schema, facts) as take:
                for batch in batches:
                    number += batch.num_rows
                    take(batch)
                facts["totals"] = {"keys": keys.number, "rows": number}
    what = count(number, "row") + (f" in {target}" if target is not None else "")
    output.note(f"{what} of {count(keys.number, 'key')}")
    return output.exit_code(GOOD if number else BAD)
