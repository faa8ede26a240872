"""`parquet-bloom index create`: create an empty index."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

import click

from ...errors import NoFilesError
from ...lake.index_manifest import list_lake_roots
from ...lake.lake_index import LakeIndex
from ...util.messages import count
from ..command import CommandOptions, argument, command, group, option, usage_error
from ..options.index_options import INDEX, MEMORY_LIMIT, LakeTable, open_index, storage_arguments
from ..options.path_options import expand_stdin
from ..options.shared_options import PATH, SKIP_BROKEN, THREAD_JOBS, columns_option, parse_whole_number
from ..output.output import Output
from ..output.row_formats import Column

CREATED_COLUMNS = (
    Column("index", "index"),
    Column("layout", "layout"),
    Column("granularity", "granularity", text=lambda value: value.replace("_", " ")),
    Column("zone_rows", "zone rows", right=True, usual=lambda row: row["zone_rows"] is None),
    Column("settings", "settings"),
    Column("columns", "columns"),
    Column("lake", "lake", text=lambda value: "; ".join(value) or "-"),
)


class CreateOptions(CommandOptions):
    path: str = INDEX
    columns: tuple[str, ...] = columns_option(
        "Index this column. It is a dotted path, or an expression: lower(email), upper(email), CAST(n AS STRING), "
        "several columns together, (tenant, id), or what a Variant has at a path, v:a.b::STRING. Repeatable.",
        required=True,
    )
    lakes: tuple[str, ...] = option(
        "PATH",
        "A folder or a quoted pattern whose files are to be indexed. It is listed for new files whenever the index is "
        "opened. Repeatable. Paths given to append are added to it. A folder that holds a Delta or Iceberg table is "
        "taken as one.",
        "--lake",
        multiple=True,
    )
    table = group(LakeTable)
    granularity: Literal["file", "row_group", "zone"] = option(
        None,
        "The results of lookups. They are files, row groups of files, or zones: ranges of rows in these.",
        type=click.Choice(("file", "row_group", "zone")),
        default="file",
    )
    zone_rows: int | None = option(
        "N",
        "For the granularity zone: rows of a zone, 8192 by default; the last one of a row group has fewer.",
        callback=parse_whole_number,
    )
    layout: Literal["postings", "cuckoo"] = option(
        None,
        "How values are stored. postings: one small read per lookup, fewest false positives. cuckoo: aligned Cuckoo "
        "filters.",
        type=click.Choice(("postings", "cuckoo")),
        default="postings",
        rarely=True,
    )
    expected_values: int | None = option(
        "N",
        "Expected number of values, such as 1e9 (the default), each counted once per file, row group or zone; more "
        "values give more false positives. For cuckoo: the number per file or row group, 1e5 by default, or per zone, "
        "by default its rows.",
        callback=parse_whole_number,
        rarely=True,
    )
    remainder_bits: int | None = option(
        "BITS",
        "For postings: 8 by default; each more bit halves the number of false positives, for one bit per value.",
        type=int,
        rarely=True,
    )
    fingerprint_bits: int | None = option(
        "BITS",
        "For cuckoo: bits stored per value: 8, 12, 16 (the default) or 24.",
        type=int,
        rarely=True,
    )
    num_buckets: int | None = option(
        "N",
        "For cuckoo: buckets of each filter. Default: computed from --expected-values.",
        callback=parse_whole_number,
        rarely=True,
    )


@command("index create", CreateOptions, totals=False)
def create(output: Output, given: CreateOptions) -> int:
    """Create an empty index of columns, in a folder that does not exist yet, or is empty.

    `index append` fills it. An index of several columns answers lookups in each of them.

    Exit codes: 0 created, 2 error: nothing was created.

    Example:
      parquet-bloom index create ids.index --column user.id --column trace --lake lake/
      parquet-bloom index create mail.index --column 'lower(email)' --column '(tenant, id)' --lake lake/
      parquet-bloom index create s3://bucket/ids.index --column id --delta s3://bucket/events --granularity row_group
      parquet-bloom index create ids.index --column id --iceberg-catalog prod --table db.events
    """
    lake = given.table.resolve_lake(list(given.lakes), output, "--lake")
    with (
        output.step("create"),
        LakeIndex.create(
            given.path,
            given.columns,
            layout=given.layout,
            granularity=given.granularity,
            zone_rows=given.zone_rows,
            lake=lake,
            remainder_bits=given.remainder_bits,
            fingerprint_bits=given.fingerprint_bits,
            expected_values=given.expected_values,
            num_buckets=given.num_buckets,
            **storage_arguments(output),
        ) as index,
    ):
        manifest = index.state.manifest
    row: dict[str, Any] = {"index": index.path, "layout": manifest.layout, "granularity": manifest.granularity}
    row |= {"zone_rows": manifest.zone_rows or None, "settings": dict(manifest.settings)}
    with output.rows("indexes", CREATED_COLUMNS) as rows:
        rows.add(row | {"columns": manifest.columns, "lake": _roots(manifest.lake)})
    files = "" if manifest.lake else " PATH..."
    output.remark(f"it is empty; to index the files: parquet-bloom index append {shlex.quote(given.path)}{files}")
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


class AppendOptions(CommandOptions):
    path: str = INDEX
    paths: tuple[str, ...] = argument(
        "[PATH...]",
        "A PATH is a file, a folder, a quoted pattern, a URL of any of these, or - for a list of files on standard "
        "input.",
        nargs=-1,
        type=PATH,
    )
    table = group(LakeTable)
    memory_limit: int = MEMORY_LIMIT
    skip_broken: bool = SKIP_BROKEN
    jobs: int | None = THREAD_JOBS


@command("index append", AppendOptions, totals=False)
def append(output: Output, given: AppendOptions) -> int:
    """Index the files of PATHs or of a table; without either, the files of the lake recorded in the index.

    Indexed files that have not changed are skipped. Folders, patterns and tables are recorded, and listed again
    whenever the index is opened. A file that cannot be read is reported and not indexed; lookups then list it for every
    value. The index is updated atomically.

    Exit codes: 0 done, or there was nothing to add; 2 error in a file: the others were indexed.

    Example:
      parquet-bloom index append ids.index lake/
      parquet-bloom index append ids.index
      parquet-bloom index append ids.index --delta s3://bucket/events --memory-limit 2GiB
    """
    listed = list(expand_stdin(given.paths))
    lake = given.table.resolve_lake(listed, output, "a PATH")
    with open_index(output, given.path, live=False) as index:
        if lake is None and not given.paths and not index.state.manifest.lake:
            raise usage_error("the index has no recorded lake: give the files to index by PATHs, --delta or --iceberg")
        with output.progress(0) as bar, output.step("index files"):
            report = index.append(
                [] if lake is None and given.paths else lake,
                memory_limit=given.memory_limit,
                threads=given.jobs,
                progress=bar.update,
                on_error=output.fail,
            )
        if not (report.indexed or report.unchanged or report.failed):
            recorded = index.state.manifest.lake
            roots = [*map(os.fsdecode, listed)] if given.paths else list_lake_roots(recorded)
            is_table = not given.paths and not {"delta", "iceberg"}.isdisjoint(recorded)
            if roots and not is_table:  # a table may be empty; a folder may be a mount that is missing
                output.fail(NoFilesError("no files in it", path=", ".join(roots)))
    with output.rows("appends", APPENDED_COLUMNS) as rows:
        rows.add(report.to_dict() | {"failed": len(report.failed), "values": report.entries})
        rows.facts["uncovered"] = [
            {"file": file, "column": column, "problem": problem}
            for column, files in report.uncovered.items()
            for file, problem in files.items()
        ]
    for column, files in report.uncovered.items():
        file, problem = next(iter(files.items()))
        total = f", {count(len(files), 'file')} in all" if len(files) > 1 else ""
        output.remark(f"{file}: column '{column}' is not indexed: {problem}{total}")
    return output.exit_code()


COMPACTED_COLUMNS = (
    Column("segments_before", "segments", right=True),
    Column("segments_after", "now", right=True),
    Column("bytes_before", "bytes", right=True, text=lambda value: f"{value:,}"),
    Column("bytes_after", "now", right=True, text=lambda value: f"{value:,}"),
    Column("dropped", "files dropped", right=True),
    Column("deleted", "old files deleted", right=True),
)


class CompactOptions(CommandOptions):
    path: str = INDEX
    memory_limit: int = MEMORY_LIMIT
    keep_seconds: float = option(
        "SECONDS",
        "Keep unreferenced files of the index for this time, for readers that opened an earlier version.",
        type=click.FloatRange(min=0),
        default=3600,
    )


@command("index compact", CompactOptions, totals=False)
def compact(output: Output, given: CompactOptions) -> int:
    """Merge an index's segments into one, and drop entries of files removed from the index or gone from the lake.

    Exit codes: 0 done, or there was nothing to do; 2 error: the index is unchanged.

    Example:
      parquet-bloom index compact ids.index --keep-seconds 0
    """
    with open_index(output, given.path) as index, output.step("compact"):
        report = index.compact(memory_limit=given.memory_limit, keep_seconds=given.keep_seconds)
    with output.rows("compactions", COMPACTED_COLUMNS) as rows:
        rows.add(asdict(report))
    return output.exit_code()


REMOVED_COLUMNS = (Column("removed", "removed", right=True), Column("files", "files left", right=True))


class RemoveOptions(CommandOptions):
    path: str = INDEX
    paths: tuple[str, ...] = argument(
        "PATH...",
        "A PATH is an indexed file, all indexed files below a folder if it ends in /, or - for a list of files on "
        "standard input. The files need not exist any more.",
        nargs=-1,
        required=True,
        type=PATH,
    )


@command("index remove", RemoveOptions, totals=False)
def remove(output: Output, given: RemoveOptions) -> int:
    """Remove files from an index: from then on lookups list those that still are in the lake for every value.

    Files that were deleted from the lake need not be removed: they are not listed any more, and `index compact` drops
    their entries.

    Exit codes: 0 done; 2 error: nothing was removed.

    Example:
      parquet-bloom index remove ids.index lake/day=2026-01-30/
      parquet-bloom index remove ids.index lake/day=2026-01-30/a.parquet
    """
    with open_index(output, given.path, live=False) as index, output.step("remove"):
        count = index.remove([os.fspath(each) for each in expand_stdin(given.paths)])
        remaining = index.snapshot().files
    with output.rows("removals", REMOVED_COLUMNS) as rows:
        rows.add({"removed": count, "files": remaining})
    return output.exit_code()
