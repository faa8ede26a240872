"""Compiled kernels over numbers and bytes, independent of files, Arrow arrays and Parquet types.

`hash` and `block` (one block of a split-block filter) are below `bloom` and `index`; `kernels` has the loops over many
keys, of which `dispatch` chooses one after asking `cpu`.
"""

import sys

# The kernels read bitsets and plain encodings, which are little-endian, without conversion.
if sys.byteorder != "little":
    raise ImportError("parquet_bloom needs a little-endian processor")
