"""Read-only pyarrow file system over object stores, for datasets; its paths are the names in listings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem

from ...errors import StorageError
from ...redaction import redacted
from ..listing import list_entries
from ..local.local_source import LocalSource
from ..paths import object_location
from ..source import Source
from .object_source import ObjectSource

if TYPE_CHECKING:
    from ...util.given_types import FileSystem


def make_filesystem(objects: FileSystem | None) -> PyFileSystem:
    """Return a pyarrow file system over the result of `resolve_filesystem`; None uses settings of the environment."""
    return PyFileSystem(_Handler(objects))


class _Handler(FileSystemHandler):  # type: ignore[misc]
    """Implementation of the file system for pyarrow."""

    def __init__(self, objects: FileSystem | None):
        self._objects = objects

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and self._objects is other._objects

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "obstore"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> FileInfo:
        try:
            with self._open(path) as source:
                return FileInfo(path, FileType.File, size=source.size)
        except FileNotFoundError:
            return FileInfo(path, FileType.NotFound)

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        entries = list_entries([selector.base_dir.rstrip("/") + "/"], self._objects)
        return [FileInfo(entry.path, FileType.File, size=entry.known.size if entry.known else -1) for entry in entries]

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._open(path).arrow_file()

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._open(path).arrow_file()

    def _open(self, path: str) -> Source:
        location = object_location(path, self._objects)
        try:
            return LocalSource(path) if location is None else ObjectSource(location)
        except StorageError as error:
            if error.errno is None:
                raise
            raise OSError(
                error.errno, error.problem, redacted(path)
            ) from error  # pyarrow checks the class of the error

    def _read_only(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("objects can only be read here")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _read_only
    move = copy_file = open_output_stream = open_append_stream = _read_only
