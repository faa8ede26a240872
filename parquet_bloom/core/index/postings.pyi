from typing import Any

import numpy as np
from numpy.typing import NDArray

HOT: int
REASONS: tuple[str, ...]

class Layout:
    def __init__(self, prefix_bits: int, bucket_bits: int, block_bits: int, id_bits: int) -> None: ...
    @property
    def prefix_bits(self) -> int: ...
    @property
    def bucket_bits(self) -> int: ...
    @property
    def block_bits(self) -> int: ...
    @property
    def id_bits(self) -> int: ...
    def block_number(self, h: int) -> int: ...
    def first_key(self, block: int) -> int: ...

def squeeze(keys: NDArray[np.uint64]) -> int: ...
def hot_runs(
    layout: Layout, keys: NDArray[np.uint64], threshold: int = HOT
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def pack(
    layout: Layout,
    keys: NDArray[np.uint64],
    first_block: int,
    num_blocks: int,
    hot_first: NDArray[np.int64],
    hot_length: NDArray[np.int64],
    hot_locations: NDArray[np.uint64],
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]: ...
def find(
    layout: Layout,
    data: Any,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    num_units: int,
) -> tuple[
    NDArray[np.intp],
    NDArray[np.uint32],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.intp],
    NDArray[np.uint8],
]: ...
def find_one(
    layout: Layout, block: bytes, h: int, num_units: int
) -> tuple[NDArray[np.uint32], tuple[int, int] | None, int]: ...
def unpack(
    layout: Layout, data: Any, starts: NDArray[np.int64], first_block: int, num_units: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], dict[int, str]]: ...
