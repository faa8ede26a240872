"""The deleted rows of one data file, by all the delete files that apply to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....errors import ParquetBloomError, StorageError
from ...deleted_rows import RowNumbers, find_in_bitmap
from ..cache import SizedCache
from ..columns import Field
from ..manifests.files import EQUALITY_DELETES, DeleteFile
from ..matching import AppliedDeletes
from .equality import enumerate_names, find_deleted, make_comparable, read_equality, select_field
from .positions import read_positions
from .vectors import read_vector

T = TypeVar("T")

_EqualityFiles = dict[tuple[int, ...], list[DeleteFile]]


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

    def read(self, file: DeleteFile, key: Any, read: Callable[[], tuple[T, int]]) -> T:
        """Return what is kept of a delete file, or read it."""

        def read_checked() -> tuple[T, int]:
            self.check(file.path)
            return read()

        try:
            return self.cache.get(key, read_checked)
        except ParquetBloomError:
            raise
        except Exception as error:  # of many kinds: pyarrow's, pyiceberg's
            raise StorageError.wrap(error, f"its delete file {file.path} cannot be read", None) from error


@dataclass(frozen=True, eq=False, repr=False)
class FileDeletes:
    """The deleted rows of a data file; see `tables.deleted_rows.DeletedRows`.

    Attributes
    ----------
    name : the data file without the scheme of local files, as files of positions are searched for it.
    applied : the delete files.
    values : the equality deletes among them, as an object that files have in common; None for none.
    """

    name: str
    applied: AppliedDeletes
    context: DeleteContext
    values: EqualityDeletes | None

    def find_positions(self, rows: RowNumbers) -> NDArray[np.int64]:
        """Return those of some rows that are deleted by their positions; see `DeletedRows.find_positions`."""
        if self.applied.problem is not None:
            _refuse(self.applied.problem)
        found = [_find_rows(bitmap, rows) for bitmap in self._list_bitmaps()]
        if len(found) == 1:
            return found[0]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def _list_bitmaps(self) -> list[Any]:
        context, applied = self.context, self.applied
        if applied.vector is not None:
            file = applied.vector
            return [context.read(file, (file.path, file.offset), lambda: read_vector(context.file_io, file))]
        bitmaps = []
        for file in applied.positions:
            by_path = context.read(file, file.path, lambda file=file: read_positions(context.file_io, file))  # type: ignore[misc]
            if self.name in by_path:
                bitmaps.append(by_path[self.name])
        return bitmaps


@dataclass(frozen=True, eq=False, repr=False)
class EqualityDeletes:
    """Equality deletes that files have in common; see `tables.deleted_rows.DeletedValues`.

    Attributes
    ----------
    files : the delete files.
    """

    files: Sequence[DeleteFile]
    context: DeleteContext

    def find_columns(self) -> list[str]:
        """Return the top-level columns that are compared; none if no row is deleted."""
        groups = self._group()
        columns = {ids: self._find_columns(ids, files[0]) for ids, files in groups.items()}
        deletes_any = [len(table) > 0 for ids, files in groups.items() for table in self._read(files, columns[ids])]
        names = dict.fromkeys(column.path[0] for each in columns.values() for column in each)
        return list(names) if any(deletes_any) else []

    def find_deleted(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Return which rows are deleted; see `DeletedValues.find_deleted`."""
        result = np.zeros(len(rows), np.bool_)
        for ids, files in self._group().items():
            columns = self._find_columns(ids, files[0])
            parts = self._read(files, columns)
            deleted = pa.concat_tables(parts).combine_chunks() if len(parts) > 1 else parts[0]
            result |= find_deleted(_make_comparable(rows, columns), deleted)
        return result

    def _group(self) -> _EqualityFiles:
        """Return the files by the field ids of the columns that they are for."""
        groups: _EqualityFiles = {}
        for file in self.files:
            if file.content != EQUALITY_DELETES:
                _refuse(f"the content of {file.path} is not known")
            groups.setdefault(file.equality_ids, []).append(file)
        return groups

    def _find_columns(self, ids: Sequence[int], file: DeleteFile) -> list[Field]:
        if not ids:
            _refuse(f"its delete file {file.path} does not say for which columns it is")
        missing = next((number for number in ids if number not in self.context.fields), None)
        if missing is not None:
            problem = f"deletes by the column of field id {missing}, which is not in the table's schema"
            _refuse(f"its delete file {file.path} {problem}: read it where the table still has the column")
        return [self.context.fields[number] for number in ids]

    def _read(self, files: Sequence[DeleteFile], columns: Sequence[Field]) -> list[pa.Table]:
        """Return the values that files delete, in comparable form."""
        context = self.context
        return [
            context.read(
                file,
                (file.path, file.equality_ids),
                lambda file=file: read_equality(context.file_io, file, columns),  # type: ignore[misc]
            )
            for file in files
        ]


def _make_comparable(rows: pa.Table, columns: Sequence[Field]) -> pa.Table:
    try:
        arrays = [make_comparable(select_field(rows, column.path), column.arrow_type) for column in columns]
    except (pa.ArrowException, KeyError) as error:
        _refuse(f"its columns cannot be compared with its equality deletes: {error}")
    return pa.table(dict(enumerate_names(arrays)))


def _refuse(problem: str) -> Any:
    raise ParquetBloomError(f"its deleted rows cannot be determined: {problem}")


def _find_rows(bitmap: Any, rows: RowNumbers) -> NDArray[np.int64]:
    """Return those of some rows that are in a bitmap."""
    if not isinstance(rows, range):
        return find_in_bitmap(bitmap, rows)
    from pyroaring import BitMap64

    return np.frombuffer((bitmap & BitMap64(rows)).to_array(), np.uint64).astype(np.int64)
