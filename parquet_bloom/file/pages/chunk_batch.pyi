from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metadata.page_match import Targets
from ...storage.local.open_files import RangeReader

MAX_CHUNK_BYTES: int
HAS_BITS: int
IS_CHAINED: int
IS_COMPRESSED: int

_TakenValues = tuple[NDArray[np.bool_] | None, NDArray[np.int32] | None, NDArray[np.uint8]]
_TakenLists = tuple[NDArray[np.bool_], NDArray[np.int32], _TakenValues]

class PageHeaders:
    grown: set[int]
    def __new__(cls, files: list[dict[int, bytes]], most: int) -> PageHeaders: ...

def pack_pages(dictionary_bytes: int, sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> bytes: ...

class ListsTaken:
    def __new__(cls, width: int, most: int) -> ListsTaken: ...
    def finish(self) -> _TakenLists: ...

class ChunkBatch:
    requests: int
    num_bytes: int
    def __new__(
        cls,
        files: RangeReader,
        unpack: Callable[[memoryview, NDArray[np.int64], int], Any],
        headers: PageHeaders | None = None,
    ) -> ChunkBatch: ...
    def search(
        self, chunks: NDArray[np.int64], width: int, required: bool, targets: Targets, most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]] | None: ...
    def search_rows(
        self,
        chunks: NDArray[np.int64],
        width: int,
        required: bool,
        targets: Targets,
        most: int,
        counts: NDArray[np.int64],
        ranges: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]] | None: ...
    def count_pages(self, chunks: NDArray[np.int64]) -> int: ...
    def search_lists(
        self,
        chunks: NDArray[np.int64],
        width: int,
        least: NDArray[np.int64],
        max_definition: int,
        targets: Targets,
        most: int,
        taken: bool,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], _TakenLists | None] | None: ...
    def take_lists(
        self,
        chunks: NDArray[np.int64],
        width: int,
        least: NDArray[np.int64],
        max_definition: int,
        counts: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> _TakenLists: ...
    def take(
        self,
        chunks: NDArray[np.int64],
        width: int,
        required: bool,
        counts: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> _TakenValues: ...
