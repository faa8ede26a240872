"""Writing through pyarrow file systems: a temporary file that is renamed at the end."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow.fs import FileSystem

from ..util.lazy import late_module
from .local import local_rewrite
from .new_file import COPIED_BYTES, Rewrite
from .source import Source

if TYPE_CHECKING:
    import pyarrow.fs as fs
else:
    fs = late_module("pyarrow.fs")


class RemoteRewrite(Rewrite):
    """A new file on any pyarrow file system.

    The move at the end is as atomic as the file system makes it: a rename on HDFS, a copy of the object and a removal
    on object stores, where readers see the old object or the new one, never a part. Concurrent changes of the target by
    other writers are not noticed.
    """

    def __init__(self, source: Source | None, path: str, filesystem: FileSystem) -> None:
        super().__init__(source, path)
        self._filesystem = filesystem
        self._temporary = local_rewrite.name_beside(path, "/")
        self._stream: pa.NativeFile = None

    def _begin(self) -> None:
        self._stream = self._filesystem.open_output_stream(self._temporary)

    def _copy(self, source: Source, length: int) -> None:
        for offset in range(0, length, COPIED_BYTES):
            self._stream.write(source.read_at(offset, min(COPIED_BYTES, length - offset)))

    def _write(self, data: memoryview) -> None:
        self._stream.write(data)

    def _commit(self) -> None:
        self._stream.close()
        if self._source is not None:
            self._source.check_unchanged()
        self._filesystem.move(self._temporary, self.path)

    def _undo(self) -> None:
        if self._stream is None:
            return
        # A stream cannot be aborted: closing it completes the temporary file, which is then removed.
        with suppress(OSError, pa.ArrowException):
            self._stream.close()
        with suppress(OSError, pa.ArrowException):
            self._filesystem.delete_file(self._temporary)

    def _tidy(self) -> None:
        self._stream = None
