from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cuckoo import Layout

class RowScan:
    def __init__(self, layout: Layout, num_slots: int, fingerprints: NDArray[np.uint32]) -> None: ...
    def feed(self, data: Any) -> None: ...
    def finish(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]] | None: ...

def pack(layout: Layout, fingerprints: NDArray[Any], first_row: int) -> NDArray[np.uint8]: ...
def unpack(
    layout: Layout, data: NDArray[np.uint8], num_slots: int, first_row: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...
def scan_rows(
    layout: Layout,
    num_slots: int,
    data: NDArray[np.uint8],
    rows: NDArray[np.int64],
    first_fingerprint: NDArray[np.int64],
    fingerprints: NDArray[np.uint32],
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.bool_]]: ...
