"""What a Delta or Iceberg table consists of at one version: its files, their columns and their deleted rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ParquetBloomError, UnreadableColumnError
from ..file.file_columns import Named, find_leaves
from ..predicate.pruning_statistics import PruningStatisticsArray
from ..redaction import redacted, shown_redacted
from ..util.arrow_values import keep

if TYPE_CHECKING:
    from pyroaring import BitMap64


RowNumbers = range | NDArray[np.int64]
"""Rows of a file, counted from its first one, ascending."""

ReadRows = Callable[[Sequence[str]], pa.Table]
"""Reads top-level columns of a table, by their names in it and as its types, in rows that the caller has chosen."""


class DeletedValues(Protocol):
    """Deletes rows by their values. Several threads may use it at once."""

    def find_columns(self) -> list[str]:
        """Return the top-level columns whose values decide; none if no row is deleted.

        Raises
        ------
        ParquetBloomError
            They cannot be determined.
        """

    def find_deleted(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Return which rows are deleted.

        Parameters
        ----------
        rows : these columns, with the names and types of the table.

        Raises
        ------
        ParquetBloomError
            It cannot be determined.
        """


class DeletedRows(Protocol):
    """The rows of one data file that its table has deleted. Several threads may use it at once.

    Attributes
    ----------
    values : what deletes rows of the file by their values, the same object for files that have it in common; or None.
    """

    @property
    def values(self) -> DeletedValues | None: ...

    def find_positions(self, rows: RowNumbers) -> NDArray[np.int64]:
        """Return those of some rows that are deleted by their positions, ascending.

        Raises
        ------
        ParquetBloomError
            They cannot be determined; the file's rows must not be shown.
        """


class RowsOfFile(NamedTuple):
    """Some rows of a file, and which of its rows are deleted; None for none of them."""

    path: str
    deleted: DeletedRows | None
    rows: RowNumbers


def find_deleted(parts: Sequence[RowsOfFile], read: ReadRows) -> NDArray[np.bool_]:
    """Return which rows of files are deleted, those of one file after those of the other.

    Parameters
    ----------
    read : reads columns in all of these rows, if values decide on some.

    Raises
    ------
    ParquetBloomError
        It cannot be determined; these rows must not be shown.
    """
    ends = np.cumsum([len(part.rows) for part in parts], dtype=np.int64).tolist()
    result = np.zeros(ends[-1] if ends else 0, np.bool_)
    by_values: dict[int, tuple[str, DeletedValues, NDArray[np.bool_]]] = {}
    for (path, deleted, rows), end in zip(parts, ends, strict=True):
        if deleted is None or not len(rows):
            continue
        here = slice(end - len(rows), end)
        with naming_file(path):
            positions = deleted.find_positions(rows)
        result[here][positions - rows.start if isinstance(rows, range) else np.searchsorted(rows, positions)] = True
        values = deleted.values
        if values is not None:
            if id(values) not in by_values:
                by_values[id(values)] = path, values, np.zeros(len(result), np.bool_)
            by_values[id(values)][2][here] = True
    for path, values, chosen in by_values.values():
        with naming_file(path):
            columns = values.find_columns()
            if columns:
                table = read(columns)
                if len(table) != len(result):
                    problem = f"{len(table)} rows were read for its equality deletes instead of {len(result)}"
                    raise ParquetBloomError(f"its deleted rows cannot be determined: {problem}")
                result[chosen] |= values.find_deleted(table if chosen.all() else keep(table, pa.array(chosen)))
    return result


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Name a file in errors that do not."""
    try:
        yield
    except ParquetBloomError as error:
        error.path = error.path or path
        raise


def find_in_bitmap(bitmap: BitMap64, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return those of some rows, ascending, that are in a bitmap."""
    found = bitmap & type(bitmap)(np.ascontiguousarray(rows).astype(np.uint64))
    return np.frombuffer(found.to_array(), np.uint64).astype(np.int64)


class TableFile(NamedTuple):
    """A data file: its absolute path, or URL as `parquet_bloom.open` takes it, and its size by the table's metadata."""

    path: str
    size: int


@dataclass(frozen=True)
class TableColumn:
    """A column of a table, or a part of a nested one, and how data files name it.

    Attributes
    ----------
    name : in the table.
    kind : whether it has fields ("struct"), elements ("list"), keys and values ("map"), or none of them ("value").
    field_id : in files that have field ids; None for a table whose columns have none.
    names : in other files; none where only the field id identifies it.
    parts : the fields of a struct; the element of a list; the key and the value of a map.
    """

    name: str
    kind: Literal["value", "struct", "list", "map"] = "value"
    field_id: int | None = None
    names: tuple[str, ...] = ()
    parts: tuple[TableColumn, ...] = ()


@shown_redacted
@dataclass(frozen=True, eq=False)
class TableSnapshot(ABC):
    """A table at one version.

    Attributes
    ----------
    kind : "delta" or "iceberg".
    table_id : the table's identifier, which does not change when the table is moved or written to.
    version : Delta's version or Iceberg's snapshot id; None for an Iceberg table without a snapshot.
    root : the table's folder, or its URL.
    schema : of the table's rows, partition columns included.
    files : the data files of the version, sorted by path.
    columns : how files name the table's columns; None if as the table does, whatever their field ids.
    partition_values : the columns that are taken from the metadata instead of the files: a row for each file, in the
        types of `schema`.
    deletes : {path: rows of the file that are deleted}, of files with deleted rows only.
    undefined : {path: {column: why it cannot be null}} for columns that a file may lack without being null in its rows,
        and of which the value is not known here.
    defaults : a row of the values that top-level columns have in files that lack them, in the types of `schema`. Other
        columns are null there.
    storage_options : settings of the store that has the files, where the metadata's library knows them.
    """

    kind: Literal["delta", "iceberg", "paimon"]
    table_id: str
    version: int | None
    root: str
    schema: pa.Schema
    files: Sequence[TableFile]
    columns: tuple[TableColumn, ...] | None
    partition_values: pa.Table
    deletes: Mapping[str, DeletedRows] = field(default_factory=dict, repr=False)
    undefined: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    defaults: pa.Table = field(default_factory=lambda: pa.table({}), repr=False, kw_only=True)
    storage_options: Mapping[str, object] | None = field(default=None, repr=False, kw_only=True)

    @abstractmethod
    def find_statistics(self, column: str) -> PruningStatisticsArray | None:
        """Return what the metadata says of a column's values, an entry for each of `files`; None if nothing.

        Parameters
        ----------
        column : a top-level column that is not in `partition_values`, or a dotted field of structs.
        """

    def name_files(self) -> Mapping[str, str]:
        """Return {path: name of the file in the table's metadata}, of all files."""
        return {file.path: file.path for file in self.files}

    def list_defaults(self, path: str) -> list[str]:
        """Return the columns of `defaults` that have these values in all rows of a file, if it lacks them."""
        undefined = self.undefined.get(path, {})
        return [name for name in self.defaults.schema.names if name not in undefined]

    def require_defined(self, path: str, leaves: Sequence[Named], names: Sequence[str]) -> None:
        """Raise UnreadableColumnError if a file lacks a column that is read, and is not null in its rows.

        Parameters
        ----------
        path, leaves : the file, and its columns as the table names them.
        names : the columns that are read, dotted for fields of structs.
        """
        undefined = self.undefined.get(path, {})
        read = {*names}
        above = {top for name in names for top in _list_paths_to(name)} if undefined else ()
        for column, problem in undefined.items():
            is_read = column in above or not read.isdisjoint(_list_paths_to(column))
            if is_read and not find_leaves(leaves, column):
                raise UnreadableColumnError(problem, path=path, column=column)


def _list_paths_to(column: str) -> list[str]:
    """Return a dotted path, and those of the groups around it."""
    parts = column.split(".")
    return [".".join(parts[: depth + 1]) for depth in range(len(parts))]


class FileChange(NamedTuple):
    """What several commits did to a file: whether the first removed it, and whether it is live after the last."""

    was_removed: bool
    is_live: bool


@dataclass(frozen=True)
class TableChanges:
    """The files that have changed from one version of a table to its latest; its columns have not.

    Attributes
    ----------
    kind, table_id, version, root, columns : as of `TableSnapshot`, at the latest version.
    files : {path: what happened to the file}.
    """

    kind: Literal["delta", "iceberg", "paimon"]
    table_id: str
    version: int | None
    root: str
    columns: tuple[TableColumn, ...] | None
    files: Mapping[str, FileChange]


class Table(ABC):
    """A Delta or Iceberg table, as `parquet_bloom.delta` and `parquet_bloom.iceberg` return it.

    Attributes
    ----------
    name : the table's folder, URL, metadata file or name in its catalog.
    storage_options : settings of the store that has its files, by obstore's names; None for the defaults.
    outside : whether files outside of the table's folder are accepted.
    """

    kind: Literal["delta", "iceberg", "paimon"]
    name: str
    storage_options: Mapping[str, object] | None = None
    outside: bool = False

    @abstractmethod
    def read_snapshot(self) -> TableSnapshot:
        """Read the table's metadata: at the version that was requested, or else at the latest one.

        Raises
        ------
        StorageError
            There is no such table or version, or the library that reads it fails.
        ParquetBloomError
            The library is missing, or the table's metadata is not understood.
        """

    def read_changes(self, table_id: str, version: int) -> TableChanges | None:
        """Read what has changed since a version; None if that cannot be told, or if more than files has changed.

        Parameters
        ----------
        table_id : the table that the version is of.

        Raises
        ------
        StorageError, ParquetBloomError
            As `read_snapshot`.
        """
        return None

    def describe(self, snapshot: TableSnapshot) -> dict[str, object]:
        """Return what opens the table again, at its latest version, in JSON's types: without credentials or settings.

        Parameters
        ----------
        snapshot : of this table.
        """
        return {self.kind: snapshot.root} | ({"outside": True} if self.outside else {})

    def latest(self) -> Table:
        """Return the same table at its latest version, whichever version this one is read at."""
        return self

    def __repr__(self) -> str:
        return redacted(f"<parquet_bloom {self.kind} table {self.name!r}>")


class ReadTable(Table):
    """A table that has been read, and is not read again.

    Parameters
    ----------
    snapshot : what it consists of.
    table : the table that it was read of; None for one that is known by its root.
    outside : as of `Table`, if there is no `table`.
    """

    def __init__(self, snapshot: TableSnapshot, table: Table | None = None, outside: bool = False):
        self.kind, self.snapshot = snapshot.kind, snapshot
        self.name = snapshot.root if table is None else table.name
        self.outside = outside if table is None else table.outside
        self.storage_options = None if table is None else table.storage_options

    def read_snapshot(self) -> TableSnapshot:
        return self.snapshot

    def __str__(self) -> str:
        kind = "Delta" if self.kind == "delta" else "Iceberg"
        version = f"at {'version' if self.kind == 'delta' else 'snapshot'} {self.snapshot.version}"
        return f"{kind} table {self.name} {'without a snapshot' if self.snapshot.version is None else version}"


@dataclass(frozen=True)
class TableFiles:
    """The data files of a table at one version.

    Attributes
    ----------
    kind : "delta" or "iceberg".
    table_id : the table's identifier, which does not change when the table is moved or written to.
    version : Delta's version or Iceberg's snapshot id; None for an Iceberg table without a snapshot.
    root : the table's folder, or its URL.
    files : the data files of the version, sorted by path. They still contain rows removed by deletion vectors or delete
        files: a value found in such a file may be deleted, but a value that is not found is absent.
    outside : whether files outside of the root were accepted.
    deletes : paths of files of which rows have been deleted: by deletion vectors in a Delta table, by delete files in
        an Iceberg table.
    snapshot : everything else that is known of the version.
    """

    kind: str
    table_id: str
    version: int | None
    root: str
    files: list[TableFile]
    outside: bool = False
    deletes: frozenset[str] = frozenset()
    snapshot: TableSnapshot | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, snapshot: TableSnapshot, outside: bool) -> TableFiles:
        files, deletes = list(snapshot.files), frozenset(snapshot.deletes)
        identity = snapshot.kind, snapshot.table_id, snapshot.version, snapshot.root
        return cls(*identity, files, outside, deletes, snapshot)

    def as_table(self) -> Table:
        """Return the table at this version."""
        assert self.snapshot is not None
        return ReadTable(self.snapshot, outside=self.outside)


def as_integer(value: object) -> int | None:
    """Return an integer of any library as Python's; None for anything else, also for a boolean."""
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    return int(plain) if isinstance(plain, Integral) and not isinstance(plain, bool) else None


def make_missing_error(kind: Literal["Delta", "Iceberg"], package: str, path: str | None) -> ParquetBloomError:
    """Return the error for a table whose library is not installed."""
    problem = f"{kind} tables are read by {package}, which is not installed"
    return ParquetBloomError(f"{problem}: pip install 'parquet-bloom[{kind.lower()}]'", path=path)
