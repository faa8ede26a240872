"""Bytes in memory as an opened file, local or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from parquet_bloom.storage import Source


class InMemory(Source):
    """A file with these bytes; without a path it is remote."""

    def __init__(self, data: bytes, path: str | None = None):
        self.name, self.path, self.size, self.data = "bytes", path, len(data), data

    def _read(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def _gather(self, offsets: Any, lengths: Any, out: Any) -> None:
        parts = [self.data[offset : offset + length] for offset, length in zip(offsets, lengths, strict=True)]
        out[:] = np.frombuffer(b"".join(parts), np.uint8)

    def arrow_file(self) -> pa.NativeFile:
        raise NotImplementedError

    def check_unchanged(self) -> None:
        pass

    def close(self) -> None:
        pass
