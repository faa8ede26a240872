"""What a table adds to the reading of its files: deleted rows are left out, and values have the table's types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import ConcurrentChangeError, ParquetBloomError, UnreadableColumnError
from ...predicate import tree
from ...predicate.row_filter import Probes, row_mask
from ...predicate.tree import Node
from ...tables.table_snapshot import RowsOfFile, find_deleted
from ...util.arrow_values import empty_table, keep
from ...variant.variant_type import is_variant
from ..compatibility import DatasetCompatibility
from ..decode.parquet_data import ParquetData
from ..model.column_defaults import ColumnDefaults
from ..model.data_file import DataFile, FileProjection
from ..model.file_schemas import fit_table
from ..model.folder_partitions import Partitions
from ..model.row_selection import (
    RowGroupSelections,
    RowPositions,
    RowSelection,
    find_runs,
    intersect_ranges,
    to_row_ranges,
    to_row_selection,
)
from ..model.scan_plan import FilePlan
from ..named_columns import Projection

if TYPE_CHECKING:
    from ...tables.table_snapshot import TableSnapshot

ReadColumns = Callable[[FileProjection], Iterable[pa.Table]]
"""Reads columns of a file, or of files that are alike, in some rows."""


class TableRows:
    """The rows of a table in its files.

    Parameters
    ----------
    table : the table.
    node : the predicate; None for all rows.
    timezone : zone of literals without one.
    columns : top-level columns that are read; None for all.
    partitions : the columns whose values the table's metadata has.

    Attributes
    ----------
    trust : the columns of which a file may have other values than the table shows.
    projection : the columns that are read and those of the predicate.
    """

    def __init__(
        self,
        table: TableSnapshot,
        node: Node | None,
        timezone: str,
        columns: Sequence[str] | None,
        partitions: Partitions,
    ):
        names = [] if node is None else sorted(tree.columns(node))
        self.trust = DatasetCompatibility.of(table.schema, names)
        self._table = table
        self._node = node
        self._timezone = timezone
        self._probes: Probes = {}
        self._partitions = partitions
        tops = list(dict.fromkeys(name if name in table.schema.names else name.split(".")[0] for name in names))
        self._filter_schema = pa.schema([table.schema.field(name) for name in tops])
        self._filtered = tops
        self._used = [*(table.schema.names if columns is None else columns), *tops]
        self._defaults = ColumnDefaults(table)
        read = None if columns is None else [*columns, *tops]
        self.projection = Projection(read, partitions, defaults=self._defaults)

    def changes(self, file: DataFile) -> bool:
        """Return whether the table shows other values than a file stores, in columns of the predicate."""
        return self._node is not None and bool(file.find_doubts(self.trust))

    def filter(self, rows: pa.Table) -> pa.Table:
        """Return the rows that match the predicate, as the table shows their values."""
        assert self._node is not None
        fields = [self._keep_variant(field, rows.schema) for field in self._filter_schema]
        shown = fit_table(rows, pa.schema(fields))
        return keep(rows, row_mask(shown, self._node, timezone=self._timezone, probes=self._probes))

    def _keep_variant(self, field: pa.Field, stored: pa.Schema) -> pa.Field:
        """Return a field, of a Variant as files have it: a predicate asks for paths of it, wherever these are."""
        i = stored.get_field_index(field.name)
        return stored.field(i) if i >= 0 and is_variant(field.type) else field

    def require_defined(self, file: DataFile, *, counted: bool = False) -> None:
        """Raise UnreadableColumnError if the file lacks a column that is read, and is not null in its rows.

        Parameters
        ----------
        counted : whether rows are only counted, for which the columns of the predicate are read alone.
        """
        self._table.require_defined(file.path, file.leaves, self._filtered if counted else self._used)

    def has_deletes(self, path: str) -> bool:
        """Return whether the table has deleted rows of a file."""
        return path in self._table.deletes

    def select_live(self, file: DataFile, plan: FilePlan, selections: RowGroupSelections) -> RowGroupSelections:
        """Take the rows that the table has deleted out of a selection.

        Raises
        ------
        ConcurrentChangeError
            The file has been replaced since it was planned, so that its rows cannot be told apart.
        ParquetBloomError
            It cannot be determined which rows are deleted.
        """
        deleted = self._table.deletes.get(file.path)
        if deleted is None:
            return selections
        if not plan.is_of(file):
            raise ConcurrentChangeError("another writer changed it meanwhile", path=file.path)
        if not isinstance(file, ParquetData):
            raise ParquetBloomError("deleted rows of ORC files cannot be left out", path=file.path)
        starts = np.cumsum([0, *(file.num_rows_of(row_group) for row_group in file.row_groups)]).tolist()
        live: list[tuple[int, RowSelection | None]] = []
        for row_group, selection in selections:
            start, stop = starts[row_group], starts[row_group + 1]
            read = partial(self._read_row_group, file, row_group)
            is_deleted = find_deleted([RowsOfFile(file.path, deleted, range(start, stop))], read)
            if not is_deleted.any():
                live.append((row_group, selection))
                continue
            ranges = intersect_ranges(find_runs(~is_deleted), None if selection is None else to_row_ranges(selection))
            assert ranges is not None
            if len(ranges):
                live.append((row_group, to_row_selection(ranges)))
        return live

    def find_live(
        self, file: DataFile, parts: Sequence[tuple[str, RowPositions]], read_columns: ReadColumns
    ) -> NDArray[np.bool_]:
        """Return which rows of files are not deleted, those of one part after those of the other.

        Parameters
        ----------
        file : one of the files, which have the same schema and the same partition values.
        parts : files by their paths, each with some of its rows, counted from its first one, ascending.
        read_columns : reads columns in all of these rows.

        Raises
        ------
        ParquetBloomError
            It cannot be determined which rows are deleted.
        """
        paths = dict.fromkeys(path for path, _ in parts)
        deletes = self._table.deletes
        rows = [RowsOfFile(path, deletes.get(path), positions) for path, positions in parts]
        return ~find_deleted(rows, lambda names: self._read(file, [*paths], names, read_columns))

    def _read_row_group(self, file: ParquetData, row_group: int, names: Sequence[str]) -> pa.Table:
        """Read columns of all rows of a row group as the table shows them."""

        def read_columns(columns: FileProjection) -> Iterable[pa.Table]:
            return [file.read_all([row_group], columns.names)]

        rows = self._read(file, [file.path], names, read_columns)
        if rows.num_rows != file.num_rows_of(row_group):
            problem = f"{rows.num_rows} rows instead of {file.num_rows_of(row_group)}"
            raise UnreadableColumnError(f"cannot be read: {problem}", path=file.path, row_group=row_group)
        return rows

    def _read(self, file: DataFile, paths: Sequence[str], names: Sequence[str], read_columns: ReadColumns) -> pa.Table:
        """Read columns of files that are alike as the table shows them."""
        for path in paths:
            self._table.require_defined(path, file.leaves, names)
        projection = Projection(names, self._partitions, defaults=self._defaults)
        of_file = projection.project(file)
        schema = pa.schema([self._table.schema.field(name) for name in names])
        tables = [
            fit_table(projection.add_partitions(projection.add_absent(table, of_file), paths[0]), schema)
            for table in read_columns(of_file)
        ]
        return pa.concat_tables([empty_table(schema), *tables])
