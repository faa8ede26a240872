"""Options and helpers of the commands that take a predicate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from ...errors import NoFilesError
from ...file.metadata_cache import SHARED_CACHE, MetadataCache
from ...predicate.tree import Node
from ...scan.model.scan_plan import summarize
from ...scan.plan_report import PruneReport
from ...scan.scan_functions import prune
from ...util.lazy import late_module
from ...util.messages import count, truncate_list
from ..command import CommandOptions, group, option
from ..output.output import Output
from .path_options import MatchedPaths
from .shared_options import TIMEZONE
from .table_options import Inputs, TableVersion, find_inputs, read_inputs

if TYPE_CHECKING:
    from ...file import disk_cache
    from ...lake import lake_index
    from ...lake.lake_index import LakeIndex
    from ...scan.plan import index_level
else:  # most commands are given neither an index nor a folder for footers
    disk_cache = late_module("parquet_bloom.file.disk_cache")
    index_level = late_module("parquet_bloom.scan.plan.index_level")
    lake_index = late_module("parquet_bloom.lake.lake_index")


_WHERE = "The predicate, as after WHERE in SQL. Columns are compared with literals; dotted paths are nested columns."


class PredicateOptions(CommandOptions):
    """The predicate of a command, and what it is decided by."""

    title = "Rows"

    where: str | None = option("SQL", _WHERE)
    dialect: str | None = option(
        "NAME", "SQL dialect of the predicate: spark, or another one that sqlglot knows.", rarely=True
    )
    timezone: str = TIMEZONE
    case_sensitive: bool = option(
        None,
        "Whether the case of column names matters; to Spark it does not.",
        "--case-sensitive/--case-insensitive",
        default=True,
        rarely=True,
    )
    cache: str | None = option(
        "FOLDER", "Cache footers in this folder, for this and later calls.", envvar="PARQUET_BLOOM_CACHE", rarely=True
    )
    index: str | None = option(
        "FOLDER",
        "Query this index of the lake, and open no file that it rules out. Without PATHs: all files of its lake.",
    )
    zones: tuple[str, ...] = option(
        "FILE", "Query this zone index, and read no rows that it rules out. Repeatable.", multiple=True, rarely=True
    )
    table = group(TableVersion)

    @contextmanager
    def resolve_files(self, paths: Sequence[str], output: Output) -> Iterator[tuple[Inputs, str | LakeIndex | None]]:
        """Resolve the files to prune, and the index, for `prune`; without PATHs it is opened for its files."""
        if paths or self.table.in_catalog or self.index is None:
            yield find_inputs(paths, self.table, output), self.index
            return
        self.table.require_valid(paths)
        self.table.find(paths, output)  # refuses options that are for a table
        with ExitStack() as stack:
            with output.step("index"):
                index = stack.enter_context(
                    lake_index.LakeIndex.open(self.index, list_table=False, filesystem=output.filesystem)
                )
                if index.table is None:
                    files = [
                        MatchedPaths(path, root, root is not None) for path, root in index_level.list_live_files(index)
                    ]
                    if not files:  # a mount that is missing, for one
                        output.fail(NoFilesError("no files in its lake", path=self.index))
            yield Inputs(files) if index.table is None else read_inputs(index.table, output), index

    @contextmanager
    def open_footer_cache(self) -> Iterator[MetadataCache]:
        """Open the cache in a folder; without a folder, the one in memory."""
        if self.cache is None:
            yield SHARED_CACHE
        else:
            with closing(disk_cache.DiskMetadataCache(self.cache)) as cache:
                yield cache

    def prune(
        self, output: Output, inputs: Inputs, node: Node, cache: MetadataCache, index: str | LakeIndex | None
    ) -> PruneReport:
        """Prune files; those that cannot be read are reported as errors, and are not in the result.

        Parameters
        ----------
        inputs, index : results of `resolve_files`. An index that cannot be used gives a note, as zones do.
        cache : of footers.
        """
        of_index = index is not None and not isinstance(index, str)
        source = inputs.table if inputs.table is not None else [file.path for file in inputs.files]
        with output.progress(len(inputs.files)) as bar, output.step("prune"):
            report = prune(
                None if of_index and inputs.table is None else source,
                node,
                filesystem=output.filesystem,
                timezone=self.timezone,
                case_sensitive=self.case_sensitive,
                progress=bar.update,
                on_error=output.fail,
                cache=cache,
                index=index,
                zones=list(self.zones) or None,
            )
        for note in report.index_notes:
            output.remark(note)
        for doubt in report.index_doubts:
            output.note(f"the index was not fully used, so more may be read: {doubt}")
        for doubt in truncate_list(report.zone_doubts):
            output.note(f"zones are not used, so more may be read: {doubt}")
        return report


class RequiredPredicate(PredicateOptions):
    """The same, of a command that needs a predicate."""

    where: str = option("SQL", _WHERE, required=True)


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
