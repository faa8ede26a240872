"""What `embed` and `drop` share: files found, each written in place or elsewhere, or planned; their rows and totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...file.write.rewrite import RewriteReport
from ..options.paths import MatchedPaths, find_files, make_folder_of, place_outputs
from ..output.output import Output
from ..output.table import Column, counted
from .parallel import Progress, working

PLACE = (
    Column("file", "file", folds=True),
    Column("output", "output", folds=True, usual=lambda row: row["output"] == row["file"]),
)


@dataclass(frozen=True)
class Rewriting:
    """How a command says what it does to filters.

    Attributes
    ----------
    name, done : the command, and its past participle.
    bytes : key of the bytes by which a file grows, or shrinks.
    grows : which of the two.
    columns : of the rows of a dry run, a filter each, behind the file and its output.
    row_of : such a row, of a filter in a report.
    """

    name: str
    done: str
    bytes: str
    grows: bool
    columns: tuple[Column, ...]
    row_of: Callable[[Any], Mapping[str, Any]]

    def run(
        self,
        output: Output,
        paths: tuple[str, ...],
        target: str | None,
        dry_run: bool,
        jobs: int,
        work: Callable[[str, str | None, Progress], RewriteReport],
    ) -> int:
        """Do `work` to each file, given its path, its output's and how to tell how far it is; returns the exit code."""
        files = find_files(paths, output)
        places = place_outputs(files, paths, target) if target is not None else {}
        totals: Counter[str] = Counter(dict.fromkeys(("files", "changed", "filters", "kept", self.bytes), 0))
        totals["dead_bytes"] = 0

        def one(file: MatchedPaths, progress: Progress) -> RewriteReport:
            place = places.get(file.path)
            if place is not None and not dry_run:
                make_folder_of(place)
            return work(file.path, place, progress)

        rows_are = ("filters", (*PLACE, *self.columns)) if dry_run else ("files", self._files)
        with output.rows(*rows_are) as rows:
            rows.facts |= {"dry_run": dry_run, "totals": totals}
            with working(output, self.name, files, one, jobs) as reports:
                for report in reports:
                    row = self._row(report)
                    totals["files"] += 1
                    totals.update({key: row[key] for key in totals.keys() - {"files"}})
                    for each in self._planned(report) if dry_run else [row]:
                        rows.add(each)
                    output.detail(f"{report} ({report.seconds:.3f} s)")
        output.summary(self._summary(totals, dry_run))
        return output.exit_code()

    @property
    def _files(self) -> tuple[Column, ...]:
        return (
            *PLACE,
            Column("filters", "filters", right=True),
            Column("kept", "kept", right=True, usual=lambda row: row["kept"] == 0),
            Column(self.bytes, self.bytes.replace("_", " "), right=True),
            Column("dead_bytes", "dead bytes", right=True, usual=lambda row: row["dead_bytes"] == 0),
            Column("new_size", "new size", right=True),
            Column("changed", "written"),
            Column("seconds", "seconds", right=True, text=lambda value: f"{value:.3f}"),
        )

    def _row(self, report: RewriteReport) -> dict[str, Any]:
        growth = report.new_size - report.old_size
        return {
            "file": report.path,
            "output": report.output,
            "filters": report.num_filters,
            "kept": report.kept,
            self.bytes: growth if self.grows else -growth,
            "dead_bytes": report.dead_bytes,
            "new_size": report.new_size,
            "changed": report.changed,
            "seconds": round(report.seconds, 6),
        }

    def _planned(self, report: Any) -> Iterable[Mapping[str, Any]]:
        for each in report.filters:
            yield {"file": report.path, "output": report.output, **self.row_of(each)}

    def _summary(self, totals: Mapping[str, int], dry_run: bool) -> str:
        head = f"would {self.name}" if dry_run else self.done
        growth = totals[self.bytes] if self.grows else -totals[self.bytes]
        text = f"{head} {counted(totals['filters'], 'filter')} in {counted(totals['files'], 'file')}, {growth:+,} bytes"
        if totals["kept"]:
            text += f", {counted(totals['kept'], 'filter')} kept"
        if totals["dead_bytes"]:
            text += f", {counted(totals['dead_bytes'], 'dead byte')}"
        return text
