"""Everything that is printed: data on stdout, all else on stderr, where the bar of `progress` is drawn for it."""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import click

from ...errors import ParquetBloomError, PredicateError, printable
from ...redaction import without_secrets
from .formats import CsvRows, JsonRows, NdjsonRows, RowWriter, TableRows, ValueCsvRows, Write
from .table import Column

if TYPE_CHECKING:
    from ...util.progress import Bar

GOOD, BAD, ERROR = 0, 1, 2
"""Exit codes; a command says what is bad in its help."""

_BLOCK = 1000  # records that a table lays out at a time

_ISSUES = "please report it"


class CannotPrintError(Exception):
    """Standard output takes no more, for another reason than that its reader has left."""


class Output:
    """What a command says.

    Parameters
    ----------
    command : its name.
    format : "table", "json", "ndjson" or "csv".
    color : "auto", "always" or "never".
    verbose : whether to say more on stderr.
    filesystem : where the command's paths are, for all that takes a file system.
    storage_options : the settings that it was made of, for what takes those.

    Attributes
    ----------
    failures : errors that were reported while work went on.
    """

    def __init__(
        self,
        command: str = "",
        format: str = "table",
        color: str = "auto",
        verbose: bool = False,
        filesystem: object | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.command = command
        self.filesystem = filesystem
        self.storage_options = storage_options or None
        self.format = format
        self.verbose = verbose
        self.failures: list[ParquetBloomError] = []
        self._repeated: Counter[tuple[str | None, str]] = Counter()  # what is wrong with the predicate, by files
        self._color = color
        self._bar: Bar | None = None
        self._seconds: defaultdict[str, float] = defaultdict(float)

    # ------------------------------------------------------------------------------------------------ data

    def rows(self, name: str, columns: Sequence[Column]) -> AbstractContextManager[RowWriter]:
        """Take the command's rows, `name` saying what they are; printed as they come, a table at the end.

        When it is interrupted, a table shows what was done until then; a JSON document stays open: it is not whole.
        """
        return self.filling(self._rows(name, columns))

    def records(
        self, name: str, columns: Sequence[Column], write: Write | None = None, format: str | None = None
    ) -> AbstractContextManager[RowWriter]:
        """Take records of a lake, as many as there are; a table is laid out so many at a time.

        Parameters
        ----------
        name, columns : as in `rows`; the values are those of `values.plain`.
        write, format : where they go, and how; None for standard output, and the format that was asked for.
        """
        if format is None and self.format != "csv":
            return self.filling(_of_lake(self._rows(name, columns, _BLOCK)))
        escape = write is None and is_terminal(sys.stdout)
        write = write or write_utf8
        if format == "json":
            return self.filling(_of_lake(JsonRows(columns, write, self.command, name)))
        if format == "ndjson":
            return self.filling(_of_lake(NdjsonRows(columns, write)))
        return self.filling(_of_lake(ValueCsvRows(columns, write, escape)))

    @contextmanager
    def filling(self, rows: RowWriter) -> Iterator[RowWriter]:
        """Take rows from their first to their last one."""
        rows.begin()
        try:
            yield rows
        except (KeyboardInterrupt, SystemExit):
            if self.format == "table":
                rows.end()
            raise
        rows.facts["errors"] = [
            {"file": error.path, "row_group": error.row_group, "column": error.column, "problem": error.problem}
            for error in self.failures
        ]
        rows.end()

    def _rows(self, name: str, columns: Sequence[Column], block: int | None = None) -> RowWriter:
        terminal = is_terminal(sys.stdout)
        if self.format == "json":
            return JsonRows(columns, write_utf8, self.command, name)
        if self.format == "ndjson":
            return NdjsonRows(columns, write_utf8)
        if self.format == "csv":
            return CsvRows(columns, write_utf8, escape=terminal)
        # Who exports COLUMNS wants lines of that width in a pipe, too.
        width = shutil.get_terminal_size().columns if terminal or os.environ.get("COLUMNS") else None
        return TableRows(
            columns, self._write_table if terminal else write_text, width, self._colored(sys.stdout), block
        )

    def _write_table(self, text: str) -> None:
        """Print on the terminal, where the bar may be."""
        if self._bar is not None and text:
            self._bar.close()
        write_text(text)

    # ------------------------------------------------------------------------------------------------ all else

    def summary(self, text: str) -> None:
        """Sum up for people; who asked for another format gets totals in it, or counts himself."""
        if self.format == "table":
            self.note(text)

    def detail(self, text: str) -> None:
        """Say what only `-v` asks for."""
        if self.verbose:
            self.note(text)

    def note(self, text: str) -> None:
        """Say one line."""
        self._say(printable(text))

    def error(self, problem: object) -> None:
        """Say `error: problem` on one line."""
        head = click.style("error:", fg="red", bold=True) if self._colored(sys.stderr) else "error:"
        self._say(f"{head} {printable(' '.join(str(problem).split()))}")

    def fail(self, error: ParquetBloomError) -> None:
        """Say what went wrong and keep in mind that something did, for the rest goes on."""
        self.failures.append(error)
        if isinstance(error, PredicateError):  # the fault is not the file's, so every file has it: once is enough
            self._repeated[error.column, error.problem] += 1
            if self._repeated[error.column, error.problem] > 1:
                return
        self.error(error)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Let one of our errors end the `with` statement, but nothing more."""
        try:
            yield
        except ParquetBloomError as error:
            self.fail(error)

    def bug(self, error: Exception) -> None:
        """Say that an exception came this far which should not have; with `-v` also from where."""
        if self.verbose:
            lines = "".join(traceback.format_exception(without_secrets(error))).splitlines()
            self._say("\n".join(map(printable, lines)))
        how = _ISSUES if self.verbose else f"{_ISSUES} with what -v shows"
        self.error(f"a bug, {how}: {type(error).__name__}: {error}")

    def exit_code(self, otherwise: int = GOOD) -> int:
        """ERROR if anything failed, else what the command has found."""
        for (column, problem), count in self._repeated.items():
            if count > 1:
                self.error(PredicateError(f"{problem} (the same in {count - 1:,} more files)", column=column))
        self._repeated.clear()
        return ERROR if self.failures else otherwise

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
    def progress(self, total: int) -> Iterator[Bar]:
        """A bar on stderr while the `with` statement takes long, if a terminal is there to see it."""
        from ...util.progress import Bar

        # Rows that are printed as they come would run into the bar.
        visible = is_terminal(sys.stderr) and not (self.format != "table" and is_terminal(sys.stdout))
        with Bar(self.command, total, visible, self._colored(sys.stderr)) as bar:
            self._bar = bar
            try:
                yield bar
            finally:
                self._bar = None

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Count the time of the `with` statement for `what`, one of the things that `-v` shows at the end."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[what] += time.perf_counter() - started

    def close(self) -> None:
        """Say where time went."""
        if self._seconds:
            self.detail("time: " + ", ".join(f"{what} {seconds:.3f} s" for what, seconds in self._seconds.items()))


def _of_lake(rows: RowWriter) -> RowWriter:
    rows.of_lake = True
    return rows


def is_terminal(stream: Any) -> bool:
    """Whether somebody may be watching; a stream that is closed or missing is none."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def say(text: str) -> None:
    """Print text on stderr."""
    if sys.stderr is not None:
        click.echo(text, err=True, color=True)


def write_text(text: str) -> None:
    """Print on stdout for people: what its encoding lacks is escaped."""
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
        sys.stdout.flush()  # a reader waits for each row
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon("stdout")
        raise CannotPrintError(f"cannot write to standard output: {error.strerror or error}") from error


def abandon(*streams: str) -> None:
    """Let nothing more be written to "stdout" or "stderr": at its exit Python would try again, fail, and complain."""
    for name in streams:
        setattr(sys, name, None)
