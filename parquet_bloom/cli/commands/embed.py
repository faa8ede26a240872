"""`parquet-bloom embed`: add filters to existing files, in place or into copies, or show what would be added."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict

import click

from ...errors import ParquetBloomError
from ...file.many import Progress
from ...file.write.embed import EmbedReport, embed_file
from ...file.write.options import FilterOptions, parse_columns
from ...util.threads import processors
from ..options.common import column_option, command, jobs_option, require_target, target_options
from ..output.output import Output
from ..output.table import Column
from ..run.rewrite import RewriteCommand

EMBED = RewriteCommand(
    "embed",
    "embedded",
    bytes="bytes_added",
    grows=True,
    columns=(
        Column("row_group", "row group", right=True),
        Column("column", "column", folds=True),
        Column("ndv", "ndv", right=True),
        Column("num_bytes", "bytes", right=True),
        Column("fpp", "fpp", right=True),
    ),
    make_row=asdict,
)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@command(
    "embed",
    example=(
        "parquet-bloom embed lake/ --column user.id --column trace=0.001 --dry-run\n"
        "parquet-bloom embed lake/ --column user.id --column trace=0.001 -o filtered/\n"
        "parquet-bloom embed a.parquet --column user.id --in-place"
    ),
    exit_codes="0 done, or there was nothing to add; 2 error in a file: the others were done.",
)
@column_option(
    "Add filters to this column, a dotted path; NAME=FPP sets the fpp of the column. Repeatable. "
    "(A name that itself ends in = and a number must be followed by =FPP.)",
    required=True,
)
@click.option(
    "--fpp",
    type=float,
    default=0.01,
    show_default=True,
    help="False-positive probability: the share of absent keys that a filter may let pass.",
)
@target_options("the filters that would be written")
@click.option("--replace", is_flag=True, help="Rebuild existing filters; by default they are kept.")
@click.option(
    "--keep-footer",
    is_flag=True,
    help="Leave the old footer in the file, unused, so that running Spark queries that listed the file do not fail.",
)
@click.option(
    "--exact-size",
    is_flag=True,
    help="Size filters to the smallest multiple of 32 bytes instead of a power of two; not all readers accept that.",
)
@jobs_option
def embed(
    output: Output,
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    fpp: float,
    target: str | None,
    in_place: bool,
    dry_run: bool,
    replace: bool,
    keep_footer: bool,
    exact_size: bool,
    jobs: int,
) -> int:
    """Embed Bloom filters into Parquet files.

    Filters are sized from the data; pages and all other metadata stay byte for byte. Either -o or --in-place is
    required, except with --dry-run. Files are replaced atomically.
    """
    require_target(target, in_place, dry_run)
    requested = parse_column_arguments(columns)
    parse_columns(requested, FilterOptions(fpp, None, not exact_size))  # report invalid options once, not per file

    def embed_one(path: str, target: str | None, progress: Progress) -> EmbedReport:
        return embed_file(
            path,
            requested,
            fpp=fpp,
            power_of_two=not exact_size,
            output=target,
            replace=replace,
            keep_footer=keep_footer,
            dry_run=dry_run,
            filesystem=output.filesystem,
            progress=progress,
            threads=max(1, processors() // jobs),
        )

    return EMBED.run(output, paths, target, dry_run, jobs, embed_one)


def parse_column_arguments(arguments: tuple[str, ...]) -> Mapping[str, float | None]:
    """Parse ("user.id", "trace=0.001") into {"user.id": None, "trace": 0.001}."""
    columns: dict[str, float | None] = {}
    for argument in arguments:
        name, equals, number = argument.rpartition("=")
        has_fpp = bool(equals and name and _NUMBER.fullmatch(number))
        column = name if has_fpp else argument
        if column in columns:
            raise ParquetBloomError("the column is named twice", column=column)
        columns[column] = float(number) if has_fpp else None
    return columns
