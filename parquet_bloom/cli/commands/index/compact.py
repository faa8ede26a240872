"""`parquet-bloom index compact`: merge an index's segments into one."""

from __future__ import annotations

from dataclasses import asdict

import click

from ...options.common import command
from ...output.output import Output
from ...output.table import Column
from .common import INDEX_HELP, index_argument, memory_option, open_index

COLUMNS = (
    Column("segments_before", "segments", right=True),
    Column("segments_after", "now", right=True),
    Column("bytes_before", "bytes", right=True, text=lambda value: f"{value:,}"),
    Column("bytes_after", "now", right=True, text=lambda value: f"{value:,}"),
    Column("dropped", "files dropped", right=True),
    Column("deleted", "old files deleted", right=True),
)


@command(
    "index compact",
    example="parquet-bloom index compact ids.index --keep-seconds 0",
    exit_codes="0 done, or there was nothing to do; 2 error: the index is unchanged.",
    paths=False,
    about=INDEX_HELP,
)
@index_argument
@memory_option
@click.option(
    "--keep-seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=3600,
    show_default=True,
    help="Keep unreferenced files of the index for this time, for readers that opened an earlier version.",
)
def compact(output: Output, path: str, memory_limit: int, keep_seconds: float) -> int:
    """Merge an index's segments into one, and drop entries of files removed from the index or gone from the lake."""
    with open_index(output, path) as index, output.step("compact"):
        report = index.compact(memory_limit=memory_limit, keep_seconds=keep_seconds)
    with output.rows("compactions", COLUMNS) as rows:
        rows.add(asdict(report))
    return output.exit_code()
