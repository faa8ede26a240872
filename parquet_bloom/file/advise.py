"""Which columns of a lake deserve filters, and why."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import ParquetBloomError, UnknownColumnError, printable
from ..storage import file_system, list_files
from ..threads import in_order, processors
from .advice import MAYBE, YES, Advice, ColumnAdvice
from .options import FilterOptions
from .survey import FileSurvey, spread, survey

SAMPLE = 8
"""Row groups that are read by default, of all files together."""

DICTIONARIES = 8
"""Files whose dictionaries' headers are read where no values are."""

_SHOWN = 3  # broken files that a report names


@dataclass(frozen=True)
class AdviceReport:
    """What `advise` found; `print` it.

    Attributes
    ----------
    paths : what was asked about.
    files, row_groups, rows, num_bytes : of all files that could be read.
    sampled : number of files of which values were read.
    fpp : that filters are reckoned with.
    columns : what is advised of each column.
    failures : (path, error) of files that could not be read.
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

    def __getitem__(self, column: str) -> ColumnAdvice:
        """What is advised of a column, by its dotted path."""
        for advice in self.columns:
            if advice.column == column:
                return advice
        raise UnknownColumnError("no such column in any file", column=column)

    def worth(self, *verdicts: str) -> list[str]:
        """The columns whose verdict is one of these, by default those of "yes"."""
        return [advice.column for advice in self.columns if advice.verdict in (verdicts or (YES,))]

    @property
    def command(self) -> str | None:
        """The command that embeds what is advised, the columns of "yes"; None if there are none."""
        chosen = self.worth()
        if not chosen:
            return None
        # A name that ends like NAME=FPP needs one of its own behind it.
        names = (f"{name}={self.fpp}" if "=" in name else name for name in chosen)
        columns = (f"--column {shlex.quote(name)}" for name in names)
        fpp = () if self.fpp == FilterOptions.fpp else (f"--fpp {self.fpp}",)
        return " ".join(["parquet-bloom embed", *map(shlex.quote, self.paths), *columns, *fpp, "--in-place"])

    @property
    def open_question(self) -> str | None:
        """The command that samples the columns which metadata alone leave open; None if there are none."""
        left = [advice.column for advice in self.columns if advice.verdict == MAYBE and advice.holding is None]
        if self.sampled > 1 or not left:
            return None
        columns = (f"--column {shlex.quote(name)}" for name in left)
        fpp = () if self.fpp == FilterOptions.fpp else (f"--fpp {self.fpp}",)
        return " ".join(["parquet-bloom advise", *map(shlex.quote, self.paths), *columns, *fpp, f"--sample {SAMPLE}"])

    @property
    def call(self) -> str | None:
        """The same as a call in Python, on Spark; None if nothing is advised."""
        chosen = self.worth()
        if not chosen:
            return None
        paths: str | list[str] = self.paths[0] if len(self.paths) == 1 else list(self.paths)
        fpp = "" if self.fpp == FilterOptions.fpp else f", fpp={self.fpp}"
        return f"parquet_bloom.spark.embed(spark, {paths!r}, {chosen!r}{fpp})"

    def __str__(self) -> str:
        """A table of the columns, then how to embed what is advised."""
        lines = [
            f"{self.files:,} files, {self.row_groups:,} row groups, {self.rows:,} rows, {self.num_bytes:,} bytes; "
            f"values of {self.sampled:,} files were read"
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
        lines += [f"at fpp {self.fpp}; filters: share of the files' bytes; skips: row groups, for a value that occurs"]
        if self.command:
            lines += [printable(self.command), printable(str(self.call))]
        return "\n".join(lines)


def _cells(advice: ColumnAdvice, fpp: float, num_bytes: int) -> tuple[str, ...]:
    def percent(value: float | None) -> str:
        return "?" if value is None else f"{value:.1%}"

    size = advice.share(fpp, num_bytes)
    upto = "<=" if size is not None and advice.distinct is None else ""
    return (
        advice.verdict,
        printable(advice.column),
        advice.type,
        percent(advice.distinct),
        percent(advice.in_range),
        upto + percent(size),
        percent(advice.skipped_present),
        ", ".join(advice.engines) or "-",
        printable(advice.reason),
    )


@dataclass(frozen=True)
class Question:
    """What is asked of each file, apart from which; it can be pickled.

    Attributes
    ----------
    columns : dotted paths; None for all.
    per_file : {path: row groups to be read}, with 0 the headers of dictionaries alone; the other files give their
        footers alone.
    """

    columns: frozenset[str] | None
    per_file: Mapping[str, int]
    filesystem: Any = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, path: str) -> FileSurvey:
        return survey(path, self.per_file.get(path), self.columns, self.filesystem, self.storage_options)


def ask(
    files: Sequence[str], columns: Iterable[str] | None, sample: int, fpp: float, **storage: Any
) -> tuple[Question, FilterOptions]:
    """What is to be asked of files, checked: row groups to be read are spread over them evenly.

    Raises
    ------
    ParquetBloomError
        A parameter makes no sense.
    """
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 0:
        raise ParquetBloomError(f"sample must be a number of row groups from 0 on, not {sample!r}")
    # Of some files two row groups are read: these may have more in common than those of two files.
    chosen = spread(list(range(len(files))), sample - sample // 4 or DICTIONARIES)
    each, more = divmod(sample, max(1, len(chosen)))
    if len(chosen) == len(files):
        more = len(files) if more else 0  # of few files, the same of each
    per_file = {files[number]: each + (place < more) for place, number in enumerate(chosen)}
    if isinstance(columns, str):
        columns = [columns]
    names = None if columns is None else frozenset(columns)
    return Question(names, per_file, **storage), FilterOptions(fpp)


def conclude(
    paths: Iterable[Any],
    question: Question,
    fpp: float,
    found: Iterable[tuple[str, FileSurvey | None, str | None]],
) -> AdviceReport:
    """The report over (path, survey, error) of each file.

    Raises
    ------
    UnknownColumnError
        No file has one of the columns asked about.
    """
    advice, failures = Advice(), []
    for path, surveyed, error in found:
        if surveyed is None:
            failures.append((path, error or ""))
        else:
            advice.add(surveyed)
    columns = tuple(advice.columns(fpp))
    known = [column.column for column in columns]
    for name in sorted(question.columns or ()):
        if advice.files and not any(each == name or each.startswith(f"{name}.") for each in known):
            raise UnknownColumnError("no such column in any file", column=name)
    return AdviceReport(
        paths=tuple(map(os.fsdecode, paths)),
        files=advice.files,
        row_groups=advice.row_groups,
        rows=advice.rows,
        num_bytes=advice.num_bytes,
        sampled=sum(1 for count in question.per_file.values() if count),
        fpp=fpp,
        columns=columns,
        failures=tuple(failures),
    )


def advise(
    paths: Any,
    columns: Iterable[str] | None = None,
    *,
    sample: int = SAMPLE,
    fpp: float = 0.01,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    threads: int | None = None,
) -> AdviceReport:
    """Say which columns deserve filters, and why: for queries of the form `column = value`.

    Of every file the footer is read: types, encodings, min and max, filters that are there. Of some row groups, spread
    over all files, the values are read as well, which tells how many are distinct, and how many row groups have values
    in common. What follows are estimates; they say what a filter would skip beyond what min and max do.

    Parameters
    ----------
    paths : file, folder, pattern or URL, or several; as in `prune`.
    columns : dotted paths, a group standing for all columns in it; None for all columns.
    sample : number of row groups to be read; 0 for none: then dictionaries' headers in a few files tell how many values
        are distinct, min and max whether row groups are alike, and what that leaves open is said to be.
    fpp : false-positive probability that filters are reckoned with.
    filesystem, storage_options : as in `prune`.
    progress : called after each file with (done, in all).
    threads : files that are looked at at once; None for a few a processor.

    Returns
    -------
    AdviceReport
        A verdict a column with its reason and numbers; `str()` of it is a table, with the command to run. Files that
        cannot be read are named in it, and do not count.

    Raises
    ------
    StorageError, ManagedTableError
        There are no such files, or a table keeps books on them.
    UnknownColumnError
        No file has one of the columns.
    """
    alone = isinstance(paths, str | bytes | os.PathLike) or not isinstance(paths, Iterable)
    several = [paths] if alone else list(paths)
    places = file_system(filesystem, storage_options)
    files = list_files(several, places)
    question, options = ask(files, columns, sample, fpp, filesystem=places)
    found: list[tuple[str, FileSurvey | None, str | None]] = []
    with in_order(partial(_one, question), files, threads or 4 * processors()) as outcomes:
        for done, outcome in enumerate(outcomes, 1):
            found.append(outcome)
            if progress:
                progress(done, len(files))
    return conclude(several, question, options.fpp, found)


def _one(question: Question, path: str) -> tuple[str, FileSurvey | None, str | None]:
    try:
        return path, question(path), None
    except ParquetBloomError as error:
        return path, None, str(error)
