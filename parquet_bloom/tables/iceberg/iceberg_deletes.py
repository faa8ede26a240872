"""The deleted rows of one data file, by all the delete files that apply to it."""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from ...errors import ParquetBloomError, StorageError
from ...util.arrow_values import keep
from ...util.lazy import late_module
from ..table_locations import without_scheme
from ..table_snapshot import RowNumbers, find_in_bitmap
from .iceberg_statistics import IcebergField
from .manifests import (
    EQUALITY_DELETES,
    POSITION_DELETES,
    UNKNOWN_SEQUENCE,
    DeleteFile,
    Manifests,
    Partition,
    SizedCache,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

if TYPE_CHECKING:
    import pyiceberg.transforms as transforms
    from pyiceberg.partitioning import PartitionSpec
else:
    transforms = late_module("pyiceberg.transforms")


_FIELD_ID = b"PARQUET:field_id"

ColumnPath = tuple[str, ...]
Values: TypeAlias = "pa.Array | pa.ChunkedArray"


@contextmanager
def open_delete_file(file_io: FileIO, file: DeleteFile) -> Iterator[pq.ParquetFile]:
    """Open a Parquet delete file.

    Parameters
    ----------
    file_io : pyiceberg's FileIO: it has the settings of the store, and the credentials that a catalog gave.

    Raises
    ------
    ParquetBloomError
        The file is of another format, or encrypted.
    """
    if file.file_format != "PARQUET":
        raise ParquetBloomError(f"its delete file {file.path} is {file.file_format}, and only Parquet is supported")
    if file.encrypted:
        raise ParquetBloomError(f"its delete file {file.path} is encrypted, which is not supported")
    with (
        file_io.new_input(file.path).open() as stream,
        pq.ParquetFile(stream) as parquet,
    ):
        yield parquet


def find_by_id(schema: pa.Schema, field_id: int) -> ColumnPath | None:
    """Return the path of a column, or of a field of structs, by its field id; None if there is none."""
    pending: list[tuple[ColumnPath, pa.Field]] = [((each.name,), each) for each in schema]
    while pending:
        path, each = pending.pop(0)
        if (each.metadata or {}).get(_FIELD_ID) == str(field_id).encode():
            return path
        if pa.types.is_struct(each.type):
            pending.extend(((*path, part.name), part) for part in each.type)
    return None


def read_equality(file_io: FileIO, file: DeleteFile, columns: Sequence[IcebergField]) -> tuple[pa.Table, int]:
    """Return the values that a file deletes, in comparable form and without duplicates, and their size in bytes.

    Parameters
    ----------
    file_io : pyiceberg's FileIO.
    columns : of the table, those that the file is for.

    Raises
    ------
    ParquetBloomError
        The file lacks one of them, or has it in a type that is not the column's.
    Exception
        Of many kinds, from pyarrow and pyiceberg: the file cannot be read.
    """
    with open_delete_file(file_io, file) as parquet:
        paths = [find_by_id(parquet.schema_arrow, column.field_id) for column in columns]
        if None in paths:
            missing = columns[paths.index(None)]
            problem = f"has no column of field id {missing.field_id}, of '{missing.name}'"
            raise ParquetBloomError(f"its delete file {file.path} {problem}")
        table = parquet.read(columns=[".".join(path) for path in paths if path], use_threads=False)
    found: list[pa.ChunkedArray] = []
    for path, column in zip(paths, columns, strict=True):
        values = select_field(table, path or ())
        if not _may_become(values.type, column.arrow_type):
            problem = f"has '{column.name}' as {values.type}, and the table as {column.arrow_type}"
            raise ParquetBloomError(f"its delete file {file.path} {problem}")
        found.append(make_comparable(values, column.arrow_type))
    result = pa.table(dict(enumerate_names(found)))
    if result.num_columns == 1:
        result = pa.table({"0": result.column(0).unique()})
    return result, result.nbytes


def enumerate_names(arrays: Sequence[Values]) -> list[tuple[str, Values]]:
    """Return arrays with the names that columns have here: their numbers."""
    return [(str(number), each) for number, each in enumerate(arrays)]


def select_field(table: pa.Table, path: ColumnPath) -> pa.ChunkedArray:
    """Return a column, or a field of structs, which is null where a struct is."""
    values = table.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, name)
    return values


def make_comparable(values: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.Array:
    """Return values in a column's type so that equal bytes are equal values, and all others differ.

    Raises
    ------
    pyarrow.ArrowInvalid
        A value does not fit the type.
    """
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    if array.type != arrow_type:
        array = array.cast(arrow_type)
    if pa.types.is_floating(arrow_type):
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), arrow_type), array)
        return array.view(pa.int32() if arrow_type.bit_width == 32 else pa.int64())
    return array


def find_deleted(rows: pa.Table, deleted: pa.Table) -> NDArray[np.bool_]:
    """Return which rows equal one of the deleted ones; both tables have the same columns, in comparable form."""
    count = rows.num_columns
    if len(rows) < len(deleted):  # a hash table of a few rows takes less time than one of all that is deleted
        deleted = keep(deleted, pa.array(_match_columns(deleted, rows)))
    candidates = _match_columns(rows, deleted)
    if count == 1 or not candidates.any():
        return candidates
    # Only those few rows can be equal in all columns at once; they are compared by numbers for their values.
    chosen = keep(rows, pa.array(candidates))
    against = keep(deleted, pa.array(_match_columns(deleted, chosen)))
    codes = np.zeros(len(against) + len(chosen), np.int64)
    for number in range(count):
        column = pa.chunked_array(
            [*against.column(number).chunks, *chosen.column(number).chunks], rows.schema.field(number).type
        )
        encoded = column.combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = pa.concat_arrays(encoded.chunks)
        indices = encoded.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (len(codes) + 1) + indices, return_inverse=True)
    result = candidates.copy()
    result[candidates] = np.isin(codes[len(against) :], codes[: len(against)])
    return result


def _match_columns(rows: pa.Table, others: pa.Table) -> NDArray[np.bool_]:
    """Return the rows each of whose values is somewhere in the same column of the other table."""
    result = np.ones(len(rows), np.bool_)
    for number in range(rows.num_columns):
        if pa.types.is_null(rows.schema.field(number).type):
            result &= len(others) > 0
            continue
        found = pc.is_in(rows.column(number), value_set=others.column(number).combine_chunks())
        result &= found.to_numpy()
    return result


def _may_become(stored: pa.DataType, column: pa.DataType) -> bool:
    """Return whether values of a delete file may be compared as a column's type, to which it may have been promoted."""
    types = pa.types
    stored, column = (
        each.storage_type if isinstance(each, pa.BaseExtensionType) else each for each in (stored, column)
    )
    if types.is_dictionary(stored):
        stored = stored.value_type
    if stored == column or types.is_null(stored):
        return True
    if types.is_integer(column):
        return types.is_signed_integer(stored) and stored.bit_width <= column.bit_width
    if types.is_floating(column):
        return types.is_floating(stored) and stored.bit_width <= column.bit_width
    if types.is_decimal(column):
        return types.is_decimal(stored) and stored.scale == column.scale and stored.precision <= column.precision
    if types.is_timestamp(column):
        is_time = types.is_timestamp(stored) and (stored.tz is None) == (column.tz is None)
        return is_time or (types.is_date32(stored) and column.tz is None)
    if types.is_time(column):
        return types.is_time(stored)
    if types.is_large_string(column):
        return types.is_string(stored) or types.is_string_view(stored)
    if types.is_large_binary(column):
        return types.is_binary(stored) or types.is_binary_view(stored)
    return False


_PATH, _POSITION = (2147483546, "file_path"), (2147483545, "pos")
_BATCH = 1 << 17  # rows
_OVERHEAD = 400  # bytes for each data file that is named


def read_positions(
    file_io: FileIO, file: DeleteFile, name: Callable[[str], str] = without_scheme
) -> tuple[dict[str, BitMap64], int]:
    """Return {path of a data file: its positions}, and the size of that in bytes.

    Parameters
    ----------
    name : makes the key of a path. Without the scheme of local files, as some writers have it in the manifest only.

    Raises
    ------
    ParquetBloomError
        It is not such a file.
    Exception
        Of many kinds, from pyarrow and pyiceberg: the file cannot be read.
    """
    result: dict[str, BitMap64] = {}
    with open_delete_file(file_io, file) as parquet:
        schema = parquet.schema_arrow
        columns = [
            (find_by_id(schema, number) or ((name,) if name in schema.names else None))
            for number, name in (_PATH, _POSITION)
        ]
        if None in columns or any(len(column) != 1 for column in columns if column):
            raise ParquetBloomError(f"its delete file {file.path} has no columns file_path and pos")
        (path_column,), (position_column,) = columns  # type: ignore[misc]
        for batch in parquet.iter_batches(_BATCH, columns=[path_column, position_column], use_threads=False):
            paths, positions = batch.column(path_column), batch.column(position_column)
            if paths.null_count or positions.null_count or not pa.types.is_integer(positions.type):
                raise ParquetBloomError(f"its delete file {file.path} has a row without a path or position")
            if not pa.types.is_dictionary(paths.type):
                paths = paths.dictionary_encode()
            rows = positions.cast(pa.int64()).to_numpy(zero_copy_only=False)
            if (rows < 0).any():
                raise ParquetBloomError(f"its delete file {file.path} has a negative position")
            codes = paths.indices.to_numpy(zero_copy_only=False)
            order = np.argsort(codes, kind="stable")
            starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
            names = paths.dictionary
            for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
                key = name(str(names[int(codes[order[begin]])].as_py()))
                chosen = np.ascontiguousarray(rows[order[begin:end]].astype(np.uint64))
                result.setdefault(key, BitMap64()).update(chosen)
    size = sum(_OVERHEAD + min(2 * len(each), len(each) // 8 + 8192) for each in result.values())
    return result, size


_NO_RUNS, _RUNS = 12346, 12347  # the cookies
_LARGEST_ARRAY = 4096  # values; more are a bitset
_BITSET = 8192  # bytes
_FEWEST_WITH_OFFSETS = 4  # containers, of a bitmap with runs
_HIGHEST_KEY = (1 << 31) - 1  # positions are signed 64-bit numbers


def parse_bitmap(data: bytes) -> BitMap64:
    """Parse a bitmap, and check all of it.

    Raises
    ------
    ValueError
        It is malformed.
    """
    _check_all(data)
    return BitMap64.deserialize(data)


def _check_all(data: bytes) -> None:
    (count,) = _unpack("<Q", data, 0)
    at, last = 8, -1
    for _ in range(count):
        (key,) = _unpack("<I", data, at)
        if key <= last or key > _HIGHEST_KEY:
            raise ValueError(f"its key {key} comes after {last}")
        at, last = _check_bitmap(data, at + 4), key
    if at != len(data):
        raise ValueError(f"it has {len(data) - at} bytes after its end")


def _check_bitmap(data: bytes, at: int) -> int:
    """Check a bitmap of 32-bit values, and return where it ends."""
    start = at
    (cookie,) = _unpack("<I", data, at)
    at += 4
    is_run = np.zeros(0, np.bool_)
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        flags = _take(data, at, (count + 7) // 8)
        is_run = np.unpackbits(np.frombuffer(flags, np.uint8), bitorder="little")[:count].astype(np.bool_)
        at += len(flags)
        has_offsets = count >= _FEWEST_WITH_OFFSETS
    elif cookie == _NO_RUNS:
        (count,) = _unpack("<I", data, at)
        at += 4
        if count > 1 << 16:
            raise ValueError(f"it has {count} containers")
        is_run, has_offsets = np.zeros(count, np.bool_), True
    else:
        raise ValueError(f"it begins with {cookie} instead of a cookie")
    heads = np.frombuffer(_take(data, at, 4 * count), "<u2").reshape(-1, 2).astype(np.int64)
    at += 4 * count
    if (np.diff(heads[:, 0]) <= 0).any():
        raise ValueError("its containers are not in order")
    offsets = np.frombuffer(_take(data, at, 4 * count if has_offsets else 0), "<u4")
    at += offsets.nbytes
    for number, size in enumerate((heads[:, 1] + 1).tolist()):
        if has_offsets and offsets[number] != at - start:
            raise ValueError("a container does not lie where it should")
        at += _check_container(data, at, size, bool(is_run[number]))
    return at


def _check_container(data: bytes, at: int, size: int, is_run: bool) -> int:
    """Check a container of so many values, and return its size in bytes."""
    if is_run:
        (count,) = _unpack("<H", data, at)
        runs = np.frombuffer(_take(data, at + 2, 4 * count), "<u2").reshape(-1, 2).astype(np.int64)
        first, last = runs[:, 0], runs[:, 0] + runs[:, 1]
        if (first[1:] <= last[:-1]).any() or (last > 0xFFFF).any() or (runs[:, 1] + 1).sum() != size:
            raise ValueError("its runs are not in order, or not as many values as they claim")
        return 2 + 4 * count
    if size > _LARGEST_ARRAY:
        bits = np.frombuffer(_take(data, at, _BITSET), np.uint8)
        if int(np.bitwise_count(bits).sum()) != size:
            raise ValueError("a bitset has another number of values than it claims")
        return _BITSET
    values = np.frombuffer(_take(data, at, 2 * size), "<u2")
    if (values[1:] <= values[:-1]).any():
        raise ValueError("its values are not in order")
    return 2 * size


def _unpack(form: str, data: bytes, at: int) -> tuple[int, ...]:
    return struct.unpack(form, _take(data, at, struct.calcsize(form)))


def _take(data: bytes, at: int, size: int) -> bytes:
    taken = data[at : at + size]
    if len(taken) != size:
        raise ValueError("it is cut short")
    return taken


_MAGIC = b"\xd1\xd3\x39\x64"
PUFFIN_MAGIC = b"PFA1"
_FRAME = 12  # bytes: the length and the checksum, both big-endian, and the magic
_VECTOR_OVERHEAD = 200  # bytes, of a bitmap in memory


def read_vector(file_io: FileIO, file: DeleteFile) -> tuple[BitMap64, int]:
    """Return the positions, and its size in bytes; see `read_vector_blob`."""
    blob, positions = read_vector_blob(file_io, file)
    return positions, len(blob) + _VECTOR_OVERHEAD


def read_vector_blob(file_io: FileIO, file: DeleteFile) -> tuple[bytes, BitMap64]:
    """Return the bytes of a deletion vector, as they lie in a Puffin file, and its positions.

    Parameters
    ----------
    file_io : pyiceberg's FileIO.
    file : the vector's entry in a manifest.

    Raises
    ------
    ParquetBloomError
        The vector is damaged.
    Exception
        Of many kinds, from pyiceberg: the file cannot be read.
    """
    offset, size = file.offset, file.length
    if offset is None or size is None or offset < 0 or size < _FRAME:
        raise ParquetBloomError(f"the manifest does not say where in {file.path} the deletion vector lies")
    source = file_io.new_input(file.path)
    if offset + size > len(source):
        raise ParquetBloomError(f"the deletion vector would lie behind the end of {file.path}")
    with source.open() as stream:
        head = stream.read(len(PUFFIN_MAGIC))
        stream.seek(offset)
        blob = stream.read(size)
    if head != PUFFIN_MAGIC or len(blob) != size:
        raise ParquetBloomError(f"{file.path} is not a Puffin file, or changes")
    body = blob[4:-4]
    (length,), (checksum,) = struct.unpack(">I", blob[:4]), struct.unpack(">I", blob[-4:])
    if length != len(body) or body[:4] != _MAGIC:
        raise ParquetBloomError(f"the deletion vector in {file.path} has a wrong length or magic")
    if zlib.crc32(body) != checksum:
        raise ParquetBloomError(f"the deletion vector in {file.path} has a wrong checksum")
    try:
        positions = parse_bitmap(body[4:])
    except ValueError as error:
        raise ParquetBloomError(f"the deletion vector in {file.path} is malformed: {error}") from None
    if len(positions) != file.record_count:
        problem = f"has {len(positions)} positions, but by the manifest {file.record_count}"
        raise ParquetBloomError(f"the deletion vector in {file.path} {problem}")
    return blob, positions


def make_vector_blob(positions: BitMap64) -> bytes:
    """Return the bytes of a deletion vector, as they lie in a Puffin file."""
    body = _MAGIC + positions.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


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

    file_io: FileIO
    fields: Mapping[int, IcebergField]
    check: Callable[[str], None]
    cache: SizedCache

    def read(self, file: DeleteFile, key: Hashable, read: Callable[[], tuple[T, int]]) -> T:
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
    """The deleted rows of a data file; see `table_snapshot.DeletedRows`.

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

    def _list_bitmaps(self) -> list[BitMap64]:
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
    """Equality deletes that files have in common; see `table_snapshot.DeletedValues`.

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

    def _find_columns(self, ids: Sequence[int], file: DeleteFile) -> list[IcebergField]:
        if not ids:
            _refuse(f"its delete file {file.path} does not say for which columns it is")
        missing = next((number for number in ids if number not in self.context.fields), None)
        if missing is not None:
            problem = f"deletes by the column of field id {missing}, which is not in the table's schema"
            _refuse(f"its delete file {file.path} {problem}: read it where the table still has the column")
        return [self.context.fields[number] for number in ids]

    def _read(self, files: Sequence[DeleteFile], columns: Sequence[IcebergField]) -> list[pa.Table]:
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


def _make_comparable(rows: pa.Table, columns: Sequence[IcebergField]) -> pa.Table:
    try:
        arrays = [make_comparable(select_field(rows, column.path), column.arrow_type) for column in columns]
    except (pa.ArrowException, KeyError) as error:
        _refuse(f"its columns cannot be compared with its equality deletes: {error}")
    return pa.table(dict(enumerate_names(arrays)))


def _refuse(problem: str) -> NoReturn:
    raise ParquetBloomError(f"its deleted rows cannot be determined: {problem}")


def _find_rows(bitmap: BitMap64, rows: RowNumbers) -> NDArray[np.int64]:
    if not isinstance(rows, range):
        return find_in_bitmap(bitmap, rows)
    return np.frombuffer((bitmap & BitMap64(rows)).to_array(), np.uint64).astype(np.int64)


class AppliedDeletes(NamedTuple):
    """The delete files of one data file; the problem, if there is one, why they cannot be determined."""

    vector: DeleteFile | None
    positions: tuple[DeleteFile, ...]
    equality: tuple[DeleteFile, ...]
    problem: str | None = None


class _Ordered:
    """Delete files by sequence number. The results for one number are one object, as many data files share them."""

    def __init__(self, files: Iterable[DeleteFile]) -> None:
        self._files = sorted(files, key=lambda file: (file.sequence_number, file.path))
        self._numbers = [file.sequence_number for file in self._files]
        self._known: dict[int, tuple[DeleteFile, ...]] = {}

    def starting_at(self, number: int) -> tuple[DeleteFile, ...]:
        """Return the files of this sequence number or a later one."""
        return self._from(bisect_left(self._numbers, number))

    def after(self, number: int) -> tuple[DeleteFile, ...]:
        """Return the files of later sequence numbers."""
        return self._from(bisect_right(self._numbers, number))

    def _from(self, start: int) -> tuple[DeleteFile, ...]:
        if start not in self._known:
            self._known[start] = tuple(self._files[start:])
        return self._known[start]


_NONE = _Ordered(())


def match_deletes(manifests: Manifests, specs: Mapping[int, PartitionSpec]) -> dict[int, AppliedDeletes]:
    """Return the delete files that apply, by the number of the data file in `manifests`.

    Parameters
    ----------
    manifests : the files of a snapshot.
    specs : the table's partition specs, pyiceberg's, by id.
    """
    if not manifests.deletes:
        return {}
    vectors: defaultdict[str, list[DeleteFile]] = defaultdict(list)
    by_path: defaultdict[str, list[DeleteFile]] = defaultdict(list)
    by_partition: defaultdict[Partition, list[DeleteFile]] = defaultdict(list)
    equality: defaultdict[Partition, list[DeleteFile]] = defaultdict(list)
    everywhere: list[DeleteFile] = []
    plain_paths = {without_scheme(path) for path in manifests.paths}
    for file in manifests.deletes:
        if file.content == EQUALITY_DELETES:
            (everywhere if _is_unpartitioned(specs[file.partition[0]]) else equality[file.partition]).append(file)
        elif file.content != POSITION_DELETES:
            everywhere.append(file)  # reading it fails, by name
        elif file.file_format == "PUFFIN":
            vectors[without_scheme(file.referenced or "")].append(file)
        elif (target := find_target(file, plain_paths)) is not None:
            by_path[target].append(file)
        else:
            by_partition[file.partition].append(file)
    path_deletes = {path: _Ordered(files) for path, files in by_path.items()}
    partition_deletes = {partition: _Ordered(files) for partition, files in by_partition.items()}
    equality_deletes = {partition: _Ordered([*files, *everywhere]) for partition, files in equality.items()}
    global_deletes = _Ordered(everywhere)
    unknown = any(file.sequence_number == UNKNOWN_SEQUENCE for file in manifests.deletes)
    unreferenced = bool(vectors.get(""))
    result = {}
    for row, written in enumerate(manifests.paths):
        path, number, partition = (
            without_scheme(written),
            manifests.sequence_numbers[row],
            manifests.partitions[row],
        )
        of_path = path_deletes.get(path, _NONE).starting_at(number)
        of_partition = partition_deletes.get(partition, _NONE).starting_at(number)
        by_values = equality_deletes.get(partition, global_deletes).after(number)
        positions = (*of_path, *(file for file in of_partition if may_name(file, written))) if of_partition else of_path
        problem = None
        vector = None
        if unknown or number == UNKNOWN_SEQUENCE:
            problem = "a manifest does not say in which order files and deletes were added"
        elif unreferenced:
            problem = "a deletion vector does not name its data file"
        elif path in vectors:
            vector, problem = _choose_vector(vectors[path], number, partition)
            positions = ()
        if problem is None:
            stray = next((file for file in positions if file.partition != partition), None)
            problem = stray and f"{stray.path} names the file, but is of another partition"
        if vector or positions or by_values or problem:
            result[row] = AppliedDeletes(vector, positions, by_values, problem)
    return result


def may_name(file: DeleteFile, path: str) -> bool:
    """Return whether a file of positions may have some of a data file, by the bounds of its paths."""
    if file.lower is None or file.upper is None:
        return True
    plain = without_scheme(path)
    forms = {path, plain} | ({f"file://{plain}", f"file:{plain}"} if plain.startswith("/") else set())
    return any(_is_within(form.encode(), file.lower, file.upper) for form in forms)


def _is_within(path: bytes, lower: bytes, upper: bytes) -> bool:
    """Return whether a path is within bounds; the upper one may be cut, and need not have been rounded up."""
    return lower <= path and (path <= upper or path.startswith(upper))


def find_target(file: DeleteFile, paths: Collection[str]) -> str | None:
    """Return the one data file that a file of positions is for, without its scheme; None for many.

    Parameters
    ----------
    paths : the data files. Bounds that are equal, and none of these, may have been cut.
    """
    if file.referenced is not None:
        return without_scheme(file.referenced)
    if file.lower is not None and file.lower == file.upper:
        target = without_scheme(file.lower.decode("utf-8", "surrogateescape"))
        return target if target in paths else None
    return None


def _choose_vector(files: list[DeleteFile], number: int, partition: Partition) -> tuple[DeleteFile, str | None]:
    """Return the deletion vector of a data file, and why it cannot be applied, if so."""
    file = files[0]
    if len(files) > 1:
        return file, f"it has {len(files)} deletion vectors, {file.path} being one"
    if file.sequence_number < number:
        return file, f"its deletion vector in {file.path} is older than the file"
    if file.partition != partition:
        return file, f"its deletion vector in {file.path} is of another partition"
    return file, None


def _is_unpartitioned(spec: PartitionSpec) -> bool:
    return all(isinstance(each.transform, transforms.VoidTransform) for each in spec.fields)
