from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.decode.snappy import Scratch
from .page_decode import StoredColumn

def measure_byte_arrays(data: Any, count: int) -> int: ...
def locate_byte_arrays(data: Any, count: int) -> NDArray[np.int32]: ...

class ChunkScan:
    dictionary: Any
    used: NDArray[np.uint8] | None

    def __init__(
        self,
        column: StoredColumn,
        codec: int,
        denies_compression: bool,
        num_values: int,
        num_rows: int,
        decompress: Callable[[memoryview, int, int], memoryview],
        scratch: Scratch | None = None,
        flags_only: bool = False,
    ) -> None: ...
    def scan(self, data: memoryview, pages: NDArray[np.int64], first: int) -> tuple[int, list[tuple[Any, int]]]: ...
    def finish(self) -> list[tuple[Any, int]]: ...
