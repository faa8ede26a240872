"""The data files of a Delta or Iceberg table at one version, and the names of its columns in them.

deltalake and pyiceberg read the tables' metadata; they are imported when they are first needed. A table's folder is
never listed, as it also holds files of other versions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ParquetBloomError, UnknownColumnError
from ..file.columns import find_leaf
from ..metadata.footer import Leaf
from .columns import delta_columns, map_names
from .delta.open import DeltaSource
from .snapshot import TableFile

_FIELD_ID = 9  # of a schema's element


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
    columns : {name in the table: name in the files}, dotted for fields of structs. Columns whose name in the files is
        uncertain are left out, such as Iceberg columns that were ever renamed.
    ids : {name in the table: field id of the column in the files}; see `leaf_of`.
    unnumbered : whether files without any field ids are read by the columns' names.
    partitions : names of columns that files may lack, as folder names or the table's metadata give their values.
    outside : whether files outside of the root were accepted.
    deletes : paths of files of which rows have been deleted: by deletion vectors in a Delta table, by delete files in
        an Iceberg table.
    partition_values : {path: {column: value}}, the values of identity partition columns by an Iceberg table's metadata;
        folder names mean nothing there. None for Delta, whose folder names give the values.
    """

    kind: str
    table_id: str
    version: int | None
    root: str
    files: list[TableFile]
    columns: Mapping[str, str]
    ids: Mapping[str, int] = field(default_factory=dict)
    unnumbered: bool = False
    partitions: tuple[str, ...] = ()
    outside: bool = False
    deletes: frozenset[str] = frozenset()
    partition_values: Mapping[str, Mapping[str, Any]] | None = None

    def leaf_of(self, column: str, leaves: Sequence[Leaf], path: str | None = None) -> Leaf:
        """Return the leaf of one of the table's files that is a column of the table.

        Parameters
        ----------
        column : its name in the table.
        leaves : leaves of the file.
        path : path of the file, for errors.

        Raises
        ------
        UnknownColumnError
            The table has no such column, or it cannot be identified in the file. Its values may exist all the same: a
            table may give them a default, or read them from a column of another name.
        """
        if column not in self.columns:
            problem = "the table has no such column, or its name in the files is not certain"
            raise UnknownColumnError(problem, path=path or self.root, column=column)
        leaf = find_leaf(leaves, self.columns[column], path)
        if column in self.ids:
            depth = column.count(".")  # both names have as many parts
            field_id = leaf.nodes[depth].get(_FIELD_ID) if depth < len(leaf.nodes) else None
            if field_id != self.ids[column] and not (field_id is None and self.unnumbered and _without_ids(leaves)):
                problem = f"the file's column of that name has field id {field_id}, the table's {self.ids[column]}"
                raise UnknownColumnError(problem, path=path, column=column)
        return leaf


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
    snapshot = DeltaSource(path, version, storage_options=storage_options, outside=outside).read_snapshot()
    mode = snapshot.mapping_mode
    columns, ids = map_names(delta_columns(snapshot.delta_schema, mode, (), ()), only_plain=mode == "id")
    return TableFiles(
        "delta",
        snapshot.table_id,
        snapshot.version,
        snapshot.root,
        list(snapshot.files),
        columns,
        ids if mode == "id" else {},
        partitions=tuple(snapshot.partition_values.column_names),
        outside=outside,
        deletes=frozenset(snapshot.deletes),
    )


def _without_ids(leaves: Sequence[Leaf]) -> bool:
    return not any(_FIELD_ID in node for leaf in leaves for node in leaf.nodes)


def _make_missing_error(kind: str, package: str, extra: str, path: Any) -> ParquetBloomError:
    text = f"{kind} tables are read by {package}, which is not installed: pip install 'parquet-bloom[{extra}]'"
    return ParquetBloomError(text, path=path)
