"""The common part of `embed` and `drop`: rewrite each file in place or elsewhere, or plan that; rows and totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

from ..errors import ParquetBloomError
from ..file.many_files import Progress, process_files
from ..util.messages import count
from .options.path_options import MatchedPaths, create_parent_folder, find_files, plan_outputs
from .options.shared_options import RewriteTarget
from .output.output import Output
from .output.row_formats import Column

if TYPE_CHECKING:
    from ..file.drop_filters import DropReport
    from ..file.embed_filters import EmbedReport

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
    Column("file", "file"),
    Column("output", "output", usual=lambda row: row["output"] == row["file"]),
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
    way_out : what the error of a table's folder says besides.
    """

    name: str
    done: str
    bytes: str
    grows: bool
    columns: tuple[Column, ...]
    way_out: str = ""

    def run(
        self,
        output: Output,
        paths: tuple[str, ...],
        target: RewriteTarget,
        jobs: int,
        work: Callable[[str, str | None, Progress], EmbedReport | DropReport],
    ) -> int:
        """Call `work` with the path, output path and progress function of each file; return the exit code."""
        files = find_files(paths, output, way_out=self.way_out)
        targets = plan_outputs(files, paths, target.target) if target.target is not None else {}
        dry_run = target.dry_run
        totals: Counter[str] = Counter(dict.fromkeys(("files", "changed", "filters", "kept", self.bytes), 0))
        totals["dead_bytes"] = 0

        def one(file: MatchedPaths, progress: Progress) -> EmbedReport | DropReport:
            file_target = targets.get(file.path)
            if file_target is not None and not dry_run:
                create_parent_folder(file_target)
            return work(file.path, file_target, progress)

        name, columns = ("filters", (*FILE_COLUMNS, *self.columns)) if dry_run else ("files", self._file_columns)
        with output.rows(name, columns) as rows:
            rows.facts |= {"dry_run": dry_run, "totals": totals}
            with run_over_files(output, self.name, files, one, jobs) as reports:
                for report in reports:
                    row = report.to_dict() | {self.bytes: getattr(report, self.bytes)}
                    totals["files"] += 1
                    totals.update({key: row[key] for key in totals.keys() - {"files"}})
                    rows.add_all((row | asdict(each) for each in report.filters) if dry_run else [row])
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

    def _summary(self, totals: Mapping[str, int], dry_run: bool) -> str:
        head = f"would {self.name}" if dry_run else self.done
        growth = totals[self.bytes] if self.grows else -totals[self.bytes]
        text = f"{head} {count(totals['filters'], 'filter')} in {count(totals['files'], 'file')}, {growth:+,} bytes"
        if totals["kept"]:
            text += f", {count(totals['kept'], 'filter')} kept"
        if totals["dead_bytes"]:
            text += f", {count(totals['dead_bytes'], 'dead byte')}"
        return text
