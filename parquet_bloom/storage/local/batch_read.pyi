import numpy as np
from numpy.typing import NDArray

def visit(
    paths: list[bytes],
    identities: NDArray[np.int64],
    first: NDArray[np.int64],
    offsets: NDArray[np.int64],
    length: int,
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]: ...
def read_ends(paths: list[bytes], length: int) -> list[tuple[tuple[int, int, int, int, int], bytes] | None]: ...
