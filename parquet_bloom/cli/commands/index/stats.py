"""`parquet-bloom index stats`: show the size and precision of an index."""

from __future__ import annotations

from ....lake.files.units import FILE
from ....lake.reports import IndexStats
from ....util.wording import count
from ...options.common import command
from ...output.output import Output
from ...output.table import Column
from .common import INDEX_HELP, index_argument, no_live_option, open_index

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
    """Show the size of an index, a row per column: values (once per file, row group or zone), bytes, bytes a value.

    "named in vain" is the number of files (or row groups, or zones) that a lookup is expected to list for a value that
    no file has.
    """
    with open_index(output, path, live=not no_live) as index, output.step("reckon"):
        statistics = index.stats()
    with output.rows("columns", COLUMNS) as rows:
        for column in statistics.columns:
            values, num_bytes = statistics.entries[column], statistics.num_bytes[column]
            row = {"column": column, "values": values, "num_bytes": num_bytes}
            row |= {"bytes_a_value": num_bytes / values if values else None}
            rows.add(row | {"expected_false": float(statistics.expected_false[column])})
        rows.facts |= {
            "layout": statistics.layout,
            "granularity": statistics.granularity,
            "zone_rows": statistics.zone_rows or None,
            "settings": dict(statistics.settings),
        }
        rows.facts |= {"version": statistics.version, "snapshot": dict(statistics.snapshot)}
        rows.facts["totals"] = {
            "segments": statistics.segments,
            "files": statistics.files,
            "units": statistics.units,
            "unindexed": statistics.unindexed,
            "changed": statistics.changed,
            "gone": statistics.gone,
            "files_bytes": statistics.files_bytes,
        }
    output.summary(_summarize(statistics))
    return output.exit_code()


def _summarize(statistics: IndexStats) -> str:
    text = f"{statistics.layout}: {count(statistics.files, 'file')}"
    if statistics.granularity != FILE:
        text += f", {count(statistics.units, statistics.granularity.replace('_', ' '))}"
    if statistics.zone_rows:
        text += f" of {count(statistics.zone_rows, 'row')}"
    text += f", in {count(statistics.segments, 'segment')}"
    if statistics.unindexed is not None:
        text += f"; {statistics.unindexed:,} not indexed"
    for number, what in ((statistics.changed, "changed since"), (statistics.gone, "gone")):
        if number:
            text += f", {number:,} {what}"
    if statistics.snapshot:
        text += f"; {statistics.snapshot.get('kind')} version {statistics.snapshot.get('version')}"
    return text
