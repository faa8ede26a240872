"""Compiled kernels over numbers and bytes, independent of files, Arrow arrays and Parquet types."""

import sys

# The kernels read bitsets and plain encodings, which are little-endian, without conversion.
if sys.byteorder != "little":
    raise ImportError("parquet_bloom needs a little-endian processor")
