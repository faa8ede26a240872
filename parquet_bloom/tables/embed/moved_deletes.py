"""Write the position deletes and deletion vectors of data files anew, for files with the same rows at other paths."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from ...errors import ParquetBloomError, StorageError
from ...file.many_files import process_files
from ...util.lazy import late_module
from ..iceberg.iceberg_deletes import (
    PUFFIN_MAGIC,
    AppliedDeletes,
    make_vector_blob,
    open_delete_file,
    read_positions,
    read_vector_blob,
)
from ..iceberg.manifests import EQUALITY_DELETES, POSITION_DELETES, DeleteFile, Partition
from ..position_files import ICEBERG_POSITIONS, make_batches
from ..table_locations import without_scheme
from .table_target import UnfitFiles

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyiceberg.io import FileIO
else:
    pq = late_module("pyarrow.parquet")

FILES = 8  # delete files that are read, or written, at a time: they are small, and stores are mostly waited for
VECTOR_SUFFIX = "deletes.puffin"
VECTORS_SINCE = 3  # the version of the format; from then on position deletes are no longer added

T = TypeVar("T")
R = TypeVar("R")

DeleteKey = tuple[str, int | None]
"""The path of a delete file, and where in it the deletes lie."""


class NewDelete(NamedTuple):
    """What a manifest says of new deletes, where it may differ from what it says of those whose place they take.

    The fields are those of `DeleteFile`.
    """

    path: str
    file_format: str
    sequence_number: int
    size: int
    record_count: int
    referenced: str | None
    offset: int | None
    length: int | None
    lower: bytes | None
    upper: bytes | None

    def change(self, file: DeleteFile) -> DeleteFile:
        """Return what a manifest says of a delete file with these values in it."""
        return file._replace(**self._asdict())

    def make_file(self, partition: Partition) -> DeleteFile:
        """Return what a manifest says of them as deletes of a partition that take nothing's place."""
        return DeleteFile(
            content=POSITION_DELETES, partition=partition, encrypted=False, equality_ids=(), **self._asdict()
        )


class DeleteChange(NamedTuple):
    """What becomes of a delete file: whether the table keeps it, and the new ones beside it or in its place."""

    keeps: bool
    new: tuple[NewDelete, ...]


def explain_deletes(deletes: AppliedDeletes | None, version: int) -> str | None:
    """Return why a file with deletes cannot be exchanged, as far as the manifests tell; None if it can.

    Parameters
    ----------
    version : of the table's format.
    """
    if deletes is None:
        return None
    if deletes.problem is not None:
        return f"its deletes are not certain: {deletes.problem}"
    strange = next((file for file in deletes.equality if file.content != EQUALITY_DELETES), None)
    if strange is not None:
        return f"its deletes are not certain: the content of {strange.path} is not known"
    if deletes.vector is not None and version < VECTORS_SINCE:
        return f"it has a deletion vector, which tables of format version {version} have not"
    return None


class DeletesMover:
    """Writes deletes anew.

    Parameters
    ----------
    file_io : pyiceberg's FileIO of the table.
    version : of the table's format. From version 3 on position deletes become deletion vectors.
    name_file : returns the path of a new file, given that of one in the same folder and how its name ends.
    """

    def __init__(self, file_io: FileIO, version: int, name_file: Callable[[str, str], str]):
        self._io, self._version, self._name_file = file_io, version, name_file
        self._unfit: dict[str, str] = {}  # {path of a data file: why its deletes cannot be written anew}

    def write(
        self, deletes: Mapping[str, AppliedDeletes], names: Mapping[str, str], live: Collection[str]
    ) -> dict[DeleteKey, DeleteChange]:
        """Write the deletes of some files.

        Parameters
        ----------
        deletes : {path of a data file, as the metadata has it: its deletes}.
        names : {the same path: the file's new name, in the same folder}.
        live : the paths of all data files of the table.

        Raises
        ------
        UnfitFiles
            Deletes of some of the files cannot be read.
        """
        plain = {without_scheme(path): name for path, name in names.items()}
        others = {without_scheme(path) for path in live} - plain.keys()
        files = _group_positions(deletes)
        vectors = [
            _Vector(path, _rename(vector.referenced or "", plain), vector, partial(self._read_blob, vector))
            for path, vector in _list_vectors(deletes)
        ]
        found: dict[DeleteKey, DeleteChange] = {}
        merged: dict[str, tuple[DeleteFile, int, BitMap64]] = {}
        with closing(self._in_threads(partial(self._move_positions, plain), [*files], files.__getitem__)) as results:
            for file, moved in results:
                if moved is None:
                    continue
                if isinstance(moved, NewDelete):
                    found[make_key(file)] = DeleteChange(False, (moved,))
                    continue
                keeps = any(without_scheme(path) in others for path in moved)
                found[make_key(file)] = DeleteChange(keeps, ())
                for path in files[file]:
                    first, sequence, bitmap = merged.get(path, (file, 0, BitMap64()))
                    for written, part in moved.items():
                        if without_scheme(written) == without_scheme(path):
                            bitmap = bitmap | part
                    merged[path] = first, max(sequence, file.sequence_number), bitmap
        for path, (file, sequence, bitmap) in merged.items():
            if bitmap:
                made = make_vector_blob(bitmap), bitmap
                template = file._replace(sequence_number=sequence)
                vectors.append(_Vector(path, _rename(path, plain), template, lambda made=made: made))  # type: ignore[misc]
        for key, news in self._write_vectors(vectors).items():
            keeps = found[key].keeps if key in found else False
            found[key] = DeleteChange(keeps, tuple(news))
        if self._unfit:
            raise UnfitFiles(self._unfit)
        return found

    def find_unfit(self, deletes: Mapping[str, AppliedDeletes]) -> dict[str, str]:
        """Read the deletes of some files, and return {path of a data file: why its deletes cannot be written anew}.

        Parameters
        ----------
        deletes : as for `write`.
        """
        files, vectors = _group_positions(deletes), _list_vectors(deletes)
        with closing(self._in_threads(self._read_positions, [*files], files.__getitem__)) as results:
            for _ in results:
                pass
        read = self._in_threads(lambda one: self._read_blob(one[1]), vectors, lambda one: [one[0]])
        with closing(read) as blobs:
            for _ in blobs:
                pass
        return self._unfit

    def _in_threads(
        self, work: Callable[[T], R], items: Sequence[T], find_paths: Callable[[T], Sequence[str]]
    ) -> Generator[tuple[T, R], None, None]:
        """Yield deletes and what becomes of them, in order; those that cannot be read are noted as unfit.

        They are read ahead by several threads, so that those of some `AHEAD * FILES` are in memory at a time.

        Parameters
        ----------
        work : reads one of the items.
        find_paths : returns the data files that one of them is about.
        """
        with process_files(items, lambda item, _: work(item), FILES) as outcomes:
            for item, outcome in zip(items, outcomes, strict=True):
                if isinstance(outcome, ParquetBloomError):
                    self._unfit |= dict.fromkeys(find_paths(item), str(outcome))
                else:
                    yield item, outcome

    def _move_positions(self, plain: Mapping[str, str], file: DeleteFile) -> dict[str, BitMap64] | NewDelete | None:
        """Write a file of positions anew; return the positions where they become vectors, None if all keep their paths.

        Parameters
        ----------
        plain : {path of a data file, without scheme: its new name}.
        """
        positions = self._read_positions(file)
        renamed = {_rename(path, plain): bitmap for path, bitmap in positions.items()}
        if renamed.keys() == positions.keys():
            return None
        return positions if self._version >= VECTORS_SINCE else self._write_positions(file, renamed, plain)

    def _read_blob(self, file: DeleteFile) -> tuple[bytes, BitMap64]:
        with _named_errors(file):
            return read_vector_blob(self._io, file)

    def _read_positions(self, file: DeleteFile) -> dict[str, BitMap64]:
        with _named_errors(file):
            with open_delete_file(self._io, file) as parquet:
                columns = parquet.schema_arrow.names
            if len(columns) > len(ICEBERG_POSITIONS):
                problem = f"has more columns than paths and positions: {', '.join(columns)}"
                raise ParquetBloomError(f"its delete file {file.path} {problem}")
            return read_positions(self._io, file, str)[0]

    def _write_positions(
        self, file: DeleteFile, positions: Mapping[str, BitMap64], plain: Mapping[str, str]
    ) -> NewDelete:
        path = self._name_file(file.path, "deletes.parquet")
        names = sort_paths(positions)
        rows = (np.frombuffer(positions[name].to_array(), np.uint64).astype(np.int64) for name in names)
        size = write_position_file(self._io, path, zip(names, rows, strict=True))
        referenced = None if file.referenced is None else _rename(file.referenced, plain)
        count = sum(map(len, positions.values()))
        bounds = names[0].encode(), names[-1].encode()
        return NewDelete(path, "PARQUET", file.sequence_number, size, count, referenced, None, None, *bounds)

    def _write_vectors(self, vectors: Sequence[_Vector]) -> dict[DeleteKey, list[NewDelete]]:
        """Write vectors, and return them by the delete files whose place they take."""
        result: dict[DeleteKey, list[NewDelete]] = {}
        with closing(self._in_threads(self._write_vector, vectors, lambda vector: [vector.data_file])) as written:
            for vector, new in written:
                result.setdefault(make_key(vector.file), []).append(new)
        return result

    def _write_vector(self, vector: _Vector) -> NewDelete:
        name, file = vector.referenced, vector.file
        blob, positions = vector.read()
        path = self._name_file(file.path, VECTOR_SUFFIX)
        new = write_vector(self._io, path, name, blob, len(positions), file.sequence_number)
        is_vector = file.offset is not None
        return new._replace(lower=name.encode(), upper=name.encode()) if is_vector and file.lower is not None else new


def sort_paths(paths: Iterable[str]) -> list[str]:
    """Return paths in the order of a position delete file: by bytes, as the specification compares texts."""
    return sorted(paths, key=str.encode)


def write_position_file(file_io: FileIO, path: str, parts: Iterable[tuple[str, NDArray[np.int64]]]) -> int:
    """Write a position delete file, and return its number of bytes.

    Parameters
    ----------
    parts : the path of a data file, as the metadata has it, and rows of it; both ascending, paths as `sort_paths` does.
    """
    output = file_io.new_output(path)
    with (
        output.create(overwrite=True) as stream,
        pq.ParquetWriter(stream, ICEBERG_POSITIONS, compression="zstd") as writer,
    ):
        for batch in make_batches(parts, ICEBERG_POSITIONS):
            writer.write_batch(batch)
    return len(output)


def write_vector(file_io: FileIO, path: str, referenced: str, blob: bytes, count: int, sequence: int) -> NewDelete:
    """Write the bytes of a deletion vector, and return what a manifest says of it.

    Each vector is in a Puffin file of its own: of several in one file DuckDB 1.5.5 applies a wrong one now and then.

    Parameters
    ----------
    path : of the Puffin file.
    referenced : the data file of which so many rows are deleted.
    sequence : the vector's sequence number.
    """
    begin = len(PUFFIN_MAGIC)
    blobs = [_describe_vector(referenced, count, begin, len(blob))]
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "parquet-bloom"}}).encode()
    content = PUFFIN_MAGIC + blob + PUFFIN_MAGIC + footer + struct.pack("<ii", len(footer), 0) + PUFFIN_MAGIC
    with file_io.new_output(path).create(overwrite=True) as stream:
        stream.write(content)
    return NewDelete(path, "PUFFIN", sequence, len(content), count, referenced, begin, len(blob), None, None)


class _Vector(NamedTuple):
    """A deletion vector to be written.

    Attributes
    ----------
    data_file : whose rows are deleted, at its old path; `referenced` is the new one.
    file : the delete file whose place it takes, with the sequence number that it gets.
    read : returns its bytes and its positions.
    """

    data_file: str
    referenced: str
    file: DeleteFile
    read: Callable[[], tuple[bytes, BitMap64]]


def _group_positions(deletes: Mapping[str, AppliedDeletes]) -> dict[DeleteFile, list[str]]:
    """Return the files of positions, each with the data files that it is read for."""
    files: dict[DeleteFile, list[str]] = {}
    for path, applied in deletes.items():
        for file in applied.positions:
            files.setdefault(file, []).append(path)
    return files


def _list_vectors(deletes: Mapping[str, AppliedDeletes]) -> list[tuple[str, DeleteFile]]:
    """Return the data files that have a deletion vector, each with that."""
    return [(path, applied.vector) for path, applied in deletes.items() if applied.vector is not None]


def make_key(file: DeleteFile) -> DeleteKey:
    """Return what tells a delete file, or a vector in one, from others."""
    return file.path, file.offset


def _describe_vector(referenced: str, count: int, offset: int, length: int) -> dict[str, object]:
    """Return what the footer of a Puffin file says of a deletion vector."""
    return {
        "type": "deletion-vector-v1",
        "fields": [],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": length,
        "properties": {"referenced-data-file": referenced, "cardinality": str(count)},
    }


def _rename(path: str, plain: Mapping[str, str]) -> str:
    """Return the new path of a data file, written as the old one is; the old one if it has no new one."""
    name = plain.get(without_scheme(path))
    return path if name is None else f"{path.rpartition('/')[0]}/{name}"


@contextmanager
def _named_errors(file: DeleteFile) -> Iterator[None]:
    """Raise whatever a delete file that cannot be read makes raise as an error that names it."""
    try:
        yield
    except ParquetBloomError:
        raise
    except Exception as error:  # of many kinds: pyarrow's, pyiceberg's
        raise StorageError.wrap(error, f"its delete file {file.path} cannot be read", None) from error


def name_beside(path: str, suffix: str) -> str:
    """Return the path of a new delete file in the folder of another file, named as the format's writers do."""
    return f"{os.path.dirname(path)}/00000-0-{uuid4()}-00001-{suffix}"
