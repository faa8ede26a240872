"""The plan as callers get it: explained as text or as a page, and handed to other engines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import groupby
from typing import Any

import pyarrow as pa

from ..errors import ParquetBloomError, printable
from ..storage import create
from ..util.wording import count_of, truncate_list
from .model.decision import FilePlan, RowGroupPlan, ScanPlan
from .model.wording import summarize


class PruneReport(ScanPlan):
    """A plan that explains itself: as text, as a page, and as a dataset for other engines."""

    @classmethod
    def of(cls, plan: ScanPlan) -> PruneReport:
        """Wrap a plan."""
        return cls(**{each.name: getattr(plan, each.name) for each in fields(plan)})

    def to_dataset(self, schema: pa.Schema | None = None) -> Any:
        """The surviving row groups as a dataset, for DuckDB, polars, DataFusion and whoever else reads one.

        The predicate is not applied: the dataset holds every row of these row groups, and the engine filters them. A
        file that was replaced after it was judged is in it whole, all of its row groups, and so is an ORC file of which
        any row group is read: pyarrow has no fragments of parts of them. The files are read when the dataset is; one
        that is rewritten after the dataset was made has other row groups.

        Parameters
        ----------
        schema : of the dataset; None takes the one that all files of the report fit into, skipped ones too.

        Returns
        -------
        pyarrow.dataset.Dataset
            A fragment a file, in the report's order. Types differ between files as far as pyarrow's datasets allow.
            Partition columns stand behind the files' own. Of Parquet and ORC files together it is a union of datasets.

        Raises
        ------
        UnreadableColumnError
            The files' columns fit into no one schema.
        """
        # Not at the top: it opens files, and what opens files knows reports.
        from .engines.dataset import dataset

        return dataset(self.files, self.filesystem, schema, self.partitions)

    def explain(self, max_files: int = 20, max_lines: int = 20) -> str:
        """Tell for each row group whether it is read, what ruled it out, and what was doubtful.

        Parameters
        ----------
        max_files : so many files at most, those that are read first.
        max_lines : so many lines a file at most; neighbours that share their fate share a line.
        """
        lines = [printable(self.where), str(self), *self._causes()]
        shown = self.notable(max_files)
        for file in shown:
            lines += ["", f"{printable(file.path)}: {_told(file)}"]
            runs = list(_runs(file.row_groups))
            lines += [f"  {line}" for line in runs[:max_lines]]
            if len(runs) > max_lines:
                lines.append(f"  ... {len(runs) - max_lines:,} more lines")
        if len(shown) < len(self.files):
            rest = len(self.files) - len(shown)
            still = self.selected_files - sum(bool(file.selected) for file in shown)
            lines += ["", f"... {rest:,} more {'file' if rest == 1 else 'files'}, {still:,} of them read"]
        return "\n".join(lines)

    def _causes(self) -> Iterator[str]:
        if self.skipped_by:
            causes = sorted(self.skipped_by.items(), key=lambda item: (-item[1], item[0]))
            yield "skipped by " + ", ".join(f"{printable(cause)}: {count:,}" for cause, count in causes)
        if self.doubts:
            yield f"doubtful: {count_of(len({doubt[:2] for doubt in self.doubts}), self.total_row_groups, 'row group')}"
        yield from (f"the index is doubtful: {printable(doubt)}" for doubt in self.index_doubts)
        yield from (f"zones are not used: {printable(doubt)}" for doubt in truncate_list(self.zone_doubts))

    def __str__(self) -> str:
        return summarize(self)

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        check: bool = False,
        asked_fpp: float | None = None,
        filesystem: Any = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> str:
        """Draw the report as a page that stands alone: a heat map of files and row groups, and how the filters do.

        The footers are looked at again, and of the filters as many are read as it takes to tell what
        false-positive probability they have, 64 MiB at most.

        Parameters
        ----------
        path : where to write the page, replacing what stands there; None to write nothing.
        check : also read the predicate's columns in the selected row groups, and tell in which of them rows match.
        asked_fpp : the false-positive probability that the filters were asked to have, to compare with.
        filesystem : of `path`; None for local paths and URLs.
        progress : called after each file with (done, in all).

        Returns
        -------
        The page, which loads nothing from anywhere. Its size is bounded: of many files or row groups several share a
        row or a cell.

        Raises
        ------
        ParquetBloomError
            The report is not one of `prune`, or the page cannot be written. Files that cannot be read any more are no
            error: the page says so.
        """
        # Not at the top: few callers need it.
        from .html.details import look
        from .html.page import page

        if self.asked is None:
            raise ParquetBloomError("a report that prune did not make cannot be followed up")
        if asked_fpp is not None and not 0 < asked_fpp < 1:
            raise ParquetBloomError(f"asked_fpp must lie between 0 and 1, not {asked_fpp}")
        text = page(self, look(self, check, progress), asked_fpp)
        if path is not None:
            with create(path, filesystem) as new:
                new.write(text.encode())
                new.commit()
        return text

    def _repr_html_(self) -> str:
        """For notebooks: the same heat map, smaller, of what is known without looking at a file again."""
        from .html.notebook import snippet

        return snippet(self)


def _told(file: FilePlan) -> str:
    if file.unopened:
        return f"not opened: {printable(file.unopened)}"
    return f"{count_of(len(file.selected), len(file.row_groups), 'row group')} read"


def _runs(decisions: tuple[RowGroupPlan, ...]) -> Iterator[str]:
    """One line for each run of row groups of the same fate, and one for each of its doubts."""
    for (*fate, doubts), run in groupby(decisions, lambda d: (d.read, d.rows is None, d.by, d.reason, d.doubts)):
        read, whole, by, reason = fate
        members = list(run)
        first, last = members[0].row_group, members[-1].row_group
        numbers = f"{first}" if first == last else f"{first}-{last}"
        rows = sum(member.num_rows for member in members)
        if read and not whole:
            yield f"{numbers}: read, {count_of(sum(member.num_left for member in members), rows, 'row')} by zones"
        elif read:
            yield f"{numbers}: read, {rows:,} row{'' if rows == 1 else 's'}"
        else:
            yield f"{numbers}: skipped by {printable('+'.join(sorted(by)))}: {printable(reason)}"
        for doubt in doubts:
            yield f"    doubtful: {printable(doubt)}"
