"""Work on many files: which files a caller means, the loop over them, and the report of all of them."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from ..errors import FilesFailedError, ManagedTableError, ParquetBloomError, printable, shortened
from ..storage import is_local, is_url, list_files, object_location
from ..storage.listing import as_path_list
from ..storage.paths import as_arrow_filesystem, find_places
from ..util.arguments import require_threads
from ..util.messages import count
from ..util.threads import in_order, processors, raise_if_stopped

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem, Paths

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called with (completed parts, number of parts): of a file its column chunks or filters, of many files the files."""

OnError = Literal["finish", "raise", "report"] | Callable[[ParquetBloomError], None]
"""What happens when a file fails: see `embed`."""

_SHOWN = 20  # files, and errors, that the table of a report lists
_REMOTE_FILES = 8  # at a time: most of the time is spent waiting

# ---------------------------------------------------------------------------------------------------- reports


class FileReports:
    """What the reports of one file and of many have in common: they can be read file by file.

    Iterating over a report gives one report per file, `len` their number, `report[i]` one of them. The report of a file
    that was given by itself has that file's alone.
    """

    path: str
    _files: Sequence[Any] | None = None  # None for the report of one file
    _errors: Mapping[str, ParquetBloomError] = {}

    @property
    def is_single(self) -> bool:
        """Whether this is the report of one file, given by itself."""
        return self._files is None

    @property
    def files(self) -> list[Self]:
        """The reports of the files, in their order; files that failed have none."""
        return [self] if self._files is None else [*self._files]

    @property
    def errors(self) -> dict[str, ParquetBloomError]:
        """The files that failed: {path: error}."""
        return dict(self._errors)

    def __iter__(self) -> Iterator[Self]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, position: int) -> Self:
        return self.files[position]

    def __bool__(self) -> bool:
        return True  # also if all files failed

    def with_files(self, files: Sequence[Self], errors: Mapping[str, ParquetBloomError]) -> Self:
        """Make this the report of many files, whose figures it has."""
        self._files, self._errors = tuple(files), dict(errors)
        return self

    def format_table(self, titles: Sequence[str], cells: Callable[[Self], Sequence[str]], summary: str) -> str:
        """Format a table with a line per file (of many the first ones), then the errors, then a summary.

        Parameters
        ----------
        titles : of the columns after the file's path.
        cells : returns these columns of a file's report.
        summary : the last line, without the number of files that failed.
        """
        rows = [("file", *titles), *((printable(shortened(one.path)), *cells(one)) for one in self.files[:_SHOWN])]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in (rows if len(rows) > 1 else [])
        ]
        lines += [f"... and {count(len(self) - _SHOWN, 'more file')}"] if len(self) > _SHOWN else []
        errors = [*self._errors.values()]
        lines += [f"failed: {error}" for error in errors[:_SHOWN]]
        lines += [f"... and {len(errors) - _SHOWN:,} more failed"] if len(errors) > _SHOWN else []
        return "\n".join([*lines, summary + (f"; {count(len(errors), 'file')} failed" if errors else "")])


F = TypeVar("F", bound=FileReports)


class Combine(Protocol[F]):
    """Makes the report of many files, with the sums of their figures. `path` is what the caller gave."""

    def __call__(self, path: str, reports: Sequence[F]) -> F: ...


# ---------------------------------------------------------------------------------------------------- the loop


@contextmanager
def process_files(
    files: Sequence[T],
    work: Callable[[T, Progress], R],
    jobs: int,
    track: Callable[[], Progress] | None = None,
) -> Iterator[Iterator[R | ParquetBloomError]]:
    """Yield an iterator over the results of `work` for each file, in the order of the files; errors are among them.

    When the `with` statement is left early, for example by Ctrl-C, no further file is begun, and in files in progress
    the progress function raises, so that they are cleaned up at once.

    Parameters
    ----------
    work : called with a file and a progress function; in other threads if there are several `jobs`.
    jobs : number of files processed at the same time.
    track : makes the function that is called with the progress of one file.
    """

    def one(file: T) -> R | ParquetBloomError:
        move = _ignore_progress if track is None else track()

        def progress(done: int, total: int) -> None:
            raise_if_stopped()
            move(done, total)

        try:
            raise_if_stopped()
            return work(file, progress)
        except ParquetBloomError as error:
            return error
        finally:
            move(1, 1)

    if jobs == 1 or len(files) < 2:
        yield map(one, files)
        return
    with in_order(one, files, min(jobs, len(files))) as outcomes:
        yield outcomes


def _ignore_progress(done: int, total: int) -> None:
    pass


def files_at_a_time(filesystem: FileSystem | None, files: Iterable[FilePath]) -> int:
    """Return how many files to process at a time, where of remote ones most of the time is spent waiting."""
    return max(processors(), 1 if is_local(filesystem, files) else _REMOTE_FILES)


@dataclass(frozen=True)
class RunOptions:
    """How many files are processed.

    Attributes
    ----------
    filesystem : of the files, resolved.
    threads, progress, on_error : as in `embed`.
    waits : whether the work mostly waits for remote storage, so that more files than processors may be processed at
        the same time.
    """

    filesystem: FileSystem | None
    threads: int | None
    progress: Progress | None
    on_error: OnError
    waits: bool = False

    def __post_init__(self) -> None:
        require_threads(self.threads)
        require_on_error(self.on_error)


def require_on_error(on_error: object) -> None:
    """Raise ParquetBloomError for what is no `on_error` of `embed`."""
    if not callable(on_error) and on_error not in ("finish", "raise", "report"):
        raise ParquetBloomError(f"on_error must be 'finish', 'raise', 'report' or a function, got {on_error!r}")


def process_paths(
    paths: Paths,
    work: Callable[[FilePath, Progress | None, int], F],
    combine: Combine[F],
    options: RunOptions,
    *,
    output: FilePath | None = None,
    refuse: Callable[[FilePath, FileSystem | None], None] | None = None,
) -> F:
    """Do one thing to every file that a caller means, and return its report: of one file, or of many.

    Parameters
    ----------
    paths : as in `prune`.
    work : called with a file, a progress function and a number of threads.
    combine : makes the report of many files.
    output : the file to write, which only one file can have; None for none.
    refuse : raises for a path in a table, if files are replaced; several links to one file then count as one.
    """
    filesystem, threads, progress, on_error = options.filesystem, options.threads, options.progress, options.on_error
    given = paths if isinstance(paths, str | bytes | os.PathLike) else as_path_list(paths)
    files, is_one = _find_files(given, filesystem, refuse)  # which refuses what is no path
    name = _describe(given)
    if not is_one and output is not None:
        found = f"these are {count(len(files), 'file')}" if len(files) != 1 else "a folder, pattern or list is given"
        raise ParquetBloomError(f"output= is the new file of a single file, but {found}", path=name)
    if is_one:
        try:
            return work(files[0], progress, threads or processors())
        except ParquetBloomError as error:
            # A folder of objects may have a name like a file's. Only now, as to ask takes a request.
            files = _list_below(files[0], filesystem) if getattr(error, "errno", None) == errno.ENOENT else []
            if not files or output is not None:
                if on_error in ("finish", "raise"):
                    raise
                if callable(on_error):
                    on_error(error)
                return combine(name, []).with_files([], {name: error})
    if threads is None:
        threads = files_at_a_time(filesystem, files) if options.waits else processors()
    jobs = max(1, min(threads, len(files)))
    per_file = max(1, threads // jobs)
    reports: list[F] = []
    errors: dict[str, ParquetBloomError] = {}
    with process_files(files, lambda file, moved: work(file, moved, per_file), jobs) as outcomes:
        for done, (file, outcome) in enumerate(zip(files, outcomes, strict=True), 1):
            if not isinstance(outcome, ParquetBloomError):
                reports.append(outcome)
            else:
                outcome.path = outcome.path or os.fsdecode(file)
                if on_error == "raise":
                    raise outcome
                errors[os.fsdecode(file)] = outcome
                if callable(on_error):
                    on_error(outcome)
            if progress:
                progress(done, len(files))
    report = combine(name, reports).with_files(reports, errors)
    if errors and on_error == "finish":
        raise FilesFailedError(errors, len(files), report) from next(iter(errors.values()))
    return report


# ---------------------------------------------------------------------------------------------------- the files


def _find_files(
    paths: FilePath | list[FilePath],
    filesystem: FileSystem | None,
    refuse: Callable[[FilePath, FileSystem | None], None] | None,
) -> tuple[Sequence[FilePath], bool]:
    """Return the files that a caller means, and whether this is one file that was given by itself."""
    alone = None if isinstance(paths, list) else paths
    if alone is not None and _names_file(alone, filesystem):
        return [alone], True
    try:
        files = list_files(paths, filesystem)
    except ManagedTableError:
        if refuse is not None:
            for path in as_path_list(paths):
                refuse(path, filesystem)  # says what else can be done about a table's filters
        raise
    if alone is not None and files == [os.fsdecode(alone)]:
        return files, True
    if refuse is None or as_arrow_filesystem(filesystem) is not None:
        return files, False
    unique = {file if is_url(file) else os.path.realpath(file): file for file in reversed(files)}
    return list(reversed(unique.values())), False


def _names_file(path: FilePath, filesystem: FileSystem | None) -> bool:
    """Return whether a path is that of a file as far as can be told without listing anything."""
    [place] = find_places([path], filesystem)
    location, name = place.location, place.path
    if location is not None:
        is_folder = location.name.endswith("/") or glob.has_magic(location.key)
        return not location.can_list or (not is_folder and "." in location.key.rpartition("/")[2])
    if place.filesystem is not None:
        return False
    is_pattern = isinstance(path, str) and glob.has_magic(name) and not os.path.lexists(name)
    return not is_pattern and not os.path.isdir(name)


def _list_below(path: FilePath, filesystem: FileSystem | None) -> Sequence[str]:
    """Return the objects below a folder that was taken for an object, if it is one."""
    location = object_location(path, filesystem)
    if location is None or not location.can_list:
        return []
    with suppress(ParquetBloomError):
        return list_files(f"{os.fsdecode(path)}/", filesystem)
    return []


def _describe(paths: FilePath | list[FilePath]) -> str:
    """Return what a caller gave, as the path of a report of many files."""
    given = paths if isinstance(paths, list) else [paths]
    return os.fsdecode(given[0]) if len(given) == 1 else f"{len(given):,} paths"
