from typing import Any

import numpy as np
from numpy.typing import NDArray

def unpack_front(data: Any, size: int, needed: int) -> NDArray[np.uint8]: ...
