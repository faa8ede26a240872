"""`parquet-bloom index compact`: one segment instead of many."""

from __future__ import annotations

from dataclasses import asdict

import click

from ...options.common import command
from ...output.output import Output
from ...output.table import Column
from .common import INDEX_HELP, index_argument, memory_option, opened

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
    exit_codes="0 done, or there was nothing to do; 2 error: the index is what it was.",
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
    help="Keep files of the index that nothing refers to any more so long, for readers that opened it before.",
)
def compact(output: Output, path: str, memory_limit: int, keep_seconds: float) -> int:
    """Merge an index's segments into one, and drop what belongs to files that were removed or went from the lake."""
    with opened(output, path) as index, output.step("compact"):
        report = index.compact(memory_limit=memory_limit, keep_seconds=keep_seconds)
    with output.rows("compactions", COLUMNS) as rows:
        rows.add(asdict(report))
    return output.exit_code()
