from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Keys:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __len__(self) -> int: ...
    @staticmethod
    def fixed(
        values: Any, width: int, length: int, offset: int = 0, validity: Any = None, lead: int = 0
    ) -> Keys: ...
    @staticmethod
    def variable(
        offsets: Any, data: Any, length: int, offset: int = 0, validity: Any = None, wide: bool = False, lead: int = 0
    ) -> Keys: ...
    @staticmethod
    def views(views: Any, buffers: Iterable[Any], length: int, offset: int = 0, validity: Any = None) -> Keys: ...
    @staticmethod
    def hashed(hashes: NDArray[np.uint64]) -> Keys: ...
