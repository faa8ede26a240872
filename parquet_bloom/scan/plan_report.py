"""The public report of a plan: explained as text or as a page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, TypedDict

from ..errors import ParquetBloomError, printable
from ..file.tabular_report import Kind, TabularReport
from ..util.lazy import late_module
from ..util.messages import ShownText, count, count_of, truncate_list
from .model.scan_plan import Decoded, FilePlan, RowGroupPlan, ScanPlan, summarize

if TYPE_CHECKING:
    from ..page import report_page
    from ..util.given_types import FileSystem
    from . import notebook_view, plan_document
else:
    notebook_view = late_module("parquet_bloom.scan.notebook_view")
    plan_details = late_module("parquet_bloom.scan.plan_document")
    plan_document = late_module("parquet_bloom.scan.plan_document")
    report_page = late_module("parquet_bloom.page.report_page")


class PageOptions(TypedDict, total=False):
    """Options of `PruneReport.to_html`."""

    check: bool
    asked_fpp: float | None
    filesystem: FileSystem | None
    progress: Callable[[int, int], None] | None


class PruneReport(ScanPlan, TabularReport):
    """A scan plan that can be shown as text, as a page or as a table. Its figures are the attributes of `ScanPlan`.

    The table has a row for each row group, and one without a row group for each file that was not opened: `by` is the
    evidence that rules it out, such as "filter" or "filter+range", and `num_left` the rows that can match.
    """

    _columns: ClassVar[Mapping[str, Kind]] = {
        "path": "path",
        "row_group": "int",
        "read": "bool",
        "num_rows": "int",
        "num_left": "int",
        "by": "text",
        "reason": "text",
        "doubts": "texts",
    }

    def explain(self, max_files: int = 20, max_lines: int = 20) -> str:
        """Explain for each row group whether it is read, what ruled it out, and what is doubtful.

        Parameters
        ----------
        max_files : maximum number of files; those that are read come first.
        max_lines : maximum number of lines for each file; neighbouring row groups with equal plans share a line.
        """
        lines = [printable(self.where), str(self), *self._describe_causes()]
        shown = self.first_files(max_files)
        for file in shown:
            lines += ["", f"{printable(file.path)}: {_describe_file(file)}"]
            runs = list(_describe_runs(file.row_groups))
            lines += [f"  {line}" for line in runs[:max_lines]]
            if len(runs) > max_lines:
                lines.append(f"  ... {len(runs) - max_lines:,} more lines")
        if len(shown) < len(self.files):
            num_selected = self.selected_files - sum(bool(file.selected) for file in shown)
            lines += ["", f"... {count(len(self.files) - len(shown), 'more file')}, {num_selected:,} of them read"]
        return ShownText("\n".join(lines))

    def to_dict(self) -> dict[str, object]:
        """Return the figures of the report, as JSON can hold them."""
        return {
            "files": self.total_files,
            "selected_files": self.selected_files,
            "unopened_files": self.unopened_files,
            "unopened_by": self.unopened_by,
            "index_notes": self.index_notes,
            "index_doubts": self.index_doubts,
            "zone_doubts": self.zone_doubts,
            "row_groups": self.total_row_groups,
            "selected_row_groups": self.selected_row_groups,
            "skipped_by": self.skipped_by,
            "requests": self.requests,
            "bytes_read": self.bytes_read,
            "data_requests": self.data_requests,
            "data_bytes_read": self.data_bytes_read,
            "decoded": [each._asdict() for each in self.decoded],
        }

    def _make_rows(self) -> Iterator[tuple[object, ...]]:
        for file in self.files:
            if file.unopened:
                yield file.path, None, False, None, 0, file.unopened_by, file.unopened, []
            for each in file.row_groups:
                left, by = each.num_left if each.read else 0, "+".join(sorted(each.by)) or None
                doubts = list(map(str, each.doubts))
                yield file.path, each.row_group, each.read, each.num_rows, left, by, each.reason or None, doubts

    def _describe_causes(self) -> Iterator[str]:
        if self.skipped_by:
            causes = sorted(self.skipped_by.items(), key=lambda item: (-item[1], item[0]))
            yield "skipped by " + ", ".join(f"{printable(cause)}: {number:,}" for cause, number in causes)
        if self.doubts:
            yield f"doubtful: {count_of(len({doubt[:2] for doubt in self.doubts}), self.total_row_groups, 'row group')}"
        if self.decoded:
            yield "read by " + "; ".join(map(_describe_decoded, self.decoded))
        yield from map(printable, self.index_notes)
        yield from (f"the index is doubtful: {printable(doubt)}" for doubt in self.index_doubts)
        yield from (f"zones are not used: {printable(doubt)}" for doubt in truncate_list(self.zone_doubts))

    def __str__(self) -> str:
        return summarize(self)

    def to_html(
        self,
        output: str | os.PathLike[str] | None = None,
        *,
        check: bool = False,
        asked_fpp: float | None = None,
        filesystem: FileSystem | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> str:
        """Render the report as a self-contained page: a picture of its row groups, and figures of the filters.

        The footers are read again, and a sample of the filters, 64 MiB at most, to estimate their false-positive
        probability.

        Parameters
        ----------
        output : file to write the page to, replacing an existing one; None to write nothing.
        check : also read the predicate's columns in the selected row groups, and show which of them have matches.
        asked_fpp : the false-positive probability that the filters were made for, to compare with.
        filesystem : of `output`; None for local paths and URLs.
        progress : called after each file with (done, in all).

        Returns
        -------
        The page, which loads nothing else. Its size is bounded: of more than 200,000 row groups it draws those of the
        files that are read, and as many others as fit.

        Raises
        ------
        ParquetBloomError
            The report was not made by `prune`, or the page cannot be written. Files that can no longer be read are not
            an error: the page lists them.
        """
        if self.asked is None:
            raise ParquetBloomError("only a report made by prune can be rendered as a page")
        if asked_fpp is not None and not 0 < asked_fpp < 1:
            raise ParquetBloomError(f"asked_fpp must lie between 0 and 1, got {asked_fpp}")
        facts = plan_document.read_details(self, check, progress)
        return report_page.write_page(plan_document.make_report(self, facts, asked_fpp), output, filesystem)

    def _repr_html_(self) -> str:
        """Render a smaller picture for notebooks, without reading files again."""
        return notebook_view.render_snippet(self)


def _describe_decoded(decoded: Decoded) -> str:
    """Return how rows were read: `pages: 12 row groups, 31 rows`."""
    why = f" ({printable(decoded.reason)})" if decoded.reason else ""
    return f"{decoded.decoder}: {count(decoded.row_groups, 'row group')}, {count(decoded.rows, 'row')}{why}"


def _describe_file(file: FilePlan) -> str:
    if file.unopened:
        return f"not opened: {printable(file.unopened)}"
    return f"{count_of(len(file.selected), len(file.row_groups), 'row group')} read"


def _describe_runs(plans: tuple[RowGroupPlan, ...]) -> Iterator[str]:
    """Yield a line for each run of row groups with equal plans, and one for each of its doubts."""
    for key, run in groupby(plans, lambda plan: (plan.read, plan.rows is None, plan.by, plan.reason, plan.doubts)):
        read, all_rows, by, reason, doubts = key
        members = list(run)
        first, last = members[0].row_group, members[-1].row_group
        numbers = f"{first}" if first == last else f"{first}-{last}"
        rows = sum(member.num_rows for member in members)
        if read and not all_rows:
            yield f"{numbers}: read, {count_of(sum(member.num_left for member in members), rows, 'row')} by zones"
        elif read:
            yield f"{numbers}: read, {count(rows, 'row')}"
        else:
            yield f"{numbers}: skipped by {printable('+'.join(sorted(by)))}: {printable(reason)}"
        for doubt in doubts:
            yield f"    doubtful: {printable(doubt)}"
