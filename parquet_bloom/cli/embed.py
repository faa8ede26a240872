"""`parquet-bloom embed`: filters for files that exist, in place or to another place, or as a plan."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import click

from ..errors import ParquetBloomError
from ..file.embed import EmbedReport
from ..file.embed import embed as embed_file
from ..file.options import FilterOptions, parse_columns
from .formats import Rows
from .options import column_option, command
from .output import Output
from .paths import find_files, make_folder_of, place_outputs
from .table import Column, counted

_FILE = (
    Column("file", "file", folds=True),
    Column("output", "output", folds=True, usual=lambda row: row["output"] == row["file"]),
)
FILES = (
    *_FILE,
    Column("filters", "filters", right=True),
    Column("kept", "kept", right=True, usual=lambda row: row["kept"] == 0),
    Column("bytes_added", "bytes added", right=True),
    Column("dead_bytes", "dead bytes", right=True, usual=lambda row: row["dead_bytes"] == 0),
    Column("new_size", "new size", right=True),
    Column("changed", "written"),
    Column("seconds", "seconds", right=True, text=lambda value: f"{value:.3f}"),
)
FILTERS = (
    *_FILE,
    Column("row_group", "row group", right=True),
    Column("column", "column", folds=True),
    Column("ndv", "ndv", right=True),
    Column("num_bytes", "bytes", right=True),
    Column("fpp", "fpp", right=True),
)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@command(
    "embed",
    example=(
        "parquet-bloom embed lake/ --column user.id --column trace=0.001 --dry-run\n"
        "parquet-bloom embed lake/ --column user.id --column trace=0.001 -o filtered/\n"
        "parquet-bloom embed a.parquet --column user.id --in-place"
    ),
    exit_codes="0 done, or there was nothing to add; 2 error, of whichever file: the others were done.",
)
@column_option(
    "A column that gets filters, as a dotted path; NAME=FPP gives it an fpp of its own. Repeatable. "
    "(A name that ends in = and a number needs =FPP behind it.)",
    required=True,
)
@click.option(
    "--fpp",
    type=float,
    default=0.01,
    show_default=True,
    help="False-positive probability: the share of absent keys that a filter may let pass.",
)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="PATH",
    help="Write here: a file for one file; a folder (made if need be) for several, or if it ends in /. "
    "Below it, files keep their place.",
)
@click.option("--in-place", is_flag=True, help="Replace the files themselves, each atomically.")
@click.option("--dry-run", is_flag=True, help="Write nothing; show the filters that would be written, a row each.")
@click.option("--replace", is_flag=True, help="Build filters anew where there are some; else those stay.")
@click.option(
    "--exact-size",
    is_flag=True,
    help="Size filters to the smallest multiple of 32 bytes instead of a power of two; not every reader accepts that.",
)
def embed(
    output: Output,
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    fpp: float,
    target: str | None,
    in_place: bool,
    dry_run: bool,
    replace: bool,
    exact_size: bool,
) -> int:
    """Embed Bloom filters into Parquet files.

    Filters are sized from the data; pages and all other metadata stay byte for byte. -o or --in-place is needed, but
    for --dry-run. A file is the old one or the new one, whole, whatever happens.
    """
    if target is not None and in_place:
        raise click.UsageError("-o and --in-place exclude each other", click.get_current_context())
    if target is None and not in_place and not dry_run:
        raise click.UsageError("say where to: -o PATH, --in-place, or --dry-run", click.get_current_context())
    asked = columns_of(columns)
    parse_columns(asked, FilterOptions(fpp, None, not exact_size))  # what is wrong with them is said once

    files = find_files(paths, output)
    places = place_outputs(files, paths, target) if target is not None else {}
    totals: Counter[str] = Counter(files=0, changed=0, filters=0, kept=0, bytes_added=0, dead_bytes=0)
    rows_of = _rows_of_filters if dry_run else _rows_of_files
    with output.rows(*(("filters", FILTERS) if dry_run else ("files", FILES))) as rows:
        rows.facts |= {"dry_run": dry_run, "totals": totals}
        with output.progress(len(files)) as bar:
            for file in bar.over(files):
                with output.going_on(), output.step("embed"):
                    place = places.get(file.path)
                    if place is not None and not dry_run:
                        make_folder_of(place)
                    report = embed_file(
                        file.path,
                        asked,
                        fpp=fpp,
                        power_of_two=not exact_size,
                        output=place,
                        replace=replace,
                        dry_run=dry_run,
                        filesystem=output.filesystem,
                        progress=bar.within,
                    )
                    _count(report, totals)
                    rows_of(report, rows)
                    output.detail(f"{report} ({report.seconds:.3f} s)")
    output.summary(_summary(totals, dry_run))
    return output.exit_code()


def columns_of(arguments: tuple[str, ...]) -> Mapping[str, float | None]:
    """`["user.id", "trace=0.001"]` as {"user.id": None, "trace": 0.001}."""
    columns: dict[str, float | None] = {}
    for argument in arguments:
        name, equals, number = argument.rpartition("=")
        own = bool(equals and name and _NUMBER.fullmatch(number))
        column = name if own else argument
        if column in columns:
            raise ParquetBloomError("the column is named twice", column=column)
        columns[column] = float(number) if own else None
    return columns


def _rows_of_files(report: EmbedReport, rows: Rows) -> None:
    rows.add(
        {
            "file": report.path,
            "output": report.output,
            "filters": report.num_filters,
            "kept": report.kept,
            "bytes_added": report.bytes_added,
            "dead_bytes": report.dead_bytes,
            "new_size": report.new_size,
            "changed": report.changed,
            "seconds": round(report.seconds, 6),
        }
    )


def _rows_of_filters(report: EmbedReport, rows: Rows) -> None:
    for made in report.filters:
        row: dict[str, Any] = {"file": report.path, "output": report.output, "row_group": made.row_group}
        rows.add(row | {"column": made.column, "ndv": made.ndv, "num_bytes": made.num_bytes, "fpp": made.fpp})


def _count(report: EmbedReport, totals: Counter[str]) -> None:
    totals["files"] += 1
    totals["changed"] += report.changed
    totals["filters"] += report.num_filters
    totals["kept"] += report.kept
    totals["bytes_added"] += report.bytes_added
    totals["dead_bytes"] += report.dead_bytes


def _summary(totals: Mapping[str, int], dry_run: bool) -> str:
    head = "would embed" if dry_run else "embedded"
    text = f"{head} {counted(totals['filters'], 'filter')} in {counted(totals['files'], 'file')}"
    text += f", {totals['bytes_added']:+,} bytes"
    if totals["kept"]:
        text += f", {counted(totals['kept'], 'filter')} kept"
    if totals["dead_bytes"]:
        text += f", {counted(totals['dead_bytes'], 'dead byte')}"
    return text
