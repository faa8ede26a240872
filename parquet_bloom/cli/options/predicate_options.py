"""Options and helpers of the commands that take a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from ...errors import StorageError
from ...file.metadata_cache import SHARED_CACHE, MetadataCache
from ...predicate.tree import Node
from ...scan.model.scan_plan import summarize
from ...scan.plan_report import PruneReport
from ...scan.scan_functions import prune
from ...util.messages import count, truncate_list
from ..output.output import Output
from .path_options import MatchedPaths
from .shared_options import timezone_option
from .table_options import Inputs, TableRequest, find_inputs, read_inputs

if TYPE_CHECKING:
    from ...lake.lake_index import LakeIndex

_OPTIONS = (
    click.option(
        "--dialect", metavar="NAME", help="SQL dialect of the predicate, by its name in sqlglot, such as spark."
    ),
    timezone_option,
    click.option(
        "--case-sensitive/--case-insensitive",
        default=True,
        show_default=True,
        help="Whether the case of column names matters; to Spark it does not.",
    ),
    click.option(
        "--cache",
        metavar="FOLDER",
        envvar="PARQUET_BLOOM_CACHE",
        show_envvar=True,
        help="Cache footers in this folder, for this and later calls.",
    ),
    click.option(
        "--index",
        metavar="FOLDER",
        help="Query this index of the lake, and open no file that it rules out. Without PATHs: all files of its lake.",
    ),
    click.option(
        "--zones",
        metavar="FILE",
        multiple=True,
        help="Query this zone index, and read no rows that it rules out. Repeatable.",
    ),
)


def where_options(required: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a decorator that adds --where, --dialect, --timezone, --case-sensitive, --cache, --index and --zones."""
    where = click.option(
        "--where",
        metavar="SQL",
        required=required,
        help="The predicate, as after WHERE in SQL: columns compared with literals; dotted paths for nested columns.",
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed((where, *_OPTIONS)):
            function = option(function)
        return function

    return decorate


@contextmanager
def resolve_files(
    paths: Sequence[str], table: TableRequest, index: str | None, output: Output
) -> Iterator[tuple[Inputs, str | LakeIndex | None]]:
    """Resolve the files to prune, and the index, for `prune_files`; without PATHs the index is opened for its files."""
    if paths or table.in_catalog or index is None:
        yield find_inputs(paths, table, output), index
        return
    table.require_valid(paths)
    table.find(paths, output)  # refuses options that are for a table
    from ...lake.lake_index import LakeIndex
    from ...scan.plan.index_level import list_live_files

    with ExitStack() as stack:
        with output.step("index"):
            lake_index = stack.enter_context(LakeIndex.open(index, list_table=False, filesystem=output.filesystem))
            if lake_index.table is None:
                files = [MatchedPaths(path, root, root is not None) for path, root in list_live_files(lake_index)]
                if not files:  # a mount that is missing, for one
                    output.fail(StorageError("no files in its lake", path=index))
        yield Inputs(files) if lake_index.table is None else read_inputs(lake_index.table, output), lake_index


def prune_files(
    output: Output,
    inputs: Inputs,
    node: Node,
    timezone: str,
    case_sensitive: bool,
    cache: MetadataCache,
    index: str | LakeIndex | None = None,
    zones: Sequence[str] = (),
) -> PruneReport:
    """Prune files; those that cannot be read are reported as errors, and are not in the result.

    Parameters
    ----------
    inputs, index : results of `resolve_files`. An index that cannot be read gives a note, not an error.
    cache : of footers; see `open_footer_cache`.
    zones : paths of zone indexes. One that cannot be used gives a note, not an error.
    """
    of_index = index is not None and not isinstance(index, str)
    source = inputs.table if inputs.table is not None else [file.path for file in inputs.files]
    with output.progress(len(inputs.files)) as bar, output.step("prune"):
        report = prune(
            None if of_index and inputs.table is None else source,
            node,
            filesystem=output.filesystem,
            timezone=timezone,
            case_sensitive=case_sensitive,
            progress=bar.update,
            on_error=output.fail,
            cache=cache,
            index=index,
            zones=list(zones) or None,
        )
    for doubt in report.index_doubts:
        output.note(f"the index was not fully used, so more may be read: {doubt}")
    for doubt in truncate_list(report.zone_doubts):
        output.note(f"zones are not used, so more may be read: {doubt}")
    return report


@contextmanager
def open_footer_cache(folder: str | None) -> Iterator[MetadataCache]:
    """Open a footer cache in a folder; without a folder, the cache in memory."""
    if folder is None:
        yield SHARED_CACHE
    else:
        from ...file.disk_cache import DiskMetadataCache

        with closing(DiskMetadataCache(folder)) as cache:
            yield cache


def collect_totals(report: PruneReport) -> dict[str, Any]:
    """Return the totals of a report, for the JSON document."""
    return {
        "files": report.total_files,
        "selected_files": report.selected_files,
        "unopened_files": report.unopened_files,
        "unopened_by": report.unopened_by,
        "index_doubts": report.index_doubts,
        "zone_doubts": report.zone_doubts,
        "row_groups": report.total_row_groups,
        "selected_row_groups": report.selected_row_groups,
        "skipped_by": report.skipped_by,
        "requests": report.requests,
        "bytes_read": report.bytes_read,
        "data_requests": report.data_requests,
        "data_bytes_read": report.data_bytes_read,
        "decoded": [one._asdict() for one in report.decoded],
    }


def describe_plan(report: PruneReport, *, is_complete: bool = True, with_doubts: bool = True) -> str:
    """Format the totals of a report on one line, with the first doubt, which may explain why much is read.

    Parameters
    ----------
    is_complete : False if not all that was planned was read.
    with_doubts : False where errors say the same.
    """
    skipped = ", ".join(f"{number:,} by {what}" for what, number in sorted(report.skipped_by.items()))
    text = summarize(report, is_complete=is_complete) + (f"; skipped {skipped}" if skipped else "")
    if with_doubts and (doubts := report.doubts):
        doubtful = len({(path, row_group) for path, row_group, _ in doubts})
        text += f"; {count(doubtful, 'row group')} in doubt: {doubts[0][2]}"
    return text
