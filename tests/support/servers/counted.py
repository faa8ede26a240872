"""A remote file system that records every requested range: fsspec's buffered files over bytes in memory."""

from __future__ import annotations

import threading
from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem


class CountedFile(AbstractBufferedFile):
    """A file with a position of its own, as those of object stores are."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.answer(self.path, start, end)


class CountedFileSystem(AbstractFileSystem):
    """Files in memory, read by ranged requests.

    Attributes
    ----------
    files : {path: bytes}; tests change them while they are read.
    ranges_read : (start, end) of each request.
    most_at_once : requests that were under way together, at most.
    expected_at_once : requests wait until so many have been under way together.
    """

    protocol = "counted"
    cachable = False

    def __init__(self, files: dict[str, bytes], **options: Any):
        super().__init__(**options)
        self.files = files
        self.ranges_read: list[tuple[int, int]] = []
        self.most_at_once = 0
        self._under_way = 0
        self._lock = threading.Condition()
        self.expected_at_once = 0
        self.failing: set[int] = set()

    def answer(self, path: str, start: int, end: int) -> bytes:
        with self._lock:
            self.ranges_read.append((start, end))
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
            self._lock.notify_all()
        try:
            if start in self.failing:
                raise OSError(5, "injected")
            with self._lock:
                assert self._lock.wait_for(lambda: self.most_at_once >= self.expected_at_once, 600)
            return self.files[path][start:end]
        finally:
            with self._lock:
                self._under_way -= 1

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return {"name": path, "size": len(self.files[path]), "type": "file"}

    def _open(self, path: str, mode: str = "rb", **options: Any) -> CountedFile:
        options.pop("autocommit", None)
        return CountedFile(self, path, mode, **options)
