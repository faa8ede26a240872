from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRUE: int
FALSE: int
BYTE: int
I16: int
I32: int
I64: int
DOUBLE: int
BINARY: int
LIST: int
SET: int
MAP: int
STRUCT: int
UUID: int
CHUNK_DTYPE: np.dtype[np.void]
INDEX_DTYPE: np.dtype[np.void]
ROW_GROUP_DTYPE: np.dtype[np.void]
STATISTICS_DTYPE: np.dtype[np.void]
BOUNDS: tuple[str, ...]

class Cursor:
    def __new__(cls, buffer: Any, start: int = 0) -> Cursor: ...

def read_struct(buffer: Any, start: int = 0) -> tuple[dict[int, Any], int]: ...
def read_value(footer: Any, start: int, type: int) -> Any: ...
def split_struct(buffer: Any, start: int = 0) -> tuple[dict[int, tuple[int, bytes]], int]: ...
def split_structs(buffer: Any, start: int = 0) -> tuple[list[bytes], int]: ...
def write_struct(fields: Iterable[tuple[int, int, Any]]) -> bytes: ...
def read_page_locations(index: Any, limit: int) -> NDArray[np.int64]: ...
def read_page_header_fields(data: Any) -> dict[str, int]: ...
def index_pages(data: Any, max_pages: int) -> NDArray[np.int64]: ...
def index_window(data: Any, num_bytes: int, num_values: int, max_pages: int) -> NDArray[np.int64]: ...
def pages_agree(
    heads: Any, lengths: NDArray[np.int64], sizes: NDArray[np.int64], counts: NDArray[np.int64]
) -> bool: ...
def index_footer(footer: Any) -> tuple[dict[Any, int], NDArray[np.void], NDArray[np.void]]: ...
def index_footers(
    footers: list[bytes], starts: NDArray[np.int64]
) -> tuple[
    NDArray[np.void],
    NDArray[np.int64],
    NDArray[np.void],
    NDArray[np.int64],
    NDArray[np.void],
    NDArray[np.int64],
    NDArray[np.bool_],
]: ...
def read_statistics(
    footers: list[bytes],
    which: NDArray[np.int64],
    statistics: NDArray[np.int64],
    paths: NDArray[np.int64],
    encoded_path: bytes,
) -> NDArray[np.void]: ...
def have_path(
    footers: list[bytes], which: NDArray[np.int64], paths: NDArray[np.int64], encoded_path: bytes
) -> bool: ...
def splice_filters(
    footer: Any,
    meta_starts: NDArray[np.int64],
    meta_ends: NDArray[np.int64],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> bytes: ...
