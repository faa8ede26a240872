from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

UINT: int
INT: int
SINT: int
BOOL: int
DOUBLE: int
BYTES: int
SPAN: int
MESSAGE: int

class Cursor:
    def __new__(cls, buffer: Any, start: int = 0, end: int = -1) -> Cursor: ...

def read_message(
    buffer: Any, fields: Mapping[int, tuple[str, int, bool, Any]], start: int = 0, end: int = -1
) -> dict[str, Any]: ...
def read_spans(buffer: Any, number: int, start: int = 0, end: int = -1) -> NDArray[np.int64]: ...
def read_bloom_filter(buffer: Any, start: int = 0, end: int = -1) -> tuple[int | None, bytes | None, bytes | None]: ...
