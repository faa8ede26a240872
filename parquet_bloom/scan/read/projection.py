"""The columns of a result, file by file: as each file spells them, and null where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...errors import ParquetBloomError, UnknownColumnError
from ...file.cache.memory import SHARED_CACHE
from ..model.columns import spelled
from ..model.data_file import DataFile, FileProjection
from ..model.partitions import Partitions
from .open import open_file


class Projection:
    """The columns of a result.

    Parameters
    ----------
    columns : top-level columns or dotted leaves; None for all.
    partitions : those that the files' folders give, which are not the files' to give.
    ignore_case : match names whatever their case.
    """

    def __init__(self, columns: Sequence[str] | None, partitions: Partitions, ignore_case: bool = False):
        self.columns = None if columns is None else [partitions.spelled(name, ignore_case) for name in columns]
        self._own = partitions.in_files(self.columns)
        self._partitions = partitions
        self._ignore_case = ignore_case
        self._seen: dict[str, str] = {}  # as the first file spells them that has them

    def of(self, file: DataFile) -> FileProjection:
        """What is wanted of a file."""
        if self._own is None:
            return FileProjection(None, [], file.schema)
        found = spelled(file, self._own, self._ignore_case)
        self._seen = found | self._seen
        names = [found[name] for name in self._own if name in found]
        absent = [name for name in self._own if name not in found]
        if not names:
            names = file.schema.names[:1]
            return FileProjection(names, absent, file.chosen(names), is_counter=True)
        return FileProjection(names, absent, file.chosen(names))

    def filled(self, table: pa.Table, of_file: FileProjection) -> pa.Table:
        """Rows of a file, null in the columns that it does not have."""
        if of_file.is_counter and of_file.absent:
            table = table.select([])
        for name in dict.fromkeys(self._seen.get(name, name).split(".")[0] for name in of_file.absent):
            if name not in table.schema.names:
                table = table.append_column(name, pa.nulls(table.num_rows))
        return table

    def joined(self, table: pa.Table, path: str | None = None) -> pa.Table:
        """Rows of a file with the partition columns that are wanted."""
        return self._partitions.joined(table, path, self.columns)

    def elsewhere(self, paths: Sequence[str], filesystem: Any) -> list[pa.Schema]:
        """The schemas that columns which no file had so far have in other files.

        Parameters
        ----------
        paths : all files. Those of which nothing is read are looked at only if a column is still missing.

        Raises
        ------
        UnknownColumnError
            No file has one of them.
        """
        schemas = []
        left = set(self._own or ()) - self._seen.keys()
        for path in paths if left else ():
            try:
                with open_file(path, filesystem, SHARED_CACHE) as file:
                    found = spelled(file, left, self._ignore_case)
                    if found:
                        schemas.append(file.chosen(list(found.values())))
                        left -= found.keys()
                        self._seen = found | self._seen
            except ParquetBloomError:
                continue  # no row of it is read, and so its error is no loss
            if not left:
                break
        if left and paths:
            several = f" in any of {len(paths):,} files" if len(paths) > 1 else ""
            raise UnknownColumnError(f"no such column{several}", path=None if several else paths[0], column=min(left))
        return schemas
