"""The options of commands that take a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from ...file.cache.disk import DiskMetadataCache
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...predicate.tree import Node
from ...scan.api import prune
from ...scan.evaluate.lake_index import list_live_files
from ...scan.report import PruneReport
from ...util.wording import truncate_list
from ..output.output import Output
from ..output.table import counted
from .common import timezone_option
from .paths import MatchedPaths, find_files

if TYPE_CHECKING:
    from ...lake.index import LakeIndex

_OPTIONS = (
    click.option(
        "--where",
        metavar="SQL",
        required=True,
        help="The predicate, as behind SQL's WHERE: columns compared with literals; dotted paths for nested columns.",
    ),
    click.option(
        "--dialect", metavar="NAME", help="Read the predicate as this SQL dialect (sqlglot's names: spark, ...)."
    ),
    timezone_option,
    click.option("--ignore-case", is_flag=True, help="Match names of columns whatever their case, as Spark does."),
    click.option(
        "--cache",
        metavar="FOLDER",
        envvar="PARQUET_BLOOM_CACHE",
        show_envvar=True,
        help="Keep footers in this folder, for this and later calls.",
    ),
    click.option(
        "--index",
        metavar="FOLDER",
        help="Ask this index of the lake, and open no file that it rules out. Without a PATH, all files of its lake.",
    ),
    click.option(
        "--zones",
        metavar="FILE",
        multiple=True,
        help="Ask this zone index, and read no rows that it rules out. Repeatable.",
    ),
)


def where_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --where, --dialect, --timezone, --ignore-case, --cache, --index and --zones."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@contextmanager
def files_asked(
    paths: Sequence[str], index: str | None, output: Output
) -> Iterator[tuple[list[MatchedPaths], str | LakeIndex | None]]:
    """The files that a predicate is put to, and the index, for `pruned`; the index is open if its files are meant."""
    if paths:
        yield find_files(paths, output), index
        return
    if index is None:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=next(p for p in context.command.params if p.name == "paths"))
    from ...lake.index import LakeIndex

    with ExitStack() as stack:
        with output.step("index"):
            opened = stack.enter_context(LakeIndex.open(index, filesystem=output.filesystem))
            files = [MatchedPaths(path, root, root is not None) for path, root in list_live_files(opened)]
        yield files, opened


def pruned(
    output: Output,
    files: Sequence[MatchedPaths],
    node: Node,
    timezone: str,
    ignore_case: bool,
    cache: str | None,
    index: str | LakeIndex | None = None,
    zones: Sequence[str] = (),
) -> PruneReport:
    """Judge files; those that cannot be read are reported, and are not in the report.

    Parameters
    ----------
    files, index : as `files_asked` gives them. That the index cannot be read is said, and no error.
    zones : paths of zone indexes. That one cannot be used is said, and no error.
    """
    with output.progress(len(files)) as bar, output.step("prune"), _footers(cache) as footers:
        report = prune(
            [file.path for file in files] if index is None or isinstance(index, str) else None,
            node,
            filesystem=output.filesystem,
            timezone=timezone,
            ignore_case=ignore_case,
            progress=bar.of,
            on_error=output.fail,
            cache=footers,
            index=index,
            zones=list(zones) or None,
        )
    for doubt in report.index_doubts:
        output.note(f"the index is doubtful, so more may be read: {doubt}")
    for doubt in truncate_list(report.zone_doubts):
        output.note(f"zones are not used, so more may be read: {doubt}")
    return report


@contextmanager
def _footers(folder: str | None) -> Iterator[MetadataCache]:
    """Footers kept in a folder; without one, in memory."""
    if folder is None:
        yield SHARED_CACHE
    else:
        with closing(DiskMetadataCache(folder)) as cache:
            yield cache


def totals_of(report: PruneReport) -> dict[str, Any]:
    """What a report says in numbers, for the JSON document."""
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
    }


def describe_plan(report: PruneReport) -> str:
    """The same on one line, for people, and the first doubt, as it may be why so much is read."""
    skipped = ", ".join(f"{count:,} by {what}" for what, count in sorted(report.skipped_by.items()))
    text = str(report) + (f"; skipped {skipped}" if skipped else "")
    if doubts := report.doubts:
        count = len({(path, row_group) for path, row_group, _ in doubts})
        text += f"; {counted(count, 'row group')} in doubt: {doubts[0][2]}"
    return text
