"""The exceptions of parquet_bloom, all subclasses of ParquetBloomError, and of a builtin exception where one fits."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from .redaction import redacted, without_secrets

_LONGEST_NAME, LONGEST_PROBLEM = 256, 1024  # characters


class ErrorContext(TypedDict, total=False):
    """The location of a problem, as keyword arguments of every exception."""

    path: str | os.PathLike[str] | None
    row_group: int | None
    column: str | None


class ParquetBloomError(Exception):
    """The base class of all errors; its text says on one line where the problem is and what it is.

    Errors never show secrets: users, passwords and query strings of URLs and the values of secret options are hidden in
    their texts, including `path`, and in the texts of the exceptions that they are raised from.

    Parameters
    ----------
    problem : what is wrong, without the location.
    path : the file concerned, as the caller named it.
    row_group : ordinal of the row group in the file, from 0.
    column : dotted path of the column.

    Attributes
    ----------
    problem, path, row_group, column : as given, with secrets hidden; None where not applicable.

    Examples
    --------
    >>> error = parquet_bloom.errors.ParquetBloomError("the bitset is cut short", path="a.parquet", row_group=3)
    >>> str(error)
    'a.parquet: row group 3: the bitset is cut short'
    """

    row_group: int | None
    column: str | None

    def __init__(
        self,
        problem: str,
        *,
        path: str | os.PathLike[str] | None = None,
        row_group: int | None = None,
        column: str | None = None,
    ) -> None:
        problem = redacted(problem)
        super().__init__(problem)
        self._problem = problem
        self.path = None if path is None else os.fsdecode(path)
        self.row_group = row_group
        self.column = column
        handled = sys.exception()  # becomes the context of this error, which a traceback shows as well
        if handled is not None:
            without_secrets(handled)

    @property
    def problem(self) -> str:
        return self._problem

    @problem.setter
    def problem(self, problem: str) -> None:
        self._problem = redacted(problem)

    @property
    def path(self) -> str | None:
        return self._path

    @path.setter
    def path(self, path: str | None) -> None:
        self._path = None if path is None else redacted(path)

    def __str__(self) -> str:
        location = []
        if self.row_group is not None:
            location.append(f"row group {self.row_group}")
        if self.column is not None:
            location.append(f"column '{shortened(self.column)}'")
        parts = [self.path, ", ".join(location), shortened(" ".join(self.problem.split()), LONGEST_PROBLEM)]
        return printable(": ".join(part for part in parts if part))

    def __repr__(self) -> str:
        # DataFusion shows errors in this form. A secret may have been remembered since.
        return redacted(f"{type(self).__name__}({str(self)!r})")

    def __reduce__(self) -> tuple[object, ...]:
        # BaseException would call the class with `args` only, and OSError with other arguments.
        return _restore, (type(self), self.problem, self._fields()), self.__dict__

    def _fields(self) -> dict[str, object]:
        return {"path": self.path, "row_group": self.row_group, "column": self.column}


class NotParquetError(ParquetBloomError, ValueError):
    """The file does not begin and end like a Parquet file."""


class TruncatedFileError(ParquetBloomError, ValueError):
    """The file ends before the bytes to read: it is cut short, or an offset in it is wrong."""


class MalformedFooterError(ParquetBloomError, ValueError):
    """The footer exists, but is invalid."""


class UnusualPageError(MalformedFooterError):
    """A page that compiled code does not decode: it has another encoding or codec, or is not what its header says.

    Its column is decoded by pyarrow, which reads it or reports what is wrong.
    """


class NotOrcError(ParquetBloomError, ValueError):
    """The file does not end like an ORC file."""


class MalformedOrcError(ParquetBloomError, ValueError):
    """The metadata of an ORC file exists, but is invalid."""


class EncryptedFileError(ParquetBloomError):
    """The footer or the column is encrypted or signed."""


class UnknownColumnError(ParquetBloomError, LookupError):
    """The file has no leaf column with that dotted path."""


class UnsupportedTypeError(ParquetBloomError, TypeError):
    """The column's type cannot have a filter."""


class BrokenFilterError(ParquetBloomError, ValueError):
    """A filter's header, offset or bitset does not conform to the format."""


class MissingFilterError(ParquetBloomError, LookupError):
    """The column chunk has no filter."""


class UnreadableColumnError(ParquetBloomError, ValueError):
    """A column chunk's pages cannot be decoded, or hold values that its type does not have."""


class MalformedVariantError(ParquetBloomError, ValueError):
    """A row of a Variant column does not conform to the format."""


class VariantCastError(ParquetBloomError, ValueError):
    """A value of a Variant cannot be cast to the type, or to what depends on settings that are not known here."""


class ManagedTableError(ParquetBloomError):
    """The path belongs to a table or a streaming sink that tracks its files in its own metadata."""


class ConcurrentChangeError(ParquetBloomError):
    """The file has changed since it was read: another writer changed, replaced or removed it."""


class StorageError(ParquetBloomError, OSError):
    """A file-system operation failed; `errno` is the system's error number, if it gave one."""

    def __init__(
        self,
        problem: str,
        *,
        path: str | os.PathLike[str] | None = None,
        row_group: int | None = None,
        column: str | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(problem, path=path, row_group=row_group, column=column)
        self.errno = errno
        self.filename = self.path
        self.strerror = None if errno is None else os.strerror(errno)

    @classmethod
    def wrap(cls, error: Exception, action: str, path: str | os.PathLike[str] | None) -> StorageError:
        """Convert an error of the system or of a file-system library: `path: action: reason`."""
        without_secrets(error)
        number = getattr(error, "errno", None)
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        one_line = " ".join(
            line.strip() for line in reason.splitlines()
        )  # libraries include multi-line responses of servers
        return cls(f"{action}: {one_line}", path=path, errno=number)

    def _fields(self) -> dict[str, object]:
        return {**super()._fields(), "errno": self.errno}


class NoFilesError(StorageError):
    """A folder or a lake is there and has no files, or a pattern matches none."""


class FilesFailedError(ParquetBloomError):
    """Some of many files failed; the others were processed.

    Attributes
    ----------
    errors : the files that failed: {path: error}.
    report : the report of the others, with the same `errors`.
    """

    def __init__(
        self,
        errors: Mapping[str, ParquetBloomError] | str,
        num_files: int = 0,
        report: object = None,
        **context: Unpack[ErrorContext],
    ) -> None:
        self.errors: dict[str, ParquetBloomError] = {} if isinstance(errors, str) else dict(errors)
        self.report = report
        if not isinstance(errors, str):
            first = next(iter(self.errors.values()))
            problem = f"{len(errors):,} of {num_files:,} files failed, the others are done; the first error: {first}"
            errors = problem if len(errors) > 1 else f"1 of {num_files:,} files failed: {first}"
        super().__init__(errors, **context)


class BrokenIndexError(ParquetBloomError, ValueError):
    """A file of a lake index is damaged."""


class IndexInUseError(ParquetBloomError):
    """Another writer is changing the lake index, or has changed it meanwhile."""


class BrokenZonesError(ParquetBloomError, ValueError):
    """A zone index is damaged or inconsistent."""


class PredicateError(ParquetBloomError, ValueError):
    """The predicate is invalid, or filters cannot answer it."""


class ExpressionError(PredicateError, TypeError):
    """A pyarrow expression has a part that predicates do not support."""


class FilterTypeError(ParquetBloomError, TypeError):
    """The values given to a filter do not have the type that it was built for."""


class KernelError(ParquetBloomError, ImportError):
    """`PARQUET_BLOOM_SIMD` names kernels that the processor or the build does not support."""


def _restore(cls: type[ParquetBloomError], problem: str, fields: dict[str, Any]) -> ParquetBloomError:
    return cls(problem, **fields)


def first_line(error: BaseException) -> str:
    """Return the first non-empty line of an error's text, or the name of its class if there is none."""
    return next(filter(None, map(str.strip, redacted(str(error)).splitlines())), type(error).__name__)


def shortened(text: str, longest: int = _LONGEST_NAME) -> str:
    """Truncate a text, as the name of a column in a file may be as long as its footer."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def printable(text: str) -> str:
    """Prepare a text for printing or logging: on one line and without secrets (see `redaction`).

    Line breaks, control characters, invisible and undecodable ones are escaped: a file's name may hold any of them.
    """
    return escaped(redacted(text))


def escaped(text: str) -> str:
    """Escape unprintable characters, without hiding secrets: for data, which must not be changed."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
