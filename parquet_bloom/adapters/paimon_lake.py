"""An Apache Paimon table, read by pypaimon's plan: data files by this package where their rows are the table's.

Only pypaimon knows how the rows of files are merged, so what its plan does not call raw is read by pypaimon, and so is
all that this package might understand in another way: files of other formats, types that were changed, files elsewhere.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..predicate import parse, tree
from ..predicate.row_filter import row_mask
from ..predicate.tree import And, Equal, In, Node
from ..scan.dataset import Dataset, dataset
from ..scan.named_columns import make_names_error, select_table_columns, spell_columns
from ..storage import is_url
from ..tables.table_snapshot import DeletedValues, RowNumbers, Table, TableColumn, TableFile, TableSnapshot
from ..util.arrow_values import keep
from .needed_library import needed_library

with needed_library("pypaimon", "PaimonLake needs pypaimon", "pypaimon"):
    from pypaimon.common.predicate_builder import PredicateBuilder
    from pypaimon.deletionvectors.deletion_vector import DeletionVector
    from pypaimon.read.split import DataSplit
    from pypaimon.schema.data_types import ArrayType, AtomicType, MapType, PyarrowFieldParser, RowType
    from pypaimon.snapshot.time_travel_util import TimeTravelUtil
    from pypaimon.table.file_store_table import FileStoreTable

if TYPE_CHECKING:
    from pypaimon.common.file_io import FileIO
    from pypaimon.common.predicate import Predicate as PaimonPredicate
    from pypaimon.manifest.schema.data_file_meta import DataFileMeta
    from pypaimon.read.split import Split
    from pypaimon.schema.data_types import DataField, DataType
    from pypaimon.table.source.deletion_file import DeletionFile

    from ..scan.plan.index_level import Index
    from ..util.given_types import Predicate


class PaimonLake:
    """A table of pypaimon, of which `read` reads only the files and row groups that can hold a match.

    The plan is pypaimon's. Parquet files of splits that it calls raw are pruned by statistics, filters and an index,
    and read without the rows that deletion vectors delete. All other splits are read by pypaimon itself, and their rows
    filtered. It is planned anew when the table has another snapshot.

    Parameters
    ----------
    table : of pypaimon, as `catalog.get_table` returns it; also a copy of it that travels in time.
    index : of its files, as `parquet_bloom.dataset` takes it: `LakeIndex.append(lake.files)` adds those it lacks. One
        that is open stays in memory between calls.
    storage_options : settings of the store that has the files; needed for files in object stores, {} for those of the
        environment. Without them pypaimon reads these files.

    Examples
    --------
    >>> lake = PaimonLake(catalog.get_table("db.events"))  # doctest: +SKIP
    >>> lake.read("user_id = 4711", ["at", "path"])  # doctest: +SKIP
    """

    def __init__(
        self, table: FileStoreTable, *, index: Index | None = None, storage_options: Mapping[str, object] | None = None
    ):
        if not isinstance(table, FileStoreTable):
            problem = (
                f"a Paimon table is one of pypaimon's, as catalog.get_table returns it, not {type(table).__name__}"
            )
            raise ParquetBloomError(problem)
        self._table, self._index, self._storage_options = table, index, storage_options
        self.schema: pa.Schema = PyarrowFieldParser.from_paimon_schema(table.fields)
        self._planned: tuple[object, _PaimonPlan] | None = None

    def __repr__(self) -> str:
        return f"<PaimonLake of {self._name!r}>"

    @property
    def files(self) -> list[str]:
        """The Parquet files that are not left to pypaimon, as of the latest snapshot."""
        return [file.path for part in self._plan().parts for file in part.snapshot.files]

    @property
    def left(self) -> list[str]:
        """Why splits are left to pypaimon: a line for each of them, as of the latest snapshot."""
        return [reason for _, reason in self._plan().left]

    def dataset(self) -> Dataset:
        """Return a dataset of the latest snapshot, for engines and the other adapters.

        Raises
        ------
        ParquetBloomError
            Some of the splits are left to pypaimon, or files name a column in several ways.
        """
        plan = self._plan()
        if plan.left:
            problem = f"{len(plan.left)} of its splits are for pypaimon to read ({plan.left[0][1]})"
            raise ParquetBloomError(f"{problem}: compact the table, or use PaimonLake.read", path=self._name)
        if len(plan.parts) > 1:
            problem = "a column was renamed, and files with the old name are left"
            raise ParquetBloomError(f"{problem}: compact the table, or use PaimonLake.read", path=self._name)
        return self._open(plan.parts[0] if plan.parts else self._make_files(plan.snapshot_id, None, []))

    def read(
        self,
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        *,
        dialect: str | None = None,
        timezone: str = "UTC",
    ) -> pa.Table:
        """Read the rows of the latest snapshot that match a predicate, in no particular order.

        Parameters
        ----------
        where, columns, dialect, timezone : as for `Dataset.scan`.

        Raises
        ------
        PredicateError, UnknownColumnError
            The predicate cannot be parsed, or there is no such column.
        """
        if isinstance(columns, str):
            raise make_names_error(columns)
        node = spell_columns(None if where is None else parse(where, dialect=dialect), self.schema, ignore_case=False)
        _, schema = select_table_columns(self.schema, columns)
        plan = self._plan()
        pushed = self._translate(node) if plan.left and node is not None else None
        if pushed is not None:
            plan = self._make_plan(pushed)
        parts = [self._open(part).scan(node, columns, timezone=timezone).to_arrow() for part in plan.parts]
        if plan.left:
            parts.append(self._read_left([split for split, _ in plan.left], pushed, node, schema, timezone))
        rows = [part.cast(schema) for part in parts if part.num_rows]
        return pa.concat_tables(rows) if rows else schema.empty_table()

    def _read_left(
        self,
        splits: Sequence[Split],
        pushed: PaimonPredicate | None,
        node: Node | None,
        schema: pa.Schema,
        timezone: str,
    ) -> pa.Table:
        """Read splits by pypaimon, with what of the predicate it understands, and filter the rows."""
        needed = {*schema.names}
        for name in () if node is None else tree.columns(node):
            needed.add(name if name in self.schema.names else name.partition(".")[0])
        names = [name for name in self.schema.names if name in needed]
        builder = self._table.new_read_builder().with_projection(names)
        if pushed is not None:
            builder = builder.with_filter(pushed)
        rows = builder.new_read().to_arrow(list(splits))
        if node is not None:
            rows = keep(rows, row_mask(rows, node, timezone=timezone))
        return rows.select(schema.names)

    def _open(self, part: _PaimonFiles) -> Dataset:
        if part.opened is None:
            part.opened = dataset(part, index=self._index, storage_options=self._storage_options)
        return part.opened

    # -------------------------------------------------------------------------------------------------- planning

    @property
    def _name(self) -> str:
        return str(self._table.identifier.get_full_name())

    def _plan(self) -> _PaimonPlan:
        """Return the plan of all rows, of the latest snapshot or of the one that the table travels to."""
        snapshot = TimeTravelUtil.resolve_snapshot(self._table)
        # After a rollback another snapshot gets the same number.
        key = None if snapshot is None else (snapshot.id, snapshot.base_manifest_list, snapshot.delta_manifest_list)
        if key is None or self._planned is None or self._planned[0] != key:
            plan = self._make_plan(None)
            if key is None or plan.snapshot_id != snapshot.id:  # committed meanwhile
                return plan
            self._planned = key, plan
        return self._planned[1]

    def _make_plan(self, predicate: PaimonPredicate | None) -> _PaimonPlan:
        """Let pypaimon plan, and divide what it has planned."""
        builder = self._table.new_read_builder()
        if predicate is not None:
            builder = builder.with_filter(predicate)
        planned = builder.new_scan().plan()
        problem = self._find_problem()
        left: list[tuple[Split, str]] = []
        groups: dict[tuple[TableColumn, ...] | None, list[_RawFile]] = {}
        taken: set[str] = set()
        for split in planned.splits():
            reason = problem or _find_split_problem(split)
            files: list[tuple[tuple[TableColumn, ...] | None, _RawFile]] = []
            for number, file in enumerate(split.files if reason is None else ()):
                found = self._examine(split, number, file)
                if isinstance(found, str):
                    reason = found
                    break
                files.append(found)
            paths = {raw.file.path for _, raw in files}
            if reason is None and (len(paths) < len(files) or paths & taken):
                reason = "a file of it is listed twice"
            if reason is not None:
                left.append((split, reason))
                continue
            taken |= paths
            for columns, raw in files:
                groups.setdefault(columns, []).append(raw)
        parts = [self._make_files(planned.snapshot_id, columns, files) for columns, files in groups.items()]
        return _PaimonPlan(planned.snapshot_id, parts, left)

    def _find_problem(self) -> str | None:
        """Return why all of the table is left to pypaimon; None if it is not."""
        options = self._table.options
        if options.data_evolution_enabled():
            return "columns of a row may be in several files (data-evolution.enabled)"
        other = next((name for name in options.options.to_map() if name.startswith(_OTHER_OPTIONS)), None)
        if other is not None:
            return f"it is read by its option {other}"
        unknown = next((field for field in self._table.fields if not _is_plain(field.type)), None)
        return None if unknown is None else f"its column {unknown.name} is of the type {unknown.type}"

    def _examine(
        self, split: DataSplit, number: int, file: DataFileMeta
    ) -> tuple[tuple[TableColumn, ...] | None, _RawFile] | str:
        """Return how a file names the table's columns, and the file; or why pypaimon has to read it."""
        if not file.file_name.endswith(".parquet"):
            return f"{file.file_name} is not a Parquet file"
        if file.write_cols is not None or any(not name.endswith(".index") for name in file.extra_files or ()):
            return f"{file.file_name} has columns in other files"
        path = self._locate(file)
        if path is None:
            return f"{file.file_name} lies elsewhere, or in a store without storage_options"
        columns = self._match_columns(file.schema_id)
        if isinstance(columns, str):
            return f"{file.file_name} was written when {columns}"
        partition = tuple(split.partition.values) if self._table.partition_keys else ()
        if len(partition) != len(self._table.partition_keys) or not all(map(_is_partition_value, partition)):
            return f"{file.file_name} is in a partition of other values than texts, numbers and dates"
        deletions = split.data_deletion_files
        if deletions is not None and len(deletions) != len(split.files):
            return "its deletion vectors are not one for each file"
        deleted = None if deletions is None else deletions[number]
        return columns, _RawFile(TableFile(path, file.file_size), partition, deleted)

    def _locate(self, file: DataFileMeta) -> str | None:
        """Return a file's path or URL; None if it is not in the table's folder, or its store is not known."""
        path, root = _as_path(file.physical_path()), _as_path(str(self._table.table_path))
        if path is None or root is None or not path.startswith(root.rstrip("/") + "/"):
            return None
        return path if path.startswith("/") or self._storage_options is not None else None

    def _match_columns(self, schema_id: int) -> tuple[TableColumn, ...] | str | None:
        """Return how files of a schema name the table's columns; None if they have the same names, or a reason."""
        if schema_id == self._table.table_schema.id:
            return None
        stored = self._table.schema_manager.get_schema(schema_id)
        if stored is None:
            return f"it had schema {schema_id}, which is gone"
        by_id: dict[int, DataField] = {field.id: field for field in stored.fields}
        names = {field.name for field in stored.fields}
        columns, is_alike = [], True
        for field in self._table.fields:
            before = by_id.get(field.id)
            if before is not None and before.type != field.type:
                return f"its column {field.name} had the type {before.type}"
            if before is None and field.default_value is not None:
                return f"it had no column {field.name}, which has a default"
            is_alike = is_alike and (before.name == field.name if before is not None else field.name not in names)
            columns.append(_make_column(field.name, field.type, () if before is None else (before.name,)))
        if not any(column.names for column in columns):
            return "it had none of its columns"
        return None if is_alike else tuple(columns)

    def _make_files(
        self, snapshot_id: int | None, columns: tuple[TableColumn, ...] | None, files: Iterable[_RawFile]
    ) -> _PaimonFiles:
        """Return files that name the table's columns alike, as a table."""
        files = sorted(files, key=lambda raw: raw.file.path)
        keys = self._table.partition_keys
        partitions = pa.table(
            {
                key: pa.array([raw.partition[number] for raw in files], self.schema.field(key).type)
                for number, key in enumerate(keys)
            }
        )
        deletes = {
            raw.file.path: _VectorDeletes(self._table.file_io, raw.deleted) for raw in files if raw.deleted is not None
        }
        root = _as_path(str(self._table.table_path)) or str(self._table.table_path)
        snapshot = _PaimonSnapshot(
            "paimon",
            self._name,
            snapshot_id,
            root,
            self.schema,
            [raw.file for raw in files],
            columns,
            partitions,
            deletes,
        )
        return _PaimonFiles(snapshot, self._name)

    def _translate(self, node: Node) -> PaimonPredicate | None:
        """Return what of a predicate pypaimon may plan by: columns that equal integers or texts; None for nothing.

        Of a table with a primary key only conditions on the key: another one is true of rows that have been replaced.
        """
        keys = self._table.primary_keys if self._table.is_primary_key_table else self.schema.names
        builder, found = PredicateBuilder(self._table.fields), []
        for leaf in node.children if isinstance(node, And) else [node]:
            if isinstance(leaf, Equal | In) and leaf.column in keys:
                arrow_type = self.schema.field(leaf.column).type
                if leaf.literals and all(_is_exact(value, arrow_type) for value in leaf.literals):
                    found.append(builder.is_in(leaf.column, list(leaf.literals)))
        return PredicateBuilder.and_predicates(found) if found else None


class _RawFile(NamedTuple):
    """A Parquet file whose rows are the table's, its partition, and the vector of its deleted rows."""

    file: TableFile
    partition: tuple[object, ...]
    deleted: DeletionFile | None


class _PaimonPlan(NamedTuple):
    """What a table consists of at a snapshot: files that are read here, and splits that pypaimon reads, and why."""

    snapshot_id: int | None
    parts: list[_PaimonFiles]
    left: list[tuple[Split, str]]


@dataclass(frozen=True, eq=False)
class _PaimonSnapshot(TableSnapshot):
    """Files of a Paimon table that name its columns alike."""

    def find_statistics(self, column: str) -> None:
        """Return None: footers say it."""


class _PaimonFiles(Table):
    """Files of a Paimon table at one snapshot."""

    kind = "paimon"

    def __init__(self, snapshot: _PaimonSnapshot, name: str):
        self.snapshot, self.name = snapshot, name
        self.opened: Dataset | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _PaimonFiles, (self.snapshot, self.name)

    def read_snapshot(self) -> _PaimonSnapshot:
        return self.snapshot

    def describe(self, snapshot: TableSnapshot) -> dict[str, object]:
        problem = "an index cannot name a Paimon table: make it without lake=, and append PaimonLake.files"
        raise ParquetBloomError(problem, path=self.name)

    def __str__(self) -> str:
        return f"Paimon table {self.name} at snapshot {self.snapshot.version}"


class _VectorDeletes:
    """The rows of a file that its deletion vector has, which is read when rows of the file are."""

    values: DeletedValues | None = None

    def __init__(self, file_io: FileIO, vector: DeletionFile):
        self._file_io, self._vector = file_io, vector

    def __getstate__(self) -> dict[str, object]:
        return {"_positions": self._positions}  # other processes get the rows themselves

    def find_positions(self, rows: RowNumbers) -> NDArray[np.int64]:
        positions = self._positions
        if isinstance(rows, range):
            start, stop = np.searchsorted(positions, [rows.start, rows.stop])
            return positions[start:stop]
        return np.intersect1d(positions, rows, assume_unique=True)

    @cached_property
    def _positions(self) -> NDArray[np.int64]:
        vector = DeletionVector.read(self._file_io, self._vector)
        positions = np.fromiter(vector.bit_map(), np.int64)
        expected = self._vector.cardinality
        if expected is not None and len(positions) != expected:
            problem = f"its deletion vector has {len(positions)} rows, and by the table's metadata {expected}"
            raise ParquetBloomError(f"its deleted rows cannot be determined: {problem}")
        return positions


def _find_split_problem(split: Split) -> str | None:
    """Return why a split is left to pypaimon; None if its files can be read."""
    if type(split) is not DataSplit:
        return f"it is a {type(split).__name__}"
    if split.is_streaming:
        return "it is a part of a stream"
    if not split.raw_convertible:
        return f"the rows of {len(split.files)} of its files are merged by their key"
    return None


_LOCAL = re.compile("^file:(//(localhost)?)?(?=/)")


def _as_path(location: str | None) -> str | None:
    """Return a local path, or a URL, as this package names it; None if that is not certain."""
    if location is None or "/../" in location or ("%" in location and not location.startswith("/")):
        return None
    path = _LOCAL.sub("", location)
    return path if path.startswith("/") or is_url(path) else None


_OTHER_OPTIONS = ("blob-", "video-", "incremental-", "map.", "record-level.expire", "scan.fallback-branch", "variant.")
"""What options begin with by which a table has other rows than its Parquet files, or files have other columns."""


def _is_plain(data_type: DataType) -> bool:
    """Return whether values of a type are in Parquet files as they are in Arrow."""
    if isinstance(data_type, RowType):
        return all(_is_plain(field.type) for field in data_type.fields)
    if isinstance(data_type, MapType):
        return _is_plain(data_type.key) and _is_plain(data_type.value)
    if isinstance(data_type, ArrayType):
        return _is_plain(data_type.element)
    return isinstance(data_type, AtomicType) and not re.match(r"BLOB|VARIANT|TIME\b(?!STAMP)", data_type.type.upper())


def _is_partition_value(value: object) -> bool:
    return value is None or type(value) in (int, str, bool, datetime.date)


def _is_exact(value: object, arrow_type: pa.DataType) -> bool:
    """Return whether a literal is a value of an integer type, or a text."""
    if pa.types.is_signed_integer(arrow_type):
        limit = 1 << arrow_type.bit_width - 1
        return type(value) is int and -limit <= value < limit
    return pa.types.is_string(arrow_type) and type(value) is str


def _make_column(name: str, data_type: DataType, names: tuple[str, ...]) -> TableColumn:
    """Return a column of a type that it has in the files, too."""
    if isinstance(data_type, RowType):
        parts = tuple(_make_column(field.name, field.type, (field.name,)) for field in data_type.fields)
        return TableColumn(name, "struct", names=names, parts=parts)
    if isinstance(data_type, ArrayType):
        return TableColumn(name, "list", names=names, parts=(_make_column("element", data_type.element, ("element",)),))
    if isinstance(data_type, MapType):
        parts = _make_column("key", data_type.key, ("key",)), _make_column("value", data_type.value, ("value",))
        return TableColumn(name, "map", names=names, parts=parts)
    return TableColumn(name, names=names)
