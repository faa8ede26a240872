import numpy as np
from numpy.typing import NDArray

def locate_blocks(num_bytes: NDArray[np.int64], hashes: NDArray[np.uint64]) -> NDArray[np.int64]: ...
def check_blocks(
    blocks: NDArray[np.uint8], numbers: NDArray[np.int64], hashes: NDArray[np.uint64]
) -> NDArray[np.bool_]: ...
