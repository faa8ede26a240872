"""Partition columns in the names of folders, `day=2026-01-31/country=de/`, as Hive and Spark lay tables out.

A folder `name=value` is a partition if it is below a folder that was given, or below the part of a pattern before its
first `*`; for a file that was given itself, anywhere in its path. If a name occurs twice, the first one counts. Only
names that all files of a listing have are columns. A column of the same name in the files is not read: the folder's
value takes precedence, so that files can be ruled out unopened.

By these values, and by how each file spells the names of its columns, a file gets its own predicate: what remains of
the scan's, `FileResidualEvaluator`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from operator import methodcaller
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from ...errors import PredicateError, UnknownColumnError, UnreadableColumnError, first_line
from ...file.column_statistics import ColumnCompatibility
from ...file.file_columns import find_leaves, spellings
from ...hashing.coerce import parse_date
from ...predicate import tree
from ...predicate.map_lookup import find_column_of
from ...predicate.pruning import PruningPredicate
from ...predicate.reason import Reason
from ...predicate.row_filter import row_mask
from ...predicate.tree import Node
from ...util.arrow_values import empty_table, make_array, make_scalar, take
from .column_defaults import NO_DEFAULTS, ColumnDefaults
from .data_file import DataFile

if TYPE_CHECKING:
    from ...util.given_types import Paths

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_INT64 = 1 << 63
_HAS_PAIR = methodcaller("__contains__", "=")
_NO_COLUMNS = pa.table({})
_NULL = "__HIVE_DEFAULT_PARTITION__"


class ScanRequest(NamedTuple):
    """The arguments of `prune` that later steps on its report need."""

    node: Node | None
    timezone: str
    ignore_case: bool


class Partitions:
    """The partition columns of some files, with the values of each file.

    Values are percent-decoded as UTF-8. All values of a name together decide its type: int64 if each is an integer in
    canonical form (`07` is not), date32 if each is a date (`2026-01-31`), else string.
    `__HIVE_DEFAULT_PARTITION__` is NULL and decides nothing.

    Parameters
    ----------
    files : paths; no file is opened.
    given : the files, folders and patterns that were listed.
    columns : the partition columns that a dataset has, and their types; None to find both in the paths.

    Attributes
    ----------
    schema : of the partition columns, outer folders first.
    source : what says these values of a file, for people.

    Raises
    ------
    UnreadableColumnError
        A file has no value of one of these columns, or one of another type.
    """

    def __init__(self, files: Sequence[str], given: Paths = (), columns: pa.Schema | None = None):
        self._find_key: Callable[[str], str] = _parent_folder
        self.source = "its folder"
        self._positions: dict[str, int] = {}
        self._folders = _NO_COLUMNS if columns is None else empty_table(columns)
        self.schema = self._folders.schema
        self._values: dict[str, list[object]] = {}
        if not any(map(_HAS_PAIR, files)) if columns is None else not columns:
            return
        self._positions = {folder: i for i, folder in enumerate(dict.fromkeys(map(_parent_folder, files)))}
        roots = _find_roots(given) - {*files}
        pairs = [_parse_pairs(_path_below(folder, roots)) for folder in self._positions]
        if columns is None:
            names = [name for name in (pairs[0] if pairs else ()) if all(name in texts for texts in pairs)]
            self._folders = pa.table({name: _to_typed_array([texts[name] for texts in pairs]) for name in names})
        else:
            self._folders = pa.table([_read_column(field, pairs, self._positions) for field in columns], schema=columns)
            names = columns.names
        self.schema = self._folders.schema
        self._values = {name: self._folders[name].to_pylist() for name in names}

    @classmethod
    def of_table(cls, files: Sequence[str], values: pa.Table, source: str = "its table") -> Partitions:
        """Return the columns whose values are in a table's metadata.

        Parameters
        ----------
        files : paths.
        values : a row for each file.
        source : what says these values of a file, for people.
        """
        partitions = cls(())
        partitions._find_key, partitions.source = str, source
        partitions._positions = {path: i for i, path in enumerate(files)} if values.num_columns else {}
        partitions._folders, partitions.schema = values, values.schema
        partitions._values = {name: values[name].to_pylist() for name in values.column_names}
        return partitions

    def __bool__(self) -> bool:
        return bool(self._values)

    def select(self, files: Sequence[str]) -> Partitions:
        """Return the same columns, with the values of some of the files alone."""
        selected = copy(self)
        if self._values:
            rows = {key: self._positions[key] for key in dict.fromkeys(map(self._find_key, files))}
            selected._positions = {key: number for number, key in enumerate(rows)}
            selected._folders = take(self._folders, np.array([*rows.values()], np.int64))
            selected._values = {name: [values[row] for row in rows.values()] for name, values in self._values.items()}
        return selected

    def values(self, path: str) -> dict[str, object]:
        """Return the partition values of a file by name: int, date, str or None; of a table, of any type."""
        i = self.find_folder(path)
        return {name: values[i] for name, values in self._values.items()}

    def find_folder(self, path: str) -> int:
        """Return a number that files with the same partition values share; 0 without partition columns."""
        return self._positions[self._find_key(path)] if self._values else 0

    def make_residuals(
        self, node: Node | None, timezone: str = "UTC", *, ignore_case: bool = False, strict: bool = True
    ) -> PartitionResiduals:
        """Return what remains of a predicate for each file once its partition values are known.

        Parameters
        ----------
        node : the predicate; None if all rows match.
        timezone : as for `prune`.
        ignore_case : match names whatever their case.
        strict : False to treat comparisons that are impossible as true, and note a doubt.

        Raises
        ------
        PredicateError
            A literal cannot be compared exactly with a partition column.
        """
        columns = {} if node is None or not self._values else self._match_names(tree.columns(node), ignore_case)
        if not columns:
            return PartitionResiduals(node, self, {}, self._folders.select([]), ())
        folders = pa.table({name: _untyped_if_null(self._folders[column]) for name, column in columns.items()})
        truths: dict[int, list[bool]] = {}
        doubts: list[Reason] = []
        assert node is not None
        for leaf in tree.leaves(node):
            if leaf.column not in columns:
                continue
            try:
                truth = [value is True for value in row_mask(folders, leaf, timezone=timezone).to_pylist()]
            except PredicateError as error:
                if strict:
                    raise
                truth = [True] * len(folders)
                doubts.append(Reason(error.problem, column=leaf.column))
            truths[id(leaf)] = truth
        return PartitionResiduals(node, self, truths, folders, tuple(doubts))

    def _match_names(self, names: Iterable[str], ignore_case: bool) -> dict[str, str]:
        """Return {name: partition column} for the names in a predicate that mean one."""
        columns = {}
        for name in names:
            matches = [
                column for column in self._values if column == name or (ignore_case and column.lower() == name.lower())
            ]
            if len(matches) == 1:
                columns[name] = matches[0]
        return columns

    def resolve_name(self, name: str, ignore_case: bool) -> str:
        """Return the partition column that a name means, or the name itself."""
        return self._match_names([name], ignore_case).get(name, name)

    def split_columns(
        self, columns: Sequence[str] | None, ignore_case: bool
    ) -> tuple[Sequence[str] | None, Sequence[str] | None]:
        """Return the columns of a result, and those of them that are read from the files; None for all."""
        if columns is None or not self._values:
            return columns, columns
        names = [self.resolve_name(name, ignore_case) for name in columns]
        return names, [name for name in names if name not in self._values]

    def add_columns(self, table: pa.Table, path: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Append the partition columns to rows of a file.

        Parameters
        ----------
        table : rows.
        path : of the file; None if there are no rows, for the schema alone.
        columns : of the result; None for all.
        """
        result, values = table, {} if path is None or not self._values else self.values(path)
        for field in self.schema:
            if columns is not None and field.name not in columns:
                continue
            value = make_scalar(values.get(field.name), field.type)
            column = pa.repeat(value, table.num_rows) if value.is_valid else pa.nulls(table.num_rows, field.type)
            i = result.schema.get_field_index(field.name)
            result = result.append_column(field, column) if i < 0 else result.set_column(i, field, column)
        return result


class PartitionResiduals:
    """The residual of one predicate for each file; see `Partitions.make_residuals`.

    Attributes
    ----------
    doubts : comparisons with partition values that are impossible.
    """

    def __init__(
        self,
        node: Node | None,
        partitions: Partitions,
        truths: Mapping[int, list[bool]],
        folders: pa.Table,
        doubts: tuple[Reason, ...],
    ):
        self.doubts = doubts
        self._node = node
        self._partitions = partitions
        self._truths = truths
        self._folders = folders
        self._residuals: dict[tuple[bool, ...], Node | bool] = {}  # thousands of folders share a few
        self._descriptions: dict[int, str] = {}

    @property
    def is_unchanged(self) -> bool:
        """True if the residual of every file is the predicate itself."""
        return not self._truths

    def find_residual(self, path: str) -> Node | bool:
        """Return the residual over the columns of a file; True or False if its partition values decide alone."""
        if self._node is None:
            return True
        if self.is_unchanged:
            return self._node
        i = self._partitions.find_folder(path)
        truths = {key: truth[i] for key, truth in self._truths.items()}
        state = tuple(truths.values())
        if state not in self._residuals:  # concurrent threads all continue with the same object
            residual = tree.find_residual(self._node, lambda leaf: truths.get(id(leaf), leaf))
            self._residuals.setdefault(state, residual)
        return self._residuals[state]

    def describe(self, path: str) -> str:
        """Describe the partition values of a file, for the columns in the predicate."""
        i = self._partitions.find_folder(path)
        if i not in self._descriptions:
            values = self._folders.slice(i, 1).to_pylist()[0]
            described = (f"{name} is {'null' if value is None else value}" for name, value in values.items())
            self._descriptions[i] = f"{self._partitions.source} says {', '.join(described)}"
        return self._descriptions[i]


def resolve_names(file: DataFile, names: Iterable[str], ignore_case: bool) -> dict[str, str]:
    """Return {name: the file's spelling of it} for the names that a file has.

    Raises
    ------
    UnknownColumnError
        The file has several columns that differ only in case, and none that is spelled exactly so.
    """
    spelling = {}
    for name in names:
        if find_leaves(file.leaves, name):
            spelling[name] = name
        elif ignore_case and (matches := spellings(file.leaves, name)):
            if len(matches) > 1:
                problem = f"several columns match the name: {', '.join(matches)}"
                raise UnknownColumnError(problem, path=file.path, column=name)
            spelling[name] = matches[0]
    return spelling


class FileResidualEvaluator:
    """The predicate to evaluate on each file's rows: its residual, over columns as the file spells them.

    Parameters
    ----------
    request : the predicate, and how its names and literals are meant.
    partitions : what is known of each file's columns by its folder or table.
    trust : the columns of a file that are shown as other values than it stores; comparisons with them count as true.
    defaults : what is known of columns that files lack.
    strict : as in `Partitions.make_residuals`.
    """

    def __init__(
        self,
        request: ScanRequest,
        partitions: Partitions,
        trust: ColumnCompatibility | None = None,
        *,
        defaults: ColumnDefaults = NO_DEFAULTS,
        strict: bool = True,
    ):
        node, self._timezone, self._ignore_case = request
        self._predicate: Node | Literal[True] = True if node is None else node
        self._residuals = (
            partitions.make_residuals(node, self._timezone, ignore_case=self._ignore_case, strict=strict)
            if partitions
            else None
        )
        self._trust = trust
        self._defaults, self._strict = defaults, strict
        self._predicates: dict[tuple[object, ...], PruningPredicate] = {}
        self._weakened: dict[tuple[int, frozenset[str]], Node | bool] = {}
        self._decided: dict[tuple[int, tuple[str, ...]], Node | bool] = {}

    def predicate_for(self, file: DataFile) -> PruningPredicate | bool:
        """Return the predicate of a file; True if all of its rows match, False if none does.

        Files with the same residual and spelling share one object.
        """
        residual = self._predicate if self._residuals is None else self._residuals.find_residual(file.path)
        if self._trust is not None and not isinstance(residual, bool):
            residual = self._drop_untrusted(residual, file, self._trust)
        if self._defaults and not isinstance(residual, bool):
            residual = self._decide_absent(residual, file)
        if isinstance(residual, bool):
            return residual
        names = resolve_names(file, sorted(tree.columns(residual)), self._ignore_case)
        whole = [leaf.column for leaf in tree.leaves(residual) if isinstance(leaf, tree.OfWholeName)]
        ambiguous = {name for name in whole if len(find_leaves(file.leaves, name, self._ignore_case)) > 1}
        key = id(residual), tuple(names.items()), *sorted(ambiguous)
        if key not in self._predicates:  # concurrent threads all continue with the same object
            meant = tree.drop_whole_names(residual, lambda name: name not in ambiguous)
            self._predicates.setdefault(key, PruningPredicate(tree.rename_columns(meant, names), self._timezone))
        return self._predicates[key]

    def _drop_untrusted(self, residual: Node, file: DataFile, trust: ColumnCompatibility) -> Node | bool:
        untrusted = frozenset(map(find_column_of, file.find_doubts(trust)))
        if not untrusted:
            return residual
        key = id(residual), untrusted
        if key not in self._weakened:
            weakened = tree.find_residual(residual, lambda leaf: leaf.column in untrusted or leaf)
            self._weakened.setdefault(key, weakened)
        return self._weakened[key]

    def _decide_absent(self, residual: Node, file: DataFile) -> Node | bool:
        absent = self._defaults.find_absent(file.path, file.leaves)
        if tree.columns(residual).isdisjoint(absent):
            return residual
        key = id(residual), absent
        if key not in self._decided:
            decided = self._defaults.find_residual(residual, absent, strict=self._strict)
            self._decided.setdefault(key, decided)
        return self._decided[key]


def parse_folder(folder: str, decode: Callable[[str], str]) -> tuple[str, str | None] | None:
    """Return the column and the value that the name of a folder gives; None if it is not that of a partition.

    Parameters
    ----------
    folder : its name, without the path.
    decode : decodes name and value, in which special characters are percent-encoded; engines differ in how.
    """
    name, separator, value = folder.partition("=")
    if not separator:
        return None
    return decode(name), None if value == _NULL else decode(value)


def _parent_folder(path: str) -> str:
    return path.rpartition("/")[0]


def _find_roots(given: Paths) -> set[str]:
    """Return the folders that were given, and the parts of patterns before their first special character."""
    paths = [given] if isinstance(given, (str, bytes, os.PathLike)) else given
    roots = set()
    for path in map(os.fsdecode, paths):
        is_pattern = any(sign in path for sign in "*?[")
        root = _parent_folder(re.split(r"[*?\[]", path, maxsplit=1)[0]) if is_pattern else path
        roots.add(root.rstrip("/"))
    return roots


def _path_below(folder: str, roots: set[str]) -> str:
    """Return the part of a folder's path below the nearest root; the whole path if it is below none."""
    ancestor = folder
    while ancestor not in roots:
        parent = ancestor.rpartition("/")[0]
        if parent == ancestor:
            return folder
        ancestor = parent
    return folder[len(ancestor) :]


def _parse_pairs(folder: str) -> dict[str, str | None]:
    """Parse the `name=value` components of a path: {name: text}."""
    pairs: dict[str, str | None] = {}
    for part in folder.split("/") if "=" in folder else ():
        try:
            pair = parse_folder(part, _decode)
        except UnicodeError:  # a name that is not UTF-8 has no text
            continue
        if pair is not None and pair[0]:
            pairs.setdefault(*pair)
    return pairs


def _decode(text: str) -> str:
    decoded = unquote(text, errors="strict")
    decoded.encode()
    return decoded


def _untyped_if_null(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return a column to compare with; one of nulls alone loses its type, so that it compares with all literals."""
    return column if column.null_count < len(column) else pa.nulls(len(column))


def _read_column(field: pa.Field, pairs: Sequence[Mapping[str, str | None]], folders: Iterable[str]) -> pa.Array:
    """Return the values of a column of a given type in folders, of which `pairs` has the parsed names."""
    for folder, texts in zip(folders, pairs, strict=True):
        if field.name not in texts:
            problem = "files of this folder are in no folder of this partition column, which the dataset has"
            raise UnreadableColumnError(problem, path=folder, column=field.name)
    try:
        return make_array([texts[field.name] for texts in pairs], pa.string()).cast(field.type)
    except pa.ArrowException as error:
        problem = f"a folder's value is not of the dataset's type {field.type}: {first_line(error)}"
        raise UnreadableColumnError(problem, column=field.name) from None


def _to_typed_array(texts: list[str | None]) -> pa.Array:
    """Convert the values of a column to the type that fits all of them."""
    distinct = [text for text in dict.fromkeys(texts) if text is not None]
    if distinct and all(_INTEGER.fullmatch(text) and -_INT64 <= int(text) < _INT64 for text in distinct):
        return make_array([None if text is None else int(text) for text in texts], pa.int64())
    if distinct and all(_DATE.fullmatch(text) and parse_date(text) for text in distinct):
        return make_array([None if text is None else parse_date(text) for text in texts], pa.date32())
    return make_array(texts, pa.string())
