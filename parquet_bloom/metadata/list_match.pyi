from typing import Any

import numpy as np
from numpy.typing import NDArray

from .page_match import Targets

def search_lists(
    data: Any,
    pages: NDArray[np.int64],
    width: int,
    codec: int,
    least: NDArray[np.int64],
    max_definition: int,
    num_rows: int,
    num_values: int,
    targets: Targets,
) -> NDArray[np.int64]: ...
