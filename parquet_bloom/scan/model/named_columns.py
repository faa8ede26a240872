"""Columns that callers name: their types, and which columns may be meant by a name that no file has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ...errors import ParquetBloomError, UnknownColumnError, UnsupportedTypeError, shortened
from ...file.cache.memory import MetadataCache
from ...file.columns import find_leaf, find_leaves, spellings, type_of
from ...file.reader import BloomFile
from ...hashing.column_type import ColumnType, Kind, from_arrow
from ...storage import Source, entry_for_identity, open_source
from .file_format import open_any
from .partitions import Partitions

_FILES_FOR_NAMES = 20  # files whose columns a message draws on
_MOST_NAMES = 10_000  # columns that are compared with a name
_SUGGESTIONS = 3
_IGNORE_CASE = "ignore case (--case-insensitive, or case_sensitive=False in Python)"


class FoundType(NamedTuple):
    """The type of a column, and what was read to find it."""

    column_type: ColumnType
    requests: int = 0
    bytes_read: int = 0


def find_column_type(
    name: str,
    paths: Sequence[str],
    partitions: Partitions,
    *,
    filesystem: Any,
    cache: MetadataCache | None,
    case_sensitive: bool = True,
) -> FoundType:
    """Find the type of a partition column, or of a column in the first file that has it.

    Parameters
    ----------
    name : a column with a single value per row: a top-level one, or a dotted leaf.
    cache : of footers, to which those read now are added.

    Raises
    ------
    UnknownColumnError
        No file that can be read has such a column, or it has several leaves.
    UnsupportedTypeError
        Its type is one whose values cannot be compared.
    ParquetBloomError
        No file can be read: the error of the first one.
    """
    partition = partitions.resolve_name(name, not case_sensitive)
    if partition in partitions.schema.names:
        return FoundType(from_arrow(partitions.schema.field(partition).type))
    unknown, failure, readable = None, None, False
    requests = bytes_read = 0
    for path in paths:
        try:
            with _open(path, filesystem, cache) as source:
                file = open_any(source, cache)
                readable = True
                requests, bytes_read = requests + source.requests, bytes_read + source.bytes_read
                matches = [name] if case_sensitive else spellings(file.leaves, name)
                if not matches or not find_leaves(file.leaves, matches[0]):
                    continue
                if isinstance(file, BloomFile):
                    column_type = type_of(find_leaf(file.leaves, matches[0], path))
                else:
                    column_type = find_leaf(file.leaves, matches[0], path).column_type
        except UnknownColumnError:  # it has several leaves
            raise
        except ParquetBloomError as error:
            failure = failure or error  # otherwise reported when the file is planned
            continue
        if column_type.kind is not Kind.UNKNOWN:
            return FoundType(column_type, requests, bytes_read)
        unknown = column_type
    if failure is not None and not readable:
        raise failure
    if unknown is not None:
        raise UnsupportedTypeError(f"values of the type {unknown} cannot be compared", column=name)
    raise make_unknown_column_error(name, paths, partitions, filesystem=filesystem, cache=cache)


def make_unknown_column_error(
    name: str, paths: Sequence[str], partitions: Partitions, *, filesystem: Any, cache: MetadataCache | None
) -> UnknownColumnError:
    """Return the error for a name that no file has, with the columns that it resembles."""
    names = [*partitions.schema.names, *_collect_names(paths[:_FILES_FOR_NAMES], filesystem, cache)]
    in_files = f" in any of {len(paths):,} files" if len(paths) > 1 else ""
    path = None if in_files or not paths else paths[0]
    return UnknownColumnError(f"no such column{in_files}{suggest_names(name, names)}", path=path, column=name)


def _collect_names(paths: Iterable[str], filesystem: Any, cache: MetadataCache | None) -> Iterator[str]:
    """Yield the dotted names of all columns and of the groups around them."""
    for path in paths:
        try:
            with _open(path, filesystem, cache) as source:
                leaves = [tuple(leaf.path) for leaf in open_any(source, cache).leaves]
        except ParquetBloomError:
            continue
        for leaf in leaves:
            yield from (".".join(leaf[: depth + 1]) for depth in range(len(leaf)))


def _open(path: str, filesystem: Any, cache: MetadataCache | None) -> Source:
    """Open a file; an object whose footer is cached, without a request."""
    known = None if cache is None else entry_for_identity(path, filesystem, cache.last_identity(path))
    return open_source(path, filesystem, known)


def suggest_names(name: str, names: Iterable[str], can_ignore_case: bool = True) -> str:
    """Return an addition to a message that names columns like `name`; nothing if there are none.

    Parameters
    ----------
    can_ignore_case : whether the caller has an option to ignore case.
    """
    unique = list(dict.fromkeys(islice(names, _MOST_NAMES)))
    folded = name.lower()
    otherwise = [one for one in unique if one.lower() == folded]
    if otherwise:
        way_out = f": spell it so, or {_IGNORE_CASE}" if can_ignore_case else ""
        return f"; {_list_names(otherwise)} differs in case only{way_out}"
    by_folded = {one.lower(): one for one in reversed(unique)}
    inner = [one for one in unique if one.lower().endswith(f".{folded}")]
    from difflib import get_close_matches

    close = [by_folded[one] for one in get_close_matches(folded, by_folded, n=_SUGGESTIONS)]
    likely = list(dict.fromkeys(inner + close))[:_SUGGESTIONS]
    return f"; did you mean {_list_names(likely)}?" if likely else ""


def _list_names(names: Sequence[str]) -> str:
    return " or ".join(f"'{shortened(name)}'" for name in names[:_SUGGESTIONS])
