from typing import Any

import numpy as np
from numpy.typing import NDArray

def unpack_front(data: Any, size: int, needed: int) -> NDArray[np.uint8]: ...
def unpack_pair(
    first: Any, first_size: int, second: Any, second_size: int, scratch: Scratch | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]: ...

class Scratch:
    def take(self, size: int) -> NDArray[np.uint8]: ...
