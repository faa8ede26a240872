"""The files of a table, for callers that want their list alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .delta.delta_table import DeltaSource
from .table_snapshot import ReadTable, Table, TableFile, TableSnapshot

if TYPE_CHECKING:
    pass


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
        """Return the files of a snapshot."""
        files, deletes = list(snapshot.files), frozenset(snapshot.deletes)
        of_table = snapshot.kind, snapshot.table_id, snapshot.version, snapshot.root
        return cls(*of_table, files, outside, deletes, snapshot)

    def as_table(self) -> Table:
        """Return the table at this version."""
        assert self.snapshot is not None
        return ReadTable(self.snapshot, outside=self.outside)


def delta_files(
    path: str | os.PathLike[str],
    version: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    outside: bool = False,
) -> TableFiles:
    """Return the data files of a Delta table.

    Parameters
    ----------
    path : the table's folder, or its URL.
    version : the version; None for the latest.
    storage_options : settings of the store, as named by obstore and deltalake.
    outside : accept files outside of the table's folder, as in a shallow clone. A log may name any file, so anyone who
        can write the log chooses which files are read.

    Raises
    ------
    StorageError
        There is no such table or version, or deltalake cannot read it.
    ParquetBloomError
        deltalake is missing, the table's log is not understood, or the table has a file outside of its folder.
    """
    source = DeltaSource(path, version, storage_options=storage_options, outside=outside)
    return TableFiles.of(source.read_snapshot(), outside)
