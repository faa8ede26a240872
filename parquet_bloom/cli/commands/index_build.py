"""`parquet-bloom index create`: create an empty index."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from ...errors import StorageError
from ...lake.index_manifest import list_lake_roots
from ...lake.lake_index import LakeIndex
from ...util.messages import count
from ..options.index_options import (
    INDEX_HELP,
    index_argument,
    memory_option,
    open_index,
    resolve_lake,
    storage_arguments,
    table_options,
)
from ..options.name_completion import complete_columns
from ..options.path_options import expand_stdin
from ..options.shared_options import column_option, command, parse_whole_number, skip_broken_option
from ..options.table_options import TableRequest
from ..output.output import Output
from ..output.row_formats import Column

CREATED_COLUMNS = (
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
    with output.rows("indexes", CREATED_COLUMNS) as rows:
        rows.add(row | {"lake": _roots(manifest.lake)})
    return output.exit_code()


def _roots(lake: Mapping[str, Any]) -> list[str]:
    """Format the paths or table that the manifest records as the lake."""
    catalog = f" in catalog {lake['catalog']}" if "catalog" in lake else ""
    tables = {kind: lake[kind] for kind in ("delta", "iceberg") if kind in lake}
    names = {kind: name if isinstance(name, str) else ".".join(name) for kind, name in tables.items()}
    return [*lake.get("paths", ()), *(f"{kind} {name}{catalog}" for kind, name in names.items())]


APPENDED_COLUMNS = (
    Column("added", "added", right=True),
    Column("replaced", "indexed again", right=True),
    Column("unchanged", "unchanged", right=True),
    Column("failed", "failed", right=True),
    Column("values", "values", right=True, text=lambda value: f"{value:,}"),
    Column("merged", "segments merged", right=True),
)


@command(
    "index append",
    example=(
        "parquet-bloom index append ids.index lake/\n"
        "parquet-bloom index append ids.index\n"
        "parquet-bloom index append ids.index --delta s3://bucket/events --memory-limit 2GiB"
    ),
    exit_codes="0 done, or there was nothing to add; 2 error in a file: the others were indexed.",
    paths=False,
    about=(
        f"{INDEX_HELP} A PATH is a file, a folder, a quoted pattern, a URL of any of these, or - for a list of files "
        "on standard input."
    ),
)
@index_argument
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(readable=False, allow_dash=True))
@table_options
@memory_option
@skip_broken_option
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads that read and hash. Default: the number of processors.",
)
def append(
    output: Output,
    path: str,
    paths: tuple[str, ...],
    delta: str | None,
    iceberg: str | None,
    table: TableRequest,
    memory_limit: int,
    jobs: int | None,
) -> int:
    """Index the files of PATHs or of a table; without either, the files of the lake recorded in the index.

    Indexed files that have not changed are skipped. Folders, patterns and tables are recorded, and listed again
    whenever the index is opened. A file that cannot be read is reported and not indexed; lookups then list it for every
    value. The index is updated atomically.
    """
    listed = list(expand_stdin(paths))
    lake = resolve_lake(listed, delta, iceberg, table, output, "a PATH")
    with open_index(output, path, live=False) as index:
        if lake is None and not paths and not index.state.manifest.lake:
            text = "the index has no recorded lake: give the files to index by PATHs, --delta or --iceberg"
            raise click.UsageError(text, click.get_current_context())
        with output.progress(0) as bar, output.step("index files"):
            report = index.append(
                [] if lake is None and paths else lake,
                memory_limit=memory_limit,
                threads=jobs,
                progress=bar.update,
                on_error=output.fail,
            )
        if not (report.indexed or report.unchanged or report.failed):
            recorded = index.state.manifest.lake
            roots = [*map(os.fsdecode, listed)] if paths else list_lake_roots(recorded)
            is_table = not paths and not {"delta", "iceberg"}.isdisjoint(recorded)
            if roots and not is_table:  # a table may be empty; a folder may be a mount that is missing
                output.fail(StorageError("no files in it", path=", ".join(roots)))
    with output.rows("appends", APPENDED_COLUMNS) as rows:
        row = {"added": report.added, "replaced": report.replaced, "unchanged": report.unchanged}
        row |= {"failed": len(report.failed), "values": report.entries, "merged": report.merged}
        rows.add(row)
        rows.facts["uncovered"] = [
            {"file": file, "column": column, "problem": problem}
            for column, files in report.uncovered.items()
            for file, problem in files.items()
        ]
    for column, files in report.uncovered.items():
        file, problem = next(iter(files.items()))
        total = f", {count(len(files), 'file')} in all" if len(files) > 1 else ""
        output.summary(f"{file}: column '{column}' is not indexed: {problem}{total}")
    return output.exit_code()


COMPACTED_COLUMNS = (
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
    with output.rows("compactions", COMPACTED_COLUMNS) as rows:
        rows.add(asdict(report))
    return output.exit_code()


REMOVED_COLUMNS = (Column("removed", "removed", right=True), Column("files", "files left", right=True))


@command(
    "index remove",
    example=(
        "parquet-bloom index remove ids.index lake/day=2026-01-30/\n"
        "parquet-bloom index remove ids.index lake/day=2026-01-30/a.parquet"
    ),
    exit_codes="0 done; 2 error: nothing was removed.",
    paths=False,
    about=f"{INDEX_HELP} A PATH is an indexed file, all indexed files below a folder if it ends in /, or - for a list "
    "of files on standard input. The files need not exist any more.",
)
@index_argument
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(readable=False, allow_dash=True))
def remove(output: Output, path: str, paths: tuple[str, ...]) -> int:
    """Remove files from an index: from then on lookups list those that still are in the lake for every value.

    Files that were deleted from the lake need not be removed: they are not listed any more, and `index compact` drops
    their entries.
    """
    with open_index(output, path, live=False) as index, output.step("remove"):
        count = index.remove([os.fspath(each) for each in expand_stdin(paths)])
        remaining = index.snapshot().files
    with output.rows("removals", REMOVED_COLUMNS) as rows:
        rows.add({"removed": count, "files": remaining})
    return output.exit_code()
