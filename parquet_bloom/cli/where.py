"""The options of commands that take a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import click

from ..file.footer_cache import FOOTERS, FooterCache
from ..file.footer_store import DiskFooterCache
from ..predicate.tree import Node
from ..prune.plan import prune
from ..prune.report import PruneReport
from .options import timezone_option
from .output import Output
from .paths import Found
from .table import counted

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
)


def where_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --where, --dialect, --timezone, --ignore-case and --cache."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def pruned(
    output: Output, files: Sequence[Found], node: Node, timezone: str, ignore_case: bool, cache: str | None
) -> PruneReport:
    """Judge files; those that cannot be read are reported, and are not in the report."""
    with output.progress(len(files)) as bar, output.step("prune"), _footers(cache) as footers:
        return prune(
            [file.path for file in files],
            node,
            filesystem=output.filesystem,
            timezone=timezone,
            ignore_case=ignore_case,
            progress=bar.of,
            on_error=output.fail,
            cache=footers,
        )


@contextmanager
def _footers(folder: str | None) -> Iterator[FooterCache]:
    """Footers kept in a folder; without one, in memory."""
    if folder is None:
        yield FOOTERS
    else:
        with closing(DiskFooterCache(folder)) as cache:
            yield cache


def totals_of(report: PruneReport) -> dict[str, Any]:
    """What a report says in numbers, for the JSON document."""
    return {
        "files": report.total_files,
        "selected_files": report.selected_files,
        "unopened_files": report.unopened_files,
        "row_groups": report.total_row_groups,
        "selected_row_groups": report.selected_row_groups,
        "skipped_by": report.skipped_by,
        "requests": report.requests,
        "bytes_read": report.bytes_read,
    }


def told(report: PruneReport) -> str:
    """The same on one line, for people, and the first doubt, as it may be why so much is read."""
    skipped = ", ".join(f"{count:,} by {what}" for what, count in sorted(report.skipped_by.items()))
    text = str(report) + (f"; skipped {skipped}" if skipped else "")
    if doubts := report.doubts:
        count = len({(path, row_group) for path, row_group, _ in doubts})
        text += f"; {counted(count, 'row group')} in doubt: {doubts[0][2]}"
    return text
