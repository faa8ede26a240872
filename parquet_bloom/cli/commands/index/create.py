"""`parquet-bloom index create`: create an empty index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ....lake.index import LakeIndex
from ...options.column_completion import complete_columns
from ...options.common import column_option, command, parse_whole_number
from ...options.tables import TableRequest
from ...output.output import Output
from ...output.table import Column
from .common import INDEX_HELP, index_argument, resolve_lake, storage_arguments, table_options

COLUMNS = (
    Column("index", "index", folds=True),
    Column("layout", "layout"),
    Column("granularity", "granularity", text=lambda value: value.replace("_", " ")),
    Column("zone_rows", "zone rows", right=True, rare=lambda row: row["zone_rows"] is None),
    Column("settings", "settings", folds=True),
    Column("columns", "columns", folds=True),
    Column("lake", "lake", folds=True, text=lambda value: "; ".join(value) or "-"),
)


@command(
    "index create",
    example=(
        "parquet-bloom index create ids.index --column user.id --column trace --lake lake/\n"
        "parquet-bloom index create mail.index --column 'lower(email)' --column '(tenant, id)' --lake lake/\n"
        "parquet-bloom index create s3://bucket/ids.index --column id --delta s3://bucket/events "
        "--granularity row_group\n"
        "parquet-bloom index create ids.index --column id --iceberg-catalog prod --table db.events"
    ),
    exit_codes="0 created, 2 error: nothing was created.",
    paths=False,
    about=INDEX_HELP,
)
@index_argument
@click.argument("more_columns", metavar="", nargs=-1, shell_complete=complete_columns)
@column_option(
    "Index this column: a dotted path, or an expression: lower(email), upper(email), CAST(n AS STRING), or several "
    "columns together, (tenant, id). Repeatable; columns after INDEX are the same.  [required]"
)
@click.option(
    "--lake",
    "lakes",
    metavar="PATH",
    multiple=True,
    help="A folder or a quoted pattern whose files are to be indexed; it is listed for new files whenever the index is "
    "opened. Repeatable. Paths given to append are added to it. A folder that holds a Delta or Iceberg table is taken "
    "as one.",
)
@table_options
@click.option(
    "--granularity",
    type=click.Choice(("file", "row_group", "zone")),
    default="file",
    show_default=True,
    help="The results of lookups: files, row groups of files, or zones: ranges of rows in these.",
)
@click.option(
    "--zone-rows",
    metavar="N",
    callback=parse_whole_number,
    help="For the granularity zone: rows of a zone, 8192 by default; the last one of a row group has fewer.",
)
@click.option(
    "--layout",
    type=click.Choice(("postings", "cuckoo")),
    default="postings",
    show_default=True,
    help="How values are stored. postings: one small read per lookup, fewest false positives. cuckoo: aligned Cuckoo "
    "filters.",
)
@click.option(
    "--expected-values",
    metavar="N",
    callback=parse_whole_number,
    help="Expected number of values, such as 1e9 (the default), each counted once per file, row group or zone; more "
    "values give more false positives. For cuckoo: the number per file or row group, 1e5 by default, or per zone, by "
    "default its rows.",
)
@click.option(
    "--remainder-bits",
    metavar="BITS",
    type=int,
    help="For postings: 8 by default; each more bit halves the number of false positives, for one bit per value.",
)
@click.option(
    "--fingerprint-bits",
    metavar="BITS",
    type=int,
    help="For cuckoo: bits stored per value: 8, 12, 16 (the default) or 24.",
)
@click.option(
    "--num-buckets",
    metavar="N",
    callback=parse_whole_number,
    help="For cuckoo: buckets of each filter. Default: computed from --expected-values.",
)
def create(
    output: Output,
    path: str,
    more_columns: tuple[str, ...],
    columns: tuple[str, ...],
    lakes: tuple[str, ...],
    delta: str | None,
    iceberg: str | None,
    table: TableRequest,
    granularity: str,
    zone_rows: int | None,
    layout: str,
    expected_values: int | None,
    remainder_bits: int | None,
    fingerprint_bits: int | None,
    num_buckets: int | None,
) -> int:
    """Create an empty index of columns, in a folder that does not exist yet, or is empty.

    `index append` fills it. An index of several columns answers lookups in each of them.
    """
    columns = (*more_columns, *columns)
    if not columns:
        raise click.UsageError("no column given: add --column NAME", click.get_current_context())
    lake = resolve_lake(list(lakes), delta, iceberg, table, output, "--lake")
    with (
        output.step("create"),
        LakeIndex.create(
            path,
            columns,
            layout=layout,  # type: ignore[arg-type]
            granularity=granularity,  # type: ignore[arg-type]
            zone_rows=zone_rows,
            lake=lake,
            remainder_bits=remainder_bits,
            fingerprint_bits=fingerprint_bits,
            expected_values=expected_values,
            num_buckets=num_buckets,
            **storage_arguments(output),
        ) as index,
    ):
        manifest = index.state.manifest
    row: dict[str, Any] = {"index": index.path, "layout": manifest.layout, "granularity": manifest.granularity}
    row |= {"zone_rows": manifest.zone_rows or None}
    row |= {"settings": dict(manifest.settings), "columns": list(manifest.columns)}
    with output.rows("indexes", COLUMNS) as rows:
        rows.add(row | {"lake": _roots(manifest.lake)})
    return output.exit_code()


def _roots(lake: Mapping[str, Any]) -> list[str]:
    """Format the paths or table that the manifest records as the lake."""
    catalog = f" in catalog {lake['catalog']}" if "catalog" in lake else ""
    tables = {kind: lake[kind] for kind in ("delta", "iceberg") if kind in lake}
    names = {kind: name if isinstance(name, str) else ".".join(name) for kind, name in tables.items()}
    return [*lake.get("paths", ()), *(f"{kind} {name}{catalog}" for kind, name in names.items())]
