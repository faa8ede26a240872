import numpy as np
from numpy.typing import NDArray

from ..keys import Keys

def hash_keys(keys: Keys, seed: int = 0) -> NDArray[np.uint64]: ...
def hash_one(value: bytes | memoryview, seed: int = 0) -> int: ...
