"""The common part of `embed` and `drop`: rewrite each file in place or elsewhere, or plan that; rows and totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import ParquetBloomError
from ..file.many_files import Progress, process_files
from ..file.write.file_rewrite import RewriteReport
from ..util.messages import count
from .options.path_options import MatchedPaths, create_parent_folder, find_files, plan_outputs
from .output.output import Output
from .output.row_formats import Column

R = TypeVar("R")


@contextmanager
def run_over_files(
    output: Output, what: str, files: Sequence[MatchedPaths], work: Callable[[MatchedPaths, Progress], R], jobs: int
) -> Iterator[Iterator[R]]:
    """Yield an iterator over the results of `work` for each file; files that fail are reported and skipped.

    Parameters
    ----------
    output : shows the progress bar, adds up the time of step `what`, and takes the errors.
    work, jobs : as in `process_files`, which also says what happens when the `with` statement is left early.
    """
    one_by_one = jobs == 1 or len(files) < 2

    def one(file: MatchedPaths, progress: Progress) -> R:
        with output.step(what) if one_by_one else nullcontext():
            return work(file, progress)

    def results(outcomes: Iterator[R | ParquetBloomError]) -> Iterator[R]:
        for outcome in outcomes:
            if isinstance(outcome, ParquetBloomError):
                output.fail(outcome)
            else:
                yield outcome

    with (
        output.progress(len(files)) as bar,
        nullcontext() if one_by_one else output.step(what),
        process_files(files, one, jobs, bar.make_file_updater) as outcomes,
    ):
        yield results(outcomes)


FILE_COLUMNS = (
    Column("file", "file", folds=True),
    Column("output", "output", folds=True, usual=lambda row: row["output"] == row["file"]),
)


@dataclass(frozen=True)
class RewriteCommand:
    """A command that rewrites files, and how it reports that.

    Attributes
    ----------
    name, done : name of the command, and its past participle.
    bytes : key of the number of bytes by which a file grows or shrinks.
    grows : whether files grow.
    columns : columns of a dry run, which has a row per filter, after the file and its output.
    make_row : makes such a row from a filter of a report.
    way_out : what the error of a table's folder says besides.
    """

    name: str
    done: str
    bytes: str
    grows: bool
    columns: tuple[Column, ...]
    make_row: Callable[[Any], Mapping[str, Any]]
    way_out: str = ""

    def run(
        self,
        output: Output,
        paths: tuple[str, ...],
        target: str | None,
        dry_run: bool,
        jobs: int,
        work: Callable[[str, str | None, Progress], RewriteReport],
    ) -> int:
        """Call `work` with the path, output path and progress function of each file; return the exit code."""
        files = find_files(paths, output, way_out=self.way_out)
        targets = plan_outputs(files, paths, target) if target is not None else {}
        totals: Counter[str] = Counter(dict.fromkeys(("files", "changed", "filters", "kept", self.bytes), 0))
        totals["dead_bytes"] = 0

        def one(file: MatchedPaths, progress: Progress) -> RewriteReport:
            file_target = targets.get(file.path)
            if file_target is not None and not dry_run:
                create_parent_folder(file_target)
            return work(file.path, file_target, progress)

        name, columns = ("filters", (*FILE_COLUMNS, *self.columns)) if dry_run else ("files", self._file_columns)
        with output.rows(name, columns) as rows:
            rows.facts |= {"dry_run": dry_run, "totals": totals}
            with run_over_files(output, self.name, files, one, jobs) as reports:
                for report in reports:
                    row = self._row(report)
                    totals["files"] += 1
                    totals.update({key: row[key] for key in totals.keys() - {"files"}})
                    for each in self._plan_rows(report) if dry_run else [row]:
                        rows.add(each)
                    output.detail(f"{report} ({report.seconds:.3f} s)")
        output.summary(self._summary(totals, dry_run))
        return output.exit_code()

    @property
    def _file_columns(self) -> tuple[Column, ...]:
        return (
            *FILE_COLUMNS,
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

    def _plan_rows(self, report: Any) -> Iterable[Mapping[str, Any]]:
        for each in report.filters:
            yield {"file": report.path, "output": report.output, **self.make_row(each)}

    def _summary(self, totals: Mapping[str, int], dry_run: bool) -> str:
        head = f"would {self.name}" if dry_run else self.done
        growth = totals[self.bytes] if self.grows else -totals[self.bytes]
        text = f"{head} {count(totals['filters'], 'filter')} in {count(totals['files'], 'file')}, {growth:+,} bytes"
        if totals["kept"]:
            text += f", {count(totals['kept'], 'filter')} kept"
        if totals["dead_bytes"]:
            text += f", {count(totals['dead_bytes'], 'dead byte')}"
        return text
