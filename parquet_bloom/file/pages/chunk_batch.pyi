from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metadata.page_decode import StoredColumn
from ...metadata.page_match import Targets
from ...storage.local.open_files import RangeReader

MAX_CHUNK_BYTES: int
HAS_BITS: int
IS_CHAINED: int
IS_COMPRESSED: int

class PageHeaders:
    grown: set[int]
    def __new__(cls, files: list[dict[int, bytes]], most: int) -> PageHeaders: ...

def pack_pages(dictionary_bytes: int, sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> bytes: ...

class Entries:
    def __new__(cls, width: int, most: int) -> Entries: ...

class ChunkBatch:
    requests: int
    num_bytes: int
    def __new__(
        cls,
        files: RangeReader,
        decompress: Callable[[memoryview, int, int], Any],
        headers: PageHeaders | None = None,
    ) -> ChunkBatch: ...
    def search(
        self,
        chunks: NDArray[np.int64],
        column: StoredColumn,
        targets: Targets,
        most: int,
        counts: NDArray[np.int64] | None = None,
        ranges: NDArray[np.int64] | None = None,
        taken: bool = False,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], Any] | None: ...
    def read_dictionaries(
        self, chunks: NDArray[np.int64], column: StoredColumn, most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32] | None, NDArray[np.uint8], dict[int, str]]: ...
    def count_pages(self, chunks: NDArray[np.int64], column: StoredColumn) -> int: ...
    def take(
        self, chunks: NDArray[np.int64], column: StoredColumn, counts: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> Any: ...
