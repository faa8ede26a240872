from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class StoredColumn:
    width: int
    def __init__(self, width: int, least: Sequence[int] | NDArray[np.int64], max_definition: int) -> None: ...

class PageVisitor:
    column: StoredColumn
    def __new__(cls, column: StoredColumn, decompress: Any, *_: Any) -> PageVisitor: ...
