from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ABSENT: int
MAYBE: int
EMPTY: int
ODD: int
UNREAD: int

def usual_header(length: int) -> bytes: ...
def probe(
    paths: list[bytes | None],
    identities: NDArray[np.int64],
    in_memory: dict[int, Sequence[tuple[int, Any]]],
    first: NDArray[np.int64],
    start: int,
    stop: int,
    filters: NDArray[np.int64],
    which: NDArray[np.int64],
    first_key: NDArray[np.int64],
    keys: NDArray[np.uint64],
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]: ...
