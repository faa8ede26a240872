"""Columns of the schema of a dataset or a table, as predicates and callers name them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ..errors import (
    ParquetBloomError,
    PredicateError,
    UnknownColumnError,
    UnreadableColumnError,
    UnsupportedTypeError,
    shortened,
)
from ..file.bloom_file import BloomFile
from ..file.file_columns import find_leaf, find_leaves, spellings, type_of
from ..file.metadata_cache import MetadataCache
from ..hashing.column_type import ColumnType, Kind, from_arrow
from ..predicate import tree
from ..predicate.tree import Node
from ..storage import Source, entry_for_identity, open_source
from ..util.lazy import late_module
from ..variant.variant_type import find_variant, is_variant
from .decode.open_data import open_file
from .model.column_defaults import NO_DEFAULTS, ColumnDefaults
from .model.data_file import DataFile, FileProjection, open_any
from .model.folder_partitions import Partitions, resolve_names
from .model.scan_plan import FilePlan

if TYPE_CHECKING:
    import difflib

    from ..util.given_types import FileSystem
else:
    difflib = late_module("difflib")

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
    filesystem: FileSystem | None,
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
    name: str,
    paths: Sequence[str],
    partitions: Partitions,
    *,
    filesystem: FileSystem | None,
    cache: MetadataCache | None,
) -> UnknownColumnError:
    """Return the error for a name that no file has, with the columns that it resembles."""
    names = [*partitions.schema.names, *_collect_names(paths[:_FILES_FOR_NAMES], filesystem, cache)]
    in_files = f" in any of {len(paths):,} files" if len(paths) > 1 else ""
    path = None if in_files or not paths else paths[0]
    return UnknownColumnError(f"no such column{in_files}{suggest_names(name, names)}", path=path, column=name)


def _collect_names(paths: Iterable[str], filesystem: FileSystem | None, cache: MetadataCache | None) -> Iterator[str]:
    """Yield the dotted names of all columns and of the groups around them."""
    for path in paths:
        try:
            with _open(path, filesystem, cache) as source:
                leaves = [tuple(leaf.path) for leaf in open_any(source, cache).leaves]
        except ParquetBloomError:
            continue
        for leaf in leaves:
            yield from (".".join(leaf[: depth + 1]) for depth in range(len(leaf)))


def _open(path: str, filesystem: FileSystem | None, cache: MetadataCache | None) -> Source:
    """Open a file; an object whose footer is cached, without a request."""
    known = None if cache is None else entry_for_identity(path, filesystem, cache.last_identity(path))
    return open_source(path, filesystem, known)


def suggest_names(name: str, names: Iterable[str], can_ignore_case: bool = True) -> str:
    """Return an addition to a message that names columns like `name`, or says what paths of Variants are for, or "".

    Parameters
    ----------
    can_ignore_case : whether the caller has an option to ignore case.
    """
    unique = list(dict.fromkeys(islice(names, _MOST_NAMES)))
    if name.partition(":")[0] in unique and name not in unique:
        condition = f"{name.partition('::')[0]}::TYPE = ..."
        return f"; paths of a Variant are for conditions: find --where '{condition}', or read_table"
    folded = name.lower()
    otherwise = [one for one in unique if one.lower() == folded]
    if otherwise:
        way_out = f": spell it so, or {_IGNORE_CASE}" if can_ignore_case else ""
        return f"; {_list_known_names(otherwise)} differs in case only{way_out}"
    by_folded = {one.lower(): one for one in reversed(unique)}
    inner = [one for one in unique if one.lower().endswith(f".{folded}")]
    close = [by_folded[one] for one in difflib.get_close_matches(folded, by_folded, n=_SUGGESTIONS)]
    likely = list(dict.fromkeys(inner + close))[:_SUGGESTIONS]
    return f"; did you mean {_list_known_names(likely)}?" if likely else ""


def _list_known_names(names: Sequence[str]) -> str:
    return " or ".join(f"'{shortened(name)}'" for name in names[:_SUGGESTIONS])


def select_table_columns(
    schema: pa.Schema, columns: Sequence[str] | None, case_sensitive: bool = True, kind: str = "table"
) -> tuple[list[str], pa.Schema]:
    """Return the columns to read of a table, top-level ones or dotted fields of structs, and the schema of the result.

    Parameters
    ----------
    kind : what errors call it.

    Raises
    ------
    UnknownColumnError
        The table has no such column.
    """
    if columns is None:
        return schema.names, schema
    spellings = _Spellings(schema)
    names = [spellings.spell(name, not case_sensitive, kind) for name in columns]
    top_level = _fields_by_name(schema)
    paths = _group_paths(_find_path(top_level, name) for name in dict.fromkeys(names))
    fields = [_prune_field(schema.field(top), below) for top, below in paths.items()]
    return names, pa.schema(fields, schema.metadata)


def make_names_error(columns: str) -> ParquetBloomError:
    """Return the error of a string in place of the columns of a result: it would be taken for its letters."""
    return ParquetBloomError(f"columns must be a list of names, got a string; give [{columns!r}]")


def select_columns(
    schema: pa.Schema, columns: Sequence[str] | None, case_sensitive: bool = True
) -> tuple[Sequence[str] | None, pa.Schema | None]:
    """Return the columns to read of a dataset with a schema, and the schema of the result.

    The latter is None where files have to say it: for leaves of structs, and names that differ by their case alone.
    """
    fields = {name if case_sensitive else name.lower(): schema.field(name) for name in schema.names}
    if len(fields) < len(schema.names):
        return columns, None
    names = list(fields) if columns is None else [name if case_sensitive else name.lower() for name in columns]
    if not names or any(name not in fields for name in names):
        return columns, None
    chosen = [fields[name] for name in dict.fromkeys(names)]
    return [field.name for field in chosen], pa.schema(chosen, schema.metadata)


def find_table_column_type(
    schema: pa.Schema, name: str, case_sensitive: bool = True, kind: str = "table"
) -> ColumnType:
    """Return the type of a column of a table, a top-level one or a dotted field of structs.

    Parameters
    ----------
    kind : what errors call it.

    Raises
    ------
    UnknownColumnError
        The table has no such column.
    UnsupportedTypeError
        Its type is one whose values cannot be compared.
    """
    path = _find_path(_fields_by_name(schema), _Spellings(schema).spell(name, not case_sensitive, kind))
    field = schema.field(path[0])
    for part in path[1:]:
        field = field.type.field(part)
    try:
        column_type = from_arrow(field.type)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(error.problem, column=name) from None
    if column_type.kind is Kind.UNKNOWN:
        raise UnsupportedTypeError(f"values of the type {column_type} cannot be compared", column=name)
    return column_type


def has_column(schema: pa.Schema, column: str, case_sensitive: bool = True) -> bool:
    """Return whether a schema has a top-level column, or a dotted member of structs."""

    def is_named(field: pa.Field, name: str) -> bool:
        return field.name == name or (not case_sensitive and field.name.lower() == name.lower())

    if column in schema.names or any(is_named(field, column) for field in schema):
        return True
    fields = list(schema)
    names = column.split(".")
    for depth, name in enumerate(names, 1):
        found = next((field for field in fields if is_named(field, name)), None)
        if found is None:
            return False
        if not pa.types.is_struct(found.type):
            return depth == len(names) or not pa.types.is_primitive(found.type)
        fields = list(found.type)
    return True


def spell_columns(node: Node | None, schema: pa.Schema, ignore_case: bool, resolved: bool = False) -> Node | None:
    """Return a predicate with its columns spelled as a table spells them.

    Parameters
    ----------
    resolved : whether an engine has resolved the names, and evaluates the predicate itself; it may get more rows.

    Raises
    ------
    UnknownColumnError
        The table has no such column, or several that differ in case alone.
    PredicateError
        A name means both a column and a field of a struct.
    """
    if node is None:
        return None
    spellings = _Spellings(schema)
    spelled = {name: spellings.spell(name, ignore_case) for name in sorted(tree.columns(node))}
    twice = [name for name in spelled.values() if spellings.counts[name] > 1]
    if twice and resolved:
        return None  # which of the two is meant, the name does not say: all rows are read
    if twice:
        problem = "the table has a column of this name, with the dot, and a field of a struct that is called so"
        raise PredicateError(f"{problem}: rename one, or filter the rows that are read", column=twice[0])
    return tree.rename_columns(node, spelled)


def require_same_columns(schema: pa.Schema, expected: pa.Schema, table: str) -> None:
    """Raise UnreadableColumnError unless a table still has the columns of a dataset that was opened before."""
    for field in expected:
        i = schema.get_field_index(field.name)
        if i < 0 or schema.field(i).type != field.type:
            now = "it has no such column any more" if i < 0 else f"it is {schema.field(i).type} now, not {field.type}"
            problem = f"the table's schema has changed: {now}; open the dataset again"
            raise UnreadableColumnError(problem, path=table, column=field.name)


class _Spellings:
    """The names of a schema, by which others are spelled.

    Attributes
    ----------
    counts : how often each name occurs.
    """

    def __init__(self, schema: pa.Schema):
        self._schema = schema
        self.counts = Counter(_list_names(schema))

    @cached_property
    def _by_folded(self) -> dict[str, list[str]]:
        folded: dict[str, list[str]] = {}
        for name in self.counts:
            folded.setdefault(name.lower(), []).append(name)
        return folded

    def spell(self, name: str, ignore_case: bool, kind: str = "table") -> str:
        """Return a name as the schema spells it."""
        matches = [name] if name in self.counts else []
        if ignore_case and not matches:
            matches = self._by_folded.get(name.lower(), [])
        if not matches:
            whole = find_variant(self._schema, name)
            if whole is not None:
                problem = f"a part of a Variant is no column: name '{whole}', or in conditions {whole}:path::TYPE"
                raise UnknownColumnError(problem, column=name)
            similar = suggest_names(name, self.counts, can_ignore_case=kind == "table")  # keys are spelled exactly
            raise UnknownColumnError(f"the {kind} has no such column{similar}", column=name)
        if len(matches) > 1:
            raise UnknownColumnError(f"several columns match the name: {', '.join(matches)}", column=name)
        return matches[0]


def _fields_by_name(fields: Iterable[pa.Field]) -> dict[str, pa.Field]:
    return {field.name: field for field in fields}


def _find_path(fields: Mapping[str, pa.Field], name: str) -> tuple[str, ...]:
    """Return the path of a column that a schema of some fields has; a name with a dot precedes a field."""
    path, rest = [], name
    while rest not in fields:
        parts = rest.split(".")
        prefixes = {".".join(parts[:depth]) for depth in range(1, len(parts))}
        found = [one for one in prefixes if one in fields and pa.types.is_struct(fields[one].type)]
        top = found[0] if len(found) == 1 else next(one for one in fields if one in {*found})
        path.append(top)
        rest, fields = rest[len(top) + 1 :], _fields_by_name(fields[top].type)
    return (*path, rest)


def _group_paths(paths: Iterable[tuple[str, ...]]) -> dict[str, list[tuple[str, ...]]]:
    """Return, by the first name of some paths, what follows it."""
    below: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    return below


def _prune_field(field: pa.Field, paths: Sequence[tuple[str, ...]]) -> pa.Field:
    """Return a field with those of its parts only to which some paths lead."""
    if not all(paths):
        return field
    below = _group_paths(paths)
    parts = [_prune_field(part, below[part.name]) for part in field.type if part.name in below]
    return field.with_type(pa.struct(parts))


def _list_names(schema: pa.Schema) -> Iterator[str]:
    """Yield the names of all columns and of the fields of structs, dotted, but not of the parts of Variants."""
    for field in schema:
        yield from _list_below(field.name, field.type)


def _list_below(name: str, arrow_type: pa.DataType) -> Iterator[str]:
    yield name
    if pa.types.is_struct(arrow_type) and not is_variant(arrow_type):  # what files have in these differs
        for field in arrow_type:
            yield from _list_below(f"{name}.{field.name}", field.type)


class Projection:
    """The columns of a result.

    Parameters
    ----------
    columns : top-level columns or dotted leaves; None for all.
    partitions : the partition columns, which are not read from the files.
    ignore_case : match names whatever their case.
    defaults : of the table whose files are read.
    """

    def __init__(
        self,
        columns: Sequence[str] | None,
        partitions: Partitions,
        ignore_case: bool = False,
        defaults: ColumnDefaults = NO_DEFAULTS,
    ):
        self.columns, self._file_columns = partitions.split_columns(columns, ignore_case)
        self._partitions = partitions
        self._ignore_case = ignore_case
        self._defaults = defaults
        self._lock = threading.Lock()
        self._spellings: dict[str, str] = {}  # of the first file that has a column

    @property
    def is_ambiguous(self) -> bool:
        """Whether names may be spelled in several ways."""
        return self._ignore_case and self._file_columns is not None

    def project(self, file: DataFile) -> FileProjection:
        """Return the columns to read of a file."""
        if self._file_columns is None:
            return FileProjection(None, [*self._defaults.find_absent(file.path, file.leaves)], file.schema)
        spelling = resolve_names(file, self._file_columns, self._ignore_case)
        with self._lock:
            self._spellings = spelling | self._spellings
        names = [spelling[name] for name in self._file_columns if name in spelling]
        absent = [name for name in self._file_columns if name not in spelling]
        if not names:
            single = (field.name for field in file.schema if not pa.types.is_nested(field.type))
            names = [next(single, file.schema.names[0])]  # others may be large
            return FileProjection(names, absent, file.select_schema(names), is_counter=True)
        return FileProjection(names, absent, file.select_schema(names))

    def add_absent(self, table: pa.Table, projection: FileProjection) -> pa.Table:
        """Add the columns that a file does not have to rows of it, and leave out what only counts rows.

        They are null, unless the table gives them a default.
        """
        if projection.is_counter:
            table = table.select([])
        if not projection.absent:
            return table
        tops = dict.fromkeys(self._spellings.get(name, name).split(".")[0] for name in projection.absent)
        known = {*table.schema.names}
        missing = [name for name in tops if name not in known]
        if not missing:
            return table
        added = [self._defaults.repeat(name, table.num_rows) for name in missing]
        fields = [pa.field(name, column.type) for name, column in zip(missing, added, strict=True)]
        schema = pa.schema([*table.schema, *fields], table.schema.metadata)
        return pa.Table.from_arrays([*table.columns, *added], schema=schema)

    def sort(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema of files' columns in the order in which they were asked for."""
        if self._file_columns is None:
            return schema

        def fold(name: str) -> str:  # which file was first to show its spelling is up to threads
            return name.lower() if self._ignore_case else name

        tops = [fold(self._spellings.get(name, name)).split(".")[0] for name in self._file_columns]
        places = {name: place for place, name in enumerate(dict.fromkeys(tops))}
        return pa.schema(sorted(schema, key=lambda field: places.get(fold(field.name), len(places))), schema.metadata)

    def add_partitions(self, table: pa.Table, path: str | None = None) -> pa.Table:
        """Add the partition columns of the result to rows of a file."""
        return self._partitions.add_columns(table, path, self.columns)

    def find_elsewhere(
        self,
        plans: Sequence[FilePlan],
        filesystem: FileSystem | None,
        cache: MetadataCache | None,
        note: Callable[[Source], None],
    ) -> list[pa.Schema]:
        """Find the columns that no file projected so far has in other files, and return their schemas.

        Parameters
        ----------
        plans : of all files. Those of which nothing is read are opened only while a column is missing.
        cache : of footers.
        note : called with each file that was opened, to count what was read of it.

        Raises
        ------
        UnknownColumnError
            No file has one of the columns.
        """
        schemas = []
        missing = set(self._file_columns or ()) - self._spellings.keys()
        for plan in plans if missing else ():
            try:
                with open_file(plan.path, filesystem, cache) as file:
                    note(file.source)
                    spelling = resolve_names(file, missing, self._ignore_case)
                    if spelling:
                        schemas.append(file.select_schema(list(spelling.values())))
                        missing -= spelling.keys()
                        self._spellings = spelling | self._spellings
            except ParquetBloomError:
                continue  # no row of the file is read, so its error does not matter
            if not missing:
                break
        if missing and plans:
            paths = [plan.path for plan in plans]
            raise make_unknown_column_error(min(missing), paths, self._partitions, filesystem=filesystem, cache=cache)
        return schemas
