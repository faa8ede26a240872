"""The columns of a result, resolved for each file: as the file spells them, and null where it has none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ...errors import ParquetBloomError
from ...file.cache.memory import MetadataCache
from ...storage import Source
from ..model.data_file import DataFile, FileProjection
from ..model.named_columns import make_unknown_column_error
from ..model.partitions import Partitions, resolve_names
from ..model.plan import FilePlan
from .open import open_file


class Projection:
    """The columns of a result.

    Parameters
    ----------
    columns : top-level columns or dotted leaves; None for all.
    partitions : the partition columns, which are not read from the files.
    ignore_case : match names whatever their case.
    """

    def __init__(self, columns: Sequence[str] | None, partitions: Partitions, ignore_case: bool = False):
        self.columns, self._file_columns = partitions.split_columns(columns, ignore_case)
        self._partitions = partitions
        self._ignore_case = ignore_case
        self._lock = threading.Lock()
        self._spellings: dict[str, str] = {}  # of the first file that has a column

    @property
    def is_ambiguous(self) -> bool:
        """Whether names may be spelled in several ways."""
        return self._ignore_case and self._file_columns is not None

    def project(self, file: DataFile) -> FileProjection:
        """Return the columns to read of a file."""
        if self._file_columns is None:
            return FileProjection(None, [], file.schema)
        spelling = resolve_names(file, self._file_columns, self._ignore_case)
        with self._lock:
            self._spellings = spelling | self._spellings
        names = [spelling[name] for name in self._file_columns if name in spelling]
        absent = [name for name in self._file_columns if name not in spelling]
        if not names:
            names = file.schema.names[:1]
            return FileProjection(names, absent, file.select_schema(names), is_counter=True)
        return FileProjection(names, absent, file.select_schema(names))

    def add_absent(self, table: pa.Table, projection: FileProjection) -> pa.Table:
        """Add nulls to rows of a file for the columns that it does not have, and leave out what only counts rows."""
        if projection.is_counter:
            table = table.select([])
        if not projection.absent:
            return table
        tops = dict.fromkeys(self._spellings.get(name, name).split(".")[0] for name in projection.absent)
        known = {*table.schema.names}
        missing = [name for name in tops if name not in known]
        if not missing:
            return table
        nulls = pa.chunked_array([pa.nulls(table.num_rows)])
        schema = pa.schema([*table.schema, *(pa.field(name, pa.null()) for name in missing)], table.schema.metadata)
        return pa.Table.from_arrays([*table.columns, *[nulls] * len(missing)], schema=schema)

    def sort(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema of files' columns in the order in which they were asked for."""
        if self._file_columns is None:
            return schema
        tops = [self._spellings.get(name, name).split(".")[0] for name in self._file_columns]
        places = {name: place for place, name in enumerate(dict.fromkeys(tops))}
        return pa.schema(sorted(schema, key=lambda field: places.get(field.name, len(places))), schema.metadata)

    def add_partitions(self, table: pa.Table, path: str | None = None) -> pa.Table:
        """Add the partition columns of the result to rows of a file."""
        return self._partitions.add_columns(table, path, self.columns)

    def find_elsewhere(
        self, plans: Sequence[FilePlan], filesystem: Any, cache: MetadataCache | None, note: Callable[[Source], None]
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
