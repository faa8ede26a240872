"""Every exception of parquet_bloom: all are ParquetBloomErrors, and what builtin fits where one does."""

from __future__ import annotations

import os
import sys
from typing import Any, TypedDict

from .redaction import redacted, without_secrets

_LONGEST_NAME, LONGEST_PROBLEM = 256, 1024  # characters of a line


class ErrorContext(TypedDict, total=False):
    """Where a problem is, as every exception takes it."""

    path: str | os.PathLike[str] | None
    row_group: int | None
    column: str | None


class ParquetBloomError(Exception):
    """The root of all errors; says on one line where the problem is and what it is.

    An error is for people: nothing in it is secret. Users, passwords and query strings of URLs and the values of secret
    options are hidden in its texts, `path` included, and in the texts of the exceptions that it is raised from.

    Parameters
    ----------
    problem : what is wrong, without the place.
    path : file concerned, as the caller named it.
    row_group : ordinal of the row group in the file, from 0.
    column : dotted path of the column.

    Attributes
    ----------
    problem, path, row_group, column : as given, but for secrets; None where not concerned.

    Examples
    --------
    >>> str(ParquetBloomError("the bitset is cut short", path="a.parquet", row_group=3, column="user.id"))
    "a.parquet: row group 3, column 'user.id': the bitset is cut short"
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
        handled = sys.exception()  # what this one comes to be raised from, and a traceback shows before it
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
        place = []
        if self.row_group is not None:
            place.append(f"row group {self.row_group}")
        if self.column is not None:
            place.append(f"column '{shortened(self.column)}'")
        parts = [self.path, ", ".join(place), shortened(" ".join(self.problem.split()), LONGEST_PROBLEM)]
        return printable(": ".join(part for part in parts if part))

    def __repr__(self) -> str:
        return redacted(super().__repr__())  # a secret may have become known since

    def __reduce__(self) -> tuple[Any, ...]:
        # BaseException would call the class with `args` alone, and OSError with arguments of its own.
        return _restore, (type(self), self.problem, self._fields()), self.__dict__

    def _fields(self) -> dict[str, Any]:
        return {"path": self.path, "row_group": self.row_group, "column": self.column}


class NotParquetError(ParquetBloomError, ValueError):
    """The file does not begin and end as a Parquet file does."""


class TruncatedFileError(ParquetBloomError, ValueError):
    """Bytes were asked for that the file does not have: it is cut short, or a place in it is wrong."""


class MalformedFooterError(ParquetBloomError, ValueError):
    """The footer is there, but it cannot be what a Parquet writer meant."""


class NotOrcError(ParquetBloomError, ValueError):
    """The file does not end as an ORC file does."""


class MalformedOrcError(ParquetBloomError, ValueError):
    """The metadata of an ORC file is there, but it cannot be what a writer meant."""


class EncryptedFileError(ParquetBloomError):
    """The footer, or the column concerned, is encrypted or signed."""


class UnknownColumnError(ParquetBloomError, LookupError):
    """The file has no leaf column of that dotted path."""


class UnsupportedTypeError(ParquetBloomError, TypeError):
    """The column's type cannot have a filter."""


class BrokenFilterError(ParquetBloomError, ValueError):
    """A filter's header, place or bitset is not what the format asks for."""


class MissingFilterError(ParquetBloomError, LookupError):
    """The column chunk has no filter."""


class UnreadableColumnError(ParquetBloomError, ValueError):
    """A column chunk's pages cannot be decoded, or hold values that its type does not have."""


class ManagedTableError(ParquetBloomError):
    """The path belongs to a table or a streaming sink that keeps its own books on its files."""


class ConcurrentChangeError(ParquetBloomError):
    """The file is no longer the one that was read: another writer changed, replaced or removed it."""


class StorageError(ParquetBloomError, OSError):
    """The file system said no. `errno` tells why, where the system gave a number."""

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
    def wrap(cls, error: Exception, action: str, path: str | os.PathLike[str]) -> StorageError:
        """The error of the system or of a file-system library, as one of ours: `path: action: reason`."""
        without_secrets(error)
        number = getattr(error, "errno", None)
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        one_line = " ".join(line.strip() for line in reason.splitlines())  # libraries pass on what servers answer
        return cls(f"{action}: {one_line}", path=path, errno=number)

    def _fields(self) -> dict[str, Any]:
        return {**super()._fields(), "errno": self.errno}


class BrokenIndexError(ParquetBloomError, ValueError):
    """A file of a lake index is not what was written."""


class IndexInUseError(ParquetBloomError):
    """Another writer is at work on the lake index, or has changed it meanwhile."""


class BrokenZonesError(ParquetBloomError, ValueError):
    """A zone index is not what was written, or contradicts itself."""


class PredicateError(ParquetBloomError, ValueError):
    """The predicate cannot be understood, or is not one that filters can answer."""


class ExpressionError(PredicateError, TypeError):
    """A pyarrow expression holds something that has no counterpart among predicates."""


class FilterTypeError(ParquetBloomError, TypeError):
    """The values given to a filter do not have the type that it was built over."""


class KernelError(ParquetBloomError, ImportError):
    """`PARQUET_BLOOM_SIMD` names kernels that cannot be had: the processor or the build lacks them."""


def _restore(cls: type[ParquetBloomError], problem: str, fields: dict[str, Any]) -> ParquetBloomError:
    return cls(problem, **fields)


def first_line(error: BaseException) -> str:
    """The first line of a library's error that says anything; what kind it is of where none does."""
    return next(filter(None, map(str.strip, redacted(str(error)).splitlines())), type(error).__name__)


def shortened(text: str, longest: int = _LONGEST_NAME) -> str:
    """The text, or its beginning: what a file calls a column may be as long as its footer."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def printable(text: str) -> str:
    """Make a text fit for people, on one line and without secrets; whatever is printed or logged goes through this.

    Line breaks, control characters, invisible and undecodable ones are escaped: a file's name may hold any of them. For
    what is a secret, see `redaction`.
    """
    return escaped(redacted(text))


def escaped(text: str) -> str:
    """Escape what cannot be printed, and leave the rest as it is: for data, which nobody may change."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
