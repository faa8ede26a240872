"""Write the position deletes and deletion vectors of data files anew, for files with the same rows at other paths."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import numpy as np

from ...errors import ParquetBloomError, StorageError
from ...util.lazy import late_module
from ..iceberg.iceberg_deletes import (
    PUFFIN_MAGIC,
    AppliedDeletes,
    open_delete_file,
    read_positions,
    read_vector_blob,
)
from ..iceberg.manifests import EQUALITY_DELETES, DeleteFile
from ..position_files import ICEBERG_POSITIONS, make_batch
from ..table_locations import without_scheme
from .exchange_files import UnfitFiles

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyiceberg.io import FileIO
    from pyroaring import BitMap64
else:
    pq = late_module("pyarrow.parquet")

_BATCH_ROWS = 1 << 17
_VECTORS_SINCE = 3  # the version of the format; from then on position deletes are no longer added

DeleteKey = tuple[str, int | None]
"""The path of a delete file, and where in it the deletes lie."""


class MovedDelete(NamedTuple):
    """What a manifest says of the deletes that take another's place, where it differs; see the specification."""

    path: str
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
    if deletes.vector is not None and version < _VECTORS_SINCE:
        return f"it has a deletion vector, which tables of format version {version} have not"
    if deletes.positions and version >= _VECTORS_SINCE:
        return f"it has position deletes, which tables of format version {version} do not get any more"
    return None


class DeletesMover:
    """Writes deletes anew.

    Parameters
    ----------
    file_io : pyiceberg's FileIO of the table.
    name_file : returns the path of a new file, given the delete file that it takes the place of and how its name ends.
    """

    def __init__(self, file_io: FileIO, name_file: Callable[[DeleteFile, str], str]):
        self._io, self._name_file = file_io, name_file

    def write(self, deletes: Mapping[str, AppliedDeletes], names: Mapping[str, str]) -> dict[DeleteKey, MovedDelete]:
        """Write the deletes of some files.

        Parameters
        ----------
        deletes : {path of a data file, as the metadata has it: its deletes}.
        names : {the same path: the file's new name, in the same folder}.

        Raises
        ------
        UnfitFiles
            Deletes of some of the files cannot be read.
        """
        unfit: dict[str, str] = {}
        plain = {without_scheme(path): name for path, name in names.items()}
        files: dict[DeleteFile, list[str]] = {}
        vectors = []
        for path, applied in deletes.items():
            if applied.vector is not None:
                vectors.append((path, applied.vector))
            for file in applied.positions:
                files.setdefault(file, []).append(path)
        moved = {}
        for file, paths in files.items():
            try:
                positions = self._read_positions(file)
            except ParquetBloomError as error:
                unfit |= dict.fromkeys(paths, str(error))
                continue
            renamed = {_rename(path, plain): bitmap for path, bitmap in positions.items()}
            if renamed.keys() != positions.keys():
                moved[file.path, file.offset] = self._write_positions(file, renamed, plain)
        if vectors:
            moved |= self._write_vectors(vectors, plain, unfit)
        if unfit:
            raise UnfitFiles(unfit)
        return moved

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
    ) -> MovedDelete:
        path = self._name_file(file, "deletes.parquet")
        output = self._io.new_output(path)
        names = sorted(positions, key=str.encode)  # by bytes, as the specification compares texts
        with (
            output.create(overwrite=True) as stream,
            pq.ParquetWriter(stream, ICEBERG_POSITIONS, compression="zstd") as writer,
        ):
            for name in names:
                rows = np.frombuffer(positions[name].to_array(), np.uint64).astype(np.int64)
                for start in range(0, len(rows), _BATCH_ROWS):
                    writer.write_batch(make_batch([(name, rows[start : start + _BATCH_ROWS])], ICEBERG_POSITIONS))
        referenced = None if file.referenced is None else _rename(file.referenced, plain)
        count = sum(map(len, positions.values()))
        bounds = names[0].encode(), names[-1].encode()
        return MovedDelete(path, len(output), count, referenced, file.offset, file.length, *bounds)

    def _write_vectors(
        self, vectors: Sequence[tuple[str, DeleteFile]], plain: Mapping[str, str], unfit: dict[str, str]
    ) -> dict[DeleteKey, MovedDelete]:
        """Write all vectors into one Puffin file; `unfit` gets the data files of those that cannot be read."""
        path = self._name_file(vectors[0][1], "deletes.puffin")
        blobs, moved, at = [], {}, len(PUFFIN_MAGIC)
        output = self._io.new_output(path)
        with output.create(overwrite=True) as stream:
            stream.write(PUFFIN_MAGIC)
            for data_file, file in vectors:
                try:
                    with _named_errors(file):
                        blob, positions = read_vector_blob(self._io, file)
                except ParquetBloomError as error:
                    unfit[data_file] = str(error)
                    continue
                referenced = _rename(file.referenced or "", plain)
                stream.write(blob)
                blobs.append(_describe_vector(referenced, len(positions), at, len(blob)))
                bounds = (None, None) if file.lower is None else (referenced.encode(), referenced.encode())
                moved[file.path, file.offset] = MovedDelete(path, 0, len(positions), referenced, at, len(blob), *bounds)
                at += len(blob)
            footer = json.dumps({"blobs": blobs, "properties": {"created-by": "parquet-bloom"}}).encode()
            end = PUFFIN_MAGIC + footer + struct.pack("<ii", len(footer), 0) + PUFFIN_MAGIC
            stream.write(end)
        return {key: each._replace(size=at + len(end)) for key, each in moved.items()}


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


def name_beside(file: DeleteFile, suffix: str) -> str:
    """Return the path of a new delete file in the folder of another, named as the format's writers do."""
    return f"{os.path.dirname(file.path)}/00000-0-{uuid4()}-00001-{suffix}"
