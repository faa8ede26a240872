from typing import Any

import numpy as np
from numpy.typing import NDArray

class Targets:
    longest: int
    values: list[bytes]
    def __init__(self, values: list[bytes]) -> None: ...
    def __len__(self) -> int: ...

def search_pages(
    data: Any, pages: NDArray[np.int64], width: int, codec: int, required: bool, num_rows: int, targets: Targets
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
