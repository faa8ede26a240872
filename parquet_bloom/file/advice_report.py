"""`AdviceReport`: the columns of a lake that deserve filters, and why."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from ..errors import LONGEST_PROBLEM, ParquetBloomError, UnknownColumnError, printable, shortened
from ..page.cell_states import FILTER, RANGE, READ, STATES, UNKNOWN, CellState
from ..page.report_page import CellMap, Report, ReportTable, describe_states, shorten, write_page
from ..redaction import shown_redacted
from ..util.messages import count, count_of, format_bytes
from .file_columns import find_stored_path
from .file_survey import FileSurvey, spread, survey
from .filter_builder import FilterOptions
from .tabular_report import Kind, TabularReport
from .verdict import ENGINES, MAYBE, NO, YES, Advice, ColumnAdvice

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem

SAMPLE = 8
"""Row groups that are read by default, of all files together."""

SAMPLE_BYTES = 64 << 20
"""Bytes that are read at most of columns which metadata leaves in doubt."""

_FEWEST = 2  # row groups of a sample: values are compared

DICTIONARIES = 8
"""Number of files whose dictionary headers are read if no values are."""

_LEAST_STRIDE = 1000  # the smallest that ORC's Java library accepts

_SHOWN = 3  # unreadable files that a report lists
_LONGEST_PATHS = 10_000  # characters of all paths on a page


@shown_redacted
@dataclass(frozen=True)
class AdviceReport(TabularReport):
    """The result of `advise`; `print` it.

    Attributes
    ----------
    paths : the paths given to `advise`.
    files, row_groups, rows, num_bytes : totals over all files that could be read.
    sampled : number of files of which values were read.
    fpp : false-positive probability assumed for filters.
    columns : the advice on each column.
    failures : (path, error) of files that could not be read.
    orc_files : number of ORC files: filters cannot be embedded into these, only their writers can make them.
    orc_stride : rows per row group in most of the ORC files.
    unread : columns in doubt that were not read by themselves, as they are large.
    table : of a table's files the arguments by which the command line names it, empty if it is not known by which; None
        for other files.

    As a table it has a row for each column.
    """

    paths: tuple[str, ...]
    files: int
    row_groups: int
    rows: int
    num_bytes: int
    sampled: int
    fpp: float
    columns: tuple[ColumnAdvice, ...]
    failures: tuple[tuple[str, str], ...] = ()
    orc_files: int = 0
    orc_stride: int = 0
    table: tuple[str, ...] | None = None
    unread: tuple[str, ...] = ()

    _columns: ClassVar[Mapping[str, Kind]] = {
        "column": "text",
        "type": "text",
        "verdict": "text",
        "reason": "text",
        "engines": "texts",
        "row_groups": "int",
        "filtered": "int",
        "num_values": "int",
        "num_bytes": "int",
        "distinct": "float",
        "in_range": "float",
        "holding": "float",
        "skipped_present": "float",
        "skipped_absent": "float",
        "filter_fpp": "float",
    }

    def __getitem__(self, column: str) -> ColumnAdvice:
        """Return the advice on a column, given its dotted path, or a path of a Variant, such as `v:a.b`."""
        for advice in self.columns:
            if advice.column == column:
                return advice
        stored = find_stored_path([advice.column for advice in self.columns], column)
        if stored is not None:
            return self[stored]
        raise UnknownColumnError("no such column in any file", column=column)

    def worth(self, *verdicts: str) -> list[str]:
        """Return the columns that have one of these verdicts, by default "yes"."""
        return [advice.column for advice in self.columns if advice.verdict in (verdicts or (YES,))]

    def _make_rows(self) -> Iterator[tuple[object, ...]]:
        return map(attrgetter(*self._columns), self.columns)

    def to_dict(self) -> dict[str, object]:
        """Return the figures, and the commands to run next, as JSON can hold them."""
        totals = {"files": self.files, "row_groups": self.row_groups, "rows": self.rows}
        return {
            "fpp": self.fpp,
            "totals": totals | {"num_bytes": self.num_bytes, "sampled_files": self.sampled},
            "embed_command": self.command,
            "sample_command": self.open_question,
            "orc_options": self.orc_options,
        }

    @property
    def command(self) -> str | None:
        """The command that embeds filters of the columns of "yes"; None if there are none, or only ORC files."""
        chosen = self.worth()
        if not chosen or self.orc_files == self.files or self.table == ():
            return None
        # A name that itself looks like NAME=FPP needs an explicit FPP.
        names = (f"{name}={self.fpp}" if "=" in name else name for name in chosen)
        columns = (f"--column {shlex.quote(name)}" for name in names)
        fpp = () if self.fpp == FilterOptions.fpp else (f"--fpp {self.fpp}",)
        target = "--in-place" if self.table is None else "--commit"
        return " ".join(["parquet-bloom embed", *self._arguments, *columns, *fpp, target])

    @property
    def open_question(self) -> str | None:
        """The command that samples the columns which metadata alone cannot decide; None if there are none."""
        undecided = [advice.column for advice in self.columns if advice.verdict == MAYBE and advice.holding is None]
        if self.sampled > 1:
            undecided = [name for name in undecided if name in self.unread]
        if not undecided or self.table == ():
            return None
        columns = (f"--column {shlex.quote(name)}" for name in undecided)
        fpp = () if self.fpp == FilterOptions.fpp else (f"--fpp {self.fpp}",)
        return " ".join(["parquet-bloom advise", *self._arguments, *columns, *fpp, f"--sample {SAMPLE}"])

    @property
    def _arguments(self) -> list[str]:
        """The files as arguments of a command."""
        return [shlex.quote(argument) for argument in self.table or self.paths]

    @property
    def call(self) -> str | None:
        """The Python call that does the same, on Spark unless it is a table; None if there is nothing to embed."""
        chosen = self.worth()
        if not chosen or self.orc_files == self.files:
            return None
        paths: str | list[str] = self.paths[0] if len(self.paths) == 1 else list(self.paths)
        fpp = "" if self.fpp == FilterOptions.fpp else f", fpp={self.fpp}"
        if self.table is not None:
            return f"parquet_bloom.embed_table(table, {chosen!r}{fpp})"
        return f"parquet_bloom.spark.embed(spark, {paths!r}, {chosen!r}{fpp})"

    @property
    def orc_options(self) -> dict[str, str] | None:
        """The options to rewrite ORC files with, for Spark and other users of ORC's Java library; None if not worth it.

        They include columns that already have filters: rewriting a file loses all filters that are not requested.
        """
        columns = self._orc_columns()
        if not columns:
            return None
        return {
            "orc.bloom.filter.columns": ",".join(advice.column for advice in columns),
            "orc.bloom.filter.fpp": _round_down(min(advice.row_group_fpp for advice in columns)),
            "orc.row.index.stride": str(max(_LEAST_STRIDE, self.orc_stride)),
        }

    @property
    def orc_calls(self) -> tuple[str, ...]:
        """Calls that rewrite ORC files with the advised filters, on Spark and by pyarrow; empty if not worth it."""
        options = self.orc_options
        if options is None:
            return ()
        columns, fpp, stride = options.values()
        given = f".option('orc.bloom.filter.fpp', {fpp}).option('orc.row.index.stride', {stride})"
        numbers = [advice.number for advice in self._orc_columns()]
        return (
            f"frame.write.option('orc.bloom.filter.columns', {columns!r}){given}.orc(path)",
            f"pyarrow.orc.write_table(table, path, bloom_filter_columns={numbers}, bloom_filter_fpp={fpp}, "
            f"row_index_stride={self.orc_stride})",
        )

    def to_html(self, output: str | os.PathLike[str] | None = None, *, filesystem: FileSystem | None = None) -> str:
        """Render the advice as a self-contained page: what a lookup reads of each column, and the commands to run next.

        Parameters
        ----------
        output : file to write the page to, replacing an existing one; None to write nothing.
        filesystem : of `output`; None for local paths and URLs.

        Raises
        ------
        ParquetBloomError
            The page cannot be written.
        """
        columns = sorted(self.columns, key=lambda advice: (YES, MAYBE, NO).index(advice.verdict))
        commands = {
            "To embed what is advised": self.command,
            "To know more": self.open_question,
        } | dict(zip(("To write ORC files with what is advised, on Spark", "By pyarrow"), self.orc_calls, strict=False))
        failures = [shorten(error) for _, error in self.failures[:_SHOWN]]
        failures += [f"{len(self.failures) - _SHOWN:,} more"] if len(self.failures) > _SHOWN else []
        report: Report = {
            "title": "Columns that deserve filters",
            "where": shorten(" ".join(self.paths), _LONGEST_PATHS),
            "facts": [
                ("columns worth a filter", f"{len(self.worth()):,}", f"of {len(columns):,}"),
                ("files", f"{self.files:,}", f"values of {self.sampled:,} read"),
                ("row groups", f"{self.row_groups:,}", f"{self.rows:,} rows"),
                ("bytes", format_bytes(self.num_bytes), ""),
            ],
            "map": make_column_map(columns) if columns else None,
            "notes": [f"Cannot be read: {'; '.join(failures)}."] if failures else [],
            "commands": [(purpose, printable(command)) for purpose, command in commands.items() if command],
            "tables": [make_column_table(columns, self.fpp, self.num_bytes)],
        }
        return write_page(report, output, filesystem)

    def _orc_columns(self) -> list[ColumnAdvice]:
        """Return the columns that rewritten ORC files should have filters of; none if rewriting is not worth it."""
        columns = [advice for advice in self.columns if advice.number is not None]
        if not any(advice.verdict == YES or advice.weak for advice in columns):
            return []
        return [advice for advice in columns if advice.verdict == YES or (advice.filtered and not advice.barred)]

    def __str__(self) -> str:
        """Format a table of the columns, followed by the command that embeds the advised filters."""
        lines = [
            f"{count(self.files, 'file')}, {count(self.row_groups, 'row group')}, {count(self.rows, 'row')}, "
            f"{count(self.num_bytes, 'byte')}; values of {count(self.sampled, 'file')} were read"
        ]
        lines += [f"cannot be read: {printable(error)}" for _, error in self.failures[:_SHOWN]]
        more = len(self.failures) - _SHOWN
        lines += [f"... and {more:,} more"] if more > 0 else []
        titles = ("verdict", "column", "type", "distinct", "ranges leave", "filters", "skips", "asked by", "why")
        rows = [titles, *(_cells(advice, self.fpp, self.num_bytes) for advice in self.columns)]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        for row in rows:
            padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  ".join(padded).rstrip())
        lines += [
            f"filters: of fpp {self.fpp}, as a share of the files' bytes; skips: row groups, for a value that occurs"
        ]
        if self.command:
            lines += [printable(text) for text in (self.command, self.call) if text]
        lines += map(printable, self.orc_calls)
        return "\n".join(lines)


def _round_down(fpp: float) -> str:
    """Format a probability, rounded down to two digits."""
    exact = Decimal(repr(fpp))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 1), 'ROUND_DOWN')):g}"


def _cells(advice: ColumnAdvice, fpp: float, num_bytes: int) -> tuple[str, ...]:
    def percent(value: float | None) -> str:
        return "?" if value is None else f"{value:.1%}"

    size = advice.share(fpp, num_bytes)
    upto = "<=" if size is not None and advice.distinct is None else ""
    return (
        advice.verdict,
        printable(shortened(advice.column)),
        advice.type,
        percent(advice.distinct),
        percent(advice.in_range),
        upto + percent(size),
        percent(advice.skipped_present),
        ", ".join(advice.engines) or "-",
        printable(shortened(advice.reason, LONGEST_PROBLEM)),
    )


@dataclass(frozen=True)
class SurveyTask:
    """The survey of a file as a function of its path; can be pickled.

    Attributes
    ----------
    columns : dotted paths; None for all.
    per_file : {path: number of row groups to read}; 0 reads only the headers of dictionaries. Only the footers of all
        other files are read.
    look : called with a path and the other arguments of `survey`.
    """

    columns: frozenset[str] | None
    per_file: Mapping[str, int]
    filesystem: FileSystem | None = None
    storage_options: Mapping[str, object] | None = field(default=None, repr=False)
    look: Callable[..., FileSurvey] = survey

    def __call__(self, path: str) -> FileSurvey:
        return self.look(path, self.per_file.get(path), self.columns, self.filesystem, self.storage_options)


def make_survey_task(
    files: Sequence[str],
    columns: Iterable[str] | None,
    sample: int,
    fpp: float,
    *,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    look: Callable[..., FileSurvey] = survey,
) -> tuple[SurveyTask, FilterOptions]:
    """Check the parameters and make the task for surveying files; row groups to read are spread evenly over them.

    For the other parameters see `SurveyTask`.

    Raises
    ------
    ParquetBloomError
        A parameter is invalid.
    """
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 0:
        raise ParquetBloomError(f"sample must be a number of row groups from 0 on, not {sample!r}")
    per_file = _spread_sample(files, sample)
    if isinstance(columns, str):
        columns = [columns]
    names = None if columns is None else frozenset(columns)
    return SurveyTask(names, per_file, filesystem, storage_options, look), FilterOptions(fpp)


def _spread_sample(files: Sequence[str], sample: int) -> dict[str, int]:
    """Return the number of row groups to read, or 0 for the headers of dictionaries, of evenly spread files."""
    # Two row groups are read of some files, as these may have more in common than those of two files.
    chosen = spread(list(range(len(files))), sample - sample // 4 or DICTIONARIES)
    each, more = divmod(sample, max(1, len(chosen)))
    if len(chosen) == len(files):
        more = len(files) if more else 0  # if there are few files, the same number of each
    return {files[number]: each + (i < more) for i, number in enumerate(chosen)}


class LakeSurvey:
    """The surveys of a lake's files, which `make_report` makes the report of.

    Parameters
    ----------
    task : which the files are surveyed by.

    Raises
    ------
    UnknownColumnError
        In `make_report`: no file has one of the requested columns.
    """

    def __init__(self, task: SurveyTask) -> None:
        self._task = task
        self._advice = Advice()
        self._files: list[str] = []
        self._failures: list[tuple[str, str]] = []
        self._sampled = sum(1 for count in task.per_file.values() if count)
        self._unread: list[str] = []

    def add(self, results: Iterable[tuple[str, FileSurvey | None, str | None]]) -> None:
        """Add (path, survey, error) of each file."""
        for path, file_survey, error in results:
            if file_survey is None:
                self._failures.append((path, error or ""))
            else:
                self._advice.add(file_survey)
                self._files.append(path)

    def plan_sample(self, fpp: float) -> SurveyTask | None:
        """Return the task that reads a sample of the columns which metadata leaves in doubt; None if there are none.

        It reads `SAMPLE_BYTES` at most: fewer row groups, and where two are too many, none of the largest columns.
        """
        doubtful = [one.column for one in self._advice.columns(fpp) if one.verdict == MAYBE and one.holding is None]
        doubtful.sort(key=self._advice.bound_bytes)
        while doubtful:
            each = sum(map(self._advice.bound_bytes, doubtful))
            number = min(SAMPLE, SAMPLE_BYTES // max(each, 1))
            if number >= _FEWEST:
                per_file = _spread_sample(self._files, number)
                self._sampled = len(per_file)
                return replace(self._task, columns=frozenset(doubtful), per_file=per_file)
            self._unread.append(doubtful.pop())
        return None

    def add_samples(self, results: Iterable[tuple[str, FileSurvey | None, str | None]]) -> None:
        """Add (path, survey, error) of each file of the sample; a file that fails now was read before, and counts."""
        for _, file_survey, _ in results:
            if file_survey is not None:
                self._advice.add_samples(file_survey)

    def make_report(self, paths: Iterable[FilePath], fpp: float, table: Sequence[str] | None = None) -> AdviceReport:
        """Return the report; `table` is that of the report."""
        advice = self._advice
        columns = tuple(advice.columns(fpp))
        names = [column.column for column in columns]
        for name in sorted(self._task.columns or ()):
            if advice.files and not any(one == name or one.startswith(f"{name}.") for one in names):
                if find_stored_path(names, name) is not None:
                    continue
                column, _, path = name.partition(":")
                if column and path and not path.startswith(":"):
                    raise UnknownColumnError("no file stores such a path as a column of its own", column=name)
                raise UnknownColumnError("no such column in any file", column=name)
        return AdviceReport(
            paths=tuple(map(os.fsdecode, paths)),
            files=advice.files,
            row_groups=advice.row_groups,
            rows=advice.rows,
            num_bytes=advice.num_bytes,
            sampled=self._sampled,
            fpp=fpp,
            columns=columns,
            failures=tuple(self._failures),
            orc_files=advice.written,
            orc_stride=max(advice.strides, key=lambda one: (advice.strides[one], one), default=0),
            table=None if table is None else tuple(table),
            unread=tuple(self._unread),
        )


_CELLS = 40  # of each column
_MAX_COLUMNS = 200  # drawn; a canvas cannot be of any height, and the table has all


def make_column_map(columns: Sequence[ColumnAdvice]) -> CellMap:
    """Return the picture of columns: cells that stand for their row groups, divided by what becomes of these."""
    drawn = columns[:_MAX_COLUMNS]
    about = f"What a lookup of one value reads, with a filter. A cell is {100 / _CELLS:g} % of the row groups."
    if len(drawn) < len(columns):
        about += f" The first {count_of(len(drawn), len(columns), 'column')} are drawn."
    strips = [_divide(advice) for advice in drawn]
    counts = sum(strips, Counter[CellState]())
    states = [state for state in STATES if state in counts]
    kinds: list[tuple[int, str]] = []
    kind_of: list[int] = []
    for advice, strip in zip(drawn, strips, strict=True):
        for state in filter(strip.__contains__, states):
            kind_of += [len(kinds)] * strip[state]
            kinds.append((states.index(state), _describe(advice)))
    return {
        "heading": "Columns",
        "about": about,
        "group": "column",
        "cell": "cell",
        "is_share": True,
        "states": describe_states({state: counts[state] for state in states}),
        "kinds": kinds,
        "folders": [""],
        "ending": "",
        "groups": [(0, f"{shorten(advice.column)}: {advice.verdict}", _CELLS) for advice in drawn],
        "kind_of": kind_of,
        "rows": [],
        "bytes": [],
    }


def _divide(advice: ColumnAdvice) -> Counter[CellState]:
    """Divide a column's cells; what is read has one at least."""
    by_range = round((1 - advice.in_range) * _CELLS)
    if advice.skipped_present is None:
        rest = READ if advice.barred else UNKNOWN
        return Counter({rest: max(1, _CELLS - by_range), RANGE: min(by_range, _CELLS - 1)})
    read = max(1, round((1 - advice.skipped_present) * _CELLS))
    by_range = min(by_range, _CELLS - read)
    return Counter({READ: read, FILTER: _CELLS - read - by_range, RANGE: by_range})


def _describe(advice: ColumnAdvice) -> str:
    read = "unknown" if advice.skipped_present is None else _percent(1 - advice.skipped_present)
    lines = [
        f"a filter: {advice.verdict}; {shorten(advice.reason, 400)}",
        f"a lookup reads of the row groups: {read} with a filter, {_percent(advice.in_range)} by min and max alone",
    ]
    if advice.filtered:
        lines.append(f"{count_of(advice.filtered, advice.row_groups, 'row group')} have a filter")
    return "\n".join(lines)


def make_column_table(columns: Sequence[ColumnAdvice], fpp: float, num_bytes: int) -> ReportTable:
    """Return the figures of columns; filters are of that fpp, and their sizes shares of `num_bytes`."""
    heads = ["column", "filter?", "type", "distinct", "min and max leave", "a filter skips", "filters take", "of files"]
    rows = [
        [
            shorten(advice.column),
            advice.verdict,
            advice.type,
            _percent(advice.distinct),
            _percent(advice.in_range),
            _percent(advice.skipped_present),
            format_bytes(advice.sizes[fpp]) if fpp in advice.sizes else "",
            _percent(advice.share(fpp, num_bytes)),
            "all" if len(advice.engines) == len(ENGINES) else ", ".join(advice.engines),
            shorten(advice.reason, 400),
        ]
        for advice in columns
    ]
    about = f"Filters are of fpp {fpp:g}. “Skips” is the share of the row groups, for a value that occurs."
    numbers = [3, 4, 5, 6, 7]
    heads += ["asked by", "why"]
    return {"heading": "Figures", "about": about, "heads": heads, "rows": rows, "numbers": numbers, "curves": []}


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.1%}"
