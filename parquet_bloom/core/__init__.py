"""Compiled kernels over numbers and bytes, independent of files, Arrow arrays and Parquet types."""

import sys

if (
    sys.byteorder != "little"
):  # the kernels read bitsets and plain encodings, which are little-endian, without conversion
    raise ImportError("parquet_bloom needs a little-endian processor")
