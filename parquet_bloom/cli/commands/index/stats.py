"""`parquet-bloom index stats`: how large an index is, and how good."""

from __future__ import annotations

from ....lake.reports import IndexStats
from ...options.common import command
from ...output.output import Output
from ...output.table import Column, counted
from .common import INDEX_HELP, index_argument, no_live_option, opened

COLUMNS = (
    Column("column", "column", folds=True),
    Column("values", "values", right=True, text=lambda value: f"{value:,}"),
    Column("num_bytes", "bytes", right=True, text=lambda value: f"{value:,}"),
    Column("bytes_a_value", "bytes a value", right=True, text=lambda value: "-" if value is None else f"{value:.2f}"),
    Column("expected_false", "named in vain", right=True),
)


@command(
    "index stats",
    example="parquet-bloom index stats ids.index --json",
    exit_codes="0 shown, 2 error.",
    paths=False,
    about=INDEX_HELP,
)
@index_argument
@no_live_option
def stats(output: Output, path: str, no_live: bool) -> int:
    """Say how large an index is, a row a column: values (each counted once a file, or row group), bytes, bytes a value.

    "named in vain" is how many files (or row groups) a lookup is expected to name for a value that is in none.
    """
    with opened(output, path, live=not no_live) as index, output.step("reckon"):
        found = index.stats()
    with output.rows("columns", COLUMNS) as rows:
        for column in found.columns:
            values, num_bytes = found.entries[column], found.num_bytes[column]
            row = {"column": column, "values": values, "num_bytes": num_bytes}
            row |= {"bytes_a_value": num_bytes / values if values else None}
            rows.add(row | {"expected_false": float(found.expected_false[column])})
        rows.facts |= {"layout": found.layout, "granularity": found.granularity, "settings": dict(found.settings)}
        rows.facts |= {"version": found.version, "snapshot": dict(found.snapshot)}
        rows.facts["totals"] = {
            "segments": found.segments,
            "files": found.files,
            "units": found.units,
            "unindexed": found.unindexed,
            "changed": found.changed,
            "gone": found.gone,
            "files_bytes": found.files_bytes,
        }
    output.summary(_told(found))
    return output.exit_code()


def _told(found: IndexStats) -> str:
    text = f"{found.layout}: {counted(found.files, 'file')}"
    if found.granularity == "row_group":
        text += f", {counted(found.units, 'row group')}"
    text += f", in {counted(found.segments, 'segment')}"
    if found.unindexed is not None:
        text += f"; {found.unindexed:,} not indexed"
    for count, what in ((found.changed, "changed since"), (found.gone, "gone")):
        if count:
            text += f", {count:,} {what}"
    if found.snapshot:
        text += f"; {found.snapshot.get('kind')} version {found.snapshot.get('version')}"
    return text
