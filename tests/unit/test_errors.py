"""Errors say where and what on one line, keep both as attributes, and travel between processes."""

import builtins
import errno
import inspect
import os
import pickle

import pytest

from parquet_bloom import errors
from parquet_bloom.errors import ParquetBloomError, StorageError

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ParquetBloomError)]
BUILTINS = {
    "NotParquetError": "ValueError",
    "NotOrcError": "ValueError",
    "TruncatedFileError": "ValueError",
    "MalformedFooterError": "ValueError",
    "UnusualPageError": "ValueError",
    "MalformedOrcError": "ValueError",
    "UnknownColumnError": "LookupError",
    "UnsupportedTypeError": "TypeError",
    "BrokenFilterError": "ValueError",
    "MissingFilterError": "LookupError",
    "UnreadableColumnError": "ValueError",
    "MalformedVariantError": "ValueError",
    "VariantCastError": "ValueError",
    "StorageError": "OSError",
    "NoFilesError": "OSError",
    "PredicateError": "ValueError",
    "ExpressionError": "TypeError",
    "FilterTypeError": "TypeError",
    "BrokenIndexError": "ValueError",
    "BrokenZonesError": "ValueError",
    "KernelError": "ImportError",
}


@pytest.mark.parametrize("kind", ALL)
def test_every_error(kind: type[ParquetBloomError]) -> None:
    error = kind("it is broken", path="a.parquet", row_group=3, column="user.id")
    assert str(error) == "a.parquet: row group 3, column 'user.id': it is broken"
    result = error.problem, error.path, error.row_group, error.column
    assert result == ("it is broken", "a.parquet", 3, "user.id")
    assert kind.__doc__
    if kind.__name__ in BUILTINS:
        assert issubclass(kind, getattr(builtins, BUILTINS[kind.__name__]))
    error.add_note("seen")
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is kind
    assert str(other) == str(error)
    assert vars(other) == vars(error)


def test_errors_for_which_no_builtin_fits() -> None:
    others = {"ParquetBloomError", "EncryptedFileError", "ManagedTableError", "ConcurrentChangeError"}
    others |= {"IndexInUseError", "FilesFailedError"}
    assert {kind.__name__ for kind in ALL if kind.__name__ not in BUILTINS} == others


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ({}, "it is broken"),
        ({"path": "a"}, "a: it is broken"),
        ({"row_group": 0}, "row group 0: it is broken"),
        ({"path": "a", "column": "x y"}, "a: column 'x y': it is broken"),
    ],
)
def test_the_context_contains_only_given_parts(location: dict[str, object], text: str) -> None:
    assert str(ParquetBloomError("it is broken", **location)) == text  # type: ignore[arg-type]


def test_one_printable_line_whatever_the_names_hold() -> None:
    error = ParquetBloomError("two\n  lines\tof text", path="a\nb\x1b\udcff é%20.parquet")
    assert str(error) == r"a\nb\x1b\udcff é%20.parquet: two lines of text"
    assert error.path == "a\nb\x1b\udcff é%20.parquet"
    str(error).encode()


def test_a_storage_error_is_an_os_error() -> None:
    cause = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "a.parquet")
    error = StorageError.wrap(cause, "cannot open", "a.parquet")
    assert str(error) == "a.parquet: cannot open: No such file or directory"
    assert (error.errno, error.filename) == (errno.ENOENT, "a.parquet")
    other = pickle.loads(pickle.dumps(error))
    assert (other.errno, other.strerror, str(other)) == (error.errno, error.strerror, str(error))
    assert StorageError("no number").errno is None
    assert str(StorageError.wrap(KeyError(), "cannot open", "a")) == "a: cannot open: KeyError"


def test_what_a_library_says_in_several_lines_is_one() -> None:
    error = StorageError.wrap(RuntimeError("no such luck\n\tat a line of Java\n"), "cannot open", "a  b")
    assert str(error) == "a  b: cannot open: no such luck at a line of Java"
