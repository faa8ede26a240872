"""The deleted rows of one data file, by all the delete files that apply to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....errors import ParquetBloomError, StorageError
from ...snapshot import ReadRows
from ..cache import SizedCache
from ..columns import Field
from ..manifests.files import EQUALITY_DELETES, DeleteFile
from ..matching import AppliedDeletes
from .equality import enumerate_names, find_deleted, make_comparable, read_equality, select_field
from .positions import read_positions
from .vectors import read_vector

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class DeleteContext:
    """What the deleted rows of all files of a snapshot have in common.

    Attributes
    ----------
    file_io : pyiceberg's FileIO of the table.
    fields : the table's columns and fields of structs, by field id.
    check : raises if a delete file, named as in the metadata, does not lie where the table's files have to.
    """

    file_io: Any
    fields: Mapping[int, Field]
    check: Callable[[str], None]
    cache: SizedCache


@dataclass(frozen=True, eq=False, repr=False)
class FileDeletes:
    """The deleted rows of a data file; see `tables.snapshot.DeletedRows`.

    Attributes
    ----------
    path : the data file.
    name : the same without the scheme of local files, as files of positions are searched for it.
    applied : the delete files.
    """

    path: str
    name: str
    applied: AppliedDeletes
    context: DeleteContext

    def find_positions(self, start: int, stop: int, read: ReadRows) -> NDArray[np.int64]:
        """Return the deleted rows of a row group, ascending, counted from the first row of the file.

        Raises
        ------
        ParquetBloomError
            They cannot be determined.
        """
        if self.applied.problem is not None:
            self._refuse(self.applied.problem)
        found = [*self._list_bitmaps(), *self._find_by_values(start, stop, read)]
        if not found:
            return np.empty(0, np.int64)
        positions = [_to_positions(each, start, stop) for each in found]
        return positions[0] if len(positions) == 1 else np.unique(np.concatenate(positions))

    def _list_bitmaps(self) -> list[Any]:
        context, applied = self.context, self.applied
        if applied.vector is not None:
            file = applied.vector
            return [self._read(file, (file.path, file.offset), lambda: read_vector(context.file_io, file))]
        bitmaps = []
        for file in applied.positions:
            by_path = self._read(file, file.path, lambda file=file: read_positions(context.file_io, file))  # type: ignore[misc]
            if self.name in by_path:
                bitmaps.append(by_path[self.name])
        return bitmaps

    def _find_by_values(self, start: int, stop: int, read: ReadRows) -> list[NDArray[np.int64]]:
        """Return the rows that equality deletes are for, by the columns that these are for."""
        if not self.applied.equality:
            return []
        groups: dict[tuple[int, ...], list[DeleteFile]] = {}
        for file in self.applied.equality:
            if file.content != EQUALITY_DELETES:
                self._refuse(f"the content of {file.path} is not known")
            groups.setdefault(file.equality_ids, []).append(file)
        columns = {ids: self._find_columns(ids, files[0]) for ids, files in groups.items()}
        needed = list(dict.fromkeys(column.path[0] for each in columns.values() for column in each))
        deleted = {ids: self._read_deleted(files, columns[ids]) for ids, files in groups.items()}
        if not any(len(each) for each in deleted.values()):
            return []
        rows = read(needed)
        if len(rows) != stop - start:
            self._refuse(f"{len(rows)} rows were read for its equality deletes instead of {stop - start}")
        return [
            np.flatnonzero(find_deleted(self._make_rows(rows, columns[ids]), each)).astype(np.int64) + start
            for ids, each in deleted.items()
        ]

    def _find_columns(self, ids: Sequence[int], file: DeleteFile) -> list[Field]:
        if not ids:
            self._refuse(f"its delete file {file.path} does not say for which columns it is")
        missing = next((number for number in ids if number not in self.context.fields), None)
        if missing is not None:
            problem = f"deletes by the column of field id {missing}, which is not in the table's schema"
            self._refuse(f"its delete file {file.path} {problem}: read it where the table still has the column")
        return [self.context.fields[number] for number in ids]

    def _read_deleted(self, files: Sequence[DeleteFile], columns: Sequence[Field]) -> pa.Table:
        file_io = self.context.file_io
        parts = [
            self._read(file, (file.path, file.equality_ids), lambda file=file: read_equality(file_io, file, columns))  # type: ignore[misc]
            for file in files
        ]
        return pa.concat_tables(parts).combine_chunks() if len(parts) > 1 else parts[0]

    def _make_rows(self, rows: pa.Table, columns: Sequence[Field]) -> pa.Table:
        try:
            arrays = [make_comparable(select_field(rows, column.path), column.arrow_type) for column in columns]
        except (pa.ArrowException, KeyError) as error:
            self._refuse(f"its columns cannot be compared with its equality deletes: {error}")
        return pa.table(dict(enumerate_names(arrays)))

    def _read(self, file: DeleteFile, key: Any, read: Callable[[], tuple[T, int]]) -> T:
        """Return what is kept of a delete file, or read it."""

        def read_checked() -> tuple[T, int]:
            self.context.check(file.path)
            return read()

        try:
            return self.context.cache.get(key, read_checked)
        except ParquetBloomError as error:
            raise ParquetBloomError(error.problem, path=error.path or self.path) from error
        except Exception as error:  # of many kinds: pyarrow's, pyiceberg's
            raise StorageError.wrap(error, f"its delete file {file.path} cannot be read", self.path) from error

    def _refuse(self, problem: str) -> Any:
        raise ParquetBloomError(f"its deleted rows cannot be determined: {problem}", path=self.path)


def _to_positions(found: Any, start: int, stop: int) -> NDArray[np.int64]:
    """Return the positions of a bitmap, or an array of positions, in a row group."""
    if isinstance(found, np.ndarray):
        return found
    from pyroaring import BitMap64

    part = found & BitMap64(range(start, stop))
    return np.frombuffer(part.to_array(), np.uint64).astype(np.int64)
