"""Compiled kernels over numbers and bytes, independent of files, Arrow arrays and Parquet types.

`keys`, `hash` and `block` (one block of a split-block filter) are below `bloom`, `index` and `kernels`, which has the
loops over many keys; `dispatch` selects one set of loops by `cpu`, and `decode` is independent.
"""

import sys

# The kernels read bitsets and plain encodings, which are little-endian, without conversion.
if sys.byteorder != "little":
    raise ImportError("parquet_bloom needs a little-endian processor")
