"""`parquet-bloom index create`: an empty index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ....lake.index import LakeIndex
from ...options.column_completion import columns_beginning
from ...options.common import command, whole_number
from ...output.output import Output
from ...output.table import Column
from .common import INDEX_HELP, index_argument, lake_of, stores, table_options

COLUMNS = (
    Column("index", "index", folds=True),
    Column("layout", "layout"),
    Column("granularity", "granularity", text=lambda value: value.replace("_", " ")),
    Column("settings", "settings", folds=True),
    Column("columns", "columns", folds=True),
    Column("lake", "lake", folds=True, text=lambda value: "; ".join(value) or "-"),
)


@command(
    "index create",
    example=(
        "parquet-bloom index create ids.index user.id trace --lake lake/\n"
        "parquet-bloom index create s3://bucket/ids.index id --delta s3://bucket/events --granularity row_group"
    ),
    exit_codes="0 made, 2 error: nothing was.",
    paths=False,
    about=INDEX_HELP,
)
@index_argument
@click.argument("columns", metavar="COLUMN...", nargs=-1, required=True, shell_complete=columns_beginning)
@click.option(
    "--lake",
    "lakes",
    metavar="PATH",
    multiple=True,
    help="A folder or a quoted pattern whose files shall be indexed: whoever opens the index looks there for files "
    "that came since. Repeatable. What is given to append comes on top.",
)
@table_options
@click.option(
    "--granularity",
    type=click.Choice(("file", "row_group")),
    default="file",
    show_default=True,
    help="What lookups name: files, or row groups of files.",
)
@click.option(
    "--layout",
    type=click.Choice(("postings", "cuckoo")),
    default="postings",
    show_default=True,
    help="How values stand on disk. postings: one small read a lookup, fewest files named in vain. cuckoo: aligned "
    "Cuckoo filters.",
)
@click.option(
    "--expected-values",
    metavar="N",
    callback=whole_number,
    help="So many values will be in it, such as 1e9 (the default), each counted once a file or row group; with more, "
    "more files are named in vain. Of cuckoo: so many in a file or row group, 1e5 by default.",
)
@click.option(
    "--remainder-bits",
    metavar="BITS",
    type=int,
    help="Of postings: 8 by default; each more halves the number of files that are named in vain, for a bit a value.",
)
@click.option(
    "--fingerprint-bits",
    metavar="BITS",
    type=int,
    help="Of cuckoo: bits kept of a value: 8, 12, 16 (the default) or 24.",
)
@click.option(
    "--num-buckets",
    metavar="N",
    callback=whole_number,
    help="Of cuckoo: buckets of each filter; chosen by --expected-values if not given.",
)
def create(
    output: Output,
    path: str,
    columns: tuple[str, ...],
    lakes: tuple[str, ...],
    delta: str | None,
    iceberg: str | None,
    granularity: str,
    layout: str,
    expected_values: int | None,
    remainder_bits: int | None,
    fingerprint_bits: int | None,
    num_buckets: int | None,
) -> int:
    """Make an empty index of COLUMNs (dotted paths) in a folder that is not there yet, or is empty.

    `index append` fills it. An index of several columns answers for each of them.
    """
    lake = lake_of(list(lakes), delta, iceberg, "--lake")
    with (
        output.step("create"),
        LakeIndex.create(
            path,
            columns,
            layout=layout,  # type: ignore[arg-type]
            granularity=granularity,  # type: ignore[arg-type]
            lake=lake,
            remainder_bits=remainder_bits,
            fingerprint_bits=fingerprint_bits,
            expected_values=expected_values,
            num_buckets=num_buckets,
            **stores(output),
        ) as made,
    ):
        manifest = made.state.manifest
    row: dict[str, Any] = {"index": made.path, "layout": manifest.layout, "granularity": manifest.granularity}
    row |= {"settings": dict(manifest.settings), "columns": list(manifest.columns)}
    with output.rows("indexes", COLUMNS) as rows:
        rows.add(row | {"lake": _roots(manifest.lake)})
    return output.exit_code()


def _roots(lake: Mapping[str, Any]) -> list[str]:
    """What the manifest says of the lake, as texts."""
    return [*lake.get("paths", ()), *(f"{kind} {place}" for kind, place in lake.items() if kind != "paths")]
