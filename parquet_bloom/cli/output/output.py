"""All printing of the command line: data on stdout, everything else on stderr, including the progress bar."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

from ...errors import (
    MalformedFooterError,
    NoFilesError,
    NotParquetError,
    ParquetBloomError,
    PredicateError,
    TruncatedFileError,
    UnknownColumnError,
    UnsupportedTypeError,
    printable,
)
from ...redaction import without_secrets
from ...util.messages import count
from .row_formats import Column, CsvRows, FactsAlone, JsonRows, PrintedRows, RowWriter, Write

if TYPE_CHECKING:
    from ...util.given_types import FileSystem
    from ...util.progress import Bar

GOOD, BAD, ERROR, NO_FILES = 0, 1, 2, 3
"""Exit codes; the help of a command says when it returns BAD, NO_FILES is for PATHs without files alone."""

BROKEN = (NotParquetError, TruncatedFileError, MalformedFooterError)
"""Errors of files that are not Parquet files, or not whole ones."""

_MISTAKES = (PredicateError, UnknownColumnError, UnsupportedTypeError)
"""Errors of what was asked: most likely all files have the same."""

_ISSUES = "please report it"


class CannotPrintError(Exception):
    """Standard output cannot be written, for another reason than that its reader has closed it."""


class Output:
    """The output of a command.

    Parameters
    ----------
    command : name of the command.
    format : "table", "json", "ndjson" or "csv".
    color : "auto", "always" or "never".
    verbose : whether to print more on stderr.
    quiet : whether to print nothing but errors and data that was asked for.
    totals : whether to print the totals alone, on stdout.
    filesystem : file system of the command's paths.
    storage_options : the options that the file system was created with.

    Attributes
    ----------
    failures : errors reported so far.
    skips_broken : whether files that are not whole Parquet files are skipped; their errors do not count.
    skipped : the errors of these files.
    """

    def __init__(
        self,
        command: str = "",
        format: str = "table",
        color: str = "auto",
        verbose: bool = False,
        quiet: bool = False,
        totals: bool = False,
        filesystem: FileSystem | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.command = command
        self.filesystem = filesystem
        self.storage_options = storage_options or None
        self.format = format
        self.verbose = verbose
        self.quiet = quiet
        self.totals = totals
        self.failures: list[ParquetBloomError] = []
        self.skips_broken = False
        self.skipped: list[ParquetBloomError] = []
        self._mistakes: dict[Hashable, list[ParquetBloomError]] = {}  # alike ones, which share a line
        self._color = color
        self._bar: Bar | None = None
        self._seconds: defaultdict[str, float] = defaultdict(float)

    # ------------------------------------------------------------------------------------------------ data

    @contextmanager
    def rows(
        self,
        name: str,
        columns: Sequence[Column],
        of_lake: bool = False,
        write: Write | None = None,
        format: str | None = None,
        asked_for: bool = False,
    ) -> Iterator[RowWriter]:
        """Open a writer of the command's rows, called `name`; they are printed as they come, a table at the end.

        When interrupted, a table shows the rows so far; a JSON document is left unterminated, as it is incomplete.

        Parameters
        ----------
        of_lake : whether they are records of the lake, as in `RowWriter`; a table of them is laid out in blocks.
        write, format : destination and format; None for standard output and the format of the command.
        asked_for : whether a table of them is printed even if the output is quiet, as one of records is.
        """
        rows = self._make_writer(name, columns, of_lake, write, format or self.format, asked_for)
        rows.begin()
        try:
            yield rows
        except (KeyboardInterrupt, SystemExit):
            if isinstance(rows, PrintedRows):
                rows.end()
            raise
        self.report_mistakes()
        if self.skips_broken:
            rows.facts["skipped"] = [*map(_describe_error, self.skipped)]
        rows.facts["errors"] = [*map(_describe_error, self.failures)]
        rows.end()

    def _make_writer(
        self, name: str, columns: Sequence[Column], of_lake: bool, write: Write | None, format: str, asked_for: bool
    ) -> RowWriter:
        if write is None and (self.totals or (self.quiet and format == "table" and not (of_lake or asked_for))):
            return FactsAlone(columns, write_utf8, of_lake, self.command if format == "json" else None)
        terminal = write is None and is_terminal(sys.stdout)
        if format == "table":
            write = self._write_table if terminal else write_text
            return PrintedRows(columns, write, of_lake, self._colored(sys.stdout))
        write = write or write_utf8
        if format == "csv":
            return CsvRows(columns, write, of_lake, escape=terminal)
        return JsonRows(columns, write, of_lake, (self.command, name) if format == "json" else None)

    def _write_table(self, text: str) -> None:
        """Print on the terminal, after removing the progress bar."""
        if self._bar is not None and text:
            self._bar.close()
        write_text(text)

    # ------------------------------------------------------------------------------------------------ all else

    def text(self, text: str) -> None:
        """Print text for people that belongs to the rows, on stdout."""
        if self.format == "table" and not (self.quiet or self.totals):
            write_text(text)

    def summary(self, text: str, in_any_format: bool = False) -> None:
        """Print the line of totals for people; the other formats hold the totals themselves."""
        text += f"; {count(len(self.skipped), 'file')} skipped" if self.skipped else ""
        if self.totals and self.format == "table":
            self._write_table(f"{printable(text)}\n")
        elif self.format == "table" or in_any_format:
            self.note(text)

    def remark(self, text: str) -> None:
        """Print a line for people on stderr that is no total; the other formats hold what it says."""
        if self.format == "table":
            self.note(text)

    def detail(self, text: str) -> None:
        """Print a line with `-v` only."""
        if self.verbose:
            self.note(text)

    def note(self, text: str) -> None:
        """Print one line on stderr, unless the output is quiet."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Print one line on stderr in any case."""
        self._say(printable(text))

    def error(self, problem: object) -> None:
        """Print `error: problem` on one line on stderr."""
        head = click.style("error:", fg="red", bold=True) if self._colored(sys.stderr) else "error:"
        self._say(f"{head} {printable(' '.join(str(problem).split()))}")

    def fail(self, error: ParquetBloomError) -> None:
        """Print an error and record it for the exit code; the command continues.

        An error of what was asked, such as a column that there is not, is printed later, once for all files.
        """
        if self.skips_broken and isinstance(error, BROKEN):
            self.skipped.append(error)
            self.note(f"skipped: {error}")
            return
        self.failures.append(error)
        if isinstance(error, _MISTAKES):
            what = error.problem.partition(";")[0]  # what follows, such as a list of columns, may differ
            self._mistakes.setdefault((type(error), error.column, what), []).append(error)
        else:
            self.error(error)

    def report_mistakes(self) -> None:
        """Print the errors of what was asked that `fail` was given since the last call, a line for those alike."""
        mistakes, self._mistakes = self._mistakes, {}
        for first, *others in mistakes.values():
            more = len({error.path for error in others} - {first.path})
            self.error(f"{first} (the same in {count(more, 'more file')})" if more else first)

    @contextmanager
    def collect_errors(self) -> Iterator[None]:
        """Report a ParquetBloomError of the `with` statement, and continue after it."""
        try:
            yield
        except ParquetBloomError as error:
            self.fail(error)

    def bug(self, error: Exception) -> None:
        """Report an unexpected exception as a bug; with `-v` also its traceback."""
        if self.verbose:
            import traceback

            lines = "".join(traceback.format_exception(without_secrets(error))).splitlines()
            self._say("\n".join(map(printable, lines)))
        how = _ISSUES if self.verbose else f"{_ISSUES} with the output of -v"
        self.error(f"a bug, {how}: {type(error).__name__}: {error}")

    def exit_code(self, otherwise: int = GOOD) -> int:
        """Return ERROR or NO_FILES if an error was reported, else the given exit code."""
        self.report_mistakes()
        if not self.failures:
            return otherwise
        return NO_FILES if all(isinstance(error, NoFilesError) for error in self.failures) else ERROR

    def _say(self, text: str) -> None:
        if self._bar is None or not self._bar.say(text):
            say(text)

    def _colored(self, stream: Any) -> bool:
        if self._color == "auto":
            plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
            return is_terminal(stream) and not plain
        return self._color == "always"

    # ------------------------------------------------------------------------------------------------ time

    @contextmanager
    def progress(self, total: int, unit: Literal["files", "MB"] = "files") -> Iterator[Bar]:
        """Show a progress bar on stderr, if that is a terminal, while the `with` statement runs; see `Bar`."""
        from ...util.progress import Bar

        # Rows printed as they come would be mixed with the bar.
        visible = (
            not self.quiet and is_terminal(sys.stderr) and not (self.format != "table" and is_terminal(sys.stdout))
        )
        with Bar(self.command, total, visible, self._colored(sys.stderr), unit) as bar:
            self._bar = bar
            try:
                yield bar
            finally:
                self._bar = None

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Add the time of the `with` statement to step `what`, for `-v`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[what] += time.perf_counter() - started

    def close(self) -> None:
        """Print the time of each step, with `-v`."""
        if self._seconds:
            self.detail("time: " + ", ".join(f"{what} {seconds:.3f} s" for what, seconds in self._seconds.items()))


def _describe_error(error: ParquetBloomError) -> dict[str, Any]:
    """Return an error as JSON documents have it; its kind is the name of its class in `parquet_bloom.errors`."""
    where = {"file": error.path, "row_group": error.row_group, "column": error.column}
    return where | {"kind": type(error).__name__, "problem": error.problem}


def is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal; False if it is closed or missing."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def say(text: str) -> None:
    """Print text on stderr."""
    if sys.stderr is not None:
        click.echo(text, err=True, color=True)


def write_text(text: str) -> None:
    """Print on stdout for people: characters missing in its encoding are escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    _write(text.encode(encoding, "backslashreplace"))


def write_utf8(text: str) -> None:
    """Print on stdout for machines: UTF-8 whatever the locale, names of files byte for byte."""
    _write(text.encode("utf-8", "surrogateescape"))


def _write(data: bytes) -> None:
    if sys.stdout is None:  # closed by the caller
        return
    try:
        binary = getattr(sys.stdout, "buffer", None)
        if binary is None:
            sys.stdout.write(data.decode("utf-8", "replace"))
        else:
            binary.write(data)
        sys.stdout.flush()  # so that the reader of a pipe gets each row at once
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon("stdout")
        raise CannotPrintError(f"cannot write to standard output: {error.strerror or error}") from error


def abandon(*streams: str) -> None:
    """Detach "stdout" or "stderr", as Python would flush it again at exit, fail, and print an error."""
    for name in streams:
        setattr(sys, name, None)
